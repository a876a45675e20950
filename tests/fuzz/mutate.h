// SPDX-License-Identifier: MIT
/* tests/fuzz/mutate.h - mutations of containers that keep most of their structure, so that the
 * fuzzer gets past the first checks.
 *
 * A GGUF or safetensors file is walked as far as possible; then one field (a count, length, type,
 * dimension or offset) gets a dangerous value, a whole record is repeated, removed or exchanged, or
 * a text is changed along with its length. Every fourth mutation changes arbitrary bytes instead.
 * Included by the targets that use it; the driver without libFuzzer calls the same functions. */
#ifndef HONE_TESTS_FUZZ_MUTATE_H
#define HONE_TESTS_FUZZ_MUTATE_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/rng.h"
#include "tests/fuzz/fuzz.h"

enum { MUT_FIELDS = 512 };
struct mut_field {
    size_t at;
    int bytes; /* 4 or 8 */
};
struct mut_walk {
    const uint8_t *p;
    size_t n, at;
    struct mut_field field[MUT_FIELDS];
    size_t record[MUT_FIELDS + 1]; /* start of each record, and the end of the last one */
    int n_fields, n_kv, n_records; /* tensor records follow n_kv key records */
    bool ok;
};

static inline uint64_t mut_take(struct mut_walk *w, int bytes) {
    if (!w->ok || w->n - w->at < (size_t)bytes) {
        w->ok = false;
        return 0;
    }
    if (w->n_fields < MUT_FIELDS) w->field[w->n_fields++] = (struct mut_field){w->at, bytes};
    uint64_t v = bytes == 8 ? load_u64(w->p + w->at) : load_u32(w->p + w->at);
    w->at += (size_t)bytes;
    return v;
}
static inline void mut_skip(struct mut_walk *w, uint64_t n) {
    if (w->ok && n <= w->n - w->at)
        w->at += (size_t)n;
    else
        w->ok = false;
}
static inline void mut_begin(struct mut_walk *w) {
    if (w->n_records < MUT_FIELDS) w->record[w->n_records++] = w->at;
}
static inline void mut_value(struct mut_walk *w, uint64_t type) {
    static const uint8_t bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    uint64_t n = 1;
    if (type == 9) {
        type = mut_take(w, 4);
        n = mut_take(w, 8);
        if (type == 9) w->ok = false;
    }
    if (type > 12 || n > w->n) {
        w->ok = false;
        return;
    }
    for (uint64_t i = 0; type == 8 && i < n && w->ok; i++) mut_skip(w, mut_take(w, 8));
    if (type != 8) mut_skip(w, n * bytes[type]);
}

static inline void mut_walk_gguf(struct mut_walk *w, const uint8_t *p, size_t n) {
    *w = (struct mut_walk){.p = p, .n = n, .ok = true};
    mut_skip(w, 4);
    (void)mut_take(w, 4);
    uint64_t n_t = mut_take(w, 8), n_kv = mut_take(w, 8);
    for (uint64_t i = 0; i < n_kv && w->ok; i++) {
        mut_begin(w);
        mut_skip(w, mut_take(w, 8));
        mut_value(w, mut_take(w, 4));
        w->n_kv = w->n_records;
    }
    for (uint64_t i = 0; i < n_t && w->ok; i++) {
        mut_begin(w);
        mut_skip(w, mut_take(w, 8));
        uint64_t dims = mut_take(w, 4);
        for (uint64_t d = 0; d < dims && d < 8; d++) (void)mut_take(w, 8);
        (void)mut_take(w, 4);
        (void)mut_take(w, 8);
    }
    w->record[w->n_records] = w->at;
}

static inline void mut_put(uint8_t *p, int bytes, uint64_t v) {
    for (int i = 0; i < bytes; i++) p[i] = (uint8_t)(v >> (8 * i));
}
static inline uint64_t mut_number(struct rng *rng, uint64_t was, size_t size) {
    const uint64_t hurts[] = {0,          1,    was + 1,  was - 1,           was * 2,
                              UINT32_MAX, size, 1u << 31, UINT64_C(1) << 32, UINT64_C(1) << 63,
                              UINT64_MAX, 12,   was ^ 32, rng_u64(rng) % 300};
    return hurts[rng_u64(rng) % (sizeof hurts / sizeof *hurts)];
}

/* Inserts bytes into a record or removes them. */
static inline size_t mut_splice(uint8_t *data, size_t size, size_t max, size_t at, size_t cut,
                                const uint8_t *ins, size_t n_ins) {
    if (size - cut + n_ins > max) return size;
    memmove(data + at + n_ins, data + at + cut, size - at - cut);
    if (n_ins) memcpy(data + at, ins, n_ins);
    return size - cut + n_ins;
}

static inline size_t mut_gguf(uint8_t *data, size_t size, size_t max, unsigned seed) {
    static struct mut_walk w;
    struct rng rng = {seed};
    if (rng_u64(&rng) % 4 == 0 || size < 24) return LLVMFuzzerMutate(data, size, max);
    mut_walk_gguf(&w, data, size);
    unsigned op = (unsigned)(rng_u64(&rng) % 4);
    if (op < 2 || !w.n_records) {
        struct mut_field f = w.field[rng_u64(&rng) % (uint64_t)w.n_fields];
        uint64_t was = f.bytes == 8 ? load_u64(data + f.at) : load_u32(data + f.at);
        mut_put(data + f.at, f.bytes, mut_number(&rng, was, size));
        return size;
    }
    int r = (int)(rng_u64(&rng) % (uint64_t)w.n_records);
    size_t at = w.record[r], n = w.record[r + 1] - at;
    uint8_t copy[4096];
    if (op == 2 && n <= sizeof copy) { /* repeated or removed, usually with the count adjusted */
        bool more = rng_u64(&rng) % 2;
        size_t count_at = r < w.n_kv ? 16 : 8, was = size;
        memcpy(copy, data + at, n);
        size = mut_splice(data, size, max, at, more ? 0 : n, copy, more ? n : 0);
        if (size != was && rng_u64(&rng) % 8)
            mut_put(data + count_at, 8, load_u64(data + count_at) + (more ? 1 : UINT64_MAX));
        return size;
    }
    if (size - at < 8) return LLVMFuzzerMutate(data, size, max);
    uint64_t len = load_u64(data + at); /* the record's first field: the length of its name */
    if (len > 1000 || len > size - at - 8) return LLVMFuzzerMutate(data, size, max);
    memcpy(copy, data + at + 8, (size_t)len);
    size_t now = LLVMFuzzerMutate(copy, (size_t)len, 1200), was = size;
    size = mut_splice(data, size, max, at + 8, (size_t)len, copy, now);
    if (size != was || now == len) mut_put(data + at, 8, now);
    return size;
}

/* Changes the header's text along with its length; then may resize the data to fit the largest
 * offset. */
static inline size_t mut_safetensors(uint8_t *data, size_t size, size_t max, unsigned seed) {
    static uint8_t head[1 << 16];
    struct rng rng = {seed};
    uint64_t len = size >= 8 ? load_u64(data) : UINT64_MAX;
    if (rng_u64(&rng) % 4 == 0 || len > size - 8 || len > sizeof head / 2)
        return LLVMFuzzerMutate(data, size, max);
    memcpy(head, data + 8, (size_t)len);
    size_t now = len;
    if (rng_u64(&rng) % 2) { /* one of its numbers */
        size_t at = rng_u64(&rng) % (len + 1), end;
        while (at < len && (head[at] < '0' || head[at] > '9')) at++;
        for (end = at; end < len && head[end] >= '0' && head[end] <= '9';) end++;
        char text[24];
        int n = snprintf(text, sizeof text, "%llu",
                         (unsigned long long)mut_number(&rng, rng_u64(&rng) % 64, size));
        now = mut_splice(head, len, sizeof head, at, end - at, (const uint8_t *)text, (size_t)n);
    } else {
        now = LLVMFuzzerMutate(head, len, sizeof head);
    }
    if (now + 8 > max) return LLVMFuzzerMutate(data, size, max);
    size = mut_splice(data, size, max, 8, (size_t)len, head, now);
    mut_put(data, 8, now);
    return size;
}

#endif
