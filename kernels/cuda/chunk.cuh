// SPDX-License-Identifier: MIT
/* kernels/cuda/chunk.cuh - the delta rule for many tokens, 64 at a time, on tensor cores.
 *
 * With g the sum of the logarithms of the decays since the start of the chunk, and M the state
 * before it:
 *
 *   (1 + L) D = beta (V - e^g K M^T),  L[t][i] = beta[t] e^(g[t] - g[i]) (k[t] k[i]),  i < t
 *   O = e^g Q M^T + A D,               A[t][i] = e^(g[t] - g[i]) (q[t] k[i]),          i <= t
 *   M = e^g[63] M + (e^(g[63] - g) D)^T K
 *
 * A block owns SLICE rows of a value head's state, kept in f32 accumulators of its mma tiles
 * over all chunks; it recomputes the values common to a head's blocks (K K^T, Q K^T, norms).
 * Operands of mma are bf16. L, its system and all decays are f32: the diagonal 16 x 16 blocks
 * are inverted, followed by four steps of forward substitution. Tokens beyond the last have beta
 * 0 and no decay. */
#ifndef HONE_KERNELS_CUDA_CHUNK_CUH
#define HONE_KERNELS_CUDA_CHUNK_CUH

#include "kernels/cuda/last.cuh"

enum {
    CHUNK = CU_CHUNK,
    CH_DIM = 128, /* values per key */
    CH_ROWS = 32, /* state rows per block */
    CH_BLOCK = 256,
    CH_LDK = CH_DIM / 2 + 4, /* in pairs; rows 16 bytes apart modulo 128: no bank conflicts */
    CH_LDA = CHUNK / 2 + 4
};
struct chunk {
    uint32_t k[CHUNK][CH_LDK], q[CHUNK][CH_LDK], m[CH_ROWS][CH_LDK];     /* pairs of bf16 */
    uint32_t a[CHUNK][CH_LDA], dt[CH_ROWS][CH_LDA], et[CH_ROWS][CH_LDA]; /* A, D^T, decayed D^T */
    float l[CHUNK][CHUNK + 1], d[CHUNK][CH_ROWS + 1], inv[4][16][17];
    float log_decay[CHUNK], g[CHUNK], beta[CHUNK];
};

/* Adds X[r..r+15] Y[c..c+8 NT-1]^T over K columns to acc[NT][4]. */
template <int NT, int K>
CU_DEV void ch_product(const uint32_t *x, int ldx, int r, const uint32_t *y, int ldy, int c,
                       float (*acc)[4]) {
    for (int k = 0; k < K; k += 16) {
        uint32_t a[4], b[4];
        cu_ldmatrix4(cu_tile(x, ldx, r, k), a);
        CU_UNROLL
        for (int n = 0; n < NT; n += 2) {
            cu_ldmatrix4(cu_tile_b(y, ldy, c + 8 * n, k), b);
            cu_mma_bf16(acc[n], a, b[0], b[1]);
            cu_mma_bf16(acc[n + 1], a, b[2], b[3]);
        }
    }
}

/* Returns the key head of value head h. ch_beta and ch_alpha return the offsets of the head's
 * logits in a row of the pass. */
CU_DEV int ch_key_head(const struct cu_delta &a, int h) {
    return a.grouped ? h / (int)(a.n_v_heads / a.n_k_heads) : h % (int)a.n_k_heads;
}
CU_DEV const float *ch_beta(const struct cu_delta &a, int64_t row, int h) {
    if (!a.grouped) return a.beta + row * a.n_v_heads + h;
    return a.beta + row * 2 * a.n_v_heads + h + ch_key_head(a, h) * (a.n_v_heads / a.n_k_heads);
}
CU_DEV const float *ch_alpha(const struct cu_delta &a, int64_t row, int h) {
    if (!a.grouped) return a.alpha + row * a.n_v_heads + h;
    return ch_beta(a, row, h) + a.n_v_heads / a.n_k_heads;
}

/* Loads rows t0 .. of the pass, up to `end`: normalised keys and queries, values, gates. A warp
 * handles every eighth token, CH_AHEAD at a time: first all loads, then all sums. */
enum { CH_AHEAD = 4 };
CU_DEV void ch_load(const struct cu_delta &a, struct chunk &x, int64_t t0, int64_t end, int h,
                    int j0) {
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, hk = ch_key_head(a, h);
    const int64_t ld = (2 * a.n_k_heads) * CH_DIM + a.n_v_heads * a.v_dim;
    const int64_t at_v = 2 * a.n_k_heads * CH_DIM + h * a.v_dim + j0 + lane;
    if (threadIdx.x < CHUNK) { /* one thread per token for the gates */
        const int t = (int)threadIdx.x;
        const bool in = t0 + t < end;
        const int64_t row = in ? t0 + t : 0;
        const float s = *ch_alpha(a, row, h) + a.dt[h];
        x.beta[t] = in ? cu_sigmoid(*ch_beta(a, row, h)) : 0.0f;
        x.log_decay[t] = in ? a.a[h] * (s > 20.0f ? s : log1pf(expf(s))) : 0.0f;
    }
    for (int first = 0; first < CHUNK / 8; first += CH_AHEAD) {
        float4 q[CH_AHEAD], k[CH_AHEAD];
        float v[CH_AHEAD], sums[2 * CH_AHEAD];
        CU_UNROLL
        for (int i = 0; i < CH_AHEAD; i++) {
            const int64_t t = t0 + warp + 8 * (first + i);
            const float *u = a.u + t * ld;
            q[i] = k[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            v[i] = 0.0f;
            if (t >= end) continue;
            q[i] = *(const float4 *)(const void *)&u[hk * CH_DIM + 4 * lane];
            k[i] = *(const float4 *)(const void *)&u[(a.n_k_heads + hk) * CH_DIM + 4 * lane];
            v[i] = u[at_v];
        }
        CU_UNROLL
        for (int i = 0; i < CH_AHEAD; i++) {
            const float4 b = q[i], c = k[i];
            sums[i] = fmaf(b.w, b.w, fmaf(b.z, b.z, fmaf(b.y, b.y, fmaf(b.x, b.x, 0.0f))));
            sums[CH_AHEAD + i] =
                fmaf(c.w, c.w, fmaf(c.z, c.z, fmaf(c.y, c.y, fmaf(c.x, c.x, 0.0f))));
        }
        cu_warp_sum_each<float, 2 * CH_AHEAD>(sums);
        CU_UNROLL
        for (int i = 0; i < CH_AHEAD; i++) {
            const int t = warp + 8 * (first + i);
            const float rq = a.scale / sqrtf(sums[i] + a.eps);
            const float rk = 1.0f / sqrtf(sums[CH_AHEAD + i] + a.eps);
            x.q[t][2 * lane] = cu_pack_bf16(q[i].x * rq, q[i].y * rq);
            x.q[t][2 * lane + 1] = cu_pack_bf16(q[i].z * rq, q[i].w * rq);
            x.k[t][2 * lane] = cu_pack_bf16(k[i].x * rk, k[i].y * rk);
            x.k[t][2 * lane + 1] = cu_pack_bf16(k[i].z * rk, k[i].w * rk);
            x.d[t][lane] = v[i];
        }
    }
}

/* Sets L, A and the right-hand side of the system from a warp's tiles: rows starting at r0, columns
 * of K K^T and Q K^T starting at c0, and columns of K M^T starting at j0. */
CU_DEV void ch_system(struct chunk &x, int r0, int c0, int j0, const float (*kk)[4],
                      const float (*qk)[4], const float (*km)[4]) {
    const int lane = (int)threadIdx.x % 32;
    CU_UNROLL
    for (int half = 0; half < 2; half++) {
        const int t = r0 + lane / 4 + 8 * half;
        const float g = x.g[t], beta = x.beta[t];
        CU_UNROLL
        for (int n = 0; n < 4; n++) {
            const int i = c0 + 8 * n + 2 * (lane % 4);
            float av[2];
            CU_UNROLL
            for (int e = 0; e < 2; e++) {
                const float w = i + e <= t ? expf(g - x.g[i + e]) : 0.0f;
                x.l[t][i + e] = i + e < t ? beta * w * kk[n][2 * half + e] : 0.0f;
                av[e] = w * qk[n][2 * half + e];
            }
            x.a[t][i / 2] = cu_pack_bf16(av[0], av[1]);
        }
        const float eg = expf(g);
        CU_UNROLL
        for (int n = 0; n < 2; n++) CU_UNROLL
        for (int e = 0; e < 2; e++) {
            float *d = &x.d[t][j0 + 8 * n + 2 * (lane % 4) + e];
            *d = beta * (*d - eg * km[n][2 * half + e]);
        }
    }
}

/* Replaces d by (1 + l)^-1 d. */
CU_DEV void ch_solve(struct chunk &x) {
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    if (warp < 4 && lane < 16) { /* column `lane` of the inverse of diagonal block `warp` */
        float v[16];
        CU_UNROLL
        for (int r = 0; r < 16; r++) {
            float s = r == lane ? 1.0f : 0.0f;
            CU_UNROLL
            for (int k = 0; k < r; k++) s = fmaf(-x.l[16 * warp + r][16 * warp + k], v[k], s);
            v[r] = s;
            x.inv[warp][r][lane] = s;
        }
    }
    for (int b = 0; b < 4; b++) { /* this thread: rows warp, warp + 8 of block b, column lane */
        float v[2];
        __syncthreads();
        CU_UNROLL
        for (int e = 0; e < 2; e++) {
            const int t = 16 * b + warp + 8 * e;
            float s = x.d[t][lane];
            for (int i = 0; i < 16 * b; i++) s = fmaf(-x.l[t][i], x.d[i][lane], s);
            v[e] = s;
        }
        x.d[16 * b + warp][lane] = v[0];
        x.d[16 * b + warp + 8][lane] = v[1];
        __syncthreads();
        CU_UNROLL
        for (int e = 0; e < 2; e++) {
            float s = 0.0f;
            CU_UNROLL
            for (int k = 0; k < 16; k++)
                s = fmaf(x.inv[b][warp + 8 * e][k], x.d[16 * b + k][lane], s);
            v[e] = s;
        }
        __syncthreads();
        x.d[16 * b + warp][lane] = v[0];
        x.d[16 * b + warp + 8][lane] = v[1];
    }
    __syncthreads();
}

/* Runs the delta rule in chunks. The grid is (slices of the state's rows, value heads,
 * segments). A block's warps form 4 x 2 over tokens and columns, and 2 x 4 over the state. */
CU_KERNEL __launch_bounds__(CH_BLOCK) delta_chunks(struct cu_delta a) {
    CU_DYN_SHARED(struct chunk, mem);
    struct chunk &x = *mem;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int h = (int)blockIdx.y, j0 = (int)blockIdx.x * CH_ROWS, dv = (int)a.v_dim;
    const int tr = 16 * (warp / 2), tc = warp % 2; /* token tiles: row, half of the columns */
    const int sr = 16 * (warp / 4), sc = 32 * (warp % 4); /* state tiles */
    const struct cu_seg seg = a.rows.seg[blockIdx.z];
    float *state = seg.state + a.state_at + ((int64_t)h * dv + j0) * CH_DIM;
    const int64_t rows_end = seg.row + seg.n;
    float m[4][4];
    CU_UNROLL
    for (int n = 0; n < 4; n++) CU_UNROLL
    for (int e = 0; e < 4; e++)
        m[n][e] = state[(sr + lane / 4 + e / 2 * 8) * CH_DIM + sc + 8 * n + 2 * (lane % 4) + e % 2];
    for (int64_t t0 = seg.row; t0 < rows_end; t0 += CHUNK) {
        __syncthreads(); /* the previous chunk is finished */
        ch_load(a, x, t0, rows_end, h, j0);
        CU_UNROLL
        for (int n = 0; n < 4; n++) CU_UNROLL
        for (int e = 0; e < 4; e += 2)
            x.m[sr + lane / 4 + e / 2 * 8][sc / 2 + 4 * n + lane % 4] =
                cu_pack_bf16(m[n][e], m[n][e + 1]);
        __syncthreads();
        if (threadIdx.x < CHUNK) {
            float g = 0.0f;
            for (int i = 0; i <= (int)threadIdx.x; i++) g += x.log_decay[i];
            x.g[threadIdx.x] = g;
        }
        float kk[4][4] = {}, qk[4][4] = {}, km[2][4] = {}, o[2][4] = {};
        ch_product<4, CH_DIM>(x.k[0], CH_LDK, tr, x.k[0], CH_LDK, 32 * tc, kk);
        ch_product<4, CH_DIM>(x.q[0], CH_LDK, tr, x.k[0], CH_LDK, 32 * tc, qk);
        ch_product<2, CH_DIM>(x.k[0], CH_LDK, tr, x.m[0], CH_LDK, 16 * tc, km);
        ch_product<2, CH_DIM>(x.q[0], CH_LDK, tr, x.m[0], CH_LDK, 16 * tc, o);
        __syncthreads();
        ch_system(x, tr, 32 * tc, 16 * tc, kk, qk, km);
        __syncthreads();
        ch_solve(x);
        const float end = x.g[CHUNK - 1];
        for (int i = (int)threadIdx.x; i < CH_ROWS * CHUNK / 2; i += CH_BLOCK) {
            const int j = i % CH_ROWS, t = i / CH_ROWS * 2;
            const float d0 = x.d[t][j], d1 = x.d[t + 1][j];
            x.dt[j][t / 2] = cu_pack_bf16(d0, d1);
            x.et[j][t / 2] = cu_pack_bf16(expf(end - x.g[t]) * d0, expf(end - x.g[t + 1]) * d1);
        }
        __syncthreads();
        CU_UNROLL
        for (int n = 0; n < 2; n++) CU_UNROLL
        for (int e = 0; e < 4; e++) o[n][e] *= expf(x.g[tr + lane / 4 + e / 2 * 8]);
        ch_product<2, CHUNK>(x.a[0], CH_LDA, tr, x.dt[0], CH_LDA, 16 * tc, o);
        CU_UNROLL
        for (int n = 0; n < 2; n++) CU_UNROLL
        for (int e = 0; e < 4; e++) {
            const int64_t t = t0 + tr + lane / 4 + e / 2 * 8;
            const int j = j0 + 16 * tc + 8 * n + 2 * (lane % 4) + e % 2;
            if (t < rows_end) a.out[(t * a.n_v_heads + h) * dv + j] = o[n][e];
        }
        const float all = expf(end);
        CU_UNROLL
        for (int n = 0; n < 4; n++) CU_UNROLL
        for (int e = 0; e < 4; e++) m[n][e] *= all;
        for (int t = 0; t < CHUNK; t += 16) {
            uint32_t d[4], b[4];
            cu_ldmatrix4(cu_tile(x.et[0], CH_LDA, sr, t), d);
            CU_UNROLL
            for (int n = 0; n < 4; n += 2) {
                cu_ldmatrix4_t(cu_tile(x.k[0], CH_LDK, t, sc + 8 * n), b);
                cu_mma_bf16(m[n], d, b[0], b[1]);
                cu_mma_bf16(m[n + 1], d, b[2], b[3]);
            }
        }
    }
    CU_UNROLL
    for (int n = 0; n < 4; n++) CU_UNROLL
    for (int e = 0; e < 4; e++)
        state[(sr + lane / 4 + e / 2 * 8) * CH_DIM + sc + 8 * n + 2 * (lane % 4) + e % 2] = m[n][e];
}

#endif
