// SPDX-License-Identifier: MIT
/* tests/unit/test_weight.c - runtime/engine/weight.c, model.c and pack.c: reference counts and
 * sharing of weights, candidates (which must equal a file with the same tensors), sessions of one
 * model in several threads, and models that do not fit into memory. */
#include <pthread.h>

#include "base/ctx.h"
#include "base/limits.h"
#include "quantize/quantize.h"
#include "runtime/engine/session.h"
#include "tests/unit/synthetic.h"
#include "tests/unit/with.h"

enum { N_IDS = 12, N_VOCAB = 256, D = 256, LAYERS = 3 };
static const char up_name[] = "blk.1.ffn_up_exps.weight";

static int refs(const struct model *m, const char *name) {
    return atomic_load(&model_find_weight(m, name)->mem->n_refs);
}

/* ---- holders --------------------------------------------------------------------------------- */

static int n_released;
static void release(void *data) {
    n_released++;
    free(data);
}

static float *some_up(const struct model *m, int turn) {
    const struct weight *w = model_find_weight(m, up_name);
    const int64_t n = w->ne[0] * w->ne[1] * w->ne[2];
    float *x = xcalloc((size_t)n, sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = (float)((i * 7 + turn) % 23) * 0.02f - 0.2f;
    return x;
}

/* Checks that a weight is freed with the last model that uses it, in whatever order they are
 * closed. */
static void test_counts(void) {
    struct err e = {0};
    struct model *m = synthetic("Q4_K_M", D, D, LAYERS), *a, *b, *both = NULL;
    if (!m) return;
    const int own = refs(m, up_name), other = refs(m, "output.weight");
    n_released = 0;
    a = with_weight(m, up_name, some_up(m, 1), QT_F32, release);
    CHECK_EQ_I64(refs(m, up_name), own); /* not referenced by the candidate */
    CHECK_EQ_I64(refs(m, "output.weight"), other + 1);
    CHECK(
        weight_same(model_find_weight(m, "output.weight"), model_find_weight(a, "output.weight")));
    CHECK(!weight_same(model_find_weight(m, up_name), model_find_weight(a, up_name)));
    const struct model_change out = {"output.weight", model_find_weight(m, "output.weight")};
    CHECK_OK(model_with(&both, a, &out, 1, &e)); /* a candidate of a candidate */
    CHECK(weight_same(model_find_weight(a, up_name), model_find_weight(both, up_name)));
    b = with_weight(both, up_name, some_up(m, 2), QT_F32, release);
    CHECK_EQ_I64(refs(a, up_name), 2);
    model_close(b);
    CHECK_EQ_I64(n_released, 1);
    model_close(both);
    CHECK_EQ_I64(n_released, 1);
    model_close(a);
    CHECK_EQ_I64(n_released, 2);
    CHECK_EQ_I64(refs(m, up_name), own);
    CHECK_EQ_I64(refs(m, "output.weight"), other);
    model_close(m);
}

static void test_first_change(void) {
    struct model *m = synthetic("Q4_K_M", D, D, LAYERS), *a, *b, *c;
    if (!m) return;
    a = with_weight(m, up_name, some_up(m, 1), QT_F32, free);
    b = with_weight(a, "output.weight", xcalloc(N_VOCAB * D, 4), QT_F32, free);
    c = with_weight(m, "token_embd.weight", xcalloc(N_VOCAB * D, 4), QT_F32, free);
    CHECK_EQ_I64(model_first_change(m, m), LAYERS);
    CHECK_EQ_I64(model_first_change(m, a), 1);
    CHECK_EQ_I64(model_first_change(a, b), LAYERS);
    CHECK_EQ_I64(model_first_change(b, m), 1);
    CHECK_EQ_I64(model_first_change(b, c), 0);
    model_close(c);
    model_close(b);
    model_close(a);
    model_close(m);
}

/* ---- numbers --------------------------------------------------------------------------------- */

struct logits {
    float v[N_IDS * N_VOCAB];
};
/* Feeds a prompt, then tokens one by one. */
static void feed(struct session *s, struct logits *l) {
    struct err e = {0};
    int32_t ids[N_IDS];
    float h[8 * D];
    for (int i = 0; i < N_IDS; i++) ids[i] = (i * 7919 + 13) % 250;
    session_reset(s);
    CHECK_OK(session_forward(s, ids, 8, h, &e));
    CHECK_OK(session_head(s, h, 8, l->v, &e));
    for (int i = 8; i < N_IDS; i++) CHECK_OK(session_step(s, ids + i, 1, l->v + i * N_VOCAB, &e));
}
static struct session_opts opts(enum act_mode act, bool pack) {
    return (struct session_opts){
        .n_ctx = N_IDS, .n_ubatch = 8, .isa = kern_isa_best(), .act = act, .pack = pack};
}
static struct logits run(const struct model *m, enum act_mode act, bool pack) {
    struct err e = {0};
    struct session *s = NULL;
    const struct session_opts o = opts(act, pack);
    static struct logits l;
    memset(&l, 0, sizeof l);
    CHECK_OK(session_new(&s, m, &o, &e));
    if (s) feed(s, &l);
    session_free(s);
    return l;
}
static bool same(const struct logits *a, const struct logits *b) {
    return memcmp(a, b, sizeof *a) == 0;
}

/* Replaces every weight of a model that its quantized file has in a different type; the model must
 * then compute the same as the file. */
static void test_candidate_is_the_file(void) {
    struct err e = {0};
    struct model *m = synthetic("BF16", D, D, LAYERS), *q = NULL, *cand = NULL;
    struct quantize_report r;
    struct quantize_opts o = {
        .in = tmp_path("s.gguf"), .out = tmp_path("q.gguf"), .recipe = "Q4_K_M", .overwrite = true};
    struct model_change change[64];
    int n = 0;
    if (!m) return;
    CHECK_OK(quantize_run(&o, &r, &e));
    CHECK_OK(model_open(&q, o.out, &e));
    if (!q) return;
    for (int i = 0; i < q->graph.n_weights && n < 64; i++)
        if (model_weight(q, i)->type != model_weight(m, i)->type)
            change[n++] = (struct model_change){q->graph.weight[i].name, model_weight(q, i)};
    CHECK(n > 10 && n < 64);
    CHECK_OK(model_with(&cand, m, change, n, &e));
    for (int act = ACT_F32; act <= ACT_Q8 && cand; act++)
        for (int pack = 0; pack < 2; pack++) {
            const struct logits base = run(m, (enum act_mode)act, pack),
                                want = run(q, (enum act_mode)act, pack),
                                got = run(cand, (enum act_mode)act, pack);
            CHECK(same(&want, &got));
            CHECK(!same(&base, &got));
        }
    model_close(cand); /* it references weights of the file */
    model_close(q);
    model_close(m);
}

/* Checks that a session that switches to another model continues like one that began with it. */
static void test_use(void) {
    struct err e = {0};
    struct model *m = synthetic("Q4_K_M", D, D, LAYERS), *n = NULL;
    if (!m) return;
    CHECK_OK(model_open(&n, tmp_path("s.gguf"), &e));
    struct model *a = with_weight(m, up_name, some_up(m, 3), QT_F32, free);
    const struct logits file = run(m, ACT_F32, false), other = run(a, ACT_F32, false);
    struct session_opts o = opts(ACT_F32, false);
    struct session *s = NULL;
    static struct logits l;
    CHECK_OK(session_new(&s, m, &o, &e));
    for (int i = 0; i < 3; i++) {
        CHECK_OK(session_use(s, i == 1 ? a : m, &e));
        feed(s, &l);
        CHECK(same(&l, i == 1 ? &other : &file));
    }
    CHECK(!same(&file, &other));
    CHECK_ERR(session_use(s, n, &e), ERR_USAGE, "a different graph");
    session_free(s);
    o = opts(ACT_Q8, true);
    CHECK_OK(session_new(&s, m, &o, &e));
    CHECK_ERR(session_use(s, a, &e), ERR_USAGE, "cannot switch models");
    session_free(s);
    model_close(n);
    model_close(a);
    model_close(m);
}

/* ---- packed rows ----------------------------------------------------------------------------- */

/* Checks that without a card, or with one that lacks a feature (a cache of codes), the session is
 * as fast as one created for the CPU. */
static void test_fallback(void) {
    struct err e;
    struct model *m = synthetic("Q4_K_M", D, D, LAYERS);
    struct session *s = NULL;
    struct session_opts o = opts(ACT_Q8, true);
    if (!m || kern_isa_best() == KERN_REF) return;
    o.device.kind = DEVICE_AUTO;
    o.kv_k = o.kv_v = kv_type_find("tq4");
    CHECK_OK(session_new(&s, m, &o, &e));
    CHECK_EQ_STR(session_info(s).device, "cpu");
    CHECK(model_packed_bytes(m, false) > 0);
    session_free(s);
    model_close(m);
}

/* Checks that rows are packed once: a second session and a candidate's share them, and the
 * candidate packs only replaced weights. */
static void test_packed_once(void) {
    struct err e = {0};
    struct model *m = synthetic("Q4_K_M", D, D, LAYERS), *other = NULL;
    struct session *s[3] = {NULL, NULL, NULL};
    const struct session_opts o = opts(ACT_Q8, true);
    if (!m || kern_isa_best() == KERN_REF) return;
    CHECK_OK(model_open(&other, tmp_path("s.gguf"), &e));
    /* the same tensor from a second opening of the file: a different object */
    const struct model_change c = {up_name, model_find_weight(other, up_name)};
    struct model *cand = NULL;
    CHECK_OK(model_with(&cand, m, &c, 1, &e));
    CHECK_OK(session_new(&s[0], m, &o, &e));
    const uint64_t n = model_packed_bytes(m, false);
    CHECK(n > 0);
    CHECK_OK(session_new(&s[1], m, &o, &e));
    CHECK_EQ_I64(model_packed_bytes(m, false), n);
    CHECK_OK(session_new(&s[2], cand, &o, &e));
    CHECK_EQ_I64(model_packed_bytes(cand, false), n);
    int n_same = 0, n_other = 0;
    for (int i = 0; i < m->graph.n_weights; i++) {
        const uint8_t *p[3];
        for (int k = 0; k < 3; k++) p[k] = model_weight(s[k]->m, i)->packed;
        CHECK(p[0] == p[1] && !p[0] == !p[2]);
        CHECK(!model_weight(m, i)->packed); /* the model itself is unchanged */
        n_same += p[0] && p[0] == p[2];
        n_other += p[0] && p[0] != p[2];
    }
    CHECK(n_same > 0);
    CHECK_EQ_I64(n_other, 1);
    for (int k = 0; k < 3; k++) session_free(s[k]);
    const struct logits a = run(m, ACT_Q8, true), b = run(cand, ACT_Q8, true);
    CHECK(same(&a, &b));
    CHECK_EQ_I64(model_packed_bytes(m, false), n); /* it stays for the next session */
    model_close(cand);
    model_close(m);
    model_close(other);
}

/* Checks that with too little memory for packed rows the weights stay in the map, with the results
 * of a session that does not pack; with enough memory they are packed. */
static void test_larger_than_memory(void) {
    struct err e = {0};
    struct model *m = synthetic("Q4_K_M", D, D, LAYERS);
    struct session *s = NULL;
    struct session_opts o = opts(ACT_Q8, false);
    if (!m || kern_isa_best() == KERN_REF) return;
    const struct logits plain = run(m, ACT_Q8, false);
    CHECK_OK(session_new(&s, m, &o, &e));
    const uint64_t own = session_bytes(s);
    session_free(s);
    struct ctx c;
    ctx_init(&c);
    struct ctx *mine = ctx_enter(&c);
    mem_limit(own + (256 << 10)); /* the rows are 1.8 MiB */
    const struct logits less = run(m, ACT_Q8, true);
    CHECK(same(&plain, &less));
    CHECK_EQ_I64(model_packed_bytes(m, false), 0);
    mem_limit(4 * own + (16 << 20));
    const struct logits packed = run(m, ACT_Q8, true);
    CHECK(model_packed_bytes(m, false) > 1 << 20);
    CHECK(!same(&plain, &packed)); /* they round differently */
    model_close(m);
    ctx_enter(mine);
    ctx_release(&c);
}

/* ---- threads --------------------------------------------------------------------------------- */

enum { THREADS = 3, ROUNDS = 3 };
struct worker {
    const struct model *m;
    enum act_mode act;
    struct logits l[ROUNDS];
    struct err e;
    int rc;
};

/* Opens sessions in its own pool, independent of the other threads. */
static void *work(void *arg) {
    struct worker *w = arg;
    struct ctx c;
    ctx_init(&c);
    struct ctx *mine = ctx_enter(&c);
    w->rc = ctx_team(&c, 2, &w->e);
    for (int i = 0; i < ROUNDS && !w->rc; i++) {
        struct session *s = NULL;
        struct session_opts o = opts(w->act, true);
        o.pool = c.pool;
        o.ctx = &c;
        w->rc = session_new(&s, w->m, &o, &w->e);
        if (s) feed(s, &w->l[i]);
        session_free(s);
    }
    ctx_release(&c);
    ctx_enter(mine);
    return NULL;
}

/* Checks that sessions of a model and of its candidate, opened and run at the same time, give the
 * same bits as alone, and that rows are packed once. */
static void test_threads(void) {
    static struct worker w[THREADS];
    pthread_t thread[THREADS];
    struct model *m = synthetic("Q4_K_M", D, D, LAYERS), *alone = NULL;
    struct err e = {0};
    if (!m) return;
    struct model *cand = with_weight(m, up_name, some_up(m, 4), QT_F32, free);
    CHECK_OK(model_open(&alone, tmp_path("s.gguf"), &e));
    for (int i = 0; i < THREADS; i++) {
        memset(&w[i], 0, sizeof w[i]);
        w[i].m = i == 2 ? cand : m;
        w[i].act = ACT_Q8;
        CHECK(pthread_create(&thread[i], NULL, work, &w[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    struct model *alone_cand = with_weight(alone, up_name, some_up(m, 4), QT_F32, free);
    const struct logits file = run(alone, ACT_Q8, true), other = run(alone_cand, ACT_Q8, true);
    CHECK_EQ_I64(model_packed_bytes(m, false), model_packed_bytes(alone, false));
    for (int i = 0; i < THREADS; i++) {
        if (w[i].rc) CHECK_FAIL("thread %d: %s", i, w[i].e.msg);
        for (int k = 0; k < ROUNDS; k++) CHECK(same(&w[i].l[k], i == 2 ? &other : &file));
    }
    CHECK(!same(&file, &other));
    model_close(alone_cand);
    model_close(alone);
    model_close(cand);
    model_close(m);
}

/* ---- drafts ---------------------------------------------------------------------------------- */

/* Checks that a draft model uses the trunk's embeddings and head, including replaced ones. */
static void test_draft_shares(void) {
    struct err e = {0};
    struct model *m = golden_open("tests/golden/models/qwen35moe", tmp_path("g.gguf")), *d = NULL;
    if (!m) return;
    CHECK_OK(model_open_draft(&d, m, &e));
    if (!d) return;
    int n_same = 0, n_own = 0;
    for (int i = 0; i < d->graph.n_weights; i++) {
        const struct weight *w = model_find_weight(m, d->graph.weight[d->source[i]].name);
        n_own += !w;
        n_same += w != NULL;
        CHECK(!w || weight_same(w, model_weight(d, i)));
    }
    CHECK(n_same >= 2 && n_own > 5);
    model_close(d);
    const struct weight *head = model_find_weight(m, "output.weight");
    void *zeros = xcalloc((size_t)(head->ne[0] * head->ne[1]), 4);
    struct model *cand = with_weight(m, "output.weight", zeros, QT_F32, free);
    CHECK_OK(model_open_draft(&d, cand, &e));
    CHECK(weight_same(model_find_weight(d, "output.weight"),
                      model_find_weight(cand, "output.weight")));
    model_close(cand); /* the draft still references its weights */
    CHECK(((const float *)model_find_weight(d, "output.weight")->data)[7] == 0.0f);
    model_close(d);
    model_close(m);
}

int main(void) {
    tmp_make();
    RUN(test_counts);
    RUN(test_first_change);
    RUN(test_candidate_is_the_file);
    RUN(test_use);
    RUN(test_packed_once);
    RUN(test_larger_than_memory);
    RUN(test_threads);
    RUN(test_draft_shares);
    RUN(test_fallback);
    tmp_remove();
    return check_done();
}
