// SPDX-License-Identifier: MIT
/* make/plan.h - the plan of `hone make` within its time limit, computed from forecasts. Pure
 * arithmetic; make/forecast.c makes the forecasts. */
#ifndef HONE_MAKE_PLAN_H
#define HONE_MAKE_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mix/joint.h"

/* Effort spent on quality. FAST: mixes with the encoders' own search. NORMAL: also error feedback.
 * HIGH: also block-by-block quantization (mix/sequential.h). */
enum effort { EFFORT_FAST, EFFORT_NORMAL, EFFORT_HIGH, EFFORT_COUNT };
extern const char *const effort_name[EFFORT_COUNT];

enum plan_part { /* in execution order */
                 PART_CONVERT,
                 PART_IMATRIX,
                 PART_PRESETS, /* files requested as presets */
                 PART_PROBES,  /* cost of each type for each part of the model */
                 PART_LADDER,  /* choosing the types and encoding the files of the size classes */
                 PART_JUDGE,   /* comparing them with the presets of the same size */
                 PART_EVAL,
                 PART_SPEED,
                 PART_IMAGES, /* questions about images */
                 PART_TOOLS,
                 PART_REPORT,
                 PART_COUNT
};
extern const char *const plan_part_name[PART_COUNT];

enum plan_need {                /* memory needs; each one includes the previous ones */
                 NEED_PASSES,   /* sessions and their buffers */
                 NEED_FEEDBACK, /* second moments of inputs */
                 NEED_ANSWERS,  /* second moments of output gradients */
                 NEED_BLOCKS,   /* block-by-block quantization */
                 NEED_COUNT
};

enum { PLAN_ROLES = 64 };
struct plan_in {        /* times in seconds on this machine */
    double limit;       /* whole job, including `spent`; 0: no limit */
    double probe_limit; /* --probe-time; 0: no limit */
    double spent;
    double done[PART_COUNT]; /* share that is already done, 0 to 1 */
    /* The requested options. plan_memory() clears those that do not fit into memory. */
    bool mixes;
    bool feedback;           /* error feedback */
    bool answers;            /* feedback also uses moments of output gradients */
    bool sequential;         /* files are made block by block */
    bool gradients;          /* costs of unprobed layers come from gradients */
    double memory;           /* bytes of --max-memory, or free memory; 0: unknown */
    bool memory_given;       /* memory is --max-memory */
    double need[NEED_COUNT]; /* bytes of large buffers; 0: not wanted */
    int n_classes;           /* files of the ladder, including those of --budget */
    int n_sizes;             /* those of size classes, which alone are made block by block, and of
                                which the smallest may get feedback alone */
    int n_presets;
    int n_projectors;
    int n_roles, layers[PLAN_ROLES]; /* number of groups of each role */
    int64_t probe_windows, eval_windows;
    int judge_passes;     /* passes over all windows in comparisons, besides the winners' */
    double convert, hash; /* hash: reading the inputs */
    double imatrix, gram; /* gram: additional cost of second moments */
    double errors;        /* measuring the encoders' errors on sampled rows */
    double probe_encode;  /* encoding the whole model in the types of probes */
    double pass_window;   /* one window of a probe's forward pass */
    double slope_window;  /* gradients of a window (mix/slopes.h) */
    double gains;         /* measuring the gain of feedback for each type */
    double factors;       /* factors for feedback, of all files */
    double preset;        /* encoding one preset */
    double encode,
        encode_feedback; /* one file of the ladder, where tensors are shared with other files */
    double encode_alone; /* one file with feedback if there are at most two */
    double encode_sequential; /* additional cost of block by block, per file of n_sizes */
    double eval_window;       /* one window of one file */
    double speed, tools;      /* per file */
    double drafts;            /* acceptance of drafts, per file; part of PART_SPEED */
    double images;            /* questions about images, per file and per projector */
    double report;            /* per file */
};
struct make_plan {
    bool made;
    bool mixes, feedback, sequential, answers;
    int64_t fed_files; /* made with feedback: those of --budget, then the smallest; 0: none */
    enum probes probes;
    int64_t probe_windows, eval_windows;
};
/* Clears feedback, answers and sequential if their buffers do not fit into memory. */
void plan_memory(struct plan_in *in);
/* Returns the total size of the plan's large buffers. */
double plan_bytes(const struct plan_in *in, const struct make_plan *p);
/* Writes a sentence about the i-th option (from 0) that is left out for lack of memory: how much it
 * needs, and the --max-memory that would allow it. Returns false past the last one. */
bool plan_no_memory(const struct plan_in *in, int i, char *out, size_t cap);
/* Fills *p with the plan without a time limit; only memory excludes options. */
void plan_full(const struct plan_in *in, struct make_plan *p);
/* Maximum number of plans: each number of windows is halved at most 62 times in plans with mixes
 * and in plans without, the number of files 31 times. */
enum { PLAN_STEPS = 2 * 62 + 31 + 16 };
/* Lists the plans from the best to the shortest; each gives up a little more than the previous one
 * (docs/design/make.md). Returns their number. */
int plan_steps(const struct plan_in *in, struct make_plan out[PLAN_STEPS]);
enum { PLAN_POINTS = 10 };
/* Fills *p with the best plan within the time limit, or with the shortest. */
void plan_fit(const struct plan_in *in, struct make_plan *p);
/* Lists the plans worth offering, from the shortest to the best: the last one of each kind. Returns
 * their number, at most PLAN_POINTS. */
int plan_points(const struct plan_in *in, struct make_plan out[PLAN_POINTS]);
/* Describes what a plan makes, e.g. "mixes from 81 probes, error feedback". */
void plan_describe(const struct plan_in *in, const struct make_plan *p, char *out, size_t cap);
/* Writes the --time that a plan needs, with 10 % to spare: "95m", "12h". */
void plan_time_needed(const struct plan_in *in, const struct make_plan *p, char out[32]);
/* Returns whether both plans do the same work. */
bool plan_same(const struct make_plan *a, const struct make_plan *b);
/* Returns the time, in seconds, that one part of the plan will still take. */
double plan_seconds(const struct plan_in *in, const struct make_plan *p, enum plan_part part);
/* Returns the time of the whole job in seconds, including the time already spent. */
double plan_total(const struct plan_in *in, const struct make_plan *p);
/* Returns the number of probes. */
int64_t plan_probes(const struct plan_in *in, const struct make_plan *p);
/* Returns whether a plan that plan_fit() made still exceeds the limit. */
bool plan_too_long(const struct plan_in *in, const struct make_plan *p);
/* Writes a sentence about the i-th part (from 0) that `p` leaves out for lack of time, and the time
 * it would take. Returns false past the last one. */
bool plan_left_out(const struct plan_in *in, const struct make_plan *p, int i, char *out,
                   size_t cap);
/* Writes a duration in words: "3.2 hours", "14 minutes", "40 seconds". */
void plan_time_text(double seconds, char out[32]);
/* Writes an amount of bytes in MB or GB (powers of ten). */
void plan_amount_text(double bytes, char out[32]);
/* Returns whether `high` lets the file of a size class follow gradients (mix/learn.h): its main
 * type has fewer than four bits per weight. */
bool plan_learns(const char *size_class);
/* Above this number of weights, only norms and biases are learned, to save memory (mix/learn.h,
 * mix/learn_block.h). */
#define PLAN_LEARN_MOST ((int64_t)2500000000)

#endif
