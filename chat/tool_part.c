// SPDX-License-Identifier: MIT
/* chat/tool_part.c - calls while they are written: what of the next one is certain (toolfmt.h). A
 * call that is not complete is read with an end put behind what is certain of it, so both give the
 * same text as far as it goes. It is read again when it has grown by a part of its length, not with
 * each token, so the work stays in proportion to the text. */
#include <string.h>

#include "chat/tool_int.h"

/* A call is read again when it has grown by one of so many parts of its length. */
enum { GROWTH = 32 };

/* Returns where the value of a parameter that is not closed yet may be cut: in front of what may
 * become its closing tag. */
static size_t value_cut(const struct toolparse *p, size_t start) {
    const struct tool_tags *t = &p->f->tags;
    const size_t n = strlen(t->par_close);
    size_t cut = tool_find(p, start, t->par_close);
    if (cut == SIZE_MAX) {
        cut = p->in.len;
        for (size_t k = n - 1; k > 0; k--)
            if (cut - start >= k && memcmp(p->in.data + cut - k, t->par_close, k) == 0) {
                cut -= k;
                break;
            }
    }
    return t->newline && cut > start && p->in.data[cut - 1] == '\n' ? cut - 1 : cut;
}

/* Tells whether a parameter is text, whatever follows; `name` is what stands in its opening tag. */
static bool is_text(struct toolparse *p, struct text fn, struct text name) {
    static const char flag[] = "\" string=\"";
    if (memmem(name.s, name.n, flag, sizeof flag - 1)) return false;
    name = tool_strip(name);
    if (name.n >= 2 && name.s[0] == '"') {
        name.s++;
        name.n -= 2;
    }
    const char *type = json_str(json_get(tool_schema(p, fn, name), "type"));
    return type && strcmp(type, "string") == 0;
}

/* Returns where the parameter at k, which is not closed, may be cut when it is text; else
 * SIZE_MAX. */
static size_t open_value(struct toolparse *p, size_t k, size_t name_to, struct text fn) {
    const struct tool_tags *t = &p->f->tags;
    const size_t name = k + strlen(t->par_open);
    size_t start = name_to + strlen(t->par_name_end);
    if (start >= p->in.len) return SIZE_MAX;
    if (t->newline && p->in.data[start] == '\n') start++;
    const size_t cut = value_cut(p, start);
    if (cut <= start || p->in.data[start] == '<') return SIZE_MAX;
    return is_text(p, fn, tool_text(p, name, name_to)) ? cut : SIZE_MAX;
}

/* Finds where the call at `at` may be cut and which text then ends it; *n_close is the number of
 * bytes that this end adds to its arguments. False when nothing of the call is certain. */
static bool find_cut(struct toolparse *p, size_t at, size_t *cut, struct buf *end,
                     size_t *n_close) {
    const struct tool_tags *t = &p->f->tags;
    size_t k = tool_at(p, at, t->fn_open) ? at : tool_wrapper(p, at), next;
    if (!tool_at(p, k, t->fn_open)) return false;
    const size_t from = k + strlen(t->fn_open), to = tool_find(p, from, t->fn_name_end);
    if (to == SIZE_MAX) return false;
    struct text fn = tool_strip(tool_text(p, from, to));
    if (fn.n >= 2 && fn.s[0] == '"') fn.s++, fn.n -= 2;
    *cut = k = tool_ws(p, to + strlen(t->fn_name_end));
    *n_close = 1;
    while (tool_at(p, k, t->par_open)) {
        const size_t name_to = tool_find(p, k + strlen(t->par_open), t->par_name_end);
        if (name_to == SIZE_MAX) break;
        size_t start = name_to + strlen(t->par_name_end);
        if (t->newline && start < p->in.len && p->in.data[start] == '\n') start++;
        if (tool_value_end(p, start, &next) != SIZE_MAX) {
            *cut = k = tool_ws(p, next);
            continue;
        }
        const size_t c = open_value(p, k, name_to, fn);
        if (c == SIZE_MAX) break;
        *cut = c;
        *n_close = 2;
        buf_fmt(end, "%s%s", t->newline ? "\n" : "", t->par_close);
        break;
    }
    buf_str(end, t->fn_close);
    return true;
}

static void give(const struct toolparse *p, int i, struct buf *name, struct buf *args) {
    buf_reset(name);
    buf_reset(args);
    buf_add(name, p->calls[i].name.s, p->calls[i].name.n);
    json_write_spaced(args, p->calls[i].args);
}

/* Reads a call that is not complete, with an end put behind what is certain of it. */
static bool read_open(struct toolparse *p, size_t at, struct buf *name, struct buf *args,
                      size_t *n_sure) {
    struct buf end = {0}, tail = {0};
    const int n_calls = p->n_calls, n_problems = p->n_problems;
    size_t cut, n_close = 0, i = at;
    bool ok = p->f->parse == tool_parse_tags && find_cut(p, at, &cut, &end, &n_close);
    if (ok) {
        buf_add(&tail, p->in.data + cut, p->in.len - cut);
        p->in.len = cut;
        buf_add(&p->in, end.data, end.len);
        ok = p->f->parse(p, &i) && p->n_calls == n_calls + 1;
        if (ok) give(p, n_calls, name, args);
        p->in.len = cut;
        buf_add(&p->in, tail.data ? tail.data : "", tail.len);
        memset(p->mark_at, 0, sizeof p->mark_at);
        ok = ok && args->len > n_close;
        *n_sure = ok ? args->len - n_close : 0;
    }
    p->n_calls = n_calls;
    p->n_problems = n_problems;
    buf_release(&end);
    buf_release(&tail);
    return ok;
}

bool toolparse_part(struct toolparse *p, struct buf *name, struct buf *args, size_t *n_sure,
                    bool *done) {
    const int n_calls = p->n_calls, n_problems = p->n_problems;
    *done = false;
    if (!p->started || !p->closed || p->part_stop || p->in.len < p->part_len) return false;
    if (!p->part_at) p->part_at = p->content_from + p->n_content;
    const size_t at = tool_marker(p, p->part_at);
    if (at == SIZE_MAX) return false;
    size_t end = at;
    const bool read = p->f->parse(p, &end) && end > at;
    *done = read && p->n_calls == n_calls + 1;
    p->part_stop = read && !*done; /* They are a list of calls, which comes at the end. */
    if (*done) {
        give(p, n_calls, name, args);
        *n_sure = args->len;
        p->part_at = end;
    }
    p->n_calls = n_calls;
    p->n_problems = n_problems;
    if (*done || p->part_stop) return *done;
    p->part_len = p->in.len + (p->in.len - at) / GROWTH;
    return read_open(p, at, name, args, n_sure);
}
