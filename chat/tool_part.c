// SPDX-License-Identifier: MIT
/* chat/tool_part.c - parser of incomplete calls: returns the part of a call that is certain while
 * the model is still writing it. JSON arguments are parsed as they arrive (tool_flow.c). For other
 * notations, text that completes the call is appended to its certain part, and the result is parsed
 * like a complete call. That is repeated only when the call has grown by a fraction of its length,
 * not at every token, so the work stays proportional to the length of the text. */
#include <string.h>
#include <strings.h>

#include "chat/tool_int.h"
#include "text/utf8.h"

/* An incomplete call is parsed again once it is 1/GROWTH longer. It usually ends soon after
 * its JSON arguments, so in the TRIES bytes after them it is parsed again with every piece of
 * text. */
enum { GROWTH = 32, TRIES = 256 };

/* How calls of each syntax are parsed in parts: `head` finds their JSON arguments, or `cut` finds
 * where to cut them. `one` parses an element if calls may be in a list. */
static const struct way {
    bool (*parse)(struct toolparse *p, size_t *i); /* the format's parser, the key of this table */
    tool_head *head;
    tool_cut *cut;
    tool_one *one;
} ways[] = {
    {tool_parse_tags, NULL, tool_cut_tags, NULL},
    {tool_parse_glm, NULL, tool_cut_tags, NULL},
    {tool_parse_elements, NULL, tool_cut_elements, NULL},
    {tool_parse_gemma, NULL, tool_cut_gemma, NULL},
    {tool_parse_python, NULL, tool_cut_python, tool_one_python},
    {tool_parse_named, tool_head_named, NULL, NULL},
    {tool_parse_hermes, tool_head_hermes, NULL, NULL},
    {tool_parse_list, tool_head_hermes, NULL, tool_one_object},
    {tool_parse_mistral, tool_head_mistral, NULL, tool_one_object},
    {tool_parse_deepseek, tool_head_deepseek, NULL, NULL},
    {tool_parse_harmony, tool_head_harmony, NULL, NULL},
    {tool_parse_llama, tool_head_llama, tool_cut_python, NULL},
};

/* Returns the format's functions for incomplete calls; their pointers are NULL if it has none. */
static const struct way *way_of(const struct toolparse *p) {
    static const struct way none = {NULL, NULL, NULL, NULL};
    for (size_t i = 0; i < COUNT_OF(ways); i++)
        if (ways[i].parse == p->f->parse) return &ways[i];
    return &none;
}

/* Returns the offset at which to cut an unclosed parameter value: before the first complete or
 * partial tag of the syntax, since any tag may end the value, and before a line break preceding
 * that tag. */
static size_t value_cut(const struct toolparse *p, size_t start) {
    const struct tool_tags *t = &p->f->tags;
    const char *const tags[] = {t->par_close, t->fn_close, tool_wrapper_close(p->f), t->par_open};
    size_t cut = p->in.len;
    for (size_t k = 0; k < COUNT_OF(tags); k++) {
        const size_t at = tags[k] ? tool_find(p, start, tags[k]) : SIZE_MAX;
        if (at < cut) cut = at;
        if (tags[k] && p->in.len - tool_partial(p, start, tags[k]) < cut)
            cut = p->in.len - tool_partial(p, start, tags[k]);
    }
    cut = start + utf8_valid_prefix(p->in.data + start, cut - start); /* no partial characters */
    return cut > start && p->in.data[cut - 1] == '\n' ? cut - 1 : cut;
}

/* Returns whether any value of a parameter is text, by its tag or because its schema allows only
 * strings. name: the contents of its tag. */
static bool is_text(struct toolparse *p, struct text fn, struct text name) {
    struct text tag = name;
    const int flag = tool_flag(p, &tag);
    if (flag >= 0) return flag;
    name = tool_attr_name(p, name);
    const struct json *schema = tool_schema(p, fn, name);
    const char *type = json_str(json_get(schema, "type"));
    return type && strcasecmp(type, "string") == 0 &&
           !json_bool(json_get(schema, "nullable"), false);
}

/* Returns the start of the value of the parameter whose name ends at name_to; SIZE_MAX: it has not
 * begun. */
static size_t value_begin(const struct toolparse *p, size_t name_to) {
    const struct tool_tags *t = &p->f->tags;
    size_t k = name_to + strlen(t->par_name_end);
    if (t->val_open) {
        k = tool_ws(p, k);
        return tool_at(p, k, t->val_open) ? k + strlen(t->val_open) : SIZE_MAX;
    }
    return k + (t->newline && k < p->in.len && p->in.data[k] == '\n');
}

/* Returns the offset at which to cut the unclosed value at `start`; SIZE_MAX if it may be something
 * other than text. */
static size_t open_value(struct toolparse *p, size_t start, struct text name, struct text fn) {
    if (start >= p->in.len) return SIZE_MAX;
    const size_t cut = value_cut(p, start);
    if (cut <= start || p->in.data[start] == '<') return SIZE_MAX;
    return is_text(p, fn, name) ? cut : SIZE_MAX;
}

/* Returns the end of the name of a call that begins at `from`; SIZE_MAX: incomplete. */
static size_t name_end(const struct toolparse *p, size_t from) {
    size_t k = from;
    if (!p->f->tags.val_open) return tool_find(p, from, p->f->tags.fn_name_end);
    while (k < p->in.len && p->in.data[k] != '<' && p->in.data[k] != '\n') k++;
    return k < p->in.len ? k : SIZE_MAX;
}

bool tool_cut_tags(struct toolparse *p, size_t at, size_t *cut, struct buf *end, size_t *n_close) {
    const struct tool_tags *t = &p->f->tags;
    size_t k = tool_at(p, at, t->fn_open) ? at : tool_wrapper(p, at), next;
    if (!tool_at(p, k, t->fn_open)) return false;
    const size_t from = k + strlen(t->fn_open), to = name_end(p, from);
    if (to == SIZE_MAX) return false;
    const struct text fn = tool_attr_name(p, tool_text(p, from, to));
    k = tool_ws(p, to);
    if (tool_at(p, k, t->fn_name_end)) k += strlen(t->fn_name_end);
    *cut = k = tool_ws(p, k);
    *n_close = 1;
    while (tool_at(p, k, t->par_open)) {
        const size_t name = k + strlen(t->par_open), name_to = tool_find(p, name, t->par_name_end);
        const size_t start = name_to == SIZE_MAX ? SIZE_MAX : value_begin(p, name_to);
        if (start == SIZE_MAX) break;
        if (tool_value_end(p, start, fn, &next) != SIZE_MAX) {
            *cut = k = tool_ws(p, next);
            continue;
        }
        const size_t c = open_value(p, start, tool_text(p, name, name_to), fn);
        if (c == SIZE_MAX) break;
        *cut = c;
        *n_close = 2;
        buf_fmt(end, "%s%s", t->newline ? "\n" : "", t->par_close);
        break;
    }
    buf_str(end, t->fn_close);
    return true;
}

/* Sets name and args to those of the i-th call. */
static void write_call(const struct toolparse *p, int i, struct buf *name, struct buf *args) {
    buf_reset(name);
    buf_reset(args);
    buf_add(name, p->calls[i].name.s, p->calls[i].name.n);
    json_write_spaced(args, p->calls[i].args);
}

/* Parses the call, or list element, at *i and moves past it. False: incomplete. */
static bool read_one(struct toolparse *p, size_t *i) {
    const size_t at = *i;
    return (p->part_list ? way_of(p)->one(p, i) : p->f->parse(p, i)) && *i > at;
}

/* Parses the incomplete call at `at` by temporarily replacing what follows its certain part with
 * text that completes it. False: no more of it is certain than before. */
static bool read_open(struct toolparse *p, size_t at, struct buf *name, struct buf *args,
                      size_t *n_sure) {
    struct buf end = {0}, tail = {0};
    const int n_calls = p->n_calls, n_problems = p->n_problems;
    size_t cut, n_close = 0, i = at;
    bool ok = way_of(p)->cut && way_of(p)->cut(p, at, &cut, &end, &n_close);
    if (ok) {
        buf_add(&tail, p->in.data + cut, p->in.len - cut);
        p->in.len = cut;
        buf_add(&p->in, end.data, end.len);
        const bool ended = p->ended;
        p->ended = true; /* nothing follows the appended end */
        ok = read_one(p, &i) && p->n_calls == n_calls + 1;
        p->ended = ended;
        if (ok) write_call(p, n_calls, name, args);
        p->in.len = cut;
        buf_add(&p->in, tail.data ? tail.data : "", tail.len);
        memset(p->mark_at, 0, sizeof p->mark_at);
        ok = ok && args->len > n_close;
        ok = ok && args->len - n_close > p->part_given; /* a repeated parameter adds nothing */
        if (ok) *n_sure = p->part_given = args->len - n_close;
    }
    p->n_calls = n_calls;
    p->n_problems = n_problems;
    buf_release(&end);
    buf_release(&tail);
    return ok;
}

/* Returns the start of the next call; SIZE_MAX: not known yet. */
static size_t next_call(struct toolparse *p) {
    const bool lists = way_of(p)->one != NULL;
    for (;;) {
        size_t k =
            p->part_list ? tool_ws(p, p->part_at) : tool_next_call(p, p->part_piece, p->part_at);
        if (k >= p->in.len) return SIZE_MAX;
        if (!p->part_list) {
            const size_t at = k;
            if (!lists) return at;
            k = tool_list_at(p, at, NULL);
            if (k >= p->in.len) return SIZE_MAX;
            const bool bracket = p->in.data[k] == '[';
            if (!bracket && !tool_has_lines(p->f)) return at;
            p->part_list = true;
            p->part_at = k + bracket;
        } else if (tool_has_lines(p->f) && tool_at(p, k, p->f->named.close)) {
            p->part_list = false;
            p->part_at = p->part_piece = k + strlen(p->f->named.close);
        } else if (p->in.data[k] == ']') {
            p->part_list = false;
            p->part_at = p->part_piece = k + 1;
        } else if (p->in.data[k] == ',') {
            p->part_at = k + 1;
        } else {
            return k;
        }
    }
}

/* Parses a complete call at `at`. False: the call is incomplete. */
static bool read_whole(struct toolparse *p, size_t at, struct buf *name, struct buf *args) {
    const int n_calls = p->n_calls, n_problems = p->n_problems;
    size_t end = at;
    const bool read = read_one(p, &end), done = read && p->n_calls == n_calls + 1;
    p->part_stop = read && !done &&
                   !p->part_list; /* a marker with several calls: they are returned at the end */
    if (done) write_call(p, n_calls, name, args);
    if (read) {
        p->part_at = p->part_piece = end;
        p->part_len = p->part_given = 0;
        tool_flow_reset(&p->flow);
    }
    p->n_calls = n_calls;
    p->n_problems = n_problems;
    return done;
}

/* Finds the arguments of the call at `at`, if they are JSON, and begins to parse them. */
static void begin_flow(struct toolparse *p, size_t at) {
    const struct way *w = way_of(p);
    tool_head *head = p->part_list && w->one == tool_one_object ? tool_head_object : w->head;
    size_t from;
    struct text name;
    if (p->flow.from || p->flow.failed || !head || !head(p, at, &name, &from)) return;
    from = tool_ws(p, from);
    if (from >= p->in.len) return;
    p->flow.failed = p->in.data[from] != '{';
    p->flow.from = from;
    name = tool_known_name(p, name);
    p->part_name = (struct text){arena_strndup(&p->arena, name.s, name.n), name.n};
}

/* Parses the JSON arguments that have arrived. Returns whether more of them are certain. */
static bool read_flow(struct toolparse *p, struct buf *name, struct buf *args, size_t *n_sure) {
    struct tool_flow *f = &p->flow;
    if (!f->from || f->failed) return false;
    tool_flow_more(p, f);
    if (tool_flow_sure(f) <= p->part_given) return false;
    *n_sure = p->part_given = tool_flow_sure(f);
    buf_reset(name);
    buf_reset(args);
    buf_add(name, p->part_name.s, p->part_name.n);
    buf_add(args, f->out.data, *n_sure);
    tool_flow_end(f, args);
    return true;
}

/* Returns whether to try again to parse the current call as a whole. */
static bool is_due(const struct toolparse *p) {
    const struct tool_flow *f = &p->flow;
    const bool flows = f->from && !f->failed;
    if (flows && f->ended && p->in.len - f->at < TRIES) return true;
    return (!flows || f->ended) && p->in.len >= p->part_len;
}

void toolparse_limited(struct toolparse *p) {
    p->limited = true;
}

void toolparse_no_more(struct toolparse *p) {
    tool_opened_end(p);
    p->ended = true;
    p->part_len = 0;
}

bool toolparse_part(struct toolparse *p, struct buf *name, struct buf *args, size_t *n_sure,
                    bool *done) {
    *done = false;
    if (!p->started || !p->closed || p->part_stop) return false;
    if (!p->part_at) {
        p->part_piece = p->content_from;
        p->part_at = p->content_from + p->n_content;
    }
    const size_t at = next_call(p);
    if (at == SIZE_MAX) return false;
    if (is_due(p)) begin_flow(p, at);
    const bool more = read_flow(p, name, args, n_sure);
    if (!is_due(p)) return more;
    *done = read_whole(p, at, name, args);
    if (*done) *n_sure = args->len;
    if (*done || p->part_stop || p->part_at > at) return *done;
    p->part_len = p->in.len + (p->in.len - at) / GROWTH;
    return more || (!p->flow.from && read_open(p, at, name, args, n_sure));
}
