// SPDX-License-Identifier: MIT
/* convert/dq_config.c - reads quantization_config: the method, the sizes and the few facts that the
 * stored tensors do not show. Rejects layouts that would be taken for another. */
#include <stdio.h>
#include <string.h>

#include "convert/dq_int.h"
#include "base/log.h"
#include "base/str.h"

/* Reads a block size, [rows, columns] or "ROWSxCOLUMNS". Returns false if it is neither. */
static bool read_block(const struct json *j, int64_t *rows, int64_t *cols) {
    const char *text = json_str(j);
    long long r = 0, c = 0;
    int used = 0;
    if (!text) {
        const struct json *first = json_first(j);
        return json_len(j) == 2 && json_i64(first, rows) && json_i64(json_next(first), cols) &&
               *rows > 0 && *cols > 0;
    }
    if (strlen(text) > 20 || sscanf(text, "%lldx%lld%n", &r, &c, &used) != 2 || text[used])
        return false;
    *rows = r;
    *cols = c;
    return r > 0 && c > 0;
}

/* Returns whether j names no block size: null, false or []. */
static bool no_block(const struct json *j) {
    const enum json_type type = json_type(j);
    return type == JSON_NULL || (type == JSON_BOOL && !json_bool(j, false)) ||
           (type == JSON_ARR && !json_len(j));
}

/* Sets the block size to the one in j. Rejects a second, different one. Blocks are optional; an
 * unreadable size is an error only if scales need it. */
static int set_block(struct dq_config *c, const struct json *j, const char *key, const char *where,
                     struct err *e) {
    int64_t rows = 0, cols = 0;
    if (no_block(j)) return 0;
    if (!read_block(j, &rows, &cols)) {
        c->bad_block = key;
        return 0;
    }
    if (c->block_rows && (c->block_rows != rows || c->block_cols != cols))
        return err_set(e, ERR_DATA,
                       "%s: config_groups has more than one block_structure, which is not "
                       "supported: convert the unquantized (BF16) release",
                       where);
    c->block_rows = rows;
    c->block_cols = cols;
    return 0;
}

/* Reads bit widths, block sizes and group sizes from the config_groups of compressed-tensors. If
 * group sizes differ, c->group becomes 0, and the shapes of the scales decide. */
static int read_groups(struct dq_config *c, const struct json *groups, bool blocks,
                       const char *where, struct err *e) {
    bool differ = false;
    for (const struct json *g = json_first(groups); g; g = json_next(g)) {
        const struct json *w = json_get(g, "weights");
        int64_t bits = 0, group = 0;
        if (json_i64(json_get(w, "num_bits"), &bits) && bits > 0 && bits < 32)
            c->widths |= 1u << bits;
        /* -1 means one group */
        if (json_i64(json_get(w, "group_size"), &group) && group > 0) {
            differ = differ || (c->group && c->group != group);
            c->group = group;
        }
        if (blocks) TRY(set_block(c, json_get(w, "block_structure"), "block_structure", where, e));
    }
    if (differ) c->group = 0;
    return 0;
}

/* Reads bit widths, block sizes and group sizes. */
static int read_sizes(struct dq_config *c, const struct json *q, const char *where, struct err *e) {
    const struct json *whole = json_get(q, "weight_block_size");
    const struct json *groups = json_get(q, "config_groups");
    const char *algo = json_str(json_get(q, "quant_algo"));
    TRY(set_block(c, whole, "weight_block_size", where, e));
    TRY(read_groups(c, groups, !c->block_rows, where, e));
    if (!json_get(json_first(groups), "weights")) {
        (void)json_i64(json_get(q, "group_size"), &c->group);
        c->group = max_i64(c->group, 0);
    }
    /* the blocks of ModelOpt always have this size */
    if (algo && strcmp(algo, "FP8_PB_WO") == 0 && !c->block_rows && !c->bad_block)
        c->block_rows = c->block_cols = 128;
    return 0;
}

struct packing {
    const char *method, *key, *allowed;
};

/* Rejects a packing named in j that is not allowed. */
static int check_named(const struct packing *p, const struct json *j, const char *where,
                       struct err *e) {
    const char *v = json_str(json_get(j, p->key));
    char quoted[48];
    if (!v) return 0;
    snprintf(quoted, sizeof quoted, "|%s|", v);
    if (strstr(p->allowed, quoted)) return 0;
    return err_set(e, ERR_DATA,
                   "%s: %s with %s \"%.40s\" cannot be converted: convert the unquantized (BF16) "
                   "release",
                   where, p->method, p->key, v);
}

/* Sets the method of an auto-round folder to the one whose layout its tensors have. */
static int resolve_auto_round(struct dq_config *c, const struct json *q, const char *where,
                              struct err *e) {
    static const char *const row[][2] = {{"auto_round:auto_gptq", "gptq"},
                                         {"auto_round:gptq", "gptq"},
                                         {"auto_round:auto_awq", "awq"},
                                         {"auto_round:awq", "awq"},
                                         {"auto_round:llm_compressor", "compressed-tensors"},
                                         {"auto_round:fp8_static", "fp8"}};
    const char *v = json_str(json_get(q, "packing_format"));
    if (strcmp(c->method, "auto-round") != 0) return 0;
    for (size_t i = 0; v && i < COUNT_OF(row); i++) {
        if (strcmp(row[i][0], v) != 0) continue;
        snprintf(c->method, sizeof c->method, "%s", row[i][1]);
        return 0;
    }
    return err_set(e, ERR_DATA,
                   "%s: auto-round with packing_format \"%.40s\" cannot be converted: convert the "
                   "unquantized (BF16) release",
                   where, v ? v : "unknown");
}

/* Rejects packings that have the tensor names of a known packing, but a different layout. */
static int check_packing(const struct dq_config *c, const struct json *q, const char *where,
                         struct err *e) {
    static const struct packing row[] = {
        {"gptq", "checkpoint_format", "|gptq|gptq_v2|"},
        {"gptq", "format", "|gptq|gptq_v2|"},
        {"awq", "version", "|gemm|GEMM|"},
        {"compressed-tensors", "format",
         "|dense|pack-quantized|int-quantized|float-quantized|naive-quantized|"
         "nvfp4-pack-quantized|mxfp4-pack-quantized|mxfp8-quantized|mixed-precision|"},
    };
    for (size_t i = 0; i < COUNT_OF(row); i++) {
        if (strcmp(row[i].method, c->method) != 0) continue;
        TRY(check_named(&row[i], q, where, e));
        /* mixed-precision: each group has a format of its own */
        const struct json *g = json_first(json_get(q, "config_groups"));
        for (; g; g = json_next(g)) TRY(check_named(&row[i], g, where, e));
    }
    return 0;
}

/* Rejects weights that expect rotated activations: a transform_config that is not merged into the
 * weights. */
static int check_transforms(const struct json *q, const char *where, struct err *e) {
    const struct json *groups = json_get(json_get(q, "transform_config"), "config_groups");
    for (const struct json *g = json_first(groups); g; g = json_next(g))
        for (const struct json *a = json_first(json_get(g, "apply")); a; a = json_next(a)) {
            const char *at = json_str(json_get(a, "location"));
            if (at && strncmp(at, "weight_", 7) == 0) continue;
            return err_set(e, ERR_DATA,
                           "%s: transform_config rotates activations (location \"%.40s\"), which "
                           "is not supported: convert the unquantized (BF16) release",
                           where, at ? at : "unknown");
        }
    return 0;
}

/* Returns whether j describes a rotation. "none" and an object of nulls do not. */
static bool is_rotation(const struct json *j) {
    const char *text = json_str(j);
    if (text) return *text && strcmp(text, "none") != 0;
    if (json_type(j) == JSON_BOOL) return json_bool(j, false);
    if (json_type(j) != JSON_OBJ) return json_len(j) > 0;
    for (j = json_first(j); j; j = json_next(j))
        if (json_type(j) != JSON_NULL) return true;
    return false;
}

/* Rejects weights that expect rotated activations, as named by GPTQModel and AutoRound. */
static int check_rotation(const struct json *q, const char *where, struct err *e) {
    static const char *const key[] = {"rotation", "rotation_config"};
    for (size_t i = 0; i < COUNT_OF(key); i++) {
        const struct json *v = json_get(q, key[i]);
        const char *text = json_str(v);
        if (is_rotation(v))
            return err_set(e, ERR_DATA,
                           "%s: %s%s%.40s%s rotates activations, which is not supported: convert "
                           "the unquantized (BF16) release",
                           where, key[i], text ? " \"" : "", text ? text : "", text ? "\"" : "");
    }
    return 0;
}

/* Reads whether FP8 weights are divided by their scales, as by GPTQModel. */
static int read_semantics(struct dq_config *c, const struct json *q, const char *where,
                          struct err *e) {
    const struct json *v = json_get(q, "weight_scale_semantics");
    const char *text = json_str(v);
    if (json_type(v) == JSON_NULL) return 0;
    c->inverse = text && strcmp(text, "inverse") == 0;
    if (c->inverse) return 0;
    return err_set(e, ERR_DATA,
                   "%s: weight_scale_semantics \"%.40s\" is not supported: convert the unquantized "
                   "(BF16) release",
                   where, text ? text : "unknown");
}

/* Returns whether j, a name with a version or a list of them, names a tool. */
static bool names_tool(const struct json *j, const char *tool) {
    const char *name = json_str(j);
    if (name) return strncmp(name, tool, strlen(tool)) == 0;
    for (j = json_first(j); j; j = json_next(j)) {
        name = json_str(j);
        if (name && strncmp(name, tool, strlen(tool)) == 0) return true;
    }
    return false;
}

/* Reads what the tensors of GPTQ do not show. */
static void read_gptq(struct dq_config *c, const struct json *q) {
    const char *format = json_str(json_get(q, "checkpoint_format"));
    if (!format) format = json_str(json_get(q, "format"));
    c->gptq_words = names_tool(json_get(json_get(q, "meta"), "quantizer"), "gptqmodel");
    c->gptq_v2 = format && strcmp(format, "gptq_v2") == 0;
    /* static groups are adjacent columns in any order */
    c->act_order = json_bool(json_get(q, "desc_act"), false) &&
                   !json_bool(json_get(q, "static_groups"), false);
}

/* Rejects sparse weights, which are stored as values and a mask. */
static int check_sparsity(const struct json *q, const char *where, struct err *e) {
    const char *format = json_str(json_get(json_get(q, "sparsity_config"), "format"));
    if (!format || strcmp(format, "dense") == 0) return 0;
    return err_set(e, ERR_DATA,
                   "%s: weights stored in the sparse format \"%.40s\" cannot be converted: convert "
                   "the dense (BF16) release",
                   where, format);
}

/* Returns whether all tensors of a folder are plain floats: a merged or dequantized model may still
 * have a quantization_config. */
static bool all_plain(const struct hfdir *dir) {
    static const char *const of_forms[] = {"scale", "scale_inv", "scales", "qzeros", "absmax"};
    const int64_t n = hfdir_n_tensors(dir);
    for (int64_t i = 0; i < n; i++) {
        const struct st_tensor *t = hfdir_tensor_at(dir, i);
        if (!((DQ_FLOATS | DQ_INTS | DQ_T(ST_F64) | DQ_T(ST_BOOL)) >> t->dtype & 1)) return false;
        for (size_t k = 0; k < COUNT_OF(of_forms); k++)
            if (str_ends(t->name, of_forms[k])) return false;
        if (DQ_INTS >> t->dtype & 1 && t->n_dims > 1 && t->shape[0] > 1) return false;
    }
    return n > 0;
}

int dq_config_read(struct dq_config *c, struct hfdir *dir, struct err *e) {
    static const char known[] =
        "|fp8|compressed-tensors|gptq|awq|mxfp4|bitsandbytes|modelopt|fbgemm_fp8|auto-round|";
    static const struct { /* written as a separate file by older tools */
        const char *file, *method;
    } older[] = {{"quantize_config.json", "gptq"}, {"quant_config.json", "awq"}};
    const char *file = "config.json", *method = NULL;
    const struct json *q = hfdir_hparam(dir, "quantization_config|compression_config");
    memset(c, 0, sizeof *c);
    for (size_t i = 0; i < COUNT_OF(older) && json_type(q) != JSON_OBJ; i++) {
        TRY(hfdir_json(dir, older[i].file, &q, e));
        file = older[i].file;
        method = older[i].method;
    }
    if (json_type(q) != JSON_OBJ || !json_len(q)) return 0;
    if (all_plain(dir)) {
        log_info("%s describes a quantization, but the weights are plain numbers", file);
        return 0;
    }
    const char *said = json_str(json_get(q, "quant_method"));
    if (said) method = said;
    char where[DQ_NAME], quoted[48];
    snprintf(where, sizeof where, "%s/%s", hfdir_path(dir), file);
    snprintf(quoted, sizeof quoted, "|%s|", method ? method : "");
    if (!method || !*method || !strstr(known, quoted))
        return err_set(e, ERR_DATA,
                       "%s is quantized with quant_method \"%.40s\", which cannot be converted: "
                       "use the unquantized (BF16) release",
                       hfdir_path(dir), method ? method : "unknown");
    snprintf(c->method, sizeof c->method, "%s", method);
    read_gptq(c, q);
    TRY(read_semantics(c, q, where, e));
    TRY(resolve_auto_round(c, q, where, e));
    TRY(check_packing(c, q, where, e));
    TRY(check_transforms(q, where, e));
    TRY(check_rotation(q, where, e));
    TRY(check_sparsity(q, where, e));
    return read_sizes(c, q, where, e);
}
