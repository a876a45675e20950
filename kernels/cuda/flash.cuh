// SPDX-License-Identifier: MIT
/* kernels/cuda/flash.cuh - attention for many tokens on tensor cores, for heads of up to 256 values
 * (a multiple of 16) and any cache type.
 *
 * A block takes 64 (token, query head) rows of a segment and kv head, 16 per warp, and walks the
 * visible keys 32 at a time with a running maximum. Keys and values are f16 in shared memory, once
 * per block; a warp keeps its output in the f32 accumulators of its mma tiles. Probabilities stay
 * in the registers in which the product with the keys left them, which are operands of the product
 * with the values. Operands of products are f16 (exact for keys of an f16 cache); sums and softmax
 * are f32.
 *
 * Tiles begin at multiples of 32 keys, so each is in one page, and its codes and scales are
 * contiguous. The next tile is copied (cp.async) while one is computed: f16 directly to where
 * products read it; q8_0 and q4_0 as codes, which are converted to f16 between two barriers. Other
 * cache types, and head sizes other than 64, 128 and 256, are read and converted between tiles,
 * which takes several times as long. */
#ifndef HONE_KERNELS_CUDA_FLASH_CUH
#define HONE_KERNELS_CUDA_FLASH_CUH

#include "kernels/cuda/attn.cuh"

enum { FL_ROWS = 64, FL_KEYS = 32, FL_BLOCK = 2 * FL_ROWS };

/* Shared memory for tiles of a cache type: the number of f16 tiles, which products read, and
 * additional bytes for codes. */
template <int FORM, int DIM> struct fl_form {
    enum {
        FETCHED = FORM != KV_ANY,
        CODED = FORM == KV_Q8 || FORM == KV_Q4,
        CODES = FORM == KV_Q8 ? DIM : DIM / 2, /* bytes per key */
        RAW = CODED ? FL_KEYS * (CODES + DIM / 32 * 2) : 0,
        STAGES = FORM == KV_F16 ? 2 : 1 /* f16 tiles */
    };
};

/* Loads a tile of keys or values of any type as f16. Rows beyond n_keys are zero. */
CU_DEV void fl_load(const struct kv_plane &p, const uint8_t *page, int row, int n_keys, int ld,
                    uint32_t *to) {
    const int units = p.dim / 8;
    for (int i = (int)threadIdx.x; i < FL_KEYS * units; i += FL_BLOCK) {
        const int key = i / units, u = i % units;
        float v[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        if (key < n_keys) kv_load8<KV_ANY>(p, page, row + key, u, v);
        uint4 w;
        w.x = cu_pack_f16(v[0], v[1]);
        w.y = cu_pack_f16(v[2], v[3]);
        w.z = cu_pack_f16(v[4], v[5]);
        w.w = cu_pack_f16(v[6], v[7]);
        *(uint4 *)(void *)(to + key * ld + 4 * u) = w;
    }
}

/* Starts the copy of a tile: f16 to the tile itself, codes and their scales to `raw`. Rows beyond
 * n_keys repeat the last key, because they must be finite numbers (they are multiplied by 0). */
template <int FORM, int DIM>
CU_DEV void fl_fetch(const struct kv_plane &p, const uint8_t *page, int row, int n_keys,
                     uint32_t *tile, uint8_t *raw) {
    typedef struct fl_form<FORM, DIM> F;
    enum { UNITS = DIM / 8, LD = DIM / 2 + 4, SCALES = FL_KEYS * DIM / 16 };
    if constexpr (F::CODED) {
        const uint8_t *codes = page + p.codes + row * F::CODES;
        CU_UNROLL
        for (int k = 0; k < FL_KEYS * F::CODES; k += 16 * FL_BLOCK) {
            const int at = k + 16 * (int)threadIdx.x;
            if (at < FL_KEYS * F::CODES) cu_copy16(raw + at, codes + at);
        }
        const int at = 16 * (int)threadIdx.x;
        if (at < SCALES)
            cu_copy16(raw + FL_KEYS * F::CODES + at, page + p.scales + row * (DIM / 16) + at);
    } else {
        const uint8_t *codes = page + p.codes + (size_t)row * 2 * DIM;
        CU_UNROLL
        for (int k = 0; k < FL_KEYS * UNITS; k += FL_BLOCK) {
            const int i = k + (int)threadIdx.x, key = i / UNITS, u = i % UNITS;
            const int from = key < n_keys ? key : n_keys - 1;
            cu_copy16(tile + key * LD + 4 * u, codes + from * (2 * DIM) + 16 * u);
        }
    }
}

/* Starts the copies of the keys and values [k0, end). */
template <int KF, int VF, int DIM>
CU_DEV void fl_ahead(const struct attn_job &j, const struct kv_table &table, int64_t k0,
                     int64_t end, uint32_t *tile, uint8_t *raw) {
    const int n = (int)cu_min(end - k0, FL_KEYS);
    const int row = (int)blockIdx.y * CU_PAGE + (int)(k0 % CU_PAGE);
    const uint8_t *page = kv_page(table, k0);
    fl_fetch<KF, DIM>(j.k, page, row, n, tile, raw);
    fl_fetch<VF, DIM>(j.v, page, row, n, tile + FL_KEYS * (DIM / 2 + 4),
                      raw + fl_form<KF, DIM>::RAW);
    cu_copy_commit();
}

/* Returns codes 2i and 2i + 1 of a word as f16, exactly: inserts them as the mantissa of 1024
 * and subtracts the bias. */
template <int FORM> CU_DEV uint32_t fl_pair(uint32_t w, int i) {
    if (FORM == KV_Q8)
        return cu_add_f16x2(cu_perm(w ^ 0x80808080u, 0x64646464u, i ? 0x4342 : 0x4140),
                            0xe480e480u /* -1152 */);
    const uint32_t two = w >> (8 * i);
    return cu_add_f16x2((two & 15u) | (two << 12 & 0xf0000u) | 0x64006400u,
                        0xe408e408u /* -1032 */);
}
/* Converts a tile of copied codes to f16: code * scale, rounded once. */
template <int FORM, int DIM> CU_DEV void fl_convert(const uint8_t *raw, int n_keys, uint32_t *to) {
    typedef struct fl_form<FORM, DIM> F;
    enum { UNITS = DIM / 8, LD = DIM / 2 + 4 };
    const uint16_t *scales = (const uint16_t *)(const void *)(raw + FL_KEYS * F::CODES);
    CU_UNROLL
    for (int k = 0; k < FL_KEYS * UNITS; k += FL_BLOCK) {
        const int i = k + (int)threadIdx.x, key = i / UNITS, u = i % UNITS;
        uint32_t x[2], v[4] = {0, 0, 0, 0};
        if (FORM == KV_Q8) {
            const uint2 c = ((const uint2 *)(const void *)raw)[i];
            x[0] = c.x, x[1] = c.y;
        } else {
            x[0] = ((const uint32_t *)(const void *)raw)[i];
            x[1] = x[0] >> 16;
        }
        const uint32_t d = scales[key * (DIM / 32) + u / 4] * 0x10001u;
        if (key < n_keys) CU_UNROLL
        for (int n = 0; n < 4; n++) v[n] = cu_mul_f16x2(fl_pair<FORM>(x[n / 2], n % 2), d);
        *(uint4 *)(void *)(to + key * LD + 4 * u) = make_uint4(v[0], v[1], v[2], v[3]);
    }
}

/* ---- the phases of a tile ----
 *
 * With r = lane / 4 and c = lane % 4, a lane has rows r and r + 8 of its warp's 16 (b = 0, 1)
 * and, of each 8 keys or values, numbers 2c and 2c + 1: x[n][2 * b + e] is 8n + 2c + e. */

enum { FL_ST = FL_KEYS / 8 };

/* Writes the block's queries to shared memory as f16. */
CU_DEV void fl_queries(const struct attn_job &j, const struct attn_rows &rows, int dim, int ld,
                       uint32_t *q) {
    for (int i = (int)threadIdx.x; i < FL_ROWS * (dim / 2); i += FL_BLOCK) {
        const int r = i / (dim / 2), p = i % (dim / 2);
        float2 x = make_float2(0.0f, 0.0f);
        if (r < rows.n)
            x = *(const float2 *)(const void *)(j.q + attn_row(j, rows, r) * dim + 2 * p);
        q[r * ld + p] = cu_pack_f16(j.scale * x.x, j.scale * x.y);
    }
}

/* Adds the products of the warp's 16 queries, starting at row r0, with a tile of keys. */
CU_DEV void fl_scores(const uint32_t *q, const uint32_t *k, int r0, int dim, int ld,
                      float s[FL_ST][4]) {
    for (int d = 0; d < dim; d += 16) {
        uint32_t a[4], b[4];
        cu_ldmatrix4(cu_tile(q, ld, r0, d), a);
        CU_UNROLL
        for (int n = 0; n < FL_ST; n += 2) {
            cu_ldmatrix4(cu_tile_b(k, ld, 8 * n, d), b);
            cu_mma_f16(s[n], a, b[0], b[1]);
            cu_mma_f16(s[n + 1], a, b[2], b[3]);
        }
    }
}

/* Masks the keys of the tile at k0 that the lane's rows do not see; seen[] holds the ends of the
 * rows' visible keys. */
CU_DEV void fl_mask(const struct attn_job &j, const int64_t seen[2], int64_t k0,
                    float s[FL_ST][4]) {
    CU_UNROLL
    for (int b = 0; b < 2; b++) {
        const struct attn_span sees = attn_span_of(j, seen[b], k0);
        CU_UNROLL
        for (int n = 0; n < FL_ST; n++) CU_UNROLL
        for (int e = 0; e < 2; e++) {
            const int key = 8 * n + 2 * ((int)threadIdx.x % 4) + e;
            if (key < sees.from || key >= sees.to) s[n][2 * b + e] = -INFINITY;
        }
    }
}

/* Replaces scores by probabilities and scales down earlier sums when the maximum rises. st: the
 * softmax of the lane's two rows, whose sums cover the lane's keys only. */
template <int NT> CU_DEV void fl_softmax(float s[FL_ST][4], struct softmax st[2], float o[NT][4]) {
    float fix[2];
    CU_UNROLL
    for (int b = 0; b < 2; b++) {
        float m = -INFINITY, part = 0.0f;
        CU_UNROLL
        for (int n = 0; n < FL_ST; n++) CU_UNROLL
        for (int e = 0; e < 2; e++) m = fmaxf(m, s[n][2 * b + e]);
        m = fmaxf(m, cu_shfl_xor(m, 1));
        m = fmaxf(m, cu_shfl_xor(m, 2));
        fix[b] = softmax_raise(&st[b], m);
        const float base = softmax_base(st[b].top);
        CU_UNROLL
        for (int n = 0; n < FL_ST; n++) CU_UNROLL
        for (int e = 0; e < 2; e++) {
            s[n][2 * b + e] = expf(s[n][2 * b + e] - base);
            part += s[n][2 * b + e];
        }
        st[b].sum += part;
    }
    if (cu_any(fix[0] != 1.0f || fix[1] != 1.0f)) CU_UNROLL
    for (int n = 0; n < NT; n++) CU_UNROLL
    for (int i = 0; i < 4; i++) o[n][i] *= fix[i / 2];
}

/* Adds the products of the probabilities and a tile of values. */
template <int NT>
CU_DEV void fl_values(const float s[FL_ST][4], const uint32_t *v, int dim, int ld, float o[NT][4]) {
    CU_UNROLL
    for (int kk = 0; kk < FL_KEYS; kk += 16) {
        const float *lo = s[kk / 8], *hi = s[kk / 8 + 1];
        const uint32_t a[4] = {cu_pack_f16(lo[0], lo[1]), cu_pack_f16(lo[2], lo[3]),
                               cu_pack_f16(hi[0], hi[1]), cu_pack_f16(hi[2], hi[3])};
        CU_UNROLL
        for (int n = 0; n < NT; n += 2) {
            uint32_t b[4];
            if (8 * n >= dim) continue; /* uniform in the block */
            cu_ldmatrix4_t(cu_tile(v, ld, kk, 8 * n), b);
            cu_mma_f16(o[n], a, b[0], b[1]);
            cu_mma_f16(o[n + 1], a, b[2], b[3]);
        }
    }
}

/* Writes the warp's rows of the output, starting at r0. */
template <int NT>
CU_DEV void fl_store(const struct attn_job &j, const struct attn_rows &rows, int r0, int dim,
                     const struct softmax st[2], const float o[NT][4]) {
    const int lane = (int)threadIdx.x % 32;
    CU_UNROLL
    for (int b = 0; b < 2; b++) {
        float all = st[b].sum;
        all += cu_shfl_xor(all, 1);
        all += cu_shfl_xor(all, 2);
        const int r = r0 + lane / 4 + 8 * b;
        if (r >= rows.n) continue; /* no warp-wide operation follows */
        const int64_t row = attn_row(j, rows, r);
        CU_UNROLL
        for (int n = 0; n < NT; n++) CU_UNROLL
        for (int e = 0; e < 2; e++) {
            const int i = 8 * n + 2 * (lane % 4) + e;
            if (i < dim) attn_store(j, row, dim, i, o[n][2 * b + e] / all);
        }
    }
}

/* Computes attention of many rows. DIM is the head size or, with KV_ANY, an upper bound. Shared
 * memory has queries, then f16 tiles of keys and values in rows padded by 16 bytes, then codes. */
template <int KF, int VF, int DIM>
CU_KERNEL __launch_bounds__(FL_BLOCK) attend_flash(struct attn_job j) {
    enum { NT = DIM / 8 };
    typedef struct fl_form<KF, DIM> K;
    typedef struct fl_form<VF, DIM> V;
    CU_DYN_SHARED(uint32_t, mem);
    const int dim = K::FETCHED ? DIM : j.k.dim, ld = dim / 2 + 4;
    const int warp_row = (int)threadIdx.x / 32 * 16, tile = FL_KEYS * ld;
    uint32_t *q = mem, *tiles = q + FL_ROWS * ld;
    uint8_t *k_raw = (uint8_t *)(tiles + (K::STAGES + V::STAGES) * tile), *v_raw = k_raw + K::RAW;
    const struct attn_rows rows = attn_rows_of(j, FL_ROWS);
    if (rows.n <= 0) return;
    int64_t seen[2]; /* per row of the lane: end of the visible keys */
    CU_UNROLL
    for (int b = 0; b < 2; b++) {
        const int r = warp_row + (int)threadIdx.x % 32 / 4 + 8 * b;
        seen[b] = r < rows.n ? attn_seen(j, rows, r) : 0;
    }
    const int64_t end = rows.end, begin = rows.begin / FL_KEYS * FL_KEYS;
    /* All rows see the tiles from `all0` to `all1`. */
    const int64_t all0 = j.window > 0 ? end - j.window : 0, all1 = rows.seen;
    if constexpr (K::FETCHED) fl_ahead<KF, VF, DIM>(j, rows.table, begin, end, tiles, k_raw);
    fl_queries(j, rows, dim, ld, q);
    float o[NT][4] = {};
    struct softmax st[2] = {softmax_empty(), softmax_empty()};
    int turn = 0;
    for (int64_t k0 = begin; k0 < end; k0 += FL_KEYS, turn ^= 1) {
        const int n_keys = (int)cu_min(end - k0, FL_KEYS);
        uint32_t *k = tiles + (K::STAGES == 2 ? turn * 2 * tile : 0), *v = k + tile;
        if constexpr (K::FETCHED) cu_copy_wait<0>();
        __syncthreads(); /* last tile finished; queries and copies have arrived */
        if constexpr (!K::FETCHED) {
            const uint8_t *page = kv_page(rows.table, k0);
            const int row = rows.head * CU_PAGE + (int)(k0 % CU_PAGE);
            fl_load(j.k, page, row, n_keys, ld, k);
            fl_load(j.v, page, row, n_keys, ld, v);
        }
        if constexpr (K::CODED) {
            fl_convert<KF, DIM>(k_raw, n_keys, k);
            fl_convert<VF, DIM>(v_raw, n_keys, v);
        }
        if constexpr (K::CODED || !K::FETCHED) __syncthreads();
        if (K::FETCHED && k0 + FL_KEYS < end)
            fl_ahead<KF, VF, DIM>(j, rows.table, k0 + FL_KEYS, end, tiles + (turn ^ 1) * 2 * tile,
                                  k_raw);
        float s[FL_ST][4] = {};
        fl_scores(q, k, warp_row, dim, ld, s);
        if (k0 < all0 || k0 + FL_KEYS > all1) fl_mask(j, seen, k0, s);
        fl_softmax<NT>(s, st, o);
        fl_values<NT>(s, v, dim, ld, o);
    }
    fl_store<NT>(j, rows, warp_row, dim, st, o);
}

template <int KF, int VF, int DIM>
/* Launches flash attention for these cache types and head size. */
static int launch_flash_of(struct cu_stream *s, const struct attn_job *j, dim3 grid,
                           struct err *e) {
    typedef struct fl_form<KF, DIM> K;
    typedef struct fl_form<VF, DIM> V;
    const size_t row = 2 * (size_t)j->k.dim + 16;
    const size_t smem = (FL_ROWS + (K::STAGES + V::STAGES) * FL_KEYS) * row + K::RAW + V::RAW;
    grid.x = (unsigned)div_up((int)grid.x, FL_ROWS);
    CU_SMEM(e, (attend_flash<KF, VF, DIM>), smem);
    CU_LAUNCH(e, (attend_flash<KF, VF, DIM>), grid, FL_BLOCK, smem, s, *j);
    return 0;
}
/* Launches the kernel for caches whose tiles are copied; heads have 64, 128 or 256 values. */
template <int KF, int VF>
/* Launches flash attention with the kernel for the head size. */
static int launch_flash(struct cu_stream *s, const struct attn_job *j, dim3 grid, struct err *e) {
    if (j->k.dim == 256) return launch_flash_of<KF, VF, 256>(s, j, grid, e);
    if (j->k.dim == 128) return launch_flash_of<KF, VF, 128>(s, j, grid, e);
    return launch_flash_of<KF, VF, 64>(s, j, grid, e);
}
/* Launches the kernel for any cache; heads have at most 256 values, a multiple of 16. */
static int launch_flash_any(struct cu_stream *s, const struct attn_job *j, dim3 grid,
                            struct err *e) {
    if (j->k.dim > 128) return launch_flash_of<KV_ANY, KV_ANY, 256>(s, j, grid, e);
    return launch_flash_of<KV_ANY, KV_ANY, 128>(s, j, grid, e);
}

#endif
