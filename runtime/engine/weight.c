// SPDX-License-Identifier: MIT
/* runtime/engine/weight.c - reference-counted weights (weight.h). */
#include "runtime/engine/weight.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"

static struct weight_mem *mem_new(void) {
    struct weight_mem *m = xcalloc(1, sizeof *m);
    atomic_init(&m->n_refs, 1);
    (void)pthread_mutex_init(&m->lock, NULL); /* cannot fail with the default attributes */
    return m;
}

void weight_mem_keep(struct weight_mem *m) {
    atomic_fetch_add_explicit(&m->n_refs, 1, memory_order_relaxed);
}

void weight_mem_drop(struct weight_mem *m) {
    if (!m || atomic_fetch_sub_explicit(&m->n_refs, 1, memory_order_acq_rel) != 1) return;
    for (int i = 0; i < m->n_packed; i++) m->packed[i].release(m->packed[i].own);
    if (m->release) m->release(m->given);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

/* Initializes *w for these data; dimensions of 0 count as 1. */
static void fill_weight(struct weight *w, const void *data, enum qtype type, const int64_t ne[4]) {
    *w = (struct weight){.data = data, .type = type};
    for (int i = 0; i < 4; i++) w->ne[i] = ne[i] ? ne[i] : 1;
    w->row_bytes = qtype_row_bytes(type, w->ne[0]);
    w->mat_bytes = w->row_bytes * (uint64_t)w->ne[1];
    w->n_bytes = w->mat_bytes * (uint64_t)w->ne[2] * (uint64_t)w->ne[3];
}

void weight_of_file(struct weight *out, const struct gguf *g, const struct gguf_tensor *t) {
    fill_weight(out, t->data, t->type, t->ne);
    out->mem = mem_new();
    out->mem->file = g;
    out->mem->tensor = t;
}

int weight_given(struct weight *out, const struct weight *like, const char *name, void *data,
                 enum qtype type, void (*release)(void *), struct err *e) {
    if (qtype_info(type) == NULL)
        return err_set(e, ERR_USAGE, "tensor %s: unknown type %d", name, (int)type);
    if (!qtype_row_bytes(type, like->ne[0]))
        return err_set(e, ERR_DATA, "tensor %s: rows of %" PRId64 " weights cannot be stored as %s",
                       name, like->ne[0], qtype_name(type));
    fill_weight(out, data, type, like->ne);
    out->scale = like->scale;
    out->n_scales = like->n_scales;
    out->mem = mem_new();
    out->mem->given = data;
    out->mem->release = release;
    return 0;
}

void weight_keep(const struct weight *w) {
    weight_mem_keep(w->mem);
}

void weight_drop(struct weight *w) {
    weight_mem_drop(w->mem);
    *w = (struct weight){0};
}

const uint8_t *weight_rows(const struct weight *w, int rows) {
    const uint8_t *found = NULL;
    pthread_mutex_lock(&w->mem->lock);
    for (int i = 0; i < w->mem->n_packed; i++)
        if (w->mem->packed[i].rows == rows) found = w->mem->packed[i].data;
    pthread_mutex_unlock(&w->mem->lock);
    return found;
}

void weight_add_rows(const struct weight *w, const struct weight_rows *r) {
    struct weight_mem *m = w->mem;
    pthread_mutex_lock(&m->lock);
    bool fits = m->n_packed < WEIGHT_FORMS;
    for (int i = 0; i < m->n_packed; i++) fits = fits && m->packed[i].rows != r->rows;
    if (fits) m->packed[m->n_packed++] = *r;
    pthread_mutex_unlock(&m->lock);
    if (!fits) r->release(r->own);
}

uint64_t weight_packed_bytes(const struct weight *w, bool mapped) {
    uint64_t n = 0;
    pthread_mutex_lock(&w->mem->lock);
    for (int i = 0; i < w->mem->n_packed; i++)
        if (w->mem->packed[i].mapped == mapped) n += w->n_bytes;
    pthread_mutex_unlock(&w->mem->lock);
    return n;
}
