// SPDX-License-Identifier: MIT
/* calib/moments.h - second moments of what enters the matrix products, collected while texts run.
 *
 * Order of calls: new; one pass over the first chunk with the survey on (which weights share an
 * input, and sizes); settle; for every chunk: chunk, then the pass; finish. */
#ifndef HONE_CALIB_MOMENTS_H
#define HONE_CALIB_MOMENTS_H

#include "calib/pair.h"
#include "quantize/hessian_file.h"
#include "base/pool.h"
#include "base/checkpoint.h"
#include "runtime/engine/session.h"

struct gram_col;
/* Makes a collector. `block` is the number of columns of a dense input's blocks, a multiple of
 * 256; 0: one block up to 4096 columns, otherwise blocks of 2048. */
int gram_col_new(struct gram_col **out, int64_t block, enum kern_isa isa, struct pool *pool,
                 struct err *e);
void gram_col_free(struct gram_col *c);
/* Makes the collector compare what is shown with the rows of the base in p (borrowed) and
 * collect the sums of differences too. It is called before the survey ends. */
void gram_col_pair(struct gram_col *c, struct pair *p);
int64_t gram_col_block(const struct gram_col *c); /* as given */
/* Takes rows from the session's observer. gate [n_rows], or NULL for ones: the outer product of
 * each row is multiplied by its square (session_shown.gate). Rows are counted as they are. */
void gram_col_see(struct gram_col *c, const struct gr_weight *w, int64_t expert, const float *x,
                  const float *gate, int64_t n_rows, int64_t ld);
/* Does the same, but also where other weights share the rows: their moments then are the sum of
 * what is shown for each, as the gates of each say. */
void gram_col_see_each(struct gram_col *c, const struct gr_weight *w, int64_t expert,
                       const float *x, const float *gate, int64_t n_rows, int64_t ld);
/* Leaves out the moments of gradients, as a plan asks. Call it before the survey. */
void gram_col_leave_out_gradients(struct gram_col *c);
/* Tells whether they were left out, by that call or for lack of memory. */
bool gram_col_without_gradients(const struct gram_col *c);
/* Tells whether the experts of a weight of n columns have moments of their own; otherwise those of
 * all are added up. */
bool gram_col_apart(int64_t n, int64_t n_experts);
/* Ends the survey: decides the inputs and allocates their sums. Where memory is short, those of
 * gradients are left out, with a warning; ERR_SYS where it is short of the others. With
 * --max-memory only that limit decides; ERR_SYS if less is free. */
int gram_col_settle(struct gram_col *c, int64_t max_rows, struct err *e);
void gram_col_chunk(struct gram_col *c, int64_t i_chunk);
/* Makes whole texts in turns the halves, text i ending before chunk end[i] (borrowed), where
 * either half then has at least a quarter of the chunks and there are no experts, of which a text
 * uses few: what one text teaches is judged by another. It is called once the collector is settled,
 * before the first chunk. */
void gram_col_texts(struct gram_col *c, const int64_t *end, int n_texts);
/* Writes the sums so far to a snapshot, between chunks of a settled collector. gram_col_load
 * reads them; it returns false, and changes nothing, when they are of other inputs or sizes.
 * They must be the last thing in the snapshot. */
int gram_col_save(const struct gram_col *c, struct checkpoint_w *w, struct err *e);
bool gram_col_load(struct gram_col *c, struct checkpoint_r *r);
/* Checks that everything is finite and sharing is still true, and fills `out`: names are copied,
 * sums are borrowed from c. */
int gram_col_finish(struct gram_col *c, struct gram *out, struct err *e);

#endif
