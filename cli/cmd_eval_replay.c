// SPDX-License-Identifier: MIT
/* cli/cmd_eval_replay.c - hone eval traffic: options of jobs/eval_replay.c. */
#include "cli/cmd_eval.h"
#include "jobs/eval_replay.h"

#define AT(member) offsetof(struct replay_opts, member)
static const struct option replay_opts[] = {
    ROW("base", 0, OPT_TEXT, AT(eval.base), "FILE", "also ask this model and compare what is kept"),
    ROW("cases", 0, OPT_COUNT, AT(n_cases), "N",
        "at most N answers, evenly spread; 0: all (default)"),
    ROW("sampled", 0, OPT_FLAG, AT(sampled), NULL,
        "with the recorded seeds and sampling, not the likeliest tokens"),
    ROW("require", 0, OPT_NUMBER, AT(require), "PERCENT", "exit 1 when fewer answers are kept"),
    ROW("all", 0, OPT_FLAG, AT(all), NULL, "show every answer, not only those that changed"),
    ROW("ctx", 0, OPT_TOKENS, AT(eval.ctx), "N",
        "context (default: the longest request and answer)"),
    OPT_KV_TYPE(AT(eval.kv_type)),
    OPT_ACT(AT(eval.act)),
    ROW("pre", 0, OPT_TEXT, AT(eval.pre), "NAME", HELP_PRE),
    {0}};
#undef AT
static const struct cmd_spec replay_spec = {
    .name = "eval traffic",
    .synopsis = "MODEL.gguf RECORD.jsonl [--base BASE.gguf] [--sampled] [--require PERCENT]",
    .about = "Sends the requests that hone serve --record wrote to another file: are your own "
             "calls and answers kept,\n"
             "and where do they differ? Each turn has the recorded history before it. See "
             "docs/formats/record.md.",
    .opts = replay_opts,
    .min_args = 2,
    .max_args = 2,
};

int eval_cmd_replay(struct cli *c, int argc, char **argv, struct err *e) {
    struct replay_opts a = eval_replay_usual;
    TRY(cli_parse(c, &replay_spec, &a, argc, argv, e));
    if (c->done) return 0;
    a.model = c->arg[0];
    a.record = c->arg[1];
    struct emit *m = emit_new();
    return cli_verdict(c, m, eval_replay_run(&c->work, &a, m, e));
}
