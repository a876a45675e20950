// SPDX-License-Identifier: MIT
/* kernels/cuda/few.cuh - attention of up to CU_FEW tokens on tensor cores, for heads of 64, 128,
 * 256 or 512 values and caches of f16, q8_0 or q4_0.
 *
 * A block takes a part of the keys of one kv head for 8 columns, which are (token, query head)
 * pairs, and reads keys and values once for all of them. Each warp walks its own tiles of 16 keys,
 * without barriers until the part is done; the next tile is copied (cp.async) while one is
 * computed.
 *
 *   scores [16 keys][8 columns] = keys (A operand) x queries (B operand)
 *   sums [dim][8 columns] += values transposed (A) x probabilities (B)
 *
 * Codes are converted to f16 exactly: a byte or nibble is inserted as the mantissa of 1024 (byte
 * permutation, or a mask), and the bias is subtracted. The codes of a block of 32 are multiplied
 * exactly and their f32 sum is scaled, so of the scores' operands only queries are rounded to f16;
 * values are rounded once, as code * scale. Probabilities are f16 too, scaled so that the largest
 * so far is 2^15: those that become zero in f16 are below 2^-39 of the largest. Sums, softmax and
 * outputs are f32.
 *
 * The 16 values can be assigned to columns of A in any order, as long as B agrees, and output
 * values to rows in any order. few_dim and few_out choose orders in which a lane reads its codes as
 * whole words, and in which ldmatrix returns them in the order of the cache.
 *
 * Shared memory: queries [dim / 32][lane] 16 bytes; for each warp two slots for a tile of keys and
 * of values, each with codes [16][bytes of a row] whose 16-byte chunks are permuted (few_at), then
 * scales [16][dim / 32]. At the end a warp's slots hold its sums. */
#ifndef HONE_KERNELS_CUDA_FEW_CUH
#define HONE_KERNELS_CUDA_FEW_CUH

#include "kernels/cuda/split.cuh"

enum { FEW_KEYS = 16, FEW_COLS = 8, FEW_WARPS = 8 };

/* Bytes per row and per tile. */
template <int FORM, int DIM> struct few_rows {
    enum {
        CODES = FORM == KV_F16  ? 2 * DIM
                : FORM == KV_Q8 ? DIM
                                : DIM / 2,
        SCALES = FORM == KV_F16 ? 0 : DIM / 32 * 2,
        TILE = FEW_KEYS * (CODES + SCALES)
    };
};

/* Returns the offset in a tile of byte `at` of a key's codes. The layout avoids bank conflicts: the
 * same chunk of 8 keys is in 8 different banks, and so are the chunks that 8 lanes read from the
 * values of two or four keys. */
template <int CODES> CU_DEV int few_at(int key, int at) {
    enum { PER = CODES >= 128 ? 1 : 128 / CODES, MASK = CODES >= 128 ? 7 : CODES / 16 - 1 };
    return key * CODES + (at ^ (key / PER & MASK) * 16);
}

/* Computes the addresses of byte 32 n + at of a key's codes: from[n % 4] + n / 4 * 128. In this
 * form the compiler keeps only four addresses, instead of one for each n. */
template <int CODES>
CU_DEV void few_loads(const uint8_t *tile, int key, int at, const uint8_t *from[4]) {
    CU_UNROLL
    for (int n = 0; n < 4 && 32 * n < CODES; n++) from[n] = tile + few_at<CODES>(key, 32 * n + at);
}

/* Starts the copy of a tile of 16 keys at position `pos`, the first of them in `page`. If n_keys <
 * 16, repeats the last key's bytes, so that the whole tile holds finite numbers. */
template <int FORM, int DIM>
CU_DEV void few_fetch(const struct kv_plane &p, const struct kv_table &table, const uint8_t *page,
                      int64_t pos, int head, int n_keys, uint8_t *tile) {
    typedef struct few_rows<FORM, DIM> R;
    enum { PIECE = R::SCALES < 16 ? R::SCALES : 16 };
    enum { N = FEW_KEYS * R::CODES / 512, STEP = DIM > 256 ? 8 : N }; /* copies per lane */
    const int lane = (int)threadIdx.x % 32, here = CU_PAGE - (int)(pos % CU_PAGE);
    const int row = head * CU_PAGE + CU_PAGE - here; /* `here` keys are in the page */
    const uint8_t *codes = page + p.codes + row * R::CODES;
    const uint8_t *scales = page + p.scales + row * R::SCALES;
    if (n_keys == FEW_KEYS && here >= FEW_KEYS) {
        CU_ROLLED /* registers are scarce; otherwise a single iteration */
            for (int i = 0; i < N; i += STEP) {
            CU_UNROLL
            for (int k = 0; k < STEP; k++) {
                const int at = 16 * lane + 512 * (i + k);
                cu_copy16(tile + few_at<R::CODES>(at / R::CODES, at % R::CODES), codes + at);
            }
        }
        if constexpr (R::SCALES != 0)
            if (PIECE * lane < FEW_KEYS * R::SCALES) /* half a warp, or all of it */
                cu_copy<PIECE>(tile + FEW_KEYS * R::CODES + PIECE * lane, scales + PIECE * lane);
    } else {
        const uint8_t *next = here < n_keys ? kv_page(table, pos + CU_PAGE) : page;
        const uint8_t *codes2 = next + p.codes + (row - CU_PAGE) * R::CODES;
        const int end = n_keys * R::CODES - 16;
        CU_ROLLED
        for (int at = 16 * lane; at < FEW_KEYS * R::CODES; at += 512) {
            const int from = at < end ? at : end;
            cu_copy16(tile + few_at<R::CODES>(at / R::CODES, at % R::CODES),
                      (from < here * R::CODES ? codes : codes2) + from);
        }
        if constexpr (R::SCALES != 0) {
            const uint8_t *scales2 = next + p.scales + (row - CU_PAGE) * R::SCALES;
            const int at = PIECE * lane, last = n_keys * R::SCALES - PIECE;
            const int from = at < last ? at : last;
            if (at < FEW_KEYS * R::SCALES)
                cu_copy<PIECE>(tile + FEW_KEYS * R::CODES + at,
                               (from < here * R::SCALES ? scales : scales2) + from);
        }
    }
}

/* Reads N words of shared memory; N is a multiple of 4, or 1 or 2. */
template <int N> CU_DEV void few_words(const void *p, uint32_t w[N]) {
    CU_UNROLL
    for (int i = 0; i < N; i += 4)
        if constexpr (N >= 4) {
            const uint4 x = ((const uint4 *)p)[i / 4];
            w[i] = x.x, w[i + 1] = x.y, w[i + 2] = x.z, w[i + 3] = x.w;
        } else if constexpr (N == 2) {
            const uint2 x = *(const uint2 *)p;
            w[0] = x.x, w[1] = x.y;
        } else
            w[0] = *(const uint32_t *)p;
}

/* ---- codes as pairs of f16 ---- */

/* Returns the exponent bits of 1024; for bytes, combined with the change from signed to unsigned.
 * Uses a shuffle because the compiler would otherwise rebuild the constant for each use, at 1.5x
 * the number of instructions. */
template <int FORM> CU_DEV uint32_t few_magic(void) {
    return cu_shfl(FORM == KV_Q8 ? 0x64806480u : 0x64006400u, 0);
}
/* Returns signed bytes i and i + 2 as f16. */
CU_DEV uint32_t few_pair8(uint32_t w, int i, uint32_t magic) {
    return cu_add_f16x2(cu_and_xor(i ? w >> 8 : w, 0x00ff00ffu, magic), 0xe480e480u /* -1152 */);
}
/* Returns nibbles i and i + 4, minus 8, as f16. */
CU_DEV uint32_t few_pair4(uint32_t w, int i, uint32_t magic) {
    const uint32_t v = i / 2 ? w >> 8 : w;
    if (i % 2) /* 1024 + 16 n: / 16 - 72 */
        return cu_fma_f16x2(cu_and_xor(v, 0x00f000f0u, magic), 0x2c002c00u, 0xd480d480u);
    return cu_add_f16x2(cu_and_xor(v, 0x000f000fu, magic), 0xe408e408u /* -1032 */);
}
template <int FORM> CU_DEV uint32_t few_pair(uint32_t w, int i, uint32_t magic) {
    return FORM == KV_Q8 ? few_pair8(w, i, magic) : few_pair4(w, i, magic);
}

/* ---- scores ---- */

/* Returns the position, in a block of 32 values, of value i of lane c. Values i < 4 belong to the
 * first step of 16: b0, then b1. */
template <int FORM> CU_DEV int few_dim(int c, int i) {
    if (FORM == KV_F16) return 16 * (i / 4) + 2 * c + i % 4 / 2 * 8 + i % 2;
    if (FORM == KV_Q8) return 16 * (i / 4) + 4 * c + i % 4 / 2 + i % 2 * 2;
    return 8 * c + i / 2 + i % 2 * 4;
}

/* Multiplies a block's sums of codes by the scales of keys r and r + 8. */
CU_DEV void few_scaled(const float t[4], float d0, float d1, float s[4]) {
    s[0] = fmaf(d0, t[0], s[0]);
    s[1] = fmaf(d0, t[1], s[1]);
    s[2] = fmaf(d1, t[2], s[2]);
    s[3] = fmaf(d1, t[3], s[3]);
}

/* Computes scores. s is mma's d: keys r and r + 8, columns 2c and 2c + 1. */
template <int FORM, int DIM>
CU_DEV void few_scores(const uint8_t *k, const uint4 *q, uint32_t magic, float s[4]) {
    typedef struct few_rows<FORM, DIM> R;
    enum { NB = DIM / 32, ND = NB < 8 ? NB / 2 : 4 }; /* blocks; words of scales loaded at a time */
    const int lane = (int)threadIdx.x % 32, r = lane / 4;
    CU_UNROLL
    for (int i = 0; i < 4; i++) s[i] = 0.0f;
    uint32_t w[4], d[2][ND];
    const uint8_t *from[4];
    few_loads<R::CODES>(k, lane % 16, lane / 16 * 16, from);
    CU_UNROLL
    for (int b = 0; b < NB; b++) {
        if constexpr (FORM != KV_F16) CU_UNROLL
        for (int i = 0; i < 2 && b % (2 * ND) == 0; i++)
            few_words<ND>(k + FEW_KEYS * R::CODES + (r + 8 * i) * R::SCALES + 2 * b, d[i]);
        const uint4 x = q[32 * b + lane];
        float t[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        CU_UNROLL
        for (int step = 0; step < 2; step++) {
            uint32_t a[4];
            /* A load of two chunks is one step of f16, one block of q8_0, or two blocks of q4_0. */
            const int load = FORM == KV_F16 ? 2 * b + step : FORM == KV_Q8 ? b : b / 2;
            if (FORM == KV_F16 || (step == 0 && (FORM == KV_Q8 || b % 2 == 0)))
                cu_ldmatrix4(from[load % 4] + load / 4 * 128, w);
            CU_UNROLL
            for (int i = 0; i < 4; i++) /* keys r, r + 8; the second half of the step */
                a[i] = FORM == KV_F16 ? w[i]
                       : FORM == KV_Q8
                           ? few_pair<FORM>(w[2 * step + i % 2], i / 2, magic)
                           : few_pair<FORM>(w[b % 2 * 2 + i % 2], 2 * step + i / 2, magic);
            cu_mma_f16(FORM == KV_F16 ? s : t, a, step ? x.z : x.x, step ? x.w : x.y);
        }
        if constexpr (FORM != KV_F16)
            few_scaled(t, cu_f16_to_f32((uint16_t)(d[0][b / 2 % ND] >> b % 2 * 16)),
                       cu_f16_to_f32((uint16_t)(d[1][b / 2 % ND] >> b % 2 * 16)), s);
    }
}

/* ---- sums ---- */

/* A lane reads a key's codes in units of at most 16 bytes: unit u of lane r begins at byte SIZE
 * * r + 8 * SIZE * u and has DIMS values. */
template <int FORM, int DIM> struct few_unit {
    enum {
        ROW = few_rows<FORM, DIM>::CODES,
        SIZE = ROW / 8 < 16 ? ROW / 8 : 16,
        N = ROW / 8 / SIZE,
        DIMS = FORM == KV_Q4 ? 2 * SIZE : SIZE
    };
};
/* Returns which dimension of the head is in row r (second = 0) or r + 8 (second = 1) of the 16-row
 * tile t. */
template <int FORM, int DIM> CU_DEV int few_out(int t, int r, int second) {
    enum { D = FORM == KV_F16 ? 16 : few_unit<FORM, DIM>::DIMS };
    if (FORM == KV_F16) return 16 * t + r + 8 * second;
    return 2 * t / D * (8 * D) + D * r + 2 * t % D + second;
}

/* Adds weighted values to acc[tile], in the layout of mma's d: values r and r + 8 of the tile,
 * columns 2c and 2c + 1. p has the probabilities of the tile's keys as the B operand. */
template <int FORM, int DIM>
CU_DEV void few_values(const uint8_t *v, const uint32_t p[2], uint32_t magic,
                       float acc[DIM / 16][4]) {
    typedef struct few_rows<FORM, DIM> R;
    const int lane = (int)threadIdx.x % 32, r = lane / 4, c = lane % 4;
    uint32_t a[4];
    if constexpr (FORM == KV_F16) {
        const uint8_t *from[4];
        few_loads<R::CODES>(v, lane / 16 * 8 + lane % 8, lane / 8 % 2 * 16, from);
        CU_UNROLL
        for (int t = 0; t < DIM / 16; t++) {
            cu_ldmatrix4_t(from[t % 4] + t / 4 * 128, a);
            cu_mma_f16(acc[t], a, p[0], p[1]);
        }
    } else {
        typedef struct few_unit<FORM, DIM> U;
        enum { W = U::SIZE / 4, PER = FORM == KV_Q8 ? 2 : 4 }; /* words; tiles per word */
        CU_UNROLL
        for (int u = 0; u < U::N; u++) {
            const int block = U::DIMS * (r + 8 * u) / 32;
            const uint16_t *scales = (const uint16_t *)(const void *)(v + FEW_KEYS * R::CODES);
            uint32_t x[4][W], d[4];
            CU_UNROLL
            for (int i = 0; i < 4; i++) {
                const int key = 2 * c + i % 2 + i / 2 * 8;
                few_words<W>(v + few_at<R::CODES>(key, U::SIZE * r) + 8 * U::SIZE * u, x[i]);
                d[i] = scales[key * (DIM / 32) + block];
            }
            const uint32_t d_lo = d[0] | d[1] << 16, d_hi = d[2] | d[3] << 16;
            CU_UNROLL
            for (int w = 0; w < W; w++) CU_UNROLL
            for (int h = 0; h < 2; h++) { /* halves of the word, keys interleaved */
                const uint32_t sel = h ? 0x7632 : 0x5410;
                const uint32_t lo = cu_perm(x[0][w], x[1][w], sel);
                const uint32_t hi = cu_perm(x[2][w], x[3][w], sel);
                CU_UNROLL
                for (int i = 0; i < PER / 2; i++) {
                    CU_UNROLL
                    for (int k = 0; k < 4; k++) /* values r, r + 8; the second half of the keys */
                        a[k] = cu_mul_f16x2(few_pair<FORM>(k / 2 ? hi : lo, 2 * i + k % 2, magic),
                                            k / 2 ? d_hi : d_lo);
                    cu_mma_f16(acc[PER * (W * u + w) + PER / 2 * h + i], a, p[0], p[1]);
                }
            }
        }
    }
}

/* ---- softmax ---- */

/* Replaces scores by probabilities times 2^15. Scales down earlier sums when the maximum rises. st:
 * of the lane's columns 2c and 2c + 1, with sums over the lane's keys only. */
template <int TILES>
CU_DEV void few_softmax(float s[4], struct softmax st[2], float acc[TILES][4]) {
    const float lift = 10.39720771f; /* log 2^15 */
    float m[2];
    CU_UNROLL
    for (int i = 0; i < 2; i++) m[i] = fmaxf(s[i], s[2 + i]);
    if (cu_any(m[0] > st[0].top || m[1] > st[1].top)) {
        float fix[2];
        CU_UNROLL
        for (int i = 0; i < 2; i++) {
            m[i] = fmaxf(m[i], cu_shfl_xor(m[i], 4));
            m[i] = fmaxf(m[i], cu_shfl_xor(m[i], 8));
            fix[i] = softmax_raise(&st[i], fmaxf(m[i], cu_shfl_xor(m[i], 16)));
        }
        CU_UNROLL
        for (int t = 0; t < TILES; t++) CU_UNROLL
        for (int i = 0; i < 4; i++) acc[t][i] *= fix[i % 2];
    }
    CU_UNROLL
    for (int i = 0; i < 4; i++) {
        s[i] = expf(s[i] - (softmax_base(st[i % 2].top) - lift));
        st[i % 2].sum += s[i];
    }
}

/* ---- the kernel ---- */

/* Loads the query heads of the block's columns as B operands. row0 is the segment's first row. */
template <int FORM, int DIM>
CU_DEV void few_queries(const struct attn_job &j, int64_t row0, int head, int col0, int n_cols,
                        uint4 *q) {
    for (int i = (int)threadIdx.x; i < DIM; i += (int)blockDim.x) {
        const int col = col0 + i % 32 / 4, b = i / 32;
        const int64_t row = (row0 + col / j.group) * j.n_heads + head * j.group + col % j.group;
        float x[8];
        CU_UNROLL
        for (int k = 0; k < 8; k++)
            x[k] = col - col0 < n_cols ? j.scale * j.q[row * DIM + 32 * b + few_dim<FORM>(i % 4, k)]
                                       : 0.0f;
        q[i].x = cu_pack_f16(x[0], x[1]);
        q[i].y = cu_pack_f16(x[2], x[3]);
        q[i].z = cu_pack_f16(x[4], x[5]);
        q[i].w = cu_pack_f16(x[6], x[7]);
    }
}

/* Adds the sums of the n_warps warps that had keys, in order, and writes the total and its softmax
 * to the part. row_of: row of j.part for each of the n_cols columns. slots: the block's slots, no
 * longer in use. */
template <int KF, int VF, int DIM>
CU_DEV void few_store(const struct attn_job &j, int part, const int64_t *row_of, int n_cols,
                      struct softmax (*of_warp)[FEW_COLS], int n_warps, struct softmax st[2],
                      const float acc[DIM / 16][4], uint8_t *slots) {
    enum { TILES = DIM / 16, OF_WARP = 2 * (few_rows<KF, DIM>::TILE + few_rows<VF, DIM>::TILE) };
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    CU_UNROLL
    for (int i = 0; i < 2; i++) {
        st[i].sum += cu_shfl_xor(st[i].sum, 4);
        st[i].sum += cu_shfl_xor(st[i].sum, 8);
        st[i].sum += cu_shfl_xor(st[i].sum, 16);
        if (lane < 4) of_warp[warp][2 * lane + i] = st[i];
    }
    __syncthreads();
    float fix[2];
    CU_UNROLL
    for (int i = 0; i < 2; i++) {
        float m = -INFINITY;
        for (int w = 0; w < n_warps; w++) m = fmaxf(m, of_warp[w][2 * (lane % 4) + i].top);
        fix[i] = expf(st[i].top - softmax_base(m));
    }
    float4 *own = (float4 *)(void *)(slots + warp * OF_WARP);
    CU_UNROLL
    for (int t = 0; t < TILES; t++)
        own[32 * t + lane] = make_float4(fix[0] * acc[t][0], fix[1] * acc[t][1], fix[0] * acc[t][2],
                                         fix[1] * acc[t][3]);
    __syncthreads();
    for (int i = (int)threadIdx.x; i < 32 * TILES; i += (int)blockDim.x) {
        float v[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        for (int w = 0; w < n_warps; w++) {
            const float4 x = ((const float4 *)(const void *)(slots + w * OF_WARP))[i];
            v[0] += x.x, v[1] += x.y, v[2] += x.z, v[3] += x.w;
        }
        CU_UNROLL
        for (int k = 0; k < 4; k++) {
            const int col = 2 * (i % 4) + k % 2;
            if (col < n_cols)
                j.part[(row_of[col] * j.n_splits + part) * DIM +
                       few_out<VF, DIM>(i / 32, i % 32 / 4, k / 2)] = v[k];
        }
    }
    if ((int)threadIdx.x < n_cols) {
        const int col = (int)threadIdx.x;
        struct softmax all = softmax_empty();
        for (int w = 0; w < n_warps; w++) all.top = fmaxf(all.top, of_warp[w][col].top);
        for (int w = 0; w < n_warps; w++)
            all.sum += expf(of_warp[w][col].top - softmax_base(all.top)) * of_warp[w][col].sum;
        *part_stat(j, row_of[col], part) = all;
    }
}

/* Computes attention over a part of the keys. The grid is (columns, parts, kv heads of a
 * segment); blocks that read the same keys run concurrently. */
template <int KF, int VF, int DIM>
CU_KERNEL __launch_bounds__(32 * FEW_WARPS, 1) attend_few(struct attn_job j) {
    enum { K_TILE = few_rows<KF, DIM>::TILE, SLOT = K_TILE + few_rows<VF, DIM>::TILE };
    enum { TILES = DIM / 16 };
    CU_SHARED(struct softmax, of_warp, [FEW_WARPS][FEW_COLS]);
    CU_SHARED(int, sees, [2][FEW_COLS]);
    CU_SHARED(int64_t, row_of, [FEW_COLS]);
    CU_DYN_SHARED(uint8_t, mem);
    cu_wait_before();
    const int col0 = (int)blockIdx.x * FEW_COLS, part = (int)blockIdx.y;
    const int head = (int)blockIdx.z % j.n_kv, of_seg = (int)blockIdx.z / j.n_kv;
    const struct cu_seg seg = j.seg[of_seg];
    const struct cut c = cut_keys(j, seg);
    if (part >= c.n || col0 >= seg.n * j.group) return;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int warps = (int)blockDim.x / 32, rest = seg.n * j.group - col0;
    const int n_cols = rest < FEW_COLS ? rest : FEW_COLS;
    uint4 *q = (uint4 *)(void *)mem;
    uint8_t *slots = mem + 16 * DIM + warp * (2 * SLOT);
    const int64_t first = c.k0 + part * c.step;
    const int n_keys = (int)cu_min(c.step, c.k0 + c.n_keys - first);
    const int n_tiles = (n_keys + FEW_KEYS - 1) / FEW_KEYS;
    const struct kv_table table = kv_table_of(seg, j.slot, j.n_slots);
    /* Keys that the columns see, relative to the part's first key: [from, to). */
    const int64_t seen = (int64_t)seg.pos + 1 - first; /* by the first token */
    const int64_t window = j.window > 0 ? j.window : INT32_MAX;
    if (threadIdx.x < FEW_COLS) {
        const int g = col0 + (int)threadIdx.x, tok = g / j.group;
        const int64_t to = seen + tok;
        row_of[threadIdx.x] =
            ((int64_t)of_seg * j.longest + tok) * j.n_heads + head * j.group + g % j.group;
        sees[0][threadIdx.x] = (int)cu_max(to - window, 0);
        sees[1][threadIdx.x] = (int)cu_min(to, n_keys);
    }
    const uint32_t k_magic = few_magic<KF>(), v_magic = VF == KF ? k_magic : few_magic<VF>();
    struct softmax st[2] = {softmax_empty(), softmax_empty()};
    float acc[TILES][4];
    CU_UNROLL
    for (int t = 0; t < TILES; t++) CU_UNROLL
    for (int i = 0; i < 4; i++) acc[t][i] = 0.0f;
    /* Page of the next tile to fetch, looked up one iteration ahead. */
    const uint8_t *page = kv_page(table, first + cu_min(warp * FEW_KEYS, n_keys - 1));
    for (int t = warp - warps, turn = 1; t < n_tiles; t += warps, turn ^= 1) {
        const int next = t + warps, key0 = t * FEW_KEYS;
        if (next < n_tiles) {
            const int n = (int)cu_min(n_keys - next * FEW_KEYS, FEW_KEYS);
            uint8_t *slot = slots + (turn ^ 1) * SLOT;
            const int64_t pos = first + next * FEW_KEYS;
            few_fetch<KF, DIM>(j.k, table, page, pos, head, n, slot);
            few_fetch<VF, DIM>(j.v, table, page, pos, head, n, slot + K_TILE);
            page = kv_page(table, cu_min(pos + warps * FEW_KEYS, first + n_keys - 1));
        }
        cu_copy_commit();
        if (t < 0) { /* while the first tile is being copied */
            few_queries<KF, DIM>(j, seg.row, head, col0, n_cols, q);
            __syncthreads();
            continue;
        }
        cu_copy_wait<1>();
        cu_syncwarp();
        const uint8_t *slot = slots + turn * SLOT;
        float s[4];
        few_scores<KF, DIM>(slot, q, k_magic, s);
        /* Between the last column's first key and the first column's last key, all columns see
         * all keys. */
        if (key0 < sees[0][n_cols - 1] || key0 + FEW_KEYS > sees[1][0]) CU_UNROLL
        for (int i = 0; i < 4; i++) {
            const int key = key0 + lane / 4 + i / 2 * 8, col = 2 * (lane % 4) + i % 2;
            if (key < sees[0][col] || key >= sees[1][col]) s[i] = -INFINITY;
        }
        few_softmax<TILES>(s, st, acc);
        const uint32_t p[2] = {cu_transpose8(cu_pack_f16(s[0], s[1])),
                               cu_transpose8(cu_pack_f16(s[2], s[3]))};
        few_values<VF, DIM>(slot + K_TILE, p, v_magic, acc);
        cu_syncwarp(); /* before the slot is refilled */
    }
    const int n_warps = n_tiles < warps ? n_tiles : warps;
    few_store<KF, VF, DIM>(j, part, row_of, n_cols, of_warp, n_warps, st, acc, mem + 16 * DIM);
}

template <int KF, int VF, int DIM>
/* Launches attention of few rows for these cache types and head size. */
static int launch_few(struct cu_stream *s, const struct attn_job *j, struct err *e) {
    const int slots = 2 * (few_rows<KF, DIM>::TILE + few_rows<VF, DIM>::TILE);
    const int room = (int)min_i64((int64_t)s->c->info.smem_bytes, 1 << 20) - 1024 - 16 * DIM;
    const int warps = (int)min_i64(room / slots, FEW_WARPS);
    const dim3 grid((unsigned)div_up((int64_t)j->longest * j->group, FEW_COLS),
                    (unsigned)j->n_splits, (unsigned)(j->n_kv * j->n_segs));
    const size_t smem = (size_t)(16 * DIM + warps * slots);
    CU_SMEM(e, (attend_few<KF, VF, DIM>), smem);
    CU_LAUNCH_EARLY(e, (attend_few<KF, VF, DIM>), grid, (unsigned)(32 * warps), smem, s, *j);
    return 0;
}

#endif
