// SPDX-License-Identifier: MIT
/* cli/cmd_eval_mtp.c - hone eval mtp: options of runtime/measure/numbers.c. */
#include "cli/cmd_eval.h"
#include "runtime/measure/numbers.h"

#define AT(member) offsetof(struct eval_args, member)
static const struct option mtp_opts[] = {
    ROW("ctx", 0, OPT_TOKENS, AT(ctx), "N", "tokens of a window (512)"),
    ROW("chunks", 0, OPT_COUNT, AT(chunks), "N", "windows to run; 0: all (default)"),
    EVAL_OPT_KV,
    EVAL_OPT_ACT,
    EVAL_OPT_PRE,
    {0}};
#undef AT
static const struct cmd_spec mtp_spec = {
    .name = "eval mtp",
    .synopsis = "MODEL.gguf TEXT [--ctx 512] [--chunks N] [--kv-type T]",
    .about = "Acceptance of the token that the MTP block drafts: how often its favourite is the "
             "trunk's,\nalong the second halves of the windows of a text.",
    .opts = mtp_opts,
    .min_args = 2,
    .max_args = 2,
};

int eval_cmd_mtp(struct cli *c, int argc, char **argv, struct err *e) {
    struct eval_args a = eval_text_usual;
    TRY(cli_parse(c, &mtp_spec, &a, argc, argv, e));
    if (c->done) return 0;
    struct emit *m = emit_new();
    return cli_result(c, m, eval_mtp_run(&c->work, &a, c->arg[0], c->arg[1], m, e));
}
