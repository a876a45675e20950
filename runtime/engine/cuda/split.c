// SPDX-License-Identifier: MIT
/* runtime/engine/cuda/split.c - layers spread over the devices of a session. What a layer
 * takes follows from its weights, its slots of keys and values and its states; where the layers
 * then go is models/split.h's. What comes before the first layer lies with it, final norm and head
 * with the last one. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "models/split.h"
#include "runtime/engine/cuda/exec.h"

_Static_assert((int)SPLIT_CARDS == (int)CACHE_PLACES, "a card is a place of the cache");
_Static_assert((int)DEVICES <= (int)CACHE_PLACES, "and so is a device");

static struct cuda *dev(const struct session *s) {
    return s->dev;
}

/* ---- parts in turn ---- */

void exec_cuda_at(struct session *s, int i) {
    const struct cuda_set *all = dev(s)->all;
    if (i < all->n) s->dev = all->part[i];
}
int exec_cuda_first(struct session *s) {
    exec_cuda_at(s, 0);
    return 0;
}
bool exec_cuda_goes_on(struct session *s, int i) {
    if (i < dev(s)->all->n) return true;
    exec_cuda_at(s, dev(s)->all->head);
    return false;
}
bool exec_cuda_here(const struct session *s, int node) {
    return exec_cuda_part_of(dev(s)->all, node) == dev(s)->place;
}
bool exec_cuda_busy(const struct session *s) {
    const struct cuda_set *all = dev(s)->all;
    for (int i = 0; i < all->n_layers; i++)
        if (all->part_of[i] == dev(s)->place) return true;
    return false;
}

/* ---- layers ---- */

/* Returns the layer that keeps the keys and values of a slot. */
static int keeper(const struct session *s, int slot) {
    return dev(s)->all->layer_of[s->g->facts.kv[slot].node];
}
/* Finds the i-th node of attention: *at is the layer it is in, *kept the layer whose keys and
 * values it reads. */
static void attends(const struct session *s, int i, int *at, int *kept) {
    const struct gr_node *n = graph_nth(s->g, OP_ATTN, i);
    *at = dev(s)->all->layer_of[n - s->g->node];
    *kept = keeper(s, n->slot);
}

static void join_layers(const struct session *s, struct split *p) {
    for (int i = 0, at, kept; i < graph_count(s->g, OP_ATTN); i++) {
        attends(s, i, &at, &kept);
        for (int k = kept + 1; k <= at; k++) p->layer[k].joined = true;
    }
}

/* Takes over where --place wants layers to lie. Fails when that names a device that is not used. */
static int ask(const struct session *s, struct split *p, struct err *e) {
    const struct cuda_set *all = dev(s)->all;
    for (int i = 0; i < all->n_layers; i++) {
        const int want = placement_layer(s->o.device.place, all->first_layer + i);
        int k = 0;
        p->layer[i].want = SPLIT_FREE;
        if (want == PLACE_ANY) continue;
        while (k < all->n && all->part[k]->info.index != want) k++;
        if (k == all->n)
            return err_set(e, ERR_USAGE,
                           "--place: block %d shall lie on cuda:%d, which --device does not name",
                           all->first_layer + i, want);
        p->layer[i].want = (uint8_t)k;
    }
    return 0;
}

/* ---- bytes ---- */

/* Puts each layer on the part that card_of names, and the head with the last layer. With NULL all
 * layers go to the part at work. */
static void lay(struct session *s, const uint8_t *card_of) {
    struct cuda_set *all = dev(s)->all;
    for (int i = 0; i < all->n_layers; i++)
        all->part_of[i] = card_of ? card_of[i] : (uint8_t)dev(s)->place;
    all->head = exec_cuda_part_of(all, s->g->n_nodes - 1);
}

static void find_uses_anew(struct session *s) {
    for (int i = 0; i < s->g->n_weights; i++) {
        struct cuda_weight *w = &dev(s)->w[i];
        w->is_matrix = w->is_vec = w->is_product = w->is_read = false;
    }
    exec_cuda_find_uses(s);
}

/* Computes what each layer takes of the part at work, as if all layers lay there. */
static void weigh(struct session *s, struct split *p) {
    const struct cuda_set *set = dev(s)->all;
    const int k = dev(s)->place;
    bool *seen = xcalloc((size_t)s->g->n_weights + 1, sizeof *seen);
    struct split_card *card = &p->card[k];
    struct cuda_plan all;
    lay(s, NULL);
    find_uses_anew(s);
    exec_cuda_plan(s, &all);
    *card = (struct split_card){.have = card->have,
                                .fixed = all.regs + all.work + all.scratch + all.stage +
                                         all.stream + s->cache.table_bytes,
                                .bandwidth = dev(s)->info.bandwidth};
    for (int i = 0; i < s->g->facts.n_uses; i++) {
        const struct gr_use *u = &s->g->facts.use[i];
        if (seen[u->w]) continue;
        seen[u->w] = true;
        p->layer[set->layer_of[u->node]].bytes[k] += exec_cuda_upload_bytes(s, u->w);
    }
    /* The embedding counts once more where it is the matrix of the head, too. */
    if (!seen[s->g->output])
        card->last += s->m->source[s->g->output] != s->g->output
                          ? model_weight(s->m, s->g->output)->n_bytes
                          : exec_cuda_upload_bytes(s, s->g->output);
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

static void place_cache(struct session *s, const uint8_t *card_of) {
    uint8_t *kv = xcalloc((size_t)s->cache.kv.n_slots + 1, 1),
            *rec = xcalloc((size_t)s->cache.rec.n_slots + 1, 1);
    for (int i = 0; i < s->cache.kv.n_slots; i++) kv[i] = card_of[keeper(s, i)];
    for (int i = 0; i < s->cache.rec.n_slots; i++)
        rec[i] = card_of[s->g->facts.rec[i].layer - dev(s)->all->first_layer];
    cache_place(&s->cache, dev(s)->all->n, kv, rec);
    free(kv);
    free(rec);
}

/* Fails when layers that read the same keys and values were put on different parts. */
static int check_joined(const struct session *s, struct err *e) {
    const struct cuda_set *all = dev(s)->all;
    for (int i = 0, at, kept; i < graph_count(s->g, OP_ATTN); i++) {
        attends(s, i, &at, &kept);
        if (all->part_of[at] != all->part_of[kept])
            return err_set(e, ERR_USAGE,
                           "--place: blocks %d and %d read the same keys and values and must lie "
                           "on one device",
                           all->first_layer + kept, all->first_layer + at);
    }
    return 0;
}

static int spread(struct session *s, const uint64_t *have, struct split *p, uint8_t *card_of,
                  struct err *e) {
    TRY(ask(s, p, e));
    join_layers(s, p);
    EACH_PART(s, i) {
        p->card[i].have = have[i];
        weigh(s, p);
    }
    /* The model of split.h is approximate; whether it fits is said by exact sums later. */
    split_layers(p, card_of);
    lay(s, card_of);
    place_cache(s, card_of);
    EACH_PART(s, i) find_uses_anew(s);
    return check_joined(s, e);
}

int exec_cuda_spread(struct session *s, const uint64_t *have, struct err *e) {
    const struct cuda_set *all = dev(s)->all;
    struct split p = {.n_cards = all->n, .n_layers = all->n_layers};
    p.layer = xcalloc((size_t)p.n_layers + 1, sizeof *p.layer);
    uint8_t *card_of = xcalloc((size_t)p.n_layers + 1, 1);
    const int rc = spread(s, have, &p, card_of, e);
    free(p.layer);
    free(card_of);
    return rc;
}

/* Removes the parts that got no layer. The others move up, and so do the places of what sequences
 * keep. */
void exec_cuda_drop_idle(struct session *s) {
    struct cuda_set *all = dev(s)->all;
    struct cuda *idle[CACHE_PLACES];
    uint8_t to[CACHE_PLACES] = {0};
    int n = 0, n_idle = 0;
    EACH_PART(s, i) {
        if (!exec_cuda_busy(s)) {
            idle[n_idle++] = dev(s);
            continue;
        }
        to[i] = (uint8_t)n;
        s->cache.state_bytes[n] = s->cache.state_bytes[i];
        all->part[n++] = dev(s);
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
    for (int i = 0; i < n_idle; i++) exec_cuda_close_part(s, idle[i]);
    s->dev = all->part[all->head];
}
