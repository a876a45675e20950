// SPDX-License-Identifier: MIT
/* mix/sens.c - groups of tensors that share a type, floors, predicted losses. Of the tensors'
 * data, only a few rows are read, to find types that hold them without loss.
 *
 * The loss of group g in type k is c = S(e) * e, with e the encoder's relative error and S the
 * measured ratio of divergence to error. S is interpolated in log e between probes of the group, or
 * by depth between probes of its role in other layers. If there are no probes, S is a prior that
 * depends on the role. */
#include "mix/sens.h"

#include "quantize/exact.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fp.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/num.h"

enum { PAD = 32 };
static const double LOW_BITS = 2.6; /* bits per weight (docs/design/mix.md, "Groups") */

/* Divergence if one role of one layer has a large error. Published values for single tensors of a
 * hybrid mixture of experts with 40 layers, at about 1.75 bits (relative squared error about
 * 0.16). */
struct prior {
    enum role role;
    double kld;
};
static const struct prior priors[] = {
    {ROLE_OUTPUT, .1349},     {ROLE_TOKEN_EMBD, .0309},   {ROLE_EXP_DOWN, .00328},
    {ROLE_EXP_UP, .00575},    {ROLE_EXP_GATE, .00575},    {ROLE_EXP_GATE_UP, .00575},
    {ROLE_SSM_IN, .00372},    {ROLE_SSM_OUT, .00377},     {ROLE_ATTN_QKV, .00372},
    {ROLE_ATTN_GATE, .00286}, {ROLE_ATTN_OUTPUT, .00459}, {ROLE_ATTN_Q, .00344},
    {ROLE_ATTN_V, .00276},    {ROLE_ATTN_K, .00184},      {ROLE_SHEXP_GATE, .00261},
    {ROLE_SHEXP_UP, .00261},  {ROLE_SHEXP_DOWN, .00261},  {ROLE_SSM_ALPHA, .00223},
    {ROLE_SSM_BETA, .00223},  {ROLE_FFN_GATE, .00575},    {ROLE_FFN_UP, .00575},
    {ROLE_FFN_DOWN, .00328}};

double sens_prior(const struct sens *s, const struct sens_group *g) {
    double kld = .003, n = (double)max_i64(1, s->model.n_blocks - s->model.n_mtp), layer = 1;
    for (size_t i = 0; i < COUNT_OF(priors); i++)
        if (priors[i].role == g->role) kld = priors[i].kld;
    /* Early layers matter about twice as much as others, the last one 1.5 times. */
    if (g->block >= 0) {
        /* The draft block is treated like the last layer. */
        double at = n > 1 ? fmin(1, (double)g->block / (n - 1)) : 0;
        layer = (at < .5 ? 1.7 - 1.4 * at : 1) * (g->block >= n - 1 && n > 2 ? 1.5 : 1) * 40 / n;
    } else if (g->role == ROLE_TOKEN_EMBD && s->model.tied) {
        kld = .1349;
    }
    return kld * layer / .16;
}

/* ---- groups ---------------------------------------------------------------------------------- */

/* Returns the role that names the group. The roles listed here have the same type as another role
 * of the same layer. */
static enum role leader(enum role r) {
    static const struct {
        enum role role, leader;
    } shared[] = {{ROLE_EXP_UP, ROLE_EXP_GATE},
                  {ROLE_FFN_UP, ROLE_FFN_GATE},
                  {ROLE_SHEXP_UP, ROLE_SHEXP_GATE},
                  {ROLE_SHEXP_DOWN, ROLE_SHEXP_GATE},
                  {ROLE_SSM_BETA, ROLE_SSM_ALPHA}};
    for (size_t i = 0; i < COUNT_OF(shared); i++)
        if (shared[i].role == r) return shared[i].leader;
    return r;
}

/* Returns the share of a tensor's bytes that is read per decoded token. */
static double read_share(const struct recipe_model *m, const struct recipe_item *it) {
    bool lookup = it->role == ROLE_PLE_EMBD || (it->role == ROLE_TOKEN_EMBD && !m->tied);
    /* one row per token */
    if (lookup) return 0;
    /* The draft block is not counted. */
    if (it->block >= 0 && it->block >= m->n_blocks - m->n_mtp) return 0;
    if (role_is_routed(it->role) && m->experts > 1 && m->experts_used > 0)
        return fmin(1, (double)m->experts_used / (double)m->experts);
    return 1;
}

enum qtype sens_spare(void) {
    enum qtype best = QT_COUNT;
    for (int i = 0; i < QT_COUNT; i++) {
        const enum qtype t = (enum qtype)i;
        if (qtype_info(t) && qtype_info(t)->flags & QF_FLOAT && enc_largest(t) >= FLT_MAX &&
            (best == QT_COUNT || qtype_bpw(t) < qtype_bpw(best)))
            best = t;
    }
    return best;
}

void sens_candidates(const struct recipe_item *it, bool can[QT_COUNT]) {
    const unsigned flag = it->ne[0] % QK == 0 ? QF_MIX : QF_MIX_NARROW;
    bool fits[QT_COUNT] = {false};
    /* Types that do not fit the row length are replaced by others. */
    for (int t = 0; t < QT_COUNT; t++)
        if (qtype_info(t) && (qtype_info(t)->flags & flag))
            fits[qtype_fit((enum qtype)t, it->ne[0])] = true;
    for (int t = 0; t < QT_COUNT; t++) can[t] = fits[t] && enc_find((enum qtype)t);
}

/* Adds the types that hold the tensor's weights without loss: they cost only bytes. */
static void add_exact(const struct gguf_tensor *t, bool can[QT_COUNT]) {
    for (int k = 0; k < QT_COUNT; k++)
        if (qtype_info(k) && (qtype_info(k)->flags & QF_EXACT) && exact_offers(t, (enum qtype)k))
            can[k] = true;
    if (qtype_info(t->type)->flags & QF_RELEASED) can[t->type] = true;
}

/* Returns whether any type is possible in both a and b. */
static bool any_common(const bool a[QT_COUNT], const bool b[QT_COUNT]) {
    bool any = false;
    for (int t = 0; t < QT_COUNT; t++) any |= a[t] && b[t];
    return any;
}

/* Returns the group that a tensor joins, or a new one. */
static struct sens_group *group_for(struct sens *s, const struct recipe_item *it,
                                    const bool can[QT_COUNT]) {
    enum role lead = leader(it->role);
    bool joins =
        it->block >= 0 && (lead != it->role || lead == ROLE_EXP_GATE || lead == ROLE_FFN_GATE ||
                           lead == ROLE_SHEXP_GATE || lead == ROLE_SSM_ALPHA);
    for (int i = 0; joins && i < s->n_groups; i++) {
        struct sens_group *g = &s->group[i];
        if (g->role == lead && g->block == it->block && g->n_items < SENS_MAX_ITEMS &&
            any_common(g->can, can))
            return g;
    }
    struct sens_group *g = &s->group[s->n_groups++];
    g->role = lead;
    g->block = it->block;
    g->read = read_share(&s->model, it);
    g->host = it->role == ROLE_PLE_EMBD || (it->role == ROLE_TOKEN_EMBD && !s->model.tied);
    size_t n = strlen(it->name);
    memcpy(g->name, it->name, n < sizeof g->name ? n : sizeof g->name - 1);
    for (int t = 0; t < QT_COUNT; t++) {
        g->err[t] = -1;
        g->gain[t] = 1;
    }
    return g;
}

uint64_t sens_padded(uint64_t bytes) {
    return round_up(bytes, PAD);
}

/* Adds a tensor to a group; the group keeps the types that all its tensors can have. */
static void add_item(struct sens_group *g, const struct recipe_item *it, const bool can[QT_COUNT],
                     int64_t index) {
    const int64_t rows = it->ne[1] * it->ne[2] * it->ne[3], ne0 = it->ne[0];
    const bool first = g->n_items == 0;
    for (int t = 0; t < QT_COUNT; t++) {
        g->can[t] = can[t] && (first || g->can[t]);
        if (can[t] || t == (int)sens_spare())
            g->bytes[t] += sens_padded(qtype_row_bytes((enum qtype)t, ne0) * (uint64_t)rows);
    }
    g->item[g->n_items++] = index;
    g->n_weights += ne0 * rows;
}

int sens_init(struct sens *s, const struct gguf *g, struct err *e) {
    int64_t n = gguf_n_tensors(g);
    memset(s, 0, sizeof *s);
    recipe_model_from(&s->model, g);
    struct recipe_item *it = xcalloc((size_t)n + 1, sizeof *it);
    s->group = xcalloc((size_t)n + 1, sizeof *s->group);
    for (int64_t i = 0; i < n; i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        it[i].name = t->name;
        it[i].from = t->type;
        memcpy(it[i].ne, t->ne, sizeof t->ne);
    }
    recipe_roles(&s->model, it, n);
    for (int64_t i = 0; i < n; i++) {
        uint64_t bytes = sens_padded(gguf_tensor_at(g, i)->n_bytes);
        if (it[i].quant) {
            bool can[QT_COUNT];
            sens_candidates(&it[i], can);
            for (int t = 0; t < QT_COUNT; t++)
                can[t] = can[t] && recipe_allows(&s->model, &it[i], (enum qtype)t);
            add_exact(gguf_tensor_at(g, i), can);
            add_item(group_for(s, &it[i], can), &it[i], can, i);
        } else {
            s->kept_bytes += bytes;
            s->kept_read += (double)bytes * read_share(&s->model, &it[i]);
        }
    }
    free(it);
    for (int i = 0; i < s->n_groups; i++) {
        bool any = false;
        for (int t = 0; t < QT_COUNT; t++) any |= s->group[i].can[t];
        s->n_weights += s->group[i].n_weights;
        if (!any) {
            err_set(e, ERR_DATA,
                    "%s: no type fits the tensors of the group of %s; set their types in a plan",
                    gguf_path(g), s->group[i].name);
            sens_release(s);
            return (int)e->code;
        }
    }
    if (!s->n_groups) {
        sens_release(s);
        return err_set(e, ERR_DATA, "%s: no tensor of the model can be quantized", gguf_path(g));
    }
    uint64_t head = 0;
    const uint8_t *p = gguf_shard_header(g, 0, &head);
    hash_xxh128_hex(s->header_hash, p, head);
    s->model_bytes = gguf_file_bytes(g);
    return 0;
}

void sens_set_low(struct sens *s, uint64_t budget) {
    const double bits = 8 * (double)budget / (double)max_i64(1, s->n_weights);
    if (budget && bits < LOW_BITS) s->low = true;
}

void sens_release(struct sens *s) {
    free(s->group);
    memset(s, 0, sizeof *s);
}

enum qtype sens_next(const struct sens *s, int group, enum qtype t, int dir) {
    const struct sens_group *g = &s->group[group];
    enum qtype best = t;
    for (int k = 0; k < QT_COUNT; k++) {
        if (!g->can[k] || g->err[k] < 0 || g->bytes[k] == g->bytes[t]) continue;
        bool up = g->bytes[k] > g->bytes[t];
        if (up != (dir > 0)) continue;
        if (best == t || (up ? g->bytes[k] < g->bytes[best] : g->bytes[k] > g->bytes[best]))
            best = (enum qtype)k;
    }
    return best;
}

/* ---- losses ---------------------------------------------------------------------------------- */

bool sens_own_ratio(const struct sens_group *g, double err, double *out) {
    /* Probes with the nearest errors below and above. */
    const struct sens_probe *lo = NULL, *hi = NULL;
    for (int i = 0; i < g->n_probes; i++) {
        const struct sens_probe *p = &g->probe[i];
        double pe = g->err[p->type];
        if (!(p->kld > 0) || !(pe > 0)) continue;
        if (pe <= err && (!lo || pe > g->err[lo->type])) lo = p;
        if (pe >= err && (!hi || pe < g->err[hi->type])) hi = p;
    }
    if (!lo) lo = hi;
    if (!hi) hi = lo;
    if (!lo) return false;
    double a = fp_log(lo->kld / g->err[lo->type]), b = fp_log(hi->kld / g->err[hi->type]);
    double x0 = fp_log(g->err[lo->type]), x1 = fp_log(g->err[hi->type]);
    *out = x1 > x0 ? a + (b - a) * (fp_log(err) - x0) / (x1 - x0) : 0.5 * (a + b);
    return true;
}

/* Estimator: sets *out to the log(divergence / error) of a group at an error. Returns false if it
 * has no data for the group. */
typedef bool (*ratio_fn)(const struct sens *s, const struct sens_group *g, double err, double *out);

/* Sets *out to the estimate interpolated by depth from groups of the same role in other layers.
 * False: no such group has an estimate. */
static bool between(const struct sens *s, const struct sens_group *g, double err, ratio_fn says,
                    double *out) {
    int below = -1, above = -1;
    double va = 0, vb = 0, v;
    for (int i = 0; i < s->n_groups; i++) {
        const struct sens_group *o = &s->group[i];
        if (o->role != g->role || !says(s, o, err, &v)) continue;
        if (o->block <= g->block && o->block > below) {
            below = o->block;
            va = v;
        }
        if (o->block >= g->block && (above < 0 || o->block < above)) {
            above = o->block;
            vb = v;
        }
    }
    if (below < 0 && above < 0) return false;
    if (below < 0) va = vb;
    if (above < 0) vb = va;
    double w = below >= 0 && above > below ? (double)(g->block - below) / (above - below) : 0.5;
    *out = va + (vb - va) * w;
    return true;
}

/* Returns the mean estimate over all groups; 0 if no group has one. */
static double mean(const struct sens *s, double err, ratio_fn says) {
    double sum = 0, v;
    int n = 0;
    for (int i = 0; i < s->n_groups; i++)
        if (says(s, &s->group[i], err, &v)) {
            sum += v;
            n++;
        }
    return n ? sum / n : 0;
}

/* Sets *out to the group's own log ratio; returns false if it was not probed. */
static bool probed(const struct sens *s, const struct sens_group *g, double err, double *out) {
    (void)s;
    return sens_own_ratio(g, err, out);
}
/* Sets *out to the fit to joint probes, with the shape given by the group's own probes, if there
 * are any. False: no fit. */
static bool fitted(const struct sens *s, const struct sens_group *g, double err, double *out) {
    double at, there;
    (void)s;
    if (!(g->fit > 0)) return false;
    *out = fp_log(g->fit);
    if (sens_own_ratio(g, err, &at) && sens_own_ratio(g, g->err[g->joint_type], &there))
        *out += at - there;
    return true;
}
/* Sets *out to the log of the ratio between a group's probes and its gradients. False: one of the
 * two is missing. */
static bool beyond_slope(const struct sens *s, const struct sens_group *g, double err,
                         double *out) {
    (void)s;
    if (!(g->slope > 0) || !sens_own_ratio(g, err, out)) return false;
    *out -= fp_log(g->slope);
    return true;
}
/* Sets *out to the group's own log ratio minus that of the prior; returns false if it was not
 * probed. */
static bool beyond_prior(const struct sens *s, const struct sens_group *g, double err,
                         double *out) {
    if (!sens_own_ratio(g, err, out)) return false;
    *out -= fp_log(sens_prior(s, g));
    return true;
}
/* Estimates from gradients, corrected by how the probes of the same role, or else of all roles,
 * differ from their gradients. False: the group has no gradients. */
static bool by_slope(const struct sens *s, const struct sens_group *g, double err, double *out) {
    if (!(g->slope > 0)) return false;
    if (!between(s, g, err, beyond_slope, out)) *out = mean(s, err, beyond_slope);
    *out += fp_log(g->slope);
    return true;
}

/* Estimates a group's ratio as if it had no probes. Returns false if no group of its role has been
 * measured. */
static bool ratio_without(const struct sens *s, const struct sens_group *g, double err,
                          double *out) {
    if (between(s, g, err, fitted, out) || by_slope(s, g, err, out) ||
        between(s, g, err, probed, out) || between(s, g, err, by_slope, out))
        return true;
    *out = fp_log(sens_prior(s, g)) + mean(s, err, beyond_prior);
    return false;
}

double sens_loss(const struct sens *s, int group, enum qtype type) {
    const struct sens_group *g = &s->group[group];
    double err = g->err[type], v;
    if (!(err > 0)) return 0;
    if (!fitted(s, g, err, &v) && !sens_own_ratio(g, err, &v)) (void)ratio_without(s, g, err, &v);
    return fp_exp(v) * err * g->gain[type];
}

/* Sets *out to the correction from steps measured near this budget; without any, returns false and
 * sets it to 1. */
static bool steps_factor(const struct sens *s, int group, uint64_t budget, double *out) {
    const struct sens_group *g = &s->group[group];
    double up = 1 / .09, down = 1 / .09; /* prior, before any step is known: 1 +- 0.3 */
    bool any = false;
    for (int i = 0; i < g->n_steps; i++) {
        const struct sens_step *t = &g->step[i];
        double rel = (double)t->budget / (double)max_i64(1, (int64_t)budget);
        double want = sens_loss(s, group, t->to) - sens_loss(s, group, t->from);
        if (rel < .93 || rel > 1.07 || !(fabs(want) > 0)) continue;
        double sd = fmax(t->diff_stderr / fabs(want), .05);
        up += t->diff / want / (sd * sd);
        down += 1 / (sd * sd);
        any = true;
    }
    *out = fmin(3, fmax(.33, up / down));
    return any;
}

double sens_factor(const struct sens *s, int group, uint64_t budget) {
    const struct sens_group *g = &s->group[group];
    int below = -1, above = -1;
    double v, va = 1, vb = 1;
    if (steps_factor(s, group, budget, &v)) return v;
    for (int i = 0; i < s->n_groups; i++) {
        const struct sens_group *o = &s->group[i];
        if (o->role != g->role || !o->n_steps || !steps_factor(s, i, budget, &v)) continue;
        if (o->block <= g->block && o->block > below) below = o->block, va = v;
        if (o->block >= g->block && (above < 0 || o->block < above)) above = o->block, vb = v;
    }
    if (below < 0 && above < 0) return 1;
    if (below < 0) return vb;
    if (above < 0) return va;
    return above > below ? va + (vb - va) * (g->block - below) / (above - below) : va;
}

/* ---- accuracy -------------------------------------------------------------------------------- */

/* Returns the type whose error is nearest to that of about 4.25 bits; -1: the group has no
 * candidate. */
static int type_like_4_bits(const struct sens_group *g) {
    int best = -1;
    for (int t = 0; t < QT_COUNT; t++)
        if (g->can[t] && g->err[t] > 0 &&
            (best < 0 || fabs(fp_log(g->err[t] / .0046)) < fabs(fp_log(g->err[best] / .0046))))
            best = t;
    return best;
}

/* Returns the relative error of predictions for groups without probes: that of the fit, or else the
 * error of predicting each probed group as if it had no probe. 1: unknown. */
static double error_between(const struct sens *s) {
    double sum = 0, own, near;
    int n = 0;
    for (int i = 0; i < s->n_groups; i++) {
        if (!(s->group[i].fit > 0) || s->group[i].n_probes) continue;
        sum += s->group[i].fit_sd * s->group[i].fit_sd;
        n++;
    }
    if (n) return sqrt(sum / n);
    for (int i = 0; i < s->n_groups; i++) {
        struct sens_group *g = &s->group[i];
        const int t = type_like_4_bits(g), n_probes = g->n_probes;
        if (t < 0 || !sens_own_ratio(g, g->err[t], &own)) continue;
        g->n_probes = 0; /* hides its own probes; restored below */
        if (ratio_without(s, g, g->err[t], &near)) {
            sum += (own - near) * (own - near);
            n++;
        }
        g->n_probes = n_probes;
    }
    return n ? sqrt(sum / n) : 1;
}

void sens_accuracy(const struct sens *s, struct sens_accuracy *a) {
    double own = 0, sum = 0, var = 0, var_all = 0;
    int n_own = 0;
    memset(a, 0, sizeof *a);
    for (int i = 0; i < s->n_groups; i++) {
        const struct sens_group *g = &s->group[i];
        a->n_probed += g->n_probes > 0;
        for (int k = 0; k < g->n_probes; k++) {
            if (!(g->probe[k].kld > 0)) continue;
            double rel = g->probe[k].kld_stderr / g->probe[k].kld;
            own += rel * rel;
            n_own++;
        }
    }
    a->probed = n_own ? sqrt(own / n_own) : 0;
    a->between = error_between(s);
    for (int i = 0; i < s->n_groups; i++) {
        const struct sens_group *g = &s->group[i];
        int t = type_like_4_bits(g);
        if (t < 0) continue;
        double c = sens_loss(s, i, (enum qtype)t);
        double e = g->n_probes ? a->probed : fmax(a->between, a->probed);
        if (g->fit > 0) e = g->fit_sd;
        sum += c;
        var += c * c * e * e;
        var_all += c * c * a->probed * a->probed;
    }
    a->mix = sum > 0 ? sqrt(var) / sum : 0;
    a->complete = sum > 0 ? sqrt(var_all) / sum : 0;
}

/* ---- floors ---------------------------------------------------------------------------------- */

bool sens_allowed(const struct sens *s, int group, enum qtype type, uint64_t budget) {
    const struct sens_group *g = &s->group[group];
    double bits = 8 * (double)budget / (double)max_i64(1, s->n_weights), floor = 0;
    bool moe = s->model.experts > 1;
    switch ((int)g->role) {
    case ROLE_OUTPUT:
        floor = bits > 3.2 ? qtype_bpw(QT_Q6_K) : qtype_bpw(QT_Q5_K);
        break;
    case ROLE_TOKEN_EMBD:
        floor = s->model.tied && g->block < 0 ? qtype_bpw(QT_Q5_K) : qtype_bpw(QT_Q3_K);
        break;
    case ROLE_SSM_ALPHA:
        floor = qtype_bpw(QT_Q8_0);
        break;
    case ROLE_SSM_IN:
    case ROLE_SSM_OUT:
    case ROLE_ATTN_Q:
    case ROLE_ATTN_K:
    case ROLE_ATTN_V:
    case ROLE_ATTN_QKV:
    case ROLE_ATTN_GATE:
    case ROLE_ATTN_OUTPUT:
    case ROLE_SHEXP_GATE:
        floor = moe && bits > 2.77 ? qtype_bpw(QT_Q5_K) : 0;
        break;
    default:
        break;
    }
    return qtype_bpw(type) >= floor - 1e-9;
}
