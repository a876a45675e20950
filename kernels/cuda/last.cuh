// SPDX-License-Identifier: MIT
/* kernels/cuda/last.cuh - the last block of a launch to finish, which does something for all: the
 * gated norm of a head, the order of the best tokens. What other blocks wrote is read past the near
 * cache (cu_ldcg). */
#ifndef HONE_KERNELS_CUDA_LAST_CUH
#define HONE_KERNELS_CUDA_LAST_CUH

#include "kernels/cuda/act.cuh"

/* Returns true in all threads of the block that is the last of n to come here; all writes of the
 * others are then visible. *arrived is 0 before, and again after the last. is_last is shared
 * memory. */
CU_DEV bool cu_is_last(int32_t *arrived, int n, int *is_last) {
    __syncthreads();
    if (threadIdx.x == 0) { /* its fences are for the block: they lie behind and before a barrier */
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
