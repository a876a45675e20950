// SPDX-License-Identifier: MIT
/* lib/handles.h - the handles of include/hone.h that others are made of. */
#ifndef HONE_LIB_HANDLES_H
#define HONE_LIB_HANDLES_H

#include "containers/gguf.h"
#include "lib/call.h"
#include "runtime/engine/model.h"
#include "runtime/engine/session.h"
#include "template/chat.h"
#include "tok/tok.h"

/* `owned`: what it wraps is freed with it; else it is another handle's. */
struct hone_gguf {
    struct owner *owner;
    struct gguf *g;
    bool owned;
};
struct hone_tokenizer {
    struct owner *owner;
    struct tok *t;
    bool owned;
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
    struct hone_tokenizer tok;  /* of it, t NULL: none, the reason is in m->no_tok */
    struct hone_template *tmpl; /* NULL: none, the reason is in no_tmpl */
    struct err no_tmpl;
};
struct hone_session {
    struct owner *owner;
    const struct hone_model *model;
    struct pool *pool;
    struct session *s;
    struct draft *draft; /* over s, which is then used through it; NULL: none */
    struct gen *gen;     /* over its own sequence; NULL before the first hone_generate */
};
struct hone_seq {
    struct hone_session *s;
    struct seq *q;
};
struct hone_quantizer {
    struct owner *owner;
    struct pool *pool;
};

/* Makes a handle of the template of a GGUF file, in the context that the caller has entered. */
int template_of(struct hone_template **out, struct owner *owner, const struct gguf *g,
                const struct tok *t, struct err *e);
/* Frees the session's generator, when what it remembers of its own sequence is true no longer. */
void session_forget(struct hone_session *s);

#endif
