// SPDX-License-Identifier: MIT
/* kernels/cuda/gemm.cuh - declarations shared by the products for many tokens: gemm.cu (mma, and
 * the surrounding steps), gemm_sm90.cu (wgmma), gemm_any.cu (unpacked weights) and gemm_f32.cu
 * (exact products). */
#ifndef HONE_KERNELS_CUDA_GEMM_CUH
#define HONE_KERNELS_CUDA_GEMM_CUH

#include "kernels/cuda/fast.cuh"
#include "kernels/cuda/pack.cuh"

/* A task: `tokens` input rows of the list, starting at `first`, all for matrix `mat`. */
struct cu_task {
    int mat, first, tokens;
};
struct cu_gemm_job {
    const uint8_t *w;
    uint64_t mat_bytes, row_bytes;
    int k, rows, tokens;          /* tokens: maximum per task */
    const struct kern_grid *grid; /* for weights in file order, like row_bytes */
    const uint16_t *x;            /* bf16, rows of x_ld values: k, then zeros */
    int x_ld;
    const float *x_f32; /* gemm_f32.cu: rows of ldx */
    int64_t ldx;
    bool wide; /* rows of x_f32 are aligned to 16 bytes */
    unsigned x_div;
    const struct cu_task *task; /* NULL: one matrix, rows in order */
    const int *n_tasks, *list;
    int n_in;
    /* Gated units, out = act(w . x) * (up . x), take two passes, the second of which has the output
     * of the first in mul; gemm_sm90.cu takes one pass, with w_up. */
    const float *mul;
    const uint8_t *w_up;
    uint64_t mat_bytes_up;
    bool gelu;
    float *y;
    int64_t ldy;
};
/* A kernel whose grid is (tasks, groups of `rows` weight rows). */
struct cu_gemm_kernel {
    enum qtype type;
    int tokens, rows, warps,
        smem; /* tokens per task at most; rows, warps, shared bytes per block */
    void (*fn)(struct cu_gemm_job);
};

/* Sets *t to this block's task. Returns false for a surplus block. */
CU_DEV bool cu_task_of(const struct cu_gemm_job &j, struct cu_task *t) {
    const int i = (int)blockIdx.x, n = j.tokens;
    if (!j.task) {
        *t = {0, i * n, (int)cu_min(n, j.n_in - i * n)};
        return true;
    }
    if (i >= *j.n_tasks) return false;
    *t = j.task[i];
    return true;
}
/* Returns the input row of the task's token n. */
CU_DEV int cu_task_row(const struct cu_gemm_job &j, const struct cu_task &t, int n) {
    return j.task ? j.list[t.first + n] : t.first + n;
}

/* Constants for converting integers to floats without the slow instruction: a byte is put into the
 * low bits of 2^23, which is then subtracted. */
#define CU_FLOAT_BYTE 8388608.0f
template <class B> struct cu_bias {
    typedef cu_pack<B> P;
    static constexpr bool SIGNED = P::TABLE != 0 || P::LO == 8; /* such bytes are stored + 128 */
    static constexpr float VALUE = CU_FLOAT_BYTE + (float)(SIGNED ? 128 : P::OFF);
};
CU_DEV float cu_float_byte(uint32_t bytes, int i) {
    return cu_from_bits(cu_perm(bytes, 0x4b000000u, 0x7440u | (uint32_t)i));
}
/* Sets q[b][i] to code i of row b of a patch, plus cu_bias. */
template <class B>
CU_DEV void cu_float_codes(const struct cu_super<B> &s, int tile, int patch, float q[2][4]) {
    if constexpr (cu_pack<B>::TABLE != 0) {
        const uint32_t w = s.lo[4 * tile + patch], levels[4] = CU_IQ4_LEVELS;
        uint32_t t[4];
        CU_UNROLL
        for (int i = 0; i < 4; i++) t[i] = levels[i] ^ 0x80808080u;
        const uint32_t a = cu_look_up4(w, t), b = cu_look_up4(w >> 16, t);
        CU_UNROLL
        for (int i = 0; i < 8; i++) q[i % 2][i / 2] = cu_float_byte(i < 4 ? a : b, i % 4);
    } else {
        CU_UNROLL
        for (int b = 0; b < 2; b++) {
            uint32_t v = cu_raw_codes(s, tile, patch, b);
            if (cu_bias<B>::SIGNED) v ^= 0x80808080u;
            CU_UNROLL
            for (int i = 0; i < 4; i++) q[b][i] = cu_float_byte(v, i);
        }
    }
}

/* Computes the A operand of one patch: the bits of cu_weight, rounded. With a minimum, the bias
 * is just 2^23, and one fused operation subtracts it and multiplies, with the rounding of the
 * product. */
template <class B>
CU_DEV void cu_operand(const struct cu_super<B> &s, int tile, int patch, uint32_t (&a)[4]) {
    typedef cu_pack<B> P;
    float q[2][4];
    cu_float_codes(s, tile, patch, q);
    CU_UNROLL
    for (int b = 0; b < 2; b++) {
        float sc, mn, v[4];
        cu_patch_scale(s, tile, patch, b, &sc, &mn);
        const float less = -CU_FLOAT_BYTE * sc; /* exact */
        CU_UNROLL
        for (int i = 0; i < 4; i++)
            v[i] = P::MIN ? fmaf(q[b][i], sc, less) - mn : sc * (q[b][i] - cu_bias<B>::VALUE);
        a[b] = cu_pack_bf16(v[0], v[2]);
        a[2 + b] = cu_pack_bf16(v[1], v[3]);
    }
}

/* Returns the maximum number of tasks, of at most `tokens` rows each, that a product can have. */
static inline int64_t cu_gemm_tasks(const struct cu_product *p, int tokens) {
    return p->ids ? min_i64(p->n_in, p->n_in / tokens + p->n_mats) : div_up(p->n_in, tokens);
}
/* Returns the wgmma kernel for this product, on streams with cu_use_wgmma (gemm_sm90.cu). */
struct cu_gemm_kernel cu_gemm_sm90(const struct cu_stream *s, const struct cu_product *p);
/* Returns the kernel for weights of this type in file order (gemm_any.cu); fn NULL: none. */
struct cu_gemm_kernel cu_gemm_any(const struct cu_stream *s, const struct cu_product *p,
                                  enum qtype type);
/* Returns the kernel for exact products with weights of this type (gemm_f32.cu). Its tasks may be
 * as small as CU_LEAST_TASK tokens. */
enum { CU_LEAST_TASK = 16 };
struct cu_gemm_kernel cu_gemm_f32(const struct cu_stream *s, const struct cu_product *p,
                                  enum qtype type);

#endif
