// SPDX-License-Identifier: MIT
/* base/arena.h - arena allocator: one arena per unit of work, freed in a single call. */
#ifndef HONE_BASE_ARENA_H
#define HONE_BASE_ARENA_H

#include <stddef.h>

#include "base/err.h"

struct arena_chunk;
struct arena {
    struct arena_chunk *head;
    size_t total_bytes; /* bytes handed out since init or reset */
};

void arena_init(struct arena *a);
void arena_release(struct arena *a); /* frees everything; the arena can be reused */
void arena_reset(struct arena *a);   /* empties the arena but keeps its memory */
/* Reserves a block of n bytes (n < SIZE_MAX / 4; may exceed 16 MiB), so that the next arena_alloc
 * of that size cannot fail. ERR_SYS: out of memory; the message names `what`. */
int arena_reserve(struct arena *a, size_t n, const char *what, struct err *e);
/* Allocates n bytes, 16-byte aligned and zeroed; never NULL. */
void *arena_alloc(struct arena *a, size_t n);
void *arena_array(struct arena *a, size_t n, size_t size); /* checks n * size for overflow */
/* Returns a copy of s in the arena. */
char *arena_strdup(struct arena *a, const char *s);
/* Returns a NUL-terminated copy in the arena of at most n bytes of s, up to its first NUL. */
char *arena_strndup(struct arena *a, const char *s, size_t n);

#endif
