// SPDX-License-Identifier: MIT
/* models/fit.c - which context, blocks and experts fit in the memory of a device. */
#include "models/fit.h"

#include <string.h>

#include "base/num.h"

enum { PASS_TOKENS = 512, CTX_STEP = 256 };

uint64_t fit_compute(const struct sizes *z) {
    return (uint64_t)PASS_TOKENS * sizeof(float) * (uint64_t)(z->n_vocab + 4 * z->n_embd);
}

uint64_t fit_reserve(uint64_t memory) {
    const uint64_t most = UINT64_C(1) << 30;
    return memory / 8 < most ? memory / 8 : most;
}

bool fit_use(const struct sizes *z, const struct fit_ask *a, int first, int n_cpu_experts,
             struct fit_use *u) {
    memset(u, 0, sizeof *u);
    if (!(a->rows.bytes ? sizes_kv_rows(z, first, a->n_slots, a->n_ctx, &a->rows, true, &u->kv)
                        : sizes_kv(z, first, a->n_slots, a->n_ctx, a->kv_type, true, &u->kv)))
        return false;
    if (!mul_ok(sizes_state(z, first), (uint64_t)a->n_slots, &u->state)) return false;
    for (int i = first; i < z->n_blocks; i++)
        u->weights += z->block[i].dense + (i < n_cpu_experts ? 0 : z->block[i].experts);
    u->weights += z->output + z->tied_head + z->mtp;
    u->compute = fit_compute(z);
    return add_ok(u->weights, u->kv, &u->total) && add_ok(u->total, u->state, &u->total) &&
           add_ok(u->total, u->compute, &u->total);
}

/* Returns whether the use fits in the memory less the reserve. */
static bool fits_memory(const struct fit_ask *a, const struct fit_use *u) {
    return a->memory >= a->reserve && u->total <= a->memory - a->reserve;
}

/* Returns the longest context with which everything fits on the card; 0: not even the shortest
 * does. */
static int64_t max_ctx(const struct sizes *z, const struct fit_ask *a) {
    struct fit_ask t = *a;
    struct fit_use u;
    const int64_t most = max_i64(z->n_ctx_train, a->n_ctx); /* n_ctx may exceed n_ctx_train */
    int64_t lo = 0, hi = div_up(most, CTX_STEP);            /* steps: lo fits, hi + 1 does not */
    while (lo < hi) {
        int64_t mid = lo + (hi - lo + 1) / 2;
        t.n_ctx = min_i64(mid * CTX_STEP, most);
        if (fit_use(z, &t, 0, 0, &u) && fits_memory(a, &u))
            lo = mid;
        else
            hi = mid - 1;
    }
    return min_i64(lo * CTX_STEP, most);
}

/* Finds the way, n and use of a fit; f->use is that of the whole model. */
static bool find_way(const struct sizes *z, const struct fit_ask *a, struct fit *f) {
    f->way = FIT_ALL;
    if (fits_memory(a, &f->use)) return true;
    f->way = FIT_EXPERTS;
    for (f->n = 1; sizes_has_experts(z) && f->n <= z->n_blocks; f->n++) {
        if (!fit_use(z, a, 0, f->n, &f->use)) return false;
        if (fits_memory(a, &f->use)) return true;
    }
    f->way = FIT_BLOCKS;
    int outside = sizes_has_experts(z) ? z->n_blocks : 0;
    for (f->n = z->n_blocks - 1; f->n > 0; f->n--) {
        if (!fit_use(z, a, z->n_blocks - f->n, outside, &f->use)) return false;
        if (fits_memory(a, &f->use)) return true;
    }
    f->way = FIT_NONE;
    return true;
}

bool fit_find(const struct sizes *z, const struct fit_ask *a, struct fit *f) {
    memset(f, 0, sizeof *f);
    if (!fit_use(z, a, 0, 0, &f->use)) return false;
    const uint64_t whole = f->use.total;
    f->max_ctx = max_ctx(z, a);
    if (!find_way(z, a, f)) return false;
    if (f->way != FIT_NONE) f->host = z->embd + whole - f->use.total;
    return true;
}
