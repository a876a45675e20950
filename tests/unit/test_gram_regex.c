// SPDX-License-Identifier: MIT
/* tests/unit/test_gram_regex.c - regular expressions of grammar/: anchors in any place compared
 * with PCRE2, on all short texts; patterns with too many states to store. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "grammar/gram.h"
#include "tests/check.h"
#include "tests/unit/byte_vocab.h"
#include "text/utf8.h"

static struct gram_vocab *bytes;
static struct err e;

static bool takes(struct grammar *g, const char *text, size_t n) {
    struct gram_state *s = gram_begin(g);
    struct err ignored;
    const bool ok = gram_accept_text(s, text, n, &ignored) == 0 && gram_may_end(s);
    gram_end(s);
    return ok;
}

/* Compares with PCRE2 on every text of at most 5 of the letters "ab,". */
static void beside_pcre2(const char *pattern) {
    struct grammar *g = NULL;
    int code, n_taken = 0;
    size_t at;
    char whole[200], text[5];
    snprintf(whole, sizeof whole, "\\A(?:%s)\\z", pattern);
    pcre2_code *re = pcre2_compile((PCRE2_SPTR)whole, strlen(whole),
                                   PCRE2_UTF | PCRE2_DOLLAR_ENDONLY, &code, &at, NULL);
    pcre2_match_data *m = re ? pcre2_match_data_create_from_pattern(re, NULL) : NULL;
    CHECK(m != NULL);
    const int rc = grammar_of_regex(&g, bytes, pattern, strlen(pattern), &e);
    if (rc && !strstr(e.msg, "no text can satisfy")) CHECK_FAIL("'%s': %s", pattern, e.msg);
    for (size_t n = 0, most = 1; n <= 5 && m; n++, most *= 3)
        for (size_t k = 0; k < most; k++) {
            size_t x = k;
            for (size_t i = 0; i < n; i++, x /= 3) text[i] = "ab,"[x % 3];
            const bool want = pcre2_match(re, (PCRE2_SPTR)text, n, 0, 0, m, NULL) >= 0;
            const bool got = g && takes(g, text, n);
            n_taken += want;
            if (want != got) CHECK_FAIL("'%s' and '%.*s'", pattern, (int)n, text);
        }
    CHECK(rc == 0 || n_taken == 0);
    grammar_free(g);
    pcre2_match_data_free(m);
    pcre2_code_free(re);
}

static void test_anchors(void) {
    static const char *const pattern[] = {
        "(^|,)a",     "a(,|$)",          "(a|b)*(,$)?",      "^^a$$",           "(^a|b$|,){2}",
        "(^|a)(b|$)", "((^a)?b?){1,3}",  "(a$|b)(,|^a)?",    "($|a){3}",        "(^a|^b|,)+",
        "(a|$)b?",    "^(a|^b)*$",       "(^$|a)b*",         "(a*$|b*^|,)a?",   "(^){1}a",
        "(a?^b?){2}", "(^|,)(^|a)b",     "((a|^)(b|$)){2,}", "(,?$){0,2}a?",    "(^[ab]|,$)*",
        "a^b|b",      "[ab]*(^|$)[ab]*", "(^a$|^b,)|,,",     "(?:^)?a(?:$)?b?",
    };
    for (size_t i = 0; i < COUNT_OF(pattern); i++) beside_pcre2(pattern[i]);
}

/* Tests anchors at random positions. */
static void test_chance(void) {
    static const char *const part[] = {"a", "b", ",", "(^|a)",  "($|b)",  "(^|,|$)", "[ab]",
                                       ".", "^", "$", "(a$|b)", "(^b|,)", "(?:)"};
    static const char *const times[] = {"", "", "", "?", "*", "+", "{2}", "{1,2}", "{0,3}"};
    struct rng r;
    rng_seed(&r, 27);
    for (int n = 0; n < 150; n++) {
        char text[150] = "";
        const size_t parts = 1 + rng_u64(&r) % 5;
        for (size_t i = 0; i < parts; i++) {
            const char *p = part[rng_u64(&r) % COUNT_OF(part)];
            strcat(text, p);
            if (!strchr("^$", p[0])) strcat(text, times[rng_u64(&r) % COUNT_OF(times)]);
            if (rng_u64(&r) % 6 == 0 && i + 1 < parts) strcat(text, "|");
        }
        beside_pcre2(text);
    }
}

/* Tests a pattern whose deterministic automaton must remember the position of each '@' and has 2^43
 * states. Only the states that a text reaches are built, so walks stay small, and a pattern that no
 * text satisfies is refused at once; a search through all states would take minutes. */
static void test_wide(void) {
    static const char *const wide[] = {
        ".*@.{43}s", "....+............................................@....................s",
        "(.*a.{20}){20}.*b.{300}", "(^|.*@.{43})(x$|y)"};
    for (size_t i = 0; i < COUNT_OF(wide); i++) {
        struct grammar *g = NULL;
        struct rng r;
        uint32_t bits[9];
        rng_seed(&r, i);
        CHECK_OK(grammar_of_regex(&g, bytes, wide[i], strlen(wide[i]), &e));
        struct gram_state *s = g ? gram_begin(g) : NULL;
        for (int n = 0; s && n < 100; n++) {
            const char *from = &"@a@bs@xy"[rng_u64(&r) % 8];
            CHECK_OK(gram_mask(s, bits, &e));
            if (gram_accept_text(s, from, 1, &e) && e.code == ERR_DATA) CHECK_FAIL("%s", e.msg);
        }
        if (g) CHECK(grammar_bytes(g) < (size_t)8 << 20);
        gram_end(s);
        grammar_free(g);
    }
    struct grammar *g = NULL;
    const char *never = "....+............................................@...................^s";
    CHECK_ERR(grammar_of_regex(&g, bytes, never, strlen(never), &e), ERR_DATA,
              "no text can satisfy");
}

/* Checks that \\s and \\S, \\d and \\D, \\w and \\W are complements: every character is in exactly
 * one of each pair. */
static void test_complements(void) {
    static const char letters[] = "sdw";
    for (const char *l = letters; *l; l++) {
        char text[3][16];
        snprintf(text[0], sizeof text[0], "[^\\%c\\%c]", *l, *l ^ 0x20);
        snprintf(text[1], sizeof text[1], "\\%c", *l);
        snprintf(text[2], sizeof text[2], "\\%c", *l ^ 0x20);
        struct grammar *g[3] = {NULL};
        CHECK_ERR(grammar_of_regex(&g[0], bytes, text[0], strlen(text[0]), &e), ERR_DATA,
                  "no text can satisfy");
        CHECK_OK(grammar_of_regex(&g[1], bytes, text[1], 2, &e));
        CHECK_OK(grammar_of_regex(&g[2], bytes, text[2], 2, &e));
        for (uint32_t cp = 0; cp < 0x3100 && g[1] && g[2]; cp++) {
            char c[4];
            const size_t n = utf8_encode(cp, c);
            if (takes(g[1], c, n) == takes(g[2], c, n)) CHECK_FAIL("\\%c: U+%04X", *l, cp);
        }
        grammar_free(g[1]);
        grammar_free(g[2]);
    }
}

int main(void) {
    CHECK_OK(byte_vocab(&bytes, &e));
    RUN(test_anchors);
    RUN(test_chance);
    RUN(test_wide);
    RUN(test_complements);
    gram_vocab_free(bytes);
    return check_done();
}
