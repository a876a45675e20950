// SPDX-License-Identifier: MIT
/* runtime/engine/cuda/seq.c - conversion of a sequence's pages and states between a device and main
 * memory, for saving.
 *
 * The values are the same, without rounding, but the layouts differ. A device has planes of codes,
 * followed by their scales (kernels/cuda/args.h), and convolution inputs as a ring; main memory has
 * blocks and a tail (runtime/engine/state.h). */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "runtime/engine/cuda/exec.h"

/* Returns the device part that has the slot's cache. */
static struct cuda *part_of_slot(const struct session *s, int slot) {
    return exec_cuda_all(s)->part[s->cache.pool[slot].place];
}

/* ---- keys and values ---- */

/* Copies the 32 codes of a block if their order is the same in main memory and on the device. */
static void copy_codes(uint8_t *to, const uint8_t *from) {
    memcpy(to, from, 32);
}
/* Copies the codes of a q4_0 block: on the device a byte holds two neighbours, in the block two
 * values that are 16 apart. */
static void q4_to_block(uint8_t *to, const uint8_t *from) {
    for (int i = 0; i < 16; i++) {
        const unsigned low = (unsigned)from[i / 2] >> (i % 2 * 4) & 15u;
        const unsigned high = (unsigned)from[8 + i / 2] >> (i % 2 * 4) & 15u;
        to[i] = (uint8_t)(low | high << 4);
    }
}
/* Copies the 16 bytes of codes of a q4_0 block to the device's order, where neighbours share a
 * byte. */
static void q4_to_plane(uint8_t *to, const uint8_t *from) {
    for (int i = 0; i < 8; i++) {
        to[i] = (uint8_t)((from[2 * i] & 15u) | (from[2 * i + 1] & 15u) << 4);
        to[8 + i] = (uint8_t)(from[2 * i] >> 4 | (from[2 * i + 1] & 0xf0u));
    }
}
/* Types of keys and values (KV_ON_CUDA) that a device stores in planes. A block of 32 values is an
 * f16 scale followed by n_codes bytes, one byte or half a byte per value. Other types are plain
 * numbers with the same layout on both sides. */
static const struct planar {
    size_t n_codes;
    void (*to_block)(uint8_t *to, const uint8_t *from);
    void (*to_plane)(uint8_t *to, const uint8_t *from);
} planar[] = {{32, copy_codes, copy_codes}, {16, q4_to_block, q4_to_plane}};

enum { VALUES = 32, SCALE_BYTES = 2 };

/* Converts n bytes of keys or values between the two layouts; `to` and `from` must not overlap. */
static void convert(enum qtype type, uint8_t *to, const uint8_t *from, uint64_t n, bool to_plane) {
    const struct planar *p = NULL;
    for (size_t i = 0; i < COUNT_OF(planar); i++)
        if (qtype_row_bytes(type, VALUES) == SCALE_BYTES + planar[i].n_codes) p = &planar[i];
    if (!p) { /* Plain numbers have one layout. */
        memcpy(to, from, (size_t)n);
        return;
    }
    const size_t block = SCALE_BYTES + p->n_codes, n_blocks = (size_t)n / block;
    /* bytes of codes before the plane's scales */
    const size_t scales = n_blocks * p->n_codes;
    for (size_t b = 0; b < n_blocks; b++) {
        const size_t in_plane = b * p->n_codes, in_rows = b * block;
        if (to_plane) {
            memcpy(to + scales + b * SCALE_BYTES, from + in_rows, SCALE_BYTES);
            p->to_plane(to + in_plane, from + in_rows + SCALE_BYTES);
        } else {
            memcpy(to + in_rows, from + scales + b * SCALE_BYTES, SCALE_BYTES);
            p->to_block(to + in_rows + SCALE_BYTES, from + in_plane);
        }
    }
}
/* Converts a page between the host's layout and the device's planes (to_plane). */
static void convert_page(const struct cache *c, int slot, uint8_t *to, const uint8_t *from,
                         bool to_plane) {
    const struct kv_slot *s = &c->kv.slot[slot];
    const uint64_t rows = (uint64_t)(s->n_heads * c->page_tok), keys = rows * s->k_row;
    convert(s->kt->type, to, from, keys, to_plane);
    convert(s->vt->type, to + keys, from + keys, rows * s->v_row, to_plane);
}

int exec_cuda_get_page(const struct session *s, int slot, const struct page *page, uint8_t *to,
                       struct err *e) {
    const uint64_t n = s->cache.pool[slot].page_bytes;
    void *raw = NULL;
    TRY(mem_alloc(&raw, n, "a page of keys and values", e));
    struct cu_stream *q = part_of_slot(s, slot)->q;
    int rc = cu_download(q, raw, page->data, n, e);
    if (!rc) rc = cu_sync(q, e);
    if (!rc) convert_page(&s->cache, slot, to, raw, false);
    mem_free(raw);
    return rc;
}

int exec_cuda_put_page(const struct session *s, int slot, const struct page *page,
                       const uint8_t *from, struct err *e) {
    const uint64_t n = s->cache.pool[slot].page_bytes;
    void *raw = NULL;
    TRY(mem_alloc(&raw, n, "a page of keys and values", e));
    convert_page(&s->cache, slot, raw, from, true);
    struct cu_stream *q = part_of_slot(s, slot)->q;
    int rc = cu_upload(q, page->data, raw, n, e);
    if (!rc) rc = cu_sync(q, e);
    mem_free(raw);
    return rc;
}

/* ---- states ---- */

/* Converts q's states between the devices' layout in `there`, with the parts one after the other,
 * and main memory's layout in `here`. */
static void convert_states(const struct session *s, const struct seq *q, float *there, float *here,
                           bool to_device) {
    const struct rec *rec = &s->cache.rec;
    float *part[CACHE_PLACES];
    for (int i = 0; i < s->cache.n_places; i++) {
        part[i] = there;
        there += s->cache.state_bytes[i] / sizeof *there;
    }
    for (int i = 0; i < rec->n_slots; i++) {
        const struct gr_rec *r = &s->g->facts.rec[i];
        const size_t row = (size_t)r->n_channels * sizeof *here,
                     scan = (size_t)r->n_scan * sizeof *here;
        float *ring = part[rec->slot[i].place] + rec->slot[i].at,
              *delta = ring + rec->slot[i].n_conv;
        for (int64_t k = 1; k < r->conv_width && r->n_conv; k++, here += r->n_channels) {
            /* position of this input in the sequence */
            const int64_t pos = q->pos - r->conv_width + k;
            float *in = ring + (pos < 0 ? 0 : pos % r->conv_width) * r->n_channels;
            if (pos < 0)
                memset(here, 0, row); /* inputs before the start of the text are 0 */
            else
                memcpy(to_device ? in : here, to_device ? here : in, row);
        }
        memcpy(to_device ? delta : here, to_device ? here : delta, scan);
        here += r->n_scan;
    }
}

/* Copies all states of q between the parts and `raw`, which has the parts one after the other. */
static int copy_states(const struct session *s, const struct seq *q, float *raw, bool to_device,
                       struct err *e) {
    for (int i = 0; i < s->cache.n_places; i++) {
        const struct cuda *d = exec_cuda_all(s)->part[i];
        const uint64_t n = s->cache.state_bytes[i];
        if (!n) continue;
        if (to_device)
            TRY(cu_upload(d->q, q->mem[i].state, raw, n, e));
        else
            TRY(cu_download(d->q, raw, q->mem[i].state, n, e));
        TRY(cu_sync(d->q, e));
        raw += n / sizeof *raw;
    }
    return 0;
}

int exec_cuda_get_states(const struct session *s, const struct seq *q, float *to, struct err *e) {
    void *raw = NULL;
    TRY(mem_alloc(&raw, s->cache.rec.n_bytes, "recurrent state", e));
    const int rc = copy_states(s, q, raw, false, e);
    if (!rc) convert_states(s, q, raw, to, false);
    mem_free(raw);
    return rc;
}

int exec_cuda_put_states(const struct session *s, const struct seq *q, float *from, struct err *e) {
    const uint64_t n = s->cache.rec.n_bytes;
    void *raw = NULL;
    TRY(mem_alloc(&raw, n, "recurrent state", e));
    memset(raw, 0, (size_t)n);
    convert_states(s, q, raw, from, true);
    const int rc = copy_states(s, q, raw, true, e);
    mem_free(raw);
    return rc;
}
