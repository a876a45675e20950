// SPDX-License-Identifier: MIT
/* runtime/measure/kld.c - comparison of a base with candidates over the same windows: the
 * divergence of the next-token distributions at each position. No buffer grows with tokens x
 * vocabulary: memory holds the hidden rows of at most WINDOWS_PIECE tokens per model (kld_feed.c),
 * and one block of logits of the base and of one candidate. Base and candidates use the same
 * kernels and the same batching. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "runtime/measure/kld_file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/progress.h"
#include "base/ranks.h"
#include "runtime/measure/kld_int.h"
#include "runtime/measure/measurement_cache.h"

static const double PROBE_S = .2;

struct work {
    const struct eval_kld_job *job;
    struct eval_kld_run *out;
    /* Base file, in one of two formats; both are NULL if there is a base session. */
    struct kld_r *file;
    struct kld_top_r *top;
    int64_t n_vocab, block;
    struct kld_feed feed;
    /* [block][n_vocab] the base's log-probabilities and a candidate's logits; NULL: not needed in
     * host memory. */
    float *logp, *logit;
    /* [n_cand + 1] true: the candidate is compared on the device that it shares with the base. The
     * last entry: this holds for all candidates, so the base's logits stay on the device. */
    bool *there;
    bool any_there;
    struct route_log route;
    /* [feed.most][n_cand] the candidate's result for a window is cached. */
    bool *kept;
    int slot;   /* index of the current window among those that are fed together */
    bool *stop; /* [n_cand] candidates that need no more windows */
    int look;   /* index of the next look */
    /* The tokens that the current block's rows predict, one per row. */
    const int32_t *target;
    struct kld_pos *to;
    /* The base's scored rows in the current window: known from the store (NULL: fed), or collected
     * for it (NULL: not collected). */
    const float *base_rows;
    float *gather;
    /* First index of the block in `to`, and its first row in the compact file. */
    int64_t at, row0;
};

/* Allocates n floats, freed with mem_free(); what: their name in errors. */
static int alloc_floats(float **out, int64_t n, const char *what, struct err *e) {
    void *p = NULL;
    TRY(mem_alloc(&p, (uint64_t)n * sizeof(float), what, e));
    *out = p;
    return 0;
}

/* Checks that s has a vocabulary of n_vocab entries and room for a window of ctx tokens. */
static int check_session(const struct session *s, int64_t n_vocab, int64_t ctx, struct err *e) {
    const struct model *m = session_model(s);
    if (m->hp.d[HD_VOCAB] != n_vocab)
        return err_set(e, ERR_DATA,
                       "%s has a vocabulary of %" PRId64 " entries, the base has %" PRId64
                       ": they cannot be compared",
                       gguf_path(m->gguf), m->hp.d[HD_VOCAB], n_vocab);
    if (session_get_opts(s)->n_ctx < ctx)
        return err_set(e, ERR_USAGE,
                       "a window of %" PRId64 " tokens does not fit a session of %" PRId64, ctx,
                       session_get_opts(s)->n_ctx);
    return 0;
}

/* Finds the candidates whose logits are on the same device as the base's; they are compared
 * there. */
static void find_there(struct work *w) {
    const struct eval_kld_job *job = w->job;
    bool all = job->base != NULL;
    w->there = xcalloc((size_t)job->n_cand + 1, sizeof *w->there);
    for (int i = 0; i < job->n_cand; i++) {
        w->there[i] = job->base && session_can_score(job->cand[i], job->base);
        w->any_there |= w->there[i];
        all &= w->there[i];
    }
    w->there[job->n_cand] = all;
}

/* Prepares the comparison; on error work_release() frees the prepared part. */
static int work_init(struct work *w, struct err *e) {
    const struct eval_kld_job *job = w->job;
    struct eval_kld_run *o = w->out;
    const struct session *any = job->base ? job->base : job->cand[0];
    /* open_file() checks the file against this size. */
    w->n_vocab = session_model(any)->hp.d[HD_VOCAB];
    w->block = eval_head_rows(w->n_vocab);
    o->n_cand = job->n_cand;
    o->pos = xcalloc((size_t)job->n_cand + 1, sizeof *o->pos);
    for (int i = 0; i <= job->n_cand; i++) {
        const struct session *s = i < job->n_cand ? job->cand[i] : job->base;
        if (s) TRY(check_session(s, w->n_vocab, o->ctx, e));
        TRY(kld_pos_init(&o->pos[i], o->n_chunks * o->per_chunk, e));
    }
    find_there(w);
    if (w->any_there) w->block = min_i64(w->block, SESSION_SCORES);
    if (!w->there[job->n_cand]) {
        TRY(alloc_floats(&w->logp, w->block * w->n_vocab, "logits", e));
        TRY(alloc_floats(&w->logit, w->block * w->n_vocab, "logits", e));
    }
    TRY(kld_feed_open(&w->feed, job, o->ctx, o->n_chunks, w->there, e));
    if (!job->routing || !job->base) return 0;
    TRY(route_init(&w->route, job->base, e));
    o->n_routes = w->route.n_layers;
    o->route = xcalloc((size_t)(o->n_cand * o->n_routes) + 1, sizeof *o->route);
    for (int i = 0; i < o->n_cand; i++) {
        TRY(route_check(&w->route, job->cand[i], e));
        for (int k = 0; k < o->n_routes; k++)
            o->route[i * o->n_routes + k].layer = w->route.layer[k];
    }
    return 0;
}

static void work_release(struct work *w) {
    for (int i = 0; i < w->job->n_cand; i++) session_observe(w->job->cand[i], NULL);
    if (w->job->base) session_observe(w->job->base, NULL);
    kld_feed_close(&w->feed);
    free(w->there);
    free(w->kept);
    free(w->stop);
    mem_free(w->gather);
    route_release(&w->route);
    mem_free(w->logp);
    mem_free(w->logit);
    kld_r_close(w->file);
    kld_top_r_close(w->top);
}

/* Returns the index of the current window's row `row` among the rows fed last to candidate i or the
 * base (i = n_cand). hidden_row returns its hidden state if that is in host memory. */
static int64_t place_of(const struct work *w, int i, int64_t row) {
    const struct kld_feed *f = &w->feed;
    return f->first[i * f->most + w->slot] + row;
}
/* Returns the hidden state of candidate i (n_cand: the base) for a row of the window. */
static const float *hidden_row(const struct work *w, int i, int64_t row) {
    const struct session *s = i < w->job->n_cand ? w->job->cand[i] : w->job->base;
    const float *all = w->feed.hidden[i].p, *known = i < w->job->n_cand ? NULL : w->base_rows;
    if (known) return known + (row - w->out->from) * session_model(s)->hp.d[HD_EMBD];
    return all + place_of(w, i, row) * session_model(s)->hp.d[HD_EMBD];
}

/* Returns whether candidate i needs no scores of the window in this slot. It may still run if
 * another one starts from its hidden states. */
static bool is_kept(const struct work *w, int slot, int i) {
    return w->stop[i] || w->kept[slot * w->job->n_cand + i];
}

/* Turns rows r0 to r1 - 1 of logits into log probabilities. */
static void logp_range(void *ctx, int64_t r0, int64_t r1, int worker) {
    const struct work *w = ctx;
    (void)worker;
    for (int64_t i = r0; i < r1; i++) {
        float *x = w->logp + i * w->n_vocab;
        float lse = (float)eval_lse(x, w->n_vocab);
        for (int64_t v = 0; v < w->n_vocab; v++) x[v] -= lse;
    }
}
/* Scores rows r0 to r1 - 1 of logits against those of the base. */
static void pos_range(void *ctx, int64_t r0, int64_t r1, int worker) {
    const struct work *w = ctx;
    (void)worker;
    for (int64_t i = r0; i < r1; i++)
        kld_pos_row(w->to, w->at + i, w->logp + i * w->n_vocab, w->logit + i * w->n_vocab,
                    w->n_vocab, w->target[i]);
}

/* Scores rows r0 to r1 - 1 of logits against a compact base file. */
static void top_range(void *ctx, int64_t r0, int64_t r1, int worker) {
    const struct work *w = ctx;
    const struct kld_top_shape *sh = kld_top_r_shape(w->top);
    struct kld_top_row row;
    struct err e = {0};
    (void)worker;
    for (int64_t i = r0; i < r1; i++) /* cannot fail: base_rows has read this row */
        if (kld_top_r_row(w->top, w->row0 + i, &row, &e) == 0)
            kld_pos_top(w->to, w->at + i, &row, sh->n_top, sh->n_tail, w->logit + i * w->n_vocab,
                        w->n_vocab, w->target[i]);
}

/* Copies n hidden rows of the base, starting at `row`, for the store. */
static void gather_rows(struct work *w, int64_t row, int64_t n) {
    const int64_t d = session_model(w->job->base)->hp.d[HD_EMBD];
    memcpy(w->gather + (row - w->out->from) * d, hidden_row(w, w->job->n_cand, row),
           (size_t)(n * d) * sizeof *w->gather);
}

/* Computes the base's log-probabilities of rows [row, row + n) of a window into w->logp. Rows of a
 * compact file are only checked. */
static int base_rows(struct work *w, int64_t i_chunk, int64_t row, int64_t n, struct err *e) {
    const struct eval_kld_job *job = w->job;
    int64_t first = i_chunk * w->out->per_chunk + row - w->out->from;
    struct kld_top_row unused;
    w->row0 = first;
    if (w->top) {
        for (int64_t i = 0; i < n; i++) TRY(kld_top_r_row(w->top, first + i, &unused, e));
        return 0;
    }
    if (w->file) {
        for (int64_t i = 0; i < n; i++) {
            TRY(kld_r_check_row(w->file, first + i, e));
            kld_r_row(w->file, first + i, w->logp + i * w->n_vocab);
        }
        return 0;
    }
    if (!w->logp)
        return session_score(job->base, NULL, place_of(w, job->n_cand, row), n, NULL, NULL, e);
    if (w->gather) gather_rows(w, row, n);
    TRY(session_head(job->base, hidden_row(w, job->n_cand, row), n, w->logp, e));
    pool_for(session_get_opts(job->base)->pool, n, 1, logp_range, w);
    return 0;
}

/* Scores n rows of a window, starting at `row`, for each candidate without a cached result. */
static int compare_rows(struct work *w, const int32_t *chunk, int64_t row, int64_t n,
                        struct err *e) {
    for (int i = 0; i < w->job->n_cand; i++) {
        if (is_kept(w, w->slot, i)) continue;
        struct session *s = w->job->cand[i];
        w->to = &w->out->pos[i];
        w->at = w->to->n;
        w->target = chunk + row + 1;
        w->to->n += n;
        if (w->there[i]) {
            struct session_score found[SESSION_SCORES];
            TRY(session_score(s, w->job->base, place_of(w, i, row), n, w->target, found, e));
            for (int64_t k = 0; k < n; k++) kld_pos_set(w->to, w->at + k, &found[k]);
        } else {
            TRY(session_head(s, hidden_row(w, i, row), n, w->logit, e));
            pool_for(session_get_opts(s)->pool, n, 1, w->top ? top_range : pos_range, w);
        }
    }
    return 0;
}

/* Compares the scored rows among [at, at + n) of window c. */
static int score_rows(struct work *w, int64_t c, int64_t at, int64_t n, struct err *e) {
    const struct eval_kld_run *o = w->out;
    const int32_t *chunk = o->tokens + c * o->ctx;
    const int64_t last = min_i64(at + n, o->from + o->per_chunk);
    for (int64_t row = max_i64(at, o->from); row < last; row += w->block) {
        int64_t k = min_i64(w->block, last - row);
        TRY(base_rows(w, c, row, k, e));
        TRY(compare_rows(w, chunk, row, k, e));
    }
    return 0;
}

/* Observes the expert choices of candidate i (n_cand: the base), starting at position `at`. */
static void watch_route(void *ud, int i, int64_t at) {
    struct work *w = ud;
    const bool is_base = i == w->job->n_cand;
    route_watch(&w->route, is_base ? w->job->base : w->job->cand[i], at,
                is_base ? NULL : w->out->route + i * w->out->n_routes);
}

/* ---- the base's rows ------------------------------------------------------------------------- */

static bool uses_store(const struct work *w) {
    return w->job->rows && w->job->base && !w->any_there && !w->job->same_graph &&
           !w->out->n_routes && ranks_n() == 1;
}

static char *rows_key(const struct work *w, int64_t c) {
    const struct eval_kld_run *o = w->out;
    return eval_keep_window("rows", o->tokens + c * o->ctx, o->ctx, o->from,
                            o->from + o->per_chunk);
}

/* Returns the base's scored rows of window c if they are in the store, else NULL. */
static const float *find_rows(const struct work *w, int64_t c) {
    if (!uses_store(w)) return NULL;
    char *key = rows_key(w, c);
    const float *rows = eval_rows_get(w->job->rows, key);
    free(key);
    return rows;
}

/* Prepares for window c: its rows are known or will be collected. Without memory for them, the next
 * job runs the base again. */
static void begin_rows(struct work *w, int64_t c) {
    const struct eval_kld_run *o = w->out;
    struct err ignored;
    void *p = NULL;
    w->base_rows = find_rows(w, c);
    if (w->base_rows || w->gather || !uses_store(w)) return;
    const int64_t d = session_model(w->job->base)->hp.d[HD_EMBD];
    if (!mem_alloc(&p, (uint64_t)(o->per_chunk * d) * sizeof(float), "hidden rows", &ignored))
        w->gather = p;
}

/* Puts the collected rows of window c into the store. */
static void end_rows(struct work *w, int64_t c) {
    if (w->gather && !w->base_rows) {
        eval_rows_put(w->job->rows, rows_key(w, c), w->gather);
        w->gather = NULL;
    }
    w->base_rows = NULL;
}

/* ---- windows of an earlier run --------------------------------------------------------------- */

/* Expands DO for every array of positions. */
#define EACH_ARRAY(DO, p)                                                                          \
    DO(p, nll_q)                                                                                   \
    DO(p, nll_p)                                                                                   \
    DO(p, kld)                                                                                     \
    DO(p, dp) DO(p, same) DO(p, top_p) DO(p, top_q) DO(p, prob_p) DO(p, prob_q) DO(p, noise)

/* Returns a window's cache key; the caller frees it. If the base is a file, the key includes the
 * window's number, because the samples in a compact file belong to a row, not to its tokens. */
static char *which_window(const struct work *w, int64_t c) {
    const struct eval_kld_run *o = w->out;
    char *tokens =
        eval_keep_window("kld", o->tokens + c * o->ctx, o->ctx, o->from, o->from + o->per_chunk);
    if (w->job->base) return tokens;
    char *which = xasprintf("%s of a file %" PRId64, tokens, c);
    free(tokens);
    return which;
}

/* Appends a candidate's positions of window c to `out` as bytes. */
static void window_bytes(const struct kld_pos *p, int64_t c, int64_t n, struct buf *out) {
#define PUT(q, field) buf_add(out, (q)->field + c * n, (size_t)n * sizeof *(q)->field);
    EACH_ARRAY(PUT, p)
#undef PUT
}
/* Copies the n scores of window c from cached bytes. */
static void window_take(struct kld_pos *p, int64_t c, int64_t n, const char *from) {
#define TAKE(q, field)                                                                             \
    memcpy((q)->field + c * n, from, (size_t)n * sizeof *(q)->field);                              \
    from += (size_t)n * sizeof *(q)->field;
    EACH_ARRAY(TAKE, p)
#undef TAKE
}

/* Returns whether results of single windows are cached. */
static bool keeps_windows(const struct work *w) {
    return w->job->keep && !w->out->n_routes && ranks_n() == 1;
}

/* Looks up window c in the cache and sets slot `slot` of kept[]. Returns true if nothing of the
 * window needs to run. */
static bool find_kept(struct work *w, int64_t c, int slot) {
    const struct eval_kld_run *o = w->out;
    bool all = keeps_windows(w), *kept = w->kept + slot * o->n_cand;
    char *which = all ? which_window(w, c) : NULL;
    struct buf want = {0}, got = {0};
    memset(kept, 0, (size_t)o->n_cand * sizeof *kept);
    for (int i = 0; i < o->n_cand && which; i++) {
        buf_reset(&want);
        buf_reset(&got);
        window_bytes(&o->pos[i], c, o->per_chunk, &want); /* only for its length */
        if (w->stop[i]) continue;
        kept[i] = results_cache_get_buf(&w->job->keep[i], which, &got) && got.len == want.len;
        if (kept[i]) window_take(&o->pos[i], c, o->per_chunk, got.data);
        all = all && kept[i];
    }
    for (int i = 0; i < o->n_cand; i++) kept[i] = kept[i] || w->stop[i];
    /* A candidate must run if another one starts from its hidden states. */
    for (int i = o->n_cand; i-- > 0;) {
        const int like = w->feed.late[i] ? w->feed.like[i] : -1;
        if (!kept[i] && like >= 0) kept[like] = false;
    }
    buf_release(&want);
    buf_release(&got);
    free(which);
    return all;
}

/* Returns an error that names the source if window c has a value that is not finite. */
static int check_window(const struct work *w, int64_t c, struct err *e) {
    const struct eval_kld_run *o = w->out;
    const int64_t at = c * o->per_chunk;
    const int32_t *ids = o->tokens + c * o->ctx;
    for (int i = 0; i < o->n_cand; i++) {
        const struct kld_pos *p = &o->pos[i];
        if (is_kept(w, w->slot, i)) continue;
        struct session *s = w->job->cand[i];
        if (w->job->base)
            TRY(fault_check(w->job->base, p->nll_p + at, o->per_chunk, ids, o->ctx, e));
        TRY(fault_check(s, p->nll_q + at, o->per_chunk, ids, o->ctx, e));
        TRY(fault_check(s, p->kld + at, o->per_chunk, ids, o->ctx, e));
    }
    return 0;
}

/* Caches the results of window c, which took `seconds`. Probes are many and short, so their windows
 * are stored only if they took longer than PROBE_S. */
static void keep_window(struct work *w, int64_t c, double seconds) {
    struct eval_kld_run *o = w->out;
    const bool worth = keeps_windows(w) && (!w->job->same_graph || seconds > PROBE_S);
    char *which = worth ? which_window(w, c) : NULL;
    struct buf b = {0};
    for (int i = 0; i < o->n_cand; i++) {
        if (!w->stop[i]) o->pos[i].n = (c + 1) * o->per_chunk;
        if (!which || is_kept(w, w->slot, i)) continue;
        buf_reset(&b);
        window_bytes(&o->pos[i], c, o->per_chunk, &b);
        results_cache_put(&w->job->keep[i], which, b.data, b.len);
        if (w->job->name)
            kept_put_share(w->job->keep[i].k, w->job->name[i],
                           (double)(c + 1) / (double)o->n_chunks);
    }
    buf_release(&b);
    free(which);
}

/* Sends the results of window c to rank 0. */
static void pass_window(struct work *w, int64_t c) {
    int64_t n = w->out->per_chunk, at = c * n;
    for (int i = 0; i < w->job->n_cand; i++) {
        struct kld_pos *p = &w->out->pos[i];
#define PASS(q, field) ranks_send(c, (q)->field + at, (uint64_t)n * sizeof *(q)->field);
        EACH_ARRAY(PASS, p)
#undef PASS
        if (!w->stop[i]) p->n = at + n;
    }
}

/* Shows the mean divergence so far in the progress line. */
static void show_progress(const struct work *w, struct progress *prog, uint64_t n_tokens) {
    const struct kld_pos *p = &w->out->pos[0];
    double mean, u;
    eval_mean(p->kld, p->n, &mean, &u);
    snprintf(prog->note, sizeof prog->note, "kld %.5f", mean);
    progress_update(prog, n_tokens > prog->done ? n_tokens : prog->done);
}

/* Sets the number of windows measured so far, for the candidates that were not stopped. */
static void set_windows(struct work *w, int64_t c) {
    for (int i = 0; i < w->out->n_cand; i++)
        if (!w->stop[i]) w->out->pos[i].n = c * w->out->per_chunk;
}

/* Runs window c, in chunks, on the candidates without cached results. */
static int run_window(struct work *w, int64_t c, struct progress *prog, struct err *e) {
    const struct eval_kld_run *o = w->out;
    const int64_t piece = w->feed.piece;
    for (int64_t at = 0; at < o->ctx; at += piece) {
        const int64_t n = min_i64(piece, o->ctx - at);
        TRY(kld_feed_piece(&w->feed, o->tokens + c * o->ctx, at, n, w->kept,
                           o->n_routes ? watch_route : NULL, w, e));
        TRY(score_rows(w, c, at, n, e));
        show_progress(w, prog, (uint64_t)(c * o->ctx + at + n));
    }
    return 0;
}

/* Runs windows c .. c + n - 1, fed together. */
static int run_windows(struct work *w, int64_t c, int n, struct progress *prog, struct err *e) {
    const struct eval_kld_run *o = w->out;
    const int32_t **window = xcalloc((size_t)n, sizeof *window);
    const double t0 = progress_now_s();
    for (int i = 0; i < n; i++) window[i] = o->tokens + (c + i) * o->ctx;
    for (int i = 0; i < n; i++) w->feed.known[i] = find_rows(w, c + i) != NULL;
    int rc = w->feed.most > 1 ? kld_feed_windows(&w->feed, window, n, w->kept, e) : 0;
    free(window);
    for (w->slot = 0; w->slot < n && !rc; w->slot++, c++) {
        begin_rows(w, c);
        set_windows(w, c);
        rc = w->feed.most > 1 ? score_rows(w, c, 0, o->ctx, e) : run_window(w, c, prog, e);
        if (!rc) rc = check_window(w, c, e);
        if (rc) break;
        end_rows(w, c);
        keep_window(w, c, (progress_now_s() - t0) / n);
        show_progress(w, prog, (uint64_t)((c + 1) * o->ctx));
    }
    w->slot = 0;
    return rc;
}

/* Returns the number of windows, starting with window c, that can run together; 0: no part of
 * window c needs to run. */
static int find_windows(struct work *w, int64_t c) {
    const struct eval_kld_run *o = w->out;
    const int now = kld_feed_now(&w->feed, !find_rows(w, c));
    const int64_t end =
        w->look < w->job->n_looks ? min_i64(o->n_chunks, w->job->looks[w->look]) : o->n_chunks;
    int n = 0;
    while (n < now && c + n < end && !find_kept(w, c + n, n)) n++;
    return n;
}

/* Makes the looks that are due after c windows. Returns whether any candidate needs more. */
static bool look(struct work *w, int64_t c) {
    const struct eval_kld_job *job = w->job;
    const bool can = job->look && (job->unshared || ranks_n() == 1);
    bool more = false;
    for (; w->look < job->n_looks && job->looks[w->look] <= c; w->look++) {
        if (!can || job->looks[w->look] < c || c >= w->out->n_chunks) continue;
        job->look(job->ud, w->out, w->stop);
    }
    for (int i = 0; i < job->n_cand; i++) more |= !w->stop[i];
    return more;
}

/* Compares all chunks and sets the speed in tokens per second. */
static int run_all(struct work *w, struct err *e) {
    struct eval_kld_run *o = w->out;
    struct progress prog = {0};
    int rc = 0;
    int64_t n_run = 0;
    double t0 = progress_now_s();
    w->kept = xcalloc((size_t)(o->n_cand * w->feed.most) + 1, sizeof *w->kept);
    w->stop = xcalloc((size_t)o->n_cand + 1, sizeof *w->stop);
    progress_begin(&prog, "KL divergence", PROG_TOKENS, (uint64_t)(o->n_chunks * o->ctx));
    kld_feed_progress(&w->feed, &prog);
    for (int64_t c = 0; c < o->n_chunks && !rc && look(w, c);) {
        const int n = find_windows(w, c);
        if (!n) {
            c++;
            set_windows(w, c);
            if (!n_run) progress_from(&prog, (uint64_t)(c * o->ctx));
            continue;
        }
        if (!n_run && c)
            log_info("%" PRId64 " of %" PRId64 " windows are already measured", c, o->n_chunks);
        n_run += n;
        if (w->job->unshared || ranks_mine(c)) rc = run_windows(w, c, n, &prog, e);
        for (int i = 0; i < n && !rc && !w->job->unshared; i++) pass_window(w, c + i);
        c += n;
    }
    progress_end(&prog);
    o->tok_per_s = (double)(n_run * o->ctx) / (progress_now_s() - t0);
    return rc;
}

/* ---- windows --------------------------------------------------------------------------------- */

/* Assigns windows to the domains, one at a time in turn, until max_chunks are assigned or none is
 * left. */
static int64_t share_chunks(const struct eval_kld_job *job, int64_t *n) {
    int64_t total = 0;
    for (bool more = true; more;) {
        more = false;
        for (int d = 0; d < job->n_domains; d++) {
            if (job->max_chunks > 0 && total >= job->max_chunks) return total;
            if ((n[d] + 1) * job->ctx > job->domain[d].n_ids) continue;
            n[d]++;
            total++;
            more = true;
        }
    }
    return total;
}

/* Copies whole windows of the domains' texts to o->tokens, divided fairly among the domains. */
static int take_windows(const struct eval_kld_job *job, struct eval_kld_run *o, struct err *e) {
    int64_t *n = xcalloc((size_t)job->n_domains + 1, sizeof *n), all = 0, unused;
    void *p = NULL;
    for (int d = 0; d < job->n_domains; d++) all += job->domain[d].n_ids;
    int rc = eval_plan(job->base ? job->base : job->cand[0], all, job->ctx, 0, &unused, e);
    if (!rc) o->n_chunks = share_chunks(job, n);
    if (!rc && !o->n_chunks)
        rc = err_set(e, ERR_DATA,
                     "none of the %d domains has a window of %" PRId64
                     " tokens: use longer texts or a smaller --ctx",
                     job->n_domains, job->ctx);
    if (!rc) rc = mem_alloc(&p, (uint64_t)(o->n_chunks * job->ctx) * sizeof(int32_t), "tokens", e);
    o->tokens = p;
    o->chunk_domain = xcalloc((size_t)o->n_chunks + 1, sizeof *o->chunk_domain);
    for (int64_t d = 0, c = 0; d < job->n_domains && !rc; d++) {
        if (!n[d] && job->domain[d].n_ids >= job->ctx)
            log_warn("domain '%s' gets none of the %" PRId64
                     " windows: it is not measured; a larger --chunks gives it some",
                     job->domain[d].name, o->n_chunks);
        else if (!n[d] && job->n_domains > 1)
            log_warn("domain '%s' gives no window of %" PRId64 " tokens: it is not measured",
                     job->domain[d].name, job->ctx);
        if (n[d])
            memcpy(o->tokens + c * job->ctx, job->domain[d].ids,
                   (size_t)(n[d] * job->ctx) * sizeof(int32_t));
        for (int64_t i = 0; i < n[d]; i++) o->chunk_domain[c++] = (int32_t)d;
    }
    free(n);
    return rc;
}

/* Opens the base file and copies its tokens, one domain, to the run. */
static int open_file(struct work *w, struct err *e) {
    struct eval_kld_run *o = w->out;
    const char *path = w->job->base_file;
    const int32_t *tokens;
    struct kld_top_shape sh;
    if (kld_top_is(path)) {
        TRY(kld_top_r_open(&w->top, path, e));
        sh = *kld_top_r_shape(w->top);
        tokens = kld_top_r_tokens(w->top);
    } else {
        TRY(kld_r_open(&w->file, path, e));
        sh = (struct kld_top_shape){.n_ctx = kld_r_ctx(w->file),
                                    .n_vocab = kld_r_vocab(w->file),
                                    .n_chunk = kld_r_chunks(w->file),
                                    .from = kld_r_ctx(w->file) / 2};
        tokens = kld_r_tokens(w->file);
    }
    int64_t n_vocab = session_model(w->job->cand[0])->hp.d[HD_VOCAB];
    if (sh.n_vocab != n_vocab)
        return err_set(e, ERR_DATA,
                       "%s: made with a vocabulary of %" PRId32 " entries, the model has %" PRId64,
                       path, sh.n_vocab, n_vocab);
    o->ctx = sh.n_ctx;
    o->from = sh.from;
    if (o->from > o->ctx / 2)
        return err_set(e, ERR_DATA, "%s: scored from position %" PRId64 " of %" PRId64 " only",
                       path, o->from, o->ctx);
    o->n_chunks = sh.n_chunk;
    if (w->job->max_chunks > 0) o->n_chunks = min_i64(o->n_chunks, w->job->max_chunks);
    void *p = NULL;
    TRY(mem_alloc(&p, (uint64_t)(o->n_chunks * o->ctx) * sizeof(int32_t), "tokens", e));
    o->tokens = p;
    memcpy(o->tokens, tokens, (size_t)(o->n_chunks * o->ctx) * sizeof(int32_t));
    o->n_domains = 1;
    o->chunk_domain = xcalloc((size_t)o->n_chunks + 1, sizeof *o->chunk_domain);
    return 0;
}

int eval_kld_open(const struct eval_kld_job *job, struct eval_kld_run *out, struct err *e) {
    struct work w = {.job = job, .out = out};
    memset(out, 0, sizeof *out);
    out->ctx = job->ctx;
    out->n_domains = job->n_domains;
    out->from = job->from < 0 ? job->ctx / 2 : job->from;
    int rc = 0;
    if (job->base && out->from > out->ctx / 2)
        rc = err_set(e, ERR_USAGE, "scoring can begin in the first half of a window only");
    if (!rc) rc = job->base ? take_windows(job, out, e) : open_file(&w, e);
    out->per_chunk = out->ctx - 1 - out->from;
    if (!rc) rc = work_init(&w, e);
    if (!rc) rc = run_all(&w, e);
    work_release(&w);
    if (rc) eval_kld_close(out);
    return rc;
}

void eval_kld_close(struct eval_kld_run *r) {
    for (int i = 0; i <= r->n_cand && r->pos; i++) kld_pos_release(&r->pos[i]);
    free(r->pos);
    mem_free(r->tokens);
    free(r->chunk_domain);
    free(r->route);
    memset(r, 0, sizeof *r);
}

/* ---- the short forms ------------------------------------------------------------------------- */

int eval_kld(struct session *base, struct session *const *cand, int n_cand, const struct ids *ids,
             int64_t ctx, int64_t max_chunks, struct eval_kld *out, float **kld, struct err *e) {
    const struct eval_domain all = {.name = "", .ids = ids->v, .n_ids = ids->n};
    const struct eval_kld_job job = {.base = base,
                                     .cand = cand,
                                     .n_cand = n_cand,
                                     .domain = &all,
                                     .n_domains = 1,
                                     .ctx = ctx,
                                     .max_chunks = max_chunks,
                                     .from = -1};
    struct eval_kld_run r;
    TRY(eval_kld_open(&job, &r, e));
    int rc = 0;
    for (int i = 0; i < n_cand && !rc; i++) {
        eval_kld_total(&r, i, &out[i]);
        if (!kld) continue;
        kld[i] = try_calloc((size_t)r.pos[i].n, sizeof **kld, "the divergence of tokens", e);
        for (int64_t k = 0; kld[i] && k < r.pos[i].n; k++) kld[i][k] = (float)r.pos[i].kld[k];
        if (!kld[i]) rc = ERR_SYS;
    }
    eval_kld_close(&r);
    return rc;
}

int eval_kld_file(struct session *cand, const char *base_file, int64_t max_chunks,
                  struct eval_kld *out, struct err *e) {
    struct session *const list[1] = {cand};
    const struct eval_kld_job job = {
        .base_file = base_file, .cand = list, .n_cand = 1, .max_chunks = max_chunks, .from = -1};
    struct eval_kld_run r;
    TRY(eval_kld_open(&job, &r, e));
    eval_kld_total(&r, 0, out);
    eval_kld_close(&r);
    return 0;
}
