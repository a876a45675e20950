// SPDX-License-Identifier: MIT
/* models/split.c - optimal partition of layers into one run per card, found by dynamic programming
 * over (cards used, layers placed). It is exact and cheap, because layers stay in order. */
#include "models/split.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"

/* Cost of a partition: less time first, then a smaller fraction of the fullest card. */
struct price {
    uint64_t over;  /* KiB that do not fit */
    uint64_t time;  /* per token: KiB times the card's slowdown against the fastest */
    uint64_t share; /* used fraction of the fullest card, in 10^-12 */
};
struct state {
    struct price p;
    int from; /* first layer of the last card's run */
    bool ok;
};
enum { UNITS = 4 }; /* bandwidths are compared in quarters */

/* Returns the bandwidth of the fastest card. */
static uint64_t max_bandwidth(const struct split *s) {
    uint64_t most = 0;
    for (int i = 0; i < s->n_cards; i++) most = max_u64(most, s->card[i].bandwidth);
    return most;
}
/* Returns the card's time per byte relative to the fastest card, in UNITS. */
static uint64_t slowness_of(const struct split *s, int card) {
    const uint64_t most = max_bandwidth(s), b = s->card[card].bandwidth;
    return b ? (uint64_t)((double)most / (double)b * UNITS) : UNITS;
}

/* Returns the price of placing a number of bytes on a card; zero for 0 bytes. */
static struct price price_of(const struct split *s, int card, uint64_t bytes) {
    const struct split_card *c = &s->card[card];
    if (!bytes) return (struct price){0};
    const uint64_t all = bytes + c->fixed;
    return (struct price){.over = all > c->have ? ((all - c->have) >> 10) + 1 : 0,
                          .time = (bytes >> 10) * slowness_of(s, card),
                          .share = c->have ? (uint64_t)((double)all / (double)c->have * 1e12) : 0};
}
/* Returns the price of both together; its share is the larger of the two. */
static struct price add_prices(const struct price *a, const struct price *b) {
    return (struct price){a->over + b->over, a->time + b->time, max_u64(a->share, b->share)};
}
/* Returns whether a is better than b: fewer bytes over the limit, then less time, then a lower
 * share. */
static bool is_better(const struct price *a, const struct price *b) {
    if (a->over != b->over) return a->over < b->over;
    if (a->time != b->time) return a->time < b->time;
    return a->share < b->share;
}

/* Extends the solution at[0] by every run of layers on card c that starts at layer `from`, and
 * keeps the better results in at[1]. */
static void try_runs(const struct split *s, int c, int from, struct state *at) {
    const int n = s->n_layers, w = n + 1;
    uint64_t sum = from == 0 ? s->card[c].first : 0;
    for (int to = from; to <= n; to++) {
        const struct split_layer *l = to > from ? &s->layer[to - 1] : NULL;
        if (l && l->want != SPLIT_FREE && l->want != c) return;
        if (l && to == from + 1 && l->joined && from > 0) return;
        if (l) sum += l->bytes[c];
        const uint64_t bytes = !l ? 0 : to == n ? sum + s->card[c].last : sum;
        const struct price run = price_of(s, c, bytes), all = add_prices(&at[from].p, &run);
        struct state *o = &at[w + to];
        if (!o->ok || is_better(&all, &o->p)) *o = (struct state){all, from, true};
    }
}

/* Partitions the layers into one run per card. Returns false if requests are not in the order of
 * the cards. */
static bool cut_runs(const struct split *s, uint8_t *card_of) {
    const int n = s->n_layers, w = n + 1;
    struct state *at = xcalloc((size_t)(s->n_cards + 1) * (size_t)w, sizeof *at);
    at[0].ok = true;
    for (int c = 0; c < s->n_cards; c++)
        for (int from = 0; from <= n; from++)
            if (at[c * w + from].ok) try_runs(s, c, from, at + c * w);
    const bool ok = at[s->n_cards * w + n].ok;
    for (int c = s->n_cards - 1, to = n; c >= 0 && ok; c--) {
        const int from = at[(c + 1) * w + to].from;
        for (int i = from; i < to; i++) card_of[i] = (uint8_t)c;
        to = from;
    }
    free(at);
    return ok;
}

/* Puts each layer on its requested card, or without a request on the preceding layer's card. Layers
 * before the first request go to its card. */
static void follow_requests(const struct split *s, uint8_t *card_of) {
    uint8_t at = 0;
    for (int i = s->n_layers - 1; i >= 0; i--)
        if (s->layer[i].want != SPLIT_FREE) at = s->layer[i].want;
    for (int i = 0; i < s->n_layers; i++) {
        if (s->layer[i].want != SPLIT_FREE) at = s->layer[i].want;
        card_of[i] = at;
    }
}

uint64_t split_bytes(const struct split *s, const uint8_t *card_of, int card) {
    const int n = s->n_layers;
    uint64_t sum = 0;
    for (int i = 0; i < n; i++)
        if (card_of[i] == card) sum += s->layer[i].bytes[card];
    if (n && card_of[0] == card) sum += s->card[card].first;
    return n && card_of[n - 1] == card ? sum + s->card[card].last : sum;
}

bool split_layers(const struct split *s, uint8_t *card_of) {
    bool fits = true;
    if (!cut_runs(s, card_of)) follow_requests(s, card_of);
    for (int c = 0; c < s->n_cards; c++) {
        const uint64_t n = split_bytes(s, card_of, c);
        fits = fits && (!n || n + s->card[c].fixed <= s->card[c].have);
    }
    return fits;
}
