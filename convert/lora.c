// SPDX-License-Identifier: MIT
/* convert/lora.c - LoRA adapters: settings, tensor names, and the check that all tensors were used.
 * lora_bind.c finds the tensors for a weight.
 *
 * A tensor's name is that of the module, with "base_model.model." before it and ".lora_A.weight" or
 * ".lora_B.weight" after it. Some tools add wrappers ("_orig_mod."), the adapter's name
 * (".default") or "modules_to_save."; these parts are removed. */
#include "convert/lora.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "convert/hf_names.h"
#include "convert/lora_int.h"
#include "base/attr.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"
#include "text/re.h"

/* ---- settings ---- */

/* Kinds of adapters that do not modify weights. */
static const char *const not_weights[] = {"PROMPT_TUNING", "MULTITASK_PROMPT_TUNING",
                                          "P_TUNING",      "PREFIX_TUNING",
                                          "CPT",           "ADAPTION_PROMPT"};
/* Settings that affect the merged weights in ways that hone does not support. */
static const char *const unsupported[] = {
    "use_dora",    "lora_bias",         "use_qalora",        "use_bdlora",
    "kasa_config", "monteclora_config", "layer_replication", "trainable_token_indices",
    "arrow_config"};
/* Parts of tensor names that indicate one of these settings. */
static const char *const of_setting[][2] = {{"lora_magnitude_vector", "use_dora"},
                                            {"lora_B.bias", "lora_bias"},
                                            {"trainable_tokens_", "trainable_token_indices"}};
/* Values of init_lora_weights with which peft first subtracts part of the base weights. */
static const char *const takes_out[] = {"pissa", "olora", "corda", "loftq", "lora_ga"};

/* Returns ERR_DATA unless the adapter is a LoRA in peft's format. */
static int check_type(const struct lora *l, struct err *e) {
    const char *type = json_str(json_get(l->cfg, "peft_type"));
    if (type && strcmp(type, "LORA") == 0) return 0;
    if (!type && json_get(l->cfg, "fine_tune_type"))
        return err_set(
            e, ERR_DATA,
            "%s describes an MLX adapter, which is not supported: merge it with mlx_lm.fuse "
            "--dequantize and convert the result",
            l->path);
    if (!type)
        return err_set(e, ERR_DATA,
                       "%s has no peft_type, so it is not the configuration of a peft adapter",
                       l->path);
    for (size_t i = 0; i < COUNT_OF(not_weights); i++)
        if (strcmp(type, not_weights[i]) == 0)
            return err_set(e, ERR_DATA,
                           "%s: peft_type \"%s\" adds to the input of a model, not to its weights, "
                           "so it cannot be merged into a file",
                           l->path, type);
    return err_set(e, ERR_DATA,
                   "%s: peft_type is \"%.40s\", only LORA adapters are merged here: " LORA_MERGE,
                   l->path, type);
}

/* Reads a number of the adapter's config; leaves *out unchanged if it is absent. */
static int read_number(const struct lora *l, const char *what, const struct json *j, double *out,
                       struct err *e) {
    if (!j) return 0;
    const double v = json_num(j, (double)NAN);
    if (!isfinite(v))
        return err_set(e, ERR_DATA, "%s: %s is not a finite number: correct the file", l->path,
                       what);
    *out = v;
    return 0;
}

/* Reads the number `name` and checks the numbers of `pattern`. */
static int check_numbers(const struct lora *l, const char *name, const char *pattern, double *out,
                         struct err *e) {
    const struct json *list = json_get(l->cfg, pattern);
    char what[40];
    double ignored;
    if (!(l->no_rank && out == &l->rank)) TRY(read_number(l, name, json_get(l->cfg, name), out, e));
    if (json_type(list) == JSON_ARR && !json_len(list)) return 0; /* no pattern */
    if (list && json_type(list) != JSON_OBJ && json_type(list) != JSON_NULL)
        return err_set(e, ERR_DATA, "%s: %s is not an object of names and numbers", l->path,
                       pattern);
    snprintf(what, sizeof what, "a value of %s", pattern);
    for (const struct json *j = json_first(list); j; j = json_next(j))
        TRY(read_number(l, what, j, &ignored, e));
    return 0;
}

/* Returns ERR_DATA if the adapter uses an option that is not supported. */
static int check_config(struct lora *l, struct err *e) {
    TRY(check_type(l, e));
    for (size_t i = 0; i < COUNT_OF(unsupported); i++) {
        const struct json *j = json_get(l->cfg, unsupported[i]);
        if (json_bool(j, false) || json_len(j) > 0)
            return err_set(e, ERR_DATA, "%s: %s is not supported: " LORA_MERGE, l->path,
                           unsupported[i]);
    }
    const struct json *tokens = json_get(l->cfg, "alora_invocation_tokens");
    if (json_type(tokens) == JSON_ARR)
        return err_set(e, ERR_DATA,
                       "%s: alora_invocation_tokens: the adapter acts after these tokens only, so "
                       "it cannot be merged",
                       l->path);
    const char *init = json_str(json_get(l->cfg, "init_lora_weights"));
    for (size_t i = 0; i < COUNT_OF(takes_out) && init; i++)
        if (strncmp(init, takes_out[i], strlen(takes_out[i])) == 0)
            return err_set(
                e, ERR_DATA,
                "%s: init_lora_weights \"%.40s\" subtracts a part from the base weights, "
                "which is not supported: " LORA_MERGE,
                l->path, init);
    l->alpha = l->rank = 8; /* defaults of LoraConfig */
    l->no_rank = json_type(json_get(l->cfg, "r")) == JSON_NULL;
    TRY(check_numbers(l, "lora_alpha", "alpha_pattern", &l->alpha, e));
    return check_numbers(l, "r", "rank_pattern", &l->rank, e);
}

/* Determines from the peft version how fused experts are stored: up to 0.19.0, A spans the first
 * dimension of each matrix, from 0.19.1 on the matrix's inputs. Versions before 0.18 do not write
 * fused experts. */
static void read_version(struct lora *l) {
    const char *v = json_str(json_get(l->cfg, "peft_version"));
    int major = 0, minor = 0, patch = 0;
    if (v) (void)sscanf(v, "%d.%d.%d", &major, &minor, &patch);
    l->rows_first = major == 0 && (minor < 19 || (minor == 19 && patch == 0));
    l->swapped_0 = major == 0 && minor == 19 && patch == 0;
}

/* Matches keys as peft does, with re.match(rf"(.*\.)?({key})$", module); the first match counts. */
int lora_pattern(const struct lora *l, const char *pattern, const char *module, double *out,
                 struct err *e) {
    for (const struct json *j = json_first(json_get(l->cfg, pattern)); j; j = json_next(j)) {
        char *re = xasprintf("\\A(.*\\.)?(%s)$", json_name(j));
        enum re_answer is = RE_NO;
        int rc = re_search(re, module, strlen(module), &is, e);
        free(re);
        if (!rc && is == RE_GAVE_UP)
            rc = err_set(e, ERR_DATA, "the pattern takes too long: " LORA_MERGE);
        if (rc) return err_wrap(e, "%s: %s \"%.80s\"", l->path, pattern, json_name(j));
        if (is != RE_YES) continue;
        *out = json_num(j, *out);
        return 0;
    }
    return 0;
}

/* ---- names ---- */

/* Removes n bytes from a string, starting at `at`. */
static void remove_bytes(char *at, size_t n) {
    memmove(at, at + n, strlen(at + n) + 1);
}

/* Removes every occurrence of `part` that is delimited by dots or the ends of the name. */
static void cut_part(char *name, const char *part) {
    const size_t n = strlen(part);
    for (char *at = strstr(name, part); at;)
        if (at == name || at[-1] == '.') {
            remove_bytes(at, n);
            at = strstr(at, part);
        } else
            at = strstr(at + 1, part);
}

/* Removes the adapter's name, which tools other than peft leave in tensor names such as
 * ".lora_A.default.weight" and ".modules_to_save.default.weight". */
static void cut_adapter(char *name) {
    static const char *const before[] = {".lora_A.", ".lora_B.", ".lora_embedding_A.",
                                         ".lora_embedding_B.", ".modules_to_save."};
    for (size_t i = 0; i < COUNT_OF(before); i++) {
        char *at = strstr(name, before[i]);
        if (!at) continue;
        at += strlen(before[i]);
        const size_t n = strcspn(at, ".");
        if (at[n] == '.')
            remove_bytes(at, n + 1);
        else if (strncmp(before[i], ".lora_embedding", 15) == 0)
            at[-1] = 0;
    }
    cut_part(name, "modules_to_save.");
}

/* Returns a tensor's name without wrappers and adapter parts, in the arena. */
static const char *module_name(struct lora *l, const char *name) {
    static const char *const wrapper[] = {"_orig_mod.", "_fsdp_wrapped_module.",
                                          "_checkpoint_wrapped_module.", "module."};
    static const char head[] = "base_model.model.";
    char *out = arena_strdup(&l->arena, name);
    for (size_t i = 0; i < COUNT_OF(wrapper); i++) cut_part(out, wrapper[i]);
    if (strncmp(out, head, sizeof head - 1) == 0) remove_bytes(out, sizeof head - 1);
    cut_adapter(out);
    return out;
}

/* Returns a module's name as spelled in the tables: "model.language_model.layers..." and, in a
 * model without a head, "layers..." become "model.layers...". */
static const char *plain_name(struct lora *l, const char *module) {
    static const char *const bare[] = {"layers.", "embed_tokens.", "norm.", "h.", "wte."};
    char *out = arena_strdup(&l->arena, module);
    cut_part(out, "language_model.");
    for (size_t i = 0; i < COUNT_OF(bare); i++) {
        if (strncmp(out, bare[i], strlen(bare[i])) != 0) continue;
        const size_t n = strlen(out), head = i < 3 ? 6 : 12;
        char *longer = arena_alloc(&l->arena, n + head + 1);
        memcpy(longer, i < 3 ? "model." : "transformer.", head);
        memcpy(longer + head, out, n + 1);
        return longer;
    }
    return out;
}

/* ---- opening ---- */

/* Opens adapter_model.safetensors; explains how to convert a .bin file. */
static int open_file(struct lora *l, struct err *e) {
    char *path = io_join(l->dir, "adapter_model.safetensors");
    char *pickle = io_join(l->dir, "adapter_model.bin");
    int rc = 0;
    if (!io_exists(path) && io_exists(pickle))
        rc = err_set(e, ERR_DATA,
                     "%s is a pickle, which can run code and is not read: load the adapter with "
                     "peft and save it again, which writes adapter_model.safetensors",
                     pickle);
    if (!rc) rc = st_open(&l->st, path, e);
    free(path);
    free(pickle);
    return rc;
}

/* Returns ERR_DATA unless the tensor's dtype is a float. */
static int check_tensor(const struct lora *l, const struct st_tensor *t, struct err *e) {
    if (t->dtype != ST_F32 && t->dtype != ST_F16 && t->dtype != ST_BF16 && t->dtype != ST_F64)
        return err_set(
            e, ERR_DATA,
            "%s: tensor %s has dtype %s, but adapters must be F32, F16, BF16 or F64: " LORA_MERGE,
            st_path(l->st), LORA_SHOW(t->name), st_dtype_name(t->dtype));
    return 0;
}

/* Returns ERR_DATA if a tensor has no values, as in a save of sharded weights. */
static int check_gathered(const struct lora *l, struct err *e) {
    static const char way[] =
        "save the adapter again, with DeepSpeed ZeRO-3 or FSDP after gathering its shards";
    const char *empty = st_empty_name(l->st);
    if (l->n == 0)
        return err_set(e, ERR_DATA, "%s has no tensors with values: %s", st_path(l->st), way);
    if (empty)
        return err_set(e, ERR_DATA, "%s: tensor %s has no values: %s", st_path(l->st),
                       LORA_SHOW(empty), way);
    return 0;
}

/* Indexes tensor i by name. If the vocabulary was resized, peft writes trained embeddings and heads
 * twice, and loads the one without "modules_to_save." in its name. `copies`: only tensors with it
 * are added, unless the other one is there. */
static int add_tensor(struct lora *l, int64_t i, bool copies, struct err *e) {
    const struct st_tensor *t = st_tensor_at(l->st, i);
    if (l->used[i] || copies != (strstr(t->name, ".modules_to_save.") != NULL)) return 0;
    TRY(check_tensor(l, t, e));
    if (strmap_add(l->by_name, l->plain[i], strlen(l->plain[i]), i)) return 0;
    l->used[i] = copies;
    return copies ? 0
                  : err_set(e, ERR_DATA, "%s: tensor %s appears twice", st_path(l->st),
                            LORA_SHOW(t->name));
}

/* Opens the adapter's tensors and indexes them by name. */
static int open_tensors(struct lora *l, struct err *e) {
    TRY(open_file(l, e));
    l->n = st_n_tensors(l->st);
    TRY(check_gathered(l, e));
    l->by_name = strmap_new((size_t)l->n);
    l->used = xcalloc((size_t)l->n + 1, sizeof *l->used);
    l->module = xcalloc((size_t)l->n + 1, sizeof *l->module);
    l->plain = xcalloc((size_t)l->n + 1, sizeof *l->plain);
    for (int64_t i = 0; i < l->n; i++) {
        const char *name = st_tensor_at(l->st, i)->name;
        l->module[i] = module_name(l, name);
        l->plain[i] = plain_name(l, l->module[i]);
        l->used[i] = strstr(name, ".original_module.") != NULL; /* unmodified copy */
    }
    for (int64_t i = 0; i < 2 * l->n; i++) TRY(add_tensor(l, i % l->n, i >= l->n, e));
    return 0;
}

/* Returns whether the folder has a tokenizer. */
static bool find_tokenizer(const char *dir) {
    static const char *const name[] = {"tokenizer.json", "tokenizer.model", "tekken.json",
                                       "tiktoken.model"};
    bool has = false;
    for (size_t i = 0; i < COUNT_OF(name) && !has; i++) {
        char *path = io_join(dir, name[i]);
        has = io_exists(path);
        free(path);
    }
    return has;
}

int lora_open(struct lora **out, const char *dir, struct err *e) {
    struct lora *l = xcalloc(1, sizeof *l);
    arena_init(&l->arena);
    l->dir = xstrdup(dir);
    l->path = io_join(dir, "adapter_config.json");
    int rc = 0;
    if (io_exists(dir) && !io_exists(l->path))
        rc = err_set(e, ERR_DATA,
                     "%s is not the folder of a peft adapter: it has no adapter_config.json", dir);
    if (!rc) rc = json_read_py(&l->cfg, l->path, 1 << 20, e);
    if (!rc) rc = check_config(l, e);
    if (!rc) rc = open_tensors(l, e);
    if (rc) {
        lora_close(l);
        return rc;
    }
    l->rslora = json_bool(json_get(l->cfg, "use_rslora"), false);
    l->has_tokenizer = find_tokenizer(dir);
    read_version(l);
    *out = l;
    return 0;
}

void lora_close(struct lora *l) {
    if (!l) return;
    st_close(l->st);
    strmap_free(l->by_name);
    json_free(l->cfg);
    arena_release(&l->arena);
    free(l->used);
    free(l->module);
    free(l->plain);
    free(l->path);
    free(l->dir);
    free(l);
}

const char *lora_dir(const struct lora *l, bool *has_tokenizer) {
    *has_tokenizer = l->has_tokenizer;
    return l->dir;
}

/* ---- after binding ---- */

/* Returns ERR_DATA if tensor i has a NaN or infinity. */
static int check_finite(const struct lora *l, int64_t i, struct err *e) {
    const struct st_tensor *t = st_tensor_at(l->st, i);
    float x[1024];
    for (int64_t k = 0; k < t->n_elems; k += (int64_t)COUNT_OF(x)) {
        const int64_t n = min_i64((int64_t)COUNT_OF(x), t->n_elems - k);
        TRY(st_to_f32(t, k, n, x, e));
        for (int64_t m = 0; m < n; m++)
            if (!isfinite(x[m]))
                return err_set(
                    e, ERR_DATA,
                    "%s: %s: value %lld is %s: the training failed, or the file is damaged",
                    st_path(l->st), LORA_SHOW(t->name), (long long)(k + m),
                    isnan(x[m]) ? "NaN" : "infinite");
    }
    return 0;
}

/* Returns the name of the matrix missing from tensor i's pair; NULL if the adapter has both. */
static const char *missing_half(struct lora *l, int64_t i) {
    static const char *const pair[][2] = {{"lora_A", "lora_B"},
                                          {"lora_embedding_A", "lora_embedding_B"}};
    for (size_t k = 0; k < 2 * COUNT_OF(pair); k++) {
        const char *is = pair[k / 2][k % 2], *other = pair[k / 2][1 - k % 2];
        char *name = arena_strdup(&l->arena, l->plain[i]), *at = strstr(name, is);
        if (!at || at == name || at[-1] != '.') continue;
        memcpy(at, other, strlen(other));
        return strmap_get(l->by_name, name, strlen(name)) < 0 ? other : NULL;
    }
    return NULL;
}

/* Reports why a tensor was not used. */
static int unused_tensor(struct lora *l, int64_t i, struct err *e) {
    const char *name = st_tensor_at(l->st, i)->name, *other = missing_half(l, i);
    for (size_t k = 0; k < COUNT_OF(of_setting); k++)
        if (strstr(name, of_setting[k][0]))
            return err_set(e, ERR_DATA,
                           "%s: tensor %s belongs to %s, which is not supported: " LORA_MERGE,
                           st_path(l->st), LORA_SHOW(name), of_setting[k][1]);
    if (other)
        return err_set(e, ERR_DATA, "%s: tensor %s has no matching %s: save the adapter again",
                       st_path(l->st), LORA_SHOW(name), other);
    return err_set(
        e, ERR_DATA,
        "%s: tensor %s does not apply to any converted weight: the base has no such %s, "
        "transformers names it differently in memory, the adapter was made for another model, or "
        "it trains parts that are left out; " LORA_MERGE,
        st_path(l->st), LORA_SHOW(name), str_ends(name, "bias") ? "bias" : "weight");
}

int lora_all_used(struct lora *l, const struct arch *a, struct err *e) {
    int64_t n = 0;
    for (int64_t i = 0; i < l->n; i++) {
        const char *name = st_tensor_at(l->st, i)->name;
        if (l->used[i]) {
            TRY(check_finite(l, i, e));
            continue;
        }
        if (hf_names_tower(a, name) && !strstr(name, "lm_head.")) {
            n++;
            continue;
        }
        return unused_tensor(l, i, e);
    }
    if (n)
        log_warn("%lld tensors of the adapter change the vision or audio tower, which is left out; "
                 "for a projector file " LORA_MERGE,
                 (long long)n);
    return 0;
}
