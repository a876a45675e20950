// SPDX-License-Identifier: MIT
/* runtime/session_model.c - which weights a session computes with: those of the model it was given,
 * the same as packed rows, or those of another model of the same graph. */
#include "core/gguf.h"
#include "runtime/exec.h"

int exec_pack(struct session *s, const bool *only, struct err *e) {
    struct model *m = NULL;
    if (!s->o.pack || s->o.act != ACT_Q8) return 0;
    TRY(model_pack(&m, s->given, only, s->o.isa, s->o.pool, e));
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

int session_use(struct session *s, const struct model *m, struct err *e) {
    if (m->graph.node != s->g->node)
        return err_set(e, ERR_USAGE, "%s: a session cannot go on with a model of another graph",
                       gguf_path(m->gguf));
    if (s->o.pack)
        return err_set(e, ERR_USAGE, "%s: a session with packed weights stays with its model",
                       gguf_path(m->gguf));
    s->m = s->given = m;
    s->g = &m->graph;
    for (int i = 0; i < s->g->n_weights; i++) s->vec[i].v = NULL;
    if (s->be->use) s->be->use(s);
    return 0;
}
