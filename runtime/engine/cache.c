// SPDX-License-Identifier: MIT
/* runtime/engine/cache.c - sequences, which hold pages and states (cache.h). */
#include "runtime/engine/cache.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "runtime/engine/pages.h"

/* ---- main memory ---- */

/* Allocates n bytes of main memory; *at is the address, *own the value to pass to main_free(). */
static int main_alloc(void *of, int place, uint64_t n, const char *what, void **own, void **at,
                      struct err *e) {
    (void)of, (void)place;
    TRY(mem_alloc(own, n, what, e));
    *at = *own;
    return 0;
}
/* Frees main memory of the cache; the first parameter is unused. */
static void main_free(void *of, void *own) {
    (void)of;
    mem_free(own);
}
/* Copies n bytes of cache in main memory; the other parameters are unused. */
static void main_copy(void *of, int place, void *to, const void *from, uint64_t n) {
    (void)of, (void)place;
    memcpy(to, from, (size_t)n);
}
/* Sets n bytes of cache in main memory to zero; the other parameters are unused. */
static void main_zero(void *of, int place, void *at, uint64_t n) {
    (void)of, (void)place;
    memset(at, 0, (size_t)n);
}

void cache_init(struct cache *c, const struct kv *kv, const struct rec *rec, int64_t page_tok,
                int64_t pass_tok) {
    memset(c, 0, sizeof *c);
    c->kv = *kv;
    c->rec = *rec;
    c->page_tok = page_tok;
    c->pass_tok = pass_tok;
    c->mem = (struct cache_mem){NULL, main_alloc, main_free, main_copy, main_zero};
    c->next_id = 1;
    c->n_places = 1;
    c->state_bytes[0] = rec->n_bytes;
    c->pool = xcalloc((size_t)kv->n_slots + 1, sizeof *c->pool);
    for (int i = 0; i < kv->n_slots; i++) {
        const struct kv_slot *s = &kv->slot[i];
        c->pool[i].page_bytes = (uint64_t)(s->n_heads * page_tok) * (s->k_row + s->v_row);
    }
}

void cache_place(struct cache *c, int n, const uint8_t *kv_place, const uint8_t *rec_place) {
    int64_t at[CACHE_PLACES] = {0};
    c->n_places = n;
    for (int i = 0; i < c->kv.n_slots; i++) c->pool[i].place = kv_place[i];
    for (int i = 0; i < c->rec.n_slots; i++) {
        struct rec_slot *r = &c->rec.slot[i];
        r->place = rec_place[i];
        r->at = at[r->place];
        at[r->place] += r->n_conv + r->n_delta;
    }
    for (int i = 0; i < n; i++) c->state_bytes[i] = (uint64_t)at[i] * sizeof(float);
}

void cache_release(struct cache *c) {
    pages_release(c);
    while (c->n_spare-- > 0)
        for (int i = 0; i < c->n_places; i++) c->mem.free(c->mem.of, c->spare[c->n_spare][i].own);
    free(c->pool);
    kv_release(&c->kv);
    rec_release(&c->rec);
    memset(c, 0, sizeof *c);
}

/* ---- sizes ---- */

uint64_t cache_held_bytes(const struct cache *c, int place) {
    uint64_t n = c->n_bytes[place];
    for (int i = 0; i < c->kv.n_slots; i++)
        if (c->pool[i].place == place) n -= (uint64_t)c->pool[i].n_free * c->pool[i].page_bytes;
    if (!c->keeps_spare) n -= (uint64_t)c->n_spare * (c->state_bytes[place] + c->table_bytes);
    return n;
}

uint64_t cache_slot_bytes(const struct cache *c, int slot, int64_t n_tok) {
    return (uint64_t)pages_wanted(c, slot, cache_slot_pages(c, slot, n_tok)) *
           c->pool[slot].page_bytes;
}

uint64_t cache_first_bytes(const struct cache *c, int place, int64_t n_tok, uint64_t *states) {
    uint64_t n = 0;
    for (int i = 0; i < c->kv.n_slots; i++)
        if (c->pool[i].place == place) n += cache_slot_bytes(c, i, n_tok);
    *states = (c->state_bytes[place] + c->table_bytes) * (c->keeps_spare ? 2 : 1);
    return n;
}

uint64_t cache_first_rounding(const struct cache *c, int place, int64_t n_tok,
                              uint64_t (*whole)(uint64_t)) {
    const uint64_t states = c->state_bytes[place] + c->table_bytes;
    uint64_t sum = (whole(states) - states) * (c->keeps_spare ? 2 : 1);
    for (int i = 0; i < c->kv.n_slots; i++) {
        const uint64_t n = cache_slot_bytes(c, i, n_tok);
        if (c->pool[i].place == place) sum += whole(n) - n;
    }
    return sum;
}

uint64_t cache_seq_bytes(const struct cache *c, int place, int64_t n_tok) {
    uint64_t n = c->state_bytes[place] + c->table_bytes;
    for (int i = 0; i < c->kv.n_slots; i++)
        if (c->pool[i].place == place)
            n += (uint64_t)cache_slot_pages(c, i, n_tok) * c->pool[i].page_bytes;
    return n;
}

/* ---- sequences ---- */

/* Returns how many bytes a sequence takes at a place in addition to its pages. */
static uint64_t fixed_bytes(const struct cache *c, int place) {
    return c->state_bytes[place] + c->table_bytes;
}
/* Frees a sequence's fixed memory at the first n_places places and subtracts its bytes. */
static void free_mem(struct cache *c, const struct seq_mem *m, int n_places) {
    for (int i = 0; i < n_places; i++) {
        if (!m[i].own) continue;
        c->n_bytes[i] -= fixed_bytes(c, i);
        c->mem.free(c->mem.of, m[i].own);
    }
}
/* Allocates the states and page tables of a sequence on every device. On failure frees all of
 * them. */
static int alloc_mem(struct cache *c, struct seq_mem *m, struct err *e) {
    for (int i = 0; i < c->n_places; i++) {
        const uint64_t n = fixed_bytes(c, i);
        int rc = pages_check_most(c, i, n, e);
        m[i] = (struct seq_mem){0};
        if (n && !rc) rc = c->mem.alloc(c->mem.of, i, n, "recurrent state", &m[i].own, &m[i].at, e);
        if (rc) {
            free_mem(c, m, i);
            return rc;
        }
        c->n_bytes[i] += n;
        if (c->state_bytes[i]) m[i].state = m[i].at;
        if (c->table_bytes) m[i].table = (void **)(void *)((uint8_t *)m[i].at + c->state_bytes[i]);
    }
    return 0;
}
/* Sets the sequence's states to zero at every place that has any. */
static void zero_states(struct cache *c, const struct seq_mem *m) {
    for (int i = 0; i < c->n_places; i++)
        if (m[i].state) c->mem.zero(c->mem.of, i, m[i].state, c->state_bytes[i]);
}

/* Creates a sequence without pages. zero: clears its states; otherwise the caller fills them. */
static int seq_alloc(struct seq **out, struct cache *c, bool zero, struct err *e) {
    struct seq_mem m[CACHE_PLACES] = {{0}};
    if (c->n_spare) {
        memcpy(m, c->spare[--c->n_spare], sizeof m);
        if (zero) zero_states(c, m);
    } else {
        int rc = alloc_mem(c, m, e);
        if (rc && cache_give_back(c)) rc = alloc_mem(c, m, e);
        if (rc) return rc;
    }
    struct seq *q = xcalloc(1, sizeof *q);
    q->cache = c;
    q->id = c->next_id++;
    memcpy(q->mem, m, sizeof m);
    q->slot = xcalloc((size_t)c->kv.n_slots + 1, sizeof *q->slot);
    *out = q;
    return 0;
}

bool cache_give_back(struct cache *c) {
    bool some = pages_shrink(c, true);
    while (!c->keeps_spare && c->n_spare) {
        free_mem(c, c->spare[--c->n_spare], c->n_places);
        some = true;
    }
    return some;
}

int cache_keep_spare(struct cache *c, struct err *e) {
    struct seq *q = NULL;
    c->keeps_spare = true;
    c->most_spare = 1;
    TRY(seq_alloc(&q, c, true, e));
    seq_free(q);
    return 0;
}

bool cache_add_spare(struct cache *c) {
    struct err ignored;
    if (c->n_spare >= c->most_spare || alloc_mem(c, c->spare[c->n_spare], &ignored)) return false;
    zero_states(c, c->spare[c->n_spare++]);
    return true;
}

void cache_keep_spares(struct cache *c, int n) {
    c->most_spare = n < CACHE_SPARES ? n : CACHE_SPARES;
    while (c->n_spare > c->most_spare) free_mem(c, c->spare[--c->n_spare], c->n_places);
    while (cache_add_spare(c)) continue;
}

int seq_new(struct seq **out, struct cache *c, int64_t n_reserve, struct err *e) {
    struct seq *q = NULL;
    TRY(seq_alloc(&q, c, true, e));
    const int rc = pages_reserve(c, n_reserve, e);
    if (rc) {
        seq_free(q);
        return rc;
    }
    q->n_reserved = n_reserve;
    *out = q;
    return 0;
}

/* Drops the references to pages [from, to) of a slot without changing the slot's list. */
static void drop_pages(struct seq *q, int slot, int from, int to) {
    struct seq_pages *p = &q->slot[slot];
    for (int i = from; i < to; i++) pages_drop(&q->cache->pool[slot], p->v[i]);
}

/* Drops all pages of a sequence and empties its page lists. */
static void drop_all(struct seq *q) {
    for (int i = 0; i < q->cache->kv.n_slots; i++) {
        drop_pages(q, i, 0, q->slot[i].n);
        q->slot[i].first = q->slot[i].n = 0;
    }
}

void seq_free(struct seq *q) {
    if (!q) return;
    struct cache *c = q->cache;
    drop_all(q);
    pages_unreserve(c, q->n_reserved);
    if (c->n_spare < c->most_spare)
        memcpy(c->spare[c->n_spare++], q->mem, sizeof c->spare[0]);
    else
        free_mem(c, q->mem, c->n_places);
    for (int i = 0; i < c->kv.n_slots; i++) free(q->slot[i].v);
    free(q->slot);
    free(q->shift);
    free(q);
}

int64_t seq_pos(const struct seq *q) {
    return q->pos;
}

/* ---- rotary positions ---- */

int64_t seq_shift_at(const struct seq *q, int64_t pos) {
    for (int i = q->n_shifts; i-- > 0;)
        if (q->shift[i].from <= pos) return q->shift[i].by;
    return 0;
}

void seq_add_shift(struct seq *q, int64_t from, int64_t by) {
    if (q->n_shifts == q->cap_shifts) {
        q->cap_shifts = q->cap_shifts ? 2 * q->cap_shifts : 4;
        q->shift = xreallocarray(q->shift, (size_t)q->cap_shifts, sizeof *q->shift);
    }
    q->shift[q->n_shifts++] = (struct seq_shift){from, by};
}

void seq_keep_shifts(struct seq *q, int64_t pos) {
    while (q->n_shifts && q->shift[q->n_shifts - 1].from > pos) q->n_shifts--;
}

/* Gives q the rotary positions of the first `pos` tokens of `from`. */
static void copy_shifts(struct seq *q, const struct seq *from, int64_t pos) {
    if (q == from) return;
    q->n_shifts = 0;
    for (int i = 0; i < from->n_shifts && from->shift[i].from <= pos; i++)
        seq_add_shift(q, from->shift[i].from, from->shift[i].by);
}

void seq_reset(struct seq *q) {
    drop_all(q);
    q->pos = q->n_shifts = 0;
    zero_states(q->cache, q->mem);
}

static void push_page(struct seq_pages *p, struct page *page) {
    if (p->n == p->cap) {
        p->cap = p->cap ? 2 * p->cap : 8;
        p->v = xreallocarray(p->v, (size_t)p->cap, sizeof *p->v);
    }
    p->v[p->n++] = page;
}

/* Records that the page table changed at page `from` or later, so that a device uploads it
 * again. */
static void table_changed(struct seq *q, int64_t from) {
    q->table_from = min_i64(q->table_from, from);
}

/* Makes q share the pages of the first `pos` tokens of `from`. */
static void share_pages(struct seq *q, const struct seq *from, int64_t pos) {
    for (int i = 0; i < q->cache->kv.n_slots; i++) {
        const struct seq_pages *have = &from->slot[i];
        const int64_t n = div_up(pos, q->cache->page_tok) - have->first;
        struct seq_pages old = q->slot[i];
        q->slot[i] = (struct seq_pages){.first = have->first};
        for (int k = 0; k < have->n && k < n; k++) {
            struct page *page = have->v[k];
            page->refs++;
            page->sealed = max_i64(page->sealed, pos);
            push_page(&q->slot[i], page);
            const int64_t was = have->first + k - old.first;
            if (was < 0 || was >= old.n || old.v[was] != page) table_changed(q, have->first + k);
        }
        for (int k = 0; k < old.n; k++) pages_drop(&q->cache->pool[i], old.v[k]);
        free(old.v);
    }
    copy_shifts(q, from, pos);
    q->pos = pos;
}

void seq_restore(struct seq *q, const struct seq *from) {
    const struct cache *c = q->cache;
    share_pages(q, from, from->pos);
    for (int i = 0; i < c->n_places; i++)
        if (q->mem[i].state)
            c->mem.copy(c->mem.of, i, q->mem[i].state, from->mem[i].state, c->state_bytes[i]);
}

void seq_take(struct seq *q, struct seq *from) {
    for (int i = 0; i < q->cache->kv.n_slots; i++) {
        const struct seq_pages old = q->slot[i];
        q->slot[i] = from->slot[i];
        from->slot[i] = old;
    }
    for (int i = 0; i < q->cache->n_places; i++) {
        const struct seq_mem old = q->mem[i];
        q->mem[i] = from->mem[i];
        from->mem[i] = old;
    }
    const struct seq old = *q;
    q->shift = from->shift;
    q->n_shifts = from->n_shifts;
    q->cap_shifts = from->cap_shifts;
    from->shift = old.shift;
    from->cap_shifts = old.cap_shifts;
    q->pos = from->pos;
    q->table_from = from->table_from; /* the tables have moved along with the states */
    seq_empty(from);
}

void seq_empty(struct seq *q) {
    drop_all(q);
    q->pos = q->n_shifts = 0;
}

int seq_new_fork(struct seq **out, struct cache *c, struct err *e) {
    return seq_alloc(out, c, false, e);
}

void seq_fork_ahead(struct seq *fork, const struct seq *q, int64_t n) {
    share_pages(fork, q, q->pos + n);
    seq_advance(fork, 0);
}

int seq_fork(struct seq **out, const struct seq *from, struct err *e) {
    TRY(seq_alloc(out, from->cache, false, e));
    seq_restore(*out, from);
    return 0;
}

/* Returns the first position visible to a query at `pos`. */
static int64_t first_seen(const struct kv_slot *s, int64_t pos) {
    return s->window > 0 && pos >= s->window ? pos - s->window + 1 : 0;
}

int seq_trim(struct seq *q, int64_t pos, struct err *e) {
    struct cache *c = q->cache;
    if (pos < 0 || pos > q->pos)
        return err_set(e, ERR_USAGE, "a sequence of %" PRId64 " tokens cannot go back to %" PRId64,
                       q->pos, pos);
    if (pos == q->pos) return 0;
    if (pos == 0) {
        seq_reset(q);
        return 0;
    }
    if (c->rec.n_bytes)
        return err_set(
            e, ERR_USAGE,
            "recurrent layers cannot go back to position %" PRId64 ": start from a snapshot", pos);
    for (int i = 0; i < c->kv.n_slots; i++)
        if (q->slot[i].n && first_seen(&c->kv.slot[i], pos) < q->slot[i].first * c->page_tok)
            return err_set(e, ERR_USAGE,
                           "the window has passed position %" PRId64 ": start from a snapshot",
                           pos);
    for (int i = 0; i < c->kv.n_slots; i++) {
        struct seq_pages *p = &q->slot[i];
        const int keep = p->n ? (int)(div_up(pos, c->page_tok) - p->first) : 0;
        drop_pages(q, i, keep, p->n);
        p->n = keep;
    }
    seq_keep_shifts(q, pos);
    q->pos = pos;
    return 0;
}

/* Returns whether q may write rows at its position and later into a page without copying it
 * first. */
static bool writable(const struct seq *q, const struct page *page) {
    return page->refs == 1 || (page->writer == q->id && q->pos >= page->sealed);
}

/* Returns the partly filled page that q's next row goes to, or NULL if that row starts a new
 * page. */
static struct page **partial(const struct seq *q, int slot) {
    const struct seq_pages *p = &q->slot[slot];
    return q->pos % q->cache->page_tok && p->n ? &p->v[q->pos / q->cache->page_tok - p->first]
                                               : NULL;
}

/* Returns the number of pages that seq_grow takes from a slot's pool for n more rows: new ones, and
 * a copy of the last one if it is shared. */
static int64_t pages_needed(const struct seq *q, int slot, int64_t n) {
    const struct cache *c = q->cache;
    const struct seq_pages *p = &q->slot[slot];
    if (!c->kv.slot[slot].n_heads || n <= 0) return 0;
    struct page **last = partial(q, slot);
    const int64_t end = p->n ? p->first + p->n : q->pos / c->page_tok;
    return max_i64(div_up(q->pos + n, c->page_tok) - end, 0) + (last && !writable(q, *last));
}

/* Allocates the pages that the pools lack for n more rows. */
static int need_pages(const struct seq *q, int64_t n, struct err *e) {
    struct cache *c = q->cache;
    bool enough = true;
    for (int i = 0; i < c->kv.n_slots && enough; i++)
        enough = pages_needed(q, i, n) <= c->pool[i].n_free;
    if (enough) return 0;
    int64_t *want = xcalloc((size_t)c->kv.n_slots, sizeof *want);
    for (int i = 0; i < c->kv.n_slots; i++) want[i] = pages_needed(q, i, n);
    const int rc = pages_need(c, want, e);
    free(want);
    return rc;
}

int seq_grow(struct seq *q, int64_t n, struct err *e) {
    struct cache *c = q->cache;
    TRY(need_pages(q, n, e));
    for (int i = 0; i < c->kv.n_slots && n > 0; i++) {
        struct seq_pages *p = &q->slot[i];
        struct page **last = partial(q, i);
        int64_t new = pages_needed(q, i, n);
        if (last && writable(q, *last)) {
            if ((*last)->refs == 1) (*last)->sealed = 0;
            (*last)->writer = q->id;
        } else if (last) {
            struct page *copy = pages_take(&c->pool[i], q->id);
            c->mem.copy(c->mem.of, c->pool[i].place, copy->data, (*last)->data,
                        c->pool[i].page_bytes);
            pages_drop(&c->pool[i], *last);
            *last = copy;
            table_changed(q, q->pos / c->page_tok);
            new --;
        }
        if (!p->n && new) p->first = q->pos / c->page_tok;
        if (new > 0) table_changed(q, p->first + p->n);
        while (new -- > 0) push_page(p, pages_take(&c->pool[i], q->id));
    }
    return 0;
}

int seq_make_room(struct seq *q, int64_t n_tok, const int64_t *first, struct err *e) {
    struct cache *c = q->cache;
    int64_t *want = xcalloc((size_t)c->kv.n_slots + 1, sizeof *want);
    for (int i = 0; i < c->kv.n_slots && n_tok; i++)
        if (c->kv.slot[i].n_heads) want[i] = div_up(n_tok, c->page_tok) - first[i] / c->page_tok;
    const int rc = pages_need(c, want, e);
    for (int i = 0; i < c->kv.n_slots && !rc; i++) {
        struct seq_pages *s = &q->slot[i];
        if (!want[i]) continue;
        s->first = first[i] / c->page_tok;
        while (s->n < want[i]) push_page(s, pages_take(&c->pool[i], q->id));
        table_changed(q, s->first);
    }
    free(want);
    if (rc) return rc;
    q->pos = n_tok;
    return 0;
}

void seq_advance(struct seq *q, int64_t n) {
    const struct cache *c = q->cache;
    q->pos += n;
    for (int i = 0; i < c->kv.n_slots; i++) {
        struct seq_pages *p = &q->slot[i];
        const int64_t first = first_seen(&c->kv.slot[i], q->pos) / c->page_tok;
        const int drop = (int)min_i64(max_i64(first - p->first, 0), p->n);
        if (!drop) continue;
        drop_pages(q, i, 0, drop);
        memmove(p->v, p->v + drop, (size_t)(p->n - drop) * sizeof *p->v);
        p->n -= drop;
        p->first += drop;
    }
}
