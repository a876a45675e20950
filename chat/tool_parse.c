// SPDX-License-Identifier: MIT
/* chat/tool_parse.c - the driver of tool-call parsing: reasoning, content, calls, problems; typing
 * of raw values by schema; streaming of content. The syntaxes are in tool_tags.c, tool_elem.c,
 * tool_json.c and tool_lit.c, their table in tool_formats.c.
 *
 * Reasoning ends at the first closing tag, since an argument may hold one too; a call that starts
 * before that tag and ends behind it is a call all the same (models do call inside an unclosed
 * block). */
#include "chat/tool_int.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"

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

struct jval tool_text(const struct toolparse *p, size_t from, size_t to) {
    return jv_strn(p->in.data + from, to - from);
}

void tool_problem(struct toolparse *p, const char *fmt, ...) {
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (n >= (int)sizeof text) n = (int)sizeof text - 1;
    if (p->problems.u.list->n < 100)
        jlist_add(&p->c, p->problems.u.list, jv_copy(&p->c, text, (size_t)n));
}

struct jval tool_member(struct jval obj, const char *name) {
    struct jval *v = obj.tag == JT_DICT ? jdict_find(obj.u.dict, name, strlen(name)) : NULL;
    return v ? *v : jv_missing();
}

static struct jval function_of(const struct toolparse *p, struct jval name) {
    for (uint32_t i = 0; p->tools.tag == JT_LIST && i < p->tools.u.list->n; i++) {
        struct jval t = p->tools.u.list->v[i], f = tool_member(t, "function");
        if (f.tag != JT_DICT) f = t;
        struct jval n = tool_member(f, "name");
        if (n.tag == JT_STR && jv_eqs(n, name)) return f;
    }
    return jv_missing();
}

void tool_add(struct toolparse *p, struct jval name, struct jval args) {
    struct jval call = jv_dict(&p->c, 2), f = function_of(p, name),
                props = tool_member(tool_member(f, "parameters"), "properties");
    jdict_set(&p->c, call.u.dict, jv_str("name"), name);
    jdict_set(&p->c, call.u.dict, jv_str("arguments"), args);
    jlist_add(&p->c, p->calls.u.list, call);
    if (p->tools.tag == JT_LIST && f.tag == JT_MISSING)
        tool_problem(p, "the tool '%s' was not declared", jv_cstr(&p->c, name));
    for (uint32_t i = 0; props.tag == JT_DICT && i < args.u.dict->n; i++)
        if (args.u.dict->e[i].k.tag == JT_STR &&
            !jdict_get(&p->c, props.u.dict, args.u.dict->e[i].k))
            tool_problem(
                p, "parameter '%s' of '%s' was not declared; a value may hold the text of a tag",
                jv_cstr(&p->c, args.u.dict->e[i].k), jv_cstr(&p->c, name));
}

bool tool_add_object(struct toolparse *p, struct jval obj) {
    static const char *const arg_names[] = {"arguments", "parameters", "args"};
    static const char *const fn_names[] = {"name", "tool_name"};
    struct jval name = jv_missing(), args = jv_missing();
    if (obj.tag != JT_DICT) return false;
    if (tool_member(obj, "function").tag == JT_DICT) obj = tool_member(obj, "function");
    for (size_t i = 0; i < COUNT_OF(fn_names) && name.tag == JT_MISSING; i++)
        name = tool_member(obj, fn_names[i]);
    for (size_t i = 0; i < COUNT_OF(arg_names) && args.tag == JT_MISSING; i++)
        args = tool_member(obj, arg_names[i]);
    if (name.tag == JT_MISSING && obj.u.dict->n == 1 &&
        obj.u.dict->e[0].k.tag == JT_STR) { /* {"f": {args}} */
        name = obj.u.dict->e[0].k;
        args = obj.u.dict->e[0].v;
    }
    struct jval parsed;
    if (args.tag == JT_STR && jjson_object(&p->c, args, &parsed)) args = parsed;
    if (args.tag == JT_MISSING || args.tag == JT_NONE) args = jv_dict(&p->c, 0);
    if (name.tag != JT_STR || args.tag != JT_DICT) return false;
    tool_add(p, name, args);
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

static unsigned type_bit(struct jval name) {
    static const char *const names[] = {"string", "integer", "number", "boolean",
                                        "null",   "array",   "object"};
    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (jv_is(name, names[i])) return 1u << i;
    return 0;
}

/* Types a schema allows; 0 when it does not say. */
static unsigned types_of(struct jval schema, int depth) {
    static const char *const combined[] = {"anyOf", "oneOf", "allOf"};
    struct jval t = tool_member(schema, "type");
    unsigned bits = type_bit(t);
    for (uint32_t i = 0; t.tag == JT_LIST && i < t.u.list->n; i++) bits |= type_bit(t.u.list->v[i]);
    for (size_t k = 0; k < COUNT_OF(combined) && depth < 8; k++) {
        struct jval l = tool_member(schema, combined[k]);
        for (uint32_t i = 0; l.tag == JT_LIST && i < l.u.list->n; i++)
            bits |= types_of(l.u.list->v[i], depth + 1);
    }
    struct jval e = tool_member(schema, "enum");
    bool strings = e.tag == JT_LIST && e.u.list->n > 0;
    for (uint32_t i = 0; strings && i < e.u.list->n; i++) strings = e.u.list->v[i].tag == JT_STR;
    return bits ? bits : strings ? TY_STRING : 0;
}

static unsigned type_of_value(struct jval v) {
    switch ((int)v.tag) {
    case JT_STR:
        return TY_STRING;
    case JT_INT:
    case JT_BIG:
        return TY_INTEGER | TY_NUMBER;
    case JT_FLOAT:
        return TY_NUMBER;
    case JT_BOOL:
        return TY_BOOLEAN;
    case JT_NONE:
        return TY_NULL;
    case JT_LIST:
        return TY_ARRAY;
    default:
        return TY_OBJECT;
    }
}

static bool whole_json(struct toolparse *p, struct jval text, struct jval *out) {
    size_t used;
    if (!jjson_prefix(&p->c, text.u.s, text.len, &used, out)) return false;
    return ju_strip(jv_strn(text.u.s + used, text.len - used), jv_missing(), 3).len == 0;
}

static bool python_word(struct jval text, struct jval *out) {
    struct jval t = ju_strip(text, jv_missing(), 3);
    if (jv_is(t, "None")) {
        *out = jv_none();
    } else if (jv_is(t, "True") || jv_is(t, "False")) {
        *out = jv_bool(t.len == 4);
    } else {
        return false;
    }
    return true;
}

struct jval tool_schema(struct toolparse *p, struct jval fn, struct jval key) {
    struct jval props = tool_member(tool_member(function_of(p, fn), "parameters"), "properties");
    struct jval *schema = props.tag == JT_DICT ? jdict_get(&p->c, props.u.dict, key) : NULL;
    return schema ? *schema : jv_missing();
}

struct jval tool_typed(struct toolparse *p, struct jval fn, struct jval key, struct jval text) {
    return tool_typed_as(p, tool_schema(p, fn, key), key, text);
}

struct jval tool_typed_as(struct toolparse *p, struct jval schema, struct jval key,
                          struct jval text) {
    struct jval v;
    unsigned types = types_of(schema, 0);
    const char *k = jv_cstr(&p->c, key);
    text = jv_copy(&p->c, text.u.s, text.len);
    if (types == TY_STRING) return text;
    if (whole_json(p, text, &v) && v.tag != JT_STR) {
        if (!types) {
            if (jv_is_num(v))
                tool_problem(p, "parameter '%s' has no declared type: its text was read as JSON",
                             k);
            return v;
        }
        if ((types & type_of_value(v)) || !(types & TY_STRING)) return v;
        return text;
    }
    if (python_word(text, &v)) {
        if (types && !(types & TY_STRING)) return v;
        tool_problem(p, "parameter '%s' is the text %s, which may stand for a value", k,
                     jv_cstr(&p->c, text));
    } else if (types && !(types & TY_STRING)) {
        tool_problem(p, "parameter '%s' does not have its declared type", k);
    } else if (!types && text.len && strchr("[{", text.u.s[0])) {
        tool_problem(p, "parameter '%s' looks like a list or object but is not JSON", k);
    }
    return text;
}

/* ---- reasoning, content, calls --------------------------------------------------------------- */
enum { MAX_TRIES = 1000 }; /* markers that begin no call: each may cost a walk to the end */

/* What was found is kept, so that walking over all markers reads the text once. */
static size_t next_marker(struct toolparse *p, size_t i) {
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

/* Tries a call at i without keeping it; its end, or 0. */
static size_t probe(struct toolparse *p, size_t i) {
    uint32_t n_calls = p->calls.u.list->n, n_problems = p->problems.u.list->n;
    bool ok = p->f->parse(p, &i);
    p->calls.u.list->n = n_calls;
    p->problems.u.list->n = n_problems;
    return ok ? i : 0;
}

/* Texts around a message that are no content: of all families, and p->f->frame. */
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

/* Behind the white space and frames at i. */
static size_t skip_frames(const struct toolparse *p, size_t i) {
    i = tool_ws(p, i);
    for (size_t k = 0; k < MAX_FRAMES; k++) {
        const char *f = frame_at(p, k);
        if (!f || !tool_at(p, i, f)) continue;
        i = tool_ws(p, i + strlen(f));
        k = SIZE_MAX; /* again from the first */
    }
    return i;
}

/* The end of [from, to) without white space and frames. */
static size_t drop_frames(const struct toolparse *p, size_t from, size_t to) {
    while (to > from && is_ws(p->in.data[to - 1])) to--;
    for (size_t k = 0; k < MAX_FRAMES; k++) {
        const char *f = frame_at(p, k);
        size_t n = f ? strlen(f) : 0;
        while (n && is_ws(f[n - 1])) n--; /* gone already */
        if (!n || to - from < n || memcmp(p->in.data + to - n, f, n) != 0) continue;
        for (to -= n; to > from && is_ws(p->in.data[to - 1]);) to--;
        k = SIZE_MAX;
    }
    return to;
}

/* A marker that is a token of its own stands for a call wherever it is; text must begin a line. */
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
    size_t from = tagged ? start + strlen(think_open(p)) : 0;
    size_t close = tool_find(p, from, think_close(p)), call = next_marker(p, from);
    bool open = p->think == TOOL_THINK_OPEN && !p->f->think_tagged;
    if (!tagged && !open &&
        (p->think == TOOL_THINK_NONE || close == SIZE_MAX || p->f->think_tagged))
        return r;
    for (int n = 0; call < close && call != SIZE_MAX; n++) { /* a call inside the block? */
        if (n == MAX_TRIES) {
            call = SIZE_MAX;
            break;
        }
        size_t end = (!tagged && !open) || may_call(p, call) ? probe(p, call) : 0;
        if (end && (close == SIZE_MAX || end > close)) break;
        call = next_marker(p, call + 1);
    }
    bool has_call = call != SIZE_MAX && call < close;
    if (has_call && !tagged && !open) return r; /* the tag is in an argument */
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

static struct jval parse_all(struct toolparse *p, struct buf *content) {
    struct parts r = split_reasoning(p);
    size_t from = r.content, i = r.content;
    p->content_at = r.content;
    for (int n_bad = 0;;) {
        size_t at = next_marker(p, i);
        if (at == SIZE_MAX) break;
        if (n_bad == MAX_TRIES) {
            tool_problem(p,
                         "what begins like a call at byte %zu and after it was not read: %d "
                         "before it were none",
                         at, n_bad);
            break;
        }
        size_t end = at;
        if (frame_begins(p, at)) { /* and only looks like a call */
            join(p, content, from, at);
            from = i = skip_frames(p, at);
            continue;
        }
        if (p->f->parse(p, &end) && end > at) {
            join(p, content, from, at);
            from = i = end;
        } else {
            tool_problem(p, "what begins like a call at byte %zu is not one", at);
            i = at + 1;
            n_bad++;
        }
    }
    const struct tool_tags *t = &p->f->tags;
    if (p->calls.u.list->n && t->par_close &&
        (tool_find(p, from, t->par_close) != SIZE_MAX ||
         tool_find(p, from, t->fn_close) != SIZE_MAX))
        tool_problem(p,
                     "closing tags behind the last call: a value may have held the text of a tag");
    join(p, content, from, p->in.len);
    return ju_strip(tool_text(p, r.think_from, r.think_to), jv_missing(), 3);
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
    static const struct jinja nothing; /* strict mode */
    struct toolparse *p = xcalloc(1, sizeof *p);
    *out = NULL;
    arena_init(&p->arena);
    p->f = f;
    p->think = think;
    p->c = (struct jctx){
        .a = &p->arena, .err = &p->je, .t = &nothing, .max_out = 1u << 30, .max_steps = UINT64_MAX};
    p->calls = jv_list(&p->c, 0);
    p->problems = jv_list(&p->c, 0);
    if (tools) {
        size_t used;
        if (!jjson_prefix(&p->c, tools, len, &used, &p->tools) || p->tools.tag != JT_LIST) {
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
    buf_release(&p->c.out);
    arena_release(&p->arena);
    free(p);
}

void toolparse_feed(struct toolparse *p, const char *s, size_t n) {
    buf_add(&p->in, s, n);
    memset(p->mark_at, 0, sizeof p->mark_at); /* a marker may have come */
}

/* Bytes at the end of [from, len) that may become lit. */
static size_t partial(const struct toolparse *p, size_t from, const char *lit) {
    size_t n = strlen(lit), have = p->in.len - from;
    for (size_t k = n - 1 < have ? n - 1 : have; k > 0; k--)
        if (memcmp(p->in.data + p->in.len - k, lit, k) == 0) return k;
    return 0;
}

/* Longest end of [from, len) that may become a marker, a frame or (tag) reasoning's opening. */
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

/* Finds where content begins; false: not known yet, or not before the end. */
static bool content_begins(struct toolparse *p) {
    size_t i = skip_frames(p, 0), n_close = strlen(think_close(p));
    bool tagged = tool_at(p, i, think_open(p));
    if (!tagged && i + held(p, i, think_open(p)) >= p->in.len) return false; /* may become one */
    if (tagged || (p->think != TOOL_THINK_NONE && !p->f->think_tagged)) {
        size_t from = tagged ? i + strlen(think_open(p)) : 0;
        if (from < p->close_from) from = p->close_from;
        size_t at = tool_find(p, from, think_close(p)), call = next_marker(p, from);
        p->closed = call < at; /* a call in reasoning, or the tag in an argument? */
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
        size_t end = p->in.len - held(p, p->scanned, NULL), at = next_marker(p, p->scanned);
        for (size_t k = 0; k < MAX_FRAMES; k++) {
            size_t f = frame_at(p, k) ? tool_find(p, p->scanned, frame_at(p, k)) : SIZE_MAX;
            if (f < at) at = f;
        }
        p->closed = at != SIZE_MAX;
        if (p->closed) end = at;
        while (end > p->scanned && is_ws(p->in.data[end - 1])) end--; /* may precede a call */
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
    const size_t shown = from + p->n_reasoning; /* holds no tag, and no piece of one */
    size_t end = p->in.len - held(p, shown, think_close(p));
    const size_t close = tool_find(p, shown, think_close(p)), call = next_marker(p, shown);
    if (close < end) end = close;
    if (call < end) end = call;
    while (end > shown && is_ws(p->in.data[end - 1])) end--;
    if (end > shown) p->n_reasoning = end - from;
    *len = p->n_reasoning;
    return p->in.data + from;
}

const char *toolparse_rest(const struct toolparse *p, size_t *len) {
    size_t at = p->started ? p->content_from + p->n_content : p->content_at;
    if (at > p->in.len) at = p->in.len;
    *len = p->in.len - at;
    return p->in.data + at;
}

static int finish_guarded(struct toolparse *p, struct buf *content) {
    if (setjmp(p->c.fail)) return ERR_DATA;
    struct jval r = parse_all(p, content), d = jv_dict(&p->c, 4);
    jdict_set(&p->c, d.u.dict, jv_str("content"),
              jv_strn(content->data ? content->data : "", content->len));
    jdict_set(&p->c, d.u.dict, jv_str("reasoning"), r);
    jdict_set(&p->c, d.u.dict, jv_str("tool_calls"), p->calls);
    jdict_set(&p->c, d.u.dict, jv_str("problems"), p->problems);
    jfmt_json(&p->c, d, false, jv_missing(), jv_missing(), false);
    return 0;
}

int toolparse_finish(struct toolparse *p, struct buf *out, struct err *e) {
    struct buf content = {0};
    if (!p->in.data) buf_add(&p->in, "", 0);
    if (!p->in.data) {
        buf_chr(&p->in, 0);
        p->in.len = 0;
    }
    int rc = finish_guarded(p, &content);
    if (rc) {
        err_set(e, ERR_DATA, "tool calls cannot be read: %s", p->je.msg);
    } else {
        buf_add(out, p->c.out.data, p->c.out.len);
    }
    buf_release(&content);
    return rc;
}
