// SPDX-License-Identifier: MIT
/* cli/cmd_plan.c - hone plan: options of plan/memory_plan.c. */
#include "cli/cmd.h"
#include "plan/memory_plan.h"

#define AT(member) offsetof(struct memory_plan_opts, member)
static const struct option plan_opts[] = {
    ROW("vram", 0, OPT_TEXT, AT(vram), "SIZE", "memory of the card, or of several: 24GiB,16GiB"),
    ROW("reserve", 0, OPT_SIZE, AT(reserve), "SIZE",
        "of that to keep free (1GiB, of small cards 1/8)"),
    ROW("ctx", 0, OPT_TOKENS, AT(ctx), "N", "tokens per slot (default: as trained)"),
    ROW("slots", 0, OPT_COUNT, AT(slots), "N", "conversations at the same time (1)"),
    ROW("kv-type", 0, OPT_TEXT, AT(kv_name), "T",
        "keys and values: f16 (default), q8_0, tq4, ... or K/V"),
    ROW("all-recipes", 0, OPT_FLAG, AT(recipes), NULL,
        "also exact sizes of this model by every recipe"),
    ROW("launches", 0, OPT_FLAG, AT(launches), NULL,
        "instead: what a pass does step by step, with bytes and FLOP"),
    ROW("act", 0, OPT_TEXT, AT(act), "MODE", "with --launches, activations: f32 or q8 (default)"),
    OPT_PLOT(AT(plot), "memory by context and cache type"),
    {0}};
#undef AT
static const struct cmd_spec plan_spec = {
    .name = "plan",
    .synopsis = "MODEL.gguf... | FOLDER | config.json [--vram SIZE[,SIZE...]] [--ctx N] [--slots "
                "N] [--kv-type "
                "T] [--all-recipes] "
                "[--plot FILE] | --launches [--act MODE]",
    .about =
        "Will it fit? Exact bytes of weights, keys and values and recurrent state from the "
        "headers,\nwhat fits a card, and the command lines for it. Several files, a folder or the "
        "config.json of a model: which\none to take.",
    .opts = plan_opts,
    .min_args = 1,
    .max_args = -1,
};

int cmd_plan(struct cli *c, int argc, char **argv, struct err *e) {
    struct memory_plan_opts a = memory_plan_usual;
    TRY(cli_parse(c, &plan_spec, &a, argc, argv, e));
    if (c->done) return 0;
    a.path = c->arg;
    a.n_paths = c->n_args;
    struct emit *m = emit_new();
    return cli_verdict(c, m, memory_plan_run(&c->work, &a, m, e));
}
