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
#include "template/lint.h"
#include "template/repair.h"

/* Sets *n to the number of errors that the linter finds. */
static int count_errors(const char *text, size_t len, const char *name, int *n, struct err *e) {
    struct lint_report r;
    TRY(lint_run(&r, text, len, name, JINJA_HF, e));
    *n = r.n_by[LINT_ERROR];
    lint_report_free(&r);
    return 0;
}

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
        buf_fmt(&rules, "; %d are left, see hone template lint", after);
    else
        buf_str(&rules, "; hone template lint --explain RULE explains each");
    make_note(mk,
              "the chat template was repaired, %d kind%s of defect (%s); --template keep prevents "
              "this",
              n, str_s(n), rules.data);
    log_info("%s", mk->notes.v[mk->notes.n - 1]);
    buf_release(&rules);
}

/* Repairs the model's chat template if that removes defects. before: its number of defects. */
static int repair_template(struct make *mk, const char *text, int before, struct err *e) {
    struct repair r;
    int after = before, rc;
    TRY(repair_run(&r, text, strlen(text), "the chat template", NULL, 0, e));
    rc = r.n ? count_errors(r.text.data, r.text.len, "the repaired template", &after, e) : 0;
    if (!rc && after < before) {
        mk->tmpl = arena_strdup(&mk->w->mem, r.text.data);
        hash_xxh128_hex(mk->tmpl_hash, mk->tmpl, strlen(mk->tmpl));
        note_repairs(mk, &r, after);
    } else if (!rc) {
        log_info("the chat template has %d defect%s with no known repair: see hone template lint",
                 before, str_s(before));
    }
    repair_free(&r);
    return rc;
}

int make_template(struct make *mk, struct err *e) {
    struct gguf *g;
    int n;
    if (mk->tmpl || (mk->tmpl_how && strcmp(mk->tmpl_how, "keep") == 0)) return 0;
    TRY(gguf_open(&g, mk->file[0].path, GGUF_TOLERANT, e));
    const char *text = gguf_str_or(g, "tokenizer.chat_template", "");
    struct err why;
    int rc = 0;
    /* A template that cannot be judged, e.g. because it needs too many steps, stays unchanged. */
    if (*text && count_errors(text, strlen(text), "the chat template", &n, &why) == 0 && n)
        rc = repair_template(mk, text, n, e);
    else if (progress_interrupted())
        rc = err_set(e, ERR_INTR, "interrupted");
    gguf_close(g);
    return rc;
}

void make_key_template(const struct make *mk, struct step *s) {
    if (mk->tmpl) step_key(s, "template", "%s", mk->tmpl_hash);
}
