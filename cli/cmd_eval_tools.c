// SPDX-License-Identifier: MIT
/* cli/cmd_eval_tools.c - hone eval tools | checks: options of runtime/measure/cases.c. */
#include "cli/cmd_eval.h"
#include "runtime/measure/cases.h"

#define AT(member) offsetof(struct cases_opts, member)
static const struct option cases_options[] = {
    ROW("base", 0, OPT_TEXT, AT(eval.base), "FILE", "also ask this model and compare the answers"),
    ROW("cases", 0, OPT_COUNT, AT(n_cases), "N",
        "at most N cases, evenly spread; 0: all (default)"),
    ROW("max-tokens", 0, OPT_COUNT, AT(max_tokens), "N", "tokens of an answer at most (256)"),
    ROW("format", 0, OPT_TEXT, AT(format), "NAME",
        "syntax of calls (default: what the template asks for)"),
    ROW("require", 0, OPT_NUMBER, AT(require), "PERCENT", "exit 1 when fewer cases pass"),
    ROW("no-loss", 0, OPT_FLAG, AT(no_loss), NULL, "exit 1 when a case fails that the base passes"),
    ROW("from-answers", 0, OPT_FLAG, AT(from_answers), NULL,
        "the suite is a record of hone serve: its answers are expected"),
    ROW("constrained", 0, OPT_FLAG, AT(constrained), NULL,
        "answer once more with calls held to the tools' schemas, and show both"),
    ROW("strict-calls", 0, OPT_FLAG, AT(eval.strict_calls), NULL,
        "only the template's own syntax makes a call, not bare JSON that names a tool"),
    ROW("jump", 0, OPT_FLAG, AT(jump), NULL,
        "with --constrained: what must come is not drawn, as in use"),
    ROW("all", 0, OPT_FLAG, AT(all), NULL, "show every case, not only those that failed"),
    ROW("ctx", 0, OPT_TOKENS, AT(eval.ctx), "N",
        "context (default: the longest prompt and answer)"),
    EVAL_OPT_KV,
    EVAL_OPT_ACT,
    EVAL_OPT_PRE,
    EVAL_OPT_KEEP,
    {0}};
#undef AT

static int cmd_suite(struct cli *c, int argc, char **argv, const char *name, const char *synopsis,
                     const char *about, int min_args, struct err *e) {
    struct cases_opts a = eval_cases_usual;
    const struct cmd_spec spec = {.name = name,
                                  .synopsis = synopsis,
                                  .about = about,
                                  .opts = cases_options,
                                  .min_args = min_args,
                                  .max_args = 2};
    TRY(cli_parse(c, &spec, &a, argc, argv, e));
    if (c->done) return 0;
    a.model = c->arg[0];
    a.suite = c->n_args > 1 ? c->arg[1] : "builtin";
    a.table = c->form == EMIT_TABLE;
    struct emit *m = emit_new();
    return cli_verdict(c, m, eval_cases_run(&c->work, &a, m, e));
}

int eval_cmd_tools(struct cli *c, int argc, char **argv, struct err *e) {
    return cmd_suite(c, argc, argv, "eval tools",
                     "MODEL.gguf [SUITE.jsonl] [--base BASE.gguf] [--cases N] [--require PERCENT]",
                     "Tool calls: renders each case with the model's template, answers greedily, "
                     "reads the calls, checks\n"
                     "them against the tool's JSON schema and the call expected. Without a suite "
                     "the built-in one of 60.",
                     1, e);
}

int eval_cmd_checks(struct cli *c, int argc, char **argv, struct err *e) {
    return cmd_suite(c, argc, argv, "eval checks",
                     "MODEL.gguf SUITE.jsonl [--base BASE.gguf] [--no-loss] [--require PERCENT]",
                     "Prompts of yours, each with checks of the answer: exact, contains, excludes, "
                     "regex, json_schema,\n"
                     "tool_call. One case a line of the suite; docs/formats/suite.md.",
                     2, e);
}
