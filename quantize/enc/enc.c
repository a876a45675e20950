// SPDX-License-Identifier: MIT
/* quantize/enc/enc.c - table of encoders; types that are not listed here cannot be written. */
#include "quantize/enc/types.h"

#include <float.h>
#include <stddef.h>

#include "quantize/enc/super.h"

static const struct enc *const table[QT_COUNT] = {
#define QTYPE(ID, id, ...) [id] = &enc_type_##ID,
#define QTYPE_OTHER(...)
#include "containers/qtype.def"
#undef QTYPE
};

const struct enc *enc_find(enum qtype t) {
    return (unsigned)t < QT_COUNT ? table[t] : NULL;
}

float enc_largest(enum qtype t) {
    const struct enc *enc = enc_find(t);
    const struct grid_spec *grid = grid_spec_of(t);
    if (enc->blocks) return enc_spec_limit(enc->blocks->spec);
    if (grid) return grid_limit(grid);
    return enc->largest > 0 ? enc->largest : FLT_MAX;
}

const char *search_name(enum search s) {
    static const char *const names[] = {
        [SEARCH_FAST] = "fast", [SEARCH_BEST] = "best", [SEARCH_CONVENTIONAL] = "conventional"};
    return names[s];
}
