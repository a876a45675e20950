// SPDX-License-Identifier: MIT
/* calib/moments.h - collector of the second moments of matrix products' inputs while texts run.
 *
 * Call order: new; a survey pass over the first chunk, which finds sizes and the weights that share
 * an input; settle; for every chunk, gram_col_chunk and then the pass; finish. */
#ifndef HONE_CALIB_MOMENTS_H
#define HONE_CALIB_MOMENTS_H

#include "calib/pair.h"
#include "quantize/hessian_file.h"
#include "base/pool.h"
#include "base/checkpoint.h"
#include "runtime/engine/session.h"

struct gram_col;
/* Creates a collector. `block` is the number of columns per block of a dense input, a multiple of
 * 256; 0: one block for up to 4096 columns, blocks of 2048 for more. */
int gram_col_new(struct gram_col **out, int64_t block, enum kern_isa isa, struct pool *pool,
                 struct err *e);
void gram_col_free(struct gram_col *c);
/* Allows OpenBLAS for these uses (kernels/blas.h). */
void gram_col_blas(struct gram_col *c, unsigned uses);
/* Lets a device (borrowed) compute sums, which then have the same bits on every device. */
struct dev_product;
void gram_col_device(struct gram_col *c, struct dev_product *d);
/* Makes the collector compare rows with the base model's in p (borrowed) and also collect cross
 * sums. Call before the survey ends. */
void gram_col_pair(struct gram_col *c, struct pair *p);
int64_t gram_col_block(const struct gram_col *c); /* as given to gram_col_new */
/* Adds rows that the session's observer receives. gate [n_rows]: each row's outer product is
 * multiplied by the square of its gate (session_shown.gate); NULL: ones. Gates do not affect
 * counts. */
void gram_col_see(struct gram_col *c, const struct gr_weight *w, int64_t expert, const float *x,
                  const float *gate, int64_t n_rows, int64_t ld);
/* Adds rows as gram_col_see does, but once per weight even if other weights share the input,
 * because each weight may have different gates. */
void gram_col_see_each(struct gram_col *c, const struct gr_weight *w, int64_t expert,
                       const float *x, const float *gate, int64_t n_rows, int64_t ld);
/* Leaves out the moments of gradients. Call before the survey. */
void gram_col_leave_out_gradients(struct gram_col *c);
/* Returns whether gradients were left out, by gram_col_leave_out_gradients or for lack of
 * memory. */
bool gram_col_without_gradients(const struct gram_col *c);
/* Returns whether each expert of a weight of n columns has its own moments; otherwise they
 * share one sum. */
bool gram_col_apart(int64_t n, int64_t n_experts);
/* Ends the survey: chooses the inputs and allocates their sums. If memory is short, leaves out the
 * gradients with a warning; returns ERR_SYS if even the rest does not fit. With --max-memory, that
 * limit decides what fits; returns ERR_SYS if less memory is free. */
int gram_col_settle(struct gram_col *c, int64_t max_rows, struct err *e);
/* Announces the number of chunks. The halves take turns of 8 chunks, or of half the chunks if there
 * are fewer than 16; warns if one half stays empty. Call before the first chunk and before
 * gram_col_load. */
void gram_col_chunks(struct gram_col *c, int64_t n_chunks);
/* Chooses the half that the rows of this chunk belong to. */
void gram_col_chunk(struct gram_col *c, int64_t i_chunk);
/* Assigns whole texts to the halves in turn, so that statistics from one text are validated on
 * another. Text i ends before chunk end[i] (borrowed). Has no effect if a half would have less than
 * a quarter of the chunks, or if there are experts, because a text uses few of them. Call after
 * settle and before the first chunk. */
void gram_col_texts(struct gram_col *c, const int64_t *end, int n_texts);
/* Writes the current sums to a snapshot, as its last part; call between chunks of a settled
 * collector. gram_col_load reads them back; it returns false and changes nothing if inputs or sizes
 * differ. */
int gram_col_save(const struct gram_col *c, struct checkpoint_w *w, struct err *e);
/* Reads the sums of a checkpoint; false if they do not match or are cut off. */
bool gram_col_load(struct gram_col *c, struct checkpoint_r *r);
/* Checks that all sums are finite and that inputs are still shared as surveyed, then fills `out`
 * with copied names and borrowed sums. */
int gram_col_finish(struct gram_col *c, struct gram *out, struct err *e);

#endif
