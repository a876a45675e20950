// SPDX-License-Identifier: MIT
/* jobs/quantize_budget.c - hone quantize --budget, --bpw and --vram: makes one mix per limit, all
 * in one pass over the model; prints their table and the Pareto front of quality and speed. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mix/accept.h"
#include "mix/mixer.h"
#include "work/apart.h"
#include "work/plot.h"
#include "mix/sequential.h"
#include "jobs/quantize_budget.h"
#include "jobs/quantize_job.h"
#include "work/open.h"
#include "text/size.h"
#include "base/buf.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/os.h"
#include "base/out.h"
#include "models/fit.h"
#include "quantize/exact.h"
#include "quantize/record.h"
#include "runtime/engine/kv_type.h"
#include "text/textfile.h"

/* Counts all weights of a file, for bits per weight. */
static int count_weights(const char *path, double *n, struct err *e) {
    struct gguf *g;
    TRY(gguf_open(&g, path, 0, e));
    *n = 0;
    for (int64_t i = 0; i < gguf_n_tensors(g); i++) {
        const int64_t *ne = gguf_tensor_at(g, i)->ne;
        *n += (double)ne[0] * (double)ne[1] * (double)ne[2] * (double)ne[3];
    }
    gguf_close(g);
    return 0;
}

/* Returns the name of an output, with "{}" replaced by the budget's text. A single budget needs no
 * "{}". NULL if out is; otherwise free it. */
static char *output(const char *out, const char *budget) {
    const char *hole = out ? strstr(out, "{}") : NULL;
    if (!out) return NULL;
    if (!hole) return xstrdup(out);
    return xasprintf("%.*s%s%s", (int)(hole - out), out, budget, hole + 2);
}

/* Returns the path with `end` appended, to be freed. A link is resolved first. */
static char *beside(const char *path, const char *end) {
    char *real = io_real(path), *out = xasprintf("%s%s", real ? real : path, end);
    free(real);
    return out;
}

bool budget_asked(const struct budget_args *b) {
    return b->budget.n || b->bpw > 0 || b->vram;
}

bool budget_detail(const struct budget_args *b) {
    return b->sensitivity || b->no_floors || b->prefer || b->avoid || b->front || b->bandwidth ||
           b->ctx || b->kv_type || b->reserve || b->slots || b->gate.n;
}

/* ---- limits ---------------------------------------------------------------------------------- */

/* Parses --prefer into the weight of speed: 0 for quality, 1 for speed. */
static int parse_speed(const char *text, double *out, struct err *e) {
    char *end;
    *out = 0;
    if (!text || strcmp(text, "quality") == 0) return 0;
    *out = 1;
    if (strcmp(text, "speed") == 0) return 0;
    *out = strtod(text, &end);
    if (end != text && !*end && *out >= 0 && *out <= 1000) return 0;
    return err_set(e, ERR_USAGE, "--prefer: '%s' is not quality, speed, or a weight from 0 to 1000",
                   text);
}

/* Parses the options of a mix. ERR_USAGE: malformed. */
static int parse_ask(struct work *w, const struct budget_args *b, struct mix_ask *a,
                     struct err *e) {
    struct str_list avoid = {0};
    *a = (struct mix_ask){.vram = b->vram,
                          .reserve = b->reserve,
                          .ctx = b->ctx,
                          .slots = b->slots ? b->slots : 1,
                          .kv_type = b->kv_type ? b->kv_type : KV_USUAL,
                          .floors = !b->no_floors,
                          .can_lower = true};
    TRY(parse_speed(b->prefer, &a->speed, e));
    if (!b->vram && (b->ctx || b->slots || b->kv_type || b->reserve))
        return err_set(e, ERR_USAGE, "--ctx, --slots, --kv-type and --reserve require --vram");
    const struct kv_type *keys, *values;
    TRY(kv_type_parse(a->kv_type, "--kv-type", &keys, &values, e));
    a->kv = kv_type_rows(keys, values);
    if (b->vram && !b->reserve) a->reserve = fit_reserve(b->vram);
    if (b->avoid) work_split(w, b->avoid, &avoid);
    for (int i = 0; i < avoid.n; i++) {
        enum qtype t;
        if (!qtype_parse(avoid.v[i], &t))
            return err_set(e, ERR_USAGE, "--avoid: '%s' is not a tensor type", avoid.v[i]);
        a->avoid[t] = true;
    }
    return 0;
}

struct set { /* one mix per limit */
    struct work *w;
    const struct budget_args *b;
    const struct quantize_opts *q;
    const struct str_list *sequential; /* texts of --sequential; empty: all files in one pass */
    int learn;                         /* passes of --learn */
    struct mixer x;
    int n;
    struct mix_ask *ask;
    struct mix_job *job;
    struct quantize_opts *opts; /* [n] options of the outputs */
    struct quantize_report *r;
    char **out;
    char **unjudged;      /* path of the mix until the gate's verdict; NULL: no gate */
    int n_made;           /* mixes that are complete */
    char **why;           /* reason of the gate's verdict; NULL: none yet, or no gate */
    const char **shipped; /* recipe that replaced the mix; NULL: the mix is kept */
};

/* Sets the limits, in bytes and as the texts that replace {}. */
static int set_asks(struct set *s, struct err *e) {
    const struct budget_args *b = s->b;
    struct mix_ask base;
    TRY(parse_ask(s->w, b, &base, e));
    s->n = b->budget.n + (b->bpw > 0);
    if (!s->n) s->n = 1; /* only --vram */
    if (s->n > 1 && s->q->out && !strstr(s->q->out, "{}") && !s->q->dry_run)
        return err_set(e, ERR_USAGE, "several budgets need {} in -o, which each budget replaces");
    if (s->n > 1 && s->q->plan_out)
        return err_set(e, ERR_USAGE,
                       "--plan-out takes one budget; plans are written next to the files anyway");
    s->ask = xcalloc((size_t)s->n, sizeof *s->ask);
    s->job = xcalloc((size_t)s->n, sizeof *s->job);
    s->opts = xcalloc((size_t)s->n, sizeof *s->opts);
    s->r = xcalloc((size_t)s->n, sizeof *s->r);
    s->out = xcalloc((size_t)s->n, sizeof *s->out);
    s->unjudged = xcalloc((size_t)s->n, sizeof *s->unjudged);
    s->why = xcalloc((size_t)s->n, sizeof *s->why);
    s->shipped = xcalloc((size_t)s->n, sizeof *s->shipped);
    for (int i = 0; i < s->n; i++) {
        const char *label = i < b->budget.n ? b->budget.v[i] : b->bpw > 0 ? "bpw" : "vram";
        for (int k = 0; k < i && i < b->budget.n; k++)
            if (strcmp(label, b->budget.v[k]) == 0)
                return err_set(e, ERR_USAGE, "--budget: %s is named twice", label);
        s->ask[i] = base;
        s->out[i] = output(s->q->out, label);
        if (b->gate.n && s->out[i]) s->unjudged[i] = beside(s->out[i], ".unjudged.gguf");
        if (i < b->budget.n) {
            TRY(size_parse(b->budget.v[i], "--budget", &s->ask[i].budget, e));
            if (!s->ask[i].budget) return err_set(e, ERR_USAGE, "--budget: 0 bytes");
        } else if (b->bpw > 0) {
            double weights = 0;
            TRY(count_weights(s->q->in, &weights, e));
            const double bytes = weights * b->bpw / 8;
            if (bytes < 1 || bytes >= 0x1p63)
                return err_set(e, ERR_USAGE, "--bpw: no file has %g bits per weight", b->bpw);
            s->ask[i].budget = (uint64_t)bytes;
        }
    }
    return 0;
}

static void set_release(struct set *s) {
    for (int i = 0; i < s->n && s->out; i++) {
        quantize_report_release(&s->r[i]);
        mix_job_release(&s->job[i]);
        free(s->out[i]);
        free(s->unjudged[i]);
        free(s->why[i]);
    }
    free(s->unjudged);
    free(s->why);
    free(s->shipped);
    free(s->ask);
    free(s->job);
    free(s->opts);
    free(s->r);
    free(s->out);
    mixer_close(&s->x);
}

/* ---- the front ------------------------------------------------------------------------------- */

/* Returns the time in milliseconds for reading a number of bytes, at --bandwidth or 1 TB/s. */
static double ms_of(const struct budget_args *b, double bytes) {
    return 1e3 * bytes / (b->bandwidth ? (double)b->bandwidth : 1e12);
}

/* Emits the trade-off between speed and quality as a table and a drawing. */
static int emit_front(struct set *s, struct emit *m, struct err *e) {
    struct mix_point pt[MIX_FRONT];
    static const struct plot_axes axes = {.title = "time per token against predicted KL divergence",
                                          .x = "predicted milliseconds per token",
                                          .y = "predicted KLD, nats (lower is better)",
                                          .log_y = true};
    struct plot_point *plot = xcalloc((size_t)(s->n * MIX_FRONT), sizeof *plot);
    char(*label)[32] = xcalloc((size_t)s->n, sizeof *label);
    int n_plot = 0, n, rc = 0;
    emit_table(m, "front", "from quality to speed, at the same limits");
    emit_col(m, "budget_bytes", "budget");
    emit_col(m, "prefer", "prefer");
    emit_col(m, "predicted_kld", "predicted KLD");
    emit_col(m, "decode_bytes", "bytes per token");
    emit_col(m, "ms_per_token", "ms per token");
    for (int i = 0; i < s->n && !rc; i++) {
        snprintf(label[i], sizeof label[i], "%.3f bpw", s->job[i].m.bpw);
        rc = mix_front(&s->x, &s->ask[i], &s->job[i], pt, &n, e);
        for (int k = 0; k < n && !rc; k++) {
            struct plot_point *p = &plot[n_plot];
            n_plot += pt[k].loss > 0;
            *p = (struct plot_point){.x = ms_of(s->b, pt[k].decode_bytes),
                                     .y = pt[k].loss,
                                     .series = i,
                                     .label = label[i]};
            emit_row(m);
            emit_cell_i64(m, (int64_t)s->ask[i].budget);
            emit_cell_num(m, pt[k].speed, 4);
            emit_cell_num(m, pt[k].loss, 6);
            emit_cell_num(m, pt[k].decode_bytes, 0);
            emit_cell_num(m, p->x, 5);
        }
    }
    if (!rc) rc = plot_write(s->w, &axes, plot, n_plot, s->b->front, e);
    free(plot);
    free(label);
    return rc;
}

/* ---- the gate -------------------------------------------------------------------------------- */

enum { GATE_CTX = 512, GATE_CHUNKS = 100 };

/* Gives the mix or the plain recipe, depending on the verdict, the output's name. */
static int settle(struct set *s, int i, const struct gate *g, struct err *e) {
    const char *from = g->passed ? s->unjudged[i] : g->plain[g->best].path;
    TRY(out_check(s->out[i], s->q->overwrite, e));
    char *to = beside(s->out[i], "");
    const int rc =
        os_rename(from, to) == 0 ? 0 : err_sys(e, "%s: cannot rename to %s", from, s->out[i]);
    free(to);
    if (rc) return rc;
    s->why[i] = xstrdup(g->why);
    if (g->passed) return 0;
    s->shipped[i] = g->plain[g->best].name;
    log_warn("%s holds %s, not the mix: %s", s->out[i], s->shipped[i], g->why);
    os_unlink(s->unjudged[i]);
    os_unlink(s->job[i].m.plan);
    return 0;
}

/* Decides whether to keep a mix or replace it by the best plain recipe that fits. */
static int judge(struct set *s, int i, struct err *e) {
    const struct quantize_opts *q = s->q;
    char *prefix = beside(s->out[i], ".");
    struct gate g = {.w = s->w,
                     .base = q->in,
                     .imatrix = q->imatrix,
                     .gram = q->gram,
                     .prefix = prefix,
                     .mixer = &s->x,
                     .device_room = s->job[i].m.device_room,
                     .search = q->search,
                     .texts = s->b->gate,
                     .ctx = GATE_CTX,
                     .chunks = GATE_CHUNKS};
    const struct mix_report *m = &s->job[i].m;
    int rc = gate_find(&g, m->budget ? m->budget : m->file_bytes, e);
    if (!rc) rc = gate_judge(&g, s->unjudged[i], e);
    if (!rc) rc = settle(s, i, &g, e);
    gate_release(&g);
    free(prefix);
    return rc;
}

/* Compares each mix with the plain recipes that fit, and keeps the better file. */
static int judge_all(struct set *s, struct emit *m, struct err *e) {
    for (int i = 0; i < s->n; i++) TRY(judge(s, i, e));
    emit_table(m, "gate", "against the plain recipes that fit");
    emit_col(m, "output", "output");
    emit_col(m, "shipped", "shipped");
    emit_col(m, "why", "why");
    for (int i = 0; i < s->n; i++) {
        emit_row(m);
        emit_cell_str(m, io_base(s->out[i]));
        emit_cell_str(m, s->shipped[i] ? s->shipped[i] : "the mix");
        emit_cell_str(m, s->why[i]);
    }
    return 0;
}

/* Names the mixes that an error left without a verdict. */
static void tell_unjudged(const struct set *s) {
    for (int i = 0; i < s->n_made; i++)
        if (s->unjudged[i] && !s->why[i])
            log_warn("%s: the mix is kept, but not compared with the plain recipes; the same "
                     "command makes it again",
                     s->unjudged[i]);
}

/* ---- the table, and the run ------------------------------------------------------------------ */

/* Appends which tensors output i holds without loss. Nothing for an output of several files. */
static void exact_text(const struct set *s, int i, struct buf *out) {
    struct gguf *base, *file;
    struct err ignored;
    struct exact_tally n;
    if (s->q->dry_run || s->q->split_max || gguf_open(&base, s->q->in, 0, &ignored)) return;
    if (!gguf_open(&file, s->opts[i].out, 0, &ignored)) {
        exact_count(base, file, &n);
        exact_words(&n, out);
        gguf_close(file);
    }
    gguf_close(base);
}

static void emit_mixes(const struct set *s, struct emit *m) {
    emit_table(m, "mixes", "");
    emit_col(m, "output", "output");
    emit_col(m, "budget_bytes", "budget");
    emit_col(m, "size_bytes", "bytes");
    emit_col(m, "bpw", "bpw");
    emit_col(m, "predicted_kld", "predicted KLD");
    emit_col(m, "predicted_kld_bound", NULL);
    emit_col(m, "gap", "gap to bound");
    emit_col(m, "optimal", "optimal");
    emit_col(m, "decode_bytes", NULL);
    emit_col(m, "ms_per_token", "ms per token");
    emit_col(m, "price_kld_per_ms", NULL);
    emit_col(m, "vram_bytes", s->b->vram ? "VRAM bytes" : NULL);
    emit_col(m, "exact", "without loss");
    emit_col(m, "plan", NULL);
    for (int i = 0; i < s->n; i++) {
        const struct mix_report *r = &s->job[i].m;
        emit_row(m);
        emit_cell_str(m, s->out[i] ? io_base(s->out[i]) : "");
        emit_cell_i64(m, (int64_t)r->budget);
        emit_cell_i64(m, (int64_t)r->file_bytes);
        emit_cell_num(m, r->bpw, 3);
        emit_cell_num(m, r->loss, 6);
        emit_cell_num(m, r->loss > r->gap ? r->loss - r->gap : 0, 6);
        emit_cell_num(m, r->gap, 9);
        emit_cell_str(m, r->exact ? "yes" : "no");
        emit_cell_num(m, r->decode_bytes, 0);
        emit_cell_num(m, ms_of(s->b, r->decode_bytes), 4);
        emit_cell_num(m, r->price * r->decode_bytes / ms_of(s->b, r->decode_bytes), 6);
        emit_cell_i64(m, (int64_t)r->vram_bytes);
        struct buf exact = {0};
        exact_text(s, i, &exact);
        emit_cell_str(m, exact.data ? exact.data : "");
        buf_release(&exact);
        emit_cell_str(m, r->plan ? r->plan : "");
    }
}

/* Returns the size of the smallest requested file. For --vram, returns the card's size; a file
 * exceeds that by its embeddings at most. */
static uint64_t least_ask(const struct set *s) {
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < s->n; i++) {
        const uint64_t limit = s->ask[i].budget ? s->ask[i].budget : s->ask[i].vram;
        if (limit < least) least = limit;
    }
    return least;
}

/* Writes all outputs. With sequential texts, checks all of them first, then makes one after the
 * other, block by block. */
static int make_files(struct set *s, struct err *e) {
    if (!s->sequential->n || s->q->dry_run) {
        TRY(quantize_run_many(s->opts, s->n, s->r, e));
        s->n_made = s->n;
        return 0;
    }
    for (int i = 0; i < s->n; i++) TRY(quantize_check(&s->opts[i], e));
    for (int i = 0; i < s->n; i++) {
        const struct sequential_opts so = {
            .q = &s->opts[i], .texts = *s->sequential, .learn = s->learn};
        TRY(sequential_quantize(s->w, &so, &s->r[i], e));
        s->n_made++;
    }
    return 0;
}

/* Returns the path of the plan that mix_solve_job writes next to an output; it lives in w->mem. */
static const char *plan_beside(struct work *w, const char *out) {
    char *plan = xasprintf("%s" MIX_PLAN, out);
    const char *kept = arena_strndup(&w->mem, plan, strlen(plan));
    free(plan);
    return kept;
}

/* Checks that no output, nor a plan next to it, is an input or another output. */
static int check_apart(const struct set *s, struct err *e) {
    const struct quantize_opts *q = s->q;
    struct apart files = {.w = s->w};
    apart_in(&files, q->in);
    apart_in(&files, q->imatrix);
    apart_in(&files, q->gram);
    apart_in(&files, s->b->sensitivity);
    apart_in_all(&files, s->sequential->v, s->sequential->n);
    apart_in_all(&files, s->b->gate.v, s->b->gate.n);
    for (int i = 0; i < s->n && !q->dry_run; i++) {
        apart_out(&files, s->out[i]);
        apart_out(&files, s->unjudged[i]);
        if (!q->plan_out) apart_out(&files, plan_beside(s->w, s->out[i]));
    }
    apart_out(&files, q->plan_out);
    apart_out(&files, s->b->front);
    return apart_check(&files, e);
}

/* Checks all outputs, before anything is measured. A plan that exists may be the same. */
static int check_outputs(const struct set *s, struct err *e) {
    const struct quantize_opts *q = s->q;
    TRY(check_apart(s, e));
    for (int i = 0; i < s->n && !q->dry_run; i++) {
        TRY(out_try(s->out[i], q->overwrite, e));
        if (s->unjudged[i])
            TRY(out_try(s->unjudged[i], q->overwrite || record_in(s->unjudged[i]), e));
    }
    if (q->plan_out) TRY(out_try(q->plan_out, io_exists(q->plan_out), e));
    return s->b->front ? out_try(s->b->front, s->w->overwrite, e) : 0;
}

/* Finds a mix for every limit. If one is impossible, deletes the plans of the earlier ones. Begins
 * with the smallest, which may add types: the mixes must not depend on the order of the limits. */
static int solve_all(struct set *s, struct err *e) {
    int rc = 0, first = 0;
    for (int i = 1; i < s->n; i++)
        if (s->ask[i].budget < s->ask[first].budget) first = i;
    for (int k = 0; k < s->n && !rc; k++) {
        const int i = (first + k) % s->n;
        struct quantize_opts o = *s->q;
        o.out = s->out[i];
        rc = mix_solve_job(&s->x, &o, &s->ask[i], &s->job[i], e);
        s->opts[i] = s->job[i].o;
        s->opts[i].want_rows = true;
        if (!s->unjudged[i]) continue;
        s->opts[i].out = s->unjudged[i];
        s->opts[i].overwrite = true;
    }
    for (int i = 0; i < s->n && rc; i++)
        if (s->job[i].new_plan) os_unlink(s->job[i].m.plan);
    return rc;
}

/* Searches and writes all mixes, then judges them. */
static int run_set(struct set *s, struct emit *m, struct err *e) {
    if (s->b->gate.n && (s->q->dry_run || s->q->split_max))
        return err_set(e, ERR_USAGE, "--gate cannot be used with --dry-run or --split-max");
    for (int i = 0; i < s->b->gate.n; i++) TRY(text_check_file(s->b->gate.v[i], e));
    if (s->b->gate.n) TRY(unknown_refuse(s->q->in, "--gate", e));
    TRY(set_asks(s, e));
    TRY(check_outputs(s, e));
    TRY(mixer_open(&s->x, s->w, s->q, s->b->sensitivity, least_ask(s), e));
    TRY(solve_all(s, e));
    TRY(make_files(s, e));
    emit_mixes(s, m);
    if (s->b->front) TRY(emit_front(s, m, e));
    for (int i = 0; i < s->n; i++) quantize_warn(s->q->imatrix, &s->r[i]);
    if (s->b->gate.n) TRY(judge_all(s, m, e));
    struct err why;
    if (!s->x.probed && unknown_model(s->q->in, &why))
        log_warn("the mix weights the encoders' errors by roles guessed from tensor names; the "
                 "divergence is predicted from other models");
    else if (!s->x.probed)
        log_warn("no probes: the mix weights the encoders' errors by role; hone sensitivity "
                 "measures them");
    return 0;
}

int quantize_budgets(struct work *w, const struct quantize_opts *q, const struct budget_args *b,
                     const struct str_list *sequential, int learn, struct emit *m, struct err *e) {
    struct set s = {.w = w, .b = b, .q = q, .sequential = sequential, .learn = learn};
    int rc = work_pool(w, e);
    if (!rc) rc = run_set(&s, m, e);
    if (rc) tell_unjudged(&s);
    set_release(&s);
    return rc;
}
