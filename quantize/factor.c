// SPDX-License-Identifier: MIT
/* quantize/factor.c - correlation and factor of second moments.
 *
 * Computed in double with a fixed order of operations: the factor determines file bytes, so it must
 * not depend on the machine or the number of threads. Right-looking Cholesky of R with both indices
 * reversed, NB columns at a time; the rows of the panel and of the trailing matrix are independent.
 * 2048 columns take 3 G floating-point operations. */
#include "quantize/factor.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "quantize/axpy.h"
#include "quantize/enc/super.h"

enum { NB = FACTOR_COLUMNS, LANES = 8, TRAIL_ROWS = 32 };

/* Allocates n * size bytes and stores the address in the pointer at out_ptr, of any pointer
 * type. */
static int take_array(void *out_ptr, uint64_t n, size_t size, const char *what, struct err *e) {
    void *p;
    uint64_t bytes;
    if (!mul_ok(n, size, &bytes)) return err_set(e, ERR_USAGE, "%s: too large", what);
    TRY(mem_alloc(&p, bytes, what, e));
    memcpy(out_ptr, &p, sizeof p);
    return 0;
}

int factor_init(struct factor *f, int64_t n, int64_t block, struct err *e) {
    uint64_t nb = (uint64_t)n * (uint64_t)block;
    memset(f, 0, sizeof *f);
    f->n = n;
    f->block = block;
    TRY(take_array(&f->r, nb, sizeof *f->r, "a correlation matrix", e));
    TRY(take_array(&f->m, nb, sizeof *f->m, "a factor", e));
    TRY(take_array(&f->diag, (uint64_t)n, sizeof *f->diag, "a factor", e));
    TRY(take_array(&f->h, (uint64_t)n, sizeof *f->h, "a factor", e));
    TRY(take_array(&f->panel, (uint64_t)div_up(block, FACTOR_ROWS) * FACTOR_ROWS * NB,
                   sizeof *f->panel, "a factor", e));
    return take_array(&f->tri, (uint64_t)block * (uint64_t)block, sizeof *f->tri, "a factor", e);
}
void factor_release(struct factor *f) {
    mem_free(f->r);
    mem_free(f->m);
    mem_free(f->diag);
    mem_free(f->h);
    mem_free(f->panel);
    mem_free(f->tri);
    memset(f, 0, sizeof *f);
}
void factor_trim(struct factor *f, bool keep_m) {
    mem_free(f->panel);
    mem_free(f->tri);
    f->panel = f->tri = NULL;
    if (keep_m) return;
    mem_free(f->m);
    f->m = NULL;
}

int factor_pool(const struct gram_input *in, unsigned halves, float **out, double *n_tokens,
                struct err *e) {
    int64_t size = in->n * in->block;
    *n_tokens = 0;
    TRY(take_array(out, (uint64_t)size, sizeof **out, "mean moments", e));
    for (int64_t k = 0; k < in->n_mat; k++)
        for (int h = 0; h < GRAM_HALVES; h++) {
            const float *src = in->sum[h] + k * size;
            if (!(halves >> h & 1)) continue;
            for (int64_t i = 0; i < size; i++) (*out)[i] += src[i];
            *n_tokens += (double)in->count[h][k];
        }
    return 0;
}

/* ---- factorisation --------------------------------------------------------------------------- */

struct chol {
    double *a; /* [n][n]; only the lower half is used */
    int64_t n, k0, k1;
    /* [group][NB][FACTOR_ROWS]: columns [k0, k1) of row k1 and all later ones */
    double *panel;
    const struct enc_lanes *lanes;
};
/* Returns a . b, summed in a fixed order in LANES partial sums. */
static double dot(const double *a, const double *b, int64_t n) {
    double acc[LANES] = {0}, s = 0;
    int64_t k = 0;
    for (; k + LANES <= n; k += LANES)
        for (int l = 0; l < LANES; l++) acc[l] += a[k + l] * b[k + l];
    for (; k < n; k++) s += a[k] * b[k];
    for (int l = 0; l < LANES; l++) s += acc[l];
    return s;
}
/* Solves the panel's columns for groups of rows. Padding rows are zero. */
static void panel_groups(void *ctx, int64_t g0, int64_t g1, int worker) {
    const struct chol *c = ctx;
    (void)worker;
    for (int64_t g = g0; g < g1; g++) {
        double *x = c->panel + g * NB * FACTOR_ROWS, *row = c->a + c->k0;
        const int64_t p = c->k1 + g * FACTOR_ROWS, n = min_i64(FACTOR_ROWS, c->n - p);
        memset(x, 0, NB * FACTOR_ROWS * sizeof *x);
        for (int64_t r = 0; r < n; r++)
            for (int64_t q = 0; q < NB; q++) x[q * FACTOR_ROWS + r] = row[(p + r) * c->n + q];
        c->lanes->panel(x, row + c->k0 * c->n, c->n);
        for (int64_t r = 0; r < n; r++)
            for (int64_t q = 0; q < NB; q++) row[(p + r) * c->n + q] = x[q * FACTOR_ROWS + r];
    }
}
/* Subtracts the panel's contribution from rows of the trailing matrix, a pair of rows and a group
 * of columns at a time. */
static void trail_rows(void *ctx, int64_t p0, int64_t p1, int worker) {
    const struct chol *c = ctx;
    (void)worker;
    for (int64_t q0 = 0; q0 < p1; q0 += FACTOR_ROWS)
        for (int64_t p = max_i64(p0, q0 & ~INT64_C(1)); p < p1; p += 2) {
            double *row[2] = {c->a + (c->k1 + p) * c->n,
                              c->a + (c->k1 + min_i64(p + 1, p1 - 1)) * c->n};
            double *to[2] = {row[0] + c->k1 + q0, row[1] + c->k1 + q0}, part[2][FACTOR_ROWS] = {0};
            /* A group that is cut by the diagonal or by the last row is computed in a copy. */
            const bool cut = q0 + FACTOR_ROWS > p + 1 || p + 1 == p1;
            size_t bytes[2] = {0};
            for (int64_t r = 0; r < 2 && cut; r++) {
                if (p + r < p1)
                    bytes[r] = (size_t)min_i64(FACTOR_ROWS, p + r + 1 - q0) * sizeof **part;
                memcpy(part[r], to[r], bytes[r]);
                to[r] = part[r];
            }
            c->lanes->trail(c->panel + q0 * NB,
                            (const double *const[]){row[0] + c->k0, row[1] + c->k0}, to);
            for (int r = 0; r < 2; r++) memcpy(row[r] + c->k1 + q0, part[r], bytes[r]);
        }
}
/* Factors a matrix in place into L L^T, NB columns at a time. Returns false if a pivot is not
 * positive. A panel has fewer than NB columns only at the end, where no rows follow. */
static bool cholesky(double *a, int64_t n, double *panel, struct pool *pool) {
    struct chol c = {.a = a, .n = n, .panel = panel, .lanes = enc_lanes()};
    for (c.k0 = 0; c.k0 < n; c.k0 = c.k1) {
        c.k1 = min_i64(n, c.k0 + NB);
        for (int64_t p = c.k0; p < c.k1; p++) {
            double *row = a + p * n;
            for (int64_t q = c.k0; q < p; q++)
                row[q] = (row[q] - dot(row + c.k0, a + q * n + c.k0, q - c.k0)) / a[q * n + q];
            double d = row[p] - dot(row + c.k0, row + c.k0, p - c.k0);
            if (!(d > 1e-12)) return false;
            row[p] = sqrt(d);
        }
        pool_for(pool, div_up(n - c.k1, FACTOR_ROWS), 2, panel_groups, &c);
        pool_for(pool, n - c.k1, TRAIL_ROWS, trail_rows, &c);
    }
    return true;
}

/* Factors one diagonal block of R, rows [b0, b0 + nb). Reverses the columns on input and output, so
 * that the L of the reversed block gives M diag M^T with M upper triangular. False: the block is
 * not positive definite. */
static bool factor_block(struct factor *f, int64_t b0, int64_t nb, struct pool *pool) {
    for (int64_t p = 0; p < nb; p++) {
        const float *src = f->r + (b0 + nb - 1 - p) * f->block;
        for (int64_t q = 0; q <= p; q++) f->tri[p * nb + q] = (double)src[nb - 1 - q];
    }
    if (!cholesky(f->tri, nb, f->panel, pool)) return false;
    double *d = f->panel; /* f->panel, reused for the diagonal */
    for (int64_t i = 0; i < nb; i++) d[i] = f->tri[(nb - 1 - i) * nb + (nb - 1 - i)];
    for (int64_t i = 0; i < nb; i++) {
        const double *row = f->tri + (nb - 1 - i) * nb;
        float *dst = f->m + (b0 + i) * f->block;
        f->diag[b0 + i] = (float)(d[i] * d[i]);
        for (int64_t j = 0; j < f->block; j++)
            dst[j] = j > i && j < nb ? (float)(row[nb - 1 - j] / d[j]) : 0;
    }
    return true;
}

/* Sets the factor of R = 1. */
static void make_diagonal(struct factor *f) {
    memset(f->m, 0, (size_t)(f->n * f->block) * sizeof *f->m);
    for (int64_t i = 0; i < f->n; i++) f->diag[i] = 1;
}

/* ---- correlation ----------------------------------------------------------------------------- */

/* Sets and returns the error for unusable second moments. */
static int err_moments(const struct gram_input *in, int64_t mat, struct err *e) {
    return err_set(
        e, ERR_DATA,
        "second moments of %s, matrix %lld, are not finite or not positive; collect them "
        "again",
        in->name, (long long)mat);
}

int factor_make(struct factor *f, const struct gram_input *in, int64_t mat,
                const struct factor_opts *o, const float *pooled, double pooled_tokens,
                struct pool *pool, struct err *e) {
    const int64_t n = in->n, block = in->block, size = n * block;
    const float *s0 = in->sum[0] + mat * size, *s1 = in->sum[1] + mat * size;
    double w0 = (double)(o->halves & 1), w1 = (double)(o->halves >> 1 & 1);
    double count = w0 * (double)in->count[0][mat] + w1 * (double)in->count[1][mat];
    if (!(pooled_tokens > 0 && o->tau > 0)) pooled = NULL;
    double prior = pooled ? o->tau / pooled_tokens : 0;
    double total = count + (pooled ? o->tau : 0), mean = 0;
    if (!(total > 0)) total = 1;
    f->total = total;
    for (int64_t i = 0; i < n; i++) {
        int64_t at = i * block + i % block;
        double h = w0 * (double)s0[at] + w1 * (double)s1[at];
        if (pooled) h += prior * (double)pooled[at];
        if (!(h >= 0 && h < 1e300)) return err_moments(in, mat, e);
        f->h[i] = (float)(h / total);
        mean += h / total;
    }
    mean /= (double)n;
    /* For now, diag holds 1/sqrt(H_ii + lambda*mean), or 0 for a column that was always zero, which
     * has no correlations. */
    for (int64_t i = 0; i < n; i++) {
        double h = (double)f->h[i] + o->lambda * mean;
        f->diag[i] = h > 1e-30 ? (float)(1 / sqrt(h)) : 0;
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t b0 = i / block * block, nb = min_i64(block, n - b0);
        float *row = f->r + i * block;
        memset(row, 0, (size_t)block * sizeof *row);
        for (int64_t j = 0; j < nb; j++) {
            int64_t at = i * block + j;
            double h = w0 * (double)s0[at] + w1 * (double)s1[at];
            if (pooled) h += prior * (double)pooled[at];
            double c = h / total * (double)f->diag[i] * (double)f->diag[b0 + j];
            if (!(c > -1.01 && c < 1.01)) return err_moments(in, mat, e);
            row[j] = b0 + j == i ? 1.0f : (float)((1 - o->alpha) * c);
        }
    }
    if (o->alpha == 1) {
        make_diagonal(f);
        return 0;
    }
    for (int64_t b0 = 0; b0 < n && o->alpha > 0; b0 += block)
        if (!factor_block(f, b0, min_i64(block, n - b0), pool)) return err_moments(in, mat, e);
    return 0;
}

/* ---- drifted inputs -------------------------------------------------------------------------- */

void factor_drift(const struct factor *f, const float *const cross[GRAM_HALVES], const float *x,
                  float *out) {
    memset(out, 0, (size_t)f->n * sizeof *out);
    for (int64_t i = 0; i < f->n; i++) {
        const int64_t b0 = i / f->block * f->block, nb = min_i64(f->block, f->n - b0);
        for (int h = 0; h < GRAM_HALVES; h++)
            if (cross[h])
                axpy(out + b0, cross[h] + i * f->block, (float)((double)x[i] / f->total), nb);
    }
}

/* Returns the inner product of a and b as eight partial sums, which fixes the order and permits
 * vector instructions. */
static float dot_f32(const float *a, const float *b, int64_t n) {
    float acc[8] = {0}, s = 0;
    int64_t k = 0;
    for (; k + 8 <= n; k += 8)
        for (int l = 0; l < 8; l++) acc[l] += a[k + l] * b[k + l];
    for (; k < n; k++) s += a[k] * b[k];
    for (int l = 0; l < 8; l++) s += acc[l];
    return s;
}

/* Replaces z by z R^-1, with R = M diag M^T, block by block. */
static void solve(const struct factor *f, float *z) {
    for (int64_t b0 = 0; b0 < f->n; b0 += f->block) {
        const int64_t nb = min_i64(f->block, f->n - b0);
        for (int64_t j = nb - 1; j >= 0; j--)
            z[b0 + j] -= dot_f32(f->m + (b0 + j) * f->block + j + 1, z + b0 + j + 1, nb - j - 1);
        for (int64_t j = 0; j < nb; j++) z[b0 + j] /= f->diag[b0 + j];
        for (int64_t j = 0; j < nb; j++)
            axpy(z + b0 + j + 1, f->m + (b0 + j) * f->block + j + 1, -z[b0 + j], nb - j - 1);
    }
}

void factor_aim(const struct factor *f, const float *s, const float *const cross[GRAM_HALVES],
                double beta, float *x, int64_t rows, float *z) {
    for (int64_t r = 0; r < rows; r++, x += f->n) {
        bool usable = true;
        factor_drift(f, cross, x, z);
        for (int64_t i = 0; i < f->n; i++) z[i] /= s[i];
        solve(f, z);
        for (int64_t i = 0; i < f->n; i++) usable &= fabsf(z[i] / s[i]) < 1e30f;
        for (int64_t i = 0; i < f->n && usable; i++) x[i] += (float)beta * (z[i] / s[i]);
    }
}
