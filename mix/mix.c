// SPDX-License-Identifier: MIT
/* mix/mix.c - exact solver of the multiple-choice knapsack problem.
 *
 * 1. Lagrangian: for a price per byte, each group takes argmin(loss + price * bytes). Bisection on
 * the price gives the bound and, on its feasible side, a first solution. 2. Exact: at the best
 * price, an option's reduced cost, which is >= 0, is its loss above the bound. In a solution better
 * than bound + slack, the reduced costs of the options sum to less than slack. Groups are added one
 * by one to a list of states (bytes, loss) sorted by bytes; a state is dropped if another is no
 * larger and no worse, or if its reduced costs reach the slack. Slack grows from a small value
 * until a solution is within it; that solution is optimal.
 *
 * The lists stay short because the gap is tiny if there are many groups. If they do not, states are
 * thinned (the best in each byte range is kept), and the result is not marked exact. */
#include "mix/mix.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { MAX_LIST = 200000, MAX_NODES = 24000000 };

struct state { /* the options chosen for the groups so far */
    uint64_t bytes;
    double loss;
    double reduced;
    int32_t node; /* index in trail; -1: none */
};
struct node {
    int32_t parent;
    uint8_t opt;
};
struct solver {
    const struct mix_group *group;
    int n;
    uint64_t budget;
    double price, bound;
    int *order;      /* groups in search order, widest first */
    double *best;    /* [n] minimum of loss + price * bytes for each group */
    uint64_t *least; /* [n + 1] minimum of the total bytes of groups order[i..] */
    struct state *cur, *next, *tmp;
    int64_t n_cur, n_next;
    struct node *trail;
    int64_t n_trail, cap_trail, n_states;
    bool thinned;
};

/* Returns the option's loss plus the price of its bytes. */
static double priced(const struct mix_opt *o, double price) {
    return o->loss + price * (double)o->bytes;
}

/* Picks for every group the option with the least priced loss; ties go to fewer bytes. Returns the
 * sum of the priced losses. */
static double choose_at(const struct solver *s, double price, int *pick, uint64_t *bytes) {
    double sum = 0;
    *bytes = 0;
    for (int g = 0; g < s->n; g++) {
        const struct mix_group *gr = &s->group[g];
        int k = 0;
        for (int i = 1; i < gr->n_opts; i++) {
            double a = priced(&gr->opt[i], price), b = priced(&gr->opt[k], price);
            if (a < b || (a <= b && gr->opt[i].bytes < gr->opt[k].bytes)) k = i;
        }
        pick[g] = k;
        sum += priced(&gr->opt[k], price);
        *bytes += gr->opt[k].bytes;
    }
    return sum;
}

/* Finds the price that gives the highest bound; the bound is concave in the price. `feasible`
 * receives a choice that fits. */
static void find_price(struct solver *s, int *pick, int *feasible) {
    uint64_t bytes;
    double lo = 0, hi = 1e-30, sum = choose_at(s, 0, pick, &bytes);
    s->bound = sum;
    s->price = 0;
    memcpy(feasible, pick, (size_t)s->n * sizeof *pick);
    if (bytes <= s->budget) return;
    for (;; hi *= 4) {
        choose_at(s, hi, feasible, &bytes);
        if (bytes <= s->budget || hi > 1e30) break;
    }
    for (int it = 0; it < 200 && hi - lo > 1e-15 * hi; it++) {
        double mid = 0.5 * (lo + hi);
        sum = choose_at(s, mid, pick, &bytes);
        double bound = sum - mid * (double)s->budget;
        if (bound > s->bound) {
            s->bound = bound;
            s->price = mid;
        }
        if (bytes > s->budget) {
            lo = mid;
        } else {
            hi = mid;
            memcpy(feasible, pick, (size_t)s->n * sizeof *pick);
        }
    }
}

/* Returns the total loss of the picked options; *bytes: their total size. */
static double total(const struct solver *s, const int *pick, uint64_t *bytes) {
    double loss = 0;
    *bytes = 0;
    for (int g = 0; g < s->n; g++) {
        loss += s->group[g].opt[pick[g]].loss;
        *bytes += s->group[g].opt[pick[g]].bytes;
    }
    return loss;
}

/* Spends the bytes that a feasible choice leaves over: repeatedly applies the largest gain that
 * fits. */
static void fill(const struct solver *s, int *pick) {
    for (int round = 0; round < 8 * s->n; round++) {
        uint64_t used;
        double best = 0;
        int bg = -1, bo = 0;
        total(s, pick, &used);
        for (int g = 0; g < s->n; g++) {
            const struct mix_opt *at = &s->group[g].opt[pick[g]];
            for (int i = 0; i < s->group[g].n_opts; i++) {
                const struct mix_opt *o = &s->group[g].opt[i];
                if (at->loss - o->loss <= best || used - at->bytes + o->bytes > s->budget) continue;
                best = at->loss - o->loss;
                bg = g;
                bo = i;
            }
        }
        if (bg < 0) return;
        pick[bg] = bo;
    }
}

/* ---- lists of states ------------------------------------------------------------------------- */

/* Records choice `opt` after `parent` and sets *out to its index. False: MAX_NODES are in use. */
static bool add_node(struct solver *s, int32_t parent, int opt, int32_t *out) {
    if (s->n_trail == MAX_NODES) return false;
    if (s->n_trail == s->cap_trail) {
        s->cap_trail = s->cap_trail ? 2 * s->cap_trail : 4096;
        s->trail = xreallocarray(s->trail, (size_t)s->cap_trail, sizeof *s->trail);
    }
    s->trail[s->n_trail] = (struct node){parent, (uint8_t)opt};
    *out = (int32_t)s->n_trail++;
    return true;
}

/* Keeps only the state with the least reduced cost in each of MAX_LIST / 2 equal byte ranges. */
static void thin(struct solver *s) {
    uint64_t first = s->next[0].bytes, last = s->next[s->n_next - 1].bytes;
    double per = (double)(last - first + 1) / (MAX_LIST / 2);
    int64_t n = 0, slot = -1;
    for (int64_t i = 0; i < s->n_next; i++) {
        int64_t at = (int64_t)((double)(s->next[i].bytes - first) / per);
        if (at != slot)
            s->next[n++] = s->next[i];
        else if (s->next[i].reduced < s->next[n - 1].reduced)
            s->next[n - 1] = s->next[i];
        slot = at;
    }
    s->n_next = n;
    s->thinned = true;
}

/* Merges `from` into `next`, both sorted by bytes. Dominated states are dropped. */
static void merge(struct solver *s, const struct state *from, int64_t n_from) {
    int64_t i = 0, j = 0, n = 0;
    double least = HUGE_VAL;
    while (i < s->n_next || j < n_from) {
        const struct state *a = i < s->n_next ? &s->next[i] : NULL;
        const struct state *b = j < n_from ? &from[j] : NULL;
        bool take_a =
            a && (!b || a->bytes < b->bytes || (a->bytes == b->bytes && a->loss <= b->loss));
        const struct state *t = take_a ? a : b;
        if (take_a)
            i++;
        else
            j++;
        if (t->loss >= least) continue;
        least = t->loss;
        s->tmp[n++] = *t;
    }
    struct state *swap = s->next;
    s->next = s->tmp;
    s->tmp = swap;
    s->n_next = n;
    if (n > MAX_LIST) thin(s);
}

/* Extends all states by the options of one more group. Until the list is final, a new state uses
 * the node of its parent. False: no state remains. */
static bool extend(struct solver *s, int at, double slack, struct state *part) {
    const struct mix_group *gr = &s->group[s->order[at]];
    s->n_next = 0;
    for (int k = 0; k < gr->n_opts; k++) {
        double extra = priced(&gr->opt[k], s->price) - s->best[s->order[at]];
        int64_t n = 0;
        if (extra >= slack) continue;
        for (int64_t i = 0; i < s->n_cur; i++) {
            const struct state *c = &s->cur[i];
            uint64_t bytes = c->bytes + gr->opt[k].bytes;
            if (bytes + s->least[at + 1] > s->budget) break;
            if (c->reduced + extra >= slack) continue;
            part[n] = *c;
            part[n].bytes = bytes;
            part[n].loss += gr->opt[k].loss;
            part[n].reduced += extra;
            /* The option is stored in the top bits, above the index, which is less than 2^25. */
            part[n].node = (int32_t)((uint32_t)(c->node + 1) | (uint32_t)k << 25);
            n++;
        }
        merge(s, part, n);
    }
    for (int64_t i = 0; i < s->n_next; i++) {
        uint32_t v = (uint32_t)s->next[i].node;
        if (!add_node(s, (int32_t)(v & 0x1ffffff) - 1, (int)(v >> 25), &s->next[i].node)) {
            s->n_next = i;
            s->thinned = true;
            break;
        }
    }
    s->n_states += s->n_next;
    struct state *swap = s->cur;
    s->cur = s->next;
    s->next = swap;
    s->n_cur = s->n_next;
    return s->n_cur > 0;
}

/* Searches all choices whose reduced costs sum to less than slack. Returns whether any of them
 * fits, and the best of them in `pick`. */
static bool search(struct solver *s, double slack, int *pick, struct state *part) {
    s->n_trail = 0;
    s->cur[0] = (struct state){.node = -1};
    s->n_cur = 1;
    for (int at = 0; at < s->n; at++)
        if (!extend(s, at, slack, part)) return false;
    /* States are sorted by bytes, so the last one has the least loss. */
    const struct state *best = &s->cur[s->n_cur - 1];
    int32_t node = best->node;
    for (int at = s->n - 1; at >= 0; at--) {
        pick[s->order[at]] = s->trail[node].opt;
        node = s->trail[node].parent;
    }
    return true;
}

/* ---- the solver
 * ------------------------------------------------------------------------------- */

/* Returns the difference in size between the group's largest and smallest option. */
static uint64_t width(const struct mix_group *g) {
    uint64_t lo = UINT64_MAX, hi = 0;
    for (int i = 0; i < g->n_opts; i++) {
        if (g->opt[i].bytes < lo) lo = g->opt[i].bytes;
        if (g->opt[i].bytes > hi) hi = g->opt[i].bytes;
    }
    return hi - lo;
}

/* Returns the size of the group's smallest option. */
static uint64_t smallest(const struct mix_group *g) {
    uint64_t lo = UINT64_MAX;
    for (int i = 0; i < g->n_opts; i++)
        if (g->opt[i].bytes < lo) lo = g->opt[i].bytes;
    return lo;
}

/* Orders the groups and, for each, sums the smallest sizes of it and all later groups. */
static void prepare(struct solver *s) {
    s->order = xcalloc((size_t)s->n + 1, sizeof *s->order);
    s->best = xcalloc((size_t)s->n + 1, sizeof *s->best);
    s->least = xcalloc((size_t)s->n + 2, sizeof *s->least);
    /* Insertion sort by decreasing width; there are only a few hundred groups. */
    for (int g = 0; g < s->n; g++) {
        int at = g;
        while (at > 0 && width(&s->group[s->order[at - 1]]) < width(&s->group[g])) {
            s->order[at] = s->order[at - 1];
            at--;
        }
        s->order[at] = g;
    }
    for (int at = s->n - 1; at >= 0; at--)
        s->least[at] = s->least[at + 1] + smallest(&s->group[s->order[at]]);
}

/* Searches for the best mix by dynamic programming; r->exact: the result is proven to be the
 * best. */
static void exact(struct solver *s, struct mix_result *r) {
    size_t cap = 2 * (size_t)MAX_LIST * 1 + 2;
    struct state *part = xreallocarray(NULL, cap, sizeof *part);
    int *pick = xcalloc((size_t)s->n + 1, sizeof *pick);
    s->cur = xreallocarray(NULL, cap, sizeof *s->cur);
    s->next = xreallocarray(NULL, cap, sizeof *s->next);
    s->tmp = xreallocarray(NULL, cap, sizeof *s->tmp);
    for (int g = 0; g < s->n; g++) {
        s->best[g] = HUGE_VAL;
        for (int i = 0; i < s->group[g].n_opts; i++)
            s->best[g] = fmin(s->best[g], priced(&s->group[g].opt[i], s->price));
    }
    double gap = r->loss - s->bound, eps = 1e-12 * fabs(r->loss);
    for (double slack = fmax(gap / 64, eps);; slack *= 2) {
        if (slack > gap) slack = gap * (1 + 1e-9) + eps;
        s->thinned = false;
        bool found = search(s, slack, pick, part);
        uint64_t bytes = 0;
        double loss = found ? total(s, pick, &bytes) : HUGE_VAL;
        bool better = found && (loss < r->loss || (loss <= r->loss && bytes < r->bytes));
        if (better) {
            memcpy(r->pick, pick, (size_t)s->n * sizeof *pick);
            r->loss = loss;
            r->bytes = bytes;
        }
        /* Every choice with a loss below bound + slack has been considered. */
        r->exact = !s->thinned && (r->loss <= s->bound + slack || slack >= gap);
        if (r->exact || slack >= gap || s->thinned) break;
    }
    free(part);
    free(pick);
}

/* Fails if an option is unusable, or if even the smallest options together exceed the budget. */
static int check(const struct mix_group *group, int n, uint64_t budget, struct err *e) {
    uint64_t least = 0;
    for (int g = 0; g < n; g++) {
        if (group[g].n_opts < 1 || group[g].n_opts > MIX_MAX_OPTS)
            return err_set(e, ERR_USAGE, "group %d of the mix has %d options", g, group[g].n_opts);
        for (int i = 0; i < group[g].n_opts; i++)
            if (!isfinite(group[g].opt[i].loss) || group[g].opt[i].loss < 0 ||
                group[g].opt[i].bytes > (UINT64_MAX >> 16))
                return err_set(e, ERR_DATA, "option %d of group %d of the mix has no usable loss",
                               i, g);
        least += smallest(&group[g]);
    }
    if (least > budget)
        return err_set(e, ERR_USAGE,
                       "the smallest choices take %" PRIu64 " bytes, more than %" PRIu64, least,
                       budget);
    return 0;
}

int mix_solve(struct mix_result *r, const struct mix_group *group, int n_groups, uint64_t budget,
              struct err *e) {
    struct solver s = {.group = group, .n = n_groups, .budget = budget};
    memset(r, 0, sizeof *r);
    TRY(check(group, n_groups, budget, e));
    r->pick = xcalloc((size_t)n_groups + 1, sizeof *r->pick);
    int *pick = xcalloc((size_t)n_groups + 1, sizeof *pick);
    prepare(&s);
    find_price(&s, pick, r->pick);
    fill(&s, r->pick);
    r->loss = total(&s, r->pick, &r->bytes);
    exact(&s, r);
    r->bound = fmin(s.bound, r->loss);
    r->gap = r->loss - r->bound;
    r->n_states = s.n_states;
    free(pick);
    free(s.order);
    free(s.best);
    free(s.least);
    free(s.cur);
    free(s.next);
    free(s.tmp);
    free(s.trail);
    return 0;
}

void mix_release(struct mix_result *r) {
    free(r->pick);
    memset(r, 0, sizeof *r);
}
