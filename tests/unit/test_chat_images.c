// SPDX-License-Identifier: MIT
/* tests/unit/test_chat_images.c - images in conversations: every spelling of a source, their order,
 * what stays of the messages, and sources that cannot be read. */
#include "base/attr.h"
#include "chat/images.h"
#include "tests/check.h"

#define USER(content) "[{\"role\": \"user\", \"content\": [" content "]}]"
#define LEFT USER("{\"type\": \"image\"}")

static void test_spellings(void) {
    static const struct {
        const char *part, *source;
    } rows[] = {
        {"{\"type\": \"image_url\", \"image_url\": {\"url\": \"data:a,b\"}}", "data:a,b"},
        {"{\"type\": \"image_url\", \"image_url\": \"data:a,b\"}", "data:a,b"},
        {"{\"type\": \"input_image\", \"image_url\": \"data:a,b\"}", "data:a,b"},
        {"{\"type\": \"image\", \"image\": \"x.png\"}", "x.png"},
        {"{\"type\": \"image\", \"path\": \"x.png\"}", "x.png"},
        {"{\"type\": \"image\", \"url\": \"https://h/x.png\"}", "https://h/x.png"},
        {"{\"type\": \"image\", \"base64\": \"AAAA\"}", "data:;base64,AAAA"},
        {"{\"type\": \"image\", \"source\": {\"type\": \"base64\", \"data\": \"AAAA\"}}",
         "data:;base64,AAAA"},
        {"{\"type\": \"image\", \"source\": {\"type\": \"url\", \"url\": \"https://h\"}}",
         "https://h"},
        {"{\"type\": \"image\", \"source\": {\"data\": \"DATA:;base64,AA\"}}", "DATA:;base64,AA"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char conv[256];
        struct chat_images im;
        struct buf out = {0};
        struct err e;
        snprintf(conv, sizeof conv, USER("%s"), rows[i].part);
        CHECK_OK(chat_images_take(conv, strlen(conv), &im, &out, &e));
        CHECK_EQ_I64(im.n, 1);
        CHECK_EQ_STR(im.n ? im.source[0] : NULL, rows[i].source);
        CHECK_EQ_STR(out.data, LEFT);
        chat_images_release(&im);
        buf_release(&out);
    }
}

/* Ollama's list comes before the text; other members and messages stay as they are. */
static void test_order(void) {
    static const char conv[] =
        "{\"tools\": [1.0], \"messages\": [{\"role\": \"system\", \"content\": \"an image\"}, "
        "{\"role\": \"user\", \"content\": \"a\", \"images\": [\"QQ==\", \"data:,Qg==\"], \"x\": "
        "1}, "
        "{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"b\"}, "
        "{\"type\": \"image\", \"path\": \"c\"}]}]}";
    static const char want[] =
        "{\"tools\": [1.0], \"messages\": [{\"role\": \"system\", \"content\": \"an image\"}, "
        "{\"role\": \"user\", \"x\": 1, \"content\": [{\"type\": \"image\"}, {\"type\": "
        "\"image\"}, "
        "{\"type\": \"text\", \"text\": \"a\"}]}, "
        "{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"b\"}, "
        "{\"type\": \"image\"}]}]}";
    struct chat_images im;
    struct buf out = {0};
    struct err e;
    CHECK_OK(chat_images_take(conv, sizeof conv - 1, &im, &out, &e));
    CHECK_EQ_I64(im.n, 3);
    CHECK_EQ_STR(out.data, want);
    for (int i = 0; i < 3 && im.n == 3; i++)
        CHECK_EQ_STR(im.source[i], ((const char *[]){"data:;base64,QQ==", "data:,Qg==", "c"})[i]);
    chat_images_release(&im);
    buf_release(&out);
}

static void test_none(void) {
    static const char *const convs[] = {"[{\"role\": \"user\", \"content\": \"image\"}]", "[]",
                                        "{\"messages\": []}", "[{\"content\": null}]",
                                        USER("{\"type\": \"text\", \"text\": \"image\"}")};
    for (size_t i = 0; i < COUNT_OF(convs); i++) {
        struct chat_images im;
        struct buf out = {0};
        struct err e;
        CHECK_OK(chat_images_take(convs[i], strlen(convs[i]), &im, &out, &e));
        CHECK_EQ_I64(im.n, 0);
        CHECK(!out.len);
        chat_images_release(&im);
        buf_release(&out);
    }
}

static void test_refused(void) {
    static const char bad[] = USER("{\"type\": \"image\"}");
    struct chat_images im;
    struct buf out = {0};
    struct err e;
    CHECK_ERR(chat_images_take(bad, sizeof bad - 1, &im, &out, &e), ERR_USAGE, "no source");
    chat_images_release(&im);
    buf_release(&out);
}

static void test_data(void) {
    static const char *const good[] = {"data:image/png;base64,aGVsbG8=", "data:;base64,aGVs\nbG8",
                                       "data:,aGVsbG8"};
    static const char *const bad[] = {"data:", "data:,",
                                      "data:;base64,a*b=", "data:,====", "data:,a"};
    struct err e;
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        struct buf b = {0};
        CHECK_OK(chat_image_decode(good[i], &b, &e));
        CHECK(b.len == 5 && memcmp(b.data, "hello", 5) == 0);
        buf_release(&b);
    }
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct buf b = {0};
        CHECK_ERR(chat_image_decode(bad[i], &b, &e), ERR_USAGE, "not base64");
        buf_release(&b);
    }
}

int main(void) {
    RUN(test_spellings);
    RUN(test_order);
    RUN(test_none);
    RUN(test_refused);
    RUN(test_data);
    return check_done();
}
