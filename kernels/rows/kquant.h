// SPDX-License-Identifier: MIT
/* kernels/rows/kquant.h - products of packed groups (kernels/pack.h) of 256-weight formats with
 * integer scales and unsigned codes. Included once by a type's file, after an ISA's lanes.h and
 * these definitions:
 *
 *   BITS (of a code), SUB (codes per scale: 16 or 32), SIGNED (scales)
 *   OFFSET         0: minima; else log2 of the codes' offset, and minima are the scales. If
 *                  products take signed codes, IQ1 to IQ3 use it as a bound, not as an offset
 *   head(w, h)     scales, minima, d and dmin of a block
 *   code(w, k, j)  codes 32k + 4j .. 4j + 3 of every row
 *
 * IQ1 to IQ3 (CHUNKED) have no code(). With MIXED (rows/looks.h), codes32(w, k, x, g, q) returns
 * all eight vectors of codes 32k.., in its own order; g is the grid. Otherwise
 * (rows/loads.h), shared_bits(w, k) returns the part common to codes 32k.., and codes8(w, k, j, s,
 * x, g, q) returns two vectors of codes 32k + 8j..; s comes from shared_bits(), and x are N_INDICES
 * indices stored by put_block(w, x). A type with signed levels of LEVEL_BITS bits has levels8(w, k,
 * j, x, g, q) instead of codes8, and the four bytes of s are its signs: with one token, the signs
 * are applied to the activations, which saves the offset.
 *
 * out[row] = sum over blocks of dx * (d * sum_k sc_k * sum_i q_i x_i - dmin * sum_k m_k * sum_i
 * x_i). Everything inside the outer sum is an exact integer. For few tokens, codes are unpacked
 * where they are used, once for DIRECT tokens, without storing them. From PANEL_FROM tokens on,
 * a group is first unpacked to bytes (`scratch`), once for all tokens. In both cases a token's
 * sums use the same operations in the same order, so results do not depend on the number of
 * tokens. */
#include "kernels/rows/rows.h"

enum { N_SCALES = 256 / SUB };
/* Stubs for missing definitions; never called. */
#ifndef CHUNKED
#define CHUNKED 0
#define MIXED 0
#define kern_grid_get() NULL
struct kern_grid;
struct indices {
    char none;
};
#else
#define code(w, k, j) l_load(w)
#endif
enum { BY_EIGHT = CHUNKED && !MIXED };
#ifdef LEVEL_BITS
#define SIGNS_FLIP
enum { FLIPS = !SIGNED_CODES };
INLINE void codes8(const uint8_t *w, int k, int j, iv s, const struct indices *x,
                   const struct kern_grid *g, iv *q) {
    levels8(w, k, j, x, g, q);
    with_signs(s, j, 1 << OFFSET, q);
}
#else
enum { FLIPS = 0 };
#define LEVEL_BITS BITS
#define levels8(w, k, j, x, g, q) ((void)(q))
#define sign_masks(s, j, m) ((void)(m))
#endif
#if defined(SIGNS_FLIP) && !SIGNED_CODES
INLINE iv flipped(iv x, iv m) {
    return l_sub8(l_xor(x, m), m);
}
#else
#define flipped(x, m) ((void)(m), (x))
#endif
#if CHUNKED && !MIXED
INLINE void codes32(const uint8_t *w, int k, const struct indices *x, const struct kern_grid *g,
                    iv *q) {
    const iv s = shared_bits(w, k);
    UNROLL for (int j = 0; j < 4; j++) codes8(w, k, j, s, x, g, q + 2 * j);
}
#else
#define NOTHING(w, k, x, g) ((void)(w), (void)(k), (void)(x), (void)(g))
#define shared_bits(w, k) (NOTHING(w, k, 0, 0), l_i32(0))
#define codes8(w, k, j, s, x, g, q) ((void)(s), NOTHING(w, k, x, g))
#endif
#if !CHUNKED
#define codes32(w, k, x, g, q) NOTHING(w, k, x, g)
#endif
#if !MIXED
#define in_order(q) ((void)(q))
#define mixed_acts(a, lda, n, nb, to) (a)
#endif
#ifndef N_INDICES
#define N_INDICES 1
#define put_block(w, x) ((void)(w), (void)(x))
#endif
enum { EXACT = CHUNKED && SIGNED_CODES, CODE_BITS = EXACT ? OFFSET : BITS };
/* If unpacking is slow, doing it once for all tokens pays off with fewer tokens. */
enum { UNPACK_FROM = CHUNKED ? DIRECT + 1 : PANEL_FROM };

struct panel { /* an unpacked block of a group */
    iv code[64], scale[N_SCALES], pair[N_SCALES / 2];
    fv d, dmin;
};
_Static_assert(sizeof(struct panel) <= ROWS_PANEL * LANES, "scratch of a block");

INLINE void unpack(const uint8_t *w, const struct indices *x, const struct kern_grid *grid,
                   struct panel *p) {
    struct rows_head h;
    head(w, &h);
    for (int k = 0; CHUNKED && k < 8; k++) {
        codes32(w, k, x, grid, p->code + 8 * k);
        in_order(p->code + 8 * k);
    }
    UNROLL for (int k = 0; k < 8; k++) UNROLL for (int j = 0; j < 8 && !CHUNKED; j++)
        p->code[8 * k + j] = code(w, k, j);
    UNROLL for (int i = 0; i < N_SCALES; i++) p->scale[i] = u_scale(h.scale[i / 4], i % 4, SIGNED);
    UNROLL for (int i = 0; i < N_SCALES / 2; i++) p->pair[i] = l_pair(h.min[i / 2], i % 2, SIGNED);
    p->d = h.d;
    p->dmin = h.dmin;
}

/* Adds the products of codes 32k .. 32k + 31, times their scales, to each sum[t]. */
INLINE void chunk(int n, bool panel, const uint8_t *w, const struct indices *x,
                  const struct kern_grid *grid, const struct rows_head *h, const struct panel *p,
                  int k, const struct kern_act *a, int64_t lda, iv *sum) {
    const bool flip = FLIPS && n == 1 && !panel;
    const int fit = u_depth(flip ? LEVEL_BITS : CODE_BITS), depth = fit < SUB / 4 ? fit : SUB / 4;
    iv all[8], m[2];
    const iv s8 = BY_EIGHT && !panel ? shared_bits(w, k) : l_i32(0);
    if (MIXED && !panel) codes32(w, k, x, grid, all);
    UNROLL for (int j0 = 0; j0 < 8; j0 += depth) {
        iv s[TILE];
        UNROLL for (int j = j0; j < j0 + depth; j++) {
            if (flip && j % 2 == 0) {
                levels8(w, k, j / 2, x, grid, all + j);
                sign_masks(s8, j / 2, m);
            } else if (BY_EIGHT && !panel && j % 2 == 0) {
                codes8(w, k, j / 2, s8, x, grid, all + j);
            }
            const iv q = panel ? p->code[8 * k + j] : CHUNKED ? all[j] : code(w, k, j);
            UNROLL for (int t = 0; t < n; t++) {
                const xv x4 = l_act(a[t * lda].qs + 32 * k, j);
                const xv y = flip ? flipped(x4, m[j % 2]) : x4;
                s[t] = j == j0 ? u_first(q, y) : u_next(s[t], q, y);
            }
        }
        const int i = (8 * k + j0) / (SUB / 4);
        const iv scale = panel ? p->scale[i] : u_scale(h->scale[i / 4], i % 4, SIGNED);
        UNROLL for (int t = 0; t < n; t++) sum[t] = u_end(sum[t], s[t], scale);
    }
}

/* Returns m plus the products of minima (or scales) 2i and 2i + 1 with the sums of their
 * activations. */
INLINE iv minima(iv m, iv pair, const struct kern_act *a, int i) {
    const int16_t *s = SUB == 16 ? a->s16 : a->s32;
    return l_sum16(m, pair, l_at(s + 2 * i));
}

/* Returns acc plus a block's contribution. These are the only floating-point steps. */
INLINE fv float_steps(bool exact, fv d, fv dmin, iv sum, iv m, const struct kern_act *a, fv acc) {
    const fv dx = l_set(a->d[0]);
    if (OFFSET != 0 && !exact) sum = l_sub(sum, l_shl(m, OFFSET));
    acc = l_fma(l_mulf(d, dx), l_float(sum), acc);
    if (OFFSET == 0) acc = l_fnma(l_mulf(dmin, dx), l_float(m), acc);
    return acc;
}

/* Adds a block to each acc[t]: computes the terms of the minima, then adds these and the products,
 * `sum`. */
INLINE void finish(int n, bool panel, const struct rows_head *h, const struct panel *p,
                   const struct kern_act *a, int64_t lda, iv *sum, fv *acc) {
    const bool exact = EXACT || (FLIPS && n == 1 && !panel);
    iv m[TILE];
    UNROLL for (int t = 0; t < n; t++) m[t] = l_i32(0);
    UNROLL for (int i = 0; i < N_SCALES / 2 && !exact; i++) {
        const iv pair = panel ? p->pair[i] : l_pair(h->min[i / 2], i % 2, SIGNED);
        UNROLL for (int t = 0; t < n; t++) m[t] = minima(m[t], pair, a + t * lda, i);
    }
    const fv d = panel ? p->d : h->d, dmin = panel ? p->dmin : h->dmin;
    UNROLL for (int t = 0; t < n; t++) acc[t] =
        float_steps(exact, d, dmin, sum[t], m[t], a + t * lda, acc[t]);
}

/* Multiplies n tokens by an unpacked group. */
INLINE void tile(int n, const struct panel *p, const struct kern_act *a, int64_t lda, float *out,
                 int64_t ldo, int64_t nb) {
    fv acc[TILE];
    UNROLL for (int t = 0; t < n; t++) acc[t] = l_set(0);
    for (int64_t b = 0; b < nb; b++, p++) {
        iv sum[TILE];
        UNROLL for (int t = 0; t < n; t++) sum[t] = l_i32(0);
        for (int k = 0; k < 8; k++) chunk(n, true, NULL, NULL, NULL, NULL, p, k, a + b, lda, sum);
        finish(n, true, NULL, p, a + b, lda, sum, acc);
    }
    UNROLL for (int t = 0; t < n; t++) l_storef(out + t * ldo, acc[t]);
}

/* Multiplies n tokens by `side` groups, `step` bytes apart, switching between them every few cache
 * lines (rows.h). The second group's results begin `next` values after those of the first. */
INLINE void direct(int n, int side, const struct kern_grid *grid, const uint8_t *w, int64_t step,
                   const struct kern_act *a, int64_t lda, float *out, int64_t ldo, int64_t next,
                   int64_t nb) {
    fv acc[2][DIRECT];
    struct indices x[2][2][N_INDICES]; /* of this block and the next */
    UNROLL for (int g = 0; g < side; g++) put_block(w + g * step, x[0][g]);
    UNROLL for (int g = 0; g < side; g++) UNROLL for (int t = 0; t < n; t++) acc[g][t] = l_set(0);
    for (int64_t b = 0; b < nb; b++, w += BLOCK * LANES) {
        struct rows_head h[2];
        iv sum[2][DIRECT];
        UNROLL for (int g = 0; g < side; g++) {
            put_block(w + (b + 1 < nb ? BLOCK * LANES : 0) + g * step, x[(b + 1) % 2][g]);
            head(w + g * step, h + g);
            UNROLL for (int t = 0; t < n; t++) sum[g][t] = l_i32(0);
            apart();
        }
        UNROLL for (int k = 0; k < 8; k++) UNROLL for (int g = 0; g < side; g++) {
            ahead(n, w + g * step, BLOCK * LANES * k / 8, BLOCK * LANES * (k + 1) / 8);
            chunk(n, false, w + g * step, x[b % 2][g], grid, h + g, NULL, k, a + b, lda, sum[g]);
            apart();
        }
        UNROLL for (int g = 0; g < side; g++)
            finish(n, false, h + g, NULL, a + b, lda, sum[g], acc[g]);
    }
    UNROLL for (int g = 0; g < side; g++) UNROLL for (int t = 0; t < n; t++)
        l_storef(out + t * ldo + g * next, acc[g][t]);
}

/* Multiplies n tokens by one group without unpacking it, up to DIRECT tokens at a time; from the
 * second time on, the group is in the cache. */
static void group_direct(const struct kern_grid *grid, const uint8_t *w, const struct kern_act *a,
                         int64_t lda, int64_t n, float *out, int64_t ldo, int64_t nb) {
    for (; n >= DIRECT; n -= DIRECT, a += DIRECT * lda, out += DIRECT * ldo)
        direct(DIRECT, 1, grid, w, 0, a, lda, out, ldo, 0, nb);
    if (DIRECT > 4 && n == 7) direct(7, 1, grid, w, 0, a, lda, out, ldo, 0, nb);
    if (DIRECT > 4 && n == 6) direct(6, 1, grid, w, 0, a, lda, out, ldo, 0, nb);
    if (DIRECT > 4 && n == 5) direct(5, 1, grid, w, 0, a, lda, out, ldo, 0, nb);
    if (n == 4) direct(4, 1, grid, w, 0, a, lda, out, ldo, 0, nb);
    if (n == 3) direct(3, 1, grid, w, 0, a, lda, out, ldo, 0, nb);
    if (n == 2) direct(2, 1, grid, w, 0, a, lda, out, ldo, 0, nb);
    if (n == 1) direct(1, 1, grid, w, 0, a, lda, out, ldo, 0, nb);
}

/* Multiplies n tokens by one group after unpacking it. */
static void group(const struct kern_grid *grid, const uint8_t *w, const struct kern_act *a,
                  int64_t lda, int64_t n, float *out, int64_t ldo, int64_t nb, struct panel *p) {
    struct indices x[2][N_INDICES];
    put_block(w, x[0]);
    for (int64_t b = 0; b < nb; b++, w += BLOCK * LANES) {
        put_block(w + (b + 1 < nb ? BLOCK * LANES : 0), x[(b + 1) % 2]);
        unpack(w, x[b % 2], grid, p + b);
    }
    for (; n >= TILE; n -= TILE, a += TILE * lda, out += TILE * ldo)
        tile(TILE, p, a, lda, out, ldo, nb);
    if (n & 4) tile(4, p, a, lda, out, ldo, nb), a += 4 * lda, out += 4 * ldo;
    if (n & 2) tile(2, p, a, lda, out, ldo, nb), a += 2 * lda, out += 2 * ldo;
    if (n & 1) tile(1, p, a, lda, out, ldo, nb);
}

/* Multiplies all tokens by all groups. Not used by AMX, which includes this file for its steps and
 * has a separate gemm. */
__attribute__((unused)) static void gemm(const uint8_t *w, int64_t n_groups,
                                         const struct kern_act *a, int64_t lda, int64_t n,
                                         float *out, int64_t ldo, int64_t k, void *scratch) {
    const int64_t nb = k / 256, bytes = nb * BLOCK * LANES;
    const int64_t half = n == 1 && !BY_EIGHT ? n_groups / 2 : 0;
    const struct kern_grid *grid = kern_grid_get();
    if (MIXED && n < UNPACK_FROM) {
        a = mixed_acts(a, lda, n, nb, scratch);
        lda = nb;
    }
    for (int64_t g = 0; g < half; g++)
        direct(1, 2, grid, w + g * bytes, half * bytes, a, 0, out + g * LANES, 0, half * LANES, nb);
    for (int64_t g = 2 * half; g < n_groups; g++)
        if (n < UNPACK_FROM)
            group_direct(grid, w + g * bytes, a, lda, n, out + g * LANES, ldo, nb);
        else
            group(grid, w + g * bytes, a, lda, n, out + g * LANES, ldo, nb, scratch);
}
