// SPDX-License-Identifier: MIT
/* convert/xform.c - tensor transforms: compute and write one output tensor, in slabs of rows.
 *
 * A transform permutes rows (within one matrix of one source) or column groups, and applies at most
 * one function per element. Each output row depends on a single source row (or column, if
 * transposed), so the output is independent of slab size and thread count. Rows that already have
 * the output's dtype and need no arithmetic are copied bit for bit.
 *
 * Memory: one slab of SLAB_BYTES (or one row, if larger) and three f32 rows per worker; mapped
 * source pages are released every DROP_BYTES. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "convert/xform_int.h"
#include "base/bytes.h"
#include "base/fp.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/progress.h"
#include "containers/q8_0.h"

enum { SLAB_BYTES = 8 << 20, CHUNK_BYTES = 64 << 10 };
static const uint64_t drop_bytes = UINT64_C(64) << 20;

struct xform_buf {
    uint8_t *slab;
    uint64_t slab_bytes;
    float *rows; /* [n_workers][3][row_cap] f32 */
    int64_t row_cap;
    int n_workers;
    struct tally *tally; /* [n_workers] counts */
};

struct job {
    const struct conv_plan *p;
    const struct item *it;
    const struct xform_kind *k; /* functions and flags of it->xf */
    struct xform_buf *b;
    int64_t cols, rows;     /* shape of one output matrix */
    int64_t total;          /* rows of all matrices */
    int64_t src_cols;       /* source columns (fewer than cols when padded) */
    int64_t part, src_part; /* rows that are padded as a unit: a matrix, or half of a fused one */
    /* Rows per source matrix, and first source row of the extracted piece. */
    int64_t src_rows, row_step;
    int64_t first; /* first row of the slab, over all matrices */
    uint64_t row_bytes;
    bool copy;   /* same dtype and no arithmetic */
    bool halves; /* two sources per matrix, half of the rows each */
    bool turned; /* the source is [columns][rows] */
};

/* ---- source of an output row ----------------------------------------------------------------- */

struct placement {
    const struct dq *s; /* NULL: a padding row */
    int64_t mat, row;   /* position in the source */
};

/* Returns the shard and its row that hold a row of the whole matrix. */
static struct placement locate_shard(const struct job *j, int64_t row) {
    const int64_t *first = j->it->shard_row;
    int64_t lo = 0, hi = j->it->n_src;
    while (hi - lo > 1) {
        const int64_t mid = (lo + hi) / 2;
        if (first[mid] <= row)
            lo = mid;
        else
            hi = mid;
    }
    return (struct placement){&j->p->src[j->it->src + lo], 0, row - first[lo]};
}

/* Returns the source tensor, matrix and row of an output row. */
static struct placement locate_row(const struct job *j, int64_t out_row) {
    if (j->it->shard_row) return locate_shard(j, out_row);
    int64_t mat = out_row / j->rows, r = out_row % j->rows;
    const struct dq *s = &j->p->src[j->it->src];
    if (j->k->row) {
        r = j->k->row(&j->p->hp, &j->it->inst, r);
    } else if (j->k->is_latent) { /* the last rows of each head */
        r += (mat + 1) * xform_latent_head(&j->p->hp) - j->rows;
        mat = 0;
    } else {
        if (r % j->part >= j->src_part) return (struct placement){NULL, 0, 0};
        r = r / j->part * j->src_part + r % j->part + j->row_step;
        if (j->k->every && j->it->inst.n_dims == 3) r = 2 * r + j->k->every - 1;
    }
    if (j->halves) return (struct placement){s + 2 * mat + r / j->src_rows, 0, r % j->src_rows};
    return j->it->n_src > 1 ? (struct placement){s + mat, 0, r} : (struct placement){s, mat, r};
}

/* ---- one row ---- */

/* Loads a row whose values are not adjacent in a source of plain floats. */
static void load_spread(const struct job *j, const struct placement *at, float *dst) {
    const int64_t n = j->src_cols;
    const int64_t first =
        j->turned ? at->mat * n * j->src_rows + at->row : 2 * at->row * n + j->k->every - 1;
    const int64_t step = j->turned ? j->src_rows : 2;
    struct err ignored;
    for (int64_t i = 0; i < n; i++)
        if (st_to_f32(at->s->part[0], first + i * step, 1, dst + i, &ignored)) dst[i] = 0;
}

/* Decodes a source row to floats and adds the adapter's delta. */
static void load_row(const struct job *j, const struct placement *at, float *dst, float *scratch,
                     struct tally *t) {
    const struct dq *q = at->s;
    struct err ignored; /* shapes were checked in the plan */
    if (!dq_is_plain(q)) {
        if (!dq_row(q, at->mat, at->row, dst, scratch)) t->bad = q;
    } else if (j->turned || (j->k->every && j->it->inst.n_dims < 3)) {
        load_spread(j, at, dst);
    } else if (st_to_f32(q->part[0], (at->mat * j->src_rows + at->row) * j->src_cols, j->src_cols,
                         dst, &ignored))
        memset(dst, 0, (size_t)j->cols * sizeof *dst);
    if (q->delta)
        lora_add(q->delta, at->mat, at->row, j->src_cols, dst, scratch, scratch + j->b->row_cap);
}

/* Copies a row with groups of columns in GGUF's order; elements have `size` bytes. */
static void regroup_cols(const struct job *j, const uint8_t *src, uint8_t *dst, size_t size) {
    const int64_t g = xform_v_group(&j->p->hp, &j->it->inst);
    for (int64_t c = 0; c < j->cols; c += g)
        memcpy(dst + (size_t)c * size, src + (size_t)xform_v_old(&j->p->hp, g, c) * size,
               (size_t)g * size);
}

/* Counts the NaN and infinite values of a row. */
static void count_odd(const float *x, int64_t n, struct tally *t) {
    for (int64_t i = 0; i < n; i++) {
        t->n_nan += isnan(x[i]) != 0;
        t->n_inf += isinf(x[i]) != 0;
    }
}

/* Counts the NaN and infinite values of a row that is copied as bytes. */
static void count_odd_raw(enum st_dtype type, const uint8_t *p, int64_t n, struct tally *t) {
    const uint32_t inf = type == ST_F32 ? 0x7f800000u : type == ST_BF16 ? 0x7f80 : 0x7c00;
    for (int64_t i = 0; i < n; i++) {
        const uint32_t v =
            type == ST_F32 ? load_u32(p + 4 * i) & 0x7fffffffu : load_u16(p + 2 * i) & 0x7fffu;
        t->n_nan += v > inf;
        t->n_inf += v == inf;
    }
}

/* Encodes n values; counts those that became infinite or zero. */
static void encode_f16(const float *x, uint8_t *dst, int64_t n, struct tally *t) {
    for (int64_t i = 0; i < n; i++) {
        uint16_t v = fp_f32_to_f16(x[i]);
        store_u16(dst + 2 * i, v);
        t->n_overflow += (v & 0x7fff) == 0x7c00 && isfinite(x[i]);
        t->n_zeroed += !(v & 0x7fff) && x[i] != 0;
    }
}

/* Encodes n values; counts those that became infinite. */
static void encode_bf16(const float *x, uint8_t *dst, int64_t n, struct tally *t) {
    for (int64_t i = 0; i < n; i++) {
        uint16_t v = fp_f32_to_bf16(x[i]);
        store_u16(dst + 2 * i, v);
        t->n_overflow += (v & 0x7fff) == 0x7f80 && isfinite(x[i]);
    }
}

/* Encodes n values; counts those in blocks that became infinite or, with a scale of 0, zero. */
static void encode_q8_0(const float *x, uint8_t *dst, int64_t n, struct tally *t) {
    q8_0_row(x, dst, n);
    for (int64_t i = 0; i < n; i += 32) { /* a scale beyond f16 makes its block infinite */
        const uint16_t scale = load_u16(dst + 34 * (i / 32)) & 0x7fff;
        if (scale >= 0x7c00) t->n_overflow += 32;
        for (int k = 0; k < 32 && scale == 0; k++) t->n_zeroed += x[i + k] != 0;
    }
}

void xform_encode(enum qtype type, const float *x, uint8_t *dst, int64_t n, struct tally *t) {
    count_odd(x, n, t);
    const enum qtype_scale_kind kind = qtype_info(type)->scale.kind;
    if (kind == QS_F16)
        encode_f16(x, dst, n, t);
    else if (kind == QS_BF16)
        encode_bf16(x, dst, n, t);
    else if (kind == QS_F32)
        memcpy(dst, x, (size_t)n * sizeof *x);
    else /* the only quantized type of QF_CONVERT */
        encode_q8_0(x, dst, n, t);
}

/* Copies a row unchanged, except for the order of columns. */
static void copy_row(const struct job *j, const struct placement *at, uint8_t *dst,
                     struct tally *t) {
    const struct st_tensor *s = at->s->part[0];
    size_t size = (size_t)st_dtype_bytes(s->dtype);
    const uint8_t *src = s->data + (uint64_t)((at->mat * j->src_rows + at->row) * j->cols) * size;
    if (j->k->columns && xform_v_group(&j->p->hp, &j->it->inst))
        regroup_cols(j, src, dst, size);
    else
        memcpy(dst, src, (size_t)j->cols * size);
    count_odd_raw(s->dtype, dst, j->cols, t);
}

/* Computes output rows [begin, end) of XF_LATENT_K. Row r of a head is column r of the head's key
 * rows; these are read once per head. */
static void latent_rows(struct job *j, int64_t begin, int64_t end, int worker) {
    struct tally *t = &j->b->tally[worker];
    const int64_t n = j->cols, rank = j->rows; /* number of key rows, and their length */
    float *mat = j->b->rows + 3 * worker * j->b->row_cap, *row = mat + n * rank;
    int64_t have = -1;
    for (int64_t i = begin; i < end; i++) {
        const int64_t head = (j->first + i) / rank, column = (j->first + i) % rank;
        for (int64_t k = 0; k < n && have != head; k++)
            load_row(j,
                     &(struct placement){&j->p->src[j->it->src], 0,
                                         head * xform_latent_head(&j->p->hp) + k},
                     mat + k * rank, mat + j->b->row_cap, t);
        have = head;
        for (int64_t k = 0; k < n; k++) row[k] = mat[k * rank + column];
        xform_encode(j->it->type, row, j->b->slab + (uint64_t)i * j->row_bytes, n, t);
    }
}

/* Encodes n values as 32-bit integers; counts those that do not fit a float exactly. */
static void encode_i32(const float *x, uint8_t *dst, int64_t n, struct tally *t) {
    for (int64_t i = 0; i < n; i++) {
        const bool fits = fabsf(x[i]) < 0x1p24f;
        t->n_overflow += !fits;
        store_u32(dst + 4 * i, (uint32_t)(fits ? (int32_t)x[i] : 0));
    }
}

/* Does the same with 64-bit integers. */
static void encode_i64(const float *x, uint8_t *dst, int64_t n, struct tally *t) {
    for (int64_t i = 0; i < n; i++) {
        const bool fits = fabsf(x[i]) < 0x1p24f;
        t->n_overflow += !fits;
        store_u64(dst + 8 * i, (uint64_t)(fits ? (int64_t)x[i] : 0));
    }
}

/* Converts output rows [begin, end) of the slab. */
static void convert_rows(void *ctx, int64_t begin, int64_t end, int worker) {
    struct job *j = ctx;
    struct tally *t = &j->b->tally[worker];
    float *x = j->b->rows + 3 * worker * j->b->row_cap, *y = x + j->b->row_cap;
    if (j->it->xf == XF_LATENT_K) {
        latent_rows(j, begin, end, worker);
        return;
    }
    for (int64_t i = begin; i < end; i++) {
        uint8_t *dst = j->b->slab + (uint64_t)i * j->row_bytes;
        if (j->k->made) {
            for (int64_t c = 0; c < j->cols; c++) x[c] = j->k->made(&j->p->hp, c);
            xform_encode(j->it->type, x, dst, j->cols, t);
            continue;
        }
        struct placement at = locate_row(j, j->first + i);
        if (!at.s) {
            memset(x, 0, (size_t)j->cols * sizeof *x);
            xform_encode(j->it->type, x, dst, j->cols, t);
            continue;
        }
        if (j->it->type == QT_MXFP4 || j->it->type == QT_NVFP4) {
            if (!(j->it->type == QT_MXFP4 ? dq_mxfp4_blocks(at.s, at.mat, at.row, dst)
                                          : dq_nvfp4_blocks(at.s, at.mat, at.row, dst)))
                t->bad = at.s;
            continue;
        }
        if (j->copy) {
            copy_row(j, &at, dst, t);
            continue;
        }
        load_row(j, &at, x, y, t);
        memset(x + j->src_cols, 0, (size_t)(j->cols - j->src_cols) * sizeof *x);
        float *row = x;
        if (j->k->columns && xform_v_group(&j->p->hp, &j->it->inst)) {
            regroup_cols(j, (const uint8_t *)x, (uint8_t *)y, sizeof *x);
            row = y;
        }
        if (j->k->value)
            j->k->value(&j->p->hp, &j->it->inst, (j->first + i) % j->rows, row, j->cols);
        if (j->it->xf == XF_PRODUCT) {
            load_row(j, &(struct placement){at.s + 1, 0, 0}, y, y + j->b->row_cap, t);
            for (int64_t c = 0; c < j->cols; c++) row[c] *= y[c];
        }
        if (j->it->type == QT_I32)
            encode_i32(row, dst, j->cols, t);
        else if (j->it->type == QT_I64)
            encode_i64(row, dst, j->cols, t);
        else
            xform_encode(j->it->type, row, dst, j->cols, t);
    }
}

/* ---- one tensor ---- */

struct xform_buf *xform_buf_new(void) {
    return xcalloc(1, sizeof(struct xform_buf));
}

void xform_buf_free(struct xform_buf *b) {
    if (!b) return;
    mem_free(b->slab);
    mem_free(b->rows);
    free(b->tally);
    free(b);
}

/* Makes the buffers large enough for the tensor. */
static int reserve_buffers(struct xform_buf *b, const struct job *j, struct pool *pool,
                           struct err *e) {
    int n = pool_size(pool);
    uint64_t slab = j->row_bytes > SLAB_BYTES ? j->row_bytes : SLAB_BYTES, bytes;
    void *v;
    if (slab > b->slab_bytes) {
        mem_free(b->slab);
        b->slab = NULL;
        b->slab_bytes = 0;
        TRY(mem_alloc(&v, slab, "the conversion slab", e));
        b->slab = v;
        b->slab_bytes = slab;
    }
    const int64_t cap = j->it->xf == XF_LATENT_K ? j->cols * (j->rows + 1) : j->cols;
    if (cap > b->row_cap || n > b->n_workers) {
        mem_free(b->rows);
        b->rows = NULL;
        b->row_cap = 0;
        if (!mul_ok((uint64_t)cap, 3 * sizeof(float) * (uint64_t)n, &bytes))
            return err_set(e, ERR_DATA, "%s has rows that are too long", j->it->inst.name);
        TRY(mem_alloc(&v, bytes, "conversion rows", e));
        b->rows = v;
        b->row_cap = cap;
    }
    if (n > b->n_workers) {
        b->tally = xreallocarray(b->tally, (size_t)n, sizeof *b->tally);
        b->n_workers = n;
    }
    memset(b->tally, 0, (size_t)b->n_workers * sizeof *b->tally);
    return 0;
}

/* Decides how a tensor is converted: by copying or via floats. */
static void set_up_job(struct job *j) {
    const struct item *it = j->it;
    const struct xform_kind *k = j->k = xform_kind(it->xf);
    const struct hparams *h = &j->p->hp;
    const int64_t *ne = it->inst.ne;
    const bool vector = it->inst.n_dims == 1 && k->elements;
    j->cols = vector ? 1 : ne[0];
    j->rows = vector ? ne[0] : ne[1];
    int64_t from[4]; /* shape in the folder, in the order of ne */
    arch_shape(it->inst.row, &j->p->hp_src, it->inst.block, from);
    j->src_cols = vector ? 1 : from[0];
    j->src_rows = vector ? from[0] : from[1];
    const int rows_of = it->inst.row->dim[it->inst.n_dims - 2 < 0 ? 0 : it->inst.n_dims - 2];
    const int n_parts = rows_of == HD_FF_EXP2 || rows_of == HD_FF2;
    j->total = j->rows * ne[2] * ne[3];
    /* Stacked vectors. */
    if (it->n_src > 1 && it->inst.n_dims == 2 && !it->shard_row) j->rows = j->src_rows = 1;
    j->part = j->rows / (n_parts + 1);
    j->src_part = j->src_rows / (n_parts + 1);
    if (k->half || (k->every && it->inst.n_dims == 3)) j->src_rows *= 2;
    if (k->half == 2) j->row_step = j->src_part;
    j->halves = it->inst.n_dims == 3 && it->n_src == 2 * ne[2];
    if (j->halves) j->src_rows /= 2;
    if (k->is_qkv) j->src_rows = hp_dim(h, it->inst.block, HD_QKV_OUT);
    if (k->is_latent) {
        int64_t want[4];
        xform_latent_source(h, want);
        j->src_rows = want[0];
        j->src_cols = want[1];
    }
    j->row_bytes = qtype_row_bytes(it->type, j->cols);
    if (k->made) return;
    const struct dq *src = &j->p->src[it->src];
    const bool can_turn =
        (it->inst.n_dims == 3 && it->n_src == 1) || (it->xf == XF_TURN && it->inst.n_dims == 2);
    j->turned = k->turns && can_turn && dq_is_plain(src);
    enum st_dtype d = src->part[0]->dtype;
    bool same = true;
    for (int64_t i = 0; i < it->n_src; i++)
        same = same && dq_is_plain(&src[i]) && !src[i].delta && src[i].part[0]->dtype == d;
    enum qtype as_is;
    j->copy = same && !k->value && it->xf != XF_LATENT_K && it->xf != XF_PRODUCT && !k->turns &&
              j->src_cols == j->cols && st_dtype_qtype(d, &as_is) && as_is == it->type;
}

/* Drops the mapped source tensors. */
static void drop_sources(const struct job *j) {
    for (int64_t i = 0; i < j->it->n_src; i++) dq_drop(&j->p->src[j->it->src + i], j->p->dir);
}

/* Returns ERR_DATA if a worker found a damaged source. */
static int check_bad(const struct job *j, struct err *e) {
    for (int i = 0; i < j->b->n_workers; i++) {
        const struct dq *q = j->b->tally[i].bad;
        if (q)
            return err_set(e, ERR_DATA, "%s: %s of %s %s: the file is damaged",
                           st_path(hfdir_file(j->p->dir, q->part[0]->file)),
                           dq_is_nvfp4(q) || dq_is_mxfp4(q) ? "scales" : "g_idx", q->part[0]->name,
                           dq_is_nvfp4(q)   ? "are negative or not numbers"
                           : dq_is_mxfp4(q) ? "are not numbers"
                                            : "names missing groups");
    }
    return 0;
}

/* Converts and writes the item in slabs of rows. */
static int run_slabs(struct job *j, struct pool *pool, struct gguf_w *w, xform_step step, void *ud,
                     struct err *e) {
    const int64_t total = j->total;
    int64_t per_slab = max_i64(1, (int64_t)(SLAB_BYTES / j->row_bytes));
    int64_t chunk = max_i64(1, (int64_t)(CHUNK_BYTES / j->row_bytes));
    uint64_t since_drop = 0;
    for (j->first = 0; j->first < total; j->first += per_slab) {
        int64_t n = min_i64(per_slab, total - j->first);
        pool_for(pool, n, chunk, convert_rows, j);
        uint64_t bytes = (uint64_t)n * j->row_bytes;
        TRY(check_bad(j, e));
        TRY(gguf_w_data(w, j->b->slab, bytes, e));
        TRY(step(ud, bytes, e));
        since_drop += bytes;
        if (since_drop >= drop_bytes) {
            drop_sources(j);
            since_drop = 0;
        }
    }
    drop_sources(j);
    return 0;
}

/* Writes the scales of NVFP4 matrices. */
static int write_scales(const struct conv_plan *p, const struct item *it, struct gguf_w *w,
                        xform_step step, void *ud, struct err *e) {
    const int64_t n = it->inst.ne[0];
    for (int64_t m = 0; m < n; m++) {
        const struct dq *q = &p->src[it->src + (it->n_src > 1 ? m * (it->n_src / n) : 0)];
        const float s = dq_nvfp4_scale(q, it->n_src > 1 ? 0 : m);
        TRY(gguf_w_data(w, &s, sizeof s, e));
    }
    return step(ud, it->n_bytes, e);
}

int xform_item(const struct conv_plan *p, const struct item *it, struct pool *pool,
               struct xform_buf *b, struct gguf_w *w, struct tally *tally, xform_step step,
               void *ud, struct err *e) {
    struct job j = {.p = p, .it = it, .b = b};
    if (it->scales) return write_scales(p, it, w, step, ud, e);
    set_up_job(&j);
    TRY(reserve_buffers(b, &j, pool, e));
    int rc = 0;
    for (int64_t i = 0; i < it->n_src && !rc; i++) rc = lora_begin(p->src[it->src + i].delta, e);
    if (!rc) rc = run_slabs(&j, pool, w, step, ud, e);
    for (int64_t i = 0; i < it->n_src; i++) lora_end(p->src[it->src + i].delta);
    if (rc) return rc;
    for (int i = 0; i < b->n_workers; i++) {
        tally->n_nan += b->tally[i].n_nan;
        tally->n_inf += b->tally[i].n_inf;
        tally->n_overflow += b->tally[i].n_overflow;
        tally->n_zeroed += b->tally[i].n_zeroed;
    }
    return 0;
}

int xform_mean(const struct st_tensor *t, double *mean, struct err *e) {
    double sum = 0;
    float x[256];
    for (int64_t i = 0; i < t->n_elems; i += 256) {
        int64_t n = min_i64(256, t->n_elems - i);
        TRY(st_to_f32(t, i, n, x, e));
        for (int64_t k = 0; k < n; k++) sum += (double)x[k];
    }
    *mean = t->n_elems ? sum / (double)t->n_elems : 0;
    return 0;
}
