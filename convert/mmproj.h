// SPDX-License-Identifier: MIT
/* convert/mmproj.h - the vision tower of a Hugging Face folder -> projector file (mmproj), a GGUF
 * of its own that other engines load beside the language model. Only copied, never computed with.
 * Peak memory: one row of a tensor, or one patch kernel. */
#ifndef HONE_CONVERT_MMPROJ_H
#define HONE_CONVERT_MMPROJ_H

#include "convert/convert.h"

struct mmproj_report {
    char projector[32], type[16];
    int64_t n_tensors, n_params;
    uint64_t size_bytes;
};
/* Writes the projector file `out` from the vision tower of a folder; o->src, type, name, overwrite,
 * dry_run and plan are as for convert_run. ERR_DATA when there is no vision tower, or one with
 * missing or unknown tensors. */
int mmproj_run(const struct convert_opts *o, const char *out, struct mmproj_report *r,
               struct err *e);
/* Tells whether the vision towers of an architecture, given by its GGUF name, can be converted. */
bool mmproj_known(const char *arch);

#endif
