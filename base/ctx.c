// SPDX-License-Identifier: MIT
/* base/ctx.c - see ctx.h. The only variable of the process is its own context; the only one of a
 * thread are the pointers to the context that it works for and to what its work may cost. */
#include "base/ctx.h"

#include <stddef.h>

#include "base/limits.h"
#include "base/pool.h"

static struct ctx process = {.log.level = LOG_INFO, .ranks.n = 1};
/* The context that this thread works for; NULL: that of the process. */
static _Thread_local struct ctx *current;

/* What its work may cost; NULL: nothing is shared. */
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
