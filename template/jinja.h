// SPDX-License-Identifier: MIT
/* template/jinja.h - the Jinja engine for chat templates: compile once, render many times.
 *
 * Follows jinja2 as transformers configures it (docs/design/jinja.md). Sandboxed: no
 * files, no network; steps, output, recursion and range() are limited. Variables come in as JSON.
 */
#ifndef HONE_TEMPLATE_JINJA_H
#define HONE_TEMPLATE_JINJA_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

struct jinja; /* a compiled template */
struct jinja_limits {
    uint64_t max_steps;  /* 0: 50 million */
    uint64_t max_output; /* bytes; 0: 64 MiB */
    int max_depth;       /* nested calls and expressions; 0: 200 */
    int64_t max_range;   /* 0: 100000 */
};
/* All renderings of a thread that runs under a cost budget (base/ctx.h) share the budget's steps.
 * Once these are used up, the next rendering fails with JF_LIMIT. */

/* Distinguishes the template's own refusals from other failures. */
enum jinja_fail { JF_NONE, JF_SYNTAX, JF_RUNTIME, JF_RAISED /* raise_exception() */, JF_LIMIT };
struct jinja_err {
    enum jinja_fail kind;
    int line, col; /* 1-based; 0: unknown */
    char type[32]; /* "syntax", "undefined", "raise", "security", "runtime", "limit", "TypeError",
                      ... */
    char msg[512];
};
/* Bytes of a rendering that were copied from an input, or written in place of its characters
 * (escapes). */
struct jinja_span {
    size_t start, end; /* bytes of the output */
    int origin;
};
struct jinja_origin {
    char *path;       /* "messages[0].content" */
    const char *kind; /* "user", "tool", "arguments", ... */
};
struct jinja_spans {
    struct jinja_span *v; /* ascending, not empty; bytes between spans are the template's own */
    int n;
    struct jinja_origin *origin;
    int n_origin;
};
void jinja_spans_free(struct jinja_spans *s);
/* Compiles a template, `len` bytes of src; free *out with jinja_free. `name` is used in messages.
 * ERR_DATA: syntax error, reported as "name:line:col: ...". */
int jinja_compile(struct jinja **out, const char *src, size_t len, const char *name,
                  struct jinja_err *je, struct err *e);
/* JINJA_LENIENT also accepts features that only other engines have: from_json, list append and pop,
 * assignment to dict keys. */
enum jinja_mode { JINJA_HF, JINJA_LENIENT };
/* Compiles a template. je may be NULL. name: the file's name in messages. */
int jinja_compile_mode(struct jinja **out, const char *src, size_t len, const char *name,
                       enum jinja_mode mode, struct jinja_err *je, struct err *e);
void jinja_free(struct jinja *t);
/* Renders a template and appends the result to out. vars is the JSON text of an object with the
 * template's globals. strftime_now uses now_unix (-1: the current time). lim and je may be NULL. */
int jinja_render_text(const struct jinja *t, const char *vars, size_t len, int64_t now_unix,
                      const struct jinja_limits *lim, struct buf *out, struct jinja_err *je,
                      struct err *e);

#endif
