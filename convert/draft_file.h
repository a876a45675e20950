// SPDX-License-Identifier: MIT
/* convert/draft_file.h - draft file of a GGUF file: its MTP blocks, and the tensors that they share
 * with the model. */
#ifndef HONE_CONVERT_DRAFT_FILE_H
#define HONE_CONVERT_DRAFT_FILE_H

#include <stdint.h>

#include "base/err.h"
#include "containers/qtype.h"

struct draft_file {
    int64_t n_mtp; /* tensors of MTP blocks; 0: the model has none, and no file is written */
    uint64_t size_bytes;
};
/* Writes the draft file of the model in file `in`, as `hone convert --mtp-only` would from its
 * folder: matrices of floats as `type`, one of QF_CONVERT, everything else unchanged. out NULL:
 * computes *r only. Replaces out. */
int draft_file_write(const char *in, const char *out, enum qtype type, struct draft_file *r,
                     struct err *e);

#endif
