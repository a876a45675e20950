// SPDX-License-Identifier: MIT
/* cli/cmd_template.c - hone template show | render | eval | diff | parse: options of
 * jobs/template_text.c. */
#include "cli/cmd.h"
#include "jobs/template_defects.h"
#include "jobs/template_text.h"

#include <stdio.h>

/* Prints and frees a text, which is whole where rc is 0 or a verdict. Returns rc. */
static int print_text(struct cli *c, struct buf *text, int rc) {
    if (!rc || rc == ERR_VERDICT) fwrite(text->data ? text->data : "", 1, text->len, c->out);
    buf_release(text);
    return rc;
}

struct show_args {
    const char *name;
};
#define AT(member) offsetof(struct show_args, member)
static const struct option show_opts[] = {
    ROW("name", 0, OPT_TEXT, AT(name), "NAME", "which template, when there are several"), {0}};
#undef AT
static const struct cmd_spec show_spec = {
    .name = "template show",
    .synopsis = "SRC [--name NAME]",
    .about = "Prints the chat template of a GGUF file, a Hugging Face folder or a .jinja file,\n"
             "byte for byte. --json describes it instead.",
    .opts = show_opts,
    .min_args = 1,
    .max_args = 1,
};

static int cmd_show(struct cli *c, int argc, char **argv, struct err *e) {
    struct show_args x = {0};
    TRY(cli_parse(c, &show_spec, &x, argc, argv, e));
    if (c->done) return 0;
    struct emit *m = emit_new();
    struct buf text = {0};
    int rc = template_describe(c->arg[0], x.name, m, &text, e);
    if (!rc && c->form == EMIT_TABLE)
        fwrite(text.data ? text.data : "", 1, text.len, c->out);
    else if (!rc)
        cli_emit(c, m);
    buf_release(&text);
    emit_free(m);
    return rc;
}

#define AT(member) offsetof(struct render_opts, member)
static const struct option render_opts[] = {
    ROW("chat", 0, OPT_TEXT, AT(chat), "FILE",
        "conversation: messages, or an object with messages and tools; - is stdin"),
    ROW("tools", 0, OPT_TEXT, AT(tools), "FILE", "tools (JSON list)"),
    ROW("kwargs", 0, OPT_TEXT, AT(kwargs), "JSON",
        "more variables, e.g. {\"enable_thinking\": false}"),
    ROW("no-generation-prompt", 0, OPT_FLAG, AT(no_gen), NULL, "end after the last message"),
    ROW("name", 0, OPT_TEXT, AT(name), "NAME", "which template, when there are several"),
    ROW("context", 0, OPT_TEXT, AT(context), "WHICH",
        "variables as hf (default) or llamacpp passes them"),
    ROW("mode", 0, OPT_TEXT, AT(mode), "WHICH",
        "hf (default), or lenient: also what only other engines accept"),
    ROW("now", 0, OPT_TEXT, AT(now), "TIME", "clock the template sees, 2026-03-05T14:30:00"),
    ROW("args", 0, OPT_TEXT, AT(args), "HOW",
        "arguments of calls given as text: auto (parsed, default) or as-is"),
    ROW("spans", 0, OPT_FLAG, AT(spans), NULL,
        "mark what came from the conversation; --json: bytes, kind and source of each"),
    ROW("batch", 0, OPT_TEXT, AT(batch), "FILE",
        "render all scenarios of FILE; prints {id: text or {error, kind}}"),
    {0}};
#undef AT
static const struct cmd_spec render_spec = {
    .name = "template render",
    .synopsis = "SRC [--chat FILE] [--tools FILE] [--kwargs JSON] [--spans] [--batch FILE]",
    .about = "Renders a conversation with the template of SRC, as transformers would.",
    .opts = render_opts,
    .min_args = 1,
    .max_args = 1,
};

static int cmd_render(struct cli *c, int argc, char **argv, struct err *e) {
    struct render_opts a = {0};
    TRY(cli_parse(c, &render_spec, &a, argc, argv, e));
    if (c->done) return 0;
    a.src = c->arg[0];
    a.table = c->form == EMIT_TABLE;
    a.color = c->color;
    struct emit *m = emit_new();
    struct buf out = {0};
    int rc = template_render(&a, &out, m, e);
    if (!rc && !a.table && !a.batch) cli_emit(c, m);
    emit_free(m);
    return print_text(c, &out, rc);
}

struct eval_units_args {
    const char *batch, *mode_name;
};
#define AT(member) offsetof(struct eval_units_args, member)
static const struct option eval_units_opts[] = {
    ROW("batch", 0, OPT_TEXT, AT(batch), "FILE", "{\"units\": [{id, template, context}]}"),
    ROW("mode", 0, OPT_TEXT, AT(mode_name), "WHICH", "hf (default) or lenient"),
    {0}};
#undef AT
static const struct cmd_spec eval_units_spec = {
    .name = "template eval",
    .synopsis = "--batch FILE [--mode WHICH]",
    .about = "Evaluates small templates, each with its own variables; prints {id: text or\n"
             "{error, kind}}.",
    .opts = eval_units_opts,
};

static int cmd_eval_units(struct cli *c, int argc, char **argv, struct err *e) {
    struct eval_units_args x = {0};
    TRY(cli_parse(c, &eval_units_spec, &x, argc, argv, e));
    if (c->done) return 0;
    if (!x.batch) return err_set(e, ERR_USAGE, "template eval: say which units with --batch FILE");
    struct buf out = {0};
    int rc = template_eval(x.batch, x.mode_name, &out, e);
    return print_text(c, &out, rc);
}

static const struct cmd_spec text_diff_spec = {
    .name = "template diff",
    .synopsis = "SRC1 SRC2",
    .about = "Unified difference of two chat templates; exit 1 when they differ.",
    .min_args = 2,
    .max_args = 2,
};

static int cmd_text_diff(struct cli *c, int argc, char **argv, struct err *e) {
    TRY(cli_parse(c, &text_diff_spec, NULL, argc, argv, e));
    if (c->done) return 0;
    struct buf out = {0};
    int rc = template_diff(c->arg[0], c->arg[1], &out, e);
    return print_text(c, &out, rc);
}

#define AT(member) offsetof(struct parse_opts, member)
static const struct option parse_opts[] = {
    ROW("format", 0, OPT_TEXT, AT(format), "NAME",
        "syntax of calls (default: what the template asks for)"),
    ROW("tools", 0, OPT_TEXT, AT(tools), "FILE", "tools (JSON list): types of parameters"),
    ROW("think", 0, OPT_TEXT, AT(think), "HOW",
        "reasoning: open (the prompt began it), none, auto (default: when a closing tag comes)"),
    ROW("strict-calls", 0, OPT_FLAG, AT(strict_calls), NULL,
        "only the template's own syntax makes a call, not bare JSON that names a tool"),
    {0}};
#undef AT
static const struct cmd_spec parse_spec = {
    .name = "template parse",
    .synopsis = "SRC [--format NAME] [--tools FILE] [--think HOW]",
    .about = "Reads an assistant's text on standard input; prints content, reasoning, tool "
             "calls and\n"
             "problems as JSON. A short prompt is rendered with SRC's template: if it ends with a "
             "marker\n"
             "of calls (Functionary's >>>), the text is parsed as its continuation.",
    .opts = parse_opts,
    .min_args = 1,
    .max_args = 1,
};

static int cmd_parse(struct cli *c, int argc, char **argv, struct err *e) {
    struct parse_opts o = {0};
    TRY(cli_parse(c, &parse_spec, &o, argc, argv, e));
    if (c->done) return 0;
    o.src = c->arg[0];
    struct buf out = {0};
    int rc = template_parse(&o, &out, e);
    return print_text(c, &out, rc);
}

struct lint_args {
    bool strict;
    const char *name, *rule;
};
#define AT(member) offsetof(struct lint_args, member)
static const struct option lint_opts[] = {
    ROW("strict", 0, OPT_FLAG, AT(strict), NULL, "warnings, too, give exit status 1"),
    ROW("explain", 0, OPT_TEXT, AT(rule), "RULE", "say what a rule means, or all of them; no SRC"),
    ROW("name", 0, OPT_TEXT, AT(name), "NAME", "which template, when there are several"),
    {0}};
#undef AT
static const struct cmd_spec lint_spec = {
    .name = "template lint",
    .synopsis = "SRC [--strict] | --explain RULE",
    .about = "Renders small conversations with the template and says whether tool calls work with "
             "it,\n"
             "and what is lost, crashes, or breaks the prompt prefix. Exit status 1 when there is "
             "an error.",
    .opts = lint_opts,
    .min_args = 0,
    .max_args = 1,
};

static int cmd_lint(struct cli *c, int argc, char **argv, struct err *e) {
    struct lint_args x = {0};
    TRY(cli_parse(c, &lint_spec, &x, argc, argv, e));
    if (c->done) return 0;
    struct emit *m = emit_new();
    if (x.rule) return cli_result(c, m, template_explain(x.rule, m, e));
    if (!c->n_args) {
        emit_free(m);
        return err_set(e, ERR_USAGE,
                       "template lint: say which template: a GGUF file, a folder or a .jinja file");
    }
    return cli_verdict(c, m, template_lint(c->arg[0], x.name, x.strict, m, e));
}

struct fix_args {
    struct fix_opts o;
    bool list;
};
#define AT(member) offsetof(struct fix_args, member)
static const struct option fix_opts[] = {
    ROW("output", 'o', OPT_OUT, AT(o.out), "FILE", "write the repaired template"),
    ROW("in-place", 0, OPT_FLAG, AT(o.in_place), NULL, "store it in SRC (GGUF or .jinja)"),
    ROW("only", 0, OPT_TEXT, AT(o.only), "IDS", "only these edits, separated by commas"),
    ROW("replace", 0, OPT_TEXT, AT(o.replace), "NAME",
        "instead of edits, our own template: auto (of the same family), or its name, also where "
        "there is "
        "none yet"),
    ROW("list", 0, OPT_FLAG, AT(list), NULL, "list the edits and whether they apply"),
    {0}};
#undef AT
static const struct cmd_spec fix_spec = {
    .name = "template fix",
    .synopsis = "SRC [-o FILE | --in-place] [--only IDS | --replace NAME] [--list]",
    .about = "Repairs known defects of a chat template and prints the difference. Without -o or\n"
             "--in-place nothing is written.",
    .opts = fix_opts,
    .min_args = 1,
    .max_args = 1,
};

static int cmd_fix(struct cli *c, int argc, char **argv, struct err *e) {
    struct fix_args x = {0};
    TRY(cli_parse(c, &fix_spec, &x, argc, argv, e));
    if (c->done) return 0;
    if (x.o.out && x.o.in_place)
        return err_set(e, ERR_USAGE, "template fix: give -o or --in-place, not both");
    if (x.o.only && x.o.replace)
        return err_set(e, ERR_USAGE, "template fix: give --only or --replace, not both");
    x.o.src = c->arg[0];
    if (x.list) {
        struct emit *m = emit_new();
        return cli_result(c, m, template_edits(&x.o, m, e));
    }
    struct buf diff = {0};
    int rc = template_fix(&c->work, &x.o, &diff, e);
    fwrite(diff.data ? diff.data : "", 1, diff.len, c->out);
    buf_release(&diff);
    return rc;
}

int cmd_template(struct cli *c, int argc, char **argv, struct err *e) {
    static const struct subcommand sub[] = {
        {"show", cmd_show, "print the template, or describe it"},
        {"render", cmd_render, "conversation to prompt"},
        {"eval", cmd_eval_units, "evaluate small templates in a batch"},
        {"diff", cmd_text_diff, "compare two templates"},
        {"parse", cmd_parse, "an assistant's text to content, reasoning and tool calls"},
        {"lint", cmd_lint, "find defects by behaviour"},
        {"check", cmd_lint, "the same as lint"},
        {"fix", cmd_fix, "repair known defects, in a GGUF file too"},
    };
    return cli_sub(c, sub, (int)COUNT_OF(sub), "SRC ...", argc, argv, e);
}
