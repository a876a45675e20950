// SPDX-License-Identifier: MIT
/* cli/cmd_plan.c - command line of hone plan; runs plan/memory_plan.c. */
#include "cli/cmd.h"
#include "lib/options.h"
#include "plan/memory_plan.h"

static const struct cmd_spec plan_spec = {
    .name = "plan",
    .synopsis = "MODEL.gguf... | FOLDER | config.json [--vram SIZE[,SIZE...]] [--ctx N] [--slots "
                "N] [--kv-type T] [--all-recipes] [--plot FILE] | --launches [--act MODE]",
    .about = "Will it fit? Computes the exact bytes of weights, keys and values and recurrent "
             "state from the headers,\nand prints what fits a card and the command lines for it. "
             "With several files, a folder or a config.json:\nrecommends one file.",
    .opts = plan_options,
    .min_args = 1,
    .max_args = -1,
};

int cmd_plan(struct cli *c, int argc, char **argv, struct err *e) {
    struct memory_plan_opts a = memory_plan_usual;
    TRY(cli_parse(c, &plan_spec, &a, argc, argv, e));
    if (c->done) return 0;
    a.path = c->arg;
    a.n_paths = c->n_args;
    struct emit *m = emit_new();
    return cli_verdict(c, m, memory_plan_run(&c->work, &a, m, e));
}
