// SPDX-License-Identifier: MIT
/* mix/accept.c - acceptance test of a mix. A mix passes if its mean divergence is lower than that
 * of the best plain recipe that fits, by more than three paired standard errors, and its 99.9 %
 * divergence is not larger. */
#include "mix/accept.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calib/imatrix.h"
#include "work/device.h"
#include "runtime/measure/measurement_cache.h"
#include "runtime/measure/job.h"
#include "work/open.h"
#include "work/passes.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/os.h"
#include "base/out.h"
#include "quantize/recipe.h"
#include "quantize/record.h"
#include "runtime/measure/eval.h"

/* Returns the path, to be freed, of the file that this test quantizes with a recipe. */
static char *plain_path(const struct gate *g, const char *recipe) {
    return xasprintf("%splain-%s.gguf", g->prefix, recipe);
}

/* Returns the options for a dry run of a recipe. */
static struct quantize_opts plain_dry(const struct gate *g, const char *recipe) {
    return (struct quantize_opts){.in = g->base,
                                  .tmpl = g->tmpl,
                                  .recipe = recipe,
                                  .imatrix = g->imatrix,
                                  .gram = g->gram,
                                  .dry_run = true,
                                  .want_rows = true,
                                  .search = g->search,
                                  .pool = g->w->pool};
}

/* Sets *bytes to the size of a recipe's file, or to UINT64_MAX if the card cannot hold it. */
static int plain_size(const struct gate *g, const char *recipe, uint64_t *bytes, struct err *e) {
    const struct quantize_opts o = plain_dry(g, recipe);
    struct quantize_report r;
    TRY(quantize_run(&o, &r, e));
    *bytes = r.file_bytes;
    if (g->device_room && mixer_device_bytes(g->mixer, &r) > g->device_room) *bytes = UINT64_MAX;
    quantize_report_release(&r);
    return 0;
}

/* Adds a recipe to the comparison, unless its file cannot be made: it may be too coarse for a
 * tensor without importance, which a dry run does not check. */
static int add_plain(struct gate *g, const struct gate_plain *p, struct err *e) {
    struct quantize_opts o = plain_dry(g, p->name);
    struct err why;
    char *path = plain_path(g, p->name);
    o.out = path;
    o.overwrite = o.known_gaps = true;
    o.dry_run = false;
    const int rc = quantize_check(&o, &why);
    free(path);
    if (!rc) g->plain[g->n++] = *p;
    if (rc == ERR_USAGE) /* without its remedy */
        log_info("%s is not compared with the mix: %.*s", p->name, (int)strcspn(why.msg, ";"),
                 why.msg);
    if (!rc || rc == ERR_USAGE) return 0;
    *e = why;
    return rc;
}

int gate_find(struct gate *g, uint64_t budget, struct err *e) {
    int n = 0, n_fit = 0, rc = 0;
    while (recipe_name(n)) n++;
    struct gate_plain *fit = xcalloc((size_t)n + 1, sizeof *fit); /* the largest first */
    g->best = -1;
    for (int i = 0; i < n && !rc; i++) {
        struct gate_plain p = {.name = recipe_name(i)};
        if (qtype_info(recipe_default(p.name))->flags & QF_FLOAT) continue;
        rc = plain_size(g, p.name, &p.bytes, e);
        if (rc || p.bytes > budget) continue;
        int at = n_fit++;
        for (; at > 0 && fit[at - 1].bytes < p.bytes; at--) fit[at] = fit[at - 1];
        fit[at] = p;
    }
    for (int i = 0; i < n_fit && g->n < GATE_PLAIN && !rc; i++) rc = add_plain(g, &fit[i], e);
    free(fit);
    return rc;
}

/* Quantizes the plain recipes for comparison that do not exist yet. Replaces only files that hone
 * quantize wrote, unless -f was given. */
static int make_missing(struct gate *g, struct err *e) {
    for (int i = 0; i < g->n; i++) {
        struct gate_plain *p = &g->plain[i];
        struct quantize_report r;
        if (p->path) continue;
        p->path = plain_path(g, p->name);
        TRY(out_check(p->path, g->w->overwrite || record_in(p->path), e));
        p->ours = true;
        struct quantize_opts o = {.in = g->base,
                                  .tmpl = g->tmpl,
                                  .out = p->path,
                                  .recipe = p->name,
                                  .imatrix = g->imatrix,
                                  .known_gaps = true, /* the mix has already warned */
                                  .gram = g->gram,
                                  .overwrite = true,
                                  .search = g->search,
                                  .pool = g->w->pool};
        o.device = device_quantize(g->w);
        if (!g->encode) log_info("quantizing %s, for comparison with the mix", p->name);
        TRY(g->encode ? g->encode(g->encode_ctx, p->name, &o, e) : quantize_run(&o, &r, e));
    }
    return 0;
}

/* Compares the mix with the plain recipe that has the least divergence, and sets passed and why. */
static void judge(struct gate *g, const struct eval_kld_run *r) {
    struct eval_kld mix, k[GATE_PLAIN] = {0};
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
    snprintf(
        g->why, sizeof g->why,
        "mean KLD %.6f against %.6f for %s (paired difference %+.6f +- %.6f), 99.9 %% KLD %.5f "
        "against %.5f%s",
        mix.mean_kld, b->mean_kld, g->plain[g->best].name, d.diff, d.stderr_, mix.kld_p999,
        b->kld_p999,
        g->passed ? ""
        : better  ? ": its 99.9 % KLD is larger"
                  : ": not lower by more than three standard errors");
}

/* Compares the mix with the plain recipes on the texts and decides whether to accept it. */
static int compare(struct gate *g, const char *mix, struct err *e) {
    struct model *m[GATE_PLAIN + 2] = {0};
    struct session *s[GATE_PLAIN + 2] = {0};
    struct ids ids = {0};
    struct kept_of kept = {0};
    struct eval_kld_run r;
    int rc = 0, n = g->n + 2;
    for (int i = 0; i < n && !rc; i++)
        rc = open_model(g->w, &m[i], i == 0 ? g->base : i == 1 ? mix : g->plain[i - 2].path, e);
    if (!rc) rc = device_sessions(g->w, m, n, g->ctx, s, e);
    for (int i = 0; i < g->texts.n && !rc; i++)
        rc = corpus_load(m[0], g->texts.v[i], true, &ids, e);
    if (!rc) eval_spread_chunks(&ids, g->ctx, g->chunks);
    const struct eval_domain all = {.name = "", .ids = ids.v, .n_ids = ids.n};
    for (int i = 1; i < n && !rc; i++) kept_pair(&kept, g->w->kept, s[0], NULL, NULL, s[i], NULL);
    const struct eval_kld_job job = {.base = s[0],
                                     .cand = s + 1,
                                     .n_cand = n - 1,
                                     .domain = &all,
                                     .n_domains = 1,
                                     .ctx = g->ctx,
                                     .max_chunks = g->chunks,
                                     .from = -1,
                                     .keep = kept.of};
    if (!rc) rc = eval_kld_open(&job, &r, e);
    if (!rc) {
        judge(g, &r);
        eval_kld_close(&r);
    }
    kept_release(&kept);
    ids_release(&ids);
    for (int i = 0; i < n; i++) {
        session_free(s[i]);
        model_close(m[i]);
    }
    return rc;
}

int gate_judge(struct gate *g, const char *mix, struct err *e) {
    g->best = -1;
    g->passed = true;
    snprintf(g->why, sizeof g->why, "no plain recipe is as small");
    TRY(make_missing(g, e));
    return g->n ? compare(g, mix, e) : 0;
}

void gate_release(struct gate *g) {
    for (int i = 0; i < g->n; i++) {
        if (g->plain[i].ours && g->plain[i].path && !g->keep) os_unlink(g->plain[i].path);
        free(g->plain[i].path);
    }
    g->n = 0;
}
