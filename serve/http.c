// SPDX-License-Identifier: MIT
/* serve/http.c - HTTP/1.1 parser for request heads, bodies and host names. */
#include "serve/http.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/attr.h"

bool http_is(struct http_text t, const char *s) {
    return strlen(s) == t.n && memcmp(t.s, s, t.n) == 0;
}
bool http_is_word(struct http_text t, const char *s) {
    return strlen(s) == t.n && strncasecmp(t.s, s, t.n) == 0;
}

/* Returns whether c is a token character (tchar of RFC 9110). */
static bool is_token(unsigned char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c && strchr("!#$%&'*+-.^_`|~", c));
}

/* Sets status and reason; returns -1. */
static int refuse_request(struct http_req *r, int status, const char *why) {
    r->status = status;
    r->why = why;
    return -1;
}

/* Sets *line to the line at s, without its CR LF. Returns the length with CR LF, 0 if the line is
 * incomplete, or -1 if it contains a bare CR or LF. */
static int64_t line_at(const char *s, size_t n, struct http_text *line) {
    for (size_t i = 0; i < n; i++) {
        if (s[i] == '\n') return -1;
        if (s[i] != '\r') continue;
        if (i + 1 == n) return 0;
        if (s[i + 1] != '\n') return -1;
        *line = (struct http_text){s, i};
        return (int64_t)i + 2;
    }
    return 0;
}

/* Parses the request target: a path, or an absolute http:// URI (sent to proxies), whose host must
 * match Host. */
static int read_target(struct http_req *r, struct http_text t) {
    static const char http[] = "http://";
    const size_t n = sizeof http - 1;
    if (t.n > n && strncasecmp(t.s, http, n) == 0) {
        const char *host = t.s + n, *slash = memchr(host, '/', t.n - n);
        if (!slash) return refuse_request(r, 400, "the target is not a path");
        r->authority = (struct http_text){host, (size_t)(slash - host)};
        if (!r->authority.n) return refuse_request(r, 400, "the target has no host");
        t = (struct http_text){slash, t.n - (size_t)(slash - t.s)};
    }
    if (*t.s != '/' && !(http_is(t, "*") && http_is(r->method, "OPTIONS")))
        return refuse_request(r, 400, "the target is not a path");
    const char *q = memchr(t.s, '?', t.n);
    r->path = (struct http_text){t.s, q ? (size_t)(q - t.s) : t.n};
    if (q) r->query = (struct http_text){q + 1, t.n - r->path.n - 1};
    return 0;
}

/* Parses method, target and version; returns 0, or -1 with r->status set. */
static int read_request_line(struct http_req *r, struct http_text l) {
    const char *sp = memchr(l.s, ' ', l.n);
    if (!sp || sp == l.s)
        return refuse_request(r, 400, "the request line is not METHOD TARGET VERSION");
    r->method = (struct http_text){l.s, (size_t)(sp - l.s)};
    const char *t = sp + 1, *end = l.s + l.n;
    const char *sp2 = memchr(t, ' ', (size_t)(end - t));
    if (!sp2 || sp2 == t)
        return refuse_request(r, 400, "the request line is not METHOD TARGET VERSION");
    const struct http_text target = {t, (size_t)(sp2 - t)},
                           version = {sp2 + 1, (size_t)(end - sp2 - 1)};
    for (size_t i = 0; i < r->method.n; i++)
        if (!is_token((unsigned char)l.s[i]))
            return refuse_request(r, 400, "the method is not a token");
    for (size_t i = 0; i < target.n; i++)
        if ((unsigned char)t[i] <= ' ' || (unsigned char)t[i] >= 0x7f)
            return refuse_request(r, 400, "the target contains invalid bytes");
    if (http_is(version, "HTTP/1.0"))
        r->keep_alive = false;
    else if (http_is(version, "HTTP/1.1"))
        r->keep_alive = true;
    else
        return refuse_request(r, version.n == 8 && memcmp(version.s, "HTTP/", 5) == 0 ? 505 : 400,
                              "the version is not HTTP/1.0 or HTTP/1.1");
    return read_target(r, target);
}

/* Parses a header line; returns 0, or -1 with r->status set. */
static int read_field(struct http_req *r, struct http_text l) {
    const char *colon = memchr(l.s, ':', l.n);
    if (l.s[0] == ' ' || l.s[0] == '\t')
        return refuse_request(r, 400, "folded header lines are not allowed");
    if (!colon || colon == l.s) return refuse_request(r, 400, "a header line without a name");
    struct http_field f = {{l.s, (size_t)(colon - l.s)}, {colon + 1, 0}};
    f.value.n = (size_t)(l.s + l.n - f.value.s);
    for (size_t i = 0; i < f.name.n; i++)
        if (!is_token((unsigned char)f.name.s[i]))
            return refuse_request(r, 400, "a header's name is not a token");
    for (size_t i = 0; i < f.value.n; i++) {
        const unsigned char c = (unsigned char)f.value.s[i];
        if ((c < ' ' && c != '\t') || c == 0x7f)
            return refuse_request(r, 400, "a header's value has control characters");
    }
    while (f.value.n && strchr(" \t", f.value.s[0])) f.value.s++, f.value.n--;
    while (f.value.n && strchr(" \t", f.value.s[f.value.n - 1])) f.value.n--;
    if (r->n_fields == HTTP_MAX_FIELDS) return refuse_request(r, 431, "too many headers");
    r->field[r->n_fields++] = f;
    return 0;
}

const struct http_text *http_find(const struct http_req *r, const char *name) {
    for (int i = 0; i < r->n_fields; i++)
        if (http_is_word(r->field[i].name, name)) return &r->field[i].value;
    return NULL;
}

/* Returns the number of headers with this name. */
static int count_fields(const struct http_req *r, const char *name) {
    int n = 0;
    for (int i = 0; i < r->n_fields; i++) n += http_is_word(r->field[i].name, name);
    return n;
}

/* Returns whether `word` is in a comma-separated list. */
static bool has_word(struct http_text list, const char *word) {
    for (size_t i = 0; i < list.n;) {
        size_t from = i;
        while (i < list.n && list.s[i] != ',') i++;
        size_t to = i++;
        while (from < to && strchr(" \t", list.s[from])) from++;
        while (to > from && strchr(" \t", list.s[to - 1])) to--;
        if (http_is_word((struct http_text){list.s + from, to - from}, word)) return true;
    }
    return false;
}

/* Determines the length of the body from the headers. */
static int read_length(struct http_req *r) {
    const struct http_text *len = http_find(r, "content-length"),
                           *te = http_find(r, "transfer-encoding");
    if (te && len) return refuse_request(r, 400, "both Content-Length and Transfer-Encoding");
    if (count_fields(r, "content-length") > 1)
        return refuse_request(r, 400, "more than one Content-Length");
    if (te && (count_fields(r, "transfer-encoding") > 1 || !http_is_word(*te, "chunked")))
        return refuse_request(r, 501, "the transfer coding is not chunked");
    r->chunked = te != NULL;
    r->length = te ? -1 : 0;
    if (!len) return 0;
    if (!len->n || len->n > 15)
        return refuse_request(r, len->n ? 413 : 400, "invalid Content-Length");
    for (size_t i = 0; i < len->n; i++) {
        if (len->s[i] < '0' || len->s[i] > '9')
            return refuse_request(r, 400, "Content-Length is not a number");
        r->length = r->length * 10 + (len->s[i] - '0');
    }
    return 0;
}

/* Rejects duplicates of headers that control access or the body, since parsers disagree on which
 * one counts. */
static int read_once(struct http_req *r) {
#define ONCE(name)                                                                                 \
    { name, "the header " name " came more than once" }
    static const struct {
        const char *name, *why;
    } once[] = {ONCE("origin"),           ONCE("sec-fetch-site"),
                ONCE("authorization"),    ONCE("x-api-key"),
                ONCE("content-encoding"), ONCE("access-control-request-headers")};
#undef ONCE
    for (size_t i = 0; i < COUNT_OF(once); i++)
        if (count_fields(r, once[i].name) > 1) return refuse_request(r, 400, once[i].why);
    return 0;
}

/* Checks the headers that affect parsing; returns 0, or -1 with r->status set. */
static int read_known_fields(struct http_req *r) {
    const struct http_text *host = http_find(r, "host"), *conn = http_find(r, "connection"),
                           *expect = http_find(r, "expect");
    if (!host || count_fields(r, "host") > 1 || !host->n)
        return refuse_request(r, 400, "exactly one Host header is required");
    r->host = *host;
    if (r->authority.n &&
        (r->authority.n != host->n || strncasecmp(r->authority.s, host->s, host->n) != 0))
        return refuse_request(r, 400, "the target's host differs from the Host header");
    if (read_once(r)) return -1;
    if (conn && has_word(*conn, "close")) r->keep_alive = false;
    if (expect && !http_is_word(*expect, "100-continue"))
        return refuse_request(r, 417, "only the expectation 100-continue is supported");
    r->expect = expect != NULL;
    return read_length(r);
}

int http_head(const char *s, size_t n, struct http_req *r) {
    struct http_text l = {0};
    size_t at = 0;
    int64_t used;
    bool first = true;
    enum { TLS = 0x16 }; /* first byte of a TLS handshake */
    if (n && s[0] == TLS)
        return refuse_request(r, 400,
                              "this server does not use TLS: connect to http://, not https://");
    while (at + 2 <= n && at < 4 && s[at] == '\r' && s[at + 1] == '\n') at += 2;
    for (;; first = false) {
        used = line_at(s + at, n - at, &l);
        if (used < 0) return refuse_request(r, 400, "a line that does not end with CR LF");
        if (!used) {
            if (first && n - at > HTTP_MAX_LINE)
                return refuse_request(r, 431, "the request line is too long");
            if (n > HTTP_MAX_HEAD) return refuse_request(r, 431, "the headers are too long");
            return 0;
        }
        at += (size_t)used;
        if (at > HTTP_MAX_HEAD) return refuse_request(r, 431, "the headers are too long");
        if (first && l.n > HTTP_MAX_LINE)
            return refuse_request(r, 431, "the request line is too long");
        if (!first && !l.n) break;
        if (first ? read_request_line(r, l) : read_field(r, l)) return -1;
    }
    return read_known_fields(r) ? -1 : (int)at;
}

/* ---- bodies ---- */

enum {
    SIZE_FIRST,
    SIZE,
    EXTENSION,
    SIZE_LF,
    DATA,
    DATA_CR,
    DATA_LF,
    TRAILER,
    TRAILER_FIELD,
    TRAILER_FIELD_LF,
    TRAILER_LF,
    END
};

void http_body_begin(struct http_body *b, const struct http_req *r) {
    *b = (struct http_body){.left = r->length > 0 ? r->length : 0, .chunked = r->chunked};
}

/* Returns the value of a hexadecimal digit; -1 for other characters. */
static int hex_digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Parses one byte of the framing between chunks. Returns false if the byte is not allowed there. */
static bool chunk_byte(struct http_body *b, char c) {
    enum { LONGEST = 256 }; /* maximum bytes in a size line, and in all trailer fields together */
    const int digit = hex_digit(c);
    if (b->state != DATA && ++b->line > LONGEST) return false;
    switch (b->state) {
    case SIZE_FIRST:
    case SIZE:
        if (digit >= 0) {
            if (b->left >> 40) return false;
            b->left = b->left * 16 + digit;
            b->state = SIZE;
            return true;
        }
        if (b->state == SIZE_FIRST) return false;
        b->state = c == '\r' ? SIZE_LF : EXTENSION;
        return c == '\r' || c == ';';
    case EXTENSION:
        if (c == '\r') b->state = SIZE_LF;
        return c == '\r' || (unsigned char)c >= ' ' || c == '\t';
    case SIZE_LF:
        b->state = b->left ? DATA : TRAILER;
        b->line = 0;
        return c == '\n';
    case DATA_CR:
        b->state = DATA_LF;
        return c == '\r';
    case DATA_LF:
        b->state = SIZE_FIRST;
        b->line = 0;
        return c == '\n';
    case TRAILER: /* trailer fields are skipped */
        b->state = c == '\r' ? TRAILER_LF : TRAILER_FIELD;
        return c == '\r' || is_token((unsigned char)c);
    case TRAILER_FIELD:
        if (c == '\r') b->state = TRAILER_FIELD_LF;
        return c == '\r' || (unsigned char)c >= ' ' || c == '\t';
    case TRAILER_FIELD_LF:
        b->state = TRAILER;
        return c == '\n';
    default:
        b->state = END;
        return c == '\n';
    }
}

enum http_more http_body_feed(struct http_body *b, const char *s, size_t n, size_t most,
                              struct buf *out, size_t *used) {
    size_t i = 0;
    *used = 0;
    if (!b->chunked && (uint64_t)b->left > most - b->n_taken) return HTTP_TOO_LARGE;
    while (b->chunked ? b->state != END && i < n : b->left > 0 && i < n) {
        if (b->chunked && b->state != DATA) {
            if (!chunk_byte(b, s[i++])) return HTTP_BAD;
            continue;
        }
        size_t k = n - i;
        if ((uint64_t)b->left < k) k = (size_t)b->left;
        if (k > most - b->n_taken) return HTTP_TOO_LARGE;
        buf_add(out, s + i, k);
        i += k;
        b->n_taken += k;
        b->left -= (int64_t)k;
        if (b->chunked && !b->left) b->state = DATA_CR;
    }
    *used = i;
    return (b->chunked ? b->state == END : !b->left) ? HTTP_DONE : HTTP_MORE;
}

/* ---- names ---- */

/* Returns whether h looks like a numeric address: the digits and dots of IPv4, or the brackets of
 * IPv6. */
static bool is_address(struct http_text h) {
    int dots = 0, digits = 0;
    if (h.n > 2 && h.s[0] == '[' && h.s[h.n - 1] == ']') {
        for (size_t i = 1; i + 1 < h.n; i++)
            if (hex_digit(h.s[i]) < 0 && h.s[i] != ':' && h.s[i] != '.') return false;
        return true;
    }
    for (size_t i = 0; i < h.n; i++) {
        if (h.s[i] == '.' ? !digits : h.s[i] < '0' || h.s[i] > '9' || digits == 3) return false;
        dots += h.s[i] == '.';
        digits = h.s[i] == '.' ? 0 : digits + 1;
    }
    return dots == 3 && digits;
}

/* Returns whether h is a host name: labels of letters, digits, '-' and '_' separated by single
 * dots. */
static bool is_name(struct http_text h) {
    size_t label = 0;
    for (size_t i = 0; i < h.n; i++) {
        const char c = h.s[i];
        const bool word =
            c == '-' || c == '_' || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
        if (!word && (c != '.' || !label)) return false;
        label = word ? label + 1 : 0;
        if (label > 63) return false;
    }
    return label > 0;
}

bool http_host_ok(struct http_text h, const char *const *allowed, int n_allowed) {
    size_t port = h.n;
    while (port && h.s[port - 1] >= '0' && h.s[port - 1] <= '9') port--;
    if (port && h.s[port - 1] == ':' && memchr(h.s, ']', h.n) != h.s + h.n - 1) h.n = port - 1;
    static const char below[] = ".localhost";
    const size_t n = sizeof below - 1;
    if (is_address(h) || http_is_word(h, "localhost")) return true;
    if (is_name(h) && h.n > n && http_is_word((struct http_text){h.s + h.n - n, n}, below))
        return true;
    for (int i = 0; i < n_allowed; i++)
        if (http_is_word(h, allowed[i])) return true;
    return false;
}

const char *http_reason(int status) {
    static const struct {
        int status;
        const char *text;
    } rows[] = {{100, "Continue"},
                {200, "OK"},
                {204, "No Content"},
                {400, "Bad Request"},
                {401, "Unauthorized"},
                {403, "Forbidden"},
                {404, "Not Found"},
                {405, "Method Not Allowed"},
                {408, "Request Timeout"},
                {413, "Content Too Large"},
                {415, "Unsupported Media Type"},
                {417, "Expectation Failed"},
                {429, "Too Many Requests"},
                {431, "Request Header Fields Too Large"},
                {500, "Internal Server Error"},
                {501, "Not Implemented"},
                {503, "Service Unavailable"},
                {505, "HTTP Version Not Supported"},
                {529, "Overloaded"}};
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (rows[i].status == status) return rows[i].text;
    return "Unknown";
}

void http_unescape(struct http_text t, struct buf *out) {
    buf_str(out, "");
    for (size_t i = 0; i < t.n; i++) {
        const bool coded = t.s[i] == '%' && t.n - i > 2 && isxdigit((unsigned char)t.s[i + 1]) &&
                           isxdigit((unsigned char)t.s[i + 2]);
        const char hex[] = {coded ? t.s[i + 1] : '0', coded ? t.s[i + 2] : '0', 0};
        buf_chr(out, coded ? (char)strtoul(hex, NULL, 16) : t.s[i]);
        if (coded) i += 2;
    }
}
