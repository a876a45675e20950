// SPDX-License-Identifier: MIT
/* kernels/cuda/fast.cuh - the product descriptor that matmul.cu passes to gemv.cu and gemm.cu. */
#ifndef HONE_KERNELS_CUDA_FAST_CUH
#define HONE_KERNELS_CUDA_FAST_CUH

#include "kernels/cuda/gpu.cuh"

/* Rows of a stack of matrices, packed (pack.cuh) or in file order. */
struct cu_rows {
    enum qtype type;
    bool packed;
    const uint8_t *w; /* NULL: none */
    uint64_t mat_bytes, row_bytes;
};
struct cu_product {
    struct cu_rows w, up; /* up: for a gated unit, out = act(w . x) * (up . x) */
    int64_t k, rows;
    const int32_t *ids; /* matrix of each input row; NULL: matrix 0 */
    int64_t n_mats;
    const float *x; /* input row i is x + i / x_div * ldx */
    int64_t ldx, x_div, n_in;
    const float *p; /* factor of each input row, or NULL */
    int64_t n_sum;  /* consecutive input rows that add up to an output row */
    bool gelu;
    bool exact; /* cu_gemm: f32 operands, weights in file order */
    float *y;
    int64_t ldy;
};

/* Returns whether a gated unit has two matrices of one kind. */
static inline bool cu_same_rows(const struct cu_product *p) {
    return p->up.w && p->up.type == p->w.type && p->up.packed == p->w.packed;
}
/* Sets the weights of a product (matmul.cu), packed if possible unless the product is exact. up:
 * the second matrix of a gated unit; NULL for a gated unit: the second half of w's rows. */
void cu_fast_of(struct cu_product *p, const struct cu_weight *w, const struct cu_weight *up,
                bool gated, bool exact);
/* Multiplies few rows of activations, rounded to 8 bits per 32 (gemv.cu). */
int cu_gemv(struct cu_stream *s, const struct cu_product *p, struct err *e);
/* Multiplies many rows (gemm.cu): in bf16 on tensor cores, if k is a multiple of 32, or exactly.
 * With n_sum > 1, p is required. At most CU_GEMM_MATS matrices. */
enum { CU_GEMM_MATS = 8192 };
int cu_gemm(struct cu_stream *s, const struct cu_product *p, struct err *e);
uint64_t cu_gemm_scratch(const struct cu_product *p); /* upper bound */

#endif
