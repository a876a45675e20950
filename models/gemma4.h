// SPDX-License-Identifier: MIT
/* models/gemma4.h - what the graph of Gemma 4 has of its own (gemma4_graph.c), for its spec in
 * gemma4.c. */
#ifndef HONE_MODELS_GEMMA4_H
#define HONE_MODELS_GEMMA4_H

#include "models/rows.h"

gr_reg gemma4_ffn(struct build *b, const struct block_spec *s);
void gemma4_more(struct build *b);
void gemma4_start(struct build *b);
/* Sets kv_of: a layer without keys of its own reads those of the last one before it of its kind
 * that has them. ERR_DATA: there is none. */
int gemma4_share(struct hparams *h, struct err *e);

#endif
