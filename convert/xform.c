// SPDX-License-Identifier: MIT
/* convert/xform.c - transforms: one output tensor, in slabs of rows.
 *
 * Every transform renumbers rows (of one matrix of one source) or column groups and applies at most
 * one function per element. Each output row thus depends on a single source row (or, transposed, a
 * column), so the output is independent of slab size and thread count. Rows that already have the
 * output's dtype and need no arithmetic are copied bit for bit.
 *
 * Memory: one slab of SLAB_BYTES (or one row, if larger) and three f32 rows per worker; mapped
 * source pages are released every DROP_BYTES. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "convert/conv_plan.h"
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
    struct xform_buf *b;
    int64_t cols, rows;     /* of one output matrix */
    int64_t total;          /* rows of all matrices */
    int64_t src_cols;       /* source columns (fewer than cols when padded) */
    int64_t part, src_part; /* rows padded together: a matrix, or half of a fused one */
    /* Rows per source matrix, and first source row of the extracted piece. */
    int64_t src_rows, row_step;
    int64_t first; /* first row of the slab, over all matrices */
    uint64_t row_bytes;
    bool copy;     /* same dtype and no arithmetic */
    int64_t group; /* rows or columns per V head; 0: no regrouping */
    int64_t fixed; /* leading rows that stay in place */
    int64_t head;  /* rows per head whose halves become pairs; else 0 */
    int64_t rot;   /* leading rows of these that rope rotates, even */
    bool apart;    /* pairs become halves instead */
    int64_t per;   /* XF_QKV_*: query heads per key head; else 0 */
    int64_t odd;   /* XF_EVEN: 0, XF_ODD: 1; else -1 */
    bool halves;   /* two sources per matrix, half of the rows each */
    bool turned;   /* the source is [columns][rows] */
    int64_t kv;    /* XF_LATENT_*: rows of a head in the source, keys first, then values */
};

/* ---- source of an output row ----------------------------------------------------------------- */

/* Returns the old index of new index i, in groups of `g`: GGUF's order is new[r*Hk + k] = old[k*R +
 * r]. */
static int64_t v_old(const struct hparams *h, int64_t g, int64_t i) {
    int64_t hk = h->d[HD_LIN_K_HEADS], per = h->d[HD_LIN_V_HEADS] / hk;
    int64_t head = i / g;
    return ((head % hk) * per + head / hk) * g + i % g;
}

/* Returns the row of head-wise wqkv for row r of q, k or v, or of all three. */
static int64_t qkv_old(const struct job *j, int64_t r) {
    const int64_t hd = hp_dim(&j->p->hp, j->it->inst.block, HD_HEAD_DIM);
    const int64_t n_k = hp_dim(&j->p->hp, j->it->inst.block, HD_KV_OUT), n_q = n_k * j->per;
    enum xform xf = j->it->xf;
    if (xf == XF_QKV_ALL) xf = r < n_q ? XF_QKV_Q : r < n_q + n_k ? XF_QKV_K : XF_QKV_V;
    if (j->it->xf == XF_QKV_ALL && r >= n_q) r = (r - n_q) % n_k;
    const bool q = xf == XF_QKV_Q;
    const int64_t head = r / hd, kv = q ? head / j->per : head;
    const int64_t part = q ? head % j->per : j->per + (xf == XF_QKV_V);
    return (kv * (j->per + 2) + part) * hd + r % hd;
}

/* Returns the source row within a head whose rotated rows are interleaved in pairs or, with
 * j->apart, separated into halves. */
static int64_t pair_old(const struct job *j, int64_t r) {
    const int64_t i = r % j->head, half = j->rot / 2;
    if (i >= j->rot) return r;
    return r - i + (j->apart ? i % half * 2 + i / half : i % 2 * half + i / 2);
}

struct placement {
    const struct dq *s; /* NULL: a padding row */
    int64_t mat, row;   /* position in the source */
};

static bool is_qkvz(enum xform xf) {
    return xf == XF_QKVZ_QKV || xf == XF_QKVZ_Z;
}
/* Returns the row in Qwen3-Next's matrix, in which each key head has its q, k, values and gates. */
static int64_t qkvz_old(const struct hparams *h, enum xform xf, int64_t r) {
    const int64_t dk = h->d[HD_LIN_K_DIM], hk = h->d[HD_LIN_K_HEADS],
                  v = h->d[HD_LIN_INNER] / hk; /* values per key head */
    const int64_t all = 2 * dk + 2 * v;
    if (xf == XF_QKVZ_Z) return r / v * all + 2 * dk + v + r % v;
    if (r < hk * dk) return r / dk * all + r % dk;
    r -= hk * dk;
    if (r < hk * dk) return r / dk * all + dk + r % dk;
    r -= hk * dk;
    return r / v * all + 2 * dk + r % v;
}

static struct placement locate(const struct job *j, int64_t out_row) {
    int64_t mat = out_row / j->rows, r = out_row % j->rows;
    if (j->group && j->it->xf != XF_V_COLS && r >= j->fixed)
        r = j->fixed + v_old(&j->p->hp, j->group, r - j->fixed);
    if (j->head) r = pair_old(j, r);
    if (is_qkvz(j->it->xf))
        return (struct placement){&j->p->src[j->it->src], 0, qkvz_old(&j->p->hp, j->it->xf, r)};
    if (j->kv) r = (mat + 1) * j->kv - j->rows + r;
    if (j->kv) mat = 0;
    if (r % j->part >= j->src_part) return (struct placement){NULL, 0, 0};
    r = r / j->part * j->src_part + r % j->part + j->row_step;
    if (j->per) r = qkv_old(j, r);
    if (j->odd >= 0 && j->it->inst.n_dims == 3) r = 2 * r + j->odd;
    const struct dq *s = &j->p->src[j->it->src];
    if (j->halves) return (struct placement){s + 2 * mat + r / j->src_rows, 0, r % j->src_rows};
    return j->it->n_src > 1 ? (struct placement){s + mat, 0, r} : (struct placement){s, mat, r};
}

/* ---- one row ---- */

/* Loads values that are not adjacent in a plain source. */
static void load_spread(const struct job *j, const struct placement *at, float *dst) {
    const int64_t n = j->src_cols;
    const int64_t first =
        j->turned ? at->mat * n * j->src_rows + at->row : 2 * at->row * n + j->odd;
    const int64_t step = j->turned ? j->src_rows : 2;
    struct err ignored;
    for (int64_t i = 0; i < n; i++)
        if (st_to_f32(at->s->part[0], first + i * step, 1, dst + i, &ignored)) dst[i] = 0;
}

static void load_row(const struct job *j, const struct placement *at, float *dst, float *scratch,
                     struct tally *t) {
    const struct dq *q = at->s;
    struct err ignored; /* shapes were checked in the plan */
    if (!dq_is_plain(q)) {
        if (!dq_row(q, at->mat, at->row, dst, scratch)) t->bad = q;
    } else if (j->turned || (j->odd >= 0 && j->it->inst.n_dims < 3)) {
        load_spread(j, at, dst);
    } else if (st_to_f32(q->part[0], (at->mat * j->src_rows + at->row) * j->src_cols, j->src_cols,
                         dst, &ignored))
        memset(dst, 0, (size_t)j->cols * sizeof *dst);
    if (q->delta)
        lora_add(q->delta, at->mat, at->row, j->src_cols, dst, scratch, scratch + j->b->row_cap);
}

bool xform_turns(enum xform xf) {
    return xf == XF_EVEN || xf == XF_ODD || xf == XF_TURN || xf == XF_TURN_FIRST ||
           xf == XF_TURN_SECOND;
}
static bool is_half(enum xform xf) {
    return xf == XF_SPLIT_FIRST || xf == XF_SPLIT_SECOND || xf == XF_TURN_FIRST ||
           xf == XF_TURN_SECOND;
}
static bool is_qkv(enum xform xf) {
    return xf == XF_QKV_Q || xf == XF_QKV_K || xf == XF_QKV_V || xf == XF_QKV_ALL;
}
void xform_want(const struct hparams *h, const struct item *it, int64_t want[4]) {
    const int n = it->inst.n_dims;
    if (is_half(it->xf)) want[n - 2] *= 2;
    if (it->xf == XF_EVEN || it->xf == XF_ODD) want[1] *= 2;
    if (it->xf == XF_TURN && n == 2) { /* single matrix: as stored */
        const int64_t rows = want[0];
        want[0] = want[1];
        want[1] = rows;
    }
    if (is_qkv(it->xf)) want[n > 1 ? n - 2 : 0] = hp_dim(h, it->inst.block, HD_QKV_OUT);
    if (is_qkvz(it->xf)) want[0] = h->d[HD_CONV_CH] + h->d[HD_LIN_INNER];
}
bool xform_makes(enum xform xf) {
    return xf == XF_ROPE_FREQS || xf == XF_ROPE_LLAMA3 || xf == XF_ROPE_FAR || xf == XF_ROPE_NEAR;
}
static void make_row(const struct job *j, float *dst) {
    const struct hparams *h = &j->p->hp;
    const enum xform xf = j->it->xf;
    for (int64_t i = 0; i < j->cols; i++)
        if (xf == XF_ROPE_LLAMA3)
            dst[i] = (float)llama3_divisor(h, i);
        else if (xf == XF_ROPE_FREQS)
            dst[i] = i < h->d[HD_FREQS_ROT] / 2 ? 1.0f : 1e30f;
        else
            dst[i] = (xf == XF_ROPE_FAR ? h->far : h->near)[i];
}

/* Reorders groups of columns to GGUF's order; elements have `size` bytes. */
static void regroup_cols(const struct job *j, const uint8_t *src, uint8_t *dst, size_t size) {
    size_t n = (size_t)j->group * size;
    for (int64_t c = 0; c < j->cols; c += j->group)
        memcpy(dst + (size_t)c * size, src + (size_t)v_old(&j->p->hp, j->group, c) * size, n);
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

static void encode_f16(const float *x, uint8_t *dst, int64_t n, struct tally *t) {
    for (int64_t i = 0; i < n; i++) {
        uint16_t v = fp_f32_to_f16(x[i]);
        store_u16(dst + 2 * i, v);
        t->n_overflow += (v & 0x7fff) == 0x7c00 && isfinite(x[i]);
    }
}

static void encode_bf16(const float *x, uint8_t *dst, int64_t n, struct tally *t) {
    for (int64_t i = 0; i < n; i++) {
        uint16_t v = fp_f32_to_bf16(x[i]);
        store_u16(dst + 2 * i, v);
        t->n_overflow += (v & 0x7fff) == 0x7f80 && isfinite(x[i]);
    }
}

static void encode_q8_0(const float *x, uint8_t *dst, int64_t n, struct tally *t) {
    q8_0_row(x, dst, n);
    for (int64_t i = 0; i < n; i += 32) /* a scale beyond f16 makes its block infinite */
        if ((load_u16(dst + 34 * (i / 32)) & 0x7fff) >= 0x7c00) t->n_overflow += 32;
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

static void copy_row(const struct job *j, const struct placement *at, uint8_t *dst,
                     struct tally *t) {
    const struct st_tensor *s = at->s->part[0];
    size_t size = (size_t)st_dtype_bytes(s->dtype);
    const uint8_t *src = s->data + (uint64_t)((at->mat * j->src_rows + at->row) * j->cols) * size;
    if (j->it->xf == XF_V_COLS && j->group)
        regroup_cols(j, src, dst, size);
    else
        memcpy(dst, src, (size_t)j->cols * size);
    count_odd_raw(s->dtype, dst, j->cols, t);
}

/* Returns the factor for a row of Mamba's ssm_in. */
static float factor_in(const struct hparams *h, int64_t r) {
    const int64_t bc = h->d[HD_LIN_K_HEADS] * h->d[HD_LIN_K_DIM];
    const int64_t n[] = {h->d[HD_LIN_INNER], h->d[HD_LIN_INNER], bc, bc};
    int k = 0;
    for (; k < 4 && r >= n[k]; k++) r -= n[k];
    return h->mul[MUL_Z + k];
}

static void multiply(float *x, int64_t n, float by) {
    for (int64_t i = 0; i < n; i++) x[i] *= by;
}

static void apply(enum xform xf, float *x, int64_t n) {
    if (xf == XF_ADD1)
        for (int64_t i = 0; i < n; i++) x[i] += 1.0f;
    else if (xf == XF_NEG_EXP || xf == XF_NEG_EXP_V)
        for (int64_t i = 0; i < n; i++) x[i] = (float)-fp_exp((double)x[i]);
}

/* Computes output rows [begin, end) of XF_LATENT_K. Row r of a head is column r of the head's key
 * rows, which are read once for all rows of a head in the range. */
static void latent_rows(struct job *j, int64_t begin, int64_t end, int worker) {
    struct tally *t = &j->b->tally[worker];
    const int64_t n = j->cols, rank = j->rows; /* number of key rows, and their length */
    float *mat = j->b->rows + 3 * worker * j->b->row_cap, *row = mat + n * rank;
    int64_t have = -1;
    for (int64_t i = begin; i < end; i++) {
        const int64_t head = (j->first + i) / rank, column = (j->first + i) % rank;
        for (int64_t k = 0; k < n && have != head; k++)
            load_row(j, &(struct placement){&j->p->src[j->it->src], 0, head * j->kv + k},
                     mat + k * rank, mat + j->b->row_cap, t);
        have = head;
        for (int64_t k = 0; k < n; k++) row[k] = mat[k * rank + column];
        xform_encode(j->it->type, row, j->b->slab + (uint64_t)i * j->row_bytes, n, t);
    }
}

static void rows_fn(void *ctx, int64_t begin, int64_t end, int worker) {
    struct job *j = ctx;
    struct tally *t = &j->b->tally[worker];
    float *x = j->b->rows + 3 * worker * j->b->row_cap, *y = x + j->b->row_cap;
    if (j->it->xf == XF_LATENT_K) {
        latent_rows(j, begin, end, worker);
        return;
    }
    for (int64_t i = begin; i < end; i++) {
        uint8_t *dst = j->b->slab + (uint64_t)i * j->row_bytes;
        if (xform_makes(j->it->xf)) {
            make_row(j, x);
            xform_encode(j->it->type, x, dst, j->cols, t);
            continue;
        }
        struct placement at = locate(j, j->first + i);
        if (!at.s) {
            memset(x, 0, (size_t)j->cols * sizeof *x);
            xform_encode(j->it->type, x, dst, j->cols, t);
            continue;
        }
        if (j->it->type == QT_MXFP4) {
            if (!dq_mxfp4_blocks(at.s, at.mat, at.row, dst)) t->bad = at.s;
            continue;
        }
        if (j->copy) {
            copy_row(j, &at, dst, t);
            continue;
        }
        load_row(j, &at, x, y, t);
        memset(x + j->src_cols, 0, (size_t)(j->cols - j->src_cols) * sizeof *x);
        float *row = x;
        if (j->it->xf == XF_V_COLS && j->group) {
            regroup_cols(j, (const uint8_t *)x, (uint8_t *)y, sizeof *x);
            row = y;
        }
        apply(j->it->xf, row, j->cols);
        if (j->it->xf == XF_MULTIPLY || (j->it->xf == XF_ADD1 && j->it->inst.row->group))
            multiply(row, j->cols, j->p->hp.mul[j->it->inst.row->group]);
        if (j->it->xf == XF_MULTIPLY_IN)
            multiply(row, j->cols, factor_in(&j->p->hp, (j->first + i) % j->rows));
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

static int reserve(struct xform_buf *b, const struct job *j, struct pool *pool, struct err *e) {
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

int xform_latent_source(const struct hparams *h, int64_t want[4]) {
    want[0] = h->d[HD_HEADS] * (h->d[HD_NOPE] + h->d[HD_VALUE_MLA]);
    want[1] = h->d[HD_KV_RANK];
    return 2;
}

static void setup(struct job *j) {
    const struct item *it = j->it;
    const struct hparams *h = &j->p->hp;
    const int64_t *ne = it->inst.ne;
    enum xform xf = it->xf;
    bool v = xf == XF_V_ROWS || xf == XF_V_ROWS_TAIL || xf == XF_V_COLS || xf == XF_NEG_EXP_V;
    if (v && h->d[HD_LIN_V_HEADS] != h->d[HD_LIN_K_HEADS])
        j->group = it->inst.row->group ? h->d[it->inst.row->group] : 1;
    bool vector =
        it->inst.n_dims == 1 && (v || xf == XF_ROPE_PAIRS || xf == XF_ROPE_HALVES ||
                                 xf == XF_QKV_ALL); /* in regrouped vectors one element is a row */
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
    if (it->n_src > 1 && it->inst.n_dims == 2) j->rows = j->src_rows = 1;
    j->part = j->rows / (n_parts + 1);
    j->src_part = j->src_rows / (n_parts + 1);
    j->odd = xf == XF_EVEN ? 0 : xf == XF_ODD ? 1 : -1;
    if (is_half(xf) || (j->odd >= 0 && it->inst.n_dims == 3)) j->src_rows *= 2;
    if (xf == XF_SPLIT_SECOND || xf == XF_TURN_SECOND) j->row_step = j->src_part;
    if (xf == XF_V_ROWS_TAIL) j->fixed = 2 * h->d[HD_LIN_K_HEADS] * h->d[HD_LIN_K_DIM];
    j->halves = it->inst.n_dims == 3 && it->n_src == 2 * ne[2];
    if (j->halves) j->src_rows /= 2;
    j->apart = xf == XF_ROPE_HALVES;
    if (xf == XF_ROPE_PAIRS || (j->apart && h->d[HD_ROPE_SEC0])) {
        j->head = hp_dim(h, it->inst.block, it->inst.row->group);
        j->rot = hp_dim(h, it->inst.block, HD_ROT);
        if (j->rot < 2 || j->rot > j->head) j->rot = j->head;
    }
    if (is_qkv(xf)) {
        const struct layer_hp *l = &h->layer[it->inst.block];
        j->head = j->rot = xf == XF_QKV_V || xf == XF_QKV_ALL ? 0 : l->head_dim;
        j->per = l->heads / l->kv_heads;
        j->src_rows = hp_dim(h, it->inst.block, HD_QKV_OUT);
    }
    if (xf == XF_LATENT_K || xf == XF_LATENT_V) {
        int64_t want[4];
        xform_latent_source(h, want);
        j->kv = want[0] / h->d[HD_HEADS];
        j->src_rows = want[0];
        j->src_cols = want[1];
    }
    j->row_bytes = qtype_row_bytes(it->type, j->cols);
    if (xform_makes(xf)) return;
    const struct dq *src = &j->p->src[it->src];
    const bool can_turn =
        (it->inst.n_dims == 3 && it->n_src == 1) || (xf == XF_TURN && it->inst.n_dims == 2);
    j->turned = xform_turns(xf) && can_turn && dq_is_plain(src);
    enum st_dtype d = src->part[0]->dtype;
    bool same = true;
    for (int64_t i = 0; i < it->n_src; i++)
        same = same && dq_is_plain(&src[i]) && !src[i].delta && src[i].part[0]->dtype == d;
    bool math = xf == XF_ADD1 || xf == XF_NEG_EXP || xf == XF_NEG_EXP_V || xf == XF_MULTIPLY ||
                xf == XF_MULTIPLY_IN || xf == XF_LATENT_K;
    enum qtype as_is;
    j->copy = same && !math && !xform_turns(xf) && j->src_cols == j->cols &&
              st_dtype_qtype(d, &as_is) && as_is == it->type;
}

static void drop_sources(const struct job *j) {
    for (int64_t i = 0; i < j->it->n_src; i++) dq_drop(&j->p->src[j->it->src + i], j->p->dir);
}

static int check_bad(const struct job *j, struct err *e) {
    for (int i = 0; i < j->b->n_workers; i++) {
        const struct dq *q = j->b->tally[i].bad;
        if (q)
            return err_set(e, ERR_DATA,
                           "%s: g_idx of %s names missing groups, or its scales "
                           "are not numbers: the file is damaged",
                           st_path(hfdir_file(j->p->dir, q->part[0]->file)), q->part[0]->name);
    }
    return 0;
}

static int run_slabs(struct job *j, struct pool *pool, struct gguf_w *w, xform_step step, void *ud,
                     struct err *e) {
    const int64_t total = j->total;
    int64_t per_slab = max_i64(1, (int64_t)(SLAB_BYTES / j->row_bytes));
    int64_t chunk = max_i64(1, (int64_t)(CHUNK_BYTES / j->row_bytes));
    uint64_t since_drop = 0;
    for (j->first = 0; j->first < total; j->first += per_slab) {
        int64_t n = min_i64(per_slab, total - j->first);
        pool_for(pool, n, chunk, rows_fn, j);
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

int xform_item(const struct conv_plan *p, const struct item *it, struct pool *pool,
               struct xform_buf *b, struct gguf_w *w, struct tally *tally, xform_step step,
               void *ud, struct err *e) {
    struct job j = {.p = p, .it = it, .b = b};
    setup(&j);
    TRY(reserve(b, &j, pool, e));
    int rc = 0;
    for (int64_t i = 0; i < it->n_src && !rc; i++) rc = lora_begin(p->src[it->src + i].delta, e);
    if (!rc) rc = run_slabs(&j, pool, w, step, ud, e);
    for (int64_t i = 0; i < it->n_src; i++) lora_end(p->src[it->src + i].delta);
    if (rc) return rc;
    for (int i = 0; i < b->n_workers; i++) {
        tally->n_nan += b->tally[i].n_nan;
        tally->n_inf += b->tally[i].n_inf;
        tally->n_overflow += b->tally[i].n_overflow;
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
