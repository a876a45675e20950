// SPDX-License-Identifier: MIT
/* lib/tokenizer.c - tokenizer handles: text to tokens and back. */
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/json.h"
#include "lib/handles.h"
#include "template/chat_ends.h"

/* Creates a handle without a tokenizer, which the caller fills in, and begins its call. */
static int new_handle(struct hone_tokenizer **out, const struct hone_opts *o, const char *file,
                      struct call *c, struct hone_error *e) {
    *out = NULL;
    struct hone_tokenizer *t = lib_new(sizeof *t, e);
    int rc = t ? owner_new(&t->owner, o, file, e) : HONE_SYSTEM;
    if (!rc) rc = call_begin(c, t->owner, e);
    if (rc) {
        if (t) owner_drop(t->owner);
        free(t);
        return rc;
    }
    t->owned = true;
    *out = t;
    return HONE_OK;
}

/* Ends the call; on error closes *t and sets it to NULL. Returns the caller's code. */
static int end_handle(struct hone_tokenizer **t, struct call *c, int rc, struct hone_error *e) {
    rc = call_end(c, rc, e);
    if (!rc) return rc;
    hone_tokenizer_close(*t);
    *t = NULL;
    return rc;
}

/* Reads the tokenizer of a GGUF file, including the tokens that end an answer. */
static int open_gguf(struct tok **out, const char *path, struct err *e) {
    struct gguf *g;
    TRY(gguf_open(&g, path, GGUF_TOLERANT | GGUF_ONE_FILE, e));
    int rc = tok_from_gguf(out, g, e);
    if (rc)
        err_wrap(e, "%s", path);
    else
        chat_find_ends_gguf(g, *out);
    gguf_close(g);
    return rc;
}

int hone_tokenizer_open(struct hone_tokenizer **out, const char *path, const struct hone_opts *o,
                        struct hone_error *e) {
    NEED(path, e);
    struct call c;
    int rc = new_handle(out, o, path, &c, e);
    if (rc) return rc;
    rc = io_is_dir(path) ? tok_from_dir(&(*out)->t, path, 0, NULL, &c.err)
                         : open_gguf(&(*out)->t, path, &c.err);
    return end_handle(out, &c, rc, e);
}

int hone_tokenizer_from_gguf(struct hone_tokenizer **out, const struct hone_gguf *g,
                             struct hone_error *e) {
    struct call c;
    int rc = new_handle(out, &g->owner->o, g->owner->file, &c, e);
    if (rc) return rc;
    rc = tok_from_gguf(&(*out)->t, g->g, &c.err);
    if (!rc) chat_find_ends_gguf(g->g, (*out)->t);
    return end_handle(out, &c, rc, e);
}

int hone_tokenizer_from_json(struct hone_tokenizer **out, const char *json, size_t len,
                             const char *config, size_t config_len, const struct hone_opts *o,
                             struct hone_error *e) {
    struct call c;
    struct json *doc = NULL, *conf = NULL;
    int rc = new_handle(out, o, NULL, &c, e);
    if (rc) return rc;
    rc = json_parse(&doc, json, len, "tokenizer.json", &c.err);
    if (!rc && config) rc = json_parse(&conf, config, config_len, "tokenizer_config.json", &c.err);
    if (!rc) rc = tok_from_hf(&(*out)->t, doc, conf, NULL, NULL, 0, NULL, &c.err);
    json_free(conf);
    json_free(doc);
    return end_handle(out, &c, rc, e);
}

/* Closes the tokenizer; t may be NULL. One that belongs to a model stays open. */
void hone_tokenizer_close(struct hone_tokenizer *t) {
    if (!t || !t->owned) return;
    if (t->t) tok_free(t->t);
    owner_drop(t->owner);
    free(t);
}

int hone_tokenize(const struct hone_tokenizer *t, const char *text, size_t len, unsigned flags,
                  int32_t **ids, int64_t *n, struct hone_error *e) {
    struct call c;
    struct ids list = {0};
    *ids = NULL;
    *n = 0;
    int rc = call_begin(&c, t->owner, e);
    if (rc) return rc;
    rc = tok_encode(t->t, text, len, (flags & HONE_CONTROL) != 0, (flags & HONE_BOS) != 0, &list,
                    &c.err);
    if (!rc && !list.v) list.v = xcalloc(1, sizeof *list.v);
    if ((rc = call_end(&c, rc, e))) {
        ids_release(&list);
        return rc;
    }
    *ids = list.v;
    *n = list.n;
    return HONE_OK;
}

int hone_detokenize(const struct hone_tokenizer *t, const int32_t *ids, int64_t n, unsigned flags,
                    char **text, size_t *len, struct hone_error *e) {
    struct call c;
    struct buf b = {0};
    *text = NULL;
    for (int64_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= tok_n_vocab(t->t))
            return lib_error(e, HONE_USAGE, "there is no token %ld; the vocabulary has %lld",
                             (long)ids[i], (long long)tok_n_vocab(t->t));
    int rc = call_begin(&c, t->owner, e);
    if (rc) return rc;
    tok_decode_text(t->t, ids, n, (flags & HONE_CONTROL) != 0, &b);
    if (len) *len = b.len;
    *text = buf_take(&b);
    return call_end(&c, 0, e);
}

int64_t hone_n_vocab(const struct hone_tokenizer *t) {
    return tok_n_vocab(t->t);
}

const char *hone_token_text(const struct hone_tokenizer *t, int32_t id, size_t *len) {
    size_t n = 0;
    const bool there = id >= 0 && id < tok_n_vocab(t->t);
    const char *s = there ? tok_text(t->t, id, &n) : NULL;
    if (len) *len = n;
    return s;
}

int32_t hone_token_find(const struct hone_tokenizer *t, const char *text) {
    return text ? (int32_t)tok_find(t->t, text) : -1;
}

int hone_token_ends(const struct hone_tokenizer *t, int32_t id) {
    return id >= 0 && id < tok_n_vocab(t->t) && tok_is_eog(t->t, id);
}

/* Returns the id of the special token, -1 if the vocabulary has none. */
int32_t hone_token_special(const struct hone_tokenizer *t, enum hone_special s) {
    return s <= HONE_TOKEN_EOM ? (int32_t)tok_special(t->t, (enum tok_special)s) : -1;
}
