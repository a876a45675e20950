// SPDX-License-Identifier: MIT
/* base/io.h - whole-file input, folder listings and paths. */
#ifndef HONE_BASE_IO_H
#define HONE_BASE_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Opens an input file, without blocking if it is a pipe that has no writer; the caller closes *fd.
 * ERR_USAGE: it is a folder. */
struct os_stat;
/* Opens a file for reading and reads its status; refuses folders. *fd is -1 or closed on error. */
int io_open_input(int *fd, struct os_stat *st, const char *path, struct err *e);
/* Reads a whole file of at most `max_bytes`; "-" is stdin. NUL-terminated for convenience; free
 * with free(). */
int io_read_file(char **out, size_t *len, const char *path, uint64_t max_bytes, struct err *e);

/* Returns whether a file exists. A file that cannot be inspected (EIO, EACCES) counts as existing;
 * opening it will report the reason. */
bool io_exists(const char *path);
/* Like io_exists for an optional file, but a file that cannot be inspected is an error. */
int io_there(bool *yes, const char *path, struct err *e);
/* Returns whether the path names a folder; false if it does not exist. */
bool io_is_dir(const char *path);
/* Sets *yes to whether path is a regular file, which is false for folders, devices and dangling
 * links. If that cannot be determined, it is an error. */
int io_is_file(bool *yes, const char *path, struct err *e);
/* Sets *size to the bytes of a regular file; anything else is an error. */
int io_file_size(const char *path, uint64_t *size, struct err *e);
/* Creates a folder and its parents, like mkdir -p. */
int io_make_dir(const char *path, struct err *e);
/* Fails with ERR_SYS, naming the bytes needed and free, if the file system of `path` has less than
 * n_bytes free. `path` need not exist, but its folder must. */
int io_need_space(const char *path, uint64_t n_bytes, struct err *e);
/* Names of a folder's entries in byte order, including hidden ones but not "." and "..". If a
 * folder cannot be read completely, that is an error, never a shorter list. Call
 * io_names_release(l), even after an error. */
struct io_names {
    char **v;
    int n;
};
/* Lists the names in a folder, sorted; too many are an error. Free *l also on error. */
int io_list(struct io_names *l, const char *dir, struct err *e);
/* Appends a copy of the name. */
void io_names_add(struct io_names *l, const char *name);
/* Sorts the names by bytes. */
void io_names_sort(struct io_names *l);
void io_names_release(struct io_names *l); /* safe on a zeroed struct */
/* Returns dir + "/" + name; the caller frees it. */
char *io_join(const char *dir, const char *name);
/* Returns the path with links, "." and ".." resolved (the caller frees it), or NULL with errno set
 * if the file does not exist. Running out of memory is handled as in xmalloc, never reported as a
 * missing file. */
char *io_real(const char *path);
/* Returns the last character that separates names (os_is_slash), as strrchr does; NULL: none. */
char *io_last_slash(const char *path);
/* Returns the part after that character, borrowed. */
const char *io_base(const char *path);
/* Sets name[i] to a short name for each of n paths, without this machine's folders: the file's
 * name; if another path shares it, its folder and name; if they share that too, also a number from
 * 1. Equal paths have the same name. The caller frees the names. */
void io_short_names(const char *const *path, int n, char **name);

#endif
