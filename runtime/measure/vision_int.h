// SPDX-License-Identifier: MIT
/* runtime/measure/vision_int.h - questions about images and the results of a measurement over them.
 * vision_lines.c reads the questions, vision.c measures, vision_table.c builds the tables. */
#ifndef HONE_RUNTIME_MEASURE_VISION_INT_H
#define HONE_RUNTIME_MEASURE_VISION_INT_H

#include "base/arena.h"
#include "runtime/measure/vision.h"

struct image_bytes {
    char *data; /* owned */
    size_t n;
    char hash[33];
};
struct vision_question {
    long long line;    /* in the file, from 1 */
    const char *text;  /* owned by the list, as is the next field */
    const char **want; /* [n_want] accepted answers */
    int n_want;
    int *image; /* [n_images] indices into vision_lines.image; owned by the list */
    int n_images;
    int group; /* questions about the same images have the same number */
};
struct vision_lines {
    const char *path; /* borrowed */
    struct arena mem;
    struct image_bytes *image; /* [n_images] different images */
    struct vision_question *q; /* [n] */
    int n_images, n, n_groups;
};
/* Reads a file of questions, at most n_cases evenly spread ones (0: all), and decodes each image
 * once. ERR_DATA, with file and line: a bad line or image. Call vision_lines_release even after an
 * error. */
int vision_lines_read(struct vision_lines *l, const char *path, int64_t n_cases, struct err *e);
void vision_lines_release(struct vision_lines *l);
/* Wraps an error with the file and line of a question; returns the error's code. */
int vision_at(const struct vision_lines *l, const struct vision_question *q, struct err *e);
/* Returns whether an answer is one of those that the question accepts. White space around it, a
 * final period, and the case of ASCII letters are ignored. */
bool vision_right(const struct vision_question *q, const char *answer);

/* A model's answer to a question. */
struct vision_answer {
    int64_t n_tokens; /* scored */
    double kld;       /* sum over them */
    int64_t n_same;   /* tokens where the likeliest token is the base's */
    int64_t differs;  /* first token of the greedy answer that differs from the base's; -1: none */
    char *text;       /* greedy answer, owned */
    bool right;       /* the question accepts it */
};
struct vision_result { /* one model with one projector; number 0 is the base */
    char *label;       /* owned */
    const char *path, *mmproj;
    struct vision_answer *answer; /* [n questions] */
    double *kld;                  /* [n_kld] of all scored tokens; the base has none */
    int64_t n_kld, cap;
};
/* Fills m from n results, the first of which is the base's. */
void vision_emit(struct emit *m, const struct vision_opts *o, const struct vision_lines *l,
                 const struct vision_result *r, int n, double seconds);

#endif
