// SPDX-License-Identifier: MIT
/* template/chat_batch.c - batches of renderings: one template over scenarios, or small templates,
 * each with its own variables. Failures of a template are results here, not errors. */
#include "template/chat_batch.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "template/chat_vars.h"

bool chat_clock(const char *text, int64_t *now) {
    struct tm tm = {0};
    char extra;
    int n = sscanf(text, "%4d-%2d-%2d%*1[T ]%2d:%2d:%2d%c", &tm.tm_year, &tm.tm_mon, &tm.tm_mday,
                   &tm.tm_hour, &tm.tm_min, &tm.tm_sec, &extra);
    if (n != 6 && n != 3) return false;
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    *now = (int64_t)timegm(&tm);
    return true;
}

/* Returns the document's "clock" as Unix time; -1: missing or malformed. */
static int64_t clock_of(struct jval doc) {
    struct jval v = chat_member(doc, "clock");
    char text[32] = "";
    int64_t now = -1;
    if (v.tag == JT_STR && v.len < sizeof text) memcpy(text, v.u.s, v.len);
    if (text[0]) chat_clock(text, &now);
    return now;
}

/* Writes a rendering as a string, or a failure (rc not 0) as an object, under the name `id`. */
static void put_result(struct jw *w, const char *id, int rc, const struct buf *text,
                       const struct jinja_err *je) {
    if (!rc) {
        jw_strn(w, id, text->data ? text->data : "", text->len);
        return;
    }
    jw_obj(w, id);
    jw_str(w, "error", je->msg);
    jw_str(w, "kind", je->type);
    jw_end(w);
}

/* Copies the item's "id", truncated to 127 bytes; "" if it is not a string. */
static void id_text(struct jval item, char out[128]) {
    struct jval id = chat_member(item, "id");
    size_t n = id.tag == JT_STR ? id.len : 0;
    if (n > 127) n = 127;
    if (n) memcpy(out, id.u.s, n);
    out[n] = 0;
}

int chat_batch_render(const char *tmpl, size_t tmpl_len, const char *name, enum jinja_mode mode,
                      const char *scenarios, size_t len, const char *what, struct buf *out,
                      struct err *e) {
    struct jdoc doc;
    struct jinja *t = NULL;
    struct jinja_err compile_err, je;
    TRY(jdoc_parse(&doc, scenarios, len, what, e));
    struct jval list = chat_member(doc.root, "scenarios");
    int rc = 0;
    if (list.tag != JT_LIST) rc = err_set(e, ERR_DATA, "%s: no \"scenarios\" list", what);
    int crc = rc ? rc : jinja_compile_mode(&t, tmpl, tmpl_len, name, mode, &compile_err, e);
    struct jw w;
    jw_init(&w, out, false);
    if (!rc) jw_obj(&w, NULL);
    for (uint32_t i = 0; !rc && i < list.u.list->n; i++) {
        struct jval sc = list.u.list->v[i];
        struct buf text = {0};
        char id[128];
        struct chat_case k = chat_case_of(sc, chat_member(doc.root, "defaults"));
        struct err ignored;
        k.now = clock_of(doc.root);
        id_text(sc, id);
        int frc = crc ? crc : chat_case_render(t, &k, &text, &je, &ignored);
        put_result(&w, id, frc, &text, crc ? &compile_err : &je);
        buf_release(&text);
    }
    if (!rc) jw_end(&w);
    jinja_free(t);
    jdoc_release(&doc);
    return rc;
}

/* Returns the "context" of the item `ctx` as variables; an empty dict if that is not a dict. */
static struct jval unit_vars(struct jctx *c, void *ctx) {
    struct jval v = chat_member(*(const struct jval *)ctx, "context");
    return v.tag == JT_DICT ? (c->t->lenient ? jv_clone(c, v) : v) : jv_dict(c, 0);
}

int chat_batch_eval(const char *units, size_t len, const char *what, enum jinja_mode mode,
                    struct buf *out, struct err *e) {
    struct jdoc doc;
    TRY(jdoc_parse(&doc, units, len, what, e));
    struct jval list = chat_member(doc.root, "units");
    int64_t now = clock_of(chat_member(doc.root, "engine"));
    int rc = 0;
    if (list.tag != JT_LIST) rc = err_set(e, ERR_DATA, "%s: no \"units\" list", what);
    struct jw w;
    jw_init(&w, out, false);
    if (!rc) jw_obj(&w, NULL);
    for (uint32_t i = 0; !rc && i < list.u.list->n; i++) {
        struct jval u = list.u.list->v[i], src = chat_member(u, "template");
        struct jinja *t = NULL;
        struct jinja_err je = {0};
        struct buf text = {0};
        char id[128];
        struct err ignored;
        id_text(u, id);
        if (src.tag != JT_STR) src = jv_str("");
        int frc = jinja_compile_mode(&t, src.u.s, src.len, id, mode, &je, &ignored);
        if (!frc) frc = jinja_render_fn(t, unit_vars, &u, now, NULL, &text, &je, &ignored);
        put_result(&w, id, frc, &text, &je);
        buf_release(&text);
        jinja_free(t);
    }
    if (!rc) jw_end(&w);
    jdoc_release(&doc);
    return rc;
}
