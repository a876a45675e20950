// SPDX-License-Identifier: MIT
/* make/mix.c - the --budget step of `hone make`: makes the best mix of each size and decides
 * whether to accept it (mix/accept.h). A mix becomes a file of the folder only if it is accepted;
 * otherwise the best plain recipe that fits takes its place, and a note in the report gives the
 * reason. Every file that is compared has a record, so an interrupted job makes only the missing
 * ones. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "make/ownership.h"
#include "work/device.h"
#include "mix/accept.h"
#include "make/make.h"
#include "mix/mixer.h"
#include "text/size.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/os.h"

enum { MAX_RECORD = 1 << 20 };
#define BUDGET_STEP "quantize-%s-mix" /* a step's name; the budget as given */

struct candidate { /* a mix and its comparison */
    struct make *mk;
    const char *text; /* the budget as given */
    uint64_t budget;
    const char *sens_hash;
    double loss, least; /* predicted divergence of the mix, and its lower bound for any mix */
    struct gate gate;
    char *mix;    /* path in the state folder */
    char *gram;   /* file of second moments; NULL: none */
    char *prefix; /* path prefix of the recipes' files */
};

static int rename_file(const char *from, const char *to, struct err *e) {
    return os_rename(from, to) == 0 ? 0 : err_sys(e, "%s: cannot rename to %s", from, to);
}

/* Writes the type name for the file's general.file_type, e.g. Q4_K_M (default: F16). Some loaders
 * expect file names to end with it. */
static int encoding_of(const char *path, char out[32], struct err *e) {
    struct gguf *g;
    TRY(gguf_open(&g, path, 0, e));
    const char *name =
        qtype_ftype_name((int64_t)gguf_u64_or(g, "general.file_type", 0) & 0x7fffffff);
    snprintf(out, 32, "%s", name ? name : "F16");
    gguf_close(g);
    return 0;
}

/* Returns whether a finished file is what the gate would make of this recipe: encoded in one pass,
 * with the gate's search and error feedback. */
static bool is_plain(const struct make *mk, const struct made *f, const struct gate *g,
                     const char *recipe) {
    const bool search = g->gram || strcmp(make_mix_search(mk, false), search_name(g->search)) == 0;
    return search && !f->is_base && !f->is_mix && !f->by_block &&
           f->feedback == (g->gram != NULL) && strcmp(f->recipe, recipe) == 0;
}

cJSON *make_budget_record(const char *state, const char *text) {
    char *name = xasprintf(BUDGET_STEP ".json", text);
    cJSON *root = doc_find(state, name, MAX_RECORD);
    free(name);
    return root;
}

/* Returns whether an earlier run made the folder's file of this name for this budget. */
static bool is_own(const struct candidate *k, const char *file, const char *path) {
    cJSON *root = make_budget_record(k->mk->job.state, k->text);
    const cJSON *f = doc_first(doc_get(root, "files"));
    const bool own = doc_bool(doc_get(root, "result"), "own", false) && doc_is(f, "file", file) &&
                     step_intact(path, f);
    cJSON_Delete(root);
    return own;
}

/* Sets *taken to whether the folder has another file of this name, e.g. the mix of a size class
 * that an earlier run made, with other contents than the one at `path`. */
static int is_taken(const struct candidate *k, const char *file, const char *path, bool *taken,
                    struct err *e) {
    const struct job *j = &k->mk->job;
    char *there = job_path(j, file), hex[33], other[33] = "";
    int rc = 0;
    *taken = io_exists(there) && !is_own(k, file, there);
    if (*taken) rc = job_file_hash(j, there, other, e);
    if (*taken && !rc) rc = job_file_hash(j, path, hex, e);
    *taken = *taken && !rc && strcmp(hex, other) != 0;
    free(there);
    return rc;
}

/* Names the file of a plain recipe that the gate made: NAME-RECIPE.gguf, or NAME-SIZE-RECIPE.gguf
 * if another file has the first name. *recipe: the part after NAME-. */
static int name_plain(const struct candidate *k, const struct gate_plain *p, char **file,
                      char **recipe, struct err *e) {
    bool taken;
    *recipe = xstrdup(p->name);
    *file = xasprintf("%s-%s.gguf", k->mk->name, p->name);
    TRY(is_taken(k, *file, p->path, &taken, e));
    if (!taken) return 0;
    free(*recipe);
    free(*file);
    *recipe = xasprintf("%s-%s", k->text, p->name);
    *file = xasprintf("%s-%s.gguf", k->mk->name, *recipe);
    return 0;
}

/* Moves the step's files to their final names, depending on the verdict: the mix and its plan, or
 * the plain recipe. *recipe: what the report calls it. */
static int settle(const struct candidate *k, const char *label, char **file, char **plan,
                  char **recipe, struct err *e) {
    char type[32];
    struct make *mk = k->mk;
    const struct gate *g = &k->gate;
    if (g->passed) TRY(encoding_of(k->mix, type, e));
    char *from = xasprintf("%s" MIX_PLAN, k->mix);
    int rc = 0;
    if (g->passed) {
        *recipe = xstrdup(label);
        *file = xasprintf("%s-%s-%s.gguf", mk->name, label, type);
        *plan = xasprintf("%s" MIX_PLAN, *file);
        char *a = job_path(&mk->job, *file), *b = job_path(&mk->job, *plan);
        rc = claim_take(&mk->job, *file, e);
        if (!rc) rc = claim_take(&mk->job, *plan, e);
        if (!rc) rc = rename_file(from, b, e);
        if (!rc) rc = rename_file(k->mix, a, e);
        free(a);
        free(b);
    } else {
        const struct gate_plain *p = &g->plain[g->best];
        if (p->ours)
            rc = name_plain(k, p, file, recipe, e);
        else
            *file = xstrdup(io_base(p->path)), *recipe = xstrdup(p->name);
        char *to = job_path(&mk->job, *file);
        if (p->ours && !rc) rc = claim_take(&mk->job, *file, e);
        if (p->ours && !rc) rc = rename_file(p->path, to, e);
        free(to);
        os_unlink(k->mix);
        os_unlink(from);
    }
    free(from);
    return rc;
}

/* Adds everything that an encoded file depends on, besides its types, to the step's key. sens_hash:
 * of the sensitivities; "" for a plain recipe. */
static int add_encoding_keys(const struct make *mk, const char *sens_hash, struct step *s,
                             struct err *e) {
    char *gram = mk->plan.feedback ? make_gram(mk) : NULL, gram_hash[33] = "";
    const int rc = gram ? job_file_hash(&mk->job, gram, gram_hash, e) : 0;
    step_key(s, "base", "%s", mk->file[0].hash);
    step_key(s, "imatrix", "%s", mk->imatrix_hash);
    step_key(s, "gram", "%s", gram_hash);
    step_key(s, "sensitivity", "%s", sens_hash);
    step_key(s, "search", "%s%s", make_mix_search(mk, mk->plan.feedback),
             mk->plan.feedback ? " feedback" : "");
    step_key(s, "encoder", MAKE_ENCODER);
    make_key_template(mk, s);
    free(gram);
    return rc;
}

/* Quantizes a recipe for the comparison, unless an earlier run did. */
static int encode_plain(void *ctx, const char *recipe, const struct quantize_opts *o,
                        struct err *e) {
    struct make *mk = ctx;
    struct step s;
    struct quantize_report r;
    struct quantize_opts resumable = *o;
    cJSON *found = NULL;
    char *name = xasprintf("compared-%s", recipe),
         *file = xasprintf(JOB_WORK "%s", io_base(o->out));
    const char *files[] = {file};
    resumable.resume = make_resume(mk);
    step_init(&s, &mk->job, name);
    int rc = add_encoding_keys(mk, "", &s, e);
    const bool known = !rc && make_reuse(mk, &s, &found);
    if (!rc && !known) {
        log_info("quantizing %s, for comparison with the mix", recipe);
        rc = quantize_run(&resumable, &r, e);
    }
    if (!rc && !known) rc = step_save_files(&s, files, 1, e);
    cJSON_Delete(found);
    step_release(&s);
    free(file);
    free(name);
    return rc;
}

/* Begins the step that makes the mix, before it is compared. */
static int mix_step(const struct candidate *k, struct step *s, struct err *e) {
    char *name = xasprintf("candidate-%s", k->text);
    step_init(s, &k->mk->job, name);
    free(name);
    step_key(s, "budget", "%" PRIu64, k->budget);
    return add_encoding_keys(k->mk, k->sens_hash, s, e);
}

/* Returns whether an earlier run made the mix but did not compare it to the end. */
static bool is_encoded(const struct candidate *k) {
    struct step s;
    struct err ignored;
    cJSON *found = NULL;
    const bool is = !mix_step(k, &s, &ignored) && !k->mk->redo && step_done(&s, &found);
    cJSON_Delete(found);
    step_release(&s);
    return is;
}

/* Makes the mix in the state folder. */
static int encode_mix(struct candidate *k, const char *sens, struct err *e) {
    struct make *mk = k->mk;
    struct gate *g = &k->gate;
    struct mixer x;
    struct mix_job job = {0};
    struct quantize_report r;
    struct quantize_opts o = {.in = mk->file[0].path,
                              .tmpl = mk->tmpl,
                              .out = k->mix,
                              .imatrix = mk->imatrix,
                              .known_gaps = true,
                              .gram = k->gram,
                              .overwrite = true,
                              .search = g->search,
                              .resume = make_resume(mk),
                              .pool = mk->w->pool};
    o.device = device_quantize(mk->w);
    log_info("making the best mix of at most %" PRIu64 " bytes", k->budget);
    int rc = mixer_open(&x, mk->w, &o, sens, k->budget, e);
    if (!rc) rc = mix_solve_size(&x, &o, k->budget, &job, e);
    if (!rc) rc = quantize_run(&job.o, &r, e);
    mixer_close(&x);
    k->loss = job.m.loss;
    k->least = fmax(0, job.m.loss - job.m.gap);
    mix_job_release(&job);
    return rc;
}

/* Makes the mix, unless an earlier run did, and judges it. */
static int try_mix(struct candidate *k, const char *sens, struct err *e) {
    struct make *mk = k->mk;
    struct gate *g = &k->gate;
    struct step s;
    cJSON *found = NULL;
    int rc = mix_step(k, &s, e);
    if (!rc && make_reuse(mk, &s, &found)) {
        k->loss = doc_num(found, "predicted_kld", 0);
        k->least = doc_num(found, "predicted_kld_bound", 0);
    } else if (!rc) {
        char *file = xasprintf(JOB_WORK "%s", io_base(k->mix));
        char *plan = xasprintf("%s" MIX_PLAN, file);
        const char *files[] = {file, plan};
        found = doc_new();
        rc = encode_mix(k, sens, e);
        doc_put_num(found, "predicted_kld", k->loss);
        doc_put_num(found, "predicted_kld_bound", k->least);
        if (!rc) rc = step_save(&s, files, 2, found, e);
        free(file);
        free(plan);
    }
    cJSON_Delete(found);
    step_release(&s);
    if (!rc) rc = gate_find(g, k->budget, e);
    for (int i = 0; i < g->n; i++) /* reuse plain recipes that are already in the folder */
        for (int f = 0; f < mk->n_files && !g->plain[i].path; f++)
            if (is_plain(mk, &mk->file[f], g, g->plain[i].name))
                g->plain[i].path = xstrdup(mk->file[f].path);
    return rc ? rc : gate_judge(g, k->mix, e);
}

/* Makes the mix for a budget and compares it with the plain recipes. */
static int new_mix(struct candidate *k, const char *label, const char *sens, struct step *s,
                   struct err *e) {
    struct make *mk = k->mk;
    struct gate *g = &k->gate;
    char *file = NULL, *plan = NULL, *recipe = NULL;
    k->mix = xasprintf("%s/%s.gguf", mk->job.state, label);
    k->gram = mk->plan.feedback ? make_gram(mk) : NULL;
    k->prefix = xasprintf("%s/", mk->job.state);
    *g = (struct gate){.w = mk->w,
                       .base = mk->file[0].path,
                       .imatrix = mk->imatrix,
                       .gram = k->gram,
                       .tmpl = mk->tmpl,
                       .prefix = k->prefix,
                       .texts = mk->eval,
                       .ctx = mk->eval_ctx,
                       .chunks = mk->eval_chunks,
                       .encode = encode_plain,
                       .encode_ctx = mk};
    TRY(mix_search(make_mix_search(mk, mk->plan.feedback), &g->search, e));
    int rc = try_mix(k, sens, e);
    g->keep = rc != 0;
    if (!rc) rc = settle(k, label, &file, &plan, &recipe, e);
    if (!rc) {
        cJSON *found = doc_new();
        const char *files[] = {file, plan};
        doc_put_bool(found, "shipped", g->passed);
        doc_put_bool(found, "own", g->passed || g->plain[g->best].ours);
        doc_put_bool(found, "feedback", k->gram != NULL);
        doc_put_str(found, "recipe", recipe);
        doc_put_str(found, "file", file);
        doc_put_str(found, "why", g->why);
        doc_put_i64(found, "budget_bytes", (int64_t)k->budget);
        doc_put_num(found, "predicted_kld", k->loss);
        doc_put_num(found, "predicted_kld_bound", k->least);
        rc = step_save(s, files, plan ? 2 : 1, found, e);
        cJSON_Delete(found);
    }
    free(file);
    free(plan);
    free(recipe);
    return rc;
}

static void candidate_release(struct candidate *k) {
    gate_release(&k->gate);
    free(k->mix);
    free(k->gram);
    free(k->prefix);
}

/* Adds the file that the step's record names. */
static int add_recorded(struct make *mk, const cJSON *result, const char *text, struct err *e) {
    const char *file = doc_str(result, "file");
    const char *recipe = doc_str(result, "recipe");
    const char *why = doc_str(result, "why");
    bool shipped = doc_bool(result, "shipped", false);
    if (!file || !recipe || strchr(file, '/'))
        return err_set(e, ERR_DATA, "%s: the record of the mix is damaged; use -f", mk->job.dir);
    make_note(mk, "%s for %s: %s", shipped ? "the mix was shipped" : "the plain recipe was shipped",
              text, why ? why : "");
    for (int i = 0; i < mk->n_files; i++)
        if (strcmp(mk->file[i].file, file) == 0) return 0;
    char *path = job_path(&mk->job, file);
    struct made *f = make_add_file(mk, recipe, path, false);
    f->is_mix = shipped;
    f->feedback = doc_bool(result, "feedback", false);
    return job_file_hash(&mk->job, path, f->hash, e);
}

/* Makes the mix for one --budget; text: the budget as given. */
static int make_budget(struct make *mk, const char *text, uint64_t budget, const char *sens,
                       const char *sens_hash, struct err *e) {
    struct step s;
    struct candidate k = {.mk = mk, .text = text, .budget = budget, .sens_hash = sens_hash};
    cJSON *result = NULL;
    char *label = xasprintf("%s-mix", text), *name = xasprintf(BUDGET_STEP, text);
    step_init(&s, &mk->job, name);
    int rc = add_encoding_keys(mk, sens_hash, &s, e);
    step_key(&s, "budget", "%" PRIu64, budget);
    step_key(&s, "ctx", "%" PRId64 " %" PRId64, mk->eval_ctx, mk->eval_chunks);
    for (int i = 0; i < mk->eval.n && rc == 0; i++) {
        char hex[33];
        rc = job_file_hash(&mk->job, mk->eval.v[i], hex, e);
        step_key(&s, "text", "%s", hex);
    }
    bool reuse = rc == 0 && make_reuse(mk, &s, &result);
    if (rc == 0 && !reuse && make_counts(mk)) mk->n_begun += is_encoded(&k);
    if (rc == 0 && !reuse && !make_counts(mk)) {
        rc = new_mix(&k, label, sens, &s, e);
        if (rc == 0 && !step_done(&s, &result))
            rc = err_set(e, ERR_SYS, "%s: the record of the mix cannot be read", mk->job.dir);
    }
    if (rc == 0 && (reuse || !make_counts(mk))) rc = add_recorded(mk, result, text, e);
    cJSON_Delete(result);
    candidate_release(&k);
    step_release(&s);
    free(name);
    free(label);
    return rc;
}

int make_mix(struct make *mk, struct err *e) {
    char hash[33];
    if (!mk->budget.n) return 0;
    if (!mk->plan.mixes) {
        log_warn("no mixes of --budget sizes are made: --time is too short");
        return 0;
    }
    char *path = job_path(&mk->job, MAKE_SENSITIVITY);
    int rc = job_file_hash(&mk->job, path, hash, e);
    for (int i = 0; i < mk->budget.n && rc == 0; i++) {
        uint64_t budget;
        rc = size_parse(mk->budget.v[i], "--budget", &budget, e);
        if (rc == 0) rc = make_budget(mk, mk->budget.v[i], budget, path, hash, e);
    }
    free(path);
    return rc;
}
