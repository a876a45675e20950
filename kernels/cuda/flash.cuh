// SPDX-License-Identifier: MIT
/* kernels/cuda/flash.cuh - attention of many tokens on tensor cores, heads of up to 256 values in
 * multiples of 32, any cache type. A block takes 64 (token, query head) rows of a segment and kv
 * head, 16 per warp, and walks the keys it may see 32 at a time with a running maximum. Keys and
 * values become f16 in shared memory once per block; a warp keeps its output in the f32 sums of its
 * mma tiles. The probabilities of a block of keys stay in the registers in which the product with
 * the keys left them, and enter the product with the values from there. Operands of products are
 * f16 (keys of an f16 cache are exact), sums and softmax are f32.
 * */
#ifndef HONE_KERNELS_CUDA_FLASH_CUH
#define HONE_KERNELS_CUDA_FLASH_CUH

#include "kernels/cuda/kv.cuh"

struct many_job {
    struct kv_plane k, v;
    const float *q, *gate;
    float *out;
    const struct cu_seg *seg;
    int64_t window, gate_ld;
    float scale;
    int slot, n_slots, n_heads, group;
};

enum { FL_ROWS = 64, FL_KEYS = 32, FL_BLOCK = 2 * FL_ROWS };

/* Loads a tile of keys or values as f16. Rows beyond n_keys are zeros. */
template <int FORM>
CU_DEV void fl_tile(const struct kv_plane &p, const struct kv_span &s, int head, int n_keys, int ld,
                    uint32_t *to) {
    const int units = p.dim / 8;
    for (int i = (int)threadIdx.x; i < FL_KEYS * units; i += FL_BLOCK) {
        const int key = i / units, u = i % units;
        float v[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        if (key < n_keys) kv_load8<FORM>(p, kv_page_of(s, key), kv_row_of(s, head, key), u, v);
        uint4 w;
        w.x = cu_pack_f16(v[0], v[1]);
        w.y = cu_pack_f16(v[2], v[3]);
        w.z = cu_pack_f16(v[4], v[5]);
        w.w = cu_pack_f16(v[6], v[7]);
        *(uint4 *)(void *)(to + key * ld + 4 * u) = w;
    }
}

/* Returns row r of a segment for one kv head, that is its query head in its token of the pass. */
CU_DEV int64_t fl_row(const struct many_job &j, const struct cu_seg &seg, int head, int r) {
    return ((int64_t)seg.row + r / j.group) * j.n_heads + head * j.group + r % j.group;
}

/* Computes attention of many rows. DIM is at least the head's size. Shared memory has queries,
 * keys and values in f16, in rows padded by 16 bytes. */
template <int FORM, int DIM> CU_KERNEL __launch_bounds__(FL_BLOCK) attend_flash(struct many_job j) {
    enum { NT = DIM / 8, ST = FL_KEYS / 8 };
    CU_DYN_SHARED(uint32_t, mem);
    const int dim = j.k.dim, ld = dim / 2 + 4, head = (int)blockIdx.y;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, c = lane % 4;
    uint32_t *q = mem, *k = q + FL_ROWS * ld, *v = k + FL_KEYS * ld;
    /* Later rows see more keys, so they start first. */
    const int r0 = ((int)gridDim.x - 1 - (int)blockIdx.x) * FL_ROWS;
    const struct cu_seg seg = j.seg[blockIdx.z];
    const struct kv_table table = kv_table_of(seg, j.slot, j.n_slots);
    const int n_rows = (int)cu_min(seg.n * j.group - r0, FL_ROWS);
    const int64_t pos = seg.pos;
    if (n_rows <= 0) return;
    for (int i = (int)threadIdx.x; i < FL_ROWS * (dim / 2); i += FL_BLOCK) {
        const int r = i / (dim / 2), p = i % (dim / 2);
        float2 x = make_float2(0.0f, 0.0f);
        if (r < n_rows)
            x = *(const float2 *)(const void *)(j.q + fl_row(j, seg, head, r0 + r) * dim + 2 * p);
        q[r * ld + p] = cu_pack_f16(j.scale * x.x, j.scale * x.y);
    }
    float o[NT][4] = {}, top[2] = {-INFINITY, -INFINITY}, sum[2] = {0.0f, 0.0f};
    int64_t seen[2]; /* keys before which the lane's two rows stop */
    CU_UNROLL
    for (int b = 0; b < 2; b++) {
        const int r = 16 * warp + lane / 4 + 8 * b;
        seen[b] = r < n_rows ? pos + (r0 + r) / j.group + 1 : 0;
    }
    const int64_t seen0 = pos + r0 / j.group + 1, end = pos + (r0 + n_rows - 1) / j.group + 1;
    const int64_t begin = j.window > 0 && seen0 > j.window ? seen0 - j.window : 0;
    for (int64_t k0 = begin; k0 < end; k0 += FL_KEYS) {
        const int n_keys = end - k0 < FL_KEYS ? (int)(end - k0) : FL_KEYS;
        const struct kv_span span = kv_span_of(table, k0, n_keys);
        __syncthreads(); /* the last tile is done with; queries are there */
        fl_tile<FORM>(j.k, span, head, n_keys, ld, k);
        fl_tile<FORM>(j.v, span, head, n_keys, ld, v);
        __syncthreads();
        float s[ST][4] = {};
        for (int d = 0; d < dim; d += 16) {
            uint32_t a[4], b[4];
            cu_ldmatrix4(cu_tile(q, ld, 16 * warp, d), a);
            CU_UNROLL
            for (int n = 0; n < ST; n += 2) {
                cu_ldmatrix4(cu_tile_b(k, ld, 8 * n, d), b);
                cu_mma_f16(s[n], a, b[0], b[1]);
                cu_mma_f16(s[n + 1], a, b[2], b[3]);
            }
        }
        CU_UNROLL
        for (int b = 0; b < 2; b++) { /* rows lane / 4 and + 8; a row is in 4 lanes */
            float m = top[b], fix, part = 0.0f;
            CU_UNROLL
            for (int n = 0; n < ST; n++) CU_UNROLL
            for (int e = 0; e < 2; e++) {
                const int64_t key = k0 + 8 * n + 2 * c + e;
                const bool in = key < seen[b] && (j.window <= 0 || key >= seen[b] - j.window);
                if (!in) s[n][2 * b + e] = -INFINITY;
                m = fmaxf(m, s[n][2 * b + e]);
            }
            m = fmaxf(m, cu_shfl_xor(m, 1));
            m = fmaxf(m, cu_shfl_xor(m, 2));
            const float base = m == -INFINITY ? 0.0f : m; /* nothing seen yet: all terms are 0 */
            fix = expf(top[b] - base);
            CU_UNROLL
            for (int n = 0; n < ST; n++) CU_UNROLL
            for (int e = 0; e < 2; e++) {
                s[n][2 * b + e] = expf(s[n][2 * b + e] - base);
                part += s[n][2 * b + e];
            }
            sum[b] = sum[b] * fix + part; /* of the lane; lanes add up at the end */
            top[b] = m;
            CU_UNROLL
            for (int n = 0; n < NT; n++) CU_UNROLL
            for (int e = 0; e < 2; e++) o[n][2 * b + e] *= fix;
        }
        CU_UNROLL
        for (int kk = 0; kk < FL_KEYS; kk += 16) {
            const float *lo = s[kk / 8], *hi = s[kk / 8 + 1];
            const uint32_t a[4] = {cu_pack_f16(lo[0], lo[1]), cu_pack_f16(lo[2], lo[3]),
                                   cu_pack_f16(hi[0], hi[1]), cu_pack_f16(hi[2], hi[3])};
            CU_UNROLL
            for (int n = 0; n < NT; n += 2) {
                uint32_t b[4];
                if (8 * n >= dim) continue; /* the same in the whole block */
                cu_ldmatrix4_t(cu_tile(v, ld, kk, 8 * n), b);
                cu_mma_f16(o[n], a, b[0], b[1]);
                cu_mma_f16(o[n + 1], a, b[2], b[3]);
            }
        }
    }
    CU_UNROLL
    for (int b = 0; b < 2; b++) {
        float all = sum[b];
        all += cu_shfl_xor(all, 1);
        all += cu_shfl_xor(all, 2);
        const int r = 16 * warp + lane / 4 + 8 * b;
        if (r >= n_rows) continue; /* no meeting of the warp follows */
        const int64_t h = fl_row(j, seg, head, r0 + r);
        CU_UNROLL
        for (int n = 0; n < NT; n++) CU_UNROLL
        for (int e = 0; e < 2; e++) {
            const int i = 8 * n + 2 * c + e;
            if (i >= dim) continue;
            float x = o[n][2 * b + e] / all;
            if (j.gate) x *= 1.0f / (1.0f + expf(-j.gate[h * j.gate_ld + i]));
            j.out[h * dim + i] = x;
        }
    }
}

#endif
