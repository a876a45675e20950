// SPDX-License-Identifier: MIT
/* runtime/measure/choices.h - multiple-choice tasks from local files, and needle tasks from a text.
 * Every format becomes token sequences with a scored range (docs/formats/choices.md). */
#ifndef HONE_RUNTIME_MEASURE_CHOICES_H
#define HONE_RUNTIME_MEASURE_CHOICES_H

#include "base/err.h"
#include "tok/tok.h"

enum { CHOICES_MAX = 100 };
struct choice_task {
    int n, right;         /* choices; index of the right one */
    int64_t common;       /* length of the prefix common to all sequences */
    struct ids *seq;      /* [n] */
    int64_t *first, *end; /* [n] the score is the mean log p of tokens [first, end) of seq[i] */
    const char *group;    /* e.g. "depth 25 %"; a literal or borrowed; NULL: none */
};
struct choice_tasks {
    struct choice_task *t;
    int n;
    int64_t longest;   /* tokens of the longest sequence */
    char (*group)[32]; /* owned texts */
};
/* Reads n_max evenly spaced tasks (0: all) from a file in the format "hellaswag", "winogrande",
 * "mmlu" or "choice". ERR_DATA, naming the file and the place, if it is malformed. */
int choices_open(struct choice_tasks *out, const char *format, const char *path,
                 const struct tok *tok, int64_t n_max, struct err *e);
/* Builds needle tasks in windows of ctx tokens of the text: `per_depth` windows, from different
 * places in the text, at each of n_depths depths (0: at the start, 1: just before the question). A
 * needle states a number, the question at the end asks for it, and the choices are four numbers.
 * The seed is fixed, so the tasks are always the same. ERR_DATA if the text is shorter than a
 * window. */
int choices_needle(struct choice_tasks *out, const char *text, size_t len, const char *path,
                   const struct tok *tok, int64_t ctx, int n_depths, int per_depth, struct err *e);
void choices_close(struct choice_tasks *c);
/* Returns "hellaswag, ..." for messages. */
const char *choices_formats(void);

#endif
