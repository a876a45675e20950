// SPDX-License-Identifier: MIT
/* text/re.c - regular expression search with PCRE2. Patterns are compiled for each search, since a
 * run makes only a few dozen. The JIT is not used, because only the interpreter obeys the limits
 * exactly. */
#include "text/re.h"

#include <stdbool.h>
#include <string.h>

#include "base/printable.h"
#include "text/pcre.h"

/* Limits on backtracking steps and heap (KiB). A search takes some tens of milliseconds at most. */
enum { MATCH_LIMIT = 1000000, HEAP_LIMIT_KIB = 64 << 10 };

/* Sets and returns ERR_DATA with PCRE2's message for the code. */
static int set_re_error(struct err *e, const char *pattern, int code) {
    PCRE2_UCHAR why[128] = "";
    pcre2_get_error_message(code, why, sizeof why);
    return err_set(e, ERR_DATA, "the regular expression '%s': %s",
                   show_n(pattern, strlen(pattern)).s, (const char *)why);
}

/* Compiles a pattern in the syntax of Perl, or of JavaScript. NULL: invalid, *code is set. */
static pcre2_code *compile(const char *pattern, bool js, int *code) {
    const uint32_t own = js ? PCRE2_MATCH_UNSET_BACKREF | PCRE2_ALLOW_EMPTY_CLASS : 0;
    PCRE2_SIZE off;
    pcre2_general_context *memory = pcre_memory();
    pcre2_compile_context *cc = pcre2_compile_context_create(memory);
    pcre2_general_context_free(memory);
    if (js) pcre2_set_compile_extra_options(cc, PCRE2_EXTRA_ALT_BSUX);
    pcre2_code *c =
        pcre2_compile((PCRE2_SPTR)pattern, strlen(pattern),
                      own | PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C | PCRE2_DOLLAR_ENDONLY,
                      code, &off, cc);
    pcre2_compile_context_free(cc);
    return c;
}

/* Searches s[0..n) for the compiled pattern, and frees it. */
static int search(pcre2_code *c, const char *pattern, const char *s, size_t n, enum re_answer *out,
                  struct err *e) {
    pcre2_general_context *memory = pcre_memory();
    pcre2_match_data *md = pcre2_match_data_create_from_pattern(c, memory);
    pcre2_match_context *mc = pcre2_match_context_create(memory);
    pcre2_general_context_free(memory);
    pcre2_set_match_limit(mc, MATCH_LIMIT);
    pcre2_set_heap_limit(mc, HEAP_LIMIT_KIB);
    int rc = pcre2_match(c, (PCRE2_SPTR)s, n, 0, 0, md, mc);
    pcre2_match_context_free(mc);
    pcre2_match_data_free(md);
    pcre2_code_free(c);
    *out = rc >= 0 ? RE_YES : rc == PCRE2_ERROR_NOMATCH ? RE_NO : RE_GAVE_UP;
    if (rc >= 0 || rc == PCRE2_ERROR_NOMATCH || rc == PCRE2_ERROR_MATCHLIMIT ||
        rc == PCRE2_ERROR_HEAPLIMIT || rc == PCRE2_ERROR_DEPTHLIMIT)
        return 0;
    return set_re_error(e, pattern, rc);
}

int re_search(const char *pattern, const char *s, size_t n, enum re_answer *out, struct err *e) {
    int code;
    pcre2_code *c = compile(pattern, false, &code);
    return c ? search(c, pattern, s, n, out, e) : set_re_error(e, pattern, code);
}

int re_search_schema(const char *pattern, const char *s, size_t n, enum re_answer *out,
                     struct err *e) {
    int code;
    pcre2_code *c = compile(pattern, false, &code);
    if (!c) c = compile(pattern, true, &code);
    return c ? search(c, pattern, s, n, out, e) : set_re_error(e, pattern, code);
}
