// SPDX-License-Identifier: MIT
/* text/tool_json.c - calls written as JSON, and the table of all formats. */
#include "text/tool_int.h"

#include <string.h>

static bool json_at(struct toolparse *p, size_t *i, struct jval *out) {
    size_t used;
    *i = tool_ws(p, *i);
    if (*i >= p->in.len || !jjson_prefix(&p->c, p->in.data + *i, p->in.len - *i, &used, out))
        return false;
    *i += used;
    return true;
}

/* Moves over lit if it is there, white space before it included. */
static void skip(struct toolparse *p, size_t *i, const char *lit) {
    size_t k = tool_ws(p, *i);
    if (lit && *lit && tool_at(p, k, lit)) *i = k + strlen(lit);
}

static struct jval name_of(struct toolparse *p, size_t from, size_t to) {
    struct jval t = ju_strip(tool_text(p, from, to), jv_missing(), 3);
    static const char prefix[] = "functions.";
    size_t n = sizeof prefix - 1;
    if (t.len > n && memcmp(t.u.s, prefix, n) == 0) {
        t.u.s += n;
        t.len -= (uint32_t)n;
    }
    return jv_copy(&p->c, t.u.s, t.len);
}

bool tool_parse_hermes(struct toolparse *p, size_t *i) {
    size_t k = *i + strlen(p->f->named.open);
    struct jval v;
    if (!json_at(p, &k, &v) || !tool_add_object(p, v)) return false;
    skip(p, &k, p->f->named.close);
    *i = k;
    return true;
}

bool tool_parse_list(struct toolparse *p, size_t *i) {
    size_t k = *i + strlen(p->f->named.open);
    struct jval v;
    if (!json_at(p, &k, &v)) return false;
    if (v.tag == JT_DICT) {
        if (!tool_add_object(p, v)) return false;
    } else if (v.tag == JT_LIST) {
        for (uint32_t n = 0; n < v.u.list->n; n++)
            if (!tool_add_object(p, v.u.list->v[n]))
                tool_problem(p, "entry %u of the list of calls is not a call", (unsigned)n);
    } else {
        return false;
    }
    skip(p, &k, p->f->named.close);
    *i = k;
    return true;
}

/* open NAME sep {json} close; Kimi's names end in ":0". */
bool tool_parse_named(struct toolparse *p, size_t *i) {
    const struct tool_named *t = &p->f->named;
    static const char section[] = "<|tool_calls_section_begin|>";
    size_t from = *i, sep, k;
    struct jval v;
    if (tool_at(p, from, section)) from += sizeof section - 1;
    from += strlen(t->open);
    sep = tool_find(p, from, t->sep);
    if (sep == SIZE_MAX || sep - from > 500) return false;
    struct jval name = name_of(p, from, sep);
    const char *mid = strstr(p->f->name, "solar") ? "<|tool_call:name|>" : NULL;
    int64_t m = mid ? ju_find(name, jv_str(mid), 0) : -1;
    if (m >= 0) { /* ID, then the name */
        size_t skip_n = (size_t)m + strlen(mid);
        name = jv_strn(name.u.s + skip_n, name.len - skip_n);
    }
    if (strcmp(p->f->name, "kimi") == 0) {
        uint32_t n = name.len;
        while (n > 0 && name.u.s[n - 1] >= '0' && name.u.s[n - 1] <= '9') n--;
        if (n > 0 && name.u.s[n - 1] == ':') name.len = n - 1;
    }
    k = sep + strlen(t->sep);
    if (!name.len || !json_at(p, &k, &v) || v.tag != JT_DICT) return false;
    skip(p, &k, t->close);
    skip(p, &k, "<|tool_calls_section_end|>");
    tool_add(p, name, v);
    *i = k;
    return true;
}

/* [TOOL_CALLS]NAME[CALL_ID]ID[ARGS]{json} */
bool tool_parse_mistral(struct toolparse *p, size_t *i) {
    size_t from = *i + strlen("[TOOL_CALLS]"), args = tool_find(p, from, "[ARGS]"),
           id = tool_find(p, from, "[CALL_ID]"), k;
    struct jval v;
    if (args == SIZE_MAX) return tool_parse_list(p, i);
    size_t end = id < args ? id : args;
    if (end - from > 500) return false;
    k = args + strlen("[ARGS]");
    struct jval name = name_of(p, from, end);
    if (!name.len || !json_at(p, &k, &v) || v.tag != JT_DICT) return false;
    tool_add(p, name, v);
    *i = k;
    return true;
}

#define DS_CALL                                                                                    \
    "<\xef\xbd\x9ctool\xe2\x96\x81"                                                                \
    "call\xe2\x96\x81"                                                                             \
    "begin\xef\xbd\x9c>"
#define DS_CALL_END                                                                                \
    "<\xef\xbd\x9ctool\xe2\x96\x81"                                                                \
    "call\xe2\x96\x81"                                                                             \
    "end\xef\xbd\x9c>"
#define DS_CALLS                                                                                   \
    "<\xef\xbd\x9ctool\xe2\x96\x81"                                                                \
    "calls\xe2\x96\x81"                                                                            \
    "begin\xef\xbd\x9c>"
#define DS_CALLS_END                                                                               \
    "<\xef\xbd\x9ctool\xe2\x96\x81"                                                                \
    "calls\xe2\x96\x81"                                                                            \
    "end\xef\xbd\x9c>"
#define DS_SEP                                                                                     \
    "<\xef\xbd\x9ctool\xe2\x96\x81"                                                                \
    "sep\xef\xbd\x9c>"
#define DSML                                                                                       \
    "\xef\xbd\x9c"                                                                                 \
    "DSML\xef\xbd\x9c"

/* V3.1: NAME sep {json}; V3 and R1: "function" sep NAME newline and a fenced JSON block. */
bool tool_parse_deepseek(struct toolparse *p, size_t *i) {
    size_t k = *i;
    struct jval v;
    skip(p, &k, DS_CALLS);
    k = tool_ws(p, k);
    if (!tool_at(p, k, DS_CALL)) return false;
    k += strlen(DS_CALL);
    size_t sep = tool_find(p, k, DS_SEP);
    if (sep == SIZE_MAX || sep - k > 500) return false;
    struct jval name = name_of(p, k, sep);
    k = sep + strlen(DS_SEP);
    size_t fence = tool_find(p, k, "```json");
    if (jv_is(name, "function") && fence != SIZE_MAX && fence - k < 500 &&
        p->in.data[tool_ws(p, k)] != '{') {
        name = name_of(p, k, fence);
        k = fence + strlen("```json");
    }
    if (!name.len || !json_at(p, &k, &v) || v.tag != JT_DICT) return false;
    skip(p, &k, "```");
    skip(p, &k, DS_CALL_END);
    skip(p, &k, DS_CALLS_END);
    tool_add(p, name, v);
    *i = k;
    return true;
}

/* [<|channel|>commentary] to=functions.NAME ... <|message|>{json}<|call|> */
bool tool_parse_harmony(struct toolparse *p, size_t *i) {
    size_t k = *i + strlen(" to=functions."), from = k;
    struct jval v;
    while (k < p->in.len && p->in.data[k] != '<' && p->in.data[k] != ' ' && p->in.data[k] != '\n')
        k++;
    struct jval name = name_of(p, from, k);
    size_t msg = tool_find(p, k, "<|message|>");
    if (!name.len || msg == SIZE_MAX || msg - k > 200) return false;
    k = msg + strlen("<|message|>");
    if (!json_at(p, &k, &v) || v.tag != JT_DICT) return false;
    skip(p, &k, "<|call|>");
    tool_add(p, name, v);
    *i = k;
    return true;
}

/* {"name": N, "parameters": {..}}, or <|python_tag|>NAME.call(k="v") for built-in tools. */
bool tool_parse_llama(struct toolparse *p, size_t *i) {
    static const char tag[] = "<|python_tag|>";
    size_t k = *i;
    struct jval v;
    if (tool_at(p, k, tag)) {
        k = tool_ws(p, k + sizeof tag - 1);
        if (k >= p->in.len || p->in.data[k] != '{') {
            *i = k;
            return tool_parse_python(p, i);
        }
    }
    if (!json_at(p, &k, &v) || v.tag != JT_DICT || !jdict_find(v.u.dict, "name", 4) ||
        !tool_add_object(p, v))
        return false;
    skip(p, &k, ";");
    *i = k;
    return true;
}

#define QWEN_TAGS                                                                                  \
    { "<function=", ">", "</function>", "<parameter=", ">", "</parameter>", true }
/* name, markers, parser, tags, {open, separator, close}, what a template holds that asks for it */
static const struct toolfmt formats[] = {
    // clang-format off
    {"qwen-xml", {"<tool_call>", "<function="}, tool_parse_tags, QWEN_TAGS, {0}, {"<function=", "<parameter="}},
    {"seed-xml", {"<seed:tool_call>"}, tool_parse_tags,
     {"<function=", ">", "</function>", "<parameter=", ">", "</parameter>", false}, {0}, {"<seed:tool_call>", NULL}},
    {"glm-argkv", {"<tool_call>"}, tool_parse_glm,
     {"<tool_call>", "", "</tool_call>", "<arg_key>", "</arg_key>", "</arg_value>", false}, {0}, {"<arg_key>", NULL}},
    {"minimax-invoke", {"<minimax:tool_call>", "<invoke name="}, tool_parse_tags,
     {"<invoke name=", ">", "</invoke>", "<parameter name=", ">", "</parameter>", false}, {0}, {"<minimax:tool_call>", NULL}},
    {"dsml", {"<" DSML "function_calls>", "<" DSML "tool_calls>", "<" DSML "invoke name="}, tool_parse_tags,
     {"<" DSML "invoke name=", ">", "</" DSML "invoke>", "<" DSML "parameter name=", ">", "</" DSML "parameter>", false},
     {0}, {DSML "invoke", NULL}},
    {"minicpm-xml", {"<function name="}, tool_parse_tags,
     {"<function name=", ">", "</function>", "<param name=", ">", "</param>", false}, {0}, {"<param name=", NULL}},
    {"gemma4", {"<|tool_call>"}, tool_parse_gemma, {0}, {0}, {"<|tool_call>call:", NULL}},
    {"kimi", {"<|tool_call_begin|>", "<|tool_calls_section_begin|><|tool_call_begin|>"}, tool_parse_named, {0},
     {"<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"}, {"<|tool_call_argument_begin|>", NULL}},
    {"deepseek-v31", {DS_CALLS, DS_CALL}, tool_parse_deepseek, {0}, {0}, {"tool\xe2\x96\x81" "call\xe2\x96\x81" "begin", NULL}},
    {"harmony", {" to=functions."}, tool_parse_harmony, {0}, {0}, {"to=functions.", "<|channel|>"}},
    {"solar", {"<|tool_call:begin|>"}, tool_parse_named, {0},
     {"<|tool_call:begin|>", "<|tool_call:args|>", "<|tool_call:end|>"}, {"<|tool_call:begin|>", NULL}},
    {"mistral-args", {"[TOOL_CALLS]"}, tool_parse_mistral, {0}, {"[TOOL_CALLS]", "[ARGS]", ""}, {"[TOOL_CALLS]", "[ARGS]"}},
    {"mistral-array", {"[TOOL_CALLS]"}, tool_parse_mistral, {0}, {"[TOOL_CALLS]", NULL, "</s>"}, {"[TOOL_CALLS]", NULL}},
    {"apertus-list", {"<|tools_prefix|>"}, tool_parse_list, {0}, {"<|tools_prefix|>", NULL, "<|tools_suffix|>"}, {"<|tools_prefix|>", NULL}},
    {"nemotron-list", {"<TOOLCALL>"}, tool_parse_list, {0}, {"<TOOLCALL>", NULL, "</TOOLCALL>"}, {"<TOOLCALL>", NULL}},
    {"apriel-list", {"<tool_calls>"}, tool_parse_list, {0}, {"<tool_calls>", NULL, "</tool_calls>"}, {"<tool_calls>[", NULL}},
    {"firefunction-list", {" functools["}, tool_parse_list, {0}, {" functools", NULL, ""}, {"functools[", NULL}},
    {"command-r-list", {"<|START_ACTION|>"}, tool_parse_list, {0}, {"<|START_ACTION|>", NULL, "<|END_ACTION|>"}, {"<|START_ACTION|>", NULL}},
    {"granite-list", {"<|tool_call|>"}, tool_parse_list, {0}, {"<|tool_call|>", NULL, ""}, {"<|tool_call|>", NULL}},
    {"gigachat", {"function call<|role_sep|>"}, tool_parse_hermes, {0}, {"function call<|role_sep|>", NULL, ""}, {"function call", "<|role_sep|>"}},
    {"functionary-v31", {"<function="}, tool_parse_named, {0}, {"<function=", ">", "</function>"}, {"<function=", "</function>"}},
    {"functionary-v32", {">>>"}, tool_parse_named, {0}, {">>>", "\n", ""}, {">>>", "recipient"}},
    {"python-list", {"<|tool_call_start|>"}, tool_parse_python, {0}, {0}, {"<|tool_call_start|>", NULL}},
    {"hermes-json", {"<tool_call>"}, tool_parse_hermes, {0}, {"<tool_call>", NULL, "</tool_call>"}, {"<tool_call>", NULL}},
    {"llama-json", {"{\"name\"", "{\"type\"", "<|python_tag|>"}, tool_parse_llama, {0}, {0}, {"\"parameters\": ", NULL}},
    // clang-format on
};

int toolfmt_count(void) {
    return (int)COUNT_OF(formats);
}
const struct toolfmt *toolfmt_at(int i) {
    return &formats[i];
}
const char *toolfmt_name(const struct toolfmt *f) {
    return f->name;
}
const struct toolfmt *toolfmt_find(const char *name) {
    for (size_t i = 0; i < COUNT_OF(formats); i++)
        if (strcmp(formats[i].name, name) == 0) return &formats[i];
    return NULL;
}
const struct toolfmt *toolfmt_detect(const char *tmpl, size_t len) {
    for (size_t i = 0; i < COUNT_OF(formats); i++) {
        bool all = true;
        for (int k = 0; k < 2 && formats[i].detect[k]; k++)
            all = all &&
                  memmem(tmpl, len, formats[i].detect[k], strlen(formats[i].detect[k])) != NULL;
        if (all) return &formats[i];
    }
    return NULL;
}
