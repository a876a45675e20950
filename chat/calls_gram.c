// SPDX-License-Identifier: MIT
/* chat/calls_gram.c - grammar of a whole answer with tool calls: free text, then calls of the
 * offered tools in the model's syntax (calls.c). */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "chat/calls.h"
#include "chat/tool_int.h"

/* Returns the language of text without any call marker, followed by `start` if that is not NULL;
 * start begins with the first marker. Both form a single regular part, so that the masks of free
 * text do not depend on the calls after it. */
static gnode free_text(struct gcalls *c, const char *start) {
    struct grammar *g = c->g;
    gnode marks = start ? call_text(c, start) : (gnode)G_NONE;
    for (int i = 0; i < TOOL_MARKERS && c->f->marker[i]; i++)
        marks = gn_alt(g, marks, call_text(c, c->f->marker[i]));
    const gnode token = gn_cat(g, gn_bytes(g, GRAM_TOKEN, GRAM_TOKEN),
                               /* Other control tokens. */
                               gn_rep(g, gn_bytes(g, 0, 255), 3, 3));
    const gnode any = gn_rep(g, gn_alt(g, gn_char_any(g, false), token), 0, GRAM_INF);
    const gnode none = gn_and(g, any, gn_not(g, gn_cat3(g, g->any, marks, g->any)));
    return start ? gn_cat(g, none, call_text(c, start)) : none;
}

/* Returns the tool's "function" object, or the tool itself if it has none. */
static const struct json *function_of(const struct json *tool) {
    const struct json *f = json_get(tool, "function");
    return f ? f : tool;
}

/* Languages of one call of any of the tools: beginning with the tool's name, and with the header
 * that names it. */
struct one_of {
    gnode name, header;
};

/* Returns the text between a call's header, if any, and the tool's name; release it. */
static struct buf before_name(const struct toolfmt *f) {
    struct buf b = {0};
    buf_fmt(&b, "%s%s", f->written.each, f->tags.fn_open ? f->tags.fn_open : "");
    return b;
}

/* Returns `call`, which begins with the tool's name, after the header of a message to the tool. */
static gnode with_header(struct gcalls *c, const char *tool, gnode call) {
    struct buf b = before_name(c->f);
    const gnode to = gn_cat(c->g, call_text(c, c->f->written.recipient), call_text(c, tool));
    const gnode message = gn_cat(c->g, call_text(c, "<|message|>"), call_text(c, b.data));
    buf_release(&b);
    return gn_cat3(c->g, to, message, call);
}

static struct one_of one_call(struct gcalls *c, const struct gram_tools *t, struct json *nothing) {
    const size_t n_tools = (size_t)json_len(t->tools) + 1;
    gnode *v = xcalloc(2 * n_tools, sizeof *v);
    struct one_of out = {G_NONE, G_NONE};
    size_t n = 0;
    for (const struct json *x = json_first(t->tools); x && !c->rc; x = json_next(x)) {
        const struct json *f = function_of(x), *p = tool_parameters(f);
        const char *name = json_str(json_get(f, "name"));
        if (!name || !*name || (t->only && strcmp(t->only, name) != 0)) continue;
        const struct gcall call = {name, json_type(p) == JSON_OBJ ? p : nothing,
                                   json_bool(json_get(f, "strict"), false)};
        v[n] = c->f->grammar(c, &call);
        if (c->f->written.recipient) v[n_tools + n] = with_header(c, name, v[n]);
        n++;
    }
    out.name = gn_alts(c->g, v, n);
    if (c->f->written.recipient) out.header = gn_alts(c->g, v + n_tools, n);
    if (!n && !c->rc)
        c->rc = err_set(c->e, ERR_USAGE, "there is no tool %s%s", t->only ? "named " : "to call",
                        t->only ? t->only : "");
    free(v);
    return out;
}

/* Returns the language of all calls, beginning with `first`, the first one without its end. */
static gnode calls(struct gcalls *c, const struct gram_tools *t, gnode first, struct one_of one) {
    const struct tool_written *w = &c->f->written;
    struct grammar *g = c->g;
    const gnode end = call_text(c, w->each_end), each = gn_as_rule(g, gn_cat(g, first, end));
    gnode more = G_EPS;
    if (t->parallel && w->sep) {
        struct buf open = before_name(c->f);
        const gnode next =
            w->recipient ? gn_cat(g, one.header, end) : gn_cat(g, call_text(c, open.data), each);
        more = gn_rep(g, gn_cat(g, call_text(c, w->sep), next), 0, GRAM_INF);
        buf_release(&open);
    }
    return gn_cat3(g, each, more, call_text(c, w->close));
}

/* Returns the language of required calls that begin with a header. Reasoning may come first. */
static gnode headed(struct gcalls *c, const struct gram_tools *t, struct one_of one) {
    static const char start[] = "<|start|>assistant";
    struct grammar *g = c->g;
    struct buf end = {0}, open = {0};
    buf_fmt(&open, " %s", c->f->think[0]);
    buf_fmt(&end, "%s%s", c->f->think[1], start);
    const gnode think = gn_cat(g, call_text(c, open.data), free_text(c, end.data));
    const gnode before = gn_alt(g, gn_opt(g, think), call_text(c, start));
    buf_release(&open);
    buf_release(&end);
    return gn_cat(g, before, calls(c, t, one.header, one));
}

/* Returns the rest of the frame whose beginning, the marker `opened`, ends the prompt, such as
 * "all\n" of Functionary's ">>>all\n". An answer that is text must begin with it. */
static gnode opened_text(struct gcalls *c, const char *opened) {
    const size_t n = opened ? strlen(opened) : 0;
    for (int k = 0; n && k < TOOL_FRAMES && c->f->frame[k]; k++)
        if (strncmp(c->f->frame[k], opened, n) == 0) return gn_str(c->g, c->f->frame[k] + n);
    return G_EPS;
}

/* Returns the rule for the whole answer: text, calls or both, as t allows. */
static gnode answer_text(struct gcalls *c, const struct gram_tools *t) {
    static const char none[] = "{\"type\": \"object\", \"additionalProperties\": false}";
    static const char object[] = "{\"type\": \"object\"}", value[] = "true";
    const struct tool_written *w = &c->f->written;
    struct grammar *g = c->g;
    struct json *nothing = NULL, *any = NULL, *any_object = NULL;
    struct buf start = {0};
    struct one_of one = {G_NONE, G_NONE};
    gnode out = G_NONE;
    const gnode text = opened_text(c, t->opened);
    if (t->choice == GRAM_TOOLS_NONE) return gn_cat(g, text, free_text(c, NULL));
    c->rc = json_parse(&nothing, none, sizeof none - 1, "schema", c->e);
    if (!c->rc) c->rc = json_parse(&any, value, sizeof value - 1, "schema", c->e);
    if (!c->rc) c->rc = json_parse(&any_object, object, sizeof object - 1, "schema", c->e);
    c->any = any;
    c->any_object = any_object;
    c->lines = w->lines;
    buf_fmt(&start, "%s%s%s", w->open, w->each, c->f->tags.fn_open ? c->f->tags.fn_open : "");
    if (!c->rc) one = one_call(c, t, nothing);
    if (!c->rc) out = calls(c, t, one.name, one);
    const bool opened =
        t->opened && start.data && strncmp(start.data, t->opened, strlen(t->opened)) == 0;
    if (!c->rc && opened) {
        const gnode first = gn_cat(g, call_text(c, start.data + strlen(t->opened)), out);
        const gnode later = gn_cat3(g, text, free_text(c, start.data), out);
        out = first;
        if (t->choice == GRAM_TOOLS_AUTO)
            out = gn_alt(g, first, gn_alt(g, later, gn_cat(g, text, free_text(c, NULL))));
    } else if (!c->rc && t->choice == GRAM_TOOLS_REQUIRED && w->recipient) {
        out = headed(c, t, one);
    } else if (!c->rc && t->choice == GRAM_TOOLS_REQUIRED) {
        gnode space = gn_rep(g, gn_alt(g, gn_str(g, "\n"), gn_str(g, " ")), 0, 2);
        if (w->lead) space = gn_alt(g, space, call_text(c, w->lead));
        out = gn_cat3(g, space, call_text(c, start.len ? start.data : ""), out);
    } else if (!c->rc && start.len) {
        out = gn_alt(g, free_text(c, NULL), gn_cat(g, free_text(c, start.data), out));
    } else if (!c->rc) {
        /* Llama's calls have no marker: the whole answer is a call, or none of it
         * is. */
        out = gn_alt(g, free_text(c, NULL), out);
    }
    json_free(nothing);
    json_free(any);
    json_free(any_object);
    buf_release(&start);
    return out;
}

int grammar_of_tools(struct grammar **out, const struct gram_vocab *v, const struct toolfmt *f,
                     const struct gram_tools *t, const struct gram_opts *o, struct err *e) {
    struct grammar *g = grammar_new(v);
    struct gcalls c = {.g = g, .f = f, .e = e};
    if (o) c.o = *o;
    gnode root = G_NONE;
    if (!f->grammar && t->choice != GRAM_TOOLS_NONE)
        c.rc = err_set(e, ERR_USAGE, "the model's tool-call syntax is unknown");
    else
        root = answer_text(&c, t);
    return grammar_done(out, g, root, c.rc ? c.rc : grammar_full(g, e), e);
}
