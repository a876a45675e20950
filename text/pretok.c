// SPDX-License-Identifier: MIT
/* text/pretok.c - split regexes over PCRE2 (the only tokenizer file that includes it).
 *
 * Only regexes of pretok.def are ever compiled, so a stranger's file cannot bring a pattern that
 * explodes: each row spends time linear in what it consumes. Compiled once with UTF|UCP and JIT
 * when there is one; match data belong to the caller, so the compiled form is shared by threads.
 * Several regexes of a row are levels: each cuts the pieces of the one before.
 * \s is spelled out before compiling: with UCP, PCRE2 counts U+180E as a space, while the engines
 * the vocabularies were trained with follow White_Space. */
#include "text/pretok.h"

#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "core/attr.h"
#include "core/mem.h"

#define WHITE "\\t-\\r\\x{85}\\p{Z}" /* White_Space as members of a class */

static const struct pretok_row rows[] = {
#define PRETOK(name, aliases, nfc, whole, ...) {name, aliases, nfc, whole, {__VA_ARGS__}},
#include "text/pretok.def"
#undef PRETOK
};

struct pretok {
    pcre2_code *code[PRETOK_LEVELS];
    int n_levels;
};
struct level {             /* of regexes: pieces of the last one are cut by the next */
    size_t end;            /* of the piece in hand */
    size_t m_start, m_end; /* a match found ahead, behind the gap that is the piece; else empty */
};
struct pretok_run {
    const struct pretok *p;
    pcre2_match_data *md;
    pcre2_match_context *mc;
    pcre2_jit_stack *stack;
    const char *text; /* what the levels speak of */
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

/* Equal but for white space around b? */
static bool same_regex(const char *a, const char *b) {
    static const char blank[] = " \t\r\n";
    if (strcmp(a, b) == 0) return true;
    const size_t lead = strspn(b, blank);
    size_t n = strlen(b);
    while (n > lead && strchr(blank, b[n - 1])) n--;
    return strlen(a) == n - lead && memcmp(a, b + lead, n - lead) == 0;
}

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

void pretok_names(struct buf *out) {
    for (size_t i = 0; i < COUNT_OF(rows); i++) buf_fmt(out, "%s%s", i ? ", " : "", rows[i].name);
}

/* \s and \S with their members written out. */
static void spell_white(struct buf *out, const char *re) {
    bool in_class = false;
    for (; *re; re++) {
        if (*re == '\\' && re[1] == 's') {
            buf_str(out, in_class ? WHITE : "[" WHITE "]");
            re++;
        } else if (*re == '\\' && re[1] == 'S' && !in_class) {
            buf_str(out, "[^" WHITE "]");
            re++;
        } else if (*re == '\\' && re[1]) {
            buf_add(out, re++, 2);
        } else {
            if (*re == '[') in_class = true;
            if (*re == ']') in_class = false;
            buf_chr(out, *re);
        }
    }
}

static int compile(pcre2_code **out, const char *regex, const char *name, struct err *e) {
    struct buf re = {0};
    spell_white(&re, regex);
    int code;
    PCRE2_SIZE off;
    pcre2_code *c =
        pcre2_compile((PCRE2_SPTR)re.data, re.len, PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C,
                      &code, &off, NULL);
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
    for (; !rc && p->n_levels < PRETOK_LEVELS && row->regex[p->n_levels]; p->n_levels += !rc)
        rc = compile(&p->code[p->n_levels], row->regex[p->n_levels], row->name, e);
    if (rc)
        pretok_free(p);
    else
        *out = p;
    return rc;
}

void pretok_free(struct pretok *p) {
    if (!p) return;
    for (int i = 0; i < p->n_levels; i++) pcre2_code_free(p->code[i]);
    free(p);
}

static void *or_die(void *p) {
    return p ? p : xmalloc(SIZE_MAX); /* out of memory: the one way to say it */
}

struct pretok_run *pretok_run_new(const struct pretok *p) {
    struct pretok_run *r = xcalloc(1, sizeof *r);
    r->p = p;
    r->md = or_die(pcre2_match_data_create(1, NULL));
    r->mc = or_die(pcre2_match_context_create(NULL));
    pcre2_set_match_limit(r->mc, UINT32_MAX);
    pcre2_set_depth_limit(r->mc, UINT32_MAX);
    return r;
}

void pretok_run_free(struct pretok_run *r) {
    if (!r) return;
    pcre2_match_data_free(r->md);
    pcre2_match_context_free(r->mc);
    if (r->stack) pcre2_jit_stack_free(r->stack);
    free(r);
}

static int match(struct pretok_run *r, const pcre2_code *code, const char *s, size_t n, size_t at) {
    PCRE2_SPTR u = (PCRE2_SPTR)s;
    int rc = pcre2_match(code, u, n, at, PCRE2_NO_UTF_CHECK, r->md, r->mc);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT && !r->stack) {
        r->stack = pcre2_jit_stack_create(1u << 16, 1u << 26, NULL);
        if (r->stack) {
            pcre2_jit_stack_assign(r->mc, NULL, r->stack);
            rc = pcre2_match(code, u, n, at, PCRE2_NO_UTF_CHECK, r->md, r->mc);
        }
    }
    if (rc < 0 && rc != PCRE2_ERROR_NOMATCH)
        rc = pcre2_match(code, u, n, at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, r->md, r->mc);
    return rc;
}

/* Returns the end of the piece that begins at `at` of s[n], as level i cuts it. */
static size_t piece(struct pretok_run *r, int i, const char *s, size_t n, size_t at) {
    struct level *l = &r->level[i];
    if (at == l->m_start && l->m_end > at) { /* the match behind a gap */
        const size_t end = l->m_end;
        l->m_start = l->m_end = 0;
        return end;
    }
    l->m_start = l->m_end = 0;
    if (match(r, r->p->code[i], s, n, at) < 0) return n; /* nothing more: the rest is one piece */
    const PCRE2_SIZE *ov = pcre2_get_ovector_pointer(r->md);
    if (ov[1] <= ov[0]) return n;
    if (ov[0] == at) return ov[1];
    l->m_start = ov[0];
    l->m_end = ov[1];
    return ov[0];
}

size_t pretok_next(struct pretok_run *r, const char *s, size_t n, size_t at) {
    if (r->text != s || at == 0) {
        memset(r->level, 0, sizeof r->level);
        r->text = s;
    }
    for (int i = 0; i < r->p->n_levels; i++) { /* a match sees nothing behind its piece's end */
        if (r->level[i].end <= at) r->level[i].end = piece(r, i, s, n, at);
        n = r->level[i].end;
    }
    return n;
}
