// SPDX-License-Identifier: MIT
/* base/ctx.h - what belongs to one job and not to the process: where its messages and its progress
 * go, whether it was told to stop, what strangers' files may claim, its memory limit, its team of
 * threads and its rank among several processes.
 *
 * Two jobs of one process that have a context each share nothing that either of them changes. A
 * context reaches the code below in two ways. What computes is given it: struct cli has it, and
 * struct session_opts, whose sessions keep it. Everything else (a message from deep inside a
 * parser, the question whether to stop) asks for the context of the thread that runs it, which
 * ctx_enter sets where a thread's work begins. The pool hands the caller's context on to its
 * workers with every job, base/writer.h to its thread. docs/design/context.md says why.
 *
 * A thread that entered none has the context of the process, ctx_process(), which is the one of the
 * program `hone`. */
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

/* The job sets what is not atomic before it starts threads, and may not change it while they run.
 */
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
        int step_at, step_of; /* of a job of several steps; 0: none */
        double drawn_s;       /* when the last line was drawn; 0: none was */
        struct progress_job job;
    } prog;
    atomic_bool interrupted;          /* told to stop: ctx_interrupt */
    atomic_bool told_device;          /* runtime/engine/session.c has logged the device */
    atomic_bool starved;              /* an allocation was refused and took from the fund */
    const atomic_bool *stop;          /* stops the job too, borrowed; NULL: nothing else does */
    struct mem_fund *fund;            /* base/mem.h, borrowed; NULL: none */
    atomic_bool untrusted;            /* base/limits.h: the lower limits are in force */
    struct buf_budget *budget;        /* base/mem.c: what --max-memory leaves; NULL: no limit */
    _Atomic(const struct enc_lanes *) /* quantize/enc/search.c: the vectors that encoders use; */
        enc;                          /* NULL: the best of this machine */
    struct {                          /* base/ranks.h: this process is number `me` of `n` */
        int n, me;
    } ranks;
    struct pool *pool; /* the team, made by ctx_team; NULL: there is none yet */
};

/* Makes the context of a new job: default levels, messages to stderr, no limit, one rank, no team.
 */
void ctx_init(struct ctx *c);
/* Ends the team and gives back what the context owns; afterwards it is as after ctx_init, but that
 * sinks and levels stay. No thread may work for it any more. Buffers that were allocated under its
 * memory limit may outlive it. */
void ctx_release(struct ctx *c);

/* Returns the context that the calling thread works for; never NULL. */
struct ctx *ctx_current(void);
/* Lets the calling thread work for c from now on. Returns what to enter again when that work is
 * done; NULL means the context of the process. */
struct ctx *ctx_enter(struct ctx *c);
/* Returns the context of the process. It needs no ctx_init. */
struct ctx *ctx_process(void);

/* What work of a thread may cost, in steps that the work counts itself: compiling grammars,
 * rendering templates. */
struct ctx_cost {
    uint64_t most; /* steps; 0: what the work has as its limit */
    const atomic_bool
        *gone;            /* borrowed; true: the result is no longer wanted. NULL: always wanted */
    uint64_t spent, next; /* steps so far; where `gone` is looked at again */
    bool stopped;         /* by `gone`, or by an interruption of the job */
};
/* Returns what the calling thread's work may cost together; NULL: each piece has its own limit. */
struct ctx_cost *ctx_cost(void);
/* Lets what the calling thread does from now on share the cost c, which is borrowed; NULL: nothing.
 * Returns what it was before. */
struct ctx_cost *ctx_cost_enter(struct ctx_cost *c);

/* Tells the job to stop: progress_interrupted() is true for it from now on. Async-signal-safe. */
void ctx_interrupt(struct ctx *c);

/* Makes the team on the first call; n_threads as in pool_new. */
int ctx_team(struct ctx *c, int n_threads, struct err *e);

#endif
