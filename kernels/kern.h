// SPDX-License-Identifier: MIT
/* kernels/kern.h - compute kernels: for each ISA, a set of function pointers per tensor type, and
 * operators on f32 activations. The scalar kernels `ref` are the permanent reference for all
 * others.
 *
 * Conventions: activations are f32, [n_tok][width], contiguous. Weights are GGUF blocks, rows of
 * ne0. Everything here is single-threaded: the runtime splits the work. */
#ifndef HONE_KERNELS_KERN_H
#define HONE_KERNELS_KERN_H

#include <stdbool.h>
#include <stdint.h>

#include "containers/qtype.h"

/* Instruction sets.
 *
 * On x86, slower ones come first. AVX2 contains ref. AVXVNNI (256 bits) and AVX512 (with its own
 * VNNI) both contain AVX2, but not each other: Alder Lake has the first, Ice Lake and Zen 4 the
 * second, Zen 5 both. AMX adds packed products for many tokens (int8) to AVX512. Once per process,
 * AMX is compared with AVX512; if the results differ, a warning is logged and AMX is not used. On
 * ARM64, NEON contains ref, and every processor there has it. DOTPROD adds packed products with
 * FEAT_DotProd to NEON, and I8MM adds those of many tokens with FEAT_I8MM to DOTPROD. */
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
const char *kern_isa_name(enum kern_isa isa); /* "ref", "avx2", ... */
/* Parses a name; "auto" means the best instruction set of this machine. False: unknown name. */
bool kern_isa_parse(const char *name, enum kern_isa *out);
/* Returns whether this machine has the instruction set and all that it contains. */
bool kern_isa_has(enum kern_isa isa);
/* Returns the best instruction set of this machine. */
enum kern_isa kern_isa_best(void);

struct kern_act; /* defined in kernels/pack.h */
/* Kernels of an instruction set for one weight type. If a function is NULL, that of an instruction
 * set contained in this one is used; if all are NULL, the type is not supported. */
struct kern_ops {
    /* Decodes n weights, a multiple of the block size, to f32. */
    void (*decode)(const void *restrict blk, float *restrict dst, int64_t n);
    /* Returns the sum of w[i] * a[i] over n. `a` is a row in the format of the type's dot
     * partner (kern_dot_partner). */
    float (*dot)(const void *restrict w, const void *restrict a, int64_t n);
    /* Computes dot for n_tok activation rows, `stride` bytes apart: sets out[t*ldo] to exactly the
     * result of dot for row t. NULL: use dot. */
    void (*dots)(const void *restrict w, const void *restrict a, uint64_t stride, int64_t n_tok,
                 float *restrict out, int64_t ldo, int64_t n);
    /* Multiplies n_groups consecutive packed groups (kernels/pack.h) of `rows` rows each by
     * n_tok tokens: out[t*ldo + row] = w . a[t]. Token t is the kern_act blocks at a + t*lda.
     * scratch has kern_gemm_scratch(rows, k) bytes and is 64-byte aligned. A result does not
     * depend on the other tokens and groups. */
    void (*gemm)(const uint8_t *w, int64_t n_groups, const struct kern_act *a, int64_t lda,
                 int64_t n_tok, float *out, int64_t ldo, int64_t k, void *scratch);
    /* Rows per packed group for gemm; 0: no packed form. */
    int rows;
    /* gemm needs AVX-512's byte permutations (VBMI); skipped on processors without them. */
    bool needs_vbmi;
};

struct kern_delta_back { /* a token's inputs; their gradients, which delta_back adds to */
    int64_t n_k, n_v;
    const float *q, *k;  /* [n_k] */
    const float *v, *dy; /* [n_v] values; gradients of the output */
    float decay, beta;
    float *dq, *dk; /* [n_k] */
    float *dv;      /* [n_v] */
    double ddecay, dbeta;
};
/* Kernels of an instruction set, filled once and const afterwards. Callers pass `const struct
 * kern *`; there is no global. */
struct kern {
    enum kern_isa isa;
    struct kern_ops op[QT_COUNT];
    /* Quantizes n values, a multiple of the block size, to an activation row of format t:
     * QT_Q8_0, QT_Q8_1, QT_Q8_K, or QT_F32, which is a copy. */
    void (*act_quant)(enum qtype t, const float *restrict x, void *restrict dst, int64_t n);

    /* Computes C[m][n] (row stride ldc) = A[m][k] . B[n][k]^T, all f32. Rows of A are tokens,
     * rows of B weights. */
    void (*gemm_f32)(const float *restrict a, int64_t lda, const float *restrict b, int64_t ldb,
                     float *restrict c, int64_t ldc, int64_t m, int64_t n, int64_t k);
    /* Computes C[m][n] += A[m][k] . B[k][n]. */
    void (*gemm_nn)(const float *restrict a, int64_t lda, const float *restrict b, int64_t ldb,
                    float *restrict c, int64_t ldc, int64_t m, int64_t n, int64_t k);
    float (*dot_f32)(const float *restrict a, const float *restrict b, int64_t n);

    /* Computes y = x * rsqrt(mean(x^2) + eps) * w. y may be x; w NULL: 1. */
    void (*rms_norm)(const float *x, const float *w, float *y, int64_t n, float eps);
    /* Multiplies x by scale / sqrt(sum x^2 + eps). */
    void (*l2_norm)(float *x, int64_t n, float eps, float scale);
    /* Computes dst = silu(gate) * up, element by element. */
    void (*swiglu)(const float *gate, const float *up, float *dst, int64_t n);
    /* Multiplies x by sigmoid(g), element by element. */
    void (*sigmoid_mul)(float *x, const float *g, int64_t n);
    /* Multiplies x by silu(z), element by element. */
    void (*silu_mul)(float *x, const float *z, int64_t n);
    /* Replaces x by its softmax, after subtracting the maximum. */
    void (*softmax)(float *x, int64_t n);
    /* Continues an online softmax with n more scores: x = exp(x - max), where *max is the largest
     * score so far (-inf initially) and *sum the sum of all exponentials. Returns the factor by
     * which the caller must rescale the results of earlier scores; *sum is already rescaled. */
    float (*softmax_more)(float *x, int64_t n, float *max, double *sum);
    /* Adds a * x to y. */
    void (*axpy)(float *restrict y, const float *restrict x, float a, int64_t n);
    /* Rotates pairs (j, j + n_rot/2), j < n_rot/2, of one head in place. cs [n_rot/2][2] holds
     * the cosine and sine of every pair at the token's position. */
    void (*rope_neox)(float *x, const float *cs, int64_t n_rot);
    /* Applies a causal per-channel convolution and SiLU to channels [c0, c1) over n_tok tokens.
     * u [n_tok][ld] is updated in place. w is [C][k]; w[..][k-1] multiplies the current token.
     * state [k-1][C] holds the previous inputs, oldest first, and is updated. bias is [C] or
     * NULL. */
    void (*conv_silu)(float *u, int64_t ld, const float *w, const float *bias, float *state,
                      int64_t n_tok, int64_t c0, int64_t c1, int64_t n_ch, int64_t k);
    /* Computes the short convolution: the product of two inputs is convolved, without SiLU, and
     * multiplied by a third input. u [n_tok][ld] holds b, c and x of C values each; o [n_tok][ldo]
     * = c * convolution of b * x, for channels [c0, c1). state holds the previous b * x. */
    void (*short_conv)(const float *u, int64_t ld, const float *w, float *state, float *o,
                       int64_t ldo, int64_t n_tok, int64_t c0, int64_t c1, int64_t n_ch, int64_t k);
    /* Runs the gated delta rule of one v head over n_tok tokens, for rows [j0, j1) of its state S
     * [dv][dk]. Token t has q and k [dk] at stride ldqk, element j of v and o at stride ldv and
     * ldo, a = decay[t*ldg] = exp(g) and beta[t*ldg].
     * p = S[j].k ; r = S[j].q ; d = beta*(v_j - a*p) ; o_j = a*r + (k.q)*d ; S[j] = a*S[j] + d*k */
    void (*delta_rows)(float *s, const float *q, const float *k, int64_t ldqk, const float *v,
                       int64_t ldv, float *o, int64_t ldo, const float *decay, const float *beta,
                       int64_t ldg, int64_t n_tok, int64_t dk, int64_t j0, int64_t j1);
    /* Runs the delta rule backward over one token. s [n_v][n_k] is the state before the token. z
     * [n_v][n_k]: on entry, the gradient of the state after the token; on return, that of s. */
    void (*delta_back)(struct kern_delta_back *j, const float *s, float *z);
    /* Runs the delta rule with a decay per column: decay [n_tok][ldd] has dk values per token.
     * S[j] = decay * S[j] elementwise; d = beta*(v_j - S[j].k) ; S[j] += d*k ; o_j = S[j].q */
    void (*kda_rows)(float *s, const float *q, const float *k, int64_t ldqk, const float *v,
                     int64_t ldv, float *o, int64_t ldo, const float *decay, int64_t ldd,
                     const float *beta, int64_t ldg, int64_t n_tok, int64_t dk, int64_t j0,
                     int64_t j1);
    /* Runs one head of Mamba 2 over n_tok tokens, for rows [j0, j1) of its state S [dv][n].
     * Token t has b and c [n] at stride ldbc, element j of x and o at stride ldx and ldo,
     * decay[t*ldg] and dt[t*ldg].
     * S[j] = decay*S[j] + dt*x_j*b ; o_j = S[j].c + skip*x_j */
    void (*mamba2_rows)(float *s, const float *b, const float *c, int64_t ldbc, const float *x,
                        int64_t ldx, float *o, int64_t ldo, const float *decay, const float *dt,
                        int64_t ldg, float skip, int64_t n_tok, int64_t n, int64_t j0, int64_t j1);
    /* Runs Mamba 1 for channels [j0, j1), each with its own row of S [C][n] and of a [C][n].
     * Element j of x, dt and o [n_tok][ld] belongs to channel j; b and c are [n_tok][ldbc]. With
     * d = softplus(dt_j):
     * S[j] = exp(d*a[j]) * S[j] + d*x_j*b ; o_j = S[j].c + skip[j]*x_j */
    void (*mamba1_rows)(float *s, const float *a, const float *skip, const float *x,
                        const float *dt, float *o, int64_t ld, const float *b, const float *c,
                        int64_t ldbc, int64_t n_tok, int64_t n, int64_t j0, int64_t j1);
};

/* Fills k with the ref kernels, then overrides them with the kernels of each ISA that `isa`
 * contains. If this machine lacks `isa`, uses the best ISA contained in it that the machine has
 * (k->isa). */
void kern_init(struct kern *k, enum kern_isa isa);
/* Returns the activation format that a weight type's dot expects. */
enum qtype kern_dot_partner(enum qtype weight);
/* Returns the scratch bytes that gemm needs for rows of k weights. */
int64_t kern_gemm_scratch(int rows, int64_t k);
/* Returns whether products with the type are supported, that is, whether it has a decode. */
bool kern_has(const struct kern *k, enum qtype t);

#endif
