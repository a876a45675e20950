// SPDX-License-Identifier: MIT
/* tests/unit/with.h - helpers for tests: models with one weight replaced or scaled, and derivatives
 * with respect to the scale. */
#ifndef HONE_TESTS_WITH_H
#define HONE_TESTS_WITH_H

#include "base/mem.h"
#include "grad/grad.h"
#include "runtime/engine/model.h"
#include "tests/check.h"

/* Returns a model with one weight replaced. `data` is released with the last reference to the
 * weight; release NULL: it is borrowed. */
static inline struct model *with_weight(const struct model *of, const char *name, void *data,
                                        enum qtype type, void (*release)(void *)) {
    struct err e = {0};
    struct weight w = {0};
    struct model *m = NULL;
    const struct model_change c = {name, &w};
    CHECK_OK(weight_given(&w, model_find_weight(of, name), name, data, type, release, &e));
    CHECK_OK(model_with(&m, of, &c, 1, &e));
    weight_drop(&w);
    return m;
}
/* Returns the model with one F32 weight multiplied by `by`. */
static inline struct model *with_scaled(const struct model *m, const char *name, float by) {
    const struct weight *w = model_find_weight(m, name);
    const int64_t n = (int64_t)(w->n_bytes / sizeof(float));
    float *data = xcalloc((size_t)n, sizeof *data);
    for (int64_t i = 0; i < n; i++) data[i] = ((const float *)w->data)[i] * by;
    return with_weight(m, name, data, QT_F32, free);
}

struct with_factor { /* derivative with respect to a factor of one matrix */
    const char *name;
    const float *mat;
    int64_t rows, cols;
    double by;
    int other; /* calls for weights of other blocks */
};
/* Adds the derivative from a product's gradients; a grad_see_fn. */
static inline void with_factor_see(void *ud, const struct gr_weight *w, int64_t expert,
                                   const float *x, int64_t ld_x, const float *g, int64_t ld_g,
                                   int64_t n) {
    struct with_factor *f = ud;
    f->other += strncmp(w->name, f->name, strlen("blk.0.")) != 0;
    if (strcmp(w->name, f->name) != 0) return;
    const float *mat = f->mat + (expert < 0 ? 0 : expert) * f->rows * f->cols;
    for (int64_t t = 0; t < n; t++)
        for (int64_t r = 0; r < f->rows; r++)
            for (int64_t c = 0; c < f->cols; c++)
                f->by += (double)g[t * ld_g + r] * (double)mat[r * f->cols + c] *
                         (double)x[t * ld_x + c];
}

#endif
