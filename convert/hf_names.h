// SPDX-License-Identifier: MIT
/* convert/hf_names.h - tensor name normalisation: respells a folder's names as in the tables,
 * without the wrappers that were around the model when it was saved. Internal to convert/. */
#ifndef HONE_CONVERT_HF_NAMES_H
#define HONE_CONVERT_HF_NAMES_H

#include "base/arena.h"
#include "containers/hfdir.h"
#include "models/arch.h"

struct hf_names {
    const char **name; /* [tensors of the folder] */
    /* Prefix that was replaced and its replacement, for messages; both NULL: names were already
     * right. */
    const char *cut, *put;
};
/* Fills *out with names allocated in the arena. Removes name parts of wrappers ("_orig_mod.",
 * "module.", "language_model.") wherever they occur; then, if the prefix of the embeddings differs
 * from the table's, exchanges that prefix. ERR_DATA: an unmerged adapter. */
int hf_names_make(struct hf_names *out, const struct hfdir *dir, const struct arch *a,
                  struct arena *mem, struct err *e);

/* Returns whether a tensor belongs to a vision or audio part rather than the language model,
 * according to the architecture's list or to names that such parts usually have. */
bool hf_names_other_part(const struct arch *a, const char *name);

#endif
