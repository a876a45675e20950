// SPDX-License-Identifier: MIT
/* runtime/eval_save.c - a base model's distributions over a text into a file (core/kld_file.h),
 * piece by piece; memory as in eval_kld.c. */
#include <inttypes.h>

#include "core/kld_file.h"
#include "core/mem.h"
#include "core/num.h"
#include "core/prog.h"
#include "runtime/eval_int.h"

struct save {
    struct session *s;
    struct kld_w *w;
    int64_t ctx, d, n_vocab, block;
    float *hidden, *logit;
};

static int save_chunk(struct save *r, const int32_t *chunk, struct err *e) {
    for (int64_t at = 0; at < r->ctx; at += EVAL_PIECE) {
        int64_t n = min_i64(EVAL_PIECE, r->ctx - at), last = min_i64(at + n, r->ctx - 1);
        TRY(eval_feed(r->s, chunk, at, n, r->hidden, e));
        for (int64_t row = max_i64(at, r->ctx / 2); row < last; row += r->block) {
            int64_t k = min_i64(r->block, last - row);
            TRY(session_head(r->s, r->hidden + (row - at) * r->d, k, r->logit, e));
            for (int64_t i = 0; i < k; i++) TRY(kld_w_row(r->w, r->logit + i * r->n_vocab, e));
        }
    }
    return 0;
}

static int save_alloc(struct save *r, struct err *e) {
    void *p = NULL;
    TRY(buf_alloc(&p, (uint64_t)(min_i64(EVAL_PIECE, r->ctx) * r->d) * sizeof(float), "hidden rows",
                  e));
    r->hidden = p;
    p = NULL;
    TRY(buf_alloc(&p, (uint64_t)(r->block * r->n_vocab) * sizeof(float), "logits", e));
    r->logit = p;
    return 0;
}

int eval_kld_save(struct session *base, const struct ids *ids, int64_t ctx, int64_t max_chunks,
                  const char *path, bool overwrite, struct err *e) {
    const struct model *m = session_model(base);
    struct save r = {.s = base, .ctx = ctx, .d = m->hp.d[HD_EMBD], .n_vocab = m->hp.d[HD_VOCAB]};
    struct prog prog = {0};
    int64_t n_chunks;
    r.block = eval_head_rows(r.n_vocab);
    TRY(eval_plan(base, ids->n, ctx, max_chunks, &n_chunks, e));
    if (n_chunks > INT32_MAX / ctx)
        return err_set(e, ERR_USAGE, "%" PRId64 " chunks are too many for one file: use --chunks",
                       n_chunks);
    int rc = save_alloc(&r, e);
    if (!rc)
        rc = kld_w_open(&r.w, path, overwrite, (int32_t)ctx, (int32_t)r.n_vocab, (int32_t)n_chunks,
                        ids->v, e);
    if (!rc) prog_begin(&prog, "base logits", PROG_TOKENS, (uint64_t)(n_chunks * ctx));
    for (int64_t c = 0; c < n_chunks && !rc; c++) {
        rc = save_chunk(&r, ids->v + c * ctx, e);
        prog_update(&prog, (uint64_t)((c + 1) * ctx));
    }
    if (prog.stage) prog_end(&prog);
    if (!rc) rc = kld_w_commit(r.w, e);
    kld_w_close(r.w);
    buf_free(r.hidden);
    buf_free(r.logit);
    return rc;
}
