// SPDX-License-Identifier: MIT
/* runtime/engine/pages.c - pools of pages (pages.h).
 *
 * Memory is allocated in extents of several pages, so that a sequence reads mostly contiguous
 * memory. Sequences take and drop pages of slots with the same window together, so one extent has
 * pages for all of these slots. It is freed when none of its pages is held and neither a
 * reservation nor the next sequence needs it. */
#include "runtime/engine/pages.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/num.h"
#include "models/sizes.h"

struct extent {
    struct extent *next;
    void *own;
    struct page *page;
    int64_t n_held;
    int place;
    /* The extent was allocated for a reservation, not because a sequence grew without one. */
    bool reserved;
    /* The first reserved extent, for the session's own sequence, whose reservation ends last. */
    bool first;
    int64_t n[]; /* [kv.n_slots] pages of each slot */
};

int64_t cache_slot_pages(const struct cache *c, int slot, int64_t n_tok) {
    const struct kv_slot *s = &c->kv.slot[slot];
    return s->n_heads ? sizes_pages(s->window, n_tok, c->page_tok) : 0;
}

int64_t pages_wanted(const struct cache *c, int slot, int64_t n_reserved) {
    const struct kv_slot *s = &c->kv.slot[slot];
    if (!n_reserved) return 0;
    if (c->keeps_spare) n_reserved += s->window > 0 ? cache_slot_pages(c, slot, c->kv.n_ctx) : 1;
    return n_reserved + sizes_pass_pages(s->window, c->kv.n_ctx, c->pass_tok, c->page_tok);
}

/* ---- extents ---- */

int pages_check_most(const struct cache *c, int place, uint64_t n, struct err *e) {
    const uint64_t all = c->n_bytes[place] + n, most = c->most[place];
    if (!most || all <= most) return 0;
    return err_memory(e, "a sequence needs %" PRIu64 " MiB more than --max-vram leaves",
                      (all - most + ((UINT64_C(1) << 20) - 1)) >> 20);
}

/* Appends n pages at `mem` to a pool. Its free list stays in order of age, so that older pages are
 * taken first. */
static void add_pages(struct page_pool *p, struct extent *x, struct page *page, int64_t n,
                      uint8_t *mem) {
    struct page **end = &p->free;
    while (*end) end = &(*end)->next;
    for (int64_t i = 0; i < n; i++, end = &(*end)->next) {
        *end = &page[i];
        page[i] = (struct page){.extent = x, .data = mem + (uint64_t)i * p->page_bytes};
    }
    p->n_base += x->reserved ? n : 0;
    p->n_free += n;
}

/* Sums the pages n[i] of every slot and their bytes. */
static int sum_up(const struct cache *c, const int64_t *n, int64_t *n_pages, uint64_t *n_bytes,
                  struct err *e) {
    *n_pages = 0;
    *n_bytes = 0;
    for (int i = 0; i < c->kv.n_slots; i++) {
        uint64_t bytes;
        if (!mul_ok((uint64_t)n[i], c->pool[i].page_bytes, &bytes) ||
            !add_ok(*n_bytes, bytes, n_bytes))
            return err_set(e, ERR_USAGE, "a cache of %" PRId64 " pages is too large", n[i]);
        *n_pages += n[i];
    }
    return 0;
}

/* Adds n[i] pages to the pool of slot i in one allocation; all of these slots are at one place.
 * reserved: they count as part of the pool's base. */
static int add_extent(struct cache *c, int place, const int64_t *n, bool reserved, struct err *e) {
    const size_t n_slots = (size_t)c->kv.n_slots;
    int64_t n_pages;
    uint64_t n_bytes;
    void *own = NULL, *mem = NULL;
    TRY(sum_up(c, n, &n_pages, &n_bytes, e));
    TRY(pages_check_most(c, place, n_bytes, e));
    TRY(c->mem.alloc(c->mem.of, place, n_bytes, "keys and values", &own, &mem, e));
    struct extent *x = xcalloc(1, sizeof *x + n_slots * sizeof *n);
    x->next = c->extent;
    x->own = own;
    x->page = xcalloc((size_t)n_pages, sizeof *x->page);
    x->place = place;
    x->reserved = reserved;
    c->extent = x;
    c->n_bytes[place] += n_bytes;
    struct page *page = x->page;
    uint8_t *at = mem;
    for (size_t i = 0; i < n_slots; i++) {
        x->n[i] = n[i];
        x->first = x->first || (reserved && n[i] && !c->pool[i].n_base);
        add_pages(&c->pool[i], x, page, n[i], at);
        page += n[i];
        at += (uint64_t)n[i] * c->pool[i].page_bytes;
    }
    return 0;
}

/* Extends every pool that has fewer than want[i] free pages. */
static int extend(struct cache *c, const int64_t *want, struct err *e) {
    const int n_slots = c->kv.n_slots;
    int64_t *n = xcalloc((size_t)n_slots + 1, sizeof *n);
    int rc = 0;
    for (int i = 0; i < n_slots && !rc; i++) {
        if (want[i] <= c->pool[i].n_free) continue;
        for (int k = 0; k < n_slots; k++) {
            const struct page_pool *p = &c->pool[k];
            const bool same =
                p->place == c->pool[i].place && c->kv.slot[k].window == c->kv.slot[i].window;
            n[k] = same ? max_i64(want[k] - p->n_free, 0) : 0;
        }
        rc = add_extent(c, c->pool[i].place, n, false, e);
    }
    free(n);
    return rc;
}

int pages_need(struct cache *c, const int64_t *want, struct err *e) {
    const int rc = extend(c, want, e);
    return rc == ERR_SYS && cache_give_back(c) ? extend(c, want, e) : rc;
}

/* Returns whether the pools can do without an extent, as for pages_shrink. */
static bool is_unused(const struct cache *c, const struct extent *x, bool all) {
    bool unused = !x->n_held;
    for (int i = 0; i < c->kv.n_slots && unused; i++) {
        const struct page_pool *p = &c->pool[i];
        if (!x->n[i]) continue;
        if (x->reserved)
            unused = p->n_base - x->n[i] >= pages_wanted(c, i, p->n_reserved) &&
                     !(x->first && p->n_reserved);
        if (!all)
            unused = unused && p->n_free > pages_wanted(c, i, cache_slot_pages(c, i, c->spare_tok));
    }
    return unused;
}

/* Removes the extent's pages, which are all free, from a pool. */
static void remove_pages(struct page_pool *p, const struct extent *x, int64_t n) {
    for (struct page **f = &p->free; n && *f;)
        if ((*f)->extent == x)
            *f = (*f)->next;
        else
            f = &(*f)->next;
    p->n_base -= x->reserved ? n : 0;
    p->n_free -= n;
}

static void free_extent(struct cache *c, struct extent *x) {
    c->mem.free(c->mem.of, x->own);
    free(x->page);
    free(x);
}

bool pages_shrink(struct cache *c, bool all) {
    bool some = false;
    for (struct extent **at = &c->extent; *at;) {
        struct extent *x = *at;
        if (!is_unused(c, x, all)) {
            at = &x->next;
            continue;
        }
        *at = x->next;
        for (int i = 0; i < c->kv.n_slots; i++) {
            remove_pages(&c->pool[i], x, x->n[i]);
            c->n_bytes[x->place] -= (uint64_t)x->n[i] * c->pool[i].page_bytes;
        }
        free_extent(c, x);
        some = true;
    }
    return some;
}

void pages_release(struct cache *c) {
    for (struct extent *x = c->extent, *next; x; x = next) {
        next = x->next;
        free_extent(c, x);
    }
    c->extent = NULL;
}

/* ---- pages ---- */

struct page *pages_take(struct page_pool *p, uint64_t writer) {
    struct page *page = p->free;
    p->free = page->next;
    p->n_free--;
    page->extent->n_held++;
    page->next = NULL;
    page->refs = 1;
    page->writer = writer;
    page->sealed = 0;
    return page;
}

void pages_drop(struct page_pool *p, struct page *page) {
    if (--page->refs) return;
    page->extent->n_held--;
    page->next = p->free;
    p->free = page;
    p->n_free++;
}

/* ---- reservations ---- */

/* Extends the base of every pool to what its reservations need. */
static int extend_base(struct cache *c, struct err *e) {
    int64_t *n = xcalloc((size_t)c->kv.n_slots + 1, sizeof *n);
    int rc = 0;
    for (int i = 0; i < c->kv.n_slots && !rc; i++) {
        const struct page_pool *p = &c->pool[i];
        n[i] = pages_wanted(c, i, p->n_reserved) - p->n_base;
        if (n[i] > 0) rc = add_extent(c, p->place, n, true, e);
        n[i] = 0;
    }
    free(n);
    return rc;
}

int pages_reserve(struct cache *c, int64_t n_tok, struct err *e) {
    for (int i = 0; i < c->kv.n_slots; i++) c->pool[i].n_reserved += cache_slot_pages(c, i, n_tok);
    int rc = extend_base(c, e);
    if (rc == ERR_SYS && cache_give_back(c)) rc = extend_base(c, e);
    if (rc) pages_unreserve(c, n_tok);
    return rc;
}

void pages_unreserve(struct cache *c, int64_t n_tok) {
    for (int i = 0; i < c->kv.n_slots; i++) c->pool[i].n_reserved -= cache_slot_pages(c, i, n_tok);
    pages_shrink(c, false);
}
