// SPDX-License-Identifier: MIT
/* runtime/engine/kv_turbo.c - rotated Lloyd-Max codes for the KV cache.
 *
 * After a random rotation the coordinates of any vector are close to independent Gaussians, so one
 * fixed codebook serves all vectors without calibration. A row is split into slices of d = 128
 * values (64 or 32 if 128 does not divide the head size); a slice stores an f16 factor S and b-bit
 * codes: y'[i] = S c[i], where c are unit-variance centroids. With y the slice and g = |y| the
 * factor is
 *     raw       g / sqrt(d)       shrinks inner products by the code's error
 *     norm      g / |c|           preserves the length
 *     unbiased  g^2 / (y . c)     <y', y> = <y, y>: no shrinkage along the key itself
 *     least     (y . c) / |c|^2   least squared error
 *
 * QJL encodes with b - 1 bits and the raw factor, then stores one sign per value of G r, where r is
 * the residual and G another orthonormal randomized Hadamard matrix, and |r| as f16: r' = sqrt(pi /
 * (2 d)) |r| G^T sign(G r), whose inner product with any q is unbiased over the choice of G. A zero
 * slice has S = 0. NaN and infinities give a row with defined but meaningless contents. */
#include <math.h>
#include <string.h>

#include "base/bytes.h"
#include "base/fp.h"
#include "base/num.h"
#include "runtime/engine/kv_type.h"

enum { MAX_SLICE = 128, MAX_CODES = 16 };

/* Lloyd-Max codebooks of N(0, 1), ascending, so that the top bit of a code is the sign of its
 * value. */
static const float book1[2] = {-0.797885f, 0.797885f};
static const float book2[4] = {-1.510418f, -0.452780f, 0.452780f, 1.510418f};
static const float book3[8] = {-2.151946f, -1.343909f, -0.756005f, -0.245094f,
                               0.245094f,  0.756005f,  1.343909f,  2.151946f};
static const float book4[16] = {
    -2.732590f, -2.069017f, -1.618046f, -1.256231f, -0.942340f, -0.656759f, -0.388048f, -0.128395f,
    0.128395f,  0.388048f,  0.656759f,  0.942340f,  1.256231f,  1.618046f,  2.069017f,  2.732590f};
static const float *const book[5] = {NULL, book1, book2, book3, book4};
const float *kv_turbo_codebook(int bits) {
    return book[bits];
}

/* ---- rotation ---- */

/* Returns 64 sign bits: splitmix64's finalizer applied to a counter. */
static uint64_t sign_word(uint64_t seed, int64_t i) {
    uint64_t z = seed + (uint64_t)(i / 64 + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}
enum { SEED_ROTATE = 1, SEED_QJL = 2 };
/* Flips signs by a pseudo-random sequence; calling it again with the same seed undoes that. */
static void flip_signs(float *x, int64_t n, uint64_t seed) {
    for (int64_t i = 0; i < n; i += 64) {
        uint64_t w = sign_word(seed, i);
        for (int64_t k = i; k < n && k < i + 64; k++, w >>= 1) x[k] = w & 1 ? -x[k] : x[k];
    }
}
/* Multiplies x by H / sqrt(d), where H is the Hadamard matrix in Sylvester's order. The transform
 * is its own inverse. */
static void hadamard(float *x, int64_t d) {
    for (int64_t h = 1; h < d; h *= 2)
        for (int64_t i = 0; i < d; i += 2 * h)
            for (int64_t k = i; k < i + h; k++) {
                float a = x[k], b = x[k + h];
                x[k] = a + b;
                x[k + h] = a - b;
            }
    float f = 1.0f / sqrtf((float)d);
    for (int64_t i = 0; i < d; i++) x[i] *= f;
}
/* Returns the largest power of two that divides n. */
static int64_t power_of_two_in(int64_t n) {
    return n & -n;
}
void kv_rotate(float *x, int64_t n) {
    flip_signs(x, n, SEED_ROTATE);
    int64_t d = power_of_two_in(n);
    for (int64_t i = 0; i < n; i += d) hadamard(x + i, d);
}
void kv_rotate_back(float *x, int64_t n) {
    int64_t d = power_of_two_in(n);
    for (int64_t i = 0; i < n; i += d) hadamard(x + i, d);
    flip_signs(x, n, SEED_ROTATE);
}

enum { VALUE_SLICE = 64 };
/* Rotates slices of a row of blocks; the transform is its own inverse. */
static void turn_blocks(float *x, int64_t n, bool is_value) {
    const int64_t d = is_value ? VALUE_SLICE : power_of_two_in(n);
    for (int64_t i = 0; i < n && n % VALUE_SLICE == 0; i += d) hadamard(x + i, d);
}
void kv_turn(const struct kv_type *t, float *x, int64_t n, bool is_value) {
    if (t->key)
        kv_rotate(x, n);
    else
        turn_blocks(x, n, is_value);
}
void kv_turn_back(const struct kv_type *t, float *x, int64_t n, bool is_value) {
    if (t->key)
        kv_rotate_back(x, n);
    else
        turn_blocks(x, n, is_value);
}

/* ---- scales ---- */

/* Returns the scale at which codes of unit variance have the norm of y. yy: y . y, d: number of
 * values. */
static float scale_for_norm(double yy, double yc, double cc, int64_t d) {
    (void)yc;
    (void)cc;
    return (float)sqrt(yy / (double)d);
}
/* Returns the scale s at which s * c has the norm of y. yy: y . y, cc: c . c. */
static float scale_keeping_norm(double yy, double yc, double cc, int64_t d) {
    (void)yc;
    (void)d;
    return (float)sqrt(yy / cc);
}
/* Returns the scale s at which s * c has the product y . y with y. yc: y . c, yy: y . y. */
static float scale_unbiased(double yy, double yc, double cc, int64_t d) {
    (void)cc;
    (void)d;
    return yc > 0 ? (float)(yy / yc) : 0;
}
/* Returns the scale s that minimizes |y - s * c|. yc: y . c, cc: c . c. */
static float scale_least_squares(double yy, double yc, double cc, int64_t d) {
    (void)yy;
    (void)d;
    return (float)(yc / cc);
}
// clang-format off
#define CODES(fn) {{0, NULL, false}, {1, fn, false}, {2, fn, false}, {3, fn, false}, {4, fn, false}}
const struct tq_code tq_raw[5] = CODES(scale_for_norm);
const struct tq_code tq_norm[5] = CODES(scale_keeping_norm);
const struct tq_code tq_unbiased[5] = CODES(scale_unbiased);
const struct tq_code tq_least[5] = CODES(scale_least_squares);
const struct tq_code tq_qjl[5] = {{0, NULL, false}, {0, NULL, false}, {1, scale_for_norm, true}, {2, scale_for_norm, true}, {3, scale_for_norm, true}};
// clang-format on

/* ---- codes in bytes: planes of 4 (4 bits), 2 + 1 (3 bits), 2 or 1 ---- */

struct plane {
    /* Code bits `shift` to shift + bits - 1; a byte holds 8 / bits values. */
    int bits, shift;
};
static const struct plane planes[5][2] = {
    {{0, 0}, {0, 0}}, {{1, 0}, {0, 0}}, {{2, 0}, {0, 0}}, {{2, 0}, {1, 2}}, {{4, 0}, {0, 0}}};

/* Packs d codes of `bits` bits each into bit planes at `to`; returns the end. */
static uint8_t *pack_codes(int bits, const uint8_t *code, int64_t d, uint8_t *to) {
    for (int p = 0; p < 2 && planes[bits][p].bits; p++) {
        const struct plane *l = &planes[bits][p];
        int64_t per = 8 / l->bits;
        unsigned mask = (1u << l->bits) - 1;
        for (int64_t i = 0; i < d; i += per, to++) {
            unsigned v = 0;
            for (int64_t k = 0; k < per; k++)
                v |= ((unsigned)code[i + k] >> l->shift & mask) << (l->bits * k);
            *to = (uint8_t)v;
        }
    }
    return to;
}
/* ---- slices ---- */

/* Returns the values per slice of a row of n values: 128, 64 or 32. */
static int64_t slice_len(int64_t n) {
    return n % 128 == 0 ? 128 : n % 64 == 0 ? 64 : 32;
}
/* Returns the size of an encoded slice of d values. */
static uint64_t slice_bytes(const struct tq_code *c, int64_t d) {
    return 2 + (uint64_t)(d * c->bits / 8) + (c->qjl ? 2 + (uint64_t)d / 8 : 0);
}

/* Writes the codes of a slice, chosen with its raw scale. Returns the factor S. */
static float encode(const struct tq_code *c, const float *y, int64_t d, uint8_t *code) {
    const float *b = book[c->bits];
    int n = 1 << c->bits;
    float mid[MAX_CODES];
    double yy = 0, yc = 0, cc = 0;
    for (int64_t i = 0; i < d; i++) yy += (double)y[i] * (double)y[i];
    if (!(yy > 0)) {
        memset(code, 0, (size_t)d);
        return 0;
    }
    float g = (float)sqrt(yy / (double)d);
    for (int k = 0; k + 1 < n; k++) mid[k] = 0.5f * (b[k] + b[k + 1]) * g;
    for (int64_t i = 0; i < d; i++) {
        unsigned v = 0;
        for (int k = 0; k + 1 < n; k++) v += y[i] > mid[k];
        code[i] = (uint8_t)v;
        yc += (double)y[i] * (double)b[v];
        cc += (double)b[v] * (double)b[v];
    }
    return c->scale(yy, yc, cc, d);
}

/* Encodes y - s * b[code] in one bit per value: its norm as f16, then d rotated signs. */
static void put_residual(const float *y, float s, const float *b, const uint8_t *code, int64_t d,
                         uint8_t *to) {
    float r[MAX_SLICE];
    uint8_t sign[MAX_SLICE];
    double rr = 0;
    for (int64_t i = 0; i < d; i++) {
        r[i] = y[i] - s * b[code[i]];
        rr += (double)r[i] * (double)r[i];
    }
    flip_signs(r, d, SEED_QJL);
    hadamard(r, d);
    for (int64_t i = 0; i < d; i++) sign[i] = r[i] > 0;
    store_u16(to, fp_f32_to_f16((float)sqrt(rr)));
    pack_codes(1, sign, d, to + 2);
}
uint64_t kv_turbo_bytes(const struct kv_type *t, int64_t n) {
    int64_t d = slice_len(n);
    if (n % d || n > KV_MAX_DIM) return 0;
    uint64_t k = slice_bytes(t->key, d), v = slice_bytes(t->value, d);
    return (uint64_t)(n / d) * (k > v ? k : v);
}

void kv_turbo_put(const struct kv_type *t, const struct kern *k, const float *x, uint8_t *row,
                  int64_t n, bool is_value) {
    const struct tq_code *c = is_value ? t->value : t->key;
    int64_t d = slice_len(n);
    (void)k;
    for (int64_t i = 0; i < n; i += d, row += slice_bytes(c, d)) {
        uint8_t code[MAX_SLICE];
        float s = encode(c, x + i, d, code);
        store_u16(row, fp_f32_to_f16(s));
        uint8_t *end = pack_codes(c->bits, code, d, row + 2);
        if (c->qjl) put_residual(x + i, fp_f16_to_f32(load_u16(row)), book[c->bits], code, d, end);
    }
}

/* Decodes the codes of a slice with the table `level` and returns the end of the codes. */
static const uint8_t *unpack_4_bits(const uint8_t *from, const float *level, int64_t d,
                                    float *dst) {
    for (int64_t i = 0; i < d; i += 2, from++) {
        dst[i] = level[*from & 15];
        dst[i + 1] = level[*from >> 4];
    }
    return from;
}
/* Decodes d codes: dst[i] = level[code]. Returns the end of the codes. */
static const uint8_t *unpack_3_bits(const uint8_t *from, const float *level, int64_t d,
                                    float *dst) {
    const uint8_t *high = from + d / 4;
    for (int64_t i = 0; i < d; i += 8, from += 2, high++) {
        unsigned lo = load_u16(from), hi = *high;
        for (int k = 0; k < 8; k++) dst[i + k] = level[(lo >> (2 * k) & 3) | (hi >> k & 1) << 2];
    }
    return high;
}
/* Decodes d codes: dst[i] = level[code]. Returns the end of the codes. */
static const uint8_t *unpack_2_bits(const uint8_t *from, const float *level, int64_t d,
                                    float *dst) {
    for (int64_t i = 0; i < d; i += 4, from++)
        for (int k = 0; k < 4; k++) dst[i + k] = level[*from >> (2 * k) & 3];
    return from;
}
/* Decodes d codes: dst[i] = level[code]. Returns the end of the codes. */
static const uint8_t *unpack_1_bit(const uint8_t *from, const float *level, int64_t d, float *dst) {
    for (int64_t i = 0; i < d; i += 8, from++)
        for (int k = 0; k < 8; k++) dst[i + k] = level[*from >> k & 1];
    return from;
}
static const uint8_t *(*const reader[5])(const uint8_t *from, const float *level, int64_t d,
                                         float *dst) = {NULL, unpack_1_bit, unpack_2_bits,
                                                        unpack_3_bits, unpack_4_bits};

/* Adds to y [d] the residual that put_residual() encoded. */
static void add_residual(const uint8_t *from, float *y, int64_t d) {
    float r[MAX_SLICE], f = fp_f16_to_f32(load_u16(from)) * sqrtf(1.5707963f / (float)d);
    const float level[2] = {-f, f};
    unpack_1_bit(from + 2, level, d, r);
    hadamard(r, d);
    flip_signs(r, d, SEED_QJL);
    for (int64_t i = 0; i < d; i++) y[i] += r[i];
}

void kv_turbo_get(const struct kv_type *t, const struct kern *k, const uint8_t *row, float *dst,
                  int64_t n, bool is_value) {
    const struct tq_code *c = is_value ? t->value : t->key;
    const float *b = book[c->bits];
    int64_t d = slice_len(n);
    (void)k;
    for (int64_t i = 0; i < n; i += d, row += slice_bytes(c, d)) {
        float level[MAX_CODES], s = fp_f16_to_f32(load_u16(row));
        for (int v = 0; v < 1 << c->bits; v++) level[v] = s * b[v];
        const uint8_t *end = reader[c->bits](row + 2, level, d, dst + i);
        if (c->qjl) add_residual(end, dst + i, d);
    }
}
