// SPDX-License-Identifier: MIT
/* models/gemma4.h - graph fragments specific to Gemma 4 (gemma4_graph.c), used by its spec in
 * gemma4.c. */
#ifndef HONE_MODELS_GEMMA4_H
#define HONE_MODELS_GEMMA4_H

#include "models/rows.h"

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
