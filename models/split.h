// SPDX-License-Identifier: MIT
/* models/split.h - distribution of a model's layers over several devices. Pure arithmetic; uses no
 * device.
 *
 * A token passes through all layers in sequence, so its cost is the sum of each layer's bytes
 * divided by the bandwidth of its device: fast devices are filled first. Bandwidths within 25 % of
 * each other count as equal; such devices are filled to the same fraction, which leaves room for
 * sequences on all of them. */
#ifndef HONE_MODELS_SPLIT_H
#define HONE_MODELS_SPLIT_H

#include <stdbool.h>
#include <stdint.h>

enum { SPLIT_CARDS = 8, SPLIT_FREE = 255 };

struct split_card {
    uint64_t have;        /* usable bytes */
    uint64_t fixed;       /* bytes needed as soon as one layer is placed there */
    uint64_t bandwidth;   /* bytes per second; 0: unknown, counts as the fastest */
    uint64_t first, last; /* bytes placed together with the first and with the last layer */
};
struct split_layer {
    uint64_t bytes[SPLIT_CARDS]; /* if on that card: weights, KV cache, recurrent state */
    bool joined;  /* must be on the preceding layer's card, because they share a cache */
    uint8_t want; /* requested card; SPLIT_FREE: any */
};
struct split {
    int n_cards, n_layers;
    struct split_card card[SPLIT_CARDS];
    struct split_layer *layer; /* [n_layers] */
};

/* Fills card_of[n_layers]. Layers are placed on the cards in order, each card holding one run of
 * consecutive layers. If the requests contradict that order, a layer without a request joins the
 * preceding layer. Returns false if the layers do not fit; card_of then holds the closest
 * solution. */
bool split_layers(const struct split *s, uint8_t *card_of);
/* Returns how many bytes card_of[n_layers] places on a card, excluding its fixed bytes. */
uint64_t split_bytes(const struct split *s, const uint8_t *card_of, int card);

#endif
