// SPDX-License-Identifier: MIT
/* serve/record.h - recorded requests and answers as JSON lines (docs/formats/record.md), written by
 * a server and read for replay. */
#ifndef HONE_SERVE_RECORD_H
#define HONE_SERVE_RECORD_H

#include "serve/ask.h"
#include "serve/reply.h"

/* Returns the record's word for the end of an answer. */
const char *record_end(enum reply_end end);
/* Fills in a from line j of a record: the conversation without its last answer, or the prompt. a:
 * initialized with defaults. greedy: use greedy decoding instead of the recorded sampling.
 * ERR_DATA: the line has neither a prompt nor a conversation with an answer. */
int record_ask(struct ask *a, const struct json *j, bool greedy, struct err *e);

#endif
