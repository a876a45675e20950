// SPDX-License-Identifier: MIT
/* calib/moments.h - second moments of what enters the matrix products, collected while texts run.
 *
 * Order of calls: new; one pass over the first chunk with the survey on (which weights share an
 * input, and sizes); settle; for every chunk: chunk, then the pass; finish. */
#ifndef HONE_CALIB_MOMENTS_H
#define HONE_CALIB_MOMENTS_H

#include "calib/pair.h"
#include "quantize/gram_file.h"
#include "core/pool.h"
#include "core/snap.h"
#include "runtime/engine/session.h"

struct gram_col;
/* block: columns of a dense input's blocks, a multiple of 256; 0: full up to 4096, else 2048. */
int gram_col_new(struct gram_col **out, int64_t block, enum kern_isa isa, struct pool *pool,
                 struct err *e);
void gram_col_free(struct gram_col *c);
/* Before the survey ends: what is shown is compared with the rows of the base in p (borrowed), and
 * the sums of differences are collected too. */
void gram_col_pair(struct gram_col *c, struct pair *p);
int64_t gram_col_block(const struct gram_col *c); /* as given */
/* From the session's observer. */
void gram_col_see(struct gram_col *c, const struct gr_weight *w, int64_t expert, const float *x,
                  int64_t n_rows, int64_t ld);
/* Ends the survey: decides the inputs and allocates their sums (ERR_SYS when memory is short). */
int gram_col_settle(struct gram_col *c, int64_t max_rows, struct err *e);
void gram_col_chunk(struct gram_col *c, int64_t i_chunk);
/* The sums so far, between chunks of a settled collector, to and from a snapshot. load: false, and
 * nothing changed, when it is of other inputs or sizes; it must be the last thing in the snapshot.
 */
int gram_col_save(const struct gram_col *c, struct snap_w *w, struct err *e);
bool gram_col_load(struct gram_col *c, struct snap_r *r);
/* Everything finite, sharing still true: fills out (names copied, sums borrowed from c). */
int gram_col_finish(struct gram_col *c, struct gram *out, struct err *e);

#endif
