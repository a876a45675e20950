// SPDX-License-Identifier: MIT
/* models/draft.h - helpers for architectures that draft tokens for another model. */
#ifndef HONE_MODELS_DRAFT_H
#define HONE_MODELS_DRAFT_H

#include "models/rows.h"

/* Sets HD_TARGET_EMBD, unless config.json has it, to the width of the draft's model. ERR_DATA: the
 * model in the folder of --target-model-dir has another width or vocabulary. */
int draft_target_hf(struct hparams *h, const struct hfdir *dir, struct err *e);
/* Sets the layers that the draft reads from a list of numbers, each increased by `more`. ERR_DATA:
 * also if the model in the folder of --target-model-dir has fewer layers. */
int draft_layers_hf(struct hparams *h, const struct hfdir *dir, const struct json *list,
                    int64_t more, struct err *e);
/* Write and read ARCH.target_layers. Reading also sets HD_DRAFT_VOCAB, from the tensor d2t. */
void draft_layers_write(const struct hparams *h, const char *arch, struct gguf_w *w);
int draft_layers_read(struct hparams *h, const char *arch, const struct gguf *g, struct err *e);
/* Derives the width of the features and the number of tokens to draft. */
int draft_derive(struct hparams *h, struct err *e);

#endif
