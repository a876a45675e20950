// SPDX-License-Identifier: MIT
/* quantize/enc/grid_around.c - lists of the entries around each grid entry, for descent in error
 * feedback. A small change of the scale or of other columns rarely makes a distant entry the best
 * one, so descent tries only these. */
#include "quantize/enc/gridq.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { N_GRIDS = 7, DISTANCES = 8 * 62 * 62 + 1 };
static const enum qtype types[N_GRIDS] = {QT_IQ2_XXS, QT_IQ2_XS, QT_IQ2_S, QT_IQ3_XXS,
                                          QT_IQ3_S,   QT_IQ1_S,  QT_IQ1_M};
static struct grid_around lists[N_GRIDS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Returns the squared distance between two entries. */
static int distance(const struct grid_spec *s, int a, int b) {
    const int8_t *la = grid_levels(s, a), *lb = grid_levels(s, b);
    int sum = 0;
    for (int j = 0; j < s->per; j++) sum += (la[j] - lb[j]) * (la[j] - lb[j]);
    return sum;
}

/* Lists the entries of [from, to) around entry g; among equally distant ones, the first. count:
 * scratch, [DISTANCES]. */
static void list_around(const struct grid_spec *s, int g, int from, int to, int *count,
                        uint16_t *out) {
    int limit = -1, below = 0, n = 0;
    memset(count, 0, DISTANCES * sizeof *count);
    for (int h = from; h < to; h++) count[distance(s, g, h)]++;
    while (below + count[limit + 1] <= GRID_AROUND) below += count[++limit];
    int rest = GRID_AROUND - below; /* of the next distance */
    for (int h = from; h < to; h++) {
        const int d = distance(s, g, h);
        if (d <= limit || (d == limit + 1 && rest-- > 0)) out[n++] = (uint16_t)h;
    }
}

/* Builds the lists of a type. */
static void build_lists(const struct grid_spec *s, struct grid_around *o) {
    const int n = grid_n(s), way = n / grid_ways(s);
    int *count = xcalloc(DISTANCES, sizeof *count);
    o->entry = xcalloc((size_t)n, sizeof *o->entry);
    o->lev = xcalloc((size_t)n * (size_t)s->per, GRID_AROUND);
    for (int g = 0; g < n; g++) {
        list_around(s, g, g / way * way, g / way * way + way, count, o->entry[g]);
        for (int j = 0; j < s->per; j++)
            for (int k = 0; k < GRID_AROUND; k++)
                o->lev[((size_t)g * (size_t)s->per + (size_t)j) * GRID_AROUND + (size_t)k] =
                    grid_levels(s, o->entry[g][k])[j];
    }
    free(count);
}

const struct grid_around *enc_grid_around(enum qtype t) {
    int i = 0;
    while (types[i] != t) i++;
    pthread_mutex_lock(&lock);
    if (!lists[i].entry) build_lists(grid_spec_of(t), &lists[i]);
    pthread_mutex_unlock(&lock);
    return &lists[i];
}
