// SPDX-License-Identifier: MIT
/* mix/sens_solve.c - search for the best type per group, given predicted losses: the solver's
 * table, two limits (file, GPU), and the weight of decode time. See docs/design/mix.md, "Solver"
 * and "Speed". */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "mix/sens.h"

enum { MAX_HOST = 2 }; /* groups in main memory whose choices are enumerated, at most */
struct table {
    const struct sens *s;
    const struct sens_ask *ask;
    struct mix_opt *opt;    /* [n_groups][QT_COUNT] options of each group */
    enum qtype *type;       /* types of these options, in the same order */
    struct mix_group *all;  /* [n_groups] groups with all their options */
    struct mix_group *part; /* groups passed to the solver; `which`: their indices in `all` */
    int *which, n_part;
    int host[MAX_HOST], n_host;
    int *pick; /* [n_groups] best choice so far */
    double objective, bound;
    bool found, exact;
};

/* Lists the permitted types of group i with their size and cost: the predicted loss plus `price`
 * per byte read per token. If no type remains, permits the types to avoid, then types below the
 * floors. */
static void list_options(struct table *t, int i, double price) {
    const struct sens *s = t->s;
    const struct sens_group *g = &s->group[i];
    double f = sens_factor(s, i, t->ask->budget);
    struct mix_group *mg = &t->all[i];
    mg->opt = t->opt + i * QT_COUNT;
    mg->n_opts = 0;
    for (int pass = 0; pass < 3 && !mg->n_opts; pass++)
        for (int k = 0; k < QT_COUNT; k++) {
            if (!g->can[k] || g->err[k] < 0) continue;
            if (pass < 1 && t->ask->avoid[k]) continue;
            if (pass < 2 && t->ask->floors && g->err[k] > 0 &&
                !sens_allowed(s, i, (enum qtype)k, t->ask->budget))
                continue;
            t->type[i * QT_COUNT + mg->n_opts] = (enum qtype)k;
            t->opt[i * QT_COUNT + mg->n_opts++] =
                (struct mix_opt){g->bytes[k], f * sens_loss(s, i, (enum qtype)k) +
                                                  price * g->read * (double)g->bytes[k]};
        }
}

/* Returns the bytes that the solver's groups take in their smallest permitted types. */
static uint64_t least_bytes(const struct table *t) {
    uint64_t sum = 0;
    for (int g = 0; g < t->n_part; g++) {
        uint64_t least = t->part[g].n_opts ? UINT64_MAX : 0;
        for (int i = 0; i < t->part[g].n_opts; i++)
            if (t->part[g].opt[i].bytes < least) least = t->part[g].opt[i].bytes;
        sum += least;
    }
    return sum;
}

/* Fails if the smallest permitted types together exceed the `room` in the file or on the card. */
static int check_room(const struct table *t, uint64_t room, bool on_card, struct err *e) {
    const uint64_t least = least_bytes(t);
    const char *const no_floors = !t->ask->floors ? ""
                                  : on_card       ? ", --no-floors"
                                                  : ", or --no-floors";
    if (least <= room) return 0;
    return err_set(e, ERR_USAGE,
                   "%s leaves %" PRIu64 " bytes for weights%s, but the smallest types allowed take "
                   "%" PRIu64 "; %s%s%s",
                   on_card ? "--vram" : "the budget", room, on_card ? " on the card" : "", least,
                   on_card ? "use a shorter --ctx" : "give a larger budget", no_floors,
                   on_card ? " or a smaller --kv-type" : "");
}

/* Solves for the remaining groups under the limits that the choice `host` for groups in main memory
 * leaves. Keeps the result if it is the best so far. */
static int try_host(struct table *t, const int *host, struct err *e) {
    const struct sens *s = t->s;
    struct mix_result r = {0};
    uint64_t host_bytes = 0, file = t->ask->tensor_bytes - s->kept_bytes;
    double fixed = 0;
    for (int h = 0; h < t->n_host; h++) {
        const struct mix_opt *o = &t->all[t->host[h]].opt[host[h]];
        host_bytes += o->bytes;
        fixed += o->loss;
    }
    if (host_bytes > file) return err_set(e, ERR_USAGE, "the budget is too small");
    uint64_t limit = file - host_bytes;
    if (t->ask->device_bytes) {
        if (t->ask->device_bytes < s->kept_bytes)
            return err_set(e, ERR_USAGE,
                           "no room is left on the device for tensors that are never quantized");
        uint64_t device = t->ask->device_bytes - s->kept_bytes;
        TRY(check_room(t, device, true, e));
        if (device < limit) limit = device;
    }
    TRY(check_room(t, limit, false, e));
    TRY(mix_solve(&r, t->part, t->n_part, limit, e));
    t->bound = t->found ? fmin(t->bound, r.bound + fixed) : r.bound + fixed;
    t->exact = (t->exact || !t->found) && r.exact;
    if (!t->found || r.loss + fixed < t->objective) {
        t->objective = r.loss + fixed;
        for (int k = 0; k < t->n_part; k++) t->pick[t->which[k]] = r.pick[k];
        for (int h = 0; h < t->n_host; h++) t->pick[t->host[h]] = host[h];
    }
    t->found = true;
    mix_release(&r);
    return 0;
}

/* Finds the best mix if decoding costs `price`. t->found: whether there is one. */
static int solve_at(struct table *t, double price, struct sens_mix *m, struct err *e) {
    const struct sens *s = t->s;
    int host[MAX_HOST] = {0}, rc = 0;
    t->found = t->exact = false;
    for (int i = 0; i < s->n_groups; i++) list_options(t, i, price);
    t->n_part = t->n_host = 0;
    for (int i = 0; i < s->n_groups; i++) {
        if (t->ask->device_bytes && s->group[i].host && t->n_host < MAX_HOST) {
            t->host[t->n_host++] = i;
        } else {
            t->which[t->n_part] = i;
            t->part[t->n_part++] = t->all[i];
        }
    }
    for (;;) { /* all combinations */
        int h = 0;
        rc = try_host(t, host, e);
        while (h < t->n_host && ++host[h] == t->all[t->host[h]].n_opts) host[h++] = 0;
        if (h == t->n_host) break;
    }
    if (!t->found) return rc; /* the error of the last attempt */
    m->bytes = s->kept_bytes;
    m->device_bytes = s->kept_bytes;
    m->decode_bytes = s->kept_read;
    m->loss = 0;
    m->price = price;
    m->gap = fmax(0, t->objective - t->bound);
    m->exact = t->exact;
    for (int i = 0; i < s->n_groups; i++) {
        const struct sens_group *g = &s->group[i];
        enum qtype k = t->type[i * QT_COUNT + t->pick[i]];
        m->type[i] = k;
        m->bytes += g->bytes[k];
        if (!g->host) m->device_bytes += g->bytes[k];
        m->decode_bytes += g->read * (double)g->bytes[k];
        m->loss += sens_factor(s, i, t->ask->budget) * sens_loss(s, i, k);
    }
    return 0;
}

int sens_solve(const struct sens *s, const struct sens_ask *ask, struct sens_mix *m,
               struct err *e) {
    size_t n = (size_t)s->n_groups;
    memset(m, 0, sizeof *m);
    if (s->kept_bytes > ask->tensor_bytes)
        return err_set(e, ERR_USAGE,
                       "the budget is smaller than the tensors that are never quantized");
    struct table t = {.s = s, .ask = ask};
    t.opt = xcalloc(n * QT_COUNT, sizeof *t.opt);
    t.type = xcalloc(n * QT_COUNT, sizeof *t.type);
    t.all = xcalloc(n + 1, sizeof *t.all);
    t.part = xcalloc(n + 1, sizeof *t.part);
    t.which = xcalloc(n + 1, sizeof *t.which);
    t.pick = xcalloc(n + 1, sizeof *t.pick);
    m->type = xcalloc(n + 1, sizeof *m->type);
    int rc = solve_at(&t, 0, m, e);
    if (!rc && ask->speed > 0 && m->decode_bytes > 0)
        rc = solve_at(&t, ask->speed * m->loss / m->decode_bytes, m, e);
    free(t.opt);
    free(t.type);
    free(t.all);
    free(t.part);
    free(t.which);
    free(t.pick);
    if (rc) sens_mix_release(m);
    return rc;
}

void sens_mix_release(struct sens_mix *m) {
    free(m->type);
    memset(m, 0, sizeof *m);
}
