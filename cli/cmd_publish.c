// SPDX-License-Identifier: MIT
/* cli/cmd_publish.c - command line of hone publish; runs jobs/publish_job.c. */
#include "cli/cmd.h"
#include "lib/options.h"
#include "base/io.h"
#include "jobs/publish_job.h"

static const struct cmd_spec publish_spec = {
    .name = "publish",
    .synopsis = "DIR [--check] [--repo USER/NAME] [--base-model ORG/NAME] [--source HF_DIR]",
    .about = "Prepares a folder of GGUF files for the Hub: writes README.md, Modelfile, params, "
             "model.yaml,\nmanifest.json with a hash per tensor, and SHA256SUMS. With --check it "
             "only looks for errors,\nin any folder of GGUF files.",
    .opts = publish_options,
    .min_args = 1,
    .max_args = 1,
};

int cmd_publish(struct cli *c, int argc, char **argv, struct err *e) {
    struct publish_job_opts x = {0};
    TRY(cli_parse(c, &publish_spec, &x, argc, argv, e));
    if (c->done) return 0;
    x.o.dir = c->arg[0];
    x.o.way = c->work.overwrite ? GUARD_KEEP : GUARD_REFUSE;
    struct emit *m = emit_new();
    return x.only_check ? cli_verdict(c, m, publish_job_check(x.o.dir, x.quick, m, e))
                        : cli_result(c, m, publish_job_run(&x, m, e));
}
