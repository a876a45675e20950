// SPDX-License-Identifier: MIT
/* cli/cmd_make.c - hone make: options of make/make.c. */
#include "cli/cmd.h"
#include "lib/options.h"
#include "make/make.h"

static const struct cmd_spec make_spec = {
    "make",
    "SRC -o DIR [--recipe A,B,..] [--plain] [--time TIME] [--dry-run] [--budget SIZE]... "
    "[--calib FILE]... [--eval FILE]... [--resume]",
    "Hugging Face folder (or GGUF) in; measured GGUFs with a report out. For each common size it "
    "keeps the\nbest file it found: types chosen by measurement, error feedback, and only if it "
    "measures better than the\npreset of the same size. Then perplexity and divergence of each "
    "from the base, speed, tool calls, README.md,\n"
    "report.html, results.json, SHA256SUMS. Steps already done with the same inputs are "
    "reused; -f redoes all.",
    make_options,
    1,
    1};

int cmd_make(struct cli *c, int argc, char **argv, struct err *e) {
    struct make_opts x = {.mk = make_usual};
    x.mk.w = &c->work;
    TRY(cli_parse(c, &make_spec, &x, argc, argv, e));
    if (c->done) return 0;
    c->work.pre = x.pre;
    if (!x.out) return err_set(e, ERR_USAGE, "make: say where the results go with -o DIR");
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
