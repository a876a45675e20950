// SPDX-License-Identifier: MIT
/* chat/calls.c - grammar of a single call of one tool. Each family of syntaxes has one function,
 * which uses the same table rows as the parser (chat/tool_formats.c). */
#include "chat/calls.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "chat/tool_int.h"
#include "grammar/bnf.h"

gnode call_text(struct gcalls *c, const char *s) {
    return s ? gn_marker(c->g, s, strlen(s)) : (gnode)G_EPS;
}

/* Returns the n nodes in sequence, the empty text for n 0. */
static gnode cat_all(struct gcalls *c, const gnode *v, size_t n) {
    gnode out = G_EPS;
    while (n-- > 0) out = gn_cat(c->g, v[n], out);
    return out;
}
#define CAT(c, ...)                                                                                \
    cat_all((c), (const gnode[]){__VA_ARGS__}, sizeof((const gnode[]){__VA_ARGS__}) / sizeof(gnode))

/* Sets c->rc to the error about the tool, unless an error is already set. */
static void set_tool_error(struct gcalls *c, const struct gcall *t, struct err *e) {
    if (c->rc) return;
    c->rc = err_set(c->e, e->code, "tool '%s': %s", t->name, e->msg);
    if (c->o.spot) snprintf(c->o.spot->tool, sizeof c->o.spot->tool, "%s", t->name);
}

/* Returns whether t is a custom tool whose input has a grammar. Such a grammar is either enforced
 * or rejected, never ignored. */
static bool has_lark(const struct gcall *t) {
    return json_get(json_get(json_get(t->schema, "properties"), "input"), "x-lark") != NULL;
}

/* Returns the language of values that the schema `at` allows, in the given notation. Unless the
 * request is strict, an invalid schema of a tool counts as "any object". */
static gnode schema_value(struct gcalls *c, const struct gcall *t, const struct json *at,
                          const struct gform *form) {
    gnode out = G_NONE;
    struct err e;
    struct gram_opts o = c->o;
    o.strict |= t->strict || has_lark(t);
    o.complete = o.complete && t->strict;
    o.any_order = o.any_order && !o.complete;
    if (form && form->bare_names) o.space = GRAM_SPACE_NONE;
    if (o.spot) *o.spot->path = 0; /* an earlier schema that was accepted may have set it */
    if (gn_schema(c->g, t->schema, at, &o, form, &out, &e) == 0) return out;
    if (o.strict || c->g->full) {
        set_tool_error(c, t, &e);
        return G_NONE;
    }
    if (c->o.notes) buf_fmt(c->o.notes, "%s: %s\n", t->name, e.msg);
    if (gn_schema(c->g, c->any_object, c->any_object, &o, form, &out, &e)) set_tool_error(c, t, &e);
    return out;
}

/* Returns the rule for the tool's arguments, an object of its schema. */
static gnode arguments_node(struct gcalls *c, const struct gcall *t) {
    const struct gform form = {.object = true};
    return gn_as_rule(c->g, schema_value(c, t, t->schema, &form));
}

/* Returns the JSON string of s, accepted in all its escaped forms. */
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
                        /* The call's index. */
                        gn_rep(c->g, gn_bytes(c->g, '0', '9'), 1, 3));
    } else if (n->behind_id) {
        before =
            gn_cat(c->g, gn_rep(c->g, gn_bytes(c->g, 'a', 'z'), 1, 16), call_text(c, n->behind_id));
    }
    return CAT(c, before, call_text(c, t->name), behind, call_text(c, n->sep),
               arguments_node(c, t));
}

gnode call_deepseek(struct gcalls *c, const struct gcall *t) {
    return CAT(c, call_text(c, t->name), call_text(c, DS_SEP), arguments_node(c, t));
}

gnode call_deepseek_v3(struct gcalls *c, const struct gcall *t) {
    return CAT(c, call_text(c, t->name), gn_str(c->g, "\n```json\n"), arguments_node(c, t));
}

gnode call_harmony(struct gcalls *c, const struct gcall *t) {
    const gnode channel = gn_opt(c->g, call_text(c, "<|channel|>commentary"));
    const gnode form = gn_alt(c->g, gn_str(c->g, " json"), call_text(c, " <|constrain|>json"));
    return CAT(c, call_text(c, t->name), channel, gn_opt(c->g, form), call_text(c, "<|message|>"),
               arguments_node(c, t));
}

/* Returns the language of a call id in Mistral's form: nine letters and digits. */
static gnode call_id(struct gcalls *c) {
    const gnode x = gn_alt(c->g, gn_bytes(c->g, '0', '9'),
                           gn_alt(c->g, gn_bytes(c->g, 'A', 'Z'), gn_bytes(c->g, 'a', 'z')));
    return gn_rep(c->g, x, 9, 9);
}

gnode call_args(struct gcalls *c, const struct gcall *t) {
    const gnode id = gn_opt(c->g, gn_cat(c->g, call_text(c, "[CALL_ID]"), call_id(c)));
    return CAT(c, call_text(c, t->name), id, call_text(c, "[ARGS]"), arguments_node(c, t));
}

/* ---- objects with the name inside ---- */

/* Returns the language of a JSON object with two members: the member named by `name` holds the
 * tool's name, the one named by `args` its arguments. `last` follows them, before the brace. */
static gnode object(struct gcalls *c, const struct gcall *t, const char *name, const char *args,
                    gnode last) {
    struct grammar *g = c->g;
    const char *const colon = c->o.space == GRAM_SPACE_NONE ? ":" : ": ";
    const char *const comma = c->o.space == GRAM_SPACE_NONE ? "," : ", ";
    return CAT(c, gn_str(g, "{"), json_string(c, name), gn_str(g, colon), json_string(c, t->name),
               gn_str(g, comma), json_string(c, args), gn_str(g, colon), arguments_node(c, t), last,
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
/* Returns the language of Inkling's calls, with members name and args. */
gnode call_item_args(struct gcalls *c, const struct gcall *t) {
    return object(c, t, "name", "args", G_EPS);
}
/* Returns the language of Command R's calls, with members tool_name and parameters. */
gnode call_item_action(struct gcalls *c, const struct gcall *t) {
    return object(c, t, "tool_name", "parameters", G_EPS);
}
gnode call_item_command(struct gcalls *c, const struct gcall *t) {
    const gnode id = gn_cat(c->g, gn_str(c->g, "{\"tool_call_id\": \""),
                            gn_rep(c->g, gn_bytes(c->g, '0', '9'), 1, 3));
    return CAT(c, id, gn_str(c->g, "\", \"tool_name\": "), json_string(c, t->name),
               gn_str(c->g, ", \"parameters\": "), arguments_node(c, t), gn_str(c->g, "}"));
}
/* Returns the language of an object whose only member is named after the tool: {"f": {...}}. */
gnode call_item_key(struct gcalls *c, const struct gcall *t) {
    return CAT(c, gn_str(c->g, "{"), json_string(c, t->name), gn_str(c->g, ": "),
               arguments_node(c, t), gn_str(c->g, "}"));
}

/* ---- raw text between tags ---- */

struct raw {               /* a value between tags */
    gnode text, json;      /* the value as a string; as JSON */
    struct gothers others; /* types that `json` may have */
};

/* Returns the languages of values between tags that satisfy the schema. Strings cannot contain the
 * closing tag. */
static struct raw raw_parts(struct gcalls *c, const struct gcall *t, const struct json *schema,
                            const char *close) {
    static const struct gform no_text = {.no_text = true};
    struct grammar *g = c->g;
    struct raw out = {.text = G_NONE, .json = G_NONE};
    struct err e;
    /* Input of a custom tool. */
    const char *lark = json_str(json_get(schema, "x-lark"));
    if (lark) {
        if (gn_lark(g, lark, strlen(lark), false, &out.text, &e)) set_tool_error(c, t, &e);
        return out;
    }
    struct gram_opts o = c->o;
    o.strict |= t->strict;
    o.complete = o.complete && t->strict;
    if (gn_schema_text(g, t->schema, schema, &o, &out.text, &out.others, &e)) {
        if (o.strict || g->full) set_tool_error(c, t, &e);
        if (o.notes) buf_fmt(o.notes, "%s: %s\n", t->name, e.msg);
        out.text = gn_rep(g, gn_char_any(g, false), 0, GRAM_INF);
        out.others = (struct gothers){0};
    }
    out.text = gn_and(g, out.text, gn_not(g, gn_cat3(g, g->any, gn_str(g, close), g->any)));
    if (out.others.all) out.json = gn_as_rule(g, schema_value(c, t, schema, &no_text));
    return out;
}

/* Regex of the texts that the parser reads as each JSON type if the schema allows that type. A
 * string must not match one of them. */
static const char *const read_as[] = {[JSON_NULL] = "\\s*null\\s*",
                                      [JSON_BOOL] = "\\s*(true|false)\\s*",
                                      [JSON_NUM] = "\\s*-?[0-9]+(\\.[0-9]*)?([eE][+-]?[0-9]*)?\\s*",
                                      [JSON_STR] = NULL,
                                      [JSON_ARR] = "\\s*\\[.*",
                                      [JSON_OBJ] = "\\s*\\{.*"};

/* Returns the language of True, False and None if booleans and null are allowed but strings are
 * not. Some templates print values in Python's notation, and models learn it from them. */
static gnode python_words(struct gcalls *c, const struct raw *r) {
    gnode out = G_NONE;
    if (r->text) return out;
    if (r->others.any >> JSON_BOOL & 1)
        out = gn_alt(c->g, gn_str(c->g, "True"), gn_str(c->g, "False"));
    if (r->others.any >> JSON_NULL & 1) out = gn_alt(c->g, out, gn_str(c->g, "None"));
    return out;
}

/* Returns the rule for a parameter's value written without JSON quotes, up to `close`. */
static gnode raw_value(struct gcalls *c, const struct gcall *t, const struct json *schema,
                       const char *close) {
    static const struct gregex plain = {.dot_all = true};
    struct raw r = raw_parts(c, t, schema, close);
    const gnode words = python_words(c, &r);
    for (size_t k = 0; k < COUNT_OF(read_as) && r.text && !c->rc; k++) {
        gnode re;
        if (!(r.others.all >> k & 1) || !read_as[k]) continue;
        c->rc = gn_regex(c->g, read_as[k], strlen(read_as[k]), &plain, &re, c->e);
        if (!c->rc) r.text = gn_and(c->g, r.text, gn_not(c->g, re));
    }
    return gn_alt(c->g, gn_alt(c->g, r.text, r.json), words);
}

/* Returns the language of a value whose tag has an attribute for whether it is a string or JSON. */
static gnode flagged_value(struct gcalls *c, const struct gcall *t, const struct json *schema) {
    const struct tool_tags *f = &c->f->tags;
    const struct raw r = raw_parts(c, t, schema, f->par_close);
    const gnode end = gn_cat(c->g, gn_str(c->g, "\""), call_text(c, f->par_name_end));
    gnode json = gn_str(c->g, "false");
    if (strcmp(f->is_text, "string") == 0) {
        static const char *const types[] = {"number", "boolean", "null", "object", "array"};
        json = G_NONE;
        for (size_t k = 0; k < COUNT_OF(types); k++)
            json = gn_alt(c->g, json, gn_str(c->g, types[k]));
    }
    /* The name's closing quote, with which `flag` begins, has been written. */
    return gn_cat(
        c->g, gn_str(c->g, f->flag + 1),
        gn_alt(c->g, CAT(c, gn_str(c->g, f->is_text), end, r.text), CAT(c, json, end, r.json)));
}

/* Names of parameters that a schema allows without listing them; tool_takes_other() knows the same.
 */
#define FREE_NAME "[A-Za-z0-9_.-]{1,64}"

/* Returns whether every parameter of a tool is required, in the order of its schema. */
static bool is_complete(const struct gcalls *c, const struct gcall *t) {
    return c->o.complete && t->strict;
}

/* Returns whether the schema's "required" list has the name. */
static bool is_required(const struct json *schema, const char *name) {
    for (const struct json *r = json_first(json_get(schema, "required")); r; r = json_next(r))
        if (json_str(r) && strcmp(json_str(r), name) == 0) return true;
    return false;
}

/* Returns the language of one parameter; name: the language of its name. */
typedef gnode one_parameter(struct gcalls *c, const struct gcall *t, gnode name,
                            const struct json *schema);
/* How parameters are listed: separator, closing text, the language of one parameter, and the
 * pattern of names that the schema does not list. */
struct listed {
    gnode sep, close;
    one_parameter *one;
    const char *names;
};

/* Returns the language of a parameter that the schema does not list; G_NONE: it is closed. Its
 * name differs from the `listed` ones. */
static gnode other_parameter(struct gcalls *c, const struct gcall *t, gnode listed,
                             const struct listed *l) {
    static const struct gregex plain = {.dot_all = true};
    const struct json *top = tool_target(t->schema, t->schema),
                      *rest = json_get(top, "additionalProperties");
    gnode name = G_NONE;
    if (is_complete(c, t) || !tool_is_open(t->schema)) return G_NONE;
    if (!c->rc) c->rc = gn_regex(c->g, l->names, strlen(l->names), &plain, &name, c->e);
    return l->one(c, t, gn_and(c->g, name, gn_not(c->g, listed)), rest ? rest : c->any);
}

/* Returns the language of the parameters that `schema` declares, each at most once and the required
 * ones always, and of others that it allows. */
static gnode list_of(struct gcalls *c, const struct gcall *t, const struct json *schema,
                     const struct listed *l) {
    const struct json *props = json_get(schema, "properties");
    struct gpick p = {.row = xcalloc((size_t)json_len(props) + 1, sizeof *p.row),
                      .hi = GRAM_INF,
                      .ordered = !c->o.any_order || is_complete(c, t),
                      .first = G_EPS,
                      .sep = l->sep,
                      .close = l->close};
    gnode listed = G_NONE;
    for (const struct json *x = json_first(props); x && !c->rc; x = json_next(x)) {
        const bool required = is_complete(c, t) || is_required(schema, json_name(x));
        const gnode body = l->one(c, t, call_text(c, json_name(x)), x);
        listed = gn_alt(c->g, listed, gn_str(c->g, json_name(x)));
        if (!body && !required) continue;
        p.row[p.n].body = body;
        p.row[p.n++].required = required;
    }
    p.extra = other_parameter(c, t, listed, l);
    return gn_pick(c->g, grammar_pick(c->g, &p), 0, 0);
}

/* Returns the language of a tool's parameters. If its schema is an anyOf or oneOf, joins the
 * languages of all branches. */
static gnode each_form(struct gcalls *c, const struct gcall *t, const struct listed *l,
                       gnode (*make)(struct gcalls *c, const struct gcall *t,
                                     const struct json *schema, const struct listed *l)) {
    const int n = tool_branches(t->schema);
    struct arena a;
    arena_init(&a);
    gnode out = n ? (gnode)G_NONE : make(c, t, tool_flat(&a, t->schema, -1), l);
    for (int k = 0; k < n && !c->rc; k++)
        out = gn_alt(c->g, out, make(c, t, tool_flat(&a, t->schema, k), l));
    arena_release(&a);
    return out;
}

/* Returns the rule for a list of parameters. */
static gnode parameters_node(struct gcalls *c, const struct gcall *t, const struct listed *l) {
    if (t->strict || c->o.strict)
        arguments_node(c, t); /* for its error messages about the whole schema */
    return each_form(c, t, l, list_of);
}

/* Returns whether the name after the tag's beginning is in quotes: it is the value of an attribute,
 * as after "<invoke name=". */
static bool is_quoted(const char *open) {
    const char *space = strrchr(open, ' ');
    return space && space[1] && open[strlen(open) - 1] == '=';
}

/* Returns the rule for one parameter as a tag that contains its name. */
static gnode tag_parameter(struct gcalls *c, const struct gcall *t, gnode name,
                           const struct json *schema) {
    const struct tool_tags *f = &c->f->tags;
    const gnode q = gn_str(c->g, is_quoted(f->par_open) ? "\"" : ""),
                nl = gn_str(c->g, f->newline ? "\n" : ""), lf = gn_str(c->g, c->lines ? "\n" : "");
    const gnode value = f->flag ? flagged_value(c, t, schema)
                                : CAT(c, call_text(c, f->par_name_end), nl,
                                      raw_value(c, t, schema, f->par_close), nl);
    return CAT(c, call_text(c, f->par_open), q, name, q, value, call_text(c, f->par_close), lf);
}

gnode call_tags(struct gcalls *c, const struct gcall *t) {
    const struct tool_tags *f = &c->f->tags;
    const gnode q = gn_str(c->g, is_quoted(f->fn_open) ? "\"" : "");
    const gnode number =
        !f->counter ? (gnode)G_EPS
                    : CAT(c, gn_str(c->g, f->counter + 1),
                          gn_rep(c->g, gn_bytes(c->g, '0', '9'), 1, 3), gn_str(c->g, "\""));
    const struct listed l = {G_EPS, call_text(c, f->fn_close), tag_parameter, FREE_NAME};
    return CAT(c, q, call_text(c, t->name), q, number, call_text(c, f->fn_name_end),
               gn_str(c->g, c->lines ? "\n" : ""), parameters_node(c, t, &l));
}

/* Returns the rule for one parameter as a pair of tags for key and value. */
static gnode key_parameter(struct gcalls *c, const struct gcall *t, gnode name,
                           const struct json *schema) {
    const struct tool_tags *f = &c->f->tags;
    const gnode nl = gn_opt(c->g, gn_str(c->g, "\n"));
    return CAT(c, nl, call_text(c, f->par_open), name, call_text(c, f->par_name_end), nl,
               call_text(c, f->val_open), raw_value(c, t, schema, f->par_close),
               call_text(c, f->par_close));
}

gnode call_keys(struct gcalls *c, const struct gcall *t) {
    const struct tool_tags *f = &c->f->tags;
    const gnode close = CAT(c, gn_opt(c->g, gn_str(c->g, "\n")), call_text(c, f->fn_close));
    const struct listed l = {G_EPS, close, key_parameter, FREE_NAME};
    return CAT(c, call_text(c, t->name), call_text(c, f->fn_name_end), parameters_node(c, t, &l));
}

/* ---- elements ---- */

enum { ELEMENT_DEPTH = 8 };

/* Returns the language of an element's content: text, elements for an object's members, or list
 * items. */
static gnode element_value(struct gcalls *c, const struct gcall *t, const struct json *schema,
                           int depth);

/* Returns the rule for one XML element of the schema; depth: number of enclosing levels. */
static gnode element_node(struct gcalls *c, const struct gcall *t, const char *name,
                          const struct json *schema, int depth) {
    const gnode tag = call_text(c, name);
    return CAT(c, call_text(c, M3_GUARD "<"), tag, gn_str(c->g, ">"),
               element_value(c, t, schema, depth), call_text(c, M3_GUARD "</"), tag,
               gn_str(c->g, ">"));
}

/* Returns the rule for the elements of an object's properties, up to `close`. */
static gnode element_members(struct gcalls *c, const struct gcall *t, const struct json *schema,
                             gnode close, int depth) {
    const struct json *props = json_get(schema, "properties");
    struct gpick p = {.row = xcalloc((size_t)json_len(props) + 1, sizeof *p.row),
                      .hi = GRAM_INF,
                      .ordered = !c->o.any_order || is_complete(c, t),
                      .close = close,
                      .first = G_EPS,
                      .sep = G_EPS};
    for (const struct json *x = json_first(props); x && !c->rc; x = json_next(x)) {
        p.row[p.n].body = element_node(c, t, json_name(x), x, depth + 1);
        p.row[p.n++].required = is_complete(c, t) || is_required(schema, json_name(x));
    }
    return gn_pick(c->g, grammar_pick(c->g, &p), 0, 0);
}

/* Returns the schema's limit `key`, at most GRAM_INF; `otherwise` if it is missing or negative. */
static uint32_t count_limit(const struct json *schema, const char *key, uint32_t otherwise) {
    int64_t n;
    if (!json_i64(json_get(schema, key), &n) || n < 0) return otherwise;
    return n < GRAM_INF ? (uint32_t)n : GRAM_INF;
}

static gnode element_value(struct gcalls *c, const struct gcall *t, const struct json *schema,
                           int depth) {
    schema = tool_target(t->schema, schema);
    const char *type = json_str(json_get(schema, "type"));
    const bool deep = depth < ELEMENT_DEPTH;
    if (type && strcasecmp(type, "object") == 0 && deep && json_get(schema, "properties"))
        return element_members(c, t, schema, G_EPS, depth);
    if (type && strcasecmp(type, "array") == 0 && deep && json_get(schema, "items")) {
        const uint32_t lo = count_limit(schema, "minItems", 0),
                       hi = count_limit(schema, "maxItems", GRAM_INF);
        const gnode item = element_node(c, t, "item", json_get(schema, "items"), depth + 1);
        return lo <= hi ? gn_rep(c->g, item, lo, hi) : (gnode)G_NONE;
    }
    return raw_value(c, t, schema, M3_GUARD);
}

/* Returns the rule for the elements of the tool's parameters. */
static gnode elements_of(struct gcalls *c, const struct gcall *t, const struct json *schema,
                         const struct listed *l) {
    return element_members(c, t, schema, l->close, 0);
}

gnode call_elements(struct gcalls *c, const struct gcall *t) {
    const struct listed l = {.close = call_text(c, M3_GUARD "</invoke>")};
    return CAT(c, call_text(c, t->name), gn_str(c->g, "\">"), each_form(c, t, &l, elements_of));
}

/* ---- literals ---- */

gnode call_gemma(struct gcalls *c, const struct gcall *t) {
    const char *const quote = c->f->quote;
    const struct gform form = {.object = true, .open = quote, .close = quote, .bare_names = true};
    return CAT(c, call_text(c, t->name), gn_as_rule(c->g, schema_value(c, t, t->schema, &form)));
}

/* Returns the rule for one Python keyword argument. */
static gnode keyword_node(struct gcalls *c, const struct gcall *t, gnode name,
                          const struct json *schema) {
    const struct gform form = {.python = true};
    return CAT(c, name, gn_str(c->g, "="), gn_as_rule(c->g, schema_value(c, t, schema, &form)));
}

gnode call_python(struct gcalls *c, const struct gcall *t) {
    const struct listed l = {gn_str(c->g, ", "), gn_str(c->g, ")"), keyword_node,
                             "[A-Za-z_][A-Za-z0-9_]*"};
    return CAT(c, call_text(c, t->name), gn_str(c->g, "("), parameters_node(c, t, &l));
}
