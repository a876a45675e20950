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
static const struct opt synth_opts[] = {
    {"output", 'o', OPT_OUT, AT(o.out), "FILE", "the GGUF to write"},
    {"arch-from", 0, OPT_STR, AT(o.shape), "CONFIG.json|NAME",
     "shapes: Qwen3.5-35B-A3B (default), Qwen3.5-27B, Qwen3-30B-A3B, or a config.json"},
    {"layers", 0, OPT_I64, AT(o.layers), "N", "layers (as the shape has)"},
    {"recipe", 0, OPT_STR, AT(o.recipe), "NAME", "a preset or one type (Q4_K_M)"},
    {"tokenizer", 0, OPT_STR, AT(tokenizer), "DIR", "the vocabulary of this folder (none)"},
    {"seed", 0, OPT_I64, AT(seed), "N", "of the random numbers (1)"},
    {"skew", 0, OPT_NUM, AT(o.skew), "S", "how unevenly routers choose experts (0)"},
    {"dry-run", 0, OPT_FLAG, AT(o.dry_run), NULL, "print the exact size, write nothing"},
};
#undef AT
static const struct cmd_spec synth_spec = {
    .name = "synth",
    .synopsis = "[--arch-from CONFIG.json|NAME] [--layers N] [--recipe R] [--tokenizer DIR] -o "
                "OUT.gguf",
    .about = "Writes a model of random weights with the shapes, types and keys of a real one: for "
             "speed and\nmemory work without weights. Loadable everywhere. It has no vocabulary, "
             "unless --tokenizer gives one.",
    .opts = synth_opts,
    .n_opts = (int)COUNT_OF(synth_opts),
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
