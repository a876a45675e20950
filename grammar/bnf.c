// SPDX-License-Identifier: MIT
/* grammar/bnf.c - parser functions shared by the text grammars, and the GBNF parser. */
#include "grammar/bnf.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/printable.h"
#include "text/utf8.h"

enum { RULES_MAX = 20000, NEST_MAX = 200, COUNT_MAX = 100000 };

gnode bnf_fail(struct bnf *b, const char *fmt, ...) {
    char text[300];
    int line = 1;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    for (size_t i = 0; i < b->i && i < b->n; i++) line += b->s[i] == '\n';
    if (!b->rc) b->rc = err_set(b->e, ERR_DATA, "grammar, line %d: %s", line, text);
    return G_NONE;
}

bool bnf_more(const struct bnf *b) {
    return !b->rc && b->i < b->end;
}
char bnf_peek(const struct bnf *b, size_t k) {
    return b->i + k < b->end ? b->s[b->i + k] : 0;
}
bool bnf_take(struct bnf *b, const char *lit) {
    const size_t n = strlen(lit);
    if (b->rc || b->i > b->end || b->end - b->i < n || memcmp(b->s + b->i, lit, n) != 0)
        return false;
    b->i += n;
    return true;
}
bool bnf_is_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

void bnf_then(gnode **v, size_t *n, gnode x) {
    if ((*n & (*n - 1)) == 0) *v = xreallocarray(*v, *n ? 2 * *n : 1, sizeof **v);
    (*v)[(*n)++] = x;
}

/* ---- rules ---- */

struct bnf_rule *bnf_find(struct bnf *b, const char *name, size_t len) {
    const int64_t i = b->by_name ? strmap_get(b->by_name, name, len) : -1;
    return i < 0 ? NULL : &b->rule[i];
}

void bnf_add(struct bnf *b, const char *name, size_t len, size_t from, bool term) {
    if (bnf_find(b, name, len)) {
        bnf_fail(b, "the rule '%s' is defined twice", show_n(name, len).s);
        return;
    }
    if (b->n_rule == RULES_MAX) {
        bnf_fail(b, "more than 20000 rules");
        return;
    }
    if (!b->by_name) b->by_name = strmap_new(64);
    strmap_add(b->by_name, name, len, (int64_t)b->n_rule);
    if ((b->n_rule & (b->n_rule - 1)) == 0)
        b->rule = xreallocarray(b->rule, b->n_rule ? 2 * b->n_rule : 1, sizeof *b->rule);
    b->rule[b->n_rule++] =
        (struct bnf_rule){.name = name, .len = len, .from = from, .to = b->n, .term = term};
}

/* Returns a reference to the rule, which makes it a rule of the grammar. */
static gnode as_rule(struct bnf *b, struct bnf_rule *r) {
    if (!r->used) {
        r->index = grammar_rule(b->g);
        b->g->rule[r->index].name = r->name;
        b->g->rule[r->index].name_len = r->len;
    }
    r->used = true;
    return gn_rule(b->g, r->index);
}

/* Returns the body of the rule `self` with direct left recursion replaced by repetition: `sum: sum
 * "+" item | item` becomes `item ("+" item)*`. */
static gnode repeated(struct grammar *g, gnode self, gnode body) {
    const struct gnode_data d = *gn(g, body);
    const uint32_t n = d.kind == G_ALT ? d.b : 1;
    gnode *first = xcalloc(n, sizeof *first), *more = xcalloc(n, sizeof *more);
    size_t n_first = 0, n_more = 0;
    for (uint32_t i = 0; i < n; i++) {
        const gnode x = d.kind == G_ALT ? g->list[d.a + i] : body;
        if (x == self)
            more[n_more++] = G_EPS;
        else if (gn(g, x)->kind == G_CAT && gn(g, x)->a == self)
            more[n_more++] = gn(g, x)->b;
        else
            first[n_first++] = x;
    }
    if (n_more)
        body =
            gn_cat(g, gn_alts(g, first, n_first), gn_rep(g, gn_alts(g, more, n_more), 0, GRAM_INF));
    free(first);
    free(more);
    return body;
}

/* Parses the body of rule k. */
static void read_rule(struct bnf *b, size_t k) {
    struct bnf_rule *r = &b->rule[k];
    const size_t i = b->i, end = b->end;
    const bool term = b->term;
    r->state = 1;
    b->i = r->from;
    b->end = r->to;
    b->term = r->term;
    b->nest++;
    const gnode body = b->body(b);
    b->nest--;
    if (!b->rc && b->i < b->end) bnf_fail(b, "syntax error");
    if (!b->rc) {
        b->i = i;
        b->end = end;
    }
    b->term = term;
    r = &b->rule[k];
    r->state = 2;
    r->node = r->used ? repeated(b->g, gn_rule(b->g, r->index), body) : body;
    if (r->used) b->g->rule[r->index].body = r->node;
}

gnode bnf_ref(struct bnf *b, const char *name, size_t len) {
    struct bnf_rule *r = bnf_find(b, name, len);
    if (!r) return bnf_fail(b, "undefined rule '%s'", show_n(name, len).s);
    const size_t k = (size_t)(r - b->rule);
    if (r->state == 0 && b->nest < NEST_MAX) read_rule(b, k);
    r = &b->rule[k];
    if (r->state == 2 && gn_regular(b->g, r->node)) return r->node;
    const gnode out = as_rule(b, r);
    if (r->state == 2) b->g->rule[r->index].body = r->node;
    return out;
}

gnode bnf_root(struct bnf *b, const char *root) {
    gnode node = G_NONE;
    b->end = b->n;
    if (!b->rc) node = bnf_ref(b, root, strlen(root));
    for (size_t k = 0; k < b->n_rule && !b->rc; k++)
        if (b->rule[k].state == 0) read_rule(b, k); /* not referenced, or nested too deep */
    if (b->ignore) node = gn_cat(b->g, b->ignore, node);
    free(b->rule);
    strmap_free(b->by_name);
    b->rule = NULL;
    b->by_name = NULL;
    return node;
}

int bnf_finish(struct bnf *b, const char *root, struct grammar **out) {
    const gnode node = bnf_root(b, root);
    return grammar_done(out, b->g, node, b->rc, b->e);
}

/* ---- tokens ---- */

void bnf_quoted(struct bnf *b, struct buf *out) {
    static const char from[] = "ntrfb0", to[] = "\n\t\r\f\b\0";
    buf_str(out, "");
    while (bnf_more(b) && bnf_peek(b, 0) != '"') {
        char c = b->s[b->i++];
        if (c != '\\') {
            buf_chr(out, c);
            continue;
        }
        c = bnf_peek(b, 0);
        b->i++;
        const char *at = c ? strchr(from, c) : NULL;
        const int digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
        if (digits) {
            char hex[9] = {0}, utf8[4];
            for (int k = 0; k < digits; k++) hex[k] = bnf_peek(b, (size_t)k);
            char *end;
            const unsigned long x = strtoul(hex, &end, 16);
            if (*end || end == hex || (int)(end - hex) != digits) {
                bnf_fail(b, "expected %d hexadecimal digits", digits);
                return;
            }
            b->i += (size_t)digits;
            buf_add(out, utf8, utf8_encode((uint32_t)x, utf8));
        } else {
            buf_chr(out, at ? to[at - from] : c);
        }
    }
    if (!bnf_take(b, "\"")) bnf_fail(b, "a string lacks its closing quote");
}

/* Returns the language of a single token, as its marker and id. */
static gnode token_edges(struct grammar *g, int32_t id) {
    const uint32_t x = (uint32_t)id;
    const char s[4] = {(char)GRAM_TOKEN, (char)(uint8_t)(x >> 16), (char)(uint8_t)(x >> 8),
                       (char)(uint8_t)x};
    return gn_text(g, s, sizeof s);
}

gnode gn_marker(struct grammar *g, const char *s, size_t n) {
    gnode *v = xcalloc(n + 1, sizeof *v), out = G_EPS;
    size_t m = 0;
    for (size_t i = 0; i < n;) {
        const struct special *hit = NULL;
        for (int k = 0; k < g->v->n_special && !hit; k++) {
            const struct special *x = &g->v->special[k];
            const size_t len = strlen(x->text);
            if (n - i >= len && memcmp(s + i, x->text, len) == 0) hit = x;
        }
        v[m++] = hit ? token_edges(g, hit->id) : gn_bytes(g, (uint8_t)s[i], (uint8_t)s[i]);
        i += hit ? strlen(hit->text) : 1;
    }
    while (m-- > 0) out = gn_cat(g, v[m], out);
    free(v);
    return out;
}

gnode bnf_token(struct bnf *b) {
    if (b->escaped) return bnf_fail(b, "a special token cannot occur inside a JSON string");
    const struct gram_vocab *v = b->g->v;
    const size_t from = b->i - 1;
    if (bnf_take(b, "[")) {
        const uint32_t id = bnf_number(b);
        if (!bnf_take(b, "]>")) return bnf_fail(b, "']>' is missing");
        if (id >= (uint64_t)v->n) return bnf_fail(b, "no such token: %" PRIu32, id);
        size_t n;
        const char *t = gram_token(v, (int32_t)id, &n);
        return n ? gn_text(b->g, t, n) : bnf_fail(b, "token %" PRIu32 " has no text", id);
    }
    while (bnf_more(b) && bnf_peek(b, 0) != '>' && bnf_peek(b, 0) != '\n') b->i++;
    if (!bnf_take(b, ">")) return bnf_fail(b, "'>' is missing");
    for (int k = 0; k < v->n_special; k++)
        if (strlen(v->special[k].text) == b->i - from &&
            memcmp(v->special[k].text, b->s + from, b->i - from) == 0)
            return token_edges(b->g, v->special[k].id);
    return gn_text(b->g, b->s + from, b->i - from); /* not a special token: literal text */
}

uint32_t bnf_number(struct bnf *b) {
    uint32_t x = 0;
    if (bnf_peek(b, 0) < '0' || bnf_peek(b, 0) > '9') bnf_fail(b, "expected a number");
    for (; bnf_peek(b, 0) >= '0' && bnf_peek(b, 0) <= '9'; b->i++) {
        x = x * 10 + (uint32_t)(bnf_peek(b, 0) - '0');
        if (x > 100 * COUNT_MAX) bnf_fail(b, "the number is too large");
        if (b->rc) break;
    }
    return x;
}

/* ---- GBNF ---- */

/* Skips whitespace and comments. */
static void skip_space(struct bnf *b) {
    while (b->i < b->end) {
        if (b->s[b->i] == '#')
            while (b->i < b->end && b->s[b->i] != '\n') b->i++;
        else if (strchr(" \t\r\n", b->s[b->i]) && b->s[b->i])
            b->i++;
        else
            break;
    }
}

/* Parses a character class such as [^a-z]. */
static gnode parse_class(struct bnf *b) {
    const struct gregex o = {.dot_all = true};
    const size_t from = b->i;
    gnode out = G_NONE;
    for (b->i++; bnf_more(b) && bnf_peek(b, 0) != ']'; b->i++)
        if (bnf_peek(b, 0) == '\\') b->i++;
    if (!bnf_take(b, "]")) return bnf_fail(b, "']' is missing");
    struct err e;
    if (gn_regex(b->g, b->s + from, b->i - from, &o, &out, &e)) return bnf_fail(b, "%s", e.msg);
    return out;
}

/* Parses a literal, class, group, token or rule name. */
static gnode parse_item(struct bnf *b) {
    struct buf t = {0};
    gnode out;
    if (bnf_take(b, "\"")) {
        bnf_quoted(b, &t);
        out = gn_text(b->g, t.data, t.len);
        buf_release(&t);
        return out;
    }
    if (bnf_peek(b, 0) == '[') return parse_class(b);
    if (bnf_take(b, ".")) return gn_char_any(b->g, false);
    if (bnf_take(b, "<")) return bnf_token(b);
    if (bnf_take(b, "(")) {
        if (b->nest >= NEST_MAX) return bnf_fail(b, "nested more than 200 deep");
        b->nest++;
        out = b->body(b);
        b->nest--;
        return bnf_take(b, ")") ? out : bnf_fail(b, "')' is missing");
    }
    const size_t from = b->i;
    while (bnf_is_name(bnf_peek(b, 0))) b->i++;
    if (b->i == from) return bnf_fail(b, "unexpected '%c'", bnf_peek(b, 0));
    return bnf_ref(b, b->s + from, b->i - from);
}

/* Parses the repetitions after x: *, +, ? or counts. */
static gnode parse_times(struct bnf *b, gnode x) {
    for (int n = 0; n < 8 && bnf_more(b); n++) {
        uint32_t lo = 0, hi = GRAM_INF;
        skip_space(b);
        if (bnf_take(b, "+")) {
            lo = 1;
        } else if (bnf_take(b, "?")) {
            hi = 1;
        } else if (bnf_take(b, "{")) {
            skip_space(b);
            lo = hi = bnf_number(b);
            skip_space(b);
            if (bnf_take(b, ",")) {
                skip_space(b);
                hi = bnf_peek(b, 0) == '}' ? GRAM_INF : bnf_number(b);
                skip_space(b);
            }
            if (!bnf_take(b, "}") || hi < lo || lo > COUNT_MAX)
                return bnf_fail(b, "a count must be {m}, {m,} or {m,n}, up to 100000");
        } else if (!bnf_take(b, "*")) {
            break;
        }
        x = gn_rep(b->g, x, lo, hi);
    }
    return x;
}

/* Parses alternatives up to ')' or the end of the rule. */
static gnode gbnf_body(struct bnf *b) {
    gnode *v = NULL, *part = NULL;
    size_t n = 0, n_part = 0;
    for (;;) {
        skip_space(b);
        const char c = bnf_peek(b, 0);
        if (bnf_more(b) && c != '|' && c != ')') {
            bnf_then(&part, &n_part, parse_times(b, parse_item(b)));
            continue;
        }
        bnf_then(&v, &n, gn_cats(b->g, part, n_part));
        n_part = 0;
        if (!bnf_take(b, "|")) break;
    }
    const gnode out = b->rc ? (gnode)G_NONE : gn_alts(b->g, v, n);
    free(v);
    free(part);
    return out;
}

/* Adds a rule for each `name ::=` outside strings, classes and comments. */
static void find_rules(struct bnf *b) {
    size_t name = 0, name_end = 0;
    while (b->i < b->n && !b->rc) {
        const char c = b->s[b->i];
        if (c == '"' || c == '[') {
            const char close = c == '"' ? '"' : ']';
            for (b->i++; b->i < b->n && b->s[b->i] != close; b->i++)
                if (b->s[b->i] == '\\') b->i++;
            b->i++;
        } else if (c == '#') {
            while (b->i < b->n && b->s[b->i] != '\n') b->i++;
        } else if (bnf_is_name(c)) {
            name = b->i;
            while (b->i < b->n && bnf_is_name(b->s[b->i])) b->i++;
            name_end = b->i;
        } else if (c == ':' && b->n - b->i >= 3 && memcmp(b->s + b->i, "::=", 3) == 0) {
            if (name_end == name) bnf_fail(b, "a name is missing before '::='");
            if (b->n_rule) b->rule[b->n_rule - 1].to = name;
            b->i += 3;
            bnf_add(b, b->s + name, name_end - name, b->i, false);
            name = name_end = b->i;
        } else {
            b->i++;
        }
    }
}

int grammar_of_gbnf(struct grammar **out, const struct gram_vocab *v, const char *text, size_t len,
                    struct err *e) {
    struct bnf b = {
        .g = grammar_new(v), .s = text, .n = len, .end = len, .body = gbnf_body, .e = e};
    find_rules(&b);
    return bnf_finish(&b, "root", out);
}

int grammar_of_text(struct grammar **out, const struct gram_vocab *v, const char *text, size_t len,
                    struct err *e) {
    return memmem(text, len, "::=", 3) ? grammar_of_gbnf(out, v, text, len, e)
                                       : grammar_of_lark(out, v, text, len, e);
}
