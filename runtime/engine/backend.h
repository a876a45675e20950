// SPDX-License-Identifier: MIT
/* runtime/engine/backend.h - interface between a session and the device that computes it. session.c
 * checks arguments, splits rows into passes and counts positions; a backend owns the memory and
 * does the arithmetic. Internal to runtime/. */
#ifndef HONE_RUNTIME_ENGINE_BACKEND_H
#define HONE_RUNTIME_ENGINE_BACKEND_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/engine/session.h"

struct page;
struct head_row { /* a row of the last pass whose logits or best tokens are requested */
    int64_t row;
    float *logits; /* NULL: fill in `best` */
    struct session_best *best;
};
struct backend {
    const char *name;
    /* Allocates all memory of the session except for its sequences and counts it in s->n_bytes.
     * Options and the shapes of cache and state are already set. A device also sets s->cache.mem to
     * its own allocator. */
    int (*open)(struct session *s, struct err *e);
    void (*close)(struct session *s); /* also called after a failed open */
    /* Returns whether open failed because memory that the plan had counted on was no longer free; a
     * larger s->keep_free may then help. Called before close. NULL: the plan is exact. */
    bool (*was_full)(const struct session *s);
    /* Returns how much memory sequences may still take on one of the cache's devices. NULL: only
     * main memory is the limit. */
    uint64_t (*room)(const struct session *s, int place);
    /* Returns the bandwidth of device memory in bytes per second as reported by the driver, or 0 if
     * unknown. NULL: computes in main memory. */
    uint64_t (*bandwidth)(const struct session *s);
    void (*use)(struct session *s); /* session_use changed s->m; NULL: nothing to do */
    int (*prepare)(struct session *s, struct err *e); /* session_prepare; NULL: nothing to do */
    bool on_device; /* s->cache.mem is device memory; convolutions keep rings (state.h) */
    /* Copy one page of a slot, or the states of all recurrent layers, in the layout of main memory,
     * for sequence files. put_states may modify `from`. NULL: they are already in that layout. */
    int (*get_page)(const struct session *s, int slot, const struct page *page, uint8_t *to,
                    struct err *e);
    int (*put_page)(const struct session *s, int slot, const struct page *page, const uint8_t *from,
                    struct err *e);
    int (*get_states)(const struct session *s, const struct seq *q, float *to, struct err *e);
    int (*put_states)(const struct session *s, const struct seq *q, float *from, struct err *e);
    /* Runs tokens s->ids [s->n_tok], at most n_ubatch, of the segments s->seg. `hidden` receives
     * all rows that enter the head, `logits` those of the last row; either may be NULL. */
    int (*pass)(struct session *s, float *hidden, float *logits, struct err *e);
    /* Copies rows [first, first + n) of the last pass's head input. */
    int (*rows)(struct session *s, int64_t first, int64_t n, float *hidden, struct err *e);
    int (*head)(struct session *s, const float *hidden, int64_t n, float *logits, struct err *e);
    bool finds_best; /* pass fills in s->now.best instead of logits */
    /* Computes the head's outputs for n rows of the last pass without copying the rows first. NULL:
     * the caller uses `rows` and `head`, and must not request the best tokens. */
    int (*outputs)(struct session *s, const struct head_row *row, int64_t n, struct err *e);
    /* Implements session_score. `base`, if not NULL, belongs to the same backend and has just
     * scored the same rows. `shares` returns whether the backend can compare the logits of two
     * sessions. NULL: the caller compares logits itself. */
    int (*score)(struct session *s, struct session *base, int64_t first, int64_t n,
                 const int32_t *target, struct session_score *out, struct err *e);
    /* Copies n rows of the current pass's residual to the input of the next pass of `to`. Not
     * possible if NULL or if can_hand returns false. */
    bool (*can_hand)(const struct session *s, const struct session *to);
    int (*hand)(struct session *s, int64_t row, int64_t n, struct session *to, int64_t at,
                struct err *e);
    /* Allocate and free pinned memory. NULL: ordinary memory is as fast. */
    int (*host_new)(struct session *s, void **out, uint64_t n_bytes, const char *what,
                    struct err *e);
    void (*host_free)(struct session *s, void *p);
    bool (*shares)(const struct session *s, const struct session *base);
    const struct session_sums *(*sums)(const struct session *s); /* NULL: not available */
};
extern const struct backend backend_cpu, backend_cuda;

#endif
