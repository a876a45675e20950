// SPDX-License-Identifier: MIT
/* calib/pair.h - the rows that enter the matrix products of one model, beside those that enter the
 * same products of another model with the same tokens: what quantization has made of the inputs so
 * far.
 *
 * Order of calls for a chunk: begin; a pass of the base, whose observers call pair_route and
 * pair_keep; a pass of the other model, whose observers call pair_route and pair_differences. Each
 * pass is of the whole chunk. */
#ifndef HONE_CALIB_PAIR_H
#define HONE_CALIB_PAIR_H

#include "runtime/engine/session.h"

struct pair;
enum pair_side { PAIR_BASE, PAIR_OTHER };
struct pair *pair_new(void);
void pair_free(struct pair *p);
/* Forgets the rows of the chunk before. */
void pair_begin(struct pair *p);
/* Keeps which experts the router of a block chose, expert [n_rows][n_used]. */
void pair_route(struct pair *p, enum pair_side side, int block, const int32_t *expert,
                int64_t n_used, int64_t n_rows);
/* Keeps rows of the base: x [n_rows][ld], as a probe is shown them. */
void pair_keep(struct pair *p, const struct gr_weight *w, int64_t expert, const float *x,
               int64_t n_rows, int64_t ld);
/* Fails with ERR_SYS when there was no memory to keep a row of this chunk. */
int pair_check(const struct pair *p, struct err *e);
/* Sets d [n_rows][ne[0]] to the base's rows less x, the rows of the other model for the same
 * tokens. Where the base has no such row, as for a token that it sent to other experts, the
 * difference is 0. Gives the number of rows that were found. */
int64_t pair_differences(struct pair *p, const struct gr_weight *w, int64_t expert, const float *x,
                         int64_t n_rows, int64_t ld, float *d);

#endif
