// SPDX-License-Identifier: MIT
/* grad/scan.c - backward passes over recurrences. To save memory, only the states of every
 * GRAD_CHUNK-th token are stored; those in between are recomputed. */
#include <string.h>

#include "base/num.h"
#include "grad/grad_int.h"

enum { GRAD_CHUNK = 32 };

int64_t grad_scan_floats(int64_t size, int64_t n_ctx) {
    return (div_up(n_ctx, GRAD_CHUNK) + GRAD_CHUNK + 2) * size;
}

/* Stores the state before each chunk of tokens in marks; s is scratch. */
static void mark_chunks(const struct grad_scan *r, float *marks, float *s) {
    const size_t bytes = (size_t)r->size * sizeof *s;
    memset(marks, 0, bytes);
    memset(s, 0, bytes);
    for (int64_t t = 0; t < (r->n - 1) / GRAD_CHUNK * GRAD_CHUNK; t++) {
        r->forward(r->ctx, t, s, s);
        if ((t + 1) % GRAD_CHUNK == 0) memcpy(marks + (t + 1) / GRAD_CHUNK * r->size, s, bytes);
    }
}

void grad_scan(const struct grad_scan *r, float *room) {
    const int64_t n_chunks = div_up(r->n, GRAD_CHUNK), size = r->size;
    const size_t bytes = (size_t)size * sizeof *room;
    float *marks = room, *s = marks + n_chunks * size, *z = s + (GRAD_CHUNK + 1) * size;
    mark_chunks(r, marks, s);
    memset(z, 0, bytes);
    for (int64_t c = n_chunks - 1; c >= 0; c--) {
        const int64_t t0 = c * GRAD_CHUNK, m = min_i64(GRAD_CHUNK, r->n - t0);
        memcpy(s, marks + c * size, bytes);
        for (int64_t i = 0; i < m; i++)
            r->forward(r->ctx, t0 + i, s + i * size, s + (i + 1) * size);
        for (int64_t i = m - 1; i >= 0; i--)
            r->back(r->ctx, t0 + i, s + i * size, s + (i + 1) * size, z);
    }
}
