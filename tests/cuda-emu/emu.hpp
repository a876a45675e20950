// SPDX-License-Identifier: MIT
/* tests/cuda-emu/emu.hpp - CUDA as C++ for the CPU, included before a .cu file: the CUDA keywords,
 * the runtime functions called by kernels/cuda/ctx.cu, and the warp and block operations wrapped by
 * kernels/cuda/gpu.cuh.
 *
 * Every thread of a block is a fiber (emu.cpp); blocks run one after the other. Device memory is
 * host memory. Undefined behaviour of real hardware is made visible: device and shared memory start
 * as 0xff (NaN), shared objects are separate allocations of exactly their size (the address
 * sanitizer catches accesses outside), warp operations check that all 32 lanes call the same one,
 * asynchronous copies and warpgroup products happen at the wait and no earlier, an unreachable
 * barrier aborts with its place. emu_shuffle() changes the order in which threads run between
 * barriers, and lets copies or products happen at once. */
#ifndef HONE_TESTS_CUDA_EMU_H
#define HONE_TESTS_CUDA_EMU_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define CU_EMU 1
#define CU_UNROLL
#define CU_ROLLED

// ---- words ------------------------------------------------------------------------------------
#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) alignas(n)

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {
    }
};
struct uint3 {
    unsigned x, y, z;
};
#define EMU_VEC(T, name, n)                                                                        \
    struct alignas(n * sizeof(T)) name##2 {                                                        \
        T x, y;                                                                                    \
    };                                                                                             \
    static inline name##2 make_##name##2(T x, T y) {                                               \
        return name##2 {x, y};                                                                     \
    }                                                                                              \
    struct alignas(16) name##4 {                                                                   \
        T x, y, z, w;                                                                              \
    };                                                                                             \
    static inline name##4 make_##name##4(T x, T y, T z, T w) {                                     \
        return name##4 {x, y, z, w};                                                               \
    }
EMU_VEC(float, float, 2)
EMU_VEC(int, int, 2)
EMU_VEC(unsigned, uint, 2)
#undef EMU_VEC

struct emu_thread;
extern uint3 emu_thread_idx; /* of the running fiber */
extern dim3 emu_block_idx, emu_block_dim, emu_grid_dim;
#define threadIdx emu_thread_idx
#define blockIdx emu_block_idx
#define blockDim emu_block_dim
#define gridDim emu_grid_dim

// ---- what a fiber asks of the block -----------------------------------------------------------
void emu_barrier(void); /* __syncthreads */
struct emu_site {       /* of a call in the source */
    const char *file;
    int line;
};
/* The last parameters of a warp operation: where it is called. */
#define EMU_HERE int line_ = __builtin_LINE(), const char *file_ = __builtin_FILE()
#define EMU_SITE                                                                                   \
    emu_site {                                                                                     \
        file_, line_                                                                               \
    }
/* All 32 lanes meet here. Each leaves n bytes (at most 64); the result is the 32 deposits, 64 bytes
 * apart, valid until the lane's next meeting. `kind` and the place must be the same in all lanes.
 */
const unsigned char *emu_meet(const char *kind, const void *mine, size_t n, emu_site at);
/* The same for eight consecutive threads. */
const unsigned char *emu_meet8(const char *kind, const void *mine, size_t n, emu_site at);
int emu_lane(void);
/* Returns the block's object of this key, aligned to `align` and no more. */
void *emu_shared(const void *key, size_t n_bytes, size_t align);
void *emu_dyn_shared(void);

#define __syncthreads() emu_barrier()
#define CU_TABLE(T, name, dims) static const T name dims
#define CU_SHARED(T, name, dims)                                                                   \
    static char name##_key_;                                                                       \
    typedef T name##_type_ dims;                                                                   \
    name##_type_ &name =                                                                           \
        *(name##_type_ *)emu_shared(&name##_key_, sizeof(name##_type_), alignof(name##_type_))
#define CU_PARAM(T) const T
#define CU_DYN_SHARED(T, name) T *const name = (T *)emu_dyn_shared()

template <class T> static inline T emu_from(const unsigned char *deposits, int lane) {
    T v;
    memcpy(&v, deposits + 64 * lane, sizeof v);
    return v;
}
template <class T> static inline T cu_shfl(T v, int lane, EMU_HERE) {
    return emu_from<T>(emu_meet("shfl", &v, sizeof v, EMU_SITE), lane & 31);
}
template <class T> static inline T cu_shfl_xor(T v, int mask, EMU_HERE) {
    return emu_from<T>(emu_meet("shfl_xor", &v, sizeof v, EMU_SITE), (emu_lane() ^ mask) & 31);
}
/* What `for (m = 16; m > 0; m >>= 1) v = f(v, cu_shfl_xor(v, m))` gives every lane, to the bit: f
 * is commutative. One meeting in place of five. */
template <class T> struct emu_leaf {
    T v, result;
    int done; /* of lane 0: the result is there */
};
template <class T, class F> static inline T emu_butterfly(T v, F f, emu_site at) {
    const emu_leaf<T> mine = {v, v, 0};
    const unsigned char *all = emu_meet("butterfly", &mine, sizeof mine, at);
    emu_leaf<T> *first = (emu_leaf<T> *)(void *)const_cast<unsigned char *>(all);
    if (first->done) return first->result;
    T x[32];
    for (int i = 0; i < 32; i++) x[i] = emu_from<T>(all, i);
    for (int m = 16; m > 0; m /= 2)
        for (int i = 0; i < m; i++) x[i] = f(x[i], x[i + m]);
    first->done = 1;
    return first->result = x[0];
}
template <class T> static inline T cu_warp_sum(T v, EMU_HERE) {
    return emu_butterfly(
        v, [](T a, T b) { return a + b; }, EMU_SITE);
}
static inline float cu_warp_max(float v, EMU_HERE) {
    return emu_butterfly(
        v, [](float a, float b) { return fmaxf(a, b); }, EMU_SITE);
}
template <int N> static inline void cu_warp_max_each(float (&v)[N], EMU_HERE) {
    for (int c = 0; c < N; c++) v[c] = cu_warp_max(v[c], line_, file_);
}
template <class T, int N> static inline void cu_warp_sum_each(T (&v)[N], EMU_HERE) {
    for (int c = 0; c < N; c++) v[c] = cu_warp_sum(v[c], line_, file_);
}
static inline uint32_t cu_warp_most(uint32_t v, EMU_HERE) {
    return emu_butterfly(
        v, [](uint32_t a, uint32_t b) { return a > b ? a : b; }, EMU_SITE);
}
static inline uint32_t cu_warp_least(uint32_t v, EMU_HERE) {
    return emu_butterfly(
        v, [](uint32_t a, uint32_t b) { return a < b ? a : b; }, EMU_SITE);
}
template <class T> static inline T cu_shfl_up(T v, unsigned d, EMU_HERE) {
    const int lane = emu_lane() - (int)d;
    const unsigned char *all = emu_meet("shfl_up", &v, sizeof v, EMU_SITE);
    return lane < 0 ? v : emu_from<T>(all, lane);
}
static inline uint32_t cu_ballot(bool p, EMU_HERE) {
    const unsigned char *all = emu_meet("ballot", &p, sizeof p, EMU_SITE);
    uint32_t m = 0;
    for (int i = 0; i < 32; i++) m |= (uint32_t)emu_from<bool>(all, i) << i;
    return m;
}
static inline bool cu_any(bool p, EMU_HERE) {
    return cu_ballot(p, line_, file_) != 0;
}
static inline void cu_syncwarp(EMU_HERE) {
    emu_meet("syncwarp", nullptr, 0, EMU_SITE);
}
template <class T> static inline T cu_shfl8(T v, int k, EMU_HERE) {
    return emu_from<T>(emu_meet8("shfl8", &v, sizeof v, EMU_SITE), k & 7);
}
static inline void cu_sync8(EMU_HERE) {
    emu_meet8("sync8", nullptr, 0, EMU_SITE);
}
static inline unsigned cu_ballot8(bool p, EMU_HERE) {
    const unsigned char *all = emu_meet8("ballot8", &p, sizeof p, EMU_SITE);
    unsigned m = 0;
    for (int i = 0; i < 8; i++) m |= (unsigned)emu_from<bool>(all, i) << i;
    return m;
}
void emu_late_fence(void); /* late.cpp */
void emu_late_before_atomic(void);
void emu_late_atomic(const void *at, size_t n);
static inline void cu_fence(void) {
    emu_late_fence();
}
template <class T> static inline T cu_atomic_add(T *p, T v) {
    emu_late_before_atomic();
    const T old = *p;
    *p = old + v;
    emu_late_atomic(p, sizeof *p);
    return old;
}
static inline int cu_atomic_max(int *p, int v) {
    emu_late_before_atomic();
    const int old = *p;
    *p = v > old ? v : old;
    emu_late_atomic(p, sizeof *p);
    return old;
}
static inline int cu_popc(uint32_t v) {
    return __builtin_popcount(v);
}
static inline int cu_ffs(uint32_t v) {
    return __builtin_ffs((int)v);
}
static inline uint32_t cu_bits(float x) {
    uint32_t u;
    memcpy(&u, &x, 4);
    return u;
}
static inline float cu_from_bits(uint32_t u) {
    float x;
    memcpy(&x, &u, 4);
    return x;
}
static inline int cu_dp4a(int a, int b, int c) {
    for (int i = 0; i < 4; i++)
        c += (int8_t)((uint32_t)a >> (8 * i)) * (int8_t)((uint32_t)b >> (8 * i));
    return c;
}
static inline uint32_t cu_byte_signs(uint32_t v) {
    return (v >> 7 & 0x01010101u) * 255u;
}
static inline uint32_t cu_perm(uint32_t x, uint32_t y, uint32_t sel) {
    const uint64_t all = (uint64_t)y << 32 | x;
    uint32_t r = 0;
    for (int i = 0; i < 4; i++)
        r |= (uint32_t)(uint8_t)(all >> (8 * ((sel >> (4 * i)) & 7))) << (8 * i);
    return r;
}
static inline uint32_t cu_and_xor(uint32_t v, uint32_t mask, uint32_t x) {
    return (v & mask) ^ x;
}
template <class T> static inline T cu_ldg(const T *p) {
    return *p;
}
template <class T> static inline T cu_ldcg(const T *p) {
    return *p;
}
extern "C" {
#include "base/fp.h"
}
void emu_copy(void *dst, const void *src, unsigned n);
void emu_copy_commit(void);
void emu_copy_wait(unsigned n);
static inline void cu_copy16(void *shared, const void *global) {
    emu_copy(shared, global, 16);
}
template <int N> static inline void cu_copy(void *shared, const void *global) {
    static_assert(N == 4 || N == 8 || N == 16, "no such copy");
    emu_copy(shared, global, N);
}
static inline void cu_copy_commit(void) {
    emu_copy_commit();
}
template <int N> static inline void cu_copy_wait(void) {
    emu_copy_wait(N);
}
static inline void cu_ldmatrix4(const void *row, uint32_t r[4], EMU_HERE) {
    const int lane = emu_lane();
    const unsigned char *all = emu_meet("ldmatrix", &row, sizeof row, EMU_SITE);
    for (int m = 0; m < 4; m++)
        r[m] = ((const uint32_t *)emu_from<const void *>(all, 8 * m + lane / 4))[lane % 4];
}
static inline float emu_bf16(uint32_t pair, int i) {
    return cu_from_bits(i ? pair & 0xffff0000u : pair << 16);
}
static inline void cu_ldmatrix4_t(const void *row, uint32_t r[4], EMU_HERE) {
    const int lane = emu_lane();
    const unsigned char *all = emu_meet("ldmatrix_t", &row, sizeof row, EMU_SITE);
    for (int m = 0; m < 4; m++) {
        r[m] = 0;
        for (int i = 0; i < 2; i++) {
            const char *row = (const char *)emu_from<const void *>(all, 8 * m + 2 * (lane % 4) + i);
            uint16_t v;
            memcpy(&v, row + 2 * (lane / 4), sizeof v);
            r[m] |= (uint32_t)v << (16 * i);
        }
    }
}
static inline uint32_t cu_transpose8(uint32_t v, EMU_HERE) {
    const int lane = emu_lane();
    const unsigned char *all = emu_meet("transpose", &v, sizeof v, EMU_SITE);
    uint32_t t = 0;
    for (int i = 0; i < 2; i++) { /* row 2 * (lane % 4) + i, value lane / 4 */
        const int row = 2 * (lane % 4) + i, k = lane / 4;
        t |= (emu_from<uint32_t>(all, 4 * row + k / 2) >> (k % 2 * 16) & 0xffff) << (16 * i);
    }
    return t;
}
static inline float emu_f16(uint32_t pair, int i) {
    return fp_f16_to_f32((uint16_t)(pair >> (16 * i)));
}
/* Products of 16-bit floats are exact in f32; the sum is in double, the order of the hardware is
 * not known. */
template <float (*VALUE)(uint32_t, int)>
static inline void emu_mma(const char *kind, float d[4], const uint32_t a[4], uint32_t b0,
                           uint32_t b1, emu_site at) {
    uint32_t mine[6] = {a[0], a[1], a[2], a[3], b0, b1}, wa, wb;
    const int r = emu_lane() / 4, c = emu_lane() % 4;
    const unsigned char *all = emu_meet(kind, mine, sizeof mine, at);
    for (int i = 0; i < 4; i++) { /* d[i]: row r + 8 (i / 2), column 2c + i % 2 */
        double sum = (double)d[i];
        for (int k = 0; k < 16; k++) {
            memcpy(&wa, all + 64 * (4 * r + k % 8 / 2) + 4 * (i / 2 + 2 * (k / 8)), 4);
            memcpy(&wb, all + 64 * (4 * (2 * c + i % 2) + k % 8 / 2) + 4 * (4 + k / 8), 4);
            sum += (double)VALUE(wa, k % 2) * (double)VALUE(wb, k % 2);
        }
        d[i] = (float)sum;
    }
}
static inline void cu_mma_bf16(float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1,
                               EMU_HERE) {
    emu_mma<emu_bf16>("mma_bf16", d, a, b0, b1, EMU_SITE);
}
static inline void cu_mma_f16(float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1, EMU_HERE) {
    emu_mma<emu_f16>("mma_f16", d, a, b0, b1, EMU_SITE);
}
static inline uint32_t cu_pack_f16(float x, float y) {
    return fp_f32_to_f16(x) | (uint32_t)fp_f32_to_f16(y) << 16;
}
/* f32 has 2 * 11 + 2 bits: what is rounded to it first is rounded to f16 as if directly, for sums
 * and products; a * b + c is so where it fits f32, and our operands do. */
static inline uint32_t cu_add_f16x2(uint32_t a, uint32_t b) {
    return cu_pack_f16(emu_f16(a, 0) + emu_f16(b, 0), emu_f16(a, 1) + emu_f16(b, 1));
}
static inline uint32_t cu_mul_f16x2(uint32_t a, uint32_t b) {
    return cu_pack_f16(emu_f16(a, 0) * emu_f16(b, 0), emu_f16(a, 1) * emu_f16(b, 1));
}
static inline uint32_t cu_fma_f16x2(uint32_t a, uint32_t b, uint32_t c) {
    return cu_pack_f16(fmaf(emu_f16(a, 0), emu_f16(b, 0), emu_f16(c, 0)),
                       fmaf(emu_f16(a, 1), emu_f16(b, 1), emu_f16(c, 1)));
}
static inline uint32_t cu_pack_bf16(float x, float y) {
    return fp_f32_to_bf16(x) | (uint32_t)fp_f32_to_bf16(y) << 16;
}
static inline float cu_f16_to_f32(uint16_t h) {
    return fp_f16_to_f32(h);
}
static inline uint16_t cu_f32_to_f16(float f) {
    return fp_f32_to_f16(f);
}

// ---- warpgroups (wgmma.cpp) -------------------------------------------------------------------
uint32_t emu_shared_address(const void *p);
void emu_fence_async(void);
void emu_wgmma(float *d, int n, const uint32_t *a, uint64_t desc);
void emu_wgmma_fence(const uint32_t *a);
void emu_wgmma_commit(void);
void emu_wgmma_wait(int n);
static inline uint32_t cu_shared_address(const void *shared) {
    return emu_shared_address(shared);
}
static inline void cu_fence_async(void) {
    emu_fence_async();
}
template <int N8> static inline void cu_wgmma_hold(float (&)[N8][4]) {
}
static inline void cu_wgmma_fence(uint32_t (&a)[4]) {
    emu_wgmma_fence(a);
}
template <int N>
static inline void cu_wgmma(float (&d)[N / 8][4], const uint32_t (&a)[4], uint64_t b) {
    emu_wgmma(d[0], N, a, b);
}
static inline void cu_wgmma_commit(void) {
    emu_wgmma_commit();
}
template <int N> static inline void cu_wgmma_wait(void) {
    emu_wgmma_wait(N);
}

// ---- the runtime ------------------------------------------------------------------------------
enum cudaError_t {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInvalidConfiguration = 9,
    cudaErrorInsufficientDriver = 35,
    cudaErrorNoDevice = 100,
    cudaErrorInvalidDevice = 101,
    cudaErrorPeerAccessUnsupported = 217,
    cudaErrorInvalidResourceHandle = 400,
    cudaErrorPeerAccessAlreadyEnabled = 704,
    cudaErrorLaunchFailure = 719,
    cudaErrorStreamCaptureUnsupported = 900
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };
enum {
    cudaStreamNonBlocking = 1,
    cudaStreamCaptureModeThreadLocal = 1,
    cudaEventDisableTiming = 2
};
struct cudaDeviceProp {
    char name[256];
    int major, minor, multiProcessorCount, l2CacheSize;
    size_t sharedMemPerBlockOptin;
};
enum cudaDeviceAttr {
    cudaDevAttrIntegrated = 18,
    cudaDevAttrMemoryClockRate = 36,
    cudaDevAttrGlobalMemoryBusWidth = 37,
    cudaDevAttrPageableMemoryAccess = 88
};
enum cudaMemoryType { cudaMemoryTypeUnregistered, cudaMemoryTypeHost };
struct cudaPointerAttributes {
    cudaMemoryType type;
};
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
struct cudaFuncAttributes {
    size_t sharedSizeBytes;
    int maxDynamicSharedSizeBytes, ptxVersion, binaryVersion;
};
struct emu_stream;
struct emu_graph;
struct emu_event;
typedef emu_stream *cudaStream_t;
typedef emu_graph *cudaGraph_t;
typedef emu_graph *cudaGraphExec_t;
typedef emu_event *cudaEvent_t;
const char *cudaGetErrorString(cudaError_t rc);
cudaError_t cudaGetLastError(void);
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaRuntimeGetVersion(int *version);
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaDeviceGetAttribute(int *v, cudaDeviceAttr what, int device);
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *a, const void *p);
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *a, const void *kernel);
cudaError_t cudaFuncSetAttribute(const void *kernel, cudaFuncAttribute what, int n_bytes);
cudaError_t cudaGetDeviceCount(int *n);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int device);
cudaError_t cudaDeviceGetAttribute(int *v, cudaDeviceAttr what, int device);
cudaError_t cudaDeviceCanAccessPeer(int *yes, int device, int peer);
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags);
cudaError_t cudaMemGetInfo(size_t *mem_free, size_t *mem_total);
cudaError_t cudaMalloc(void **p, size_t n);
cudaError_t cudaFree(void *p);
cudaError_t cudaMallocHost(void **p, size_t n);
cudaError_t cudaFreeHost(void *p);
cudaError_t cudaMemcpy(void *dst, const void *src, size_t n, cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t n, cudaMemcpyKind kind,
                            cudaStream_t s);
cudaError_t cudaMemcpyPeerAsync(void *dst, int to, const void *src, int from, size_t n,
                                cudaStream_t s);
cudaError_t cudaMemsetAsync(void *dst, int byte, size_t n, cudaStream_t s);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t s);
cudaError_t cudaStreamSynchronize(cudaStream_t s);
cudaError_t cudaStreamBeginCapture(cudaStream_t s, int mode);
cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *g);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *x, cudaGraph_t g, unsigned long long flags);
cudaError_t cudaGraphLaunch(cudaGraphExec_t x, cudaStream_t s);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t x);
cudaError_t cudaGraphDestroy(cudaGraph_t g);
cudaError_t cudaEventCreate(cudaEvent_t *ev);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *ev, unsigned flags);
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t ev, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t ev);
cudaError_t cudaEventRecord(cudaEvent_t ev, cudaStream_t s);
cudaError_t cudaEventSynchronize(cudaEvent_t ev);
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t a, cudaEvent_t b);

// ---- launches ---------------------------------------------------------------------------------
struct emu_launch {
    const char *name;
    const void *kernel;
    dim3 grid, block;
    size_t smem;
    void (*run)(const void *args); /* one thread */
    void (*drop)(void *args);
    void *args; /* owned */
    bool asked; /* for more shared memory than is usual */
    bool early;
    const void *stream;
};
void emu_run(const emu_launch *l); /* emu.cpp: every thread of it */
/* runtime.cpp. Queues it, or records it while the stream is being captured. */
cudaError_t emu_submit(const emu_launch &l, cudaStream_t s);
template <class F> static void emu_call(const void *f) {
    (*(const F *)f)();
}
template <class F> static void emu_drop(void *f) {
    delete (F *)f;
}
template <class F>
static cudaError_t emu_launch_fn(const char *name, const void *kernel, dim3 grid, dim3 block,
                                 size_t smem, cudaStream_t s, F f) {
    return emu_submit(
        {name, kernel, grid, block, smem, emu_call<F>, emu_drop<F>, new F(f), false, false, s}, s);
}
template <class... P, class... A>
static cudaError_t emu_launch_args(const char *name, void (*kernel)(P...), dim3 grid, dim3 block,
                                   size_t smem, cudaStream_t s, A... a) {
    return emu_launch_fn(name, (const void *)kernel, grid, block, smem, s, [=]() { kernel(a...); });
}
#define CU_LAUNCH(e, kernel, grid, block, smem, s, ...)                                            \
    do {                                                                                           \
        (s)->n_launches++;                                                                         \
        CU_TRY(e, cu_on((s)->c));                                                                  \
        emu_launch_args(#kernel, kernel, grid, block, smem, (s)->q, __VA_ARGS__);                  \
        CU_TRY(e, cudaGetLastError());                                                             \
    } while (0)
/* Marks the next launch to start while the previous one ends, if s->early is set and emu_late is on
 * (late.cpp). */
void emu_next_is_early(bool yes);
#define CU_LAUNCH_EARLY(e, kernel, grid, block, smem, s, ...)                                      \
    do {                                                                                           \
        emu_next_is_early((s)->early);                                                             \
        CU_LAUNCH(e, kernel, grid, block, smem, s, __VA_ARGS__);                                   \
    } while (0)
void emu_wait_before(void);
static inline void cu_wait_before(void) {
    emu_wait_before();
}

#endif
