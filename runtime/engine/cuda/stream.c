// SPDX-License-Identifier: MIT
/* runtime/engine/cuda/stream.c - experts in main memory, copied to the device for passes of many
 * tokens.
 *
 * Copying a matrix is a step of the program (STEP_BRING). The node that computes with the matrices
 * is split into one step for each. Three slots, for gate, up and down, hold a block's matrices in
 * the same layouts as resident weights, so the same kernels read the same bytes. The source is the
 * mapped model file. Threads copy the rows chunk by chunk to pinned memory (so a truncated file
 * faults in our own code); the device fetches and packs them. Chunks alternate between two lanes,
 * each a stream with its own pinned memory: while a chunk of one lane is packed or filled, a chunk
 * of the other is in transit. A lane waits until the previous block has used the slot; the device's
 * main stream waits until the slot is full. Copies therefore overlap with everything queued in
 * between.
 *
 * Main memory: two pinned chunks of at most PIECE bytes. */
#include <string.h>

#include "base/num.h"
#include "runtime/engine/cuda/exec.h"

static const uint64_t PIECE = UINT64_C(8) << 20;
enum { PIECES = 4 }; /* minimum number of chunks per weight */

/* Returns the number of rows of a weight that must stay together when packed: 16, or all rows of a
 * matrix whose row count is not a multiple of 16. */
static int64_t unit(const struct weight *w) {
    return w->ne[1] % 16 == 0 ? 16 : w->ne[1];
}
/* Returns the rows of all the weight's matrices. */
static int64_t n_rows(const struct weight *w) {
    return w->ne[1] * w->ne[2];
}
/* Returns the number of rows per chunk of a weight. */
static int64_t per_piece(const struct weight *w) {
    const int64_t u = unit(w), fit = (int64_t)(PIECE / w->row_bytes);
    return max_i64(1, min_i64(fit, n_rows(w) / PIECES) / u) * u;
}
/* Returns the aligned size of a chunk of the weight's copy. */
static uint64_t piece_bytes(const struct weight *w) {
    return round_up((uint64_t)per_piece(w) * w->row_bytes, CUDA_ALIGN);
}

uint64_t exec_cuda_stream_plan(struct cuda *d) {
    struct session *s = d->s;
    struct cuda_arrivals *in = &d->in;
    uint64_t sum = 0;
    in->piece = in->raw = 0;
    for (int k = 0; k < 3; k++) in->slot[k].n_bytes = 0;
    for (int i = 0; i < s->g->facts.n_uses && in->from; i++) {
        const struct gr_use *u = &s->g->facts.use[i];
        if (!d->all->on_host[u->node] || !gr_roles[u->role].expert || !exec_cuda_here(d, u->node))
            continue;
        const struct weight *w = model_weight(s->m, u->w);
        const struct cuda_forms f = exec_cuda_forms(d, u->w);
        uint64_t *room = &in->slot[u->role - USE_EXP_GATE].n_bytes;
        in->piece = max_u64(in->piece, piece_bytes(w));
        if (!f.plain) in->raw = max_u64(in->raw, piece_bytes(w));
        *room = max_u64(*room, round_up(f.plain + f.packed, CUDA_ALIGN));
    }
    for (int k = 0; k < 3; k++) sum += in->slot[k].n_bytes;
    return sum + 2 * in->raw;
}

int exec_cuda_stream_open(struct cuda *d, struct err *e) {
    struct cuda_arrivals *in = &d->in;
    if (!in->from) return 0;
    TRY(cu_buf_new(&in->buf, d->ctx, exec_cuda_stream_plan(d), "copies of experts", e));
    uint8_t *at = cu_buf_ptr(in->buf);
    for (int k = 0; k < 3; k++) {
        TRY(cu_event_new(&in->slot[k].read, d->ctx, e));
        in->slot[k].at = at;
        at += in->slot[k].n_bytes;
    }
    for (int i = 0; i < 2; i++) {
        struct cuda_lane *l = &in->lane[i];
        TRY(cu_stream_new(&l->q, d->ctx, e));
        TRY(cu_event_new(&l->copied, d->ctx, e));
        TRY(cu_event_new(&l->done, d->ctx, e));
        TRY(cu_host_new(&l->pinned, d->ctx, in->piece, "copies of experts", e));
        l->raw = at;
        at += in->raw;
    }
    return 0;
}

void exec_cuda_stream_close(struct cuda *d) {
    for (int i = 0; i < 2; i++) {
        struct cuda_lane *l = &d->in.lane[i];
        cu_stream_free(l->q);
        cu_event_free(l->copied);
        cu_event_free(l->done);
        cu_host_free(d->ctx, l->pinned);
    }
    for (int k = 0; k < 3; k++) cu_event_free(d->in.slot[k].read);
    cu_buf_free(d->in.buf);
}

/* Returns whether a weight fits into a slot. A weight set by session_use may be too large, or of a
 * type that only the CPU supports. */
static bool has_room(const struct cuda *d, int slot, gr_w of) {
    const struct cuda_arrivals *in = &d->in;
    if (of == GR_NONE) return true;
    const struct weight *w = model_weight(d->s->m, of);
    const struct cuda_forms f = exec_cuda_forms(d, of);
    return cu_has_type(w->type) && f.plain + f.packed <= in->slot[slot].n_bytes &&
           piece_bytes(w) <= in->piece && (f.plain || piece_bytes(w) <= in->raw);
}

bool exec_cuda_can_bring(const struct session *s, const struct gr_node *n) {
    const struct cuda_set *all = s->dev;
    const struct cuda *d = all->part[exec_cuda_part_of(all, (int)(n - s->g->node))];
    if (!all->on_host[n - s->g->node] || !d->in.from || s->n_tok < d->in.from) return false;
    if (!exec_cuda_has_experts(&n->moe)) return false;
    return has_room(d, 0, n->moe.gate) && has_room(d, 1, n->moe.up) && has_room(d, 2, n->moe.down);
}

/* Queues the copy and packing of rows [r, r + n) of all matrices of a weight, with destination
 * w. */
static int piece(struct cuda *d, const struct weight *src, const struct cu_weight *w, int64_t r,
                 int64_t n, struct err *e) {
    struct cuda_lane *l = &d->in.lane[d->in.turn++ & 1];
    const uint64_t n_bytes = (uint64_t)n * src->row_bytes, at = (uint64_t)r * src->row_bytes;
    TRY(cu_event_sync(l->copied, e));
    pool_copy(d->s->o.pool, l->pinned, (const uint8_t *)src->data + at, n_bytes);
    uint8_t *to = w->data ? (uint8_t *)(uintptr_t)w->data + at : l->raw;
    TRY(cu_upload(l->q, to, l->pinned, n_bytes, e));
    TRY(cu_event_record(l->copied, l->q, e));
    if (!w->packed) return 0;
    /* Pieces are whole matrices if rows do not divide into groups of 16. */
    const bool whole = w->rows % 16 != 0;
    struct cu_weight part = *w;
    part.mats = whole ? n / w->rows : 1;
    part.rows = whole ? w->rows : n;
    part.data = to;
    const uint64_t per_unit = cu_packed_bytes(w) / (uint64_t)(n_rows(src) / unit(src));
    part.packed = (uint8_t *)w->packed + per_unit * (uint64_t)(r / unit(src));
    return cu_pack_weight(l->q, &part, e);
}

/* Returns the role of the expert matrices in the slot: gate, up or down. */
static enum gr_role role_of_slot(int slot) {
    return (enum gr_role)(USE_EXP_GATE + slot);
}

/* Returns the weight of a node for slot k (gate, up, down), or GR_NONE. */
static gr_w weight_of(const struct gr_node *n, int k) {
    const gr_w of[] = {n->moe.gate, n->moe.up, n->moe.down};
    return of[k];
}

int exec_cuda_bring(struct cuda *d, const struct step *p, struct err *e) {
    struct cuda_arrivals *in = &d->in;
    const int k = (int)(p->role - USE_EXP_GATE);
    const gr_w of = weight_of(&d->s->g->node[p->first], k);
    const struct cuda_slot *slot = &in->slot[k];
    const struct weight *src = model_weight(d->s->m, of);
    const struct cuda_forms f = exec_cuda_forms(d, of);
    struct cu_weight *w = &d->w[of].w;
    *w = exec_cuda_shape(src);
    w->data = f.plain ? slot->at : NULL;
    w->packed = f.packed ? slot->at + f.plain : NULL;
    for (int i = 0; i < 2; i++) TRY(cu_event_wait(slot->read, in->lane[i].q, e));
    const int64_t step = per_piece(src), all = n_rows(src);
    for (int64_t r = 0; r < all; r += step) TRY(piece(d, src, w, r, min_i64(step, all - r), e));
    for (int i = 0; i < 2; i++) {
        TRY(cu_event_record(in->lane[i].done, in->lane[i].q, e));
        TRY(cu_event_wait(in->lane[i].done, d->q, e));
    }
    return 0;
}

int exec_cuda_brought(struct cuda *d, const struct step *p, struct err *e) {
    for (int k = 0; k < 3; k++)
        if (step_part_of(role_of_slot(k)) == p->part &&
            weight_of(&d->s->g->node[p->first], k) != GR_NONE)
            TRY(cu_event_record(d->in.slot[k].read, d->q, e));
    return 0;
}
