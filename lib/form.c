// SPDX-License-Identifier: MIT
/* lib/form.c - calls that run a job: begin and end, and copying of options by their rows
 * (form.h). */
#include "lib/form.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/os.h"

const struct form *form_list(int i) {
    static const struct form *const list[] = {forms_steps,     forms_evals, forms_files,
                                              forms_templates, forms_serve, forms_handles};
    return i >= 0 && (size_t)i < COUNT_OF(list) ? list[i] : NULL;
}

/* ---- values ---- */

/* Returns the double at p, which need not be aligned. */
static double number_at(const void *p) {
    double v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* Stores v in the double at `to`; a negative v stores 0, and 0 keeps the default. */
static void put_number(void *to, double v) {
    const double x = v < 0 ? 0 : v;
    if (v > 0 || v < 0) memcpy(to, &x, sizeof x);
}

/* Copies a count: 0 keeps the default, a negative one becomes 0. */
static void put_count(void *to, const void *from) {
    int64_t v;
    memcpy(&v, from, sizeof v);
    if (v < 0)
        v = 0;
    else if (!v)
        return;
    memcpy(to, &v, sizeof v);
}

/* Stores a number as text: 0 keeps the default, a negative one becomes 0. */
static void put_said(struct task *t, void *to, double v) {
    char text[40];
    if (!(v > 0 || v < 0)) return;
    snprintf(text, sizeof text, "%.17g", v < 0 ? 0 : v);
    const char *kept = arena_strdup(&t->w.mem, text);
    memcpy(to, &kept, sizeof kept);
}

/* Returns the `const char *` at p, which need not be aligned. */
static const char *text_at(const void *p) {
    const char *v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* Reads a flag: an int, or an int64_t if an int would have been in the padding of an older struct.
 */
static bool flag_at(const void *p, size_t n_bytes) {
    int64_t wide;
    int v;
    if (n_bytes == sizeof wide) {
        memcpy(&wide, p, sizeof wide);
        return wide != 0;
    }
    memcpy(&v, p, sizeof v);
    return v != 0;
}

struct str_list task_list(struct task *t, const char *const *texts) {
    struct str_list l = {0};
    for (int i = 0; texts && texts[i]; i++) work_list_add(&t->w, &l, texts[i]);
    return l;
}

/* Copies a list of texts; an empty one keeps the default. */
static void put_list(struct task *t, void *to, const void *from) {
    const char *const *texts;
    memcpy(&texts, from, sizeof texts);
    const struct str_list l = task_list(t, texts);
    if (l.n) memcpy(to, &l, sizeof l);
}

/* Copies the caller's value of option o to the job's member. */
static void put(struct task *t, const struct option *o, const struct placement *p, const char *own,
                char *job) {
    const void *from = own + p->from;
    void *to = job + o->at;
    if (p->how == PLACE_FORCE) t->w.overwrite = flag_at(from, p->n_bytes);
    if (p->how == PLACE_SAID) put_said(t, to, number_at(from));
    if (p->how != PLACE_COPIED) return;
    switch (o->kind) {
    case OPT_FLAG:
        if (flag_at(from, p->n_bytes)) *(bool *)to = true;
        return;
    case OPT_TEXT:
    case OPT_OUT:
        if (text_at(from)) memcpy(to, from, sizeof(char *));
        return;
    case OPT_LIST:
        put_list(t, to, from);
        return;
    case OPT_COUNT:
    case OPT_TOKENS:
        put_count(to, from);
        return;
    case OPT_NUMBER:
    case OPT_TIME:
    case OPT_HOURS:
        put_number(to, number_at(from));
        return;
    case OPT_SIZE: {
        uint64_t v;
        memcpy(&v, from, sizeof v);
        if (v) memcpy(to, &v, sizeof v);
        return;
    }
    }
}

/* Returns the place of row i in the options struct of a form, or NULL. */
static const struct placement *field_of(const struct form *f, int i) {
    const struct placement *p = &f->row[i].in[f->which];
    return p->how == PLACE_NONE || p->how == PLACE_ARGUMENT ? NULL : p;
}

/* Returns the name of a field that is set but belongs only to other forms with this struct, or
 * NULL. */
static const char *foreign(const struct form *f, const char *own) {
    static const char zero[sizeof(uint64_t)];
    for (int k = 0; form_list(k); k++)
        for (const struct form *g = form_list(k); g->call; g++)
            for (int i = 0; strcmp(g->opts, f->opts) == 0 && i < g->n; i++) {
                const struct placement *x = field_of(g, i);
                bool ours = !x;
                for (int j = 0; j < f->n && !ours; j++) {
                    const struct placement *y = field_of(f, j);
                    ours = y && y->from == x->from;
                }
                if (!ours && memcmp(own + x->from, zero, x->n_bytes) != 0) return x->name;
            }
    return NULL;
}

/* ---- calls ---- */

/* Begins a call: creates its owner and enters its context. `device`: from the call's own
 * options, which overrides o's; or NULL. */
static int begin(struct task *t, const struct hone_opts *o, const char *device, char **json,
                 struct hone_error *e) {
    memset(t, 0, sizeof *t);
    if (json) *json = NULL;
    int rc = owner_new(&t->owner, o, NULL, e);
    if (!rc) rc = call_begin(&t->c, t->owner, e);
    if (rc) {
        owner_drop(t->owner);
        return rc;
    }
    struct work_how how = t->owner->how;
    if (device) how.device = device;
    arena_init(&t->w.mem);
    t->w.ctx = &t->c.ctx;
    t->w.pre = t->owner->o.pre;
    t->w.tmp = t->owner->o.tmp ? t->owner->o.tmp : os_temp_dir();
    t->m = emit_new();
    rc = work_set(&t->w, &how, &t->c.err);
    return rc ? task_end(t, rc, json, e) : HONE_OK;
}

int task_begin(struct task *t, const struct hone_opts *o, char **json, struct hone_error *e) {
    return begin(t, o, NULL, json, e);
}

int task_begin_form(struct task *t, const struct form *f, const void *given, void *own, void *job,
                    const struct hone_opts *o, char **json, struct hone_error *e) {
    const char *device = NULL;
    if (json) *json = NULL;
    int rc = lib_take(own, given, f->size, f->opts, e);
    if (rc) return rc;
    const char *other = foreign(f, own);
    if (other) return lib_error(e, HONE_USAGE, "%s does not take %s.%s", f->call, f->opts, other);
    for (int i = 0; i < f->n; i++) {
        const struct placement *p = &f->row[i].in[f->which];
        if (p->how == PLACE_DEVICE) device = text_at((const char *)own + p->from);
    }
    rc = begin(t, o, device, json, e);
    if (!rc) t->c.form = f;
    for (int i = 0; i < f->n && !rc; i++) put(t, &f->row[i], &f->row[i].in[f->which], own, job);
    return rc;
}

int task_end(struct task *t, int rc, char **json, struct hone_error *e) {
    struct buf b = {0};
    if (json && (!rc || rc == ERR_VERDICT)) {
        if (!t->text.len) {
            emit_str(t->m, "hone_version", NULL, HONE_VERSION);
            emit_render(t->m, EMIT_JSON, &t->text);
        }
        b = t->text;
        t->text = (struct buf){0};
    }
    emit_free(t->m);
    buf_release(&t->text);
    arena_release(&t->w.mem);
    rc = call_end(&t->c, rc, e);
    owner_drop(t->owner);
    if (json && b.len)
        *json = buf_take(&b);
    else
        buf_release(&b);
    return rc;
}

int task_need(const char *path, bool is_needed, struct err *e) {
    return path || !is_needed ? 0 : err_set(e, ERR_USAGE, "the output path is missing");
}

void task_text(struct task *t, const char *name, const struct buf *text) {
    struct jw w;
    jw_init(&w, &t->text, true);
    jw_obj(&w, NULL);
    jw_str(&w, name, text->data ? text->data : "");
    jw_end(&w);
}
