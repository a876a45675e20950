// SPDX-License-Identifier: MIT
/* cli/cmd_run.c - hone run: options of an answer or a conversation. What happens then is in
 * run_once.c and chat.c.
 *
 * A prompt given as an argument, by --file or on standard input is a turn of a conversation, with
 * the model's own template; -p continues a text as it is. Nothing is read from standard input
 * unless there is no other prompt or "-" asks for it: a loop of a shell keeps its input. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "cli/run.h"
#include "core/io.h"
#include "core/log.h"
#include "core/mem.h"
#include "text/textfile.h"

enum { MAX_INPUT = 64 << 20 };

/* ---- what was given ---- */

struct given { /* options that are settings, as text */
    const char *name, *text;
};

static int check_kwargs(const char *kwargs, struct err *e) {
    struct json *j = NULL;
    if (!kwargs) return 0;
    if (json_parse(&j, kwargs, strlen(kwargs), "--kwargs", e)) {
        e->code = ERR_USAGE;
        return ERR_USAGE;
    }
    const bool is_object = json_type(j) == JSON_OBJ;
    json_free(j);
    return is_object ? 0 : err_set(e, ERR_USAGE, "--kwargs: a JSON object is needed");
}

static int check_args(struct run *r, const struct given *g, size_t n, struct err *e) {
    const struct run_args *a = &r->a;
    for (size_t i = 0; i < n; i++)
        if (g[i].text) TRY(run_set(&r->set, "--", g[i].name, g[i].text, e));
    if (a->thinking && strcmp(a->thinking, "show") != 0 && strcmp(a->thinking, "fold") != 0 &&
        strcmp(a->thinking, "hide") != 0)
        return err_set(e, ERR_USAGE, "--thinking: '%s' is not one of show, fold, hide",
                       a->thinking);
    if (a->thinking) TRY(run_set(&r->set, "--", "think", a->thinking, e));
    if (a->think && a->no_think)
        return err_set(e, ERR_USAGE, "--think and --no-think exclude each other");
    if (a->think || a->no_think) r->set.think = a->think ? THINK_ON : THINK_OFF;
    TRY(check_kwargs(a->kwargs, e));
    if (a->special_name && strcmp(a->special_name, "parse") == 0) r->a.special = CHAT_PARSE;
    for (int i = 0; i < a->stop.n; i++)
        if (!*a->stop.v[i]) return err_set(e, ERR_USAGE, "--stop: the text is empty");
    if (a->prompt && a->chat) return err_set(e, ERR_USAGE, "run: -p and --chat exclude each other");
    if (a->prompt && r->c->n_args > 1)
        return err_set(e, ERR_USAGE,
                       "run: -p continues a text, a prompt as an argument is a turn of a "
                       "conversation: give one of them");
    if (a->prompt && (a->system || a->think || a->no_think))
        return err_set(e, ERR_USAGE,
                       "run: -p continues a text without the template, so %s means nothing to it; "
                       "give the prompt as an argument",
                       a->system ? "--system" : "--think");
    if ((a->schema != NULL) + (a->grammar != NULL) + (a->regex != NULL) + (a->choices.n > 0) > 1)
        return err_set(e, ERR_USAGE,
                       "--schema, --grammar, --regex and --choices exclude each other");
    if (a->special_name && strcmp(a->special_name, "plain") != 0 &&
        strcmp(a->special_name, "parse") != 0)
        return err_set(e, ERR_USAGE, "--special-in-content: '%s' is not one of plain, parse",
                       a->special_name);
    if (a->draft && strcmp(a->draft, "mtp") != 0)
        return err_set(e, ERR_USAGE, "--draft: '%s' is not mtp", a->draft);
    return 0;
}

/* ---- the prompt ---- */

static int add_file(struct buf *out, const char *path, struct err *e) {
    char *text = NULL;
    size_t len = 0;
    TRY(text_read_file(&text, &len, path, e));
    buf_add(out, text, len);
    free(text);
    return 0;
}

/* Files first, then the words. Between turns of a conversation and a file an empty line. */
static int gather(struct run *r, struct buf *out, bool *any, struct err *e) {
    const bool raw = r->a.prompt != NULL;
    for (int i = 0; i < r->a.file.n; i++) {
        TRY(add_file(out, r->a.file.v[i], e));
        *any = true;
        if (raw) continue;
        while (out->len && strchr("\r\n", out->data[out->len - 1])) out->data[--out->len] = 0;
        if (i + 1 < r->a.file.n || r->c->n_args > 1) buf_str(out, "\n\n");
    }
    if (raw) {
        *any = true;
        if (strcmp(r->a.prompt, "-") == 0) return add_file(out, "-", e);
        buf_str(out, r->a.prompt);
    }
    for (int i = 1; i < r->c->n_args; i++) {
        *any = true;
        if (i > 1) buf_chr(out, ' ');
        if (strcmp(r->c->arg[i], "-") == 0)
            TRY(add_file(out, "-", e));
        else
            buf_str(out, r->c->arg[i]);
    }
    return 0;
}

static int no_prompt(bool empty, struct err *e) {
    return err_set(e, ERR_USAGE,
                   "run: %s; give -p TEXT, --chat FILE.json, or the prompt as an argument",
                   empty ? "standard input is empty" : "there is no prompt");
}

static bool blank(const struct buf *b) {
    for (size_t i = 0; i < b->len; i++)
        if (!strchr(" \t\r\n", b->data[i])) return false;
    return true;
}

static int read_chat_file(struct run *r, struct err *e) {
    char *text = NULL;
    size_t len = 0;
    TRY(io_read_file(&text, &len, r->a.chat, MAX_INPUT, e));
    int rc = talk_parse(&r->talk, text, len, r->a.chat, e);
    free(text);
    return rc;
}

/* The template, and what is said through it. */
static int prepare_turns(struct run *r, struct err *e) {
    char *kwargs = NULL;
    bool none = false;
    TRY(chat_from_gguf(&r->chat, r->m->gguf, r->m->tok, e));
    r->tmpl = gguf_str_or(r->m->gguf, "tokenizer.chat_template", "");
    r->fmt = toolfmt_detect(r->tmpl, strlen(r->tmpl));
    if (!r->fmt) r->fmt = toolfmt_plain();
    if (r->a.chat) TRY(read_chat_file(r, e));
    if (r->a.system) talk_set_system(&r->talk, *r->a.system ? r->a.system : NULL);
    TRY(run_kwargs(r, &kwargs, &none, e));
    free(kwargs);
    if (none)
        log_warn("the model's template has no switch for thinking, so --%s changes nothing",
                 r->a.think ? "think" : "no-think");
    return 0;
}

static int go(struct run *r, struct err *e) {
    struct buf text = {0};
    bool any = false;
    struct cli *c = r->c;
    const bool people = c->form == EMIT_TABLE && c->out == stdout;
    const bool hand = people && isatty(STDIN_FILENO);
    const bool has_template = gguf_str_or(r->m->gguf, "tokenizer.chat_template", NULL) != NULL;
    int rc = gather(r, &text, &any, e);
    if (!rc && !any && !r->a.chat && !hand) {
        const bool can = c->out == stdout && !isatty(STDIN_FILENO);
        if (can) rc = add_file(&text, "-", e);
        if (!rc && blank(&text)) rc = no_prompt(can, e);
        any = true;
    }
    const bool raw = r->a.prompt || (any && !r->a.chat && !has_template);
    if (!rc && any && !r->a.prompt && blank(&text))
        rc = err_set(e, ERR_USAGE, "the prompt is empty");
    if (!rc && raw && !r->a.prompt)
        log_info("this model has no chat template: the text is continued as it is");
    if (!rc && !raw) rc = prepare_turns(r, e);
    while (!rc && !raw && text.len && strchr("\r\n", text.data[text.len - 1]))
        text.data[--text.len] = 0;
    screen_init(&r->screen, people ? c->out : NULL, c->color);
    r->screen.thinking = r->set.thinking;
    if (!rc) {
        const bool talks = !any && hand && (!r->a.chat || isatty(STDOUT_FILENO));
        rc = talks ? run_chat(r, e)
                   : run_once(r, any ? (text.data ? text.data : "") : NULL, text.len, e);
    }
    buf_release(&text);
    return rc;
}

static int run_model(struct run *r, const struct given *g, size_t n, struct err *e) {
    /* the file first: other complaints mean nothing about one that is not there */
    TRY(model_open(&r->m, r->c->arg[0], e));
    int rc = model_use_pre(r->m, r->a.pre, e);
    if (!rc) rc = model_need_tok(r->m, e);
    if (!rc) rc = run_set_init(&r->set, r->m->gguf, e);
    if (!rc) rc = check_args(r, g, n, e);
    if (!rc) rc = go(r, e);
    gen_free(r->gen);
    run_grammar_free(r);
    draft_free(r->draft);
    session_free(r->s);
    chat_free(r->chat);
    talk_release(&r->talk);
    model_close(r->m);
    return rc;
}

int cmd_run(struct cli *c, int argc, char **argv, struct err *e) {
    struct run r = {.c = c, .a = {.kv_type = KV_USUAL, .act = ACT_FAST}};
    struct run_args *a = &r.a;
    struct given g[] = {{"temp", NULL},
                        {"top-k", NULL},
                        {"top-p", NULL},
                        {"min-p", NULL},
                        {"repeat-penalty", NULL},
                        {"repeat-last-n", NULL},
                        {"presence-penalty", NULL},
                        {"frequency-penalty", NULL},
                        {"seed", NULL},
                        {"n-predict", NULL}};
    const struct opt opts[] = {
        {"prompt", 'p', OPT_STR, &a->prompt, "TEXT",
         "continue this text as it is, special tokens recognised; -: standard input"},
        {"file", 0, OPT_LIST, &a->file, "FILE", "text in front of the prompt; -: standard input"},
        {"chat", 0, OPT_STR, &a->chat, "FILE",
         "conversation: {\"messages\": [...], \"tools\": [...]} or an array"},
        {"system", 0, OPT_STR, &a->system, "TEXT", "what the model is told first"},
        {"think", 0, OPT_FLAG, &a->think, NULL, "thinking on, by the template's variable"},
        {"no-think", 0, OPT_FLAG, &a->no_think, NULL, "thinking off"},
        {"thinking", 0, OPT_STR, &a->thinking, "HOW",
         "on a terminal: show (dimmed, default), fold, hide"},
        {"kwargs", 0, OPT_STR, &a->kwargs, "JSON", "more variables for the template"},
        {"raw", 0, OPT_FLAG, &a->raw, NULL, "all that is written: reasoning, markers, calls"},
        {"n-predict", 'n', OPT_STR, &g[9].text, "N",
         "tokens to make at most (-p: 512; else until the context is full)"},
        {"ctx", 0, OPT_I64, &a->ctx, "N", "context (8192, or what -n needs)"},
        {"stop", 0, OPT_LIST, &a->stop, "TEXT", "ends the answer, which is without it"},
        {"schema", 0, OPT_STR, &a->schema, "FILE",
         "the answer is JSON that this JSON Schema allows"},
        {"grammar", 0, OPT_STR, &a->grammar, "FILE", "it is a text of this grammar: GBNF or Lark"},
        {"regex", 0, OPT_STR, &a->regex, "R", "it matches this regular expression, as a whole"},
        {"choices", 0, OPT_LIST, &a->choices, "TEXT", "it is one of these texts"},
        {"temp", 0, OPT_STR, &g[0].text, "T", "temperature; 0: always the likeliest token"},
        {"top-k", 0, OPT_STR, &g[1].text, "K", "only the K likeliest; 0: all"},
        {"top-p", 0, OPT_STR, &g[2].text, "P",
         "only the likeliest with total probability P; 1: all"},
        {"min-p", 0, OPT_STR, &g[3].text, "P", "none below P times the likeliest; 0: all"},
        {"repeat-penalty", 0, OPT_STR, &g[4].text, "X", "penalty for repeated tokens; 1: none"},
        {"presence-penalty", 0, OPT_STR, &g[6].text, "X", "less for tokens that occurred; 0: none"},
        {"frequency-penalty", 0, OPT_STR, &g[7].text, "X", "less for each time; 0: none"},
        {"repeat-last-n", 0, OPT_STR, &g[5].text, "N", "how far back the penalties look (64)"},
        {"seed", 0, OPT_STR, &g[8].text, "N", "same seed, same text (default: another each time)"},
        {"special-in-content", 0, OPT_STR, &a->special_name, "HOW",
         "texts of control tokens in messages: plain (default), parse"},
        {"no-history", 0, OPT_FLAG, &a->no_history, NULL, "do not read or keep what was typed"},
        {"pre", 0, OPT_STR, &a->pre, "NAME", CLI_HELP_PRE},
        {"kv-type", 0, OPT_STR, &a->kv_type, "T",
         "cache of keys and values: f16 (default), q8_0, tq4, ... or K/V"},
        {"act", 0, OPT_STR, &a->act, "MODE", "activations: f32 or q8 (default)"},
        {"draft", 0, OPT_STR, &a->draft, "NAME",
         "mtp: the model's MTP block guesses a token ahead; the text stays the same"},
    };
    const struct cmd_spec spec = {
        .name = "run",
        .synopsis = "MODEL.gguf [PROMPT | -p TEXT | --chat FILE.json] [--system TEXT] [-n N] "
                    "[--temp T] [--seed N]",
        .about = "Answers PROMPT, or standard input, with the model's own chat template; -p "
                 "continues a text as\n"
                 "it is. On a terminal without any of them it holds a conversation; /help there "
                 "lists its commands.",
        .opts = opts,
        .n_opts = (int)COUNT_OF(opts),
        .min_args = 1,
        .max_args = -1,
    };
    TRY(cli_parse(c, &spec, argc, argv, e));
    return c->done ? 0 : run_model(&r, g, COUNT_OF(g), e);
}
