// SPDX-License-Identifier: MIT
/* template/chat_vars.h - the variables passed to a chat template. */
#ifndef HONE_TEMPLATE_CHAT_VARS_H
#define HONE_TEMPLATE_CHAT_VARS_H

#include "template/jinja_int.h"

struct chat_case { /* one rendering; absent parts are JT_MISSING */
    struct jval messages, tools, documents;
    struct jval defaults; /* object: special tokens */
    struct jval kwargs, drop;
    bool gen;        /* add_generation_prompt */
    bool parse_args; /* parse arguments given as JSON text of an object */
    bool text_args;  /* turn object arguments into JSON text */
    bool llamacpp;   /* as in llama.cpp: tools undefined if empty, enable_thinking always defined */
    int64_t now;
};
/* Converts a scenario object (messages, tools, documents, kwargs, drop, add_generation_prompt). */
struct chat_case chat_case_of(struct jval scenario, struct jval defaults);
/* Returns the template's variables for ctx, a struct chat_case. */
struct jval chat_case_vars(struct jctx *c, void *ctx /* struct chat_case */);
/* Renders a case into out. On error, *je contains the place in the template and *e the message. */
int chat_case_render(const struct jinja *t, const struct chat_case *k, struct buf *out,
                     struct jinja_err *je, struct err *e);
struct jval chat_member(struct jval obj, const char *name); /* JT_MISSING: absent */

#endif
