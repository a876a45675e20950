// SPDX-License-Identifier: MIT
/* quantize/synth_blocks.c - random blocks of every type. Every pattern of codes and small scales is
 * valid; only the half-precision scales (and the exponents of FP4 types) decide the size of the
 * weights. With uniform codes a block of scale d has weights of root mean square d * R, R a sum
 * over the code book or, for the K types, E[s^2]E[q^2] terms: the table holds 0.02 / R. Offsets are
 * centred: the second half is the first times the mean code. Scales vary by a quarter from block to
 * block. */
#include "core/bytes.h"
#include "core/fp.h"
#include "kernels/bench.h"
#include "quantize/synth.h"

static const struct {
    float d, offset; /* scale; second half / scale */
} size_of[QT_COUNT] = {
    [QT_Q4_0] = {4.32e-3f, 0},      [QT_Q4_1] = {4.34e-3f, -7.5f}, [QT_Q5_0] = {2.16e-3f, 0},
    [QT_Q5_1] = {2.16e-3f, -15.5f}, [QT_Q8_0] = {2.70e-4f, 0},     [QT_Q2_K] = {1.44e-3f, 1.5f},
    [QT_Q3_K] = {4.61e-4f, 0},      [QT_Q4_K] = {7.75e-5f, 7.5f},  [QT_Q5_K] = {3.80e-5f, 15.5f},
    [QT_Q6_K] = {1.46e-5f, 0},      [QT_IQ4_NL] = {2.96e-4f, 0},   [QT_IQ4_XS] = {1.60e-5f, 0},
    [QT_IQ3_XXS] = {1.40e-4f, 0},   [QT_IQ3_S] = {1.42e-4f, 0},    [QT_IQ2_XXS] = {3.75e-4f, 0},
    [QT_IQ2_XS] = {3.58e-4f, 0},    [QT_IQ2_S] = {3.55e-4f, 0},    [QT_Q1_0] = {2e-2f, 0},
    [QT_Q2_0] = {1.63e-2f, 0},      [QT_TQ1_0] = {2.45e-2f, 0},    [QT_TQ2_0] = {2.83e-2f, 0},
    [QT_IQ1_S] = {2.78e-03f, 0},    [QT_IQ1_M] = {2.78e-03f, 0},
};

static void random_bytes(struct rng *r, uint8_t *p, int64_t n) {
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) store_u64(p + i, rng_u64(r));
    if (i == n) return;
    for (uint64_t v = rng_u64(r); i < n; i++, v >>= 8) p[i] = (uint8_t)v;
}

static void floats(enum qtype t, struct rng *r, uint8_t *p, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        float v = 0.02f * rng_normal(r);
        if (t == QT_F32)
            store_f32(p + 4 * i, v);
        else
            store_u16(p + 2 * i, t == QT_F16 ? fp_f32_to_f16(v) : fp_f32_to_bf16(v));
    }
}

/* What random bytes do not give: exponents near 2^-7, and only the three codes that TQ2_0 knows. */
static void tame(enum qtype t, uint8_t *p) {
    if (t == QT_MXFP4) p[0] = (uint8_t)(119 + ((p[0] & 3) != 0));
    if (t == QT_NVFP4)
        for (int i = 0; i < 4; i++) p[i] = (uint8_t)(2 + (p[i] & 3));
    if (t == QT_TQ2_0)
        for (int i = 0; i < 64; i++) p[i] = (uint8_t)(p[i] & ~(p[i] << 1 & 0xaa));
}

bool synth_blocks(enum qtype t, struct rng *r, void *dst, int64_t n_blocks) {
    const struct qtype_info *info = qtype_info(t);
    const int n_half = kern_n_halves(t);
    uint8_t *p = dst;
    if (info->flags & QF_FLOAT) {
        floats(t, r, p, n_blocks);
        return true;
    }
    if (!n_half && t != QT_MXFP4 && t != QT_NVFP4) return false;
    random_bytes(r, p, n_blocks * info->block_bytes);
    for (int64_t b = 0; b < n_blocks; b++, p += info->block_bytes) {
        float d = n_half ? size_of[t].d * rng_f32(r, 0.75f, 1.25f) : 0;
        if (n_half) kern_set_half(t, p, 0, fp_f32_to_f16(d));
        if (n_half > 1) kern_set_half(t, p, 1, fp_f32_to_f16(d * size_of[t].offset));
        tame(t, p);
    }
    return true;
}
