// SPDX-License-Identifier: MIT
/* serve/record.h - record of requests and answers as JSON lines (docs/formats/record.md), which a
 * server writes and replay reads. */
#ifndef HONE_SERVE_RECORD_H
#define HONE_SERVE_RECORD_H

#include "serve/ask.h"
#include "serve/reply.h"

/* Returns the word that records use for the way an answer ended. */
const char *record_end(enum reply_end end);
/* Fills in a from line j of a record: the conversation without its last answer, or the prompt. a
 * must have its defaults already. greedy: use greedy decoding instead of the recorded sampling
 * options. ERR_DATA: the line has neither a prompt nor a conversation with an answer. */
int record_ask(struct ask *a, const struct json *j, bool greedy, struct err *e);

#endif
