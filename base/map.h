// SPDX-License-Identifier: MIT
/* base/map.h - files mapped read-only, and what happens when they change under us. */
#ifndef HONE_BASE_MAP_H
#define HONE_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* What a file system says of a file: whoever writes to it, replaces it or changes whose it is
 * changes this too. Times in nanoseconds. */
struct file_id {
    uint64_t size, inode;
    int64_t modified, changed; /* its content; also its owner, name, mode */
    unsigned owner, mode;      /* as stat() has them */
};
/* A file mapped read-only. Regular files only; an empty file has data NULL and size 0. */
struct map {
    const uint8_t *data;
    uint64_t size;
    char *path;        /* owned */
    struct file_id id; /* of the file that was mapped, whatever has its name now */
};
int map_open(struct map *m, const char *path, struct err *e);
void map_close(struct map *m); /* works on a zeroed struct */
/* Tells the kernel a range will not be needed again (streaming reads stay bounded in memory). */
void map_drop(const struct map *m, uint64_t off, uint64_t len);
/* Fails with ERR_DATA, naming the first mapped file whose size or time stamp is not what it was
 * when it was opened. out_commit asks this of all maps that the job (base/ctx.h) has open before
 * an output gets its name. */
int map_unchanged(struct err *e);
/* Says what happened to the mapped file at this address, for a SIGBUS handler (async-signal-
 * safe). Returns ERR_DATA (the file was cut), ERR_SYS (it cannot be read), or 0 when it is no
 * map of ours. */
int map_fault(const void *addr, char *msg, size_t cap);

#endif
