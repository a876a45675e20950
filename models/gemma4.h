// SPDX-License-Identifier: MIT
/* models/gemma4.h - graph fragments specific to Gemma 4 (gemma4_graph.c), for its spec in
 * gemma4.c. */
#ifndef HONE_MODELS_GEMMA4_H
#define HONE_MODELS_GEMMA4_H

#include "models/rows.h"

gr_reg gemma4_ffn(struct build *b, const struct block_spec *s);
void gemma4_more(struct build *b);
void gemma4_start(struct build *b);
/* Sets kv_of: a layer without its own keys reads the keys of the last preceding layer of its kind
 * that has them. ERR_DATA: no such layer. */
int gemma4_share(struct hparams *h, struct err *e);

#endif
