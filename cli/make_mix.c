// SPDX-License-Identifier: MIT
/* cli/make_mix.c - the --budget step of `hone make`: sensitivities, the best mix of each size, and
 * the gate. A mix becomes a file of the folder only when its mean divergence on the evaluation
 * text, which took part in neither importance nor probes, is lower than that of the best plain
 * recipe that fits the budget by more than three paired standard errors and its 99.9 % divergence
 * is not larger. Otherwise that recipe is there instead, and a note of the report says why. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calib/imatrix.h"
#include "cli/make.h"
#include "cli/mix.h"
#include "core/io.h"
#include "core/log.h"
#include "core/mem.h"
#include "core/num.h"
#include "runtime/eval.h"

enum { MAX_PLAIN = 3 };
struct plain { /* a recipe that fits */
    const char *name;
    uint64_t bytes;
    char *path;
    bool ours; /* in the job's state folder */
};
struct gate {
    struct make *mk;
    struct plain plain[MAX_PLAIN];
    int n;
    char *mix;  /* the candidate, in the state folder */
    char *gram; /* second moments, for the candidate and the recipes alike; NULL: none */
    char why[512];
    int best; /* of plain; -1: none fits */
    bool passed;
};

/* The largest plain recipes of at most `budget` bytes. */
static int find_plain(struct gate *g, uint64_t budget, enum search search, struct err *e) {
    struct make *mk = g->mk;
    for (int i = 0; recipe_name(i); i++) {
        struct quantize_report r;
        struct quantize_opts o = {.in = mk->file[0].path,
                                  .recipe = recipe_name(i),
                                  .imatrix = mk->imatrix,
                                  .dry_run = true,
                                  .search = search,
                                  .pool = mk->c->pool};
        if (qtype_info(recipe_default(o.recipe))->flags & QF_FLOAT) continue;
        TRY(quantize_run(&o, &r, e));
        if (r.file_bytes > budget) continue;
        int at = g->n < MAX_PLAIN ? g->n++ : MAX_PLAIN;
        for (; at > 0 && g->plain[at - 1].bytes < r.file_bytes; at--)
            if (at < MAX_PLAIN) g->plain[at] = g->plain[at - 1];
        if (at < MAX_PLAIN) g->plain[at] = (struct plain){.name = o.recipe, .bytes = r.file_bytes};
    }
    return 0;
}

/* Files of the plain recipes: those of the folder, else made in the state folder. */
static int make_plain(struct gate *g, enum search search, struct err *e) {
    struct make *mk = g->mk;
    for (int i = 0; i < g->n; i++) {
        struct plain *p = &g->plain[i];
        for (int k = 0; k < mk->n_files && !p->path; k++)
            if (strcmp(mk->file[k].recipe, p->name) == 0) p->path = xstrdup(mk->file[k].path);
        if (p->path) continue;
        struct quantize_report r;
        p->ours = true;
        p->path = xasprintf("%s/plain-%s.gguf", mk->job.state, p->name);
        struct quantize_opts o = {.in = mk->file[0].path,
                                  .out = p->path,
                                  .recipe = p->name,
                                  .imatrix = mk->imatrix,
                                  .gram = g->gram,
                                  .overwrite = true,
                                  .search = search,
                                  .pool = mk->c->pool};
        log_info("quantizing %s, to compare the mix with", p->name);
        TRY(quantize_run(&o, &r, e));
    }
    return 0;
}

static void judge(struct gate *g, const struct eval_kld_run *r) {
    struct eval_kld mix, k[MAX_PLAIN];
    struct eval_pair d;
    eval_kld_total(r, 0, &mix);
    g->best = 0;
    for (int i = 0; i < g->n; i++) {
        eval_kld_total(r, i + 1, &k[i]);
        if (k[i].mean_kld < k[g->best].mean_kld) g->best = i;
    }
    const struct eval_kld *b = &k[g->best];
    eval_kld_pair(r, 0, g->best + 1, &d);
    bool better = d.diff < -3 * d.stderr_, tail = mix.kld_p999 <= b->kld_p999;
    g->passed = better && tail;
    snprintf(g->why, sizeof g->why,
             "mean KLD %.6f against %.6f of %s (paired difference %+.6f +- %.6f), 99.9 %% KLD %.5f "
             "against %.5f%s",
             mix.mean_kld, b->mean_kld, g->plain[g->best].name, d.diff, d.stderr_, mix.kld_p999,
             b->kld_p999,
             g->passed ? ""
             : better  ? ": its 99.9 % KLD is larger"
                       : ": not lower by more than three standard errors");
}

static int compare(struct gate *g, struct err *e) {
    struct make *mk = g->mk;
    struct model *m[MAX_PLAIN + 2] = {0};
    struct session *s[MAX_PLAIN + 2] = {0};
    struct ids ids = {0};
    struct eval_kld_run r;
    int rc = 0, n = g->n + 2;
    const char *path[MAX_PLAIN + 2] = {mk->file[0].path, g->mix};
    for (int i = 0; i < g->n; i++) path[i + 2] = g->plain[i].path;
    struct session_opts o = {.n_ctx = mk->eval_ctx,
                             .n_ubatch = min_i64(mk->eval_ctx, 2048),
                             .isa = mk->c->isa,
                             .act = ACT_F32,
                             .pool = mk->c->pool};
    for (int i = 0; i < n && !rc; i++) {
        rc = model_open(&m[i], path[i], e);
        if (!rc) rc = session_new(&s[i], m[i], &o, e);
    }
    for (int i = 0; i < mk->eval.n && !rc; i++)
        rc = corpus_load(m[0], mk->eval.v[i], true, &ids, e);
    if (!rc) make_spread_chunks(&ids, mk->eval_ctx, mk->eval_chunks);
    const struct eval_domain all = {.name = "", .ids = ids.v, .n_ids = ids.n};
    const struct eval_kld_job job = {.base = s[0],
                                     .cand = s + 1,
                                     .n_cand = n - 1,
                                     .domain = &all,
                                     .n_domains = 1,
                                     .ctx = mk->eval_ctx,
                                     .max_chunks = mk->eval_chunks,
                                     .from = -1};
    if (!rc) rc = eval_kld_open(&job, &r, e);
    if (!rc) {
        judge(g, &r);
        eval_kld_close(&r);
    }
    ids_release(&ids);
    for (int i = 0; i < n; i++) {
        session_free(s[i]);
        model_close(m[i]);
    }
    return rc;
}

static int move(const char *from, const char *to, struct err *e) {
    return rename(from, to) == 0 ? 0 : err_sys(e, "%s: cannot rename to %s", from, to);
}

/* Files of the step, by the verdict: the mix and its plan, or the plain recipe. */
static int settle(struct gate *g, const char *label, char **file, char **plan, struct err *e) {
    struct make *mk = g->mk;
    char *from = xasprintf("%s.plan.tsv", g->mix);
    int rc = 0;
    if (g->passed) {
        *file = xasprintf("%s-%s.gguf", mk->name, label);
        *plan = xasprintf("%s.plan.tsv", *file);
        char *a = job_path(&mk->job, *file), *b = job_path(&mk->job, *plan);
        rc = move(from, b, e);
        if (!rc) rc = move(g->mix, a, e);
        free(a);
        free(b);
    } else {
        const struct plain *p = &g->plain[g->best];
        *file = xasprintf("%s-%s.gguf", mk->name, p->name);
        char *to = job_path(&mk->job, *file);
        if (p->ours) rc = move(p->path, to, e);
        free(to);
        remove(g->mix);
        remove(from);
    }
    free(from);
    return rc;
}

static int new_mix(struct make *mk, struct gate *g, const char *label, uint64_t budget,
                   const char *sens, struct step *s, struct err *e) {
    enum search search;
    struct mixer x;
    struct mix_job job = {0};
    const struct mix_ask ask = {.budget = budget, .floors = true};
    struct quantize_report r;
    char *file = NULL, *plan = NULL;
    TRY(mix_search(mk->search, &search, e));
    g->mix = xasprintf("%s/%s.gguf", mk->job.state, label);
    g->gram = make_gram(mk);
    struct quantize_opts o = {.in = mk->file[0].path,
                              .out = g->mix,
                              .imatrix = mk->imatrix,
                              .gram = g->gram,
                              .overwrite = true,
                              .search = search,
                              .pool = mk->c->pool};
    log_info("the best mix of %" PRIu64 " bytes", budget);
    int rc = mixer_open(&x, mk->c, &o, sens, e);
    if (!rc) rc = mix_solve_job(&x, &o, &ask, &job, e);
    if (!rc) rc = quantize_run(&job.o, &r, e);
    if (!rc) rc = find_plain(g, budget, search, e);
    if (!rc) rc = make_plain(g, search, e);
    g->best = -1;
    g->passed = true;
    if (!rc && !g->n) snprintf(g->why, sizeof g->why, "no plain recipe is as small");
    if (!rc && g->n) rc = compare(g, e);
    if (!rc) rc = settle(g, label, &file, &plan, e);
    if (!rc) {
        struct buf b = {0};
        struct jw w;
        const char *files[] = {file, plan};
        jw_init(&w, &b, false);
        jw_obj(&w, NULL);
        jw_bool(&w, "shipped", g->passed);
        jw_str(&w, "recipe", g->passed ? label : g->plain[g->best].name);
        jw_str(&w, "file", file);
        jw_str(&w, "why", g->why);
        jw_u64(&w, "budget_bytes", budget);
        jw_num(&w, "predicted_kld", job.m.loss);
        jw_num(&w, "predicted_kld_bound", fmax(0, job.m.loss - job.m.gap));
        jw_end(&w);
        rc = step_save(s, files, plan ? 2 : 1, b.data, e);
        buf_release(&b);
    }
    mix_job_release(&job);
    mixer_close(&x);
    free(file);
    free(plan);
    return rc;
}

static void gate_release(struct gate *g) {
    for (int i = 0; i < g->n; i++) {
        if (g->plain[i].ours && g->plain[i].path) remove(g->plain[i].path);
        free(g->plain[i].path);
    }
    free(g->mix);
    free(g->gram);
}

/* Adds what the step's record names. */
static int take(struct make *mk, const struct json *result, const char *text, struct err *e) {
    const char *file = json_str(json_get(result, "file"));
    const char *recipe = json_str(json_get(result, "recipe"));
    const char *why = json_str(json_get(result, "why"));
    bool shipped = json_bool(json_get(result, "shipped"), false);
    if (!file || !recipe || strchr(file, '/'))
        return err_set(e, ERR_DATA, "%s: the record of the mix is damaged; use -f", mk->job.dir);
    make_note(mk, "%s for %s: %s", shipped ? "the mix was shipped" : "the plain recipe was shipped",
              text, why ? why : "");
    for (int i = 0; i < mk->n_files; i++)
        if (strcmp(mk->file[i].file, file) == 0) return 0;
    char *path = job_path(&mk->job, file);
    struct made *f = make_add_file(mk, recipe, path, false);
    return job_file_hash(&mk->job, path, f->hash, e);
}

static int one_budget(struct make *mk, const char *text, uint64_t budget, const char *sens,
                      const char *sens_hash, struct err *e) {
    struct step s;
    struct gate g = {.mk = mk};
    struct json *root = NULL;
    const struct json *result;
    char *label = xasprintf("mix-%s", text), *name = xasprintf("quantize-%s", label);
    int rc = 0;
    step_init(&s, &mk->job, name);
    step_key(&s, "base", "%s", mk->file[0].hash);
    step_key(&s, "imatrix", "%s", mk->imatrix_hash);
    step_key(&s, "sensitivity", "%s", sens_hash);
    step_key(&s, "search", "%s", mk->search);
    step_key(&s, "encoder", "2"); /* best: error feedback */
    step_key(&s, "budget", "%" PRIu64, budget);
    step_key(&s, "ctx", "%" PRId64 " %" PRId64, mk->eval_ctx, mk->eval_chunks);
    for (int i = 0; i < mk->eval.n && rc == 0; i++) {
        char hex[33];
        rc = job_file_hash(&mk->job, mk->eval.v[i], hex, e);
        step_key(&s, "text", "%s", hex);
    }
    bool reuse = rc == 0 && make_reuse(mk, &s, &root, &result);
    if (rc == 0 && !reuse) {
        rc = new_mix(mk, &g, label, budget, sens, &s, e);
        if (rc == 0 && !step_done(&s, &root, &result))
            rc = err_set(e, ERR_SYS, "%s: the record of the mix cannot be read", mk->job.dir);
    }
    if (rc == 0) rc = take(mk, result, text, e);
    json_free(root);
    gate_release(&g);
    step_release(&s);
    free(name);
    free(label);
    return rc;
}

static int measure(struct make *mk, const struct mix_probe_opts *o, struct err *e) {
    struct step s;
    struct json *root = NULL;
    const struct json *result;
    int rc = 0;
    step_init(&s, &mk->job, "sensitivity");
    step_key(&s, "base", "%s", mk->file[0].hash);
    step_key(&s, "imatrix", "%s", mk->imatrix_hash);
    step_key(&s, "search", "%s", mk->search);
    step_key(&s, "ctx", "%" PRId64, o->ctx);
    for (int i = 0; i < o->n_budgets; i++) step_key(&s, "budget", "%" PRIu64, o->budget[i]);
    for (int i = 0; i < o->texts.n && rc == 0; i++) {
        char hex[33];
        rc = job_file_hash(&mk->job, o->texts.v[i], hex, e);
        step_key(&s, "text", "%s", hex);
    }
    if (rc == 0 && make_reuse(mk, &s, &root, &result)) {
        json_free(root);
    } else if (rc == 0) {
        struct sens sens;
        struct mix_probe_report r;
        const char *files[] = {"sensitivity.json"};
        char json[96];
        log_info("measuring what each type costs each part of the model");
        rc = mix_measure(o, &sens, &r, e);
        sens_release(&sens);
        snprintf(json, sizeof json, "{\"seconds\": %.3f, \"n_probes\": %" PRId64 "}", r.seconds,
                 r.n_probes + r.n_steps);
        if (rc == 0) rc = step_save(&s, files, 1, json, e);
    }
    step_release(&s);
    return rc;
}

/* The gate judges on text that nothing was chosen on. */
static int check_texts(struct make *mk, struct err *e) {
    const struct str_list *used[] = {&mk->calib, &mk->probe};
    for (int i = 0; i < mk->eval.n; i++) {
        char hex[33], other[33];
        TRY(job_file_hash(&mk->job, mk->eval.v[i], hex, e));
        for (size_t u = 0; u < COUNT_OF(used); u++)
            for (int k = 0; k < used[u]->n; k++) {
                TRY(job_file_hash(&mk->job, used[u]->v[k], other, e));
                if (strcmp(hex, other) == 0)
                    return err_set(e, ERR_USAGE,
                                   "--eval %s was used for %s too: a mix must be judged on text "
                                   "that took part in neither importance nor probes",
                                   mk->eval.v[i], u ? "probes" : "importance");
            }
    }
    return 0;
}

int make_mix(struct make *mk, struct err *e) {
    if (!mk->budget.n) return 0;
    TRY(check_texts(mk, e));
    struct mix_probe_opts o = {.c = mk->c,
                               .model = mk->file[0].path,
                               .imatrix = mk->imatrix,
                               .ctx = mk->calib_ctx,
                               .n_chunks = 16,
                               .n_types = 3,
                               .rounds = 0, /* no measurable gain: docs/design/mix.md */
                               .seconds = mk->probe_minutes * 60,
                               .overwrite = mk->redo,
                               .replace = true};
    char hash[33];
    TRY(mix_search(mk->search, &o.search, e));
    o.texts = mk->probe.n ? mk->probe : mk->calib;
    if (!mk->probe.n)
        make_note(mk, "the probes of the mixes used the calibration texts: --probe names others");
    for (int i = 0; i < mk->budget.n; i++)
        TRY(cli_size(mk->budget.v[i], "--budget", &o.budget[i], e));
    o.n_budgets = mk->budget.n;
    char *path = job_path(&mk->job, "sensitivity.json");
    o.out = path;
    int rc = measure(mk, &o, e);
    if (rc == 0) rc = job_file_hash(&mk->job, path, hash, e);
    for (int i = 0; i < mk->budget.n && rc == 0; i++)
        rc = one_budget(mk, mk->budget.v[i], o.budget[i], path, hash, e);
    free(path);
    return rc;
}
