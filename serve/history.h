// SPDX-License-Identifier: MIT
/* serve/history.h - what clients lose of answers that they give back: the reasoning in front of
 * calls, and how arguments were spelled. Put back, the conversation has the tokens that were
 * computed, and reads to the model as it was. */
#ifndef HONE_SERVE_HISTORY_H
#define HONE_SERVE_HISTORY_H

#include "serve/reply.h"

struct history; /* for several threads */
struct history *history_new(void);
void history_free(struct history *r);
/* Remembers the calls of an answer to a client (key). The oldest are forgotten. */
void history_note(struct history *r, uint64_t key, const struct reply_choice *c);
/* Fills in what a conversation (struct ask) lacks of calls that are remembered: the reasoning where
 * a message has none, the spelling of arguments that are the same values. Returns the new text for
 * the caller to free, NULL when nothing was to be filled in. */
char *history_fill(struct history *r, uint64_t key, const char *conv);

#endif
