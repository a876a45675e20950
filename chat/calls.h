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
    const struct json *any, *any_object; /* schemas */
    bool lines;                          /* each tag is on its own line */
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
/* Returns the rule for one call whose parameters are pairs of key and value tags. */
gnode call_keys(struct gcalls *c, const struct gcall *t);
/* Returns the rule for one call in MiniMax M3's syntax with XML elements. */
gnode call_elements(struct gcalls *c, const struct gcall *t);
/* Returns the rule for one call written as name, separator and arguments. */
gnode call_named(struct gcalls *c, const struct gcall *t);
/* Returns the rule for one call in DeepSeek V3.1's syntax. */
gnode call_deepseek(struct gcalls *c, const struct gcall *t);
/* Returns the rule for one call in the syntax of DeepSeek V3 and R1, with a fenced block. */
gnode call_deepseek_v3(struct gcalls *c, const struct gcall *t);
/* Returns the rule for one call in gpt-oss's syntax, starting with the tool's name. */
gnode call_harmony(struct gcalls *c, const struct gcall *t);
/* Returns the rule for one call in Mistral's syntax with [ARGS] and an optional [CALL_ID]. */
gnode call_args(struct gcalls *c, const struct gcall *t);
/* Returns the rule for a call as a JSON object with "name" and "arguments". */
gnode call_item(struct gcalls *c, const struct gcall *t);
/* Returns the rule for a call as a JSON object with an optional "id". */
gnode call_item_id(struct gcalls *c, const struct gcall *t);
/* Returns the rule for a call as a JSON object with "name" and "parameters". */
gnode call_item_llama(struct gcalls *c, const struct gcall *t);
/* Returns the rule for a call as a JSON object in Command R's syntax. */
gnode call_item_command(struct gcalls *c, const struct gcall *t);
gnode call_item_action(struct gcalls *c, const struct gcall *t);
gnode call_item_args(struct gcalls *c, const struct gcall *t);
gnode call_item_key(struct gcalls *c, const struct gcall *t);
/* Returns the rule for one call in Gemma's syntax. */
gnode call_gemma(struct gcalls *c, const struct gcall *t);
/* Returns the rule for one call in Python syntax. */
gnode call_python(struct gcalls *c, const struct gcall *t);

#endif
