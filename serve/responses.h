// SPDX-License-Identifier: MIT
/* serve/responses.h - functions shared by the files of /v1/responses. Internal. */
#ifndef HONE_SERVE_RESPONSES_H
#define HONE_SERVE_RESPONSES_H

#include "serve/reply.h"

/* Appends the server-sent events of the Responses API for one event of the reply. */
void responses_event(struct reply *r, const struct event *ev, struct buf *out);
/* Appends the complete reply as one JSON object. */
void responses_whole(struct reply *r, struct buf *out);
int responses_fail(const struct fault *f, const char *request_id, bool in_stream, struct buf *out);
/* Bits of ask.api_flags: return the reasoning as encrypted content, and as a summary. */
enum { RESPONSES_ENCRYPTED = 1, RESPONSES_SUMMARY = 2 };

#endif
