// SPDX-License-Identifier: MIT
/* mix/sens_file.c - sensitivity files, docs/formats/sensitivity.md. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/out.h"
#include "base/json.h"
#include "mix/sens.h"
#include "base/limits.h"

static const char format[] = "hone-sensitivity";
enum { VERSION = 1 };

/* ---- writing --------------------------------------------------------------------------------- */

static void write_group(struct jw *w, const struct sens_group *g, const struct gguf *gf) {
    jw_obj(w, NULL);
    jw_str(w, "name", g->name);
    jw_str(w, "role", role_name(g->role));
    jw_i64(w, "block", g->block);
    jw_i64(w, "n_weights", g->n_weights);
    jw_arr(w, "tensors");
    for (int i = 0; i < g->n_items; i++) jw_str(w, NULL, gguf_tensor_at(gf, g->item[i])->name);
    jw_end(w);
    jw_obj(w, "error");
    for (int t = 0; t < QT_COUNT; t++)
        if (g->can[t] && g->err[t] >= 0) jw_num(w, qtype_name((enum qtype)t), g->err[t]);
    jw_end(w);
    if (g->slope > 0) jw_num(w, "slope", g->slope);
    jw_arr(w, "probes");
    for (int i = 0; i < g->n_probes; i++) {
        jw_obj(w, NULL);
        jw_str(w, "type", qtype_name(g->probe[i].type));
        jw_num(w, "kld", g->probe[i].kld);
        jw_num(w, "kld_stderr", g->probe[i].kld_stderr);
        jw_end(w);
    }
    jw_end(w);
    jw_arr(w, "steps");
    for (int i = 0; i < g->n_steps; i++) {
        jw_obj(w, NULL);
        jw_u64(w, "budget_bytes", g->step[i].budget);
        jw_str(w, "from", qtype_name(g->step[i].from));
        jw_str(w, "to", qtype_name(g->step[i].to));
        jw_num(w, "kld_difference", g->step[i].diff);
        jw_num(w, "kld_difference_stderr", g->step[i].diff_stderr);
        jw_end(w);
    }
    jw_end(w);
    jw_end(w);
}

int sens_write(const struct sens *s, const struct gguf *g, const char *path, bool overwrite,
               struct err *e) {
    struct buf b = {0};
    struct jw w;
    jw_init(&w, &b, true);
    jw_obj(&w, NULL);
    jw_str(&w, "format", format);
    jw_i64(&w, "version", VERSION);
    jw_obj(&w, "model");
    jw_str(&w, "file", io_base(gguf_path(g)));
    jw_u64(&w, "size_bytes", s->model_bytes);
    jw_str(&w, "header_xxh128", s->header_hash);
    jw_end(&w);
    jw_str(&w, "imatrix_xxh128", s->imatrix_hash);
    jw_str(&w, "search", search_name(s->search));
    jw_str(&w, "probe_xxh128", s->probe_hash);
    jw_i64(&w, "ctx", s->ctx);
    jw_i64(&w, "n_chunks", s->n_chunks);
    jw_arr(&w, "groups");
    for (int i = 0; i < s->n_groups; i++) write_group(&w, &s->group[i], g);
    jw_end(&w);
    jw_end(&w);
    buf_str(&b, "\n");
    int rc = out_write_file(path, b.data, b.len, overwrite, e);
    buf_release(&b);
    return rc;
}

/* ---- reading --------------------------------------------------------------------------------- */

static void take_hash(char out[33], const struct json *j) {
    const char *s = json_str(j);
    snprintf(out, 33, "%s", s ? s : "");
}

static int take_type(const struct json *j, const struct sens_group *g, enum qtype *t,
                     const char *path, struct err *e) {
    const char *name = json_str(j);
    if (!name || !qtype_parse(name, t) || !g->can[*t])
        return err_set(e, ERR_DATA, "%s: group %s: '%s' is not a type its tensors can have", path,
                       g->name, name ? name : "?");
    return 0;
}

static bool usable(double v, double least) {
    return isfinite(v) && v >= least && v < 1e12;
}

static int read_errors(struct sens_group *g, const struct json *j, const char *path,
                       struct err *e) {
    const struct json *errors = json_get(j, "error");
    if (errors && json_type(errors) != JSON_OBJ)
        return err_set(e, ERR_DATA, "%s: group %s: \"error\" is not an object of types and numbers",
                       path, g->name);
    for (const struct json *m = json_first(errors); m; m = json_next(m)) {
        enum qtype t;
        double v = json_num(m, -1);
        /* The type is one of a later version. */
        if (!qtype_parse(json_name(m), &t) || !g->can[t]) continue;
        if (!usable(v, 0))
            return err_set(e, ERR_DATA, "%s: group %s: the error of %s is not a number >= 0", path,
                           g->name, json_name(m));
        g->err[t] = v;
    }
    return 0;
}

static int read_measured(struct sens_group *g, const struct json *j, const char *path,
                         struct err *e) {
    g->slope = json_num(json_get(j, "slope"), 0);
    if (!usable(g->slope, 0))
        return err_set(e, ERR_DATA, "%s: group %s: the slope is not a number >= 0", path, g->name);
    for (const struct json *m = json_first(json_get(j, "probes")); m; m = json_next(m)) {
        struct sens_probe p = {.kld = json_num(json_get(m, "kld"), -1),
                               .kld_stderr = json_num(json_get(m, "kld_stderr"), 0)};
        TRY(take_type(json_get(m, "type"), g, &p.type, path, e));
        if (!usable(p.kld, 0) || !usable(p.kld_stderr, 0))
            return err_set(e, ERR_DATA, "%s: group %s: a probe's divergence is not a number >= 0",
                           path, g->name);
        if (g->n_probes < SENS_MAX_PROBES) g->probe[g->n_probes++] = p;
    }
    for (const struct json *m = json_first(json_get(j, "steps")); m; m = json_next(m)) {
        struct sens_step t = {.diff = json_num(json_get(m, "kld_difference"), (double)NAN),
                              .diff_stderr = json_num(json_get(m, "kld_difference_stderr"), -1)};
        int64_t budget;
        TRY(take_type(json_get(m, "from"), g, &t.from, path, e));
        TRY(take_type(json_get(m, "to"), g, &t.to, path, e));
        if (!json_i64(json_get(m, "budget_bytes"), &budget) || budget < 1 ||
            !usable(fabs(t.diff), 0) || !usable(t.diff_stderr, 0))
            return err_set(e, ERR_DATA, "%s: group %s: a step's numbers are not usable", path,
                           g->name);
        t.budget = (uint64_t)budget;
        if (g->n_steps < SENS_MAX_STEPS) g->step[g->n_steps++] = t;
    }
    return 0;
}

static struct sens_group *find(struct sens *s, const char *name, int64_t n_weights) {
    for (int i = 0; name && i < s->n_groups; i++)
        if (strcmp(s->group[i].name, name) == 0 && s->group[i].n_weights == n_weights)
            return &s->group[i];
    return NULL;
}

static int read_root(struct sens *s, const struct json *root, const char *path, struct err *e) {
    const char *f = json_str(json_get(root, "format"));
    const char *hash = json_str(json_get(json_get(root, "model"), "header_xxh128"));
    int n = 0;
    if (!f || strcmp(f, format) != 0 || json_num(json_get(root, "version"), 0) != VERSION)
        return err_set(e, ERR_DATA, "%s: not a sensitivity file of version %d", path, VERSION);
    if (!hash || strcmp(hash, s->header_hash) != 0)
        return err_set(e, ERR_DATA,
                       "%s: measured on another model than this one; run hone sensitivity on it",
                       path);
    take_hash(s->imatrix_hash, json_get(root, "imatrix_xxh128"));
    take_hash(s->probe_hash, json_get(root, "probe_xxh128"));
    const char *search = json_str(json_get(root, "search"));
    for (int k = SEARCH_FAST; search && k <= SEARCH_CONVENTIONAL; k++)
        if (strcmp(search, search_name((enum search)k)) == 0) s->search = (enum search)k;
    if (!json_i64(json_get(root, "ctx"), &s->ctx)) s->ctx = 0;
    if (!json_i64(json_get(root, "n_chunks"), &s->n_chunks)) s->n_chunks = 0;
    for (const struct json *j = json_first(json_get(root, "groups")); j; j = json_next(j)) {
        int64_t w = 0;
        const char *name = json_str(json_get(j, "name"));
        struct sens_group *g = json_i64(json_get(j, "n_weights"), &w) ? find(s, name, w) : NULL;
        if (!g)
            return err_set(e, ERR_DATA, "%s: the model has no group %s of %" PRId64 " weights",
                           path, name ? name : "?", w);
        if (g->n_probes || g->n_steps)
            return err_set(e, ERR_DATA, "%s: group %s is there twice", path, name);
        TRY(read_errors(g, j, path, e));
        TRY(read_measured(g, j, path, e));
        n++;
    }
    for (int i = 0; i < s->n_groups; i++) {
        bool any = false;
        for (int t = 0; t < QT_COUNT; t++) any |= s->group[i].can[t] && s->group[i].err[t] >= 0;
        if (!any)
            return err_set(e, ERR_DATA, "%s: no errors for group %s; run hone sensitivity again",
                           path, s->group[i].name);
    }
    return n == s->n_groups
               ? 0
               : err_set(e, ERR_DATA, "%s: %d groups, the model has %d", path, n, s->n_groups);
}

int sens_read(struct sens *s, const char *path, struct err *e) {
    struct json *root = NULL;
    TRY(json_read(&root, path, limit_of(LIM_SENSITIVITY), e));
    for (int i = 0; i < s->n_groups; i++) {
        s->group[i].n_probes = s->group[i].n_steps = 0;
        s->group[i].slope = 0;
        for (int t = 0; t < QT_COUNT; t++) s->group[i].err[t] = -1;
    }
    int rc = read_root(s, root, path, e);
    json_free(root);
    return rc;
}
