// SPDX-License-Identifier: MIT
/* runtime/engine/pages.h - pools of pages, one per attention slot, and the memory that they share.
 * Internal to the cache (cache.h). */
#ifndef HONE_RUNTIME_ENGINE_PAGES_H
#define HONE_RUNTIME_ENGINE_PAGES_H

#include "runtime/engine/cache.h"

/* Returns the number of pages that a slot's pool must have: n_reserved pages promised to sequences,
 * those of one more sequence if a spare is kept, and those of the current pass. */
int64_t pages_wanted(const struct cache *c, int slot, int64_t n_reserved);
/* Returns an error if n more bytes would exceed the limit of this device. */
int pages_check_most(const struct cache *c, int place, uint64_t n, struct err *e);
/* Makes sure that the pool of each slot i has want[i] free pages. ERR_SYS: out of memory. */
int pages_need(struct cache *c, const int64_t *want, struct err *e);
/* Frees extents that no page is held of and no reservation needs. Without `all`, keeps enough free
 * pages for a sequence of spare_tok tokens. Returns whether it freed any. */
bool pages_shrink(struct cache *c, bool all);
/* Reserves pages for n_tok tokens in every slot; on failure reserves nothing. */
int pages_reserve(struct cache *c, int64_t n_tok, struct err *e);
/* Gives back the reservation for n_tok tokens and releases pages no longer needed. */
void pages_unreserve(struct cache *c, int64_t n_tok);
/* Takes a free page, which must exist, with one reference and the given writer. */
struct page *pages_take(struct page_pool *p, uint64_t writer);
/* Drops a reference; the last one returns the page to the pool's free list. */
void pages_drop(struct page_pool *p, struct page *page);
/* Frees all pages. */
void pages_release(struct cache *c);

#endif
