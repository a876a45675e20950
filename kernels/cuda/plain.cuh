// SPDX-License-Identifier: MIT
/* kernels/cuda/plain.cuh - products of few rows of activations with weights in file order. Types
 * without a packed form (pack.cuh) use dp4a, with activations rounded to 8 bits per 32; float types
 * are exact. These products are part of the launches of gemv.cu.
 *
 * A warp owns a few rows. It takes 1024 weights at a time, a group of 32 per lane: of one row, of
 * two rows of at most 512 columns, or of four rows of at most 256. Blocks have 17 to 66 bytes and
 * begin anywhere, but rows are contiguous: the bytes of 1024 weights are copied in aligned 16-byte
 * chunks to shared memory, four such copies ahead, and decoded there (cu_group). Weights are read
 * up to the next multiple of 16 bytes, each once. */
#ifndef HONE_KERNELS_CUDA_PLAIN_CUH
#define HONE_KERNELS_CUDA_PLAIN_CUH

#include "kernels/cuda/act.cuh"
#include "kernels/cuda/fast.cuh"
#include "kernels/cuda/group.cuh"

enum { PLAIN_DEPTH = 4, PLAIN_STEP = 1024 };

template <class B> struct plain_shape {
    static constexpr int PER = cu_block<B>::elems / 32; /* groups per block */
    static constexpr int STEP = PLAIN_STEP / cu_block<B>::elems * (int)sizeof(B);
    static constexpr int SLOT = (STEP + 15 + 15) / 16 * 16; /* may begin up to 15 bytes earlier */
};

/* One matrix of a launch. Its blocks are numbered from `first`; there are `per_out` for each output
 * row, or for each group of output rows that share a pass over the weights. */
struct part {
    struct cu_rows w, up;
    const int32_t *ids;
    const uint8_t *x; /* quantized, or f32 */
    const float *p;
    float *y;
    uint8_t *yq;
    int64_t ldy;
    int rows, k, x_row;                                     /* x_row: bytes */
    unsigned first, per_out, per_pass, x_div, n_sum, n_out; /* per_pass: outputs */
    int team; /* packed: warps that share the columns of 16 rows; otherwise rows per warp */
    bool exact, gated, gelu;
};
/* Rows row .. row + n - 1 of a part, summed by one warp for the input rows that start at `in`. */
struct plain_task {
    int row, n;
    unsigned in;
    const struct kern_grid *grid;
};
/* Position within the task; `row` is relative to its first row. */
struct plain_at {
    int row, mat, seg;
    unsigned u;
};
CU_DEV void plain_next(struct plain_at *a, const struct part &p, int rows, int n_seg) {
    if (++a->seg < n_seg) return;
    a->seg = 0;
    if (++a->u < p.n_sum) return;
    a->u = 0;
    if (++a->mat <= p.gated) return;
    a->mat = 0;
    a->row += rows;
}
CU_DEV const uint8_t *plain_row(const struct part &p, const struct plain_task &t, int mat,
                                unsigned u, int row) {
    const struct cu_rows &w = mat ? p.up : p.w;
    const uint64_t m = p.ids ? (uint64_t)p.ids[t.in + u] : 0;
    return w.w + m * w.mat_bytes + (uint64_t)(t.row + row) * w.row_bytes;
}

/* Returns codes 32g .. 32g + 31 of a row of activations, in order. */
CU_DEV void plain_act(const uint8_t *x, int g, int *o) {
    const uint8_t *p = x + 64 * (g / 2) + 8 * (g % 2);
    uint2 v[4];
    CU_UNROLL
    for (int c = 0; c < 4; c++) v[c] = *(const uint2 *)(const void *)(p + 16 * c);
    CU_UNROLL
    for (int i = 0; i < 2; i++) { /* bytes 0, 2 and 1, 3: cu_act_pos */
        o[i] = (int)cu_perm(v[2 * i].x, v[2 * i + 1].x, 0x6420u);
        o[2 + i] = (int)cu_perm(v[2 * i].x, v[2 * i + 1].x, 0x7531u);
        o[4 + i] = (int)cu_perm(v[2 * i].y, v[2 * i + 1].y, 0x6420u);
        o[6 + i] = (int)cu_perm(v[2 * i].y, v[2 * i + 1].y, 0x7531u);
    }
}

/* Multiplies group j of a block by group g of the activations. */
template <class B>
CU_DEV float plain_dot(const B *b, int j, const uint8_t *x, int k, int g,
                       const struct kern_grid *grid) {
    struct cu_group o;
    int xw[8], dot[2] = {0, 0}, sum[2] = {0, 0};
    cu_group(b, j, grid, &o);
    plain_act(x, g, xw);
    CU_UNROLL
    for (int i = 0; i < 8; i++) {
        dot[i / 4] = cu_dp4a(o.q[i], xw[i], dot[i / 4]);
        if constexpr (cu_has_min<B>::YES) sum[i / 4] = cu_dp4a(xw[i], 0x01010101, sum[i / 4]);
    }
    float v = o.s[0] * (float)dot[0] + o.s[1] * (float)dot[1];
    if constexpr (cu_has_min<B>::YES) v -= o.m[0] * (float)sum[0] + o.m[1] * (float)sum[1];
    return *((const float *)(const void *)(x + k) + 2 * g) * v;
}

/* Computes sums[mat][row]. The slots in shared memory belong to this warp. */
template <class B>
CU_DEV void plain_sums(const struct part &p, const struct plain_task &t, uint8_t *slots,
                       float *const sums[2]) {
    typedef plain_shape<B> P;
    const int lane = (int)threadIdx.x % 32;
    const int rows = p.k > 512 ? 1 : p.k > 256 ? 2 : 4, per_row = 32 / rows; /* lanes */
    const int n_seg = (p.k + PLAIN_STEP - 1) / PLAIN_STEP;
    const int sub = lane / per_row;
    const uint8_t *x = p.x + (int64_t)(t.in / p.x_div) * p.x_row; /* x_div is 1 with sums */
    struct plain_at f = {}, c = {};
    float acc = 0;
    int done = 0, asked = 0;
    if (p.ids) cu_wait_before(); /* otherwise weights are copied while the preceding launch ends */
    for (;;) {
#pragma unroll 1
        while (asked < done + PLAIN_DEPTH) {
            if (f.row < t.n) {
                const uint8_t *src = plain_row(p, t, f.mat, f.u, f.row) + f.seg * P::STEP;
                const int at = (int)((uintptr_t)src & 15);
                const int of_row = (int)p.w.row_bytes - f.seg * P::STEP;
                const int n = rows == 1 ? (of_row < P::STEP ? of_row : P::STEP)
                                        : (int)cu_min(rows, t.n - f.row) * of_row;
                uint8_t *slot = slots + asked % PLAIN_DEPTH * P::SLOT;
                CU_UNROLL
                for (int i = 0; i < P::SLOT; i += 512)
                    if (i + 16 * lane < at + n)
                        cu_copy16(slot + i + 16 * lane, src - at + i + 16 * lane);
                plain_next(&f, p, rows, n_seg);
            }
            cu_copy_commit();
            asked++;
        }
        if (done == 0 && !p.ids) cu_wait_before();
        if (c.row >= t.n) return;
        cu_copy_wait<PLAIN_DEPTH - 1>();
        cu_syncwarp();
        /* Group within the step, and within the row. */
        const int g = lane % per_row, of_k = 32 * c.seg + g;
        if (of_k < p.k / 32 && c.row + sub < t.n) {
            const uint8_t *first = plain_row(p, t, c.mat, c.u, c.row) + c.seg * P::STEP;
            const uint8_t *b = slots + done % PLAIN_DEPTH * P::SLOT + ((uintptr_t)first & 15) +
                               sub * (int)p.w.row_bytes + g / P::PER * (int)sizeof(B);
            const float v = plain_dot((const B *)(const void *)b, g % P::PER,
                                      x + (int64_t)c.u * p.x_row, p.k, of_k, t.grid);
            acc = fmaf(p.p ? p.p[t.in + c.u] : 1.0f, v, acc);
        }
        const struct plain_at was = c;
        plain_next(&c, p, rows, n_seg);
        done++;
        if (c.mat != was.mat || c.row != was.row) {
            for (int m = per_row / 2; m > 0; m /= 2) acc += cu_shfl_xor(acc, m);
            if (g == 0 && was.row + sub < t.n) sums[was.mat][was.row + sub] = acc;
            acc = 0;
        }
        cu_syncwarp(); /* all lanes have read the slot */
    }
}

/* Computes sums for float weights and f32 activations, exactly, one row at a time. */
template <class B>
CU_DEV void plain_floats(const struct part &p, const struct plain_task &t, float *const sums[2]) {
    for (int i = 0; i < t.n << p.gated; i++) {
        const int row = i >> p.gated, mat = i - (row << p.gated);
        float sum = 0;
        for (unsigned u = 0; u < p.n_sum; u++) {
            const unsigned in = t.in + u;
            const float *x = (const float *)(const void *)(p.x + (int64_t)(in / p.x_div) * p.x_row);
            const float v = cu_warp_sum(cu_dot_float<B>(plain_row(p, t, mat, u, row), x, p.k));
            sum = p.p ? fmaf(p.p[in], v, sum) : v;
        }
        if (threadIdx.x % 32 == 0) sums[mat][row] = sum;
    }
}

#endif
