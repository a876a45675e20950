// SPDX-License-Identifier: MIT
/* tests/unit/test_lib.c - include/hone.h: results and errors, messages, cancellation; options are
 * not used after their call, and simultaneous calls are independent. */
#include <locale.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "include/hone.h"
#include "tests/check.h"
#include "tests/command.h"
#include "tests/unit/tmpdir.h"

static const char model[] = "tests/golden/models/qwen35moe";

static bool exists(const char *path) {
    return access(path, F_OK) == 0;
}

/* Makes one call with arguments that end with NULL. */
static int call(const char *name, const struct hone_opts *o, struct result *r,
                const char *const *args) {
    result_free(r);
    return command(name, args, o, r);
}
#define CALL(command, o, r, ...) call(command, o, r, (const char *const[]){__VA_ARGS__, NULL})

static void test_results(void) {
    struct result r = {0};
    const char *base = tmp_path("base.gguf");
    CHECK_EQ_I64(CALL("convert", NULL, &r, model, "-o", base), HONE_OK);
    CHECK(r.text && r.text[0] == '{' && r.len == strlen(r.text));
    CHECK_EQ_STR(r.message, "");
    /* a taken name, a missing option, an invalid file: status, message, text */
    CHECK_EQ_I64(CALL("convert", NULL, &r, model, "-o", base), HONE_USAGE);
    CHECK(strstr(r.message, "base.gguf") != NULL && r.text && r.len == 0);
    CHECK_EQ_I64(CALL("convert", NULL, &r, model, "--outptu", base), HONE_USAGE);
    CHECK(strstr(r.message, "--output") != NULL);
    CHECK_EQ_I64(CALL("inspect", NULL, &r, "VERSION"), HONE_DATA);
    CHECK_EQ_I64(CALL("inspect", NULL, &r, tmp_path("absent")), HONE_USAGE);
    CHECK_EQ_I64(CALL("frobnicate", NULL, &r, "x"), HONE_USAGE);
    result_free(&r);
    CHECK_EQ_I64(command("doctor", NULL, NULL, &r), HONE_OK); /* no arguments at all */
    /* the other forms, and text that is not JSON */
    CHECK_EQ_I64(CALL("inspect", NULL, &r, base, "--csv"), HONE_OK);
    CHECK(r.text[0] != '{' && r.len > 0);
    CHECK_EQ_I64(CALL("quantize", NULL, &r, "--help"), HONE_OK);
    CHECK(strncmp(r.text, "usage: hone quantize ", 21) == 0);
    CHECK_EQ_I64(CALL("quantize", NULL, &r, base, "-o", tmp_path("q.gguf"), "--type", "Q8_0"),
                 HONE_OK);
    CHECK_EQ_I64(CALL("diff", NULL, &r, base, tmp_path("q.gguf")), HONE_VERDICT);
    CHECK(strstr(r.text, "\"same\": false") != NULL && r.message[0]);
    result_free(&r);
    CHECK(!r.text);
    result_free(&r);
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
    struct result r;
    CHECK(stage && stage[0] && (total == 0 || done <= total));
    s->inner = command("recipes", NULL, NULL, &r); /* a call within a call is independent */
    result_free(&r);
    return ++s->n_progress == s->cancel_at;
}

static void test_callbacks(void) {
    struct seen s = {.cancel_at = 2};
    struct hone_opts o = {.size = sizeof o, .log = on_log, .progress = on_progress, .user = &s};
    struct result r = {0};
    const char *base = tmp_path("base.gguf"), *out = tmp_path("cancelled.gguf");
    CHECK_EQ_I64(CALL("quantize", &o, &r, base, "-o", out, "--type", "Q4_K"), HONE_CANCELLED);
    CHECK_EQ_I64(s.n_progress, 2);
    CHECK_EQ_I64(s.inner, HONE_OK);
    CHECK(!exists(out));
    CHECK(r.message[0]);
    /* cancellation affects only its call; messages arrive at the requested level */
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
    result_free(&r);
}

/* Checks that --max-memory and --untrusted of one call do not affect the next one. */
static void test_limits(void) {
    struct result r = {0};
    const char *base = tmp_path("base.gguf");
    CHECK_EQ_I64(CALL("eval", NULL, &r, "speed", base, "--tg", "1", "--pp", "1", "--reps", "1",
                      "--max-memory", "1K"),
                 HONE_SYSTEM);
    CHECK_EQ_I64(CALL("eval", NULL, &r, "speed", base, "--tg", "1", "--pp", "1", "--reps", "1"),
                 HONE_OK);
    result_free(&r);
}

/* Tests a caller whose decimal point is a comma, if such a locale is installed. */
static void test_locale(void) {
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "fr_FR.utf8"};
    struct result r = {0};
    size_t i = 0;
    while (i < COUNT_OF(names) && !setlocale(LC_NUMERIC, names[i])) i++;
    if (i == COUNT_OF(names)) return;
    CHECK_EQ_I64(CALL("plan", NULL, &r, tmp_path("base.gguf"), "--vram", "1.5GiB"), HONE_OK);
    char one[8];
    snprintf(one, sizeof one, "%.1f", 1.5);
    CHECK_EQ_STR(one, "1,5"); /* ours again */
    setlocale(LC_NUMERIC, "C");
    result_free(&r);
}

/* ---- calls at the same time ---- */

enum { N_CALLS = 4, N_ARGS = 16 };
struct one_call {
    const char *command, *args[N_ARGS];
    int cancel_at;
    int rc;
    struct seen seen;
    struct result r;
};

static void count_log(void *user, enum hone_level level, const char *text) {
    struct seen *s = user;
    (void)level, (void)text;
    s->n_log++;
}
static int count_progress(void *user, const char *stage, uint64_t done, uint64_t total) {
    struct seen *s = user;
    (void)stage, (void)done, (void)total;
    return ++s->n_progress == s->cancel_at;
}
static void *in_thread(void *arg) {
    struct one_call *c = arg;
    struct hone_opts o = {
        .size = sizeof o, .log = count_log, .progress = count_progress, .user = &c->seen};
    c->seen.cancel_at = c->cancel_at;
    c->rc = command(c->command, c->args, &o, &c->r);
    return NULL;
}

/* Copies the result without lines that vary between runs: times, speed and memory. */
static char *without_times(const char *text) {
    static const char *const keys[] = {"seconds", "tok_per_s", "peak", "command_line", "output"};
    char *copy = calloc(strlen(text) + 1, 1), *at = copy;
    for (const char *line = text, *end; *line; line = end) {
        end = strchr(line, '\n') ? strchr(line, '\n') + 1 : line + strlen(line);
        bool drop = false;
        for (size_t i = 0; i < COUNT_OF(keys); i++) {
            const char *hit = strstr(line, keys[i]);
            drop = drop || (hit && hit < end);
        }
        if (drop) continue;
        memcpy(at, line, (size_t)(end - line));
        at += end - line;
    }
    return copy;
}

/* Sets up the calls of a round, which write separate files. round: "alone", "both" or "cancel". */
static void fill_calls(struct one_call c[N_CALLS], const char *round) {
    static char path[3][2][256], base[256], q[256];
    const int k = round[0] - 'a';
    const char *text = "tests/golden/tiny-qwen35moe/self_eval.txt";
    snprintf(base, sizeof base, "%s", tmp_path("base.gguf"));
    snprintf(q, sizeof q, "%s", tmp_path("q.gguf"));
    for (int i = 0; i < 2; i++)
        snprintf(path[k][i], sizeof path[k][i], "%s-%d.gguf", tmp_path(round), i);
    const struct one_call calls[N_CALLS] = {
        {.command = "eval",
         .args = {"kld", q, text, "--base", base, "--ctx", "64", "--chunks", "3", "-j", "2"}},
        {.command = "eval",
         .args = {"ppl", base, text, "--ctx", "32", "--chunks", "4", "-j", "3", "--untrusted"}},
        {.command = "quantize",
         .args = {base, "-o", path[k][0], "--type", "Q5_K", "-j", "2", "--trace"}},
        {.command = "quantize",
         .args = {base, "-o", path[k][1], "--recipe", "IQ4_XS", "-q", "--isa", "ref"}},
    };
    memcpy(c, calls, sizeof calls);
}

static long same_files(const char *a, const char *b) {
    FILE *f = fopen(a, "rb"), *g = fopen(b, "rb");
    long n = 0;
    int x = 0, y = 0;
    while (f && g && x == y && x != EOF) {
        x = getc(f);
        y = getc(g);
        n++;
    }
    if (f) fclose(f);
    if (g) fclose(g);
    return x == EOF && y == EOF ? n : 0;
}

static void test_threads(void) {
    static struct one_call alone[N_CALLS], both[N_CALLS];
    pthread_t t[N_CALLS];
    fill_calls(alone, "alone");
    fill_calls(both, "both");
    for (int i = 0; i < N_CALLS; i++) in_thread(&alone[i]);
    for (int i = 0; i < N_CALLS; i++) CHECK(pthread_create(&t[i], NULL, in_thread, &both[i]) == 0);
    for (int i = 0; i < N_CALLS; i++) pthread_join(t[i], NULL);
    for (int i = 0; i < N_CALLS; i++) {
        char *a = without_times(alone[i].r.text), *b = without_times(both[i].r.text);
        if (alone[i].rc || both[i].rc)
            CHECK_FAIL("call %d: %s / %s", i, alone[i].r.message, both[i].r.message);
        CHECK(strlen(a) > 100);
        CHECK_EQ_STR(b, a);
        CHECK_EQ_I64(both[i].seen.n_log, alone[i].seen.n_log);
        CHECK_EQ_I64(both[i].seen.n_progress, alone[i].seen.n_progress);
        if (i >= 2) CHECK(same_files(alone[i].args[2], both[i].args[2]) > 10000);
        free(a);
        free(b);
        result_free(&alone[i].r);
        result_free(&both[i].r);
    }
    CHECK(alone[2].seen.n_log > 0 && alone[3].seen.n_log == 0); /* --trace and -q */
}

/* Cancels one of two calls; the other must be neither affected nor delayed. Quantization reports
 * progress after every tensor, so it is cancelled halfway. */
static void test_cancel_one(void) {
    static struct one_call c[N_CALLS];
    pthread_t t[2];
    fill_calls(c, "cancel");
    c[2].cancel_at = 2;
    for (int i = 0; i < 2; i++) CHECK(pthread_create(&t[i], NULL, in_thread, &c[i + 1]) == 0);
    for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
    CHECK_EQ_I64(c[1].rc, HONE_OK);
    CHECK_EQ_I64(c[2].rc, HONE_CANCELLED);
    CHECK_EQ_I64(c[2].seen.n_progress, 2);
    CHECK(!exists(c[2].args[2]));
    for (int i = 1; i < 3; i++) result_free(&c[i].r);
}

int main(void) {
    tmp_make();
    RUN(test_results);
    RUN(test_callbacks);
    RUN(test_limits);
    RUN(test_locale);
    RUN(test_threads);
    RUN(test_cancel_one);
    tmp_remove();
    return check_done();
}
