// SPDX-License-Identifier: MIT
/* serve/sched_int.h - what the files of the scheduler share: sched.c passes and tokens,
 * sched_admit.c memory and who may begin, sched_draft.c guesses, sched_shelf.c the folder.
 * Internal. */
#ifndef HONE_SERVE_SCHED_INT_H
#define HONE_SERVE_SCHED_INT_H

#include "serve/sched.h"

enum {
    DRAFT_RUNS = 2, /* that decode at most, where tokens are guessed */
    MTP_TAIL = 32   /* tokens of a prompt that the MTP block sees */
};
#define RIGHT_FIRST 0.5      /* share of guesses of a run that are right, before any was judged */
struct mtp_pass {            /* pairs for the block, of the answers that got tokens in a pass */
    struct session_row *row; /* [n] */
    float *hidden;           /* [n][n_embd] */
    float *logits;           /* [DRAFT_RUNS][n_vocab] */
    int64_t n;
    struct run *run[DRAFT_RUNS];
    int n_runs;
    double each_s; /* of a pass, running mean; 0: not known */
};
struct sched {
    struct session *s;
    struct sched_opts o;
    struct prefix *prefix;
    int64_t n_ctx, n_vocab, n_ubatch, n_embd;
    bool has_spares; /* the session keeps states ready, of so many bytes: */
    uint64_t spare_bytes;
    bool has_new;    /* something was kept that the shelf may not have */
    bool shelf_full; /* writing to it failed */
    double t_busy;   /* when the last pass ended */
    struct task *tasks;
    struct run **run; /* that have not ended, in order of arrival */
    int n_runs, cap_runs, n_live;
    uint64_t order, served_at;
    struct {
        uint64_t key, at;
    } served[64]; /* when keys had their last turn */
    int n_served;
    /* rows of the pass: whose they are; what is kept of their sequences as they are behind them */
    struct session_row *row;
    struct run **row_run;
    struct seq **row_fork;
    float *logits, *masked;
    float *hidden; /* of rows for the MTP block; NULL: there is none */
    struct mtp_pass mtp;
    int64_t cap_logits; /* rows */
    double row_s;       /* of a prompt's row, running mean; 0: not known */
    double decode_s;    /* of a pass without prompts */
    int n_failed;       /* passes in a row */
    /* states that runs with guesses may go back to; of them those that the pass uses */
    struct seq *tap[DRAFT_RUNS * RUN_GUESSES];
    int n_taps, taps_used;
    double rows_s[DRAFT_RUNS * (RUN_GUESSES + 1) + 1]; /* of passes of so many rows; 0: not known */
    struct sched_counts n;
};

/* Of sched.c. */
void sched_release(struct sched *s, struct run *r, bool keep); /* takes its sequence away */
void sched_fail_task(struct sched *s, struct task *t, const struct fault *f);
void sched_sweep(struct sched *s); /* forgets what has ended */
/* Of sched_draft.c. */
/* Guesses of r's next tokens for a pass that has n_rows rows of answers without them, and gives
 * tokens to n_others; at most n_free. Returns their number, r->n_guesses. */
int sched_guess(struct sched *s, struct run *r, int64_t n_rows, int n_others, int64_t n_free);
/* After tokens were drawn from `logits`, those behind r's last token before the pass: the logits
 * that the next one is drawn from; NULL: they are not there. */
const float *sched_next_logits(const struct sched *s, const struct run *r, const float *logits);
/* Goes back to the last token that was guessed right. ran: the pass has. */
void sched_settle(struct sched *s, struct run *r, bool ran);
void sched_end_guesses(struct sched *s);                     /* the pass is over */
double sched_seconds(const struct sched *s, int64_t n_rows); /* of a pass; guessed where unknown */
void sched_doubt(struct run *r, enum guess_by by); /* nothing is guessed: it may be better again */
/* Of sched_mtp.c. */
/* Does the block want the hidden row of a run's token at `at`? */
bool sched_wants_hidden(const struct sched *s, const struct run *r, int64_t at);
/* Notes the pairs of the last n tokens that r's sequence has seen. */
void sched_add_pairs(struct sched *s, struct run *r, const float *hidden, int64_t n);
void sched_run_mtp(struct sched *s);    /* the noted pairs go through the block, where it pays */
void sched_forget_pairs(struct run *r); /* gives back what the block has of r */
int sched_guess_mtp(const struct run *r, int32_t *out); /* number of guesses: 0 or 1 */
bool sched_is_tap(const struct sched *s, const struct seq *q);
bool sched_drop_taps(struct sched *s);                              /* false: there are none */
void sched_measure_rows(struct sched *s, int64_t n_rows, double t); /* a pass without prompts */
/* Of sched_shelf.c. */
/* Brings what a run's prompt begins with from the shelf, when that spares time and there is memory
 * for it and `need` bytes more. */
void sched_from_shelf(struct sched *s, const struct run *r, uint64_t need);
/* Writes one of the beginnings that requests share, or all that is kept. False: there is nothing
 * to write. */
bool sched_shelve(struct sched *s, bool all);
/* Of sched_admit.c. */
bool sched_room(struct sched *s, uint64_t n);                   /* for so many bytes more */
bool sched_may_grow(struct sched *s, struct run *r, int64_t n); /* for what r feeds next */
bool sched_keeps(const struct run *r); /* what r computes serves others, and theirs serves r */
void sched_admit(struct sched *s);     /* gives sequences to those that wait, as there is room */

#endif
