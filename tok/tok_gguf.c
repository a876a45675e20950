// SPDX-License-Identifier: MIT
/* tok/tok_gguf.c - conversion between tokenizers and a GGUF's tokenizer.ggml.* keys.
 *
 * A GGUF stores neither normalizer nor split regex nor ignore_merges: the name in `pre` implies
 * them (pretok.def). Facts from a folder for which there is no common key go into hone.tokenizer.*,
 * which other readers ignore. Lists are checked for type and length before use; nothing is borrowed
 * from the map. */
#include "tok/tok_int.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "containers/gguf.h"
#include "base/log.h"
#include "base/mem.h"

#define KEY(name) "tokenizer.ggml." name

static const char *const special_key[TS_COUNT] = {
    [TS_BOS] = KEY("bos_token_id"),       [TS_EOS] = KEY("eos_token_id"),
    [TS_EOT] = KEY("eot_token_id"),       [TS_UNK] = KEY("unknown_token_id"),
    [TS_SEP] = KEY("seperator_token_id"), [TS_PAD] = KEY("padding_token_id"),
    [TS_MASK] = KEY("mask_token_id"),     [TS_EOM] = KEY("eom_token_id"),
};

/* Sets *out to the key, which must exist and be a list of strings. */
static int string_list(const struct gguf *g, const char *key, const struct gguf_kv **out,
                       struct err *e) {
    const struct gguf_kv *kv = gguf_find(g, key);
    if (!kv && gguf_u64_or(g, "split.no", 0) > 0)
        return err_set(e, ERR_DATA,
                       "%s: only the first file of a split set has the tokenizer: name that one",
                       gguf_path(g));
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
#define OWN(name) "hone.tokenizer." name
#define NO_PRE "default" /* rules for files without a name */

static const struct model {
    const char *name;
    enum tok_kind kind;
    bool add_bos, add_eos, add_space; /* defaults for absent keys */
    int bos, eos, unk, pad;
} models[] = {
    {"gpt2", TOK_BYTES, false, false, false, -1, -1, -1, -1},
    {"gemma4", TOK_META, true, false, false, -1, -1, -1, -1},
    {"llama", TOK_SPM, true, false, true, 1, 2, 0, -1},
    {"t5", TOK_UNIGRAM, false, true, true, -1, 1, 2, 0},
};

/* Returns the row of a tokenizer model's name; NULL if unknown. */
static const struct model *find_model(const char *name) {
    for (size_t i = 0; i < COUNT_OF(models); i++)
        if (strcmp(models[i].name, name) == 0) return &models[i];
    return NULL;
}

/* Returns 0 if the model and its pre-tokenizer are supported; pre may be NULL. */
static int check_known(const struct gguf *g, const char *model, const char *pre, struct err *e) {
    if (find_model(model)) {
        if (find_model(model)->kind != TOK_BYTES || pretok_by_name(pre ? pre : NO_PRE)) return 0;
        (void)pretok_unknown(pre, e);
        e->code = ERR_DATA;
        return err_wrap(e, "%s: hone cannot tokenize text for this model", gguf_path(g));
    }
    return err_set(
        e, ERR_DATA,
        "%s: hone cannot tokenize text for this model: it supports the tokenizers \"gpt2\" "
        "(byte-level BPE), \"llama\" and \"t5\" (SentencePiece) and \"gemma4\", not "
        "\"%.64s\"" STILL,
        gguf_path(g), model);
}

int tok_gguf_known_as(const struct gguf *g, const char *pre, struct err *e) {
    const char *model;
    TRY(gguf_get_str(g, KEY("model"), &model, e));
    if (pre) {
        if (!pretok_by_name(pre)) return pretok_unknown(pre, e);
        if (strcmp(model, "gpt2") != 0)
            return err_set(e, ERR_USAGE,
                           "%s: its tokenizer is \"%.64s\", which has no pre-tokenizer to choose: "
                           "leave --pre out",
                           gguf_path(g), model);
    } else if (gguf_find(g, KEY("pre")))
        TRY(gguf_get_str(g, KEY("pre"), &pre, e));
    return check_known(g, model, pre, e);
}

int tok_gguf_known(const struct gguf *g, struct err *e) {
    return tok_gguf_known_as(g, NULL, e);
}

/* Reads the kind of tokenizer; forced: the pre-tokenizer to use instead, or NULL. */
static int read_kind(struct tok *t, const struct gguf *g, const char *forced, struct err *e) {
    const char *model, *pre = NULL;
    TRY(tok_gguf_known_as(g, forced, e));
    TRY(gguf_get_str(g, KEY("model"), &model, e));
    if (gguf_find(g, KEY("pre"))) TRY(gguf_get_str(g, KEY("pre"), &pre, e));
    if (forced) pre = forced;
    if (pre) t->pre = arena_strdup(&t->v.arena, pre);
    const struct model *m = find_model(model);
    t->kind = m->kind;
    t->model = m->name;
    t->fuse_unk = t->kind != TOK_BYTES;
    if (t->kind != TOK_BYTES) return 0;
    t->row = pretok_by_name(pre ? pre : NO_PRE);
    if (!pre)
        log_warn("%s has no tokenizer.ggml.pre: text is split by the \"%s\" rules of old files, so "
                 "token ids may differ from those in training; --pre NAME chooses others",
                 gguf_path(g), NO_PRE);
    if (t->row->chars) t->kind = TOK_META;
    t->prep.as_is = t->row->words;
    t->ignore_merges = gguf_bool_or(g, OWN("ignore_merges"), t->row->ignore_merges);
    return 0;
}

/* Reads the split regexes that the file itself stores because no known name implies them. */
static int read_own_regexes(struct tok *t, const struct gguf *g, struct err *e) {
    const struct gguf_kv *kv = gguf_find(g, OWN("regexes"));
    if (!kv || t->kind != TOK_BYTES) return 0;
    if (kv->type != GV_ARR || kv->elem != GV_STR || kv->count < 1 || kv->count > PRETOK_LEVELS)
        return err_set(e, ERR_DATA, "%s: key %s is not a list of 1 to %d texts", gguf_path(g),
                       kv->key, PRETOK_LEVELS);
    const uint8_t *pos = kv->data;
    for (uint64_t i = 0; i < kv->count; i++) {
        const char *s;
        uint64_t len;
        gguf_kv_str_next(kv, &pos, &s, &len);
        if (len > UINT16_MAX)
            return err_set(e, ERR_DATA, "%s: key %s holds an overlong text", gguf_path(g), kv->key);
        t->own_regex[t->n_own++] = arena_strndup(&t->v.arena, s, (size_t)len);
    }
    return 0;
}

/* Reads texts and types of all tokens. */
static int read_tokens(struct tok *t, const struct gguf *g, const struct gguf_kv *list,
                       struct err *e) {
    const struct gguf_kv *types = gguf_find(g, KEY("token_type"));
    const bool ints = types && (types->elem == GV_I32 || types->elem == GV_U32); /* u32: MLX */
    if (types && (types->type != GV_ARR || !ints || types->count != list->count))
        return err_set(e, ERR_DATA,
                       "%s: key %s must be a list of %llu i32 or u32 values, one per token",
                       gguf_path(g), types->key, (unsigned long long)list->count);
    const uint8_t *pos = list->data;
    for (uint64_t i = 0; i < list->count; i++) {
        const char *s;
        uint64_t len;
        gguf_kv_str_next(list, &pos, &s, &len);
        TRY(mem_check(e));
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

/* Reads the merges, in order of rank. */
static int read_merges(struct tok *t, const struct gguf *g, struct err *e) {
    const struct gguf_kv *list;
    TRY(string_list(g, KEY("merges"), &list, e));
    if (list->count > INT32_MAX / 2)
        return err_set(e, ERR_DATA, "%s: %llu merges are too many", gguf_path(g),
                       (unsigned long long)list->count);
    t->n_merges = (int64_t)list->count;
    if (!(t->merge = try_calloc((size_t)t->n_merges + 1, sizeof *t->merge, "merges", e)) ||
        !(t->merge_len = try_calloc((size_t)t->n_merges + 1, sizeof *t->merge_len, "merges", e)))
        return ERR_SYS;
    const uint8_t *pos = list->data;
    for (uint64_t i = 0; i < list->count; i++) {
        const char *s;
        uint64_t len;
        gguf_kv_str_next(list, &pos, &s, &len);
        TRY(mem_check(e));
        if (len > UINT16_MAX)
            return err_set(e, ERR_DATA, "%s: merge %llu is %llu bytes long: not a list of merges",
                           gguf_path(g), (unsigned long long)i, (unsigned long long)len);
        t->merge[i] = arena_strndup(&t->v.arena, s, (size_t)len);
        t->merge_len[i] = (uint32_t)len;
    }
    return 0;
}

/* Reads the scores; warns if all are equal. */
static int read_scores(struct tok *t, const struct gguf *g, struct err *e) {
    const struct gguf_kv *kv = gguf_find(g, KEY("scores"));
    bool same = true;
    if (!kv || kv->type != GV_ARR || kv->elem != GV_F32 || kv->count != (uint64_t)t->v.n)
        return err_set(e, ERR_DATA,
                       "%s: key " KEY("scores") " must be a list of %lld f32 values, one per token",
                       gguf_path(g), (long long)t->v.n);
    t->score = try_calloc((size_t)t->v.n, sizeof *t->score, "the scores of a vocabulary", e);
    if (!t->score) return ERR_SYS;
    float first = NAN;
    for (int64_t i = 0; i < t->v.n; i++) {
        t->score[i] = (float)gguf_kv_f64(kv, (uint64_t)i);
        if (!isfinite(t->score[i]))
            return err_set(e, ERR_DATA, "%s: the score of token %lld is not a number", gguf_path(g),
                           (long long)i);
        if (t->v.type[i] != TT_NORMAL || t->v.len[i] < 4) continue;
        if (isnan(first)) first = t->score[i];
        same = same && t->score[i] == first;
    }
    if (same && !isnan(first))
        log_warn(
            "%s: all tokens have the same score, so how they join is not known and ids will be "
            "wrong: convert the model again from its original files",
            gguf_path(g));
    return 0;
}

/* Reads where a space is added: tokenizer.ggml.add_space_prefix, and details that this key cannot
 * express. */
static int read_spaces(struct tok *t, const struct gguf *g, struct err *e) {
    const char *how = gguf_str_or(g, OWN("space_prefix"), "");
    struct prep *p = &t->prep;
    bool add = find_model(t->model)->add_space;
    TRY(gguf_opt_bool(g, KEY("add_space_prefix"), &add, e));
    p->prefix = !add || t->row                  ? PREFIX_NONE
                : strncmp(how, "first", 5) == 0 ? PREFIX_FIRST
                                                : PREFIX_EACH;
    if (t->kind == TOK_BYTES && strcmp(how, "each-unless-space") == 0) p->prefix = PREFIX_EACH;
    p->prefix_unless = strstr(how, "unless-space") != NULL;
    TRY(gguf_opt_bool(g, KEY("treat_whitespace_as_suffix"), &p->behind, e));
    TRY(gguf_opt_bool(g, KEY("remove_extra_whitespaces"), &p->squeeze, e));
    p->runs_only = gguf_bool_or(g, OWN("runs_only"), false);
    t->split_words = gguf_bool_or(g, OWN("split_words"), false);
    return 0;
}

/* Reads SentencePiece's character map, if the file has one. */
static int read_charsmap(struct tok *t, const struct gguf *g, struct err *e) {
    const struct gguf_kv *kv = gguf_find(g, KEY("precompiled_charsmap"));
    if (!kv) return 0;
    if (kv->type != GV_ARR || (kv->elem != GV_U8 && kv->elem != GV_I8))
        return err_set(e, ERR_DATA, "%s: key %s is not a list of bytes", gguf_path(g), kv->key);
    return kv->count ? charsmap_new(&t->prep.map, kv->data, (size_t)kv->count, gguf_path(g), e) : 0;
}

/* Reads the rules for spaces and normalization, and the merges or scores. */
static int read_rules(struct tok *t, const struct gguf *g, struct err *e) {
    if (t->kind == TOK_SPM && gguf_bool_or(g, OWN("by_merges"), false)) t->kind = TOK_META;
    TRY(read_spaces(t, g, e));
    t->prep.form = utf8_form_of(gguf_str_or(g, OWN("form"), ""));
    if (!t->prep.form && gguf_bool_or(g, OWN("nfc"), t->row && t->row->nfc))
        t->prep.form = UTF8_NFC;
    if (t->kind == TOK_BYTES || t->kind == TOK_META) return read_merges(t, g, e);
    t->float_sums = gguf_bool_or(g, OWN("float_sums"), false);
    TRY(read_charsmap(t, g, e));
    return read_scores(t, g, e);
}

/* Lists of all ends of an answer: Ollama writes and reads the first, other programs the second. */
static const char *const end_keys[] = {KEY("eos_token_ids"), KEY("eog_token_ids")};

/* Adds the tokens that end an answer. */
static int read_ends(struct tok *t, const struct gguf *g, struct err *e) {
    static const enum tok_special s[] = {TS_EOS, TS_EOT, TS_EOM};
    for (size_t i = 0; i < COUNT_OF(s); i++) tok_add_end(t, t->special[s[i]]);
    for (size_t i = 0; i < COUNT_OF(end_keys); i++) {
        const struct gguf_kv *kv = gguf_find(g, end_keys[i]);
        if (!kv) continue;
        if (kv->type != GV_ARR || (kv->elem != GV_I32 && kv->elem != GV_U32))
            return err_set(e, ERR_DATA, "%s: key %s is not a list of token ids", gguf_path(g),
                           kv->key);
        for (uint64_t k = 0; k < kv->count; k++) tok_add_end(t, gguf_kv_i64(kv, k));
    }
    return 0;
}

/* Special tokens that a model can do without: they affect neither encoding nor the end of answers.
 */
static const bool can_lack[TS_COUNT] = {
    [TS_UNK] = true, [TS_SEP] = true, [TS_PAD] = true, [TS_MASK] = true};

/* Reads the token of bytes without one. unknown_token_id does not imply it: most models drop such
 * bytes, and the token can be a control token. For characters, unknown_token_id is that token. */
static int read_unk(struct tok *t, const struct gguf *g, struct err *e) {
    uint64_t id;
    if (t->kind == TOK_META) {
        t->fuse_unk = gguf_bool_or(g, OWN("fuse_unk"), true);
        if (gguf_bool_or(g, OWN("no_unk"), false)) t->special[TS_UNK] = -1;
    }
    if (t->kind != TOK_BYTES || !gguf_find(g, OWN("unk"))) return 0;
    TRY(gguf_get_u64(g, OWN("unk"), &id, e));
    if (id >= (uint64_t)t->v.n)
        return err_set(e, ERR_DATA,
                       "%s: key " OWN("unk") " is %llu, but there are only %lld tokens",
                       gguf_path(g), (unsigned long long)id, (long long)t->v.n);
    t->unk = (int64_t)id;
    t->fuse_unk = gguf_bool_or(g, OWN("fuse_unk"), false);
    return 0;
}

/* Reads the special tokens (-1: no such token) and whether encoding adds them. */
static int read_specials(struct tok *t, const struct gguf *g, struct err *e) {
    const struct model *m = find_model(t->model);
    t->special[TS_BOS] = m->bos < t->v.n ? m->bos : -1;
    t->special[TS_EOS] = m->eos < t->v.n ? m->eos : -1;
    t->special[TS_UNK] = m->unk < t->v.n ? m->unk : -1;
    t->special[TS_PAD] = m->pad < t->v.n ? m->pad : -1;
    for (int i = 0; i < TS_COUNT; i++) {
        uint64_t id;
        if (!gguf_find(g, special_key[i])) continue;
        TRY(gguf_get_u64(g, special_key[i], &id, e));
        if (id < (uint64_t)t->v.n) {
            t->special[i] = (int64_t)id;
            continue;
        }
        const int rc =
            err_set(e, ERR_DATA, "%s: key %s is %llu, but there are only %lld tokens", gguf_path(g),
                    special_key[i], (unsigned long long)id, (long long)t->v.n);
        if (!can_lack[i]) return rc;
        log_warn("%s: ignored", e->msg);
    }
    t->has_add_bos = gguf_find(g, KEY("add_bos_token")) != NULL;
    t->has_add_eos = gguf_find(g, KEY("add_eos_token")) != NULL;
    t->add_bos = m->add_bos || (t->row && t->row->add_bos);
    t->add_eos = m->add_eos;
    TRY(gguf_opt_bool(g, KEY("add_bos_token"), &t->add_bos, e));
    TRY(gguf_opt_bool(g, KEY("add_eos_token"), &t->add_eos, e));
    TRY(read_unk(t, g, e));
    return read_ends(t, g, e);
}

enum spot_flag { EATS_LEFT, EATS_RIGHT, SINGLE_WORD, N_SPOT_FLAGS };
static const char *const spot_key[N_SPOT_FLAGS] = {
    [EATS_LEFT] = OWN("lstrip"), [EATS_RIGHT] = OWN("rstrip"), [SINGLE_WORD] = OWN("single_word")};

/* Returns the address of the spot's flag. */
static bool *spot_flag(struct spot *s, enum spot_flag flag) {
    return flag == EATS_LEFT    ? &s->eats_left
           : flag == EATS_RIGHT ? &s->eats_right
                                : &s->single_word;
}

/* Reads the ids of tokens with a flag: single words, and tokens that include adjacent white
 * space. */
static int read_spot_flag(struct tok *t, const struct gguf *g, enum spot_flag flag, struct err *e) {
    const struct gguf_kv *kv = gguf_find(g, spot_key[flag]);
    if (!kv) return 0;
    if (kv->type != GV_ARR || kv->elem != GV_I32)
        return err_set(e, ERR_DATA, "%s: key %s is not a list of i32 values", gguf_path(g),
                       kv->key);
    bool *has = xcalloc((size_t)t->v.n, sizeof *has);
    for (uint64_t i = 0; i < kv->count; i++) {
        int64_t id = gguf_kv_i64(kv, i);
        if (id >= 0 && id < t->v.n) has[id] = true;
    }
    for (size_t i = 0; i < t->raw.n; i++) *spot_flag(&t->raw.v[i], flag) = has[t->raw.v[i].id];
    for (size_t i = 0; i < t->normalized.n; i++)
        *spot_flag(&t->normalized.v[i], flag) = has[t->normalized.v[i].id];
    free(has);
    return 0;
}

/* Reads the ids of tokens that are matched differently from others of their type. */
static int read_found(struct tok *t, const struct gguf *g, const char *key, uint8_t flag,
                      struct err *e) {
    const struct gguf_kv *kv = gguf_find(g, key);
    if (!kv) return 0;
    if (kv->type != GV_ARR || kv->elem != GV_I32)
        return err_set(e, ERR_DATA, "%s: key %s is not a list of i32 values", gguf_path(g), key);
    for (uint64_t i = 0; i < kv->count; i++) {
        int64_t id = gguf_kv_i64(kv, i);
        if (id >= 0 && id < t->v.n) tok_found(t, id, flag);
    }
    return 0;
}

enum { IN_EACH, IN_WHOLE };
static const char *const replace_key[][2] = {
    [IN_EACH] = {OWN("decode_replace"), OWN("decode_replace_regex")},
    [IN_WHOLE] = {OWN("decode_replace_text"), OWN("decode_replace_text_regex")}};

/* Returns whether the pattern of pair i of a list is a regex. */
static bool lists_regex(const struct gguf *g, int where, uint64_t i) {
    const struct gguf_kv *kv = gguf_find(g, replace_key[where][1]);
    bool found = false;
    for (uint64_t k = 0; kv && kv->type == GV_ARR && kv->elem == GV_I32 && k < kv->count; k++)
        found = found || gguf_kv_i64(kv, k) == (int64_t)i;
    return found;
}

/* Reads the decoder's replacements: pairs of texts. */
static int read_replaces(struct tok *t, const struct gguf *g, int where, struct err *e) {
    const struct gguf_kv *kv = gguf_find(g, replace_key[where][0]);
    if (!kv) return 0;
    if (kv->type != GV_ARR || kv->elem != GV_STR || kv->count % 2 ||
        kv->count / 2 > (uint64_t)(MAX_REPLACES - t->n_replaces))
        return err_set(e, ERR_DATA, "%s: key %s is not a list of at most %d pairs of texts",
                       gguf_path(g), kv->key, MAX_REPLACES);
    const uint8_t *pos = kv->data;
    for (uint64_t i = 0; i < kv->count / 2; i++) {
        const char *s[2];
        uint64_t len[2];
        for (int k = 0; k < 2; k++) gguf_kv_str_next(kv, &pos, &s[k], &len[k]);
        if (!len[0] || len[0] > UINT16_MAX || len[1] > UINT16_MAX)
            return err_set(e, ERR_DATA, "%s: key %s has an empty or overlong text", gguf_path(g),
                           kv->key);
        tok_add_replace(t, arena_strndup(&t->v.arena, s[0], (size_t)len[0]),
                        arena_strndup(&t->v.arena, s[1], (size_t)len[1]), where == IN_WHOLE,
                        lists_regex(g, where, i));
    }
    return 0;
}

/* Reads hone's own keys for decoding. */
static int read_decoder(struct tok *t, const struct gguf *g, struct err *e) {
    t->drops_first = gguf_bool_or(g, OWN("decode_drops_first"), false);
    if (gguf_find(g, OWN("decode_strips")))
        t->strips = gguf_bool_or(g, OWN("decode_strips"), true) ? STRIPS_ONE : STRIPS_NOTHING;
    TRY(read_replaces(t, g, IN_EACH, e));
    return read_replaces(t, g, IN_WHOLE, e);
}

/* Reads the whole tokenizer; pre: the pre-tokenizer to use instead of the file's, or NULL. */
static int build_tok(struct tok *t, const struct gguf *g, const char *pre, struct err *e) {
    const struct gguf_kv *list;
    TRY(string_list(g, KEY("tokens"), &list, e));
    if (list->count > INT32_MAX)
        return err_set(e, ERR_DATA, "%s: a vocabulary cannot have %llu tokens", gguf_path(g),
                       (unsigned long long)list->count);
    TRY(vocab_init(&t->v, (int64_t)list->count, e));
    TRY(read_kind(t, g, pre, e));
    if (!pre) TRY(read_own_regexes(t, g, e));
    TRY(read_tokens(t, g, list, e));
    TRY(read_rules(t, g, e));
    TRY(read_specials(t, g, e));
    TRY(read_decoder(t, g, e));
    TRY(read_found(t, g, OWN("found_raw"), FOUND_RAW, e));
    TRY(read_found(t, g, OWN("found_spaced"), FOUND_SPACED, e));
    TRY(read_found(t, g, OWN("found_normalized"), FOUND_NORMALIZED, e));
    TRY(read_found(t, g, OWN("found_pieces"), FOUND_PIECE, e));
    if (tok_finish(t, true, e)) return err_wrap(e, "%s", gguf_path(g));
    for (int i = 0; i < N_SPOT_FLAGS; i++) TRY(read_spot_flag(t, g, (enum spot_flag)i, e));
    return 0;
}

int tok_from_gguf_as(struct tok **out, const struct gguf *g, const char *pre, struct err *e) {
    struct tok *t = tok_new();
    return tok_built(out, t, build_tok(t, g, pre, e));
}

int tok_from_gguf(struct tok **out, const struct gguf *g, struct err *e) {
    return tok_from_gguf_as(out, g, NULL, e);
}

int tok_gguf_ends(const struct gguf *g, struct ids *out, struct err *e) {
    const struct gguf_kv *list;
    const char *model;
    struct tok *t = NULL;
    int rc = 0;
    TRY(string_list(g, KEY("tokens"), &list, e));
    TRY(gguf_get_str(g, KEY("model"), &model, e));
    t = tok_new();
    t->model = find_model(model) ? find_model(model)->name : "gpt2";
    TRY_GOTO(out, rc, vocab_init(&t->v, list->count < INT32_MAX ? (int64_t)list->count : 0, e));
    TRY_GOTO(out, rc, read_tokens(t, g, list, e));
    TRY_GOTO(out, rc, read_specials(t, g, e));
    ends_find_usual(t);
    for (int64_t i = 0; i < t->v.n; i++)
        if (tok_is_eog(t, i)) ids_add(out, (int32_t)i);
out:
    tok_free(t);
    return rc;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Writes n strings of the given lengths under the key. */
static void write_strings(struct gguf_w *w, const char *key, const char *const *text,
                          const uint32_t *len, int64_t n) {
    uint64_t *wide = xcalloc((size_t)n + 1, sizeof *wide);
    for (int64_t i = 0; i < n; i++) wide[i] = len[i];
    gguf_w_arr_strn(w, key, text, wide, (uint64_t)n);
    free(wide);
}

/* Writes the scores; nothing for byte-level vocabularies. */
static void write_scores(const struct tok *t, struct gguf_w *w) {
    size_t n = (size_t)t->v.n;
    if (t->kind == TOK_BYTES) return;
    float *score = xcalloc(n, sizeof *score);
    for (size_t i = 0; i < n; i++) /* readers of gemma4 require scores, but ignore them */
        score[i] = t->score ? t->score[i] : -1000.0f;
    gguf_w_arr(w, KEY("scores"), GV_F32, score, n);
    free(score);
}

/* Writes the ids of the tokens with the flag; nothing if there are no such tokens. */
static void write_found(const struct tok *t, struct gguf_w *w, const char *key, uint8_t flag) {
    int32_t *id = xcalloc((size_t)t->v.n, sizeof *id);
    size_t n = 0;
    for (int64_t i = 0; t->found && i < t->v.n; i++)
        if (t->found[i] & flag) id[n++] = (int32_t)i;
    if (n) gguf_w_arr(w, key, GV_I32, id, n);
    free(id);
}

/* Writes the ids of tokens with a flag; returns the first of them, -1: none. */
static int64_t write_spot_flag(const struct tok *t, struct gguf_w *w, enum spot_flag flag) {
    int32_t *id = xcalloc(t->raw.n + t->normalized.n + 1, sizeof *id);
    size_t n = 0;
    for (size_t i = 0; i < t->raw.n; i++)
        if (*spot_flag(&t->raw.v[i], flag)) id[n++] = t->raw.v[i].id;
    for (size_t i = 0; i < t->normalized.n; i++)
        if (*spot_flag(&t->normalized.v[i], flag)) id[n++] = t->normalized.v[i].id;
    if (n) gguf_w_arr(w, spot_key[flag], GV_I32, id, n);
    int64_t first = n ? id[0] : -1;
    free(id);
    return first;
}

/* Writes how added tokens are matched, and warns of rules that only hone reads. */
static void write_added(const struct tok *t, struct gguf_w *w) {
    int64_t spaced = -1;
    if (strcmp(tok_model(t), "gemma4") != 0) /* in which all are matched in raw text */
        write_found(t, w, OWN("found_raw"), FOUND_RAW);
    write_found(t, w, OWN("found_spaced"), FOUND_SPACED);
    write_found(t, w, OWN("found_normalized"), FOUND_NORMALIZED);
    write_found(t, w, OWN("found_pieces"), FOUND_PIECE);
    (void)write_spot_flag(t, w, EATS_LEFT);
    (void)write_spot_flag(t, w, EATS_RIGHT);
    int64_t word = write_spot_flag(t, w, SINGLE_WORD);
    for (int64_t i = 0; t->found && i < t->v.n && spaced < 0; i++)
        if (t->found[i] & FOUND_SPACED) spaced = i;
    if (word >= 0)
        log_warn("token \"%s\" is found as a whole word only (single_word): other programs find it "
                 "inside words too",
                 t->v.text[word]);
    if (spaced >= 0)
        log_warn(
            "token \"%s\" is found in normalized text, where a space precedes it: other programs "
            "find it everywhere, and with other ids around it",
            t->v.text[spaced]);
}

/* Writes the replacements that apply to one place: IN_EACH token or IN_WHOLE text. */
static void write_replaces(const struct tok *t, struct gguf_w *w, int where) {
    const char *text[2 * MAX_REPLACES];
    int32_t regex[MAX_REPLACES];
    uint64_t n = 0, n_regex = 0;
    for (int i = 0; i < t->n_replaces; i++) {
        const struct replace *r = &t->replace[i];
        if (r->whole != (where == IN_WHOLE)) continue;
        if (r->regex) regex[n_regex++] = (int32_t)n;
        text[2 * n] = r->from;
        text[2 * n++ + 1] = r->to;
    }
    if (n) gguf_w_arr_str(w, replace_key[where][0], text, 2 * n);
    if (n_regex) gguf_w_arr(w, replace_key[where][1], GV_I32, regex, n_regex);
}

/* Writes the keys for decoding; warns about rules that other programs ignore. */
static void write_decoder(const struct tok *t, struct gguf_w *w) {
    if (t->drops_first) gguf_w_bool(w, OWN("decode_drops_first"), true);
    if (t->strips != STRIPS_ADDED) gguf_w_bool(w, OWN("decode_strips"), t->strips == STRIPS_ONE);
    write_replaces(t, w, IN_EACH);
    write_replaces(t, w, IN_WHOLE);
    if (!t->n_replaces) return;
    struct buf from = {0}, to = {0};
    json_quote(&from, t->replace[0].from, strlen(t->replace[0].from));
    json_quote(&to, t->replace[0].to, strlen(t->replace[0].to));
    log_warn("the decoder of tokenizer.json replaces %s with %s in decoded text: other programs do "
             "not",
             from.data, to.data);
    buf_release(&from);
    buf_release(&to);
}

/* Writes the tokenizer's own expressions and warns that other programs ignore them. */
static void write_regexes(const struct tok *t, struct gguf_w *w) {
    struct buf q = {0};
    gguf_w_arr_str(w, OWN("regexes"), t->own_regex, (uint64_t)t->n_own);
    json_quote(&q, t->own_regex[0], strlen(t->own_regex[0]));
    log_warn("no pre-tokenizer has the split regex %.300s: hone keeps it in " OWN(
                 "regexes") "; other programs split text as \"%s\" does, the nearest, and their "
                            "ids can differ",
             q.data, t->row->name);
    buf_release(&q);
}

/* Writes the Unicode normal form unless the pre-tokenizer's name implies it. */
static void write_form(const struct tok *t, struct gguf_w *w) {
    const enum utf8_form form = t->prep.form;
    const bool nfc = t->row && t->row->nfc;
    if ((form == UTF8_NFC) == nfc && form <= UTF8_NFC) return;
    gguf_w_bool(w, OWN("nfc"), form == UTF8_NFC);
    if (form > UTF8_NFC) gguf_w_str(w, OWN("form"), utf8_form_name(form));
    log_warn(
        "tokenizer.json normalizes text to %s, other programs to %s: their ids differ for text "
        "in another form",
        utf8_form_name(form), utf8_form_name(nfc ? UTF8_NFC : UTF8_AS_IS));
}

/* Writes the token of bytes or characters without one if there are any. */
static void write_unk(const struct tok *t, struct gguf_w *w) {
    bool missing = false;
    if (t->kind == TOK_META && !t->all_bytes) {
        if (t->unk < 0 && find_model(tok_model(t))->unk >= 0) gguf_w_bool(w, OWN("no_unk"), true);
        if (t->unk >= 0 && !t->fuse_unk) gguf_w_bool(w, OWN("fuse_unk"), false);
    }
    for (int b = 0; b < 256; b++) missing = missing || t->byte_id[b] < 0;
    if (t->kind != TOK_BYTES || t->unk < 0 || !missing) return;
    gguf_w_u32(w, OWN("unk"), (uint32_t)t->unk);
    if (t->fuse_unk) gguf_w_bool(w, OWN("fuse_unk"), true);
}

/* Writes hone's own keys for details that the common keys do not express. */
static void write_own(const struct tok *t, struct gguf_w *w) {
    const struct prep *p = &t->prep;
    bool meta = t->kind == TOK_META && strcmp(tok_model(t), "llama") == 0;
    if (p->prefix == PREFIX_FIRST || (p->prefix == PREFIX_EACH && p->prefix_unless)) {
        char how[32];
        snprintf(how, sizeof how, "%s%s", p->prefix == PREFIX_FIRST ? "first" : "each",
                 p->prefix_unless ? "-unless-space" : "");
        gguf_w_str(w, OWN("space_prefix"), how);
    }
    if (meta) gguf_w_bool(w, OWN("by_merges"), true);
    if (t->n_own) write_regexes(t, w);
    if (p->runs_only) gguf_w_bool(w, OWN("runs_only"), true);
    if (t->split_words) gguf_w_bool(w, OWN("split_words"), true);
    if (t->kind == TOK_UNIGRAM && t->float_sums) gguf_w_bool(w, OWN("float_sums"), true);
    write_form(t, w);
    write_unk(t, w);
    if (t->row && t->ignore_merges != t->row->ignore_merges)
        gguf_w_bool(w, OWN("ignore_merges"), t->ignore_merges);
    write_added(t, w);
    write_decoder(t, w);
}

/* Writes the rules for spaces and SentencePiece's character map. */
static void write_normalizer(const struct tok *t, struct gguf_w *w) {
    size_t len = 0;
    bool sp = t->kind == TOK_UNIGRAM || t->kind == TOK_SPM;
    const void *map = t->prep.map ? charsmap_blob(t->prep.map, &len) : NULL;
    if (tok_has_meta(t)) gguf_w_bool(w, KEY("add_space_prefix"), t->prep.prefix != PREFIX_NONE);
    if (sp && (t->prep.squeeze || t->kind == TOK_UNIGRAM))
        gguf_w_bool(w, KEY("remove_extra_whitespaces"), t->prep.squeeze);
    if (t->prep.behind) gguf_w_bool(w, KEY("treat_whitespace_as_suffix"), true);
    if (map) gguf_w_arr(w, KEY("precompiled_charsmap"), GV_U8, map, len);
}

/* Writes the special tokens' ids and the list of other tokens that end answers. */
static void write_specials(const struct tok *t, struct gguf_w *w) {
    int64_t special[TS_COUNT];
    ends_keys(t, special);
    for (int i = 0; i < TS_COUNT; i++)
        if (special[i] >= 0) gguf_w_u32(w, special_key[i], (uint32_t)special[i]);
    if (tok_ends_left(t, NULL)) gguf_w_arr(w, end_keys[0], GV_I32, t->ends.v, (uint64_t)t->ends.n);
}

void tok_to_gguf(const struct tok *t, struct gguf_w *w) {
    size_t n = (size_t)t->v.n;
    const char *pre = t->pre ? t->pre : strcmp(tok_model(t), "gemma4") == 0 ? NULL : "default";
    gguf_w_str(w, KEY("model"), tok_model(t));
    if (pre) gguf_w_str(w, KEY("pre"), pre);
    write_strings(w, KEY("tokens"), t->v.text, t->v.len, t->v.n);
    write_scores(t, w);
    int32_t *type = xcalloc(n, sizeof *type);
    for (size_t i = 0; i < n; i++) type[i] = t->v.type[i];
    gguf_w_arr(w, KEY("token_type"), GV_I32, type, n);
    free(type);
    if (t->kind == TOK_BYTES || t->kind == TOK_META)
        write_strings(w, KEY("merges"), t->merge, t->merge_len, t->n_merges);
    write_specials(t, w);
    if (t->has_add_bos) gguf_w_bool(w, KEY("add_bos_token"), t->add_bos);
    if (t->has_add_eos) gguf_w_bool(w, KEY("add_eos_token"), t->add_eos);
    write_normalizer(t, w);
    write_own(t, w);
}
