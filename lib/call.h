// SPDX-License-Identifier: MIT
/* lib/call.h - context of the library's handles and calls: messages, progress, cancellation, memory
 * limits and errors.
 *
 * A handle has an owner. A call on it runs in its own context (base/ctx.h), so that calls on one
 * handle from several threads stay separate. A function of the library has this form:
 *
 *     struct call c;
 *     int rc = call_begin(&c, h->owner, e);
 *     return rc ? rc : call_end(&c, work(h, &c.err), e); */
#ifndef HONE_LIB_CALL_H
#define HONE_LIB_CALL_H

#include "base/ctx.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/os.h"
#include "include/hone.h"
#include "work/work.h"

struct hone_cancel {
    atomic_bool on;
};

struct owner {
    atomic_int n_refs; /* handles; a model shares its owner with its tokenizer, template and GGUF */
    struct hone_opts o;
    struct work_how how; /* the options in o that affect computation */
    struct mem_fund fund;
    char *file; /* path the handle was opened from, or NULL */
};
/* Creates an owner for a handle of `file` (or NULL), with one reference. HONE_SYSTEM: out of
 * memory. HONE_USAGE: o->size is not set. */
int owner_new(struct owner **out, const struct hone_opts *o, const char *file,
              struct hone_error *e);
/* Adds a reference and returns w. */
struct owner *owner_share(struct owner *w);
/* Drops a reference, and frees the owner with the last one. w may be NULL. */
void owner_drop(struct owner *w);

struct form;
struct call {
    struct owner *owner;
    /* How messages name options: as fields of this call; NULL: as fields of the handles. */
    const struct form *form;
    struct ctx ctx;
    struct ctx *callers;
    struct os_locale locale;
    struct err err; /* error of the call's work */
};
/* Enters the call's context, with the C locale's decimal point until call_end. On failure fills *e
 * and does not enter the context. */
int call_begin(struct call *c, struct owner *w, struct hone_error *e);
/* Leaves the context, fills *e from c->err, and returns the enum hone_status for rc, the status of
 * the work. */
int call_end(struct call *c, int rc, struct hone_error *e);

/* Fills e, which may be NULL, with an error from outside a call. Returns status. */
int lib_error(struct hone_error *e, int status, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* Returns HONE_USAGE from the calling function if the required argument x is NULL. */
#define NEED(x, e)                                                                                 \
    do {                                                                                           \
        if (!(x)) return lib_error(e, HONE_USAGE, "%s: " #x " is NULL", __func__);                 \
    } while (0)
/* Allocates n zeroed bytes for a handle; free() frees them. Out of memory: fills *e, returns NULL.
 */
void *lib_new(size_t n, struct hone_error *e);

/* Copies a result struct of n bytes to the caller's struct, at most the bytes in its size field.
 * HONE_USAGE if that is not set. */
int lib_give(void *to, const void *from, size_t n, const char *what, struct hone_error *e);
/* Copies the caller's options, which may be NULL, to a zeroed struct of n bytes. */
int lib_take(void *to, const void *from, size_t n, const char *what, struct hone_error *e);

#endif
