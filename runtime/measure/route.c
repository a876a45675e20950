// SPDX-License-Identifier: MIT
/* runtime/measure/route.c - comparison of the experts that base and candidate choose. The base's
 * choices for one chunk of a window are stored (layers * piece * experts used, 4 bytes each); a
 * candidate's are compared as they are made. Experts are compared as sets: order and weights are
 * ignored. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "runtime/measure/internal.h"

/* Sorts n small numbers in ascending order. */
static void sort_set(int32_t *x, int64_t n) {
    for (int64_t i = 1; i < n; i++)
        for (int64_t k = i; k > 0 && x[k] < x[k - 1]; k--) {
            int32_t t = x[k];
            x[k] = x[k - 1];
            x[k - 1] = t;
        }
}

/* Counts the members of the sorted set a that are in b (any order). */
static int64_t common(const int32_t *a, const int32_t *b, int64_t n) {
    int64_t hit = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < n && a[k] <= b[i]; k++) hit += a[k] == b[i];
    return hit;
}

/* Returns the index of the MoE layer of a block; -1: the block has none. */
static int layer_at(const struct route_log *l, int block) {
    for (int i = 0; i < l->n_layers; i++)
        if (l->layer[i] == block) return i;
    return -1;
}

/* Keeps the base's choices, sorted, or compares a candidate's choices with them. */
static void see_choices(void *ud, const struct session_shown *r) {
    struct route_log *l = ud;
    const int i = layer_at(l, r->block);
    const int64_t n = r->n_used, at = r->pos - l->at;
    if (i < 0 || n != l->n_used[i] || at < 0 || at + r->n_rows > WINDOWS_PIECE) return;
    int32_t *base = l->base[i] + at * n;
    if (!l->to) {
        memcpy(base, r->chosen, (size_t)(r->n_rows * n) * sizeof *base);
        for (int64_t t = 0; t < r->n_rows; t++) sort_set(base + t * n, n);
        return;
    }
    struct eval_route *to = &l->to[i];
    for (int64_t t = 0; t < r->n_rows; t++) {
        const int64_t hit = common(base + t * n, r->chosen + t * n, n);
        to->n_tokens++;
        to->n_same += hit == n;
        to->n_chosen += n;
        to->n_common += hit;
    }
}

int route_init(struct route_log *l, const struct session *base, struct err *e) {
    const struct graph *g = &session_model(base)->graph;
    memset(l, 0, sizeof *l);
    const size_t n_moe = (size_t)graph_count(g, OP_MOE);
    l->layer = xcalloc(n_moe + 1, sizeof *l->layer);
    l->n_used = xcalloc(n_moe + 1, sizeof *l->n_used);
    l->base = xcalloc(n_moe + 1, sizeof *l->base);
    for (size_t i = 0; i < n_moe; i++) {
        const struct gr_node *n = graph_nth(g, OP_MOE, (int)i);
        void *p = NULL;
        TRY(mem_alloc(&p, (uint64_t)(WINDOWS_PIECE * n->moe.n_used) * sizeof(int32_t),
                      "expert choices", e));
        l->layer[l->n_layers] = n->layer;
        l->n_used[l->n_layers] = n->moe.n_used;
        l->base[l->n_layers++] = p;
    }
    return 0;
}

void route_release(struct route_log *l) {
    for (int i = 0; i < l->n_layers; i++) mem_free(l->base[i]);
    free(l->layer);
    free(l->n_used);
    free(l->base);
    memset(l, 0, sizeof *l);
}

int route_check(const struct route_log *l, const struct session *s, struct err *e) {
    const struct graph *g = &session_model(s)->graph;
    const int n = graph_count(g, OP_MOE);
    for (int i = 0; i < n; i++) {
        const struct gr_node *x = graph_nth(g, OP_MOE, i);
        int k = layer_at(l, x->layer);
        if (k < 0 || l->n_used[k] != x->moe.n_used)
            return err_set(e, ERR_DATA,
                           "%s: block %d chooses %" PRId64
                           " experts, the base's does not: leave --routing out",
                           gguf_path(session_model(s)->gguf), x->layer, x->moe.n_used);
    }
    if (n != l->n_layers)
        return err_set(e, ERR_DATA,
                       "%s has %d blocks with experts, the base has %d: leave --routing out",
                       gguf_path(session_model(s)->gguf), n, l->n_layers);
    return 0;
}

void route_watch(struct route_log *l, struct session *s, int64_t at, struct eval_route *to) {
    l->at = at;
    l->to = to;
    session_observe(s, &(struct session_probe){.ud = l, .route = see_choices});
}
