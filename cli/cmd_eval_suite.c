// SPDX-License-Identifier: MIT
/* cli/cmd_eval_suite.c - hone eval suite | compare: options of jobs/eval_set.c. */
#include "cli/cmd_eval.h"
#include "jobs/eval_set.h"

#define AT(member) offsetof(struct eval_set_opts, member)
static const struct opt suite_opts[] = {
    {"output", 'o', OPT_OUT, AT(eval.out), "FILE", "the result, for hone eval compare"},
    {"base", 0, OPT_STR, AT(eval.base), "FILE", "also divergence from this model"},
    {"text", 0, OPT_LIST, AT(text), "FILE", "perplexity of it (built-in text); repeatable"},
    {"tools", 0, OPT_LIST, AT(tools), "SUITE",
     "suite of tool calls or checks (builtin), none; repeatable"},
    {"choice", 0, OPT_LIST, AT(choice), "FORMAT:FILE", "multiple-choice tasks; repeatable"},
    {"needle", 0, OPT_LIST, AT(needle), "TEXT", "needles hidden in it; repeatable"},
    {"needle-ctx", 0, OPT_I64, AT(needle_ctx), "N", "tokens of their windows (4096)"},
    {"ctx", 0, OPT_I64, AT(eval.ctx), "N", "tokens of a window of text (512)"},
    {"chunks", 0, OPT_I64, AT(eval.chunks), "N", "windows of each text (40); 0: all"},
    {"cases", 0, OPT_I64, AT(n_cases), "N", "of suites and tasks, evenly spread; 0: all"},
    {"max-tokens", 0, OPT_I64, AT(max_tokens), "N", "tokens of an answer at most (256)"},
    EVAL_OPT_KV,
    EVAL_OPT_ACT,
    EVAL_OPT_PRE,
};
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
    .n_opts = (int)COUNT_OF(suite_opts),
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
