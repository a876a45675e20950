// SPDX-License-Identifier: MIT
/* tests/cuda-emu/block.hpp - between emu.cpp, which runs a block, and wgmma.cpp, which plays the
 * tensor cores that read its shared memory. */
#ifndef HONE_TESTS_CUDA_EMU_BLOCK_H
#define HONE_TESTS_CUDA_EMU_BLOCK_H

#include "tests/cuda-emu/emu.hpp"

/* The block's dynamic shared memory begins at this shared address: a multiple of 16, as promised,
 * and of nothing more. */
enum { EMU_SHARED_AT = 1040 };

/* of emu.cpp */
[[noreturn]] void emu_die(const char *what);
int emu_thread_index(void); /* of the running fiber in its block */
/* Products happen when they are issued. The orders differ in what is late, as late as it may be:
 * copies (0), products (1), both; so each overtakes the other in one of them. */
bool emu_products_at_once(void);
unsigned char *emu_dyn_range(size_t *n_bytes);

/* of wgmma.cpp */
void emu_wgmma_begin(int n_threads); /* a block starts */
void emu_wgmma_end(void);            /* it ended */
/* Thread wrote 16 bytes at dst as ordinary stores and asynchronous copies do. */
void emu_wgmma_wrote(const void *dst, int thread);

#endif
