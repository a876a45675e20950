// SPDX-License-Identifier: MIT
/* serve/served.c - setup of a loaded model for serving: template, tool-call format, scheduler,
 * compiled grammars and on-disk cache. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "runtime/generate/pictures_prompt.h"
#include "serve/generic.h"
#include "serve/server.h"
#include "template/chat_ends.h"

/* Sets the system_fingerprint: a hash of version, model and settings. */
static void set_fingerprint(struct served *d) {
    struct buf b = {0};
    buf_str(&b, HONE_VERSION " ");
    session_rows(d->core.s, &b);
    snprintf(d->fingerprint, sizeof d->fingerprint, "fp_%012llx",
             (unsigned long long)hash_u64(b.data, b.len) & 0xffffffffffffULL);
    buf_release(&b);
}

/* Opens the template and detects its tool-call format. */
static int open_template(struct served *d, struct err *e) {
    struct tok *tok = d->core.m->tok;
    const char *name = d->server->o.tmpl_name;
    int rc = 0;
    d->tmpl = d->file->tmpl;
    d->fmt = toolfmt_detect(d->tmpl, strlen(d->tmpl));
    if (*d->tmpl)
        rc = chat_with(&d->chat, d->tmpl, name ? name : "tokenizer.chat_template", tok, e);
    if (rc && !name)
        rc = err_wrap(e, "%s: its template needs to be replaced (--template FILE)", d->file->path);
    if (d->chat) chat_find_ends(d->chat, tok);
    d->generic = d->chat && (!d->fmt || !generic_shows_tools(d->chat));
    d->hides_calls = d->generic && generic_hides_calls(d->chat);
    d->keeps_null = d->chat && generic_keeps_null(d->chat);
    if (d->generic) d->fmt = toolfmt_find(GENERIC_FORMAT);
    if (!d->fmt) d->fmt = toolfmt_plain();
    return rc;
}

/* Finds the model's projector file: --mmproj or, with several files, for those that it does not
 * fit, the one next to the model. */
static int find_projector(struct served *d, const struct serve_opts *o, struct err *e) {
    struct err why;
    if (o->mmproj) {
        const int rc = pictures_fit_file(o->mmproj, d->core.m, e);
        if (!rc) d->mmproj = xstrdup(o->mmproj);
        if (!rc || o->n_files == 1) return rc;
    }
    if (pictures_find(d->core.m, d->file->path, &d->mmproj, &why))
        log_warn("%s; images are refused", why.msg);
    return 0;
}

int served_new(struct served **out, struct server *s, int i, const struct serve_core *c,
               struct err *e) {
    const struct serve_opts *o = &s->o;
    struct served *d = xcalloc(1, sizeof *d);
    struct sched_opts so = {.n_live = o->n_live,
                            .n_queue = o->n_queue,
                            .n_bytes = c->context_bytes,
                            .max_step_s = o->max_step_s,
                            .draft = o->draft,
                            .drafter = c->drafter};
    struct err why = {0};
    d->server = s;
    d->index = i;
    d->file = &o->file[i];
    d->core = *c;
    int rc = open_template(d, e);
    set_fingerprint(d);
    if (!rc) rc = find_projector(d, o, e);
    d->guards = guards_new(c->m->tok, d->fmt, (enum guards_mode)o->constrain, o->open_objects);
    if (o->cache_dir && prefix_disk_open(&d->shelf, c->s, o->cache_dir, o->cache_bytes, &why))
        log_warn("--cache-dir: %s; the on-disk cache is off", why.msg);
    so.shelf = d->shelf;
    if (!rc) rc = sched_new(&d->sched, c->s, &so, e);
    if (rc) {
        served_free(d);
        return rc;
    }
    *out = d;
    return 0;
}

void served_free(struct served *d) {
    if (!d) return;
    sched_free(d->sched);
    prefix_disk_free(d->shelf);
    guards_free(d->guards);
    chat_free(d->chat);
    pictures_free(d->pictures);
    free(d->mmproj);
    buf_release(&d->slots);
    free(d);
}
