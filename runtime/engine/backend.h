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
struct backend {
    const char *name;
    /* All memory of the session but what sequences keep, counted in s->n_bytes; options and the
     * shapes of cache and state are there. A device puts its memory in s->cache.mem. */
    int (*open)(struct session *s, struct err *e);
    void (*close)(struct session *s); /* also of a session whose open failed */
    /* Not closed yet: did it fail for want of memory that the plan had counted on? With more of
     * s->keep_free it may not. NULL: plans and memory are one. */
    bool (*was_full)(const struct session *s);
    /* Bytes that sequences may still take in a place of the cache. NULL: as main memory has. */
    uint64_t (*room)(const struct session *s, int place);
    void (*use)(struct session *s); /* other weights in s->m (session_use); NULL: nothing to do */
    int (*prepare)(struct session *s, struct err *e); /* session_prepare; NULL: nothing to do */
    bool on_device; /* s->cache.mem is a device's; convolutions keep rings (runtime/engine/state.h)
                     */
    /* Files of sequences: a page of a slot, and the states of all recurrent layers, as main memory
     * has them. put_states may change `from`. NULL: that is how they lie. */
    int (*get_page)(const struct session *s, int slot, const struct page *page, uint8_t *to,
                    struct err *e);
    int (*put_page)(const struct session *s, int slot, const struct page *page, const uint8_t *from,
                    struct err *e);
    int (*get_states)(const struct session *s, const struct seq *q, float *to, struct err *e);
    int (*put_states)(const struct session *s, const struct seq *q, float *from, struct err *e);
    /* Tokens s->ids [s->n_tok], at most n_ubatch, of the segments s->seg. hidden: NULL or all rows
     * that enter the head; logits: NULL or those of the last row. */
    int (*pass)(struct session *s, float *hidden, float *logits, struct err *e);
    /* Copies rows [first, first + n) of the last pass that enter the head. */
    int (*rows)(struct session *s, int64_t first, int64_t n, float *hidden, struct err *e);
    int (*head)(struct session *s, const float *hidden, int64_t n, float *logits, struct err *e);
    bool finds_best; /* pass: with s->best, in place of logits */
    /* session_score; NULL: logits are looked at by the caller. `base` was scored for the same rows
     * just before and is of the same backend. shares: their logits can be compared there. */
    int (*score)(struct session *s, struct session *base, const float *hidden, int64_t n,
                 const int32_t *target, struct session_score *out, struct err *e);
    bool (*shares)(const struct session *s, const struct session *base);
    /* session_sum_...; sum_begin NULL: never */
    bool (*can_sum)(const struct session *s);
    int (*sum_begin)(struct session *s, struct err *e);
    void (*sum_names)(const struct session *s, session_sum_fn fn, void *ud);
    int (*sum_chunk)(struct session *s, struct err *e);
    int (*sum_save)(struct session *s, session_sum_fn fn, void *ud, struct err *e);
    int (*sum_load)(struct session *s, session_sum_give fn, void *ud, struct err *e);
    int (*sum_end)(struct session *s, session_sum_fn fn, void *ud, struct err *e);
};
extern const struct backend backend_cpu, backend_cuda;

#endif
