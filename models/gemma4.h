// SPDX-License-Identifier: MIT
/* models/gemma4.h - graph fragments specific to Gemma 4 (gemma4_graph.c), used by its spec in
 * gemma4.c. */
#ifndef HONE_MODELS_GEMMA4_H
#define HONE_MODELS_GEMMA4_H

#include "models/rows.h"

// clang-format off
/* Sizes of layers and attention, and RoPE, which the drafts for Gemma 4 share with it. */
#define GEMMA4_ROWS_LAYERS \
    {"feed_forward_length", "intermediate_size", HD_FF, HPF_REQUIRED | HPF_LAYERS, 0}, \
    {"attention.head_count", "num_attention_heads", HD_HEADS, HPF_REQUIRED, 0}, \
    {NULL, "num_key_value_heads", HD_KV_HEADS, HPF_NO_KEY | HPF_WINDOWED, 0}, \
    {"attention.head_count_kv", "num_global_key_value_heads", HD_KV_HEADS, HPF_LAYERS, 0}, \
    {"attention.key_length", "global_head_dim", HD_HEAD_DIM, 0, 0}, \
    {"attention.value_length", NULL, HD_HEAD_DIM, 0, 0}, \
    {"attention.key_length_swa", "head_dim", HD_HEAD_DIM, HPF_REQUIRED | HPF_WINDOWED, 0}, \
    {"attention.value_length_swa", NULL, HD_HEAD_DIM, HPF_WINDOWED, 0}, \
    {"attention.sliding_window", "sliding_window", HD_WINDOW, HPF_REQUIRED, 0}
#define GEMMA4_ROWS_ROPE \
    {"rope.freq_base", "rope_parameters.full_attention.rope_theta", HF_ROPE_BASE, HPF_REAL, 1000000}, \
    {"rope.freq_base_swa", "rope_parameters.sliding_attention.rope_theta", HF_ROPE_BASE, HPF_REAL | HPF_WINDOWED, 10000}, \
    {"rope.dimension_count", NULL, HD_HEAD_DIM, 0, 0}, \
    {"rope.dimension_count_swa", NULL, HD_HEAD_DIM, HPF_WINDOWED, 0}
// clang-format on

gr_reg gemma4_ffn(struct build *b, const struct block_spec *s);
/* Adds the layer's per-layer input, if it has one, and the scale of its output. */
void gemma4_more(struct build *b);
void gemma4_start(struct build *b);
/* Reads settings that only config.json has: kinds of layers and their sizes, RoPE, widths.
 * ERR_DATA: unsupported option. */
int gemma4_from_hf(struct hparams *h, const struct hfdir *dir, struct err *e);
/* Sets kv_of of layers without their own keys to the last preceding layer of the same kind that has
 * them. ERR_DATA: no such layer. */
int gemma4_share(struct hparams *h, struct err *e);

#endif
