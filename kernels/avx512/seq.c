// SPDX-License-Identifier: MIT
/* kernels/avx512/seq.c - the gated delta rule with 16 lanes: 8 rows of the state at a time stay in
 * L1 over all tokens, and share the loads of k and q. A row's arithmetic does not depend on which
 * rows share its group. */
#include "kernels/avx512/avx512.h"
#include "kernels/ops.h"

/* TOK: tokens whose k.q fit on the stack; ROWS: rows per group. */
enum { TOK = 64, ROWS = 8 };

INLINE float dot(const float *a, const float *b, int64_t n) {
    __m512 s = _mm512_setzero_ps();
    for (int64_t i = 0; i < n; i += 16)
        s = _mm512_fmadd_ps(_mm512_loadu_ps(a + i), _mm512_loadu_ps(b + i), s);
    return hsum512(s);
}

/* Applies one token to `rows` rows of the state. dk is a multiple of 16. */
INLINE void step(int rows, float *s, const float *q, const float *k, const float *v, float *o,
                 float a, float beta, float kq, int64_t dk) {
    __m512 p[ROWS], r[ROWS], d[ROWS];
    UNROLL for (int j = 0; j < rows; j++) p[j] = r[j] = _mm512_setzero_ps();
    for (int64_t i = 0; i < dk; i += 16) {
        const __m512 kv = _mm512_loadu_ps(k + i), qv = _mm512_loadu_ps(q + i);
        UNROLL for (int j = 0; j < rows; j++) {
            const __m512 sv = _mm512_loadu_ps(s + j * dk + i);
            p[j] = _mm512_fmadd_ps(sv, kv, p[j]);
            r[j] = _mm512_fmadd_ps(sv, qv, r[j]);
        }
    }
    UNROLL for (int j = 0; j < rows; j++) {
        const float dj = beta * __builtin_fmaf(-a, hsum512(p[j]), v[j]);
        o[j] = __builtin_fmaf(kq, dj, a * hsum512(r[j]));
        d[j] = _mm512_set1_ps(dj);
    }
    const __m512 av = _mm512_set1_ps(a);
    for (int64_t i = 0; i < dk; i += 16) {
        const __m512 kv = _mm512_loadu_ps(k + i);
        UNROLL for (int j = 0; j < rows; j++) {
            float *at = s + j * dk + i;
            _mm512_storeu_ps(at, _mm512_fmadd_ps(d[j], kv, _mm512_mul_ps(av, _mm512_loadu_ps(at))));
        }
    }
}

/* Runs the delta rule for rows [j0, j1) of the state; uses AVX2 if dk is not a multiple of 16. */
static void delta_rows(float *s, const float *q, const float *k, int64_t ldqk, const float *v,
                       int64_t ldv, float *o, int64_t ldo, const float *decay, const float *beta,
                       int64_t ldg, int64_t n_tok, int64_t dk, int64_t j0, int64_t j1) {
    if (dk % 16) {
        struct kern lower = {.isa = KERN_AVX2};
        kern_avx2_seq(&lower);
        lower.delta_rows(s, q, k, ldqk, v, ldv, o, ldo, decay, beta, ldg, n_tok, dk, j0, j1);
        return;
    }
    for (int64_t t0 = 0; t0 < n_tok; t0 += TOK) {
        const int64_t t1 = n_tok < t0 + TOK ? n_tok : t0 + TOK;
        float kq[TOK];
        for (int64_t t = t0; t < t1; t++) kq[t - t0] = dot(k + t * ldqk, q + t * ldqk, dk);
        int64_t j = j0;
        for (; j + ROWS <= j1; j += ROWS)
            for (int64_t t = t0; t < t1; t++)
                step(ROWS, s + j * dk, q + t * ldqk, k + t * ldqk, v + t * ldv + j, o + t * ldo + j,
                     decay[t * ldg], beta[t * ldg], kq[t - t0], dk);
        for (; j < j1; j++)
            for (int64_t t = t0; t < t1; t++)
                step(1, s + j * dk, q + t * ldqk, k + t * ldqk, v + t * ldv + j, o + t * ldo + j,
                     decay[t * ldg], beta[t * ldg], kq[t - t0], dk);
    }
}

void kern_avx512_seq(struct kern *k) {
    k->delta_rows = delta_rows;
}
