// SPDX-License-Identifier: MIT
/* tests/unit/test_domains.c - the built-in evaluation texts by domain: names, sizes, UTF-8 and
 * JSON; tool calls that name offered tools and have results; nothing shared with the calibration
 * texts. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/mem.h"
#include "calib/defaults.h"
#include "tests/check.h"
#include "text/utf8.h"

enum { WORDS = 8, CHARS = 24 }; /* the shortest shared sequence that counts */

/* Four windows of 512 tokens, at the fewest bytes per token of vocabularies with 150,000 entries.
 */
static const struct {
    const char *name;
    size_t n_bytes;
} domain[] = {{"prose", 30000}, {"chat", 30000}, {"code", 9000}, {"math", 8000},
              {"tools", 25000}, {"de", 8500},    {"fr", 8500},   {"es", 8500},
              {"ru", 12000},    {"zh", 9000},    {"ja", 9000}};

/* Returns whether the language has no spaces between words. */
static bool without_spaces(const char *name) {
    return strcmp(name, "zh") == 0 || strcmp(name, "ja") == 0;
}

/* ---- the words of a text -----------------------------------------------------------------------
 */

/* Appends the contents of a conversation's messages. */
static void add_contents(const char *line, size_t len, struct buf *out) {
    struct err e;
    struct json *j = NULL;
    CHECK_OK(json_parse(&j, line, len, "text", &e));
    for (const struct json *m = json_first(json_get(j, "messages")); m; m = json_next(m)) {
        const char *said = json_str(json_get(m, "content")),
                   *thought = json_str(json_get(m, "reasoning_content"));
        buf_fmt(out, "%s\n%s\n", said ? said : "", thought ? thought : "");
    }
    json_free(j);
}

/* Appends what a text says: all of it, or the contents of its messages. */
static void add_said(const struct default_text *t, struct buf *out) {
    const char *end = t->data + default_text_len(t);
    if (!t->is_chat) buf_add(out, t->data, default_text_len(t));
    for (const char *p = t->data; t->is_chat && p < end;) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        if (!nl) nl = end;
        add_contents(p, (size_t)(nl - p), out);
        p = nl + 1;
    }
}

struct hashes {
    uint64_t *v;
    size_t n;
};

static void add_hash(struct hashes *h, uint64_t x) {
    if ((h->n & (h->n - 1)) == 0) h->v = xreallocarray(h->v, h->n ? 2 * h->n : 1, sizeof *h->v);
    h->v[h->n++] = x;
}

static uint64_t mix(uint64_t h, uint32_t x) {
    return (h ^ x) * 0x100000001b3u;
}

/* Returns the hashes of the units of a text: its words in lower case, or its characters other than
 * white space. */
static struct hashes units(const struct buf *text, bool chars) {
    const uint64_t empty = 0xcbf29ce484222325u;
    struct hashes out = {0};
    uint64_t h = empty;
    for (size_t at = 0; at < text->len;) {
        uint32_t cp = 0;
        const size_t n = utf8_decode(text->data + at, text->len - at, &cp);
        at += n ? n : 1;
        const bool part = chars ? !utf8_is_white(cp) : utf8_is_word(cp);
        if (part) h = mix(h, cp >= 'A' && cp <= 'Z' ? cp + 32 : cp);
        if (h != empty && (chars || !part)) {
            add_hash(&out, h);
            h = empty;
        }
    }
    if (h != empty) add_hash(&out, h);
    return out;
}

/* Returns the hashes of all sequences of n units. */
static struct hashes sequences(const struct buf *text, bool chars) {
    const size_t n = chars ? CHARS : WORDS;
    struct hashes u = units(text, chars), out = {0};
    for (size_t i = 0; i + n <= u.n; i++) {
        uint64_t h = 0xcbf29ce484222325u;
        for (size_t k = i; k < i + n; k++)
            h = mix(mix(h, (uint32_t)u.v[k]), (uint32_t)(u.v[k] >> 32));
        add_hash(&out, h);
    }
    free(u.v);
    return out;
}

static int ascending(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Returns how many sequences of a text occur in another. */
static int n_shared(const struct buf *text, const struct buf *other, bool chars) {
    struct hashes a = sequences(text, chars), b = sequences(other, chars);
    int n = 0;
    qsort(b.v, b.n, sizeof *b.v, ascending);
    for (size_t i = 0; i < a.n && b.n; i++)
        n += bsearch(&a.v[i], b.v, b.n, sizeof *b.v, ascending) != NULL;
    free(a.v);
    free(b.v);
    return n;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void test_names_and_sizes(void) {
    size_t n = 0;
    for (; default_domain_at((int)n); n++) {
        const struct default_domain *d = default_domain_at((int)n);
        const size_t len = default_text_len(&d->text);
        if (n == sizeof domain / sizeof *domain) break;
        CHECK_EQ_STR(d->name, domain[n].name);
        CHECK(default_domain(d->name) == d && d->text.is_eval);
        if (len < domain[n].n_bytes) CHECK_FAIL("%s has %zu bytes", d->name, len);
        CHECK(utf8_valid_prefix(d->text.data, len) == len && !memchr(d->text.data, '\r', len));
        CHECK(len && d->text.data[len - 1] == '\n');
    }
    CHECK_EQ_I64(n, sizeof domain / sizeof *domain);
    CHECK(!default_domain_at((int)n) && !default_domain_at(-1) && !default_domain("prose.txt"));
    /* the default evaluation texts, as hone make uses them, are the first two */
    CHECK(default_domain("prose")->text.data == default_text_at(2)->data);
    CHECK(default_domain("chat")->text.data == default_text_at(3)->data);
}

/* Returns whether a tool of that name is offered. */
static bool is_offered(const struct json *root, const char *name) {
    for (const struct json *t = json_first(json_get(root, "tools")); t; t = json_next(t)) {
        const char *own = json_str(json_get(json_get(t, "function"), "name"));
        if (name && own && strcmp(own, name) == 0) return true;
    }
    return false;
}

/* Checks the calls of a message: each names an offered tool, and the messages that follow have the
 * results in the same order. Returns the number of calls. */
static int check_calls(const struct json *root, const struct json *m) {
    const struct json *result = json_next(m);
    int n = 0;
    for (const struct json *c = json_first(json_get(m, "tool_calls")); c; c = json_next(c), n++) {
        CHECK(is_offered(root, json_str(json_get(json_get(c, "function"), "name"))));
        CHECK_EQ_STR(json_str(json_get(result, "role")), "tool");
        CHECK_EQ_STR(json_str(json_get(result, "tool_call_id")), json_str(json_get(c, "id")));
        result = json_next(result);
    }
    return n;
}

static void test_tools(void) {
    const struct default_text *t = &default_domain("tools")->text;
    const char *end = t->data + default_text_len(t);
    int n = 0;
    for (const char *p = t->data, *nl; p < end; p = nl + 1, n++) {
        struct err e;
        struct json *j = NULL;
        int calls = 0;
        nl = memchr(p, '\n', (size_t)(end - p));
        if (!nl) break;
        CHECK_OK(json_parse(&j, p, (size_t)(nl - p), "tools", &e));
        for (const struct json *m = json_first(json_get(j, "messages")); m; m = json_next(m))
            calls += check_calls(j, m);
        CHECK(calls >= 2 && nl - p >= 2500);
        json_free(j);
    }
    CHECK(n >= 8);
}

/* Checks that no domain shares 8 words, or 24 characters of Chinese or Japanese, with calibration.
 */
static void test_held_out(void) {
    struct buf calib = {0}, own = {0};
    for (int i = 0; default_text_at(i); i++)
        if (!default_text_at(i)->is_eval) add_said(default_text_at(i), &calib);
    CHECK(calib.len > 100000);
    for (int i = 0; default_domain_at(i); i++) {
        const struct default_domain *d = default_domain_at(i);
        buf_reset(&own);
        add_said(&d->text, &own);
        const int n = n_shared(&own, &calib, without_spaces(d->name));
        if (n) CHECK_FAIL("%s shares %d sequences with the calibration texts", d->name, n);
    }
    /* the check finds a copy, in either form */
    buf_add(&calib, own.data, own.len);
    CHECK(n_shared(&own, &calib, true) > 1000 && n_shared(&own, &calib, false) > 100);
    buf_release(&calib);
    buf_release(&own);
}

/* Checks the hash of the texts: increment the version in calib/defaults.c with each change. */
static void test_version(void) {
    struct buf all = {0};
    char hex[33];
    for (int i = 2; default_domain_at(i); i++) {
        const struct default_text *t = &default_domain_at(i)->text;
        CHECK(strstr(t->about, "version 1"));
        buf_add(&all, t->data, default_text_len(t));
    }
    hash_xxh128_hex(hex, all.data, all.len);
    CHECK_EQ_STR(hex, "655bfb4ddcc5a137689bf38175c261e6");
    buf_release(&all);
}

int main(void) {
    RUN(test_names_and_sizes);
    RUN(test_tools);
    RUN(test_held_out);
    RUN(test_version);
    return check_done();
}
