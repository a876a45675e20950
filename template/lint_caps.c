// SPDX-License-Identifier: MIT
/* template/lint_caps.c - capabilities of a template, determined by rendering: tools, calls, system
 * messages, thinking. */
#include <string.h>

#include "template/lint_int.h"

#define USER "{\"role\":\"user\",\"content\":\"Hi\"}"
#define TOOL                                                                                       \
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"zq7tool\",\"description\":\"D.\"," \
    "\"parameters\":{\"type\":\"object\",\"properties\":{\"zq7key\":{\"type\":\"string\","         \
    "\"description\":\"K.\"}},\"required\":[\"zq7key\"]}}}]"
#define OPEN "\"add_generation_prompt\":true"

static bool has(const struct buf *b, const char *s) {
    return b->len && memmem(b->data, b->len, s, strlen(s));
}

/* Returns whether `want` is in the rendering of a conversation, before `until` if that is present
 * (NULL: anywhere). *tries, if not NULL, becomes true on a crash that is not a deliberate refusal.
 */
static bool shows(const struct jinja *t, const char *json, bool text_args, const char *want,
                  const char *until, bool *tries) {
    struct buf out = {0};
    struct jinja_err je;
    bool there = lint_render(t, json, text_args, &out, NULL, &je);
    if (!there && tries && strcmp(je.type, "raise") != 0) *tries = true;
    if (there && until && has(&out, until))
        out.len = (size_t)((char *)memmem(out.data, out.len, until, strlen(until)) - out.data);
    there = there && has(&out, want);
    buf_release(&out);
    return there;
}

/* Returns whether the template shows tool calls in some form. *tries: whether a call changes the
 * output. */
static bool renders_calls(const struct jinja *t, bool *tries) {
    static const char call[] =
        "{\"messages\":[" USER ",{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":"
        "\"call00001\",\"type\":\"function\",\"function\":{\"name\":\"zq7fn\",\"arguments\":"
        "{\"zq7key\":\"Zq7arg\"}}}]},{\"role\":\"tool\",\"tool_call_id\":\"call00001\","
        "\"content\":\"Zq7res\"}]," TOOL "," OPEN "}";
    for (int text = 0; text < 2; text++)
        if (shows(t, call, text, "Zq7arg", NULL, tries) ||
            shows(t, call, text, "zq7fn", "Zq7res", tries))
            return true;
    return false;
}

bool lint_thinking_on(const struct jinja *t, bool effort, struct buf *out) {
    static const struct {
        const char *name, *member;
    } switches[] = {
#define THINK_SWITCH(name, on, off) {name, "\"" name "\":" on},
#include "template/think.def"
#undef THINK_SWITCH
    };
    bool some = false;
    buf_chr(out, '{');
    for (size_t i = 0; i < COUNT_OF(switches); i++)
        for (int k = 0; k < t->n_globals; k++) {
            if (!jv_is(t->global_name[k], switches[i].name)) continue;
            if (!effort && strcmp(switches[i].name, "reasoning_effort") == 0) continue;
            buf_fmt(out, "%s%s", some ? "," : "", switches[i].member);
            some = true;
        }
    buf_chr(out, '}');
    return some;
}

/* Returns whether the reasoning of an earlier answer reaches the prompt in some conversation. */
static bool reads_reasoning(const struct jinja *t, const char *kwargs) {
#define ANSWER "{\"role\":\"assistant\",\"content\":\"a\",\"reasoning_content\":\"Zq7why\"}"
    static const char *const convs[] = {
        "[" USER "," ANSWER "]", "[" USER "," ANSWER "," USER "]",
        "[" USER ",{\"role\":\"assistant\",\"content\":\"\",\"reasoning_content\":\"Zq7why\","
        "\"tool_calls\":[{\"id\":\"call00001\",\"type\":\"function\",\"function\":{\"name\":"
        "\"zq7fn\",\"arguments\":{\"zq7key\":\"Zq7arg\"}}}]},{\"role\":\"tool\",\"tool_call_id\":"
        "\"call00001\",\"content\":\"Zq7res\"}]"};
    for (size_t i = 0; i < COUNT_OF(convs); i++) {
        struct buf json = {0};
        buf_fmt(&json, "{\"messages\":%s,\"kwargs\":%s}", convs[i], kwargs);
        bool there = shows(t, json.data, false, "Zq7why", NULL, NULL);
        buf_release(&json);
        if (there) return true;
    }
    return false;
#undef ANSWER
}

/* Returns whether the template opens answers with thinking, removes thinking from earlier answers,
 * or renders a different prompt with thinking on than off. */
static bool handles_thinking(const struct jinja *t, const char *on) {
    static const char answered[] =
        "{\"messages\":[" USER ",{\"role\":\"assistant\",\"content\":\"<think>\\nZq7s\\n</think>"
        "\\n\\nZq7a\"}," USER "]," OPEN "}";
    struct buf with = {0}, without = {0}, json = {0};
    buf_fmt(&json, "{\"messages\":[" USER "]," OPEN ",\"kwargs\":%s}", on);
    struct jinja_err je;
    bool ok = lint_render(t, json.data, false, &with, NULL, &je) &&
              lint_render(t, "{\"messages\":[" USER "]," OPEN "}", false, &without, NULL, &je);
    bool thinks = ok && (has(&with, "<think>") || has(&with, "[THINK]") ||
                         with.len != without.len || memcmp(with.data, without.data, with.len) != 0);
    buf_release(&json);
    buf_release(&with);
    buf_release(&without);
    return thinks || (shows(t, answered, false, "Zq7a", NULL, NULL) &&
                      !shows(t, answered, false, "Zq7s", NULL, NULL));
}

/* Conversations without tools; each message contains "Zq7msg". */
static const char *const talks[] = {
    "{\"messages\":[{\"role\":\"user\",\"content\":\"Zq7msg\"}]," OPEN "}",
    "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"Zq7msg\"}]}]"
    "," OPEN "}",
    "{\"messages\":[{\"role\":\"system\",\"content\":\"Zq7msg\"},{\"role\":\"user\",\"content\":"
    "\"Zq7msg\"},{\"role\":\"assistant\",\"content\":\"Zq7msg\"},{\"role\":\"user\",\"content\":"
    "\"Zq7msg\"}]," OPEN "}"};

bool lint_shows_messages(const struct jinja *t) {
    for (size_t i = 0; i < COUNT_OF(talks); i++)
        if (shows(t, talks[i], false, "Zq7msg", NULL, NULL)) return true;
    return false;
}

bool lint_always_fails(const struct jinja *t, struct jinja_err *je) {
    struct buf out = {0};
    bool ok = lint_render(t, "{\"messages\":[" USER "]," TOOL "," OPEN "}", false, &out, NULL, je);
    for (size_t i = COUNT_OF(talks); i > 0 && !ok; i--) /* the plain question last: *je is its */
        ok = lint_render(t, talks[i - 1], false, &out, NULL, je);
    buf_release(&out);
    return !ok;
}

/* Returns whether the template renders a plain question at all. */
static bool renders(const struct jinja *t) {
    struct buf out = {0};
    struct jinja_err je;
    const bool ok = lint_render(t, "{\"messages\":[" USER "]," OPEN "}", false, &out, NULL, &je);
    buf_release(&out);
    return ok;
}

void lint_caps_of(struct lint_caps *caps, const struct jinja *t) {
    struct buf on = {0};
    memset(caps, 0, sizeof *caps);
    caps->messages = lint_shows_messages(t) || !renders(t);
    caps->tools = shows(t, "{\"messages\":[" USER "]," TOOL "," OPEN "}", false, "zq7tool", NULL,
                        &caps->tries);
    caps->calls = renders_calls(t, &caps->tries);
    caps->tries =
        caps->tries && shows(t, "{\"messages\":[" USER "]," OPEN "}", false, "Hi", NULL, NULL);
    caps->system =
        shows(t, "{\"messages\":[{\"role\":\"system\",\"content\":\"Zq7sys\"}," USER "]," OPEN "}",
              false, "Zq7sys", NULL, NULL);
    caps->reads = reads_reasoning(t, "{}");
    for (int effort = 0; effort < 2; effort++) {
        buf_reset(&on);
        if (!lint_thinking_on(t, effort, &on)) continue;
        caps->reads = caps->reads || reads_reasoning(t, on.data);
        caps->thinks = caps->thinks || handles_thinking(t, on.data);
    }
    caps->thinks = caps->thinks || caps->reads || handles_thinking(t, "{}");
    buf_release(&on);
}
