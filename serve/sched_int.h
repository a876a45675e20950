// SPDX-License-Identifier: MIT
/* serve/sched_int.h - shared state of the scheduler's files: sched.c (passes and tokens),
 * sched_admit.c (memory and admission), sched_draft.c (speculative decoding), sched_mtp.c (MTP
 * drafts), sched_disk.c (on-disk cache). Internal. */
#ifndef HONE_SERVE_SCHED_INT_H
#define HONE_SERVE_SCHED_INT_H

#include "serve/sched.h"

enum {
    DRAFT_RUNS = 2, /* decoding runs, at most, while drafting */
    MTP_TAIL = 32   /* prompt tokens that the MTP block sees */
};
#define RIGHT_FIRST 0.5      /* initial acceptance rate of a run's drafts */
struct mtp_pass {            /* input pairs for the MTP block, from the answers that got tokens */
    struct session_row *row; /* [n] */
    float *hidden;           /* [n][n_embd] */
    float *logits;           /* [DRAFT_RUNS][n_vocab] */
    int64_t n;
    struct run *run[DRAFT_RUNS];
    int n_runs;
    double each_s; /* running mean of the seconds per pass; 0: unknown */
};
/* Result of a row, in the form that was requested: all logits, or the best ones. */
struct row_out {
    const float *logits; /* NULL: only the best */
    const struct session_best *best;
};
struct sched {
    struct session *s;
    struct sched_opts o;
    struct prefix_cache *prefix;
    int64_t n_ctx, n_vocab, n_ubatch, n_embd;
    bool has_spares; /* the session keeps spare states, of spare_bytes each */
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
    } served[64]; /* when each key last had its turn */
    int n_served;
    /* Rows of the pass: input, owner, and where to store a copy of the sequence after the row. */

    struct session_row *row;
    struct run **row_run;
    struct seq **row_fork;
    struct row_out *out;      /* [cap_out], of the rows that request it */
    struct session_host host; /* memory of `logits` */
    float *logits, *masked;
    struct session_best *best; /* [cap_out] */
    int64_t cap_out, n_eog;    /* n_eog: tokens that end an answer */
    float *hidden;             /* rows for the MTP block; NULL: no block */
    struct mtp_pass mtp;
    double row_s;       /* seconds per prompt row, running mean; 0: not known */
    double decode_s;    /* seconds per pass without prompts */
    double t_costly;    /* costly answers rest until this time */
    struct run *costly; /* costly answer whose turn it is in this pass; NULL: none */
    int n_failed;       /* consecutive failed passes */
    struct err lost;    /* why the device failed for good; no message: it works */
    struct err broken;  /* fault of the weights; no message: not searched for yet */
    /* Checkpoints for speculative runs; taps_used of them belong to this pass. */
    struct seq *tap[DRAFT_RUNS * RUN_GUESSES];
    int n_taps, taps_used;
    double rows_s[DRAFT_RUNS * (RUN_GUESSES + 1) +
                  1]; /* seconds per pass by number of rows; 0: not known */
    struct sched_counts n;
};

/* ---- sched.c ---- */

/* Takes the sequence from a run; keep: put it into the prefix cache. */
void sched_release(struct sched *s, struct run *r, bool keep);
void sched_fail_task(struct sched *s, struct task *t, const struct fault *f);
/* Removes runs and tasks that have ended. */
void sched_sweep(struct sched *s);
/* ---- sched_draft.c ---- */

/* Drafts the next tokens of r, at most n_free, for a pass with n_rows rows of answers (without
 * drafts) that gives tokens to n_others other answers. Returns their number, r->draft.n. */
int sched_guess(struct sched *s, struct run *r, int64_t n_rows, int n_others, int64_t n_free);
/* Returns the result that r's next token is drawn from. out is the pass's result for r's last token
 * before the draft; the results of the draft follow it. NULL: not available, the token needs
 * another pass. */
const struct row_out *sched_next_out(const struct run *r, const struct row_out *out);
/* Rolls r back to the last accepted token. ran: the pass has run. */
void sched_settle(struct sched *s, struct run *r, bool ran);
/* Releases the checkpoints of the finished pass. */
void sched_end_guesses(struct sched *s);
/* Returns the seconds that a pass of n_rows rows takes, or the largest smaller pass that was
 * measured. */
double sched_seconds(const struct sched *s, int64_t n_rows);
/* Records that r skips drafts by `by` in this pass, so that it tries again later. */
void sched_doubt(struct run *r, enum guess_by by);
/* ---- sched_mtp.c ---- */

/* Returns whether the MTP block needs the hidden row of r's token at `at`. */
bool sched_wants_hidden(const struct sched *s, const struct run *r, int64_t at);
/* Records the pairs of the last n tokens of r's sequence. */
void sched_add_pairs(struct sched *s, struct run *r, const float *hidden, int64_t n);
/* Runs the MTP block on the recorded pairs if that pays. */
void sched_run_mtp(struct sched *s);
/* Releases r's sequence in the MTP session. */
void sched_forget_pairs(struct run *r);
/* Writes the MTP block's guess of r's next token to *out, if there is one. Returns 0 or 1. */
int sched_guess_mtp(const struct sched *s, const struct run *r, int32_t *out, int most);
bool sched_is_tap(const struct sched *s, const struct seq *q);
/* Frees the checkpoints, unless the pass uses some. Returns whether any was freed. */
bool sched_drop_taps(struct sched *s);
/* Records that a pass of n_rows rows, without prompts, took t seconds. */
void sched_measure_rows(struct sched *s, int64_t n_rows, double t);
/* ---- sched_disk.c ---- */

/* Loads the longest prefix of r's prompt from disk, if that saves time and there is memory for it
 * and `need` more bytes. */
void sched_from_shelf(struct sched *s, const struct run *r, uint64_t need);
/* Writes one shared prefix to disk, or the whole cache (all). Returns false if there is nothing to
 * write. */
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
