// SPDX-License-Identifier: MIT
/* text/pretok.c - split regexes over PCRE2 (the only tokenizer file that includes it).
 *
 * Only regexes of pretok.def are ever compiled, so a stranger's file cannot bring a pattern that
 * explodes: each row spends time linear in what it consumes. Compiled once with UTF|UCP and JIT
 * when there is one; match data belong to the caller, so the compiled form is shared by threads.
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
#define PRETOK(name, aliases, nfc, whole, regex) {name, aliases, nfc, whole, regex},
#include "text/pretok.def"
#undef PRETOK
};

struct pretok {
    pcre2_code *code;
};
struct pretok_run {
    const struct pretok *p;
    pcre2_match_data *md;
    pcre2_match_context *mc;
    pcre2_jit_stack *stack;
    const char *text;      /* of the match in hand */
    size_t m_start, m_end; /* found ahead: a gap is returned before it */
};

const struct pretok_row *pretok_by_name(const char *name) {
    size_t n = strlen(name);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (strcmp(rows[i].name, name) == 0) return &rows[i];
        const char *a = n ? strstr(rows[i].aliases, name) : NULL;
        if (a && a > rows[i].aliases && a[-1] == ' ' && a[n] == ' ') return &rows[i];
    }
    return NULL;
}

const struct pretok_row *pretok_by_regex(const char *regex) {
    static const char blank[] = " \t\r\n";
    size_t lead = strspn(regex, blank);
    size_t n = strlen(regex);
    while (n > lead && strchr(blank, regex[n - 1])) n--;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (strcmp(rows[i].regex, regex) == 0 ||
            (strlen(rows[i].regex) == n - lead &&
             memcmp(rows[i].regex, regex + lead, n - lead) == 0))
            return &rows[i];
    return NULL;
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

int pretok_new(struct pretok **out, const struct pretok_row *row, struct err *e) {
    struct buf re = {0};
    spell_white(&re, row->regex);
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
            row->name, (const char *)why, (size_t)off);
    }
    (void)pcre2_jit_compile(c, PCRE2_JIT_COMPLETE); /* without JIT the interpreter runs */
    struct pretok *p = xcalloc(1, sizeof *p);
    p->code = c;
    *out = p;
    return 0;
}

void pretok_free(struct pretok *p) {
    if (!p) return;
    pcre2_code_free(p->code);
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

static int match(struct pretok_run *r, const char *s, size_t n, size_t at) {
    PCRE2_SPTR u = (PCRE2_SPTR)s;
    int rc = pcre2_match(r->p->code, u, n, at, PCRE2_NO_UTF_CHECK, r->md, r->mc);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT && !r->stack) {
        r->stack = pcre2_jit_stack_create(1u << 16, 1u << 26, NULL);
        if (r->stack) {
            pcre2_jit_stack_assign(r->mc, NULL, r->stack);
            rc = pcre2_match(r->p->code, u, n, at, PCRE2_NO_UTF_CHECK, r->md, r->mc);
        }
    }
    if (rc < 0 && rc != PCRE2_ERROR_NOMATCH)
        rc = pcre2_match(r->p->code, u, n, at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, r->md, r->mc);
    return rc;
}

size_t pretok_next(struct pretok_run *r, const char *s, size_t n, size_t at) {
    if (r->text == s && at == r->m_start && r->m_end > at) { /* behind a gap */
        r->text = NULL;
        return r->m_end;
    }
    r->text = NULL;
    if (match(r, s, n, at) < 0) return n; /* nothing more matches: the rest is one piece */
    const PCRE2_SIZE *ov = pcre2_get_ovector_pointer(r->md);
    if (ov[1] <= ov[0]) return n;
    if (ov[0] > at) {
        r->text = s;
        r->m_start = ov[0];
        r->m_end = ov[1];
        return ov[0];
    }
    return ov[1];
}
