// SPDX-License-Identifier: MIT
/* tok/tok_sp.c - tokenizer from SentencePiece's file (tokenizer.model, spiece.model), with the
 * added tokens and special ids of the accompanying files. */
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "tok/sp_model.h"
#include "tok/tok_hf.h"

/* Stores the texts, types and scores of the pieces. */
static int read_pieces(struct tok *t, const struct sp_model *m, struct err *e) {
    t->score = xcalloc((size_t)t->v.n, sizeof *t->score);
    if (m->n > t->v.n)
        return err_set(
            e, ERR_DATA,
            "tokenizer.model has %lld pieces, but the model only %lld rows: the tokenizer "
            "belongs to another model",
            (long long)m->n, (long long)t->v.n);
    for (int64_t id = 0; id < m->n; id++) {
        const struct sp_piece *p = &m->piece[id];
        bool nul = memchr(p->text, 0, p->len) != NULL;
        if (nul && p->len > 1)
            return err_set(e, ERR_DATA, "tokenizer.model: piece %lld holds a NUL", (long long)id);
        vocab_set(&t->v, id, nul ? NUL_STORED : p->text, nul ? sizeof NUL_STORED - 1 : p->len,
                  (enum tok_type)p->type);
        t->score[id] = p->score;
        if (p->type == TT_UNKNOWN && t->special[TS_UNK] < 0) t->special[TS_UNK] = id;
    }
    return 0;
}

/* Sets the kind and the rules for spaces from tokenizer.model and its configuration. */
static void read_rules(struct tok *t, const struct sp_model *m, const struct tok_files *f) {
    struct prep *p = &t->prep;
    t->kind = m->kind == SP_BPE ? TOK_SPM : TOK_UNIGRAM;
    t->pre = "default"; /* written by llama.cpp's converter; ignored here */
    t->byte_fallback = m->byte_fallback;
    t->fuse_unk = true;
    t->float_sums = true;
    p->squeeze = m->squeeze_spaces;
    p->behind = m->space_behind;
    bool first = json_type(json_get(f->config, "legacy")) == JSON_BOOL &&
                 !json_bool(json_get(f->config, "legacy"), true);
    p->prefix = first ? PREFIX_FIRST : PREFIX_EACH;
    if (f->tokenizer) (void)hf_prefix(f->tokenizer, p);
    bool says = json_type(json_get(f->config, "add_prefix_space")) == JSON_BOOL;
    if (!m->add_space || (says && !json_bool(json_get(f->config, "add_prefix_space"), true)))
        p->prefix = PREFIX_NONE;
}

/* Takes the ids of bos, eos and pad from the file itself; other files may override them. */
static void own_specials(struct tok *t, const struct sp_model *m) {
    const int64_t own[] = {m->bos, m->eos, m->pad};
    static const enum tok_special to[] = {TS_BOS, TS_EOS, TS_PAD};
    for (size_t i = 0; i < COUNT_OF(own); i++)
        if (own[i] >= 0 && t->special[to[i]] < 0 && t->v.type[own[i]] == TT_CONTROL)
            t->special[to[i]] = own[i];
}

/* Marks the pieces that are matched beforehand; those listed in tokenizer.json are already
 * marked. */
static void want_pieces(struct tok *t, const struct sp_model *m, bool listed) {
    for (int64_t id = 0; id < m->n; id++) {
        const char *s = t->v.text[id];
        int type = t->v.type[id];
        if (!listed && (type == TT_CONTROL || type == TT_UNKNOWN) && t->score[id] > ADDED_SCORE)
            (void)tok_want(t, id, s, t->v.len[id], false, true);
        if (type != TT_USER || m->piece[id].type != TT_USER) continue;
        if (t->kind == TOK_SPM) (void)tok_want(t, id, s, t->v.len[id], true, false);
        tok_leave_alone(t, id);
    }
}

/* Reads the whole tokenizer; n_vocab 0: as many rows as ids. */
static int build_tok(struct tok *t, const struct sp_model *m, const struct tok_files *f,
                     int64_t n_vocab, struct err *e) {
    TRY(vocab_init(&t->v, n_vocab > 0 ? n_vocab : hf_last_id(f, m->n - 1) + 1, e));
    read_rules(t, m, f);
    TRY(read_pieces(t, m, e));
    if (m->charsmap)
        TRY(charsmap_new(&t->prep.map, m->charsmap, m->charsmap_len, "tokenizer.model", e));
    hf_decoder(t, json_get(f->tokenizer, "decoder"));
    TRY(hf_added(t, f, e));
    hf_pad(t);
    own_specials(t, m);
    hf_specials(t, f);
    want_pieces(t, m, f->tokenizer != NULL);
    return tok_finish(t, false, e) ? err_wrap(e, "tokenizer.model") : 0;
}

int tok_from_sp(struct tok **out, const struct tok_files *f, int64_t n_vocab, struct err *e) {
    struct sp_model m;
    TRY(sp_model_read(&m, f->sp, f->sp_len, e));
    struct tok *t = tok_new();
    int rc = build_tok(t, &m, f, n_vocab, e);
    sp_model_release(&m);
    return tok_built(out, t, rc);
}

/* Returns whether a piece has the text of a token of tokenizer.json. */
static bool same_text(const struct sp_piece *p, const char *text) {
    if (strcmp(text, NUL_READ) == 0) return p->len == 1 && !p->text[0];
    return strlen(text) == p->len && memcmp(text, p->text, p->len) == 0;
}

/* Returns for each id below n whether added_tokens lists it; the caller frees it. */
static bool *listed_ids(const struct json *added, int64_t n) {
    bool *listed = xcalloc((size_t)n + 1, sizeof *listed);
    int64_t id;
    for (const struct json *c = json_first(added); c; c = json_next(c))
        if (json_i64(json_get(c, "id"), &id) && id >= 0 && id < n) listed[id] = true;
    return listed;
}

bool sp_agrees(const struct tok_files *f) {
    struct sp_model m;
    struct err e;
    /* The caller then gets the same error and reports it. */
    if (sp_model_read(&m, f->sp, f->sp_len, &e)) return true;
    const struct json *vocab = json_get(json_get(f->tokenizer, "model"), "vocab");
    bool list = json_type(vocab) == JSON_ARR, agrees = true;
    int64_t id = 0, n = 0, n_listed = m.n + json_len(vocab);
    bool *listed = listed_ids(json_get(f->tokenizer, "added_tokens"), n_listed);
    for (const struct json *c = json_first(vocab); c && agrees; c = json_next(c), n++) {
        const char *text = list ? json_str(json_first(c)) : json_name(c);
        if (list)
            id = n;
        else if (!json_i64(c, &id))
            id = -1;
        agrees = text && id >= 0 &&
                 (id < m.n ? same_text(&m.piece[id], text) : id < n_listed && listed[id]);
    }
    free(listed);
    sp_model_release(&m);
    return agrees;
}
