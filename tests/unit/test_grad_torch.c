// SPDX-License-Identifier: MIT
/* tests/unit/test_grad_torch.c - gradients compared with PyTorch's autograd through transformers
 * (tests/oracle/grads.py): the residual's at every block, and each matrix's. */
#include "grad/grad.h"
#include "tests/unit/micro.h"

enum { MOST = 400, MOST_BLOCKS = 64 };
/* Fraction of the largest gradient of a block, and of |G| |W| of a matrix. We compute in f32,
 * PyTorch in double precision. bailingmoe3, whose gradients grow 450-fold over its blocks, needs
 * 9e-5, the others 6e-6. */
static const double tol = 2e-4;

struct product { /* gradient of one matrix */
    const struct gr_weight *w;
    int64_t expert;
    double *g; /* [rows][columns] */
};
struct world {
    struct model *m;
    struct st *st;
    struct product product[MOST];
    int n_products;
    float *block[MOST_BLOCKS];
    int64_t n, d;
};

static void see_residual(void *ud, int block, const float *g, int64_t n) {
    struct world *w = ud;
    w->block[block] = xcalloc((size_t)(n * w->d), sizeof *g);
    memcpy(w->block[block], g, (size_t)(n * w->d) * sizeof *g);
}
static void see_product(void *ud, const struct gr_weight *gw, int64_t expert, const float *x,
                        int64_t ld_x, const float *g, int64_t ld_g, int64_t n) {
    struct world *w = ud;
    int at = 0;
    while (at < w->n_products &&
           (strcmp(w->product[at].w->name, gw->name) != 0 || w->product[at].expert != expert))
        at++;
    if (at == MOST) return;
    struct product *p = &w->product[at];
    if (at == w->n_products) {
        *p = (struct product){gw, expert, xcalloc((size_t)(gw->ne[0] * gw->ne[1]), sizeof *p->g)};
        w->n_products++;
    }
    for (int64_t t = 0; t < n; t++)
        for (int64_t r = 0; r < gw->ne[1]; r++)
            for (int64_t c = 0; c < gw->ne[0]; c++)
                p->g[r * gw->ne[0] + c] += (double)g[t * ld_g + r] * (double)x[t * ld_x + c];
}

/* Returns the largest difference of the blocks' gradients relative to the block's largest. */
static double compare_blocks(const struct world *w, int *n_blocks) {
    double worst = 0;
    *n_blocks = 0;
    for (int64_t i = 0; i < st_n_tensors(w->st); i++) {
        int b;
        char end;
        int64_t n;
        const char *name = st_tensor_at(w->st, i)->name;
        if (sscanf(name, "blk.%d%c", &b, &end) != 1) continue;
        if (!w->block[b]) {
            CHECK_FAIL("no gradient of block %d", b);
            continue;
        }
        float *want = golden_floats(w->st, name, &n);
        double top = 0, off = 0;
        CHECK_EQ_I64(n, w->n * w->d / 4);
        for (int64_t k = 0; k < n; k++) {
            top = fmax(top, fabs((double)want[k]));
            off = fmax(off, fabs((double)want[k] - (double)w->block[b][4 * k]));
        }
        worst = fmax(worst, off / top);
        ++*n_blocks;
        free(want);
    }
    return worst;
}

/* Computes <G, W> and |G| |W| of a matrix, or of all experts. Returns whether it has a gradient. */
static bool sums_of(const struct world *w, const char *name, double *dot, double *size) {
    double gg = 0, ww = 0;
    bool any = false;
    *dot = 0;
    for (int k = 0; k < w->n_products; k++) {
        const struct product *p = &w->product[k];
        if (strcmp(p->w->name, name) != 0) continue;
        const int64_t n = p->w->ne[0] * p->w->ne[1];
        const float *mat = (const float *)model_find_weight(w->m, name)->data;
        for (int64_t i = 0; i < n; i++) {
            *dot += p->g[i] * (double)mat[(p->expert > 0 ? p->expert * n : 0) + i];
            gg += p->g[i] * p->g[i];
        }
        any = true;
    }
    if (!any) return false;
    const struct weight *m = model_find_weight(w->m, name);
    for (int64_t i = 0; i < m->ne[0] * m->ne[1] * m->ne[2]; i++)
        ww += (double)((const float *)m->data)[i] * (double)((const float *)m->data)[i];
    *size = sqrt(gg * ww);
    return true;
}

/* Returns the largest difference of the matrices' sums. scaled: the file's weights include factors
 * that are separate in transformers, which changes |G| |W|. */
static double compare_products(const struct world *w, bool scaled, const char **at, int *n) {
    double worst = 0;
    *n = 0;
    for (int64_t i = 0; i < st_n_tensors(w->st); i++) {
        const char *name = st_tensor_at(w->st, i)->name;
        int64_t two;
        double dot, size;
        if (!strstr(name, ".weight")) continue;
        float *want = golden_floats(w->st, name, &two);
        if (!sums_of(w, name, &dot, &size)) {
            CHECK_FAIL("no gradient of %s", name);
        } else {
            double off = fabs(dot - (double)want[0]) / (double)want[1];
            if (!scaled) off = fmax(off, fabs(size / (double)want[1] - 1));
            if (off > worst) *at = name;
            worst = fmax(worst, off);
            ++*n;
        }
        free(want);
    }
    return worst;
}

static int32_t *ints_of(const struct st *st, const char *name, int64_t *n) {
    float *f = golden_floats(st, name, n);
    int32_t *v = xcalloc((size_t)*n + 1, sizeof *v);
    for (int64_t i = 0; i < *n; i++) v[i] = (int32_t)f[i];
    free(f);
    return v;
}

static void one(const char *name, bool scaled) {
    struct err e = {0};
    struct world *w = xcalloc(1, sizeof *w);
    struct grad *g = NULL;
    char *dir = xasprintf("tests/golden/archs/%s", name);
    char *path = xasprintf("tests/golden/grads/%s.safetensors", name);
    const char *at = "none";
    int64_t n_answer, one_loss;
    int n_blocks, n_products;
    double loss = 0;
    w->m = golden_open(micro_folder(dir, NULL), tmp_path("m.gguf"));
    CHECK_OK(st_open(&w->st, path, &e));
    int32_t *ids = ints_of(w->st, "ids", &w->n), *answer = ints_of(w->st, "answer", &n_answer);
    float *want = golden_floats(w->st, "loss", &one_loss);
    w->d = w->m->graph.reg_width[w->m->graph.residual];
    CHECK_EQ_I64(w->n, n_answer);
    CHECK_OK(grad_new(&g, w->m, w->n, kern_isa_best(), NULL, &e));
    grad_observe(g, see_product, w);
    grad_observe_residual(g, see_residual, w);
    CHECK_OK(grad_text(g, ids, answer, w->n, 0, &loss, &e));
    CHECK(fabs(loss - (double)*want) < 1e-5 * loss);
    const double blocks = compare_blocks(w, &n_blocks);
    const double products = compare_products(w, scaled, &at, &n_products);
    printf("  %s: %d blocks, off by at most %.1e; %d matrices, by %.1e (%s)\n", name, n_blocks,
           blocks, n_products, products, at);
    if (!(blocks < tol && products < tol)) CHECK_FAIL("%s: gradients differ", name);
    grad_free(g);
    for (int k = 0; k < w->n_products; k++) free(w->product[k].g);
    for (int b = 0; b < MOST_BLOCKS; b++) free(w->block[b]);
    free(want);
    free(ids);
    free(answer);
    st_close(w->st);
    model_close(w->m);
    free(w);
    free(path);
    free(dir);
}

static void test_models(void) {
    static const char *const models[] = {
        "mamba2", "nemotron_h",   "nemotron_h_moe", "granitehybrid", "bamba",
        "mamba",  "falcon-mamba", "jamba",          "kimi-linear",   "bailingmoe3",
        "phimoe", "llama4",       "gemma3n"};
    for (size_t i = 0; i < COUNT_OF(models); i++) one(models[i], false);
    one("falcon-h1", true);
}

int main(void) {
    tmp_make();
    RUN(test_models);
    tmp_remove();
    return check_done();
}
