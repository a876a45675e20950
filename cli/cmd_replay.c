// SPDX-License-Identifier: MIT
/* cli/cmd_replay.c - command line of hone replay; runs jobs/replay.c. */
#include "cli/cmd.h"
#include "jobs/replay.h"
#include "lib/options.h"

static const struct cmd_spec replay_spec = {
    .name = "replay",
    .synopsis = "FILE.gguf [--source BASE.gguf] [--imatrix FILE] [--gram FILE] [-o COPY.gguf]",
    .about = "Rebuilds a quantized file from the record in it and compares the two byte by byte. "
             "Exit status 1 if\nthey differ.",
    .opts = replay_options,
    .min_args = 1,
    .max_args = 1,
};

int cmd_replay(struct cli *c, int argc, char **argv, struct err *e) {
    struct replay_opts o = {0};
    TRY(cli_parse(c, &replay_spec, &o, argc, argv, e));
    if (c->done) return 0;
    o.path = c->arg[0];
    struct emit *m = emit_new();
    return cli_verdict(c, m, replay_run(&c->work, &o, m, e));
}
