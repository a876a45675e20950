// SPDX-License-Identifier: MIT
/* tests/unit/test_gram_least.c - the fewest bytes that complete a text, compared with an exhaustive
 * search; and random walks, which must end with a complete text under every token limit that allows
 * the shortest one. */
#include "base/json.h"
#include "base/mem.h"
#include "base/rng.h"
#include "grammar/gram.h"
#include "tests/check.h"
#include "tests/unit/byte_vocab.h"
#include "text/schema.h"
#include "tok/tok.h"

static struct err e;
static struct gram_vocab *bytes, *words;
static struct rng rng;

static const char some[] = " {}[]:,\"0123456789abcdqnulrtefs\x80\x90\xa0\xbf";
enum { MANY = 2048, LIMITS = 12, WALKS = 4 };
static const char *const word[] = {
    "{\"", "\":", "\", \"", "\"}",    "true",  "null", "name", "aaa", "[\"", "\",", "]}",  "}}",
    "10",  "00",  ", ",     "\": \"", "value", "kind", "ab",   "a\"", "[]",  "{}",  ",\"", "\"]"};

static struct grammar *of_schema(const struct gram_vocab *v, const char *text, bool any_order) {
    struct json *s = NULL;
    struct grammar *g = NULL;
    const struct gram_opts o = {.any_order = any_order, .space = GRAM_SPACE_ONE};
    CHECK_OK(json_parse(&s, text, strlen(text), "schema", &e));
    CHECK_OK(grammar_of_schema(&g, v, s, &o, &e));
    json_free(s);
    return g;
}

/* ---- compared with all texts ---- */

/* Returns the length of the shortest continuation of s by trying all texts of up to `len` bytes, at
 * most `most`, shorter ones first; if it is longer, -1 - len. */
static int64_t shortest(const struct gram_state *s, int64_t most) {
    struct gram_state *at[MANY], *next[MANY];
    int64_t len = 0;
    int n = 1, m = 0;
    bool found = false;
    at[0] = gram_copy(s);
    for (;; len++, n = m) {
        for (int i = 0; i < n; i++) found = found || gram_may_end(at[i]);
        if (found || len == most || n == MANY) break;
        m = 0;
        for (int i = 0; i < n; i++) {
            for (int b = 1; b < 256 && m < MANY; b++) {
                if (!strchr(some, b) || !gram_allows(at[i], b)) continue;
                next[m] = gram_copy(at[i]);
                CHECK_OK(gram_accept(next[m++], b, &e));
            }
            gram_end(at[i]);
        }
        memcpy(at, next, (size_t)m * sizeof *at);
    }
    for (int i = 0; i < n; i++) gram_end(at[i]);
    return found ? len : n == MANY ? -len : -1 - len;
}

static void test_shortest(void) {
    static const struct {
        const char *regex;
        int64_t len; /* counted manually */
    } c[] = {{"abc", 3},           {"a*", 0},
             {"(abc|de|fghi)", 2}, {"[ab]{3,9}c", 4},
             {"(a|b{2}){2}x?", 2}, {"\\d+\\.\\d{2}", 4},
             {"(?i)yes|no", 2},    {"a{200}", 200}};
    for (size_t i = 0; i < COUNT_OF(c); i++) {
        struct grammar *g;
        CHECK_OK(grammar_of_regex(&g, bytes, c[i].regex, strlen(c[i].regex), &e));
        struct gram_state *s = gram_begin(g);
        CHECK_EQ_I64(gram_least(s), c[i].len);
        gram_end(s);
        grammar_free(g);
    }
}

static void test_beside_search(void) {
    static const char *const schema[] = {
        "{\"enum\": [123456, \"ab\", null, [1]]}",
        "{\"type\": \"integer\", \"minimum\": 98, \"multipleOf\": 7}",
        "{\"type\": \"string\", \"pattern\": \"^a+b|cd\", \"minLength\": 3, \"maxLength\": 5}",
        "{\"type\": \"array\", \"items\": {\"const\": 1}, \"minItems\": 3}",
        "{\"type\": \"object\", \"properties\": {\"a\": {\"const\": 1}, \"b\": {}}, "
        "\"minProperties\": "
        "1, \"additionalProperties\": false}",
        "{\"anyOf\": [{\"type\": \"object\", \"required\": [\"q\"]}, {\"type\": \"boolean\"}]}"};
    for (size_t i = 0; i < 2 * COUNT_OF(schema); i++) {
        struct grammar *g = of_schema(bytes, schema[i / 2], i % 2);
        struct gram_state *s = gram_begin(g);
        for (int step = 0; step < 6; step++) {
            const int64_t want = shortest(s, 7), got = gram_least(s);
            CHECK(want >= 0 ? got == want : got > -1 - want);
            if (want >= 0 ? got != want : got <= -1 - want)
                fprintf(stderr, "%s, byte %d: %d, not %d\n", schema[i / 2], step, (int)got,
                        (int)want);
            int b = (int)(rng_u64(&rng) % 256), n = 0;
            while (n++ < 256 && !gram_allows(s, b)) b = (b + 1) % 256;
            if (n > 256) break;
            CHECK_OK(gram_accept(s, b, &e));
        }
        gram_end(s);
        grammar_free(g);
    }
}

/* ---- every limit ---- */

/* Returns a random token after which `left` tokens can complete the text, or -1. */
static int32_t choose(const struct gram_state *s, int64_t left) {
    const int32_t n = (int32_t)gram_vocab_size(words),
                  from = (int32_t)(rng_u64(&rng) % (uint64_t)n);
    for (int32_t i = 0; i < n; i++) {
        const int32_t id = (from + i) % n;
        if (id == 256 || !gram_allows(s, id)) continue;
        struct gram_state *to = gram_copy(s);
        CHECK_OK(gram_accept(to, id, &e));
        const bool ok = gram_ends_within(to, left);
        gram_end(to);
        if (ok) return id;
    }
    return -1;
}

/* Writes a random text of at most n_max tokens, which must stay completable. */
static bool walk(struct grammar *g, int64_t n_max, struct buf *out) {
    struct gram_state *s = gram_begin(g);
    int64_t n = 0;
    buf_str(out, "");
    for (; n < n_max && !gram_must_end(s); n++) {
        const int32_t id = choose(s, n_max - n - 1);
        if (id < 0) break;
        CHECK_OK(gram_accept(s, id, &e));
        if (id < 256)
            buf_chr(out, (char)id);
        else
            buf_str(out, word[id - WORDS_FROM]);
    }
    const bool ok = gram_may_end(s);
    gram_end(s);
    return ok;
}

static int64_t way(struct grammar *g) {
    struct gram_state *s = gram_begin(g);
    struct ids ids = {0};
    struct buf text = {0};
    CHECK(gram_way_out(s, &ids));
    for (int64_t i = 0; i < ids.n; i++)
        if (ids.v[i] < 256)
            buf_chr(&text, (char)ids.v[i]);
        else
            buf_str(&text, word[ids.v[i] - WORDS_FROM]);
    CHECK_EQ_I64(gram_least(s), (int64_t)text.len);
    buf_release(&text);
    CHECK(gram_ends_within(s, ids.n) && (ids.n == 0 || !gram_ends_within(s, ids.n - 1)));
    const int64_t n = ids.n;
    for (int64_t i = 0; i < n; i++) CHECK_OK(gram_accept(s, ids.v[i], &e));
    CHECK(gram_may_end(s));
    gram_end(s);
    ids_release(&ids);
    return n;
}

static void test_limits(void) {
    static const char form[] =
        "{'type': 'object', 'properties': {'name': {'type': 'string', 'minLength': 4}, "
        "'kind': {'enum': ['value', 'other']}, 'n': {'type': 'integer', 'minimum': 1000}}, "
        "'required': ['name', 'n']}";
    static const char tree[] =
        "{'type': 'array', 'items': {'$ref': '#/$defs/t'}, 'minItems': 2, '$defs': {'t': "
        "{'type': 'object', 'properties': {'kids': {'type': 'array', 'items': {'$ref': "
        "'#/$defs/t'}}, 'v': {'type': 'boolean'}}, 'required': ['v'], "
        "'additionalProperties': false}}}";
    static const char needs[] =
        "{'type': 'object', 'properties': {'a': {'type': 'number'}, 'b': {'type': 'string'}, "
        "'c': {'type': 'null'}}, 'dependentRequired': {'a': ['b']}, 'minProperties': 2, "
        "'additionalProperties': {'type': 'boolean'}}";
    static const char both[] =
        "{'type': 'string', 'pattern': '^(aaa|[0-9]{5})+x$', 'minLength': 6}";
    static const char names[] =
        "{'type': 'object', 'patternProperties': {'^a': {'type': 'integer'}}, "
        "'minProperties': 1, 'propertyNames': {'minLength': 3}}";
    static const char any[] = "{'type': 'object', 'minProperties': 1}";
    static const char *const quoted[] = {
        form, tree, needs, both, names, any, "{'type': 'string', 'format': 'date-time'}"};
    char *schema[COUNT_OF(quoted)];
    for (size_t i = 0; i < COUNT_OF(schema); i++) {
        schema[i] = xstrdup(quoted[i]);
        for (char *q = schema[i]; (q = strchr(q, '\'')) != NULL;) *q = '"';
    }
    for (size_t i = 0; i < 2 * COUNT_OF(schema); i++) {
        struct grammar *g = of_schema(words, schema[i / 2], i % 2);
        struct json *s, *v;
        const int64_t least = way(g);
        CHECK_OK(json_parse(&s, schema[i / 2], strlen(schema[i / 2]), "schema", &e));
        for (int k = 0; k < LIMITS * WALKS; k++) {
            struct buf text = {0}, why = {0};
            bool ok = false;
            CHECK(walk(g, least + k / WALKS, &text));
            const int rc = json_parse(&v, text.data, text.len, "text", &e);
            /* an undeclared name may be repeated, which our parser rejects */
            if (rc && strstr(e.msg, "twice")) ok = true;
            if (!rc) CHECK_OK(schema_check(s, v, &ok, &why, &e));
            CHECK(ok);
            if (!ok) fprintf(stderr, "%s: %s\n", schema[i / 2], text.data);
            if (!rc) json_free(v);
            buf_release(&text);
            buf_release(&why);
        }
        json_free(s);
        grammar_free(g);
    }
    for (size_t i = 0; i < COUNT_OF(schema); i++) free(schema[i]);
}

int main(void) {
    rng_seed(&rng, 27);
    CHECK_OK(byte_vocab(&bytes, &e));
    CHECK_OK(byte_word_vocab(&words, word, COUNT_OF(word), &e));
    RUN(test_shortest);
    RUN(test_beside_search);
    RUN(test_limits);
    gram_vocab_free(bytes);
    gram_vocab_free(words);
    return check_done();
}
