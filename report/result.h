// SPDX-License-Identifier: MIT
/* report/result.h - results.json, the only source of every report.
 *
 * `hone make` writes the JSON; its schema is docs/formats/results.md. This file reads it into plain
 * structs. Strings are borrowed until result_close; missing numbers are NaN. */
#ifndef HONE_REPORT_RESULT_H
#define HONE_REPORT_RESULT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/doc.h"

/* Results over questions about images; NaN: not measured. */
struct result_images {
    double kld, kld_stderr, same_top1, changed, right, choices_right, choices_flipped;
};
/* Answers to a built-in suite of loops or checks; NaN: not measured. */
struct result_suite {
    double n, passed, same;
};
struct result_file { /* one output GGUF */
    const char *file, *recipe, *sha256;
    const char *sample, *weights; /* hashes of the measured file (containers/gguf.h); "": unknown */
    const char *size_class, *made,
        *why;      /* e.g. "Q4_K_M"; "preset" or "mix"; a sentence. "": unknown */
    bool feedback; /* made with error feedback */
    int64_t size_bytes;
    double bpw, ppl, ppl_stderr, mean_kld, kld_p999, max_kld, same_top1, rms_dp;
    double mean_kld_stderr; /* over windows; NaN: unknown, as in results of earlier versions */
    double acceptance, acceptance_stderr, n_drafts; /* of the MTP block's drafts; NaN: unknown */
    double pp_tok_per_s, tg_tok_per_s, pp_stddev, tg_stddev;
    double preset_kld;  /* mean KLD of llama.cpp's preset of this size */
    double preset_sure; /* standard errors between the two on the same windows; NaN: unknown */
    double n_unlike;    /* of a preset: tensors with other types than llama.cpp's; NaN: unknown */
    const cJSON *types; /* rows of type and share of the bytes, largest first; NULL: unknown */
    const cJSON *by_depth, *speed;                         /* arrays of rows; NULL: not measured */
    double tools_n, tools_valid, tools_passed, tools_same; /* tool-call cases */
    double tools_held;         /* cases that are valid if a grammar enforces the tools' schemas */
    double tools_overruled;    /* tokens per 1000 that the grammar overruled */
    const cJSON *tools_places; /* rows: overruled tokens by tool and place; NULL: not counted */
    struct result_suite loops, checks;
    struct result_images images;
    int is_base; /* the reference that all files are compared with */
};
struct result {
    cJSON *root;
    const char *name, *arch, *arch_note, *version, *machine, *license, *base_name, *tools_suite;
    int64_t n_params, ctx, eval_ctx, eval_tokens, eval_chunks, imatrix_chunks, imatrix_chunk_size;
    int64_t pp, tg;
    const cJSON *eval_texts, *calib_texts, *notes, *left_out; /* arrays */
    const cJSON *facts;     /* publishing facts: repo, license, base_model, ...; NULL: none */
    const char *base_type;  /* "BF16", "Q4_K_M"; "": unknown */
    bool base_is_quantized; /* the reference itself has quantization loss */
    struct result_file *file;
    int n_files;
};
/* Reads a results.json; on error, nothing is left to close. */
int result_open(struct result *r, const char *path, struct err *e);
/* Fills r from the parsed JSON of the file `path`. Takes ownership of root, even on failure. */
int result_take(struct result *r, cJSON *root, const char *path, struct err *e);
void result_close(struct result *r);
enum result_match {
    RESULT_SAME,   /* the file that was measured, or one that cannot be examined */
    RESULT_EDITED, /* the same weights with other metadata: the measurements hold */
    RESULT_OTHER,  /* other weights: the measurements are those of another file */
};
/* Returns whether the file of this name in a folder is the one that was measured. Reads its header
 * and a sample of each tensor. Results of earlier versions have no hashes: RESULT_SAME. */
enum result_match result_match(const struct result_file *f, const char *dir);
/* Returns the size budget in bytes that a mix's recipe name contains ("mix-9MiB"); 0 for other
 * recipes. */
double result_budget(const struct result_file *f);

/* Reports: each appends a whole file to `out`. */
struct release; /* report/release.h */
/* Appends README.md. r NULL: nothing was measured; rel NULL: the folder is unknown. At least one of
 * them must be given. versus: results of hone versus (report/versus.h), or NULL. */
void report_readme(const struct result *r, const struct release *rel, const cJSON *versus,
                   struct buf *out);
/* Comment at the top of each card. It names the markers around the publisher's own text
 * (make/file_guard.h). All versions of hone write README_MARK_START; the oldest wrote
 * README_MARK_OLD. */
#define README_MARK_START "<!-- Written by hone; hone publish "
#define README_MARK                                                                                \
    README_MARK_START "rewrites this file except for the text between the notes marks. -->"
#define README_MARK_OLD "<!-- Written by hone; hone publish writes it anew. -->"
/* Writes the whole report; rel NULL: outside a release. */
void report_html(const struct result *r, const struct release *rel, struct buf *out);
/* Reads the members of a file's or projector's row (report/images.c). */
void result_images_read(struct result_images *out, const cJSON *row);
/* Returns whether answers about images were measured. */
bool result_sees(const struct result *r);
/* Append the section about images of README.md and report.html if they were measured. */
void report_images_md(const struct result *r, struct buf *out);
void report_images_html(const struct result *r, struct buf *out);
/* Appends the tool-call section of README.md if tool calls were measured. */
void report_tools_md(const struct result *r, struct buf *out);
/* Appends the tool-call section of report.html if tool calls were measured. */
void report_tools_html(const struct result *r, struct buf *out);

/* Appends a plot of file size against mean divergence as a self-contained <svg>. `narrow`, here and
 * below: for the width of a phone. */
void report_svg_kld(const struct result *r, bool narrow, struct buf *out);
/* Appends a plot of mean divergence by context length, one line per file. Returns false and appends
 * nothing if it was not measured. */
bool report_svg_kld_depth(const struct result *r, bool narrow, struct buf *out);
/* Appends a plot of generation speed by context length, one line per file. Returns false and
 * appends nothing if it was not measured. */
bool report_svg_speed_depth(const struct result *r, bool narrow, struct buf *out);
/* Appends a plot of file size against generation speed. Returns false and appends nothing if fewer
 * than two files were measured. */
bool report_svg_speed(const struct result *r, bool narrow, struct buf *out);

#endif
