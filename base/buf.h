// SPDX-License-Identifier: MIT
/* base/buf.h - growing byte or string buffer. A zero-initialised struct is an empty buffer; `data`
 * is NUL-terminated after the first append. */
#ifndef HONE_BASE_BUF_H
#define HONE_BASE_BUF_H

#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"

struct buf {
    char *data; /* NULL until the first growth */
    size_t len, cap;
};

void buf_init(struct buf *b);
void buf_release(struct buf *b);
/* Empties the buffer but keeps its storage. */
void buf_reset(struct buf *b);
/* Makes room for `extra` more bytes and a NUL; ends the process if memory runs out. */
void buf_reserve(struct buf *b, size_t extra);
/* Reserves room for data that may exceed 16 MiB. ERR_SYS: out of memory; the message names `what`,
 * and the buffer is unchanged. */
int buf_try_reserve(struct buf *b, size_t extra, const char *what, struct err *e);
/* Appends n bytes, and a NUL that the length does not count; p may be NULL if n is 0. */
void buf_add(struct buf *b, const void *p, size_t n);
/* Appends a NUL-terminated string. */
void buf_str(struct buf *b, const char *s);
void buf_chr(struct buf *b, char c);
/* Appends text formatted as by printf, of any length. */
void buf_fmt(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Returns the bytes, which the caller frees with free(), and empties the buffer. Never NULL: an
 * empty buffer gives "". */
char *buf_take(struct buf *b);

#endif
