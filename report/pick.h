// SPDX-License-Identifier: MIT
/* report/pick.h - the verdict on a release: the loss of each file in words, and which file to
 * recommend.
 *
 * Reads only the measured numbers of a result. Text is appended unescaped; the caller escapes it.
 * All thresholds and their reasons are in one table, pick_bands. */
#ifndef HONE_REPORT_PICK_H
#define HONE_REPORT_PICK_H

#include "base/buf.h"
#include "report/result.h"

enum pick_band { PICK_NONE, PICK_SLIGHT, PICK_NOTICEABLE, PICK_HEAVY, PICK_UNKNOWN };
struct pick_row {
    const char *name;   /* "slight loss" */
    const char *reason; /* what the threshold means to a reader, one sentence */
    double max_kld;     /* largest mean divergence, in nats */
};
enum { PICK_BANDS = PICK_HEAVY + 1 };
extern const struct pick_row pick_bands[PICK_BANDS]; /* best first; the last has no limit */

/* The band of a mean divergence, and the bands that its 95 % interval covers. All words, chips,
 * plot bands, memory tables and the recommendation are derived from it. */
struct pick_grade {
    enum pick_band band, best, worst;
};
/* Returns the grade of a mean divergence in nats; PICK_UNKNOWN if it is not finite. */
struct pick_grade pick_judge(double kld, double kld_stderr);
struct pick_grade pick_grade(const struct result *r,
                             int i); /* grade of file i; PICK_UNKNOWN for the base */
/* Returns a band as an adjective for a loss, e.g. "slight". */
const char *pick_word(enum pick_band band);
/* Appends a grade in words: "slight loss", or "slight loss, perhaps noticeable" if its interval
 * crosses a threshold. */
void pick_grade_text(const struct pick_grade *g, struct buf *out);

/* Largest divergence that a recommended file may have if every file has a noticeable loss. */
extern const struct pick_row pick_take;
/* Returns the index of the recommended file, or -1 if nothing was measured. The first rule that
 * finds a file decides. 1: the smallest file that certainly has no noticeable loss. 2: the smallest
 * that is certainly within pick_take. 3: the smallest with at most a slight loss, if possible with
 * certainty. 4: the file closest to the base. Headline, memory table, Modelfile and commands all
 * name this file. */
int pick_file(const struct result *r);
/* Returns whether no other quantized file is at least as small and as close. False if file i was
 * not measured. */
bool pick_on_front(const struct result *r, int i);

/* Returns the short name of file i: its size class, its recipe, or its file name if those are not
 * unique. r owns the string. */
const char *pick_label(const struct result *r, int i);
/* Appends the purpose of file i in a few words. */
void pick_role(const struct result *r, int i, struct buf *out);
/* Returns the indices of the n_files files from largest to smallest, the base last. The caller
 * frees them with free(). */
int *pick_order(const struct result *r);
/* Returns whether the error of every measured divergence is known. If not, grades and choices are
 * those of the means alone, and nothing is certain. */
bool pick_knows_errors(const struct result *r);
/* Returns by what factor file i is closer to the original than llama.cpp's preset of its size; NaN
 * if that preset was not measured. */
double pick_gain(const struct result *r, int i);
/* Returns whether file i is certainly closer than that preset, by a factor of at least 1.05. */
bool pick_is_closer(const struct result *r, int i);
/* Appends the gain in words: "8.7x closer to the original than llama.cpp's Q4_K_M of the same
 * size". Returns false and appends nothing unless pick_is_closer. */
bool pick_gain_text(const struct result *r, int i, struct buf *out);
/* Appends the tensor types that have a share of at least 1 %: "Q4_K 61 %, Q6_K 28 %, Q8_0 11 %".
 * Returns false if they are unknown. */
bool pick_types(const struct result *r, int i, struct buf *out);
/* Appends the recommendation and its gain: "Take Q4_K_M, 19.8 GB: 8.7x closer to the original than
 * llama.cpp's Q4_K_M of the same size, slight loss." Appends nothing if no file was measured. */
void pick_head(const struct result *r, struct buf *out);
/* Appends the numbers of the recommended file: "The most likely token is that of the original 97.9
 * % of the time; mean divergence 0.0103 ± 0.0004." */
void pick_numbers(const struct result *r, struct buf *out);
/* Appends the alternatives, if any: a file that needs less memory, and one without noticeable
 * loss. */
void pick_others(const struct result *r, struct buf *out);
/* Returns "the original", or "its base" if the base itself is quantized. */
const char *pick_base_word(const struct result *r);

#endif
