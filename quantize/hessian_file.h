// SPDX-License-Identifier: MIT
/* quantize/hessian_file.h - second moments (sum x x^T) of the inputs of weight matrices, stored in
 * a GGUF container (docs/formats/gram.md).
 *
 * Several weights may share one input, as attn_q, attn_k and attn_v do. An input of n columns
 * with blocks of B columns has, per matrix and half of the text, n rows of B values: row i holds
 * the sums of x_i x_j for the columns j of i's block. B = n is the full matrix. n_mat is the
 * number of experts, or 1 for dense weights and for experts that share one matrix. */
#ifndef HONE_QUANTIZE_HESSIAN_FILE_H
#define HONE_QUANTIZE_HESSIAN_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "containers/qtype.h"

enum { GRAM_HALVES = 2 };
/* Prefix of an input's name for the moments of gradients with respect to a weight's outputs. */
#define GRAM_OUT "out:"
struct gram_input {
    char *name; /* first weight, by name, that has this input */
    int64_t n, block, n_mat;
    const float *sum[GRAM_HALVES];   /* [n_mat][n][block]; owned by the file map or the collector */
    const float *count[GRAM_HALVES]; /* [n_mat] tokens */
    /* Sums [n_mat][n][block] of (x_base - x)_i x_j, where x_base is the same input in the base
     * model, i.e. the model from which x's model was made. NULL: not collected. */
    const float *cross[GRAM_HALVES];
};
struct gram_weight {
    char *name;
    int64_t input;
};
struct gram_learned {
    const char *name; /* of the weight */
    enum qtype type;
    int64_t ne[4];
    const void *data;
    uint64_t n_bytes;
    char source[33]; /* XXH3-128 of the tensor that it was learned from */
};
struct gguf;
struct gram {
    struct gram_input *input;
    struct gram_weight *weight; /* sorted by name */
    int64_t n_inputs, n_weights;
    char **dataset;
    int n_datasets;
    uint32_t n_chunks, chunk_size;
    bool crossed; /* all inputs have cross sums */
    /* Tensors of the file for which the moments were collected, in their final form, if it was
     * learned; the list is owned if `file` is not NULL, the data never. */
    struct gram_learned *learned;
    int n_learned;
    struct gguf *file; /* NULL: not from a file */
};
void gram_init(struct gram *m);
void gram_release(struct gram *m); /* does not free sums and counts */
/* Computes the size in bytes of one of an input's GRAM_HALVES sums, float [n_mat][n][block]; each
 * is over one half of the text. Returns false if a dimension is below 1 or the size needs more than
 * 63 bits. */
bool gram_input_bytes(int64_t n, int64_t block, int64_t n_mat, uint64_t *out);

/* Returns the input of a weight; NULL: none. */
const struct gram_input *gram_find(const struct gram *m, const char *weight);
/* Returns the moments of the gradients with respect to a weight's outputs (n_mat matrices of `rows`
 * rows); NULL: missing, or their size is different. */
const struct gram_input *gram_find_out(const struct gram *m, const char *weight, int64_t rows,
                                       int64_t n_mat);
/* Warns about inputs (not gradients) whose moments have an empty half. Their weights get no error
 * feedback, because correlations cannot be tested on held-out tokens. */
void gram_warn_empty(const struct gram *m, const char *path);
/* Returns a learned weight; NULL: none. */
const struct gram_learned *gram_find_learned(const struct gram *m, const char *weight);
/* Reads a file and checks its structure. The values of the sums are checked when they are used. */
int gram_read(struct gram *m, const char *path, struct err *e);
/* Writes the moments as a GGUF file. */
int gram_write(const struct gram *m, const char *path, bool overwrite, struct err *e);

#endif
