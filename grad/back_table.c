// SPDX-License-Identifier: MIT
/* grad/back_table.c - table of derivatives, by operation. */
#include "grad/grad_int.h"

const struct back back_table[OP_COUNT] = {
    [OP_EMBED] = {back_embed, 0, NULL},
    [OP_RMS] = {back_rms, KEEP_SRC0, NULL},
    [OP_RMS_HEADS] = {back_rms_heads, KEEP_SRC0, NULL},
    [OP_GATED_RMS] = {back_gated_rms, KEEP_SRC0 | KEEP_SRC1, NULL},
    [OP_LAYER_NORM] = {back_layer_norm, KEEP_SRC0, NULL},
    [OP_MATMUL] = {back_matmul, KEEP_SRC0, NULL},
    [OP_MATMUL_HEADS] = {back_matmul_heads, KEEP_SRC0, NULL},
    [OP_BIAS] = {back_nothing, 0, NULL},
    [OP_ADD] = {back_add, 0, NULL},
    [OP_SPLIT_GATE] = {back_split_gate, 0, NULL},
    [OP_ROPE] = {back_rope, 0, NULL},
    [OP_ATTN] = {back_attn, KEEP_SRC0 | KEEP_SRC1 | KEEP_SRC2, can_attn},
    [OP_SIGMOID_MUL] = {back_sigmoid_mul, KEEP_SRC0 | KEEP_DST, NULL},
    [OP_MUL] = {back_mul, KEEP_SRC0 | KEEP_DST, NULL},
    [OP_CLAMP] = {back_clamp, KEEP_DST, NULL},
    [OP_FIT_HEADS] = {back_fit_heads, 0, NULL},
    [OP_CONV_SILU] = {back_conv_silu, KEEP_DST, NULL},
    [OP_SHORT_CONV] = {back_short_conv, KEEP_SRC0, NULL},
    [OP_DELTA] = {back_delta, KEEP_SRC0 | KEEP_SRC1 | KEEP_SRC2, NULL},
    [OP_SWIGLU] = {back_swiglu, KEEP_SRC0 | KEEP_SRC1, NULL},
    [OP_MOE] = {back_moe, KEEP_SRC0 | KEEP_SRC1 | KEEP_CHOICE, can_moe},
    [OP_GATE_ADD] = {back_gate_add, KEEP_SRC0 | KEEP_SRC1, NULL},
    [OP_GEGLU] = {back_geglu, KEEP_SRC0 | KEEP_SRC1, NULL},
    [OP_ACT] = {back_act, KEEP_SRC0 | KEEP_SRC1, NULL},
    [OP_SCALE] = {back_scale, 0, NULL},
    [OP_TEMPER] = {back_temper, 0, NULL},
    [OP_CONCAT] = {back_concat, 0, NULL},
    [OP_COLUMNS] = {back_columns, 0, NULL},
};
