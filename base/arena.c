// SPDX-License-Identifier: MIT
/* base/arena.c - arena allocator: a list of chunks, newest first. Chunk sizes grow from 64 KiB to 4
 * MiB; larger requests get their own chunk. A reset keeps the chunks and clears memory when it
 * is handed out again. Under AddressSanitizer unused memory is poisoned. */
#include "base/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"

#if defined(__SANITIZE_ADDRESS__)
#define HAVE_POISON 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAVE_POISON 1
#endif
#endif
#ifdef HAVE_POISON
#include <sanitizer/asan_interface.h>
#define POISON(p, n) __asan_poison_memory_region(p, n)
#define UNPOISON(p, n) __asan_unpoison_memory_region(p, n)
#else
#define POISON(p, n) ((void)(p), (void)(n))
#define UNPOISON(p, n) ((void)(p), (void)(n))
#endif

enum { ALIGN = 16, CHUNK_MIN = 64 << 10, CHUNK_MAX = 4 << 20 };

struct arena_chunk {
    struct arena_chunk *next;
    size_t used, cap;
    _Alignas(ALIGN) unsigned char data[];
};

void arena_init(struct arena *a) {
    *a = (struct arena){0};
}

void arena_release(struct arena *a) {
    for (struct arena_chunk *c = a->head, *next; c; c = next) {
        next = c->next;
        UNPOISON(c->data, c->cap);
        free(c);
    }
    arena_init(a);
}

void arena_reset(struct arena *a) {
    for (struct arena_chunk *c = a->head; c; c = c->next) {
        c->used = 0;
        POISON(c->data, c->cap);
    }
    a->total_bytes = 0;
}

/* Makes c, which has room for cap bytes, the arena's current chunk, and returns c. */
static struct arena_chunk *prepend_chunk(struct arena *a, struct arena_chunk *c, size_t cap) {
    *c = (struct arena_chunk){.next = a->head, .cap = cap};
    a->head = c;
    POISON(c->data, c->cap);
    return c;
}

/* Allocates a chunk of at least `need` bytes; ends the process if memory runs out. */
static struct arena_chunk *add_chunk(struct arena *a, size_t need) {
    size_t cap = a->head ? a->head->cap : CHUNK_MIN / 2;
    cap = cap >= CHUNK_MAX / 2 ? CHUNK_MAX : cap * 2;
    if (cap < need) cap = need;
    return prepend_chunk(a, xmalloc(sizeof(struct arena_chunk) + cap), cap);
}

int arena_reserve(struct arena *a, size_t n, const char *what, struct err *e) {
    if (n < CHUNK_MAX || (a->head && a->head->cap - a->head->used >= n + ALIGN)) return 0;
    struct arena_chunk *c = try_realloc(NULL, 1, sizeof *c + n + ALIGN, what, e);
    if (!c) return ERR_SYS;
    prepend_chunk(a, c, n + ALIGN);
    return 0;
}

/* Returns a chunk with room for `need` bytes: the newest or, after a reset, an emptied one, which
 * becomes the newest. */
static struct arena_chunk *find_chunk(struct arena *a, size_t need) {
    struct arena_chunk **link = &a->head;
    for (struct arena_chunk *c = a->head; c; link = &c->next, c = c->next) {
        if (c->cap - c->used < need) {
            if (c != a->head && c->used) break; /* all older chunks are also full */
            continue;
        }
        *link = c->next;
        c->next = a->head;
        a->head = c;
        return c;
    }
    return add_chunk(a, need);
}

void *arena_alloc(struct arena *a, size_t n) {
    /* Deliberately fails: reports that memory ran out, and ends the process. */
    if (n > SIZE_MAX / 4) (void)xreallocarray(NULL, SIZE_MAX, 2);
    size_t need = (size_t)round_up(n ? n : 1, ALIGN);
    struct arena_chunk *c = find_chunk(a, need);
    unsigned char *p = c->data + c->used;
    c->used += need;
    a->total_bytes += n;
    UNPOISON(p, n);
    memset(p, 0, n);
    return p;
}

void *arena_array(struct arena *a, size_t n, size_t size) {
    uint64_t total;
    if (!mul_ok(n, size, &total) || total > SIZE_MAX / 4) total = SIZE_MAX / 2;
    return arena_alloc(a, (size_t)total);
}

char *arena_strndup(struct arena *a, const char *s, size_t n) {
    char *d = arena_alloc(a, n + 1);
    memcpy(d, s, strnlen(s, n));
    return d;
}

char *arena_strdup(struct arena *a, const char *s) {
    return arena_strndup(a, s, strlen(s));
}
