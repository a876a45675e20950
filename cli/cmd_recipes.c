// SPDX-License-Identifier: MIT
/* cli/cmd_recipes.c - hone recipes: options of jobs/recipes_job.c. */
#include "cli/cmd.h"
#include "jobs/recipes_job.h"

struct recipes_args {
    const char *recipe, *out, *imatrix;
};

#define AT(member) offsetof(struct recipes_args, member)
static const struct option recipes_opts[] = {
    ROW("recipe", 0, OPT_TEXT, AT(recipe), "NAME", "write this one as a plan (with -o)"),
    ROW("output", 'o', OPT_OUT, AT(out), "PLAN.tsv",
        "the plan: tensor, tab, type; edit it, pass it "
        "to hone quantize --recipe"),
    ROW("imatrix", 0, OPT_TEXT, AT(imatrix), "FILE",
        "importance matrix that will be used: some rules ask whether there is one"),
    {0}};
#undef AT
static const struct cmd_spec recipes_spec = {
    .name = "recipes",
    .synopsis = "[MODEL.gguf [--recipe NAME -o PLAN.tsv]]",
    .about = "Lists every recipe; with a model also the exact size of the file each makes of "
             "it. Writes one as a plan to edit.",
    .opts = recipes_opts,
    .min_args = 0,
    .max_args = 1,
};

int cmd_recipes(struct cli *c, int argc, char **argv, struct err *e) {
    struct recipes_args x = {0};
    TRY(cli_parse(c, &recipes_spec, &x, argc, argv, e));
    if (c->done) return 0;
    const char *model = c->n_args ? c->arg[0] : NULL;
    if (!x.recipe != !x.out || (x.recipe && !model))
        return err_set(e, ERR_USAGE, "a plan needs all of MODEL.gguf, --recipe NAME and -o FILE");
    struct emit *m = emit_new();
    return cli_result(c, m,
                      x.recipe ? recipes_plan(&c->work, model, x.recipe, x.imatrix, x.out, m, e)
                               : recipes_list(model, x.imatrix, m, e));
}
