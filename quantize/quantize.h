// SPDX-License-Identifier: MIT
/* quantize/quantize.h - the quantizer: reads a GGUF and importance, writes a smaller GGUF, one
 * tensor at a time. */
#ifndef HONE_QUANTIZE_QUANTIZE_H
#define HONE_QUANTIZE_QUANTIZE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/pool.h"
#include "containers/qtype.h"
#include "quantize/enc/enc.h"
#include "quantize/exact.h"
#include "quantize/qdev.h"

struct quant_override { /* --tensor REGEX=TYPE, case-insensitive; the first match wins */
    const char *regex;
    enum qtype type;
};
struct quant_note { /* a text key written to the output's metadata */
    const char *key, *value;
};
struct quantize_given { /* a tensor already encoded in the plan's type; borrowed */
    const char *name;
    const void *data;
    double alpha; /* as in quantize_row */
};
/* An interrupted run leaves OUT.part, from which the same run later resumes (resume.h). AUTO: only
 * if the output has at least QUANTIZE_RESUME_BYTES. */
enum quantize_resume { RESUME_NEVER, RESUME_AUTO, RESUME_ALWAYS };
#define QUANTIZE_RESUME_BYTES (UINT64_C(256) << 20)
struct quantize_opts {
    const char *in, *out;
    const char *recipe;  /* "Q4_K_M", the name of a type, or the path of a plan.tsv */
    const char *imatrix; /* path or NULL */
    const char *tmpl;    /* chat template that replaces the input's; NULL: keeps it */
    const char *gram;    /* second moments, for error feedback; path or NULL */
    const struct quant_override *over;
    int n_over;
    bool pure, overwrite, dry_run;
    bool is_type; /* `recipe` names a type, even if a recipe has that name too; needs `pure` */
    bool will_have_imatrix; /* dry_run: choose the types as with an importance matrix */
    bool want_rows;         /* return the plan in the report */
    bool known_gaps;        /* the caller has already warned about gaps in importance and moments */
    enum search search;
    unsigned without;      /* FEEDBACK_... steps to skip (feedback.h) */
    const char *file_type; /* value of general.file_type; NULL: from the recipe or the types */
    const char *plan_out;  /* file to write the plan to, or NULL */
    double tau; /* prior tokens for rarely used experts; 0: 256, the default; < 0: none */
    uint64_t split_max;
    const struct gguf *spared; /* another file that the output must not replace; NULL: none */
    enum quantize_resume resume;
    const struct quant_note *note; /* reasons for choosing these types, copied to the metadata */
    int n_notes;
    const struct quantize_given *given; /* [n_given] tensors to write unchanged */
    int n_given;
    struct pool *pool;
    struct qdev_want device; /* device for the searches it supports; same bytes as the CPU */
};
struct quantize_row { /* one tensor of the plan */
    char name[64];
    const char *role; /* static */
    enum qtype from, to;
    int64_t n_weights;
    uint64_t in_bytes, out_bytes;
    bool fallback;   /* rows do not fit the requested type */
    double alpha;    /* shrinkage of error feedback; 0: not used */
    bool no_imatrix; /* the given importance matrix does not cover it */
};
struct quantize_report {
    struct quantize_row
        *rows; /* with want_rows: the plan in output order; freed by quantize_report_release */
    char recipe[64];
    int64_t n_tensors, n_quantized, n_fallbacks, n_no_imatrix, n_feedback, n_resumed;
    int64_t n_cuda;           /* tensors encoded on the device */
    struct exact_tally exact; /* tensors that got a type because it holds them without loss */
    uint64_t in_bytes, out_bytes;
    uint64_t file_bytes; /* size of all output files, exact even with dry_run */
    int n_files;         /* number of output files */
    double bpw, seconds;
};
/* Quantizes one model and fills r. */
int quantize_run(const struct quantize_opts *o, struct quantize_report *r, struct err *e);
/* Writes several outputs while reading o[0].in once; imatrix, search, pool, overwrite, dry_run and
 * device are also those of o[0]. Each tensor is encoded once per type. If anything fails before the
 * last output is complete, no output appears. */
int quantize_run_many(const struct quantize_opts *o, int n, struct quantize_report *r,
                      struct err *e);
/* Returns the error that quantize_run would return before it encodes anything: an output that
 * exists or cannot be written, a plan file with other contents, types too coarse without
 * importance. Writes the plan file. The second moments in o are not checked. */
int quantize_check(const struct quantize_opts *o, struct err *e);

struct gguf;
struct imat;
struct gram;
struct qplan;
/* Encodes one tensor of g as quantize_run would with the same options and plan, into *out, which
 * the caller frees with mem_free. imat NULL: no importance. gram NULL: no error feedback; empty:
 * error feedback only for embeddings. *alpha: as in quantize_row. */
int quantize_tensor(const struct quantize_opts *o, struct gguf *g, const struct imat *imat,
                    const struct gram *gram, const struct qplan *plan, int64_t index, void **out,
                    double *alpha, struct err *e);

/* Frees the rows of a report. */
void quantize_report_release(struct quantize_report *r);

/* Returns the i-th recipe name: llama.cpp's presets in order of size, then the named recipes (our
 * own and published ones). NULL past the end. */
const char *recipe_name(int i);
/* Returns the i-th size class that `hone make` fills, largest first. NULL past the end. */
const char *recipe_ladder(int i);
/* Returns the rank of a size class among the names that people look for, from 1; 0: no class. */
int recipe_rank(const char *name);
/* Returns the name of recipe i; NULL past the end. */
const char *recipe_named(int i);
/* Returns a one-line description of a named recipe; NULL for a preset. */
const char *recipe_about(const char *name);
/* Returns a phrase about the purpose of a recipe; NULL: unknown recipe. */
const char *recipe_use(const char *name);
/* Writes the part of a file name that identifies the recipe: its name, or "like-UD-Q4_K_XL" for
 * a recipe that imitates another publisher's files. */
enum { RECIPE_FILE = 96 };
/* Writes the part of a file name for a recipe; recipes of other engines get "like-". */
void recipe_file(const char *name, char out[RECIPE_FILE]);
/* Returns the canonical name of a preset or named recipe, ignoring case; NULL: unknown. */
const char *recipe_find(const char *name);
/* Returns the recipe with the same letters and digits, e.g. for "q4km" or "Q4-K-M", or one whose
 * publisher's name is missing, "bartowski-Q5_K_L" for "Q5_K_L"; NULL: none. */
const char *recipe_like(const char *name);

#endif
