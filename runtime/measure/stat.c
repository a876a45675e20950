// SPDX-License-Identifier: MIT
/* runtime/measure/stat.c - statistics of a comparison from per-position values
 * (docs/design/evaluation.md, section 2). The standard errors of kld_stats assume independent
 * positions, as is customary, which makes them too small for text; eval_cluster treats whole
 * windows as samples. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/fp.h"
#include "base/mem.h"
#include "base/rng.h"
#include "runtime/measure/internal.h"

/* Probabilities below exp(-16) are dropped, as in llama.cpp's logits files, whose rows end
 * there. */
static const float MIN_LOGP = -16.0f;

int kld_pos_init(struct kld_pos *p, int64_t cap, struct err *e) {
    static const char what[] = "the scores of tokens";
    size_t n = (size_t)cap + 1;
    *p = (struct kld_pos){0};
    return (p->nll_q = try_calloc(n, sizeof(double), what, e)) &&
                   (p->nll_p = try_calloc(n, sizeof(double), what, e)) &&
                   (p->kld = try_calloc(n, sizeof(double), what, e)) &&
                   (p->dp = try_calloc(n, sizeof(double), what, e)) &&
                   (p->same = try_calloc(n, 1, what, e)) &&
                   (p->top_p = try_calloc(n, sizeof *p->top_p, what, e)) &&
                   (p->top_q = try_calloc(n, sizeof *p->top_q, what, e)) &&
                   (p->prob_p = try_calloc(n, sizeof *p->prob_p, what, e)) &&
                   (p->prob_q = try_calloc(n, sizeof *p->prob_q, what, e)) &&
                   (p->noise = try_calloc(n, sizeof *p->noise, what, e))
               ? 0
               : ERR_SYS;
}
void kld_pos_release(struct kld_pos *p) {
    free(p->nll_q);
    free(p->nll_p);
    free(p->kld);
    free(p->dp);
    free(p->same);
    free(p->top_p);
    free(p->top_q);
    free(p->prob_p);
    free(p->prob_q);
    free(p->noise);
    memset(p, 0, sizeof *p);
}

void kld_pos_row(struct kld_pos *p, int64_t i, const float *logp, const float *logits_q,
                 int64_t n_vocab, int32_t target) {
    double lse = eval_lse(logits_q, n_vocab), kld = 0;
    float shift = (float)lse;
    for (int64_t v = 0; v < n_vocab; v++)
        if (logp[v] > MIN_LOGP)
            kld += (double)(fp_expf(logp[v]) * (logp[v] - (logits_q[v] - shift)));
    p->nll_p[i] = -(double)logp[target];
    p->nll_q[i] = lse - (double)logits_q[target];
    p->kld[i] = kld;
    p->dp[i] = fp_exp(-p->nll_q[i]) - fp_exp(-p->nll_p[i]);
    int64_t top_p = logits_argmax(logp, n_vocab), top_q = logits_argmax(logits_q, n_vocab);
    p->same[i] = top_p == top_q;
    p->top_p[i] = (int32_t)top_p;
    p->top_q[i] = (int32_t)top_q;
    p->prob_p[i] = fp_expf(logp[top_p]);
    p->prob_q[i] = fp_expf(logits_q[top_q] - shift);
}

void kld_pos_set(struct kld_pos *p, int64_t i, const struct session_score *row) {
    p->nll_p[i] = row->nll_p;
    p->nll_q[i] = row->nll_q;
    p->kld[i] = row->kld;
    p->dp[i] = fp_exp(-row->nll_q) - fp_exp(-row->nll_p);
    p->same[i] = row->top_p == row->top_q;
    p->top_p[i] = row->top_p;
    p->top_q[i] = row->top_q;
    p->prob_p[i] = row->prob_p;
    p->prob_q[i] = row->prob_q;
}

/* Estimates the divergence over the tokens outside the top ones from a sample of them. Let P and Q
 * be the masses that base and candidate give to all of these tokens, p and q the probabilities of
 * one of them, and r = (q/Q) / (p/P). The divergence is P log(P/Q) + P mean(r - 1 - log r). The
 * sample is drawn from p/P, so the mean is unbiased. It is never negative, and small if the two
 * distributions have the same shape. */
static double rest_kld(const struct kld_top_row *row, int64_t n_tail, const float *logits_q,
                       double lse, double lse_rest, float *noise) {
    double log_p = (double)row->log_rest, log_q = lse_rest - lse, sum = 0, sq = 0,
           p = fp_exp(log_p);
    double n = n_tail ? (double)n_tail : 1;
    for (int64_t j = 0; j < n_tail; j++) {
        int64_t id = load_u32(row->tail_id + 4 * j);
        double q = (double)logits_q[id] - lse - log_q;
        double log_r = q - ((double)load_f32(row->tail_logp + 4 * j) - log_p);
        double term = fp_exp(log_r) - 1 - log_r;
        sum += term;
        sq += term * term;
    }
    /* The variance formula assumes independent samples. Ours are evenly spaced, which has made the
     * true variance smaller in every run so far. */
    *noise = n_tail > 1 ? (float)(p * p * fmax(sq / n - sum / n * (sum / n), 0) / (n - 1)) : NAN;
    return p * (log_p - log_q + sum / n);
}

void kld_pos_top(struct kld_pos *p, int64_t i, const struct kld_top_row *row, int64_t n_top,
                 int64_t n_tail, float *logits_q, int64_t n_vocab, int32_t target) {
    double lse = eval_lse(logits_q, n_vocab), kld = 0, true_q = (double)logits_q[target];
    int64_t top_p = load_u32(row->top_id), top_q = logits_argmax(logits_q, n_vocab);
    float prob_q = fp_expf(logits_q[top_q] - (float)lse);
    float *saved = xmalloc((size_t)n_top * sizeof *saved);
    for (int64_t k = 0; k < n_top; k++) {
        int64_t id = load_u32(row->top_id + 4 * k);
        double lp = (double)load_f32(row->top_logp + 4 * k);
        saved[k] = logits_q[id];
        if (lp > (double)MIN_LOGP) kld += fp_exp(lp) * (lp - ((double)saved[k] - lse));
    }
    if (n_top < n_vocab && row->log_rest > MIN_LOGP) {
        for (int64_t k = 0; k < n_top; k++) logits_q[load_u32(row->top_id + 4 * k)] = -INFINITY;
        double lse_rest = eval_lse(logits_q, n_vocab);
        kld += rest_kld(row, n_tail, logits_q, lse, lse_rest, &p->noise[i]);
        for (int64_t k = 0; k < n_top; k++) logits_q[load_u32(row->top_id + 4 * k)] = saved[k];
    }
    free(saved);
    p->nll_p[i] = -(double)row->logp_true;
    p->nll_q[i] = lse - true_q;
    p->kld[i] = kld;
    p->dp[i] = fp_exp(-p->nll_q[i]) - fp_exp(-p->nll_p[i]);
    p->same[i] = top_p == top_q;
    p->top_p[i] = (int32_t)top_p;
    p->top_q[i] = (int32_t)top_q;
    p->prob_p[i] = fp_expf(load_f32(row->top_logp));
    p->prob_q[i] = prob_q;
}

static int cmp_double(const void *a, const void *b) {
    double x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}
void eval_sort(double *x, int64_t n) {
    qsort(x, (size_t)n, sizeof *x, cmp_double);
}
double eval_percentile(const double *sorted, int64_t n, double f) {
    double at = f * (double)(n - 1);
    int64_t i = (int64_t)at;
    if (i + 1 >= n) return sorted[n - 1];
    double part = at - (double)i;
    return (1 - part) * sorted[i] + part * sorted[i + 1];
}

/* Computes mean and percentiles of the divergences; sorts p->kld. */
static void stat_kld(struct kld_pos *p, struct eval_kld *o) {
    int64_t n = p->n;
    eval_mean(p->kld, n, &o->mean_kld, &o->mean_kld_stderr);
    const double *s = p->kld;
    eval_sort(p->kld, n);
    o->min_kld = s[0];
    o->kld_p01 = eval_percentile(s, n, 0.01);
    o->kld_p05 = eval_percentile(s, n, 0.05);
    o->kld_p10 = eval_percentile(s, n, 0.10);
    o->median_kld = eval_percentile(s, n, 0.50);
    o->kld_p90 = eval_percentile(s, n, 0.90);
    o->kld_p95 = eval_percentile(s, n, 0.95);
    o->kld_p99 = eval_percentile(s, n, 0.99);
    o->kld_p999 = eval_percentile(s, n, 0.999);
    o->max_kld = s[n - 1];
}

/* Computes the perplexities of both models, their ratio, and its standard error. */
static void stat_ppl(const struct kld_pos *p, struct eval_kld *o) {
    int64_t n = p->n;
    double mq, mp, uq, up, cov = 0;
    eval_mean(p->nll_q, n, &mq, &uq);
    eval_mean(p->nll_p, n, &mp, &up);
    for (int64_t i = 0; i < n; i++) cov += p->nll_q[i] * p->nll_p[i];
    cov = n > 10 ? (cov / (double)n - mq * mp) / (double)(n - 1) : (double)NAN;
    o->ppl = fp_exp(mq);
    o->ppl_base = fp_exp(mp);
    o->ppl_stderr = o->ppl * uq;
    o->ppl_base_stderr = o->ppl_base * up;
    o->correlation = uq > 0 && up > 0 ? cov / (uq * up) : 1;
    o->ln_ppl_ratio = mq - mp;
    o->ppl_ratio = fp_exp(mq - mp);
    double var = uq * uq + up * up - 2 * cov;
    o->ppl_ratio_stderr = o->ppl_ratio * (var <= 0 ? 0 : sqrt(var));
}

void kld_stats(struct kld_pos *p, struct eval_kld *o) {
    int64_t n = p->n;
    memset(o, 0, sizeof *o);
    o->n_tokens = n;
    if (!n) return;
    stat_ppl(p, o);
    stat_kld(p, o);
    eval_mean(p->dp, n, &o->mean_dp, &o->mean_dp_stderr);
    double mean, u;
    int64_t same = 0;
    for (int64_t i = 0; i < n; i++) {
        p->dp[i] *= p->dp[i];
        same += p->same[i];
    }
    eval_mean(p->dp, n, &mean, &u);
    o->rms_dp = sqrt(mean);
    o->rms_dp_stderr = o->rms_dp > 0 ? 0.5 * u / o->rms_dp : 0;
    double f = (double)same / (double)n;
    o->same_top1 = f;
    o->same_top1_stderr = n > 1 ? sqrt(f * (1 - f) / (double)(n - 1)) : 0;
}

/* Returns how many times wider an interval of n windows is than the percentiles of its resamples.
 * These ignore that the spread is itself estimated from n windows: at 8 windows, such an interval
 * holds the true mean in 88 of 100 cases. t / 1.96 is the ratio of Student's interval to the normal
 * one, and resamples spread by sqrt((n - 1) / n) too little. */
static double widening(int64_t n) {
    static const double z = 1.959963984540054;
    return eval_student(n - 1) / z * sqrt((double)n / (double)(n - 1));
}

double eval_student(int64_t df) {
    static const double few[] = {12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912},
                        z = 1.959963984540054;
    if (df < 1) return HUGE_VAL;
    if (df <= (int64_t)COUNT_OF(few)) return few[df - 1];
    const double z2 = z * z, n = (double)df;
    const double a = z * (z2 + 1) / 4, b = z * ((5 * z2 + 16) * z2 + 3) / 96,
                 c = z * (((3 * z2 + 19) * z2 + 17) * z2 - 15) / 384,
                 d = z * ((((79 * z2 + 776) * z2 + 1482) * z2 - 1920) * z2 - 945) / 92160;
    return z + (a + (b + (c + d / n) / n) / n) / n;
}

/* Computes the weighted mean of windows and its standard error, from sum w^2 (m - mean)^2 scaled by
 * C/(C-1). For C equal windows this is the sample variance of their means over C. */
void eval_cluster(const double *sum, const int64_t *count, int64_t n_windows, struct cluster *out) {
    double total = 0, n = 0, var = 0, means[BOOT_SAMPLES];
    int64_t used = 0, *pick = xmalloc(((size_t)n_windows + 1) * sizeof *pick);
    memset(out, 0, sizeof *out);
    for (int64_t c = 0; c < n_windows; c++)
        if (count[c] > 0) {
            pick[used++] = c;
            total += sum[c];
            n += (double)count[c];
        }
    if (used) out->mean = out->lo = out->hi = total / n;
    for (int64_t i = 0; i < used; i++) {
        double d = (sum[pick[i]] - out->mean * (double)count[pick[i]]) / n;
        var += d * d;
    }
    if (used > 1) {
        struct rng rng;
        rng_seed(&rng, 1);
        out->stderr_ = sqrt(var * (double)used / (double)(used - 1));
        for (int b = 0; b < BOOT_SAMPLES; b++) {
            double s = 0, k = 0;
            for (int64_t i = 0; i < used; i++) {
                int64_t c = pick[(int64_t)(rng_unit(&rng) * (double)used)];
                s += sum[c];
                k += (double)count[c];
            }
            means[b] = s / k;
        }
        eval_sort(means, BOOT_SAMPLES);
        const double k = widening(used), m = out->mean;
        out->lo = m + k * (eval_percentile(means, BOOT_SAMPLES, 0.025) - m);
        out->hi = m + k * (eval_percentile(means, BOOT_SAMPLES, 0.975) - m);
    }
    free(pick);
}

void eval_cluster_bound(struct cluster *c, double least, double most) {
    c->lo = fmax(c->lo, fmin(least, c->mean));
    c->hi = fmin(c->hi, fmax(most, c->mean));
}

/* Returns an end of a ratio's interval, widened as its logarithm: the ratio stays positive, and
 * exchanging the two sums gives the inverse. */
static double widened(double ratio, double end, int64_t n) {
    return ratio > 0 && end > 0 && end < HUGE_VAL ? ratio * fp_pow(end / ratio, widening(n)) : end;
}

void eval_cluster_ratio(const double *a, const double *b, int64_t n_windows, struct cluster *out) {
    double all_a = 0, all_b = 0, ratio[BOOT_SAMPLES];
    struct rng rng;
    rng_seed(&rng, 1);
    for (int64_t c = 0; c < n_windows; c++) {
        all_a += a[c];
        all_b += b[c];
    }
    *out = (struct cluster){.mean = all_b > 0 ? all_a / all_b : (double)NAN};
    out->lo = out->hi = out->mean;
    if (n_windows < 2 || !(all_b > 0)) return;
    for (int k = 0; k < BOOT_SAMPLES; k++) {
        double x = 0, y = 0;
        for (int64_t i = 0; i < n_windows; i++) {
            const int64_t c = (int64_t)(rng_unit(&rng) * (double)n_windows);
            x += a[c];
            y += b[c];
        }
        ratio[k] = y > 0 ? x / y : HUGE_VAL;
    }
    eval_sort(ratio, BOOT_SAMPLES);
    out->lo = widened(out->mean, eval_percentile(ratio, BOOT_SAMPLES, 0.025), n_windows);
    out->hi = widened(out->mean, eval_percentile(ratio, BOOT_SAMPLES, 0.975), n_windows);
}
