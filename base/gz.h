// SPDX-License-Identifier: MIT
/* base/gz.h - whole text files that may be gzip-compressed. Only gz.c includes zlib. */
#ifndef HONE_BASE_GZ_H
#define HONE_BASE_GZ_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Reads a plain or .gz file (told by content), "-" standard input, at most max_bytes after
 * decompression; NUL-terminated; free(*out). ERR_DATA on a damaged archive or one that unpacks to
 * more. */
int gz_read_file(char **out, size_t *len, const char *path, uint64_t max_bytes, struct err *e);

#endif
