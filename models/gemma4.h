// SPDX-License-Identifier: MIT
/* models/gemma4.h - Gemma 4's table (gemma4.c) and its graph (gemma4_graph.c). */
#ifndef HONE_MODELS_GEMMA4_H
#define HONE_MODELS_GEMMA4_H

#include "models/part.h"

int gemma4_build(const struct arch *a, const struct hparams *h, struct graph *g, struct err *e);

#endif
