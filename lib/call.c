// SPDX-License-Identifier: MIT
/* lib/call.c - owners of handles, the context of each call, and conversion of errors (call.h). */
#include "lib/call.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/progress.h"
#include "lib/spell.h"

/* ---- errors ---- */

int lib_error(struct hone_error *e, int status, const char *fmt, ...) {
    va_list ap;
    if (!e) return status;
    memset(e, 0, sizeof *e);
    e->status = status;
    va_start(ap, fmt);
    vsnprintf(e->message, sizeof e->message, fmt, ap);
    va_end(ap);
    return status;
}

/* Converts the internal error *err to *e, with option names spelled as in form f. If err names no
 * file, `file` is used. */
static int show(struct hone_error *e, int status, const struct form *f, const struct err *err,
                const char *file) {
    if (!e) return status;
    lib_error(e, status, "%s", "");
    spell(f, err->msg, e->message, sizeof e->message);
    snprintf(e->file, sizeof e->file, "%s", err->file[0] ? err->file : file ? file : "");
    snprintf(e->tensor, sizeof e->tensor, "%s", err->tensor);
    return status;
}

void *lib_new(size_t n, struct hone_error *e) {
    void *p = calloc(1, n);
    if (!p) lib_error(e, HONE_SYSTEM, "out of memory (%zu bytes requested)", n);
    return p;
}

/* ---- structs of other versions ---- */

/* Returns the size of a caller's struct, which its first member holds. */
static size_t size_of(const void *p) {
    size_t n;
    memcpy(&n, p, sizeof n);
    return n;
}

int lib_give(void *to, const void *from, size_t n, const char *what, struct hone_error *e) {
    const size_t have = size_of(to), head = sizeof have;
    if (have < head) return lib_error(e, HONE_USAGE, "%s.size is not set", what);
    memcpy((char *)to + head, (const char *)from + head, (have < n ? have : n) - head);
    return HONE_OK;
}

int lib_take(void *to, const void *from, size_t n, const char *what, struct hone_error *e) {
    memset(to, 0, n);
    if (!from) return HONE_OK;
    const size_t have = size_of(from);
    if (have < sizeof have) return lib_error(e, HONE_USAGE, "%s.size is not set", what);
    memcpy(to, from, have < n ? have : n);
    return HONE_OK;
}

/* ---- jobs ---- */

int owner_new(struct owner **out, const struct hone_opts *o, const char *file,
              struct hone_error *e) {
    struct hone_opts own;
    struct err err;
    *out = NULL;
    int rc = lib_take(&own, o, sizeof own, "hone_opts", e);
    if (rc) return rc;
    struct owner *w = lib_new(sizeof *w, e);
    if (!w) return HONE_SYSTEM;
    w->o = own;
    w->o.size = sizeof own;
    w->how = (struct work_how){.threads = own.n_threads,
                               .stream_from = own.stream_from < 0    ? 0
                                              : own.stream_from == 0 ? -1
                                                                     : own.stream_from,
                               .max_memory = own.max_memory,
                               .device = own.device,
                               .isa = own.isa,
                               .max_vram = own.max_vram,
                               .place = own.place,
                               .pack_cache = own.pack_cache,
                               .untrusted = own.untrusted != 0};
    atomic_store(&w->n_refs, 1);
    if (file && !(w->file = strdup(file)))
        rc = lib_error(e, HONE_SYSTEM, "out of memory");
    else if (mem_fund_fill(&w->fund, &err))
        rc = show(e, HONE_SYSTEM, NULL, &err, file);
    if (rc)
        owner_drop(w);
    else
        *out = w;
    return rc;
}

struct owner *owner_share(struct owner *w) {
    atomic_fetch_add(&w->n_refs, 1);
    return w;
}

void owner_drop(struct owner *w) {
    if (!w || atomic_fetch_sub(&w->n_refs, 1) != 1) return;
    mem_fund_release(&w->fund);
    free(w->file);
    free(w);
}

/* ---- calls ---- */

/* Passes a message to the caller's function, with names spelled as in the API. */
static void on_log(void *ud, enum log_level level, const char *text) {
    const struct call *c = ud;
    char said[2048];
    spell(c->form, text, said, sizeof said);
    c->owner->o.log(c->owner->o.user, (enum hone_level)level, said);
}

/* Passes progress to the caller's function; if that returns nonzero, the work stops. */
static int on_progress(void *ud, const char *stage, uint64_t done, uint64_t total) {
    const struct owner *w = ud;
    return w->o.progress ? w->o.progress(w->o.user, stage, done, total) : 0;
}

int call_begin(struct call *c, struct owner *w, struct hone_error *e) {
    if (mem_fund_fill(&w->fund, &c->err)) return show(e, HONE_SYSTEM, NULL, &c->err, w->file);
    if (!os_locale_c(&c->locale)) return lib_error(e, HONE_SYSTEM, "out of memory");
    c->owner = w;
    c->form = NULL;
    memset(&c->err, 0, sizeof c->err);
    ctx_init(&c->ctx);
    c->ctx.fund = &w->fund;
    c->ctx.stop = w->o.cancel ? &w->o.cancel->on : NULL;
    atomic_store(&c->ctx.untrusted, w->o.untrusted != 0);
    if (!w->o.log) atomic_store(&c->ctx.log.level, LOG_WARN);
    c->callers = ctx_enter(&c->ctx);
    log_set_sink(w->o.log ? on_log : NULL, c);
    progress_set_sink(on_progress, w);
    return HONE_OK;
}

/* Fills *e with the reason why a call was stopped: cancellation, or out of memory. */
static int stopped(struct call *c, struct hone_error *e) {
    if (atomic_load(&c->owner->fund.spent) && !(c->ctx.stop && atomic_load(c->ctx.stop))) {
        err_set(&c->err, ERR_SYS, "out of memory; close other programs or choose a smaller job");
        return show(e, HONE_SYSTEM, c->form, &c->err, c->owner->file);
    }
    return show(e, HONE_CANCELLED, c->form, &c->err, c->owner->file);
}

int call_end(struct call *c, int rc, struct hone_error *e) {
    os_locale_back(&c->locale);
    ctx_release(&c->ctx);
    ctx_enter(c->callers);
    if (rc == 0) {
        lib_error(e, HONE_OK, "%s", "");
        return HONE_OK;
    }
    /* A failed allocation may have been reported as an error in the input. */
    const bool lacked = rc != ERR_SYS && atomic_load(&c->owner->fund.spent);
    return rc == ERR_INTR || lacked ? stopped(c, e) : show(e, rc, c->form, &c->err, c->owner->file);
}

/* ---- calls without a handle ---- */

const char *hone_version(void) {
    return HONE_VERSION;
}

#define STATUS(id, public_id, status, name, brief, meaning)                                        \
    _Static_assert((int)HONE_##public_id == (int)ERR_##id, "status of hone.h: " name);
#include "base/status.def"
#undef STATUS

const char *hone_status_name(int status) {
    const struct err_status *s;
    for (int i = 0; (s = err_status(i)) != NULL; i++)
        if (s->status == status) return s->name;
    return "?";
}

void hone_free(void *p) {
    free(p);
}

struct hone_cancel *hone_cancel_new(void) {
    return calloc(1, sizeof(struct hone_cancel));
}

void hone_cancel_now(struct hone_cancel *c) {
    if (c) atomic_store(&c->on, true);
}

/* Undoes a cancellation so that the handle can be used again; c may be NULL. */
void hone_cancel_reset(struct hone_cancel *c) {
    if (c) atomic_store(&c->on, false);
}

void hone_cancel_free(struct hone_cancel *c) {
    free(c);
}
