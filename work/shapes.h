// SPDX-License-Identifier: MIT
/* work/shapes.h - shapes and roles of a model's tensors for a forecast, from a GGUF, from the
 * headers of an unconverted Hugging Face folder, or from config.json alone. */
#ifndef HONE_WORK_SHAPES_H
#define HONE_WORK_SHAPES_H

#include "base/arena.h"
#include "models/arch.h"
#include "quantize/recipe.h"

struct shapes {
    struct arena mem;
    struct recipe_model model;
    struct recipe_item *item; /* names live in mem */
    int64_t n, cap;
    uint64_t base_bytes, head_bytes; /* of the converted file; of them not tensor data */
    char type[16];                   /* of the conversion */
    double weights, active;          /* quantizable; multiplied per token */
    int64_t n_embd, widest;          /* columns: of token embeddings; the most of any matrix */
    bool gradients;                  /* every operation has a derivative (grad/grad.h) */
    int64_t pass_floats, n_vocab;    /* floats per token in buffers of collecting; logits */
    double row_bytes;                /* passes_row_bytes of its graph */
};
int shapes_open(struct shapes *s, const char *src, const char *type, struct err *e);
/* Returns whether src is a config.json, or a folder that has one and no weights. */
bool shapes_is_config(const char *src);
/* Does the same as shapes_open for such a source, with all matrices taken as BF16, and fills in the
 * hyperparameters. The vocabulary is not counted: head_bytes is 0. */
int shapes_from_config(struct shapes *s, const char *src, struct hparams *h, struct err *e);
void shapes_close(struct shapes *s);
/* Returns the bytes of a file in a preset, exact but for some hundred bytes of metadata. */
uint64_t shapes_preset(const struct shapes *s, const char *recipe);
/* Does the same, and calls `each`, unless it is NULL, with the bytes of every tensor. */
uint64_t shapes_recipe(const struct shapes *s, const char *recipe,
                       void (*each)(void *ud, const char *name, uint64_t n_bytes), void *ud);
struct shapes_gram {        /* cost of second moments */
    double inputs, answers; /* bytes: of inputs; of gradients by outputs (0: none) */
    double flops;           /* per token, of both */
};
void shapes_gram(const struct shapes *s, struct shapes_gram *out);
/* Returns the bytes of buffers, without the moments, for collecting from chunks of ctx tokens, with
 * gradients if the model has them. */
double shapes_passes(const struct shapes *s, int64_t ctx, int threads);

#endif
