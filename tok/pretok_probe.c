// SPDX-License-Identifier: MIT
/* tok/pretok_probe.c - comparison of split regexes by behaviour: recognises equivalent forms of a
 * row's regexes by how they split a probe text. Any two rows with different regexes split it
 * differently. Regexes of a file must also split a long generated text like the row. */
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/mem.h"
#include "tok/pretok.h"

/* Letters with and without case, marks, digits of several scripts and lengths, blanks, line breaks,
 * punctuation next to letters, contractions, and the special cases of single rows. */
static const char probe[] =
    "Hello world  it's I'M we'Ve YOU'RE 'tis 's 'S 'll don't 'x '\xc3\xa9 a'b'c "
    "camelCase HTTPServer McDonald \xc3\x89t\xc3\xa9 na\xc3\xafve e\xcc\x81t \xcc\x81x A\xcc\x88O "
    "\xc7\x85"
    "ab \xca\xb0x "
    "1 12 123 q  5   67  .   890 1234 12345 123456 1234567 a1b22c333d4444 3.14159 1,000,000 "
    "x12345y 1234_ _1234 "
    "\xd9\xa3\xd9\xa4\xd9\xa5\xd9\xa6 \xc2\xbd\xc2\xb2 \xe2\x85\xa7 "
    "\xef\xbc\x91\xef\xbc\x92\xef\xbc\x93\xef\xbc\x94 "
    "\n\n\n  \n \t\tx\r\n\r\n y\n  z \n\n  \t  \v\f\xc2\xa0 \xe3\x80\x80 \xe2\x80\xa8 w"
    "                 k  l   m    n     o      p\n        q"
    "!?.,;: (a) [b] {c} <d> \"e\" #f $g %h &i *j +k -l /m =n @o ^p _q `r |s ~t \\u !A .B /C\n"
    "...!!!\n\n---=== \n ?"
    "?//\n\n/// a//\n b/\n <=>^~|`$+ x`y`z "
    "\xe2\x80\xa6\xe3\x80\x82\xef\xbc\x8c"
    " a.b,c!d?e \xe2\x80\x9cq\xe2\x80\x9d \xe2\x80\x98x\xe2\x80\x99 \xe2\x80\x94 "
    "\xe4\xb8\xad\xe6\x96\x87\xe5\xad\x97\xe7\xac\xa6"
    "abc\xe6\xb5\x8b\xe8\xaf\x95 "
    "\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e\xe3\x81\xae\xe3\x83\x86\xe3\x82\xad\xe3\x82\xb9\xe3\x83"
    "\x88\xe3\x80\x81\xef\xbc\x81"
    " \xed\x95\x9c\xea\xb5\xad\xec\x96\xb4 \xed\x85\x8d\xec\x8a\xa4\xed\x8a\xb8 "
    "\xe3\x84\x85\xe3\x84\x86 \xe3\x84\xb1\xe3\x85\x8f "
    "\xe0\xb8\xa0\xe0\xb8\xb2\xe0\xb8\xa9\xe0\xb8\xb2\xe0\xb9\x84\xe0\xb8\x97\xe0\xb8\xa2 "
    "\xe1\x9e\x80\xe1\x9e\xb6\xe1\x9e\x93\xe1\x9f\x8b "
    "\xe0\xa4\xb9\xe0\xa4\xbf\xe0\xa4\x82\xe0\xa4\xa6\xe0\xa5\x80 \xe1\x80\x80\xe1\x80\xbb "
    "\xd0\x9f\xd1\x80\xd0\xb8\xd0\xb2\xd0\xb5\xd1\x82 \xd0\x9c\xd0\x98\xd0\xa0 "
    "\xce\x95\xce\xbb\xce\xbb \xd7\xa2\xd7\x91\xd7\xa8 \xd8\xa7\xd9\x84\xd8\xb9 "
    "\xe3\x80\x87\xe3\x80\x85 \xe4\xb8\x80\xe9\xbe\xa6\xe3\x90\x80 "
    "\xf0\x9f\x98\x80\xf0\x9f\x98\x83 \xf0\x9f\x91\xa8\xe2\x80\x8d\xf0\x9f\x91\xa9 "
    "\xe2\x9d\xa4\xef\xb8\x8f x\xf0\x9f\x98\x80y \xe2\x84\x96\x35 \xe2\x84\xa2 \xe2\x82\xac\x35 "
    "IMGIMGABZ <sentinel:12> a\xe2\x80\x8b"
    "b \xef\xbf\xbd \xc2\xad \xe1\xa0\x8e v         \n          \n"
    "                                                                        end "
    "\xd8\x8c\xdb\x94\xe0\xa5\xa4  ";

enum { MAX_CUTS = sizeof probe };
struct cuts {
    size_t n;
    size_t at[MAX_CUTS];
};

/* Records where p splits the probe text. */
static void cut_probe(const struct pretok *p, struct cuts *out) {
    struct pretok_run *r = pretok_run_new(p);
    out->n = 0;
    for (size_t at = 0; at + 1 < sizeof probe;) {
        at = pretok_next(r, probe, sizeof probe - 1, at);
        out->at[out->n++] = at;
    }
    pretok_run_free(r);
}

static bool same_cuts(const struct cuts *a, const struct cuts *b) {
    return a->n == b->n && memcmp(a->at, b->at, a->n * sizeof *a->at) == 0;
}

/* Returns the number of positions at which only one of the two splits the text. */
static size_t difference(const struct cuts *a, const struct cuts *b) {
    size_t i = 0, k = 0, n = 0;
    while (i < a->n || k < b->n) {
        size_t x = i < a->n ? a->at[i] : SIZE_MAX, y = k < b->n ? b->at[k] : SIZE_MAX;
        n += x != y;
        i += x <= y;
        k += y <= x;
    }
    return n;
}

/* Records where a known row splits the probe text. False: the row has no byte alphabet or does not
 * compile. */
static bool cut_row(const struct pretok_row *row, struct cuts *out) {
    struct pretok *p = NULL;
    struct err none;
    if (row->chars || pretok_new(&p, row, &none)) return false;
    cut_probe(p, out);
    pretok_free(p);
    return true;
}

/* Records where the n given expressions split the probe text. False: one does not compile. */
static bool cut_own(const char *const *regex, int n, struct cuts *out) {
    struct pretok *p = NULL;
    struct err none;
    if (pretok_new_own(&p, regex, n, &none)) return false;
    cut_probe(p, out);
    pretok_free(p);
    return true;
}

/* ---- the long text --------------------------------------------------------------------------- */

/* Parts of the long text: a character of each kind that some regex tells from others, and texts
 * with rules of their own. The first N_TRIPLES occur next to each other in every order. */
enum { N_TRIPLES = 28, N_DRAWN = 20000 };
static const char *const parts[] = {
    "a", "B", "\xc3\xa9", "\xe4\xb8\xad", "\xcc\x81", "1", "\xc2\xbd", "\xc2\xb2", "'",
    "\xe2\x80\x99", "s", "t", "\xc5\xbf", "\r", "\n", " ", "\t", "\xc2\xa0", "\xe3\x80\x80", ".",
    "/", "_", "-", "$", "\xf0\x9f\x98\x80", "\xc7\x85", "\xca\xb0", "\xe2\x80\x8b",
    /* drawn at random, and repeated */
    "'s", "'S", "'\xc5\xbf", "\xe2\x80\x99s", "'ll", "'LL", "'vE", "'Re", "'t", "'T", "'d", "'m",
    "'M", "\xe2\x84\xaa", "\xc3\x89", "\xc3\x9f", "\xc4\xb0", "z", "Z", "9", "0", "\xd9\xa3",
    "\xef\xbc\x91", "\xe0\xa5\xa7", "\xe2\x85\xa7", "\xe2\x91\xa0", "\xc2\xaa", "\xc2\xb5",
    "\xe3\x81\xae", "\xe3\x82\xab", "\xe3\x83\xbc", "\xe3\x80\x87", "\xe3\x80\x85", "\xed\x95\x9c",
    "\xe3\x84\xb1", "\xe3\x84\x85", "\xe0\xb8\x81", "\xe0\xb8\xb3", "\xd8\xb9", "\xd7\xa9",
    "\xe0\xa4\x95", "\xe0\xa5\x8d", "\xd0\xb9", "\xce\xa9", "\xe1\x83\x90", "\xe1\xb2\x90",
    "\xe1\x9e\x80", "\xe1\x80\x80", "\xf0\x9d\x92\x9c", "\xf0\xa0\x80\x80", "\xe9\xbe\xa6",
    "\xe3\x90\x80", "\xef\xbd\xb1", "\xef\xbc\xa1", "\r\n", "\v", "\f", "\x1c", "\xc2\x85",
    "\xe2\x80\xa8", "\xe2\x80\xa9", "\xe2\x80\x83", "\xe1\xa0\x8e", "\xe2\x80\x8d", "\xef\xb8\x8f",
    "\xc2\xad", "\x01", "\x7f", "\xef\xbf\xbd", "\xee\x80\x80", "\xcd\xb8", "!", "?", ",", ";", ":",
    "\"", "#", "%", "&", "(", ")", "*", "+", "<", "=", ">", "@", "[", "\\", "]", "^", "`", "{", "|",
    "}", "~", "\xe2\x80\x9c", "\xe2\x80\xa6", "\xe3\x80\x82", "\xef\xbc\x8c", "\xe2\x80\x94",
    "\xe2\x82\xac", "\xe2\x84\xa2", "\xe2\x88\x92", "\xcd\x85", "\xe2\x83\x9d", "\xf0\x9f\x87\xa9",
    "\xf0\x9f\x8f\xbd"};

/* Appends n copies of s. */
static void add_run(struct buf *out, const char *s, size_t n) {
    while (n--) buf_str(out, s);
}

/* Appends the long text: the parts in runs of many lengths, in every order of three, and at
 * random. */
static void long_text(struct buf *out) {
    static const uint8_t lengths[] = {2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
                                      12, 13, 16, 17, 20, 24, 32, 33, 65, 130};
    uint32_t seed = 1;
    for (size_t i = 0; i < COUNT_OF(parts); i++)
        for (size_t k = 0; k < COUNT_OF(lengths); k++) {
            add_run(out, parts[i], lengths[k]);
            buf_str(out, parts[(i * 7 + k * 3) % N_TRIPLES]);
        }
    for (size_t i = 0; i < N_TRIPLES * N_TRIPLES * N_TRIPLES; i++) {
        buf_str(out, parts[i / N_TRIPLES / N_TRIPLES]);
        buf_str(out, parts[i / N_TRIPLES % N_TRIPLES]);
        buf_str(out, parts[i % N_TRIPLES]);
    }
    for (size_t i = 0; i < N_DRAWN; i++) {
        seed = seed * 1664525 + 1013904223;
        add_run(out, parts[(seed >> 8) % COUNT_OF(parts)], seed >> 30 ? 1 : 1 + (seed >> 28));
    }
    add_run(out, " ", 1100);
    add_run(out, "\n", 300);
}

/* Returns whether the regexes split the long text like the row. */
static bool same_on_long(const char *const *regex, int n, const struct pretok_row *row) {
    struct pretok *a = NULL, *b = NULL;
    struct err none;
    struct buf text = {0};
    size_t at = 0, end = 0;
    if (pretok_new_own(&a, regex, n, &none)) return false;
    if (pretok_new(&b, row, &none)) {
        pretok_free(a);
        return false;
    }
    long_text(&text);
    struct pretok_run *run = pretok_run_new(a), *row_run = pretok_run_new(b);
    while (at == end && at < text.len) {
        end = pretok_next(row_run, text.data, text.len, at);
        at = pretok_next(run, text.data, text.len, at);
    }
    pretok_run_free(run);
    pretok_run_free(row_run);
    pretok_free(a);
    pretok_free(b);
    buf_release(&text);
    return at == end;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Returns how well a row agrees with a file on NFC and ignore_merges; NFC counts more. */
static int agreement(const struct pretok_row *row, bool nfc, bool ignore_merges) {
    return 2 * (row->nfc == nfc) + (row->ignore_merges == ignore_merges);
}

const struct pretok_row *pretok_by_behaviour(const char *const *regex, int n, bool nfc,
                                             bool ignore_merges) {
    struct cuts *a = xcalloc(2, sizeof *a), *b = a + 1;
    const struct pretok_row *row, *best = NULL;
    int best_agrees = -1;
    bool ok = cut_own(regex, n, a);
    for (size_t i = 0; ok && (row = pretok_at(i)) != NULL; i++) {
        const int agrees = agreement(row, nfc, ignore_merges);
        if (agrees <= best_agrees || !cut_row(row, b) || !same_cuts(a, b)) continue;
        if (!same_on_long(regex, n, row)) continue;
        best_agrees = agrees;
        best = row;
    }
    free(a);
    return best;
}

const struct pretok_row *pretok_most_like(const char *const *regex, int n, bool nfc,
                                          bool ignore_merges) {
    struct cuts *a = xcalloc(2, sizeof *a), *b = a + 1;
    const struct pretok_row *row, *best = NULL;
    size_t least = SIZE_MAX;
    int best_agrees = -1;
    bool ok = cut_own(regex, n, a);
    for (size_t i = 0; ok && (row = pretok_at(i)) != NULL; i++) {
        const int agrees = agreement(row, nfc, ignore_merges);
        if (!cut_row(row, b)) continue;
        const size_t differ = difference(a, b);
        if (differ > least || (differ == least && agrees <= best_agrees)) continue;
        least = differ;
        best_agrees = agrees;
        best = row;
    }
    free(a);
    return best;
}

/* Returns whether matches of p cover s[0..n). */
static bool covers(const struct pretok *p, const char *s, size_t n) {
    size_t at = 0, start, end;
    struct pretok_run *r = pretok_run_new(p);
    while (at < n && pretok_find(r, s, n, at, false, &start, &end) == PRETOK_MATCH && start == at &&
           end > at)
        at = end;
    pretok_run_free(r);
    return at == n;
}

bool pretok_covers(const char *regex) {
    struct pretok *p = NULL;
    struct err none;
    struct buf text = {0};
    if (pretok_new_own(&p, &regex, 1, &none)) return false;
    long_text(&text);
    const bool all = covers(p, probe, sizeof probe - 1) && covers(p, text.data, text.len);
    buf_release(&text);
    pretok_free(p);
    return all;
}
