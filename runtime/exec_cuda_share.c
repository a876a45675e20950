// SPDX-License-Identifier: MIT
/* runtime/exec_cuda_share.c - sessions on one device whose models are bindings of one file
 * (model_open_again): a weight that is the same for several of them lies on the device once.
 *
 * The sessions form a ring. A weight is taken from any of them that has it as it is wanted: from
 * the same data in main memory, with its copy up to date, in the same orders. Copies are counted,
 * so it does not matter who ends or replaces a weight first. Data that is replaced stays alive
 * until then (model_set_weight), so a pointer that two of them hold now means the same bytes. */
#include "core/num.h"
#include "runtime/exec_cuda.h"

static struct cuda *dev(const struct session *s) {
    return s->dev;
}

void exec_cuda_join(struct session *s) {
    struct session *with = s->o.share;
    dev(s)->next = s;
    if (!with || with->be != s->be || dev(with)->info.index != dev(s)->info.index ||
        with->m->gguf != s->m->gguf || with->g->n_weights != s->g->n_weights)
        return;
    dev(s)->next = dev(with)->next;
    dev(with)->next = s;
}

void exec_cuda_part(struct session *s) {
    struct session *before = s;
    if (!dev(s)->next) return;
    while (dev(before)->next != s) before = dev(before)->next;
    dev(before)->next = dev(s)->next;
}

const struct cuda_weight *exec_cuda_lender(const struct session *s, int i) {
    const struct cuda_forms want = exec_cuda_forms(s, i);
    const struct weight *w = model_weight(s->m, i);
    if (!dev(s)->next) return NULL;
    for (const struct session *o = dev(s)->next; o != s; o = dev(o)->next) {
        const struct weight *v = model_weight(o->m, i);
        const struct cuda_weight *c = &dev(o)->w[i];
        if (c->buf && c->version == v->version && v->data == w->data && v->type == w->type &&
            !c->w.data == !want.plain && !c->w.packed == !want.packed &&
            c->is_vec == dev(s)->w[i].is_vec)
            return c;
    }
    return NULL;
}

static uint64_t encoded(const struct session *s, gr_w w) {
    if (w == GR_NONE) return 0;
    const struct weight *x = model_weight(s->m, w);
    const uint64_t n = (uint64_t)(x->ne[0] * x->ne[1] * x->ne[2] * x->ne[3]);
    return n + n / 16 + 2 * (uint64_t)CUDA_ALIGN; /* 8.5 bits each, as Q8_0 */
}

uint64_t exec_cuda_replaced_bytes(const struct session *s) {
    uint64_t most = encoded(s, s->g->output);
    for (int i = 0; i < s->g->facts.n_uses; i++)
        if (s->g->facts.use[i].role == USE_MATRIX)
            most = max_u64(most, encoded(s, s->g->facts.use[i].w));
    for (int i = 0; i < graph_count(s->g, OP_MOE); i++) { /* gate and up are replaced together */
        const struct gr_node *n = graph_nth(s->g, OP_MOE, i);
        most = max_u64(most, encoded(s, n->w[1]) + encoded(s, n->w[2]));
    }
    return most;
}
