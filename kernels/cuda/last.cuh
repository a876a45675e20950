// SPDX-License-Identifier: MIT
/* kernels/cuda/last.cuh - detection of the last block of a launch to finish. That block then does
 * the final step: the gated norm of a head, or sorting of the best tokens. It reads other blocks'
 * results with cu_ldcg, bypassing L1. */
#ifndef HONE_KERNELS_CUDA_LAST_CUH
#define HONE_KERNELS_CUDA_LAST_CUH

#include "kernels/cuda/act.cuh"

/* Returns true in all threads of the last of n blocks to call this; the writes of all other blocks
 * are then visible. *arrived must be 0 before the first call, and is 0 again after the last.
 * is_last is shared memory. */
CU_DEV bool cu_is_last(int32_t *arrived, int n, int *is_last) {
    __syncthreads();
    if (threadIdx.x == 0) { /* the barriers around it make its fences cover the whole block */
        cu_fence();
        *is_last = cu_atomic_add(arrived, 1) == n - 1;
        if (*is_last) *arrived = 0;
        cu_fence();
    }
    __syncthreads();
    return *is_last != 0;
}

CU_DEV float cu_sigmoid(float x) {
    return 1.0f / (1.0f + expf(-x));
}

#endif
