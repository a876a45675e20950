// SPDX-License-Identifier: MIT
/* serve/http.h - HTTP/1.1 requests as a pure function of bytes: no sockets, no clock. What two
 * readers could understand in two ways is refused (RFC 9112), never guessed. */
#ifndef HONE_SERVE_HTTP_H
#define HONE_SERVE_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum { HTTP_MAX_LINE = 8 << 10, HTTP_MAX_HEAD = 32 << 10, HTTP_MAX_FIELDS = 100 };

struct http_text { /* bytes of the head, borrowed */
    const char *s;
    size_t n;
};
struct http_field {
    struct http_text name, value; /* value without white space around it */
};
/* A request's head. Zero-initialised before http_head. */
struct http_req {
    struct http_text method, path, query; /* path: up to '?', not normalised */
    struct http_field field[HTTP_MAX_FIELDS];
    int n_fields;
    struct http_text host, authority; /* authority: of a target with one; it is as Host */
    bool keep_alive, expect, chunked;
    int64_t length;  /* of the body; 0 when there is none, -1 when it is chunked */
    int status;      /* what a refused head is answered with: 400, 431, 501, 505; then close */
    const char *why; /* static */
};
/* Reads a head at s. Returns the bytes it takes, 0 when more must come, or -1 when it is refused:
 * status and why say with what. Empty lines in front of it are skipped. */
int http_head(const char *s, size_t n, struct http_req *r);
/* Finds a field whatever the case of its name; NULL when there is none. */
const struct http_text *http_find(const struct http_req *r, const char *name);
/* Tells whether t is s, byte for byte. */
bool http_is(struct http_text t, const char *s);
/* Tells whether t is s but for capital and small letters. */
bool http_is_word(struct http_text t, const char *s);

/* Appends t with %XX decoded. */
void http_unescape(struct http_text t, struct buf *out);

/* A body under way. */
struct http_body {
    int64_t left; /* of the body, or of the chunk */
    bool chunked;
    int state;      /* of chunked: internal */
    int line;       /* bytes of the line under way */
    size_t n_taken; /* of the body so far */
};
void http_body_begin(struct http_body *b, const struct http_req *r);
enum http_more { HTTP_MORE, HTTP_DONE, HTTP_TOO_LARGE, HTTP_BAD };
/* Takes bytes of a body; *used of them belong to it. Appends what it carries to out, at most `most`
 * bytes in all. */
enum http_more http_body_feed(struct http_body *b, const char *s, size_t n, size_t most,
                              struct buf *out, size_t *used);

/* Tells whether a request for this host may be answered. It names the server itself: an IP address
 * in numbers, localhost, a name below it, or one of `allowed`, with any port. Others come from web
 * pages that had a name of theirs point here. */
bool http_host_ok(struct http_text host, const char *const *allowed, int n_allowed);
/* Returns the reason phrase of a status, "Unknown" where it has none here. The text is static. */
const char *http_reason(int status);

#endif
