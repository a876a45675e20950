// SPDX-License-Identifier: MIT
/* chat/tool_place.h - counts of events by their place in tool calls, e.g. of tokens for which a
 * grammar overruled the model. */
#ifndef HONE_CHAT_TOOL_PLACE_H
#define HONE_CHAT_TOOL_PLACE_H

#include <stdint.h>

#include "chat/toolfmt.h"
#include "base/json.h"

enum tool_place {
    TOOL_PLACE_NAME,      /* name of the tool */
    TOOL_PLACE_KEY,       /* name of an argument, or of a member within JSON arguments */
    TOOL_PLACE_VALUE,     /* its value, without quotes; everything between an argument's tags */
    TOOL_PLACE_STRUCTURE, /* the rest of a call: tags, quotes, brackets, whitespace */
    TOOL_PLACE_TEXT,      /* outside complete calls */
    TOOL_PLACES
};
const char *tool_place_name(enum tool_place place); /* "name", "key", ... */
/* Returns the place of byte `at` in the input. Sets *call to the index of the call that contains
 * it; -1: none. Call after toolparse_finish(). */
enum tool_place toolparse_place(const struct toolparse *p, size_t at, int *call);

struct tool_tally { /* zero-initialized: empty */
    struct tool_tally_row {
        char *tool; /* "": outside calls */
        int64_t n[TOOL_PLACES];
    } * row;
    int n;
};
/* Classifies each of the n byte offsets at[] in p's input by its place and adds the counts to t.
 * Call after toolparse_finish(). */
void tool_tally_add(struct tool_tally *t, const struct toolparse *p, const size_t *at, int64_t n);
/* Writes the tally as an array called `name`: one row per tool, with its non-zero counts by
 * place. */
void tool_tally_json(const struct tool_tally *t, struct jw *w, const char *name);
void tool_tally_release(struct tool_tally *t);

#endif
