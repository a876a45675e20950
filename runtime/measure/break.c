// SPDX-License-Identifier: MIT
/* runtime/measure/break.c - breakdowns of a finished comparison: totals, groups of positions (by
 * depth or domain), pairs of candidates, worst tokens. Standard errors are computed over windows,
 * because positions within a window are dependent. Uses per-position values only; needs no
 * model. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fp.h"
#include "base/mem.h"
#include "base/num.h"
#include "runtime/measure/internal.h"
#include "runtime/measure/measures.h"

int64_t eval_kld_windows(const struct eval_kld_run *r, int cand) {
    return min_i64(r->n_chunks, r->per_chunk > 0 ? r->pos[cand].n / r->per_chunk : 0);
}

/* Copies the values of rows [row0, row1) of all windows (domain -1) or of one domain's windows into
 * the scratch slot after the candidates, and returns that slot. count[c] is set to the number of
 * rows copied from window c. */
static struct kld_pos *pick(const struct eval_kld_run *r, int cand, int domain, int64_t row0,
                            int64_t row1, int64_t *count) {
    const struct kld_pos *p = &r->pos[cand];
    struct kld_pos *to = &r->pos[r->n_cand];
    row0 = max_i64(row0, r->from);
    row1 = min_i64(row1, r->from + r->per_chunk);
    int64_t n = max_i64(row1 - row0, 0);
    to->n = 0;
    memset(count, 0, (size_t)r->n_chunks * sizeof *count);
    for (int64_t c = 0; c < eval_kld_windows(r, cand); c++) {
        count[c] = domain < 0 || r->chunk_domain[c] == domain ? n : 0;
        size_t k = (size_t)count[c];
        int64_t at = c * r->per_chunk + row0 - r->from;
        if (!k) continue;
        memcpy(to->nll_q + to->n, p->nll_q + at, k * sizeof *p->nll_q);
        memcpy(to->nll_p + to->n, p->nll_p + at, k * sizeof *p->nll_p);
        memcpy(to->kld + to->n, p->kld + at, k * sizeof *p->kld);
        memcpy(to->dp + to->n, p->dp + at, k * sizeof *p->dp);
        memcpy(to->same + to->n, p->same + at, k);
        to->n += n;
    }
    return to;
}

/* Returns the clustered mean of the picked divergences, count[c] of them from window c. */
static struct cluster cluster_of(const struct kld_pos *p, const int64_t *count, int64_t n_chunks) {
    double *sum = xcalloc((size_t)n_chunks + 1, sizeof *sum);
    struct cluster cl;
    for (int64_t c = 0, at = 0; c < n_chunks; c++)
        for (int64_t i = 0; i < count[c]; i++) sum[c] += p->kld[at++];
    eval_cluster(sum, count, n_chunks, &cl);
    eval_cluster_bound(&cl, 0, (double)INFINITY);
    free(sum);
    return cl;
}

void eval_kld_total(const struct eval_kld_run *r, int cand, struct eval_kld *out) {
    int64_t *count = xcalloc((size_t)r->n_chunks + 1, sizeof *count);
    struct kld_pos *p = pick(r, cand, -1, r->ctx / 2, r->ctx, count);
    const struct cluster cl = cluster_of(p, count, r->n_chunks);
    kld_stats(p, out);
    out->ctx = r->ctx;
    out->n_chunks = eval_kld_windows(r, cand);
    out->tok_per_s = r->tok_per_s;
    out->mean_kld_stderr_windows = out->n_chunks > 1 ? cl.stderr_ : (double)NAN;
    const bool wide = out->n_chunks >= MEASURE_MIN;
    out->mean_kld_ci95_low = wide ? cl.lo : (double)NAN;
    out->mean_kld_ci95_high = wide ? cl.hi : (double)NAN;
    free(count);
}

double eval_kld_noise(const struct eval_kld_run *r, int cand) {
    double var = 0;
    int64_t n = 0;
    for (int64_t i = 0; i < r->pos[cand].n; i++)
        if (r->from + i % r->per_chunk >= r->ctx / 2) {
            var += (double)r->pos[cand].noise[i];
            n++;
        }
    return n ? sqrt(var) / (double)n : 0;
}

void eval_kld_group(const struct eval_kld_run *r, int cand, int domain, int64_t row0, int64_t row1,
                    struct eval_group *out) {
    struct eval_kld k;
    int64_t *count = xcalloc((size_t)r->n_chunks + 1, sizeof *count);
    memset(out, 0, sizeof *out);
    struct kld_pos *p = pick(r, cand, domain, row0, row1, count);
    for (int64_t c = 0; c < r->n_chunks; c++) out->n_chunks += count[c] > 0;
    const struct cluster cl = cluster_of(p, count, r->n_chunks);
    kld_stats(p, &k);
    out->n_tokens = p->n;
    out->mean_kld = cl.mean;
    out->mean_kld_stderr = cl.stderr_;
    out->mean_kld_lo = cl.lo;
    out->mean_kld_hi = cl.hi;
    out->median_kld = k.median_kld;
    out->kld_p99 = k.kld_p99;
    out->max_kld = k.max_kld;
    out->ppl = k.ppl;
    out->ppl_base = k.ppl_base;
    out->same_top1 = k.same_top1;
    out->rms_dp = k.rms_dp;
    free(count);
}

void eval_kld_pair_group(const struct eval_kld_run *r, int a, int b, int domain, int64_t row0,
                         int64_t row1, struct eval_pair *out) {
    int64_t *count = xcalloc((size_t)r->n_chunks + 1, sizeof *count), worse = 0, n = 0, used = 0;
    double *sum = xcalloc(3 * ((size_t)r->n_chunks + 1), sizeof *sum);
    double *sum_a = sum + r->n_chunks, *sum_b = sum_a + r->n_chunks;
    struct cluster cl, ratio;
    const int64_t both = min_i64(eval_kld_windows(r, a), eval_kld_windows(r, b));
    row0 = max_i64(row0, r->from);
    row1 = min_i64(row1, r->from + r->per_chunk);
    for (int64_t c = 0; c < both && row0 < row1; c++) {
        if (domain >= 0 && r->chunk_domain[c] != domain) continue;
        for (int64_t row = row0; row < row1; row++) {
            int64_t i = c * r->per_chunk + row - r->from;
            double d = r->pos[a].kld[i] - r->pos[b].kld[i];
            sum[used] += d;
            sum_a[used] += r->pos[a].kld[i];
            sum_b[used] += r->pos[b].kld[i];
            count[used]++;
            worse += d > 0;
            n++;
        }
        used++;
    }
    eval_cluster(sum, count, used, &cl);
    eval_cluster_ratio(sum_a, sum_b, used, &ratio);
    *out = (struct eval_pair){.n_chunks = used,
                              .diff = cl.mean,
                              .stderr_ = cl.stderr_,
                              .lo = cl.lo,
                              .hi = cl.hi,
                              .a_worse = n ? (double)worse / (double)n : 0,
                              .ratio = ratio.mean,
                              .ratio_lo = ratio.lo,
                              .ratio_hi = ratio.hi};
    free(count);
    free(sum);
}

void eval_kld_pair(const struct eval_kld_run *r, int a, int b, struct eval_pair *out) {
    eval_kld_pair_group(r, a, b, -1, r->ctx / 2, r->ctx, out);
}

int64_t eval_kld_worst(const struct eval_kld_run *r, int cand, int64_t n, struct eval_token *out) {
    const struct kld_pos *p = &r->pos[cand];
    int64_t have = 0;
    for (int64_t i = 0; i < p->n; i++) {
        int64_t c = i / r->per_chunk, row = r->from + i % r->per_chunk, k = have;
        if (row < r->ctx / 2 || n < 1) continue;
        if (have == n && !(p->kld[i] > out[n - 1].kld)) continue;
        if (have < n)
            have++;
        else
            k--;
        /* Ties keep the first. */
        for (; k > 0 && p->kld[i] > out[k - 1].kld; k--) out[k] = out[k - 1];
        out[k] = (struct eval_token){.chunk = c,
                                     .row = row,
                                     .token = r->tokens[c * r->ctx + row + 1],
                                     .top_base = p->top_p[i],
                                     .top_cand = p->top_q[i],
                                     .kld = p->kld[i],
                                     .p_base = fp_exp(-p->nll_p[i]),
                                     .p_cand = fp_exp(-p->nll_q[i]),
                                     .p_top_base = (double)p->prob_p[i],
                                     .p_top_cand = (double)p->prob_q[i]};
    }
    return have;
}
