// SPDX-License-Identifier: MIT
/* base/err.c - error messages. Allocates nothing, so it works when memory is exhausted; neither
 * prints nor exits. Messages too long for the struct are truncated. */
#include "base/err.h" /* Its macros have the names of functions here. */

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "hone runs on little-endian machines only (base/bytes.h loads file integers directly)"
#endif

const struct err_status *err_status(int i) {
    static const struct err_status rows[] = {
#define STATUS(id, public_id, status, name, brief, meaning) {status, name, brief, meaning},
#include "base/status.def"
#undef STATUS
    };
    return i >= 0 && (size_t)i < COUNT_OF(rows) ? &rows[i] : NULL;
}

/* Clears everything that an earlier error set, except code and message. */
static void clear_details(struct err *e) {
    e->file[0] = e->tensor[0] = 0;
    e->no_memory = false;
}

/* Sets code and message. */
__attribute__((format(printf, 3, 0))) static void set(struct err *e, enum err_code code,
                                                      const char *fmt, va_list ap) {
    vsnprintf(e->msg, sizeof e->msg, fmt, ap);
    clear_details(e);
    e->code = code;
}

int(err_set)(struct err *e, enum err_code code, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    set(e, code, fmt, ap);
    va_end(ap);
    return (int)code;
}

int(err_memory)(struct err *e, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    set(e, ERR_SYS, fmt, ap);
    va_end(ap);
    e->no_memory = true;
    return ERR_SYS;
}

__attribute__((format(printf, 3, 0))) static void add_errno(struct err *e, int saved,
                                                            const char *fmt, va_list ap) {
    int n = vsnprintf(e->msg, sizeof e->msg, fmt, ap);
    size_t used = n < 0 ? 0 : (size_t)n;
    clear_details(e);
    e->no_memory = saved == ENOMEM;
    if (used < sizeof e->msg)
        snprintf(e->msg + used, sizeof e->msg - used, ": %s", strerror(saved));
}

int(err_sys)(struct err *e, const char *fmt, ...) {
    int saved = errno;
    va_list ap;
    va_start(ap, fmt);
    add_errno(e, saved, fmt, ap);
    va_end(ap);
    e->code = ERR_SYS;
    return ERR_SYS;
}

int(err_path)(struct err *e, const char *fmt, ...) {
    int saved = errno;
    va_list ap;
    va_start(ap, fmt);
    add_errno(e, saved, fmt, ap);
    va_end(ap);
    va_start(ap, fmt);
    snprintf(e->file, sizeof e->file, "%s", va_arg(ap, const char *));
    va_end(ap);
    e->code = saved == ENOENT || saved == ENOTDIR ? ERR_USAGE : ERR_SYS;
    return (int)e->code;
}

int(err_wrap)(struct err *e, const char *fmt, ...) {
    char old[sizeof e->msg];
    memcpy(old, e->msg, sizeof old);
    old[sizeof old - 1] = 0;
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(e->msg, sizeof e->msg, fmt, ap);
    va_end(ap);
    size_t used = n < 0 ? 0 : (size_t)n;
    bool said = used < sizeof old && strncmp(old, e->msg, used) == 0 &&
                (old[used] == ':' || old[used] == ' '); /* name a file only once */
    if (said)
        memcpy(e->msg, old, sizeof old);
    else if (used < sizeof e->msg)
        snprintf(e->msg + used, sizeof e->msg - used, ": %s", old);
    return (int)e->code;
}

int err_about(struct err *e, const char *file, const char *tensor) {
    if (file && !e->file[0]) snprintf(e->file, sizeof e->file, "%s", file);
    if (tensor && !e->tensor[0]) snprintf(e->tensor, sizeof e->tensor, "%s", tensor);
    return (int)e->code;
}
