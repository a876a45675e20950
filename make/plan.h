// SPDX-License-Identifier: MIT
/* make/plan.h - what `hone make` does within its time: forecast numbers in, plan out. Pure
 * arithmetic; make/forecast.c measures the numbers. */
#ifndef HONE_MAKE_PLAN_H
#define HONE_MAKE_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is done for a file's quality: mixes by the encoders' own search; with error feedback; made
 * block by block besides (mix/sequential.h). */
enum effort { EFFORT_FAST, EFFORT_NORMAL, EFFORT_HIGH, EFFORT_COUNT };
extern const char *const effort_name[EFFORT_COUNT];

enum plan_part { /* in the order in which they run */
                 PART_CONVERT,
                 PART_IMATRIX,
                 PART_PRESETS, /* files that are presets by request */
                 PART_PROBES,  /* what each type costs each part of the model */
                 PART_LADDER,  /* choosing and encoding the files of the size classes */
                 PART_JUDGE,   /* comparing them with the presets of the same bytes */
                 PART_EVAL,
                 PART_SPEED,
                 PART_TOOLS,
                 PART_REPORT,
                 PART_COUNT
};
extern const char *const plan_part_name[PART_COUNT];

enum plan_need {                /* needs of memory; each includes those before it */
                 NEED_PASSES,   /* sessions and their buffers */
                 NEED_FEEDBACK, /* second moments of inputs */
                 NEED_ANSWERS,  /* second moments of gradients by outputs */
                 NEED_BLOCKS,   /* making files block by block */
                 NEED_COUNT
};

enum { PLAN_ROLES = 64 };
struct plan_in {  /* times in seconds of this machine */
    double limit; /* of everything, what is spent included; 0: none */
    double spent;
    double done[PART_COUNT]; /* share already done, 0 to 1 */
    /* Options that the job wants. plan_memory() clears those that do not fit into memory. */
    bool mixes;
    bool feedback;           /* error feedback */
    bool answers;            /* feedback also has moments of gradients by outputs */
    bool sequential;         /* files are made block by block */
    bool gradients;          /* costs of unprobed layers come from gradients */
    double memory;           /* bytes of --max-memory, or free memory; 0: unknown */
    bool memory_given;       /* memory is that of --max-memory */
    double need[NEED_COUNT]; /* bytes of large buffers; 0: not wanted */
    int n_classes;           /* files of the ladder, --budget included */
    int n_presets;
    int n_roles, layers[PLAN_ROLES]; /* groups of each role */
    int64_t probe_windows, eval_windows;
    int judge_passes;               /* of the base, in all comparisons */
    double convert, hash;           /* hash: reading what the job begins with */
    double imatrix, gram;           /* gram: what collecting second moments adds */
    double errors;                  /* of the encoders, on sampled rows */
    double probe_encode;            /* a group in a type */
    double probe_window;            /* a window of one probe */
    double slope_window;            /* gradients of a window (mix/slopes.h) */
    double gains;                   /* what feedback will do to each type */
    double preset;                  /* encoding one */
    double encode, encode_feedback; /* one file of the ladder */
    double encode_sequential;       /* the same made block by block, in addition */
    double eval_window;             /* a window of one file */
    double speed, tools;            /* of one file */
    double report;                  /* of one file */
};
struct make_plan {
    bool made;
    bool mixes, feedback, sequential, answers;
    int64_t types, bands; /* of the probes: types per group, layers per role (0: all) */
    int64_t probe_windows, eval_windows;
};
/* Clears feedback, answers and sequential where memory does not hold their buffers. */
void plan_memory(struct plan_in *in);
/* Returns the bytes of large buffers that the plan needs. */
double plan_bytes(const struct plan_in *in, const struct make_plan *p);
/* Writes a sentence about the i-th option left out for memory, counted from 0: what it needs and
 * which --max-memory allows it. Returns false past the last. */
bool plan_no_memory(const struct plan_in *in, int i, char *out, size_t cap);
/* Fills *p with the plan without a time limit: only memory leaves something out. */
void plan_full(const struct plan_in *in, struct make_plan *p);
/* Fills *p with the best plan within the limit of time: files are no longer made block by block,
 * then probes shrink, then feedback goes, then presets are made instead of mixes, then fewer
 * windows are evaluated. */
void plan_fit(const struct plan_in *in, struct make_plan *p);
bool plan_same(const struct make_plan *a, const struct make_plan *b);
double plan_seconds(const struct plan_in *in, const struct make_plan *p, enum plan_part part);
double plan_total(const struct plan_in *in, const struct make_plan *p);
int64_t plan_probes(const struct plan_in *in, const struct make_plan *p);
/* Returns whether a plan of plan_fit() still takes longer than the limit. */
bool plan_too_long(const struct plan_in *in, const struct make_plan *p);
/* Writes a sentence about the i-th thing that `p` leaves out for time, counted from 0, and the time
 * it would take. Returns false past the last. */
bool plan_left_out(const struct plan_in *in, const struct make_plan *p, int i, char *out,
                   size_t cap);
/* Writes a time for people: "3.2 hours", "14 minutes", "40 seconds". */
void plan_time_text(double seconds, char out[32]);

#endif
