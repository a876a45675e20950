// SPDX-License-Identifier: MIT
/* lib/lib_serve.c - hone_serve: runs a server inside the calling program until it is cancelled. */
#include "jobs/serve_job.h"
#include "lib/form.h"
#include "lib/options.h"

#include "commands/rows.h"
#define TO serve_job_opts
const struct option serve_options[] = {
#include "commands/serve.def"
    {0}};
#undef TO

const struct form forms_serve[] = {FORM(serve, "serve", hone_serve_opts, serve_options), {0}};

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
