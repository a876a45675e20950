// SPDX-License-Identifier: MIT
/* grammar/once.c - uniqueness of the names of unlisted object members. While such a name is being
 * written, the state holds its text (struct gname). When the name is complete, it is excluded from
 * the language of the object's further names, so every name that can begin can also be completed.
 * Bytes of one byte class count as equal, so a non-ASCII name that only resembles an earlier one is
 * excluded too. */
#include <string.h>

#include "grammar/gram_int.h"

/* Returns the number of bytes that n, a sequence of single bytes, matches. */
static uint32_t n_bytes(const struct grammar *g, gnode n) {
    uint32_t bytes = 0;
    for (; n != G_EPS; bytes++) n = gn(g, n)->kind == G_CAT ? gn(g, n)->b : (gnode)G_EPS;
    return bytes;
}

void gram_once(struct grammar *g, struct gpick *p, struct gother *v, int n, gnode open,
               gnode shut) {
    p->other = v;
    p->n_other = n;
    p->open = open;
    p->shut = shut;
    p->open_bytes = n_bytes(g, open);
    p->shut_bytes = n_bytes(g, shut);
    g->has_other = true;
}

gnode gram_once_left(struct grammar *g, gnode key, gnode seen) {
    return seen ? gn_and(g, key, gn_not(g, seen)) : key;
}

/* Returns the language of the text s and all texts with bytes of the same classes. */
static gnode text_of(struct grammar *g, const char *s, size_t n) {
    gnode out = G_EPS;
    while (n-- > 0) {
        struct gset set = {{0}};
        const int cls = g->cls[(uint8_t)s[n]];
        for (int b = 0; b < 256; b++)
            if (g->cls[b] == cls) set.w[b / 64] |= (uint64_t)1 << b % 64;
        out = gn_cat(g, gn_set(g, &set), out);
    }
    return out;
}

gnode gram_once_next(struct grammar *g, const struct gnode_data *d, const struct gname *name) {
    const struct gpick *p = &g->pick[d->a];
    struct gnode_data next = {.kind = G_PICK, .a = d->a, .b = d->b, .lo = d->lo, .bits = d->bits};
    const char *s = name->s, *end = s + (name->n > 0 ? name->n : 0);
    while (s < end && (*s == ' ' || *s == '\n' || *s == ',')) s++;
    next.hi = name->n == GRAM_NAME_UNKNOWN;
    /* A grammar that has used half of its memory limit stops recording names so that it does not
     * fail. */
    if (name->n >= 0 && end - s >= p->open_bytes + p->shut_bytes && g->bytes < GRAM_BYTES_MAX / 2) {
        s += p->open_bytes;
        end -= p->shut_bytes;
        next.b = gn_alt(g, d->b, text_of(g, s, (size_t)(end - s)));
    }
    return gn_members(g, next);
}
