// SPDX-License-Identifier: MIT
/* serve/http.h - HTTP/1.1 request parser, which depends only on its input, not on sockets or time.
 * It never guesses: input that two parsers could read differently is rejected (RFC 9112). */
#ifndef HONE_SERVE_HTTP_H
#define HONE_SERVE_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum { HTTP_MAX_LINE = 8 << 10, HTTP_MAX_HEAD = 32 << 10, HTTP_MAX_FIELDS = 100 };

struct http_text { /* part of a request's head, borrowed */
    const char *s;
    size_t n;
};
struct http_field {
    struct http_text name, value; /* value: without surrounding whitespace */
};
/* A request's head; zero-initialize before http_head(). */
struct http_req {
    struct http_text method, path, query; /* path: up to '?', not normalized */
    struct http_field field[HTTP_MAX_FIELDS];
    int n_fields;
    struct http_text host, authority; /* authority: of an absolute target; must match Host */
    bool keep_alive, expect, chunked;
    int64_t length;  /* bytes of the body; 0: no body, -1: chunked */
    int status;      /* rejected head: 400, 431, 501 or 505; then close */
    const char *why; /* static */
};
/* Parses a head at s, skipping empty lines before it. Returns the number of bytes consumed, 0 if
 * more input is needed, or -1 if the head is rejected, with r->status and r->why set. */
int http_head(const char *s, size_t n, struct http_req *r);
/* Finds a field, ignoring case; NULL: not present. */
const struct http_text *http_find(const struct http_req *r, const char *name);
/* Returns whether t equals s, byte for byte. */
bool http_is(struct http_text t, const char *s);
/* Returns whether t equals s, ignoring case. */
bool http_is_word(struct http_text t, const char *s);

/* Appends t with %XX decoded. */
void http_unescape(struct http_text t, struct buf *out);

/* State of the parser of a request's body. */
struct http_body {
    int64_t left; /* remaining bytes of the body or the current chunk */
    bool chunked;
    int state;      /* chunked parser; internal */
    int line;       /* bytes of the current line */
    size_t n_taken; /* body bytes so far */
};
/* Begins reading the body of a request. */
void http_body_begin(struct http_body *b, const struct http_req *r);
enum http_more { HTTP_MORE, HTTP_DONE, HTTP_TOO_LARGE, HTTP_BAD };
/* Parses body bytes at s, sets *used to the number consumed, and appends their content to out,
 * which may grow to `most` bytes. */
enum http_more http_body_feed(struct http_body *b, const char *s, size_t n, size_t most,
                              struct buf *out, size_t *used);

/* Returns whether a request for this host may be answered: it is a numeric IP address, localhost, a
 * subdomain of localhost, or one of `allowed`, with any port. This prevents DNS rebinding, in which
 * a web page's own host name resolves to this server. */
bool http_host_ok(struct http_text host, const char *const *allowed, int n_allowed);
/* Returns the reason phrase of a status, or "Unknown". Static. */
const char *http_reason(int status);

#endif
