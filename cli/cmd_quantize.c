// SPDX-License-Identifier: MIT
/* cli/cmd_quantize.c - hone quantize: options of jobs/quantize_job.c. */
#include "cli/cmd.h"
#include "jobs/quantize_job.h"
#include "quantize/recipe.h"

/* Refuses `in out TYPE`, which is llama.cpp's order, and names ours. */
static int check_order(const struct cli *c, const struct quantize_job_opts *a, struct err *e) {
    const char *in = c->arg[0], *out = a->out ? a->out : "OUT.gguf", *recipe = a->recipe;
    if (c->n_args < 2) return 0;
    for (int i = 1; i < c->n_args; i++) {
        if (!recipe && (recipe_find(c->arg[i]) || i == 2))
            recipe = c->arg[i];
        else if (!a->out && i == 1)
            out = c->arg[i];
    }
    return err_set(e, ERR_USAGE,
                   "quantize: one argument, the input, and options for the rest: hone quantize %s "
                   "-o %s --recipe %s",
                   in, out, recipe ? recipe : "Q4_K_M");
}

struct quantize_args {
    struct quantize_job_opts a;
    const char *pre; /* pre-tokenizer */
};
#define AT(member) offsetof(struct quantize_args, member)
static const struct option quantize_opts[] = {
    ROW("output", 'o', OPT_OUT, AT(a.out), "FILE",
        "the GGUF to write; of several recipes: a folder, or a name with {} for the recipe"),
    ROW("recipe", 0, OPT_TEXT, AT(a.recipe), "NAME|PLAN.tsv[,...]",
        "presets (Q4_K_M ...) or plan files; several share one reading of the model"),
    ROW("type", 0, OPT_TEXT, AT(a.type), "TYPE", "one type for everything that can be quantized"),
    ROW("imatrix", 0, OPT_TEXT, AT(a.imatrix), "FILE", "importance matrix, GGUF or .dat"),
    ROW("budget", 0, OPT_LIST, AT(a.mix.budget), "SIZE",
        "the best mix of types of at most this size; may be repeated"),
    ROW("vram", 0, OPT_SIZE, AT(a.mix.vram), "SIZE",
        "the best mix that a card of this size holds; with --budget both limits hold"),
    ROW("gram", 0, OPT_TEXT, AT(a.gram), "FILE",
        "second moments of hone imatrix --gram: error feedback where it pays"),
    ROW("sequential", 0, OPT_LIST, AT(a.sequential), "TEXT",
        "error feedback with moments of the file's own inputs, from TEXT, block by block; to "
        "--gram"),
    ROW("sensitivity", 0, OPT_TEXT, AT(a.mix.sensitivity), "FILE",
        "what hone sensitivity measured; else errors by role"),
    ROW("search", 0, OPT_TEXT, AT(a.search), "MODE", "fast (default), best or conventional"),
    ROW("tensor", 0, OPT_LIST, AT(a.tensor), "REGEX=TYPE",
        "type of the tensors that match; may be repeated"),
    ROW("split-max", 0, OPT_SIZE, AT(a.split_max), "SIZE",
        "split the output into files of at most SIZE"),
    ROW("dry-run", 0, OPT_FLAG, AT(a.dry_run), NULL,
        "print the plan and the sizes, write no model"),
    ROW("plan-out", 0, OPT_OUT, AT(a.plan_out), "FILE",
        "write the plan used; edit it and pass it as --recipe"),
    ROW("gate", 0, OPT_LIST, AT(a.mix.gate), "TEXT",
        "ship a mix only if it beats the plain recipes that fit on this text; repeatable"),
    ROW("pre", 0, OPT_TEXT, AT(pre), "NAME",
        "with --gate: split text by the rules of this pre-tokenizer"),
    ROW("bpw", 0, OPT_NUMBER, AT(a.mix.bpw), "X",
        "a budget as bits per weight, all bytes of the file"),
    ROW("prefer", 0, OPT_TEXT, AT(a.mix.prefer), "WHAT",
        "quality (default), speed, or a weight: 1 is speed"),
    ROW("ctx", 0, OPT_TOKENS, AT(a.mix.ctx), "N",
        "with --vram: tokens per slot (default: as trained)"),
    ROW("slots", 0, OPT_COUNT, AT(a.mix.slots), "N", "with --vram: conversations at a time (1)"),
    ROW("kv-type", 0, OPT_TEXT, AT(a.mix.kv_type), "T", "with --vram: of keys and values (f16)"),
    ROW("reserve", 0, OPT_SIZE, AT(a.mix.reserve), "SIZE",
        "with --vram: to keep free (1GiB, of small cards 1/8)"),
    ROW("front", 0, OPT_OUT, AT(a.mix.front), "FILE.svg",
        "also plot and list the best mixes from quality to speed"),
    ROW("avoid", 0, OPT_TEXT, AT(a.mix.avoid), "TYPES",
        "types a mix must not use, comma-separated"),
    ROW("no-floors", 0, OPT_FLAG, AT(a.mix.no_floors), NULL, "no lower limits by role in a mix"),
    ROW("bandwidth", 0, OPT_SIZE, AT(a.mix.bandwidth), "SIZE",
        "bytes a second, for predicted times (1000G)"),
    ROW("pure", 0, OPT_FLAG, AT(a.pure), NULL, "the recipe's default type everywhere, no rules"),
    ROW("without", 0, OPT_TEXT, AT(a.without), "STEPS",
        "leave out balance, codes, scales, ints (comma-separated), for comparisons"),
    ROW("allow-requantize", 0, OPT_FLAG, AT(a.requantize), NULL,
        "accept an already quantized input; its errors add to the new ones"),
    ROW("resume", 0, OPT_FLAG, AT(a.resume), NULL,
        "keep what is done of an interrupted output even if it is small, and go on with it"),
    {0}};
#undef AT
static const struct cmd_spec quantize_spec = {
    .name = "quantize",
    .synopsis = "IN.gguf -o OUT.gguf (--recipe NAME|PLAN.tsv | --budget SIZE | --type TYPE) "
                "[--imatrix FILE]",
    .about = "Quantizes a GGUF, tensor by tensor. Norms, routers and convolutions keep their "
             "type. With an "
             "importance\nmatrix the error of columns that see large inputs counts for more.",
    .opts = quantize_opts,
    .min_args = 1,
    .max_args = -1,
};

int cmd_quantize(struct cli *c, int argc, char **argv, struct err *e) {
    struct quantize_args x = {0};
    TRY(cli_parse(c, &quantize_spec, &x, argc, argv, e));
    if (c->done) return 0;
    c->work.pre = x.pre;
    TRY(check_order(c, &x.a, e));
    x.a.in = c->arg[0];
    struct emit *m = emit_new();
    return cli_result(c, m, quantize_job_run(&c->work, &x.a, m, e));
}
