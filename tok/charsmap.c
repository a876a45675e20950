// SPDX-License-Identifier: MIT
/* tok/charsmap.c - normalization table of SentencePiece.
 *
 * Layout: u32 size of the trie, the trie as little-endian u32 units, then the replacements, each
 * NUL-terminated. A unit holds a label (bits 0-7, and bit 31), whether a rule ends here (bit 8),
 * and the offset of its children (bits 10-30, times 256 if bit 9 is set). The child of unit i for
 * byte b is at i ^ offset ^ b; the end of a rule is at i ^ offset, where bits 0-30 are the position
 * of its replacement. Every step is bounds-checked, so no table causes an out-of-bounds read. */
#include "tok/charsmap.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { MAX_BYTES = 1 << 26 };

struct charsmap {
    char *blob; /* with an additional NUL after `len` bytes */
    size_t len;
    uint32_t *unit;
    size_t n_units;
    const char *text; /* replacements, in blob */
    size_t n_text;
};

/* Returns the little-endian number at p, which need not be aligned. */
static uint32_t u32_at(const char *p) {
    const unsigned char *u = (const unsigned char *)p;
    return (uint32_t)u[0] | (uint32_t)u[1] << 8 | (uint32_t)u[2] << 16 | (uint32_t)u[3] << 24;
}

int charsmap_new(struct charsmap **out, const void *blob, size_t len, const char *what,
                 struct err *e) {
    size_t n_trie = len > 4 ? u32_at(blob) : 0;
    if (len > MAX_BYTES || n_trie < 4 || n_trie % 4 || n_trie > len - 4)
        return err_set(e, ERR_DATA,
                       "%s: the normalization table (precompiled_charsmap, %zu bytes) is damaged",
                       what, len);
    struct charsmap *m = xcalloc(1, sizeof *m);
    m->blob = xmalloc(len + 1);
    memcpy(m->blob, blob, len);
    m->blob[len] = 0;
    m->len = len;
    m->n_units = n_trie / 4;
    m->unit = xreallocarray(NULL, m->n_units, sizeof *m->unit);
    for (size_t i = 0; i < m->n_units; i++) m->unit[i] = u32_at(m->blob + 4 + 4 * i);
    m->text = m->blob + 4 + n_trie;
    m->n_text = len - 4 - n_trie;
    *out = m;
    return 0;
}

void charsmap_free(struct charsmap *m) {
    if (!m) return;
    free(m->blob);
    free(m->unit);
    free(m);
}

/* Returns the offset to a unit's children in the double array. */
static size_t offset_of(uint32_t unit) {
    return (size_t)(unit >> 10) << ((unit >> 9 & 1) * 8);
}

size_t charsmap_find(const struct charsmap *m, const char *s, size_t n, const char **to) {
    size_t best = 0, at = offset_of(m->unit[0]);
    for (size_t i = 0; i < n; i++) {
        unsigned char byte = (unsigned char)s[i];
        at ^= byte;
        if (at >= m->n_units) break;
        uint32_t unit = m->unit[at];
        if ((unit & 0x800000ffu) != byte) break;
        at ^= offset_of(unit);
        if (!(unit >> 8 & 1)) continue;
        if (at >= m->n_units) break;
        size_t place = m->unit[at] & 0x7fffffffu;
        if (place > m->n_text) break; /* n_text: the NUL added by us */
        *to = m->text + place;
        best = i + 1;
    }
    return best;
}

const void *charsmap_blob(const struct charsmap *m, size_t *len) {
    *len = m->len;
    return m->blob;
}
