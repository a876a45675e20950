// SPDX-License-Identifier: MIT
/* make/forecast.c - forecast of a job: computes the inputs of the plan (make/plan.h) from the
 * machine's rates and the model's shapes; writes the plan's record and its messages. The plan is
 * recorded once: --time is the only option through which the machine affects bytes, so a resumed
 * job keeps its plan. */
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "make/make.h"
#include "make/rates.h"
#include "make/size_ladder.h"
#include "work/device.h"
#include "work/passes.h"
#include "mix/probe.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/printable.h"
#include "base/progress.h"
#include "runtime/generate/windows.h"
#include "runtime/measure/eval.h"

/* ---- numbers --------------------------------------------------------------------------------- */

/* Passes of a mix's gate besides the mix's own: the base and its three presets. */
enum { GATE_PASSES = 4 };

static int max_int(int a, int b) {
    return a > b ? a : b;
}

/* Memory of the process besides its large buffers; --max-memory does not count it. */
static const double small_buffers = 0x1p28;

double make_other_memory(void) {
    return small_buffers;
}

/* Returns the memory of the speed measurement: a session with the deepest context, unless it is on
 * a device. */
static double speed_bytes(const struct make *mk, const struct shapes *s) {
    struct estimate_opts o;
    rates_opts(mk, &o);
    if (device_free(mk->w)) return 0;
    return passes_bytes(s->row_bytes, max_i64(o.pp, o.tg), 1) + (double)o.deepest * s->kv_token;
}

/* Sets the options, how much memory each needs, and which of them fit in memory. */
static void memory(struct plan_in *in, const struct make *mk, const struct shapes *s) {
    struct shapes_gram g;
    uint64_t limit;
    const double room = (double)buf_room(&limit);
    const bool best = mk->search && strcmp(mk->search, "best") == 0;
    in->memory = !limit && room > 0 ? fmax(1, room - small_buffers) : room;
    in->memory_given = limit > 0;
    shapes_gram(s, &g);
    in->feedback = (mk->search ? strcmp(mk->search, "conventional") != 0 : true) &&
                   (mk->effort > EFFORT_FAST || best) && (in->n_classes || best);
    in->answers = in->feedback && g.answers > 0;
    in->sequential =
        mk->effort == EFFORT_HIGH && in->feedback && !mk->plain && in->n_sizes > 0 && s->separable;
    const double passes = shapes_passes(s, mk->calib_ctx, pool_size(mk->w->pool));
    /* Maximum number of open sessions: files with the base, or probes. */
    const int files = max_int(in->n_presets, in->mixes ? 2 + 2 * (mk->budget.n > 0) : 0);
    int n = max_int(1 + PROBE_SLOTS, 1 + files);
    if (n > passes_together(s->row_bytes, in->memory))
        n = passes_together(s->row_bytes, in->memory);
    in->need[NEED_PASSES] =
        passes_bytes(s->row_bytes, passes_fit(s->row_bytes, mk->eval_ctx, n, in->memory), n);
    /* Logits of the base and of one candidate in a comparison. */
    in->need[NEED_PASSES] += 8.0 * (double)eval_head_rows(s->n_vocab) * (double)s->n_vocab;
    /* The base next to the largest file, which has about half its size. */
    if (passes_reread(s->base_bytes / 2 * 3)) in->need[NEED_PASSES] += windows_room(in->memory);
    in->need[NEED_PASSES] = fmax(in->need[NEED_PASSES], speed_bytes(mk, s));
    if (in->feedback) in->need[NEED_FEEDBACK] = passes + g.inputs;
    if (in->answers) in->need[NEED_ANSWERS] = passes + g.inputs + g.answers;
    plan_memory(in);
}

/* Returns the bytes of the largest file made block by block, which is encoded in memory, and of
 * what learning needs: another set of passes and 6 bytes per weight (mix/learn.h). */
static double held_for_blocks(const struct make *mk, const struct shapes *s, double passes) {
    const double learning =
        !s->gradients ? 0 : passes + (s->weights <= (double)PLAN_LEARN_MOST ? 6 * s->weights : 0);
    double most = 0;
    for (int i = 0; i < mk->classes.n; i++) {
        const char *name = mk->classes.v[i];
        most = fmax(most, (double)shapes_preset(s, name) + (plan_learns(name) ? learning : 0));
    }
    return most;
}

/* Adds the memory of block-by-block quantization: second moments of the inputs, of their drift and
 * of output gradients; for each token, the block's outputs in the base and in the file, and the
 * size of each matrix's gradient; the encoded file. */
static void memory_of_blocks(struct plan_in *in, const struct make *mk, const struct shapes *s,
                             const struct rates *r) {
    const double tokens = (double)(mk->calib_ctx * estimate_windows(r->calib_tokens, mk->calib_ctx,
                                                                    mk->calib_chunks)),
                 passes = shapes_passes(s, mk->calib_ctx, pool_size(mk->w->pool));
    struct shapes_gram g;
    int64_t n_matrices = 0;
    shapes_gram(s, &g);
    if (!in->sequential) return;
    for (int64_t i = 0; i < s->n && s->gradients; i++) n_matrices += s->item[i].quant;
    in->need[NEED_BLOCKS] = passes + 2 * g.inputs + (in->answers ? g.answers : 0) +
                            tokens * (8 * (double)s->n_embd + 4 * (double)n_matrices) +
                            held_for_blocks(mk, s, passes);
    plan_memory(in);
}

static void log_rates(const struct rates *r) {
    const struct speeds *v = &r->speeds;
    log_debug("a window %.4f s; a token of calibration %.2e s, with moments %.2e s more; products "
              "%.1f GFLOP/s; memory %.1f GB/s",
              r->window, r->calib_token, r->gram_token, v->product / 1e9, v->bandwidth / 1e9);
    for (int k = 0; k < FED_KINDS; k++)
        for (int i = 0; i < 2; i++)
            log_debug("feedback in %s, %d columns: a weight %.2e s, a shrinkage %.4f s, factors "
                      "%.4f s, one factor %.4f s",
                      k == FED_CODES   ? "codes"
                      : k == FED_GRIDS ? "grids"
                                       : "blocks of 32",
                      i ? FED_LARGE : FED_SMALL, v->fed[k][i].weight, v->fed[k][i].choose,
                      v->fed[k][i].factors, v->fed[k][i].factor);
}

int make_measure_plan(struct make *mk, const struct shapes *s, const char *base,
                      make_provide convert, void *ud, struct err *e) {
    struct rates r;
    struct estimate_opts o;
    struct plan_in *in = &mk->in;
    *in = (struct plan_in){.limit = mk->seconds,
                           .probe_limit = mk->probe_seconds,
                           .mixes = !mk->plain,
                           .gradients = s->gradients,
                           .n_classes = mk->classes.n + mk->budget.n,
                           .n_sizes = mk->classes.n,
                           .n_presets = mk->recipes.n,
                           .n_projectors = mk->tower.n_files,
                           .judge_passes = (mk->classes.n > 0) + GATE_PASSES * mk->budget.n};
    TRY(make_check_least(mk, s, base, e));
    memory(in, mk, s);
    if (mk->effort == EFFORT_HIGH && in->feedback && in->mixes && in->n_sizes && !s->separable)
        make_left_out(mk, "making files block by block: a block of this architecture reads more "
                          "than the output of the block before it");
    if (in->memory_given && in->need[NEED_PASSES] > in->memory)
        return err_set(
            e, ERR_SYS, "--max-memory %s is too little: the measurements alone take %s; raise it",
            show_bytes((uint64_t)in->memory).s, show_bytes((uint64_t)in->need[NEED_PASSES]).s);
    TRY(rates_first(&r, mk, s, e));
    if (!base && convert && rates_worth_running(&r, mk, s)) TRY(convert(ud, &base, e));
    if (base && rates_worth_running(&r, mk, s)) TRY(rates_model(&r, mk, s, base, e));
    log_rates(&r);
    mk->rates = r;
    in->spent = progress_now_s() - mk->t0;
    rates_opts(mk, &o);
    estimate(in, &r, s, &o);
    memory_of_blocks(in, mk, s, &r);
    in->done[PART_CONVERT] = !mk->dry_run;
    return 0;
}

/* ---- the record ------------------------------------------------------------------------------ */

/* Begins the step "plan"; its key contains everything that a plan depends on. */
static int plan_step(struct make *mk, struct step *s, struct err *e) {
    step_init(s, &mk->job, "plan");
    step_key(s, "base", "%s", mk->file[0].hash);
    step_key(s, "hours", "%g", mk->seconds / 3600);
    step_key(s, "effort", "%s", effort_name[mk->effort]);
    step_key(s, "search", "%s", mk->search ? mk->search : "");
    uint64_t limit;
    (void)buf_room(&limit);
    if (limit) step_key(s, "memory", "%" PRIu64, limit);
    step_key(s, "windows", "%" PRId64 " %" PRId64, mk->eval_ctx, mk->asked_chunks);
    for (int i = 0; i < mk->asked.n; i++) step_key(s, "class", "%s", mk->asked.v[i]);
    for (int i = 0; i < mk->recipes.n; i++) step_key(s, "recipe", "%s", mk->recipes.v[i]);
    for (int i = 0; i < mk->budget.n; i++) step_key(s, "budget", "%s", mk->budget.v[i]);
    const struct str_list *texts[] = {&mk->calib, &mk->probe, &mk->eval};
    for (size_t k = 0; k < COUNT_OF(texts); k++)
        for (int i = 0; i < texts[k]->n; i++) {
            char hex[33];
            TRY(job_file_hash(&mk->job, texts[k]->v[i], hex, e));
            step_key(s, "text", "%s", hex);
        }
    return 0;
}

/* Times of a forecast and their names in its record. */
static const struct {
    const char *name;
    size_t at;
} times[] = {
#define TIME(member)                                                                               \
    { #member, offsetof(struct plan_in, member) }
    TIME(convert),      TIME(hash),         TIME(imatrix),      TIME(gram),
    TIME(errors),       TIME(probe_encode), TIME(gains),        TIME(pass_window),
    TIME(preset),       TIME(encode),       TIME(speed),        TIME(encode_feedback),
    TIME(eval_window),  TIME(tools),        TIME(report),       TIME(encode_sequential),
    TIME(slope_window), TIME(factors),      TIME(encode_alone), TIME(drafts),
    TIME(images)
#undef TIME
};
/* Returns the time number i of a plan. */
static double *time_at(struct plan_in *in, size_t i) {
    void *at = (char *)in + times[i].at;
    return at;
}

/* Writes the plan's times and layers, for a job that resumes. */
static void put_forecast(struct make *mk, cJSON *to) {
    struct plan_in *in = &mk->in;
    cJSON *o = doc_obj(to, "forecast");
    for (size_t i = 0; i < COUNT_OF(times); i++) doc_put_num(o, times[i].name, *time_at(in, i));
    doc_put_i64(o, "n_classes", in->n_classes);
    doc_put_i64(o, "n_presets", in->n_presets);
    doc_put_i64(o, "probe_windows", in->probe_windows);
    doc_put_i64(o, "eval_windows", in->eval_windows);
    doc_put_i64(o, "judge_passes", in->judge_passes);
    doc_put_bool(o, "gradients", in->gradients);
    cJSON *layers = doc_arr(o, "layers");
    for (int i = 0; i < in->n_roles; i++) doc_put_i64(layers, NULL, in->layers[i]);
}

/* Reads the forecast of an earlier run, so that a resumed job can show its remaining time. If there
 * is no record, the forecast stays empty. */
static void read_forecast(struct make *mk, const cJSON *o) {
    struct plan_in in = {.limit = mk->seconds,
                         .probe_limit = mk->probe_seconds,
                         .mixes = mk->plan.mixes,
                         .feedback = mk->plan.feedback,
                         .sequential = mk->plan.sequential,
                         .answers = mk->plan.answers,
                         .gradients = doc_bool(o, "gradients", false),
                         .n_classes = mk->classes.n + mk->budget.n,
                         .n_sizes = mk->classes.n,
                         .n_presets = mk->recipes.n,
                         .n_projectors = mk->tower.n_files};
    int64_t passes = 0;
    if (!o || !cJSON_IsObject(o)) return;
    for (size_t i = 0; i < COUNT_OF(times); i++) {
        const double v = doc_num(o, times[i].name, 0);
        *time_at(&in, i) = v >= 0 && v < 1e12 ? v : 0;
    }
    (void)doc_i64(o, "probe_windows", &in.probe_windows);
    (void)doc_i64(o, "eval_windows", &in.eval_windows);
    if (doc_i64(o, "judge_passes", &passes) && passes >= 0 && passes < 1000)
        in.judge_passes = (int)passes;
    for (const cJSON *l = doc_first(doc_get(o, "layers")); l && in.n_roles < PLAN_ROLES;
         l = l->next) {
        int64_t n = 0;
        if (doc_is_i64(l, &n) && n >= 0 && n < 1 << 20) in.layers[in.n_roles] = (int)n;
        in.n_roles++;
    }
    in.done[PART_CONVERT] = 1;
    mk->in = in;
}

/* Records the plan, so that a job that resumes keeps it. */
static int save_plan(struct make *mk, struct err *e) {
    const struct make_plan *p = &mk->plan;
    struct step s;
    cJSON *o = doc_new();
    int rc = plan_step(mk, &s, e);
    doc_put_bool(o, "mixes", p->mixes);
    doc_put_bool(o, "feedback", p->feedback);
    doc_put_bool(o, "sequential", p->sequential);
    doc_put_bool(o, "answers", p->answers);
    doc_put_i64(o, "fed_files", p->fed_files);
    doc_put_str(o, "probes", probes_name[p->probes]);
    doc_put_i64(o, "probe_windows", p->probe_windows);
    doc_put_i64(o, "eval_windows", p->eval_windows);
    doc_put_i64(o, "chunks", mk->eval_chunks);
    doc_put_num(o, "seconds", plan_total(&mk->in, p));
    put_forecast(mk, o);
    doc_put_list(o, "classes", mk->classes.v, mk->classes.n);
    doc_put_list(o, "same", mk->same.v, mk->same.n);
    doc_put_list(o, "left_out", mk->left_out.v, mk->left_out.n);
    doc_put_list(o, "cut_short", mk->cut_short.v, mk->cut_short.n);
    if (!rc) rc = step_save(&s, NULL, 0, o, e);
    step_release(&s);
    cJSON_Delete(o);
    return rc;
}

/* Updates the record of an unchanged plan if there is something to note. */
static int save_notes(struct make *mk, struct err *e) {
    return mk->cut_short.n || mk->forgot ? save_plan(mk, e) : 0;
}

/* Reads an integer that is not negative; false if it is missing or invalid. */
static bool read_count(const cJSON *o, const char *name, int64_t *out) {
    return doc_i64(o, name, out) && *out >= 0;
}

/* Appends the texts of a recorded list. */
static void read_list(struct make *mk, const cJSON *list, struct str_list *to) {
    for (const cJSON *m = doc_first(list); m; m = m->next)
        if (cJSON_GetStringValue(m))
            work_list_add(mk->w, to, arena_strdup(&mk->w->mem, cJSON_GetStringValue(m)));
}

/* Restores the classes of a recorded plan, some of those asked for; records of earlier versions
 * have all of them. False: the record is malformed. */
static bool read_classes(struct make *mk, const cJSON *o) {
    struct str_list found = {0};
    if (!doc_get(o, "classes")) return true;
    read_list(mk, doc_get(o, "classes"), &found);
    for (int i = 0; i < found.n; i++)
        if (!ladder_find(found.v[i])) return false;
    if (found.n > mk->asked.n || (mk->asked.n && !found.n)) return false;
    mk->classes = found;
    mk->same.n = 0;
    read_list(mk, doc_get(o, "same"), &mk->same);
    return true;
}

/* Restores a recorded plan; false if it is malformed. */
static bool read_plan(struct make *mk, const cJSON *o) {
    struct make_plan p = {.made = true,
                          .mixes = doc_bool(o, "mixes", false),
                          .feedback = doc_bool(o, "feedback", false),
                          .sequential = doc_bool(o, "sequential", false)};
    if (!read_classes(mk, o)) return false;
    /* Missing in records of earlier versions, in which the collector decided this. */
    p.answers = p.feedback && doc_bool(o, "answers", true);
    p.fed_files = p.feedback ? mk->classes.n + mk->budget.n : 0;
    (void)read_count(o, "fed_files", &p.fed_files);
    p.probes = PROBES_JOINT;
    for (int i = 0; i < PROBES_COUNT; i++)
        if (doc_is(o, "probes", probes_name[i])) p.probes = (enum probes)i;
    if (!read_count(o, "probe_windows", &p.probe_windows) ||
        !read_count(o, "eval_windows", &p.eval_windows) ||
        !read_count(o, "chunks", &mk->eval_chunks))
        return false;
    read_list(mk, doc_get(o, "left_out"), &mk->left_out);
    for (const cJSON *m = doc_first(doc_get(o, "cut_short")); m; m = m->next)
        if (cJSON_GetStringValue(m)) make_left_out(mk, "%s", cJSON_GetStringValue(m));
    mk->plan = p;
    mk->kept_plan = true;
    read_forecast(mk, doc_get(o, "forecast"));
    return true;
}

/* ---- words ----------------------------------------------------------------------------------- */

/* Lists what the plan leaves out for lack of memory or time. */
static void note_left_out(struct make *mk) {
    char text[512];
    mk->left_out.n = 0;
    for (int i = 0; plan_no_memory(&mk->in, i, text, sizeof text); i++)
        work_list_add(mk->w, &mk->left_out, arena_strdup(&mk->w->mem, text));
    mk->n_no_memory = mk->left_out.n;
    for (int i = 0; plan_left_out(&mk->in, &mk->plan, i, text, sizeof text); i++)
        work_list_add(mk->w, &mk->left_out, arena_strdup(&mk->w->mem, text));
}

/* Sets the number of evaluation windows to the plan's. */
static void set_windows(struct make *mk) {
    const bool fewer = mk->plan.eval_windows < mk->in.eval_windows;
    mk->eval_chunks = fewer ? mk->plan.eval_windows : mk->asked_chunks;
}

/* Applies the plan: sets the windows, writes log lines and the record. */
static int apply_plan(struct make *mk, struct err *e) {
    char limit[32];
    set_windows(mk);
    note_left_out(mk);
    plan_time_text(mk->seconds, limit);
    for (int i = 0; i < mk->left_out.n; i++)
        if (i < mk->n_no_memory)
            log_info("skipped: %s", mk->left_out.v[i]);
        else
            log_info("skipped to meet --time (%s): %s", limit, mk->left_out.v[i]);
    return save_plan(mk, e);
}

bool make_too_long(const struct make *mk, char out[512]) {
    char limit[32], all[32], needed[32];
    if (!plan_too_long(&mk->in, &mk->plan)) return false;
    plan_time_text(mk->in.limit, limit);
    plan_time_text(plan_total(&mk->in, &mk->plan), all);
    plan_time_needed(&mk->in, &mk->plan, needed);
    snprintf(out, 512,
             "--time (%s) cannot be met: %s about %s; use --time %s, --time 0 (no limit) or fewer "
             "sizes (--recipe)",
             limit,
             mk->plan.mixes ? "the rest of the job takes"
                            : "even presets and the shortest measurements take",
             all, needed);
    return true;
}

/* Logs the plan before work begins. */
static void log_plan(const struct make *mk) {
    struct buf b = {0};
    char text[512];
    for (int i = 0; i < PART_COUNT; i++) {
        const double s = plan_seconds(&mk->in, &mk->plan, (enum plan_part)i);
        if (s < 1) continue;
        plan_time_text(s, text);
        buf_fmt(&b, "%s%s %s", b.len ? ", " : "", plan_part_name[i], text);
    }
    plan_time_text(plan_total(&mk->in, &mk->plan), text);
    log_info("about %s in all%s%s", text, b.len ? ": " : "", b.len ? b.data : "");
    buf_release(&b);
}

/* ---- steps ----------------------------------------------------------------------------------- */

int make_check_judge(struct make *mk, struct err *e) {
    const char *same;
    if (!mk->classes.n && !mk->budget.n) return 0;
    TRY(make_texts_apart(mk, &same, e));
    if (!same) return 0;
    if (mk->budget.n)
        return err_set(e, ERR_USAGE,
                       "--eval %s was used for importance or probes too: a mix must be judged on "
                       "text used for neither importance nor probes",
                       same);
    log_warn("the files are presets: --eval %s was used for importance or probes too, and a mix "
             "must be judged on text that was used for neither",
             same);
    make_note(mk, "no mixes were made: the evaluation text was also used for importance or probes");
    mk->plain = true;
    return 0;
}

/* Adds a note about each class that has the size of another one. */
static void note_same(struct make *mk) {
    for (int i = 0; i < mk->same.n; i++) make_note(mk, "%s", mk->same.v[i]);
}

/* Makes p the job's plan and counts the work that earlier runs have recorded for it. Returns the
 * plan's time. */
static double count_plan(struct make *mk, const struct make_plan *p) {
    const int n = mk->cut_short.n;
    const bool missing = mk->extra_missing;
    mk->plan = *p;
    set_windows(mk);
    make_count(mk, false);
    mk->cut_short.n = n;
    mk->extra_missing = missing;
    return plan_total(&mk->in, p);
}

void make_fit(struct make *mk) {
    struct make_plan all[PLAN_STEPS];
    const int n = plan_steps(&mk->in, all);
    int best = 0;
    double least = HUGE_VAL;
    for (int i = 0; i < n; i++) {
        const double seconds = count_plan(mk, &all[i]);
        if (seconds < least) best = i, least = seconds;
        if (!plan_too_long(&mk->in, &all[i])) break;
    }
    (void)count_plan(mk, &all[best]);
}

/* Warns once if the plan exceeds --time. */
static void warn_late(struct make *mk, const struct plan_in *in, const struct make_plan *p) {
    char limit[32], more[32];
    if (mk->said_late || !plan_too_long(in, p)) return;
    plan_time_text(in->limit, limit);
    plan_time_text(plan_total(in, p) - in->limit, more);
    log_warn("--time (%s) cannot be met: the job will take about %s more", limit, more);
    mk->said_late = true;
}

int make_forecast(struct make *mk, struct err *e) {
    struct step s;
    cJSON *known_plan = NULL;
    TRY(make_check_judge(mk, e));
    int rc = plan_step(mk, &s, e);
    bool known = !rc && make_reuse(mk, &s, &known_plan) && read_plan(mk, known_plan);
    cJSON_Delete(known_plan);
    step_release(&s);
    if (known) note_same(mk);
    if (rc || known || make_counts(mk)) return rc;
    struct shapes sh;
    rc = shapes_open(&sh, mk->file[0].path, mk->type, NULL, e);
    if (!rc) make_order_classes(mk, &sh);
    if (!rc) rc = make_measure_plan(mk, &sh, mk->file[0].path, NULL, NULL, e);
    shapes_close(&sh);
    if (rc) return rc;
    make_fit(mk);
    warn_late(mk, &mk->in, &mk->plan);
    log_plan(mk);
    for (int i = 0; i < mk->same.n; i++) log_info("%s", mk->same.v[i]);
    note_same(mk);
    return apply_plan(mk, e);
}

/* Scales the times of the forecast. */
static void scale(struct plan_in *in, double f) {
    for (size_t i = 0; i < COUNT_OF(times); i++) *time_at(in, i) *= f;
}

/* Returns whether earlier runs have done work of the parts after `done`, which another plan might
 * not be able to use. */
static bool is_begun(const struct make *mk, enum plan_part done) {
    int i = (int)done + 1;
    while (i < PART_COUNT && !(mk->in.done[i] > 0)) i++;
    return i < PART_COUNT;
}

int make_replan(struct make *mk, enum plan_part done, struct err *e) {
    struct plan_in in;
    struct make_plan p;
    if (mk->in.eval_window <= 0)
        return save_notes(mk, e); /* the record is from an earlier version */
    const double spent = progress_now_s() - mk->t0;
    double said = 0;
    for (int i = 0; i <= (int)done; i++) {
        if (i > PART_CONVERT) said += plan_seconds(&mk->in, &mk->plan, (enum plan_part)i);
        mk->in.done[i] = 1;
    }
    /* Probes may use all of their time, so their duration does not predict that of the rest. */
    if (said > 5 && done != PART_PROBES)
        scale(&mk->in, fmin(4, fmax(.5, (spent - mk->in.spent) / said)));
    mk->in.spent = spent;
    if (mk->kept_plan || is_begun(mk, done)) return save_notes(mk, e);
    in = mk->in;
    /* By now, the moments either have been collected or never will be. */
    if (done >= PART_IMATRIX) {
        in.feedback = mk->plan.feedback;
        in.answers = mk->plan.answers;
    }
    in.sequential = in.sequential && in.feedback;
    if (done >= PART_PROBES) in.mixes = mk->plan.mixes;
    plan_fit(&in, &p);
    warn_late(mk, &in, &p);
    if (done >= PART_PROBES) { /* the number of probes actually made */
        p.probes = mk->plan.probes;
        p.probe_windows = mk->plan.probe_windows;
    }
    if (done >= PART_JUDGE) p = mk->plan;
    if (plan_same(&p, &mk->plan)) return save_notes(mk, e);
    mk->plan = p;
    return apply_plan(mk, e);
}

double make_time_for_probes(const struct make *mk) {
    double rest = 0;
    if (mk->in.eval_window <= 0 || mk->in.limit <= 0) return 0;
    for (int i = PART_PROBES + 1; i < PART_COUNT; i++)
        rest += plan_seconds(&mk->in, &mk->plan, (enum plan_part)i);
    return fmax(1, mk->in.limit - (progress_now_s() - mk->t0) - 1.2 * rest);
}
