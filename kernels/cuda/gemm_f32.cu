// SPDX-License-Identifier: MIT
/* kernels/cuda/gemm_f32.cu - exact products of many rows of f32 activations with weights of any
 * type in file order: weights are decoded as in kernels/ref, products are f32 multiply-adds.
 * gemm.cu sorts rows by expert, builds tasks and adds up experts, as it does for its own products.
 *
 * A block owns ROWS weight rows and up to TOKENS tokens over the whole K, 32 columns at a time.
 * Both operands are f32 in shared memory, [column][row] and [column][token], so a thread reads 8
 * rows and 8 tokens of a column with four 16-byte loads for 64 multiply-adds. While the warps
 * multiply 32 columns, the next 32 of the tokens are loaded into registers. Weights arrive by
 * asynchronous copies of aligned 16-byte chunks, 256 columns of each row (float types: 32); a
 * thread decodes 32 weights of one row, each weight once per 64 tokens.
 *
 * Four adjacent rows or tokens form a unit; column c has unit u at u ^ c / 4 % 8. So the stores of
 * threads with 4 columns each reach all 32 banks. Bits 1 to 3 of the lane number
 * select rows, bits 0 and 4 select tokens: a half-warp reads 128 bytes of rows, and lanes that
 * differ in bit 0 (rows) or 1 (tokens) read the same address, which the hardware serves at once.
 *
 * A sum is one chain of fmaf in the order of K, regardless of block, task and other tokens. */
#include "kernels/cuda/gemm.cuh"

enum {
    TOKENS = 64, /* maximum per task */
    ROWS = 128,
    THREADS = ROWS,
    STEP = 32, /* columns */
    W_TILE = STEP * ROWS,
    X_TILE = STEP * TOKENS, /* floats */
    X_LOADS = X_TILE / 4 / THREADS,
    OUT_LD = ROWS + 4 /* floats per token of the output tile */
};
static_assert(TOKENS * OUT_LD <= 2 * (W_TILE + X_TILE), "sums fit where operands were");

/* Raw weights in shared memory: SLOT bytes per row of the block, for PERIOD steps. */
template <class B> struct raw_shape {
    static constexpr bool FLOAT = cu_block<B>::elems == 1;
    static constexpr int PERIOD = FLOAT ? 1 : 8;
    static constexpr int PER = FLOAT ? 1 : cu_block<B>::elems / 32; /* groups per block */
    static constexpr int BYTES = STEP * PERIOD / cu_block<B>::elems * (int)sizeof(B);
    static constexpr int PIECES =
        /* The first chunk may begin up to 15 bytes earlier. */
        (BYTES + 15 + 15) / 16;
    static constexpr int SLOT = 16 * (PIECES | 1); /* odd: avoids bank conflicts */
    static constexpr int SMEM = 2 * (W_TILE + X_TILE) * 4 + ROWS * SLOT;
};

/* Where a block's operands come from. */
struct source {
    const uint8_t *w; /* the first row of the block */
    uint64_t row_bytes;
    int last; /* index of its last row in the matrix */
    const float *x;
    int64_t ldx;
    int row[X_LOADS]; /* rows of x whose columns this thread loads; -1: none */
    int k;
    bool wide; /* rows of x allow 16-byte loads */
    uint8_t *raw;
};

CU_DEV const uint8_t *row_of(const struct source &f, int row, int bytes, int period) {
    return f.w + (uint64_t)(row < f.last ? row : f.last) * f.row_bytes +
           (uint64_t)period * (uint64_t)bytes;
}

/* Starts the copies of raw weights of period `period`. */
template <class B> CU_DEV void fetch_raw(const struct source &f, int period) {
    typedef raw_shape<B> R;
    const int left = (int)f.row_bytes - period * R::BYTES, n = left < R::BYTES ? left : R::BYTES;
    for (int i = (int)threadIdx.x; i < ROWS * R::PIECES; i += THREADS) {
        const int row = i / R::PIECES, at = 16 * (i % R::PIECES);
        const uint8_t *src = row_of(f, row, R::BYTES, period);
        const int skew = (int)((uintptr_t)src & 15);
        if (at < skew + n) cu_copy16(f.raw + row * R::SLOT + at, src - skew + at);
    }
    cu_copy_commit();
}

/* Decodes 32 weights of this thread's row, starting at column `step * 32`. */
template <class B>
CU_DEV void decode(const struct source &f, int step, const struct kern_grid *grid, float *tile) {
    typedef raw_shape<B> R;
    const int row = (int)threadIdx.x, of = step % R::PERIOD;
    const uint8_t *src = row_of(f, row, R::BYTES, step / R::PERIOD);
    const uint8_t *p = f.raw + row * R::SLOT + (int)((uintptr_t)src & 15);
    if constexpr (R::FLOAT) {
        const int n = f.k - STEP * step;
        CU_UNROLL
        for (int l = 0; l < STEP; l++)
            tile[l * ROWS + (row ^ l / 4 * 4)] =
                l < n ? cu_float((const B *)(const void *)p, l) : 0.0f;
    } else {
        struct cu_group o;
        cu_group((const B *)(const void *)p + of / R::PER, of % R::PER, grid, &o);
        CU_UNROLL
        for (int l = 0; l < STEP; l++) { /* the bits of cu_weight */
            const uint32_t q = (uint32_t)o.q[l / 4] ^ 0x80808080u;
            float v = o.s[l / 16] * (cu_float_byte(q, l % 4) - (CU_FLOAT_BYTE + 128.0f));
            if constexpr (cu_has_min<B>::YES) v -= o.m[l / 16];
            tile[l * ROWS + (row ^ l / 4 * 4)] = v;
        }
    }
}

/* Loads 4 columns of each of this thread's tokens. */
CU_DEV void load_tokens(const struct source &f, int step, float4 *v) {
    const int c = STEP * step + 4 * ((int)threadIdx.x % 8);
    CU_UNROLL
    for (int i = 0; i < X_LOADS; i++) {
        v[i] = make_float4(0, 0, 0, 0);
        if (f.row[i] < 0) continue;
        const float *x = f.x + f.row[i] * f.ldx + c;
        if (f.wide) {
            if (c < f.k) v[i] = *(const float4 *)(const void *)x;
        } else {
            if (c < f.k) v[i].x = x[0];
            if (c + 1 < f.k) v[i].y = x[1];
            if (c + 2 < f.k) v[i].z = x[2];
            if (c + 3 < f.k) v[i].w = x[3];
        }
    }
}
CU_DEV void store_tokens(const float4 *v, float *tile) {
    const int u = (int)threadIdx.x % 8;
    CU_UNROLL
    for (int i = 0; i < X_LOADS; i++) {
        float *to = tile + 4 * u * TOKENS + (((int)threadIdx.x / 8 + i * (THREADS / 8)) ^ 4 * u);
        to[0] = v[i].x;
        to[TOKENS] = v[i].y;
        to[2 * TOKENS] = v[i].z;
        to[3 * TOKENS] = v[i].w;
    }
}

/* Adds the products of 32 columns to acc[row][token]: 4 * NR rows, units wu and wu + 8, and 4 *
 * NX tokens, units xu and xu ^ 4. */
template <int NR, int NX>
CU_DEV void multiply(const float *w, const float *x, int wu, int xu, float (&acc)[8][8]) {
    CU_ROLLED
    for (int u = 0; u < STEP / 4; u++) {
        const float *wp = w + 4 * u * ROWS + 4 * (wu ^ u);
        const float *xp[2] = {x + 4 * u * TOKENS + 4 * (xu ^ u),
                              x + 4 * u * TOKENS + 4 * (xu ^ 4 ^ u)};
        CU_UNROLL
        for (int l = 0; l < 4; l++) {
            float a[4 * NR], b[4 * NX];
            CU_UNROLL
            for (int i = 0; i < NR; i++) {
                const float4 v = *(const float4 *)(const void *)(wp + l * ROWS + 32 * i);
                a[4 * i] = v.x, a[4 * i + 1] = v.y, a[4 * i + 2] = v.z, a[4 * i + 3] = v.w;
            }
            CU_UNROLL
            for (int i = 0; i < NX; i++) {
                const float4 v = *(const float4 *)(const void *)(xp[i] + l * TOKENS);
                b[4 * i] = v.x, b[4 * i + 1] = v.y, b[4 * i + 2] = v.z, b[4 * i + 3] = v.w;
            }
            CU_UNROLL
            for (int r = 0; r < 4 * NR; r++) CU_UNROLL
            for (int t = 0; t < 4 * NX; t++) acc[r][t] = fmaf(a[r], b[t], acc[r][t]);
        }
    }
}

/* Computes products. The grid is (tasks, groups of ROWS weight rows). */
template <class B> CU_KERNEL __launch_bounds__(THREADS, 3) f32_kernel(struct cu_gemm_job j) {
    CU_DYN_SHARED(float, smem);
    typedef raw_shape<B> R;
    const int tid = (int)threadIdx.x, lane = tid % 32, warp = tid / 32;
    const int first = ROWS * (int)blockIdx.y;
    struct cu_task task;
    if (!cu_task_of(j, &task)) return;
    float *const w = smem, *const x = smem + 2 * W_TILE;
    struct source f;
    f.w = j.w + (uint64_t)task.mat * j.mat_bytes + (uint64_t)first * j.row_bytes;
    f.row_bytes = j.row_bytes;
    f.last = (int)cu_min(ROWS, j.rows - first) - 1;
    f.x = j.x_f32;
    f.ldx = j.ldx;
    f.k = j.k;
    f.wide = j.wide;
    f.raw = (uint8_t *)(void *)(smem + 2 * (W_TILE + X_TILE));
    CU_UNROLL
    for (int i = 0; i < X_LOADS; i++) {
        const int n = tid / 8 + i * (THREADS / 8);
        f.row[i] = n < task.tokens ? (int)((unsigned)cu_task_row(j, task, n) / j.x_div) : -1;
    }
    /* A warp has 64 rows and 32 tokens; in tasks of at most 32 tokens it has 16 tokens; in tasks of
     * at most 16 tokens it has 32 rows and all tokens. So each warp, and each scheduler, has
     * work. */
    const bool many = task.tokens > 32, some = task.tokens > 16;
    const int w0 = some ? 16 * (warp % 2) : 8 * warp, x0 = some ? (many ? 8 : 4) * (warp / 2) : 0;
    const int wu = w0 + lane / 2 % 8, xu = x0 + lane % 2 + lane / 16 * 2;
    const bool real = 4 * w0 <= f.last, wide = many && task.tokens - 4 * x0 > 16;
    const int n_steps = (j.k + STEP - 1) / STEP;
    float acc[8][8] = {};
    float4 v[X_LOADS];
    fetch_raw<B>(f, 0);
    load_tokens(f, 0, v);
    cu_copy_wait<0>();
    __syncthreads();
    decode<B>(f, 0, j.grid, w);
    store_tokens(v, x);
    __syncthreads();
    for (int i = 0; i < n_steps; i++) {
        const int next = i + 1;
        const bool more = next < n_steps;
        /* All threads have decoded the preceding period. */
        if (more && next % R::PERIOD == 0) fetch_raw<B>(f, next / R::PERIOD);
        if (more) load_tokens(f, next, v);
        const float *wi = w + i % 2 * W_TILE, *xi = x + i % 2 * X_TILE;
        if (real && wide)
            multiply<2, 2>(wi, xi, wu, xu, acc);
        else if (real && some)
            multiply<2, 1>(wi, xi, wu, xu, acc);
        else if (real)
            multiply<1, 1>(wi, xi, wu, xu, acc);
        if (!more) break;
        if (next % R::PERIOD == 0) {
            cu_copy_wait<0>();
            __syncthreads();
        }
        decode<B>(f, next, j.grid, w + next % 2 * W_TILE);
        store_tokens(v, x + next % 2 * X_TILE);
        __syncthreads();
    }
    __syncthreads(); /* operands are no longer read: sums reuse their memory */
    CU_UNROLL
    for (int i = 0; i < 4; i++) {
        if ((i % 2 && !some) || (i / 2 && !wide)) continue;
        float *to = smem + 4 * (i / 2 ? xu ^ 4 : xu) * OUT_LD + 4 * (wu + i % 2 * 8);
        CU_UNROLL
        for (int t = 0; t < 4; t++) {
            const int r = i % 2 * 4, n = i / 2 * 4 + t;
            *(float4 *)(void *)(to + t * OUT_LD) =
                make_float4(acc[r][n], acc[r + 1][n], acc[r + 2][n], acc[r + 3][n]);
        }
    }
    __syncthreads();
    for (int n = warp; n < task.tokens; n += THREADS / 32) {
        const int64_t at = cu_task_row(j, task, n) * j.ldy + first;
        for (int r = lane; r <= f.last; r += 32) {
            const float sum = smem[n * OUT_LD + r];
            j.y[at + r] = j.mul ? cu_gate(sum, j.gelu) * j.mul[at + r] : sum;
        }
    }
}

static const struct cu_gemm_kernel table[] = {
#define ROW(T)                                                                                     \
    {QT_##T,                                                                                       \
     TOKENS,                                                                                       \
     ROWS,                                                                                         \
     THREADS / 32,                                                                                 \
     raw_shape<struct blk_##T>::SMEM,                                                              \
     f32_kernel<struct blk_##T>},
    CU_GROUP_TYPES(ROW) CU_FLOAT_TYPES(ROW)
#undef ROW
};

/* Returns the kernel for a product. Uses fewer tokens per task if multiprocessors would otherwise
 * idle; the bits do not change. */
struct cu_gemm_kernel cu_gemm_f32(const struct cu_stream *s, const struct cu_product *p,
                                  enum qtype type) {
    const int64_t blocks = div_up(p->rows, ROWS);
    struct cu_gemm_kernel k = {};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (table[i].type == type) k = table[i];
    while (k.tokens > CU_LEAST_TASK && cu_gemm_tasks(p, k.tokens) * blocks < s->c->info.n_sm)
        k.tokens /= 2;
    return k;
}
