// SPDX-License-Identifier: MIT
/* cli/cmd_eval_kld.c - hone eval kld: options of runtime/measure/divergence.c. */
#include "cli/cmd_eval.h"
#include "base/str.h"
#include "runtime/measure/divergence.h"

/* Counts the models, which come first and end in .gguf; what follows is text. The first one is a
 * model whatever its name. */
static int count_models(const struct cli *c) {
    int n = 1;
    for (; n < c->n_args; n++) {
        if (!str_ends(c->arg[n], ".gguf")) break;
    }
    return n;
}

#define AT(member) offsetof(struct eval_args, member)
static const struct option kld_opts[] = {
    ROW("base", 0, OPT_TEXT, AT(base), "FILE", "the model to compare with, run at the same time"),
    ROW("base-file", 0, OPT_TEXT, AT(base_file), "FILE",
        "base logits in the field's format or the compact one instead"),
    ROW("save-base", 0, OPT_OUT, AT(save_base), "FILE",
        "write the model's logits in the field's format"),
    ROW("compact", 0, OPT_FLAG, AT(compact), NULL, "with --save-base: the compact format"),
    ROW("top", 0, OPT_COUNT, AT(top), "N", "--compact: likeliest tokens kept of a position (256)"),
    ROW("tail", 0, OPT_COUNT, AT(tail), "N", "--compact: samples of the other tokens (64)"),
    ROW("ctx", 0, OPT_TOKENS, AT(ctx), "N",
        "tokens of a window (512; with --base-file the file's)"),
    ROW("chunks", 0, OPT_COUNT, AT(chunks), "N",
        "windows to run, taken from the domains in turn; 0: all (default)"),
    ROW("by-depth", 0, OPT_FLAG, AT(by_depth), NULL,
        "also by tokens of context; scores whole windows for it"),
    OPT_PLOT(AT(plot), "with --by-depth, a line per candidate"),
    ROW("routing", 0, OPT_FLAG, AT(routing), NULL, "also share of tokens with the base's experts"),
    ROW("worst", 0, OPT_COUNT, AT(worst), "N",
        "show the N tokens of largest divergence in context"),
    ROW("kv-type", 0, OPT_TEXT, AT(kv_type), "T[,T...]",
        "caches of keys and values: f32 (default), f16, q8_0, tq4, K/V, ..."),
    ROW("base-kv-type", 0, OPT_TEXT, AT(base_kv), "T", "the base's (f32)"),
    ROW("kv-skip-layers", 0, OPT_COUNT, AT(kv_skip), "N",
        "first and last N attention layers keep --kv-skip-type"),
    ROW("kv-skip-type", 0, OPT_TEXT, AT(kv_skip_type), "T", "their cache type (q8_0)"),
    EVAL_OPT_ACT,
    EVAL_OPT_PRE,
    EVAL_OPT_KEEP,
    {0}};
#undef AT
static const struct cmd_spec kld_spec = {
    .name = "eval kld",
    .synopsis = "MODEL.gguf... TEXT... --base BASE.gguf | MODEL.gguf... --base-file F | "
                "BASE.gguf TEXT --save-base F [--compact]",
    .about = "Divergence of next-token distributions from a base model's. Several models are "
             "compared with\n"
             "the base in one pass over the text; nothing of size tokens x vocabulary is stored. "
             "Several TEXTs,\n"
             "or lines of a .jsonl with a \"domain\", are also reported one by one.",
    .opts = kld_opts,
    .min_args = 1,
    .max_args = -1,
};

int eval_cmd_kld(struct cli *c, int argc, char **argv, struct err *e) {
    struct eval_args a = eval_text_usual;
    TRY(cli_parse(c, &kld_spec, &a, argc, argv, e));
    if (c->done) return 0;
    const int n = count_models(c);
    const struct divergence_opts o = {.a = a,
                                      .model = c->arg,
                                      .n_models = n,
                                      .text = c->arg + n,
                                      .n_texts = c->n_args - n,
                                      .for_people = c->form == EMIT_TABLE || c->form == EMIT_MD};
    struct emit *m = emit_new();
    return cli_result(c, m, divergence_run(&c->work, &o, m, e));
}
