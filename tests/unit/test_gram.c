// SPDX-License-Identifier: MIT
/* tests/unit/test_gram.c - constrained decoding: texts and masks against independent tools
 * (tests/golden/gram/, made by tests/oracle/gram.py), candidates against masks, random walks
 * against our validator, and languages meant to do harm. */
#include "base/json.h"
#include "base/mem.h"
#include "base/rng.h"
#include "tests/check.h"
#include "grammar/gram.h"
#include "text/schema.h"
#include "tests/unit/byte_vocab.h"

static struct err e;
enum { TOKENS_MAX = 1024 };
static struct gram_vocab *bytes; /* 256 bytes and the end token */

struct vocab {
    char *text[TOKENS_MAX];
    size_t len[TOKENS_MAX];
    int n;
    struct gram_vocab *v;
};

static size_t unhex(const char *s, char *out) {
    size_t n = 0;
    for (; s[0] && s[1]; s += 2) {
        const char two[3] = {s[0], s[1], 0};
        out[n++] = (char)(unsigned char)strtoul(two, NULL, 16);
    }
    return n;
}

static void read_vocab(struct vocab *v, const struct json *tokens) {
    v->n = 0;
    for (const struct json *t = json_first(tokens); t && v->n < TOKENS_MAX; t = json_next(t)) {
        v->text[v->n] = xcalloc(strlen(json_str(t)) + 1, 1);
        v->len[v->n] = unhex(json_str(t), v->text[v->n]);
        v->n++;
    }
    const char *text[TOKENS_MAX];
    for (int i = 0; i < v->n; i++) text[i] = v->text[i];
    CHECK_OK(gram_vocab_of(&v->v, text, v->len, v->n, v->n - 1, &e));
}
static void free_vocab(struct vocab *v) {
    for (int i = 0; i < v->n; i++) free(v->text[i]);
    gram_vocab_free(v->v);
}

static struct grammar *of_schema(const struct gram_vocab *v, const char *text,
                                 const struct gram_opts *o) {
    struct json *s = NULL;
    struct grammar *g = NULL;
    CHECK_OK(json_parse(&s, text, strlen(text), "schema", &e));
    if (grammar_of_schema(&g, v, s, o, &e)) g = NULL;
    json_free(s);
    return g;
}

static const struct gram_opts open_objects = {.open = true}; /* as the draft specifies */

static bool takes(struct grammar *g, const char *text) {
    struct gram_state *s = gram_begin(g);
    const bool ok = gram_accept_text(s, text, strlen(text), &e) == 0 && gram_may_end(s);
    gram_end(s);
    return ok;
}

/* ---- what is allowed ---- */

static void test_texts(void) {
    struct json *root;
    int64_t n[2] = {0, 0};
    CHECK_OK(json_read(&root, "tests/golden/gram/texts.json", 1 << 24, &e));
    for (const struct json *c = json_first(json_get(root, "cases")); c; c = json_next(c)) {
        struct grammar *g = NULL;
        CHECK_OK(grammar_of_schema(&g, bytes, json_get(c, "schema"), &open_objects, &e));
        if (!g) continue;
        for (int valid = 0; valid < 2; valid++) {
            const struct json *t = json_first(json_get(c, valid ? "valid" : "invalid"));
            for (; t; t = json_next(t), n[valid]++) {
                if (takes(g, json_str(t)) == (valid == 1)) continue;
                struct buf b = {0};
                json_write(&b, json_get(c, "schema"));
                CHECK_FAIL("%s %s: %s", b.data, valid ? "refuses" : "takes", json_str(t));
                buf_release(&b);
            }
        }
        grammar_free(g);
    }
    CHECK(n[0] > 1500 && n[1] > 400);
    json_free(root);
}

/* Cases that the official JSON Schema suite and tools' schemas have shown to be error-prone; the
 * expected values are the standard's. `make check-gram` runs the whole suite. */
static void test_rules(void) {
    static const struct {
        const char *schema, *takes, *refuses;
    } rows[] = {
        {"{'not': {'type': 'integer'}}", "1.5", "1"},
        {"{'type': 'number', 'not': {'type': 'integer'}}", "-0.25", "2.0"},
        {"{'const': 9007199254740992}", "9007199254740992", "9007199254740993"},
        {"{'const': 9007199254740993}", "9007199254740993", "9007199254740992"},
        {"{'type': 'integer', 'enum': [1, 1096538947462324225]}", "1096538947462324225",
         "1096538947462324224"},
        {"{'enum': [3.14159265358979, 1e300]}", "3.14159265358979", "3.14159265"},
        {"{'contains': true}", "[1]", "[]"},
        {"{'contains': true, 'maxContains': 1}", "[1]", "[1, 2]"},
        {"{'type': 'array', 'contains': false, 'minContains': 0}", "[1]", "{}"},
        {"{'if': true, 'then': {'const': 1}, 'else': {'const': 2}}", "1", "2"},
        {"{'if': false, 'then': {'const': 1}, 'else': {'const': 2}}", "2", "1"},
        {"{'$ref': '#foo', '$defs': {'A': {'$anchor': 'foo', 'type': 'integer'}}}", "1", "'a'"},
        {"{'dependencies': {'b': ['a']}, 'properties': {'a': {}, 'b': {}}}", "{'a': 1, 'b': 2}",
         "{'b': 2}"},
        {"{'$defs': {'i': {'type': 'integer'}}, 'allOf': [{'properties': {'f': {'$ref': "
         "'#/$defs/i'}}}, {'additionalProperties': {'$ref': '#/$defs/i'}}]}",
         "{'f': 1}", "{'f': 'a'}"},
        {"{'pattern': '^\\\\s$'}", "'\u00a0'", "'a'"},
        {"{'pattern': '^\\\\S$'}", "'a'", "'\ufeff'"},
        {"{'type': 'object', 'patternProperties': {'\\\\p{L}x': true}, 'additionalProperties': "
         "false}",
         "{'ax': 1}", "[]"},
        {"{'patternProperties': {'$x': {}}}", "{'a': 1}", "{true1}"},
        {"{'type': 'integer', 'not': {'enum': [0, 14.0]}}", "15", "-0"},
        {"{'type': 'integer', 'not': {'enum': [0, 14.0]}}", "-14", "14"},
        {"{'type': 'object'}", "{'a': '\\u0000', 'b\\\\': {}}", "{'a\\u0000': 1}"},
        {"{}", "{'a': [{'b\\u0001': '\\u0000'}]}", "{'a': [{'b\\u0000c': 1}]}"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char text[3][300];
        const char *from[] = {rows[i].schema, rows[i].takes, rows[i].refuses};
        for (int k = 0; k < 3; k++) {
            snprintf(text[k], sizeof text[k], "%s", from[k]);
            for (char *p = text[k]; *p; p++)
                if (*p == '\'') *p = '"';
        }
        struct grammar *g = of_schema(bytes, text[0], &open_objects);
        CHECK(g != NULL);
        if (!g) continue;
        if (!takes(g, text[1])) CHECK_FAIL("%s refuses %s", text[0], text[1]);
        if (takes(g, text[2])) CHECK_FAIL("%s takes %s", text[0], text[2]);
        grammar_free(g);
    }
}

/* Checks that a prefix is never allowed if it cannot be completed. */
static void test_dead_ends(void) {
    static const struct {
        const char *schema, *begins;
    } rows[] = {
        {"{\"properties\": {\"a\": {}, \"b\": {\"type\": \"integer\", \"minimum\": 5, \"maximum\": "
         "1}}, "
         "\"dependentRequired\": {\"a\": [\"b\"]}, \"additionalProperties\": false}",
         "{\"a"},
        {"{\"properties\": {\"a\": {}, \"b\": {}, \"c\": {}}, \"dependentRequired\": {\"a\": "
         "[\"b\"], \"b\": [\"c\"]}, \"additionalProperties\": false, \"maxProperties\": 2}",
         "{\"a"},
        {"{\"type\": [\"object\", \"null\"], \"properties\": {\"a\": {}, \"b\": false}, "
         "\"additionalProperties\": false, \"minProperties\": 2}",
         "{"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct grammar *g = of_schema(bytes, rows[i].schema, NULL);
        CHECK(g != NULL);
        if (!g) continue;
        struct gram_state *s = gram_begin(g);
        if (gram_accept_text(s, rows[i].begins, strlen(rows[i].begins), &e) == 0)
            CHECK_FAIL("%s lets %s begin", rows[i].schema, rows[i].begins);
        gram_end(s);
        grammar_free(g);
    }
    const char rule[] = "start: NUM | \"[\" start /x$ i/i\nNUM: \"5\"";
    struct grammar *g = NULL;
    CHECK_OK(grammar_of_lark(&g, bytes, rule, strlen(rule), &e));
    struct gram_state *s = gram_begin(g);
    CHECK(!gram_allows(s, '[') && gram_allows(s, '5'));
    gram_end(s);
    grammar_free(g);
}

/* Tests many optional members, many alternatives, and a long list of values. */
static void test_many(void) {
    struct buf members = {0}, any = {0}, list = {0};
    for (int i = 0; i < 400; i++) {
        const char *sep = i ? ", " : "";
        buf_fmt(&members, "%s\"p%d\": {\"type\": \"integer\"}", sep, i);
        buf_fmt(&any, "%s{\"properties\": {\"k\": {\"const\": \"t%d\"}}, \"required\": [\"k\"]}",
                sep, i);
    }
    for (int i = 0; i < 5000; i++)
        buf_fmt(&list, "%s\"v%d-%d\"", i ? ", " : "", i * 7919 % 5003, i);
    const struct {
        const char *before, *in, *behind, *takes, *refuses;
    } rows[] = {{"{\"properties\": {", members.data,
                 "}, \"additionalProperties\": false, \"type\": \"object\"}",
                 "{\"p0\": 1, \"p399\": 1}", "{\"p399\": \"a\"}"},
                {"{\"type\": \"object\", \"anyOf\": [", any.data, "]}", "{\"k\": \"t399\"}",
                 "{\"k\": \"t400\"}"},
                {"{\"enum\": [", list.data, "]}", "\"v3345-4999\"", "\"v3345-4998\""}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct buf b = {0};
        buf_fmt(&b, "%s%s%s", rows[i].before, rows[i].in, rows[i].behind);
        struct grammar *g = of_schema(bytes, b.data, NULL);
        CHECK(g != NULL);
        if (g) CHECK(takes(g, rows[i].takes) && !takes(g, rows[i].refuses));
        grammar_free(g);
        buf_release(&b);
    }
    buf_release(&members);
    buf_release(&any);
    buf_release(&list);
}

static void test_masks(void) {
    struct json *root;
    struct vocab v;
    int n = 0;
    CHECK_OK(json_read(&root, "tests/golden/gram/masks.json", 1 << 24, &e));
    read_vocab(&v, json_get(root, "tokens"));
    const size_t words = ((size_t)v.n + 31) / 32;
    uint32_t *bits = xcalloc(words, sizeof *bits), *want = xcalloc(words, sizeof *want);
    for (const struct json *c = json_first(json_get(root, "cases")); c; c = json_next(c), n++) {
        const struct gram_opts o = {.space = GRAM_SPACE_NONE};
        const char *re = json_str(json_get(c, "regex")), *p = json_str(json_get(c, "prefix"));
        struct grammar *g = NULL;
        if (re)
            CHECK_OK(grammar_of_regex(&g, v.v, re, strlen(re), &e));
        else
            CHECK_OK(grammar_of_schema(&g, v.v, json_get(c, "schema"), &o, &e));
        if (!g) continue;
        struct gram_state *s = gram_begin(g);
        CHECK_OK(gram_accept_text(s, p, strlen(p), &e));
        CHECK_OK(gram_mask(s, bits, &e));
        unhex(json_str(json_get(c, "mask")), (char *)want);
        for (int i = 0; i < v.n; i++) {
            const bool ours = bits[i / 32] >> i % 32 & 1, theirs = want[i / 32] >> i % 32 & 1;
            if (ours != theirs)
                CHECK_FAIL("case %d (%s) after '%s', token %d '%s': %d", n, re ? re : "schema", p,
                           i, v.text[i], ours);
            if (ours != gram_allows(s, i)) CHECK_FAIL("case %d: token %d tested alone", n, i);
        }
        gram_end(s);
        grammar_free(g);
    }
    CHECK(n >= 70);
    free(bits);
    free(want);
    free_vocab(&v);
    json_free(root);
}

/* ---- random walks ---- */

struct walk {
    const struct vocab *v;
    struct rng rng;
    uint32_t bits[TOKENS_MAX / 32];
    struct buf text;
    int n_tokens;
};

static bool has_bit(const struct walk *w, int i) {
    return w->bits[i / 32] >> i % 32 & 1;
}

/* Chooses an allowed token; after 30, a closing one if there is any. -1: none. */
static int choose(struct walk *w) {
    const int n = w->v->n - 1, from = (int)(rng_u64(&w->rng) % (uint64_t)n);
    if (w->n_tokens > 30)
        for (int i = 0; i < n; i++) {
            const char c = w->v->text[i][0];
            if (has_bit(w, i) && w->v->len[i] <= 2 && (c == '"' || c == '}' || c == ']')) return i;
        }
    for (int i = 0; i < n; i++)
        if (has_bit(w, (from + i) % n)) return (from + i) % n;
    return -1;
}

/* Writes a random text; returns false if it did not end soon. */
static bool walk(struct walk *w, struct grammar *g) {
    struct gram_state *s = gram_begin(g);
    const int end = w->v->n - 1;
    bool done = false;
    buf_reset(&w->text);
    buf_str(&w->text, "");
    for (w->n_tokens = 0; w->n_tokens < 200 && !done; w->n_tokens++) {
        CHECK_OK(gram_mask(s, w->bits, &e));
        const int probe = (int)(rng_u64(&w->rng) % (uint64_t)w->v->n), id = choose(w);
        if (has_bit(w, probe) != gram_allows(s, (int32_t)probe))
            CHECK_FAIL("after '%s' token %d", w->text.data, probe);
        const bool may_end = has_bit(w, end);
        CHECK(may_end == gram_may_end(s));
        done = may_end && (id < 0 || rng_u64(&w->rng) % 4 == 0 || w->n_tokens > 30);
        if (done) break;
        if (id < 0) {
            CHECK_FAIL("no token is allowed after '%s'", w->text.data);
            break;
        }
        CHECK_OK(gram_accept(s, id, &e));
        buf_add(&w->text, w->v->text[id], w->v->len[id]);
    }
    gram_end(s);
    return done;
}

static void test_walks(void) {
    struct json *root, *masks;
    struct vocab v;
    CHECK_OK(json_read(&root, "tests/golden/gram/texts.json", 1 << 24, &e));
    CHECK_OK(json_read(&masks, "tests/golden/gram/masks.json", 1 << 24, &e));
    read_vocab(&v, json_get(masks, "tokens"));
    struct walk w = {.v = &v};
    int n = 0;
    rng_seed(&w.rng, 11);
    for (const struct json *c = json_first(json_get(root, "cases")); c; c = json_next(c)) {
        const struct json *schema = json_get(c, "schema");
        for (int any_order = 0; any_order < 2; any_order++) {
            const struct gram_opts o = {.any_order = any_order};
            struct grammar *g = NULL;
            CHECK_OK(grammar_of_schema(&g, v.v, schema, &o, &e));
            for (int k = 0; k < 5 && g; k++) {
                struct json *value = NULL;
                struct buf why = {0};
                bool ok = false;
                if (!walk(&w, g)) continue;
                if (json_parse(&value, w.text.data, w.text.len, "text", &e)) {
                    /* an object may repeat a name if names are free */
                    if (!strstr(e.msg, "twice")) CHECK_FAIL("%s: '%s'", e.msg, w.text.data);
                    continue;
                }
                CHECK_OK(schema_check(schema, value, &ok, &why, &e));
                if (!ok) CHECK_FAIL("'%s': %s", w.text.data, why.data);
                n++;
                buf_release(&why);
                json_free(value);
            }
            grammar_free(g);
        }
    }
    CHECK(n > 450);
    buf_release(&w.text);
    free_vocab(&v);
    json_free(masks);
    json_free(root);
}

/* ---- the interface ---- */

static void test_states(void) {
    struct grammar *g =
        of_schema(bytes,
                  "{\"type\": \"object\", \"properties\": {\"name\": {\"const\": 1}}, "
                  "\"required\": [\"name\"], \"additionalProperties\": false}",
                  &(struct gram_opts){.space = GRAM_SPACE_NONE});
    struct buf b = {0};
    CHECK(g != NULL);
    if (!g) return;
    struct gram_state *s = gram_begin(g), *c;
    gram_forced(s, 100, &b);
    CHECK_EQ_STR(b.data, "{\"name\":1}");
    buf_reset(&b);
    gram_forced(s, 4, &b);
    CHECK_EQ_STR(b.data, "{\"na");
    CHECK_ERR(gram_accept(s, 'x', &e), ERR_USAGE, "does not allow token 120");
    CHECK_ERR(gram_accept(s, 256, &e), ERR_USAGE, "does not allow token 256");
    CHECK_ERR(gram_accept(s, -1, &e), ERR_USAGE, "does not allow");
    CHECK_ERR(gram_accept(s, 257, &e), ERR_USAGE, "does not allow");
    CHECK_OK(gram_accept(s, '{', &e));
    c = gram_copy(s);
    CHECK_ERR(gram_accept_text(s, "\"nome", 5, &e), ERR_USAGE, "does not allow this text");
    CHECK_OK(gram_accept_text(s, "\"name\":1}", 9, &e));
    CHECK(gram_may_end(s) && gram_must_end(s) && !gram_may_end(c));
    CHECK(gram_allows(s, 256) && !gram_allows(c, 256));
    CHECK_OK(gram_accept(s, 256, &e));
    CHECK(gram_must_end(s) && !gram_allows(s, 256));
    CHECK(gram_allows(c, '"'));
    gram_end(c);
    gram_end(s);
    grammar_free(g);
    buf_release(&b);
}

static void test_choices(void) {
    static const char *const text[] = {"yes", "no", "not sure", "日本"};
    struct grammar *g = NULL;
    CHECK_OK(grammar_of_choices(&g, bytes, text, 4, &e));
    for (int i = 0; i < 4 && g; i++) CHECK(takes(g, text[i]));
    CHECK(!takes(g, "not") && !takes(g, "") && !takes(g, "yesno"));
    grammar_free(g);
    CHECK_ERR(grammar_of_choices(&g, bytes, text, 0, &e), ERR_USAGE, "choices is empty");
    const char *const empty[] = {""};
    CHECK_ERR(grammar_of_choices(&g, bytes, empty, 1, &e), ERR_USAGE, "empty");
}

/* ---- harm ---- */

static void test_refused(void) {
    static const struct {
        const char *regex, *message;
    } bad[] = {
        {"(?=a)b", "lookaround"},         {"(?<!a)b", "lookaround"},
        {"a\\b", "word boundaries"},      {"(a)\\1", "back references"},
        {"(", "')' is missing"},          {"a)", "')' without '('"},
        {"[a", "']' is missing"},         {"*", "nothing to repeat"},
        {"a{3,2}", "out of order"},       {"[z-a]", "out of order"},
        {"a{1000001}", "count exceeds"},  {"x++", "possessive"},
        {"\\p{L}", "Unicode properties"}, {"\\q", "unknown escape"},
        {"\xff", "invalid UTF-8"},        {"(?>a)", "atomic"},
        {"[[:alpha:]]", "named classes"}, {"a^*", "anchors cannot be repeated"},
        {"a\\", "trailing backslash"},    {"a^b", "no text can satisfy"},
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct grammar *g;
        CHECK_ERR(grammar_of_regex(&g, bytes, bad[i].regex, strlen(bad[i].regex), &e), ERR_DATA,
                  bad[i].message);
    }
    static const struct {
        const char *schema, *message;
    } broken[] = {
        {"{\"type\": \"int\"}", "type: must be a JSON type"},
        {"{\"properties\": {\"a\": {\"$ref\": \"#/$defs/x\"}}}", "properties.a.$ref: the target"},
        {"{\"$ref\": \"#\"}", "leads to itself"},
        {"{\"$ref\": \"#/$defs/a\", \"$defs\": {\"a\": {\"$ref\": \"#/$defs/b\"}, \"b\": "
         "{\"$ref\": \"#/$defs/a\"}}}",
         "leads to itself"},
        {"{\"properties\": {\"a\": 3}}", "properties.a: a schema must"},
        {"{\"type\": \"array\", \"minItems\": -1}", "minItems: must be an integer"},
        {"{\"type\": \"integer\", \"minimum\": 3, \"maximum\": 2}", "no text can satisfy"},
        {"{\"type\": \"integer\", \"minimum\": 8, \"maximum\": 13, \"multipleOf\": 7}",
         "no text can satisfy"},
        {"{\"type\": \"string\", \"pattern\": \"^a\", \"enum\": [\"b\"]}", "no text can satisfy"},
        {"false", "no text can satisfy"},
        {"{\"$ref\": \"#/$defs/a\", \"$defs\": {\"a\": {\"type\": \"object\", \"properties\": "
         "{\"x\": {\"$ref\": \"#/$defs/a\"}}, \"required\": [\"x\"]}}}",
         "no text can satisfy"},
        {"{\"enum\": 3}", "enum is not a list"},
        {"{\"type\": \"object\", \"properties\": {\"a\": true, \"b\": {\"type\": \"array\", "
         "\"minItems\": 1, \"items\": {\"type\": \"integer\", \"minimum\": 3, \"maximum\": 2}}}, "
         "\"required\": [\"a\", \"b\"]}",
         "properties.b.items: no text can satisfy"},
        {"{\"allOf\": {}}", "allOf is not a list"},
        {"{\"allOf\": [{\"properties\": {\"a\": true}, \"required\": [\"a\"]}], \"type\": "
         "\"object\", \"additionalProperties\": false}",
         "no text can satisfy it: additionalProperties: false forbids"},
        {"{\"$defs\": {\"p\": {\"properties\": {\"x\": true}, \"required\": [\"x\"]}}, "
         "\"type\": \"object\", \"properties\": "
         "{\"a\": {\"$ref\": \"#/$defs/p\", \"type\": \"object\", \"additionalProperties\": "
         "false}}, "
         "\"required\": [\"a\"]}",
         "properties.a: no text can satisfy it: additionalProperties: false forbids"},
    };
    for (size_t i = 0; i < COUNT_OF(broken); i++) {
        e.msg[0] = 0;
        struct grammar *g = of_schema(bytes, broken[i].schema, NULL);
        if (g || !strstr(e.msg, broken[i].message))
            CHECK_FAIL("%s: %s", broken[i].schema, g ? "compiled" : e.msg);
        grammar_free(g);
    }
}

static void test_strict(void) {
    static const char *const schema[] = {
        "{\"properties\": {\"when\": {\"type\": \"string\", \"pattern\": \"(?=a)b\"}}}",
        "{\"if\": {\"type\": \"string\"}, \"then\": false}",
        "{\"type\": \"array\", \"contains\": {\"const\": 1}}",
        "{\"oneOf\": [{\"type\": \"integer\"}, {\"type\": \"number\"}]}",
        "{\"type\": \"object\", \"unevaluatedProperties\": false}",
        "{\"type\": \"array\", \"uniqueItems\": true}",
        "{\"not\": {\"required\": [\"a\"]}}",
        "{\"type\": \"object\", \"not\": {\"const\": {}}}",
    };
    static const char *const path[] = {"properties.when.pattern: lookaround",
                                       "if: ",
                                       "contains: ",
                                       "oneOf: branches",
                                       "unevaluatedProperties: ",
                                       "uniqueItems: ",
                                       "not: ",
                                       "not: "};
    for (size_t i = 0; i < COUNT_OF(schema); i++) {
        struct buf notes = {0};
        struct grammar *g = of_schema(bytes, schema[i], &(struct gram_opts){.notes = &notes});
        CHECK(g != NULL && notes.len && strncmp(notes.data, path[i], strlen(path[i])) == 0);
        grammar_free(g);
        g = of_schema(bytes, schema[i], &(struct gram_opts){.strict = true});
        if (g || strncmp(e.msg, path[i], strlen(path[i])) != 0)
            CHECK_FAIL("%s: %s", schema[i], g ? "compiled" : e.msg);
        grammar_free(g);
        buf_release(&notes);
    }
}

/* Checks that memory stays bounded and the result is an error, whatever the pattern. */
static void test_harm(void) {
    static const char *const pattern[] = {"(a{1000}){1000}",   "(a|aa){0,1000}{0,9}b",
                                          "(a?){1000}a{1000}", ".*a.{20}",
                                          "((a*)*)*b",         "(a|b)*a(a|b){14}c"};
    for (size_t i = 0; i < COUNT_OF(pattern); i++) {
        struct grammar *g = NULL;
        CHECK_OK(grammar_of_regex(&g, bytes, pattern[i], strlen(pattern[i]), &e));
        if (!g) continue;
        struct gram_state *s = gram_begin(g);
        uint32_t bits[9];
        int rc = 0;
        for (int k = 0; k < 3000 && !rc; k++) {
            rc = gram_accept_text(s,
                                  k % 3 == 1 && strchr(pattern[i], '|') && pattern[i][2] == '|' &&
                                          pattern[i][3] == 'b'
                                      ? "b"
                                      : "a",
                                  1, &e);
            if (!rc && k % 500 == 0) CHECK_OK(gram_mask(s, bits, &e));
        }
        CHECK(grammar_bytes(g) < GRAM_BYTES_MAX + GRAM_MASKS_MAX + (1 << 20));
        gram_end(s);
        grammar_free(g);
    }
    struct buf deep = {0}; /* as deep as JSON may be, with a choice at each level */
    for (int i = 0; i < 30; i++) buf_str(&deep, "{\"anyOf\":[{\"type\":\"null\"},");
    buf_str(&deep, "{\"type\":\"string\"}");
    for (int i = 0; i < 30; i++) buf_str(&deep, "]}");
    struct grammar *g = of_schema(bytes, deep.data, NULL);
    CHECK(g && takes(g, "\"x\"") && takes(g, "null") && !takes(g, "1"));
    grammar_free(g);
    buf_reset(&deep); /* 2^24 combinations of choices */
    buf_str(&deep, "{\"allOf\":[");
    for (int i = 0; i < 24; i++)
        buf_fmt(&deep, "%s{\"anyOf\":[{\"minLength\":%d},{\"maxLength\":%d}]}", i ? "," : "", i,
                99 - i);
    buf_str(&deep, "]}");
    CHECK(!of_schema(bytes, deep.data, NULL) && strstr(e.msg, "combinations"));
    buf_release(&deep);
    /* nested deeper than the stack limit */
    g = of_schema(bytes, "{\"type\": \"array\", \"items\": {\"$ref\": \"#\"}}", NULL);
    struct gram_state *s = gram_begin(g);
    int depth = 0;
    while (depth < 5000 && gram_accept_text(s, "[", 1, &e) == 0) depth++;
    CHECK(depth > 300 && depth < 1100);
    CHECK_OK(gram_accept_text(s, "]", 1, &e));
    gram_end(s);
    grammar_free(g);
}

/* Tests numbers followed by text that resembles the bound itself, and references that work wherever
 * they are. */
static void test_bounds_and_references(void) {
    static const char open[] = "{\"type\": \"number\", \"exclusiveMinimum\": 0.05, "
                               "\"exclusiveMaximum\": 1}";
    static const char list[] =
        "{\"$dynamicAnchor\": \"node\", \"type\": \"object\", \"properties\": {\"v\": {\"type\": "
        "\"integer\"}, \"next\": {\"$dynamicRef\": \"#node\"}}, \"required\": [\"v\"], "
        "\"additionalProperties\": false}";
    const struct gram_opts strict = {.strict = true};
    struct grammar *g = of_schema(bytes, open, NULL);
    CHECK(takes(g, "0.05000000000000001") && takes(g, "0.5") && takes(g, "0.9999999999999999"));
    CHECK(!takes(g, "0.05") && !takes(g, "0.05000000000000000001") && !takes(g, "1.0"));
    CHECK(!takes(g, "0.99999999999999999999") && !takes(g, "0.050"));
    grammar_free(g);
    g = of_schema(bytes, list, &strict);
    CHECK(g != NULL);
    CHECK(takes(g, "{\"v\": 1, \"next\": {\"v\": 2}}"));
    CHECK(!takes(g, "{\"v\": 1, \"next\": {}}") && !takes(g, "{\"v\": 1, \"next\": 3}"));
    grammar_free(g);
}

/* Tests schemas with an $id, as a TypeScript library writes for recursive types (the core
 * specification, 8.2.1, defines which names are read next to it), and types in capitals. */
static void test_names(void) {
    static const struct {
        const char *schema, *yes, *no;
    } c[] = {
        {"{\"type\": \"array\", \"items\": {\"$id\": \"T0\", \"type\": \"object\", \"properties\": "
         "{\"kids\": {\"type\": \"array\", \"items\": {\"$ref\": \"T0\"}}}, \"required\": "
         "[\"kids\"]}}",
         "[{\"kids\": [{\"kids\": []}]}]", "[{\"kids\": [{}]}]"},
        {"{\"$id\": \"http://x.org/a/root\", \"$defs\": {\"n\": {\"$id\": \"nested\", \"$defs\": "
         "{\"k\": {\"const\": 7}}, \"$ref\": \"#/$defs/k\"}, \"k\": {\"const\": 8}}, \"$ref\": "
         "\"/a/nested\"}",
         "7", "8"},
        {"{\"$defs\": {\"n\": {\"$id\": \"urn:x:n\", \"$defs\": {\"k\": {\"$anchor\": \"it\", "
         "\"const\": 7}}}}, \"$ref\": \"urn:x:n#it\"}",
         "7", "8"},
        {"{\"enum\": [{\"$id\": \"v\"}, 7], \"$defs\": {\"v\": {\"$id\": \"v\", \"type\": "
         "\"integer\"}}, \"$ref\": \"v\"}",
         "7", "{\"$id\": \"v\"}"},
        {"{\"type\": \"OBJECT\", \"properties\": {\"a\": {\"type\": \"INTEGER\"}}, \"required\": "
         "[\"a\"]}",
         "{\"a\": 1}", "{\"a\": true}"},
    };
    const struct gram_opts strict = {.strict = true};
    for (size_t i = 0; i < COUNT_OF(c); i++) {
        struct grammar *g = of_schema(bytes, c[i].schema, &strict);
        if (!g || !takes(g, c[i].yes) || takes(g, c[i].no))
            CHECK_FAIL("%s: %s", c[i].schema, g ? "other texts" : e.msg);
        grammar_free(g);
    }
}

/* Checks that objects that list properties are closed unless a schema mentions additional ones, and
 * that OpenAI's strict mode requires every property, in order. */
static void test_closed(void) {
    static const char ab[] = "'properties': {'a': {'type': 'integer'}, 'b': {'type': 'null'}}",
                      one[] = "{'a': 1}", more[] = "{'a': 1, 'x': 2}",
                      both[] = "{'a': 1, 'b': null}";
    static const struct gram_opts closed = {.strict = false}, strict = {.complete = true},
                                  loose = {.complete = true, .any_order = true};
    static const struct {
        const char *rest; /* after ab, or a separate schema */
        const struct gram_opts *o;
        const char *takes, *refuses;
    } rows[] = {
        {"", &closed, one, more},
        {"", &closed, "{}", more},
        {"", &open_objects, more, "{'a': 'x'}"},
        {", 'additionalProperties': true", &closed, more, "{'b': 1}"},
        {", 'additionalProperties': {'type': 'string'}", &closed, "{'x': 'y'}", more},
        {", 'patternProperties': {'^x': {'type': 'integer'}}", &closed, more, "{'x': 'y'}"},
        {", 'propertyNames': {'maxLength': 1}", &closed, more, "{'xx': 2}"},
        {"{'type': 'object', 'propertyNames': {'enum': ['x', 'y']}, 'additionalProperties': "
         "{'type': 'integer'}}",
         &closed, "{'x': 1, 'y': 2}", "{'x': 1, 'x': 2}"},
        {", 'minProperties': 3", &closed, "{'a': 1, 'x': 2, 'y': 3}", both},
        {", 'if': {'required': ['a']}, 'then': {'required': ['x']}", &closed, more, "{'b': 1}"},
        {", 'allOf': [{'properties': {'c': true}}]", &closed, "{'a': 1, 'c': 2}", more},
        {", 'anyOf': [{'properties': {'c': true}}, {'required': ['b']}]", &closed,
         "{'a': 1, 'c': 2}", more},
        {", 'required': ['z']", &closed, "{'z': []}", "{'z': [], 'x': 2}"},
        {", 'required': ['a']", &closed, one, "{'a': 1, 'a': 1}"},
        {"{'type': 'object'}", &closed, more, "[]"},
        {"{'type': 'object', 'properties': {}}", &closed, "{}", one},
        {"{'items': {'properties': {'a': true}, 'type': 'object'}}", &closed, "[{'a': 1}]",
         "[{'x': 1}]"},
        {"", &strict, both, one},
        {"", &strict, both, "{}"},
        {"", &strict, both, "{'b': null, 'a': 1}"},
        {", 'additionalProperties': false", &strict, both, more},
        {", 'required': ['a']", &loose, "{'b': null, 'a': 1}", one},
        {"{'$ref': '#/$defs/n', '$defs': {'n': {'type': 'object', 'properties': {'v': {'type': "
         "'integer'}, 'n': {'anyOf': [{'$ref': '#/$defs/n'}, {'type': 'null'}]}}}}}",
         &strict, "{'v': 1, 'n': {'v': 2, 'n': null}}", "{'v': 1, 'n': {'v': 2}}"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char text[3][300];
        if (*rows[i].rest == '{')
            snprintf(text[0], sizeof text[0], "%s", rows[i].rest);
        else
            snprintf(text[0], sizeof text[0], "{'type': 'object', %s%s}", ab, rows[i].rest);
        snprintf(text[1], sizeof text[1], "%s", rows[i].takes);
        snprintf(text[2], sizeof text[2], "%s", rows[i].refuses);
        for (int k = 0; k < 3; k++)
            for (char *p = text[k]; *p; p++)
                if (*p == '\'') *p = '"';
        struct grammar *g = of_schema(bytes, text[0], rows[i].o);
        if (!g) {
            CHECK_FAIL("%s: %s", text[0], e.msg);
            continue;
        }
        if (!takes(g, text[1])) CHECK_FAIL("%s refuses %s", text[0], text[1]);
        if (takes(g, text[2])) CHECK_FAIL("%s takes %s", text[0], text[2]);
        grammar_free(g);
    }
    static const char *const bad[][2] = {
        {"{\"properties\": {\"a\": {\"type\": \"object\", \"additionalProperties\": {}}}}",
         "properties.a.additionalProperties: must be false"},
        {"{\"additionalProperties\": true}", "additionalProperties: must be false"},
        {"{\"patternProperties\": {\"x\": true}}", "patternProperties: cannot be used"}};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct json *s = NULL;
        struct grammar *g = NULL;
        CHECK_OK(json_parse(&s, bad[i][0], strlen(bad[i][0]), "schema", &e));
        CHECK_ERR(grammar_of_schema(&g, bytes, s, &strict, &e), ERR_DATA, bad[i][1]);
        json_free(s);
    }
}

int main(void) {
    CHECK_OK(byte_vocab(&bytes, &e));
    RUN(test_texts);
    RUN(test_rules);
    RUN(test_dead_ends);
    RUN(test_many);
    RUN(test_masks);
    RUN(test_walks);
    RUN(test_states);
    RUN(test_choices);
    RUN(test_refused);
    RUN(test_strict);
    RUN(test_harm);
    RUN(test_bounds_and_references);
    RUN(test_closed);
    RUN(test_names);
    gram_vocab_free(bytes);
    return check_done();
}
