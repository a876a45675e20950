// SPDX-License-Identifier: MIT
/* kernels/cuda/gemv.cu - products of few rows of activations with packed weights by dp4a, several
 * products per launch. Weights may also be in file order (plain.cuh).
 *
 * Activations are 8 bits per 32 (act.cuh). A team of 1 to 8 warps owns 16 rows; its warps share the
 * supers (tiles of 16 rows x 256 columns) of all matrices that add up to the output: the columns
 * of one matrix, or of the down projections of all selected experts. Each warp copies its next
 * STAGES supers and the matching activations to shared memory in the background, so warps * STAGES
 * * 2.6 KiB (Q4_K) per block are in flight however the compiler orders loads. (Plain loads were
 * tried first; the compiler moved them down to their uses, which left one in flight.) A lane keeps
 * sums of 2 rows, and 4 lanes are added at the end; warps are added in order through shared memory,
 * so results do not depend on timing. A block computes 32 outputs of a gated unit from both its
 * matrices, and can quantize them for the next product.
 *
 * Tokens that use the same weights are processed TOKENS at a time: a super is copied and decoded
 * once for all of them, and each token's result has the same bits as when computed alone. An expert
 * is read once per token that selected it. Registers and instruction counts:
 * docs/notebook/cuda-counts.md. */
#include "kernels/cuda/fast.cuh"
#include "kernels/cuda/pack.cuh"
#include "kernels/cuda/plain.cuh"

enum {
    WARPS = 8,
    BLOCK = 32 * WARPS,
    STAGES = 2,
    /* Enough blocks to keep a device busy; constant, so that sums are the same on all devices. */
    FULL_BLOCKS = 512,
    TOKENS = 4,             /* maximum tokens per pass over the weights */
    X_BYTES = 320,          /* a token's activations per super: 256 codes, 8 pairs of floats */
    PLAIN_ROWS = WARPS * 4, /* maximum per block */
    PLAIN_BYTES = PLAIN_ROWS * 2 * 4
};

/* Rounds rows to 8 bits. The grid is groups of 32 (4 per block, a warp each) and rows. */
CU_KERNEL quantize(const float *x, int64_t ldx, int64_t k, uint8_t *dst) {
    const int64_t g = (int64_t)blockIdx.x * 4 + threadIdx.x / 32, row = blockIdx.y;
    if (g >= k / 32) return; /* whole warps */
    cu_act_store(dst + row * CU_ACT_BYTES(k), k, g, x[row * ldx + 32 * g + threadIdx.x % 32]);
}

/* Rounds rows of k activations to 8 bits for products of few rows. */
int cu_quantize(struct cu_stream *s, const float *x, int64_t ldx, int64_t k, int64_t n_rows,
                void *dst, struct err *e) {
    if (n_rows > 0)
        CU_LAUNCH(e, quantize, dim3((unsigned)div_up(k / 32, 4), (unsigned)n_rows), 128, 0, s, x,
                  ldx, k, (uint8_t *)dst);
    return 0;
}

struct job {
    struct part part[CU_MAX_PARTS];
    int n, ring_bytes; /* ring_bytes: per warp, for any of the types */
    const struct kern_grid *grid;
};

/* Sums of a lane's two rows of a super, for one token. */
struct two_rows {
    float sum[2], low[2];
};

/* Adds a tile. q: codes of the lane's rows, by patch; x: codes of the super's 256 columns, followed
 * by their scales; c: lane % 4. */
template <class B>
CU_DEV void dot_tile(const struct cu_super<B> &s, const int q[4][2], const uint8_t *x, int tile,
                     int c, struct two_rows *o) {
    typedef cu_pack<B> P;
    const uint4 v = *(const uint4 *)(x + 64 * tile + 16 * c);
    const float4 m = *(const float4 *)(x + 256 + 16 * tile); /* d, d * sum of both groups */
    const int xw[4] = {(int)v.x, (int)v.y, (int)v.z, (int)v.w};
    int xs[4]; /* sums of the lane's codes, per patch */
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
                o->sum[b] = fmaf(cu_half(sc, g) * xd, (float)dot, o->sum[b]);
            else
                o->sum[b] = fmaf(xd, (float)dot, o->sum[b]);
        }
        if constexpr (P::SCALES == SC_NIBS) {
            const uint32_t f = sc >> 4 & 0x0f0f0f0fu;
            CU_UNROLL
            for (int g = 0; g < 2; g++) {
                const int one = cu_byte(f, 2 * g) * xs[2 * g];
                const int both = one + cu_byte(f, 2 * g + 1) * xs[2 * g + 1];
                o->low[b] = fmaf(g ? m.z : m.x, (float)both, o->low[b]);
            }
        }
        if constexpr (P::SCALES == SC_MIN) /* one lane of 4 handles the minima of a tile */
            if (tile == c)
                o->low[b] = fmaf((float)cu_byte(sc, 3), m.w, (float)cu_byte(sc, 2) * m.y);
    }
}

/* Adds factor[n] * (rows of the super) . (activations of token n) to each acc[n][b], for the
 * first n_tok tokens. x has X_BYTES per token. */
template <class B, int N>
CU_DEV void dot_super(const struct cu_super<B> &s, const uint8_t *x, int c, int n_tok,
                      const float *factor, float acc[N][2]) {
    typedef cu_pack<B> P;
    struct two_rows o[N] = {};
    CU_UNROLL
    for (int tile = 0; tile < 4; tile++) {
        int q[4][2];
        CU_UNROLL
        for (int patch = 0; patch < 4; patch++) cu_codes2(s, tile, patch, q[patch]);
        CU_UNROLL
        for (int n = 0; n < N; n++)
            if (N == 1 || n < n_tok) dot_tile(s, q, x + n * X_BYTES, tile, c, &o[n]);
    }
    CU_UNROLL
    for (int n = 0; n < N; n++) {
        CU_UNROLL
        for (int b = 0; b < 2; b++) {
            float sum = o[n].sum[b];
            if constexpr (P::MIN)
                sum = cu_half(s.d[b], 0) * sum - cu_half(s.d[b], 1) * o[n].low[b];
            else if constexpr (P::SCALES != SC_HALF)
                sum *= cu_half(s.d[b], 0);
            acc[n][b] = fmaf(factor[n], sum, acc[n][b]);
        }
    }
}

template <int N_BYTES> CU_DEV void fetch(uint8_t *dst, const uint8_t *src, int lane) {
    CU_UNROLL
    for (int i = 0; i < N_BYTES / 512; i++)
        cu_copy16(dst + 512 * i + 16 * lane, src + 512 * i + 16 * lane);
    const int rest = N_BYTES / 512 * 512 + 16 * lane;
    if (rest < N_BYTES) cu_copy16(dst + rest, src + rest);
}

/* The task of a warp, shared with its team: all supers of a group of 16 rows, for outputs out ..
 * out + n_tok - 1. */
struct task {
    const uint8_t *w, *x; /* x: activations of the first output's first matrix */
    uint64_t mat_bytes;
    unsigned group, out, item, n_items;
    int n_tok;
};

/* A warp's position among its task's items: piece `piece` of the columns of the u-th matrix to add
 * up. A step advances by the number of warps in the team; the division is done once for all
 * steps. */
struct walk {
    unsigned u, piece, du, dpiece, n_super, left; /* left: remaining items, including this one */
};
CU_DEV struct walk walk_of(const struct part &p, const struct task &t) {
    struct walk w;
    const unsigned step = (unsigned)p.team;
    w.n_super = (unsigned)p.k / 256;
    w.u = t.item / w.n_super;
    w.piece = t.item % w.n_super;
    w.du = step / w.n_super;
    w.dpiece = step % w.n_super;
    w.left = t.item < t.n_items ? (t.n_items - t.item + step - 1) / step : 0;
    return w;
}
CU_DEV void walk_on(struct walk *w) {
    w->u += w->du;
    w->piece += w->dpiece;
    if (w->piece >= w->n_super) {
        w->piece -= w->n_super;
        w->u++;
    }
    w->left -= w->left > 0;
}

/* Returns the matrix of term u of a task's sum. `first` holds the indices of the first 32 matrices,
 * one per lane. */
CU_DEV unsigned mat_of(const struct part &p, const struct task &t, unsigned u, int first) {
    if (!p.ids) return 0;
    return (unsigned)(u < 32 ? cu_shfl(first, (int)u) : p.ids[t.out * p.n_sum + u]);
}

/* Starts the copy of weights to a slot of the ring; does nothing after the last item. */
template <class B>
CU_DEV void fetch_weights(const struct task &t, const struct walk &w, unsigned mat, uint8_t *slot,
                          int lane) {
    const uint64_t at = (uint64_t)t.group * w.n_super + w.piece;
    if (w.left)
        fetch<cu_pack<B>::BYTES>(slot, t.w + mat * t.mat_bytes + at * cu_pack<B>::BYTES, lane);
}

/* Starts the copy of the matching activations, to the space after the weights. */
template <class B, int N>
CU_DEV void fetch_x(const struct part &p, const struct task &t, const struct walk &w, uint8_t *slot,
                    int lane) {
    if (!w.left || lane >= X_BYTES / 16) return;
    CU_UNROLL
    for (int n = 0; n < N; n++) {
        if (N > 1 && n >= t.n_tok) continue;
        const uint8_t *x = t.x + (int64_t)((unsigned)n * p.n_sum + w.u) * p.x_row;
        const uint8_t *src =
            lane < 16 ? x + 256 * w.piece + 16 * lane : x + p.k + 64 * w.piece + 16 * (lane - 16);
        cu_copy16(slot + cu_pack<B>::BYTES + n * X_BYTES + 16 * lane, src);
    }
}

/* Adds the lane's share of its two rows to acc, by token. */
template <class B, int N>
CU_DEV void team_sums(const struct part &p, const struct task &t, uint8_t *slots, float acc[N][2]) {
    enum { SLOT = cu_pack<B>::BYTES + N * X_BYTES };
    const int lane = (int)threadIdx.x % 32;
    struct walk at = walk_of(p, t), next = at, x = at;
    if (p.ids) cu_wait_before(); /* otherwise weights are copied while the preceding launch ends */
    const int first =
        p.ids && (unsigned)lane < p.n_sum ? p.ids[t.out * p.n_sum + (unsigned)lane] : 0;
    for (int i = 0; i < STAGES; i++) {
        fetch_weights<B>(t, next, mat_of(p, t, next.u, first), slots + i * SLOT, lane);
        cu_copy_commit();
        walk_on(&next);
    }
    if (!p.ids) cu_wait_before();
    for (int i = 0; i < STAGES; i++) {
        fetch_x<B, N>(p, t, x, slots + i * SLOT, lane);
        cu_copy_commit();
        walk_on(&x);
    }
    for (int turn = 0; at.left; turn++) {
        uint8_t *slot = slots + turn % STAGES * SLOT;
        float factor[N];
        CU_UNROLL
        for (int n = 0; n < N; n++)
            factor[n] =
                p.p && (N == 1 || n < t.n_tok) ? p.p[(t.out + (unsigned)n) * p.n_sum + at.u] : 1.0f;
        cu_copy_wait<STAGES - 1>();
        cu_syncwarp();
        struct cu_super<B> s;
        cu_load_super(slot, lane, &s);
        dot_super<B, N>(s, slot + cu_pack<B>::BYTES, lane % 4, t.n_tok, factor, acc);
        cu_syncwarp(); /* all lanes have read the slot */
        if (next.left) {
            fetch_weights<B>(t, next, mat_of(p, t, next.u, first), slot, lane);
            fetch_x<B, N>(p, t, next, slot, lane);
        }
        cu_copy_commit();
        walk_on(&at);
        walk_on(&next);
    }
}

/* A kernel for each type, and one for launches with several types. */
struct any_type {};
template <class S> struct is_any { static constexpr bool YES = false; };
template <> struct is_any<any_type> { static constexpr bool YES = true; };
template <class S, int N> struct sums {
    CU_DEV void run(const struct part &p, const struct task &t, uint8_t *slots, float acc[N][2]) {
        team_sums<S, N>(p, t, slots, acc);
    }
};
template <int N> struct sums<any_type, N> {
    CU_DEV void run(const struct part &p, const struct task &t, uint8_t *slots, float acc[N][2]) {
#define ONE(T)                                                                                     \
    if (p.w.type == QT_##T) team_sums<struct blk_##T, N>(p, t, slots, acc);
        CU_PACK_TYPES(ONE)
#undef ONE
    }
};

/* Stores output r; in a gated unit v is its gate and u its up. */
CU_DEV void store(const struct part &p, unsigned out, int r, float v, float u) {
    if (p.gated) v = cu_gate(v, p.gelu) * u;
    if (p.y && r < p.rows) p.y[(int64_t)out * p.ldy + r] = v;
    if (p.yq) /* gated only: 32 outputs per block, one warp; rows are a multiple of 32 */
        cu_act_store(p.yq + (int64_t)out * CU_ACT_BYTES(p.rows), p.rows, r / 32, v);
}

/* Computes packed rows for n_tok outputs (at most N), starting at `out`. In a gated unit, half of
 * the teams have the gate rows, the other half the up rows of the same outputs. */
template <class S, int N>
CU_DEV void packed_rows(const struct part &p, unsigned out, int n_tok, unsigned block,
                        uint8_t *ring, int ring_bytes) {
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int width = WARPS / p.team / (p.gated ? 2 : 1); /* groups per block */
    const int team = warp / p.team;
    struct task t;
    t.w = team < width ? p.w.w : p.up.w;
    t.mat_bytes = team < width ? p.w.mat_bytes : p.up.mat_bytes;
    t.group = block * (unsigned)width + (unsigned)(team % width);
    t.out = out;
    t.n_tok = n_tok;
    t.x = p.x + (int64_t)(out * p.n_sum / p.x_div) * p.x_row;
    t.item = (unsigned)(warp % p.team);
    t.n_items = 16 * (int)t.group < p.rows ? p.n_sum * ((unsigned)p.k / 256) : 0;
    float acc[N][2] = {};
    sums<S, N>::run(p, t, ring + warp * ring_bytes, acc);
    /* The warps' sums reuse their slots, because all remaining copies are empty. */
    float *mine = (float *)(void *)(ring + warp * ring_bytes);
    CU_UNROLL
    for (int n = 0; n < N; n++) {
        CU_UNROLL
        for (int b = 0; b < 2; b++) {
            float v = acc[n][b];
            v += cu_shfl_xor(v, 1);
            v += cu_shfl_xor(v, 2);
            if (lane % 4 == 0) mine[16 * n + lane / 4 + 8 * b] = v;
        }
    }
    __syncthreads();
    const int o = (int)threadIdx.x, first = o / 16 * p.team; /* an output, its first warp */
    if (o >= 16 * width) return;
    for (int n = 0; n < n_tok; n++) {
        const uint8_t *at = ring + first * ring_bytes + 64 * n + o % 16 * 4;
        float v = 0, u = 0;
        for (int i = 0; i < p.team; i++) v += *(const float *)(at + i * ring_bytes);
        at += width * p.team * ring_bytes;
        for (int i = 0; i < p.team && p.gated; i++) u += *(const float *)(at + i * ring_bytes);
        store(p, out + (unsigned)n, 16 * width * (int)block + o, v, u);
    }
}

/* Computes rows in file order; a warp has p.team of them. */
template <class S>
CU_DEV void plain_rows(const struct part &p, const struct job &j, unsigned out, unsigned block,
                       uint8_t *ring) {
    const int warp = (int)threadIdx.x / 32, first = (int)block * WARPS * p.team;
    uint8_t *slots = ring + warp * j.ring_bytes;
    float *const all = (float *)(void *)(ring + WARPS * j.ring_bytes), *const up = all + PLAIN_ROWS;
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

/* Computes a launch of cu_products. The grid is the blocks of all parts. Shared memory has a
 * ring per warp, then the sums of plain rows. N is the number of tokens per pass over the
 * weights. */
template <class S, int N>
CU_KERNEL __launch_bounds__(BLOCK, N > 1 ? 2 : 3) gemv_kernel(CU_PARAM(struct job) j) {
    CU_DYN_SHARED(uint8_t, ring);
    int i = 0;
    while (i + 1 < j.n && blockIdx.x >= j.part[i + 1].first) i++;
    const struct part &p = j.part[i];
    const unsigned at = blockIdx.x - p.first;
    if (!p.w.packed) { /* blocks that read the same weights are adjacent */
        const unsigned n_out = p.ids ? 1 : p.n_out;
        plain_rows<S>(p, j, p.ids ? at / p.per_out : at % n_out,
                      p.ids ? at % p.per_out : at / n_out, ring);
    } else if (N == 1 || p.per_pass == 1) {
        packed_rows<S, 1>(p, at / p.per_out, 1, at % p.per_out, ring, j.ring_bytes);
    } else {
        const unsigned out = at / p.per_out * N, left = p.n_out - out;
        packed_rows<S, N>(p, out, left < N ? (int)left : N, at % p.per_out, ring, j.ring_bytes);
    }
}

typedef void (*gemv_fn)(const struct job);
static const struct gemv {
    enum qtype type;
    bool packed;
    int slot_bytes, stages;
    gemv_fn one, several; /* for one and for several tokens per pass over the weights */
} table[] = {
#define ROW(T)                                                                                     \
    {QT_##T,                                                                                       \
     true,                                                                                         \
     cu_pack<struct blk_##T>::BYTES,                                                               \
     STAGES,                                                                                       \
     gemv_kernel<struct blk_##T, 1>,                                                               \
     gemv_kernel<struct blk_##T, TOKENS>},
    CU_PACK_TYPES(ROW)
#undef ROW
#define ROW(T)                                                                                     \
    {QT_##T,                                                                                       \
     false,                                                                                        \
     plain_shape<struct blk_##T>::SLOT,                                                            \
     PLAIN_DEPTH,                                                                                  \
     gemv_kernel<any_type, 1>,                                                                     \
     gemv_kernel<any_type, TOKENS>},
        CU_PLAIN_TYPES(ROW) /* includes all types, also the last */
#undef ROW
};
enum { N_TABLE = sizeof table / sizeof table[0] };
/* Returns the kernel for a type; NULL: not supported. */
static const struct gemv *find_kernel(enum qtype t, bool packed) {
    for (int i = 0; i < N_TABLE; i++)
        if (table[i].type == t && table[i].packed == packed) return &table[i];
    return NULL;
}

/* Returns the number of rows per warp: the number that it processes at once, or 4 if that keeps
 * each output's units of 32 in one block or there are enough rows to keep the device busy. */
static int plain_team(const struct part *p) {
    if (p->gated || (int64_t)p->rows * p->n_out >= 16384) return 4;
    return p->exact || p->k > 512 ? 1 : p->k > 256 ? 2 : 4;
}

/* Returns whether outputs may share a pass over the weights. */
static bool may_share(const struct part *p) {
    return p->w.packed && !p->ids && p->x_div == 1 && p->n_out > 1;
}

/* Decides how warps share a part, and adds its blocks to *n_blocks. n_tok: outputs per pass over
 * the weights. */
static void divide(struct part *p, int n_tok, unsigned *n_blocks) {
    const int64_t items = (int64_t)p->n_sum * (p->k / 256);
    int64_t rows; /* per block */
    p->per_pass = may_share(p) ? (unsigned)n_tok : 1;
    if (p->w.packed) {
        p->team = p->gated ? 2 : items > 4 ? 8 : items > 2 ? 4 : (int)items;
        /* Many rows: use fewer blocks, whose warps have more than one super each. Counts the blocks
         * of one token, which has x_div outputs, because a team adds in an order of its own. */
        while (!p->gated && p->team > 1 &&
               div_up(p->rows, 16) * p->x_div * p->team / WARPS > FULL_BLOCKS)
            p->team /= 2;
        rows = 16 * (WARPS / p->team) / (p->gated ? 2 : 1);
    } else {
        p->team = plain_team(p);
        rows = WARPS * p->team;
    }
    p->per_out = (unsigned)div_up(p->rows, rows);
    p->first = *n_blocks;
    *n_blocks += p->per_out * (unsigned)div_up(p->n_out, p->per_pass);
}

/* Launches all parts of a job as one kernel. */
static int launch_job(struct cu_stream *s, struct job *j, struct err *e) {
    unsigned n_blocks = 0;
    const struct gemv *all = NULL; /* the parts' common kernel, or the one for all types */
    int n_tok = 1, plain_bytes = 0;
    for (int i = 0; i < j->n; i++)
        if (may_share(&j->part[i])) n_tok = TOKENS;
    j->ring_bytes = 0;
    j->grid = s->c->grid;
    for (int i = 0; i < j->n; i++) {
        struct part *p = &j->part[i];
        divide(p, n_tok, &n_blocks);
        if (!p->w.packed) plain_bytes = PLAIN_BYTES;
        if (p->exact) continue;
        const struct gemv *k = find_kernel(p->w.type, p->w.packed);
        if (!k || (p->n_sum > 1 && p->x_div > 1))
            return err_set(e, ERR_USAGE, "CUDA: no GEMV for %s", qtype_name(p->w.type));
        const int bytes = k->stages * (k->slot_bytes + (k->packed ? n_tok * X_BYTES : 0));
        if (bytes > j->ring_bytes) j->ring_bytes = bytes;
        all = all && all->one != k->one ? &table[N_TABLE - 1] : k;
    }
    if (!all) all = &table[0]; /* every kernel includes exact rows */
    const gemv_fn fn = n_tok > 1 ? all->several : all->one;
    const size_t smem = (size_t)(WARPS * j->ring_bytes + plain_bytes);
    if (n_blocks == 0) return 0;
    CU_SMEM(e, fn, smem);
    CU_LAUNCH_EARLY(e, fn, n_blocks, BLOCK, smem, s, *j);
    return 0;
}

/* Returns the kernel arguments of a product. */
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
    o.n_out = (unsigned)(p->n_in / p->n_sum);
    o.p = p->p;
    o.gated = p->up.w != NULL;
    o.gelu = p->gelu;
    o.y = p->y;
    o.ldy = p->ldy;
    return o;
}

/* Rounds the inputs and computes a product of few rows. */
int cu_gemv(struct cu_stream *s, const struct cu_product *p, struct err *e) {
    struct job j = {};
    void *x;
    const int64_t n_x = p->n_in / p->x_div;
    TRY(cu_scratch(s, (uint64_t)(CU_ACT_BYTES(p->k) * n_x), &x, e));
    TRY(cu_quantize(s, p->x, p->ldx, p->k, n_x, x, e));
    j.part[0] = part_of(p);
    j.part[0].x = (const uint8_t *)x;
    j.n = 1;
    return launch_job(s, &j, e);
}

bool cu_part_can(const struct cu_weight *w, bool exact) {
    const bool is_float = w->type == QT_F32 || w->type == QT_F16 || w->type == QT_BF16;
    if (exact) return w->data && is_float;
    return w->packed || (w->data && cu_plain_can(w->type, w->k, true));
}

/* Sets o to the product a. Fails for types that have no kernel of split sums. */
static int take_part(struct part *o, const struct cu_term *a, struct err *e) {
    struct cu_product p;
    cu_fast_of(&p, a->w, a->up, a->gated, false);
    if (!cu_part_can(a->w, a->exact) || (a->gated && !cu_same_rows(&p)))
        return err_set(e, ERR_USAGE, "CUDA: no split sums with weights of type %s",
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

/* Computes up to FUSE_MAX_PRODUCTS products of few rows in one launch. */
int cu_products(struct cu_stream *s, const struct cu_products *a, struct err *e) {
    struct job j = {};
    for (; j.n < a->n; j.n++) TRY(take_part(&j.part[j.n], &a->part[j.n], e));
    return launch_job(s, &j, e);
}
