// SPDX-License-Identifier: MIT
/* text/trie.c - byte trie whose edges are stored in one hash table. */
#include "text/trie.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

void trie_release(struct trie *t) {
    free(t->edge);
    free(t->id);
    memset(t, 0, sizeof *t);
}

/* Returns the index of an edge in the table, or the free index at which to insert it. */
static size_t place(const struct trie *t, uint32_t from, uint8_t byte) {
    uint64_t h = ((uint64_t)from << 8 | byte) * 0x9e3779b97f4a7c15u;
    size_t i = (size_t)(h ^ h >> 29) & t->mask;
    while (t->edge[i].to && (t->edge[i].from != from || t->edge[i].byte != byte))
        i = (i + 1) & t->mask;
    return i;
}

uint32_t trie_step(const struct trie *t, uint32_t node, uint8_t byte) {
    return t->n ? t->edge[place(t, node, byte)].to : 0;
}

/* Makes room for one more node and its edge. The table stays at most half full. */
static void grow(struct trie *t) {
    if (t->n < t->cap) return;
    struct trie old = *t;
    t->cap = old.cap ? old.cap * 2 : 256;
    t->id = xreallocarray(t->id, t->cap, sizeof *t->id);
    t->edge = xcalloc(t->cap * 2, sizeof *t->edge);
    t->mask = t->cap * 2 - 1;
    for (size_t i = 0; old.edge && i <= old.mask; i++)
        if (old.edge[i].to) t->edge[place(t, old.edge[i].from, old.edge[i].byte)] = old.edge[i];
    free(old.edge);
}

void trie_add(struct trie *t, const char *s, size_t n, int32_t id) {
    uint32_t node = 0;
    if (!t->n) {
        grow(t);
        t->id[t->n++] = -1;
    }
    for (size_t i = 0; i < n; i++) {
        uint32_t next = trie_step(t, node, (uint8_t)s[i]);
        if (!next) {
            grow(t);
            next = (uint32_t)t->n++;
            t->id[next] = -1;
            t->edge[place(t, node, (uint8_t)s[i])] = (struct trie_edge){node, next, (uint8_t)s[i]};
        }
        node = next;
    }
    if (t->id[node] < 0) t->id[node] = id;
}
