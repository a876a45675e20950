// SPDX-License-Identifier: MIT
/* tok/vocab.h - vocabulary: token texts and types, the byte alphabet, and the search for token
 * texts in text. */
#ifndef HONE_TOK_VOCAB_H
#define HONE_TOK_VOCAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/hash.h"
#include "tok/tok.h"

struct vocab {
    int64_t n;
    const char **text; /* [n] in the arena; NULL until set */
    uint32_t *len;
    uint8_t *type;      /* enum tok_type, as stored */
    uint8_t *role;      /* enum tok_type, as treated: see tok_finish() */
    struct strmap *map; /* text -> id, from vocab_index() */
    struct arena arena;
};
/* Prepares a zeroed vocabulary for n tokens. Its arena may already hold data. */
int vocab_init(struct vocab *v, int64_t n, struct err *e);
void vocab_release(struct vocab *v);
/* Sets text, type and role of a token; id must be in range. */
void vocab_set(struct vocab *v, int64_t id, const char *text, size_t len, enum tok_type type);
/* Builds `map`; all texts must be set. ERR_DATA: two tokens have the same text. */
int vocab_index(struct vocab *v, struct err *e);
/* Returns the id of a text; -1: none. */
int64_t vocab_find(const struct vocab *v, const char *text, size_t len);

/* Returns the code point that represents a byte in byte-level BPE: each byte is a printable
 * character, so that tokens are texts. */
uint32_t vocab_byte_char(uint8_t byte);
int vocab_char_byte(uint32_t cp); /* -1: not in the alphabet */
/* Appends bytes spelled in the byte alphabet. */
void vocab_spell(struct buf *out, const char *s, size_t n);

/* Token texts to match in the input: leftmost, then longest. */
struct spot {
    const char *text; /* borrowed */
    uint32_t len;
    int32_t id;
    bool control;
    bool eats_left, eats_right; /* includes adjacent white space */
    bool single_word;           /* not next to a letter, digit or underscore */
};
struct spots {
    struct spot *v; /* sorted by text after spots_sort() */
    size_t n;
    bool first[256];
};
/* Adds a text. Returns its entry, valid until the next one is added; NULL for an empty text. */
struct spot *spots_add(struct spots *a, const char *text, size_t len, int64_t id, bool control);
/* Sorts the texts, as spots_find() requires. */
void spots_sort(struct spots *a);
void spots_release(struct spots *a);
/* Returns the longest entry that s[0..n) begins with; NULL: none. Skips control tokens unless
 * `control`. */
const struct spot *spots_at(const struct spots *a, const char *s, size_t n, bool control);
/* Finds the first occurrence of any entry in s[at..n). Returns the entry and its offset in *where,
 * or NULL with *where = n. s[0..at) matters only for single words. */
const struct spot *spots_find(const struct spots *a, const char *s, size_t n, size_t at,
                              bool control, size_t *where);

#endif
