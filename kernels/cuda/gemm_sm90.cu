// SPDX-License-Identifier: MIT
/* kernels/cuda/gemm_sm90.cu - products of many rows of activations with packed weights on Hopper's
 * tensor cores (wgmma, sm_90a). Computes what gemm_kernel in gemm.cu computes, with the same
 * rounding.
 *
 * Four warps form a warpgroup and own 64 weight rows: each warp has 16, its share of the A operand,
 * decoded in registers as for mma. Tokens are the B operand, which the tensor cores read from
 * shared memory: up to 128 of a task, as 16, 32, 64, 96 or 128 columns, so that a weight is decoded
 * once per 128 tokens and few tokens cost little. Rows of x arrive as for mma: 64 columns (128
 * bytes) at a time, 16-byte chunks permuted by token % 8, which is the hardware's 128-byte swizzle
 * if a tile begins at a multiple of 1024 bytes.
 *
 * A product runs while the operand for the next 16 columns is decoded: two operands alternate, and
 * one product is in flight. So at the barrier for tile t, the last product of tile t - 1 may still
 * read its slot, but all of tile t - 2 are done: that slot is refilled. Columns of B beyond the
 * task's tokens hold stale data; they do not affect a token's sum and are not stored.
 *
 * Registers and instructions: docs/notebook/cuda-counts.md. */
#include "kernels/cuda/gemm.cuh"
#include "kernels/cuda/gpu_sm90.cuh"

enum {
    TOKENS = 128,                   /* maximum per task */
    TILE = 64,                      /* columns fetched together */
    TILE_BYTES = 2 * TOKENS * TILE, /* a slot of the ring, bf16 */
    DEPTH = 4,                      /* slots */
    AHEAD = DEPTH - 2,              /* tiles in flight */
    ALIGN = 1024,                   /* for the swizzle */
    MAX_WARPS = 16
};

/* Where a block's operands come from. */
struct source {
    const uint8_t *w;  /* this warp's 16 rows */
    const uint16_t *x; /* chunk threadIdx.x % 8 of row 0 */
    const int *row;    /* shared: row of x for each token of the task */
    int tokens, n_tiles, k;
    uint8_t *ring, *supers; /* in shared memory */
};

/* Starts the copies of token tile t and, with every fourth tile, of the warp's super after the
 * next, as one group. */
template <class B> CU_DEV void fetch(const struct source &f, int t) {
    typedef cu_pack<B> P;
    if (t < f.n_tiles) {
        const int first = (int)threadIdx.x / 8, chunk = (int)threadIdx.x % 8;
        uint8_t *dst = f.ring + t % DEPTH * TILE_BYTES + 16 * (chunk ^ first % 8);
#pragma unroll 1
        for (int n = first; n < f.tokens; n += (int)blockDim.x / 8)
            cu_copy16(dst + 128 * n, f.x + (int64_t)f.row[n] * f.k + TILE * t);
        if (t % 4 == 0) {
            uint8_t *slot = f.supers + t / 4 % 2 * P::BYTES;
            const uint8_t *src = f.w + (int64_t)(t / 4) * P::BYTES;
#pragma unroll 1
            for (int i = 16 * ((int)threadIdx.x % 32); i < P::BYTES; i += 512)
                cu_copy16(slot + i, src + i);
        }
    }
    cu_copy_commit();
}

/* Returns the stride between tokens, in floats, in the output tile of a block of n_threads, with 64
 * rows per warpgroup: 4 more than a multiple of 16, to avoid bank conflicts. */
static constexpr __host__ __device__ int ld_of(int n_threads) {
    return n_threads / 2 + 4;
}

#ifdef CU_HAS_WGMMA
/* Multiplies over all of K for N columns (at least the task's tokens). Stores the sums in f.ring,
 * starting at the block's row `row`. */
template <class B, int N> CU_DEV void product(const struct source &f, int row) {
    typedef cu_pack<B> P;
    const int lane = (int)threadIdx.x % 32;
    const uint64_t desc = cu_wgmma_desc(cu_shared_address(f.ring));
    float acc[N / 8][4] = {};
    uint32_t a[2][4];
    cu_wgmma_hold(acc);
    for (int t = 0; t < AHEAD; t++) fetch<B>(f, t);
    for (int super = 0; super < f.n_tiles / 4; super++) {
        struct cu_super<B> s;
        CU_UNROLL
        for (int tile = 0; tile < 4; tile++) {
            const int t = 4 * super + tile;
            cu_copy_wait<AHEAD - 1>();
            cu_fence_async();
            __syncthreads();
            fetch<B>(f, t + AHEAD);
            cu_syncwarp(); /* lanes may diverge in copies; products need them converged */
            cu_load_tile(f.supers + super % 2 * P::BYTES, lane, tile, &s);
            const uint64_t b = cu_wgmma_desc_plus(desc, t % DEPTH * TILE_BYTES);
            CU_UNROLL
            for (int patch = 0; patch < 4; patch++) {
                uint32_t(&o)[4] = a[patch % 2];
                cu_operand(s, tile, patch, o);
                cu_wgmma_fence(o);
                cu_wgmma<N>(acc, o, cu_wgmma_desc_plus(b, 32 * patch));
                cu_wgmma_commit();
                cu_wgmma_wait<1>();
            }
        }
    }
    cu_wgmma_wait<0>();
    cu_wgmma_hold(acc);
    cu_copy_wait<0>();
    __syncthreads(); /* operands are no longer read: their memory is free */
    float *out = (float *)(void *)f.ring + row + lane / 4;
    CU_UNROLL
    for (int i = 0; i < N / 2; i++) { /* tile of 8 tokens, element */
        const int n = i / 4 * 8 + 2 * (lane % 4) + i % 2;
        out[n * ld_of((int)blockDim.x) + i % 4 / 2 * 8] = acc[i / 4][i % 4];
    }
}
#endif

/* Computes products with wgmma. The grid is (tasks, groups of 16 weight rows per warp). In a gated
 * unit, the first half of the warps has gate rows, the second half the corresponding up rows. */
template <class B>
CU_KERNEL __launch_bounds__(32 * MAX_WARPS, 1) wgmma_kernel(struct cu_gemm_job j) {
#ifdef CU_HAS_WGMMA
    CU_DYN_SHARED(uint8_t, smem);
    CU_SHARED(int, rows, [TOKENS]);
    typedef cu_pack<B> P;
    const int warp = (int)threadIdx.x / 32, n_warps = (int)blockDim.x / 32;
    const int n_super = j.k / 256, last = (j.rows + 15) / 16 - 1;
    const int n_own = j.w_up ? n_warps / 2 : n_warps; /* warps with their own rows */
    const bool up = warp >= n_own;
    struct cu_task task;
    if (!cu_task_of(j, &task)) return;
    /* A warp beyond the last row recomputes the last group without storing it. */
    const int group = (int)blockIdx.y * n_own + warp % n_own;
    struct source f;
    f.w = (up ? j.w_up : j.w) + (uint64_t)task.mat * (up ? j.mat_bytes_up : j.mat_bytes) +
          (uint64_t)(group < last ? group : last) * (uint64_t)n_super * P::BYTES;
    f.x = j.x + 8 * (threadIdx.x % 8);
    f.row = rows;
    f.tokens = task.tokens;
    f.n_tiles = 4 * n_super;
    f.k = j.k;
    f.ring = smem + (ALIGN - cu_shared_address(smem) % ALIGN) % ALIGN;
    f.supers = f.ring + DEPTH * TILE_BYTES + warp * 2 * P::BYTES;
    for (int n = (int)threadIdx.x; n < task.tokens; n += (int)blockDim.x)
        rows[n] = (int)((unsigned)cu_task_row(j, task, n) / j.x_div);
    __syncthreads();
    if (task.tokens <= 16)
        product<B, 16>(f, 16 * warp);
    else if (task.tokens <= 32)
        product<B, 32>(f, 16 * warp);
    else if (task.tokens <= 64)
        product<B, 64>(f, 16 * warp);
    else if (task.tokens <= 96)
        product<B, 96>(f, 16 * warp);
    else
        product<B, 128>(f, 16 * warp);
    __syncthreads();
    const int row = 16 * n_own * (int)blockIdx.y, n_rows = (int)cu_min(16 * n_own, j.rows - row);
    for (int n = warp; n < task.tokens; n += n_warps) {
        const float *out = (const float *)(void *)f.ring + n * ld_of((int)blockDim.x);
        float *y = j.y + cu_task_row(j, task, n) * j.ldy + row;
        for (int r = (int)threadIdx.x % 32; r < n_rows; r += 32)
            y[r] = j.w_up ? cu_gate(out[r], j.gelu) * out[16 * n_own + r] : out[r];
    }
#endif
}

/* Chooses the number of warpgroups per block: the most that usefully share the block's tokens. If
 * rows are so short that they end before the next block's first tile arrives, two blocks should fit
 * on a multiprocessor; and no multiprocessor should idle. In a gated unit, two warpgroups share 64
 * rows. */
static int warpgroups(const struct cu_product *p, int n_sm) {
    const int least = p->up.w ? 2 : 1;
    const int64_t rows = div_up(p->rows, 64) * least, n_tasks = cu_gemm_tasks(p, TOKENS);
    int n = p->k < 1024 ? 2 : MAX_WARPS / 4;
    while (n > least && (n / 2 >= rows || n_tasks * div_up(rows, n) < n_sm)) n /= 2;
    return n;
}

/* Returns the wgmma kernel for the product; its fn is NULL if no kernel fits. */
struct cu_gemm_kernel cu_gemm_sm90(const struct cu_stream *s, const struct cu_product *p) {
    static const struct {
        enum qtype type;
        int super_bytes;
        void (*fn)(struct cu_gemm_job);
    } table[] = {
#define ROW(T) {QT_##T, cu_pack<struct blk_##T>::BYTES, wgmma_kernel<struct blk_##T>},
        CU_PACK_TYPES(ROW)
#undef ROW
    };
    struct cu_gemm_kernel g = {};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (table[i].type != p->w.type) continue;
        g.type = p->w.type;
        g.tokens = TOKENS;
        g.warps = 4 * (s->warpgroups ? s->warpgroups : warpgroups(p, s->c->info.n_sm));
        g.rows = 16 * g.warps / (p->up.w ? 2 : 1);
        const int operands = DEPTH * TILE_BYTES + 2 * g.warps * table[i].super_bytes;
        const int sums = TOKENS * ld_of(32 * g.warps) * 4;
        g.smem = ALIGN + (operands > sums ? operands : sums);
        g.fn = table[i].fn;
    }
    return g;
}
