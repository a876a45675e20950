// SPDX-License-Identifier: MIT
/* quantize/hessian_file.h - second moments of what enters the weight matrices: sum x x^T, in a GGUF
 * container (docs/formats/gram.md).
 *
 * An input is what one or more weights multiply (attn_q, attn_k and attn_v share one). For n
 * columns and blocks of B columns it holds, per matrix and half of the text, n rows of B values:
 * row i has the sums of x_i x_j for the columns j of i's own block; B = n is the full matrix. n_mat
 * is the number of experts, or 1 for dense weights and for experts that share one matrix. */
#ifndef HONE_QUANTIZE_HESSIAN_FILE_H
#define HONE_QUANTIZE_HESSIAN_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum { GRAM_HALVES = 2 };
/* The moments of the gradients by a weight's outputs are those of an input of this and its name. */
#define GRAM_OUT "out:"
struct gram_input {
    char *name; /* the first weight by name that has it */
    int64_t n, block, n_mat;
    const float
        *sum[GRAM_HALVES]; /* [n_mat][n][block]; borrowed from the map, or the collector's */
    const float *count[GRAM_HALVES]; /* [n_mat] tokens */
    /* Sums [n_mat][n][block] of (x_base - x)_i x_j, where x_base is what enters the same product
     * of the model that x's model was made from. NULL: they were not collected. */
    const float *cross[GRAM_HALVES];
};
struct gram_weight {
    char *name;
    int64_t input;
};
struct gguf;
struct gram {
    struct gram_input *input;
    struct gram_weight *weight; /* sorted by name */
    int64_t n_inputs, n_weights;
    char **dataset;
    int n_datasets;
    uint32_t n_chunks, chunk_size;
    bool crossed;      /* all inputs have cross sums */
    struct gguf *file; /* NULL: not read from one */
};
void gram_init(struct gram *m);
void gram_release(struct gram *m); /* sums and counts are not its own */
/* Computes the bytes of the sums of one half of an input. Returns false when that does not fit
 * 63 bits. */
bool gram_input_bytes(int64_t n, int64_t block, int64_t n_mat, uint64_t *out);

/* Returns the input of a weight, or NULL when there is none. */
const struct gram_input *gram_find(const struct gram *m, const char *weight);
/* Returns the moments of the gradients by the outputs of a weight of `rows` rows and n_mat
 * matrices; NULL where there are none, or they are of other sizes. */
const struct gram_input *gram_find_out(const struct gram *m, const char *weight, int64_t rows,
                                       int64_t n_mat);
/* Reads a file and checks its structure. The sums are looked at when they are used. */
int gram_read(struct gram *m, const char *path, struct err *e);
int gram_write(const struct gram *m, const char *path, bool overwrite, struct err *e);

#endif
