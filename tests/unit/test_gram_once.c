// SPDX-License-Identifier: MIT
/* tests/unit/test_gram_once.c - unlisted member names are unique within an object: accepted and
 * rejected texts, random walks that must give valid JSON, masks compared with tests of each token,
 * and the shortest completions. */
#include "base/json.h"
#include "base/mem.h"
#include "base/rng.h"
#include "grammar/gram.h"
#include "tests/check.h"
#include "tests/unit/byte_vocab.h"
#include "tok/tok.h"

static struct err e;
static struct gram_vocab *words;

/* tokens that end a name, hold a value, and begin or complete the next name */
static const char *const word[] = {
    "{\"",   "\": ",      "\": true, \"", "\": true, \"a\": ", "\": 1, \"b\"", "true, \"",
    "}",     "a\": true", "\": {\"a\": ", "\": [], \"\": ",    "\": true}",    "ab",
    "\"a\"", "\\\""};

static struct grammar *of_schema(const char *text) {
    struct json *s = NULL;
    struct grammar *g = NULL;
    const struct gram_opts o = {.space = GRAM_SPACE_ONE};
    CHECK_OK(json_parse(&s, text, strlen(text), "schema", &e));
    CHECK_OK(grammar_of_schema(&g, words, s, &o, &e));
    json_free(s);
    return g;
}

#define YES "{\"type\": \"boolean\"}"
#define FREE "{\"type\": \"object\", \"additionalProperties\": " YES "}"
#define TWO                                                                                        \
    "{\"type\": \"object\", \"patternProperties\": {\"^[ab]$\": " YES                              \
    "}, \"additionalProperties\": false}"

static void test_texts(void) {
    static const struct {
        const char *schema, *text;
        bool whole;
    } c[] = {
        {FREE, "{\"a\": true, \"b\": true, \"ab\": false}", true},
        {FREE, "{\"a\": true, \"b\": true, \"a\": false}", false},
        {FREE, "{\"\": true, \"\": true}", false},
        {FREE, "{\"a\": true, \"aa\": true, \"aaa\": true}", true},
        {FREE, "{\"a\\\"\": true, \"a\": true}", true},
        {FREE, "{\"a\\\"\": true, \"a\\\"\": true}", false},
        {FREE, "{\"gr\xc3\xb6\xc3\x9f\x65\": true, \"gr\xc3\xb6\xc3\x9f\x65\": true}", false},
        {TWO, "{\"a\": true, \"b\": true}", true},
        {TWO, "{\"a\": true, \"b\": true, \"a\": true}", false},
        /* each object by itself */
        {"{\"type\": \"array\", \"items\": " FREE "}", "[{\"a\": true}, {\"a\": true}]", true},
        {"{\"type\": \"object\", \"additionalProperties\": " FREE "}",
         "{\"a\": {\"a\": true}, \"b\": {\"a\": true}}", true},
        {"{\"type\": \"object\", \"additionalProperties\": " FREE "}",
         "{\"a\": {\"a\": true}, \"a\": {\"b\": true}}", false},
        /* any value */
        {"true", "{\"a\": {\"b\": 1, \"c\": [{\"b\": 2}]}, \"b\": 1}", true},
        {"true", "{\"a\": {\"b\": 1, \"b\": 2}}", false},
        {"{\"type\": \"object\"}", "{\"x\": 1, \"y\": 2, \"x\": 3}", false},
        /* next to listed ones */
        {"{\"type\": \"object\", \"properties\": {\"a\": " YES "}, \"additionalProperties\": true}",
         "{\"a\": true, \"b\": 1, \"c\": 2}", true},
        {"{\"type\": \"object\", \"properties\": {\"a\": " YES "}, \"additionalProperties\": true}",
         "{\"a\": true, \"b\": 1, \"b\": 2}", false},
    };
    for (size_t i = 0; i < COUNT_OF(c); i++) {
        struct grammar *g = of_schema(c[i].schema);
        struct gram_state *s = gram_begin(g);
        const bool whole =
            gram_accept_text(s, c[i].text, strlen(c[i].text), &e) == 0 && gram_may_end(s);
        if (whole != c[i].whole) CHECK_FAIL("%s: %s", c[i].schema, c[i].text);
        gram_end(s);
        grammar_free(g);
    }
}

static void add_token(struct buf *text, int32_t id) {
    if (id >= WORDS_FROM)
        buf_str(text, word[id - WORDS_FROM]);
    else
        buf_chr(text, (char)(uint8_t)id);
}

/* Checks the mask against single tokens. Returns a random allowed token, or -1. */
static int32_t pick(const struct gram_state *s, struct rng *rng) {
    static const char liked[] = "ab\":, {}truefals1";
    uint32_t bits[(WORDS_FROM + COUNT_OF(word)) / 32 + 1];
    int32_t id = -1;
    int n = 0;
    CHECK_OK(gram_mask(s, bits, &e));
    for (int32_t i = 0; i < (int32_t)(WORDS_FROM + COUNT_OF(word)); i++) {
        const bool can = bits[i / 32] >> i % 32 & 1;
        if (can != gram_allows(s, i)) CHECK_FAIL("token %d: the mask says %d", (int)i, (int)can);
        if (!can || i == 256 || (i < 256 && (i == 0 || !strchr(liked, i)))) continue;
        if (rng_u64(rng) % (uint64_t)++n == 0) id = i;
    }
    return id;
}

/* Completes a copy of s with the shortest completion and parses the text. */
static void check_way(const struct gram_state *s, const struct buf *so_far) {
    struct gram_state *c = gram_copy(s);
    struct ids way = {0};
    struct buf text = {0};
    struct json *j = NULL;
    buf_add(&text, so_far->data, so_far->len);
    CHECK(gram_way_out(c, &way));
    for (int64_t i = 0; i < way.n; i++) {
        CHECK_OK(gram_accept(c, way.v[i], &e));
        add_token(&text, way.v[i]);
    }
    CHECK(gram_may_end(c));
    if (json_parse(&j, text.data, text.len, "way", &e)) CHECK_FAIL("%s: %s", text.data, e.msg);
    json_free(j);
    ids_release(&way);
    buf_release(&text);
    gram_end(c);
}

static void test_walks(void) {
    static const char *const schema[] = {
        FREE, TWO, "{\"type\": \"object\"}",
        "{\"type\": \"object\", \"additionalProperties\": " YES ", \"minProperties\": 3}",
        "{\"type\": \"object\", \"patternProperties\": {\"^a\": " YES
        ", \"b$\": {\"enum\": [true]}}, "
        "\"additionalProperties\": {\"enum\": [1]}, \"minProperties\": 2, \"maxProperties\": 5}"};
    struct rng rng;
    rng_seed(&rng, 7);
    for (size_t i = 0; i < COUNT_OF(schema); i++) {
        struct grammar *g = of_schema(schema[i]);
        for (int walk = 0; walk < 40; walk++) {
            struct gram_state *s = gram_begin(g);
            struct buf text = {0};
            struct json *j = NULL;
            for (int n = 0; n < 60; n++) {
                const int32_t id = pick(s, &rng);
                if (id < 0) break;
                CHECK_OK(gram_accept(s, id, &e));
                add_token(&text, id);
                if (n % 7 == 0) check_way(s, &text);
            }
            if (gram_may_end(s) && json_parse(&j, text.data, text.len, "text", &e))
                CHECK_FAIL("%s: %s", text.data, e.msg);
            if (!gram_may_end(s)) check_way(s, &text);
            json_free(j);
            buf_release(&text);
            gram_end(s);
        }
        grammar_free(g);
    }
}

int main(void) {
    CHECK_OK(byte_word_vocab(&words, word, COUNT_OF(word), &e));
    RUN(test_texts);
    RUN(test_walks);
    gram_vocab_free(words);
    return check_done();
}
