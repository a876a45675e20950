// SPDX-License-Identifier: MIT
/* kernels/cuda/pack.cu - conversion of GGUF rows to the packed layout (pack.cuh), once per tensor
 * at load time, and from it to f32. Not a hot path: a thread decodes the four groups that its words
 * come from. */
#include "kernels/cuda/pack.cuh"

struct pack_job {
    const uint8_t *src;
    uint8_t *dst;
    int64_t rows, n_super; /* supers per row */
    uint64_t row_bytes, mat_bytes;
};

/* Returns the sub-scales of one row in a tile, and the row's d, from the blocks of a super. */
template <class B> CU_DEV uint32_t scale_word_k45(const B *b, int tile) {
    int s0, m0, s1, m1;
    cu_scale6(b->scales, 2 * tile, &s0, &m0);
    cu_scale6(b->scales, 2 * tile + 1, &s1, &m1);
    return (uint32_t)(s0 | s1 << 8 | m0 << 16 | m1 << 24);
}
CU_DEV uint32_t scale_word(const struct blk_Q4_K *b, int tile) {
    return scale_word_k45(b, tile);
}
CU_DEV uint32_t scale_word(const struct blk_Q5_K *b, int tile) {
    return scale_word_k45(b, tile);
}
CU_DEV uint32_t scale_word(const struct blk_Q6_K *b, int tile) {
    return cu_word2(b->scales + 4 * tile);
}
CU_DEV uint32_t scale_word(const struct blk_Q3_K *b, int tile) {
    uint32_t w = 0;
    for (int i = 0; i < 4; i++) {
        const int sc = cu_scale_q3(b->scales, 4 * tile + i);
        w |= (uint32_t)(uint8_t)sc << (8 * i);
    }
    return w;
}
CU_DEV uint32_t scale_word(const struct blk_Q2_K *b, int tile) {
    return cu_word4(b->scales + 4 * tile);
}
CU_DEV uint32_t scale_word(const struct blk_IQ4_XS *b, int tile) {
    return (uint32_t)(uint8_t)cu_scale_iq4(b, 2 * tile) |
           (uint32_t)(uint8_t)cu_scale_iq4(b, 2 * tile + 1) << 8;
}
CU_DEV uint32_t scale_word(const struct blk_Q8_0 *b, int tile) {
    return b[2 * tile].d | (uint32_t)b[2 * tile + 1].d << 16;
}
template <class B> CU_DEV uint32_t d_word(const B *b) {
    return b->d;
}
CU_DEV uint32_t d_word(const struct blk_Q4_K *b) {
    return b->d | (uint32_t)b->dmin << 16;
}
CU_DEV uint32_t d_word(const struct blk_Q5_K *b) {
    return b->d | (uint32_t)b->dmin << 16;
}
CU_DEV uint32_t d_word(const struct blk_Q2_K *b) {
    return b->d | (uint32_t)b->dmin << 16;
}

/* Returns the stored, unsigned form of a decoded code. */
template <class B> CU_DEV uint32_t code_of(int q) {
    typedef cu_pack<B> P;
    if constexpr (P::TABLE != 0) {
        const uint32_t t[4] = CU_IQ4_LEVELS;
        uint32_t i = 0;
        while (i < 15 && cu_sbyte(t[i / 4], (int)(i % 4)) != q) i++;
        return i;
    } else {
        return (uint32_t)(q + P::OFF) & 255u;
    }
}

CU_DEV void put_word(uint8_t *p, int lane, int word, uint32_t v) {
    *(uint32_t *)(p + 512 * (word / 4) + 16 * lane + 4 * (word % 4)) = v;
}

/* Packs a matrix. The grid is supers of a row, groups of 16 rows, and matrices; a warp takes a
 * tile. */
template <class B> CU_KERNEL pack_kernel(struct pack_job j) {
    typedef cu_pack<B> P;
    const int lane = (int)threadIdx.x % 32, tile = (int)threadIdx.x / 32, c = lane % 4;
    const int64_t n_groups = (j.rows + 15) / 16;
    const uint8_t *mat = j.src + (uint64_t)blockIdx.z * j.mat_bytes;
    uint8_t *dst =
        j.dst +
        (uint64_t)((((int64_t)blockIdx.z * n_groups + blockIdx.y) * j.n_super + blockIdx.x) *
                   P::BYTES);
    uint32_t lo[8] = {0}, hi[2] = {0};
    for (int b = 0; b < 2; b++) {
        const int64_t row = 16 * (int64_t)blockIdx.y + lane / 4 + 8 * b;
        const bool real = row < j.rows;
        const B *blk = (const B *)(mat + (uint64_t)(real ? row : 0) * j.row_bytes) +
                       (int64_t)blockIdx.x * (256 / cu_block<B>::elems);
        struct cu_group o[2];
        for (int g = 0; g < 2 && real; g++) cu_row_group<B>(blk, 2 * tile + g, NULL, &o[g]);
        for (int i = 0; i < 16 && real; i++) { /* patch, byte of the word */
            const int patch = i / 4, col = 2 * c + (i % 4 & 1) * 8 + i % 4 / 2;
            const int in_group = 16 * (patch % 2) + col;
            const uint32_t code =
                code_of<B>(cu_sbyte((uint32_t)o[patch / 2].q[in_group / 4], in_group % 4));
            const int at = 8 * (i % 4), f = 2 * (patch % 2) + b;
            if (P::LO == 8) lo[2 * patch + b] |= code << at;
            if (P::LO == 4) lo[patch] |= (code & 15u) << (at + 4 * b);
            if (P::LO == 2) lo[patch / 2] |= (code & 3u) << (at + 2 * f);
            if (P::HI == 1) hi[0] |= (code >> P::LO & 1u) << (at + 2 * patch + b);
            if (P::HI == 2) hi[patch / 2] |= (code >> P::LO & 3u) << (at + 2 * f);
        }
        if (c == 0) {
            const uint32_t sc = real ? scale_word(blk, tile) : 0;
            uint8_t *at = dst + P::AT_SC;
            if (P::SCALES == SC_32)
                ((uint16_t *)at)[16 * tile + 2 * (lane / 4) + b] = (uint16_t)sc;
            else
                ((uint32_t *)at)[16 * tile + 2 * (lane / 4) + b] = sc;
        }
        if (c == 0 && tile == 0) {
            const uint32_t d = real ? d_word(blk) : 0;
            uint8_t *at = dst + P::AT_D;
            if (P::MIN)
                ((uint32_t *)at)[2 * (lane / 4) + b] = d;
            else if (P::SCALES != SC_HALF)
                ((uint16_t *)at)[2 * (lane / 4) + b] = (uint16_t)d;
        }
    }
    for (int i = 0; i < P::LO; i++) put_word(dst, lane, P::LO * tile + i, lo[i]);
    for (int i = 0; i < P::HI; i++) put_word(dst + P::AT_HI, lane, P::HI * tile + i, hi[i]);
}

/* Converts every weight to f32, [mats][rows][256 n_super]. The grid is the same; a warp takes a
 * super. */
template <class B> CU_KERNEL unpack_kernel(struct pack_job j, float *out) {
    typedef cu_pack<B> P;
    const int lane = (int)threadIdx.x, c = lane % 4;
    const int64_t n_groups = (j.rows + 15) / 16, k = 256 * j.n_super;
    const int64_t piece = ((int64_t)blockIdx.z * n_groups + blockIdx.y) * j.n_super + blockIdx.x;
    struct cu_super<B> s;
    cu_load_super(j.dst + (uint64_t)(piece * P::BYTES), lane, &s);
    CU_UNROLL
    for (int i = 0; i < 32; i++) {
        const int tile = i / 8, patch = i / 2 % 4, b = i % 2;
        const int64_t row = 16 * (int64_t)blockIdx.y + lane / 4 + 8 * b;
        const uint32_t q = (uint32_t)cu_codes(s, tile, patch, b);
        float sc, mn;
        cu_patch_scale(s, tile, patch, b, &sc, &mn);
        if (row >= j.rows) continue;
        float *dst = out + ((int64_t)blockIdx.z * j.rows + row) * k + 256 * (int64_t)blockIdx.x +
                     64 * tile + 16 * patch + 2 * c;
        for (int l = 0; l < 4; l++) dst[(l & 1) * 8 + l / 2] = sc * (float)cu_sbyte(q, l) - mn;
    }
}

static const struct pack_kernels {
    enum qtype type;
    uint64_t super_bytes;
    void (*pack)(struct pack_job);
    void (*unpack)(struct pack_job, float *);
} table[] = {
#define ROW(T)                                                                                     \
    {QT_##T, cu_pack<struct blk_##T>::BYTES, pack_kernel<struct blk_##T>,                          \
     unpack_kernel<struct blk_##T>},
    CU_PACK_TYPES(ROW)
#undef ROW
};

/* Returns the pack kernels for w; NULL: it cannot be packed. */
static const struct pack_kernels *find_kernels(const struct cu_weight *w) {
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (table[i].type == w->type && w->k % 256 == 0 && w->k > 0) return &table[i];
    return NULL;
}

uint64_t cu_packed_bytes(const struct cu_weight *w) {
    const struct pack_kernels *p = find_kernels(w);
    return p ? p->super_bytes * (uint64_t)(w->k / 256 * ((w->rows + 15) / 16) * w->mats) : 0;
}

/* Returns the kernel's arguments for packing w. */
static struct pack_job job_of(const struct cu_weight *w) {
    return {(const uint8_t *)w->data,
            (uint8_t *)w->packed,
            w->rows,
            w->k / 256,
            w->row_bytes,
            w->mat_bytes};
}
/* Returns the launch grid: a CUDA block per 16 rows of 256 columns. */
static dim3 grid_of(const struct cu_weight *w) {
    return dim3((unsigned)(w->k / 256), (unsigned)div_up(w->rows, 16), (unsigned)w->mats);
}

/* Fails if a weight has no packed layout. The grid's y and z are limited to 65535, which allows
 * vocabularies of 2^20 rows and 65535 experts. */
static int check(const struct cu_weight *w, const struct pack_kernels *p, struct err *e) {
    if (p && w->packed && div_up(w->rows, 16) <= 65535 && w->mats <= 65535) return 0;
    return err_set(e, ERR_USAGE, "CUDA: no packed layout of %s, %lld columns", qtype_name(w->type),
                   (long long)w->k);
}

/* Packs w->data into w->packed. */
int cu_pack_weight(struct cu_stream *s, const struct cu_weight *w, struct err *e) {
    const struct pack_kernels *p = find_kernels(w);
    TRY(check(w, p, e));
    CU_LAUNCH(e, p->pack, grid_of(w), 128, 0, s, job_of(w));
    return 0;
}

/* Decodes w->packed to floats, for tests. */
int cu_unpack_weight(struct cu_stream *s, const struct cu_weight *w, float *dst, struct err *e) {
    const struct pack_kernels *p = find_kernels(w);
    TRY(check(w, p, e));
    CU_LAUNCH(e, p->unpack, grid_of(w), 32, 0, s, job_of(w), dst);
    return 0;
}
