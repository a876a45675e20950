// SPDX-License-Identifier: MIT
/* runtime/measure/job.c - opening of the models and reading of the inputs for a measurement. Models
 * are opened one after the other; two are in memory at the same time only for token-by-token
 * comparison. */
#include "runtime/measure/job.h"

#include <stdlib.h>
#include <string.h>

#include "calib/defaults.h"
#include "calib/imatrix.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/progress.h"
#include "runtime/measure/measurement_cache.h"
#include "work/device.h"
#include "work/open.h"
#include "runtime/engine/kv_type.h"
#include "runtime/measure/choices.h"
#include "runtime/measure/loop.h"
#include "runtime/measure/suite.h"
#include "runtime/generate/windows.h"
#include "text/textfile.h"
#include "work/passes.h"

const struct eval_args eval_text_usual = {
    .ctx = 512, .kv_type = KV_EXACT, .base_kv = KV_EXACT, .act = ACT_EXACT, .top = 256, .tail = 64};
const struct eval_args eval_answer_usual = {.kv_type = KV_EXACT, .act = ACT_EXACT};
const struct eval_args eval_speed_usual = {
    .pp = 512, .tg = 128, .reps = 5, .depths = "0", .kv_type = KV_USUAL, .act = ACT_FAST};
const struct choice_job eval_needle_usual = {.ctx = 4096, .n_depths = 5, .per_depth = 4};

int eval_session(struct work *w, const struct eval_args *a, struct model *m, const char *kv,
                 int64_t n_ctx, struct session **out, struct err *e) {
    struct session_opts o = {.n_ctx = n_ctx,
                             .n_ubatch = windows_rows(n_ctx),
                             .reread = passes_reread(gguf_file_bytes(m->gguf)),
                             .isa = w->isa,
                             .device = w->device,
                             .pack = true,
                             .pack_cache = w->pack_cache};
    TRY(kv_type_parse(kv, "--kv-type", &o.kv_k, &o.kv_v, e));
    if (a->kv_skip_type)
        TRY(kv_type_parse(a->kv_skip_type, "--kv-skip-type", &o.kv_edge_k, &o.kv_edge_v, e));
    o.kv_n_edge = a->kv_skip;
    TRY(act_parse(a->act, &o.act, e));
    TRY(work_pool(w, e));
    o.pool = w->pool;
    open_warn_context(w, m, n_ctx);
    return session_new(out, m, &o, e);
}

/* Compares sessions for qsort: larger files first, sessions of the same model adjacent. */
static int by_size(const void *x, const void *y) {
    const struct eval_opening *a = x, *b = y;
    const uint64_t na = gguf_file_bytes(a->m->gguf), nb = gguf_file_bytes(b->m->gguf);
    const uintptr_t pa = (uintptr_t)a->m, pb = (uintptr_t)b->m;
    return na != nb ? (na < nb) - (na > nb) : (pa > pb) - (pa < pb);
}

/* Opens a session on device d. */
static int open_on(struct work *w, const struct eval_opening *o, struct device d, int64_t n_ctx,
                   struct err *e) {
    const struct device chosen = w->device;
    w->device = d;
    const int rc = eval_session(w, o->a, o->m, o->kv, n_ctx, o->out, e);
    w->device = chosen;
    return rc;
}

/* Opens the last of n sessions within its share of a device or, if it needs more, with all that is
 * left. n_bytes and taken: as for device_share. */
static int open_last(struct work *w, const struct eval_opening *o, const uint64_t *n_bytes, int n,
                     const uint64_t taken[DEVICES], int64_t n_ctx, struct err *e) {
    const enum device_kind chosen = w->device.kind;
    if (chosen == DEVICE_CPU) return open_on(w, &o[n - 1], w->device, n_ctx, e);
    struct device d = device_share(w, n_bytes, n, taken);
    d.kind = DEVICE_CUDA;
    const int rc = n > 1 ? open_on(w, &o[n - 1], d, n_ctx, e) : ERR_SYS;
    if (!rc || (rc != ERR_SYS && chosen == DEVICE_CUDA)) return rc;
    d = device_share(w, n_bytes + n - 1, 1, taken);
    d.kind = chosen;
    return open_on(w, &o[n - 1], d, n_ctx, e);
}

int eval_sessions(struct work *w, struct eval_opening *o, int n, int64_t n_ctx, struct err *e) {
    TRY(work_pool(w, e)); /* which decides about the device */
    uint64_t taken[DEVICES] = {0}, *n_bytes = xcalloc((size_t)n + 1, sizeof *n_bytes);
    int rc = 0;
    qsort(o, (size_t)n, sizeof *o, by_size);
    for (int i = 0; i < n; i++)
        n_bytes[i] = i + 1 < n && o[i + 1].m == o[i].m ? 0 : gguf_file_bytes(o[i].m->gguf);
    for (int i = n; i > 0 && !rc; i--) {
        rc = open_last(w, o, n_bytes, i, taken, n_ctx, e);
        if (!rc) session_device_bytes(*o[i - 1].out, taken);
    }
    free(n_bytes);
    return rc;
}

int eval_model(const struct eval_args *a, const char *path, struct model **out, struct err *e) {
    TRY(model_open(out, path, e));
    return model_use_pre(*out, a->pre, e);
}

void eval_close_one(struct eval_loaded *l) {
    session_free(l->s);
    model_close(l->m);
    l->s = NULL;
    l->m = NULL;
}

int eval_open_one(struct work *w, const struct eval_args *a, const char *path, int64_t n_ctx,
                  struct eval_loaded *l, struct err *e) {
    const double t0 = progress_now_s();
    memset(l, 0, sizeof *l);
    int rc = eval_model(a, path, &l->m, e);
    if (!rc) rc = eval_session(w, a, l->m, a->kv_type, n_ctx, &l->s, e);
    l->seconds = progress_now_s() - t0;
    if (rc) eval_close_one(l);
    return rc;
}

int eval_load_text(const struct model *m, const char *path, struct ids *ids, struct err *e) {
    TRY(model_need_tok(m, e));
    return corpus_load(m, path, false, ids, e);
}

int eval_parse_list(const char *text, const char *what, int64_t out[EVAL_MAX_LIST], int *n,
                    struct err *e) {
    *n = 0;
    for (const char *p = text;;) {
        char *end;
        int64_t v = strtoll(p, &end, 10);
        if (end == p || v < 0 || (*end && *end != ',') || *n >= EVAL_MAX_LIST)
            return err_set(e, ERR_USAGE, "%s: '%s' is not a list of counts (0,4096)", what, text);
        out[(*n)++] = v;
        if (!*end) return 0;
        p = end + 1;
    }
}

int eval_check_model(const struct eval_args *a, const char *model, struct err *e) {
    struct model *m = NULL;
    int rc = eval_model(a, model, &m, e);
    if (!rc) rc = model_need_tok(m, e);
    model_close(m);
    return rc;
}

int eval_knows_calls(const struct eval_args *a, const char *model, bool *knows, struct err *e) {
    struct model *m = NULL;
    const char *tmpl = NULL;
    int rc = eval_model(a, model, &m, e);
    if (!rc) rc = gguf_chat_template(m->gguf, &tmpl, e);
    if (!rc) *knows = tmpl && toolfmt_detect(tmpl, strlen(tmpl));
    model_close(m);
    return rc;
}

int eval_check_suite(const struct eval_args *a, const char *model, const struct suite *suite,
                     int64_t n_cases, const char *format, struct err *e) {
    struct model *m = NULL;
    struct suite_plan p = {0};
    int rc = eval_model(a, model, &m, e);
    if (!rc) rc = suite_plan_open(&p, suite, m, n_cases, format, e);
    suite_plan_close(&p);
    model_close(m);
    if (rc && rc != ERR_INTR) err_wrap(e, "%s", model);
    return rc;
}

int eval_suite_of(struct work *w, const struct eval_args *a, const char *model,
                  const struct suite *suite, int64_t n_cases, int64_t max_tokens,
                  const char *format, struct suite_answers *out, struct err *e) {
    struct eval_loaded l = {0};
    struct suite_plan p = {0};
    struct kept_of kept = {0};
    int rc;
    TRY(model_open(&l.m, model, e));
    TRY_GOTO(out, rc, model_use_pre(l.m, a->pre, e));
    TRY_GOTO(out, rc, suite_plan_open(&p, suite, l.m, n_cases, format, e));
    if (a->constrained) TRY_GOTO(out, rc, gram_vocab_new(&p.vocab, l.m->tok, e));
    p.jump = a->jump;
    p.strict_calls = a->strict_calls;
    int64_t most = max_tokens;
    for (int i = 0; i < p.n; i++) {
        const struct suite_case *c = &suite->c[p.index[i]];
        most = max_i64(most, c->loop ? loop_room(c, max_tokens) : c->max_tokens);
    }
    TRY_GOTO(out, rc,
             eval_session(w, a, l.m, a->kv_type, a->ctx ? a->ctx : p.longest + most, &l.s, e));
    kept_model(&kept, a->kept, l.s, a->hash);
    rc = eval_suite(l.s, &p, max_tokens, kept.of, out, e);
out:
    kept_release(&kept);
    if (rc && rc != ERR_INTR) err_wrap(e, "%s", model);
    suite_plan_close(&p);
    eval_close_one(&l);
    return rc;
}

int eval_suite_read(struct suite *s, const char *path, struct err *e) {
    const struct default_text *t = default_suite(path);
    if (!t && !io_exists(path) && strcmp(path, "-") != 0 && !strpbrk(path, "./"))
        return err_set(e, ERR_USAGE,
                       "there is no file '%s', and the built-in suites are builtin, loops and "
                       "checks",
                       path);
    if (!t || (strcmp(path, "builtin") != 0 && io_exists(path))) return suite_open(s, path, e);
    return suite_parse(s, t->data, default_text_len(t), t->name, e);
}

/* Reads the tasks of j->path or, if no format is given, makes needle tasks from that text. */
static int make_tasks(const struct choice_job *j, const struct tok *tok, struct choice_tasks *out,
                      struct err *e) {
    char *text = NULL;
    size_t len = 0;
    if (j->format) return choices_open(out, j->format, j->path, tok, j->n_cases, e);
    TRY(text_read_file(&text, &len, j->path, e));
    int rc = choices_needle(out, text, len, j->path, tok, j->ctx, (int)j->n_depths,
                            (int)j->per_depth, e);
    free(text);
    return rc;
}

int eval_choice_of(struct work *w, const struct eval_args *a, const char *model,
                   const struct choice_job *j, struct choice_tasks *tasks,
                   struct choice_answers *out, struct err *e) {
    struct eval_loaded l = {0};
    struct kept_of kept = {0};
    int rc;
    memset(tasks, 0, sizeof *tasks);
    TRY(model_open(&l.m, model, e));
    TRY_GOTO(out, rc, model_use_pre(l.m, a->pre, e));
    TRY_GOTO(out, rc, model_need_tok(l.m, e));
    TRY_GOTO(out, rc, make_tasks(j, l.m->tok, tasks, e));
    TRY_GOTO(out, rc, eval_session(w, a, l.m, a->kv_type, tasks->longest, &l.s, e));
    kept_model(&kept, a->kept, l.s, a->hash);
    rc = eval_choices(l.s, tasks, kept.of, out, e);
    kept_release(&kept);
out:
    eval_close_one(&l);
    if (rc) choices_close(tasks);
    return rc;
}
