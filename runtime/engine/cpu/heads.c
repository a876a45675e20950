// SPDX-License-Identifier: MIT
/* runtime/engine/cpu/heads.c - products of latent attention, in which every head has its own matrix
 * and input. A task decodes a panel of one head's matrix to f32 and multiplies it with all rows. */
#include <string.h>

#include "base/num.h"
#include "runtime/engine/exec.h"

struct job {
    const struct session *s;
    const struct weight *w; /* ne[0] columns, ne[1] rows, ne[2] heads */
    /* Inputs [n_tok][heads][in]; the first ne[0] values of a head enter the product. */
    const float *x;
    float *out; /* results [n_tok][heads][in - ne[0] + ne[1]] */
    int64_t in, width, panel, n_panels;
};

/* Computes items [i0, i1). An item is a panel of rows of one head's matrix, multiplied with the
 * rows of all tokens. The input values after the first ne[0] are copied to the front of the
 * output. */
static void heads_range(void *ctx, int64_t i0, int64_t i1, int worker) {
    const struct job *j = ctx;
    const struct weight *w = j->w;
    const int64_t k = w->ne[0], tail = j->in - k, n = j->s->n_tok, heads = w->ne[2];
    const uint64_t mat = (uint64_t)w->ne[1] * w->row_bytes;
    for (int64_t i = i0; i < i1; i++) {
        const int64_t h = i / j->n_panels, r0 = i % j->n_panels * j->panel;
        const struct acts a = {.x = j->x + h * j->in, .ld = heads * j->in, .n_rows = n};
        float *out = j->out + h * j->width;
        for (int64_t t = 0; t < n && r0 == 0; t++)
            memcpy(out + t * heads * j->width, a.x + t * a.ld + k, (size_t)tail * sizeof *out);
        exec_rows(j->s, w, (const uint8_t *)w->data + (uint64_t)h * mat, r0,
                  min_i64(r0 + j->panel, w->ne[1]), &a, out + tail + r0, heads * j->width,
                  j->s->scratch[worker]);
    }
}

/* Runs MATMUL_HEADS for the pass (models/ops.def): one product per head. */
void exec_matmul_heads(struct session *s, const struct gr_node *n) {
    const struct weight *w = model_weight(s->m, n->product.matrix);
    const int64_t heads = w->ne[2];
    struct job j = {.s = s,
                    .w = w,
                    .x = s->reg[n->src[0]],
                    .out = s->reg[n->dst],
                    .in = s->g->reg_width[n->src[0]] / heads,
                    .width = s->g->reg_width[n->dst] / heads,
                    .panel = exec_panel_rows(w->ne[0])};
    exec_show_heads(s, n->product.matrix, j.x, j.in);
    j.n_panels = div_up(w->ne[1], j.panel);
    exec_par(s, heads * j.n_panels, 1, (double)(s->n_tok * heads * w->ne[0] * w->ne[1]),
             heads_range, &j);
}
