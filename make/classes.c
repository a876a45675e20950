// SPDX-License-Identifier: MIT
/* make/classes.c - the files of the size classes, each no larger than the preset of its name: the
 * best mix with error feedback if it measures better than the preset, else the preset with error
 * feedback if that does, else the plain preset.
 *
 * Candidates (make/candidates.h) are made in the work folder: all mixes, then, rung by rung, the
 * preset. A comparison stops measuring the loser as soon as it is clear. Every file has a record,
 * so an interrupted job makes only the missing files. */
#include <math.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "make/candidates.h"
#include "make/ownership.h"
#include "mix/mixer.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/os.h"
#include "base/progress.h"
#include "runtime/measure/eval.h"

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

/* Adds everything that determines the file of a class to the key. */
static int key_rung(const struct ladder *l, const struct rung *r, struct step *s, struct err *e) {
    struct make *mk = l->mk;
    cand_keys(l, r, s);
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
    cand_step(l, "class", r, &s);
    if (!rc) rc = key_rung(l, r, &s, e);
    if (!rc) rc = step_save(&s, files, 1, found, e);
    step_release(&s);
    if (!rc && c->made.eval) { /* already measured, under its old name */
        struct made m = c->made;
        snprintf(m.recipe, sizeof m.recipe, "%s", r->name);
        rc = make_keep_eval(mk, &m, e);
    }
    if (!rc) {
        cand_remove(&r->cand);
        cand_remove(&r->plain);
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
    cand_step(l, "class", r, &s);
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

/* ---- rungs ----------------------------------------------------------------------------------- */

/* Saves the properties of the best file so far, because the rung's candidates are about to
 * change. */
static void best_so_far(const struct ladder *l, struct rung *r) {
    r->fed = r->passed && l->gram;
    r->mix = r->passed && r->mix;
}

/* Makes the preset of a rung, and other candidates as needed, and chooses the rung's file. Rungs
 * are made one after the other, so that the folder holds the candidates of one only. */
static int make_rung(const struct ladder *l, struct rung *r, struct err *e) {
    TRY(cand_preset(l, r, false, e));
    TRY(compare(l, r, e));
    if (!r->passed && l->gram) {
        cand_remove(&r->cand);
        r->mix = false;
        TRY(cand_preset(l, r, true, e));
        TRY(compare(l, r, e));
    }
    best_so_far(l, r);
    if (l->mk->plan.sequential && l->gram) {
        TRY(cand_block(l, r, e));
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
        TRY(cand_find_mix(l, r, &known, e));
        encoded += known;
        if (r->cand.there) measured += make_measured(mk, &r->cand.made) / files;
        TRY(cand_find_preset(l, r, &r->plain, false, &o, e));
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
    if (l->n) TRY(cand_mixes(l, e));
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
