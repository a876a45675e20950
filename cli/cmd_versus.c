// SPDX-License-Identifier: MIT
/* cli/cmd_versus.c - command line of hone versus; runs jobs/versus.c. */
#include "cli/cmd.h"
#include "jobs/versus.h"
#include "lib/options.h"

static const struct cmd_spec versus_spec = {
    .name = "versus",
    .synopsis = "BASE.gguf FILE.gguf... [--text NAME=FILE]... [--flips] [--choice FORMAT:FILE] "
                "[--by-depth] [--plot FILE] [--markdown FILE] [--kv-type T[,T...]]",
    .about = "Compares GGUF files of one model, made by anyone, with the same base in one pass "
             "over the texts:\nKL divergence with paired intervals, files of equal size against "
             "each other, what changes for a user\n(--flips), projector, MTP blocks, template and "
             "metadata.",
    .opts = versus_options,
    .min_args = 2,
    .max_args = -1,
};

int cmd_versus(struct cli *c, int argc, char **argv, struct err *e) {
    struct versus_opts o = versus_usual;
    TRY(cli_parse(c, &versus_spec, &o, argc, argv, e));
    if (c->done) return 0;
    o.base = c->arg[0];
    o.file = c->arg + 1;
    o.n_files = c->n_args - 1;
    struct emit *m = emit_new();
    return cli_result(c, m, versus_run(&c->work, &o, m, e));
}
