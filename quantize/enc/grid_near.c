// SPDX-License-Identifier: MIT
/* quantize/enc/grid_near.c - entries of a grid near vectors that are none, for the conventional
 * searches (grid_conv.h, iq1_conv.h): the nearest few distances between level numbers. Tables are
 * made at first use. */
#include "quantize/enc/gridq.h"

#include <pthread.h>
#include <stdlib.h>

#include "core/mem.h"
#include "kernels/grid.h"

enum { N_TYPES = 6 };

static struct room {
    const struct grid_spec *s;
    int32_t *start;
    uint16_t *list;
    uint8_t code[KERN_IQ1][8];
    struct near_table t;
} tables[N_TYPES];
static pthread_once_t once[N_TYPES] = {PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT,
                                       PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT};

static int distance(const uint8_t *a, const uint8_t *b, int n) {
    int d = 0;
    for (int i = 0; i < n; i++) d += (a[i] - b[i]) * (a[i] - b[i]);
    return d;
}

/* Entries within the nearest `shells` distances of v; returns their number. */
static int neighbours(const struct room *t, const uint8_t *v, uint16_t *out) {
    uint16_t d[KERN_IQ1];
    int limit = -1, n = 0;
    for (int g = 0; g < t->s->n; g++) d[g] = (uint16_t)distance(v, t->code[g], t->s->per);
    for (int k = 0; k < t->s->shells; k++) {
        int next = 1 << 15;
        for (int g = 0; g < t->s->n; g++)
            if (d[g] > limit && d[g] < next) next = d[g];
        limit = next;
    }
    for (int g = 0; g < t->s->n; g++)
        if (d[g] <= limit) out[n++] = (uint16_t)g;
    return n;
}

static void fill(enum qtype type, int slot) {
    struct room *t = &tables[slot];
    const struct grid_spec *s = t->s = grid_spec_of(type);
    const int bits = grid_bits(s), n_codes = 1 << (bits * s->per);
    const int8_t *lowest = grid_levels(s, 0);
    const int top = (int)s->top, first = lowest[0];
    size_t cap = 1 << 20, n = 0;
    t->start = xcalloc((size_t)n_codes, sizeof *t->start);
    t->list = xreallocarray(NULL, cap, sizeof *t->list);
    for (int i = 0; i < n_codes; i++) t->start[i] = INT32_MIN;
    for (int g = 0; g < s->n; g++) {
        int code = 0;
        for (int e = 0; e < s->per; e++) {
            int l = grid_levels(s, g)[e];
            int at = (2 * (l - first) * (s->n_level - 1) + top - first) / (2 * (top - first));
            t->code[g][e] = (uint8_t)at;
            code |= at << (bits * e);
        }
        t->start[code] = g;
    }
    for (int i = 0; i < n_codes; i++) {
        uint8_t v[8] = {0};
        bool valid = t->start[i] == INT32_MIN;
        for (int e = 0; e < s->per; e++) {
            v[e] = (uint8_t)(i >> (bits * e) & ((1 << bits) - 1));
            valid &= v[e] < s->n_level;
        }
        if (!valid) continue;
        if (n + GRID_MAX + 1 > cap) t->list = xreallocarray(t->list, cap *= 2, sizeof *t->list);
        int k = neighbours(t, v, t->list + n + 1);
        t->list[n] = (uint16_t)k;
        t->start[i] = -1 - (int32_t)n;
        n += (size_t)k + 1;
    }
    t->t = (struct near_table){t->start, t->list, t->code, n_codes, (int32_t)n, s->n};
}
static void fill0(void) {
    fill(QT_IQ2_XXS, 0);
}
static void fill1(void) {
    fill(QT_IQ2_XS, 1);
}
static void fill2(void) {
    fill(QT_IQ2_S, 2);
}
static void fill3(void) {
    fill(QT_IQ3_XXS, 3);
}
static void fill4(void) {
    fill(QT_IQ3_S, 4);
}
static void fill5(void) {
    fill(QT_IQ1_S, 5);
}

const struct near_table *enc_grid_near(enum qtype t) {
    static const struct {
        enum qtype type;
        void (*fill)(void);
    } row[N_TYPES] = {{QT_IQ2_XXS, fill0}, {QT_IQ2_XS, fill1}, {QT_IQ2_S, fill2},
                      {QT_IQ3_XXS, fill3}, {QT_IQ3_S, fill4},  {QT_IQ1_S, fill5}};
    int i = 0;
    while (row[i].type != (t == QT_IQ1_M ? QT_IQ1_S : t)) i++;
    pthread_once(&once[i], row[i].fill);
    return &tables[i].t;
}
