// SPDX-License-Identifier: MIT
/* mix/accept.h - acceptance test of a mix against the plain recipes that are no larger, on texts
 * used neither for importance nor for probes. See docs/design/mix.md, "The gate". */
#ifndef HONE_MIX_ACCEPT_H
#define HONE_MIX_ACCEPT_H

#include "work/work.h"
#include "mix/mixer.h"
#include "quantize/quantize.h"

enum { GATE_PLAIN = 3 };
struct gate_plain { /* a plain recipe that fits the budget */
    const char *name;
    uint64_t bytes;
    char *path; /* owned; NULL: not quantized yet */
    bool ours;  /* quantized for this comparison */
};
struct gate {
    struct work *w;
    const char *base, *imatrix, *gram; /* inputs of the mix; the last two may be NULL */
    const char *tmpl;                  /* chat template of the files; NULL: the base's */
    const char *prefix;                /* path prefix of the files that this test quantizes */
    /* The mix's mixer, and how many bytes of tensors the card can hold, without those that stay in
     * main memory; 0: no limit. */
    const struct mixer *mixer;
    uint64_t device_room;
    enum search search;
    struct str_list texts;
    int64_t ctx, chunks; /* number of windows, spread evenly over the texts; 0: all */
    /* Quantizes a recipe's file; NULL: quantize_run. */
    int (*encode)(void *ctx, const char *recipe, const struct quantize_opts *o, struct err *e);
    void *encode_ctx;
    bool keep; /* gate_release leaves the files that this test quantized */
    /* results */
    struct gate_plain plain[GATE_PLAIN];
    int n, best; /* best: index of the best plain recipe; -1: none fits */
    bool passed;
    char why[512];
};
/* Finds the largest plain recipes whose files take at most `budget` bytes and fit the card. Skips
 * recipes that are too coarse for tensors without importance. If such files, made with the same
 * inputs and search, already exist, the caller may then set their paths. */
int gate_find(struct gate *g, uint64_t budget, struct err *e);
/* Quantizes the missing files, compares the mix with all of them, and sets best, passed and why.
 * The mix passes if no recipe fits. */
int gate_judge(struct gate *g, const char *mix, struct err *e);
/* Removes the files that this test quantized, except those that were moved away or are to be
 * kept. */
void gate_release(struct gate *g);

#endif
