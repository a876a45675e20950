// SPDX-License-Identifier: MIT
/* tok/tok_hf.c - tokenizer from the files of a folder: selection of the file, and the vocabulary
 * and merges of tokenizer.json. Recognition is by structure (tok_hf_kind.c), not by hashes: a
 * vocabulary with an additional token still works.
 *
 * The resulting lists (texts, types, special ids) equal the lists of llama.cpp's converter, so that
 * GGUF files match; tests/unit/test_tok_lists.c checks that. Roles (tok.c) come from added_tokens,
 * which a GGUF does not fully preserve. */
#include <math.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "tok/sp_model.h"
#include "tok/tok_hf.h"

/* Sets ERR_DATA about tokenizer.json and returns it. */
static int bad_json(struct err *e, const char *what) {
    return err_set(e, ERR_DATA, "tokenizer.json: %s", what);
}

/* ---- the model: vocabulary and merges -------------------------------------------------------- */

/* Checks that a BPE model is supported and reads its options. */
static int check_bpe(struct tok *t, const struct json *model, struct err *e) {
    if (json_type(json_get(model, "vocab")) != JSON_OBJ)
        return bad_json(e, "model.vocab is not an object of texts and ids");
    if (json_type(json_get(model, "merges")) != JSON_ARR)
        return bad_json(e, "model.merges is not a list");
    static const char *const affix[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    for (size_t i = 0; i < COUNT_OF(affix); i++) {
        const char *s = json_str(json_get(model, affix[i]));
        if (s && *s)
            return err_set(e, ERR_DATA, "tokenizer.json: model.%s \"%.32s\" is not supported",
                           affix[i], s);
    }
    t->ignore_merges = json_bool(json_get(model, "ignore_merges"), false);
    t->fuse_unk = json_bool(json_get(model, "fuse_unk"), false);
    return 0;
}

/* Checks that the model's type is supported and sets t->kind. */
static int check_model(struct tok *t, const struct json *model, struct err *e) {
    const char *type = json_str(json_get(model, "type"));
    if (json_type(model) != JSON_OBJ) return bad_json(e, "there is no \"model\" object");
    t->byte_fallback = json_bool(json_get(model, "byte_fallback"), false);
    if (type && strcmp(type, "Unigram") == 0) {
        t->kind = TOK_UNIGRAM;
        t->fuse_unk = true;
        return json_type(json_get(model, "vocab")) == JSON_ARR
                   ? 0
                   : bad_json(e, "model.vocab is not a list of pieces and scores");
    }
    if (type && strcmp(type, "BPE") != 0)
        return err_set(
            e, ERR_DATA,
            "tokenizer.json: model type \"%.64s\" is not supported: only BPE and Unigram "
            "are",
            type);
    return check_bpe(t, model, e);
}

/* Returns the largest id of the vocabulary and the added tokens; -1 if both are empty. */
static int64_t largest_id(const struct json *vocab, const struct tok_files *f) {
    int64_t id, most = json_type(vocab) == JSON_ARR ? json_len(vocab) - 1 : -1;
    for (const struct json *c = json_first(vocab); c; c = json_next(c))
        if (json_i64(c, &id) && id > most) most = id;
    return hf_last_id(f, most);
}

/* Reads texts and ids of a BPE vocabulary. */
static int read_vocab(struct tok *t, const struct json *vocab, struct err *e) {
    for (const struct json *c = json_first(vocab); c; c = json_next(c)) {
        int64_t id;
        const char *text = hf_token_text(json_name(c));
        TRY(mem_check(e));
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
        bool byte = tok_has_meta(t) && tok_byte_text(text, len) >= 0;
        vocab_set(&t->v, id, text, len, byte ? TT_BYTE : TT_NORMAL);
    }
    return 0;
}

/* Reads token `id` of a Unigram vocabulary: a pair of text and score. */
static int read_piece(struct tok *t, int64_t id, const struct json *c, struct err *e) {
    const char *text = json_str(json_first(c));
    const struct json *score = text ? json_next(json_first(c)) : NULL;
    if (json_type(c) != JSON_ARR || !text || !*text || json_type(score) != JSON_NUM ||
        !isfinite((float)json_num(score, 0)))
        return err_set(e, ERR_DATA, "tokenizer.json: piece %lld is not a text and a score",
                       (long long)id);
    if (id >= t->v.n)
        return err_set(e, ERR_DATA,
                       "tokenizer.json: there are more pieces than the model's %lld rows: the "
                       "tokenizer belongs to another model",
                       (long long)t->v.n);
    text = hf_token_text(text);
    bool byte = t->byte_fallback && tok_byte_text(text, strlen(text)) >= 0;
    vocab_set(&t->v, id, text, strlen(text), byte ? TT_BYTE : TT_NORMAL);
    t->score[id] = (float)json_num(score, 0);
    return 0;
}

/* Reads a Unigram vocabulary with its scores. */
static int read_scored_vocab(struct tok *t, const struct json *model, struct err *e) {
    int64_t id = 0, unk = -1;
    t->score = try_calloc((size_t)t->v.n, sizeof *t->score, "the scores of a vocabulary", e);
    if (!t->score) return ERR_SYS;
    for (const struct json *c = json_first(json_get(model, "vocab")); c; c = json_next(c))
        TRY(read_piece(t, id++, c, e));
    if (!json_i64(json_get(model, "unk_id"), &unk)) return 0;
    if (unk < 0 || unk >= id) return bad_json(e, "model.unk_id is not a piece");
    t->v.type[unk] = t->v.role[unk] = TT_UNKNOWN;
    t->special[TS_UNK] = unk;
    return 0;
}

/* Appends one half of a merge, with U+0120 for spaces, which cannot be stored. */
static void merge_part(struct buf *b, const char *s, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (s[i] == ' ')
            buf_str(b, "\xc4\xa0"); /* U+0120, the space of the byte alphabet */
        else
            buf_chr(b, s[i]);
    }
}

/* Appends merge i to b as "left right". */
static int read_merge(struct buf *b, const struct json *c, int64_t i, struct err *e) {
    const char *s = json_str(c), *left = NULL, *right = NULL;
    TRY(mem_check(e));
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

/* Reads the merges, in order of rank. */
static int read_merges(struct tok *t, const struct json *merges, struct err *e) {
    int64_t n = json_len(merges), i = 0;
    struct buf b = {0};
    int rc = 0;
    if (n > INT32_MAX / 2) return bad_json(e, "there are too many merges");
    if (!(t->merge = try_calloc((size_t)n + 1, sizeof *t->merge, "merges", e)) ||
        !(t->merge_len = try_calloc((size_t)n + 1, sizeof *t->merge_len, "merges", e)))
        return ERR_SYS;
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

/* ---- tokenizer ------------------------------------------------------------------------------- */

/* Reads the vocabulary, with merges or scores. */
static int read_model(struct tok *t, const struct json *model, struct err *e) {
    if (t->kind == TOK_UNIGRAM) return read_scored_vocab(t, model, e);
    const char *unk = json_str(json_get(model, "unk_token"));
    TRY(read_vocab(t, json_get(model, "vocab"), e));
    const int64_t id = unk ? hf_find_text(t, unk) : -1;
    if (t->kind == TOK_BYTES) {
        t->unk = id;
    } else if (id >= 0 && strcmp(tok_model(t), "llama") == 0) {
        t->v.type[id] = t->v.role[id] = TT_UNKNOWN;
        t->special[TS_UNK] = id;
    }
    return read_merges(t, json_get(model, "merges"), e);
}

/* Reads the whole tokenizer. n_vocab 0: as many rows as ids; pre NULL: recognize the
 * pre-tokenizer. */
static int build_tok(struct tok *t, const struct tok_files *f, int64_t n_vocab, const char *pre,
                     struct err *e) {
    const struct json *model = json_get(f->tokenizer, "model");
    TRY(check_model(t, model, e));
    TRY(hf_recognise(t, f, pre, e));
    if (n_vocab <= 0) n_vocab = largest_id(json_get(model, "vocab"), f) + 1;
    TRY(vocab_init(&t->v, n_vocab, e));
    TRY(read_model(t, model, e));
    hf_decoder(t, json_get(f->tokenizer, "decoder"));
    TRY(hf_added(t, f, e));
    hf_pad(t);
    hf_specials(t, f);
    if (tok_finish(t, false, e)) return err_wrap(e, "tokenizer.json");
    if (t->kind == TOK_META && strcmp(tok_model(t), "llama") == 0) ranks_to_scores(t);
    return 0;
}

/* Reads tokenizer.json; n_vocab and pre are those of build_tok(). */
static int from_tokenizer_json(struct tok **out, const struct tok_files *f, int64_t n_vocab,
                               const char *pre, struct err *e) {
    struct tok *t = tok_new();
    return tok_built(out, t, build_tok(t, f, n_vocab, pre, e));
}

int tok_from_hf(struct tok **out, const struct json *tokenizer_json, const struct json *config,
                const struct json *model_config, const struct json *generation_config,
                int64_t n_vocab, const char *pre, struct err *e) {
    const struct tok_files f = {.tokenizer = tokenizer_json,
                                .config = config,
                                .model = model_config,
                                .generation = generation_config};
    return from_tokenizer_json(out, &f, n_vocab, pre, e);
}

/* Returns whether the folder's tokenizer is taken from SentencePiece's file. */
static bool use_sp(const struct tok_files *f, const char *pre) {
    if (!f->sp || pre || !sp_model_like(f->sp, f->sp_len)) return false;
    if (!f->tokenizer) return true;
    if (!hf_like_sentencepiece(f->tokenizer)) return false;
    if (sp_agrees(f)) return true;
    log_warn("tokenizer.model and tokenizer.json have different tokens: using tokenizer.json");
    return false;
}

int tok_from_files(struct tok **out, const struct tok_files *f, int64_t n_vocab, const char *pre,
                   struct err *e) {
    if (use_sp(f, pre)) return tok_from_sp(out, f, n_vocab, e);
    if (f->tokenizer) return from_tokenizer_json(out, f, n_vocab, pre, e);
    if (f->tekken && pre)
        return err_set(e, ERR_USAGE, "tekken.json itself says how text is split: leave --pre out");
    if (f->tekken) {
        TRY(tok_from_tekken(out, f->tekken, f->tekken_len, n_vocab, e));
        hf_ends(*out, f);
        return 0;
    }
    if (f->tiktoken) return tok_from_tiktoken(out, f, n_vocab, pre, e);
    if (f->sp && tiktoken_like(f->sp, f->sp_len)) {
        struct tok_files g = *f;
        g.tiktoken = f->sp;
        g.tiktoken_len = f->sp_len;
        g.tiktoken_name = "tokenizer.model";
        return tok_from_tiktoken(out, &g, n_vocab, pre, e);
    }
    if (f->sp && pre && sp_model_like(f->sp, f->sp_len))
        return err_set(e, ERR_USAGE,
                       "tokenizer.model is SentencePiece's, which has no pre-tokenizer to choose: "
                       "leave --pre out");
    return err_set(e, ERR_DATA,
                   f->sp
                       ? "tokenizer.model is not SentencePiece's, and there is no "
                         "tokenizer.json: download it from the original release"
                       : "there is no tokenizer.json, no tokenizer.model, no tekken.json, no "
                         "tiktoken file and no vocab.json with merges.txt: download them from the "
                         "original release");
}
