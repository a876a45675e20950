// SPDX-License-Identifier: MIT
/* runtime/engine/cuda/fit.c - search for a placement: tries the ways to run a model in order of
 * preference. */
#include "runtime/engine/cuda/fit.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"

/* Returns whether any layer is placed on the card. */
static bool is_used(const struct fit_ask *a, const uint8_t *card_of, int card) {
    return memchr(card_of, card, (size_t)a->n_layers) != NULL;
}

/* Estimates the layers' bytes under w and sets card_of [n_layers] to the card of each layer. */
static int split_of(const struct fit_ask *a, const struct fit_way *w, struct split *p,
                    uint8_t *card_of, struct err *e) {
    TRY(a->sizes.layers(a->sizes.ud, w, p, e));
    for (int i = 0; i < a->n_cards; i++) p->card[i].have = a->card[i].have;
    /* split.h only estimates; the exact sums decide whether the model fits. */
    split_layers(p, card_of);
    return 0;
}

/* Computes the exact memory needs of w with the layers placed by out->card_of. */
static int measure_way(const struct fit_ask *a, struct fit_way w, struct fit *out, struct err *e) {
    out->way = w;
    out->short_of = -1;
    TRY(a->sizes.cards(a->sizes.ud, &w, out->card_of, out->need, e));
    for (int i = 0; i < a->n_cards; i++) {
        const struct fit_need *n = &out->need[i];
        const bool fits = n->bytes <= a->card[i].have && n->bytes + n->rounding <= a->card[i].room;
        if (!fits && is_used(a, out->card_of, i)) out->short_of = i;
    }
    return 0;
}

/* Computes the exact memory needs of one way to run the model. */
static int try_way(const struct fit_ask *a, struct fit_way w, struct fit *out, struct err *e) {
    struct split p = {.n_cards = a->n_cards, .n_layers = a->n_layers};
    p.layer = xcalloc((size_t)a->n_layers + 1, sizeof *p.layer);
    const int rc = split_of(a, &w, &p, out->card_of, e);
    free(p.layer);
    return rc ? rc : measure_way(a, w, out, e);
}

/* Leaves experts in main memory, starting with the last block, until the rest fits. Copying them to
 * the device for large passes needs a buffer there, which may displace the experts of another block
 * or two. Unless the user asked for copies, the buffer is allocated only if it increases the number
 * of blocks left out by at most half. */
static int place(const struct fit_ask *a, int64_t n_ubatch, struct fit *out, struct err *e) {
    const int64_t asked = a->stream_from,
                  from = asked < 0 ? -1 : max_i64(asked ? asked : a->usual_from, a->least_from);
    struct fit_way w = {.n_ubatch = n_ubatch};
    out->cannot_copy = false;
    TRY(try_way(a, w, out, e));
    while (out->short_of >= 0 && w.n_left < a->n_movable) {
        w.n_left++;
        TRY(try_way(a, w, out, e));
    }
    if (out->short_of >= 0 || a->n_placed + w.n_left == 0 || from < 0 || from > n_ubatch) return 0;
    const int64_t most = asked ? a->n_movable : min_i64(a->n_movable, w.n_left + w.n_left / 2);
    for (int k = w.n_left; k <= most; k++) {
        TRY(try_way(a, (struct fit_way){k, from, n_ubatch}, out, e));
        if (out->short_of < 0) return 0;
    }
    out->cannot_copy = asked > 0;
    return try_way(a, w, out, e);
}

/* Chooses the length of a pass. Longer passes read weights less often, so the default is the
 * longest one that does not leave out more experts. A pass longer than a context takes the rows of
 * several whole sequences. */
static int choose(const struct fit_ask *a, struct fit *out, struct err *e) {
    const int64_t usual = min_i64(a->wanted_ubatch, a->n_ctx);
    /* sequences per pass if it is longer than a context */
    int64_t n_seqs = a->any_ubatch ? 0 : a->wanted_ubatch / a->n_ctx;
    int64_t longer = a->any_ubatch ? 2048 : n_seqs * a->n_ctx;
    TRY(place(a, usual, out, e));
    if (out->short_of >= 0) return 0;
    const struct fit_way base = out->way;
    while (longer > usual) {
        struct err ignored;
        const int64_t n = a->any_ubatch ? min_i64(longer, a->n_ctx) : longer;
        if (!place(a, n, out, &ignored) && out->short_of < 0 && out->way.n_left == base.n_left &&
            out->way.from == base.from)
            return 0;
        n_seqs /= 2;
        longer = a->any_ubatch ? longer / 2 : n_seqs * a->n_ctx;
    }
    return out->way.n_ubatch == usual ? 0 : place(a, usual, out, e);
}

int fit_decide(const struct fit_ask *a, struct fit *out, struct err *e) {
    if (a->like) {
        memcpy(out->card_of, a->like_cards, (size_t)a->n_layers);
        TRY(measure_way(a, *a->like, out, e));
        if (out->short_of < 0) return 0;
    }
    return choose(a, out, e);
}
