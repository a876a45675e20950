// SPDX-License-Identifier: MIT
/* base/mem.c - memory allocation.
 *
 * The xmalloc family serves requests of less than 16 MiB. If the system has no memory left, these
 * functions take it from the job's emergency fund. Without a fund, as in the program's main thread,
 * they remove temporary outputs and end the process with the status of a system error; no other
 * code outside cli/ may do that. Big buffers come from mmap: zero pages cost nothing until touched,
 * and alignment to 2 MiB lets the kernel use huge pages. A 64-byte header before the pointer
 * records how to free it. Under AddressSanitizer everything comes from malloc, so that overruns are
 * detected. */
#include "base/mem.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ctx.h"
#include "base/os.h"
#include "base/out.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/num.h"
#include "base/printable.h"

#if defined(__SANITIZE_ADDRESS__)
#define USE_MALLOC 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define USE_MALLOC 1
#endif
#endif
#ifndef USE_MALLOC
#define USE_MALLOC 0
#endif

enum { HEAD_BYTES = 64 };
static const uint64_t huge_bytes = UINT64_C(2) << 20;
/* Smaller requests skip the check of /proc/meminfo, which would cost more than the allocation. */
static const uint64_t check_from_bytes = UINT64_C(16) << 20;

struct buf_head {
    void *base;
    uint64_t map_bytes;        /* size of the mapping; 0: from malloc */
    uint64_t n_bytes;          /* requested bytes */
    struct buf_budget *budget; /* budget that it counts against; NULL: none */
};
_Static_assert(sizeof(struct buf_head) <= HEAD_BYTES, "header fits before a buffer");

NORETURN static void out_of_memory(size_t n) {
    log_error("out of memory (%zu bytes requested); close other programs or choose a smaller job",
              n);
    out_abort_all();
    os_exit(ERR_SYS);
}

static const size_t fund_bytes[] = {(size_t)64 << 10, (size_t)1 << 20, (size_t)16 << 20};

int mem_fund_fill(struct mem_fund *f, struct err *e) {
    for (size_t i = 0; i < COUNT_OF(fund_bytes); i++) {
        void *none = NULL, *p = NULL;
        if (atomic_load(&f->block[i])) continue;
        if (!(p = malloc(fund_bytes[i])))
            return err_memory(e, "out of memory (%zu bytes to reserve)", fund_bytes[i]);
        if (!atomic_compare_exchange_strong(&f->block[i], &none, p)) free(p);
    }
    atomic_store(&f->spent, false);
    return 0;
}

void mem_fund_release(struct mem_fund *f) {
    for (size_t i = 0; i < COUNT_OF(fund_bytes); i++) free(atomic_exchange(&f->block[i], NULL));
}

/* Frees a block of at least n bytes from the job's fund and requests that the job stop. Returns
 * false if no such block is left. */
static bool spend_fund(size_t n) {
    struct ctx *c = ctx_current();
    for (size_t i = 0; c->fund && i < COUNT_OF(fund_bytes); i++) {
        void *p = n < fund_bytes[i] ? atomic_exchange(&c->fund->block[i], NULL) : NULL;
        if (!p) continue;
        free(p);
        atomic_store(&c->fund->spent, true);
        atomic_store(&c->starved, true);
        return true;
    }
    return false;
}

int mem_check(struct err *e) {
    struct mem_fund *f = ctx_current()->fund;
    return f && atomic_load_explicit(&f->spent, memory_order_relaxed)
               ? err_memory(e, "out of memory; close other programs or choose a smaller job")
               : 0;
}

void *xmalloc(size_t n) {
    void *p;
    while (!(p = malloc(n ? n : 1)))
        if (!spend_fund(n)) out_of_memory(n);
    return p;
}

void *xcalloc(size_t n, size_t size) {
    uint64_t total;
    void *p;
    if (!mul_ok(n, size, &total)) out_of_memory(SIZE_MAX);
    while (!(p = calloc(n ? n : 1, size ? size : 1)))
        if (!spend_fund((size_t)total)) out_of_memory((size_t)total);
    return p;
}

void *xrealloc(void *p, size_t n) {
    void *q;
    while (!(q = realloc(p, n ? n : 1)))
        if (!spend_fund(n)) out_of_memory(n);
    return q;
}

void *xreallocarray(void *p, size_t n, size_t size) {
    uint64_t total;
    if (!mul_ok(n, size, &total) || total > PTRDIFF_MAX) out_of_memory(SIZE_MAX);
    return xrealloc(p, (size_t)total);
}

/* Returns n * size, UINT64_MAX on overflow. */
static uint64_t mul_or_most(size_t n, size_t size) {
    uint64_t total;
    return mul_ok(n, size, &total) ? total : UINT64_MAX;
}

/* Sets an error about n_bytes for `what` and returns NULL. */
static void *refuse_memory(uint64_t n_bytes, const char *what, struct err *e) {
    err_memory(e,
               "not enough memory for %s: %s needed; close other programs or choose a smaller job",
               what, show_bytes(n_bytes).s);
    return NULL;
}

/* No array needs a tebibyte, and sanitizers end the program if more is requested. */
static const uint64_t most_bytes = UINT64_C(1) << 40;

void *try_calloc(size_t n, size_t size, const char *what, struct err *e) {
    const uint64_t total = mul_or_most(n, size);
    void *p = total < most_bytes ? calloc(total ? (size_t)total : 1, 1) : NULL;
    return p ? p : refuse_memory(total, what, e);
}

void *try_realloc(void *p, size_t n, size_t size, const char *what, struct err *e) {
    const uint64_t total = mul_or_most(n, size);
    void *q = total < most_bytes ? realloc(p, total ? (size_t)total : 1) : NULL;
    return q ? q : refuse_memory(total, what, e);
}

char *xstrndup(const char *s, size_t n) {
    char *d = xcalloc(n + 1, 1);
    memcpy(d, s, strnlen(s, n));
    return d;
}

char *xstrdup(const char *s) {
    return xstrndup(s, strlen(s));
}

char *xasprintf(const char *fmt, ...) {
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    size_t size = n < 0 ? 1 : (size_t)n + 1;
    char *s = xmalloc(size);
    s[0] = 0;
    vsnprintf(s, size, fmt, again);
    va_end(again);
    return s;
}

/* ---- big buffers ----------------------------------------------------------------------------- */

/* A context's memory limit and usage. The context and every buffer counted here hold a reference,
 * because a buffer may outlive its job. */
struct buf_budget {
    _Atomic uint64_t most, live; /* bytes; most 0: no limit */
    atomic_int n_refs;
};

void mem_limit(uint64_t n_bytes) {
    struct ctx *c = ctx_current();
    if (!c->budget && !n_bytes) return;
    if (!c->budget) {
        c->budget = xcalloc(1, sizeof *c->budget);
        atomic_store(&c->budget->n_refs, 1);
    }
    atomic_store(&c->budget->most, n_bytes);
}

void buf_budget_drop(struct buf_budget *b) {
    if (b && atomic_fetch_sub(&b->n_refs, 1) == 1) free(b);
}

/* Counts n_bytes as used and returns true, unless that would exceed the limit. Sets *left to the
 * unused bytes. */
static bool take_budget(struct buf_budget *b, uint64_t n_bytes, uint64_t *left) {
    *left = 0;
    if (!b) return true;
    uint64_t most = atomic_load(&b->most), live = atomic_load(&b->live);
    do {
        *left = live < most ? most - live : 0;
        if (most && n_bytes > *left) return false;
    } while (!atomic_compare_exchange_weak(&b->live, &live, live + n_bytes));
    atomic_fetch_add(&b->n_refs, 1);
    return true;
}

/* Returns n_bytes to the budget and gives up one reference; b may be NULL. */
static void return_to_budget(struct buf_budget *b, uint64_t n_bytes) {
    if (b) atomic_fetch_sub(&b->live, n_bytes);
    buf_budget_drop(b);
}

/* Writes the allocation's header before data and returns data. */
static void *place_head(uint8_t *data, void *base, uint64_t map_bytes) {
    struct buf_head h = {.base = base, .map_bytes = map_bytes};
    memcpy(data - HEAD_BYTES, &h, sizeof h);
    return data;
}

/* Returns zeroed heap memory with a header before it; NULL if memory runs out. */
static void *alloc_small(uint64_t n_bytes) {
    void *base = os_aligned(HEAD_BYTES, (size_t)n_bytes + HEAD_BYTES);
    if (!base) return NULL;
    memset(base, 0, (size_t)n_bytes + HEAD_BYTES);
    return place_head((uint8_t *)base + HEAD_BYTES, base, 0);
}

/* Returns zeroed memory in its own mapping, aligned for huge pages; NULL if memory runs out. */
static void *alloc_mapped(uint64_t n_bytes) {
    /* The slack is never touched, so it costs only address space. */
    uint64_t map_bytes = n_bytes + 2 * huge_bytes;
    uint8_t *base = os_pages_new(map_bytes);
    if (!base) return NULL;
    uint64_t skip = round_up((uintptr_t)base + HEAD_BYTES, huge_bytes) - (uintptr_t)base;
    os_pages_huge(base + skip, n_bytes);
    return place_head(base + skip, base, map_bytes);
}

void mem_give_back(void) {
    os_heap_give_back();
}

void mem_trim(void) {
    os_heap_trim();
}

int mem_alloc(void **out, uint64_t n_bytes, const char *what, struct err *e) {
    uint64_t left;
    struct buf_budget *budget = ctx_current()->budget;
    *out = NULL;
    if (!take_budget(budget, n_bytes, &left))
        return err_memory(
            e,
            "not enough memory for %s: %s needed, --max-memory leaves %s; raise it or choose a "
            "smaller job",
            what, show_bytes(n_bytes).s, show_bytes(left).s);
    uint64_t have = n_bytes >= check_from_bytes ? mem_available() : 0;
    bool fits = n_bytes <= (uint64_t)PTRDIFF_MAX - 4 * huge_bytes && (have == 0 || n_bytes <= have);
    if (fits)
        *out = n_bytes < huge_bytes || USE_MALLOC ? alloc_small(n_bytes) : alloc_mapped(n_bytes);
    if (*out) {
        struct buf_head h;
        memcpy(&h, (uint8_t *)*out - HEAD_BYTES, sizeof h);
        h.n_bytes = n_bytes;
        h.budget = budget;
        memcpy((uint8_t *)*out - HEAD_BYTES, &h, sizeof h);
        return 0;
    }
    return_to_budget(budget, n_bytes);
    if (!have) have = mem_available();
    return err_memory(e,
                      "not enough memory for %s: %s needed, %s available; close other programs or "
                      "choose a smaller job",
                      what, show_bytes(n_bytes).s, show_bytes(have).s);
}

void mem_free(void *p) {
    if (!p) return;
    struct buf_head h;
    memcpy(&h, (uint8_t *)p - HEAD_BYTES, sizeof h);
    return_to_budget(h.budget, h.n_bytes);
    if (h.map_bytes)
        os_pages_free(h.base, h.map_bytes);
    else
        os_aligned_free(h.base);
}

uint64_t mem_available(void) {
    struct machine machine;
    const uint64_t free_bytes = os_free_memory();
    machine_limits("", &machine);
    if (!free_bytes || machine.mem_left > free_bytes) return free_bytes;
    return machine.mem_left ? machine.mem_left : 1; /* 0 would mean "unknown" */
}

uint64_t buf_available(void) {
    uint64_t limit;
    const uint64_t room = buf_room(&limit), have = limit ? mem_available() : 0;
    return have && have < room ? have : room;
}

uint64_t buf_room(uint64_t *limit) {
    const struct buf_budget *b = ctx_current()->budget;
    const uint64_t most = b ? atomic_load(&b->most) : 0, live = b ? atomic_load(&b->live) : 0;
    *limit = most;
    if (!most) return mem_available();
    return live < most ? most - live : 1;
}
