// SPDX-License-Identifier: MIT
/* tests/unit/test_gram_large.c - schemas as large as those for programs' configuration files: equal
 * sets of conditions are compiled once, branches that no value satisfies are dropped, and the list
 * of ignored keywords is limited. The expected verdicts follow from the standard. */
#include "base/json.h"
#include "base/mem.h"
#include "grammar/gram.h"
#include "tests/check.h"
#include "tests/unit/byte_vocab.h"

static struct err e;
static struct gram_vocab *bytes;

static struct grammar *of_schema(const struct buf *text, struct buf *notes) {
    struct json *s = NULL;
    struct grammar *g = NULL;
    CHECK_OK(json_parse(&s, text->data, text->len, "schema", &e));
    CHECK_OK(grammar_of_schema(&g, bytes, s, &(struct gram_opts){.notes = notes}, &e));
    json_free(s);
    return g;
}

static void check(struct grammar *g, const char *text, bool want) {
    struct gram_state *s = gram_begin(g);
    const bool ok = gram_accept_text(s, text, strlen(text), &e) == 0 && gram_may_end(s);
    if (ok != want) CHECK_FAIL("%s: %s", text, ok ? "taken" : "refused");
    gram_end(s);
}

/* Tests 200 kinds of tasks, each with a branch for its other members: 40,000 pairs. */
static void test_tasks(void) {
    enum { TASKS = 200 };
    struct buf b = {0};
    buf_str(&b, "{\"type\": \"object\", \"required\": [\"task\"], \"properties\": {\"with\": {}, "
                "\"task\": {\"anyOf\": [");
    for (int i = 0; i < TASKS; i++)
        buf_fmt(&b, "%s{\"enum\": [\"t%d\"], \"x-of\": %d}", i ? ", " : "", i, i);
    buf_str(&b, "]}}, \"additionalProperties\": false, \"anyOf\": [");
    for (int i = 0; i < TASKS; i++)
        buf_fmt(&b,
                "%s{\"properties\": {\"task\": {\"pattern\": \"^t%d$\"}, \"with\": {\"const\": "
                "%d}}}",
                i ? ", " : "", i, i);
    buf_str(&b, "]}");
    struct grammar *g = of_schema(&b, NULL);
    if (g) {
        check(g, "{\"with\": 7, \"task\": \"t7\"}", true);
        check(g, "{\"task\": \"t199\"}", true);
        check(g, "{\"with\": 8, \"task\": \"t7\"}", false);
        check(g, "{\"task\": \"t200\"}", false);
    }
    grammar_free(g);
    buf_release(&b);
}

/* Tests 150 parts that together form the whole and repeat its conditions on 150 names: 22,500 pairs
 * if each reference were a separate condition. */
static void test_parts(void) {
    enum { PARTS = 150 };
    struct buf b = {0}, props = {0};
    for (int i = 0; i < PARTS; i++)
        buf_fmt(&props, "%s\"n%d\": {\"$ref\": \"#/definitions/n%d\"}", i ? ", " : "", i, i);
    buf_str(&b, "{\"type\": \"object\", \"additionalProperties\": false, \"definitions\": {");
    for (int i = 0; i < PARTS; i++)
        buf_fmt(&b,
                "\"n%d\": {\"type\": \"integer\", \"maximum\": %d}, \"p%d\": {\"description\": "
                "\"part\", \"$ref\": \"#\", \"allOf\": [{\"properties\": {%s}}]},",
                i, i, i, props.data);
    buf_fmt(&b, "\"last\": {}}, \"properties\": {%s", props.data);
    for (int i = 0; i < PARTS; i++)
        buf_fmt(&b, ", \"p%d\": {\"$ref\": \"#/definitions/p%d\"}", i, i);
    buf_str(&b, "}}");
    struct grammar *g = of_schema(&b, NULL);
    if (g) {
        check(g, "{\"n3\": 3, \"p4\": {\"n5\": 5, \"p149\": {\"n0\": -1}}}", true);
        check(g, "{\"n3\": 4}", false);
        check(g, "{\"p4\": {\"n5\": 6}}", false);
        check(g, "{\"p4\": {\"p149\": {\"n0\": \"a\"}}}", false);
    }
    grammar_free(g);
    buf_release(&b);
    buf_release(&props);
}

static size_t lines(const struct buf *b) {
    size_t n = 0;
    for (size_t i = 0; i < b->len; i++) n += b->data[i] == '\n';
    return n;
}

/* Checks that an ignored clause is listed once, with its path, however many places refer to it, and
 * that at most 200 are listed. */
static void test_notes(void) {
    static const char once[] =
        "{\"$defs\": {\"s\": {\"type\": \"array\", \"uniqueItems\": true, \"items\": {}}}, "
        "\"properties\": {\"a\": {\"$ref\": \"#/$defs/s\", \"maxItems\": 3}, \"b\": {\"$ref\": "
        "\"#/$defs/s\", \"maxItems\": 4}}}";
    struct buf b = {0}, notes = {0};
    buf_str(&b, once);
    grammar_free(of_schema(&b, &notes));
    CHECK_EQ_STR(notes.data,
                 "$defs.s.uniqueItems: uniqueItems is supported for listed values only\n");
    buf_reset(&b);
    buf_reset(&notes);
    buf_str(&b, "{\"properties\": {");
    for (int i = 0; i < 1000; i++)
        buf_fmt(&b, "%s\"a%d\": {\"type\": \"array\", \"uniqueItems\": true}", i ? ", " : "", i);
    buf_str(&b, "}}");
    grammar_free(of_schema(&b, &notes));
    CHECK(lines(&notes) == 201 && strstr(notes.data, "properties.a199.uniqueItems: ") &&
          strstr(notes.data, "\nfurther unsupported clauses are not listed\n"));
    buf_release(&b);
    buf_release(&notes);
}

int main(void) {
    CHECK_OK(byte_vocab(&bytes, &e));
    RUN(test_tasks);
    RUN(test_parts);
    RUN(test_notes);
    gram_vocab_free(bytes);
    return check_done();
}
