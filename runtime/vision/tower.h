// SPDX-License-Identifier: MIT
/* runtime/vision/tower.h - vision towers on the CPU: opens a projector (mmproj) file and computes
 * the embeddings of prepared images (runtime/vision/image.h).
 *
 * Products and attention use the float kernels for weights of any type, so a Q8_0 file gives the
 * embeddings of its decoded weights. Results do not depend on the number of threads. */
#ifndef HONE_RUNTIME_VISION_TOWER_H
#define HONE_RUNTIME_VISION_TOWER_H

#include "base/pool.h"
#include "kernels/kern.h"
#include "runtime/vision/image.h"

struct vision_tower;
/* Embeddings of one view, in the order of the grid of tokens: row by row. */
struct vision_rows {
    int64_t n, width; /* n = w * h; width of the language model */
    int w, h;         /* grid of tokens */
    int n_deep;       /* deepstack: rows to add to the hidden states after layers 0, 1, ... */
    float *data;      /* [n][width] */
    float *deep;      /* [n_deep][n][width]; part of data */
};

/* Opens a projector file. The pool (NULL: no threads) must outlive the tower. ERR_DATA: not a
 * projector file, an unknown projector, or missing or unexpected tensors. */
int vision_open(struct vision_tower **out, const char *path, struct pool *pool, enum kern_isa isa,
                struct err *e);
/* Returns how images are prepared for the tower; borrowed until close. */
const struct vision_params *vision_params(const struct vision_tower *v);
/* Returns the models that have such a tower, by name. */
const char *vision_family(enum projector type);
/* Returns the width of the embeddings. */
int64_t vision_width(const struct vision_tower *v);
/* Computes the embeddings of the normalised colour planes [3][h][w], whose sides are multiples of
 * patch size * merge. Several threads may call it. Peak memory grows linearly with w * h. */
int vision_encode(const struct vision_tower *v, const float *planes, int w, int h,
                  struct vision_rows *out, struct err *e);
void vision_rows_release(struct vision_rows *r);
void vision_close(struct vision_tower *v); /* accepts NULL */

#endif
