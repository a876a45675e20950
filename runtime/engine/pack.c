// SPDX-License-Identifier: MIT
/* runtime/engine/pack.c - packing of weights for matrix products (kernels/pack.h).
 *
 * Each tensor is packed into separate memory (huge pages, spread over all NUMA nodes), and its
 * pages in the file mapping are released, so that resident memory grows by at most one tensor. f32
 * sessions, probes and embeddings can still read the original blocks through the mapping. Packed
 * rows belong to the weight (weight.h): they are created once, under its lock. Each session that
 * packs uses them through its own immutable model. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/numa.h"
#include "base/printable.h"
#include "base/progress.h"
#include "kernels/kern.h"
#include "kernels/pack.h"
#include "runtime/engine/pack.h"
#include "runtime/engine/pack_cache.h"

/* Rows are packed in groups of up to 32. If gate and up are joined in one tensor, each half must
 * consist of whole groups. */
enum { ROW_MULTIPLE = 32, GROUPS_PER_TASK = 16 };

/* Returns whether the instruction set multiplies packed rows of this weight. */
static bool can_pack(const struct kern *k, const struct weight *w) {
    return k->op[w->type].gemm && kern_packs(w->type) && w->ne[1] % ROW_MULTIPLE == 0 && w->data;
}

/* Returns, for each weight, whether it enters matrix products; the caller frees the array. */
static bool *in_products(const struct graph *g) {
    bool *wanted = xcalloc((size_t)g->n_weights, sizeof *wanted);
    for (int i = 0; i < g->facts.n_uses; i++) /* routers stay exact and are not counted */
        wanted[g->facts.use[i].w] |= gr_roles[g->facts.use[i].role].product;
    wanted[g->output] = true;
    return wanted;
}

/* ---- rows ---- */

int64_t pack_groups(const struct pack_item *it) {
    return it->w->ne[1] * it->w->ne[2] * it->w->ne[3] / it->rows;
}

uint64_t pack_group_bytes(const struct pack_item *it) {
    return (uint64_t)it->rows * it->w->row_bytes;
}

void pack_range(const struct pack_item *it, int64_t g0, int64_t g1, uint8_t *dst) {
    const struct weight *w = it->w;
    const uint64_t group = pack_group_bytes(it);
    const int64_t n_blocks = w->ne[0] / qtype_info(w->type)->block_elems;
    for (int64_t g = g0; g < g1; g++)
        kern_pack(w->type, it->rows, (const uint8_t *)w->data + (uint64_t)g * group, w->row_bytes,
                  n_blocks, dst + (uint64_t)(g - g0) * group);
}

struct job {
    struct pack_item it;
    uint8_t *dst;
};
/* Packs groups g0 to g1 - 1; a pool_fn. */
static void pack_task(void *ctx, int64_t g0, int64_t g1, int worker) {
    const struct job *j = ctx;
    (void)worker;
    pack_range(&j->it, g0, g1, j->dst + (uint64_t)g0 * pack_group_bytes(&j->it));
}

struct packer {
    struct kern k;
    struct numa numa;
    struct pool *pool;
};

/* Sets *out to the packed rows of w, packing them if this has not been done yet; a concurrent
 * caller waits. *out is NULL if memory is short. */
static void pack_one(struct packer *p, const struct weight *w, const uint8_t **out) {
    struct weight_mem *mem = w->mem;
    struct job j = {.it = {.w = w, .rows = p->k.op[w->type].rows}};
    struct err e;
    void *to = NULL;
    *out = NULL;
    pthread_mutex_lock(&mem->lock);
    for (int i = 0; i < mem->n_packed; i++)
        if (mem->packed[i].rows == j.it.rows) *out = mem->packed[i].data;
    if (!*out && mem->n_packed < WEIGHT_FORMS && !mem_alloc(&to, w->n_bytes, "packed rows", &e)) {
        j.dst = to;
        if (p->numa.n > 1) (void)numa_spread(&p->numa, to, w->n_bytes);
        pool_for(p->pool, pack_groups(&j.it), GROUPS_PER_TASK, pack_task, &j);
        mem->packed[mem->n_packed++] =
            (struct weight_rows){.rows = j.it.rows, .data = to, .own = to, .release = mem_free};
        *out = to;
        if (mem->tensor) gguf_drop(mem->file, mem->tensor);
    }
    pthread_mutex_unlock(&mem->lock);
}

/* Returns how much memory packing the wanted weights takes, not counting those already packed. */
static uint64_t missing_bytes(const struct packer *p, const struct model *m, const bool *wanted) {
    uint64_t n = 0;
    for (int i = 0; i < m->graph.n_weights; i++) {
        const struct weight *w = &m->weight[i];
        if (wanted[i] && !weight_rows(w, p->k.op[w->type].rows)) n += w->n_bytes;
    }
    return n;
}

/* Returns whether n_bytes more fit in memory besides keep_free bytes; logs a message if not. */
static bool has_room(uint64_t n_bytes, uint64_t keep_free) {
    const uint64_t avail = n_bytes ? buf_available() : 0;
    if (!avail || (keep_free < avail && n_bytes <= (avail - keep_free) / 16 * 15)) return true;
    log_info("packing the weights needs %s of memory but only %s is available: they are used "
             "unpacked, which is slower",
             show_bytes(n_bytes).s, show_bytes(avail > keep_free ? avail - keep_free : 0).s);
    return false;
}

/* Returns, for each weight, whether to pack it; the caller frees the array. */
static bool *choose(const struct model *m, const struct packer *p, const bool *only) {
    bool *wanted = in_products(&m->graph);
    for (int i = 0; i < m->graph.n_weights; i++)
        wanted[i] = wanted[i] && (!only || only[i]) && can_pack(&p->k, &m->weight[i]);
    return wanted;
}

int model_pack(struct model **out, const struct model *of, const struct pack_opts *o,
               struct err *e) {
    struct packer *p = xcalloc(1, sizeof *p);
    int rc = 0;
    p->pool = o->pool;
    kern_init(&p->k, o->isa);
    numa_read("", &p->numa);
    if (o->cache)
        rc = pack_cache_attach(of->of ? of->of : of, o->cache, &p->k, o->pool, !o->only, e);
    if (rc) {
        free(p);
        return rc;
    }
    struct model *m = model_copy(of);
    bool *wanted = choose(m, p, o->only);
    int n_without = 0;
    const bool room = has_room(missing_bytes(p, m, wanted), o->keep_free);
    for (int i = 0; i < m->graph.n_weights && !rc; i++) {
        struct weight *w = &m->weight[i];
        if (!wanted[i]) continue;
        if (!o->only && progress_interrupted()) rc = err_set(e, ERR_INTR, "interrupted");
        w->pack_rows = p->k.op[w->type].rows;
        if (room)
            pack_one(p, w, &w->packed);
        else
            w->packed = weight_rows(w, w->pack_rows);
        n_without += !w->packed;
    }
    if (room && n_without)
        log_info("%d weights are used unpacked, which is slower: memory is short", n_without);
    free(wanted);
    free(p);
    if (rc)
        model_close(m);
    else
        *out = m;
    return rc;
}

uint64_t model_packed_bytes(const struct model *m, bool mapped) {
    uint64_t sum = 0;
    for (int i = 0; i < m->graph.n_weights; i++)
        if (m->source[i] == i) sum += weight_packed_bytes(&m->weight[i], mapped);
    return sum;
}

/* ---- contents of a file of packed rows ---- */

/* Sets want[] for the tensors of `of` that products read and kernels can pack. */
static void mark_products(const struct model *m, const struct model *of, const struct kern *k,
                          bool *want) {
    bool *product = in_products(&m->graph);
    for (int i = 0; i < m->graph.n_weights; i++) {
        const struct weight *w = &m->weight[i];
        if (product[i] && can_pack(k, w) && w->mem->tensor && w->mem->file == of->gguf)
            want[w->mem->tensor - gguf_tensor_at(of->gguf, 0)] = true;
    }
    free(product);
}

int pack_list(struct pack_list *l, const struct model *of, const struct kern *k, struct err *e) {
    const int64_t n = gguf_n_tensors(of->gguf);
    bool *want = xcalloc((size_t)n + 1, sizeof *want);
    struct model *draft = NULL;
    int rc = 0;
    *l = (struct pack_list){0};
    mark_products(of, of, k, want);
    if (of->arch->drafts && of->hp.d[HD_MTP] > 0) rc = model_open_draft(&draft, of, e);
    if (draft) mark_products(draft, of, k, want);
    model_close(draft);
    l->item = xcalloc((size_t)n + 1, sizeof *l->item);
    for (int64_t i = 0; i < n; i++) {
        const struct weight *w = &of->tensor[i];
        if (want[i])
            l->item[l->n++] =
                (struct pack_item){gguf_tensor_at(of->gguf, i)->name, w, k->op[w->type].rows};
    }
    free(want);
    return rc;
}
