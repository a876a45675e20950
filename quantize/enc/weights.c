// SPDX-License-Identifier: MIT
/* quantize/enc/weights.c - choice of search weights; lanes.c computes them.
 *
 * The common formula is qw*sqrt(sigma*mean(x^2) + x^2), an empirical correction of qw, the weight
 * that a diagonal Hessian suggests. Which formula gives the lower divergence was measured per type
 * (docs/design/quantize.md), and each encoder names both. The only library function used is sqrt,
 * which is exact on all machines. */
#include "quantize/enc/search.h"

struct wrule enc_wrule(enum qtype t, enum search search) {
    const struct enc *enc = enc_find(t);
    if (!enc) return (struct wrule){0, 256, WP_ONE};
    return search == SEARCH_CONVENTIONAL ? enc->conventional : enc->chosen;
}
