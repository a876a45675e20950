// SPDX-License-Identifier: MIT
/* runtime/engine/pack_file.h - packed rows of a model in one file that is mapped and shared by all
 * processes. The format is docs/formats/pack-cache.md. Whether a file may be used at all is
 * pack_cache.c's question. */
#ifndef HONE_RUNTIME_ENGINE_PACK_FILE_H
#define HONE_RUNTIME_ENGINE_PACK_FILE_H

#include "base/map.h"
#include "runtime/engine/pack.h"

/* Writes a key of 32 hex digits, made of the names, types, shapes and forms of the weights and
 * of a sample of each one's blocks. Another model has another key, so it may stand in a file's
 * name. */
void pack_file_key(const struct pack_list *l, char key[33]);
uint64_t pack_file_bytes(const struct pack_list *l);

/* Packs all weights of the list into a new file that replaces `path`. Work memory: 2 MiB for each
 * thread. ERR_SYS when the disk is full, ERR_INTR; then nothing has changed. */
int pack_file_write(const char *path, const struct pack_list *l, struct pool *pool, struct err *e);

/* A file for this very list: magic, key, size and the header's hash are looked at, not the rows.
 * ERR_DATA when it is another, ERR_USAGE when there is none. Counted: pack_file_drop ends it. */
struct pack_file;
int pack_file_open(struct pack_file **out, const char *path, const struct pack_list *l,
                   struct err *e);
void pack_file_keep(struct pack_file *f);
void pack_file_drop(void *f); /* NULL is fine */
/* Reads all of it and all blocks of the weights: ERR_DATA when rows are not as they were written,
 * or the weights are not those that they were made of. */
int pack_file_check(const struct pack_file *f, const struct pack_list *l, struct pool *pool,
                    struct err *e);
/* Returns the rows of item i, borrowed until the last holder drops the file. */
const uint8_t *pack_file_rows(const struct pack_file *f, int i);
const struct file_id *pack_file_id(const struct pack_file *f);

#endif
