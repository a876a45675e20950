// SPDX-License-Identifier: MIT
/* models/split.h - which layers of a model lie on which of several devices. Arithmetic only.
 *
 * A token goes through all layers one after the other, so what it costs is the bytes of each layer
 * over the bandwidth of its device: fast devices are filled first. Bandwidths within a quarter of
 * one another count as equal; then every device is filled to the same part of what it may use,
 * which leaves room for sequences everywhere. */
#ifndef HONE_MODELS_SPLIT_H
#define HONE_MODELS_SPLIT_H

#include <stdbool.h>
#include <stdint.h>

enum { SPLIT_CARDS = 8, SPLIT_FREE = 255 };

struct split_card {
    uint64_t have;        /* bytes that may be used */
    uint64_t fixed;       /* that are taken as soon as a layer lies there */
    uint64_t bandwidth;   /* bytes per second; 0: not known, as good as the best */
    uint64_t first, last; /* bytes that lie with the first and with the last layer */
};
struct split_layer {
    uint64_t bytes[SPLIT_CARDS]; /* on each card: weights, keys and values, states */
    bool joined;  /* lies where the layer before lies: they share something that is kept */
    uint8_t want; /* the card that somebody asked for; SPLIT_FREE: any */
};
struct split {
    int n_cards, n_layers;
    struct split_card card[SPLIT_CARDS];
    struct split_layer *layer; /* [n_layers] */
};

/* Fills card_of [n_layers]. Layers that nobody placed go to the cards in their order, in runs; so
 * do those between placed ones, where that order allows it; else they lie with the layer before.
 * False: they do not fit; card_of then holds what comes nearest. */
bool split_layers(const struct split *s, uint8_t *card_of);
/* Returns the bytes that lie on a card when layers lie as card_of [n_layers] says, without its
 * fixed ones. */
uint64_t split_bytes(const struct split *s, const uint8_t *card_of, int card);

#endif
