// SPDX-License-Identifier: MIT
/* make/estimate.h - times of a job's parts, computed from the machine's rates, the model's shapes
 * and the options. Pure arithmetic. */
#ifndef HONE_MAKE_ESTIMATE_H
#define HONE_MAKE_ESTIMATE_H

#include "make/plan.h"
#include "make/speeds.h"
#include "work/shapes.h"
#include "work/work.h"

struct rates { /* seconds, with all threads of the job */
    struct speeds speeds;
    double window;      /* one evaluation window of one file */
    double pass_token;  /* one token in a forward pass on the processor, as before gradients */
    double calib_token; /* one token for the importance matrix */
    double gram_token;  /* one token, additional cost of second moments */
    double reread;      /* reading again the weights that do not fit in memory */
    int64_t calib_tokens, eval_tokens, probe_tokens;
    double memory, disk; /* free bytes (0: unknown); bytes read per second */
    bool measured;       /* passes of the model itself were timed */
    bool on_card;        /* these ran on a GPU */
};
struct estimate_opts {               /* the job's options that affect its time */
    const struct str_list *files[2]; /* names of the recipes: size classes, presets */
    int64_t calib_ctx, calib_chunks, eval_ctx, eval_chunks, pp, tg, reps;
    int64_t n_depths, deepest;           /* contexts in which speed is measured; the longest */
    int64_t depth_tokens;                /* the sum of their tokens */
    int64_t tools_cases, loops, checks;  /* cases; 0: no suite */
    int64_t draft_windows;               /* of the acceptance of drafts; 0: not measured */
    int64_t questions;                   /* about images; 0: none */
    int64_t image_tokens, image_patches; /* struct vision_facts */
    double tower_bytes;                  /* of the projector */
    bool convert;                        /* the source is a folder */
    bool best;                           /* presets are encoded with the best search */
};
/* Fills in the times of a model's passes, derived from its shapes. Weights that do not fit in
 * r->memory are read from disk again in every pass. */
void rates_guess(struct rates *r, const struct shapes *s, const struct estimate_opts *o);
/* Fills in the times, windows and layers of *in; its numbers of files (n_classes, n_presets) must
 * be set. */
void estimate(struct plan_in *in, const struct rates *r, const struct shapes *s,
              const struct estimate_opts *o);
/* Returns the number of windows of ctx tokens in a text, at most `most`; 0: no limit. */
int64_t estimate_windows(int64_t tokens, int64_t ctx, int64_t most);

#endif
