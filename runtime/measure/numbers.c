// SPDX-License-Identifier: MIT
/* runtime/measure/numbers.c - measurements of a single model: perplexity, speed, logits, drafts.
 * The computations are in the other files of runtime/measure/. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "calib/imatrix.h"
#include "runtime/measure/numbers.h"
#include "runtime/measure/cells.h"
#include "runtime/measure/internal.h"
#include "runtime/measure/measurement_cache.h"
#include "runtime/engine/kv_type.h"
#include "work/apart.h"
#include "base/bytes.h"
#include "base/io.h"
#include "base/map.h"
#include "base/out.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/progress.h"
#include "runtime/engine/fault.h"
#include "runtime/generate/drafter.h"

enum { MAX_UBATCH = 2048 };

/* ---- ppl ---- */

int eval_ppl_run(struct work *w, const struct eval_args *a, const char *model, const char *text,
                 struct emit *m, struct err *e) {
    struct eval_loaded l;
    struct ids ids = {0};
    struct eval_ppl r = {0};
    struct kept_of kept = {0};
    struct results_cache *k = NULL;
    TRY(eval_open_one(w, a, model, a->ctx + a->stride / 2, &l, e));
    int rc = eval_load_text(l.m, text, &ids, e);
    if (!rc) rc = kept_open(&k, a->keep, e);
    kept_model(&kept, k, l.s, NULL);
    if (!rc) rc = eval_ppl(l.s, &ids, a->ctx, a->stride, a->chunks, kept.of, &r, e);
    if (rc == ERR_DATA) err_wrap(e, "%s", text);
    kept_release(&kept);
    results_cache_close(k, false);
    if (!rc) {
        emit_str(m, "model", "model", model);
        emit_num(m, "ppl", "perplexity", r.ppl, 4);
        number_field(m, "ppl_stderr", "standard error", r.ppl_stderr, 4);
        emit_i64(m, "n_tokens", "scored tokens", r.n_tokens);
        emit_i64(m, "n_chunks", "chunks", r.n_chunks);
        emit_i64(m, "ctx", "ctx", r.ctx);
        if (a->stride) emit_i64(m, "stride", "stride", a->stride);
        emit_str(m, "kv_type", "kv type", a->kv_type);
        emit_str(m, "act", "activations", a->act);
        emit_num(m, "tok_per_s", "tokens/s", r.tok_per_s, 1);
    }
    ids_release(&ids);
    eval_close_one(&l);
    return rc;
}

/* ---- speed ---- */

/* Adds the speed at n depths. */
static void emit_speed(struct emit *m, const struct work *w, const char *model,
                       const struct eval_args *a, const struct eval_loaded *l,
                       const struct eval_speed *r, int n) {
    char size[48];
    emit_fmt_bytes(size, gguf_file_bytes(l->m->gguf));
    emit_str(m, "model", "model", model);
    emit_i64(m, "size_bytes", NULL, (int64_t)gguf_file_bytes(l->m->gguf));
    emit_str(m, "size", "size", size);
    emit_str(m, "kv_type", "kv type", a->kv_type);
    emit_str(m, "act", "activations", a->act);
    const struct session_info at = session_info(l->s);
    emit_str(m, "device", "device", at.device);
    emit_i64(m, "offload_blocks", at.offload_blocks ? "blocks with experts in main memory" : NULL,
             at.offload_blocks);
    emit_i64(m, "offload_bytes", NULL, at.offload_bytes);
    emit_i64(m, "stream_from", at.stream_from ? "tokens of a pass that copies them" : NULL,
             at.stream_from);
    emit_str(m, "isa", "instruction set", kern_isa_name(w->isa));
    emit_i64(m, "n_threads", "threads", pool_size(w->pool));
    emit_i64(m, "n_threads_tg", "threads when generating", at.n_threads);
    const uint64_t packed = model_packed_bytes(l->m, false),
                   mapped = model_packed_bytes(l->m, true);
    emit_fmt_bytes(size, packed + mapped);
    emit_i64(m, "packed_bytes", NULL, (int64_t)(packed + mapped));
    emit_i64(m, "packed_mapped_bytes", NULL, (int64_t)mapped); /* from --pack-cache */
    emit_str(m, "packed", "weights in packed rows", size);
    emit_num(m, "open_seconds", "seconds to open", l->seconds, 3);
    emit_num(m, "bandwidth_gb_per_s", at.bandwidth ? "device memory GB/s" : "memory read GB/s",
             eval_session_bandwidth(l->s, w->pool), 1);
    emit_table(m, "tests", "tests");
    emit_col(m, "test", "test");
    emit_col(m, "depth", "depth");
    emit_col(m, "tok_per_s", "tokens/s");
    emit_col(m, "tok_per_s_stddev", "+-");
    emit_col(m, "gb_per_s", "GB/s");
    emit_col(m, "share_of_bandwidth", "of bandwidth");
    emit_col(m, "bytes_per_token", NULL);
    for (int i = 0; i < n; i++) {
        bool gen = r[i].gb_per_s > 0;
        emit_row(m);
        emit_cell_str(m, r[i].test);
        emit_cell_i64(m, r[i].depth);
        emit_cell_num(m, r[i].tok_per_s, 2);
        emit_cell_num(m, r[i].tok_per_s_stddev, 2);
        if (gen) {
            emit_cell_num(m, r[i].gb_per_s, 2);
            emit_cell_num(m, r[i].share_of_bandwidth, 3);
            emit_cell_num(m, r[i].bytes_per_token, 0);
        } else
            for (int k = 0; k < 3; k++) emit_cell_none(m);
    }
}

int eval_speed_run(struct work *w, const struct eval_args *a, const char *model, struct emit *m,
                   struct err *e) {
    int64_t depth[EVAL_MAX_LIST], deepest = 0;
    struct eval_speed r[2 * EVAL_MAX_LIST];
    struct eval_loaded l;
    int n_depths, n = 0;
    TRY(eval_parse_list(a->depths, "--depths", depth, &n_depths, e));
    for (int i = 0; i < n_depths; i++) deepest = max_i64(deepest, depth[i]);
    if (deepest > INT32_MAX || a->pp > INT32_MAX || a->tg > INT32_MAX || a->reps > INT32_MAX)
        return err_set(e, ERR_USAGE, "eval speed: the numbers are too large");
    TRY(eval_open_one(w, a, model, deepest + max_i64(max_i64(a->pp, a->tg), 1), &l, e));
    int rc = eval_speed(l.s, a->pp, a->tg, depth, n_depths, (int)a->reps,
                        eval_session_bandwidth(l.s, w->pool), NULL, r, &n, e);
    if (!rc) emit_speed(m, w, model, a, &l, r, n);
    eval_close_one(&l);
    return rc;
}

/* ---- logits ---- */

/* Runs n tokens and appends the logits of each as floats to the file. */
static int write_logits(struct eval_loaded *l, const int32_t *ids, int64_t n, struct out *o,
                        struct err *e) {
    enum { BLOCK = 64 };
    int64_t d = l->m->hp.d[HD_EMBD], v = l->m->hp.d[HD_VOCAB];
    void *h = NULL, *x = NULL;
    int rc = mem_alloc(&h, (uint64_t)(BLOCK * d) * sizeof(float), "hidden rows", e);
    if (!rc) rc = mem_alloc(&x, (uint64_t)(BLOCK * v) * sizeof(float), "logits", e);
    for (int64_t i = 0; i < n && !rc; i += BLOCK) {
        int64_t k = min_i64(BLOCK, n - i);
        rc = session_forward(l->s, ids + i, k, h, e);
        if (!rc) rc = session_head(l->s, h, k, x, e);
        if (!rc && fault_in_logits(x, k * v)) rc = fault_find(l->s, ids, n, e);
        if (!rc) rc = out_write(o, x, (uint64_t)(k * v) * sizeof(float), e);
    }
    mem_free(h);
    mem_free(x);
    return rc;
}

int eval_logits_run(struct work *w, const struct eval_args *a, const char *model, struct emit *m,
                    struct err *e) {
    struct map map = {0};
    struct eval_loaded l = {0};
    struct out *o = NULL;
    int32_t *ids = NULL;
    if (!a->ids || !a->out)
        return err_set(e, ERR_USAGE, "eval logits: --ids FILE and -o FILE are required");
    struct apart files = {.w = w};
    apart_in(&files, model);
    apart_in(&files, a->ids);
    apart_out(&files, a->out);
    TRY(apart_check(&files, e));
    TRY(map_open(&map, a->ids, e));
    int64_t n = (int64_t)(map.size / 4);
    int rc = 0;
    if (map.size % 4 || n < 1 || n > INT32_MAX)
        rc = err_set(e, ERR_DATA, "%s: %" PRIu64 " bytes are not a list of 4-byte token ids",
                     a->ids, map.size);
    if (!rc) {
        ids = try_calloc((size_t)n, sizeof *ids, "the tokens of a text", e);
        if (!ids) rc = ERR_SYS;
    }
    if (!rc) {
        for (int64_t i = 0; i < n; i++) ids[i] = load_i32(map.data + 4 * i);
        rc = eval_open_one(w, a, model, n, &l, e);
    }
    for (int64_t i = 0; i < n && !rc; i++)
        if (ids[i] < 0 || ids[i] >= l.m->hp.d[HD_VOCAB])
            rc = err_set(e, ERR_DATA,
                         "%s: id %" PRId32 " at position %" PRId64
                         " is outside the vocabulary of %" PRId64 " entries",
                         a->ids, ids[i], i, l.m->hp.d[HD_VOCAB]);
    if (!rc) rc = out_open(&o, a->out, w->overwrite, e);
    if (!rc) rc = write_logits(&l, ids, n, o, e);
    if (!rc) rc = out_commit(o, e);
    if (!rc) {
        emit_str(m, "output", "output", a->out);
        emit_i64(m, "n_tokens", "tokens", n);
        emit_i64(m, "n_vocab", "vocabulary", l.m->hp.d[HD_VOCAB]);
    }
    out_close(o);
    eval_close_one(&l);
    free(ids);
    map_close(&map);
    return rc;
}

/* ---- drafts ---- */

/* Adds the acceptance of the draft. */
static void emit_mtp(struct emit *m, const char *model, const struct eval_args *a,
                     const struct eval_mtp *r) {
    emit_str(m, "model", "model", model);
    emit_num(m, "acceptance", "same token as the trunk", r->acceptance, 4);
    number_field(m, "acceptance_stderr", "standard error", r->acceptance_stderr, 4);
    emit_num(m, "overlap", "overlap of probabilities", r->overlap, 4);
    number_field(m, "overlap_stderr", "standard error", r->overlap_stderr, 4);
    emit_num(m, "trunk_top1", "trunk's token is the text's", r->trunk_top1, 4);
    emit_num(m, "draft_top1", "block's token is the text's", r->draft_top1, 4);
    emit_i64(m, "n_tokens", "scored tokens", r->n_tokens);
    emit_i64(m, "n_chunks", "chunks", r->n_chunks);
    emit_i64(m, "ctx", "ctx", r->ctx);
    emit_str(m, "kv_type", "kv type", a->kv_type);
    emit_str(m, "act", "activations", a->act);
    emit_num(m, "tok_per_s", "tokens/s", r->tok_per_s, 1);
}

/* Measures one file's MTP block, or a draft file (how); *hit is owned by the caller. */
static int mtp_of_file(struct work *w, const struct eval_args *a, const char *model,
                       const char *how, const char *text, struct eval_mtp *r, double **hit,
                       struct err *e) {
    struct eval_loaded l;
    struct drafter *d = NULL;
    struct ids ids = {0};
    *hit = NULL;
    TRY(eval_open_one(w, a, model, a->ctx, &l, e));
    int rc = drafter_open(&d, l.s, how, e);
    if (!rc) rc = eval_load_text(l.m, text, &ids, e);
    if (!rc) rc = eval_mtp(l.s, d, &ids, a->ctx, a->chunks, r, hit, e);
    ids_release(&ids);
    drafter_close(d);
    eval_close_one(&l);
    return rc;
}

/* Sets *is to whether the file is a draft for another model. */
static int is_draft_file(const char *path, bool *is, struct err *e) {
    struct gguf *g;
    TRY(gguf_open(&g, path, GGUF_TOLERANT, e));
    *is = gguf_draft_kind(g) != NULL;
    gguf_close(g);
    return 0;
}

/* Adds a file's row: acceptance, and its difference from the first file at the same guesses, each
 * with its 95 % interval. */
static void emit_mtp_row(struct emit *m, const char *model, const struct eval_mtp *r, double *hit,
                         const double *base) {
    static const double z = 1.959964;
    double diff = 0, sd = 0;
    emit_row(m);
    emit_cell_str(m, io_base(model));
    emit_cell_num(m, r->acceptance, 4);
    emit_cell_num(m, fmax(0, r->acceptance - z * r->acceptance_stderr), 4);
    emit_cell_num(m, fmin(1, r->acceptance + z * r->acceptance_stderr), 4);
    for (int64_t i = 0; base && i < r->n_tokens; i++) hit[i] -= base[i];
    if (base) eval_mean(hit, r->n_tokens, &diff, &sd);
    const double cell[] = {diff, diff - z * sd, diff + z * sd};
    for (int k = 0; k < 3; k++)
        if (base)
            emit_cell_num(m, cell[k], 4);
        else
            emit_cell_none(m);
    emit_cell_num(m, r->overlap, 4);
}

/* Measures several files on the same text: the MTP blocks of models, or draft files of `target`. */
static int mtp_of_files(struct work *w, const struct eval_args *a, const char *target,
                        const char *const *model, int n_models, const char *text, struct emit *m,
                        struct err *e) {
    static const char *const col[][2] = {{"file", "file"},       {"acceptance", "acceptance"},
                                         {"low", "95 % from"},   {"high", "to"},
                                         {"diff", "difference"}, {"diff_low", "95 % from"},
                                         {"diff_high", "to"},    {"overlap", "overlap"}};
    struct eval_mtp r, first = {0};
    double *base = NULL;
    int rc = 0;
    emit_table(m, "files", "");
    for (size_t i = 0; i < COUNT_OF(col); i++) emit_col(m, col[i][0], col[i][1]);
    for (int i = 0; i < n_models && !rc; i++) {
        double *hit = NULL;
        rc = mtp_of_file(w, a, target ? target : model[i], target ? model[i] : "mtp", text, &r,
                         &hit, e);
        if (!rc && i && r.n_tokens != first.n_tokens)
            rc = err_set(e, ERR_DATA, "%s and %s split the text into different tokens", model[0],
                         model[i]);
        if (!rc) emit_mtp_row(m, model[i], &r, hit, base);
        if (!i) first = r;
        if (!i) base = hit;
        if (i) free(hit);
    }
    free(base);
    if (rc) return rc;
    emit_i64(m, "n_tokens", "scored tokens", first.n_tokens);
    emit_i64(m, "n_chunks", "chunks", first.n_chunks);
    emit_i64(m, "ctx", "ctx", first.ctx);
    emit_str(m, "kv_type", "kv type", a->kv_type);
    emit_str(m, "act", "activations", a->act);
    return 0;
}

int eval_mtp_run(struct work *w, const struct eval_args *a, const char *const *model, int n_models,
                 const char *text, struct emit *m, struct err *e) {
    struct eval_mtp r;
    double *hit;
    int n_drafts = 0;
    for (int i = 1; i < n_models; i++) {
        bool is;
        TRY(is_draft_file(model[i], &is, e));
        n_drafts += is;
    }
    if (n_drafts && n_drafts < n_models - 1)
        return err_set(e, ERR_USAGE,
                       "name a model and then its draft files, or models with MTP blocks only");
    if (n_drafts) return mtp_of_files(w, a, model[0], model + 1, n_drafts, text, m, e);
    if (n_models > 1) return mtp_of_files(w, a, NULL, model, n_models, text, m, e);
    const int rc = mtp_of_file(w, a, model[0], "mtp", text, &r, &hit, e);
    if (!rc) emit_mtp(m, model[0], a, &r);
    free(hit);
    return rc;
}
