// SPDX-License-Identifier: MIT
/* tests/unit/test_gram_text.c - text grammars, GBNF and Lark: accepted and rejected texts (for
 * JSON, as judged by our parser), recursive rules, and error messages. */
#include "base/attr.h"
#include "base/json.h"
#include "tests/check.h"
#include "grammar/gram.h"
#include "tests/unit/byte_vocab.h"

static struct err e;
static struct gram_vocab *bytes; /* 256 bytes and the end token */

typedef int (*reader)(struct grammar **, const struct gram_vocab *, const char *, size_t,
                      struct err *);

static bool takes(struct grammar *g, const char *text, size_t n) {
    struct gram_state *s = gram_begin(g);
    const bool ok = gram_accept_text(s, text, n, &e) == 0 && gram_may_end(s);
    gram_end(s);
    return ok;
}

/* Checks a grammar. text: texts to accept, NULL, texts to reject, NULL. */
static void check_texts(reader read, const char *grammar, const char *const *text) {
    struct grammar *g = NULL;
    CHECK_OK(read(&g, bytes, grammar, strlen(grammar), &e));
    for (int want = 1; want >= 0 && g; want--, text++)
        for (; *text; text++)
            if (takes(g, *text, strlen(*text)) != want)
                CHECK_FAIL("%s '%s'", want ? "refuses" : "takes", *text);
    grammar_free(g);
}

static const char json_gbnf[] =
    "# JSON, as RFC 8259 has it\n"
    "root   ::= ws value ws\n"
    "value  ::= object | array | string | number | \"true\" | \"false\" | \"null\"\n"
    "object ::= \"{\" ws (member (ws \",\" ws member)*)? ws \"}\"\n"
    "member ::= string ws \":\" ws value\n"
    "array  ::= \"[\" ws (value (ws \",\" ws value)*)?\n"
    "   ws \"]\"\n"
    "string ::= \"\\\"\" ([^\"\\\\\\x00-\\x1f] | \"\\\\\" ([\"\\\\/bfnrt] | \"u\" "
    "[0-9a-fA-F]{4}))* \"\\\"\"\n"
    "number ::= \"-\"? (\"0\" | [1-9] [0-9]*) (\".\" [0-9]+)? ([eE] [-+]? [0-9]+)?\n"
    "ws     ::= [ \\t\\n\\r]*\n";

static void test_gbnf_json(void) {
    static const char *const text[] = {"{}",
                                       "[]",
                                       "  [1, 2.5e-3 ,\"a\\u00e9\\n\", {\"b\":null}]",
                                       "\"\xc3\xa9\"",
                                       "-0",
                                       "[[[[]]]]",
                                       "{\"a\":{\"a\":{}}}",
                                       "{",
                                       "[1,]",
                                       "{\"a\"}",

                                       "\"\\x\"",
                                       "\"\x01\"",
                                       "[1 2]",
                                       "nul",
                                       "",
                                       "+1",
                                       "{a:1}",
                                       "[1]]",
                                       "'a'",
                                       "\"\xff\""};
    struct grammar *g = NULL;
    CHECK_OK(grammar_of_gbnf(&g, bytes, json_gbnf, sizeof json_gbnf - 1, &e));
    for (size_t i = 0; i < COUNT_OF(text) && g; i++) {
        struct json *j = NULL;
        struct err ignored;
        const bool want = json_parse(&j, text[i], strlen(text[i]), "text", &ignored) == 0;
        if (takes(g, text[i], strlen(text[i])) != want) CHECK_FAIL("'%s': not %d", text[i], want);
        json_free(j);
    }
    CHECK(g && !takes(g, "01", 2) && !takes(g, "1.", 2)); /* our parser is not strict there */
    grammar_free(g);
}

static void test_gbnf(void) {
    check_texts(grammar_of_gbnf,
                "root ::= (\"a\" | \"b\"){2,3} \"\\x41\\u00e9\\n\"? x\nx ::= [^a-z]+ | y\ny ::= "
                "\"(\" y \")\" | \"#\" . # no rule: z ::= \"]\"\n",
                (const char *const[]){"abA\xc3\xa9\n1", "aab1", "ba(((#z)))", "aa#\xc3\xa9", NULL,
                                      "a1", "aaaa1", "abz", "ab((#z)", "ab", NULL});
    check_texts(
        grammar_of_gbnf, "root ::= list\nlist ::= item+\nitem ::= \"- \" [a-c]{1,2} \"\\n\"",
        (const char *const[]){"- a\n", "- ab\n- c\n", NULL, "", "- \n", "- abc\n", "- a", NULL});
    check_texts(grammar_of_gbnf, "root ::= \"a\" root \"b\" | \"\"",
                (const char *const[]){"", "ab", "aaabbb", NULL, "aab", "ba", "abab", NULL});
}

static void test_lark(void) {
    check_texts(grammar_of_lark,
                "start: stmt+\n"
                "stmt: NAME \"=\" expr \";\"  // a remark\n"
                "expr: term ((\"+\"|\"-\") term)*\n"
                "    | \"(\" expr \")\"\n"
                "?term: NUMBER -> number\n"
                "    | NAME | \"if\"i~1..2\n"
                "NAME: /[a-z_]\\w*/\n"
                "%import common.NUMBER\n%import common.WS\n%ignore WS\n",
                (const char *const[]){"a = 1;", "a=1+b -  2.5 ;\n c = ( x ) ;", "a = IFif;",
                                      "a=((1+2));", NULL, "a = ;", "a = (1", "1=a;", "", "a=1",
                                      NULL});
    check_texts(
        grammar_of_lark, "start: \"x\" [A] B~2\nA: \"a\"..\"c\"\nB: /[0-9]/ | \"ZZ\"i\n",
        (const char *const[]){"x12", "xb1zZ", "xZZzz", NULL, "x1", "xd12", "x123", "X12", NULL});
    check_texts(grammar_of_lark,
                "start: \"f(\" %json {\"type\": \"object\",\n \"properties\": {\"n\": {\"type\": "
                "\"integer\", \"minimum\": 3}}, \"required\": [\"n\"],\n \"additionalProperties\": "
                "false} \")\"\n",
                (const char *const[]){"f({\"n\": 3})", "f({\"n\":12})", NULL, "f({\"n\": 2})",
                                      "f({})", "f(3)", NULL});
}

/* Features of published grammars: priorities, aliases of imports, comments with '#'. */
/* Tests repetition counts with spaces, and indented Lark as embedded in source code, which
 * llama.cpp and PyPI's lark accept. */
static void test_blanks(void) {
    static const char *const counts[] = {
        "root ::= [a] { 2, 5 }", "root ::= [a]{2 ,5}", "root ::= [a]\t{\n2\n, 5 }",
        "root ::= [a]{ 2 } [a]{ 0 , 3 }", "root ::= [a]{ 2 , } b{ 0 }\nb ::= [b]"};
    for (size_t i = 0; i < COUNT_OF(counts); i++)
        check_texts(grammar_of_gbnf, counts[i],
                    (const char *const[]){"aa", "aaaaa", NULL, "a", "aab", NULL});
    static const char *const larks[] = {
        "start: a b\na: \"x\"\n  | \"y\"\nb: \"z\"~1..2\n",
        "  start: a b\n  a: \"x\"\n   | \"y\"\n  b: \"z\" ~ 1 .. 2\n",
        "\n    start: a b\n\n    // remark: of a line\n    a: \"x\" | \"y\"\n    ?b: \"z\"~1 .. "
        "2\n    ",
        "\tstart: a\n\t  b\n\ta: X\n\tX.2: \"x\" | \"y\"  # the end\n\tb: \"z\" [\"z\"]\n\t%ignore "
        "\"_\"\n",
        "    %import common.WS\n    start: a \"z\" (\n        \"z\"\n    )?\n    !a: \"x\" | "
        "\"y\"\n"};
    for (size_t i = 0; i < COUNT_OF(larks); i++)
        check_texts(grammar_of_lark, larks[i],
                    (const char *const[]){"xz", "yzz", NULL, "x", "zz", "xzzz", NULL});
}

static void test_lark_customs(void) {
    check_texts(grammar_of_lark,
                "# words\nstart: (KEY | NAME)+ W?\nKEY.2: \"if\"i  # first\nNAME.-1: /[a-z]+/\n"
                "%import common.INT -> W\n%ignore \" \"\n",
                (const char *const[]){"IF foo", "if", "ab 12", NULL, "12", "Foo", "a 1 b", NULL});
}

/* Tests left-recursive rules, which are common in arithmetic grammars; expected verdicts are those
 * of PyPI's lark (Earley). */
static void test_left_recursion(void) {
    check_texts(
        grammar_of_lark,
        "%llguidance {\"no_forcing\": true}\n%import common.INT\n%import common.WS\n%ignore WS\n"
        "start: sum\n?sum: product | sum \"+\" product | sum \"-\" product\n"
        "?product: atom | product \"*\" atom\n?atom: INT | \"-\" atom | \"(\" sum \")\"\n",
        (const char *const[]){"1", "1 + 2*3", "-(4-1)", "1-2-3 - 4*5*6", "((1))", NULL, "", "1+",
                              "+1", "1*", "(1", "1 2", "*1*2", NULL});
    check_texts(grammar_of_gbnf,
                "root ::= list \";\"\nlist ::= list \",\" [a-z] | list | [a-z] root?\n",
                (const char *const[]){"a;", "a,b,c;", "ax;;", "ax,y;,z;", NULL, ";", ",a;", "a,;",
                                      "ax,y;,;", NULL});
}

static void test_detected(void) {
    struct grammar *g = NULL;
    CHECK_OK(grammar_of_text(&g, bytes, "root ::= \"a\"", 12, &e));
    CHECK(g && takes(g, "a", 1));
    grammar_free(g);
    CHECK_OK(grammar_of_text(&g, bytes, "start: \"a\"", 10, &e));
    CHECK(g && takes(g, "a", 1));
    grammar_free(g);
}

static void test_mistakes(void) {
    static const struct {
        reader read;
        const char *text, *message;
    } bad[] = {
        {grammar_of_gbnf, "root ::= [x]? root \"a\" | \"b\"", "left recursion): 'root'"},
        {grammar_of_gbnf, "root ::= root \"a\"", "no text can satisfy"},
        {grammar_of_gbnf, "root ::= a\na ::= [x]? b\nb ::= a \"c\" | \"d\"", "left recursion"},
        {grammar_of_gbnf, "root ::= x", "line 1: undefined rule 'x'"},
        {grammar_of_gbnf, "root ::= \"b\"\n\nx ::= \"a", "closing quote"},
        {grammar_of_gbnf, "a ::= \"b\"", "undefined rule 'root'"},
        {grammar_of_gbnf, "", "undefined rule 'root'"},
        {grammar_of_gbnf, "root ::= \"a\"{3,1}", "a count must be"},
        {grammar_of_gbnf, "root ::= \"a\"{100001}", "a count must be"},
        {grammar_of_gbnf, "root ::= a\na ::= b\nb ::= a2 \"x\"\na2 ::= \"y\" b",
         "no text can satisfy"},
        {grammar_of_gbnf, "root ::= [a", "']' is missing"},
        {grammar_of_gbnf, "root ::= (\"a\"", "')' is missing"},
        {grammar_of_gbnf, "root ::= \"a\")", "syntax error"},
        {grammar_of_gbnf, "root ::= \"a\"\nroot ::= \"b\"",
         "line 2: the rule 'root' is defined twice"},
        {grammar_of_gbnf, "root ::= <[257]>", "no such token: 257"},
        {grammar_of_gbnf, "root ::= ((((((((\"a\"]", "unexpected ']'"},
        {grammar_of_lark, "start: a{b}", "templates"},
        {grammar_of_lark, "start: a{x}\na{y}: y", "templates"},
        {grammar_of_lark, "%import x.Y\nstart: \"a\"", "only names of `common`"},
        {grammar_of_lark, "%import common.Y\nstart: \"a\"", "unknown name common.Y"},
        {grammar_of_lark, "start: /a", "closing '/'"},
        {grammar_of_lark, "\nstart: /(?=a)/", "line 2: lookaround"},
        {grammar_of_lark, "foo bar", "expected a rule"},
        {grammar_of_lark, "", "undefined rule 'start'"},
        {grammar_of_lark, "start: \"a\"..\"zz\"", "single characters"},
        {grammar_of_lark, "%declare X\nstart: \"a\"", "not supported"},
        {grammar_of_lark, "start: sum\nsum: a \"a\" | \"b\"\na: sum \"c\"",
         "left recursion): 'sum'"},
        {grammar_of_lark, "start: a\na[lazy]: /b.*/", "line 2: attributes of rules"},
        {grammar_of_lark, "start: %json {\"type\": 3}", "must be a JSON type"},
        {grammar_of_lark, "start: %json {", "%json"},
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct grammar *g = NULL;
        CHECK_ERR(bad[i].read(&g, bytes, bad[i].text, strlen(bad[i].text), &e), ERR_DATA,
                  bad[i].message);
    }
}

/* Tests grammars nested and chained deeper than our stack limit. */
static void test_deep(void) {
    struct buf b = {0};
    struct grammar *g = NULL;
    buf_str(&b, "root ::= ");
    for (int i = 0; i < 100000; i++) buf_chr(&b, '(');
    CHECK_ERR(grammar_of_gbnf(&g, bytes, b.data, b.len, &e), ERR_DATA, "nested more than 200");
    buf_reset(&b);
    for (int i = 0; i < 3000; i++)
        buf_fmt(&b, "%s%d ::= \"x\"? r%d\n", i ? "r" : "root ::= r0\nr", i, i + 1);
    buf_str(&b, "r3000 ::= \"y\"\n");
    CHECK_ERR(grammar_of_gbnf(&g, bytes, b.data, b.len, &e), ERR_DATA,
              "nested more than 2000 deep");
    buf_reset(&b);
    for (int i = 0; i < 1500; i++)
        buf_fmt(&b, "%s%d ::= \"x\" r%d | \"z\"\n", i ? "r" : "root ::= r0\nr", i, i + 1);
    buf_str(&b, "r1500 ::= \"y\"\n");
    CHECK_OK(grammar_of_gbnf(&g, bytes, b.data, b.len, &e));
    CHECK(g && takes(g, "xxxz", 4) && !takes(g, "xxxy", 4));
    grammar_free(g);
    buf_release(&b);
}

int main(void) {
    CHECK_OK(byte_vocab(&bytes, &e));
    RUN(test_gbnf_json);
    RUN(test_gbnf);
    RUN(test_lark);
    RUN(test_blanks);
    RUN(test_lark_customs);
    RUN(test_left_recursion);
    RUN(test_detected);
    RUN(test_mistakes);
    RUN(test_deep);
    gram_vocab_free(bytes);
    return check_done();
}
