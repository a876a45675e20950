// SPDX-License-Identifier: MIT
/* kernels/cuda/pack.cuh - packed layout of weights for the fast kernels: the bits of the file,
 * reordered so that every thread loads 16 bytes at a time. GEMV and tensor cores share the layout.
 *
 * 16 rows by 256 columns are one contiguous tile (`super`), columns fastest:
 *
 *   low planes | high planes | sub-scales | d        all at multiples of 16 bytes
 *
 * A super is four tiles of 64 columns; a tile is four patches of 16 x 16, the A operand of
 * mma.m16n8k16. Lane t owns rows t/4 (b = 0) and t/4 + 8 (b = 1), and of each row the columns 2c,
 * 2c+8, 2c+1, 2c+9 of a patch, c = t % 4: the four bytes of a word, in this order (bytes 0 and 2
 * are one register of the operand, 1 and 3 another). Activations are stored in the matching order
 * (cu_act_pos), so that a word is also an operand of dp4a.
 *
 * Planes: word i of a lane is in chunk i/4 at lane * 16 + i % 4 * 4. A plane of 8 bits has a word
 * per (tile, patch, b); of 4 bits, per (tile, patch) with b in the high nibbles; of 2 bits, per
 * (tile, patch / 2) with fields 2 * (patch % 2) + b; of 1 bit, per tile with fields 2 * patch + b.
 * Sub-scales are bytes, one word per row and tile (half a word for IQ4_XS), both rows of a lane
 * together.
 *
 * Rows are padded with zeros to a multiple of 16. Codes are stored unsigned: value = code - OFF. */
#ifndef HONE_KERNELS_CUDA_PACK_CUH
#define HONE_KERNELS_CUDA_PACK_CUH

#include "kernels/cuda/act.cuh"
#include "kernels/cuda/group.cuh"

enum {
    SC_MIN,  /* d, dmin per 256; per row: scale, scale, minimum, minimum of its 2 groups */
    SC_16,   /* d per 256; per row: 4 signed scales of 16 columns */
    SC_32,   /* d per 256; per row: half a word, 2 signed scales of 32 columns */
    SC_HALF, /* per row: 2 halves, the scales themselves; no d */
    SC_NIBS, /* d, dmin per 256; per row: a byte per 16 columns, scale low, minimum high */
};

#define CU_PACK_TYPES(X) X(Q4_K) X(Q5_K) X(Q6_K) X(Q3_K) X(Q2_K) X(IQ4_XS) X(Q8_0)

template <class B> struct cu_pack;
#define CU_PACK(T, lo, hi, off, kind, table)                                                       \
    template <> struct cu_pack<struct blk_##T> {                                                   \
        static constexpr int LO = (lo), HI = (hi), OFF = (off), SCALES = (kind), TABLE = (table);  \
        static constexpr bool MIN = SCALES == SC_MIN || SCALES == SC_NIBS; /* there are minima */  \
        static constexpr int N_LO = 4 * LO, N_HI = 4 * HI; /* words of a lane in a super */        \
        static constexpr int AT_HI = 512 * LO, AT_SC = AT_HI + 512 * HI;                           \
        static constexpr int AT_D = AT_SC + (SCALES == SC_32 ? 128 : 256);                         \
        static constexpr int BYTES = AT_D + (MIN ? 64 : SCALES == SC_HALF ? 0 : 32);               \
    };
/* Columns: type, low bits, high bits, offset, scales, level table. */
CU_PACK(Q4_K, 4, 0, 0, SC_MIN, 0)
CU_PACK(Q5_K, 4, 1, 0, SC_MIN, 0)
CU_PACK(Q6_K, 4, 2, 32, SC_16, 0)
CU_PACK(Q3_K, 2, 1, 4, SC_16, 0)
CU_PACK(Q2_K, 2, 0, 0, SC_NIBS, 0)
CU_PACK(IQ4_XS, 4, 0, 0, SC_32, 1)
CU_PACK(Q8_0, 8, 0, 0, SC_HALF, 0)
#undef CU_PACK

/* One lane's share of a super-block in registers: low and high bits of its codes, scales. */
template <class B> struct cu_super {
    uint32_t lo[cu_pack<B>::N_LO], hi[cu_pack<B>::N_HI > 0 ? cu_pack<B>::N_HI : 4];
    uint32_t sc[4][2]; /* [tile][b] */
    uint32_t d[2];     /* [b]: half d, half dmin */
};

CU_DEV void cu_load16(const uint8_t *p, uint32_t *w) {
    const uint4 v = *(const uint4 *)p;
    w[0] = v.x;
    w[1] = v.y;
    w[2] = v.z;
    w[3] = v.w;
}

/* Loads N words of a lane, starting at word i. i is a multiple of N, or of 4 if N is 8. */
template <int N> CU_DEV void cu_load_words(const uint8_t *plane, int lane, int i, uint32_t *w) {
    const uint8_t *p = plane + 512 * (i / 4) + 16 * lane + 4 * (i % 4);
    if constexpr (N == 8) {
        cu_load16(p, w);
        cu_load16(p + 512, w + 4);
    } else if constexpr (N == 4) {
        cu_load16(p, w);
    } else if constexpr (N == 2) {
        const uint2 v = *(const uint2 *)p;
        w[0] = v.x;
        w[1] = v.y;
    } else if constexpr (N == 1) {
        w[0] = *(const uint32_t *)p;
    }
}

/* Loads a tile's sub-scales and d for rows `row` and row + 8. */
template <class B>
CU_DEV void cu_load_scales(const uint8_t *p, int row, int tile, struct cu_super<B> *s) {
    typedef cu_pack<B> P;
    if constexpr (P::SCALES == SC_32) {
        const uint32_t v = *(const uint32_t *)(p + P::AT_SC + 32 * tile + 4 * row);
        s->sc[tile][0] = v & 0xffffu;
        s->sc[tile][1] = v >> 16;
    } else {
        const uint2 v = *(const uint2 *)(p + P::AT_SC + 64 * tile + 8 * row);
        s->sc[tile][0] = v.x;
        s->sc[tile][1] = v.y;
    }
}
template <class B> CU_DEV void cu_load_d(const uint8_t *p, int row, struct cu_super<B> *s) {
    typedef cu_pack<B> P;
    if constexpr (P::MIN) {
        const uint2 v = *(const uint2 *)(p + P::AT_D + 8 * row);
        s->d[0] = v.x;
        s->d[1] = v.y;
    } else if constexpr (P::SCALES != SC_HALF) {
        const uint32_t v = *(const uint32_t *)(p + P::AT_D + 4 * row);
        s->d[0] = v & 0xffffu;
        s->d[1] = v >> 16;
    }
}

/* Loads a super from device or shared memory. */
template <class B> CU_DEV void cu_load_super(const uint8_t *p, int lane, struct cu_super<B> *s) {
    typedef cu_pack<B> P;
    CU_UNROLL
    for (int i = 0; i < P::N_LO; i += 4) cu_load_words<4>(p, lane, i, &s->lo[i]);
    CU_UNROLL
    for (int i = 0; i < P::N_HI; i += 4) cu_load_words<4>(p + P::AT_HI, lane, i, &s->hi[i]);
    CU_UNROLL
    for (int tile = 0; tile < 4; tile++) cu_load_scales(p, lane / 4, tile, s);
    cu_load_d(p, lane / 4, s);
}
/* Loads only the data that cu_codes and cu_patch_scale need for one tile, for kernels that cannot
 * hold a whole super. */
template <class B>
CU_DEV void cu_load_tile(const uint8_t *p, int lane, int tile, struct cu_super<B> *s) {
    typedef cu_pack<B> P;
    cu_load_words<P::LO>(p, lane, P::LO * tile, &s->lo[P::LO * tile]);
    cu_load_words<P::HI>(p + P::AT_HI, lane, P::HI * tile, &s->hi[P::HI * tile]);
    cu_load_scales(p, lane / 4, tile, s);
    cu_load_d(p, lane / 4, s);
}

/* Returns the four codes of (tile, patch, b) as unsigned bytes, for types without a level table.
 * Indices are constants after unrolling. */
template <class B>
CU_DEV uint32_t cu_raw_codes(const struct cu_super<B> &s, int tile, int patch, int b) {
    typedef cu_pack<B> P;
    if constexpr (P::LO == 8) {
        return s.lo[8 * tile + 2 * patch + b];
    } else {
        const int f = 2 * (patch % 2) + b;
        uint32_t v;
        if constexpr (P::LO == 4)
            v = s.lo[4 * tile + patch] >> (4 * b) & 0x0f0f0f0fu;
        else
            v = s.lo[2 * tile + patch / 2] >> (2 * f) & 0x03030303u;
        if constexpr (P::HI == 1) v |= (s.hi[tile] >> (2 * patch + b) & 0x01010101u) << P::LO;
        if constexpr (P::HI == 2)
            v |= (s.hi[2 * tile + patch / 2] >> (2 * f) & 0x03030303u) << P::LO;
        return v;
    }
}

/* Returns the four codes of (tile, patch, b) as signed bytes. */
template <class B> CU_DEV int cu_codes(const struct cu_super<B> &s, int tile, int patch, int b) {
    typedef cu_pack<B> P;
    if constexpr (P::TABLE != 0) {
        const uint32_t t[4] = CU_IQ4_LEVELS; /* first put the nibbles of four bytes side by side */
        const uint32_t v = s.lo[4 * tile + patch] >> (4 * b) & 0x0f0f0f0fu;
        const uint32_t n = (v | v >> 4) & 0x00ff00ffu;
        return (int)cu_look_up4((n | n >> 8) & 0xffffu, t);
    } else {
        const uint32_t v = cu_raw_codes(s, tile, patch, b);
        return P::OFF != 0 ? cu_less(v, P::OFF) : (int)v;
    }
}

/* Returns the codes of both rows of (tile, patch). With a level table, one lookup maps the word's
 * eight nibbles. */
template <class B>
CU_DEV void cu_codes2(const struct cu_super<B> &s, int tile, int patch, int q[2]) {
    if constexpr (cu_pack<B>::TABLE != 0) {
        const uint32_t t[4] = CU_IQ4_LEVELS;
        cu_look_up(s.lo[4 * tile + patch], t, &q[0], &q[1]);
    } else {
        q[0] = cu_codes(s, tile, patch, 0);
        q[1] = cu_codes(s, tile, patch, 1);
    }
}

CU_DEV int cu_byte(uint32_t w, int i) { /* unsigned */
    return (int)(w >> (8 * i) & 255u);
}
CU_DEV int cu_sbyte(uint32_t w, int i) {
    return (int8_t)(uint8_t)(w >> (8 * i));
}
CU_DEV float cu_half(uint32_t w, int i) {
    return cu_f16_to_f32((uint16_t)(w >> (16 * i)));
}

/* Returns scale and minimum of the 16 columns of (tile, patch) in row b. A weight is s * code - m,
 * as in the group decoder. */
template <class B>
CU_DEV void cu_patch_scale(const struct cu_super<B> &s, int tile, int patch, int b, float *sc,
                           float *mn) {
    typedef cu_pack<B> P;
    const uint32_t w = s.sc[tile][b];
    *mn = 0;
    if constexpr (P::SCALES == SC_HALF) {
        *sc = cu_half(w, patch / 2);
    } else if constexpr (P::SCALES == SC_MIN) {
        *sc = cu_half(s.d[b], 0) * (float)cu_byte(w, patch / 2);
        *mn = cu_half(s.d[b], 1) * (float)cu_byte(w, 2 + patch / 2);
    } else if constexpr (P::SCALES == SC_NIBS) {
        *sc = cu_half(s.d[b], 0) * (float)(w >> (8 * patch) & 15u);
        *mn = cu_half(s.d[b], 1) * (float)(w >> (8 * patch + 4) & 15u);
    } else {
        *sc = cu_half(s.d[b], 0) * (float)cu_sbyte(w, P::SCALES == SC_16 ? patch : patch / 2);
    }
}

#endif
