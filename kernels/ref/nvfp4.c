// SPDX-License-Identifier: MIT
/* kernels/ref/nvfp4.c - NVFP4: 64 weights in 36 bytes, one UE4M3 scale per 16.
 * w = UE4M3(d[s])/2 * F[q]; sub-block s holds bytes 8s..8s+7, low nibbles first. */
#include "base/fp.h"
#include "kernels/ops.h"
#include "kernels/codebook.h"

/* Returns weight i of the block as an integer, before its scale is applied. */
static int code(const struct blk_NVFP4 *x, int i) {
    const int s = i / 16, j = i % 16;
    const uint8_t byte = x->qs[8 * s + j % 8];
    return kern_fp4_level[j < 8 ? byte & 15 : byte >> 4];
}

/* Decodes n values, whole blocks, to floats. */
static void decode(const void *restrict blk, float *restrict dst, int64_t n) {
    const struct blk_NVFP4 *x = blk;
    for (int64_t b = 0; b < n / 64; b++, x++, dst += 64)
        for (int i = 0; i < 64; i++) dst[i] = kern_ue4m3_half(x->d[i / 16]) * (float)code(x, i);
}

/* Returns the product of n weights w and rounded activations a, both whole blocks. */
static float dot(const void *restrict w, const void *restrict a, int64_t n) {
    const struct blk_NVFP4 *x = w;
    const struct blk_Q8_0 *y = a;
    double sum = 0;
    for (int64_t b = 0; b < n / 64; b++, x++, y += 2)
        for (int k = 0; k < 4; k++) {
            const struct blk_Q8_0 *yk = y + k / 2;
            int s = 0;
            for (int j = 0; j < 16; j++) s += code(x, 16 * k + j) * yk->qs[16 * (k % 2) + j];
            sum += (double)kern_ue4m3_half(x->d[k]) * (double)fp_f16_to_f32(yk->d) * s;
        }
    return (float)sum;
}

const struct kern_ops kern_ref_NVFP4 = {.decode = decode, .dot = dot};
