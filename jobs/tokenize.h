// SPDX-License-Identifier: MIT
/* jobs/tokenize.h - hone tokenize: text to token ids and back, with a model's tokenizer. */
#ifndef HONE_JOBS_TOKENIZE_H
#define HONE_JOBS_TOKENIZE_H

#include <stdbool.h>

#include "base/buf.h"
#include "work/work.h"

#include "commands/members.h"
struct tokenize_opts {
    const char *model;       /* GGUF file, or a folder with a tokenizer */
    const char *const *word; /* [n_words] text, to be joined with spaces; none: standard input */
    int n_words;
#include "commands/tokenize.def"
};
/* Appends a JSON list of ids, or text, to `out`. */
int tokenize_run(const struct tokenize_opts *o, struct buf *out, struct err *e);

#endif
