// SPDX-License-Identifier: MIT
/* tests/cuda-emu/control.h - what a test asks of the emulation beyond cuda.h. The symbols are
 * weak: the same test linked with the real library finds them missing and skips what needs them. */
#ifndef HONE_TESTS_CUDA_EMU_CONTROL_H
#define HONE_TESTS_CUDA_EMU_CONTROL_H

#include <stdint.h>

/* The order of threads between barriers, and of blocks: 0 ascending, 1 descending, else a
 * permutation drawn anew at every round from this seed. */
#ifdef __cplusplus
extern "C"
#endif
    __attribute__((weak)) void
    emu_shuffle(uint64_t order);
/* Bit i: the work of the i-th oldest stream runs only when something waits for it. */
#ifdef __cplusplus
extern "C"
#endif
    __attribute__((weak)) void
    emu_defer(unsigned streams);

#endif
