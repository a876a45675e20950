// SPDX-License-Identifier: MIT
/* serve/task.h - a request on its way through the engine: what is asked, its runs (one per choice),
 * the answer so far. Belongs to one thread at a time: whoever prepares it, then the engine's. */
#ifndef HONE_SERVE_TASK_H
#define HONE_SERVE_TASK_H

#include "runtime/engine/session.h"
#include "runtime/generate/constrain.h"
#include "serve/job.h"
#include "serve/prefix_cache.h"
#include "serve/reply.h"
#include "serve/stream_parser.h"

/* What holds an answer to a form (constraint.h): languages, and the place in them. */
struct lang;
struct served;
struct constraint {
    struct constrain *c; /* NULL: nothing */
    struct lang *lang[2];
};
void guard_release(struct constraint *g);
enum { RUN_CUTS = 12, RUN_GUESSES = 3 };
enum guess_by { GUESS_LOOKUP, GUESS_MTP, GUESSES };
struct run_draft { /* guesses of an answer's next tokens: sched_draft.c, sched_mtp.c */
    /* Of a pass: the tokens that follow all[0 .. at). tap: the states before them, NULL where
     * sequences can go back without. */
    int32_t guess[RUN_GUESSES];
    struct seq *tap[RUN_GUESSES];
    int n;
    int64_t at;
    enum guess_by by;
    int64_t n_tried;       /* guesses so far */
    double right[GUESSES]; /* share of guesses that were right, running mean */
    struct seq *mtp;       /* in the MTP block's session; NULL: it has seen nothing */
    int32_t mtp_guess;
    int64_t mtp_at; /* index in all of the token that mtp_guess is for; 0: there is no guess */
};
struct run {
    struct task *task;
    int choice;
    struct ids all;                      /* the prompt, and what was drawn since */
    int64_t n_prompt, n_cached, n_known; /* known: begins like something kept; n_cached or more */
    struct {                             /* where snapshots are taken */
        int64_t at;
        enum prefix_cache_use use;
    } cut[RUN_CUTS];
    int n_cuts;
    struct constraint guard; /* zeros: none */
    struct ids force; /* of the answer's next tokens, not drawn: the end of a thinking too long */
    int64_t n_forced; /* of them that came */
    /* sees the logits that each token is drawn from, as the model gave them; NULL: nobody looks */
    void (*watch)(void *ud, const float *logits, int64_t n_vocab);
    /* of the scheduler */
    struct seq *seq; /* NULL: it waits */
    struct sampler *sampler;
    struct parser *speak;
    struct tok_stream *stream; /* decoder state between tokens; NULL: none yet */
    int64_t n_promised;        /* tokens that there is memory for */
    int64_t n_echoed;          /* prompt tokens whose probability is known */
    struct run_draft draft;
    double t_ready; /* the prompt was computed */
    double t_last;  /* the last token came */
    uint64_t order; /* of arrival */
    int trust;      /* cheap tokens of the grammar, up to PROVEN; < 0: costly */
    bool rests;     /* gets no token in this pass (costly) */
    bool ended;
};
struct task {
    struct job *job; /* held; NULL in tests */
    const struct api *api;
    struct ask ask;
    struct reply reply;
    struct run *run;           /* [reply.n_choices] */
    const struct toolfmt *fmt; /* NULL: text completions */
    enum tool_think think;
    const char *opened; /* the marker of calls that the prompt ends with; NULL: none */
    uint64_t key;
    double t_arrive, t_admitted, t_progress;
    int n_ended;
    int status;                         /* of failed */
    bool admitted, failed, special;     /* special: control tokens are spelled out in the text */
    struct buf out;                     /* in tests, what a job would get */
    struct served *from;                /* the loaded file; NULL in tests */
    void (*freed)(struct served *from); /* called by task_free; may be NULL */
    void *ud;                           /* of the caller of task_new */
    void (*done)(struct task *t);       /* it has ended; NULL: nothing happens */
    /* A choice is complete, and its client does not know that yet; NULL: nothing happens. */
    void (*ends)(struct task *t, const struct reply_choice *c);
    struct task *next;
};
/* Makes a task of a request that was read; ask is taken over. prompt: one per choice group; choice
 * i answers prompt i / ask.n. */
struct task *task_new(struct job *j, const struct api *api, struct ask *a, const struct ids *prompt,
                      int n_prompts);
void task_free(struct task *t);
/* Tells whether the client left. */
bool task_gone(const struct task *t);
/* Tells whether the client reads too slowly: more than 1 MiB waits for it. */
bool task_full(const struct task *t);
/* Notes that the answer to a job will be streamed, so a client that waits long gets pings. */
void task_will_stream(struct job *j, const struct api *api);
/* Notes that a task waits in the queue: a client that waits long for its stream gets pings. */
void task_wait(struct task *t);
/* Notes that the engine begins with the task, of whose prompts n_cached tokens need not be
 * computed. Begins the stream where one is asked for. */
void task_admit(struct task *t, int64_t n_cached);
/* Takes an event of a choice of the task ud; this is the sink of speak. */
void task_event(void *ud, const struct event *ev);
/* Tells the client that `done` tokens of a run's prompt are computed: an event where the request
 * wants it, not too often. */
void task_progress(struct run *r, int64_t done);
/* Ends a choice, at the stop text `stop` where there is one; after the last choice the answer is
 * complete. */
void task_end_run(struct run *r, enum reply_end end, const char *stop);
/* Fails a task that cannot be answered, or not to the end, and tells the client. */
void task_fail(struct task *t, const struct fault *f);

#endif
