// SPDX-License-Identifier: MIT
/* tests/cuda-emu/control.h - control of the emulation by tests, beyond cuda.h. The symbols are
 * weak: the same test linked with the real library finds them missing and skips the parts that need
 * them. */
#ifndef HONE_TESTS_CUDA_EMU_CONTROL_H
#define HONE_TESTS_CUDA_EMU_CONTROL_H

#include <stddef.h>
#include <stdint.h>

struct cu_stream;
struct err;

/* What probe.cu does wrong. */
enum probe_mistake {
    PROBE_RIGHT,
    PROBE_CHUNKS,      /* chunks of B not exchanged */
    PROBE_ALIGN,       /* the tile off 1024 bytes */
    PROBE_SWIZZLE,     /* the descriptor names another swizzle */
    PROBE_STRIDE,      /* 8 rows are 512 bytes */
    PROBE_WARPS,       /* a warp has another descriptor */
    PROBE_COPY_WAIT,   /* the tile is not waited for */
    PROBE_FENCE_ASYNC, /* nor handed to the asynchronous proxy */
    PROBE_ORDER,       /* registers of A exchanged */
    PROBE_FENCE,       /* no fence before a product */
    PROBE_LATE,        /* an operand written after the fence */
    PROBE_OPERAND,     /* or while its product is under way */
    PROBE_TILE,        /* the tile overwritten */
    PROBE_SUMS,        /* the sums */
    PROBE_WAIT,        /* the last product not waited for */
    PROBE_N
};

/* Counts of operations on the devices so far: copies from and to main memory, downloads to unpinned
 * memory among them, waits of the caller, launches, whole graphs, allocations of pinned memory. */
struct emu_counts {
    int64_t up, down, pageable, waits, launches, graphs, pins;
    int64_t up_bytes, down_bytes;
};

struct emu_device {
    size_t n_bytes; /* of memory */
    int bus;        /* width of its memory in bits, at 10 GHz: 384 are 960 GB/s */
};

#ifdef __cplusplus
extern "C" {
#endif
/* Sets the number of devices, each with separate memory; NULL: 16 GiB each. Call it before any
 * device memory is allocated. The environment variable CUDA_EMU_DEVICES does the same for a whole
 * program: MiB of each, separated by commas, "8192/256,4096". */
__attribute__((weak)) void emu_devices(int n, const struct emu_device *d);
/* Stores are visible to other blocks of a launch when they are fenced, and launches that may do so
 * begin while the one before ends (late.cpp); at first all is seen at once. Of one device; no
 * device memory may be there. */
__attribute__((weak)) void emu_late(int yes);
/* Devices give memory away in blocks of 2 MiB, which what is at most 1 MiB shares, as real ones do;
 * at first to the byte, which tests count. No device memory may be there. */
__attribute__((weak)) void emu_blocks(int yes);
/* Simulates another program that takes n bytes of the current device: now, or (after > 0) just
 * before the after-th allocation from now on. emu_devices returns them. */
__attribute__((weak)) void emu_other(int after, size_t n_bytes);
/* Sets the order of threads between barriers, and of blocks: 0 ascending, 1 descending, otherwise a
 * permutation from this seed, a new one each round. Asynchronous copies happen at the wait for
 * them, in order 1 at once; so do warpgroup products, in order 0 at once. */
__attribute__((weak)) void emu_shuffle(uint64_t order);
/* Contexts opened from here on are of this compute capability: 90 (at first), or another, whose
 * blocks have less shared memory: 163 KiB (80) or 99 KiB. */
__attribute__((weak)) void emu_card(int capability);
/* Sets the CUDA version that the driver supports, 12080 for 12.8; 0: no driver. The environment
 * variable CUDA_EMU_DRIVER does the same for a whole program. */
__attribute__((weak)) void emu_driver(int version);
/* Contexts opened from here on run code that was compiled for this compute capability, such as PTX
 * of 80 on a card of 90; 0: for that of the card. */
__attribute__((weak)) void emu_code(int capability);
/* Devices fetch from host memory that is not pinned when the copy's turn comes, as where they share
 * page tables with the processor. */
__attribute__((weak)) void emu_reads_pageable(int yes);
/* Contexts opened from here on are of a device whose memory is the processor's. */
__attribute__((weak)) void emu_integrated(int yes);
/* Devices are parts of a card (MIG) from here on. */
__attribute__((weak)) void emu_mig(int yes);
/* cudaSetDevice fails with this error from here on; 0: it works. */
__attribute__((weak)) void emu_refuse(int error);
/* cudaMallocHost refuses from here on. */
__attribute__((weak)) void emu_no_pinned(int yes);
/* Bit i: the work of the i-th oldest stream runs only when something waits for it. */
__attribute__((weak)) void emu_defer(unsigned streams);
/* Tensor cores that take the second and third register of A for each other, as long as `yes`. */
__attribute__((weak)) void emu_wgmma_wrong(int yes);
/* d[n][128] = (A B)^T for 64 columns: a [128][64], b [2 n][64] of bf16, the columns of B; n 16, 32,
 * 64, 96 or 128. Device pointers. */
__attribute__((weak)) int emu_probe(struct cu_stream *s, int n, int mistake, const void *a,
                                    const void *b, float *d, struct err *e);
/* Sets *out to the operations on all devices since the start of the program. */
__attribute__((weak)) void emu_count(struct emu_counts *out);
/* Makes the devices fail permanently: at the after-th wait for a stream from now on, and then in
 * every call that allocates, copies, launches or waits; 0: never. The environment variable
 * CUDA_EMU_LOST does the same for a whole program. */
__attribute__((weak)) void emu_lose(int after);
/* Makes a device compute wrong results: flips a bit of the first byte of every download of at least
 * this many bytes; 0: none. */
__attribute__((weak)) void emu_flip(size_t at_least);
#ifdef __cplusplus
}
#endif

#endif
