// SPDX-License-Identifier: MIT
/* cli/cmd_make.c - hone make: options of make/make.c. */
#include "cli/cmd.h"
#include "cli/facts_opts.h"
#include "make/make.h"

struct make_args {
    const char *out, *recipes;
    struct make mk;
    const char *pre; /* pre-tokenizer */
};
#define AT(member) offsetof(struct make_args, member)
static const struct option make_opts[] = {
    ROW("output", 'o', OPT_OUT, AT(out), "DIR", "folder of the results"),
    ROW("recipe", 0, OPT_TEXT, AT(recipes), "A,B,..",
        "what to make (Q8_0,Q6_K,Q5_K_M,Q4_K_M,IQ4_XS,Q3_K_M,IQ3_S,Q2_K)"),
    ROW("plain", 0, OPT_FLAG, AT(mk.plain), NULL, "presets only, no mixes"),
    ROW("effort", 0, OPT_TEXT, AT(mk.effort_text), "LEVEL",
        "fast: mixes without error feedback; normal: with it; high: and block by block (normal)"),
    ROW("time", 0, OPT_TIME, AT(mk.seconds), "TIME",
        "of the whole job, as 90m or 12h (12h); 0: no limit"),
    ROW("dry-run", 0, OPT_FLAG, AT(mk.dry_run), NULL,
        "print steps, sizes, disk, memory and hours; write nothing"),
    ROW("calib", 0, OPT_LIST, AT(mk.calib), "FILE", "calibration text or .jsonl; repeatable"),
    ROW("budget", 0, OPT_LIST, AT(mk.budget), "SIZE", "also the best mix of this size; repeatable"),
    ROW("probe", 0, OPT_LIST, AT(mk.probe), "FILE", "text the mixes are chosen on; repeatable"),
    ROW("probe-time", 0, OPT_TIME, AT(mk.probe_seconds), "TIME",
        "limit of these probes, as 30m (none)"),
    ROW("eval", 0, OPT_LIST, AT(mk.eval), "FILE", "evaluation text or .jsonl; repeatable"),
    ROW("tools", 0, OPT_TEXT, AT(mk.tools), "SUITE",
        "tool calls to ask for: .jsonl, builtin, none (default: SRC/tools.jsonl)"),
    ROW("tools-cases", 0, OPT_COUNT, AT(mk.tools_cases), "N",
        "cases of it, evenly spread (12); 0: all"),
    ROW("calib-ctx", 0, OPT_TOKENS, AT(mk.calib_ctx), "N", "tokens per calibration chunk (512)"),
    ROW("calib-chunks", 0, OPT_COUNT, AT(mk.calib_chunks), "N",
        "at most N chunks; 0: all (default)"),
    ROW("ctx", 0, OPT_TOKENS, AT(mk.eval_ctx), "N", "tokens per evaluation chunk (512)"),
    ROW("chunks", 0, OPT_COUNT, AT(mk.eval_chunks), "N", "evaluate at most N chunks (100); 0: all"),
    ROW("pre", 0, OPT_TEXT, AT(pre), "NAME",
        "split text by the rules of this pre-tokenizer; remembered with the job"),
    ROW("base-type", 0, OPT_TEXT, AT(mk.type), "TYPE", "of the base: auto, f32, f16, bf16, q8_0"),
    ROW("search", 0, OPT_TEXT, AT(mk.search), "NAME",
        "quantizer search: fast, best, conventional (presets fast, mixes best)"),
    ROW("pp", 0, OPT_COUNT, AT(mk.pp), "N", "prompt tokens of the speed test (512)"),
    ROW("tg", 0, OPT_COUNT, AT(mk.tg), "N", "generated tokens of the speed test (64)"),
    ROW("reps", 0, OPT_COUNT, AT(mk.reps), "N", "repetitions of the speed test (3)"),
    ROW("by-depth", 0, OPT_FLAG, AT(mk.by_depth), NULL, "divergence also by tokens of context"),
    ROW("depths", 0, OPT_TEXT, AT(mk.depths), "LIST",
        "speed with context already filled: 0,4096 (0)"),
    MAKE_FACT_OPTIONS(struct make_args, mk),
    ROW("resume", 0, OPT_FLAG, AT(mk.resume), NULL,
        "go on with a folder's job (always done anyway), also inside small files"),
    {0}};
#undef AT
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
    make_opts,
    1,
    1};

int cmd_make(struct cli *c, int argc, char **argv, struct err *e) {
    struct make_args x = {.mk = make_usual};
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
