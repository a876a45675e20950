// SPDX-License-Identifier: MIT
/* chat/tool_place.h - counts events by position in tool calls, such as where a grammar overruled
 * the model. */
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
/* Returns the place of byte `at` of the input, after toolparse_finish(). *call: index of its call;
 * -1: none. */
enum tool_place toolparse_place(const struct toolparse *p, size_t at, int *call);

struct tool_tally { /* zero-initialized: empty */
    struct tool_tally_row {
        char *tool; /* "": outside calls */
        int64_t n[TOOL_PLACES];
    } * row;
    int n;
};
/* Counts n bytes of the input of p, after toolparse_finish(). */
void tool_tally_add(struct tool_tally *t, const struct toolparse *p, const size_t *at, int64_t n);
/* Writes the tally as an array with this name: one row per tool with its counts by place that are
 * not 0. */
void tool_tally_json(const struct tool_tally *t, struct jw *w, const char *name);
void tool_tally_release(struct tool_tally *t);

#endif
