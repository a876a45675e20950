// SPDX-License-Identifier: MIT
/* make/candidates.c - candidates for the file of a size class, in the work folder: the preset with
 * and without error feedback, the best mix (all mixes are made in one pass over the base), and the
 * best of these made block by block. Every candidate has a record, so an interrupted job makes only
 * the missing ones. */
#include "make/candidates.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "work/device.h"
#include "mix/mixer.h"
#include "mix/sequential.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/os.h"
#include "base/str.h"
#include "quantize/record.h"
#include "text/size.h"

/* ---- keys ------------------------------------------------------------------------------------ */

/* Adds everything that all candidates depend on to the step's key. */
static void add_input_keys(const struct ladder *l, struct step *s) {
    step_key(s, "base", "%s", l->mk->file[0].hash);
    step_key(s, "imatrix", "%s", l->mk->imatrix_hash);
    step_key(s, "encoder", MAKE_ENCODER);
    make_key_template(l->mk, s);
}

void cand_keys(const struct ladder *l, const struct rung *r, struct step *s) {
    add_input_keys(l, s);
    step_key(s, "gram", "%s", l->gram_hash);
    step_key(s, "sensitivity", "%s", l->sens_hash);
    step_key(s, "search", "%s", search_name(l->search));
    step_key(s, "budget", "%" PRIu64, r->budget);
}

void cand_step(const struct ladder *l, const char *kind, const struct rung *r, struct step *s) {
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

int cand_find_preset(const struct ladder *l, struct rung *r, struct cand *c, bool feedback,
                     struct quantize_opts *o, struct err *e) {
    struct step s;
    cJSON *result = NULL;
    const char *kind = feedback ? "feedback" : "plain";
    int rc = 0;
    name_cand(l->mk, c, kind, r);
    *o = encode_options(l, r->name, c->path, feedback, feedback ? l->search : l->plain_search);
    cand_step(l, kind, r, &s);
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
    cand_step(l, o->gram ? "feedback" : "plain", r, &s);
    add_input_keys(l, &s);
    step_key(&s, "gram", "%s", o->gram ? l->gram_hash : "");
    step_key(&s, "search", "%s", search_name(o->search));
    int rc = step_save_files(&s, files, 1, e);
    step_release(&s);
    return rc ? rc : cand_made(l, c, e);
}

int cand_preset(const struct ladder *l, struct rung *r, bool feedback, struct err *e) {
    struct cand *c = feedback ? &r->cand : &r->plain;
    struct quantize_opts o;
    struct quantize_report report;
    TRY(cand_find_preset(l, r, c, feedback, &o, e));
    if (c->there) return 0;
    log_info("encoding %s for comparison%s", r->name, feedback ? ", with error feedback" : "");
    TRY(quantize_run(&o, &report, e));
    return save_preset(l, r, c, &o, e);
}

/* ---- mixes ----------------------------------------------------------------------------------- */

int cand_find_mix(const struct ladder *l, struct rung *r, bool *known, struct err *e) {
    struct step s;
    cJSON *result = NULL;
    int rc = 0;
    name_cand(l->mk, &r->cand, "mix", r);
    r->mix = true;
    cand_step(l, "mix", r, &s);
    cand_keys(l, r, &s);
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
    char *plan = xasprintf("%s" MIX_PLAN, r->cand.file);
    const char *files[] = {r->cand.file, plan};
    doc_put_bool(found, "made", job != NULL);
    if (!job) doc_put_str(found, "why", r->why);
    doc_put_num(found, "predicted_kld", job ? job->m.loss : 0);
    cand_step(l, "mix", r, &s);
    cand_keys(l, r, &s);
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
        TRY(cand_find_mix(l, &l->rung[i], &known, e));
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
    for (int i = 0; i < l->n && *all; i++) TRY(cand_find_mix(l, &l->rung[i], all, e));
    return 0;
}

int cand_mixes(const struct ladder *l, struct err *e) {
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

/* ---- block by block -------------------------------------------------------------------------- */

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

int cand_block(const struct ladder *l, struct rung *r, struct err *e) {
    struct step s;
    cJSON *result = NULL;
    cand_remove(r->passed ? &r->plain : &r->cand);
    if (r->passed) {
        const struct cand old = r->plain;
        r->plain = r->cand;
        r->cand = old;
    }
    char *types = r->mix ? xasprintf("%s" MIX_PLAN, r->plain.path) : xstrdup(r->name);
    name_cand(l->mk, &r->cand, "block", r);
    r->block = true;
    r->replaces = r->passed;
    r->passed = false;
    cand_step(l, "block", r, &s);
    cand_keys(l, r, &s);
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

void cand_remove(const struct cand *c) {
    if (c->path) os_unlink(c->path);
}

/* Returns whether a name in the work folder is that of a candidate: KIND-RECIPE.gguf (name_cand,
 * and mix/accept.c), or SIZE-mix.gguf or its plan (make/mix.c). */
static bool is_candidate(const char *name) {
    static const char *const kinds[] = {"plain-", "feedback-", "mix-", "block-"};
    static const char *const ends[] = {"-mix.gguf", "-mix.gguf" MIX_PLAN};
    uint64_t size;
    struct err ignored;
    bool is = false;
    for (size_t i = 0; i < COUNT_OF(ends); i++) {
        if (!str_ends(name, ends[i])) continue;
        char *text = xstrndup(name, strlen(name) - strlen(ends[i]));
        is |= size_parse(text, "", &size, &ignored) == 0;
        free(text);
    }
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        const size_t n = strlen(kinds[i]);
        if (strncmp(name, kinds[i], n) != 0 || !str_ends(name, ".gguf")) continue;
        char *recipe = xstrndup(name + n, strlen(name) - n - 5);
        is |= recipe_find(recipe) != NULL;
        free(recipe);
    }
    return is;
}

int cand_remove_left(const struct job *j, struct err *e) {
    struct io_names all;
    int rc = io_list(&all, j->state, e);
    for (int i = 0; i < all.n && !rc; i++) {
        if (!is_candidate(all.v[i])) continue;
        char *path = io_join(j->state, all.v[i]);
        /* a base has no record, whatever the model is called */
        if ((str_ends(path, MIX_PLAN) || record_in(path)) && os_unlink(path) == 0)
            log_debug("removed leftover %s", path);
        free(path);
    }
    io_names_release(&all);
    return rc;
}
