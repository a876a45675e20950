// SPDX-License-Identifier: MIT
/* kernels/cuda/gemm.cu - products of many rows of activations with packed weights on tensor cores
 * (mma.sync m16n8k16 bf16, sm_80 and later), dense or grouped by expert; uses the kernel of
 * gemm_sm90.cu instead if enabled for the stream (cu_use_wgmma).
 *
 * Activations are converted to bf16 once. With experts, one block sorts the input rows by matrix
 * (counting sort) and lists the tasks: a matrix and up to 64 of its input rows. No result returns
 * to the host; the grid has the maximum number of blocks, and surplus blocks exit. A block owns 16
 * weight rows per warp and up to 64 tokens over the whole K. Weights are the A operand: a lane
 * loads a super (pack.cuh) and converts codes to bf16 in registers, each weight once per 64 tokens.
 * Tokens are the B operand, in shared memory, read by ldmatrix; their 16-byte columns are permuted
 * by token % 8 to avoid bank conflicts. Both arrive by asynchronous copies: token tiles of 64
 * columns four deep, supers two deep. Sums are f32 over the whole K, without rescaling. Tiles of 8
 * tokens beyond the last are skipped, so an expert with 9 tokens costs two.
 *
 * Rounding: weights (the bits of ref) and activations to bf16, nearest even; sums in f32, in
 * hardware order. Registers: docs/notebook/cuda-counts.md. */
#include "kernels/cuda/gemm.cuh"

enum {
    TOKENS = 64,                   /* per block */
    TILE = 64,                     /* columns fetched together */
    DEPTH = 4,                     /* token tiles in the ring */
    TILE_BYTES = 2 * TOKENS * TILE /* bf16 */
};

/* Rounds rows to bf16. The grid is the rows; a thread converts a pair of values. A row of dst
 * has n pairs; those after k / 2 are zero. */
CU_KERNEL to_bf16(const float *x, int64_t ldx, int64_t k, uint32_t *dst, int64_t n) {
    const int64_t row = blockIdx.x;
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
        dst[row * n + i] =
            2 * i < k ? cu_pack_bf16(x[row * ldx + 2 * i], x[row * ldx + 2 * i + 1]) : 0;
}

/* scan_block returns the sum of the values of all preceding threads, and the total. in_warp is
 * shared memory, reusable on return. */
enum { SORT_BLOCK = 1024 };
struct scanned {
    int before, all;
};
CU_DEV struct scanned scan_block(int v, int *in_warp) {
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    int sum = v;
    for (unsigned d = 1; d < 32; d *= 2) {
        const int other = cu_shfl_up(sum, d);
        if (lane >= (int)d) sum += other;
    }
    if (lane == 31) in_warp[warp] = sum;
    __syncthreads();
    struct scanned r = {sum - v, 0};
    for (int i = 0; i < SORT_BLOCK / 32; i++) {
        if (i < warp) r.before += in_warp[i];
        r.all += in_warp[i];
    }
    __syncthreads();
    return r;
}

/* Sorts rows 0..n_in-1 by ids into `list` and builds tasks of at most `tokens` rows of one
 * matrix; one block runs. Shared memory has a counter per matrix. The order within a matrix
 * varies, but no result depends on it. */
CU_KERNEL sort_rows(const int32_t *ids, int n_in, int n_mats, int tokens, int *list,
                    struct cu_task *task, int *n_tasks) {
    CU_SHARED(int, in_warp, [SORT_BLOCK / 32]);
    CU_DYN_SHARED(int, next);
    for (int m = (int)threadIdx.x; m < n_mats; m += (int)blockDim.x) next[m] = 0;
    __syncthreads();
    for (int i = (int)threadIdx.x; i < n_in; i += (int)blockDim.x) cu_atomic_add(&next[ids[i]], 1);
    __syncthreads();
    int first = 0, n = 0; /* rows and tasks of the preceding matrices */
    for (int m0 = 0; m0 < n_mats; m0 += SORT_BLOCK) {
        const int m = m0 + (int)threadIdx.x, count = m < n_mats ? next[m] : 0;
        const int mine = (count + tokens - 1) / tokens;
        struct scanned rows = scan_block(count, in_warp), tasks = scan_block(mine, in_warp);
        for (int t = 0; t < mine; t++) {
            struct cu_task *k = &task[n + tasks.before + t];
            k->mat = m;
            k->first = first + rows.before + t * tokens;
            k->tokens = count - t * tokens < tokens ? count - t * tokens : tokens;
        }
        if (m < n_mats) next[m] = first + rows.before;
        first += rows.all;
        n += tasks.all;
    }
    if (threadIdx.x == 0) *n_tasks = n;
    __syncthreads();
    for (int i = (int)threadIdx.x; i < n_in; i += (int)blockDim.x)
        list[cu_atomic_add(&next[ids[i]], 1)] = i;
}

/* Warps and stages of a block. Types with large supers use fewer warps, so that two stages fit
 * into 99 KiB. */
template <class B> struct gemm_shape {
    static constexpr int WARPS = cu_pack<B>::BYTES > 3500 ? 4 : 8;
    static constexpr int SMEM = DEPTH * TILE_BYTES + 2 * WARPS * cu_pack<B>::BYTES;
};

/* Where a block's operands come from. */
struct source {
    const uint8_t *w;       /* this warp's 16 rows */
    const uint16_t *row[4]; /* tokens whose columns this thread copies; NULL: none */
    uint8_t *tokens, *supers;
    int n_tiles;
};

/* Starts the copies of token tile t and, with every fourth tile, of the warp's next super, as
 * one group. */
template <class B> CU_DEV void fetch(const struct source &f, int t) {
    typedef cu_pack<B> P;
    constexpr int THREADS = 32 * gemm_shape<B>::WARPS;
    if (t < f.n_tiles) {
        uint8_t *dst = f.tokens + t % DEPTH * TILE_BYTES;
        const int chunk = (int)threadIdx.x % 8;
        CU_UNROLL
        for (int i = 0; i < TOKENS * 8 / THREADS; i++) {
            const int n = (int)threadIdx.x / 8 + i * (THREADS / 8);
            if (f.row[i]) cu_copy16(dst + 128 * n + 16 * (chunk ^ n % 8), f.row[i] + TILE * t);
        }
        if (t % 4 == 0) {
            uint8_t *slot = f.supers + t / 4 % 2 * P::BYTES;
            const uint8_t *src = f.w + (int64_t)(t / 4) * P::BYTES;
            for (int i = 16 * ((int)threadIdx.x % 32); i < P::BYTES; i += 512)
                cu_copy16(slot + i, src + i);
        }
    }
    cu_copy_commit();
}

/* Computes products with mma. The grid is (tasks, groups of 16 * WARPS weight rows). */
template <class B>
CU_KERNEL __launch_bounds__(32 * gemm_shape<B>::WARPS) gemm_kernel(struct cu_gemm_job j) {
    CU_DYN_SHARED(uint8_t, smem);
    typedef cu_pack<B> P;
    constexpr int WARPS = gemm_shape<B>::WARPS, THREADS = 32 * WARPS;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int n_super = j.k / 256, n_groups = (j.rows + 15) / 16;
    struct cu_task task;
    if (!cu_task_of(j, &task)) return;
    /* A warp beyond the last row recomputes the last group without storing it. */
    const int group = (int)blockIdx.y * WARPS + warp, real = group < n_groups;
    struct source f;
    f.w = j.w + (uint64_t)task.mat * j.mat_bytes +
          (uint64_t)(real ? group : n_groups - 1) * (uint64_t)n_super * P::BYTES;
    f.tokens = smem;
    f.supers = smem + DEPTH * TILE_BYTES + warp * 2 * P::BYTES;
    f.n_tiles = 4 * n_super;
    CU_UNROLL
    for (int i = 0; i < TOKENS * 8 / THREADS; i++) {
        const int n = (int)threadIdx.x / 8 + i * (THREADS / 8);
        f.row[i] = NULL;
        if (n >= task.tokens) continue;
        const unsigned in = (unsigned)cu_task_row(j, task, n);
        f.row[i] = j.x + (int64_t)(in / j.x_div) * j.k + 8 * (threadIdx.x % 8);
    }
    float acc[TOKENS / 8][4] = {};
    for (int t = 0; t < DEPTH - 1; t++) fetch<B>(f, t);
    for (int super = 0; super < n_super; super++) {
        struct cu_super<B> s;
        CU_UNROLL
        for (int tile = 0; tile < 4; tile++) {
            const int t = 4 * super + tile;
            cu_copy_wait<DEPTH - 2>();
            __syncthreads(); /* tile t has arrived; the slot of tile t - 1 is free */
            fetch<B>(f, t + DEPTH - 1);
            if (tile == 0) cu_load_super(f.supers + super % 2 * P::BYTES, lane, &s);
            const uint8_t *x = f.tokens + t % DEPTH * TILE_BYTES;
            CU_UNROLL
            for (int patch = 0; patch < 4; patch++) {
                uint32_t a[4], b[4];
                cu_operand(s, tile, patch, a);
                CU_UNROLL
                for (int pair = 0; pair < TOKENS / 16; pair++) {
                    if (16 * pair >= task.tokens) continue; /* uniform in the block */
                    const int n = 16 * pair + lane / 16 * 8 + lane % 8;
                    const int chunk = 2 * patch + lane / 8 % 2;
                    cu_ldmatrix4(x + 128 * n + 16 * (chunk ^ n % 8), b);
                    cu_mma_bf16(acc[2 * pair], a, b[0], b[1]);
                    cu_mma_bf16(acc[2 * pair + 1], a, b[2], b[3]);
                }
            }
        }
    }
    if (!real) return;
    CU_UNROLL
    for (int i = 0; i < TOKENS / 2; i++) { /* tile of 8 tokens, element */
        const int n = i / 4 * 8 + 2 * (lane % 4) + i % 2;
        const int r = 16 * group + lane / 4 + i % 4 / 2 * 8;
        if (n >= task.tokens || r >= j.rows) continue;
        const int64_t at = cu_task_row(j, task, n) * j.ldy + r;
        const float v = acc[i / 4][i % 4];
        j.y[at] = j.mul ? cu_gate(v, j.gelu) * j.mul[at] : v;
    }
}

/* Computes y[t] = sum over u, in order, of p[t * n + u] * part[t * n + u]. The grid is 256-value
 * pieces of rows, and t. */
CU_KERNEL add_parts(const float *part, const float *p, int n, int64_t rows, float *y, int64_t ldy) {
    const int64_t r = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, t = blockIdx.y;
    if (r >= rows) return;
    float sum = 0;
    for (int64_t i = t * n; i < (t + 1) * n; i++) sum = fmaf(p[i], part[i * rows + r], sum);
    y[t * ldy + r] = sum;
}

static const struct cu_gemm_kernel table[] = {
#define ROW(T)                                                                                     \
    {QT_##T,                                                                                       \
     TOKENS,                                                                                       \
     16 * gemm_shape<struct blk_##T>::WARPS,                                                       \
     gemm_shape<struct blk_##T>::WARPS,                                                            \
     gemm_shape<struct blk_##T>::SMEM,                                                             \
     gemm_kernel<struct blk_##T>},
    CU_PACK_TYPES(ROW)
#undef ROW
};

/* Offsets of the parts of the scratch: activations, sums to add up, list, tasks and their
 * number. */
struct parts {
    uint64_t part, list, task, n_tasks, end;
};
/* Returns the stride between rows of the converted inputs, in values: k, padded to TILE. */
static int64_t x_ld(const struct cu_product *p) {
    return (int64_t)round_up((uint64_t)p->k, TILE);
}
/* Returns the offsets of the scratch's parts. */
static struct parts parts_of(const struct cu_product *p, int tokens) {
    struct parts s = {};
    if (p->exact && p->n_sum == 1 && p->n_mats == 1 && !p->ids) return s; /* no scratch needed */
    if (!p->exact) s.part = round_up((uint64_t)(p->n_in / p->x_div * x_ld(p)) * 2, 256);
    s.list = s.part + (p->n_sum > 1 ? (uint64_t)(p->n_in * p->rows) * 4 : 0);
    s.task = round_up(s.list + (uint64_t)p->n_in * 4, 256);
    s.n_tasks = s.task + (uint64_t)(p->n_in / tokens + p->n_mats + 1) * sizeof(struct cu_task);
    s.end = s.n_tasks + 256;
    return s;
}
/* Returns how many bytes of scratch the product needs. */
uint64_t cu_gemm_scratch(const struct cu_product *p) {
    return parts_of(p, p->exact ? (int)CU_LEAST_TASK : (int)TOKENS).end;
}

/* Returns whether a gated unit is a single pass of wgmma: its matrices are packed and of one
 * type. */
static bool is_wide(const struct cu_stream *s, const struct cu_product *p) {
    return s->wgmma && p->w.packed && (!p->up.w || cu_same_rows(p));
}
/* Finds the kernel for w. ERR_USAGE: no kernel for this type or size. */
static int find_kernel(const struct cu_stream *s, const struct cu_product *p,
                       const struct cu_rows *w, struct cu_gemm_kernel *k, struct err *e) {
    *k = p->exact        ? cu_gemm_f32(s, p, w->type)
         : is_wide(s, p) ? cu_gemm_sm90(s, p)
                         : cu_gemm_any(s, p, w->type);
    for (size_t i = 0; i < sizeof table / sizeof table[0] && w->packed && !is_wide(s, p); i++)
        if (table[i].type == w->type) *k = table[i];
    if (k->fn && p->n_in <= INT32_MAX && p->n_mats <= CU_GEMM_MATS) return 0;
    return err_set(e, ERR_USAGE, "CUDA: no GEMM for %s, %lld rows, %lld matrices",
                   qtype_name(w->type), (long long)p->n_in, (long long)p->n_mats);
}

/* Launches the kernel over all tasks for one matrix. */
static int launch_kernel(struct cu_stream *s, const struct cu_product *p, const struct cu_rows *w,
                         const struct cu_gemm_kernel *k, struct cu_gemm_job *j, struct err *e) {
    const dim3 grid((unsigned)cu_gemm_tasks(p, j->tokens), (unsigned)div_up(p->rows, k->rows));
    void (*const fn)(struct cu_gemm_job) = k->fn;
    j->w = w->w;
    j->mat_bytes = w->mat_bytes;
    j->row_bytes = w->row_bytes;
    CU_SMEM(e, fn, k->smem);
    CU_LAUNCH(e, fn, grid, 32 * (unsigned)k->warps, (size_t)k->smem, s, *j);
    return 0;
}

/* Computes a product of many rows, gated if p->up is set. */
int cu_gemm(struct cu_stream *s, const struct cu_product *p, struct err *e) {
    struct cu_gemm_kernel k, up = {};
    TRY(find_kernel(s, p, &p->w, &k, e));
    if (p->up.w) TRY(find_kernel(s, p, &p->up, &up, e));
    const int tokens = up.fn && up.tokens < k.tokens ? up.tokens : k.tokens;
    const struct parts at = parts_of(p, tokens);
    const int64_t n_x = p->n_in / p->x_div;
    void *scratch = NULL;
    if (at.end) TRY(cu_scratch(s, at.end, &scratch, e));
    uint8_t *mem = (uint8_t *)scratch;
    struct cu_gemm_job j = {};
    j.k = (int)p->k;
    j.rows = (int)p->rows;
    j.tokens = tokens;
    j.grid = s->c->grid;
    j.x = (const uint16_t *)mem;
    j.x_ld = (int)x_ld(p);
    j.x_f32 = p->x;
    j.ldx = p->ldx;
    j.wide = p->k % 4 == 0 && p->ldx % 4 == 0 && ((uintptr_t)p->x & 15) == 0;
    j.x_div = (unsigned)p->x_div;
    j.n_in = (int)p->n_in;
    j.gelu = p->gelu;
    j.y = p->n_sum > 1 ? (float *)(mem + at.part) : p->y;
    j.ldy = p->n_sum > 1 ? p->rows : p->ldy;
    if (!p->exact)
        CU_LAUNCH(e, to_bf16, (unsigned)n_x, 128, 0, s, p->x, p->ldx, p->k, (uint32_t *)mem,
                  x_ld(p) / 2);
    if (p->ids) {
        struct cu_task *task = (struct cu_task *)(mem + at.task);
        int *list = (int *)(mem + at.list), *n = (int *)(mem + at.n_tasks);
        CU_LAUNCH(e, sort_rows, 1, SORT_BLOCK, (size_t)p->n_mats * 4, s, p->ids, j.n_in,
                  (int)p->n_mats, tokens, list, task, n);
        j.task = task;
        j.n_tasks = n;
        j.list = list;
    }
    if (is_wide(s, p)) {
        j.w_up = p->up.w;
        j.mat_bytes_up = p->up.mat_bytes;
    } else if (p->up.w) { /* up first; then the gate pass multiplies by it */
        TRY(launch_kernel(s, p, &p->up, &up, &j, e));
        j.mul = p->y;
    }
    TRY(launch_kernel(s, p, &p->w, &k, &j, e));
    if (p->n_sum > 1)
        CU_LAUNCH(e, add_parts,
                  dim3((unsigned)div_up(p->rows, 256), (unsigned)(p->n_in / p->n_sum)), 256, 0, s,
                  (const float *)j.y, p->p, (int)p->n_sum, p->rows, p->y, p->ldy);
    return 0;
}
