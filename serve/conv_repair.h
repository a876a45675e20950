// SPDX-License-Identifier: MIT
/* serve/conv_repair.h - conversations that a template refuses, changed step by step until it takes
 * them.
 *
 * Programs send system messages in the middle, several messages of one role in a row, an answer
 * first, no user at all, a word of the user behind results of tools, arguments that a cut stream
 * left open, ids of calls that are not Mistral's. Some templates raise an error then, and their
 * programs can do nothing about it; some leave out what the system says without a word. A template
 * that takes and shows a conversation as it is gets it as it is. */
#ifndef HONE_SERVE_CONV_REPAIR_H
#define HONE_SERVE_CONV_REPAIR_H

#include <stdbool.h>

#include "base/buf.h"

enum conv_repair_step { /* in the order in which they are tried */
                        MEND_NULL,
                        MEND_IDS,
                        MEND_ARGUMENTS,
                        MEND_SYSTEM,
                        MEND_NEIGHBOURS,
                        MEND_RESULTS,
                        MEND_FIRST,
                        MEND_NO_SYSTEM,
                        MEND_STEPS
};
/* Returns {"messages", "tools"?}, JSON text, after a step, which the caller frees; NULL: there is
 * nothing to change. *what is set to words about the change. */
char *conv_repair_conv(const char *conv, enum conv_repair_step step, const char **what);
/* Returns the conversation with a word in place of each text of the system, which no template makes
 * by itself, and those words in `words`, a line each; NULL: the system says nothing. The caller
 * frees both. */
char *conv_repair_probe(const char *conv, struct buf *words);
/* Tells whether of every text that the system says some bytes are in the prompt. */
struct jinja_spans;
bool conv_repair_shown(const char *conv, const struct jinja_spans *spans);

#endif
