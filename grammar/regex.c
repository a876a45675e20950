// SPDX-License-Identifier: MIT
/* grammar/regex.c - regular expression parser. It parses anchors as bytes that never occur in text,
 * GRAM_AT_START and GRAM_AT_END. A second pass replaces them: an anchor at its end of the text
 * matches the empty text, elsewhere it matches nothing. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/printable.h"
#include "grammar/gram_int.h"
#include "text/utf8.h"

enum { NEST_MAX = 200, COUNT_MAX = 1000000 };

struct re {
    struct grammar *g;
    const char *s;
    size_t n, i;
    struct gregex o;
    int nest;
    bool anchors;
    int rc;
    struct err *e;
};

/* Sets the error unless one is already set; returns G_NONE. */
static gnode set_error(struct re *r, const char *what) {
    if (!r->rc)
        r->rc = err_set(r->e, ERR_DATA, "%s%s%s at byte %zu of '%s'", r->o.what ? r->o.what : "",
                        r->o.what ? ": " : "", what, r->i, show_n(r->s, r->n).s);
    return G_NONE;
}

/* Returns whether input remains and no error has occurred. */
static bool has_more(const struct re *r) {
    return !r->rc && r->i < r->n;
}
/* Returns the k-th byte ahead; 0 at the end. */
static char peek_char(const struct re *r, size_t k) {
    return r->i + k < r->n ? r->s[r->i + k] : 0;
}
/* Moves past lit if it is next, and returns whether it was. */
static bool take_text(struct re *r, const char *lit) {
    const size_t n = strlen(lit);
    if (r->rc || r->i > r->n || r->n - r->i < n || memcmp(r->s + r->i, lit, n) != 0) return false;
    r->i += n;
    return true;
}

/* ---- characters ---- */

/* Reads a character; sets an error if it is not valid UTF-8. */
static uint32_t next_char(struct re *r) {
    uint32_t cp = 0;
    const size_t n = utf8_decode(r->s + r->i, r->n - r->i, &cp);
    if (!n) set_error(r, "invalid UTF-8");
    r->i += n ? n : 1;
    return cp;
}

/* Reads from `least` to `most` hexadecimal digits. */
static uint32_t parse_hex(struct re *r, int least, int most) {
    uint32_t x = 0;
    int k = 0;
    for (; k < most && has_more(r); k++, r->i++) {
        const char c = peek_char(r, 0), low = (char)(c | 0x20);
        if (c >= '0' && c <= '9')
            x = x * 16 + (uint32_t)(c - '0');
        else if (low >= 'a' && low <= 'f')
            x = x * 16 + (uint32_t)(low - 'a' + 10);
        else
            break;
    }
    if (k < least) set_error(r, "expected a hexadecimal number");
    return x;
}

/* Reads a code point of exactly `digits` digits, or in braces; joins surrogates. */
static uint32_t hex_escape(struct re *r, int digits) {
    if (!take_text(r, "{")) {
        const uint32_t hi = parse_hex(r, digits, digits);
        if (hi < 0xd800 || hi > 0xdbff || !take_text(r, "\\u")) return hi;
        return 0x10000 + ((hi - 0xd800) << 10) + ((parse_hex(r, 4, 4) - 0xdc00) & 0x3ff);
    }
    const uint32_t x = parse_hex(r, 1, 6);
    if (!take_text(r, "}")) set_error(r, "'}' is missing");
    return x;
}

/* Adds ASCII letters in the other case. */
static void add_case(struct gchars *c) {
    const size_t n = c->n;
    for (size_t i = 0; i < n; i++)
        for (uint32_t cp = c->v[i].lo; cp <= c->v[i].hi && cp < 0x80; cp++)
            if ((cp | 0x20) >= 'a' && (cp | 0x20) <= 'z') gchars_add(c, cp ^ 0x20, cp ^ 0x20);
}

/* Returns the language of one of the characters, and frees c. */
static gnode chars_node(struct re *r, struct gchars *c) {
    if (r->o.any_case) add_case(c);
    gchars_sort(c);
    const gnode out = gn_chars(r->g, c, r->o.escaped);
    gchars_release(c);
    return out;
}

/* Returns the node for the one character. */
static gnode one_char(struct re *r, uint32_t cp) {
    struct gchars c = {0};
    gchars_add(&c, cp, cp);
    return chars_node(r, &c);
}

/* Adds the characters of \d, \w, \s or their complements to out. Returns false if the letter is not
 * a class. */
static bool add_class(struct gchars *out, char letter) {
    struct gchars c = {0};
    switch (letter | 0x20) {
    case 'd':
        gchars_add(&c, '0', '9');
        break;
    case 'w':
        gchars_add(&c, '0', '9');
        gchars_add(&c, 'A', 'Z');
        gchars_add(&c, 'a', 'z');
        gchars_add(&c, '_', '_');
        break;
    case 's':
        gchars_add(&c, '\t', '\r');
        gchars_add(&c, ' ', ' ');
        break;
    default:
        return false;
    }
    if ((letter | 0x20) == 's') { /* as in ECMAScript; Python differs in U+0085 and U+FEFF */
        for (uint32_t cp = 0x80; cp < 0x3100; cp++)
            if (utf8_is_white(cp) && cp != 0x85) gchars_add(&c, cp, cp);
        gchars_add(&c, 0xfeff, 0xfeff);
    }
    gchars_sort(&c);
    if (letter < 'a') gchars_invert(&c);
    for (size_t i = 0; i < c.n; i++) gchars_add(out, c.v[i].lo, c.v[i].hi);
    gchars_release(&c);
    return true;
}

/* Parses an escaped character after its backslash and returns its code point. */
static uint32_t escape(struct re *r) {
    static const char from[] = "ntrfv0ae", to[] = "\n\t\r\f\v\0\a\033";
    const char c = peek_char(r, 0);
    const char *at = c ? strchr(from, c) : NULL;
    if (!has_more(r)) return set_error(r, "trailing backslash");
    if (c == '0' && peek_char(r, 1) >= '0' && peek_char(r, 1) <= '9')
        return set_error(r, "octal escapes are not supported");
    if (at) {
        r->i++;
        return (uint8_t)to[at - from];
    }
    if (take_text(r, "x")) return hex_escape(r, 2);
    if (take_text(r, "u")) return hex_escape(r, 4);
    if (c == 'c' && ((peek_char(r, 1) | 0x20) >= 'a' && (peek_char(r, 1) | 0x20) <= 'z')) {
        r->i += 2;
        return (uint32_t)(r->s[r->i - 1] & 0x1f);
    }
    if (c == 'b' || c == 'B') return set_error(r, "word boundaries (\\b) are not supported");
    if (c >= '1' && c <= '9') return set_error(r, "back references are not supported");
    if (c == 'p' || c == 'P') return set_error(r, "Unicode properties (\\p) are not supported");
    if ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') return set_error(r, "unknown escape");
    return next_char(r);
}

/* Parses a character class after its '[' and returns its language. */
static gnode bracket(struct re *r) {
    struct gchars c = {0};
    const bool not = take_text(r, "^");
    for (bool first = true; has_more(r) && (peek_char(r, 0) != ']' || first); first = false) {
        if (first && peek_char(r, 0) == ']' && r->o.ecma) break; /* ECMAScript's empty set */
        if (peek_char(r, 0) == '[' && (peek_char(r, 1) == ':' || peek_char(r, 1) == '.')) {
            set_error(r, "named classes ([:alpha:]) are not supported");
            break;
        }
        uint32_t lo;
        if (take_text(r, "\\")) {
            if (add_class(&c, peek_char(r, 0))) {
                r->i++;
                continue;
            }
            lo = peek_char(r, 0) == 'b' ? (r->i++, 8u) : escape(r);
        } else {
            lo = next_char(r);
        }
        uint32_t hi = lo;
        const bool range = peek_char(r, 0) == '-' && r->i + 1 < r->n && peek_char(r, 1) != ']';
        const bool named =
            peek_char(r, 1) == '\\' && strchr("dwsDWS", peek_char(r, 2)) && peek_char(r, 2);
        if (range && !named) {
            r->i++;
            hi = take_text(r, "\\") ? escape(r) : next_char(r);
            if (hi < lo) set_error(r, "range out of order");
        }
        if (hi > 0x10ffff) set_error(r, "no character");
        if (!r->rc) gchars_add(&c, lo, hi);
    }
    if (!take_text(r, "]")) set_error(r, "']' is missing");
    if (r->o.any_case) add_case(&c);
    gchars_sort(&c);
    if (not ) gchars_invert(&c);
    gnode out = G_NONE;
    if (!r->rc) out = gn_chars(r->g, &c, r->o.escaped);
    gchars_release(&c);
    return out;
}

/* Returns the language of '.', which excludes line ends unless dot_all is set. */
static gnode dot_node(struct re *r) {
    struct gchars c = {0};
    if (!r->o.dot_all) gchars_add(&c, '\n', '\n');
    if (!r->o.dot_all && r->o.ecma) {
        gchars_add(&c, '\r', '\r');
        gchars_add(&c, 0x2028, 0x2029);
    }
    gchars_invert(&c);
    const gnode out = gn_chars(r->g, &c, r->o.escaped);
    gchars_release(&c);
    return out;
}

/* ---- structure ---- */

static gnode parse_alternatives(struct re *r);

/* Parses the flags after "(?" and sets them. Returns whether they apply to the rest of the
 * enclosing group. */
static bool flags(struct re *r) {
    for (bool on = true; has_more(r); r->i++) {
        const char c = peek_char(r, 0);
        if (c == ')' || c == ':') return r->s[r->i++] == ')';
        if (c == '-')
            on = false;
        else if (c == 'i')
            r->o.any_case = on;
        else if (c == 's')
            r->o.dot_all = on;
        else if (c != 'u')
            break;
    }
    set_error(r, "this flag or kind of group is not supported");
    return false;
}

/* Parses a group after its '(' and returns its language. Sets *only_flags if the group has no
 * content and sets flags for the rest of the enclosing group. */
static gnode group(struct re *r, bool *only_flags) {
    const struct gregex before = r->o;
    *only_flags = false;
    if (r->nest >= NEST_MAX) return set_error(r, "groups nested more than 200 deep");
    if (take_text(r, "?")) {
        if (take_text(r, "=") || take_text(r, "!") || take_text(r, "<=") || take_text(r, "<!"))
            return set_error(r, "lookaround is not supported");
        if (take_text(r, ">")) return set_error(r, "atomic groups are not supported");
        if (take_text(r, "P<") || take_text(r, "<") || take_text(r, "'")) {
            while (has_more(r) && peek_char(r, 0) != '>' && peek_char(r, 0) != '\'') r->i++;
            r->i++;
        } else if (!take_text(r, ":")) {
            *only_flags = flags(r);
            if (*only_flags) return G_EPS;
        }
    }
    r->nest++;
    const gnode out = parse_alternatives(r);
    r->nest--;
    if (!take_text(r, ")")) return set_error(r, "')' is missing");
    r->o.any_case = before.any_case;
    r->o.dot_all = before.dot_all;
    return out;
}

/* Reads a count of up to 1000000. */
static uint32_t parse_number(struct re *r) {
    uint32_t x = 0;
    if (peek_char(r, 0) < '0' || peek_char(r, 0) > '9') set_error(r, "expected a number");
    for (; has_more(r) && peek_char(r, 0) >= '0' && peek_char(r, 0) <= '9'; r->i++) {
        x = x * 10 + (uint32_t)(peek_char(r, 0) - '0');
        if (x > COUNT_MAX) set_error(r, "the count exceeds 1000000");
    }
    return x;
}

/* Returns whether the '{' here begins a count such as {1,3}. */
static bool is_count(const struct re *r) {
    size_t k = r->i + 1;
    while (k < r->n && ((r->s[k] >= '0' && r->s[k] <= '9') || r->s[k] == ',')) k++;
    return k < r->n && r->s[k] == '}' && k > r->i + 1 && r->s[r->i + 1] != ',';
}

/* Parses the repetitions after x; lazy ones are treated the same. */
static gnode parse_repeats(struct re *r, gnode x) {
    for (int n = 0; has_more(r); n++) {
        uint32_t lo = 0, hi = GRAM_INF;
        if (peek_char(r, 0) == '{' && is_count(r)) {
            r->i++;
            lo = hi = parse_number(r);
            if (take_text(r, ",")) hi = peek_char(r, 0) == '}' ? GRAM_INF : parse_number(r);
            take_text(r, "}");
            if (hi < lo) return set_error(r, "count range out of order");
        } else if (take_text(r, "+")) {
            lo = 1;
        } else if (take_text(r, "?")) {
            hi = 1;
        } else if (!take_text(r, "*")) {
            break;
        }
        if (n > 8) return set_error(r, "too many repetition operators in a row");
        if (peek_char(r, 0) == '+') return set_error(r, "possessive repetition is not supported");
        take_text(r, "?"); /* lazy and greedy repetitions match the same texts */
        x = gn_rep(r->g, x, lo, hi);
    }
    return x;
}

/* Returns an anchor's marker byte, resolved later. */
static gnode anchor_node(struct re *r, int byte) {
    r->anchors = true;
    if (has_more(r) && strchr("*+?", peek_char(r, 0)))
        return set_error(r, "anchors cannot be repeated");
    return gn_bytes(r->g, byte, byte);
}

/* Parses one atom. *skip: it was a group that only sets flags. */
static gnode parse_atom(struct re *r, bool *skip) {
    *skip = false;
    if (take_text(r, "(")) return group(r, skip);
    if (take_text(r, "[")) return bracket(r);
    if (take_text(r, ".")) return dot_node(r);
    if (take_text(r, "^") || take_text(r, "\\A")) return anchor_node(r, GRAM_AT_START);
    if (take_text(r, "$") || take_text(r, "\\z") || take_text(r, "\\Z"))
        return anchor_node(r, GRAM_AT_END);
    if (strchr("*+?", peek_char(r, 0)) && peek_char(r, 0)) return set_error(r, "nothing to repeat");
    if (take_text(r, "\\")) {
        struct gchars c = {0};
        if (add_class(&c, peek_char(r, 0))) {
            r->i++;
            return chars_node(r, &c);
        }
        const uint32_t cp = escape(r);
        if (cp > 0x10ffff) return set_error(r, "no character");
        return r->rc ? G_NONE : one_char(r, cp);
    }
    const uint32_t cp = next_char(r);
    return r->rc ? G_NONE : one_char(r, cp);
}

/* Parses a sequence up to '|' or ')'. */
static gnode parse_sequence(struct re *r) {
    gnode *v = NULL;
    size_t n = 0, cap = 0;
    while (has_more(r) && peek_char(r, 0) != '|' && peek_char(r, 0) != ')') {
        bool skip;
        const gnode x = parse_atom(r, &skip);
        if (skip || r->rc) continue;
        if (n == cap) v = xreallocarray(v, cap = cap ? 2 * cap : 16, sizeof *v);
        v[n++] = parse_repeats(r, x);
    }
    const gnode out = gn_cats(r->g, v, n);
    free(v);
    return out;
}

/* Parses alternatives up to ")" or the end; G_NONE after an error. */
static gnode parse_alternatives(struct re *r) {
    gnode *v = NULL;
    size_t n = 0, cap = 0;
    do {
        const gnode x = parse_sequence(r);
        if (n == cap) v = xreallocarray(v, cap = cap ? 2 * cap : 8, sizeof *v);
        v[n++] = x;
    } while (take_text(r, "|"));
    const gnode out = r->rc ? G_NONE : gn_alts(r->g, v, n);
    free(v);
    return out;
}

/* ---- anchors ---- */

/* Ends of the whole text that a part touches, as bits. */
enum { AT_START = 1, AT_END = 2, PLACES = 4, ANCHORED_DEPTH = 500 };
struct places {
    struct grammar *g;
    gnode *known; /* [n][PLACES] results + 1, for nodes older than this pass; 0: not computed */
};
static gnode placed(struct places *p, gnode x, unsigned at);

/* Resolves anchors in a followed by b, which together touch the ends `at`. If one of them matches
 * the empty text, the other may touch both ends. */
static gnode placed_cat(struct places *p, gnode a, gnode b, unsigned at) {
    struct grammar *g = p->g;
    const unsigned s = at & AT_START, e = at & AT_END;
    const gnode first = placed(p, a, s), second = placed(p, b, e);
    gnode v[4] = {gn_cat(g, first, second), G_NONE, G_NONE, G_NONE};
    if (gn_null(g, second)) v[1] = placed(p, a, at);
    if (gn_null(g, first)) v[2] = placed(p, b, at);
    if (gn_null(g, placed(p, a, at)) && gn_null(g, placed(p, b, at))) v[3] = G_EPS;
    return gn_alts(g, v, COUNT_OF(v));
}

/* Resolves anchors in a repetition that touches the ends `at`. Its first copy may touch the start
 * and its last copy the end. If a copy can be empty, any number of empty ones may surround the
 * others. */
static gnode placed_rep(struct places *p, const struct gnode_data *d, unsigned at) {
    struct grammar *g = p->g;
    const gnode first = placed(p, d->a, at & AT_START), last = placed(p, d->a, at & AT_END),
                inner = placed(p, d->a, 0), alone = placed(p, d->a, at);
    const bool fill = gn_null(g, first) || gn_null(g, last) || gn_null(g, inner);
    const uint32_t lo = fill ? 0 : d->lo, less = d->hi == GRAM_INF ? GRAM_INF : d->hi - 2;
    gnode v[3] = {G_NONE, G_NONE, G_NONE};
    if (d->lo == 0 || gn_null(g, alone)) v[0] = G_EPS;
    if (lo <= 1) v[1] = alone;
    if (d->hi >= 2) v[2] = gn_cat3(g, first, gn_rep(g, inner, lo > 2 ? lo - 2 : 0, less), last);
    return gn_alts(g, v, COUNT_OF(v));
}

/* Resolves anchors in a set that touches the ends `at`. A set may contain both anchors and bytes,
 * as in (^|,). */
static gnode placed_set(struct places *p, gnode x, unsigned at) {
    const int mark[] = {GRAM_AT_START, GRAM_AT_END};
    const unsigned where[] = {AT_START, AT_END};
    struct gset s = p->g->set[gn(p->g, x)->a];
    bool any = false, here = false;
    for (size_t i = 0; i < COUNT_OF(mark); i++) {
        const uint64_t bit = (uint64_t)1 << mark[i] % 64;
        any = any || s.w[mark[i] / 64] & bit;
        here = here || (s.w[mark[i] / 64] & bit && at & where[i]);
        s.w[mark[i] / 64] &= ~bit;
    }
    if (!any) return x;
    return gn_alt(p->g, gn_set(p->g, &s), here ? G_EPS : G_NONE);
}

/* Computes placed() for the suffixes of the sequence x, last one first, with the ends that
 * placed(x, at) will request. This avoids deep recursion on long sequences. */
static void place_rests(struct places *p, gnode x, unsigned at) {
    gnode *v = NULL;
    size_t n = 0, cap = 0;
    for (x = gn(p->g, x)->b; gn(p->g, x)->kind == G_CAT; x = gn(p->g, x)->b) {
        if (p->known[x * PLACES + at]) break;
        if (n == cap) v = xreallocarray(v, cap = cap ? 2 * cap : 16, sizeof *v);
        v[n++] = x;
    }
    while (n-- > 0) {
        (void)placed(p, v[n], at & AT_END);
        (void)placed(p, v[n], at);
    }
    free(v);
}

/* Returns x with its anchors resolved, given that it touches the ends `at` of the text: an anchor
 * at its end matches the empty text; elsewhere it matches nothing. */
static gnode placed(struct places *p, gnode x, unsigned at) {
    struct grammar *g = p->g;
    const struct gnode_data d = *gn(g, x);
    if (d.kind == G_SET) return placed_set(p, x, at);
    if (d.kind != G_CAT && d.kind != G_REP && d.kind != G_ALT) return x;
    if (p->known[x * PLACES + at]) return p->known[x * PLACES + at] - 1;
    gnode out = G_NONE;
    if (g->depth++ >= ANCHORED_DEPTH) {
        if (!g->full) g->full = "parts nested more than 500 deep in a pattern with anchors inside";
    } else if (d.kind == G_CAT) {
        if (gn(g, d.b)->kind == G_CAT) place_rests(p, x, at);
        out = placed_cat(p, d.a, d.b, at);
    } else if (d.kind == G_REP) {
        out = placed_rep(p, &d, at);
    } else {
        gnode *v = xcalloc(d.b, sizeof *v);
        for (uint32_t i = 0; i < d.b; i++) v[i] = placed(p, g->list[d.a + i], at);
        out = gn_alts(g, v, d.b);
        free(v);
    }
    g->depth--;
    p->known[x * PLACES + at] = out + 1;
    return out;
}

/* Returns x, a whole pattern, with its anchors resolved. */
static gnode resolve(struct grammar *g, gnode x) {
    struct places p = {.g = g, .known = xcalloc(g->n_node, PLACES * sizeof *p.known)};
    const gnode out = placed(&p, x, AT_START | AT_END);
    free(p.known);
    return out;
}

/* ---- entry points ---- */

/* Parses the whole regex of n bytes. Returns r->rc. */
static int parse_regex(struct re *r, const char *s, size_t n, gnode *out) {
    r->s = s;
    r->n = n;
    r->i = 0;
    r->anchors = false;
    *out = parse_alternatives(r);
    if (!r->rc && r->i < r->n) set_error(r, "')' without '('");
    return r->rc;
}

/* Returns whether the pattern has no top-level alternatives. If so, a leading "^" (*start) and a
 * trailing "$" (*end) merely turn off searching at that end. */
static bool plain_ends(const char *s, size_t n, bool *start, bool *end) {
    int nest = 0;
    bool set = false;
    size_t slashes = 0;
    for (size_t i = 0; i < n; i++) {
        if (s[i] == '\\')
            i++;
        else if (set)
            set = s[i] != ']';
        else if (s[i] == '[')
            set = true;
        else if (s[i] == '(' || s[i] == ')')
            nest += s[i] == '(' ? 1 : -1;
        else if (s[i] == '|' && nest == 0)
            return false;
    }
    *start = n > 0 && s[0] == '^';
    while (n > slashes + 1 && s[n - 2 - slashes] == '\\') slashes++;
    *end = n > 0 && s[n - 1] == '$' && slashes % 2 == 0 && n > (size_t)*start;
    return true;
}

int gn_regex(struct grammar *g, const char *s, size_t n, const struct gregex *o, gnode *out,
             struct err *e) {
    struct re r = {.g = g, .o = *o, .e = e};
    const gnode any = gn_rep(g, gn_char_any(g, o->escaped), 0, GRAM_INF);
    bool start = false, end = false;
    gnode x;
    if (plain_ends(s, n, &start, &end)) {
        TRY(parse_regex(&r, s + start, n - start - end, &x));
        if (!r.anchors) {
            if (o->search && !start) x = gn_cat(g, any, x);
            if (o->search && !end) x = gn_cat(g, x, any);
            *out = x;
            return grammar_full(g, e);
        }
    }
    r.o = *o;
    TRY(parse_regex(&r, s, n, &x));
    if (o->search) x = gn_cat3(g, any, x, any);
    if (r.anchors) x = resolve(g, x);
    *out = x;
    return grammar_full(g, e);
}
