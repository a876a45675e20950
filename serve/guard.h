// SPDX-License-Identifier: MIT
/* serve/guard.h - answers that must have a form: JSON, a schema, a regular expression, a grammar,
 * one of some texts, a call. The language is compiled when the request comes (gram/gram.h),
 * kept for requests that ask for the same, and decides from the end of the thinking on which tokens
 * may come (runtime/generate/constrain.h). */
#ifndef HONE_SERVE_GUARD_H
#define HONE_SERVE_GUARD_H

#include "serve/ask.h"
#include "serve/task.h"

struct guards; /* of a server: its vocabulary, compiled languages */
/* Borrowed both; f: how calls are written. */
struct guards *guards_new(const struct tok *t, const struct toolfmt *f);
/* All answers must have ended. */
void guards_free(struct guards *g);
/* What holds n answers to what a->form asks for, guard[0..n); zeros when it asks for nothing.
 * calls: or a call of a->tools instead, and nothing but a call when a->must_call. fmt: how
 * reasoning is written, which think says whether the prompt has begun, NULL: there is none; white
 * space may then come in front of the text, as templates put it there. Clauses that a language
 * cannot express and need not be kept are noted in a->warned. Of one thread at a time. */
int guards_make(struct guards *g, struct ask *a, const struct toolfmt *fmt, enum tool_think think,
                bool calls, struct guard *guard, int n, struct fault *f);

#endif
