// SPDX-License-Identifier: MIT
/* cli/cmd_recipes.c - command line of hone recipes; runs jobs/recipes_job.c. */
#include "cli/cmd.h"
#include "jobs/recipes_job.h"
#include "lib/options.h"

static const struct cmd_spec recipes_spec = {
    .name = "recipes",
    .synopsis = "[MODEL.gguf [--recipe NAME -o PLAN.tsv]]",
    .about = "Lists every recipe and, with a model, the exact size of the file it produces. Can "
             "also write a recipe as a plan to edit.",
    .opts = recipes_options,
    .min_args = 0,
    .max_args = 1,
};

int cmd_recipes(struct cli *c, int argc, char **argv, struct err *e) {
    struct recipes_opts o = {0};
    TRY(cli_parse(c, &recipes_spec, &o, argc, argv, e));
    if (c->done) return 0;
    o.model = c->n_args ? c->arg[0] : NULL;
    struct emit *m = emit_new();
    return cli_result(c, m, recipes_run(&c->work, &o, m, e));
}
