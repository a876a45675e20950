// SPDX-License-Identifier: MIT
/* quantize/quantize.h - GGUF + importance -> smaller GGUF, streamed tensor by tensor. */
#ifndef HONE_QUANTIZE_QUANTIZE_H
#define HONE_QUANTIZE_QUANTIZE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/pool.h"
#include "containers/qtype.h"
#include "quantize/enc/enc.h"
#include "quantize/qdev.h"

struct quant_override { /* --tensor REGEX=TYPE, first match wins, case-insensitive */
    const char *regex;
    enum qtype type;
};
struct quant_note { /* a text key for the output's metadata */
    const char *key, *value;
};
struct quantize_given { /* a tensor that is encoded already, in the plan's type; borrowed */
    const char *name;
    const void *data;
    double alpha; /* as in quantize_row */
};
/* An interrupted run leaves OUT.part, and the same run again goes on there (resume.h). AUTO: only
 * when the output is large, QUANTIZE_RESUME_BYTES. */
enum quantize_resume { RESUME_NEVER, RESUME_AUTO, RESUME_ALWAYS };
#define QUANTIZE_RESUME_BYTES (UINT64_C(256) << 20)
struct quantize_opts {
    const char *in, *out;
    const char *recipe;  /* "Q4_K_M", a single type's name, or the path of a plan.tsv */
    const char *imatrix; /* path or NULL */
    const char *gram;    /* second moments: error feedback; path or NULL */
    const struct quant_override *over;
    int n_over;
    bool pure, overwrite, dry_run;
    bool want_rows;  /* keep the plan in the report */
    bool known_gaps; /* the caller has warned of experts without importance */
    enum search search;
    unsigned without;      /* FEEDBACK_... steps left out (feedback.h); 0: none */
    const char *file_type; /* name for general.file_type; NULL: from the recipe or the types */
    const char *plan_out;  /* write the plan used, or NULL */
    double tau; /* tokens of prior for rarely used experts; 0: the default, 256; < 0: none */
    uint64_t split_max;
    enum quantize_resume resume;
    const struct quant_note *note; /* why these types: written as they are */
    int n_notes;
    const struct quantize_given *given; /* [n_given] tensors that are written as they are */
    int n_given;
    struct pool *pool;
    struct qdev_want device; /* searches run there where it can: the same bytes */
};
struct quantize_row { /* one tensor of the plan */
    char name[64];
    const char *role; /* static */
    enum qtype from, to;
    int64_t n_weights;
    uint64_t in_bytes, out_bytes;
    bool fallback;   /* its rows do not fit the wanted type */
    double alpha;    /* shrinkage of error feedback, 0: none was used */
    bool no_imatrix; /* quantized without importance although a matrix was given */
};
struct quantize_report {
    struct quantize_row *rows; /* with want_rows: in output order; quantize_report_release frees */
    char recipe[64];
    int64_t n_tensors, n_quantized, n_fallbacks, n_no_imatrix, n_feedback, n_resumed;
    int64_t n_cuda; /* tensors encoded on the device */
    uint64_t in_bytes, out_bytes;
    uint64_t file_bytes; /* of all output files, exact, also with dry_run */
    double bpw, seconds;
};
int quantize_run(const struct quantize_opts *o, struct quantize_report *r, struct err *e);
/* Makes several outputs from one reading of o[0].in, with o[0]'s imatrix, search, pool,
 * overwrite, dry_run and device. Each tensor is encoded once per type. All outputs appear or, if
 * anything fails before the last is complete, none. */
int quantize_run_many(const struct quantize_opts *o, int n, struct quantize_report *r,
                      struct err *e);

struct gguf;
struct imat;
struct gram;
struct qplan;
/* Encodes one tensor of g as quantize_run does with the same options and plan, into *out
 * (mem_free). imat: NULL for none; gram: NULL for no error feedback, empty where only embeddings
 * can have it. *alpha: as in quantize_row. */
int quantize_tensor(const struct quantize_opts *o, struct gguf *g, const struct imat *imat,
                    const struct gram *gram, const struct qplan *plan, int64_t index, void **out,
                    double *alpha, struct err *e);

void quantize_report_release(struct quantize_report *r);

/* Returns the names of llama.cpp's presets, in order of size, then of the named recipes (ours,
 * and the published shapes of others'). NULL past the end. */
const char *recipe_name(int i);
/* Returns the size classes that `hone make` fills, the largest first. NULL past the end. */
const char *recipe_ladder(int i);
const char *recipe_named(int i);
/* Returns one line about a named recipe, or NULL for a preset. */
const char *recipe_about(const char *name);
/* Returns in a phrase what a recipe is for, or NULL when there is no such recipe. */
const char *recipe_use(const char *name);
/* The part of a file's name that says the recipe: its name, but "like-UD-Q4_K_XL" for the shape of
 * another publisher's files, whose makers did not make ours. */
enum { RECIPE_FILE = 96 };
void recipe_file(const char *name, char out[RECIPE_FILE]);
/* Returns the canonical name of a preset or named recipe that is given in any case, or NULL when
 * there is none. */
const char *recipe_find(const char *name);
/* Returns the recipe meant by "q4km" or "Q4-K-M", where letters and digits alone count, or NULL
 * when there is none. */
const char *recipe_like(const char *name);

#endif
