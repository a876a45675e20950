// SPDX-License-Identifier: MIT
/* tok/pretok_spell.c - translation of regexes to PCRE2 from Oniguruma, the engine of the tokenizers
 * library.
 *
 * A class is read as an intersection of sets, and a set as the union of a positive class with
 * complements of classes, which PCRE2 cannot nest: [a\W&&[^b]] becomes (?:(?=[^b])(?>[a]|[^\w])).
 */
#include <string.h>

#include "base/attr.h"
#include "text/pcre.h"
#include "tok/pretok.h"

#define WHITE "\\t-\\r\\x{85}\\p{Z}"
#if PCRE2_MINOR >= 40
#define ALPHA "\\p{Alphabetic}"
#define UPPER "\\p{Uppercase}"
#define LOWER "\\p{Lowercase}"
#else
#define ALPHA "\\p{L}\\p{M}\\p{Nl}"
#define UPPER "\\p{Lu}"
#define LOWER "\\p{Ll}"
#endif
#define WORD_IN_CLASS                                                                              \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24b6}-\\x{24e9}"                                         \
    "\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}"
#define WORD "\\xb2\\xb3\\xb9\\xbc-\\xbe" WORD_IN_CLASS
#define HEX "0-9a-fA-F"
#define GRAPH "\\p{L}\\p{M}\\p{N}\\p{P}\\p{S}\\p{Cf}\\p{Co}"

static const struct named {
    const char *name, *members;
} posix[] = {
    {"alpha", ALPHA}, {"alnum", ALPHA "\\p{Nd}"}, {"word", WORD_IN_CLASS},
    {"space", WHITE}, {"blank", "\\t\\p{Zs}"},    {"punct", "\\p{P}\\p{S}"},
    {"xdigit", HEX},  {"digit", "\\p{Nd}"},       {"cntrl", "\\p{Cc}"},
    {"upper", UPPER}, {"lower", LOWER},           {"ascii", "\\x00-\\x7f"},
    {"graph", GRAPH}, {"print", GRAPH "\\p{Zs}"},
};
/* Escapes with other meanings. In a class, `not` is set instead for a complement. */
static const struct escape {
    char c;
    const char *outside, *inside, *not ;
} escapes[] = {
    {'s', "[" WHITE "]", WHITE, NULL},
    {'S', "[^" WHITE "]", NULL, WHITE},
    {'w', "[" WORD "]", WORD_IN_CLASS, NULL},
    {'W', "[^" WORD "]", NULL, WORD_IN_CLASS},
    {'h', "[" HEX "]", HEX, NULL},
    {'H', "[^" HEX "]", NULL, HEX},
    {'v', "\\x0b", "\\x0b", NULL},
    {'b', "(?:(?<=[" WORD "])(?![" WORD "])|(?<![" WORD "])(?=[" WORD "]))", "\\x08", NULL},
    {'B', "(?:(?<=[" WORD "])(?=[" WORD "])|(?<![" WORD "])(?![" WORD "]))", NULL, NULL},
};
/* Letters and digits after a backslash that both engines understand alike. */
static const char alike[] = "tnrfaedDxpPAzZGKRNkg0123456789";
static const char alike_in_class[] = "tnrfaedDxpP01234567";

enum { MAX_GROUPS = 64, MAX_NOT = 4, MAX_SETS = 4, MAX_NESTED = 8 };
struct set { /* union of a positive class and of complements */
    struct buf yes, no[MAX_NOT];
    int n_no;
};
struct spell {
    struct buf *out;
    const char *why; /* why the regex cannot be translated; NULL: it can */
    size_t atom;     /* start of the last atom in out */
    size_t open[MAX_GROUPS];
    int n_open;
};

/* Records a reason and returns the length of the rest, to end the translation. */
static size_t refuse(struct spell *w, const char *re, const char *why) {
    if (!w->why) w->why = why;
    return strlen(re);
}

/* ---- escapes --------------------------------------------------------------------------------- */

/* Returns whether a property is a script. PCRE2 then needs "sc:", or it adds the characters that
 * several scripts share. */
static bool is_script(const char *name, size_t n) {
#if PCRE2_MINOR >= 40
    struct buf re = {0};
    int code;
    PCRE2_SIZE off;
    if (n == 1 || (n == 2 && strchr("CLMNPSZ", *name))) return false; /* a category */
    buf_fmt(&re, "\\p{sc:%.*s}", (int)n, name);
    pcre2_code *c = pcre2_compile((PCRE2_SPTR)re.data, re.len, PCRE2_UTF, &code, &off, NULL);
    buf_release(&re);
    if (c) pcre2_code_free(c);
    return c != NULL;
#else
    (void)name, (void)n;
    return false;
#endif
}

/* Appends \p{...} or \P{...}. Returns the number of bytes read. */
static size_t put_property(struct spell *w, struct buf *out, const char *re) {
    const char *close = re[2] == '{' ? strchr(re, '}') : NULL;
    if (!close) return refuse(w, re, "has \\p without braces");
    const size_t inverse = re[3] == '^', n = (size_t)(close - re) - 3 - inverse;
    const bool script = is_script(re + 3 + inverse, n);
    buf_fmt(out, "\\%c{%s%s%.*s}", re[1], inverse ? "^" : "", script ? "sc:" : "", (int)n,
            re + 3 + inverse);
    return (size_t)(close + 1 - re);
}

/* Appends an escape that both engines understand alike. Returns the number of bytes read. */
static size_t put_alike(struct spell *w, struct buf *out, const char *re, const char *known) {
    static const char hex[] = "0123456789abcdefABCDEF";
    const char c = re[1];
    if (c == 'p' || c == 'P') return put_property(w, out, re);
    if (c == 'u' && strspn(re + 2, hex) >= 4) {
        buf_fmt(out, "\\x{%.4s}", re + 2);
        return 6;
    }
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!c || (letter && !strchr(known, c)))
        return refuse(w, re, "has an escape that PCRE2 reads differently");
    const char *close = c == 'x' && re[2] == '{' ? strchr(re, '}') : NULL;
    const size_t n = close ? (size_t)(close + 1 - re) : 2;
    buf_add(out, re, n);
    return n;
}

static const struct escape *find_escape(char c) {
    for (size_t i = 0; i < COUNT_OF(escapes); i++)
        if (escapes[i].c == c) return &escapes[i];
    return NULL;
}

/* ---- classes --------------------------------------------------------------------------------- */

/* Adds the complement of a class to the set. */
static void add_not(struct spell *w, struct set *s, const char *members) {
    if (s->n_no == MAX_NOT)
        refuse(w, "", "has a class of too many parts");
    else
        buf_str(&s->no[s->n_no++], members);
}

/* Reads an escape in a class. Returns the number of bytes read. */
static size_t read_escape(struct spell *w, struct set *s, const char *re) {
    const struct escape *x = find_escape(re[1]);
    if (!x) return put_alike(w, &s->yes, re, alike_in_class);
    if (!x->inside && !x->not ) return refuse(w, re, "has \\B in a class");
    if (x->not )
        add_not(w, s, x->not );
    else
        buf_str(&s->yes, x->inside);
    return 2;
}

/* Reads [:name:] or [:^name:]. Returns the number of bytes read. */
static size_t read_posix(struct spell *w, struct set *s, const char *re) {
    const size_t inverse = re[2] == '^';
    for (size_t i = 0; i < COUNT_OF(posix); i++) {
        const size_t n = strlen(posix[i].name);
        const char *name = re + 2 + inverse;
        if (strncmp(name, posix[i].name, n) != 0 || name[n] != ':' || name[n + 1] != ']') continue;
        if (inverse)
            add_not(w, s, posix[i].members);
        else
            buf_str(&s->yes, posix[i].members);
        return n + 4 + inverse;
    }
    return refuse(w, re, "has an unknown class in brackets");
}

static size_t read_set(struct spell *w, struct set *s, const char *re, int depth);

/* Reads a class in a class, whose members are added. Returns the number of bytes read. */
static size_t read_nested(struct spell *w, struct set *s, const char *re, int depth) {
    struct set inner = {0};
    const size_t inverse = re[1] == '^';
    size_t n = 1 + inverse;
    if (depth >= MAX_NESTED) return refuse(w, re, "nests classes too deeply");
    n += read_set(w, inverse ? &inner : s, re + n, depth + 1);
    if (re[n] == '&') n += refuse(w, re + n, "intersects classes in a class");
    if (inverse && inner.n_no) n += refuse(w, re + n, "negates a class of complements");
    if (inverse) add_not(w, s, inner.yes.data ? inner.yes.data : "");
    for (int i = 0; i < inner.n_no; i++) buf_release(&inner.no[i]);
    buf_release(&inner.yes);
    return re[n] ? n + 1 : n;
}

/* Reads members up to the closing bracket or &&. Returns the number of bytes read. */
static size_t read_set(struct spell *w, struct set *s, const char *re, int depth) {
    size_t n = 0;
    bool whole = true; /* a hyphen here is no range */
    if (*re == ']') {  /* a leading ] is a member */
        buf_str(&s->yes, "\\]");
        n++;
    }
    while (re[n] && re[n] != ']' && strncmp(re + n, "&&", 2) != 0 && !w->why) {
        const char *at = re + n;
        const struct escape *x = *at == '\\' ? find_escape(at[1]) : NULL;
        const bool part = *at == '[' || (x && x->c != 'v' && x->c != 'b');
        if (part && !whole && n > 1 && re[n - 1] == '-' && re[n - 2] != '\\')
            n += refuse(w, at, "has a range that ends with a class");
        else if (*at == '[')
            n += at[1] == ':' ? read_posix(w, s, at) : read_nested(w, s, at, depth);
        else if (*at == '\\')
            n += read_escape(w, s, at);
        else if (*at == '-' && whole)
            buf_str(&s->yes, "\\-"), n++;
        else
            buf_chr(&s->yes, re[n++]);
        whole = part;
    }
    return n;
}

/* Appends a set as a regex for one character. */
static void put_set(struct spell *w, struct buf *out, const struct set *s, bool inverse) {
    const char *yes = s->yes.data ? s->yes.data : "";
    const int n = s->n_no;
    if (!*yes && !n) refuse(w, "", "has an empty class");
    const bool group = n + (*yes != 0) > 1;
    if (group) buf_str(out, "(?>"); /* one character: nothing to try again */
    if (*yes && inverse && n) buf_fmt(out, "(?![%s])", yes);
    if (*yes && !(inverse && n)) buf_fmt(out, "[%s%s]", inverse ? "^" : "", yes);
    for (int i = 0; i < n; i++) {
        const bool last = i == n - 1;
        if (inverse)
            buf_fmt(out, last ? "[%s]" : "(?=[%s])", s->no[i].data);
        else
            buf_fmt(out, "%s[^%s]", i || *yes ? "|" : "", s->no[i].data);
    }
    if (group) buf_str(out, ")");
}

/* Translates a class. Returns the number of bytes read. */
static size_t put_class(struct spell *w, const char *re) {
    struct set sets[MAX_SETS] = {0};
    const bool inverse = re[1] == '^';
    size_t n = 1 + inverse;
    int n_sets = 0;
    do {
        n += n_sets ? 2 : 0;
        n += read_set(w, &sets[n_sets++], re + n, 0);
    } while (re[n] == '&' && n_sets < MAX_SETS && !w->why);
    if (re[n] != ']') n += refuse(w, re + n, "has a class without an end, or of too many parts");
    if (n_sets > 1) buf_str(w->out, inverse ? "(?:(?!" : "(?:");
    for (int i = 1; i < n_sets; i++) {
        buf_str(w->out, "(?=");
        put_set(w, w->out, &sets[i], false);
        buf_str(w->out, ")");
    }
    put_set(w, w->out, &sets[0], inverse && n_sets == 1);
    if (n_sets > 1) buf_str(w->out, inverse ? ")(?s:.))" : ")");
    for (int i = 0; i < n_sets; i++) {
        for (int k = 0; k < sets[i].n_no; k++) buf_release(&sets[i].no[k]);
        buf_release(&sets[i].yes);
    }
    return re[n] ? n + 1 : n;
}

/* ---- outside classes ------------------------------------------------------------------------- */

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

/* Translates the options of (?imx-imx: or (?imx-imx). Oniguruma's m is PCRE2's s. Without a colon,
 * Oniguruma applies them to the rest of the group including its alternatives, which is the same
 * only at the group's start. Returns the number of bytes read after the parenthesis; 0: none. */
static size_t put_options(struct spell *w, const char *re, bool start) {
    const size_t n = 1 + strspn(re + 1, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-");
    if (n == 1 || (re[n] != ':' && re[n] != ')')) return 0;
    if (strspn(re + 1, "imx-") < n - 1) return refuse(w, re, "has options that PCRE2 lacks");
    if (re[n] == ')' && !start) return refuse(w, re, "has options in the middle");
    for (size_t i = 0; i < n; i++) buf_chr(w->out, re[i] == 'm' ? 's' : re[i]);
    return n;
}

/* Translates a piece outside classes. Returns the number of bytes read. */
static size_t put_outside(struct spell *w, const char *re, bool start) {
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
    return *re == '(' && re[1] == '?' ? n + put_options(w, re + 1, start) : n;
}

/* Returns whether `at` is at the start of the regex or of a group. */
static bool begins_group(const char *re, const char *at) {
    if (at - re > 2 && strncmp(at - 3, "(?:", 3) == 0) at -= 2;
    return at == re || (at[-1] == '(' && (at - re < 2 || at[-2] != '\\'));
}

const char *pretok_spell(struct buf *out, const char *re) {
    struct spell w = {.out = out};
    for (const char *at = re; *at && !w.why;) {
        const bool start = begins_group(re, at);
        const struct escape *x = *at == '\\' ? find_escape(at[1]) : NULL;
        if (*at == '[' || *at == '\\') w.atom = out->len;
        if (*at == '[') {
            at += put_class(&w, at);
        } else if (x) {
            buf_str(out, x->outside);
            at += 2;
        } else if (*at == '\\') {
            at += put_alike(&w, out, at, alike);
        } else {
            at += put_outside(&w, at, start);
        }
    }
    return w.why;
}
