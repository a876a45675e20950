// SPDX-License-Identifier: MIT
/* serve/guard.h - answers that must have a form: JSON, a schema, a regular expression, a grammar,
 * one of some texts, a call. The language is compiled when the request comes (gram/gram.h),
 * kept for requests that ask for the same, and decides from the end of the thinking on which tokens
 * may come. */
#ifndef HONE_SERVE_GUARD_H
#define HONE_SERVE_GUARD_H

#include "serve/ask.h"
#include "serve/task.h"

struct guards; /* of a server: its vocabulary, compiled languages */
/* Borrowed both; f: how calls are written. */
struct guards *guards_new(const struct tok *t, const struct toolfmt *f);
/* All answers must have ended. */
void guards_free(struct guards *g);
/* What a->form asks for, for n runs: guard[0..n); zeros when it asks for nothing. calls: or a call
 * of a->tools instead, and nothing but a call when a->must_call. chat: white space may come in
 * front of it, as templates put it behind the thinking. Clauses that a language cannot express and
 * need not be kept are noted in a->warned. Of one thread at a time. */
int guards_make(struct guards *g, struct ask *a, bool chat, bool calls, struct guard *guard, int n,
                struct fault *f);

#endif
