// SPDX-License-Identifier: MIT
/* jobs/recipes_job.c - hone recipes: lists recipes with the exact size of their files, or writes
 * one as a plan to edit. */
#include "jobs/recipes_job.h"
#include "base/num.h"
#include "base/out.h"
#include "quantize/quantize.h"

/* Writes the row of a recipe; model: its sizes for that model too, or NULL. */
static int emit_recipe(struct emit *m, const char *name, const char *model, const char *imatrix,
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
    emit_cell_str(m, about ? about : "llama.cpp preset");
    return 0;
}

/* Lists all recipes; model: their sizes for that model too, or NULL. */
static int emit_recipes(const char *model, const char *imatrix, struct emit *m, struct err *e) {
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
    for (int i = 0; recipe_name(i) && !rc; i++)
        rc = emit_recipe(m, recipe_name(i), model, imatrix, e);
    for (int i = 0; recipe_named(i) && !rc; i++)
        rc = emit_recipe(m, recipe_named(i), model, imatrix, e);
    return rc;
}

/* Writes the recipe's types for a model as a plan file. */
static int write_plan(const struct work *w, const struct recipes_opts *x, struct emit *m,
                      struct err *e) {
    if (!recipe_find(x->recipe) && recipe_like(x->recipe))
        return err_set(e, ERR_USAGE, "--recipe: there is no recipe %s; did you mean %s?", x->recipe,
                       recipe_like(x->recipe));
    if (!recipe_find(x->recipe))
        return err_set(e, ERR_USAGE, "--recipe: there is no recipe %s; `hone recipes` lists them",
                       x->recipe);
    struct quantize_opts o = {.in = x->model,
                              .recipe = x->recipe,
                              .imatrix = x->imatrix,
                              .plan_out = x->plan_out,
                              .overwrite = w->overwrite,
                              .dry_run = true};
    const char *const in[] = {x->model, x->imatrix};
    TRY(out_apart(x->plan_out, in, COUNT_OF(in), e));
    struct quantize_report r;
    TRY(quantize_run(&o, &r, e));
    emit_str(m, "recipe", "recipe", r.recipe);
    emit_str(m, "output", "plan", x->plan_out);
    emit_i64(m, "size_bytes", "bytes of the file", (int64_t)r.file_bytes);
    emit_num(m, "bpw", "bits per weight", r.bpw, 3);
    quantize_report_release(&r);
    return 0;
}

int recipes_run(const struct work *w, const struct recipes_opts *o, struct emit *m, struct err *e) {
    if (!o->recipe != !o->plan_out || (o->recipe && !o->model))
        return err_set(e, ERR_USAGE, "a plan needs all of MODEL.gguf, --recipe NAME and -o FILE");
    return o->recipe ? write_plan(w, o, m, e) : emit_recipes(o->model, o->imatrix, m, e);
}
