// SPDX-License-Identifier: MIT
/* tests/unit/test_learn.c - learned scales: the divergence from another model and its gradient,
 * compared with sums from ordinary passes and their differences, and steps of blocks, compared with
 * a least-squares fit that has one answer. */
#include <math.h>

#include "convert/convert.h"
#include "base/mem.h"
#include "base/rng.h"
#include "grad/grad.h"
#include "kernels/kern.h"
#include "quantize/enc/super.h"
#include "quantize/learn.h"
#include "tests/check.h"
#include "tests/unit/micro.h"
#include "tests/unit/with.h"

enum { N = 20, BLOCKS = 12, STEPS = 400 };

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

/* Returns the model with one weight replaced by `by` times it. */
static struct model *scaled(const struct model *m, const char *name, float by) {
    const struct weight *w = model_find_weight(m, name);
    const int64_t n = (int64_t)(w->n_bytes / sizeof(float));
    float *data = xcalloc((size_t)n, sizeof *data);
    for (int64_t i = 0; i < n; i++) data[i] = ((const float *)w->data)[i] * by;
    return with_weight(m, name, data, QT_F32, free);
}

struct factor { /* derivative with respect to a factor of one weight */
    const char *name;
    const float *mat;
    int64_t rows, cols;
    double by;
};
static void see(void *ud, const struct gr_weight *w, int64_t expert, const float *x, int64_t ld_x,
                const float *g, int64_t ld_g, int64_t n) {
    struct factor *f = ud;
    if (strcmp(w->name, f->name) != 0) return;
    const float *mat = f->mat + (expert < 0 ? 0 : expert) * f->rows * f->cols;
    for (int64_t t = 0; t < n; t++)
        for (int64_t r = 0; r < f->rows; r++)
            for (int64_t c = 0; c < f->cols; c++)
                f->by += (double)g[t * ld_g + r] * (double)mat[r * f->cols + c] *
                         (double)x[t * ld_x + c];
}

/* Tests the gradient with respect to the named weight of a model that differs from `m` in it. */
static void one(const struct model *m, const char *name) {
    struct err e;
    int32_t ids[N];
    for (int i = 0; i < N; i++) ids[i] = 11 * i % 200;
    struct model *now = scaled(m, name, 1.3f);
    struct grad *g = NULL;
    struct other o = {session_of(m), NULL, m->graph.reg_width[m->graph.hidden_out]};
    o.hidden = xcalloc((size_t)(N * o.width), sizeof *o.hidden);
    const struct weight *w = model_find_weight(now, name);
    struct factor f = {name, w->data, w->ne[1], w->ne[0], 0};
    double loss = 0, again = 0;
    CHECK_OK(session_forward(o.s, ids, N, o.hidden, &e));
    CHECK_OK(grad_new(&g, now, N, kern_isa_best(), NULL, &e));
    grad_aim(g, aim, &o);
    grad_observe(g, see, &f);
    CHECK_OK(grad_loss(g, ids, NULL, N, 0, &again, &e));
    CHECK(f.by == 0);
    CHECK_OK(grad_text(g, ids, NULL, N, 0, &loss, &e));
    CHECK(loss == again && loss > 0);
    const double want = divergence(m, now, ids);
    CHECK_CLOSE(loss, want, 1e-3 * want + 1e-5);
    double best = 1e300, slope = 0;
    for (float eps = 2e-2f; eps > 1e-3f; eps /= 3) {
        struct model *up = scaled(now, name, 1 + eps), *down = scaled(now, name, 1 - eps);
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

/* ---- blocks ---------------------------------------------------------------------------------- */

/* Returns half the squared error of the blocks, and its gradient in g. */
static double error(enum qtype type, const uint8_t *blk, const float *want, float *g) {
    struct kern ref;
    double sum = 0;
    kern_init(&ref, KERN_REF);
    ref.op[type].decode(blk, g, BLOCKS * QK);
    for (int i = 0; i < BLOCKS * QK; i++) {
        g[i] -= want[i];
        sum += (double)g[i] * (double)g[i] / 2;
    }
    return sum;
}

/* Tests that blocks whose scales are wrong by a tenth find back to the weights that they were made
 * for, that codes stay, and that the bytes do not depend on how blocks are divided. */
static void test_blocks(void) {
    static const enum qtype types[] = {QT_Q2_K, QT_Q3_K};
    static float x[BLOCKS * QK], want[BLOCKS * QK], g[BLOCKS * QK];
    static uint8_t blk[BLOCKS * 128], before[BLOCKS * 128], parts[BLOCKS * 128];
    struct rng r;
    struct err e;
    rng_seed(&r, 5);
    for (int i = 0; i < BLOCKS * QK; i++) x[i] = 0.05f * rng_normal(&r);
    for (size_t k = 0; k < COUNT_OF(types); k++) {
        const enum qtype type = types[k];
        const size_t bytes = (size_t)qtype_info(type)->block_bytes;
        struct learned *l = NULL, *of = NULL;
        CHECK(learn_can(type));
        enc_row(enc_blocks_find(type), x, NULL, BLOCKS * QK, blk, SEARCH_FAST);
        memset(want, 0, sizeof want);
        (void)error(type, blk, want, g);
        for (int i = 0; i < BLOCKS * QK; i++) want[i] = g[i] * 1.1f;
        memcpy(before, blk, sizeof blk);
        CHECK_OK(learn_new(&l, type, blk, BLOCKS, &e));
        CHECK_OK(learn_new(&of, type, blk, BLOCKS, &e));
        memset(g, 0, sizeof g);
        learn_step(l, 0, BLOCKS, g, 0.01, 1, blk);
        CHECK(memcmp(blk, before, bytes * BLOCKS) == 0); /* a gradient of 0 changes nothing */
        memcpy(parts, blk, sizeof blk);
        learn_step(of, 0, BLOCKS, g, 0.01, 1, parts);
        const double first = error(type, blk, want, g);
        for (int s = 0; s < STEPS; s++) {
            (void)error(type, blk, want, g);
            learn_step(l, 0, BLOCKS, g, 0.003 * (1 - (double)s / STEPS), s + 2, blk);
            (void)error(type, parts, want, g);
            learn_step(of, 5, BLOCKS, g + 5 * QK, 0.003 * (1 - (double)s / STEPS), s + 2, parts);
            learn_step(of, 0, 5, g, 0.003 * (1 - (double)s / STEPS), s + 2, parts);
        }
        CHECK(memcmp(blk, parts, bytes * BLOCKS) == 0);
        CHECK_CLOSE(error(type, blk, want, g) / first, 0, 0.05);
        const size_t qs = type == QT_Q2_K ? 16 : 32; /* the codes' low bits: 64 bytes from here */
        for (int b = 0; b < BLOCKS; b++)
            CHECK(memcmp(blk + (size_t)b * bytes + qs, before + (size_t)b * bytes + qs, 64) == 0);
        learn_free(l);
        learn_free(of);
    }
}

static void test_refused(void) {
    struct err e;
    struct learned *l = NULL;
    uint8_t blk[256] = {0};
    CHECK(!learn_can(QT_IQ2_XS) && !learn_can(QT_Q8_0));
    CHECK_ERR(learn_new(&l, QT_Q8_0, blk, 1, &e), ERR_USAGE, "Q8_0");
    CHECK(!l);
}

int main(void) {
    tmp_make();
    RUN(test_divergence);
    RUN(test_blocks);
    RUN(test_refused);
    tmp_remove();
    return check_done();
}
