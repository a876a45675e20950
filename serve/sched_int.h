// SPDX-License-Identifier: MIT
/* serve/sched_int.h - what the files of the scheduler share: sched.c passes and tokens,
 * sched_admit.c memory and who may begin, sched_draft.c guesses, sched_disk.c the folder.
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
/* What the next token is drawn from: logits, or the best of them, as they were asked for. */
struct row_out {
    const float *logits; /* NULL: the best */
    const struct session_best *best;
};
struct sched {
    struct session *s;
    struct sched_opts o;
    struct prefix_cache *prefix;
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
    struct row_out *out;      /* [cap_out] of the rows that want them */
    struct session_host host; /* of `logits` */
    float *logits, *masked;
    struct session_best *best; /* [cap_out] */
    int64_t cap_out, n_eog;    /* tokens that end an answer */
    float *hidden;             /* of rows for the MTP block; NULL: there is none */
    struct mtp_pass mtp;
    double row_s;       /* of a prompt's row, running mean; 0: not known */
    double decode_s;    /* of a pass without prompts */
    double t_costly;    /* costly answers rest until this time */
    struct run *costly; /* of the pass: the costly answer that is next; NULL: none */
    int n_failed;       /* passes in a row */
    struct err lost;    /* how the device failed for good; no message: it did not */
    struct err broken;  /* what is wrong with the weights; no message: not searched yet */
    /* states that runs with guesses may go back to; of them those that the pass uses */
    struct seq *tap[DRAFT_RUNS * RUN_GUESSES];
    int n_taps, taps_used;
    double rows_s[DRAFT_RUNS * (RUN_GUESSES + 1) + 1]; /* of passes of so many rows; 0: not known */
    struct sched_counts n;
};

/* ---- sched.c ---- */
/* Takes the sequence away from a run; keep tells that what it has seen is kept for others. */
void sched_release(struct sched *s, struct run *r, bool keep);
void sched_fail_task(struct sched *s, struct task *t, const struct fault *f);
/* Forgets what has ended. */
void sched_sweep(struct sched *s);
/* ---- sched_draft.c ---- */
/* Makes guesses of r's next tokens, for a pass that has n_rows rows of answers without them and
 * gives tokens to n_others other answers; at most n_free. Returns their number, r->draft.n. */
int sched_guess(struct sched *s, struct run *r, int64_t n_rows, int n_others, int64_t n_free);
/* Returns what the next token is drawn from, after tokens were drawn from *out, what the pass said
 * behind r's last token, and what lies behind it. Returns NULL when it is not there. */
const struct row_out *sched_next_out(const struct run *r, const struct row_out *out);
/* Goes back to the last token that was guessed right. ran tells whether the pass has run. */
void sched_settle(struct sched *s, struct run *r, bool ran);
/* Notes that the pass is over: states to go back to are free again. */
void sched_end_guesses(struct sched *s);
/* Returns the seconds that a pass of n_rows rows takes; where that is not known, of one with
 * fewer. */
double sched_seconds(const struct sched *s, int64_t n_rows);
/* Notes that nothing is guessed by `by` for r in this pass: it may be better again. */
void sched_doubt(struct run *r, enum guess_by by);
/* ---- sched_mtp.c ---- */
/* Tells whether the block wants the hidden row of a run's token at `at`. */
bool sched_wants_hidden(const struct sched *s, const struct run *r, int64_t at);
/* Notes the pairs of the last n tokens that r's sequence has seen. */
void sched_add_pairs(struct sched *s, struct run *r, const float *hidden, int64_t n);
/* Takes the noted pairs through the block, where it pays. */
void sched_run_mtp(struct sched *s);
/* Gives back what the block has of r. */
void sched_forget_pairs(struct run *r);
/* Writes the guess of the block for r's next token to *out, where there is one. Returns the number
 * of guesses, 0 or 1. */
int sched_guess_mtp(const struct sched *s, const struct run *r, int32_t *out, int most);
bool sched_is_tap(const struct sched *s, const struct seq *q);
/* Frees the states to go back to, unless the pass uses some. Returns false when none was freed. */
bool sched_drop_taps(struct sched *s);
/* Notes that a pass of n_rows rows, without prompts, took t seconds. */
void sched_measure_rows(struct sched *s, int64_t n_rows, double t);
/* ---- sched_disk.c ---- */
/* Brings what a run's prompt begins with from the shelf, when that spares time and there is memory
 * for it and `need` bytes more. */
void sched_from_shelf(struct sched *s, const struct run *r, uint64_t need);
/* Writes one of the beginnings that requests share, or all that is kept. Returns false when there
 * is nothing to write. */
bool sched_shelve(struct sched *s, bool all);
/* ---- sched_admit.c ---- */
/* Makes room for n bytes more, at the cost of what is kept. Returns false when that is too little.
 */
bool sched_room(struct sched *s, uint64_t n);
/* Tells whether there is memory for n tokens that r feeds next; others may lose theirs
 * for it. */
bool sched_may_grow(struct sched *s, struct run *r, int64_t n);
/* Tells whether what r computes serves others, and theirs serves r. */
bool sched_keeps(const struct run *r);
/* Gives sequences to those that wait, as there is room. */
void sched_admit(struct sched *s);

#endif
