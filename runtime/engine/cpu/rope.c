// SPDX-License-Identifier: MIT
/* runtime/engine/cpu/rope.c - rotary position embeddings, and position-dependent scaling of
 * queries. Angles are computed in double, once per pass for each kind of node (base, width,
 * divisors), and shared by all heads and layers. */
#include <math.h>

#include "base/fp.h"
#include "runtime/engine/exec.h"

enum { TOKEN_CHUNK = 16 };

struct job {
    struct session *s;
    const struct gr_node *n;
    const float *cs;
    int64_t width;
};

/* Returns the YaRN factor of the angle of pair j, between 1 and 1 / factor (struct gr_yarn). */
static double stretch(const struct gr_yarn *y, const struct rope_tab *tab, int64_t j) {
    if (!tab->yarn) return 1;
    double n = (double)tab->n_rot, per = 2 * fp_log(tab->base), turn = 2 * 3.14159265358979323846;
    double low = n * fp_log(y->ctx / (turn * y->fast)) / per;
    double high = n * fp_log(y->ctx / (turn * y->slow)) / per;
    low = fmax(0, y->smooth ? low : floor(low));
    high = fmin(n - 1, y->smooth ? high : ceil(high));
    double r = 1 - fmin(1, fmax(0, ((double)j - low) / fmax(0.001, high - low)));
    return (1 - r) / y->factor + r;
}

/* Returns whether the context is so long that the table has the divisors `far`. */
static bool is_far(const struct session *s, const struct rope_tab *tab) {
    return tab->far != GR_NONE && (double)s->o.n_ctx > s->g->yarn.ctx;
}

bool exec_rope_far(const struct session *s) {
    bool far = false;
    for (int i = 0; i < s->n_ropes; i++) far = far || is_far(s, &s->rope[i]);
    return far;
}

double exec_rope_freqs(struct session *s, const struct rope_tab *tab, double *freq) {
    const struct gr_yarn *y = &s->g->yarn;
    const gr_w w = is_far(s, tab) ? tab->far : tab->divisors;
    const float *div = w == GR_NONE ? NULL : exec_vec(s, w);
    const double m = s->g->rope_m > 0 ? s->g->rope_m : 1;
    for (int64_t i = 0; i < tab->n_rot / 2; i++) {
        freq[i] = fp_pow(tab->base, -2.0 * (double)i / (double)tab->n_rot);
        if (div) freq[i] /= (double)div[i];
        freq[i] *= stretch(y, tab, i) / tab->factor;
    }
    return tab->yarn ? m * y->attn * (0.1 * fp_log(y->factor) + 1) : m;
}

/* Returns the section of pair j: the position it rotates by (graph.section). */
static int section_of(const struct graph *g, int64_t j) {
    if (g->mixed_sections) return j % 3 && j < 3 * g->section[j % 3] ? (int)(j % 3) : 0;
    if (j < g->section[0] || !(g->section[1] + g->section[2])) return 0;
    return j < g->section[0] + g->section[1] ? 1 : 2;
}

/* Computes cosine and sine of every angle for every token of the pass. */
static void fill_table(struct session *s, struct rope_tab *tab) {
    int64_t half = tab->n_rot / 2;
    double m = exec_rope_freqs(s, tab, tab->freq);
    for (int64_t i = 0; i < half; i++) {
        const int section = section_of(s->g, i);
        for (int64_t t = 0; t < s->n_tok; t++) {
            const int64_t pos = s->images.turned ? s->images.turn[t][section] : s->row_pos[t];
            double a = (double)pos * tab->freq[i];
            tab->cs[(t * half + i) * 2] = (float)(m * fp_cos(a));
            tab->cs[(t * half + i) * 2 + 1] = (float)(m * fp_sin(a));
        }
    }
    tab->ready = true;
}

/* Rotates the pairs (x[0], x[1]), (x[2], x[3]), ...; cs: their cosines and sines in turn. */
static void rotate_adjacent(float *x, const float *cs, int64_t n_rot) {
    for (int64_t i = 0; i < n_rot; i += 2) {
        float a = x[i], b = x[i + 1];
        x[i] = a * cs[i] - b * cs[i + 1];
        x[i + 1] = a * cs[i + 1] + b * cs[i];
    }
}

/* Computes ROPE for tokens t0 to t1 - 1; a pool_fn. */
static void rope_range(void *ctx, int64_t t0, int64_t t1, int worker) {
    const struct job *j = ctx;
    (void)worker;
    int64_t n_rot = j->n->rope.n_rot;
    for (int64_t t = t0; t < t1; t++) {
        float *x = j->s->reg[j->n->dst] + t * j->width;
        const float *cs = j->cs + t * n_rot;
        for (int64_t at = 0; at < j->width; at += j->n->rope.head_dim)
            if (j->n->rope.adjacent)
                rotate_adjacent(x + at, cs, n_rot);
            else
                j->s->kern.rope_neox(x + at, cs, n_rot);
    }
}

/* Runs ROPE for the pass (models/ops.def): rotates heads by position. */
void exec_rope(struct session *s, const struct gr_node *n) {
    /* session_new has created a table for every node. */
    struct rope_tab *tab = exec_rope_tab(s, n, false);
    if (!tab->ready) fill_table(s, tab);
    struct job j = {s, n, tab->cs, s->g->reg_width[n->dst]};
    exec_par(s, s->n_tok, TOKEN_CHUNK, 4.0 * (double)s->n_tok * (double)j.width, rope_range, &j);
}

/* Computes TEMPER for tokens t0 to t1 - 1; a pool_fn. */
static void temper_range(void *ctx, int64_t t0, int64_t t1, int worker) {
    const struct job *j = ctx;
    const struct gr_temper *a = &j->n->temper;
    (void)worker;
    for (int64_t t = t0; t < t1; t++) {
        float *x = j->s->reg[j->n->dst] + t * j->width;
        const double steps = (double)((j->s->row_pos[t] + a->offset) / a->step);
        const float by = (float)(1 + (double)a->scale * fp_log(steps + 1));
        for (int64_t i = 0; i < j->width; i++) x[i] *= by;
    }
}
/* Runs TEMPER for the pass (models/ops.def): scales by the logarithm of the position. */
void exec_temper(struct session *s, const struct gr_node *n) {
    struct job j = {s, n, NULL, s->g->reg_width[n->dst]};
    exec_par(s, s->n_tok, TOKEN_CHUNK, (double)s->n_tok * (double)j.width, temper_range, &j);
}
