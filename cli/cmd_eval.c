// SPDX-License-Identifier: MIT
/* cli/cmd_eval.c - hone eval ppl | speed | logits: options of jobs/eval_numbers.c, and the list of
 * subcommands. */
#include "cli/cmd.h"
#include "cli/eval.h"
#include "jobs/eval_numbers.h"

static int cmd_ppl(struct cli *c, int argc, char **argv, struct err *e) {
    struct eval_args a = {.ctx = 512, .kv_type = KV_EXACT, .act = ACT_EXACT};
    const struct opt opts[] = {
        {"ctx", 0, OPT_I64, &a.ctx, "N", "tokens of a window (512)"},
        {"chunks", 0, OPT_I64, &a.chunks, "N", "windows to run; 0: all (default)"},
        {"stride", 0, OPT_I64, &a.stride, "N",
         "overlapping windows advanced by N, last N tokens scored"},
        EVAL_OPT_KV(a),
        EVAL_OPT_ACT(a),
        EVAL_OPT_PRE(a),
        EVAL_OPT_KEEP(a),
    };
    const struct cmd_spec spec = {
        .name = "eval ppl",
        .synopsis = "MODEL.gguf TEXT [--ctx 512] [--chunks N] [--stride N] [--kv-type T]",
        .about = "Perplexity of a text: windows of ctx tokens, second half scored, as published "
                 "numbers are made.\n"
                 "TEXT is plain text, .gz, or .jsonl of conversations rendered with the model's "
                 "template.",
        .opts = opts,
        .n_opts = (int)COUNT_OF(opts),
        .min_args = 2,
        .max_args = 2,
    };
    TRY(cli_parse(c, &spec, argc, argv, e));
    if (c->done) return 0;
    struct emit *m = emit_new();
    return cli_result(c, m, eval_ppl_run(&c->work, &a, c->arg[0], c->arg[1], m, e));
}

static int cmd_speed(struct cli *c, int argc, char **argv, struct err *e) {
    struct eval_args a = {
        .pp = 512, .tg = 128, .reps = 5, .depths = "0", .kv_type = KV_USUAL, .act = ACT_FAST};
    const struct opt opts[] = {
        {"pp", 0, OPT_I64, &a.pp, "N", "tokens of the prompt test (512); 0: none"},
        {"tg", 0, OPT_I64, &a.tg, "N", "tokens of the generation test (128); 0: none"},
        {"depths", 0, OPT_STR, &a.depths, "LIST", "context already filled: 0,4096 (0)"},
        {"reps", 0, OPT_I64, &a.reps, "N", "repetitions (5)"},
        {"kv-type", 0, OPT_STR, &a.kv_type, "T",
         "cache of keys and values: f16 (default), q8_0, tq4, ... or K/V"},
        {"act", 0, OPT_STR, &a.act, "MODE", "activations: f32 or q8 (default)"},
    };
    const struct cmd_spec spec = {
        .name = "eval speed",
        .synopsis = "MODEL.gguf [--pp 512] [--tg 128] [--depths 0,4096] [--reps 5] [--kv-type T]",
        .about = "Tokens per second of prompts and of generation, and the share of the machine's "
                 "measured read\n"
                 "bandwidth that generation reaches.",
        .opts = opts,
        .n_opts = (int)COUNT_OF(opts),
        .min_args = 1,
        .max_args = 1,
    };
    TRY(cli_parse(c, &spec, argc, argv, e));
    if (c->done) return 0;
    struct emit *m = emit_new();
    return cli_result(c, m, eval_speed_run(&c->work, &a, c->arg[0], m, e));
}

static int cmd_logits(struct cli *c, int argc, char **argv, struct err *e) {
    struct eval_args a = {.kv_type = KV_EXACT, .act = ACT_EXACT};
    const struct opt opts[] = {
        {"ids", 0, OPT_STR, &a.ids, "FILE", "little-endian int32 token ids"},
        {"output", 'o', OPT_STR, &a.out, "FILE", "float32 [n][n_vocab], little-endian"},
        EVAL_OPT_KV(a),
        EVAL_OPT_ACT(a),
        EVAL_OPT_PRE(a),
    };
    const struct cmd_spec spec = {
        .name = "eval logits",
        .synopsis = "MODEL.gguf --ids FILE -o FILE",
        .about = "Logits of every position of one sequence, for comparison with other programs.",
        .opts = opts,
        .n_opts = (int)COUNT_OF(opts),
        .min_args = 1,
        .max_args = 1,
    };
    TRY(cli_parse(c, &spec, argc, argv, e));
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
        {"suite", eval_cmd_suite, "the standard set, as one file"},
        {"compare", eval_cmd_compare, "two such files"},
        {"speed", cmd_speed, "tokens per second"},
        {"kv", eval_cmd_kv, "KV cache types without a model"},
        {"logits", cmd_logits, "raw logits of a sequence"}};
    return cli_sub(c, sub, (int)COUNT_OF(sub), "MODEL.gguf ...", argc, argv, e);
}
