// SPDX-License-Identifier: MIT
/* work/device.c - names, free memory and memory shares of the devices that --device selects. */
#include "work/device.h"

#include <string.h>

#include "base/io.h"
#include "kernels/cuda/cuda.h"

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

/* Returns the usable bytes of w's k-th device; i holds its properties. */
static uint64_t usable(const struct work *w, int k, const struct cu_info *i) {
    const uint64_t most = device_most(&w->device, k);
    const uint64_t all = i->mem_free > CU_KEEP_FREE ? i->mem_free - CU_KEEP_FREE : 0;
    return most && most < all ? most : all;
}

uint64_t device_free(const struct work *w) {
    uint64_t sum = 0;
    for (int k = 0; k <= w->device.n_more; k++) {
        struct cu_info i;
        if (get_info(w, k, &i)) sum += usable(w, k, &i);
    }
    return sum;
}

/* Returns the share of a device's memory for a session of path[n - 1]. */
static double share(const char *const *path, int n) {
    const double beside = 0x1p30; /* activations and caches, about the same for every session */
    double all = 0, mine = 0;
    for (int i = 0; i < n; i++) {
        uint64_t bytes = 0;
        struct err unused;
        (void)io_file_size(path[i], &bytes, &unused); /* opening the file reports errors */
        mine = (double)bytes + beside;
        all += mine;
    }
    return mine / all;
}

struct device device_share(const struct work *w, const char *const *path, int n) {
    const double part = share(path, n);
    struct device d = w->device;
    for (int k = 0; k <= d.n_more; k++) {
        struct cu_info i;
        if (!get_info(w, k, &i)) continue;
        d.kind = DEVICE_AUTO;
        *(k ? &d.more_bytes[k - 1] : &d.max_bytes) =
            (uint64_t)((double)usable(w, k, &i) * part) + 1; /* 0 would mean all of it */
    }
    return d;
}

struct qdev_want device_quantize(const struct work *w) {
    static const enum qdev_use use[] = {
        [DEVICE_CPU] = QDEV_NONE, [DEVICE_CUDA] = QDEV_MUST, [DEVICE_AUTO] = QDEV_TRY};
    return (struct qdev_want){use[w->device.kind], w->device.index, w->device.max_bytes,
                              w->device.by_default};
}
