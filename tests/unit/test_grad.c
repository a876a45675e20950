// SPDX-License-Identifier: MIT
/* tests/unit/test_grad.c - gradients against differences of losses, which a session computes
 * without them: the residual of each block moved along random directions, and weights of the first
 * block and of experts made a little larger. Also: the number of threads, answers that are drawn,
 * models without a derivative. */
#include "convert/convert.h"
#include "core/mem.h"
#include "core/num.h"
#include "core/rng.h"
#include "runtime/grad/grad.h"
#include "tests/check.h"
#include "tests/unit/micro.h"

enum { N = 40, MOST_BLOCKS = 64, MOST_WEIGHTS = 400 };

static struct model *open_model(const char *name, bool micro) {
    struct err e = {0};
    struct model *m = NULL;
    char *src = xasprintf("tests/golden/%s/%s", micro ? "archs" : "models", name);
    struct convert_opts o = {.src = micro ? micro_folder(src, NULL) : src,
                             .out = tmp_path("m.gguf"),
                             .type = "f32",
                             .overwrite = true};
    struct convert_report r;
    CHECK_OK(convert_run(&o, &r, &e));
    CHECK_OK(model_open(&m, tmp_path("m.gguf"), &e));
    free(src);
    return m;
}

struct seen { /* what the gradients say of a weight */
    const struct gr_weight *w;
    double by; /* derivative of the loss by a factor of the whole weight */
};
struct world {
    struct model *m;
    struct session *s;
    int32_t ids[N], answer[N];
    int64_t d;
    float *residual[MOST_BLOCKS], *grad[MOST_BLOCKS]; /* what enters each block; NULL: not known */
    float *x, *hidden, *logits;
    struct seen seen[MOST_WEIGHTS];
    int n_seen;
};

static void see_residual(void *ud, int block, const float *g, int64_t n) {
    struct world *w = ud;
    w->grad[block] = xcalloc((size_t)(n * w->d), sizeof *g);
    memcpy(w->grad[block], g, (size_t)(n * w->d) * sizeof *g);
}
/* Adds g . (W x): how the loss changes with a factor of W. */
static void see_product(void *ud, const struct gr_weight *gw, int64_t expert, const float *x,
                        int64_t ld_x, const float *g, int64_t ld_g, int64_t n) {
    struct world *w = ud;
    const struct weight *m = model_find_weight(w->m, gw->name);
    int at = 0;
    while (at < w->n_seen && w->seen[at].w != gw) at++;
    if (at == MOST_WEIGHTS) return;
    if (at == w->n_seen) w->seen[w->n_seen++] = (struct seen){gw, 0};
    const float *mat = (const float *)m->data + (expert < 0 ? 0 : expert * m->ne[0] * m->ne[1]);
    for (int64_t t = 0; t < n; t++)
        for (int64_t r = 0; r < m->ne[1]; r++)
            for (int64_t c = 0; c < m->ne[0]; c++)
                w->seen[at].by += (double)g[t * ld_g + r] * (double)mat[r * m->ne[0] + c] *
                                  (double)x[t * ld_x + c];
}
static void keep(void *ud, int block, const float *x, int64_t n, int64_t pos) {
    struct world *w = ud;
    if (block < 0 || block + 1 >= MOST_BLOCKS || pos) return;
    w->residual[block + 1] = xcalloc((size_t)(n * w->d), sizeof *x);
    memcpy(w->residual[block + 1], x, (size_t)(n * w->d) * sizeof *x);
}

static double loss_of(struct world *w, struct session *s, const float *hidden) {
    struct err e;
    const int64_t v = model_weight(w->m, w->m->graph.output)->ne[1];
    double sum = 0;
    CHECK_OK(session_head(s, hidden, N, w->logits, &e));
    for (int64_t t = 0; t < N; t++) {
        const float *l = w->logits + t * v;
        double top = -1e300, all = 0;
        for (int64_t i = 0; i < v; i++) top = fmax(top, (double)l[i]);
        for (int64_t i = 0; i < v; i++) all += exp((double)l[i] - top);
        sum += top + log(all) - (double)l[w->answer[t]];
    }
    return sum;
}

/* The loss when the residual that enters a block is moved by eps times v. */
static double moved(struct world *w, int block, const float *v, float eps) {
    struct err e;
    for (int64_t i = 0; i < N * w->d; i++) w->x[i] = w->residual[block][i] + eps * v[i];
    session_reset(w->s);
    CHECK_OK(session_forward_from(w->s, block, w->x, w->ids, N, w->hidden, &e));
    return loss_of(w, w->s, w->hidden);
}

/* Compares along a direction; the best of three sizes of steps counts, because a step may cross
 * the place where another expert is chosen. Returns the difference relative to |g| |v|. */
static double along(struct world *w, int block, struct rng *r) {
    float *v = xcalloc((size_t)(N * w->d), sizeof *v);
    double want = 0, g2 = 0, v2 = 0, best = 1e300, x2 = 0;
    for (int64_t i = 0; i < N * w->d; i++) {
        v[i] = rng_normal(r);
        want += (double)v[i] * (double)w->grad[block][i];
        g2 += (double)w->grad[block][i] * (double)w->grad[block][i];
        v2 += (double)v[i] * (double)v[i];
        x2 += (double)w->residual[block][i] * (double)w->residual[block][i];
    }
    const double size = sqrt(x2 / v2);
    for (float step = 3e-3f; step > 1e-4f; step /= 4) {
        const float eps = step * (float)size;
        const double got = (moved(w, block, v, eps) - moved(w, block, v, -eps)) / (2 * (double)eps);
        best = fmin(best, fabs(got - want) / sqrt(g2 * v2 / (double)(N * w->d)));
    }
    free(v);
    return best;
}

/* The loss of a model in which a weight is larger by the factor 1 + eps. */
static double larger(struct world *w, const char *name, float eps) {
    struct err e;
    const struct weight *like = model_find_weight(w->m, name);
    const int64_t n = (int64_t)(like->n_bytes / sizeof(float));
    float *data = xcalloc((size_t)n, sizeof *data);
    struct weight to;
    struct model *m;
    struct session *s;
    struct session_opts o = {.n_ctx = N, .n_ubatch = N};
    for (int64_t i = 0; i < n; i++) data[i] = ((const float *)like->data)[i] * (1 + eps);
    CHECK_OK(weight_given(&to, like, name, data, QT_F32, free, &e));
    const struct model_change change = {name, &to};
    CHECK_OK(model_with(&m, w->m, &change, 1, &e));
    CHECK_OK(session_new(&s, m, &o, &e));
    CHECK_OK(session_forward(s, w->ids, N, w->hidden, &e));
    const double loss = loss_of(w, s, w->hidden);
    session_free(s);
    model_close(m);
    weight_drop(&to);
    return loss;
}

static void check_weights(struct world *w, const char *name) {
    double worst = 0;
    int n = 0;
    for (int i = 0; i < w->n_seen; i++) {
        const struct seen *s = &w->seen[i];
        if (strncmp(s->w->name, "blk.0.", 6) != 0 && !strstr(s->w->name, "exps")) continue;
        double best = 1e300;
        for (float eps = 4e-3f; eps > 2e-4f; eps /= 4) {
            const double up = larger(w, s->w->name, eps), down = larger(w, s->w->name, -eps);
            best = fmin(best, fabs((up - down) / (2 * (double)eps) - s->by));
        }
        /* Losses are sums of N rounded numbers of size log(vocabulary). */
        if (best > 0.02 * fabs(s->by) + 0.02)
            CHECK_FAIL("%s: %s: derivative %g, off by %g", name, s->w->name, s->by, best);
        worst = fmax(worst, best / (fabs(s->by) + 1));
        n++;
    }
    printf("  %s: %d weights, off by at most %.1e", name, n, worst);
}

static void check_blocks(struct world *w, const char *name) {
    struct rng r;
    double worst = 0;
    rng_seed(&r, 11);
    for (int b = 1; b < MOST_BLOCKS; b++) {
        if (!w->grad[b] || !w->residual[b] || !session_can_begin(w->s, b)) continue;
        for (int k = 0; k < 2; k++) {
            const double off = along(w, b, &r);
            if (off > 0.05) CHECK_FAIL("%s: block %d: off by %g of the gradient", name, b, off);
            worst = fmax(worst, off);
        }
    }
    printf(", residuals by %.1e\n", worst);
}

static void run(struct world *w, const char *name) {
    struct err e;
    struct grad *g;
    struct session_opts o = {.n_ctx = N, .n_ubatch = N};
    struct rng r;
    const int64_t v = model_weight(w->m, w->m->graph.output)->ne[1];
    double loss;
    rng_seed(&r, 5);
    for (int i = 0; i < N; i++) {
        w->ids[i] = (int32_t)(rng_u64(&r) % (uint64_t)v);
        w->answer[i] = (int32_t)(rng_u64(&r) % (uint64_t)v);
    }
    w->d = w->m->graph.reg_width[w->m->graph.residual];
    w->x = xcalloc((size_t)(N * w->d), sizeof *w->x);
    w->hidden = xcalloc((size_t)(N * w->m->graph.reg_width[w->m->graph.hidden_out]), sizeof *w->x);
    w->logits = xcalloc((size_t)(N * v), sizeof *w->logits);
    CHECK_OK(session_new(&w->s, w->m, &o, &e));
    session_observe_hidden(w->s, keep, w);
    CHECK_OK(session_forward(w->s, w->ids, N, w->hidden, &e));
    session_observe_hidden(w->s, NULL, NULL);
    const double want = loss_of(w, w->s, w->hidden);
    CHECK_OK(grad_new(&g, w->m, N, kern_isa_best(), NULL, &e));
    grad_observe(g, see_product, w);
    grad_observe_residual(g, see_residual, w);
    CHECK_OK(grad_text(g, w->ids, w->answer, N, 0, &loss, &e));
    CHECK(fabs(loss - want) < 1e-4 * want);
    grad_free(g);
    check_weights(w, name);
    check_blocks(w, name);
    session_free(w->s);
    for (int b = 0; b < MOST_BLOCKS; b++) {
        free(w->residual[b]);
        free(w->grad[b]);
    }
    free(w->x);
    free(w->hidden);
    free(w->logits);
}

static void one(const char *name, bool micro) {
    struct world *w = xcalloc(1, sizeof *w);
    const char *missing = "";
    w->m = open_model(name, micro);
    if (grad_can(w->m, &missing))
        run(w, name);
    else
        printf("  %s: no derivative of %s\n", name, missing);
    model_close(w->m);
    free(w);
}

static void test_models(void) {
    static const char *const models[] = {"qwen35",  "qwen35moe", "qwen3",       "qwen3moe",
                                         "mistral", "qwen2",     "gemma4dense", "gemma4moe"};
    static const char *const micro[] = {
        "gemma2",     "gemma3",  "gptoss",    "glm4moe",    "lfm2",        "lfm2moe",  "phi3",
        "gpt2",       "gptneox", "olmoe",     "falcon",     "starcoder2",  "stablelm", "cohere2",
        "granitemoe", "mixtral", "qwen3next", "nemotron",   "apertus",     "step35",   "minimax-m2",
        "hunyuanmoe", "laguna",  "smollm3",   "ernie45moe", "bailingmoe2", "dots1",    "mellum",
        "exaonemoe",  "hyv3",    "mimo2",     "afmoe",      "phimoe",      "llama4"};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) one(models[i], false);
    for (size_t i = 0; i < sizeof micro / sizeof *micro; i++) one(micro[i], true);
}

/* ---- threads, answers, refusals -------------------------------------------------------------- */

static void hash_product(void *ud, const struct gr_weight *w, int64_t expert, const float *x,
                         int64_t ld_x, const float *g, int64_t ld_g, int64_t n) {
    uint64_t *h = ud;
    (void)ld_x, (void)expert, (void)x;
    for (int64_t t = 0; t < n; t++)
        for (int64_t i = 0; i < w->ne[1]; i++) {
            uint32_t bits;
            memcpy(&bits, g + t * ld_g + i, sizeof bits);
            *h = (*h ^ bits) * 0x100000001b3u;
        }
}
static uint64_t drawn(const struct model *m, int threads, uint64_t seed) {
    struct err e;
    struct pool *pool;
    struct grad *g;
    int32_t ids[N];
    uint64_t h = 1;
    for (int i = 0; i < N; i++) ids[i] = 7 * i % 200;
    CHECK_OK(pool_new(&pool, threads, &e));
    CHECK_OK(grad_new(&g, m, N, kern_isa_best(), pool, &e));
    grad_observe(g, hash_product, &h);
    CHECK_OK(grad_text(g, ids, NULL, N, seed, NULL, &e));
    CHECK_OK(grad_text(g, ids, NULL, N - 7, seed, NULL, &e));
    CHECK(grad_text(g, ids, NULL, N + 1, seed, NULL, &e) == ERR_USAGE);
    grad_free(g);
    pool_free(pool);
    return h;
}
static void test_threads(void) {
    static const char *const names[] = {"qwen35moe", "qwen3"};
    for (int i = 0; i < 2; i++) {
        struct model *m = open_model(names[i], false);
        const uint64_t h = drawn(m, 1, 3);
        CHECK(h == drawn(m, 3, 3));
        CHECK(h != drawn(m, 1, 4));
        model_close(m);
    }
}

static void test_refused(void) {
    struct err e;
    struct grad *g;
    struct model *m = open_model("mamba2", true);
    const char *missing = NULL;
    CHECK(!grad_can(m, &missing));
    CHECK(missing && strcmp(missing, "mamba2") == 0);
    CHECK(grad_new(&g, m, N, kern_isa_best(), NULL, &e) == ERR_DATA);
    model_close(m);
}

int main(void) {
    tmp_make();
    RUN(test_models);
    RUN(test_threads);
    RUN(test_refused);
    tmp_remove();
    return check_done();
}
