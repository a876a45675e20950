// SPDX-License-Identifier: MIT
/* runtime/engine/cuda/copy.c - device copies of weights, shared by sessions.
 *
 * A copy is listed with its weight (weight.h) and reference-counted: sessions of all models with
 * that weight share it, and the last one frees it. A session uploads into its own copy and lists
 * it, under the weight's lock, only when the device is done with it (exec_cuda_refresh), so a
 * listed copy may be read on any stream. If two sessions that open at the same time both upload,
 * each keeps its own copy. */
#include <stdlib.h>

#include "base/mem.h"
#include "base/num.h"
#include "runtime/engine/cuda/exec.h"

/* Returns a listed copy of weight i on this session's device with the layouts it needs, or NULL.
 * The caller holds the weight's lock. */
static struct weight_copy *find(const struct cuda *d, int i) {
    const struct cuda_forms want = exec_cuda_forms(d, i);
    struct weight_copy *c = model_weight(d->s->m, i)->mem->copies;
    while (c && (c->device != d->info.index || !c->w.data != !want.plain ||
                 !c->w.packed != !want.packed || !c->vec != !d->w[i].is_vec))
        c = c->next;
    return c;
}

bool exec_cuda_copy_there(const struct cuda *d, int i) {
    struct weight_mem *mem = model_weight(d->s->m, i)->mem;
    pthread_mutex_lock(&mem->lock);
    const bool there = find(d, i) != NULL;
    pthread_mutex_unlock(&mem->lock);
    return there;
}

struct weight_copy *exec_cuda_copy_take(const struct cuda *d, int i) {
    struct weight_mem *mem = model_weight(d->s->m, i)->mem;
    pthread_mutex_lock(&mem->lock);
    struct weight_copy *c = find(d, i);
    if (c) c->n_users++;
    pthread_mutex_unlock(&mem->lock);
    return c;
}

int exec_cuda_copy_new(struct weight_copy **out, const struct cuda *d, int i, uint64_t n_bytes,
                       struct err *e) {
    struct weight_copy *c = xcalloc(1, sizeof *c);
    c->device = d->info.index;
    c->n_users = 1;
    int rc = cu_buf_new(&c->buf, d->ctx, n_bytes, d->s->g->weight[i].name, e);
    if (rc)
        free(c);
    else
        *out = c;
    return rc;
}

void exec_cuda_copy_list(struct weight_mem *mem, struct weight_copy *c) {
    if (!c || c->listed) return;
    pthread_mutex_lock(&mem->lock);
    c->listed = true;
    c->next = mem->copies;
    mem->copies = c;
    pthread_mutex_unlock(&mem->lock);
}

void exec_cuda_copy_drop(struct weight_mem *mem, struct weight_copy *c) {
    if (!c) return;
    pthread_mutex_lock(&mem->lock);
    const bool last = --c->n_users == 0;
    for (struct weight_copy **at = &mem->copies; last && *at; at = &(*at)->next)
        if (*at == c) {
            *at = c->next;
            break;
        }
    pthread_mutex_unlock(&mem->lock);
    if (!last) return;
    cu_buf_free(c->buf);
    free(c);
}

/* ---- room for others ------------------------------------------------------------------------- */

/* Estimates the size of weight w encoded with 8.5 bits per value; 0 for GR_NONE. */
static uint64_t encoded_bytes(const struct session *s, gr_w w) {
    if (w == GR_NONE) return 0;
    const struct weight *x = model_weight(s->m, w);
    const uint64_t n = (uint64_t)(x->ne[0] * x->ne[1] * x->ne[2] * x->ne[3]);
    return n + n / 16 + 2 * (uint64_t)CUDA_ALIGN; /* 8.5 bits per value, as in Q8_0 */
}

uint64_t exec_cuda_replaced_bytes(const struct session *s) {
    uint64_t most = encoded_bytes(s, s->g->output);
    for (int i = 0; i < s->g->facts.n_uses; i++)
        if (s->g->facts.use[i].role == USE_MATRIX)
            most = max_u64(most, encoded_bytes(s, s->g->facts.use[i].w));
    /* The gate and up matrices of experts are replaced together. */
    for (int i = 0; i < graph_count(s->g, OP_MOE); i++) {
        const struct gr_node *n = graph_nth(s->g, OP_MOE, i);
        most = max_u64(most, encoded_bytes(s, n->moe.gate) + encoded_bytes(s, n->moe.up));
    }
    return most;
}
