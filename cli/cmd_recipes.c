// SPDX-License-Identifier: MIT
/* cli/cmd_recipes.c - hone recipes: every recipe there is, what it would make of a model to the
 * byte, and any of them as a plan to edit. */
#include "cli/cmd.h"
#include "core/num.h"
#include "quantize/quantize.h"

static int row(struct emit *m, const char *name, const char *model, const char *imatrix,
               struct err *e) {
    const char *about = recipe_about(name);
    emit_row(m);
    emit_cell_str(m, name);
    if (model) {
        struct quantize_opts o = {.in = model, .recipe = name, .imatrix = imatrix, .dry_run = true};
        struct quantize_report r;
        TRY(quantize_run(&o, &r, e));
        emit_cell_i64(m, (int64_t)r.file_bytes);
        emit_cell_num(m, r.bpw, 3);
        emit_cell_i64(m, r.n_fallbacks);
        quantize_report_release(&r);
    }
    emit_cell_str(m, recipe_use(name));
    emit_cell_str(m, about ? about : "preset of the field");
    return 0;
}

static int list(struct cli *c, const char *model, const char *imatrix, struct err *e) {
    struct emit *m = emit_new();
    int rc = 0;
    emit_table(m, "recipes", "");
    emit_col(m, "recipe", "recipe");
    if (model) {
        emit_col(m, "size_bytes", "bytes");
        emit_col(m, "bpw", "bits per weight");
        emit_col(m, "n_fallbacks", "fallbacks");
    }
    emit_col(m, "use", "for");
    emit_col(m, "about", "types");
    for (int i = 0; recipe_name(i) && !rc; i++) rc = row(m, recipe_name(i), model, imatrix, e);
    for (int i = 0; recipe_named(i) && !rc; i++) rc = row(m, recipe_named(i), model, imatrix, e);
    if (!rc) cli_emit(c, m);
    emit_free(m);
    return rc;
}

struct recipes_args {
    const char *recipe, *out, *imatrix;
};
#define AT(member) offsetof(struct recipes_args, member)
static const struct opt recipes_opts[] = {
    {"recipe", 0, OPT_STR, AT(recipe), "NAME", "write this one as a plan (with -o)"},
    {"output", 'o', OPT_STR, AT(out), "PLAN.tsv",
     "the plan: tensor, tab, type; edit it, pass it "
     "to hone quantize --recipe"},
    {"imatrix", 0, OPT_STR, AT(imatrix), "FILE",
     "importance matrix that will be used: some rules ask whether there is one"},
};
#undef AT
static const struct cmd_spec recipes_spec = {
    .name = "recipes",
    .synopsis = "[MODEL.gguf [--recipe NAME -o PLAN.tsv]]",
    .about = "Lists every recipe; with a model also the exact size of the file each makes of "
             "it. Writes one as a plan to edit.",
    .opts = recipes_opts,
    .n_opts = (int)COUNT_OF(recipes_opts),
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
    if (!x.recipe) return list(c, model, x.imatrix, e);
    if (!recipe_find(x.recipe))
        return err_set(e, ERR_USAGE, "--recipe: there is no recipe %s; `hone recipes` lists them",
                       x.recipe);
    struct quantize_opts o = {.in = model,
                              .recipe = x.recipe,
                              .imatrix = x.imatrix,
                              .plan_out = x.out,
                              .overwrite = c->work.overwrite,
                              .dry_run = true};
    struct quantize_report r;
    TRY(quantize_run(&o, &r, e));
    struct emit *m = emit_new();
    emit_str(m, "recipe", "recipe", r.recipe);
    emit_str(m, "output", "plan", x.out);
    emit_i64(m, "size_bytes", "bytes of the file", (int64_t)r.file_bytes);
    emit_num(m, "bpw", "bits per weight", r.bpw, 3);
    cli_emit(c, m);
    emit_free(m);
    quantize_report_release(&r);
    return 0;
}
