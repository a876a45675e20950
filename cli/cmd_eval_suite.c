// SPDX-License-Identifier: MIT
/* cli/cmd_eval_suite.c - hone eval suite | compare: options of runtime/measure/set.c. */
#include "cli/cmd_eval.h"
#include "runtime/measure/set.h"

#define AT(member) offsetof(struct eval_set_opts, member)
static const struct option suite_opts[] = {
    ROW("output", 'o', OPT_OUT, AT(eval.out), "FILE", "the result, for hone eval compare"),
    ROW("base", 0, OPT_TEXT, AT(eval.base), "FILE", "also divergence from this model"),
    ROW("text", 0, OPT_LIST, AT(text), "FILE", "perplexity of it (built-in text); repeatable"),
    ROW("tools", 0, OPT_LIST, AT(tools), "SUITE",
        "suite of tool calls or checks (builtin), none; repeatable"),
    ROW("choice", 0, OPT_LIST, AT(choice), "FORMAT:FILE", "multiple-choice tasks; repeatable"),
    ROW("needle", 0, OPT_LIST, AT(needle), "TEXT", "needles hidden in it; repeatable"),
    ROW("needle-ctx", 0, OPT_TOKENS, AT(needle_ctx), "N", "tokens of their windows (4096)"),
    ROW("ctx", 0, OPT_TOKENS, AT(eval.ctx), "N", "tokens of a window of text (512)"),
    ROW("chunks", 0, OPT_COUNT, AT(eval.chunks), "N", "windows of each text (40); 0: all"),
    ROW("cases", 0, OPT_COUNT, AT(n_cases), "N", "of suites and tasks, evenly spread; 0: all"),
    ROW("max-tokens", 0, OPT_COUNT, AT(max_tokens), "N", "tokens of an answer at most (256)"),
    EVAL_OPT_KV,
    EVAL_OPT_ACT,
    EVAL_OPT_PRE,
    {0}};
#undef AT
static const struct cmd_spec suite_spec = {
    .name = "eval suite",
    .synopsis = "MODEL.gguf -o OUT.json [--base BASE.gguf] [--text FILE]... [--tools SUITE]... "
                "[--choice FORMAT:FILE]... [--needle TEXT]...",
    .about = "The standard set on one model: perplexity, divergence from a base, tool calls, and "
             "the tasks named;\n"
             "one file with a number per window and case. hone eval compare sets two against "
             "each other.",
    .opts = suite_opts,
    .min_args = 1,
    .max_args = 1,
};

int eval_cmd_suite(struct cli *c, int argc, char **argv, struct err *e) {
    struct eval_set_opts a = eval_set_usual;
    TRY(cli_parse(c, &suite_spec, &a, argc, argv, e));
    if (c->done) return 0;
    a.model = c->arg[0];
    struct emit *m = emit_new();
    return cli_result(c, m, eval_set_run(&c->work, &a, m, e));
}

static const struct cmd_spec compare_spec = {
    .name = "eval compare",
    .synopsis = "A.json B.json",
    .about = "Two results of 'hone eval suite': which is better, where, and is the difference "
             "larger than its\n"
             "error? Window by window and case by case on the same inputs; 95 % by resampling.",
    .min_args = 2,
    .max_args = 2,
};

int eval_cmd_compare(struct cli *c, int argc, char **argv, struct err *e) {
    TRY(cli_parse(c, &compare_spec, NULL, argc, argv, e));
    if (c->done) return 0;
    struct emit *m = emit_new();
    return cli_result(c, m, eval_set_compare(c->arg[0], c->arg[1], m, e));
}
