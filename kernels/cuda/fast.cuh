// SPDX-License-Identifier: MIT
/* kernels/cuda/fast.cuh - the product that matmul.cu hands to the fast kernels, all of whose
 * matrices are packed (pack.cuh). */
#ifndef HONE_KERNELS_CUDA_FAST_CUH
#define HONE_KERNELS_CUDA_FAST_CUH

#include "kernels/cuda/gpu.cuh"

struct cu_product {
    enum qtype type;
    const uint8_t *w, *w_up; /* w_up: a gated unit, out = act(w . x) * (w_up . x); or NULL */
    uint64_t mat_bytes;      /* packed; of w and of w_up */
    uint64_t mat_bytes_up;
    int64_t k, rows;
    const int32_t *ids; /* matrix of each input row; NULL: matrix 0 */
    int64_t n_mats;
    const float *x; /* input row i is x + i / x_div * ldx */
    int64_t ldx, x_div, n_in;
    const float *p; /* factor of each input row, or NULL */
    int64_t n_sum;  /* this many consecutive input rows add up to an output row */
    bool gelu;
    float *y;
    int64_t ldy;
};

/* matmul.cu: the weights of a product; up: of a gated unit, NULL with `gated`: the second half of
 * w's rows. */
void cu_fast_of(struct cu_product *p, const struct cu_weight *w, const struct cu_weight *up,
                bool gated);
/* gemv.cu: activations rounded to 8 bits per 32; for few rows. */
int cu_gemv(struct cu_stream *s, const struct cu_product *p, struct err *e);
/* gemm.cu: bf16 on tensor cores; for many rows. With n_sum > 1, p must be there. */
int cu_gemm(struct cu_stream *s, const struct cu_product *p, struct err *e);
uint64_t cu_gemm_scratch(const struct cu_product *p); /* at most */

#endif
