// SPDX-License-Identifier: MIT
/* runtime/measure/choices.h - multiple-choice tasks from local files, and needles hidden in a text;
 * every format becomes the same thing: sequences of which a part is scored
 * (docs/formats/choices.md). */
#ifndef HONE_RUNTIME_MEASURE_CHOICES_H
#define HONE_RUNTIME_MEASURE_CHOICES_H

#include "base/err.h"
#include "tok/tok.h"

enum { CHOICES_MAX = 100 };
struct choice_task {
    int n, right;         /* choices; the right one */
    int64_t common;       /* tokens that all sequences begin with */
    struct ids *seq;      /* [n] */
    int64_t *first, *end; /* [n] tokens [first, end) of seq[i] are scored: their mean log p */
    const char *group;    /* "depth 25 %"; NULL: none. Borrowed from a literal or the tasks */
};
struct choice_tasks {
    struct choice_task *t;
    int n;
    int64_t longest;   /* tokens of the longest sequence */
    char (*group)[32]; /* owned texts */
};
/* Reads tasks from a file. The format is "hellaswag", "winogrande", "mmlu" or "choice". n_max
 * tasks are taken, evenly spread; 0: all. ERR_DATA, which names file and place. */
int choices_open(struct choice_tasks *out, const char *format, const char *path,
                 const struct tok *tok, int64_t n_max, struct err *e);
/* Needles in windows of ctx tokens of the text: at each of n_depths depths (0 the begin, 1 just
 * before the question) `per_depth` windows, from different places of the text. A needle says a
 * number; the question at the end asks for it; four numbers are the choices. seed fixed: the same
 * tasks every time. ERR_DATA when the text is shorter than a window. */
int choices_needle(struct choice_tasks *out, const char *text, size_t len, const char *path,
                   const struct tok *tok, int64_t ctx, int n_depths, int per_depth, struct err *e);
void choices_close(struct choice_tasks *c);
/* Returns "hellaswag, ...", for messages. */
const char *choices_formats(void);

#endif
