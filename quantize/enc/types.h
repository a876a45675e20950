// SPDX-License-Identifier: MIT
/* quantize/enc/types.h - the encoder of each type; enc.c is the table. */
#ifndef HONE_QUANTIZE_ENC_TYPES_H
#define HONE_QUANTIZE_ENC_TYPES_H

#include "quantize/enc/enc.h"

extern const struct enc enc_type_f32;
extern const struct enc enc_type_f16;
extern const struct enc enc_type_bf16;
extern const struct enc enc_type_q8_0;
extern const struct enc enc_type_q4_0;
extern const struct enc enc_type_q4_1;
extern const struct enc enc_type_q5_0;
extern const struct enc enc_type_q5_1;
extern const struct enc enc_type_q2_k;
extern const struct enc enc_type_q3_k;
extern const struct enc enc_type_q4_k;
extern const struct enc enc_type_q5_k;
extern const struct enc enc_type_q6_k;
extern const struct enc enc_type_iq4_nl;
extern const struct enc enc_type_iq4_xs;
extern const struct enc enc_type_iq3_xxs;
extern const struct enc enc_type_iq3_s;
extern const struct enc enc_type_iq2_xxs;
extern const struct enc enc_type_iq2_xs;
extern const struct enc enc_type_iq2_s;
extern const struct enc enc_type_iq1_s;
extern const struct enc enc_type_iq1_m;
extern const struct enc enc_type_mxfp4;
extern const struct enc enc_type_nvfp4;
extern const struct enc enc_type_q1_0;
extern const struct enc enc_type_q2_0;
extern const struct enc enc_type_tq1_0;
extern const struct enc enc_type_tq2_0;

#endif
