// SPDX-License-Identifier: MIT
/* base/buf.c - growing byte buffer. The capacity doubles and always includes one byte for the final
 * NUL. Callers need not check for failure, because running out of memory is handled as in xmalloc
 * (base/mem.h). */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

void buf_init(struct buf *b) {
    *b = (struct buf){0};
}

void buf_release(struct buf *b) {
    free(b->data);
    buf_init(b);
}

void buf_reset(struct buf *b) {
    b->len = 0;
    if (b->data) b->data[0] = 0;
}

/* Returns the capacity needed for `extra` more bytes and the NUL; 0: the current one suffices. */
static size_t grown_cap(const struct buf *b, size_t extra) {
    /* Strictly less, because the NUL needs a byte. */
    if (extra < b->cap - b->len) return 0;
    size_t need = extra > SIZE_MAX / 4 || b->len > SIZE_MAX / 4 ? SIZE_MAX : b->len + extra + 1;
    size_t cap = b->cap < 32 ? 64 : b->cap * 2;
    return cap < need ? need : cap;
}

/* Installs storage of cap bytes, which must exceed b->len, and terminates the text. */
static void set_storage(struct buf *b, char *data, size_t cap) {
    b->data = data;
    b->cap = cap;
    b->data[b->len] = 0;
}

void buf_reserve(struct buf *b, size_t extra) {
    const size_t cap = grown_cap(b, extra);
    if (cap) set_storage(b, xreallocarray(b->data, cap, 1), cap);
}

int buf_try_reserve(struct buf *b, size_t extra, const char *what, struct err *e) {
    const size_t cap = grown_cap(b, extra);
    char *data = cap ? try_realloc(b->data, cap, 1, what, e) : NULL;
    if (cap && !data) return ERR_SYS;
    if (cap) set_storage(b, data, cap);
    return 0;
}

void buf_add(struct buf *b, const void *p, size_t n) {
    buf_reserve(b, n);
    if (n) memcpy(b->data + b->len, p, n);
    b->len += n;
    b->data[b->len] = 0;
}

void buf_str(struct buf *b, const char *s) {
    buf_add(b, s, strlen(s));
}

void buf_chr(struct buf *b, char c) {
    buf_reserve(b, 1);
    b->data[b->len++] = c;
    b->data[b->len] = 0;
}

void buf_fmt(struct buf *b, const char *fmt, ...) {
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    buf_reserve(b, 64);
    size_t room = b->cap - b->len;
    int n = vsnprintf(b->data + b->len, room, fmt, ap);
    va_end(ap);
    if (n > 0 && (size_t)n >= room) {
        buf_reserve(b, (size_t)n);
        vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
    }
    va_end(again);
    if (n > 0) b->len += (size_t)n;
    b->data[b->len] = 0;
}

char *buf_take(struct buf *b) {
    buf_reserve(b, 0);
    char *s = b->data;
    buf_init(b);
    return s;
}
