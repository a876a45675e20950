// SPDX-License-Identifier: MIT
/* serve/sched_int.h - state and functions shared by the scheduler's files: sched.c (passes and
 * tokens), sched_admit.c (memory and admission), sched_draft.c (speculative decoding), sched_mtp.c
 * (MTP blocks and draft files), sched_disk.c (on-disk cache). Internal. */
#ifndef HONE_SERVE_SCHED_INT_H
#define HONE_SERVE_SCHED_INT_H

#include "runtime/generate/drafter.h"
#include "serve/sched.h"

enum {
    DRAFT_RUNS = 2, /* maximum decoding runs in a pass with drafts */
    MTP_TAIL = 32   /* tokens at the end of a prompt that the drafter reads */
};
#define RIGHT_FIRST 0.5      /* initial acceptance rate of a run's drafts */
struct mtp_pass {            /* input of the drafter: pairs of the answers that have new tokens */
    struct session_row *row; /* [n] */
    float *hidden;           /* [n][n_in] */
    float *own;              /* [DRAFT_RUNS][n_own] its own outputs */
    float *logits;           /* [DRAFT_RUNS][n_logits] */
    int64_t n;
    struct run *run[DRAFT_RUNS];
    int n_runs;
    double each_s; /* running mean of the seconds per pass; 0: unknown */
};
/* Result of a row: all logits or only the best ones, as requested. */
struct row_out {
    const float *logits; /* NULL: only the best */
    const struct session_best *best;
};
struct sched {
    struct session *s;
    struct sched_opts o;
    struct prefix_cache *prefix;
    int64_t n_ctx, n_vocab, n_ubatch;
    bool has_spares; /* the session keeps spare states; each takes spare_bytes */
    uint64_t spare_bytes;
    bool has_new;    /* there are new cache entries that the disk may not have */
    bool shelf_full; /* writing to disk failed */
    double t_busy;   /* end of the last pass */
    struct task *tasks;
    struct run **run; /* unfinished runs, in order of arrival */
    int n_runs, cap_runs, n_live;
    uint64_t order, served_at;
    struct {
        uint64_t key, at;
    } served[64]; /* when each key last had a run started */
    int n_served;
    /* Rows of the pass: input, run, and the sequence to fork into after the row. */

    struct session_row *row;
    struct run **row_run;
    struct seq **row_fork;
    struct row_out *out;      /* [cap_out], results of the rows that request one */
    struct session_host host; /* memory of `logits` */
    float *logits, *masked;
    struct session_best *best; /* [cap_out] */
    int64_t cap_out, n_eog;    /* n_eog: tokens that end an answer */
    float *hidden;             /* rows for the drafter; NULL: no drafter */
    struct mtp_pass mtp;
    double row_s;       /* seconds per prompt row, running mean; 0: not known */
    double decode_s;    /* seconds per pass without prompts */
    double t_costly;    /* time until which costly answers rest */
    struct run *costly; /* costly answer whose turn it is in this pass; NULL: none */
    int n_failed;       /* consecutive failed passes */
    struct err lost;    /* why the device has failed for good; no message: it works */
    struct err broken;  /* fault found in the weights; no message: not searched for yet */
    /* Checkpoints for speculative runs; taps_used of them belong to this pass. */
    struct seq *tap[DRAFT_RUNS * RUN_GUESSES];
    int n_taps, taps_used;
    double rows_s[DRAFT_RUNS * (RUN_GUESSES + 1) +
                  1]; /* seconds per pass by number of rows; 0: not known */
    struct sched_counts n;
};

enum {
    JUMP_ROWS = 32, /* maximum tokens forced by a grammar that are fed at once */
    PROVEN = 16     /* cheap tokens before a grammar is trusted */
};

/* ---- sched.c ---- */

/* Ends a run: counts its tokens, releases its sequence and reports the end to the task. */
void sched_end_run(struct sched *s, struct run *r, enum reply_end end, const char *stop);
/* Takes a run's sequence away; keep: stores it in the prefix cache. */
void sched_release(struct sched *s, struct run *r, bool keep);
/* Fails a task and ends all its runs. */
void sched_fail_task(struct sched *s, struct task *t, const struct fault *f);
/* Removes runs and tasks that have ended. */
void sched_sweep(struct sched *s);
/* ---- sched_token.c ---- */

/* Records the probability of the prompt token that follows this row. */
void sched_echo_token(struct sched *s, struct run *r, const float *logits);
/* Draws the token that follows r's last token, then one after each draft token that is accepted.
 * out: results for the last token, then for each draft token. */
void sched_next_tokens(struct sched *s, struct run *r, const struct row_out *out);
/* ---- sched_draft.c ---- */

/* Drafts at most n_free tokens for r and returns their number, r->draft.n. n_rows: rows of answers
 * in the pass, without drafts. n_others: other answers that get a token from the pass. */
int sched_guess(struct sched *s, struct run *r, int64_t n_rows, int n_others, int64_t n_free);
/* Returns the result from which to draw r's next token; NULL: the pass has no such result, so
 * another pass is needed. out: results of the pass for r's last token and then for its draft
 * tokens. */
const struct row_out *sched_next_out(const struct run *r, const struct row_out *out);
/* Rolls r back to its last accepted token. ran: the pass has run. */
void sched_settle(struct sched *s, struct run *r, bool ran);
/* Releases the checkpoints of the finished pass. */
void sched_end_guesses(struct sched *s);
/* Returns the measured time in seconds of a pass of n_rows rows or, if that is missing, of the
 * largest smaller pass that was measured; 1 if none was. */
double sched_seconds(const struct sched *s, int64_t n_rows);
/* Records that r makes no draft with method `by` in this pass. Its acceptance rate slowly recovers,
 * so that the method is tried again later. */
void sched_doubt(struct run *r, enum guess_by by);
/* ---- sched_mtp.c ---- */

/* Returns whether the drafter needs the row of r's token at `at`. */
bool sched_wants_hidden(const struct sched *s, const struct run *r, int64_t at);
/* Records the pairs of r's last n tokens as input for the drafter. */
void sched_add_pairs(struct sched *s, struct run *r, const float *hidden, int64_t n);
/* Runs the drafter on the recorded pairs, if that is worth its time. */
void sched_run_mtp(struct sched *s);
/* Releases r's sequence in the drafter's session. */
void sched_forget_pairs(struct run *r);
/* Writes up to `most` of the drafter's guesses of r's next tokens to out; returns their number. */
int sched_guess_mtp(const struct sched *s, const struct run *r, int32_t *out, int most);
/* Returns whether q is one of the scheduler's taps, which are reused rather than freed. */
bool sched_is_tap(const struct sched *s, const struct seq *q);
/* Frees all checkpoints, unless the current pass uses some. Returns whether any were freed. */
bool sched_drop_taps(struct sched *s);
/* Records that a pass of n_rows rows, without prompts, took t seconds. */
void sched_measure_rows(struct sched *s, int64_t n_rows, double t);
/* ---- sched_disk.c ---- */

/* Loads the longest saved prefix of r's prompt from disk, if that saves time and there is memory
 * for it and for `need` bytes more. */
void sched_from_shelf(struct sched *s, const struct run *r, uint64_t need);
/* Writes one shared prefix to disk or, with `all`, the whole cache. Returns false if there is
 * nothing to write. */
bool sched_shelve(struct sched *s, bool all);
/* ---- sched_admit.c ---- */

/* Frees n bytes by dropping cache entries. Returns false if that is not enough. */
bool sched_room(struct sched *s, uint64_t n);
/* Returns whether there is memory for the n tokens that r feeds next. May preempt other runs. */
bool sched_may_grow(struct sched *s, struct run *r, int64_t n);
/* Returns whether r may use and fill the prefix cache. */
bool sched_keeps(const struct run *r);
/* Starts waiting runs while there is room. */
void sched_admit(struct sched *s);

#endif
