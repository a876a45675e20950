// SPDX-License-Identifier: MIT
/* convert/lora.h - a LoRA adapter folder of peft (adapter_config.json, adapter_model.safetensors),
 * added to the weights while they are converted: w + scale * B A, in f32, before any transform.
 * scale is lora_alpha / r, or lora_alpha / sqrt(r) with use_rslora. Inner to convert/. */
#ifndef HONE_CONVERT_LORA_H
#define HONE_CONVERT_LORA_H

#include "convert/dq.h"
#include "models/arch.h"

struct lora;
/* Opens the adapter. One that changes weights in a way that is not computed here is refused by its
 * name. */
int lora_open(struct lora **out, const char *dir, struct err *e);
void lora_close(struct lora *l); /* NULL is fine */
/* Returns the folder; has_tokenizer: it has tokenizer files of its own. */
const char *lora_dir(const struct lora *l, bool *has_tokenizer);

/* What is added to the rows of one source, a matrix [rows][cols] per expert, rank r:
 *   straight: a [n_experts*r][cols], b [rows][r*n_experts], rank outside;
 *   crossed:  a [n_experts*r][rows], b [cols][r*n_experts], as fused experts of older peft and
 *             embeddings (n_experts 1). */
struct lora_delta {
    const struct st_tensor *a, *b;
    int64_t rank, n_experts, expert; /* expert -1: the matrix number of the source */
    int64_t row0;                    /* of the source's first row within the adapter's matrix */
    float scale;
    bool crossed;
    float *turned; /* b of a crossed one, [experts of the source][r][cols], between lora_begin and
                      lora_end */
};

/* Looks up the source tensor `name`, as the tables spell it, and fills q->delta. n_experts: of the
 * model, 0 without. turned: the folder stores the matrix with rows and columns swapped. */
int lora_bind(struct lora *l, const char *name, int64_t n_experts, bool turned, struct dq *q,
              struct err *e);
/* Returns the tensor that was trained as a whole (modules_to_save, biases, resized embeddings) and
 * takes the place of `name`, NULL when there is none; it counts as used. */
const struct st_tensor *lora_whole(struct lora *l, const char *name);
/* Says what the adapter makes of embeddings and head, whose names are spellings "a|b" of the table;
 * embd is the base's tensor, may be NULL. *vocab changes where the adapter has another number of
 * rows. Returns in *untie that a head that shared the embeddings no longer does. */
int lora_head(struct lora *l, const char *embd_names, const char *head_names,
              const struct st_tensor *embd, bool tied, int64_t *vocab, bool *untie, struct err *e);
/* Tells whether the adapter has anything for `name`. */
bool lora_touches(const struct lora *l, const char *name);
/* Checks that every tensor of the adapter was used and that their numbers are finite. Those of
 * parts that the architecture leaves out (arch->skip) are left out as well, with a warning; another
 * one is an error. */
int lora_all_used(struct lora *l, const char *const *skip, struct err *e);

/* Prepares a delta (NULL is fine) for lora_add, and ends that. */
int lora_begin(struct lora_delta *d, struct err *e);
void lora_end(struct lora_delta *d);
/* Adds the delta of one row of `cols` values to dst; sum and tmp, [cols] floats each, are
 * overwritten. */
void lora_add(const struct lora_delta *d, int64_t mat, int64_t row, int64_t cols, float *dst,
              float *sum, float *tmp);

#endif
