// SPDX-License-Identifier: MIT
/* cli/cmd_split.c - command line of hone split; runs jobs/split_job.c. */
#include "cli/cmd.h"
#include "jobs/split_job.h"
#include "lib/options.h"

static const struct cmd_spec split_spec = {
    .name = "split",
    .synopsis = "IN.gguf [-o OUT.gguf] [--max-size SIZE] [--no-metadata-first] [--dry-run]",
    .about = "Splits a GGUF into shards OUT-00001-of-0000N.gguf; loaders take the first.\n"
             "Every tensor is read back and compared. 'hone merge' restores the same bytes; if it "
             "cannot, a warning reports it.",
    .opts = split_options,
    .min_args = 1,
    .max_args = 1,
};

int cmd_split(struct cli *c, int argc, char **argv, struct err *e) {
    struct split_opts a = {0};
    TRY(cli_parse(c, &split_spec, &a, argc, argv, e));
    if (c->done) return 0;
    a.path = c->arg[0];
    struct emit *m = emit_new();
    return cli_result(c, m, split_run(&c->work, &a, m, e));
}
