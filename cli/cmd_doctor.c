// SPDX-License-Identifier: MIT
/* cli/cmd_doctor.c - hone doctor: options of jobs/doctor.c. */
#include "cli/cmd.h"
#include "cli/line.h"
#include "jobs/doctor.h"

struct doctor_args {
    bool limits, models;
};
#define AT(member) offsetof(struct doctor_args, member)
static const struct option doctor_opts[] = {
    ROW("limits", 0, OPT_FLAG, AT(limits), NULL,
        "what inputs may claim at most, as docs/limits.md"),
    ROW("models", 0, OPT_FLAG, AT(models), NULL, "which models can be converted, run and measured"),
    {0}};
#undef AT
static const struct cmd_spec doctor_spec = {
    .name = "doctor",
    .synopsis = "[MODEL.gguf] [--threads N] [--isa NAME] [--limits] [--models]",
    .about = "What this build uses on this machine: instruction sets, threads, memory, "
             "libraries.\nWith a "
             "model: lists operations that are not fused or fall back to a slower path.",
    .opts = doctor_opts,
    .max_args = 1,
};

int cmd_doctor(struct cli *c, int argc, char **argv, struct err *e) {
    struct doctor_args x = {0};
    TRY(cli_parse(c, &doctor_spec, &x, argc, argv, e));
    if (c->done) return 0;
    if (x.limits && x.models)
        return err_set(e, ERR_USAGE, "--limits and --models are two lists; ask for one");
    if (c->n_args && (x.limits || x.models))
        return err_set(e, ERR_USAGE, "a MODEL, --limits and --models are different questions");
    struct emit *m = emit_new();
    int rc = 0;
    if (c->n_args)
        rc = doctor_model(&c->work, c->arg[0], m, e);
    else if (x.limits)
        doctor_limits(m);
    else if (x.models)
        doctor_models(m);
    else
        rc = doctor_machine(&c->work, line_library(), m, e);
    return cli_result(c, m, rc);
}
