// SPDX-License-Identifier: MIT
/* cli/cmd_run.c - hone run: options and prompt of an answer (run_once.c) or a conversation
 * (chat_line.c).
 *
 * A prompt given as an argument, by --file or on standard input is a turn of a conversation, with
 * the model's own template; -p continues a text without a template. Standard input is read only if
 * there is no other prompt or "-" names it, so that a shell loop around hone keeps its input. */
#include <stdlib.h>
#include <string.h>

#include "cli/cmd.h"
#include "cli/cmd_run.h"
#include "lib/options.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/os.h"
#include "text/textfile.h"

/* ---- options ---- */

/* Returns ERR_USAGE unless --kwargs is a JSON object; NULL is fine. */
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

/* Adds the non-empty lines of a file to the choices. */
static int choices_of_file(struct run_cli *x, const char *path, struct err *e) {
    char *text = NULL;
    size_t len = 0;
    TRY(text_read_file(&text, &len, path, e));
    for (const char *s = text; s && *s;) {
        const size_t line = strcspn(s, "\n");
        const size_t n = line - (line && s[line - 1] == '\r');
        if (n) work_list_add(&x->c->work, &x->r.a.choices, arena_strndup(&x->c->work.mem, s, n));
        s += line + (s[line] != 0);
    }
    free(text);
    return 0;
}

/* Splits a single --choices at its commas, or reads @FILE. Several --choices give one text each, so
 * that texts can contain commas. */
static int take_choices(struct run_cli *x, struct err *e) {
    struct str_list *l = &x->r.a.choices;
    if (l->n != 1) return 0;
    const char *text = l->v[0];
    l->n = 0;
    if (*text == '@' && !strchr(text, ','))
        TRY(choices_of_file(x, text + 1, e));
    else
        work_split(&x->c->work, text, l);
    if (l->n > 1) return 0;
    return err_set(
        e, ERR_USAGE,
        "--choices: needs at least two texts; write --choices yes,no, --choices @FILE with "
        "one per line, or --choices TEXT several times for texts with commas");
}

/* Rejects options that exclude each other, and unknown names. */
static int check_names(const struct run_cli *x, struct err *e) {
    const struct run_args *a = &x->r.a;
    if (a->prompt && x->c->n_args > 1)
        return err_set(e, ERR_USAGE,
                       "run: -p continues a text, and a prompt as an argument is a turn of a "
                       "conversation: give one of them");
    if (a->prompt && (a->system || a->think || a->no_think))
        return err_set(e, ERR_USAGE,
                       "run: -p continues a text without the template, so %s has no effect; "
                       "give the prompt as an argument",
                       a->system ? "--system" : "--think");
    if (a->special_name && strcmp(a->special_name, "plain") != 0 &&
        strcmp(a->special_name, "parse") != 0)
        return err_set(e, ERR_USAGE, "--special-in-content: '%s' is not one of plain, parse",
                       a->special_name);
    return run_check_draft(a, e);
}

/* Checks the options; the model's defaults are already applied. */
static int check_args(struct run_cli *x, struct err *e) {
    struct run *r = &x->r;
    const struct run_args *a = &r->a;
    TRY(run_set_given(&r->set, a->set, e));
    if (a->thinking && strcmp(a->thinking, "show") != 0 && strcmp(a->thinking, "fold") != 0 &&
        strcmp(a->thinking, "hide") != 0)
        return err_set(e, ERR_USAGE, "--thinking: '%s' is not one of show, fold, hide",
                       a->thinking);
    if (a->thinking) TRY(run_set(&r->set, "--", "think", a->thinking, e));
    if (a->think || a->no_think) r->set.think = a->think ? THINK_ON : THINK_OFF;
    TRY(check_kwargs(a->kwargs, e));
    if (a->special_name && strcmp(a->special_name, "parse") == 0) r->a.special = CHAT_PARSE;
    for (int i = 0; i < a->stop.n; i++)
        if (!*a->stop.v[i]) return err_set(e, ERR_USAGE, "--stop: the text is empty");
    TRY(check_names(x, e));
    return take_choices(x, e);
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

/* Appends a text of the command line, which a terminal may have written in another encoding. */
static int add_word(struct buf *out, const char *word, struct err *e) {
    TRY(text_check(word, strlen(word), "the prompt", e));
    buf_str(out, word);
    return 0;
}

/* Joins the prompt from files, then words. An empty line separates a file from the text after it.
 */
static int gather(const struct run_cli *x, struct buf *out, bool *any, struct err *e) {
    const bool raw = x->r.a.prompt != NULL;
    for (int i = 0; i < x->r.a.file.n; i++) {
        TRY(add_file(out, x->r.a.file.v[i], e));
        *any = true;
        if (raw) continue;
        while (out->len && strchr("\r\n", out->data[out->len - 1])) out->data[--out->len] = 0;
        if (i + 1 < x->r.a.file.n || x->c->n_args > 1) buf_str(out, "\n\n");
    }
    if (raw) {
        *any = true;
        if (strcmp(x->r.a.prompt, "-") == 0) return add_file(out, "-", e);
        TRY(add_word(out, x->r.a.prompt, e));
    }
    for (int i = 1; i < x->c->n_args; i++) {
        *any = true;
        if (i > 1) buf_chr(out, ' ');
        const bool in = strcmp(x->c->arg[i], "-") == 0;
        TRY(in ? add_file(out, "-", e) : add_word(out, x->c->arg[i], e));
    }
    return 0;
}

/* Sets and returns the error for a missing prompt. empty: standard input was read but is empty. */
static int no_prompt(bool empty, struct err *e) {
    return err_set(e, ERR_USAGE,
                   "run: %s; give -p TEXT, --chat FILE.json, or the prompt as an argument",
                   empty ? "standard input is empty" : "there is no prompt");
}

static bool is_blank(const struct buf *b) {
    for (size_t i = 0; i < b->len; i++)
        if (!strchr(" \t\r\n", b->data[i])) return false;
    return true;
}

/* ---- display of the answer ---- */

/* Begins showing an answer; a callback of the chat. */
static void view_begin(void *ud) {
    screen_begin(ud);
}
/* Shows what has been parsed so far; a callback of the chat. */
static void view_update(void *ud, struct toolparse *p, int64_t n_drawn) {
    screen_update(ud, p, n_drawn);
}
/* Shows n bytes of text; a callback of the chat. */
static void view_text(void *ud, const char *s, size_t n) {
    screen_text(ud, s, n);
}
/* Shows a finished answer, with its calls; a callback of the chat. */
static void view_end(void *ud, const char *reasoning, const char *content, const struct json *calls,
                     struct toolparse *p) {
    screen_end(ud, reasoning, content, calls, p);
}
/* Starts a new line on the screen; a callback of the chat. */
static void view_newline(void *ud) {
    screen_newline(ud);
}

/* Shows answers on `out`; NULL: nowhere. */
static void show_on(struct run_cli *x, FILE *out) {
    screen_init(&x->screen, out, x->c->color);
    x->screen.thinking = x->r.set.thinking;
    x->r.shown = out != NULL;
    x->r.view = (struct run_view){.ud = &x->screen,
                                  .begin = view_begin,
                                  .update = view_update,
                                  .text = view_text,
                                  .end = view_end,
                                  .newline = view_newline};
}

/* ---- the answer ---- */

static bool is_stdin(const char *path) {
    return path && (strcmp(path, "-") == 0 || strcmp(path, "/dev/stdin") == 0);
}

/* Returns whether a prompt, file or image is standard input. */
static bool reads_stdin(const struct run_cli *x) {
    const struct run_args *a = &x->r.a;
    bool yes = (a->prompt && strcmp(a->prompt, "-") == 0) || is_stdin(a->chat);
    for (int i = 0; i < a->file.n; i++) yes |= is_stdin(a->file.v[i]);
    for (int i = 0; i < a->image.n; i++) yes |= is_stdin(a->image.v[i]);
    for (int i = 1; i < x->c->n_args; i++) yes |= strcmp(x->c->arg[i], "-") == 0;
    return yes;
}

/* Reads the prompt from standard input. ERR_USAGE: it is a terminal or empty. */
static int read_stdin(struct run_cli *x, struct buf *text, struct err *e) {
    const bool can = x->c->out == stdout && !os_is_tty(stdin) && !reads_stdin(x);
    if (can) TRY(add_file(text, "-", e));
    return is_blank(text) ? no_prompt(can, e) : 0;
}

/* Prints a note if standard input is a pipe or file with text that will not be read. */
static void say_unread(const struct run_cli *x) {
    if (x->c->out == stdout && !reads_stdin(x) && os_stdin_waits())
        log_info("standard input is not read because a prompt was given; --file - puts it before "
                 "the prompt");
}

/* Answers the prompt, or starts a chat without one. */
static int run_prompt(struct run_cli *x, struct err *e) {
    struct buf text = {0};
    bool any = false;
    struct run *r = &x->r;
    const bool people = x->c->form == EMIT_TABLE && x->c->out == stdout;
    const bool hand = people && os_is_tty(stdin);
    const bool has_template = gguf_str_or(r->m->gguf, "tokenizer.chat_template", NULL) != NULL;
    int rc = r->a.system ? text_check(r->a.system, strlen(r->a.system), "--system", e) : 0;
    if (!rc) rc = gather(x, &text, &any, e);
    if (!rc && !any && !r->a.chat && !hand) {
        rc = read_stdin(x, &text, e);
        any = true;
    }
    if (!rc && (any || r->a.chat)) say_unread(x);
    const bool raw = x->r.a.prompt || (any && !r->a.chat && !has_template);
    if (!rc && any && !x->r.a.prompt && is_blank(&text) && !r->a.image.n)
        rc = err_set(e, ERR_USAGE, "the prompt is empty");
    if (!rc && raw && x->r.a.image.n)
        rc = err_set(e, ERR_USAGE, "--image: images need a model with a chat template");
    if (!rc && raw && !x->r.a.prompt)
        log_info("this model has no chat template: the text is continued without one");
    if (!rc && !raw) rc = run_prepare_turns(r, e);
    while (!rc && !raw && text.len && strchr("\r\n", text.data[text.len - 1]))
        text.data[--text.len] = 0;
    show_on(x, people ? x->c->out : NULL);
    if (!rc) {
        const bool talks = !any && hand && (!r->a.chat || os_is_tty(stdout));
        rc = talks ? run_chat(x, e)
                   : run_one(x, any ? (text.data ? text.data : "") : NULL, text.len, e);
    }
    buf_release(&text);
    return rc;
}

/* Opens the model, answers and closes it. */
static int run_model(struct run_cli *x, struct err *e) {
    /* Opens the file first: if it is missing, other errors do not matter. */
    int rc = run_open(&x->r, x->c->arg[0], e);
    if (!rc) rc = check_args(x, e);
    if (!rc) rc = run_prompt(x, e);
    run_close(&x->r);
    return rc;
}

static const struct cmd_spec run_spec = {
    .name = "run",
    .synopsis = "MODEL.gguf [PROMPT | -p TEXT | --chat FILE.json] [--system TEXT] [-n N] "
                "[--temp T] [--seed N]",
    .about = "Answers PROMPT, or standard input, with the model's own chat template; -p "
             "continues a text as\n"
             "it is. On a terminal and without a prompt it starts a conversation; /help "
             "lists its commands.",
    .opts = run_options,
    .min_args = 1,
    .max_args = -1,
};

int cmd_run(struct cli *c, int argc, char **argv, struct err *e) {
    struct run_cli x = {.c = c, .r = {.w = &c->work, .a = {.kv_type = KV_USUAL, .act = ACT_FAST}}};
    TRY(cli_parse(c, &run_spec, &x.r.a, argc, argv, e));
    return c->done ? 0 : run_model(&x, e);
}
