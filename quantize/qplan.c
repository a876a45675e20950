// SPDX-License-Identifier: MIT
/* quantize/qplan.c - choice of a type for every tensor: from a preset, a single type or a plan
 * file, then from --tensor patterns.
 *
 * A plan file has one line per tensor, "name<TAB>type"; # starts a comment. Each line must name a
 * tensor of the model and a type that fits its rows, and every quantizable tensor needs a line.
 * Other tensors (norms, router, convolutions, vectors) may be listed only with their own type. */
#include "quantize/qplan.h"

#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/out.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "quantize/exact.h"

void qplan_release(struct qplan *p) {
    free(p->item);
    memset(p, 0, sizeof *p);
}

/* Sets the plan's name, truncated if it is too long. */
static void copy_name(struct qplan *p, const char *s) {
    size_t n = strlen(s);
    if (n >= sizeof p->name) n = sizeof p->name - 1;
    memcpy(p->name, s, n);
    p->name[n] = 0;
}

/* Returns the type that has the most weights, counting quantizable tensors only. */
static enum qtype dominant(const struct qplan *p) {
    double sum[QT_COUNT] = {0};
    int best = QT_F32;
    for (int64_t i = 0; i < p->n; i++) {
        const int64_t *ne = p->item[i].ne;
        if (p->item[i].quant)
            sum[p->item[i].type] += (double)ne[0] * (double)ne[1] * (double)(ne[2] * ne[3]);
    }
    for (int t = 0; t < QT_COUNT; t++)
        if (sum[t] > sum[best]) best = t;
    return (enum qtype)best;
}

/* ---- plan files ------------------------------------------------------------------------------ */

struct parser {
    struct qplan *p;
    struct strmap *index; /* items by name */
    bool *seen;
    const char *path;
    int64_t line;
};

/* Sets a tensor's type from a line of the plan. ERR_DATA: unknown, repeated or impossible. */
static int plan_entry(struct parser *ps, const char *name, const char *type, struct err *e) {
    enum qtype t;
    int64_t i = strmap_get(ps->index, name, strlen(name));
    const char *path = ps->path;
    long long line = (long long)ps->line;
    if (i < 0)
        return err_set(e, ERR_DATA, "%s:%lld: the model has no tensor named %s", path, line, name);
    if (ps->seen[i])
        return err_set(e, ERR_DATA, "%s:%lld: tensor %s is listed twice", path, line, name);
    if (!qtype_parse(type, &t))
        return err_set(e, ERR_DATA, "%s:%lld: %s is not a type", path, line, type);
    struct recipe_item *it = &ps->p->item[i];
    if (!it->quant && t != it->from)
        return err_set(e, ERR_DATA, "%s:%lld: tensor %s stays %s (it is never quantized), not %s",
                       path, line, name, qtype_name(it->from), qtype_name(t));
    if (t != it->from && !enc_find(t))
        return err_set(e, ERR_DATA, "%s:%lld: type %s cannot be written", path, line,
                       qtype_name(t));
    if (qtype_row_bytes(t, it->ne[0]) == 0)
        return err_set(e, ERR_DATA,
                       "%s:%lld: rows of %lld weights of tensor %s do not fit blocks of %s; try %s",
                       path, line, (long long)it->ne[0], name, qtype_name(t),
                       qtype_name(qtype_fit(t, it->ne[0])));
    ps->seen[i] = true;
    it->type = t;
    return 0;
}

/* Parses one NUL-terminated line and changes it in place. */
static int plan_line(struct parser *ps, char *s, struct err *e) {
    s[strcspn(s, "#\r")] = 0;
    s += strspn(s, " \t");
    if (!*s) return 0;
    char *name = s, *type = s + strcspn(s, " \t");
    if (*type) *type++ = 0;
    type += strspn(type, " \t");
    type[strcspn(type, " \t")] = 0;
    if (!*type)
        return err_set(e, ERR_DATA, "%s:%lld: expected \"tensor<TAB>type\" after %s", ps->path,
                       (long long)ps->line, name);
    return plan_entry(ps, name, type, e);
}

/* Reads all lines of a plan, which must name every quantizable tensor. */
static int plan_lines(struct parser *ps, char *text, size_t len, struct err *e) {
    if (memchr(text, 0, len))
        return err_set(e, ERR_DATA, "%s: not a text file (it holds a NUL byte)", ps->path);
    const size_t mark = len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    for (char *s = text + mark; *s;) {
        char *end = s + strcspn(s, "\n"), *next = *end ? end + 1 : end;
        *end = 0;
        ps->line++;
        TRY(plan_line(ps, s, e));
        s = next;
    }
    for (int64_t i = 0; i < ps->p->n; i++)
        if (ps->p->item[i].quant && !ps->seen[i])
            return err_set(e, ERR_DATA,
                           "%s: no line for tensor %s; every quantizable tensor needs one",
                           ps->path, ps->p->item[i].name);
    return 0;
}

/* Reads a plan file into the plan's types. */
static int plan_read(struct qplan *p, const char *path, struct err *e) {
    char *text = NULL;
    size_t len = 0;
    TRY(io_read_file(&text, &len, path, limit_of(LIM_PLAN), e));
    struct parser ps = {.p = p, .path = path};
    ps.index = strmap_new((size_t)p->n);
    ps.seen = xcalloc((size_t)p->n + 1, sizeof *ps.seen);
    for (int64_t i = 0; i < p->n; i++) {
        strmap_add(ps.index, p->item[i].name, strlen(p->item[i].name), i);
        p->item[i].type = p->item[i].from;
    }
    int rc = plan_lines(&ps, text, len, e);
    strmap_free(ps.index);
    free(ps.seen);
    free(text);
    return rc;
}

int qplan_write(const struct qplan *p, const char *path, bool overwrite, struct err *e) {
    struct buf b = {0};
    buf_fmt(&b, "# %s: tensor<TAB>type, one line each; edit and pass as --recipe\n", p->name);
    for (int64_t i = 0; i < p->n; i++)
        buf_fmt(&b, "%s\t%s\n", p->item[i].name, qtype_name(p->item[i].type));
    int rc = out_write_again(path, b.data, b.len, overwrite, e);
    buf_release(&b);
    return rc;
}

/* ---- patterns -------------------------------------------------------------------------------- */

/* Compiles a pattern, ignoring case. ERR_USAGE: malformed. */
static int compile_regex(regex_t *re, const char *pattern, struct err *e) {
    int rc = regcomp(re, pattern, REG_EXTENDED | REG_ICASE | REG_NOSUB);
    if (rc == 0) return 0;
    char why[128];
    regerror(rc, re, why, sizeof why);
    return err_set(e, ERR_USAGE, "--tensor %s: not a regular expression: %s", pattern, why);
}

/* Assigns the type of the override to all tensors that match it. *done: at least one matched. */
static int apply_override(struct qplan *p, const struct quant_override *ov, bool *done,
                          struct err *e) {
    regex_t re;
    int64_t hits = 0;
    if (!enc_find(ov->type))
        return err_set(e, ERR_USAGE, "--tensor %s=%s: this type cannot be written", ov->regex,
                       qtype_name(ov->type));
    TRY(compile_regex(&re, ov->regex, e));
    for (int64_t i = 0; i < p->n; i++) {
        struct recipe_item *it = &p->item[i];
        if (!it->quant || regexec(&re, it->name, 0, NULL, 0) != 0) continue;
        hits++;
        if (done[i]) continue; /* an earlier pattern matched */
        done[i] = true;
        it->type = qtype_fit(ov->type, it->ne[0]);
        it->fallback = it->type != ov->type;
    }
    regfree(&re);
    if (!hits)
        log_warn("--tensor %s matches no tensor that can be quantized, so it changes nothing",
                 ov->regex);
    return 0;
}

/* ---- all together ---------------------------------------------------------------------------- */

/* Lists the file's tensors with their types and shapes. */
static void fill_items(struct qplan *p, const struct gguf *g) {
    p->n = gguf_n_tensors(g);
    p->item = xcalloc((size_t)p->n + 1, sizeof *p->item);
    for (int64_t i = 0; i < p->n; i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        p->item[i].name = t->name;
        p->item[i].from = t->type;
        memcpy(p->item[i].ne, t->ne, sizeof t->ne);
    }
}

/* Assigns to tensors whose weights a type can hold without loss that type, unless the chosen one is
 * smaller. */
static void keep_exact(struct qplan *p, const struct gguf *g, const struct quantize_opts *o) {
    if (o->pure || o->search == SEARCH_CONVENTIONAL || !recipe_find(o->recipe)) return;
    for (int64_t i = 0; i < p->n; i++) {
        struct recipe_item *it = &p->item[i];
        if (!it->quant || !(qtype_info(it->type)->flags & QF_QUANT) || it->type == it->from)
            continue;
        enum exact_how how = EXACT_SAME;
        const enum qtype t = exact_type(gguf_tensor_at(g, i), o->pool, &how);
        if (t == QT_COUNT || qtype_row_bytes(it->type, it->ne[0]) < qtype_row_bytes(t, it->ne[0]))
            continue;
        it->type = t;
        it->fallback = false;
        p->exact.n[how][t]++;
    }
}

int qplan_choose(struct qplan *p, const struct recipe_model *m, const struct quantize_opts *o,
                 struct err *e) {
    enum qtype t;
    const char *preset = o->is_type ? NULL : recipe_find(o->recipe);
    if (preset) {
        copy_name(p, preset);
        recipe_apply(o->pure ? NULL : preset, recipe_default(preset), m, p->item, p->n);
        if (!o->pure) p->n_released = recipe_keep_released(p->item, p->n);
        p->ftype = qtype_ftype_id(preset);
        return 0;
    }
    if (qtype_parse(o->recipe, &t)) {
        if (!enc_find(t)) return err_set(e, ERR_USAGE, "type %s cannot be written", qtype_name(t));
        copy_name(p, qtype_name(t));
        recipe_apply(NULL, t, m, p->item, p->n);
        p->ftype = recipe_ftype_of_type(t);
        return 0;
    }
    if (!io_exists(o->recipe)) {
        const char *like = recipe_like(o->recipe);
        if (like)
            return err_set(e, ERR_USAGE, "%s is neither a recipe nor a plan file; did you mean %s?",
                           o->recipe, like);
        return err_set(e, ERR_USAGE,
                       "%s is neither a recipe nor a plan file; `hone recipes` lists the recipes",
                       o->recipe);
    }
    copy_name(p, io_base(o->recipe));
    TRY(plan_read(p, o->recipe, e));
    p->ftype = recipe_ftype_of_type(dominant(p));
    return 0;
}

int qplan_make(struct qplan *p, const struct gguf *g, const struct quantize_opts *o,
               struct err *e) {
    struct recipe_model m;
    memset(p, 0, sizeof *p);
    recipe_model_from(&m, g);
    m.imatrix = o->imatrix || o->will_have_imatrix;
    fill_items(p, g);
    recipe_roles(&m, p->item, p->n);
    bool *done = xcalloc((size_t)p->n + 1, sizeof *done);
    int rc = qplan_choose(p, &m, o, e);
    if (!rc) keep_exact(p, g, o);
    for (int i = 0; i < o->n_over && rc == 0; i++) rc = apply_override(p, &o->over[i], done, e);
    free(done);
    if (rc == 0 && p->n_released)
        log_info("%lld tensor%s kept in the released type: the recipe's would not be smaller",
                 (long long)p->n_released, str_s(p->n_released));
    if (rc == 0 && o->file_type) p->ftype = qtype_ftype_id(o->file_type);
    if (rc == 0 && p->ftype < 0) p->ftype = recipe_ftype_of_type(dominant(p));
    if (rc) qplan_release(p);
    return rc;
}

int64_t qplan_unlike(const struct gguf *base, const struct gguf *file, const char *preset,
                     bool imatrix) {
    struct qplan p = {0};
    struct recipe_model m;
    int64_t n = 0;
    recipe_model_from(&m, base);
    m.imatrix = imatrix;
    fill_items(&p, base);
    recipe_roles(&m, p.item, p.n);
    recipe_apply(preset, recipe_default(preset), &m, p.item, p.n);
    for (int64_t i = 0; i < p.n; i++) {
        const struct gguf_tensor *t = gguf_find_tensor(file, p.item[i].name);
        n += t && (p.item[i].ours || t->type != p.item[i].type);
    }
    qplan_release(&p);
    return n;
}
