// SPDX-License-Identifier: MIT
/* base/io.h - whole files, folders and paths. */
#ifndef HONE_BASE_IO_H
#define HONE_BASE_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Opens an input without waiting for a pipe's writer; the caller closes *fd. ERR_USAGE for
 * folders. */
struct stat;
int io_open_input(int *fd, struct stat *st, const char *path, struct err *e);
/* Reads a whole file, at most `max_bytes`; NUL-terminated for convenience; free(*out). "-" is
 * stdin. */
int io_read_file(char **out, size_t *len, const char *path, uint64_t max_bytes, struct err *e);

/* Tells whether something is there. It is false only when there is surely nothing: a file that
 * cannot be looked at (EIO, EACCES) is there, and opening it says why not. */
bool io_exists(const char *path);
/* Tells the same of what may be missing; here a file that cannot be looked at is an error. */
int io_there(bool *yes, const char *path, struct err *e);
bool io_is_dir(const char *path);
/* Tells whether a regular file is there. It is false for folders, devices and dangling links;
 * anything else that keeps us from looking is an error. */
int io_is_file(bool *yes, const char *path, struct err *e);
int io_file_size(const char *path, uint64_t *size, struct err *e);
/* Makes a folder and those above it, like mkdir -p. */
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
/* Returns dir + "/" + name; the caller frees it. */
char *io_join(const char *dir, const char *name);
/* Returns a path without links, "." and "..", which the caller frees, or NULL, with errno, when
 * there is no such file. Memory that runs out is what it is elsewhere, never a missing file. */
char *io_real(const char *path);
/* Returns what follows the last '/', borrowed. */
const char *io_base(const char *path);

#endif
