// SPDX-License-Identifier: MIT
/* quantize/enc/cuda/rows.cu - device launches of the block searches.
 *
 * Eight threads process a super-block of 256 weights, or eight blocks of 32, from loading to final
 * codes; then eight threads balance and pack a row. Work memory per row: n_blocks raw blocks (368
 * bytes each), twice (the second set for the comparison in best mode), and a mean square. */
#include "quantize/enc/cuda/families.cuh"

extern "C" {
#include "quantize/enc/cuda/rows.h"
}

enum { THREADS = 64, GROUPS = THREADS / LANES };

struct rows_job {
    struct enc_spec spec;
    struct enc_how how; /* how.s is set in the kernel */
    int64_t n, k;
    int block;  /* weights per block */
    int blocks; /* per row */
    int tiles;  /* per row: parts that a group processes at once (a super-block, or eight blocks of
                   32) */
    int block_bytes; /* bytes of a block */
    const float *x, *imp;
    int64_t imp_rows, imp_first;
    float *row_mean2; /* NULL: not needed */
    struct enc_raw *open, *mine;
    uint8_t *out;
    int32_t *bad;
    bool balance;
};

CU_DEV int64_t group_of(void) {
    return ((int64_t)blockIdx.x * THREADS + threadIdx.x) / LANES;
}
CU_DEV const float *importance_of(const struct rows_job &j, int64_t row) {
    return j.imp ? j.imp + (j.imp_first + row) / j.imp_rows * j.k : NULL;
}

/* Finds weights that are not finite or very large, one thread block per row. */
CU_KERNEL __launch_bounds__(THREADS) check_rows(const float *x, int64_t k, int32_t *bad) {
    const int64_t row = blockIdx.x;
    for (int64_t i = threadIdx.x; i < k; i += THREADS) {
        const float v = fabsf(x[row * k + i]);
        if (v <= ENC_LARGE) continue;
        cu_atomic_max(&bad[row], v <= FLT_MAX ? ENC_ROW_LARGE : (int)(k - i) + ENC_ROW_LARGE);
        if (!(v <= FLT_MAX)) return; /* the first such weight of this thread */
    }
}

/* Computes the means of rows, one group per row. */
CU_KERNEL __launch_bounds__(THREADS) row_means(CU_PARAM(struct rows_job) j) {
    const int64_t row = group_of();
    if (row >= j.n) return;
    const float m = mean2(j.x + row * j.k, (int)j.k, (int)j.k);
    if (lane_of() == 0) j.row_mean2[row] = m;
}

template <class F> CU_KERNEL __launch_bounds__(THREADS) open_blocks(CU_PARAM(struct rows_job) j) {
    CU_SHARED(float, room_x, [GROUPS][LANES_ROOM]);
    CU_SHARED(float, room_w, [GROUPS][LANES_ROOM]);
    const int64_t row = group_of() / j.tiles;
    if (row >= j.n || j.bad[row] > ENC_ROW_LARGE) return;
    const int per = j.block == QK ? 1 : LANES, first = (int)(group_of() % j.tiles) * per;
    const int64_t block = row * j.blocks + first, col = (int64_t)first * j.block;
    const float *imp = importance_of(j, row);
    const int g = (int)threadIdx.x / LANES;
    const struct lanes_mem mem = {room_x[g], room_w[g], j.mine + block};
    struct enc_how how = j.how;
    how.s = &j.spec;
    how.row_mean2 = j.row_mean2 ? j.row_mean2[row] : 0;
    F::search(&how, &mem, j.x + row * j.k + col, imp ? imp + col : NULL,
              (int)cu_min(per, j.blocks - first), j.open + block);
}

/* Balances and packs rows, one group per row: preserves the row's product with itself
 * (enc_row_balanced), then each lane packs blocks. */
template <class CLOSE>
CU_KERNEL __launch_bounds__(THREADS) finish_rows(CU_PARAM(struct rows_job) j) {
    const int64_t row = group_of();
    if (row >= j.n || j.bad[row] > ENC_ROW_LARGE) return;
    const float *x = j.x + row * j.k, *imp = importance_of(j, row);
    struct enc_raw *o = j.open + row * j.blocks;
    double sums[2] = {0, 0};
    for (int b = 0; b < j.blocks && j.balance; b++)
        balance(&o[b], x + b * j.block, imp ? imp + b * j.block : NULL, sums);
    for (int b = lane_of(); b < j.blocks; b += LANES) {
        if (j.balance) enc_rescale_block(&o[b], enc_gain(sums[0], sums[1]));
        CLOSE::pack(&o[b], j.out + (row * j.blocks + b) * j.block_bytes);
    }
}

typedef void (*rows_fn)(struct rows_job);
static const rows_fn families[] = {open_blocks<struct aff_family>, open_blocks<struct sym_family>,
                                   open_blocks<struct b32_family>}; /* enum enc_family */

static const struct finish {
    enum qtype type;
    rows_fn fn;
} finishes[] = {
#define ROW(T) {QT_##T, finish_rows<struct close_##T>},
    ENC_RAW_TYPES(ROW)
#undef ROW
};

/* Returns the table row of a type; NULL: not supported on the GPU. */
static const struct finish *finish_of(enum qtype t) {
    for (size_t i = 0; i < sizeof finishes / sizeof finishes[0]; i++)
        if (finishes[i].type == t) return &finishes[i];
    return NULL;
}

bool enc_cuda_can(enum qtype t) {
    return finish_of(t) || enc_cuda_grid_can(t);
}

/* Returns the size of the scratch in bytes: the raw blocks, a second set to compare with, and one
 * float per row. */
uint64_t enc_cuda_work(enum qtype t, enum search search, int64_t n, int64_t k) {
    const uint64_t blocks = (uint64_t)(n * (k / qtype_info(t)->block_elems));
    if (enc_cuda_grid_can(t)) return enc_cuda_grid_work(search, n, k);
    return round_up(2 * blocks * sizeof(struct enc_raw) + (uint64_t)n * sizeof(float), 256);
}

/* Returns the kernel's arguments, with its work memory laid out. */
static struct rows_job job_of(const struct enc_cuda_rows *a) {
    const struct qtype_info *qi = qtype_info(a->type);
    struct rows_job j = {};
    j.spec = *enc_blocks_find(a->type)->spec;
    j.how = enc_how_of(&j.spec, a->search);
    j.n = a->n;
    j.k = a->k;
    j.block = qi->block_elems;
    j.blocks = (int)(a->k / j.block);
    j.tiles = j.block == QK ? j.blocks : (int)div_up(j.blocks, LANES);
    j.block_bytes = qi->block_bytes;
    j.x = a->x;
    j.imp = a->imp;
    j.imp_rows = a->imp_rows;
    j.imp_first = a->imp_first;
    j.open = (struct enc_raw *)a->work;
    j.mine = j.open + j.n * j.blocks;
    if (a->imp && enc_needs_row_mean2(&j.how)) j.row_mean2 = (float *)(j.mine + j.n * j.blocks);
    j.out = a->out;
    j.bad = a->bad;
    j.balance = a->balance;
    return j;
}

/* Returns the number of CUDA blocks for this number of groups of lanes. */
static unsigned blocks_for(int64_t groups) {
    return (unsigned)div_up(groups, GROUPS);
}

/* Queues the search and encoding of the rows' blocks. Call after check_rows, which marks rows with
 * values that are not finite. */
static int open_rows(struct cu_stream *s, const struct enc_cuda_rows *a, struct err *e) {
    const struct rows_job j = job_of(a);
    const rows_fn open = families[j.spec.family], close = finish_of(a->type)->fn;
    if (j.row_mean2) CU_LAUNCH(e, row_means, blocks_for(j.n), THREADS, 0, s, j);
    CU_LAUNCH(e, open, blocks_for(j.n * j.tiles), THREADS, 0, s, j);
    CU_LAUNCH(e, close, blocks_for(j.n), THREADS, 0, s, j);
    return 0;
}

int enc_cuda_rows(struct cu_stream *s, const struct enc_cuda_rows *a, struct err *e) {
    if (!enc_cuda_can(a->type) || a->k > INT32_MAX || a->n > INT32_MAX / GROUPS)
        return err_set(e, ERR_USAGE, "CUDA: no search for %lld rows of %lld weights in %s",
                       (long long)a->n, (long long)a->k, qtype_name(a->type));
    TRY(cu_fill(s, a->bad, 0, (uint64_t)a->n * sizeof *a->bad, e));
    CU_LAUNCH(e, check_rows, (unsigned)a->n, THREADS, 0, s, a->x, a->k, a->bad);
    return finish_of(a->type) ? open_rows(s, a, e) : enc_cuda_grid_rows(s, a, e);
}
