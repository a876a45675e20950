// SPDX-License-Identifier: MIT
/* serve/history.h - memory for the parts of answers that clients do not send back: the reasoning
 * before calls, and the exact spelling of arguments. When they are restored in the next request,
 * its prompt has the same tokens as the answer, so the cached prefix is reused and the model sees
 * its own output. */
#ifndef HONE_SERVE_HISTORY_H
#define HONE_SERVE_HISTORY_H

#include "serve/reply.h"

struct history; /* thread-safe */
struct history *history_new(void);
void history_free(struct history *r);
/* Remembers the calls of an answer to the client `key`, in place of the oldest ones. */
void history_note(struct history *r, uint64_t key, const struct reply_choice *c);
/* Restores the remembered parts of calls in a conversation (ask.conv): the reasoning if the message
 * has none, and the spelling of the arguments if their values are equal. Returns the new text,
 * which the caller frees, or NULL if nothing changes. */
char *history_fill(struct history *r, uint64_t key, const char *conv);

#endif
