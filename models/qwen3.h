// SPDX-License-Identifier: MIT
/* models/qwen3.h - what the dense and MoE forms of Qwen3 share: all but the feed-forward. Full
 * attention everywhere with per-head norms and rope over the whole head; no weight is transformed.
 */
#ifndef HONE_MODELS_QWEN3_H
#define HONE_MODELS_QWEN3_H

#include "models/part.h"

int qwen3_derive(struct hparams *h, struct err *e);
int qwen3_from_hf(struct hparams *h, const struct hfdir *dir, struct err *e);
int qwen3_decoder(const struct arch *a, const struct hparams *h, struct graph *g, part_fn ffn,
                  struct err *e);

// clang-format off
#define QWEN3_NORM_ROWS                                                                                                                       \
    {"blk.%d.attn_norm.weight", HF_LAYER("input_layernorm.weight"), {HD_EMBD}, XF_COPY, 0, ROLE_OTHER, W_ALL, TR_F32},                        \
    {"blk.%d.ffn_norm.weight", HF_LAYER("post_attention_layernorm.weight"), {HD_EMBD}, XF_COPY, 0, ROLE_OTHER, W_ALL, TR_F32}
// clang-format on

#endif
