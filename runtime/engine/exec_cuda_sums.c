// SPDX-License-Identifier: MIT
/* runtime/engine/exec_cuda_sums.c - calibration on the device: sums of squares of what enters each
 * product stay there. Rows for an observer would be gigabytes per chunk, sorted by expert and
 * summed by one thread. Device memory: 16 bytes per column of each product and expert (gate and up
 * of experts share theirs), sums of the chunk and of all. */
#include <stdlib.h>

#include "core/mem.h"
#include "core/num.h"
#include "runtime/engine/exec_cuda.h"

struct sum {
    gr_w w;
    int64_t n_mat, k;
    int64_t at; /* doubles: n_mat * k sums, n_mat numbers of rows */
};
struct cuda_sums {
    struct sum *of; /* in the order in which a pass shows them */
    int n;
    int64_t n_doubles, n_pairs, n_experts;
    struct cu_buf *buf;
    double *part, *all;
    int32_t *count, *first, *place, *order; /* cu_sort_pairs */
};

static struct cuda *dev(const struct session *s) {
    return s->dev;
}

static void add(struct session *s, gr_w w, int64_t n_mat, gr_w like) {
    struct cuda_sums *m = dev(s)->sums;
    if (w == GR_NONE) return;
    struct sum new = {w, n_mat, s->g->weight[w].ne[0], m->n_doubles};
    for (int i = 0; i < m->n; i++) {
        if (m->of[i].w == w) return;
        if (m->of[i].w == like) new.at = m->of[i].at;
    }
    m->of[m->n++] = new;
    if (new.at == m->n_doubles) m->n_doubles += n_mat * (new.k + 1);
}

static void find_products(struct session *s) {
    struct cuda_sums *m = dev(s)->sums;
    for (int i = 0; i < s->g->facts.n_uses; i++) {
        const struct gr_use *u = &s->g->facts.use[i];
        const struct gr_node *n = &s->g->node[u->node];
        if (!gr_roles[u->role].observed) continue;
        const int64_t n_mat = gr_roles[u->role].expert ? s->g->weight[n->moe.router].ne[1] : 1;
        add(s, u->w, n_mat, u->role == USE_EXP_UP ? n->moe.gate : GR_NONE);
        if (u->role != USE_ROUTER) continue;
        m->n_pairs = max_i64(m->n_pairs, s->o.n_ubatch * n->moe.n_used);
        m->n_experts = max_i64(m->n_experts, s->g->weight[u->w].ne[1]);
    }
}

bool exec_cuda_can_sum(const struct session *s) {
    /* the CPU would see those, and heads have inputs of their own; of several parts each would
     * have sums of its own */
    return dev(s)->all->n_on_host == 0 && dev(s)->all->n == 1 &&
           graph_count(s->g, OP_MATMUL_HEADS) == 0;
}

int exec_cuda_sum_begin(struct session *s, struct err *e) {
    struct cuda *d = dev(s);
    struct cuda_sums *m = d->sums = xcalloc(1, sizeof *m);
    m->of = xcalloc((size_t)s->g->n_weights + 1, sizeof *m->of);
    find_products(s);
    const int64_t ints = 2 * (m->n_experts + 1) + 2 * m->n_pairs;
    const uint64_t bytes = 2 * (uint64_t)m->n_doubles * sizeof(double);
    const uint64_t all = bytes + (uint64_t)ints * sizeof(int32_t), most = dev(s)->most;
    int rc = 0;
    if (most && session_bytes(s) + all > most)
        rc = err_set(e, ERR_SYS, "sums of importance need %llu MiB more than --max-vram leaves",
                     (unsigned long long)((session_bytes(s) + all - most) >> 20));
    if (!rc) rc = cu_buf_new(&m->buf, d->ctx, all, "sums of importance", e);
    if (!rc) rc = cu_fill(d->q, cu_buf_ptr(m->buf), 0, bytes, e);
    if (rc) {
        exec_cuda_sum_free(s);
        return rc;
    }
    m->part = cu_buf_ptr(m->buf);
    m->all = m->part + m->n_doubles;
    m->count = (int32_t *)(void *)(m->all + m->n_doubles);
    m->first = m->count + m->n_experts + 1;
    m->place = m->first + m->n_experts + 1;
    m->order = m->place + m->n_pairs;
    return 0;
}

void exec_cuda_sum_free(struct session *s) {
    struct cuda_sums *m = dev(s)->sums;
    if (!m) return;
    cu_buf_free(m->buf);
    free(m->of);
    free(m);
    dev(s)->sums = NULL;
}

static const struct sum *sum_of(const struct session *s, gr_w w) {
    const struct cuda_sums *m = dev(s)->sums;
    int i = 0;
    while (m->of[i].w != w) i++;
    return &m->of[i];
}

/* Segment i of the pass is summed: a chunk is complete, unless it is the last one. */
static int end_segment(struct session *s, const struct sum *of, int i, struct err *e) {
    const struct cuda_sums *m = dev(s)->sums;
    if (i == s->n_segs - 1) return 0;
    return cu_move_sums(dev(s)->q, m->part + of->at, m->all + of->at, of->n_mat * (of->k + 1), e);
}

int exec_cuda_sum(struct session *s, gr_w w, const float *x, int64_t n_rows, int64_t ld,
                  struct err *e) {
    const struct sum *of = sum_of(s, w);
    double *part = dev(s)->sums->part + of->at;
    if (n_rows != s->n_tok) return cu_column_sums(dev(s)->q, x, n_rows, ld, of->k, part, e);
    for (int i = 0; i < s->n_segs; i++) {
        const struct seg *g = &s->seg[i];
        TRY(cu_column_sums(dev(s)->q, x + g->r0 * ld, g->n, ld, of->k, part, e));
        TRY(end_segment(s, of, i, e));
    }
    return 0;
}

int exec_cuda_sum_pairs(struct session *s, gr_w w, const float *x, int64_t n_used,
                        int64_t n_experts, int64_t per_row, int64_t ld, struct err *e) {
    const struct cuda_sums *m = dev(s)->sums;
    const struct sum *of = sum_of(s, w);
    for (int i = 0; i < s->n_segs; i++) {
        const int64_t first = s->seg[i].r0 * n_used, n = s->seg[i].n * n_used;
        TRY(cu_sort_pairs(dev(s)->q, dev(s)->expert + first, n, n_experts, m->count, m->first,
                          m->place, m->order, e));
        TRY(cu_expert_sums(dev(s)->q, x + first / per_row * ld, per_row, ld, of->k, m->first,
                           m->order, of->n_mat, m->part + of->at, e));
        TRY(end_segment(s, of, i, e));
    }
    return 0;
}

int exec_cuda_sum_chunk(struct session *s, struct err *e) {
    const struct cuda_sums *m = dev(s)->sums;
    return cu_move_sums(dev(s)->q, m->part, m->all, m->n_doubles, e);
}

int exec_cuda_sum_save(struct session *s, session_sum_fn fn, void *ud, struct err *e) {
    const struct cuda_sums *m = dev(s)->sums;
    int rc = 0;
    for (int i = 0; i < m->n && !rc; i++) {
        const struct sum *of = &m->of[i];
        const uint64_t n = (uint64_t)(of->n_mat * (of->k + 1));
        void *p = NULL;
        rc = mem_alloc(&p, n * sizeof(double), "sums of importance", e);
        if (!rc) rc = cu_download(dev(s)->q, p, m->all + of->at, n * sizeof(double), e);
        if (!rc) rc = cu_sync(dev(s)->q, e);
        const double *sum = p;
        if (!rc) fn(ud, &s->g->weight[of->w], of->n_mat, sum, sum + of->n_mat * of->k);
        mem_free(p);
    }
    return rc;
}

int exec_cuda_sum_load(struct session *s, session_sum_give fn, void *ud, struct err *e) {
    const struct cuda_sums *m = dev(s)->sums;
    int rc = 0;
    for (int i = 0; i < m->n && !rc; i++) {
        const struct sum *of = &m->of[i];
        const uint64_t n = (uint64_t)(of->n_mat * (of->k + 1));
        void *p = NULL;
        rc = mem_alloc(&p, n * sizeof(double), "sums of importance", e);
        double *sum = p;
        if (!rc && !fn(ud, &s->g->weight[of->w], of->n_mat, sum, sum + of->n_mat * of->k))
            rc = err_set(e, ERR_DATA, "%s: no sums to begin with", s->g->weight[of->w].name);
        if (!rc) rc = cu_upload(dev(s)->q, m->all + of->at, p, n * sizeof(double), e);
        if (!rc) rc = cu_sync(dev(s)->q, e); /* the copy is done before its source is freed */
        mem_free(p);
    }
    return rc;
}

int exec_cuda_sum_end(struct session *s, session_sum_fn fn, void *ud, struct err *e) {
    const int rc = exec_cuda_sum_save(s, fn, ud, e);
    exec_cuda_sum_free(s);
    return rc;
}

void exec_cuda_sum_names(const struct session *s, session_sum_fn fn, void *ud) {
    const struct cuda_sums *m = dev(s)->sums;
    for (int i = 0; i < m->n; i++) fn(ud, &s->g->weight[m->of[i].w], m->of[i].n_mat, NULL, NULL);
}
