// SPDX-License-Identifier: MIT
/* quantize/resume.h - resumable outputs (journal.h records which tensors are complete).
 *
 * A run's key is a hash of all headers that it would write, and of the name, size and modification
 * time of each file that it reads. The headers contain every tensor's type and, in hone.replay, the
 * program's version, the options that affect the bytes, and hashes of the importance matrix and the
 * moments. Cost while encoding: one hash of the output, computed by the writer thread. Cost of
 * resuming: reading the partial output once. */
#ifndef HONE_QUANTIZE_RESUME_H
#define HONE_QUANTIZE_RESUME_H

#include "containers/gguf.h"
#include "quantize/quantize.h"

struct resume;
/* Calls gguf_w_begin for an output that can be resumed. The first *n_done tensors are already in
 * the file and verified; continue with the data of the next tensor. */
int resume_begin(struct resume **out, struct gguf_w *w, const struct quantize_opts *o,
                 const struct gguf *source, int64_t *n_done, struct err *e);
/* Returns the path of OUT.part.log, or of OUT.part or one of those of n_files > 1 output files, if
 * it holds data that this program did not write; the caller frees it. NULL: none of them does. */
char *resume_foreign(const char *out, int n_files);
/* Returns quantize_row.alpha of a completed tensor. */
double resume_alpha(const struct resume *s, int64_t tensor);
/* Hashes data that gguf_w_data has written, and records the tensor once it is complete. alpha is
 * the tensor's. */
int resume_data(struct resume *s, const void *p, uint64_t n, double alpha, struct err *e);
/* Ends the session, before gguf_w_free; rc is the run's result. Keeps an unfinished output and logs
 * this, unless the input is at fault. s may be NULL. */
void resume_end(struct resume *s, int rc);

#endif
