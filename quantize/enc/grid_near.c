// SPDX-License-Identifier: MIT
/* quantize/enc/grid_near.c - tables of the grid entries near vectors that are not on the grid, at
 * the few smallest distances between level numbers, for the conventional searches (grid_conv.h,
 * iq1_conv.h). They are built on first use. */
#include "quantize/enc/gridq.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/mem.h"
#include "kernels/grid.h"

enum { N_TYPES = 6 };

static struct room {
    const struct grid_spec *s;
    int32_t *start;
    uint16_t *list;
    uint8_t code[KERN_IQ1][8], half[KERN_IQ1][2];
    struct near_table t;
} tables[N_TYPES];
static pthread_once_t once[N_TYPES] = {PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT,
                                       PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT};

/* Fills a table of squared distances between all halves of codes. A half has n level numbers of
 * `bits` bits each. */
static void fill_halves(uint8_t (*d)[256], int bits, int n) {
    const int values = 1 << (bits * n), mask = (1 << bits) - 1;
    for (int a = 0; a < values; a++)
        for (int b = 0; b < values; b++) {
            int sum = 0;
            for (int e = 0; e < n; e++) {
                const int diff = (a >> (bits * e) & mask) - (b >> (bits * e) & mask);
                sum += diff * diff;
            }
            d[a][b] = (uint8_t)sum;
        }
}

/* Lists the entries within the `shells` smallest distances from a code; low and high are the
 * distances from its two halves. Returns the number of entries. */
static int neighbours(const struct room *t, const uint8_t *low, const uint8_t *high,
                      uint16_t *out) {
    uint8_t d[KERN_IQ1]; /* at most 4 * 7^2 */
    bool seen[256] = {false};
    int limit = -1, n = 0;
    for (int g = 0; g < t->s->n; g++) {
        d[g] = (uint8_t)(low[t->half[g][0]] + high[t->half[g][1]]);
        seen[d[g]] = true;
    }
    for (int shell = 0; shell < t->s->shells && limit < 255;)
        if (seen[++limit]) shell++;
    for (int g = 0; g < t->s->n; g++)
        if (d[g] <= limit) out[n++] = (uint16_t)g;
    return n;
}

/* Builds the table of nearest grid entries of a type. */
static void build_table(enum qtype type, int slot) {
    struct room *t = &tables[slot];
    const struct grid_spec *s = t->s = grid_spec_of(type);
    const int bits = grid_bits(s), n_codes = 1 << (bits * s->per);
    const int8_t *lowest = grid_levels(s, 0);
    const int top = (int)s->top, first = lowest[0], half_bits = bits * s->per / 2;
    uint8_t(*d)[256] = xreallocarray(NULL, 256, sizeof *d);
    size_t cap = 1 << 20, n = 0;
    fill_halves(d, bits, s->per / 2);
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
        t->half[g][0] = (uint8_t)(code & ((1 << half_bits) - 1));
        t->half[g][1] = (uint8_t)(code >> half_bits);
    }
    for (int i = 0; i < n_codes; i++) {
        bool valid = t->start[i] == INT32_MIN;
        for (int e = 0; e < s->per; e++)
            valid &= (i >> (bits * e) & ((1 << bits) - 1)) < s->n_level;
        if (!valid) continue;
        if (n + GRID_MAX + 1 > cap) t->list = xreallocarray(t->list, cap *= 2, sizeof *t->list);
        const int k =
            neighbours(t, d[i & ((1 << half_bits) - 1)], d[i >> half_bits], t->list + n + 1);
        t->list[n] = (uint16_t)k;
        t->start[i] = -1 - (int32_t)n;
        n += (size_t)k + 1;
    }
    free(d);
    t->t = (struct near_table){t->start, t->list, t->code, n_codes, (int32_t)n, s->n};
}
static void build_iq2_xxs(void) {
    build_table(QT_IQ2_XXS, 0);
}
static void build_iq2_xs(void) {
    build_table(QT_IQ2_XS, 1);
}
static void build_iq2_s(void) {
    build_table(QT_IQ2_S, 2);
}
static void build_iq3_xxs(void) {
    build_table(QT_IQ3_XXS, 3);
}
static void build_iq3_s(void) {
    build_table(QT_IQ3_S, 4);
}
static void build_iq1_s(void) {
    build_table(QT_IQ1_S, 5);
}

const struct near_table *enc_grid_near(enum qtype t) {
    static const struct {
        enum qtype type;
        void (*fill)(void);
    } row[N_TYPES] = {{QT_IQ2_XXS, build_iq2_xxs}, {QT_IQ2_XS, build_iq2_xs},
                      {QT_IQ2_S, build_iq2_s},     {QT_IQ3_XXS, build_iq3_xxs},
                      {QT_IQ3_S, build_iq3_s},     {QT_IQ1_S, build_iq1_s}};
    int i = 0;
    while (row[i].type != (t == QT_IQ1_M ? QT_IQ1_S : t)) i++;
    pthread_once(&once[i], row[i].fill);
    return &tables[i].t;
}
