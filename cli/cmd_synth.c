// SPDX-License-Identifier: MIT
/* cli/cmd_synth.c - command line of hone synth; runs jobs/synth_job.c. */
#include "cli/cmd.h"
#include "jobs/synth_job.h"
#include "lib/options.h"

static const struct cmd_spec synth_spec = {
    .name = "synth",
    .synopsis = "[--arch-from CONFIG.json|NAME] [--layers N] [--recipe R] [--tokenizer DIR] -o "
                "OUT.gguf",
    .about = "Writes a model with random weights and the shapes, types and keys of a real one, to "
             "measure speed\nand memory without downloading it. Every engine can load it. It has a "
             "vocabulary only with --tokenizer.",
    .opts = synth_options,
    .min_args = 0,
    .max_args = 0,
};

int cmd_synth(struct cli *c, int argc, char **argv, struct err *e) {
    struct synth_job_opts x = synth_usual;
    TRY(cli_parse(c, &synth_spec, &x, argc, argv, e));
    if (c->done) return 0;
    struct emit *m = emit_new();
    return cli_result(c, m, synth_job_run(&c->work, &x, m, e));
}
