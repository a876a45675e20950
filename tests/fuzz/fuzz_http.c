// SPDX-License-Identifier: MIT
/* HTTP requests: whatever the bytes, and wherever they are split, heads and bodies are parsed
 * without a fault, and the body does not depend on the splits. */
#include <stdlib.h>
#include <string.h>

#include "serve/http.h"
#include "tests/fuzz/fuzz.h"

enum { MOST = 1 << 16 };

static enum http_more read_body(const struct http_req *r, const char *s, size_t n, size_t cut,
                                struct buf *out, size_t *used) {
    struct http_body b;
    enum http_more m = HTTP_MORE;
    *used = 0;
    http_body_begin(&b, r);
    for (size_t at = 0, k; m == HTTP_MORE && (at < n || !at); at += k) {
        size_t u;
        k = n - at < cut ? n - at : cut;
        m = http_body_feed(&b, s + at, k, MOST, out, &u);
        *used += u;
        if (!k) break;
    }
    return m;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *s = (const char *)data;
    struct http_req r = {0};
    const int n = http_head(s, size, &r);
    if (n <= 0) return 0;
    if ((size_t)n > size || !r.host.n || !r.method.n) abort();
    for (size_t k = 0; k + 1 < (size_t)n; k++) { /* a part of a head is never a complete head */
        struct http_req part = {0};
        if (k % 7 == 0 && http_head(s, k, &part) != 0) abort();
    }
    (void)http_host_ok(r.host, NULL, 0);
    struct buf one = {0}, many = {0};
    size_t used_one, used_many;
    const enum http_more a = read_body(&r, s + n, size - (size_t)n, size + 1, &one, &used_one),
                         b = read_body(&r, s + n, size - (size_t)n, 1, &many, &used_many);
    if (a != b) abort();
    if (a == HTTP_DONE && (used_one != used_many || one.len != many.len ||
                           (one.len && memcmp(one.data, many.data, one.len) != 0)))
        abort();
    buf_release(&one);
    buf_release(&many);
    return 0;
}
