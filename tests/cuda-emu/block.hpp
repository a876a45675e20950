// SPDX-License-Identifier: MIT
/* tests/cuda-emu/block.hpp - the interface between emu.cpp, which runs a block, and wgmma.cpp,
 * which emulates the tensor cores that read its shared memory. */
#ifndef HONE_TESTS_CUDA_EMU_BLOCK_H
#define HONE_TESTS_CUDA_EMU_BLOCK_H

#include "tests/cuda-emu/emu.hpp"

/* The shared address of the block's dynamic shared memory: a multiple of 16, as promised, and of no
 * larger power of two. */
enum { EMU_SHARED_AT = 1040 };

/* of emu.cpp */
[[noreturn]] void emu_die(const char *what);
int emu_thread_index(void); /* of the running fiber in its block */
/* Returns whether products happen when issued. Each order of threads delays other operations as
 * long as possible: copies (0), products (1), both; so each overtakes the other in one of them. */
bool emu_products_at_once(void);
unsigned char *emu_dyn_range(size_t *n_bytes);

/* of card.cpp */
enum { EMU_SMEM_DEFAULT = 48 << 10 };  /* of a block, static and dynamic, without asking */
cudaError_t emu_error(cudaError_t rc); /* remembers it for cudaGetLastError; returns it */
cudaError_t emu_driver_fits(void);
void emu_smem_was(const void *kernel,
                  size_t n_static); /* the largest static size of a block so far */
bool emu_pageable_is_read(void);
int emu_code_runs(void); /* 90: the compute capability that the code was compiled for */

/* of runtime.cpp */
bool emu_capturing(void); /* calls that could wait for work are refused */
cudaError_t emu_smem_optin(const void *kernel, size_t n_bytes);
size_t emu_smem_of(const void *kernel); /* dynamic shared memory that it may have */
size_t emu_smem_max(void);              /* that any may have, with the static one */

/* of late.cpp */
bool emu_is_late(void);
bool emu_late_fault(void *at); /* false: not ours */
void emu_late_pause(void);     /* the running thread stops */
void emu_late_barrier(void);   /* all threads of the block have met */
void emu_late_before_atomic(void);
void emu_late_waited(void); /* all threads of the block came to cu_wait_before */
bool emu_late_is_early(void);
void emu_late_block(bool begins_early);
void emu_late_block_end(void);
bool emu_late_launch(const void *stream, bool says_early);
void emu_late_launch_end(void);
void emu_late_other(void);

/* of wgmma.cpp */
void emu_wgmma_begin(int n_threads); /* a block starts */
void emu_wgmma_end(void);            /* it ended */
/* Thread wrote 16 bytes at dst as ordinary stores and asynchronous copies do. */
void emu_wgmma_wrote(const void *dst, int thread);

#endif
