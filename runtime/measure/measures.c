// SPDX-License-Identifier: MIT
/* runtime/measure/measures.c - samples to JSON and back, and paired comparison. */
#include "runtime/measure/measures.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/printable.h"
#include "runtime/measure/internal.h"

enum { MAX_FILE = 256 << 20, FORMAT = 1 };

struct measure *measures_add(struct measures *ms, const char *name, const char *group,
                             const char *input, bool less_is_better, int64_t n) {
    ms->m = xreallocarray(ms->m, (size_t)ms->n + 1, sizeof *ms->m);
    struct measure *m = &ms->m[ms->n++];
    *m = (struct measure){.less_is_better = less_is_better, .n = n};
    snprintf(m->name, sizeof m->name, "%s", name);
    snprintf(m->group, sizeof m->group, "%.63s", show_n(group, strlen(group)).s);
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

void measures_json(const struct measures *ms, struct buf *out) {
    struct jw w;
    jw_init(&w, out, true);
    jw_obj(&w, NULL);
    jw_i64(&w, "hone_eval_suite", FORMAT);
    jw_str(&w, "hone_version", HONE_VERSION);
    jw_str(&w, "model", ms->model);
    jw_arr(&w, "measures");
    for (int i = 0; i < ms->n; i++) {
        const struct measure *m = &ms->m[i];
        double mean, u;
        measure_mean(m, &mean, &u);
        jw_obj(&w, NULL);
        jw_str(&w, "measure", m->name);
        jw_str(&w, "group", m->group);
        jw_str(&w, "input_xxh128", m->input);
        jw_str(&w, "better", m->less_is_better ? "less" : "more");
        jw_i64(&w, "n", m->n);
        jw_num(&w, "value", mean);
        jw_num(&w, "stderr", u);
        struct buf list = {0}; /* They go on one line, since there are hundreds. */
        buf_chr(&list, '[');
        for (int64_t k = 0; k < m->n; k++) buf_fmt(&list, "%s%.9g", k ? "," : "", m->sample[k]);
        buf_chr(&list, ']');
        jw_raw(&w, "samples", list.data);
        buf_release(&list);
        jw_end(&w);
    }
    jw_end(&w);
    jw_end(&w);
    buf_chr(out, '\n');
}

static int read_one(struct measures *ms, const struct json *j, const char *path, struct err *e) {
    const char *name = json_str(json_get(j, "measure")), *group = json_str(json_get(j, "group")),
               *input = json_str(json_get(j, "input_xxh128")),
               *better = json_str(json_get(j, "better"));
    const struct json *list = json_get(j, "samples");
    if (!name || !group || !input || strlen(input) != 32 || !better || json_type(list) != JSON_ARR)
        return err_set(e, ERR_DATA, "%s: measure %d is not whole", path, ms->n + 1);
    struct measure *m =
        measures_add(ms, name, group, "", strcmp(better, "less") == 0, json_len(list));
    memcpy(m->input, input, sizeof m->input);
    int64_t k = 0;
    for (const struct json *x = json_first(list); x; x = json_next(x)) {
        m->sample[k] = json_num(x, (double)NAN);
        if (!isfinite(m->sample[k++]))
            return err_set(e, ERR_DATA, "%s: a sample of %s is no number", path, m->name);
    }
    return 0;
}

int measures_read(struct measures *ms, const char *path, struct err *e) {
    struct json *root;
    memset(ms, 0, sizeof *ms);
    TRY(json_read(&root, path, MAX_FILE, e));
    int rc = 0;
    if (json_num(json_get(root, "hone_eval_suite"), 0) != FORMAT)
        rc = err_set(e, ERR_DATA, "%s: not a result of hone eval suite", path);
    const char *model = json_str(json_get(root, "model"));
    ms->model = xstrdup(model ? model : "?");
    for (const struct json *j = json_first(json_get(root, "measures")); j && !rc; j = json_next(j))
        rc = read_one(ms, j, path, e);
    json_free(root);
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
    /* All of a few samples can lie on one side by chance. */
    bool clear = a->n >= MEASURE_MIN && (c.lo > 0 || c.hi < 0);
    out->verdict = !clear ? 0 : (c.mean < 0) == a->less_is_better ? -1 : 1;
    free(d);
    free(one);
}
