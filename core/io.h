// SPDX-License-Identifier: MIT
/* core/io.h - read-only maps, whole-file reads, and output files that appear whole or not at all.
 */
#ifndef HONE_CORE_IO_H
#define HONE_CORE_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

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
/* ERR_DATA naming the first mapped file whose size or time stamp is not what it was when it was
 * opened. out_commit asks this of all maps that the job (core/ctx.h) has open before an output gets
 * its name. */
int map_unchanged(struct err *e);
/* For a SIGBUS handler, async-signal-safe: says what happened to the mapped file at this address
 * and returns ERR_DATA (the file was cut) or ERR_SYS (it cannot be read); 0: no map of ours. */
int map_fault(const void *addr, char *msg, size_t cap);

/* Opens an input without waiting for a pipe's writer; ERR_USAGE for folders. close(*fd). */
struct stat;
int io_open_input(int *fd, struct stat *st, const char *path, struct err *e);
/* Reads a whole file, at most `max_bytes`; NUL-terminated for convenience; free(*out). "-" is
 * stdin. */
int io_read_file(char **out, size_t *len, const char *path, uint64_t max_bytes, struct err *e);

/* False only when there is surely nothing: a file that cannot be looked at (EIO, EACCES) is there,
 * and opening it says why not. */
bool io_exists(const char *path);
/* The same for what may be missing: a file that cannot be looked at is an error. */
int io_there(bool *yes, const char *path, struct err *e);
bool io_is_dir(const char *path);
/* *yes: a regular file is there. False for folders, devices and dangling links; anything else that
 * keeps us from looking is an error. */
int io_is_file(bool *yes, const char *path, struct err *e);
int io_file_size(const char *path, uint64_t *size, struct err *e);
/* mkdir -p. */
int io_make_dir(const char *path, struct err *e);
/* Fails with ERR_SYS naming needed and free bytes when the file system holding `path` (which need
 * not exist yet; its folder must) has less than n_bytes free. */
int io_need_space(const char *path, uint64_t n_bytes, struct err *e);
/* Names of a folder's entries in byte order, hidden ones too, "." and ".." not. A folder that
 * cannot be read to its end is an error, never a shorter list. io_names_release(l), after an error
 * too. */
struct io_names {
    char **v;
    int n;
};
int io_list(struct io_names *l, const char *dir, struct err *e);
void io_names_add(struct io_names *l, const char *name);
void io_names_sort(struct io_names *l);
void io_names_release(struct io_names *l); /* works on a zeroed struct */
/* dir + "/" + name; free(). */
char *io_join(const char *dir, const char *name);
/* Borrowed pointer to what follows the last '/'. */
const char *io_base(const char *path);

/* An output file. Bytes go to PATH.tmp-XXXXXX in the same folder; out_commit syncs and renames,
 * out_close without commit removes it. All open outputs are unlinked on out_abort_all (called on
 * fatal signals by cli/, async-signal-safe). */
struct out;
/* Checks whether out_open would take this path, before long work begins: ERR_USAGE for what is
 * there and must not be replaced, folders, devices and streams. */
int out_check(const char *path, bool overwrite, struct err *e);
/* overwrite: replace an existing file at commit; otherwise refuse at once (ERR_USAGE, "use -f"). */
int out_open(struct out **out, const char *path, bool overwrite, struct err *e);
/* As out_open, under the name PATH.part, which is the same for every run and may be there already;
 * fresh: empty it. It stays when the process is killed or out_abort_all is called; out_close
 * removes it unless out_keep was called. The caller sees to it that nobody else writes there. */
int out_open_part(struct out **out, const char *path, bool overwrite, bool fresh, struct err *e);
void out_keep(struct out *o);
uint64_t out_size(const struct out *o); /* bytes in the file now, less buffered ones */
/* ERR_DATA when the file ends before off + n. */
int out_read_back(struct out *o, void *p, uint64_t n, uint64_t off, struct err *e);
/* Makes the file `size` bytes long, with zeros at its end if it was shorter; writing goes on there.
 */
int out_cut(struct out *o, uint64_t size, struct err *e);
int out_write(struct out *o, const void *p, uint64_t n, struct err *e);
int out_flush(struct out *o, struct err *e); /* buffered bytes to the file, not to the disk */
int out_pad(struct out *o, uint64_t n_zero_bytes, struct err *e);
/* Random access within what was or will be written (parallel writers); thread-safe. */
int out_pwrite(struct out *o, const void *p, uint64_t n, uint64_t off, struct err *e);
int out_resize(struct out *o, uint64_t size, struct err *e); /* reserve: ENOSPC shows here */
uint64_t out_tell(const struct out *o);
/* ERR_DATA when an input that is mapped now was changed meanwhile (map_unchanged). */
int out_commit(struct out *o, struct err *e);
void out_close(struct out *o); /* NULL is fine; after commit only frees */
void out_abort_all(void);
/* Whole small file in one call, atomically. _again: one that holds these very bytes may be there.
 */
int out_write_file(const char *path, const void *p, size_t n, bool overwrite, struct err *e);
int out_write_again(const char *path, const void *p, size_t n, bool overwrite, struct err *e);

#endif
