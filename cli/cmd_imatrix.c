// SPDX-License-Identifier: MIT
/* cli/cmd_imatrix.c - command line of hone imatrix; runs jobs/imatrix_job.c. */
#include "cli/cmd.h"
#include "base/ranks.h"
#include "jobs/imatrix_job.h"
#include "lib/options.h"

/* Runs the command with a model and texts: collects a matrix, or selects documents. */
static int from_texts(struct cli *c, struct imatrix_job_opts *a, struct select_args *s,
                      struct emit *m, struct err *e) {
    if (c->n_args < 2)
        return err_set(e, ERR_USAGE, "imatrix: give a MODEL.gguf and at least one TEXT");
    a->text = s->text = c->arg + 1;
    a->n_texts = s->n_texts = c->n_args - 1;
    if (!s->budget) return imatrix_job_collect(&c->work, c->arg[0], a, m, e);
    s->model = c->arg[0];
    s->out = a->out;
    s->ctx = a->ctx;
    s->parse_special = !a->no_special;
    c->work.pre = a->pre;
    return imatrix_select(&c->work, s, m, e);
}

static const struct cmd_spec imatrix_spec = {
    "imatrix",
    "MODEL.gguf TEXT... -o FILE | --merge A B... -o FILE | --stats FILE | --select N MODEL.gguf "
    "TEXT... -o FILE",
    "Runs texts through the model and collects the mean squared input of every weight column.\n"
    "TEXT is plain text, .gz, or .jsonl: conversations rendered with the model's template, or "
    "{\"text\": ...}.",
    imatrix_options,
    1,
    -1};

/* Rejects options that several processes cannot share. */
static int check(const struct imatrix_ask *x, struct err *e) {
    if (ranks_n() > 1 && (x->merge || x->stats || x->select.budget || x->a.gram || x->a.moments))
        return err_set(e, ERR_USAGE,
                       "--merge, --stats, --select, --gram and --moments need a single process: "
                       "start without mpirun");
    return 0;
}

int cmd_imatrix(struct cli *c, int argc, char **argv, struct err *e) {
    struct imatrix_ask x = {0};
    TRY(cli_parse(c, &imatrix_spec, &x, argc, argv, e));
    if (c->done) return 0;
    TRY(check(&x, e));
    struct emit *m = emit_new();
    int rc;
    if (x.stats && c->n_args != 1)
        rc = err_set(e, ERR_USAGE, "--stats takes one FILE");
    else if (x.stats)
        rc = imatrix_job_stats(c->arg[0], m, e);
    else if (!x.a.out)
        rc = err_set(e, ERR_USAGE, "imatrix: name an output with -o FILE");
    else if (x.merge)
        rc = imatrix_job_merge(&c->work, c->arg, c->n_args, &x.a, m, e);
    else
        rc = from_texts(c, &x.a, &x.select, m, e);
    return cli_result(c, m, rc);
}
