// SPDX-License-Identifier: MIT
/* convert/mmproj.h - vision tower conversion: from a Hugging Face folder to a projector file
 * (mmproj), a separate GGUF that other engines load together with the language model. hone copies
 * the tower but does not run it. Peak memory: one row of a tensor, or one patch kernel. */
#ifndef HONE_CONVERT_MMPROJ_H
#define HONE_CONVERT_MMPROJ_H

#include "convert/convert.h"

struct mmproj_report {
    char projector[32], type[16];
    int64_t n_tensors, n_params;
    uint64_t size_bytes;
};
/* Writes the projector file `out`; o->src, type, name, overwrite, dry_run and plan are as for
 * convert_run. ERR_DATA: no vision tower, or one with missing or unknown tensors. */
int mmproj_run(const struct convert_opts *o, const char *out, struct mmproj_report *r,
               struct err *e);
/* Returns whether the vision tower of an architecture (GGUF name) can be converted. */
bool mmproj_known(const char *arch);

#endif
