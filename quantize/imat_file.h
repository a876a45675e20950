// SPDX-License-Identifier: MIT
/* quantize/imat_file.h - importance matrices: the GGUF form and the legacy .dat, read and written.
 *
 * In memory sums are double: sum2[m][ne0] of squared inputs and count[m] tokens per matrix m (an
 * expert, or the only one). The mean of column i of matrix m is sum2/count. */
#ifndef HONE_QUANTIZE_IMAT_FILE_H
#define HONE_QUANTIZE_IMAT_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"

struct imat_entry {
    char *name; /* weight name, "blk.0.attn_q.weight" */
    int64_t ne0, n_mat;
    double *sum2;        /* [n_mat][ne0] */
    double *count;       /* [n_mat] */
    double *sum1, *sum4; /* [n_mat][ne0], of inputs and their fourth powers; NULL without moments */
};
/* Tells whether its matrices are routed experts; otherwise they are of heads. */
static inline bool imat_is_experts(const struct imat_entry *en) {
    return en->n_mat > 1 && strstr(en->name, "_exps");
}
struct imat {
    struct imat_entry *entry; /* sorted by name (strcmp) */
    int64_t n_entries, cap;
    char **dataset; /* file base names */
    int n_datasets;
    uint32_t n_chunks, chunk_size;
    bool moments; /* set before the first imat_add: entries have sum1 and sum4 */
};
void imat_init(struct imat *m);
void imat_release(struct imat *m);
/* Adds a zeroed entry in order (or returns the one that is there with equal sizes; NULL otherwise).
 */
struct imat_entry *imat_add(struct imat *m, const char *name, int64_t ne0, int64_t n_mat);
struct imat_entry *imat_find(const struct imat *m, const char *name); /* NULL: absent */
void imat_add_dataset(struct imat *m, const char *base_name);

/* Gives an entry the shape of its weight: an entry with one count for all experts (from a .dat
 * file) is reshaped, its count goes to each. ERR_DATA when the sizes differ. Call it before
 * imat_weights. */
int imat_fit(struct imat_entry *en, int64_t ne0, int64_t n_mat, struct err *e);
/* Returns the number of matrices of an entry that say nothing, since every sum is 0 or no token was
 * counted, and sets their counts to 0. An entry of such matrices only counts as missing. Call it
 * after imat_fit. */
int64_t imat_blind(struct imat_entry *en);

int imat_read(struct imat *m, const char *path, struct err *e); /* form detected by content */
enum imat_form { IMAT_GGUF, IMAT_DAT };
int imat_write(const struct imat *m, const char *path, enum imat_form form, bool overwrite,
               struct err *e);
/* Writes the other moments, which every entry must have, into a GGUF file of their own
 * (docs/formats/imatrix.md). */
int imat_write_moments(const struct imat *m, const char *path, bool overwrite, struct err *e);
/* Adds src to dst, entry by entry; a single count is taken for all matrices. ERR_DATA on
 * different sizes. */
int imat_merge(struct imat *dst, const struct imat *src, struct err *e);

/* Tokens of prior where nothing says otherwise (docs/design/calibration.md). */
enum { IMAT_TAU = 256 };
/* Computes the column weights for quantization, out[n_mat * ne0] = sum2/count. Matrices with few
 * tokens are shrunk to the entry's token-weighted mean with `tau` tokens of prior: (n*q_e +
 * tau*q_mean)/(n + tau). Those that were never seen get the mean; tau 0 leaves the others as
 * they are. */
void imat_weights(const struct imat_entry *en, double tau, float *out);

#endif
