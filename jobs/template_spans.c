// SPDX-License-Identifier: MIT
/* jobs/template_spans.c - hone template render --spans: the prompt with the origin of every byte of
 * the conversation, as JSON or as marked text: a colour per kind on a terminal, «kind:text»
 * elsewhere. Highlights template markers inside inputs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/template_text.h"
#include "base/log.h"
#include "template/chat_span.h"

static const char reset[] = "\033[0m", alarm[] = "\033[1;37;41m";

/* Returns the terminal color of a kind of text. */
static const char *color_of(const char *kind) {
    static const char *const colors[][2] = {
        {"user", "\033[32m"},   {"system", "\033[36m"},    {"developer", "\033[36m"},
        {"tool", "\033[35m"},   {"assistant", "\033[34m"}, {"reasoning", "\033[34m"},
        {"call", "\033[33m"},   {"arguments", "\033[33m"}, {"tools", "\033[33m"},
        {"role", "\033[2;37m"},
    };
    for (size_t i = 0; i < COUNT_OF(colors); i++)
        if (strcmp(kind, colors[i][0]) == 0) return colors[i][1];
    return "\033[37m";
}

/* Appends bytes [from, to) of an input, with forged markers highlighted. *k: the first marker that
 * ends after from. */
static void show_input(struct buf *shown, const struct buf *out, size_t from, size_t to,
                       const char *color, const struct chat_forged *f, int n, int *k) {
    while (from < to) {
        while (*k < n && f[*k].end <= from) ++*k;
        bool in = *k < n && f[*k].start <= from;
        size_t end = in ? f[*k].end : *k < n ? f[*k].start : to;
        if (end > to) end = to;
        if (color) buf_str(shown, in ? alarm : color);
        buf_add(shown, out->data + from, end - from);
        if (color) buf_str(shown, reset);
        from = end;
    }
}

/* Appends the text with its spans marked and forged ones highlighted; color: in colours. */
static void show_spans(struct buf *shown, const struct buf *out, const struct jinja_spans *s,
                       const struct chat_forged *f, int n, bool color) {
    const char *text = out->data ? out->data : "";
    size_t at = 0;
    int k = 0;
    for (int i = 0; i < s->n; i++) {
        const struct jinja_span *p = &s->v[i];
        const char *kind = s->origin[p->origin].kind;
        buf_add(shown, text + at, p->start - at);
        if (!color) buf_fmt(shown, "\xc2\xab%s:", kind);
        show_input(shown, out, p->start, p->end, color ? color_of(kind) : NULL, f, n, &k);
        if (!color) buf_str(shown, "\xc2\xbb");
        at = p->end;
    }
    buf_add(shown, text + at, out->len - at);
    if (!out->len || text[out->len - 1] != '\n') buf_chr(shown, '\n');
}

/* Adds a row for a span of text and its origin. */
static void emit_rows(struct emit *m, const struct jinja_spans *s, size_t start, size_t end,
                      int origin) {
    emit_row(m);
    emit_cell_i64(m, (int64_t)start);
    emit_cell_i64(m, (int64_t)end);
    emit_cell_str(m, s->origin[origin].kind);
    emit_cell_str(m, s->origin[origin].path);
}

/* Adds the text and the tables of spans and n forged markers. */
static void emit_spans(struct emit *m, const struct buf *out, const struct jinja_spans *s,
                       const struct chat_forged *f, int n) {
    static const char *const cols[] = {"start", "end", "kind", "source"};
    emit_str(m, "text", "text", out->data ? out->data : "");
    emit_i64(m, "n_bytes", "bytes", (int64_t)out->len);
    emit_table(m, "spans", "spans");
    for (size_t i = 0; i < COUNT_OF(cols); i++) emit_col(m, cols[i], cols[i]);
    for (int i = 0; i < s->n; i++) emit_rows(m, s, s->v[i].start, s->v[i].end, s->v[i].origin);
    emit_table(m, "forged", "forged");
    for (size_t i = 0; i < COUNT_OF(cols); i++) emit_col(m, cols[i], cols[i]);
    for (int i = 0; i < n; i++) emit_rows(m, s, f[i].start, f[i].end, f[i].origin);
}

int template_spans(const struct jinja *t, const struct chat_case *k, bool table, bool color,
                   struct buf *shown, struct emit *m, struct err *e) {
    enum { MAX_WARNINGS = 5 };
    struct buf out = {0};
    struct jinja_spans s = {0};
    int n = 0;
    int rc = chat_case_spans(t, k, &out, &s, NULL, e);
    if (!rc && !table && out.len && memchr(out.data, 0, out.len))
        rc = err_set(e, ERR_DATA, "the prompt contains a NUL byte: render it without --json");
    if (!rc) {
        struct chat_forged *f = chat_find_forged(&out, &s, &n);
        if (table)
            show_spans(shown, &out, &s, f, n, color);
        else
            emit_spans(m, &out, &s, f, n);
        for (int i = 0; i < n && i < MAX_WARNINGS; i++)
            log_warn(
                "%s contains %.*s, one of the template's own markers: tokenize it as plain text",
                s.origin[f[i].origin].path, (int)(f[i].end - f[i].start), out.data + f[i].start);
        if (n > MAX_WARNINGS) log_warn("%d more such markers", n - MAX_WARNINGS);
        free(f);
    }
    jinja_spans_free(&s);
    buf_release(&out);
    return rc;
}
