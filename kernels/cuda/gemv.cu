// SPDX-License-Identifier: MIT
/* kernels/cuda/gemv.cu - few rows of activations with packed weights, by dp4a; several products in
 * one launch, and what the last block of it does for all (last.cuh).
 *
 * Activations are 8 bits per 32 (act.cuh). A team of 1 to 8 warps owns 16 rows; its warps share the
 * pieces of 16 rows x 256 columns (supers) of all matrices that add up to the output: the columns
 * of one matrix, or of the down projections of all selected experts. Each
 * warp copies its next STAGES supers to shared memory in the background, so that warps * STAGES
 * * 2.3 KiB (Q4_K) per block are in flight whatever the compiler does with loads; plain loads were
 * tried first and were moved down to their uses, one in flight at a time. A lane keeps sums of 2
 * rows and 4 lanes add up at the end; warps are added in order through shared memory, so results do
 * not depend on timing. A gated unit has both its matrices in the same block, 32 outputs of it, and
 * can quantize them for the next product. Small float matrices (routers) are computed exactly
 * beside the others, a warp per row. Bytes moved: each weight once. Not run on a GPU yet; registers
 * and instruction counts: docs/design/cuda.md. */
#include "kernels/cuda/fast.cuh"
#include "kernels/cuda/last.cuh"
#include "kernels/cuda/pack.cuh"

enum { WARPS = 8, BLOCK = 32 * WARPS, STAGES = 2 };

/* grid: groups of 32 per 4 warps, rows. */
CU_KERNEL quantize(const float *x, int64_t ldx, int64_t k, uint8_t *dst) {
    const int64_t g = (int64_t)blockIdx.x * 4 + threadIdx.x / 32, row = blockIdx.y;
    if (g >= k / 32) return; /* whole warps */
    cu_act_store(dst + row * CU_ACT_BYTES(k), k, g, x[row * ldx + 32 * g + threadIdx.x % 32]);
}

int cu_quantize(struct cu_stream *s, const float *x, int64_t ldx, int64_t k, int64_t n_rows,
                void *dst, struct err *e) {
    if (n_rows > 0)
        CU_LAUNCH(e, quantize, dim3((unsigned)div_up(k / 32, 4), (unsigned)n_rows), 128, 0, s, x,
                  ldx, k, (uint8_t *)dst);
    return 0;
}

/* What one matrix adds to a launch. Its blocks are numbered from `first`, `per_out` of them for
 * each output row. */
struct part {
    const uint8_t *w, *w_up;
    uint64_t mat_bytes, mat_bytes_up;
    const int32_t *ids;
    const uint8_t *x; /* quantized, or f32 */
    const float *p;
    float *y;
    uint8_t *yq;
    int64_t ldy, row_bytes; /* row_bytes: of exact weights */
    int rows, k, x_row;     /* x_row: bytes */
    unsigned first, per_out, x_div, n_sum;
    enum qtype type;
    int team; /* warps that share the columns of 16 rows */
    bool exact, gated, gelu;
};
struct job {
    struct part part[CU_MAX_PARTS];
    int n, slot_bytes; /* slot_bytes: of the ring, for a super of any of the types */
    bool norms, chooses;
    struct cu_norm norm;
    struct cu_choice choice;
    int32_t *arrived;
};

/* acc[b] += factor * (rows of the super) . x; xq: the codes of its 256 columns, meta their scales.
 */
template <class B>
CU_DEV void dot_super(const struct cu_super<B> &s, const uint8_t *xq, const float *meta, int c,
                      float factor, float *acc) {
    typedef cu_pack<B> P;
    float sum[2] = {0, 0}, low[2] = {0, 0};
    CU_UNROLL
    for (int tile = 0; tile < 4; tile++) {
        const uint4 x = *(const uint4 *)(xq + 64 * tile + 16 * c);
        const float4 m = *(const float4 *)(meta + 4 * tile); /* d, d * sum of both groups */
        const int xw[4] = {(int)x.x, (int)x.y, (int)x.z, (int)x.w};
        int q[4][2];
        CU_UNROLL
        for (int patch = 0; patch < 4; patch++) cu_codes2(s, tile, patch, q[patch]);
        CU_UNROLL
        for (int b = 0; b < 2; b++) {
            const uint32_t sc = s.sc[tile][b];
            CU_UNROLL
            for (int g = 0; g < 2; g++) {
                const float xd = g ? m.z : m.x;
                int dot = cu_dp4a(q[2 * g][b], xw[2 * g], 0);
                if constexpr (P::SCALES == SC_16) {
                    const int other = cu_dp4a(q[2 * g + 1][b], xw[2 * g + 1], 0);
                    dot = cu_sbyte(sc, 2 * g) * dot + cu_sbyte(sc, 2 * g + 1) * other;
                } else {
                    dot = cu_dp4a(q[2 * g + 1][b], xw[2 * g + 1], dot);
                }
                if constexpr (P::SCALES == SC_MIN) dot *= cu_byte(sc, g);
                if constexpr (P::SCALES == SC_32) dot *= cu_sbyte(sc, g);
                if constexpr (P::SCALES == SC_HALF)
                    sum[b] = fmaf(cu_half(sc, g) * xd, (float)dot, sum[b]);
                else
                    sum[b] = fmaf(xd, (float)dot, sum[b]);
            }
            if constexpr (P::SCALES == SC_MIN) /* the minima of a tile belong to one lane of 4 */
                if (tile == c)
                    low[b] = fmaf((float)cu_byte(sc, 3), m.w, (float)cu_byte(sc, 2) * m.y);
        }
    }
    CU_UNROLL
    for (int b = 0; b < 2; b++) {
        if constexpr (P::SCALES == SC_MIN)
            sum[b] = cu_half(s.d[b], 0) * sum[b] - cu_half(s.d[b], 1) * low[b];
        else if constexpr (P::SCALES != SC_HALF)
            sum[b] *= cu_half(s.d[b], 0);
        acc[b] = fmaf(factor, sum[b], acc[b]);
    }
}

template <int N_BYTES> CU_DEV void fetch(uint8_t *dst, const uint8_t *src, int lane) {
    CU_UNROLL
    for (int i = 0; i < N_BYTES / 512; i++)
        cu_copy16(dst + 512 * i + 16 * lane, src + 512 * i + 16 * lane);
    const int rest = N_BYTES / 512 * 512 + 16 * lane;
    if (rest < N_BYTES) cu_copy16(dst + rest, src + rest);
}

/* What a warp works on: with the other warps of its team, all supers of a group of 16 rows. */
struct task {
    const uint8_t *w;
    uint64_t mat_bytes;
    unsigned group, out, item, n_items;
};

/* The next super to a slot of the ring; nothing (an empty group) after the last. */
template <class B>
CU_DEV void fetch_item(const struct part &p, const struct task &t, unsigned item, uint8_t *slot,
                       int lane) {
    const unsigned n_super = (unsigned)p.k / 256;
    if (item < t.n_items) {
        const uint64_t mat = p.ids ? (uint64_t)p.ids[t.out * p.n_sum + item / n_super] : 0;
        const uint64_t at = (uint64_t)t.group * n_super + item % n_super;
        fetch<cu_pack<B>::BYTES>(slot, t.w + mat * t.mat_bytes + at * cu_pack<B>::BYTES, lane);
    }
    cu_copy_commit();
}

/* acc: the lane's share of its two rows. */
template <class B>
CU_DEV void team_sums(const struct part &p, const struct task &t, uint8_t *slots, float acc[2]) {
    const int lane = (int)threadIdx.x % 32;
    const unsigned n_super = (unsigned)p.k / 256, step = (unsigned)p.team;
    unsigned item = t.item;
    if (p.ids) cu_wait_before(); /* else weights come while the launch before ends */
    for (int i = 0; i < STAGES; i++)
        fetch_item<B>(p, t, item + (unsigned)i * step, slots + i * cu_pack<B>::BYTES, lane);
    if (!p.ids) cu_wait_before();
    for (int turn = 0; item < t.n_items; turn++, item += step) {
        const unsigned in = t.out * p.n_sum + item / n_super, piece = item % n_super;
        const uint8_t *x = p.x + (int64_t)(in / p.x_div) * p.x_row;
        const float *meta = (const float *)(const void *)(x + p.k) + 16 * piece;
        const float factor = p.p ? p.p[in] : 1.0f;
        uint8_t *slot = slots + turn % STAGES * cu_pack<B>::BYTES;
        cu_copy_wait<STAGES - 1>();
        cu_syncwarp();
        struct cu_super<B> s;
        cu_load_super(slot, lane, &s);
        dot_super(s, x + 256 * piece, meta, lane % 4, factor, acc);
        cu_syncwarp(); /* all lanes have read the slot */
        fetch_item<B>(p, t, item + STAGES * step, slot, lane);
    }
}

/* A kernel for each type, and one for launches of several. */
struct any_type {};
template <class S> struct sums {
    CU_DEV void run(const struct part &p, const struct task &t, uint8_t *slots, float acc[2]) {
        team_sums<S>(p, t, slots, acc);
    }
};
template <> struct sums<any_type> {
    CU_DEV void run(const struct part &p, const struct task &t, uint8_t *slots, float acc[2]) {
#define ONE(T)                                                                                     \
    if (p.type == QT_##T) team_sums<struct blk_##T>(p, t, slots, acc);
        CU_PACK_TYPES(ONE)
#undef ONE
    }
};

/* Of a gated unit, half of the teams have gate rows, the others the up rows of the same outputs. */
template <class S>
CU_DEV void packed_rows(const struct part &p, unsigned out, unsigned block, uint8_t *ring,
                        int slot_bytes, float (*red)[16]) {
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int width = WARPS / p.team / (p.gated ? 2 : 1); /* groups of the block */
    const int team = warp / p.team;
    struct task t;
    t.w = team < width ? p.w : p.w_up;
    t.mat_bytes = team < width ? p.mat_bytes : p.mat_bytes_up;
    t.group = block * (unsigned)width + (unsigned)(team % width);
    t.out = out;
    t.item = (unsigned)(warp % p.team);
    t.n_items = 16 * (int)t.group < p.rows ? p.n_sum * ((unsigned)p.k / 256) : 0;
    float acc[2] = {0, 0};
    sums<S>::run(p, t, ring + warp * (STAGES * slot_bytes), acc);
    CU_UNROLL
    for (int b = 0; b < 2; b++) {
        float v = acc[b];
        v += cu_shfl_xor(v, 1);
        v += cu_shfl_xor(v, 2);
        if (lane % 4 == 0) red[warp][lane / 4 + 8 * b] = v;
    }
    __syncthreads();
    const int o = (int)threadIdx.x, first = o / 16 * p.team; /* an output, its first warp */
    if (o >= 16 * width) return;
    float v = 0, u = 0;
    for (int i = 0; i < p.team; i++) v += red[first + i][o % 16];
    if (p.gated) {
        for (int i = 0; i < p.team; i++) u += red[width * p.team + first + i][o % 16];
        v = cu_gate(v, p.gelu) * u;
    }
    const int r = 16 * width * (int)block + o;
    if (p.y && r < p.rows) p.y[(int64_t)out * p.ldy + r] = v;
    if (p.yq) /* gated only: 32 outputs a block, a warp, and rows are a multiple of 32 */
        cu_act_store(p.yq + (int64_t)out * CU_ACT_BYTES(p.rows), p.rows, r / 32, v);
}

/* A warp per row. */
CU_DEV void exact_rows(const struct part &p, unsigned out, unsigned block) {
    const int r = (int)(block * WARPS + threadIdx.x / 32);
    cu_wait_before();
    if (r >= p.rows) return;
    const uint8_t *row = p.w + r * p.row_bytes;
    const float *x = (const float *)(const void *)(p.x + (int64_t)(out / p.x_div) * p.x_row);
    float v;
    if (p.type == QT_F32)
        v = cu_dot_float<struct blk_F32>(row, x, p.k);
    else if (p.type == QT_F16)
        v = cu_dot_float<struct blk_F16>(row, x, p.k);
    else
        v = cu_dot_float<struct blk_BF16>(row, x, p.k);
    v = cu_warp_sum(v);
    if (threadIdx.x % 32 == 0) p.y[(int64_t)out * p.ldy + r] = v;
}

/* grid: the blocks of all parts. Shared: per warp STAGES slots of one super. */
template <class S> CU_KERNEL __launch_bounds__(BLOCK, 3) gemv_kernel(CU_PARAM(struct job) j) {
    CU_SHARED(float, red, [WARPS][16]);
    CU_SHARED(int, is_last, [1]);
    CU_DYN_SHARED(uint8_t, ring);
    int i = 0;
    while (i + 1 < j.n && blockIdx.x >= j.part[i + 1].first) i++;
    const struct part &p = j.part[i];
    const unsigned out = (blockIdx.x - p.first) / p.per_out;
    const unsigned block = (blockIdx.x - p.first) % p.per_out;
    if (p.exact)
        exact_rows(p, out, block);
    else
        packed_rows<S>(p, out, block, ring, j.slot_bytes, red);
    if (!j.arrived || !cu_is_last(j.arrived, (int)gridDim.x, is_last)) return;
    if (j.chooses && threadIdx.x < 32) cu_choose<CU_CHOICE_EXPERTS / 32>(j.choice, 0);
    if (j.norms) cu_norm_row(j.norm, 0, red[0]);
}

typedef void (*gemv_fn)(const struct job);
static const struct gemv {
    enum qtype type;
    int super_bytes;
    gemv_fn fn;
} table[] = {
#define ROW(T) {QT_##T, cu_pack<struct blk_##T>::BYTES, gemv_kernel<struct blk_##T>},
    CU_PACK_TYPES(ROW)
#undef ROW
};

/* How warps share a part, and what that makes of the grid. */
static int divide(struct part *p, unsigned n_out, unsigned *n_blocks, int *slot_bytes,
                  struct err *e) {
    const int64_t items = (int64_t)p->n_sum * (p->k / 256);
    const struct gemv *k = NULL;
    p->per_out = (unsigned)div_up(p->rows, WARPS);
    if (!p->exact) {
        for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
            if (table[i].type == p->type) k = &table[i];
        if (!k) return err_set(e, ERR_USAGE, "CUDA: no GEMV of %s", qtype_name(p->type));
        p->team = p->gated ? 2 : items > 4 ? 8 : items > 2 ? 4 : (int)items;
        p->per_out = (unsigned)div_up(p->rows, 16 * (WARPS / p->team) / (p->gated ? 2 : 1));
        if (k->super_bytes > *slot_bytes) *slot_bytes = k->super_bytes;
    }
    p->first = *n_blocks;
    *n_blocks += p->per_out * n_out;
    return 0;
}

static int launch(struct cu_stream *s, struct job *j, const unsigned *n_out, struct err *e) {
    unsigned n_blocks = 0;
    j->slot_bytes = 2; /* 32 bytes a block: none is none at all */
    gemv_fn fn = NULL;
    enum qtype type = QT_F32;
    for (int i = 0; i < j->n; i++) {
        struct part *p = &j->part[i];
        TRY(divide(p, n_out[i], &n_blocks, &j->slot_bytes, e));
        if (p->exact) continue;
        if (fn && p->type != type) fn = gemv_kernel<any_type>;
        for (size_t t = 0; !fn && t < sizeof table / sizeof table[0]; t++)
            if (table[t].type == p->type) fn = table[t].fn;
        type = p->type;
    }
    if (!fn) fn = table[0].fn; /* exact rows are in every kernel */
    const size_t smem = (size_t)(WARPS * STAGES * j->slot_bytes);
    if (n_blocks == 0) return 0;
    if (smem > CU_SMEM_PLAIN) CU_SMEM_OPTIN(e, fn, smem);
    CU_LAUNCH_EARLY(e, fn, n_blocks, BLOCK, smem, s, *j);
    return 0;
}

static struct part part_of(const struct cu_product *p) {
    struct part o = {};
    o.w = p->w.w;
    o.w_up = p->up.w;
    o.mat_bytes = p->w.mat_bytes;
    o.mat_bytes_up = p->up.mat_bytes;
    o.rows = (int)p->rows;
    o.ids = p->ids;
    o.k = (int)p->k;
    o.x_row = (int)CU_ACT_BYTES(p->k);
    o.x_div = (unsigned)p->x_div;
    o.n_sum = (unsigned)p->n_sum;
    o.p = p->p;
    o.type = p->w.type;
    o.gated = p->up.w != NULL;
    o.gelu = p->gelu;
    o.y = p->y;
    o.ldy = p->ldy;
    return o;
}

int cu_gemv(struct cu_stream *s, const struct cu_product *p, struct err *e) {
    struct job j = {};
    void *x;
    const int64_t n_x = p->n_in / p->x_div;
    const unsigned n_out = (unsigned)(p->n_in / p->n_sum);
    TRY(cu_scratch(s, (uint64_t)(CU_ACT_BYTES(p->k) * n_x), &x, e));
    TRY(cu_quantize(s, p->x, p->ldx, p->k, n_x, x, e));
    j.part[0] = part_of(p);
    j.part[0].x = (const uint8_t *)x;
    j.n = 1;
    return launch(s, &j, &n_out, e);
}

bool cu_part_can(const struct cu_weight *w, bool exact) {
    if (!exact) return w->packed != NULL;
    return w->data && w->mats == 1 &&
           (w->type == QT_F32 || w->type == QT_F16 || w->type == QT_BF16);
}

static int take_part(struct part *o, const struct cu_part *a, struct err *e) {
    struct cu_product p;
    if (!cu_part_can(a->w, a->exact) || (a->up && a->up->type != a->w->type))
        return err_set(e, ERR_USAGE, "CUDA: weights of type %s are not packed",
                       qtype_name(a->w->type));
    cu_fast_of(&p, a->w, a->up, a->gated);
    p.ids = a->ids;
    p.x_div = a->x_div;
    p.n_in = a->n_in;
    p.p = a->p;
    p.n_sum = a->n_sum;
    p.gelu = a->gelu;
    p.y = a->y;
    p.ldy = a->ldy;
    *o = part_of(&p);
    o->x = (const uint8_t *)a->x;
    o->yq = (uint8_t *)a->yq;
    o->exact = a->exact;
    if (a->exact) {
        o->w = (const uint8_t *)a->w->data;
        o->row_bytes = (int64_t)a->w->row_bytes;
        o->x_row = (int)(a->w->k * 4);
    }
    return 0;
}

int cu_products(struct cu_stream *s, const struct cu_products *a, struct err *e) {
    struct job j = {};
    unsigned n_out[CU_MAX_PARTS];
    for (; j.n < a->n; j.n++) {
        TRY(take_part(&j.part[j.n], &a->part[j.n], e));
        n_out[j.n] = (unsigned)(a->part[j.n].n_in / a->part[j.n].n_sum);
    }
    if (a->norm) j.norm = *a->norm;
    if (a->choice) j.choice = *a->choice;
    j.norms = a->norm != NULL;
    j.chooses = a->choice != NULL;
    if (j.norms || j.chooses) j.arrived = a->arrived;
    return launch(s, &j, n_out, e);
}
