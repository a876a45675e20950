// SPDX-License-Identifier: MIT
/* mix/sens_gain.c - gain of error feedback: for each tensor and type, the ratio of the held-out
 * error with feedback to that without, on the sampled rows by which the shrinkage is chosen
 * (fb_tensor.c). Types that do not support feedback keep 1, so the solver knows which types gain,
 * and how much. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/progress.h"
#include "kernels/kern.h"
#include "quantize/embd_moments.h"
#include "quantize/fb_tensor.h"
#include "quantize/feedback.h"
#include "mix/sens.h"

struct rows {
    const struct gguf_tensor *t;
    const struct kern *ref;
    struct factors *factors; /* shared by all tensors and types */
};

/* Decodes row `row`; returns false if it has a value that is not finite. */
static bool load_row(void *ctx, int64_t row, float *x) {
    const struct rows *r = ctx;
    int64_t n = r->t->ne[0];
    r->ref->op[r->t->type].decode(r->t->data + (uint64_t)row * qtype_row_bytes(r->t->type, n), x,
                                  n);
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return false;
    return true;
}

/* Computes the gain of error feedback for one tensor in one type: the ratio of the error with
 * feedback to the error without. 1: no feedback. */
static int tensor_gain(const struct rows *r, const struct gram_input *in, const float *imp,
                       enum qtype type, const struct sens_feedback *f, double *gain,
                       struct err *e) {
    int64_t n_mat = r->t->ne[2] * r->t->ne[3];
    struct rows rows = *r;
    struct fb_tensor *fb;
    *gain = 1;
    /* Quantization will reject moments of a different shape, with an error that names the
     * tensor. */
    if (!feedback_can(type) || !in || in->n != r->t->ne[0] ||
        (in->n_mat != 1 && in->n_mat != n_mat))
        return 0;
    const struct fb_source src = {.in = in,
                                  .out = gram_find_out(f->gram, r->t->name, r->t->ne[1], n_mat),
                                  .type = type,
                                  .search = f->search,
                                  .n = r->t->ne[0],
                                  .rows = r->t->ne[1],
                                  .n_mat = n_mat,
                                  .imp = imp,
                                  .load = load_row,
                                  .ctx = &rows,
                                  .tau = IMAT_TAU,
                                  .steps = FEEDBACK_ALL & ~f->without,
                                  .pool = f->pool,
                                  .factors = r->factors};
    TRY(fb_tensor_new(&fb, &src, e));
    *gain = fmin(1, fmax(.05, fb_tensor_gain(fb)));
    fb_tensor_free(fb);
    return 0;
}

/* Like tensor_gain, but takes the gain from the results cache if possible. */
static int gain_or_kept(const struct rows *r, const struct gram_input *in, const float *imp,
                        enum qtype type, const struct sens_feedback *f, double *gain,
                        struct err *e) {
    char *which =
        xasprintf("gain 4 %s %s %d %u", r->t->name, qtype_name(type), (int)f->search, f->without);
    int rc = 0;
    if (!results_cache_get(f->keep, which, gain, sizeof *gain)) {
        rc = tensor_gain(r, in, imp, type, f, gain, e);
        if (!rc && progress_interrupted()) rc = err_set(e, ERR_INTR, "interrupted");
        if (!rc) results_cache_put(f->keep, which, gain, sizeof *gain);
    }
    free(which);
    return rc;
}

/* Estimates how much error feedback lowers the group's error, for each type. */
static int group_gains(struct sens_group *g, const struct gguf *gf, const struct kern *ref,
                       const struct sens_feedback *f, const struct embd_moments *embd,
                       struct factors *factors, struct err *e) {
    double sum[QT_COUNT] = {0};
    for (int i = 0; i < g->n_items; i++) {
        const struct rows r = {gguf_tensor_at(gf, g->item[i]), ref, factors};
        const struct gram_input *in = embd_moments_find(embd, f->gram, r.t->name);
        float *imp = NULL;
        int rc = sens_importance(f->imat, r.t, &imp, e);
        factors_next(factors);
        for (int t = 0; t < QT_COUNT && !rc; t++) {
            double gain = 1;
            if (!g->can[t] || g->err[t] < 0) continue;
            rc = gain_or_kept(&r, in, imp, (enum qtype)t, f, &gain, e);
            sum[t] += gain / g->n_items;
        }
        mem_free(imp);
        if (rc) return rc;
    }
    for (int t = 0; t < QT_COUNT; t++)
        if (g->can[t] && g->err[t] >= 0) g->gain[t] = sum[t];
    return 0;
}

int sens_gains(struct sens *s, const struct gguf *g, const struct sens_feedback *f, struct err *e) {
    struct kern ref;
    struct progress prog = {0};
    struct embd_moments embd;
    TRY(embd_moments_make(&embd, g, f->pool, e));
    struct factors *factors = factors_new();
    int rc = 0;
    kern_init(&ref, KERN_REF);
    progress_begin(&prog, "gain of error feedback", PROG_ITEMS, (uint64_t)s->n_groups);
    for (int i = 0; i < s->n_groups && !rc; i++) {
        rc = group_gains(&s->group[i], g, &ref, f, &embd, factors, e);
        progress_update(&prog, (uint64_t)i + 1);
    }
    progress_end(&prog);
    factors_free(factors);
    embd_moments_release(&embd);
    return rc;
}
