// SPDX-License-Identifier: MIT
/* chat/tool_detect.c - detection of a template's call syntax from its output: renders a call and
 * picks the syntax that parses it back with the least text left over. Templates that do not render
 * whole calls are recognized by the instructions they render for declared tools, or else by the
 * template's own text. If a whole call is rendered but no syntax parses it, the syntax is
 * unknown. */
#include "chat/tool_int.h"

#include <string.h>

#include "base/mem.h"
#include "template/jinja.h"

enum { MAX_STEPS = 2 << 20, MAX_BYTES = 1 << 20 };

#define USER "Zq7"
#define NAME "probe_it"
static const char tools[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"" NAME "\", \"description\": \"d\", "
    "\"parameters\": {\"type\": \"object\", \"properties\": {\"word\": {\"type\": \"string\", "
    "\"description\": \"w\"}, \"count\": {\"type\": \"integer\", \"description\": \"n\"}}, "
    "\"required\": [\"word\", \"count\"]}}}]";

/* Messages with a call, in variants that different templates accept: content, id, arguments,
 * following message. Mistral's templates require an id of nine letters; Kimi's print the id instead
 * of the name. */
static const struct probe {
    const char *content, *id, *args, *after;
} probes[] = {
#define WORD "xyzzy"
#define ARGS "{\"word\": \"" WORD "\", \"count\": 7}"
#define TEXT_ARGS "\"{\\\"word\\\": \\\"" WORD "\\\", \\\"count\\\": 7}\""
#define RESULT                                                                                     \
    ", {\"role\": \"tool\", \"tool_call_id\": \"abcdefghi\", \"name\": \"" NAME                    \
    "\", \"content\": \"ok\"}"
    {"\"\"", "abcdefghi", ARGS, ""},      {"\"\"", "functions." NAME ":0", ARGS, ""},
    {"\"\"", "abcdefghi", TEXT_ARGS, ""}, {"null", "abcdefghi", ARGS, ""},
    {"\"\"", "abcdefghi", ARGS, RESULT},
};

/* A template being probed. */
struct trial {
    struct jinja *t;
    struct buf out; /* last rendering */
    bool over;      /* a limit was exceeded: render no more */
    bool whole;     /* a call was rendered with its name and arguments */
};

/* Renders a list of messages with the probe's tool into r->out. False: rendering failed. */
static bool render(struct trial *r, const char *messages, bool gen) {
    static const struct jinja_limits lim = {.max_steps = MAX_STEPS, .max_output = MAX_BYTES};
    struct buf vars = {0};
    struct jinja_err je = {0};
    struct err ignored;
    buf_reset(&r->out);
    if (r->over) return false;
    buf_fmt(&vars,
            "{\"messages\": %s, \"tools\": %s, \"documents\": null, \"add_generation_prompt\": %s, "
            "\"bos_token\": \"\", \"eos_token\": \"\"}",
            messages, tools, gen ? "true" : "false");
    const int rc = jinja_render_text(r->t, vars.data, vars.len, 0, &lim, &r->out, &je, &ignored);
    buf_release(&vars);
    r->over = rc && je.kind == JF_LIMIT;
    buf_str(&r->out, "");
    return rc == 0;
}

/* Returns whether the parse result j consists of the probe's call. */
static bool is_probe(const struct json *j) {
    struct json *want = NULL;
    struct err e;
    const struct json *c = json_first(json_get(j, "tool_calls"));
    const char *name = json_str(json_get(c, "name"));
    bool same = name && !json_next(c) && strcmp(name, NAME) == 0 &&
                json_parse(&want, ARGS, sizeof ARGS - 1, "probe", &e) == 0 &&
                json_equal(json_get(c, "arguments"), want);
    json_free(want);
    return same;
}

/* Returns the length of lit, without surrounding whitespace, if it occurs in text; else 0. */
static size_t weight(const char *text, const char *lit) {
    struct text t = tool_strip((struct text){lit, strlen(lit)});
    return t.n && memmem(text, strlen(text), t.s, t.n) ? t.n : 0;
}

/* How well a syntax fits a text. */
struct fit {
    size_t left, own; /* bytes outside the call; bytes of the syntax's own tags */
};

/* Returns whether syntax f parses the probe's call in the text. Sets *out to how well it fits. */
static bool fits(const struct toolfmt *f, const char *text, struct fit *out) {
    struct toolparse *p;
    struct err e;
    struct buf start = {0};
    size_t n;
    if (f->named.sep && !strstr(text, f->named.sep)) return false;
    if (toolparse_new(&p, f, tools, sizeof tools - 1, TOOL_THINK_UNKNOWN, &e)) return false;
    p->own_form = true;
    toolparse_feed(p, text, strlen(text));
    const struct json *j = toolparse_finish(p);
    const bool ok = is_probe(j);
    json_strn(json_get(j, "content"), &n);
    buf_fmt(&start, "%s%s%s", f->written.open, f->written.each,
            f->tags.fn_open ? f->tags.fn_open : "");
    *out = (struct fit){n, weight(text, start.data)};
    if (f->named.sep) out->own += strlen(f->named.sep);
    buf_release(&start);
    toolparse_free(p);
    return ok;
}

/* Writes a conversation that ends with an answer of this content and, if not NULL, this call. */
static void write_talk(struct buf *out, const char *content, const char *id, const char *args,
                       const char *after) {
    buf_fmt(out,
            "[{\"role\": \"user\", \"content\": \"" USER "\"}, {\"role\": \"assistant\", "
            "\"content\": %s",
            content);
    if (args)
        buf_fmt(out,
                ", \"tool_calls\": [{\"id\": \"%s\", \"type\": \"function\", "
                "\"function\": {\"name\": \"" NAME "\", \"arguments\": %s}}]",
                id, args);
    buf_fmt(out, "}%s]", after);
}

/* Returns the part of a rendering that follows the user's last message, or NULL if it fails. */
static const char *after_user(struct trial *r, const char *messages) {
    const char *at = NULL;
    if (render(r, messages, false))
        for (const char *s = r->out.data; (s = strstr(s, USER)); s++) at = s + strlen(USER);
    return at;
}

/* Returns the format that leaves the least text of a rendered call unparsed; NULL if none fits. */
static const struct toolfmt *format_by_call(struct trial *r) {
    const struct toolfmt *best = NULL;
    for (size_t k = 0; k < COUNT_OF(probes) && !best; k++) {
        struct buf messages = {0};
        struct fit least = {0, 0}, fit;
        write_talk(&messages, probes[k].content, probes[k].id, probes[k].args, probes[k].after);
        const char *at = after_user(r, messages.data);
        r->whole |= at && strstr(at, NAME) && strstr(at, WORD);
        for (int i = 0; at && i < toolfmt_count(); i++) {
            const struct toolfmt *f = toolfmt_at(i);
            if (!fits(f, at, &fit)) continue;
            if (best && (fit.left > least.left || (fit.left == least.left && fit.own <= least.own)))
                continue;
            best = f;
            least = fit;
        }
        buf_release(&messages);
    }
    return best;
}

/* Finds a syntax by its `hint` texts in a rendering (hints true), or by its `detect` texts in the
 * template itself. NULL: no syntax fits. */
static const struct toolfmt *by_text(const char *s, size_t len, bool hints) {
    for (int i = 0; i < toolfmt_count(); i++) {
        const struct toolfmt *f = toolfmt_at(i);
        const char *const *lit = hints ? f->hint : f->detect;
        int n = 0;
        for (int k = 0; k < 2 && lit[k]; k++) {
            const bool found = memmem(s, len, lit[k], strlen(lit[k])) != NULL;
            if (found && hints) return f;
            n += found;
        }
        if (!hints && lit[0] && n == 1 + (lit[1] != NULL)) return f;
    }
    return NULL;
}

const struct toolfmt *toolfmt_detect(const char *tmpl, size_t len) {
    struct trial r = {.over = false};
    struct err ignored;
    const struct toolfmt *f = NULL;
    if (jinja_compile_mode(&r.t, tmpl, len, "template", JINJA_LENIENT, NULL, &ignored) == 0) {
        f = format_by_call(&r);
        if (!f && !r.whole && render(&r, "[{\"role\": \"user\", \"content\": \"" USER "\"}]", true))
            f = by_text(r.out.data, r.out.len, true);
        jinja_free(r.t);
    }
    buf_release(&r.out);
    return f || r.whole ? f : by_text(tmpl, len, false);
}

/* Returns the text before the brace of the call in a rendering; n 0: none. */
static struct text before_call(const char *s) {
    const char *name = strstr(s, "\"" NAME "\""), *brace = name;
    while (brace && brace > s && *brace != '{') brace--;
    return (struct text){s, brace && *brace == '{' ? (size_t)(brace - s) : 0};
}

/* Returns how many bytes t and `plain` begin with in common, up to the end of a tag or a line. */
static size_t shared(struct text t, const struct buf *plain) {
    size_t n = 0;
    while (n < t.n && n < plain->len && t.s[n] == plain->data[n]) n++;
    while (n < plain->len && n > 0 && !strchr(">]\n", t.s[n - 1])) n--;
    return n;
}

void toolfmt_stray_tag(const struct toolfmt *f, const char *tmpl, size_t len, struct buf *out) {
    struct trial r = {.over = false};
    struct err ignored;
    struct buf messages = {0}, plain = {0};
    if (!f || !f->bare) return;
    if (jinja_compile_mode(&r.t, tmpl, len, "template", JINJA_LENIENT, NULL, &ignored)) return;
    buf_str(&plain, "");
    write_talk(&messages, "\"" WORD "\"", NULL, NULL, "");
    const char *at = after_user(&r, messages.data), *word = at ? strstr(at, WORD) : NULL;
    if (word) buf_add(&plain, at, (size_t)(word - at));
    struct text t = {NULL, 0};
    for (size_t k = 0; k < COUNT_OF(probes) && word && !t.n; k++) {
        buf_reset(&messages);
        write_talk(&messages, probes[k].content, probes[k].id, probes[k].args, probes[k].after);
        at = after_user(&r, messages.data);
        if (at) t = before_call(at);
    }
    const size_t n = t.n ? shared(t, &plain) : 0;
    t = tool_strip((struct text){t.s + n, t.n - n});
    if (t.n) buf_add(out, t.s, t.n);
    buf_release(&messages);
    buf_release(&plain);
    buf_release(&r.out);
    jinja_free(r.t);
}
