// SPDX-License-Identifier: MIT
/* serve/restore.h - what clients lose of answers that they give back: the reasoning in front of
 * calls, and how arguments were spelled. Put back, the conversation has the tokens that were
 * computed, and reads to the model as it was. */
#ifndef HONE_SERVE_RESTORE_H
#define HONE_SERVE_RESTORE_H

#include "serve/reply.h"

struct restore; /* for several threads */
struct restore *restore_new(void);
void restore_free(struct restore *r);
/* Remembers the calls of an answer to a client (key). The oldest are forgotten. */
void restore_note(struct restore *r, uint64_t key, const struct reply_choice *c);
/* Fills in what a conversation (struct ask) lacks of calls that are remembered: the reasoning where
 * a message has none, the spelling of arguments that are the same values. Returns the new text for
 * the caller to free, NULL when nothing was to be filled in. */
char *restore_fill(struct restore *r, uint64_t key, const char *conv);

#endif
