// SPDX-License-Identifier: MIT
/* cli/cmd_sensitivity.c - hone sensitivity: options of jobs/sensitivity.c. */
#include "cli/cmd.h"
#include "jobs/mixer.h"
#include "jobs/open.h"
#include "jobs/sensitivity.h"
#include "text/size.h"

int cmd_sensitivity(struct cli *c, int argc, char **argv, struct err *e) {
    struct mix_probe_opts o = {
        .c = &c->work, .ctx = 512, .n_chunks = 16, .n_types = 3, .rounds = 1};
    struct str_list budgets = {0};
    const char *search = NULL;
    double minutes = 0;
    const struct opt opts[] = {
        {"output", 'o', OPT_STR, &o.out, "FILE.json", "the sensitivity file; goes on with one"},
        {"imatrix", 0, OPT_STR, &o.imatrix, "FILE", "importance matrix, GGUF or .dat"},
        {"probe", 0, OPT_LIST, &o.texts, "TEXT", "text for probes, not the imatrix's; repeatable"},
        {"ctx", 0, OPT_I64, &o.ctx, "N", "tokens per window (512)"},
        {"chunks", 0, OPT_I64, &o.n_chunks, "N", "windows, evenly over the text (16); 0: all"},
        {"pre", 0, OPT_STR, &c->work.pre, "NAME", CLI_HELP_PRE},
        {"types", 0, OPT_I64, &o.n_types, "N", "types probed per group, 1 to 4 (3)"},
        {"bands", 0, OPT_I64, &o.bands, "N",
         "layers probed per role, spread by depth; between them by interpolation (0: all)"},
        {"budget", 0, OPT_LIST, &budgets, "SIZE", "also measure around the mix of this size"},
        {"rounds", 0, OPT_I64, &o.rounds, "N", "of measuring around each mix (1)"},
        {"time", 0, OPT_TIME, &minutes, "MINUTES", "stop probing after this; 0: none (default)"},
        {"search", 0, OPT_STR, &search, "MODE", "of the encoders: fast, best or conventional"},
    };
    const struct cmd_spec spec = {
        "sensitivity",
        "MODEL.gguf --imatrix FILE --probe TEXT -o FILE.json [--budget SIZE]...",
        "Measures what each type costs each part of a model: the error of the encoders on sampled "
        "rows, then the\ndivergence of the output with one group of tensors replaced. Without "
        "--probe only the errors.",
        opts,
        COUNT_OF(opts),
        1,
        1};
    TRY(cli_parse(c, &spec, argc, argv, e));
    if (c->done) return 0;
    if (!o.out) return err_set(e, ERR_USAGE, "-o FILE.json is missing");
    if (o.n_types < 1 || o.n_types > SENS_MAX_TYPES)
        return err_set(e, ERR_USAGE, "--types: 1 to %d", SENS_MAX_TYPES);
    if (o.ctx < 32) return err_set(e, ERR_USAGE, "--ctx: at least 32");
    if (budgets.n > MIX_MAX_BUDGETS)
        return err_set(e, ERR_USAGE, "at most %d budgets", MIX_MAX_BUDGETS);
    if (budgets.n && !o.texts.n)
        return err_set(e, ERR_USAGE, "--budget measures around a mix: give --probe TEXT too");
    TRY(mix_search(search, &o.search, e));
    for (int i = 0; i < budgets.n; i++) TRY(size_parse(budgets.v[i], "--budget", &o.budget[i], e));
    o.n_budgets = budgets.n;
    o.model = c->arg[0];
    if (o.texts.n) TRY(unknown_refuse(o.model, "--probe", e));
    o.seconds = minutes * 60;
    o.overwrite = c->work.overwrite;
    struct emit *m = emit_new();
    return cli_result(c, m, sensitivity_run(&o, m, e));
}
