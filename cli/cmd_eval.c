// SPDX-License-Identifier: MIT
/* cli/cmd_eval.c - command line of hone eval; runs runtime/measure/ and jobs/eval_replay.c. */
#include "base/str.h"
#include "cli/cmd.h"
#include "jobs/eval_replay.h"
#include "lib/options.h"
#include "runtime/measure/caches.h"
#include "runtime/measure/cases.h"
#include "runtime/measure/divergence.h"
#include "runtime/measure/numbers.h"
#include "runtime/measure/set.h"
#include "runtime/measure/tasks.h"
#include "runtime/measure/vision.h"

static const struct cmd_spec ppl_spec = {
    .name = "eval ppl",
    .synopsis = "MODEL.gguf TEXT [--ctx 512] [--chunks N] [--stride N] [--kv-type T]",
    .about = "Perplexity of a text over windows of ctx tokens, second halves scored, as in "
             "published numbers. TEXT is plain text, .gz, or .jsonl of conversations rendered with "
             "the model's template.",
    .opts = eval_ppl_options,
    .min_args = 2,
    .max_args = 2,
};

static int eval_cmd_ppl(struct cli *c, int argc, char **argv, struct err *e) {
    struct eval_job x = {.eval = eval_text_usual};
    TRY(cli_parse(c, &ppl_spec, &x, argc, argv, e));
    if (c->done) return 0;
    struct emit *m = emit_new();
    return cli_result(c, m, eval_ppl_run(&c->work, &x.eval, c->arg[0], c->arg[1], m, e));
}

static const struct cmd_spec speed_spec = {
    .name = "eval speed",
    .synopsis = "MODEL.gguf [--pp 512] [--tg 128] [--depths 0,4096] [--reps 5] [--kv-type T]",
    .about = "Tokens per second of prompts and of generation, and the share of the machine's "
             "measured read bandwidth that generation reaches.",
    .opts = eval_speed_options,
    .min_args = 1,
    .max_args = 1,
};

static int eval_cmd_speed(struct cli *c, int argc, char **argv, struct err *e) {
    struct eval_job x = {.eval = eval_speed_usual};
    TRY(cli_parse(c, &speed_spec, &x, argc, argv, e));
    if (c->done) return 0;
    struct emit *m = emit_new();
    return cli_result(c, m, eval_speed_run(&c->work, &x.eval, c->arg[0], m, e));
}

static const struct cmd_spec logits_spec = {
    .name = "eval logits",
    .synopsis = "MODEL.gguf --ids FILE -o FILE",
    .about = "Logits of every position of one sequence, for comparison with other programs.",
    .opts = eval_logits_options,
    .min_args = 1,
    .max_args = 1,
};

static int eval_cmd_logits(struct cli *c, int argc, char **argv, struct err *e) {
    struct eval_job x = {.eval = eval_answer_usual};
    TRY(cli_parse(c, &logits_spec, &x, argc, argv, e));
    if (c->done) return 0;
    struct emit *m = emit_new();
    return cli_result(c, m, eval_logits_run(&c->work, &x.eval, c->arg[0], m, e));
}

/* Counts the models: the first argument, and those after it that end in .gguf. Texts follow. */
static int count_models(const struct cli *c) {
    int n = 1;
    for (; n < c->n_args; n++) {
        if (!str_ends(c->arg[n], ".gguf")) break;
    }
    return n;
}

static const struct cmd_spec kld_spec = {
    .name = "eval kld",
    .synopsis = "MODEL.gguf... TEXT... --base BASE.gguf | MODEL.gguf... --base-file F | "
                "BASE.gguf TEXT --save-base F [--compact]",
    .about = "Divergence of next-token distributions from a base model's. Several models are "
             "compared with the base in one pass over the text; nothing of size tokens x "
             "vocabulary is stored. Several TEXTs, or lines of a .jsonl with a \"domain\", are "
             "also reported one by one.",
    .opts = eval_kld_options,
    .min_args = 1,
    .max_args = -1,
};

static int eval_cmd_kld(struct cli *c, int argc, char **argv, struct err *e) {
    struct divergence_opts o = {.eval = eval_text_usual};
    TRY(cli_parse(c, &kld_spec, &o, argc, argv, e));
    if (c->done) return 0;
    o.model = c->arg;
    o.n_models = count_models(c);
    o.text = c->arg + o.n_models;
    o.n_texts = c->n_args - o.n_models;
    o.for_people = c->form == EMIT_TABLE || c->form == EMIT_MD;
    struct emit *m = emit_new();
    return cli_result(c, m, divergence_run(&c->work, &o, m, e));
}

static const struct cmd_spec vision_spec = {
    .name = "eval vision",
    .synopsis = "BASE.gguf QUANT.gguf... IMAGES.jsonl [--mmproj FILE,FILE] [--base-mmproj FILE]",
    .about = "Divergence of answers to questions about images. IMAGES has a line {\"image\": "
             "\"a.png\", \"question\": \"...\"} per question, optionally with the expected "
             "\"answer\" and \"choices\"; see docs/formats/images.md. Projector files are found as "
             "by hone run.",
    .opts = eval_vision_options,
    .min_args = 2,
    .max_args = -1,
};

static int eval_cmd_vision(struct cli *c, int argc, char **argv, struct err *e) {
    struct vision_opts o = eval_vision_usual;
    TRY(cli_parse(c, &vision_spec, &o, argc, argv, e));
    if (c->done) return 0;
    o.model = c->arg;
    o.n_models = c->n_args - 1;
    o.lines = c->arg[c->n_args - 1];
    struct emit *m = emit_new();
    return cli_result(c, m, eval_vision_run(&c->work, &o, m, e));
}

static const struct cmd_spec mtp_spec = {
    .name = "eval mtp",
    .synopsis = "MODEL.gguf... TEXT | MODEL.gguf DRAFT.gguf... TEXT [--ctx 512] [--chunks N] "
                "[--kv-type T]",
    .about = "Acceptance rate of drafts: how often the MTP block's likeliest token is also the "
             "model's, over the second half of each window of a text; or that of draft files (MTP "
             "blocks, EAGLE-3), named after their model. Several files are compared with the "
             "first, guess by "
             "guess, with 95 % intervals.",
    .opts = eval_mtp_options,
    .min_args = 2,
    .max_args = -1,
};

static int eval_cmd_mtp(struct cli *c, int argc, char **argv, struct err *e) {
    struct eval_job x = {.eval = eval_text_usual};
    TRY(cli_parse(c, &mtp_spec, &x, argc, argv, e));
    if (c->done) return 0;
    struct emit *m = emit_new();
    return cli_result(
        c, m, eval_mtp_run(&c->work, &x.eval, c->arg, c->n_args - 1, c->arg[c->n_args - 1], m, e));
}

static int eval_cmd_cases(struct cli *c, int argc, char **argv, const char *name,
                          const char *synopsis, const char *about, const char *suite,
                          struct err *e) {
    struct cases_opts a = eval_cases_usual;
    const struct cmd_spec spec = {.name = name,
                                  .synopsis = synopsis,
                                  .about = about,
                                  .opts = eval_cases_options,
                                  .min_args = 1,
                                  .max_args = 2};
    TRY(cli_parse(c, &spec, &a, argc, argv, e));
    if (c->done) return 0;
    a.model = c->arg[0];
    a.suite = c->n_args > 1 ? c->arg[1] : suite;
    a.table = c->form == EMIT_TABLE;
    struct emit *m = emit_new();
    return cli_verdict(c, m, eval_cases_run(&c->work, &a, m, e));
}

static int eval_cmd_tools(struct cli *c, int argc, char **argv, struct err *e) {
    return eval_cmd_cases(
        c, argc, argv, "eval tools",
        "MODEL.gguf [SUITE.jsonl|loops] [--base BASE.gguf] [--cases N] [--require PERCENT]",
        "Tool calls: renders each case with the model's template, decodes greedily, parses "
        "the calls, and checks\n"
        "them against the tool's JSON schema and the expected call. Default suite: the "
        "built-in one of 60 cases;\n"
        "loops: the built-in one of 13 cases with several steps.",
        "builtin", e);
}

static int eval_cmd_checks(struct cli *c, int argc, char **argv, struct err *e) {
    return eval_cmd_cases(
        c, argc, argv, "eval checks",
        "MODEL.gguf [SUITE.jsonl] [--base BASE.gguf] [--no-loss] [--require PERCENT]",
        "Your own prompts, each with checks of the answer: exact, contains, excludes, "
        "regex, json_schema,\n"
        "fields, reasoning, tool_call. One case per line of the suite; see "
        "docs/formats/suite.md.\n"
        "Default suite: the built-in one of 16 checks.",
        "checks", e);
}

static const struct cmd_spec choice_spec = {
    .name = "eval choice",
    .synopsis = "MODEL.gguf FILE --format NAME [--base BASE.gguf] [--cases N]",
    .about = "Multiple choice from a local file: picks the choice with the largest mean "
             "log-probability per token. Formats: docs/formats/choices.md.",
    .opts = eval_choice_options,
    .min_args = 2,
    .max_args = 2,
};

static int eval_cmd_choice(struct cli *c, int argc, char **argv, struct err *e) {
    struct eval_job x = {.eval = eval_answer_usual};
    TRY(cli_parse(c, &choice_spec, &x, argc, argv, e));
    if (c->done) return 0;
    x.tasks.path = c->arg[1];
    struct emit *m = emit_new();
    return cli_result(c, m, eval_choice_run(&c->work, &x.eval, c->arg[0], &x.tasks, m, e));
}

static const struct cmd_spec needle_spec = {
    .name = "eval needle",
    .synopsis = "MODEL.gguf TEXT [--ctx 4096] [--depths 5] [--per-depth 4] [--base BASE.gguf]",
    .about = "Hides a number at a depth of a window of the text and asks for it at the end: as a "
             "choice among four, and as free text.",
    .opts = eval_needle_options,
    .min_args = 2,
    .max_args = 2,
};

static int eval_cmd_needle(struct cli *c, int argc, char **argv, struct err *e) {
    struct eval_job x = {.eval = eval_answer_usual, .tasks = eval_needle_usual};
    TRY(cli_parse(c, &needle_spec, &x, argc, argv, e));
    if (c->done) return 0;
    x.tasks.path = c->arg[1];
    struct emit *m = emit_new();
    return cli_result(c, m, eval_tasks_run(&c->work, &x.eval, c->arg[0], &x.tasks, m, e));
}

static const struct cmd_spec replay_spec = {
    .name = "eval traffic",
    .synopsis = "MODEL.gguf RECORD.jsonl [--base BASE.gguf] [--sampled] [--require PERCENT]",
    .about =
        "Sends the requests recorded by hone serve --record to another model, and reports which "
        "calls and answers change, and where. Each turn follows the recorded history. See "
        "docs/formats/record.md.",
    .opts = eval_replay_options,
    .min_args = 2,
    .max_args = 2,
};

static int eval_cmd_replay(struct cli *c, int argc, char **argv, struct err *e) {
    struct replay_opts a = eval_replay_usual;
    TRY(cli_parse(c, &replay_spec, &a, argc, argv, e));
    if (c->done) return 0;
    a.model = c->arg[0];
    a.record = c->arg[1];
    struct emit *m = emit_new();
    return cli_verdict(c, m, eval_replay_run(&c->work, &a, m, e));
}

static const struct cmd_spec suite_spec = {
    .name = "eval suite",
    .synopsis = "MODEL.gguf -o OUT.json [--base BASE.gguf] [--text FILE]... [--tools SUITE]... "
                "[--choice FORMAT:FILE]... [--needle TEXT]...",
    .about = "Runs the standard set on one model: perplexity, divergence from a base, tool calls, "
             "and the given tasks. Writes one file with a number per window and case; hone eval "
             "compare compares two of them.",
    .opts = eval_suite_options,
    .min_args = 1,
    .max_args = 1,
};

static int eval_cmd_suite(struct cli *c, int argc, char **argv, struct err *e) {
    struct eval_set_opts a = eval_set_usual;
    TRY(cli_parse(c, &suite_spec, &a, argc, argv, e));
    if (c->done) return 0;
    a.model = c->arg[0];
    struct emit *m = emit_new();
    return cli_result(c, m, eval_set_run(&c->work, &a, m, e));
}

static const struct cmd_spec compare_spec = {
    .name = "eval compare",
    .synopsis = "A.json B.json",
    .about =
        "Compares two results of 'hone eval suite': which is better, where, and whether the "
        "difference is larger than its error. Windows and cases with the same input are paired; "
        "95 % intervals come from resampling.",
    .min_args = 2,
    .max_args = 2,
};

static int eval_cmd_compare(struct cli *c, int argc, char **argv, struct err *e) {
    TRY(cli_parse(c, &compare_spec, NULL, argc, argv, e));
    if (c->done) return 0;
    struct emit *m = emit_new();
    return cli_result(c, m, eval_set_compare(c->arg[0], c->arg[1], m, e));
}

static const struct cmd_spec kv_spec = {
    .name = "eval kv",
    .synopsis = "[--head-dims 64,128,256] [--depths 512,4096] [--kv-type T,T] [--cosine 0.5] "
                "[--plot FILE]",
    .about = "Measures error and speed of KV cache types on synthetic attention. Needs no model.",
    .opts = eval_kv_options,
    .min_args = 0,
    .max_args = 0,
};

static int eval_cmd_kv(struct cli *c, int argc, char **argv, struct err *e) {
    struct caches_opts o = eval_caches_usual;
    TRY(cli_parse(c, &kv_spec, &o, argc, argv, e));
    if (c->done) return 0;
    struct emit *m = emit_new();
    return cli_result(c, m, eval_caches_run(&c->work, &o, m, e));
}

int cmd_eval(struct cli *c, int argc, char **argv, struct err *e) {
    static const struct subcommand sub[] = {
        {"ppl", eval_cmd_ppl, "perplexity of a text"},
        {"kld", eval_cmd_kld, "divergence from a base model"},
        {"vision", eval_cmd_vision, "divergence of answers about images"},
        {"mtp", eval_cmd_mtp, "acceptance of drafted tokens"},
        {"tools", eval_cmd_tools, "valid and expected tool calls"},
        {"checks", eval_cmd_checks, "checks of answers"},
        {"choice", eval_cmd_choice, "multiple choice"},
        {"needle", eval_cmd_needle, "retrieval of numbers from a long text"},
        {"traffic", eval_cmd_replay, "replay recorded requests and compare the answers"},
        {"replay", eval_cmd_replay, "the same as traffic"},
        {"suite", eval_cmd_suite, "the standard set of measurements, in one file"},
        {"compare", eval_cmd_compare, "compare two results of eval suite"},
        {"speed", eval_cmd_speed, "tokens per second"},
        {"kv", eval_cmd_kv, "KV cache types without a model"},
        {"logits", eval_cmd_logits, "raw logits of a sequence"}};
    return cli_sub(c, sub, (int)COUNT_OF(sub), "MODEL.gguf ...", argc, argv, e);
}
