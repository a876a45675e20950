// SPDX-License-Identifier: MIT
/* Request heads and bodies: which are accepted, which are rejected and with which status, wherever
 * the input is split. Rejections follow RFC 9112 (sections 2.2, 3, 5, 6) and docs/serving.md. */
#include "base/attr.h"
#include "serve/http.h"
#include "tests/check.h"

#define HOST "Host: localhost\r\n"

static void test_refused(void) {
    static const struct {
        const char *head;
        int status;
    } rows[] = {
        {"GET / HTTP/1.1\n" HOST "\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: localhost\n\r\n", 400},
        {"GET / HTTP/1.1\r\n" HOST "X: 1\r\n 2\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\n" HOST "X : 1\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\n" HOST ": 1\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\n" HOST "X 1\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\n" HOST "X: a\x01z\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\n" HOST "X: a\rz\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\nContent-Length: 6\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\nContent-Length: 5\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: +5\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: -1\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: 0x5\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: \r\n\r\n", 400},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: 99999999999999999999\r\n\r\n", 413},
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip, chunked\r\n\r\n", 501},
        {"GET / HTTP/1.1\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\n" HOST HOST "\r\n", 400},
        {"GET / HTTP/1.1\r\nHost:\r\n\r\n", 400},
        {"GET http://other/ HTTP/1.1\r\n" HOST "\r\n", 400},
        {"GET http://localhost HTTP/1.1\r\n" HOST "\r\n", 400},
        {"GET http:///a HTTP/1.1\r\n" HOST "\r\n", 400},
        {"GET https://localhost/a HTTP/1.1\r\n" HOST "\r\n", 400},
        {"\x16\x03\x01\x02", 400},
        {"GET / HTTP/2.0\r\n" HOST "\r\n", 505},
        {"GET / HTTP/1.7\r\n" HOST "\r\n", 505},
        {"GET /\r\n" HOST "\r\n", 400},
        {"GET / HTTP/1.1 x\r\n" HOST "\r\n", 400},
        {"G(T / HTTP/1.1\r\n" HOST "\r\n", 400},
        {"GET /\x7f HTTP/1.1\r\n" HOST "\r\n", 400},
        {"GET / HTTP/1.1\r\n" HOST "Expect: x\r\n\r\n", 417},
        /* parsers may disagree about which of the two counts */
        {"GET / HTTP/1.1\r\n" HOST "Origin: http://localhost\r\norigin: http://evil\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\n" HOST "X-Api-Key: a\r\nX-Api-Key: b\r\n\r\n", 400},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct http_req r = {0};
        const int n = http_head(rows[i].head, strlen(rows[i].head), &r);
        if (n != -1 || r.status != rows[i].status)
            CHECK_FAIL("row %zu: %d, status %d, expected %d", i, n, r.status, rows[i].status);
    }
    struct http_req r = {0};
    static const char nul[] = "GET / HTTP/1.1\r\n" HOST "X: a\0b\r\n\r\n";
    CHECK_EQ_I64(http_head(nul, sizeof nul - 1, &r), -1);
}

static void test_long(void) {
    struct buf b = {0};
    struct http_req r = {0};
    buf_str(&b, "GET /");
    for (int i = 0; i < HTTP_MAX_LINE; i++) buf_chr(&b, 'a');
    CHECK_EQ_I64(http_head(b.data, b.len, &r), -1);
    CHECK_EQ_I64(r.status, 431);
    buf_reset(&b);
    buf_str(&b, "GET / HTTP/1.1\r\n" HOST);
    for (int i = 0; i < HTTP_MAX_FIELDS; i++) buf_str(&b, "A: b\r\n");
    buf_str(&b, "\r\n");
    r = (struct http_req){0};
    CHECK_EQ_I64(http_head(b.data, b.len, &r), -1);
    CHECK_EQ_I64(r.status, 431);
    buf_reset(&b);
    buf_str(&b, "GET / HTTP/1.1\r\n" HOST "A: ");
    for (int i = 0; i < HTTP_MAX_HEAD; i++) buf_chr(&b, 'a');
    r = (struct http_req){0};
    CHECK_EQ_I64(http_head(b.data, b.len, &r), -1);
    CHECK_EQ_I64(r.status, 431);
    buf_release(&b);
}

static void test_taken(void) {
    static const char head[] =
        "\r\nPOST /v1/messages?beta=true HTTP/1.1\r\nhOsT: localhost:80\r\n"
        "Content-Length: 12\r\nExpect: 100-Continue\r\nConnection: a, close\r\n\r\n{";
    for (size_t n = 0; n < sizeof head - 2; n++) {
        struct http_req r = {0};
        CHECK_EQ_I64(http_head(head, n, &r), 0);
    }
    struct http_req r = {0};
    CHECK_EQ_I64(http_head(head, sizeof head - 1, &r), sizeof head - 2);
    CHECK(http_is(r.method, "POST") && http_is(r.path, "/v1/messages"));
    CHECK(http_is(r.query, "beta=true") && r.length == 12 && r.expect && !r.keep_alive);
    CHECK(http_find(&r, "CONTENT-length") && !http_find(&r, "cookie"));
    static const char whole[] = "GET HTTP://Localhost/a?b HTTP/1.1\r\n" HOST "\r\n";
    r = (struct http_req){0};
    CHECK_EQ_I64(http_head(whole, sizeof whole - 1, &r), sizeof whole - 1);
    CHECK(http_is(r.path, "/a") && http_is(r.query, "b"));
}

static void test_twice(void) {
    static const char head[] =
        "GET / HTTP/1.1\r\n" HOST "Origin: http://localhost\r\norigin: http://localhost\r\n\r\n";
    struct http_req r = {0};
    CHECK(http_head(head, sizeof head - 1, &r) < 0);
    CHECK(r.why && strstr(r.why, "origin") && strstr(r.why, "more than once"));
}

static enum http_more feed(const char *s, size_t n, size_t cut, size_t most, struct buf *out,
                           size_t *used) {
    const struct http_req r = {.chunked = true, .length = -1};
    struct http_body b;
    enum http_more m = HTTP_MORE;
    http_body_begin(&b, &r);
    *used = 0;
    for (size_t at = 0, k; at < n && m == HTTP_MORE; at += k) {
        size_t u;
        k = n - at < cut ? n - at : cut;
        m = http_body_feed(&b, s + at, k, most, out, &u);
        *used += u;
    }
    return m;
}

static void test_chunks(void) {
    static const char ok[] = "5;a=b\r\nabcde\r\n00A\r\n0123456789\r\n0\r\nA: b\r\nC: d\r\n\r\nGET ";
    static const char *const bad[] = {"\r\n",
                                      "zz\r\n",
                                      "-1\r\n",
                                      "5\nabcde",
                                      "5\r\nabcdeX\r\n",
                                      "0x5\r\nabc",
                                      "5 \r\nabcde",
                                      "0\r\n A: b\r\n\r\n",
                                      "0\r\nA: b\n\r\n",
                                      "0\r\nA: \x01\r\n\r\n",
                                      "ffffffffffffffffff\r\n"};
    for (size_t cut = 1; cut < sizeof ok; cut++) {
        struct buf out = {0};
        size_t used;
        CHECK_EQ_I64(feed(ok, sizeof ok - 1, cut, 100, &out, &used), HTTP_DONE);
        CHECK_EQ_STR(out.data, "abcde0123456789");
        CHECK_EQ_I64(used, sizeof ok - 5);
        buf_reset(&out);
        CHECK_EQ_I64(feed(ok, sizeof ok - 1, cut, 14, &out, &used), HTTP_TOO_LARGE);
        buf_release(&out);
    }
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct buf out = {0};
        size_t used;
        if (feed(bad[i], strlen(bad[i]), 1, 100, &out, &used) != HTTP_BAD)
            CHECK_FAIL("chunks %zu were taken", i);
        buf_release(&out);
    }
}

static void test_length(void) {
    const struct http_req r = {.length = 3};
    struct http_body b;
    struct buf out = {0};
    size_t used;
    http_body_begin(&b, &r);
    CHECK_EQ_I64(http_body_feed(&b, "ab", 2, 3, &out, &used), HTTP_MORE);
    CHECK_EQ_I64(http_body_feed(&b, "cd", 2, 3, &out, &used), HTTP_DONE);
    CHECK_EQ_I64(used, 1);
    CHECK_EQ_STR(out.data, "abc");
    http_body_begin(&b, &r);
    CHECK_EQ_I64(http_body_feed(&b, "a", 1, 2, &out, &used), HTTP_TOO_LARGE);
    buf_release(&out);
}

static void test_hosts(void) {
    static const char *const good[] = {"127.0.0.1",   "127.0.0.1:8080", "[::1]:80",
                                       "[::1]",       "localhost",      "LocalHost:1",
                                       "a.localhost", "box.lan:8080"};
    static const char *const bad[] = {"evil.example",
                                      "localhost.evil.example",
                                      "127.0.0.1.evil.example",
                                      "xlocalhost",
                                      "box.lan.evil",
                                      "1.2.3",
                                      "",
                                      "evil.example:80",
                                      "[::1",
                                      "evil.com/..localhost",
                                      "evil.com/.localhost",
                                      "user@a.localhost",
                                      "a..localhost",
                                      ".localhost",
                                      "a\\.localhost",
                                      "1...2",
                                      "1234.1.1.1"};
    static const char *const allowed[] = {"box.lan"};
    for (size_t i = 0; i < COUNT_OF(good); i++)
        if (!http_host_ok((struct http_text){good[i], strlen(good[i])}, allowed, 1))
            CHECK_FAIL("%s was refused", good[i]);
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        if (http_host_ok((struct http_text){bad[i], strlen(bad[i])}, allowed, 1))
            CHECK_FAIL("%s was taken", bad[i]);
}

int main(void) {
    RUN(test_refused);
    RUN(test_long);
    RUN(test_taken);
    RUN(test_twice);
    RUN(test_chunks);
    RUN(test_length);
    RUN(test_hosts);
    return check_done();
}
