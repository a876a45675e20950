// SPDX-License-Identifier: MIT
/* runtime/pack.c - weights of matrix products moved into packed rows (kernels/pack.h).
 *
 * Each tensor is copied to memory of its own (huge pages, from all memory nodes), rearranged, and
 * the file's pages are given back: resident memory stays what it was, one tensor more at a time.
 * The file's blocks remain reachable through the map, so f32 sessions, probes and embeddings read
 * them as before. The rows belong to the weight (weight.h): they are made once, under its lock, and
 * every session that packs has them in a model of its own, which nobody changes. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "core/mem.h"
#include "core/numa.h"
#include "kernels/kern.h"
#include "kernels/pack.h"
#include "runtime/model.h"

/* Rows come in groups, and the gate and up halves of a fused tensor are whole groups too. */
enum { ROW_MULTIPLE = 32, GROUPS_PER_TASK = 16 };

static bool can_pack(const struct kern *k, const struct weight *w) {
    return k->op[w->type].gemm && kern_packs(w->type) && w->ne[1] % ROW_MULTIPLE == 0 && w->data;
}

/* wanted[w]: weight w enters matrix products. */
static bool *in_products(const struct graph *g) {
    bool *wanted = xcalloc((size_t)g->n_weights, sizeof *wanted);
    for (int i = 0; i < g->facts.n_uses; i++) /* a router stays exact */
        wanted[g->facts.use[i].w] |= gr_roles[g->facts.use[i].role].product;
    wanted[g->output] = true;
    return wanted;
}

struct job {
    const struct weight *w;
    uint8_t *dst;
    int rows;
};
static void pack_range(void *ctx, int64_t g0, int64_t g1, int worker) {
    const struct job *j = ctx;
    (void)worker;
    const uint64_t group = (uint64_t)j->rows * j->w->row_bytes;
    const int64_t n_blocks = j->w->ne[0] / qtype_info(j->w->type)->block_elems;
    for (int64_t g = g0; g < g1; g++)
        kern_pack(j->w->type, j->rows, (const uint8_t *)j->w->data + (uint64_t)g * group,
                  j->w->row_bytes, n_blocks, j->dst + (uint64_t)g * group);
}

struct packer {
    struct kern k;
    struct numa numa;
    struct pool *pool;
};

/* Packed rows of w, as they are or made now; *out is NULL when there is no memory for them. Whoever
 * comes second waits for the first. */
static void pack_one(struct packer *p, const struct weight *w, const uint8_t **out) {
    struct weight_mem *mem = w->mem;
    struct job j = {.w = w, .rows = p->k.op[w->type].rows};
    struct err e;
    void *to = NULL;
    *out = NULL;
    pthread_mutex_lock(&mem->lock);
    for (int i = 0; i < mem->n_packed; i++)
        if (mem->packed[i].rows == j.rows) *out = mem->packed[i].data;
    if (!*out && mem->n_packed < WEIGHT_FORMS && !buf_alloc(&to, w->n_bytes, "packed rows", &e)) {
        j.dst = to;
        if (p->numa.n > 1) (void)numa_spread(&p->numa, to, w->n_bytes);
        pool_for(p->pool, w->ne[1] * w->ne[2] * w->ne[3] / j.rows, GROUPS_PER_TASK, pack_range, &j);
        mem->packed[mem->n_packed++] = (struct weight_rows){j.rows, to, to};
        *out = to;
        if (mem->tensor) gguf_drop(mem->file, mem->tensor);
    }
    pthread_mutex_unlock(&mem->lock);
}

/* Bytes of memory that packing takes: of what is not packed yet. */
static uint64_t missing_bytes(const struct packer *p, const struct model *m, const bool *wanted) {
    uint64_t n = 0;
    for (int i = 0; i < m->graph.n_weights; i++) {
        const struct weight *w = &m->weight[i];
        if (wanted[i] && !weight_rows(w, p->k.op[w->type].rows)) n += w->n_bytes;
    }
    return n;
}

/* There is room for all of it, or as much as there is room for stays packed from before. */
static bool has_room(uint64_t n_bytes) {
    const uint64_t avail = n_bytes ? buf_available() : 0;
    if (!avail || n_bytes <= avail / 16 * 15) return true;
    log_info("packing the weights needs %" PRIu64 " bytes of memory and %" PRIu64
             " are available: they are used as they lie in the file, which is slower",
             n_bytes, avail);
    return false;
}

int model_pack(struct model **out, const struct model *of, const bool *only, enum kern_isa isa,
               struct pool *pool, struct err *e) {
    struct model *m = model_copy(of);
    struct packer *p = xcalloc(1, sizeof *p);
    bool *wanted = in_products(&m->graph);
    (void)e;
    p->pool = pool;
    kern_init(&p->k, isa);
    numa_read("", &p->numa);
    for (int i = 0; i < m->graph.n_weights; i++)
        wanted[i] = wanted[i] && (!only || only[i]) && can_pack(&p->k, &m->weight[i]);
    bool room = has_room(missing_bytes(p, m, wanted));
    for (int i = 0; i < m->graph.n_weights; i++) {
        struct weight *w = &m->weight[i];
        if (!wanted[i]) continue;
        w->pack_rows = p->k.op[w->type].rows;
        if (room)
            pack_one(p, w, &w->packed);
        else
            w->packed = weight_rows(w, w->pack_rows);
    }
    free(wanted);
    free(p);
    *out = m;
    return 0;
}

uint64_t model_packed_bytes(const struct model *m) {
    uint64_t sum = 0;
    for (int i = 0; i < m->graph.n_weights; i++)
        if (m->source[i] == i) sum += weight_packed_bytes(&m->weight[i]);
    return sum;
}
