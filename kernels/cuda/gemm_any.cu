// SPDX-License-Identifier: MIT
/* kernels/cuda/gemm_any.cu - products of many rows of activations with weights in file order, for
 * types that are not always packed, on tensor cores (mma.sync m16n8k16 bf16). Computes what
 * gemm_kernel in gemm.cu computes for packed weights, with the same tasks, tails and rounding.
 *
 * A block owns 128 weight rows, 16 per warp, and up to 128 tokens over the whole K, 64 columns at a
 * time. A thread decodes 32 of a row's columns to bf16 in shared memory while the warps multiply
 * the preceding 64 columns. So a weight is decoded once per 128 tokens, each type needs only one
 * decoder, and one barrier per 64 columns suffices. Tokens arrive by asynchronous copies, as in
 * gemm.cu. Both operands are rows of 128 bytes whose 16-byte chunks are permuted by row % 8, which
 * ldmatrix reads without bank conflicts.
 *
 * Rounding: as in gemm.cu, block weights are decoded as in ref and rounded to bf16, nearest even.
 * bf16 weights are exact; so are f16 and f32 weights, as sums of two and three bf16 values, each
 * multiplied in a separate step. Activations are rounded to bf16. A token's sums depend only on its
 * own column, in the order of K. Its tests passed on one H200 (docs/notebook/cuda-h200.md);
 * registers: docs/notebook/cuda-counts.md. */
#include "kernels/cuda/gemm.cuh"

enum {
    TOKENS = 128, /* maximum per task */
    ROWS = 128,
    WARPS = 8,
    THREADS = 32 * WARPS,
    TILE = 64,       /* columns per step */
    LINE = 2 * TILE, /* their bytes in a row */
    DEPTH = 3,       /* token tiles in the ring */
    SMEM = LINE * (DEPTH * TOKENS + 2 * ROWS),
    OUT_LD = ROWS + 4,            /* floats per token of the output tile; avoids bank conflicts */
    COPIES = TOKENS * 8 / THREADS /* 16-byte chunks of a token tile copied by each thread */
};

/* Number of bf16 values whose sum is a weight. */
template <class B> struct any_parts { static constexpr int N = 1; };
template <> struct any_parts<struct blk_F16> { static constexpr int N = 2; };
template <> struct any_parts<struct blk_F32> { static constexpr int N = 3; };

/* Returns the position of chunk c (8 columns) of a row. */
CU_DEV int place(int row, int c) {
    return LINE * row + 16 * (c ^ row % 8);
}
CU_DEV void store16(uint8_t *p, const uint32_t v[4]) {
    *(uint4 *)(void *)p = make_uint4(v[0], v[1], v[2], v[3]);
}

/* Returns x and y as bf16 if `part` is 0. Otherwise returns correction number `part`: the remainder
 * left by the preceding bf16 values, again as bf16. */
CU_DEV uint32_t part_of(float x, float y, int part) {
    uint32_t v = cu_pack_bf16(x, y);
    for (int i = 0; i < part; i++) {
        x -= cu_from_bits(v << 16);
        y -= cu_from_bits(v & 0xffff0000u);
        v = cu_pack_bf16(x, y);
    }
    return v;
}

/* Decodes the 32 weights of group g of a row to bf16 and writes them to row `row` of the tile: its
 * chunks (of 8 values) 4 * (g % 2) to 4 * (g % 2) + 3. */
template <class B>
CU_DEV void decode(const uint8_t *w, int64_t g, int part, const struct kern_grid *grid,
                   uint8_t *tile, int row) {
    uint32_t v[4];
    if constexpr (cu_block<B>::elems == 1) {
        CU_UNROLL
        for (int c = 0; c < 4; c++) {
            const float4 a = cu_float4((const B *)(const void *)w, 32 * g + 8 * c);
            const float4 b = cu_float4((const B *)(const void *)w, 32 * g + 8 * c + 4);
            v[0] = part_of(a.x, a.y, part);
            v[1] = part_of(a.z, a.w, part);
            v[2] = part_of(b.x, b.y, part);
            v[3] = part_of(b.z, b.w, part);
            store16(tile + place(row, 4 * (int)(g % 2) + c), v);
        }
    } else {
        struct cu_group o;
        cu_row_group<B>(w, g, grid, &o);
        CU_UNROLL
        for (int c = 0; c < 4; c++) {
            CU_UNROLL
            for (int i = 0; i < 4; i++) { /* two weights: the bits of cu_weight, rounded */
                const uint32_t q = (uint32_t)o.q[2 * c + i / 2] ^ 0x80808080u;
                const float x = cu_float_byte(q, 2 * (i % 2)) - (CU_FLOAT_BYTE + 128.0f);
                const float y = cu_float_byte(q, 2 * (i % 2) + 1) - (CU_FLOAT_BYTE + 128.0f);
                v[i] = cu_pack_bf16(o.s[c / 2] * x - o.m[c / 2], o.s[c / 2] * y - o.m[c / 2]);
            }
            store16(tile + place(row, 4 * (int)(g % 2) + c), v);
        }
    }
}

/* Where a block's operands come from. */
struct source {
    const uint8_t *w;            /* row that this thread decodes */
    const uint16_t *row[COPIES]; /* tokens whose columns it copies; NULL: none */
    uint8_t *tokens, *weights;   /* in shared memory */
    const struct kern_grid *grid;
    int n_tiles, n_groups;
};

CU_DEV void fetch_tokens(const struct source &f, int t) {
    if (t < f.n_tiles) {
        uint8_t *dst = f.tokens + t % DEPTH * (LINE * TOKENS);
        CU_UNROLL
        for (int i = 0; i < COPIES; i++) {
            const int n = (int)threadIdx.x / 8 + i * (THREADS / 8);
            if (f.row[i]) cu_copy16(dst + place(n, (int)threadIdx.x % 8), f.row[i] + TILE * t);
        }
    }
    cu_copy_commit();
}

/* Decodes step i: part i % N of the weights of tile i / N. */
template <class B> CU_DEV void decode_step(const struct source &f, int i) {
    constexpr int N = any_parts<B>::N;
    const int64_t g = 2 * (i / N) + (int)threadIdx.x % 2;
    const int row = (int)threadIdx.x / 2;
    uint8_t *tile = f.weights + i % 2 * (LINE * ROWS);
    if (g < f.n_groups) {
        decode<B>(f.w, g, i % N, f.grid, tile, row);
    } else {
        const uint32_t none[4] = {0, 0, 0, 0};
        for (int c = 4; c < 8; c++) store16(tile + place(row, c), none);
    }
}

/* Computes products with mma. The grid is (tasks, groups of ROWS weight rows). */
template <class B> CU_KERNEL __launch_bounds__(THREADS, 2) any_kernel(struct cu_gemm_job j) {
    CU_DYN_SHARED(uint8_t, smem);
    constexpr int N = any_parts<B>::N;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int first = ROWS * (int)blockIdx.y; /* first row of the block */
    struct cu_task task;
    if (!cu_task_of(j, &task)) return;
    struct source f;
    /* A thread beyond the last row uses the last row without storing. */
    const int64_t row = cu_min(first + (int)threadIdx.x / 2, j.rows - 1);
    f.w = j.w + (uint64_t)task.mat * j.mat_bytes + (uint64_t)row * j.row_bytes;
    f.tokens = smem;
    f.weights = smem + DEPTH * LINE * TOKENS;
    f.grid = j.grid;
    f.n_groups = j.k / 32;
    f.n_tiles = j.x_ld / TILE;
    CU_UNROLL
    for (int i = 0; i < COPIES; i++) {
        const int n = (int)threadIdx.x / 8 + i * (THREADS / 8);
        f.row[i] = NULL;
        if (n >= task.tokens) continue;
        const unsigned in = (unsigned)cu_task_row(j, task, n);
        f.row[i] = j.x + (int64_t)(in / j.x_div) * j.x_ld + 8 * (threadIdx.x % 8);
    }
    float acc[TOKENS / 8][4] = {};
    const bool real = first + 16 * warp < j.rows;
    for (int t = 0; t < DEPTH - 1; t++) fetch_tokens(f, t);
    decode_step<B>(f, 0);
    for (int i = 0; i < N * f.n_tiles; i++) {
        const int t = i / N;
        cu_copy_wait<DEPTH - 2>();
        __syncthreads(); /* step i has arrived; the buffers of step i - 1 are free */
        if (i % N == 0) fetch_tokens(f, t + DEPTH - 1);
        if (i + 1 < N * f.n_tiles) decode_step<B>(f, i + 1);
        if (!real) continue;
        const uint8_t *x =
            f.tokens + t % DEPTH * (LINE * TOKENS) + LINE * (lane / 16 * 8 + lane % 8);
        const uint8_t *w = f.weights + i % 2 * (LINE * ROWS) + LINE * (16 * warp + lane % 16);
#pragma unroll 1
        for (int patch = 0; patch < TILE / 16; patch++) {
            uint32_t a[4], b[4];
            cu_ldmatrix4(w + 16 * ((2 * patch + lane / 16) ^ lane % 8), a);
            const uint8_t *xp = x + 16 * ((2 * patch + lane / 8 % 2) ^ lane % 8);
            CU_UNROLL
            for (int pair = 0; pair < TOKENS / 16; pair++) {
                if (16 * pair >= task.tokens) break; /* uniform in the block */
                cu_ldmatrix4(xp + 16 * LINE * pair, b);
                cu_mma_bf16(acc[2 * pair], a, b[0], b[1]);
                cu_mma_bf16(acc[2 * pair + 1], a, b[2], b[3]);
            }
        }
    }
    cu_copy_wait<0>();
    __syncthreads(); /* operands are no longer read: sums reuse their memory */
    float *out = (float *)(void *)smem;
    CU_UNROLL
    for (int i = 0; i < TOKENS / 2; i++) { /* tile of 8 tokens, element */
        const int n = i / 4 * 8 + 2 * (lane % 4) + i % 2;
        out[n * OUT_LD + 16 * warp + lane / 4 + i % 4 / 2 * 8] = acc[i / 4][i % 4];
    }
    __syncthreads();
    const int n_rows = (int)cu_min(ROWS, j.rows - first);
    for (int n = warp; n < task.tokens; n += WARPS) {
        const int64_t at = cu_task_row(j, task, n) * j.ldy + first;
        for (int r = lane; r < n_rows; r += 32) {
            const float v = out[n * OUT_LD + r];
            j.y[at + r] = j.mul ? cu_gate(v, j.gelu) * j.mul[at + r] : v;
        }
    }
}

static const struct any {
    enum qtype type;
    void (*fn)(struct cu_gemm_job);
} table[] = {
#define ROW(T) {QT_##T, any_kernel<struct blk_##T>},
    CU_PLAIN_TYPES(ROW) CU_FLOAT_TYPES(ROW)
#undef ROW
};

/* Returns the kernel for a product. Halves the tokens per task if multiprocessors would otherwise
 * idle. */
struct cu_gemm_kernel cu_gemm_any(const struct cu_stream *s, const struct cu_product *p,
                                  enum qtype type) {
    const int64_t blocks = div_up(p->rows, ROWS);
    struct cu_gemm_kernel g = {};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (table[i].type != type) continue;
        const bool fills = cu_gemm_tasks(p, TOKENS) * blocks >= s->c->info.n_sm;
        g = {type, fills ? TOKENS : TOKENS / 2, ROWS, WARPS, SMEM, table[i].fn};
    }
    return g;
}
