// SPDX-License-Identifier: MIT
/* base/arena.h - one arena per unit of work: allocate, use, release at once. */
#ifndef HONE_BASE_ARENA_H
#define HONE_BASE_ARENA_H

#include <stddef.h>

#include "base/err.h"

struct arena_chunk;
struct arena {
    struct arena_chunk *head;
    size_t total_bytes; /* handed out since init/reset */
};

void arena_init(struct arena *a);
void arena_release(struct arena *a); /* frees everything; the struct can be used again */
void arena_reset(struct arena *a);   /* empties, keeps the memory */
/* Makes room for a piece of n bytes, less than SIZE_MAX / 4, which may be more than 16 MiB: the
 * next arena_alloc of it cannot fail. ERR_SYS, which names `what`: there is no memory. */
int arena_reserve(struct arena *a, size_t n, const char *what, struct err *e);
/* Allocates n bytes, 16-byte aligned and zeroed; never NULL. */
void *arena_alloc(struct arena *a, size_t n);
void *arena_array(struct arena *a, size_t n, size_t size); /* n * size checked */
char *arena_strdup(struct arena *a, const char *s);
char *arena_strndup(struct arena *a, const char *s, size_t n);

#endif
