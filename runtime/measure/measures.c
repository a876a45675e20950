// SPDX-License-Identifier: MIT
/* runtime/measure/measures.c - JSON form of samples, and their paired comparison. */
#include "runtime/measure/measures.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/doc.h"
#include "base/json.h"
#include "base/mem.h"
#include "runtime/measure/internal.h"

enum { MAX_FILE = 256 << 20, FORMAT = 1 };

/* Copies a name, as many whole UTF-8 characters as fit. Other bytes and control characters become
 * '?'. */
static void put_group(char to[64], const char *name) {
    size_t n = strlen(name), at = 0;
    for (size_t i = 0; i < n;) {
        const int len = json_utf8((const unsigned char *)name + i, n - i);
        const size_t step = len > 0 ? (size_t)len : 1;
        if (at + step > 63) break;
        memcpy(to + at, name + i, step);
        if (len < 1 || (unsigned char)name[i] < 0x20 || name[i] == 0x7f) to[at] = '?';
        at += step;
        i += step;
    }
    to[at] = 0;
}

struct measure *measures_add(struct measures *ms, const char *name, const char *group,
                             const char *input, bool less_is_better, int64_t n) {
    ms->m = xreallocarray(ms->m, (size_t)ms->n + 1, sizeof *ms->m);
    struct measure *m = &ms->m[ms->n++];
    *m = (struct measure){.less_is_better = less_is_better, .n = n};
    snprintf(m->name, sizeof m->name, "%s", name);
    put_group(m->group, group);
    hash_xxh128_hex(m->input, input, strlen(input));
    m->sample = xcalloc((size_t)n + 1, sizeof *m->sample);
    return m;
}

void measures_release(struct measures *ms) {
    for (int i = 0; i < ms->n; i++) free(ms->m[i].sample);
    free(ms->m);
    free(ms->model);
    memset(ms, 0, sizeof *ms);
}

void measure_mean(const struct measure *m, double *mean, double *stderr_out) {
    double s = 0, s2 = 0, n = (double)m->n;
    for (int64_t i = 0; i < m->n; i++) s += m->sample[i];
    *mean = m->n ? s / n : (double)NAN;
    for (int64_t i = 0; i < m->n; i++) s2 += (m->sample[i] - *mean) * (m->sample[i] - *mean);
    *stderr_out = m->n > 1 ? sqrt(s2 / (n * (n - 1))) : 0;
}

int measures_write(const struct measures *ms, const char *path, bool overwrite, struct err *e) {
    cJSON *root = doc_new();
    doc_put_i64(root, "hone_eval_suite", FORMAT);
    doc_put_str(root, "hone_version", HONE_VERSION);
    doc_put_str(root, "model", ms->model);
    cJSON *rows = doc_arr(root, "measures");
    for (int i = 0; i < ms->n; i++) {
        const struct measure *m = &ms->m[i];
        double mean, u;
        measure_mean(m, &mean, &u);
        cJSON *row = doc_obj(rows, NULL);
        doc_put_str(row, "measure", m->name);
        doc_put_str(row, "group", m->group);
        doc_put_str(row, "input_xxh128", m->input);
        doc_put_str(row, "better", m->less_is_better ? "less" : "more");
        doc_put_i64(row, "n", m->n);
        doc_put_num(row, "value", mean);
        doc_put_num(row, "stderr", u);
        cJSON *samples = doc_arr(row, "samples");
        for (int64_t k = 0; k < m->n; k++) doc_put_num(samples, NULL, m->sample[k]);
    }
    const int rc = doc_write(root, path, overwrite, e);
    cJSON_Delete(root);
    return rc;
}

/* Reads one measure of a result file. ERR_DATA: malformed. */
static int read_one(struct measures *ms, const cJSON *j, const char *path, struct err *e) {
    const char *name = doc_str(j, "measure"), *group = doc_str(j, "group"),
               *input = doc_str(j, "input_xxh128"), *better = doc_str(j, "better");
    const cJSON *list = doc_get(j, "samples");
    if (!name || !group || !input || strlen(input) != 32 || !better || !cJSON_IsArray(list))
        return err_set(e, ERR_DATA, "%s: measure %d is incomplete", path, ms->n + 1);
    struct measure *m =
        measures_add(ms, name, group, "", strcmp(better, "less") == 0, cJSON_GetArraySize(list));
    memcpy(m->input, input, sizeof m->input);
    int64_t k = 0;
    for (const cJSON *x = doc_first(list); x; x = x->next) {
        m->sample[k] = cJSON_GetNumberValue(x);
        if (!isfinite(m->sample[k++]))
            return err_set(e, ERR_DATA, "%s: a sample of %s is not a number", path, m->name);
    }
    return 0;
}

int measures_read(struct measures *ms, const char *path, struct err *e) {
    cJSON *root;
    memset(ms, 0, sizeof *ms);
    TRY(doc_read(&root, path, MAX_FILE, e));
    int rc = 0;
    if (doc_num(root, "hone_eval_suite", 0) != FORMAT)
        rc = err_set(e, ERR_DATA, "%s: not a result of hone eval suite", path);
    const char *model = doc_str(root, "model");
    ms->model = xstrdup(model ? model : "?");
    for (const cJSON *j = doc_first(doc_get(root, "measures")); j && !rc; j = j->next)
        rc = read_one(ms, j, path, e);
    cJSON_Delete(root);
    if (rc) measures_release(ms);
    return rc;
}

const struct measure *measures_match(const struct measures *b, const struct measure *of) {
    for (int i = 0; i < b->n; i++) {
        const struct measure *m = &b->m[i];
        if (strcmp(m->name, of->name) == 0 && strcmp(m->group, of->group) == 0 &&
            strcmp(m->input, of->input) == 0 && m->n == of->n)
            return m;
    }
    return NULL;
}

void measure_compare(const struct measure *a, const struct measure *b, struct measure_pair *out) {
    double *d = xcalloc((size_t)a->n + 1, sizeof *d), ignored;
    int64_t *one = xcalloc((size_t)a->n + 1, sizeof *one);
    struct cluster c = {0, 0, 0, 0};
    for (int64_t i = 0; i < a->n; i++) {
        d[i] = a->sample[i] - b->sample[i];
        one[i] = 1;
    }
    if (a->n) eval_cluster(d, one, a->n, &c);
    *out = (struct measure_pair){.diff = c.mean, .stderr_ = c.stderr_, .lo = c.lo, .hi = c.hi};
    measure_mean(a, &out->a, &ignored);
    measure_mean(b, &out->b, &ignored);
    /* With few samples, all may be on one side by chance. */
    bool clear = a->n >= MEASURE_MIN && (c.lo > 0 || c.hi < 0);
    out->verdict = !clear ? 0 : (c.mean < 0) == a->less_is_better ? -1 : 1;
    free(d);
    free(one);
}
