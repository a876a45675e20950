// SPDX-License-Identifier: MIT
/* lib/call.h - what every handle of include/hone.h and every call on it have in common: whom
 * messages and progress go to, what cancels, the memory that is set aside, and errors in the form
 * that programs see.
 *
 * A handle has an owner; a call on it runs in a context of its own (base/ctx.h), so that calls on
 * one handle from several threads do not meet either. So a function of the library is
 *
 *     struct call c;
 *     int rc = call_begin(&c, h->owner, e);
 *     return rc ? rc : call_end(&c, work(h, &c.err), e); */
#ifndef HONE_LIB_CALL_H
#define HONE_LIB_CALL_H

#include <locale.h>

#include "base/ctx.h"
#include "base/err.h"
#include "base/mem.h"
#include "include/hone.h"
#include "work/work.h"

struct hone_cancel {
    atomic_bool on;
};

struct owner {
    atomic_int n_refs; /* a model's tokenizer, template and GGUF share one */
    struct hone_opts o;
    struct work_how how; /* what of o is about computing */
    struct mem_fund fund;
    char *file; /* what the handle was opened from; NULL: nothing */
};
/* Makes the owner of what a handle of `file` needs, with one holder. HONE_SYSTEM when there is
 * no memory, HONE_USAGE when o->size is not set. */
int owner_new(struct owner **out, const struct hone_opts *o, const char *file,
              struct hone_error *e);
/* Counts one holder more and returns w. */
struct owner *owner_share(struct owner *w);
/* Counts one holder less, and frees the owner when it was the last. w NULL: nothing happens. */
void owner_drop(struct owner *w);

struct form;
struct call {
    struct owner *owner;
    const struct form *form; /* whose words errors and messages have; NULL: those of handles */
    struct ctx ctx;
    struct ctx *callers;
    locale_t plain, locale;
    struct err err; /* what the call fills */
};
/* Enters the call's context; the decimal point is a point until call_end. When it returns anything
 * but HONE_OK, the context was not entered, and *e is filled. */
int call_begin(struct call *c, struct owner *w, struct hone_error *e);
/* Leaves it and says how it ended, rc being what the core said: the enum hone_status to return. */
int call_end(struct call *c, int rc, struct hone_error *e);

/* Fills e with an error that arose outside of any call, and returns its status. e may be NULL. */
int lib_error(struct hone_error *e, int status, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* Returns HONE_USAGE from a function of the library that was given no `x`, which must be there. */
#define NEED(x, e)                                                                                 \
    do {                                                                                           \
        if (!(x)) return lib_error(e, HONE_USAGE, "%s: " #x " is NULL", __func__);                 \
    } while (0)
/* Returns a handle of n zeroed bytes, which free() frees. Returns NULL, with *e filled, when there
 * is no memory. */
void *lib_new(size_t n, struct hone_error *e);

/* Copies what of a struct the caller's version of it has, behind its size. HONE_USAGE: no size. */
int lib_give(void *to, const void *from, size_t n, const char *what, struct hone_error *e);
/* Copies the caller's options (NULL: zeros) over a zeroed struct of n bytes. */
int lib_take(void *to, const void *from, size_t n, const char *what, struct hone_error *e);

#endif
