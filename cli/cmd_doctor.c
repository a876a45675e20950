// SPDX-License-Identifier: MIT
/* cli/cmd_doctor.c - hone doctor: options of jobs/doctor.c. */
#include "cli/cmd.h"
#include "cli/line.h"
#include "jobs/doctor.h"

int cmd_doctor(struct cli *c, int argc, char **argv, struct err *e) {
    bool limits = false, models = false;
    const struct opt opts[] = {
        {"limits", 0, OPT_FLAG, &limits, NULL, "what inputs may claim at most, as docs/limits.md"},
        {"models", 0, OPT_FLAG, &models, NULL, "which models can be converted, run and measured"},
    };
    const struct cmd_spec spec = {
        .name = "doctor",
        .synopsis = "[MODEL.gguf] [--threads N] [--isa NAME] [--limits] [--models]",
        .about =
            "What this build uses on this machine: instruction sets, threads, memory, "
            "libraries.\nOf a "
            "model: which of its parts are not fused, or computed by a slower way than there is.",
        .opts = opts,
        .n_opts = (int)COUNT_OF(opts),
        .max_args = 1,
    };
    TRY(cli_parse(c, &spec, argc, argv, e));
    if (c->done) return 0;
    if (limits && models)
        return err_set(e, ERR_USAGE, "--limits and --models are two lists; ask for one");
    if (c->n_args && (limits || models))
        return err_set(e, ERR_USAGE, "a MODEL, --limits and --models are different questions");
    struct emit *m = emit_new();
    int rc = 0;
    if (c->n_args)
        rc = doctor_model(&c->work, c->arg[0], m, e);
    else if (limits)
        doctor_limits(m);
    else if (models)
        doctor_models(m);
    else
        rc = doctor_machine(&c->work, line_library(), m, e);
    return cli_result(c, m, rc);
}
