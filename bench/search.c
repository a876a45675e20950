// SPDX-License-Identifier: MIT
/* bench/search.c - weighted error of the fast and best searches compared with conventional, per
 * type.
 *
 * search [MODEL.gguf IMATRIX.gguf]: prints JSON. Rows: Gaussian, Student t (5), log-normal mixture
 * (importance log-normal, 0.3 % of columns x50), and one row in 24 of every model tensor with
 * importance. The error is sum w*(x - x^)^2 with w = importance; "worse" counts blocks whose error
 * under the search's own weights is above the conventional one's. Times are for one thread, the
 * fastest row. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "containers/gguf.h"
#include "quantize/imat_file.h"
#include "base/mem.h"
#include "base/progress.h"
#include "base/rng.h"
#include "kernels/kern.h"
#include "quantize/enc/search.h"
#include "quantize/recipe.h"

enum { SYNTH_N = 2048, SYNTH_ROWS = 32, EVERY = 24 };
static const struct {
    enum qtype type;
    double target; /* for best; 0: no target */
} rows[] = {
    {QT_Q2_K, 0.88},   {QT_Q3_K, 0.95},  {QT_Q4_K, 0.92},   {QT_Q5_K, 0.84},  {QT_Q6_K, 0.82},
    {QT_IQ4_XS, 0.90}, {QT_IQ4_NL, 0.9}, {QT_IQ3_XXS, .86}, {QT_IQ3_S, 0.82}, {QT_IQ2_XXS, 0},
    {QT_IQ2_XS, 0},    {QT_IQ2_S, 0},    {QT_IQ1_S, 0},     {QT_IQ1_M, 0},    {QT_Q4_0, 0},
    {QT_Q4_1, 0},      {QT_Q5_0, 0},     {QT_Q5_1, 0},      {QT_Q8_0, 0},     {QT_MXFP4, 0},
    {QT_NVFP4, 0},
};
static const enum search modes[3] = {SEARCH_CONVENTIONAL, SEARCH_FAST, SEARCH_BEST};

struct tally {
    double err[3], own[3], us[3], energy;
    int64_t blocks, worse[3];
};

static struct kern ref;

/* Measures one type. Weights without importance ("rms + |x|") do not occur here. */
static void measure(enum qtype t, const float *x, const float *imp, int64_t n, struct tally *s) {
    const int block = qtype_info(t)->block_elems;
    const struct wrule rule = enc_wrule(t, SEARCH_FAST);
    const float row_mean2 = enc_mean2(x, n);
    uint8_t *blk = xcalloc((size_t)n, 4);
    float *y = xcalloc((size_t)n, sizeof *y), w[QK];
    double *base = xcalloc((size_t)(n / block), sizeof *base);
    for (int m = 0; m < 3; m++) {
        double t0 = progress_now_s();
        enc_find(t)->row(x, imp, n, blk, modes[m]);
        double us = 1e6 * (progress_now_s() - t0) * 256.0 / (double)n;
        if (s->us[m] <= 0 || us < s->us[m]) s->us[m] = us;
        ref.op[t].decode(blk, y, n);
        for (int64_t b = 0; b < n / block; b++) {
            const int64_t at = b * block;
            double own = 0;
            enc_weights(w, x + at, imp + at, block, &rule,
                        rule.scope == 0 ? row_mean2 : enc_mean2(x + at, block), 16);
            for (int i = 0; i < block; i++) {
                double d = (double)y[at + i] - (double)x[at + i], q = (double)imp[at + i];
                s->err[m] += q * d * d;
                own += (double)w[i] * d * d;
                if (m == 0) s->energy += q * (double)x[at + i] * (double)x[at + i];
            }
            s->own[m] += own;
            if (m == 0) base[b] = own;
            s->worse[m] += own > base[b] * (1 + 1e-6);
        }
    }
    s->blocks += n / block;
    free(blk);
    free(y);
    free(base);
}

/* Prints the errors of a type on a source; row: the type's number. */
static void print_tally(const char *source, int row, const struct tally *s) {
    static bool any;
    printf("%s  {\"type\": \"%s\", \"source\": \"%s\", \"blocks\": %lld, "
           "\"conventional_relative_rmse\": %.5f, \"fast_mse_ratio\": %.4f, "
           "\"best_mse_ratio\": %.4f, \"worse_blocks_fast\": %lld, \"worse_blocks_best\": %lld, "
           "\"us_per_256\": [%.1f, %.1f, %.1f], ",
           any ? ",\n" : "", qtype_name(rows[row].type), source, (long long)s->blocks,
           sqrt(s->err[0] / s->energy), s->err[1] / s->err[0], s->err[2] / s->err[0],
           (long long)s->worse[1], (long long)s->worse[2], s->us[0], s->us[1], s->us[2]);
    if (rows[row].target > 0)
        printf("\"target\": %.2f, \"met\": %s}", rows[row].target,
               s->err[2] / s->err[0] <= rows[row].target ? "true" : "false");
    else
        printf("\"target\": null}");
    any = true;
    fflush(stdout);
}

static double random_gauss(struct rng *r) {
    double u = rng_unit(r) + 1e-300, v = rng_unit(r);
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

/* Measures a type on random weights of the kind: Gaussian, Student t or log-normal. */
static void run_synthetic(int kind, int row) {
    static const char *const name[3] = {"gaussian", "student_t5", "log_normal"};
    static float x[SYNTH_N], imp[SYNTH_N];
    struct tally s = {.blocks = 0};
    struct rng r;
    rng_seed(&r, 100 + (uint64_t)kind);
    for (int k = 0; k < SYNTH_ROWS; k++) {
        for (int i = 0; i < SYNTH_N; i++) {
            double g = random_gauss(&r), t = 0;
            for (int j = 0; j < 5 && kind == 1; j++) {
                double z = random_gauss(&r);
                t += z * z;
            }
            if (kind == 1) g /= sqrt(t / 5);
            if (kind == 2) g *= exp(0.5 * random_gauss(&r));
            x[i] = (float)(0.02 * g);
            imp[i] = (float)exp(random_gauss(&r));
            if (rng_unit(&r) < 0.003) imp[i] *= 50;
        }
        measure(rows[row].type, x, imp, SYNTH_N, &s);
    }
    print_tally(name[kind], row, &s);
}

/* Adds the errors on a tensor's rows to the tally. */
static void run_tensor(const struct gguf_tensor *t, struct imat_entry *en, int row,
                       struct tally *s) {
    const int64_t n = t->ne[0], n_mat = t->ne[2] * t->ne[3], n_rows = t->ne[1] * n_mat;
    float *imp = xcalloc((size_t)(n * n_mat), sizeof *imp), *x = xcalloc((size_t)n, sizeof *x);
    const uint64_t bytes = qtype_row_bytes(t->type, n);
    imat_weights(en, 256, imp);
    for (int64_t i = EVERY / 2; i < n_rows; i += EVERY) {
        ref.op[t->type].decode(t->data + (uint64_t)i * bytes, x, n);
        measure(rows[row].type, x, imp + i / t->ne[1] * n, n, s);
    }
    free(imp);
    free(x);
}

/* Measures a type on all suitable tensors of a model. */
static void run_model(struct gguf *g, struct imat *im, int row) {
    struct tally s = {.blocks = 0};
    struct err e;
    for (int64_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        struct imat_entry *en = imat_find(im, t->name);
        if (!en || t->ne[0] % qtype_info(rows[row].type)->block_elems != 0) continue;
        if (imat_fit(en, t->ne[0], t->ne[2] * t->ne[3], &e) == 0) run_tensor(t, en, row, &s);
    }
    print_tally("model", row, &s);
}

int main(int argc, char **argv) {
    struct gguf *g = NULL;
    struct imat im;
    struct err e;
    kern_init(&ref, KERN_REF);
    imat_init(&im);
    if (argc == 3 && (gguf_open(&g, argv[1], 0, &e) != 0 || imat_read(&im, argv[2], &e) != 0)) {
        fprintf(stderr, "%s\n", e.msg);
        return 1;
    }
    printf("[\n");
    for (size_t k = 0; k < COUNT_OF(rows); k++) {
        for (int kind = 0; kind < 3; kind++) run_synthetic(kind, (int)k);
        if (g) run_model(g, &im, (int)k);
    }
    printf("\n]\n");
    imat_release(&im);
    gguf_close(g);
    return 0;
}
