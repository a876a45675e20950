// SPDX-License-Identifier: MIT
/* runtime/measure/speed.c - prompt and generation speed by the usual protocol
 * (docs/design/evaluation.md, section 4), and the machine's read bandwidth as a reference, because
 * each generated token must read every active weight once.
 *
 * Bytes per token: dense weights in full, the share of the experts that is used, one embedding row,
 * the cached keys and values that each layer sees, and the recurrent states, read and written. */
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/progress.h"
#include "base/rng.h"
#include "runtime/measure/eval.h"
#include "runtime/engine/cost.h"
#include "runtime/engine/exec.h"

enum { BW_BYTES = 256 << 20, BW_CHUNK = 1 << 20, BW_PASSES = 4, BW_FORMS = 3, MAX_REPS = 1000 };

struct bw_job {
    const uint64_t *data;
    uint64_t *sum; /* one per chunk, so that the compiler cannot drop the loads */
    /* Number of concurrent read streams; more streams keep more loads in flight. */
    int n_streams;
};
/* Reads chunks i0 to i1 - 1 of a large array, to time main memory. */
static void bw_range(void *ctx, int64_t i0, int64_t i1, int worker) {
    const struct bw_job *j = ctx;
    (void)worker;
    enum { N = BW_CHUNK / 8 };
    const int64_t step = N / j->n_streams;
    for (int64_t i = i0; i < i1; i++) {
        const uint64_t *p = j->data + i * N;
        uint64_t s[8] = {0};
        for (int64_t k = 0; k < step; k += 8)
            for (int t = 0; t < j->n_streams; t++)
                for (int l = 0; l < 8; l++) s[l] += p[t * step + k + l];
        for (int l = 1; l < 8; l++) s[0] += s[l];
        j->sum[i] = s[0];
    }
}

/* Returns the bandwidth of reading memory in GB/s; 0 if there is too little memory to measure
 * it. */
static double measure_bandwidth(struct pool *p) {
    uint64_t avail = buf_available();
    int64_t n_chunks = BW_BYTES / BW_CHUNK;
    if (avail && avail / 4 < (uint64_t)BW_BYTES)
        n_chunks = max_i64(1, (int64_t)(avail / 4 / BW_CHUNK));
    struct err e = {0};
    void *data = NULL;
    if (mem_alloc(&data, (uint64_t)n_chunks * BW_CHUNK, "bandwidth test", &e)) return 0;
    /* Writing makes the system allocate real pages in place of the shared zero page. */
    memset(data, 1, (size_t)n_chunks * BW_CHUNK);
    struct bw_job j = {data, xcalloc((size_t)n_chunks, sizeof(uint64_t)), 1};
    double best = 0;
    for (int i = 0; i < BW_PASSES * BW_FORMS; i++) {
        j.n_streams = 1 << i % BW_FORMS;
        double t = progress_now_s();
        pool_for(p, n_chunks, 1, bw_range, &j);
        t = progress_now_s() - t;
        double gb = (double)n_chunks * BW_CHUNK / t * 1e-9;
        if (t > 0 && gb > best) best = gb;
    }
    free(j.sum);
    mem_free(data);
    return best;
}

/* Returns the read bandwidth in GB/s. All jobs of the process share the first measurement, because
 * the bandwidth belongs to the machine. */
double eval_bandwidth(struct pool *p) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static double known; /* GB/s; 0 until measured */
    pthread_mutex_lock(&lock);
    if (!(known > 0)) known = measure_bandwidth(p);
    const double gb = known;
    pthread_mutex_unlock(&lock);
    return gb;
}

double eval_session_bandwidth(const struct session *s, struct pool *p) {
    const uint64_t device = session_info(s).bandwidth;
    return device ? (double)device * 1e-9 : eval_bandwidth(p);
}

/* Returns how many bytes of a weight are read for each token. */
static double weight_bytes(const struct session *s, const struct gr_use *u) {
    const struct weight *w = model_weight(s->m, u->w);
    if (u->role == USE_ROWS) return (double)w->row_bytes;
    if (!gr_roles[u->role].expert) return (double)w->n_bytes;
    return (double)w->n_bytes * (double)s->g->node[u->node].moe.n_used / (double)w->ne[2];
}

/* Returns the bytes of keys and values that the nodes of an operation read with `depth` tokens in
 * the cache. */
static double cache_bytes(const struct session *s, enum gr_op op, int64_t depth) {
    double sum = 0;
    for (int i = 0; i < graph_count(s->g, op); i++) {
        const struct gr_node *n = graph_nth(s->g, op, i);
        const struct kv_slot *slot = &s->cache.kv.slot[n->slot];
        sum += (double)cost_keys(s->g, n, depth) * (double)slot->n_heads *
               (double)(slot->k_row + slot->v_row);
    }
    return sum;
}

/* Returns how many bytes are read to generate one token with `depth` tokens in the cache. */
static double token_bytes(const struct session *s, int64_t depth) {
    double sum =
        (double)model_weight(s->m, s->g->output)->n_bytes + 2.0 * (double)s->cache.rec.n_bytes;
    for (int i = 0; i < s->g->facts.n_uses; i++) sum += weight_bytes(s, &s->g->facts.use[i]);
    for (int op = 0; op < OP_COUNT; op++)
        if (gr_ops[op].state == STATE_KV) sum += cache_bytes(s, (enum gr_op)op, depth);
    return sum;
}

struct speed_run {
    struct session *s;
    int32_t *ids; /* [n_ids] */
    int64_t n_ids;
    float *logits;
    int64_t pp, tg;
    const struct results_cache_of *keep; /* repetitions of an earlier run */
};

/* Runs the prompt test once and sets *sec to its time in seconds. */
static int rep_pp(const struct speed_run *r, double *sec, struct err *e) {
    double t = progress_now_s();
    TRY(session_step(r->s, r->ids, r->pp, r->logits, e));
    *sec = progress_now_s() - t;
    return 0;
}
/* Generates r->tg tokens one by one and sets *sec to the time in seconds. */
static int rep_tg(const struct speed_run *r, double *sec, struct err *e) {
    double t = progress_now_s();
    struct session_best best; /* fetched for each token, as in `hone run` */
    for (int64_t i = 0; i < r->tg; i++)
        if (session_info(r->s).can_best)
            TRY(session_pass(r->s, &(struct session_pass){.ids = &r->ids[i], .n = 1, .best = &best},
                             e));
        else
            TRY(session_step(r->s, r->ids + i, 1, r->logits, e));
    *sec = progress_now_s() - t;
    return 0;
}

typedef int (*rep_fn)(const struct speed_run *r, double *sec, struct err *e);
/* Returns the cache key of repetition i of a test; the caller frees it. */
static char *which_rep(const char *test, int64_t depth, int i) {
    return xasprintf("seconds %s %" PRId64 " %d", test, depth, i);
}

/* Measures `reps` repetitions, each from the same snapshot: mean and standard deviation of the
 * tokens per second. */
static int measure(const struct speed_run *r, rep_fn fn, int64_t n, int reps,
                   const struct seq *snap, struct eval_speed *o, struct err *e) {
    double sum = 0, sum2 = 0, sec = 0;
    for (int i = 0; i < reps; i++) {
        char *which = which_rep(o->test, o->depth, i);
        int rc = 0;
        if (!results_cache_get(r->keep, which, &sec, sizeof sec)) {
            if (snap)
                seq_restore(session_own_seq(r->s), snap);
            else
                session_reset(r->s);
            rc = fn(r, &sec, e);
            if (!rc) results_cache_put(r->keep, which, &sec, sizeof sec);
        }
        free(which);
        if (rc) return rc;
        double v = sec > 0 ? (double)n / sec : 0;
        sum += v;
        sum2 += v * v;
    }
    o->n_tokens = n;
    o->tok_per_s = sum / reps;
    double var = reps > 1 ? (sum2 - sum * sum / reps) / (reps - 1) : 0;
    o->tok_per_s_stddev = var > 0 ? sqrt(var) : 0;
    return 0;
}

/* Measures prompt and generation speed with `depth` tokens in the cache; appends to out. */
static int measure_at_depth(const struct speed_run *r, int64_t depth, int reps, double bandwidth,
                            struct eval_speed *out, int *n_out, struct err *e) {
    struct seq *snap = NULL;
    int rc = 0;
    session_reset(r->s);
    const int64_t step = r->n_ids;
    for (int64_t i = 0; i < depth && !rc; i += step)
        rc = session_forward(r->s, r->ids, min_i64(depth - i, step), NULL, e);
    if (!rc) rc = seq_fork(&snap, session_own_seq(r->s), e);
    if (!rc && r->pp > 0) {
        struct eval_speed *o = &out[(*n_out)++];
        memset(o, 0, sizeof *o);
        snprintf(o->test, sizeof o->test, "pp%" PRId64, r->pp);
        o->depth = depth;
        rc = measure(r, rep_pp, r->pp, reps, snap, o, e);
    }
    if (!rc && r->tg > 0) {
        struct eval_speed *o = &out[(*n_out)++];
        memset(o, 0, sizeof *o);
        snprintf(o->test, sizeof o->test, "tg%" PRId64, r->tg);
        o->depth = depth;
        rc = measure(r, rep_tg, r->tg, reps, snap, o, e);
        o->bytes_per_token = token_bytes(r->s, depth + r->tg / 2);
        o->gb_per_s = o->bytes_per_token * o->tok_per_s * 1e-9;
        o->share_of_bandwidth = bandwidth > 0 ? o->gb_per_s / bandwidth : 0;
    }
    seq_free(snap);
    return rc;
}

/* Returns ERR_USAGE unless the lengths are valid and fit the context. */
static int check_lengths(const struct session *s, int64_t pp, int64_t tg, const int64_t *depths,
                         int n_depths, int reps, struct err *e) {
    if (pp < 0 || tg < 0 || pp + tg == 0 || reps < 1 || reps > MAX_REPS || n_depths < 1)
        return err_set(e, ERR_USAGE, "nothing to measure: set --pp or --tg, and --reps (1 to %d)",
                       MAX_REPS);
    for (int i = 0; i < n_depths; i++)
        if (depths[i] < 0 || depths[i] > s->o.n_ctx - max_i64(pp, tg))
            return err_set(e, ERR_USAGE,
                           "depth %" PRId64 " and the test do not fit the context of %" PRId64
                           " tokens",
                           depths[i], s->o.n_ctx);
    return 0;
}

int eval_speed(struct session *s, int64_t pp, int64_t tg, const int64_t *depths, int n_depths,
               int reps, double bandwidth_gb_s, const struct results_cache_of *keep,
               struct eval_speed *out, int *n_out, struct err *e) {
    TRY(check_lengths(s, pp, tg, depths, n_depths, reps, e));
    struct speed_run r = {.s = s, .pp = pp, .tg = tg, .keep = keep};
    int64_t n_vocab = s->m->hp.d[HD_VOCAB];
    /* A context is filled in passes of at least n_ubatch tokens. */
    r.n_ids = max_i64(max_i64(pp, tg), s->o.n_ubatch);
    r.ids = xcalloc((size_t)r.n_ids, sizeof *r.ids);
    r.logits = xcalloc((size_t)n_vocab, sizeof *r.logits);
    struct rng rng;
    rng_seed(&rng, 1);
    for (int64_t i = 0; i < r.n_ids; i++) r.ids[i] = (int32_t)(rng_u64(&rng) % (uint64_t)n_vocab);
    *n_out = 0;
    double sec;
    int rc = 0;
    /* Warm-up: loads the pages of the weights, starts the threads and raises the clocks. */
    session_reset(s);
    if (pp > 0) rc = rep_pp(&r, &sec, e);
    /* Repeat until the session has chosen its number of threads. */
    for (bool settled = false; !rc && !settled; settled = session_info(s).settled) {
        session_reset(s);
        rc = session_step(s, r.ids, 1, r.logits, e);
    }
    for (int i = 0; i < n_depths && !rc; i++)
        rc = measure_at_depth(&r, depths[i], reps, bandwidth_gb_s, out, n_out, e);
    free(r.ids);
    free(r.logits);
    return rc;
}
