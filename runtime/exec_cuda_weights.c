// SPDX-License-Identifier: MIT
/* runtime/exec_cuda_weights.c - weights on a device: in which orders each is needed there, uploads,
 * packing, and what model_set_weight replaced. */
#include <stdlib.h>

#include "core/mem.h"
#include "core/num.h"
#include "runtime/exec_cuda.h"

static struct cuda *dev(const struct session *s) {
    return s->dev;
}

/* is_read: in the file's order, by an exact product or the embedding's gather. */
static void use(const struct session *s, gr_w w, bool matrix, bool product, bool read) {
    if (w == GR_NONE) return;
    struct cuda *d = dev(s);
    int src = s->m->source[w]; /* a tied one lies where its source does */
    d->w[w].is_matrix |= matrix;
    d->w[w].is_vec |= !matrix;
    d->w[src].is_product |= product;
    d->w[src].is_read |= read;
}

struct cu_weight exec_cuda_shape(const struct weight *w) {
    return (struct cu_weight){.type = w->type,
                              .k = w->ne[0],
                              .rows = w->ne[1],
                              .mats = w->ne[2],
                              .row_bytes = w->row_bytes,
                              .mat_bytes = w->mat_bytes};
}

void exec_cuda_find_uses(struct session *s) {
    bool exact = dev(s)->exact;
    for (int i = 0; i < s->g->facts.n_uses; i++) {
        const struct gr_use *u = &s->g->facts.use[i];
        const struct gr_node *n = &s->g->node[u->node];
        const struct gr_role_info *r = &gr_roles[u->role];
        if (u->role == USE_DIVISORS) continue; /* they enter the table on the CPU */
        bool glu = u->role == USE_EXP_GATE || u->role == USE_EXP_UP;
        bool mixed = glu && !exec_cuda_glu_packs(s, n->w[1], n->w[2]);
        use(s, u->w, r->matrix, r->product, exact || (r->matrix && !r->product) || mixed);
    }
    use(s, s->g->output, true, true, exact);
}

void exec_cuda_leave_on_host(struct session *s, int n) {
    struct cuda *d = dev(s);
    d->n_on_host = 0;
    for (int i = graph_count(s->g, OP_MOE) - 1; i >= 0; i--) {
        const struct gr_node *x = graph_nth(s->g, OP_MOE, i);
        d->on_host[x - s->g->node] = d->n_on_host < n;
        d->n_on_host += d->n_on_host < n;
    }
    for (int i = 0; i < s->g->facts.n_uses; i++) {
        const struct gr_use *u = &s->g->facts.use[i];
        if (gr_roles[u->role].expert) d->w[u->w].is_host = d->on_host[u->node];
    }
}

static int64_t n_values(const struct weight *w) {
    return w->ne[0] * w->ne[1] * w->ne[2] * w->ne[3];
}
static bool owns(const struct session *s, int w) { /* a tied weight is uploaded once */
    return s->m->source[w] == w || !dev(s)->w[s->m->source[w]].is_matrix;
}

struct cuda_forms exec_cuda_forms(const struct session *s, int i) {
    const struct cuda_weight *c = &dev(s)->w[i];
    const struct cu_weight w = exec_cuda_shape(model_weight(s->m, i));
    struct cuda_forms f = {0};
    if (!c->is_matrix || !owns(s, i)) return f;
    f.packed = dev(s)->exact || !c->is_product ? 0 : cu_packed_bytes(&w);
    if (c->is_read || !f.packed) f.plain = round_up(model_weight(s->m, i)->n_bytes, CUDA_ALIGN);
    return f;
}

uint64_t exec_cuda_upload_bytes(const struct session *s, int i) {
    const struct cuda_weight *c = &dev(s)->w[i];
    const struct cuda_forms f = exec_cuda_forms(s, i);
    uint64_t n = f.plain + f.packed;
    if (c->is_host || exec_cuda_lender(s, i)) return 0;
    if (c->is_vec)
        n += round_up((uint64_t)n_values(model_weight(s->m, i)) * sizeof(float), CUDA_ALIGN);
    return n;
}

uint64_t exec_cuda_stage_bytes(const struct session *s) {
    uint64_t n = 0;
    for (int i = 0; i < s->g->n_weights; i++) {
        const struct cuda_forms f = exec_cuda_forms(s, i);
        if (f.packed && !f.plain && !dev(s)->w[i].is_host)
            n = max_u64(n, model_weight(s->m, i)->n_bytes);
    }
    return n;
}

/* Where a weight lies while it is packed. */
static int stage(struct cuda *d, uint64_t n, struct err *e) {
    if (d->stage && cu_buf_bytes(d->stage) >= n) return 0;
    cu_buf_free(d->stage);
    d->stage = NULL;
    return cu_buf_new(&d->stage, d->ctx, n, "a weight while it is packed", e);
}

static int upload(struct session *s, int i, struct err *e) {
    struct cuda *d = dev(s);
    struct cuda_weight *c = &d->w[i];
    const struct weight *w = model_weight(s->m, i);
    const char *name = s->g->weight[i].name;
    uint64_t n = exec_cuda_upload_bytes(s, i);
    c->version = w->version;
    if (c->is_host) return 0;
    const struct cuda_weight *lent = exec_cuda_lender(s, i);
    if (lent || (c->buf && cu_buf_refs(c->buf) > 1)) {
        cu_buf_free(c->buf);
        c->buf = NULL;
    }
    if (lent) {
        c->buf = cu_buf_keep(lent->buf);
        c->w = lent->w;
        c->vec = lent->vec;
        return 0;
    }
    if (c->is_matrix && !cu_has_type(w->type))
        return err_set(e, ERR_USAGE, "tensor %s has type %s, which CUDA does not compute with",
                       name, qtype_name(w->type));
    if (n && (!c->buf || cu_buf_bytes(c->buf) < n)) {
        cu_buf_free(c->buf);
        c->buf = NULL;
        TRY(cu_buf_new(&c->buf, d->ctx, n, name, e));
    }
    uint8_t *at = n ? cu_buf_ptr(c->buf) : NULL;
    if (c->is_matrix) {
        const struct cu_weight *tied = &d->w[s->m->source[i]].w;
        c->w = exec_cuda_shape(w);
        c->w.data = owns(s, i) ? at : tied->data;
        c->w.packed = owns(s, i) ? NULL : tied->packed;
    }
    if (c->is_matrix && owns(s, i)) {
        const struct cuda_forms f = exec_cuda_forms(s, i);
        if (!f.plain) TRY(stage(d, w->n_bytes, e));
        uint8_t *file = f.plain ? at : cu_buf_ptr(d->stage);
        c->w.data = file;
        TRY(cu_upload(d->q, file, w->data, w->n_bytes, e));
        at += f.plain;
        if (f.packed) {
            c->w.packed = at;
            TRY(cu_pack_weight(d->q, &c->w, e));
        }
        if (!f.plain) c->w.data = NULL;
        at += f.packed;
    }
    if (c->is_vec) {
        c->vec = (const float *)(void *)at;
        TRY(cu_upload(d->q, at, exec_vec(s, i), (uint64_t)n_values(w) * sizeof(float), e));
    }
    return 0;
}

static int upload_ropes(struct session *s, struct err *e) {
    struct cuda *d = dev(s);
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

int exec_cuda_refresh(struct session *s, bool first, struct err *e) {
    struct cuda *d = dev(s);
    bool any = first;
    for (int i = 0; i < s->g->n_weights && !any; i++)
        any = d->w[i].version != model_weight(s->m, i)->version;
    if (!any) return 0;
    exec_cuda_find_uses(s); /* other types may need the other order */
    for (int i = 0; i < s->g->n_weights; i++) {
        const struct cuda_weight *c = &d->w[i];
        bool lacks = !c->is_host && exec_cuda_forms(s, i).plain && !c->w.data;
        if (first || lacks || c->version != model_weight(s->m, i)->version) TRY(upload(s, i, e));
    }
    cu_buf_free(d->stage);
    d->stage = NULL;
    exec_cuda_drop_step(d);
    TRY(upload_ropes(s, e));
    return d->next == s ? 0 : cu_sync(d->q, e); /* other streams may read them next */
}
