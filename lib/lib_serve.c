// SPDX-License-Identifier: MIT
/* lib/lib_serve.c - a server inside a program, until it is cancelled. */
#include "jobs/serve_job.h"
#include "lib/form.h"

#define FROM hone_serve_opts
#define TO serve_job_opts
static const struct field serve_fields[] = {
    FIELD(FIELD_LIST, host, host, "host"),
    FIELD_OF_CALL(port, "port"),
    FIELD(FIELD_TEXT, alias, alias, "alias"),
    FIELD(FIELD_COUNT, n_ctx, ctx, "ctx"),
    FIELD(FIELD_COUNT, parallel, parallel, "parallel"),
    FIELD(FIELD_BYTES, context_memory, context_memory, "context-memory"),
    FIELD(FIELD_TEXT, cache_dir, cache_dir, "cache-dir"),
    FIELD(FIELD_BYTES, cache_disk, cache_disk, "cache-disk"),
    FIELD(FIELD_TEXT, key, key, ""),
    FIELD(FIELD_TEXT, key_file, key_file, "api-key-file"),
    FIELD(FIELD_FLAG, no_key, no_key, "no-key"),
    FIELD(FIELD_COUNT, max_tokens, max_tokens, "max-tokens"),
    FIELD(FIELD_TEXT, reasoning, reasoning, "reasoning"),
    FIELD(FIELD_COUNT, reasoning_budget, n_think, "reasoning-budget"),
    FIELD(FIELD_TEXT, constrain, constrain, "constrain"),
    FIELD(FIELD_TEXT, kwargs, kwargs, "kwargs"),
    FIELD(FIELD_SAID, temperature, set[SERVE_TEMP], "temp"),
    FIELD(FIELD_SAID, top_k, set[SERVE_TOP_K], "top-k"),
    FIELD(FIELD_SAID, top_p, set[SERVE_TOP_P], "top-p"),
    FIELD(FIELD_SAID, min_p, set[SERVE_MIN_P], "min-p"),
    FIELD(FIELD_SAID, repeat_penalty, set[SERVE_REPEAT_PENALTY], "repeat-penalty"),
    FIELD(FIELD_SAID, repeat_last_n, set[SERVE_REPEAT_LAST_N], "repeat-last-n"),
    FIELD(FIELD_SAID, seed, set[SERVE_SEED], "seed"),
    FIELD(FIELD_TEXT, kv_type, kv_type, "kv-type"),
    FIELD(FIELD_TEXT, act, act, "act"),
    FIELD(FIELD_NUMBER, max_step, max_step, "max-step"),
    FIELD(FIELD_COUNT, queue, queue, "queue"),
    FIELD(FIELD_COUNT, max_connections, max_connections, "max-connections"),
    FIELD(FIELD_BYTES, max_body, max_body, "max-body"),
    FIELD(FIELD_NUMBER, drain, drain, "drain"),
    FIELD(FIELD_TEXT, record, record, "record"),
    FIELD(FIELD_TEXT, log_file, log, "log"),
    FIELD(FIELD_FLAG, strict, strict, "strict"),
    FIELD(FIELD_LIST, allow_host, allow_host, "allow-host"),
    FIELD(FIELD_LIST, allow_origin, allow_origin, "allow-origin"),
    FIELD(FIELD_TEXT, special, special, "special-in-content"),
    ARGUMENT("hone_opts.pre", "pre"),
    FIELD(FIELD_TEXT, preset, preset, "preset"),
    FIELD(FIELD_TEXT, template_, tmpl, "template"),
    FIELD(FIELD_TEXT, draft, draft, "draft"),
    FIELD(FIELD_FLAG, record_last, record_last, "record-last"),
    FIELD(FIELD_FLAG, open_objects, open_objects, "open-objects"),
    FIELD(FIELD_FLAG, strict_calls, strict_calls, "strict-calls"),
    FIELD(FIELD_LIST, more, more, ""),
};
#undef FROM
#undef TO

const struct form forms_serve[] = {FORM("hone_serve", "serve", hone_serve_opts, serve_fields), {0}};

int hone_serve(const char *model, const struct hone_serve_opts *opts, const struct hone_opts *o,
               struct hone_error *e) {
    NEED(model, e);
    struct hone_serve_opts so;
    struct serve_job_opts j = serve_job_usual;
    struct task t;
    int rc = task_begin_form(&t, &forms_serve[0], opts, &so, &j, o, NULL, e);
    if (rc) return rc;
    j.path = model;
    j.pre = t.w.pre;
    j.port = so.port;
    j.key_from = "hone_serve_opts.key";
    j.ready = so.ready;
    j.ready_ud = so.user;
    j.log_line = so.request;
    j.log_ud = so.user;
    return task_end(&t, serve_job_run(&t.w, &j, &t.c.err), NULL, e);
}
