// SPDX-License-Identifier: MIT
/* tests/unit/test_talk.c - growing conversations (chat/talk.h), the part that fits the context,
 * reasoning switches, untrusted text on terminals, streamed reasoning. Expected texts were written
 * manually. */
#include "chat/talk.h"

#include "tests/check.h"
#include "template/chat.h"
#include "chat/think.h"
#include "chat/toolfmt.h"
#include "base/visible.h"
#include "text/complete.h"

static struct err e;

static void expect(const struct talk *t, int skip, const char *want) {
    struct buf b = {0};
    talk_write(t, skip, &b);
    CHECK_EQ_STR(b.data, want);
    buf_release(&b);
}

static int parse(struct talk *t, const char *text) {
    return talk_parse(t, text, strlen(text), "x.json", &e);
}

/* Checks that numbers, escapes and members with other names are returned byte for byte. */
static void test_read_write(void) {
    struct talk t = {0};
    CHECK_OK(parse(&t,
                   " [ {\"role\":\"user\",\"content\":\"a\\\"]},{\"} , {\"role\": \"x\", \"n\": "
                   "[1.0,12345678901234567890]}]"));
    CHECK_EQ_I64(t.n, 2);
    CHECK_EQ_STR(talk_last_role(&t), "x");
    expect(&t, 0,
           "{\"messages\": [\n  {\"role\": \"user\", \"content\": \"a\\\"]},{\"},\n  {\"role\": "
           "\"x\", "
           "\"n\": [1.0, 12345678901234567890]}\n]}\n");
    CHECK_OK(parse(&t, "{\"id\":\"c\\\\\",\"messages\":[],\"tools\": [{\"a\":1.0}] , \"k\":-1e5}"));
    CHECK_EQ_I64(t.n, 0);
    CHECK_EQ_STR(t.tools, "[{\"a\": 1.0}]");
    expect(&t, 0,
           "{\"messages\": [],\n \"id\": \"c\\\\\", \"tools\": [{\"a\": 1.0}], \"k\": -1e5}\n");
    struct talk again = {0}; /* written files can be read */
    struct buf b = {0};
    talk_write(&t, 0, &b);
    CHECK_OK(talk_parse(&again, b.data, b.len, "again", &e));
    CHECK_EQ_STR(again.extra, t.extra);
    buf_release(&b);
    talk_release(&again);
    talk_add(&t, "user", "kept", 4);
    CHECK_ERR(parse(&t, "{\"messages\": ["), ERR_DATA, "x.json"); /* and t is as it was */
    CHECK_ERR(parse(&t, "{\"messages\": 3}"), ERR_DATA, "not a conversation");
    CHECK_ERR(parse(&t, "3"), ERR_DATA, "not a conversation");
    CHECK_ERR(parse(&t, "[{\"role\":\"user\"}, \"user\"]"), ERR_DATA, "message 2 is not an object");
    char *text = talk_content(&t, 0);
    CHECK_EQ_STR(text, "kept");
    free(text);
    talk_release(&t);
}

static void test_calls(void) {
    struct talk t = {0};
    talk_add(&t, "user", "q", 1);
    static const char list[] =
        "[{\"name\": \"f\", \"arguments\": {\"x\": 1.0}}, {\"name\":\"g\",\"arguments\":{}}]";
    struct json *calls;
    CHECK_OK(json_parse(&calls, list, sizeof list - 1, "calls", &e));
    talk_add_answer(&t, "", "why", calls);
    json_free(calls);
    CHECK_EQ_STR(t.msg[1],
                 "{\"role\": \"assistant\", \"content\": \"\", \"reasoning_content\": \"why\", "
                 "\"tool_calls\": [{\"id\": \"call00001\", \"type\": \"function\", "
                 "\"function\": {\"name\": \"f\", \"arguments\": {\"x\": 1.0}}}, {\"id\": "
                 "\"call00002\", \"type\": \"function\", \"function\": {\"name\": \"g\", "
                 "\"arguments\": {}}}]}");
    CHECK_EQ_I64(talk_open_calls(&t), 2);
    char *last = talk_take_last(&t);
    CHECK_EQ_STR(talk_last_role(&t), "user");
    talk_put_back(&t, "assistant", last);
    CHECK_EQ_I64(talk_open_calls(&t), 2);
    CHECK(talk_add_result(&t, "{}", 2) && talk_open_calls(&t) == 1);
    CHECK_EQ_STR(t.msg[2], "{\"role\": \"tool\", \"content\": \"{}\", \"name\": \"f\", "
                           "\"tool_call_id\": \"call00001\"}");
    CHECK(talk_add_result(&t, "r", 1) && !talk_add_result(&t, "r", 1));
    CHECK(strstr(t.msg[3], "call00002") != NULL);
    talk_drop_last(&t);
    CHECK_EQ_I64(talk_open_calls(&t), 1);
    talk_add_answer(&t, "a\n", "", NULL);
    CHECK_EQ_STR(t.msg[3], "{\"role\": \"assistant\", \"content\": \"a\\n\"}");
    CHECK_EQ_I64(talk_open_calls(&t), 0);
    talk_release(&t);
}

static void test_system(void) {
    struct talk t = {0};
    CHECK(talk_system(&t) == NULL);
    talk_add(&t, "user", "q", 1);
    talk_set_system(&t, "one");
    talk_set_system(&t, "two");
    char *s = talk_system(&t);
    CHECK_EQ_STR(s, "two");
    free(s);
    CHECK_EQ_I64(t.n, 2);
    talk_clear(&t);
    CHECK_EQ_I64(t.n, 1);
    talk_set_system(&t, NULL);
    CHECK_EQ_I64(t.n, 0);
    talk_release(&t);
}

static int count_messages(void *ud, int skip, int64_t *n, struct err *err) {
    (void)err;
    *n = ((struct talk *)ud)->n - skip; /* a token per message */
    return 0;
}

/* Checks that system messages and the last turn stay, and that other turns are removed as a
 * whole. */
static void test_fit(void) {
    static const char *const roles[] = {"system",    "user", "assistant", "user",
                                        "assistant", "tool", "assistant", "user",
                                        "assistant", "user"};
    struct talk t = {0};
    int skip = 0;
    for (size_t i = 0; i < COUNT_OF(roles); i++) talk_add(&t, roles[i], "c", 1);
    CHECK_EQ_I64(talk_skip(&t, 0), 2);
    CHECK_EQ_I64(talk_skip(&t, 2), 6);
    CHECK_EQ_I64(talk_skip(&t, 6), 8);
    CHECK_EQ_I64(talk_skip(&t, 8), -1);
    CHECK_OK(talk_fit(&t, 10, count_messages, &t, &skip, &e));
    CHECK_EQ_I64(skip, 0);
    CHECK_OK(talk_fit(&t, 7, count_messages, &t, &skip, &e));
    CHECK_EQ_I64(skip, 6);
    CHECK_OK(talk_fit(&t, 1, count_messages, &t, &skip, &e));
    CHECK_EQ_I64(skip, 8);
    struct buf b = {0};
    talk_write(&t, skip, &b);
    CHECK_EQ_STR(b.data,
                 "{\"messages\": [\n  {\"role\": \"system\", \"content\": \"c\"},\n  {\"role\": "
                 "\"user\", \"content\": \"c\"}\n]}\n");
    buf_release(&b);
    talk_release(&t);
}

static void test_think(void) {
    static const struct {
        const char *tmpl, *on, *off;
    } row[] = {
        {"{% if enable_thinking is defined and enable_thinking is false %}<x>{% endif %}",
         "\"enable_thinking\": true", "\"enable_thinking\": false"},
        {"{% if thinking %}<x>{% endif %}{# enable_thinking #}", "\"thinking\": true",
         "\"thinking\": false"},
        {"Effort: {{ reasoning_effort }}", "\"reasoning_effort\": \"high\"",
         "\"reasoning_effort\": \"none\""},
        {"{{ messages[0].content }}{# thinking #}", NULL, NULL},
    };
    for (size_t i = 0; i < COUNT_OF(row); i++) {
        struct chat *c = NULL;
        CHECK_OK(chat_new(&c, row[i].tmpl, "t", "", "", &e));
        const char *on = think_member(c, row[i].tmpl, true),
                   *off = think_member(c, row[i].tmpl, false);
        CHECK(row[i].on ? on && strcmp(on, row[i].on) == 0 : !on);
        CHECK(row[i].off ? off && strcmp(off, row[i].off) == 0 : !off);
        chat_free(c);
    }
    struct buf b = {0};
    CHECK_OK(think_merge("\"a\": true", NULL, &b, &e));
    CHECK_OK(think_merge("\"a\": true", " {\"b\": 1.0}", &b, &e));
    CHECK_OK(think_merge("\"a\": true", "{\"a\": 2}", &b, &e)); /* what is given wins */
    CHECK_EQ_STR(b.data, "{\"a\": true}{\"a\": true, \"b\": 1.0}{\"a\": 2}");
    buf_release(&b);
}

static void test_visible(void) {
    struct buf b = {0}, part = {0};
    static const char in[] = "a\033[31m\a\r\nb\rc\t\x7f\xc2\x9b\xe2\x80\xae\xff\xc3\xa9\0z";
    text_visible(&b, in, sizeof in - 1);
    CHECK_EQ_STR(b.data, "a^[[31m^G\nb^Mc\t^?<U+009B><U+202E>\xef\xbf\xbd\xc3\xa9^@z");
    buf_reset(&b);
    for (const char *s = "\xe6\xbc\xa2x\xe6\xbc"; *s; s++) text_complete(&b, &part, s, 1);
    CHECK_EQ_STR(b.data, "\xe6\xbc\xa2x"); /* the last one may still become a character */
    text_complete(&b, &part, "a\xc0\x80", 3);
    text_complete(&b, &part, NULL, 0);
    CHECK_EQ_STR(b.data, "\xe6\xbc\xa2x\xef\xbf\xbd\xef\xbf\xbd"
                         "a\xef\xbf\xbd\xef\xbf\xbd");
    buf_release(&b);
    buf_release(&part);
}

/* Checks that in pieces of any size, the reasoning only grows, never contains a part of a tag, and
 * ends as expected. */
static void test_reasoning_streams(void) {
    static const struct {
        const char *format, *text, *reasoning;
        enum tool_think think;
    } row[] = {
        {"qwen-xml", "so it is\n</think>\n\nanswer", "so it is", TOOL_THINK_OPEN},
        {"qwen-xml", "<think>\na < b </thin > c\n</think>x", "a < b </thin > c", TOOL_THINK_NONE},
        {"qwen-xml", "plain answer", "", TOOL_THINK_NONE},
        {"mistral-args", "[THINK]hm[/THINK]yes", "hm", TOOL_THINK_UNKNOWN},
        {NULL, "<think>no calls</think>yes", "no calls", TOOL_THINK_NONE},
    };
    for (size_t i = 0; i < COUNT_OF(row); i++)
        for (size_t step = 1; step < 8; step++) {
            struct toolparse *p;
            const struct toolfmt *f = row[i].format ? toolfmt_find(row[i].format) : toolfmt_plain();
            const size_t n = strlen(row[i].text), want = strlen(row[i].reasoning);
            size_t len = 0, shown = 0;
            const char *s = "";
            CHECK_OK(toolparse_new(&p, f, NULL, 0, row[i].think, &e));
            for (size_t k = 0; k < n; k += step) {
                toolparse_feed(p, row[i].text + k, n - k < step ? n - k : step);
                s = toolparse_reasoning(p, &len);
                CHECK(len >= shown && len <= want && memcmp(s, row[i].reasoning, len) == 0);
                shown = len;
            }
            CHECK_EQ_I64(shown, want);
            toolparse_free(p);
        }
}

int main(void) {
    RUN(test_read_write);
    RUN(test_calls);
    RUN(test_system);
    RUN(test_fit);
    RUN(test_think);
    RUN(test_visible);
    RUN(test_reasoning_streams);
    return check_done();
}
