// SPDX-License-Identifier: MIT
/* jobs/copy.h - verified copy of a GGUF with the same keys and tensors (hone split, hone merge):
 * streamed, hashed, read back and compared. */
#ifndef HONE_JOBS_COPY_H
#define HONE_JOBS_COPY_H

#include "containers/gguf.h"

struct copy_report {
    uint64_t n_bytes; /* tensor data */
    int64_t n_tensors;
    int64_t n_known; /* tensors with a hash in the input's manifest */
    double seconds;
};
/* Declares the keys (except split.*) of g's first file and all tensors in w. Warns about keys of
 * other files that w lacks. */
int copy_declare(const struct gguf *g, struct gguf_w *w, struct err *e);
/* Writes `path` from g: header, data, commit. Then opens the output (as `first`) and compares every
 * key, tensor and hash. ERR_USAGE: an output is a file of g. ERR_DATA, before any output appears,
 * if data differ from the manifest.json next to g's file. */
int copy_write(const struct gguf *g, struct gguf_w *w, const char *path, const char *first,
               bool overwrite, struct copy_report *r, struct err *e);

#endif
