// SPDX-License-Identifier: MIT
/* template/jinja_lex.c - the lexer: template source to tokens.
 *
 * The input has normalised newlines. There are two modes: text up to the next opening delimiter,
 * and the inside of a tag. White space control is applied here: trim_blocks and lstrip_blocks are
 * always on, and "-" and "+" at delimiters override them. Closing delimiters are not recognised
 * inside brackets, so {{ {'a': {}} }} works; a string literal may contain any delimiter. */
#include "template/jinja_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct lexer {
    struct jctx *c;
    const char *s;
    size_t n, i;
    struct jtok *tok;
    size_t n_tok, cap;
    bool line_starting; /* at the start of the text, or after a tag that swallowed a newline */
    char stack[256];    /* open brackets */
    int depth;
};

static const struct {
    char text[3];
    enum jtok_kind kind;
} operators[] = {
    {"//", TK_FLOORDIV}, {"**", TK_POW},   {"==", TK_EQ},      {"!=", TK_NE},      {">=", TK_GE},
    {"<=", TK_LE},       {"+", TK_ADD},    {"-", TK_SUB},      {"/", TK_DIV},      {"*", TK_MUL},
    {"%", TK_MOD},       {"~", TK_TILDE},  {"[", TK_LBRACKET}, {"]", TK_RBRACKET}, {"(", TK_LPAREN},
    {")", TK_RPAREN},    {"{", TK_LBRACE}, {"}", TK_RBRACE},   {">", TK_GT},       {"<", TK_LT},
    {"=", TK_ASSIGN},    {".", TK_DOT},    {":", TK_COLON},    {"|", TK_PIPE},     {",", TK_COMMA},
    {";", TK_SEMICOLON},
};

const char *jtok_name(enum jtok_kind k) {
    static const char *const names[TK_KINDS] = {
        [TK_EOF] = "end of template",
        [TK_DATA] = "template data / text",
        [TK_VAR_BEGIN] = "begin of print statement",
        [TK_VAR_END] = "end of print statement",
        [TK_BLOCK_BEGIN] = "begin of statement block",
        [TK_BLOCK_END] = "end of statement block",
        [TK_NAME] = "name",
        [TK_STR] = "string",
        [TK_INT] = "integer",
        [TK_FLOAT] = "float",
    };
    if (names[k]) return names[k];
    for (size_t i = 0; i < COUNT_OF(operators); i++)
        if (operators[i].kind == k) return operators[i].text;
    return "?";
}

/* Appends a token that begins at pos, and returns it. */
static struct jtok *add_token(struct lexer *x, enum jtok_kind kind, size_t pos) {
    if (x->n_tok == x->cap) {
        size_t cap = x->cap ? x->cap * 2 : 256;
        struct jtok *t = jx_alloc(x->c, cap, sizeof *t);
        if (x->n_tok) memcpy(t, x->tok, x->n_tok * sizeof *t);
        x->tok = t;
        x->cap = cap;
    }
    struct jtok *t = &x->tok[x->n_tok++];
    t->kind = kind;
    t->pos = (uint32_t)pos;
    return t;
}

/* Returns the offset of the first character at or after i that is not whitespace. */
static size_t skip_space(const struct lexer *x, size_t i) {
    while (i < x->n) {
        size_t j = i;
        if (!ju_is_space(ju_next(x->s, x->n, &j))) break;
        i = j;
    }
    return i;
}

/* Returns whether the source has the text at position i. */
static bool text_at(const struct lexer *x, size_t i, const char *lit) {
    size_t k = strlen(lit);
    return i + k <= x->n && memcmp(x->s + i, lit, k) == 0;
}

/* Emits text [from, to). sign: whitespace control of the tag that follows ('-', '+' or 0). */
static void add_text(struct lexer *x, size_t from, size_t to, char sign, bool is_var) {
    struct jval v = jv_strn(x->s + from, to - from);
    if (sign == '-') {
        v = ju_strip(x->c, v, jv_missing(), 2);
    } else if (sign != '+' && !is_var) {
        size_t line = v.len;
        while (line > 0 && v.u.s[line - 1] != '\n') line--;
        if (line > 0 || x->line_starting) {
            struct jval rest = jv_strn(v.u.s + line, v.len - line);
            if (rest.len && ju_strip(x->c, rest, jv_missing(), 1).len == 0) v.len = (uint32_t)line;
        }
    }
    if (v.len) add_token(x, TK_DATA, from)->val = v;
}

/* Returns the offset after the end of a statement or comment at i ("-%}", "+%}", "%}"), including
 * white space; 0: it does not end there. */
static size_t block_end(struct lexer *x, size_t i, const char *close) {
    size_t e;
    if (i < x->n && x->s[i] == '-' && text_at(x, i + 1, close)) {
        e = skip_space(x, i + 1 + strlen(close));
    } else if (i < x->n && x->s[i] == '+' && text_at(x, i + 1, close)) {
        e = i + 1 + strlen(close);
    } else if (text_at(x, i, close)) {
        e = i + strlen(close);
        if (e < x->n && x->s[e] == '\n') e++;
    } else {
        return 0;
    }
    x->line_starting = x->s[e - 1] == '\n';
    return e;
}

/* Returns the offset of the raw text after a {% raw %}; 0: not a raw tag. j is the offset after
 * "{%" and its sign. */
static size_t raw_begin(struct lexer *x, size_t j) {
    j = skip_space(x, j);
    if (!text_at(x, j, "raw")) return 0;
    j = skip_space(x, j + 3);
    if (text_at(x, j, "-%}")) return skip_space(x, j + 3);
    if (text_at(x, j, "%}")) return j + 2;
    return 0;
}

/* Reads the content of a raw block, starting at `start`, and its end tag. */
static void lex_raw(struct lexer *x, size_t start) {
    x->line_starting = x->s[start - 1] == '\n';
    for (size_t i = start; i + 1 < x->n; i++) {
        if (!text_at(x, i, "{%")) continue;
        size_t j = i + 2;
        char sign = 0;
        if (j < x->n && (x->s[j] == '-' || x->s[j] == '+')) sign = x->s[j++];
        j = skip_space(x, j);
        if (!text_at(x, j, "endraw")) continue;
        j = skip_space(x, j + 6);
        bool starting = x->line_starting;
        size_t e = block_end(x, j, "%}");
        if (!e) continue;
        bool after = x->line_starting;
        x->line_starting = starting;
        add_text(x, start, i, sign, false);
        x->line_starting = after;
        x->i = e;
        return;
    }
    x->c->pos = (uint32_t)start;
    jx_fail(x->c, "syntax", "Missing end of raw directive");
}

/* Skips a comment whose content begins at `start`. */
static void lex_comment(struct lexer *x, size_t start) {
    for (size_t i = start; i < x->n; i++) {
        size_t e = block_end(x, i, "#}");
        if (e) {
            x->i = e;
            return;
        }
    }
    x->c->pos = (uint32_t)start;
    jx_fail(x->c, "syntax", "Missing end of comment tag");
}

/* Returns the value of a hexadecimal digit; -1 for other characters. */
static int hex_value(char ch) {
    if (ch >= '0' && ch <= '9') return ch - '0';
    if (ch >= 'a' && ch <= 'f') return ch - 'a' + 10;
    if (ch >= 'A' && ch <= 'F') return ch - 'A' + 10;
    return -1;
}

/* The supported names in \N{...}; for other characters, templates can use \u. */
static const struct {
    const char *name;
    uint32_t cp;
} char_names[] = {
    {"SNOWMAN", 0x2603},
    {"BULLET", 0x2022},
    {"EM DASH", 0x2014},
    {"EN DASH", 0x2013},
    {"NO-BREAK SPACE", 0xa0},
    {"ZERO WIDTH SPACE", 0x200b},
    {"HORIZONTAL ELLIPSIS", 0x2026},
    {"LEFT DOUBLE QUOTATION MARK", 0x201c},
    {"RIGHT DOUBLE QUOTATION MARK", 0x201d},
    {"LEFT SINGLE QUOTATION MARK", 0x2018},
    {"RIGHT SINGLE QUOTATION MARK", 0x2019},
    {"LINE FEED", 0x0a},
    {"SPACE", 0x20},
    {"CARRIAGE RETURN", 0x0d},
    {"DEGREE SIGN", 0xb0},
    {"EURO SIGN", 0x20ac},
    {"COPYRIGHT SIGN", 0xa9},
    {"RIGHTWARDS ARROW", 0x2192},
    {"LEFTWARDS ARROW", 0x2190},
    {"CHECK MARK", 0x2713},
    {"BLACK HEART SUIT", 0x2665},
    {"GREEK SMALL LETTER ALPHA", 0x3b1},
    {"LATIN SMALL LETTER E WITH ACUTE", 0xe9},
    {"LOWER ONE EIGHTH BLOCK", 0x2581},
    {"FULLWIDTH VERTICAL LINE", 0xff5c},
    {"GRINNING FACE", 0x1f600},
    {"PILE OF POO", 0x1f4a9},
    {"ZERO WIDTH JOINER", 0x200d},
    {"LINE SEPARATOR", 0x2028},
    {"NULL", 0},
};

/* Reads one escape; i is after the backslash. Returns the offset after the escape. */
static size_t lex_escape(struct lexer *x, size_t i, size_t end) {
    static const char simple[] = "n\nt\tr\ra\ab\bf\fv\v\\\\''\"\"";
    struct jctx *c = x->c;
    char ch = x->s[i];
    for (size_t k = 0; simple[k]; k += 2) {
        if (simple[k] == ch) {
            jx_add(c, &simple[k + 1], 1);
            return i + 1;
        }
    }
    if (ch == '\n') return i + 1;
    if (ch >= '0' && ch <= '7') {
        uint32_t cp = 0;
        size_t k = 0;
        for (; k < 3 && i < end && x->s[i] >= '0' && x->s[i] <= '7'; k++, i++)
            cp = cp * 8 + (uint32_t)(x->s[i] - '0');
        ju_put(c, cp);
        return i;
    }
    if (ch == 'x' || ch == 'u' || ch == 'U') {
        int want = ch == 'x' ? 2 : ch == 'u' ? 4 : 8;
        uint32_t cp = 0;
        for (int k = 0; k < want; k++) {
            int d = i + 1 + (size_t)k < end ? hex_value(x->s[i + 1 + (size_t)k]) : -1;
            if (d < 0) jx_fail(c, "syntax", "truncated \\%c escape in string", ch);
            cp = cp << 4 | (uint32_t)d;
        }
        if (cp > 0x10ffff) jx_fail(c, "syntax", "illegal Unicode character in \\U escape");
        ju_put(c, cp);
        return i + 1 + (size_t)want;
    }
    if (ch == 'N') {
        size_t e = i + 2;
        while (e < end && x->s[e] != '}') e++;
        if (i + 1 >= end || x->s[i + 1] != '{' || e >= end)
            jx_fail(c, "syntax", "malformed \\N character escape");
        for (size_t k = 0; k < COUNT_OF(char_names); k++) {
            if (strlen(char_names[k].name) == e - i - 2 &&
                strncasecmp(char_names[k].name, x->s + i + 2, e - i - 2) == 0) {
                ju_put(c, char_names[k].cp);
                return e + 1;
            }
        }
        jx_fail(c, "syntax", "unknown Unicode character name in \\N{...}; use \\u with its number");
    }
    jx_add(c, "\\", 1);
    if ((unsigned char)ch < 0x80) {
        jx_add(c, &ch, 1);
        return i + 1;
    }
    /* Python first replaces such a character by its escape, then reads escapes. */
    uint32_t cp = ju_next(x->s, end, &i);
    char text[16];
    int n = snprintf(text, sizeof text,
                     cp < 0x100     ? "x%02x"
                     : cp < 0x10000 ? "u%04x"
                                    : "U%08x",
                     (unsigned)cp);
    jx_add(c, text, (size_t)n);
    return i;
}

/* Reads the string literal at x->i, with its escapes decoded. */
static void lex_string(struct lexer *x) {
    size_t start = x->i, i = start + 1;
    char q = x->s[start];
    bool plain = true;
    while (i < x->n && x->s[i] != q) {
        if (x->s[i] == '\\') {
            plain = false;
            i++;
        }
        i++;
    }
    x->c->pos = (uint32_t)start;
    if (i >= x->n) jx_fail(x->c, "syntax", "unexpected char '%c' at %zu", q, start);
    struct jval v;
    if (plain) {
        v = jv_strn(x->s + start + 1, i - start - 1);
    } else {
        size_t m = jx_mark(x->c);
        for (size_t k = start + 1; k < i;) {
            if (x->s[k] == '\\') {
                k = lex_escape(x, k + 1, i);
                continue;
            }
            size_t run = k;
            while (run < i && x->s[run] != '\\') run++;
            jx_add(x->c, x->s + k, run - k);
            k = run;
        }
        v = jx_take(x->c, m);
    }
    add_token(x, TK_STR, start)->val = v;
    x->i = i + 1;
}

/* Scans digits of the base, with single underscores between them. Returns the offset after the
 * last one, or i if no digit is at i. */
static size_t digits(const struct lexer *x, size_t i, int base, bool lead_underscore) {
    size_t e = i, k = i;
    while (k < x->n) {
        size_t d = k;
        if (x->s[d] == '_' && (k > i || lead_underscore)) d++;
        if (d >= x->n || hex_value(x->s[d]) < 0 || hex_value(x->s[d]) >= base) break;
        e = k = d + 1;
    }
    return e;
}

/* Returns the number at [from, to), ignoring underscores. */
static struct jval number_value(struct lexer *x, size_t from, size_t to, int base, bool is_float) {
    char *t = arena_alloc(x->c->a, to - from + 1);
    size_t n = 0;
    for (size_t k = from; k < to; k++)
        if (x->s[k] != '_') t[n++] = x->s[k];
    if (is_float) return jv_float(strtod(t, NULL));
    return jbig_parse(x->c, t, n, base, false);
}

/* Reads the number at x->i. */
static void lex_number(struct lexer *x) {
    size_t i = x->i, e;
    if (x->s[i] == '0' && i + 1 < x->n) {
        char b = (char)(x->s[i + 1] | 32);
        int base = b == 'x' ? 16 : b == 'o' ? 8 : b == 'b' ? 2 : 0;
        if (base && (e = digits(x, i + 2, base, true)) > i + 2) {
            add_token(x, TK_INT, i)->val = number_value(x, i + 2, e, base, false);
            x->i = e;
            return;
        }
    }
    e = digits(x, i, 10, false);
    size_t f = e;
    bool is_float = false;
    if (i == 0 || x->s[i - 1] != '.') { /* l.0.1 is two subscripts, not a number */
        if (f + 1 < x->n && x->s[f] == '.' && digits(x, f + 1, 10, false) > f + 1) {
            f = digits(x, f + 1, 10, false);
            is_float = true;
        }
        if (f < x->n && (x->s[f] | 32) == 'e') {
            size_t g = f + 1;
            if (g < x->n && (x->s[g] == '+' || x->s[g] == '-')) g++;
            size_t h = digits(x, g, 10, false);
            if (h > g) {
                f = h;
                is_float = true;
            }
        }
    }
    if (is_float) {
        add_token(x, TK_FLOAT, i)->val = number_value(x, i, f, 10, true);
        x->i = f;
        return;
    }
    /* A number that begins with 0 consists only of zeros: the 7 of 007 is a separate token and an
     * error. */
    if (x->s[i] == '0') {
        e = i + 1;
        while (e < x->n &&
               (x->s[e] == '0' || (x->s[e] == '_' && e + 1 < x->n && x->s[e + 1] == '0')))
            e++;
    }
    add_token(x, TK_INT, i)->val = number_value(x, i, e, 10, false);
    x->i = e;
}

/* Returns whether a code point may be part of a name. */
static bool is_word(uint32_t cp) {
    return cp == '_' || (cp >= '0' && cp <= '9') || (cp >= 'a' && cp <= 'z') ||
           (cp >= 'A' && cp <= 'Z') || (cp >= 0x80 && ju_printable(cp) && !ju_is_space(cp));
}

/* Checks that brackets match; fails, without returning, if ch does not. */
static void match_bracket(struct lexer *x, char ch) {
    if (ch == '(' || ch == '[' || ch == '{') {
        if (x->depth == (int)sizeof x->stack)
            jx_fail(x->c, "syntax", "brackets are nested too deeply");
        x->stack[x->depth++] = ch == '(' ? ')' : ch == '[' ? ']' : '}';
    } else if (ch == ')' || ch == ']' || ch == '}') {
        if (x->depth == 0) jx_fail(x->c, "syntax", "unexpected '%c'", ch);
        char want = x->stack[--x->depth];
        if (want != ch) jx_fail(x->c, "syntax", "unexpected '%c', expected '%c'", ch, want);
    }
}

/* Emits the tokens of a tag, up to and including the closing delimiter. */
static void lex_tag(struct lexer *x, bool is_var) {
    const char *close = is_var ? "}}" : "%}";
    x->depth = 0;
    for (;;) {
        x->tok[x->n_tok - 1].end = (uint32_t)x->i;
        x->i = skip_space(x, x->i);
        if (x->i >= x->n) return; /* The parser reports the missing end. */
        x->c->pos = (uint32_t)x->i;
        if (x->depth == 0) {
            size_t e = 0;
            if (!is_var) {
                e = block_end(x, x->i, close);
            } else if (text_at(x, x->i, "-}}")) {
                e = skip_space(x, x->i + 3);
            } else if (text_at(x, x->i, close)) {
                e = x->i + 2;
            }
            if (e) {
                add_token(x, is_var ? TK_VAR_END : TK_BLOCK_END, x->i);
                if (is_var) x->line_starting = x->s[e - 1] == '\n';
                x->i = e;
                return;
            }
        }
        char ch = x->s[x->i];
        size_t e = x->i;
        if (ch >= '0' && ch <= '9') {
            lex_number(x);
            continue;
        }
        while (e < x->n) {
            size_t k = e;
            if (!is_word(ju_next(x->s, x->n, &k))) break;
            e = k;
        }
        if (e > x->i) {
            add_token(x, TK_NAME, x->i)->val = jv_strn(x->s + x->i, e - x->i);
            x->i = e;
            continue;
        }
        if (ch == '"' || ch == '\'') {
            lex_string(x);
            continue;
        }
        size_t k = 0;
        while (k < COUNT_OF(operators) && !text_at(x, x->i, operators[k].text)) k++;
        if (k < COUNT_OF(operators)) {
            match_bracket(x, ch);
            add_token(x, operators[k].kind, x->i);
            x->i += strlen(operators[k].text);
        } else {
            jx_fail(x->c, "syntax", "unexpected char '%c' at %zu", ch, x->i);
        }
    }
}

struct jtok *jlex(struct jctx *c, const char *src, size_t len, size_t *n_out) {
    struct lexer x = {.c = c, .s = src, .n = len, .line_starting = true};
    size_t start = 0;
    while (x.i + 1 < len) {
        const char *brace = memchr(src + x.i, '{', len - x.i - 1);
        if (!brace) break;
        x.i = (size_t)(brace - src);
        char kind = src[x.i + 1];
        if (kind != '{' && kind != '%' && kind != '#') {
            x.i++;
            continue;
        }
        size_t tag = x.i, j = tag + 2;
        char sign = 0;
        if (j < len && (src[j] == '-' || src[j] == '+')) sign = src[j++];
        add_text(&x, start, tag, sign, kind == '{');
        x.line_starting = false;
        size_t raw = kind == '%' ? raw_begin(&x, j) : 0;
        x.i = j;
        if (raw) {
            lex_raw(&x, raw);
        } else if (kind == '#') {
            lex_comment(&x, j);
        } else {
            add_token(&x, kind == '{' ? TK_VAR_BEGIN : TK_BLOCK_BEGIN, tag);
            lex_tag(&x, kind == '{');
        }
        start = x.i;
    }
    if (start < len) add_token(&x, TK_DATA, start)->val = jv_strn(src + start, len - start);
    add_token(&x, TK_EOF, len);
    *n_out = x.n_tok;
    return x.tok;
}
