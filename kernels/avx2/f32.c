// SPDX-License-Identifier: MIT
/* kernels/avx2/f32.c - elementwise operators and norms on f32 activations, 8 lanes at a time.
 *
 * Tails of the elementwise ones go through masked loads, so that every element sees the same
 * arithmetic whatever its place. Sums are double. */
#include <math.h>

#include "kernels/avx2/avx2.h"
#include "core/fp.h"
#include "kernels/avx2/vexp.h"
#include "kernels/ops.h"

/* Lanes 0..n-1 of a group of 8 set; n may be larger. */
INLINE __m256i lanes(int64_t n) {
    const __m256i i = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n < 8 ? (int)n : 8), i);
}

static double sum_squares(const float *x, int64_t n) {
    __m256d a = _mm256_setzero_pd(), b = a;
    for (int64_t i = 0; i < n; i += 8) {
        const __m256 v =
            i + 8 <= n ? _mm256_loadu_ps(x + i) : _mm256_maskload_ps(x + i, lanes(n - i));
        const __m256d lo = _mm256_cvtps_pd(_mm256_castps256_ps128(v));
        const __m256d hi = _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));
        a = _mm256_fmadd_pd(lo, lo, a);
        b = _mm256_fmadd_pd(hi, hi, b);
    }
    double s[4];
    _mm256_storeu_pd(s, _mm256_add_pd(a, b));
    return (s[0] + s[1]) + (s[2] + s[3]);
}

static void rms_norm(const float *x, const float *w, float *y, int64_t n, float eps) {
    const float r = (float)(1.0 / sqrt(sum_squares(x, n) / (double)n + (double)eps));
    const __m256 vr = _mm256_set1_ps(r);
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const __m256 v = _mm256_mul_ps(_mm256_loadu_ps(x + i), vr);
        _mm256_storeu_ps(y + i, w ? _mm256_mul_ps(v, _mm256_loadu_ps(w + i)) : v);
    }
    for (; i < n; i++) y[i] = w ? x[i] * r * w[i] : x[i] * r;
}

static void l2_norm(float *x, int64_t n, float eps, float scale) {
    const float r = (float)((double)scale / sqrt(sum_squares(x, n) + (double)eps));
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(x + i, _mm256_mul_ps(_mm256_loadu_ps(x + i), _mm256_set1_ps(r)));
    for (; i < n; i++) x[i] *= r;
}

/* dst = f(a, b), any n; `dst` may be a or b. */
INLINE void map2(const float *a, const float *b, float *dst, int64_t n,
                 __m256 (*f)(__m256, __m256)) {
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(dst + i, f(_mm256_loadu_ps(a + i), _mm256_loadu_ps(b + i)));
    if (i < n) {
        const __m256i m = lanes(n - i);
        _mm256_maskstore_ps(dst + i, m,
                            f(_mm256_maskload_ps(a + i, m), _mm256_maskload_ps(b + i, m)));
    }
}
INLINE __m256 f_swiglu(__m256 gate, __m256 up) {
    return _mm256_mul_ps(_mm256_mul_ps(gate, vsigmoid(gate)), up);
}
INLINE __m256 f_sigmoid_mul(__m256 x, __m256 g) {
    return _mm256_mul_ps(x, vsigmoid(g));
}

static void swiglu(const float *gate, const float *up, float *dst, int64_t n) {
    map2(gate, up, dst, n, f_swiglu);
}

static void sigmoid_mul(float *x, const float *g, int64_t n) {
    map2(x, g, x, n, f_sigmoid_mul);
}

static void silu_mul(float *x, const float *z, int64_t n) {
    map2(z, x, x, n, f_swiglu);
}

/* The largest of n; -inf of none. */
static float largest(const float *x, int64_t n) {
    const __m256 low = _mm256_set1_ps(-INFINITY);
    __m256 m = low;
    for (int64_t i = 0; i < n; i += 8) {
        const __m256i l = lanes(n - i);
        const __m256 v =
            _mm256_blendv_ps(low, _mm256_maskload_ps(x + i, l), _mm256_castsi256_ps(l));
        m = _mm256_max_ps(m, v);
    }
    float part[8], max = -INFINITY;
    _mm256_storeu_ps(part, m);
    for (int i = 0; i < 8; i++) max = fmaxf(max, part[i]);
    return max;
}

/* x = exp(x - max); their sum, in double: n may be a whole vocabulary. */
static double exp_sum(float *x, int64_t n, float max) {
    __m256d s = _mm256_setzero_pd();
    for (int64_t i = 0; i < n; i += 8) {
        const __m256i l = lanes(n - i);
        __m256 v = vexp(_mm256_sub_ps(_mm256_maskload_ps(x + i, l), _mm256_set1_ps(max)));
        v = _mm256_and_ps(v, _mm256_castsi256_ps(l));
        _mm256_maskstore_ps(x + i, l, v);
        s = _mm256_add_pd(s, _mm256_add_pd(_mm256_cvtps_pd(_mm256_castps256_ps128(v)),
                                           _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1))));
    }
    double sum[4];
    _mm256_storeu_pd(sum, s);
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

static void softmax(float *x, int64_t n) {
    const float r = (float)(1.0 / exp_sum(x, n, largest(x, n)));
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(x + i, _mm256_mul_ps(_mm256_loadu_ps(x + i), _mm256_set1_ps(r)));
    for (; i < n; i++) x[i] *= r;
}

static float softmax_more(float *x, int64_t n, float *max, double *sum) {
    const float before = *max;
    *max = fmaxf(before, largest(x, n));
    if (*max == -INFINITY) { /* nothing visible yet */
        for (int64_t i = 0; i < n; i++) x[i] = 0;
        return 1;
    }
    const float less = (float)fp_exp((double)before - (double)*max);
    *sum = *sum * (double)less + exp_sum(x, n, *max);
    return less;
}

static void axpy(float *restrict y, const float *restrict x, float a, int64_t n) {
    const __m256 va = _mm256_set1_ps(a);
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(y + i,
                         _mm256_fmadd_ps(va, _mm256_loadu_ps(x + i), _mm256_loadu_ps(y + i)));
    if (i < n) {
        const __m256i m = lanes(n - i);
        const __m256 v =
            _mm256_fmadd_ps(va, _mm256_maskload_ps(x + i, m), _mm256_maskload_ps(y + i, m));
        _mm256_maskstore_ps(y + i, m, v);
    }
}

static void rope_neox(float *x, const float *cs, int64_t n_rot) {
    const int64_t h = n_rot / 2;
    int64_t j = 0;
    for (; j + 8 <= h; j += 8) {
        /* cos and sin of 8 pairs: even and odd elements of 16 */
        const __m256 p = _mm256_loadu_ps(cs + 2 * j), q = _mm256_loadu_ps(cs + 2 * j + 8);
        const __m256 lo = _mm256_permute2f128_ps(p, q, 0x20),
                     hi = _mm256_permute2f128_ps(p, q, 0x31);
        const __m256 c = _mm256_shuffle_ps(lo, hi, 0x88), s = _mm256_shuffle_ps(lo, hi, 0xdd);
        const __m256 a = _mm256_loadu_ps(x + j), b = _mm256_loadu_ps(x + j + h);
        _mm256_storeu_ps(x + j, _mm256_fmsub_ps(a, c, _mm256_mul_ps(b, s)));
        _mm256_storeu_ps(x + j + h, _mm256_fmadd_ps(a, s, _mm256_mul_ps(b, c)));
    }
    for (; j < h; j++) {
        const float c = cs[2 * j], s = cs[2 * j + 1], a = x[j], b = x[j + h];
        x[j] = a * c - b * s;
        x[j + h] = a * s + b * c;
    }
}

void kern_avx2_f32(struct kern *k) {
    k->rms_norm = rms_norm;
    k->l2_norm = l2_norm;
    k->swiglu = swiglu;
    k->sigmoid_mul = sigmoid_mul;
    k->silu_mul = silu_mul;
    k->softmax = softmax;
    k->softmax_more = softmax_more;
    k->axpy = axpy;
    k->rope_neox = rope_neox;
}
