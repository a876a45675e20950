// SPDX-License-Identifier: MIT
/* chat/tool_type.c - conversion of raw text values to the types that their parameters' schemas
 * specify. */
#include "chat/tool_int.h"

#include <string.h>
#include <strings.h>

enum {
    TY_STRING = 1,
    TY_INTEGER = 2,
    TY_NUMBER = 4,
    TY_BOOLEAN = 8,
    TY_NULL = 16,
    TY_ARRAY = 32,
    TY_OBJECT = 64
};

/* Returns the bit of a JSON type's name, which some APIs write in capitals; 0 if it is unknown or
 * not a string. */
static unsigned type_bit(const struct json *name) {
    static const char *const names[] = {"string", "integer", "number", "boolean",
                                        "null",   "array",   "object"};
    const char *s = json_str(name);
    for (size_t i = 0; s && i < COUNT_OF(names); i++)
        if (strcasecmp(s, names[i]) == 0) return 1u << i;
    return 0;
}

/* Returns the list's first item, NULL for other types. */
static const struct json *items_of(const struct json *list) {
    return json_type(list) == JSON_ARR ? json_first(list) : NULL;
}

/* Returns the bits of the types that the value has: an integer is also a number. */
static unsigned type_of_value(const struct json *v) {
    static const unsigned bits[] = {
        [JSON_NULL] = TY_NULL,  [JSON_BOOL] = TY_BOOLEAN, [JSON_NUM] = TY_NUMBER,
        [JSON_STR] = TY_STRING, [JSON_ARR] = TY_ARRAY,    [JSON_OBJ] = TY_OBJECT};
    return bits[json_type(v)] | (json_is_int(v) ? TY_INTEGER : 0);
}

/* Returns the types that a schema within root allows; 0: it does not specify any. */
static unsigned types_of(const struct json *root, const struct json *schema, int depth) {
    static const char *const combined[] = {"anyOf", "oneOf", "allOf"};
    schema = tool_target(root, schema);
    const struct json *t = json_get(schema, "type"), *e = json_get(schema, "enum");
    unsigned bits = type_bit(t);
    for (t = items_of(t); t; t = json_next(t)) bits |= type_bit(t);
    if (bits && json_bool(json_get(schema, "nullable"), false)) bits |= TY_NULL;
    for (size_t k = 0; k < COUNT_OF(combined) && depth < 8; k++)
        for (t = items_of(json_get(schema, combined[k])); t; t = json_next(t))
            bits |= types_of(root, t, depth + 1);
    if (bits) return bits;
    for (e = items_of(e); e; e = json_next(e)) bits |= type_of_value(e);
    return json_get(schema, "const") ? type_of_value(json_get(schema, "const")) : bits;
}

/* Returns the value of a Python literal word (True, None ...); NULL: another word. */
static const struct json *python_word(struct toolparse *p, struct text text) {
    const struct text t = tool_strip(text);
    if (tool_is(t, "None")) return json_new(&p->arena, JSON_NULL);
    if (tool_is(t, "True")) return json_new_bool(&p->arena, true);
    return tool_is(t, "False") ? json_new_bool(&p->arena, false) : NULL;
}

/* Parses the text as a Python literal or, if v is a JSON string, as the JSON in that string. NULL:
 * not of these types. */
static const struct json *lenient_value(struct toolparse *p, unsigned types, struct text text,
                                        const struct json *v) {
    struct text t = tool_strip(text);
    if (json_type(v) == JSON_STR) {
        t.s = json_strn(v, &t.n);
        v = tool_whole_json(p, t);
    } else {
        size_t i = (size_t)(t.s - p->in.data);
        const size_t end = i + t.n;
        v = t.n && strchr("[{(", *t.s) ? tool_literal(p, &i) : NULL;
        if (i != end) v = NULL;
    }
    return v && types & type_of_value(v) ? v : NULL;
}

const struct json *tool_typed(struct toolparse *p, const struct json *schema, struct text key,
                              struct text text) {
    const unsigned types = types_of(p->root, schema, 0);
    const struct json *v = types == TY_STRING ? NULL : tool_whole_json(p, text);
    if (types == TY_STRING) return tool_str(p, text);
    if (v && json_type(v) != JSON_STR) {
        if (!types && json_type(v) == JSON_NUM)
            tool_problem(p, "parameter '%.*s' has no declared type: its text was read as JSON",
                         tool_len(key), key.s);
        if (!types || (types & type_of_value(v)) || !(types & TY_STRING)) return v;
        return tool_str(p, text);
    }
    const struct json *other =
        types && !(types & TY_STRING) ? lenient_value(p, types, text, v) : NULL;
    if (other) {
        tool_problem(p, "parameter '%.*s' is not JSON of its declared type", tool_len(key), key.s);
        return other;
    }
    v = python_word(p, text);
    if (v && types && !(types & TY_STRING)) return v;
    if (v)
        tool_problem(p, "parameter '%.*s' is the text %.*s, which may mean a value", tool_len(key),
                     key.s, tool_len(text), text.s);
    else if (types && !(types & TY_STRING))
        tool_problem(p, "parameter '%.*s' does not have its declared type", tool_len(key), key.s);
    else if (!types && text.n && strchr("[{", text.s[0]))
        tool_problem(p, "parameter '%.*s' looks like a list or object but is not JSON",
                     tool_len(key), key.s);
    return tool_str(p, text);
}
