// SPDX-License-Identifier: MIT
/* quantize/enc/gridq.c - exact search for the IQ1, IQ2 and IQ3 formats: types, levels and rows. The
 * search itself, shared by CPU and devices, is in grid_*.h.
 *
 * At sub-block scale c, the error of grid entry g on weights a = |x| is const + c^2*Q - 2*c*P with
 * Q = sum w*L^2 and P = sum w*a*L. So the best entry for any c is a vertex of the upper hull of the
 * points (Q, P): a chain of a few entries, computed once for the weights of each entry
 * (grid_hull.h). A sign that must be flipped (parity) only lowers P, by twice the least w*a*L. IQ1
 * has signed levels and uses x for a; if a sub-block shares its shift, each shift has its own
 * chains, and the better one counts at each scale. Merging a sub-block's chains (grid_merge.h)
 * gives its exact error at every scale. What remains is to try values of d, choose the integer
 * scales by true error, and solve for d by least squares, rounding to f16 each time (grid_scale.h).
 * Best mode also starts from the conventional d (grid_conv.h, iq1_conv.h) and keeps that solution
 * unless the decoded error falls. Fast mode skips the conventional search, so a block might be
 * worse, though the tests have never seen one. */
#include "quantize/enc/gridq.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "kernels/grid.h"
#include "quantize/enc/super.h"

// clang-format off
static const struct grid_spec specs[] = {
    /* type      sub per  n  levels parity shift  sc  unit  top   conventional: t shells step fudge */
    {QT_IQ2_XXS, 32, 8, 256,  3, true,  SHIFT_NONE, 15, 0.125f, 43, 6, 2, 0.1f, 1.0f},
    {QT_IQ2_XS,  16, 8, 512,  3, true,  SHIFT_NONE, 15, 0.125f, 43, 9, 2, 0.1f, 1.0f},
    {QT_IQ2_S,   16, 8, 1024, 3, false, SHIFT_NONE, 15, 0.125f, 43, 9, 1, 0.1f, 0.9875f},
    {QT_IQ3_XXS, 32, 4, 256,  8, true,  SHIFT_NONE, 15, 0.25f,  62,15, 2, 0.2f, 1.0125f},
    {QT_IQ3_S,   32, 4, 512,  8, false, SHIFT_NONE, 15, 1.0f,   15, 9, 3, 0.2f, 1.033f},
    {QT_IQ1_S,   32, 8, 2048, 3, false, SHIFT_SUB,   7, 0.125f,  9,0, 3, 0, 1.125f},
    {QT_IQ1_M,   16, 8, 2048, 3, false, SHIFT_ENTRY, 7, 0.125f,  9,0, 3, 0, 1.1125f},
};
// clang-format on
/* Levels of all entries, [element][entry]. */
static float levels[COUNT_OF(specs)][8][GRID_MAX];
static int lowest[COUNT_OF(specs)]; /* per grid: the entry with the smallest magnitudes */
static pthread_once_t levels_once = PTHREAD_ONCE_INIT;

const struct grid_spec *grid_spec_of(enum qtype t) {
    for (size_t i = 0; i < COUNT_OF(specs); i++)
        if (specs[i].type == t) return &specs[i];
    return NULL;
}

const int8_t *grid_levels(const struct grid_spec *s, int g) {
    const struct kern_grid *k = kern_grid_get();
    const void *first[] = {k->iq2_xxs, k->iq2_xs, k->iq2_s, k->iq3_xxs, k->iq3_s, k->iq1, k->iq1};
    return (const int8_t *)first[s - specs] + g * s->per; /* index is at most 62 */
}

/* Fills, once, the tables of the levels and of the lowest entries of all grids. */
static void fill_levels(void) {
    for (size_t t = 0; t < COUNT_OF(specs); t++)
        for (int g = 0; g < grid_n(&specs[t]); g++)
            for (int j = 0; j < specs[t].per; j++)
                levels[t][j][g] = (float)grid_levels(&specs[t], g)[j];
    for (size_t t = 0; t < COUNT_OF(specs); t++) {
        int least = INT32_MAX;
        for (int g = 0; g < specs[t].n; g++) {
            int sum = 0;
            for (int j = 0; j < specs[t].per; j++) sum += abs(grid_levels(&specs[t], g)[j]);
            if (sum < least) {
                least = sum;
                lowest[t] = g;
            }
        }
    }
}

struct grid_how grid_how_of(enum qtype t, enum search search) {
    const struct grid_spec *s = grid_spec_of(t);
    pthread_once(&levels_once, fill_levels);
    return (struct grid_how){.s = s,
                             .search = search,
                             .conv = enc_wrule(t, SEARCH_CONVENTIONAL),
                             .rule = enc_wrule(t, search),
                             .lev = levels[s - specs][0],
                             .low = lowest[s - specs],
                             .near = search == SEARCH_FAST ? NULL : enc_grid_near(t)};
}

uint64_t enc_grid_tables(const struct grid_how *how, void *to) {
    const struct near_table *t = how->near;
    const struct {
        const void *p;
        size_t n;
    } part[] = {
        {how->lev, 8 * GRID_MAX * sizeof(float)},
        {t ? t->start : NULL, t ? (size_t)t->n_start * sizeof *t->start : 0},
        {t ? t->list : NULL, t ? (size_t)t->n_list * sizeof *t->list : 0},
        {t ? t->code : NULL, t ? (size_t)t->n_code * sizeof *t->code : 0},
    };
    size_t at = 0;
    for (size_t i = 0; i < COUNT_OF(part); at += part[i++].n)
        if (to && part[i].n) memcpy((char *)to + at, part[i].p, part[i].n);
    return at;
}

void enc_grid_row(enum qtype t, const float *x, const float *imp, int64_t n, void *dst,
                  enum search search, void (*pack)(void *blk, const struct grid_block *b)) {
    const struct grid_how how = grid_how_of(t, search);
    const struct enc_lanes *lanes = enc_lanes();
    const int bytes = qtype_info(t)->block_bytes;
    for (int64_t i = 0; i < n / QK; i++) {
        struct grid_block b;
        lanes->grid(&how, x + i * QK, imp ? imp + i * QK : NULL, &b);
        pack((uint8_t *)dst + i * bytes, &b);
    }
}
