// SPDX-License-Identifier: MIT
/* kernels/cuda/gpu_sm90.cuh - Hopper's additions to gpu.cuh: products of a warpgroup (wgmma,
 * sm_90a). Source: the PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions" and "Async
 * Proxy".
 *
 * A warpgroup is four consecutive warps, the first a multiple of four. All 128 threads call the
 * same operations in the same order. A product runs in the background from cu_wgmma to the wait
 * that covers it; until then no thread may access its sums, the registers of its A operand or the
 * shared memory that it reads:
 *
 *     acc = 0; cu_wgmma_hold(acc);
 *     write a; cu_wgmma_fence(a); cu_wgmma(acc, a, b); cu_wgmma_commit(); any number of times
 *     cu_wgmma_wait<0>(); cu_wgmma_hold(acc); read acc
 *
 * Products see shared memory written by ordinary stores or cu_copy16 after each writer has called
 * cu_fence_async (after its cu_copy_wait), and after a barrier.
 *
 * Code for architectures other than sm_90a must not call these functions: kernels that use them
 * are empty unless CU_HAS_WGMMA is defined, and are never launched there (cu_use_wgmma). */
#ifndef HONE_KERNELS_CUDA_GPU_SM90_CUH
#define HONE_KERNELS_CUDA_GPU_SM90_CUH

#include "kernels/cuda/gpu.cuh"

#if defined(CU_EMU) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define CU_HAS_WGMMA 1
#endif

/* Builds the tensor cores' descriptor of the B operand: K-major, rows of 128 bytes (64 bf16 of a
 * token), 16 byte chunk c of row n at 128 n + 16 (c ^ n % 8). That is the 128-byte swizzle, whose
 * pattern begins at multiples of 1024. at: a shared address (cu_shared_address), which is such a
 * multiple plus 32 for each 16 columns. Bits: 0-13 start / 16; 16-29 leading offset / 16, unused by
 * this layout, 1; 32-45 bytes from 8 rows to the next 8, / 16; 49-51 start of the pattern, 0; 62-63
 * swizzle, 1: 128 bytes. */
CU_DEV uint64_t cu_wgmma_desc(uint32_t at) {
    return (uint64_t)(at >> 4 & 0x3fffu) | (uint64_t)1 << 16 | (uint64_t)(1024 >> 4) << 32 |
           (uint64_t)1 << 62;
}
/* Advances a descriptor's start; shared memory ends below 2^18, so there is no carry. */
CU_DEV uint64_t cu_wgmma_desc_plus(uint64_t desc, int n_bytes) {
    return desc + (uint64_t)(n_bytes >> 4);
}

#if defined(CU_HAS_WGMMA) && !defined(CU_EMU)
CU_DEV uint32_t cu_shared_address(const void *shared) {
    return (uint32_t)__cvta_generic_to_shared(shared);
}
CU_DEV void cu_fence_async(void) {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
/* Prevents the compiler from moving register accesses across this point. Must not be used while
 * a product works on the registers: the compiler would then run products one by one (ptxas:
 * "serialized"). */
template <int N8> CU_DEV void cu_wgmma_hold(float (&d)[N8][4]) {
    CU_UNROLL
    for (int i = 0; i < N8; i++)
        asm volatile("" : "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3])::"memory");
}
/* Orders earlier writes of the operand (and, before the first product, of the sums) before later
 * products. */
CU_DEV void cu_wgmma_fence(uint32_t (&a)[4]) {
    asm volatile("" : "+r"(a[0]), "+r"(a[1]), "+r"(a[2]), "+r"(a[3])::"memory");
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
CU_DEV void cu_wgmma_commit(void) {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/* Waits until at most N of the committed groups are still in flight. */
template <int N> CU_DEV void cu_wgmma_wait(void) {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

/* Operand names for the assembly below, by tens. */
// clang-format off
#define CU_OF10(t) "%" t "0, %" t "1, %" t "2, %" t "3, %" t "4, %" t "5, %" t "6, %" t "7, %" t "8, %" t "9"
// clang-format on
#define CU_SUM(i) "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3])
#define CU_SUM4(i) CU_SUM(i), CU_SUM(i + 1), CU_SUM(i + 2), CU_SUM(i + 3)
#define CU_WGMMA(n, sums, more, ...)                                                               \
    asm volatile("{\n.reg .pred add;\nsetp.eq.u32 add, 0, 0;\n"                                    \
                 "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32.bf16.bf16 {" sums "}, " more      \
                 ", add, 1, 1, 0;\n}"                                                              \
                 : __VA_ARGS__                                                                     \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))

/* Computes d += A B for 64 x 16 by 16 x N, with bf16 operands and f32 sums. Warp w of the
 * warpgroup holds rows 16 w .. 16 w + 15 of A and d, in the order of cu_mma_bf16: a as there,
 * d[j] with columns 8j .. 8j + 7. b is the cu_wgmma_desc of B's columns (tokens) 0 .. N - 1. */
template <int N> CU_DEV void cu_wgmma(float (&d)[N / 8][4], const uint32_t (&a)[4], uint64_t b) {
    static_assert(N == 16 || N == 32 || N == 64 || N == 96 || N == 128, "");
    if constexpr (N == 16)
        CU_WGMMA(16, "%0, %1, %2, %3, %4, %5, %6, %7", "{%8, %9, %10, %11}, %12", CU_SUM(0),
                 CU_SUM(1));
    if constexpr (N == 32)
        CU_WGMMA(32, CU_OF10("") ", %10, %11, %12, %13, %14, %15", "{%16, %17, %18, %19}, %20",
                 CU_SUM4(0));
    if constexpr (N == 64)
        CU_WGMMA(64, CU_OF10("") ", " CU_OF10("1") ", " CU_OF10("2") ", %30, %31",
                 "{%32, %33, %34, %35}, %36", CU_SUM4(0), CU_SUM4(4));
    if constexpr (N == 96)
        CU_WGMMA(96,
                 CU_OF10("") ", " CU_OF10("1") ", " CU_OF10("2") ", " CU_OF10(
                     "3") ", %40, %41, "
                          "%42, %43, %44, %45, %46, %47",
                 "{%48, %49, %50, %51}, %52", CU_SUM4(0), CU_SUM4(4), CU_SUM4(8));
    if constexpr (N == 128)
        CU_WGMMA(128,
                 CU_OF10("") ", " CU_OF10("1") ", " CU_OF10("2") ", " CU_OF10("3") ", " CU_OF10(
                     "4") ", " CU_OF10("5") ", %60, %61, %62, %63",
                 "{%64, %65, %66, %67}, %68", CU_SUM4(0), CU_SUM4(4), CU_SUM4(8), CU_SUM4(12));
}
#undef CU_WGMMA
#undef CU_SUM4
#undef CU_SUM
#undef CU_OF10
#endif

#endif
