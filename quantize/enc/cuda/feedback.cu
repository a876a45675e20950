// SPDX-License-Identifier: MIT
/* quantize/enc/cuda/feedback.cu - device launches of error feedback (../../feedback.c) for types
 * with one code per weight. Not run on a GPU yet.
 *
 * The steps are those of the CPU, for all rows at once: what happens within a window of a row is
 * lanes_fb.h, by eight threads a row; what reaches other columns is a product over rows, in which a
 * thread makes the sums of its elements in the CPU's order. So the bytes are the CPU's. The row's
 * arrays are in global memory: eight threads read and write neighboring columns.
 *
 * A window of 256 columns takes 2 launches in the pass, 7 in a round of descent and 5 more in the
 * last round, for types with blocks of 256. Blocks of 32 take their own launches, one after
 * another. */
#include "quantize/enc/cuda/families.cuh"

#include "quantize/enc/lanes_fb.h"

extern "C" {
#include "quantize/enc/cuda/feedback.h"
}

enum { THREADS = 64, GROUPS = THREADS / LANES, COLUMNS = 256 };

struct fb_job {
    struct enc_spec spec;
    struct enc_how how; /* how.s is set in the kernel */
    struct fb_cols cols;
    int64_t rows, w0, w1; /* w0, w1: the window */
    int64_t c0;           /* first column of the current block */
    int n;                /* weights per block */
    int per;              /* rows that a group searches together */
    int block_bytes;
    const float *x;
    float *u, *acc, *g, *v;      /* [rows][cols.n] */
    float *p;                    /* [rows][FB_WINDOW] */
    float *a, *b, *ra, *rb;      /* [rows][n] units of d and m, and R times them */
    float *y, *d;                /* [groups][256] targets and search weights */
    double *sums;                /* [rows][2] v R v and v R u, for the balance */
    struct enc_raw *open, *mine; /* [blocks][rows]; [rows] */
    uint8_t *out;
    bool balance;
};

CU_DEV int64_t group_of(void) {
    return ((int64_t)blockIdx.x * THREADS + threadIdx.x) / LANES;
}
CU_DEV struct fb_row row_of(const struct fb_job &j, int64_t row) {
    const int64_t n = j.cols.n;
    struct fb_row r = {};
    r.x = j.x + row * n;
    r.u = j.u + row * n;
    r.acc = j.acc + row * n;
    r.g = j.g + row * n;
    r.w0 = j.w0;
    r.w1 = j.w1;
    r.v = j.v + row * n;
    r.p = j.p + row * FB_WINDOW;
    return r;
}
/* Returns a row's open block at column c0. */
CU_DEV struct enc_raw *open_of(const struct fb_job &j, int64_t row) {
    return j.open + j.c0 / j.n * j.rows + row;
}

/* ---- within a block -------------------------------------------------------------------------- */

/* Fits the scales of the block at c0 to the targets and chooses its codes; eight threads for a
 * super-block of one row, or for blocks of 32 of eight rows. */
template <class F> CU_KERNEL __launch_bounds__(THREADS) pass(CU_PARAM(struct fb_job) j) {
    CU_SHARED(float, room_x, [GROUPS][LANES_ROOM]);
    CU_SHARED(float, room_w, [GROUPS][LANES_ROOM]);
    const int g = (int)threadIdx.x / LANES, n = j.n;
    const int64_t first = group_of() * j.per;
    if (first >= j.rows) return;
    const int rows = (int)cu_min(j.per, j.rows - first);
    const struct lanes_mem mem = {room_x[g], room_w[g], j.mine + first};
    float *y = j.y + group_of() * QK, *d = j.d + group_of() * QK;
    struct enc_raw *o = open_of(j, first);
    struct enc_how how = j.how;
    how.s = &j.spec;
    for (int k = 0; k < rows; k++) {
        const struct fb_row r = row_of(j, first + k);
        for (int i = lane_of(); i < n; i += LANES) {
            const int64_t c = j.c0 + i;
            y[k * n + i] = fb_target(r.x[c], r.acc[c], j.cols.s[c]);
            d[k * n + i] = j.cols.imp[c] * j.cols.diag[c];
        }
    }
    lanes_sync();
    F::search(&how, &mem, y, d, rows, o);
    lanes_sync();
    for (int k = 0; k < rows; k++) {
        struct fb_row r = row_of(j, first + k);
        fb_choose(&j.cols, &r, o + k, y + k * n, j.c0);
    }
}

CU_KERNEL __launch_bounds__(THREADS) integers(CU_PARAM(struct fb_job) j) {
    CU_SHARED(struct enc_ints, trial, [GROUPS]);
    const int64_t row = group_of();
    if (row >= j.rows) return;
    struct fb_row r = row_of(j, row);
    fb_ints(&j.cols, &r, 1, open_of(j, row), j.c0, &trial[threadIdx.x / LANES]);
}

CU_KERNEL __launch_bounds__(THREADS) units(CU_PARAM(struct fb_job) j) {
    const int64_t row = group_of();
    if (row < j.rows) fb_units(&j.cols, open_of(j, row), j.a + row * j.n, j.b + row * j.n, j.c0);
}

CU_KERNEL __launch_bounds__(THREADS) scales(CU_PARAM(struct fb_job) j) {
    const int64_t row = group_of(), at = row * j.n;
    if (row >= j.rows) return;
    struct fb_row r = row_of(j, row);
    fb_scales(&j.cols, &r, open_of(j, row), j.a + at, j.ra + at, j.b + at, j.rb + at, j.c0);
}

CU_KERNEL __launch_bounds__(THREADS) codes(CU_PARAM(struct fb_job) j) {
    const int64_t row = group_of();
    if (row >= j.rows) return;
    struct fb_row r = row_of(j, row);
    fb_codes(&j.cols, &r, open_of(j, row), j.c0);
}

/* ---- balance and packing --------------------------------------------------------------------- */

/* Computes v = s x. */
CU_KERNEL __launch_bounds__(COLUMNS) scaled(CU_PARAM(struct fb_job) j) {
    const int64_t i = (int64_t)blockIdx.x * COLUMNS + threadIdx.x;
    if (i < j.rows * j.cols.n) j.v[i] = j.cols.s[i % j.cols.n] * j.x[i];
}

/* Adds dot products of the window to the rows' sums: fb_weigh, stage by stage. */
template <enum fb_stage STAGE>
CU_KERNEL __launch_bounds__(THREADS) weigh(CU_PARAM(struct fb_job) j) {
    const int64_t row = group_of();
    if (row >= j.rows) return;
    const struct fb_row r = row_of(j, row);
    double sums[2] = {j.sums[2 * row], j.sums[2 * row + 1]};
    fb_weigh(&r, STAGE, sums);
    lanes_sync();
    if (!lane_one()) return;
    j.sums[2 * row] = sums[0];
    j.sums[2 * row + 1] = sums[1];
}

/* Packs blocks, a thread per block. */
template <class CLOSE> CU_KERNEL __launch_bounds__(THREADS) close_rows(CU_PARAM(struct fb_job) j) {
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, blocks = j.cols.n / j.n;
    if (i >= j.rows * blocks) return;
    const int64_t row = i / blocks, b = i % blocks;
    struct enc_raw *o = j.open + b * j.rows + row;
    const double *sum = j.sums + 2 * row;
    if (j.balance) enc_rescale_block(o, enc_gain(sum[0], sum[0] - sum[1]));
    CLOSE::pack(o, j.out + i * j.block_bytes);
}

/* ---- launches -------------------------------------------------------------------------------- */

typedef void (*fb_fn)(struct fb_job);
static const fb_fn families[] = {pass<struct aff_family>, pass<struct sym_family>,
                                 pass<struct b32_family>}; /* enum enc_family */
static const struct finish {
    enum qtype type;
    fb_fn fn;
} finishes[] = {
#define ROW(T) {QT_##T, close_rows<struct close_##T>},
    ENC_RAW_TYPES(ROW)
#undef ROW
};

/* Returns the packer of a type; NULL: not supported on the GPU. */
static fb_fn finish_of(enum qtype t) {
    for (size_t i = 0; i < sizeof finishes / sizeof finishes[0]; i++)
        if (finishes[i].type == t) return finishes[i].fn;
    return NULL;
}

bool enc_cuda_feedback_can(enum qtype t) {
    return finish_of(t) != NULL;
}

/* Takes n_bytes of the work memory from *used on. */
static void *take(void *work, uint64_t *used, uint64_t n_bytes) {
    void *p = work ? (uint8_t *)work + *used : NULL;
    *used += round_up(n_bytes, 256);
    return p;
}

/* Points the job's arrays into the work memory; NULL: only computes its size. Returns the size. */
static uint64_t lay_out(struct fb_job *j, void *work) {
    const uint64_t rows = (uint64_t)j->rows, all = rows * (uint64_t)j->cols.n * sizeof(float);
    const uint64_t block = rows * (uint64_t)j->n * sizeof(float),
                   groups = (uint64_t)div_up(j->rows, j->per);
    uint64_t used = 0;
    j->u = (float *)take(work, &used, all);
    j->acc = (float *)take(work, &used, all);
    j->g = (float *)take(work, &used, all);
    j->v = (float *)take(work, &used, all);
    j->p = (float *)take(work, &used, rows * FB_WINDOW * sizeof *j->p);
    j->a = (float *)take(work, &used, block);
    j->b = (float *)take(work, &used, block);
    j->ra = (float *)take(work, &used, block);
    j->rb = (float *)take(work, &used, block);
    j->y = (float *)take(work, &used, groups * QK * sizeof *j->y);
    j->d = (float *)take(work, &used, groups * QK * sizeof *j->d);
    j->sums = (double *)take(work, &used, rows * 2 * sizeof *j->sums);
    j->open =
        (struct enc_raw *)take(work, &used, rows * (uint64_t)(j->cols.n / j->n) * sizeof *j->open);
    j->mine = (struct enc_raw *)take(work, &used, groups * (uint64_t)j->per * sizeof *j->mine);
    return used;
}

/* Sets what depends on the type. */
static void set_type(struct fb_job *j, enum qtype t, enum search search) {
    const struct qtype_info *qi = qtype_info(t);
    j->spec = *enc_blocks_find(t)->spec;
    j->how = enc_how_of(&j->spec, search);
    j->n = qi->block_elems;
    j->per = j->n == QK ? 1 : LANES;
    j->block_bytes = qi->block_bytes;
}

uint64_t enc_cuda_feedback_work(enum qtype t, int64_t rows, int64_t n) {
    struct fb_job j = {};
    j.rows = rows;
    j.cols.n = n;
    set_type(&j, t, SEARCH_FAST);
    return lay_out(&j, NULL);
}

static unsigned blocks_for(int64_t n, int64_t per) {
    return (unsigned)div_up(n, per);
}

/* Returns the first column of the block of R that contains column c, and the end of that block. */
static int64_t block_start(const struct fb_job *j, int64_t c) {
    return c / j->cols.block * j->cols.block;
}
static int64_t block_end(const struct fb_job *j, int64_t c) {
    return min_i64(j->cols.n, block_start(j, c) + j->cols.block);
}

/* Adds columns [from, stop) of `a` times m, which is M or R, to columns [to, end). a and c are the
 * first row's arrays at columns `from` and `to`; rows of c are ldc apart. fresh: overwrites c. */
static int add_product(struct cu_stream *s, const struct fb_job *j, const float *m, const float *a,
                       int64_t from, int64_t stop, float *c, int64_t ldc, int64_t to, int64_t end,
                       bool fresh, struct err *e) {
    struct cu_multiply p = {};
    p.c = c;
    p.a = a;
    p.b = m + from * j->cols.block + to % j->cols.block;
    p.ldc = ldc;
    p.lda = j->cols.n;
    p.ldb = j->cols.block;
    p.m = j->rows;
    p.k = stop - from;
    p.n = end - to;
    p.fresh = fresh;
    return cu_multiply(s, &p, e);
}
/* Adds the errors of columns [from, stop) to acc of columns [to, end). */
static int pass_later(struct cu_stream *s, const struct fb_job *j, int64_t from, int64_t stop,
                      int64_t to, int64_t end, struct err *e) {
    return add_product(s, j, j->cols.m, j->u + from, from, stop, j->acc + to, j->cols.n, to, end,
                       false, e);
}

/* Computes out = R v over the columns of the current block; rows of out and v have n values. */
static int times_block(struct cu_stream *s, const struct fb_job *j, float *out, const float *v,
                       struct err *e) {
    struct cu_multiply p = {};
    p.c = out;
    p.a = v;
    p.b = j->cols.r + j->c0 * j->cols.block + j->c0 % j->cols.block;
    p.ldc = p.lda = j->n;
    p.ldb = j->cols.block;
    p.m = j->rows;
    p.k = p.n = j->n;
    p.fresh = true;
    return cu_multiply(s, &p, e);
}

/* Sets the window that begins at w0. */
static void set_window(struct fb_job *j, int64_t w0) {
    j->w0 = w0;
    j->w1 = min_i64(block_end(j, w0), w0 + FB_WINDOW);
}

/* Chooses scales and codes in column order. */
static int do_pass(struct cu_stream *s, struct fb_job *j, struct err *e) {
    const fb_fn fn = families[j->spec.family];
    const unsigned grid = blocks_for(div_up(j->rows, j->per), GROUPS);
    for (int64_t w0 = 0; w0 < j->cols.n; w0 = j->w1) {
        set_window(j, w0);
        for (j->c0 = w0; j->c0 < j->w1; j->c0 += j->n) {
            CU_LAUNCH(e, fn, grid, THREADS, 0, s, *j);
            TRY(pass_later(s, j, j->c0, j->c0 + j->n, j->c0 + j->n, j->w1, e));
        }
        TRY(pass_later(s, j, w0, j->w1, j->w1, block_end(j, w0), e));
    }
    return 0;
}

/* Changes integers, scales and codes of the current block where that lowers the rows' errors. */
static int descend_block(struct cu_stream *s, const struct fb_job *j, unsigned steps,
                         struct err *e) {
    const unsigned grid = blocks_for(j->rows, GROUPS);
    if (steps & FEEDBACK_INTS && j->spec.family != ENC_B32)
        CU_LAUNCH(e, integers, grid, THREADS, 0, s, *j);
    if (steps & FEEDBACK_SCALES) {
        CU_LAUNCH(e, units, grid, THREADS, 0, s, *j);
        TRY(times_block(s, j, j->ra, j->a, e));
        if (j->spec.family == ENC_AFF || j->spec.affine) TRY(times_block(s, j, j->rb, j->b, e));
        CU_LAUNCH(e, scales, grid, THREADS, 0, s, *j);
    }
    if (steps & FEEDBACK_CODES) CU_LAUNCH(e, codes, grid, THREADS, 0, s, *j);
    return 0;
}

/* Adds the window's shares of v R v and v R u to the sums, before u changes in it; as
 * weigh_window() of ../../feedback.c. */
static int weigh_window(struct cu_stream *s, const struct fb_job *j, struct err *e) {
    const unsigned grid = blocks_for(j->rows, GROUPS);
    const int64_t w0 = j->w0, w1 = j->w1, b0 = block_start(j, w0);
    TRY(add_product(s, j, j->cols.r, j->v + b0, b0, w0, j->p, FB_WINDOW, w0, w1, true, e));
    CU_LAUNCH(e, weigh<FB_BEFORE>, grid, THREADS, 0, s, *j);
    TRY(add_product(s, j, j->cols.r, j->v + w0, w0, w1, j->p, FB_WINDOW, w0, w1, false, e));
    CU_LAUNCH(e, weigh<FB_WITHIN>, grid, THREADS, 0, s, *j);
    return 0;
}

/* Makes round t of descent, window by window. last: also computes the sums for the balance. */
static int descend(struct cu_stream *s, struct fb_job *j, const struct enc_cuda_feedback *a, int t,
                   bool last, struct err *e) {
    for (int64_t w0 = 0; w0 < j->cols.n; w0 = j->w1) {
        set_window(j, w0);
        const int64_t b0 = block_start(j, w0);
        TRY(add_product(s, j, j->cols.r, j->u + b0, b0, block_end(j, w0), j->g + w0, j->cols.n, w0,
                        j->w1, true, e));
        if (last) TRY(weigh_window(s, j, e));
        for (j->c0 = w0; j->c0 < j->w1 && t < a->rounds; j->c0 += j->n)
            TRY(descend_block(s, j, a->steps, e));
        if (last) CU_LAUNCH(e, weigh<FB_AFTER>, blocks_for(j->rows, GROUPS), THREADS, 0, s, *j);
    }
    return 0;
}

int enc_cuda_feedback(struct cu_stream *s, const struct enc_cuda_feedback *a, struct err *e) {
    const fb_fn close = finish_of(a->type);
    const uint64_t n_bytes = (uint64_t)(a->rows * a->cols.n) * sizeof(float);
    struct fb_job j = {};
    if (!close || a->rows < 1 || a->rows > 65535 || a->cols.block > INT32_MAX)
        return err_set(e, ERR_USAGE, "CUDA: no error feedback for %lld rows in %s",
                       (long long)a->rows, qtype_name(a->type));
    j.rows = a->rows;
    j.cols = a->cols;
    j.x = a->x;
    j.out = a->out;
    j.balance = (a->steps & FEEDBACK_BALANCE) != 0;
    set_type(&j, a->type, a->search);
    lay_out(&j, a->work);
    TRY(cu_fill(s, j.acc, 0, n_bytes, e));
    TRY(cu_fill(s, j.sums, 0, (uint64_t)j.rows * 2 * sizeof *j.sums, e));
    TRY(do_pass(s, &j, e));
    if (j.balance) CU_LAUNCH(e, scaled, blocks_for(j.rows * j.cols.n, COLUMNS), COLUMNS, 0, s, j);
    for (int t = 0; t < a->rounds || (t == 0 && j.balance); t++)
        TRY(descend(s, &j, a, t, j.balance && t + 1 >= a->rounds, e));
    CU_LAUNCH(e, close, blocks_for(j.rows * (j.cols.n / j.n), THREADS), THREADS, 0, s, j);
    return 0;
}
