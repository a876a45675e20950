// SPDX-License-Identifier: MIT
/* work/shapes.h - tensor shapes and roles of a model, for forecasts. They are read from a GGUF, the
 * headers of an unconverted Hugging Face folder, or config.json alone. */
#ifndef HONE_WORK_SHAPES_H
#define HONE_WORK_SHAPES_H

#include "base/arena.h"
#include "models/arch.h"
#include "quantize/recipe.h"

struct shapes {
    struct arena mem;
    struct recipe_model model;
    struct recipe_item *item; /* its names are stored in mem */
    int64_t n, cap;
    uint64_t base_bytes,
        head_bytes;     /* size of the converted file; its part before the tensor data */
    char type[16];      /* type of the conversion */
    uint64_t projector; /* bytes of the projector file; 0: none, or opened by shapes_open */
    double weights,
        active; /* number of quantizable weights; number of weights multiplied per token */
    int64_t n_embd, widest;       /* columns of token embeddings; columns of the widest matrix */
    bool gradients;               /* every operation has a derivative (grad/grad.h) */
    bool separable;               /* no block reads more than the output of the one before it */
    int64_t pass_floats, n_vocab; /* floats per token in collection buffers; logits */
    double row_bytes;             /* passes_row_bytes of the graph */
    double kv_token;              /* bytes of keys and values per token of a long context */
};
/* Reads a model's shapes. type: target of the conversion; target: folder of a draft's model (struct
 * convert_opts). Call shapes_close() even after an error. */
int shapes_open(struct shapes *s, const char *src, const char *type, const char *target,
                struct err *e);
/* Returns whether src is a config.json, or a folder with one and without weights. */
bool shapes_is_config(const char *src);
/* Like shapes_open, for a source for which shapes_is_config returns true; assumes BF16 for
 * all matrices except the experts of a release in MXFP4. Also fills in the hyperparameters. The
 * vocabulary is not counted: head_bytes is 0. */
int shapes_from_config(struct shapes *s, const char *src, struct hparams *h, struct err *e);
void shapes_close(struct shapes *s);
/* Returns the file size of a preset, exact except for a few hundred bytes of metadata. */
uint64_t shapes_preset(const struct shapes *s, const char *recipe);
/* Like shapes_preset. Also calls `each`, unless NULL, with the bytes of every tensor. */
uint64_t shapes_recipe(const struct shapes *s, const char *recipe,
                       void (*each)(void *ud, const char *name, uint64_t n_bytes), void *ud);
struct shapes_input {     /* second moments of a tensor's inputs */
    double block, n_mats; /* columns per block; number of matrices with their own moments */
    bool leads;           /* first of the tensors that have this input */
};
/* Fills *out with the extent of the tensor's input moments. */
void shapes_input(const struct recipe_item *it, struct shapes_input *out);
struct shapes_gram {        /* cost of second moments */
    double inputs, answers; /* bytes of the moments of inputs; of output gradients (0: none) */
    double flops;           /* per token, for both */
};
/* Fills *out with the memory and work of collecting moments. */
void shapes_gram(const struct shapes *s, struct shapes_gram *out);
/* Returns the memory in bytes that calibration passes over chunks of ctx tokens need in addition to
 * the moments: activations, logits and, if the model has gradients, the backward pass. */
double shapes_passes(const struct shapes *s, int64_t ctx, int threads);

#endif
