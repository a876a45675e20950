// SPDX-License-Identifier: MIT
/* kernels/dev_product.h - second moments and gradients' products on a CUDA device, for matrices in
 * main memory.
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
/* Adds dy[m][rows] . W to dx[m][k]; W is `rows` rows of type t, row_bytes apart, at `data`. Returns
 * false, with dx unchanged, if the device does not compute it. */
bool dev_product_back(struct dev_product *d, enum qtype t, const void *data, uint64_t row_bytes,
                      int64_t rows, int64_t k, const float *dy, float *dx, int64_t m);

#endif
