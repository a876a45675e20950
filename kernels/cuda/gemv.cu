// SPDX-License-Identifier: MIT
/* kernels/cuda/gemv.cu - few rows of activations with packed weights, by dp4a; several products in
 * one launch, with weights in the file's order beside them (plain.cuh), and what the last block of
 * it does for all (last.cuh).
 *
 * Activations are 8 bits per 32 (act.cuh). A team of 1 to 8 warps owns 16 rows; its warps share the
 * pieces of 16 rows x 256 columns (supers) of all matrices that add up to the output: the columns
 * of one matrix, or of the down projections of all selected experts. Each
 * warp copies its next STAGES supers to shared memory in the background, so that warps * STAGES
 * * 2.3 KiB (Q4_K) per block are in flight whatever the compiler does with loads; plain loads were
 * tried first and were moved down to their uses, one in flight at a time. A lane keeps sums of 2
 * rows and 4 lanes add up at the end; warps are added in order through shared memory, so results do
 * not depend on timing. A gated unit has both its matrices in the same block, 32 outputs of it, and
 * can quantize them for the next product. Bytes moved: each weight once.
 * Registers and instruction counts: docs/design/cuda.md. */
#include "kernels/cuda/fast.cuh"
#include "kernels/cuda/last.cuh"
#include "kernels/cuda/pack.cuh"
#include "kernels/cuda/plain.cuh"

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

struct job {
    struct part part[CU_MAX_PARTS];
    int n, ring_bytes; /* of a warp, for any of the types */
    const struct kern_grid *grid;
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
        int xs[4]; /* sums of the lane's codes of each patch */
        if constexpr (P::SCALES == SC_NIBS) {
            CU_UNROLL
            for (int patch = 0; patch < 4; patch++) xs[patch] = cu_dp4a(xw[patch], 0x01010101, 0);
        }
        CU_UNROLL
        for (int b = 0; b < 2; b++) {
            const uint32_t sc = s.sc[tile][b];
            CU_UNROLL
            for (int g = 0; g < 2; g++) {
                const float xd = g ? m.z : m.x;
                int dot = cu_dp4a(q[2 * g][b], xw[2 * g], 0);
                if constexpr (P::SCALES == SC_16 || P::SCALES == SC_NIBS) {
                    const int other = cu_dp4a(q[2 * g + 1][b], xw[2 * g + 1], 0);
                    const uint32_t f = P::SCALES == SC_16 ? sc : sc & 0x0f0f0f0fu;
                    dot = cu_sbyte(f, 2 * g) * dot + cu_sbyte(f, 2 * g + 1) * other;
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
            if constexpr (P::SCALES == SC_NIBS) {
                const uint32_t f = sc >> 4 & 0x0f0f0f0fu;
                CU_UNROLL
                for (int g = 0; g < 2; g++) {
                    const int one = cu_byte(f, 2 * g) * xs[2 * g];
                    const int both = one + cu_byte(f, 2 * g + 1) * xs[2 * g + 1];
                    low[b] = fmaf(g ? m.z : m.x, (float)both, low[b]);
                }
            }
            if constexpr (P::SCALES == SC_MIN) /* the minima of a tile belong to one lane of 4 */
                if (tile == c)
                    low[b] = fmaf((float)cu_byte(sc, 3), m.w, (float)cu_byte(sc, 2) * m.y);
        }
    }
    CU_UNROLL
    for (int b = 0; b < 2; b++) {
        if constexpr (P::MIN)
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
template <class S> struct is_any { static constexpr bool YES = false; };
template <> struct is_any<any_type> { static constexpr bool YES = true; };
template <class S> struct sums {
    CU_DEV void run(const struct part &p, const struct task &t, uint8_t *slots, float acc[2]) {
        team_sums<S>(p, t, slots, acc);
    }
};
template <> struct sums<any_type> {
    CU_DEV void run(const struct part &p, const struct task &t, uint8_t *slots, float acc[2]) {
#define ONE(T)                                                                                     \
    if (p.w.type == QT_##T) team_sums<struct blk_##T>(p, t, slots, acc);
        CU_PACK_TYPES(ONE)
#undef ONE
    }
};

/* Output r, of a gated unit from its gate v and u. */
CU_DEV void store(const struct part &p, unsigned out, int r, float v, float u) {
    if (p.gated) v = cu_gate(v, p.gelu) * u;
    if (p.y && r < p.rows) p.y[(int64_t)out * p.ldy + r] = v;
    if (p.yq) /* gated only: 32 outputs a block, a warp, and rows are a multiple of 32 */
        cu_act_store(p.yq + (int64_t)out * CU_ACT_BYTES(p.rows), p.rows, r / 32, v);
}

/* Of a gated unit, half of the teams have gate rows, the others the up rows of the same outputs. */
template <class S>
CU_DEV void packed_rows(const struct part &p, unsigned out, unsigned block, uint8_t *slots,
                        float (*red)[16]) {
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int width = WARPS / p.team / (p.gated ? 2 : 1); /* groups of the block */
    const int team = warp / p.team;
    struct task t;
    t.w = team < width ? p.w.w : p.up.w;
    t.mat_bytes = team < width ? p.w.mat_bytes : p.up.mat_bytes;
    t.group = block * (unsigned)width + (unsigned)(team % width);
    t.out = out;
    t.item = (unsigned)(warp % p.team);
    t.n_items = 16 * (int)t.group < p.rows ? p.n_sum * ((unsigned)p.k / 256) : 0;
    float acc[2] = {0, 0};
    sums<S>::run(p, t, slots, acc);
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
    for (int i = 0; i < p.team && p.gated; i++) u += red[width * p.team + first + i][o % 16];
    store(p, out, 16 * width * (int)block + o, v, u);
}

/* Rows in the file's order: of a warp, p.team of them. */
template <class S>
CU_DEV void plain_rows(const struct part &p, const struct job &j, unsigned out, unsigned block,
                       uint8_t *slots, float (*red)[16]) {
    const int warp = (int)threadIdx.x / 32, first = (int)block * WARPS * p.team;
    float *const all = red[0], *const up = red[WARPS / 2];
    float *const sums[2] = {all + warp * p.team, up + warp * p.team};
    struct plain_task t;
    t.row = first + warp * p.team;
    t.n = p.rows - t.row < p.team ? p.rows - t.row : p.team;
    t.in = out * p.n_sum;
    t.grid = j.grid;
    if (p.exact) cu_wait_before();
#define ONE(T)                                                                                     \
    if (p.w.type == QT_##T) plain_floats<struct blk_##T>(p, t, sums);
    if (p.exact) {
        CU_FLOAT_TYPES(ONE)
    }
#undef ONE
    if constexpr (is_any<S>::YES) {
#define ONE(T)                                                                                     \
    if (p.w.type == QT_##T) plain_sums<struct blk_##T>(p, t, slots, sums);
        if (!p.exact) {
            CU_PLAIN_TYPES(ONE)
        }
#undef ONE
    }
    __syncthreads();
    const int o = (int)threadIdx.x;
    if (o < WARPS * p.team) store(p, out, first + o, all[o], up[o]);
}

/* grid: the blocks of all parts. Shared: a ring per warp. */
template <class S> CU_KERNEL __launch_bounds__(BLOCK, 3) gemv_kernel(CU_PARAM(struct job) j) {
    CU_SHARED(float, red, [WARPS][16]);
    CU_SHARED(int, is_last, [1]);
    CU_DYN_SHARED(uint8_t, ring);
    int i = 0;
    while (i + 1 < j.n && blockIdx.x >= j.part[i + 1].first) i++;
    const struct part &p = j.part[i];
    const unsigned out = (blockIdx.x - p.first) / p.per_out;
    const unsigned block = (blockIdx.x - p.first) % p.per_out;
    uint8_t *slots = ring + (int)threadIdx.x / 32 * j.ring_bytes;
    if (p.w.packed)
        packed_rows<S>(p, out, block, slots, red);
    else
        plain_rows<S>(p, j, out, block, slots, red);
    if (!j.arrived || !cu_is_last(j.arrived, (int)gridDim.x, is_last)) return;
    if (j.chooses && threadIdx.x < 32) cu_choose<CU_CHOICE_EXPERTS / 32>(j.choice, 0);
    if (j.norms) cu_norm_row(j.norm, 0, red[0]);
}

typedef void (*gemv_fn)(const struct job);
static const struct gemv {
    enum qtype type;
    bool packed;
    int ring_bytes;
    gemv_fn fn;
} table[] = {
#define ROW(T) {QT_##T, true, STAGES * cu_pack<struct blk_##T>::BYTES, gemv_kernel<struct blk_##T>},
    CU_PACK_TYPES(ROW)
#undef ROW
#define ROW(T)                                                                                     \
    {QT_##T, false, PLAIN_DEPTH * plain_shape<struct blk_##T>::SLOT, gemv_kernel<any_type>},
        CU_PLAIN_TYPES(ROW)
#undef ROW
};
static const struct gemv *find(enum qtype t, bool packed) {
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (table[i].type == t && table[i].packed == packed) return &table[i];
    return NULL;
}

/* Rows of a warp: as many as it takes at once, 4 where an output's units of 32 stay in a block or
 * there are enough of them to keep the device busy. */
static int plain_team(const struct part *p, unsigned n_out) {
    if (p->gated || (int64_t)p->rows * n_out >= 16384) return 4;
    return p->exact || p->k > 512 ? 1 : p->k > 256 ? 2 : 4;
}

/* How warps share a part, and what that makes of the grid. */
static void divide(struct part *p, unsigned n_out, unsigned *n_blocks) {
    const int64_t items = (int64_t)p->n_sum * (p->k / 256);
    int64_t rows; /* of a block */
    if (p->w.packed) {
        p->team = p->gated ? 2 : items > 4 ? 8 : items > 2 ? 4 : (int)items;
        rows = 16 * (WARPS / p->team) / (p->gated ? 2 : 1);
    } else {
        p->team = plain_team(p, n_out);
        rows = WARPS * p->team;
    }
    p->per_out = (unsigned)div_up(p->rows, rows);
    p->first = *n_blocks;
    *n_blocks += p->per_out * n_out;
}

static int launch(struct cu_stream *s, struct job *j, const unsigned *n_out, struct err *e) {
    unsigned n_blocks = 0;
    gemv_fn fn = NULL;
    j->ring_bytes = 4; /* asking for 0 bytes would leave the kernels no address of dynamic memory */
    j->grid = s->c->grid;
    for (int i = 0; i < j->n; i++) {
        struct part *p = &j->part[i];
        divide(p, n_out[i], &n_blocks);
        if (p->exact) continue;
        const struct gemv *k = find(p->w.type, p->w.packed);
        if (!k) return err_set(e, ERR_USAGE, "CUDA: no GEMV of %s", qtype_name(p->w.type));
        if (k->ring_bytes > j->ring_bytes) j->ring_bytes = k->ring_bytes;
        fn = fn && fn != k->fn ? gemv_kernel<any_type> : k->fn;
    }
    if (!fn) fn = table[0].fn; /* exact rows are in every kernel */
    const size_t smem = (size_t)(WARPS * j->ring_bytes);
    if (n_blocks == 0) return 0;
    CU_SMEM(e, fn, smem);
    CU_LAUNCH_EARLY(e, fn, n_blocks, BLOCK, smem, s, *j);
    return 0;
}

static struct part part_of(const struct cu_product *p) {
    struct part o = {};
    o.w = p->w;
    o.up = p->up;
    o.rows = (int)p->rows;
    o.ids = p->ids;
    o.k = (int)p->k;
    o.x_row = (int)CU_ACT_BYTES(p->k);
    o.x_div = (unsigned)p->x_div;
    o.n_sum = (unsigned)p->n_sum;
    o.p = p->p;
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
    const bool is_float = w->type == QT_F32 || w->type == QT_F16 || w->type == QT_BF16;
    if (exact) return w->data && is_float;
    return w->packed || (w->data && cu_plain_can(w->type, w->k, true));
}

static int take_part(struct part *o, const struct cu_term *a, struct err *e) {
    struct cu_product p;
    cu_fast_of(&p, a->w, a->up, a->gated);
    if (!cu_part_can(a->w, a->exact) || (a->gated && !cu_same_rows(&p)))
        return err_set(e, ERR_USAGE, "CUDA: no part with weights of type %s",
                       qtype_name(a->w->type));
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
    if (a->exact) o->x_row = (int)(a->w->k * 4);
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
