// SPDX-License-Identifier: MIT
/* runtime/measure/vision_int.h - questions about images and the results of a measurement over them.
 * vision_lines.c reads the questions, vision.c measures, vision_choices.c scores multiple choice,
 * vision_table.c builds the tables. */
#ifndef HONE_RUNTIME_MEASURE_VISION_INT_H
#define HONE_RUNTIME_MEASURE_VISION_INT_H

#include "base/arena.h"
#include "runtime/generate/pictures_prompt.h"
#include "runtime/measure/internal.h"
#include "runtime/measure/vision.h"
#include "runtime/vision/image.h"

struct image_bytes {
    char *data; /* owned */
    size_t n;
    char hash[33];
    const char *name; /* for messages: "x.png", "the image" */
    int w, h;         /* pixels */
};
struct vision_question {
    long long line;    /* in the file, from 1 */
    const char *text;  /* owned by the list, as is the next field */
    const char **want; /* [n_want] accepted answers */
    int n_want;
    const char **choice;  /* [n_choices] of a multiple-choice question */
    int n_choices, right; /* right: index of the expected one */
    int *image;           /* [n_images] indices into vision_lines.image; owned by the list */
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
/* Returns ERR_DATA, with file, line and image, unless a projector accepts all images. Otherwise
 * sets *work to the work of all questions (tokens) and of the different images (patches). */
int vision_lines_fit(const struct vision_lines *l, const struct vision_params *p,
                     struct image_work *work, struct err *e);
/* Writes the hash of all questions and of the bytes of their images. */
void vision_lines_hash(const struct vision_lines *l, char hex[33]);
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
    int pick;         /* of a multiple-choice question: the likeliest choice */
};
struct vision_result { /* one model with one projector; number 0 is the base */
    char *label;       /* owned */
    const char *path, *mmproj;
    struct vision_answer *answer; /* [n questions] */
    double *kld;                  /* [n_kld] of all scored tokens; the base has none */
    int64_t n_kld, cap;
};
/* A projector file, and the current question's prompt with its images. */
struct eye {
    char *path; /* owned */
    struct pictures *pictures;
    struct ids prompt;
    int *held; /* [n_held] images of the question */
    int n_held;
};
struct one { /* a model with a projector; number 0 is the base */
    struct model *m;
    struct session *s; /* NULL before the first question */
    struct eye *eye;   /* shared by models with the same projector file */
    float *hidden;     /* [max answer + 1][n_embd] */
    struct results_cache_of keep;
};
enum { MAX_ANSWER = 4096 };
struct run { /* a measurement */
    struct work *w;
    const struct vision_opts *o;
    struct vision_lines lines;
    struct chat *chat; /* the base's template */
    struct one one[VISION_MOST];
    struct vision_result r[VISION_MOST];
    struct eye eye[VISION_MOST];
    int n, n_eyes;
    int64_t n_ctx, n_vocab, block; /* block: rows of logits at a time */
    float *logp, *logits;          /* [block][n_vocab] of the base and of a model */
    struct kld_pos pos;            /* [block] */
};
/* Feeds n tokens, which may be rows of images, and writes the hidden rows of those from `first` on
 * to `hidden`. */
int vision_feed(const struct one *v, const int32_t *ids, int64_t n, int64_t first, float *hidden,
                struct err *e);
/* Sets the pick of model i for the multiple-choice question q: the choice with the largest mean
 * log-probability of its first max_tokens tokens after the prompt. */
int vision_pick(struct run *x, int i, int q, struct err *e);

/* Fills out [n] from n results, the first of which is the base's. */
void vision_sum(const struct vision_lines *l, const struct vision_result *r, int n,
                struct vision_sums *out);
/* Fills m from n results, the first of which is the base's. */
void vision_emit(struct emit *m, const struct vision_opts *o, const struct vision_lines *l,
                 const struct vision_result *r, int n, double seconds);

#endif
