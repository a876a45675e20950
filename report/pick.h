// SPDX-License-Identifier: MIT
/* report/pick.h - the judgement of a release: how much each file loses, in words, and which file to
 * take. Pure: reads the measured numbers of a result and nothing else; all texts are plain and are
 * escaped by who prints them. The thresholds and their reasons are in one table, pick_bands. */
#ifndef HONE_REPORT_PICK_H
#define HONE_REPORT_PICK_H

#include "base/buf.h"
#include "report/result.h"

enum pick_band { PICK_NONE, PICK_SLIGHT, PICK_NOTICEABLE, PICK_HEAVY, PICK_UNKNOWN };
struct pick_row {
    const char *name;   /* "slight loss" */
    const char *reason; /* the meaning of the threshold for a reader, a sentence */
    double max_kld;     /* mean divergence in nats, at most */
};
enum { PICK_BANDS = PICK_HEAVY + 1 };
extern const struct pick_row pick_bands[PICK_BANDS]; /* from the best; the last takes the rest */

/* The band of a mean divergence, and the range of bands within its error (95 %). All words, chips,
 * bands of plots, the memory tables and the recommendation follow from it. */
struct pick_grade {
    enum pick_band band, best, worst;
};
/* Returns the grade of a mean divergence in nats; PICK_UNKNOWN if it is not finite. */
struct pick_grade pick_judge(double kld, double kld_stderr);
struct pick_grade pick_grade(const struct result *r,
                             int i); /* of a file; its own base: PICK_UNKNOWN */
/* Returns a band as a word for a loss, such as "slight". */
const char *pick_word(enum pick_band band);
/* Appends a grade in words, "slight loss", or "slight loss, perhaps noticeable" where an error
 * crosses a threshold. */
void pick_grade_text(const struct pick_grade *g, struct buf *out);

/* What a recommended file keeps at least, where every file has a noticeable loss. */
extern const struct pick_row pick_take;
/* Returns the index of the file to recommend: the smallest that surely has no noticeable loss; else
 * the smallest that surely keeps pick_take; else the smallest whose loss is slight at most, surely
 * where there is one; when all lose more, the closest to the base. Head sentence, table of
 * memories, Modelfile and commands all name this file. Returns -1 when nothing was measured. */
int pick_file(const struct result *r);
/* Tells whether no other quantized file is both as small and as close. Returns false when file i
 * was not measured. */
bool pick_on_front(const struct result *r, int i);

/* Returns what people call file i: its size class, its recipe, or its name where these are not its
 * own. r owns it. */
const char *pick_label(const struct result *r, int i);
/* Appends what file i is good for, in a few words. */
void pick_role(const struct result *r, int i, struct buf *out);
/* Returns the indices of the n_files files from the largest to the smallest, the base last; the
 * caller frees them with free(). */
int *pick_order(const struct result *r);
/* Returns how many times closer to the original file i is than llama.cpp's preset of the same size;
 * NaN where that preset was not measured. */
double pick_gain(const struct result *r, int i);
/* Appends the gain in words, "8.7x closer to the original than llama.cpp's Q4_K_M of the same
 * size", where it is at least 1.05. Returns false, with nothing appended, otherwise. */
bool pick_gain_text(const struct result *r, int i, struct buf *out);
/* Appends the types inside, "Q4_K 61 %, Q6_K 28 %, Q8_0 11 %": those of 1 % and more. Returns false
 * where they are not known. */
bool pick_types(const struct result *r, int i, struct buf *out);
/* Appends which file to take and what was gained: "Take Q4_K_M, 19.8 GB: 8.7x closer to the
 * original than llama.cpp's Q4_K_M of the same size, slight loss." Without measured files it
 * appends nothing. */
void pick_head(const struct result *r, struct buf *out);
/* Appends the numbers of the file to take: "The same most likely token as the original 97.9 % of
 * the time, mean divergence 0.0103 ± 0.0004." */
void pick_numbers(const struct result *r, struct buf *out);
/* Appends what to take with less memory, and what where nothing may be lost; it may append
 * nothing. */
void pick_others(const struct result *r, struct buf *out);
/* Returns "the original", or "its base" when the base is quantized itself. */
const char *pick_base_word(const struct result *r);

#endif
