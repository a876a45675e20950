// SPDX-License-Identifier: MIT
/* cli/cmd_convert.c - hone convert: options of jobs/convert_job.c. */
#include "cli/cmd.h"
#include "jobs/convert_job.h"

#include <string.h>

struct convert_args {
    struct convert_opts o;
    const char *mmproj;
};

#define AT(member) offsetof(struct convert_args, member)
static const struct option convert_opts[] = {
    ROW("output", 'o', OPT_OUT, AT(o.out), "OUT.gguf", "the file to write"),
    ROW("type", 0, OPT_TEXT, AT(o.type), "TYPE", "auto (as stored), f32, f16, bf16 or q8_0"),
    ROW("no-mtp", 0, OPT_FLAG, AT(o.no_mtp), NULL, "leave the multi-token-prediction block out"),
    ROW("mmproj", 0, OPT_OUT, AT(mmproj), "FILE",
        "write the vision tower there, as a projector file"),
    ROW("split-max", 0, OPT_SIZE, AT(o.split_max), "SIZE", "start a new shard at this size"),
    ROW("pad", 0, OPT_FLAG, AT(o.pad), NULL,
        "pad feed-forward widths with zeros to multiples of 256"),
    ROW("keep-mxfp4", 0, OPT_FLAG, AT(o.keep_mxfp4), NULL, "matrices stored as MXFP4 stay MXFP4"),
    ROW("lora", 0, OPT_TEXT, AT(o.lora), "DIR", "merge this LoRA adapter into the weights"),
    ROW("dry-run", 0, OPT_FLAG, AT(o.dry_run), NULL, "print the plan and the sizes, write nothing"),
    ROW("name", 0, OPT_TEXT, AT(o.name), "NAME", "general.name of the output"),
    ROW("pre", 0, OPT_TEXT, AT(o.pre), "NAME", "pre-tokenizer, when it is not recognised"),
    {0}};
#undef AT
static const struct cmd_spec convert_spec = {
    .name = "convert",
    .synopsis = "HF_DIR -o OUT.gguf [--type TYPE] [--mmproj FILE] [--lora DIR] [--pad] [--no-mtp] "
                "[--keep-mxfp4] "
                "[--split-max SIZE] [--dry-run] [--name NAME] [--pre NAME]",
    .about = "Converts a Hugging Face folder to GGUF. Every structural error shows before any\n"
             "weight is read. The output is the language model; vision towers have a file of "
             "their own.",
    .opts = convert_opts,
    .min_args = 1,
    .max_args = 1,
};

int cmd_convert(struct cli *c, int argc, char **argv, struct err *e) {
    struct convert_args x = {0};
    TRY(cli_parse(c, &convert_spec, &x, argc, argv, e));
    if (c->done) return 0;
    if (!x.o.out && !x.mmproj)
        return err_set(e, ERR_USAGE,
                       "convert: say where the result goes with -o OUT.gguf (or --mmproj FILE)");
    if (x.o.out && x.mmproj && strcmp(x.o.out, x.mmproj) == 0)
        return err_set(e, ERR_USAGE, "convert: -o and --mmproj name the same file");
    x.o.src = c->arg[0];
    struct emit *m = emit_new();
    return cli_result(c, m, convert_job_run(&c->work, &x.o, x.mmproj, m, e));
}
