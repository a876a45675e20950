// SPDX-License-Identifier: MIT
/* work/device.c - names, free memory and memory shares of the devices that --device selects. */
#include "work/device.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "containers/gguf.h"
#include "base/log.h"
#include "kernels/cuda/cuda.h"
#include "kernels/dev_product.h"
#include "runtime/engine/model.h"
#include "work/passes.h"

/* Fills *i with the properties of the n-th device. Returns false for the CPU, or if the device does
 * not respond. */
static bool get_info(const struct work *w, int n, struct cu_info *i) {
    struct cu_ctx *ctx = NULL;
    struct err ignored;
    if (w->device.kind == DEVICE_CPU) return false;
    bool ok = cu_open(&ctx, device_index(&w->device, n), &ignored) == 0 &&
              cu_get_info(ctx, i, &ignored) == 0;
    cu_close(ctx);
    return ok;
}

void device_name(const struct work *w, char out[256]) {
    struct cu_info i;
    out[0] = 0;
    if (get_info(w, 0, &i)) memcpy(out, i.name, sizeof i.name);
}

/* Returns the usable bytes of w's k-th device, with `taken` of its limit in use; i holds its
 * properties. */
static uint64_t usable(const struct work *w, int k, const struct cu_info *i, uint64_t taken) {
    const uint64_t most = device_most(&w->device, k);
    const uint64_t all = i->mem_free > CU_KEEP_FREE ? i->mem_free - CU_KEEP_FREE : 0;
    if (!most) return all;
    return most > taken ? min_u64(most - taken, all) : 0;
}

uint64_t device_free(const struct work *w) {
    uint64_t sum = 0;
    for (int k = 0; k <= w->device.n_more; k++) {
        struct cu_info i;
        if (get_info(w, k, &i)) sum += usable(w, k, &i, 0);
    }
    return sum;
}

struct device device_share(const struct work *w, const uint64_t *n_bytes, int n,
                           const uint64_t taken[DEVICES]) {
    const double beside = 0x1p30; /* activations and caches, about the same for every session */
    double all = 0;
    for (int i = 0; i < n; i++) all += (double)n_bytes[i] + beside;
    const double part = ((double)n_bytes[n - 1] + beside) / all;
    struct device d = w->device;
    for (int k = 0; k <= d.n_more; k++) {
        struct cu_info i;
        if (!get_info(w, k, &i)) continue;
        d.kind = DEVICE_AUTO;
        *(k ? &d.more_bytes[k - 1] : &d.max_bytes) =
            (uint64_t)((double)usable(w, k, &i, taken[k]) * part) + 1; /* 0 would mean all of it */
    }
    return d;
}

struct device device_alone(const struct work *w) {
    const uint64_t none[DEVICES] = {0};
    return device_share(w, none, 1, none);
}

int device_sessions(struct work *w, struct model *const *m, int n, int64_t ctx, struct session **s,
                    struct err *e) {
    struct session_opts o = {.n_ctx = ctx, .isa = w->isa, .act = ACT_F32, .pool = w->pool};
    uint64_t *n_bytes = xcalloc((size_t)n + 1, sizeof *n_bytes);
    uint64_t taken[DEVICES] = {0};
    int rc = 0;
    for (int i = 0; i < n; i++) n_bytes[i] = gguf_file_bytes(m[i]->gguf);
    uint64_t all = 0;
    for (int i = 0; i < n; i++) all += n_bytes[i];
    o.reread = passes_reread(all);
    for (int i = n - 1; i >= 0 && !rc; i--) {
        o.device = device_share(w, n_bytes, i + 1, taken);
        if (!o.n_ubatch) o.n_ubatch = passes_rows(w, m[i], ctx, n);
        rc = session_new(&s[i], m[i], &o, e);
        if (!rc) session_device_bytes(s[i], taken);
    }
    free(n_bytes);
    return rc;
}

struct dev_product *device_products(const struct work *w) {
    struct dev_product *d = NULL;
    struct err why;
    if (w->device.kind == DEVICE_CPU || w->isa_given || w->device.max_bytes) return NULL;
    if (dev_product_new(&d, device_index(&w->device, 0), 0, w->pool, &why) == 0) return d;
    log_warn("products are computed on the CPU: %s", why.msg);
    return NULL;
}

struct qdev_want device_quantize(const struct work *w) {
    static const enum qdev_use use[] = {
        [DEVICE_CPU] = QDEV_NONE, [DEVICE_CUDA] = QDEV_MUST, [DEVICE_AUTO] = QDEV_TRY};
    return (struct qdev_want){use[w->device.kind], w->device.index, w->device.max_bytes,
                              w->device.by_default};
}
