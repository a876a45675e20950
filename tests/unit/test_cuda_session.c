// SPDX-License-Identifier: MIT
/* tests/unit/test_cuda_session.c - sessions on a device: logits of every architecture compared with
 * transformers' in every batching, cache types and observed rows compared with the CPU's; the
 * captured step, snapshots, replaced weights, and errors. `make test`: the emulated device; `make
 * check-cuda`: the real one. */
#include "runtime/generate/drafter.h"
#include "runtime/engine/cuda/exec.h"
#include "base/log.h"
#include "runtime/engine/kv_type.h"
#include "quantize/synth.h"
#include "tests/cuda-emu/control.h"
#include "tests/unit/micro.h"
#include "tests/unit/with.h"

/* The same tolerance as on the CPU, since only the order of sums differs; logits reach 20. */
static const double tol = 5e-4;
static const struct device cuda = {.kind = DEVICE_CUDA};

/* Under the emulation a token of these models takes at least 0.1 s, so `make test` checks only the
 * first few tokens, and HONE_LONG=1 all of them and every batching. The first few already exceed
 * windows of 8 keys. Sanitizers are four times slower and find other errors, so they run half as
 * many tokens. */
enum { SLOWER = CHECK_SANITIZED ? 2 : 1 };
static bool thorough(void) {
    return !emu_shuffle || getenv("HONE_LONG");
}
static double worst(const float *l, int64_t n, const struct golden *g, int64_t v) {
    double diff = 0;
    for (int64_t i = 0; 2 * i + 1 < n; i++) /* positions 1, 3, 5, ... are recorded */
        diff = fmax(diff, golden_diff(l + (2 * i + 1) * v, g->logits + i * v, v));
    return diff;
}

/* Returns the logits of all tokens: n in pieces (0-terminated; the last repeats), then n_steps one
 * by one, which a device captures and replays. */
static float *fed(const struct model *m, const struct session_opts *o, const int32_t *ids,
                  int64_t n, const int *pieces, int64_t n_steps) {
    struct err e = {0};
    struct session *s = NULL;
    const int64_t v = m->hp.d[HD_VOCAB], d = m->hp.d[HD_EMBD];
    float *l = xcalloc((size_t)((n + n_steps) * v), sizeof *l);
    float *h = xcalloc((size_t)(n * d) + 1, sizeof *h);
    CHECK_OK(session_new(&s, m, o, &e));
    for (int64_t i = 0, k; s && i < n; i += k) {
        k = min_i64(*pieces, n - i);
        CHECK_OK(session_forward(s, ids + i, k, h + i * d, &e));
        if (pieces[1]) pieces++;
    }
    if (s && n) CHECK_OK(session_head(s, h, n, l, &e));
    for (int64_t i = n; s && i < n + n_steps; i++)
        CHECK_OK(session_step(s, ids + i, 1, l + i * v, &e));
    session_free(s);
    free(h);
    return l;
}
static float *stepped(const struct model *m, const struct session_opts *o, const int32_t *ids,
                      int64_t n) {
    return fed(m, o, ids, 0, NULL, n);
}

static void logits(const char *folder, const char *of, const char *name) {
    static const int pieces[] = {1, 6, 2, 37, 0};
    static const struct {
        const char *how;
        const int *pieces; /* NULL: captured steps only */
        int64_t n_ubatch, n, n_steps;
        bool always;
    } c[] = {{"uneven, then captured", pieces, 5, 9, 3, true},
             {"captured", NULL, 0, 0, 0, false},
             {"one batch", golden_all, 0, 0, 0, false},
             {"token by token", golden_one, 0, 0, 0, false}};
    struct golden g;
    struct model *m = golden_open(folder, tmp_path("m.gguf"));
    bool have = golden_load(&g, of) && m;
    for (size_t b = 0; have && b < sizeof c / sizeof *c; b++) {
        if (!c[b].always && !thorough()) continue;
        int64_t v = m->hp.d[HD_VOCAB], n = thorough() ? g.n_ids : c[b].n + c[b].n_steps;
        const int64_t n_steps = c[b].pieces ? c[b].n_steps : n;
        struct session_opts o = {.n_ctx = n + 3, .n_ubatch = c[b].n_ubatch, .device = cuda};
        float *l = fed(m, &o, g.ids, n - n_steps, c[b].pieces, n_steps);
        double diff = worst(l, n, &g, v);
        printf("%s, %s: max |logit difference| %.3g\n", name, c[b].how, diff);
        if (!(diff <= tol)) CHECK_FAIL("%s, %s: %g is more than %g", name, c[b].how, diff, tol);
        free(l);
    }
    golden_release(&g);
    model_close(m);
}

#define MODELS "tests/golden/models/"
static void test_qwen35moe(void) {
    logits(MODELS "qwen35moe", MODELS "qwen35moe", "qwen35moe");
}
static void test_qwen35(void) {
    logits(MODELS "qwen35", MODELS "qwen35", "qwen35");
}
static void test_qwen3moe(void) {
    logits(MODELS "qwen3moe", MODELS "qwen3moe", "qwen3moe");
}
static void test_qwen3(void) {
    logits(MODELS "qwen3", MODELS "qwen3", "qwen3");
}
static void test_qwen2(void) {
    logits(MODELS "qwen2", MODELS "qwen2", "qwen2");
}
static void test_mistral(void) {
    logits(MODELS "mistral", MODELS "mistral", "mistral");
}
static void test_gemma4(void) {
    static const char moe[] = MODELS "gemma4moe", e[] = MODELS "gemma4e",
                      d[] = MODELS "gemma4dense";
    logits(moe, moe, "gemma4moe");
    logits(golden_edited(e, moe, NULL), e, "gemma4e");
    logits(golden_edited(d, moe, NULL), d, "gemma4dense");
}

/* Tests operations of more architectures: LayerNorms, also per head; ungated activations and those
 * of one fused matrix; columns; partial RoPE; parallel halves of a block. */
static void micro(const char *name) {
    static const int pieces[] = {5, 1, 6, 0};
    char *dir = xasprintf("tests/golden/archs/%s", name);
    struct golden g;
    struct model *m = golden_open(micro_folder(dir, NULL), tmp_path("m.gguf"));
    if (golden_load(&g, dir) && m) {
        const int64_t v = m->hp.d[HD_VOCAB], n = thorough() ? g.n_ids : 12;
        const struct session_opts o = {.n_ctx = g.n_ids, /* for longrope */
                                       .device = cuda};
        float *l = golden_run(m, &o, g.ids, n, pieces, NULL, NULL, NULL);
        const double diff = micro_diff(&g, l, n, v);
        printf("%s: max |logit difference| %.3g\n", name, diff);
        if (!(diff <= tol)) CHECK_FAIL("%s: %g is more than %g", name, diff, tol);
        free(l);
    }
    golden_release(&g);
    model_close(m);
    free(dir);
}
/* Contexts in which an indexer leaves out keys run on the CPU only. Without a context, one is
 * chosen in which it does not. */
static void test_sparse(void) {
    static const char dir[] = "tests/golden/archs/glm-dsa-sparse"; /* selects 32 keys */
    struct model *m = golden_open(micro_folder(dir, NULL), tmp_path("m.gguf"));
    struct session_opts o = {.n_ctx = 33, .device = cuda};
    struct session *s = NULL;
    struct err e = {0};
    if (m) CHECK_ERR(session_new(&s, m, &o, &e), ERR_USAGE, "use --ctx 32 or less");
    o.n_ctx = 0;
    if (m) CHECK_OK(session_new(&s, m, &o, &e));
    if (s) CHECK_EQ_I64(session_get_opts(s)->n_ctx, 32);
    session_free(s);
    model_close(m);
}

static void test_micro(void) {
    micro("starcoder2");
    micro("stablelm12b");
    micro("phi3");
    micro("glm-dsa");            /* an indexer that need not select */
    micro("nemotron3-super");    /* experts on low-rank rows */
    micro("muse-glimmer");       /* normed embeddings */
    micro("gemma2");             /* soft cap of scores */
    micro("gemma3n");            /* four residual streams */
    micro("phimoe");             /* sparse mixer, logit biases */
    micro("olmoe");              /* expert weights not divided by their sum */
    micro("deepseek-v2-groups"); /* latent attention; groups by their best expert */
    micro("deepseek-v3");        /* ... yarn that grows scores */
    micro("mistral4");           /* ... queries scaled by position, softmax router */
    micro("glm4moe"); /* sigmoid router, selection bias, groups, shared experts, dense layers */
    micro("afmoe");   /* separate attention gate, norms everywhere */
    micro("hunyuan"); /* norms of queries and keys after RoPE */
    micro("ernie45moe");
    micro("lfm2");           /* short convolutions */
    micro("granitehybrid");  /* Mamba 2, group norms */
    micro("falcon-h1");      /* ... and attention in one layer */
    micro("jamba");          /* Mamba 1 */
    micro("nemotron_h_moe"); /* ungated experts */
    micro("falcon-mamba");   /* ... alone */
    micro("mamba2");
    micro("qwen3next");   /* value heads stored by key head */
    micro("kimi-linear"); /* Kimi delta attention */
    micro("bailingmoe3"); /* ... with bounded decays; a gate for each head of latent attention */
    micro("apertus");
    micro("ministral3");
    micro("llama4");       /* chunked attention, experts with scaled input */
    micro("gptoss_mxfp4"); /* sinks, experts with biases and a clamped activation */
    micro("gptoss");
    micro("step35"); /* per-head gates, limits after SiLU, head counts per layer */
    micro("mimo2");  /* values narrower than keys */
    micro("laguna"); /* softplus gates */
}

/* Checks that experts that do not fit stay on the CPU, with the same logits, for all limits down to
 * the one at which nothing more can be moved. */
static void too_small(const char *folder) {
    static const int pieces[] = {3, 1, 1, 0};
    struct golden g;
    struct err e = {0};
    struct model *m = golden_open(folder, tmp_path("m.gguf"));
    bool have = golden_load(&g, folder) && m;
    struct session_opts o = {.n_ctx = 8, .device = cuda};
    struct session *s = NULL;
    if (have) CHECK_OK(session_new(&s, m, &o, &e));
    uint64_t most = s ? session_bytes(s) : 0;
    session_free(s);
    uint64_t limit[2] = {0}; /* the largest limit that holds less than everything, the smallest
                              * that works */
    int n_ok = 0;
    for (; have; most -= most / 5) {
        o.device.max_bytes = most - 1;
        if (session_new(&s, m, &o, &e)) break;
        session_free(s);
        limit[n_ok++ > 0] = most - 1;
    }
    for (int i = 0; have && i < 2; i++) {
        o.device.max_bytes = limit[i];
        float *l = golden_run(m, &o, g.ids, 5, pieces, NULL, NULL, NULL);
        const double diff = worst(l, 5, &g, m->hp.d[HD_VOCAB]);
        printf("%s in %llu bytes: max |logit difference| %.3g\n", folder,
               (unsigned long long)limit[i], diff);
        if (!(diff <= tol)) CHECK_FAIL("%s, %g is more than %g", folder, diff, tol);
        free(l);
    }
    CHECK(n_ok >= 2);
    CHECK(e.code == ERR_SYS && strstr(e.msg, "without the experts"));
    golden_release(&g);
    model_close(m);
}
static void test_offload(void) {
    too_small(MODELS "qwen35moe");
    too_small(MODELS "gemma4moe");
}

static void some_ids(int32_t *ids, int64_t n) {
    for (int64_t i = 0; i < n; i++) ids[i] = (int32_t)((i * 7919 + 13) % 1000);
}

/* Checks that the order in which threads run between barriers does not matter. */
static void test_orders(void) {
    static const char *const name[] = {MODELS "qwen35moe", MODELS "gemma4moe"};
    static const int pieces[] = {1, 3, 1, 0};
    enum { N = 5 };
    int32_t ids[N];
    some_ids(ids, N);
    if (!emu_shuffle) return;
    for (int i = 0; i < 2; i++) {
        struct model *m = golden_open(name[i], tmp_path("m.gguf"));
        float *first = NULL;
        for (uint64_t order = 0; m && order < 3; order++) {
            struct session_opts o = {.n_ctx = N, .device = cuda};
            emu_shuffle(order);
            float *l = golden_run(m, &o, ids, N, pieces, NULL, NULL, NULL);
            if (!first)
                first = l;
            else {
                CHECK(memcmp(first, l, (size_t)(N * m->hp.d[HD_VOCAB]) * sizeof *l) == 0);
                free(l);
            }
        }
        free(first);
        model_close(m);
        emu_shuffle(0);
    }
}

/* A pass that starts at a block, with the residual of a full pass at that block. */
struct kept {
    float *x;
    int64_t d;
    int block;
};
static void keep(void *ud, const struct session_shown *r) {
    struct kept *k = ud;
    if (r->block == k->block - 1)
        memcpy(k->x + r->pos * k->d, r->x, (size_t)(r->n_rows * k->d) * sizeof *r->x);
}
static void test_begin(void) {
    struct err e = {0};
    int32_t ids[8];
    some_ids(ids, 8);
    struct model *m = golden_open(MODELS "qwen35moe", tmp_path("m.gguf"));
    if (!m) return;
    int64_t d = m->hp.d[HD_EMBD];
    struct session *s = NULL;
    struct session_opts o = {.n_ctx = 8, .n_ubatch = 5, .device = cuda};
    float *h[2];
    for (int i = 0; i < 2; i++) h[i] = xcalloc((size_t)(8 * d), sizeof **h);
    struct kept k = {xcalloc((size_t)(8 * d), sizeof(float)), d, 2};
    CHECK_OK(session_new(&s, m, &o, &e));
    session_observe(s, &(struct session_probe){.ud = &k, .residual = keep});
    CHECK_OK(session_forward(s, ids, 8, h[0], &e));
    session_observe(s, NULL);
    session_reset(s);
    CHECK(session_can_begin(s, 2));
    const struct session_pass p = {.ids = ids, .n = 8, .begin = 2, .residual = k.x, .hidden = h[1]};
    CHECK_OK(session_pass(s, &p, &e));
    CHECK(golden_diff(h[0], h[1], 8 * d) <= 1e-5); /* different launches, so sums in a different
                                                    * order */
    for (int i = 0; i < 2; i++) free(h[i]);
    free(k.x);
    session_free(s);
    model_close(m);
}

/* Checks that a session that the device refuses runs on the CPU with `auto`. */
static void check_fallback(const struct model *m, struct session_opts o) {
    struct session *s = NULL;
    struct err e;
    o.device.kind = DEVICE_AUTO;
    log_set_level(LOG_ERROR);
    CHECK_OK(session_new(&s, m, &o, &e));
    log_set_level(LOG_INFO);
    CHECK_EQ_STR(session_info(s).device, "cpu");
    session_free(s);
}

/* Checks that the cache has the CPU's codes, except where the last bit of a value moves it across
 * the boundary between two codes: then one value of a row is off by one step. Limits: a fifth of
 * the type's own error (test_session). */
static void test_kv_types(void) {
    static const enum qtype kv[] = {QT_F16, QT_Q8_0, QT_Q4_0};
    static const double limit[] = {2e-3, 2e-2, 0.2};
    enum { N = 6 };
    struct err e = {0};
    int32_t ids[N];
    some_ids(ids, N);
    struct model *m = golden_open(MODELS "qwen35", tmp_path("m.gguf"));
    if (!m) return;
    for (int i = 0; i < 3; i++) {
        /* CUDA does not rotate. */
        const struct kv_type *t = kv_type_norot(kv_type_of(kv[i]));
        struct session_opts o = {.n_ctx = N, .kv_k = t, .kv_v = t}, od = {.kv_type = kv[i]};
        od.n_ctx = N;
        od.device = cuda;
        float *want = golden_run(m, &o, ids, N, golden_all, NULL, NULL, NULL);
        float *l[2] = {golden_run(m, &od, ids, N, golden_all, NULL, NULL, NULL),
                       stepped(m, &od, ids, N)};
        for (int b = 0; b < 2; b++) {
            double d = golden_diff(l[b], want, N * m->hp.d[HD_VOCAB]);
            printf("cache %s, %s: %.3g from the CPU's logits\n", qtype_name(kv[i]),
                   b ? "captured" : "one batch", d);
            CHECK(d <= limit[i]);
            free(l[b]);
        }
        free(want);
    }
    struct session *s = NULL;
    struct session_opts o = {.n_ctx = 48, .device = cuda};
    o.kv_k = o.kv_v = kv_type_find("tq4");
    CHECK_ERR(session_new(&s, m, &o, &e), ERR_USAGE, "tq4");
    o.kv_k = kv_type_find("q5_1");
    CHECK_ERR(session_new(&s, m, &o, &e), ERR_USAGE, "q5_1-norot/tq4");
    check_fallback(m, o);
    model_close(m);
}

struct seen { /* sums over everything shown to observers */
    const struct model *m;
    double sum[512];
    int64_t rows[512], experts;
    double hidden;
    int n_hidden;
};
static void see(void *ud, const struct session_shown *s) {
    struct seen *c = ud;
    int64_t i = s->w - c->m->graph.weight;
    c->rows[i] += s->n_rows;
    for (int64_t r = 0; r < s->n_rows; r++)
        for (int64_t k = 0; k < s->w->ne[0]; k++) {
            const double x = (double)s->x[r * s->ld + k];
            c->sum[i] += x * x * (double)(s->expert + 2);
        }
}
static void see_hidden(void *ud, const struct session_shown *s) {
    struct seen *c = ud;
    c->n_hidden++;
    for (int64_t i = 0; i < s->n_rows * c->m->hp.d[HD_EMBD]; i++)
        c->hidden += fabs((double)s->x[i]) * (double)(s->block + 2 + s->pos);
}
static void see_route(void *ud, const struct session_shown *s) {
    struct seen *c = ud;
    for (int64_t i = 0; i < s->n_used * s->n_rows; i++)
        c->experts += (s->chosen[i] + 1) * (i + 1) * (s->block + 1 + s->pos);
}

static void observe(const char *name) {
    struct err e = {0};
    int32_t ids[12];
    some_ids(ids, 12);
    struct model *m = golden_open(name, tmp_path("m.gguf"));
    struct seen *c = xcalloc(2, sizeof *c);
    for (int i = 0; m && i < 2; i++) {
        struct session *s = NULL;
        struct session_opts o = {.n_ctx = 12, .n_ubatch = 7};
        if (i) o.device = cuda;
        c[i].m = m;
        CHECK_OK(session_new(&s, m, &o, &e));
        CHECK_EQ_STR(session_info(s).device, i ? "cuda" : "cpu");
        session_observe(
            s, &(struct session_probe){
                   .ud = &c[i], .product = see, .residual = see_hidden, .route = see_route});
        CHECK_OK(session_forward(s, ids, 11, NULL, &e));
        float *l = xcalloc((size_t)m->hp.d[HD_VOCAB], sizeof *l);
        CHECK_OK(session_step(s, ids + 11, 1, l, &e));
        free(l);
        session_free(s);
    }
    for (int i = 0; m && i < m->graph.n_weights; i++) {
        CHECK_EQ_I64(c[1].rows[i], c[0].rows[i]);
        CHECK_CLOSE(c[1].sum[i], c[0].sum[i], 1e-4 * c[0].sum[i]);
    }
    CHECK_EQ_I64(c[1].n_hidden, c[0].n_hidden);
    CHECK(c[0].n_hidden > 0);
    CHECK_CLOSE(c[1].hidden, c[0].hidden, 1e-4 * c[0].hidden);
    CHECK_EQ_I64(c[1].experts, c[0].experts);
    free(c);
    model_close(m);
}
static void test_observers(void) {
    observe(MODELS "qwen35moe");
    observe(MODELS "gemma4moe");
}

/* Tests the MTP block on the same hidden rows as on the CPU, and a trunk that returns to a mark. */
static void test_draft(void) {
    enum { N = 6 };
    struct err e = {0};
    int32_t ids[N + 1];
    some_ids(ids, N + 1);
    struct model *m = golden_open(MODELS "qwen35moe", tmp_path("m.gguf"));
    if (!m) return;
    const char *file = golden_mtp_file(MODELS "qwen35moe", tmp_path("mtp.gguf"), "f32");
    int64_t d = m->hp.d[HD_EMBD], v = m->hp.d[HD_VOCAB];
    float *y = xcalloc((size_t)(N * d), sizeof *y), *l = xcalloc((size_t)(4 * v), sizeof *l);
    for (int i = 0; i < 3; i++) { /* on the CPU, on the device, there from a file */
        struct session *t = NULL;
        struct drafter *by = NULL;
        struct session_opts o = {.n_ctx = N + 2, .n_ubatch = 4};
        if (i) o.device = cuda;
        CHECK_OK(session_new(&t, m, &o, &e));
        if (!i) CHECK_OK(session_forward(t, ids, N, y, &e));
        CHECK_OK(drafter_open(&by, t, i == 2 ? file : "mtp", &e));
        if (!by) return;
        const struct session_pass p = {
            .ids = ids + 1, .n = N, .hidden_in = y, .logits = i ? l + v : l};
        CHECK_OK(session_pass(by->s, &p, &e));
        if (i) {
            CHECK(golden_diff(l, l + v, v) <= tol);
            CHECK_OK(session_forward(t, ids, 3, NULL, &e));
            CHECK_OK(session_mark(t, &e));
            CHECK_OK(session_step(t, ids + 3, 2, l + 2 * v, &e));
            session_rewind(t);
            CHECK_OK(session_step(t, ids + 5, 1, l + 3 * v, &e));
            session_rewind(t);
            CHECK_OK(session_step(t, ids + 3, 2, l + 3 * v, &e));
            CHECK(memcmp(l + 2 * v, l + 3 * v, (size_t)v * sizeof *l) == 0);
        }
        drafter_close(by);
        session_free(t);
    }
    free(y);
    free(l);
    model_close(m);
}

/* Checks that rewinding and restarting give the same bits, even in captured steps, and that a
 * captured step uses a replaced weight and, later, the restored one. */
static void test_state(void) {
    struct err e = {0};
    int32_t ids[12];
    some_ids(ids, 12);
    struct model *m = golden_open(MODELS "qwen35moe", tmp_path("m.gguf"));
    if (!m) return;
    struct session *s = NULL;
    struct seq *snap = NULL;
    struct session_opts o = {.n_ctx = 12, .n_ubatch = 4, .kv_type = QT_Q8_0, .device = cuda};
    size_t v = (size_t)m->hp.d[HD_VOCAB];
    float *l[5];
    for (int i = 0; i < 5; i++) l[i] = xcalloc(v, sizeof *l[i]);
    CHECK_OK(session_new(&s, m, &o, &e));
    CHECK(session_bytes(s) > 0);
    CHECK_OK(session_forward(s, ids, 6, NULL, &e));
    CHECK_OK(seq_fork(&snap, session_own_seq(s), &e));
    for (int k = 0; k < 3; k++) {
        if (k == 1) seq_restore(session_own_seq(s), snap);
        if (k == 2) {
            session_reset(s);
            CHECK_OK(session_forward(s, ids, 6, NULL, &e));
        }
        for (int i = 6; i < 9; i++) CHECK_OK(session_step(s, ids + i, 1, l[k], &e));
        CHECK_EQ_I64(session_pos(s), 9);
    }
    CHECK(memcmp(l[0], l[1], v * sizeof **l) == 0);
    CHECK(memcmp(l[0], l[2], v * sizeof **l) == 0);
    static const char name[] = "blk.1.ffn_down_exps.weight";
    int w = 0;
    while (strcmp(m->graph.weight[w].name, name) != 0) w++;
    int64_t n = (int64_t)(model_weight(m, w)->n_bytes / sizeof(float));
    float *other = xcalloc((size_t)n, sizeof *other);
    for (int64_t i = 0; i < n; i++) other[i] = 0.5f * ((const float *)model_weight(m, w)->data)[i];
    struct model *changed = with_weight(m, name, other, QT_F32, free);
    for (int k = 3; k < 5; k++) {
        CHECK_OK(session_use(s, k == 3 ? changed : m, &e));
        seq_restore(session_own_seq(s), snap);
        for (int i = 6; i < 9; i++) CHECK_OK(session_step(s, ids + i, 1, l[k], &e));
    }
    CHECK(memcmp(l[0], l[3], v * sizeof **l) != 0);
    CHECK(memcmp(l[0], l[4], v * sizeof **l) == 0);
    for (int i = 0; i < 5; i++) free(l[i]);
    seq_free(snap);
    session_free(s);
    model_close(changed);
    model_close(m);
}

/* Launches per token; docs/design/cuda.md lists them. */
struct launches {
    int64_t per_delta, per_attn, rest;
};
/* Does the same as stepped() and counts launches: the first token runs directly, the second is
 * recorded, the others are replayed. */
static float *counted(const struct model *m, const struct session_opts *o, const int32_t *ids,
                      int64_t n, struct launches c) {
    struct err e = {0};
    struct session *s = NULL;
    int64_t v = m->hp.d[HD_VOCAB], want = c.rest;
    float *l = xcalloc((size_t)(n * v), sizeof *l);
    for (int i = 0; i < m->hp.d[HD_LAYERS]; i++)
        want += m->hp.layer[i].mixer == MIX_DELTA ? c.per_delta : c.per_attn;
    CHECK_OK(session_new(&s, m, o, &e));
    const struct cuda *d = exec_cuda_head(s);
    for (int64_t i = 0; s && i < n; i++) {
        int64_t before = cu_launches(d->q);
        CHECK_OK(session_step(s, ids + i, 1, l + i * v, &e));
        CHECK_EQ_I64(cu_launches(d->q) - before, i < 2 ? want : 0);
    }
    session_free(s);
    return l;
}
static void launches(const char *name, int64_t per_delta, int64_t per_attn) {
    struct model *m = golden_open(name, tmp_path("m.gguf"));
    struct session_opts o = {.n_ctx = 8, .device = cuda};
    const int32_t ids[3] = {3, 5, 3};
    if (m) free(counted(m, &o, ids, 3, (struct launches){per_delta, per_attn, 4}));
    model_close(m);
}
static void test_launches(void) {
    launches(MODELS "qwen35moe", 16, 17);
    launches(MODELS "qwen35", 11, 12);
    launches(MODELS "qwen3", 0, 12);
}

/* Checks that fusing launches does not change the bits of logits. */
static const struct launches all_fused = {9, 11, 4};
static void check_fusions(const struct model *m, const int32_t *ids, const float *want) {
    static const struct {
        unsigned fuse;
        struct launches c;
    } c[] = {{0, {23, 23, 5}}, {7, {9, 11, 4}},  {1, {19, 20, 5}},    {2, {22, 22, 5}},
             {3, {14, 15, 4}}, {4, {18, 19, 5}}, {0xffff, {9, 11, 4}}};
    struct session_opts o = {.n_ctx = 12, .act = ACT_Q8, .device = cuda};
    int64_t n = 4 - SLOWER;
    for (size_t i = 0; i < (thorough() ? COUNT_OF(c) : 3 - SLOWER); i++) {
        o.device.masked = true;
        o.device.mask = c[i].fuse;
        printf("fused %#x: %d launches in a delta-net layer, %d in one with attention\n", c[i].fuse,
               (int)c[i].c.per_delta, (int)c[i].c.per_attn);
        float *l = counted(m, &o, ids, n, c[i].c);
        CHECK(memcmp(l, want, (size_t)(n * m->hp.d[HD_VOCAB]) * sizeof *l) == 0);
        free(l);
    }
}

/* Tests prompts with wgmma, if the device has it, without a mask and with mask bit 256. */
static void check_wgmma(const struct model *m) {
    static const struct {
        bool masked;
        unsigned mask;
        bool on;
    } c[] = {{false, 0, true}, {true, 743, false}, {true, 999, true}, {true, 256, true}};
    struct session *s[COUNT_OF(c)] = {NULL};
    for (size_t i = 0; i < COUNT_OF(c); i++) {
        struct session_opts o = {.n_ctx = 4, .act = ACT_Q8, .device = cuda};
        struct err e = {0};
        o.device.masked = c[i].masked;
        o.device.mask = c[i].mask;
        CHECK_OK(session_new(&s[i], m, &o, &e));
        if (!s[i]) continue;
        const struct cuda *d = exec_cuda_head(s[i]);
        if (d->info.emulated || !c[i].on) CHECK(cu_uses_wgmma(d->q) == c[i].on);
    }
    for (size_t i = 0; i < COUNT_OF(c); i++) session_free(s[i]);
}

static int cmp_double(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
/* Computes the relative error of each token's logits compared with f32 activations, in order. */
static void errors(const float *l, const float *exact, int n, int64_t v, double *at) {
    for (int t = 0; t < n; t++) {
        double diff = 0, norm = 0;
        for (int64_t k = t * v; k < (t + 1) * v; k++) {
            diff += pow((double)l[k] - (double)exact[k], 2);
            norm += pow((double)exact[k], 2);
        }
        at[t] = sqrt(diff / norm);
    }
    qsort(at, (size_t)n, sizeof *at, cmp_double);
}

/* Checks that experts that stay on the CPU, and no other weights, are packed there. */
static void packed_offload(struct model *m, const int32_t *ids, const float *exact, int n,
                           double cpu_error) {
    struct err e = {0};
    struct session_opts o = {
        .n_ctx = n, .isa = kern_isa_best(), .act = ACT_Q8, .pack = true, .device = cuda};
    struct session *s = NULL;
    const int64_t v = m->hp.d[HD_VOCAB];
    int n_packed = 0, n_experts = 0;
    double at[16];
    CHECK_OK(session_new(&s, m, &o, &e));
    if (!s) return;
    uint64_t most = session_bytes(s);
    session_free(s);
    for (;;) { /* until experts have to be moved out */
        o.device.max_bytes = most -= most / 8;
        CHECK_OK(session_new(&s, m, &o, &e));
        if (!s) return;
        const struct cuda *d = exec_cuda_head(s);
        if (d->all->n_on_host) break;
        session_free(s);
    }
    for (int w = 0; w < m->graph.n_weights; w++) {
        const bool is_expert = strstr(m->graph.weight[w].name, "_exps") != NULL;
        n_experts += is_expert;
        n_packed += model_weight(s->m, w)->packed != NULL;
        CHECK(is_expert || !model_weight(s->m, w)->packed);
    }
    CHECK((n_packed > 0 || kern_isa_best() == KERN_REF) && n_packed < n_experts);
    float *l = xcalloc((size_t)(n * v), sizeof *l);
    for (int t = 0; t < n; t++) CHECK_OK(session_step(s, ids + t, 1, l + t * v, &e));
    errors(l, exact, n, v, at);
    printf("%d of %d experts' weights packed on the CPU: median %.3g\n", n_packed, n_experts,
           at[n / 2]);
    CHECK(at[n / 2] > 0 && at[n / 2] <= 1.5 * cpu_error);
    session_free(s);
    free(l);
}

/* Checks that attention for few tokens on tensor cores, one by one and several in a pass, is as
 * close to f32 activations as on CUDA cores, with the same number of launches. */
static void check_few(const struct model *m, const int32_t *ids) {
    enum { N = 5 - SLOWER };
    static const enum qtype kv[] = {QT_Q8_0, QT_F16, QT_Q4_0};
    static const int pieces[] = {1, 3, 0};
    const int64_t v = m->hp.d[HD_VOCAB];
    for (size_t t = 0; t < (thorough() ? COUNT_OF(kv) : 1); t++) {
        const struct kv_type *type = kv_type_norot(kv_type_of(kv[t])); /* as on CUDA */
        struct session_opts o = {.n_ctx = N, .kv_k = type, .kv_v = type};
        float *exact = golden_run(m, &o, ids, N, golden_all, NULL, NULL, NULL), *l[3];
        double at[3][N];
        o.act = ACT_Q8;
        o.device = cuda;
        for (int i = 0; i < 3; i++) { /* CUDA cores, tensor cores, several tokens on tensor cores */
            o.device.masked = i == 0;
            o.device.mask = CUDA_DEFAULT - CUDA_MMA_FEW;
            l[i] = i < 2 ? counted(m, &o, ids, N, all_fused)
                         : golden_run(m, &o, ids, N, pieces, NULL, NULL, NULL);
            errors(l[i], exact, N, v, at[i]);
            if (i) CHECK(at[i][N / 2] > 0 && at[i][N / 2] <= 1.5 * at[0][N / 2]);
        }
        printf(
            "cache %s, attention on CUDA cores %.3g, on tensor cores %.3g, several tokens %.3g\n",
            qtype_name(kv[t]), at[0][N / 2], at[1][N / 2], at[2][N / 2]);
        CHECK(memcmp(l[0], l[1], (size_t)(N * v) * sizeof **l) != 0);
        for (int i = 0; i < 3; i++) free(l[i]);
        free(exact);
    }
}

/* Checks that 8-bit activations with packed weights are as close to exact logits as the CPU's 8-bit
 * path, within 1.5x, at most positions; a near tie in a router that is decided differently costs
 * one more position. */
static void test_fast(void) {
    struct err e = {0};
    const char *path = tmp_path("q8.gguf");
    struct convert_opts co = {
        .src = "tests/golden/tiny-qwen35moe", .out = path, .type = "q8_0", .overwrite = true};
    struct convert_report r;
    struct model *m = NULL;
    enum { N = 12, STEPS = 5 };
    static const int few_many[] = {3, 9, 0};
    int32_t ids[N];
    float *l[4] = {NULL, NULL, NULL, NULL};
    some_ids(ids, N);
    CHECK_OK(convert_run(&co, &r, &e));
    CHECK_OK(model_open(&m, path, &e));
    if (!m) return;
    int64_t v = m->hp.d[HD_VOCAB];
    for (int i = 0; i < 4; i++) { /* the last: few tokens, then many (bf16, f16) */
        struct session_opts o = {.n_ctx = N, .act = i ? ACT_Q8 : ACT_F32};
        if (i >= 2) o.device = cuda;
        l[i] = i < 2   ? stepped(m, &o, ids, N)
               : i < 3 ? counted(m, &o, ids, STEPS, all_fused)
                       : golden_run(m, &o, ids, N, few_many, NULL, NULL, NULL);
    }
    double err[3] = {0};
    for (int i = 0; i < 3; i++) {
        double at[N];
        const int n = i == 1 ? STEPS : N;
        errors(l[i + 1], l[0], n, v, at);
        err[i] = at[n / 2];
        printf("8-bit activations, relative error of logits, %s: median %.3g, worst %.3g\n",
               i == 0   ? "CPU"
               : i == 1 ? "device"
                        : "device in two passes",
               err[i], at[n - 1]);
    }
    CHECK(err[1] > 0 && err[1] <= 1.5 * err[0]);
    CHECK(err[2] > 0 && err[2] <= 1.5 * err[0]);
    const struct session_opts any = {.n_ctx = 4, .act = ACT_Q8, .device = cuda};
    struct session *first = NULL; /* packs the weights, which the others share */
    CHECK_OK(session_new(&first, m, &any, &e));
    check_fusions(m, ids, l[2]);
    check_wgmma(m);
    check_few(m, ids);
    session_free(first);
    packed_offload(m, ids, l[0], 4, err[0]);
    for (int i = 0; i < 4; i++) free(l[i]);
    model_close(m);
}

/* Checks that the number of launches is as small for every type: files of mixed types without a
 * packed form, and bf16. Unfused launches give the same bits, and results, also of prompts, are as
 * close to f32 activations as the CPU's. */
static void any_type(const char *recipe, struct launches none, double *err8) {
    static const int prompt[] = {9, 0};
    struct err e = {0};
    struct synth_report r;
    struct synth_opts so = {.recipe = recipe,
                            .out = tmp_path("any.gguf"),
                            .shape = "tests/golden/tiny-qwen35moe/config.json",
                            .layers = 2,
                            .seed = 3,
                            .overwrite = true};
    struct model *m = NULL;
    enum { N = 9 };
    const int64_t n = thorough() ? N : 2;
    int32_t ids[N];
    double at[3][N];
    some_ids(ids, N);
    CHECK_OK(synth_run(&so, &r, &e));
    CHECK_OK(model_open(&m, so.out, &e));
    if (!m) return;
    const int64_t v = m->hp.d[HD_VOCAB];
    struct session_opts o = {.n_ctx = N, .act = ACT_Q8, .device = cuda};
    float *l = counted(m, &o, ids, n, all_fused);
    if (SLOWER > 1) { /* sanitizers do not check numbers */
        free(l);
        model_close(m);
        return;
    }
    float *many = golden_run(m, &o, ids, N, prompt, NULL, NULL, NULL);
    o.device.masked = true;
    o.device.mask = 0;
    float *apart = counted(m, &o, ids, n, none);
    CHECK(memcmp(l, apart, (size_t)(n * v) * sizeof *l) == 0);
    o = (struct session_opts){.n_ctx = N};
    float *exact = golden_run(m, &o, ids, N, prompt, NULL, NULL, NULL);
    o.act = ACT_Q8;
    float *cpu = golden_run(m, &o, ids, N, golden_one, NULL, NULL, NULL);
    errors(cpu, exact, N, v, at[0]);
    errors(l, exact, (int)n, v, at[1]);
    errors(many, exact, N, v, at[2]);
    printf("%s, relative error of logits: CPU median %.3g, device %.3g, its prompts %.3g\n", recipe,
           at[0][N / 2], at[1][n / 2], at[2][N / 2]);
    if (at[0][N / 2] > 0) *err8 = at[0][N / 2];
    CHECK(at[1][n / 2] <= 1.5 * at[0][N / 2] + 1e-5);
    CHECK(at[2][N / 2] > 0 && at[2][N / 2] <= 1.5 * *err8); /* bf16 is finer */
    free(exact);
    free(cpu);
    free(l);
    free(many);
    free(apart);
    model_close(m);
}
static void test_any_type(void) {
    double err8 = 0; /* error of the CPU's 8-bit activations, if the type has them */
    any_type("IQ2_XXS", (struct launches){23, 23, 5}, &err8);
    if (SLOWER > 1) return;
    any_type("BF16", (struct launches){14, 15, 4}, &err8); /* nothing is quantized */
    if (!thorough()) return;
    any_type("Q2_K", (struct launches){23, 23, 5}, &err8);
    any_type("MXFP4_MOE", (struct launches){23, 23, 5}, &err8);
}

static void test_refuses(void) {
    struct err e = {0};
    struct device d;
    CHECK_OK(device_parse("cuda", &d, &e));
    CHECK(d.kind == DEVICE_CUDA && d.index == 0);
    CHECK_OK(device_parse("cuda:0", &d, &e));
    CHECK(!d.masked);
    CHECK_OK(device_parse("cuda:0/0x17", &d, &e));
    CHECK(d.index == 0 && d.masked && d.mask == 0x17);
    CHECK_OK(device_parse("cuda/0", &d, &e));
    CHECK(d.kind == DEVICE_CUDA && d.masked && d.mask == 0);
    CHECK_ERR(device_parse("cuda/", &d, &e), ERR_USAGE, "cuda:N");
    CHECK_ERR(device_parse("cuda/7x", &d, &e), ERR_USAGE, "cuda:N");
    CHECK_ERR(device_parse("cuda/-1", &d, &e), ERR_USAGE, "cuda:N");
    CHECK_OK(device_parse("auto", &d, &e));
    CHECK(d.kind == DEVICE_AUTO);
    CHECK_OK(device_parse(NULL, &d, &e));
    CHECK(d.kind == DEVICE_CPU);
    CHECK_ERR(device_parse("cuda:200", &d, &e), ERR_SYS, "does not exist");
    CHECK_ERR(device_parse("cuda:x", &d, &e), ERR_USAGE, "cuda:N");
    CHECK_ERR(device_parse("gpu", &d, &e), ERR_USAGE, "cuda:N");
    struct model *m = golden_open(MODELS "qwen3", tmp_path("m.gguf"));
    struct session *s = NULL;
    struct session_opts o = {.n_ctx = 1 << 30, .n_ubatch = 16, .device = cuda};
    CHECK_ERR(session_new(&s, m, &o, &e), ERR_SYS, "MiB are needed"); /* hundreds of GiB */
    CHECK(s == NULL);
    model_close(m);
}

/* Returns the size of a node that kernels limit. */
static int64_t *size_of(struct graph *g, struct gr_node *n) {
    if (n->op == OP_ATTN) return &n->attn.head_dim;
    if (n->op == OP_MATMUL_HEADS) return &g->reg_width[n->src[0]];
    if (n->op == OP_MOE) return &g->weight[n->moe.router].ne[1];
    if (n->op == OP_CONV_SILU || n->op == OP_SHORT_CONV) return &g->weight[n->conv.weight].ne[0];
    return &n->delta.k_dim;
}
/* Tests that sizes without kernels are refused when a session opens, not in its first pass, so
 * `auto` uses the CPU. */
static void test_sizes(void) {
    static const struct {
        const char *folder;
        enum gr_op op;
        int64_t n;
        const char *why;
    } c[] = {{MODELS "qwen35moe", OP_ATTN, 100, "no kernels for 100 values per head in a cache"},
             {MODELS "qwen35moe", OP_CONV_SILU, 9, "9 taps"},
             {MODELS "qwen35moe", OP_DELTA, 260, "260 values per key"},
             {MODELS "qwen35moe", OP_MOE, 1025, "1025 experts"},
             {"tests/golden/archs/deepseek-v3", OP_MATMUL_HEADS, 1 << 20, "a matrix of its own"},
             {"tests/golden/archs/lfm2", OP_SHORT_CONV, 9, "9 taps"},
             {"tests/golden/archs/jamba", OP_MAMBA1, 257, "257 values per row"},
             {"tests/golden/archs/granitehybrid", OP_MAMBA2, 257, "257 values per row"},
             {"tests/golden/archs/kimi-linear", OP_KDA, 257, "257 values per row"}};
    struct session_opts o = {.n_ctx = 16, .device = cuda};
    struct session *s = NULL;
    struct err e = {0};
    for (size_t i = 0; i < COUNT_OF(c); i++) {
        const bool micro = strstr(c[i].folder, "/archs/") != NULL;
        struct model *m =
            golden_open(micro ? micro_folder(c[i].folder, NULL) : c[i].folder, tmp_path("m.gguf"));
        if (!m) continue;
        CHECK_OK(session_new(&s, m, &o, &e));
        const struct gr_node *n = graph_nth(&m->graph, c[i].op, 0);
        int64_t *size = size_of(&m->graph, &m->graph.node[n - m->graph.node]);
        const int64_t was = *size;
        CHECK_OK(exec_cuda_check(s, &e));
        *size = c[i].n;
        CHECK_ERR(exec_cuda_check(s, &e), ERR_USAGE, c[i].why);
        *size = was;
        session_free(s);
        model_close(m);
    }
    struct model *m = golden_open(MODELS "qwen3moe", tmp_path("m.gguf"));
    if (!m) return;
    m->graph.node[graph_nth(&m->graph, OP_MOE, 0) - m->graph.node].moe.choice.groups = 257;
    CHECK_ERR(session_new(&s, m, &o, &e), ERR_USAGE, "257 groups of experts (at most 256)");
    check_fallback(m, o);
    model_close(m);
}

/* Checks that a pass has no more rows than a kernel's grid. */
static void test_long_pass(void) {
    struct model *m = golden_open(MODELS "qwen3moe", tmp_path("m.gguf"));
    struct session *s = NULL;
    struct err e = {0};
    for (int i = 0; i < 2 && m; i++) { /* shorter than a context, and longer */
        const struct session_opts o = {.n_ctx = i ? 16 : 70000, .n_ubatch = 70000, .device = cuda};
        CHECK_OK(session_new(&s, m, &o, &e));
        if (!s) break;
        CHECK_EQ_I64(session_get_opts(s)->n_ubatch, i ? 65535 / 16 * 16 : 65535);
        session_free(s);
    }
    model_close(m);
}

int main(void) {
    if (!cu_built() || cu_count() == 0) return check_skip("no CUDA device");
    tmp_make();
    RUN(test_qwen35moe);
    RUN(test_qwen35);
    RUN(test_qwen3moe);
    RUN(test_qwen3);
    RUN(test_qwen2);
    RUN(test_mistral);
    RUN(test_gemma4);
    RUN(test_micro);
    RUN(test_sparse);
    RUN(test_offload);
    RUN(test_orders);
    RUN(test_kv_types);
    RUN(test_begin);
    RUN(test_observers);
    RUN(test_draft);
    RUN(test_state);
    RUN(test_launches);
    RUN(test_fast);
    RUN(test_any_type);
    RUN(test_refuses);
    RUN(test_sizes);
    RUN(test_long_pass);
    tmp_remove();
    return check_done();
}
