// SPDX-License-Identifier: MIT
/* runtime/pack.c - weights of matrix products moved into packed rows (kernels/pack.h).
 *
 * Each tensor is copied to memory of its own (huge pages, from all memory nodes), rearranged, and
 * the file's pages are given back: resident memory stays what it was, one tensor more at a time.
 * The file's blocks remain reachable through the map, so f32 sessions, probes and embeddings read
 * them as before. */
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
    return k->op[w->type].gemm && kern_packs(w->type) && w->ne[1] % ROW_MULTIPLE == 0 && w->data &&
           !w->packed;
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

static int pack_one(struct model *m, int i, const struct kern *k, const struct numa *numa,
                    struct pool *pool, struct err *e) {
    struct weight *w = &m->weight[i];
    struct job j = {.w = w, .rows = k->op[w->type].rows};
    void *mem = NULL;
    TRY(buf_alloc(&mem, w->n_bytes, m->graph.weight[i].name, e));
    j.dst = mem;
    if (numa->n > 1) (void)numa_spread(numa, mem, w->n_bytes);
    pool_for(pool, w->ne[1] * w->ne[2] * w->ne[3] / j.rows, GROUPS_PER_TASK, pack_range, &j);
    w->packed = mem;
    w->pack_rows = j.rows;
    const struct gguf_tensor *t = gguf_find_tensor(m->gguf, m->graph.weight[m->source[i]].name);
    if (t && t->data == w->data) gguf_drop(m->gguf, t);
    return 0;
}

/* Packed rows of the model that a draft belongs to. */
static void borrow(struct model *m) {
    for (int i = 0; m->of && i < m->graph.n_weights; i++)
        for (int k = 0; k < m->of->graph.n_weights && !m->weight[i].packed; k++) {
            const struct weight *w = &m->of->weight[k];
            if (!w->packed || w->data != m->weight[i].data) continue;
            m->weight[i].packed = w->packed;
            m->weight[i].pack_rows = w->pack_rows;
            m->weight[i].lent = true;
        }
}

int model_pack(struct model *m, const bool *only, enum kern_isa isa, struct pool *pool,
               struct err *e) {
    struct kern *k = xcalloc(1, sizeof *k);
    struct numa numa;
    kern_init(k, isa);
    numa_read("", &numa);
    bool *wanted = in_products(&m->graph);
    uint64_t n_bytes = 0, avail = mem_available();
    int rc = 0;
    borrow(m);
    for (int i = 0; i < m->graph.n_weights; i++) {
        wanted[i] = wanted[i] && (!only || only[i]) && can_pack(k, &m->weight[i]);
        if (wanted[i]) n_bytes += m->weight[i].n_bytes;
    }
    if (avail && n_bytes > avail / 16 * 15) {
        log_info("packing the weights needs %" PRIu64 " bytes of memory and %" PRIu64
                 " are available: they are used as they lie in the file, which is slower",
                 n_bytes, avail);
        n_bytes = 0;
    }
    for (int i = 0; i < m->graph.n_weights && n_bytes && !rc; i++)
        if (wanted[i]) rc = pack_one(m, i, k, &numa, pool, e);
    free(wanted);
    free(k);
    return rc;
}

uint64_t model_packed_bytes(const struct model *m) {
    uint64_t sum = 0;
    for (int i = 0; i < m->graph.n_weights; i++)
        if (m->weight[i].packed && !m->weight[i].lent) sum += m->weight[i].n_bytes;
    return sum;
}

void model_unpack(struct model *m) {
    for (int i = 0; i < m->graph.n_weights && m->weight; i++) {
        if (!m->weight[i].lent) buf_free(m->weight[i].packed);
        m->weight[i].packed = NULL;
        m->weight[i].lent = false;
    }
}
