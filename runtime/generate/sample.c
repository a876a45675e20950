// SPDX-License-Identifier: MIT
/* runtime/generate/sample.c - token sampling from logits.
 *
 * Steps, in order: penalties for previous tokens, on a copy of the logits; selection of the top_k
 * largest, sorted; temperature; softmax; top_p keeps the shortest prefix whose probabilities add up
 * to top_p; min_p drops tokens whose probability is less than min_p times the largest; one draw.
 * Ties go to the lower id, so a seed gives the same text wherever the logits are equal. Logits that
 * are not finite count as impossible; if all are, the result is id 0. */
#include "runtime/generate/sample.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "runtime/engine/logits.h"

struct sampler {
    struct sample_opts o;
    int64_t n_vocab;
    struct rng rng;
    float *logits;
    struct logit *cand;
    int32_t *seen; /* [n_vocab] occurrences among the last tokens */
};

struct sampler *sampler_new(const struct sample_opts *o, int64_t n_vocab, uint64_t seed) {
    struct sampler *s = xcalloc(1, sizeof *s);
    s->o = *o;
    s->n_vocab = n_vocab;
    rng_seed(&s->rng, seed);
    s->logits = xcalloc((size_t)n_vocab, sizeof *s->logits);
    s->cand = xcalloc((size_t)n_vocab, sizeof *s->cand);
    s->seen = xcalloc((size_t)n_vocab, sizeof *s->seen);
    return s;
}

void sampler_free(struct sampler *s) {
    if (!s) return;
    free(s->logits);
    free(s->cand);
    free(s->seen);
    free(s);
}

int64_t sampler_n_vocab(const struct sampler *s) {
    return s->n_vocab;
}

/* Returns whether the repeat penalty is set to something other than 0 and 1 (no effect). */
static bool repeats_count(const struct sample_opts *o) {
    return o->repeat_penalty > 0 && fabsf(o->repeat_penalty - 1.0f) > 0;
}
/* Returns whether earlier tokens change the logits. */
static bool has_penalties(const struct sample_opts *o) {
    return repeats_count(o) || fabsf(o->presence_penalty) > 0 || fabsf(o->frequency_penalty) > 0;
}

/* Penalizes the tokens of `last`, each once: a positive logit is divided by the repeat penalty, a
 * negative one multiplied by it; then the presence penalty, and the frequency penalty times the
 * number of occurrences, are subtracted. */
static void penalize(struct sampler *s, const int32_t *last, int64_t n_last) {
    const struct sample_opts *o = &s->o;
    int64_t n = o->repeat_last_n < n_last ? o->repeat_last_n : n_last;
    if (!has_penalties(o) || n <= 0) return;
    for (int64_t i = n_last - n; i < n_last; i++)
        if (last[i] >= 0 && last[i] < s->n_vocab) s->seen[last[i]]++;
    for (int64_t i = n_last - n; i < n_last; i++) {
        int32_t id = last[i];
        if (id < 0 || id >= s->n_vocab || !s->seen[id]) continue;
        float x = s->logits[id];
        if (repeats_count(o)) x = x > 0 ? x / o->repeat_penalty : x * o->repeat_penalty;
        s->logits[id] = x - o->presence_penalty - o->frequency_penalty * (float)s->seen[id];
        s->seen[id] = 0;
    }
}

/* Sets p of n candidates, sorted best first, to their probabilities at a temperature. */
static void softmax(struct logit *c, int64_t n, double temp) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        c[i].p = exp(((double)c[i].logit - (double)c[0].logit) / temp);
        sum += c[i].p;
    }
    for (int64_t i = 0; i < n; i++) c[i].p /= sum;
}

/* Draws one of the n candidates, sorted best first. */
static int32_t draw(struct sampler *s, int64_t n) {
    if (n < 1) return 0;
    if (!(s->o.temp > 0) || n == 1) return s->cand[0].id;
    softmax(s->cand, n, (double)s->o.temp);
    if (s->o.top_p < 1.0f) {
        double mass = 0;
        int64_t keep = 0;
        while (keep < n && (keep == 0 || mass < (double)s->o.top_p)) mass += s->cand[keep++].p;
        n = keep;
    }
    while (s->o.min_p > 0 && n > 1 && s->cand[n - 1].p < (double)s->o.min_p * s->cand[0].p) n--;
    double total = 0;
    for (int64_t i = 0; i < n; i++) total += s->cand[i].p;
    double u = rng_unit(&s->rng) * total;
    for (int64_t i = 0; i < n - 1; i++) {
        u -= s->cand[i].p;
        if (u < 0) return s->cand[i].id;
    }
    return s->cand[n - 1].id;
}

/* Returns how many candidates are kept: 1 if greedy, top_k, or the whole vocabulary. */
static int64_t n_candidates(const struct sampler *s) {
    if (!(s->o.temp > 0)) return 1;
    return s->o.top_k > 0 && s->o.top_k < s->n_vocab ? s->o.top_k : s->n_vocab;
}

int32_t sampler_pick(struct sampler *s, const float *logits, const int32_t *last, int64_t n_last) {
    if (has_penalties(&s->o)) {
        memcpy(s->logits, logits, (size_t)s->n_vocab * sizeof *logits);
        penalize(s, last, n_last);
        logits = s->logits;
    }
    return draw(s, logits_keep(logits, s->n_vocab, s->cand, n_candidates(s)));
}

/* Returns how many of the largest logits suffice for the draw, or -1 for all. A penalty that only
 * lowers logits moves down at most the tokens that it applies to, and keeps the order of all
 * others. So the k best logits after penalizing n tokens are among the k + n best before. */
int64_t sampler_needs(const struct sampler *s, int64_t n_last) {
    const int64_t k = n_candidates(s),
                  n = s->o.repeat_last_n < n_last ? s->o.repeat_last_n : n_last;
    const struct sample_opts *o = &s->o;
    if (!has_penalties(o) || n <= 0) return k < s->n_vocab ? k : -1;
    const bool lower = (!repeats_count(o) || o->repeat_penalty > 1) && !(o->presence_penalty < 0) &&
                       !(o->frequency_penalty < 0);
    return lower && k + n < s->n_vocab ? k + n : -1;
}

int32_t sampler_pick_best(struct sampler *s, const int32_t *id, const float *logit, int64_t n,
                          const int32_t *last, int64_t n_last) {
    for (int64_t i = 0; i < n; i++) s->logits[id[i]] = logit[i];
    penalize(s, last, n_last);
    for (int64_t i = 0; i < n; i++) s->cand[i] = (struct logit){s->logits[id[i]], id[i], 0};
    qsort(s->cand, (size_t)n, sizeof *s->cand, logit_order);
    const int64_t k = n_candidates(s);
    return draw(s, n < k ? n : k);
}

uint64_t sampler_get_rng(const struct sampler *s) {
    return s->rng.s;
}
void sampler_set_rng(struct sampler *s, uint64_t place) {
    s->rng.s = place;
}
