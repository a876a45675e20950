// SPDX-License-Identifier: MIT
/* base/gz.h - reader for text files that may be gzip-compressed. Only gz.c includes zlib. */
#ifndef HONE_BASE_GZ_H
#define HONE_BASE_GZ_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Reads a plain or .gz file (detected by content; "-": standard input) of at most max_bytes after
 * decompression. NUL-terminated; free with free(). ERR_DATA: the archive is damaged, or the text
 * larger than max_bytes. */
int gz_read_file(char **out, size_t *len, const char *path, uint64_t max_bytes, struct err *e);

#endif
