// SPDX-License-Identifier: MIT
/* quantize/qplan.h - the plan of one run: a type per tensor, from a preset, one type, or a TSV
 * file.
 */
#ifndef HONE_QUANTIZE_QPLAN_H
#define HONE_QUANTIZE_QPLAN_H

#include "quantize/quantize.h"
#include "quantize/recipe.h"

struct qplan {
    struct recipe_item *item; /* one per tensor, in output order */
    int64_t n, n_released;    /* of these so many stay in the blocks the model was released in */
    char name[64];            /* "Q4_K_M", "Q4_K", or the base name of a plan file */
    int ftype;                /* general.file_type */
};
/* Makes a plan for g, from which names are borrowed. ERR_USAGE for unknown recipes, types and
 * bad patterns; ERR_DATA with a line number for plan files. */
int qplan_make(struct qplan *p, const struct gguf *g, const struct quantize_opts *o, struct err *e);
/* Sets name, types and ftype of items whose roles are set, by o's recipe and pure. ftype is -1
 * where the mix has none. */
int qplan_choose(struct qplan *p, const struct recipe_model *m, const struct quantize_opts *o,
                 struct err *e);
void qplan_release(struct qplan *p);
/* Writes "tensor<TAB>type" lines, which read back as a recipe. */
int qplan_write(const struct qplan *p, const char *path, bool overwrite, struct err *e);

#endif
