// SPDX-License-Identifier: MIT
/* models/qwen35.c - Qwen3.5, 3.6, 3.8 dense, and the parts the MoE form shares (qwen35.h). */
#include "models/qwen35.h"

#include <string.h>

#include "core/hfdir.h"
#include "core/json.h"

const char *const qwen35_skip[] = {"visual.", "vision_tower.", NULL};

/* GGUF gives the inner size, config.json the value head width: each from the other. */
static int derive_linear(struct hparams *h, struct err *e) {
    int64_t *d = h->d;
    if (d[HD_LIN_V_HEADS] % d[HD_LIN_K_HEADS])
        return err_set(e, ERR_DATA, "%lld linear value heads cannot share %lld key heads",
                       (long long)d[HD_LIN_V_HEADS], (long long)d[HD_LIN_K_HEADS]);
    if (!d[HD_LIN_V_DIM]) {
        d[HD_LIN_V_DIM] = d[HD_LIN_INNER] ? d[HD_LIN_INNER] / d[HD_LIN_V_HEADS] : d[HD_LIN_K_DIM];
        if (d[HD_LIN_INNER] && (d[HD_LIN_V_DIM] == 0 || d[HD_LIN_INNER] % d[HD_LIN_V_HEADS]))
            return err_set(e, ERR_DATA, "ssm.inner_size %lld is not a multiple of %lld value heads",
                           (long long)d[HD_LIN_INNER], (long long)d[HD_LIN_V_HEADS]);
    }
    TRY(hparams_mul(h, HD_LIN_INNER, d[HD_LIN_V_HEADS], d[HD_LIN_V_DIM], e));
    TRY(hparams_mul(h, HD_CONV_CH, d[HD_LIN_K_HEADS], d[HD_LIN_K_DIM], e));
    d[HD_CONV_CH] = 2 * d[HD_CONV_CH] + d[HD_LIN_INNER];
    return 0;
}

int qwen35_derive(struct hparams *h, struct err *e) {
    TRY(derive_attn(h, 2, e));
    TRY(derive_linear(h, e));
    memset(h->recurrent, 0, sizeof h->recurrent); /* MTP blocks are full attention */
    for (int64_t i = 0; i < h->d[HD_LAYERS]; i++)
        h->recurrent[i] = (i + 1) % h->d[HD_FULL_INTERVAL] != 0;
    return 0;
}

/* The interval that layer_types follows; other sequences cannot be said in GGUF. */
static int interval_from_types(struct hparams *h, const struct json *types, struct err *e) {
    int64_t n = 0, first_full = 0, interval = h->d[HD_FULL_INTERVAL];
    for (const struct json *t = json_first(types); t; t = json_next(t)) {
        const char *s = json_str(t);
        n++;
        if (s && strcmp(s, "full_attention") == 0) {
            if (!first_full) first_full = n;
        } else if (!s || strcmp(s, "linear_attention") != 0)
            return err_set(e, ERR_DATA,
                           "layer_types[%lld] is neither linear_attention nor "
                           "full_attention",
                           (long long)(n - 1));
    }
    if (n != h->d[HD_LAYERS])
        return err_set(e, ERR_DATA, "layer_types has %lld entries for %lld layers", (long long)n,
                       (long long)h->d[HD_LAYERS]);
    if (first_full)
        interval = first_full;
    else if (interval <= n)
        interval = n + 1;
    int64_t i = 0;
    for (const struct json *t = json_first(types); t; t = json_next(t), i++)
        if ((strcmp(json_str(t), "full_attention") == 0) != ((i + 1) % interval == 0))
            return err_set(e, ERR_DATA,
                           "layer_types follows no interval (layer %lld breaks "
                           "\"every %lldth is full attention\"), which the format cannot hold",
                           (long long)i, (long long)interval);
    h->d[HD_FULL_INTERVAL] = interval;
    return 0;
}

/* The rotated share of each head, and the mrope sections. */
static int rope_from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const int64_t usual[4] = {11, 11, 10, 0};
    const struct json *rope = hfdir_hparam(dir, "rope_parameters");
    if (json_type(rope) != JSON_OBJ) rope = hfdir_hparam(dir, "rope_scaling");
    const struct json *j = json_get(rope, "partial_rotary_factor");
    if (!j) j = hfdir_hparam(dir, "partial_rotary_factor");
    double part = json_num(j, 0.25);
    int64_t head_dim = h->d[HD_HEAD_DIM] ? h->d[HD_HEAD_DIM] : h->d[HD_EMBD] / h->d[HD_HEADS];
    if (!(part > 0 && part <= 1))
        return err_set(e, ERR_DATA, "partial_rotary_factor %g is not in (0, 1]", part);
    h->d[HD_ROT] = (int64_t)((double)head_dim * part);
    if (h->d[HD_ROT] < 2)
        return err_set(e, ERR_DATA, "partial_rotary_factor %g leaves nothing to rotate", part);
    for (int i = 0; i < 4; i++) h->d[HD_ROPE_SEC0 + i] = usual[i];
    j = json_get(rope, "mrope_section");
    if (json_type(j) != JSON_ARR) return 0;
    int i = 0;
    for (const struct json *s = json_first(j); s; s = json_next(s), i++)
        if (i >= 4 || !json_i64(s, &h->d[HD_ROPE_SEC0 + i]) || h->d[HD_ROPE_SEC0 + i] < 0 ||
            h->d[HD_ROPE_SEC0 + i] > INT32_MAX)
            return err_set(e, ERR_DATA, "mrope_section is not a list of up to 4 small numbers");
    for (; i < 4; i++) h->d[HD_ROPE_SEC0 + i] = 0;
    return 0;
}

int qwen35_from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    TRY(hf_check_rope(dir, e));
    TRY(rope_from_hf(h, dir, e));
    if (json_bool(hfdir_hparam(dir, "attention_bias"), false))
        return err_set(e, ERR_DATA, "attention_bias is true, which this architecture cannot hold");
    if (!json_bool(hfdir_hparam(dir, "attn_output_gate"), true))
        return err_set(e, ERR_DATA,
                       "attn_output_gate is false, which this architecture cannot hold");
    const struct json *types = hfdir_hparam(dir, "layer_types");
    return json_type(types) == JSON_ARR ? interval_from_types(h, types, e) : 0;
}

static const char *sections_key(const struct hparams *h) {
    return h->d[HD_EXPERTS] > 0 ? "qwen35moe.rope.dimension_sections"
                                : "qwen35.rope.dimension_sections";
}

void qwen35_write_keys(const struct hparams *h, struct gguf_w *w) {
    int32_t sec[4];
    for (int i = 0; i < 4; i++) sec[i] = (int32_t)h->d[HD_ROPE_SEC0 + i];
    gguf_w_arr(w, sections_key(h), GV_I32, sec, 4);
}

int qwen35_read_keys(struct hparams *h, const struct gguf *g, struct err *e) {
    const char *key = sections_key(h);
    const struct gguf_kv *kv = gguf_find(g, key);
    if (!kv) return err_set(e, ERR_DATA, "the key %s is missing", key);
    if (kv->type != GV_ARR || (kv->elem != GV_I32 && kv->elem != GV_U32) || kv->count > 4)
        return err_set(e, ERR_DATA, "%s is not an array of up to 4 integers", key);
    for (uint64_t i = 0; i < kv->count; i++) h->d[HD_ROPE_SEC0 + i] = gguf_kv_i64(kv, i);
    return 0;
}

static gr_reg gated_attn(struct build *b, gr_reg in) {
    return part_attn(b, in, PART_Q_GATED);
}

int qwen35_graph(const struct arch *a, const struct hparams *h, struct graph *g, part_fn ffn,
                 bool draft, struct err *e) {
    const struct part_blocks p = {.full = gated_attn,
                                  .linear = part_delta,
                                  .ffn = ffn,
                                  .ffn_norm = "post_attention_norm.weight"};
    return draft ? part_draft(a, h, g, &p, e) : part_decoder(a, h, g, &p, e);
}

static const char *const hf_classes[] = {"Qwen3_5ForConditionalGeneration", "Qwen3_5ForCausalLM",
                                         NULL};
static const struct hp_row hp[] = {QWEN35_HP_ROWS, HP_ROW_FF, {.slot = -1}};
static const struct tensor_row tensors[] = {
    ROW_TOKEN_EMBD,           QWEN35_MIX_ROWS, ROWS_FFN,       QWEN35_MTP_ROWS,
    ROW_OUTPUT_NORM(XF_ADD1), ROW_OUTPUT,      {.gguf = NULL},
};

static int build(const struct hparams *h, struct graph *g, struct err *e);
static int build_draft(const struct hparams *h, struct graph *g, struct err *e);
extern const struct arch arch_qwen35;
const struct arch arch_qwen35 = {
    .name = "qwen35",
    .hf_classes = hf_classes,
    .family = "Qwen 3.5",
    .size_note = "hybrid gated delta net, dense",
    .hp = hp,
    .tensors = tensors,
    .skip = qwen35_skip,
    .derive = qwen35_derive,
    .from_hf = qwen35_from_hf,
    .write_keys = qwen35_write_keys,
    .read_keys = qwen35_read_keys,
    .build = build,
    .build_draft = build_draft,
};

static int build(const struct hparams *h, struct graph *g, struct err *e) {
    return qwen35_graph(&arch_qwen35, h, g, part_ffn, false, e);
}
static int build_draft(const struct hparams *h, struct graph *g, struct err *e) {
    return qwen35_graph(&arch_qwen35, h, g, part_ffn, true, e);
}
