// SPDX-License-Identifier: MIT
/* runtime/engine/cuda/sums.c - calibration on the device: sums of squares of the inputs of all
 * products.
 *
 * Passing the rows to an observer instead would move gigabytes per chunk, sorted by expert and
 * summed by one thread. Device memory: 16 bytes per column of each product and expert (gate and up
 * of experts share theirs), for the sums of the chunk and the total. If layers are split, each part
 * sums the inputs of its own nodes; the caller receives the sums of all parts, in the order of a
 * pass. */
#include <stdlib.h>

#include "base/mem.h"
#include "base/num.h"
#include "runtime/engine/cuda/exec.h"

struct sum {
    gr_w w;
    int use; /* first use of the weight, an index into graph_facts.use */
    int64_t n_mat, k;
    /* offset of its values in doubles: n_mat * k sums, then n_mat row counts */
    int64_t at;
};
struct cuda_sums {
    struct sum *of; /* sums of the weights, in the order of a pass */
    int n;
    int64_t n_doubles, n_pairs, n_experts;
    struct cu_buf *buf;
    double *part, *all;
    int32_t *count, *first, *place, *order; /* filled by cu_sort_pairs */
};

/* Adds the weight of a use, with n_mat matrices, to the weights whose inputs are summed. `like`:
 * another weight with the same input, which shares its sums, or GR_NONE. */
static void add(struct cuda *d, int use, int64_t n_mat, gr_w like) {
    struct cuda_sums *m = d->sums;
    const gr_w w = d->s->g->facts.use[use].w;
    struct sum new = {w, use, n_mat, d->s->g->weight[w].ne[0], m->n_doubles};
    for (int i = 0; i < m->n; i++) {
        if (m->of[i].w == w) return;
        if (m->of[i].w == like) new.at = m->of[i].at;
    }
    m->of[m->n++] = new;
    if (new.at == m->n_doubles) m->n_doubles += n_mat * (new.k + 1);
}

/* Finds the products of part d whose inputs are summed. */
static void find_products(struct cuda *d) {
    struct session *s = d->s;
    struct cuda_sums *m = d->sums;
    for (int i = 0; i < s->g->facts.n_uses; i++) {
        const struct gr_use *u = &s->g->facts.use[i];
        const struct gr_node *n = &s->g->node[u->node];
        if (!gr_roles[u->role].observed || !exec_cuda_here(d, u->node)) continue;
        const int64_t n_mat = gr_roles[u->role].expert ? s->g->weight[n->moe.router].ne[1] : 1;
        add(d, i, n_mat, u->role == USE_EXP_UP ? n->moe.gate : GR_NONE);
        if (u->role != USE_ROUTER) continue;
        m->n_pairs = max_i64(m->n_pairs, s->o.n_ubatch * n->moe.n_used);
        m->n_experts = max_i64(m->n_experts, s->g->weight[u->w].ne[1]);
    }
}

/* Returns whether nodes of two parts multiply with the same weight, whose input would then be
 * summed in two places. */
static bool is_shared(const struct session *s) {
    const struct graph_facts *f = &s->g->facts;
    bool shared = false;
    /* per weight: 1 + the part that uses it; 0: none so far */
    int *part = xcalloc((size_t)s->g->n_weights + 1, sizeof *part);
    for (int i = 0; i < f->n_uses; i++) {
        if (!gr_roles[f->use[i].role].observed) continue;
        const int here = exec_cuda_part_of(exec_cuda_all(s), f->use[i].node) + 1, w = f->use[i].w;
        shared = shared || (part[w] && part[w] != here);
        part[w] = here;
    }
    free(part);
    return shared;
}

/* Counts n more bytes for part d; under --max-vram, this leaves less for its sequences. */
static void count(struct cuda *d, int64_t n) {
    struct session *s = d->s;
    const int at = d->place;
    s->place[at].n_bytes += (uint64_t)n;
    s->n_bytes += (uint64_t)n;
    if (s->cache.most[at]) s->cache.most[at] -= (uint64_t)n;
}

/* Allocates the sums of part d. */
static int alloc(struct cuda *d, struct err *e) {
    struct session *s = d->s;
    struct cuda_sums *m = d->sums = xcalloc(1, sizeof *m);
    m->of = xcalloc((size_t)s->g->n_weights + 1, sizeof *m->of);
    find_products(d);
    const int64_t ints = 2 * (m->n_experts + 1) + 2 * m->n_pairs;
    const uint64_t bytes = 2 * (uint64_t)m->n_doubles * sizeof(double);
    const uint64_t all = bytes + (uint64_t)ints * sizeof(int32_t), most = d->most,
                   taken = s->place[d->place].n_bytes + s->cache.n_bytes[d->place];
    if (most && taken + all > most)
        return err_memory(e, "sums of importance need %llu MiB more than --max-vram leaves",
                          (unsigned long long)((taken + all - most) >> 20));
    TRY(cu_buf_new(&m->buf, d->ctx, all, "sums of importance", e));
    TRY(cu_fill(d->q, cu_buf_ptr(m->buf), 0, bytes, e));
    m->part = cu_buf_ptr(m->buf);
    m->all = m->part + m->n_doubles;
    m->count = (int32_t *)(void *)(m->all + m->n_doubles);
    m->first = m->count + m->n_experts + 1;
    m->place = m->first + m->n_experts + 1;
    m->order = m->place + m->n_pairs;
    count(d, (int64_t)all);
    return 0;
}

static void free_all(struct session *s) {
    const struct cuda_set *all = s->dev;
    for (int i = 0; i < all->n; i++) exec_cuda_sum_free(all->part[i]);
}

void exec_cuda_sum_free(struct cuda *d) {
    struct cuda_sums *m = d->sums;
    if (!m) return;
    if (m->order) count(d, -(int64_t)cu_buf_bytes(m->buf));
    cu_buf_free(m->buf);
    free(m->of);
    free(m);
    d->sums = NULL;
}

/* Returns the sums of a weight, or NULL for the head, which is not summed. */
static const struct sum *sum_of(const struct cuda *d, gr_w w) {
    const struct cuda_sums *m = d->sums;
    for (int i = 0; i < m->n; i++)
        if (m->of[i].w == w) return &m->of[i];
    return NULL;
}

/* Ends segment i of a pass: adds its complete chunk to the total. The last segment of a pass may
 * continue in the next pass and is ended elsewhere. */
static int end_segment(struct cuda *d, const struct sum *of, int i, struct err *e) {
    const struct cuda_sums *m = d->sums;
    if (i == d->s->n_segs - 1) return 0;
    return cu_move_sums(d->q, m->part + of->at, m->all + of->at, of->n_mat * (of->k + 1), e);
}

int exec_cuda_sum(struct cuda *d, gr_w w, const float *x, int64_t n_rows, int64_t ld,
                  struct err *e) {
    struct session *s = d->s;
    const struct sum *of = sum_of(d, w);
    if (!of) return 0;
    double *part = d->sums->part + of->at;
    if (n_rows != s->n_tok) return cu_column_sums(d->q, x, n_rows, ld, of->k, part, e);
    for (int i = 0; i < s->n_segs; i++) {
        const struct seg *g = &s->seg[i];
        TRY(cu_column_sums(d->q, x + g->r0 * ld, g->n, ld, of->k, part, e));
        TRY(end_segment(d, of, i, e));
    }
    return 0;
}

int exec_cuda_sum_pairs(struct cuda *d, gr_w w, const float *x, int64_t n_used, int64_t n_experts,
                        int64_t per_row, int64_t ld, struct err *e) {
    struct session *s = d->s;
    const struct cuda_sums *m = d->sums;
    const struct sum *of = sum_of(d, w);
    for (int i = 0; i < s->n_segs; i++) {
        const int64_t first = s->seg[i].r0 * n_used, n = s->seg[i].n * n_used;
        TRY(cu_sort_pairs(d->q, d->expert + first, n, n_experts, m->count, m->first, m->place,
                          m->order, e));
        TRY(cu_expert_sums(d->q, x + first / per_row * ld, per_row, ld, of->k, m->first, m->order,
                           of->n_mat, m->part + of->at, e));
        TRY(end_segment(d, of, i, e));
    }
    return 0;
}

/* Adds the sums of the current chunk to the totals. */
static int end_chunk(struct session *s, struct err *e) {
    const struct cuda_set *all = s->dev;
    for (int i = 0; i < all->n; i++) {
        const struct cuda *d = all->part[i];
        const struct cuda_sums *m = d->sums;
        if (m->n) TRY(cu_move_sums(d->q, m->part, m->all, m->n_doubles, e));
    }
    return 0;
}

/* Returns the sums of use i and, in *part, the part that has them. NULL unless i is the first use
 * of a summed weight. */
static const struct sum *first_of(const struct session *s, int i, const struct cuda **part) {
    const struct gr_use *u = &s->g->facts.use[i];
    const struct cuda_set *all = s->dev;
    if (!gr_roles[u->role].observed) return NULL;
    *part = all->part[exec_cuda_part_of(all, u->node)];
    const struct cuda_sums *m = (*part)->sums;
    for (int k = 0; k < m->n; k++)
        if (m->of[k].use == i) return &m->of[k];
    return NULL;
}

/* Downloads the sums of one weight and passes them to fn. */
static int save_one(const struct session *s, const struct cuda *d, const struct sum *of,
                    session_sum_fn fn, void *ud, struct err *e) {
    const uint64_t n = (uint64_t)(of->n_mat * (of->k + 1));
    void *p = NULL;
    TRY(mem_alloc(&p, n * sizeof(double), "sums of importance", e));
    int rc = cu_download(d->q, p, d->sums->all + of->at, n * sizeof(double), e);
    if (!rc) rc = cu_sync(d->q, e);
    const double *sum = p;
    if (!rc) fn(ud, &s->g->weight[of->w], of->n_mat, sum, sum + of->n_mat * of->k);
    mem_free(p);
    return rc;
}

/* Passes the sums of all observed weights to fn. */
static int save_sums(struct session *s, session_sum_fn fn, void *ud, struct err *e) {
    const struct cuda *d = NULL;
    for (int i = 0; i < s->g->facts.n_uses; i++) {
        const struct sum *of = first_of(s, i, &d);
        if (of) TRY(save_one(s, d, of, fn, ud, e));
    }
    return 0;
}

/* Uploads the sums that fn fills in. ERR_DATA: fn has no sums for this weight. */
static int load_one(const struct session *s, const struct cuda *d, const struct sum *of,
                    session_sum_give fn, void *ud, struct err *e) {
    const uint64_t n = (uint64_t)(of->n_mat * (of->k + 1));
    int rc = 0;
    void *p = NULL;
    TRY(mem_alloc(&p, n * sizeof(double), "sums of importance", e));
    double *sum = p;
    if (!fn(ud, &s->g->weight[of->w], of->n_mat, sum, sum + of->n_mat * of->k))
        rc = err_set(e, ERR_DATA, "%s: no sums to start from", s->g->weight[of->w].name);
    if (!rc) rc = cu_upload(d->q, d->sums->all + of->at, p, n * sizeof(double), e);
    if (!rc) rc = cu_sync(d->q, e); /* The copy must be done before its source is freed. */
    mem_free(p);
    return rc;
}

/* Sets the sums of all observed weights from fn, to continue an earlier run. */
static int load_sums(struct session *s, session_sum_give fn, void *ud, struct err *e) {
    const struct cuda *d = NULL;
    for (int i = 0; i < s->g->facts.n_uses; i++) {
        const struct sum *of = first_of(s, i, &d);
        if (of) TRY(load_one(s, d, of, fn, ud, e));
    }
    return 0;
}

/* Does nothing: a no-op observer. Installing one disables fusion across the observed nodes. */
static void see_nothing(void *ud, const struct session_shown *r) {
    (void)ud, (void)r;
}

/* Starts collecting and tells fn each observed weight, without sums. */
static int begin_sums(struct session *s, session_sum_fn fn, void *ud, struct err *e) {
    const struct cuda_set *all = s->dev;
    const struct cuda *d = NULL;
    int rc = 0;
    for (int i = 0; i < all->n && !rc; i++) rc = alloc(all->part[i], e);
    if (rc) {
        free_all(s);
        return rc;
    }
    session_observe(s, &(struct session_probe){.product = see_nothing});
    for (int i = 0; i < s->g->facts.n_uses; i++) {
        const struct sum *of = first_of(s, i, &d);
        if (of) fn(ud, &s->g->weight[of->w], of->n_mat, NULL, NULL);
    }
    return 0;
}

/* Passes the sums to fn and stops collecting. */
static int end_sums(struct session *s, session_sum_fn fn, void *ud, struct err *e) {
    const int rc = save_sums(s, fn, ud, e);
    session_observe(s, NULL);
    free_all(s);
    return rc;
}

const struct session_sums *exec_cuda_sums(const struct session *s) {
    static const struct session_sums sums = {begin_sums, load_sums, end_chunk, save_sums, end_sums};
    /* The device does not see experts that the CPU computes, and heads may have separate inputs. */
    const bool all = exec_cuda_all(s)->n_on_host == 0 && !is_shared(s) &&
                     graph_count(s->g, OP_MATMUL_HEADS) == 0;
    return all ? &sums : NULL;
}
