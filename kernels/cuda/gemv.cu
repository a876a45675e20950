// SPDX-License-Identifier: MIT
/* kernels/cuda/gemv.cu - few rows of activations with packed weights, by dp4a.
 *
 * Activations first become 8 bits per 32 (quantize), in the order of pack.cuh. A block owns 16
 * rows; its warps share the pieces of 16 rows x 256 columns (supers) of all matrices that add up to
 * the output: the columns of one matrix, or of the down projections of all selected experts. Each
 * warp copies its next STAGES supers to shared memory in the background, so that warps * STAGES
 * * 2.3 KiB (Q4_K) per block are in flight whatever the compiler does with loads; plain loads were
 * tried first and were moved down to their uses, one in flight at a time. A lane keeps sums of 2
 * rows and 4 lanes add up at the end; warps are added in order through shared memory, so results do
 * not depend on timing. A gated unit reads both its matrices in the same block. Bytes moved: each
 * weight once. Not run on a GPU yet; registers and instruction counts: docs/design/cuda.md. */
#include "kernels/cuda/fast.cuh"
#include "kernels/cuda/pack.cuh"

enum { MAX_WARPS = 8, STAGES = 2 };

/* An activation row: k codes, then {d, d * sum of codes} for each 32. */
static inline uint64_t act_row_bytes(int64_t k) {
    return (uint64_t)(k + k / 4);
}

/* grid: groups of 32 per 4 warps, rows. */
CU_KERNEL quantize(const float *x, int64_t ldx, int64_t k, uint8_t *dst) {
    const int64_t g = (int64_t)blockIdx.x * 4 + threadIdx.x / 32, row = blockIdx.y;
    const int l = (int)threadIdx.x % 32;
    if (g >= k / 32) return;
    const float v = x[row * ldx + 32 * g + l], d = cu_warp_max(fabsf(v)) / 127.0f;
    const float inv = d >= FLT_MIN ? 1.0f / d : 0; /* below the normal floats: codes 0 */
    const int q = (int)rintf(v * inv), sum = cu_warp_sum(q);
    uint8_t *out = dst + row * (k + k / 4);
    out[g / 2 * 64 + cu_act_pos((int)(g % 2) * 32 + l)] = (uint8_t)q;
    if (l == 0) {
        float *meta = (float *)(out + k) + 2 * g;
        meta[0] = d;
        meta[1] = d * (float)sum;
    }
}

struct gemv_job {
    const uint8_t *w, *w_up;
    uint64_t mat_bytes, mat_bytes_up;
    int64_t rows;
    const int32_t *ids;
    const uint8_t *x;
    int k, x_row; /* x_row: bytes */
    unsigned x_div, n_sum;
    const float *p;
    bool gelu;
    float *y;
    int64_t ldy;
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

/* Sums of the 16 rows over lanes and warps: thread r < 16 gets row r. */
CU_DEV float reduce_rows(const float *acc, float (*red)[16]) {
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    CU_UNROLL
    for (int b = 0; b < 2; b++) {
        float v = acc[b];
        v += cu_shfl_xor(v, 1);
        v += cu_shfl_xor(v, 2);
        if (lane % 4 == 0) red[warp][lane / 4 + 8 * b] = v;
    }
    __syncthreads();
    float v = 0;
    if (threadIdx.x < 16)
        for (int i = 0; i < (int)blockDim.x / 32; i++) v += red[i][threadIdx.x];
    __syncthreads();
    return v;
}

template <int N_BYTES> CU_DEV void fetch(uint8_t *dst, const uint8_t *src, int lane) {
    CU_UNROLL
    for (int i = 0; i < N_BYTES / 512; i++)
        cu_copy16(dst + 512 * i + 16 * lane, src + 512 * i + 16 * lane);
    const int rest = N_BYTES / 512 * 512 + 16 * lane;
    if (rest < N_BYTES) cu_copy16(dst + rest, src + rest);
}

/* Item `it` of the block to a slot of the ring; nothing (an empty group) after the last. */
template <class B, bool GLU>
CU_DEV void fetch_item(const struct gemv_job &j, unsigned it, uint8_t *slot, int lane) {
    typedef cu_pack<B> P;
    const unsigned n_super = (unsigned)j.k / 256;
    if (it < j.n_sum * n_super) {
        const uint64_t mat = j.ids ? (uint64_t)j.ids[blockIdx.y * j.n_sum + it / n_super] : 0;
        const uint64_t off = ((uint64_t)blockIdx.x * n_super + it % n_super) * P::BYTES;
        fetch<P::BYTES>(slot, j.w + mat * j.mat_bytes + off, lane);
        if (GLU) fetch<P::BYTES>(slot + P::BYTES, j.w_up + mat * j.mat_bytes_up + off, lane);
    }
    cu_copy_commit();
}

/* grid: groups of 16 rows, output rows. Shared: per warp STAGES slots of one super, or two. */
template <class B, bool GLU>
CU_KERNEL __launch_bounds__(32 * MAX_WARPS) gemv_kernel(struct gemv_job j) {
    CU_SHARED(float, red, [MAX_WARPS][16]);
    CU_DYN_SHARED(uint8_t, ring);
    typedef cu_pack<B> P;
    const int lane = (int)threadIdx.x % 32, c = lane % 4, slot_bytes = (GLU ? 2 : 1) * P::BYTES;
    const unsigned n_super = (unsigned)j.k / 256, n_items = j.n_sum * n_super;
    const unsigned n_warps = blockDim.x / 32;
    uint8_t *slots = ring + (int)(threadIdx.x / 32) * (STAGES * slot_bytes);
    float acc[2] = {0, 0}, acc_up[2] = {0, 0};
    unsigned item = threadIdx.x / 32;
    for (int i = 0; i < STAGES; i++)
        fetch_item<B, GLU>(j, item + (unsigned)i * n_warps, slots + i * slot_bytes, lane);
    for (int turn = 0; item < n_items; turn++, item += n_warps) {
        const unsigned in = blockIdx.y * j.n_sum + item / n_super, piece = item % n_super;
        const uint8_t *x = j.x + (int64_t)(in / j.x_div) * j.x_row;
        const float *meta = (const float *)(x + j.k) + 16 * piece;
        const float factor = j.p ? j.p[in] : 1.0f;
        uint8_t *slot = slots + turn % STAGES * slot_bytes;
        cu_copy_wait<STAGES - 1>();
        cu_syncwarp();
        struct cu_super<B> s;
        cu_load_super(slot, lane, &s);
        dot_super(s, x + 256 * piece, meta, c, factor, acc);
        if constexpr (GLU) {
            cu_load_super(slot + P::BYTES, lane, &s);
            dot_super(s, x + 256 * piece, meta, c, factor, acc_up);
        }
        cu_syncwarp(); /* all lanes have read the slot */
        fetch_item<B, GLU>(j, item + STAGES * n_warps, slot, lane);
    }
    float v = reduce_rows(acc, red);
    if constexpr (GLU) v = cu_gate(v, j.gelu) * reduce_rows(acc_up, red);
    const int64_t r = 16 * (int64_t)blockIdx.x + threadIdx.x;
    if (threadIdx.x < 16 && r < j.rows) j.y[(int64_t)blockIdx.y * j.ldy + r] = v;
}

typedef void (*gemv_fn)(struct gemv_job);
static const struct gemv {
    enum qtype type;
    size_t super_bytes;
    gemv_fn plain, glu;
} table[] = {
#define ROW(T)                                                                                     \
    {QT_##T, cu_pack<struct blk_##T>::BYTES, gemv_kernel<struct blk_##T, false>,                   \
     gemv_kernel<struct blk_##T, true>},
    CU_PACK_TYPES(ROW)
#undef ROW
};

int cu_gemv(struct cu_stream *s, const struct cu_product *p, struct err *e) {
    const struct gemv *k = NULL;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (table[i].type == p->type) k = &table[i];
    if (!k) return err_set(e, ERR_USAGE, "CUDA: no GEMV of %s", qtype_name(p->type));
    const gemv_fn fn = p->w_up ? k->glu : k->plain;
    const int64_t n_x = p->n_in / p->x_div;
    void *x;
    TRY(cu_scratch(s, act_row_bytes(p->k) * (uint64_t)n_x, &x, e));
    CU_LAUNCH(e, quantize, dim3((unsigned)div_up(p->k / 32, 4), (unsigned)n_x), 128, 0, s, p->x,
              p->ldx, p->k, (uint8_t *)x);
    const struct gemv_job j = {p->w,
                               p->w_up,
                               p->mat_bytes,
                               p->mat_bytes_up,
                               p->rows,
                               p->ids,
                               (const uint8_t *)x,
                               (int)p->k,
                               (int)act_row_bytes(p->k),
                               (unsigned)p->x_div,
                               (unsigned)p->n_sum,
                               p->p,
                               p->gelu,
                               p->y,
                               p->ldy};
    const unsigned most = p->w_up ? MAX_WARPS / 2 : MAX_WARPS;
    const unsigned n_warps = (unsigned)min_i64(p->n_sum * (p->k / 256), most);
    const size_t smem = (size_t)n_warps * STAGES * (p->w_up ? 2 : 1) * k->super_bytes;
    if (smem > CU_SMEM_PLAIN) CU_SMEM_OPTIN(e, fn, smem);
    CU_LAUNCH(e, fn, dim3((unsigned)div_up(p->rows, 16), (unsigned)(p->n_in / p->n_sum)),
              32 * n_warps, smem, s, j);
    return 0;
}
