// SPDX-License-Identifier: MIT
/* runtime/measure/vision.h - `hone eval vision`: how far quantized models, or their projectors,
 * diverge from a base in answers to questions about images. */
#ifndef HONE_RUNTIME_MEASURE_VISION_H
#define HONE_RUNTIME_MEASURE_VISION_H

#include <stdbool.h>

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

#endif
