// SPDX-License-Identifier: MIT
/* quantize/enc/enc.c - table of encoders; types that are not listed here cannot be written. */
#include "quantize/enc/types.h"

#include <stddef.h>

static const struct enc *const table[QT_COUNT] = {
#define QTYPE(ID, id, ...) [id] = &enc_type_##ID,
#define QTYPE_OTHER(...)
#include "containers/qtype.def"
#undef QTYPE
};

const struct enc *enc_find(enum qtype t) {
    return (unsigned)t < QT_COUNT ? table[t] : NULL;
}

const char *search_name(enum search s) {
    static const char *const names[] = {
        [SEARCH_FAST] = "fast", [SEARCH_BEST] = "best", [SEARCH_CONVENTIONAL] = "conventional"};
    return names[s];
}
