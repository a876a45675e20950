// SPDX-License-Identifier: MIT
/* quantize/enc/enc.c - the table of encoders: a type that is not here cannot be written. */
#include "quantize/enc/types.h"

#include <stddef.h>

static const struct enc *const table[QT_COUNT] = {
    // clang-format off
    [QT_F32] = &enc_type_f32,
    [QT_F16] = &enc_type_f16,
    [QT_BF16] = &enc_type_bf16,
    [QT_Q8_0] = &enc_type_q8_0,
    [QT_Q4_0] = &enc_type_q4_0,
    [QT_Q4_1] = &enc_type_q4_1,
    [QT_Q5_0] = &enc_type_q5_0,
    [QT_Q5_1] = &enc_type_q5_1,
    [QT_Q2_K] = &enc_type_q2_k,
    [QT_Q3_K] = &enc_type_q3_k,
    [QT_Q4_K] = &enc_type_q4_k,
    [QT_Q5_K] = &enc_type_q5_k,
    [QT_Q6_K] = &enc_type_q6_k,
    [QT_IQ4_NL] = &enc_type_iq4_nl,
    [QT_IQ4_XS] = &enc_type_iq4_xs,
    [QT_IQ3_XXS] = &enc_type_iq3_xxs,
    [QT_IQ3_S] = &enc_type_iq3_s,
    [QT_IQ2_XXS] = &enc_type_iq2_xxs,
    [QT_IQ2_XS] = &enc_type_iq2_xs,
    [QT_IQ2_S] = &enc_type_iq2_s,
    [QT_IQ1_S] = &enc_type_iq1_s,
    [QT_IQ1_M] = &enc_type_iq1_m,
    [QT_MXFP4] = &enc_type_mxfp4,
    [QT_NVFP4] = &enc_type_nvfp4,
    [QT_Q1_0] = &enc_type_q1_0,
    [QT_Q2_0] = &enc_type_q2_0,
    [QT_TQ1_0] = &enc_type_tq1_0,
    [QT_TQ2_0] = &enc_type_tq2_0,
    // clang-format on
};

const struct enc *enc_find(enum qtype t) {
    return (unsigned)t < QT_COUNT ? table[t] : NULL;
}
