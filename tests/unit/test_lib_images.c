// SPDX-License-Identifier: MIT
/* tests/unit/test_lib_images.c - images in prompts of hone.h: the answers of transformers
 * (tests/oracle/see.py), the tokens of a prompt, and what is refused. */
#include <stdlib.h>

#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"
#include "tests/command.h"
#include "tests/unit/lib_check.h"
#include "tests/unit/tmpdir.h"

static const char from[] = "tests/golden", pixels[] = "tests/golden/pixels";
static char model[256], projector[256];
static char *image[2];
static size_t n_bytes[2];

/* Converts the model, with a template that accepts images and its projector next to it. */
static void make_model(void) {
    static const char *const file[] = {"models/qwen35/config.json", "models/qwen35/tokenizer.json",
                                       "models/qwen35/tokenizer_config.json",
                                       "models/qwen35/model.safetensors",
                                       "see/chat_template.jinja"};
    static const char *const picture[] = {"rgba.png", "420.jpg"};
    struct err e = {0};
    struct result r;
    for (size_t i = 0; i < sizeof file / sizeof *file; i++) {
        char *path = io_join(from, file[i]), *data = NULL;
        size_t n = 0;
        CHECK_OK(io_read_file(&data, &n, path, 1 << 26, &e));
        if (data) tmp_write(strrchr(file[i], '/') + 1, data, n);
        free(data);
        free(path);
    }
    for (int i = 0; i < 2; i++) {
        char *path = io_join(pixels, picture[i]);
        CHECK_OK(io_read_file(&image[i], &n_bytes[i], path, 1 << 20, &e));
        free(path);
    }
    char *folder = xstrdup(tmp_path("config.json"));
    folder[strlen(folder) - strlen("/config.json")] = 0;
    snprintf(model, sizeof model, "%s", tmp_path("m.gguf"));
    snprintf(projector, sizeof projector, "%s", tmp_path("mmproj.gguf"));
    const char *args[] = {folder, "-o", model, "--type", "f32", "--mmproj", projector, "-q", NULL};
    if (command("convert", args, NULL, &r)) CHECK_FAIL("%s", r.message);
    result_free(&r);
    free(folder);
}

/* Checks the text of an answer against the recorded one. */
static void check_answer(const char *name, const struct hone_answer *a) {
    struct json *golden;
    struct err e = {0};
    CHECK_OK(json_read(&golden, "tests/golden/see/qwen35.json", 1 << 20, &e));
    const char *want = json_str(json_get(json_get(golden, name), "answer"));
    CHECK_EQ_STR(a->text ? a->text : "", want ? want : "?");
    json_free(golden);
}

static const char one[] = "[{\"role\": \"user\", \"content\": [{\"type\": \"image\"}, {\"type\": "
                          "\"text\", \"text\": \"What is this?\"}]}]",
                  two[] = "[{\"role\": \"user\", \"content\": [{\"type\": \"image\"}, {\"type\": "
                          "\"image\"}, {\"type\": \"text\", \"text\": \"Compare these.\"}]}]",
                  none[] = "[{\"role\": \"user\", \"content\": \"What is this?\"}]";
static const struct hone_session_opts exact = {
    .size = sizeof exact, .exact = 1, .kv_type = "f32", .n_ctx = 512};

static void test_answers_are_those_of_transformers(void) {
    static const struct {
        const char *name, *conversation;
        int first, n;
    } cases[] = {{"one", one, 1, 1}, {"two", two, 0, 2}, {"none", none, 0, 0}, {"one", one, 1, 1}};
    struct hone_error e;
    struct hone_model *m;
    struct hone_session *s;
    const struct hone_generate_opts o = {.size = sizeof o, .max_tokens = 24};
    OK(hone_model_open(&m, model, NULL, &e));
    OK(hone_session_new(&s, m, &exact, NULL, &e));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hone_answer a = {.size = sizeof a};
        int32_t *ids;
        int64_t n;
        const void *const *images = (const void *const *)(image + cases[i].first);
        OK(hone_session_prompt(s, cases[i].conversation, NULL, 1, images, n_bytes + cases[i].first,
                               cases[i].n, &ids, &n, &e));
        if (i == 0) CHECK_EQ_I64(n, 96);
        OK(hone_generate(s, ids, n, &o, &a, &e));
        check_answer(cases[i].name, &a);
        hone_answer_free(&a);
        hone_free(ids);
    }
    hone_session_free(s);
    hone_model_close(m);
}

/* Logits of a prompt fed to a sequence equal those of the session's own. */
static void test_sequences_take_images(void) {
    struct hone_error e;
    struct hone_model *m;
    struct hone_session *s;
    struct hone_seq *q;
    int32_t *ids;
    int64_t n;
    OK(hone_model_open(&m, model, NULL, &e));
    OK(hone_session_new(&s, m, &exact, NULL, &e));
    OK(hone_session_projector(s, projector, 16, &e));
    NOT(hone_session_projector(s, projector, 0, &e), HONE_USAGE, "already");
    struct hone_model_info info = {.size = sizeof info};
    OK(hone_model_info(m, &info, &e));
    float *a = xcalloc((size_t)info.n_vocab, sizeof *a), *b = xcalloc((size_t)info.n_vocab, 4);
    OK(hone_session_prompt(s, one, NULL, 1, (const void *const *)(image + 1), n_bytes + 1, 1, &ids,
                           &n, &e));
    CHECK_EQ_I64(n, 34); /* 16 tokens instead of 78 */
    OK(hone_seq_new(&q, s, &e));
    OK(hone_session_feed(s, q, ids, n, a, &e));
    OK(hone_session_feed(s, NULL, ids, n, b, &e));
    CHECK(memcmp(a, b, (size_t)info.n_vocab * sizeof *a) == 0);
    const int32_t *list[] = {ids};
    struct hone_answer answer = {.size = sizeof answer};
    NOT(hone_generate_many(s, list, &n, 1, 1, NULL, &answer, &e), HONE_USAGE, "token");
    const int32_t odd[] = {5, -2000000};
    NOT(hone_session_feed(s, q, odd, 2, a, &e), HONE_USAGE, "token");
    free(a);
    free(b);
    hone_free(ids);
    hone_seq_free(q);
    hone_session_free(s);
    hone_model_close(m);
}

static void test_refused(void) {
    struct hone_error e;
    struct hone_model *m;
    struct hone_session *s;
    int32_t *ids;
    int64_t n;
    const void *text[] = {"GIF89a, an image", "a text, not an image"};
    const size_t len[] = {16, 20};
    const void *const *right = (const void *const *)image;
    OK(hone_model_open(&m, model, NULL, &e));
    OK(hone_session_new(&s, m, &exact, NULL, &e));
    NOT(hone_session_prompt(s, one, NULL, 1, text, len, 1, &ids, &n, &e), HONE_DATA,
        "image 0: GIF images are not supported: convert the image to PNG or JPEG");
    NOT(hone_session_prompt(s, one, NULL, 1, text + 1, len + 1, 1, &ids, &n, &e), HONE_DATA,
        "image 0: the data are not an image");
    CHECK(!ids && !n);
    NOT(hone_session_prompt(s, one, NULL, 1, right, n_bytes, 2, &ids, &n, &e), HONE_USAGE, "image");
    NOT(hone_session_prompt(s, two, NULL, 1, right, n_bytes, 1, &ids, &n, &e), HONE_USAGE, "image");
    NOT(hone_session_prompt(s, one, NULL, 1, NULL, NULL, 1, &ids, &n, &e), HONE_USAGE, "NULL");
    const void *nothing[] = {NULL};
    NOT(hone_session_prompt(s, one, NULL, 1, nothing, len, 1, &ids, &n, &e), HONE_USAGE,
        "image 0: the image is NULL");
    const int32_t row[] = {-1};
    const struct hone_generate_opts o = {.size = sizeof o, .max_tokens = 1};
    struct hone_answer a = {.size = sizeof a};
    NOT(hone_generate(s, (const int32_t[]){-99999}, 1, &o, &a, &e), HONE_USAGE, "token");
    hone_session_free(s);
    OK(hone_session_new(&s, m, &exact, NULL, &e));
    NOT(hone_session_feed(s, NULL, row, 1, NULL, &e), HONE_USAGE, "token");
    NOT(hone_session_projector(s, model, 0, &e), HONE_DATA, "not a projector");
    NOT(hone_session_projector(s, projector, -1, &e), HONE_USAGE, "negative");
    hone_session_free(s);
    hone_model_close(m);
}

int main(void) {
    tmp_make();
    make_model();
    RUN(test_answers_are_those_of_transformers);
    RUN(test_sequences_take_images);
    RUN(test_refused);
    for (int i = 0; i < 2; i++) free(image[i]);
    tmp_remove();
    return check_done();
}
