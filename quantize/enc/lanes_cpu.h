// SPDX-License-Identifier: MIT
/* quantize/enc/lanes_cpu.h - eight lanes as one CPU vector: the primitives on which lanes.h is
 * based, for quantize/enc/lanes.c, which is compiled once per instruction set. cuda/lanes.cuh
 * defines the same names for eight device threads. */
#ifndef HONE_QUANTIZE_ENC_LANES_CPU_H
#define HONE_QUANTIZE_ENC_LANES_CPU_H

#include <math.h>
#include <string.h>

#include "base/bytes.h"
#include "base/fp.h"
#include "quantize/enc/super.h"

#ifdef __AVX2__
#include <immintrin.h>
#endif

#define LANE_FN static
#define INLINE static inline __attribute__((always_inline))
#define LANE_TABLE(T, name, dims) static const T name dims
#define LANE_PRAGMA(x) _Pragma(#x)
#define LANE_UNROLL(n) LANE_PRAGMA(GCC unroll n)

enum { LANES = 8 };
typedef float vf __attribute__((vector_size(32)));
typedef int32_t vi __attribute__((vector_size(32)));
typedef double vd __attribute__((vector_size(64)));

/* Element i of eight runs; runs shorter than ENC_SUB use only the first elements. */
struct tile {
    vf x[ENC_SUB], w[ENC_SUB];
};
#define LOCAL_TILE(t) struct tile t

/* Returns the index in lanes_mem of element i of a block's weights, stored as runs of n weights. */
INLINE int at(int i, int n) {
    (void)n;
    return i;
}
/* Makes the lanes' writes visible to all lanes. */
INLINE void lanes_sync(void) {
}

INLINE vf splat(float a) {
    return a - (vf){0}; /* a sum with zero would change -0, so it could not be left out */
}
/* Loads p[k] into lane k. */
INLINE vf loadv(const float *p) {
    vf v;
    memcpy(&v, p, sizeof v);
    return v;
}
INLINE void storev(float *p, vf v) {
    memcpy(p, &v, sizeof v);
}
#ifdef __AVX2__
INLINE vf pick(vi mask, vf a, vf b) {
    return (vf)_mm256_blendv_ps((__m256)b, (__m256)a, (__m256)mask);
}
INLINE vf maxv(vf v, vf lo) {
    return (vf)_mm256_max_ps((__m256)v, (__m256)lo);
}
INLINE vf minv(vf v, vf hi) {
    return (vf)_mm256_min_ps((__m256)v, (__m256)hi);
}
INLINE vf sqrtv(vf v) {
    return (vf)_mm256_sqrt_ps((__m256)v);
}
INLINE vf lookup(const float *table, vi j) {
    return (vf)_mm256_i32gather_ps(table, (__m256i)j, 4);
}
/* Converts eight signed bytes to f32. */
INLINE vf from_bytes(const int8_t *p) {
    return (vf)_mm256_cvtepi32_ps(
        _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)));
}
#else
INLINE vf from_bytes(const int8_t *p) {
    vf v;
    for (int k = 0; k < LANES; k++) v[k] = p[k];
    return v;
}
/* Returns a where the mask is set, else b. */
INLINE vf pick(vi mask, vf a, vf b) {
    return (vf)((mask & (vi)a) | (~mask & (vi)b));
}
/* Returns the larger value; `lo` if v is a NaN. */
INLINE vf maxv(vf v, vf lo) {
    return pick(v > lo, v, lo);
}
INLINE vf minv(vf v, vf hi) {
    return pick(v < hi, v, hi);
}
INLINE vf sqrtv(vf v) {
    for (int k = 0; k < LANES; k++) v[k] = sqrtf(v[k]);
    return v;
}
INLINE vf lookup(const float *table, vi j) {
    vf v;
    for (int k = 0; k < LANES; k++) v[k] = table[j[k]];
    return v;
}
#endif
INLINE vf absv(vf v) {
    return (vf)((vi)v & 0x7fffffff);
}
INLINE vi truncv(vf v) {
    return __builtin_convertvector(v, vi);
}
INLINE vd to_double(vf v) {
    return __builtin_convertvector(v, vd);
}
/* Implements enc_f16 for every lane, except that zeros have no sign: rounds to 11 bits, ties to
 * even; below 2^-14, to multiples of 2^-24. */
INLINE vf f16v(vf x) {
    x = minv(maxv(x, splat(-65504)), splat(65504));
    vi u = (vi)x;
    vf normal = (vf)((u + 0xfff + ((u >> 13) & 1)) & ~0x1fff);
    return pick((u & 0x7fffffff) < 0x38800000, (x + splat(0.75f)) - splat(0.75f), normal);
}

/* ---- adjacent columns: vectors of the processor's size --------------------------------------- */

#ifdef __AVX2__
typedef float vq __attribute__((vector_size(32)));
#else
typedef float vq __attribute__((vector_size(16)));
#endif
enum { VQ = sizeof(vq) / sizeof(float), ROW_COLS = 8 * VQ };
INLINE vq loadq(const float *p) {
    vq v;
    memcpy(&v, p, sizeof v);
    return v;
}
INLINE void storeq(float *p, vq v) {
    memcpy(p, &v, sizeof v);
}
INLINE vq splatq(float a) {
    return a - (vq){0};
}
/* Adds, in order, a[k] times row at[k] of b to ROW_COLS columns of y. */
static void add_tile(float *y, const int *at, const float *a, int n, const float *b, int64_t ldb) {
    vq s0 = loadq(y), s1 = loadq(y + VQ), s2 = loadq(y + 2 * VQ), s3 = loadq(y + 3 * VQ),
       s4 = loadq(y + 4 * VQ), s5 = loadq(y + 5 * VQ), s6 = loadq(y + 6 * VQ),
       s7 = loadq(y + 7 * VQ);
    for (int k = 0; k < n; k++) {
        const float *p = b + at[k] * ldb;
        const vq v = splatq(a[k]);
        s0 += v * loadq(p);
        s1 += v * loadq(p + VQ);
        s2 += v * loadq(p + 2 * VQ);
        s3 += v * loadq(p + 3 * VQ);
        s4 += v * loadq(p + 4 * VQ);
        s5 += v * loadq(p + 5 * VQ);
        s6 += v * loadq(p + 6 * VQ);
        s7 += v * loadq(p + 7 * VQ);
    }
    storeq(y, s0);
    storeq(y + VQ, s1);
    storeq(y + 2 * VQ, s2);
    storeq(y + 3 * VQ, s3);
    storeq(y + 4 * VQ, s4);
    storeq(y + 5 * VQ, s5);
    storeq(y + 6 * VQ, s6);
    storeq(y + 7 * VQ, s7);
}

static void add_rows(float *y, const float *b, int64_t ldb, const float *a, int n, int cols) {
    int at[FB_WINDOW], m = 0;
    float by[FB_WINDOW];
    for (int i = 0; i < n; i++) {
        at[m] = i;
        by[m] = a[i];
        m += a[i] != 0;
    }
    int j = 0;
    for (; j + ROW_COLS <= cols; j += ROW_COLS) add_tile(y + j, at, by, m, b + j, ldb);
    for (int k = 0; k < m; k++)
        for (int i = j; i < cols; i++) y[i] += by[k] * b[at[k] * ldb + i];
}

/* ---- across lanes: all of them call these together ------------------------------------------- */

INLINE float lane_get(vf v, int k) {
    return v[k];
}
/* Returns the sum of all lanes, in every lane. */
INLINE vf spread_sum(vf v) {
    v += __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3);
    v += __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5);
    return v + __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6);
}
INLINE double total(vd v) {
    return ((v[0] + v[4]) + (v[1] + v[5])) + ((v[2] + v[6]) + (v[3] + v[7]));
}
/* Stores lane k to p[k]; load_ints loads it. */
INLINE void store_ints(int16_t *p, vf v) {
    for (int k = 0; k < LANES; k++) p[k] = (int16_t)v[k];
}
INLINE vf load_ints(const int16_t *p) {
    vf v = splat(0);
    for (int k = 0; k < LANES; k++) v[k] = p[k];
    return v;
}
INLINE vf load_codes(const uint8_t *p) {
    vf v = splat(0);
    for (int k = 0; k < LANES; k++) v[k] = p[k];
    return v;
}
/* Stores the four codes l of each lane k < runs to q[stride*k]. */
INLINE void store_codes(int8_t *q, int stride, int runs, const vf l[4]) {
    vi c = {0};
    for (int k = 0; k < 4; k++) c |= (truncv(l[k]) & 255) << (8 * k);
    for (int k = 0; k < runs; k++) store_u32((uint8_t *)q + stride * k, (uint32_t)c[k]);
}
/* Stores element i of each lane k to l[k][i]. */
INLINE void store_level(int8_t (*l)[ENC_SUB], int i, vf v) {
    for (int k = 0; k < LANES; k++) l[k][i] = (int8_t)v[k];
}
/* Stores lane k to p[k]. */
INLINE void store_doubles(double *p, vd v) {
    memcpy(p, &v, sizeof v);
}
/* Returns element i of each lane's row; one: all lanes have the same row. */
INLINE vf of_rows(const float *const row[LANES], bool one, int i) {
    if (one) return splat(row[0][i]);
    const vf v = {row[0][i], row[1][i], row[2][i], row[3][i],
                  row[4][i], row[5][i], row[6][i], row[7][i]};
    return v;
}
/* Adds a * x to y, in which lane k has elements k, k + 8 and so on. */
INLINE void axpyv(float *y, const float *x, float a, int n) {
    const vf v = splat(a);
    int i = 0;
    for (; i + LANES <= n; i += LANES) storev(y + i, loadv(y + i) + v * loadv(x + i));
    for (; i < n; i++) y[i] += a * x[i];
}
/* Runs the body once for each lane; on a device, each thread runs its own. */
#define LANE_EACH(lane) for (int lane = 0; lane < LANES; lane++)
INLINE void copy_open(struct enc_raw *to, const struct enc_raw *from) {
    *to = *from;
}

/* ---- grids: lanes take entries side by side -------------------------------------------------- */

/* A CPU keeps the points of all entries, and its list holds all of them. */
enum { GRID_KEEPS = 1, GRID_LIST = GRID_MAX };

INLINE vi numbers(void) {
    const vi v = {0, 1, 2, 3, 4, 5, 6, 7};
    return v;
}
#ifdef __AVX2__
INLINE vi pick_int(vi mask, vi a, vi b) {
    return (vi)_mm256_blendv_epi8((__m256i)b, (__m256i)a, (__m256i)mask);
}
INLINE unsigned bits(vi mask) {
    return (unsigned)_mm256_movemask_ps((__m256)mask);
}
INLINE bool any(vi mask) {
    return bits(mask) != 0;
}
#else
INLINE vi pick_int(vi mask, vi a, vi b) {
    return (mask & a) | (~mask & b);
}
INLINE unsigned bits(vi mask) {
    unsigned m = 0;
    for (int k = 0; k < LANES; k++) m |= (unsigned)(mask[k] & 1) << k;
    return m;
}
INLINE bool any(vi mask) {
    uint64_t m[4];
    memcpy(m, &mask, sizeof m);
    return (m[0] | m[1] | m[2] | m[3]) != 0;
}
#endif
/* The largest value, and the smallest index `at` among the elements that have it. */
struct most {
    float v;
    int at;
};
INLINE struct most most(vf v, vi at) {
    vf m = maxv(v, __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3));
    m = maxv(m, __builtin_shufflevector(m, m, 2, 3, 0, 1, 6, 7, 4, 5));
    m = maxv(m, __builtin_shufflevector(m, m, 1, 0, 3, 2, 5, 4, 7, 6));
    vi i = pick_int(v == m, at, (vi){0} + INT32_MAX);
    vi o = __builtin_shufflevector(i, i, 4, 5, 6, 7, 0, 1, 2, 3);
    i = pick_int(i < o, i, o);
    o = __builtin_shufflevector(i, i, 2, 3, 0, 1, 6, 7, 4, 5);
    i = pick_int(i < o, i, o);
    return (struct most){m[0], i[0] < i[1] ? i[0] : i[1]};
}
/* Appends first + k for each lane k in the mask to list[n] and, unless
 * points are kept, their values x and y. Returns the new length. */
INLINE int append(uint16_t *list, float *lx, float *ly, int n, vi mask, int first, vf x, vf y) {
    (void)lx, (void)ly, (void)x, (void)y;
    for (unsigned m = bits(mask); m; m &= m - 1) list[n++] = (uint16_t)(first + __builtin_ctz(m));
    return n;
}
/* Returns whether this lane does what the group must do only once. */
INLINE bool lane_one(void) {
    return true;
}
/* A team, whose members share loops, is the calling thread alone. */
#define TEAM_EACH(i, n) for (int i = 0; i < (n); i++)
INLINE bool team_one(void) {
    return true;
}
INLINE void team_sync(void) {
}

/* ---- tiles ----------------------------------------------------------------------------------- */

INLINE vf shuffle_lo(vf a, vf b) {
    return __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13);
}
INLINE vf shuffle_hi(vf a, vf b) {
    return __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15);
}
/* Transposes eight rows of eight values, `stride` floats apart. */
INLINE void transpose(const float *p, int64_t stride, vf *out) {
    vf a[8], b[8];
    for (int k = 0; k < 4; k++) {
        vf r0 = loadv(p + 2 * k * stride), r1 = loadv(p + (2 * k + 1) * stride);
        a[2 * k] = shuffle_lo(r0, r1);
        a[2 * k + 1] = shuffle_hi(r0, r1);
    }
    for (int k = 0; k < 8; k += 4)
        for (int h = 0; h < 2; h++) {
            b[k + 2 * h] =
                __builtin_shufflevector(a[k + h], a[k + h + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            b[k + 2 * h + 1] =
                __builtin_shufflevector(a[k + h], a[k + h + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        }
    for (int k = 0; k < 4; k++) {
        out[k] = __builtin_shufflevector(b[k], b[k + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        out[k + 4] = __builtin_shufflevector(b[k], b[k + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}
/* Loads the tile's weights: runs 0..7 of n, stored consecutively at p (see at()). */
INLINE void tile_x(struct tile *t, float *p, int n) {
    for (int i = 0; i < n; i += 8) transpose(p + i, n, t->x + i);
}
INLINE void tile_w(struct tile *t, float *p, int n) {
    for (int i = 0; i < n; i += 8) transpose(p + i, n, t->w + i);
}

#endif
