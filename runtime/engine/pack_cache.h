// SPDX-License-Identifier: MIT
/* runtime/engine/pack_cache.h - on-disk cache of packed rows. Later starts and other processes map
 * these rows instead of packing again. Each model and form has a file of rows (pack_file.h), a seal
 * that records the last successful comparison, and a lock.
 *
 * A packed file is trusted as far as the model file: it is compared with the model in full when it
 * is created and whenever the file system reports that either of them has changed (size, inode,
 * modification and change times, recorded in the seal). Otherwise only its header is read, so the
 * time to open it does not grow with the model. Removing the seal forces a comparison.
 * docs/formats/pack-cache.md has the details. */
#ifndef HONE_RUNTIME_ENGINE_PACK_CACHE_H
#define HONE_RUNTIME_ENGINE_PACK_CACHE_H

#include "runtime/engine/model.h"

/* Attaches the folder's packed rows to the weights of a model's file. make: creates files that are
 * missing, damaged or belong to another model, or waits for another process that is doing so. of:
 * the model that opened the file.
 *
 * If a cache cannot be used or created (disk full, no permission, a file writable by others), logs
 * a warning and leaves the weights unpacked. ERR_USAGE: `dir` is not a folder and cannot be
 * created. ERR_INTR: interrupted. */
int pack_cache_attach(const struct model *of, const char *dir, const struct kern *k,
                      struct pool *pool, bool make, struct err *e);

#endif
