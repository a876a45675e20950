// SPDX-License-Identifier: MIT
/* tests/oom.c - failing memory requests, for tests/cli/library-memory.sh: loaded before a program
 * with LD_PRELOAD.
 *
 *   OOM_AT=N     the N-th request after the start of main fails, counted from 1; 0: none
 *
 *   OOM_ALL=1    and all later ones of more than 256 KiB, as with little address space
 *
 *   OOM_OVER=N   requests of more than N bytes fail, whatever their number
 *
 *   OOM_LOG=FILE written at the end: the number of requests
 *
 * Linked with tests/cancelled.c nothing fails, and the N-th request cancels the program's work. */
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* glibc's own functions, whose names are overridden here */
extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t n);
extern void *__libc_memalign(size_t align, size_t n);

void *malloc(size_t n);
void *calloc(size_t n, size_t size);
void *realloc(void *p, size_t n);
int posix_memalign(void **out, size_t align, size_t n);

void oom_reached(void) __attribute__((weak)); /* what happens in place of failing; NULL: it fails */

enum { BIG = 256 << 10 };
static atomic_long count, at, over;
static atomic_bool on, all;

static void __attribute__((constructor)) begin(void) {
    const char *n = getenv("OOM_AT");
    atomic_store(&at, n ? atol(n) : 0);
    n = getenv("OOM_OVER");
    atomic_store(&over, n ? atol(n) : 0);
    atomic_store(&all, getenv("OOM_ALL") != NULL);
    atomic_store(&on, true);
}

static void __attribute__((destructor)) end(void) {
    const char *path = getenv("OOM_LOG");
    atomic_store(&on, false);
    FILE *f = path ? fopen(path, "w") : NULL;
    if (!f) return;
    fprintf(f, "%ld\n", atomic_load(&count));
    fclose(f);
}

static bool refuse(size_t n) {
    if (!atomic_load(&on)) return false;
    const long i = atomic_fetch_add(&count, 1) + 1, k = atomic_load(&at);
    const size_t most = (size_t)atomic_load(&over);
    const bool large = most && n > most;
    if (!large && (k == 0 || i < k || (i > k && !(atomic_load(&all) && n > BIG)))) return false;
    if (oom_reached) {
        if (i == k) oom_reached();
        return false;
    }
    errno = ENOMEM;
    return true;
}

void *malloc(size_t n) {
    return refuse(n) ? NULL : __libc_malloc(n);
}
void *calloc(size_t n, size_t size) {
    return refuse(n * size) ? NULL : __libc_calloc(n, size);
}
void *realloc(void *p, size_t n) {
    return refuse(n) ? NULL : __libc_realloc(p, n);
}
int posix_memalign(void **out, size_t align, size_t n) {
    if (refuse(n)) return ENOMEM;
    *out = __libc_memalign(align, n);
    return *out ? 0 : ENOMEM;
}
