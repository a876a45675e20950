// SPDX-License-Identifier: MIT
/* calib/select.c - lazy greedy selection of documents.
 *
 * Gains only fall as documents are taken, so an earlier gain is an upper bound of the current one.
 * A heap orders documents by bound per token. Only the top one is evaluated again, and taken if it
 * stays on top; the choice is the same as if all were evaluated each time. It depends only on the
 * counts: there is one thread, and sums are in cell order. */
#include "calib/select.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "quantize/imat_file.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/rng.h"

enum { BLOCK_BYTES = 1 << 18 };

void sel_init(struct sel *s, int64_t n_cells) {
    memset(s, 0, sizeof *s);
    s->n_cells = n_cells;
}

void sel_release(struct sel *s) {
    for (int64_t i = 0; i < s->n_blocks; i++) mem_free(s->block[i]);
    free(s->block);
    free(s->doc);
    memset(s, 0, sizeof *s);
}

/* Writes v in groups of 7 bits, lowest first, and returns the end. */
static uint8_t *put_varint(uint8_t *p, uint64_t v) {
    for (; v >= 128; v >>= 7) *p++ = (uint8_t)(v | 128);
    *p++ = (uint8_t)v;
    return p;
}
/* Reads a number written by put_varint() and returns the end. */
static const uint8_t *get_varint(const uint8_t *p, uint64_t *v) {
    *v = *p & 127;
    for (int shift = 7; *p++ & 128; shift += 7) *v |= (uint64_t)(*p & 127) << shift;
    return p;
}

/* Ensures room for n bytes. */
static int reserve(struct sel *s, uint64_t n, struct err *e) {
    if (n <= s->left) return 0;
    const uint64_t size = n > BLOCK_BYTES ? n : BLOCK_BYTES;
    void *p;
    TRY(mem_alloc(&p, size, "tokens per expert of the documents", e));
    s->block = xreallocarray(s->block, (size_t)s->n_blocks + 1, sizeof *s->block);
    s->block[s->n_blocks++] = s->at = p;
    s->left = size;
    return 0;
}

/* Returns the number of bytes that put_varint() writes for v. */
static uint64_t varint_bytes(uint64_t v) {
    uint64_t n = 1;
    for (; v >= 128; v >>= 7) n++;
    return n;
}

int sel_add(struct sel *s, int64_t n_tokens, const uint32_t *count, struct err *e) {
    int64_t n_hit = 0, next = 0;
    uint64_t size = 0;
    for (int64_t i = 0; i < s->n_cells; i++) {
        if (!count[i]) continue;
        size += varint_bytes((uint64_t)(i - next)) + varint_bytes(count[i]);
        next = i + 1;
        n_hit++;
    }
    TRY(reserve(s, size, e));
    if (s->n_docs == s->cap) {
        s->cap = s->cap ? 2 * s->cap : 256;
        s->doc = xreallocarray(s->doc, (size_t)s->cap, sizeof *s->doc);
    }
    s->doc[s->n_docs++] = (struct sel_doc){n_tokens, s->at, n_hit};
    next = 0;
    for (int64_t i = 0; i < s->n_cells; i++) {
        if (!count[i]) continue;
        s->at = put_varint(put_varint(s->at, (uint64_t)(i - next)), count[i]);
        next = i + 1;
    }
    s->left -= size;
    return 0;
}

/* Returns the share of an expert's own statistics with n tokens, 0 to 1: n / (n + IMAT_TAU). */
static double share(double n) {
    return n / (n + IMAT_TAU);
}

void sel_count(const struct sel *s, int64_t doc, double *tokens) {
    const uint8_t *p = s->doc[doc].count;
    uint64_t cell = 0, gap, n;
    for (int64_t i = 0; i < s->doc[doc].n_hit; i++, cell++) {
        p = get_varint(get_varint(p, &gap), &n);
        cell += gap;
        tokens[cell] += (double)n;
    }
}

double sel_worth(const double *tokens, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += share(tokens[i]);
    return sum;
}

double sel_gain(const struct sel *s, int64_t doc, const double *tokens) {
    const uint8_t *p = s->doc[doc].count;
    uint64_t cell = 0, gap, n;
    double sum = 0;
    for (int64_t i = 0; i < s->doc[doc].n_hit; i++, cell++) {
        p = get_varint(get_varint(p, &gap), &n);
        cell += gap;
        const double a = tokens[cell], b = a + (double)n;
        /* share(b) - share(a) */
        sum += IMAT_TAU * (b - a) / ((a + IMAT_TAU) * (b + IMAT_TAU));
    }
    return sum;
}

/* ---- greedy ---------------------------------------------------------------------------------- */

struct bound {
    double per_token;
    int64_t doc;
};

/* Returns whether a comes before b: more per token, then the earlier document. */
static bool is_before(const struct bound *a, const struct bound *b) {
    return a->per_token != b->per_token ? a->per_token > b->per_token : a->doc < b->doc;
}

/* Moves h[i] down until the heap order is restored. */
static void sift(struct bound *h, int64_t n, int64_t i) {
    for (int64_t best = i;; i = best) {
        for (int64_t k = 2 * i + 1; k <= 2 * i + 2 && k < n; k++)
            if (is_before(&h[k], &h[best])) best = k;
        if (best == i) return;
        const struct bound t = h[i];
        h[i] = h[best];
        h[best] = t;
    }
}

int64_t sel_greedy(const struct sel *s, int64_t budget, double *tokens, struct sel_pick **out) {
    struct bound *h = xcalloc((size_t)s->n_docs + 1, sizeof *h);
    struct sel_pick *pick = xcalloc((size_t)s->n_docs + 1, sizeof *pick), single = {-1, 0};
    double *at_first = xcalloc((size_t)s->n_cells + 1, sizeof *at_first);
    memcpy(at_first, tokens, (size_t)s->n_cells * sizeof *tokens);
    int64_t n = 0, n_picks = 0, left = budget;
    double sum = 0;
    for (int64_t i = 0; i < s->n_docs; i++) {
        const double gain = sel_gain(s, i, tokens);
        if (s->doc[i].n_tokens > budget) continue;
        if (gain > single.gain) single = (struct sel_pick){i, gain};
        h[n++] = (struct bound){gain / (double)s->doc[i].n_tokens, i};
    }
    for (int64_t i = n / 2 - 1; i >= 0; i--) sift(h, n, i);
    while (n > 0) {
        const int64_t doc = h[0].doc;
        const double gain = s->doc[doc].n_tokens <= left ? sel_gain(s, doc, tokens) : 0;
        if (gain > 0) {
            h[0].per_token = gain / (double)s->doc[doc].n_tokens;
            sift(h, n, 0);
            if (h[0].doc != doc) continue;
            pick[n_picks++] = (struct sel_pick){doc, gain};
            sel_count(s, doc, tokens);
            left -= s->doc[doc].n_tokens;
            sum += gain;
        }
        h[0] = h[--n]; /* taken, or too long, or without gain */
        sift(h, n, 0);
    }
    if (single.gain > sum) {
        pick[0] = single;
        n_picks = 1;
        memcpy(tokens, at_first, (size_t)s->n_cells * sizeof *tokens);
        sel_count(s, single.doc, tokens);
    }
    free(at_first);
    free(h);
    *out = pick;
    return n_picks;
}

void sel_random(const struct sel *s, int64_t budget, uint64_t seed, double *tokens) {
    int64_t *order = xcalloc((size_t)s->n_docs + 1, sizeof *order), left = budget;
    struct rng r;
    rng_seed(&r, seed);
    for (int64_t i = 0; i < s->n_docs; i++) { /* inside-out shuffle while filling the list */
        const int64_t k = (int64_t)(rng_u64(&r) % (uint64_t)(i + 1));
        order[i] = order[k];
        order[k] = i;
    }
    for (int64_t i = 0; i < s->n_docs; i++) {
        if (s->doc[order[i]].n_tokens > left) continue;
        left -= s->doc[order[i]].n_tokens;
        sel_count(s, order[i], tokens);
    }
    free(order);
}
