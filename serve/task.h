// SPDX-License-Identifier: MIT
/* serve/task.h - a request in the engine: the parsed request, its runs (one per choice) and the
 * answer so far. Owned by the preparing thread, then by the engine thread. */
#ifndef HONE_SERVE_TASK_H
#define HONE_SERVE_TASK_H

#include "runtime/engine/session.h"
#include "runtime/generate/constrain.h"
#include "serve/job.h"
#include "serve/prefix_cache.h"
#include "serve/reply.h"
#include "serve/stream_parser.h"

/* The constraint of an answer (constraint.h): grammars and their state. */
struct lang;
struct served;
struct constraint {
    struct constrain *c; /* NULL: unconstrained */
    struct lang *lang[2];
};
void guard_release(struct constraint *g);
enum { RUN_CUTS = 12, RUN_GUESSES = 3 };
enum guess_by { GUESS_LOOKUP, GUESS_MTP, GUESSES };
struct run_draft { /* speculative decoding of a run: sched_draft.c, sched_mtp.c */
    /* Draft of this pass: guess[0..n) follows all[0..at). tap: checkpoints before the guesses; NULL
     * if sequences can be trimmed. */
    int32_t guess[RUN_GUESSES];
    struct seq *tap[RUN_GUESSES];
    int n;
    int64_t at;
    enum guess_by by;
    int64_t n_tried;       /* drafted tokens so far */
    double right[GUESSES]; /* acceptance rate, running mean */
    struct seq *mtp;       /* sequence in the MTP block's session; NULL: not started */
    int32_t mtp_guess;
    int64_t mtp_at; /* index in `all` of the token that mtp_guess predicts; 0: no guess */
};
struct run {
    struct task *task;
    int choice;
    struct ids all; /* the prompt and the tokens drawn so far */
    int64_t n_prompt, n_cached,
        n_known; /* n_known: prefix shared with the cache tree; >= n_cached */
    struct {     /* positions for snapshots */
        int64_t at;
        enum prefix_cache_use use;
    } cut[RUN_CUTS];
    int n_cuts;
    struct constraint guard; /* zeros: none */
    struct ids force;        /* forced next tokens, to end thinking that is too long */
    int64_t n_forced;        /* forced tokens so far */
    /* Gets the raw logits that each token is drawn from; NULL: not needed. */
    void (*watch)(void *ud, const float *logits, int64_t n_vocab);
    /* Private to the scheduler. */
    struct seq *seq; /* NULL: waiting */
    struct sampler *sampler;
    struct parser *speak;
    struct tok_stream *stream; /* decoder state between tokens; NULL: none yet */
    int64_t n_promised;        /* tokens with reserved memory */
    int64_t n_echoed;          /* prompt tokens with known probability */
    struct run_draft draft;
    double t_ready; /* time at which the prompt was computed */
    double t_last;  /* time of the last token */
    uint64_t order; /* order of arrival */
    int trust;      /* cheap tokens of the grammar in a row, up to PROVEN; < 0: costly */
    bool rests;     /* costly: gets no token in this pass */
    bool ended;
};
struct task {
    struct job *job; /* reference held; NULL in tests */
    const struct api *api;
    struct ask ask;
    struct reply reply;
    struct run *run;           /* [reply.n_choices] */
    const struct toolfmt *fmt; /* NULL: text completions */
    enum tool_think think;
    const char *opened; /* the call marker at the end of the prompt; NULL: none */
    uint64_t key;
    double t_arrive, t_admitted, t_progress;
    int n_ended;
    int status;                         /* HTTP status if failed */
    bool admitted, failed, special;     /* special: write control tokens as text */
    struct buf out;                     /* in tests: the bytes that a job would get */
    struct served *from;                /* the loaded file; NULL in tests */
    void (*freed)(struct served *from); /* called by task_free; may be NULL */
    void *ud;                           /* of the caller of task_new */
    void (*done)(struct task *t);       /* called at the end; may be NULL */
    /* Called when a choice is complete but not yet sent to the client; may be NULL. */
    void (*ends)(struct task *t, const struct reply_choice *c);
    struct task *next;
};
/* Creates a task and takes ownership of a. There are n_prompts prompts; choice i answers prompt i /
 * ask.n. */
struct task *task_new(struct job *j, const struct api *api, struct ask *a, const struct ids *prompt,
                      int n_prompts);
void task_free(struct task *t);
/* Returns whether the client left. */
bool task_gone(const struct task *t);
/* Returns whether the client reads too slowly: more than 1 MiB is unread. */
bool task_full(const struct task *t);
/* Marks the answer of a job as streamed, so that the client gets pings while it waits. */
void task_will_stream(struct job *j, const struct api *api);
/* Records that a task waits in the queue; streaming clients get pings. */
void task_wait(struct task *t);
/* Records that the engine starts the task; n_cached: prompt tokens that need not be computed.
 * Begins the stream, if requested. */
void task_admit(struct task *t, int64_t n_cached);
/* Handles an event of a choice of the task ud; the sink of the stream parser. */
void task_event(void *ud, const struct event *ev);
/* Sends the progress of a run's prompt, `done` tokens, if requested; rate-limited. */
void task_progress(struct run *r, int64_t done);
/* Ends a choice, at the stop text `stop` if not NULL. The last choice completes the answer. */
void task_end_run(struct run *r, enum reply_end end, const char *stop);
/* Fails a task and tells the client. */
void task_fail(struct task *t, const struct fault *f);

#endif
