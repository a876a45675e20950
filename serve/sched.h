// SPDX-License-Identifier: MIT
/* serve/sched.h - the engine's side of a server: which rows go into the next pass. One thread.
 *
 * Every running answer gives a row, prompts fill the pass up to a time that nobody minds. An answer
 * is the same bytes whatever else runs: passes do not mix rows (docs/design/engine.md). */
#ifndef HONE_SERVE_SCHED_H
#define HONE_SERVE_SCHED_H

#include "serve/histogram.h"
#include "serve/prefix_disk.h"
#include "serve/task.h"

struct sched;
struct sched_opts {
    int n_live;                /* sequences computed at once */
    int n_queue;               /* runs that may wait */
    uint64_t n_bytes;          /* of keys, values and states, all told */
    double max_step_s;         /* a running answer waits so long for others' prompts */
    struct prefix_disk *shelf; /* borrowed; NULL: nothing outlives the scheduler */
    bool draft;                /* next tokens are guessed, where that makes few answers faster and
                                  the session can (sched_can_draft) */
    struct session *mtp; /* borrowed, of the model's MTP block with as much context, of guests;
                            NULL: it guesses nothing */
    bool always;         /* guesses are tried whatever they cost: tests */
    /* Writes up to `most` tokens that may follow r's and returns their number. NULL: what followed
     * the same tokens before (ngram_draft.h), then the MTP block's. Answers are the same whatever
     * it says. */
    int (*guess)(void *ud, const struct run *r, int32_t *out, int most);
    void *guess_ud;
};
/* Tells whether a pass of this session can try guesses: on a device a fork ends a pass, so there
 * only sequences that go back without one (session_info.can_trim) gain by them. */
bool sched_can_draft(const struct session *s);
/* Makes a scheduler, which sched_free frees; s is borrowed, and opened with session_opts.guests. */
int sched_new(struct sched **out, struct session *s, const struct sched_opts *o, struct err *e);
/* Frees a scheduler. Tasks that have not ended fail. */
void sched_free(struct sched *s);
/* Takes a task over. It is freed when it has ended. */
void sched_add(struct sched *s, struct task *t);
/* Runs one pass. Returns true when it is to be called again, false when there is nothing to do
 * now. */
bool sched_step(struct sched *s);
/* Tells whether the device has failed for good, and why: all tasks fail from here on. */
bool sched_lost(const struct sched *s, struct err *why);
/* Tells whether sched_step may have something to do later although nobody asks. */
bool sched_has_chores(const struct sched *s);
/* Fails all tasks that have not ended, with this error. */
void sched_fail_all(struct sched *s, const struct fault *f);

struct sched_counts {
    /* n_fed: tokens of prompts that were computed, those of answers that lost their memory too */
    int64_t n_running, n_waiting, n_prompt, n_cached, n_fed, n_out, n_think, n_steps, n_rows,
        n_preempted, n_cancelled;
    /* tokens that a form had a say in; of them those that the model alone would have said
     * otherwise; and tokens that were not drawn, since no others could come */
    int64_t n_held, n_overruled, n_jumped;
    int64_t n_overruled_at[TOOL_PLACES]; /* of answers with tools */
    int64_t n_guessed, n_right;          /* tokens that were guessed; of them those that came */
    uint64_t held_bytes, budget_bytes;
    double busy_s;
    struct histogram interval, step; /* between tokens of an answer; passes */
    struct histogram mask;           /* choosing a token that a form has a say in */
    struct prefix_cache_counts prefix;
    struct prefix_disk_counts shelf;
};
struct sched_counts sched_counts(const struct sched *s);
/* Adds the counts of n, totals and gauges, to *to. */
void sched_counts_add(struct sched_counts *to, const struct sched_counts *n);
/* Writes the places for live sequences, the free ones too, each a JSON object, as elements of a
 * list; model: the id of the file, NULL: left out. */
void sched_slots(const struct sched *s, const char *model, struct jw *w);

#endif
