// SPDX-License-Identifier: MIT
/* runtime/measure/kld_int.h - hidden rows of all models for the comparison in kld.c; filled by
 * kld_feed.c. */
#ifndef HONE_RUNTIME_MEASURE_KLD_INT_H
#define HONE_RUNTIME_MEASURE_KLD_INT_H

#include "runtime/measure/internal.h"

struct kld_tap;
enum { KLD_NOT_FED = INT32_MIN };
/* Hidden rows of the current windows. Candidates are numbered from 0; the base is number
 * job->n_cand. */
struct kld_feed {
    const struct eval_kld_job *job; /* borrowed */
    int64_t ctx;
    int most; /* windows fed at a time; 1: one, in chunks of `piece` tokens */
    int64_t piece;
    const bool *stay; /* [n_cand + 1] rows stay on the device for session_score; borrowed */
    struct session_host
        *hidden; /* [n_cand + 1] rows [n_embd] of the sessions whose rows do not stay */
    /* [n_cand + 1][most] index, among the rows fed last, of a window's position 0; negative if a
     * later chunk was fed. KLD_NOT_FED: the window was skipped. */
    int64_t *first;
    int *fed;          /* [n_cand + 1][most] windows that were fed, in order */
    bool *late;        /* [n_cand] starts at its first changed block; false: runs all blocks */
    float **below;     /* [n_cand] input of that block; NULL: passed on the device */
    int *begin, *like; /* [n_cand] same_graph: first block not shared with candidate like[i] < i, or
                          the base (-1); else begin 0 */
    struct kld_tap *tap;     /* [n_cand + 1] observers of the residuals */
    struct windows *windows; /* [n_cand + 1] */
    bool *known;             /* [most] the base's rows of a window are known: it is not fed */
};
/* Opens a feed. Call kld_feed_close even after an error. */
int kld_feed_open(struct kld_feed *f, const struct eval_kld_job *job, int64_t ctx, int64_t n_chunks,
                  const bool *stay, struct err *e);
void kld_feed_close(struct kld_feed *f);
/* Moves *p forward while windows are fed block by block, each session by its share. */
void kld_feed_progress(struct kld_feed *f, struct progress *p);
/* Returns the number of windows that can run together now, with or without the base. */
int kld_feed_now(const struct kld_feed *f, bool with_base);
/* Feeds n windows, at most `most`, to all models. skip [n][n_cand]: candidates to omit. */
int kld_feed_windows(struct kld_feed *f, const int32_t *const *window, int n, const bool *skip,
                     struct err *e);
/* Feeds tokens [at, at + n) of one window; skip [n_cand]. `before`, if not NULL, is called before
 * each model is fed, with the model's number. */
typedef void (*kld_feed_before)(void *ud, int which, int64_t at);
/* Feeds a piece of a window to the base and to the candidates i without skip[i]. */
int kld_feed_piece(struct kld_feed *f, const int32_t *window, int64_t at, int64_t n,
                   const bool *skip, kld_feed_before before, void *ud, struct err *e);

/* Returns the rows of a window in a store (base_rows.c), or NULL. s may be NULL. */
const float *eval_rows_get(const struct eval_rows *s, const char *key);
/* Adds rows to a store; takes ownership of both (free, mem_free). */
void eval_rows_put(struct eval_rows *s, char *key, float *rows);

#endif
