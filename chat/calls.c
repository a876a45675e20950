// SPDX-License-Identifier: MIT
/* chat/calls.c - how one call of one tool is written, a function per family of syntaxes, from
 * the same rows that read calls back (chat/tool_formats.c). */
#include "chat/calls.h"

#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "chat/tool_int.h"
#include "gram/bnf.h"

gnode call_text(struct gcalls *c, const char *s) {
    return s ? gn_marker(c->g, s, strlen(s)) : (gnode)G_EPS;
}

static gnode cat(struct gcalls *c, const gnode *v, size_t n) {
    gnode out = G_EPS;
    while (n-- > 0) out = gn_cat(c->g, v[n], out);
    return out;
}
#define CAT(c, ...)                                                                                \
    cat((c), (const gnode[]){__VA_ARGS__}, sizeof((const gnode[]){__VA_ARGS__}) / sizeof(gnode))

static void fail(struct gcalls *c, const struct gcall *t, struct err *e) {
    if (!c->rc) c->rc = err_set(c->e, e->code, "tool '%s': %s", t->name, e->msg);
}

/* Tells whether the text of a tool has a grammar: it is held to that, or refused. */
static bool has_lark(const struct gcall *t) {
    return json_get(json_get(json_get(t->schema, "properties"), "input"), "x-lark") != NULL;
}

/* Makes the language of a value that the schema `at` allows, written in the form given. A broken
 * schema of a tool counts as "any object", unless the request is strict. */
static gnode value(struct gcalls *c, const struct gcall *t, const struct json *at,
                   const struct gform *form) {
    gnode out = G_NONE;
    struct err e;
    struct gram_opts o = c->o;
    o.strict |= t->strict || has_lark(t);
    if (form && form->bare_names) o.space = GRAM_SPACE_NONE;
    if (gn_schema(c->g, t->schema, at, &o, form, &out, &e) == 0) return out;
    if (o.strict || c->g->full) {
        fail(c, t, &e);
        return G_NONE;
    }
    if (c->o.notes) buf_fmt(c->o.notes, "%s: %s\n", t->name, e.msg);
    if (gn_schema(c->g, c->any_object, c->any_object, &o, form, &out, &e)) fail(c, t, &e);
    return out;
}

static gnode arguments(struct gcalls *c, const struct gcall *t) {
    const struct gform form = {.object = true};
    return gn_as_rule(c->g, value(c, t, t->schema, &form));
}

static gnode json_string(struct gcalls *c, const char *s) {
    const gnode q = gn_str(c->g, "\"");
    return gn_cat3(c->g, q, gn_escaped(c->g, s, strlen(s)), q);
}

/* ---- name and JSON ---- */

gnode call_named(struct gcalls *c, const struct gcall *t) {
    const struct tool_named *n = &c->f->named;
    gnode before = G_EPS, behind = G_EPS;
    if (n->numbered) {
        behind = gn_cat(c->g, gn_str(c->g, ":"),
                        /* This is the number of the call. */
                        gn_rep(c->g, gn_bytes(c->g, '0', '9'), 1, 3));
    } else if (n->behind_id) {
        before =
            gn_cat(c->g, gn_rep(c->g, gn_bytes(c->g, 'a', 'z'), 1, 16), call_text(c, n->behind_id));
    }
    return CAT(c, before, call_text(c, t->name), behind, call_text(c, n->sep), arguments(c, t));
}

gnode call_deepseek(struct gcalls *c, const struct gcall *t) {
    return CAT(c, call_text(c, t->name), call_text(c, DS_SEP), arguments(c, t));
}

gnode call_harmony(struct gcalls *c, const struct gcall *t) {
    const gnode channel = gn_opt(c->g, call_text(c, "<|channel|>commentary"));
    const gnode form = gn_alt(c->g, gn_str(c->g, " json"), call_text(c, " <|constrain|>json"));
    return CAT(c, call_text(c, t->name), channel, gn_opt(c->g, form), call_text(c, "<|message|>"),
               arguments(c, t));
}

/* Makes the language of a call's id as Mistral's models write it: nine letters and digits. */
static gnode call_id(struct gcalls *c) {
    const gnode x = gn_alt(c->g, gn_bytes(c->g, '0', '9'),
                           gn_alt(c->g, gn_bytes(c->g, 'A', 'Z'), gn_bytes(c->g, 'a', 'z')));
    return gn_rep(c->g, x, 9, 9);
}

gnode call_args(struct gcalls *c, const struct gcall *t) {
    const gnode id = gn_opt(c->g, gn_cat(c->g, call_text(c, "[CALL_ID]"), call_id(c)));
    return CAT(c, call_text(c, t->name), id, call_text(c, "[ARGS]"), arguments(c, t));
}

/* ---- an object with the name in it ---- */

/* Makes the language of an object with two members, `name` and `args`, which hold the tool's name
 * and its arguments. `last` is what may follow them before the closing brace. */
static gnode object(struct gcalls *c, const struct gcall *t, const char *name, const char *args,
                    gnode last) {
    struct grammar *g = c->g;
    const char *const colon = c->o.space == GRAM_SPACE_NONE ? ":" : ": ";
    const char *const comma = c->o.space == GRAM_SPACE_NONE ? "," : ", ";
    return CAT(c, gn_str(g, "{"), json_string(c, name), gn_str(g, colon), json_string(c, t->name),
               gn_str(g, comma), json_string(c, args), gn_str(g, colon), arguments(c, t), last,
               gn_str(g, "}"));
}

gnode call_item(struct gcalls *c, const struct gcall *t) {
    return object(c, t, "name", "arguments", G_EPS);
}
gnode call_item_id(struct gcalls *c, const struct gcall *t) {
    const gnode id = gn_cat3(c->g, gn_str(c->g, ", \"id\": \""), call_id(c), gn_str(c->g, "\""));
    return object(c, t, "name", "arguments", gn_opt(c->g, id));
}
gnode call_item_llama(struct gcalls *c, const struct gcall *t) {
    return object(c, t, "name", "parameters", G_EPS);
}
gnode call_item_command(struct gcalls *c, const struct gcall *t) {
    const gnode id = gn_cat(c->g, gn_str(c->g, "{\"tool_call_id\": \""),
                            gn_rep(c->g, gn_bytes(c->g, '0', '9'), 1, 3));
    return CAT(c, id, gn_str(c->g, "\", \"tool_name\": "), json_string(c, t->name),
               gn_str(c->g, ", \"parameters\": "), arguments(c, t), gn_str(c->g, "}"));
}
/* Makes the language of an object whose one member is named after the tool: {"f": {...}}. */
gnode call_item_key(struct gcalls *c, const struct gcall *t) {
    return CAT(c, gn_str(c->g, "{"), json_string(c, t->name), gn_str(c->g, ": "), arguments(c, t),
               gn_str(c->g, "}"));
}

/* ---- raw text between tags ---- */

enum raw_kind { RAW_TEXT, RAW_JSON };

/* Tells how the value of a parameter is written: as text where the schema allows a string, else as
 * JSON. */
static enum raw_kind raw_kind(const struct json *schema) {
    const struct json *type = json_get(schema, "type"), *v = json_get(schema, "enum");
    if (json_str(type)) return strcmp(json_str(type), "string") == 0 ? RAW_TEXT : RAW_JSON;
    for (const struct json *x = json_first(type); x; x = json_next(x))
        if (json_str(x) && strcmp(json_str(x), "string") == 0) return RAW_TEXT;
    if (type) return RAW_JSON;
    if (json_get(schema, "const")) return json_str(json_get(schema, "const")) ? RAW_TEXT : RAW_JSON;
    for (const struct json *x = json_first(v); x; x = json_next(x))
        if (json_str(x)) return RAW_TEXT;
    return v || json_get(schema, "properties") || json_get(schema, "items") ? RAW_JSON : RAW_TEXT;
}

/* Makes the language of texts that satisfy the schema and do not hold the closing tag. */
static gnode raw_text(struct gcalls *c, const struct gcall *t, const struct json *schema,
                      const char *close) {
    struct grammar *g = c->g;
    gnode text = G_NONE;
    struct err e;
    /* It belongs to a tool that takes a text. */
    const char *lark = json_str(json_get(schema, "x-lark"));
    if (lark) {
        if (gn_lark(g, lark, strlen(lark), false, &text, &e)) fail(c, t, &e);
        return text;
    }
    const gnode any = gn_rep(g, gn_char_any(g, false), 0, GRAM_INF);
    struct gram_opts o = c->o;
    o.strict |= t->strict;
    if (gn_schema_text(g, t->schema, schema, &o, &text, &e)) {
        if (o.strict || g->full) fail(c, t, &e);
        text = any;
    }
    return gn_and(g, text, gn_not(g, gn_cat3(g, g->any, gn_str(g, close), g->any)));
}

/* Makes the language of True, False and None, where the schema allows booleans and null: templates
 * that print a value as Python does write these words, and models learn them. */
static gnode python_words(struct gcalls *c, const struct json *schema) {
    const struct json *type = json_get(schema, "type");
    gnode out = G_NONE;
    for (const struct json *x = json_str(type) ? type : json_first(type); x;
         x = json_str(type) ? NULL : json_next(x)) {
        if (json_str(x) && strcmp(json_str(x), "boolean") == 0)
            out = gn_alt(c->g, out, gn_alt(c->g, gn_str(c->g, "True"), gn_str(c->g, "False")));
        if (json_str(x) && strcmp(json_str(x), "null") == 0)
            out = gn_alt(c->g, out, gn_str(c->g, "None"));
    }
    return json_get(schema, "enum") || json_get(schema, "const") ? (gnode)G_NONE : out;
}

static gnode raw_value(struct gcalls *c, const struct gcall *t, const struct json *schema,
                       const char *close) {
    if (raw_kind(schema) == RAW_TEXT) return raw_text(c, t, schema, close);
    return gn_alt(c->g, gn_as_rule(c->g, value(c, t, schema, NULL)), python_words(c, schema));
}

static bool is_required(const struct json *schema, const char *name) {
    for (const struct json *r = json_first(json_get(schema, "required")); r; r = json_next(r))
        if (json_str(r) && strcmp(json_str(r), name) == 0) return true;
    return false;
}

/* Makes the language of a list of parameters: each occurs at most once, and all that are required
 * occur. `one` makes the language of a single parameter. */
static gnode parameters(struct gcalls *c, const struct gcall *t, gnode close,
                        gnode (*one)(struct gcalls *c, const struct gcall *t,
                                     const struct json *p)) {
    const struct json *props = json_get(t->schema, "properties");
    struct gpick p = {.row = xcalloc((size_t)json_len(props) + 1, sizeof *p.row),
                      .hi = GRAM_INF,
                      .ordered = !c->o.any_order,
                      .first = G_EPS,
                      .sep = G_EPS,
                      .close = close};
    for (const struct json *x = json_first(props); x && !c->rc; x = json_next(x)) {
        p.row[p.n].body = one(c, t, x);
        p.row[p.n++].required = is_required(t->schema, json_name(x));
    }
    return gn_pick(c->g, grammar_pick(c->g, &p), 0, 0);
}

static bool quoted(const char *open) {
    const size_t n = strlen(open);
    return n >= 5 && strcmp(open + n - 5, "name=") == 0;
}

static gnode tag_parameter(struct gcalls *c, const struct gcall *t, const struct json *p) {
    const struct tool_tags *f = &c->f->tags;
    const gnode q = gn_str(c->g, quoted(f->par_open) ? "\"" : ""),
                nl = gn_str(c->g, f->newline ? "\n" : ""), lf = gn_str(c->g, c->lines ? "\n" : "");
    const char *const flag[] = {" string=\"true\"", " string=\"false\""};
    char close[80];
    snprintf(close, sizeof close, "%s%s", f->newline ? "\n" : "", f->par_close);
    const gnode head =
        CAT(c, call_text(c, f->par_open), q, call_text(c, json_name(p)), q,
            strstr(f->par_open, DSML) ? gn_str(c->g, flag[raw_kind(p)]) : (gnode)G_EPS,
            call_text(c, f->par_name_end));
    return CAT(c, head, nl, raw_value(c, t, p, f->par_close), nl, call_text(c, f->par_close), lf);
}

gnode call_tags(struct gcalls *c, const struct gcall *t) {
    const struct tool_tags *f = &c->f->tags;
    const gnode q = gn_str(c->g, quoted(f->fn_open) ? "\"" : "");
    return CAT(c, q, call_text(c, t->name), q, call_text(c, f->fn_name_end),
               gn_str(c->g, c->lines ? "\n" : ""),
               parameters(c, t, call_text(c, f->fn_close), tag_parameter));
}

static gnode key_parameter(struct gcalls *c, const struct gcall *t, const struct json *p) {
    const struct tool_tags *f = &c->f->tags;
    const gnode nl = gn_opt(c->g, gn_str(c->g, "\n"));
    return CAT(c, nl, call_text(c, f->par_open), call_text(c, json_name(p)),
               call_text(c, f->par_name_end), nl, call_text(c, f->val_open),
               raw_value(c, t, p, f->par_close), call_text(c, f->par_close));
}

gnode call_keys(struct gcalls *c, const struct gcall *t) {
    const struct tool_tags *f = &c->f->tags;
    return CAT(c, call_text(c, t->name), call_text(c, f->fn_name_end),
               parameters(c, t, CAT(c, gn_opt(c->g, gn_str(c->g, "\n")), call_text(c, f->fn_close)),
                          key_parameter));
}

/* ---- elements ---- */

enum { ELEMENT_DEPTH = 8 };

/* Makes the language of what stands in an element: text, members as elements, or items. */
static gnode element_value(struct gcalls *c, const struct gcall *t, const struct json *schema,
                           int depth);

static gnode element(struct gcalls *c, const struct gcall *t, const char *name,
                     const struct json *schema, int depth) {
    const gnode tag = call_text(c, name);
    return CAT(c, call_text(c, M3_GUARD "<"), tag, gn_str(c->g, ">"),
               element_value(c, t, schema, depth), call_text(c, M3_GUARD "</"), tag,
               gn_str(c->g, ">"));
}

static gnode element_members(struct gcalls *c, const struct gcall *t, const struct json *schema,
                             gnode close, int depth) {
    const struct json *props = json_get(schema, "properties");
    struct gpick p = {.row = xcalloc((size_t)json_len(props) + 1, sizeof *p.row),
                      .hi = GRAM_INF,
                      .ordered = !c->o.any_order,
                      .close = close,
                      .first = G_EPS,
                      .sep = G_EPS};
    for (const struct json *x = json_first(props); x && !c->rc; x = json_next(x)) {
        p.row[p.n].body = element(c, t, json_name(x), x, depth + 1);
        p.row[p.n++].required = is_required(schema, json_name(x));
    }
    return gn_pick(c->g, grammar_pick(c->g, &p), 0, 0);
}

static gnode element_value(struct gcalls *c, const struct gcall *t, const struct json *schema,
                           int depth) {
    const char *type = json_str(json_get(schema, "type"));
    const bool deep = depth < ELEMENT_DEPTH;
    if (type && strcmp(type, "object") == 0 && deep && json_get(schema, "properties"))
        return element_members(c, t, schema, G_EPS, depth);
    if (type && strcmp(type, "array") == 0 && deep && json_get(schema, "items"))
        return gn_rep(c->g, element(c, t, "item", json_get(schema, "items"), depth + 1), 0,
                      GRAM_INF);
    return raw_value(c, t, schema, M3_GUARD);
}

gnode call_elements(struct gcalls *c, const struct gcall *t) {
    const gnode close = call_text(c, M3_GUARD "</invoke>");
    return CAT(c, call_text(c, t->name), gn_str(c->g, "\">"),
               element_members(c, t, t->schema, close, 0));
}

/* ---- literals ---- */

gnode call_gemma(struct gcalls *c, const struct gcall *t) {
    const struct gform form = {
        .object = true, .open = "<|\"|>", .close = "<|\"|>", .bare_names = true};
    return CAT(c, call_text(c, t->name), gn_as_rule(c->g, value(c, t, t->schema, &form)));
}

static gnode keyword(struct gcalls *c, const struct gcall *t, const struct json *p) {
    const struct gform form = {.python = true};
    return CAT(c, call_text(c, json_name(p)), gn_str(c->g, "="),
               gn_as_rule(c->g, value(c, t, p, &form)));
}

gnode call_python(struct gcalls *c, const struct gcall *t) {
    const struct json *props = json_get(t->schema, "properties");
    struct gpick p = {.row = xcalloc((size_t)json_len(props) + 1, sizeof *p.row),
                      .hi = GRAM_INF,
                      .ordered = !c->o.any_order,
                      .first = G_EPS,
                      .sep = gn_str(c->g, ", "),
                      .close = gn_str(c->g, ")")};
    for (const struct json *x = json_first(props); x && !c->rc; x = json_next(x)) {
        p.row[p.n].body = keyword(c, t, x);
        p.row[p.n++].required = is_required(t->schema, json_name(x));
    }
    return CAT(c, call_text(c, t->name), gn_str(c->g, "("),
               gn_pick(c->g, grammar_pick(c->g, &p), 0, 0));
}
