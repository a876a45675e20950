// SPDX-License-Identifier: MIT
/* mix/sens_file.c - reader and writer of sensitivity files (docs/formats/sensitivity.md). */
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/doc.h"
#include "base/io.h"
#include "mix/joint.h"
#include "base/limits.h"

static const char format[] = "hone-sensitivity";
enum { VERSION = 1 };

/* ---- writing --------------------------------------------------------------------------------- */

/* Writes one group with its errors, probes and steps. */
static void put_group(cJSON *groups, const struct sens_group *g, const struct gguf *gf) {
    cJSON *o = doc_obj(groups, NULL);
    doc_put_str(o, "name", g->name);
    doc_put_str(o, "role", role_name(g->role));
    doc_put_i64(o, "block", g->block);
    doc_put_i64(o, "n_weights", g->n_weights);
    cJSON *list = doc_arr(o, "tensors");
    for (int i = 0; i < g->n_items; i++)
        doc_put_str(list, NULL, gguf_tensor_at(gf, g->item[i])->name);
    cJSON *error = doc_obj(o, "error");
    for (int t = 0; t < QT_COUNT; t++)
        if (g->can[t] && g->err[t] >= 0) doc_put_num(error, qtype_name((enum qtype)t), g->err[t]);
    if (g->slope > 0) doc_put_num(o, "slope", g->slope);
    if (g->joint_type != SENS_NOT_JOINT) doc_put_str(o, "joint_type", qtype_name(g->joint_type));
    list = doc_arr(o, "probes");
    for (int i = 0; i < g->n_probes; i++) {
        cJSON *row = doc_obj(list, NULL);
        doc_put_str(row, "type", qtype_name(g->probe[i].type));
        doc_put_num(row, "kld", g->probe[i].kld);
        doc_put_num(row, "kld_stderr", g->probe[i].kld_stderr);
        if (g->probe[i].n_windows > 0) doc_put_i64(row, "n_chunks", g->probe[i].n_windows);
    }
    list = doc_arr(o, "steps");
    for (int i = 0; i < g->n_steps; i++) {
        cJSON *row = doc_obj(list, NULL);
        doc_put_i64(row, "budget_bytes", (int64_t)g->step[i].budget);
        doc_put_str(row, "from", qtype_name(g->step[i].from));
        doc_put_str(row, "to", qtype_name(g->step[i].to));
        doc_put_num(row, "kld_difference", g->step[i].diff);
        doc_put_num(row, "kld_difference_stderr", g->step[i].diff_stderr);
    }
}

static void put_joint(cJSON *list, const struct sens *s) {
    for (int i = 0; i < s->n_joint; i++) {
        const struct sens_joint *j = &s->joint[i];
        cJSON *row = doc_obj(list, NULL);
        if (j->role != ROLE_OTHER) doc_put_str(row, "role", role_name(j->role));
        if (j->block != SENS_EVERY) doc_put_i64(row, "block", j->block);
        doc_put_num(row, "kld", j->kld);
        doc_put_num(row, "kld_stderr", j->kld_stderr);
        if (j->n_windows > 0) doc_put_i64(row, "n_chunks", j->n_windows);
    }
}

int sens_write(const struct sens *s, const struct gguf *g, const char *path, bool overwrite,
               struct err *e) {
    cJSON *root = doc_new();
    doc_put_str(root, "format", format);
    doc_put_i64(root, "version", VERSION);
    cJSON *model = doc_obj(root, "model");
    doc_put_str(model, "file", io_base(gguf_path(g)));
    doc_put_i64(model, "size_bytes", (int64_t)s->model_bytes);
    doc_put_str(model, "header_xxh128", s->header_hash);
    doc_put_str(root, "imatrix_xxh128", s->imatrix_hash);
    doc_put_str(root, "search", search_name(s->search));
    doc_put_str(root, "probe_xxh128", s->probe_hash);
    doc_put_i64(root, "ctx", s->ctx);
    doc_put_i64(root, "n_chunks", s->n_chunks);
    if (s->n_joint) put_joint(doc_arr(root, "joint"), s);
    cJSON *groups = doc_arr(root, "groups");
    for (int i = 0; i < s->n_groups; i++) put_group(groups, &s->group[i], g);
    const int rc = doc_write(root, path, overwrite, e);
    cJSON_Delete(root);
    return rc;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Copies a hash, or "" if it is missing. */
static void take_hash(char out[33], const cJSON *root, const char *name) {
    const char *s = doc_str(root, name);
    snprintf(out, 33, "%s", s ? s : "");
}

/* Parses the type of a probe. ERR_DATA: the group cannot have this type. */
static int take_type(const cJSON *j, const struct sens_group *g, enum qtype *t, const char *path,
                     struct err *e) {
    const char *name = cJSON_GetStringValue(j);
    if (!name || !qtype_parse(name, t) || !g->can[*t])
        return err_set(e, ERR_DATA, "%s: group %s: '%s' is not a type its tensors can have", path,
                       g->name, name ? name : "?");
    return 0;
}

/* Returns whether v is finite, at least `least`, and below 1e12. */
static bool usable(double v, double least) {
    return isfinite(v) && v >= least && v < 1e12;
}

/* Reads the errors of the group's types. */
static int read_errors(struct sens_group *g, const cJSON *j, const char *path, struct err *e) {
    const cJSON *errors = doc_get(j, "error");
    if (errors && !cJSON_IsObject(errors))
        return err_set(e, ERR_DATA, "%s: group %s: \"error\" is not an object of types and numbers",
                       path, g->name);
    for (const cJSON *m = doc_first(errors); m; m = m->next) {
        enum qtype t;
        double v = cJSON_GetNumberValue(m);
        /* a type from a later version */
        if (!qtype_parse(m->string, &t) || !(g->can[t] || t == sens_spare())) continue;
        if (!usable(v, 0))
            return err_set(e, ERR_DATA, "%s: group %s: the error of %s is not a number >= 0", path,
                           g->name, m->string);
        g->err[t] = v;
        g->can[t] = true;
    }
    return 0;
}

/* Reads slope, probes and steps of the group. */
static int read_measured(struct sens_group *g, const cJSON *j, const char *path, struct err *e) {
    g->slope = doc_num(j, "slope", 0);
    if (!usable(g->slope, 0))
        return err_set(e, ERR_DATA, "%s: group %s: the slope is not a number >= 0", path, g->name);
    g->joint_type = SENS_NOT_JOINT;
    if (doc_get(j, "joint_type"))
        TRY(take_type(doc_get(j, "joint_type"), g, &g->joint_type, path, e));
    for (const cJSON *m = doc_first(doc_get(j, "probes")); m; m = m->next) {
        struct sens_probe p = {.kld = doc_num(m, "kld", -1),
                               .kld_stderr = doc_num(m, "kld_stderr", 0)};
        (void)doc_i64(m, "n_chunks", &p.n_windows);
        TRY(take_type(doc_get(m, "type"), g, &p.type, path, e));
        if (!usable(p.kld, 0) || !usable(p.kld_stderr, 0))
            return err_set(e, ERR_DATA, "%s: group %s: a probe's divergence is not a number >= 0",
                           path, g->name);
        if (g->n_probes < SENS_MAX_PROBES) g->probe[g->n_probes++] = p;
    }
    for (const cJSON *m = doc_first(doc_get(j, "steps")); m; m = m->next) {
        struct sens_step t = {.diff = doc_num(m, "kld_difference", (double)NAN),
                              .diff_stderr = doc_num(m, "kld_difference_stderr", -1)};
        int64_t budget;
        TRY(take_type(doc_get(m, "from"), g, &t.from, path, e));
        TRY(take_type(doc_get(m, "to"), g, &t.to, path, e));
        if (!doc_i64(m, "budget_bytes", &budget) || budget < 1 || !usable(fabs(t.diff), 0) ||
            !usable(t.diff_stderr, 0))
            return err_set(e, ERR_DATA, "%s: group %s: a step has invalid numbers", path, g->name);
        t.budget = (uint64_t)budget;
        if (g->n_steps < SENS_MAX_STEPS) g->step[g->n_steps++] = t;
    }
    return 0;
}

/* Reads the joint probes, which must all be different. */
static int read_joint(struct sens *s, const cJSON *root, const char *path, struct err *e) {
    s->n_joint = 0;
    for (const cJSON *m = doc_first(doc_get(root, "joint")); m; m = m->next) {
        struct sens_joint j = {.role = ROLE_OTHER,
                               .kld = doc_num(m, "kld", -1),
                               .kld_stderr = doc_num(m, "kld_stderr", 0)};
        const char *role = doc_str(m, "role");
        int64_t block = SENS_EVERY;
        (void)doc_i64(m, "n_chunks", &j.n_windows);
        for (int r = ROLE_OTHER + 1; role && r < ROLE_COUNT; r++)
            if (strcmp(role, role_name((enum role)r)) == 0) j.role = (enum role)r;
        if ((role && j.role == ROLE_OTHER) ||
            (doc_get(m, "block") && (!doc_i64(m, "block", &block) || block < -1)) ||
            block > INT_MAX || !usable(j.kld, 0) || !usable(j.kld_stderr, 0) ||
            s->n_joint == SENS_MAX_JOINT)
            return err_set(e, ERR_DATA,
                           "%s: \"joint\": entry %d has a role, block or divergence that is not "
                           "usable",
                           path, s->n_joint + 1);
        j.block = (int)block;
        if (joint_known(s, &j))
            return err_set(e, ERR_DATA, "%s: \"joint\": entry %d repeats an earlier one", path,
                           s->n_joint + 1);
        s->joint[s->n_joint++] = j;
    }
    return 0;
}

/* Returns the group with this name and size; NULL: none. */
static struct sens_group *find(struct sens *s, const char *name, int64_t n_weights) {
    for (int i = 0; name && i < s->n_groups; i++)
        if (strcmp(s->group[i].name, name) == 0 && s->group[i].n_weights == n_weights)
            return &s->group[i];
    return NULL;
}

/* Reads all groups, which must be those of the model. */
static int read_root(struct sens *s, const cJSON *root, const char *path, struct err *e) {
    int n = 0;
    if (!doc_is(root, "format", format) || doc_num(root, "version", 0) != VERSION)
        return err_set(e, ERR_DATA, "%s: not a sensitivity file of version %d", path, VERSION);
    if (!doc_is(doc_get(root, "model"), "header_xxh128", s->header_hash))
        return err_set(e, ERR_DATA,
                       "%s: measured on another model; run hone sensitivity on this one", path);
    take_hash(s->imatrix_hash, root, "imatrix_xxh128");
    take_hash(s->probe_hash, root, "probe_xxh128");
    const char *search = doc_str(root, "search");
    for (int k = SEARCH_FAST; search && k <= SEARCH_CONVENTIONAL; k++)
        if (strcmp(search, search_name((enum search)k)) == 0) s->search = (enum search)k;
    if (!doc_i64(root, "ctx", &s->ctx)) s->ctx = 0;
    if (!doc_i64(root, "n_chunks", &s->n_chunks)) s->n_chunks = 0;
    TRY(read_joint(s, root, path, e));
    for (const cJSON *j = doc_first(doc_get(root, "groups")); j; j = j->next) {
        int64_t w = 0;
        const char *name = doc_str(j, "name");
        struct sens_group *g = doc_i64(j, "n_weights", &w) ? find(s, name, w) : NULL;
        if (!g)
            return err_set(e, ERR_DATA, "%s: the model has no group %s of %" PRId64 " weights",
                           path, name ? name : "?", w);
        if (g->n_probes || g->n_steps)
            return err_set(e, ERR_DATA, "%s: group %s appears twice", path, name);
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
    cJSON *root = NULL;
    TRY(doc_read(&root, path, limit_of(LIM_SENSITIVITY), e));
    for (int i = 0; i < s->n_groups; i++) {
        s->group[i].n_probes = s->group[i].n_steps = 0;
        s->group[i].slope = 0;
        for (int t = 0; t < QT_COUNT; t++) s->group[i].err[t] = -1;
    }
    int rc = read_root(s, root, path, e);
    if (!rc) joint_fit(s);
    cJSON_Delete(root);
    return rc;
}
