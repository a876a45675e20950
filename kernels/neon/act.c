// SPDX-License-Identifier: MIT
/* kernels/neon/act.c - NEON version of kernels/ref/act.c, which quantizes activations. The bytes
 * are the same: floats are only multiplied and converted (to nearest, ties to even), and sums are
 * integers. */
#include <math.h>
#include <string.h>

#include "base/fp.h"
#include "containers/qtype.h"
#include "kernels/neon/neon.h"
#include "kernels/ops.h"

INLINE float largest(const float *x, int n) {
    float32x4_t m = vdupq_n_f32(0);
    for (int i = 0; i < n; i += 4) m = vmaxq_f32(m, vabsq_f32(vld1q_f32(x + i)));
    return vmaxvq_f32(m);
}

/* Returns 16 codes of x * inv, at most 127 in magnitude. */
INLINE int8x16_t codes(const float *x, float inv) {
    int16x4_t c[4];
    UNROLL for (int i = 0; i < 4; i++) c[i] =
        vqmovn_s32(vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + 4 * i), inv)));
    return vcombine_s8(vqmovn_s16(vcombine_s16(c[0], c[1])), vqmovn_s16(vcombine_s16(c[2], c[3])));
}

/* Rounds 32 values: stores their codes and the codes' sum, and returns d. */
INLINE float quant_32(const float *x, int8_t *qs, int *sum) {
    const float max = largest(x, 32), d = max / 127.0f, inv = d >= 0x1p-126f ? 127.0f / max : 0;
    const int8x16_t a = codes(x, inv), b = codes(x + 16, inv);
    vst1q_s8(qs, a);
    vst1q_s8(qs + 16, b);
    *sum = vaddlvq_s8(a) + vaddlvq_s8(b);
    return d;
}

/* Rounds n activations to Q8_0 blocks. */
static void quant_q8_0(const float *x, struct blk_Q8_0 *y, int64_t n) {
    for (int64_t b = 0; b < n / 32; b++, x += 32, y++) {
        int sum;
        y->d = fp_f32_to_f16(quant_32(x, y->qs, &sum));
    }
}

/* Rounds n activations to Q8_1 blocks, with their sums. */
static void quant_q8_1(const float *x, struct blk_Q8_1 *y, int64_t n) {
    for (int64_t b = 0; b < n / 32; b++, x += 32, y++) {
        int sum;
        const float d = quant_32(x, y->qs, &sum);
        y->d = fp_f32_to_f16(d);
        y->s = fp_f32_to_f16((float)sum * d);
    }
}

/* Returns the first element whose magnitude is `top`. */
static float first_of(const float *x, float top) {
    for (int i = 0; i < QK; i += 4) {
        const uint32x4_t eq = vceqq_f32(vabsq_f32(vld1q_f32(x + i)), vdupq_n_f32(top));
        if (!vmaxvq_u32(eq)) continue;
        for (int j = i; j < i + 4; j++)
            if (fabsf(x[j]) == top) return x[j];
    }
    return top;
}

/* Rounds n activations to Q8_K blocks, with sums of 16. */
static void quant_q8_k(const float *x, struct blk_Q8_K *y, int64_t n) {
    for (int64_t b = 0; b < n / QK; b++, x += QK, y++) {
        const float top = largest(x, QK), inv = -127.0f / first_of(x, top);
        if (top == 0 || isinf(inv)) {
            memset(y, 0, sizeof *y);
            continue;
        }
        for (int k = 0; k < QK / 16; k++) {
            const int8x16_t c = codes(x + 16 * k, inv);
            vst1q_s8(y->qs + 16 * k, c);
            y->bsums[k] = vaddlvq_s8(c);
        }
        y->d = 1.0f / inv;
    }
}

#include "kernels/ref/act_quant.h"

void kern_neon_act(struct kern *k) {
    k->act_quant = act_quant;
}
