// SPDX-License-Identifier: MIT
/* serve/constraint.h - constraints on answers: JSON, a schema, a regular expression, a grammar, a
 * choice of texts, or tool calls.
 *
 * The grammar is compiled when the request arrives (grammar/gram.h), and cached for requests that
 * need the same one. Once thinking has ended, it decides which tokens are allowed
 * (runtime/generate/constrain.h). */
#ifndef HONE_SERVE_CONSTRAINT_H
#define HONE_SERVE_CONSTRAINT_H

#include "serve/ask.h"
#include "serve/task.h"

enum { GUARDS_LATER = -1 };
struct guards; /* a server's vocabulary and compiled grammars */
enum guards_mode {
    GUARDS_AUTO,
    GUARDS_STRICT, /* reject what a grammar cannot express, even if the request is not strict */
    GUARDS_OFF     /* never constrain the model */
};
/* Creates the guards of a server. t and f, the syntax of calls, are borrowed. open: objects may
 * have members that their schemas do not list (gram_opts.open). */
struct guards *guards_new(const struct tok *t, const struct toolfmt *f, enum guards_mode mode,
                          bool open);
/* Frees the guards; all answers must have ended. */
void guards_free(struct guards *g);
/* Creates the constraints for n answers to a, guard[0..n), which are freed by guard_release(); all
 * zeros if nothing is constrained. If there are tools, only these can be called, with arguments
 * that match their schemas. If calls are not allowed, the answer cannot contain a call marker.
 *
 * fmt: format of reasoning and calls; NULL: the model has neither. think: whether the prompt has
 * opened reasoning. opened: the call marker at the end of the prompt, or NULL. Whitespace may
 * precede the text, because templates put some there.
 *
 * Optional clauses that a grammar cannot express are reported in a->warned, and so are tools that
 * no grammar constrains. Without `now` nothing is compiled: if that would be needed, returns
 * GUARDS_LATER and changes nothing. Compiling stops early at the thread's cost limit (base/ctx.h).
 * Thread-safe. Returns 0, or the status of an error with *f filled in. */
int guards_make(struct guards *g, struct ask *a, const struct toolfmt *fmt, enum tool_think think,
                const char *opened, bool now, struct constraint *guard, int n, struct fault *f);

#endif
