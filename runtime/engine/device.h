// SPDX-License-Identifier: MIT
/* runtime/engine/device.h - device selection for a session: the CPU, or one or several CUDA
 * devices. */
#ifndef HONE_RUNTIME_ENGINE_DEVICE_H
#define HONE_RUNTIME_ENGINE_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* DEVICE_AUTO: CUDA if available, else the CPU with a warning. */
enum device_kind { DEVICE_CPU, DEVICE_CUDA, DEVICE_AUTO };
struct placement; /* runtime/engine/placement.h */
enum { DEVICES = 8 };
struct device {
    enum device_kind kind;
    int index;             /* number of the first device, as in CUDA */
    int n_more;            /* number of further devices; layers are split over all of them ... */
    int more[DEVICES - 1]; /* ... in this order, unless `place` says otherwise */
    uint64_t more_bytes[DEVICES - 1]; /* like max_bytes; 0: max_bytes */
    bool by_default;                  /* --device was not given: log the choice once */
    bool unused_card;                 /* there is an NVIDIA card but this build lacks CUDA */
    bool masked; /* `mask` applies: enabled bits of enum cuda_fuse, to measure the effect of each
                    fusion */
    unsigned mask;
    uint64_t max_bytes; /* limit of device memory; 0: free memory less CU_KEEP_FREE */
    /* Length of a pass, in tokens, from which experts in main memory are copied to the device.
     * Negative: never; 0: 128, unless the buffers would evict many more experts. */
    int64_t stream_from;
    const struct placement *place; /* borrowed; expert placement; NULL: as memory permits */
};
/* Returns the CUDA index of the i-th device, i <= n_more. device_most returns the memory limit of
 * that device in bytes. */
int device_index(const struct device *d, int i);
/* Returns the memory limit of the i-th device in bytes; 0: no explicit limit. */
uint64_t device_most(const struct device *d, int i);
/* Parses "cpu", "cuda", "cuda:N", "cuda:N,M,..." (layers are split over these devices) or "auto"
 * (CUDA if there is a device). "/MASK" after a CUDA device selects the fused launches
 * (docs/design/cuda.md). NULL means "cpu". ERR_USAGE: unknown name; ERR_SYS: no such device, or
 * this build lacks CUDA. */
int device_parse(const char *name, struct device *d, struct err *e);

#endif
