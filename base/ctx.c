// SPDX-License-Identifier: MIT
/* base/ctx.c - per-job contexts. The only global variable is the context of the process;
 * thread-local ones point to a thread's current context and cost budget. */
#include "base/ctx.h"

#include <stddef.h>

#include "base/limits.h"
#include "base/pool.h"

static struct ctx process = {.log.level = LOG_INFO, .ranks.n = 1};
/* The thread's context; NULL: the context of the process. */
static _Thread_local struct ctx *current;

/* The thread's shared cost budget; NULL: none. */
static _Thread_local struct ctx_cost *cost;

void ctx_init(struct ctx *c) {
    *c = (struct ctx){.log.level = LOG_INFO, .ranks.n = 1};
}

void ctx_release(struct ctx *c) {
    pool_free(c->pool);
    c->pool = NULL;
    buf_budget_drop(c->budget);
    c->budget = NULL;
}

struct ctx *ctx_current(void) {
    return current ? current : &process;
}

struct ctx *ctx_enter(struct ctx *c) {
    struct ctx *was = current;
    current = c;
    return was;
}

struct ctx_cost *ctx_cost(void) {
    return cost;
}

struct ctx_cost *ctx_cost_enter(struct ctx_cost *c) {
    struct ctx_cost *was = cost;
    cost = c;
    return was;
}

struct ctx *ctx_process(void) {
    return &process;
}

void ctx_interrupt(struct ctx *c) {
    atomic_store(&c->interrupted, true);
}

int ctx_team(struct ctx *c, int n_threads, struct err *e) {
    return c->pool ? 0 : pool_new(&c->pool, n_threads, e);
}
