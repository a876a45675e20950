// SPDX-License-Identifier: MIT
/* cli/cmd_sensitivity.c - hone sensitivity: options of jobs/sensitivity.c. */
#include "cli/cmd.h"
#include "jobs/mixer.h"
#include "jobs/open.h"
#include "jobs/sensitivity.h"
#include "text/size.h"

struct sensitivity_args {
    struct mix_probe_opts o;
    struct str_list budgets;
    double minutes;
    const char *search;
    const char *pre; /* pre-tokenizer */
};
#define AT(member) offsetof(struct sensitivity_args, member)
static const struct opt sensitivity_opts[] = {
    {"output", 'o', OPT_STR, AT(o.out), "FILE.json", "the sensitivity file; goes on with one"},
    {"imatrix", 0, OPT_STR, AT(o.imatrix), "FILE", "importance matrix, GGUF or .dat"},
    {"probe", 0, OPT_LIST, AT(o.texts), "TEXT", "text for probes, not the imatrix's; repeatable"},
    {"ctx", 0, OPT_I64, AT(o.ctx), "N", "tokens per window (512)"},
    {"chunks", 0, OPT_I64, AT(o.n_chunks), "N", "windows, evenly over the text (16); 0: all"},
    {"pre", 0, OPT_STR, AT(pre), "NAME", CLI_HELP_PRE},
    {"types", 0, OPT_I64, AT(o.n_types), "N", "types probed per group, 1 to 4 (3)"},
    {"bands", 0, OPT_I64, AT(o.bands), "N",
     "layers probed per role, spread by depth; between them by interpolation (0: all)"},
    {"budget", 0, OPT_LIST, AT(budgets), "SIZE", "also measure around the mix of this size"},
    {"rounds", 0, OPT_I64, AT(o.rounds), "N", "of measuring around each mix (1)"},
    {"time", 0, OPT_TIME, AT(minutes), "MINUTES", "stop probing after this; 0: none (default)"},
    {"search", 0, OPT_STR, AT(search), "MODE", "of the encoders: fast, best or conventional"},
};
#undef AT
static const struct cmd_spec sensitivity_spec = {
    "sensitivity",
    "MODEL.gguf --imatrix FILE --probe TEXT -o FILE.json [--budget SIZE]...",
    "Measures what each type costs each part of a model: the error of the encoders on sampled "
    "rows, then the\ndivergence of the output with one group of tensors replaced. Without "
    "--probe only the errors.",
    sensitivity_opts,
    COUNT_OF(sensitivity_opts),
    1,
    1};

static int check(struct sensitivity_args *x, struct err *e) {
    if (!x->o.out) return err_set(e, ERR_USAGE, "-o FILE.json is missing");
    if (x->o.n_types < 1 || x->o.n_types > SENS_MAX_TYPES)
        return err_set(e, ERR_USAGE, "--types: 1 to %d", SENS_MAX_TYPES);
    if (x->o.ctx < 32) return err_set(e, ERR_USAGE, "--ctx: at least 32");
    if (x->budgets.n > MIX_MAX_BUDGETS)
        return err_set(e, ERR_USAGE, "at most %d budgets", MIX_MAX_BUDGETS);
    if (x->budgets.n && !x->o.texts.n)
        return err_set(e, ERR_USAGE, "--budget measures around a mix: give --probe TEXT too");
    TRY(mix_search(x->search, &x->o.search, e));
    for (int i = 0; i < x->budgets.n; i++)
        TRY(size_parse(x->budgets.v[i], "--budget", &x->o.budget[i], e));
    x->o.n_budgets = x->budgets.n;
    return 0;
}

int cmd_sensitivity(struct cli *c, int argc, char **argv, struct err *e) {
    struct sensitivity_args x = {
        .o = {.w = &c->work, .ctx = 512, .n_chunks = 16, .n_types = 3, .rounds = 1}};
    TRY(cli_parse(c, &sensitivity_spec, &x, argc, argv, e));
    if (c->done) return 0;
    c->work.pre = x.pre;
    TRY(check(&x, e));
    x.o.model = c->arg[0];
    if (x.o.texts.n) TRY(unknown_refuse(x.o.model, "--probe", e));
    x.o.seconds = x.minutes * 60;
    x.o.overwrite = c->work.overwrite;
    struct emit *m = emit_new();
    return cli_result(c, m, sensitivity_run(&x.o, m, e));
}
