// SPDX-License-Identifier: MIT
/* quantize/enc/weights.c - which weights a search minimises with, per type; lanes.c computes them.
 *
 * The field's formula is qw*sqrt(sigma*mean(x^2) + x^2): an empirical correction of what a diagonal
 * Hessian asks for, qw alone. Which one gives the lower divergence was measured per type (see
 * docs/design/quantize.md); the table below holds both. Only sqrt is used, which is exact
 * everywhere. */
#include "quantize/enc/search.h"

#include "core/attr.h"

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
    {QT_IQ1_S,   {2, 256, WP_SQ},       0, WP_RMS_ABS},
    {QT_IQ1_M,   {2, 256, WP_SQ},       0, WP_RMS_ABS},
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
