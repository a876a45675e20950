// SPDX-License-Identifier: MIT
/* kernels/cuda/gpu.cuh - the header that hides all intrinsics and CUDA constructs (Hopper's are in
 * gpu_sm90.cuh).
 *
 * A .cu file is C in style (templates over a block type or a width are fine; no STL, no classes).
 * nvcc compiles it for the GPU; a host compiler compiles the same file for the CPU with
 * tests/cuda-emu/emu.hpp included first, which defines CU_EMU and supplies the same names. So:
 *
 *   - plain CUDA is allowed for: __global__ __device__ __launch_bounds__ __restrict__, threadIdx
 *     blockIdx blockDim gridDim, dim3, float2/4 int4 uint2/4, __syncthreads(), and the functions of
 *     <math.h> in float (expf sqrtf fmaf rintf ...); everything else has a name below;
 *   - CU_UNROLL before a loop is #pragma unroll, and nothing on the CPU, where it costs minutes;
 *     CU_ROLLED prevents unrolling;
 *   - shared memory: CU_SHARED(float, tile, [16][33]); CU_DYN_SHARED(float, buf);
 *   - launches: CU_LAUNCH(e, kernel, grid, block, smem, s, args...) in a launcher that returns int;
 *     kernel names with commas in parentheses. Arguments are copied; pointers are device pointers;
 *   - cu_shfl*, cu_ballot, cu_any, cu_syncwarp, cu_ldmatrix*, cu_transpose8, cu_mma_*: all 32 lanes
 *     of the warp call them together, and block sizes must be multiples of 32; cu_shfl8, cu_sync8,
 *     cu_ballot8: eight threads call them together;
 *   - blocks may run in any order, even one after the other, so no block may wait for another.
 *
 * nvcc runs with -fmad=false: fused operations are written as fmaf, and all else rounds as on
 * the CPU. */
#ifndef HONE_KERNELS_CUDA_GPU_CUH
#define HONE_KERNELS_CUDA_GPU_CUH

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define _Static_assert static_assert
extern "C" {
#include "base/err.h"
#include "base/num.h"
#include "containers/qtype.h"
#include "kernels/cuda/cuda.h"
#include "kernels/grid.h"
}

#define CU_DEV static __device__ __forceinline__
#define CU_KERNEL static __global__ void

#ifndef CU_EMU
#include <cuda_runtime.h>

#define CU_UNROLL _Pragma("unroll")
#define CU_ROLLED _Pragma("unroll 1")
/* Defines a constant table in device code: CU_TABLE(int8_t, name, [16]) = {...}; */
#define CU_TABLE(T, name, dims) static __device__ __constant__ const T name dims
#define CU_SHARED(T, name, dims) __shared__ T name dims
/* Qualifies a kernel parameter that is indexed at run time, so that it stays in constant memory. */
#define CU_PARAM(T) const __grid_constant__ T
/* Declares the block's dynamic shared memory from its start, 16-byte aligned. */
#define CU_DYN_SHARED(T, name)                                                                     \
    extern __shared__ uint4 cu_dyn_shared_[];                                                      \
    T *const name = reinterpret_cast<T *>(cu_dyn_shared_)
#define CU_LAUNCH(e, kernel, grid, block, smem, s, ...)                                            \
    do {                                                                                           \
        (s)->n_launches++;                                                                         \
        CU_TRY(e, cu_on((s)->c));                                                                  \
        kernel<<<(grid), (block), (smem), (s)->q>>>(__VA_ARGS__);                                  \
        CU_TRY(e, cudaGetLastError());                                                             \
    } while (0)

/* Launches a kernel that may start before the preceding one on the stream ends, if s->early. Such a
 * kernel must wait (cu_launch_early): every thread calls cu_wait_before() once, before it reads
 * data that an earlier kernel wrote, and before it writes anything but shared memory. Data that no
 * kernel writes, such as weights, may be fetched earlier. */
#define CU_LAUNCH_EARLY(e, kernel, grid_, block_, smem_, s, ...)                                   \
    do {                                                                                           \
        cudaLaunchAttribute early_ = {};                                                           \
        cudaLaunchConfig_t how_ = {};                                                              \
        early_.id = cudaLaunchAttributeProgrammaticStreamSerialization;                            \
        early_.val.programmaticStreamSerializationAllowed = 1;                                     \
        how_.gridDim = (grid_);                                                                    \
        how_.blockDim = (block_);                                                                  \
        how_.dynamicSmemBytes = (smem_);                                                           \
        how_.stream = (s)->q;                                                                      \
        how_.attrs = &early_;                                                                      \
        how_.numAttrs = (s)->early;                                                                \
        (s)->n_launches++;                                                                         \
        CU_TRY(e, cu_on((s)->c));                                                                  \
        CU_TRY(e, cudaLaunchKernelEx(&how_, kernel, __VA_ARGS__));                                 \
    } while (0)
/* Waits until all earlier kernels have ended and their writes are visible, then lets the next
 * kernel begin. */
CU_DEV void cu_wait_before(void) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

CU_DEV float cu_shfl(float v, int lane) {
    return __shfl_sync(0xffffffffu, v, lane);
}
CU_DEV int cu_shfl(int v, int lane) {
    return __shfl_sync(0xffffffffu, v, lane);
}
CU_DEV uint32_t cu_shfl(uint32_t v, int lane) {
    return __shfl_sync(0xffffffffu, v, lane);
}
CU_DEV float cu_shfl_xor(float v, int mask) {
    return __shfl_xor_sync(0xffffffffu, v, mask);
}
CU_DEV double cu_shfl_xor(double v, int mask) {
    return __shfl_xor_sync(0xffffffffu, v, mask);
}
CU_DEV int cu_shfl_xor(int v, int mask) {
    return __shfl_xor_sync(0xffffffffu, v, mask);
}
CU_DEV uint32_t cu_shfl_xor(uint32_t v, int mask) {
    return __shfl_xor_sync(0xffffffffu, v, mask);
}
/* Returns the value of lane - d; lanes below d keep their own. */
CU_DEV float cu_shfl_up(float v, unsigned d) {
    return __shfl_up_sync(0xffffffffu, v, d);
}
CU_DEV int cu_shfl_up(int v, unsigned d) {
    return __shfl_up_sync(0xffffffffu, v, d);
}
CU_DEV uint32_t cu_ballot(bool p) {
    return __ballot_sync(0xffffffffu, p);
}
CU_DEV bool cu_any(bool p) {
    return __any_sync(0xffffffffu, p) != 0;
}
CU_DEV void cu_syncwarp(void) {
    __syncwarp();
}
/* Returns the mask of this thread's group of eight consecutive threads. The exchanges below stay
 * within that group, independent of the rest of the warp; k is 0..7. */
CU_DEV unsigned cu_mask8(void) {
    return 0xffu << (threadIdx.x & 24);
}
template <class T> CU_DEV T cu_shfl8(T v, int k) {
    return __shfl_sync(cu_mask8(), v, k, 8);
}
CU_DEV void cu_sync8(void) {
    __syncwarp(cu_mask8());
}
/* Returns p of each of the eight threads as a bit mask; bit k is thread k's. */
CU_DEV unsigned cu_ballot8(bool p) {
    return __ballot_sync(cu_mask8(), p) >> (threadIdx.x & 24) & 0xffu;
}
/* Orders this thread's earlier reads and writes before its later ones, as seen by all blocks of the
 * device. After a barrier, this includes its block's writes before the barrier. */
CU_DEV void cu_fence(void) {
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
}
CU_DEV int cu_atomic_add(int *p, int v) {
    return atomicAdd(p, v);
}
CU_DEV uint32_t cu_atomic_add(uint32_t *p, uint32_t v) {
    return atomicAdd(p, v);
}
CU_DEV int cu_atomic_max(int *p, int v) {
    return atomicMax(p, v);
}
/* Returns the largest value of the warp's lanes (cu_warp_least: the smallest). */
CU_DEV uint32_t cu_warp_most(uint32_t v) {
    return __reduce_max_sync(0xffffffffu, v);
}
CU_DEV uint32_t cu_warp_least(uint32_t v) {
    return __reduce_min_sync(0xffffffffu, v);
}
CU_DEV int cu_popc(uint32_t v) {
    return __popc(v);
}
CU_DEV int cu_ffs(uint32_t v) {
    return __ffs((int)v);
} /* 1 + lowest set bit, 0: none */

CU_DEV uint32_t cu_bits(float x) {
    return __float_as_uint(x);
}
CU_DEV float cu_from_bits(uint32_t u) {
    return __uint_as_float(u);
}
/* Returns c plus the sum of the four products of signed bytes. */
CU_DEV int cu_dp4a(int a, int b, int c) {
    return __dp4a(a, b, c);
}
/* Sets each byte to 0xff if its highest bit is set, else to 0. */
CU_DEV uint32_t cu_byte_signs(uint32_t v) {
    uint32_t r;
    asm("prmt.b32 %0, %1, 0, 0xba98;" : "=r"(r) : "r"(v));
    return r;
}
/* Returns four bytes; byte i is byte (sel >> 4i) & 7 of the eight bytes y:x. */
CU_DEV uint32_t cu_perm(uint32_t x, uint32_t y, uint32_t sel) {
    return __byte_perm(x, y, sel);
}
/* Returns (v & mask) ^ x as one instruction. */
CU_DEV uint32_t cu_and_xor(uint32_t v, uint32_t mask, uint32_t x) {
    uint32_t r;
    asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(r) : "r"(v), "r"(mask), "r"(x));
    return r;
}
CU_DEV float cu_f16_to_f32(uint16_t h) {
    float f;
    asm("{ cvt.f32.f16 %0, %1; }" : "=f"(f) : "h"(h));
    return f;
}
CU_DEV uint16_t cu_f32_to_f16(float f) {
    uint16_t h;
    asm("{ cvt.rn.f16.f32 %0, %1; }" : "=h"(h) : "f"(f));
    return h;
}
/* Copies 16 bytes from device to shared memory in the background. A thread starts copies, closes a
 * group with commit, and waits until at most N of its groups are in flight. Other threads see the
 * bytes after a barrier that follows the wait. */
CU_DEV void cu_copy16(void *shared, const void *global) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                     (uint32_t)__cvta_generic_to_shared(shared)),
                 "l"(global)
                 : "memory");
}
/* Copies N bytes (4, 8 or 16, aligned to N) as cu_copy16 does. */
template <int N> CU_DEV void cu_copy(void *shared, const void *global) {
    const uint32_t to = (uint32_t)__cvta_generic_to_shared(shared);
    if (N == 16)
        cu_copy16(shared, global);
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(global),
                     "n"(N == 16 ? 8 : N)
                     : "memory");
}
CU_DEV void cu_copy_commit(void) {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int N> CU_DEV void cu_copy_wait(void) {
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}
/* Loads four 8x8 matrices of 16-bit values. Lane i supplies the address of row i % 8 of matrix i
 * / 8 (16 bytes of shared memory) and receives values 2 * (i % 4), + 1 of row i / 4 of each. */
CU_DEV void cu_ldmatrix4(const void *row, uint32_t r[4]) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(row))
                 : "memory");
}
/* Like cu_ldmatrix4, transposed: the lane receives values i / 4 of rows 2 * (i % 4), + 1. */
CU_DEV void cu_ldmatrix4_t(const void *row, uint32_t r[4]) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(row))
                 : "memory");
}
/* Transposes one 8x8 matrix of 16-bit values in registers, with 2 * (i % 4), + 1 of row i / 4 in
 * lane i. */
CU_DEV uint32_t cu_transpose8(uint32_t v) {
    uint32_t t;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(t) : "r"(v));
    return t;
}
/* Adds A B to d, with bf16 operands and f32 sums. With r = lane / 4, c = lane % 4:
 *   A 16x16: a[0] row r, columns 2c, 2c+1; a[1] row r+8; a[2], a[3] the same, columns + 8
 *   B 16x8:  b[0] rows 2c, 2c+1 of column r; b[1] rows + 8
 *   d 16x8:  d[0], d[1] row r, columns 2c, 2c+1; d[2], d[3] row r+8 */
CU_DEV void cu_mma_bf16(float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
/* Like the bf16 product above, with f16 operands. */
CU_DEV void cu_mma_f16(float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
/* Rounds two floats to f16, ties to even, and returns them with x in the low half. */
CU_DEV uint32_t cu_pack_f16(float x, float y) {
    uint32_t v;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(v) : "f"(y), "f"(x));
    return v;
}
/* Adds pairs of f16, rounded once. The next two compute a * b and a * b + c. */
CU_DEV uint32_t cu_add_f16x2(uint32_t a, uint32_t b) {
    uint32_t v;
    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(v) : "r"(a), "r"(b));
    return v;
}
CU_DEV uint32_t cu_mul_f16x2(uint32_t a, uint32_t b) {
    uint32_t v;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(v) : "r"(a), "r"(b));
    return v;
}
CU_DEV uint32_t cu_fma_f16x2(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t v;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(v) : "r"(a), "r"(b), "r"(c));
    return v;
}
/* Rounds two floats to bf16, ties to even, and returns them with x in the low half. */
CU_DEV uint32_t cu_pack_bf16(float x, float y) {
    uint32_t v;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(v) : "f"(y), "f"(x));
    return v;
}
/* Reads through the read-only cache, for data that no thread writes while the kernel runs. */
template <class T> CU_DEV T cu_ldg(const T *p) {
    return __ldg(p);
}
/* Reads data that other blocks of the same launch wrote (after cu_fence), bypassing L1. */
template <class T> CU_DEV T cu_ldcg(const T *p) {
    return __ldcg(p);
}
#endif

/* Allows a kernel n_bytes of dynamic shared memory; the default is 48 KiB minus its static memory.
 * Never lowers the limit, because captured graphs launch their kernels with the sizes requested
 * when they were captured. */
int cu_smem(const void *kernel, uint64_t n_bytes, struct err *e);
#define CU_SMEM(e, kernel, n_bytes)                                                                \
    do {                                                                                           \
        CU_TRY(e, cu_on((s)->c));                                                                  \
        TRY(cu_smem((const void *)(kernel), (uint64_t)(n_bytes), (e)));                            \
    } while (0)

/* Checks a runtime call in a function that returns int and has `struct err *e`. */
#define CU_TRY(e, call)                                                                            \
    do {                                                                                           \
        const cudaError_t rc_ = (call);                                                            \
        if (rc_ != cudaSuccess) return cu_fail((e), rc_, #call);                                   \
    } while (0)

struct cu_ctx {
    struct cu_info info;
    struct kern_grid *grid; /* device copy */
    /* 90: the running code was compiled for 9.0 (from PTX of 9.0, by nvcc or the driver). */
    int code;
    bool reads_pageable; /* the device may read unpinned host memory at any time */
    bool integrated;     /* its memory is the processor's */
    bool full;           /* cu_buf_new failed for lack of memory */
};
struct cu_stream {
    struct cu_ctx *c;
    cudaStream_t q;
    cudaEvent_t mark[2], moved; /* moved: data is ready for another device to copy */
    struct cu_scratch *scratch; /* newest first */
    int64_t n_launches;
    bool early;     /* CU_LAUNCH_EARLY is enabled */
    bool wgmma;     /* products for many tokens use gemm_sm90.cu */
    int warpgroups; /* per block; 0: chosen by gemm_sm90.cu */
};
/* Selects this device for the calling thread. Every function that allocates, launches or records
 * calls it, because a thread may use several devices in turn. */
cudaError_t cu_on(const struct cu_ctx *c);
/* Returns n_bytes of device memory owned by the stream, 256-byte aligned, valid until the next
 * call of a launcher. A larger request allocates a new buffer; the old one is freed only with
 * the stream, because captured graphs hold its address. */
int cu_scratch(struct cu_stream *s, uint64_t n_bytes, void **p, struct err *e);
/* Sets e to ERR_SYS with the runtime's description of rc (ctx.cu), and returns it. */
int cu_fail(struct err *e, cudaError_t rc, const char *what);

CU_DEV uint16_t cu_f32_to_bf16(float x) {
    const uint32_t u = cu_bits(x);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((u >> 16) | 64u);
    return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}
CU_DEV float cu_bf16_to_f32(uint16_t h) {
    return cu_from_bits((uint32_t)h << 16);
}

/* Returns the address of a lane's row of a 16 x 16 tile, for ldmatrix of a row-major matrix of
 * pairs with ld pairs per row: the A operand of rows r, columns c or, transposed, the B operand
 * of two tiles of 8 columns. */
CU_DEV const uint32_t *cu_tile(const uint32_t *m, int ld, int r, int c) {
    const int lane = (int)threadIdx.x % 32;
    return m + (r + lane / 8 % 2 * 8 + lane % 8) * ld + c / 2 + lane / 16 * 4;
}
/* Returns the address of a lane's row for ldmatrix of the B operand: rows n .. n + 15 of a matrix
 * whose rows are columns of B. */
CU_DEV const uint32_t *cu_tile_b(const uint32_t *m, int ld, int n, int k) {
    const int lane = (int)threadIdx.x % 32;
    return m + (n + lane / 16 * 8 + lane % 8) * ld + k / 2 + lane / 8 % 2 * 4;
}

CU_DEV int64_t cu_min(int64_t a, int64_t b) {
    return a < b ? a : b;
}
CU_DEV int64_t cu_max(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* Computes SiLU, or GELU in its tanh form (OP_GEGLU of models/ops.def). */
CU_DEV float cu_gate(float x, bool gelu) {
    if (!gelu) return x / (1.0f + expf(-x));
    return 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
}

/* Returns the sum over a warp; sums and maxima are the same (bit for bit) in every lane. The
 * emulation computes them in one step, with the same order of additions. */
#ifndef CU_EMU
CU_DEV float cu_warp_sum(float v) {
    for (int m = 16; m > 0; m >>= 1) v += cu_shfl_xor(v, m);
    return v;
}
CU_DEV int cu_warp_sum(int v) {
    for (int m = 16; m > 0; m >>= 1) v += cu_shfl_xor(v, m);
    return v;
}
CU_DEV double cu_warp_sum(double v) {
    for (int m = 16; m > 0; m >>= 1) v += cu_shfl_xor(v, m);
    return v;
}
CU_DEV float cu_warp_max(float v) {
    for (int m = 16; m > 0; m >>= 1) v = fmaxf(v, cu_shfl_xor(v, m));
    return v;
}
/* Finds the maxima of N values over the warp, interleaved to take about as long as one. */
template <int N> CU_DEV void cu_warp_max_each(float (&v)[N]) {
    CU_UNROLL
    for (int m = 16; m > 0; m >>= 1) {
        CU_UNROLL
        for (int c = 0; c < N; c++) v[c] = fmaxf(v[c], cu_shfl_xor(v[c], m));
    }
}
template <class T, int N> CU_DEV void cu_warp_sum_each(T (&v)[N]) {
    CU_UNROLL
    for (int m = 16; m > 0; m >>= 1) {
        CU_UNROLL
        for (int c = 0; c < N; c++) v[c] += cu_shfl_xor(v[c], m);
    }
}
#endif
/* Returns the sum over a block of up to 1024 threads (a multiple of 32), the same in every
 * thread. `red` is shared memory for 32 values, reusable on return. */
template <class T> CU_DEV T cu_block_sum(T v, T *red) {
    v = cu_warp_sum(v);
    const int n_warps = (int)blockDim.x / 32;
    if (threadIdx.x % 32 == 0) red[threadIdx.x / 32] = v;
    __syncthreads();
    v = 0;
    for (int i = 0; i < n_warps; i++) v += red[i];
    __syncthreads();
    return v;
}
CU_DEV float cu_block_max(float v, float *red) {
    v = cu_warp_max(v);
    const int n_warps = (int)blockDim.x / 32;
    if (threadIdx.x % 32 == 0) red[threadIdx.x / 32] = v;
    __syncthreads();
    v = red[0];
    for (int i = 1; i < n_warps; i++) v = fmaxf(v, red[i]);
    __syncthreads();
    return v;
}

/* Rounds to the nearest integer; NaN becomes 0, as in the device's conversion. */
CU_DEV int cu_round(float v) {
    return v == v ? (int)rintf(v) : 0;
}

#endif
