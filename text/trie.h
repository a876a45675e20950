// SPDX-License-Identifier: MIT
/* text/trie.h - byte strings with a common beginning share nodes: which strings begin here? */
#ifndef HONE_TEXT_TRIE_H
#define HONE_TEXT_TRIE_H

#include <stddef.h>
#include <stdint.h>

struct trie_edge { /* node 0 is the root, so to == 0: free */
    uint32_t from, to;
    uint8_t byte;
};
struct trie { /* zero-initialised is empty; read only once filled, then thread-safe */
    struct trie_edge *edge;
    size_t mask; /* places - 1 */
    int32_t *id; /* [n] the string that ends at a node; -1: none */
    size_t n, cap;
};
void trie_release(struct trie *t);
/* Adds a string of n bytes with its id; one that is there already keeps its id. The bytes of all
 * strings together must stay below 2^31. */
void trie_add(struct trie *t, const char *s, size_t n, int32_t id);
/* Returns the node that `byte` leads to from `node`; 0: there is none. */
uint32_t trie_step(const struct trie *t, uint32_t node, uint8_t byte);

#endif
