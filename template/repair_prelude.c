// SPDX-License-Identifier: MIT
/* template/repair_prelude.c - the prelude: Jinja code before the template that normalizes messages
 * and tools.
 *
 * It uses only the common subset of jinja2, minijinja, llama.cpp and Hugging Face's JavaScript
 * engine. A message already in normal form is passed through as the same object. A new message is a
 * literal with the keys that the body reads; a key missing from the old message collapses onto
 * "role", so that it is missing from the new one as well. repair_mark.c writes the line before it.
 */
#include "template/repair_int.h"

#include <string.h>

/* ---- names that the body reads --------------------------------------------------------------- */

enum { MAX_KEYS = 48 };
struct names {
    struct jval v[MAX_KEYS];
    int n;
};

/* Returns whether v is a string that can be an identifier of at most 40 bytes. */
static bool name_like(struct jval v) {
    if (v.tag != JT_STR || !v.len || v.len > 40) return false;
    for (uint32_t i = 0; i < v.len; i++) {
        const char c = v.u.s[i];
        const bool ok = c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                        (i && c >= '0' && c <= '9');
        if (!ok) return false;
    }
    return true;
}

/* Adds a name unless it is already there or not an identifier, or the list is full. */
static void add_name(struct names *k, struct jval v) {
    if (!name_like(v)) return;
    for (int i = 0; i < k->n; i++)
        if (jv_eqs(k->v[i], v)) return;
    if (k->n < MAX_KEYS) k->v[k->n++] = v;
}

/* Records the attribute and key names below n: x.name, x['name'], 'name' in x, x.get('name'). */
static void note_node(struct names *k, const struct jnode *n) {
    if (n->kind == JN_ATTR) add_name(k, n->val);
    if (n->kind == JN_ITEM && n->b && n->b->kind == JN_CONST) add_name(k, n->b->val);
    if (n->kind == JN_COMPARE && n->list && (n->list->op == JO_IN || n->list->op == JO_NOTIN) &&
        n->a->kind == JN_CONST)
        add_name(k, n->a->val);
    if (n->kind == JN_CALL && n->a && n->a->kind == JN_ATTR && jv_is(n->a->val, "get") && n->list &&
        n->list->kind == JN_CONST)
        add_name(k, n->list->val);
}

/* Collects the names used in n, in its children and in the nodes after it. */
static void walk(struct names *k, const struct jnode *n) {
    for (; n; n = n->next) {
        note_node(k, n);
        walk(k, n->a);
        walk(k, n->b);
        walk(k, n->c);
        walk(k, n->list);
        walk(k, n->list2);
    }
}

/* Returns whether the name is among those collected. */
static bool has(const struct names *k, const char *name) {
    for (int i = 0; i < k->n; i++)
        if (jv_is(k->v[i], name)) return true;
    return false;
}

bool body_reads(const struct jinja *t, const char *name) {
    struct names k = {0};
    walk(&k, t->body);
    for (int i = 0; i < t->n_globals; i++)
        if (jv_is(t->global_name[i], name)) return true;
    return has(&k, name);
}

/* Returns whether a name is used for loops, strings, calls or schemas rather than messages. */
static bool of_others(struct jval v) {
    static const char *const names[] = {
        "role",     "content",    "tool_calls", "function",    "arguments", "type",
        "text",     "parameters", "properties", "description", "required",  "enum",
        "items",    "default",    "anyOf",      "oneOf",       "allOf",     "additionalProperties",
        "title",    "format",     "first",      "last",        "index",     "index0",
        "length",   "previtem",   "nextitem",   "revindex",    "revindex0", "depth",
        "cycle",    "strip",      "lstrip",     "rstrip",      "split",     "startswith",
        "endswith", "get",        "keys",       "values",      "append",    "pop",
        "replace",  "upper",      "lower",      "join",        "title",     "capitalize",
        "find",     "insert",     "extend",     "update",      "nullable",  "minimum",
        "maximum",  "minItems",   "maxItems",   "pattern",     "image_url", "return",
        "string",   "number",     "integer",    "boolean",     "object",    "array"};
    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (jv_is(v, names[i])) return true;
    return false;
}

/* ---- writing --------------------------------------------------------------------------------- */

struct writer {
    struct buf *out;
    const struct jinja *t;
    const struct repair_plan *plan;
    struct names keys;
    bool has_calls; /* the body reads tool_calls */
};

static void put(struct writer *w, const char *s) {
    buf_str(w->out, s);
}
static bool plan_wants(const struct writer *w, enum repair_piece k) {
    return plan_has(w->plan, k);
}

/* Writes the literal of a new message. content and calls are expressions; calls NULL: none. */
static void message(struct writer *w, const char *content, const char *calls) {
    buf_fmt(w->out,
            "{'role': role, ('content' if %s is defined else 'role'): (%s if %s is defined "
            "else role)",
            content, content, content);
    if (calls)
        buf_fmt(w->out, ", ('tool_calls' if %s else 'role'): (%s if %s else role)", calls, calls,
                calls);
    if (calls && plan_wants(w, P_E_AHEAD))
        put(w, ", ('hone_text' if ahead is string else 'role'): (ahead if ahead is string else "
               "role)");
    const char *same = plan_wants(w, P_ORPHAN) ? " and role == m.role" : "";
    const bool ids = plan_wants(w, P_IDS_LONG) || plan_wants(w, P_IDS_ABSENT);
    for (int i = 0; i < w->keys.n; i++) {
        if (ids && jv_is(w->keys.v[i], "tool_call_id")) {
            put(w, ", ('tool_call_id' if tid is defined else 'role'): (tid if tid is defined else "
                   "role)");
            continue;
        }
        if (plan_wants(w, P_RESULT_NAME) && jv_is(w->keys.v[i], "name")) {
            put(w, ", ('name' if hone.name is string else 'role'): (hone.name if hone.name is "
                   "string else role)");
            continue;
        }
        const int n = (int)w->keys.v[i].len;
        const char *k = w->keys.v[i].u.s;
        if (of_others(w->keys.v[i])) continue;
        buf_fmt(w->out,
                ", ('%.*s' if m.%.*s is defined%s else 'role'): (m.%.*s if m.%.*s is defined%s "
                "else role)",
                n, k, n, k, same, n, k, n, k, same);
    }
    put(w, "}");
}

/* Gives the text parts of the Responses API the type "text". */
static void part_types(struct writer *w) {
    if (!plan_wants(w, P_PARTS_TYPE)) return;
    put(w, "{%- if content is defined and content is not none and content is iterable and content "
           "is not string and content is not mapping %}\n"
           "{%- set hone.f = [] %}{%- set hone.ok = false %}\n"
           "{%- for p in content %}\n"
           "{%- if p is mapping and (p.type == 'input_text' or p.type == 'output_text') %}\n"
           "{%- set hone.f = hone.f + [{'type': 'text', 'text': p.text}] %}\n"
           "{%- set hone.ok = true %}\n"
           "{%- else %}\n"
           "{%- set hone.f = hone.f + [p] %}\n"
           "{%- endif %}\n"
           "{%- endfor %}\n"
           "{%- if hone.ok %}{%- set content = hone.f %}{%- set odd = true %}{%- endif %}\n"
           "{%- endif %}\n");
}

/* Writes the code that turns content parts into text. */
static void parts(struct writer *w) {
    const bool user = plan_wants(w, P_PARTS_USER), result = plan_wants(w, P_PARTS_RESULT),
               answer = plan_wants(w, P_PARTS_ANSWER);
    if (!user && !result && !answer) return;
    put(w,
        "{%- if content is defined and content is not none and content is iterable and content is "
        "not string and content is not mapping");
    if (!(user && result && answer)) {
        put(w, " and (");
        const char *glue = "";
        if (user) {
            put(w, "role == 'user' or role == 'system'");
            glue = " or ";
        }
        if (result) {
            buf_fmt(w->out, "%srole == 'tool'", glue);
            glue = " or ";
        }
        if (answer) buf_fmt(w->out, "%srole == 'assistant'", glue);
        put(w, ")");
    }
    put(w, " %}\n"
           "{%- set hone.t = '' %}\n"
           "{%- set hone.ok = true %}\n"
           "{%- for p in content %}\n"
           "{%- if p is string %}\n"
           "{%- set hone.t = hone.t + p %}\n"
           "{%- elif p is mapping and p.text is string %}\n"
           "{%- set hone.t = hone.t + p.text %}\n"
           "{%- else %}\n"
           "{%- set hone.ok = false %}\n"
           "{%- endif %}\n"
           "{%- endfor %}\n"
           "{%- if hone.ok %}\n"
           "{%- set content = hone.t %}\n"
           "{%- set odd = true %}\n"
           "{%- endif %}\n"
           "{%- endif %}\n");
}

/* Writes the code that replaces missing content by "". */
static void no_content(struct writer *w) {
    static const struct {
        enum repair_piece piece;
        const char *when;
    } rows[] = {{P_NULL_CALL, "role == 'assistant' and content is none"},
                {P_ABSENT_CALL, "role == 'assistant' and content is not defined"},
                {P_NULL_RESULT, "role == 'tool' and content is none"}};
    const char *glue = "{%- if ";
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (!plan_wants(w, rows[i].piece)) continue;
        buf_fmt(w->out, "%s(%s)", glue, rows[i].when);
        glue = " or ";
    }
    if (glue[0] == ' ')
        put(w, " %}\n"
               "{%- set content = '' %}\n"
               "{%- set odd = true %}\n"
               "{%- endif %}\n");
}

/* Writes code that makes the id in `var` nine characters long: its last nine or, if it is missing
 * or shorter, the counter hone.`count`, padded with zeros. The code sets `o` if the id changed. */
static void new_id(struct writer *w, const char *var, const char *count) {
    buf_fmt(w->out,
            "{%%- set hone.%s = hone.%s + 1 %%}\n"
            "{%%- if %s is not string or (%s and %s | length != 9) %%}\n"
            "{%%- set o = true %%}\n"
            "{%%- set all = (%s if %s is string else '') %%}\n"
            "{%%- if all | length < 9 %%}{%%- set all = '00000000' ~ hone.%s %%}{%%- endif %%}\n"
            "{%%- set %s = all[all | length - 9:] %%}\n"
            "{%%- endif %%}\n",
            count, count, var, plan_wants(w, P_IDS_LONG) ? "true" : "false", var, var, var, count,
            var);
}

/* Writes the code that normalizes tool calls and their ids. */
static void calls(struct writer *w) {
    static const struct {
        enum repair_piece piece;
        const char *text;
    } rows[] = {
        {P_ARGS_ABSENT,
         "{%- if a is not defined %}{%- set a = {} %}{%- set o = true %}{%- endif %}\n"},
        {P_ARGS_NULL, "{%- if a is none %}{%- set a = {} %}{%- set o = true %}{%- endif %}\n"},
        {P_ARGS_BLANK, "{%- if a is string and not (a | trim) %}{%- set a = {} %}{%- set o = true "
                       "%}{%- endif %}\n"},
        {P_ARGS_PARSE, NULL},
        {P_ARGS_WRAP, "{%- if a is string and a | trim %}{%- set a = {'arguments': a} if (a | "
                      "trim) != 'null' else {} %}{%- set o = true %}{%- endif %}\n"},
        {P_ARGS_DUMP,
         "{%- if a is mapping %}{%- set a = a | tojson %}{%- set o = true %}{%- endif %}\n"}};
    const bool ids = plan_wants(w, P_IDS_LONG) || plan_wants(w, P_IDS_ABSENT);
    bool any = ids;
    for (size_t i = 0; i < COUNT_OF(rows); i++) any |= plan_wants(w, rows[i].piece);
    if (!any) return;
    put(w, "{%- if calls %}\n"
           "{%- set hone.c = [] %}{%- set hone.odd = false %}\n"
           "{%- for c in calls %}\n"
           "{%- set f = c.function if c.function is defined else c %}\n"
           "{%- set a = f.arguments %}{%- set o = false %}\n");
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (!plan_wants(w, rows[i].piece)) continue;
        if (rows[i].text)
            put(w, rows[i].text);
        else
            reader_write(w->out, plan_wants(w, P_E_DUMP));
    }
    put(w, "{%- set cid = c.id %}\n");
    if (ids) new_id(w, "cid", "n_calls");
    put(w, "{%- if o %}\n"
           "{%- set hone.odd = true %}\n"
           "{%- set hone.c = hone.c + [{('id' if cid is defined else 'type'): (cid if cid is "
           "defined else 'function'), 'type': 'function', 'function': {'name': f.name, "
           "'arguments': a}}] %}\n"
           "{%- else %}\n"
           "{%- set hone.c = hone.c + [c] %}\n"
           "{%- endif %}\n"
           "{%- endfor %}\n"
           "{%- if hone.odd %}{%- set calls = hone.c %}{%- set odd = true %}{%- endif %}\n"
           "{%- endif %}\n");
    if (!ids) return;
    put(w, "{%- set tid = m.tool_call_id %}\n"
           "{%- if role == 'tool' %}\n"
           "{%- set o = false %}\n");
    new_id(w, "tid", "n_results");
    put(w, "{%- if o %}{%- set odd = true %}{%- endif %}\n"
           "{%- endif %}\n");
}

/* Writes the code that gives a result the name of its tool: that of the call with its id (of
 * several, the one at its position) or, if it has no id, of the call at its position. */
static void result_names(struct writer *w) {
    if (!plan_wants(w, P_RESULT_NAME)) return;
    put(w, "{%- set hone.name = m.name if m.name is string else none %}\n"
           "{%- if m.tool_calls %}{%- set hone.named = m.tool_calls %}{%- set hone.nth = 0 %}"
           "{%- endif %}\n"
           "{%- if role == 'tool' %}\n"
           "{%- if not hone.name %}\n"
           "{%- for c in hone.named %}\n"
           "{%- set f = c.function if c.function is defined else c %}\n"
           "{%- if f.name is string and (c.id == m.tool_call_id if m.tool_call_id is string else "
           "loop.index0 == hone.nth) and (not hone.name or loop.index0 == hone.nth) %}"
           "{%- set hone.name = f.name %}{%- endif %}\n"
           "{%- endfor %}\n"
           "{%- if hone.name %}{%- set odd = true %}{%- endif %}\n"
           "{%- endif %}\n"
           "{%- set hone.nth = hone.nth + 1 %}\n"
           "{%- endif %}\n");
}

enum call_style { PYTHON, JSON };
static const struct call_text {
    const char *sign, *open, *sep, *close;
    enum call_style style;
} call_texts[] = {
#define CALL_TEXT(sign, open, sep, close, style) {sign, open, sep, close, style},
#include "template/repair_families.def"
#undef CALL_TEXT
};
static const struct tool_text {
    const char *sign, *lacks, *before, *after;
} tool_texts[] = {
#define TOOL_TEXT(sign, lacks, before, after) {sign, lacks, before, after},
#include "template/repair_families.def"
#undef TOOL_TEXT
};

static bool source_has(const struct jinja *t, const char *s) {
    return memmem(t->src, t->src_len, s, strlen(s)) != NULL;
}

/* Returns the call syntax whose marker the source contains; NULL: not found. */
static const struct call_text *call_text(const struct jinja *t) {
    for (size_t i = 0; i < COUNT_OF(call_texts); i++)
        if (source_has(t, call_texts[i].sign)) return &call_texts[i];
    return NULL;
}
/* Returns the tool syntax whose marker the source contains; NULL: not found. */
static const struct tool_text *tool_text(const struct jinja *t) {
    for (size_t i = 0; i < COUNT_OF(tool_texts); i++)
        if (source_has(t, tool_texts[i].sign) &&
            (!tool_texts[i].lacks || !source_has(t, tool_texts[i].lacks)))
            return &tool_texts[i];
    return NULL;
}

bool prelude_knows_calls(const struct jinja *t) {
    return call_text(t) != NULL && !body_reads(t, "tool_calls");
}
bool prelude_knows_tools(const struct jinja *t) {
    return tool_text(t) != NULL;
}

/* Writes the calls of a message as text into its content. */
static void calls_as_text(struct writer *w) {
    const struct call_text *f = call_text(w->t);
    if (!plan_wants(w, P_CALLS_TEXT) || !f) return;
    put(w, "{%- if m.tool_calls %}\n"
           "{%- set hone.all = '' %}\n"
           "{%- for c in m.tool_calls %}\n"
           "{%- set f = c.function if c.function is defined else c %}\n"
           "{%- set a = f.arguments %}\n");
    reader_write(w->out, false);
    if (f->style == PYTHON)
        put(w, "{%- set hone.x = '' %}\n"
               "{%- if a is mapping %}\n"
               "{%- for k, v in a.items() %}\n"
               "{%- set hone.x = hone.x + (', ' if hone.x else '') + k + '=' + (v | tojson) %}\n"
               "{%- endfor %}\n"
               "{%- elif a is string and a | trim %}\n"
               "{%- set hone.x = 'arguments=' + (a | tojson) %}\n"
               "{%- endif %}\n");
    else
        put(w, "{%- if a is string and a | trim %}{%- set a = {'arguments': a} %}{%- endif %}\n");
    buf_fmt(w->out, "{%%- set hone.all = hone.all + ('%s' if hone.all else '') + ", f->sep);
    put(w, f->style == PYTHON
               ? "f.name + '(' + hone.x + ')'"
               : "'{\"name\": \"' + f.name + '\", \"arguments\": ' + ((a | tojson) if a is "
                 "mapping else '{}') + '}'");
    buf_fmt(
        w->out,
        " %%}\n"
        "{%%- endfor %%}\n"
        "{%%- set content = (content if content is string else '') + '%s' + hone.all + '%s' %%}\n"
        "{%%- set odd = true %%}\n"
        "{%%- endif %%}\n",
        f->open, f->close);
}

/* Roles used for results by templates without a "tool" role. */
static const char *const result_roles[] = {"tool_response", "ipython",     "observation",
                                           "function",      "tool_result", "tool_results",
                                           "tool_output"};

/* Returns the role for tool results that the template tests for; NULL: none. */
static const char *result_role(const struct jinja *t) {
    for (size_t i = 0; i < COUNT_OF(result_roles); i++) {
        struct buf quoted = {0};
        buf_fmt(&quoted, "'%s'", result_roles[i]);
        bool there = source_has(t, quoted.data);
        quoted.data[0] = quoted.data[quoted.len - 1] = '"';
        there |= source_has(t, quoted.data);
        buf_release(&quoted);
        if (there) return result_roles[i];
    }
    return NULL;
}

/* Names under which templates read tools. */
static const char *const tool_names[] = {"xml_tools",    "functions", "available_tools",
                                         "custom_tools", "tool_list", "json_tools"};

/* Defines the tools, as JSON texts, under the names that the template reads. */
static void tools_by_name(struct writer *w) {
    for (size_t i = 0; i < COUNT_OF(tool_names); i++) {
        const char *s = tool_names[i];
        bool reads = false;
        for (int k = 0; k < w->t->n_globals; k++) reads |= jv_is(w->t->global_name[k], s);
        if (reads)
            buf_fmt(w->out,
                    "{%%- if tools and not %s %%}\n"
                    "{%%- set list = namespace(v=[]) %%}\n"
                    "{%%- for t in tools %%}{%%- set list.v = list.v + [t | tojson] %%}{%%- endfor "
                    "%%}\n"
                    "{%%- set %s = list.v %%}\n"
                    "{%%- endif %%}\n",
                    s, s);
    }
}

/* Lists the tools in the first system message. */
static void tools_as_text(struct writer *w) {
    const struct tool_text *f = tool_text(w->t);
    if (!f) return;
    buf_fmt(
        w->out,
        "{%%- if tools %%}\n"
        "{%%- set hone.t = '%s' %%}\n"
        "{%%- for t in tools %%}{%%- if t is mapping %%}\n"
        "{%%- set f = t.function if t.function is defined else t %%}\n"
        "{%%- set hone.t = hone.t + '\\n### ' + f.name + '\\nDescription: ' + (f.description if "
        "f.description is string else '') + '\\n\\nParameters: ' + (f.parameters | tojson) + "
        "'\\n' %%}\n"
        "{%%- endif %%}{%%- endfor %%}\n"
        "{%%- set hone.t = hone.t + '\\n%s' %%}\n"
        "{%%- if hone.m and hone.m[0].role == 'system' and hone.m[0].content is string %%}\n"
        "{%%- set hone.m = [{'role': 'system', 'content': hone.m[0].content + '\\n\\n' + hone.t}] "
        "+ "
        "hone.m[1:] %%}\n"
        "{%%- else %%}\n"
        "{%%- set hone.m = [{'role': 'system', 'content': hone.t}] + hone.m %%}\n"
        "{%%- endif %%}\n"
        "{%%- endif %%}\n",
        f->before, f->after);
}

/* Moves the thinking of an answer with calls into its content while its turn is open, unless
 * thinking is off. */
static void reasoning(struct writer *w) {
    if (!plan_wants(w, P_REASON)) return;
    buf_fmt(w->out, "{%%- set round = %s %%}\n", w->has_calls ? "calls" : "m.tool_calls");
    put(w,
        "{%- set r = m.reasoning_content if m.reasoning_content is string else m.reasoning if "
        "m.reasoning is string else '' %}\n"
        "{%- if r and round and role == 'assistant' and loop.index0 > hone.last and (content is "
        "string or "
        "not content) and (enable_thinking is not defined or enable_thinking) and (thinking is "
        "not defined or thinking) %}\n"
        "{%- set content = '<think>\\n' + r + '\\n</think>\\n\\n' + (content if content is string "
        "else '') %}\n"
        "{%- set hone.keep = hone.keep + [content, content | trim] %}\n"
        "{%- set odd = true %}\n"
        "{%- endif %}\n");
}

/* Writes the code that changes the position or role of system messages. */
static void systems(struct writer *w) {
    const bool lead = plan_wants(w, P_SYS_LEAD), late = plan_wants(w, P_SYS_LATE);
    if (plan_wants(w, P_SYS_USER)) {
        put(w, "{%- if role == 'system' and content is string %}\n"
               "{%- set hone.pre = hone.pre + content + '\\n\\n' %}\n"
               "{%- set skip = true %}\n"
               "{%- elif role == 'user' and hone.pre and content is string %}\n"
               "{%- set content = hone.pre + content %}\n"
               "{%- set hone.pre = '' %}\n"
               "{%- set odd = true %}\n"
               "{%- endif %}\n");
    } else if (lead || late) {
        put(w, "{%- if role != 'system' %}{%- set hone.lead = false %}{%- endif %}\n"
               "{%- if role == 'system' and content is string and hone.sys is string");
        put(w, lead && late ? " %}\n" : lead ? " and hone.lead %}\n" : " and not hone.lead %}\n");
        put(w, "{%- set hone.sys = hone.sys + ('\\n\\n' if hone.sys and content else '') + content "
               "%}\n"
               "{%- set hone.m = [{'role': 'system', 'content': hone.sys}] + hone.m[1:] %}\n"
               "{%- set skip = true %}\n");
        if (late)
            put(w, "{%- elif role == 'system' and content is string and not hone.lead %}\n"
                   "{%- set hone.sys = content %}\n"
                   "{%- set hone.m = [{'role': 'system', 'content': content}] + hone.m %}\n"
                   "{%- set skip = true %}\n");
        put(w, "{%- elif role == 'system' and content is string and not hone.m %}\n"
               "{%- set hone.sys = content %}\n"
               "{%- endif %}\n");
    }
}

/* Writes the code that joins consecutive messages of the user or of the assistant. */
static void merges(struct writer *w) {
    const bool users = plan_wants(w, P_MERGE_USERS), answers = plan_wants(w, P_MERGE_ANSWERS);
    if (!users && !answers) return;
    buf_fmt(w->out,
            "{%%- if role == hone.role and (role == '%s'%s) and not hone.had and content is string "
            "and hone.text is string and not skip %%}\n"
            "{%%- set content = hone.text + ('\\n\\n' if hone.text and content else '') + content "
            "%%}\n"
            "{%%- set hone.m = hone.m[:-1] %%}\n"
            "{%%- set odd = true %%}\n"
            "{%%- endif %%}\n",
            users ? "user" : "assistant", users && answers ? " or role == 'assistant'" : "");
}

/* Writes the code that appends a message with these contents and calls to the new list. */
static void append(struct writer *w, const char *content, const char *list) {
    put(w, "{%- set hone.m = hone.m + [");
    message(w, content, list);
    put(w, "] %}\n");
}

static void emission(struct writer *w) {
    if (plan_wants(w, P_SPLIT_TEXT)) {
        put(w, "{%- if role == 'assistant' and calls and content is string and content | trim %}\n"
               "{%- set hone.m = hone.m + [{'role': role, 'content': content}] %}\n"
               "{%- set content = '' %}{%- set odd = true %}\n"
               "{%- endif %}\n");
    }
    if (plan_wants(w, P_E_AHEAD))
        put(w, "{%- set ahead = none %}\n"
               "{%- if role == 'assistant' and calls and content is string and content | trim %}\n"
               "{%- set ahead = content %}{%- set content = '' %}{%- set odd = true %}\n"
               "{%- endif %}\n");
    if (plan_wants(w, P_CALLS_BARE))
        put(w, "{%- if role == 'assistant' and calls and not skip and content is string and not "
               "(content | trim) %}{%- set content = none %}{%- set odd = true %}{%- endif %}\n");
    if (plan_wants(w, P_RESULT_ROLE) && result_role(w->t))
        buf_fmt(
            w->out,
            "{%%- if role == 'tool' %%}{%%- set role = '%s' %%}{%%- set odd = true %%}\n"
            "{%%- if content is mapping %%}{%%- set content = content | tojson %%}{%%- endif %%}\n"
            "{%%- endif %%}\n",
            result_role(w->t));
    put(w, "{%- if skip %}\n");
    if (plan_wants(w, P_SPLIT_CALLS)) {
        buf_fmt(w->out,
                "{%%- elif calls and calls | length > 1 %%}\n"
                "{%%- for one in calls %%}\n"
                "{%%- set part = content if loop.first else %s %%}\n",
                plan_wants(w, P_CALLS_BARE) ? "none" : "''");
        append(w, "part", "[one]");
        put(w, "{%- endfor %}\n");
    }
    put(w, "{%- elif odd %}\n");
    append(w, "content", w->has_calls ? "calls" : NULL);
    put(w, "{%- else %}\n"
           "{%- set hone.m = hone.m + [m] %}\n"
           "{%- endif %}\n");
    if (plan_wants(w, P_MERGE_USERS) || plan_wants(w, P_MERGE_ANSWERS))
        buf_fmt(w->out,
                "{%%- if not skip %%}{%%- set hone.role = role %%}{%%- set hone.text = content "
                "%%}{%%- set hone.had = %s %%}{%%- endif %%}\n",
                w->has_calls ? "true if calls else false" : "false");
}

/* Turns each text into a list of one part, after all other changes. */
static void texts_as_parts(struct writer *w) {
    put(w, "{%- set hone.f = [] %}\n"
           "{%- for m in hone.m %}\n"
           "{%- if m.content is string %}\n"
           "{%- set role = m.role %}{%- set content = [{'type': 'text', 'text': m.content}] %}\n"
           "{%- set hone.f = hone.f + [");
    message(w, "content", w->has_calls ? "m.tool_calls" : NULL);
    put(w, "] %}\n"
           "{%- else %}\n"
           "{%- set hone.f = hone.f + [m] %}\n"
           "{%- endif %}\n"
           "{%- endfor %}\n"
           "{%- set hone.m = hone.f %}\n");
}

/* Writes the loop over the messages. */
static void messages(struct writer *w) {
    put(w, "{%- set hone = namespace(m=[], c=[], f=[], k=[], v=[], n=none, x='', b=none, t='', "
           "q='', d=0, w=none, bad=false, raw=false, "
           "ok=true, odd=false, open=false, sys=none, lead=true, pre='', role='', text=none, "
           "had=false, user=false, all='', keep=[], last=0, n_calls=0, "
           "n_results=0, name=none, named=[], nth=0) %}\n");
    if (plan_wants(w, P_REASON))
        put(w, "{%- set hone.keep = [] %}{%- set hone.last = -1 %}\n"
               "{%- for m in messages %}{%- if m.role == 'user' %}{%- set hone.last = loop.index0 "
               "%}{%- endif %}{%- endfor %}\n");
    put(w,
        "{%- for m in messages %}\n"
        "{%- set role = m.role %}{%- set content = m.content %}{%- set odd = false %}{%- set skip "
        "= false %}\n");
    if (w->has_calls) put(w, "{%- set calls = m.tool_calls %}\n");
    if (plan_wants(w, P_CALLS_NULL))
        put(w, "{%- if calls is defined and not calls %}{%- set odd = true %}{%- endif %}\n");
    if (plan_wants(w, P_DEVELOPER))
        put(w, "{%- if role == 'developer' %}{%- set role = 'system' %}{%- set odd = true %}{%- "
               "endif %}\n");
    part_types(w);
    parts(w);
    no_content(w);
    if (w->has_calls) calls(w);
    result_names(w);
    calls_as_text(w);
    reasoning(w);
    if (plan_wants(w, P_ORPHAN)) {
        put(w,
            "{%- if role == 'tool' and not hone.open %}{%- set role = 'user' %}{%- set odd = true "
            "%}{%- endif %}\n");
        buf_fmt(w->out, "{%%- if role != 'tool' %%}{%%- set hone.open = %s %%}{%%- endif %%}\n",
                w->has_calls ? "true if calls else false" : "role == 'assistant'");
    }
    systems(w);
    merges(w);
    if (plan_wants(w, P_NO_USER))
        put(w, "{%- if role == 'user' %}{%- set hone.user = true %}{%- endif %}\n");
    emission(w);
    put(w, "{%- endfor %}\n");
    if (plan_wants(w, P_SYS_USER))
        put(w,
            "{%- if hone.pre %}{%- set hone.m = hone.m + [{'role': 'user', 'content': hone.pre | "
            "trim}] %}{%- endif %}\n");
    if (plan_wants(w, P_NO_USER))
        put(w, "{%- if not hone.user and hone.m %}\n"
               "{%- set n = 1 if hone.m[0].role == 'system' else 0 %}\n"
               "{%- set hone.m = hone.m[:n] + [{'role': 'user', 'content': ''}] + hone.m[n:] %}\n"
               "{%- endif %}\n");
    if (plan_wants(w, P_TOOLS_TEXT)) tools_as_text(w);
    if (plan_wants(w, P_TEXT_PARTS)) texts_as_parts(w);
    put(w, "{%- set messages = hone.m %}\n");
}

/* Returns whether the plan needs the loop over the messages. Only the two pieces that change tools
 * do not. */
static bool needs_loop(const struct repair_plan *p) {
    for (int k = 0; k < P_E_MUTATE; k++)
        if (k != P_TOOLS_NONE && k != P_TOOLS_EMPTY && k != P_TOOLS_NAME && k != P_E_DUMP &&
            plan_has(p, (enum repair_piece)k))
            return true;
    return plan_has(p, P_E_AHEAD);
}

void prelude_write(struct buf *out, const struct jinja *t, const struct repair_plan *p) {
    struct writer w = {.out = out, .t = t, .plan = p, .has_calls = body_reads(t, "tool_calls")};
    walk(&w.keys, t->body);
    if (needs_loop(p)) messages(&w);
    if (plan_wants(&w, P_TOOLS_NAME)) tools_by_name(&w);
    if (plan_wants(&w, P_TOOLS_NONE)) put(&w, "{%- set tools = tools or [] %}\n");
    if (plan_wants(&w, P_TOOLS_EMPTY))
        put(&w, "{%- if tools is defined and not tools %}{%- set tools = none %}{%- endif %}\n");
}
