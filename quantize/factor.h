// SPDX-License-Identifier: MIT
/* quantize/factor.h - shrunk correlation R of a second-moment matrix H, and its unit upper
 * triangular factor.
 *
 * H = S R S with S diagonal. R = (1 - alpha) * correlation + alpha * I, after adding lambda times
 * the mean of H's diagonal to that diagonal. R = M diag M^T with M unit upper triangular, so an
 * error e in a row costs sum_j diag_j (s_j e_j + sum_{i<j} s_i e_i M_ij)^2. If H is block-diagonal,
 * so are R and M. */
#ifndef HONE_QUANTIZE_FACTOR_H
#define HONE_QUANTIZE_FACTOR_H

#include "quantize/hessian_file.h"
#include "base/pool.h"

struct factor {
    int64_t n, block;
    float *r;      /* [n][block] */
    float *m;      /* [n][block], zero on and below the diagonal */
    float *diag;   /* [n] */
    float *h;      /* [n] diagonal of H before shrinkage: mean squared inputs */
    double total;  /* tokens summed in H, including those of the prior */
    double *tri;   /* factorization scratch, [block][block] */
    double *panel; /* scratch for the factorization's panels */
};
struct factor_opts {
    unsigned halves;      /* bit h: use half h of the text */
    double lambda, alpha; /* alpha 0: compute only R, no factor */
    double tau;           /* weight of the prior, the mean of all matrices, in tokens */
};
/* Allocates a factor for n columns in blocks of `block`. */
int factor_init(struct factor *f, int64_t n, int64_t block, struct err *e);
void factor_release(struct factor *f);
/* Frees the scratch of a finished factor; also frees m unless keep_m is set. */
void factor_trim(struct factor *f, bool keep_m);
/* Adds up the moments of all matrices of an input, and their tokens, in one [n][block] matrix: the
 * prior that tau weights. */
int factor_pool(const struct gram_input *in, unsigned halves, float **out, double *n_tokens,
                struct err *e);
/* Computes the factor of one matrix. `pooled` is from factor_pool. Returns ERR_DATA if the
 * moments are not finite or not positive. */
int factor_make(struct factor *f, const struct gram_input *in, int64_t mat,
                const struct factor_opts *o, const float *pooled, double pooled_tokens,
                struct pool *pool, struct err *e);

/* Shifts the target of the weight rows x [rows][n] to compensate for drifted inputs: the file being
 * made sees inputs u, the original model sees u + d. The error of x^ u against x (u + d) is least
 * at x^ = x + x Delta H^-1 with Delta = E[d u^T] (GPTAQ's asymmetric target, Li et al. 2025). Adds
 * beta times that shift to each row. H = S R S as in f; s is the diagonal of S. cross holds the
 * sums of one matrix for each half of the text; NULL: half not used. z is scratch for 2 * n
 * floats. */
void factor_aim(const struct factor *f, const float *s, const float *const cross[GRAM_HALVES],
                double beta, float *x, int64_t rows, float *z);
/* Computes out[n] = x Delta for one row; Delta is defined at factor_aim. */
void factor_drift(const struct factor *f, const float *const cross[GRAM_HALVES], const float *x,
                  float *out);

#endif
