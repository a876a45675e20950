// SPDX-License-Identifier: MIT
/* serve/messages.h - functions shared by the files of /v1/messages. Internal. */
#ifndef HONE_SERVE_MESSAGES_H
#define HONE_SERVE_MESSAGES_H

#include "serve/reply.h"

int messages_read(struct ask *a, const struct json *j, struct fault *f);
void messages_event(struct reply *r, const struct event *ev, struct buf *out);
void messages_whole(struct reply *r, struct buf *out);
int messages_fail(const struct fault *f, const char *request_id, bool in_stream, struct buf *out);

#endif
