// SPDX-License-Identifier: MIT
/* runtime/engine/session.c - sessions on any device: checks arguments, gathers rows into passes of
 * at most n_ubatch, delivers outputs, takes snapshots. struct backend does the work of a device. In
 * a pass, the rows of one sequence are contiguous and form a segment. */
#include "runtime/engine/session.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/machine.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/progress.h"
#include "kernels/cuda/cuda.h"
#include "models/sizes.h"
#include "runtime/engine/exec.h"

enum { DEFAULT_CTX = 4096, DEFAULT_UBATCH = 512 };

/* Copies the options and replaces zeros by defaults. ERR_USAGE: the context is out of range. */
static int set_defaults(struct session *s, const struct session_opts *o, struct err *e) {
    s->o = *o;
    int64_t trained = s->m->hp.d[HD_CTX];
    if (s->o.n_ctx < 0 || s->o.n_ubatch < 0 || s->o.n_ctx > INT32_MAX)
        return err_set(e, ERR_USAGE, "a context of %" PRId64 " tokens is not possible", o->n_ctx);
    if (!s->o.n_ctx) s->o.n_ctx = trained > 0 ? min_i64(trained, DEFAULT_CTX) : DEFAULT_CTX;
    s->any_ubatch = !s->o.n_ubatch;
    const int64_t most = s->m->hp.d[HD_MOST_CTX];
    if (most && !o->n_ctx) s->o.n_ctx = min_i64(s->o.n_ctx, most);
    if (most && s->o.n_ctx > most)
        return err_set(e, ERR_USAGE,
                       "a context of %" PRId64 " tokens exceeds the %" PRId64
                       " that this model supports: use --ctx %" PRId64 " or less",
                       s->o.n_ctx, most, most);
    const int64_t top = graph_top_keys(s->g);
    /* CUDA does not select keys: without --ctx it gets a context in which all are visible. */
    if (top && !o->n_ctx && s->o.device.kind != DEVICE_CPU) s->o.n_ctx = min_i64(s->o.n_ctx, top);
    if (!s->o.n_ubatch) s->o.n_ubatch = min_i64(DEFAULT_UBATCH, s->o.n_ctx);
    s->wanted_ubatch = s->o.n_ubatch;
    s->all_keys = !top || s->o.n_ctx <= top;
    return 0;
}

/* Chooses the cache types: those of the options, or else the plain type of kv_type; q8_0 in the
 * layers at both edges. */
static int kv_choose(const struct session_opts *o, struct kv_plan *p, struct err *e) {
    const struct kv_type *plain = kv_type_of(o->kv_type), *q8 = kv_type_find(KV_EDGE);
    if (!plain)
        return err_set(e, ERR_USAGE, "a KV cache of type %s is not supported: use f16 or q8_0",
                       qtype_name(o->kv_type));
    p->k = o->kv_k ? o->kv_k : plain;
    p->v = o->kv_v ? o->kv_v : plain;
    p->edge_k = o->kv_edge_k ? o->kv_edge_k : q8;
    p->edge_v = o->kv_edge_v ? o->kv_edge_v : q8;
    p->n_edge = o->kv_n_edge;
    return 0;
}

/* Creates a table for every rope; too many kinds are ERR_DATA. */
static int find_ropes(struct session *s, struct err *e) {
    for (int i = 0; i < graph_count(s->g, OP_ROPE); i++)
        if (!exec_rope_tab(s, graph_nth(s->g, OP_ROPE, i), true))
            return err_set(e, ERR_DATA, "the model has more than %d kinds of rope", ROPE_TABS);
    return 0;
}

/* Replaces rotated blocks by plain ones: CUDA's kernels do not rotate. */
static void no_rotation(struct kv_plan *p) {
    if ((kv_type_is_blocks(p->k) && p->k->rotated) || (kv_type_is_blocks(p->v) && p->v->rotated))
        log_info("cache of type %s/%s: on CUDA, keys and values are not rotated, which loses more "
                 "than on the CPU and in llama.cpp",
                 p->k->name, p->v->name);
    p->k = kv_type_norot(p->k);
    p->v = kv_type_norot(p->v);
    p->edge_k = kv_type_norot(p->edge_k);
    p->edge_v = kv_type_norot(p->edge_v);
}

/* Sets up the cache's layout for n_ctx tokens. */
static int open_cache(struct session *s, const struct kv_plan *plan, struct err *e) {
    struct kv kv;
    struct rec rec;
    struct kv_plan here = *plan;
    if (s->be->on_device) no_rotation(&here);
    const int rc = kv_init(&kv, s->g, s->o.n_ctx, &here, e);
    rec_init(&rec, s->g, s->be->on_device);
    cache_init(&s->cache, &kv, &rec, KV_PAGE, s->o.n_ubatch);
    return rc;
}

/* Opens the cache, the backend `be` and the session's own sequence. */
static int open_on(struct session *s, const struct backend *be, const struct kv_plan *plan,
                   struct err *e) {
    s->be = be;
    s->n_bytes = 0;
    memset(&s->offload, 0, sizeof s->offload);
    memset(s->place, 0, sizeof s->place);
    TRY(open_cache(s, plan, e));
    TRY(be->open(s, e));
    s->cache.pass_tok = s->o.n_ubatch; /* The device may have chosen another pass length. */
    TRY(seq_new(&s->own, &s->cache, s->o.guests ? 0 : s->o.n_ctx, e));
    return s->cache.keeps_spare ? cache_keep_spare(&s->cache, e) : 0;
}

/* Closes the backend, after everything that sequences hold in its memory has been freed. */
static void close_backend(struct session *s) {
    seq_free(s->mark);
    seq_free(s->own);
    s->mark = NULL;
    s->own = NULL;
    cache_release(&s->cache);
    s->be->close(s);
}

/* Logs once per context which device is used by default: a GPU, or the CPU even though there is a
 * GPU. */
static void say_default(const struct session *s, bool on_device) {
    struct cu_ctx *c = NULL;
    struct cu_info i;
    struct err ignored;
    const struct device *d = &s->o.device;
    if (!d->by_default || (!on_device && !d->unused_card)) return;
    if (atomic_exchange(&ctx_current()->told_device, true)) return;
    if (!on_device) {
        log_info(
            "found an NVIDIA GPU, but this build of hone supports the CPU only: with CUDA 12 or "
            "newer installed, build it with `make HAVE_CUDA=1` (--device cpu silences this "
            "note)");
        return;
    }
    const bool named = cu_open(&c, d->index, &ignored) == 0 && cu_get_info(c, &i, &ignored) == 0;
    cu_close(c);
    log_info("computing on cuda:%d%s%s (--device cpu for the processor)", d->index,
             named ? ", " : "", named ? i.name : "");
}

/* Opens the requested device. With `auto`, falls back to the CPU if the device cannot be used. */
static int open_device(struct session *s, const struct kv_plan *plan, struct err *e) {
    if (s->o.device.kind == DEVICE_CPU) {
        say_default(s, false);
        return open_on(s, &backend_cpu, plan, e);
    }
    int rc = open_on(s, &backend_cuda, plan, e);
    /* Other processes may have taken memory since it was measured. */
    for (int i = 0; i < 3 && rc && s->be->was_full(s); i++) {
        log_info("%s; retrying with less memory", e->msg);
        close_backend(s);
        s->keep_free = (UINT64_C(256) << 20) << i;
        rc = open_on(s, &backend_cuda, plan, e);
    }
    if (!rc) say_default(s, true);
    if (!rc || s->o.device.kind != DEVICE_AUTO) return rc;
    int n_there = 0;
    struct err none;
    if (cu_devices(&n_there, &none) || n_there) log_warn("computing on the CPU: %s", e->msg);
    close_backend(s);
    s->o.n_ubatch = s->wanted_ubatch;
    s->o.device.kind = DEVICE_CPU;
    TRY(exec_pack(s, NULL, e));
    return open_on(s, &backend_cpu, plan, e);
}

/* Prepares the choice of a thread count for single tokens. */
static void tune_for(struct session *s) {
    struct machine hw = {0};
    s->n_workers = pool_size(s->o.pool);
    if (pool_is_free(s->o.pool)) machine_read("", &hw);
    thread_tune_init(&s->tune, s->n_workers, (int)min_i64(hw.n_cores, s->n_workers), hw.n_big);
}

/* Allocates the arrays that describe the rows of a pass. */
static void alloc_rows(struct session *s) {
    const size_t n = (size_t)s->o.n_ubatch;
    s->seg = xcalloc(n, sizeof *s->seg);
    s->row_pos = xcalloc(n, sizeof *s->row_pos);
    s->row_seq = xcalloc(n, sizeof *s->row_seq);
    s->row_id = xcalloc(n, sizeof *s->row_id);
    s->row_from = xcalloc(n, sizeof *s->row_from);
    s->row_fork = xcalloc(n, sizeof(void *));
    s->kept = xcalloc(n, sizeof *s->kept);
    s->row_out = xcalloc(n, sizeof *s->row_out);
    s->head_row = xcalloc(n, sizeof *s->head_row);
    images_alloc(s);
}

/* Switches the thread to the session's context and returns the previous one. */
static struct ctx *enter(const struct session *s) {
    return ctx_enter(s->o.ctx ? s->o.ctx : ctx_current());
}

int session_new(struct session **out, const struct model *m, const struct session_opts *o,
                struct err *e) {
    struct ctx *callers = ctx_enter(o->ctx ? o->ctx : ctx_current());
    struct session *s = xcalloc(1, sizeof *s);
    s->m = s->given = m;
    s->g = &m->graph;
    s->be = &backend_cpu;
    struct kv_plan plan;
    int rc;
    TRY_GOTO(fail, rc, set_defaults(s, o, e));
    tune_for(s);
    TRY_GOTO(fail, rc, kv_choose(&s->o, &plan, e));
    kern_init(&s->kern, s->o.isa);
    s->vec = xcalloc((size_t)s->g->n_weights + 1, sizeof *s->vec);
    TRY_GOTO(fail, rc, find_ropes(s, e));
    if (s->o.device.kind == DEVICE_CPU) TRY_GOTO(fail, rc, exec_pack(s, NULL, e));
    TRY_GOTO(fail, rc, open_device(s, &plan, e));
    s->o.like = NULL; /* may be freed from now on */
    alloc_rows(s);
    *out = s;
    ctx_enter(callers);
    return 0;
fail:
    ctx_enter(callers);
    session_free(s);
    return rc;
}

void session_free(struct session *s) {
    if (!s) return;
    close_backend(s);
    programs_forget(&s->programs);
    for (int i = 0; i < s->g->n_weights && s->vec; i++) free(s->vec[i].own);
    mem_free(s->taps.rows);
    free(s->seg);
    free(s->row_pos);
    free(s->row_seq);
    free(s->row_id);
    free(s->row_from);
    images_free(s);
    free(s->row_fork);
    free(s->kept);
    free(s->row_out);
    free(s->head_row);
    free(s->vec);
    exec_unpack(s);
    free(s);
}

void session_reset(struct session *s) {
    seq_reset(s->own);
}
int64_t session_pos(const struct session *s) {
    return s->own->pos;
}
/* Returns whether sequences keep their whole past: no recurrent states, no windows. */
static bool keeps_past(const struct session *s) {
    bool windows = false;
    for (int i = 0; i < s->cache.kv.n_slots; i++)
        windows = windows || s->cache.kv.slot[i].window > 0;
    return !windows && !s->cache.rec.n_bytes;
}
struct session_info session_info(const struct session *s) {
    return (struct session_info){.device = s->be->name,
                                 .bandwidth = s->be->bandwidth ? s->be->bandwidth(s) : 0,
                                 .offload_blocks = s->offload.n_blocks,
                                 .offload_bytes = s->offload.n_bytes,
                                 .stream_from = s->offload.from,
                                 .can_best = s->be->finds_best,
                                 .can_trim = keeps_past(s),
                                 .lacks_spare = s->cache.n_spare < s->cache.most_spare,
                                 .settled = s->be != &backend_cpu || !thread_tune_running(&s->tune),
                                 .n_threads = thread_tune_threads(&s->tune),
                                 .whole_images = s->images.whole,
                                 .takes_images = !(s->be->on_device && s->images.whole)};
}
uint64_t session_bytes(const struct session *s) {
    uint64_t n = s->n_bytes;
    for (int i = 0; i < s->cache.n_places; i++) n += s->cache.n_bytes[i];
    return n;
}
void session_device_bytes(const struct session *s, uint64_t sum[DEVICES]) {
    for (int i = 0; i < s->cache.n_places && s->be != &backend_cpu; i++)
        for (int k = 0; k <= s->o.device.n_more; k++)
            if (device_index(&s->o.device, k) == s->place[i].device)
                sum[k] += s->place[i].n_bytes + s->cache.n_bytes[i];
}
void session_observe(struct session *s, const struct session_probe *p) {
    s->probe = p ? *p : (struct session_probe){0};
}
const struct model *session_model(const struct session *s) {
    return s->given;
}
const struct session_opts *session_get_opts(const struct session *s) {
    return &s->o;
}

/* Returns ERR_USAGE unless the id is in the vocabulary. i: its position, for the message. */
static int check_id(const struct session *s, int32_t id, int64_t i, struct err *e) {
    const int64_t n_vocab = s->m->hp.d[HD_VOCAB];
    if (id >= 0 && id < n_vocab) return 0;
    return err_set(e, ERR_USAGE,
                   "token id %" PRId32 " at position %" PRId64
                   " is outside the vocabulary of %" PRId64 " entries",
                   id, i, n_vocab);
}

/* Returns ERR_USAGE unless n more tokens fit into the context of q. */
static int check_room(const struct session *s, const struct seq *q, int64_t n, struct err *e) {
    if (n >= 0 && n <= s->o.n_ctx - q->pos) return 0;
    return err_set(e, ERR_USAGE,
                   "the context of %" PRId64 " tokens is full: %" PRId64 " are used and %" PRId64
                   " more were given; use a larger --ctx",
                   s->o.n_ctx, q->pos, n);
}

/* ---- passes ---- */

/* Records whether the outputs of row r are wanted. Call in row order. */
static void keep_row(struct session *s, int64_t r, bool kept) {
    s->row_out[r] = (int32_t)r;
    if (kept) s->kept[s->n_kept++] = (int32_t)r;
}

/* Builds a pass from the next n rows of the session's own sequence, with outputs wanted for the
 * last n_kept rows. */
static void gather_own(struct session *s, const int32_t *ids, int64_t n, int64_t n_kept) {
    s->ids = ids;
    s->n_tok = n;
    s->n_segs = 1;
    s->n_forks = 0;
    s->n_kept = 0;
    s->seg[0] = (struct seg){s->own, 0, n};
    images_begin(s, NULL, n);
    for (int64_t i = 0; i < n; i++) {
        s->row_pos[i] = s->own->pos + i;
        s->row_seq[i] = s->own;
        images_row(s, i, NULL);
        keep_row(s, i, i >= n - n_kept);
    }
}

/* Runs the gathered pass, then advances residual and hidden_in to the input of the next pass.
 * Either of hidden and logits may be NULL, as in backend.h's pass. */
static int run_pass(struct session *s, float *hidden, float *logits, struct err *e) {
    if (!s->o.whole && progress_interrupted()) return err_set(e, ERR_INTR, "interrupted");
    TRY(s->be->pass(s, hidden, logits, e));
    for (int i = 0; i < s->n_segs; i++) {
        const struct seg *g = &s->seg[i];
        for (int64_t r = g->r0; r < g->r0 + g->n; r++)
            if (exec_fork(s, r) && !s->be->on_device)
                seq_fork_ahead(s->row_fork[r], g->seq, r - g->r0 + 1);
        seq_advance(g->seq, g->n);
        if (s->be->on_device && exec_fork(s, g->r0 + g->n - 1))
            seq_restore(s->row_fork[g->r0 + g->n - 1], g->seq);
    }
    if (s->now.residual) s->now.residual += s->n_tok * s->g->reg_width[s->g->residual];
    if (s->now.residual_out) s->now.residual_out += s->n_tok * s->g->reg_width[s->g->residual];
    if (s->now.hidden_in) s->now.hidden_in += s->n_tok * s->g->reg_width[s->g->hidden_in];
    return 0;
}

/* Runs tokens of the session's own sequence in as many passes as needed. */
static int run_own(struct session *s, const struct session_pass *p, struct err *e) {
    TRY(check_room(s, s->own, p->n, e));
    for (int64_t i = 0; i < p->n; i++) TRY(check_id(s, p->ids[i], i, e));
    const int64_t d = s->g->reg_width[s->g->hidden_out];
    for (int64_t i = 0, k; i < p->n; i += k) {
        k = min_i64(s->o.n_ubatch, p->n - i);
        float *last = i + k == p->n ? p->logits : NULL;
        gather_own(s, p->ids + i, k, p->hidden || p->taps ? k : last != NULL);
        TRY(run_pass(s, p->hidden ? p->hidden + i * d : NULL, last, e));
        for (int64_t r = 0; r < k && p->taps; r++)
            taps_give(s, r, p->taps + (i + r) * session_tap_width(s));
    }
    return 0;
}

int session_new_seq(struct session *s, int64_t n_reserve, struct seq **out, struct err *e) {
    if (n_reserve < 0 || n_reserve > s->o.n_ctx)
        return err_set(e, ERR_USAGE,
                       "a sequence of %" PRId64 " tokens does not fit a context of %" PRId64,
                       n_reserve, s->o.n_ctx);
    return seq_new(out, &s->cache, n_reserve, e);
}

int session_new_fork(struct session *s, struct seq **out, struct err *e) {
    return seq_new_fork(out, &s->cache, e);
}

uint64_t session_seq_bytes(const struct session *s, int64_t n_tok) {
    uint64_t n = 0;
    for (int i = 0; i < s->cache.n_places; i++) n += cache_seq_bytes(&s->cache, i, n_tok);
    return n;
}
uint64_t session_held_bytes(const struct session *s) {
    uint64_t n = 0;
    for (int i = 0; i < s->cache.n_places; i++) n += cache_held_bytes(&s->cache, i);
    return n;
}
/* Returns the number of bytes that sequences may take. A sequence's share on one device depends on
 * its length; it is between that of a short sequence and that of a long one, so both are tried. */
uint64_t session_room(const struct session *s) {
    const int64_t n_tok[2] = {1, s->o.n_ctx};
    double least = (double)UINT64_MAX / 2;
    if (!s->be->room) return UINT64_MAX;
    for (int i = 0; i < s->cache.n_places; i++) {
        const uint64_t held = cache_held_bytes(&s->cache, i);
        /* Allow a sixteenth for rounding. */
        const double here = (double)(s->be->room(s, i) / 16 * 15 + held);
        for (int k = 0; k < 2; k++) {
            const uint64_t part = cache_seq_bytes(&s->cache, i, n_tok[k]);
            if (!part) continue;
            const double all = here * (double)session_seq_bytes(s, n_tok[k]) / (double)part;
            if (all < least) least = all;
        }
    }
    return (uint64_t)least;
}
uint64_t session_keep_spares(struct session *s, int n) {
    const uint64_t one = session_seq_bytes(s, 0);
    if (s->cache.keeps_spare || !one) return 0;
    cache_keep_spares(&s->cache, n);
    return (uint64_t)s->cache.n_spare * one;
}
bool session_add_spare(struct session *s) {
    return cache_add_spare(&s->cache);
}

struct seq *session_own_seq(const struct session *s) {
    return s->own;
}

/* Returns the row's sequence; by default, the session's own. */
static struct seq *seq_of(const struct session *s, const struct session_row *row) {
    return row->seq ? row->seq : s->own;
}

/* Checks the rows, counting those of each sequence in seq.mark; each fork must be named once and
 * must not be fed. Resets the marks. */
static int check_rows(struct session *s, const struct session_row *row, struct seq *const *fork,
                      int64_t n, struct err *e) {
    int rc = 0;
    for (int64_t i = 0; i < n && !rc; i++) {
        struct seq *q = seq_of(s, &row[i]);
        rc = row[i].image ? 0 : check_id(s, row[i].id, i, e);
        if (!rc && (row[i].want & WANT_BEST) && !s->be->finds_best)
            rc = err_set(e, ERR_USAGE, "the best logits are available on a device only");
        if (rc) break;
        if (q->cache != &s->cache)
            rc = err_set(e, ERR_USAGE, "row %" PRId64 ": the sequence belongs to another session",
                         i);
        else
            rc = check_room(s, q, ++q->mark, e);
    }
    for (int64_t i = 0; i < n && fork && !rc; i++)
        if (fork[i] && (fork[i]->cache != &s->cache || fork[i]->mark++))
            rc = err_set(e, ERR_USAGE, "row %" PRId64 ": not a valid fork", i);
    for (int64_t i = 0; i < n; i++) {
        struct seq *q = seq_of(s, &row[i]);
        if (q->cache == &s->cache) q->mark = 0;
        if (fork && fork[i]) fork[i]->mark = 0;
    }
    return rc;
}

/* Gathers a pass of n rows, with the sequences in order of first appearance. row_from[i] is the row
 * of the pass that holds row[i]. */
static void gather(struct session *s, const struct session_row *row, struct seq *const *fork,
                   int64_t n) {
    s->n_segs = s->n_forks = 0;
    for (int64_t i = 0; i < n; i++) {
        struct seq *q = seq_of(s, &row[i]);
        if (!q->mark) {
            q->mark = ++s->n_segs;
            s->seg[q->mark - 1] = (struct seg){.seq = q};
        }
        s->seg[q->mark - 1].n++;
    }
    images_begin(s, row, n);
    int64_t r0 = 0;
    for (int k = 0; k < s->n_segs; k++) {
        s->seg[k].r0 = r0;
        r0 += s->seg[k].n;
        s->seg[k].n = 0; /* counted again below */
    }
    for (int64_t i = 0; i < n; i++) {
        struct seq *q = seq_of(s, &row[i]);
        struct seg *g = &s->seg[q->mark - 1];
        const int64_t r = g->r0 + g->n;
        s->row_id[r] = row[i].id;
        s->row_pos[r] = q->pos + g->n++;
        s->row_seq[r] = q;
        images_row(s, r, &row[i]);
        s->row_from[i] = (int32_t)r;
        s->row_fork[r] = fork ? fork[i] : NULL;
        s->n_forks += s->row_fork[r] != NULL;
    }
    for (int k = 0; k < s->n_segs; k++) s->seg[k].seq->mark = 0;
    s->ids = s->row_id;
    s->n_tok = n;
    s->n_kept = 0;
    for (int64_t r = 0; r < n; r++) s->row_out[r] = 0;
    for (int64_t i = 0; i < n; i++) s->row_out[s->row_from[i]] = row[i].want != 0;
    for (int64_t r = 0; r < n; r++) keep_row(s, r, s->row_out[r]);
}

/* Where the outputs of the next row with outputs go. */
struct outputs {
    float *hidden, *logits, *taps;
    struct session_best *best;
};

/* Returns the number of consecutive rows, starting at i, that need their hidden row. */
static int64_t hidden_run(const struct session *s, const struct session_row *row, int64_t i,
                          int64_t n) {
    int64_t k = i;
    while (k < n && (row[k].want & WANT_HIDDEN) && s->row_from[k] - s->row_from[i] == k - i) k++;
    return k - i;
}

/* Computes the n rows of s->head_row from copies. All of them want logits; the rows are
 * contiguous. */
static int outputs_of_copies(struct session *s, int64_t n, struct err *e) {
    const int64_t d = s->g->reg_width[s->g->hidden_out];
    float *x = try_realloc(NULL, (size_t)n * (size_t)d, sizeof *x, "hidden rows", e);
    int rc = x ? 0 : ERR_SYS;
    for (int64_t i = 0; i < n && !rc; i++) rc = s->be->rows(s, s->head_row[i].row, 1, x + i * d, e);
    if (!rc) rc = s->be->head(s, x, n, s->head_row[0].logits, e);
    free(x);
    return rc;
}

/* Delivers the outputs that the rows want, in order, and advances *out past them. */
static int hand_out(struct session *s, const struct session_row *row, int64_t n,
                    struct outputs *out, struct err *e) {
    const int64_t d = s->g->reg_width[s->g->hidden_out], v = model_n_logits(s->m);
    for (int64_t i = 0, k; i < n && out->hidden; i += max_i64(k, 1)) {
        k = hidden_run(s, row, i, n);
        if (k) TRY(s->be->rows(s, s->row_from[i], k, out->hidden, e));
        out->hidden += k * d;
    }
    for (int64_t i = 0; i < n && out->taps; i++) {
        if (!(row[i].want & WANT_HIDDEN)) continue;
        taps_give(s, s->row_from[i], out->taps);
        out->taps += session_tap_width(s);
    }
    int64_t n_out = 0;
    for (int64_t i = 0; i < n; i++) {
        struct head_row *h = &s->head_row[n_out];
        *h = (struct head_row){.row = s->row_from[i]};
        if (out->logits && (row[i].want & WANT_LOGITS)) {
            h->logits = out->logits;
            out->logits += v;
        } else if (out->best && (row[i].want & WANT_BEST))
            h->best = out->best++;
        n_out += h->logits || h->best;
    }
    if (!n_out) return 0;
    return s->be->outputs ? s->be->outputs(s, s->head_row, n_out, e)
                          : outputs_of_copies(s, n_out, e);
}

/* Returns whether hand_out has outputs to deliver for n rows. */
static bool wants_outputs(const struct session_row *row, int64_t n, const struct outputs *out) {
    const unsigned there = (out->hidden || out->taps ? WANT_HIDDEN : 0U) |
                           (out->logits ? WANT_LOGITS : 0U) | (out->best ? WANT_BEST : 0U);
    for (int64_t i = 0; i < n; i++)
        if (row[i].want & there) return true;
    return false;
}

/* Returns how many of the next n rows the next pass takes. */
static int64_t pass_rows(const struct session *s, const struct session_row *row,
                         struct seq *const *fork, int64_t n) {
    n = images_cut(s, row, min_i64(s->o.n_ubatch, n), n);
    for (int64_t i = 0; i < n && fork && s->be->on_device; i++)
        if (fork[i]) return i + 1;
    return n;
}

/* Runs rows of any sequences in as many passes as needed. */
static int run_rows(struct session *s, const struct session_pass *p, struct err *e) {
    struct outputs out = {p->hidden, p->logits, p->taps, p->best};
    TRY(check_rows(s, p->row, p->fork, p->n, e));
    TRY(images_check(s, p->row, p->n, e));
    for (int64_t i = 0, k; i < p->n; i += k) {
        const struct session_row *row = p->row + i;
        struct seq *const *fork = p->fork ? p->fork + i : NULL;
        k = pass_rows(s, row, fork, p->n - i);
        gather(s, row, fork, k);
        for (int64_t r = 0; r < k && (p->begin || p->hidden_in || p->residual_out); r++)
            if (s->row_from[r] != r)
                return err_set(e, ERR_USAGE, "rows of one sequence must be adjacent here");
        const bool one = k == 1 && out.logits && row->want == WANT_LOGITS,
                   best = k == 1 && out.best && row->want == WANT_BEST;
        s->now.best = best ? out.best++ : NULL;
        s->goes_on = !one && !best && wants_outputs(row, k, &out);
        TRY(run_pass(s, NULL, one ? out.logits : NULL, e));
        if (one) out.logits += model_n_logits(s->m);
        if (!one && !best) TRY(hand_out(s, row, k, &out, e));
    }
    return 0;
}

int session_pass(struct session *s, const struct session_pass *p, struct err *e) {
    if ((s->g->hidden_in == GR_NONE) != !p->hidden_in)
        return err_set(e, ERR_USAGE, "draft models need hidden rows, and other models take none");
    if (p->taps && !s->taps.n) return err_set(e, ERR_USAGE, "no layers are tapped (session_tap)");
    if (p->begin && !p->residual && p->n > s->n_handed)
        return err_set(e, ERR_USAGE, "a pass that starts at a block needs its residual rows");
    if (p->residual_out && (!p->end || s->be->on_device))
        return err_set(e, ERR_USAGE, "only a pass on the CPU that ends at a block has a residual");
    struct ctx *callers = enter(s);
    s->n_handed = 0;
    s->now = *p;
    s->goes_on = false;
    const int rc = p->row ? run_rows(s, p, e) : run_own(s, p, e);
    s->now = (struct session_pass){0};
    ctx_enter(callers);
    for (int64_t i = 0; i < p->n && rc && p->fork; i++)
        if (p->fork[i] && rc != ERR_USAGE) seq_empty(p->fork[i]);
    return rc;
}

int session_forward(struct session *s, const int32_t *ids, int64_t n, float *hidden,
                    struct err *e) {
    return session_pass(s, &(struct session_pass){.ids = ids, .n = n, .hidden = hidden}, e);
}

int session_step(struct session *s, const int32_t *ids, int64_t n, float *logits, struct err *e) {
    if (n < 1) return err_set(e, ERR_USAGE, "no tokens given");
    return session_pass(s, &(struct session_pass){.ids = ids, .n = n, .logits = logits}, e);
}

bool session_lost(const struct session *s) {
    return s->be->on_device && cu_lost();
}

bool session_can_hand(const struct session *from, const struct session *to) {
    return from->be->can_hand && from->be == to->be && from != to &&
           from->g->reg_width[from->g->residual] == to->g->reg_width[to->g->residual] &&
           from->be->can_hand(from, to);
}

int session_hand(struct session *from, const struct session_shown *r, struct session *to,
                 int64_t at, struct err *e) {
    if (at < 0 || r->n_rows > to->o.n_ubatch - at || !session_can_hand(from, to))
        return err_set(e, ERR_USAGE,
                       "residual rows can only be handed to a pass on the same device");
    TRY(from->be->hand(from, r->row, r->n_rows, to, at, e));
    to->n_handed = max_i64(to->n_handed, at + r->n_rows);
    return 0;
}

bool session_can_begin(const struct session *s, int block) {
    if (block < 1 || block > s->m->hp.d[HD_LAYERS]) return false;
    return graph_can_begin(s->g, s->g->hidden_nodes[block - 1] + 1, s->all_keys);
}

void session_products(struct session *s, struct dev_product *d) {
    s->products = s->dev || s->o.act != ACT_F32 ? NULL : d;
}

int session_head(struct session *s, const float *hidden, int64_t n, float *logits, struct err *e) {
    struct ctx *callers = enter(s);
    int rc = s->be->head(s, hidden, n, logits, e);
    ctx_enter(callers);
    return rc;
}

const struct session_sums *session_sums(const struct session *s) {
    return s->be->sums ? s->be->sums(s) : NULL;
}

bool session_can_score(const struct session *s, const struct session *base) {
    return s->be->score && (!base || (base->be == s->be && s->be->shares(s, base)));
}

int session_score(struct session *s, struct session *base, int64_t first, int64_t n,
                  const int32_t *target, struct session_score *out, struct err *e) {
    if (first < 0 || n < 1 || n > SESSION_SCORES || first > s->n_tok - n)
        return err_set(e, ERR_USAGE, "only rows of the last pass can be scored");
    struct ctx *callers = enter(s);
    int rc = s->be->score(s, base, first, n, target, out, e);
    ctx_enter(callers);
    return rc;
}

int session_host_new(struct session *s, struct session_host *out, uint64_t n_bytes,
                     const char *what, struct err *e) {
    struct err ignored;
    *out = (struct session_host){0};
    out->pinned = s->be->host_new && !s->be->host_new(s, &out->p, n_bytes, what, &ignored);
    return out->pinned ? 0 : mem_alloc(&out->p, n_bytes, what, e);
}
void session_host_free(struct session *s, struct session_host *h) {
    if (h->pinned)
        s->be->host_free(s, h->p);
    else
        mem_free(h->p);
    *h = (struct session_host){0};
}

/* ---- marks ---- */

int session_mark(struct session *s, struct err *e) {
    if (!s->mark) return seq_fork(&s->mark, s->own, e);
    seq_restore(s->mark, s->own);
    return 0;
}
void session_rewind(struct session *s) {
    seq_restore(s->own, s->mark);
}
