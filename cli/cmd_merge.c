// SPDX-License-Identifier: MIT
/* cli/cmd_merge.c - command line of hone merge; runs jobs/split_job.c. */
#include "cli/cmd.h"
#include "jobs/split_job.h"
#include "lib/options.h"

static const struct cmd_spec merge_spec = {
    .name = "merge",
    .synopsis = "SHARD.gguf [-o OUT.gguf]",
    .about = "Joins the files of a split set, given any of them, into one GGUF. Every tensor is "
             "read\nback and compared, also with manifest.json if there is one next to the shards.",
    .opts = merge_options,
    .min_args = 1,
    .max_args = 1,
};

int cmd_merge(struct cli *c, int argc, char **argv, struct err *e) {
    struct merge_opts o = {0};
    TRY(cli_parse(c, &merge_spec, &o, argc, argv, e));
    if (c->done) return 0;
    o.shard = c->arg[0];
    struct emit *m = emit_new();
    return cli_result(c, m, merge_run(&c->work, &o, m, e));
}
