// SPDX-License-Identifier: MIT
/* quantize/factor.h - what error feedback needs of a second-moment matrix H: its correlation R,
 * shrunk, and the unit upper factor of R.
 *
 * H = S R S with S diagonal. R = (1 - alpha) * correlation + alpha * 1, where H gets lambda times
 * its mean diagonal first. R = M diag M^T with M unit upper triangular: the error e of a row costs
 * sum_j diag_j (s_j e_j + sum_{i<j} s_i e_i M_ij)^2. Block-diagonal when H is. */
#ifndef HONE_QUANTIZE_FACTOR_H
#define HONE_QUANTIZE_FACTOR_H

#include "quantize/hessian_file.h"
#include "base/pool.h"

struct factor {
    int64_t n, block;
    float *r;      /* [n][block] */
    float *m;      /* [n][block], above the diagonal; 0 elsewhere */
    float *diag;   /* [n] */
    float *h;      /* [n] diagonal of H, unshrunk: mean squared inputs */
    double total;  /* tokens of H, those of the prior too */
    double *tri;   /* scratch of the factorisation, [block][block] */
    double *panel; /* and of its panels */
};
struct factor_opts {
    unsigned halves;      /* bit h: half h of the text is in */
    double lambda, alpha; /* alpha 0: R alone, no factor */
    double tau;           /* tokens of prior at the mean of all matrices */
};
int factor_init(struct factor *f, int64_t n, int64_t block, struct err *e);
void factor_release(struct factor *f);
/* Adds up the sums of all matrices of an input to one [n][block] matrix, and their tokens, for
 * tau. */
int factor_pool(const struct gram_input *in, unsigned halves, float **out, double *n_tokens,
                struct err *e);
/* Makes the factor of one matrix. `pooled` is from factor_pool. ERR_DATA for moments that are
 * not finite or not positive. */
int factor_make(struct factor *f, const struct gram_input *in, int64_t mat,
                const struct factor_opts *o, const float *pooled, double pooled_tokens,
                struct pool *pool, struct err *e);

/* Moves the rows x [rows][n] to what they should aim at when the inputs have moved. The inputs x
 * of the file that is being made differ from those of the original by d, and the least error of
 * x^ x against x (x + d) has x^ = x + x Delta H^-1 with Delta = E[d x^T] (GPTAQ's asymmetric
 * target, Li et al. 2025). Adds beta times that to each row. H = S R S as f has it, and s is the
 * diagonal of S. cross are the sums of one matrix in either half of the text; NULL in a half
 * that is not in. z is room for 2 * n floats. */
void factor_aim(const struct factor *f, const float *s, const float *const cross[GRAM_HALVES],
                double beta, float *x, int64_t rows, float *z);
/* Computes out[n] = x Delta of one row. */
void factor_drift(const struct factor *f, const float *const cross[GRAM_HALVES], const float *x,
                  float *out);

#endif
