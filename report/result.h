// SPDX-License-Identifier: MIT
/* report/result.h - results.json, the one file every report is built from (never from the model).
 *
 * The JSON is written by `hone make`; its schema is docs/formats/results.md. This module reads it
 * into plain structs; strings are borrowed until result_close. Missing numbers are NaN. */
#ifndef HONE_REPORT_RESULT_H
#define HONE_REPORT_RESULT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/doc.h"

struct result_file { /* one output GGUF */
    const char *file, *recipe, *sha256;
    const char *size_class, *made, *why; /* "Q4_K_M"; "preset", "mix"; a sentence. "": not said */
    bool feedback;                       /* made with error feedback */
    int64_t size_bytes;
    double bpw, ppl, ppl_stderr, mean_kld, mean_kld_stderr, kld_p999, max_kld, same_top1, rms_dp;
    double pp_tok_per_s, tg_tok_per_s, pp_stddev, tg_stddev;
    double preset_kld;  /* of llama.cpp's preset of this size */
    const cJSON *types; /* rows of type and share of the bytes, the largest first; or NULL */
    const cJSON *by_depth, *speed;                         /* arrays of rows; NULL: not measured */
    double tools_n, tools_valid, tools_passed, tools_same; /* cases of tool calls */
    double tools_held;      /* of them valid when a grammar held the calls to the tools' schemas */
    double tools_overruled; /* by it, of 1000 tokens */
    const cJSON *tools_places; /* rows: how often, by tool and place; NULL: not counted */
    int is_base;               /* the unquantized conversion everything is compared with */
};
struct result {
    cJSON *root;
    const char *name, *arch, *arch_note, *version, *machine, *license, *base_name, *tools_suite;
    int64_t n_params, ctx, eval_ctx, eval_tokens, eval_chunks, imatrix_chunks, imatrix_chunk_size;
    int64_t pp, tg;
    const cJSON *eval_texts, *calib_texts, *notes, *left_out; /* arrays */
    const cJSON *facts;     /* of publishing: repo, license, base_model, ...; NULL: none */
    const char *base_type;  /* "BF16", "Q4_K_M"; "": not said */
    bool base_is_quantized; /* what everything is compared with lost something itself */
    struct result_file *file;
    int n_files;
};
int result_open(struct result *r, const char *path, struct err *e);
/* Fills r from JSON that is read already, of the file `path`; it takes over root, also when it
 * fails. */
int result_take(struct result *r, cJSON *root, const char *path, struct err *e);
void result_close(struct result *r);
/* Returns the bytes that a mix was made for, which its recipe names ("mix-9MiB"); 0: it has another
 * recipe. */
double result_budget(const struct result_file *f);

/* Reports: text of a whole file into `out`. */
struct release; /* report/release.h */
/* Appends the text of README.md. r NULL: nothing was measured; rel NULL: nothing is known of the
 * folder; one of them must be there. */
void report_readme(const struct result *r, const struct release *rel, struct buf *out);
/* In each card; it names the marks between which the publisher's own words are kept
 * (make/file_guard.h). All versions wrote README_MARK_START; the oldest, README_MARK_OLD. */
#define README_MARK_START "<!-- Written by hone; hone publish "
#define README_MARK                                                                                \
    README_MARK_START "rewrites this file except for the text between the notes marks. -->"
#define README_MARK_OLD "<!-- Written by hone; hone publish writes it anew. -->"
void report_html(const struct result *r, const struct release *rel, struct buf *out);
/* Appends the section on tool calls of README.md, where they were measured. */
void report_tools_md(const struct result *r, struct buf *out);
/* Appends the section on tool calls of report.html, where they were measured. */
void report_tools_html(const struct result *r, struct buf *out);

/* Appends a plot (report/svg.h) of size against mean divergence, a self-contained <svg>. Here and
 * below `narrow` asks for the width of a phone. */
void report_svg_kld(const struct result *r, bool narrow, struct buf *out);
/* Appends a plot of mean divergence over the tokens of context, a line per file. Returns false,
 * with nothing written, when that was not measured. */
bool report_svg_kld_depth(const struct result *r, bool narrow, struct buf *out);
/* Appends a plot of generated tokens per second over the tokens of context, a line per file.
 * Returns false, with nothing written, when that was not measured. */
bool report_svg_speed_depth(const struct result *r, bool narrow, struct buf *out);
/* Appends a plot of size against generated tokens per second. Returns false, with nothing written,
 * when fewer than two files were measured. */
bool report_svg_speed(const struct result *r, bool narrow, struct buf *out);

#endif
