// SPDX-License-Identifier: MIT
/* cli/cmd_merge.c - hone merge: options of jobs/split_job.c. */
#include "cli/cmd.h"
#include "jobs/split_job.h"

struct merge_args {
    const char *out;
};
#define AT(member) offsetof(struct merge_args, member)
static const struct option merge_opts[] = {ROW("output", 'o', OPT_OUT, AT(out), "OUT.gguf",
                                               "(default: the name without its shard number)"),
                                           {0}};
#undef AT
static const struct cmd_spec merge_spec = {
    .name = "merge",
    .synopsis = "SHARD.gguf [-o OUT.gguf]",
    .about = "Joins the files of a split set, named by any of them, into one GGUF. Every "
             "tensor is read\nback and compared, and checked with manifest.json when there is "
             "one beside the shards.",
    .opts = merge_opts,
    .min_args = 1,
    .max_args = 1,
};

int cmd_merge(struct cli *c, int argc, char **argv, struct err *e) {
    struct merge_args x = {0};
    TRY(cli_parse(c, &merge_spec, &x, argc, argv, e));
    if (c->done) return 0;
    struct emit *m = emit_new();
    return cli_result(c, m, merge_run(&c->work, c->arg[0], x.out, m, e));
}
