// SPDX-License-Identifier: MIT
/* runtime/measure/vision.h - `hone eval vision`: how far quantized models, or their projectors,
 * diverge from a base in answers to questions about images. */
#ifndef HONE_RUNTIME_MEASURE_VISION_H
#define HONE_RUNTIME_MEASURE_VISION_H

#include <stdbool.h>

#include "base/results_cache.h"
#include "runtime/measure/job.h"

#include "commands/members.h"
struct vision_opts {
    struct eval_args eval;
    const char *const *model; /* [n_models] the base, then the models to measure */
    int n_models;
    const char *lines; /* questions about images: docs/formats/images.md */
#include "commands/eval_vision.def"
};
extern const struct vision_opts eval_vision_usual;
/* Asks all models every question and fills m. */
int eval_vision_run(struct work *w, const struct vision_opts *o, struct emit *m, struct err *e);

/* A file of questions. */
struct vision_facts {
    int64_t n_questions, n_images;
    int64_t n_expected, n_choices; /* with an expected answer, other than multiple choice; these */
    int64_t n_tokens, n_patches;   /* tokens of all questions' images; patches of the images */
    char hash[33];                 /* of the questions and the images' bytes */
};
struct vision_params;
/* Reads all of o->lines and decodes its images. ERR_DATA, with file and line: it is not valid, or
 * the projector p cannot take an image. */
int eval_vision_look(const struct vision_opts *o, const struct vision_params *p,
                     struct vision_facts *out, struct err *e);

enum { VISION_MOST = 64 }; /* models of a measurement, with the base */
/* A model with a projector. */
struct vision_file {
    const char *path;
    const char *mmproj; /* NULL: the one next to the model, or else the base's */
    const char *key;    /* all that its results depend on, for the results cache; NULL: none */
};
/* Results of one model over all questions. Standard errors as in `hone eval vision`. */
struct vision_sums {
    int64_t n_tokens; /* scored; 0 for the base */
    double mean_kld, mean_kld_stderr, same_top1, changed, changed_stderr;
    int64_t n_expected; /* questions with an expected answer, other than multiple choice */
    double right, right_stderr;
    int64_t n_lost, n_gained;
    int64_t n_choices; /* multiple-choice questions */
    double choices_right, choices_right_stderr, choices_flipped, choices_flipped_stderr;
};
/* Returns an error if a model and its projector cannot be measured: no template, or a projector of
 * another model. */
int eval_vision_check(struct work *w, const struct vision_opts *o, const struct vision_file *f,
                      struct err *e);
/* Measures f[1..n) against the base f[0] as eval_vision_run does, and fills out [n]. Questions that
 * `keep` (NULL: none) holds for all files are not asked again. */
int eval_vision_of(struct work *w, const struct vision_opts *o, const struct vision_file *f, int n,
                   struct results_cache *keep, struct vision_sums *out, struct err *e);

#endif
