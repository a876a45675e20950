// SPDX-License-Identifier: MIT
/* serve/messages.h - functions shared by the files of /v1/messages. Internal. */
#ifndef HONE_SERVE_MESSAGES_H
#define HONE_SERVE_MESSAGES_H

#include "serve/reply.h"

/* Reads a request of /v1/messages and builds its conversation; returns 0 or f's status. */
int messages_read(struct ask *a, const struct json *j, struct fault *f);
/* Appends the events of the stream for ev. */
void messages_event(struct reply *r, const struct event *ev, struct buf *out);
/* Appends the whole answer as JSON, for requests without a stream. */
void messages_whole(struct reply *r, struct buf *out);
/* Appends the fault in Anthropic's format; returns the HTTP status, 529 instead of 503. */
int messages_fail(const struct fault *f, const char *request_id, bool in_stream, struct buf *out);

#endif
