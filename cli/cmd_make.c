// SPDX-License-Identifier: MIT
/* cli/cmd_make.c - command line of hone make; runs make/make.c. */
#include "cli/cmd.h"
#include "lib/options.h"
#include "make/make.h"

static const struct cmd_spec make_spec = {
    "make",
    "SRC -o DIR [--recipe A,B,..] [--plain] [--time TIME] [--dry-run] [--budget SIZE]... "
    "[--calib FILE]... [--eval FILE]... [--resume]",
    "Makes measured GGUFs and a report from a Hugging Face folder or a GGUF. For each common size "
    "it chooses\ntypes by measurement and uses error feedback, and keeps the file only if it "
    "measures better than the\npreset of the same size. Then it measures perplexity, divergence "
    "from the base and speed (and tool calls with\n--tools), and writes README.md, report.html, "
    "results.json and SHA256SUMS. Completed steps with the same\ninputs are reused; -f repeats "
    "them all.",
    make_options,
    1,
    1};

int cmd_make(struct cli *c, int argc, char **argv, struct err *e) {
    struct make_opts x = {.mk = make_usual};
    x.mk.w = &c->work;
    TRY(cli_parse(c, &make_spec, &x, argc, argv, e));
    if (c->done) return 0;
    c->work.pre = x.pre;
    if (!x.out) return err_set(e, ERR_USAGE, "make: name the output folder with -o DIR");
    x.mk.src = c->arg[0];
    x.mk.redo = c->work.overwrite;
    x.mk.asked_chunks = x.mk.eval_chunks;
    struct emit *m = emit_new();
    struct buf after = {0};
    int rc = make_run(&x.mk, x.recipes, x.out, m, &after, e);
    cli_result(c, m, rc);
    if (after.len && !rc && c->form == EMIT_TABLE) fwrite(after.data, 1, after.len, c->out);
    buf_release(&after);
    return rc;
}
