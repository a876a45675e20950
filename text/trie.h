// SPDX-License-Identifier: MIT
/* text/trie.h - trie of byte strings. */
#ifndef HONE_TEXT_TRIE_H
#define HONE_TEXT_TRIE_H

#include <stddef.h>
#include <stdint.h>

struct trie_edge { /* node 0 is the root, so to == 0 marks an unused entry */
    uint32_t from, to;
    uint8_t byte;
};
struct trie { /* zero-initialised: empty; once filled, read-only and thread-safe */
    struct trie_edge *edge;
    size_t mask; /* number of entries - 1 */
    int32_t *id; /* [n] id of the string that ends at the node; -1: none */
    size_t n, cap;
};
void trie_release(struct trie *t);
/* Adds a string of n bytes; an existing string keeps its id. The total length of all strings must
 * stay below 2^31. */
void trie_add(struct trie *t, const char *s, size_t n, int32_t id);
/* Returns the child of `node` for `byte`; 0: none. */
uint32_t trie_step(const struct trie *t, uint32_t node, uint8_t byte);

#endif
