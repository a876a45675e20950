// SPDX-License-Identifier: MIT
/* tests/unit/test_choices.c - multiple choice and greedy answers of the tiny model against
 * transformers (tests/golden/suites/choices.json, made by tests/oracle/choices.py); needles; files
 * that are not what they should be. */
#include "convert/convert.h"
#include "base/io.h"
#include "base/out.h"
#include "base/json.h"
#include "runtime/measure/eval.h"
#include "tests/check.h"
#include "tests/unit/tmpdir.h"
#include "runtime/measure/choices.h"
#include "runtime/measure/suite.h"

#define DIR "tests/golden/suites/"
static struct err e;
static struct model *model;
static struct pool *pool;
static struct json *golden;

static void setup(void) {
    struct convert_opts o = {
        .src = "tests/golden/tiny-qwen35moe", .out = tmp_path("m.gguf"), .type = "f32"};
    struct convert_report r;
    CHECK_OK(convert_run(&o, &r, &e));
    CHECK_OK(model_open(&model, o.out, &e));
    CHECK_OK(pool_new(&pool, 2, &e));
    CHECK_OK(json_read(&golden, DIR "choices.json", 1 << 22, &e));
}

static struct session *open_session(int64_t n_ctx) {
    struct session *s = NULL;
    struct session_opts o = {.n_ctx = n_ctx, .isa = kern_isa_best(), .pool = pool};
    CHECK_OK(session_new(&s, model, &o, &e));
    return s;
}

/* Checks the scores of one format. Logits agree within 5e-4 (tests/unit/test_session.c). A
 * log-probability, the difference of a logit and a log-sum-exp, therefore agrees within 1e-3, and
 * so does a mean of them. */
static void check_format(const char *format, const char *file) {
    struct choice_tasks c;
    struct choice_answers a;
    CHECK_OK(choices_open(&c, format, file, model->tok, 0, &e));
    struct session *s = open_session(c.longest);
    CHECK_OK(eval_choices(s, &c, NULL, &a, &e));
    const struct json *want = json_first(json_get(golden, format));
    for (int i = 0; i < a.n; i++) {
        CHECK(want != NULL);
        int n = 0, best = 0;
        double top = -HUGE_VAL;
        CHECK_EQ_I64(c.t[i].right, json_num(json_get(want, "right"), -1));
        for (const struct json *x = json_first(json_get(want, "scores")); x; x = json_next(x)) {
            CHECK_CLOSE(a.score[i][n], json_num(x, 0), 1e-3);
            if (json_num(x, 0) > top) top = json_num(x, 0), best = n;
            n++;
        }
        CHECK_EQ_I64(n, c.t[i].n);
        CHECK_EQ_I64(a.pick[i], best);
        want = json_next(want);
    }
    CHECK(want == NULL);
    session_free(s);
    choice_answers_release(&a);
    choices_close(&c);
}
static void test_scores(void) {
    check_format("winogrande", DIR "winogrande.csv");
    check_format("choice", DIR "choice.bin");
    if (CHECK_SANITIZED) return; /* the code is the same for all formats */
    check_format("hellaswag", DIR "hellaswag.txt");
    check_format("mmlu", DIR "mmlu.csv");
}

static bool has_name(void *ud, const char *text, size_t n) {
    (void)ud, (void)n;
    return strstr(text, "<function=") != NULL;
}

static void test_greedy_answers(void) {
    enum { N = CHECK_SANITIZED ? 1 : 3 }; /* of 12 */
    struct suite s;
    struct suite_plan p;
    CHECK_OK(suite_open(&s, "tests/golden/tiny-qwen35moe/tools.jsonl", &e));
    CHECK_OK(suite_plan_open(&p, &s, model, 0, NULL, &e));
    struct session *se = open_session(p.longest + 120);
    const struct json *want = json_first(json_get(golden, "answers"));
    for (int i = 0; i < N; i++, want = json_next(want)) {
        struct eval_gen g = {0};
        CHECK_EQ_STR(s.c[i].id, json_str(json_get(want, "id")));
        CHECK_EQ_I64(p.prompt[i].n, json_num(json_get(want, "n_prompt"), 0));
        CHECK_OK(eval_generate(se, &p.prompt[i], &(struct eval_gen_opts){.n_max = 120}, &g, &e));
        CHECK_EQ_STR(g.text.data, json_str(json_get(want, "text")));
        CHECK(g.ended);
        buf_release(&g.text);
    }
    struct eval_gen g = {0};
    const struct eval_gen_opts how = {.n_max = 120, .done = has_name};
    const char *text = json_str(json_get(json_first(json_get(golden, "answers")), "text"));
    CHECK_OK(eval_generate(se, &p.prompt[0], &how, &g, &e)); /* ends once it is complete */
    CHECK(g.ended && strlen(text) > g.text.len && memcmp(g.text.data, text, g.text.len) == 0);
    CHECK(strstr(g.text.data, "<function=") && !strstr(g.text.data, "</function>"));
    buf_release(&g.text);
    CHECK_OK(eval_generate(se, &p.prompt[0], &(struct eval_gen_opts){.n_max = 4}, &g, &e));
    CHECK(!g.ended && g.n_new == 4);
    buf_release(&g.text);
    session_free(se);
    se = open_session(64);
    CHECK_ERR(eval_generate(se, &p.prompt[0], &(struct eval_gen_opts){.n_max = 4}, &g, &e),
              ERR_USAGE, "--ctx");
    session_free(se);
    suite_plan_close(&p);
    suite_close(&s);
}

/* Checks that the window has the requested length, the number is in the right place, and the rest
 * is the text. */
static void test_needles(void) {
    enum { CTX = 256, DEPTHS = 3, PER = 2 };
    char *text = NULL;
    size_t len = 0;
    struct choice_tasks c;
    CHECK_OK(io_read_file(&text, &len, "tests/golden/tiny-qwen35moe/self_eval.txt", 1 << 24, &e));
    CHECK_OK(choices_needle(&c, text, len, "text", model->tok, CTX, DEPTHS, PER, &e));
    CHECK_EQ_I64(c.n, DEPTHS * PER);
    CHECK_EQ_STR(c.t[0].group, "depth 0 %");
    CHECK_EQ_STR(c.t[5].group, "depth 100 %");
    CHECK(c.longest == CTX);
    for (int i = 0; i < c.n; i++) {
        const struct choice_task *t = &c.t[i];
        struct buf b = {0};
        for (int64_t k = 0; k < t->seq[t->right].n; k++)
            tok_decode(model->tok, t->seq[t->right].v[k], true, &b);
        const char *said = strstr(b.data, "The secret number of "), *asked = NULL;
        CHECK(said != NULL);
        if (said) asked = strstr(said + 1, "The secret number of ");
        CHECK(asked && !strstr(asked + 1, "The secret number of "));
        if (said && asked) {
            const char *number = strstr(said, " is ") + 4;
            CHECK(strncmp(number, strstr(asked, " is ") + 4, 5) == 0);
            double at = (double)(said - b.data) / (double)(asked - b.data);
            CHECK_CLOSE(at, (i / PER) / 2.0, 0.15); /* bytes for tokens */
        }
        for (int k = 0; k < t->n; k++) CHECK(k == t->right || t->common < t->seq[k].n);
        buf_release(&b);
    }
    choices_close(&c);
    CHECK_ERR(choices_needle(&c, text, 100, "text", model->tok, CTX, 3, 1, &e), ERR_DATA, "tokens");
    CHECK_ERR(choices_needle(&c, text, len, "text", model->tok, 8, 3, 1, &e), ERR_USAGE,
              "too short");
    free(text);
}

static void test_bad_files(void) {
    static const struct {
        const char *format, *text, *message;
        size_t len;
    } bad[] = {
        {"hellaswag", "", "contains no task", 0},
        {"hellaswag", "a\nb\nc\nd\ne\n", "contains no task", 10},
        {"hellaswag", "a\n4\nc\nd\ne\nf\n", "not 0, 1, 2 or 3", 12},
        {"hellaswag", "a\n1\nc\nc\nc\nc\n", "no token of its own", 12},
        {"winogrande", "1,2,3\n", "has 3 fields", 6},
        {"winogrande", "0,no blank,a,b,1\n", "a sentence with _", 17},
        {"winogrande", "0,a _ b,a,b,3\n", "answer 1 or 2", 14},
        {"mmlu", "q,a,b,c,d,E\n", "not A, B, C or D", 12},
        {"mmlu", "q,a,b,c,d,A,x\n", "has 7 fields", 14},
        {"mmlu", "\n\"q,\nr\",a,b,c,d,E\n", "line 2: the answer", 18},
        {"mmlu", "q,\"a,b,c,d,A\nq,a,b,c,d,A\n", "line 1: unterminated quoted field", 25},
        {"choice", "\1\0", "is truncated", 2},
        {"choice", "\xff\xff\xff\xff", "is truncated", 4},
        {"choice", "\1\0\0\0\x63\0\0\0", "outside the file", 8},
        {"choice", "\1\0\0\0\0\0\0\0\xff\xff\xff\xff", "is not a question", 12},
        {"choice", "\1\0\0\0\0\0\0\0\1\0\0\0q\xff\xff\xff\xff", "is not a question", 17},
        {"boolq", "", "hellaswag, winogrande", 0},
    };
    struct choice_tasks c;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK_OK(out_write_file(tmp_path("bad"), bad[i].text, bad[i].len, true, &e));
        CHECK_ERR(choices_open(&c, bad[i].format, tmp_path("bad"), model->tok, 0, &e),
                  i + 1 < sizeof bad / sizeof *bad ? ERR_DATA : ERR_USAGE, bad[i].message);
    }
    CHECK_OK(choices_open(&c, "winogrande", DIR "winogrande.csv", model->tok, 3, &e));
    CHECK_EQ_I64(c.n, 3);
    choices_close(&c);
}

/* Line breaks in quotes belong to the field. Tasks, not lines, are counted and spread. */
static void test_csv_records(void) {
    static const char text[] = "\n\r\n\"0\",\"The \"\"big\"\"\n_ is here.\",dog,cat,1\r\n\n\n\n"
                               "1,A 9\" _ is here.,dog,cat,2\n\n2,The _ is here.,dog,cat,1";
    struct choice_tasks c;
    struct buf b = {0};
    CHECK_OK(out_write_file(tmp_path("csv"), text, strlen(text), true, &e));
    CHECK_OK(choices_open(&c, "winogrande", tmp_path("csv"), model->tok, 0, &e));
    CHECK_EQ_I64(c.n, 3);
    for (int64_t k = 0; k < c.t[0].seq[1].n; k++)
        tok_decode(model->tok, c.t[0].seq[1].v[k], true, &b);
    CHECK_EQ_STR(b.data, "The \"big\"\ncat is here.");
    CHECK_EQ_I64(c.t[0].right, 0);
    CHECK_EQ_I64(c.n > 1 ? c.t[1].right : -1, 1);
    choices_close(&c);
    buf_release(&b);
    CHECK_OK(choices_open(&c, "winogrande", tmp_path("csv"), model->tok, 2, &e));
    CHECK_EQ_I64(c.n, 2);
    choices_close(&c);
}

int main(void) {
    tmp_make();
    RUN(setup);
    if (!model || !golden) return check_done();
    RUN(test_scores);
    RUN(test_greedy_answers);
    RUN(test_needles);
    RUN(test_bad_files);
    RUN(test_csv_records);
    json_free(golden);
    model_close(model);
    pool_free(pool);
    tmp_remove();
    return check_done();
}
