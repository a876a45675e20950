// SPDX-License-Identifier: MIT
/* calib/pair.h - pairing of the product inputs of two models on the same tokens. It measures how
 * far quantization has shifted the inputs so far.
 *
 * Call order for a chunk: begin; a pass of the base model, whose observers call pair_route and
 * pair_keep; a pass of the quantized model, whose observers call pair_route and pair_differences.
 * Each pass covers the whole chunk. */
#ifndef HONE_CALIB_PAIR_H
#define HONE_CALIB_PAIR_H

#include "runtime/engine/session.h"

struct pair;
enum pair_side { PAIR_BASE, PAIR_OTHER };
struct pair *pair_new(void);
void pair_free(struct pair *p);
/* Clears the previous chunk's rows. */
void pair_begin(struct pair *p);
/* Records the experts that a block's router chose, expert [n_rows][n_used]. */
void pair_route(struct pair *p, enum pair_side side, int block, const int32_t *expert,
                int64_t n_used, int64_t n_rows);
/* Returns a list with the token of each of n_rows rows of a weight's input; the caller frees it.
 * NULL: the rows do not match the router's choice. */
int32_t *pair_tokens(const struct pair *p, enum pair_side side, const struct gr_weight *w,
                     int64_t expert, int64_t n_rows);
/* Stores rows of the base: x [n_rows][ld], as a probe receives them. */
void pair_keep(struct pair *p, const struct gr_weight *w, int64_t expert, const float *x,
               int64_t n_rows, int64_t ld);
/* Returns ERR_SYS if memory ran out while storing this chunk's rows. */
int pair_check(const struct pair *p, struct err *e);
/* Sets d [n_rows][ne[0]] to the base's rows minus x, the quantized model's rows for the same
 * tokens. The difference is 0 if the base has no such row, because it sent the token to different
 * experts. Returns the number of rows found. */
int64_t pair_differences(struct pair *p, const struct gr_weight *w, int64_t expert, const float *x,
                         int64_t n_rows, int64_t ld, float *d);

#endif
