// SPDX-License-Identifier: MIT
/* calib/imatrix.h - texts through a model -> importance matrix. */
#ifndef HONE_CALIB_IMATRIX_H
#define HONE_CALIB_IMATRIX_H

#include "quantize/imat_file.h"
#include "base/pool.h"
#include "runtime/engine/session.h"

/* Appends the tokens of a text for calibration or evaluation to ids. `path` is plain text, .gz
 * of it, or .jsonl with a document per line: a conversation, which is rendered with the model's
 * template, or {"text": "..."}. Documents are concatenated. parse_special applies to plain text;
 * rendered conversations always parse special tokens. */
int corpus_load(const struct model *m, const char *path, bool parse_special, struct ids *out,
                struct err *e);

/* Tells by its name whether a file holds a document per line. */
bool corpus_is_lines(const char *path);

/* The same document by document, plain text cut at blank lines into pieces of at least 2 KiB. */
struct corpus_doc {   /* valid during the call */
    int64_t number;   /* from 1: line of a .jsonl, piece of a plain text */
    const char *line; /* [len]; a line of .jsonl that gives the document again, without newline */
    size_t len;
    const int32_t *ids; /* [n_ids], at least one, without BOS */
    int64_t n_ids;
};
typedef int (*corpus_fn)(void *ud, const struct corpus_doc *d, struct err *e);
/* Ends at the first call of fn that does not return 0, with that. No documents: no error. */
int corpus_each(const struct model *m, const char *path, bool parse_special, corpus_fn fn, void *ud,
                struct err *e);

struct gram_col;
struct imatrix_keep { /* snapshots, so that an interrupted collection goes on (base/checkpoint.h) */
    const char *path; /* of the snapshot */
    const char *model; /* hash of the model's content; NULL: names, sizes and time stamps of its
                          files stand for it */
    double every;      /* seconds; 0: as base/checkpoint.h says */
    int64_t n_found;   /* out: chunks that were done before */
};
struct imatrix_opts {
    const char *const *texts;
    int n_texts;
    int64_t ctx;        /* 0: 512 */
    int64_t max_chunks; /* 0: all */
    bool parse_special; /* in plain text; default true at the command line */
    enum kern_isa isa;
    struct pool *pool;
    struct device device;
    struct gram_col *gram;     /* collects second moments too; NULL: none */
    bool moments;              /* sum1 and sum4 of the entries too: 32 bytes more per column */
    struct imatrix_keep *keep; /* NULL: none */
};
/* Sums importance over chunks of ctx tokens of the concatenated texts. The state is reset for
 * each chunk, sums are double. With snapshots the result has the bits of an undisturbed run; the
 * caller removes the snapshot (checkpoint_remove) when the outputs are written. Of several ranks
 * rank 0 has the result, and any number of ranks goes on with a snapshot. */
int imatrix_collect(const struct model *m, const struct imatrix_opts *o, struct imat *out,
                    struct err *e);

#endif
