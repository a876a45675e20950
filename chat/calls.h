// SPDX-License-Identifier: MIT
/* chat/calls.h - grammars for single tool calls (calls.c) and for whole answers that contain calls
 * (calls_gram.c). */
#ifndef HONE_CHAT_CALLS_H
#define HONE_CHAT_CALLS_H

#include "grammar/gram_int.h"

struct toolfmt;
struct gcalls {
    struct grammar *g;
    const struct toolfmt *f;
    struct gram_opts o;
    const struct json *any_object; /* a schema */
    bool lines;                    /* each tag is on its own line */
    int rc;
    struct err *e;
};
struct gcall { /* a tool that may be called */
    const char *name;
    const struct json *schema; /* schema of the arguments */
    bool strict;               /* `strict: true`: reject unsupported clauses */
};
/* Returns the language of the marker s. A control token's name in it matches that token. s NULL:
 * the empty text. */
gnode call_text(struct gcalls *c, const char *s);

/* Return the language of one call of the tool t, beginning with the tool's name. Each function is
 * the `grammar` of some rows of chat/tool_formats.c. */
gnode call_tags(struct gcalls *c, const struct gcall *t);
gnode call_keys(struct gcalls *c, const struct gcall *t);
gnode call_elements(struct gcalls *c, const struct gcall *t);
gnode call_named(struct gcalls *c, const struct gcall *t);
gnode call_deepseek(struct gcalls *c, const struct gcall *t);
gnode call_deepseek_v3(struct gcalls *c, const struct gcall *t);
gnode call_harmony(struct gcalls *c, const struct gcall *t);
gnode call_args(struct gcalls *c, const struct gcall *t);
gnode call_item(struct gcalls *c, const struct gcall *t);
gnode call_item_id(struct gcalls *c, const struct gcall *t);
gnode call_item_llama(struct gcalls *c, const struct gcall *t);
gnode call_item_command(struct gcalls *c, const struct gcall *t);
gnode call_item_action(struct gcalls *c, const struct gcall *t);
gnode call_item_key(struct gcalls *c, const struct gcall *t);
gnode call_gemma(struct gcalls *c, const struct gcall *t);
gnode call_python(struct gcalls *c, const struct gcall *t);

#endif
