// SPDX-License-Identifier: MIT
/* convert/hf_names.h - names of a folder's tensors as the tables spell them, whatever wrapped the
 * model when it was saved. Inner to convert/. */
#ifndef HONE_CONVERT_HF_NAMES_H
#define HONE_CONVERT_HF_NAMES_H

#include "base/arena.h"
#include "containers/hfdir.h"
#include "models/arch.h"

struct hf_names {
    const char **name; /* [tensors of the folder] */
    /* What a rule put in place of what, for messages; both NULL when names are spelled as usual. */
    const char *cut, *put;
};
/* Fills *out with names of the arena's. Parts that name a wrapper and no layer ("_orig_mod.",
 * "module.", "language_model.") go wherever they stand; then, where the embeddings have another
 * prefix than in the table, that prefix is exchanged. ERR_DATA for an adapter that was not merged.
 */
int hf_names_make(struct hf_names *out, const struct hfdir *dir, const struct arch *a,
                  struct arena *mem, struct err *e);

/* Tells whether a tensor belongs to another part of a model that sees, hears or speaks than the
 * language model: by the architecture's list or by names that such parts usually have. */
bool hf_names_other_part(const struct arch *a, const char *name);

#endif
