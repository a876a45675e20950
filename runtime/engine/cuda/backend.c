// SPDX-License-Identifier: MIT
/* runtime/engine/cuda/backend.c - a session on a GPU: its memory (sized by plan.c), passes and
 * head.
 *
 * If there are no observers, the pass of a single token is captured once, together with its head,
 * and then replayed: token id, position and sequence are read from device memory, and experts on
 * the CPU run between the captured pieces. Other passes queue their launches each time. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "runtime/engine/cuda/exec.h"

enum { MIN_KEYS_PER_PART = 64 };

/* ---- memory ---- */

/* Allocates part d as planned in p: registers, scratch, room for streamed experts. */
static int alloc_part(struct cuda *d, const struct cuda_plan *p, struct err *e) {
    struct session *s = d->s;
    TRY(cu_buf_new(&d->reg_buf, d->ctx, p->regs, "activations", e));
    TRY(cu_buf_new(&d->work, d->ctx, p->work, "activations", e));
    exec_cuda_lay_out(d, cu_buf_ptr(d->reg_buf), cu_buf_ptr(d->work));
    TRY(cu_fill(d->q, d->arrived, 0, CUDA_ARRIVED * sizeof(int32_t), e));
    TRY(exec_cuda_stream_open(d, e));
    TRY(cu_reserve(d->q, p->scratch, e));
    d->others = p->others;
    s->place[d->place].n_bytes = p->needed - p->stage - p->others - p->kv - p->rec;
    s->place[d->place].device = d->info.index;
    if (d->most) s->cache.most[d->place] = d->most - s->place[d->place].n_bytes - p->others;
    s->n_bytes += s->place[d->place].n_bytes;
    void *host = NULL;
    TRY(cu_host_new(&host, d->ctx, exec_cuda_rows_bytes(s->o.n_ubatch), "rows", e));
    d->host_rows = host;
    if (d->place != d->all->head) return 0;
    TRY(cu_host_new(&host, d->ctx, (uint64_t)s->g->weight[s->g->output].ne[1] * sizeof(float),
                    "logits", e));
    d->host_logits = host;
    TRY(cu_host_new(&host, d->ctx, HEAD_ROWS * sizeof *d->host_best, "best logits", e));
    d->host_best = host;
    return cu_fill(d->q, d->best_work, 0, BEST_ROWS * CU_BEST_WORK, e);
}

/* Decides what each device holds and allocates it. */
static int alloc_all(struct session *s, struct err *e) {
    const struct cuda_set *all = s->dev;
    struct cuda_plan p[CACHE_PLACES];
    TRY(exec_cuda_settle(s, p, e));
    for (int i = 0; i < all->n; i++) TRY(alloc_part(all->part[i], &p[i], e));
    return 0;
}

/* Returns the maximum number of parts to split a head's keys into, so that all SMs are busy. */
static int64_t choose_splits(const struct cuda *d) {
    const struct session *s = d->s;
    int64_t most = 1;
    for (int i = 0; i < s->g->n_attn_slots; i++)
        most = max_i64(most, d->info.n_sm / s->g->facts.kv[i].n_heads);
    return min_i64(most, div_up(s->o.n_ctx, MIN_KEYS_PER_PART));
}

/* Opens the i-th requested device as part i, without memory. Until the layers have been spread, it
 * is treated as the part with the head. */
static int open_part(struct session *s, struct cuda_set *all, int i, struct err *e) {
    struct cuda *d = xcalloc(1, sizeof *d);
    all->part[i] = d;
    d->s = s;
    d->all = all;
    d->place = all->head = i;
    all->n = i + 1;
    d->most = device_most(&s->o.device, i);
    d->exact = s->o.act == ACT_F32;
    d->w = xcalloc((size_t)s->g->n_weights + 1, sizeof *d->w);
    d->reg = xcalloc((size_t)s->g->n_regs + 1, sizeof *d->reg);
    d->q8 = xcalloc((size_t)s->g->n_regs + 1, sizeof *d->q8);
    d->q8_at = xcalloc((size_t)s->g->n_regs + 1, sizeof *d->q8_at);
    d->fuse = s->o.device.masked ? s->o.device.mask : CUDA_DEFAULT;
    TRY(cu_open(&d->ctx, device_index(&s->o.device, i), e));
    TRY(cu_stream_new(&d->q, d->ctx, e));
    cu_launch_early(d->q, (d->fuse & CUDA_EARLY) != 0);
    TRY(cu_use_wgmma(d->q, (d->fuse & CUDA_WGMMA) != 0 && !d->exact, e));
    TRY(cu_get_info(d->ctx, &d->info, e));
    d->n_splits = choose_splits(d);
    for (int k = 0; k < i; k++) cu_pair(all->part[k]->ctx, d->ctx);
    return 0;
}

/* Returns how many bytes the session may still allocate at a place; 0 if unknown. */
static uint64_t cuda_room(const struct session *s, int place) {
    const struct cuda *d = exec_cuda_all(s)->part[place];
    const uint64_t keep = CU_KEEP_FREE + s->keep_free,
                   taken = s->place[place].n_bytes + s->cache.n_bytes[place] + d->others;
    struct cu_info now;
    struct err ignored;
    if (cu_get_info(d->ctx, &now, &ignored) || now.mem_free < keep) return 0;
    const uint64_t n = now.mem_free - keep, more = d->most > taken ? d->most - taken : 0;
    return d->most && more < n ? more : n;
}

/* Returns the memory bandwidth of the device with the output head. */
static uint64_t cuda_bandwidth(const struct session *s) {
    return exec_cuda_head(s)->info.bandwidth;
}

/* Returns whether a device has run out of memory since it was opened. */
static bool cuda_was_full(const struct session *s) {
    const struct cuda_set *all = s->dev;
    bool full = false;
    for (int i = 0; all && i < all->n; i++)
        full = full || (all->part[i]->ctx && cu_was_full(all->part[i]->ctx));
    return full;
}

/* Waits for the queued work of all devices. */
static int sync_all(struct session *s, struct err *e) {
    const struct cuda_set *all = s->dev;
    for (int i = 0; i < all->n; i++) TRY(cu_sync(all->part[i]->q, e));
    return 0;
}

static int cuda_open(struct session *s, struct err *e) {
    struct cuda_set *all = s->dev = xcalloc(1, sizeof *all);
    all->layer_of = xcalloc((size_t)s->g->n_nodes + 1, sizeof *all->layer_of);
    graph_layers(s->g, &all->first_layer, &all->n_layers, all->layer_of);
    all->part_of = xcalloc((size_t)all->n_layers + 1, sizeof *all->part_of);
    all->on_host = xcalloc((size_t)s->g->n_nodes + 1, sizeof *all->on_host);
    for (int i = 0; i <= s->o.device.n_more; i++) TRY(open_part(s, all, i, e));
    TRY(exec_cuda_check(s, e));
    exec_cuda_own_cache(s);
    TRY(alloc_all(s, e));
    TRY(exec_cuda_refresh(s, true, e));
    for (int i = 0; i < all->n; i++)
        log_debug("%s (cuda:%d): %" PRIu64 " bytes in use", all->part[i]->info.name,
                  all->part[i]->info.index, s->place[i].n_bytes);
    return sync_all(s, e);
}

void exec_cuda_close_part(struct cuda *d) {
    exec_cuda_forget_all(d);
    cu_buf_free(d->reg_buf);
    cu_buf_free(d->work);
    exec_cuda_stream_close(d);
    cu_buf_free(d->stage);
    cuda_feed_close(&d->feed);
    cu_host_free(d->ctx, d->host_rows);
    cu_host_free(d->ctx, d->host_logits);
    cu_host_free(d->ctx, d->host_best);
    exec_cuda_sum_free(d);
    cu_stream_free(d->q);
    cu_close(d->ctx);
    free(d->w);
    free(d->reg);
    free(d->q8);
    free(d->q8_at);
    free(d);
}

static void cuda_close(struct session *s) {
    if (!s->dev) return;
    struct cuda_set *all = s->dev;
    exec_cuda_drop_step(all);
    for (int i = 0; i < all->n; i++) exec_cuda_close_part(all->part[i]);
    exec_free(s);
    free(all->layer_of);
    free(all->part_of);
    free(all->on_host);
    free(all->step);
    free(all);
    s->dev = NULL;
}

static int refresh_weights(struct session *s, struct err *e) {
    return exec_cuda_refresh(s, false, e);
}

/* ---- passes ---- */

/* Queues the steps after the head's product: biases and soft cap. */
static int after_head(struct cuda *d, int64_t n, struct err *e) {
    struct session *s = d->s;
    const int64_t rows = d->w[s->g->output].w.rows;
    if (s->g->head_bias != GR_NONE)
        TRY(cu_add_bias(d->q, d->logits, d->w[s->g->head_bias].vec, n * rows, rows, e));
    return s->g->softcap > 0 ? cu_softcap(d->q, d->logits, n * rows, (float)s->g->softcap, e) : 0;
}

int exec_cuda_head_rows(struct cuda *d, const float *x, int64_t n, struct err *e) {
    const struct cu_weight *w = &d->w[d->s->g->output].w;
    TRY(cu_matmul(d->q, w, x, w->k, n, d->logits, w->rows, d->exact, e));
    return after_head(d, n, e);
}

/* Computes the logits of n hidden rows in main memory, HEAD_ROWS at a time. */
static int cuda_head(struct session *s, const float *hidden, int64_t n, float *logits,
                     struct err *e) {
    struct cuda *d = exec_cuda_head(s);
    const struct cu_weight *w = &d->w[s->g->output].w;
    TRY(exec_cuda_refresh(s, false, e));
    exec_show_head(s, hidden, n);
    for (int64_t i = 0; i < n; i += HEAD_ROWS) {
        const int64_t k = min_i64(HEAD_ROWS, n - i);
        TRY(cu_upload(d->q, d->head_x, hidden + i * w->k, (uint64_t)(k * w->k) * sizeof *hidden,
                      e));
        TRY(exec_cuda_head_rows(d, d->head_x, k, e));
        TRY(cu_download(d->q, logits + i * w->rows, d->logits,
                        (uint64_t)(k * w->rows) * sizeof *logits, e));
    }
    return cu_sync(d->q, e);
}

/* Computes the logits of the last row within the recorded pass. */
static int run_last_row(struct cuda *d, struct err *e) {
    struct session *s = d->s;
    int64_t w = s->g->reg_width[s->g->hidden_out];
    const float *x = d->reg[s->g->hidden_out] + (s->n_tok - 1) * w;
    bool done;
    TRY(exec_cuda_show(d, s->g->output, x, 1, w, e));
    TRY(exec_cuda_fast_head(d, s->g->hidden_out, x, &done, e));
    return done ? after_head(d, 1, e) : exec_cuda_head_rows(d, x, 1, e);
}

void exec_cuda_drop_step(struct cuda_set *all) {
    for (int i = 0; i < all->n_steps; i++) cu_graph_free(all->step[i]);
    all->n_steps = 0;
    all->recorded = all->warm = false;
}

/* Queues the steps of a pass, then the head for its last row. */
static int record_pass(struct session *s, struct err *e) {
    struct cuda *d = exec_cuda_head(s);
    TRY(exec_cuda_nodes(s, e));
    TRY(exec_cuda_begin(d, e));
    TRY(run_last_row(d, e));
    return exec_cuda_end_piece(d->all, e);
}

/* Replays a captured token: its pieces in order, and the copies between them. */
static int replay(struct session *s, struct err *e) {
    const struct cuda_set *all = s->dev;
    const struct program *p = exec_cuda_program(s, 0);
    struct cu_graph **piece = all->step;
    bool ran = false;
    for (int i = 0; i <= p->n_steps; i++) { /* the iteration after the last step is the head */
        const struct step *step = &p->step[i];
        const bool run = i == p->n_steps || step->kind == STEP_RUN;
        struct cuda *d = all->part[i == p->n_steps ? all->head : step->device];
        if (!run) TRY(exec_cuda_copy_step(d, step, e));
        if (run && !ran) TRY(cu_graph_run(d->q, *piece++, e));
        ran = run;
    }
    return 0;
}

/* Runs one token and computes its logits. The first token of a session runs uncaptured, the second
 * is captured while it runs, later ones are replayed. */
static int step(struct session *s, struct err *e) {
    struct cuda_set *all = s->dev;
    if (all->recorded) return replay(s, e);
    if (!all->warm) {
        TRY(exec_cuda_nodes(s, e));
        all->warm = true;
        return run_last_row(exec_cuda_head(s), e);
    }
    all->recording = true;
    const int rc = record_pass(s, e);
    all->recording = false;
    all->recorded = !rc;
    if (rc) {
        struct cu_graph *rest = NULL;
        struct err ignored;
        if (all->capturing && !cu_graph_end(all->capturing->q, &rest, &ignored))
            cu_graph_free(rest);
        all->capturing = NULL;
        exec_cuda_drop_step(all);
    }
    return rc;
}

/* Runs the pass; hidden and logits may be NULL. Fails at once after an earlier device error. */
static int cuda_pass(struct session *s, float *hidden, float *logits, struct err *e) {
    struct cuda *d = exec_cuda_head(s);
    int64_t w = s->g->reg_width[s->g->hidden_out];
    if (d->all->lost.code) {
        *e = d->all->lost;
        return (int)e->code;
    }
    TRY(exec_cuda_refresh(s, false, e));
    TRY(exec_cuda_rows(s, e));
    const bool head = logits || s->now.best;
    if (s->n_tok == 1 && head && !s->now.begin && !s->now.hidden_in && !s->probe.product &&
        !s->probe.residual && !s->probe.route && !s->images.n_rows)
        TRY(step(s, e));
    else {
        TRY(exec_cuda_nodes(s, e));
        if (head) TRY(run_last_row(d, e));
    }
    if (hidden)
        TRY(cu_download(d->q, hidden, d->reg[s->g->hidden_out],
                        (uint64_t)(s->n_tok * w) * sizeof *hidden, e));
    uint64_t n_logits = (uint64_t)s->g->weight[s->g->output].ne[1] * sizeof *logits;
    float *to = logits && cu_is_pinned(d->ctx, logits) ? logits : d->host_logits;
    if (logits) TRY(cu_download(d->q, to, d->logits, n_logits, e));
    if (s->now.best) TRY(exec_cuda_find_best(d, 0, 1, e));
    /* From here on host_rows may be filled for the next pass. Later steps wait for the part with
     * the head. */
    if (!s->goes_on || d->all->n > 1) TRY(sync_all(s, e));
    if (logits && to != logits) memcpy(logits, to, n_logits);
    return s->now.best ? exec_cuda_take_best(d, 0, s->now.best, e) : 0;
}

/* Downloads n rows of the last pass's hidden values, starting at output row `first`. */
static int cuda_rows(struct session *s, int64_t first, int64_t n, float *hidden, struct err *e) {
    const struct cuda *d = exec_cuda_head(s);
    const int64_t w = s->g->reg_width[s->g->hidden_out];
    TRY(cu_download(d->q, hidden, d->reg[s->g->hidden_out] + first * w,
                    (uint64_t)(n * w) * sizeof *hidden, e));
    return cu_sync(d->q, e);
}

/* Returns whether both sessions run on the same single device. */
static bool cuda_can_hand(const struct session *s, const struct session *to) {
    const struct cuda *a = exec_cuda_head(s), *b = exec_cuda_head(to);
    return a->all->n == 1 && b->all->n == 1 && a->info.index == b->info.index;
}
/* Copies rows into the residual of `to`, which is unused between the passes of `to`. The copy is
 * queued in the current pass's stream, and the caller waits for that pass. */
static int cuda_hand(struct session *s, int64_t row, int64_t n, struct session *to, int64_t at,
                     struct err *e) {
    const struct cuda *d = exec_cuda_head(s), *other = exec_cuda_head(to);
    const int64_t w = s->g->reg_width[s->g->residual];
    return cu_copy(d->q, other->reg[to->g->residual] + at * w, d->reg[s->g->residual] + row * w,
                   (uint64_t)(n * w) * sizeof(float), e);
}

/* Allocates main memory that the device can copy to and from fast. */
static int cuda_host_new(struct session *s, void **out, uint64_t n_bytes, const char *what,
                         struct err *e) {
    return cu_host_new(out, exec_cuda_head(s)->ctx, n_bytes, what, e);
}
static void cuda_host_free(struct session *s, void *p) {
    cu_host_free(exec_cuda_head(s)->ctx, p);
}

const struct backend backend_cuda = {
    .name = "cuda",
    .open = cuda_open,
    .close = cuda_close,
    .was_full = cuda_was_full,
    .room = cuda_room,
    .bandwidth = cuda_bandwidth,
    .use = exec_cuda_forget,
    .prepare = refresh_weights,
    .pass = cuda_pass,
    .rows = cuda_rows,
    .get_page = exec_cuda_get_page,
    .put_page = exec_cuda_put_page,
    .get_states = exec_cuda_get_states,
    .put_states = exec_cuda_put_states,
    .head = cuda_head,
    .finds_best = true,
    .outputs = exec_cuda_outputs,
    .can_hand = cuda_can_hand,
    .hand = cuda_hand,
    .host_new = cuda_host_new,
    .host_free = cuda_host_free,
    .score = exec_cuda_score,
    .shares = exec_cuda_shares,
    .sums = exec_cuda_sums,
    .on_device = true,
};
