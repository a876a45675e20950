// SPDX-License-Identifier: MIT
/* tests/unit/test_lib.c - include/hone.h: results and errors, messages, cancelling, and that a call
 * leaves nothing of its options behind for the next. */
#include <locale.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "include/hone.h"
#include "tests/check.h"
#include "tests/unit/tmpdir.h"

static const char model[] = "tests/golden/models/qwen35moe";

static bool exists(const char *path) {
    return access(path, F_OK) == 0;
}

/* One call whose arguments end with NULL. */
static int call(const char *command, const struct hone_opts *o, struct hone_result *r,
                const char *const *args) {
    hone_result_free(r);
    return hone_call(command, args, o, r);
}
#define CALL(command, o, r, ...) call(command, o, r, (const char *const[]){__VA_ARGS__, NULL})

static void test_results(void) {
    struct hone_result r = {0};
    const char *base = tmp_path("base.gguf");
    CHECK_EQ_I64(CALL("convert", NULL, &r, model, "-o", base), HONE_OK);
    CHECK(r.text && r.text[0] == '{' && r.len == strlen(r.text));
    CHECK_EQ_STR(r.message, "");
    /* a name that is taken, an option that is not there, a file that is none: status, message, text
     */
    CHECK_EQ_I64(CALL("convert", NULL, &r, model, "-o", base), HONE_USAGE);
    CHECK(strstr(r.message, "base.gguf") != NULL && r.text && r.len == 0);
    CHECK_EQ_I64(CALL("convert", NULL, &r, model, "--outptu", base), HONE_USAGE);
    CHECK(strstr(r.message, "--output") != NULL);
    CHECK_EQ_I64(CALL("inspect", NULL, &r, "VERSION"), HONE_DATA);
    CHECK_EQ_I64(CALL("inspect", NULL, &r, tmp_path("absent")), HONE_USAGE);
    CHECK_EQ_I64(CALL("frobnicate", NULL, &r, "x"), HONE_USAGE);
    hone_result_free(&r);
    CHECK_EQ_I64(hone_call("doctor", NULL, NULL, &r), HONE_OK); /* no arguments at all */
    /* the other forms, and text that is no JSON */
    CHECK_EQ_I64(CALL("inspect", NULL, &r, base, "--csv"), HONE_OK);
    CHECK(r.text[0] != '{' && r.len > 0);
    CHECK_EQ_I64(CALL("quantize", NULL, &r, "--help"), HONE_OK);
    CHECK(strncmp(r.text, "usage: hone quantize ", 21) == 0);
    CHECK_EQ_I64(CALL("quantize", NULL, &r, base, "-o", tmp_path("q.gguf"), "--type", "Q8_0"),
                 HONE_OK);
    CHECK_EQ_I64(CALL("diff", NULL, &r, base, tmp_path("q.gguf")), HONE_VERDICT);
    CHECK(strstr(r.text, "\"same\": false") != NULL && r.message[0]);
    hone_result_free(&r);
    CHECK(!r.text);
    hone_result_free(&r);
}

struct seen {
    int n_log, n_progress, cancel_at, inner;
    char last[200];
};

static void on_log(void *user, enum hone_level level, const char *text) {
    struct seen *s = user;
    (void)level;
    s->n_log++;
    snprintf(s->last, sizeof s->last, "%s", text);
}

static int on_progress(void *user, const char *stage, uint64_t done, uint64_t total) {
    struct seen *s = user;
    struct hone_result r;
    CHECK(stage && stage[0] && (total == 0 || done <= total));
    s->inner = hone_call("doctor", NULL, NULL, &r); /* refused: it would wait for itself */
    hone_result_free(&r);
    return ++s->n_progress == s->cancel_at;
}

static void test_callbacks(void) {
    struct seen s = {.cancel_at = 2};
    struct hone_opts o = {.size = sizeof o, .log = on_log, .progress = on_progress, .user = &s};
    struct hone_result r = {0};
    const char *base = tmp_path("base.gguf"), *out = tmp_path("cancelled.gguf");
    CHECK_EQ_I64(CALL("quantize", &o, &r, base, "-o", out, "--type", "Q4_K"), HONE_CANCELLED);
    CHECK_EQ_I64(s.n_progress, 2);
    CHECK_EQ_I64(s.inner, HONE_USAGE);
    CHECK(!exists(out));
    CHECK(r.message[0]);
    /* the cancellation is over with the call; messages are ours at the level that was asked for */
    s = (struct seen){0};
    CHECK_EQ_I64(CALL("quantize", &o, &r, base, "-o", out, "--type", "Q4_K", "--trace"), HONE_OK);
    CHECK(s.n_log > 0 && s.n_progress > 2);
    CHECK(s.last[0] && !strchr(s.last, '\n'));
    int n = s.n_log;
    CHECK_EQ_I64(CALL("quantize", &o, &r, base, "-o", out, "--type", "Q4_K", "-f", "-q"), HONE_OK);
    CHECK_EQ_I64(s.n_log, n);
    CHECK(exists(out));
    o.size = 0;
    CHECK_EQ_I64(CALL("doctor", &o, &r, "--limits"), HONE_USAGE);
    hone_result_free(&r);
}

/* --max-memory and --untrusted of one call are not the next one's. */
static void test_limits(void) {
    struct hone_result r = {0};
    const char *base = tmp_path("base.gguf");
    CHECK_EQ_I64(CALL("eval", NULL, &r, "speed", base, "--tg", "1", "--pp", "1", "--reps", "1",
                      "--max-memory", "1K"),
                 HONE_SYS);
    CHECK_EQ_I64(CALL("eval", NULL, &r, "speed", base, "--tg", "1", "--pp", "1", "--reps", "1"),
                 HONE_OK);
    hone_result_free(&r);
}

/* A caller whose decimal point is a comma, where such a locale is installed. */
static void test_locale(void) {
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "fr_FR.utf8"};
    struct hone_result r = {0};
    size_t i = 0;
    while (i < COUNT_OF(names) && !setlocale(LC_NUMERIC, names[i])) i++;
    if (i == COUNT_OF(names)) return;
    CHECK_EQ_I64(CALL("plan", NULL, &r, tmp_path("base.gguf"), "--vram", "1.5GiB"), HONE_OK);
    char one[8];
    snprintf(one, sizeof one, "%.1f", 1.5);
    CHECK_EQ_STR(one, "1,5"); /* ours again */
    setlocale(LC_NUMERIC, "C");
    hone_result_free(&r);
}

static void *in_thread(void *arg) {
    struct hone_result r = {0};
    int *rc = arg;
    *rc = CALL("inspect", NULL, &r, tmp_path("base.gguf"));
    hone_result_free(&r);
    return NULL;
}

static void test_threads(void) {
    enum { N = 4 };
    pthread_t t[N];
    int rc[N];
    for (int i = 0; i < N; i++) CHECK(pthread_create(&t[i], NULL, in_thread, &rc[i]) == 0);
    for (int i = 0; i < N; i++) {
        pthread_join(t[i], NULL);
        CHECK_EQ_I64(rc[i], HONE_OK);
    }
}

int main(void) {
    tmp_make();
    RUN(test_results);
    RUN(test_callbacks);
    RUN(test_limits);
    RUN(test_locale);
    RUN(test_threads);
    tmp_remove();
    return check_done();
}
