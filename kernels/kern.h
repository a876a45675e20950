// SPDX-License-Identifier: MIT
/* kernels/kern.h - the hot loops: one row of function pointers per tensor type, and the operators
 * that work on f32 activations, each per ISA. Scalar `ref` is the oracle and stays for ever.
 *
 * Conventions: activations are f32, [n_tok][width], contiguous. Weights are GGUF blocks, rows of
 * ne0. Everything here is single-threaded: the runtime splits the work. */
#ifndef HONE_KERNELS_KERN_H
#define HONE_KERNELS_KERN_H

#include <stdbool.h>
#include <stdint.h>

#include "core/qtype.h"

/* On x86, slower ones first. AVX2 contains ref. AVXVNNI (256 bits) and AVX512 (with its own VNNI)
 * both contain AVX2, not each other: Alder Lake has the first, Ice Lake and Zen 4 the second, Zen 5
 * both. AMX adds packed products of many tokens (int8) to AVX512; it is not used when they differ
 * from AVX512's in a trial, made once per process, which warns.
 *
 * On ARM64: NEON, which every processor there has, contains ref; DOTPROD adds packed products by
 * FEAT_DotProd to NEON, I8MM those of many tokens by FEAT_I8MM to that. */
enum kern_isa {
    KERN_REF,
    KERN_AVX2,
    KERN_AVXVNNI,
    KERN_AVX512,
    KERN_AMX,
    KERN_NEON,
    KERN_DOTPROD,
    KERN_I8MM,
    KERN_ISA_COUNT
};
#define KERN_ISA_NAMES "auto, ref, avx2, avxvnni, avx512, amx, neon, dotprod, i8mm"
const char *kern_isa_name(enum kern_isa isa);              /* "ref", "avx2", ... */
bool kern_isa_parse(const char *name, enum kern_isa *out); /* also "auto" -> best of this machine */
bool kern_isa_has(enum kern_isa isa);                      /* this machine, with all it contains */
enum kern_isa kern_isa_best(void);                         /* the last one that this machine has */

struct kern_act;  /* kernels/pack.h */
struct kern_ops { /* of one weight type; NULL: that of an ISA contained in this one is used, or the
                     type is not computed */
    /* n weights (a multiple of the block) -> f32 */
    void (*decode)(const void *restrict blk, float *restrict dst, int64_t n);
    /* sum of w[i]*a[i] over n; `a` is a row in the type's dot partner format (below) */
    float (*dot)(const void *restrict w, const void *restrict a, int64_t n);
    /* The same with n_tok activation rows that lie `stride` bytes apart: out[t*ldo] gets the bits
     * that dot gives for row t. Of an ISA that has a dot; NULL: dot is all there is. */
    void (*dots)(const void *restrict w, const void *restrict a, uint64_t stride, int64_t n_tok,
                 float *restrict out, int64_t ldo, int64_t n);
    /* n_groups packed groups (kernels/pack.h) of `rows` rows, one after the other, with n_tok
     * tokens: out[t*ldo + row] = w . a[t]. a: kern_act blocks, token t at a + t*lda; scratch:
     * kern_gemm_scratch(rows, k) bytes, 64-byte aligned. A result does not depend on the other
     * tokens and groups. */
    void (*gemm)(const uint8_t *w, int64_t n_groups, const struct kern_act *a, int64_t lda,
                 int64_t n_tok, float *out, int64_t ldo, int64_t k, void *scratch);
    int rows;        /* of a packed group that this gemm reads; 0: no packed form */
    bool needs_vbmi; /* of AVX-512: left out where the processor lacks its permutations of bytes */
};

struct kern { /* filled once, then const; pass `const struct kern *`, no global */
    enum kern_isa isa;
    struct kern_ops op[QT_COUNT];
    /* f32 row -> activation row in format t (QT_Q8_0, QT_Q8_1, QT_Q8_K, QT_F32: memcpy). n a
     * multiple of the block. */
    void (*act_quant)(enum qtype t, const float *restrict x, void *restrict dst, int64_t n);

    /* C[m][n] (row stride ldc) = A[m][k] . B[n][k]^T, all f32 (rows of A: tokens, of B: weights).
     */
    void (*gemm_f32)(const float *restrict a, int64_t lda, const float *restrict b, int64_t ldb,
                     float *restrict c, int64_t ldc, int64_t m, int64_t n, int64_t k);
    /* C[m][n] += A[m][k] . B[k][n] */
    void (*gemm_nn)(const float *restrict a, int64_t lda, const float *restrict b, int64_t ldb,
                    float *restrict c, int64_t ldc, int64_t m, int64_t n, int64_t k);
    float (*dot_f32)(const float *restrict a, const float *restrict b, int64_t n);

    /* y = x * rsqrt(mean(x^2) + eps) * w; w NULL: 1. In place is fine. */
    void (*rms_norm)(const float *x, const float *w, float *y, int64_t n, float eps);
    /* x in place * 1/sqrt(sum x^2 + eps) * scale */
    void (*l2_norm)(float *x, int64_t n, float eps, float scale);
    /* dst = silu(gate) * up, elementwise */
    void (*swiglu)(const float *gate, const float *up, float *dst, int64_t n);
    /* x *= sigmoid(g) elementwise */
    void (*sigmoid_mul)(float *x, const float *g, int64_t n);
    /* x *= silu(z) elementwise */
    void (*silu_mul)(float *x, const float *z, int64_t n);
    void (*softmax)(float *x, int64_t n); /* in place, max subtracted */
    /* n more scores of a softmax that is made piece by piece: x = exp(x - max), *max the largest so
     * far (-inf before the first), *sum the sum of the exponentials. Returns by what everything
     * made of earlier pieces is to be multiplied (*sum is already). */
    float (*softmax_more)(float *x, int64_t n, float *max, double *sum);
    /* y += a * x */
    void (*axpy)(float *restrict y, const float *restrict x, float a, int64_t n);
    /* Rotates pairs (j, j + n_rot/2), j < n_rot/2, of one head in place; cs = cos,sin interleaved
     * [n_rot/2][2] for the token's position. */
    void (*rope_neox)(float *x, const float *cs, int64_t n_rot);
    /* Causal depthwise convolution over n_tok tokens, then SiLU. u [n_tok][ld] is updated in place
     * for channels [c0, c1); w [C][k] (w[..][k-1] multiplies the current token), bias [C] or NULL;
     * state [k-1][C] holds the previous raw inputs, oldest first, and is updated. */
    void (*conv_silu)(float *u, int64_t ld, const float *w, const float *bias, float *state,
                      int64_t n_tok, int64_t c0, int64_t c1, int64_t n_ch, int64_t k);
    /* The same without SiLU, of products and times a factor: u [n_tok][ld] holds b | c | x of C
     * values each; o [n_tok][ldo] = c * convolution of b * x, for channels [c0, c1); state holds
     * the previous b * x. */
    void (*short_conv)(const float *u, int64_t ld, const float *w, float *state, float *o,
                       int64_t ldo, int64_t n_tok, int64_t c0, int64_t c1, int64_t n_ch, int64_t k);
    /* Gated delta rule of one v head over n_tok tokens, rows [j0, j1) of its state. S [dv][dk]
     * (row j = value index, key index contiguous). Per token t: q,k [dk] at stride ldqk, v,o at
     * stride ldv/ldo (element j), decay[t*ldg] = exp(g), beta[t*ldg]. p = S[j].k ; r = S[j].q ; d =
     * beta*(v_j - a*p) ; o_j = a*r + (k.q)*d ; S[j] = a*S[j] + d*k */
    void (*delta_rows)(float *s, const float *q, const float *k, int64_t ldqk, const float *v,
                       int64_t ldv, float *o, int64_t ldo, const float *decay, const float *beta,
                       int64_t ldg, int64_t n_tok, int64_t dk, int64_t j0, int64_t j1);
    /* The same with a decay for each column: decay [n_tok][ldd] of dk numbers. S[j] = decay * S[j]
     * elementwise; d = beta*(v_j - S[j].k) ; S[j] += d*k ; o_j = S[j].q */
    void (*kda_rows)(float *s, const float *q, const float *k, int64_t ldqk, const float *v,
                     int64_t ldv, float *o, int64_t ldo, const float *decay, int64_t ldd,
                     const float *beta, int64_t ldg, int64_t n_tok, int64_t dk, int64_t j0,
                     int64_t j1);
    /* Mamba 2: one head over n_tok tokens, rows [j0, j1) of its state S [dv][n]. Per token t: b, c
     * [n] at stride ldbc, x, o at stride ldx/ldo (element j), decay[t*ldg], dt[t*ldg]: S[j] =
     * decay*S[j] + dt*x_j*b ; o_j = S[j].c + skip*x_j */
    void (*mamba2_rows)(float *s, const float *b, const float *c, int64_t ldbc, const float *x,
                        int64_t ldx, float *o, int64_t ldo, const float *decay, const float *dt,
                        int64_t ldg, float skip, int64_t n_tok, int64_t n, int64_t j0, int64_t j1);
    /* Mamba 1: channels [j0, j1), each with its own row of S [C][n] and of a [C][n]; x, dt, o
     * [n_tok][ld] (element j), b and c [n_tok][ldbc]. With d = softplus(dt_j): S[j] = exp(d*a[j]) *
     * S[j] + d*x_j*b ; o_j = S[j].c + skip[j]*x_j */
    void (*mamba1_rows)(float *s, const float *a, const float *skip, const float *x,
                        const float *dt, float *o, int64_t ld, const float *b, const float *c,
                        int64_t ldbc, int64_t n_tok, int64_t n, int64_t j0, int64_t j1);
};

/* Copies the ref rows, then lays the non-NULL entries of each ISA that `isa` contains over them.
 * One that this machine lacks: the largest part of it that it has (k->isa). */
void kern_init(struct kern *k, enum kern_isa isa);
/* The activation format a weight type's dot expects. */
enum qtype kern_dot_partner(enum qtype weight);
/* Bytes of scratch that gemm needs for rows of k weights. */
int64_t kern_gemm_scratch(int rows, int64_t k);
/* True when the type can be computed with (decode is there). */
bool kern_has(const struct kern *k, enum qtype t);

#endif
