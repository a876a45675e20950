// SPDX-License-Identifier: MIT
/* containers/front.c - see front.h. Stricter than YAML where strangers' readers differ: tabs never
 * indent, and a plain value holds no ": " and starts with no indicator. */
#include "containers/front.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"

enum { MAX_VALUE = 1 << 16 }; /* A value is looked for in so many bytes. */

static int bad(struct err *e, int line, const char *what) {
    return err_set(e, ERR_DATA, "front matter, line %d: %s", line, what);
}

static bool blank(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static void trim(const char **s, size_t *n) {
    while (*n && blank(**s)) (*s)++, (*n)--;
    while (*n && blank((*s)[*n - 1])) (*n)--;
}

/* Returns the bytes of a quoted text from its first quote to its last; 0: it is not closed. */
static size_t quoted(const char *s, size_t n) {
    for (size_t i = 1; i < n; i++) {
        if (*s == '"' && s[i] == '\\')
            i++;
        else if (*s == '\'' && s[i] == '\'' && i + 1 < n && s[i + 1] == '\'')
            i++;
        else if (s[i] == *s)
            return i + 1;
    }
    return 0;
}

/* Folds lines in place and returns the new length: a line break with the blanks around it becomes
 * one blank; where empty lines follow, their breaks stay instead. */
static size_t fold(char *s, size_t n) {
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        if (s[i] != '\n') {
            s[k++] = s[i];
            continue;
        }
        size_t breaks = 0;
        while (k && blank(s[k - 1])) k--;
        for (; i + 1 < n && blank(s[i + 1]); i++) breaks += s[i + 1] == '\n';
        if (!breaks) s[k++] = ' ';
        for (; breaks; breaks--) s[k++] = '\n';
    }
    return k;
}

/* Removes quotes. Inside single ones only '' is special, inside double ones what JSON strings know.
 */
static int unquote(struct front *f, const char *s, size_t n, int line, const char **out,
                   struct err *e) {
    char *copy = arena_strndup(&f->arena, s, n);
    s = copy;
    n = fold(copy, n);
    if (*s == '"') {
        struct json *j;
        struct err ignored;
        if (json_parse(&j, s, n, "text", &ignored)) return bad(e, line, "an unknown escape");
        const char *text = json_str(j);
        *out = arena_strdup(&f->arena, text ? text : "");
        json_free(j);
        return 0;
    }
    char *text = arena_alloc(&f->arena, n);
    size_t k = 0;
    for (size_t i = 1; i + 1 < n; i += s[i] == '\'' ? 2 : 1) text[k++] = s[i];
    text[k] = 0;
    *out = text;
    return 0;
}

/* Adds one scalar without its quotes. */
static int scalar(struct front *f, const char *s, size_t n, int line, const char **out,
                  struct err *e) {
    trim(&s, &n);
    if (n && (*s == '"' || *s == '\'')) {
        size_t len = quoted(s, n);
        if (!len) return bad(e, line, "a quote is not closed");
        if (len < n && !blank(s[len])) return bad(e, line, "text behind a closing quote");
        for (size_t i = len; i < n && s[i] != '#'; i++)
            if (!blank(s[i])) return bad(e, line, "text behind a closing quote");
        return unquote(f, s, len, line, out, e);
    }
    for (size_t i = 0; i + 1 < n; i++) {
        if (s[i] == ' ' && s[i + 1] == '#') {
            n = i;
            break;
        }
        if (s[i] == ':' && s[i + 1] == ' ')
            return bad(e, line, "a value with ': ' must be in quotes");
    }
    trim(&s, &n);
    bool dash = n && strchr("-?", *s) && (n == 1 || s[1] == ' ');
    if (dash || (n && strchr("@`%&*!{}],", *s)))
        return bad(e, line, "a value starts with a character that must be quoted");
    *out = arena_strndup(&f->arena, s, n);
    return 0;
}

static int add_value(struct front *f, const char *s, size_t n, int line, struct err *e) {
    struct front_key *k = &f->key[f->n - 1];
    if (k->n == FRONT_MAX_VALUES) return bad(e, line, "too many values");
    TRY(scalar(f, s, n, line, &k->value[k->n], e));
    k->n++;
    return 0;
}

/* Reads a list such as [a, "b, c"], perhaps with a comment behind it. */
static int flow_list(struct front *f, const char *s, size_t n, int line, struct err *e) {
    size_t from = 1, i = 1;
    while (i < n && s[i] != ']') {
        bool first = i == from || blank(s[i - 1]) || s[i - 1] == ',';
        if (first && s[i] == '#') return bad(e, line, "a comment inside a list");
        if (first && (s[i] == '"' || s[i] == '\'')) {
            size_t len = quoted(s + i, n - i);
            if (!len) return bad(e, line, "a quote is not closed");
            i += len;
        } else if (s[i++] == ',') {
            TRY(add_value(f, s + from, i - 1 - from, line, e));
            from = i;
        }
    }
    if (i >= n) return bad(e, line, "a list is not closed with ']'");
    size_t len = i - from;
    const char *last = s + from, *rest = s + i + 1;
    size_t n_rest = n - i - 1;
    trim(&last, &len);
    trim(&rest, &n_rest);
    if (n_rest && *rest != '#') return bad(e, line, "text behind a list");
    return len ? add_value(f, last, len, line, e) : 0;
}

static int key_line(struct front *f, const char *s, size_t n, int line, struct err *e) {
    size_t k = 0;
    while (k < n && s[k] != ':') k++;
    if (k == n || k == 0 || (k + 1 < n && s[k + 1] != ' '))
        return bad(e, line, "expected \"key: value\"");
    for (size_t i = 0; i < k; i++)
        if (s[i] == ' ' || s[i] == '\t') return bad(e, line, "a key holds no blanks");
    const char *name = s;
    size_t len = k;
    if (len > 1 && (*s == '"' || *s == '\'') && s[len - 1] == *s) name++, len -= 2;
    if (!len || *name == '"' || *name == '\'') return bad(e, line, "a quote is not closed");
    if (f->n == FRONT_MAX_KEYS) return bad(e, line, "too many keys");
    name = arena_strndup(&f->arena, name, len);
    if (front_find(f, name)) return bad(e, line, "the key is there twice");
    f->key[f->n].key = name;
    f->key[f->n++].n = 0;
    s += k + 1, n -= k + 1;
    trim(&s, &n);
    if (!n || *s == '#') return 0;
    if (*s == '[') return flow_list(f, s, n, line, e);
    if (*s == '|' || *s == '>') return 0; /* It begins a block of text, whose lines are indented. */
    if (*s == '{') return memchr(s, '}', n) ? 0 : bad(e, line, "a map is not closed with '}'");
    return add_value(f, s, n, line, e);
}

/* Reads more of the value above: nested keys, text of a block, or words of a plain value. */
static int indented(struct front *f, const char *s, size_t n, int line, bool in_list,
                    struct err *e) {
    if (!f->n) return bad(e, line, "the first key is indented");
    const char *colon = memchr(s, ':', n);
    bool key = colon && (colon + 1 == s + n || colon[1] == ' ');
    return key && f->key[f->n - 1].n && !in_list ? bad(e, line, "a key below a value") : 0;
}

/* Returns true when the line opens a block of text, whose lines are indented. */
static bool opens_block(const char *s, size_t n) {
    trim(&s, &n);
    if (n && s[n - 1] >= '1' && s[n - 1] <= '9') n--;
    if (n && (s[n - 1] == '-' || s[n - 1] == '+')) n--;
    return n > 1 && (s[n - 1] == '|' || s[n - 1] == '>') && blank(s[n - 2]);
}

struct placement { /* A place within the front matter. */
    bool in_list, in_block;
};

static int one_line(struct front *f, const char *s, size_t n, int line, struct placement *p,
                    struct err *e) {
    size_t indent = 0;
    while (indent < n && s[indent] == ' ') indent++;
    if (indent == n || s[indent] == '\r') return 0;
    if (p->in_block && indent) return 0;
    p->in_block = false;
    if (s[indent] == '#') return 0;
    if (s[indent] == '\t') return bad(e, line, "a tab indents; use blanks");
    p->in_block = opens_block(s, n);
    if (s[indent] == '-' && (indent + 1 == n || s[indent + 1] == ' ')) {
        if (!f->n) return bad(e, line, "a list without a key");
        if (f->key[f->n - 1].n && !p->in_list)
            return bad(e, line, "a list behind a key that has a value");
        p->in_list = true;
        /* "- name: x" begins a nested map, which is not read; it is no block of text either. */
        size_t item = indent + 1;
        while (item < n && s[item] == ' ') item++;
        const char *colon = item < n ? memchr(s + item, ':', n - item) : NULL;
        bool quoted = item < n && (s[item] == '"' || s[item] == '\'');
        if (colon && !quoted && (colon + 1 == s + n || blank(colon[1]))) return 0;
        if (p->in_block) return 0;
        return add_value(f, s + indent + 1, n - indent - 1, line, e);
    }
    if (indent) return indented(f, s + indent, n - indent, line, p->in_list, e);
    p->in_list = false;
    return key_line(f, s, n, line, e);
}

/* Returns the bytes of a bracketed value from its '[' or '{' to the closing one; 0: it is not
 * closed. */
static size_t bracketed(const char *s, size_t n) {
    int depth = 0;
    for (size_t i = 0; i < n; i++) {
        bool first = i && (blank(s[i - 1]) || strchr("[{,:", s[i - 1]));
        if (first && (s[i] == '"' || s[i] == '\'')) {
            size_t len = quoted(s + i, n - i);
            if (!len) return 0;
            i += len - 1;
        } else if (s[i] == '[' || s[i] == '{') {
            depth++;
        } else if ((s[i] == ']' || s[i] == '}') && --depth == 0) {
            return i + 1;
        }
    }
    return 0;
}

/* Returns the bytes of all lines of a value, which may go on over several of them in brackets or
 * quotes. The first line has n bytes, the text up to its end max. */
static size_t whole_value(const char *s, size_t n, size_t max) {
    size_t at = 0;
    if (max > MAX_VALUE) max = n > MAX_VALUE ? n : MAX_VALUE;
    while (at < n && s[at] != ':') at++;
    if (at + 1 >= n || *s == ' ' || *s == '#' || *s == '-') return n;
    for (at++; at < n && blank(s[at]);) at++;
    if (at == n) return n;
    size_t len = s[at] == '[' || s[at] == '{'    ? bracketed(s + at, max - at)
                 : s[at] == '"' || s[at] == '\'' ? quoted(s + at, max - at)
                                                 : 0;
    const char *mark = len ? memmem(s + at, len, "\n---", 4) : NULL;
    if (!len || mark || at + len <= n) return n;
    const char *nl = memchr(s + at + len, '\n', max - at - len);
    return nl ? (size_t)(nl - s) : max;
}

/* Reads the text. `lenient` leaves a key with a fault out instead of refusing it. */
static int parse(struct front *f, const char *text, size_t len, bool lenient, struct err *e) {
    struct placement place = {false, false};
    size_t at = 0;
    memset(f, 0, sizeof *f);
    arena_init(&f->arena);
    f->key = xcalloc(FRONT_MAX_KEYS, sizeof *f->key);
    for (int line = 1; at < len; line++) {
        const char *s = text + at, *nl = memchr(s, '\n', len - at);
        size_t n = nl ? (size_t)(nl - s) : len - at;
        bool mark = n >= 3 && memcmp(s, "---", 3) == 0 && (n == 3 || (n == 4 && s[3] == '\r'));
        if (line > 1 && !mark) n = whole_value(s, n, len - at);
        at += n + (at + n < len);
        if (line == 1) {
            if (mark) continue;
            break;
        }
        if (mark) {
            f->end = at;
            return 0;
        }
        int n_keys = f->n, rc = one_line(f, s, n, line, &place, e);
        if (rc && lenient) {
            if (!f->bad_line) f->bad_line = line;
            if (f->n > n_keys) f->key[f->n - 1].n = 0;
        } else if (rc) {
            front_release(f);
            return rc;
        }
        for (const char *c = s; c < s + n; c++) line += *c == '\n';
    }
    front_release(f);
    return err_set(e, ERR_DATA, "no front matter: the first line must be ---, and another end it");
}

int front_parse(struct front *f, const char *text, size_t len, struct err *e) {
    return parse(f, text, len, false, e);
}

bool front_read(struct front *f, const char *text, size_t len) {
    struct err ignored;
    struct buf plain = {0};
    size_t from = len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    for (size_t i = from; i < len; i++)
        buf_add(&plain, text[i] == '\t' ? "  " : text + i, text[i] == '\t' ? 2 : 1);
    bool ok = parse(f, plain.data ? plain.data : "", plain.len, true, &ignored) == 0;
    buf_release(&plain);
    return ok;
}

void front_release(struct front *f) {
    free(f->key);
    arena_release(&f->arena);
    memset(f, 0, sizeof *f);
}

const struct front_key *front_find(const struct front *f, const char *key) {
    for (int i = 0; i < f->n; i++)
        if (strcmp(f->key[i].key, key) == 0) return &f->key[i];
    return NULL;
}

const char *front_value(const struct front *f, const char *key) {
    const struct front_key *k = front_find(f, key);
    return k && k->n ? k->value[0] : "";
}
