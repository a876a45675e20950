// SPDX-License-Identifier: MIT
/* make/estimate.c - times of a job's parts, computed from the rates of a machine and the shapes of
 * a model. */
#include "make/estimate.h"

#include <math.h>
#include <string.h>

#include "base/num.h"
#include "mix/probe.h"
#include "mix/sens.h"
#include "quantize/feedback.h"
#include "runtime/generate/windows.h"

/* Share of the tensors of several mixes that must be encoded: a tensor that has the same type in
 * two mixes is encoded only once. */
static const double share = .68;
/* Share of these that get a type with a grid, if there are such types. */
static const double grid_share = .38;
/* Cost of a window's gradients, in passes: two forward passes, one backward pass, the weight
 * gradients, and one for attention and norms. */
static const double slope_passes = 5;
/* Error of the types that joint probes use; grid types are not among them (mix/joint.h). */
static const double probed = .016;

/* ---- tensors --------------------------------------------------------------------------------- */

/* Returns the number of weights of a tensor. */
static double weights_of(const struct recipe_item *it) {
    return (double)it->ne[0] * (double)it->ne[1] * (double)(it->ne[2] * it->ne[3]);
}

/* Marks the types that a mix may give a tensor, except those that only low budgets use. */
static void types_of(const struct recipe_item *it, bool can[QT_COUNT]) {
    sens_candidates(it, can);
    for (int t = 0; t < QT_COUNT; t++) can[t] = can[t] && !(qtype_info(t)->flags & QF_LAST_RESORT);
}

/* Returns the mean rate over the possible types; 0: no type is possible. */
static double mean_of(const bool can[QT_COUNT], const double rate[QT_COUNT]) {
    double sum = 0;
    int n = 0;
    for (int t = 0; t < QT_COUNT; t++)
        if (can[t]) sum += rate[t], n++;
    return n ? sum / n : 0;
}

/* Returns the time to encode a tensor for a preset whose main type is `main`. */
static double preset_time(const struct recipe_item *it, enum qtype main,
                          const double rate[QT_COUNT]) {
    bool can[QT_COUNT];
    const enum qtype t = qtype_fit(main, it->ne[0]);
    types_of(it, can);
    return weights_of(it) * (rate[t] > 0 ? rate[t] : mean_of(can, rate));
}

/* Returns the rate of the type that joint probes would give a tensor with these candidates. */
static double probe_rate(const bool can[QT_COUNT], const struct speeds *s) {
    double best = HUGE_VAL, rate = 0;
    for (int t = 0; t < QT_COUNT; t++) {
        if (!can[t] || !(s->error[t] > 0) || fed_kind((enum qtype)t) == FED_GRIDS) continue;
        const double d = fabs(log(s->error[t] / probed));
        if (d < best) rate = s->encode[t];
        best = fmin(best, d);
    }
    return rate;
}

/* ---- encoding -------------------------------------------------------------------------------- */

/* Returns the number of weights whose errors are measured: 2 % of the rows, at least 8 per expert
 * and 64 per dense matrix. */
static double sampled(const struct recipe_item *it) {
    const int64_t mats = it->ne[2] * it->ne[3];
    const int64_t rows = max_i64(it->ne[1] / 50, max_i64(8, div_up(64, mats)));
    return (double)(min_i64(rows, it->ne[1]) * mats) * (double)it->ne[0];
}

/* Returns the mean time of the presets that the job makes. */
static double preset(const struct shapes *s, const struct estimate_opts *o,
                     const double rate[QT_COUNT]) {
    double sum = 0;
    int n = 0;
    for (size_t k = 0; k < COUNT_OF(o->files); k++)
        for (int f = 0; o->files[k] && f < o->files[k]->n; f++, n++)
            for (int64_t i = 0; i < s->n; i++)
                if (s->item[i].quant)
                    sum += preset_time(&s->item[i], recipe_default(o->files[k]->v[f]), rate);
    return n ? sum / n : 0;
}

/* Times of error feedback on one tensor. */
struct fed_time {
    double once;   /* factors, shared by all types, files and tensors with the same input */
    double gains;  /* trying each type */
    double choose; /* choosing the shrinkage for one type, on average */
    double encode; /* encoding it in one type */
};

/* Estimates the time of error feedback for one tensor, in seconds. */
static void fed_times(const struct recipe_item *it, const struct speeds *s, struct fed_time *out) {
    struct shapes_input in;
    bool can[QT_COUNT];
    int n[FED_KINDS] = {0};
    shapes_input(it, &in);
    types_of(it, can);
    *out = (struct fed_time){0};
    const double blocks = (double)it->ne[0] / in.block, tries = it->ne[2] > 1 ? 2 : 1;
    for (int t = 0; t < QT_COUNT; t++)
        if (can[t] && feedback_can((enum qtype)t)) n[fed_kind((enum qtype)t)]++;
    /* Rows that fit only blocks of 32 are encoded in types with such blocks; other rows hardly use
     * them. */
    const int last = n[FED_CODES] || n[FED_GRIDS] ? FED_GRIDS : FED_NARROW;
    int kinds = 0;
    for (int k = 0; k < FED_KINDS; k++) {
        const double choose = n[k] ? tries * blocks * fed_choose(s, (enum fed_kind)k, in.block) : 0;
        out->gains += n[k] * choose;
        if (!n[k] || k > last) continue;
        const bool both = last == FED_GRIDS && n[FED_CODES] && n[FED_GRIDS];
        const double part = !both ? 1 : k == FED_GRIDS ? grid_share : 1 - grid_share;
        out->choose += part * choose;
        out->encode += part * weights_of(it) * fed_weight(s, (enum fed_kind)k, in.block);
        kinds++;
    }
    if (kinds && in.leads)
        out->once = blocks * ((in.n_mats > 1 ? tries : 1) * fed_factors(s, in.block) +
                              in.n_mats * fed_factor(s, in.block));
}

/* Returns the share of the size classes that plan_learns. */
static double learning(const struct str_list *classes) {
    int n = 0;
    for (int i = 0; i < classes->n; i++) n += plan_learns(classes->v[i]);
    return classes->n ? (double)n / classes->n : 0;
}

/* Returns the cost of learning in passes: gradients of all blocks, unless there are too many
 * weights, then gradients of the file and a pass of the base. */
static double learn_passes(const struct shapes *s) {
    double n = 0;
    for (int64_t i = 0; i < s->n; i++) n += weights_of(&s->item[i]);
    return (n > (double)PLAN_LEARN_MOST ? 0 : slope_passes) + slope_passes + 1;
}

/* Forecasts the encoding time. `tokens` is the size of the calibration text. With block-by-block
 * encoding, it runs three times per file: once in the base's pass and twice in the file's. Moments
 * of differences need twice as many products. Before that, the base's gradients are collected. */
static void encoding(struct plan_in *in, const struct rates *r, const struct shapes *s,
                     const struct estimate_opts *o, double tokens) {
    const struct speeds *v = &r->speeds;
    const int n_files = in->n_classes;
    const double alone = n_files > 2 ? share : 1;
    /* Passes of single blocks run on the processor even if those for importance do not. */
    const double token = fmax(r->calib_token, r->pass_token);
    /* The moments of block-by-block encoding are those of inputs only; gradients, which account for
     * most of the cost of other moments, are computed once per file. */
    const double moments = fmin(r->gram_token, token);
    const double again = r->reread / (double)o->calib_ctx; /* per token of a window */
    double choose = 0, encode = 0;
    for (int64_t i = 0; i < s->n; i++) {
        const struct recipe_item *it = &s->item[i];
        struct fed_time fed;
        bool can[QT_COUNT];
        if (!it->quant) continue;
        types_of(it, can);
        for (int t = 0; t < QT_COUNT; t++) /* the factor accounts for decoding and comparing */
            if (can[t]) in->errors += 1.3 * sampled(it) * v->encode[t];
        in->probe_encode += weights_of(it) * probe_rate(can, v);
        fed_times(it, v, &fed);
        in->gains += fed.gains + fed.once;
        in->factors += fed.once;
        choose += fed.choose;
        encode += fed.encode;
    }
    in->preset = preset(s, o, o->best ? v->encode_best : v->encode) * (n_files > 2 ? .8 : 1);
    in->encode = in->preset; /* without feedback, the search takes as long as for presets */
    in->encode_alone = encode + choose;
    in->encode_feedback = in->encode_alone * alone;
    in->encode_sequential = encode + 2 * (choose + in->factors) + tokens * 3 * (token + moments) +
                            3 * r->reread; /* each block once for the whole text */
    if (!in->gradients) return;
    in->encode_sequential += tokens * (slope_passes * r->pass_token + 2 * again);
    in->encode_sequential +=
        learning(o->files[0]) * tokens * learn_passes(s) * (r->pass_token + again);
}

/* Returns whether a role always has the type of another role: some types are chosen together
 * (mix/sens.c). */
static bool follows(enum role r) {
    return r == ROLE_EXP_UP || r == ROLE_FFN_UP || r == ROLE_SHEXP_UP || r == ROLE_SHEXP_DOWN ||
           r == ROLE_SSM_BETA;
}

/* Counts, for each role, the layers whose types are chosen separately. */
static void count_groups(const struct shapes *s, struct plan_in *in) {
    in->n_roles = PLAN_ROLES;
    memset(in->layers, 0, sizeof in->layers);
    for (int64_t i = 0; i < s->n; i++)
        if (s->item[i].quant && !follows(s->item[i].role)) in->layers[s->item[i].role]++;
}

/* ---- measuring ------------------------------------------------------------------------------- */

int64_t estimate_windows(int64_t tokens, int64_t ctx, int64_t most) {
    const int64_t n = max_i64(1, tokens / max_i64(1, ctx));
    return most ? min_i64(most, n) : n;
}

/* Returns the time to read the weights that do not fit in memory, of n_bytes in all. */
static double reread(const struct rates *r, double n_bytes) {
    return r->memory > 0 ? fmax(0, n_bytes - r->memory) / fmax(1e6, r->disk) : 0;
}

void rates_guess(struct rates *r, const struct shapes *s, const struct estimate_opts *o) {
    struct shapes_gram gram;
    shapes_gram(s, &gram);
    /* The factor accounts for attention, norms and decoding. */
    r->calib_token = 1.3 * 2 * s->active / r->speeds.product;
    r->gram_token = 1.3 * gram.flops / r->speeds.product;
    /* Only the second half of a window is scored. */
    const double head = (double)s->n_vocab * (double)s->n_embd / fmax(1, s->active);
    r->window = r->calib_token * (double)o->eval_ctx * (1 - fmin(.9, head) / 2);
    r->measured = false;
    r->pass_token = r->calib_token;
    r->reread = reread(r, (double)s->base_bytes);
}

/* Returns the mean time of reading a size class's file again in every pass. */
static double reread_file(const struct rates *r, const struct shapes *s,
                          const struct estimate_opts *o) {
    const struct str_list *files = o->files[0];
    double sum = 0;
    for (int f = 0; files && f < files->n; f++) {
        const enum qtype main = recipe_default(files->v[f]);
        double n = 0;
        for (int64_t i = 0; i < s->n; i++)
            n += weights_of(&s->item[i]) * qtype_bpw(qtype_fit(main, s->item[i].ne[0])) / 8;
        sum += reread(r, n);
    }
    return files && files->n ? sum / files->n : 0;
}

/* Returns a window's share of the time to read the weights again: they are read once for those of n
 * windows that n_alike sessions feed together (runtime/generate/windows.h). */
static double reread_share(const struct rates *r, const struct shapes *s, int64_t ctx, int64_t n,
                           int n_alike, double time) {
    const double in_pass = fmax(1, floor(WINDOWS_PIECE / (double)max_i64(1, ctx))),
                 by_block = (double)windows_by_block(ctx, s->n_embd, n_alike, r->memory),
                 in_time = floor((WINDOWS_FEED_S - time) / fmax(1e-9, r->window));
    return time / fmax(1, fmin(fmin((double)n, in_time), fmax(in_pass, by_block)));
}

/* Tokens in the prompt and in the answer of a tool-call case; runs per case: one unconstrained, one
 * constrained. */
enum { TOOL_PROMPT = 700, TOOL_ANSWER = 60, TOOL_RUNS = 2 };
/* Answers of a loop, and tokens of a check. */
enum { LOOP_ANSWERS = 4, CHECK_PROMPT = 100, CHECK_ANSWER = 80 };
/* Tokens of a question about images besides those of the images, and of its answer. */
enum { QUESTION_PROMPT = 40, IMAGE_ANSWER = 16 };
/* Estimates the time of evaluation, speed measurement and hashing, in seconds. */
static void measuring(struct plan_in *in, const struct rates *r, const struct shapes *s,
                      const struct estimate_opts *o) {
    const double token = r->window / (double)o->eval_ctx, prompt = token * .6;
    /* For a file with 5 bits per weight. The fixed overhead per token accounts for queues and
     * threads. */
    const double step = fmax(s->active * .7 / fmax(1e8, r->speeds.bandwidth) + 3e-4, token / 4);
    /* A prompt of each depth precedes its tests; the growth of attention is not counted. */
    const double tests = (double)(max_i64(1, o->n_depths) * o->reps);
    in->speed = tests * ((double)o->pp * prompt + (double)o->tg * step) * 1.5 +
                (double)o->depth_tokens * prompt;
    in->tools = (double)(TOOL_RUNS * o->tools_cases + LOOP_ANSWERS * o->loops) *
                    (TOOL_PROMPT * prompt + TOOL_ANSWER * step) +
                (double)o->checks * (CHECK_PROMPT * prompt + CHECK_ANSWER * step);
    /* The block adds about one layer and a second head to each window. */
    in->drafts = 1.3 * in->eval_window * (double)min_i64(o->draft_windows, in->eval_windows);
    /* An upper bound: one run of the base and the tower is for several files. */
    const double weights = o->tower_bytes / 2,
                 tower = 2 * weights * (double)o->image_patches / fmax(1, r->speeds.product);
    in->images = (double)o->questions * (QUESTION_PROMPT * token + IMAGE_ANSWER * (token + step)) +
                 (double)o->image_tokens * token + tower / 3;
    /* SHA-256 and XXH3 of a file run at this rate. */
    in->report = (double)s->base_bytes / 3 / 3e8;
    in->convert = o->convert ? (double)s->base_bytes / 2e8 : 0;
    in->hash = (double)s->base_bytes / 1e9;
}

enum { BASE_AND_FILE = 2 }; /* sessions of a comparison */
void estimate(struct plan_in *in, const struct rates *r, const struct shapes *s,
              const struct estimate_opts *o) {
    const double chunks = (double)estimate_windows(r->calib_tokens, o->calib_ctx, o->calib_chunks),
                 ctx = (double)o->calib_ctx;
    in->errors = in->probe_encode = in->gains = in->factors = 0;
    in->probe_windows = min_i64(16, max_i64(2, estimate_windows(r->probe_tokens, o->calib_ctx, 0)));
    in->eval_windows = estimate_windows(r->eval_tokens, o->eval_ctx, o->eval_chunks);
    const double alone = reread_share(r, s, o->calib_ctx, (int64_t)chunks, 1, r->reread);
    in->imatrix = (chunks + 1) * (ctx * r->calib_token + alone);
    /* With moments, a chunk is fed alone; its gradients read the weights twice. */
    in->gram = (chunks + 1) * (ctx * r->gram_token + (in->gradients ? 2 : 1) * r->reread - alone);
    in->eval_window = r->window + reread_share(r, s, o->eval_ctx, in->eval_windows, BASE_AND_FILE,
                                               reread_file(r, s, o));
    in->pass_window = r->window * ctx / (double)o->eval_ctx +
                      reread_share(r, s, o->calib_ctx, PROBE_LOOK, PROBE_SLOTS + 1, r->reread);
    in->slope_window = ctx * slope_passes * r->pass_token + 2 * r->reread;
    count_groups(s, in);
    encoding(in, r, s, o, chunks * (double)o->calib_ctx);
    measuring(in, r, s, o);
}
