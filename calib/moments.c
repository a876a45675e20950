// SPDX-License-Identifier: MIT
/* calib/moments.c - second moments: sums of x x^T for the inputs of all matrix products.
 *
 * Weights that receive byte-identical rows during the survey share an input; gram_col_finish
 * repeats the comparison over the whole text. Dense inputs keep full matrices, or diagonal blocks
 * if they have more than 4096 columns. Each expert keeps 256-column blocks if these take at most
 * OWN_BYTES per weight; otherwise all experts share one full matrix over their rows. The kernels
 * multiply the rows of a call (at most a chunk) in f32. Sums over calls are f32 too: a sum loses
 * bits only after 2^24 chunks of equal size. The halves take turns of RUN chunks (fewer for a short
 * text), so both see every text. Memory: 8 bytes * n * block * matrices per input, checked before
 * the first chunk. */
#include "calib/moments.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "kernels/blas.h"
#include "kernels/dev_product.h"

enum { RUN = 8, STRIP = 32, EXPERT_BLOCK = 256 };
/* An input with up to FULL columns has one block; a wider one has blocks of BLOCK columns.
 * Gradients use half these sizes, because they are stored per weight. */
enum { FULL = 4096, BLOCK = 2048, OUT_FULL = 2048, OUT_BLOCK = 1024 };
static const uint64_t own_bytes = (uint64_t)64 << 20;

struct seen { /* a weight in the survey */
    char *name;
    int64_t n, n_experts; /* columns; experts, 0: dense */
    uint64_t hash, survey_hash;
    int64_t input; /* index in `in`; -1: not yet found by settle() */
    bool leads;
};
struct moment { /* second moments of an input, shared by several weights */
    int64_t n, block, n_mat;
    bool pooled; /* all experts share one matrix */
    bool paired; /* has cross sums */
    float *sum[GRAM_HALVES], *count[GRAM_HALVES];
    /* Cross sums of input differences and inputs; NULL: no base model. */
    float *cross[GRAM_HALVES];
};
struct gram_col {
    struct seen *w;
    int64_t n_w, cap;
    struct moment *in;
    int64_t n_in;
    int64_t block;
    int half;
    int64_t run;        /* chunks of a half before the other half's turn */
    const int64_t *end; /* end of each text, in chunks; NULL: halves alternate in runs */
    int n_texts;
    bool settled;
    bool without_gradients; /* gradients left out, on request or for lack of memory */
    struct kern kern;
    unsigned blas;           /* uses of OpenBLAS (kernels/blas.h) */
    struct dev_product *dev; /* borrowed; NULL: none */
    struct pool *pool;
    float *xt;         /* rows of a call, transposed: [n][rows] */
    float *dt;         /* their differences from the base's rows, transposed likewise */
    float *diff;       /* the same differences as rows, [rows][n] */
    struct pair *pair; /* the base's rows, borrowed; NULL: no base model */
    float **tile;      /* per worker: a tile of products */
    int64_t max_rows, max_n;
    int64_t n_missed; /* weights that appeared later, but not in the survey */
};

int gram_col_new(struct gram_col **out, int64_t block, enum kern_isa isa, struct pool *pool,
                 struct err *e) {
    if (block < 0 || block % 256)
        return err_set(e, ERR_USAGE, "--gram-block: %lld is not a multiple of 256",
                       (long long)block);
    struct gram_col *c = xcalloc(1, sizeof *c);
    c->block = block;
    c->run = RUN;
    c->pool = pool;
    kern_init(&c->kern, isa);
    *out = c;
    return 0;
}

void gram_col_free(struct gram_col *c) {
    if (!c) return;
    for (int64_t i = 0; i < c->n_w; i++) free(c->w[i].name);
    for (int64_t i = 0; i < c->n_in; i++)
        for (int h = 0; h < GRAM_HALVES; h++) {
            mem_free(c->in[i].sum[h]);
            mem_free(c->in[i].cross[h]);
            free(c->in[i].count[h]);
        }
    for (int k = 0; c->tile && k < pool_size(c->pool); k++) mem_free(c->tile[k]);
    free(c->tile);
    mem_free(c->xt);
    mem_free(c->dt);
    mem_free(c->diff);
    free(c->w);
    free(c->in);
    free(c);
}

void gram_col_blas(struct gram_col *c, unsigned uses) {
    c->blas = blas_let(uses);
}

void gram_col_device(struct gram_col *c, struct dev_product *d) {
    c->dev = d;
}

int64_t gram_col_block(const struct gram_col *c) {
    return c->block;
}

/* ---- which weights share an input ------------------------------------------------------------ */

/* Returns the weight's entry. If it is missing, creates it if `add` is set, otherwise returns
 * NULL. */
static struct seen *find_seen(struct gram_col *c, const char *name, bool add) {
    int64_t lo = 0, hi = c->n_w;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (strcmp(c->w[mid].name, name) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo < c->n_w && strcmp(c->w[lo].name, name) == 0) return &c->w[lo];
    if (!add) return NULL;
    if (c->n_w == c->cap) {
        c->cap = c->cap ? 2 * c->cap : 64;
        c->w = xreallocarray(c->w, (size_t)c->cap, sizeof *c->w);
    }
    memmove(c->w + lo + 1, c->w + lo, (size_t)(c->n_w - lo) * sizeof *c->w);
    c->n_w++;
    c->w[lo] = (struct seen){.name = xstrdup(name), .input = -1};
    return &c->w[lo];
}

/* Extends the hash of the weight's inputs by the rows, so that equal inputs are recognised. */
static void hash_rows(struct seen *s, int64_t expert, const float *x, int64_t n_rows, int64_t ld) {
    struct {
        uint64_t before, rows;
        int64_t expert;
    } mix = {.before = s->hash, .expert = expert};
    if (ld == s->n) {
        mix.rows = hash_u64(x, (size_t)(n_rows * ld) * sizeof *x);
    } else {
        for (int64_t r = 0; r < n_rows; r++) {
            uint64_t two[2] = {mix.rows, hash_u64(x + r * ld, (size_t)s->n * sizeof *x)};
            mix.rows = hash_u64(two, sizeof two);
        }
    }
    s->hash = hash_u64(&mix, sizeof mix);
}

bool gram_col_apart(int64_t n, int64_t n_experts) {
    uint64_t own = 0;
    return gram_input_bytes(n, min_i64(EXPERT_BLOCK, n), n_experts, &own) && own <= own_bytes;
}

/* Returns whether the name is that of a weight's gradients. */
static bool of_gradients(const char *name) {
    return strncmp(name, GRAM_OUT, strlen(GRAM_OUT)) == 0;
}

/* Sets size, blocks and number of matrices of the input's moments. */
static void set_shape(const struct gram_col *c, const struct seen *s, struct moment *m) {
    m->n = s->n;
    m->n_mat = 1;
    const bool out = of_gradients(s->name);
    m->paired = c->pair && !out;
    const int64_t full = out ? OUT_FULL : FULL, block = out ? OUT_BLOCK : BLOCK;
    m->block = c->block ? min_i64(c->block, s->n) : s->n <= full ? s->n : block;
    if (!s->n_experts) return;
    if (gram_col_apart(s->n, s->n_experts)) {
        m->n_mat = s->n_experts;
        m->block = min_i64(EXPERT_BLOCK, s->n);
    } else {
        m->pooled = true;
    }
}

/* Computes the total size of all sums in bytes. */
static int count_bytes(const struct gram_col *c, uint64_t *total, struct err *e) {
    *total = 0;
    for (int64_t i = 0; i < c->n_in; i++) {
        uint64_t b;
        if (!gram_input_bytes(c->in[i].n, c->in[i].block, c->in[i].n_mat, &b) ||
            !add_ok(*total, (c->in[i].paired ? 2u : 1u) * GRAM_HALVES * b, total))
            return err_set(e, ERR_USAGE, "the second moments of this model are too large");
    }
    return 0;
}

static int alloc_sums(struct gram_col *c, struct err *e) {
    for (int64_t i = 0; i < c->n_in; i++) {
        struct moment *m = &c->in[i];
        for (int h = 0; h < GRAM_HALVES; h++) {
            uint64_t b = 0;
            void *p;
            gram_input_bytes(m->n, m->block, m->n_mat, &b);
            TRY(mem_alloc(&p, b, "second moments", e));
            m->sum[h] = p;
            if (m->paired) TRY(mem_alloc(&p, b, "moments of differences", e));
            m->cross[h] = m->paired ? p : NULL;
            m->count[h] = xcalloc((size_t)m->n_mat, sizeof(float));
        }
        c->max_n = max_i64(c->max_n, m->n);
    }
    return 0;
}

/* Finds the weights that share an input: those with equal rows in the survey. */
static void find_inputs(struct gram_col *c) {
    free(c->in);
    c->in = xcalloc((size_t)c->n_w + 1, sizeof *c->in);
    c->n_in = 0;
    for (int64_t i = 0; i < c->n_w; i++) {
        struct seen *s = &c->w[i];
        s->input = -1;
        for (int64_t k = 0; k < i && s->input < 0; k++) {
            const struct seen *o = &c->w[k];
            if (o->survey_hash == s->survey_hash && o->n == s->n && o->n_experts == s->n_experts)
                s->input = o->input;
        }
        s->leads = s->input < 0;
        if (!s->leads) continue;
        s->input = c->n_in++;
        set_shape(c, s, &c->in[s->input]);
    }
}

/* Drops gradients from the survey's results. Returns whether there were any. */
static bool leave_out_gradients(struct gram_col *c) {
    const int64_t n = c->n_w;
    c->n_w = 0;
    for (int64_t i = 0; i < n; i++)
        if (of_gradients(c->w[i].name))
            free(c->w[i].name);
        else
            c->w[c->n_w++] = c->w[i];
    c->without_gradients = true;
    return c->n_w < n;
}

void gram_col_leave_out_gradients(struct gram_col *c) {
    c->without_gradients = true;
}

bool gram_col_without_gradients(const struct gram_col *c) {
    return c->without_gradients;
}

/* Chooses the inputs that fit into memory. */
static int choose_inputs(struct gram_col *c, struct err *e) {
    uint64_t total, limit, have = buf_room(&limit);
    const uint64_t there = limit ? mem_available() : 0;
    find_inputs(c);
    TRY(count_bytes(c, &total, e));
    if (have && total > have && leave_out_gradients(c)) {
        const uint64_t all = total;
        find_inputs(c);
        TRY(count_bytes(c, &total, e));
        if (total <= have)
            log_warn("second moments of inputs and gradients need %.1f GiB, but %.1f GiB are "
                     "available: leaving out those of gradients",
                     (double)all / 0x1p30, (double)have / 0x1p30);
    }
    if (have && total > have)
        return err_memory(
            e, "second moments need %.1f GiB, %.1f GiB are available; %slower --gram-block",
            (double)total / 0x1p30, (double)have / 0x1p30, limit ? "raise --max-memory or " : "");
    if (there && total > there)
        return err_memory(
            e,
            "second moments need %.1f GiB, which --max-memory allows, but only %.1f GiB are "
            "free: close other programs, or lower --max-memory",
            (double)total / 0x1p30, (double)there / 0x1p30);
    return alloc_sums(c, e);
}

int gram_col_settle(struct gram_col *c, int64_t max_rows, struct err *e) {
    void *p;
    for (int64_t i = 0; i < c->n_w; i++) {
        c->w[i].survey_hash = c->w[i].hash;
        c->w[i].hash = 0;
    }
    TRY(choose_inputs(c, e));
    c->max_rows = max_rows;
    TRY(mem_alloc(&p, (uint64_t)(c->max_n * max_rows) * sizeof(float), "rows of one pass", e));
    c->xt = p;
    if (c->pair) {
        TRY(mem_alloc(&p, (uint64_t)(c->max_n * max_rows) * sizeof(float), "rows of one pass", e));
        c->dt = p;
        TRY(mem_alloc(&p, (uint64_t)(c->max_n * max_rows) * sizeof(float), "rows of one pass", e));
        c->diff = p;
    }
    c->tile = xcalloc((size_t)pool_size(c->pool), sizeof *c->tile);
    for (int k = 0; k < pool_size(c->pool); k++) {
        TRY(mem_alloc(&p, (uint64_t)(STRIP * c->max_n) * sizeof(float), "a strip of moments", e));
        c->tile[k] = p;
    }
    c->settled = true;
    return 0;
}

/* ---- sums ------------------------------------------------------------------------------------ */

void gram_col_chunks(struct gram_col *c, int64_t n_chunks) {
    c->run = max_i64(1, min_i64(RUN, n_chunks / GRAM_HALVES));
    if (n_chunks < GRAM_HALVES)
        log_warn("a single chunk of text fills one half of the second moments, and feedback needs "
                 "both: give at least %d chunks",
                 GRAM_HALVES);
}

/* Returns the index of a chunk's text. */
static int text_of(const struct gram_col *c, int64_t i_chunk) {
    int k = 0;
    while (k < c->n_texts - 1 && i_chunk >= c->end[k]) k++;
    return k;
}

void gram_col_texts(struct gram_col *c, const int64_t *end, int n_texts) {
    int64_t n[GRAM_HALVES] = {0};
    for (int k = 0; k < n_texts; k++) n[k % GRAM_HALVES] += end[k] - (k ? end[k - 1] : 0);
    if (4 * min_i64(n[0], n[1]) < n[0] + n[1]) return;
    for (int64_t i = 0; i < c->n_w; i++)
        if (c->w[i].n_experts) return;
    c->end = end;
    c->n_texts = n_texts;
}

void gram_col_chunk(struct gram_col *c, int64_t i_chunk) {
    c->half =
        c->n_texts ? text_of(c, i_chunk) % GRAM_HALVES : (int)(i_chunk / c->run % GRAM_HALVES);
}

struct job {
    struct gram_col *c;
    const struct moment *m;
    float *sum, *cross;    /* destination of the products of one matrix */
    const float *x, *gate; /* gate NULL: ones */
    float *to;             /* destination of transpose_cols */
    int64_t rows, ld;
    int64_t first; /* first column that the CPU computes */
};
/* Transposes columns i0 to i1 - 1, multiplied by the rows' weights if any; a pool_fn. */
static void transpose_cols(void *ctx, int64_t i0, int64_t i1, int worker) {
    const struct job *j = ctx;
    (void)worker;
    for (int64_t i = i0; i < i1; i++)
        for (int64_t r = 0; r < j->rows; r++)
            j->to[i * j->rows + r] = j->x[r * j->ld + i] * (j->gate ? j->gate[r] : 1);
}
/* Adds the products of STRIP columns at a time with the columns from the start of their block to
 * the end of the strip, so that each pair of columns is computed once. */
static void add_strips(void *ctx, int64_t s0, int64_t s1, int worker) {
    const struct job *j = ctx;
    float *tile = j->c->tile[worker];
    int64_t n = j->m->n, block = j->m->block, rows = j->rows;
    for (int64_t s = s0; s < s1; s++)
        for (int64_t i = j->first + s * STRIP, end = min_i64(n, i + STRIP); i < end;) {
            int64_t b0 = i / block * block, stop = min_i64(end, b0 + block), nc = stop - b0;
            j->c->kern.gemm_f32(j->c->xt + i * rows, rows, j->c->xt + b0 * rows, rows, tile, nc,
                                stop - i, nc, rows);
            for (int64_t r = i; r < stop; r++) {
                float *dst = j->sum + r * block;
                const float *src = tile + (r - i) * nc;
                for (int64_t k = 0; k <= r - b0; k++) dst[k] += src[k];
            }
            i = stop;
        }
}

/* Adds the same products with OpenBLAS, in tiles of BLAS_TILE columns. Tiles may fill more than the
 * lower half; gram_col_finish derives the upper half from the lower. */
static void add_tiles(void *ctx, int64_t t0, int64_t t1, int worker) {
    const struct job *j = ctx;
    const int64_t n = j->m->n, block = j->m->block, rows = j->rows,
                  across = div_up(block, BLAS_TILE);
    (void)worker;
    for (int64_t t = t0; t < t1; t++) {
        const int64_t i = j->first + t / across * BLAS_TILE,
                      k = i / block * block + t % across * BLAS_TILE;
        if (k <= i)
            blas_add(BLAS_MOMENTS, j->c->xt + i * rows, rows, j->c->xt + k * rows, rows,
                     j->sum + i * block + k % block, block, min_i64(BLAS_TILE, n - i),
                     min_i64(BLAS_TILE, n - k), rows);
    }
}

/* Adds the products of the rows to the moments, by a device or BLAS where that is faster. */
static void add_squares(struct job *j) {
    const int64_t block = j->m->block;
    j->first = dev_product_squares(j->c->dev, j->c->xt, j->rows, j->m->n, block, j->sum);
    const int64_t n = j->m->n - j->first;
    if (blas_does(j->c->blas, BLAS_MOMENTS) && n >= BLAS_TILE && j->rows >= BLAS_LEAST_ROWS)
        pool_for(j->c->pool, div_up(n, BLAS_TILE) * div_up(block, BLAS_TILE), 1, add_tiles, j);
    else
        pool_for(j->c->pool, div_up(n, STRIP), 1, add_strips, j);
}

/* Adds the products of differences and rows, STRIP columns of differences at a time. */
static void add_crosses(void *ctx, int64_t s0, int64_t s1, int worker) {
    const struct job *j = ctx;
    float *tile = j->c->tile[worker];
    const int64_t n = j->m->n, block = j->m->block, rows = j->rows;
    for (int64_t i = s0 * STRIP, end = min_i64(n, s1 * STRIP), stop; i < end; i = stop) {
        const int64_t b0 = i / block * block, nc = min_i64(n, b0 + block) - b0;
        stop = min_i64(min_i64(end, i / STRIP * STRIP + STRIP), b0 + block);
        j->c->kern.gemm_f32(j->c->dt + i * rows, rows, j->c->xt + b0 * rows, rows, tile, nc,
                            stop - i, nc, rows);
        for (int64_t r = i; r < stop; r++)
            for (int64_t k = 0; k < nc; k++) j->cross[r * block + k] += tile[(r - i) * nc + k];
    }
}

/* Adds the products of c->diff, the rows' differences from the base model's, and the rows. */
static void add_cross(struct job *j) {
    struct job d = *j;
    d.x = j->c->diff;
    d.ld = j->m->n;
    d.to = j->c->dt;
    pool_for(j->c->pool, j->m->n, 64, transpose_cols, &d);
    pool_for(j->c->pool, div_up(j->m->n, STRIP), 1, add_crosses, j);
}

void gram_col_pair(struct gram_col *c, struct pair *p) {
    c->pair = p;
}

/* Adds rows to the moments of a weight's input. If several weights share it, adds the rows only
 * once, or with `each` once per weight; counts them once in either case. */
static void take_rows(struct gram_col *c, const struct gr_weight *w, int64_t expert, const float *x,
                      const float *gate, int64_t n_rows, int64_t ld, bool each) {
    if (c->without_gradients && of_gradients(w->name)) return;
    struct seen *s = find_seen(c, w->name, !c->settled);
    if (!s) {
        c->n_missed++;
        return;
    }
    s->n = w->ne[0];
    s->n_experts = expert < 0 ? 0 : w->ne[2];
    hash_rows(s, expert, x, n_rows, ld);
    if (!c->settled || (!s->leads && !each)) return;
    struct moment *m = &c->in[s->input];
    int64_t mat = m->n_mat > 1 ? expert : 0;
    const bool crossed = m->paired && n_rows <= c->max_rows;
    if (crossed) pair_differences(c->pair, w, expert, x, n_rows, ld, c->diff);
    for (int64_t r = 0; r < n_rows; r += c->max_rows) {
        struct job j = {.c = c,
                        .m = m,
                        .sum = m->sum[c->half] + mat * m->n * m->block,
                        .cross = m->paired ? m->cross[c->half] + mat * m->n * m->block : NULL,
                        .x = x + r * ld,
                        .gate = gate ? gate + r : NULL,
                        .to = c->xt,
                        .rows = min_i64(c->max_rows, n_rows - r),
                        .ld = ld};
        pool_for(c->pool, m->n, 64, transpose_cols, &j);
        add_squares(&j);
        if (crossed) add_cross(&j);
    }
    if (s->leads) m->count[c->half][mat] += (float)n_rows;
}

void gram_col_see(struct gram_col *c, const struct gr_weight *w, int64_t expert, const float *x,
                  const float *gate, int64_t n_rows, int64_t ld) {
    take_rows(c, w, expert, x, gate, n_rows, ld, false);
}
void gram_col_see_each(struct gram_col *c, const struct gr_weight *w, int64_t expert,
                       const float *x, const float *gate, int64_t n_rows, int64_t ld) {
    take_rows(c, w, expert, x, gate, n_rows, ld, true);
}

/* ---- snapshots ------------------------------------------------------------------------------- */

/* Returns a hash of the inputs, of the sizes of all sums, and of how the halves alternate. */
static uint64_t structure(const struct gram_col *c) {
    struct buf b = {0};
    for (int64_t i = 0; i < c->n_w; i++)
        buf_fmt(&b, "%s %" PRId64 " %" PRId64 " %" PRIu64 " %" PRId64 ";", c->w[i].name, c->w[i].n,
                c->w[i].n_experts, c->w[i].survey_hash, c->w[i].input);
    for (int64_t i = 0; i < c->n_in; i++)
        buf_fmt(&b, "%" PRId64 " %" PRId64 " %" PRId64 ";", c->in[i].n, c->in[i].block,
                c->in[i].n_mat);
    if (c->run != RUN) buf_fmt(&b, "runs of %" PRId64 ";", c->run);
    const uint64_t h = hash_u64(b.data, b.len);
    buf_release(&b);
    return h;
}

int gram_col_save(const struct gram_col *c, struct checkpoint_w *w, struct err *e) {
    const uint64_t is = structure(c);
    TRY(checkpoint_put(w, &is, sizeof is, e));
    TRY(checkpoint_put(w, &c->n_missed, sizeof c->n_missed, e));
    for (int64_t i = 0; i < c->n_w; i++)
        TRY(checkpoint_put(w, &c->w[i].hash, sizeof c->w[i].hash, e));
    for (int64_t i = 0; i < c->n_in; i++)
        for (int h = 0; h < GRAM_HALVES; h++) {
            const struct moment *m = &c->in[i];
            uint64_t b = 0;
            gram_input_bytes(m->n, m->block, m->n_mat, &b);
            TRY(checkpoint_put(w, m->sum[h], b, e));
            TRY(checkpoint_put(w, m->count[h], (uint64_t)m->n_mat * sizeof(float), e));
        }
    return 0;
}

bool gram_col_load(struct gram_col *c, struct checkpoint_r *r) {
    uint64_t is, need = sizeof c->n_missed + (uint64_t)c->n_w * sizeof c->w->hash;
    for (int64_t i = 0; i < c->n_in; i++) { /* alloc_sums() has checked that these sizes fit */
        uint64_t b = 0;
        gram_input_bytes(c->in[i].n, c->in[i].block, c->in[i].n_mat, &b);
        need += GRAM_HALVES * (b + (uint64_t)c->in[i].n_mat * sizeof(float));
    }
    if (!checkpoint_get(r, &is, sizeof is) || is != structure(c) || checkpoint_left(r) != need)
        return false;
    bool ok = checkpoint_get(r, &c->n_missed, sizeof c->n_missed);
    for (int64_t i = 0; i < c->n_w; i++)
        ok = ok && checkpoint_get(r, &c->w[i].hash, sizeof c->w[i].hash);
    for (int64_t i = 0; i < c->n_in; i++)
        for (int h = 0; h < GRAM_HALVES; h++) {
            const struct moment *m = &c->in[i];
            uint64_t b = 0;
            gram_input_bytes(m->n, m->block, m->n_mat, &b);
            ok = ok && checkpoint_get(r, m->sum[h], b) &&
                 checkpoint_get(r, m->count[h], (uint64_t)m->n_mat * sizeof(float));
        }
    return ok;
}

/* Copies the lower halves of the blocks to the upper halves. Returns false if a value is not
 * finite. */
static bool mirror(struct moment *m, float *sum) {
    for (int64_t i = 0; i < m->n; i++) {
        int64_t b0 = i / m->block * m->block;
        for (int64_t k = b0; k <= i; k++) {
            float v = sum[i * m->block + (k - b0)];
            if (!isfinite(v)) return false;
            sum[k * m->block + (i - b0)] = v;
        }
    }
    return true;
}

int gram_col_finish(struct gram_col *c, struct gram *out, struct err *e) {
    if (c->n_missed) return err_set(e, ERR_DATA, "weights appeared after the first chunk");
    out->input = xcalloc((size_t)c->n_in + 1, sizeof *out->input);
    out->weight = xcalloc((size_t)c->n_w + 1, sizeof *out->weight);
    const struct seen **leader = xcalloc((size_t)c->n_in + 1, sizeof *leader);
    int rc = 0;
    for (int64_t i = 0; i < c->n_w && rc == 0; i++) {
        const struct seen *s = &c->w[i];
        struct moment *m = &c->in[s->input];
        out->weight[out->n_weights++] = (struct gram_weight){xstrdup(s->name), s->input};
        if (!s->leads) {
            if (s->hash != leader[s->input]->hash)
                rc = err_set(e, ERR_DATA, "%s and %s share their input in the first chunk only",
                             s->name, leader[s->input]->name);
            continue;
        }
        leader[s->input] = s;
        for (int h = 0; h < GRAM_HALVES; h++)
            for (int64_t k = 0; k < m->n_mat && rc == 0; k++)
                if (!mirror(m, m->sum[h] + k * m->n * m->block))
                    rc = err_set(e, ERR_DATA, "%s: activations are not finite", s->name);
        out->input[out->n_inputs++] = (struct gram_input){.name = xstrdup(s->name),
                                                          .n = m->n,
                                                          .block = m->block,
                                                          .n_mat = m->n_mat,
                                                          .sum = {m->sum[0], m->sum[1]},
                                                          .count = {m->count[0], m->count[1]},
                                                          .cross = {m->cross[0], m->cross[1]}};
    }
    out->crossed = c->pair != NULL;
    free(leader);
    return rc;
}
