// SPDX-License-Identifier: MIT
/* kernels/cuda/group.cuh - decoding of 32 weights of any block type to codes, four signed bytes per
 * word, with a scale and a minimum for each 16 codes:
 *
 *     w[i] = s[i / 16] * q[i] - m[i / 16]      (m is 0 if the type has no minimum)
 *
 * Evaluated in this order without fused operations, this gives the bits that kernels/ref decodes
 * (-0.0 - 0.0 is -0.0). cu_group() is overloaded by the block struct; `j` counts groups of 32
 * within the block. Tensors start at a multiple of 4 bytes; words are read 4 bytes at a time if the
 * block's size allows it (Q4_K, Q5_K, IQ4_XS, Q2_K, Q4_1, Q5_1, NVFP4), else 2 (MXFP4: 1). */
#ifndef HONE_KERNELS_CUDA_GROUP_CUH
#define HONE_KERNELS_CUDA_GROUP_CUH

#include "kernels/cuda/gpu.cuh"

struct cu_group {
    int q[8];
    float s[2], m[2];
};

/* Types with group decoding. */
// clang-format off
#define CU_GROUP_TYPES(X)                                                                          \
    X(Q4_0) X(Q4_1) X(Q5_0) X(Q5_1) X(Q8_0) X(Q2_K) X(Q3_K) X(Q4_K) X(Q5_K) X(Q6_K) X(IQ4_NL)      \
    X(IQ4_XS) X(MXFP4) X(NVFP4) X(Q1_0) X(Q2_0) X(TQ1_0) X(TQ2_0) X(IQ2_XXS) X(IQ2_XS) X(IQ2_S)    \
    X(IQ3_XXS) X(IQ3_S) X(IQ1_S) X(IQ1_M)
// clang-format on
#define CU_FLOAT_TYPES(X) X(F32) X(F16) X(BF16)
/* Types that fast products may need in file order: those without a packed form, or with one only
 * for some row lengths (pack.cuh). */
// clang-format off
#define CU_PLAIN_TYPES(X)                                                                          \
    X(Q4_0) X(Q4_1) X(Q5_0) X(Q5_1) X(Q8_0) X(IQ4_NL) X(MXFP4) X(NVFP4) X(Q1_0) X(Q2_0) X(TQ1_0)   \
    X(TQ2_0) X(IQ2_XXS) X(IQ2_XS) X(IQ2_S) X(IQ3_XXS) X(IQ3_S) X(IQ1_S) X(IQ1_M)
// clang-format on
/* Returns whether fast products support rows of k weights in file order, for few tokens
 * (gemv.cu) or many (gemm_any.cu). */
static inline bool cu_plain_can(enum qtype t, int64_t k, bool few) {
#define IS(T) t == QT_##T ||
    const bool blocks = CU_PLAIN_TYPES(IS) false, floats = CU_FLOAT_TYPES(IS) false;
#undef IS
    return few ? blocks && k % 64 == 0 : (blocks || floats) && k % 32 == 0;
}
/* Types with minima. */
#define CU_MIN_TYPES(X) X(Q4_1) X(Q5_1) X(Q2_K) X(Q4_K) X(Q5_K)
template <class B> struct cu_has_min { static constexpr bool YES = false; };
#define HAS(T)                                                                                     \
    template <> struct cu_has_min<struct blk_##T> { static constexpr bool YES = true; };
CU_MIN_TYPES(HAS)
#undef HAS

/* Loads a little-endian word from an address aligned to 4; the next two accept alignments of 2
 * and 1. */
CU_DEV uint32_t cu_word4(const void *p) {
    return *(const uint32_t *)p;
}
CU_DEV uint32_t cu_word2(const void *p) {
    const uint16_t *h = (const uint16_t *)p;
    return h[0] | (uint32_t)h[1] << 16;
}
CU_DEV uint32_t cu_word1(const void *p) {
    const uint8_t *b = (const uint8_t *)p;
    return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}
/* Moves bit i of x (4 bits) to the lowest bit of byte i. */
CU_DEV uint32_t cu_spread1(uint32_t x) {
    return (x & 15u) * 0x00204081u & 0x01010101u;
}
/* Moves two-bit field i of x (8 bits) to byte i. */
CU_DEV uint32_t cu_spread2(uint32_t x) {
    x = (x | x << 12) & 0x000f000fu;
    return (x | x << 6) & 0x03030303u;
}
/* Returns bytes (0..127) minus k (0..127), as signed bytes. */
CU_DEV int cu_less(uint32_t bytes, uint32_t k) {
    return (int)(((bytes | 0x80808080u) - k * 0x01010101u) ^ 0x80808080u);
}
/* Negates each of four bytes (1..127) whose bit in nibble `at` of `signs` is set. The products
 * move bit i of the nibble to the top of byte i. */
CU_DEV int cu_negate(uint32_t bytes, uint32_t signs, int at) {
    const uint32_t m = at ? cu_byte_signs((signs & 0xf0u) * 0x01020408u)
                          : cu_byte_signs((signs & 0x0fu) * 0x10204080u);
    return (int)((bytes ^ m) + (m & 0x01010101u));
}
/* Looks up the 8 nibbles of a word in a table of 16 bytes (four words): the low nibbles of bytes
 * 0..3, then the high ones. Four nibbles at a time select from both halves of the table; a second
 * selection, by bit 3, picks the half. */
CU_DEV uint32_t cu_look_up4(uint32_t nibbles, const uint32_t t[4]) {
    const uint32_t sel = nibbles & 0x7777u;
    return cu_perm(cu_perm(t[0], t[1], sel), cu_perm(t[2], t[3], sel),
                   0x3210u | (nibbles & 0x8888u) >> 1);
}
CU_DEV void cu_look_up(uint32_t word, const uint32_t t[4], int *lo, int *hi) {
    const uint32_t a = cu_look_up4(word, t), b = cu_look_up4(word >> 16, t);
    *lo = (int)cu_perm(a, b, 0x6420u);
    *hi = (int)cu_perm(a, b, 0x7531u);
}

CU_DEV void cu_one_scale(struct cu_group *o, float s, float m) {
    o->s[0] = o->s[1] = s;
    o->m[0] = o->m[1] = m;
}

/* Reads the nibbles of 16 bytes at p: low nibbles are weights 0..15, high ones 16..31. hi: bit i
 * is bit 4 of weight i. */
template <uint32_t (*word)(const void *)>
CU_DEV void cu_nibbles(struct cu_group *o, const void *p, uint32_t hi, uint32_t less) {
    CU_UNROLL
    for (int i = 0; i < 4; i++) {
        const uint32_t w = word((const uint8_t *)p + 4 * i);
        o->q[i] = cu_less((w & 0x0f0f0f0fu) | cu_spread1(hi >> (4 * i)) << 4, less);
        o->q[4 + i] = cu_less((w >> 4 & 0x0f0f0f0fu) | cu_spread1(hi >> (16 + 4 * i)) << 4, less);
    }
}

CU_DEV void cu_group(const struct blk_Q4_0 *b, int, const struct kern_grid *, struct cu_group *o) {
    cu_nibbles<cu_word2>(o, b->qs, 0, 8);
    cu_one_scale(o, cu_f16_to_f32(b->d), 0);
}
CU_DEV void cu_group(const struct blk_Q4_1 *b, int, const struct kern_grid *, struct cu_group *o) {
    cu_nibbles<cu_word4>(o, b->qs, 0, 0);
    cu_one_scale(o, cu_f16_to_f32(b->d), -cu_f16_to_f32(b->m));
}
CU_DEV void cu_group(const struct blk_Q5_0 *b, int, const struct kern_grid *, struct cu_group *o) {
    cu_nibbles<cu_word2>(o, b->qs, cu_word2(b->qh), 16);
    cu_one_scale(o, cu_f16_to_f32(b->d), 0);
}
CU_DEV void cu_group(const struct blk_Q5_1 *b, int, const struct kern_grid *, struct cu_group *o) {
    cu_nibbles<cu_word4>(o, b->qs, cu_word4(b->qh), 0);
    cu_one_scale(o, cu_f16_to_f32(b->d), -cu_f16_to_f32(b->m));
}
CU_DEV void cu_group(const struct blk_Q8_0 *b, int, const struct kern_grid *, struct cu_group *o) {
    CU_UNROLL
    for (int i = 0; i < 8; i++) o->q[i] = (int)cu_word2(b->qs + 4 * i);
    cu_one_scale(o, cu_f16_to_f32(b->d), 0);
}

/* Returns four codes from a 2-bit plane of 32 bytes, in which byte l holds weight l of four
 * groups. */
CU_DEV uint32_t cu_plane2(uint32_t word, int j) {
    return word >> (2 * (j & 3)) & 0x03030303u;
}
CU_DEV void cu_group(const struct blk_Q2_K *b, int j, const struct kern_grid *,
                     struct cu_group *o) {
    const float d = cu_f16_to_f32(b->d), dmin = cu_f16_to_f32(b->dmin);
    CU_UNROLL
    for (int i = 0; i < 8; i++) o->q[i] = (int)cu_plane2(cu_word4(b->qs + 32 * (j / 4) + 4 * i), j);
    CU_UNROLL
    for (int h = 0; h < 2; h++) {
        const int sc = b->scales[2 * j + h];
        o->s[h] = d * (float)(sc & 15);
        o->m[h] = dmin * (float)(sc >> 4);
    }
}
CU_DEV int cu_scale_q3(const uint8_t *s, int k) {
    const int low = k < 8 ? s[k] & 15 : s[k - 8] >> 4;
    return (low | ((s[8 + k % 4] >> (2 * (k / 4))) & 3) << 4) - 32;
}
CU_DEV void cu_group(const struct blk_Q3_K *b, int j, const struct kern_grid *,
                     struct cu_group *o) {
    const float d = cu_f16_to_f32(b->d);
    CU_UNROLL
    for (int i = 0; i < 8; i++) {
        const uint32_t low = cu_plane2(cu_word2(b->qs + 32 * (j / 4) + 4 * i), j);
        const uint32_t high = cu_word2(b->hmask + 4 * i) >> j & 0x01010101u;
        o->q[i] = cu_less(low | high << 2, 4);
    }
    CU_UNROLL
    for (int h = 0; h < 2; h++) {
        o->s[h] = d * (float)cu_scale_q3(b->scales, 2 * j + h);
        o->m[h] = 0;
    }
}

/* Returns the 6-bit scale and minimum of sub-block j of Q4_K and Q5_K. */
CU_DEV void cu_scale6(const uint8_t *s, int j, int *sc, int *mn) {
    if (j < 4) {
        *sc = s[j] & 63;
        *mn = s[j + 4] & 63;
    } else {
        *sc = (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
        *mn = s[j + 4] >> 4 | (s[j] >> 6) << 4;
    }
}
template <class B> CU_DEV void cu_scales_k(const B *b, int j, struct cu_group *o) {
    int sc, mn;
    cu_scale6(b->scales, j, &sc, &mn);
    cu_one_scale(o, cu_f16_to_f32(b->d) * (float)sc, cu_f16_to_f32(b->dmin) * (float)mn);
}
CU_DEV void cu_group(const struct blk_Q4_K *b, int j, const struct kern_grid *,
                     struct cu_group *o) {
    CU_UNROLL
    for (int i = 0; i < 8; i++)
        o->q[i] = (int)(cu_word4(b->qs + 32 * (j / 2) + 4 * i) >> (4 * (j & 1)) & 0x0f0f0f0fu);
    cu_scales_k(b, j, o);
}
CU_DEV void cu_group(const struct blk_Q5_K *b, int j, const struct kern_grid *,
                     struct cu_group *o) {
    CU_UNROLL
    for (int i = 0; i < 8; i++) {
        const uint32_t low = cu_word4(b->qs + 32 * (j / 2) + 4 * i) >> (4 * (j & 1)) & 0x0f0f0f0fu;
        o->q[i] = (int)(low | (cu_word4(b->qh + 4 * i) >> j & 0x01010101u) << 4);
    }
    cu_scales_k(b, j, o);
}
CU_DEV void cu_group(const struct blk_Q6_K *b, int j, const struct kern_grid *,
                     struct cu_group *o) {
    const float d = cu_f16_to_f32(b->d);
    CU_UNROLL
    for (int i = 0; i < 8; i++) {
        const uint32_t low = cu_word2(b->ql + 64 * (j / 4) + 32 * (j & 1) + 4 * i);
        const uint32_t high = cu_plane2(cu_word2(b->qh + 32 * (j / 4) + 4 * i), j);
        o->q[i] = cu_less((low >> (4 * ((j & 3) / 2)) & 0x0f0f0f0fu) | high << 4, 32);
    }
    CU_UNROLL
    for (int h = 0; h < 2; h++) {
        o->s[h] = d * (float)b->scales[2 * j + h];
        o->m[h] = 0;
    }
}

/* Levels of codebook.h, four signed bytes per word, level 0 lowest. */
#define CU_IQ4_LEVELS                                                                              \
    { 0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u }
#define CU_FP4_LEVELS                                                                              \
    { 0x03020100u, 0x0c080604u, 0xfdfeff00u, 0xf4f8fafcu }

CU_DEV void cu_group(const struct blk_IQ4_NL *b, int, const struct kern_grid *,
                     struct cu_group *o) {
    const uint32_t t[4] = CU_IQ4_LEVELS;
    CU_UNROLL
    for (int i = 0; i < 4; i++) cu_look_up(cu_word2(b->qs + 4 * i), t, &o->q[i], &o->q[4 + i]);
    cu_one_scale(o, cu_f16_to_f32(b->d), 0);
}
CU_DEV int cu_scale_iq4(const struct blk_IQ4_XS *b, int j) {
    const int low = (b->scales_l[j / 2] >> (4 * (j & 1))) & 15;
    return (low | ((b->scales_h >> (2 * j)) & 3) << 4) - 32;
}
CU_DEV void cu_group(const struct blk_IQ4_XS *b, int j, const struct kern_grid *,
                     struct cu_group *o) {
    const uint32_t t[4] = CU_IQ4_LEVELS;
    CU_UNROLL
    for (int i = 0; i < 4; i++)
        cu_look_up(cu_word4(b->qs + 16 * j + 4 * i), t, &o->q[i], &o->q[4 + i]);
    cu_one_scale(o, cu_f16_to_f32(b->d) * (float)cu_scale_iq4(b, j), 0);
}
CU_DEV void cu_group(const struct blk_MXFP4 *b, int, const struct kern_grid *, struct cu_group *o) {
    const uint32_t t[4] = CU_FP4_LEVELS;
    CU_UNROLL
    for (int i = 0; i < 4; i++) cu_look_up(cu_word1(b->qs + 4 * i), t, &o->q[i], &o->q[4 + i]);
    const uint32_t e = b->e; /* 2^(e-128), subnormal for 0 and 1 */
    cu_one_scale(o, cu_from_bits(e < 2 ? 0x00200000u << e : (e - 1) << 23), 0);
}
/* Returns half the value of an unsigned E4M3 byte; 0x7f gives 0. */
CU_DEV float cu_ue4m3_half(uint32_t v) {
    const uint32_t exp = v >> 3 & 15u, man = v & 7u;
    if (v == 0x7f) return 0;
    if (exp == 0) return (float)man * 0x1p-10f;
    return cu_from_bits((exp + 119) << 23 | man << 20);
}
CU_DEV void cu_group(const struct blk_NVFP4 *b, int j, const struct kern_grid *,
                     struct cu_group *o) {
    const uint32_t t[4] = CU_FP4_LEVELS;
    CU_UNROLL
    for (int h = 0; h < 2; h++) { /* 16 weights: 8 bytes, low nibbles first */
        const uint8_t *p = b->qs + 16 * j + 8 * h;
        cu_look_up(cu_word4(p), t, &o->q[4 * h], &o->q[4 * h + 2]);
        cu_look_up(cu_word4(p + 4), t, &o->q[4 * h + 1], &o->q[4 * h + 3]);
        o->s[h] = cu_ue4m3_half(b->d[2 * j + h]);
        o->m[h] = 0;
    }
}

CU_DEV void cu_group(const struct blk_Q1_0 *b, int j, const struct kern_grid *,
                     struct cu_group *o) {
    const uint32_t bits = cu_word2(b->qs + 4 * j);
    CU_UNROLL
    for (int i = 0; i < 8; i++) o->q[i] = cu_less(cu_spread1(bits >> (4 * i)) << 1, 1);
    cu_one_scale(o, cu_f16_to_f32(b->d), 0);
}
CU_DEV void cu_group(const struct blk_Q2_0 *b, int j, const struct kern_grid *,
                     struct cu_group *o) {
    CU_UNROLL
    for (int i = 0; i < 8; i++) o->q[i] = cu_less(cu_spread2(b->qs[8 * j + i]), 1);
    cu_one_scale(o, cu_f16_to_f32(b->d), 0);
}
/* Returns base-3 digit t: the carry of 3 * (3^t * byte mod 256). */
CU_DEV uint32_t cu_trit(uint32_t byte, int t) {
    uint32_t pow = 1;
    for (int i = 0; i < t; i++) pow *= 3;
    return (byte * pow & 255u) * 3 >> 8;
}
CU_DEV void cu_group(const struct blk_TQ1_0 *b, int j, const struct kern_grid *,
                     struct cu_group *o) {
    for (int w = 0; w < 8; w++) {
        uint32_t q = 0;
        for (int l = 0; l < 4; l++) {
            const int i = 32 * j + 4 * w + l;
            const uint32_t v = i < 160   ? cu_trit(b->qs[i % 32], i / 32)
                               : i < 240 ? cu_trit(b->qs[32 + (i - 160) % 16], (i - 160) / 16)
                                         : cu_trit(b->qh[(i - 240) % 4], (i - 240) / 4);
            q |= v << (8 * l);
        }
        o->q[w] = cu_less(q, 1);
    }
    cu_one_scale(o, cu_f16_to_f32(b->d), 0);
}
CU_DEV void cu_group(const struct blk_TQ2_0 *b, int j, const struct kern_grid *,
                     struct cu_group *o) {
    CU_UNROLL
    for (int i = 0; i < 8; i++)
        o->q[i] = cu_less(cu_plane2(cu_word2(b->qs + 32 * (j / 4) + 4 * i), j), 1);
    cu_one_scale(o, cu_f16_to_f32(b->d), 0);
}

/* Returns eight levels of a grid, negated where bit i of `signs` is set. */
CU_DEV void cu_levels8(const uint8_t *level, uint32_t signs, int *q) {
    q[0] = cu_negate(cu_word4(level), signs, 0);
    q[1] = cu_negate(cu_word4(level + 4), signs, 1);
}
CU_DEV void cu_group(const struct blk_IQ2_XXS *b, int j, const struct kern_grid *g,
                     struct cu_group *o) {
    const uint32_t index = cu_word2(b->qs + 4 * j), rest = cu_word2(b->qs + 4 * j + 2);
    CU_UNROLL
    for (int l = 0; l < 4; l++)
        cu_levels8(g->iq2_xxs[index >> (8 * l) & 255], g->sign[rest >> (7 * l) & 127],
                   &o->q[2 * l]);
    cu_one_scale(o, cu_f16_to_f32(b->d) * 0.125f * (float)(2 * (rest >> 28) + 1), 0);
}
/* Returns the two scales of group j of IQ2_XS and IQ2_S. */
template <class B> CU_DEV void cu_scales_iq2(const B *b, int j, struct cu_group *o) {
    const float d = cu_f16_to_f32(b->d) * 0.125f;
    o->s[0] = d * (float)(2 * (b->scales[j] & 15) + 1);
    o->s[1] = d * (float)(2 * (b->scales[j] >> 4) + 1);
    o->m[0] = o->m[1] = 0;
}
CU_DEV void cu_group(const struct blk_IQ2_XS *b, int j, const struct kern_grid *g,
                     struct cu_group *o) {
    CU_UNROLL
    for (int l = 0; l < 4; l++) {
        const uint32_t q = b->qs[4 * j + l];
        cu_levels8(g->iq2_xs[q & 511], g->sign[q >> 9], &o->q[2 * l]);
    }
    cu_scales_iq2(b, j, o);
}
CU_DEV void cu_group(const struct blk_IQ2_S *b, int j, const struct kern_grid *g,
                     struct cu_group *o) {
    CU_UNROLL
    for (int l = 0; l < 4; l++) {
        const int index = b->qs[4 * j + l] | ((b->qh[j] >> (2 * l)) & 3) << 8;
        cu_levels8(g->iq2_s[index], b->qs[32 + 4 * j + l], &o->q[2 * l]);
    }
    cu_scales_iq2(b, j, o);
}
CU_DEV void cu_group(const struct blk_IQ3_XXS *b, int j, const struct kern_grid *g,
                     struct cu_group *o) {
    const uint32_t rest = cu_word2(b->qs + 64 + 4 * j);
    CU_UNROLL
    for (int i = 0; i < 8; i++) {
        const uint32_t signs = g->sign[rest >> (7 * (i / 2)) & 127];
        o->q[i] = cu_negate(cu_word4(g->iq3_xxs[b->qs[8 * j + i]]), signs, i & 1);
    }
    cu_one_scale(o, cu_f16_to_f32(b->d) * 0.25f * (float)(2 * (rest >> 28) + 1), 0);
}
CU_DEV void cu_group(const struct blk_IQ3_S *b, int j, const struct kern_grid *g,
                     struct cu_group *o) {
    CU_UNROLL
    for (int i = 0; i < 8; i++) {
        const int index = b->qs[8 * j + i] | ((b->qh[j] >> i) & 1) << 8;
        o->q[i] = cu_negate(cu_word4(g->iq3_s[index]), b->signs[4 * j + i / 2], i & 1);
    }
    const int sc = (b->scales[j / 2] >> (4 * (j & 1))) & 15;
    cu_one_scale(o, cu_f16_to_f32(b->d) * (float)(2 * sc + 1), 0);
}
/* Returns eight signed levels of IQ1. `low` has the low bits of the index; `high` has its high
 * bits and, above them, the shift. */
CU_DEV void cu_iq1(const struct kern_grid *g, uint32_t low, uint32_t high, int *q) {
    const int8_t *level = g->iq1[low | (high & 15) << 8];
    q[0] = (int)cu_word4(level);
    q[1] = (int)cu_word4(level + 4);
}
CU_DEV void cu_group(const struct blk_IQ1_S *b, int j, const struct kern_grid *g,
                     struct cu_group *o) {
    const uint32_t h = b->qh[j];
    CU_UNROLL
    for (int l = 0; l < 4; l++)
        cu_iq1(g, b->qs[4 * j + l], (h >> (3 * l) & 7) | (h >> 15) << 3, &o->q[2 * l]);
    cu_one_scale(o, cu_f16_to_f32(b->d) * 0.125f * (float)(2 * (h >> 12 & 7) + 1), 0);
}
CU_DEV void cu_group(const struct blk_IQ1_M *b, int j, const struct kern_grid *g,
                     struct cu_group *o) {
    CU_UNROLL
    for (int l = 0; l < 4; l++)
        cu_iq1(g, b->qs[4 * j + l], b->qh[2 * j + l / 2] >> (4 * (l & 1)), &o->q[2 * l]);
    const uint8_t *sc = b->scales; /* d in the top nibbles of its words */
    const uint32_t d = sc[1] >> 4 | (sc[3] & 0xf0u) | (sc[5] & 0xf0u) << 4 | (sc[7] & 0xf0u) << 8;
    const uint32_t s = cu_word2(sc + 4 * (j / 4)) >> (16 * (j / 2 % 2) + 6 * (j % 2));
    const float unit = cu_f16_to_f32((uint16_t)d) * 0.125f;
    o->s[0] = unit * (float)(2 * (s & 7) + 1);
    o->s[1] = unit * (float)(2 * (s >> 3 & 7) + 1);
    o->m[0] = o->m[1] = 0;
}

/* Weights per block, by block struct. */
template <class B> struct cu_block;
#define CU_BLOCK(T)                                                                                \
    template <> struct cu_block<struct blk_##T> {                                                  \
        enum { elems = CU_ELEMS_##T, type = QT_##T };                                              \
    };
#define QTYPE(ID, id, name, n, nbytes, ...) enum { CU_ELEMS_##ID = (n) };
#include "containers/qtype.def"
#undef QTYPE
// clang-format off
CU_GROUP_TYPES(CU_BLOCK) CU_FLOAT_TYPES(CU_BLOCK)
#undef CU_BLOCK

/* Decodes group i of a row of blocks. */
template <class B>
CU_DEV void cu_row_group(const void *row, int64_t i, const struct kern_grid *g, struct cu_group *o) {
    const int per = cu_block<B>::elems / 32;
    cu_group((const B *)row + i / per, (int)(i % per), g, o);
}
// clang-format on

/* Returns weight i (0..31) of a group, with the bits of kernels/ref. */
CU_DEV float cu_weight(const struct cu_group *o, int i) {
    const int q = (int8_t)((uint32_t)o->q[i / 4] >> (8 * (i % 4)));
    return o->s[i / 16] * (float)q - o->m[i / 16];
}

/* Returns one weight of a row of floats. */
CU_DEV float cu_float(const struct blk_F32 *b, int64_t i) {
    return b[i].v;
}
CU_DEV float cu_float(const struct blk_F16 *b, int64_t i) {
    return cu_f16_to_f32(b[i].v);
}
CU_DEV float cu_float(const struct blk_BF16 *b, int64_t i) {
    return cu_bf16_to_f32(b[i].v);
}

/* Returns four values of a row at a multiple of 4; memory is aligned for it. */
CU_DEV float4 cu_float4(const struct blk_F32 *b, int64_t i) {
    return *(const float4 *)(const void *)(b + i);
}
template <class B> CU_DEV float4 cu_float4(const B *b, int64_t i) { /* 16 bits */
    struct alignas(8) four {
        B v[4];
    };
    const struct four f = *(const struct four *)(const void *)(b + i);
    return make_float4(cu_float(f.v, 0), cu_float(f.v, 1), cu_float(f.v, 2), cu_float(f.v, 3));
}

/* Returns the lane's share of row . x, 4 values at a time if both are aligned to 16 bytes. */
template <class B> CU_DEV float cu_dot_float(const void *row, const float *x, int64_t k) {
    const B *w = (const B *)row;
    const int lane = (int)threadIdx.x % 32;
    float acc = 0;
    if (k % 4 == 0 && (((uintptr_t)row | (uintptr_t)x) & 15) == 0) {
#pragma unroll 8
        for (int64_t i = 4 * lane; i < k; i += 128) {
            const float4 a = cu_float4(w, i), b = *(const float4 *)(const void *)(x + i);
            acc = fmaf(a.x, b.x, acc), acc = fmaf(a.y, b.y, acc);
            acc = fmaf(a.z, b.z, acc), acc = fmaf(a.w, b.w, acc);
        }
    } else {
        for (int64_t i = lane; i < k; i += 32) acc = fmaf(cu_float(w, i), x[i], acc);
    }
    return acc;
}

#endif
