// SPDX-License-Identifier: MIT
/* lib/handles.h - handles of include/hone.h that other handles contain. */
#ifndef HONE_LIB_HANDLES_H
#define HONE_LIB_HANDLES_H

#include "containers/gguf.h"
#include "lib/call.h"
#include "runtime/engine/model.h"
#include "runtime/engine/session.h"
#include "template/chat.h"
#include "tok/tok.h"

struct hone_gguf {
    struct owner *owner;
    struct gguf *g;
    bool owned; /* g is freed with the handle; otherwise another handle owns it */
};
struct hone_tokenizer {
    struct owner *owner;
    struct tok *t;
    bool owned; /* t is freed with the handle; otherwise another handle owns it */
};
struct hone_template {
    struct owner *owner;
    struct chat *chat;
    char *text;
    size_t len;
};
struct hone_model {
    struct owner *owner;
    struct model *m;
    struct hone_gguf gguf;
    struct hone_tokenizer tok;  /* its tokenizer; t NULL: none, reason in m->no_tok */
    struct hone_template *tmpl; /* NULL: none, reason in no_tmpl */
    struct err no_tmpl;
};
struct hone_session {
    struct owner *owner;
    const struct hone_model *model;
    struct pool *pool;
    struct session *s;
    struct draft
        *draft; /* speculative decoding on s, which is then used only through it; or NULL */
    struct gen
        *gen; /* generator on the session's own sequence; NULL before the first hone_generate */
    struct pictures *pictures; /* NULL before the first image */
    int *held;                 /* [n_held] images of the last prompt */
    int n_held;
};
struct hone_seq {
    struct hone_session *s;
    struct seq *q;
};
struct hone_quantizer {
    struct owner *owner;
    struct pool *pool;
};

/* Creates a handle of a GGUF file's template. Needs an entered context. */
int template_of(struct hone_template **out, struct owner *owner, const struct gguf *g,
                const struct tok *t, struct err *e);
/* Frees the session's generator, after another call has changed the session's sequence. */
void session_forget(struct hone_session *s);
/* Lets the images of the last prompt go. */
void session_drop_images(struct hone_session *s);
/* Returns the row of a token; ids below 0 are rows of the session's images. */
struct session_row session_row_of(const struct hone_session *s, int32_t id);

#endif
