// SPDX-License-Identifier: MIT
/* template/chat_vars.c - the variables passed to a template, the same ones as in transformers.
 *
 * messages, tools, documents and add_generation_prompt are always defined (tools may be `none`),
 * followed by special tokens and extra variables. A message's reasoning is available under all
 * names in use. */
#include "template/chat_vars.h"

#include <string.h>

struct jval chat_member(struct jval obj, const char *name) {
    struct jval *v = obj.tag == JT_DICT ? jdict_find(obj.u.dict, name, strlen(name)) : NULL;
    return v ? *v : jv_missing();
}

struct chat_case chat_case_of(struct jval sc, struct jval defaults) {
    struct jval gen = chat_member(sc, "add_generation_prompt");
    return (struct chat_case){
        .messages = chat_member(sc, "messages"),
        .tools = chat_member(sc, "tools"),
        .documents = chat_member(sc, "documents"),
        .defaults = defaults,
        .kwargs = chat_member(sc, "kwargs"),
        .drop = chat_member(sc, "drop"),
        .gen = gen.tag == JT_BOOL && gen.u.i,
        .now = -1,
    };
}

static void set_member(struct jctx *c, struct jval d, const char *name, struct jval v) {
    jdict_set(c, d.u.dict, jv_str(name), v);
}

/* Sets all members of `from` in d; nothing if `from` is not a dict. */
static void merge_dict(struct jctx *c, struct jval d, struct jval from) {
    if (from.tag != JT_DICT) return;
    for (uint32_t i = 0; i < from.u.dict->n; i++)
        jdict_set(c, d.u.dict, from.u.dict->e[i].k, from.u.dict->e[i].v);
}

/* Returns message m with its first non-null reasoning under all names in use. */
static struct jval reasoning(struct jctx *c, struct jval m) {
    static const char *const names[] = {"reasoning_content", "thinking", "reasoning"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        struct jval r = chat_member(m, names[i]);
        if (r.tag == JT_MISSING || r.tag == JT_NONE) continue;
        struct jval d = jv_dict(c, m.u.dict->n + 2);
        set_member(c, d, "thinking", r);
        merge_dict(c, d, m);
        set_member(c, d, "reasoning_content", r);
        return d;
    }
    return m;
}

/* Returns v as JSON text in the style of the tojson filter. */
static struct jval text_of(struct jctx *c, struct jval v) {
    const size_t m = jx_mark(c);
    jfmt_json(c, v, false, jv_none(), jv_none(), false);
    return jx_take(c, m);
}

/* Returns a copy of a call whose arguments, if they are the JSON text of an object, are parsed;
 * with `as_text`, object arguments become JSON text instead. */
static struct jval call_with_args(struct jctx *c, struct jval call, bool as_text) {
    struct jval fn = chat_member(call, "function"), args = chat_member(fn, "arguments"), doc;
    if (as_text ? args.tag != JT_DICT : args.tag != JT_STR || !jjson_object(c, args, &doc))
        return call;
    if (as_text) doc = text_of(c, args);
    struct jval f = jv_dict(c, fn.u.dict->n), k = jv_dict(c, call.u.dict->n);
    merge_dict(c, f, fn);
    set_member(c, f, "arguments", doc);
    merge_dict(c, k, call);
    set_member(c, k, "function", f);
    return k;
}

/* Returns the message with its calls' arguments converted to text or to objects. */
static struct jval with_args(struct jctx *c, struct jval m, bool as_text) {
    struct jval calls = chat_member(m, "tool_calls");
    if (calls.tag != JT_LIST) return m;
    struct jval l = jv_list(c, calls.u.list->n), d = jv_dict(c, m.u.dict->n);
    for (uint32_t i = 0; i < calls.u.list->n; i++)
        jlist_add(c, l.u.list, call_with_args(c, calls.u.list->v[i], as_text));
    merge_dict(c, d, m);
    set_member(c, d, "tool_calls", l);
    return d;
}

struct jval chat_case_vars(struct jctx *c, void *ctx) {
    const struct chat_case *k = ctx;
    struct jval d = jv_dict(c, 16), messages = k->messages;
    bool clone = c->t->lenient;
    merge_dict(c, d, k->defaults);
    if (k->llamacpp) set_member(c, d, "enable_thinking", jv_bool(true));
    merge_dict(c, d, k->kwargs);
    if (k->drop.tag == JT_LIST) {
        struct jval kept = jv_dict(c, 16);
        for (uint32_t i = 0; i < d.u.dict->n; i++)
            if (!jop_in(c, d.u.dict->e[i].k, k->drop))
                jdict_set(c, kept.u.dict, d.u.dict->e[i].k, d.u.dict->e[i].v);
        d = kept;
    }
    if (messages.tag == JT_LIST) {
        struct jval l = jv_list(c, messages.u.list->n);
        for (uint32_t i = 0; i < messages.u.list->n; i++) {
            struct jval m = reasoning(c, messages.u.list->v[i]);
            if (clone) m = jv_clone(c, m);
            jlist_add(c, l.u.list,
                      k->parse_args || k->text_args ? with_args(c, m, k->text_args) : m);
        }
        messages = l;
    }
    set_member(c, d, "messages", messages.tag == JT_MISSING ? jv_none() : messages);
    bool no_tools = k->tools.tag == JT_MISSING || k->tools.tag == JT_NONE;
    if (!no_tools) {
        set_member(c, d, "tools", clone ? jv_clone(c, k->tools) : k->tools);
    } else if (!k->llamacpp) {
        set_member(c, d, "tools", jv_none());
    }
    set_member(c, d, "documents", k->documents.tag == JT_MISSING ? jv_none() : k->documents);
    set_member(c, d, "add_generation_prompt", jv_bool(k->gen));
    return d;
}

int chat_case_render(const struct jinja *t, const struct chat_case *k, struct buf *out,
                     struct jinja_err *je, struct err *e) {
    struct chat_case copy = *k;
    return jinja_render_fn(t, chat_case_vars, &copy, k->now, NULL, out, je, e);
}
