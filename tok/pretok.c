// SPDX-License-Identifier: MIT
/* tok/pretok.c - split regexes over PCRE2; the only tokenizer file that uses it.
 *
 * Every row of pretok.def runs in time linear in the text. Regexes from a model file run with a
 * step limit, unless pretok_probe.c recognises one as equivalent to a built-in row. They are
 * compiled once with UTF|UCP, and with JIT if available; match data belong to the caller, so
 * threads share the compiled form. A row with several regexes applies them in turn: each splits the
 * pieces of the previous one. */
#include "tok/pretok.h"

#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/mem.h"
#include "text/pcre.h"
#include "text/utf8.h"

enum { NFC = 1, WHOLE = 2, BOS = 4, CHARS = 8, WORDS = 16 }; /* flags of pretok.def */
static const struct pretok_row rows[] = {
#define PRETOK(name, aliases, flags, ...)                                                          \
    {name,                                                                                         \
     aliases,                                                                                      \
     ((flags)&NFC) != 0,                                                                           \
     ((flags)&WHOLE) != 0,                                                                         \
     ((flags)&BOS) != 0,                                                                           \
     ((flags)&CHARS) != 0,                                                                         \
     ((flags)&WORDS) != 0,                                                                         \
     {__VA_ARGS__}},
#include "tok/pretok.def"
#undef PRETOK
};

struct threes { /* digits in groups of three from the right */
    const char *regex;
    bool numbers; /* numeric characters of any kind count, not only decimal digits */
    bool rest;    /* the leading one or two digits also form a piece */
    bool word;    /* only if the run of digits ends a word */
};
static const struct threes threes[] = {{PRETOK_DIGITS_WORD, false, true, true},
                                       {PRETOK_DIGITS, false, false, false},
                                       {PRETOK_NUMBERS, true, true, false}};

struct pretok {
    pcre2_code *code[PRETOK_LEVELS];
    const struct threes *threes[PRETOK_LEVELS]; /* used where code is NULL */
    int n_levels;
    bool own; /* the regexes come from a file */
};
enum { OWN_STEPS = 1 << 20, OWN_LENGTH = 1 << 14 }; /* steps per match; bytes per regex */
struct level {             /* a level of regexes; its pieces are split by the next level */
    size_t start, end;     /* current piece */
    size_t m_start, m_end; /* match found ahead, after the gap that is the current piece */
    size_t run_end, n_run; /* threes: end of the current run of digits, and digits left in it */
};
struct pretok_run {
    const struct pretok *p;
    pcre2_match_data *md;
    pcre2_match_context *mc;
    pcre2_jit_stack *stack;
    const char *text; /* text that the levels refer to */
    struct level level[PRETOK_LEVELS];
};

const struct pretok_row *pretok_by_name(const char *name) {
    size_t n = strlen(name);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (strcmp(rows[i].name, name) == 0) return &rows[i];
        for (const char *a = rows[i].aliases; n && (a = strstr(a, name)); a++)
            if (a > rows[i].aliases && a[-1] == ' ' && a[n] == ' ') return &rows[i];
    }
    return NULL;
}

/* Returns whether two regexes are equal, ignoring white space around b. */
static bool same_regex(const char *a, const char *b) {
    static const char blank[] = " \t\r\n";
    if (strcmp(a, b) == 0) return true;
    const size_t lead = strspn(b, blank);
    size_t n = strlen(b);
    while (n > lead && strchr(blank, b[n - 1])) n--;
    return strlen(a) == n - lead && memcmp(a, b + lead, n - lead) == 0;
}

/* Returns whether the row has exactly these n expressions in this order. */
static bool has_regexes(const struct pretok_row *row, const char *const *regex, int n) {
    for (int i = 0; i < PRETOK_LEVELS; i++) {
        if (!row->regex[i] || i >= n) return !row->regex[i] && i >= n;
        if (!same_regex(row->regex[i], regex[i])) return false;
    }
    return n == PRETOK_LEVELS;
}

const struct pretok_row *pretok_by_regexes(const char *const *regex, int n, bool nfc,
                                           bool ignore_merges) {
    const struct pretok_row *best = NULL;
    int best_agrees = -1;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (!has_regexes(&rows[i], regex, n)) continue;
        const int agrees = 2 * (rows[i].nfc == nfc) + (rows[i].ignore_merges == ignore_merges);
        if (agrees > best_agrees) best_agrees = agrees, best = &rows[i];
    }
    return best;
}

const struct pretok_row *pretok_at(size_t i) {
    return i < COUNT_OF(rows) ? &rows[i] : NULL;
}

void pretok_names(struct buf *out) {
    for (size_t i = 0; i < COUNT_OF(rows); i++) buf_fmt(out, "%s%s", i ? ", " : "", rows[i].name);
}

/* ---- names ----------------------------------------------------------------------------------- */

/* Maximum number of leading bytes that edit_distance() compares. */
enum { MAX_LIKE = 400 };
/* Returns the edit distance between a and b, comparing at most MAX_LIKE bytes of each. */
static int edit_distance(const char *a, size_t na, const char *b, size_t nb) {
    int row[MAX_LIKE + 1];
    if (na > MAX_LIKE) na = MAX_LIKE;
    if (nb > MAX_LIKE) nb = MAX_LIKE;
    for (size_t k = 0; k <= nb; k++) row[k] = (int)k;
    for (size_t i = 1; i <= na; i++) {
        int corner = row[0];
        row[0] = (int)i;
        for (size_t k = 1; k <= nb; k++) {
            int d = corner + (a[i - 1] != b[k - 1]);
            corner = row[k];
            if (row[k] + 1 < d) d = row[k] + 1;
            if (row[k - 1] + 1 < d) d = row[k - 1] + 1;
            row[k] = d;
        }
    }
    return row[nb];
}

enum { N_BEST = 3 };
struct best { /* names of least distance, best first */
    const char *name[N_BEST];
    size_t len[N_BEST];
    int d[N_BEST];
    int n;
};

/* Keeps the name, at distance d, if it is among the N_BEST nearest. */
static void offer_name(struct best *b, const char *name, size_t len, int d) {
    int at = b->n < N_BEST ? b->n++ : N_BEST - 1;
    if (b->n == N_BEST && at == N_BEST - 1 && b->name[at] && b->d[at] <= d) return;
    for (; at > 0 && b->d[at - 1] > d; at--) {
        b->name[at] = b->name[at - 1];
        b->len[at] = b->len[at - 1];
        b->d[at] = b->d[at - 1];
    }
    b->name[at] = name;
    b->len[at] = len;
    b->d[at] = d;
}

/* Appends the kept names, nearest first, separated by commas. */
static void list_best(const struct best *b, struct buf *out) {
    for (int i = 0; i < b->n; i++)
        buf_fmt(out, "%s%.*s", i ? ", " : "", (int)b->len[i], b->name[i]);
}

void pretok_nearest(const char *const *regex, int n, struct buf *out) {
    struct best best = {.n = 0};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int d = 0;
        for (int k = 0; k < PRETOK_LEVELS; k++) {
            const char *a = k < n ? regex[k] : "", *b = rows[i].regex[k] ? rows[i].regex[k] : "";
            d += edit_distance(a, strlen(a), b, strlen(b));
        }
        offer_name(&best, rows[i].name, strlen(rows[i].name), d);
    }
    list_best(&best, out);
}

/* Returns the next name at or after s in a space-separated list; NULL: none. */
static const char *name_at(const char *s, size_t *len) {
    s += strspn(s, " ");
    *len = strcspn(s, " ");
    return *len ? s : NULL;
}

/* Offers each name in the list whose similarity to the wanted one is at least one half. */
static void offer_names(struct best *best, const char *names, const char *wanted) {
    size_t n = strlen(wanted), len;
    for (const char *s = name_at(names, &len); s; s = name_at(s + len, &len)) {
        int d = edit_distance(wanted, n, s, len);
        if (2 * (size_t)d <= n) offer_name(best, s, len, d); /* at least half of the name matches */
    }
}

int pretok_unknown(const char *name, struct err *e) {
    struct best best = {.n = 0};
    struct buf near = {0}, all = {0};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        offer_names(&best, rows[i].name, name);
        offer_names(&best, rows[i].aliases, name);
    }
    if (best.n) buf_str(&near, "; nearest: ");
    list_best(&best, &near);
    pretok_names(&all);
    err_set(e, ERR_USAGE,
            "pre-tokenizer \"%.64s\" is not known%s; --pre NAME forces the rules of one of %s",
            name, near.data ? near.data : "", all.data);
    buf_release(&near);
    buf_release(&all);
    return ERR_USAGE;
}

/* ---- regexes --------------------------------------------------------------------------------- */

/* Compiles a regex. more: additional PCRE2 options. */
static int compile_regex(pcre2_code **out, const char *regex, const char *name, uint32_t more,
                         struct err *e) {
    struct buf re = {0};
    (void)pretok_spell(&re, regex); /* the caller checks a file's regex */
    int code;
    PCRE2_SIZE off;
    pcre2_code *c =
        pcre2_compile((PCRE2_SPTR)re.data, re.len,
                      PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C | more, &code, &off, NULL);
    buf_release(&re);
    if (!c) {
        PCRE2_UCHAR why[128] = "";
        pcre2_get_error_message(code, why, sizeof why);
        return err_set(
            e, ERR_SYS,
            "PCRE2 cannot compile the \"%s\" pre-tokenizer (%s at offset %zu): install a "
            "PCRE2 with Unicode support",
            name, (const char *)why, (size_t)off);
    }
    (void)pcre2_jit_compile(c, PCRE2_JIT_COMPLETE); /* without JIT the interpreter runs */
    *out = c;
    return 0;
}

int pretok_new(struct pretok **out, const struct pretok_row *row, struct err *e) {
    struct pretok *p = xcalloc(1, sizeof *p);
    int rc = 0;
    for (; !rc && p->n_levels < PRETOK_LEVELS && row->regex[p->n_levels]; p->n_levels += !rc) {
        const char *regex = row->regex[p->n_levels];
        for (size_t i = 0; i < COUNT_OF(threes); i++)
            if (strcmp(regex, threes[i].regex) == 0) p->threes[p->n_levels] = &threes[i];
        if (!p->threes[p->n_levels])
            rc = compile_regex(&p->code[p->n_levels], regex, row->name, 0, e);
    }
    if (rc)
        pretok_free(p);
    else
        *out = p;
    return rc;
}

/* Returns why a regex from a file cannot be used, for instance because PCRE2 and the library's
 * engine read its syntax differently; NULL: it can. */
static const char *unusable(const char *regex) {
    size_t n = strlen(regex);
    if (n == 0) return "is empty";
    if (n > OWN_LENGTH) return "is too long";
    if (utf8_valid_prefix(regex, n) != n) return "is not UTF-8";
    struct buf spelled = {0};
    const char *why = pretok_spell(&spelled, regex);
    buf_release(&spelled);
    return why;
}

int pretok_new_own(struct pretok **out, const char *const *regex, int n, struct err *e) {
    struct pretok *p = xcalloc(1, sizeof *p);
    int rc = 0;
    p->own = true;
    for (; !rc && p->n_levels < n && n <= PRETOK_LEVELS; p->n_levels += !rc) {
        struct err why = {0};
        const char *re = regex[p->n_levels], *what = unusable(re);
        for (size_t i = 0; i < COUNT_OF(threes); i++)
            if (strcmp(re, threes[i].regex) == 0) p->threes[p->n_levels] = &threes[i];
        if (!what && !p->threes[p->n_levels] &&
            compile_regex(&p->code[p->n_levels], re, "own", PCRE2_MULTILINE, &why))
            what = "is not a regex that PCRE2 understands";
        if (what) rc = err_set(e, ERR_DATA, "split regex %.300s %s", re, what);
    }
    if (rc)
        pretok_free(p);
    else
        *out = p;
    return rc;
}

void pretok_free(struct pretok *p) {
    if (!p) return;
    for (int i = 0; i < p->n_levels; i++)
        if (p->code[i]) pcre2_code_free(p->code[i]);
    free(p);
}

struct pretok_run *pretok_run_new(const struct pretok *p) {
    struct pretok_run *r = xcalloc(1, sizeof *r);
    r->p = p;
    pcre2_general_context *memory = pcre_memory();
    r->md = pcre2_match_data_create(1, memory);
    r->mc = pcre2_match_context_create(memory);
    pcre2_general_context_free(memory);
    pcre2_set_match_limit(r->mc, p->own ? OWN_STEPS : UINT32_MAX);
    pcre2_set_depth_limit(r->mc, p->own ? OWN_STEPS : UINT32_MAX);
    pcre2_set_heap_limit(r->mc, p->own ? OWN_STEPS : UINT32_MAX);
    return r;
}

void pretok_run_free(struct pretok_run *r) {
    if (!r) return;
    pcre2_match_data_free(r->md);
    pcre2_match_context_free(r->mc);
    if (r->stack) pcre2_jit_stack_free(r->stack);
    free(r);
}

/* Returns PCRE2's result for a search that starts at `at`. Retries with a larger stack and, except
 * for a file's own regex, without JIT. */
static int match_at(struct pretok_run *r, const pcre2_code *code, const char *s, size_t n,
                    size_t at) {
    PCRE2_SPTR u = (PCRE2_SPTR)s;
    int rc = pcre2_match(code, u, n, at, PCRE2_NO_UTF_CHECK, r->md, r->mc);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT && !r->stack) {
        r->stack = pcre2_jit_stack_create(1u << 16, 1u << 26, NULL);
        if (r->stack) {
            pcre2_jit_stack_assign(r->mc, NULL, r->stack);
            rc = pcre2_match(code, u, n, at, PCRE2_NO_UTF_CHECK, r->md, r->mc);
        }
    }
    if (rc < 0 && rc != PCRE2_ERROR_NOMATCH && !r->p->own)
        rc = pcre2_match(code, u, n, at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, r->md, r->mc);
    return rc;
}

/* Counts the run of digits that begins at `at` and sets *end to its end. */
static size_t digit_run(const struct threes *t, const char *s, size_t n, size_t at, size_t *end) {
    size_t n_digits = 0, len;
    uint32_t cp;
    while ((len = utf8_decode(s + at, n - at, &cp)) &&
           (t->numbers ? utf8_is_number(cp) : utf8_is_digit(cp))) {
        at += len;
        n_digits++;
    }
    *end = at;
    return n_digits;
}

/* Finds the next group of three digits in s[at..n): its start and end; false: none. */
static bool match_threes(struct level *l, const struct threes *t, const char *s, size_t n,
                         size_t at, size_t *start, size_t *end) {
    uint32_t cp;
    while (at < n) {
        if (at >= l->run_end || !l->n_run) {
            size_t n_digits = digit_run(t, s, n, at, &l->run_end);
            if (!n_digits) {
                size_t len = utf8_decode(s + at, n - at, &cp);
                at += len ? len : 1;
                continue;
            }
            l->n_run = n_digits;
            bool inside =
                t->word && utf8_decode(s + l->run_end, n - l->run_end, &cp) && utf8_is_word(cp);
            size_t skip = inside ? n_digits : t->rest ? 0 : n_digits % 3;
            for (size_t i = 0; i < skip; i++) at += utf8_decode(s + at, n - at, &cp);
            l->n_run -= skip;
            if (!l->n_run) continue;
        }
        *start = at;
        size_t take = l->n_run % 3 ? l->n_run % 3 : 3;
        for (size_t i = 0; i < take; i++) at += utf8_decode(s + at, n - at, &cp);
        l->n_run -= take;
        *end = at;
        return true;
    }
    return false;
}

/* Finds the next match at or after `at` in s[from..n), the piece of the previous level; the regex
 * sees only that piece. An empty match splits the piece, except at `at`. False: no match. */
static bool match_regex(struct pretok_run *r, int i, const char *s, size_t n, size_t at,
                        size_t *start, size_t *end) {
    const size_t from = i ? r->level[i - 1].start : 0;
    const PCRE2_SIZE *ov = pcre2_get_ovector_pointer(r->md);
    uint32_t cp;
    for (size_t search = at; search < n; search += utf8_decode(s + search, n - search, &cp)) {
        if (match_at(r, r->p->code[i], s + from, n - from, search - from) < 0) return false;
        *start = ov[0] + from;
        *end = ov[1] + from;
        if (*end > *start || *start > at) return *start < n;
    }
    return false;
}

/* Returns the end of level i's piece that begins at `at` in s[0..n). */
static size_t piece_end(struct pretok_run *r, int i, const char *s, size_t n, size_t at) {
    struct level *l = &r->level[i];
    if (at == l->m_start && l->m_end > at) { /* the match after a gap */
        const size_t end = l->m_end;
        l->m_start = l->m_end = 0;
        return end;
    }
    l->m_start = l->m_end = 0;
    size_t start, end;
    bool found = r->p->threes[i] ? match_threes(l, r->p->threes[i], s, n, at, &start, &end)
                                 : match_regex(r, i, s, n, at, &start, &end);
    if (!found) return n; /* no further match: the rest is one piece */
    if (start == at) return end;
    l->m_start = start;
    l->m_end = end;
    return start;
}

size_t pretok_next(struct pretok_run *r, const char *s, size_t n, size_t at) {
    if (r->text != s || at == 0) {
        memset(r->level, 0, sizeof r->level);
        r->text = s;
    }
    for (int i = 0; i < r->p->n_levels; i++) {
        if (r->level[i].end <= at) {
            r->level[i].end = piece_end(r, i, s, n, at);
            r->level[i].start = at;
        }
        n = r->level[i].end;
    }
    return n;
}

enum pretok_hit pretok_find(struct pretok_run *r, const char *s, size_t n, size_t at, bool more,
                            size_t *start, size_t *end) {
    const uint32_t how = PCRE2_NO_UTF_CHECK | (more ? PCRE2_PARTIAL_HARD : 0);
    if (!r->p->code[0]) return PRETOK_NONE; /* a level without a regex (threes) */
    int rc = pcre2_match(r->p->code[0], (PCRE2_SPTR)s, n, at, how, r->md, r->mc);
    if (rc < 0 && rc != PCRE2_ERROR_PARTIAL) return PRETOK_NONE;
    const PCRE2_SIZE *ov = pcre2_get_ovector_pointer(r->md);
    *start = ov[0] > at ? ov[0] : at;
    *end = ov[1] > *start ? ov[1] : *start;
    return rc < 0 ? PRETOK_PARTIAL : PRETOK_MATCH;
}
