// SPDX-License-Identifier: MIT
/* template/jinja_exec.c - execution of statements: output, if, for, set, macro, call and other
 * blocks. */
#include "template/jinja_exec.h"

#include <string.h>

enum { BRK_BREAK = 1, BRK_CONTINUE = 2 };

struct jact *jx_act(struct jctx *c, struct jact *outer, int n_slots) {
    struct jact *a = jx_alloc(c, 1, sizeof *a);
    a->outer = outer;
    /* zeroed memory: JT_MISSING */
    a->slot = jx_alloc(c, (size_t)n_slots + 1, sizeof *a->slot);
    return a;
}

/* Loads the variables of scope s into the current activation record, following the scope's rows. */
void jx_enter(struct jctx *c, const struct jscope *s) {
    jx_loop(c, (size_t)s->n_load);
    for (int i = 0; i < s->n_load; i++) {
        const struct jload *l = &s->load[i];
        struct jval v = jv_missing();
        if (l->kind == JL_RESOLVE) v = c->globals[l->src];
        if (l->kind == JL_ALIAS) v = *jx_slot(c, l->hops, l->src);
        c->act->slot[l->slot] = v;
    }
}

static void assign_target(struct jctx *c, const struct jnode *to, struct jval v);

/* Assigns the items of v to the targets of a tuple; fails if the numbers differ. */
static void unpack_tuple(struct jctx *c, const struct jnode *to, struct jval v) {
    struct jiter it;
    if (jv_length(c, v) < 0 && v.tag != JT_GEN)
        jx_fail(c, "TypeError", "cannot unpack non-iterable %s object", jv_type(v));
    jiter_init(c, &it, v);
    struct jlist *l = jv_to_list(c, v);
    if (l->n < (uint32_t)to->n)
        jx_fail(c, "ValueError", "not enough values to unpack (expected %d, got %u)", to->n,
                (unsigned)l->n);
    if (l->n > (uint32_t)to->n)
        jx_fail(c, "ValueError", "too many values to unpack (expected %d)", to->n);
    uint32_t i = 0;
    for (const struct jnode *k = to->list; k; k = k->next) assign_target(c, k, l->v[i++]);
}

/* Assigns v to a name, a tuple of targets, or an attribute of a namespace. */
static void assign_target(struct jctx *c, const struct jnode *to, struct jval v) {
    if (to->kind == JN_NAME) {
        *jx_slot(c, to->hops, to->slot) = v;
    } else if (to->kind == JN_TUPLE) {
        unpack_tuple(c, to, v);
    } else { /* ns.attr; ns was checked to be a namespace before the value was computed. */
        struct jval ns = to->hops < 0 ? c->globals[to->slot] : *jx_slot(c, to->hops, to->slot);
        if (ns.tag == JT_NS) jdict_set(c, &ns.u.ns->d, to->a->val, v);
        if (ns.tag == JT_DICT) jdict_set(c, ns.u.dict, to->a->val, v);
    }
}

/* Fails if an attribute target in `to` does not belong to a namespace. */
static void check_namespaces(struct jctx *c, const struct jnode *to) {
    if (to->kind == JN_TUPLE)
        for (const struct jnode *k = to->list; k; k = k->next) check_namespaces(c, k);
    if (to->kind != JN_NSREF) return;
    struct jval ns = to->hops < 0 ? c->globals[to->slot] : *jx_slot(c, to->hops, to->slot);
    if (ns.tag == JT_NS || (ns.tag == JT_DICT && c->t->lenient)) return;
    c->pos = to->pos;
    jx_fail(c, "runtime", "cannot assign attribute on non-namespace object");
}

/* ---- loops ----------------------------------------------------------------------------------- */

/* Finds the next item that passes the filter. False: there are no more. */
static bool source_next(struct jctx *c, struct jloop *l, struct jval *out) {
    const struct jnode *n = l->node;
    while (jiter_next(c, &l->it, out)) {
        jx_step(c);
        if (!n->c) return true;
        jx_enter(c, n->scope3);
        assign_target(c, n->c->a, *out);
        if (jv_truth(c, jeval(c, n->c->b))) return true;
    }
    return false;
}

/* Returns whether the loop has another item, which it reads ahead into l->next. */
static bool loop_peek(struct jctx *c, struct jloop *l) {
    if (l->has_next || l->at_end) return l->has_next;
    struct jact *act = c->act;
    c->act = l->act;
    l->has_next = source_next(c, l, &l->next);
    c->act = act;
    l->at_end = !l->has_next;
    return l->has_next;
}

/* Moves on to the next item. False: the loop is over. */
static bool loop_next(struct jctx *c, struct jloop *l) {
    struct jval v;
    if (l->has_next) {
        v = l->next;
        l->has_next = false;
    } else if (l->at_end || !source_next(c, l, &v)) {
        l->at_end = true;
        return false;
    }
    l->prev = l->cur;
    l->cur = v;
    l->index0++;
    return true;
}

/* Returns the number of items; reads a generator or a filtered loop to its end. */
static int64_t loop_length(struct jctx *c, struct jloop *l) {
    if (l->length >= 0) return l->length;
    struct jlist rest = {0};
    struct jval v;
    if (l->has_next) jlist_add(c, &rest, l->next);
    struct jact *act = c->act;
    c->act = l->act;
    while (!l->at_end && source_next(c, l, &v)) jlist_add(c, &rest, v);
    c->act = act;
    /* The rest is already filtered; the loop continues over this list without a filter. */
    l->length = l->index0 + 1 + rest.n;
    struct jnode *plain = jx_alloc(c, 1, sizeof *plain);
    *plain = *l->node;
    plain->c = NULL;
    l->node = plain;
    struct jlist *kept = jx_alloc(c, 1, sizeof *kept);
    *kept = rest;
    jiter_init(c, &l->it, jv_list_val(kept));
    l->has_next = false;
    l->at_end = false;
    return l->length;
}

/* Implements loop.cycle(...). */
static struct jval loop_cycle(struct jctx *c, struct jargs *a) {
    struct jloop *l = a->v[0].u.loop;
    if (a->n < 2) jx_fail(c, "TypeError", "no items for cycling given");
    return a->v[1 + l->index0 % (a->n - 1)];
}

/* Implements loop.changed(...). */
static struct jval loop_changed(struct jctx *c, struct jargs *a) {
    struct jloop *l = a->v[0].u.loop;
    struct jval now = jv_tuple(c, a->v + 1, (uint32_t)a->n - 1);
    bool same = l->last_changed.tag != JT_MISSING && jv_equal(c, l->last_changed, now);
    l->last_changed = now;
    return jv_bool(!same);
}

static const struct jrow loop_methods[] = {{"cycle", "*", NULL, loop_cycle},
                                           {"changed", "*", NULL, loop_changed}};

struct jval jeval_loop_attr(struct jctx *c, struct jloop *l, struct jval name) {
    if (jv_is(name, "index")) return jv_int(l->index0 + 1);
    if (jv_is(name, "index0")) return jv_int(l->index0);
    if (jv_is(name, "first")) return jv_bool(l->index0 == 0);
    if (jv_is(name, "last")) return jv_bool(!loop_peek(c, l));
    if (jv_is(name, "length")) return jv_int(loop_length(c, l));
    if (jv_is(name, "revindex")) return jv_int(loop_length(c, l) - l->index0);
    if (jv_is(name, "revindex0")) return jv_int(loop_length(c, l) - l->index0 - 1);
    if (jv_is(name, "depth")) return jv_int(l->depth0 + 1);
    if (jv_is(name, "depth0")) return jv_int(l->depth0);
    if (jv_is(name, "previtem"))
        return l->index0 == 0 ? jv_undef_hint(c, "there is no previous item", name, false)
                              : l->prev;
    if (jv_is(name, "nextitem"))
        return loop_peek(c, l) ? l->next : jv_undef_hint(c, "there is no next item", name, false);
    for (size_t i = 0; i < COUNT_OF(loop_methods); i++) {
        if (!jv_is(name, loop_methods[i].name)) continue;
        struct jval v = jv_tag(JT_FUNC);
        v.u.func = jx_alloc(c, 1, sizeof *v.u.func);
        v.u.func->row = &loop_methods[i];
        v.u.func->self.tag = JT_LOOP;
        v.u.func->self.u.loop = l;
        return v;
    }
    return jv_missing();
}

/* Runs a for statement over `over`; depth0: recursion depth, from 0. */
static void run_loop(struct jctx *c, const struct jnode *n, struct jval over, int depth0) {
    struct jloop *l = jx_alloc(c, 1, sizeof *l);
    bool any = false;
    l->node = n;
    l->act = c->act;
    l->depth0 = depth0;
    l->index0 = -1;
    l->length = n->c ? -1 : jv_length(c, over);
    jiter_init(c, &l->it, over);
    struct jval self = jv_tag(JT_LOOP);
    self.u.loop = l;
    while (loop_next(c, l)) {
        jx_step(c);
        any = true;
        c->act->slot[n->scope->loop_slot] = self;
        c->pos = n->pos;
        assign_target(c, n->a, l->cur);
        jx_enter(c, n->scope);
        jexec(c, n->list);
        if (c->brk == BRK_BREAK) {
            c->brk = 0;
            break;
        }
        c->brk = 0;
    }
    if (!any && n->list2) {
        jx_enter(c, n->scope2);
        jexec(c, n->list2);
    }
}

/* Runs a recursive loop, whose body is a separate function. */
static void run_recursive(struct jctx *c, const struct jnode *n, struct jact *outer,
                          struct jval over, int depth0) {
    struct jact *act = c->act;
    if (++c->depth > c->max_depth) jx_fail(c, "RecursionError", "recursion");
    c->act = jx_act(c, outer, n->scope->n_slots);
    run_loop(c, n, over, depth0);
    c->act = act;
    c->depth--;
}

struct jval jexec_loop_again(struct jctx *c, struct jloop *l, struct jval over) {
    size_t m = jx_mark(c);
    int brk = c->brk;
    run_recursive(c, l->node, l->act->outer, over, l->depth0 + 1);
    c->brk = brk;
    return jx_take(c, m);
}

/* ---- statements ------------------------------------------------------------------------------ */

/* Prints the value of an expression, escaped if autoescape is on. */
static void exec_print(struct jctx *c, const struct jnode *n) {
    struct jval v = jeval(c, n->a);
    if (c->autoescape && v.tag != JT_UNDEF) v = ju_escape(c, v);
    jv_print(c, v);
}

/* Returns the macro n with the current activation as its environment. */
static struct jval make_macro(struct jctx *c, const struct jnode *n) {
    struct jval v = jv_tag(JT_MACRO);
    v.u.macro = jx_alloc(c, 1, sizeof *v.u.macro);
    v.u.macro->node = n;
    v.u.macro->outer = c->act;
    v.u.macro->name = n->val;
    return v;
}

/* Runs the body and assigns its output; a break in it skips the assignment. */
static void exec_set_block(struct jctx *c, const struct jnode *n) {
    size_t m = jx_mark(c);
    jx_enter(c, n->scope);
    jexec(c, n->list);
    if (c->brk) return; /* A break skips the assignment. */
    struct jval v = jx_take(c, m);
    if (c->autoescape) v.flag = JF_MARKUP;
    if (n->b) v = jeval_filter_chain(c, n->b, n->c, v);
    check_namespaces(c, n->a);
    assign_target(c, n->a, v);
}

/* Runs the body and prints its output through the filters. */
static void exec_filter_block(struct jctx *c, const struct jnode *n) {
    size_t m = jx_mark(c);
    jx_enter(c, n->scope);
    jexec(c, n->list);
    if (c->brk) return;
    jv_print(c, jeval_filter_chain(c, n->b, n->c, jx_take(c, m)));
}

/* Runs a with statement in a scope of its own. */
static void exec_with(struct jctx *c, const struct jnode *n) {
    jx_enter(c, n->scope);
    for (const struct jnode *k = n->list; k; k = k->next) assign_target(c, k->a, jeval(c, k->b));
    jexec(c, n->list2);
}

/* Calls the macro with the body as caller(). */
static void exec_call_block(struct jctx *c, const struct jnode *n) {
    struct jkw caller = {jv_str("caller"), make_macro(c, n)};
    jv_print(c, jeval_call_node(c, n->a, &caller));
}

/* Prints the body of a generation block. */
static void exec_generation(struct jctx *c, const struct jnode *n) {
    struct jargs none = {0};
    jv_print(c, jeval_call(c, make_macro(c, n), &none));
}

/* Runs a block in a new activation below the outermost one, as Jinja does. */
static void exec_block(struct jctx *c, const struct jnode *n) {
    struct jact *act = c->act, *root = act;
    while (root->outer) root = root->outer;
    c->act = jx_act(c, root, n->scope->n_slots);
    jx_enter(c, n->scope);
    jexec(c, n->list);
    c->act = act;
}

/* Runs the body with autoescape on or off. */
static void exec_autoescape(struct jctx *c, const struct jnode *n) {
    bool old = c->autoescape;
    c->autoescape = jv_truth(c, jeval(c, n->a));
    jexec(c, n->list);
    c->autoescape = old;
}

/* Assigns a value to the target. */
static void exec_set(struct jctx *c, const struct jnode *n) {
    check_namespaces(c, n->a);
    struct jval v = jeval(c, n->b);
    c->pos = n->pos;
    assign_target(c, n->a, v);
}

/* Runs the first branch whose condition is true. */
static void exec_if(struct jctx *c, const struct jnode *n) {
    for (;;) {
        if (jv_truth(c, jeval(c, n->a))) {
            jexec(c, n->list);
            return;
        }
        const struct jnode *rest = n->list2;
        if (!rest) return;
        if (rest->kind != JN_IF || !rest->flag) {
            jexec(c, rest);
            return;
        }
        n = rest; /* rest is an elif */
    }
}

/* Runs a loop, recursive or not. */
static void exec_for(struct jctx *c, const struct jnode *n) {
    struct jval over = jeval(c, n->b);
    c->pos = n->pos;
    if (n->flag) {
        run_recursive(c, n, c->act, over, 0);
    } else {
        run_loop(c, n, over, 0);
    }
}

/* Executes one node; sets c->brk for break and continue. */
static void exec_one(struct jctx *c, const struct jnode *n) {
    switch ((int)n->kind) {
    case JN_TEXT:
        jx_add(c, n->val.u.s, n->val.len);
        return;
    case JN_PRINT:
        exec_print(c, n);
        return;
    case JN_IF:
        exec_if(c, n);
        return;
    case JN_FOR:
        exec_for(c, n);
        return;
    case JN_SET:
        exec_set(c, n);
        return;
    case JN_SETBLOCK:
        exec_set_block(c, n);
        return;
    case JN_MACRO:
        *jx_slot(c, n->hops, n->slot) = make_macro(c, n);
        return;
    case JN_CALLBLOCK:
        exec_call_block(c, n);
        return;
    case JN_GENERATION:
        exec_generation(c, n);
        return;
    case JN_FILTERBLOCK:
        exec_filter_block(c, n);
        return;
    case JN_WITH:
        exec_with(c, n);
        return;
    case JN_BLOCK:
        exec_block(c, n);
        return;
    case JN_AUTOESCAPE:
        exec_autoescape(c, n);
        return;
    case JN_BREAK:
        c->brk = BRK_BREAK;
        return;
    case JN_CONTINUE:
        c->brk = BRK_CONTINUE;
        return;
    default:
        c->pos = n->pos;
        jx_fail(c, "TypeError", "no loader for this environment specified");
    }
}

void jexec(struct jctx *c, const struct jnode *n) {
    if (++c->nest > 2000) jx_fail(c, "RecursionError", "recursion");
    bool traced = c->span && c->span->trace;
    uint16_t node = traced ? c->span->node : 0;
    for (; n && !c->brk; n = n->next) {
        jx_step(c);
        if (traced) jtrace_at(c, n);
        exec_one(c, n);
    }
    if (traced) c->span->node = node;
    c->nest--;
}

void jeval_root(struct jctx *c) {
    c->act = jx_act(c, NULL, c->t->root->n_slots);
    jx_enter(c, c->t->root);
    jexec(c, c->t->body);
}
