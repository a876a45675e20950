// SPDX-License-Identifier: MIT
/* tok/replace.h - Replace steps of a decoder, applied to streamed text. */
#ifndef HONE_TOK_REPLACE_H
#define HONE_TOK_REPLACE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "tok/pretok.h"

enum { MAX_REPLACES = 8 };
struct replace {           /* a step */
    const char *from, *to; /* borrowed; from is not empty */
    bool whole;            /* applies to the joined text; otherwise to each token's text */
    struct pretok *regex;  /* compiled `from`, owned; NULL: literal text */
};
struct replace_run { /* state of a text in progress; zero-initialised: start */
    struct buf text; /* literal: held-back text; regex: all text since the last invalid byte */
    size_t at;       /* bytes already emitted */
    struct pretok_run *run;
};

/* Appends s[0..n) to out with all matches of r replaced, left to right. more: text that may begin a
 * match is held back until the next call. */
void replace_put(const struct replace *r, struct replace_run *x, const char *s, size_t n, bool more,
                 struct buf *out);
void replace_run_release(struct replace_run *x);

#endif
