// SPDX-License-Identifier: MIT
/* runtime/engine/pack_cache.h - a folder where packed rows of models are kept, so that a later
 * start, or another process, maps them instead of packing again. For each model and form a file of
 * rows (pack_file.h), a seal that says when it was last found right, and a lock.
 *
 * A file is trusted as far as the model's own file is: it is read and compared with the model in
 * full when it was made and whenever the file system says that one of the two is not the one that
 * was compared (size, inode, times of content and of status, in the seal). In between only its
 * header is read, so opening takes no time that grows with the model. Removing the seal asks for a
 * comparison. docs/formats/pack-cache.md says it all. */
#ifndef HONE_RUNTIME_ENGINE_PACK_CACHE_H
#define HONE_RUNTIME_ENGINE_PACK_CACHE_H

#include "runtime/engine/model.h"

/* Gives the weights of a model's file the packed rows that the folder has. make: what is missing,
 * damaged or of another model is made; while another process does so, this one waits for it. of:
 * the model that opened the file.
 *
 * A cache that cannot be used or made (no room on the disk, no permission, a file that others may
 * write) is a warning, and the weights get no rows here. ERR_USAGE: `dir` is no folder and cannot
 * become one. ERR_INTR. */
int pack_cache_attach(const struct model *of, const char *dir, const struct kern *k,
                      struct pool *pool, bool make, struct err *e);

#endif
