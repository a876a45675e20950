// SPDX-License-Identifier: MIT
/* base/ctx.h - per-job context: where messages and progress go, interrupt flag, limits for
 * untrusted files, memory limit, thread pool, and rank among several processes.
 *
 * Two jobs in one process, each with its own context, share no mutable state. A context reaches
 * lower code in two ways. Computations receive it as a parameter, from struct cli or struct
 * session_opts. All other code (messages from deep inside a parser, checks for interruption) uses
 * the context of the current thread, which ctx_enter sets where a thread's work begins. The pool
 * passes the caller's context to its workers with every job, and base/writer.h passes it to its
 * thread. docs/design/context.md gives the reasons.
 *
 * A thread that has not entered a context uses the context of the process, ctx_process(), as the
 * program `hone` does. */
#ifndef HONE_BASE_CTX_H
#define HONE_BASE_CTX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/log.h"
#include "base/progress.h"

struct buf_budget;
struct enc_lanes;
struct mem_fund;
struct pool;

/* The job sets the non-atomic fields before it starts threads and must not change them while
 * threads run. */
struct ctx {
    struct { /* base/log.h */
        atomic_int level, color, line_open;
        log_sink sink; /* NULL: stderr */
        void *sink_ud;
    } log;
    struct { /* base/progress.h */
        atomic_int mode;
        progress_sink sink; /* NULL: a line on stderr */
        void *sink_ud;
        int step_at, step_of; /* current step and number of steps; 0: single-step job */
        double drawn_s;       /* time of the last drawn line; 0: none yet */
        struct progress_job job;
    } prog;
    atomic_bool interrupted;          /* set by ctx_interrupt */
    atomic_bool told_device;          /* runtime/engine/session.c has logged the device */
    atomic_bool starved;              /* an allocation was served from the fund */
    const atomic_bool *stop;          /* second interrupt flag, borrowed; NULL: none */
    struct mem_fund *fund;            /* base/mem.h, borrowed; NULL: none */
    atomic_bool untrusted;            /* base/limits.h: the lower limits apply */
    struct buf_budget *budget;        /* base/mem.c: remainder of --max-memory; NULL: no limit */
    _Atomic(const struct enc_lanes *) /* quantize/enc/search.c: the vector code of encoders; */
        enc;                          /* NULL: the best for this machine */
    struct {                          /* base/ranks.h: this process is rank `me` of `n` */
        int n, me;
    } ranks;
    struct pool *pool; /* thread pool created by ctx_team; NULL: none yet */
};

/* Initializes the context of a new job: default levels, messages to stderr, no limit, one rank, no
 * thread pool. */
void ctx_init(struct ctx *c);
/* Ends the thread pool and frees what the context owns. Afterwards the context is in the state that
 * ctx_init creates, but keeps its sinks and levels. No thread may use it any more. Buffers
 * allocated under its memory limit may outlive it. */
void ctx_release(struct ctx *c);

/* Returns the calling thread's context; never NULL. */
struct ctx *ctx_current(void);
/* Makes c the calling thread's context. Returns the previous one; enter that again when the work is
 * done. NULL means the context of the process. */
struct ctx *ctx_enter(struct ctx *c);
/* Returns the context of the process, which needs no ctx_init. */
struct ctx *ctx_process(void);

/* Cost budget for a thread's work (compiling grammars, rendering templates). The working code
 * counts its own steps. */
struct ctx_cost {
    uint64_t most;           /* limit in steps; 0: the default of each kind of work */
    const atomic_bool *gone; /* borrowed; true: the result is no longer needed; NULL: never */
    uint64_t spent, next;    /* steps so far; number of steps at which `gone` is checked next */
    bool stopped;            /* stopped by `gone` or an interruption */
};
/* Returns the budget shared by all work of the calling thread; NULL: each piece of work has its own
 * limit. */
struct ctx_cost *ctx_cost(void);
/* Makes the calling thread's work share the budget c, which is borrowed; NULL: none. Returns the
 * previous one. */
struct ctx_cost *ctx_cost_enter(struct ctx_cost *c);

/* Requests that the job stop: progress_interrupted() returns true in its threads from then on.
 * Async-signal-safe. */
void ctx_interrupt(struct ctx *c);

/* Creates the thread pool on the first call; n_threads as in pool_new. */
int ctx_team(struct ctx *c, int n_threads, struct err *e);

#endif
