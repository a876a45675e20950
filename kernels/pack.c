// SPDX-License-Identifier: MIT
/* kernels/pack.c - see pack.h. */
#include "kernels/pack.h"

#include <string.h>

#include "core/fp.h"
#include "kernels/kern.h"

enum { MAX_FIELDS = 5 };

/* Fields in the block's order: size of a unit, number of units. */
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
    [QT_Q2_K] = {{4, 4}, {4, 16}, {2, 1}, {2, 1}},
    [QT_Q3_K] = {{4, 8}, {4, 16}, {4, 3}, {2, 1}},
    [QT_Q4_K] = {{2, 1}, {2, 1}, {4, 3}, {4, 32}},
    [QT_Q5_K] = {{2, 1}, {2, 1}, {4, 3}, {4, 8}, {4, 32}},
    [QT_Q6_K] = {{4, 32}, {4, 16}, {4, 4}, {2, 1}},
    [QT_IQ4_XS] = {{2, 1}, {2, 1}, {4, 1}, {4, 32}},
};

bool kern_packs(enum qtype t) {
    return (unsigned)t < QT_COUNT && field[t][0].n > 0;
}

/* n units of every row, from one stride to another. */
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

void kern_pack(enum qtype t, int rows, const uint8_t *src, uint64_t row_bytes, int64_t n_blocks,
               uint8_t *dst) {
    const uint64_t block = (uint64_t)qtype_info(t)->block_bytes, group = block * (uint64_t)rows;
    for (int64_t b = 0; b < n_blocks; b++, src += block, dst += group) {
        uint64_t at = 0;
        for (int f = 0; f < MAX_FIELDS && field[t][f].n; f++) {
            const unsigned size = field[t][f].size;
            move((int)size, field[t][f].n, rows, src + at, row_bytes, size,
                 dst + at * (uint64_t)rows, size, (uint64_t)rows * size);
            at += (uint64_t)size * field[t][f].n;
        }
    }
}

void kern_unpack(enum qtype t, int rows, const uint8_t *src, int64_t n_blocks, uint8_t *dst,
                 uint64_t row_bytes) {
    const uint64_t block = (uint64_t)qtype_info(t)->block_bytes, group = block * (uint64_t)rows;
    for (int64_t b = 0; b < n_blocks; b++, src += group, dst += block) {
        uint64_t at = 0;
        for (int f = 0; f < MAX_FIELDS && field[t][f].n; f++) {
            const unsigned size = field[t][f].size;
            move((int)size, field[t][f].n, rows, src + at * (uint64_t)rows, size,
                 (uint64_t)rows * size, dst + at, row_bytes, size);
            at += (uint64_t)size * field[t][f].n;
        }
    }
}

int64_t kern_act_blocks(int64_t n) {
    return (n + QK - 1) / QK;
}

static void sums(struct kern_act *a) {
    for (int i = 0; i < 16; i++) {
        int s = 0;
        for (int j = 0; j < 16; j++) s += a->qs[16 * i + j];
        a->s16[i] = (int16_t)s;
    }
    for (int i = 0; i < 8; i++) a->s32[i] = (int16_t)(a->s16[2 * i] + a->s16[2 * i + 1]);
}

static void from_q8_k(const struct kern *k, const float *x, struct kern_act *a) {
    struct blk_Q8_K q;
    k->act_quant(QT_Q8_K, x, &q, QK);
    memcpy(a->qs, q.qs, sizeof a->qs);
    memcpy(a->s16, q.bsums, sizeof a->s16);
    for (int i = 0; i < 8; i++) {
        a->d[i] = q.d;
        a->s32[i] = (int16_t)(q.bsums[2 * i] + q.bsums[2 * i + 1]);
    }
}

/* n: a multiple of 32, at most 256 */
static void from_q8_0(const struct kern *k, const float *x, int64_t n, struct kern_act *a) {
    struct blk_Q8_0 q[8];
    memset(q, 0, sizeof q);
    k->act_quant(QT_Q8_0, x, q, n);
    for (int i = 0; i < 8; i++) {
        a->d[i] = fp_f16_to_f32(q[i].d);
        memcpy(a->qs + 32 * i, q[i].qs, 32);
    }
    sums(a);
}

void kern_act(const struct kern *k, enum qtype t, const float *x, int64_t n, struct kern_act *dst) {
    const bool by_256 = kern_dot_partner(t) == QT_Q8_K;
    for (int64_t i = 0; i < n; i += QK, dst++)
        if (by_256)
            from_q8_k(k, x + i, dst);
        else
            from_q8_0(k, x + i, n - i < QK ? n - i : QK, dst);
}
