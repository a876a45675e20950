// SPDX-License-Identifier: MIT
/* runtime/measure/divergence.c - `hone eval kld`: opens the models and caches to compare with a
 * base, and builds the result tables. The computations are in the other files of
 * runtime/measure/. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/measure/divergence.h"
#include "runtime/measure/measurement_cache.h"
#include "runtime/measure/answer.h"
#include "runtime/measure/cells.h"
#include "work/apart.h"
#include "work/plot.h"
#include "base/io.h"
#include "base/json.h"
#include "runtime/measure/kld_file.h"
#include "runtime/measure/kld_file_top.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/ranks.h"

enum {
    MAX_CAND = 64,
    /* Up to this number of candidates, all pairs are compared; above it, each with the first. */
    MAX_PAIRED = 8,
    MAX_WORST = 1000,
    CONTEXT = 24,      /* context tokens for a worst token */
    CONTEXT_SHOWN = 6, /* of these, tokens shown in human-readable output */
    DEPTH_BASE = 64,
    MAX_DEPTHS = 64 /* an int64_t cannot be doubled this often */
};

struct run {
    struct work *w;
    const struct divergence_opts *o;
    const struct eval_args *a; /* points into o */
    struct eval_loaded base;
    struct model *model[MAX_CAND];
    struct model *model_of[MAX_CAND]; /* of each candidate; borrowed */
    struct session *s[MAX_CAND];
    char *label[MAX_CAND]; /* owned */
    const char *path[MAX_CAND], *kv[MAX_CAND];
    int n_models, n;
    const struct model *tok_of; /* any one of the models: all share a vocabulary */
    struct eval_texts texts;
    struct results_cache *keep;
    struct kept_of kept; /* [n] */
    struct eval_kld_run r;
    struct eval_kld k[MAX_CAND];
};

/* ---- scalars and the table of candidates ---- */

struct kld_key {
    const char *key;
    const char *title; /* column title; NULL: only in JSON and CSV */
    const char *label; /* label for a single model; NULL: the title, if any */
    size_t off;
    int prec;
};
#define K(field, title, label, prec)                                                               \
    { #field, title, label, offsetof(struct eval_kld, field), prec }
static const struct kld_key kld_keys[] = {
    K(ppl, "ppl", NULL, 4),
    K(ppl_stderr, NULL, "ppl +-", 4),
    K(ppl_base, "ppl base", NULL, 4),
    K(ppl_base_stderr, NULL, "ppl base +-", 4),
    K(ppl_ratio, NULL, "ppl ratio", 6),
    K(ppl_ratio_stderr, NULL, "ppl ratio +-", 6),
    K(ln_ppl_ratio, "ln ratio", "ln ppl ratio", 5),
    K(mean_kld, "mean KLD", NULL, 6),
    K(mean_kld_stderr_windows, "+-", "mean KLD +-", 6),
    K(mean_kld_ci95_low, NULL, "mean KLD 95 % from", 6),
    K(mean_kld_ci95_high, NULL, "mean KLD 95 % to", 6),
    K(mean_kld_stderr, NULL, NULL, 6),
    K(median_kld, "median", "median KLD", 6),
    K(kld_p90, NULL, "90 % KLD", 6),
    K(kld_p95, NULL, "95 % KLD", 6),
    K(kld_p99, "99 %", "99 % KLD", 5),
    K(kld_p999, "99.9 %", "99.9 % KLD", 5),
    K(max_kld, "max", "max KLD", 4),
    K(min_kld, NULL, NULL, 6),
    K(kld_p10, NULL, NULL, 6),
    K(kld_p05, NULL, NULL, 6),
    K(kld_p01, NULL, NULL, 6),
    K(rms_dp, "RMS dp", NULL, 5),
    K(rms_dp_stderr, NULL, "RMS dp +-", 6),
    K(mean_dp, NULL, "mean dp", 6),
    K(mean_dp_stderr, NULL, "mean dp +-", 6),
    K(same_top1, "same top", "same top token", 4),
    K(same_top1_stderr, NULL, "same top token +-", 5),
    K(correlation, NULL, "correlation of ln ppl", 5),
    K(tok_per_s, NULL, "tokens/s", 1),
};
#undef K

/* Returns whether the output is for people rather than programs. */
static bool for_people(const struct run *x) {
    return x->o->for_people;
}

/* Returns the number to show. Rounding makes some divergences slightly negative: human-readable
 * output shows 0, JSON and CSV the computed value. */
static double shown(const struct run *x, const char *key, double v) {
    return v < 0 && for_people(x) && strstr(key, "kld") ? 0 : v;
}

/* Returns the value of kld_keys[i] for candidate j. */
static double kld_value(const struct run *x, int j, size_t i) {
    double v;
    memcpy(&v, (const char *)&x->k[j] + kld_keys[i].off, sizeof v);
    return shown(x, kld_keys[i].key, v);
}

/* Returns whether the base file holds only the top tokens and a sample of the others. */
static bool is_sampled(const struct run *x) {
    return x->a->base_file && kld_top_is(x->a->base_file);
}
/* Adds the figures of a single candidate as fields. */
static void emit_one(struct emit *m, const struct run *x) {
    for (size_t i = 0; i < COUNT_OF(kld_keys); i++)
        number_field(m, kld_keys[i].key, kld_keys[i].label ? kld_keys[i].label : kld_keys[i].title,
                     kld_value(x, 0, i), kld_keys[i].prec);
    if (is_sampled(x))
        number_field(m, "mean_kld_sampling_stderr", "mean KLD +- by sampling",
                     eval_kld_noise(&x->r, 0), 8);
}
/* Adds one row per candidate. */
static void emit_many(struct emit *m, const struct run *x) {
    emit_table(m, "candidates", "candidates");
    emit_col(m, "model", "model");
    emit_col(m, "file", NULL);
    emit_col(m, "kv_type", NULL);
    for (size_t i = 0; i < COUNT_OF(kld_keys); i++) emit_col(m, kld_keys[i].key, kld_keys[i].title);
    if (is_sampled(x)) emit_col(m, "mean_kld_sampling_stderr", NULL);
    for (int j = 0; j < x->n; j++) {
        emit_row(m);
        emit_cell_str(m, x->label[j]);
        emit_cell_str(m, io_base(x->path[j]));
        emit_cell_str(m, x->kv[j]);
        for (size_t i = 0; i < COUNT_OF(kld_keys); i++)
            number_cell(m, kld_value(x, j, i), kld_keys[i].prec);
        if (is_sampled(x)) number_cell(m, eval_kld_noise(&x->r, j), 8);
    }
}

/* ---- breakdowns ---- */

/* Returns the title of the model column; NULL, which hides it, for a single candidate. */
static const char *model_title(const struct run *x) {
    return x->n > 1 ? "model" : NULL;
}
/* Adds the columns that group_cells() fills. */
static void group_columns(struct emit *m) {
    emit_col(m, "n_tokens", "tokens");
    emit_col(m, "n_chunks", NULL);
    emit_col(m, "mean_kld", "mean KLD");
    emit_col(m, "mean_kld_stderr", "+-");
    emit_col(m, "mean_kld_ci95_low", NULL);
    emit_col(m, "mean_kld_ci95_high", NULL);
    emit_col(m, "median_kld", "median");
    emit_col(m, "kld_p99", "99 %");
    emit_col(m, "same_top1", "same top");
    emit_col(m, "ppl", "ppl");
    emit_col(m, "ppl_base", "ppl base");
}
/* Adds the cells of a group of tokens: counts, divergence and perplexities. */
static void group_cells(struct emit *m, const struct run *x, const struct eval_group *g) {
    emit_cell_i64(m, g->n_tokens);
    emit_cell_i64(m, g->n_chunks);
    emit_cell_num(m, shown(x, "mean_kld", g->mean_kld), 6);
    error_cell(m, g->mean_kld_stderr, g->n_chunks, 6);
    interval_cells(m, shown(x, "kld", g->mean_kld_lo), g->mean_kld_hi, g->n_chunks, 6);
    emit_cell_num(m, shown(x, "kld", g->median_kld), 6);
    emit_cell_num(m, shown(x, "kld", g->kld_p99), 5);
    emit_cell_num(m, g->same_top1, 4);
    emit_cell_num(m, g->ppl, 3);
    emit_cell_num(m, g->ppl_base, 3);
}

/* Adds the table of divergence by depth: the number of tokens that a prediction is based on (row +
 * 1). Groups are 1..63, 64..127, then twice as long each time. Also stores each group as a point in
 * p, at most MAX_DEPTHS per candidate. Returns the number of points. */
static int emit_by_depth(struct emit *m, const struct run *x, struct plot_point *p) {
    int n = 0;
    emit_table(m, "by_depth", "by depth (tokens of context)");
    emit_col(m, "model", model_title(x));
    emit_col(m, "from", "from");
    emit_col(m, "to", "to");
    group_columns(m);
    for (int j = 0; j < x->n; j++)
        for (int64_t lo = 1, hi = DEPTH_BASE; lo < x->r.ctx; lo = hi, hi *= 2) {
            struct eval_group g;
            const int64_t to = min_i64(hi, x->r.ctx) - 1;
            eval_kld_group(&x->r, j, -1, lo - 1, hi - 1, &g);
            if (!g.n_tokens) continue;
            emit_row(m);
            emit_cell_str(m, x->label[j]);
            emit_cell_i64(m, max_i64(lo, x->r.from + 1));
            emit_cell_i64(m, to);
            group_cells(m, x, &g);
            p[n++] = (struct plot_point){
                .x = (double)to, .y = g.mean_kld, .series = j, .label = x->label[j]};
        }
    return n;
}

/* Adds the table by depth and, with --plot, writes the plot. */
static int by_depth(struct emit *m, const struct run *x, struct err *e) {
    static const struct plot_axes axes = {.title = "mean KL divergence by context",
                                          .x = "tokens of context",
                                          .y = "mean KLD, nats (lower is better)",
                                          .log_x = true,
                                          .log_y = true};
    struct plot_point *p = xcalloc((size_t)x->n * MAX_DEPTHS, sizeof *p);
    int n = emit_by_depth(m, x, p);
    int rc = x->a->plot ? plot_write(x->w, &axes, p, n, x->a->plot, e) : 0;
    free(p);
    return rc;
}

/* Adds one row per domain of the text. */
static void emit_by_domain(struct emit *m, const struct run *x) {
    emit_table(m, "by_domain", "by domain");
    emit_col(m, "model", model_title(x));
    emit_col(m, "domain", "domain");
    group_columns(m);
    for (int j = 0; j < x->n; j++)
        for (int d = 0; d < x->texts.n; d++) {
            struct eval_group g;
            eval_kld_group(&x->r, j, d, x->r.ctx / 2, x->r.ctx, &g);
            emit_row(m);
            emit_cell_str(m, x->label[j]);
            emit_cell_str(m, x->texts.domain[d].name);
            /* A short row: its other cells are null. */
            if (g.n_tokens) group_cells(m, x, &g);
        }
}

/* Adds the differences between candidates, with confidence intervals. */
static void emit_pairs(struct emit *m, const struct run *x) {
    emit_table(m, "pairs", "differences of mean KLD, a - b");
    emit_col(m, "a", "a");
    emit_col(m, "b", "b");
    emit_col(m, "diff", "a - b");
    emit_col(m, "diff_stderr", "+-");
    emit_col(m, "diff_ci95_low", "95 % from");
    emit_col(m, "diff_ci95_high", "to");
    emit_col(m, "a_worse", "a worse at");
    for (int i = 0; i < x->n; i++)
        for (int j = i + 1; j < x->n; j++) {
            struct eval_pair p;
            if (x->n > MAX_PAIRED && i > 0) continue;
            eval_kld_pair(&x->r, i, j, &p);
            emit_row(m);
            emit_cell_str(m, x->label[i]);
            emit_cell_str(m, x->label[j]);
            emit_cell_num(m, p.diff, 6);
            error_cell(m, p.stderr_, p.n_chunks, 6);
            interval_cells(m, p.lo, p.hi, p.n_chunks, 6);
            emit_cell_num(m, p.a_worse, 3);
        }
}

/* Adds how often each layer chooses the same experts as in the base. */
static void emit_routing(struct emit *m, const struct run *x) {
    emit_table(m, "routing", "expert choices");
    emit_col(m, "model", model_title(x));
    emit_col(m, "layer", "layer");
    emit_col(m, "n_tokens", "tokens");
    emit_col(m, "same_set", "same set");
    emit_col(m, "same_experts", "experts shared");
    for (int j = 0; j < x->n; j++)
        for (int i = 0; i < x->r.n_routes; i++) {
            const struct eval_route *r = &x->r.route[j * x->r.n_routes + i];
            emit_row(m);
            emit_cell_str(m, x->label[j]);
            emit_cell_i64(m, r->layer);
            emit_cell_i64(m, r->n_tokens);
            emit_cell_num(m, (double)r->n_same / (double)max_i64(r->n_tokens, 1), 4);
            emit_cell_num(m, (double)r->n_common / (double)max_i64(r->n_chosen, 1), 4);
        }
}

/* Adds a cell with the text of n tokens: quoted and escaped in human-readable output; JSON does its
 * own escaping. */
static void text_cell(struct emit *m, const struct run *x, const int32_t *id, int64_t n) {
    struct buf raw = {0}, shown = {0};
    for (int64_t i = 0; i < n; i++) tok_decode(x->tok_of->tok, id[i], true, &raw);
    if (for_people(x)) {
        json_quote(&shown, raw.data ? raw.data : "", raw.len);
        emit_cell_str(m, shown.data);
    } else {
        emit_cell_str(m, raw.data ? raw.data : "");
    }
    buf_release(&raw);
    buf_release(&shown);
}

/* Adds the tokens of largest divergence, with their context. */
static void emit_worst(struct emit *m, const struct run *x) {
    struct eval_token *w = xcalloc((size_t)x->a->worst + 1, sizeof *w);
    int64_t context = for_people(x) ? CONTEXT_SHOWN : CONTEXT;
    emit_table(m, "worst", "worst tokens");
    emit_col(m, "model", NULL);
    emit_col(m, "domain", NULL);
    emit_col(m, "chunk", "chunk");
    emit_col(m, "position", "at");
    emit_col(m, "kld", "KLD");
    emit_col(m, "context", "context");
    emit_col(m, "token", "token");
    emit_col(m, "p_base", "base p");
    emit_col(m, "p_model", "p");
    emit_col(m, "top_base", "base's top");
    emit_col(m, "p_top_base", "p");
    emit_col(m, "top_model", "its top");
    emit_col(m, "p_top_model", "p");
    for (int j = 0; j < x->n; j++) {
        int64_t n = eval_kld_worst(&x->r, j, x->a->worst, w);
        for (int64_t i = 0; i < n; i++) {
            const int32_t *chunk = x->r.tokens + w[i].chunk * x->r.ctx;
            int64_t first = max_i64(0, w[i].row + 1 - context);
            int d = x->r.chunk_domain[w[i].chunk];
            emit_row(m);
            emit_cell_str(m, x->label[j]);
            emit_cell_str(m, d < x->texts.n ? x->texts.domain[d].name : "");
            emit_cell_i64(m, w[i].chunk);
            emit_cell_i64(m, w[i].row + 1);
            emit_cell_num(m, w[i].kld, 3);
            text_cell(m, x, chunk + first, w[i].row + 1 - first);
            text_cell(m, x, &w[i].token, 1);
            emit_cell_num(m, w[i].p_base, 4);
            emit_cell_num(m, w[i].p_cand, 4);
            text_cell(m, x, &w[i].top_base, 1);
            emit_cell_num(m, w[i].p_top_base, 4);
            text_cell(m, x, &w[i].top_cand, 1);
            emit_cell_num(m, w[i].p_top_cand, 4);
        }
    }
    free(w);
}

/* Adds all figures and tables. */
static int emit_result(struct run *x, struct emit *m, struct err *e) {
    int rc = 0;
    const struct eval_args *a = x->a;
    for (int i = 0; i < x->n; i++) eval_kld_total(&x->r, i, &x->k[i]);
    struct buf answer = {0};
    eval_answer(x->k, x->label, x->n, io_base(a->base ? a->base : a->base_file), &x->r, &answer);
    emit_answer(m, answer.data);
    buf_release(&answer);
    emit_str(m, "base", "base", a->base ? a->base : a->base_file);
    if (x->n == 1) emit_str(m, "model", "model", x->path[0]);
    emit_i64(m, "n_tokens", "scored tokens", x->k->n_tokens);
    emit_i64(m, "n_chunks", "chunks", x->r.n_chunks);
    emit_i64(m, "ctx", "ctx", x->r.ctx);
    emit_str(m, "kv_type", "kv type", a->kv_type);
    if (a->base) emit_str(m, "base_kv_type", NULL, a->base_kv);
    if (a->kv_skip) emit_i64(m, "kv_skip_layers", "kv layers skipped", a->kv_skip);
    if (a->kv_skip)
        emit_str(m, "kv_skip_type", "their type", a->kv_skip_type ? a->kv_skip_type : KV_EDGE);
    emit_str(m, "act", "activations", a->act);
    if (x->n == 1)
        emit_one(m, x);
    else
        emit_many(m, x);
    if (a->by_depth) rc = by_depth(m, x, e);
    if (x->texts.n > 1) emit_by_domain(m, x);
    if (x->n > 1) emit_pairs(m, x);
    if (x->r.n_routes) emit_routing(m, x);
    if (a->worst && x->tok_of->tok) emit_worst(m, x);
    return rc;
}

/* ---- runs ---- */

/* Opens the models of the candidates: one for every model and cache type listed. */
static int open_models(struct run *x, struct err *e) {
    const int n_models = x->o->n_models;
    struct str_list kv = {0};
    work_split(x->w, x->a->kv_type, &kv);
    if (!kv.n) return err_set(e, ERR_USAGE, "--kv-type: '%s' is not a cache type", x->a->kv_type);
    if (n_models * kv.n > MAX_CAND)
        return err_set(e, ERR_USAGE, "eval kld: at most %d models and cache types at a time",
                       MAX_CAND);
    for (int i = 0; i < n_models; i++) {
        TRY(eval_model(x->a, x->o->model[i], &x->model[x->n_models++], e));
        for (int k = 0; k < kv.n; k++) {
            const char *base = io_base(x->o->model[i]);
            x->path[x->n] = x->o->model[i];
            x->kv[x->n] = kv.v[k];
            x->label[x->n] = kv.n == 1       ? xstrdup(base)
                             : n_models == 1 ? xstrdup(kv.v[k])
                                             : xasprintf("%s %s", base, kv.v[k]);
            x->model_of[x->n++] = x->model[i];
        }
    }
    x->tok_of = x->model[0];
    return 0;
}

/* Opens the sessions of all candidates and, with `base`, of the base's model. */
static int open_sessions(struct run *x, const struct eval_args *base, int64_t ctx, struct err *e) {
    struct eval_opening o[MAX_CAND + 1];
    int n = 0;
    if (base) o[n++] = (struct eval_opening){base, x->base.m, base->kv_type, &x->base.s};
    for (int i = 0; i < x->n; i++)
        o[n++] = (struct eval_opening){x->a, x->model_of[i], x->kv[i], &x->s[i]};
    return eval_sessions(x->w, o, n, ctx, e);
}

static void run_release(struct run *x) {
    for (int i = 0; i < x->n; i++) {
        session_free(x->s[i]);
        free(x->label[i]);
    }
    for (int i = 0; i < x->n_models; i++) model_close(x->model[i]);
    eval_kld_close(&x->r);
    kept_release(&x->kept);
    results_cache_close(x->keep, false);
    eval_texts_release(&x->texts);
    eval_close_one(&x->base);
}

/* Measures the candidates against the model of --base. */
static int run_with_base(struct run *x, struct err *e) {
    struct eval_args base_args = *x->a;
    base_args.kv_type = x->a->base_kv;
    base_args.kv_skip = 0;
    TRY(eval_model(&base_args, x->a->base, &x->base.m, e));
    TRY(eval_texts_load(x->base.m, x->o->text, x->o->n_texts, &x->texts, e));
    TRY(open_models(x, e));
    TRY(open_sessions(x, &base_args, x->a->ctx, e));
    for (int i = 0; i < x->n; i++)
        kept_pair(&x->kept, x->keep, x->base.s, NULL, NULL, x->s[i], NULL);
    const struct eval_kld_job job = {.base = x->base.s,
                                     .cand = x->s,
                                     .n_cand = x->n,
                                     .domain = x->texts.domain,
                                     .n_domains = x->texts.n,
                                     .ctx = x->a->ctx,
                                     .max_chunks = x->a->chunks,
                                     .from = x->a->by_depth ? 0 : -1,
                                     .keep = x->kept.of,
                                     .routing = x->a->routing};
    return eval_kld_open(&job, &x->r, e);
}

/* Sets *ctx to the context of a base file, whichever format it has. */
static int file_ctx(const char *path, int64_t *ctx, struct err *e) {
    struct kld_r *file = NULL;
    struct kld_top_r *top = NULL;
    if (kld_top_is(path)) {
        TRY(kld_top_r_open(&top, path, e));
        *ctx = kld_top_r_shape(top)->n_ctx;
        kld_top_r_close(top);
        return 0;
    }
    TRY(kld_r_open(&file, path, e));
    *ctx = kld_r_ctx(file);
    kld_r_close(file);
    return 0;
}

/* Measures the candidates against the logits of --base-file. */
static int run_with_file(struct run *x, struct err *e) {
    if (x->o->n_texts)
        log_warn("%s is ignored: the tokens are those of %s", x->o->text[0], x->a->base_file);
    if (x->a->routing)
        return err_set(e, ERR_USAGE,
                       "eval kld --routing needs --base: the file holds no expert choices");
    int64_t ctx;
    TRY(file_ctx(x->a->base_file, &ctx, e));
    TRY(open_models(x, e));
    TRY(open_sessions(x, NULL, ctx, e));
    for (int i = 0; i < x->n; i++)
        kept_pair(&x->kept, x->keep, NULL, NULL, x->a->base_file, x->s[i], NULL);
    const struct eval_kld_job job = {.base_file = x->a->base_file,
                                     .cand = x->s,
                                     .n_cand = x->n,
                                     .max_chunks = x->a->chunks,
                                     .from = -1,
                                     .keep = x->kept.of};
    return eval_kld_open(&job, &x->r, e);
}

/* Writes the file of --save-base and emits its size. */
static int kld_save(struct work *w, const struct divergence_opts *o, struct emit *m,
                    struct err *e) {
    const struct eval_args *a = &o->eval;
    struct eval_loaded l;
    struct eval_texts t = {0};
    TRY(eval_open_one(w, a, o->model[0], a->ctx, &l, e));
    int rc = eval_texts_load(l.m, o->text, 1, &t, e);
    if (!rc && t.n > 1)
        rc = err_set(e, ERR_USAGE,
                     "%s has %d domains, but a base file holds one text: use --base instead",
                     o->text[0], t.n);
    if (!rc)
        rc = a->compact
                 ? eval_kld_save_top(l.s, t.ids, a->ctx, a->chunks, a->by_depth ? 0 : -1, a->top,
                                     a->tail, a->save_base, w->overwrite, e)
                 : eval_kld_save(l.s, t.ids, a->ctx, a->chunks, a->save_base, w->overwrite, e);
    uint64_t size = 0;
    if (!rc) rc = io_file_size(a->save_base, &size, e);
    if (!rc) {
        int64_t n = t.ids->n / a->ctx;
        emit_str(m, "output", "output", a->save_base);
        emit_i64(m, "ctx", "ctx", a->ctx);
        emit_i64(m, "n_chunks", "chunks", a->chunks > 0 ? min_i64(a->chunks, n) : n);
        emit_i64(m, "size_bytes", "bytes", (int64_t)size);
    }
    eval_texts_release(&t);
    eval_close_one(&l);
    return rc;
}

/* Returns ERR_USAGE unless exactly one kind of base is given and the other options suit it. */
static int check_options(const struct divergence_opts *o, struct err *e) {
    const struct eval_args *a = &o->eval;
    if (!!a->base + !!a->base_file + !!a->save_base != 1)
        return err_set(e, ERR_USAGE, "eval kld: give one of --base, --base-file and --save-base");
    if (a->plot && a->save_base)
        return err_set(e, ERR_USAGE, "eval kld: --plot cannot be combined with --save-base");
    if (a->plot && !a->by_depth)
        return err_set(e, ERR_USAGE, "eval kld: --plot needs --by-depth, whose table it draws");
    if (ranks_n() > 1 && (a->save_base || a->routing))
        return err_set(e, ERR_USAGE,
                       "eval kld: --save-base and --routing are done by one process: start without "
                       "mpirun");
    if (a->keep && (a->save_base || a->routing))
        return err_set(e, ERR_USAGE,
                       "eval kld: --keep cannot be used with --save-base or --routing");
    if (a->worst > MAX_WORST)
        return err_set(e, ERR_USAGE, "--worst: at most %d tokens are listed", MAX_WORST);
    if (!a->base_file && !o->n_texts) return err_set(e, ERR_USAGE, "eval kld: the TEXT is missing");
    for (int i = 0; i < o->n_models; i++)
        for (int k = 0; k < i; k++)
            if (apart_same(o->model[i], o->model[k]))
                return err_set(e, ERR_USAGE, "eval kld: %s is given twice", o->model[i]);
    if (o->n_models > MAX_CAND)
        return err_set(e, ERR_USAGE, "eval kld: at most %d models at a time", MAX_CAND);
    if (a->save_base && (o->n_models > 1 || o->n_texts > 1))
        return err_set(e, ERR_USAGE, "eval kld --save-base takes one model and one TEXT");
    return 0;
}

/* Checks that no output is an input. */
static int check_outputs(struct work *w, const struct divergence_opts *o, struct err *e) {
    struct apart files = {.w = w};
    apart_in_all(&files, o->model, o->n_models);
    apart_in_all(&files, o->text, o->n_texts);
    apart_in(&files, o->eval.base);
    apart_in(&files, o->eval.base_file);
    apart_out(&files, o->eval.save_base);
    apart_out(&files, o->eval.plot);
    return apart_check(&files, e);
}

int divergence_run(struct work *w, const struct divergence_opts *o, struct emit *m, struct err *e) {
    const struct eval_args *a = &o->eval;
    TRY(check_options(o, e));
    TRY(check_outputs(w, o, e));
    if (a->save_base) return kld_save(w, o, m, e);
    struct run *x = xcalloc(1, sizeof *x);
    x->w = w;
    x->o = o;
    x->a = a;
    int rc = kept_open(&x->keep, a->keep, e);
    if (!rc) rc = a->base ? run_with_base(x, e) : run_with_file(x, e);
    if (!rc) rc = emit_result(x, m, e);
    run_release(x);
    free(x);
    return rc;
}
