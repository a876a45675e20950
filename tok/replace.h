// SPDX-License-Identifier: MIT
/* tok/replace.h - the Replace steps of a decoder, over text that comes in pieces. */
#ifndef HONE_TOK_REPLACE_H
#define HONE_TOK_REPLACE_H

#include <stdbool.h>
#include <stddef.h>

#include "core/buf.h"
#include "tok/pretok.h"

enum { MAX_REPLACES = 8 };
struct replace {           /* one step */
    const char *from, *to; /* borrowed; from is not empty */
    bool whole;            /* in the text of all tokens, else in that of each */
    struct pretok *regex;  /* compiled `from`, owned; NULL: literal text */
};
struct replace_run { /* zero-initialized: nothing has come */
    struct buf text; /* literal: what is held back; regex: all text since the last invalid byte */
    size_t at;       /* bytes of it that are done */
    struct pretok_run *run;
};

/* Appends s[0..n) to out with the matches of r replaced, left to right. With `more`, what may begin
 * a match is held back until the rest has come. */
void replace_put(const struct replace *r, struct replace_run *x, const char *s, size_t n, bool more,
                 struct buf *out);
void replace_run_release(struct replace_run *x);

#endif
