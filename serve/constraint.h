// SPDX-License-Identifier: MIT
/* serve/constraint.h - answers that must have a form: JSON, a schema, a regular expression, a
 * grammar, one of some texts, a call. The language is compiled when the request comes
 * (grammar/gram.h), kept for requests that ask for the same, and decides from the end of the
 * thinking on which tokens may come (runtime/generate/constrain.h). */
#ifndef HONE_SERVE_CONSTRAINT_H
#define HONE_SERVE_CONSTRAINT_H

#include "serve/ask.h"
#include "serve/task.h"

enum { GUARDS_LATER = -1 };
struct guards; /* of a server: its vocabulary, compiled languages */
enum guards_mode {
    GUARDS_AUTO,
    GUARDS_STRICT, /* what a language cannot express is refused, also where nobody asks for it */
    GUARDS_OFF     /* nothing is held to anything: the bare model */
};
/* Makes the guards of a server; both t and f, which says how calls are written, are borrowed.
 * open: objects may have members that their schemas do not name (gram_opts.open). */
struct guards *guards_new(const struct tok *t, const struct toolfmt *f, enum guards_mode mode,
                          bool open);
/* Frees them; all answers must have ended. */
void guards_free(struct guards *g);
/* Makes what holds n answers to what a->form asks for, guard[0..n), which guard_release frees;
 * zeros when it asks for nothing. Where tools are offered calls are of them, with arguments that
 * their schemas allow; where they may not be called the answer has no marker of a call. fmt is
 * the format of reasoning and calls, think tells whether the prompt has begun reasoning, and opened
 * is the call marker that the prompt ends with, or NULL; whitespace may precede the text, as
 * templates put it there. Clauses that a language
 * cannot express and need not be kept are noted in a->warned, and so are tools that are left free
 * since no language holds them. Without `now` nothing is compiled: returns GUARDS_LATER when that
 * is needed, with nothing changed. Compiling ends early under the cost of the thread (base/ctx.h).
 * May be called by several threads. Returns the status of an error with *f filled in, or 0. fmt
 * NULL means that there are neither reasoning nor calls. */
int guards_make(struct guards *g, struct ask *a, const struct toolfmt *fmt, enum tool_think think,
                const char *opened, bool now, struct constraint *guard, int n, struct fault *f);

#endif
