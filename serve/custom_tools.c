// SPDX-License-Identifier: MIT
/* serve/custom_tools.c - custom tools in the form of functions: their definitions, arguments and
 * namespaces. */
#include "serve/custom_tools.h"

#include <string.h>

#include "base/mem.h"
#include "text/utf8.h"

/* Returns whether s, of n bytes, is a line of `list`. */
static bool has_line(const struct buf *list, const char *s, size_t n) {
    for (const char *p = list->data; p && *p;) {
        const size_t k = strcspn(p, "\n");
        if (k == n && memcmp(p, s, n) == 0) return true;
        p += k + 1;
    }
    return false;
}

bool custom_tool_is(const struct ask *a, const char *name) {
    return a->custom.len && has_line(&a->custom, name, strlen(name));
}

const char *custom_tool_space(const struct ask *a, const char *name, size_t *n) {
    for (const char *p = strchr(name, '.'); p && a->spaces.len; p = strchr(p + 1, '.')) {
        *n = (size_t)(p - name);
        if (has_line(&a->spaces, name, *n)) return name;
    }
    return NULL;
}

/* Writes the format of a custom tool's input as schema keywords. */
static int put_format(struct ask *a, struct jw *w, const struct json *format, const char *path,
                      struct fault *f) {
    const char *type = json_str(json_get(format, "type"));
    const bool none = json_type(format) == JSON_NULL;
    const struct json *g = ask_get(format, "grammar") ? json_get(format, "grammar") : format;
    const char *syntax = json_str(json_get(g, "syntax")),
               *text = json_str(json_get(g, "definition"));
    struct buf pattern = {0};
    if (none || (type && strcmp(type, "text") == 0)) return 0;
    if (!type || strcmp(type, "grammar") != 0 || !syntax || !text)
        return fault_set(f, 400, NULL, path,
                         "format: must be 'text', or a 'grammar' with syntax and definition");
    a->held = true;
    if (strcmp(syntax, "lark") == 0) {
        jw_str(w, "x-lark", text);
        return 0;
    }
    if (strcmp(syntax, "regex") != 0)
        return fault_set(f, 400, NULL, path, "format: syntax: must be lark or regex");
    buf_fmt(&pattern, "^(?:%s)$", text);
    jw_str(w, "pattern", pattern.data);
    buf_release(&pattern);
    return 0;
}

int custom_tool_define(struct ask *a, struct jw *w, const struct json *t, const char *path,
                       struct fault *f) {
    const char *name = json_str(json_get(t, "name"));
    if (!name || !*name || strchr(name, '\n'))
        return fault_set(f, 400, NULL, path, "a name is required");
    const struct json *description = ask_get(t, "description");
    if (description && !json_str(description))
        return fault_set(f, 400, NULL, path, "description: must be a string");
    buf_fmt(&a->custom, "%s\n", name);
    jw_obj(w, NULL);
    jw_str(w, "type", "function");
    jw_obj(w, "function");
    jw_str(w, "name", name);
    if (description) jw_copy(w, "description", description);
    jw_obj(w, "parameters");
    jw_str(w, "type", "object");
    jw_obj(w, "properties");
    jw_obj(w, "input");
    jw_str(w, "type", "string");
    const int rc = put_format(a, w, json_get(t, "format"), path, f);
    jw_end(w);
    jw_end(w);
    jw_arr(w, "required");
    jw_str(w, NULL, "input");
    jw_end(w);
    jw_bool(w, "additionalProperties", false);
    jw_end(w);
    jw_end(w);
    jw_end(w);
    return rc;
}

void custom_tool_arguments(const char *input, struct buf *out) {
    buf_str(out, "{\"input\": ");
    json_quote(out, input, strlen(input));
    buf_chr(out, '}');
}

/* Returns the value of four hex digits at s; < 0: not hex digits. */
static int32_t hex4(const char *s) {
    int32_t v = 0;
    for (int i = 0; i < 4; i++) {
        const char c = s[i];
        const int d = c >= '0' && c <= '9'                 ? c - '0'
                      : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                           : -1;
        if (d < 0) return -1;
        v = v * 16 + d;
    }
    return v;
}

/* Appends the decoded escape sequence at s, which begins with a backslash. Returns its length, or 0
 * if it is incomplete. */
static size_t escape(const char *s, size_t n, struct buf *out) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (n < 2) return 0;
    if (s[1] != 'u') {
        const char *at = strchr(from, s[1]);
        buf_chr(out, at ? to[at - from] : s[1]);
        return 2;
    }
    int32_t c = n >= 6 ? hex4(s + 2) : -1;
    size_t used = 6;
    if (c < 0) return 0;
    if (c >= 0xd800 && c < 0xdc00) { /* high surrogate */
        if (n < 12) return 0;
        const int32_t low = s[6] == '\\' && s[7] == 'u' ? hex4(s + 8) : -1;
        const bool pair = low >= 0xdc00 && low < 0xe000;
        c = pair ? 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00) : 0xfffd;
        used = pair ? 12 : 6;
    } else if (c >= 0xdc00 && c < 0xe000) {
        c = 0xfffd;
    }
    char text[4];
    buf_add(out, text, utf8_encode((uint32_t)c, text));
    return used;
}

void custom_tool_input(const struct buf *args, struct buf *out) {
    static const char name[] = "\"input\"";
    const char *s = args->len ? memmem(args->data, args->len, name, sizeof name - 1) : NULL;
    const char *end = args->data + args->len;
    if (!s) return;
    s = json_skip_ws(s + sizeof name - 1, end);
    if (s < end && *s == ':') s = json_skip_ws(s + 1, end);
    if (s >= end || *s++ != '"') return;
    while (s < end && *s != '"') {
        const size_t n = *s == '\\' ? escape(s, (size_t)(end - s), out) : 1;
        if (!n) return;
        if (*s != '\\') buf_chr(out, *s);
        s += n;
    }
}
