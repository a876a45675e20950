// SPDX-License-Identifier: MIT
/* cli/cmd_inspect.c - command line of hone inspect; runs jobs/inspect.c. */
#include "cli/cmd.h"
#include "jobs/inspect.h"
#include "lib/options.h"

static const struct cmd_spec inspect_spec = {
    .name = "inspect",
    .synopsis = "FILE [--keys WHICH] [--tensors]",
    .about = "Describes a file from its headers: a GGUF file or the first file of a split set, "
             "a folder of GGUF files, a Hugging Face folder, a safetensors file, an importance "
             "matrix, a base-logits file.",
    .opts = inspect_options,
    .min_args = 1,
    .max_args = 1,
};

int cmd_inspect(struct cli *c, int argc, char **argv, struct err *e) {
    struct inspect_opts o = {.keys = "short"};
    TRY(cli_parse(c, &inspect_spec, &o, argc, argv, e));
    if (c->done) return 0;
    o.path = c->arg[0];
    struct emit *m = emit_new();
    return cli_result(c, m, inspect_run(&o, m, e));
}
