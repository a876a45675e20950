// SPDX-License-Identifier: MIT
/* make/classes.c - the files of the size classes, each no larger than the preset of its name: the
 * best mix with error feedback if it measures better than the preset, else the preset with error
 * feedback if that does, else the plain preset.
 *
 * Candidates are made in the work folder: all mixes in one pass over the base, then, rung by rung,
 * the preset. A comparison stops measuring the loser as soon as it is clear. Every file has a
 * record, so an interrupted job makes only the missing files. */
#include <math.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "make/ownership.h"
#include "work/device.h"
#include "make/size_ladder.h"
#include "mix/mixer.h"
#include "mix/sequential.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/os.h"
#include "base/progress.h"
#include "runtime/measure/eval.h"

struct ladder { /* classes that are all made with, or all without, error feedback */
    struct make *mk;
    int from, to;      /* their indices in mk->classes */
    struct rung *rung; /* [n] rungs that still have no file */
    int n;
    char *gram;         /* file of second moments; NULL: none */
    char gram_hash[33]; /* "" without moments */
    char *sens, sens_hash[33];
    enum search search;       /* for mixes and for presets with feedback */
    enum search plain_search; /* for presets */
};

/* ---- keys ------------------------------------------------------------------------------------ */

/* Adds everything that all candidates depend on to the step's key. */
static void add_input_keys(const struct ladder *l, struct step *s) {
    step_key(s, "base", "%s", l->mk->file[0].hash);
    step_key(s, "imatrix", "%s", l->mk->imatrix_hash);
    step_key(s, "encoder", "5"); /* same version as in files.c */
    make_key_template(l->mk, s);
}

/* Adds everything that a mix of this rung depends on to the step's key. */
static void add_cand_keys(const struct ladder *l, const struct rung *r, struct step *s) {
    add_input_keys(l, s);
    step_key(s, "gram", "%s", l->gram_hash);
    step_key(s, "sensitivity", "%s", l->sens_hash);
    step_key(s, "search", "%s", search_name(l->search));
    step_key(s, "budget", "%" PRIu64, r->budget);
}

/* Adds everything that determines the file of a class to the key. */
static int key_rung(const struct ladder *l, const struct rung *r, struct step *s, struct err *e) {
    struct make *mk = l->mk;
    add_cand_keys(l, r, s);
    if (mk->plan.sequential) step_key(s, "block by block", "1");
    step_key(s, "plain", "%s", search_name(l->plain_search));
    step_key(s, "file", "%s-%s.gguf", mk->name, r->name);
    step_key(s, "ctx", "%" PRId64 " %" PRId64, mk->eval_ctx, mk->eval_chunks);
    for (int i = 0; i < mk->eval.n; i++) {
        char hex[33];
        TRY(job_file_hash(&mk->job, mk->eval.v[i], hex, e));
        step_key(s, "text", "%s", hex);
    }
    return 0;
}

/* Begins the step KIND-NAME for a rung. */
static void init_rung_step(const struct ladder *l, const char *kind, const struct rung *r,
                           struct step *s) {
    char *name = xasprintf("%s-%s", kind, r->name);
    step_init(s, &l->mk->job, name);
    free(name);
}

/* ---- candidates ------------------------------------------------------------------------------ */

/* Names the candidate's file KIND-NAME in the work folder. */
static void name_cand(const struct make *mk, struct cand *c, const char *kind,
                      const struct rung *r) {
    free(c->file);
    free(c->path);
    made_release(&c->made);
    c->file = xasprintf(JOB_WORK "%s-%s.gguf", kind, r->name);
    c->path = job_path(&mk->job, c->file);
    c->there = false;
    c->made = (struct made){.file = xstrdup(io_base(c->path)), .path = xstrdup(c->path)};
    snprintf(c->made.recipe, sizeof c->made.recipe, "%s-%s", kind, r->name);
}

/* Marks the candidate as complete and computes its hash. */
static int cand_made(const struct ladder *l, struct cand *c, struct err *e) {
    c->there = true;
    return job_file_hash(&l->mk->job, c->path, c->made.hash, e);
}

/* Returns the options for encoding with `recipe` to `out`; feedback: with error feedback. */
static struct quantize_opts encode_options(const struct ladder *l, const char *recipe,
                                           const char *out, bool feedback, enum search search) {
    struct make *mk = l->mk;
    return (struct quantize_opts){.in = mk->file[0].path,
                                  .tmpl = mk->tmpl,
                                  .out = out,
                                  .recipe = recipe,
                                  .imatrix = mk->imatrix,
                                  .known_gaps = true,
                                  .gram = feedback ? l->gram : NULL,
                                  .overwrite = true,
                                  .search = search,
                                  .resume = RESUME_ALWAYS,
                                  .pool = mk->w->pool,
                                  .device = device_quantize(mk->w)};
}

/* Prepares a preset candidate, plain or with feedback, and looks up its record. */
static int preset_cand(const struct ladder *l, struct rung *r, struct cand *c, bool feedback,
                       struct quantize_opts *o, struct err *e) {
    struct step s;
    cJSON *result = NULL;
    const char *kind = feedback ? "feedback" : "plain";
    int rc = 0;
    name_cand(l->mk, c, kind, r);
    *o = encode_options(l, r->name, c->path, feedback, feedback ? l->search : l->plain_search);
    init_rung_step(l, kind, r, &s);
    add_input_keys(l, &s);
    step_key(&s, "gram", "%s", feedback ? l->gram_hash : "");
    step_key(&s, "search", "%s", search_name(o->search));
    if (make_reuse(l->mk, &s, &result)) rc = cand_made(l, c, e);
    cJSON_Delete(result);
    step_release(&s);
    return rc;
}

/* Records the finished candidate of a preset. */
static int save_preset(const struct ladder *l, struct rung *r, struct cand *c,
                       const struct quantize_opts *o, struct err *e) {
    struct step s;
    const char *files[] = {c->file};
    init_rung_step(l, o->gram ? "feedback" : "plain", r, &s);
    add_input_keys(l, &s);
    step_key(&s, "gram", "%s", o->gram ? l->gram_hash : "");
    step_key(&s, "search", "%s", search_name(o->search));
    int rc = step_save_files(&s, files, 1, e);
    step_release(&s);
    return rc ? rc : cand_made(l, c, e);
}

/* Makes the preset of a rung unless its record exists. With `feedback`: as the rung's candidate,
 * encoded with error feedback. */
static int make_preset_of(const struct ladder *l, struct rung *r, bool feedback, struct err *e) {
    struct cand *c = feedback ? &r->cand : &r->plain;
    struct quantize_opts o;
    struct quantize_report report;
    TRY(preset_cand(l, r, c, feedback, &o, e));
    if (c->there) return 0;
    log_info("encoding %s for comparison%s", r->name, feedback ? ", with error feedback" : "");
    TRY(quantize_run(&o, &report, e));
    return save_preset(l, r, c, &o, e);
}

/* ---- mixes ----------------------------------------------------------------------------------- */

/* Sets the names of the rung's mix. *known: an earlier run has made it. */
static int mix_step(const struct ladder *l, struct rung *r, bool *known, struct err *e) {
    struct step s;
    cJSON *result = NULL;
    int rc = 0;
    name_cand(l->mk, &r->cand, "mix", r);
    r->mix = true;
    init_rung_step(l, "mix", r, &s);
    add_cand_keys(l, r, &s);
    *known = make_reuse(l->mk, &s, &result);
    if (*known) {
        r->predicted = doc_num(result, "predicted_kld", 0);
        if (doc_bool(result, "made", false))
            rc = cand_made(l, &r->cand, e);
        else
            snprintf(r->why, sizeof r->why, "%s", doc_str(result, "why"));
    }
    cJSON_Delete(result);
    step_release(&s);
    return rc;
}

/* Records a mix or, if job is NULL, the reason why it is missing (r->why). */
static int save_mix(const struct ladder *l, struct rung *r, const struct mix_job *job,
                    struct err *e) {
    struct step s;
    cJSON *found = doc_new();
    char *plan = xasprintf("%s.plan.tsv", r->cand.file);
    const char *files[] = {r->cand.file, plan};
    doc_put_bool(found, "made", job != NULL);
    if (!job) doc_put_str(found, "why", r->why);
    doc_put_num(found, "predicted_kld", job ? job->m.loss : 0);
    init_rung_step(l, "mix", r, &s);
    add_cand_keys(l, r, &s);
    int rc = step_save(&s, files, job ? 2 : 0, found, e);
    step_release(&s);
    cJSON_Delete(found);
    free(plan);
    return rc || !job ? rc : cand_made(l, &r->cand, e);
}

/* Finds the best types for the rung's size. *found is false if even the smallest mix is too
 * large. */
static int solve(const struct ladder *l, struct mixer *x, struct rung *r, struct mix_job *job,
                 bool *found, struct err *e) {
    struct quantize_opts o = encode_options(l, NULL, r->cand.path, true, l->search);
    o.file_type = r->name;
    const int rc = mix_solve_size(x, &o, r->budget, job, e);
    *found = rc == 0;
    r->predicted = job->m.loss;
    if (rc != ERR_USAGE && rc != ERR_DATA) return rc;
    snprintf(r->why, sizeof r->why, "no mix fits this size (%.400s)", e->msg);
    return save_mix(l, r, NULL, e);
}

/* Chooses the types of every rung whose mix is not known yet. *n: number of jobs; of[]: their
 * rungs. */
static int solve_all(const struct ladder *l, struct mixer *x, struct mix_job *job, int *of, int *n,
                     struct err *e) {
    *n = 0;
    for (int i = 0; i < l->n; i++) {
        bool known, found;
        TRY(mix_step(l, &l->rung[i], &known, e));
        if (known) continue;
        TRY(solve(l, x, &l->rung[i], &job[*n], &found, e));
        of[*n] = i;
        if (found)
            (*n)++;
        else
            mix_job_release(&job[*n]);
    }
    return 0;
}

/* Opens the mixer. The gains of feedback take long to compute, so they are stored in the work
 * folder. */
static int open_mixer(const struct ladder *l, struct mixer *x, struct err *e) {
    static const char file[] = JOB_WORK "gains.tsv";
    const char *files[] = {file};
    struct quantize_opts o = encode_options(l, NULL, NULL, true, l->search);
    struct step s;
    cJSON *result = NULL;
    char *path = job_path(&l->mk->job, file);
    step_init(&s, &l->mk->job, "gains");
    add_input_keys(l, &s);
    step_key(&s, "gram", "%s", l->gram_hash);
    step_key(&s, "sensitivity", "%s", l->sens_hash);
    step_key(&s, "search", "%s", search_name(l->search));
    bool known = l->gram && make_reuse(l->mk, &s, &result);
    if (known) o.gram = NULL;
    int rc = mixer_open(x, l->mk->w, &o, l->sens, l->rung[l->n - 1].budget, e);
    if (!rc && known) rc = mixer_read_gains(x, path, e);
    if (!rc && l->gram && !known) rc = mixer_write_gains(x, path, e);
    if (!rc && l->gram && !known) rc = step_save_files(&s, files, 1, e);
    cJSON_Delete(result);
    step_release(&s);
    free(path);
    return rc;
}

/* Sets *all to whether earlier runs have already made the mix of every rung. */
static int all_mixes_known(const struct ladder *l, bool *all, struct err *e) {
    *all = true;
    for (int i = 0; i < l->n && *all; i++) TRY(mix_step(l, &l->rung[i], all, e));
    return 0;
}

static int make_mixes(const struct ladder *l, struct err *e) {
    struct mixer x = {0};
    struct mix_job *job = xcalloc((size_t)l->n, sizeof *job);
    struct quantize_opts *o = xcalloc((size_t)l->n, sizeof *o);
    struct quantize_report *r = xcalloc((size_t)l->n, sizeof *r);
    int *of = xcalloc((size_t)l->n + 1, sizeof *of), n = 0;
    bool all;
    int rc = all_mixes_known(l, &all, e);
    if (!rc && !all) {
        log_info("choosing the types of %d files", l->n);
        rc = open_mixer(l, &x, e);
        if (!rc) rc = solve_all(l, &x, job, of, &n, e);
    }
    for (int i = 0; i < n; i++) o[i] = job[i].o;
    if (!rc && n) {
        log_info("encoding %d mixes%s", n, l->gram ? " with error feedback" : "");
        rc = quantize_run_many(o, n, r, e);
    }
    for (int i = 0; i < n && !rc; i++) rc = save_mix(l, &l->rung[of[i]], &job[i], e);
    for (int i = 0; i < l->n; i++) mix_job_release(&job[i]);
    mixer_close(&x);
    free(job);
    free(o);
    free(r);
    free(of);
    return rc;
}

/* ---- comparison ------------------------------------------------------------------------------ */

enum { CAND, PLAIN }; /* numbers of the two files in a comparison */

/* Fills *v with the results so far, on the same windows for both files. */
static void read_run(const struct eval_kld_run *run, struct verdict_in *v) {
    struct eval_kld a, b;
    struct eval_pair d;
    eval_kld_total(run, CAND, &a);
    eval_kld_total(run, PLAIN, &b);
    eval_kld_pair(run, CAND, PLAIN, &d);
    *v = (struct verdict_in){.kld = a.mean_kld,
                             .kld_plain = b.mean_kld,
                             .p99 = a.kld_p99,
                             .p99_plain = b.kld_p99,
                             .p999 = a.kld_p999,
                             .p999_plain = b.kld_p999,
                             .diff = d.diff,
                             .diff_stderr = d.stderr_,
                             .n_tokens = a.n_tokens,
                             .n_windows = a.n_chunks,
                             .of = run->n_chunks};
}

/* Decides a rung, appending the reason to `why` if there was an earlier comparison. */
static void decide(struct rung *r, struct verdict_in *v) {
    char *what = r->block ? xasprintf("the file made block by block")
                 : r->mix ? xasprintf("the mix")
                          : xasprintf("%s with error feedback", r->name);
    char *than =
        r->block ? xasprintf("the one made in one pass") : xasprintf("the plain %s", r->name);
    const size_t had = r->block ? strlen(r->why) : 0;
    v->what = what;
    v->than = than;
    if (had) snprintf(r->why + had, sizeof r->why - had, "; ");
    char *why = r->why + had + (had ? 2 : 0);
    r->passed = ladder_verdict(v, why, sizeof r->why - (size_t)(why - r->why));
    if (r->passed && !r->replaces && v->diff_stderr > 0) r->sure = fabs(v->diff) / v->diff_stderr;
    log_info("%s: %s: %s", r->name, r->passed ? what : than, why);
    free(what);
    free(than);
}

/* Ends the comparison for the loser as soon as it is clear. The winner is measured to the end. */
static void look_at(void *ctx, const struct eval_kld_run *run, bool *stop) {
    struct rung *r = ctx;
    struct verdict_in v;
    if (r->decided) return;
    read_run(run, &v);
    const enum look found = ladder_look(&v);
    if (found == LOOK_MORE) return;
    r->decided = true;
    decide(r, &v);
    stop[r->passed ? PLAIN : CAND] = true;
    r->ratio = r->passed ? v.kld_plain / v.kld : v.kld / v.kld_plain;
}

/* Decides a rung whose files were both measured to the end, and notes the preset's divergence. That
 * of a preset that was stopped early is the winner's, times their ratio on the same windows. */
static void judge_rung(void *ctx, const struct eval_kld_run *run) {
    struct rung *r = ctx;
    struct verdict_in v;
    if (!r->decided) {
        read_run(run, &v);
        decide(r, &v);
    }
    if (r->block || r->n_windows == run->n_chunks) return;
    const bool early = r->decided && r->passed;
    struct eval_kld k;
    eval_kld_total(run, early ? CAND : PLAIN, &k);
    r->preset_kld = k.mean_kld * (early ? r->ratio : 1);
    r->n_windows = eval_kld_windows(run, PLAIN);
}

/* Compares a rung's candidate, unless an earlier one has passed, with the preset of its size. */
static int compare(const struct ladder *l, struct rung *r, struct err *e) {
    struct made *f[] = {&l->mk->file[0], &r->cand.made, &r->plain.made};
    const struct make_watch watch = {.look = look_at,
                                     .looks = ladder_looks,
                                     .n_looks = LADDER_LOOKS,
                                     .end = judge_rung,
                                     .ctx = r};
    if (r->passed || !r->cand.there) return 0;
    r->decided = false;
    log_info("comparing %s with the preset of its size", r->name);
    return make_measure(l->mk, f, COUNT_OF(f), &watch, e);
}

/* ---- the file of a class --------------------------------------------------------------------- */

/* Moves a candidate to its name in the folder. The new name is first created as a link, so that a
 * job killed here still finds the candidate that its record names. */
static int give_name(const struct make *mk, const struct cand *c, const char *file, struct err *e) {
    char *to = job_path(&mk->job, file), *tmp = xasprintf("%s.tmp-%ld-0", to, (long)os_pid());
    int rc = 0;
    os_unlink(tmp);
    if (os_link(c->path, tmp) != 0) { /* the file system has no links */
        if (os_rename(c->path, to) != 0) rc = err_sys(e, "%s: cannot rename to %s", c->path, to);
    } else if (os_rename(tmp, to) != 0) {
        rc = err_sys(e, "%s: cannot rename to %s", tmp, to);
    }
    os_unlink(tmp); /* still there if an earlier run had given the file its name */
    free(to);
    free(tmp);
    return rc;
}

/* Removes a candidate. A mix's plan stays in the work folder for reference. */
static void remove_candidate(const struct cand *c) {
    if (c->path) os_unlink(c->path);
}

/* Keeps the better candidate as the rung's file, records it, and removes the other. */
static int settle_rung(const struct ladder *l, struct rung *r, struct err *e) {
    struct make *mk = l->mk;
    const struct cand *c = r->passed ? &r->cand : &r->plain;
    const bool mix = r->mix;
    struct step s;
    cJSON *found = doc_new();
    char *file = xasprintf("%s-%s.gguf", mk->name, r->name);
    const char *files[] = {file};
    doc_put_str(found, "made", mix ? "mix" : "preset");
    doc_put_bool(found, "feedback", r->fed || (r->block && r->passed));
    doc_put_bool(found, "block_by_block", r->block && r->passed);
    doc_put_str(found, "why", r->why);
    doc_put_i64(found, "budget_bytes", (int64_t)r->budget);
    if (mix) doc_put_num(found, "predicted_kld", r->predicted);
    if (r->preset_kld > 0) doc_put_num(found, "preset_kld", r->preset_kld);
    if (r->n_windows > 0) doc_put_i64(found, "preset_chunks", r->n_windows);
    if (r->preset_kld > 0 && isfinite(r->sure)) doc_put_num(found, "preset_sure", r->sure);
    int rc = claim_take(&mk->job, file, e);
    if (!rc) rc = give_name(mk, c, file, e);
    init_rung_step(l, "class", r, &s);
    if (!rc) rc = key_rung(l, r, &s, e);
    if (!rc) rc = step_save(&s, files, 1, found, e);
    step_release(&s);
    if (!rc && c->made.eval) { /* already measured, under its old name */
        struct made m = c->made;
        snprintf(m.recipe, sizeof m.recipe, "%s", r->name);
        rc = make_keep_eval(mk, &m, e);
    }
    if (!rc) {
        remove_candidate(&r->cand);
        remove_candidate(&r->plain);
    }
    cJSON_Delete(found);
    free(file);
    return rc;
}

/* Adds the file that a class's record names; *known is false if there is no such record. made_now:
 * this run made it, so -f does not apply. */
static int add_recorded(const struct ladder *l, const struct rung *r, bool made_now, bool *known,
                        struct err *e) {
    struct make *mk = l->mk;
    struct step s;
    cJSON *result = NULL;
    init_rung_step(l, "class", r, &s);
    int rc = key_rung(l, r, &s, e);
    *known = !rc && (made_now ? step_done(&s, &result) : make_reuse(mk, &s, &result));
    if (*known) {
        char *file = xasprintf("%s-%s.gguf", mk->name, r->name), *path = job_path(&mk->job, file);
        struct made *f = make_add_file(mk, r->name, path, false);
        const char *why = doc_str(result, "why");
        snprintf(f->size_class, sizeof f->size_class, "%s", r->name);
        f->is_mix = doc_is(result, "made", "mix");
        f->feedback = doc_bool(result, "feedback", false);
        f->by_block = doc_bool(result, "block_by_block", false);
        f->preset_kld = doc_num(result, "preset_kld", 0);
        f->preset_sure = doc_num(result, "preset_sure", (double)NAN);
        (void)doc_i64(result, "preset_chunks", &f->preset_chunks);
        f->why = xstrdup(why ? why : "");
        rc = job_file_hash(&mk->job, path, f->hash, e);
        free(file);
    }
    cJSON_Delete(result);
    step_release(&s);
    return rc;
}

/* ---- block by block -------------------------------------------------------------------------- */

/* Saves the properties of the best file so far, because the rung's candidates are about to
 * change. */
static void best_so_far(const struct ladder *l, struct rung *r) {
    r->fed = r->passed && l->gram;
    r->mix = r->passed && r->mix;
}

/* Encodes a candidate block by block; types: recipe or plan. If the best file so far is a mix, its
 * notes about the choice of types are copied. */
static int make_block(const struct ladder *l, struct rung *r, const char *types, struct err *e) {
    struct quantize_opts o = encode_options(l, types, r->cand.path, true, l->search);
    struct quantize_report report;
    struct quant_note note[MIX_NOTES];
    struct gguf *g = NULL;
    if (r->mix) TRY(mix_read_notes(r->plain.path, &g, note, &o.n_notes, e));
    o.note = note;
    o.file_type = r->name;
    const struct sequential_opts so = {.q = &o,
                                       .texts = l->mk->calib,
                                       .ctx = l->mk->calib_ctx,
                                       .chunks = l->mk->calib_chunks,
                                       .learn = plan_learns(r->name),
                                       .learn_most = PLAN_LEARN_MOST,
                                       .if_possible = true,
                                       .inputs_only = !l->mk->plan.answers};
    const int rc = sequential_quantize(l->mk->w, &so, &report, e);
    gguf_close(g);
    return rc;
}

/* Makes a candidate with the same types as the best file so far, but block by block, to be compared
 * with that file. There is no such candidate if the architecture or memory does not allow it. */
static int block_cand(const struct ladder *l, struct rung *r, struct err *e) {
    struct step s;
    cJSON *result = NULL;
    remove_candidate(r->passed ? &r->plain : &r->cand);
    if (r->passed) {
        const struct cand old = r->plain;
        r->plain = r->cand;
        r->cand = old;
    }
    char *types = r->mix ? xasprintf("%s.plan.tsv", r->plain.path) : xstrdup(r->name);
    name_cand(l->mk, &r->cand, "block", r);
    r->block = true;
    r->replaces = r->passed;
    r->passed = false;
    init_rung_step(l, "block", r, &s);
    add_cand_keys(l, r, &s);
    step_key(&s, "types", "%s", r->mix ? "mix" : "preset");
    if (plan_learns(r->name)) step_key(&s, "learned", "2"); /* 2: also codes */
    if (!l->mk->plan.answers) step_key(&s, "moments", "inputs");
    const bool known = make_reuse(l->mk, &s, &result);
    const char *files[] = {r->cand.file};
    int rc = 0;
    if (!known) {
        log_info("encoding %s block by block", r->name);
        rc = make_block(l, r, types, e);
        if (rc == ERR_USAGE) {
            log_warn("%s is not made block by block: %s", r->name, e->msg);
            make_left_out(l->mk, "making %s block by block: %s", r->name,
                          e->no_memory ? "too little free memory"
                                       : "this architecture does not allow it");
        }
        if (!rc) rc = step_save_files(&s, files, 1, e);
    }
    if (!rc) rc = cand_made(l, &r->cand, e);
    cJSON_Delete(result);
    step_release(&s);
    free(types);
    return rc == ERR_USAGE ? 0 : rc;
}

/* ---- rungs ----------------------------------------------------------------------------------- */

/* Makes the preset of a rung, and other candidates as needed, and chooses the rung's file. Rungs
 * are made one after the other, so that the folder holds the candidates of one only. */
static int make_rung(const struct ladder *l, struct rung *r, struct err *e) {
    TRY(make_preset_of(l, r, false, e));
    TRY(compare(l, r, e));
    if (!r->passed && l->gram) {
        remove_candidate(&r->cand);
        r->mix = false;
        TRY(make_preset_of(l, r, true, e));
        TRY(compare(l, r, e));
    }
    best_so_far(l, r);
    if (l->mk->plan.sequential && l->gram) {
        TRY(block_cand(l, r, e));
        TRY(compare(l, r, e));
    }
    return settle_rung(l, r, e);
}

static void ladder_release(struct ladder *l) {
    for (int i = 0; i < l->n; i++) {
        struct cand *c[] = {&l->rung[i].plain, &l->rung[i].cand};
        for (size_t k = 0; k < COUNT_OF(c); k++) {
            free(c[k]->file);
            free(c[k]->path);
            made_release(&c[k]->made);
        }
    }
    free(l->rung);
    free(l->gram);
    free(l->sens);
}

/* Fills all[*n_all] with the rungs of l's classes, and l->rung with those that have no file yet. */
static int find_rungs(struct ladder *l, struct rung *all, int *n_all, struct err *e) {
    struct make *mk = l->mk;
    *n_all = 0;
    for (int i = l->from; i < l->to; i++) {
        struct rung r = {.name = mk->classes.v[i]};
        TRY(make_class_bytes(mk, r.name, &r.budget, e));
        all[(*n_all)++] = r;
    }
    l->rung = xcalloc((size_t)*n_all + 1, sizeof *l->rung);
    for (int i = 0; i < *n_all; i++) {
        bool known;
        int before = mk->n_files;
        TRY(add_recorded(l, &all[i], false, &known, e));
        if (!known) l->rung[l->n++] = all[i];
        while (mk->n_files > before) made_drop(mk); /* they were added last, in order */
    }
    return 0;
}

/* Counts the finished files and the mixes that have been encoded. */
static int count(const struct ladder *l, const struct rung *all, int n_all, struct err *e) {
    struct make *mk = l->mk;
    const double files = mk->plan.sequential ? 4 : 2; /* measured per class (plan.c) */
    double measured = 0;
    int encoded = 0;
    for (int i = 0; i < l->n; i++) {
        struct rung *r = &l->rung[i];
        struct quantize_opts o;
        bool known;
        TRY(mix_step(l, r, &known, e));
        encoded += known;
        if (r->cand.there) measured += make_measured(mk, &r->cand.made) / files;
        TRY(preset_cand(l, r, &r->plain, false, &o, e));
        if (r->plain.there) measured += make_measured(mk, &r->plain.made) / files;
    }
    for (int i = 0; i < n_all; i++) {
        bool known;
        TRY(add_recorded(l, &all[i], false, &known, e));
    }
    make_share(mk, PART_LADDER, n_all - l->n + encoded, n_all, l->from);
    make_share(mk, PART_JUDGE, n_all - l->n + measured, n_all, l->from);
    return 0;
}

/* Makes the files of all rungs that are not recorded yet. */
static int run_ladder(struct ladder *l, struct rung *all, struct err *e) {
    struct make *mk = l->mk;
    int n_all;
    bool known;
    if (l->gram) TRY(job_file_hash(&mk->job, l->gram, l->gram_hash, e));
    l->sens = job_path(&mk->job, MAKE_SENSITIVITY);
    TRY(job_file_hash(&mk->job, l->sens, l->sens_hash, e));
    TRY(find_rungs(l, all, &n_all, e));
    if (make_counts(mk)) return count(l, all, n_all, e);
    if (l->n) TRY(make_mixes(l, e));
    for (int i = 0; i < l->n; i++) TRY(make_rung(l, &l->rung[i], e));
    for (int i = 0; i < n_all; i++) {
        TRY(add_recorded(l, &all[i], true, &known, e));
        if (!known)
            return err_set(e, ERR_SYS, "%s: the record of %s cannot be read", mk->job.state,
                           all[i].name);
    }
    return 0;
}

/* Makes the classes [from, to), with or without error feedback. */
static int make_some(struct make *mk, int from, int to, bool feedback, struct err *e) {
    struct ladder l = {.mk = mk, .from = from, .to = to, .gram = feedback ? make_gram(mk) : NULL};
    struct rung *all = xcalloc((size_t)(to - from), sizeof *all);
    int rc = mix_search(make_mix_search(mk, feedback), &l.search, e);
    if (!rc) rc = mix_search(mk->search, &l.plain_search, e);
    if (!rc) rc = run_ladder(&l, all, e);
    ladder_release(&l);
    free(all);
    return rc;
}

/* Returns how many of the smallest classes get error feedback: the plan's number of files with
 * feedback less those of --budget, which come first. 0: feedback is off. */
static int fed_classes(const struct make *mk) {
    const int64_t n = mk->plan.feedback ? mk->plan.fed_files - mk->budget.n : 0;
    return (int)max_i64(0, min_i64(n, mk->classes.n));
}

int make_ladder(struct make *mk, struct err *e) {
    if (!mk->classes.n) return 0;
    if (!mk->plan.mixes) {
        const int had = mk->n_files;
        for (int i = 0; i < mk->classes.n; i++) {
            progress_set_item("file", i + 1, mk->classes.n);
            TRY(make_preset(mk, mk->classes.v[i], e));
        }
        progress_set_item(NULL, 0, 0);
        if (make_counts(mk))
            make_share(mk, PART_PRESETS, mk->n_files - had, mk->classes.n, mk->recipes.n);
        return 0;
    }
    const int n_fed = fed_classes(mk), first_fed = mk->classes.n - n_fed;
    int rc = first_fed ? make_some(mk, 0, first_fed, false, e) : 0;
    if (!rc && n_fed) rc = make_some(mk, first_fed, mk->classes.n, true, e);
    return rc;
}
