// SPDX-License-Identifier: MIT
/* base/buf.h - growing byte or string buffer. Zero-initialised struct is an empty buffer. `data` is
 * always NUL-terminated once something was appended. */
#ifndef HONE_BASE_BUF_H
#define HONE_BASE_BUF_H

#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"

struct buf {
    char *data; /* NULL while empty and never grown */
    size_t len, cap;
};

void buf_init(struct buf *b);
void buf_release(struct buf *b);
void buf_reset(struct buf *b);
void buf_reserve(struct buf *b, size_t extra);
/* Makes room for what may be more than 16 MiB. ERR_SYS, which names `what`: there is no memory, and
 * the buffer is as it was. */
int buf_try_reserve(struct buf *b, size_t extra, const char *what, struct err *e);
void buf_add(struct buf *b, const void *p, size_t n);
void buf_str(struct buf *b, const char *s);
void buf_chr(struct buf *b, char c);
void buf_fmt(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Hands the bytes over (free with free()) and empties the buffer; "" never NULL. */
char *buf_take(struct buf *b);

#endif
