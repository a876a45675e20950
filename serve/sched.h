// SPDX-License-Identifier: MIT
/* serve/sched.h - the scheduler: chooses the rows of each forward pass (continuous batching).
 * Single-threaded.
 *
 * Each running answer contributes one row. Rows of prompts fill the rest of the pass, up to a time
 * limit that keeps running answers from stalling. The rows of a pass do not affect each other, so
 * an answer has the same bytes whatever other requests run (docs/design/engine.md). */
#ifndef HONE_SERVE_SCHED_H
#define HONE_SERVE_SCHED_H

#include "serve/histogram.h"
#include "serve/prefix_disk.h"
#include "serve/task.h"

struct sched;
struct sched_opts {
    int n_live;                /* sequences computed at once */
    int n_queue;               /* maximum number of waiting runs */
    uint64_t n_bytes;          /* memory for keys, values and states */
    double max_step_s;         /* longest time that prompts may delay running answers, per pass */
    struct prefix_disk *shelf; /* borrowed; NULL: no on-disk cache */
    /* Speculative decoding. It is used while few answers run, if it is faster and the session
     * supports it (sched_can_draft). */
    bool draft;
    /* The model's MTP block or a draft file, opened for the session; borrowed. NULL: neither. */
    struct drafter *drafter;
    bool always; /* for tests: draft even if it does not pay */
    /* Writes up to `most` draft tokens for r and returns their number. NULL: n-gram drafts
     * (ngram_draft.h) are used, then the drafter's. Drafts never change the answer. */
    int (*guess)(void *ud, const struct run *r, int32_t *out, int most);
    void *guess_ud;
};
/* Returns whether speculative decoding can be worthwhile in this session. Returns false on a device
 * unless its sequences can be trimmed (session_info.can_trim), because a fork ends the pass
 * there. */
bool sched_can_draft(const struct session *s);
/* Creates a scheduler; free it with sched_free(). s is borrowed and must have
 * session_opts.guests. */
int sched_new(struct sched **out, struct session *s, const struct sched_opts *o, struct err *e);
/* Frees a scheduler; unfinished tasks fail. */
void sched_free(struct sched *s);
/* Adds a task and takes ownership of it; it is freed when it ends. */
void sched_add(struct sched *s, struct task *t);
/* Runs one pass. Returns whether to call it again at once; false: there is nothing to do now. */
bool sched_step(struct sched *s);
/* Returns whether the device has failed for good, and why; all tasks fail from then on. */
bool sched_lost(const struct sched *s, struct err *why);
/* Returns whether sched_step() may later have background work even without new requests. */
bool sched_has_chores(const struct sched *s);
/* Fails all unfinished tasks with this error. */
void sched_fail_all(struct sched *s, const struct fault *f);

struct sched_counts {
    /* n_fed: prompt tokens computed, including those recomputed after preemption. */
    int64_t n_running, n_waiting, n_prompt, n_cached, n_fed, n_out, n_think, n_steps, n_rows,
        n_preempted, n_cancelled;
    /* Tokens drawn under a constraint; those for which it overruled the model; tokens that were
     * forced because no other was allowed. */
    int64_t n_held, n_overruled, n_jumped;
    int64_t n_overruled_at[TOOL_PLACES]; /* overruled tokens by place, in answers with tools */
    int64_t n_guessed, n_right;          /* drafted tokens; drafted tokens accepted */
    uint64_t held_bytes, budget_bytes;
    double busy_s;
    struct histogram interval, step; /* time between tokens of an answer; time per pass */
    struct histogram mask;           /* time to choose a constrained token */
    struct prefix_cache_counts prefix;
    struct prefix_disk_counts shelf;
};
struct sched_counts sched_counts(const struct sched *s);
/* Adds the counts n to *to: totals as well as current values. */
void sched_counts_add(struct sched_counts *to, const struct sched_counts *n);
/* Writes a JSON object for each slot, free or occupied by a live sequence, to the open list. model:
 * the file's id; NULL: left out. */
void sched_slots(const struct sched *s, const char *model, struct jw *w);

#endif
