// SPDX-License-Identifier: MIT
/* tests/unit/test_tool_place.c - the part of a call that a byte belongs to. For one syntax of each
 * family, markers in the texts (removed before parsing) give the expected parts. For every syntax,
 * the shortest call that its grammar allows has words that occur only in one kind of part. */
#include "chat/tool_place.h"

#include <string.h>

#include "base/json.h"
#include "grammar/gram.h"
#include "tests/check.h"
#include "tests/unit/byte_vocab.h"
#include "tok/tok.h"

/* Marks: \1 begins a name, \2 a key, \3 a value, \4 ends each of them; the rest of a call is
 * structure; before \5 and after \6 is text. */
static const struct {
    const char *format, *text;
} row[] = {
    {"qwen-xml", "Well.\n\5<tool_call>\n<function=\1find\4>\n<parameter=\2path\4>\3\n/tmp/"
                 "name\n\4</parameter>\n"
                 "<parameter=\2n\4>\3\n12\n\4</parameter>\n</function>\n</tool_call>\6"},
    {"glm-argkv",
     "\5<tool_call>\1find\4\n<arg_key>\2path\4</arg_key>\n<arg_value>\3/tmp\4</arg_value>\n"
     "<arg_key>\2n\4</arg_key>\n<arg_value>\3"
     "12\4</arg_value>\n</tool_call>\6"},
    {"hermes-json", "ok \n\5<tool_call>\n{\"name\": \"\1find\4\", \"arguments\": {\"\2path\4\": "
                    "\"\3/tmp/\\\"x\\\"\4\", \"\2n\4\": \3"
                    "12\4}}\n</tool_call>\6"},
    {"hermes-json", "\5<tool_call>\n{\"name\": \"\1find\4\", \"arguments\": {\"\2n\4\": [\3"
                    "1\4, {\"\2x\4\": \3true\4}], \"\2name\4\": \"\3n\4\"}}\n"
                    "</tool_call>\6"},
    {"nemotron-list", "\5<TOOLCALL>[{\"name\": \"\1find\4\", \"arguments\": {\"\2path\4\": "
                      "\"\3/a\4\"}}, {\"name\": \"\1get\4\", "
                      "\"arguments\": {\"\2path\4\": \"\3/b\4\"}}]</TOOLCALL>\6"},
    {"kimi", "<|tool_calls_section_begin|>\5<|tool_call_begin|>functions.\1find\4:0<|tool_call_"
             "argument_begin|>"
             "{\"\2path\4\": \"\3/tmp\4\"}<|tool_call_end|>\6"},
    {"gemma4", "\5<|tool_call>call:\1find\4{\2n\4:\3"
               "3\4,\2path\4:<|\"|>\3/tmp\4<|\"|>}<tool_call|>\6"},
    {"python-list",
     "\5<|tool_call_start|>[\1find\4(\2path\4=\"\3/tmp\4\", \2n\4=\3True\4)]<|tool_call_end|>\6"},
    {"mistral-args", "\5[TOOL_CALLS]\1find\4[ARGS]{\"\2path\4\": \"\3/tmp\4\"}\6"},
    {"llama-json", "\5{\"name\": \"\1find\4\", \"parameters\": {\"\2path\4\": \"\3/tmp\4\"}}\6"},
};

static void one(const char *format, const char *marked) {
    struct toolparse *p;
    struct err e;
    char text[600];
    enum tool_place want[600], now = TOOL_PLACE_TEXT, outer = TOOL_PLACE_TEXT;
    size_t n = 0;
    int call = -1, k, of[600];
    for (const char *s = marked; *s; s++) {
        if (*s == 5) now = outer = TOOL_PLACE_STRUCTURE;
        if (*s == 6) now = outer = TOOL_PLACE_TEXT;
        if (*s == 4) now = outer;
        if (*s < 4) now = (enum tool_place)(*s - 1);
        if (*s == 1) call++;
        if (*s <= 6) continue;
        want[n] = now;
        of[n] = call;
        text[n++] = *s;
    }
    const struct toolfmt *f = toolfmt_find(format);
    CHECK(f != NULL);
    CHECK_OK(toolparse_new(&p, f, NULL, 0, TOOL_THINK_NONE, &e));
    toolparse_feed(p, text, n);
    (void)toolparse_finish(p);
    for (size_t i = 0; i < n; i++) {
        const enum tool_place got = toolparse_place(p, i, &k);
        if (got != want[i])
            CHECK_FAIL("%s: byte %zu of '%.*s' is %s, not %s", format, i, (int)n, text,
                       tool_place_name(got), tool_place_name(want[i]));
        if ((k < 0) != (want[i] == TOOL_PLACE_TEXT))
            CHECK_FAIL("%s: byte %zu, call %d", format, i, k);
        if (want[i] < TOOL_PLACE_STRUCTURE) CHECK_EQ_I64(k, of[i]);
    }
    toolparse_free(p);
}

static void test_places(void) {
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) one(row[i].format, row[i].text);
}

static const char tools_text[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"zebra\", \"parameters\": "
    "{\"type\": \"object\", \"properties\": {\"ostrich\": {\"const\": \"walrus\"}, \"lizard\": "
    "{\"type\": \"object\", \"properties\": {\"herring\": {\"const\": 471173}}, \"required\": "
    "[\"herring\"], \"additionalProperties\": false}}, \"required\": [\"ostrich\", \"lizard\"], "
    "\"additionalProperties\": false}}}]";
static const struct {
    const char *word;
    enum tool_place place;
} words[] = {{"zebra", TOOL_PLACE_NAME}, {"ostrich", TOOL_PLACE_KEY}, {"walrus", TOOL_PLACE_VALUE},
             {"lizard", TOOL_PLACE_KEY}, {"herring", TOOL_PLACE_KEY}, {"471173", TOOL_PLACE_VALUE}};

/* Writes the shortest call of the syntax. */
static size_t shortest(const struct toolfmt *f, struct gram_vocab *bytes, const struct json *tools,
                       char *text, size_t size) {
    const struct gram_tools t = {.tools = tools, .choice = GRAM_TOOLS_REQUIRED};
    const struct gram_opts o = {.notes = NULL};
    struct grammar *g = NULL;
    struct ids ids = {0};
    struct err e;
    size_t n = 0;
    CHECK_OK(grammar_of_tools(&g, bytes, f, &t, &o, &e));
    struct gram_state *s = gram_begin(g);
    CHECK(gram_way_out(s, &ids));
    for (; n < (size_t)ids.n && n + 1 < size; n++) text[n] = (char)ids.v[n];
    text[n] = 0;
    gram_end(s);
    grammar_free(g);
    ids_release(&ids);
    return n;
}

/* Checks that each byte of the word is in that part of the first call. A member's name within the
 * value of a tagged argument is part of that value. */
static void all_at(const struct toolparse *p, const struct toolfmt *f, const char *text, size_t at,
                   const char *word, enum tool_place place) {
    int call;
    if (strcmp(word, "herring") == 0 && toolparse_place(p, at - 1, &call) == TOOL_PLACE_VALUE)
        place = TOOL_PLACE_VALUE;
    for (size_t k = 0; k < strlen(word); k++) {
        const enum tool_place got = toolparse_place(p, at + k, &call);
        if (got != place || call != 0)
            CHECK_FAIL("%s: in '%s' byte %zu of %s is %s", toolfmt_name(f), text, k, word,
                       tool_place_name(got));
    }
}

static void test_words(void) {
    struct gram_vocab *bytes;
    struct json *tools;
    struct toolparse *p;
    struct err e;
    char text[600];
    CHECK_OK(byte_vocab(&bytes, &e));
    CHECK_OK(json_parse(&tools, tools_text, sizeof tools_text - 1, "tools", &e));
    for (int i = 0; i < toolfmt_count(); i++) {
        const struct toolfmt *f = toolfmt_at(i);
        const size_t n = shortest(f, bytes, tools, text, sizeof text);
        CHECK_OK(toolparse_new(&p, f, tools_text, sizeof tools_text - 1, TOOL_THINK_NONE, &e));
        toolparse_feed(p, text, n);
        (void)toolparse_finish(p);
        const char *call = strstr(text, "<atem:"); /* its header names the tool, too: text */
        for (size_t w = 0; w < sizeof words / sizeof *words; w++) {
            const char *at = strstr(call ? call : text, words[w].word);
            if (!at) CHECK_FAIL("%s: '%s' has no %s", toolfmt_name(f), text, words[w].word);
            if (at) all_at(p, f, text, (size_t)(at - text), words[w].word, words[w].place);
        }
        toolparse_free(p);
    }
    json_free(tools);
    gram_vocab_free(bytes);
}

static void test_tally(void) {
    static const char text[] = "<TOOLCALL>[{\"name\": \"f\", \"arguments\": {\"a\": 1}}, "
                               "{\"name\": \"g\", \"arguments\": {}}]</TOOLCALL> x";
    const char *args = strstr(text, "{\"a\": 1"), *g = strstr(text, "g\",");
    const size_t at[] = {0,
                         (size_t)(strstr(text, "f\",") - text),
                         (size_t)(args + 2 - text),
                         (size_t)(args + 6 - text),
                         (size_t)(g - text),
                         sizeof text - 2};
    struct tool_tally t = {0};
    struct toolparse *p;
    struct err e;
    CHECK_OK(toolparse_new(&p, toolfmt_find("nemotron-list"), NULL, 0, TOOL_THINK_NONE, &e));
    toolparse_feed(p, text, strlen(text));
    (void)toolparse_finish(p);
    tool_tally_add(&t, p, at, 6);
    tool_tally_add(&t, p, at + 2, 1);
    CHECK_EQ_I64(t.n, 3);
    CHECK_EQ_STR(t.row[0].tool, "f");
    CHECK_EQ_STR(t.row[1].tool, "g");
    CHECK_EQ_STR(t.row[2].tool, "");
    CHECK_EQ_I64(t.row[0].n[TOOL_PLACE_KEY], 2);
    CHECK_EQ_I64(t.row[0].n[TOOL_PLACE_VALUE], 1);
    CHECK_EQ_I64(t.row[1].n[TOOL_PLACE_NAME], 1);
    int64_t sum[TOOL_PLACES] = {0};
    for (int i = 0; i < t.n; i++)
        for (int place = 0; place < TOOL_PLACES; place++) sum[place] += t.row[i].n[place];
    CHECK_EQ_I64(sum[TOOL_PLACE_NAME], 2);
    CHECK_EQ_I64(sum[TOOL_PLACE_STRUCTURE], 1);
    CHECK_EQ_I64(sum[TOOL_PLACE_TEXT], 1);
    tool_tally_release(&t);
    toolparse_free(p);
}

int main(void) {
    RUN(test_places);
    RUN(test_words);
    RUN(test_tally);
    return check_done();
}
