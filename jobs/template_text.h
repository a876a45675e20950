// SPDX-License-Identifier: MIT
/* jobs/template_text.h - hone template show, render, eval, diff and parse. */
#ifndef HONE_JOBS_TEMPLATE_TEXT_H
#define HONE_JOBS_TEMPLATE_TEXT_H

#include <stdbool.h>

#include "base/buf.h"
#include "work/work.h"
#include "template/chat_src.h"
#include "template/chat_vars.h"

/* Parses a mode, "hf" or "lenient"; NULL: hf. ERR_USAGE for other names. */
int template_mode(const char *text, enum jinja_mode *mode, struct err *e);
/* Fills m with a template's size, hash, required mode and other names. name: the template to use,
 * or NULL. text: receives the template, or NULL. */
int template_describe(const char *src, const char *name, struct emit *m, struct buf *text,
                      struct err *e);

#include "commands/members.h"
struct render_opts {
    const char *src; /* GGUF file, folder, or .jinja file */
    bool table;      /* output text, not a description */
    bool color;      /* mark spans with terminal colours */
#include "commands/template_render.def"
};
/* Renders to `out`, or describes the prompt and its spans in m and leaves `out` empty. */
int template_render(const struct render_opts *o, struct buf *out, struct emit *m, struct err *e);
/* Evaluates the small templates of a file. Appends {id: text or {error, kind}} to `out`. */
int template_eval(const char *batch, const char *mode, struct buf *out, struct err *e);
/* Appends the unified diff of two templates to `out`. Returns ERR_VERDICT if they differ. */
int template_diff(const char *a, const char *b, struct buf *out, struct err *e);

#include "commands/members.h"
struct parse_opts {
    const char *src; /* its template gives the syntax of calls, unless `format` does */
#include "commands/template_parse.def"
};
#include "commands/members.h"
struct template_show_opts {
#include "commands/template_show.def"
};
#include "commands/members.h"
struct template_eval_opts {
#include "commands/template_eval.def"
};
/* Parses an assistant's text on standard input. Appends the result to `out` as JSON. */
int template_parse(const struct parse_opts *o, struct buf *out, struct err *e);

/* Renders a case with the origin of every byte (template_spans.c): as marked text to `out` (table),
 * otherwise as a description to m. */
int template_spans(const struct jinja *t, const struct chat_case *k, bool table, bool color,
                   struct buf *out, struct emit *m, struct err *e);

#endif
