// SPDX-License-Identifier: MIT
/* tests/unit/test_cuda_stream.c - ordering between streams, and experts that passes of many tokens
 * fetch from main memory: results are bit-identical to those with the experts on the device. `make
 * test`: the emulated device; `make check-cuda`: the real one. */
#include <signal.h>
#include <sys/wait.h>

#include "base/log.h"
#include "base/map.h"
#include "runtime/engine/cuda/exec.h"
#include "tests/cuda-emu/control.h"
#include "tests/unit/synthetic.h"
#include "tests/unit/with.h"

static void lag(unsigned streams) {
    if (emu_defer) emu_defer(streams);
}

/* Uploads bytes through two small pinned chunks, whichever stream lags and however the source is
 * reused. */
static void test_feed(void) {
    enum { MOST = 1000 };
    struct err e = {0};
    struct cu_ctx *c = NULL;
    struct cu_stream *q = NULL;
    struct cu_buf *b = NULL;
    struct cuda_feed f = {0};
    uint8_t src[MOST], was[MOST], got[MOST];
    struct rng r;
    rng_seed(&r, 13);
    cuda_feed_close(&f);
    CHECK_OK(cu_open(&c, 0, &e));
    if (!c) return;
    CHECK_OK(cu_stream_new(&q, c, &e));
    CHECK_OK(cu_buf_new(&b, c, MOST, "bytes", &e));
    CHECK_OK(cuda_feed_open(&f, c, 64, &e));
    for (int turn = 0; turn < 60; turn++) {
        const size_t n = rng_u64(&r) % MOST, at = rng_u64(&r) % (MOST - n);
        for (size_t i = 0; i < n; i++) src[i] = was[i] = (uint8_t)rng_u64(&r);
        lag((unsigned)turn & 1);
        CHECK_OK(cuda_feed_put(&f, q, NULL, (uint8_t *)cu_buf_ptr(b) + at, src, n, &e));
        memset(src, 0, n);
        CHECK_OK(cu_download(q, got, (uint8_t *)cu_buf_ptr(b) + at, n, &e));
        CHECK_OK(cu_sync(q, &e));
        CHECK(n == 0 || memcmp(got, was, n) == 0);
    }
    lag(0);
    cuda_feed_close(&f);
    cu_buf_free(b);
    cu_stream_free(q);
    cu_close(c);
}

/* Copies one stream's output on the other stream, whichever of them lags. */
static void test_events(void) {
    enum { N = 4096 };
    struct err e = {0};
    struct cu_ctx *c = NULL;
    struct cu_stream *q[2] = {NULL, NULL};
    struct cu_buf *b[2] = {NULL, NULL};
    struct cu_event *made = NULL, *taken = NULL;
    void *pinned = NULL;
    uint8_t got[N];
    CHECK_OK(cu_open(&c, 0, &e));
    if (!c) return;
    for (int i = 0; i < 2; i++) {
        CHECK_OK(cu_stream_new(&q[i], c, &e));
        CHECK_OK(cu_buf_new(&b[i], c, N, "bytes", &e));
    }
    CHECK_OK(cu_event_new(&made, c, &e));
    CHECK_OK(cu_event_new(&taken, c, &e));
    CHECK_OK(cu_host_new(&pinned, c, N, "bytes", &e));
    for (unsigned lags = 0; lags < (emu_defer ? 4 : 1); lags++) {
        lag(lags);
        for (int turn = 0; turn < 3; turn++) {
            CHECK_OK(cu_event_sync(taken, &e)); /* never recorded, so it counts as past */
            memset(pinned, 10 * turn + 1, N);
            CHECK_OK(cu_event_wait(taken, q[0], &e));
            CHECK_OK(cu_upload(q[0], cu_buf_ptr(b[0]), pinned, N, &e));
            CHECK_OK(cu_event_record(made, q[0], &e));
            CHECK_OK(cu_event_wait(made, q[1], &e));
            CHECK_OK(cu_copy(q[1], cu_buf_ptr(b[1]), cu_buf_ptr(b[0]), N, &e));
            CHECK_OK(cu_event_record(taken, q[1], &e));
            CHECK_OK(cu_event_wait(taken, q[0], &e));
            CHECK_OK(cu_fill(q[0], cu_buf_ptr(b[0]), 0, N, &e));
            CHECK_OK(cu_download(q[1], got, cu_buf_ptr(b[1]), N, &e));
            CHECK_OK(cu_sync(q[1], &e));
            CHECK_EQ_I64(got[0], 10 * turn + 1);
            CHECK_EQ_I64(got[N - 1], 10 * turn + 1);
        }
    }
    lag(0);
    cu_event_free(made);
    cu_event_free(taken);
    cu_event_free(NULL);
    cu_host_free(c, pinned);
    for (int i = 0; i < 2; i++) {
        cu_buf_free(b[i]);
        cu_stream_free(q[i]);
    }
    cu_close(c);
}

/* Checks that delayed operations have not happened yet, so the emulation reveals missing waits. */
static void test_missing_wait(void) {
    struct err e = {0};
    struct cu_ctx *c = NULL;
    struct cu_stream *q = NULL;
    struct cu_buf *b = NULL;
    uint8_t got = 1;
    if (!emu_defer) return;
    CHECK_OK(cu_open(&c, 0, &e));
    CHECK_OK(cu_stream_new(&q, c, &e));
    CHECK_OK(cu_buf_new(&b, c, 1, "a byte", &e));
    emu_defer(1);
    CHECK_OK(cu_fill(q, cu_buf_ptr(b), 7, 1, &e));
    CHECK_OK(cu_download(q, &got, cu_buf_ptr(b), 1, &e));
    CHECK_EQ_I64(got, 1);
    CHECK_OK(cu_sync(q, &e));
    CHECK_EQ_I64(got, 7);
    emu_defer(0);
    cu_buf_free(b);
    cu_stream_free(q);
    cu_close(c);
}

/* ---- experts ---- */

/* Returns whether to use the recorded models. Under the emulation a token of these takes 0.1 s, and
 * four times as long with a sanitizer, so they run with HONE_LONG=1 and on devices; `make test`
 * uses a smaller model. */
static bool thorough(void) {
    return !emu_shuffle || getenv("HONE_LONG");
}

static int n_moe(const struct model *m) {
    int n = 0;
    for (int i = 0; i < m->graph.n_nodes; i++) n += m->graph.node[i].op == OP_MOE;
    return n;
}
static struct session_opts opts(enum act_mode act, int64_t from) {
    return (struct session_opts){.n_ctx = 32,
                                 .isa = kern_isa_best(),
                                 .act = act,
                                 .pack = true,
                                 .device = {.kind = DEVICE_CUDA, .stream_from = from}};
}
/* Computes hidden rows in passes of n tokens, from the start. */
static float *rows(struct session *s, const int *passes) {
    struct err e = {0};
    const int64_t d = s->m->hp.d[HD_EMBD];
    float *h = xcalloc((size_t)(s->o.n_ctx * d), sizeof *h);
    session_reset(s);
    for (int64_t at = 0; *passes; at += *passes++) {
        int32_t ids[32];
        for (int i = 0; i < *passes; i++) ids[i] = (int32_t)(((at + i) * 7919 + 13) % 250);
        CHECK_OK(session_forward(s, ids, *passes, h + at * d, &e));
    }
    return h;
}

/* Opens a session with the experts of n blocks in main memory: lowers the limit until that number
 * is left out. NULL: no limit gives n. */
static struct session *with_host(struct model *m, struct session_opts o, int n, uint64_t *limit) {
    struct err e = {0};
    for (bool more = true; more; *limit -= *limit / 50) {
        struct session *s = NULL;
        o.device.max_bytes = *limit;
        if (session_new(&s, m, &o, &e)) return NULL;
        const struct cuda *d = exec_cuda_head(s);
        CHECK(!counts_bytes() || in_use(s) <= *limit);
        if (d->all->n_on_host == n) return s;
        more = d->all->n_on_host < n;
        session_free(s);
    }
    return NULL;
}

/* Compares passes with copied experts, whichever stream lags, and one with experts computed by the
 * CPU, whose rows differ by rounding. Both begin with the same pass. */
static void check_rows(struct session *s, const int *many, const float *want, const int *mixed,
                       const float *want_mixed, bool lags) {
    static const unsigned late[] = {0, 1, 6};
    const struct cuda *d = exec_cuda_head(s);
    const int64_t n = s->o.n_ctx * s->m->hp.d[HD_EMBD];
    for (int i = 0; i < (lags && emu_defer ? 3 : 1); i++) {
        const unsigned before = d->in.turn;
        lag(late[i]);
        const uint64_t taken = in_use(s);
        float *h = rows(s, many);
        CHECK(d->in.turn > before);
        CHECK(!counts_bytes() || in_use(s) == taken); /* no unplanned memory */
        if (memcmp(h, want, (size_t)n * sizeof *h) != 0)
            CHECK_FAIL("%d blocks, streams %#x late: off by %g", d->all->n_on_host, late[i],
                       golden_diff(h, want, n));
        free(h);
    }
    lag(0);
    CHECK(!d->all->host_open && !s->packed); /* no pass has needed the CPU's copy */
    float *h = rows(s, mixed);
    CHECK(d->all->host_open);
    CHECK(memcmp(h, want, (size_t)(mixed[0] * s->m->hp.d[HD_EMBD]) * sizeof *h) == 0);
    CHECK(!want_mixed || golden_diff(h, want_mixed, n) <= 5e-4);
    free(h);
}

/* Tests every number of blocks that a limit can produce. */
static void same(struct model *m, enum act_mode act, const char *name) {
    static const int few[3][4] = {{2, 2, 0}, {2, 1, 0}}, fast[3][4] = {{9, 0}, {9, 1, 0}};
    const int(*passes)[4] = act == ACT_F32 ? few : fast;
    struct session_opts o = opts(act, act == ACT_F32 ? 2 : 9);
    struct err e = {0};
    struct session *s = NULL;
    int n_tried = 0;
    if (!m) return;
    CHECK_OK(session_new(&s, m, &o, &e));
    if (!s) return;
    float *want[2] = {rows(s, passes[0]), act == ACT_F32 ? rows(s, passes[1]) : NULL};
    uint64_t limit = session_bytes(s); /* scratch may reuse the memory of the wgmma trial */
    session_free(s);
    for (int n = 2; n <= n_moe(m); n++) {
        if (!thorough() && n < n_moe(m)) continue;
        s = with_host(m, o, n, &limit);
        if (!s) continue;
        n_tried++;
        check_rows(s, passes[0], want[0], passes[1], want[1], n == n_moe(m));
        session_free(s);
    }
    printf("%s, %s: %d numbers of %d blocks\n", name, act ? "q8" : "f32", n_tried, n_moe(m));
    CHECK(n_tried >= (thorough() ? n_moe(m) - 1 : 1));
    for (int i = 0; i < 2; i++) free(want[i]);
}

static void test_same(void) {
    struct model *m = synthetic("Q8_0", 64, 32, 3);
    same(m, ACT_F32, "Q8_0");
    model_close(m);
}
/* Tests layers on two devices, each of which copies the experts of its own layers. */
static void test_split(void) {
    static const int many[] = {2, 0};
    struct model *m = synthetic("Q8_0", 64, 32, 3);
    struct session_opts o = opts(ACT_F32, 2);
    struct placement map = {.experts = {PLACE_CPU, PLACE_CPU, PLACE_CPU},
                            .layer = {0, 0, 1}}; /* there are no other blocks */
    struct session *s = NULL;
    struct err e = {0};
    if (!m || !emu_devices) return;
    CHECK_OK(session_new(&s, m, &o, &e));
    if (!s) return;
    float *want = rows(s, many);
    session_free(s);
    emu_devices(2, NULL);
    o.device.n_more = 1;
    o.device.more[0] = 1;
    o.device.place = &map;
    CHECK_OK(session_new(&s, m, &o, &e));
    if (s) {
        const struct cuda_set *all = exec_cuda_all(s);
        CHECK_EQ_I64(all->n, 2);
        float *got = rows(s, many);
        for (int i = 0; i < all->n; i++) CHECK(all->part[i]->in.turn > 0);
        CHECK(!all->host_open);
        CHECK(memcmp(got, want, (size_t)(2 * m->hp.d[HD_EMBD]) * sizeof *got) == 0);
        free(got);
    }
    session_free(s);
    model_close(m);
    free(want);
    emu_devices(1, NULL);
}
/* Tests packed gate and up with down in file order, then all of them packed, with two types. */
static void test_packed(void) {
    struct model *m = synthetic("Q8_0", 256, 32, 2);
    same(m, ACT_Q8, "Q8_0, 32 values inside");
    model_close(m);
    if (!thorough()) return;
    m = synthetic("Q8_0", 256, 24, 2); /* groups of 16 rows end within a matrix */
    same(m, ACT_Q8, "Q8_0, 24 values inside");
    model_close(m);
    m = synthetic("IQ2_XXS", 256, 256, 3); /* no expert is packed */
    same(m, ACT_Q8, "IQ2_XXS");
    model_close(m);
    m = synthetic("Q4_K_M", 256, 256, 5);
    same(m, ACT_F32, "Q4_K_M");
    same(m, ACT_Q8, "Q4_K_M");
    model_close(m);
}
/* Checks that experts computed by the CPU use an existing pack cache, with the same results;
 * sessions on a device do not create one. */
static void test_cache(void) {
    static const int passes[] = {1, 1, 0};
    struct err e = {0};
    struct model *m = synthetic("Q8_0", 256, 32, 2), *again[2] = {NULL, NULL};
    struct session *s = NULL;
    struct session_opts o = opts(ACT_Q8, -1);
    float *h[2] = {NULL, NULL};
    o.n_ctx = 2;
    o.pack_cache = tmp_path("cache");
    if (!m || kern_isa_best() == KERN_REF) return;
    for (int k = 0; k < 2; k++) { /* without, with */
        CHECK_OK(model_open(&again[k], gguf_path(m->gguf), &e));
        CHECK_OK(session_new(&s, again[k], &o, &e));
        uint64_t limit = session_bytes(s);
        session_free(s);
        s = with_host(again[k], o, 2, &limit);
        CHECK(s != NULL);
        if (!s) return;
        h[k] = rows(s, passes);
        CHECK((model_packed_bytes(again[k], true) > 0) == (k == 1));
        CHECK((model_packed_bytes(again[k], false) > 0) == (k == 0));
        session_free(s);
        model_close(again[k]);
        if (k) continue;
        o.device = (struct device){.kind = DEVICE_CPU}; /* the CPU makes it */
        CHECK_OK(session_new(&s, m, &o, &e));
        session_free(s);
        o.device = opts(ACT_Q8, -1).device;
    }
    CHECK(memcmp(h[0], h[1], 2 * 256 * sizeof(float)) == 0);
    for (int k = 0; k < 2; k++) free(h[k]);
    model_close(m);
}

/* Calls of an observer during a pass, in order. */
struct shown {
    double sum[64];
    int64_t rows[64];
    uint64_t routes;
};
static void see(void *ud, const struct session_shown *s) {
    struct shown *c = ud;
    const size_t i = (size_t)s->w->name[4] % 8 * 8 + strlen(s->w->name) % 8; /* of a few blocks */
    c->rows[i] += s->n_rows;
    for (int64_t k = 0; k < s->n_rows * s->ld; k++)
        c->sum[i] += (double)s->x[k] * (double)(s->expert + k % 7);
}
static void see_route(void *ud, const struct session_shown *s) {
    struct shown *c = ud;
    for (int64_t i = 0; i < s->n_used * s->n_rows; i++)
        c->routes = c->routes * 31 + (uint64_t)(s->chosen[i] + s->block + s->pos);
}
static const char up_name[] = "blk.2.ffn_up_exps.weight";

/* Checks that observers receive the same rows, that replaced weights are also copied, and that
 * larger ones are computed by the CPU. */
static void test_observed_and_replaced(void) {
    static const int passes[] = {2, 0};
    struct err e = {0};
    struct model *m = synthetic("Q8_0", 64, 32, 3), *other[2][3] = {{NULL}};
    struct session *s[2] = {NULL, NULL};
    struct session_opts o = opts(ACT_F32, 2);
    if (!m) return;
    o.pack = false;
    other[0][0] = m;
    CHECK_OK(model_open(&other[1][0], gguf_path(m->gguf), &e)); /* shares nothing with the first */
    CHECK_OK(session_new(&s[0], m, &o, &e));
    uint64_t limit = s[0] ? in_use(s[0]) : 0;
    s[1] = with_host(other[1][0], o, 3, &limit);
    CHECK(s[1] != NULL);
    int w[2] = {-1, -1}; /* up of the last block, of the first */
    for (int i = 0; i < m->graph.n_weights; i++) {
        const char *name = m->graph.weight[i].name;
        if (strcmp(name + 5, up_name + 5) == 0 && name[4] != '1') w[name[4] == '0'] = i;
    }
    const int64_t n = 5 * 32 * 64;
    float *large = xcalloc((size_t)n, sizeof *large);
    for (int64_t i = 0; i < n; i++) large[i] = (float)(i % 17) * 0.01f - 0.08f;
    for (int i = 0; i < 2; i++) {
        void *first = (void *)(uintptr_t)model_weight(other[i][0], w[1])->data;
        other[i][1] = with_weight(other[i][0], up_name, first, QT_Q8_0, NULL);
        other[i][2] = with_weight(other[i][0], up_name, large, QT_F32, NULL);
    }
    for (int k = 0; k < 3 && s[1]; k++) {
        struct shown seen[2] = {0};
        float *h[2];
        const struct cuda *d = exec_cuda_head(s[1]);
        const unsigned before = d->in.turn;
        for (int i = 0; i < 2; i++) {
            CHECK_OK(session_use(s[i], other[i][k], &e));
            session_observe(s[i], &(struct session_probe){.ud = &seen[i],
                                                          .product = k ? NULL : see,
                                                          .route = see_route});
            h[i] = rows(s[i], passes);
        }
        CHECK(seen[0].routes && memcmp(&seen[0], &seen[1], sizeof seen[0]) == 0);
        const int64_t all = o.n_ctx * m->hp.d[HD_EMBD];
        CHECK(golden_diff(h[0], h[1], all) <= (k == 2 ? 5e-4 : 0));
        CHECK_EQ_I64(d->in.turn - before, k == 2 ? 2 * 14 : 3 * 14);
        for (int i = 0; i < 2; i++) free(h[i]);
    }
    for (int i = 0; i < 2; i++) session_free(s[i]);
    for (int i = 0; i < 2; i++)
        for (int k = 2; k >= 0; k--) model_close(other[i][k]);
    free(large);
}

struct chosen {
    int n_on_host;
    int64_t from;
};
static struct chosen chosen(const struct model *m, uint64_t limit, int64_t from, int64_t n_ubatch) {
    struct err e = {0};
    struct session *s = NULL;
    struct session_opts o = opts(ACT_F32, from);
    o.n_ctx = o.n_ubatch = n_ubatch;
    o.device.max_bytes = limit;
    CHECK_OK(session_new(&s, m, &o, &e));
    if (!s) return (struct chosen){-1, 0};
    const struct cuda *d = exec_cuda_head(s);
    const struct chosen c = {d->all->n_on_host, d->in.from};
    CHECK(!counts_bytes() || in_use(s) <= limit);
    CHECK_EQ_I64(session_info(s).offload_blocks, c.n_on_host);
    CHECK_EQ_I64(session_info(s).stream_from, c.from);
    CHECK((session_info(s).offload_bytes > 0) == (c.n_on_host > 0));
    session_free(s);
    return c;
}

/* Checks that room for copies is reserved on request or if it displaces only a few more blocks, and
 * that a session never exceeds the limit. */
static void test_choice(void) {
    enum { LAYERS = 8 };
    struct err e = {0};
    struct model *m = synthetic("Q8_0", 64, 32, LAYERS);
    struct session *s = NULL;
    struct session_opts o = opts(ACT_F32, -1);
    o.n_ctx = o.n_ubatch = 128;
    if (!m) return;
    CHECK_OK(session_new(&s, m, &o, &e));
    uint64_t limit = s ? in_use(s) : 0, block = 0;
    session_free(s);
    for (int i = 0; i < m->graph.n_weights; i++)
        if (strstr(m->graph.weight[i].name, "blk.0.") && strstr(m->graph.weight[i].name, "_exps"))
            block += model_weight(m, i)->n_bytes;
    int n_without = 0, n_with = 0;
    CHECK_EQ_I64(chosen(m, limit, 5, 128).n_on_host, 0);
    for (int n = 1; n <= LAYERS; n++) {
        limit -= block;
        const struct chosen never = chosen(m, limit, -1, 128), own = chosen(m, limit, 0, 128);
        CHECK_EQ_I64(never.n_on_host, n);
        CHECK_EQ_I64(never.from, 0);
        CHECK_EQ_I64(chosen(m, limit, 0, 127).from, 0); /* no pass is that long */
        n_with += own.from == 128;
        n_without += own.from == 0;
        CHECK(own.from ? own.from == 128 && own.n_on_host <= n + n / 2 : own.n_on_host == n);
        const struct chosen asked = chosen(m, limit, 5, 128);
        CHECK(n == LAYERS ? asked.from == 0 && asked.n_on_host == n
                          : asked.from == 5 && asked.n_on_host > n);
    }
    CHECK(n_with > 0 && n_without > 1);
    CHECK_ERR(
        session_new(&s, m,
                    &(struct session_opts){
                        .n_ctx = 128, .device = {.kind = DEVICE_CUDA, .max_bytes = limit - block}},
                    &e),
        ERR_SYS, "without the experts");
    model_close(m);
}

/* Checks that passes are as long as possible without displacing experts. */
static void test_length(void) {
    struct err e = {0};
    struct model *m = synthetic("Q8_0", 64, 32, 3);
    struct session *s = NULL;
    struct session_opts o = opts(ACT_F32, -1);
    uint64_t limit = 0;
    static const int64_t want[] = {2048, 1024, 512, 512};
    o.n_ctx = 3000;
    for (int i = 0; m && i < 4; i++) {
        o.device.max_bytes = limit;
        CHECK_OK(session_new(&s, m, &o, &e));
        const struct cuda *d = exec_cuda_head(s);
        CHECK_EQ_I64(session_get_opts(s)->n_ubatch, want[i]);
        CHECK((d->all->n_on_host > 0) == (i == 3));
        limit = in_use(s) - 1;
        session_free(s);
    }
    o.device.max_bytes = 0;
    o.n_ctx = 700;
    CHECK_OK(session_new(&s, m, &o, &e));
    CHECK_EQ_I64(session_get_opts(s)->n_ubatch, 700);
    session_free(s);
    o.n_ubatch = 512;
    CHECK_OK(session_new(&s, m, &o, &e));
    CHECK_EQ_I64(session_get_opts(s)->n_ubatch, 512);
    session_free(s);
    model_close(m);
}

/* Returns the logits of single tokens, which run directly, recorded and replayed; with an observer,
 * all run directly. */
static float *stepped(struct session *s, bool observed, int n) {
    static struct shown ignored;
    struct err e = {0};
    const struct cuda *d = exec_cuda_head(s);
    const int64_t v = s->m->hp.d[HD_VOCAB];
    float *l = xcalloc((size_t)(n * v), sizeof *l);
    session_reset(s);
    const struct session_probe probe = {.ud = &ignored, .route = see_route};
    session_observe(s, observed ? &probe : NULL);
    for (int32_t i = 0; i < n; i++) {
        const int64_t before = cu_launches(d->q);
        CHECK_OK(session_step(s, &i, 1, l + i * v, &e));
        CHECK((cu_launches(d->q) == before) == (!observed && i > 1));
    }
    return l;
}

/* Checks that the CPU's work within a step runs between captured pieces. */
static void pieces(enum act_mode act, int d, int layers, int n) {
    enum { STEPS = 3 };
    struct err e = {0};
    struct model *m = synthetic("Q8_0", d, 32, layers);
    struct session *s = NULL;
    struct session_opts o = opts(act, -1);
    if (!m) return;
    CHECK_OK(session_new(&s, m, &o, &e));
    uint64_t limit = s ? in_use(s) : 0;
    session_free(s);
    s = with_host(m, o, n, &limit);
    CHECK(s != NULL);
    if (s) {
        float *plain = stepped(s, true, STEPS), *captured = stepped(s, false, STEPS);
        CHECK_EQ_I64(exec_cuda_all(s)->n_steps, n + 1);
        CHECK(memcmp(plain, captured, STEPS * (size_t)m->hp.d[HD_VOCAB] * sizeof *plain) == 0);
        free(plain);
        free(captured);
    }
    session_free(s);
    model_close(m);
}
static void test_pieces(void) {
    pieces(ACT_F32, 64, 3, 2);
    pieces(ACT_Q8, 256, 1, 1);
}

/* Truncates the file while a session copies from it: the fault address must be in the file's
 * map. */
static void on_bus(int sig, siginfo_t *si, void *ctx) {
    char msg[512];
    (void)sig;
    (void)ctx;
    _exit(map_fault(si->si_addr, msg, sizeof msg - 1));
}
static int copy_from_cut(struct model *m, uint64_t limit) {
    static const int passes[] = {2, 0};
    struct err e = {0};
    struct pool *pool = NULL;
    struct session_opts o = opts(ACT_F32, 2);
    struct sigaction bus = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO};
    CHECK_OK(pool_new(&pool, 2, &e));
    o.pool = pool;
    struct session *s = with_host(m, o, 3, &limit);
    if (!s || sigaction(SIGBUS, &bus, NULL) || truncate(tmp_path("s.gguf"), 4096)) return 100;
    free(rows(s, passes));
    return 101; /* not reached */
}
static void test_cut(void) {
    struct err e = {0};
    struct model *m = synthetic("Q8_0", 64, 32, 3);
    struct session *s = NULL;
    struct session_opts o = opts(ACT_F32, 2);
    int status = 0;
    if (!emu_shuffle || !m) return; /* a device cannot be used in a child process */
    CHECK_OK(session_new(&s, m, &o, &e));
    const uint64_t limit = s ? in_use(s) : 0;
    session_free(s);
    const pid_t child = fork();
    if (child == 0) _exit(copy_from_cut(m, limit));
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK_EQ_I64(WEXITSTATUS(status), ERR_DATA);
    model_close(m);
}

static void test_goldens(void) {
    static const char *const name[] = {"qwen35moe", "gemma4moe"};
    for (int i = 0; i < 2 && thorough(); i++) {
        char *folder = xasprintf("tests/golden/models/%s", name[i]);
        struct model *m = golden_open(folder, tmp_path("m.gguf"));
        same(m, ACT_F32, name[i]);
        same(m, ACT_Q8, name[i]);
        model_close(m);
        free(folder);
    }
}

int main(void) {
    if (!cu_built() || cu_count() == 0) return check_skip("no CUDA device");
    tmp_make();
    log_set_level(LOG_ERROR);
    RUN(test_events);
    RUN(test_missing_wait);
    RUN(test_feed);
    RUN(test_same);
    RUN(test_split);
    RUN(test_packed);
    RUN(test_cache);
    RUN(test_observed_and_replaced);
    if (counts_bytes()) { /* their limits are exact */
        RUN(test_choice);
        RUN(test_length);
    }
    RUN(test_pieces);
    RUN(test_cut);
    RUN(test_goldens);
    tmp_remove();
    return check_done();
}
