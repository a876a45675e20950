// SPDX-License-Identifier: MIT
/* calib/collect.c - runs texts through a model and sums the squares of what enters each matrix
 * product.
 *
 * The token stream is cut into chunks of ctx tokens, each from an empty context
 * (docs/formats/imatrix.md). Sums are double, over the tokens of a chunk in order and then over
 * chunks in order, so the result depends on neither threads nor ranks: chunk i is summed by rank i
 * mod n, and rank 0 adds it (core/ranks.h). An MTP block runs behind the trunk: it reads the
 * trunk's hidden rows and the token after each, so it sees one row less per chunk. Memory: one
 * session (two), 16 bytes per weight column and expert (sums of the chunk and of all; 48 with
 * moments), 4 bytes per token, hidden rows of a chunk for an MTP block. */
#include <math.h>
#include <string.h>

#include "calib/gram.h"
#include "calib/imatrix.h"
#include "core/io.h"
#include "core/log.h"
#include "core/mem.h"
#include "core/prog.h"
#include "core/ranks.h"
#include "runtime/draft.h"

struct collector {
    struct imat m;         /* of the chunk under way */
    struct gram_col *gram; /* or NULL */
    bool survey;           /* only for gram: nothing is summed */
    int64_t n_bad;         /* entries whose size changed between calls: a bug of ours, reported */
    struct session *trunk, *draft; /* draft: of an MTP block, or NULL */
    struct model *draft_model;
    float *hidden; /* [ctx][n_embd], for the block */
    struct imat *out;
    bool there; /* the trunk's sums are made on its device */
};

static void see_moments(struct imat_entry *en, int64_t mat, const float *row) {
    double *sum1 = en->sum1 + mat * en->ne0, *sum4 = en->sum4 + mat * en->ne0;
    for (int64_t i = 0; i < en->ne0; i++) {
        const double v = (double)row[i], v2 = v * v;
        sum1[i] += v;
        sum4[i] += v2 * v2;
    }
}

static void see(void *ud, const struct gr_weight *w, int64_t expert, const float *x, int64_t n_rows,
                int64_t ld) {
    struct collector *c = ud;
    if (strncmp(w->name, "blk.", 4) != 0) return; /* the head is quantized without weights */
    if (c->gram) gram_col_see(c->gram, w, expert, x, n_rows, ld);
    if (c->survey) return;
    int64_t n_mat = expert < 0 ? 1 : w->ne[2];
    struct imat_entry *en = imat_add(&c->m, w->name, w->ne[0], n_mat);
    if (!en) {
        c->n_bad++;
        return;
    }
    int64_t mat = expert < 0 ? 0 : expert;
    double *sum = en->sum2 + mat * en->ne0;
    for (int64_t r = 0; r < n_rows; r++) {
        const float *row = x + r * ld;
        for (int64_t i = 0; i < en->ne0; i++) sum[i] += (double)row[i] * (double)row[i];
        if (en->sum1) see_moments(en, mat, row);
    }
    en->count[mat] += (double)n_rows;
}

/* Sums that a device made; NULL: only that the entry will come. */
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

/* Where a device has all of the trunk, it sums itself. */
static void sum_there(struct collector *c) {
    struct err why;
    if (c->gram || c->m.moments || ranks_n() > 1 || !session_can_sum(c->trunk)) return;
    c->there = session_sum_begin(c->trunk, take_sums, c, &why) == 0;
    if (!c->there) log_info("importance is summed by the CPU: %s", why.msg);
}

/* Every sum finite, every tensor seen at all; says how many experts never were. */
static int check(const struct imat *m, struct err *e) {
    int64_t holes = 0, rare = 0, n_mat = 0;
    for (int64_t i = 0; i < m->n_entries; i++) {
        const struct imat_entry *en = &m->entry[i];
        for (int64_t k = 0; k < en->n_mat * en->ne0; k++)
            if (!isfinite(en->sum2[k]))
                return err_set(
                    e, ERR_DATA,
                    "%s: activations are not finite (column %lld); the model or the text "
                    "is broken",
                    en->name, (long long)(k % en->ne0));
        for (int64_t k = 0; en->n_mat > 1 && k < en->n_mat; k++) {
            n_mat++;
            holes += en->count[k] == 0;
            rare += en->count[k] > 0 && en->count[k] < 256;
        }
    }
    if (holes || rare)
        log_warn(
            "of %lld expert matrices %lld were never used and %lld by fewer than 256 tokens: their "
            "weights lean on the layer's mean; more and more varied text helps",
            (long long)n_mat, (long long)holes, (long long)rare);
    return 0;
}

static int sessions(struct collector *c, const struct model *m, const struct session_opts *so,
                    struct err *e) {
    TRY(session_new(&c->trunk, m, so, e));
    session_observe(c->trunk, see, c);
    if (!m->hp.d[HD_MTP] || !m->arch->build_draft) return 0;
    void *p = NULL;
    TRY(buf_alloc(&p, (uint64_t)(so->n_ctx * m->hp.d[HD_EMBD]) * sizeof(float), "hidden rows", e));
    c->hidden = p;
    TRY(draft_session(c->trunk, &c->draft_model, &c->draft, e));
    session_observe(c->draft, see, c);
    return 0;
}

static int chunk(struct collector *c, const int32_t *ids, int64_t n, struct err *e) {
    session_reset(c->trunk);
    TRY(session_forward(c->trunk, ids, n, c->hidden, e));
    if (!c->draft) return 0;
    session_reset(c->draft);
    return session_forward_hidden(c->draft, ids + 1, c->hidden, n - 1, NULL, NULL, e);
}

/* The chunk's sums go to rank 0, are added there, and start again. */
static int add_chunk(struct collector *c, int64_t i, struct imat *out, struct err *e) {
    int rc = 0;
    for (int64_t k = 0; k < c->m.n_entries; k++) {
        struct imat_entry *en = &c->m.entry[k];
        ranks_pass(i, en->sum2, (uint64_t)(en->n_mat * en->ne0) * sizeof *en->sum2);
        ranks_pass(i, en->count, (uint64_t)en->n_mat * sizeof *en->count);
    }
    if (ranks_me() == 0) rc = imat_merge(out, &c->m, e);
    for (int64_t k = 0; k < c->m.n_entries; k++) {
        struct imat_entry *en = &c->m.entry[k];
        memset(en->sum2, 0, (size_t)(en->n_mat * en->ne0) * sizeof *en->sum2);
        memset(en->count, 0, (size_t)en->n_mat * sizeof *en->count);
        if (!en->sum1) continue; /* moments: one process only */
        memset(en->sum1, 0, (size_t)(en->n_mat * en->ne0) * sizeof *en->sum1);
        memset(en->sum4, 0, (size_t)(en->n_mat * en->ne0) * sizeof *en->sum4);
    }
    return rc;
}

static void release(struct collector *c) {
    imat_release(&c->m);
    session_free(c->draft);
    model_close(c->draft_model);
    session_free(c->trunk);
    buf_free(c->hidden);
}

int imatrix_collect(const struct model *m, const struct imatrix_opts *o, struct imat *out,
                    struct err *e) {
    struct ids ids = {0};
    struct collector c = {.gram = o->gram, .out = out};
    int64_t ctx = o->ctx ? o->ctx : 512;
    int rc = 0;
    imat_init(&c.m);
    out->moments = c.m.moments = o->moments;
    for (int i = 0; i < o->n_texts; i++) {
        TRY_GOTO(out, rc, corpus_load(m, o->texts[i], o->parse_special, &ids, e));
        imat_add_dataset(out, io_base(o->texts[i]));
    }
    int64_t n_chunks = ids.n / ctx;
    if (n_chunks < 1) {
        rc = err_set(e, ERR_DATA,
                     "the texts give %lld tokens, fewer than one chunk of %lld; add text "
                     "or lower --ctx",
                     (long long)ids.n, (long long)ctx);
        goto out;
    }
    if (o->max_chunks && o->max_chunks < n_chunks) n_chunks = o->max_chunks;
    struct session_opts so = {.n_ctx = ctx,
                              .n_ubatch = ctx < 2048 ? ctx : 2048,
                              .isa = o->isa,
                              .act = ACT_F32,
                              .pool = o->pool,
                              .device = o->device};
    TRY_GOTO(out, rc, sessions(&c, m, &so, e));
    if (c.gram) {
        c.survey = true;
        TRY_GOTO(out, rc, chunk(&c, ids.v, ctx, e));
        c.survey = false;
        TRY_GOTO(out, rc, gram_col_settle(c.gram, so.n_ubatch, e));
    }
    sum_there(&c);
    out->chunk_size = (uint32_t)ctx;
    struct prog p;
    prog_begin(&p, "imatrix", PROG_TOKENS, (uint64_t)(n_chunks * ctx));
    for (int64_t i = 0; i < n_chunks && rc == 0; i++) {
        if (prog_interrupted()) {
            rc = err_set(e, ERR_INTR, "interrupted");
            break;
        }
        if (c.gram) gram_col_chunk(c.gram, i);
        bool bos = tok_add_bos(m->tok) && tok_special(m->tok, TS_BOS) >= 0;
        int32_t *first = ids.v + i * ctx;
        if (bos) first[0] = (int32_t)tok_special(m->tok, TS_BOS);
        if (ranks_mine(i)) rc = chunk(&c, first, ctx, e);
        if (rc == 0 && c.there) rc = session_sum_chunk(c.trunk, e);
        if (rc == 0) rc = add_chunk(&c, i, out, e);
        out->n_chunks++;
        prog_update(&p, (uint64_t)((i + 1) * ctx));
    }
    prog_end(&p);
    if (rc == 0 && c.there) rc = session_sum_end(c.trunk, take_sums, &c, e);
    if (rc == 0 && c.n_bad) rc = err_set(e, ERR_DATA, "tensor sizes changed during calibration");
    if (rc == 0) rc = check(out, e);
out:
    release(&c);
    ids_release(&ids);
    return rc;
}
