// SPDX-License-Identifier: MIT
/* chat/tool_json.c - calls written as JSON. */
#include "chat/tool_int.h"

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

/* open NAME sep {json} close. */
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
    const char *mid = t->behind_id;
    int64_t m = mid ? ju_find(name, jv_str(mid), 0) : -1;
    if (m >= 0) { /* ID, then the name */
        size_t skip_n = (size_t)m + strlen(mid);
        name = jv_strn(name.u.s + skip_n, name.len - skip_n);
    }
    if (t->numbered) {
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
    size_t k = *i + strlen("to=functions."), from = k;
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
