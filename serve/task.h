// SPDX-License-Identifier: MIT
/* serve/task.h - a task: the parsed request, its runs (one per choice) and the answer so far. The
 * preparing thread owns it first, then the engine thread. */
#ifndef HONE_SERVE_TASK_H
#define HONE_SERVE_TASK_H

#include "runtime/engine/session.h"
#include "runtime/generate/constrain.h"
#include "serve/job.h"
#include "serve/prefix_cache.h"
#include "serve/reply.h"
#include "serve/stream_parser.h"

/* The constraint of an answer (constraint.h), and the compiled grammars it uses. */
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
    /* Draft of this pass: guess[0..n), the tokens after all[0..at). tap: checkpoint before each of
     * them; NULL if sequences can be trimmed. */
    int32_t guess[RUN_GUESSES];
    struct seq *tap[RUN_GUESSES];
    int n;
    int64_t at;
    enum guess_by by;
    int64_t n_tried;       /* drafted tokens so far */
    double right[GUESSES]; /* acceptance rate, running mean */
    struct seq *mtp;       /* sequence in the drafter's session; NULL: not started */
    int32_t mtp_guess[RUN_GUESSES];
    int n_mtp;
    int64_t mtp_at; /* index in `all` for which mtp_guess[0] is the prediction; 0: no guess */
};
struct run {
    struct task *task;
    int choice;
    struct ids all; /* the prompt and the tokens drawn so far */
    int64_t n_prompt, n_cached,
        n_known; /* n_known: length of the prefix found in the cache; >= n_cached */
    struct {     /* positions at which to take snapshots */
        int64_t at;
        enum prefix_cache_use use;
    } cut[RUN_CUTS];
    int n_cuts;
    struct constraint guard; /* zeros: none */
    struct ids force;        /* next tokens, forced in order to end thinking that is too long */
    int64_t n_forced;        /* forced tokens so far */
    /* Receives the raw logits from which each token is drawn; NULL: not needed. */
    void (*watch)(void *ud, const float *logits, int64_t n_vocab);
    /* Private to the scheduler. */
    struct seq *seq; /* NULL: waiting */
    struct sampler *sampler;
    struct parser *speak;
    struct tok_stream *stream; /* decoder state between tokens; NULL: none yet */
    int64_t n_promised;        /* tokens with reserved memory */
    int64_t n_echoed;          /* prompt tokens whose probability has been computed */
    struct run_draft draft;
    double t_ready; /* time at which the prompt was computed */
    double t_last;  /* time of the last token */
    uint64_t order; /* order of arrival */
    int trust;      /* cheap constrained tokens in a row, up to PROVEN; < 0: the answer is costly */
    bool rests;     /* a costly answer that gets no token in this pass */
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
    struct buf out;                     /* in tests: the bytes that would be sent to a job */
    struct served *from;                /* the loaded file; NULL in tests */
    void (*freed)(struct served *from); /* called by task_free; may be NULL */
    void *ud;                           /* belongs to the caller of task_new */
    void (*done)(struct task *t);       /* called at the end; may be NULL */
    /* Called when a choice is complete, before that is sent to the client; may be NULL. */
    void (*ends)(struct task *t, const struct reply_choice *c);
    struct task *next;
};
/* Creates a task with n_prompts prompts, and takes ownership of a. Choice i answers prompt i /
 * ask.n. */
struct task *task_new(struct job *j, const struct api *api, struct ask *a, const struct ids *prompt,
                      int n_prompts);
/* Frees a task, which may be NULL, with its runs. */
void task_free(struct task *t);
/* Returns whether the client has left. */
bool task_gone(const struct task *t);
/* Returns whether the client reads too slowly: more than 1 MiB is unread. */
bool task_full(const struct task *t);
/* Marks the answer of a job as streamed, so that the client receives pings while it waits. */
void task_will_stream(struct job *j, const struct api *api);
/* Records that a task waits in the queue. Clients of streams receive pings. */
void task_wait(struct task *t);
/* Records that the engine starts the task; n_cached: prompt tokens found in the cache. Begins the
 * stream, if one was requested. */
void task_admit(struct task *t, int64_t n_cached);
/* Adds an event to the answer of the task ud and sends it. This is the sink of the stream
 * parsers. */
void task_event(void *ud, const struct event *ev);
/* Reports that `done` tokens of a run's prompt are computed, if the client requested progress.
 * Limits how often that is sent. */
void task_progress(struct run *r, int64_t done);
/* Ends a choice; stop: the stop text at which it ended, or NULL. The last choice to end completes
 * the answer. */
void task_end_run(struct run *r, enum reply_end end, const char *stop);
/* Fails a task and tells the client. */
void task_fail(struct task *t, const struct fault *f);

#endif
