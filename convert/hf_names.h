// SPDX-License-Identifier: MIT
/* convert/hf_names.h - tensor name normalisation: rewrites a folder's tensor names to match the
 * tables, and removes the names of wrappers that contained the model when it was saved. Internal to
 * convert/. */
#ifndef HONE_CONVERT_HF_NAMES_H
#define HONE_CONVERT_HF_NAMES_H

#include "base/arena.h"
#include "containers/hfdir.h"
#include "models/arch.h"

struct hf_names {
    const char **name; /* [tensors of the folder] */
    /* Replaced prefix and its replacement, for messages; both NULL: nothing was replaced.
     */
    const char *cut, *put;
};
/* Fills *out with names allocated in the arena. Removes name parts of wrappers ("_orig_mod.",
 * "module.", "language_model.") wherever they occur; then replaces the prefix of the embeddings, if
 * it differs from the table's, in all names. ERR_DATA: an unmerged adapter. */
int hf_names_make(struct hf_names *out, const struct hfdir *dir, const struct arch *a,
                  struct arena *mem, struct err *e);

/* Returns whether a tensor belongs to a vision or audio part instead of the language model, by the
 * architecture's list and the usual names of these parts. */
bool hf_names_tower(const struct arch *a, const char *name);
/* Returns whether a tensor belongs to such a part, or to one that the architecture leaves out. */
bool hf_names_other_part(const struct arch *a, const char *name);

#endif
