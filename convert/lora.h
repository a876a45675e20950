// SPDX-License-Identifier: MIT
/* convert/lora.h - LoRA adapter merging: adds a peft adapter (adapter_config.json,
 * adapter_model.safetensors) to the weights during conversion. The result is w + scale * B A, in
 * f32, before any transform. scale is lora_alpha / r, or lora_alpha / sqrt(r) with use_rslora.
 * Internal to convert/. */
#ifndef HONE_CONVERT_LORA_H
#define HONE_CONVERT_LORA_H

#include "convert/dq.h"
#include "models/arch.h"

struct lora;
/* Opens the adapter. ERR_DATA: hone does not support its kind or one of its settings; the error
 * names it. */
int lora_open(struct lora **out, const char *dir, struct err *e);
void lora_close(struct lora *l); /* NULL is fine */
/* Returns the adapter's folder, and sets *has_tokenizer to whether it contains tokenizer files. */
const char *lora_dir(const struct lora *l, bool *has_tokenizer);

/* Delta for the rows of one source, a matrix [rows][cols] per expert, rank r:
 *   straight: a [n_experts*r][cols], b [rows][r*n_experts], rank outermost;
 *   crossed:  a [n_experts*r][rows], b [cols][r*n_experts], as in fused experts of older peft and
 *             embeddings (n_experts 1). */
struct lora_delta {
    const struct st_tensor *a, *b;
    int64_t rank, n_experts, expert; /* expert -1: the source's matrix index */
    int64_t row0;                    /* first row of the source within the adapter's matrix */
    float scale;
    bool crossed;
    /* b of a crossed delta, rearranged to [experts of the source][r][cols]; from lora_begin to
     * lora_end. */
    float *turned;
};

/* Looks up the source tensor `name`, spelled as in the tables, and fills q->delta. n_experts:
 * experts of the model; 0: dense. turned: the folder stores the matrix transposed. */
int lora_bind(struct lora *l, const char *name, int64_t n_experts, bool turned, struct dq *q,
              struct err *e);
/* Returns the fully trained tensor that replaces `name` (modules_to_save, biases, resized
 * embeddings) and marks it as used; NULL: none. */
const struct st_tensor *lora_whole(struct lora *l, const char *name);
/* Determines the adapter's changes to embeddings and head, given as alternative names "a|b" from
 * the table; embd is the base's tensor or NULL. Updates *vocab if the adapter has a different
 * number of rows. Sets *untie if the adapter unties the head from the embeddings. */
int lora_head(struct lora *l, const char *embd_names, const char *head_names,
              const struct st_tensor *embd, bool tied, int64_t *vocab, bool *untie, struct err *e);
/* Returns whether the adapter changes `name`. */
bool lora_touches(const struct lora *l, const char *name);
/* Checks that all tensors of the adapter were used and that their values are finite. Unused tensors
 * are an error, except those of a tower that conversion leaves out, which only give a warning. */
int lora_all_used(struct lora *l, const struct arch *a, struct err *e);

/* Prepare a delta for lora_add, and free its scratch afterwards. NULL is fine. */
int lora_begin(struct lora_delta *d, struct err *e);
/* Frees the values computed for the current tensor. */
void lora_end(struct lora_delta *d);
/* Adds the delta of one row of `cols` values to dst; sum and tmp, [cols] floats each, are
 * scratch. */
void lora_add(const struct lora_delta *d, int64_t mat, int64_t row, int64_t cols, float *dst,
              float *sum, float *tmp);

#endif
