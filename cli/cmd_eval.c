// SPDX-License-Identifier: MIT
/* cli/cmd_eval.c - hone eval ppl | speed | logits: options of runtime/measure/numbers.c, and the
 * list of subcommands. */
#include "cli/cmd.h"
#include "cli/cmd_eval.h"
#include "runtime/measure/numbers.h"

#define AT(member) offsetof(struct eval_args, member)
static const struct option ppl_opts[] = {
    ROW("ctx", 0, OPT_TOKENS, AT(ctx), "N", "tokens of a window (512)"),
    ROW("chunks", 0, OPT_COUNT, AT(chunks), "N", "windows to run; 0: all (default)"),
    ROW("stride", 0, OPT_COUNT, AT(stride), "N",
        "overlapping windows advanced by N, last N tokens scored"),
    EVAL_OPT_KV,
    EVAL_OPT_ACT,
    EVAL_OPT_PRE,
    EVAL_OPT_KEEP,
    {0}};
#undef AT
static const struct cmd_spec ppl_spec = {
    .name = "eval ppl",
    .synopsis = "MODEL.gguf TEXT [--ctx 512] [--chunks N] [--stride N] [--kv-type T]",
    .about = "Perplexity of a text: windows of ctx tokens, second half scored, as published "
             "numbers are made.\n"
             "TEXT is plain text, .gz, or .jsonl of conversations rendered with the model's "
             "template.",
    .opts = ppl_opts,
    .min_args = 2,
    .max_args = 2,
};

static int cmd_ppl(struct cli *c, int argc, char **argv, struct err *e) {
    struct eval_args a = eval_text_usual;
    TRY(cli_parse(c, &ppl_spec, &a, argc, argv, e));
    if (c->done) return 0;
    struct emit *m = emit_new();
    return cli_result(c, m, eval_ppl_run(&c->work, &a, c->arg[0], c->arg[1], m, e));
}

#define AT(member) offsetof(struct eval_args, member)
static const struct option speed_opts[] = {
    ROW("pp", 0, OPT_COUNT, AT(pp), "N", "tokens of the prompt test (512); 0: none"),
    ROW("tg", 0, OPT_COUNT, AT(tg), "N", "tokens of the generation test (128); 0: none"),
    ROW("depths", 0, OPT_TEXT, AT(depths), "LIST", "context already filled: 0,4096 (0)"),
    ROW("reps", 0, OPT_COUNT, AT(reps), "N", "repetitions (5)"),
    OPT_KV_TYPE(AT(kv_type)),
    OPT_ACT(AT(act)),
    {0}};
#undef AT
static const struct cmd_spec speed_spec = {
    .name = "eval speed",
    .synopsis = "MODEL.gguf [--pp 512] [--tg 128] [--depths 0,4096] [--reps 5] [--kv-type T]",
    .about = "Tokens per second of prompts and of generation, and the share of the machine's "
             "measured read\n"
             "bandwidth that generation reaches.",
    .opts = speed_opts,
    .min_args = 1,
    .max_args = 1,
};

static int cmd_speed(struct cli *c, int argc, char **argv, struct err *e) {
    struct eval_args a = eval_speed_usual;
    TRY(cli_parse(c, &speed_spec, &a, argc, argv, e));
    if (c->done) return 0;
    struct emit *m = emit_new();
    return cli_result(c, m, eval_speed_run(&c->work, &a, c->arg[0], m, e));
}

#define AT(member) offsetof(struct eval_args, member)
static const struct option logits_opts[] = {
    ROW("ids", 0, OPT_TEXT, AT(ids), "FILE", "little-endian int32 token ids"),
    ROW("output", 'o', OPT_OUT, AT(out), "FILE", "float32 [n][n_vocab], little-endian"),
    EVAL_OPT_KV,
    EVAL_OPT_ACT,
    EVAL_OPT_PRE,
    {0}};
#undef AT
static const struct cmd_spec logits_spec = {
    .name = "eval logits",
    .synopsis = "MODEL.gguf --ids FILE -o FILE",
    .about = "Logits of every position of one sequence, for comparison with other programs.",
    .opts = logits_opts,
    .min_args = 1,
    .max_args = 1,
};

static int cmd_logits(struct cli *c, int argc, char **argv, struct err *e) {
    struct eval_args a = eval_answer_usual;
    TRY(cli_parse(c, &logits_spec, &a, argc, argv, e));
    if (c->done) return 0;
    struct emit *m = emit_new();
    return cli_result(c, m, eval_logits_run(&c->work, &a, c->arg[0], m, e));
}

int cmd_eval(struct cli *c, int argc, char **argv, struct err *e) {
    static const struct subcommand sub[] = {
        {"ppl", cmd_ppl, "perplexity of a text"},
        {"kld", eval_cmd_kld, "divergence from a base model"},
        {"mtp", eval_cmd_mtp, "acceptance of drafted tokens"},
        {"tools", eval_cmd_tools, "tool calls: valid, as expected"},
        {"checks", eval_cmd_checks, "checks of answers"},
        {"choice", eval_cmd_choice, "multiple choice"},
        {"needle", eval_cmd_needle, "numbers in a long text"},
        {"traffic", eval_cmd_replay, "recorded requests, sent again"},
        {"replay", eval_cmd_replay, "the same as traffic"},
        {"suite", eval_cmd_suite, "the standard set, as one file"},
        {"compare", eval_cmd_compare, "two such files"},
        {"speed", cmd_speed, "tokens per second"},
        {"kv", eval_cmd_kv, "KV cache types without a model"},
        {"logits", cmd_logits, "raw logits of a sequence"}};
    return cli_sub(c, sub, (int)COUNT_OF(sub), "MODEL.gguf ...", argc, argv, e);
}
