// SPDX-License-Identifier: MIT
/* make/template.c - the chat template of the files: repaired if it has defects, unless --template
 * keep was given. The base keeps its own template. Whatever that template renders correctly, the
 * repaired one renders identically. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/str.h"
#include "make/make.h"
#include "template/chat_src.h"
#include "template/judge.h"
#include "text/shell.h"

/* Adds a note about the repairs, by rule, to the card and the report. */
static void note_repairs(struct make *mk, const struct repair *r, int after) {
    struct buf rules = {0};
    int n = 0;
    for (int i = 0; i < r->n; i++) {
        bool seen = false;
        for (int k = 0; k < i; k++) seen |= strcmp(r->v[k].rule, r->v[i].rule) == 0;
        if (!seen) buf_fmt(&rules, "%s%s", n++ ? ", " : "", r->v[i].rule);
    }
    if (after)
        buf_fmt(&rules, "; %d error%s left, see hone template lint", after, str_s(after));
    else
        buf_str(&rules, "; hone template lint --explain RULE explains each");
    make_note(mk,
              "the chat template was repaired, %d kind%s of defect (%s); --template keep prevents "
              "this",
              n, str_s(n), rules.data);
    log_info("%s", mk->notes.v[mk->notes.n - 1]);
    buf_release(&rules);
}

/* Uses the repaired template, or logs that no repair is known. */
static void use_repair(struct make *mk, const struct template_verdict *v) {
    if (v->repair.n) {
        mk->tmpl = arena_strdup(&mk->w->mem, v->repair.text.data);
        hash_xxh128_hex(mk->tmpl_hash, mk->tmpl, strlen(mk->tmpl));
        note_repairs(mk, &v->repair, v->n_left);
    } else if (!v->unusable) {
        log_info(
            "the chat template has %d defect%s with no known repair: see hone template lint %s",
            v->n_errors, str_s(v->n_errors), mk->src);
    }
}

static bool keeps(const struct make *mk) {
    return mk->tmpl_how && strcmp(mk->tmpl_how, "keep") == 0;
}

/* Returns whether no conversation can use the template of the job's files. */
static bool stays_unusable(const struct make *mk, const struct template_verdict *v) {
    return v->unusable && (!v->repair.n || keeps(mk));
}

int make_template(struct make *mk, struct err *e) {
    struct template_verdict v;
    struct gguf *g;
    if (mk->tmpl) return 0;
    TRY(gguf_open(&g, mk->file[0].path, GGUF_TOLERANT, e));
    const char *text = gguf_str_or(g, "tokenizer.chat_template", "");
    /* A template that cannot be judged, e.g. because it needs too many steps, stays unchanged. */
    int rc = *text ? template_judge(&v, text, strlen(text), REPAIR_ERRORS, e) : 0;
    mk->tmpl_fault = NULL;
    if (*text && !rc) {
        if (v.n_errors && !keeps(mk)) use_repair(mk, &v);
        if (stays_unusable(mk, &v)) {
            mk->tmpl_fault = arena_strdup(&mk->w->mem, v.why);
            make_note(mk, "no conversation can use the chat template: %s", v.why);
        }
        template_verdict_free(&v);
    }
    gguf_close(g);
    return rc;
}

int make_look_at_template(struct make *mk, struct err *e) {
    struct template_verdict v;
    struct chat_src s;
    struct err ignored;
    struct buf how = {0};
    if (chat_src_open(&s, mk->src, NULL, &ignored)) return 0;
    int rc = template_judge(&v, s.text, s.len, REPAIR_UNUSABLE, e);
    if (!rc && stays_unusable(mk, &v)) {
        template_remedy(&v, mk->src, &how);
        mk->tmpl_fault = arena_strdup(&mk->w->mem, v.why);
        log_warn("%s: %s; before the work: %s", s.label, v.why, how.data);
    }
    if (!rc) template_verdict_free(&v);
    buf_release(&how);
    chat_src_close(&s);
    return rc;
}

void make_say_fault(const struct make *mk, struct buf *out) {
    struct template_verdict v;
    struct gguf *g;
    struct err ignored;
    const char *path = mk->n_files ? mk->file[mk->n_files - 1].path : NULL;
    if (!mk->tmpl_fault || !path || gguf_open(&g, path, GGUF_TOLERANT, &ignored)) return;
    const char *text = gguf_str_or(g, "tokenizer.chat_template", "");
    if (template_judge(&v, text, strlen(text), REPAIR_ERRORS, &ignored) == 0) {
        buf_fmt(out, "Do not publish these files yet: %s; in each of them: ", v.why);
        template_remedy(&v, path, out);
        buf_str(out, "; then hone publish ");
        shell_word(out, mk->job.dir);
        buf_chr(out, '.');
        template_verdict_free(&v);
    }
    gguf_close(g);
}

void make_key_template(const struct make *mk, struct step *s) {
    if (mk->tmpl) step_key(s, "template", "%s", mk->tmpl_hash);
}
