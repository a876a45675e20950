// SPDX-License-Identifier: MIT
/* tests/unit/test_gram_cost.c - the cost in steps (base/ctx.h) of compiling untrusted schemas and
 * grammars: for each kind of input, twice the size takes hardly more than twice the steps, the
 * limit holds, and a disconnected client or an interruption ends the work. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/ctx.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/progress.h"
#include "grammar/gram.h"
#include "tests/check.h"
#include "tests/unit/byte_vocab.h"

static struct gram_vocab *bytes;
static struct err e;

/* Appends s n times, replacing '#' by the number of the copy. */
static void times(struct buf *b, const char *s, int n) {
    for (int i = 0; i < n; i++)
        for (const char *p = s; *p; p++)
            if (*p == '#')
                buf_fmt(b, "%d", i);
            else
                buf_chr(b, *p);
}
static void key(struct buf *b, int n) {
    buf_str(b, "{\"type\": \"object\", \"properties\": {\"");
    times(b, "a", n);
    buf_str(b, "\": {\"type\": \"integer\"}}}");
}
static void literal(struct buf *b, int n) {
    buf_str(b, "{\"enum\": [\"");
    times(b, "x", n);
    buf_str(b, "\"]}");
}
static void values(struct buf *b, int n) {
    buf_str(b, "{\"type\": \"integer\", \"minimum\": 0, \"enum\": [0");
    times(b, ", #", n);
    buf_str(b, "]}");
}
static void alike(struct buf *b, int n) {
    buf_str(b, "{\"enum\": [0");
    times(b, ", \"value number #\"", n);
    buf_str(b, "]}");
}
static void array(struct buf *b, int n) {
    buf_str(b, "{\"const\": [0");
    times(b, ", {\"a\": #}", n);
    buf_str(b, "]}");
}
static void sequence(struct buf *b, int n) {
    buf_str(b, "root ::= ");
    times(b, "[ab] ", n);
}
static void choice(struct buf *b, int n) {
    buf_str(b, "root ::= \"x\"");
    times(b, " | \"w#\"", n);
}
static void counts(struct buf *b, int n) {
    buf_str(b, "root ::= \"x\"");
    times(b, " | [ab]{#,99999} \"x\"", n);
}
static void rules(struct buf *b, int n) {
    buf_str(b, "root ::= \"x\"");
    times(b, " r#", n);
    buf_str(b, "\n");
    times(b, "r# ::= \"(\" root \")\" | \"x#\"\n", n);
}
static void lark(struct buf *b, int n) {
    buf_str(b, "start: \"x\"");
    times(b, " \"a\" X", n);
    buf_str(b, "\nX: /[a-z]+/\n%ignore \" \"\n");
}
static void pattern(struct buf *b, int n) {
    times(b, "(abc|abd)", n);
}
static void anchors(struct buf *b, int n) {
    times(b, "(a|^b|c$)", n);
}

enum kind { SCHEMA, GRAMMAR, REGEX };
static int compile(enum kind kind, const struct buf *b, struct grammar **g) {
    struct json *j = NULL;
    *g = NULL;
    if (kind == GRAMMAR) return grammar_of_text(g, bytes, b->data, b->len, &e);
    if (kind == REGEX) return grammar_of_regex(g, bytes, b->data, b->len, &e);
    TRY(json_parse(&j, b->data, b->len, "schema", &e));
    const int rc = grammar_of_schema(g, bytes, j, NULL, &e);
    json_free(j);
    return rc;
}

static uint64_t steps(enum kind kind, void (*make)(struct buf *b, int n), int n) {
    struct ctx_cost c = {.most = UINT64_MAX / 2};
    struct grammar *g;
    struct buf b = {0};
    make(&b, n);
    ctx_cost_enter(&c);
    CHECK_OK(compile(kind, &b, &g));
    ctx_cost_enter(NULL);
    grammar_free(g);
    buf_release(&b);
    return c.spent;
}

static const struct {
    const char *what;
    enum kind kind;
    void (*make)(struct buf *b, int n);
    int n;
} rows[] = {{"a long name of a property", SCHEMA, key, 10000},
            {"a long text", SCHEMA, literal, 100000},
            {"many values with a condition", SCHEMA, values, 4000},
            {"many values that begin alike", SCHEMA, alike, 4000},
            {"a long list as a value", SCHEMA, array, 4000},
            {"a long sequence", GRAMMAR, sequence, 10000},
            {"a long choice", GRAMMAR, choice, 10000},
            {"a choice of counts", GRAMMAR, counts, 5000},
            {"many rules", GRAMMAR, rules, 5000},
            {"a long sequence in Lark", GRAMMAR, lark, 5000},
            {"a long pattern", REGEX, pattern, 5000},
            {"a pattern with anchors", REGEX, anchors, 1000}};

static void test_linear(void) {
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const uint64_t one = steps(rows[i].kind, rows[i].make, rows[i].n),
                       two = steps(rows[i].kind, rows[i].make, 2 * rows[i].n);
        if (one < (uint64_t)rows[i].n || two > 5 * one / 2)
            CHECK_FAIL("%s: %llu steps, and %llu for twice of it", rows[i].what,
                       (unsigned long long)one, (unsigned long long)two);
    }
}

/* Checks that every kind is refused if the limit is too low, wherever it is reached, and leaks
 * nothing.
 */
static void test_limit(void) {
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const uint64_t all = steps(rows[i].kind, rows[i].make, 300);
        for (uint64_t most = 1; most < all; most += all / 7 + 1) {
            struct ctx_cost c = {.most = most};
            struct grammar *g;
            struct buf b = {0};
            rows[i].make(&b, 300);
            ctx_cost_enter(&c);
            CHECK_ERR(compile(rows[i].kind, &b, &g), ERR_DATA, "steps to compile");
            ctx_cost_enter(NULL);
            CHECK(g == NULL && c.spent < most + all);
            buf_release(&b);
        }
    }
}

/* Returns the number of steps after which a compilation that was cancelled before it began has
 * ended. */
static uint64_t stopped(const atomic_bool *gone) {
    struct ctx_cost c = {.most = limit_of(LIM_GRAMMAR_STEPS), .gone = gone};
    struct grammar *g;
    struct buf b = {0};
    sequence(&b, 150000);
    ctx_cost_enter(&c);
    CHECK_ERR(compile(GRAMMAR, &b, &g), ERR_INTR, "interrupted");
    ctx_cost_enter(NULL);
    buf_release(&b);
    return c.spent;
}

static void test_stopped(void) {
    atomic_bool gone;
    atomic_init(&gone, true);
    CHECK(stopped(&gone) < 300000);
    progress_interrupt();
    CHECK(stopped(NULL) < 300000);
    progress_resume();
}

/* Returns the number of steps of a search for the unsatisfiable part of a schema, which compiles
 * its parts again; all of it shares one limit. */
static uint64_t search(uint64_t most) {
    struct ctx_cost c = {.most = most};
    struct grammar *g;
    struct buf b = {0};
    buf_str(&b, "{\"type\": \"object\", \"properties\": {\"z\": {\"type\": \"string\", "
                "\"minLength\": 3, \"maxLength\": 2}");
    times(&b, ", \"k#\": {\"type\": \"string\", \"pattern\": \"^a{1,200}$\"}", 100);
    buf_str(&b, "}, \"required\": [\"k0\"");
    for (int i = 1; i < 100; i++) buf_fmt(&b, ", \"k%d\"", i);
    buf_str(&b, ", \"z\"]}");
    ctx_cost_enter(&c);
    CHECK_ERR(compile(SCHEMA, &b, &g), ERR_DATA, "no text can satisfy");
    ctx_cost_enter(NULL);
    buf_release(&b);
    return c.spent;
}
static void test_search_shares(void) {
    const uint64_t all = search(UINT64_MAX / 2);
    CHECK(search(all / 2) < 3 * all / 4);
}

/* Checks that a text with too many possible continuations fails the call instead of stalling it. */
static void test_calls(void) {
    struct grammar *g;
    struct buf b = {0};
    char text[512];
    memset(text, 'a', sizeof text);
    buf_str(&b, "root ::= ");
    times(&b, "\"a\"? \"b\"? ", 40000);
    CHECK_OK(compile(GRAMMAR, &b, &g));
    struct gram_state *s = gram_begin(g);
    CHECK_ERR(gram_accept_text(s, text, sizeof text, &e), ERR_DATA, "a token takes more than");
    CHECK(grammar_is_full(g));
    gram_end(s);
    grammar_free(g);
    buf_release(&b);
}

int main(void) {
    CHECK_OK(byte_vocab(&bytes, &e));
    RUN(test_linear);
    RUN(test_limit);
    RUN(test_stopped);
    RUN(test_search_shares);
    RUN(test_calls);
    gram_vocab_free(bytes);
    return check_done();
}
