// SPDX-License-Identifier: MIT
/* cli/cmd_convert.c - command line of hone convert; runs jobs/convert_job.c. */
#include "cli/cmd.h"
#include "jobs/convert_job.h"
#include "lib/options.h"

#include <string.h>

static const struct cmd_spec convert_spec = {
    .name = "convert",
    .synopsis =
        "HF_DIR -o OUT.gguf [--type TYPE] [--mmproj FILE] [--lora DIR] [--pad] [--no-mtp] "
        "[--mtp-only] [--target-model-dir DIR] [--keep-mxfp4] [--split-max SIZE] [--consume] "
        "[--dry-run] [--name NAME] [--pre NAME]",
    .about = "Converts a Hugging Face folder to GGUF. Structural errors are reported before any\n"
             "weight is read. The output is the language model; vision towers go to a separate "
             "file.",
    .opts = convert_options,
    .min_args = 1,
    .max_args = 1,
};

int cmd_convert(struct cli *c, int argc, char **argv, struct err *e) {
    struct convert_job_opts x = {0};
    TRY(cli_parse(c, &convert_spec, &x, argc, argv, e));
    if (c->done) return 0;
    if (!x.o.out && !x.mmproj)
        return err_set(e, ERR_USAGE, "convert: name an output with -o OUT.gguf (or --mmproj FILE)");
    if (x.o.out && x.mmproj && strcmp(x.o.out, x.mmproj) == 0)
        return err_set(e, ERR_USAGE, "convert: -o and --mmproj name the same file");
    x.o.src = c->arg[0];
    struct emit *m = emit_new();
    return cli_result(c, m, convert_job_run(&c->work, &x, m, e));
}
