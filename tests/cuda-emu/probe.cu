// SPDX-License-Identifier: MIT
/* tests/cuda-emu/probe.cu - one plain warpgroup product, and variants with one mistake each:
 * tests/kern/cuda_wgmma.c checks that the emulation computes the first as documented and catches
 * every mistake. */
#include "kernels/cuda/gpu_sm90.cuh"
#include "tests/cuda-emu/control.h"

enum { COLS = 64, WARPS = 8, ROWS = 16 * WARPS, SLOT = 2 * 128 * COLS, SMEM = 1024 + SLOT };

struct probe_job {
    const uint16_t *a, *b; /* bf16: [ROWS][COLS], [2 n][COLS]: columns of B */
    float *d;              /* [n][ROWS], by the first n columns */
    int mistake;
};

/* Copies the columns of B that start at `first` to the slot. Mistake PROBE_CHUNKS: in memory
 * order. */
template <int N> CU_DEV void tile(const struct probe_job &j, uint8_t *slot, int first) {
    for (int i = (int)threadIdx.x; i < 8 * N; i += (int)blockDim.x) {
        const int n = i / 8, c = j.mistake == PROBE_CHUNKS ? i % 8 : i % 8 ^ n % 8;
        cu_copy16(slot + 128 * n + 16 * c, j.b + (first + n) * COLS + 8 * (i % 8));
    }
    cu_copy_commit();
}

template <int N> CU_KERNEL probe(struct probe_job j) {
#ifdef CU_HAS_WGMMA
    CU_DYN_SHARED(uint8_t, smem);
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    uint8_t *slot = smem + (1024 - cu_shared_address(smem) % 1024) % 1024;
    if (j.mistake == PROBE_ALIGN) slot = smem;
    uint64_t desc = cu_wgmma_desc(cu_shared_address(slot));
    if (j.mistake == PROBE_SWIZZLE) desc ^= (uint64_t)3 << 62;
    if (j.mistake == PROBE_STRIDE) desc ^= (uint64_t)(512 >> 4 ^ 1024 >> 4) << 32;
    if (j.mistake == PROBE_WARPS && warp == 3) desc = cu_wgmma_desc_plus(desc, 32);
    tile<N>(j, slot, 0);
    if (j.mistake != PROBE_COPY_WAIT) cu_copy_wait<0>();
    if (j.mistake != PROBE_FENCE_ASYNC) cu_fence_async();
    __syncthreads();
    float acc[N / 8][4] = {};
    uint32_t a[COLS / 16][4];
    cu_wgmma_hold(acc);
    for (int k = 0; k < COLS / 16; k++) {
        for (int i = 0; i < 4; i++) {
            const int row = 16 * warp + lane / 4 + 8 * (i % 2), col = 16 * k + 8 * (i / 2);
            memcpy(&a[k][i], j.a + row * COLS + col + 2 * (lane % 4), 4);
        }
        if (j.mistake == PROBE_ORDER) {
            const uint32_t t = a[k][1];
            a[k][1] = a[k][2];
            a[k][2] = t;
        }
        if (j.mistake != PROBE_FENCE) cu_wgmma_fence(a[k]);
        if (j.mistake == PROBE_LATE) a[k][3] = 0;
        cu_wgmma<N>(acc, a[k], cu_wgmma_desc_plus(desc, 32 * k));
        cu_wgmma_commit();
    }
    if (j.mistake == PROBE_OPERAND) a[3][0] = 0;
    if (j.mistake == PROBE_TILE) {
        tile<N>(j, slot, N);
        cu_copy_wait<0>();
        cu_fence_async();
        __syncthreads();
    }
    if (j.mistake == PROBE_SUMS) acc[0][0] = 0;
    if (j.mistake == PROBE_WAIT)
        cu_wgmma_wait<1>();
    else
        cu_wgmma_wait<0>();
    cu_wgmma_hold(acc);
    for (int i = 0; i < N / 2; i++) {
        const int n = i / 4 * 8 + 2 * (lane % 4) + i % 2;
        j.d[n * ROWS + 16 * warp + lane / 4 + i % 4 / 2 * 8] = acc[i / 4][i % 4];
    }
    if (j.mistake == PROBE_WAIT) cu_wgmma_wait<0>();
#endif
}

extern "C" int emu_probe(struct cu_stream *s, int n, int mistake, const void *a, const void *b,
                         float *d, struct err *e) {
    const struct probe_job j = {(const uint16_t *)a, (const uint16_t *)b, d, mistake};
    void (*const fn)(struct probe_job) = n == 16   ? probe<16>
                                         : n == 32 ? probe<32>
                                         : n == 64 ? probe<64>
                                         : n == 96 ? probe<96>
                                                   : probe<128>;
    CU_LAUNCH(e, fn, 1, 32 * WARPS, SMEM, s, j);
    return 0;
}
