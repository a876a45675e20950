// SPDX-License-Identifier: MIT
/* convert/convert.h - Hugging Face folder -> GGUF, in two passes: headers only (names, shapes,
 * types, sizes; every structural error shows here), then tensor by tensor in slabs. Peak memory
 * stays under 512 MiB for any model. */
#ifndef HONE_CONVERT_CONVERT_H
#define HONE_CONVERT_CONVERT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/pool.h"
#include "containers/qtype.h"

struct convert_opts {
    const char *src, *out;
    const char *type; /* "auto", "f32", "f16", "bf16", "q8_0"; NULL: auto */
    const char *name; /* general.name; NULL: as the field's converter does */
    const char *pre;  /* pre-tokenizer override or NULL */
    bool keep_mxfp4;  /* matrices stored as MXFP4 keep their blocks */
    bool pad;         /* feed-forward widths rounded up to multiples of 256, with zeros */
    const char *lora; /* adapter folder that is merged, or NULL */
    bool no_mtp, overwrite, dry_run;
    uint64_t split_max; /* 0: one file */
    struct pool *pool;  /* borrowed, may be NULL */
    /* Called once per tensor of the plan, in file order, before data are read; may be NULL. */
    void (*plan)(void *ud, const char *name, enum qtype type, int n_dims, const int64_t ne[4],
                 uint64_t n_bytes);
    void *plan_ud;
};
struct convert_report {
    char arch[32], type[16];
    int64_t n_tensors, n_params, n_mtp_tensors, n_skipped_vision, n_kept; /* n_kept: keep_mxfp4 */
    uint64_t size_bytes;
    double seconds;
    /* Values that are NaN, infinite, or left the range of the output type. */
    int64_t n_nan, n_inf, n_overflow;
};
int convert_run(const struct convert_opts *o, struct convert_report *r, struct err *e);
/* Tells whether the class of the model in folder src has a table: returns 0 when it has, otherwise
 * the error of convert_run. */
int convert_known(const char *src, struct err *e);

#endif
