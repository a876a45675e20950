// SPDX-License-Identifier: MIT
/* quantize/enc/cuda/grid.cu - device launches of the IQ1, IQ2 and IQ3 searches (../grid_*.h). On
 * one H200 the kernel tests passed and IQ3_S files had the CPU's bytes
 * (docs/notebook/cuda-h200.md).
 *
 * A wave has at most 2048 super-blocks. For each super-block:
 *  - eight threads load it and compute its search weights;
 *  - eight threads per octet (32 octets) compute the chains, per shift if a sub-block shares one;
 *  - a warp merges the chains and searches scales; its threads split the sub-blocks and the starts;
 *  - one thread packs the result.
 * The conventional search uses one thread per sub-block. Finally rows are decoded, and a warp
 * balances each row.
 *
 * Work memory: 4 KiB per super-block of a wave, 72 KiB more for its chains (not in the conventional
 * search), and the f32 values of all rows. */
#include "quantize/enc/cuda/lanes.cuh"

#include "quantize/enc/grid_block.h"
#include "quantize/enc/grid_conv.h"
#include "quantize/enc/grid_pack.h"
#include "quantize/enc/grid_scale.h"
#include "quantize/enc/iq1_conv.h"

extern "C" {
#include "quantize/enc/cuda/rows.h"
}

enum { WAVE = 2048, THREADS = 64, GROUPS = THREADS / LANES, CHAIN_THREADS = 32, TERMS = 256 };

struct super_block {
    struct grid_data d;
    struct grid_block b;
    float scale[GRID_SUBS]; /* from the conventional search */
    bool live;              /* not practically zero */
};
struct wave {
    struct grid_spec spec;
    struct grid_how how; /* how.s and how.near are set in the kernel */
    struct near_table near;
    int64_t first; /* the wave's first super-block, numbered over all rows */
    int n;         /* super-blocks in the wave */
    int blocks;    /* per row */
    int ways;      /* grid_ways */
    int64_t k;
    const float *x, *imp;
    int64_t imp_rows, imp_first;
    const int32_t *bad;
    struct super_block *super;
    struct grid_job *job;
    uint8_t *out;
    int block_bytes;
};

CU_DEV struct grid_how how_of(const struct wave &w) {
    struct grid_how h = w.how;
    h.s = &w.spec;
    h.near = &w.near;
    return h;
}

/* Computes the search weights for the conventional search or for the current mode, with eight
 * threads per super-block. `fresh`: no search has produced a result yet. */
CU_KERNEL __launch_bounds__(THREADS) weigh(CU_PARAM(struct wave) w, bool conventional, bool fresh) {
    CU_SHARED(float, room_x, [GROUPS][LANES_ROOM]);
    CU_SHARED(float, room_w, [GROUPS][LANES_ROOM]);
    const int g = (int)threadIdx.x / LANES, i = (int)blockIdx.x * GROUPS + g;
    if (i >= w.n) return;
    const int64_t row = (w.first + i) / w.blocks, col = (w.first + i) % w.blocks * QK;
    const float *imp = w.imp ? w.imp + (w.imp_first + row) / w.imp_rows * w.k + col : NULL;
    const struct grid_how h = how_of(w);
    const struct lanes_mem mem = {room_x[g], room_w[g], NULL};
    struct super_block *sb = &w.super[i];
    const bool live =
        w.bad[row] <= ENC_ROW_LARGE &&
        grid_load(&h, conventional ? &h.conv : &h.rule, &mem, w.x + row * w.k + col, imp, &sb->d);
    if (!lane_one()) return;
    sb->live = live;
    if (fresh) memset(&sb->b, 0, sizeof sb->b);
}

/* Runs the conventional search, one thread per sub-block. */
CU_KERNEL __launch_bounds__(THREADS) conventional_subs(CU_PARAM(struct wave) w) {
    const int subs = QK / w.spec.sub, i = (int)(blockIdx.x * THREADS + threadIdx.x);
    if (i >= w.n * subs) return;
    const struct grid_how h = how_of(w);
    struct super_block *sb = &w.super[i / subs];
    const int k = i % subs;
    if (!sb->live) return;
    sb->scale[k] = w.spec.shift == SHIFT_NONE ? grid_conv_sub(&h, &sb->d, k, &sb->b)
                                              : iq1_conv_sub(&h, &sb->d, k, &sb->b);
}

/* Completes the blocks of the conventional search, one thread per super-block. */
CU_KERNEL __launch_bounds__(THREADS) conventional_blocks(CU_PARAM(struct wave) w) {
    const int i = (int)(blockIdx.x * THREADS + threadIdx.x);
    if (i >= w.n || !w.super[i].live) return;
    const struct grid_how h = how_of(w);
    struct super_block *sb = &w.super[i];
    if (w.spec.shift == SHIFT_NONE)
        grid_conv_close(&h, sb->scale, &sb->b);
    else
        iq1_conv_close(&h, &sb->d, sb->scale, &sb->b);
}

/* Computes chains with eight threads per octet and variant. PAIR: entries of 4 weights with
 * parity. */
template <bool PAIR> CU_KERNEL __launch_bounds__(CHAIN_THREADS) chains(CU_PARAM(struct wave) w) {
    enum { N = CHAIN_THREADS / LANES };
    CU_SHARED(struct grid_room, room, [N]);
    CU_SHARED(struct chain, flipped, [PAIR ? N : 1][2]);
    const int g = (int)threadIdx.x / LANES, ways = w.ways;
    const int i = (int)blockIdx.x * N + g, o = i / ways % (QK / 8), way = i % ways;
    const int at = i / ways / (QK / 8);
    if (at >= w.n || !w.super[at].live) return;
    const struct grid_how h = how_of(w);
    octet_chains(&h, &w.super[at].d, &room[g], PAIR ? flipped[g] : NULL, o, way,
                 &w.job[at].chain[grid_chain_at(&w.spec, o, way)]);
}

/* Chooses scales, one warp per super-block. */
CU_KERNEL __launch_bounds__(THREADS) scales(CU_PARAM(struct wave) w) {
    const int i = (int)(blockIdx.x * THREADS + threadIdx.x) / 32;
    if (i >= w.n || !w.super[i].live) return;
    const struct grid_how h = how_of(w);
    grid_search(&h, &w.super[i].d, &w.job[i], &w.super[i].b);
}

/* Packs blocks, one thread per super-block. */
template <class PACK> CU_KERNEL __launch_bounds__(THREADS) pack_blocks(CU_PARAM(struct wave) w) {
    const int i = (int)(blockIdx.x * THREADS + threadIdx.x);
    if (i < w.n) PACK::pack(w.out + (w.first + i) * w.block_bytes, &w.super[i].b);
}

/* Balances rows, one warp per row: all threads compute products, then one thread per sum adds them
 * in order. y holds the decoded rows. */
CU_KERNEL __launch_bounds__(32) raise_rows(CU_PARAM(struct wave) w, const float *y) {
    CU_SHARED(double, term, [2][TERMS]);
    const int64_t row = blockIdx.x;
    const int lane = (int)threadIdx.x;
    const float *x = w.x + row * w.k, *yr = y + row * w.k;
    const float *imp = w.imp ? w.imp + (w.imp_first + row) / w.imp_rows * w.k : NULL;
    double sum = 0;
    if (w.bad[row] > ENC_ROW_LARGE) return;
    for (int64_t at = 0; at < w.k; at += TERMS) {
        for (int i = lane; i < TERMS; i += 32) {
            double t[2];
            enc_grid_terms(x[at + i], imp ? &imp[at + i] : NULL, yr[at + i], t);
            term[0][i] = t[0];
            term[1][i] = t[1];
        }
        cu_syncwarp();
        for (int i = 0; lane < 2 && i < TERMS; i++) sum += term[lane][i];
        cu_syncwarp();
    }
    if (lane < 2) term[lane][0] = sum;
    cu_syncwarp();
    const double gain = enc_gain(term[0][0], term[1][0]);
    for (int b = lane; b < w.blocks; b += 32)
        enc_grid_raise(w.spec.type, w.out + (row * w.blocks + b) * w.block_bytes, gain);
}

typedef void (*wave_fn)(struct wave);
#define PACKER(T)                                                                                  \
    struct pack_##T {                                                                              \
        CU_DEV void pack(uint8_t *blk, const struct grid_block *b) {                               \
            enc_pack_##T(blk, b);                                                                  \
        }                                                                                          \
    };
ENC_GRID_TYPES(PACKER)
#undef PACKER
static const struct packer {
    enum qtype type;
    wave_fn fn;
} packers[] = {
#define ROW(T) {QT_##T, pack_blocks<struct pack_##T>},
    ENC_GRID_TYPES(ROW)
#undef ROW
};

/* Returns the packer of a grid type, or NULL. */
static const struct packer *packer_of(enum qtype t) {
    for (size_t i = 0; i < sizeof packers / sizeof packers[0]; i++)
        if (packers[i].type == t) return &packers[i];
    return NULL;
}

bool enc_cuda_grid_can(enum qtype t) {
    return packer_of(t) != NULL;
}

/* Byte offsets of the parts of `work`. */
struct parts {
    uint64_t super, job, y, all;
};
/* Returns the offsets of the work memory's parts for n rows of k values. */
static struct parts parts_of(enum search search, int64_t n, int64_t k) {
    const uint64_t in_wave = (uint64_t)min_i64(n * (k / QK), WAVE);
    struct parts p;
    p.super = 0;
    p.job = round_up(in_wave * sizeof(struct super_block), 256);
    p.y = p.job;
    if (search != SEARCH_CONVENTIONAL) p.y += round_up(in_wave * sizeof(struct grid_job), 256);
    p.all = p.y + round_up((uint64_t)(n * k) * sizeof(float), 256);
    return p;
}

uint64_t enc_cuda_grid_work(enum search search, int64_t n, int64_t k) {
    return parts_of(search, n, k).all;
}

/* Returns the arguments of the kernels, with pointers into the work memory. */
static struct wave wave_of(const struct enc_cuda_rows *a, const struct parts *p) {
    const struct grid_how h = grid_how_of(a->type, a->search);
    uint8_t *work = (uint8_t *)a->work;
    struct wave w = {};
    w.spec = *h.s;
    w.how = h;
    w.how.lev = (const float *)a->tables;
    if (h.near) {
        w.near = *h.near;
        w.near.start = (const int32_t *)(w.how.lev + 8 * GRID_MAX);
        w.near.list = (const uint16_t *)(w.near.start + w.near.n_start);
        w.near.code = (uint8_t(*)[8])(w.near.list + w.near.n_list);
    }
    w.blocks = (int)(a->k / QK);
    w.ways = w.spec.shift == SHIFT_SUB ? 2 : 1;
    w.k = a->k;
    w.x = a->x;
    w.imp = a->imp;
    w.imp_rows = a->imp_rows;
    w.imp_first = a->imp_first;
    w.bad = a->bad;
    w.super = (struct super_block *)(work + p->super);
    w.job = (struct grid_job *)(work + p->job);
    w.out = a->out;
    w.block_bytes = qtype_info(a->type)->block_bytes;
    return w;
}

/* Returns the number of CUDA blocks for n items, `per` to a block. */
static unsigned blocks_for(int64_t n, int per) {
    return (unsigned)div_up(n, per);
}

/* Encodes the blocks of one wave. */
static int run_wave(struct cu_stream *s, const struct wave *wave, struct err *e) {
    const struct wave w = *wave;
    const enum search search = w.how.search;
    const bool pair = w.spec.parity && w.spec.per == 4;
    const wave_fn chain = pair ? chains<true> : chains<false>, pack = packer_of(w.spec.type)->fn;
    if (search != SEARCH_FAST) {
        CU_LAUNCH(e, weigh, blocks_for(w.n, GROUPS), THREADS, 0, s, w, true, true);
        CU_LAUNCH(e, conventional_subs, blocks_for(w.n * (QK / w.spec.sub), THREADS), THREADS, 0, s,
                  w);
        CU_LAUNCH(e, conventional_blocks, blocks_for(w.n, THREADS), THREADS, 0, s, w);
    }
    if (search != SEARCH_CONVENTIONAL) {
        const int octets = w.n * (QK / 8) * w.ways;
        CU_LAUNCH(e, weigh, blocks_for(w.n, GROUPS), THREADS, 0, s, w, false,
                  search == SEARCH_FAST);
        CU_LAUNCH(e, chain, blocks_for(octets, CHAIN_THREADS / LANES), CHAIN_THREADS, 0, s, w);
        CU_LAUNCH(e, scales, blocks_for(w.n, THREADS / 32), THREADS, 0, s, w);
    }
    CU_LAUNCH(e, pack, blocks_for(w.n, THREADS), THREADS, 0, s, w);
    return 0;
}

int enc_cuda_grid_rows(struct cu_stream *s, const struct enc_cuda_rows *a, struct err *e) {
    const struct parts p = parts_of(a->search, a->n, a->k);
    struct wave w = wave_of(a, &p);
    float *y = (float *)((uint8_t *)a->work + p.y);
    for (const int64_t all = a->n * w.blocks; w.first < all; w.first += w.n) {
        w.n = (int)min_i64(a->wave ? a->wave : WAVE, all - w.first);
        TRY(run_wave(s, &w, e));
    }
    if (!a->balance) return 0;
    TRY(cu_decode_rows(s, a->type, a->out, a->k, NULL, a->n, 1, y, a->k, e));
    CU_LAUNCH(e, raise_rows, (unsigned)a->n, 32, 0, s, w, y);
    return 0;
}
