// SPDX-License-Identifier: MIT
/* kernels/f32/f32.h - element-wise operators and norms on f32 activations, 8 lanes at a time.
 *
 * Included once by the f32.c of every ISA with an f8.h, after that header. All ISAs run the same
 * operations in the same order, so the results have the same bits. Tails of element-wise operators
 * use partial loads, so the arithmetic does not depend on an element's position. Sums are
 * double. */
#include <math.h>

#include "base/fp.h"
#include "kernels/f32/vexp.h"
#include "kernels/ops.h"

static double sum_squares(const float *x, int64_t n) {
    d4 a = d_zero(), b = a;
    for (int64_t i = 0; i < n; i += 8) {
        const f8 v = i + 8 <= n ? f_load(x + i) : f_load_some(x + i, f_first(n - i));
        const d4 lo = d_low(v), hi = d_high(v);
        a = d_fma(lo, lo, a);
        b = d_fma(hi, hi, b);
    }
    return d_sum(d_add(a, b));
}

static void rms_norm(const float *x, const float *w, float *y, int64_t n, float eps) {
    const float r = (float)(1.0 / sqrt(sum_squares(x, n) / (double)n + (double)eps));
    const f8 vr = f_set(r);
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const f8 v = f_mul(f_load(x + i), vr);
        f_store(y + i, w ? f_mul(v, f_load(w + i)) : v);
    }
    for (; i < n; i++) y[i] = w ? x[i] * r * w[i] : x[i] * r;
}

static void l2_norm(float *x, int64_t n, float eps, float scale) {
    const float r = (float)((double)scale / sqrt(sum_squares(x, n) + (double)eps));
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) f_store(x + i, f_mul(f_load(x + i), f_set(r)));
    for (; i < n; i++) x[i] *= r;
}

/* Computes dst = f(a, b) for any n; `dst` may be a or b. */
INLINE void map2(const float *a, const float *b, float *dst, int64_t n, f8 (*f)(f8, f8)) {
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) f_store(dst + i, f(f_load(a + i), f_load(b + i)));
    if (i < n) {
        const some m = f_first(n - i);
        f_store_some(dst + i, m, f(f_load_some(a + i, m), f_load_some(b + i, m)));
    }
}
INLINE f8 f_swiglu(f8 gate, f8 up) {
    return f_mul(f_mul(gate, vsigmoid(gate)), up);
}
INLINE f8 f_sigmoid_mul(f8 x, f8 g) {
    return f_mul(x, vsigmoid(g));
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

/* Returns the largest of n values, -inf for n = 0. */
static float largest(const float *x, int64_t n) {
    const f8 low = f_set(-INFINITY);
    f8 m = low;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) m = f_max(m, f_load(x + i));
    if (i < n) {
        const some l = f_first(n - i);
        m = f_max(m, f_or_else(l, f_load_some(x + i, l), low));
    }
    float part[8], max = -INFINITY;
    f_store(part, m);
    for (int k = 0; k < 8; k++) max = fmaxf(max, part[k]);
    return max;
}

/* Replaces x by exp(x - max) and returns the sum, in double because n may be a whole vocabulary. */
static double exp_sum(float *x, int64_t n, float max) {
    d4 s = d_zero();
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const f8 v = vexp(f_sub(f_load(x + i), f_set(max)));
        f_store(x + i, v);
        s = d_add(s, d_add(d_low(v), d_high(v)));
    }
    if (i < n) {
        const some l = f_first(n - i);
        const f8 v = f_or_else(l, vexp(f_sub(f_load_some(x + i, l), f_set(max))), f_set(0));
        f_store_some(x + i, l, v);
        s = d_add(s, d_add(d_low(v), d_high(v)));
    }
    return d_sum(s);
}

static void softmax(float *x, int64_t n) {
    const float r = (float)(1.0 / exp_sum(x, n, largest(x, n)));
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) f_store(x + i, f_mul(f_load(x + i), f_set(r)));
    for (; i < n; i++) x[i] *= r;
}

static float softmax_more(float *x, int64_t n, float *max, double *sum) {
    const float before = *max;
    *max = fmaxf(before, largest(x, n));
    if (*max == -INFINITY) { /* no scores yet, or all masked */
        for (int64_t i = 0; i < n; i++) x[i] = 0;
        return 1;
    }
    const float less = (float)fp_exp((double)before - (double)*max);
    *sum = fma(*sum, (double)less, exp_sum(x, n, *max));
    return less;
}

static void axpy(float *restrict y, const float *restrict x, float a, int64_t n) {
    const f8 va = f_set(a);
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) f_store(y + i, f_fma(va, f_load(x + i), f_load(y + i)));
    if (i < n) {
        const some m = f_first(n - i);
        const f8 v = f_fma(va, f_load_some(x + i, m), f_load_some(y + i, m));
        f_store_some(y + i, m, v);
    }
}

static void rope_neox(float *x, const float *cs, int64_t n_rot) {
    const int64_t h = n_rot / 2;
    int64_t j = 0;
    for (; j + 8 <= h; j += 8) {
        f8 c, s;
        f_even_odd(cs + 2 * j, &c, &s);
        const f8 a = f_load(x + j), b = f_load(x + j + h);
        f_store(x + j, f_fms(a, c, f_mul(b, s)));
        f_store(x + j + h, f_fma(a, s, f_mul(b, c)));
    }
    for (; j < h; j++) {
        const float c = cs[2 * j], s = cs[2 * j + 1], a = x[j], b = x[j + h];
        x[j] = __builtin_fmaf(a, c, -(b * s));
        x[j + h] = __builtin_fmaf(a, s, b * c);
    }
}

static void put_f32(struct kern *k) {
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
