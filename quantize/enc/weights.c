// SPDX-License-Identifier: MIT
/* quantize/enc/weights.c - from column importance to the weights a search minimises with.
 *
 * The field's formula is qw*sqrt(sigma*mean(x^2) + x^2): an empirical correction of what a diagonal
 * Hessian asks for, qw alone. Which one gives the lower divergence was measured per type (see
 * docs/design/quantize.md); the table below holds both. Only sqrt is used, which is exact
 * everywhere. */
#include "quantize/enc/search.h"

#include <math.h>

#include "core/attr.h"
#include "core/fp.h"

struct wrow {
    enum qtype type;
    struct wrule conventional;
    int best_sigma; /* fast and best */
    enum wplain best_plain;
};
// clang-format off
static const struct wrow rows[] = {
    /* type       sigma scope no importance     chosen: sigma, no importance */
    {QT_Q4_0,    {1, 0,   WP_ONE},      0, WP_RMS_ABS},
    {QT_Q4_1,    {1, 0,   WP_ONE},      0, WP_RMS_ABS},
    {QT_Q5_0,    {1, 0,   WP_ONE},      0, WP_RMS_ABS},
    {QT_Q5_1,    {1, 0,   WP_ONE},      0, WP_RMS_ABS},
    {QT_Q8_0,    {0, 0,   WP_ONE},      0, WP_ONE},
    {QT_Q2_K,    {1, 256, WP_ABS},      1, WP_RMS_ABS},
    {QT_Q3_K,    {2, 256, WP_SQ},       0, WP_RMS_ABS},
    {QT_Q4_K,    {2, 256, WP_RMS_ABS},  0, WP_RMS_ABS},
    {QT_Q5_K,    {2, 256, WP_RMS_ABS},  0, WP_RMS_ABS},
    {QT_Q6_K,    {0, 256, WP_SQ},       0, WP_RMS_ABS},
    {QT_IQ4_NL,  {2, 32,  WP_SQ},       0, WP_RMS_ABS},
    {QT_IQ4_XS,  {2, 256, WP_SQ},       0, WP_RMS_ABS},
    {QT_IQ3_XXS, {2, 256, WP_SQ},       0, WP_RMS_ABS},
    {QT_IQ3_S,   {2, 256, WP_SQ},       0, WP_RMS_ABS},
    {QT_IQ2_XXS, {1, 256, WP_SQ},       0, WP_RMS_ABS},
    {QT_IQ2_XS,  {1, 256, WP_SQ},       0, WP_RMS_ABS},
    {QT_IQ2_S,   {2, 256, WP_SQ},       0, WP_RMS_ABS},
    {QT_MXFP4,   {0, 32,  WP_ONE},      0, WP_RMS_ABS},
    {QT_NVFP4,   {0, 64,  WP_ONE},      0, WP_RMS_ABS},
    {QT_Q1_0,    {0, 128, WP_ONE},      0, WP_ONE},
    {QT_Q2_0,    {0, 64,  WP_ONE},      0, WP_RMS_ABS},
    {QT_TQ1_0,   {0, 256, WP_ONE},      0, WP_RMS_ABS},
    {QT_TQ2_0,   {0, 256, WP_ONE},      0, WP_RMS_ABS},
};
// clang-format on

struct wrule enc_wrule(enum qtype t, enum search search) {
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (rows[i].type != t) continue;
        struct wrule r = rows[i].conventional;
        if (search != SEARCH_CONVENTIONAL) {
            r.sigma = rows[i].best_sigma;
            r.plain = rows[i].best_plain;
        }
        return r;
    }
    return (struct wrule){0, 256, WP_ONE};
}

float enc_mean2(const float *x, int64_t n) {
    double s = 0;
    for (int64_t i = 0; i < n; i++) s += (double)x[i] * (double)x[i];
    return (float)fmin(s / (double)n, 1e30);
}

/* The power of two that brings x > 0 into [1, 2). */
static float unit_scale(float x) {
    int e = (int)(fp_bits(x) >> 23) - 127; /* subnormal: -127 */
    if (e > 126) e = 126;
    if (e < -126) e = -126;
    return fp_from_bits((uint32_t)(127 - e) << 23);
}

static void plain_weights(float *w, const float *x, int n, enum wplain kind, int sub) {
    for (int b = 0; b < n; b += sub) {
        float rms = kind == WP_RMS_ABS ? sqrtf(enc_mean2(x + b, sub)) : 0;
        for (int i = b; i < b + sub; i++) {
            float a = fabsf(x[i]);
            w[i] = kind == WP_ONE ? 1.0f : kind == WP_SQ ? a * a : rms + a;
        }
    }
}

void enc_weights(float *w, const float *x, const float *imp, int n, const struct wrule *r,
                 float mean2, int sub) {
    float top = 0;
    if (imp) {
        float imp_top = 0;
        for (int i = 0; i < n; i++)
            if (imp[i] > imp_top) imp_top = imp[i];
        float s = imp_top > 0 ? unit_scale(imp_top) : 1.0f; /* keeps the products in range */
        for (int i = 0; i < n; i++) {
            float q = imp[i] > 0 ? imp[i] * s : 0;
            w[i] = r->sigma ? q * sqrtf((float)r->sigma * mean2 + x[i] * x[i]) : q;
        }
    } else {
        plain_weights(w, x, n, r->plain, sub);
    }
    for (int i = 0; i < n; i++)
        if (w[i] > top) top = w[i];
    if (!(top > 0)) {
        for (int i = 0; i < n; i++) w[i] = 1;
        return;
    }
    float s = unit_scale(top);
    for (int i = 0; i < n; i++) {
        w[i] *= s;
        if (w[i] < 0x1p-30f) w[i] = 0x1p-30f;
    }
}
