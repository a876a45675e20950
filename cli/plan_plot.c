// SPDX-License-Identifier: MIT
/* cli/plan_plot.c - the plot of hone plan: memory on the device by context, a line per cache type,
 * and what the card has. */
#include "cli/plan_plot.h"

#include <stdio.h>

#include "cli/plot.h"
#include "core/num.h"

enum { CONTEXTS_MAX = 48 }; /* doublings of int64_t */

int64_t plan_next_ctx(const struct sizes *z, int64_t ctx) {
    int64_t next = ctx ? ctx * 2 : 4096, trained = z->n_ctx_train;
    if (trained > 0 && ctx >= trained) return 0;
    if (ctx >= PLAN_CTX_MAX) return 0;
    return trained > 0 && next > trained ? trained : next;
}

int plan_plot(const struct cli *c, const struct sizes *z, const struct fit_ask *ask,
              const char *path, struct err *e) {
    static const struct {
        enum qtype type;
        const char *label;
    } line[] = {{QT_F16, "KV f16"}, {QT_Q8_0, "KV q8_0"}, {QT_Q4_0, "KV q4_0"}};
    static const struct plot_axes axes = {.title = "memory on the device by context",
                                          .x = "tokens of context per slot",
                                          .y = "GiB",
                                          .log_x = true,
                                          .log_y = true};
    struct plot_point p[(COUNT_OF(line) + 1) * CONTEXTS_MAX];
    char card[64];
    int n = 0;
    for (size_t k = 0; k < COUNT_OF(line); k++)
        for (int64_t ctx = 0; (ctx = plan_next_ctx(z, ctx)) != 0;) {
            struct fit_ask a = *ask;
            struct fit_use u;
            a.rows = (struct kv_rows){0};
            a.kv_type = line[k].type, a.n_ctx = ctx;
            if (!fit_use(z, &a, 0, 0, &u)) continue;
            p[n++] = (struct plot_point){.x = (double)ctx,
                                         .y = (double)u.total / 0x1p30,
                                         .series = (int)k,
                                         .label = line[k].label};
        }
    double room = ask->memory > ask->reserve ? (double)(ask->memory - ask->reserve) / 0x1p30 : 0;
    snprintf(card, sizeof card, "card: %.3g GiB", room);
    for (int64_t ctx = 0; ask->memory && (ctx = plan_next_ctx(z, ctx)) != 0;)
        p[n++] = (struct plot_point){
            .x = (double)ctx, .y = room, .series = (int)COUNT_OF(line), .label = card};
    return cli_plot(c, &axes, p, n, path, e);
}
