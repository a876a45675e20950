// SPDX-License-Identifier: MIT
/* tests/unit/test_ctx.c - contexts (base/ctx.h): one job's settings, messages and interruptions do
 * not reach another; thread pools pass on their caller's context; and two models evaluated at the
 * same time in two threads give the same bits as one after the other. `make tsan` runs this too.
 *
 * Threads fill a struct that the main thread checks, because CHECK is for one thread. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "convert/convert.h"
#include "base/ctx.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/ranks.h"
#include "base/writer.h"
#include "quantize/enc/enc.h"
#include "quantize/quantize.h"
#include "runtime/measure/internal.h"
#include "tests/check.h"
#include "tests/unit/tmpdir.h"

/* ---- settings of two contexts ---------------------------------------------------------------- */

enum { N_ROUNDS = 200, N_ITEMS = 64 };

struct told {
    int n_log, n_progress, stop_at;
    char last[64];
};
static void on_log(void *ud, enum log_level level, const char *text) {
    struct told *t = ud;
    (void)level;
    t->n_log++;
    snprintf(t->last, sizeof t->last, "%s", text);
}
static int on_progress(void *ud, const char *stage, uint64_t done, uint64_t total) {
    struct told *t = ud;
    (void)stage, (void)done, (void)total;
    return ++t->n_progress == t->stop_at;
}

/* Checks that messages spell out control characters of the files they quote, and keep UTF-8. */
static void test_messages_are_visible(void) {
    static const char *const text[][2] = {
        {"a \x1b[31mb\r\a", "a ^[[31mb^M^G"},
        {"\xc3\xa4\xe2\x82\xac \xf0\x9f\x99\x82", "\xc3\xa4\xe2\x82\xac \xf0\x9f\x99\x82"},
        {"a\x9b\xc2\x9b", "a\xef\xbf\xbd<U+009B>"},
        {"two\nlines", "two\nlines"},
    };
    struct told told = {0};
    log_set_sink(on_log, &told);
    for (size_t i = 0; i < COUNT_OF(text); i++) {
        log_warn("%s", text[i][0]);
        CHECK_EQ_STR(told.last, text[i][1]);
    }
    log_set_sink(NULL, NULL);
}

struct side {
    const char *name;
    enum log_level level;
    bool untrusted;
    int stop_at;
    uint64_t memory;
    /* found */
    struct told told;
    int n_wrong, n_stopped;
    struct err refused;
};

static void *settings(void *arg) {
    struct side *s = arg;
    struct ctx c;
    struct progress p;
    void *mem;
    ctx_init(&c);
    ctx_enter(&c);
    s->told.stop_at = s->stop_at;
    log_set_level(s->level);
    log_set_sink(on_log, &s->told);
    progress_set_sink(on_progress, &s->told);
    limits_untrusted(s->untrusted);
    mem_limit(s->memory);
    progress_begin(&p, s->name, PROG_ITEMS, N_ROUNDS);
    for (uint64_t i = 0; i < N_ROUNDS; i++) {
        struct err e = {0};
        log_debug("%s", s->name);
        log_error("%s", s->name);
        const struct limit_row *row = limit_row(LIM_GGUF_RECORDS);
        if (limit_of(LIM_GGUF_RECORDS) != (s->untrusted ? row->untrusted : row->most)) s->n_wrong++;
        if (log_get_level() != s->level || ctx_current() != &c || ranks_n() != 1) s->n_wrong++;
        progress_update(&p, i);
        if (progress_interrupted()) s->n_stopped++;
        if (mem_alloc(&mem, 1000, s->name, &e))
            s->refused = e;
        else
            mem_free(mem);
        sched_yield();
    }
    ctx_release(&c);
    return NULL;
}

static void test_settings(void) {
    struct side a = {.name = "left", .level = LOG_ERROR, .untrusted = true, .memory = 900},
                b = {.name = "right", .level = LOG_DEBUG, .stop_at = 7, .memory = 1000};
    pthread_t t;
    CHECK(pthread_create(&t, NULL, settings, &a) == 0);
    struct ctx *mine = ctx_current();
    settings(&b);
    ctx_enter(mine);
    pthread_join(t, NULL);
    CHECK_EQ_I64(a.n_wrong, 0);
    CHECK_EQ_I64(b.n_wrong, 0);
    CHECK_EQ_I64(a.told.n_log, N_ROUNDS);
    CHECK_EQ_I64(b.told.n_log, 2 * N_ROUNDS);
    CHECK_EQ_STR(a.told.last, "left");
    CHECK_EQ_STR(b.told.last, "right");
    CHECK_EQ_I64(a.n_stopped, 0); /* only the right one was interrupted, at its 7th step */
    CHECK_EQ_I64(b.n_stopped, N_ROUNDS - 6);
    CHECK(a.refused.code == ERR_SYS && strstr(a.refused.msg, "--max-memory leaves 900"));
    CHECK(b.refused.code == ERR_OK);
    CHECK(!progress_interrupted() && ctx_current() == ctx_process());
}

/* Checks that a buffer may outlive the job whose limit it counts towards, and counts until it is
 * freed. */
static void test_budget(void) {
    struct ctx c;
    struct err e = {0};
    void *one, *two;
    ctx_init(&c);
    struct ctx *mine = ctx_enter(&c);
    mem_limit(100);
    CHECK_OK(mem_alloc(&one, 60, "one", &e));
    CHECK_ERR(mem_alloc(&two, 60, "two", &e), ERR_SYS, "leaves 40");
    ctx_enter(mine);
    CHECK_OK(mem_alloc(&two, 60, "two, of nobody's limit", &e));
    mem_free(two);
    ctx_enter(&c);
    mem_free(one);
    CHECK_OK(mem_alloc(&one, 100, "all of it", &e));
    ctx_release(&c);
    ctx_enter(mine);
    mem_free(one);
}

/* ---- teams ----------------------------------------------------------------------------------- */

struct work {
    struct pool *pool;
    struct ctx *ctx;
    int64_t sum[N_ITEMS];
    atomic_int n_lost; /* chunks that ran for another caller */
    atomic_int busy[8];
};
static void add(void *ud, int64_t begin, int64_t end, int worker) {
    struct work *w = ud;
    if (ctx_current() != w->ctx || atomic_exchange(&w->busy[worker], 1))
        atomic_fetch_add(&w->n_lost, 1);
    for (int64_t i = begin; i < end; i++) w->sum[i] += i;
    atomic_store(&w->busy[worker], 0);
}
static void *work(void *arg) {
    struct work *w = arg;
    struct ctx c;
    ctx_init(&c);
    ctx_enter(&c);
    w->ctx = &c;
    for (int i = 0; i < N_ROUNDS; i++) pool_for(w->pool, N_ITEMS, 1, add, w);
    ctx_release(&c);
    return NULL;
}

/* Tests two threads with a pool each, then with a shared pool. */
static void test_two_callers(void) {
    struct err e = {0};
    for (int shared = 0; shared < 2; shared++) {
        struct work w[2] = {0};
        pthread_t t[2];
        for (int i = 0; i < 2; i++) {
            if (i && shared)
                w[i].pool = w[0].pool;
            else
                CHECK_OK(pool_new(&w[i].pool, 3, &e));
        }
        for (int i = 0; i < 2; i++) CHECK(pthread_create(&t[i], NULL, work, &w[i]) == 0);
        for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
        for (int i = 0; i < 2; i++) {
            CHECK_EQ_I64(atomic_load(&w[i].n_lost), 0);
            for (int64_t k = 0; k < N_ITEMS; k++) CHECK_EQ_I64(w[i].sum[k], k * N_ROUNDS);
            if (!i || !shared) pool_free(w[i].pool);
        }
    }
}

struct nest {
    struct pool *pool;
    atomic_int hits[8][N_ITEMS];
    atomic_int wrong;
    int outer_worker[8];
};
struct inner {
    struct nest *n;
    int64_t row;
};
static void inner(void *ud, int64_t begin, int64_t end, int worker) {
    struct inner *x = ud;
    if (worker != x->n->outer_worker[x->row]) atomic_fetch_add(&x->n->wrong, 1);
    for (int64_t i = begin; i < end; i++) atomic_fetch_add(&x->n->hits[x->row][i], 1);
}
static void outer(void *ud, int64_t begin, int64_t end, int worker) {
    struct nest *n = ud;
    for (int64_t i = begin; i < end; i++) {
        struct inner x = {n, i};
        n->outer_worker[i] = worker;
        pool_for(n->pool, N_ITEMS, 1, inner, &x);
    }
}

/* Checks that a nested job runs in the worker that starts it and does not wait for itself. */
static void test_job_in_a_job(void) {
    struct err e = {0};
    static struct nest n;
    CHECK_OK(pool_new(&n.pool, 3, &e));
    for (int round = 0; round < 20; round++) pool_for(n.pool, 8, 1, outer, &n);
    CHECK_EQ_I64(atomic_load(&n.wrong), 0);
    for (int i = 0; i < 8; i++)
        for (int k = 0; k < N_ITEMS; k++) CHECK_EQ_I64(atomic_load(&n.hits[i][k]), 20);
    pool_free(n.pool);
}

static int note_context(void *ud, int64_t tag, const uint8_t *p, uint64_t n, struct err *e) {
    _Atomic(struct ctx *) *seen = ud;
    (void)tag, (void)p, (void)n, (void)e;
    atomic_store(seen, ctx_current());
    return 0;
}
static void test_writer(void) {
    struct err e = {0};
    struct writer *w;
    struct ctx c;
    uint8_t *p;
    _Atomic(struct ctx *) seen = NULL;
    ctx_init(&c);
    struct ctx *mine = ctx_enter(&c);
    CHECK_OK(writer_new(&w, &e));
    ctx_enter(mine);
    CHECK_OK(writer_buffer(w, 8, &p, &e));
    writer_put(w, 8, note_context, &seen, 0);
    CHECK_OK(writer_flush(w, &e));
    CHECK(atomic_load(&seen) == &c);
    writer_free(w);
    ctx_release(&c);
}

/* ---- two models at the same time ------------------------------------------------------------- */

enum { CTX = 32, N_IDS = 320 };
static const char *const folders[2] = {"qwen35moe", "qwen3"};

struct measured {
    const char *base, *cand; /* files */
    bool q8;
    struct ids ids;
    int n_threads;
    /* found */
    int rc;
    struct err e;
    struct told told;
    struct eval_ppl ppl;
    double *window;
    struct eval_kld kld;
    float *per_token;
};

static int evaluate_in(struct measured *m, struct ctx *c) {
    struct model *base = NULL, *cand = NULL;
    struct session *s[2] = {NULL, NULL};
    int rc;
    TRY_GOTO(out, rc, ctx_team(c, m->n_threads, &m->e));
    TRY_GOTO(out, rc, model_open(&base, m->base, &m->e));
    TRY_GOTO(out, rc, model_open(&cand, m->cand, &m->e));
    struct session_opts o = {.n_ctx = CTX,
                             .isa = kern_isa_best(),
                             .act = m->q8 ? ACT_Q8 : ACT_F32,
                             .pool = c->pool,
                             .pack = true,
                             .ctx = c};
    TRY_GOTO(out, rc, session_new(&s[0], base, &o, &m->e));
    TRY_GOTO(out, rc, session_new(&s[1], cand, &o, &m->e));
    TRY_GOTO(out, rc, eval_ppl_windows(s[1], &m->ids, CTX, 0, NULL, &m->ppl, &m->window, &m->e));
    TRY_GOTO(out, rc, eval_kld(s[0], &s[1], 1, &m->ids, CTX, 0, &m->kld, &m->per_token, &m->e));
out:
    for (int i = 0; i < 2; i++) session_free(s[i]);
    model_close(cand);
    model_close(base);
    return rc;
}
static void *evaluate(void *arg) {
    struct measured *m = arg;
    struct ctx c;
    ctx_init(&c);
    struct ctx *mine = ctx_enter(&c);
    log_set_sink(on_log, &m->told);
    progress_set_sink(on_progress, &m->told);
    m->rc = evaluate_in(m, &c);
    ctx_release(&c);
    ctx_enter(mine);
    return NULL;
}
static void release(struct measured *m) {
    free(m->window);
    free(m->per_token);
    m->window = NULL;
    m->per_token = NULL;
    m->told = (struct told){0};
}

/* Compares everything except speeds, bit for bit. */
static void check_same(struct measured *a, struct measured *b) {
    CHECK_EQ_I64(a->rc, 0);
    if (b->rc) CHECK_FAIL("%s: %s", b->base, b->e.msg);
    if (a->rc || b->rc) return;
    a->ppl.tok_per_s = b->ppl.tok_per_s = a->kld.tok_per_s = b->kld.tok_per_s = 0;
    CHECK(memcmp(&a->ppl, &b->ppl, sizeof a->ppl) == 0);
    CHECK(memcmp(&a->kld, &b->kld, sizeof a->kld) == 0);
    CHECK(memcmp(a->window, b->window, (size_t)a->ppl.n_chunks * sizeof *a->window) == 0);
    CHECK(memcmp(a->per_token, b->per_token, (size_t)a->kld.n_tokens * sizeof *a->per_token) == 0);
    CHECK(a->kld.mean_kld > 0 && a->ppl.n_chunks == N_IDS / CTX);
    CHECK_EQ_I64(b->told.n_progress, a->told.n_progress);
}

static char *files[2][2];
static void make_files(void) {
    struct err e = {0};
    for (int i = 0; i < 2; i++) {
        char name[64], src[64];
        struct convert_report cr;
        struct quantize_report qr;
        for (int k = 0; k < 2; k++) {
            snprintf(name, sizeof name, "%s-%d.gguf", folders[i], k);
            files[i][k] = xstrdup(tmp_path(name));
        }
        snprintf(src, sizeof src, "tests/golden/models/%s", folders[i]);
        struct convert_opts o = {.src = src, .out = files[i][0], .type = "f16"};
        struct quantize_opts q = {
            .in = files[i][0], .out = files[i][1], .recipe = i ? "IQ4_NL" : "Q4_K_M"};
        CHECK_OK(convert_run(&o, &cr, &e));
        CHECK_OK(quantize_run(&q, &qr, &e));
        quantize_report_release(&qr);
    }
}
static void fill_in(struct measured m[2], bool q8) {
    for (int i = 0; i < 2; i++) {
        m[i] = (struct measured){
            .base = files[i][0], .cand = files[i][1], .q8 = q8, .n_threads = 2 + i};
        for (int k = 0; k < N_IDS; k++) ids_add(&m[i].ids, (k * 7919 + i * 31 + k * k % 13) % 900);
    }
}

static void test_two_models(void) {
    make_files();
    for (int q8 = 0; q8 < 2; q8++) {
        struct measured alone[2], both[2];
        pthread_t t[2];
        fill_in(alone, q8);
        fill_in(both, q8);
        for (int i = 0; i < 2; i++) evaluate(&alone[i]);
        for (int i = 0; i < 2; i++) CHECK(pthread_create(&t[i], NULL, evaluate, &both[i]) == 0);
        for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
        for (int i = 0; i < 2; i++) {
            check_same(&alone[i], &both[i]);
            release(&alone[i]);
            release(&both[i]);
            ids_release(&alone[i].ids);
            ids_release(&both[i].ids);
        }
    }
}

/* Interrupts one of two jobs halfway; the other must give the same bits as alone. */
static void test_one_is_interrupted(void) {
    struct measured alone[2], m[2];
    pthread_t t;
    fill_in(alone, false);
    fill_in(m, false);
    evaluate(&alone[0]);
    m[1].told.stop_at = 2;
    CHECK(pthread_create(&t, NULL, evaluate, &m[1]) == 0);
    evaluate(&m[0]);
    pthread_join(t, NULL);
    CHECK_EQ_I64(m[1].rc, ERR_INTR);
    check_same(&alone[0], &m[0]);
    for (int i = 0; i < 2; i++) {
        release(&alone[i]);
        release(&m[i]);
        ids_release(&alone[i].ids);
        ids_release(&m[i].ids);
    }
}

/* Checks that a session uses its own context, whichever thread feeds it. */
static void test_session_keeps_its_context(void) {
    struct err e = {0};
    struct model *m;
    struct session *s = NULL;
    struct ctx c;
    const int32_t ids[4] = {1, 2, 3, 4};
    ctx_init(&c);
    CHECK_OK(model_open(&m, files[1][0], &e));
    struct session_opts o = {.n_ctx = 16, .ctx = &c};
    CHECK_OK(session_new(&s, m, &o, &e));
    progress_interrupt(); /* of this thread's context, which is not the session's */
    CHECK_OK(session_forward(s, ids, 4, NULL, &e));
    progress_resume();
    ctx_interrupt(&c);
    CHECK_ERR(session_forward(s, ids, 4, NULL, &e), ERR_INTR, "interrupted");
    session_free(s);
    model_close(m);
    ctx_release(&c);
}

/* Interrupts at the residual of block 0; counts the blocks that are shown. */
struct stopper {
    struct ctx *c;
    int shown;
};
static void stop_at_block(void *ud, const struct session_shown *r) {
    struct stopper *s = ud;
    s->shown++;
    if (r->block == 0) ctx_interrupt(s->c);
}

/* A pass of many tokens ends between two blocks. */
static void test_a_pass_is_interrupted(void) {
    struct err e = {0};
    struct model *m;
    struct session *s = NULL;
    struct ctx c;
    int32_t ids[64];
    for (int i = 0; i < 64; i++) ids[i] = i + 1;
    ctx_init(&c);
    CHECK_OK(model_open(&m, files[1][0], &e));
    for (int whole = 0; whole < 2; whole++) {
        struct session_opts o = {.n_ctx = 64, .ctx = &c, .whole = whole};
        struct stopper stop = {.c = &c};
        CHECK_OK(session_new(&s, m, &o, &e));
        session_observe(s, &(struct session_probe){.ud = &stop, .residual = stop_at_block});
        const int rc = session_forward(s, ids, 64, NULL, &e);
        CHECK_EQ_I64(rc, whole ? 0 : ERR_INTR);
        CHECK_EQ_I64(stop.shown, whole ? m->hp.d[HD_LAYERS] + 1 : 2); /* the embeddings first */
        session_free(s);
        struct ctx *before = ctx_enter(&c);
        progress_resume();
        ctx_enter(before);
    }
    model_close(m);
    ctx_release(&c);
}

/* ---- two encoders with different instruction sets -------------------------------------------- */

struct encoding {
    enum kern_isa isa;
    float x[256];
    uint8_t out[64][1024]; /* a row per type */
    int n_bytes[64];
};
static void *encode(void *arg) {
    struct encoding *r = arg;
    struct ctx c;
    ctx_init(&c);
    ctx_enter(&c);
    enc_use(r->isa);
    for (int t = 0; t < QT_COUNT && t < 64; t++) {
        const struct enc *enc = enc_find((enum qtype)t);
        if (!enc) continue;
        r->n_bytes[t] = (int)qtype_row_bytes((enum qtype)t, 256);
        enc->row(r->x, NULL, 256, r->out[t], SEARCH_FAST);
    }
    ctx_release(&c);
    return NULL;
}
static void test_two_encoders(void) {
    static struct encoding a = {.isa = KERN_REF}, b;
    pthread_t t;
    b.isa = kern_isa_best();
    for (int i = 0; i < 256; i++) a.x[i] = b.x[i] = sinf((float)i) * (float)(i % 7);
    CHECK(pthread_create(&t, NULL, encode, &a) == 0);
    encode(&b);
    ctx_enter(ctx_process());
    pthread_join(t, NULL);
    int n = 0;
    for (int k = 0; k < 64; k++) {
        n += a.n_bytes[k] > 0;
        CHECK(memcmp(a.out[k], b.out[k], sizeof a.out[k]) == 0);
    }
    CHECK(n > 20);
}

int main(void) {
    tmp_make();
    RUN(test_messages_are_visible);
    RUN(test_settings);
    RUN(test_budget);
    RUN(test_two_callers);
    RUN(test_job_in_a_job);
    RUN(test_writer);
    RUN(test_two_models);
    RUN(test_one_is_interrupted);
    RUN(test_a_pass_is_interrupted);
    RUN(test_session_keeps_its_context);
    RUN(test_two_encoders);
    for (int i = 0; i < 4; i++) free(files[i / 2][i % 2]);
    tmp_remove();
    return check_done();
}
