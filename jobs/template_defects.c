// SPDX-License-Identifier: MIT
/* jobs/template_defects.c - hone template lint and fix: defects of a chat template and repairs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "jobs/meta_job.h"
#include "jobs/template_defects.h"
#include "jobs/template_prove.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/out.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "template/add_tools.h"
#include "template/chat_src.h"
#include "template/fix_diff.h"
#include "template/judge.h"
#include "template/lint.h"
#include "template/lint_rules.h"
#include "template/own.h"
#include "template/repair.h"
#include "text/shell.h"
#include "chat/toolfmt.h"
#include "containers/gguf.h"

/* Writes the SHA-256 of n bytes. */
static void sha_of(const char *s, size_t n, char hex[65]) {
    struct sha256 h;
    sha256_init(&h);
    sha256_add(&h, s, n);
    sha256_hex(&h, hex);
}

/* ---- lint ------------------------------------------------------------------------------------ */

/* Writes a text cell; an empty one for NULL. */
static void cell_text(struct emit *m, const char *s) {
    if (s)
        emit_cell_str(m, s);
    else
        emit_cell_none(m);
}

/* Emits every finding in full; in tables for people, only if `all` is set. */
static void emit_findings(struct emit *m, const struct lint_report *r, bool all) {
    emit_table(m, "findings", all ? "findings" : NULL);
    emit_col(m, "severity", "severity");
    emit_col(m, "rule", "rule");
    emit_col(m, "line", "line");
    emit_col(m, "col", NULL);
    emit_col(m, "outcome", "outcome");
    emit_col(m, "probe", NULL);
    emit_col(m, "client", NULL);
    emit_col(m, "consequence", NULL);
    emit_col(m, "cause", "consequence of");
    emit_col(m, "diverges_at", NULL);
    emit_col(m, "bytes_lost", NULL);
    emit_col(m, "detail", NULL);
    emit_col(m, "conversation", NULL);
    for (int s = LINT_ERROR; s >= LINT_INFO; s--)
        for (int i = 0; i < r->n; i++) {
            const struct lint_finding *f = &r->v[i];
            struct buf conv = {0};
            if ((int)f->severity != s) continue;
            emit_row(m);
            emit_cell_str(m, lint_severity_name(f->severity));
            emit_cell_str(m, f->rule);
            if (f->line) {
                emit_cell_i64(m, f->line);
                emit_cell_i64(m, f->col);
            } else {
                emit_cell_none(m);
                emit_cell_none(m);
            }
            emit_cell_str(m, f->outcome);
            cell_text(m, f->probe);
            cell_text(m, f->client);
            cell_text(m, f->consequence);
            cell_text(m, f->cause);
            if (f->lost) {
                emit_cell_i64(m, f->at);
                emit_cell_i64(m, f->lost);
            } else {
                emit_cell_none(m);
                emit_cell_none(m);
            }
            emit_cell_str(m, f->detail);
            lint_conversation(f, &conv);
            emit_cell_str(m, conv.data ? conv.data : "");
            buf_release(&conv);
        }
}

/* Emits the findings of one severity by rule: their number and, for errors, the place and the
 * affected use. */
static void emit_by_rule(struct emit *m, const struct lint_report *r, enum lint_severity s,
                         const char *key) {
    bool error = s == LINT_ERROR;
    if (!r->n_by[s]) return;
    emit_table(m, key, key);
    emit_col(m, "rule", "rule");
    emit_col(m, "times", "times");
    if (error) emit_col(m, "line", "line");
    emit_col(m, "meaning", "meaning");
    if (error) emit_col(m, "client", "affected clients");
    if (error) emit_col(m, "consequence", "what happens");
    for (int i = 0; i < r->n; i++) {
        const struct lint_finding *f = &r->v[i];
        int n = 0;
        bool first = true;
        for (int k = 0; k < r->n; k++) {
            if (r->v[k].severity != s || strcmp(r->v[k].rule, f->rule) != 0) continue;
            first = first && k >= i;
            n++;
        }
        if (f->severity != s || !first) continue;
        emit_row(m);
        emit_cell_str(m, f->rule);
        emit_cell_i64(m, n);
        if (error && f->line) emit_cell_i64(m, f->line);
        if (error && !f->line) emit_cell_none(m);
        const struct lint_rule *rule = lint_rule_find(f->rule);
        cell_text(m, rule ? rule->meaning : NULL);
        if (error) cell_text(m, f->client);
        if (error) cell_text(m, f->consequence);
    }
}

/* Emits an explanation of each broken rule. */
static void emit_meanings(struct emit *m, const struct lint_report *r, bool all) {
    if (!r->n) return;
    emit_table(m, "rules", all ? "meanings" : NULL);
    emit_col(m, "rule", "rule");
    emit_col(m, "meaning", "meaning");
    emit_col(m, "remedy", NULL);
    for (int i = 0; i < lint_rule_count(); i++) {
        const struct lint_rule *rule = lint_rule_at(i);
        bool here = false;
        for (int k = 0; k < r->n; k++) here |= strcmp(r->v[k].rule, rule->name) == 0;
        if (!here) continue;
        emit_row(m);
        emit_cell_str(m, rule->name);
        emit_cell_str(m, rule->meaning);
        emit_cell_str(m, rule->remedy);
    }
}

/* Emits the template's capabilities: "tools, calls, thinking". */
static void emit_caps(struct emit *m, const struct lint_caps *c) {
    struct buf can = {0};
    const struct {
        bool can;
        const char *what;
    } all[] = {{c->system, "system message"},
               {c->tools, "tools"},
               {c->calls, "calls"},
               {c->thinks, "thinking"},
               {c->reads, "earlier thinking"}};
    for (size_t i = 0; i < COUNT_OF(all); i++)
        if (all[i].can) buf_fmt(&can, "%s%s", can.len ? ", " : "", all[i].what);
    emit_str(m, "renders", "renders",
             can.len       ? can.data
             : c->messages ? "plain turns only"
                           : "no message");
    buf_release(&can);
}

/* Returns whether the template is exactly the built-in one. */
static bool is_own(const struct own_template *own, const char *text, size_t len) {
    return own_len(own) == len && memcmp(own->text, text, len) == 0;
}

/* Appends advice on how to repair the template: by repairs that remove errors, by our own template,
 * or not by hone. name: the template's name in the source; NULL: the default. */
static int what_to_do(struct buf *out, const struct chat_src *s, const char *src, const char *name,
                      struct err *e) {
    struct template_verdict v;
    struct buf arg = {0};
    TRY(template_judge(&v, s->text, s->len, REPAIR_ERRORS, e));
    shell_word(&arg, src);
    if (name) buf_str(&arg, " --name ");
    if (name) shell_word(&arg, name);
    if (v.repair.n) {
        buf_fmt(out, " Repair: hone template fix %s (%d repair%s", arg.data, v.repair.n,
                str_s(v.repair.n));
        if (v.n_left) buf_fmt(out, ", which leave %d error%s", v.n_left, str_s(v.n_left));
        buf_str(out, ").");
    } else if (v.own) {
        buf_fmt(out,
                " Repair: hone template fix %s --replace %s replaces it with hone's own template.",
                arg.data, v.own->name);
    } else {
        buf_str(out, " hone has no repair for this: use the newest template of the original model, "
                     "or follow the advice of --explain RULE.");
    }
    buf_release(&arg);
    template_verdict_free(&v);
    return 0;
}

int template_explain(const char *name, struct emit *m, struct err *e) {
    bool all = strcasecmp(name, "all") == 0;
    if (!all && !lint_rule_find(name))
        return err_set(e, ERR_USAGE, "--explain: unknown rule '%s'; --explain all lists the rules",
                       name);
    struct buf text = {0};
    if (all) {
        emit_table(m, "rules", "");
        emit_col(m, "rule", "rule");
        emit_col(m, "meaning", "meaning");
        emit_col(m, "remedy", NULL);
    }
    for (int i = 0; i < lint_rule_count(); i++) {
        const struct lint_rule *r = lint_rule_at(i);
        if (all) {
            emit_row(m);
            emit_cell_str(m, r->name);
            emit_cell_str(m, r->meaning);
            emit_cell_str(m, r->remedy);
        } else if (r == lint_rule_find(name)) {
            buf_fmt(&text, "%s: ", r->name);
            lint_sentence(&text, r->meaning);
            buf_str(&text, " What to do: ");
            buf_fmt(&text, "%s.", r->remedy);
            emit_answer(m, text.data);
            emit_str(m, "rule", NULL, r->name);
            emit_str(m, "meaning", NULL, r->meaning);
            emit_str(m, "remedy", NULL, r->remedy);
        }
    }
    buf_release(&text);
    return 0;
}

/* Adds the linter's verdict and tables. */
static int emit_lint(struct emit *m, const char *src, const char *name, const struct chat_src *s,
                     const struct lint_report *r, struct err *e) {
    struct buf answer = {0}, tag = {0};
    char hex[65];
    const struct toolfmt *f = toolfmt_detect(s->text, s->len);
    sha_of(s->text, s->len, hex);
    buf_str(&tag, "");
    toolfmt_stray_tag(f, s->text, s->len, &tag);
    lint_verdict(r, f ? toolfmt_name(f) : NULL, tag.data, &answer);
    const int rc = r->n_by[LINT_ERROR] ? what_to_do(&answer, s, src, name, e) : 0;
    emit_answer(m, answer.data);
    buf_release(&answer);
    if (!rc) {
        emit_str(m, "source", "source", s->label);
        emit_str(m, "sha256", "sha256", hex);
        emit_str(m, "tool_format", "tool calls", f ? toolfmt_name(f) : "none known");
        emit_str(m, "unknown_tag", tag.len ? "unknown tag" : NULL, tag.len ? tag.data : NULL);
    }
    buf_release(&tag);
    if (rc) return rc;
    emit_str(m, "mode", "needs mode", lint_mode_name(r));
    emit_caps(m, &r->caps);
    emit_i64(m, "n_probes", "probes", r->n_probes);
    emit_i64(m, "n_passed", "passed", r->n_passed);
    emit_i64(m, "n_moot", "not applicable", r->n_moot);
    emit_i64(m, "n_errors", "errors", r->n_by[LINT_ERROR]);
    emit_i64(m, "n_warnings", "warnings", r->n_by[LINT_WARN]);
    const bool all = log_get_level() >= LOG_DEBUG;
    emit_findings(m, r, all);
    emit_by_rule(m, r, LINT_ERROR, "errors");
    emit_by_rule(m, r, LINT_WARN, "warnings");
    emit_meanings(m, r, all);
    return 0;
}

int template_lint(const char *src, const char *name, bool strict, struct emit *m, struct err *e) {
    struct chat_src s;
    struct lint_report r;
    TRY(chat_src_open(&s, src, name, e));
    int rc = lint_run(&r, s.text, s.len, s.label, JINJA_HF, e);
    if (!rc) {
        rc = emit_lint(m, src, name, &s, &r, e);
        int n = r.n_by[LINT_ERROR] + (strict ? r.n_by[LINT_WARN] : 0);
        if (!rc && n)
            rc = err_set(e, ERR_VERDICT, "%s: the chat template has %d defect%s", s.label, n,
                         str_s(n));
        lint_report_free(&r);
    }
    chat_src_close(&s);
    return rc;
}

/* ---- fix ------------------------------------------------------------------------------------- */
/* Appends the names of hone's own templates: "qwen3.5, qwen3". */
static void own_names(struct buf *out) {
    for (int i = 0; own_at(i); i++) buf_fmt(out, "%s%s", i ? ", " : "", own_at(i)->name);
}

/* Fails with the line and column, and what to do instead, if the template does not compile. */
static int must_compile(const struct chat_src *s, const char *src, struct err *e) {
    const struct own_template *own = own_for(s->text, s->len);
    struct jinja *t;
    struct jinja_err je;
    struct err why;
    struct buf names = {0}, word = {0};
    if (jinja_compile_mode(&t, s->text, s->len, s->label, JINJA_HF, &je, &why) == 0) {
        jinja_free(t);
        return 0;
    }
    int k = (int)strlen(je.msg);
    while (k && je.msg[k - 1] == '.') k--;
    own_names(&names);
    if (own) buf_reset(&names);
    if (own) buf_str(&names, own->name);
    shell_word(&word, src);
    const int rc =
        err_set(e, ERR_DATA,
                "%s: the template does not compile and cannot be repaired: line %d, column %d: "
                "%.*s; correct it%s%s%s, or%s replace it by hone's own: --replace %s",
                s->label, je.line, je.col, k, je.msg, s->is_gguf ? " (hone meta " : "",
                s->is_gguf ? word.data : "", s->is_gguf ? " tokenizer.chat_template=@FILE)" : "",
                own ? "" : ", if one fits the model,", names.data);
    buf_release(&names);
    buf_release(&word);
    return rc;
}

/* Lists all repairs, and which apply to the template. */
static int list_edits(struct emit *m, const struct chat_src *s, const char *src, struct err *e) {
    struct repair r;
    TRY(must_compile(s, src, e));
    TRY(repair_run(&r, s->text, s->len, s->label, NULL, 0, e));
    emit_table(m, "edits", "repairs");
    emit_col(m, "id", "id");
    emit_col(m, "applies", "applies");
    emit_col(m, "rule", "rule");
    emit_col(m, "why", "why");
    const char *id, *rule, *why;
    for (int i = 0; i < repair_known(i, &id, &rule, &why); i++) {
        bool applies = false;
        for (int k = 0; k < r.n; k++) applies |= strcmp(r.v[k].id, id) == 0;
        emit_row(m);
        emit_cell_str(m, id);
        emit_cell_str(m, applies ? "yes" : "no");
        emit_cell_str(m, rule);
        emit_cell_str(m, why);
    }
    repair_free(&r);
    return 0;
}

/* Returns the path in a folder at which the template `name` is stored. A file there overrides the
 * key in tokenizer_config.json. */
static char *path_of(const char *dir, const char *name) {
    if (strcmp(name, "default") == 0) return io_join(dir, "chat_template.jinja");
    char *sub = io_join(dir, "additional_chat_templates"), *file = xasprintf("%s.jinja", name),
         *path = io_join(sub, file);
    free(sub);
    free(file);
    return path;
}

static int write_template(const char *dir, const char *name, const char *text, size_t len,
                          struct err *e) {
    char *path = path_of(dir, name), *sub = io_join(dir, "additional_chat_templates");
    int rc = strcmp(name, "default") == 0 ? 0 : io_make_dir(sub, e);
    if (!rc) rc = out_write_file(path, text, len, true, e);
    free(sub);
    free(path);
    return rc;
}

/* Writes the other templates of a list in tokenizer_config.json as files, because any file hides
 * the whole list. */
static int keep_others(const struct chat_src *s, const char *dir, const char *name, struct err *e) {
    struct chat_src *other = xcalloc((size_t)s->n_names, sizeof *other);
    int rc = 0;
    for (int i = 0; !rc && i < s->n_names; i++)
        if (strcmp(s->names[i], name) != 0 && !strchr(s->names[i], '/'))
            rc = chat_src_open(&other[i], dir, s->names[i], e);
    for (int i = 0; i < s->n_names; i++) {
        if (!rc && other[i].text)
            rc = write_template(dir, s->names[i], other[i].text, other[i].len, e);
        chat_src_close(&other[i]);
    }
    free(other);
    return rc;
}

/* Writes the repaired template to a folder, in the file for its name. */
static int store_in_folder(const char *dir, const struct chat_src *s, const char *name,
                           const struct buf *fixed, struct err *e) {
    char *main = path_of(dir, "default");
    bool there = false;
    int rc = strchr(name, '/') ? err_set(e, ERR_DATA, "%s: '%s' cannot be a file name", dir, name)
                               : io_there(&there, main, e);
    free(main);
    if (!rc && !there && s->n_names > 1) rc = keep_others(s, dir, name, e);
    return rc ? rc : write_template(dir, name, fixed->data, fixed->len, e);
}

/* Checks, before anything is printed, that the repaired template can be stored. */
static int check_output(const struct work *w, const struct fix_opts *o, struct err *e) {
    if (o->in_place && !io_is_dir(o->src) && str_ends(o->src, ".json"))
        return err_set(e, ERR_USAGE, "%s: --in-place: name the folder instead, or use -o", o->src);
    if (!o->out) return 0;
    TRY(out_apart(o->out, &o->src, 1, e));
    return out_try(o->out, w->overwrite, e);
}

/* Writes the repaired template to --output or in place. */
static int store_fixed(const struct work *w, const struct fix_opts *o, const struct chat_src *s,
                       const struct buf *fixed, struct err *e) {
    const char *name = o->name ? o->name : s->instead ? s->instead : "default";
    if (o->out) return out_write_file(o->out, fixed->data, fixed->len, w->overwrite, e);
    if (!o->in_place) return 0;
    if (s->is_gguf) {
        struct gguf_edit how;
        const bool other = strcmp(name, "default") != 0;
        char *key = xasprintf("tokenizer.chat_template%s%s", other ? "." : "", other ? name : "");
        const int rc = gguf_edit_str(o->src, key, fixed->data, fixed->len, &how, e);
        free(key);
        if (!rc) meta_log_edit(o->src, &how);
        return rc;
    }
    if (io_is_dir(o->src)) return store_in_folder(o->src, s, name, fixed, e);
    return out_write_file(o->src, fixed->data, fixed->len, true, e);
}

/* Replaces the template by one of our own. */
static int replace(const struct chat_src *s, const char *name, struct buf *fixed, int *done,
                   struct err *e) {
    bool any = strcmp(name, "auto") == 0;
    const struct own_template *own = any ? own_for(s->text, s->len) : own_find(name);
    if (!own) {
        struct buf known = {0};
        own_names(&known);
        const int rc =
            any ? err_set(e, ERR_DATA,
                          "%s: hone has no template of its own for this model family; if one of "
                          "another family fits, name it: --replace %s",
                          s->label, known.data)
                : err_set(e, ERR_USAGE, "--replace: '%s' is not one of auto, %s", name, known.data);
        buf_release(&known);
        return rc;
    }
    buf_add(fixed, own->text, own_len(own));
    *done = !is_own(own, s->text, s->len);
    return 0;
}

/* Appends the rules that are still broken, each once: "PREFIX, THINK-EMPTY". */
static void left_over(const struct lint_report *r, enum lint_severity from, struct buf *out) {
    for (int i = 0; i < r->n; i++) {
        bool seen = r->v[i].severity < from;
        for (int k = 0; k < i && !seen; k++)
            seen = r->v[k].severity >= from && strcmp(r->v[k].rule, r->v[i].rule) == 0;
        if (!seen) buf_fmt(out, "%s%s", out->len ? ", " : "", r->v[i].rule);
    }
}

/* Logs advice if edits leave errors, and the remaining findings. */
static void hint(const struct chat_src *s, const char *text, size_t len, bool done) {
    struct lint_report r;
    struct err why;
    struct buf rest = {0};
    const struct own_template *own = own_for(s->text, s->len);
    int n_errors = 0;
    if (lint_run(&r, text, len, s->label, JINJA_HF, &why) == 0) {
        if (done) log_info("the repaired template passes %d of %d probes", r.n_passed, r.n_probes);
        n_errors = r.n_by[LINT_ERROR];
        left_over(&r, n_errors ? LINT_ERROR : LINT_WARN, &rest);
        lint_report_free(&r);
    } else {
        if (why.code != ERR_INTR) log_warn("not checked: %s", why.msg);
        return;
    }
    if (n_errors && own && !is_own(own, text, len))
        log_info(
            "no repair is known for %d defect%s of %s; --replace %s replaces it with hone's own "
            "template",
            n_errors, str_s(n_errors), s->label, own->name);
    else if (n_errors && !done)
        log_info("no repair is known for the %d error%s that template lint finds in %s", n_errors,
                 str_s(n_errors), s->label);
    else if (!done)
        log_info("nothing to repair: template lint finds no error in %s", s->label);
    if (rest.len)
        log_info("remaining defects: %s (hone template lint --explain RULE explains each)",
                 rest.data);
    buf_release(&rest);
}

/* Opens the source; with --replace NAME it may lack a template. */
static int open_source(const struct fix_opts *o, struct chat_src *s, struct err *e) {
    const bool may_lack = o->replace && strcmp(o->replace, "auto") != 0;
    if (may_lack && !o->name) return chat_src_open_or_empty(s, o->src, e);
    return chat_src_open(s, o->src, o->name, e);
}

int template_edits(const struct fix_opts *o, struct emit *m, struct err *e) {
    struct chat_src s;
    TRY(open_source(o, &s, e));
    const int rc = list_edits(m, &s, o->src, e);
    chat_src_close(&s);
    return rc;
}

/* Logs a part of a rendering in one line. */
static void log_part(const char *probe, const char *how, const char *text, size_t from) {
    enum { MOST = 90 };
    struct buf b = {0};
    if (from) buf_str(&b, "...");
    for (const char *s = text + from; *s && b.len < MOST; s++)
        if (*s == '\n')
            buf_str(&b, "\\n");
        else
            buf_chr(&b, *s);
    while (b.len && ((unsigned char)b.data[b.len - 1] & 0xc0) == 0x80) b.data[--b.len] = 0;
    if (b.len && (unsigned char)b.data[b.len - 1] >= 0xc0) b.data[--b.len] = 0;
    log_info("    %s %s: %s", probe, how, b.data ? b.data : "");
    buf_release(&b);
}

/* Logs a repair and the point where the renderings of its conversation diverge. */
static void log_step(const struct repair_step *s) {
    size_t n = 0;
    log_info("%s (%s): %s", s->id, s->rule, s->why);
    if (!s->before || !s->after) return;
    while (s->before[n] && s->before[n] == s->after[n]) n++;
    size_t from = n > 30 ? n - 30 : 0;
    while (from && ((unsigned char)s->before[from] & 0xc0) == 0x80) from--;
    log_part(s->probe, "without it", s->before, from);
    log_part(s->probe, "with it", s->after, from);
}

/* Emits the repairs, each with a conversation that shows its effect. */
static void emit_repairs(struct emit *m, const struct repair *r) {
    emit_i64(m, "n_checks", "checks", r->n_checks);
    emit_i64(m, "n_failed_before", "failed before", r->n_failed_before);
    emit_i64(m, "n_failed_after", "failed after", r->n_failed_after);
    emit_table(m, "repairs", "repairs");
    static const char *const cols[] = {"id",           "rule",   "why",  "probe",
                                       "conversation", "before", "after"};
    for (size_t i = 0; i < COUNT_OF(cols); i++) emit_col(m, cols[i], i < 3 ? cols[i] : NULL);
    for (int i = 0; i < r->n; i++) {
        const struct repair_step *s = &r->v[i];
        const char *const cells[] = {s->id,   s->rule,   s->why,  s->probe,
                                     s->conv, s->before, s->after};
        emit_row(m);
        for (size_t k = 0; k < COUNT_OF(cells); k++) cell_text(m, cells[k]);
    }
}

/* Repairs the template and logs each repair. */
static int mend(const struct chat_src *s, const struct fix_opts *o, const struct str_list *only,
                struct emit *m, struct buf *fixed, int *done, struct err *e) {
    struct repair r;
    TRY(must_compile(s, o->src, e));
    TRY(repair_run(&r, s->text, s->len, s->label, o->only ? only->v : NULL, only->n, e));
    if (r.ours) log_info("%s: already repaired; left unchanged", s->label);
    if (r.again) log_info("%s: replacing the repair of an earlier version", s->label);
    for (int i = 0; i < r.n; i++) log_step(&r.v[i]);
    if (r.n)
        log_info("%d of %d checks failed before the repair, %d after", r.n_failed_before,
                 r.n_checks, r.n_failed_after);
    *done = r.n;
    emit_repairs(m, &r);
    buf_add(fixed, r.text.data, r.text.len);
    repair_free(&r);
    return 0;
}

/* Adds a tool syntax to a template without tool support. */
static int add_tools(const struct chat_src *s, struct buf *fixed, int *done, struct err *e) {
    struct buf with = {0};
    int rc = template_add_tools(fixed->data ? fixed->data : "", fixed->len, s->label, &with, e);
    if (!rc) {
        buf_release(fixed);
        *fixed = with;
        ++*done;
        log_warn(
            "%s: tool calls are written as JSON in tags, a format the model was not trained for",
            s->label);
    } else {
        buf_release(&with);
    }
    return rc;
}

/* Logs features that some engine lacks, and renders with the installed engines. */
static int prove(const struct work *w, const struct chat_src *s, const struct buf *fixed,
                 struct emit *m, struct err *e) {
    struct lint_report r;
    TRY(lint_run(&r, fixed->data, fixed->len, s->label, JINJA_HF, e));
    for (int i = 0; i < r.n; i++)
        if (strcmp(r.v[i].rule, "ENGINE-PORT") == 0)
            log_info("line %d, %s: %s", r.v[i].line, strchr(r.v[i].outcome, ':') + 1,
                     r.v[i].detail);
    lint_report_free(&r);
    return template_prove(w, fixed, m, e);
}

int template_fix(struct work *w, const struct fix_opts *o, struct emit *m, struct buf *diff,
                 struct err *e) {
    struct chat_src s;
    struct buf fixed = {0};
    struct str_list ids = {0};
    int done = 0;
    TRY(check_output(w, o, e));
    TRY(open_source(o, &s, e));
    if (o->only) work_split(w, o->only, &ids);
    int rc = o->replace ? replace(&s, o->replace, &fixed, &done, e)
                        : mend(&s, o, &ids, m, &fixed, &done, e);
    if (!rc && o->add_tools) rc = add_tools(&s, &fixed, &done, e);
    if (!rc && done) text_diff(s.text, s.len, s.label, fixed.data, fixed.len, "fixed", diff);
    if (!rc) {
        emit_str(m, "diff", NULL, diff->data ? diff->data : "");
        emit_str(m, "template", NULL, fixed.data ? fixed.data : "");
    }
    if (!rc) hint(&s, fixed.data, fixed.len, done > 0);
    if (!rc && o->prove) rc = prove(w, &s, &fixed, m, e);
    if (!rc && progress_interrupted()) rc = err_set(e, ERR_INTR, "interrupted");
    if (!rc && (done || o->out)) rc = store_fixed(w, o, &s, &fixed, e);
    buf_release(&fixed);
    chat_src_close(&s);
    return rc;
}
