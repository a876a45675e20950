// SPDX-License-Identifier: MIT
/* cli/cmd_synth.c - hone synth: options of jobs/synth_job.c. */
#include "cli/cmd.h"
#include "jobs/synth_job.h"

struct synth_args {
    struct synth_opts o;
    const char *tokenizer;
    int64_t seed;
};
#define AT(member) offsetof(struct synth_args, member)
static const struct option synth_opts[] = {
    ROW("output", 'o', OPT_OUT, AT(o.out), "FILE", "the GGUF to write"),
    ROW("arch-from", 0, OPT_TEXT, AT(o.shape), "CONFIG.json|NAME",
        "shapes: Qwen3.5-35B-A3B (default), Qwen3.5-27B, Qwen3-30B-A3B, or a config.json"),
    ROW("layers", 0, OPT_COUNT, AT(o.layers), "N", "layers (as the shape has)"),
    ROW("recipe", 0, OPT_TEXT, AT(o.recipe), "NAME", "a preset or one type (Q4_K_M)"),
    ROW("tokenizer", 0, OPT_TEXT, AT(tokenizer), "DIR", "the vocabulary of this folder (none)"),
    ROW("seed", 0, OPT_COUNT, AT(seed), "N", "of the random numbers (1)"),
    ROW("skew", 0, OPT_NUMBER, AT(o.skew), "S", "how unevenly routers choose experts (0)"),
    ROW("dry-run", 0, OPT_FLAG, AT(o.dry_run), NULL, "print the exact size, write nothing"),
    {0}};
#undef AT
static const struct cmd_spec synth_spec = {
    .name = "synth",
    .synopsis = "[--arch-from CONFIG.json|NAME] [--layers N] [--recipe R] [--tokenizer DIR] -o "
                "OUT.gguf",
    .about = "Writes a model of random weights with the shapes, types and keys of a real one: for "
             "speed and\nmemory work without weights. Loadable everywhere. It has no vocabulary, "
             "unless --tokenizer gives one.",
    .opts = synth_opts,
    .min_args = 0,
    .max_args = 0,
};

int cmd_synth(struct cli *c, int argc, char **argv, struct err *e) {
    struct synth_args a = {.o = synth_usual, .seed = (int64_t)synth_usual.seed};
    TRY(cli_parse(c, &synth_spec, &a, argc, argv, e));
    if (c->done) return 0;
    a.o.seed = (uint64_t)a.seed;
    struct emit *m = emit_new();
    return cli_result(c, m, synth_job_run(&c->work, &a.o, a.tokenizer, m, e));
}
