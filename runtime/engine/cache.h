// SPDX-License-Identifier: MIT
/* runtime/engine/cache.h - KV cache pages and recurrent states of sequences.
 *
 * A page holds the keys and values of one attention slot for a fixed number of consecutive
 * positions. Pages are reference-counted: a fork shares all pages of its parent, and a shared page
 * is copied before one holder overwrites rows that another reads. A slot with a window frees the
 * pages that no later query can see. Recurrent states have a fixed size per sequence, and a fork
 * copies them.
 *
 * struct cache_mem supplies the memory: main memory, or device memory with page tables after the
 * states. With several devices, the keys or states of a slot are on the device that computes its
 * layer, and a sequence has memory on every device. `place`: the device's index.
 *
 * A cache belongs to one engine and is used by one thread at a time. Internal to runtime/. */
#ifndef HONE_RUNTIME_ENGINE_CACHE_H
#define HONE_RUNTIME_ENGINE_CACHE_H

#include "runtime/engine/seq.h"
#include "runtime/engine/kv.h"
#include "runtime/engine/state.h"

enum { CACHE_PLACES = 8, CACHE_SPARES = 16 };
struct cache_mem {
    void *of; /* first argument of each function; the second is the device's index */
    /* Allocates n zeroed bytes at *at; *own is the handle for `free`. ERR_SYS: out of memory. */
    int (*alloc)(void *of, int place, uint64_t n, const char *what, void **own, void **at,
                 struct err *e);
    void (*free)(void *of, void *own); /* accepts NULL */
    /* Copy or clear memory within a device. If this fails on a device, the next pass reports the
     * error. */
    void (*copy)(void *of, int place, void *to, const void *from, uint64_t n);
    void (*zero)(void *of, int place, void *at, uint64_t n);
};
struct page {
    struct page *next;     /* in a list of free pages */
    struct extent *extent; /* allocation that contains it */
    /* In main memory: the keys, [n_heads][n_tok] rows, then the values, [n_heads][n_tok] rows. On a
     * device: the same number of bytes in the layout of kernels/cuda/args.h. */
    uint8_t *data;
    int refs;        /* sequences that hold it */
    uint64_t writer; /* seq.id of the sequence that may append in place */
    int64_t sealed;  /* positions before this one have readers other than the writer */
};
struct page_pool { /* pages of one slot */
    struct page *free;
    int64_t n_free;
    int64_t n_base;     /* pages allocated for reservations */
    int64_t n_reserved; /* pages promised to sequences */
    uint64_t page_bytes;
    int place;
};
struct seq_mem {    /* memory of a sequence on one device */
    void *own, *at; /* allocation that holds the states and, after them, the table; its address */
    float *state;   /* NULL: no recurrent layers */
    void **table;   /* page table on a device, [pages of n_ctx][n_slots]; NULL: none */
};
struct cache {
    struct kv kv;           /* shapes of the attention slots */
    struct rec rec;         /* shapes of the recurrent states */
    struct page_pool *pool; /* [kv.n_slots] */
    struct extent *extent;  /* allocations of pages, the newest first */
    int64_t page_tok;       /* positions per page */
    int64_t pass_tok;       /* maximum rows in a pass; slots with a window keep room for them */
    struct cache_mem mem;
    int n_places;
    uint64_t state_bytes[CACHE_PLACES]; /* bytes of a sequence's states on each device */
    uint64_t table_bytes; /* size of a sequence's page table on each device; 0: no page tables */
    /* At most the pages of a sequence of spare_tok tokens stay allocated while they are free, until
     * memory is short: on a device, allocating and freeing interrupt the other sequences. */
    int64_t spare_tok;
    /* keeps_spare: memory is reserved for a snapshot of the first sequence, so that setting a mark
     * cannot fail on a nearly full device. spare: unused states, at most most_spare. */
    bool keeps_spare;
    int n_spare, most_spare;
    struct seq_mem spare[CACHE_SPARES][CACHE_PLACES];
    uint64_t next_id;               /* id of the next sequence */
    uint64_t n_bytes[CACHE_PLACES]; /* pages and states, including forks and snapshots */
    uint64_t most[CACHE_PLACES];    /* limit of n_bytes; exceeding it is ERR_SYS; 0: none */
};
struct seq_pages { /* pages [first, first + n) of one slot; page i holds */
    int64_t first; /* the positions starting at i * page_tok */
    int n, cap;
    struct page **v;
};
struct seq {
    struct cache *cache;
    uint64_t id;
    int64_t pos;            /* tokens so far */
    int64_t n_reserved;     /* tokens for which pages are reserved */
    struct seq_pages *slot; /* [cache->kv.n_slots] */
    struct seq_mem mem[CACHE_PLACES];
    int64_t table_from; /* first page whose table entry may be out of date */
    /* Rotary positions after images: the token at position p rotates by p + `by` of the last entry
     * whose `from` is at most p. Entries after `pos` are left over from a failed pass. */
    struct seq_shift {
        int64_t from, by;
    } * shift;
    int n_shifts, cap_shifts;
    int mark; /* scratch for code that groups rows by sequence */
};

/* Initializes the cache in main memory; a device replaces `mem` before the first sequence.
 * page_tok: a multiple of KEY_BLOCK. Takes ownership of kv and rec. */
void cache_init(struct cache *c, const struct kv *kv, const struct rec *rec, int64_t page_tok,
                int64_t pass_tok);
/* Assigns each KV slot and each recurrent state to one of n devices: kv_place [kv.n_slots],
 * rec_place [rec.n_slots]. Call before the first sequence. Default: one device. */
void cache_place(struct cache *c, int n, const uint8_t *kv_place, const uint8_t *rec_place);
/* Frees the cache. All of its sequences must have been freed. */
void cache_release(struct cache *c);

/* Returns the pages of a slot that one sequence of n_tok tokens needs between passes. */
int64_t cache_slot_pages(const struct cache *c, int slot, int64_t n_tok);
/* Returns how many bytes a slot takes if n_tok tokens are reserved for the first sequence. */
uint64_t cache_slot_bytes(const struct cache *c, int slot, int64_t n_tok);
/* Returns how many bytes the first sequence takes on a device if n_tok tokens are reserved for it:
 * its pages, the extra pages that windows need during a pass, and, with keeps_spare, a snapshot's
 * states. *states receives how much of that is states and page table. */
uint64_t cache_first_bytes(const struct cache *c, int place, int64_t n_tok, uint64_t *states);
/* Returns how much the rounding function `whole` enlarges the allocations that cache_first_bytes
 * counts, in bytes. */
uint64_t cache_first_rounding(const struct cache *c, int place, int64_t n_tok,
                              uint64_t (*whole)(uint64_t));
/* Returns an upper bound on the bytes that any further sequence takes on a device if n_tok
 * tokens are reserved for it. */
uint64_t cache_seq_bytes(const struct cache *c, int place, int64_t n_tok);
/* Returns how many bytes sequences hold on a device: pages (shared ones counted once) and states,
 * without the spares of cache_keep_spares. */
uint64_t cache_held_bytes(const struct cache *c, int place);
/* Frees pages that nothing holds or reserves and, unless keeps_spare, the spares. Returns whether
 * there were any. */
bool cache_give_back(struct cache *c);
/* Reserves memory for a snapshot of the first sequence. ERR_SYS: out of memory. */
int cache_keep_spare(struct cache *c, struct err *e);
/* Keeps the states of n sequences, at most CACHE_SPARES, allocated and touched, because fresh
 * memory costs more than copying into it. Calling it again refills the spares. Best effort: it may
 * keep fewer. */
void cache_keep_spares(struct cache *c, int n);
/* Refills one spare. Returns false if none is missing or memory is short. */
bool cache_add_spare(struct cache *c);
/* Creates an empty sequence and reserves memory for n_reserve tokens; beyond that, it allocates as
 * it grows. ERR_SYS: out of memory; nothing has changed. */
int seq_new(struct seq **out, struct cache *c, int64_t n_reserve, struct err *e);
/* Makes the pages of positions [pos, pos + n) writable. ERR_SYS: out of memory; the contents of q
 * are unchanged. */
int seq_grow(struct seq *q, int64_t n, struct err *e);
/* Turns an empty sequence into one of n_tok tokens whose rows the caller then fills in; slot i has
 * pages starting at position first[i]. ERR_SYS: out of memory. */
int seq_make_room(struct seq *q, int64_t n_tok, const int64_t *first, struct err *e);
/* Creates a sequence without a past (seq_empty). */
int seq_new_fork(struct seq **out, struct cache *c, struct err *e);
/* Makes `fork` share the pages of q including n more tokens that are written but not yet counted.
 * The caller copies the states. */
void seq_fork_ahead(struct seq *fork, const struct seq *q, int64_t n);
/* Returns the difference between the rotary position and the position of the token at `pos`. */
int64_t seq_shift_at(const struct seq *q, int64_t pos);
/* Sets that difference for the tokens at `from` and later; `from` must increase from call to call.
 * seq_keep_shifts drops the entries after position `pos`. */
void seq_add_shift(struct seq *q, int64_t from, int64_t by);
/* Forgets the position shifts that begin after pos. */
void seq_keep_shifts(struct seq *q, int64_t pos);
/* Counts n more tokens and frees pages that a window has passed. */
void seq_advance(struct seq *q, int64_t n);

/* Returns the row of a key; the rows of the next positions in its page follow it. seq_value does
 * the same for values. */
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
 * state matrices of a scan. */
static inline float *seq_conv(const struct seq *q, int slot) {
    const struct rec_slot *r = &q->cache->rec.slot[slot];
    return q->mem[r->place].state + r->at;
}
static inline float *seq_scan(const struct seq *q, int slot) {
    return seq_conv(q, slot) + q->cache->rec.slot[slot].n_conv;
}

#endif
