// SPDX-License-Identifier: MIT
/* convert/lora.h - a LoRA adapter folder of peft (adapter_config.json, adapter_model.safetensors),
 * added to the weights while they are converted: w + scale * B A, in f32, before any transform.
 * scale is lora_alpha / r, or lora_alpha / sqrt(r) with use_rslora. Inner to convert/. */
#ifndef HONE_CONVERT_LORA_H
#define HONE_CONVERT_LORA_H

#include "convert/dq.h"

struct lora;
int lora_open(struct lora **out, const char *dir, struct err *e);
void lora_close(struct lora *l); /* NULL is fine */

/* What is added to the rows of one source. Linear layers: a [r][cols], b [rows][r]. Experts: a
 * [n_experts*r][cols], b [rows][r*n_experts], rank outside. Embeddings: a [r][rows], b [cols][r].
 */
struct lora_delta {
    const struct st_tensor *a, *b;
    int64_t rank, n_experts, expert; /* expert -1: the matrix number of the source */
    int64_t row0;                    /* of the source's first row within b */
    float scale;
    bool embedding;
};

/* Looks up the source tensor `name` (normalised, as in the checkpoint without "language_model.")
 * and fills q->delta, or replaces q's values by trained ones (modules_to_save). n_experts: of the
 * model, 0 without. */
int lora_bind(struct lora *l, const char *name, int64_t n_experts, struct dq *q, struct err *e);
/* Checks that every tensor of the adapter was used; one that nothing used is an error. */
int lora_all_used(const struct lora *l, struct err *e);
/* Adds the delta of one row of `cols` values to dst; sum and tmp, [cols] floats each, are
 * overwritten. */
void lora_add(const struct lora_delta *d, int64_t mat, int64_t row, int64_t cols, float *dst,
              float *sum, float *tmp);

#endif
