// SPDX-License-Identifier: MIT
/* runtime/engine/device.h - where a session computes: the CPU, or one or several CUDA devices. */
#ifndef HONE_RUNTIME_ENGINE_DEVICE_H
#define HONE_RUNTIME_ENGINE_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum device_kind { DEVICE_CPU, DEVICE_CUDA, DEVICE_AUTO /* CUDA, or with a warning the CPU */ };
struct placement; /* runtime/engine/placement.h */
enum { DEVICES = 8 };
struct device {
    enum device_kind kind;
    int index;                        /* of the first */
    int n_more;                       /* further ones: layers are split over all of them ... */
    int more[DEVICES - 1];            /* ... in this order, unless `place` says otherwise */
    uint64_t more_bytes[DEVICES - 1]; /* as max_bytes; 0: max_bytes */
    bool by_default;                  /* --device was not given: log once which device is used */
    bool unused_card; /* the machine has an NVIDIA card, but this build has no CUDA */
    bool masked; /* mask holds: bits of enum cuda_fuse that are on, to measure what each is worth */
    unsigned mask;
    uint64_t max_bytes; /* of device memory; 0: what is free, less CU_KEEP_FREE */
    /* Passes of this many tokens copy experts that stay in main memory to the device. Below 0: none
     * does; 0: 128, unless the room for that would push out many more experts. */
    int64_t stream_from;
    const struct placement *place; /* borrowed: where experts go; NULL: as it fits */
};
/* Returns the number of the i-th device, i <= n_more. device_most returns the most bytes that it
 * may give. */
int device_index(const struct device *d, int i);
uint64_t device_most(const struct device *d, int i);
/* Reads "cpu", "cuda", "cuda:N", "cuda:N,M,..." (layers are split over them) or "auto" (CUDA
 * when there is a device). "/MASK" after a CUDA device says which launches are fused
 * (docs/design/cuda.md). NULL is "cpu". ERR_USAGE for another name, ERR_SYS when the device is
 * not there or this build has no CUDA. */
int device_parse(const char *name, struct device *d, struct err *e);

#endif
