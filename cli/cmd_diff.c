// SPDX-License-Identifier: MIT
/* cli/cmd_diff.c - command line of hone diff; runs jobs/gguf_diff.c. */
#include "cli/cmd.h"
#include "jobs/gguf_diff.h"
#include "lib/options.h"

static const struct cmd_spec diff_spec = {
    .name = "diff",
    .synopsis = "A.gguf B.gguf [--tensors] [--error] [--no-manifest]",
    .about = "Lists the differences from A to B: metadata keys, texts line by line, tensors by "
             "name, shape, type\nand data. Exit status 1 if anything differs.",
    .opts = diff_options,
    .min_args = 2,
    .max_args = 2,
};

int cmd_diff(struct cli *c, int argc, char **argv, struct err *e) {
    struct diff_opts d = {0};
    TRY(cli_parse(c, &diff_spec, &d, argc, argv, e));
    if (c->done) return 0;
    d.a = c->arg[0];
    d.b = c->arg[1];
    struct emit *m = emit_new();
    return cli_verdict(c, m, diff_run(&c->work, &d, m, e));
}
