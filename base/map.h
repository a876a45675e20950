// SPDX-License-Identifier: MIT
/* base/map.h - read-only file mappings, with detection of files that change while mapped. */
#ifndef HONE_BASE_MAP_H
#define HONE_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Identity of a file according to the file system. It changes when the file is written or replaced,
 * or its owner changes. Times in nanoseconds. */
struct file_id {
    uint64_t size, inode;
    int64_t modified, changed; /* mtime of the content; ctime, which covers owner, name and mode */
    unsigned owner, mode;      /* as in struct os_stat */
};
/* A read-only mapping of a regular file; for an empty file data is NULL and size 0. */
struct map {
    const uint8_t *data;
    uint64_t size;
    char *path;        /* owned */
    struct file_id id; /* the mapped file, even if its name now refers to a different one */
};
/* Maps a regular file for reading; an empty one yields data NULL. Close with map_close(). */
int map_open(struct map *m, const char *path, struct err *e);
void map_close(struct map *m);  /* safe on a zeroed struct */
void map_detach(struct map *m); /* unmaps the file, but keeps path and size; data becomes NULL */
/* Tells the kernel that a range is no longer needed, to bound memory in streaming reads. */
void map_drop(const struct map *m, uint64_t off, uint64_t len);
/* Returns ERR_DATA, naming the first of the job's mapped files (base/ctx.h) whose size or time
 * stamp has changed since it was opened. out_commit calls it before an output gets its name. */
int map_unchanged(struct err *e);
/* Describes, for a SIGBUS handler, what happened to the mapped file at this address.
 * Async-signal-safe. Returns ERR_DATA (file truncated), ERR_SYS (read error), or 0 if the address
 * is not in one of our maps. */
int map_fault(const void *addr, char *msg, size_t cap);

#endif
