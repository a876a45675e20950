// SPDX-License-Identifier: MIT
/* runtime/vision/tower_grid.c - the order of an image's patches and their positions: entries and
 * weights of the learned table along each axis, cosines and sines of the rotation. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fp.h"
#include "base/mem.h"
#include "base/num.h"
#include "runtime/vision/tower_int.h"

/* Appends the patches of a rectangle, square by square: side[n_sides - 1] is the largest square.
 * Squares at the edges may be cut. Squares of the largest of three sides are windows. */
static void order(struct tower_grid *g, const int64_t *side, int n_sides, int64_t y0, int64_t x0,
                  int64_t h, int64_t w) {
    const int64_t s = n_sides ? side[n_sides - 1] : 1;
    for (int64_t y = 0; y < h; y += s)
        for (int64_t x = 0; x < w; x += s) {
            if (!n_sides) {
                g->at[g->n++] = (struct tower_spot){(int32_t)(y0 + y), (int32_t)(x0 + x)};
                continue;
            }
            if (n_sides == 3) g->window[g->n_windows++] = g->n;
            order(g, side, n_sides - 1, y0 + y, x0 + x, min_i64(s, h - y), min_i64(s, w - x));
        }
}

/* Allocates an array that the grid owns. */
static int take(struct tower_grid *g, void *out, uint64_t n, uint64_t size, struct err *e) {
    for (size_t i = 0; i < sizeof g->own / sizeof *g->own; i++)
        if (!g->own[i]) {
            TRY(mem_alloc(&g->own[i], n * size, "positions of an image", e));
            memcpy(out, &g->own[i], sizeof g->own[i]);
            return 0;
        }
    return err_set(e, ERR_SYS, "too many arrays of positions");
}

/* ---- learned positions ---- */

static float cubic(float d) { /* Keys' kernel with a = -0.75 */
    const float a = -0.75f;
    if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
    return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

/* Sets the entries and weights of position i of `len`, for a table of `side` entries. */
static void interpolate(int kind, int64_t i, int64_t len, int64_t side, int64_t taps,
                        int32_t *entry, float *weight) {
    const float at = kind == POS_CORNERS ? (float)i * (float)(side - 1) / (float)max_i64(len - 1, 1)
                                         : ((float)i + .5f) * (float)side / (float)len - .5f;
    const int64_t first = (int64_t)floorf(at) - (kind == POS_BICUBIC);
    for (int64_t t = 0; t < taps; t++) {
        const float d = fabsf(at - (float)(first + t));
        entry[t] = (int32_t)min_i64(max_i64(first + t, 0), side - 1);
        weight[t] = kind == POS_BICUBIC ? cubic(d) : fmaxf(1 - d, 0);
    }
}

/* Like interpolate, with every entry of the table as a tap: a hat that is as wide as a position. */
static void antialias(int64_t i, int64_t len, int64_t side, int32_t *entry, float *weight) {
    const float scale = (float)side / (float)len, wide = fmaxf(scale, 1);
    const float at = ((float)i + .5f) * scale - .5f;
    float sum = 0;
    for (int64_t t = 0; t < side; t++) {
        entry[t] = (int32_t)t;
        weight[t] = fmaxf(1 - fabsf((float)t - at) / wide, 0);
        sum += weight[t];
    }
    for (int64_t t = 0; t < side; t++) weight[t] /= sum;
}

/* Returns the entry of the fraction i / len, with the roundings of the published code. */
static int32_t nearest(int kind, int64_t i, int64_t len, int64_t side) {
    const double step = 1 / (double)side;
    const int64_t n = (int64_t)ceil((1 - step) / step);
    const float at = kind == POS_FRACTION ? (float)i / (float)len
                                          : fminf((float)i * (1 / (float)len), (float)(1 - 1e-6));
    int64_t b = 0;
    while (b < n && (float)(step + (double)b * step) <= at) b++;
    return (int32_t)min_i64(b, side - 1);
}

/* Computes which learned position embeddings each patch uses, with their weights. */
static int learned(struct tower_grid *g, const struct vision_tower *v, struct err *e) {
    const int kind = v->type->pos;
    const int64_t size[2] = {g->h, g->w};
    int64_t side = (int64_t)(sqrt((double)(v->n_pos - (v->cls != NULL))) + .5);
    if (!v->pos) return 0;
    if (kind == POS_AXES) {
        side = v->n_pos / 2;
        if (g->h > side || g->w > side)
            return err_set(e, ERR_DATA,
                           "an image of %lld x %lld patches is too large: the tower's position "
                           "table has %lld entries per axis",
                           (long long)g->w, (long long)g->h, (long long)side);
    }
    g->taps = kind == POS_BICUBIC ? 4 : kind == POS_CORNERS ? 2 : kind == POS_ANTIALIAS ? side : 1;
    for (int a = 0; a < 2; a++) {
        TRY(take(g, &g->entry[a], (uint64_t)(size[a] * g->taps), sizeof *g->entry[a], e));
        TRY(take(g, &g->weight[a], (uint64_t)(size[a] * g->taps), sizeof *g->weight[a], e));
        for (int64_t i = 0; i < size[a]; i++) {
            int32_t *entry = g->entry[a] + i * g->taps;
            float *weight = g->weight[a] + i * g->taps;
            if (kind == POS_ANTIALIAS)
                antialias(i, size[a], side, entry, weight);
            else if (kind == POS_BICUBIC || kind == POS_CORNERS)
                interpolate(kind, i, size[a], side, g->taps, entry, weight);
            else {
                *entry = kind == POS_AXES ? (int32_t)i : nearest(kind, i, size[a], side);
                *weight = 1;
            }
        }
    }
    return 0;
}

void tower_add_pos(const struct vision_tower *v, const struct tower_grid *g, int64_t i, float *x) {
    const struct tower_spot at = g->at[i];
    const bool axes = v->type->pos == POS_AXES;
    const int64_t side = axes ? v->n_pos / 2 : (int64_t)(sqrt((double)v->n_pos) + .5);
    const int32_t *ey = g->entry[0] + at.y * g->taps, *ex = g->entry[1] + at.x * g->taps;
    const float *wy = g->weight[0] + at.y * g->taps, *wx = g->weight[1] + at.x * g->taps;
    const float *table = v->pos + (v->cls ? v->width : 0);
    if (axes) {
        v->kern.axpy(x, table + ex[0] * v->width, 1, v->width);
        v->kern.axpy(x, table + (side + ey[0]) * v->width, 1, v->width);
        return;
    }
    for (int64_t a = 0; a < g->taps; a++)
        for (int64_t b = 0; b < g->taps; b++)
            if (wy[a] * wx[b] != 0)
                v->kern.axpy(x, table + (ey[a] * side + ex[b]) * v->width, wy[a] * wx[b], v->width);
}

/* ---- rotation ---- */

/* Returns the angle of pair j of a head at a patch. */
static double angle(const struct vision_tower *v, struct tower_spot at, int64_t j) {
    const int64_t quarter = v->head_dim / 4;
    const double step = 4 / (double)v->head_dim, theta = (double)v->type->theta;
    const bool second = j >= quarter;
    const int64_t k = j % quarter;
    switch (v->type->rope) {
    case ROPE_HALVES:
        return (double)(second ? at.x : at.y) * fp_pow(theta, -step * (double)k);
    case ROPE_EVEN:
        return (double)(second ? at.x : at.y) *
               fp_pow(theta, -step * ((double)k + (second ? .5 : 0)));
    case ROPE_PARTS:
        return (double)(second ? at.y : at.x) * fp_pow(theta, -step * (double)k);
    default: /* ROPE_MIXED */
        return (double)(j % 2 ? at.y : at.x) * fp_pow(theta, -step * (double)(j / 2));
    }
}

/* Computes cosine and sine of the rotary angles of each patch. */
static int rotation(struct tower_grid *g, const struct vision_tower *v, struct err *e) {
    const int64_t pairs = v->head_dim / 2;
    if (v->type->rope == ROPE_NONE) return 0;
    TRY(take(g, &g->cs, (uint64_t)(g->n * pairs), 2 * sizeof *g->cs, e));
    for (int64_t i = 0; i < g->n; i++)
        for (int64_t j = 0; j < pairs; j++) {
            const double a = angle(v, g->at[i], j);
            g->cs[2 * (i * pairs + j)] = (float)fp_cos(a);
            g->cs[2 * (i * pairs + j) + 1] = (float)fp_sin(a);
        }
    return 0;
}

void tower_rotate(const struct vision_tower *v, const struct tower_grid *g, int64_t i, float *x) {
    const int64_t pairs = v->head_dim / 2, half = pairs / 2;
    const float *cs = g->cs + 2 * i * pairs;
    if (v->type->rope == ROPE_HALVES) {
        v->kern.rope_neox(x, cs, v->head_dim);
        return;
    }
    if (v->type->rope == ROPE_PARTS) {
        v->kern.rope_neox(x, cs, pairs);
        v->kern.rope_neox(x + pairs, cs + 2 * half, pairs);
        return;
    }
    for (int64_t j = 0; j < pairs; j++) {
        const float a = x[2 * j], b = x[2 * j + 1], c = cs[2 * j], s = cs[2 * j + 1];
        x[2 * j] = a * c - b * s;
        x[2 * j + 1] = a * s + b * c;
    }
}

/* ---- both ---- */

int tower_grid_make(struct tower_grid *g, const struct vision_tower *v, int64_t w, int64_t h,
                    struct err *e) {
    const int64_t m = v->merge, window = v->window ? v->window * m : max_i64(w, h);
    const int64_t side[3] = {v->type->middle ? 2 : m, m, window};
    memset(g, 0, sizeof *g);
    g->w = w;
    g->h = h;
    TRY(take(g, &g->at, (uint64_t)(w * h), sizeof *g->at, e));
    TRY(take(g, &g->window, (uint64_t)(div_up(w, window) * div_up(h, window) + 1),
             sizeof *g->window, e));
    order(g, side, 3, 0, 0, h, w);
    g->window[g->n_windows] = g->n;
    TRY(learned(g, v, e));
    return rotation(g, v, e);
}

void tower_grid_release(struct tower_grid *g) {
    for (size_t i = 0; i < sizeof g->own / sizeof *g->own; i++) mem_free(g->own[i]);
    memset(g, 0, sizeof *g);
}
