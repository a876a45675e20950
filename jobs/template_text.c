// SPDX-License-Identifier: MIT
/* jobs/template_text.c - hone template show, render, eval, diff and parse. Texts and batch results
 * are printed raw; only descriptions use base/emit.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/template_text.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"
#include "template/chat.h"
#include "template/chat_batch.h"
#include "template/chat_src.h"
#include "template/chat_vars.h"
#include "template/fix_diff.h"
#include "chat/think.h"
#include "chat/toolfmt.h"

#define MAX_INPUT ((uint64_t)256 << 20)

int template_mode(const char *text, enum jinja_mode *mode, struct err *e) {
    *mode = JINJA_HF;
    if (!text || strcmp(text, "hf") == 0) return 0;
    *mode = JINJA_LENIENT;
    if (strcmp(text, "lenient") == 0) return 0;
    return err_set(e, ERR_USAGE, "--mode: '%s' is not one of hf, lenient", text);
}

/* ---- show ------------------------------------------------------------------------------------ */

/* Returns the mode that compiles the template: "hf", "lenient" or "none". */
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

/* ---- render ---------------------------------------------------------------------------------- */

/* Appends a newline if the text does not end with one. */
static void end_line(struct buf *b) {
    if (!b->len || b->data[b->len - 1] != '\n') buf_chr(b, '\n');
}

static void emit_template(const struct chat_src *s, struct emit *m) {
    struct sha256 h;
    struct jinja_err je = {0};
    char hex[65];
    int64_t lines = 0;
    sha256_init(&h);
    sha256_add(&h, s->text, s->len);
    sha256_hex(&h, hex);
    for (size_t i = 0; i < s->len; i++) lines += s->text[i] == '\n';
    emit_str(m, "source", "source", s->label);
    emit_i64(m, "n_bytes", "bytes", (int64_t)s->len);
    emit_i64(m, "n_lines", "lines", lines);
    emit_str(m, "sha256", "sha256", hex);
    emit_str(m, "mode", "mode", needs(s, &je));
    if (je.kind != JF_NONE) emit_str(m, "error", "error", je.msg);
    emit_table(m, "templates", "templates");
    emit_col(m, "name", "name");
    for (int i = 0; i < s->n_names; i++) {
        emit_row(m);
        emit_cell_str(m, s->names[i]);
    }
}

int template_describe(const char *src, const char *name, struct emit *m, struct buf *text,
                      struct err *e) {
    struct chat_src s;
    TRY(chat_src_open(&s, src, name, e));
    emit_template(&s, m);
    if (text) buf_add(text, s.text, s.len);
    chat_src_close(&s);
    return 0;
}

static int read_doc(struct jdoc *d, const char *path, struct err *e) {
    char *text;
    size_t len;
    const bool in = strcmp(path, "-") == 0;
    TRY(io_read_file(&text, &len, path, MAX_INPUT, e));
    int rc = in && !len
                 ? err_set(e, ERR_DATA,
                           "standard input is empty: send it the conversation, or name a file with "
                           "--chat")
                 : jdoc_parse(d, text, len, in ? "standard input" : path, e);
    free(text);
    return rc;
}

/* Returns ERR_DATA, naming the file, unless the tools are a list of objects. */
static int check_tools(struct jval tools, const char *path, struct err *e) {
    bool ok = tools.tag == JT_LIST;
    for (uint32_t i = 0; ok && i < tools.u.list->n; i++) ok = tools.u.list->v[i].tag == JT_DICT;
    return ok ? 0
              : err_set(e, ERR_DATA,
                        "%s: neither a list of tools (objects) nor an object with \"tools\"", path);
}

/* Renders all units of a file; appends the results as JSON. */
static int run_batch(const struct chat_src *s, const char *path, enum jinja_mode mode,
                     struct buf *out, struct err *e) {
    char *text;
    size_t len;
    TRY(io_read_file(&text, &len, path, MAX_INPUT, e));
    int rc = chat_batch_render(s->text, s->len, s->label, mode, text, len, path, out, e);
    if (!rc) end_line(out);
    free(text);
    return rc;
}

/* Returns the special tokens of the source as an object in d's arena. */
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

/* Fills *k from the files that the options name; release d afterwards, even on error. */
static int make_case(const struct render_opts *a, const struct chat_src *s, struct docs *d,
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
        const struct jval request = chat_member(d->tools.root, "tools");
        k->tools = request.tag == JT_MISSING ? d->tools.root : request;
        if (request.tag != JT_NONE) TRY(check_tools(k->tools, a->tools, e));
    } else if (k->tools.tag != JT_MISSING && k->tools.tag != JT_NONE) {
        TRY(check_tools(k->tools, a->chat ? a->chat : "standard input", e));
    }
    if (a->kwargs) {
        TRY(jdoc_parse(&d->kwargs, a->kwargs, strlen(a->kwargs), "--kwargs", e));
        d->has_kwargs = true;
        if (d->kwargs.root.tag != JT_DICT)
            return err_set(e, ERR_USAGE, "--kwargs: expected a JSON object");
        k->kwargs = d->kwargs.root;
    }
    if (a->now && !chat_clock(a->now, &k->now))
        return err_set(e, ERR_USAGE, "--now: '%s' is not a time such as 2026-03-05T14:30:00",
                       a->now);
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

/* Renders a conversation, with spans if requested. */
static int run_render(const struct render_opts *a, const struct chat_src *s, enum jinja_mode mode,
                      struct buf *out, struct emit *m, struct err *e) {
    struct docs d = {0};
    struct chat_case k;
    struct jinja *t = NULL;
    int rc = make_case(a, s, &d, &k, e);
    if (!rc) rc = jinja_compile_mode(&t, s->text, s->len, s->label, mode, NULL, e);
    if (!rc && (a->spans || !a->table)) {
        rc = template_spans(t, &k, a->table, a->color, out, m, e);
    } else if (!rc) {
        rc = chat_case_render(t, &k, out, NULL, e);
    }
    jinja_free(t);
    docs_release(&d);
    return rc;
}

/* ---- eval, diff ------------------------------------------------------------------------------ */

int template_render(const struct render_opts *o, struct buf *out, struct emit *m, struct err *e) {
    enum jinja_mode mode;
    struct chat_src s;
    TRY(template_mode(o->mode, &mode, e));
    TRY(chat_src_open(&s, o->src, o->name, e));
    int rc = o->batch ? run_batch(&s, o->batch, mode, out, e) : run_render(o, &s, mode, out, m, e);
    chat_src_close(&s);
    return rc;
}

int template_eval(const char *batch, const char *mode_name, struct buf *out, struct err *e) {
    enum jinja_mode mode;
    char *text;
    size_t len;
    TRY(template_mode(mode_name, &mode, e));
    TRY(io_read_file(&text, &len, batch, MAX_INPUT, e));
    int rc = chat_batch_eval(text, len, batch, mode, out, e);
    if (!rc) end_line(out);
    free(text);
    return rc;
}

int template_diff(const char *path_a, const char *path_b, struct buf *out, struct err *e) {
    struct chat_src a, b;
    TRY(chat_src_open(&a, path_a, NULL, e));
    int rc = chat_src_open(&b, path_b, NULL, e);
    if (!rc) {
        if (text_diff(a.text, a.len, a.label, b.text, b.len, b.label, out))
            rc =
                err_set(e, ERR_VERDICT, "the chat templates of %s and %s differ", a.label, b.label);
        chat_src_close(&b);
    }
    chat_src_close(&a);
    return rc;
}

/* ---- parse ----------------------------------------------------------------------------------- */

/* Returns the call syntax with this name or, without a name, that of the template `src`; NULL:
 * error. */
static const struct toolfmt *choose_format(const char *name, const char *src, struct err *e) {
    const struct toolfmt *f = name ? toolfmt_find(name) : NULL;
    if (f) return f;
    if (name) {
        char list[900] = "";
        toolfmt_list(list, sizeof list);
        err_set(e, ERR_USAGE, "--format: '%s' is not one of %s", name, list);
        return NULL;
    }
    struct chat_src s;
    if (chat_src_open(&s, src, NULL, e)) return NULL;
    f = toolfmt_detect(s.text, s.len);
    chat_src_close(&s);
    if (!f)
        err_set(e, ERR_DATA,
                "%s: the template uses no known syntax of tool calls; name one with --format", src);
    return f;
}

/* Parses --think: open, none or auto. */
static int think_of(const char *name, enum tool_think *out, struct err *e) {
    *out = TOOL_THINK_UNKNOWN;
    if (!name || strcmp(name, "auto") == 0) return 0;
    if (strcmp(name, "open") != 0 && strcmp(name, "none") != 0)
        return err_set(e, ERR_USAGE, "--think: '%s' is not one of open, none, auto", name);
    *out = strcmp(name, "open") == 0 ? TOOL_THINK_OPEN : TOOL_THINK_NONE;
    return 0;
}

/* Returns the call marker at the end of the source's prompts; NULL: none. */
static const char *opened_by(const struct toolfmt *f, const char *path) {
    const char *opened = NULL;
    struct chat_src s;
    struct chat *c;
    struct err ignored;
    if (chat_src_open(&s, path, NULL, &ignored)) return NULL;
    if (!chat_new(&c, s.text, s.label, s.special[0], s.special[1], &ignored)) {
        struct buf prompt = {0};
        if (think_sample(c, &prompt)) opened = toolfmt_opened(f, prompt.data);
        buf_release(&prompt);
        chat_free(c);
    }
    chat_src_close(&s);
    return opened;
}

/* Reads a list of tools, or that of an object with "tools", and writes it as JSON. */
static int read_tools(const char *path, struct buf *out, struct err *e) {
    char *text;
    size_t len;
    struct json *j = NULL;
    TRY(io_read_file(&text, &len, path, MAX_INPUT, e));
    int rc = json_parse(&j, text, len, path, e);
    const struct json *tools = json_type(j) == JSON_OBJ ? json_get(j, "tools") : j;
    if (!rc && json_type(tools) != JSON_ARR)
        rc = err_set(e, ERR_DATA,
                     "%s: neither a list of tools (objects) nor an object with \"tools\"", path);
    if (!rc) json_write(out, tools);
    json_free(j);
    free(text);
    return rc;
}

int template_parse(const struct parse_opts *o, struct buf *out, struct err *e) {
    enum tool_think think;
    struct buf tools = {0};
    char *text;
    size_t len;
    struct toolparse *p = NULL;
    TRY(think_of(o->think, &think, e));
    const struct toolfmt *f = choose_format(o->format, o->src, e);
    if (!f) return (int)e->code;
    if (o->tools) TRY(read_tools(o->tools, &tools, e));
    int rc = toolparse_new(&p, f, tools.data, tools.len, think, e);
    if (!rc) rc = io_read_file(&text, &len, "-", MAX_INPUT, e);
    if (!rc) {
        const char *opened = o->src ? opened_by(f, o->src) : NULL;
        if (opened) toolparse_opened(p, opened);
        if (!o->strict_calls) toolparse_allow_loose(p);
        toolparse_feed(p, text, len);
        free(text);
        json_write_spaced(out, toolparse_finish(p));
    }
    if (!rc) end_line(out);
    toolparse_free(p);
    buf_release(&tools);
    return rc;
}
