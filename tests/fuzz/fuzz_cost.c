// SPDX-License-Identifier: MIT
/* tests/fuzz/fuzz_cost.c - the cost of compiling grammars. The input is a kind ('s' JSON Schema,
 * 'g' GBNF, 'l' Lark, 'r' regular expression) and, separated by newlines, a head, a piece and a
 * tail. The head, many copies of the piece and the tail are compiled, and again with twice as many
 * copies, which may take at most MORE times the steps, on a stack of 512 KiB. The first bytes of an
 * answer must stay within the step limit of a call. '#' in a piece is replaced by the copy's
 * number. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ctx.h"
#include "base/json.h"
#include "grammar/gram.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/parts.h"
#include "tests/unit/byte_vocab.h"

enum { TIMES = 200, STACK = 512 << 10, LEAST = 100000, MOST = 20000000, PART = 400, MORE = 12 };
static struct gram_vocab *bytes;

static int compile(char kind, const struct buf *b, struct grammar **g, struct err *e) {
    struct json *j = NULL;
    const char *s = b->data ? b->data : "";
    if (kind == 'g') return grammar_of_gbnf(g, bytes, s, b->len, e);
    if (kind == 'l') return grammar_of_lark(g, bytes, s, b->len, e);
    if (kind == 'r') return grammar_of_regex(g, bytes, s, b->len, e);
    TRY(json_parse(&j, s, b->len, "schema", e));
    const int rc = grammar_of_schema(g, bytes, j, NULL, e);
    json_free(j);
    return rc;
}

struct trial {
    char kind;
    struct part head, piece, tail;
};

/* Returns the number of steps for a text with n pieces; 0: it is rejected. */
static uint64_t steps(const struct trial *t, int n) {
    struct ctx_cost c = {.most = MOST};
    struct grammar *g = NULL;
    struct buf b = {0};
    struct err e;
    put_part(&b, t->head, 0);
    for (int i = 0; i < n; i++) put_part(&b, t->piece, i);
    put_part(&b, t->tail, n);
    ctx_cost_enter(&c);
    const int rc = compile(t->kind, &b, &g, &e);
    ctx_cost_enter(NULL);
    if (rc == 0) {
        uint32_t bits[9];
        struct gram_state *s = gram_begin(g);
        (void)gram_mask(s, bits, &e);
        (void)gram_least(s);
        gram_end(s);
    }
    grammar_free(g);
    buf_release(&b);
    if (c.spent > 2 * (uint64_t)MOST) abort(); /* a loop that ignores the limit */
    return rc ? 0 : c.spent;
}

static void *run(void *ud) {
    const struct trial *t = ud;
    const uint64_t one = steps(t, TIMES), two = steps(t, 2 * TIMES);
    if (one && two > LEAST && two > MORE * one) {
        fprintf(stderr, "%llu steps, twice of it %llu\n", (unsigned long long)one,
                (unsigned long long)two);
        abort();
    }
    return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct err e;
    pthread_attr_t small;
    pthread_t thread;
    if (!size || (!bytes && byte_vocab(&bytes, &e))) return 0;
    const char *s = (const char *)data + 1, *end = (const char *)data + size;
    struct trial t = {.kind = (char)data[0]};
    t.head = next_part(&s, end, '\n', PART);
    t.piece = next_part(&s, end, '\n', PART);
    t.tail = next_part(&s, end, '\n', PART);
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, STACK);
    if (pthread_create(&thread, &small, run, &t) == 0) pthread_join(thread, NULL);
    pthread_attr_destroy(&small);
    return 0;
}
