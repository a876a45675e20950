// SPDX-License-Identifier: MIT
/* tok/pretok.h - pre-tokenization: splitting text with the split regexes of a byte-level BPE
 * tokenizer. */
#ifndef HONE_TOK_PRETOK_H
#define HONE_TOK_PRETOK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

enum { PRETOK_LEVELS = 6 };
struct pretok_row { /* a row of pretok.def */
    const char *name, *aliases;
    bool nfc, ignore_merges, add_bos;
    bool chars, words;                /* no byte alphabet; in addition, no spaces */
    const char *regex[PRETOK_LEVELS]; /* applied in turn; NULL after the last */
};
/* Regexes equivalent to other pre-tokenizers of the tokenizers library. */
#define PRETOK_SPECIAL "\\^$.[]|()*+?{}" /* characters with a special meaning in a regex */
#define PRETOK_PUNCTUATION_ONE "[\\p{P}\\$\\+<=>\\^~\\|`]"
#define PRETOK_PUNCTUATION PRETOK_PUNCTUATION_ONE "+"
/* Groups of three digits from the right. No regex engine finds them in linear time, so pretok.c
 * counts. */
#define PRETOK_DIGITS_WORD "\\d{1,3}(?=(?:\\d{3})*\\b)"
#define PRETOK_DIGITS "(?=(\\d{3})+(?!\\d))"
#define PRETOK_NUMBERS "\\p{N}{1,3}(?=(?:\\p{N}{3})*(?!\\p{N}))"

/* Returns row i; NULL after the last. */
const struct pretok_row *pretok_at(size_t i);
/* Returns the row with that name or alias; NULL: none. */
const struct pretok_row *pretok_by_name(const char *name);
/* Returns a row with these split regexes, preferably with the same NFC and ignore_merges; NULL:
 * none. White space around a regex is ignored. */
const struct pretok_row *pretok_by_regexes(const char *const *regex, int n, bool nfc,
                                           bool ignore_merges);
/* Returns a row that splits two probe texts in the same way as these regexes, however they are
 * written; NULL: there is no such row, or a regex does not compile. */
const struct pretok_row *pretok_by_behaviour(const char *const *regex, int n, bool nfc,
                                             bool ignore_merges);
/* Returns the row whose splits of the probe text are most similar, preferably with the same NFC and
 * ignore_merges; NULL: a regex does not compile. */
const struct pretok_row *pretok_most_like(const char *const *regex, int n, bool nfc,
                                          bool ignore_merges);
/* Returns whether the matches of a regex cover both probe texts. */
bool pretok_covers(const char *regex);
/* Appends the names of all rows: "qwen2, qwen35, ...". */
void pretok_names(struct buf *out);
/* Appends the names of the three rows with the most similar regexes: "a, b, c". */
void pretok_nearest(const char *const *regex, int n, struct buf *out);
/* Fails with ERR_USAGE; the message lists similar names and how to choose one. */
int pretok_unknown(const char *name, struct err *e);

/* Appends a regex translated from the syntax of the tokenizers library to PCRE2
 * (pretok_spell.c). Returns why it cannot be translated, such as "has \\p without braces"; NULL: it
 * can. */
const char *pretok_spell(struct buf *out, const char *re);

struct pretok; /* compiled; immutable */
/* Compiles a row's expressions; *out is unchanged on error. */
int pretok_new(struct pretok **out, const struct pretok_row *row, struct err *e);
/* Compiles the n regexes of a file. They are untrusted: a match that takes too many steps counts as
 * no match. ERR_DATA: a regex does not compile. */
int pretok_new_own(struct pretok **out, const char *const *regex, int n, struct err *e);
void pretok_free(struct pretok *p);

struct pretok_run; /* match state of one caller */
/* Returns the state for one thread's matching with p; p must outlive it. */
struct pretok_run *pretok_run_new(const struct pretok *p);
void pretok_run_free(struct pretok_run *r);
/* Returns the end (> at) of the pre-token that starts at `at` < n. s must be valid UTF-8, and `at`
 * must be the end of the previous pre-token. */
size_t pretok_next(struct pretok_run *r, const char *s, size_t n, size_t at);
/* Finds the first match of the only regex in s[at..n); lookbehind sees s[0..at). more: s is
 * incomplete; the result may then be PRETOK_PARTIAL: a match may begin at *start. */
enum pretok_hit { PRETOK_NONE, PRETOK_MATCH, PRETOK_PARTIAL };
/* Finds the first match at or after `at`. more: the text may continue, so a match at its end is
 * partial. */
enum pretok_hit pretok_find(struct pretok_run *r, const char *s, size_t n, size_t at, bool more,
                            size_t *start, size_t *end);

#endif
