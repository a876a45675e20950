// SPDX-License-Identifier: MIT
/* tok/tok_hf_added.c - added tokens, special ids and the BOS and EOS flags of a folder. */
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "tok/tok_hf.h"
#include "text/utf8.h"

#define META "\xe2\x96\x81" /* U+2581 */

/* Fails with an error in tokenizer.json. */
static int bad_json(struct err *e, const char *what) {
    return err_set(e, ERR_DATA, "tokenizer.json: %s", what);
}

/* ---- added tokens ---------------------------------------------------------------------------- */

/* Returns whether a token marks tools or thinking and must be shown although the file calls it
 * special. */
static bool must_show(const char *text) {
    static const char *const shown[] = {
        "<|channel>",       "<channel|>",       "<|tool_call>", "<tool_call|>",
        "<|tool_response>", "<tool_response|>", "<|\"|>",
    };
    for (size_t i = 0; i < COUNT_OF(shown); i++)
        if (strcmp(text, shown[i]) == 0) return true;
    return false;
}

/* Returns the text of a token given as a string or as an object; NULL if it has no text. */
static const char *token_text(const struct json *j) {
    return json_type(j) == JSON_OBJ ? json_str(json_get(j, "content")) : json_str(j);
}

/* Returns whether tokenizer_config.json names the token, as NAME_token or among additional special
 * tokens. */
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
    return strcmp(text, "<mask>") == 0; /* the library's default for the class */
}

/* Returns a token's entry in added_tokens_decoder of tokenizer_config.json; NULL: none. Converters
 * type and score a token with an entry as an added one, even if it is also a piece. */
static const struct json *in_decoder(const struct json *config, int64_t id) {
    char key[24];
    snprintf(key, sizeof key, "%lld", (long long)id);
    return json_get(json_get(config, "added_tokens_decoder"), key);
}

/* Returns the type of an added token. In SentencePiece's vocabularies, with or without its file, a
 * special one is CONTROL; gemma4 is typed as in llama.cpp's converter. */
static enum tok_type added_type(const struct tok *t, int64_t id, const struct json *config,
                                const char *text, bool special) {
    size_t len = strlen(text);
    if (t->kind == TOK_BYTES) return special || tok_looks_control(text, len) ? TT_CONTROL : TT_USER;
    if (tok_byte_text(text, len) >= 0) return TT_BYTE;
    if (strcmp(tok_model(t), "gemma4") != 0) {
        bool listed = t->kind == TOK_SPM && in_decoder(config, id);
        if (t->v.text[id] && t->v.type[id] == TT_UNKNOWN && !listed) return TT_UNKNOWN;
        return special || tok_looks_control(text, len) ? TT_CONTROL : TT_USER;
    }
    if (must_show(text)) return TT_USER;
    if (!config) return special ? TT_CONTROL : TT_NORMAL;
    return config_names(config, text) ? TT_CONTROL : TT_NORMAL;
}

/* Sets an added token's text; for user-defined tokens of byte-level vocabularies, replaces U+2581
 * by spaces. */
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

struct flags { /* flags of an entry in added_tokens */
    bool special, normalized, lstrip, rstrip, single_word;
};

/* Returns the flags of an added token; missing ones are false. */
static struct flags read_flags(const struct json *c) {
    return (struct flags){
        .special = json_bool(json_get(c, "special"), false),
        .normalized = json_bool(json_get(c, "normalized"), false),
        .lstrip = json_bool(json_get(c, "lstrip"), false),
        .rstrip = json_bool(json_get(c, "rstrip"), false),
        .single_word = json_bool(json_get(c, "single_word"), false),
    };
}

/* Records how a token is matched if its type does not imply it. */
static void note_found(struct tok *t, int64_t id, enum tok_type type, bool normalized) {
    const bool piece = type == TT_USER && tok_has_meta(t) && strcmp(tok_model(t), "gemma4") != 0;
    if (normalized && tok_has_meta(t) && t->prep.prepend)
        tok_found(t, id, FOUND_SPACED);
    else if (normalized && !piece)
        tok_found(t, id, FOUND_NORMALIZED);
    else if (!normalized && piece)
        tok_found(t, id, FOUND_RAW);
}

/* Adds a token; ignores one beyond the model's rows with a warning. */
static int add_token(struct tok *t, int64_t id, const char *text, struct flags f,
                     const struct json *config, struct err *e) {
    if (id >= t->v.n) {
        log_warn("token \"%s\" has id %lld, past the model's %lld rows: ignored, and its text "
                 "is tokenized as any other",
                 text, (long long)id, (long long)t->v.n);
        return 0;
    }
    if (t->v.text[id] && strcmp(t->v.text[id], text) != 0)
        return err_set(e, ERR_DATA,
                       "tokenizer.json: id %lld is \"%.64s\" in model.vocab and \"%.64s\" in "
                       "added_tokens",
                       (long long)id, t->v.text[id], text);
    const bool in_vocab = t->v.text[id] != NULL;
    /* A piece of SentencePiece's own file. */
    bool piece = t->v.text[id] && t->v.type[id] == TT_USER;
    enum tok_type type = added_type(t, id, config, text, f.special);
    store_added(t, id, text, type);
    bool plain = t->kind == TOK_SPM && !t->prep.map && !t->prep.squeeze && in_decoder(config, id);
    if (t->score && (!piece || plain)) t->score[id] = ADDED_SCORE;
    if (type == TT_NORMAL) t->v.role[id] = f.special ? TT_CONTROL : TT_USER;
    if (type == TT_BYTE) return 0;
    if (piece && type == TT_USER) return 0; /* matched like other pieces of its kind */
    note_found(t, id, type, f.normalized);
    uint32_t cp;
    const bool one = *text && utf8_decode(text, strlen(text), &cp) == strlen(text);
    const bool space = strcmp(text, META) == 0; /* normalization makes it of spaces */
    if (t->kind == TOK_META && in_vocab && one &&
        (f.special || f.normalized || f.single_word || space))
        tok_found(t, id, FOUND_PIECE);
    struct spot *s = tok_want(t, id, text, strlen(text), f.normalized, t->v.role[id] != TT_USER);
    if (s) {
        s->eats_left = f.lstrip;
        s->eats_right = f.rstrip;
        s->single_word = f.single_word;
    }
    return 0;
}

/* Warns about the first added token whose id is not the one that the tokenizers library gives it:
 * its text's in the vocabulary, otherwise *next, the number after all before. */
static void check_number(const struct tok *t, int64_t id, const char *text, int64_t *next) {
    const bool known = id < t->v.n && t->v.text[id] && strcmp(t->v.text[id], text) == 0;
    const int64_t given = known ? id : *next;
    if (*next < 0) return;
    if (given == id) {
        if (id >= *next) *next = id + 1;
        return;
    }
    *next = -1;
    log_warn("tokenizer.json gives the added token \"%s\" the id %lld, but the tokenizers library "
             "leaves no gaps and uses %lld, and moves those after it too: the file's ids are used; "
             "if the model was trained with the library's, correct added_tokens",
             text, (long long)id, (long long)given);
}

/* Adds the tokens in added_tokens of tokenizer.json. Takes a token's flags from `config`
 * (tokenizer_config.json) if it has the same id and text there, as transformers does. */
static int add_listed(struct tok *t, const struct json *tokenizer, const struct json *config,
                      struct err *e) {
    const struct json *added = json_get(tokenizer, "added_tokens");
    const int64_t n_vocab = json_len(json_get(json_get(tokenizer, "model"), "vocab"));
    int64_t next = t->kind == TOK_SPM || !n_vocab ? -1 : n_vocab;
    for (const struct json *c = json_first(added); c; c = json_next(c)) {
        const char *text = json_str(json_get(c, "content"));
        int64_t id;
        if (!text || !json_i64(json_get(c, "id"), &id) || id < 0)
            return bad_json(e, "an entry of added_tokens has no content or no proper id");
        check_number(t, id, text, &next);
        const struct json *other = in_decoder(config, id);
        const bool same = hf_is(json_get(other, "content"), text);
        TRY(add_token(t, id, text, read_flags(same ? other : c), config, e));
    }
    return 0;
}

int64_t hf_find_text(const struct tok *t, const char *text) {
    for (int64_t id = 0; id < t->v.n; id++)
        if (t->v.text[id] && strcmp(t->v.text[id], text) == 0) return id;
    return -1;
}

/* Returns whether a second file may declare this token: its row is free or already has this text.
 * Warns if two files disagree. */
static bool may_declare(const struct tok *t, int64_t id, const char *text, const char *where) {
    if (id >= t->v.n) return true; /* add_token() handles it */
    if (t->v.text[id] && strcmp(t->v.text[id], text) == 0) return true;
    int64_t other = hf_find_text(t, text);
    if (other >= 0) {
        log_warn(
            "%s gives token \"%s\" the id %lld, but the vocabulary has it as %lld: the latter is "
            "used",
            where, text, (long long)id, (long long)other);
        return false;
    }
    if (t->v.text[id]) {
        log_warn(
            "%s calls token %lld \"%s\", but the vocabulary calls it \"%s\": the latter is used",
            where, (long long)id, text, t->v.text[id]);
        return false;
    }
    return true;
}

/* Reads added_tokens_decoder of tokenizer_config.json: "id": {content, ...}. */
static int read_decoder(struct tok *t, const struct json *list, const struct json *config,
                        bool *declared, struct err *e) {
    for (const struct json *c = json_first(list); c; c = json_next(c)) {
        const char *text = json_str(json_get(c, "content"));
        char *end;
        long long id = strtoll(json_name(c), &end, 10);
        if (!text || *end || end == json_name(c) || id < 0)
            return err_set(e, ERR_DATA,
                           "tokenizer_config.json: an entry of added_tokens_decoder has no content "
                           "or no proper id");
        if (id < t->v.n && declared[id]) continue;
        if (!may_declare(t, id, text, "tokenizer_config.json")) continue;
        TRY(add_token(t, (int64_t)id, text, read_flags(c), config, e));
        if (id < t->v.n) declared[id] = true;
    }
    return 0;
}

/* Reads added_tokens.json, the oldest format: "text": id. As in the library, a token named in
 * tokenizer_config.json or special_tokens_map.json is special; others are matched in normalized
 * text. */
static int read_oldest(struct tok *t, const struct tok_files *f, bool *declared, struct err *e) {
    for (const struct json *c = json_first(f->added); c; c = json_next(c)) {
        const char *text = json_name(c);
        int64_t id;
        if (!json_i64(c, &id) || id < 0 || !text || !*text) continue;
        if (id < t->v.n && declared[id]) continue;
        if (!may_declare(t, id, text, "added_tokens.json")) continue;
        bool special = config_names(f->config, text) || config_names(f->map, text);
        struct flags flags = {.special = special, .normalized = !special};
        TRY(add_token(t, id, text, flags, f->config, e));
        if (id < t->v.n) declared[id] = true;
    }
    return 0;
}

/* Declares a special token of tokenizer_config.json as a control token. Its row is the
 * row of the piece with this text, or else the one after the last row in use. A piece that looks
 * like ordinary text stays text; otherwise answers would lose it. */
static int add_named(struct tok *t, const struct json *c, const struct json *config, bool *declared,
                     struct err *e) {
    const char *text = token_text(c);
    struct flags flags = read_flags(c);
    flags.special = true;
    int64_t id = text && *text ? hf_find_text(t, text) : t->v.n;
    if (id < 0)
        for (id = t->v.n; id > 0 && !t->v.text[id - 1];) id--;
    if (id >= t->v.n || declared[id]) return 0;
    declared[id] = true;
    if (t->v.text[id] && t->v.type[id] == TT_NORMAL && !strchr("<[", text[0])) {
        log_warn(
            "tokenizer_config.json: the special token \"%s\" is an ordinary piece: it stays text",
            text);
        return 0;
    }
    return add_token(t, id, text, flags, config, e);
}

/* Returns whether a value of tokenizer_config.json is another NAME_token than the seven usual
 * ones: a text or, with `object`, an AddedToken. */
static bool is_own_token(const struct json *c, const char *const *usual, size_t n, bool object) {
    const char *name = json_name(c);
    const size_t len = strlen(name);
    if (len <= 6 || strcmp(name + len - 6, "_token") != 0) return false;
    for (size_t i = 0; i < n; i++)
        if (strcmp(name, usual[i]) == 0) return false;
    return object ? hf_is(json_get(c, "__type"), "AddedToken") : json_str(c) != NULL;
}

/* Reads NAME_token and the lists of additional special tokens. transformers adds those that
 * tokenizer.json does not declare, in this order; texts under names of their own, also those of an
 * object extra_special_tokens, replace model_specific_special_tokens, and a list
 * extra_special_tokens replaces additional_special_tokens. */
static int read_named(struct tok *t, const struct json *config, bool *declared, struct err *e) {
    static const char *const one[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                      "pad_token", "cls_token", "mask_token"};
    static const char *const more[] = {"model_specific_special_tokens", "additional_special_tokens",
                                       "extra_special_tokens"};
    const struct json *extra = json_get(config, "extra_special_tokens");
    const bool listed = json_type(extra) == JSON_ARR && json_len(extra);
    bool own = json_type(extra) == JSON_OBJ;
    for (size_t i = 0; i < COUNT_OF(one); i++)
        TRY(add_named(t, json_get(config, one[i]), config, declared, e));
    for (int text = 0; text < 2; text++)
        for (const struct json *c = json_first(config); c; c = json_next(c)) {
            if (!is_own_token(c, one, COUNT_OF(one), !text)) continue;
            own = own || text;
            TRY(add_named(t, c, config, declared, e));
        }
    for (size_t i = own; i < COUNT_OF(more); i++) {
        if (listed && strcmp(more[i], "additional_special_tokens") == 0) continue;
        for (const struct json *c = json_first(json_get(config, more[i])); c; c = json_next(c))
            TRY(add_named(t, c, config, declared, e));
    }
    return 0;
}

/* Records which ids tokenizer.json declares. */
static void note_declared(const struct tok *t, const struct json *added, bool *declared) {
    int64_t id;
    for (const struct json *c = json_first(added); c; c = json_next(c))
        if (json_i64(json_get(c, "id"), &id) && id >= 0 && id < t->v.n) declared[id] = true;
}

int hf_added(struct tok *t, const struct tok_files *f, struct err *e) {
    const struct json *added = json_get(f->tokenizer, "added_tokens");
    bool *declared = xcalloc((size_t)t->v.n, sizeof *declared);
    int rc = add_listed(t, f->tokenizer, f->config, e);
    note_declared(t, added, declared);
    if (!rc)
        rc = read_decoder(t, json_get(f->config, "added_tokens_decoder"), f->config, declared, e);
    if (!rc) rc = read_oldest(t, f, declared, e);
    if (!rc && f->tokenizer && t->kind != TOK_SPM && strcmp(tok_model(t), "gemma4") != 0)
        rc = read_named(t, f->config, declared, e);
    free(declared);
    return rc;
}

int64_t hf_last_id(const struct tok_files *f, int64_t most) {
    const struct json *list = json_get(f->config, "added_tokens_decoder");
    const struct json *added = json_get(f->tokenizer, "added_tokens");
    int64_t id;
    for (const struct json *c = json_first(added); c; c = json_next(c))
        if (json_i64(json_get(c, "id"), &id) && id > most) most = id;
    for (const struct json *c = json_first(f->added); c; c = json_next(c))
        if (json_i64(c, &id) && id > most) most = id;
    for (const struct json *c = json_first(list); c; c = json_next(c))
        if ((id = strtoll(json_name(c), NULL, 10)) > most) most = id;
    return most;
}

void hf_pad(struct tok *t) {
    for (int64_t id = 0; id < t->v.n; id++) {
        char pad[32];
        if (t->v.text[id]) continue;
        int n = snprintf(pad, sizeof pad, "[PAD%lld]", (long long)id);
        vocab_set(&t->v, id, pad, (size_t)n, TT_UNUSED);
        if (t->score) t->score[id] = -10000.0f;
    }
}

/* ---- special ids ----------------------------------------------------------------------------- */

/* Returns the added token with the text; NULL if not found. */
static const struct json *added_by_text(const struct json *added, const char *text) {
    for (const struct json *c = json_first(added); text && c; c = json_next(c))
        if (hf_is(json_get(c, "content"), text)) return c;
    return NULL;
}

/* Reads a special token: NAME_token of tokenizer_config.json or, if that lacks the key, of
 * special_tokens_map.json; otherwise NAME_token_id of config.json, where the root takes precedence
 * over text_config. An empty text means no token. */
static void read_special(struct tok *t, const struct tok_files *f, const char *name,
                         enum tok_special s) {
    const struct json *added = json_get(f->tokenizer, "added_tokens");
    char key[32];
    int64_t id = -1;
    snprintf(key, sizeof key, "%s_token", name);
    const bool mapped = !json_get(f->config, key);
    const char *text = token_text(json_get(mapped ? f->map : f->config, key));
    const struct json *a = added_by_text(added, text);
    if (text && !*text) {
        t->special[s] = -1;
        return;
    }
    if (!a && text) id = hf_find_text(t, text);
    if (!a && text && id < 0 && (s == TS_BOS || s == TS_EOS))
        log_warn("%s: %s \"%s\" is not a token: %s_id of config.json is used",
                 mapped ? "special_tokens_map.json" : "tokenizer_config.json", key, text, key);
    if (id < 0 && (!a || !json_i64(json_get(a, "id"), &id))) {
        snprintf(key, sizeof key, "%s_token_id", name);
        if (!json_i64(json_get(f->model, key), &id) &&
            !json_i64(json_get(json_get(f->model, "text_config"), key), &id))
            return;
        if (id >= t->v.n && s != TS_EOS) /* hf_ends reports an invalid eos; -1 means none */
            log_warn("config.json: %s is %lld, but the vocabulary has %lld rows: ignored", key,
                     (long long)id, (long long)t->v.n);
    }
    if (id >= 0 && id < t->v.n) t->special[s] = id;
}

/* Returns the special token that is the first piece of the post-processor's template (with `last`:
 * its last piece); NULL: none. RobertaProcessing and BertProcessing name the two as pairs of text
 * and id. */
static const char *template_token(const struct json *post, bool last, int depth) {
    const char *text = NULL;
    if (hf_is(json_get(post, "type"), "Sequence") && depth < 4) {
        const struct json *c = json_first(json_get(post, "processors"));
        for (; c && !text; c = json_next(c)) text = template_token(c, last, depth + 1);
        return text;
    }
    text = json_str(json_first(json_get(post, last ? "sep" : "cls")));
    if (text) return text;
    const struct json *c = json_first(json_get(post, "single"));
    while (last && c && json_next(c)) c = json_next(c);
    return json_str(json_get(json_get(c, "SpecialToken"), "id"));
}

/* Makes the token that an embedding model's template appends the eos, as llama.cpp's converter
 * does, because readers append no other. The eos of chats becomes the eot. */
static void take_appended(struct tok *t, const struct json *post) {
    const char *text = template_token(post, true, 0);
    const int64_t id = text ? hf_find_text(t, text) : -1, eos = t->special[TS_EOS];
    if (id < 0 || id == eos) return;
    t->special[TS_EOT] = eos;
    t->special[TS_EOS] = id;
}

/* Reads whether BOS (last: EOS) is added. *has: the files specify it. */
static void read_add_flag(const struct tok *t, const struct json *post, const struct json *config,
                          bool last, bool *has, bool *value) {
    const struct json *j = json_get(config, last ? "add_eos_token" : "add_bos_token");
    int64_t id = t->special[last ? TS_EOS : TS_BOS];
    const char *text = template_token(post, last, 0);
    *has = json_type(j) == JSON_BOOL;
    *value = json_bool(j, false);
    if (!*has && id >= 0 && text && strcmp(text, t->v.text[id]) == 0) *has = *value = true;
}

/* Sets the flags that no file specifies and that the tokenizer's class implies. */
static void default_flags(struct tok *t, const struct json *config) {
    const char *name = json_str(json_get(config, "tokenizer_class"));
    bool t5 = name && strstr(name, "T5");
    const struct json *bos = json_get(config, "bos_token"); /* null: no token */
    bool none = bos && json_type(bos) == JSON_NULL;
    if (t->kind == TOK_SPM && !t->has_add_bos) t->add_bos = t->special[TS_BOS] >= 0 && !none;
    if (t->kind == TOK_UNIGRAM && t5 && !t->has_add_eos)
        t->has_add_eos = t->add_eos = t->special[TS_EOS] >= 0;
}

void hf_specials(struct tok *t, const struct tok_files *f) {
    static const struct {
        const char *name;
        enum tok_special s;
    } list[] = {{"bos", TS_BOS}, {"eos", TS_EOS}, {"unk", TS_UNK},
                {"sep", TS_SEP}, {"pad", TS_PAD}, {"mask", TS_MASK}};
    const struct json *post = json_get(f->tokenizer, "post_processor");
    for (size_t i = 0; i < COUNT_OF(list); i++) read_special(t, f, list[i].name, list[i].s);
    if (f->embeds) take_appended(t, post);
    read_add_flag(t, post, f->config, false, &t->has_add_bos, &t->add_bos);
    read_add_flag(t, post, f->config, true, &t->has_add_eos, &t->add_eos);
    if (!f->tokenizer) default_flags(t, f->config);
    if (strcmp(tok_model(t), "gemma4") == 0 && t->special[TS_BOS] >= 0)
        /* These models fail without it, and readers force it. */
        t->has_add_bos = t->add_bos = true;
    hf_ends(t, f);
}
