// SPDX-License-Identifier: MIT
/* cli/cmd_meta.c - command line of hone meta; runs jobs/meta_job.c. */
#include "cli/cmd.h"
#include "jobs/meta_job.h"
#include "lib/options.h"

static const struct cmd_spec meta_spec = {
    .name = "meta",
    .synopsis = "FILE.gguf [KEY=VALUE | KEY:TYPE=VALUE | KEY=@FILE | --unset KEY | KEY]...",
    .about = "Edits metadata of a GGUF file in place, or lists it. Keys keep their type; tensors "
             "are not touched. An interrupted edit leaves either the old or the new file intact.",
    .opts = meta_options,
    .min_args = 1,
    .max_args = -1,
};

int cmd_meta(struct cli *c, int argc, char **argv, struct err *e) {
    struct meta_opts o = {0};
    TRY(cli_parse(c, &meta_spec, &o, argc, argv, e));
    if (c->done) return 0;
    o.path = c->arg[0];
    o.set = (struct str_list){.v = c->arg + 1, .n = c->n_args - 1};
    o.in_full = c->form != EMIT_TABLE && c->form != EMIT_MD;
    struct emit *m = emit_new();
    return cli_result(c, m, meta_run(&o, m, e));
}
