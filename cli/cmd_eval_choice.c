// SPDX-License-Identifier: MIT
/* cli/cmd_eval_choice.c - hone eval choice | needle: options of runtime/measure/tasks.c. */
#include "cli/cmd_eval.h"
#include "runtime/measure/tasks.h"

struct choice_args {
    struct eval_args a; /* It comes first, since EVAL_OPT_... are about it. */
    struct choice_job j;
};
#define AT(member) offsetof(struct choice_args, member)
static const struct option choice_opts[] = {
    ROW("format", 0, OPT_TEXT, AT(j.format), "NAME",
        "of the file: hellaswag, winogrande, mmlu, choice"),
    ROW("base", 0, OPT_TEXT, AT(a.base), "FILE", "also ask this model: accuracy and flips"),
    ROW("cases", 0, OPT_COUNT, AT(j.n_cases), "N",
        "at most N tasks, evenly spread; 0: all (default)"),
    EVAL_OPT_KV,
    EVAL_OPT_ACT,
    EVAL_OPT_PRE,
    {0}};
#undef AT
static const struct cmd_spec choice_spec = {
    .name = "eval choice",
    .synopsis = "MODEL.gguf FILE --format NAME [--base BASE.gguf] [--cases N]",
    .about = "Multiple choice from a local file: the choice of largest mean log-probability per "
             "token.\n"
             "Formats as the field has them; docs/formats/choices.md.",
    .opts = choice_opts,
    .min_args = 2,
    .max_args = 2,
};

int eval_cmd_choice(struct cli *c, int argc, char **argv, struct err *e) {
    struct choice_args x = {.a = eval_answer_usual};
    TRY(cli_parse(c, &choice_spec, &x, argc, argv, e));
    if (c->done) return 0;
    x.j.path = c->arg[1];
    struct emit *m = emit_new();
    return cli_result(c, m, eval_choice_run(&c->work, &x.a, c->arg[0], &x.j, m, e));
}

struct needle_args {
    struct eval_args a; /* It comes first, since EVAL_OPT_... are about it. */
    struct choice_job j;
};
#define AT(member) offsetof(struct needle_args, member)
static const struct option needle_opts[] = {
    ROW("ctx", 0, OPT_TOKENS, AT(j.ctx), "N", "tokens of a window (4096)"),
    ROW("depths", 0, OPT_COUNT, AT(j.n_depths), "N", "depths from the begin to the end (5)"),
    ROW("per-depth", 0, OPT_COUNT, AT(j.per_depth), "N", "windows at each depth (4)"),
    ROW("base", 0, OPT_TEXT, AT(a.base), "FILE", "also ask this model"),
    EVAL_OPT_KV,
    EVAL_OPT_ACT,
    EVAL_OPT_PRE,
    {0}};
#undef AT
static const struct cmd_spec needle_spec = {
    .name = "eval needle",
    .synopsis = "MODEL.gguf TEXT [--ctx 4096] [--depths 5] [--per-depth 4] [--base BASE.gguf]",
    .about = "A number hidden at a depth of a window of the text, asked for at its end: told "
             "from three others,\n"
             "and written without choices.",
    .opts = needle_opts,
    .min_args = 2,
    .max_args = 2,
};

int eval_cmd_needle(struct cli *c, int argc, char **argv, struct err *e) {
    struct needle_args x = {.j = eval_needle_usual, .a = eval_answer_usual};
    TRY(cli_parse(c, &needle_spec, &x, argc, argv, e));
    if (c->done) return 0;
    x.j.path = c->arg[1];
    struct emit *m = emit_new();
    return cli_result(c, m, eval_tasks_run(&c->work, &x.a, c->arg[0], &x.j, m, e));
}
