// SPDX-License-Identifier: MIT
/* make/sens.c - the step of `hone make` that measures the cost of each type for each part of the
 * model, once for all sizes, on texts that the evaluation does not use. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "text/size.h"

#include "make/make.h"
#include "mix/mixer.h"
#include "mix/probe.h"
#include "mix/sensitivity.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/progress.h"

int make_texts_apart(struct make *mk, const char **same, struct err *e) {
    const struct str_list *used[] = {&mk->calib, &mk->probe};
    *same = NULL;
    for (int i = 0; i < mk->eval.n; i++) {
        char hex[33], other[33];
        TRY(job_file_hash(&mk->job, mk->eval.v[i], hex, e));
        for (size_t u = 0; u < COUNT_OF(used); u++)
            for (int k = 0; k < used[u]->n; k++) {
                TRY(job_file_hash(&mk->job, used[u]->v[k], other, e));
                if (strcmp(hex, other) == 0) *same = mk->eval.v[i];
            }
    }
    return 0;
}

/* Adds everything that the sensitivity depends on to the step's key. */
static int add_step_keys(struct make *mk, const struct mix_probe_opts *o, struct step *s,
                         struct err *e) {
    step_key(s, "base", "%s", mk->file[0].hash);
    step_key(s, "imatrix", "%s", mk->imatrix_hash);
    step_key(s, "search", "%s", search_name(o->search));
    step_key(s, "ctx", "%" PRId64, o->ctx);
    step_key(s, "probes", "%s %" PRId64, probes_name[o->probes], o->n_chunks);
    for (int i = 0; i < o->n_budgets; i++) step_key(s, "budget", "%" PRIu64, o->budget[i]);
    for (int i = 0; i < o->texts.n; i++) {
        char hex[33];
        TRY(job_file_hash(&mk->job, o->texts.v[i], hex, e));
        step_key(s, "text", "%s", hex);
    }
    return 0;
}

/* Returns how many probes ended before the last window. */
static int64_t count_early(const struct sens *s) {
    int64_t n = 0;
    for (int i = 0; i < s->n_joint; i++)
        n += s->joint[i].n_windows > 0 && s->joint[i].n_windows < s->n_chunks;
    for (int i = 0; i < s->n_groups; i++)
        for (int k = 0; k < s->group[i].n_probes; k++)
            n += s->group[i].probe[k].n_windows > 0 && s->group[i].probe[k].n_windows < s->n_chunks;
    return n;
}

/* Records the number of probes and of their windows, from the record of the step. */
static void note_probes(struct make *mk, const cJSON *found) {
    int64_t n = 0, early = 0, windows = 0;
    if (!doc_i64(found, "n_probes", &n) || !doc_i64(found, "n_early", &early) ||
        !doc_i64(found, "n_chunks", &windows))
        return;
    if (!n)
        make_note(mk, "Types: chosen from gradients on %" PRId64 " windows, without probes.",
                  windows);
    else if (!early)
        make_note(mk, "Types: chosen from %" PRId64 " probes on %" PRId64 " windows each.", n,
                  windows);
    else
        make_note(mk,
                  "Types: chosen from %" PRId64 " probes on %" PRId64 " windows; %" PRId64
                  " of them ended after %d, when their standard error was small enough.",
                  n, windows, early, PROBE_LOOK);
}

/* Returns the time that the options allow for probes, in seconds, however much of --time other
 * steps take; infinity: no limit. */
static double probe_limit(const struct make *mk) {
    const double job = mk->seconds > 0 ? mk->seconds : HUGE_VAL;
    return mk->probe_seconds > 0 ? fmin(job, mk->probe_seconds) : job;
}

/* Returns the share of probes that the record has; less than 1: their time ran out. */
static double share_recorded(const cJSON *found) {
    int64_t n = 0, wanted = 0;
    return doc_i64(found, "n_probes", &n) && doc_i64(found, "n_wanted", &wanted) && n < wanted
               ? (double)n / (double)wanted
               : 1;
}

/* Returns whether the recorded probes ran out of time, and the options now allow more. Records of
 * earlier versions lack the limit; those of the same plan are kept. */
static bool wants_more(const struct make *mk, const cJSON *found) {
    const double had = doc_num(found, "time_limit", mk->kept_plan ? HUGE_VAL : 0);
    return share_recorded(found) < 1 && probe_limit(mk) > had;
}

/* Lists the probes that the record lacks as left out. */
static void note_missing(struct make *mk, const cJSON *found) {
    int64_t n = 0, wanted = 0;
    if (share_recorded(found) >= 1) return;
    (void)doc_i64(found, "n_probes", &n);
    (void)doc_i64(found, "n_wanted", &wanted);
    make_left_out(mk, "%" PRId64 " of %" PRId64 " sensitivity probes, because their time ran out",
                  wanted - n, wanted);
}

/* Measures the sensitivity and records the file. */
static int measure_sens(const struct mix_probe_opts *o, struct step *s, struct make *mk,
                        struct err *e) {
    struct sens sens;
    struct mix_probe_report r;
    const char *files[] = {MAKE_SENSITIVITY};
    log_info("measuring the cost of each type for each part of the model");
    make_forget(mk, "sensitivity probes");
    int rc = mix_measure(o, &sens, &r, e);
    const int64_t early = count_early(&sens), windows = sens.n_chunks;
    sens_release(&sens);
    if (rc) return rc;
    cJSON *found = doc_new();
    doc_put_num(found, "seconds", r.seconds);
    doc_put_i64(found, "n_probes", r.n_probes + r.n_steps);
    doc_put_i64(found, "n_wanted", r.n_wanted);
    if (isfinite(probe_limit(mk))) doc_put_num(found, "time_limit", probe_limit(mk));
    doc_put_i64(found, "n_early", early);
    doc_put_i64(found, "n_chunks", windows);
    note_probes(mk, found);
    note_missing(mk, found);
    rc = step_save(s, files, 1, found, e);
    cJSON_Delete(found);
    return rc;
}

/* Fills in the requested sizes; for small sizes, IQ1 becomes a candidate. */
static int budgets(struct make *mk, struct mix_probe_opts *o, struct err *e) {
    for (int i = 0; i < mk->budget.n; i++)
        TRY(size_parse(mk->budget.v[i], "--budget", &o->budget[o->n_budgets++], e));
    if (!mk->classes.n) return 0;
    return make_class_bytes(mk, mk->classes.v[mk->classes.n - 1], &o->budget[o->n_budgets++], e);
}

/* Returns the share of the probes that are already in the file of an interrupted run. */
static double share_of_probes(const struct make *mk, const char *path) {
    struct sens s;
    struct err ignored;
    const int64_t all = plan_probes(&mk->in, &mk->plan);
    double n;
    char *record = io_join(mk->job.state, "sensitivity.json");
    const bool other = io_exists(record); /* complete, but with different options */
    free(record);
    if (other || mk->redo || !io_exists(path) || sens_read(&s, path, &ignored)) return 0;
    n = s.n_joint;
    for (int i = 0; i < s.n_groups; i++) n += s.group[i].n_probes;
    sens_release(&s);
    return all > 0 && n < (double)all ? n / (double)all : .99; /* only the record is missing */
}

int make_sensitivity(struct make *mk, struct err *e) {
    struct step s;
    cJSON *found = NULL;
    if (!mk->plan.mixes) return 0;
    double left = mk->seconds > 0 ? make_time_for_probes(mk) : 0;
    struct mix_probe_opts o = {.w = mk->w,
                               .model = mk->file[0].path,
                               .imatrix = mk->imatrix,
                               .ctx = mk->calib_ctx,
                               .n_chunks = mk->plan.probe_windows,
                               .probes = mk->plan.probes,
                               /* More rounds gave no measurable gain (docs/design/mix.md). */
                               .rounds = 0,
                               .seconds = mk->probe_seconds,
                               .overwrite = mk->redo,
                               .replace = true};
    if (left > 0 && (o.seconds <= 0 || left < o.seconds)) o.seconds = left;
    TRY(mix_search(mk->search, &o.search, e));
    o.texts = mk->probe.n ? mk->probe : mk->calib;
    if (!mk->probe.n)
        make_note(mk,
                  "the mixes were chosen on the calibration texts; --probe FILE gives other texts");
    TRY(budgets(mk, &o, e));
    char *path = job_path(&mk->job, MAKE_SENSITIVITY);
    o.out = path;
    step_init(&s, &mk->job, "sensitivity");
    int rc = add_step_keys(mk, &o, &s, e);
    const bool recorded = !rc && make_reuse(mk, &s, &found);
    const bool known = recorded && !wants_more(mk, found);
    if (make_counts(mk))
        mk->in.done[PART_PROBES] = known      ? 1
                                   : recorded ? share_recorded(found)
                                              : share_of_probes(mk, path);
    else if (known)
        note_probes(mk, found), note_missing(mk, found);
    else if (!rc)
        rc = measure_sens(&o, &s, mk, e);
    cJSON_Delete(found);
    step_release(&s);
    free(path);
    return rc;
}
