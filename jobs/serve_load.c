// SPDX-License-Identifier: MIT
/* jobs/serve_load.c - loading and closing of a server's files (serve_files.h). */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "jobs/serve_files.h"
#include "models/sizes.h"
#include "runtime/engine/kv_type.h"
#include "runtime/engine/model.h"
#include "runtime/generate/drafter.h"
#include "serve/sched.h"

/* Limits *bytes to the free memory of the opened device, or of main memory, and checks that one
 * context fits. */
static int check_room(const struct serve_files *f, const struct session *s, int64_t n_ctx,
                      uint64_t *bytes, struct err *e) {
    const uint64_t one = session_seq_bytes(s, n_ctx) + session_seq_bytes(s, 1);
    uint64_t room = session_room(s);
    if (room == UINT64_MAX && f->w->device.kind == DEVICE_AUTO && !f->a->context_memory)
        room = max_u64(serve_files_main(), one);
    if (room < *bytes) {
        if (f->a->context_memory)
            log_warn("--context-memory: the device has room for %" PRIu64 " MiB", room >> 20);
        *bytes = room;
    }
    if (one <= *bytes) return 0;
    return serve_files_no_context(f, n_ctx, one, *bytes, e);
}

/* Opens the session of a loaded model. */
static int open_session(struct serve_files *f, struct serve_file *x, struct serve_core *c,
                        struct err *e) {
    struct session_opts so = {.isa = f->w->isa,
                              .device = f->w->device,
                              .pool = f->w->pool,
                              .pack = true,
                              .pack_cache = f->w->pack_cache,
                              .kv_k = f->kv_k,
                              .kv_v = f->kv_v,
                              .n_ctx = x->n_ctx,
                              .guests = true,
                              .whole = true};
    TRY(act_parse(f->a->act, &so.act, e));
    c->context_bytes = f->context_bytes;
    return session_new(&c->s, c->m, &so, e);
}

/* Opens the MTP block for --draft mtp, or a draft file. With several files, a file that has no
 * block, or whose draft cannot be used here, is served without it. */
static int open_drafter(const struct serve_files *f, struct serve_core *c, struct err *e) {
    int rc = 0;
    if (!f->a->draft || strcmp(f->a->draft, "off") == 0) return 0;
    if (!sched_can_draft(c->s))
        rc = err_set(e, ERR_USAGE,
                     "--draft: on a device each guess would need a separate pass, since this "
                     "model's states cannot be rolled back: use --draft off, or "
                     "--device cpu");
    else if (strcmp(f->a->draft, "auto") != 0)
        rc = drafter_open(&c->drafter, c->s, f->a->draft, e);
    if ((rc != ERR_DATA && rc != ERR_USAGE) || f->n == 1) return rc;
    log_warn("%s; this file is served without --draft", e->msg);
    return 0;
}

int serve_files_load(void *ud, int i, struct serve_core *out, struct err *e) {
    struct serve_files *f = ud;
    struct serve_core c = {0};
    int rc = model_open(&c.m, f->v[i].path, e);
    if (!rc) rc = model_use_pre(c.m, f->a->pre, e);
    if (!rc) rc = model_need_tok(c.m, e);
    if (!rc && f->v[i].wrong) rc = err_set(e, ERR_DATA, "%s", f->v[i].wrong);
    if (!rc) rc = open_session(f, &f->v[i], &c, e);
    if (!rc) rc = open_drafter(f, &c, e);
    if (!rc) rc = check_room(f, c.s, f->v[i].n_ctx, &c.context_bytes, e);
    if (!rc && f->n == 1) f->context_bytes = c.context_bytes; /* for the log at startup */
    if (rc)
        serve_files_unload(ud, i, &c);
    else
        *out = c;
    return rc;
}

void serve_files_unload(void *ud, int i, struct serve_core *c) {
    (void)ud, (void)i;
    drafter_close(c->drafter);
    session_free(c->s);
    model_close(c->m);
}
