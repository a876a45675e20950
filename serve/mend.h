// SPDX-License-Identifier: MIT
/* serve/mend.h - conversations that a template refuses, changed step by step until it takes them.
 *
 * Programs send system messages in the middle, several messages of one role in a row, an answer
 * first, no user at all, a word of the user behind results of tools, arguments that a cut stream
 * left open, ids of calls that are not Mistral's. Some templates raise an error then, and their
 * programs can do nothing about it. A template that takes a conversation as it is gets it as it is.
 */
#ifndef HONE_SERVE_MEND_H
#define HONE_SERVE_MEND_H

enum { MEND_STEPS = 7 };
/* Returns {"messages", "tools"?}, JSON text, after step 0 to MEND_STEPS - 1, which the caller
 * frees; NULL: there is nothing to change. *what is set to words about the change. */
char *mend_conv(const char *conv, int step, const char **what);

#endif
