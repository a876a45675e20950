// SPDX-License-Identifier: MIT
/* calib/imatrix.h - collection of importance matrices from texts. */
#ifndef HONE_CALIB_IMATRIX_H
#define HONE_CALIB_IMATRIX_H

#include "quantize/imat_file.h"
#include "base/pool.h"
#include "runtime/engine/session.h"

/* Appends the tokens of a text for calibration or evaluation to ids. `path` is plain text (possibly
 * .gz), or .jsonl with one document per line: a conversation, rendered with the model's template,
 * or {"text": "..."}. Documents are concatenated. parse_special applies to plain text; rendered
 * conversations always parse special tokens. */
int corpus_load(const struct model *m, const char *path, bool parse_special, struct ids *out,
                struct err *e);

/* Returns whether a file's name indicates one document per line. */
bool corpus_is_lines(const char *path);

/* A document passed by corpus_each, which cuts plain text at blank lines into pieces of at least 2
 * KiB. */
struct corpus_doc {   /* valid during the call */
    int64_t number;   /* from 1: line of a .jsonl, piece of a plain text */
    const char *line; /* [len] a .jsonl line with the same document, without newline */
    size_t len;
    const int32_t *ids; /* [n_ids], at least one, without BOS */
    int64_t n_ids;
};
typedef int (*corpus_fn)(void *ud, const struct corpus_doc *d, struct err *e);
/* Calls fn for each document. Stops at the first nonzero result of fn and returns it. A file
 * without documents is not an error. */
int corpus_each(const struct model *m, const char *path, bool parse_special, corpus_fn fn, void *ud,
                struct err *e);

struct gram_col;
struct imatrix_keep { /* snapshots for resuming (base/checkpoint.h) */
    const char *path; /* snapshot file */
    /* Hash of the model's content; NULL: use the names, sizes and times of its files instead. */
    const char *model;
    double every;    /* seconds between snapshots; 0: the default of base/checkpoint.h */
    int64_t n_found; /* out: chunks from an earlier run */
};
struct imatrix_opts {
    const char *const *texts;
    int n_texts;
    int64_t ctx;        /* 0: 512 */
    int64_t max_chunks; /* 0: all */
    bool parse_special; /* parse special tokens in plain text; the command line's default is true */
    enum kern_isa isa;
    unsigned blas; /* uses of OpenBLAS for moments and gradients (kernels/blas.h) */
    struct pool *pool;
    bool reread; /* session_opts.reread, without second moments */
    struct device device;
    bool moments_there;    /* second moments and gradients may be computed on the device; they then
                              differ from the CPU's by rounding */
    struct gram_col *gram; /* collects second moments too; NULL: none */
    bool moments;          /* also sum1 and sum4: 32 more bytes per column */
    struct imatrix_keep *keep; /* NULL: none */
    double *seconds; /* out: time of the chunks, without opening the model's sessions and the survey
                        of second moments; NULL: not needed */
};
/* Returns how many chunks may run in one pass, so that their sums and those of all chunks take at
 * most a quarter of the memory; at least 1. INT_MAX: the memory is unknown. */
int imatrix_together(const struct gguf *g, bool moments);
/* Sums importance over the concatenated texts, in double, in chunks of ctx tokens. Each chunk
 * starts from an empty context. A resumed run gives the same bits as an uninterrupted one; the
 * caller removes the snapshot (checkpoint_remove) once the outputs are written. With several ranks,
 * rank 0 has the result; a snapshot can be resumed with any number of ranks. */
int imatrix_collect(const struct model *m, const struct imatrix_opts *o, struct imat *out,
                    struct err *e);

#endif
