// SPDX-License-Identifier: MIT
/* chat/tool_flow.c - incremental parser of JSON arguments, which reads each byte once. Its output
 * is spelled as json_write_spaced() would spell the complete arguments, and always ends inside a
 * string or after a value, so that closing quotes and brackets alone would complete it. */
#include <string.h>

#include "chat/tool_int.h"
#include "text/utf8.h"

enum { MAX_NAME = 4096 }; /* longest incomplete name, in bytes */

/* Parser states: what is expected at flow.at. */
enum { BEGIN, FIRST, NEXT, BEHIND, TEXT };

void tool_flow_reset(struct tool_flow *f) {
    buf_reset(&f->out);
    f->n_names = f->depth = 0;
    f->state = BEGIN;
    f->from = f->at = 0;
    f->ended = f->failed = f->skips = false;
}

void tool_flow_release(struct tool_flow *f) {
    buf_release(&f->out);
    buf_release(&f->names);
}

/* Stops incremental parsing; the rest of the arguments is returned when the call is complete.
 * Returns false, like a parser step that fails. */
static bool give_up(struct tool_flow *f) {
    f->failed = true;
    return false;
}

/* Appends s as JSON string content, without the quotation marks. */
static void add_text(struct tool_flow *f, const char *s, size_t n) {
    struct buf b = {0};
    json_quote(&b, s, n);
    buf_add(&f->out, b.data + 1, b.len - 2);
    buf_release(&b);
}

/* Parses a complete escape. False: incomplete or invalid. */
static bool escape(struct tool_flow *f, const char *s, size_t n) {
    uint32_t cp;
    char text[4];
    size_t used = json_escape(s, s + n, &cp);
    if (!used) return n >= 6 || (n >= 2 && s[1] != 'u') ? give_up(f) : false;
    if (used == 6 && cp >= 0xd800 && cp < 0xdc00) return n >= 12 ? give_up(f) : false;
    if (!cp || (cp >= 0xd800 && cp < 0xe000)) return give_up(f);
    add_text(f, text, utf8_encode(cp, text));
    f->at += used;
    return true;
}

/* Parses string characters up to the closing quote, or an escape. False: no more input, or the flow
 * has failed. */
static bool more_text(const struct toolparse *p, struct tool_flow *f) {
    const char *s = p->in.data + f->at;
    const size_t n = p->in.len - f->at;
    size_t k = 0;
    if (n && *s == '\\') return escape(f, s, n);
    while (k < n && s[k] != '"' && s[k] != '\\') {
        const int step = json_utf8((const unsigned char *)s + k, n - k);
        if ((unsigned char)s[k] < 0x20 || (step < 0 && n - k >= 4)) return give_up(f);
        if (step < 0) break; /* an incomplete character */
        k += (size_t)step;
    }
    if (k) add_text(f, s, k);
    f->at += k;
    if (k < n && s[k] == '"') {
        buf_chr(&f->out, '"');
        f->at++;
        f->state = BEHIND;
        return true;
    }
    return k > 0;
}

/* Returns whether the innermost open object has this name already; s includes its quotation
 * marks. */
static bool has_name(const struct tool_flow *f, const char *s, size_t n) {
    const char *at = f->names.data;
    for (int i = 0; i < f->n_names; i++) {
        if (f->name[i].depth == f->depth && f->name[i].n == n && memcmp(at, s, n) == 0) return true;
        at += f->name[i].n;
    }
    return false;
}

/* Records a name of the innermost open object. False: too many names. */
static bool add_name(struct tool_flow *f, const char *s, size_t n) {
    if (f->n_names == TOOL_NAMES) return false;
    f->name[f->n_names].depth = f->depth;
    f->name[f->n_names++].n = n;
    buf_add(&f->names, s, n);
    return true;
}

/* Parses a member's name and colon at *k and appends them to lead. False: incomplete, or the flow
 * has failed. */
static bool member(struct toolparse *p, struct tool_flow *f, size_t *k, struct buf *lead) {
    size_t used, i = *k;
    if (i >= p->in.len) return false;
    const struct json *name =
        p->in.data[i] == '"' ? tool_json(p, tool_text(p, i, p->in.len), &used) : NULL;
    if (!name) return p->in.data[i] != '"' || p->in.len - i > MAX_NAME ? give_up(f) : false;
    i = tool_ws(p, i + used);
    if (i >= p->in.len) return false;
    if (p->in.data[i] != ':') return give_up(f);
    json_write(lead, name);
    buf_str(lead, ": ");
    *k = tool_ws(p, i + 1);
    return true;
}

/* Parses a number or word at k, which is complete only when the byte after it has arrived. False:
 * incomplete, or the flow has failed. */
static bool scalar(struct toolparse *p, struct tool_flow *f, size_t k, const struct buf *lead) {
    size_t to = k, used;
    while (to < p->in.len && !strchr(" \t\r\n,]}", p->in.data[to])) to++;
    if (to == p->in.len && to - k < 400) return false;
    const struct json *v = tool_json(p, tool_text(p, k, to), &used);
    if (!v || used != to - k) return give_up(f);
    buf_add(&f->out, lead->data ? lead->data : "", lead->len);
    json_write(&f->out, v);
    f->at = to;
    f->state = BEHIND;
    return true;
}

/* Begins a value at k; lead: text that precedes it. False: no input yet, or the flow has failed. */
static bool begin_value(struct toolparse *p, struct tool_flow *f, size_t k,
                        const struct buf *lead) {
    if (k >= p->in.len) return false;
    const char ch = p->in.data[k];
    if (ch != '"' && ch != '{' && ch != '[') return scalar(p, f, k, lead);
    if (ch != '"' && f->depth == TOOL_DEPTH) return give_up(f);
    buf_add(&f->out, lead->data ? lead->data : "", lead->len);
    buf_chr(&f->out, ch);
    f->at = k + 1;
    f->state = ch == '"' ? TEXT : FIRST;
    if (ch != '"') f->close[f->depth++] = ch == '{' ? '}' : ']';
    return true;
}

/* Begins the next member or element once its name and the value's first character have arrived.
 * False: not yet, or the flow has failed. */
static bool next_value(struct toolparse *p, struct tool_flow *f) {
    struct buf lead = {0};
    size_t k = tool_ws(p, f->at), name_at, name_n;
    if (f->state == NEXT) buf_str(&lead, ", ");
    name_at = lead.len;
    bool ok = !f->depth || f->close[f->depth - 1] == ']' || member(p, f, &k, &lead);
    name_n = lead.len - name_at;
    const int depth = f->depth, n_names = f->n_names;
    const size_t n_text = f->names.len, n_out = f->out.len;
    const bool again = ok && name_n && has_name(f, lead.data + name_at, name_n);
    if (ok && name_n && !again && !add_name(f, lead.data + name_at, name_n)) ok = give_up(f);
    if (ok && !begin_value(p, f, k, &lead)) { /* retry later, from the name */
        ok = false;
        f->depth = depth;
        f->n_names = n_names;
        f->names.len = n_text;
    }
    if (ok && again && !f->skips) {
        f->skips = true;
        f->skip.len = n_out;
        f->skip.depth = depth;
    }
    buf_release(&lead);
    return ok;
}

/* Closes the innermost object or list. */
static void close_one(struct tool_flow *f, size_t k) {
    while (f->n_names && f->name[f->n_names - 1].depth == f->depth)
        f->names.len -= f->name[--f->n_names].n;
    buf_chr(&f->out, f->close[--f->depth]);
    f->at = k + 1;
    f->state = BEHIND;
    f->ended = f->depth == 0;
}

/* Parses the next piece of input. False: more input is needed, or the arguments are complete. */
static bool step(struct toolparse *p, struct tool_flow *f) {
    const size_t k = tool_ws(p, f->at);
    if (f->failed || f->ended) return false;
    if (f->state == TEXT) return more_text(p, f);
    if (k >= p->in.len) return false;
    const char ch = p->in.data[k];
    if (f->state != NEXT && f->depth && ch == f->close[f->depth - 1]) {
        close_one(f, k);
        return true;
    }
    if (f->state == BEHIND) {
        if (ch != ',') return give_up(f);
        f->at = k + 1;
        f->state = NEXT;
        return true;
    }
    return next_value(p, f);
}

/* Drops a duplicate member once its value is complete. */
static void end_skip(struct tool_flow *f) {
    if (!f->skips || f->state != BEHIND || f->depth != f->skip.depth) return;
    f->out.len = f->skip.len;
    f->out.data[f->out.len] = 0;
    f->skips = false;
}

void tool_flow_more(struct toolparse *p, struct tool_flow *f) {
    if (!f->at) f->at = f->from;
    while (step(p, f)) end_skip(f);
}

size_t tool_flow_sure(const struct tool_flow *f) {
    return f->skips ? f->skip.len : f->out.len;
}

void tool_flow_end(const struct tool_flow *f, struct buf *out) {
    if (f->state == TEXT && !f->skips) buf_chr(out, '"');
    for (int i = f->skips ? f->skip.depth : f->depth; i-- > 0;) buf_chr(out, f->close[i]);
}
