// SPDX-License-Identifier: MIT
/* template/jinja_eval.c - evaluation of expressions: names, calls, filters, tests. */
#include "template/jinja_exec.h"
#include "template/jinja_lib.h"

#include <string.h>

struct jval *jx_slot(struct jctx *c, int hops, int slot) {
    struct jact *a = c->act;
    while (hops-- > 0) a = a->outer;
    return &a->slot[slot];
}

/* Returns a variable's value; an undefined value if it was never set. */
static struct jval eval_name(struct jctx *c, const struct jnode *n) {
    struct jval v = n->hops < 0 ? c->globals[n->slot] : *jx_slot(c, n->hops, n->slot);
    if (v.tag == JT_MISSING) {
        c->pos = n->pos;
        return jv_undef(c, jv_missing(), n->val);
    }
    return v;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* Calls with up to this many arguments use the caller's arrays instead of the arena. */
enum { SMALL = 8 };
struct arg_space {
    struct jval v[SMALL];
    struct jkw kw[SMALL];
};

/* Adds the arguments from *args and **kwargs to a. */
static void spread_args(struct jctx *c, const struct jnode *n, struct jargs *a) {
    struct jlist pos = {0};
    int n_kw = 0, cap_kw = SMALL;
    for (int i = 0; i < a->n; i++) jlist_add(c, &pos, a->v[i]);
    for (const struct jnode *k = n->list2; k; k = k->next) {
        struct jval v = jeval(c, k->a);
        if (k->kind == JN_STAR) {
            struct jlist *l = jv_to_list(c, v);
            for (uint32_t i = 0; i < l->n; i++) jlist_add(c, &pos, l->v[i]);
            continue;
        }
        if (k->kind == JN_STARSTAR && v.tag != JT_DICT)
            jx_fail(c, "TypeError", "argument after ** must be a mapping, not %s", jv_type(v));
        uint32_t count = k->kind == JN_STARSTAR ? v.u.dict->n : 1;
        for (uint32_t i = 0; i < count; i++) {
            struct jkw kw = {k->val, v};
            if (k->kind == JN_STARSTAR) {
                kw = (struct jkw){v.u.dict->e[i].k, v.u.dict->e[i].v};
                if (kw.name.tag != JT_STR) jx_fail(c, "TypeError", "keywords must be strings");
                jx_loop(c, (size_t)n_kw);
                for (int j = 0; j < n_kw; j++)
                    if (jv_eqs(a->kw[j].name, kw.name))
                        jx_fail(c, "TypeError", "got multiple values for keyword argument '%s'",
                                jv_cstr(c, kw.name));
            }
            if (n_kw == cap_kw) {
                struct jkw *p = jx_alloc(c, (size_t)cap_kw * 2, sizeof *p);
                memcpy(p, a->kw, (size_t)n_kw * sizeof *p);
                a->kw = p;
                cap_kw *= 2;
            }
            a->kw[n_kw++] = kw;
        }
    }
    a->v = pos.v;
    a->n = (int)pos.n;
    a->n_kw = n_kw;
}

/* Evaluates a call's arguments into *a. subject: `first` precedes them. */
static void eval_args(struct jctx *c, const struct jnode *n, bool subject, struct jval first,
                      struct arg_space *sp, struct jargs *a) {
    int count = n->n + subject;
    *a = (struct jargs){.v = sp->v, .kw = sp->kw};
    if (count > SMALL) a->v = jx_alloc(c, (size_t)count, sizeof *a->v);
    if (subject) a->v[a->n++] = first;
    for (const struct jnode *k = n->list; k; k = k->next) a->v[a->n++] = jeval(c, k);
    if (n->flag) spread_args(c, n, a);
}

NORETURN static void bad_args(struct jctx *c, const char *what, const struct jrow *row,
                              const char *why) {
    jx_fail(c, "TypeError", "%s '%s' %s", what, row->name, why);
}

/* Binds arguments by the row's signature and calls its function. a->v[0] is the subject of filters,
 * tests and methods, JT_MISSING for global functions. */
struct jval jeval_row(struct jctx *c, const struct jrow *row, const char *what, struct jargs *a) {
    jx_step(c);
    if (a->v[0].tag == JT_STR) jx_bytes(c, a->v[0].len); /* most rows scan the string once */
    if (row->any) return row->any(c, a);
    struct jval v[JMAX_PARAMS];
    int n = 1;
    v[0] = a->v[0];
    const char *sig = row->sig + (row->sig[0] == '!');
    for (const char *p = sig; *p; n++) {
        size_t len = strcspn(p, " ?");
        bool optional = p[len] == '?';
        v[n] = jv_missing();
        if (n < a->n) v[n] = a->v[n];
        for (int i = 0; i < a->n_kw; i++) {
            if (a->kw[i].name.len != len || memcmp(a->kw[i].name.u.s, p, len) != 0) continue;
            if (n < a->n) bad_args(c, what, row, "got multiple values for an argument");
            v[n] = a->kw[i].v;
        }
        if (v[n].tag == JT_MISSING && !optional)
            bad_args(c, what, row, "misses a required argument");
        p += len + optional;
        while (*p == ' ') p++;
    }
    if (a->n > n) bad_args(c, what, row, "got too many arguments");
    for (int i = 0; i < a->n_kw; i++) { /* Every keyword must name a parameter. */
        bool known = false;
        for (const char *p = sig; *p && !known;) {
            size_t len = strcspn(p, " ?");
            known = a->kw[i].name.len == len && memcmp(a->kw[i].name.u.s, p, len) == 0;
            p += len;
            while (*p == ' ' || *p == '?') p++;
        }
        if (!known) bad_args(c, what, row, "got an unexpected keyword argument");
    }
    return row->fn(c, v);
}

/* Takes the named keyword argument out of a. Returns whether it was there. */
static bool take_kw(struct jctx *c, struct jargs *a, struct jval name, struct jval *out) {
    jx_loop(c, (size_t)a->n_kw);
    for (int i = 0; i < a->n_kw; i++) {
        if (!jv_eqs(a->kw[i].name, name)) continue;
        *out = a->kw[i].v;
        for (; i + 1 < a->n_kw; i++) a->kw[i] = a->kw[i + 1];
        a->n_kw--;
        return true;
    }
    return false;
}

/* Returns the remaining keyword arguments as a dict. */
static struct jval rest_kwargs(struct jctx *c, struct jargs *a) {
    struct jval d = jv_dict(c, 0);
    for (int i = 0; i < a->n_kw; i++) jdict_set(c, d.u.dict, a->kw[i].name, a->kw[i].v);
    return d;
}

/* Binds arguments to the macro's parameters in act; fails on unknown or repeated ones. */
static void macro_args(struct jctx *c, const struct jmacro *m, struct jargs *a, struct jact *act) {
    const struct jscope *s = m->node->scope;
    int i = 0;
    bool caller_arg = false;
    for (const struct jnode *k = m->node->list; k; k = k->next, i++) {
        struct jval v = jv_missing();
        caller_arg = caller_arg || jv_is(k->val, "caller");
        if (i < a->n) {
            v = a->v[i];
        } else {
            take_kw(c, a, k->val, &v);
        }
        act->slot[s->arg_slot[i]] = v;
    }
    const char *name = m->name.tag == JT_STR ? jv_cstr(c, m->name) : "None";
    if (s->caller_slot >= 0) {
        struct jval v = jv_missing();
        if (!take_kw(c, a, jv_str("caller"), &v) || v.tag == JT_NONE)
            v = jv_undef_hint(c, "No caller defined", jv_str("caller"), false);
        act->slot[s->caller_slot] = v;
    }
    if (s->kwargs_slot >= 0) {
        act->slot[s->kwargs_slot] = rest_kwargs(c, a);
    } else if (a->n_kw) {
        jx_fail(c, "TypeError", "macro '%s' takes no keyword argument '%s'", name,
                jv_cstr(c, a->kw[0].name));
    }
    if (s->varargs_slot >= 0) {
        struct jval t = jv_list(c, 0);
        t.tag = JT_TUPLE;
        for (int k = s->n_args; k < a->n; k++) jlist_add(c, t.u.list, a->v[k]);
        act->slot[s->varargs_slot] = t;
    } else if (a->n > s->n_args) {
        jx_fail(c, "TypeError", "macro '%s' takes not more than %d argument(s)", name, s->n_args);
    }
}

/* Calls a macro and returns its output as a string. */
static struct jval call_macro(struct jctx *c, const struct jmacro *m, struct jargs *a) {
    const struct jscope *s = m->node->scope;
    struct jact *caller_act = c->act, *act = jx_act(c, m->outer, s->n_slots);
    int brk = c->brk;
    if (++c->depth > c->max_depth) jx_fail(c, "RecursionError", "recursion");
    macro_args(c, m, a, act);
    c->act = act;
    jx_enter(c, s);
    int i = 0;
    for (const struct jnode *k = m->node->list; k;
         k = k->next, i++) { /* Defaults can refer to earlier arguments. */
        struct jval *slot = &act->slot[s->arg_slot[i]];
        if (slot->tag != JT_MISSING) continue;
        *slot =
            k->a ? jeval(c, k->a) : jv_undef_hint(c, "parameter was not provided", k->val, false);
    }
    size_t mark = jx_mark(c);
    jexec(c, m->node->b);
    c->act = caller_act;
    c->brk = brk;
    c->depth--;
    return jx_take(c, mark);
}

/* Runs a recursive loop over its only argument, one level deeper; returns its output. */
static struct jval call_loop(struct jctx *c, struct jloop *l, struct jargs *a) {
    if (!l->node->flag)
        jx_fail(c, "TypeError",
                "The loop must have the 'recursive' marker to be called recursively.");
    if (a->n != 1 || a->n_kw) jx_fail(c, "TypeError", "loop() takes one argument");
    return jexec_loop_again(c, l, a->v[0]);
}

struct jval jeval_call(struct jctx *c, struct jval f, struct jargs *a) {
    jx_step(c);
    if (f.tag == JT_MACRO) return call_macro(c, f.u.macro, a);
    if (f.tag == JT_UNDEF) jx_undef_fail(c, f);
    if (f.tag == JT_LOOP) return call_loop(c, f.u.loop, a);
    if (f.tag == JT_JOINER) {
        struct jcycle *j = f.u.cycle;
        bool used = j->used;
        j->used = true;
        return used ? j->sep : jv_str("");
    }
    if (f.tag != JT_FUNC) jx_fail(c, "TypeError", "'%s' object is not callable", jv_type(f));
    struct jval *v = jx_alloc(c, (size_t)a->n + 1, sizeof *v);
    v[0] = f.u.func->self;
    if (a->n) memcpy(v + 1, a->v, (size_t)a->n * sizeof *v);
    struct jargs full = {.v = v, .n = a->n + 1, .kw = a->kw, .n_kw = a->n_kw};
    return jeval_row(c, f.u.func->row, "function", &full);
}

/* Evaluates a call f(...). Methods of strings, dicts and lists are called without creating a bound
 * method.
 * */
struct jval jeval_call_node(struct jctx *c, const struct jnode *n, const struct jkw *extra) {
    struct arg_space sp;
    struct jargs a;
    const struct jnode *fn = n->a;
    struct jval f;
    if (fn->kind == JN_ATTR) {
        struct jval obj = jeval(c, fn->a);
        const struct jrow *row = NULL;
        if (obj.tag == JT_STR) row = fn->m_str;
        if (obj.tag == JT_DICT) row = fn->m_dict;
        if (obj.tag == JT_LIST) row = fn->m_list;
        c->pos = fn->pos;
        if (row && !extra && jrow_ok(c, row)) {
            eval_args(c, n, true, obj, &sp, &a);
            c->pos = fn->pos;
            return jeval_row(c, row, "method", &a);
        }
        f = jop_attr(c, obj, fn->val, fn);
    } else {
        f = jeval(c, fn);
    }
    eval_args(c, n, false, f, &sp, &a);
    c->pos = n->pos;
    if (extra) {
        struct jkw *kw = jx_alloc(c, (size_t)a.n_kw + 1, sizeof *kw);
        if (a.n_kw) memcpy(kw, a.kw, (size_t)a.n_kw * sizeof *kw);
        kw[a.n_kw++] = *extra;
        a.kw = kw;
    }
    return jeval_call(c, f, &a);
}

/* Applies the filter or test n to the subject; fails if its name is unknown. */
static struct jval eval_filter(struct jctx *c, const struct jnode *n, struct jval subject) {
    struct arg_space sp;
    struct jargs a;
    if (!n->row) {
        c->pos = n->pos;
        jx_fail(c, "runtime", "No %s named '%s' found.", n->kind == JN_FILTER ? "filter" : "test",
                jv_cstr(c, n->val));
    }
    eval_args(c, n, true, subject, &sp, &a);
    c->pos = n->pos;
    return jeval_row(c, n->row, n->kind == JN_FILTER ? "filter" : "test", &a);
}

/* Applies the filters of a set or filter block to its text; the chain ends at `input`. */
struct jval jeval_filter_chain(struct jctx *c, const struct jnode *n, const struct jnode *input,
                               struct jval text) {
    if (n == input) return text;
    return eval_filter(c, n, jeval_filter_chain(c, n->a, input, text));
}

/* ---- expressions ----------------------------------------------------------------------------- */

/* Evaluates a chain of comparisons, each operand at most once. */
static struct jval eval_compare(struct jctx *c, const struct jnode *n) {
    struct jval l = jeval(c, n->a);
    for (const struct jnode *k = n->list; k; k = k->next) {
        struct jval r = jeval(c, k->a);
        c->pos = k->pos;
        jx_step(c);
        if (!jop_compare(c, k->op, l, r)) return jv_bool(false);
        l = r;
    }
    return jv_bool(true);
}

/* Evaluates a list or tuple display; tag: which of the two. */
static struct jval eval_items(struct jctx *c, const struct jnode *n, enum jtag tag) {
    struct jval l = jv_list(c, (uint32_t)n->n);
    l.tag = (uint8_t)tag;
    for (const struct jnode *k = n->list; k; k = k->next) jlist_add(c, l.u.list, jeval(c, k));
    return l;
}

/* Returns the dict of a literal; keys are evaluated before their values. */
static struct jval eval_dict(struct jctx *c, const struct jnode *n) {
    struct jval d = jv_dict(c, (uint32_t)n->n);
    for (const struct jnode *k = n->list; k; k = k->next) {
        struct jval key = jeval(c, k->a);
        struct jval v = jeval(c, k->b);
        c->pos = k->pos;
        jdict_set(c, d.u.dict, key, v);
    }
    return d;
}

/* Returns the operands of ~ as one string. */
static struct jval eval_concat(struct jctx *c, const struct jnode *n) {
    struct jval small[SMALL], *v = small;
    int count = 0;
    if (n->n > SMALL) v = jx_alloc(c, (size_t)n->n, sizeof *v);
    for (const struct jnode *k = n->list; k; k = k->next) v[count++] = jeval(c, k);
    jx_loop(c, (size_t)count);
    size_t m = jx_mark(c);
    for (int i = 0; i < count; i++) jv_print(c, v[i]);
    return jx_take(c, m);
}

/* Returns the slice of start, stop and step; a missing one is the value none. */
static struct jval eval_slice(struct jctx *c, const struct jnode *n) {
    struct jval v = jv_tag(JT_SLICE);
    v.u.slice = jx_alloc(c, 1, sizeof *v.u.slice);
    v.u.slice->start = n->a ? jeval(c, n->a) : jv_none();
    v.u.slice->stop = n->b ? jeval(c, n->b) : jv_none();
    v.u.slice->step = n->c ? jeval(c, n->c) : jv_none();
    return v;
}

/* Evaluates any expression node. */
static struct jval eval_node(struct jctx *c, const struct jnode *n) {
    struct jval v, w;
    switch ((int)n->kind) {
    case JN_CONST:
        return n->val;
    case JN_NAME:
        return eval_name(c, n);
    case JN_ATTR:
        v = jeval(c, n->a);
        c->pos = n->pos;
        return jop_attr(c, v, n->val, n);
    case JN_ITEM:
        v = jeval(c, n->a);
        w = jeval(c, n->b);
        c->pos = n->pos;
        return jop_item(c, v, w);
    case JN_COMPARE:
        return eval_compare(c, n);
    case JN_FILTER:
    case JN_TEST:
        return eval_filter(c, n, n->row ? jeval(c, n->a) : jv_none());
    case JN_NOT:
        return jv_bool(!jv_truth(c, jeval(c, n->a)));
    case JN_AND:
        v = jeval(c, n->a);
        return jv_truth(c, v) ? jeval(c, n->b) : v;
    case JN_OR:
        v = jeval(c, n->a);
        return jv_truth(c, v) ? v : jeval(c, n->b);
    case JN_BIN:
        v = jeval(c, n->a);
        w = jeval(c, n->b);
        c->pos = n->pos;
        return jop_bin(c, n->op, v, w);
    case JN_CONCAT:
        return eval_concat(c, n);
    case JN_CALL:
        return jeval_call_node(c, n, NULL);
    case JN_COND:
        if (jv_truth(c, jeval(c, n->a))) return jeval(c, n->b);
        if (n->c) return jeval(c, n->c);
        return jv_undef_hint(
            c, "the inline if-expression evaluated to false and no else section was defined.",
            jv_none(), false);
    case JN_LIST:
        return eval_items(c, n, JT_LIST);
    case JN_TUPLE:
        return eval_items(c, n, JT_TUPLE);
    case JN_DICT:
        return eval_dict(c, n);
    case JN_SLICE:
        return eval_slice(c, n);
    case JN_NEG:
    case JN_POS:
        v = jeval(c, n->a);
        c->pos = n->pos;
        return jop_neg(c, v, n->kind == JN_NEG);
    default:
        jx_fail(c, "runtime", "this expression cannot be evaluated");
    }
}

struct jval jeval(struct jctx *c, const struct jnode *n) {
    if (n->kind == JN_CONST) return n->val;
    jx_step(c);
    if (++c->nest > 2000) jx_fail(c, "RecursionError", "recursion");
    struct jval v = eval_node(c, n);
    if (c->span && c->span->trace) jtrace_saw(c, n, v);
    c->nest--;
    return v;
}
