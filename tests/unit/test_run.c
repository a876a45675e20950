// SPDX-License-Identifier: MIT
/* tests/unit/test_run.c - parts of `hone run`: settings and their ranges, commands of a
 * conversation, and the generation loop (runtime/generate/gen.h): an answer generated in several
 * calls equals one generated in a single call, with or without rewinding to a mark. */
#include "cli/chat_line.h"
#include "runtime/generate/run_set.h"
#include "convert/convert.h"
#include "base/mem.h"
#include "base/progress.h"
#include "runtime/generate/gen.h"
#include "tests/check.h"
#include "tests/unit/tmpdir.h"

static struct err e;
static struct model *model;

static void test_settings(void) {
    struct run_set s;
    struct buf b = {0};
    CHECK_OK(run_set_init(&s, NULL, &e));
    CHECK_CLOSE(s.sample.temp, 0.8, 1e-6);
    CHECK_OK(run_set(&s, "--", "temp", "1.5", &e));
    CHECK_OK(run_set(&s, "/set ", "top_k", "7", &e));
    CHECK_OK(run_set(&s, "--", "n-predict", "-1", &e));
    CHECK_OK(run_set(&s, "/set ", "think", "off", &e));
    CHECK_OK(run_set(&s, "/set ", "think", "fold", &e));
    CHECK(s.sample.top_k == 7 && s.n == -1 && s.n_given && s.think == THINK_OFF &&
          s.thinking == THINKING_FOLD);
    static const char *const bad[][3] = {{"temp", "-1", "0 to 100"},
                                         {"temp", "nan", "0 to 100"},
                                         {"temp", "0x1p3", "0 to 100"},
                                         {"top-p", "1.0001", "0 to 1"},
                                         {"min-p", "inf", "0 to 1"},
                                         {"top-k", "1.5", "whole"},
                                         {"repeat-penalty", "0", "0.01"},
                                         {"n", "0", "or -1"},
                                         {"n", "-2", "or -1"},
                                         {"seed", "-3", "or -1"},
                                         {"think", "maybe", "one of on"},
                                         {"temp", "", "0 to 100"},
                                         {"temp", " 1", "0 to 100"},
                                         {"nothing", "1", "known settings: temp, top-k"}};
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        CHECK_ERR(run_set(&s, "--", bad[i][0], bad[i][1], &e), ERR_USAGE, bad[i][2]);
    CHECK_CLOSE(s.sample.temp, 1.5, 1e-6); /* rejected values change nothing */
    CHECK(run_set_show(&s, "top-k", &b) && strstr(b.data, "7") && !run_set_show(&s, "x", &b));
    buf_release(&b);
    struct run_set other;
    int64_t seed = s.seed;
    CHECK_OK(run_set_init(&other, NULL, &e));
    CHECK(other.seed != seed && seed >= 0 && seed < (int64_t)1 << 53);
    CHECK_OK(run_set(&s, "--", "seed", "-1", &e));
    CHECK(s.seed != seed && !s.seed_given);
    CHECK_OK(run_set(&s, "--", "seed", "9007199254740992", &e));
    CHECK_EQ_I64(s.seed, (int64_t)1 << 53);
}

/* Checks that -1 in a file is the whole context and the whole vocabulary. */
static void test_settings_of_a_file(void) {
    struct gguf_w *w = gguf_w_new();
    struct gguf *g = NULL;
    struct run_set s;
    gguf_w_int(w, "general.sampling.penalty_last_n", GV_I32, -1);
    gguf_w_int(w, "general.sampling.top_k", GV_I32, -1);
    CHECK_OK(gguf_w_begin(w, tmp_path("set.gguf"), true, &e));
    CHECK_OK(gguf_w_commit(w, &e));
    gguf_w_free(w);
    CHECK_OK(gguf_open(&g, tmp_path("set.gguf"), 0, &e));
    CHECK_OK(run_set_init(&s, g, &e));
    CHECK_EQ_I64(s.sample.repeat_last_n, INT32_MAX);
    CHECK_EQ_I64(s.sample.top_k, 0);
    gguf_close(g);
}

static void test_commands(void) {
    static const struct {
        const char *line;
        enum chat_kind kind;
        const char *rest;
    } row[] = {
        {"hello", CHAT_TEXT, "hello"},
        {" /help", CHAT_TEXT, " /help"},
        {"//help", CHAT_TEXT, "/help"},
        {"/help", CHAT_COMMAND, ""},
        {"/system  a b\nc", CHAT_COMMAND, "a b\nc"},
        {"/exit ", CHAT_COMMAND, ""},
        {"/hel", CHAT_UNKNOWN, NULL},
        {"/helper", CHAT_UNKNOWN, NULL},
        {"/usr/bin/env?", CHAT_UNKNOWN, NULL},
        {"/", CHAT_UNKNOWN, NULL},
    };
    for (size_t i = 0; i < COUNT_OF(row); i++) {
        int command;
        const char *rest;
        CHECK_EQ_I64(chat_parse(row[i].line, &command, &rest), row[i].kind);
        if (row[i].rest) CHECK_EQ_STR(rest, row[i].rest);
    }
    for (const char *const *w = chat_words; *w; w++) { /* every word that Tab completes is valid */
        int command;
        const char *rest;
        CHECK_EQ_I64(chat_parse(*w, &command, &rest), CHAT_COMMAND);
    }
}

/* ---- the loop ---- */

static struct session *session(int64_t n_ctx) {
    struct session *s = NULL;
    struct session_opts o = {.n_ctx = n_ctx, .isa = kern_isa_best()};
    CHECK_OK(session_new(&s, model, &o, &e));
    return s;
}

static void encode(const char *text, struct ids *out) {
    CHECK_OK(tok_encode(model->tok, text, strlen(text), true, false, out, &e));
}

static void add_text(void *ud, const char *s, size_t n) {
    buf_add(ud, s, n);
}

static const struct gen_opts greedy = {.sample = {.temp = 0, .top_p = 1, .repeat_penalty = 1},
                                       .n_max = 40};

static void answer(struct gen *g, const struct gen_opts *o, const struct ids *prompt, int64_t mark,
                   struct gen_answer *a, int64_t *n_new) {
    struct ids all = {0};
    for (int64_t i = 0; i < prompt->n; i++) ids_add(&all, prompt->v[i]);
    for (int64_t i = 0; i < a->ids.n; i++) ids_add(&all, a->ids.v[i]);
    CHECK_OK(gen_prompt(g, &all, mark, n_new, &e));
    CHECK_OK(gen_run(g, o, a, &e));
    ids_release(&all);
}

static void test_pieces(void) {
    struct session *s = session(200);
    struct gen *g = NULL;
    struct gen_answer whole = {0}, parts = {0};
    struct gen_opts o = greedy;
    struct buf shown = {0};
    struct ids prompt = {0};
    int64_t n_new;
    encode("The value of the", &prompt);
    CHECK_OK(gen_new(&g, s, NULL, &e));
    answer(g, &greedy, &prompt, -1, &whole, &n_new);
    CHECK(whole.stop == GEN_LENGTH && whole.n_drawn == 40 && n_new == prompt.n);
    o.sink = add_text;
    o.ud = &shown;
    o.n_max = 13;
    answer(g, &o, &prompt, -1, &parts, &n_new);
    CHECK_EQ_I64(n_new, prompt.n); /* no mark to return to */
    answer(g, &o, &prompt, -1, &parts, &n_new);
    CHECK_EQ_I64(n_new, 1); /* the last token drawn */
    o.n_max = 14;
    answer(g, &o, &prompt, -1, &parts, &n_new);
    CHECK_EQ_STR(parts.text.data, whole.text.data);
    CHECK_EQ_STR(shown.data, whole.text.data);
    gen_answer_release(&whole);
    gen_answer_release(&parts);
    buf_release(&shown);
    ids_release(&prompt);
    gen_free(g);
    session_free(s);
}

/* Checks that a different end of the prompt costs only the tokens after the mark and equals a fresh
 * start. */
static void test_mark(void) {
    struct session *s = session(200);
    struct gen *g = NULL;
    struct gen_answer a = {0}, b = {0}, fresh = {0};
    struct ids one = {0}, two = {0};
    int64_t n_new;
    encode("Some words that stay as they are. First end", &one);
    encode("Some words that stay as they are. Second one", &two);
    CHECK_OK(gen_new(&g, s, NULL, &e));
    answer(g, &greedy, &one, 5, &a, &n_new);
    CHECK_EQ_I64(n_new, one.n);
    answer(g, &greedy, &two, 5, &b, &n_new);
    CHECK_EQ_I64(n_new, two.n - 5);
    gen_free(g);
    session_reset(s);
    CHECK_OK(gen_new(&g, s, NULL, &e));
    answer(g, &greedy, &two, -1, &fresh, &n_new);
    CHECK_EQ_STR(b.text.data, fresh.text.data);
    gen_answer_release(&a);
    gen_answer_release(&b);
    gen_answer_release(&fresh);
    ids_release(&one);
    ids_release(&two);
    gen_free(g);
    session_free(s);
}

/* Checks that a stop text is removed wherever it occurs, even across tokens, and that no part of it
 * is shown. */
static void test_stop(void) {
    struct session *s = session(100);
    struct gen *g = NULL;
    struct gen_answer whole = {0};
    struct ids prompt = {0};
    int64_t n_new;
    encode("The value of the", &prompt);
    CHECK_OK(gen_new(&g, s, NULL, &e));
    answer(g, &greedy, &prompt, -1, &whole, &n_new);
    const size_t n = whole.text.len;
    for (size_t at = 3; at + 9 < n; at += 11) {
        char text[10];
        struct gen_answer a = {0};
        struct buf shown = {0};
        snprintf(text, sizeof text, "%.9s", whole.text.data + at);
        const char *const stop[] = {"text of no answer", text};
        struct gen_opts o = greedy;
        o.stop = stop;
        o.n_stop = 2;
        o.sink = add_text;
        o.ud = &shown;
        buf_str(&shown, "");
        answer(g, &o, &prompt, -1, &a, &n_new);
        const char *first = strstr(whole.text.data, text);
        CHECK_EQ_I64(a.stop, GEN_TEXT);
        CHECK_EQ_I64(a.text.len, first - whole.text.data);
        CHECK_EQ_STR(shown.data, a.text.data);
        gen_answer_release(&a);
        buf_release(&shown);
    }
    CHECK(n > 30);
    gen_answer_release(&whole);
    ids_release(&prompt);
    gen_free(g);
    session_free(s);
}

static void test_limits(void) {
    struct session *s = session(8);
    struct gen *g = NULL;
    struct gen_answer a = {0};
    struct ids prompt = {0};
    int64_t n_new;
    CHECK_OK(gen_new(&g, s, NULL, &e));
    CHECK_ERR(gen_prompt(g, &prompt, -1, &n_new, &e), ERR_USAGE, "empty");
    encode("The value of the", &prompt);
    answer(g, &greedy, &prompt, -1, &a, &n_new);
    CHECK_EQ_I64(a.stop, GEN_CONTEXT);
    CHECK_EQ_I64(a.ids.n, 8 - prompt.n + 1);
    gen_answer_release(&a);
    encode(" and a good many words more than it can hold", &prompt);
    CHECK_ERR(gen_prompt(g, &prompt, -1, &n_new, &e), ERR_USAGE, "--ctx");
    prompt.n = 3;
    progress_interrupt(); /* and it can be used after an interruption */
    CHECK_ERR(gen_prompt(g, &prompt, -1, &n_new, &e), ERR_INTR, "");
    progress_resume();
    CHECK_OK(gen_prompt(g, &prompt, -1, &n_new, &e));
    progress_interrupt();
    CHECK_ERR(gen_run(g, &greedy, &a, &e), ERR_INTR, "");
    CHECK_EQ_I64(a.stop, GEN_INTERRUPTED);
    progress_resume();
    CHECK_OK(gen_run(g, &greedy, &a, &e));
    gen_answer_release(&a);
    ids_release(&prompt);
    gen_free(g);
    session_free(s);
}

/* Checks that no token is drawn under a grammar, or in the reasoning before its text, from the
 * logits of a model that has more of them than tokens. */
static void test_more_logits_than_tokens(void) {
    enum { MORE = 100 };
    static const char *const close[] = {NULL, "</think>"};
    static const struct sample_opts all = {.temp = 1, .top_p = 1, .repeat_penalty = 1};
    const int64_t n = tok_n_vocab(model->tok);
    float *logits = xcalloc((size_t)(n + MORE), sizeof *logits);
    struct gram_vocab *v = NULL;
    struct grammar *g = NULL;
    for (int64_t i = n; i < n + MORE; i++) logits[i] = 20;
    CHECK_OK(gram_vocab_new(&v, model->tok, &e));
    CHECK_OK(grammar_of_regex(&g, v, "[a-z]*", 6, &e));
    for (size_t i = 0; i < COUNT_OF(close); i++) {
        const struct constrain_opts o = {.g = g, .close = close[i]};
        struct constrain *c = constrain_new(&o, model->tok);
        struct sampler *s = sampler_new(&all, n + MORE, 1);
        int32_t id = -1;
        CHECK_OK(constrain_pick(c, s, logits, NULL, 0, &id, &e));
        CHECK(id >= 0 && id < n);
        sampler_free(s);
        constrain_free(c);
    }
    grammar_free(g);
    gram_vocab_free(v);
    free(logits);
}

/* Checks that white space before a constrained text, which the grammar does not have, is not part
 * of it, whether after reasoning or at the start. */
static void test_aside(void) {
    static const char *const close[] = {NULL, "</think>"};
    struct gram_vocab *v = NULL;
    struct grammar *g = NULL;
    CHECK_OK(gram_vocab_new(&v, model->tok, &e));
    CHECK_OK(grammar_of_regex(&g, v, " [a-z]+", 7, &e));
    for (size_t i = 0; i < COUNT_OF(close); i++) {
        const struct constrain_opts o = {.g = g, .close = close[i], .spaces = 2};
        struct constrain *c = constrain_new(&o, model->tok);
        struct ids t = {0};
        CHECK_OK(
            tok_encode(model->tok, i ? "x</think>\n a" : "\n a", i ? 12 : 3, true, false, &t, &e));
        size_t aside = 0;
        for (int64_t k = 0; k < t.n; k++) {
            CHECK_OK(constrain_accept(c, t.v[k], &e));
            aside += constrain_aside(c);
        }
        CHECK_EQ_I64(aside, 1); /* the grammar has the space itself */
        ids_release(&t);
        constrain_free(c);
    }
    grammar_free(g);
    gram_vocab_free(v);
}

int main(void) {
    tmp_make();
    struct convert_opts o = {
        .src = "tests/golden/tiny-qwen35moe", .out = tmp_path("m.gguf"), .type = "f32"};
    struct convert_report r;
    RUN(test_settings);
    RUN(test_settings_of_a_file);
    RUN(test_commands);
    if (convert_run(&o, &r, &e) || model_open(&model, o.out, &e)) {
        fprintf(stderr, "%s\n", e.msg);
        tmp_remove();
        return 1;
    }
    RUN(test_pieces);
    RUN(test_mark);
    RUN(test_stop);
    RUN(test_limits);
    RUN(test_more_logits_than_tokens);
    RUN(test_aside);
    model_close(model);
    tmp_remove();
    return check_done();
}
