// SPDX-License-Identifier: MIT
/* runtime/engine/cuda/split.c - assignment of a session's layers to its devices.
 *
 * A layer's memory follows from its weights, its slots of keys and values, and its states; fit.h
 * decides the placement. Nodes before the first layer go with it, the final norm and the head with
 * the last. To measure a placement, the session is laid out accordingly; nothing is allocated
 * yet. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"
#include "runtime/engine/cuda/exec.h"
#include "runtime/engine/cuda/fit.h"

_Static_assert((int)SPLIT_CARDS == (int)CACHE_PLACES, "one cache place per card");
_Static_assert((int)DEVICES <= (int)CACHE_PLACES, "one cache place per device");

bool exec_cuda_here(const struct cuda *d, int node) {
    return exec_cuda_part_of(d->all, node) == d->place;
}
/* Returns whether part d has any layer. */
static bool is_busy(const struct cuda *d) {
    const struct cuda_set *all = d->all;
    for (int i = 0; i < all->n_layers; i++)
        if (all->part_of[i] == d->place) return true;
    return false;
}

/* ---- layers ---- */

/* Returns the layer that keeps the keys and values of a slot. */
static int keeper(const struct session *s, int slot) {
    return exec_cuda_all(s)->layer_of[s->g->facts.kv[slot].node];
}
/* Finds the i-th attention node. *at: its layer; *kept: the layer whose keys and values it
 * reads. */
static void attends(const struct session *s, int i, int *at, int *kept) {
    const struct gr_node *n = graph_nth(s->g, OP_ATTN, i);
    *at = exec_cuda_all(s)->layer_of[n - s->g->node];
    *kept = keeper(s, n->slot);
}

/* Marks the layers that must be on the same card as the previous layer because they share a
 * cache. */
static void join_layers(const struct session *s, struct split *p) {
    for (int i = 0, at, kept; i < graph_count(s->g, OP_ATTN); i++) {
        attends(s, i, &at, &kept);
        for (int k = kept + 1; k <= at; k++) p->layer[k].joined = true;
    }
}

/* Applies the layer placement of --place. Fails if it names a device that is not used. */
static int ask(const struct session *s, struct split *p, struct err *e) {
    const struct cuda_set *all = s->dev;
    for (int i = 0; i < all->n_layers; i++) {
        const int want = placement_layer(s->o.device.place, all->first_layer + i);
        int k = 0;
        p->layer[i].want = SPLIT_FREE;
        if (want == PLACE_ANY) continue;
        while (k < all->n && all->part[k]->info.index != want) k++;
        if (k == all->n)
            return err_set(e, ERR_USAGE,
                           "--place: block %d is placed on cuda:%d, which --device does not name",
                           all->first_layer + i, want);
        p->layer[i].want = (uint8_t)k;
    }
    return 0;
}

/* ---- bytes ---- */

/* Puts each layer on the part given by card_of (NULL: all on part `place`) and the head with the
 * last layer. */
static void lay(struct session *s, const uint8_t *card_of, int place) {
    struct cuda_set *all = s->dev;
    for (int i = 0; i < all->n_layers; i++) all->part_of[i] = card_of ? card_of[i] : (uint8_t)place;
    all->head = exec_cuda_part_of(all, s->g->n_nodes - 1);
}

/* Determines again how each weight is used; called after the split has changed. */
static void find_uses_anew(struct cuda *d) {
    for (int i = 0; i < d->s->g->n_weights; i++) {
        struct cuda_weight *w = &d->w[i];
        w->is_matrix = w->is_vec = w->is_product = w->is_read = false;
    }
    exec_cuda_find_uses(d);
}

/* Computes the memory of each layer on part d, as if that part had all layers. */
static void weigh(struct cuda *d, struct split *p) {
    struct session *s = d->s;
    const struct cuda_set *set = d->all;
    const int k = d->place;
    bool *seen = xcalloc((size_t)s->g->n_weights + 1, sizeof *seen);
    struct split_card *card = &p->card[k];
    struct cuda_plan all;
    lay(s, NULL, k);
    find_uses_anew(d);
    exec_cuda_plan(d, &all);
    *card = (struct split_card){.fixed = all.regs + all.work + all.scratch + all.stage +
                                         all.stream + s->cache.table_bytes,
                                .bandwidth = d->info.bandwidth};
    for (int i = 0; i < s->g->facts.n_uses; i++) {
        const struct gr_use *u = &s->g->facts.use[i];
        if (seen[u->w]) continue;
        seen[u->w] = true;
        p->layer[set->layer_of[u->node]].bytes[k] += exec_cuda_upload_bytes(d, u->w);
    }
    /* The embedding is counted a second time if it is also the head's matrix. */
    if (!seen[s->g->output])
        card->last += s->m->source[s->g->output] != s->g->output
                          ? model_weight(s->m, s->g->output)->n_bytes
                          : exec_cuda_upload_bytes(d, s->g->output);
    for (int i = 0; i < s->cache.kv.n_slots; i++)
        p->layer[keeper(s, i)].bytes[k] += cache_slot_bytes(&s->cache, i, s->o.n_ctx);
    for (int i = 0; i < s->cache.rec.n_slots; i++) {
        const struct rec_slot *r = &s->cache.rec.slot[i];
        p->layer[s->g->facts.rec[i].layer - set->first_layer].bytes[k] +=
            (uint64_t)(r->n_conv + r->n_delta) * sizeof(float) * (s->cache.keeps_spare ? 2 : 1);
    }
    free(seen);
}

/* ---- the decision ---- */

/* Assigns the keys, values and recurrent states of each layer to the layer's card. */
static void place_cache(struct session *s, const uint8_t *card_of) {
    uint8_t *kv = xcalloc((size_t)s->cache.kv.n_slots + 1, 1),
            *rec = xcalloc((size_t)s->cache.rec.n_slots + 1, 1);
    for (int i = 0; i < s->cache.kv.n_slots; i++) kv[i] = card_of[keeper(s, i)];
    for (int i = 0; i < s->cache.rec.n_slots; i++)
        rec[i] = card_of[s->g->facts.rec[i].layer - exec_cuda_all(s)->first_layer];
    cache_place(&s->cache, exec_cuda_all(s)->n, kv, rec);
    free(kv);
    free(rec);
}

/* Fails if layers that read the same keys and values are on different parts. */
static int check_joined(const struct session *s, struct err *e) {
    const struct cuda_set *all = s->dev;
    for (int i = 0, at, kept; i < graph_count(s->g, OP_ATTN); i++) {
        attends(s, i, &at, &kept);
        if (all->part_of[at] != all->part_of[kept])
            return err_set(e, ERR_USAGE,
                           "--place: blocks %d and %d read the same keys and values and must be "
                           "on one device",
                           all->first_layer + kept, all->first_layer + at);
    }
    return 0;
}

/* Applies a way's placement of experts and its pass length to the session. */
static void begin_way(struct session *s, const struct fit_way *w) {
    const struct cuda_set *all = s->dev;
    s->o.n_ubatch = w->n_ubatch;
    for (int i = 0; i < all->n; i++) all->part[i]->in.from = w->from;
    exec_cuda_leave_on_host(s, w->n_left);
}

/* Estimates the bytes of each layer under w, for split.h. */
static int estimate_layers(void *ud, const struct fit_way *w, struct split *to, struct err *e) {
    struct session *s = ud;
    const struct cuda_set *all = s->dev;
    begin_way(s, w);
    TRY(ask(s, to, e));
    join_layers(s, to);
    for (int i = 0; i < all->n; i++) weigh(all->part[i], to);
    return 0;
}

/* Applies a placement to the session. p: device memory of each part. */
static int lay_out(struct session *s, const struct fit_way *w, const uint8_t *card_of,
                   struct cuda_plan *p, struct err *e) {
    const struct cuda_set *all = s->dev;
    begin_way(s, w);
    lay(s, card_of, 0);
    place_cache(s, card_of);
    for (int i = 0; i < all->n; i++) find_uses_anew(all->part[i]);
    TRY(check_joined(s, e));
    for (int i = 0; i < all->n; i++) exec_cuda_plan(all->part[i], &p[i]);
    return 0;
}

/* Computes the exact bytes that each card needs for w and card_of. */
static int lay_out_cards(void *ud, const struct fit_way *w, const uint8_t *card_of,
                         struct fit_need *need, struct err *e) {
    struct cuda_plan p[CACHE_PLACES];
    TRY(lay_out(ud, w, card_of, p, e));
    for (int i = 0; i < exec_cuda_all(ud)->n; i++)
        need[i] = (struct fit_need){p[i].needed, p[i].rounding};
    return 0;
}

/* Returns the usable bytes of part d's device and, in *room, its total. */
static uint64_t may_use(const struct cuda *d, uint64_t *room) {
    const uint64_t keep = CU_KEEP_FREE + d->s->keep_free, is_free = d->info.mem_free;
    *room = is_free > keep ? is_free - keep : 0;
    return d->most ? min_u64(d->most, *room) : *room;
}

/* Returns the input for fit_decide: what the cards hold and what could be moved. */
static struct fit_ask ask_of(struct session *s) {
    const struct cuda_set *all = s->dev;
    struct fit_ask a = {.sizes = {s, estimate_layers, lay_out_cards},
                        .n_cards = all->n,
                        .n_layers = all->n_layers,
                        .stream_from = s->o.device.stream_from,
                        .usual_from = CUDA_STREAM_FROM,
                        /* Single tokens are captured and few tokens with 8-bit activations have
                           special kernels; both need the experts on the device. */
                        .least_from = s->o.act == ACT_F32 ? 2 : CU_FEW + 1,
                        .n_ctx = s->o.n_ctx,
                        .wanted_ubatch = min_i64(s->wanted_ubatch, CUDA_MOST_ROWS),
                        .any_ubatch = s->any_ubatch};
    for (int i = 0; i < all->n; i++) a.card[i].have = may_use(all->part[i], &a.card[i].room);
    exec_cuda_leave_on_host(s, INT_MAX);
    a.n_placed = all->n_placed;
    a.n_movable = all->n_on_host - all->n_placed;
    return a;
}

/* Sets the error, giving part d's need and its device's memory. */
static int too_large(const struct cuda *d, const struct cuda_plan *p, uint64_t have,
                     struct err *e) {
    const double mib = 1024.0 * 1024.0;
    char others[80] = "", name[300];
    if (p->others)
        snprintf(others, sizeof others, ", of %d more that share the weights %.0f",
                 d->s->o.n_followers, (double)p->others / mib);
    snprintf(name, sizeof name, d->all->n > 1 ? "%s (cuda:%d)" : "%s", d->info.name, d->info.index);
    return err_set(
        e, ERR_SYS,
        "%s has %.0f MiB free, of which %.0f may be used, and %.0f MiB are needed%s: weights "
        "%.0f, cache %.0f, states %.0f, activations %.0f%s. Use a smaller quantization, "
        "--ctx or cache type%s, or --device cpu",
        name, (double)d->info.mem_free / mib, (double)have / mib, (double)p->needed / mib,
        d->all->n_on_host ? " without the experts" : "", (double)(p->weights + p->stage) / mib,
        (double)p->kv / mib, (double)p->rec / mib, (double)(p->regs + p->work + p->scratch) / mib,
        others, d->most ? ", a larger --max-vram, fewer files at a time" : "");
}

/* Records which experts stay in main memory and logs their number. */
static void tell_split(struct session *s, const struct fit_ask *a, const struct cuda_plan *p) {
    const struct cuda *d = exec_cuda_head(s);
    uint64_t have = 0, stream = 0;
    char copies[128] = "";
    s->offload.n_blocks = d->all->n_on_host;
    s->offload.from = d->in.from;
    s->offload.n_bytes = 0;
    for (int i = 0; i < s->g->n_weights; i++)
        if (d->w[i].is_host) s->offload.n_bytes += (int64_t)model_weight(s->m, i)->n_bytes;
    for (int i = 0; i < d->all->n; i++) {
        have += a->card[i].have;
        stream += p[i].stream;
    }
    if (d->in.from)
        snprintf(copies, sizeof copies,
                 "; passes of %" PRId64 " tokens or more copy them to the device, through %" PRIu64
                 " MiB there",
                 d->in.from, stream >> 20);
    const int n = d->all->n_on_host - d->all->n_placed;
    if (n)
        log_info("the experts of %d block%s do not fit into the %" PRIu64
                 " MiB of %s that may be used: the CPU computes them%s",
                 n, str_s(n), have >> 20, d->info.name, copies);
    if (d->all->n_placed)
        log_info(
            "the experts of %d block%s stay in main memory, because of --place or because %s does "
            "not support them: the CPU computes them%s",
            d->all->n_placed, str_s(d->all->n_placed), d->info.name, copies);
}

/* Removes parts without layers, and moves later parts and their indices in the cache up. */
static void drop_idle(struct session *s) {
    struct cuda_set *all = s->dev;
    struct cuda *idle[CACHE_PLACES];
    uint8_t to[CACHE_PLACES] = {0};
    int n = 0, n_idle = 0;
    for (int i = 0; i < all->n; i++) {
        struct cuda *d = all->part[i];
        if (!is_busy(d)) {
            idle[n_idle++] = d;
            continue;
        }
        to[i] = (uint8_t)n;
        s->cache.state_bytes[n] = s->cache.state_bytes[i];
        all->part[n++] = d;
    }
    if (!n_idle) return;
    for (int i = 0; i < all->n_layers; i++) all->part_of[i] = to[all->part_of[i]];
    for (int i = 0; i < s->cache.kv.n_slots; i++)
        s->cache.pool[i].place = to[s->cache.pool[i].place];
    for (int i = 0; i < s->cache.rec.n_slots; i++)
        s->cache.rec.slot[i].place = to[s->cache.rec.slot[i].place];
    all->head = to[all->head];
    all->n = s->cache.n_places = n;
    for (int i = 0; i < n; i++) all->part[i]->place = i;
    for (int i = 0; i < n_idle; i++) exec_cuda_close_part(idle[i]);
}

/* Sets *w and card_of [n_layers] to the placement of the session s->o.like. Returns false if it
 * is NULL or does not use s's devices. */
static bool find_like(const struct session *s, struct fit_way *w, uint8_t *card_of) {
    const struct cuda_set *all = s->dev, *of = s->o.like ? s->o.like->dev : NULL;
    if (!of || of->n_layers != all->n_layers) return false;
    for (int i = 0; i < all->n_layers; i++) {
        const int device = of->part[of->part_of[i]]->info.index;
        int k = 0;
        while (k < all->n && all->part[k]->info.index != device) k++;
        if (k == all->n) return false;
        card_of[i] = (uint8_t)k;
    }
    *w =
        (struct fit_way){of->n_on_host - of->n_placed, of->part[0]->in.from, s->o.like->o.n_ubatch};
    return true;
}

/* Decides what is placed where (*f) and lays out every card (p); an error if nothing fits. */
static int settle_fit(struct session *s, struct fit *f, struct cuda_plan *p, struct err *e) {
    const struct cuda_set *all = s->dev;
    struct fit_ask a = ask_of(s);
    struct fit_way like;
    uint8_t *cards = xcalloc((size_t)all->n_layers + 1, 1);
    if (find_like(s, &like, cards)) {
        a.like = &like;
        a.like_cards = cards;
    }
    const int rc = fit_decide(&a, f, e);
    free(cards);
    if (rc) return rc;
    TRY(lay_out(s, &f->way, f->card_of, p, e));
    if (f->short_of >= 0)
        return too_large(all->part[f->short_of], &p[f->short_of], a.card[f->short_of].have, e);
    if (f->cannot_copy)
        log_info("%s has no room for copies of experts", exec_cuda_head(s)->info.name);
    if (all->n_on_host) tell_split(s, &a, p);
    return 0;
}

int exec_cuda_settle(struct session *s, struct cuda_plan p[CACHE_PLACES], struct err *e) {
    const struct cuda_set *all = s->dev;
    struct fit f = {.card_of = xcalloc((size_t)all->n_layers + 1, 1)};
    const int rc = settle_fit(s, &f, p, e);
    free(f.card_of);
    if (rc) return rc;
    drop_idle(s);
    for (int i = 0; i < all->n; i++) exec_cuda_plan(all->part[i], &p[i]);
    return all->n_on_host && !f.way.from ? exec_cuda_open_host(s, e) : 0;
}
