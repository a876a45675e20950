// SPDX-License-Identifier: MIT
/* runtime/engine/logits.c - selection of the largest logits, using a heap for the first k. */
#include "runtime/engine/logits.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

int logit_order(const void *a, const void *b) {
    const struct logit *x = a, *y = b;
    if (x->logit > y->logit) return -1;
    if (x->logit < y->logit) return 1;
    return (x->id > y->id) - (x->id < y->id);
}
/* Returns whether a comes after b in sorted order. */
static int worse(const struct logit *a, const struct logit *b) {
    return logit_order(a, b) > 0;
}

/* Sifts candidate i down in a heap of n whose root is the worst. */
static void sift(struct logit *h, int64_t n, int64_t i) {
    for (;;) {
        int64_t c = 2 * i + 1;
        if (c >= n) return;
        if (c + 1 < n && worse(&h[c + 1], &h[c])) c++;
        if (!worse(&h[c], &h[i])) return;
        struct logit t = h[c];
        h[c] = h[i];
        h[i] = t;
        i = c;
    }
}

/* Returns whether any of n logits exceeds t. There is no early exit, so that the compiler can
 * vectorize it. */
static bool any_above(const float *logits, int64_t n, float t) {
    int any = 0;
    for (int64_t i = 0; i < n; i++) any |= logits[i] > t;
    return any != 0;
}

int64_t logits_keep(const float *logits, int64_t n_vocab, struct logit *h, int64_t k) {
    enum { BLOCK = 64 };
    int64_t n = 0;
    for (int64_t from = 0; from < n_vocab; from += BLOCK) {
        const int64_t to = n_vocab - from < BLOCK ? n_vocab : from + BLOCK;
        if (n == k && to - from == BLOCK && !any_above(logits + from, BLOCK, h[0].logit)) continue;
        for (int64_t i = from; i < to; i++) {
            const struct logit c = {logits[i], (int32_t)i, 0};
            if (!isfinite(c.logit)) continue;
            if (n < k) {
                h[n++] = c;
                if (n == k)
                    for (int64_t j = n / 2; j-- > 0;) sift(h, n, j);
            } else if (worse(&h[0], &c)) {
                h[0] = c;
                sift(h, n, 0);
            }
        }
    }
    if (n > 1) qsort(h, (size_t)n, sizeof *h, logit_order);
    return n;
}

int32_t logits_best(const float *logits, int64_t n, int32_t k, int32_t *id, float *logit) {
    struct logit h[LOGITS_BEST];
    const int32_t found = (int32_t)logits_keep(logits, n, h, k);
    for (int32_t i = 0; i < found; i++) {
        id[i] = h[i].id;
        logit[i] = h[i].logit;
    }
    return found;
}

float logits_max(const float *x, int64_t n) {
    enum { LANES = 16 };
    float max[LANES];
    int64_t i = 0;
    for (int k = 0; k < LANES; k++) max[k] = x[0];
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) max[k] = x[i + k] > max[k] ? x[i + k] : max[k];
    for (; i < n; i++) max[0] = x[i] > max[0] ? x[i] : max[0];
    for (int k = 1; k < LANES; k++) max[0] = max[k] > max[0] ? max[k] : max[0];
    return max[0];
}

int64_t logits_argmax(const float *x, int64_t n) {
    float max = logits_max(x, n);
    for (int64_t i = 0; i < n; i++)
        if (x[i] == max) return i;
    return 0; /* the first value is NaN */
}
