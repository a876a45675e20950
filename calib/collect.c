// SPDX-License-Identifier: MIT
/* calib/collect.c - runs texts through a model and sums the squared inputs of every matrix product.
 *
 * The token stream is cut into chunks of ctx tokens, each starting from an empty context
 * (docs/formats/imatrix.md). Sums are double, over the tokens of a chunk in order and then over
 * chunks in order, so the result does not depend on threads or ranks: rank i mod n computes chunk
 * i, and rank 0 adds the sums in order (base/ranks.h). An MTP block runs after the trunk, on the
 * trunk's hidden states and the following tokens, so it sees one row less per chunk. Memory: one
 * session (two with MTP); 8 bytes per weight column and expert (24 with moments) for the sums of
 * all chunks, and as many for each chunk of a pass; 4 bytes per token; and the hidden rows of a
 * pass for an MTP block.
 *
 * Several chunks run through the model per pass, each with its own sums, unless the sums would take
 * more than a quarter of the memory. Snapshots hold the sums of complete chunks. Second moments are
 * updated row by row, so an interruption takes effect only after the current chunk. */
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calib/gradients.h"
#include "calib/moments.h"
#include "calib/imatrix.h"
#include "calib/snapshot.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/progress.h"
#include "base/ranks.h"
#include "kernels/blas.h"
#include "kernels/dev_product.h"
#include "runtime/engine/fault.h"
#include "runtime/generate/drafter.h"
#include "runtime/generate/windows.h"

struct collector {
    struct windows windows; /* the chunks, several per pass */
    struct imat *m;         /* sums of the chunks in this pass, [windows.most] */
    int at;                 /* chunk in this pass that the MTP block is processing */
    struct pool *pool;
    struct gram_col *gram; /* collector of second moments; NULL: none */
    /* Supplies the collector with rows and gradients; NULL: it gets only rows, from the trunk. */
    struct gradients *gradients;
    struct dev_product *dev; /* computes moments and products of gradients; NULL: the CPU does */
    bool survey;             /* collect only second moments, no importance */
    /* Entries whose size changed between calls: an internal error, which is reported. */
    int64_t n_bad;
    struct session *trunk; /* session of the model */
    struct drafter *draft; /* its MTP block; NULL: none */
    /* Hidden rows [windows.most][ctx][n_embd], for the MTP block and second moments. */
    float *hidden;
    struct imat *out;
    int64_t ctx; /* tokens per chunk */
    int64_t n_chunks;
    const struct session_sums *there; /* sums the trunk on its device; NULL: summed on the CPU */
    struct imatrix_keep *keep;        /* where snapshots go; NULL: none, or no more */
    char *what;                       /* identity(): everything that the sums depend on */
    struct checkpoint_clock clock;
};

/* Input rows of one matrix, and the sums to which they are added. */
struct adding {
    /* Sums of squares, values and fourth powers; the last two may be NULL. */
    double *sum2, *sum1, *sum4;
    const float *x;
    int64_t n_rows, ld, n;
};
enum { COLUMNS = 256 };
/* Adds the powers of column groups c0 to c1 - 1, of COLUMNS each, to the sums; a pool_fn. */
static void add_columns(void *ctx, int64_t c0, int64_t c1, int worker) {
    const struct adding *a = ctx;
    (void)worker;
    const int64_t i0 = c0 * COLUMNS, i1 = min_i64(c1 * COLUMNS, a->n);
    for (int64_t r = 0; r < a->n_rows; r++) {
        const float *row = a->x + r * a->ld;
        for (int64_t i = i0; i < i1; i++) a->sum2[i] += (double)row[i] * (double)row[i];
        for (int64_t i = i0; i < i1 && a->sum1; i++) {
            const double v = (double)row[i], v2 = v * v;
            a->sum1[i] += v;
            a->sum4[i] += v2 * v2;
        }
    }
}

/* Adds rows to the importance of their weight and, if gram is not NULL, to its moments. */
static void add_rows(struct collector *c, struct imat *m, struct gram_col *gram,
                     const struct session_shown *r) {
    const struct gr_weight *w = r->w;
    if (strncmp(w->name, "blk.", 4) != 0) return; /* the head's rows are added in run_pass() */
    if (gram) gram_col_see(gram, w, r->expert, r->x, r->gate, r->n_rows, r->ld);
    if (c->survey) return;
    int64_t n_mat = r->expert < 0 ? 1 : w->ne[2];
    struct imat_entry *en = imat_add(m, w->name, w->ne[0], n_mat);
    if (!en) {
        c->n_bad++;
        return;
    }
    const int64_t mat = r->expert < 0 ? 0 : r->expert, at = mat * en->ne0;
    struct adding a = {
        .sum2 = en->sum2 + at, .x = r->x, .n_rows = r->n_rows, .ld = r->ld, .n = en->ne0};
    if (en->sum1) {
        a.sum1 = en->sum1 + at;
        a.sum4 = en->sum4 + at;
    }
    const int64_t n_parts = div_up(en->ne0, COLUMNS);
    if (r->n_rows * en->ne0 < 1 << 16)
        add_columns(&a, 0, n_parts, 0);
    else
        pool_for(c->pool, n_parts, 1, add_columns, &a);
    en->count[mat] += (double)r->n_rows;
}
/* Adds the rows that the trunk multiplies; a session observer. */
static void add_trunk_rows(void *ud, const struct session_shown *r) {
    struct collector *c = ud;
    add_rows(c, &c->m[windows_which(&c->windows, r->seq)], c->gradients ? NULL : c->gram, r);
}
/* Adds the rows that the draft multiplies; a session observer. */
static void add_draft_rows(void *ud, const struct session_shown *r) {
    struct collector *c = ud;
    add_rows(c, &c->m[c->at], c->gram, r);
}

/* Adds a device's sums to an entry. If sum2 is NULL, only creates the entry. */
static void take_sums(void *ud, const struct gr_weight *w, int64_t n_mat, const double *sum2,
                      const double *count) {
    struct collector *c = ud;
    if (strncmp(w->name, "blk.", 4) != 0) return;
    struct imat_entry *en = imat_add(c->out, w->name, w->ne[0], n_mat);
    if (!en) c->n_bad++;
    if (!en || !sum2) return;
    for (int64_t i = 0; i < n_mat * en->ne0; i++) en->sum2[i] += sum2[i];
    for (int64_t k = 0; k < n_mat; k++) en->count[k] += count[k];
}

/* Lets the device compute the sums if it holds the entire trunk. */
static void sum_there(struct collector *c) {
    const struct session_sums *sums = session_sums(c->trunk);
    struct err why;
    if (c->gram || c->out->moments || ranks_n() > 1 || !sums) return;
    if (!sums->begin(c->trunk, take_sums, c, &why))
        c->there = sums;
    else
        log_info("summing importance on the CPU: %s", why.msg);
}

/* Checks that all sums are finite and every tensor of model g was reached. Logs the number of
 * experts that no token reached. */
static int check_sums(const struct imat *m, const struct gguf *g, struct err *e) {
    int64_t holes = 0, rare = 0, n_mat = 0;
    for (int64_t i = 0; i < m->n_entries; i++) {
        const struct imat_entry *en = &m->entry[i];
        for (int64_t k = 0; k < en->n_mat * en->ne0; k++)
            if (!isfinite(en->sum2[k])) {
                TRY(fault_in_weights(g, e));
                return err_set(e, ERR_DATA,
                               "%s: activations are not finite (column %lld), though all weights "
                               "are: a value exceeds the range of f32",
                               en->name, (long long)(k % en->ne0));
            }
        for (int64_t k = 0; imat_is_experts(en) && k < en->n_mat; k++) {
            n_mat++;
            holes += en->count[k] == 0;
            rare += en->count[k] > 0 && en->count[k] < 256;
        }
    }
    if (holes || rare) {
        char unseen[64] = "";
        if (holes) snprintf(unseen, sizeof unseen, ", and %lld of them none", (long long)holes);
        log_warn("%lld of %lld expert matrices saw fewer than 256 tokens%s: the layer's average is "
                 "used for them; use more, and more varied, text",
                 (long long)(holes + rare), (long long)n_mat, unseen);
    }
    return 0;
}

int imatrix_together(const struct gguf *g, bool moments) {
    double set = 0;
    uint64_t limit;
    const double room = (double)buf_room(&limit) / 4;
    for (int64_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        if (strncmp(t->name, "blk.", 4) == 0)
            set += (moments ? 24 : 8) * (double)t->ne[0] * (double)(t->ne[2] * t->ne[3]);
    }
    if (room <= 0 || set <= 0) return INT_MAX;
    return (int)fmin(fmax(1, room / set - 1), INT_MAX);
}

/* Opens the trunk's session and, if the model has one, the draft's. */
static int open_both_sessions(struct collector *c, const struct model *m,
                              const struct session_opts *so, bool moments, struct err *e) {
    TRY(session_new(&c->trunk, m, so, e));
    if (m->hp.d[HD_MTP] && m->arch->drafts) {
        TRY(drafter_open(&c->draft, c->trunk, "mtp", e));
        session_observe(c->draft->s, &(struct session_probe){.ud = c, .product = add_draft_rows});
    }
    session_observe(c->trunk, &(struct session_probe){.ud = c, .product = add_trunk_rows});
    sum_there(c); /* first, because sequences use the memory that the sums leave */
    const int all = (int)min_i64(c->n_chunks, INT_MAX),
              most = c->there ? all : (int)min_i64(all, imatrix_together(m->gguf, moments));
    TRY(windows_open(&c->windows, c->trunk, so->n_ctx, most, 1, false, e));
    c->m = xcalloc((size_t)c->windows.most, sizeof *c->m);
    for (int i = 0; i < c->windows.most; i++) {
        imat_init(&c->m[i]);
        c->m[i].moments = moments;
    }
    if (!c->draft && !c->gram) return 0;
    void *p = NULL;
    TRY(mem_alloc(&p, (uint64_t)(c->windows.most * so->n_ctx * m->hp.d[HD_EMBD]) * sizeof(float),
                  "hidden rows", e));
    c->hidden = p;
    return 0;
}

/* Runs n chunks through the trunk, starting with chunk `first`: a single one if gradients are
 * collected, whose forward pass is the only one. *hidden: the inputs of the head, or NULL. */
static int run_trunk(struct collector *c, const int32_t *const *ids, int n, int64_t first,
                     const float **hidden, struct err *e) {
    const int64_t n_tok = c->windows.n_tok;
    *hidden = c->hidden;
    if (c->gradients) {
        TRY(gradients_text(c->gradients, ids[0], n_tok, first, e));
        *hidden = gradients_hidden(c->gradients);
        return 0;
    }
    if (c->windows.most > 1) return windows_feed(&c->windows, ids, n, 0, NULL, c->hidden, e);
    session_reset(c->trunk);
    return session_forward(c->trunk, ids[0], n_tok, c->hidden, e);
}

/* Runs n chunks, starting with chunk `first`. */
static int run_pass(struct collector *c, const int32_t *const *ids, int n, int64_t first,
                    struct err *e) {
    const int64_t n_tok = c->windows.n_tok, d = session_model(c->trunk)->hp.d[HD_EMBD];
    const float *hidden;
    TRY(run_trunk(c, ids, n, first, &hidden, e));
    /* The head itself is not run, because its input is known. */
    if (c->gram && !c->gradients)
        gram_col_see(c->gram, model_head(session_model(c->trunk)), -1, hidden, NULL, n * n_tok, d);
    for (c->at = 0; c->at < n && c->draft; c->at++) {
        session_reset(c->draft->s);
        const struct session_pass p = {
            .ids = ids[c->at] + 1, .n = n_tok - 1, .hidden_in = hidden + c->at * n_tok * d};
        TRY(session_pass(c->draft->s, &p, e));
    }
    return 0;
}

/* Sends a chunk's sums to rank 0, which adds them to the total; then clears them. */
static int add_chunk(struct collector *c, struct imat *m, int64_t i, struct err *e) {
    int rc = 0;
    for (int64_t k = 0; k < m->n_entries; k++) {
        struct imat_entry *en = &m->entry[k];
        ranks_send(i, en->sum2, (uint64_t)(en->n_mat * en->ne0) * sizeof *en->sum2);
        ranks_send(i, en->count, (uint64_t)en->n_mat * sizeof *en->count);
    }
    if (ranks_me() == 0) rc = imat_merge(c->out, m, e);
    for (int64_t k = 0; k < m->n_entries; k++) {
        struct imat_entry *en = &m->entry[k];
        memset(en->sum2, 0, (size_t)(en->n_mat * en->ne0) * sizeof *en->sum2);
        memset(en->count, 0, (size_t)en->n_mat * sizeof *en->count);
        if (!en->sum1) continue; /* only a single process sums moments */
        memset(en->sum1, 0, (size_t)(en->n_mat * en->ne0) * sizeof *en->sum1);
        memset(en->sum4, 0, (size_t)(en->n_mat * en->ne0) * sizeof *en->sum4);
    }
    return rc;
}

/* ---- snapshots ------------------------------------------------------------------------------- */

/* Returns a string with everything that the sums depend on; the caller frees it. Omits the number
 * of chunks, so that a longer run can reuse a snapshot. */
static char *identity(const struct collector *c, const struct model *m,
                      const struct imatrix_opts *o, const struct ids *ids, int64_t ctx) {
    struct buf b = {0};
    char hex[33];
    hash_xxh128_hex(hex, ids->v, (size_t)ids->n * sizeof *ids->v);
    buf_fmt(&b, "imatrix 2;isa %s;device %s;ctx %" PRId64 ";tokens %s;moments %d;",
            kern_isa_name(o->isa), c->there ? session_info(c->trunk).device : "", ctx, hex,
            o->moments);
    if (c->dev) buf_fmt(&b, "moments on a device;");
    if (o->blas) buf_fmt(&b, "blas %u %s;", o->blas, blas_config());
    buf_fmt(&b, "gram 3 %" PRId64 " %d;model ", c->gram ? gram_col_block(c->gram) : -1,
            c->gradients != NULL);
    if (o->keep->model)
        buf_str(&b, o->keep->model);
    else
        gguf_stamp(m->gguf, &b);
    return buf_take(&b);
}

/* Copies sums between a device and an imat. */
static void copy_sums(void *ud, const struct gr_weight *w, int64_t n_mat, const double *sum2,
                      const double *count) {
    struct imat_entry *en = imat_add(ud, w->name, w->ne[0], n_mat);
    if (!en) return;
    memcpy(en->sum2, sum2, (size_t)(n_mat * en->ne0) * sizeof *sum2);
    memcpy(en->count, count, (size_t)n_mat * sizeof *count);
}
/* Copies a weight's sums and counts. Returns false if they are missing or have a different
 * shape. */
static bool find_sums(void *ud, const struct gr_weight *w, int64_t n_mat, double *sum2,
                      double *count) {
    const struct imat_entry *en = imat_find(ud, w->name);
    if (!en || en->ne0 != w->ne[0] || en->n_mat != n_mat) return false;
    memcpy(sum2, en->sum2, (size_t)(n_mat * en->ne0) * sizeof *sum2);
    memcpy(count, en->count, (size_t)n_mat * sizeof *count);
    return true;
}

/* Adds a copy of the entry's sums and counts. */
static void add_entry(struct imat *m, const struct imat_entry *from) {
    struct imat_entry *to = imat_add(m, from->name, from->ne0, from->n_mat);
    memcpy(to->sum2, from->sum2, (size_t)(to->n_mat * to->ne0) * sizeof *to->sum2);
    memcpy(to->count, from->count, (size_t)to->n_mat * sizeof *to->count);
}

/* Writes a snapshot of the trunk's sums, from the device, and the MTP block's sums, from the
 * host. */
static int save_there(struct collector *c, struct err *e) {
    struct imat all;
    imat_init(&all);
    all.n_chunks = c->out->n_chunks;
    int rc = c->there->save(c->trunk, copy_sums, &all, e);
    for (int64_t i = 0; i < c->out->n_entries && !rc; i++) {
        const struct imat_entry *from = &c->out->entry[i];
        if (!imat_find(&all, from->name)) add_entry(&all, from);
    }
    if (!rc) rc = calib_save(c->keep->path, c->what, &all, NULL, e);
    imat_release(&all);
    return rc;
}

/* Writes a snapshot of the complete chunks. If that fails, disables snapshots and continues. */
static void save_snapshot(struct collector *c) {
    struct err e;
    if (ranks_me() != 0) return;
    const double t0 = progress_now_s();
    const int rc =
        c->there ? save_there(c, &e) : calib_save(c->keep->path, c->what, c->out, c->gram, &e);
    checkpoint_wrote(&c->clock, t0);
    if (!rc) return;
    log_warn("%s; an interrupted run will have to start over", e.msg);
    c->keep = NULL;
}

/* Returns whether the snapshot `found` has every entry of `out`, with the same sizes. It may have
 * more, those of an MTP block. */
static bool fits_there(const struct imat *out, const struct imat *found) {
    for (int64_t i = 0; i < out->n_entries; i++) {
        const struct imat_entry *want = &out->entry[i], *en = imat_find(found, want->name);
        if (!en || en->ne0 != want->ne0 || en->n_mat != want->n_mat) return false;
    }
    return true;
}

/* Uploads the snapshot's sums of the trunk, to which the device keeps adding; moves the MTP
 * block's sums to c->out. */
static int load_there(struct collector *c, struct imat *found, struct err *e) {
    TRY(c->there->load(c->trunk, find_sums, found, e));
    for (int64_t i = 0; i < found->n_entries; i++) {
        const struct imat_entry *from = &found->entry[i];
        if (imat_find(c->out, from->name)) continue;
        add_entry(c->out, from);
    }
    return 0;
}

/* Moves all entries to `to`, whose own entries must have been released, and empties `from`. */
static void move_entries(struct imat *to, struct imat *from) {
    to->entry = from->entry;
    to->n_entries = from->n_entries;
    to->cap = from->cap;
    from->entry = NULL;
    from->n_entries = from->cap = 0;
}

/* Loads the snapshot of an earlier run on rank 0: the sums of c->keep->n_found chunks. */
static int load_snapshot(struct collector *c, int64_t n_chunks, struct err *e) {
    struct imat found;
    int rc = 0;
    imat_init(&found);
    found.moments = c->m->moments;
    const enum checkpoint_found is = calib_load(c->keep->path, c->what, &found, c->gram, n_chunks);
    if (is == SNAP_SAME && c->there && !fits_there(c->out, &found)) {
        log_warn("%s does not fit this device: starting afresh", c->keep->path);
    } else if (is == SNAP_SAME) {
        c->keep->n_found = c->out->n_chunks = found.n_chunks;
        log_info("%s: resuming after %" PRIu32 " of %" PRId64 " chunks", c->keep->path,
                 found.n_chunks, n_chunks);
        if (c->there)
            rc = load_there(c, &found, e);
        else
            move_entries(c->out, &found);
    }
    if (is == SNAP_FOREIGN) c->keep = NULL;
    imat_release(&found);
    return rc;
}

/* Resumes an earlier run if there is a snapshot. Sets *first to the next chunk, on every rank. */
static int resume_run(struct collector *c, const struct model *m, const struct imatrix_opts *o,
                      const struct ids *ids, int64_t n_chunks, int64_t *first, struct err *e) {
    *first = 0;
    if (!c->keep) return 0;
    c->keep->n_found = 0;
    c->what = identity(c, m, o, ids, c->out->chunk_size);
    int rc = ranks_me() == 0 ? load_snapshot(c, n_chunks, e) : 0;
    if (c->keep) *first = c->keep->n_found;
    ranks_bcast(first, sizeof *first);
    /* Every rank needs the entries to which other ranks' sums are added. */
    for (int64_t i = 0; i < c->out->n_entries && *first && !c->there && !rc; i++) {
        const struct imat_entry *en = &c->out->entry[i];
        if (!imat_add(c->m, en->name, en->ne0, en->n_mat)) c->n_bad++;
    }
    return rc;
}

static void release_collector(struct collector *c) {
    free(c->what);
    for (int i = 0; i < c->windows.most && c->m; i++) imat_release(&c->m[i]);
    free(c->m);
    windows_close(&c->windows);
    gradients_free(c->gradients);
    dev_product_free(c->dev);
    drafter_close(c->draft);
    session_free(c->trunk);
    mem_free(c->hidden);
}

/* Reads the texts and sets the number of chunks to use. */
static int load_texts(struct collector *c, const struct model *m, const struct imatrix_opts *o,
                      struct ids *ids, int64_t *n_chunks, struct err *e) {
    for (int i = 0; i < o->n_texts; i++) {
        TRY(corpus_load(m, o->texts[i], o->parse_special, ids, e));
        imat_add_dataset(c->out, io_base(o->texts[i]));
    }
    *n_chunks = ids->n / c->ctx;
    if (*n_chunks < 1)
        return err_set(e, ERR_DATA,
                       "the texts give %lld tokens, fewer than one chunk of %lld; add text "
                       "or lower --ctx",
                       (long long)ids->n, (long long)c->ctx);
    if (o->max_chunks && o->max_chunks < *n_chunks) *n_chunks = o->max_chunks;
    return 0;
}

/* Lets the trunk's device compute moments and products of gradients, unless memory or instruction
 * sets are limited. */
static void open_products(struct collector *c, const struct imatrix_opts *o) {
    struct err why;
    if (strcmp(session_info(c->trunk).device, "cuda") != 0) return;
    if (!o->moments_there || o->device.max_bytes) {
        log_info("second moments and gradients are computed on the CPU");
        return;
    }
    if (dev_product_new(&c->dev, o->device.index, 0, o->pool, &why)) {
        log_warn("second moments and gradients are computed on the CPU: %s", why.msg);
        return;
    }
    log_info("second moments are computed on the device, gradients mostly on the CPU");
    gram_col_device(c->gram, c->dev);
    if (c->gradients) gradients_device(c->gradients, c->dev);
}

/* Opens the sessions. For second moments, also runs the first chunk to find out which weights
 * share an input. */
static int open_sessions(struct collector *c, const struct model *m, const struct imatrix_opts *o,
                         const int32_t *first, struct err *e) {
    struct session_opts so = {.n_ctx = c->ctx,
                              .n_ubatch = o->gram ? min_i64(c->ctx, 2048) : windows_rows(c->ctx),
                              .isa = o->isa,
                              .act = ACT_F32,
                              .pool = o->pool,
                              .reread = o->reread && !o->gram,
                              .device = o->device,
                              .whole = o->gram && o->keep};
    TRY(open_both_sessions(c, m, &so, o->moments, e));
    c->out->chunk_size = (uint32_t)c->ctx;
    if (!c->gram) return 0;
    TRY(gradients_new(&c->gradients, m, c->gram, c->ctx, o->isa, o->pool, e));
    if (c->gradients) {
        gradients_blas(c->gradients, o->blas);
        gradients_observe_inputs(c->gradients, add_trunk_rows, c);
    }
    gram_col_blas(c->gram, o->blas);
    open_products(c, o);
    c->survey = true;
    TRY(run_pass(c, &first, 1, 0, e));
    c->survey = false;
    return gram_col_settle(c->gram, so.n_ubatch, e);
}

/* Runs chunk i and the following chunks that fit into a pass, and adds their sums. Sets *done to
 * the number of chunks run. */
static int run_some(struct collector *c, const struct model *m, int32_t *ids, int64_t i,
                    int64_t n_chunks, const int32_t **first, int *done, struct err *e) {
    const bool bos = tok_add_bos(m->tok) && tok_special(m->tok, TS_BOS) >= 0;
    const int n = (int)min_i64(c->windows.now, n_chunks - i);
    *done = 0;
    if (progress_interrupted()) return err_set(e, ERR_INTR, "interrupted");
    if (c->gram) gram_col_chunk(c->gram, i);
    for (int k = 0; k < n; k++) {
        int32_t *chunk = ids + (i + k) * c->ctx;
        if (bos) chunk[0] = (int32_t)tok_special(m->tok, TS_BOS);
        first[k] = chunk;
    }
    if (ranks_mine(i)) TRY(run_pass(c, first, n, i, e));
    if (c->there) TRY(c->there->chunk(c->trunk, e));
    for (; *done < n; ++*done) {
        TRY(add_chunk(c, &c->m[*done], i + *done, e));
        c->out->n_chunks++;
    }
    return 0;
}

/* Runs the chunks, starting with chunk `from`. Writes snapshots periodically and on
 * interruption. */
static int run_chunks(struct collector *c, const struct model *m, int32_t *ids, int64_t from,
                      int64_t n_chunks, struct err *e) {
    struct progress p;
    int rc = 0, done;
    progress_begin(&p, "imatrix", PROG_TOKENS, (uint64_t)(n_chunks * c->ctx));
    progress_from(&p, (uint64_t)(from * c->ctx));
    const int32_t **first = xcalloc((size_t)c->windows.most, sizeof *first);
    c->windows.progress = &p;
    c->windows.per_token = 1;
    for (int64_t i = from; i < n_chunks && rc == 0; i += done) {
        rc = run_some(c, m, ids, i, n_chunks, first, &done, e);
        progress_update(&p, (uint64_t)((i + done) * c->ctx));
        if (rc == 0 && i + done < n_chunks && c->keep && checkpoint_due(&c->clock))
            save_snapshot(c);
    }
    free(first);
    progress_end(&p);
    if (rc == ERR_INTR && c->keep && c->out->n_chunks > from) {
        save_snapshot(c);
        if (c->keep && ranks_me() == 0)
            log_info("%" PRIu32 " of %" PRId64
                     " chunks are kept in %s: run the same command to resume",
                     c->out->n_chunks, n_chunks, c->keep->path);
    }
    return rc;
}

/* Fetches the device's sums and checks all sums. */
static int finish(struct collector *c, const struct model *m, struct err *e) {
    if (c->there) TRY(c->there->end(c->trunk, take_sums, c, e));
    if (c->n_bad) return err_set(e, ERR_DATA, "tensor sizes changed during calibration");
    return check_sums(c->out, m->gguf, e);
}

int imatrix_collect(const struct model *m, const struct imatrix_opts *o, struct imat *out,
                    struct err *e) {
    struct ids ids = {0};
    struct collector c = {.gram = o->gram,
                          .out = out,
                          .keep = o->keep,
                          .pool = o->pool,
                          .ctx = o->ctx ? o->ctx : 512};
    int64_t n_chunks = 0, from;
    if (o->keep) c.clock.every = o->keep->every;
    out->moments = o->moments;
    int rc = load_texts(&c, m, o, &ids, &n_chunks, e);
    c.n_chunks = n_chunks;
    if (!rc && c.gram) gram_col_chunks(c.gram, n_chunks);
    if (!rc) rc = open_sessions(&c, m, o, ids.v, e);
    if (!rc) rc = resume_run(&c, m, o, &ids, n_chunks, &from, e);
    const double t0 = progress_now_s();
    if (!rc) rc = run_chunks(&c, m, ids.v, from, n_chunks, e);
    if (!rc) rc = finish(&c, m, e);
    if (o->seconds) *o->seconds = progress_now_s() - t0;
    release_collector(&c);
    ids_release(&ids);
    return rc;
}
