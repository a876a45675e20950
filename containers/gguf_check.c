// SPDX-License-Identifier: MIT
/* containers/gguf_check.c - checks beyond those of gguf_open: tokenizer arrays and tensor data.
 *
 * gguf_check_tokenizer makes one pass over the vocabulary. gguf_check_data reads every byte of a
 * tensor, because a single NaN or infinite scale turns a block, and with it the whole output, into
 * NaN. qtype.def gives the position of scales in a block; types without scales are not checked. */
#include <stddef.h>
#include <string.h>

#include "base/attr.h"
#include "base/bytes.h"
#include "containers/gguf.h"
#include "base/hash.h"
#include "base/printable.h"
#include "base/str.h"

/* ---- tokenizer ------------------------------------------------------------------------------- */

/* Returns ERR_DATA if two tokens have the same text. Several may be empty, as in llama.cpp: they
 * are never found in text. */
static int check_token_texts(const struct gguf_kv *tokens, struct err *e) {
    struct strmap *seen = strmap_try_new((size_t)tokens->count, "the texts of tokens", e);
    if (!seen) return ERR_SYS;
    const uint8_t *pos = tokens->data;
    int rc = 0;
    for (uint64_t i = 0; i < tokens->count && !rc; i++) {
        const char *s;
        uint64_t len;
        gguf_kv_str_next(tokens, &pos, &s, &len);
        if (len && !strmap_add(seen, s, (size_t)len, (int64_t)i))
            rc = err_set(e, ERR_DATA, "tokens %lld and %llu have the same text \"%s\"",
                         (long long)strmap_get(seen, s, (size_t)len), (unsigned long long)i,
                         show_n(s, (size_t)len).s);
    }
    strmap_free(seen);
    return rc;
}

/* Checks an array that may be absent; if present, it must have one element of this type per
 * token. u32 counts as i32: MLX writes it, and llama.cpp reads both. */
static int check_parallel(const struct gguf *g, const char *key, enum gguf_vtype elem, uint64_t n,
                          struct err *e) {
    const struct gguf_kv *kv = gguf_find(g, key);
    if (!kv) return 0;
    const bool as_i32 = elem == GV_I32 && kv->elem == GV_U32;
    if (kv->type != GV_ARR || (kv->elem != elem && !as_i32))
        return err_set(e, ERR_DATA, "key \"%s\" is not an array of %s", key, gguf_vtype_name(elem));
    if (kv->count != n)
        return err_set(e, ERR_DATA, "key \"%s\" has %llu elements for %llu tokens", key,
                       (unsigned long long)kv->count, (unsigned long long)n);
    return 0;
}

/* Checks that merges are texts of two parts; required: they must not be absent. */
static int check_merges(const struct gguf *g, bool required, struct err *e) {
    static const char key[] = "tokenizer.ggml.merges";
    const struct gguf_kv *kv = gguf_find(g, key);
    if (!kv)
        return required
                   ? err_set(e, ERR_DATA, "key \"%s\" is missing, this tokenizer needs it", key)
                   : 0;
    if (kv->type != GV_ARR || (kv->elem != GV_STR && kv->count))
        return err_set(e, ERR_DATA, "key \"%s\" is not an array of strings", key);
    const uint8_t *pos = kv->data;
    for (uint64_t i = 0; i < kv->count; i++) {
        const char *s;
        uint64_t len;
        gguf_kv_str_next(kv, &pos, &s, &len);
        if (len < 2 || !memchr(s + 1, ' ', (size_t)len - 1))
            return err_set(e, ERR_DATA, "merge %llu \"%s\" is not two parts with a space between",
                           (unsigned long long)i, show_n(s, (size_t)len).s);
    }
    return 0;
}

/* Returns ERR_DATA if a key refers to a token id that is not below n. */
static int check_token_ids(const struct gguf *g, uint64_t n, struct err *e) {
    static const char pre[] = "tokenizer.ggml.", post[] = "_token_id";
    for (int64_t i = 0; i < gguf_n_kv(g); i++) {
        const struct gguf_kv *kv = gguf_kv_at(g, i);
        size_t len = strlen(kv->key);
        uint64_t id;
        if (len < sizeof pre + sizeof post || strncmp(kv->key, pre, sizeof pre - 1) != 0 ||
            strcmp(kv->key + len - (sizeof post - 1), post) != 0)
            continue;
        TRY(gguf_get_u64(g, kv->key, &id, e));
        if (id >= n)
            return err_set(e, ERR_DATA, "key \"%s\" is %llu, there are %llu tokens",
                           show_n(kv->key, len).s, (unsigned long long)id, (unsigned long long)n);
    }
    const struct gguf_kv *kv = gguf_find(g, "tokenizer.ggml.suppress_tokens");
    if (!kv || !kv->count) return 0;
    if (kv->type != GV_ARR || (kv->elem != GV_I32 && kv->elem != GV_U32))
        return err_set(e, ERR_DATA, "key \"%s\" is not an array of i32 or u32", kv->key);
    for (uint64_t k = 0; k < kv->count; k++) {
        int64_t id = gguf_kv_i64(kv, k);
        if (id < 0 || (uint64_t)id >= n)
            return err_set(e, ERR_DATA, "key \"%s\" names token %lld of %llu", kv->key,
                           (long long)id, (unsigned long long)n);
    }
    return 0;
}

/* Returns ERR_DATA if a chat template contains a NUL byte. */
static int check_templates(const struct gguf *g, struct err *e) {
    static const char prefix[] = "tokenizer.chat_template";
    for (int64_t i = 0; i < gguf_n_kv(g); i++) {
        const struct gguf_kv *kv = gguf_kv_at(g, i);
        if (kv->type == GV_STR && strncmp(kv->key, prefix, sizeof prefix - 1) == 0)
            TRY(str_no_nul((const char *)kv->data, (size_t)kv->count, kv->key, e));
    }
    return 0;
}

/* Returns ERR_DATA unless the tokenizer's keys are complete and consistent. */
static int check_tokenizer(const struct gguf *g, struct err *e) {
    TRY(check_templates(g, e));
    const char *model = gguf_str_or(g, "tokenizer.ggml.model", "none");
    if (strcmp(model, "none") == 0 || strcmp(model, "no_vocab") == 0) return 0;
    const struct gguf_kv *tokens = gguf_find(g, "tokenizer.ggml.tokens");
    if (!tokens) return err_set(e, ERR_DATA, "key \"tokenizer.ggml.tokens\" is missing");
    if (tokens->type != GV_ARR || tokens->elem != GV_STR || tokens->count == 0)
        return err_set(e, ERR_DATA, "key \"tokenizer.ggml.tokens\" is not an array of strings");
    TRY(check_token_texts(tokens, e));
    TRY(check_parallel(g, "tokenizer.ggml.token_type", GV_I32, tokens->count, e));
    TRY(check_parallel(g, "tokenizer.ggml.scores", GV_F32, tokens->count, e));
    TRY(check_merges(g, strcmp(model, "gpt2") == 0 || strcmp(model, "gemma4") == 0, e));
    return check_token_ids(g, tokens->count, e);
}

int gguf_check_tokenizer(const struct gguf *g, struct err *e) {
    if (!check_tokenizer(g, e)) return 0;
    if (strncmp(e->msg, gguf_path(g), strlen(gguf_path(g))) == 0)
        return (int)e->code; /* the getter's error already names the file */
    return err_wrap(e, "%s", gguf_path(g));
}

/* ---- data ------------------------------------------------------------------------------------ */

/* Returns whether the f16 bits are infinite or NaN. */
static bool f16_bad(uint16_t h) {
    return (h & 0x7c00u) == 0x7c00u;
}
/* Returns whether the value at p is infinite or NaN. */
static bool bad_f32(const uint8_t *p) {
    return (load_u32(p) & 0x7f800000u) == 0x7f800000u;
}
/* Returns whether the value at p is infinite or NaN. */
static bool bad_f64(const uint8_t *p) {
    return (load_u64(p) & 0x7ff0000000000000u) == 0x7ff0000000000000u;
}
/* Returns whether the value at p is infinite or NaN. */
static bool bad_f16(const uint8_t *p) {
    return f16_bad(load_u16(p));
}
/* Returns whether the value at p is infinite or NaN. */
static bool bad_bf16(const uint8_t *p) {
    return (load_u16(p) & 0x7f80u) == 0x7f80u;
}
/* Returns whether the value at p is NaN. */
static bool bad_e8m0(const uint8_t *p) {
    return *p == 255;
}
/* Returns whether the value at p is NaN. */
static bool bad_e4m3(const uint8_t *p) {
    return (*p & 0x7fu) == 0x7fu;
}
/* Returns whether the super scale of IQ1_M, in the top nibbles of four 16-bit words, is invalid. */
static bool bad_iq1m(const uint8_t *p) {
    unsigned h = 0;
    for (int i = 0; i < 4; i++) h |= (unsigned)(load_u16(p + 2 * i) >> 12) << (4 * i);
    return f16_bad((uint16_t)h);
}

/* For each kind of scale: a function that checks the scale at p, and the size of a scale if they
 * are consecutive; 0: they are at off[]. */
static const struct {
    bool (*bad)(const uint8_t *p);
    int n_bytes;
} checks[] = {
    [QS_F32] = {bad_f32, 0},   [QS_F64] = {bad_f64, 0},   [QS_F16] = {bad_f16, 0},
    [QS_BF16] = {bad_bf16, 0}, [QS_HALF] = {bad_f16, 0},  [QS_NIBBLES] = {bad_iq1m, 0},
    [QS_E8M0] = {bad_e8m0, 1}, [QS_E4M3] = {bad_e4m3, 1},
};

/* Returns whether a scale of the block is NaN or infinite. */
static bool bad_block(const struct qtype_scale *s, const uint8_t *p) {
    const int n = s->n ? s->n : 1;
    for (int i = 0; i < n; i++) {
        const int step = checks[s->kind].n_bytes;
        if (checks[s->kind].bad(p + (step ? s->off[0] + i * step : s->off[i]))) return true;
    }
    return false;
}

int gguf_check_data(const struct gguf *g, const struct gguf_tensor *t, struct err *e) {
    const struct qtype_info *qi = qtype_info(t->type);
    int64_t n = (int64_t)(t->n_bytes / (uint64_t)qi->block_bytes);
    const uint8_t *p = t->data;
    if (qi->scale.kind == QS_NONE) return 0;
    for (int64_t i = 0; i < n; i++, p += qi->block_bytes)
        if (bad_block(&qi->scale, p)) {
            err_set(e, ERR_DATA, "%s: tensor \"%s\": %s NaN or infinity at element %lld",
                    gguf_path(g), t->name,
                    qi->flags & QF_QUANT ? "a block scale is" : "the value is",
                    (long long)(i * qi->block_elems));
            return err_about(e, gguf_path(g), t->name);
        }
    return 0;
}
