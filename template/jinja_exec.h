// SPDX-License-Identifier: MIT
/* template/jinja_exec.h - the evaluator's interface between expressions and statements. */
#ifndef HONE_TEMPLATE_JINJA_EXEC_H
#define HONE_TEMPLATE_JINJA_EXEC_H

#include "template/jinja_int.h"
#include "template/jinja_trace.h"

struct jval jeval(struct jctx *c, const struct jnode *n);
/* Evaluates a call. extra is an additional keyword argument (the caller of a call block); NULL:
 * none. */
struct jval jeval_call_node(struct jctx *c, const struct jnode *n, const struct jkw *extra);
struct jval jeval_filter_chain(struct jctx *c, const struct jnode *n, const struct jnode *input,
                               struct jval text);
void jexec(struct jctx *c, const struct jnode *body); /* a list of statements */
/* Runs the recursive loop one level deeper; returns its output. */
struct jval jexec_loop_again(struct jctx *c, struct jloop *l, struct jval over);
/* Returns the variable `slot` of the activation `hops` levels further out. */
struct jval *jx_slot(struct jctx *c, int hops, int slot);
/* Returns a new activation with n_slots unset variables. */
struct jact *jx_act(struct jctx *c, struct jact *outer, int n_slots);
void jx_enter(struct jctx *c, const struct jscope *s); /* fills the slots of a scope */

#endif
