// SPDX-License-Identifier: MIT
/* cli/cmd_verify.c - command line of hone verify; runs jobs/verify.c. */
#include "cli/cmd.h"
#include "jobs/verify.h"
#include "lib/options.h"

static const struct cmd_spec verify_spec = {
    .name = "verify",
    .synopsis = "FILE|DIR [--deep] [--manifest FILE]",
    .about = "Checks that files are complete and consistent: GGUF (and split sets), Hugging Face\n"
             "folders, safetensors, importance matrices, base logits, folders of these with "
             "SHA256SUMS.\n"
             "Exit status 1 if anything is wrong.",
    .opts = verify_options,
    .min_args = 1,
    .max_args = 1,
};

int cmd_verify(struct cli *c, int argc, char **argv, struct err *e) {
    struct verify_opts o = {0};
    TRY(cli_parse(c, &verify_spec, &o, argc, argv, e));
    if (c->done) return 0;
    o.path = c->arg[0];
    struct emit *m = emit_new();
    return cli_verdict(c, m, verify_run(&o, m, e));
}
