// SPDX-License-Identifier: MIT
/* tok/pretok.h - cutting text into pre-tokens with the split regex of a byte-level BPE tokenizer.
 */
#ifndef HONE_TOK_PRETOK_H
#define HONE_TOK_PRETOK_H

#include <stdbool.h>
#include <stddef.h>

#include "core/buf.h"
#include "core/err.h"

enum { PRETOK_LEVELS = 6 };
struct pretok_row { /* one row of pretok.def */
    const char *name, *aliases;
    bool nfc, ignore_merges, add_bos;
    bool chars, words;                /* no byte alphabet; and no spaces either */
    const char *regex[PRETOK_LEVELS]; /* applied in turn; NULL behind the last */
};
/* What the library's other pre-tokenizers come to. */
#define PRETOK_PUNCTUATION "[\\p{P}\\$\\+<=>\\^~\\|`]+"
/* Digits in threes from the right. No regex engine does that in linear time: pretok.c counts. */
#define PRETOK_DIGITS_WORD "\\d{1,3}(?=(?:\\d{3})*\\b)"
#define PRETOK_DIGITS "(?=(\\d{3})+(?!\\d))"
#define PRETOK_NUMBERS "\\p{N}{1,3}(?=(?:\\p{N}{3})*(?!\\p{N}))"

/* Returns the row of that name or alias; NULL when there is none. */
const struct pretok_row *pretok_by_name(const char *name);
/* Returns a row with these split regexes, if possible one that agrees about NFC and ignore_merges,
 * or NULL when there is none. White space around a regex does not matter. */
const struct pretok_row *pretok_by_regexes(const char *const *regex, int n, bool nfc,
                                           bool ignore_merges);
/* Appends the names of all rows: "qwen2, qwen35, ...". */
void pretok_names(struct buf *out);
/* Appends the names of the three rows whose regexes are most like the n given: "a, b, c". */
void pretok_nearest(const char *const *regex, int n, struct buf *out);
/* Fails with ERR_USAGE; the message says which names are like this one, and how to choose. */
int pretok_unknown(const char *name, struct err *e);

struct pretok; /* compiled; immutable */
int pretok_new(struct pretok **out, const struct pretok_row *row, struct err *e);
void pretok_free(struct pretok *p);

struct pretok_run; /* match state of one caller */
struct pretok_run *pretok_run_new(const struct pretok *p);
void pretok_run_free(struct pretok_run *r);
/* Returns the end (> at) of the pre-token that starts at `at` < n. s must be valid UTF-8 and `at`
 * must be where the previous one ended. */
size_t pretok_next(struct pretok_run *r, const char *s, size_t n, size_t at);

#endif
