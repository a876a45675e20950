// SPDX-License-Identifier: MIT
/* kernels/pack.c - packing and unpacking of weight rows, and conversion of activations for packed
 * kernels. */
#include "kernels/pack.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/fp.h"
#include "kernels/kern.h"

enum { MAX_FIELDS = 5, MAX_ROWS = 16, MAX_BLOCK = 256 };

/* Fields of a block in order (for spread codes, in the order of the spread block): bytes per
 * unit and number of units. */
static const struct {
    uint8_t size, n;
} field[QT_COUNT][MAX_FIELDS] = {
    [QT_Q4_0] = {{2, 1}, {4, 4}},
    [QT_Q4_1] = {{2, 1}, {2, 1}, {4, 4}},
    [QT_Q5_0] = {{2, 1}, {4, 1}, {4, 4}},
    [QT_Q5_1] = {{2, 1}, {2, 1}, {4, 1}, {4, 4}},
    [QT_Q8_0] = {{2, 1}, {4, 8}},
    [QT_IQ4_NL] = {{2, 1}, {4, 4}},
    [QT_MXFP4] = {{1, 1}, {4, 4}},
    [QT_NVFP4] = {{4, 1}, {4, 8}},
    [QT_Q2_K] = {{4, 4}, {4, 16}, {2, 1}, {2, 1}},
    [QT_Q3_K] = {{2, 1}, {4, 3}, {4, 24}},
    [QT_Q4_K] = {{2, 1}, {2, 1}, {4, 3}, {4, 32}},
    [QT_Q5_K] = {{2, 1}, {2, 1}, {4, 3}, {4, 40}},
    [QT_Q6_K] = {{2, 1}, {4, 4}, {4, 48}},
    [QT_IQ4_XS] = {{2, 1}, {2, 1}, {4, 1}, {4, 32}},
    [QT_IQ2_XXS] = {{2, 1}, {4, 16}},
    [QT_IQ2_XS] = {{2, 1}, {4, 8}, {4, 8}, {4, 2}},
    [QT_IQ2_S] = {{2, 1}, {4, 8}, {4, 8}, {4, 2}, {4, 2}},
    [QT_IQ3_XXS] = {{2, 1}, {4, 16}, {4, 8}},
    [QT_IQ3_S] = {{2, 1}, {4, 16}, {4, 2}, {4, 8}, {4, 1}},
    [QT_IQ1_S] = {{2, 1}, {4, 8}, {2, 8}},
    [QT_IQ1_M] = {{4, 8}, {4, 4}, {2, 4}},
    [QT_TQ2_0] = {{4, 16}, {2, 1}},
    [QT_TQ1_0] = {{4, 12}, {4, 1}, {2, 1}},
};

bool kern_packs(enum qtype t) {
    return (unsigned)t < QT_COUNT && field[t][0].n > 0;
}

/* Spread codes. The file stores the low and high bits of a code separately, but a kernel should
 * read every byte once and in order. So a block is rewritten first: scale fields, then the
 * codes, of which `n_codes` words (four codes each, one per byte) become `n_bytes` words. Most
 * words take codes unchanged, and the bits of the remaining codes go above those. The rewrite
 * consists of shifts and masks of whole words. */
/* A step of the rewrite: moves the bits `mask` of word `code` to word `byte`, shifted left by
 * `left`. */
struct move {
    uint8_t code, mask, byte, left;
};
struct spread {
    uint8_t head[2][2]; /* fields that go first: offset, bytes */
    /* Offset and shift of the low bits of codes 32k and following. */
    uint8_t low[8], shift[8];
    uint8_t high[8], high_shift[8];
    uint8_t low_mask, high_mask, low_bits;
    uint8_t n_codes, n_bytes;
    struct move move[13]; /* steps; mask 0 ends them */
};
// clang-format off
static const struct spread spread_q3_k = {
    .head = {{108, 2}, {96, 12}},
    .low = {32, 32, 32, 32, 64, 64, 64, 64}, .shift = {0, 2, 4, 6, 0, 2, 4, 6},
    .high = {0}, .high_shift = {0, 1, 2, 3, 4, 5, 6, 7},
    .low_mask = 3, .high_mask = 1, .low_bits = 2, .n_codes = 8, .n_bytes = 3,
    .move = {{0, 7, 0, 0}, {1, 7, 0, 3}, {2, 7, 1, 0}, {3, 7, 1, 3}, {4, 7, 2, 0}, {5, 7, 2, 3},
             {6, 3, 0, 6}, {6, 4, 2, 4}, {7, 3, 1, 6}, {7, 4, 2, 5}}};
static const struct spread spread_q5_k = {
    .head = {{0, 16}},
    .low = {48, 48, 80, 80, 112, 112, 144, 144}, .shift = {0, 4, 0, 4, 0, 4, 0, 4},
    .high = {16, 16, 16, 16, 16, 16, 16, 16}, .high_shift = {0, 1, 2, 3, 4, 5, 6, 7},
    .low_mask = 15, .high_mask = 1, .low_bits = 4, .n_codes = 8, .n_bytes = 5,
    .move = {{0, 31, 0, 0}, {1, 31, 1, 0}, {2, 31, 2, 0}, {3, 31, 3, 0}, {4, 31, 4, 0},
             {5, 7, 0, 5}, {5, 24, 1, 3}, {6, 7, 2, 5}, {6, 24, 3, 3}, {7, 7, 4, 5},
             {7, 8, 1, 2}, {7, 16, 3, 1}}};
static const struct spread spread_q6_k = {
    .head = {{208, 2}, {192, 16}},
    .low = {0, 32, 0, 32, 64, 96, 64, 96}, .shift = {0, 0, 4, 4, 0, 0, 4, 4},
    .high = {128, 128, 128, 128, 160, 160, 160, 160}, .high_shift = {0, 2, 4, 6, 0, 2, 4, 6},
    .low_mask = 15, .high_mask = 3, .low_bits = 4, .n_codes = 4, .n_bytes = 3,
    .move = {{0, 63, 0, 0}, {1, 63, 1, 0}, {2, 63, 2, 0}, {3, 3, 0, 6}, {3, 12, 1, 4}, {3, 48, 2, 2}}};
// clang-format on
static const struct spread *const spread_of[QT_COUNT] = {
    [QT_Q3_K] = &spread_q3_k, [QT_Q5_K] = &spread_q5_k, [QT_Q6_K] = &spread_q6_k};

/* Copies n units of every row from one stride to another. */
static void move(int size, int n, int rows, const uint8_t *src, uint64_t src_row, uint64_t src_unit,
                 uint8_t *dst, uint64_t dst_row, uint64_t dst_unit) {
    for (int r = 0; r < rows; r++) {
        const uint8_t *s = src + (uint64_t)r * src_row;
        uint8_t *d = dst + (uint64_t)r * dst_row;
        if (size == 4)
            for (int u = 0; u < n; u++, s += src_unit, d += dst_unit) memcpy(d, s, 4);
        else
            for (int u = 0; u < n; u++, s += src_unit, d += dst_unit) memcpy(d, s, (size_t)size);
    }
}

static const uint32_t every_byte = 0x01010101;

/* Copies a block's scales, from the packed block if `back` is set; returns their size. */
static uint64_t copy_head(const struct spread *s, const uint8_t *src, uint8_t *dst, bool back) {
    uint64_t at = 0;
    for (int i = 0; i < 2; i++) {
        const uint8_t off = s->head[i][0], n = s->head[i][1];
        if (back)
            memcpy(dst + off, src + at, n);
        else
            memcpy(dst + at, src + off, n);
        at += n;
    }
    return at;
}

/* Fields of 16-bit words stored as all low bytes, then all high bytes: offset of the first word,
 * number of words. */
static const struct { uint8_t at, n; } pairs_of[QT_COUNT] = {[QT_IQ2_XS] = {2, 32}};

/* Moves the even bytes of the pairs of a block before the odd ones, or back. */
static void part_pairs(enum qtype t, const uint8_t *src, uint8_t *dst, size_t size, bool back) {
    const int at = pairs_of[t].at, n = pairs_of[t].n;
    memcpy(dst, src, size);
    for (int i = 0; i < 2 * n; i++) {
        const int whole = at + 2 * (i % n) + i / n;
        if (back)
            dst[whole] = src[at + i];
        else
            dst[at + i] = src[whole];
    }
}

/* Rewrites one block of 256 weights, without changing its size. */
static void spread_block(const struct spread *s, const uint8_t *src, uint8_t *dst) {
    dst += copy_head(s, src, dst, false);
    for (int i = 0; i < 64; i += s->n_codes, dst += 4 * s->n_bytes) {
        uint32_t c[8], b[8] = {0};
        for (int u = 0; u < s->n_codes; u++) {
            const int k = (i + u) / 8, at = 4 * ((i + u) % 8);
            const uint32_t low = load_u32(src + s->low[k] + at) >> s->shift[k],
                           high = load_u32(src + s->high[k] + at) >> s->high_shift[k];
            c[u] = (low & s->low_mask * every_byte) | (high & s->high_mask * every_byte)
                                                          << s->low_bits;
        }
        for (const struct move *m = s->move; m->mask; m++)
            b[m->byte] |= (c[m->code] & m->mask * every_byte) << m->left;
        for (int u = 0; u < s->n_bytes; u++) store_u32(dst + 4 * u, b[u]);
    }
}

/* Restores a block from its spread codes. */
static void unspread_block(const struct spread *s, const uint8_t *src, uint8_t *dst, size_t size) {
    memset(dst, 0, size);
    src += copy_head(s, src, dst, true);
    for (int i = 0; i < 64; i += s->n_codes, src += 4 * s->n_bytes) {
        uint32_t c[8] = {0};
        for (const struct move *m = s->move; m->mask; m++)
            c[m->code] |= load_u32(src + 4 * m->byte) >> m->left & m->mask * every_byte;
        for (int u = 0; u < s->n_codes; u++) {
            const int k = (i + u) / 8, at = 4 * ((i + u) % 8);
            uint8_t *low = dst + s->low[k] + at, *high = dst + s->high[k] + at;
            store_u32(low, load_u32(low) | (c[u] & s->low_mask * every_byte) << s->shift[k]);
            store_u32(high, load_u32(high) | (c[u] >> s->low_bits & s->high_mask * every_byte)
                                                 << s->high_shift[k]);
        }
    }
}

/* Returns whether blocks of a type are rewritten before their fields are packed. */
static bool is_rewritten(enum qtype t) {
    return spread_of[t] || pairs_of[t].n;
}
/* Rewrites a block into the form for packing, or back. */
static void rewrite_block(enum qtype t, const uint8_t *src, uint8_t *dst, size_t size, bool back) {
    if (pairs_of[t].n)
        part_pairs(t, src, dst, size, back);
    else if (back)
        unspread_block(spread_of[t], src, dst, size);
    else
        spread_block(spread_of[t], src, dst);
}

void kern_pack(enum qtype t, int rows, const uint8_t *src, uint64_t row_bytes, int64_t n_blocks,
               uint8_t *dst) {
    const uint64_t block = (uint64_t)qtype_info(t)->block_bytes, group = block * (uint64_t)rows;
    uint8_t spread[MAX_ROWS * MAX_BLOCK];
    for (int64_t b = 0; b < n_blocks; b++, src += block, dst += group) {
        const uint8_t *from = src;
        uint64_t at = 0, stride = row_bytes;
        if (is_rewritten(t)) {
            for (int r = 0; r < rows; r++)
                rewrite_block(t, src + (uint64_t)r * row_bytes, spread + (uint64_t)r * block,
                              (size_t)block, false);
            from = spread;
            stride = block;
        }
        for (int f = 0; f < MAX_FIELDS && field[t][f].n; f++) {
            const unsigned size = field[t][f].size;
            move((int)size, field[t][f].n, rows, from + at, stride, size, dst + at * (uint64_t)rows,
                 size, (uint64_t)rows * size);
            at += (uint64_t)size * field[t][f].n;
        }
    }
}

void kern_unpack(enum qtype t, int rows, const uint8_t *src, int64_t n_blocks, uint8_t *dst,
                 uint64_t row_bytes) {
    const uint64_t block = (uint64_t)qtype_info(t)->block_bytes, group = block * (uint64_t)rows;
    uint8_t spread[MAX_ROWS * MAX_BLOCK];
    for (int64_t b = 0; b < n_blocks; b++, src += group, dst += block) {
        uint8_t *to = is_rewritten(t) ? spread : dst;
        const uint64_t stride = is_rewritten(t) ? block : row_bytes;
        uint64_t at = 0;
        for (int f = 0; f < MAX_FIELDS && field[t][f].n; f++) {
            const unsigned size = field[t][f].size;
            move((int)size, field[t][f].n, rows, src + at * (uint64_t)rows, size,
                 (uint64_t)rows * size, to + at, stride, size);
            at += (uint64_t)size * field[t][f].n;
        }
        for (int r = 0; is_rewritten(t) && r < rows; r++)
            rewrite_block(t, spread + (uint64_t)r * block, dst + (uint64_t)r * row_bytes,
                          (size_t)block, true);
    }
}

int64_t kern_act_blocks(int64_t n) {
    return (n + QK - 1) / QK;
}

/* Fills in the sums of 16 and of 32 codes. */
static void fill_sums(struct kern_act *a) {
    for (int i = 0; i < 16; i++) {
        int s = 0;
        for (int j = 0; j < 16; j++) s += a->qs[16 * i + j];
        a->s16[i] = (int16_t)s;
    }
    for (int i = 0; i < 8; i++) a->s32[i] = (int16_t)(a->s16[2 * i] + a->s16[2 * i + 1]);
}

/* Quantizes 256 activations to Q8_K and stores their scale, codes and sums in a. */
static void act_as_q8_k(const struct kern *k, const float *x, struct kern_act *a) {
    struct blk_Q8_K q;
    k->act_quant(QT_Q8_K, x, &q, QK);
    memcpy(a->qs, q.qs, sizeof a->qs);
    memcpy(a->s16, q.bsums, sizeof a->s16);
    for (int i = 0; i < 8; i++) {
        a->d[i] = q.d;
        a->s32[i] = (int16_t)(q.bsums[2 * i] + q.bsums[2 * i + 1]);
    }
}

/* Quantizes n activations to Q8_0 and stores their scales, codes and sums in a, with zeros up to
 * 256. n is a multiple of 32 and at most 256. */
static void act_as_q8_0(const struct kern *k, const float *x, int64_t n, struct kern_act *a) {
    struct blk_Q8_0 q[8];
    memset(q, 0, sizeof q);
    k->act_quant(QT_Q8_0, x, q, n);
    for (int i = 0; i < 8; i++) {
        a->d[i] = fp_f16_to_f32(q[i].d);
        memcpy(a->qs + 32 * i, q[i].qs, 32);
    }
    fill_sums(a);
}

void kern_act(const struct kern *k, enum qtype t, const float *x, int64_t n, struct kern_act *dst) {
    const bool by_256 = kern_dot_partner(t) == QT_Q8_K;
    for (int64_t i = 0; i < n; i += QK, dst++) {
        if (by_256)
            act_as_q8_k(k, x + i, dst);
        else
            act_as_q8_0(k, x + i, n - i < QK ? n - i : QK, dst);
        for (int j = 0; j < QK; j++) dst->abs[j] = (uint8_t)abs(dst->qs[j]);
    }
}
