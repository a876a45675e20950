// SPDX-License-Identifier: MIT
/* runtime/measure/save.c - writer of a base model's distributions over a text
 * (runtime/measure/kld_file.h), chunk by chunk; memory as in kld.c. */
#include <inttypes.h>

#include "runtime/measure/kld_file.h"
#include "runtime/measure/kld_file_top.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/progress.h"
#include "runtime/measure/internal.h"

struct save {
    struct session *s;
    struct kld_w *w; /* exactly one of the two writers is used; the other is NULL */
    struct kld_top_w *top;
    int64_t ctx, from, n_chunks, d, n_vocab, block;
    float *hidden, *logit;
};

/* Writes one row; next: the token that follows, for the compact format. */
static int save_row(struct save *r, const float *logits, int32_t next, struct err *e) {
    return r->top ? kld_top_w_row(r->top, logits, next, e) : kld_w_row(r->w, logits, e);
}

/* Runs one window and writes the logits of its scored rows. */
static int save_chunk(struct save *r, const int32_t *chunk, struct err *e) {
    for (int64_t at = 0; at < r->ctx; at += WINDOWS_PIECE) {
        int64_t n = min_i64(WINDOWS_PIECE, r->ctx - at), last = min_i64(at + n, r->ctx - 1);
        TRY(eval_feed(r->s, chunk, at, n, r->hidden, e));
        for (int64_t row = max_i64(at, r->from); row < last; row += r->block) {
            int64_t k = min_i64(r->block, last - row);
            TRY(session_head(r->s, r->hidden + (row - at) * r->d, k, r->logit, e));
            if (fault_in_logits(r->logit, k * r->n_vocab))
                return fault_find(r->s, chunk, r->ctx, e);
            for (int64_t i = 0; i < k; i++)
                TRY(save_row(r, r->logit + i * r->n_vocab, chunk[row + i + 1], e));
        }
    }
    return 0;
}

/* Prepares writing the base logits of at most max_chunks chunks. */
static int save_init(struct save *r, struct session *base, int64_t n_ids, int64_t ctx,
                     int64_t max_chunks, struct err *e) {
    const struct model *m = session_model(base);
    void *p = NULL;
    *r = (struct save){.s = base,
                       .ctx = ctx,
                       .from = ctx / 2,
                       .d = m->hp.d[HD_EMBD],
                       .n_vocab = m->hp.d[HD_VOCAB]};
    r->block = eval_head_rows(r->n_vocab);
    TRY(eval_plan(base, n_ids, ctx, max_chunks, &r->n_chunks, e));
    if (r->n_chunks > INT32_MAX / ctx)
        return err_set(e, ERR_USAGE, "%" PRId64 " chunks are too many for one file: use --chunks",
                       r->n_chunks);
    TRY(mem_alloc(&p, (uint64_t)(min_i64(WINDOWS_PIECE, ctx) * r->d) * sizeof(float), "hidden rows",
                  e));
    r->hidden = p;
    p = NULL;
    TRY(mem_alloc(&p, (uint64_t)(r->block * r->n_vocab) * sizeof(float), "logits", e));
    r->logit = p;
    return 0;
}

/* Computes and writes the base's logits, then commits the file. */
static int save_all(struct save *r, const int32_t *ids, struct err *e) {
    struct progress prog = {0};
    int rc = 0;
    progress_begin(&prog, "base logits", PROG_TOKENS, (uint64_t)(r->n_chunks * r->ctx));
    for (int64_t c = 0; c < r->n_chunks && !rc; c++) {
        rc = save_chunk(r, ids + c * r->ctx, e);
        progress_update(&prog, (uint64_t)((c + 1) * r->ctx));
    }
    progress_end(&prog);
    if (rc) return rc;
    return r->top ? kld_top_w_commit(r->top, e) : kld_w_commit(r->w, e);
}

static void save_release(struct save *r) {
    kld_w_close(r->w);
    kld_top_w_close(r->top);
    mem_free(r->hidden);
    mem_free(r->logit);
}

int eval_kld_save(struct session *base, const struct ids *ids, int64_t ctx, int64_t max_chunks,
                  const char *path, bool overwrite, struct err *e) {
    struct save r;
    int rc = save_init(&r, base, ids->n, ctx, max_chunks, e);
    if (!rc)
        rc = kld_w_open(&r.w, path, overwrite, (int32_t)ctx, (int32_t)r.n_vocab,
                        (int32_t)r.n_chunks, ids->v, e);
    if (!rc) rc = save_all(&r, ids->v, e);
    save_release(&r);
    return rc;
}

int eval_kld_save_top(struct session *base, const struct ids *ids, int64_t ctx, int64_t max_chunks,
                      int64_t from, int64_t n_top, int64_t n_tail, const char *path, bool overwrite,
                      struct err *e) {
    struct save r;
    int rc = save_init(&r, base, ids->n, ctx, max_chunks, e);
    if (from >= 0) r.from = from;
    if (!rc && (n_top < 1 || n_top > r.n_vocab || n_tail < 0 || n_tail > 65536))
        rc = err_set(e, ERR_USAGE,
                     "--top %" PRId64 " and --tail %" PRId64
                     ": from 1 to the vocabulary of %" PRId64 ", and at most 65536",
                     n_top, n_tail, r.n_vocab);
    if (!rc && n_tail < 2 && n_top < r.n_vocab)
        rc = err_set(e, ERR_USAGE,
                     "--tail %" PRId64 " with --top below the vocabulary of %" PRId64
                     " loses part of the divergence or its error: use 2 or more",
                     n_tail, r.n_vocab);
    if (!rc) {
        const struct kld_top_shape sh = {.n_ctx = (int32_t)ctx,
                                         .n_vocab = (int32_t)r.n_vocab,
                                         .n_chunk = (int32_t)r.n_chunks,
                                         .from = (int32_t)r.from,
                                         .n_top = (int32_t)n_top,
                                         .n_tail = (int32_t)n_tail};
        rc = kld_top_w_open(&r.top, path, overwrite, &sh, ids->v, e);
    }
    if (!rc) rc = save_all(&r, ids->v, e);
    save_release(&r);
    return rc;
}
