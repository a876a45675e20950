// SPDX-License-Identifier: MIT
/* tests/unit/test_grad.c - gradients compared with finite differences of the loss from ordinary
 * passes: the residual of each block is moved in random directions, and weights of the first block
 * and of experts are increased slightly. Also tests the number of threads, drawn answers,
 * sizes of gradients, and texts that are refused. */
#include "calib/gradients.h"
#include "calib/imatrix.h"
#include "calib/moments.h"
#include "convert/convert.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/out.h"
#include "base/rng.h"
#include "grad/grad.h"
#include "tests/check.h"
#include "tests/unit/micro.h"

enum { N = 24, MOST_BLOCKS = 64, MOST_WEIGHTS = 400 };

static struct model *open_model(const char *name, bool micro) {
    struct err e = {0};
    struct model *m = NULL;
    char *src = xasprintf("tests/golden/%s/%s", micro ? "archs" : "models", name);
    const bool bare = !strcmp(name, "gemma4e"); /* no tokenizer of its own */
    struct convert_opts o = {.src = micro ? micro_folder(src, NULL)
                                    : bare
                                        ? golden_edited(src, "tests/golden/models/gemma4moe", NULL)
                                        : src,
                             .out = tmp_path("m.gguf"),
                             .type = "f32",
                             .overwrite = true};
    struct convert_report r;
    CHECK_OK(convert_run(&o, &r, &e));
    CHECK_OK(model_open(&m, tmp_path("m.gguf"), &e));
    free(src);
    return m;
}

struct seen { /* derivative for a weight, from gradients */
    const struct gr_weight *w;
    double by; /* derivative of the loss with respect to a factor of the whole weight */
};
struct world {
    struct model *m;
    struct session *s;
    int32_t ids[N], answer[N];
    int64_t d;
    float *residual[MOST_BLOCKS], *grad[MOST_BLOCKS]; /* input of each block; NULL: not known */
    float *x, *hidden, *logits;
    struct seen seen[MOST_WEIGHTS];
    int n_seen;
};

static void see_residual(void *ud, int block, const float *g, int64_t n) {
    struct world *w = ud;
    w->grad[block] = xcalloc((size_t)(n * w->d), sizeof *g);
    memcpy(w->grad[block], g, (size_t)(n * w->d) * sizeof *g);
}
/* Adds g . (W x), the derivative of the loss with respect to a factor of W. */
static void see_product(void *ud, const struct gr_weight *gw, int64_t expert, const float *x,
                        int64_t ld_x, const float *g, int64_t ld_g, int64_t n) {
    struct world *w = ud;
    const struct weight *m = model_find_weight(w->m, gw->name);
    int at = 0;
    while (at < w->n_seen && strcmp(w->seen[at].w->name, gw->name) != 0) at++;
    if (at == MOST_WEIGHTS) return;
    if (at == w->n_seen) w->seen[w->n_seen++] = (struct seen){gw, 0};
    const float *mat = (const float *)m->data + (expert < 0 ? 0 : expert * m->ne[0] * m->ne[1]);
    for (int64_t t = 0; t < n; t++)
        for (int64_t r = 0; r < m->ne[1]; r++)
            for (int64_t c = 0; c < m->ne[0]; c++)
                w->seen[at].by += (double)g[t * ld_g + r] * (double)mat[r * m->ne[0] + c] *
                                  (double)x[t * ld_x + c];
}
static void keep(void *ud, const struct session_shown *r) {
    struct world *w = ud;
    const size_t n = (size_t)(r->n_rows * w->d);
    if (r->block < 0 || r->block + 1 >= MOST_BLOCKS || r->pos) return;
    w->residual[r->block + 1] = xcalloc(n, sizeof *r->x);
    memcpy(w->residual[r->block + 1], r->x, n * sizeof *r->x);
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

/* Returns the loss when the residual entering a block is moved by eps times v. */
static double moved(struct world *w, int block, const float *v, float eps) {
    struct err e;
    for (int64_t i = 0; i < N * w->d; i++) w->x[i] = w->residual[block][i] + eps * v[i];
    session_reset(w->s);
    const struct session_pass p = {
        .ids = w->ids, .n = N, .begin = block, .residual = w->x, .hidden = w->hidden};
    CHECK_OK(session_pass(w->s, &p, &e));
    return loss_of(w, w->s, w->hidden);
}

/* Compares derivatives along a direction. The best of three step sizes counts, because a step may
 * change the choice of experts. Returns the difference relative to |g| |v|. */
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

/* Returns the loss of a model in which a weight is larger by the factor 1 + eps. */
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

/* Returns the largest error of the derivatives with respect to weights. *at: the worst weight;
 * NULL: all are within tolerance. */
static double check_weights(struct world *w, const char **at, int *n) {
    double worst = 0;
    *at = NULL;
    *n = 0;
    for (int i = 0; i < w->n_seen; i++) {
        const struct seen *s = &w->seen[i];
        if (strncmp(s->w->name, "blk.0.", 6) != 0 && !strstr(s->w->name, "exps")) continue;
        double best = 1e300;
        for (float eps = 4e-3f; eps > 2e-4f; eps /= 4) {
            const double up = larger(w, s->w->name, eps), down = larger(w, s->w->name, -eps);
            best = fmin(best, fabs((up - down) / (2 * (double)eps) - s->by));
        }
        /* Losses are sums of N rounded numbers of size log(vocabulary). */
        if (best > 0.02 * fabs(s->by) + 0.02) *at = s->w->name;
        worst = fmax(worst, best / (fabs(s->by) + 1));
        ++*n;
    }
    return worst;
}

static double check_blocks(struct world *w) {
    struct rng r;
    double worst = 0;
    rng_seed(&r, 11);
    for (int b = 1; b < MOST_BLOCKS; b++) {
        if (!w->grad[b] || !w->residual[b] || !session_can_begin(w->s, b)) continue;
        worst = fmax(worst, along(w, b, &r));
    }
    return worst;
}

/* Tests a text drawn with `seed`. Returns whether all derivatives are right; with `last`, reports
 * failures. Even the smallest step may switch experts, so callers try a few texts. */
static bool run(struct world *w, const char *name, uint64_t seed, bool last) {
    struct err e;
    struct grad *g;
    struct session_opts o = {.n_ctx = N, .n_ubatch = N};
    struct rng r;
    const int64_t v = model_weight(w->m, w->m->graph.output)->ne[1];
    double loss;
    rng_seed(&r, seed);
    w->n_seen = 0;
    memset(w->residual, 0, sizeof w->residual);
    memset(w->grad, 0, sizeof w->grad);
    for (int i = 0; i < N; i++) {
        w->ids[i] = (int32_t)(rng_u64(&r) % (uint64_t)v);
        w->answer[i] = (int32_t)(rng_u64(&r) % (uint64_t)v);
    }
    w->d = w->m->graph.reg_width[w->m->graph.residual];
    w->x = xcalloc((size_t)(N * w->d), sizeof *w->x);
    w->hidden = xcalloc((size_t)(N * w->m->graph.reg_width[w->m->graph.hidden_out]), sizeof *w->x);
    w->logits = xcalloc((size_t)(N * v), sizeof *w->logits);
    CHECK_OK(session_new(&w->s, w->m, &o, &e));
    session_observe(w->s, &(struct session_probe){.ud = w, .residual = keep});
    CHECK_OK(session_forward(w->s, w->ids, N, w->hidden, &e));
    session_observe(w->s, NULL);
    const double want = loss_of(w, w->s, w->hidden);
    CHECK_OK(grad_new(&g, w->m, N, kern_isa_best(), NULL, &e));
    grad_observe(g, see_product, w);
    grad_observe_residual(g, see_residual, w);
    CHECK_OK(grad_text(g, w->ids, w->answer, N, 0, &loss, &e));
    CHECK(fabs(loss - want) < 1e-4 * want);
    grad_free(g);
    const char *at;
    int n;
    const double weights = check_weights(w, &at, &n), blocks = check_blocks(w);
    const bool right = !at && blocks < 0.05;
    if (right)
        printf("  %s: %d weights, off by at most %.1e, residuals by %.1e\n", name, n, weights,
               blocks);
    else if (last)
        CHECK_FAIL("%s: weights off by %g (%s), residuals by %g", name, weights, at ? at : "none",
                   blocks);
    session_free(w->s);
    for (int b = 0; b < MOST_BLOCKS; b++) {
        free(w->residual[b]);
        free(w->grad[b]);
    }
    free(w->x);
    free(w->hidden);
    free(w->logits);
    return right;
}

static void one(const char *name, bool micro) {
    struct world *w = xcalloc(1, sizeof *w);
    const char *missing = "";
    w->m = open_model(name, micro);
    bool can = grad_can(w->m, &missing);
    for (uint64_t k = 0; k < 4 && can && !run(w, name, 5 + k, k == 3); k++) continue;
    if (!can) printf("  %s: no derivative of %s\n", name, missing);
    model_close(w->m);
    free(w);
}

/* First the models that together cover every operation with a derivative, then the others, which
 * run on request (an argument). apertus's micro checkpoint has a discontinuous activation, so
 * finite differences mean nothing. */
static bool all;
static void test_models(void) {
    static const char *const models[] = {"qwen35moe", "gemma4moe", "gemma4e"};
    static const char *const few[] = {
        "gptoss", "lfm2moe",    "gpt2",        "qwen3next", "nemotron",   "glm4moe",
        "step35", "hunyuanmoe", "granitemoe",  "cohere2",   "ministral3", "deepseek-v3",
        "mamba2", "mamba",      "kimi-linear", "phimoe",    "llama4",     "gemma3n"};
    static const char *const micro[] = {
        "gemma2",     "gemma3",      "lfm2",       "phi3",           "gptneox",
        "olmoe",      "falcon",      "starcoder2", "stablelm",       "mixtral",
        "minimax-m2", "laguna",      "smollm3",    "ernie45moe",     "bailingmoe2",
        "dots1",      "mellum",      "exaonemoe",  "hyv3",           "mimo2",
        "afmoe",      "arcee",       "seed_oss",   "olmo2",          "jais2",
        "phi2",       "deepseek-v2", "youtu",      "glm4moe-lite",   "mistral4",
        "llamabias",  "glm4",        "nemotron_h", "nemotron_h_moe", "granitehybrid",
        "bamba",      "falcon-h1",   "jamba",      "falcon-mamba",   "nemotron3-super",
        "bailingmoe3"};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) one(models[i], false);
    for (size_t i = 0; i < sizeof few / sizeof *few; i++) one(few[i], true);
    for (size_t i = 0; i < sizeof micro / sizeof *micro && all; i++) one(micro[i], true);
}

/* ---- moments --------------------------------------------------------------------------------- */

struct sums { /* sums of a weight, by plain loops */
    const char *name;
    int64_t n, m;
    double *in, *out;
};
enum { N_SUMS = 3 };
static void sum_product(void *ud, const struct gr_weight *w, int64_t expert, const float *x,
                        int64_t ld_x, const float *g, int64_t ld_g, int64_t n) {
    struct sums *s = ud;
    int k = 0;
    while (k < N_SUMS && strcmp(s[k].name, w->name) != 0) k++;
    if (k == N_SUMS || expert > 0) return; /* Only the first expert is compared. */
    s += k;
    s->n = w->ne[0];
    s->m = w->ne[1];
    if (!s->in) s->in = xcalloc((size_t)(s->n * s->n), sizeof *s->in);
    if (!s->out) s->out = xcalloc((size_t)(s->m * s->m), sizeof *s->out);
    for (int64_t t = 0; t < n; t++) {
        double size = 0;
        for (int64_t i = 0; i < s->m; i++)
            size += (double)g[t * ld_g + i] * (double)g[t * ld_g + i];
        size = sqrt(size);
        for (int64_t i = 0; i < s->n; i++)
            for (int64_t j = 0; j < s->n; j++)
                s->in[i * s->n + j] += size * (double)x[t * ld_x + i] * (double)x[t * ld_x + j];
        for (int64_t i = 0; i < s->m; i++)
            for (int64_t j = 0; j < s->m; j++)
                s->out[i * s->m + j] += (double)g[t * ld_g + i] * (double)g[t * ld_g + j];
    }
}
static void same_sums(const struct gram *g, const char *name, const double *want, int64_t n) {
    const struct gram_input *in = gram_find(g, name);
    double top = 0, off = 0;
    CHECK(in && in->n == n);
    if (!in || in->n != n) return;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            if (i / in->block != j / in->block) continue;
            const int64_t at = i * in->block + j % in->block;
            top = fmax(top, fabs(want[i * n + j]));
            off =
                fmax(off, fabs(want[i * n + j] - (double)in->sum[0][at] - (double)in->sum[1][at]));
        }
    if (!(top > 0 && off < 1e-4 * top)) CHECK_FAIL("%s: off by %g of %g", name, off, top);
}

/* Compares imatrix_collect's output with sums of the same gradients. */
static void test_moments(void) {
    struct err e;
    struct model *m = open_model("qwen35moe", false);
    struct gram_col *col;
    struct grad *g;
    struct gram gram;
    struct imat im;
    struct ids ids = {0};
    struct sums s[N_SUMS] = {{.name = "blk.0.ssm_out.weight"},
                             {.name = "blk.0.ffn_up_exps.weight"},
                             {.name = "blk.0.attn_qkv.weight"}};
    char text[4096] = "", path[512], name[80];
    for (int i = 0; i < 90; i++)
        snprintf(text + strlen(text), 40, "line %d of %d words, ", i, i * i);
    snprintf(path, sizeof path, "%s", tmp_path("text.txt"));
    CHECK_OK(out_write_file(path, text, strlen(text), true, &e));
    const char *texts[] = {path};
    imat_init(&im);
    gram_init(&gram);
    CHECK_OK(gram_col_new(&col, 0, kern_isa_best(), NULL, &e));
    struct imatrix_opts o = {.texts = texts,
                             .n_texts = 1,
                             .ctx = N,
                             .max_chunks = 10,
                             .isa = kern_isa_best(),
                             .gram = col};
    CHECK_OK(imatrix_collect(m, &o, &im, &e));
    CHECK_OK(gram_col_finish(col, &gram, &e));
    CHECK_OK(corpus_load(m, path, false, &ids, &e));
    CHECK_OK(grad_new(&g, m, N, kern_isa_best(), NULL, &e));
    grad_observe(g, sum_product, s);
    for (uint32_t k = 0; k < im.n_chunks; k++)
        CHECK_OK(grad_text(g, ids.v + k * N, NULL, N, k, NULL, &e));
    CHECK(im.n_chunks == 10);
    for (int k = 0; k < N_SUMS; k++) {
        snprintf(name, sizeof name, GRAM_OUT "%s", s[k].name);
        same_sums(&gram, name, s[k].out, s[k].m);
    }
    same_sums(&gram, s[0].name, s[0].in, s[0].n);
    for (int k = 0; k < N_SUMS; k++) {
        free(s[k].in);
        free(s[k].out);
    }
    grad_free(g);
    gram_release(&gram);
    gram_col_free(col);
    imat_release(&im);
    ids_release(&ids);
    model_close(m);
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

/* Tests that products of heads, which are seen once per head, add to the tokens of their text only.
 */
static void test_sizes_of_heads(void) {
    struct err e;
    struct gram_col *col;
    struct gradients *g;
    struct model *m = open_model("deepseek-v3", true);
    const struct gr_node *n = graph_nth(&m->graph, OP_MATMUL_HEADS, 0);
    const struct gr_weight *w = &m->graph.weight[n->product.matrix];
    int32_t ids[N], token[N];
    float gate[N];
    for (int i = 0; i < N; i++) {
        ids[i] = 7 * i % 200;
        token[i] = i;
    }
    CHECK(w->ne[2] > 1);
    CHECK_OK(gram_col_new(&col, 0, kern_isa_best(), NULL, &e));
    CHECK_OK(gradients_new(&g, m, col, N, kern_isa_best(), NULL, &e));
    gradients_keep(g, 2 * N);
    CHECK_OK(gradients_text(g, ids, N, 0, &e));
    CHECK(gradients_gates(g, w, 0, token, NULL, N, gate) && gate[N - 1] > 0);
    CHECK(gradients_gates(g, w, N, token, NULL, N, gate));
    for (int i = 0; i < N; i++) CHECK(gate[i] == 0);
    gradients_free(g);
    gram_col_free(col);
    model_close(m);
}

/* Tests that a text longer than what attention to selected keys sees is refused. */
static void test_refused(void) {
    struct err e;
    struct grad *g;
    struct model *m = open_model("deepseek-v32-sparse", true);
    const char *missing = "";
    const int64_t top = graph_top_keys(&m->graph);
    CHECK(grad_can(m, &missing));
    CHECK(top > 0);
    CHECK(grad_new(&g, m, top + 1, kern_isa_best(), NULL, &e) == ERR_USAGE);
    CHECK(strstr(e.msg, "selected keys"));
    CHECK_OK(grad_new(&g, m, top, kern_isa_best(), NULL, &e));
    grad_free(g);
    model_close(m);
}

int main(int argc, char **argv) {
    all = argc > 1 && strcmp(argv[1], "all") == 0;
    tmp_make();
    RUN(test_models);
    RUN(test_moments);
    RUN(test_threads);
    RUN(test_sizes_of_heads);
    RUN(test_refused);
    tmp_remove();
    return check_done();
}
