// SPDX-License-Identifier: MIT
/* cli/cmd_template.c - hone template show | render | eval | diff: a chat template and what it makes
 * of a conversation. Texts and batch results go to stdout as they are, so core/emit.h has a part
 * only in --json of show and render. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cmd.h"
#include "cli/cmd_template.h"
#include "core/hash.h"
#include "core/io.h"
#include "core/json.h"
#include "core/mem.h"
#include "template/chat_batch.h"
#include "template/chat_src.h"
#include "template/chat_vars.h"
#include "template/fix_diff.h"
#include "chat/toolfmt.h"

#define MAX_INPUT ((uint64_t)256 << 20)

static int parse_mode(const char *text, enum jinja_mode *mode, struct err *e) {
    *mode = JINJA_HF;
    if (!text || strcmp(text, "hf") == 0) return 0;
    *mode = JINJA_LENIENT;
    if (strcmp(text, "lenient") == 0) return 0;
    return err_set(e, ERR_USAGE, "--mode: '%s' is not one of hf, lenient", text);
}

static void print_text(struct cli *c, const char *s, size_t n, bool newline) {
    fwrite(s, 1, n, c->out);
    if (newline && (n == 0 || s[n - 1] != '\n')) fputc('\n', c->out);
}

/* ---- show ---------------------------------------------------------------------------------------
 */
static const char *needs(const struct chat_src *s, struct jinja_err *je) {
    struct jinja *t;
    struct err ignored;
    if (jinja_compile_mode(&t, s->text, s->len, s->label, JINJA_HF, je, &ignored) == 0) {
        jinja_free(t);
        return "hf";
    }
    struct jinja_err second;
    if (jinja_compile_mode(&t, s->text, s->len, s->label, JINJA_LENIENT, &second, &ignored))
        return "none";
    jinja_free(t);
    return "lenient";
}

static int cmd_show(struct cli *c, int argc, char **argv, struct err *e) {
    const char *name = NULL;
    const struct opt opts[] = {
        {"name", 0, OPT_STR, &name, "NAME", "which template, when there are several"}};
    const struct cmd_spec spec = {
        .name = "template show",
        .synopsis = "SRC [--name NAME]",
        .about =
            "Prints the chat template of a GGUF file, a Hugging Face folder or a .jinja file,\n"
            "byte for byte. --json describes it instead.",
        .opts = opts,
        .n_opts = (int)COUNT_OF(opts),
        .min_args = 1,
        .max_args = 1,
    };
    TRY(cli_parse(c, &spec, argc, argv, e));
    if (c->done) return 0;
    struct chat_src s;
    TRY(chat_src_open(&s, c->arg[0], name, e));
    if (c->form == EMIT_TABLE) {
        print_text(c, s.text, s.len, false);
        chat_src_close(&s);
        return 0;
    }
    struct emit *m = emit_new();
    struct sha256 h;
    struct jinja_err je = {0};
    char hex[65];
    int64_t lines = 0;
    sha256_init(&h);
    sha256_add(&h, s.text, s.len);
    sha256_hex(&h, hex);
    for (size_t i = 0; i < s.len; i++) lines += s.text[i] == '\n';
    emit_str(m, "source", "source", s.label);
    emit_i64(m, "n_bytes", "bytes", (int64_t)s.len);
    emit_i64(m, "n_lines", "lines", lines);
    emit_str(m, "sha256", "sha256", hex);
    emit_str(m, "mode", "mode", needs(&s, &je));
    if (je.kind != JF_NONE) emit_str(m, "error", "error", je.msg);
    emit_table(m, "templates", "templates");
    emit_col(m, "name", "name");
    for (int i = 0; i < s.n_names; i++) {
        emit_row(m);
        emit_cell_str(m, s.names[i]);
    }
    cli_emit(c, m);
    emit_free(m);
    chat_src_close(&s);
    return 0;
}

/* ---- render -------------------------------------------------------------------------------------
 */
struct render_args {
    const char *name, *batch, *chat, *tools, *kwargs, *context, *mode, *now, *args;
    bool no_gen, spans;
};

static int read_doc(struct jdoc *d, const char *path, struct err *e) {
    char *text;
    size_t len;
    TRY(io_read_file(&text, &len, path, MAX_INPUT, e));
    int rc = jdoc_parse(d, text, len, path, e);
    free(text);
    return rc;
}

static int run_batch(struct cli *c, const struct chat_src *s, const char *path,
                     enum jinja_mode mode, struct err *e) {
    struct buf out = {0};
    char *text;
    size_t len;
    TRY(io_read_file(&text, &len, path, MAX_INPUT, e));
    int rc = chat_batch_render(s->text, s->len, s->label, mode, text, len, path, &out, e);
    if (!rc) print_text(c, out.data, out.len, true);
    buf_release(&out);
    free(text);
    return rc;
}

/* Special tokens of the source as an object in d's arena. */
static struct jval specials(struct jdoc *d, const struct chat_src *s, struct err *e) {
    struct buf b = {0};
    struct jw w;
    jw_init(&w, &b, false);
    jw_obj(&w, NULL);
    for (int i = 0; i < CHAT_SRC_SPECIALS; i++)
        if (s->special[i]) jw_str(&w, chat_src_special_names[i], s->special[i]);
    jw_end(&w);
    int rc = jdoc_parse(d, b.data, b.len, "special tokens", e);
    buf_release(&b);
    return rc ? jv_missing() : d->root;
}

struct docs {
    struct jdoc chat, tools, kwargs, special;
    bool has_chat, has_tools, has_kwargs, has_special;
};

static void docs_release(struct docs *d) {
    if (d->has_chat) jdoc_release(&d->chat);
    if (d->has_tools) jdoc_release(&d->tools);
    if (d->has_kwargs) jdoc_release(&d->kwargs);
    if (d->has_special) jdoc_release(&d->special);
}

static int make_case(const struct render_args *a, const struct chat_src *s, struct docs *d,
                     struct chat_case *k, struct err *e) {
    TRY(read_doc(&d->chat, a->chat ? a->chat : "-", e));
    d->has_chat = true;
    struct jval special = specials(&d->special, s, e);
    if (special.tag == JT_MISSING) return (int)e->code;
    d->has_special = true;
    *k = chat_case_of(d->chat.root, special);
    if (d->chat.root.tag == JT_LIST) k->messages = d->chat.root;
    if (k->messages.tag != JT_LIST)
        return err_set(e, ERR_DATA,
                       "%s: neither a list of messages nor an object with \"messages\"",
                       a->chat ? a->chat : "standard input");
    k->gen = !a->no_gen;
    if (a->tools) {
        TRY(read_doc(&d->tools, a->tools, e));
        d->has_tools = true;
        k->tools = d->tools.root;
    }
    if (a->kwargs) {
        TRY(jdoc_parse(&d->kwargs, a->kwargs, strlen(a->kwargs), "--kwargs", e));
        d->has_kwargs = true;
        if (d->kwargs.root.tag != JT_DICT)
            return err_set(e, ERR_USAGE, "--kwargs: a JSON object is expected");
        k->kwargs = d->kwargs.root;
    }
    if (a->now && !chat_clock(a->now, &k->now))
        return err_set(e, ERR_USAGE, "--now: '%s' does not look like 2026-03-05T14:30:00", a->now);
    if (a->context && strcmp(a->context, "llamacpp") == 0) {
        k->llamacpp = true;
    } else if (a->context && strcmp(a->context, "hf") != 0) {
        return err_set(e, ERR_USAGE, "--context: '%s' is not one of hf, llamacpp", a->context);
    }
    k->parse_args = !a->args || strcmp(a->args, "auto") == 0;
    if (!k->parse_args && strcmp(a->args, "as-is") != 0)
        return err_set(e, ERR_USAGE, "--args: '%s' is not one of auto, as-is", a->args);
    return 0;
}

static int run_render(struct cli *c, const struct render_args *a, const struct chat_src *s,
                      enum jinja_mode mode, struct err *e) {
    struct docs d = {0};
    struct chat_case k;
    struct jinja *t = NULL;
    struct buf out = {0};
    int rc = make_case(a, s, &d, &k, e);
    if (!rc) rc = jinja_compile_mode(&t, s->text, s->len, s->label, mode, NULL, e);
    if (!rc && (a->spans || c->form != EMIT_TABLE)) {
        rc = template_spans(c, t, &k, e);
    } else if (!rc) {
        rc = chat_case_render(t, &k, &out, NULL, e);
        if (!rc) print_text(c, out.data, out.len, false);
    }
    buf_release(&out);
    jinja_free(t);
    docs_release(&d);
    return rc;
}

static int cmd_render(struct cli *c, int argc, char **argv, struct err *e) {
    struct render_args a = {0};
    const struct opt opts[] = {
        {"chat", 0, OPT_STR, &a.chat, "FILE",
         "conversation: messages, or an object with messages and tools; - is stdin"},
        {"tools", 0, OPT_STR, &a.tools, "FILE", "tools (JSON list)"},
        {"kwargs", 0, OPT_STR, &a.kwargs, "JSON",
         "more variables, e.g. {\"enable_thinking\": false}"},
        {"no-generation-prompt", 0, OPT_FLAG, &a.no_gen, NULL, "end after the last message"},
        {"name", 0, OPT_STR, &a.name, "NAME", "which template, when there are several"},
        {"context", 0, OPT_STR, &a.context, "WHICH",
         "variables as hf (default) or llamacpp passes them"},
        {"mode", 0, OPT_STR, &a.mode, "WHICH",
         "hf (default), or lenient: also what only other engines accept"},
        {"now", 0, OPT_STR, &a.now, "TIME", "clock the template sees, 2026-03-05T14:30:00"},
        {"args", 0, OPT_STR, &a.args, "HOW",
         "arguments of calls given as text: auto (parsed, default) or as-is"},
        {"spans", 0, OPT_FLAG, &a.spans, NULL,
         "mark what came from the conversation; --json: bytes, kind and source of each"},
        {"batch", 0, OPT_STR, &a.batch, "FILE",
         "render all scenarios of FILE; prints {id: text or {error, kind}}"},
    };
    const struct cmd_spec spec = {
        .name = "template render",
        .synopsis = "SRC [--chat FILE] [--tools FILE] [--kwargs JSON] [--spans] [--batch FILE]",
        .about = "Renders a conversation with the template of SRC, as transformers would.",
        .opts = opts,
        .n_opts = (int)COUNT_OF(opts),
        .min_args = 1,
        .max_args = 1,
    };
    enum jinja_mode mode;
    struct chat_src s;
    TRY(cli_parse(c, &spec, argc, argv, e));
    if (c->done) return 0;
    TRY(parse_mode(a.mode, &mode, e));
    if (a.batch && (a.spans || a.chat))
        return err_set(e, ERR_USAGE, "template render: --batch goes without --chat and --spans");
    TRY(chat_src_open(&s, c->arg[0], a.name, e));
    int rc = a.batch ? run_batch(c, &s, a.batch, mode, e) : run_render(c, &a, &s, mode, e);
    chat_src_close(&s);
    return rc;
}

/* ---- eval, diff ---------------------------------------------------------------------------------
 */
static int cmd_eval_units(struct cli *c, int argc, char **argv, struct err *e) {
    const char *batch = NULL, *mode_name = NULL;
    const struct opt opts[] = {
        {"batch", 0, OPT_STR, &batch, "FILE", "{\"units\": [{id, template, context}]}"},
        {"mode", 0, OPT_STR, &mode_name, "WHICH", "hf (default) or lenient"},
    };
    const struct cmd_spec spec = {
        .name = "template eval",
        .synopsis = "--batch FILE [--mode WHICH]",
        .about = "Evaluates small templates, each with its own variables; prints {id: text or\n"
                 "{error, kind}}.",
        .opts = opts,
        .n_opts = (int)COUNT_OF(opts),
    };
    enum jinja_mode mode;
    TRY(cli_parse(c, &spec, argc, argv, e));
    if (c->done) return 0;
    if (!batch) return err_set(e, ERR_USAGE, "template eval: say which units with --batch FILE");
    TRY(parse_mode(mode_name, &mode, e));
    struct buf out = {0};
    char *text;
    size_t len;
    TRY(io_read_file(&text, &len, batch, MAX_INPUT, e));
    int rc = chat_batch_eval(text, len, batch, mode, &out, e);
    if (!rc) print_text(c, out.data, out.len, true);
    buf_release(&out);
    free(text);
    return rc;
}

static int cmd_text_diff(struct cli *c, int argc, char **argv, struct err *e) {
    const struct cmd_spec spec = {
        .name = "template diff",
        .synopsis = "SRC1 SRC2",
        .about = "Unified difference of two chat templates; exit 1 when they differ.",
        .min_args = 2,
        .max_args = 2,
    };
    TRY(cli_parse(c, &spec, argc, argv, e));
    if (c->done) return 0;
    struct chat_src a, b;
    TRY(chat_src_open(&a, c->arg[0], NULL, e));
    int rc = chat_src_open(&b, c->arg[1], NULL, e);
    if (!rc) {
        struct buf out = {0};
        if (text_diff(a.text, a.len, a.label, b.text, b.len, b.label, &out)) {
            print_text(c, out.data, out.len, false);
            rc =
                err_set(e, ERR_VERDICT, "the chat templates of %s and %s differ", a.label, b.label);
        }
        buf_release(&out);
        chat_src_close(&b);
    }
    chat_src_close(&a);
    return rc;
}

/* ---- parse --------------------------------------------------------------------------------------
 */
static const struct toolfmt *choose_format(const char *name, const char *src, struct err *e) {
    const struct toolfmt *f = name ? toolfmt_find(name) : NULL;
    if (f) return f;
    if (name) {
        char list[700] = "";
        for (int i = 0; i < toolfmt_count(); i++) {
            size_t n = strlen(list);
            snprintf(list + n, sizeof list - n, "%s%s", i ? ", " : "", toolfmt_name(toolfmt_at(i)));
        }
        err_set(e, ERR_USAGE, "--format: '%s' is not one of %s", name, list);
        return NULL;
    }
    struct chat_src s;
    if (chat_src_open(&s, src, NULL, e)) return NULL;
    f = toolfmt_detect(s.text, s.len);
    chat_src_close(&s);
    if (!f)
        err_set(e, ERR_DATA,
                "%s: the template asks for no known syntax of tool calls; name one with --format",
                src);
    return f;
}

static int cmd_parse(struct cli *c, int argc, char **argv, struct err *e) {
    const char *format = NULL, *tools = NULL, *think_name = NULL;
    const struct opt opts[] = {
        {"format", 0, OPT_STR, &format, "NAME",
         "syntax of calls (default: what the template asks for)"},
        {"tools", 0, OPT_STR, &tools, "FILE", "tools (JSON list): types of parameters"},
        {"think", 0, OPT_STR, &think_name, "HOW",
         "reasoning: open (the prompt began it), none, auto (default: when a closing tag comes)"},
    };
    const struct cmd_spec spec = {
        .name = "template parse",
        .synopsis = "SRC [--format NAME] [--tools FILE] [--think HOW]",
        .about = "Reads an assistant's text on standard input; prints content, reasoning, tool "
                 "calls and\n"
                 "problems as JSON.",
        .opts = opts,
        .n_opts = (int)COUNT_OF(opts),
        .min_args = 1,
        .max_args = 1,
    };
    enum tool_think think = TOOL_THINK_UNKNOWN;
    TRY(cli_parse(c, &spec, argc, argv, e));
    if (c->done) return 0;
    if (think_name && strcmp(think_name, "open") == 0) {
        think = TOOL_THINK_OPEN;
    } else if (think_name && strcmp(think_name, "none") == 0) {
        think = TOOL_THINK_NONE;
    } else if (think_name && strcmp(think_name, "auto") != 0) {
        return err_set(e, ERR_USAGE, "--think: '%s' is not one of open, none, auto", think_name);
    }
    const struct toolfmt *f = choose_format(format, c->arg[0], e);
    if (!f) return (int)e->code;
    char *tools_text = NULL, *text;
    size_t tools_len = 0, len;
    struct toolparse *p = NULL;
    struct buf out = {0};
    if (tools) TRY(io_read_file(&tools_text, &tools_len, tools, MAX_INPUT, e));
    int rc = toolparse_new(&p, f, tools_text, tools_len, think, e);
    if (!rc) rc = io_read_file(&text, &len, "-", MAX_INPUT, e);
    if (!rc) {
        toolparse_feed(p, text, len);
        free(text);
        rc = toolparse_finish(p, &out, e);
    }
    if (!rc) print_text(c, out.data, out.len, true);
    toolparse_free(p);
    buf_release(&out);
    free(tools_text);
    return rc;
}

int cmd_template(struct cli *c, int argc, char **argv, struct err *e) {
    static const struct subcommand sub[] = {
        {"show", cmd_show, "print the template, or describe it"},
        {"render", cmd_render, "conversation to prompt"},
        {"eval", cmd_eval_units, "evaluate small templates in a batch"},
        {"diff", cmd_text_diff, "compare two templates"},
        {"parse", cmd_parse, "an assistant's text to content, reasoning and tool calls"},
        {"lint", cmd_template_lint, "find defects by behaviour"},
        {"check", cmd_template_lint, "the same as lint"},
        {"fix", cmd_template_fix, "repair known defects, in a GGUF file too"},
    };
    return cli_sub(c, sub, (int)COUNT_OF(sub), "SRC ...", argc, argv, e);
}
