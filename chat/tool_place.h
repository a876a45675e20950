// SPDX-License-Identifier: MIT
/* chat/tool_place.h - counts at which places of calls something happened: where a grammar had to
 * overrule a model. */
#ifndef HONE_CHAT_TOOL_PLACE_H
#define HONE_CHAT_TOOL_PLACE_H

#include <stdint.h>

#include "chat/toolfmt.h"
#include "base/json.h"

enum tool_place {
    TOOL_PLACE_NAME,      /* of the tool */
    TOOL_PLACE_KEY,       /* name of an argument, or of a member within one in JSON arguments */
    TOOL_PLACE_VALUE,     /* its value, without quotes; all that is between tags of an argument */
    TOOL_PLACE_STRUCTURE, /* all else of a call: tags, quotes, brackets, white space */
    TOOL_PLACE_TEXT,      /* outside of calls; a call that was not completed is none */
    TOOL_PLACES
};
const char *tool_place_name(enum tool_place place); /* "name", "key", ... */
/* Says where byte `at` of the input is, after toolparse_finish. *call: the number of its call; -1:
 * it is in none. */
enum tool_place toolparse_place(const struct toolparse *p, size_t at, int *call);

struct tool_tally { /* zero-initialised is empty */
    struct tool_tally_row {
        char *tool; /* "": outside of calls */
        int64_t n[TOOL_PLACES];
    } * row;
    int n;
};
/* Counts n bytes of the input of p, after toolparse_finish. */
void tool_tally_add(struct tool_tally *t, const struct toolparse *p, const size_t *at, int64_t n);
/* Writes the tally as an array of that name: a row for each tool with its counts by place, of
 * which `zeros` says whether those of nothing are written. */
void tool_tally_json(const struct tool_tally *t, struct jw *w, const char *name, bool zeros);
void tool_tally_release(struct tool_tally *t);

#endif
