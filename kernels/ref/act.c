// SPDX-License-Identifier: MIT
/* kernels/ref/act.c - quantization of f32 rows to the activation formats of the integer dots.
 *
 * Every ISA rounds to nearest, ties to even, so the blocks have the same bytes everywhere. The
 * input is finite. */
#include <math.h>
#include <string.h>

#include "base/fp.h"
#include "kernels/ops.h"

/* Returns the largest absolute value. */
static float largest(const float *x, int n) {
    float m = 0;
    for (int i = 0; i < n; i++) m = fmaxf(m, fabsf(x[i]));
    return m;
}

/* Rounds 32 values and returns their scale d = max|x|/127. The caller stores d as f16, but the
 * codes use the unrounded d. If d is subnormal, it has no finite inverse (and is 0 in f16), so the
 * codes are 0. Codes are x * (127/max), not x * (1/d): the last bit decides ties, and llama.cpp's
 * x86 code does the same. */
static float quant_32(const float *x, int8_t *qs, int *sum) {
    const float max = largest(x, 32), d = max / 127.0f, inv = d >= 0x1p-126f ? 127.0f / max : 0;
    *sum = 0;
    for (int i = 0; i < 32; i++) {
        qs[i] = (int8_t)rintf(x[i] * inv);
        *sum += qs[i];
    }
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

/* Rounds rows to Q8_K. The element of largest magnitude (the first in a tie) becomes exactly
 * -127. */
static void quant_q8_k(const float *x, struct blk_Q8_K *y, int64_t n) {
    for (int64_t b = 0; b < n / QK; b++, x += QK, y++) {
        float max = 0;
        for (int i = 0; i < QK; i++)
            if (fabsf(x[i]) > fabsf(max)) max = x[i];
        const float inv = -127.0f / max;
        /* The values are too small for a finite scale: treat them as zero. */
        if (fabsf(max) == 0 || isinf(inv)) {
            memset(y, 0, sizeof *y);
            continue;
        }
        for (int i = 0; i < QK; i++) y->qs[i] = (int8_t)fminf(127.0f, rintf(inv * x[i]));
        for (int k = 0; k < QK / 16; k++) {
            int sum = 0;
            for (int i = 0; i < 16; i++) sum += y->qs[16 * k + i];
            y->bsums[k] = (int16_t)sum;
        }
        y->d = 1.0f / inv;
    }
}

#include "kernels/ref/act_quant.h"

void kern_ref_act(struct kern *k) {
    k->act_quant = act_quant;
}
