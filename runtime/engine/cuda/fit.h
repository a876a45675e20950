// SPDX-License-Identifier: MIT
/* runtime/engine/cuda/fit.h - decides what goes where: the device of each layer, how many blocks
 * leave their experts in main memory, whether passes copy these to the device, and how long passes
 * are. The result follows from sizes and limits alone; no device is asked. */
#ifndef HONE_RUNTIME_ENGINE_CUDA_FIT_H
#define HONE_RUNTIME_ENGINE_CUDA_FIT_H

#include "base/err.h"
#include "models/split.h"

/* One way to run a model, apart from the devices of its layers. */
struct fit_way {
    int n_left;       /* blocks, the last ones, whose experts stay in main memory */
    int64_t from;     /* tokens of a pass from which on it copies them; 0: no pass does */
    int64_t n_ubatch; /* tokens of a pass */
};
struct fit_limit {
    uint64_t have; /* bytes that may be used */
    uint64_t room; /* bytes that the device has for them, with what allocations round up */
};
struct fit_need {
    uint64_t bytes, rounding;
};

/* How large the model is. Both functions are pure: the same way, the same answer. */
struct fit_sizes {
    void *ud;
    /* Fills in the layers and, but for `have`, the cards. */
    int (*layers)(void *ud, const struct fit_way *w, struct split *to, struct err *e);
    /* Sums up exactly what each card takes when layers are where card_of [n_layers] says. */
    int (*cards)(void *ud, const struct fit_way *w, const uint8_t *card_of, struct fit_need *need,
                 struct err *e);
};
struct fit_ask {
    struct fit_sizes sizes;
    int n_cards, n_layers;
    struct fit_limit card[SPLIT_CARDS];
    int n_placed;  /* blocks whose experts are in main memory in any case */
    int n_movable; /* blocks whose experts may be left there */
    /* --stream-from: tokens; 0: `usual_from` where the room for it leaves out few blocks more;
     * < 0: never copy. least_from: shorter passes cannot copy. */
    int64_t stream_from, usual_from, least_from;
    int64_t n_ctx, wanted_ubatch; /* tokens */
    bool any_ubatch;              /* wanted_ubatch is a default: longer passes are welcome */
};
struct fit {
    struct fit_way way;
    uint8_t *card_of; /* [n_layers], the caller's */
    struct fit_need need[SPLIT_CARDS];
    int short_of;     /* a card that is too small; -1: all fits */
    bool cannot_copy; /* --stream-from asked for copies that there is no room for */
};

/* Decides. Where nothing fits, out->short_of names a card, and the rest is the way that takes least
 * of it. Errors are those of the sizes. */
int fit_decide(const struct fit_ask *a, struct fit *out, struct err *e);

#endif
