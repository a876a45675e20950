// SPDX-License-Identifier: MIT
/* runtime/engine/cache.h - what sequences keep from one pass to the next: keys and values in pages,
 * and the states of recurrent layers.
 *
 * A page holds the keys and values of one attention slot for a fixed number of consecutive
 * positions. Pages are counted: a fork shares all pages of its parent, and a page that two
 * sequences hold is copied when one of them would write over what the other reads. A slot with a
 * window gives back the pages that no later query can see. States of recurrent layers have a fixed
 * size per sequence and are copied by a fork.
 *
 * Where the memory lies is the business of struct cache_mem: main memory, or a device's, which has
 * page tables beside the states. There may be several places: each slot, of keys or of states, lies
 * in one of them, where its layer is computed, and a sequence has memory in each.
 *
 * A cache belongs to one engine and is used by one thread at a time. Internal to runtime/. */
#ifndef HONE_RUNTIME_ENGINE_CACHE_H
#define HONE_RUNTIME_ENGINE_CACHE_H

#include "runtime/engine/seq.h"
#include "runtime/engine/kv.h"
#include "runtime/engine/state.h"

enum { CACHE_PLACES = 8, CACHE_SPARES = 16 };
struct cache_mem {
    void *of; /* the first argument of each; the second is the place */
    /* Allocates n bytes, all 0, at *at; *own is what `free` takes. ERR_SYS when there is not so
     * much. */
    int (*alloc)(void *of, int place, uint64_t n, const char *what, void **own, void **at,
                 struct err *e);
    void (*free)(void *of, void *own); /* NULL is fine */
    /* Copy and clear within a place. They cannot report an error; a device does so at the next
     * pass. */
    void (*copy)(void *of, int place, void *to, const void *from, uint64_t n);
    void (*zero)(void *of, int place, void *at, uint64_t n);
};
struct page {
    struct page *next;     /* of a list of free pages */
    struct extent *extent; /* whose memory it is */
    /* In main memory these are the keys, [n_heads][n_tok] rows, then the values,
     * [n_heads][n_tok] rows. On a device they lie as kernels/cuda/args.h says, in as many bytes. */
    uint8_t *data;
    int refs;        /* sequences that hold it */
    uint64_t writer; /* the sequence that may append in place: seq.id */
    int64_t sealed;  /* positions before this one are read by other holders than the writer */
};
struct page_pool { /* the pages of one slot */
    struct extent *extent;
    struct page *free;
    int64_t n_free;
    int64_t n_base;     /* pages that were made for reservations */
    int64_t n_reserved; /* pages promised to sequences */
    uint64_t page_bytes;
    int place;
};
struct seq_mem {    /* of a sequence in one place */
    void *own, *at; /* memory of the states, and behind them the table; where it begins */
    float *state;   /* NULL: there are none */
    void **table;   /* on a device: [pages of n_ctx][n_slots]; NULL: none */
};
struct cache {
    struct kv kv;           /* shapes of the attention slots */
    struct rec rec;         /* shapes of the recurrent states */
    struct page_pool *pool; /* [kv.n_slots] */
    int64_t page_tok;       /* positions of a page */
    int64_t pass_tok;       /* rows of a pass at most: slots with windows keep room for them */
    struct cache_mem mem;
    int n_places;
    uint64_t state_bytes[CACHE_PLACES]; /* of a sequence's states in each place; their sum is that
                                           of rec */
    uint64_t table_bytes; /* of a sequence's page table on a device, in each place; 0: none */
    /* Memory is kept for a snapshot of the first sequence, which goes on behind it: where little is
     * left of it, a mark must not fail. spare: states that no sequence has, most_spare at most. */
    bool keeps_spare;
    int n_spare, most_spare;
    struct seq_mem spare[CACHE_SPARES][CACHE_PLACES];
    uint64_t next_id;               /* of the next sequence */
    uint64_t n_bytes[CACHE_PLACES]; /* allocated: pages and states, of forks and snapshots too */
    uint64_t most[CACHE_PLACES]; /* of n_bytes; what would be more is ERR_SYS. 0: as memory has */
};
struct seq_pages { /* of one slot: pages [first, first + n), page i holds positions from */
    int64_t first; /* i * page_tok on */
    int n, cap;
    struct page **v;
};
struct seq {
    struct cache *cache;
    uint64_t id;
    int64_t pos;            /* tokens so far */
    int64_t n_reserved;     /* tokens that pages are promised for */
    struct seq_pages *slot; /* [cache->kv.n_slots] */
    struct seq_mem mem[CACHE_PLACES];
    int64_t table_from; /* the table's pages from this one on may be others by now */
    int mark;           /* scratch of whoever groups rows by sequence */
};

/* Fills in the shapes. page_tok: a multiple of KEY_BLOCK. Takes over kv and rec, which are released
 * by cache_release. The memory is main memory; a device puts its own in place before the first
 * sequence. */
void cache_init(struct cache *c, const struct kv *kv, const struct rec *rec, int64_t page_tok,
                int64_t pass_tok);
/* Slots of keys lie in kv_place [kv.n_slots], states in rec_place [rec.n_slots], of n places;
 * before the first sequence. Without it all lie in one. */
void cache_place(struct cache *c, int n, const uint8_t *kv_place, const uint8_t *rec_place);
/* Frees the cache, whose sequences must all have been freed. */
void cache_release(struct cache *c);

/* Returns the pages of a slot that n_tok tokens of one sequence need between passes. */
int64_t cache_slot_pages(const struct cache *c, int slot, int64_t n_tok);
/* Returns the bytes of a slot in the first sequence when n_tok tokens are set aside for it. */
uint64_t cache_slot_bytes(const struct cache *c, int slot, int64_t n_tok);
/* Returns the bytes in a place that the first sequence takes when n_tok tokens are set aside for
 * it: its pages, and what windows need more during a pass; with room for a snapshot where that
 * is kept. *states gets those of the states and the page table. */
uint64_t cache_first_bytes(const struct cache *c, int place, int64_t n_tok, uint64_t *states);
/* Returns how many bytes `whole` adds to all of its allocations there. */
uint64_t cache_first_rounding(const struct cache *c, int place, int64_t n_tok,
                              uint64_t (*whole)(uint64_t));
/* Returns the most bytes in a place that another sequence takes when n_tok tokens are set aside
 * for it. */
uint64_t cache_seq_bytes(const struct cache *c, int place, int64_t n_tok);
/* Returns the bytes in a place that sequences hold, in pages (shared ones once) and states,
 * without those of cache_keep_spares. */
uint64_t cache_held_bytes(const struct cache *c, int place);
/* Sets memory for a snapshot aside, behind the first sequence's; ERR_SYS: there is none. */
int cache_keep_spare(struct cache *c, struct err *e);
/* Keeps states of so many sequences ready, written to once, at most CACHE_SPARES: fresh memory
 * costs more than what is copied into it. Again: replaces what was taken. Nothing is promised. */
void cache_keep_spares(struct cache *c, int n);
/* Makes one of those that were taken. Returns false when none is missing, or there is no memory. */
bool cache_add_spare(struct cache *c);
/* Makes an empty sequence, and sets memory aside so that it can grow to n_reserve tokens. ERR_SYS
 * when there is not so much; nothing has changed then. Longer sequences allocate as they grow. */
int seq_new(struct seq **out, struct cache *c, int64_t n_reserve, struct err *e);
/* Makes the pages of positions [pos, pos + n) writable. ERR_SYS: no memory; what q holds stays. */
int seq_grow(struct seq *q, int64_t n, struct err *e);
/* Makes an empty sequence one of n_tok tokens whose rows are to be filled in: slot i from the page
 * of position first[i] on. ERR_SYS: no memory. */
int seq_make_room(struct seq *q, int64_t n_tok, const int64_t *first, struct err *e);
/* Makes a sequence without a past (seq_empty). */
int seq_new_fork(struct seq **out, struct cache *c, struct err *e);
/* Gives `fork` the pages of what q is after n more tokens, which are written but not counted yet;
 * the states are the caller's part. */
void seq_fork_ahead(struct seq *fork, const struct seq *q, int64_t n);
/* Counts n tokens as kept, and drops pages that no later query of a window sees. */
void seq_advance(struct seq *q, int64_t n);

/* Returns the row of a key; the rows of the following positions of its page lie behind it.
 * seq_value does so for values. */
static inline uint8_t *seq_key(const struct seq *q, int slot, int64_t head, int64_t pos) {
    const struct kv_slot *s = &q->cache->kv.slot[slot];
    const int64_t n = q->cache->page_tok;
    const struct seq_pages *p = &q->slot[slot];
    return p->v[pos / n - p->first]->data + (uint64_t)(head * n + pos % n) * s->k_row;
}
static inline uint8_t *seq_value(const struct seq *q, int slot, int64_t head, int64_t pos) {
    const struct kv_slot *s = &q->cache->kv.slot[slot];
    const int64_t n = q->cache->page_tok;
    const struct seq_pages *p = &q->slot[slot];
    return p->v[pos / n - p->first]->data + (uint64_t)(s->n_heads * n) * s->k_row +
           (uint64_t)(head * n + pos % n) * s->v_row;
}
/* Returns the tail of a convolution, [width - 1][channels], oldest first. seq_scan returns the
 * matrices of a scan. */
static inline float *seq_conv(const struct seq *q, int slot) {
    const struct rec_slot *r = &q->cache->rec.slot[slot];
    return q->mem[r->place].state + r->at;
}
static inline float *seq_scan(const struct seq *q, int slot) {
    return seq_conv(q, slot) + q->cache->rec.slot[slot].n_conv;
}

#endif
