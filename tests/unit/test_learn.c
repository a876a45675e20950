// SPDX-License-Identifier: MIT
/* tests/unit/test_learn.c - learned scales: the divergence from another model and its gradient,
 * compared with sums from ordinary passes and their differences; steps of blocks and of a whole
 * model whose scales are wrong by 10 %, which have one answer. */
#include <math.h>

#include "convert/convert.h"
#include "base/mem.h"
#include "base/rng.h"
#include "grad/grad.h"
#include "kernels/kern.h"
#include "mix/learn.h"
#include "quantize/enc/enc.h"
#include "quantize/learn.h"
#include "tests/check.h"
#include "tests/unit/micro.h"
#include "tests/unit/with.h"

enum { N = 20, BLOCKS = 12, STEPS = 400, CHUNKS = 24, PASSES = 8 };

/* ---- divergence ------------------------------------------------------------------------------ */

static struct session *session_of(const struct model *m) {
    struct err e;
    struct session *s = NULL;
    CHECK_OK(session_new(&s, m, &(struct session_opts){.n_ctx = N, .n_ubatch = N}, &e));
    return s;
}

struct other { /* the model that is aimed at */
    struct session *s;
    float *hidden;
    int64_t width;
};
static int aim(void *ud, int64_t t, int64_t n, float *logits, struct err *e) {
    const struct other *o = ud;
    return session_head(o->s, o->hidden + t * o->width, n, logits, e);
}

/* Sets lp [N][n] to the logarithms of a model's probabilities. */
static void log_probs(const struct model *m, const int32_t *ids, double *lp, int64_t n) {
    struct err e;
    struct session *s = session_of(m);
    const int64_t width = m->graph.reg_width[m->graph.hidden_out];
    float *hidden = xcalloc((size_t)(N * width), sizeof *hidden);
    float *logits = xcalloc((size_t)(N * n), sizeof *logits);
    CHECK_OK(session_forward(s, ids, N, hidden, &e));
    CHECK_OK(session_head(s, hidden, N, logits, &e));
    for (int64_t t = 0; t < N; t++) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++) sum += exp((double)logits[t * n + i]);
        for (int64_t i = 0; i < n; i++) lp[t * n + i] = (double)logits[t * n + i] - log(sum);
    }
    free(hidden);
    free(logits);
    session_free(s);
}
/* Returns the divergence of the second model from the first, summed over N tokens. */
static double divergence(const struct model *from, const struct model *of, const int32_t *ids) {
    const int64_t n = model_weight(from, from->graph.output)->ne[1];
    double *p = xcalloc((size_t)(2 * N * n), sizeof *p), *q = p + N * n, sum = 0;
    log_probs(from, ids, p, n);
    log_probs(of, ids, q, n);
    for (int64_t i = 0; i < N * n; i++) sum += exp(p[i]) * (p[i] - q[i]);
    free(p);
    return sum;
}

/* Tests the gradient with respect to the named weight of a model that differs from `m` in it. */
static void one(const struct model *m, const char *name) {
    struct err e;
    int32_t ids[N];
    for (int i = 0; i < N; i++) ids[i] = 11 * i % 200;
    struct model *now = with_scaled(m, name, 1.3f);
    struct grad *g = NULL;
    struct other o = {session_of(m), NULL, m->graph.reg_width[m->graph.hidden_out]};
    o.hidden = xcalloc((size_t)(N * o.width), sizeof *o.hidden);
    const struct weight *w = model_find_weight(now, name);
    struct with_factor f = {name, w->data, w->ne[1], w->ne[0], 0, 0};
    double loss = 0, again = 0;
    CHECK_OK(session_forward(o.s, ids, N, o.hidden, &e));
    CHECK_OK(grad_new(&g, now, N, kern_isa_best(), NULL, &e));
    grad_aim(g, aim, &o);
    grad_observe(g, with_factor_see, &f);
    CHECK_OK(grad_loss(g, ids, NULL, N, 0, &again, &e));
    CHECK(f.by == 0);
    CHECK_OK(grad_text(g, ids, NULL, N, 0, &loss, &e));
    CHECK(loss == again && loss > 0);
    const double want = divergence(m, now, ids);
    CHECK_CLOSE(loss, want, 1e-3 * want + 1e-5);
    double best = 1e300, slope = 0;
    for (float eps = 2e-2f; eps > 1e-3f; eps /= 3) {
        struct model *up = with_scaled(now, name, 1 + eps), *down = with_scaled(now, name, 1 - eps);
        const double by = (divergence(m, up, ids) - divergence(m, down, ids)) / (2 * (double)eps);
        if (fabs(by - f.by) < best) slope = by;
        best = fmin(best, fabs(by - f.by));
        model_close(up);
        model_close(down);
    }
    CHECK_CLOSE(f.by, slope, 0.02 * fabs(slope));
    grad_free(g);
    session_free(o.s);
    free(o.hidden);
    model_close(now);
}

static void test_divergence(void) {
    struct err e = {0};
    struct model *m = NULL;
    struct convert_report r;
    const struct convert_opts o = {.src = "tests/golden/models/qwen3",
                                   .out = tmp_path("m.gguf"),
                                   .type = "f32",
                                   .overwrite = true};
    CHECK_OK(convert_run(&o, &r, &e));
    CHECK_OK(model_open(&m, tmp_path("m.gguf"), &e));
    one(m, "blk.0.ffn_down.weight");
    one(m, "blk.0.attn_v.weight");
    model_close(m);
}

struct vectors { /* derivative along a direction of one vector */
    const char *name;
    float *along;
    double by;
    int n_seen;
};
static void see_vector(void *ud, const struct gr_weight *w, const double *d, int64_t n) {
    struct vectors *v = ud;
    if (strcmp(w->name, v->name) != 0) return;
    v->n_seen++;
    for (int64_t i = 0; i < n; i++) v->by += d[i] * (double)v->along[i];
}
/* Returns the model with one vector moved by `far` in a direction. */
static struct model *moved(const struct model *m, const struct vectors *v, float far) {
    const struct weight *w = model_find_weight(m, v->name);
    const int64_t n = (int64_t)(w->n_bytes / sizeof(float));
    float *data = xcalloc((size_t)n, sizeof *data);
    for (int64_t i = 0; i < n; i++) data[i] = ((const float *)w->data)[i] + far * v->along[i];
    return with_weight(m, v->name, data, QT_F32, free);
}
/* Compares the gradient of a vector along a random direction with differences of the loss. */
static void one_vector(const struct model *m, const char *name, const int32_t *ids) {
    struct err e;
    struct grad *g = NULL;
    struct rng rng;
    double loss;
    const struct weight *w = model_find_weight(m, name);
    CHECK(w && w->type == QT_F32);
    const int64_t n = (int64_t)(w->n_bytes / sizeof(float));
    struct vectors v = {.name = name, .along = xcalloc((size_t)n, sizeof(float))};
    rng_seed(&rng, 3);
    for (int64_t i = 0; i < n; i++) v.along[i] = rng_normal(&rng) * 0.1f;
    struct model *now = moved(m, &v, 3);
    struct other o = {session_of(m), NULL, m->graph.reg_width[m->graph.hidden_out]};
    o.hidden = xcalloc((size_t)(N * o.width), sizeof *o.hidden);
    CHECK_OK(session_forward(o.s, ids, N, o.hidden, &e));
    CHECK_OK(grad_new(&g, now, N, kern_isa_best(), NULL, &e));
    grad_aim(g, aim, &o);
    grad_observe_vectors(g, see_vector, &v);
    CHECK_OK(grad_text(g, ids, NULL, N, 0, &loss, &e));
    CHECK(v.n_seen > 0);
    double best = 1e300, slope = 0;
    for (float eps = 0.3f; eps > 2e-3f; eps /= 3) {
        struct model *up = moved(now, &v, eps), *down = moved(now, &v, -eps);
        const double by = (divergence(m, up, ids) - divergence(m, down, ids)) / (2 * (double)eps);
        if (fabs(by - v.by) < best) slope = by;
        best = fmin(best, fabs(by - v.by));
        model_close(up);
        model_close(down);
    }
    if (!(fabs(v.by - slope) <= 0.02 * fabs(slope)))
        CHECK_FAIL("%s: gradient %g, difference %g", name, v.by, slope);
    grad_free(g);
    session_free(o.s);
    free(o.hidden);
    free(v.along);
    model_close(now);
}

/* Tests the gradients of norms' factors and of biases: RMS norms of rows and of heads, gated norms,
 * LayerNorm, biases. */
static void test_vectors(void) {
    static const struct {
        const char *arch, *name[4];
    } all[] = {{"qwen3next",
                {"blk.0.ssm_norm.weight", "blk.3.attn_q_norm.weight", "blk.1.attn_norm.weight"}},
               {"gpt2",
                {"blk.0.attn_norm.weight", "blk.1.ffn_norm.bias", "blk.1.attn_qkv.bias",
                 "output_norm.bias"}}};
    for (size_t k = 0; k < COUNT_OF(all); k++) {
        struct err e;
        struct model *m = NULL;
        struct convert_report r;
        char *dir = xasprintf("tests/golden/archs/%s", all[k].arch);
        const struct convert_opts o = {.src = micro_folder(dir, NULL),
                                       .out = tmp_path("v.gguf"),
                                       .type = "f32",
                                       .overwrite = true};
        int32_t ids[N];
        CHECK_OK(convert_run(&o, &r, &e));
        CHECK_OK(model_open(&m, tmp_path("v.gguf"), &e));
        const int64_t vocab = model_weight(m, m->graph.output)->ne[1];
        for (int i = 0; i < N; i++) ids[i] = (int32_t)(11 * i % vocab);
        for (int i = 0; i < 4 && all[k].name[i]; i++) one_vector(m, all[k].name[i], ids);
        model_close(m);
        free(dir);
    }
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* Decodes blocks. */
static void decode(enum qtype type, const void *blk, float *to, int64_t n) {
    struct kern ref;
    kern_init(&ref, KERN_REF);
    ref.op[type].decode(blk, to, n);
}
/* Returns half the squared error of the blocks, and its gradient in g. */
static double error(enum qtype type, const uint8_t *blk, const float *want, float *g) {
    double sum = 0;
    const int n = BLOCKS * qtype_info(type)->block_elems;
    decode(type, blk, g, n);
    for (int i = 0; i < n; i++) {
        g[i] -= want[i];
        sum += (double)g[i] * (double)g[i] / 2;
    }
    return sum;
}
/* Encodes random weights. */
static void encode(enum qtype type, uint64_t seed, int64_t n, uint8_t *blk) {
    float *x = xcalloc((size_t)(2 * n), sizeof *x), *imp = x + n;
    struct rng r;
    rng_seed(&r, seed);
    for (int64_t i = 0; i < n; i++) {
        x[i] = 0.05f * rng_normal(&r);
        imp[i] = 1;
    }
    enc_find(type)->row(x, imp, n, blk, SEARCH_FAST);
    free(x);
}

/* Tests that blocks whose scales are wrong by 10 % find back to the weights that they were made
 * for, that all other bytes stay, and that the result does not depend on how blocks are divided. */
static void one_type(enum qtype type) {
    static float want[BLOCKS * QK], g[BLOCKS * QK];
    static uint8_t blk[BLOCKS * QK], before[BLOCKS * QK], parts[BLOCKS * QK];
    const struct qtype_info *t = qtype_info(type);
    const size_t n_bytes = (size_t)t->block_bytes * BLOCKS;
    struct learned *l = NULL, *of = NULL;
    struct err e;
    const int n = BLOCKS * t->block_elems;
    encode(type, 5, n, blk);
    decode(type, blk, want, n);
    for (int i = 0; i < n; i++) want[i] *= 1.1f;
    memcpy(before, blk, n_bytes);
    memcpy(parts, blk, n_bytes);
    CHECK_OK(learn_new(&l, type, blk, BLOCKS, &e));
    CHECK_OK(learn_new(&of, type, blk, BLOCKS, &e));
    memset(g, 0, sizeof g);
    learn_step(l, 0, BLOCKS, g, (struct learn_rate){.scale = 0.01}, 1, blk);
    learn_step(of, 0, BLOCKS, g, (struct learn_rate){.scale = 0.01}, 1, parts);
    CHECK(memcmp(blk, before, n_bytes) == 0); /* a gradient of 0 changes nothing */
    const double first = error(type, blk, want, g);
    for (int s = 0; s < STEPS; s++) {
        const struct learn_rate rate = {.scale = 0.003 * (1 - (double)s / STEPS)};
        (void)error(type, blk, want, g);
        learn_step(l, 0, BLOCKS, g, rate, s + 2, blk);
        (void)error(type, parts, want, g);
        learn_step(of, 5, BLOCKS, g + 5 * t->block_elems, rate, s + 2, parts);
        learn_step(of, 0, 5, g, rate, s + 2, parts);
    }
    CHECK(memcmp(blk, parts, n_bytes) == 0);
    const double left = error(type, blk, want, g) / first;
    if (!(left < 0.05)) CHECK_FAIL("%s: %g of the error is left", t->name, left);
    for (int b = 0; b < BLOCKS; b++) /* the same scales: the same block */
        for (int k = 0; k < t->scale.n; k++)
            memcpy(blk + b * t->block_bytes + t->scale.off[k],
                   before + b * t->block_bytes + t->scale.off[k], 2);
    CHECK(memcmp(blk, before, n_bytes) == 0);
    learn_free(l);
    learn_free(of);
}

static void test_blocks(void) {
    static const enum qtype types[] = {
        QT_Q2_K,  QT_Q3_K,    QT_Q4_K,  QT_Q5_K,   QT_Q6_K,  QT_IQ1_S, QT_IQ2_XXS, QT_IQ2_XS,
        QT_IQ2_S, QT_IQ3_XXS, QT_IQ3_S, QT_IQ4_XS, QT_TQ1_0, QT_TQ2_0, QT_Q4_0,    QT_Q4_1,
        QT_Q5_0,  QT_Q5_1,    QT_Q8_0,  QT_IQ4_NL, QT_Q1_0,  QT_Q2_0};
    int n = 0;
    for (int t = 0; t < QT_COUNT; t++) n += learn_can((enum qtype)t);
    CHECK_EQ_I64(n, COUNT_OF(types) + 1); /* and F32: test_values */
    for (size_t k = 0; k < COUNT_OF(types); k++) one_type(types[k]);
}

/* Tests that values of F32 find back. */
static void test_values(void) {
    enum { VALUES = 40 };
    float want[VALUES], x[VALUES], g[VALUES];
    struct learned *l = NULL;
    struct err e;
    for (int i = 0; i < VALUES; i++) {
        want[i] = i == 7 ? 0 : (float)(i - 20) * 0.05f + 0.02f;
        x[i] = want[i] * (i % 2 ? 1.2f : 0.9f);
    }
    CHECK_OK(learn_new(&l, QT_F32, x, VALUES, &e));
    for (int s = 0; s < STEPS; s++) {
        for (int i = 0; i < VALUES; i++) g[i] = x[i] - want[i];
        const struct learn_rate rate = {.scale = 0.003 * (1 - (double)s / STEPS)};
        learn_step(l, 0, 5, g, rate, s + 1, x);
        learn_step(l, 5, VALUES, g + 5, rate, s + 1, x);
    }
    for (int i = 0; i < VALUES; i++) CHECK_CLOSE(x[i], want[i], 1e-3 * fabs((double)want[i]));
    learn_free(l);
}

static void test_refused(void) {
    struct err e;
    struct learned *l = NULL;
    uint8_t blk[256] = {0};
    CHECK(!learn_can(QT_IQ1_M) && !learn_can(QT_MXFP4) && !learn_can(QT_F16));
    CHECK_ERR(learn_new(&l, QT_MXFP4, blk, 1, &e), ERR_USAGE, "MXFP4");
    CHECK(!l);
}

/* ---- a model --------------------------------------------------------------------------------- */

static const char matrix[] = "blk.1.ffn_down.weight", vector[] = "blk.1.ffn_norm.weight";

/* Learns the scales of the blocks blk of one weight of a model, in a pool of n_threads. */
static void learn(const struct model *base, const char *changed, uint8_t *blk, enum qtype type,
                  const int32_t *ids, int n_threads, struct learn_report *r) {
    struct err e;
    struct pool *pool = NULL;
    struct model *now = with_weight(base, changed, blk, type, NULL);
    CHECK_OK(pool_new(&pool, n_threads, &e));
    struct work w = {.isa = kern_isa_best(), .pool = pool};
    const struct learn_tensor t = {changed, blk};
    struct learn_opts o = {.w = &w, .base = base, .now = now, .tensor = &t, .n_tensors = 1};
    o.ids = ids;
    o.ctx = N;
    o.n_chunks = LEARN_LEAST_CHUNKS - 1;
    o.passes = PASSES;
    CHECK_ERR(learn_run(&o, r, &e), ERR_DATA, "8 chunks");
    o.n_chunks = CHUNKS;
    CHECK_OK(learn_run(&o, r, &e));
    model_close(now);
    pool_free(pool);
}

/* Returns the mean divergence of every eighth chunk with one weight replaced by blocks. */
static double held_out(const struct model *base, const char *changed, uint8_t *blk, enum qtype type,
                       const int32_t *ids) {
    struct model *now = with_weight(base, changed, blk, type, NULL);
    double sum = 0;
    for (int i = 7; i < CHUNKS; i += 8) sum += divergence(base, now, ids + (ptrdiff_t)i * N);
    model_close(now);
    return sum / (CHUNKS / 8 * N);
}

/* Tests that a model finds back to the original that differs from it by 10 % in the scales of
 * one matrix, and that its bytes do not depend on the number of threads. */
static void whole_model(const struct model *m, enum qtype type) {
    const struct weight *like = model_find_weight(m, matrix);
    const int64_t n = like->ne[0] * like->ne[1];
    const size_t n_bytes = (size_t)(n / QK) * (size_t)qtype_info(type)->block_bytes;
    float *x = xcalloc((size_t)n, sizeof *x);
    uint8_t *blk = xcalloc(2, n_bytes), *again = blk + n_bytes;
    int32_t ids[CHUNKS * N];
    struct rng rng;
    struct learn_report r, r2;
    rng_seed(&rng, 9);
    for (int i = 0; i < CHUNKS * N; i++) ids[i] = (int32_t)(rng_unit(&rng) * 1000);
    encode(type, 6, n, blk);
    memcpy(again, blk, n_bytes);
    decode(type, blk, x, n);
    for (int64_t i = 0; i < n; i++) x[i] *= 1.1f;
    struct model *base = with_weight(m, matrix, x, QT_F32, free);
    const double before = held_out(base, matrix, blk, type, ids);
    learn(base, matrix, blk, type, ids, 1, &r);
    CHECK_CLOSE(r.before, before, 1e-3 * before);
    CHECK_CLOSE(r.after, held_out(base, matrix, blk, type, ids), 1e-3 * before);
    CHECK(r.after < 0.3 * r.before);
    CHECK(r.n_weights == n && r.n_steps == PASSES * ((CHUNKS * 7 / 8 + 1) / 2));
    learn(base, matrix, again, type, ids, 2, &r2);
    CHECK(memcmp(blk, again, n_bytes) == 0 && r.after == r2.after && r.before == r2.before);
    free(blk);
    model_close(base);
}

/* Tests that a norm whose factors differ from the original's finds back. */
static void whole_vector(const struct model *base) {
    const struct weight *like = model_find_weight(base, vector);
    const int64_t n = like->ne[0];
    float *x = xcalloc((size_t)(2 * n), sizeof *x), *again = x + n;
    int32_t ids[CHUNKS * N];
    struct rng rng;
    struct learn_report r, r2;
    rng_seed(&rng, 10);
    for (int i = 0; i < CHUNKS * N; i++) ids[i] = (int32_t)(rng_unit(&rng) * 1000);
    for (int64_t i = 0; i < n; i++)
        again[i] = x[i] = ((const float *)like->data)[i] * (1 + 0.1f * rng_normal(&rng));
    learn(base, vector, (uint8_t *)x, QT_F32, ids, 1, &r);
    learn(base, vector, (uint8_t *)again, QT_F32, ids, 2, &r2);
    CHECK(r.after < 0.3 * r.before && r.n_weights == n);
    CHECK_CLOSE(r.after, held_out(base, vector, (uint8_t *)x, QT_F32, ids), 1e-3 * r.before);
    CHECK(memcmp(x, again, (size_t)n * sizeof *x) == 0 && r.after == r2.after);
    free(x);
}

static void test_model(void) {
    struct err e = {0};
    struct model *m = NULL;
    struct convert_report r;
    const struct convert_opts o = {.src = "tests/golden/models/mistral",
                                   .out = tmp_path("d.gguf"),
                                   .type = "f32",
                                   .overwrite = true};
    CHECK_OK(convert_run(&o, &r, &e));
    CHECK_OK(model_open(&m, tmp_path("d.gguf"), &e));
    whole_model(m, QT_Q2_K);
    whole_model(m, QT_IQ3_S);
    whole_vector(m);
    model_close(m);
}

int main(void) {
    tmp_make();
    RUN(test_divergence);
    RUN(test_vectors);
    RUN(test_blocks);
    RUN(test_values);
    RUN(test_refused);
    RUN(test_model);
    tmp_remove();
    return check_done();
}
