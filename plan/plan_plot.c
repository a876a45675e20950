// SPDX-License-Identifier: MIT
/* plan/plan_plot.c - plot of hone plan: device memory against context, one line per cache type, and
 * the card's memory. */
#include "plan/plan_plot.h"

#include <stdio.h>

#include "work/plot.h"
#include "base/num.h"
#include "runtime/engine/kv_type.h"

/* Upper bound on the number of doublings of an int64_t. */
enum { CONTEXTS_MAX = 48, LINES_MAX = 8 /* number of cache types shown */ };

int64_t plan_next_ctx(const struct sizes *z, int64_t planned, int64_t ctx) {
    const int64_t trained = z->n_ctx_train > 0 ? z->n_ctx_train : PLAN_CTX_MAX;
    int64_t next = ctx < PLAN_CTX_MAX ? (ctx ? ctx * 2 : 4096) : INT64_MAX;
    if (ctx < trained) next = min_i64(next, trained);
    if (ctx < planned) next = min_i64(next, planned);
    return next <= max_i64(trained, planned) ? next : 0;
}

int plan_plot(const struct work *w, const struct sizes *z, const struct fit_ask *ask,
              const char *path, struct err *e) {
    static const struct plot_axes axes = {.title = "memory on the device by context",
                                          .x = "tokens of context per slot",
                                          .y = "GiB",
                                          .log_x = true,
                                          .log_y = true};
    struct plot_point p[(LINES_MAX + 1) * CONTEXTS_MAX];
    char card[64], label[LINES_MAX][40];
    int n = 0, n_lines = 0;
    for (int i = 0; kv_type_at(i) && n_lines < LINES_MAX; i++) {
        const struct kv_type *t = kv_type_at(i);
        if (!(t->flags & KV_SHOWN)) continue;
        snprintf(label[n_lines], sizeof *label, "KV %s", t->name);
        for (int64_t ctx = 0; (ctx = plan_next_ctx(z, ask->n_ctx, ctx)) != 0;) {
            struct fit_ask a = *ask;
            struct fit_use u;
            a.rows = (struct kv_rows){0};
            a.kv_type = t->type, a.n_ctx = ctx;
            if (!fit_use(z, &a, 0, 0, &u)) continue;
            p[n++] = (struct plot_point){.x = (double)ctx,
                                         .y = (double)u.total / 0x1p30,
                                         .series = n_lines,
                                         .label = label[n_lines]};
        }
        n_lines++;
    }
    double room = ask->memory > ask->reserve ? (double)(ask->memory - ask->reserve) / 0x1p30 : 0;
    snprintf(card, sizeof card, "card: %.3g GiB", room);
    for (int64_t ctx = 0; ask->memory && (ctx = plan_next_ctx(z, ask->n_ctx, ctx)) != 0;)
        p[n++] = (struct plot_point){.x = (double)ctx, .y = room, .series = n_lines, .label = card};
    return plot_write(w, &axes, p, n, path, e);
}
