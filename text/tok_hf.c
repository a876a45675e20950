// SPDX-License-Identifier: MIT
/* text/tok_hf.c - a tokenizer from a Hugging Face tokenizer.json, recognised by structure: model
 * type, normalizer, split regex. No list of hashes: a vocabulary with one more token still works.
 *
 * The lists made here (texts, types, special ids) are those the field's converter writes, so that a
 * GGUF made from them equals its; tests/unit/test_tok_lists.c holds us to that. Roles (tok.c) come
 * from added_tokens, which is more than a GGUF keeps. */
#include "text/tok_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "core/mem.h"
#include "text/utf8.h"

#define META "\xe2\x96\x81" /* U+2581 */

static bool is(const struct json *j, const char *text) {
    const char *s = json_str(j);
    return s && strcmp(s, text) == 0;
}

static int bad(struct err *e, const char *what) {
    return err_set(e, ERR_DATA, "tokenizer.json: %s", what);
}

/* ---- which kind ------------------------------------------------------------------------------ */

enum norm { NORM_NONE, NORM_NFC, NORM_META };

static int read_normalizer(const struct json *j, enum norm *out, struct err *e) {
    const struct json *list = json_get(j, "normalizers");
    if (is(json_get(j, "type"), "Sequence") && json_len(list) <= 1) j = json_first(list);
    const char *type = json_str(json_get(j, "type"));
    if (json_type(j) == JSON_NULL) {
        *out = NORM_NONE;
        return 0;
    }
    if (type && strcmp(type, "NFC") == 0) {
        *out = NORM_NFC;
        return 0;
    }
    if (type && strcmp(type, "Replace") == 0 && is(json_get(j, "content"), META) &&
        is(json_get(json_get(j, "pattern"), "String"), " ")) {
        *out = NORM_META;
        return 0;
    }
    return err_set(e, ERR_DATA,
                   "tokenizer.json: normalizer \"%.64s\" is not supported: only NFC, a replacement "
                   "of spaces by U+2581, and none are",
                   type ? type : "(without type)");
}

struct found { /* in the pre_tokenizer tree */
    const struct json *byte_level;
    const char *regex[PRETOK_LEVELS]; /* in order of use */
    int n_regexes, n_others;
    struct buf regexes; /* for messages */
};

static void add_regex(struct found *f, const char *re) {
    if (re) buf_fmt(&f->regexes, "%s%.300s", f->n_regexes ? "  and  " : "", re);
    if (re && f->n_regexes < PRETOK_LEVELS)
        f->regex[f->n_regexes++] = re;
    else
        f->n_others++;
}

static void look_at_pre(const struct json *j, int depth, struct found *f) {
    const struct json *type = json_get(j, "type");
    if (json_type(j) == JSON_NULL) return;
    if (is(type, "Sequence") && depth < 4) {
        const struct json *c = json_first(json_get(j, "pretokenizers"));
        for (; c; c = json_next(c)) look_at_pre(c, depth + 1, f);
    } else if (is(type, "ByteLevel")) {
        f->byte_level = j;
        if (json_bool(json_get(j, "use_regex"), true))
            add_regex(f, pretok_by_name("gpt-2")->regex[0]);
    } else if (is(type, "Digits") && json_bool(json_get(j, "individual_digits"), false)) {
        add_regex(f, "\\p{N}");
    } else if (is(type, "Split") && is(json_get(j, "behavior"), "Isolated") &&
               !json_bool(json_get(j, "invert"), false)) {
        add_regex(f, json_str(json_get(json_get(j, "pattern"), "Regex")));
    } else {
        f->n_others++;
    }
}

static int unknown_pre(const struct found *f, struct err *e) {
    struct buf names = {0};
    pretok_names(&names);
    err_set(
        e, ERR_DATA,
        "tokenizer.json: pre-tokenizer with split regex %s is not known: if it works like one of "
        "%s, name that with --pre NAME",
        f->regexes.data ? f->regexes.data : "(none)", names.data);
    buf_release(&names);
    return ERR_DATA;
}

static int recognise_bytes(struct tok *t, const struct found *f, bool ignore_merges,
                           struct err *e) {
    const struct json *b = f->byte_level;
    if (json_bool(json_get(b, "add_prefix_space"), false))
        return bad(e, "a ByteLevel pre-tokenizer that adds a space in front is not supported");
    if (!f->n_others && f->n_regexes)
        t->row = pretok_by_regexes(f->regex, f->n_regexes, t->nfc, ignore_merges);
    return t->row ? 0 : unknown_pre(f, e);
}

static int named_pre(struct tok *t, const char *pre, struct err *e) {
    if (strcmp(pre, "gemma4") == 0) {
        t->kind = TOK_META;
        return 0;
    }
    t->row = pretok_by_name(pre);
    if (t->row) return 0;
    struct buf names = {0};
    pretok_names(&names);
    err_set(e, ERR_USAGE, "pre-tokenizer \"%.64s\" is not known: name one of %s, gemma4", pre,
            names.data);
    buf_release(&names);
    return ERR_USAGE;
}

static int recognise(struct tok *t, const struct json *j, const char *pre, struct err *e) {
    enum norm norm = NORM_NONE;
    TRY(read_normalizer(json_get(j, "normalizer"), &norm, e));
    struct found f = {0};
    int rc = 0;
    look_at_pre(json_get(j, "pre_tokenizer"), 0, &f);
    t->nfc = norm == NORM_NFC;
    if (pre)
        rc = named_pre(t, pre, e);
    else if (f.byte_level && norm != NORM_META)
        rc = recognise_bytes(t, &f,
                             json_bool(json_get(json_get(j, "model"), "ignore_merges"), false), e);
    else if (norm == NORM_META && !f.byte_level)
        t->kind = TOK_META;
    else
        rc = unknown_pre(&f, e);
    buf_release(&f.regexes);
    if (rc) return rc;
    if (t->kind == TOK_META) return 0;
    t->pre = t->row->name;
    if (t->nfc != t->row->nfc)
        log_warn("tokenizer.json %s NFC while pre-tokenizer %s implies the opposite: a GGUF cannot "
                 "say so, ids of unnormalized text will differ there",
                 t->nfc ? "applies" : "does not apply", t->row->name);
    return 0;
}

/* ---- the model: vocabulary and merges -------------------------------------------------------- */

static int check_model(struct tok *t, const struct json *model, struct err *e) {
    const char *type = json_str(json_get(model, "type"));
    if (json_type(model) != JSON_OBJ) return bad(e, "there is no \"model\" object");
    if (type && strcmp(type, "BPE") != 0)
        return err_set(e, ERR_DATA,
                       "tokenizer.json: model type \"%.64s\" is not supported: only BPE is", type);
    if (json_type(json_get(model, "vocab")) != JSON_OBJ)
        return bad(e, "model.vocab is not an object of texts and ids");
    if (json_type(json_get(model, "merges")) != JSON_ARR)
        return bad(e, "model.merges is not a list");
    static const char *const affix[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    for (size_t i = 0; i < COUNT_OF(affix); i++) {
        const char *s = json_str(json_get(model, affix[i]));
        if (s && *s)
            return err_set(e, ERR_DATA, "tokenizer.json: model.%s \"%.32s\" is not supported",
                           affix[i], s);
    }
    t->ignore_merges = json_bool(json_get(model, "ignore_merges"), false);
    t->byte_fallback = json_bool(json_get(model, "byte_fallback"), false);
    t->fuse_unk = json_bool(json_get(model, "fuse_unk"), false);
    return 0;
}

static int64_t largest_id(const struct json *vocab, const struct json *added) {
    int64_t id, most = -1;
    for (const struct json *c = json_first(vocab); c; c = json_next(c))
        if (json_i64(c, &id) && id > most) most = id;
    for (const struct json *c = json_first(added); c; c = json_next(c))
        if (json_i64(json_get(c, "id"), &id) && id > most) most = id;
    return most;
}

static int read_vocab(struct tok *t, const struct json *vocab, struct err *e) {
    for (const struct json *c = json_first(vocab); c; c = json_next(c)) {
        int64_t id;
        const char *text = json_name(c);
        if (!json_i64(c, &id) || id < 0)
            return err_set(e, ERR_DATA, "tokenizer.json: token \"%.64s\" has no proper id", text);
        if (id >= t->v.n)
            return err_set(e, ERR_DATA,
                           "tokenizer.json: token \"%.64s\" has id %lld, but the model has only "
                           "%lld rows: the tokenizer belongs to another model",
                           text, (long long)id, (long long)t->v.n);
        if (t->v.text[id])
            return err_set(e, ERR_DATA,
                           "tokenizer.json: tokens \"%.64s\" and \"%.64s\" have the same id %lld",
                           t->v.text[id], text, (long long)id);
        size_t len = strlen(text);
        bool byte = t->kind == TOK_META && tok_byte_text(text, len) >= 0;
        vocab_set(&t->v, id, text, len, byte ? TT_BYTE : TT_NORMAL);
    }
    return 0;
}

/* A part of a merge; spaces cannot be stored. */
static void merge_part(struct buf *b, const char *s, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (s[i] == ' ')
            buf_str(b, "\xc4\xa0"); /* U+0120, the space of the byte alphabet */
        else
            buf_chr(b, s[i]);
    }
}

static int read_merge(struct buf *b, const struct json *c, int64_t i, struct err *e) {
    const char *s = json_str(c), *left = NULL, *right = NULL;
    if (s) {
        buf_str(b, s);
        return 0;
    }
    if (json_type(c) == JSON_ARR && json_len(c) == 2) {
        left = json_str(json_first(c));
        right = json_str(json_next(json_first(c)));
    }
    if (!left || !right)
        return err_set(e, ERR_DATA, "tokenizer.json: merge %lld is not a pair of texts",
                       (long long)i);
    merge_part(b, left, strlen(left));
    buf_chr(b, ' ');
    merge_part(b, right, strlen(right));
    return 0;
}

static int read_merges(struct tok *t, const struct json *merges, struct err *e) {
    int64_t n = json_len(merges), i = 0;
    struct buf b = {0};
    int rc = 0;
    if (n > INT32_MAX / 2) return bad(e, "the number of merges makes no sense");
    t->merge = xcalloc((size_t)n + 1, sizeof *t->merge);
    t->merge_len = xcalloc((size_t)n + 1, sizeof *t->merge_len);
    for (const struct json *c = json_first(merges); c && rc == 0; c = json_next(c), i++) {
        buf_reset(&b);
        rc = read_merge(&b, c, i, e);
        if (rc) break;
        t->merge[i] = arena_strndup(&t->v.arena, b.data ? b.data : "", b.len);
        t->merge_len[i] = (uint32_t)b.len;
    }
    t->n_merges = i;
    buf_release(&b);
    return rc;
}

/* ---- added tokens ---------------------------------------------------------------------------- */

/* Tool and thinking marks that must show in the output, though the file calls them special. */
static bool must_show(const char *text) {
    static const char *const shown[] = {
        "<|channel>",       "<channel|>",       "<|tool_call>", "<tool_call|>",
        "<|tool_response>", "<tool_response|>", "<|\"|>",
    };
    for (size_t i = 0; i < COUNT_OF(shown); i++)
        if (strcmp(text, shown[i]) == 0) return true;
    return false;
}

static const char *token_text(const struct json *j) {
    return json_type(j) == JSON_OBJ ? json_str(json_get(j, "content")) : json_str(j);
}

/* tokenizer_config.json names it: NAME_token, or a list or object of further special tokens. */
static bool config_names(const struct json *config, const char *text) {
    for (const struct json *c = json_first(config); c; c = json_next(c)) {
        const char *name = json_name(c);
        size_t n = name ? strlen(name) : 0;
        if (n > 6 && strcmp(name + n - 6, "_token") == 0) {
            const char *s = token_text(c);
            if (s && strcmp(s, text) == 0) return true;
        } else if (n > 15 && strcmp(name + n - 15, "_special_tokens") == 0) {
            for (const struct json *k = json_first(c); k; k = json_next(k)) {
                const char *s = token_text(k);
                if (s && strcmp(s, text) == 0) return true;
            }
        }
    }
    return strcmp(text, "<mask>") == 0; /* the library's default for this class */
}

static enum tok_type added_type(const struct tok *t, const struct json *config, const char *text,
                                size_t len, bool special) {
    if (t->kind == TOK_BYTES) return special || tok_looks_control(text, len) ? TT_CONTROL : TT_USER;
    if (tok_byte_text(text, len) >= 0) return TT_BYTE;
    if (must_show(text)) return TT_USER;
    if (!config) return special ? TT_CONTROL : TT_NORMAL;
    return config_names(config, text) ? TT_CONTROL : TT_NORMAL;
}

static void store_added(struct tok *t, int64_t id, const char *text, enum tok_type type) {
    struct buf b = {0};
    size_t n = strlen(text);
    for (size_t i = 0; i < n; i++) {
        if (type == TT_USER && t->kind == TOK_BYTES && strncmp(text + i, META, 3) == 0) {
            buf_chr(&b, ' ');
            i += 2;
        } else
            buf_chr(&b, text[i]);
    }
    vocab_set(&t->v, id, b.data ? b.data : "", b.len, type);
    buf_release(&b);
}

static void want_added(struct tok *t, int64_t id, const char *text, bool normalized, bool control) {
    struct buf b = {0};
    if (normalized && t->nfc)
        utf8_nfc(&b, text, strlen(text));
    else
        for (const char *s = text; *s; s++) {
            if (normalized && t->kind == TOK_META && *s == ' ')
                buf_str(&b, META);
            else
                buf_chr(&b, *s);
        }
    const char *copy = arena_strndup(&t->v.arena, b.data ? b.data : "", b.len);
    spots_add(normalized ? &t->normalized : &t->raw, copy, b.len, id, control);
    buf_release(&b);
}

static int read_one_added(struct tok *t, const struct json *c, const struct json *config,
                          bool *flags, struct err *e) {
    const char *text = json_str(json_get(c, "content"));
    int64_t id;
    if (!text || !json_i64(json_get(c, "id"), &id) || id < 0)
        return bad(e, "an entry of added_tokens has no content or no proper id");
    if (id >= t->v.n) {
        log_warn("token \"%s\" has id %lld, past the model's %lld rows: it is left out, its text "
                 "is tokenized as any other",
                 text, (long long)id, (long long)t->v.n);
        return 0;
    }
    if (t->v.text[id] && strcmp(t->v.text[id], text) != 0)
        return err_set(e, ERR_DATA,
                       "tokenizer.json: id %lld is \"%.64s\" in model.vocab and \"%.64s\" in "
                       "added_tokens",
                       (long long)id, t->v.text[id], text);
    bool special = json_bool(json_get(c, "special"), false);
    bool normalized = json_bool(json_get(c, "normalized"), false);
    *flags |= json_bool(json_get(c, "lstrip"), false) || json_bool(json_get(c, "rstrip"), false) ||
              json_bool(json_get(c, "single_word"), false);
    enum tok_type type = added_type(t, config, text, strlen(text), special);
    store_added(t, id, text, type);
    if (type == TT_NORMAL) t->v.role[id] = special ? TT_CONTROL : TT_USER;
    want_added(t, id, text, normalized, t->v.role[id] == TT_CONTROL);
    return 0;
}

static int read_added(struct tok *t, const struct json *added, const struct json *config,
                      struct err *e) {
    bool flags = false;
    for (const struct json *c = json_first(added); c; c = json_next(c))
        TRY(read_one_added(t, c, config, &flags, e));
    if (flags)
        log_warn("tokenizer.json has added tokens with lstrip, rstrip or single_word, which a GGUF "
                 "cannot store: white space next to them gives its own tokens");
    for (int64_t id = 0; id < t->v.n; id++) {
        char pad[32];
        if (t->v.text[id]) continue;
        int n = snprintf(pad, sizeof pad, "[PAD%lld]", (long long)id);
        vocab_set(&t->v, id, pad, (size_t)n, TT_UNUSED);
    }
    return 0;
}

/* ---- special ids ----------------------------------------------------------------------------- */

static const struct json *added_by_text(const struct json *added, const char *text) {
    for (const struct json *c = json_first(added); text && c; c = json_next(c))
        if (is(json_get(c, "content"), text)) return c;
    return NULL;
}

/* tokenizer_config.json's NAME_token, else config.json's NAME_token_id, root before text_config. */
static int read_special(struct tok *t, const struct json *added, const struct json *config,
                        const struct json *model_config, const char *name, enum tok_special s,
                        struct err *e) {
    char key[32];
    int64_t id = -1;
    snprintf(key, sizeof key, "%s_token", name);
    const struct json *a = added_by_text(added, token_text(json_get(config, key)));
    if (!a || !json_i64(json_get(a, "id"), &id)) {
        snprintf(key, sizeof key, "%s_token_id", name);
        if (!json_i64(json_get(model_config, key), &id) &&
            !json_i64(json_get(json_get(model_config, "text_config"), key), &id))
            return 0;
        if (id < 0 || id >= t->v.n)
            return err_set(e, ERR_DATA, "config.json: %s is %lld, but the vocabulary has %lld rows",
                           key, (long long)id, (long long)t->v.n);
    }
    if (id >= 0 && id < t->v.n) t->special[s] = id;
    return 0;
}

/* A list of end ids names the turn's end next to the text's: that one is written as eot. */
static void read_eot(struct tok *t, const struct json *generation_config) {
    static const char *const turn_ends[] = {"<|im_end|>", "<turn|>", "<|eot_id|>", "<end_of_turn>",
                                            "<|end|>"};
    const struct json *list = json_get(generation_config, "eos_token_id");
    int64_t id;
    if (json_type(list) != JSON_ARR) return;
    for (const struct json *c = json_first(list); c; c = json_next(c)) {
        if (!json_i64(c, &id) || id < 0 || id >= t->v.n) continue;
        if (t->special[TS_EOS] < 0) t->special[TS_EOS] = id;
        for (size_t i = 0; i < COUNT_OF(turn_ends); i++)
            if (id != t->special[TS_EOS] && t->special[TS_EOT] < 0 &&
                strcmp(t->v.text[id], turn_ends[i]) == 0)
                t->special[TS_EOT] = id;
    }
}

/* True when the template's first (last: its last) piece is this special token. */
static bool template_has(const struct json *post, bool last, const char *text, int depth) {
    if (is(json_get(post, "type"), "Sequence") && depth < 4) {
        const struct json *c = json_first(json_get(post, "processors"));
        for (; c; c = json_next(c))
            if (template_has(c, last, text, depth + 1)) return true;
        return false;
    }
    const struct json *c = json_first(json_get(post, "single"));
    while (last && c && json_next(c)) c = json_next(c);
    return text && is(json_get(json_get(c, "SpecialToken"), "id"), text);
}

static void read_add_flag(const struct tok *t, const struct json *post, const struct json *config,
                          bool last, bool *has, bool *value) {
    const struct json *j = json_get(config, last ? "add_eos_token" : "add_bos_token");
    int64_t id = t->special[last ? TS_EOS : TS_BOS];
    *has = json_type(j) == JSON_BOOL;
    *value = json_bool(j, false);
    if (id >= 0 && template_has(post, last, t->v.text[id], 0)) *has = *value = true;
}

static int read_specials(struct tok *t, const struct json *j, const struct json *config,
                         const struct json *model_config, const struct json *generation_config,
                         struct err *e) {
    static const struct {
        const char *name;
        enum tok_special s;
    } list[] = {{"bos", TS_BOS}, {"eos", TS_EOS}, {"unk", TS_UNK},
                {"sep", TS_SEP}, {"pad", TS_PAD}, {"mask", TS_MASK}};
    const struct json *added = json_get(j, "added_tokens"), *post = json_get(j, "post_processor");
    for (size_t i = 0; i < COUNT_OF(list); i++)
        TRY(read_special(t, added, config, model_config, list[i].name, list[i].s, e));
    read_eot(t, generation_config);
    read_add_flag(t, post, config, false, &t->has_add_bos, &t->add_bos);
    read_add_flag(t, post, config, true, &t->has_add_eos, &t->add_eos);
    if (t->kind == TOK_META && t->special[TS_BOS] >= 0)
        t->has_add_bos = t->add_bos = true; /* these models fail without, readers force it */
    return 0;
}

int tok_from_hf(struct tok **out, const struct json *tokenizer_json, const struct json *config,
                const struct json *model_config, const struct json *generation_config,
                int64_t n_vocab, const char *pre, struct err *e) {
    struct tok *t = tok_new();
    const struct json *model = json_get(tokenizer_json, "model");
    const struct json *added = json_get(tokenizer_json, "added_tokens");
    int rc;
    TRY_GOTO(fail, rc, check_model(t, model, e));
    TRY_GOTO(fail, rc, recognise(t, tokenizer_json, pre, e));
    if (n_vocab <= 0) n_vocab = largest_id(json_get(model, "vocab"), added) + 1;
    TRY_GOTO(fail, rc, vocab_init(&t->v, n_vocab, e));
    TRY_GOTO(fail, rc, read_vocab(t, json_get(model, "vocab"), e));
    TRY_GOTO(fail, rc, read_added(t, added, config, e));
    TRY_GOTO(fail, rc, read_merges(t, json_get(model, "merges"), e));
    TRY_GOTO(fail, rc,
             read_specials(t, tokenizer_json, config, model_config, generation_config, e));
    rc = tok_finish(t, false, e);
    if (rc) {
        err_wrap(e, "tokenizer.json");
        goto fail;
    }
    *out = t;
    return 0;
fail:
    tok_free(t);
    return rc;
}
