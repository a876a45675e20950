// SPDX-License-Identifier: MIT
/* chat/tool_parse.c - the driver of tool-call parsing: reasoning, content, calls, problems; typing
 * of raw values by schema; streaming of content. The syntaxes are in tool_tags.c, tool_elem.c,
 * tool_json.c and tool_lit.c, their table in tool_formats.c.
 *
 * Reasoning ends at the first closing tag, since an argument may hold one too; a call of an offered
 * tool that starts before that tag and ends behind it is a call all the same (models do call inside
 * an unclosed block). */
#include "chat/tool_int.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "text/utf8.h"

static const char *think_open(const struct toolparse *p) {
    return toolfmt_think_tag(p->f, false);
}
static const char *think_close(const struct toolparse *p) {
    return toolfmt_think_tag(p->f, true);
}

/* ---- helpers for the syntaxes ---------------------------------------------------------------- */
bool tool_at(const struct toolparse *p, size_t i, const char *lit) {
    size_t n = strlen(lit);
    return i <= p->in.len && n <= p->in.len - i && memcmp(p->in.data + i, lit, n) == 0;
}

static bool is_ws(char ch) {
    return ch == ' ' || ch == '\t' || ch == '\r' || ch == '\n';
}

size_t tool_ws(const struct toolparse *p, size_t i) {
    while (i < p->in.len && is_ws(p->in.data[i])) i++;
    return i;
}

size_t tool_find(const struct toolparse *p, size_t i, const char *lit) {
    size_t n = strlen(lit);
    if (i > p->in.len) return SIZE_MAX;
    const char *hit = p->in.len > i ? memmem(p->in.data + i, p->in.len - i, lit, n) : NULL;
    return hit ? (size_t)(hit - p->in.data) : SIZE_MAX;
}

struct text tool_text(const struct toolparse *p, size_t from, size_t to) {
    return (struct text){p->in.data + from, to - from};
}

struct text tool_strip(struct text t) {
    const size_t lead = utf8_white_span(t.s, t.n);
    t.s += lead;
    t.n -= lead;
    t.n -= utf8_white_before(t.s, t.n);
    return t;
}

bool tool_same(struct text a, struct text b) {
    return a.n == b.n && memcmp(a.s, b.s, a.n) == 0;
}

bool tool_is(struct text t, const char *lit) {
    return tool_same(t, (struct text){lit, strlen(lit)});
}

const struct json *tool_json(struct toolparse *p, struct text t, size_t *used) {
    bool twice = false;
    const struct json_opts o = {.first_wins = true, .twice = &twice, .max_depth = TOOL_DEPTH};
    const struct json *v;
    struct err ignored;
    if (json_parse_in(&v, &p->arena, t.s, t.n, &o, "call", used, &ignored)) return NULL;
    if (twice) tool_problem(p, "a member of an object is given twice; the first one counts");
    return v;
}

struct json *tool_str(struct toolparse *p, struct text t) {
    return json_new_str(&p->arena, t.s, t.n);
}

/* Returns the length as %.*s takes it. */
static int len(struct text t) {
    return t.n > 200 ? 200 : (int)t.n;
}

void tool_put(struct toolparse *p, struct json *obj, struct text name, const struct json *v) {
    if (json_getn(obj, name.s, name.n))
        tool_problem(p, "parameter '%.*s' is given twice; the first one counts", len(name), name.s);
    else
        json_put(&p->arena, obj, name.s, name.n, v);
}

void tool_problem(struct toolparse *p, const char *fmt, ...) {
    enum { MAX_PROBLEMS = 100 };
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (p->n_problems == MAX_PROBLEMS) return;
    if (!p->problems) p->problems = xcalloc(MAX_PROBLEMS, sizeof *p->problems);
    p->problems[p->n_problems++] = arena_strdup(&p->arena, text);
}

static struct text text_of(const struct json *j) {
    struct text t;
    t.s = json_strn(j, &t.n);
    return t;
}

static struct text name_of(const struct json *member) {
    struct text t;
    t.s = json_namen(member, &t.n);
    return t;
}

static const struct json *function_of(const struct toolparse *p, struct text name) {
    for (const struct json *t = json_first(p->tools); t; t = json_next(t)) {
        const struct json *f = json_get(t, "function");
        if (json_type(f) != JSON_OBJ) f = t;
        const struct json *n = json_get(f, "name");
        if (json_type(n) == JSON_STR && tool_same(text_of(n), name)) return f;
    }
    return NULL;
}

const struct json *tool_target(const struct json *root, const struct json *schema) {
    for (int hops = 0; hops < 8; hops++) {
        const char *ref = json_str(json_get(schema, "$ref"));
        const struct json *to = root;
        if (!ref || *ref != '#') break;
        for (ref++; *ref == '/' && to; ref += strcspn(ref, "/")) {
            ref++;
            to = json_getn(to, ref, strcspn(ref, "/"));
        }
        if (!to || *ref) break;
        schema = to;
    }
    return schema;
}

static const struct json *properties(const struct json *fn) {
    const struct json *root = json_get(fn, "parameters");
    return json_get(tool_target(root, root), "properties");
}

void tool_add(struct toolparse *p, struct text name, const struct json *args) {
    const struct json *f = function_of(p, name), *props = properties(f);
    if (p->n_calls == p->cap_calls) {
        p->cap_calls = p->cap_calls ? 2 * p->cap_calls : 8;
        p->calls = xreallocarray(p->calls, (size_t)p->cap_calls, sizeof *p->calls);
    }
    p->calls[p->n_calls++] = (struct tool_call){.name = name, .args = args};
    if (p->tools && !f) tool_problem(p, "the tool '%.*s' was not declared", len(name), name.s);
    if (json_type(props) != JSON_OBJ) return;
    for (const struct json *m = json_first(args); m; m = json_next(m)) {
        const struct text key = name_of(m);
        if (json_getn(props, key.s, key.n)) continue;
        tool_problem(p,
                     "parameter '%.*s' of '%.*s' was not declared; a value may hold the text of "
                     "a tag",
                     len(key), key.s, len(name), name.s);
    }
}

/* Returns the first of the members that obj has. */
static const struct json *first_of(const struct json *obj, const char *const *names, size_t n) {
    const struct json *v = NULL;
    for (size_t i = 0; i < n && !v; i++) v = json_get(obj, names[i]);
    return v;
}

static bool only_white(struct text t) {
    return tool_strip(t).n == 0;
}

/* Returns the JSON value that t is, apart from white space around it; NULL when it is none. */
static const struct json *whole_json(struct toolparse *p, struct text t) {
    size_t used;
    const struct json *v = tool_json(p, t, &used);
    return v && only_white((struct text){t.s + used, t.n - used}) ? v : NULL;
}

bool tool_add_object(struct toolparse *p, const struct json *obj) {
    static const char *const arg_names[] = {"arguments", "parameters", "args"};
    static const char *const fn_names[] = {"name", "tool_name"};
    if (json_type(obj) != JSON_OBJ) return false;
    if (json_type(json_get(obj, "function")) == JSON_OBJ) obj = json_get(obj, "function");
    const struct json *name = first_of(obj, fn_names, COUNT_OF(fn_names));
    const struct json *args = first_of(obj, arg_names, COUNT_OF(arg_names));
    struct text text = {NULL, 0};
    if (name && json_type(name) == JSON_STR) text = text_of(name);
    if (!name && json_len(obj) == 1) { /* {"f": {args}} */
        args = json_first(obj);
        text = name_of(args);
    }
    if (json_type(args) == JSON_STR) {
        const struct json *parsed = whole_json(p, text_of(args));
        if (json_type(parsed) == JSON_OBJ) args = parsed;
    }
    if (json_type(args) == JSON_NULL) args = json_new(&p->arena, JSON_OBJ);
    if (!text.s || json_type(args) != JSON_OBJ) return false;
    tool_add(p, text, args);
    return true;
}

/* ---- typing ---------------------------------------------------------------------------------- */
enum {
    TY_STRING = 1,
    TY_INTEGER = 2,
    TY_NUMBER = 4,
    TY_BOOLEAN = 8,
    TY_NULL = 16,
    TY_ARRAY = 32,
    TY_OBJECT = 64
};

static unsigned type_bit(const struct json *name) {
    static const char *const names[] = {"string", "integer", "number", "boolean",
                                        "null",   "array",   "object"};
    const char *s = json_str(name);
    for (size_t i = 0; s && i < COUNT_OF(names); i++)
        if (strcmp(s, names[i]) == 0) return 1u << i;
    return 0;
}

static const struct json *items_of(const struct json *list) {
    return json_type(list) == JSON_ARR ? json_first(list) : NULL;
}

static unsigned type_of_value(const struct json *v) {
    static const unsigned bits[] = {
        [JSON_NULL] = TY_NULL,  [JSON_BOOL] = TY_BOOLEAN, [JSON_NUM] = TY_NUMBER,
        [JSON_STR] = TY_STRING, [JSON_ARR] = TY_ARRAY,    [JSON_OBJ] = TY_OBJECT};
    return bits[json_type(v)] | (json_is_int(v) ? TY_INTEGER : 0);
}

/* Returns the types that a schema within root allows; 0 when it does not say. */
static unsigned types_of(const struct json *root, const struct json *schema, int depth) {
    static const char *const combined[] = {"anyOf", "oneOf", "allOf"};
    schema = tool_target(root, schema);
    const struct json *t = json_get(schema, "type"), *e = json_get(schema, "enum");
    unsigned bits = type_bit(t);
    for (t = items_of(t); t; t = json_next(t)) bits |= type_bit(t);
    for (size_t k = 0; k < COUNT_OF(combined) && depth < 8; k++)
        for (t = items_of(json_get(schema, combined[k])); t; t = json_next(t))
            bits |= types_of(root, t, depth + 1);
    if (bits) return bits;
    for (e = items_of(e); e; e = json_next(e)) bits |= type_of_value(e);
    return json_get(schema, "const") ? type_of_value(json_get(schema, "const")) : bits;
}

/* Returns the value that a word of Python stands for; NULL when it is no such word. */
static const struct json *python_word(struct toolparse *p, struct text text) {
    const struct text t = tool_strip(text);
    if (tool_is(t, "None")) return json_new(&p->arena, JSON_NULL);
    if (tool_is(t, "True")) return json_new_bool(&p->arena, true);
    return tool_is(t, "False") ? json_new_bool(&p->arena, false) : NULL;
}

const struct json *tool_schema(struct toolparse *p, struct text fn, struct text key) {
    const struct json *f = function_of(p, fn);
    p->root = json_get(f, "parameters");
    return tool_target(p->root, json_getn(properties(f), key.s, key.n));
}

const struct json *tool_typed(struct toolparse *p, const struct json *schema, struct text key,
                              struct text text) {
    const unsigned types = types_of(p->root, schema, 0);
    const struct json *v = types == TY_STRING ? NULL : whole_json(p, text);
    if (types == TY_STRING) return tool_str(p, text);
    if (v && json_type(v) != JSON_STR) {
        if (!types && json_type(v) == JSON_NUM)
            tool_problem(p, "parameter '%.*s' has no declared type: its text was read as JSON",
                         len(key), key.s);
        if (!types || (types & type_of_value(v)) || !(types & TY_STRING)) return v;
        return tool_str(p, text);
    }
    v = python_word(p, text);
    if (v && types && !(types & TY_STRING)) return v;
    if (v)
        tool_problem(p, "parameter '%.*s' is the text %.*s, which may stand for a value", len(key),
                     key.s, len(text), text.s);
    else if (types && !(types & TY_STRING))
        tool_problem(p, "parameter '%.*s' does not have its declared type", len(key), key.s);
    else if (!types && text.n && strchr("[{", text.s[0]))
        tool_problem(p, "parameter '%.*s' looks like a list or object but is not JSON", len(key),
                     key.s);
    return tool_str(p, text);
}

/* ---- reasoning, content, calls --------------------------------------------------------------- */
/* So many markers may turn out to begin no call; each of them may cost a walk to the end. */
enum { MAX_TRIES = 1000 };

/* Returns where the next marker begins, at i or later. The places found are kept, so that a walk
 * over all markers reads the text once. */
size_t tool_marker(struct toolparse *p, size_t i) {
    size_t best = SIZE_MAX;
    for (int k = 0; k < TOOL_MARKERS && p->f->marker[k]; k++) {
        bool known = p->mark_from[k] <= i && i <= p->mark_at[k] && p->mark_at[k];
        if (!known) {
            p->mark_at[k] = tool_find(p, i, p->f->marker[k]);
            p->mark_from[k] = i;
        }
        if (p->mark_at[k] < best) best = p->mark_at[k];
    }
    return best;
}

static bool line_start(const struct toolparse *p, size_t i) {
    while (i > 0 && (p->in.data[i - 1] == ' ' || p->in.data[i - 1] == '\t')) i--;
    return i == 0 || p->in.data[i - 1] == '\n' || p->in.data[i - 1] == '>';
}

/* Tries to read a call at i without keeping it; `offered` wants one of an offered tool. Returns
 * where it ends, or 0 when there is none. */
static size_t probe(struct toolparse *p, size_t i, bool offered) {
    const int n_calls = p->n_calls, n_problems = p->n_problems;
    bool ok = p->f->parse(p, &i);
    for (int k = n_calls; k < p->n_calls && offered && p->tools; k++)
        ok = ok && function_of(p, p->calls[k].name);
    p->n_calls = n_calls;
    p->n_problems = n_problems;
    return ok ? i : 0;
}

/* The texts around a message that are no content, of all families; those of one family are in
 * p->f->frame. */
static const char *const ends[] = {
    "<|im_end|>",    "<|eot_id|>", "<|end_of_text|>", "<|end|>",  "</s>", "<EOS>",     "<turn|>",
    "<|endoftext|>", "<|eom_id|>", "<|return|>",      "<|call|>", "[e~[", "<seed:eos>"};
enum { MAX_FRAMES = COUNT_OF(ends) + TOOL_FRAMES };

static const char *frame_at(const struct toolparse *p, size_t k) {
    if (k < COUNT_OF(ends)) return ends[k];
    return k < MAX_FRAMES ? p->f->frame[k - COUNT_OF(ends)] : NULL;
}

static bool frame_begins(const struct toolparse *p, size_t i) {
    for (size_t k = 0; k < MAX_FRAMES; k++)
        if (frame_at(p, k) && tool_at(p, i, frame_at(p, k))) return true;
    return false;
}

/* Returns the place behind the white space and frames at i. */
static size_t skip_frames(const struct toolparse *p, size_t i) {
    i = tool_ws(p, i);
    for (size_t k = 0; k < MAX_FRAMES; k++) {
        const char *f = frame_at(p, k);
        if (!f || !tool_at(p, i, f)) continue;
        i = tool_ws(p, i + strlen(f));
        k = SIZE_MAX; /* The search begins again with the first frame. */
    }
    return i;
}

/* Returns where [from, to) ends when white space and frames at its end are left out. */
static size_t drop_frames(const struct toolparse *p, size_t from, size_t to) {
    while (to > from && is_ws(p->in.data[to - 1])) to--;
    for (size_t k = 0; k < MAX_FRAMES; k++) {
        const char *f = frame_at(p, k);
        size_t n = f ? strlen(f) : 0;
        while (n && is_ws(f[n - 1])) n--; /* White space at the end is gone already. */
        if (!n || to - from < n || memcmp(p->in.data + to - n, f, n) != 0) continue;
        for (to -= n; to > from && is_ws(p->in.data[to - 1]);) to--;
        k = SIZE_MAX;
    }
    return to;
}

/* Tells whether the marker at i may begin a call. A marker that is a token of its own may do so
 * anywhere; one that is plain text must begin a line. */
static bool may_call(const struct toolparse *p, size_t i) {
    return p->in.data[i] == '[' || tool_at(p, i, "<|") || tool_at(p, i, "<\xef\xbd\x9c") ||
           tool_at(p, i, "]<]") || line_start(p, i);
}

struct parts {
    size_t think_from, think_to, content;
};

static struct parts split_reasoning(struct toolparse *p) {
    size_t start = skip_frames(p, 0);
    struct parts r = {0, 0, 0};
    bool tagged = tool_at(p, start, think_open(p));
    bool open = p->think == TOOL_THINK_OPEN && !p->f->think_tagged;
    size_t from = tagged ? start + strlen(think_open(p)) : open ? start : 0;
    size_t close = tool_find(p, from, think_close(p)), call = tool_marker(p, from);
    if (!tagged && !open &&
        (p->think == TOOL_THINK_NONE || close == SIZE_MAX || p->f->think_tagged))
        return r;
    /* A call may lie inside the block of reasoning. */
    for (int n = 0; call < close && call != SIZE_MAX; n++) {
        if (n == MAX_TRIES) {
            call = SIZE_MAX;
            break;
        }
        /* A call around the tag that ends the reasoning is one only when its tool is offered. */
        const bool around = close != SIZE_MAX;
        size_t end = (!tagged && !open) || may_call(p, call) ? probe(p, call, around) : 0;
        if (end && (close == SIZE_MAX || end > close)) break;
        call = tool_marker(p, call + 1);
    }
    bool has_call = call != SIZE_MAX && call < close;
    if (has_call && !tagged && !open) return r; /* The tag is part of an argument. */
    r.think_from = from;
    r.think_to = has_call ? call : close == SIZE_MAX ? p->in.len : close;
    r.content = has_call ? call : close == SIZE_MAX ? p->in.len : close + strlen(think_close(p));
    if (close == SIZE_MAX && p->think == TOOL_THINK_NONE && !has_call)
        return (struct parts){0, 0, 0};
    if (close == SIZE_MAX || has_call) tool_problem(p, "the reasoning was not closed");
    return r;
}

static void join(struct toolparse *p, struct buf *b, size_t from, size_t to) {
    from = skip_frames(p, from);
    if (from < to) to = drop_frames(p, from, to);
    if (from >= to) return;
    if (b->len) buf_str(b, "\n");
    buf_add(b, p->in.data + from, to - from);
}

static struct text parse_all(struct toolparse *p, struct buf *content) {
    struct parts r = split_reasoning(p);
    size_t from = r.content, i = r.content;
    p->content_at = r.content;
    for (int n_bad = 0;;) {
        size_t at = tool_marker(p, i);
        if (at == SIZE_MAX) break;
        if (n_bad == MAX_TRIES) {
            tool_problem(p,
                         "what begins like a call at byte %zu and after it was not read: %d "
                         "before it were none",
                         at, n_bad);
            break;
        }
        size_t end = at;
        if (frame_begins(p, at)) { /* The text is a frame and only looks like a call. */
            join(p, content, from, at);
            from = i = skip_frames(p, at);
            continue;
        }
        const int n_calls = p->n_calls;
        if (p->f->parse(p, &end) && end > at) {
            for (int k = n_calls; k < p->n_calls; k++) {
                p->calls[k].from = at;
                p->calls[k].to = end;
            }
            join(p, content, from, at);
            from = i = end;
        } else {
            tool_problem(p, "what begins like a call at byte %zu is not one", at);
            i = at + 1;
            n_bad++;
            p->broken = true;
        }
    }
    const struct tool_tags *t = &p->f->tags;
    if (p->n_calls && t->par_close &&
        (tool_find(p, from, t->par_close) != SIZE_MAX ||
         tool_find(p, from, t->fn_close) != SIZE_MAX))
        tool_problem(p,
                     "closing tags behind the last call: a value may have held the text of a tag");
    join(p, content, from, p->in.len);
    return tool_strip(tool_text(p, r.think_from, r.think_to));
}

static bool ends_with(const char *s, const char *tail) {
    size_t n = strlen(s), m = strlen(tail);
    while (n && is_ws(s[n - 1])) n--;
    return n >= m && memcmp(s + n - m, tail, m) == 0;
}

const char *toolfmt_think_tag(const struct toolfmt *f, bool closing) {
    static const char *const usual[] = {"<think>", "</think>"};
    return f->think[closing] ? f->think[closing] : usual[closing];
}

enum tool_think toolfmt_think_of(const struct toolfmt *f, const char *prompt) {
    const char *open = toolfmt_think_tag(f, false), *close = toolfmt_think_tag(f, true);
    return ends_with(prompt, open)    ? TOOL_THINK_OPEN
           : ends_with(prompt, close) ? TOOL_THINK_NONE
                                      : TOOL_THINK_UNKNOWN;
}

/* ---- the public side ------------------------------------------------------------------------- */
int toolparse_new(struct toolparse **out, const struct toolfmt *f, const char *tools, size_t len,
                  enum tool_think think, struct err *e) {
    struct toolparse *p = xcalloc(1, sizeof *p);
    *out = NULL;
    arena_init(&p->arena);
    p->f = f;
    p->think = think;
    if (tools) {
        size_t used;
        p->tools = tool_json(p, (struct text){tools, len}, &used);
        if (json_type(p->tools) != JSON_ARR) {
            toolparse_free(p);
            return err_set(e, ERR_DATA, "the tools are not a JSON list");
        }
    }
    *out = p;
    return 0;
}

void toolparse_free(struct toolparse *p) {
    if (!p) return;
    buf_release(&p->in);
    free(p->calls);
    free(p->problems);
    tool_flow_release(&p->flow);
    arena_release(&p->arena);
    free(p);
}

void toolparse_feed(struct toolparse *p, const char *s, size_t n) {
    while (n) { /* A NUL becomes U+FFFD, since strings in conversations hold none. */
        const size_t k = strnlen(s, n);
        buf_add(&p->in, s, k);
        if (k == n) break;
        buf_str(&p->in, "\xef\xbf\xbd");
        s += k + 1;
        n -= k + 1;
    }
    memset(p->mark_at, 0, sizeof p->mark_at); /* A marker may have come with the new text. */
}

/* Returns the number of bytes at the end of [from, len) that may become lit. */
static size_t partial(const struct toolparse *p, size_t from, const char *lit) {
    size_t n = strlen(lit), have = p->in.len - from;
    for (size_t k = n - 1 < have ? n - 1 : have; k > 0; k--)
        if (memcmp(p->in.data + p->in.len - k, lit, k) == 0) return k;
    return 0;
}

/* Returns the length of the longest end of [from, len) that may become a marker, a frame, or the
 * tag that opens reasoning. */
static size_t held(const struct toolparse *p, size_t from, const char *tag) {
    size_t hold = tag ? partial(p, from, tag) : 0, h;
    for (int k = 0; k < TOOL_MARKERS && p->f->marker[k]; k++) {
        h = partial(p, from, p->f->marker[k]);
        if (h > hold) hold = h;
    }
    for (size_t k = 0; k < MAX_FRAMES; k++) {
        h = frame_at(p, k) ? partial(p, from, frame_at(p, k)) : 0;
        if (h > hold) hold = h;
    }
    return hold;
}

/* Finds where content begins. False when that is not known yet, or when it does not begin before
 * the end. */
static bool content_begins(struct toolparse *p) {
    size_t i = skip_frames(p, 0), n_close = strlen(think_close(p));
    bool tagged = tool_at(p, i, think_open(p));
    /* The text so far may become a marker. */
    if (!tagged && i + held(p, i, think_open(p)) >= p->in.len) return false;
    if (tagged || (p->think != TOOL_THINK_NONE && !p->f->think_tagged)) {
        size_t from = tagged ? i + strlen(think_open(p)) : 0;
        if (from < p->close_from) from = p->close_from;
        size_t at = tool_find(p, from, think_close(p)), call = tool_marker(p, from);
        /* Either the call is inside the reasoning, or the tag is inside an argument. */
        p->closed = call < at;
        if (p->closed) return false;
        if (at == SIZE_MAX) {
            size_t hold = held(p, from, think_close(p));
            p->close_from = p->in.len - hold;
            return false;
        }
        i = skip_frames(p, at + n_close);
        if (i + held(p, i, NULL) >= p->in.len) return false;
    }
    p->content_from = p->scanned = i;
    return true;
}

const char *toolparse_content(struct toolparse *p, size_t *len) {
    *len = 0;
    if (!p->started) {
        if (p->closed) return "";
        p->started = content_begins(p);
        if (!p->started) return "";
    }
    if (!p->closed) {
        size_t end = p->in.len - held(p, p->scanned, NULL), at = tool_marker(p, p->scanned);
        for (size_t k = 0; k < MAX_FRAMES; k++) {
            size_t f = frame_at(p, k) ? tool_find(p, p->scanned, frame_at(p, k)) : SIZE_MAX;
            if (f < at) at = f;
        }
        p->closed = at != SIZE_MAX;
        if (p->closed) end = at;
        /* A call may follow this white space. */
        while (end > p->scanned && is_ws(p->in.data[end - 1])) end--;
        if (end > p->scanned) p->scanned = end;
        p->n_content = p->scanned - p->content_from;
    }
    *len = p->n_content;
    return p->in.data + p->content_from;
}

const char *toolparse_reasoning(struct toolparse *p, size_t *len) {
    const bool open = p->think == TOOL_THINK_OPEN && !p->f->think_tagged;
    size_t from = skip_frames(p, 0);
    const bool tagged = tool_at(p, from, think_open(p));
    *len = 0;
    if (tagged) from += strlen(think_open(p));
    if ((!tagged && !open) || (!tagged && from + held(p, from, think_open(p)) >= p->in.len))
        return "";
    from = tool_ws(p, from);
    const size_t shown = from + p->n_reasoning; /* This part holds no tag and no piece of one. */
    size_t end = p->in.len - held(p, shown, think_close(p));
    const size_t close = tool_find(p, shown, think_close(p)), call = tool_marker(p, shown);
    if (close < end) end = close;
    if (call < end) end = call;
    while (end > shown && is_ws(p->in.data[end - 1])) end--;
    if (end > shown) p->n_reasoning = end - from;
    *len = p->n_reasoning;
    return p->in.data + from;
}

bool toolparse_broken(const struct toolparse *p) {
    return p->broken;
}

const char *toolparse_rest(const struct toolparse *p, size_t *len) {
    size_t at = p->started ? p->content_from + p->n_content : p->content_at;
    if (at > p->in.len) at = p->in.len;
    *len = p->in.len - at;
    return p->in.data + at;
}

static void put(struct toolparse *p, struct json *obj, const char *name, const struct json *v) {
    json_put(&p->arena, obj, name, strlen(name), v);
}

static struct json *result_of(struct toolparse *p, struct text content, struct text reasoning) {
    struct json *d = json_new(&p->arena, JSON_OBJ), *calls = json_new(&p->arena, JSON_ARR),
                *problems = json_new(&p->arena, JSON_ARR);
    for (int i = 0; i < p->n_calls; i++) {
        struct json *call = json_new(&p->arena, JSON_OBJ);
        put(p, call, "name", tool_str(p, p->calls[i].name));
        put(p, call, "arguments", p->calls[i].args);
        json_push(&p->arena, calls, call);
    }
    for (int i = 0; i < p->n_problems; i++)
        json_push(&p->arena, problems,
                  json_new_str(&p->arena, p->problems[i], strlen(p->problems[i])));
    put(p, d, "content", tool_str(p, content));
    put(p, d, "reasoning", tool_str(p, reasoning));
    put(p, d, "tool_calls", calls);
    put(p, d, "problems", problems);
    return d;
}

const struct json *toolparse_finish(struct toolparse *p) {
    struct buf content = {0};
    buf_str(&p->in, ""); /* This makes sure that its text is not NULL. */
    buf_str(&content, "");
    const struct text reasoning = parse_all(p, &content);
    const struct json *r = result_of(p, (struct text){content.data, content.len}, reasoning);
    buf_release(&content);
    return r;
}
