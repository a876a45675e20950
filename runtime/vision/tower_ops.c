// SPDX-License-Identifier: MIT
/* runtime/vision/tower_ops.c - operations of towers on a few rows: products, norms, activations. */
#include <math.h>
#include <string.h>

#include "base/fp.h"
#include "base/num.h"
#include "runtime/vision/tower_int.h"

/* Copies n values, limited to a range. */
static void clamp(const float *x, float *y, int64_t n, const float range[2]) {
    for (int64_t i = 0; i < n; i++) y[i] = fminf(fmaxf(x[i], range[0]), range[1]);
}

void tower_product(const struct vision_tower *v, const struct tower_mat *m, const float *x,
                   int64_t n, float *y, int64_t ldy, float *panel, float *spare) {
    const int64_t bytes = (int64_t)qtype_row_bytes(m->type, m->in);
    /* Kernels take 4 or 6 rows at a time. */
    const int64_t rows = v->panel / m->in / TOWER_PANEL * TOWER_PANEL;
    if (m->clipped) {
        clamp(x, spare, n * m->in, m->clip);
        x = spare;
    }
    for (int64_t r = 0; r < m->out; r += rows) {
        const int64_t nr = min_i64(rows, m->out - r);
        const float *w = m->floats ? m->floats + r * m->in : panel;
        if (!m->floats) v->kern.op[m->type].decode(m->blocks + r * bytes, panel, nr * m->in);
        v->kern.gemm_f32(x, m->in, w, m->in, y + r, ldy, n, nr, m->in);
    }
    for (int64_t i = 0; i < n && (m->bias || m->clipped); i++) {
        if (m->bias) v->kern.axpy(y + i * ldy, m->bias, 1, m->out);
        if (m->clipped) clamp(y + i * ldy, y + i * ldy, m->out, m->clip + 2);
    }
}

/* Multiplies x by sigmoid(u) where u is scale * (x + cube * x^3). */
static void swish(const struct kern *k, float *x, int64_t n, float scale, float cube) {
    enum { PIECE = 256 };
    float u[PIECE];
    for (int64_t at = 0; at < n; at += PIECE) {
        const int64_t m = min_i64(PIECE, n - at);
        for (int64_t i = 0; i < m; i++) {
            const float a = x[at + i];
            u[i] = scale * (a + cube * (a * a * a));
        }
        k->sigmoid_mul(x + at, u, m);
    }
}

void tower_act(const struct vision_tower *v, int kind, float *x, int64_t n) {
    switch (kind) {
    case ACT_GELU: /* 0.5 (1 + tanh(u)) is sigmoid(2u) */
        swish(&v->kern, x, n, 1.59576912160573f, 0.044715f);
        break;
    case ACT_QUICK:
        swish(&v->kern, x, n, 1.702f, 0);
        break;
    case ACT_SILU:
        swish(&v->kern, x, n, 1, 0);
        break;
    case ACT_ERF:
        for (int64_t i = 0; i < n; i++)
            x[i] = .5f * x[i] * (1 + fp_erff(x[i] * 0.70710678118654752f));
        break;
    default:
        break;
    }
}

/* Normalises a row to mean 0 and variance 1. Sums are double: the mean may be large. */
static void layer_norm(float *x, int64_t n, const float *w, const float *b, float eps) {
    double mean = 0, var = 0;
    for (int64_t i = 0; i < n; i++) mean += (double)x[i];
    mean /= (double)n;
    for (int64_t i = 0; i < n; i++) var += ((double)x[i] - mean) * ((double)x[i] - mean);
    const double r = 1 / sqrt(var / (double)n + (double)eps);
    for (int64_t i = 0; i < n; i++) {
        float y = (float)(((double)x[i] - mean) * r);
        if (w) y *= w[i];
        x[i] = b ? y + b[i] : y;
    }
}

void tower_norm(const struct vision_tower *v, int kind, float *x, int64_t n, int64_t width,
                const float *w, const float *b, float eps) {
    for (int64_t i = 0; i < n; i++, x += width)
        if (kind == NORM_LAYER)
            layer_norm(x, width, w, b, eps);
        else
            v->kern.rms_norm(x, w, x, width, eps);
}
