// SPDX-License-Identifier: MIT
/* runtime/engine/cuda/weights.c - weights on a device: which layouts each one needs, upload,
 * packing, and replacement by session_use. */
#include <stdlib.h>

#include "base/mem.h"
#include "base/num.h"
#include "runtime/engine/cuda/exec.h"

/* Upload chunk size, in bytes: while a session opens, and afterwards, for replaced weights, when it
 * keeps two chunks until it closes. FEED_FROM: the smallest weight that is uploaded in chunks. */
enum { FEED_PIECE = 16 << 20, FEED_KEPT = 4 << 20, FEED_FROM = 1 << 20 };

/* Returns whether weight w has its own data. A tied weight uses the upload of its source. */
static bool owns(const struct cuda *d, int w) {
    const int of = d->s->m->source[w];
    return of == w || !d->w[of].is_matrix;
}

/* Records a use of a weight. `read`: an exact product or the embedding's gather reads the file's
 * layout. */
static void use(const struct cuda *d, gr_w w, bool matrix, bool product, bool read) {
    if (w == GR_NONE) return;
    const int at = owns(d, w) ? w : d->s->m->source[w]; /* a tied weight uses its source's copy */
    d->w[w].is_matrix |= matrix;
    d->w[w].is_vec |= !matrix;
    d->w[at].is_product |= product;
    d->w[at].is_read |= read;
}
/* Returns whether this device computes the output head. */
static bool has_head(const struct cuda *d) {
    return d->place == d->all->head;
}

struct cu_weight exec_cuda_shape(const struct weight *w) {
    return (struct cu_weight){.type = w->type,
                              .k = w->ne[0],
                              .rows = w->ne[1],
                              .mats = w->ne[2],
                              .row_bytes = w->row_bytes,
                              .mat_bytes = w->mat_bytes};
}

/* Determines the layouts of each weight that part d needs. Finds the matrices first, because where
 * a tied weight is stored depends on them. */
void exec_cuda_find_uses(struct cuda *d) {
    struct session *s = d->s;
    const bool exact = d->exact;
    for (int i = 0; i < s->g->facts.n_uses; i++) {
        const struct gr_use *u = &s->g->facts.use[i];
        if (u->role != USE_DIVISORS && gr_roles[u->role].matrix && exec_cuda_here(d, u->node))
            d->w[u->w].is_matrix = true;
    }
    for (int i = 0; i < s->g->facts.n_uses; i++) {
        const struct gr_use *u = &s->g->facts.use[i];
        const struct gr_node *n = &s->g->node[u->node];
        const struct gr_role_info *r = &gr_roles[u->role];
        if (u->role == USE_DIVISORS || !exec_cuda_here(d, u->node))
            continue; /* the divisors of angles go into a table that the CPU builds */
        bool glu = u->role == USE_EXP_GATE || u->role == USE_EXP_UP;
        bool mixed = glu && !exec_cuda_glu_packs(s, n->moe.gate, n->moe.up);
        use(d, u->w, r->matrix, r->product, exact || (r->matrix && !r->product) || mixed);
    }
    if (has_head(d)) {
        use(d, s->g->output, true, true, exact);
        use(d, s->g->head_bias, false, false, false);
    }
}

void exec_cuda_leave_on_host(struct session *s, int n) {
    struct cuda_set *all = s->dev;
    all->n_on_host = all->n_placed = 0;
    for (int i = graph_count(s->g, OP_MOE) - 1; i >= 0; i--) {
        const struct gr_node *x = graph_nth(s->g, OP_MOE, i);
        const enum placement_at where = placement_experts(s->o.device.place, x->layer);
        const bool placed = where == PLACE_CPU || !exec_cuda_has_experts(&x->moe);
        const bool leaves = !placed && where == PLACE_FREE && n > 0;
        n -= leaves;
        all->on_host[x - s->g->node] = placed || leaves;
        all->n_placed += placed;
        all->n_on_host += placed || leaves;
    }
    for (int i = 0; i < s->g->facts.n_uses; i++) {
        const struct gr_use *u = &s->g->facts.use[i];
        for (int k = 0; k < all->n && gr_roles[u->role].expert; k++)
            all->part[k]->w[u->w].is_host = all->on_host[u->node];
    }
}

static int64_t n_values(const struct weight *w) {
    return w->ne[0] * w->ne[1] * w->ne[2] * w->ne[3];
}
struct cuda_forms exec_cuda_forms(const struct cuda *d, int i) {
    const struct cuda_weight *c = &d->w[i];
    const struct weight *of = model_weight(d->s->m, i);
    const struct cu_weight w = exec_cuda_shape(of);
    struct cuda_forms f = {0};
    if (!c->is_matrix || !owns(d, i)) return f;
    f.packed = d->exact || !c->is_product ? 0 : cu_packed_bytes(&w);
    if (c->is_read || !f.packed) f.plain = round_up(of->n_bytes, CUDA_ALIGN);
    return f;
}

/* Returns the size of a weight's own copy on the device; 0 if it stays in main memory. */
static uint64_t own_bytes(const struct cuda *d, int i) {
    const struct cuda_weight *c = &d->w[i];
    const struct cuda_forms f = exec_cuda_forms(d, i);
    const uint64_t n_vec = (uint64_t)n_values(model_weight(d->s->m, i)) * sizeof(float);
    if (c->is_host) return 0;
    return f.plain + f.packed + (c->is_vec ? round_up(n_vec, CUDA_ALIGN) : 0);
}

uint64_t exec_cuda_upload_bytes(const struct cuda *d, int i) {
    const uint64_t n = own_bytes(d, i);
    return n && exec_cuda_copy_there(d, i) ? 0 : n;
}

uint64_t exec_cuda_stage_bytes(const struct cuda *d) {
    uint64_t n = 0;
    for (int i = 0; i < d->s->g->n_weights; i++) {
        const struct cuda_forms f = exec_cuda_forms(d, i);
        if (f.packed && !f.plain && !d->w[i].is_host)
            n = max_u64(n, model_weight(d->s->m, i)->n_bytes);
    }
    return n;
}

/* Allocates staging space for packing a weight of n bytes. */
static int stage(struct cuda *d, uint64_t n, struct err *e) {
    if (d->stage && cu_buf_bytes(d->stage) >= n) return 0;
    cu_buf_free(d->stage);
    d->stage = NULL;
    return cu_buf_new(&d->stage, d->ctx, n, "a weight while it is packed", e);
}

/* Drops the device's copy of weight i. */
static void forget_weight(struct cuda *d, int i) {
    struct cuda_weight *c = &d->w[i];
    exec_cuda_copy_drop(c->mem, c->copy);
    weight_mem_drop(c->mem);
    c->copy = NULL;
    c->mem = NULL;
}

/* Copies a weight to the device. Large weights go through pinned memory if available. */
static int send(struct cuda *d, void *dst, const void *src, uint64_t n, struct err *e) {
    struct err refused = {0};
    if (n < FEED_FROM) return cu_upload(d->q, dst, src, n, e);
    if (!d->feed.piece && !d->fed_plainly)
        d->fed_plainly =
            cuda_feed_open(&d->feed, d->ctx, d->filled ? FEED_KEPT : FEED_PIECE, &refused) != 0;
    if (d->fed_plainly) return cu_upload(d->q, dst, src, n, e);
    return cuda_feed_put(&d->feed, d->q, d->s->o.pool, dst, src, n, e);
}

/* Fills a new copy. Its layouts are contiguous: the file's, packed, f32 values. */
static int fill(struct cuda *d, int i, struct weight_copy *copy, struct err *e) {
    const struct cuda_weight *c = &d->w[i];
    const struct weight *w = model_weight(d->s->m, i);
    const struct cuda_forms f = exec_cuda_forms(d, i);
    uint8_t *at = cu_buf_ptr(copy->buf);
    if (f.plain || f.packed) {
        copy->w = exec_cuda_shape(w);
        if (!f.plain) TRY(stage(d, w->n_bytes, e));
        uint8_t *file = f.plain ? at : cu_buf_ptr(d->stage);
        copy->w.data = file;
        TRY(send(d, file, w->data, w->n_bytes, e));
        at += f.plain;
        if (f.packed) {
            copy->w.packed = at;
            TRY(cu_pack_weight(d->q, &copy->w, e));
        }
        if (!f.plain) copy->w.data = NULL;
        at += f.packed;
    }
    if (!c->is_vec) return 0;
    copy->vec = (const float *)(void *)at;
    return cu_upload(d->q, at, exec_vec(d->s, i), (uint64_t)n_values(w) * sizeof(float), e);
}

/* Gives the session a copy of weight i, existing or new. */
static int upload(struct cuda *d, int i, struct err *e) {
    struct session *s = d->s;
    struct cuda_weight *c = &d->w[i];
    const struct weight *w = model_weight(s->m, i);
    const uint64_t n = own_bytes(d, i);
    forget_weight(d, i);
    c->mem = w->mem;
    weight_mem_keep(c->mem);
    if (c->is_host) return 0;
    if (c->is_matrix && !cu_has_type(w->type))
        return err_set(e, ERR_USAGE, "tensor %s has type %s, which CUDA does not support",
                       s->g->weight[i].name, qtype_name(w->type));
    if (n) c->copy = exec_cuda_copy_take(d, i);
    if (n && !c->copy) {
        TRY(exec_cuda_copy_new(&c->copy, d, i, n, e));
        TRY(fill(d, i, c->copy, e));
    }
    c->vec = n ? c->copy->vec : NULL;
    if (!c->is_matrix) return 0;
    if (owns(d, i)) {
        c->w = c->copy->w;
        return 0;
    }
    const struct cu_weight *tied = &d->w[s->m->source[i]].w;
    c->w = exec_cuda_shape(w);
    c->w.data = tied->data;
    c->w.packed = tied->packed;
    return 0;
}

/* Uploads the frequencies of all ropes. */
static int upload_ropes(struct cuda *d, struct err *e) {
    struct session *s = d->s;
    for (int i = 0; i < s->n_ropes; i++) {
        int64_t half = s->rope[i].n_rot / 2;
        double *f = xcalloc((size_t)half + 1, sizeof *f);
        d->rope[i].m = exec_rope_freqs(s, &s->rope[i], f);
        int rc = cu_upload(d->q, d->rope[i].freq, f, (uint64_t)half * sizeof *f, e);
        free(f);
        if (rc) return rc;
    }
    return 0;
}

/* Returns whether the device's copy of weight i was made from data that the model has since
 * replaced. */
static bool is_stale(const struct cuda *d, int i) {
    return d->w[i].mem != model_weight(d->s->m, i)->mem;
}
/* Returns whether weight i must be uploaded again: its copy lacks a layout that it needs, or it is
 * tied to a weight whose copy moved. */
static bool is_elsewhere(const struct cuda *d, int i) {
    const struct cuda_weight *c = &d->w[i], *tied = &d->w[d->s->m->source[i]];
    if (c->is_host || !c->is_matrix) return false;
    if (owns(d, i)) return exec_cuda_forms(d, i).plain && !c->w.data;
    return c->w.data != tied->w.data || c->w.packed != tied->w.packed;
}

/* Uploads the weights that part d lacks. */
static int refresh(struct cuda *d, bool first, struct err *e) {
    exec_cuda_find_uses(d); /* Weights of another type may need the other layout. */
    for (int i = 0; i < d->s->g->n_weights; i++) {
        if (!first && !is_stale(d, i) && !is_elsewhere(d, i)) continue;
        const int rc = upload(d, i, e);
        if (rc) forget_weight(d, i); /* the copy is incomplete; the next pass tries again */
        if (rc) return rc;
    }
    TRY(upload_ropes(d, e));
    TRY(cu_sync(d->q, e)); /* From here on, other streams may read them. */
    cu_buf_free(d->stage);
    d->stage = NULL;
    if (first) cuda_feed_close(&d->feed);
    d->filled = true;
    for (int i = 0; i < d->s->g->n_weights; i++) exec_cuda_copy_list(d->w[i].mem, d->w[i].copy);
    return 0;
}

int exec_cuda_refresh(struct session *s, bool first, struct err *e) {
    struct cuda_set *all = s->dev;
    bool any = first;
    for (int p = 0; p < all->n; p++)
        for (int i = 0; i < s->g->n_weights && !any; i++) any = is_stale(all->part[p], i);
    if (!any) return 0;
    exec_cuda_drop_step(all);
    for (int p = 0; p < all->n; p++) TRY(refresh(all->part[p], first, e));
    return 0;
}

void exec_cuda_forget(struct session *s) {
    struct cuda_set *all = s->dev;
    bool any = false;
    for (int p = 0; p < all->n; p++)
        for (int i = 0; i < s->g->n_weights; i++) {
            struct cuda *d = all->part[p];
            if (!d->w[i].mem || !is_stale(d, i)) continue;
            forget_weight(d, i);
            any = true;
        }
    if (any) exec_cuda_drop_step(all);
}

void exec_cuda_forget_all(struct cuda *d) {
    for (int i = 0; i < d->s->g->n_weights; i++) forget_weight(d, i);
}
