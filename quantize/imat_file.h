// SPDX-License-Identifier: MIT
/* quantize/imat_file.h - importance matrices: reader and writer of the GGUF form and of the legacy
 * .dat.
 *
 * For each matrix m (an expert, or the only matrix), memory holds the sums of squared inputs,
 * sum2[m][ne0], and the number of tokens, count[m], as double. The mean of column i is sum2[m][i] /
 * count[m]. */
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
    double *sum1, *sum4; /* [n_mat][ne0] sums of inputs and fourth powers; NULL: none */
};
/* Returns whether the matrices are routed experts; if not, they are heads. */
static inline bool imat_is_experts(const struct imat_entry *en) {
    return en->n_mat > 1 && strstr(en->name, "_exps");
}
struct imat {
    struct imat_entry *entry; /* sorted by name (strcmp) */
    int64_t n_entries, cap;
    char **dataset; /* base names of the text files */
    int n_datasets;
    uint32_t n_chunks, chunk_size;
    bool moments; /* entries have sum1 and sum4; set before the first imat_add */
};
void imat_init(struct imat *m);
void imat_release(struct imat *m);
/* Inserts a zeroed entry, or returns the existing one if its sizes match; NULL: they differ. */
struct imat_entry *imat_add(struct imat *m, const char *name, int64_t ne0, int64_t n_mat);
struct imat_entry *imat_find(const struct imat *m, const char *name); /* NULL: absent */
/* Adds a data set's name, which is copied. */
void imat_add_dataset(struct imat *m, const char *base_name);

/* Gives an entry with one count for all experts (from a .dat file) the shape of its weight,
 * repeating the count. Returns ERR_DATA if the sizes differ. Call before imat_weights. */
int imat_fit(struct imat_entry *en, int64_t ne0, int64_t n_mat, struct err *e);
/* Counts the matrices of an entry that carry no information (all sums 0, or no tokens) and sets
 * their counts to 0. Treat an entry with only such matrices as missing. Call after imat_fit. */
int64_t imat_blind(struct imat_entry *en);

int imat_read(struct imat *m, const char *path, struct err *e); /* detects the form by content */
enum imat_form { IMAT_GGUF, IMAT_DAT };
/* Writes the file; ERR_DATA if no entry has data or a sum is not finite. */
int imat_write(const struct imat *m, const char *path, enum imat_form form, bool overwrite,
               struct err *e);
/* Writes sum1 and sum4, which every entry must have, to a separate GGUF file
 * (docs/formats/imatrix.md). */
int imat_write_moments(const struct imat *m, const char *path, bool overwrite, struct err *e);
/* Adds src to dst, entry by entry; a single count applies to all matrices. Returns ERR_DATA if
 * sizes differ. */
int imat_merge(struct imat *dst, const struct imat *src, struct err *e);

/* Default number of prior tokens (docs/design/calibration.md). */
enum { IMAT_TAU = 256 };
/* Computes the column weights for quantization, out[n_mat * ne0] = sum2/count. Shrinks each matrix
 * towards the entry's token-weighted mean with a prior of `tau` tokens, (n*q_e + tau*q_mean)/(n +
 * tau); matrices without tokens get the mean. tau 0: no shrinkage. Weights of a matrix that exceed
 * 2^60 are divided by a power of two, because only their ratios matter. */
void imat_weights(const struct imat_entry *en, double tau, float *out);

#endif
