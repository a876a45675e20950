// SPDX-License-Identifier: MIT
/* mix/joint.c - joint probes: which ones to make, their cost, and the fit of the groups' losses to
 * their results. */
#include "mix/joint.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fp.h"
#include "base/mem.h"
#include "base/num.h"

const char *const probes_name[PROBES_COUNT] = {"joint", "all", "slopes"};

/* ---- cost ------------------------------------------------------------------------------------ */

/* Cost, in passes, of a probe that begins at the first block, and of one that begins at an average
 * block. Both include a sixth of the base's pass; logits are computed in full. */
static const double whole_pass = 1.2, half_pass = .75;

/* Adds the probes of all roles; bands 0: one per layer. */
static void count_all(const int *layers, int n_roles, int64_t n_types, int64_t bands,
                      int64_t n_groups, struct probe_cost *out) {
    for (int r = 0; r < n_roles; r++)
        out->n_probes += n_types * (bands > 0 ? min_i64(bands, layers[r]) : layers[r]);
    out->single_passes = half_pass * (double)out->n_probes;
    out->encoded = (double)out->n_probes / (double)max_i64(1, n_groups);
}

void probe_cost(enum probes how, const int *layers, int n_roles, int64_t n_types, int64_t bands,
                struct probe_cost *out) {
    int64_t n_groups = 0, n_blocks = 0, n_used = 0;
    *out = (struct probe_cost){0};
    for (int r = 0; r < n_roles; r++) {
        n_groups += layers[r];
        n_blocks = max_i64(n_blocks, layers[r]);
        n_used += layers[r] > 0;
    }
    if (how == PROBES_SLOPES) return;
    if (how == PROBES_ALL) {
        count_all(layers, n_roles, n_types, bands, n_groups, out);
        return;
    }
    const int64_t singles = min_i64(JOINT_SINGLES, n_groups);
    out->n_probes = n_used + 1 + n_blocks + singles;
    out->joint_passes = whole_pass * (double)(n_used + 1) + half_pass * (double)n_blocks;
    out->single_passes = half_pass * (double)singles;
    out->encoded = 3 + (double)singles / (double)max_i64(1, n_groups);
}

/* ---- choice of probes ------------------------------------------------------------------------ */

static const double TARGET = .016; /* relative error of about 3.4 bits */

int joint_rank(int at, int n) {
    int rank = 0;
    if (at == 0) return 0;
    if (at == n - 1) return 1;
    for (int step = 2; step < 2 * n; step *= 2, rank++)
        for (int k = 1; k < step; k += 2)
            if (k * (n - 1) / step == at) return 2 + rank;
    return 2 + rank;
}

/* Returns whether a type has a grid; searching a grid is many times slower than searching codes. */
static bool slow(enum qtype t) {
    const char *name = qtype_name(t);
    return strncmp(name, "IQ", 2) == 0 && strncmp(name, "IQ4", 3) != 0;
}

void joint_types(struct sens *s, const bool *used) {
    for (int i = 0; i < s->n_groups; i++) {
        struct sens_group *g = &s->group[i];
        double best = HUGE_VAL;
        if (g->joint_type != SENS_NOT_JOINT || !used[i]) continue;
        for (int t = 0; t < QT_COUNT; t++) {
            if (!g->can[t] || slow((enum qtype)t) || !(g->err[t] > 0)) continue;
            const double d = fabs(fp_log(g->err[t] / TARGET));
            if (d < best) g->joint_type = (enum qtype)t;
            best = fmin(best, d);
        }
    }
}

bool joint_has(const struct sens_joint *j, const struct sens_group *g) {
    return g->joint_type != SENS_NOT_JOINT && (j->role == ROLE_OTHER || g->role == j->role) &&
           (j->block == SENS_EVERY || g->block == j->block);
}

bool joint_known(const struct sens *s, const struct sens_joint *j) {
    for (int i = 0; i < s->n_joint; i++)
        if (s->joint[i].role == j->role && s->joint[i].block == j->block) return true;
    return false;
}

/* Returns whether the joint probe j contains any group. */
static bool any_in(const struct sens *s, const struct sens_joint *j) {
    for (int i = 0; i < s->n_groups; i++)
        if (joint_has(j, &s->group[i])) return true;
    return false;
}

/* Returns the number of blocks that are probed, which excludes draft blocks. */
static int blocks_of(const struct sens *s) {
    return (int)min_i64(s->model.n_blocks - s->model.n_mtp, SENS_MAX_JOINT - ROLE_COUNT - 1);
}

int joint_list(const struct sens *s, struct sens_joint *out) {
    const int n_blocks = blocks_of(s);
    int n = 0;
    for (int r = ROLE_OTHER + 1; r < ROLE_COUNT; r++) {
        const struct sens_joint j = {.role = (enum role)r, .block = SENS_EVERY};
        if (any_in(s, &j)) out[n++] = j;
    }
    out[n++] = (struct sens_joint){.role = ROLE_OTHER, .block = SENS_EVERY};
    for (int rank = 0, last = n_blocks; last > 0; rank++) {
        last = 0;
        for (int b = 0; b < n_blocks; b++) {
            const struct sens_joint j = {.role = ROLE_OTHER, .block = b};
            last += joint_rank(b, n_blocks) > rank;
            if (joint_rank(b, n_blocks) == rank && any_in(s, &j)) out[n++] = j;
        }
    }
    return n;
}

/* ---- fit ------------------------------------------------------------------------------------- */

/* Standard deviations of logs. A group's true loss differs from the loss predicted by its slope by
 * four factors: one common to all groups, one common to its role, one common to its block, and its
 * own. A joint probe is smaller than the sum of single probes by a factor common to all roles or to
 * all blocks. Measured on the models of docs/notebook/mixes.md; the fit hardly depends on these
 * values. */
static const double BY_ALL = .3, BY_ROLE = .5, BY_BLOCK = .3, BY_GROUP = .35, JOINT_ROLES = .1,
                    JOINT_BLOCKS = .2, PROBE = .05;
enum { ROUNDS = 20 }; /* maximum, of Newton's method; about five are enough */

struct fit {
    const struct sens *s;
    int n, m;     /* groups, measurements */
    int *group;   /* [n] */
    double *loss; /* [n] log of the loss in joint_type; initially from slopes */
    double *move; /* [n] log of the factor that corrects it */
    double *var;  /* [n][n] covariance of move */
    struct seen { /* a measurement */
        const struct sens_joint *joint; /* NULL: a probe of one group alone */
        int at;                         /* its index in group[] */
        double log, var;
    } * seen; /* [m] */
    double *h,
        *k; /* [m][n] derivatives of the logs of the measurements; [m][n] their products with var */
    double *c, *r; /* [m][m] Cholesky factor; [m] residuals */
};

/* Returns the class of a measurement. Those of class 1 (roles) share a factor, and so do those of
 * class 2 (blocks). */
static int class_of(const struct seen *o) {
    if (!o->joint) return 0;
    return o->joint->role != ROLE_OTHER ? 1 : 2;
}

static double square(double x) {
    return x * x;
}

/* Returns whether the observation o covers group i. */
static bool has(const struct fit *f, const struct seen *o, int i) {
    return o->joint ? joint_has(o->joint, &f->s->group[f->group[i]]) : o->at == i;
}

/* Adds an observation as a log with its variance; ignores divergences that are not positive. */
static void add_seen(struct fit *f, const struct sens_joint *j, int at, double kld, double err) {
    const double rel = fmin(err / kld, 10);
    if (kld > 0) f->seen[f->m++] = (struct seen){j, at, fp_log(kld), square(rel) + square(PROBE)};
}

/* Lists the measurements. The probe of everything is not among them: it only sets the scale. */
static void list_seen(struct fit *f) {
    const struct sens *s = f->s;
    double own;
    for (int k = 0; k < s->n_joint; k++)
        if (s->joint[k].role != ROLE_OTHER || s->joint[k].block != SENS_EVERY)
            add_seen(f, &s->joint[k], 0, s->joint[k].kld, s->joint[k].kld_stderr);
    for (int i = 0; i < f->n; i++) {
        const struct sens_group *g = &s->group[f->group[i]];
        double rel = 0;
        if (!sens_own_ratio(g, g->err[g->joint_type], &own)) continue;
        for (int k = 0; k < g->n_probes; k++)
            if (g->probe[k].kld > 0) rel = fmax(rel, g->probe[k].kld_stderr / g->probe[k].kld);
        own = fp_exp(own) * g->err[g->joint_type];
        add_seen(f, NULL, i, own, rel * own);
    }
}

/* Returns the prior covariance of the log losses of groups i and k. */
static double prior_covariance(const struct fit *f, int i, int k) {
    const struct sens_group *a = &f->s->group[f->group[i]], *b = &f->s->group[f->group[k]];
    return square(BY_ALL) + (a->role == b->role ? square(BY_ROLE) : 0) +
           (a->block == b->block && a->block >= 0 ? square(BY_BLOCK) : 0) +
           (i == k ? square(BY_GROUP) : 0);
}

/* Fills in row o of h, and the residual of a measurement that is linearized around `move`. */
static void linear(struct fit *f, int o) {
    double sum = 0, *h = f->h + o * f->n;
    f->r[o] = f->seen[o].log;
    for (int i = 0; i < f->n; i++) {
        h[i] = has(f, &f->seen[o], i) ? fp_exp(f->loss[i] + f->move[i]) : 0;
        sum += h[i];
    }
    f->r[o] -= fp_log(sum);
    for (int i = 0; i < f->n; i++) {
        h[i] /= sum;
        f->r[o] += h[i] * f->move[i];
    }
}

/* Solves c c^T x = r in place, with c the factor. */
static void solve(const double *c, int m, double *x) {
    for (int i = 0; i < m; i++) {
        for (int k = 0; k < i; k++) x[i] -= c[i * m + k] * x[k];
        x[i] /= c[i * m + i];
    }
    for (int i = m; i-- > 0;) {
        for (int k = i + 1; k < m; k++) x[i] -= c[k * m + i] * x[k];
        x[i] /= c[i * m + i];
    }
}

/* Replaces the lower triangle of c [m][m] by its Cholesky factor. */
static void factor(double *c, int m) {
    for (int i = 0; i < m; i++)
        for (int k = 0; k <= i; k++) {
            double sum = c[i * m + k];
            for (int l = 0; l < k; l++) sum -= c[i * m + l] * c[k * m + l];
            c[i * m + k] = i == k ? sqrt(sum) : sum / c[k * m + k];
        }
}

/* Makes one step of Newton's method towards the most probable factors. Returns the size of the
 * step. */
static double newton(struct fit *f) {
    const int n = f->n, m = f->m;
    double step = 0;
    const double shared[] = {0, square(JOINT_ROLES), square(JOINT_BLOCKS)};
    for (int o = 0; o < m; o++) linear(f, o);
    for (int o = 0; o < m; o++)
        for (int i = 0; i < n; i++) {
            double sum = 0;
            for (int k = 0; k < n; k++)
                if (f->h[o * n + k] > 0) sum += f->var[i * n + k] * f->h[o * n + k];
            f->k[o * n + i] = sum;
        }
    for (int a = 0; a < m; a++)
        for (int b = 0; b <= a; b++) {
            const int class = class_of(&f->seen[a]);
            double sum = class == class_of(&f->seen[b]) ? shared[class] : 0;
            if (a == b) sum += f->seen[a].var;
            for (int i = 0; i < n; i++) sum += f->h[a * n + i] * f->k[b * n + i];
            f->c[a * m + b] = sum;
        }
    factor(f->c, m);
    solve(f->c, m, f->r);
    for (int i = 0; i < n; i++) {
        double sum = 0;
        for (int o = 0; o < m; o++) sum += f->k[o * n + i] * f->r[o];
        step = fmax(step, fabs(sum - f->move[i]));
        f->move[i] = sum;
    }
    return step;
}

/* Subtracts from var the part that the measurements explain. */
static void explain(struct fit *f) {
    const int n = f->n, m = f->m;
    double *x = xcalloc((size_t)m, sizeof *x);
    for (int i = 0; i < n; i++) {
        for (int o = 0; o < m; o++) x[o] = f->k[o * n + i];
        solve(f->c, m, x);
        for (int k = 0; k < n; k++)
            for (int o = 0; o < m; o++) f->var[i * n + k] -= x[o] * f->k[o * n + k];
    }
    free(x);
}

static void fit_free(struct fit *f) {
    free(f->group);
    free(f->loss);
    free(f->move);
    free(f->var);
    free(f->seen);
    free(f->h);
    free(f->k);
    free(f->c);
    free(f->r);
}

/* Fits the losses of the groups to the joint probes. The caller frees *f with fit_free. */
static void fit_open(struct fit *f, const struct sens *s) {
    const size_t n = (size_t)s->n_groups, most = n + (size_t)s->n_joint;
    *f = (struct fit){.s = s};
    f->group = xcalloc(n, sizeof *f->group);
    f->loss = xcalloc(n, sizeof *f->loss);
    f->move = xcalloc(n, sizeof *f->move);
    for (int i = 0; i < s->n_groups && s->n_joint; i++) {
        const struct sens_group *g = &s->group[i];
        if (g->joint_type == SENS_NOT_JOINT || !(g->err[g->joint_type] > 0)) continue;
        f->loss[f->n] =
            fp_log((g->slope > 0 ? g->slope : sens_prior(s, g)) * g->err[g->joint_type]);
        f->group[f->n++] = i;
    }
    f->seen = xcalloc(most, sizeof *f->seen);
    list_seen(f);
    f->var = xcalloc((size_t)f->n * (size_t)f->n + 1, sizeof *f->var);
    f->h = xcalloc((size_t)f->m * (size_t)f->n + 1, sizeof *f->h);
    f->k = xcalloc((size_t)f->m * (size_t)f->n + 1, sizeof *f->k);
    f->c = xcalloc((size_t)f->m * (size_t)f->m + 1, sizeof *f->c);
    f->r = xcalloc((size_t)f->m + 1, sizeof *f->r);
    for (int i = 0; i < f->n; i++)
        for (int k = 0; k < f->n; k++) f->var[i * f->n + k] = prior_covariance(f, i, k);
    for (int i = 0; i < ROUNDS && f->m; i++)
        if (newton(f) < 1e-12) break;
    if (f->m) explain(f);
}

/* Returns the factor that turns the sum of all losses into the divergence with everything quantized
 * at once. */
static double scale(const struct fit *f) {
    double sum = 0, whole = 0;
    for (int k = 0; k < f->s->n_joint; k++)
        if (f->s->joint[k].role == ROLE_OTHER && f->s->joint[k].block == SENS_EVERY)
            whole = f->s->joint[k].kld;
    for (int i = 0; i < f->n; i++) sum += fp_exp(f->loss[i] + f->move[i]);
    return whole > 0 && sum > 0 ? whole / sum : 1;
}

void joint_fit(struct sens *s) {
    struct fit f;
    fit_open(&f, s);
    const double by = scale(&f);
    for (int i = 0; i < s->n_groups; i++) s->group[i].fit = s->group[i].fit_sd = 0;
    for (int i = 0; i < f.n; i++) {
        struct sens_group *g = &s->group[f.group[i]];
        const double fit = by * fp_exp(f.loss[i] + f.move[i]) / g->err[g->joint_type];
        if (!isfinite(fit)) continue; /* the file has absurd numbers */
        g->fit = fit;
        g->fit_sd = sqrt(fmax(0, f.var[i * f.n + i]));
    }
    fit_free(&f);
}

/* ---- single probes --------------------------------------------------------------------------- */

/* Sets w[i] to group i's share of bytes x loss. */
static void weigh(const struct fit *f, double *w) {
    double sum = 0;
    for (int i = 0; i < f->n; i++) {
        const struct sens_group *g = &f->s->group[f->group[i]];
        w[i] = (double)g->bytes[g->joint_type] * fp_exp(f->loss[i] + f->move[i]);
        sum += w[i];
    }
    for (int i = 0; i < f->n; i++) w[i] /= sum;
}

/* Returns the weighted variance of the errors of move around their weighted mean, because a factor
 * common to all groups changes no mix. */
static double spread(const struct fit *f, const double *w) {
    double sum = 0;
    for (int i = 0; i < f->n; i++) {
        double mean = 0;
        for (int k = 0; k < f->n; k++) mean += w[k] * f->var[i * f->n + k];
        sum += w[i] * (f->var[i * f->n + i] - mean);
    }
    return sum;
}

/* Returns the expected variance of the log of a probe's result. */
static double noise(const struct fit *f) {
    double sum = 0;
    for (int o = 0; o < f->m; o++) sum += f->seen[o].var / f->m;
    return sum;
}

/* Returns how much a probe of group i would reduce the spread. */
static double worth(const struct fit *f, const double *w, int i, double var) {
    const double *v = f->var + i * f->n;
    double mean = 0, squares = 0;
    for (int k = 0; k < f->n; k++) {
        mean += w[k] * v[k];
        squares += w[k] * v[k] * v[k];
    }
    return (squares - mean * mean) / (v[i] + var);
}

/* Updates the covariance as if group i had been probed. */
static void expect(struct fit *f, int i, double var) {
    double *v = xcalloc((size_t)f->n, sizeof *v);
    for (int k = 0; k < f->n; k++) v[k] = f->var[i * f->n + k];
    const double by = 1 / (v[i] + var);
    for (int a = 0; a < f->n; a++)
        for (int b = 0; b < f->n; b++) f->var[a * f->n + b] -= by * v[a] * v[b];
    free(v);
}

/* Returns the group whose probe is worth most; -1: none is left. Among nearly equal groups it
 * returns the first, so that numbers rounded in a file lead to the same choice. */
static int best_group(const struct fit *f, const double *w, const bool *taken) {
    double top = 0;
    int best = -1;
    for (int i = 0; i < f->n; i++) {
        const double by = worth(f, w, i, noise(f));
        if (taken[i] || f->s->group[f->group[i]].n_probes || by <= top * (1 + 1e-6)) continue;
        best = i;
        top = by;
    }
    return best;
}

void joint_choose(const struct sens *s, int most, struct joint_choice *out) {
    struct fit f;
    int at = 0;
    fit_open(&f, s);
    double *w = xcalloc((size_t)f.n + 1, sizeof *w);
    bool *taken = xcalloc((size_t)f.n + 1, sizeof *taken);
    weigh(&f, w);
    *out = (struct joint_choice){.risk = spread(&f, w) / 2};
    while (out->n < most && (at = best_group(&f, w, taken)) >= 0) {
        taken[at] = true;
        out->group[out->n++] = f.group[at];
        expect(&f, at, noise(&f));
    }
    out->after = spread(&f, w) / 2;
    free(w);
    free(taken);
    fit_free(&f);
}
