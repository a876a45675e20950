// SPDX-License-Identifier: MIT
/* jobs/copy.h - a GGUF rewritten with the same keys and tensors (hone split, hone merge): streamed,
 * hashed on the way, read back and compared. */
#ifndef HONE_JOBS_COPY_H
#define HONE_JOBS_COPY_H

#include "containers/gguf.h"

struct copy_report {
    uint64_t n_bytes; /* of tensor data */
    int64_t n_tensors;
    int64_t n_known; /* tensors whose hash the manifest beside the input confirmed */
    double seconds;
};
/* Declares g's keys (without split.*) and tensors. */
int copy_declare(const struct gguf *g, struct gguf_w *w, struct err *e);
/* Writes `path` from g: header, data, commit; then opens what was written (as `first`) and compares
 * every key, tensor and hash. When a manifest beside g's file knows it, data that differ from it
 * are ERR_DATA before anything appears. */
int copy_write(const struct gguf *g, struct gguf_w *w, const char *path, const char *first,
               bool overwrite, struct copy_report *r, struct err *e);

#endif
