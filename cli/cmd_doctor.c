// SPDX-License-Identifier: MIT
/* cli/cmd_doctor.c - command line of hone doctor; runs jobs/doctor.c. */
#include "cli/cmd.h"
#include "cli/line.h"
#include "jobs/doctor.h"
#include "lib/options.h"

static const struct cmd_spec doctor_spec = {
    .name = "doctor",
    .synopsis = "[MODEL.gguf] [--threads N] [--isa NAME] [--limits] [--models]",
    .about =
        "Reports the instruction sets, threads, memory and libraries that this build uses "
        "here.\nWith a model: also lists operations that are not fused or fall back to a slower "
        "path.",
    .opts = doctor_options,
    .max_args = 1,
};

int cmd_doctor(struct cli *c, int argc, char **argv, struct err *e) {
    struct doctor_opts o = {.line_editor = line_library()};
    TRY(cli_parse(c, &doctor_spec, &o, argc, argv, e));
    if (c->done) return 0;
    o.model = c->n_args ? c->arg[0] : NULL;
    struct emit *m = emit_new();
    return cli_result(c, m, doctor_run(&c->work, &o, m, e));
}
