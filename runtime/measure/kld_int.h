// SPDX-License-Identifier: MIT
/* runtime/measure/kld_int.h - what the files of the comparison of models share (kld.c,
 * kld_feed.c). Internal to them. */
#ifndef HONE_RUNTIME_MEASURE_KLD_INT_H
#define HONE_RUNTIME_MEASURE_KLD_INT_H

#include "runtime/measure/internal.h"

struct kld_tap;
enum { KLD_NOT_FED = INT32_MIN };
/* Hidden rows of the windows under way. Candidates are numbered from 0, the base is number
 * job->n_cand. */
struct kld_feed {
    const struct eval_kld_job *job; /* borrowed */
    int64_t ctx;
    int most; /* windows at a time; 1: one, in pieces of so many tokens: */
    int64_t piece;
    const bool *stay;            /* [n_cand + 1], borrowed: session_score takes its rows */
    struct session_host *hidden; /* [n_cand + 1]: rows of [n_embd] of those that do not stay */
    /* [n_cand + 1][most] row of a window's position 0 among those fed last, which lies before the
     * first of them where a piece begins later; KLD_NOT_FED: it was left out. */
    int64_t *first;
    int *fed;          /* [n_cand + 1][most] the windows that were fed, in order */
    bool *late;        /* [n_cand] begins with the first block of its own; else it computes all */
    float **below;     /* [n_cand] what enters that block; NULL: it is handed over on the device */
    int *begin, *like; /* [n_cand] same_graph: its first block that candidate like[i] < i, or the
                          base (-1), has not; else begin 0 */
    struct kld_tap *tap;     /* [n_cand + 1] what is shown of whom */
    struct windows *windows; /* [n_cand + 1] */
};
/* Opens a feed; kld_feed_close must be called also after an error. */
int kld_feed_open(struct kld_feed *f, const struct eval_kld_job *job, int64_t ctx, const bool *stay,
                  struct err *e);
void kld_feed_close(struct kld_feed *f);
/* Returns how many windows should go together now. */
int kld_feed_now(const struct kld_feed *f);
/* Feeds n windows, at most `most`, to all models; skip [n][n_cand]: candidates to leave out. */
int kld_feed_windows(struct kld_feed *f, const int32_t *const *window, int n, const bool *skip,
                     struct err *e);
/* Feeds tokens [at, at + n) of one window; skip [n_cand]. before: NULL, or called before each model
 * is fed, with its number. */
typedef void (*kld_feed_before)(void *ud, int which, int64_t at);
int kld_feed_piece(struct kld_feed *f, const int32_t *window, int64_t at, int64_t n,
                   const bool *skip, kld_feed_before before, void *ud, struct err *e);

#endif
