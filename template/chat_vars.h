// SPDX-License-Identifier: MIT
/* template/chat_vars.h - what a chat template sees; shared by chat.c, chat_batch.c and the linter.
 */
#ifndef HONE_TEMPLATE_CHAT_VARS_H
#define HONE_TEMPLATE_CHAT_VARS_H

#include "template/jinja_int.h"

struct chat_case { /* one rendering; JT_MISSING where absent */
    struct jval messages, tools, documents;
    struct jval defaults; /* special tokens: an object */
    struct jval kwargs, drop;
    bool gen;        /* add_generation_prompt */
    bool parse_args; /* arguments that are JSON text of an object are parsed first */
    bool text_args;  /* arguments that are objects are made JSON text */
    bool llamacpp;   /* tools stay undefined when there are none, enable_thinking is always there */
    int64_t now;
};
/* Makes a case from an object with the keys of a scenario (messages, tools, documents, kwargs,
 * drop, add_generation_prompt). */
struct chat_case chat_case_of(struct jval scenario, struct jval defaults);
struct jval chat_case_vars(struct jctx *c, void *ctx /* struct chat_case */);
int chat_case_render(const struct jinja *t, const struct chat_case *k, struct buf *out,
                     struct jinja_err *je, struct err *e);
struct jval chat_member(struct jval obj, const char *name); /* JT_MISSING when absent */

#endif
