// SPDX-License-Identifier: MIT
/* tests/unit/test_slopes.c - slopes predicted from gradients, compared with divergences measured
 * for random errors of a known relative size in a group's weights; groups that no pass uses;
 * threads. */
#include "mix/slopes.h"
#include "convert/convert.h"
#include "base/mem.h"
#include "base/rng.h"
#include "runtime/engine/session.h"
#include "tests/check.h"
#include "tests/unit/micro.h"

enum { CTX = 32, WINDOWS = 12, N = CTX * WINDOWS };
static const double size = 1e-4; /* squared relative size of the errors */

static struct model *open_model(const char *folder) {
    struct err e = {0};
    struct model *m = NULL;
    struct convert_opts o = {
        .src = folder, .out = tmp_path("m.gguf"), .type = "f32", .overwrite = true};
    struct convert_report r;
    CHECK_OK(convert_run(&o, &r, &e));
    CHECK_OK(model_open(&m, tmp_path("m.gguf"), &e));
    return m;
}

static void logits(const struct model *m, const int32_t *ids, float *to) {
    struct err e;
    struct session *s;
    const struct session_opts o = {.n_ctx = CTX, .n_ubatch = CTX, .act = ACT_F32};
    const int64_t v = model_head(m)->ne[1], d = m->graph.reg_width[m->graph.hidden_out];
    float *hidden = xcalloc((size_t)(CTX * d), sizeof *hidden);
    CHECK_OK(session_new(&s, m, &o, &e));
    for (int w = 0; w < WINDOWS; w++) {
        session_reset(s);
        CHECK_OK(session_forward(s, ids + w * CTX, CTX, hidden, &e));
        CHECK_OK(session_head(s, hidden, CTX, to + w * CTX * v, &e));
    }
    session_free(s);
    free(hidden);
}

static double divergence(const float *p, const float *q, int64_t v) {
    double sum = 0, top[2] = {-1e300, -1e300}, all[2] = {0, 0};
    for (int64_t i = 0; i < v; i++) {
        top[0] = fmax(top[0], (double)p[i]);
        top[1] = fmax(top[1], (double)q[i]);
    }
    for (int64_t i = 0; i < v; i++) {
        all[0] += exp((double)p[i] - top[0]);
        all[1] += exp((double)q[i] - top[1]);
    }
    for (int64_t i = 0; i < v; i++) {
        const double log_p = (double)p[i] - top[0] - log(all[0]);
        sum += exp(log_p) * (log_p - ((double)q[i] - top[1] - log(all[1])));
    }
    return sum;
}

/* Returns a model whose matrices of a group have errors of the relative size `size` in each row. */
static struct model *with_errors(const struct model *m, const struct sens_group *g, struct rng *r) {
    struct err e;
    struct model *now = NULL;
    for (int k = 0; k < g->n_items; k++) {
        const char *name = gguf_tensor_at(m->gguf, g->item[k])->name;
        const struct weight *w = model_find_weight(m, name);
        const int64_t n = (int64_t)(w->n_bytes / sizeof(float)), ne0 = w->ne[0];
        float *data = xcalloc((size_t)n, sizeof *data);
        memcpy(data, w->data, (size_t)n * sizeof *data);
        for (int64_t i = 0; i < n; i += ne0) {
            double sum = 0;
            for (int64_t c = 0; c < ne0; c++) sum += (double)data[i + c] * (double)data[i + c];
            for (int64_t c = 0; c < ne0; c++)
                data[i + c] += (float)sqrt(size * sum / (double)ne0) * rng_normal(r);
        }
        struct weight to;
        struct model *next = NULL;
        CHECK_OK(weight_given(&to, w, name, data, QT_F32, free, &e));
        const struct model_change change = {name, &to};
        CHECK_OK(model_with(&next, now ? now : m, &change, 1, &e));
        weight_drop(&to);
        model_close(now);
        now = next;
    }
    return now;
}

/* Compares all groups of a model. least and most bound the ratio of predicted to measured
 * divergence; both have the noise of a few hundred tokens and one draw. */
static void compare(const char *folder, double least, double most) {
    struct err e;
    struct sens s;
    struct rng r;
    struct model *m = open_model(folder);
    const int64_t v = model_head(m)->ne[1];
    float *base = xcalloc((size_t)(N * v), sizeof *base), *cand = xcalloc((size_t)(N * v), 4);
    int32_t ids[N];
    rng_seed(&r, 5);
    for (int i = 0; i < N; i++) ids[i] = (int32_t)(rng_unit(&r) * (double)(v - 1));
    CHECK_OK(sens_init(&s, m->gguf, &e));
    CHECK_OK(slopes_measure(&s, m, NULL, &(struct slope_text){ids, WINDOWS, CTX}, kern_isa_best(),
                            NULL, &e));
    logits(m, ids, base);
    for (int i = 0; i < s.n_groups; i++) {
        double kld = 0;
        if (!model_find_weight(m, s.group[i].name)) { /* It belongs to a draft block. */
            CHECK(s.group[i].slope <= 0);
            continue;
        }
        struct model *c = with_errors(m, &s.group[i], &r);
        logits(c, ids, cand);
        for (int t = 0; t < N; t++) kld += divergence(base + t * v, cand + t * v, v) / N;
        model_close(c);
        const double ratio = s.group[i].slope * size / kld;
        if (!(ratio > least && ratio < most))
            CHECK_FAIL("%s: predicted %g, measured %g", s.group[i].name, s.group[i].slope * size,
                       kld);
    }
    sens_release(&s);
    model_close(m);
    free(base);
    free(cand);
}

static void test_divergences(void) {
    compare(micro_folder("tests/golden/archs/gemma2", NULL), .8, 1.25);
    compare("tests/golden/models/qwen35", .45, 2.2);
}

/* Checks that slopes have the same bits for any number of threads, and that a text in
 * which a layer selects keys, which has no derivative, is refused. */
static void test_threads(void) {
    struct err e;
    struct sens s[2];
    int32_t ids[2 * CTX];
    struct model *m = open_model("tests/golden/models/qwen35moe");
    for (int i = 0; i < 2 * CTX; i++) ids[i] = 7 * i % 200;
    const struct slope_text t = {ids, 2, CTX};
    for (int k = 0; k < 2; k++) {
        struct pool *pool;
        CHECK_OK(pool_new(&pool, 1 + 2 * k, &e));
        CHECK_OK(sens_init(&s[k], m->gguf, &e));
        CHECK_OK(slopes_measure(&s[k], m, NULL, &t, kern_isa_best(), pool, &e));
        pool_free(pool);
    }
    for (int i = 0; i < s[0].n_groups; i++)
        CHECK(memcmp(&s[0].group[i].slope, &s[1].group[i].slope, sizeof(double)) == 0);
    CHECK(s[0].group[0].slope > 0);
    sens_release(&s[0]);
    sens_release(&s[1]);
    model_close(m);
    m = open_model(micro_folder("tests/golden/archs/deepseek-v32-sparse", NULL));
    CHECK_OK(sens_init(&s[0], m->gguf, &e));
    const struct slope_text longer = {ids, 1, 2 * CTX};
    CHECK_ERR(slopes_measure(&s[0], m, NULL, &longer, kern_isa_best(), NULL, &e), ERR_USAGE,
              "use at most 32 tokens");
    sens_release(&s[0]);
    model_close(m);
}

int main(void) {
    tmp_make();
    RUN(test_divergences);
    RUN(test_threads);
    tmp_remove();
    return check_done();
}
