// SPDX-License-Identifier: MIT
/* cli/cmd_template.c - command line of hone template; runs jobs/template_text.c and
 * jobs/template_defects.c. */
#include "cli/cmd.h"
#include "jobs/template_defects.h"
#include "jobs/template_text.h"
#include "lib/options.h"

#include <stdio.h>

/* Prints a text if rc is 0 or a verdict, then frees it. Returns rc. */
static int print_text(struct cli *c, struct buf *text, int rc) {
    if (!rc || rc == ERR_VERDICT) fwrite(text->data ? text->data : "", 1, text->len, c->out);
    buf_release(text);
    return rc;
}

static const struct cmd_spec show_spec = {
    .name = "template show",
    .synopsis = "SRC [--name NAME]",
    .about = "Prints the chat template of a GGUF file, a Hugging Face folder or a .jinja file,\n"
             "byte for byte. --json describes it instead.",
    .opts = template_show_options,
    .min_args = 1,
    .max_args = 1,
};

static int cmd_show(struct cli *c, int argc, char **argv, struct err *e) {
    struct template_show_opts x = {0};
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

static const struct cmd_spec render_spec = {
    .name = "template render",
    .synopsis = "SRC [--chat FILE] [--tools FILE] [--kwargs JSON] [--spans] [--batch FILE]",
    .about = "Renders a conversation with the template of SRC, as transformers would.",
    .opts = template_render_options,
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

static const struct cmd_spec eval_units_spec = {
    .name = "template eval",
    .synopsis = "--batch FILE [--mode WHICH]",
    .about = "Evaluates small templates, each with its own variables; prints {id: text or\n"
             "{error, kind}}.",
    .opts = template_eval_options,
};

static int cmd_eval_units(struct cli *c, int argc, char **argv, struct err *e) {
    struct template_eval_opts x = {0};
    TRY(cli_parse(c, &eval_units_spec, &x, argc, argv, e));
    if (c->done) return 0;
    if (!x.batch) return err_set(e, ERR_USAGE, "template eval: give the units with --batch FILE");
    struct buf out = {0};
    int rc = template_eval(x.batch, x.mode_name, &out, e);
    return print_text(c, &out, rc);
}

static const struct cmd_spec text_diff_spec = {
    .name = "template diff",
    .synopsis = "SRC1 SRC2",
    .about = "Prints the unified diff of two chat templates; exit status 1 if they differ.",
    .min_args = 2,
    .max_args = 2,
};

static int cmd_text_diff(struct cli *c, int argc, char **argv, struct err *e) {
    TRY(cli_parse(c, &text_diff_spec, NULL, argc, argv, e));
    if (c->done) return 0;
    struct buf out = {0};
    int rc = template_diff(c->arg[0], c->arg[1], &out, e);
    if (c->form == EMIT_TABLE) return print_text(c, &out, rc);
    if (c->form == EMIT_MD && out.len) {
        struct buf fenced = {0};
        buf_fmt(&fenced, "```diff\n%s```\n", out.data);
        buf_release(&out);
        return print_text(c, &fenced, rc);
    }
    struct emit *m = emit_new();
    emit_str(m, "diff", NULL, out.data ? out.data : "");
    buf_release(&out);
    return cli_verdict(c, m, rc);
}

static const struct cmd_spec parse_spec = {
    .name = "template parse",
    .synopsis = "SRC [--format NAME] [--tools FILE] [--think HOW]",
    .about = "Reads an assistant's text from standard input; prints content, reasoning, tool "
             "calls and\n"
             "problems as JSON. A short prompt is rendered with SRC's template: if it ends with a "
             "call\n"
             "marker (Functionary's >>>), the text is parsed as its continuation.",
    .opts = template_parse_options,
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

static const struct cmd_spec lint_spec = {
    .name = "template lint",
    .synopsis = "SRC [--strict] | --explain RULE",
    .about = "Renders small conversations with the template and reports whether tool calls work,\n"
             "and which inputs are lost, crash, or break the prompt prefix. Exit status 1 if there "
             "is an error.",
    .opts = template_lint_options,
    .min_args = 0,
    .max_args = 1,
};

static int cmd_lint(struct cli *c, int argc, char **argv, struct err *e) {
    struct template_lint_opts x = {0};
    TRY(cli_parse(c, &lint_spec, &x, argc, argv, e));
    if (c->done) return 0;
    struct emit *m = emit_new();
    if (x.rule) return cli_result(c, m, template_explain(x.rule, m, e));
    if (!c->n_args) {
        emit_free(m);
        return err_set(e, ERR_USAGE,
                       "template lint: name a template: a GGUF file, a folder or a .jinja file");
    }
    return cli_verdict(c, m, template_lint(c->arg[0], x.name, x.strict, m, e));
}

static const struct cmd_spec fix_spec = {
    .name = "template fix",
    .synopsis = "SRC [-o FILE | --in-place] [--only IDS | --replace NAME] [--add-tools] [--prove]",
    .about = "Repairs known defects of a chat template and prints the difference. Without -o or\n"
             "--in-place nothing is written.",
    .opts = template_fix_options,
    .min_args = 1,
    .max_args = 1,
};

static int cmd_fix(struct cli *c, int argc, char **argv, struct err *e) {
    struct fix_opts x = {0};
    TRY(cli_parse(c, &fix_spec, &x, argc, argv, e));
    if (c->done) return 0;
    if (x.out && x.in_place)
        return err_set(e, ERR_USAGE, "template fix: give -o or --in-place, not both");
    if (x.only && x.replace)
        return err_set(e, ERR_USAGE, "template fix: give --only or --replace, not both");
    x.src = c->arg[0];
    struct emit *m = emit_new();
    if (x.list) return cli_result(c, m, template_edits(&x, m, e));
    struct buf diff = {0};
    int rc = template_fix(&c->work, &x, m, &diff, e);
    if (c->form == EMIT_TABLE) fwrite(diff.data ? diff.data : "", 1, diff.len, c->out);
    if (c->form != EMIT_TABLE && !rc) cli_emit(c, m);
    emit_free(m);
    buf_release(&diff);
    return rc;
}

int cmd_template(struct cli *c, int argc, char **argv, struct err *e) {
    static const struct subcommand sub[] = {
        {"show", cmd_show, "print the template, or describe it"},
        {"render", cmd_render, "conversation to prompt"},
        {"eval", cmd_eval_units, "evaluate small templates in a batch"},
        {"diff", cmd_text_diff, "compare two templates"},
        {"parse", cmd_parse, "split an assistant's text into content, reasoning and tool calls"},
        {"lint", cmd_lint, "find defects by rendering test conversations"},
        {"check", cmd_lint, "the same as lint"},
        {"fix", cmd_fix, "repair known defects, including those in a GGUF file"},
    };
    return cli_sub(c, sub, (int)COUNT_OF(sub), "SRC ...", argc, argv, e);
}
