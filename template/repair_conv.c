// SPDX-License-Identifier: MIT
/* template/repair_conv.c - test conversations for repairs, generated from a seed in normal form or
 * in one of the unusual forms that clients send.
 *
 * A seed gives the same conversation on every machine. */
#include "template/repair_int.h"

#include <string.h>

const char *const repair_form_id[FORM_COUNT] = {
#define FORM(name, id, soft) [FORM_##name] = id,
#include "template/repair_forms.def"
#undef FORM
};
const bool repair_form_soft[FORM_COUNT] = {
#define FORM(name, id, soft) [FORM_##name] = soft,
#include "template/repair_forms.def"
#undef FORM
};
const char *const repair_feature_probes[FEATURE_COUNT] = {
#define FEATURE(name, probes) [FEATURE_##name] = probes,
#include "template/repair_forms.def"
#undef FEATURE
};

struct maker {
    struct buf *out;
    uint32_t state;
    enum repair_form form;
    bool odd;
    unsigned features;
    int n_messages, n_calls;
    const char *called[2]; /* names of the last answer's calls */
};

/* Returns a pseudo-random number from 0 to n - 1. */
static uint32_t below(struct maker *m, uint32_t n) {
    m->state = m->state * 1664525 + 1013904223;
    return (uint32_t)((uint64_t)m->state * n >> 32);
}

/* Returns true with a probability of `percent` %. */
static bool chance(struct maker *m, uint32_t percent) {
    return below(m, 100) < percent;
}

#define PICK(m, table) (table)[below(m, COUNT_OF(table))]

/* Texts are inserted between JSON quotes unescaped. */
static const char *const questions[] = {"Hello, who are you?",
                                        "Weather in Paris?",
                                        "  padded question  ",
                                        "\xe6\x97\xa5\xe6\x9c\xac \xc3\xb6 \xf0\x9f\x98\x80",
                                        "line one\\nline two\\n\\nline four",
                                        "is 3 < 4 && 5 > \\\"2\\\"?",
                                        "write {{ x }} and {% if %}",
                                        "go on",
                                        "ok",
                                        "\\tCRLF\\r\\nend"};
static const char *const answers[] = {"Hello!",
                                      "It is 18 degrees.",
                                      "Done.\\n",
                                      "  spaced answer ",
                                      "```c\\nint x;\\n```",
                                      "\xe4\xbd\xa0\xe5\xa5\xbd <b>&",
                                      "<think>\\nplan first\\n</think>\\n\\nThe answer.",
                                      "No."};
static const char *const systems[] = {"You are terse.", "Rules:\\n1. Be kind.\\n2. Be brief.",
                                      "R\xc3\xa9pondez.", "Be kind. "};
static const char *const thoughts[] = {"I need the tool.", "Just add.\\nDone.", "Hm"};
static const char *const results[] = {"18C", "{\\\"temp\\\": 18, \\\"unit\\\": \\\"C\\\"}",
                                      "line\\nline", "\xc3\xa9t\xc3\xa9 <ok>", "done"};
static const struct {
    const char *object; /* arguments as JSON */
    unsigned features;
} arguments[] = {
    {"{\"location\": \"Paris\"}", 0},
    {"{\"location\": \"Oslo\", \"unit\": \"celsius\"}", 0},
    {"{\"query\": \"say \\\"hi\\\" to C:\\\\temp\", \"note\": \"a\\nb\"}", 0},
    {"{\"code\": \"if x < 3:\\n    print('a & b')\\n\"}", 1u << FEATURE_NESTED},
    {"{\"n\": 3, \"location\": \"Bonn\"}", 0},
    {"{\"location\": \"M\xc3\xbcnchen \xe6\x9d\xb1\xe4\xba\xac\"}", 1u << FEATURE_UNICODE},
    {"{\"flag\": true, \"limit\": 10}", 1u << FEATURE_WORDS},
    {"{\"none\": null, \"off\": false}", 1u << FEATURE_WORDS},
    {"{\"filter\": {\"a\": \"x\", \"b\": [1, 2]}, \"tags\": [\"p\", \"q\"]}", 1u << FEATURE_NESTED},
};
static const char *const names[] = {"get_weather", "search", "write_file"};

static void put(struct maker *m, const char *s) {
    buf_str(m->out, s);
}

/* Returns whether this conversation is to have the unusual form `form`. */
static bool odd_as(const struct maker *m, enum repair_form form) {
    return m->odd && m->form == form;
}

/* Begins a message; its members follow, each preceded by a comma. */
static void begin_message(struct maker *m, const char *role) {
    put(m, m->n_messages++ ? ",{" : "{");
    buf_fmt(m->out, "\"role\":\"%s\"", role);
}

/* Writes a text as content, or as a list of one part if the unusual form is `parts`. */
static void content(struct maker *m, const char *text, enum repair_form parts) {
    if (odd_as(m, parts))
        buf_fmt(m->out, ",\"content\":[{\"type\":\"text\",\"text\":\"%s\"}]", text);
    else
        buf_fmt(m->out, ",\"content\":\"%s\"", text);
}

/* Writes the id of call n as a member followed by a comma. */
static void put_id(struct maker *m, const char *key, int n) {
    if (odd_as(m, FORM_IDS_LONG))
        buf_fmt(m->out, "\"%s\":\"call_Zf3kQ9vLm2xT7bNc%05d\",", key, n);
    else if (!odd_as(m, FORM_IDS_ABSENT))
        buf_fmt(m->out, "\"%s\":\"call%05d\",", key, n);
}

/* Writes call i of an answer, in its unusual form if this conversation is to have it. */
static void call(struct maker *m, int i) {
    const size_t k = below(m, COUNT_OF(arguments));
    const bool empty = m->form == FORM_ARGS_NULL || m->form == FORM_ARGS_ABSENT ||
                       m->form == FORM_ARGS_BLANK || chance(m, 8);
    const char *object = empty ? "{}" : arguments[k].object;
    m->features |= empty ? 1u << FEATURE_NO_ARGS : arguments[k].features;
    put(m, "{");
    put_id(m, "id", ++m->n_calls);
    m->called[i] = PICK(m, names);
    buf_fmt(m->out, "\"type\":\"function\",\"function\":{\"name\":\"%s\"", m->called[i]);
    if (odd_as(m, FORM_ARGS_NULL)) {
        put(m, ",\"arguments\":null");
    } else if (odd_as(m, FORM_ARGS_BLANK)) {
        put(m, ",\"arguments\":\"\"");
    } else if (odd_as(m, FORM_ARGS_TEXT)) {
        put(m, ",\"arguments\":\"");
        for (const char *s = object; *s; s++) {
            if (*s == '"' || *s == '\\') buf_chr(m->out, '\\');
            buf_chr(m->out, *s);
        }
        put(m, "\"");
    } else if (!odd_as(m, FORM_ARGS_ABSENT)) {
        buf_fmt(m->out, ",\"arguments\":%s", object);
    }
    put(m, "}}");
}

/* Writes an answer with calls and their results. */
static void tool_round(struct maker *m, bool last) {
    const bool bare = m->form == FORM_CONTENT_NULL || m->form == FORM_CONTENT_ABSENT ||
                      m->form == FORM_CONTENT_BLANK;
    const char *text = bare || !chance(m, 25) ? "" : PICK(m, answers);
    const int n = chance(m, 20) ? 2 : 1;
    const int first = m->n_calls;
    m->features |= 1u << FEATURE_CALLS;
    if (*text) m->features |= 1u << FEATURE_TEXT;
    if (n > 1) m->features |= 1u << FEATURE_PARALLEL;
    begin_message(m, "assistant");
    if (odd_as(m, FORM_CONTENT_NULL))
        put(m, ",\"content\":null");
    else if (!odd_as(m, FORM_CONTENT_ABSENT))
        content(m, text, FORM_NONE);
    if (chance(m, 20)) {
        buf_fmt(m->out, ",\"reasoning_content\":\"%s\"", PICK(m, thoughts));
        m->features |= 1u << FEATURE_REASONING;
    }
    put(m, ",\"tool_calls\":[");
    for (int i = 0; i < n; i++) {
        if (i) put(m, ",");
        call(m, i);
    }
    put(m, "]}");
    for (int i = 0; i < n && !(last && chance(m, 10)); i++) {
        const bool null = m->form == FORM_RESULT_NULL;
        begin_message(m, "tool");
        put(m, ",");
        put_id(m, "tool_call_id", first + i + 1);
        const char *any = PICK(m, names), *name = m->form == FORM_RESULT_NAME ? m->called[i] : any;
        if (odd_as(m, FORM_RESULT_NAME))
            m->out->len--; /* the comma */
        else
            buf_fmt(m->out, "\"name\":\"%s\"", name);
        if (null && m->odd)
            put(m, ",\"content\":null");
        else
            content(m, null ? "" : PICK(m, results), FORM_RESULT_PARTS);
        put(m, "}");
    }
}

/* Writes an answer without calls, in its unusual form if this conversation is to have it. */
static void answer(struct maker *m) {
    begin_message(m, "assistant");
    content(m, PICK(m, answers), FORM_ANSWER_PARTS);
    if (chance(m, 20)) buf_fmt(m->out, ",\"reasoning_content\":\"%s\"", PICK(m, thoughts));
    if (odd_as(m, FORM_CALLS_NULL)) put(m, ",\"tool_calls\":null");
    if (odd_as(m, FORM_CALLS_NONE)) put(m, ",\"tool_calls\":[]");
    put(m, "}");
}

/* Writes a user's message; unusual forms are two messages in a row and content parts. */
static void user(struct maker *m) {
    const char *text = PICK(m, questions);
    const bool twice = m->form == FORM_USER_TWICE;
    begin_message(m, "user");
    if (twice && m->odd) {
        buf_fmt(m->out, ",\"content\":\"%s\"},{\"role\":\"user\",\"content\":\"And?\"}", text);
        return;
    }
    if (twice)
        buf_fmt(m->out, ",\"content\":\"%s\\n\\nAnd?\"}", text);
    else
        content(m, text, FORM_USER_PARTS), put(m, "}");
}

static void system_message(struct maker *m) {
    const char *text = PICK(m, systems);
    begin_message(m, odd_as(m, FORM_DEVELOPER) ? "developer" : "system");
    if (m->form != FORM_SYSTEM_TWICE) {
        content(m, text, FORM_SYSTEM_PARTS);
    } else if (m->odd) {
        buf_fmt(m->out, ",\"content\":\"%s\"},{\"role\":\"system\",\"content\":\"And more.\"",
                text);
    } else {
        buf_fmt(m->out, ",\"content\":\"%s\\n\\nAnd more.\"", text);
    }
    put(m, "}");
}

static bool needs_system(enum repair_form f) {
    return f == FORM_DEVELOPER || f == FORM_SYSTEM_TWICE || f == FORM_SYSTEM_PARTS;
}
static bool needs_calls(enum repair_form f) {
    return (f >= FORM_ARGS_TEXT && f <= FORM_RESULT_PARTS) || f == FORM_CONTENT_NULL ||
           f == FORM_CONTENT_ABSENT || f == FORM_CONTENT_BLANK || f == FORM_IDS_LONG ||
           f == FORM_IDS_ABSENT || f == FORM_RESULT_NAME;
}
static bool needs_answer(enum repair_form f) {
    return f == FORM_ANSWER_PARTS || f == FORM_CALLS_NULL || f == FORM_CALLS_NONE;
}

/* Writes the list of tools if `some` is set; for FORM_TOOLS_EMPTY, an empty list or nothing. */
static void tools(struct maker *m, bool some) {
    static const char text[] =
        ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"get_weather\","
        "\"description\":\"Get the current weather.\",\"parameters\":{\"type\":\"object\","
        "\"properties\":{\"location\":{\"type\":\"string\",\"description\":\"City\"},\"unit\":{"
        "\"type\":\"string\",\"enum\":[\"celsius\",\"fahrenheit\"]}},\"required\":[\"location\"]}}}"
        ","
        "{\"type\":\"function\",\"function\":{\"name\":\"search\",\"description\":\"Search.\","
        "\"parameters\":{\"type\":\"object\",\"properties\":{\"query\":{\"type\":\"string\","
        "\"description\":\"Words\"}},\"required\":[\"query\"]}}}]";
    if (m->form == FORM_TOOLS_EMPTY) {
        if (m->odd) put(m, ",\"tools\":[]");
    } else if (some) {
        put(m, text);
        m->features |= 1u << FEATURE_TOOLS;
    }
}

void repair_conv(struct buf *out, uint32_t seed, enum repair_form form, bool odd,
                 unsigned *features) {
    struct maker m = {.out = out, .state = seed * 2654435761u + 12345, .form = form, .odd = odd};
    for (int i = 0; i < 4; i++) below(&m, 2);
    const bool system = needs_system(form) || chance(&m, 45);
    const bool calls = needs_calls(form) || (form == FORM_NONE && chance(&m, 55));
    const int turns = 1 + (int)below(&m, 3);
    bool open = true; /* the conversation does not end with an answer */
    put(&m, "{\"messages\":[");
    if (system) system_message(&m);
    for (int i = 0; i < turns; i++) {
        const bool last = i == turns - 1;
        user(&m);
        if (calls && (last || chance(&m, 60)))
            for (int k = 1 + (int)chance(&m, 25); k > 0; k--) tool_round(&m, last && k == 1);
        if (last && !needs_answer(form) && chance(&m, 70)) continue;
        answer(&m);
        open = !last;
    }
    if (!open && needs_answer(form)) {
        user(&m);
        open = true;
    }
    put(&m, "]");
    const bool some = calls || chance(&m, 25);
    tools(&m, some);
    if (system) m.features |= 1u << FEATURE_SYSTEM;
    if (system && some) m.features |= 1u << FEATURE_SYSTEM_TOOLS;
    buf_fmt(out, ",\"add_generation_prompt\":%s", open && chance(&m, 85) ? "true" : "false");
    const uint32_t how = below(&m, 5);
    if (how < 2)
        buf_fmt(out, ",\"kwargs\":{\"enable_thinking\":%s,\"thinking\":%s}", how ? "true" : "false",
                how ? "true" : "false");
    put(&m, "}");
    *features = m.features;
}
