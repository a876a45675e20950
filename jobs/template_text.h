// SPDX-License-Identifier: MIT
/* jobs/template_text.h - the chat template of a source, and what it makes of conversations, as
 * texts. */
#ifndef HONE_JOBS_TEMPLATE_TEXT_H
#define HONE_JOBS_TEMPLATE_TEXT_H

#include <stdbool.h>

#include "base/buf.h"
#include "work/work.h"
#include "template/chat_src.h"
#include "template/chat_vars.h"

/* Finds a mode by its name, "hf" or "lenient"; NULL: hf. Returns ERR_USAGE, naming --mode. */
int template_mode(const char *text, enum jinja_mode *mode, struct err *e);
/* Fills m with what a template is: its size, its hash, the mode it needs, its other names. name:
 * which one, when there are several; or NULL. text: NULL, or gets the template itself. */
int template_describe(const char *src, const char *name, struct emit *m, struct buf *text,
                      struct err *e);

struct render_opts {
    const char *src;     /* GGUF file, folder, or .jinja file */
    const char *name;    /* which template, when there are several; or NULL */
    const char *batch;   /* scenarios, instead of all that follows; or NULL */
    const char *chat;    /* conversation; NULL: standard input */
    const char *tools;   /* file with a JSON list; or NULL */
    const char *kwargs;  /* JSON object of more variables; or NULL */
    const char *context; /* variables as "hf" or "llamacpp" passes them; NULL: hf */
    const char *mode;    /* as in template_mode */
    const char *now;     /* the clock that the template sees, 2026-03-05T14:30:00; or NULL */
    const char *args;    /* arguments given as text: "auto" or "as-is"; NULL: auto */
    bool no_gen;         /* end after the last message */
    bool spans;          /* mark what came from the conversation */
    bool table;          /* a text is wanted, not a description */
    bool color;          /* marks are colours of a terminal */
};
/* Renders into `out`; or describes the prompt with its spans in m, and leaves `out` empty. */
int template_render(const struct render_opts *o, struct buf *out, struct emit *m, struct err *e);
/* Evaluates the small templates of a file: {id: text or {error, kind}} goes to `out`. */
int template_eval(const char *batch, const char *mode, struct buf *out, struct err *e);
/* Writes the unified difference of two templates to `out`. Returns ERR_VERDICT when they differ. */
int template_diff(const char *a, const char *b, struct buf *out, struct err *e);

struct parse_opts {
    const char *src;    /* whose template says the syntax of calls, where `format` does not */
    const char *format; /* name of a syntax; or NULL */
    const char *tools;  /* file with a JSON list: types of parameters; or NULL */
    const char *think;  /* "open", "none", "auto"; NULL: auto */
    bool strict_calls;  /* bare JSON is no call */
};
/* Reads an assistant's text from standard input; what it says goes to `out` as JSON. */
int template_parse(const struct parse_opts *o, struct buf *out, struct err *e);

/* Renders a case together with the origin of every byte (template_spans.c). With `table` a text
 * with marks goes to `out`, without it a description goes to m. */
int template_spans(const struct jinja *t, const struct chat_case *k, bool table, bool color,
                   struct buf *out, struct emit *m, struct err *e);

#endif
