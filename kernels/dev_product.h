// SPDX-License-Identifier: MIT
/* kernels/dev_product.h - second moments and products of gradients and learning on a CUDA device,
 * for matrices in main memory.
 *
 * Sums have a fixed order, so results are the same on every device, but differ from those of the
 * CPU's kernels and of OpenBLAS by rounding. Never used where bytes must equal the CPU's, nor with
 * --isa. One thread at a time. After an error the device is given up; the caller computes on the
 * CPU. */
#ifndef HONE_KERNELS_DEV_PRODUCT_H
#define HONE_KERNELS_DEV_PRODUCT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/pool.h"
#include "containers/qtype.h"

struct dev_product;
/* Opens the device with this CUDA index and compares a product with sums in double. max_bytes:
 * limit of device memory; 0: none. pool is borrowed. */
int dev_product_new(struct dev_product **out, int index, uint64_t max_bytes, struct pool *pool,
                    struct err *e);
void dev_product_free(struct dev_product *d); /* d may be NULL */
/* Adds to sum[n][block] the products of all pairs of columns in a block, for j <= i. xt is
 * [n][rows], the transposed rows. Returns the number of columns computed, whole blocks: n, or fewer
 * if the device is missing (d NULL), fails, or would not be faster. */
int64_t dev_product_squares(struct dev_product *d, const float *xt, int64_t rows, int64_t n,
                            int64_t block, float *sum);
struct dev_matrix { /* W: `rows` rows of k values, row_bytes apart, in main memory */
    enum qtype type;
    const void *data;
    uint64_t row_bytes;
    int64_t rows, k;
};
/* Sets y[m][rows] to x[m][k] . W^T; rows of x and y are ld_x and ld_y values apart. Returns false,
 * with y unchanged, if the device does not compute it. */
bool dev_product_rows(struct dev_product *d, const struct dev_matrix *w, const float *x,
                      int64_t ld_x, float *y, int64_t ld_y, int64_t m);
/* Adds dy[m][rows] . W to dx[m][k]. Returns false, with dx unchanged, if the device does not
 * compute it. */
bool dev_product_back(struct dev_product *d, const struct dev_matrix *w, const float *dy, float *dx,
                      int64_t m);
struct dev_pair { /* g[m][rows] and x[m][k], their rows ld_g and ld_x values apart */
    const float *g, *x;
    int64_t ld_g, ld_x, m, rows, k;
};
/* Adds g^T x to sum[rows][k]. Returns the number of rows of `sum` computed: all of them, or fewer
 * if the device is missing (d NULL), fails, or would not be faster. */
int64_t dev_product_outer(struct dev_product *d, const struct dev_pair *p, float *sum);
/* Sets the operations below which a product is left to the CPU. For tests. */
void dev_product_least(struct dev_product *d, double operations);

#endif
