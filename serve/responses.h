// SPDX-License-Identifier: MIT
/* serve/responses.h - what the files of /v1/responses share. Internal. */
#ifndef HONE_SERVE_RESPONSES_H
#define HONE_SERVE_RESPONSES_H

#include "serve/reply.h"

/* Adds the server-sent events for one event of the reply to out, as the Responses API has them. */
void responses_event(struct reply *r, const struct event *ev, struct buf *out);
/* Adds the whole reply as one JSON object to out. */
void responses_whole(struct reply *r, struct buf *out);
int responses_fail(const struct fault *f, const char *request_id, bool in_stream, struct buf *out);
/* Bits of ask.api_flags: the thinking is given back wrapped, and as a summary too. */
enum { RESPONSES_ENCRYPTED = 1, RESPONSES_SUMMARY = 2 };

#endif
