// SPDX-License-Identifier: MIT
/* convert/convert.h - conversion from a Hugging Face folder to GGUF. The first pass reads only
 * headers (names, shapes, types, sizes) and reports all structural errors; the second converts
 * tensor by tensor, in slabs. Peak memory stays under 512 MiB for any model. */
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
    const char *name; /* general.name; NULL: derived as in llama.cpp's converter */
    const char *pre;  /* pre-tokenizer override; NULL: none */
    bool keep_mxfp4;  /* keep the blocks of MXFP4 matrices */
    bool pad;         /* zero-pad feed-forward widths to multiples of 256 */
    const char *lora; /* folder of an adapter to merge; NULL: none */
    /* Folder of the model that a draft was trained for (config.json, tokenizer); NULL: none. */
    const char *target;
    bool no_mtp, mtp_only, overwrite, dry_run;
    bool consume;    /* delete each shard once everything made from it is on disk */
    bool links;      /* with consume: also files that shards are links to */
    bool tower_done; /* with consume: the vision tower is on disk, so its shards may be deleted */
    bool tower_told; /* the caller reports what becomes of the vision tower */
    uint64_t split_max; /* 0: one file */
    struct pool *pool;  /* borrowed, may be NULL */
    /* Called once per planned tensor, in file order, before data are read; NULL: none. */
    void (*plan)(void *ud, const char *name, enum qtype type, int n_dims, const int64_t ne[4],
                 uint64_t n_bytes);
    void *plan_ud;
};
struct convert_report {
    char arch[32], type[16];
    int64_t n_tensors, n_params, n_mtp_tensors, n_skipped_vision, n_kept,
        n_nvfp4;     /* matrices kept by keep_mxfp4, and in NVFP4 */
    int64_t n_tower; /* tensors of the source's vision tower */
    uint64_t size_bytes;
    uint64_t extra_bytes; /* with consume: free space that the conversion needs */
    double seconds;
    /* Values that are NaN, infinite, or out of range for the output type. */
    int64_t n_nan, n_inf, n_overflow;
};
/* Converts a folder and fills the report. */
int convert_run(const struct convert_opts *o, struct convert_report *r, struct err *e);
/* Returns ERR_USAGE if out is a file of a folder that is read, or a link to one. GGUF files may be
 * replaced. */
int convert_apart(const struct convert_opts *o, const char *out, struct err *e);
struct arch;
struct hfdir;
/* Returns the architecture of a folder: by the model class in config.json, or else by model_type
 * and the names of the tensors. NULL: unknown. *cls: the class; NULL: config.json has none. */
const struct arch *convert_arch(struct hfdir *dir, const char **cls);
/* Checks that the model class of folder src is supported; otherwise returns the error that
 * convert_run would return. Sets *runs if hone can also run such models, and *draft to the kind of
 * draft (struct arch; NULL: a model of its own). */
int convert_known(const char *src, bool *runs, const char **draft, struct err *e);

#endif
