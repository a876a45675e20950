// SPDX-License-Identifier: MIT
/* runtime/engine/pack_file.h - file of a model's packed rows, mapped and shared by all processes.
 * The format is described in docs/formats/pack-cache.md; pack_cache.c decides whether to trust a
 * file. */
#ifndef HONE_RUNTIME_ENGINE_PACK_FILE_H
#define HONE_RUNTIME_ENGINE_PACK_FILE_H

#include "base/map.h"
#include "runtime/engine/pack.h"

/* Writes a key of 32 hex digits: a hash of the weights' names, types, shapes and forms and of a
 * sample of their blocks. It identifies the model in file names. */
void pack_file_key(const struct pack_list *l, char key[33]);
/* Returns the size of a file that holds the packed weights of l. */
uint64_t pack_file_bytes(const struct pack_list *l);

/* Packs all weights of the list into a new file that replaces `path`, using 2 MiB of work memory
 * per thread. ERR_SYS: disk full; ERR_INTR: interrupted. On error, nothing has changed. */
int pack_file_write(const char *path, const struct pack_list *l, struct pool *pool, struct err *e);

/* A mapped file for exactly this list. Opening checks the magic, the key, the size and the header's
 * hash, but not the rows. ERR_DATA: made for another list; ERR_USAGE: no file. Reference-counted;
 * pack_file_drop releases it. */
struct pack_file;
int pack_file_open(struct pack_file **out, const char *path, const struct pack_list *l,
                   struct err *e);
/* Adds a reference; pack_file_drop() releases it. */
void pack_file_keep(struct pack_file *f);
void pack_file_drop(void *f); /* accepts NULL */
/* Reads the whole file and all blocks of the weights. ERR_DATA: rows are corrupt, or were made from
 * other weights. */
int pack_file_check(const struct pack_file *f, const struct pack_list *l, struct pool *pool,
                    struct err *e);
/* Returns the rows of item i, valid until the last reference is dropped. */
const uint8_t *pack_file_rows(const struct pack_file *f, int i);
const struct file_id *pack_file_id(const struct pack_file *f);

#endif
