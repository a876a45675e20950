// SPDX-License-Identifier: MIT
/* grammar/lark.c - parser of a subset of Lark: rules, terminals and ignored text. Templates,
 * declarations and all but a dozen imports are rejected. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/printable.h"
#include "grammar/bnf.h"

enum { NEST_MAX = 200, COUNT_MAX = 100000, IGNORED_MAX = 32 };

static const struct {
    const char *name, *regex;
} common[] = {
    {"DIGIT", "[0-9]"},
    {"HEXDIGIT", "[0-9a-fA-F]"},
    {"INT", "[0-9]+"},
    {"SIGNED_INT", "[+-]?[0-9]+"},
    {"DECIMAL", "[0-9]+\\.[0-9]*|\\.[0-9]+"},
    {"FLOAT", "[0-9]+[eE][+-]?[0-9]+|([0-9]+\\.[0-9]*|\\.[0-9]+)([eE][+-]?[0-9]+)?"},
    {"NUMBER", "[0-9]+([eE][+-]?[0-9]+)?|([0-9]+\\.[0-9]*|\\.[0-9]+)([eE][+-]?[0-9]+)?"},
    {"SIGNED_NUMBER",
     "[+-]?([0-9]+([eE][+-]?[0-9]+)?|([0-9]+\\.[0-9]*|\\.[0-9]+)([eE][+-]?[0-9]+)?)"},
    {"ESCAPED_STRING", "\"([^\"\\\\\\n]|\\\\.)*\""},
    {"LCASE_LETTER", "[a-z]"},
    {"UCASE_LETTER", "[A-Z]"},
    {"LETTER", "[a-zA-Z]"},
    {"WORD", "[a-zA-Z]+"},
    {"CNAME", "[a-zA-Z_][a-zA-Z0-9_]*"},
    {"WS_INLINE", "[ \\t]+"},
    {"WS", "[ \\t\\f\\r\\n]+"},
    {"NEWLINE", "(\\r?\\n)+"},
    {"LF", "\\n"},
    {"CR", "\\r"},
};

/* Compiles a regex of n bytes with the options `how`. */
static gnode regex_node(struct bnf *b, const char *s, size_t n, const struct gregex *how) {
    gnode out = G_NONE;
    struct gregex o = *how;
    struct err e;
    o.escaped = b->escaped;
    if (gn_regex(b->g, s, n, &o, &out, &e)) return bnf_fail(b, "%s", e.msg);
    return out;
}

/* Skips spaces and comments, and with `lines` also newlines. */
static void space(struct bnf *b, bool lines) {
    while (b->i < b->end) {
        const char c = b->s[b->i];
        if (c == '#' || (c == '/' && bnf_peek(b, 1) == '/'))
            while (b->i < b->end && b->s[b->i] != '\n') b->i++;
        else if (c == ' ' || c == '\t' || c == '\r' || (lines && c == '\n'))
            b->i++;
        else
            break;
    }
}

/* Parses the JSON Schema after "%json" and returns its language. */
static gnode inline_json(struct bnf *b) {
    struct json *schema = NULL;
    struct err e;
    gnode out = G_NONE;
    bool text = false;
    int depth = 0;
    space(b, true);
    if (b->escaped) return bnf_fail(b, "%%json cannot occur inside a JSON string");
    const size_t from = b->i;
    while (bnf_more(b)) {
        const char c = b->s[b->i++];
        if (text && c == '\\')
            b->i++;
        else if (c == '"')
            text = !text;
        else if (!text && c == '{')
            depth++;
        else if (!text && c == '}' && --depth == 0)
            break;
    }
    const size_t to = b->i < b->end ? b->i : b->end;
    if (json_parse(&schema, b->s + from, to - from, "%json", &e) ||
        gn_schema(b->g, schema, schema, NULL, NULL, &out, &e))
        bnf_fail(b, "%s", e.msg);
    json_free(schema);
    return out;
}

/* Returns the language of the text s of n bytes, with JSON escapes if b->escaped. */
static gnode text_as_is(struct bnf *b, const char *s, size_t n) {
    return b->escaped ? gn_escaped(b->g, s, n) : gn_text(b->g, s, n);
}

/* Parses a string after its opening quotation mark, and an "i" suffix (ignore case) or the rest of
 * a character range. Returns its language. */
static gnode quoted(struct bnf *b) {
    struct buf t = {0}, u = {0};
    gnode out = G_NONE;
    bnf_quoted(b, &t);
    if (!b->rc && bnf_take(b, "..\"")) {
        struct buf re = {0};
        bnf_quoted(b, &u);
        buf_fmt(&re, "[\\u{%x}-\\u{%x}]", (unsigned)(uint8_t)t.data[0],
                u.len ? (unsigned)(uint8_t)u.data[0] : 0);
        const bool one = t.len == 1 && u.len == 1;
        out = one ? regex_node(b, re.data, re.len, &(struct gregex){0})
                  : bnf_fail(b, "a range needs two single characters");
        buf_release(&re);
        buf_release(&u);
    } else if (!b->rc && bnf_take(b, "i")) {
        out = G_EPS;
        for (size_t i = t.len; i-- > 0;) {
            const uint8_t c = (uint8_t)t.data[i];
            gnode x = text_as_is(b, &t.data[i], 1);
            if ((c | 0x20) >= 'a' && (c | 0x20) <= 'z')
                x = gn_alt(b->g, x, gn_bytes(b->g, c ^ 0x20, c ^ 0x20));
            out = gn_cat(b->g, x, out);
        }
    } else {
        out = text_as_is(b, t.data, t.len);
    }
    buf_release(&t);
    return out;
}

/* Parses a regular expression after its opening '/', including its flags, and returns its
 * language. */
static gnode slashed(struct bnf *b) {
    struct gregex o = {0};
    const size_t from = b->i;
    bool set = false;
    while (bnf_more(b) && bnf_peek(b, 0) != '\n') {
        const char c = bnf_peek(b, 0);
        if (c == '/' && !set) break;
        if (c == '[') set = true;
        if (c == ']') set = false;
        b->i += c == '\\' ? 2 : 1;
    }
    const size_t to = b->i < b->end ? b->i : b->end;
    if (!bnf_take(b, "/")) return bnf_fail(b, "a regular expression lacks its closing '/'");
    for (char c = bnf_peek(b, 0); c >= 'a' && c <= 'z'; c = bnf_peek(b, 0)) {
        if (c == 'i')
            o.any_case = true;
        else if (c == 's')
            o.dot_all = true;
        else if (c != 'u')
            return bnf_fail(b, "the flag '%c' is not supported", c);
        b->i++;
    }
    return regex_node(b, b->s + from, to - from, &o);
}

/* Parses the content of a group and its closing text; nesting is limited. */
static gnode parse_group(struct bnf *b, const char *close) {
    if (b->nest >= NEST_MAX) return bnf_fail(b, "nested more than 200 deep");
    b->nest++;
    const gnode out = b->body(b);
    b->nest--;
    space(b, true);
    return bnf_take(b, close) ? out : bnf_fail(b, "'%s' is missing", close);
}

/* Parses one item of a rule's body and returns its language. Sets *lexeme to whether ignored text
 * may follow it. */
static gnode item(struct bnf *b, bool *lexeme) {
    *lexeme = !b->term;
    if (bnf_take(b, "\"")) return quoted(b);
    if (bnf_take(b, "/")) return slashed(b);
    if (bnf_take(b, "<")) return bnf_token(b);
    if (bnf_take(b, "%json")) return inline_json(b);
    if (bnf_take(b, "(") || bnf_take(b, "[")) {
        const bool optional = b->s[b->i - 1] == '[';
        *lexeme = false;
        const gnode in = parse_group(b, optional ? "]" : ")");
        return optional ? gn_opt(b->g, in) : in;
    }
    const size_t from = b->i;
    while (bnf_is_name(bnf_peek(b, 0)) && bnf_peek(b, 0) != '-') b->i++;
    if (b->i == from) return bnf_fail(b, "unexpected '%c'", bnf_peek(b, 0));
    if (bnf_peek(b, 0) == '{') return bnf_fail(b, "templates are not supported");
    const struct bnf_rule *r = bnf_find(b, b->s + from, b->i - from);
    *lexeme = !b->term && r && r->term;
    return bnf_ref(b, b->s + from, b->i - from);
}

/* Parses the repetition after x: *, +, ? or ~counts. */
static gnode parse_times(struct bnf *b, gnode x) {
    uint32_t lo = 0, hi = GRAM_INF;
    const size_t from = b->i;
    space(b, false);
    if (bnf_take(b, "+")) {
        lo = 1;
    } else if (bnf_take(b, "?")) {
        hi = 1;
    } else if (bnf_take(b, "~")) {
        space(b, false);
        lo = hi = bnf_number(b);
        const size_t behind = b->i;
        space(b, false);
        if (bnf_take(b, "..")) {
            space(b, false);
            hi = bnf_number(b);
        } else {
            b->i = behind;
        }
        if (hi < lo || hi > COUNT_MAX)
            return bnf_fail(b, "a count must be ~m or ~m..n, up to 100000");
    } else if (!bnf_take(b, "*")) {
        b->i = from;
        return x;
    }
    return gn_rep(b->g, x, lo, hi);
}

/* Parses alternatives up to a closing text or the end of the rule. */
static gnode lark_body(struct bnf *b) {
    gnode *v = NULL, *part = NULL;
    size_t n = 0, n_part = 0;
    for (;;) {
        space(b, b->nest > 0);
        const char c = bnf_peek(b, 0);
        if (bnf_take(b, "->")) {
            space(b, false);
            while (bnf_is_name(bnf_peek(b, 0))) b->i++;
            continue;
        }
        if (bnf_more(b) && c != '|' && c != ')' && c != ']' && c != '\n') {
            bool lexeme = false;
            gnode x = item(b, &lexeme);
            if (lexeme && b->ignore) x = gn_cat(b->g, x, b->ignore);
            bnf_then(&part, &n_part, parse_times(b, x));
            continue;
        }
        space(b, true); /* the rule may continue on the next line */
        bnf_then(&v, &n, gn_cats(b->g, part, n_part));
        n_part = 0;
        if (!bnf_take(b, "|")) break;
    }
    const gnode out = b->rc ? (gnode)G_NONE : gn_alts(b->g, v, n);
    free(v);
    free(part);
    return out;
}

/* ---- statements ---- */

/* Returns the offset of the end of the line. */
static size_t line_end(const struct bnf *b, size_t i) {
    while (i < b->n && b->s[i] != '\n') i++;
    return i;
}

/* Parses the rest of "%import common.NAME" or "%import common (A, B)" and adds the terminals;
 * "common.NAME -> OTHER" renames one to OTHER. */
static size_t import_name(struct bnf *b, size_t end) {
    const size_t from = b->i;
    while (b->i < end && bnf_is_name(b->s[b->i]) && b->s[b->i] != '-') b->i++;
    return b->i - from;
}

/* Parses an %import of common terminals. */
static void parse_import(struct bnf *b) {
    space(b, false);
    if (!bnf_take(b, "common")) {
        bnf_fail(b, "only names of `common` can be imported");
        return;
    }
    const size_t end = line_end(b, b->i);
    while (b->i < end && !b->rc) {
        size_t from = b->i, n = import_name(b, end);
        if (n == 0) {
            b->i++;
            continue;
        }
        size_t k = 0;
        while (k < COUNT_OF(common) &&
               (strlen(common[k].name) != n || memcmp(common[k].name, b->s + from, n) != 0))
            k++;
        if (k == COUNT_OF(common)) {
            bnf_fail(b, "unknown name common.%s", show_n(b->s + from, n).s);
            return;
        }
        space(b, false);
        if (bnf_take(b, "->")) {
            space(b, false);
            from = b->i;
            n = import_name(b, end);
        }
        bnf_add(b, b->s + from, n, from, true);
        if (b->rc) return;
        struct bnf_rule *r = &b->rule[b->n_rule - 1];
        r->node = regex_node(b, common[k].regex, strlen(common[k].regex), &(struct gregex){0});
        r->state = 2;
        r->to = r->from;
    }
}

struct ignored { /* bodies of %ignore statements */
    size_t from[16], to[16];
    int n;
};

/* Returns whether a statement begins at k: a rule or a % keyword. */
static bool begins_one(const struct bnf *b, size_t k) {
    static const char *const words[] = {"%import", "%ignore",   "%declare",
                                        "%extend", "%override", "%llguidance"};
    for (size_t i = 0; i < COUNT_OF(words); i++)
        if (b->n - k >= strlen(words[i]) && memcmp(b->s + k, words[i], strlen(words[i])) == 0)
            return true;
    while (k < b->n && strchr("?!", b->s[k]) && b->s[k]) k++;
    const size_t name = k;
    while (k < b->n && bnf_is_name(b->s[k]) && b->s[k] != '-') k++;
    if (k == name) return false;
    while (k < b->n && b->s[k] && strchr(" \t.-0123456789", b->s[k])) k++; /* a priority */
    return k < b->n && (b->s[k] == ':' || b->s[k] == '{');
}

/* Returns whether a line continues the statement above it: it starts with '|', a bracket or a
 * comment, or is indented and does not begin a statement. k: its first non-blank. */
static bool goes_on(const struct bnf *b, size_t k) {
    if (k >= b->n) return false;
    const bool remark = b->s[k] == '#' || (b->s[k] == '/' && k + 1 < b->n && b->s[k + 1] == '/');
    if (remark || strchr("|)]", b->s[k])) return true;
    return k > 0 && (b->s[k - 1] == ' ' || b->s[k - 1] == '\t') && !begins_one(b, k);
}

/* Parses a statement at the start of a line. Bodies of %ignore are added to ig and parsed later. */
static void statement(struct bnf *b, struct ignored *ig) {
    if (bnf_take(b, "%import")) {
        parse_import(b);
    } else if (bnf_take(b, "%ignore")) {
        if (ig->n == 16) {
            bnf_fail(b, "more than 16 %%ignore statements");
            return;
        }
        ig->from[ig->n] = b->i;
        b->i = ig->to[ig->n++] = line_end(b, b->i);
    } else if (bnf_take(b, "%llguidance")) { /* options for llguidance, not part of the language */
        b->i = line_end(b, b->i);
    } else if (bnf_peek(b, 0) == '%') {
        bnf_fail(b, "this %% statement is not supported");
    } else {
        bnf_take(b, "?");
        bnf_take(b, "!");
        const size_t from = b->i;
        while (bnf_is_name(bnf_peek(b, 0)) && bnf_peek(b, 0) != '-') b->i++;
        const size_t to = b->i;
        space(b, false);
        if (bnf_take(b, ".")) { /* priorities affect tokenization, not the language */
            bnf_take(b, "-");
            bnf_number(b);
            space(b, false);
        }
        if (bnf_peek(b, 0) == '{')
            bnf_fail(b, "templates are not supported: write the rule out for each use");
        if (to > from && bnf_peek(b, 0) == '[')
            bnf_fail(b, "attributes of rules, in [brackets], are not supported");
        if (to == from || !bnf_take(b, ":")) {
            bnf_fail(b, "expected a rule, `name: ...`");
            return;
        }
        const bool term = b->s[from] >= 'A' && b->s[from] <= 'Z';
        bnf_add(b, b->s + from, to - from, b->i, term);
        if (b->rc) return;
        /* The body ends before the line that begins the next statement. */
        for (;;) {
            int open = 0;
            size_t i = b->i, end = line_end(b, i);
            for (; i < end; i++) open += b->s[i] == '{' ? 1 : b->s[i] == '}' ? -1 : 0;
            while (open > 0 && end < b->n) {
                i = end + 1;
                end = line_end(b, i);
                for (; i < end; i++) open += b->s[i] == '{' ? 1 : b->s[i] == '}' ? -1 : 0;
            }
            b->i = end;
            size_t k = end;
            while (k < b->n && strchr(" \t\r\n", b->s[k])) k++;
            if (!goes_on(b, k)) break;
            b->i = k;
        }
        b->rule[b->n_rule - 1].to = b->i;
    }
}

/* Parses all statements, then the ignored terminals. */
static void read_all(struct bnf *b) {
    struct ignored ig = {.n = 0};
    for (space(b, true); bnf_more(b); space(b, true)) statement(b, &ig);
    for (int i = 0; i < ig.n && !b->rc; i++) {
        b->i = ig.from[i];
        b->end = ig.to[i];
        b->term = true;
        b->ignore = gn_alt(b->g, b->ignore, lark_body(b));
        b->term = false;
    }
    if (b->ignore) b->ignore = gn_rep(b->g, b->ignore, 0, IGNORED_MAX);
}

int gn_lark(struct grammar *g, const char *text, size_t len, bool escaped, gnode *out,
            struct err *e) {
    struct bnf b = {
        .g = g, .s = text, .n = len, .end = len, .body = lark_body, .escaped = escaped, .e = e};
    read_all(&b);
    *out = bnf_root(&b, "start");
    return b.rc;
}

int grammar_of_lark(struct grammar **out, const struct gram_vocab *v, const char *text, size_t len,
                    struct err *e) {
    struct bnf b = {
        .g = grammar_new(v), .s = text, .n = len, .end = len, .body = lark_body, .e = e};
    read_all(&b);
    return bnf_finish(&b, "start", out);
}
