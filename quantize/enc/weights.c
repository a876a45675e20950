// SPDX-License-Identifier: MIT
/* quantize/enc/weights.c - which weights a search minimises with; lanes.c computes them.
 *
 * The field's formula is qw*sqrt(sigma*mean(x^2) + x^2): an empirical correction of what a diagonal
 * Hessian asks for, qw alone. Which one gives the lower divergence was measured per type (see
 * docs/design/quantize.md), and each encoder names both. Only sqrt is used, which is exact
 * everywhere. */
#include "quantize/enc/search.h"

struct wrule enc_wrule(enum qtype t, enum search search) {
    const struct enc *enc = enc_find(t);
    if (!enc) return (struct wrule){0, 256, WP_ONE};
    return search == SEARCH_CONVENTIONAL ? enc->conventional : enc->chosen;
}
