// SPDX-License-Identifier: MIT
/* runtime/eval_kld.c - base and candidates over the same chunks; per position the divergence of the
 * next-token distributions. Nothing of size tokens x vocabulary is kept: of each chunk the hidden
 * rows, of each model a block of logits. Base and candidates run with the same kernels and
 * batching. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/kld_file.h"
#include "core/mem.h"
#include "core/num.h"
#include "core/prog.h"
#include "runtime/eval_int.h"

struct kld_run {
    struct session *base;
    struct session *const *cand;
    int n_cand;
    int64_t ctx, first, last, n_chunks, n_vocab, block;
    float **hidden;      /* [n_cand + 1]: base last */
    float *logp, *logit; /* [block][n_vocab] */
    struct kld_pos *pos; /* [n_cand] */
    /* of the block under way */
    const int32_t *target;
    struct kld_pos *to;
    int64_t at;
};

static int alloc_floats(float **out, int64_t n, const char *what, struct err *e) {
    void *p = NULL;
    TRY(buf_alloc(&p, (uint64_t)n * sizeof(float), what, e));
    *out = p;
    return 0;
}

/* Sizes of a run over chunks of ctx tokens; n_chunks is set by the caller. */
static int run_init(struct kld_run *r, int64_t ctx, struct err *e) {
    const struct session *any = r->base ? r->base : r->cand[0];
    r->ctx = ctx;
    r->first = ctx / 2;
    r->last = ctx - 1;
    r->n_vocab = session_model(any)->hp.d[HD_VOCAB];
    r->block = eval_head_rows(r->n_vocab);
    r->hidden = xcalloc((size_t)r->n_cand + 1, sizeof *r->hidden);
    r->pos = xcalloc((size_t)r->n_cand + 1, sizeof *r->pos);
    for (int i = 0; i <= r->n_cand; i++) {
        const struct session *s = i < r->n_cand ? r->cand[i] : r->base;
        if (!s) continue;
        if (session_model(s)->hp.d[HD_VOCAB] != r->n_vocab)
            return err_set(e, ERR_DATA,
                           "%s has a vocabulary of %" PRId64 " entries, the base has %" PRId64
                           ": they cannot be compared",
                           gguf_path(session_model(s)->gguf), session_model(s)->hp.d[HD_VOCAB],
                           r->n_vocab);
        if (session_get_opts(s)->n_ctx < ctx)
            return err_set(e, ERR_USAGE,
                           "a window of %" PRId64 " tokens does not fit a session of %" PRId64, ctx,
                           session_get_opts(s)->n_ctx);
        TRY(alloc_floats(&r->hidden[i], ctx * session_model(s)->hp.d[HD_EMBD], "hidden rows", e));
        if (i < r->n_cand) kld_pos_init(&r->pos[i], r->n_chunks * (r->last - r->first));
    }
    TRY(alloc_floats(&r->logp, r->block * r->n_vocab, "logits", e));
    return alloc_floats(&r->logit, r->block * r->n_vocab, "logits", e);
}

static void run_release(struct kld_run *r) {
    for (int i = 0; i <= r->n_cand; i++) {
        if (r->hidden) buf_free(r->hidden[i]);
        if (r->pos) kld_pos_release(&r->pos[i]);
    }
    free(r->hidden);
    free(r->pos);
    buf_free(r->logp);
    buf_free(r->logit);
}

static void logp_range(void *ctx, int64_t r0, int64_t r1, int worker) {
    const struct kld_run *r = ctx;
    (void)worker;
    for (int64_t i = r0; i < r1; i++) {
        float *x = r->logp + i * r->n_vocab;
        float lse = (float)eval_lse(x, r->n_vocab);
        for (int64_t v = 0; v < r->n_vocab; v++) x[v] -= lse;
    }
}
static void pos_range(void *ctx, int64_t r0, int64_t r1, int worker) {
    const struct kld_run *r = ctx;
    (void)worker;
    for (int64_t i = r0; i < r1; i++)
        kld_pos_row(r->to, r->at + i, r->logp + i * r->n_vocab, r->logit + i * r->n_vocab,
                    r->n_vocab, r->target[i]);
}

static int head(struct session *s, const float *hidden, int64_t row, int64_t n, float *out,
                struct err *e) {
    return session_head(s, hidden + row * session_model(s)->hp.d[HD_EMBD], n, out, e);
}

/* All candidates against the log-probabilities in r->logp for rows [row, row + n). */
static int compare_rows(struct kld_run *r, const int32_t *chunk, int64_t row, int64_t n,
                        struct err *e) {
    for (int i = 0; i < r->n_cand; i++) {
        TRY(head(r->cand[i], r->hidden[i], row, n, r->logit, e));
        r->to = &r->pos[i];
        r->at = r->to->n;
        r->target = chunk + row + 1;
        pool_for(session_get_opts(r->cand[i])->pool, n, 1, pos_range, r);
        r->to->n += n;
    }
    return 0;
}

static int run_chunk(struct kld_run *r, const int32_t *chunk, int64_t i_chunk,
                     const struct kld_r *file, struct err *e) {
    for (int i = 0; i < r->n_cand; i++) TRY(eval_chunk(r->cand[i], chunk, r->ctx, r->hidden[i], e));
    if (!file) TRY(eval_chunk(r->base, chunk, r->ctx, r->hidden[r->n_cand], e));
    for (int64_t row = r->first; row < r->last; row += r->block) {
        int64_t n = min_i64(r->block, r->last - row);
        if (file) {
            int64_t at = i_chunk * (r->last - r->first) + row - r->first;
            for (int64_t i = 0; i < n; i++) kld_r_row(file, at + i, r->logp + i * r->n_vocab);
        } else {
            TRY(head(r->base, r->hidden[r->n_cand], row, n, r->logp, e));
            pool_for(session_get_opts(r->base)->pool, n, 1, logp_range, r);
        }
        TRY(compare_rows(r, chunk, row, n, e));
    }
    return 0;
}

static int run_all(struct kld_run *r, const int32_t *ids, const struct kld_r *file,
                   struct eval_kld *out, struct err *e) {
    struct prog prog = {0};
    int rc = 0;
    double t0 = prog_now_s();
    prog_begin(&prog, "KL divergence", PROG_TOKENS, (uint64_t)(r->n_chunks * r->ctx));
    for (int64_t c = 0; c < r->n_chunks && !rc; c++) {
        rc = run_chunk(r, ids + c * r->ctx, c, file, e);
        double mean, u;
        eval_mean(r->pos[0].kld, r->pos[0].n, &mean, &u);
        snprintf(prog.note, sizeof prog.note, "kld %.5f", mean);
        prog_update(&prog, (uint64_t)((c + 1) * r->ctx));
    }
    prog_end(&prog);
    for (int i = 0; i < r->n_cand && !rc; i++) {
        kld_stats(&r->pos[i], &out[i]);
        out[i].ctx = r->ctx;
        out[i].n_chunks = r->n_chunks;
        out[i].tok_per_s = (double)(r->n_chunks * r->ctx) / (prog_now_s() - t0);
    }
    return rc;
}

int eval_kld(struct session *base, struct session *const *cand, int n_cand, const struct ids *ids,
             int64_t ctx, int64_t max_chunks, struct eval_kld *out, float **kld, struct err *e) {
    struct kld_run r = {.base = base, .cand = cand, .n_cand = n_cand};
    TRY(eval_plan(base, ids->n, ctx, max_chunks, &r.n_chunks, e));
    int rc = run_init(&r, ctx, e);
    if (!rc) rc = run_all(&r, ids->v, NULL, out, e);
    for (int i = 0; i < n_cand && !rc && kld; i++) {
        kld[i] = xmalloc((size_t)r.pos[i].n * sizeof **kld + 1);
        for (int64_t k = 0; k < r.pos[i].n; k++) kld[i][k] = (float)r.pos[i].kld[k];
    }
    run_release(&r);
    return rc;
}

static int check_file(const struct kld_r *f, const char *path, const struct session *s,
                      struct err *e) {
    int64_t n_vocab = session_model(s)->hp.d[HD_VOCAB];
    if (kld_r_vocab(f) != n_vocab)
        return err_set(e, ERR_DATA,
                       "%s: made with a vocabulary of %" PRId32 " entries, the model has %" PRId64,
                       path, kld_r_vocab(f), n_vocab);
    if (kld_r_ctx(f) < 4 || kld_r_chunks(f) < 1)
        return err_set(e, ERR_DATA, "%s: holds no scored positions", path);
    return 0;
}

int eval_kld_file(struct session *cand, const char *base_file, int64_t max_chunks,
                  struct eval_kld *out, struct err *e) {
    struct kld_r *f = NULL;
    struct session *const list[1] = {cand};
    struct kld_run r = {.cand = list, .n_cand = 1};
    TRY(kld_r_open(&f, base_file, e));
    int rc = check_file(f, base_file, cand, e);
    if (!rc) {
        r.n_chunks = kld_r_chunks(f);
        if (max_chunks > 0) r.n_chunks = min_i64(r.n_chunks, max_chunks);
        rc = run_init(&r, kld_r_ctx(f), e);
    }
    if (!rc) rc = run_all(&r, kld_r_tokens(f), f, out, e);
    run_release(&r);
    kld_r_close(f);
    return rc;
}

static int save_chunk(struct kld_run *r, struct kld_w *w, const int32_t *chunk, struct err *e) {
    TRY(eval_chunk(r->base, chunk, r->ctx, r->hidden[0], e));
    for (int64_t row = r->first; row < r->last; row += r->block) {
        int64_t n = min_i64(r->block, r->last - row);
        TRY(head(r->base, r->hidden[0], row, n, r->logit, e));
        for (int64_t i = 0; i < n; i++) TRY(kld_w_row(w, r->logit + i * r->n_vocab, e));
    }
    return 0;
}

int eval_kld_save(struct session *base, const struct ids *ids, int64_t ctx, int64_t max_chunks,
                  const char *path, bool overwrite, struct err *e) {
    struct kld_run r = {.base = base};
    struct kld_w *w = NULL;
    struct prog prog = {0};
    TRY(eval_plan(base, ids->n, ctx, max_chunks, &r.n_chunks, e));
    if (r.n_chunks > INT32_MAX / ctx)
        return err_set(e, ERR_USAGE, "%" PRId64 " chunks are too many for one file: use --chunks",
                       r.n_chunks);
    int rc = run_init(&r, ctx, e);
    if (!rc)
        rc = kld_w_open(&w, path, overwrite, (int32_t)ctx, (int32_t)r.n_vocab, (int32_t)r.n_chunks,
                        ids->v, e);
    if (!rc) prog_begin(&prog, "base logits", PROG_TOKENS, (uint64_t)(r.n_chunks * ctx));
    for (int64_t c = 0; c < r.n_chunks && !rc; c++) {
        rc = save_chunk(&r, w, ids->v + c * ctx, e);
        prog_update(&prog, (uint64_t)((c + 1) * ctx));
    }
    if (prog.stage) prog_end(&prog);
    if (!rc) rc = kld_w_commit(w, e);
    kld_w_close(w);
    run_release(&r);
    return rc;
}
