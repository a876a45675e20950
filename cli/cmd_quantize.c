// SPDX-License-Identifier: MIT
/* cli/cmd_quantize.c - command line of hone quantize; runs jobs/quantize_job.c. */
#include "cli/cmd.h"
#include "lib/options.h"
#include "jobs/quantize_job.h"
#include "quantize/recipe.h"

/* Rejects `IN OUT TYPE`, the order of llama.cpp's arguments, and prints the command for hone. */
static int check_order(const struct cli *c, const struct quantize_job_opts *a, struct err *e) {
    const char *in = c->arg[0], *out = a->out ? a->out : "OUT.gguf", *recipe = a->recipe;
    if (c->n_args < 2) return 0;
    for (int i = 1; i < c->n_args; i++) {
        if (!recipe && (recipe_find(c->arg[i]) || i == 2))
            recipe = c->arg[i];
        else if (!a->out && i == 1)
            out = c->arg[i];
    }
    return err_set(
        e, ERR_USAGE,
        "quantize: takes one argument, the input, and options for the rest: hone quantize %s "
        "-o %s --recipe %s",
        in, out, recipe ? recipe : "Q4_K_M");
}

static const struct cmd_spec quantize_spec = {
    .name = "quantize",
    .synopsis = "IN.gguf -o OUT.gguf (--recipe NAME|PLAN.tsv | --budget SIZE | --type TYPE) "
                "[--imatrix FILE]",
    .about = "Quantizes a GGUF, tensor by tensor. Norms, routers and convolutions keep their type. "
             "With an importance\nmatrix, errors in columns with large inputs are weighted more.",
    .opts = quantize_options,
    .min_args = 1,
    .max_args = -1,
};

int cmd_quantize(struct cli *c, int argc, char **argv, struct err *e) {
    struct quantize_job_opts x = {0};
    TRY(cli_parse(c, &quantize_spec, &x, argc, argv, e));
    if (c->done) return 0;
    c->work.pre = x.pre;
    TRY(check_order(c, &x, e));
    x.in = c->arg[0];
    struct emit *m = emit_new();
    return cli_result(c, m, quantize_job_run(&c->work, &x, m, e));
}
