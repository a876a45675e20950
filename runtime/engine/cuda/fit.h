// SPDX-License-Identifier: MIT
/* runtime/engine/cuda/fit.h - placement: the device of each layer, the number of blocks whose
 * experts stay in main memory, whether passes copy these to the device, and the length of passes.
 *
 * The result depends on sizes and limits alone; no device is queried. */
#ifndef HONE_RUNTIME_ENGINE_CUDA_FIT_H
#define HONE_RUNTIME_ENGINE_CUDA_FIT_H

#include "base/err.h"
#include "models/split.h"

/* One way to run a model; the devices of its layers are not part of it. */
struct fit_way {
    int n_left;       /* number of blocks, from the end, whose experts stay in main memory */
    int64_t from;     /* shortest pass, in tokens, that copies them; 0: none */
    int64_t n_ubatch; /* tokens per pass */
};
struct fit_limit {
    uint64_t have; /* bytes that may be used */
    uint64_t room; /* bytes of the device for them, rounded up like allocations */
};
struct fit_need {
    uint64_t bytes, rounding;
};

/* Sizes of a model. Both functions are pure. */
struct fit_sizes {
    void *ud;
    /* Fills in the layers and the cards, except for `have`. */
    int (*layers)(void *ud, const struct fit_way *w, struct split *to, struct err *e);
    /* Computes the exact memory of each card for the layers placed by card_of [n_layers]. */
    int (*cards)(void *ud, const struct fit_way *w, const uint8_t *card_of, struct fit_need *need,
                 struct err *e);
};
struct fit_ask {
    struct fit_sizes sizes;
    int n_cards, n_layers;
    struct fit_limit card[SPLIT_CARDS];
    int n_placed;  /* blocks whose experts must stay in main memory */
    int n_movable; /* blocks whose experts may be left there */
    /* --stream-from: tokens; 0: `usual_from`, unless the buffer displaces too many blocks; < 0:
     * never copy. least_from: shorter passes cannot copy experts. */
    int64_t stream_from, usual_from, least_from;
    int64_t n_ctx, wanted_ubatch; /* tokens */
    bool any_ubatch;              /* wanted_ubatch is a default and may be exceeded */
    const struct fit_way *like;   /* taken, with like_cards [n_layers], if it fits; NULL: none */
    const uint8_t *like_cards;
};
struct fit {
    struct fit_way way;
    uint8_t *card_of; /* [n_layers], owned by the caller */
    struct fit_need need[SPLIT_CARDS];
    int short_of;     /* a card that is too small; -1: everything fits */
    bool cannot_copy; /* no room for the copies that --stream-from requests */
};

/* Decides the placement. If nothing fits, out->short_of is a card that is too small even for the
 * way with the smallest needs, which the rest of *out describes. Errors come from the size
 * functions. */
int fit_decide(const struct fit_ask *a, struct fit *out, struct err *e);

#endif
