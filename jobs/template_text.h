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

#include "commands/members.h"
struct render_opts {
    const char *src; /* GGUF file, folder, or .jinja file */
    bool table;      /* a text is wanted, not a description */
    bool color;      /* marks are colours of a terminal */
#include "commands/template_render.def"
};
/* Renders into `out`; or describes the prompt with its spans in m, and leaves `out` empty. */
int template_render(const struct render_opts *o, struct buf *out, struct emit *m, struct err *e);
/* Evaluates the small templates of a file: {id: text or {error, kind}} goes to `out`. */
int template_eval(const char *batch, const char *mode, struct buf *out, struct err *e);
/* Writes the unified difference of two templates to `out`. Returns ERR_VERDICT when they differ. */
int template_diff(const char *a, const char *b, struct buf *out, struct err *e);

#include "commands/members.h"
struct parse_opts {
    const char *src; /* whose template says the syntax of calls, where `format` does not */
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
/* Reads an assistant's text from standard input; what it says goes to `out` as JSON. */
int template_parse(const struct parse_opts *o, struct buf *out, struct err *e);

/* Renders a case together with the origin of every byte (template_spans.c). With `table` a text
 * with marks goes to `out`, without it a description goes to m. */
int template_spans(const struct jinja *t, const struct chat_case *k, bool table, bool color,
                   struct buf *out, struct emit *m, struct err *e);

#endif
