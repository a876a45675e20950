// SPDX-License-Identifier: MIT
/* runtime/engine/cuda/images.c - rows of images in a pass on a device. They come from main memory,
 * where the vision tower computes them, so they are uploaded once per pass. */
#include "base/mem.h"
#include "runtime/engine/cuda/exec.h"

/* Sets *n to the number of rows, from row r on, that are consecutive rows of one image, and returns
 * this image; NULL: the *n rows have no image. */
static const struct session_image *image_rows(const struct session *s, int64_t r, int64_t *n) {
    const struct session_image *im = exec_image(s, r);
    const int64_t *at = s->images.at;
    *n = 1;
    while (r + *n < s->n_tok && exec_image(s, r + *n) == im && (!im || at[r + *n] == at[r] + *n))
        ++*n;
    return im;
}

int exec_cuda_embed_images(struct cuda *d, const struct gr_node *node, struct err *e) {
    struct session *s = d->s;
    const int64_t w = s->g->reg_width[node->dst];
    const float f = node->embed.scale;
    for (int64_t r = 0, n; s->images.n_rows && r < s->n_tok; r += n) {
        const struct session_image *im = image_rows(s, r, &n);
        float *x = d->reg[node->dst] + r * w;
        if (!im) continue;
        TRY(cu_upload(d->q, x, im->rows + s->images.at[r] * w, (uint64_t)(n * w) * sizeof *x, e));
        if (f != 0 && node->embed.scales_images) TRY(cu_scale(d->q, x, n * w, f, NULL, 1, e));
    }
    d->q8_at[node->dst] = 0;
    return 0;
}

/* Adds n rows of main memory to rows x of w values on the device. */
static int add_rows(struct cuda *d, float *x, const float *rows, int64_t n, int64_t w,
                    struct err *e) {
    float *sum = NULL;
    TRY(exec_cuda_fetch(d, x, n * w, &sum, e));
    for (int64_t i = 0; i < n * w; i++) sum[i] += rows[i];
    int rc = cu_upload(d->q, x, sum, (uint64_t)(n * w) * sizeof *sum, e);
    if (!rc) rc = cu_sync(d->q, e);
    mem_free(sum);
    return rc;
}

int exec_cuda_add_deep(struct cuda *d, int block, struct err *e) {
    struct session *s = d->s;
    const gr_reg residual = s->g->residual;
    const int64_t w = s->g->reg_width[residual];
    for (int64_t r = 0, n; r < s->n_tok; r += n) {
        const struct session_image *im = image_rows(s, r, &n);
        if (!im || block >= im->n_deep) continue;
        TRY(add_rows(d, d->reg[residual] + r * w, im->deep + (block * im->n + s->images.at[r]) * w,
                     n, w, e));
    }
    d->q8_at[residual] = 0;
    return 0;
}
