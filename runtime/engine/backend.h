// SPDX-License-Identifier: MIT
/* runtime/engine/backend.h - what a device does for a session. session.c checks the caller's
 * arguments, puts rows into passes and counts positions; memory and arithmetic are the backend's.
 * Internal to runtime/. */
#ifndef HONE_RUNTIME_ENGINE_BACKEND_H
#define HONE_RUNTIME_ENGINE_BACKEND_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/engine/session.h"

struct page;
struct head_row { /* a row of the last pass whose logits are wanted, or the best of them */
    int64_t row;
    float *logits; /* NULL: the best */
    struct session_best *best;
};
struct backend {
    const char *name;
    /* Allocates all memory of the session but what sequences keep, and counts it in s->n_bytes.
     * The options and the shapes of cache and state are set before. A device puts its memory
     * into s->cache.mem. */
    int (*open)(struct session *s, struct err *e);
    void (*close)(struct session *s); /* also of a session whose open failed */
    /* Tells of an open that failed, before close, whether it failed for want of memory that the
     * plan had counted on; with more of s->keep_free it may not. NULL: plan and memory are one. */
    bool (*was_full)(const struct session *s);
    /* Returns the bytes that sequences may still take in a place of the cache. NULL: as many as
     * main memory has. */
    uint64_t (*room)(const struct session *s, int place);
    /* Returns the bandwidth of the device's memory in bytes per second, as the driver has it; 0: it
     * does not say. NULL: main memory is what there is. */
    uint64_t (*bandwidth)(const struct session *s);
    void (*use)(struct session *s); /* other weights in s->m (session_use); NULL: nothing to do */
    int (*prepare)(struct session *s, struct err *e); /* session_prepare; NULL: nothing to do */
    bool on_device; /* s->cache.mem is a device's; convolutions keep rings (runtime/engine/state.h)
                     */
    /* Copy a page of a slot, and the states of all recurrent layers, in the form that main
     * memory has them, for files of sequences. put_states may change `from`. NULL: they lie in
     * that form already. */
    int (*get_page)(const struct session *s, int slot, const struct page *page, uint8_t *to,
                    struct err *e);
    int (*put_page)(const struct session *s, int slot, const struct page *page, const uint8_t *from,
                    struct err *e);
    int (*get_states)(const struct session *s, const struct seq *q, float *to, struct err *e);
    int (*put_states)(const struct session *s, const struct seq *q, float *from, struct err *e);
    /* Runs tokens s->ids [s->n_tok], at most n_ubatch, of the segments s->seg. `hidden` gets all
     * rows that enter the head, `logits` those of the last row; either may be NULL. */
    int (*pass)(struct session *s, float *hidden, float *logits, struct err *e);
    /* Copies rows [first, first + n) of the last pass that enter the head. */
    int (*rows)(struct session *s, int64_t first, int64_t n, float *hidden, struct err *e);
    int (*head)(struct session *s, const float *hidden, int64_t n, float *logits, struct err *e);
    bool finds_best; /* pass: with s->now.best, in place of logits */
    /* Computes what the head says of n rows of the last pass, from where they lie. NULL: it is done
     * with `rows` and `head`; nobody asks for the best then. */
    int (*outputs)(struct session *s, const struct head_row *row, int64_t n, struct err *e);
    /* Does session_score for rows of which `base`, of the same backend, was scored just before.
     * `shares` tells whether the logits of two sessions can be compared there. NULL: the caller
     * looks at logits itself. */
    int (*score)(struct session *s, struct session *base, int64_t first, int64_t n,
                 const int32_t *target, struct session_score *out, struct err *e);
    /* Copies n rows of the residual of the pass under way to where the next pass of `to` begins.
     * NULL: it cannot, as where can_hand says no. */
    bool (*can_hand)(const struct session *s, const struct session *to);
    int (*hand)(struct session *s, int64_t row, int64_t n, struct session *to, int64_t at,
                struct err *e);
    /* Gives pinned memory, and takes it back. NULL: no memory is faster than other. */
    int (*host_new)(struct session *s, void **out, uint64_t n_bytes, const char *what,
                    struct err *e);
    void (*host_free)(struct session *s, void *p);
    bool (*shares)(const struct session *s, const struct session *base);
    const struct session_sums *(*sums)(const struct session *s); /* session_sums; NULL: none */
};
extern const struct backend backend_cpu, backend_cuda;

#endif
