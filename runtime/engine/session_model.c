// SPDX-License-Identifier: MIT
/* runtime/engine/session_model.c - the weights that a session uses: those of the given model,
 * packed ones, or those of another model with the same graph. */
#include "containers/gguf.h"
#include "base/num.h"
#include "runtime/engine/exec.h"

/* Returns roughly the bytes that a CPU session takes in addition to the weights: cache, states and
 * activations. */
static uint64_t own_bytes(const struct session *s) {
    int64_t width = 0;
    for (int i = 0; i < s->g->n_regs; i++) width += s->g->reg_width[i];
    for (int i = 0; i < graph_count(s->g, OP_MOE); i++) {
        const struct gr_node *n = graph_nth(s->g, OP_MOE, i);
        const int64_t d = s->g->reg_width[n->dst];
        width = max_i64(width, n->moe.n_used * 4 * d); /* rows sorted by expert */
    }
    /* Weight panels and attention sums. */
    const uint64_t work = (uint64_t)(s->n_workers + 2) << 20;
    return s->cache.kv.n_bytes + s->cache.rec.n_bytes + work +
           (uint64_t)(2 * width * s->o.n_ubatch) * sizeof(float);
}

int exec_pack(struct session *s, const bool *only, struct err *e) {
    struct model *m = NULL;
    if (!s->o.pack || s->o.act != ACT_Q8) return 0;
    const struct pack_opts o = {.only = only,
                                .isa = s->o.isa,
                                .pool = s->o.pool,
                                .keep_free = only ? 0 : own_bytes(s),
                                .cache = s->o.pack_cache};
    TRY(model_pack(&m, s->given, &o, e));
    exec_unpack(s);
    s->packed = m;
    s->m = m;
    return 0;
}

void exec_unpack(struct session *s) {
    s->m = s->given;
    model_close(s->packed);
    s->packed = NULL;
}

/* Returns whether a equals b, without the compiler's warning about comparing floats. */
static bool same_number(double a, double b) {
    return !(a < b) && !(a > b);
}

struct rope_tab *exec_rope_tab(struct session *s, const struct gr_node *n, bool add) {
    const double base = n->rope.base > 0 ? n->rope.base : s->g->rope_base;
    const double factor = n->rope.factor > 0 ? n->rope.factor : 1;
    const bool yarn = s->g->yarn.factor > 0 && !n->rope.no_yarn;
    for (int i = 0; i < s->n_ropes; i++) {
        struct rope_tab *t = &s->rope[i];
        if (same_number(t->base, base) && same_number(t->factor, factor) &&
            t->n_rot == n->rope.n_rot && t->divisors == n->rope.divisors && t->far == n->rope.far &&
            t->yarn == yarn)
            return t;
    }
    if (!add || s->n_ropes == ROPE_TABS) return NULL;
    struct rope_tab *t = &s->rope[s->n_ropes++];
    *t = (struct rope_tab){.base = base,
                           .n_rot = n->rope.n_rot,
                           .divisors = n->rope.divisors,
                           .far = n->rope.far,
                           .factor = factor,
                           .yarn = yarn};
    return t;
}

int session_use(struct session *s, const struct model *m, struct err *e) {
    if (m->graph.node != s->g->node)
        return err_set(e, ERR_USAGE,
                       "%s: a session cannot switch to a model with a different graph",
                       gguf_path(m->gguf));
    if (s->o.pack)
        return err_set(e, ERR_USAGE, "%s: a session with packed weights cannot switch models",
                       gguf_path(m->gguf));
    s->m = s->given = m;
    s->g = &m->graph;
    for (int i = 0; i < s->g->n_weights; i++) s->vec[i].v = NULL;
    programs_forget(&s->programs);
    if (s->be->use) s->be->use(s);
    return 0;
}

int session_prepare(struct session *s, struct err *e) {
    return s->be->prepare ? s->be->prepare(s, e) : 0;
}
