// SPDX-License-Identifier: MIT
/* cli/cmd_sensitivity.c - command line of hone sensitivity; runs mix/sensitivity.c. */
#include "cli/cmd.h"
#include "lib/options.h"
#include "mix/mixer.h"
#include "work/open.h"
#include "mix/sensitivity.h"

static const struct cmd_spec sensitivity_spec = {
    "sensitivity",
    "MODEL.gguf --imatrix FILE --probe TEXT -o FILE.json [--budget SIZE]...",
    "Measures the cost of each type in each part of a model: the encoders' errors on sampled "
    "rows, then the\ndivergence of the output with one group of tensors replaced. Without --probe "
    "it measures only the errors.",
    sensitivity_options,
    1,
    1};

int cmd_sensitivity(struct cli *c, int argc, char **argv, struct err *e) {
    struct sensitivity_ask x = sensitivity_usual;
    TRY(cli_parse(c, &sensitivity_spec, &x, argc, argv, e));
    if (c->done) return 0;
    c->work.pre = x.pre;
    x.o.model = c->arg[0];
    struct emit *m = emit_new();
    return cli_result(c, m, sensitivity_run(&c->work, &x, m, e));
}
