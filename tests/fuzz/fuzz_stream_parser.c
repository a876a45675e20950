// SPDX-License-Identifier: MIT
/* tests/fuzz/fuzz_stream_parser.c - the stream parser (serve/stream_parser.c), on arbitrary bytes
 * in arbitrary pieces. Events must contain only whole characters, their concatenation must not
 * depend on the pieces, the content must not contain a stop text, and calls must start, continue
 * and end in order.
 *
 * The first three bytes select the call syntax; whether the text starts inside reasoning, is
 * streamed, has tools, or is cut by a limit; and the length of the stop text that follows. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "serve/stream_parser.h"
#include "tests/fuzz/fuzz.h"
#include "text/utf8.h"

static const char tools[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"properties\":{\"n\":{"
    "\"type\":\"integer\"},\"s\":{\"type\":\"string\"}}}}}]";

struct heard {
    struct buf reasoning, content, calls;
    int n_calls; /* that ended */
    bool open;
};

static void hear(void *ud, const struct event *ev) {
    struct heard *h = ud;
    if (utf8_valid_prefix(ev->s, ev->n) != ev->n) abort();
    if (ev->kind == EV_REASONING) buf_add(&h->reasoning, ev->s, ev->n);
    if (ev->kind == EV_CONTENT) buf_add(&h->content, ev->s, ev->n);
    if (ev->kind < EV_CALL_BEGIN || ev->kind > EV_CALL_END) return;
    if (ev->call != h->n_calls || (ev->kind == EV_CALL_BEGIN) == h->open) abort();
    h->open = ev->kind != EV_CALL_END;
    h->n_calls += !h->open;
    buf_add(&h->calls, ev->s, ev->n);
    buf_str(&h->calls, h->open ? "" : "\n");
}

struct how {
    const struct toolfmt *fmt;
    enum tool_think think;
    bool stream, tools, cut;
    const char *stop;
};

static struct heard say(const struct how *o, const char *s, size_t n, size_t piece) {
    struct ask a = {.top = -1, .stream = o->stream};
    struct heard h = {.n_calls = 0};
    struct buf problems = {0};
    struct parser *k;
    struct err e;
    const char *hit = NULL;
    if (o->stop) a.stop[a.n_stop++] = xstrdup(o->stop);
    if (o->tools) a.tools = xstrdup(tools);
    if (parser_new(&k, &a, o->fmt, o->think, 0, hear, &h, &e)) abort();
    bool ends = false;
    for (size_t at = 0; at < n && !ends; at += piece)
        ends = parser_feed(k, s + at, n - at < piece ? n - at : piece, &hit);
    const int n_calls = parser_end(k, o->cut, &problems, &hit);
    if (n_calls != h.n_calls || (h.open && !o->cut)) abort();
    if (o->stop &&
        memmem(h.content.data ? h.content.data : "", h.content.len, o->stop, strlen(o->stop)))
        abort();
    if ((ends || hit) && (!hit || !o->stop || strcmp(hit, o->stop) != 0)) abort();
    parser_free(k);
    buf_release(&problems);
    ask_release(&a);
    return h;
}

static bool same(const struct buf *a, const struct buf *b) {
    return a->len == b->len && (!a->len || memcmp(a->data, b->data, a->len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 4 || size > 3000) return 0;
    const int which = data[0] % (toolfmt_count() + 1);
    struct how o = {.fmt = which < toolfmt_count() ? toolfmt_at(which) : NULL,
                    .think = (enum tool_think)(data[1] % 3),
                    .stream = data[1] & 4,
                    .tools = data[1] & 8,
                    .cut = data[1] & 16};
    const size_t n_stop = data[2] % 8 < size - 3 ? data[2] % 8 : 0;
    char *stop = xstrndup((const char *)data + 3, n_stop);
    if (*stop && utf8_valid_prefix(stop, strlen(stop)) == strlen(stop)) o.stop = stop;
    const char *s = (const char *)data + 3 + n_stop;
    const size_t n = size - 3 - n_stop;
    struct heard one = say(&o, s, n, n + 1), many = say(&o, s, n, 1);
    if (!same(&one.reasoning, &many.reasoning) || !same(&one.content, &many.content)) abort();
    struct heard *const h[] = {&one, &many};
    for (int i = 0; i < 2; i++) {
        buf_release(&h[i]->reasoning);
        buf_release(&h[i]->content);
        buf_release(&h[i]->calls);
    }
    free(stop);
    return 0;
}
