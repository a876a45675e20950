// SPDX-License-Identifier: MIT
/* runtime/measure/needle.c - needle tasks: a sentence with a number is hidden in a window of text,
 * and a question at the end asks for it. The text is cut between tokens, so a window has exactly
 * the requested length. Scored like any multiple choice: the number against three others that are
 * not in the window, by mean log p. Chance is 25 %, and the model need not follow instructions. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/rng.h"
#include "runtime/measure/choices_int.h"

enum { N_CHOICES = 4, DIGITS = 5 };

static const char *const names[] = {"Paris", "London", "Tokyo", "Lima",  "Oslo",   "Cairo",
                                    "Delhi", "Rome",   "Quito", "Seoul", "Berlin", "Dublin"};

struct needle { /* texts of one task */
    char said[80], asked[80], number[N_CHOICES][DIGITS + 1];
};

/* Draws distinct five-digit numbers for needle k; number[0] is the right one. */
static void make_needle(struct needle *n, struct rng *r, int k) {
    const char *name = names[(size_t)k % COUNT_OF(names)];
    for (int i = 0; i < N_CHOICES; i++) {
        bool twice;
        do {
            snprintf(n->number[i], sizeof n->number[i], "%05u",
                     (unsigned)(10000 + rng_u64(r) % 90000));
            twice = false;
            for (int j = 0; j < i; j++) twice = twice || strcmp(n->number[i], n->number[j]) == 0;
        } while (twice);
    }
    snprintf(n->said, sizeof n->said, "\nThe secret number of %s is %s.\n", name, n->number[0]);
    snprintf(n->asked, sizeof n->asked, "\nThe secret number of %s is", name);
}

static void append_ids(struct ids *to, const int32_t *v, int64_t n) {
    for (int64_t i = 0; i < n; i++) ids_add(to, v[i]);
}

/* Builds a task: the filler text with the needle at `depth` (0 to 1), then the question, and one
 * sequence per number. The filler brings the longest sequence up to ctx tokens. */
static int build(struct choice_tasks *c, const struct tok *tok, const struct needle *n,
                 const int32_t *hay, int64_t ctx, double depth, struct err *e) {
    struct ids said = {0}, tail[N_CHOICES] = {{0}};
    struct choice_task *t = choices_add(c, N_CHOICES, 0);
    int64_t bos = tok_add_bos(tok) ? tok_special(tok, TS_BOS) : -1, longest = 0;
    int rc = tok_encode(tok, n->said, strlen(n->said), false, false, &said, e);
    for (int i = 0; i < N_CHOICES && !rc; i++) {
        char text[100];
        snprintf(text, sizeof text, "%s %s", n->asked, n->number[i]);
        rc = tok_encode(tok, text, strlen(text), false, false, &tail[i], e);
        longest = max_i64(longest, tail[i].n);
    }
    int64_t room = ctx - said.n - longest - (bos >= 0);
    if (!rc && room < 1)
        rc = err_set(e, ERR_USAGE, "a window of %" PRId64 " tokens is too short for a needle", ctx);
    int64_t at = (int64_t)((double)max_i64(room, 0) * depth + 0.5);
    for (int i = 0; i < N_CHOICES && !rc; i++) {
        if (bos >= 0) ids_add(&t->seq[i], (int32_t)bos);
        append_ids(&t->seq[i], hay, at);
        append_ids(&t->seq[i], said.v, said.n);
        append_ids(&t->seq[i], hay + at, room - at);
        append_ids(&t->seq[i], tail[i].v, tail[i].n);
    }
    if (!rc) rc = choices_finish(c, t, "needle", e);
    ids_release(&said);
    for (int i = 0; i < N_CHOICES; i++) ids_release(&tail[i]);
    return rc;
}

int choices_needle(struct choice_tasks *out, const char *text, size_t len, const char *path,
                   const struct tok *tok, int64_t ctx, int n_depths, int per_depth, struct err *e) {
    struct ids hay = {0};
    struct rng r;
    rng_seed(&r, 1);
    memset(out, 0, sizeof *out);
    int rc = tok_encode(tok, text, len, false, false, &hay, e);
    if (!rc && hay.n < ctx)
        rc = err_set(e, ERR_DATA, "%s: has %" PRId64 " tokens, a window of needles needs %" PRId64,
                     path, hay.n, ctx);
    out->group = xcalloc((size_t)n_depths + 1, sizeof *out->group);
    for (int k = 0; k < n_depths * per_depth && !rc; k++) {
        int d = k / per_depth;
        double depth = n_depths > 1 ? (double)d / (n_depths - 1) : 0.5;
        struct needle n;
        snprintf(out->group[d], sizeof out->group[d], "depth %.0f %%", 100 * depth);
        make_needle(&n, &r, k);
        /* The windows are spread over the text and are the same at every depth. */
        int64_t from = per_depth > 1 ? (hay.n - ctx) * (k % per_depth) / (per_depth - 1) : 0;
        rc = build(out, tok, &n, hay.v + from, ctx, depth, e);
        if (!rc) out->t[out->n - 1].group = out->group[d];
    }
    ids_release(&hay);
    if (rc) choices_close(out);
    return rc;
}
