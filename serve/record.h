// SPDX-License-Identifier: MIT
/* serve/record.h - what was asked and answered, as lines of JSON (docs/formats/record.md): written
 * by a server, read to ask again. */
#ifndef HONE_SERVE_RECORD_H
#define HONE_SERVE_RECORD_H

#include "serve/ask.h"
#include "serve/reply.h"

/* Returns the word for an end of an answer. */
const char *record_end(enum reply_end end);
/* Fills in what a line asks for: the conversation without its answer, or the prompt that was
 * continued. j: the line; a: initialised with what holds where the line does not say; greedy: the
 * likeliest token is taken, whatever was recorded. ERR_DATA when there is no conversation with an
 * answer, and no prompt. */
int record_ask(struct ask *a, const struct json *j, bool greedy, struct err *e);

#endif
