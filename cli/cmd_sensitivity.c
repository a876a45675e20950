// SPDX-License-Identifier: MIT
/* cli/cmd_sensitivity.c - hone sensitivity: options of mix/sensitivity.c. */
#include "cli/cmd.h"
#include "mix/mixer.h"
#include "work/open.h"
#include "mix/sensitivity.h"

struct sensitivity_args {
    struct sensitivity_ask a;
    const char *pre; /* pre-tokenizer */
};
#define AT(member) offsetof(struct sensitivity_args, member)
static const struct option sensitivity_opts[] = {
    ROW("output", 'o', OPT_OUT, AT(a.o.out), "FILE.json", "the sensitivity file; goes on with one"),
    ROW("imatrix", 0, OPT_TEXT, AT(a.o.imatrix), "FILE", "importance matrix, GGUF or .dat"),
    ROW("probe", 0, OPT_LIST, AT(a.o.texts), "TEXT",
        "text for probes, not the imatrix's; repeatable"),
    ROW("ctx", 0, OPT_TOKENS, AT(a.o.ctx), "N", "tokens per window (512)"),
    ROW("chunks", 0, OPT_COUNT, AT(a.o.n_chunks), "N",
        "windows, evenly over the text (16); 0: all"),
    ROW("pre", 0, OPT_TEXT, AT(pre), "NAME", HELP_PRE),
    ROW("types", 0, OPT_COUNT, AT(a.o.n_types), "N", "types probed per group, 1 to 4 (3)"),
    ROW("bands", 0, OPT_COUNT, AT(a.o.bands), "N",
        "layers probed per role, spread by depth; gradients say the rest (0: all)"),
    ROW("budget", 0, OPT_LIST, AT(a.budget), "SIZE", "also measure around the mix of this size"),
    ROW("rounds", 0, OPT_COUNT, AT(a.o.rounds), "N", "of measuring around each mix (1)"),
    ROW("time", 0, OPT_TIME, AT(a.o.seconds), "TIME",
        "stop probing after this, as 30m or 2h (none)"),
    ROW("search", 0, OPT_TEXT, AT(a.search), "MODE", "of the encoders: fast, best or conventional"),
    {0}};
#undef AT
static const struct cmd_spec sensitivity_spec = {
    "sensitivity",
    "MODEL.gguf --imatrix FILE --probe TEXT -o FILE.json [--budget SIZE]...",
    "Measures what each type costs each part of a model: the error of the encoders on sampled "
    "rows, then the\ndivergence of the output with one group of tensors replaced. Without "
    "--probe only the errors.",
    sensitivity_opts,
    1,
    1};

int cmd_sensitivity(struct cli *c, int argc, char **argv, struct err *e) {
    struct sensitivity_args x = {.a = sensitivity_usual};
    TRY(cli_parse(c, &sensitivity_spec, &x, argc, argv, e));
    if (c->done) return 0;
    c->work.pre = x.pre;
    x.a.o.model = c->arg[0];
    struct emit *m = emit_new();
    return cli_result(c, m, sensitivity_run(&c->work, &x.a, m, e));
}
