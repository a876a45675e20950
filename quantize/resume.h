// SPDX-License-Identifier: MIT
/* quantize/resume.h - an output that a later run can go on with (journal.h says how it is known).
 *
 * The key of a run is a hash of all headers it would write (they hold every tensor's type, and in
 * hone.replay every option that decides bytes, the program's version and the contents of the
 * importance matrix and of the moments) and of name, size and time stamp of every file it reads.
 * Cost while encoding: one hash of the output, by the writing thread. Cost of going on: reading
 * what is there once. */
#ifndef HONE_QUANTIZE_RESUME_H
#define HONE_QUANTIZE_RESUME_H

#include "containers/gguf.h"
#include "quantize/quantize.h"

struct resume;
/* Does gguf_w_begin for an output that can be gone on with. *n_done tensors are there already
 * and their bytes are as recorded; the data of the next one follow. */
int resume_begin(struct resume **out, struct gguf_w *w, const struct quantize_opts *o,
                 const struct gguf *source, int64_t *n_done, struct err *e);
double resume_alpha(const struct resume *s, int64_t tensor); /* quantize_row.alpha of a done one */
/* Takes note of a tensor that is complete now, after gguf_w_data with the same bytes. alpha is
 * the tensor's. */
int resume_data(struct resume *s, const void *p, uint64_t n, double alpha, struct err *e);
/* Ends it before gguf_w_free, with the result of the run: an output that is not finished stays,
 * unless its input is at fault, and the log says so. NULL is fine. */
void resume_end(struct resume *s, int rc);

#endif
