// SPDX-License-Identifier: MIT
/* text/tok_gguf.c - a tokenizer from a GGUF's tokenizer.ggml.* keys, and those keys from a
 * tokenizer.
 *
 * A GGUF stores neither normalizer nor split regex nor ignore_merges: the name in `pre` implies
 * them (pretok.def). Lists are checked for type and length before use; nothing is borrowed from
 * the map. */
#include "text/tok_int.h"

#include <stdlib.h>
#include <string.h>

#include "core/gguf.h"
#include "core/log.h"
#include "core/mem.h"

#define KEY(name) "tokenizer.ggml." name

static const char *const special_key[TS_COUNT] = {
    [TS_BOS] = KEY("bos_token_id"),       [TS_EOS] = KEY("eos_token_id"),
    [TS_EOT] = KEY("eot_token_id"),       [TS_UNK] = KEY("unknown_token_id"),
    [TS_SEP] = KEY("seperator_token_id"), [TS_PAD] = KEY("padding_token_id"),
    [TS_MASK] = KEY("mask_token_id"),
};

static int string_list(const struct gguf *g, const char *key, const struct gguf_kv **out,
                       struct err *e) {
    const struct gguf_kv *kv = gguf_find(g, key);
    if (!kv)
        return err_set(
            e, ERR_DATA,
            "%s: key %s is missing, so text cannot be tokenized: convert the model again "
            "with its tokenizer files",
            gguf_path(g), key);
    if (kv->type != GV_ARR || kv->elem != GV_STR)
        return err_set(e, ERR_DATA, "%s: key %s is not a list of strings", gguf_path(g), key);
    *out = kv;
    return 0;
}

#define STILL "; eval speed, plan, quantize and inspect need none"

static int known(const struct gguf *g, const char *model, const char *pre, struct err *e) {
    if (strcmp(model, "gemma4") == 0) return 0;
    if (strcmp(model, "gpt2") != 0)
        return err_set(e, ERR_DATA,
                       "%s: hone reads no text for this model yet: of tokenizers it knows \"gpt2\" "
                       "(byte-level BPE) and \"gemma4\", not \"%.64s\"%s" STILL,
                       gguf_path(g), model, strcmp(model, "llama") == 0 ? " (SentencePiece)" : "");
    if (pretok_by_name(pre ? pre : "gpt-2")) return 0;
    struct buf names = {0};
    pretok_names(&names);
    err_set(e, ERR_DATA,
            "%s: hone reads no text for this model yet: of pre-tokenizers it knows %s, not "
            "\"%.64s\"" STILL,
            gguf_path(g), names.data, pre);
    buf_release(&names);
    return ERR_DATA;
}

int tok_gguf_known(const struct gguf *g, struct err *e) {
    const char *model, *pre = NULL;
    TRY(gguf_get_str(g, KEY("model"), &model, e));
    if (gguf_find(g, KEY("pre"))) TRY(gguf_get_str(g, KEY("pre"), &pre, e));
    return known(g, model, pre, e);
}

static int read_kind(struct tok *t, const struct gguf *g, struct err *e) {
    const char *model, *pre = NULL;
    TRY(gguf_get_str(g, KEY("model"), &model, e));
    if (gguf_find(g, KEY("pre"))) TRY(gguf_get_str(g, KEY("pre"), &pre, e));
    if (pre) {
        t->pre = arena_strdup(&t->v.arena, pre);
    }
    if (strcmp(model, "gemma4") == 0) {
        t->kind = TOK_META;
        t->fuse_unk = true;
        return 0;
    }
    TRY(known(g, model, pre, e));
    t->row = pretok_by_name(pre ? pre : "gpt-2");
    if (!pre)
        log_warn("%s has no tokenizer.ggml.pre: text is split as by gpt-2, so token ids may differ "
                 "from what the model was trained on",
                 gguf_path(g));
    t->nfc = t->row->nfc;
    t->ignore_merges = t->row->ignore_merges;
    return 0;
}

static int read_tokens(struct tok *t, const struct gguf *g, const struct gguf_kv *list,
                       struct err *e) {
    const struct gguf_kv *types = gguf_find(g, KEY("token_type"));
    if (types && (types->type != GV_ARR || types->elem != GV_I32 || types->count != list->count))
        return err_set(e, ERR_DATA, "%s: key %s must be a list of %llu i32 values, one per token",
                       gguf_path(g), types->key, (unsigned long long)list->count);
    const uint8_t *pos = list->data;
    for (uint64_t i = 0; i < list->count; i++) {
        const char *s;
        uint64_t len;
        gguf_kv_str_next(list, &pos, &s, &len);
        int64_t type = types ? gguf_kv_i64(types, i) : TT_NORMAL;
        if (type == 0) type = TT_NORMAL; /* "undefined", written by old converters */
        if (type < TT_NORMAL || type > TT_BYTE)
            return err_set(e, ERR_DATA, "%s: token %llu has type %lld, which does not exist",
                           gguf_path(g), (unsigned long long)i, (long long)type);
        if (len > UINT16_MAX)
            return err_set(e, ERR_DATA, "%s: token %llu is %llu bytes long: not a token list",
                           gguf_path(g), (unsigned long long)i, (unsigned long long)len);
        vocab_set(&t->v, (int64_t)i, s, (size_t)len, (enum tok_type)type);
        t->byte_fallback |= type == TT_BYTE;
    }
    return 0;
}

static int read_merges(struct tok *t, const struct gguf *g, struct err *e) {
    const struct gguf_kv *list;
    TRY(string_list(g, KEY("merges"), &list, e));
    if (list->count > INT32_MAX / 2)
        return err_set(e, ERR_DATA, "%s: %llu merges make no sense", gguf_path(g),
                       (unsigned long long)list->count);
    t->n_merges = (int64_t)list->count;
    t->merge = xcalloc((size_t)t->n_merges + 1, sizeof *t->merge);
    t->merge_len = xcalloc((size_t)t->n_merges + 1, sizeof *t->merge_len);
    const uint8_t *pos = list->data;
    for (uint64_t i = 0; i < list->count; i++) {
        const char *s;
        uint64_t len;
        gguf_kv_str_next(list, &pos, &s, &len);
        if (len > UINT16_MAX)
            return err_set(e, ERR_DATA, "%s: merge %llu is %llu bytes long: not a list of merges",
                           gguf_path(g), (unsigned long long)i, (unsigned long long)len);
        t->merge[i] = arena_strndup(&t->v.arena, s, (size_t)len);
        t->merge_len[i] = (uint32_t)len;
    }
    return 0;
}

static int read_specials(struct tok *t, const struct gguf *g, struct err *e) {
    for (int i = 0; i < TS_COUNT; i++) {
        uint64_t id;
        if (!gguf_find(g, special_key[i])) continue;
        TRY(gguf_get_u64(g, special_key[i], &id, e));
        if (id >= (uint64_t)t->v.n)
            return err_set(e, ERR_DATA, "%s: key %s is %llu, but there are only %lld tokens",
                           gguf_path(g), special_key[i], (unsigned long long)id, (long long)t->v.n);
        t->special[i] = (int64_t)id;
    }
    t->has_add_bos = gguf_find(g, KEY("add_bos_token")) != NULL;
    t->has_add_eos = gguf_find(g, KEY("add_eos_token")) != NULL;
    t->add_bos = gguf_bool_or(g, KEY("add_bos_token"), t->kind == TOK_META);
    t->add_eos = gguf_bool_or(g, KEY("add_eos_token"), false);
    return 0;
}

int tok_from_gguf(struct tok **out, const struct gguf *g, struct err *e) {
    struct tok *t = tok_new();
    const struct gguf_kv *list;
    int rc;
    TRY_GOTO(fail, rc, string_list(g, KEY("tokens"), &list, e));
    if (list->count > INT32_MAX) {
        rc = err_set(e, ERR_DATA, "%s: %llu tokens make no sense", gguf_path(g),
                     (unsigned long long)list->count);
        goto fail;
    }
    TRY_GOTO(fail, rc, vocab_init(&t->v, (int64_t)list->count, e));
    TRY_GOTO(fail, rc, read_kind(t, g, e));
    TRY_GOTO(fail, rc, read_tokens(t, g, list, e));
    TRY_GOTO(fail, rc, read_merges(t, g, e));
    TRY_GOTO(fail, rc, read_specials(t, g, e));
    rc = tok_finish(t, true, e);
    if (rc) {
        err_wrap(e, "%s", gguf_path(g));
        goto fail;
    }
    *out = t;
    return 0;
fail:
    tok_free(t);
    return rc;
}

static void write_strings(struct gguf_w *w, const char *key, const char *const *text,
                          const uint32_t *len, int64_t n) {
    uint64_t *wide = xcalloc((size_t)n + 1, sizeof *wide);
    for (int64_t i = 0; i < n; i++) wide[i] = len[i];
    gguf_w_arr_strn(w, key, text, wide, (uint64_t)n);
    free(wide);
}

void tok_to_gguf(const struct tok *t, struct gguf_w *w) {
    size_t n = (size_t)t->v.n;
    gguf_w_str(w, KEY("model"), tok_model(t));
    if (t->pre) gguf_w_str(w, KEY("pre"), t->pre);
    write_strings(w, KEY("tokens"), t->v.text, t->v.len, t->v.n);
    if (t->kind == TOK_META) { /* readers of this model ask for scores, and ignore them */
        float *score = xcalloc(n, sizeof *score);
        for (size_t i = 0; i < n; i++) score[i] = -1000.0f;
        gguf_w_arr(w, KEY("scores"), GV_F32, score, n);
        free(score);
    }
    int32_t *type = xcalloc(n, sizeof *type);
    for (size_t i = 0; i < n; i++) type[i] = t->v.type[i];
    gguf_w_arr(w, KEY("token_type"), GV_I32, type, n);
    free(type);
    write_strings(w, KEY("merges"), t->merge, t->merge_len, t->n_merges);
    for (int i = 0; i < TS_COUNT; i++)
        if (t->special[i] >= 0) gguf_w_u32(w, special_key[i], (uint32_t)t->special[i]);
    if (t->has_add_bos) gguf_w_bool(w, KEY("add_bos_token"), t->add_bos);
    if (t->has_add_eos) gguf_w_bool(w, KEY("add_eos_token"), t->add_eos);
    if (t->kind == TOK_META) gguf_w_bool(w, KEY("add_space_prefix"), false);
}
