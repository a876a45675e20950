// SPDX-License-Identifier: MIT
/* tests/unit/test_chat.c - conversations to prompts with the bundled model's template. The expected
 * texts were rendered with transformers 5.23 (jinja2 3.1.6) from the same files. */
#include "base/io.h"
#include "tests/check.h"
#include "template/chat.h"
#include "template/chat_src.h"
#include "template/fix_diff.h"

static struct err e;
static const char folder[] = "tests/golden/tiny-qwen35moe";

static struct chat *open_chat(void) {
    struct chat_src s;
    struct chat *c = NULL;
    CHECK_OK(chat_src_open(&s, folder, NULL, &e));
    CHECK_OK(chat_new(&c, s.text, s.label, s.special[0], s.special[1], &e));
    chat_src_close(&s);
    return c;
}

static const char *render(const struct chat *c, const char *conv, const char *kwargs, bool gen,
                          struct buf *out) {
    buf_reset(out);
    int rc = chat_render_text(c, conv, strlen(conv), kwargs, gen, out, &e);
    return rc ? e.msg : out->data;
}

static void test_plain(void) {
    struct chat *c = open_chat();
    struct buf out = {0};
    CHECK_EQ_STR(render(c, "[{\"role\": \"user\", \"content\": \"Hi\"}]",
                        "{\"enable_thinking\": false}", true, &out),
                 "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n");
    CHECK_EQ_STR(render(c,
                        "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], "
                        "\"add_generation_prompt\": true}",
                        NULL, false, &out),
                 "<|im_start|>user\nHi<|im_end|>\n");
    buf_release(&out);
    chat_free(c);
}

static void test_arguments_as_text_equal_arguments_as_object(void) {
    static const char head[] =
        "[{\"role\": \"user\", \"content\": \"u\"}, {\"role\": \"assistant\", \"content\": \"\", "
        "\"tool_calls\": [{\"type\": \"function\", \"function\": {\"name\": \"f\", \"arguments\": ";
    char conv[512];
    struct chat *c = open_chat();
    struct buf a = {0}, b = {0};
    snprintf(conv, sizeof conv, "%s%s}}]}]", head, "{\"x\": \"Paris\", \"n\": [1, true]}");
    render(c, conv, NULL, false, &a);
    snprintf(conv, sizeof conv, "%s%s}}]}]", head,
             "\"{\\\"x\\\": \\\"Paris\\\", \\\"n\\\": [1, true]}\"");
    CHECK_EQ_STR(render(c, conv, NULL, false, &b), a.data);
    CHECK(a.data &&
          strstr(a.data,
                 "<parameter=x>\nParis\n</parameter>\n<parameter=n>\n[1, true]\n</parameter>"));
    buf_release(&a);
    buf_release(&b);
    chat_free(c);
}

static void test_numbers_survive_as_text(void) {
    static const char conv[] =
        "[{\"role\": \"user\", \"content\": \"u\"}, {\"role\": \"assistant\", \"content\": \"\", "
        "\"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\": {\"a\": [1.0, "
        "12345678901234567890123]}}}]}]";
    struct chat *c = open_chat();
    struct buf out = {0};
    CHECK_OK(chat_render_text(c, conv, strlen(conv), NULL, false, &out, &e));
    CHECK(out.data && strstr(out.data, "[1.0, 12345678901234567890123]"));
    buf_release(&out);
    chat_free(c);
}

static void test_failures(void) {
    struct chat *c = NULL;
    struct buf out = {0};
    CHECK_ERR(chat_new(&c, "{% if %}", "broken.jinja", "", "", &e), ERR_DATA, "broken.jinja:1:");
    CHECK(c == NULL);
    CHECK_OK(chat_new(&c, "{{ raise_exception('no ' ~ messages[0].role) }}", "r", "", "", &e));
    CHECK_ERR(chat_render_text(c, "[{\"role\": \"cat\"}]", 17, NULL, true, &out, &e), ERR_DATA,
              "no cat");
    CHECK_ERR(chat_render_text(c, "{\"a\": 1}", 8, NULL, true, &out, &e), ERR_DATA, "messages");
    CHECK_ERR(chat_render_text(c, "[", 1, NULL, true, &out, &e), ERR_DATA, "conversation");
    CHECK(out.len == 0);
    chat_free(c);
    chat_free(NULL);
    struct chat_src s;
    CHECK_ERR(chat_src_open(&s, "tests/golden/tiny-qwen35moe/no-such", NULL, &e), ERR_USAGE,
              "no-such");
    CHECK_ERR(chat_src_open(&s, folder, "rag", &e), ERR_DATA, "'rag'");
    buf_release(&out);
}

static void test_special_tokens(void) {
    struct chat *c;
    struct buf out = {0};
    CHECK_OK(
        chat_new(&c, "{{ bos_token }}|{{ eos_token is defined }}|{{ x }}", "t", "<s>", "", &e));
    CHECK_EQ_STR(render(c, "{\"messages\": [], \"x\": 1}", "{\"x\": 2}", true, &out),
                 "<s>|False|2");
    chat_free(c);
    buf_release(&out);
}

static void test_diff(void) {
    struct buf out = {0};
    CHECK(!text_diff("a\nb\n", 4, "x", "a\nb\n", 4, "y", &out));
    CHECK(text_diff("1\n2\n3\n4\n5\n6\n7\n8\n9\n", 18, "x", "1\n2\n3\n4\nfive\n6\n7\n8\n9", 20, "y",
                    &out));
    CHECK_EQ_STR(out.data,
                 "--- x\n+++ y\n@@ -2,8 +2,8 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n-9\n+9\n"
                 "\\ No newline at end of file\n");
    buf_reset(&out);
    CHECK(text_diff("", 0, "x", "a\n", 2, "y", &out));
    CHECK_EQ_STR(out.data, "--- x\n+++ y\n@@ -0,0 +1,1 @@\n+a\n");
    buf_release(&out);
}

int main(void) {
    RUN(test_plain);
    RUN(test_arguments_as_text_equal_arguments_as_object);
    RUN(test_numbers_survive_as_text);
    RUN(test_failures);
    RUN(test_special_tokens);
    RUN(test_diff);
    return check_done();
}
