// SPDX-License-Identifier: MIT
/* quantize/qplan.h - plan of a run: the type of every tensor, from a preset, a single type or a TSV
 * file. */
#ifndef HONE_QUANTIZE_QPLAN_H
#define HONE_QUANTIZE_QPLAN_H

#include "quantize/quantize.h"
#include "quantize/recipe.h"

struct qplan {
    struct recipe_item *item; /* one per tensor, in output order */
    int64_t n, n_released;    /* n_released: tensors kept in their released blocks */
    struct exact_tally exact; /* tensors that got a type because it holds them without loss */
    char name[64];            /* "Q4_K_M", "Q4_K", or the base name of a plan file */
    int ftype;                /* general.file_type */
};
/* Creates the plan for g, which owns the names. Returns ERR_USAGE for unknown recipes, unknown
 * types and bad patterns; ERR_DATA, with the line number, for bad plan files. */
int qplan_make(struct qplan *p, const struct gguf *g, const struct quantize_opts *o, struct err *e);
/* Sets name, ftype and the type of each item from o's recipe and pure; the roles must be set. ftype
 * is -1 if the format has no number for the mix. */
int qplan_choose(struct qplan *p, const struct recipe_model *m, const struct quantize_opts *o,
                 struct err *e);
/* Returns how many tensors of `file` have another type than llama.cpp's preset of this name gives
 * them. base: the file that it was made from; imatrix: with importance. */
int64_t qplan_unlike(const struct gguf *base, const struct gguf *file, const char *preset,
                     bool imatrix);
void qplan_release(struct qplan *p);
/* Writes "tensor<TAB>type" lines, a file that can be used as a recipe. */
int qplan_write(const struct qplan *p, const char *path, bool overwrite, struct err *e);

#endif
