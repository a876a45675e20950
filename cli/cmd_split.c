// SPDX-License-Identifier: MIT
/* cli/cmd_split.c - hone split: options of jobs/split_job.c. */
#include "cli/cmd.h"
#include "jobs/split_job.h"

#define AT(member) offsetof(struct split_opts, member)
static const struct option split_opts[] = {
    ROW("output", 'o', OPT_OUT, AT(out), "OUT.gguf",
        "names OUT-00001-of-0000N.gguf ... (default: as the input)"),
    ROW("max-size", 0, OPT_SIZE, AT(max_size), "SIZE", "tensor bytes of one file (49G)"),
    ROW("no-metadata-first", 0, OPT_FLAG, AT(data_first), NULL,
        "put tensors into the first file too"),
    ROW("dry-run", 0, OPT_FLAG, AT(dry_run), NULL, "print number and sizes, write nothing"),
    {0}};
#undef AT
static const struct cmd_spec split_spec = {
    .name = "split",
    .synopsis = "IN.gguf [-o OUT.gguf] [--max-size SIZE] [--no-metadata-first] [--dry-run]",
    .about = "Splits a GGUF into shards OUT-00001-of-0000N.gguf; loaders are given the first.\n"
             "Every tensor is read back and compared; 'hone merge' restores the same bytes.",
    .opts = split_opts,
    .min_args = 1,
    .max_args = 1,
};

int cmd_split(struct cli *c, int argc, char **argv, struct err *e) {
    struct split_opts a = {0};
    TRY(cli_parse(c, &split_spec, &a, argc, argv, e));
    if (c->done) return 0;
    a.path = c->arg[0];
    struct emit *m = emit_new();
    return cli_result(c, m, split_run(&c->work, &a, m, e));
}
