// SPDX-License-Identifier: MIT
/* tests/fuzz/fuzz_grammar.c - untrusted grammars for constrained decoding. The first byte selects
 * the kind:
 *
 * r  a regular expression, a newline and a text: if both engines accept the expression, it and
 * PCRE2 agree on whether the whole text matches
 *
 * s  a JSON Schema: texts of a random walk are JSON and, if nothing was left out, valid by our
 * validator
 *
 * g GBNF, l Lark: a random walk reaches an end, and each token that the mask allows is accepted
 *
 * Anything else is all of them in turn. FUZZ_KIND in the environment, one of these letters, forces
 * one kind for all inputs, so that each reader gets its own time. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/rng.h"
#include "grammar/gram.h"
#include "tests/fuzz/fuzz.h"
#include "text/schema.h"
#include "tok/tok.h"
#include "tests/unit/byte_vocab.h"

enum { STEPS = 120, LONG = 40, WALKS = 3, SIZE_MAX_ = 2000 };
static struct gram_vocab *bytes;
static struct rng rng;

static void found(const char *what, const char *text, size_t n) {
    fprintf(stderr, "%s: %.*s\n", what, (int)n, text);
    abort();
}

static bool start(void) {
    struct err e;
    if (bytes) return true;
    return byte_vocab(&bytes, &e) == 0;
}

static bool has(const uint32_t *bits, int i) {
    return bits[i / 32] >> i % 32 & 1;
}

static int choose(const uint32_t *bits, size_t len) {
    static const char closes[] = "\"}]";
    const int from = (int)(rng_u64(&rng) % 256);
    for (size_t i = 0; i < 3 && len > LONG; i++)
        if (has(bits, closes[i])) return closes[i];
    for (int i = 0; i < 256; i++)
        if (has(bits, (from + i) % 256)) return (from + i) % 256;
    return -1;
}

/* Fails if the shortest completion of a state is not accepted, does not end, or differs from the
 * predicted length. Tokens are bytes here. */
static void way_out(const struct gram_state *s, const struct buf *text) {
    struct ids way = {0};
    struct err e;
    if (gram_way_out(s, &way)) {
        struct gram_state *c = gram_copy(s);
        int bad = 0;
        for (int64_t i = 0; i < way.n && !bad; i++) bad = gram_accept(c, way.v[i], &e);
        if (bad ? e.code != ERR_DATA : !gram_may_end(c))
            found("the way out leads nowhere", text->data, text->len);
        if (way.n != gram_least(s)) found("the way out has another length", text->data, text->len);
        if (!gram_ends_within(s, way.n)) found("the way out is denied", text->data, text->len);
        gram_end(c);
    }
    ids_release(&way);
}

/* Writes a random text; returns false if it did not end soon. */
static bool walk(struct grammar *g, struct buf *out) {
    uint32_t bits[9];
    struct err e;
    struct gram_state *s = gram_begin(g);
    bool done = false, full = false;
    buf_str(out, "");
    for (int n = 0; n < STEPS && !done; n++) {
        full = gram_mask(s, bits, &e) != 0;
        if (full) break;
        const int id = choose(bits, out->len);
        if (rng_u64(&rng) % 32 == 0) way_out(s, out);
        if (has(bits, 256) != gram_may_end(s)) found("the end, and the mask", out->data, out->len);
        done = has(bits, 256) && (id < 0 || out->len > LONG || rng_u64(&rng) % 4 == 0);
        if (done) break;
        if (id < 0) found("nothing may follow", out->data, out->len);
        if (gram_accept(s, id, &e)) {
            if (e.code != ERR_DATA)
                found("the mask allows what is not accepted", out->data, out->len);
            break; /* a limit */
        }
        buf_chr(out, (char)id);
    }
    gram_end(s);
    return done;
}

static void walks(struct grammar *g) {
    for (int i = 0; i < WALKS; i++) {
        struct buf b = {0};
        walk(g, &b);
        buf_release(&b);
    }
}

static void regex(const char *s, size_t n) {
    const char *line = memchr(s, '\n', n), *text = line ? line + 1 : s + n;
    const size_t n_re = line ? (size_t)(line - s) : n, n_text = n - (size_t)(text - s);
    struct grammar *g = NULL;
    struct err e = {0};
    int code;
    size_t at;
    if (grammar_of_regex(&g, bytes, s, n_re, &e)) return;
    walks(g);
    struct buf whole = {0};
    buf_str(&whole, "\\A(?:");
    buf_add(&whole, s, n_re);
    buf_str(&whole, ")\\z");
    pcre2_code *re = pcre2_compile((PCRE2_SPTR)whole.data, whole.len,
                                   PCRE2_UTF | PCRE2_DOLLAR_ENDONLY, &code, &at, NULL);
    pcre2_match_data *m = re ? pcre2_match_data_create_from_pattern(re, NULL) : NULL;
    if (m) {
        const int rc = pcre2_match(re, (PCRE2_SPTR)text, n_text, 0, 0, m, NULL);
        struct gram_state *st = gram_begin(g);
        const bool takes = gram_accept_text(st, text, n_text, &e) == 0 && gram_may_end(st);
        if ((rc >= 0) != takes && (rc >= 0 || rc == PCRE2_ERROR_NOMATCH) && e.code != ERR_DATA)
            found(takes ? "PCRE2 refuses" : "PCRE2 takes", s, n);
        gram_end(st);
    }
    pcre2_match_data_free(m);
    pcre2_code_free(re);
    buf_release(&whole);
    grammar_free(g);
}

static void schema(const char *s, size_t n) {
    struct json *j = NULL;
    struct grammar *g = NULL;
    struct err e;
    struct buf notes = {0};
    const struct gram_opts o = {.notes = &notes, .any_order = n % 2 == 0};
    if (json_parse(&j, s, n, "schema", &e)) return;
    if (grammar_of_schema(&g, bytes, j, &o, &e) == 0) {
        for (int i = 0; i < WALKS; i++) {
            struct buf b = {0}, why = {0};
            struct json *v = NULL;
            bool ok = true;
            if (walk(g, &b)) {
                if (json_parse(&v, b.data, b.len, "text", &e)) {
                    /* duplicate names, NUL, and depth are limits of our parser */
                    if (!strstr(e.msg, "twice") && !strstr(e.msg, "u0000") &&
                        !strstr(e.msg, "deep"))
                        found(e.msg, b.data, b.len);
                } else if (!notes.len && schema_check(j, v, &ok, &why, &e) == 0 && !ok) {
                    fprintf(stderr, "%.*s\n", (int)n, s);
                    found(why.data, b.data, b.len);
                }
            }
            json_free(v);
            buf_release(&b);
            buf_release(&why);
        }
        grammar_free(g);
    }
    buf_release(&notes);
    json_free(j);
}

static void text(const char *s, size_t n, bool lark) {
    struct grammar *g = NULL;
    struct err e;
    if (lark ? grammar_of_lark(&g, bytes, s, n, &e) : grammar_of_gbnf(&g, bytes, s, n, &e)) return;
    walks(g);
    grammar_free(g);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!start() || size < 2 || size > SIZE_MAX_) return 0;
    const char *only = getenv("FUZZ_KIND"), *s = (const char *)data + 1;
    const char kind = only ? only[0] : (char)data[0];
    const size_t n = size - 1;
    const bool all = !strchr("rsgl", kind) || !kind;
    rng_seed(&rng, size * 31 + data[size / 2]);
    if (all || kind == 'r') regex(s, n);
    if (all || kind == 's') schema(s, n);
    if (all || kind == 'g') text(s, n, false);
    if (all || kind == 'l') text(s, n, true);
    return 0;
}
