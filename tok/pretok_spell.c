// SPDX-License-Identifier: MIT
/* tok/pretok_spell.c - translation of regexes to PCRE2 from Oniguruma, the engine of the tokenizers
 * library. */
#include <string.h>

#include "base/attr.h"
#include "text/pcre.h"
#include "tok/pretok.h"

#define WHITE "\\t-\\r\\x{85}\\p{Z}"
#if PCRE2_MINOR >= 40
#define ALPHA "\\p{Alphabetic}"
#define SCRIPT "sc:"
#else
#define ALPHA "\\p{L}\\p{M}\\p{Nl}"
#define SCRIPT ""
#endif
#define WORD                                                                                       \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\xb2\\xb3\\xb9\\xbc-\\xbe\\x{24b6}-\\x{24e9}"               \
    "\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}"
#define HEX "0-9a-fA-F"

static const struct named {
    const char *name, *members;
} posix[] = {
    {"[:alpha:]", ALPHA}, {"[:alnum:]", ALPHA "\\p{Nd}"}, {"[:word:]", WORD},
    {"[:space:]", WHITE}, {"[:punct:]", "\\p{P}\\p{S}"},  {"[:xdigit:]", HEX},
};
static const struct escape {
    char c;
    bool inside; /* inside a class */
    const char *text;
} escapes[] = {
    {'s', true, WHITE},
    {'s', false, "[" WHITE "]"},
    {'S', false, "[^" WHITE "]"},
    {'w', true, WORD},
    {'w', false, "[" WORD "]"},
    {'W', false, "[^" WORD "]"},
    {'h', true, HEX},
    {'h', false, "[" HEX "]"},
    {'H', false, "[^" HEX "]"},
    {'b', false, "(?:(?<=[" WORD "])(?![" WORD "])|(?<![" WORD "])(?=[" WORD "]))"},
    {'B', false, "(?:(?<=[" WORD "])(?=[" WORD "])|(?<![" WORD "])(?![" WORD "]))"},
};

enum { MAX_GROUPS = 64 };
struct spell {
    struct buf *out;
    size_t atom; /* start of the last atom in out */
    size_t open[MAX_GROUPS];
    int n_open, depth; /* depth: nesting of classes */
    bool in_class;
};

/* Translates an escape. Returns the number of bytes read. */
static size_t put_escape(struct spell *w, const char *re) {
    static const char han[] = "\\p{Han}";
    for (size_t i = 0; i < COUNT_OF(escapes); i++)
        if (re[1] == escapes[i].c && w->in_class == escapes[i].inside) {
            buf_str(w->out, escapes[i].text);
            return 2;
        }
    if (strncmp(re, han, sizeof han - 1) == 0) {
        buf_str(w->out, "\\p{" SCRIPT "Han}");
        return sizeof han - 1;
    }
    const char *close = re[1] && strchr("pPx", re[1]) && re[2] == '{' ? strchr(re, '}') : NULL;
    size_t n = close ? (size_t)(close + 1 - re) : re[1] ? 2 : 1;
    buf_add(w->out, re, n);
    return n;
}

/* Translates one member of a class. Returns the number of bytes read. */
static size_t put_member(struct spell *w, const char *re) {
    for (size_t i = 0; i < COUNT_OF(posix); i++) {
        size_t n = strlen(posix[i].name);
        if (strncmp(re, posix[i].name, n) != 0) continue;
        buf_str(w->out, posix[i].members);
        return n;
    }
    const char *close = re[0] == '[' && re[1] == ':' ? strstr(re, ":]") : NULL;
    size_t n = close ? (size_t)(close + 2 - re) : 1;
    if (re[0] == '[' && !close && re[1] != '^') { /* nested class: members of the outer one */
        w->depth++;
    } else if (re[0] == ']' && w->depth) {
        w->depth--;
    } else {
        if (re[0] == ']') w->in_class = false;
        buf_add(w->out, re, n);
    }
    return n;
}

/* Translates the n bytes of a character class. */
static void put_members(struct spell *w, const char *re, size_t n) {
    w->in_class = true;
    for (const char *end = re + n; re < end && w->in_class;)
        re += *re == '\\' ? put_escape(w, re) : put_member(w, re);
    w->in_class = false;
}

/* Translates a class difference, [A&&[^B]], to (?:(?![B])[A]). Returns the number of bytes read; 0:
 * not a difference. */
static size_t put_less(struct spell *w, const char *re) {
    const char *less = strstr(re, "&&[^"), *end = strchr(re, ']');
    if (!less || !end || less > end || end[1] != ']') return 0;
    buf_str(w->out, "(?:(?![");
    put_members(w, less + 4, (size_t)(end - less - 4));
    buf_str(w->out, "])[");
    put_members(w, re + 1, (size_t)(less - re - 1));
    buf_str(w->out, "])");
    return (size_t)(end + 2 - re);
}

/* Translates an interval after its atom. Returns the number of bytes read; 0: not an interval. */
static size_t put_interval(struct spell *w, const char *re) {
    size_t low = strspn(re + 1, "0123456789"), n = 1 + low;
    const bool comma = re[n] == ',';
    if (comma) n += 1 + strspn(re + n + 1, "0123456789");
    if (re[n] != '}' || n == 1 + (size_t)comma) return 0;
    const bool group = re[n + 1] == '+' || (re[n + 1] == '?' && !comma);
    struct buf rest = {0};
    buf_add(&rest, w->out->data + w->atom, w->out->len - w->atom);
    w->out->len = w->atom;
    buf_fmt(w->out, "%s%s{%s%.*s}%s", group ? "(?:" : "", rest.data ? rest.data : "",
            low ? "" : "0", (int)n - 1, re + 1, group ? ")" : "");
    buf_release(&rest);
    return n + 1;
}

/* Translates a piece outside classes. Returns the number of bytes read. */
static size_t put_outside(struct spell *w, const char *re) {
    size_t n = *re == '{' && w->out->len > w->atom ? put_interval(w, re) : 0;
    if (n) return n;
    n = 1;
    while (((unsigned char)re[n] & 0xc0) == 0x80) n++; /* a character is one atom */
    if (*re == ')')
        w->atom = w->n_open ? w->open[--w->n_open] : 0;
    else if (!strchr("*+?|^$", *re))
        w->atom = w->out->len;
    if (*re == '(' && w->n_open < MAX_GROUPS) w->open[w->n_open++] = w->out->len;
    buf_add(w->out, re, n);
    return n;
}

void pretok_spell(struct buf *out, const char *re) {
    struct spell w = {.out = out};
    while (*re) {
        if (!w.in_class && (*re == '[' || *re == '\\')) w.atom = out->len;
        size_t n = *re == '[' && !w.in_class ? put_less(&w, re) : 0;
        if (n) {
            re += n;
        } else if (*re == '\\') {
            re += put_escape(&w, re);
        } else if (w.in_class) {
            re += put_member(&w, re);
        } else if (*re == '[') {
            w.in_class = true;
            n = re[1] == '^' ? 2 : 1;
            if (re[n] == ']') n++; /* a leading ] is a member */
            buf_add(out, re, n);
            re += n;
        } else
            re += put_outside(&w, re);
    }
}
