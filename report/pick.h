// SPDX-License-Identifier: MIT
/* report/pick.h - the judgement of a release: how much each file loses, in words, and which file to
 * take. Pure: reads the measured numbers of a result and nothing else; all texts are plain and are
 * escaped by who prints them. The thresholds and their reasons are in one table, pick_bands. */
#ifndef HONE_REPORT_PICK_H
#define HONE_REPORT_PICK_H

#include "core/buf.h"
#include "report/result.h"

enum pick_band { PICK_NONE, PICK_SLIGHT, PICK_NOTICEABLE, PICK_HEAVY, PICK_UNKNOWN };
struct pick_row {
    const char *name;   /* "slight loss" */
    const char *reason; /* what the thresholds mean for a reader: a sentence */
    double max_kld;     /* mean divergence in nats, at most */
    double min_top1;    /* share of positions with the same likeliest token, at least */
};
enum { PICK_BANDS = PICK_HEAVY + 1 };
extern const struct pick_row pick_bands[PICK_BANDS]; /* from the best; the last takes the rest */

/* The band that both numbers allow, and the range of bands within their errors (95 %). */
struct pick_grade {
    enum pick_band band, best, worst;
};
/* n: scored positions, for the error of top1 (0: not known). A missing top1 does not count; without
 * kld the grade is PICK_UNKNOWN. */
struct pick_grade pick_judge(double kld, double kld_stderr, double top1, int64_t n);
struct pick_grade pick_grade(const struct result *r,
                             int i);        /* of a file; its own base: PICK_UNKNOWN */
const char *pick_word(enum pick_band band); /* "slight": of a loss */
/* "slight loss", "slight loss, perhaps noticeable": says so where an error crosses a threshold. */
void pick_grade_text(const struct pick_grade *g, struct buf *out);

/* What a recommended file keeps at least. */
extern const struct pick_row pick_take;
/* The smallest file that surely keeps pick_take; else the smallest whose loss is slight at most,
 * surely where there is one; when all lose more, the closest to the base. -1: nothing was measured.
 */
int pick_file(const struct result *r);
/* No other quantized file is as small and as close. False when it was not measured. */
bool pick_on_front(const struct result *r, int i);

/* What people call the file: its size class, its recipe, or its name where these are not its own.
 */
const char *pick_label(const struct result *r, int i);
/* What a file is good for, in a few words, without and with its grade. */
void pick_role(const struct result *r, int i, struct buf *out);
void pick_phrase(const struct result *r, int i, struct buf *out);
/* "Take Q4_K_M, 19.8 GB: the same most likely token as the original 97.9 % of the time, mean
 * divergence 0.0103 ± 0.0004 (slight loss)." Without measured files: nothing. */
void pick_sentence(const struct result *r, struct buf *out);
/* What to take with less memory and what where nothing may be lost; may be nothing. */
void pick_others(const struct result *r, struct buf *out);
/* "the original", or of a base that is quantized itself "its base". */
const char *pick_base_word(const struct result *r);

#endif
