// SPDX-License-Identifier: MIT
/* template/jinja_scope.c - name resolution.
 *
 * Scopes are lexical and resolved before the first rendering. A scope first collects the names that
 * its own statements load and store, in source order. Inner scopes (loop bodies, macros, blocks of
 * set, filter, call, with) are resolved afterwards and see all names of the outer scope. A stored
 * name gets a slot in the scope that stores it; on entry, the slot is filled from the outer
 * variable, from the caller's variables, or left empty. Branches of an if belong to the enclosing
 * scope; a name stored in only some branches falls back to its outer meaning. Unknown filters and
 * tests are rejected here unless an if could skip them. */
#include "template/jinja_int.h"

#include <string.h>

struct func { /* one activation record */
    struct func *outer;
    int n_slots;
};
struct sym {
    struct jval name;
    int slot;
    enum jload_kind kind;
    int hops, src;
    bool stored;
};
struct slot_name {
    struct jval name;
    int slot;
};
struct slots { /* counters shared by a scope and the copies made for its branches */
    struct slot_name *v;
    int n, cap;
};
struct symtab {
    struct symtab *parent;
    struct func *fn;
    struct slots *slots;
    struct sym *v;
    int n, cap;
};
struct resolver {
    struct jctx *c;
    struct jinja *t;
    struct symtab *root;
    int cap_globals;
    int depth;
};

/* Returns a larger copy of an array of n elements in the arena and doubles *cap. */
static void *grow_array(struct jctx *c, const void *old, int n, int *cap, size_t size) {
    *cap = *cap ? *cap * 2 : 8;
    void *p = jx_alloc(c, (size_t)*cap, size);
    if (n) memcpy(p, old, (size_t)n * size);
    return p;
}

/* Returns an empty scope inside `parent` (NULL: none) of the function fn. */
static struct symtab *symtab_new(struct resolver *r, struct symtab *parent, struct func *fn) {
    struct symtab *st = jx_alloc(r->c, 1, sizeof *st);
    st->parent = parent;
    st->fn = fn;
    st->slots = jx_alloc(r->c, 1, sizeof *st->slots);
    return st;
}

/* Returns a new function scope, whose locals get their own slots. */
static struct func *func_new(struct resolver *r, struct func *outer) {
    struct func *f = jx_alloc(r->c, 1, sizeof *f);
    f->outer = outer;
    return f;
}

/* Returns the name's symbol in this scope only; NULL: not found. */
static struct sym *own_symbol(struct resolver *r, const struct symtab *st, struct jval name) {
    jx_loop(r->c, (size_t)st->n);
    for (int i = 0; i < st->n; i++)
        if (jv_eqs(st->v[i].name, name)) return &st->v[i];
    return NULL;
}

/* Returns the variable that a name refers to in st; *hops is the number of records to walk
 * outwards. NULL: not found. */
static const struct sym *find(struct resolver *r, const struct symtab *st, struct jval name,
                              int *hops) {
    const struct func *f = st->fn;
    *hops = 0;
    for (; st; st = st->parent) {
        while (f != st->fn) {
            f = f->outer;
            ++*hops;
        }
        const struct sym *s = own_symbol(r, st, name);
        if (s) return s;
    }
    return NULL;
}

/* Returns the name's variable in the scope's function, creating it if needed. */
static int slot_of(struct resolver *r, struct symtab *st, struct jval name) {
    struct slots *s = st->slots;
    jx_loop(r->c, (size_t)s->n);
    for (int i = 0; i < s->n; i++)
        if (jv_eqs(s->v[i].name, name)) return s->v[i].slot;
    if (s->n == s->cap) s->v = grow_array(r->c, s->v, s->n, &s->cap, sizeof *s->v);
    s->v[s->n] = (struct slot_name){name, st->fn->n_slots};
    s->n++;
    return st->fn->n_slots++;
}

/* Returns the index of a global name, adding it if needed. */
static int global_of(struct resolver *r, struct jval name) {
    struct jinja *t = r->t;
    jx_loop(r->c, (size_t)t->n_globals);
    for (int i = 0; i < t->n_globals; i++)
        if (jv_eqs(t->global_name[i], name)) return i;
    if (t->n_globals == r->cap_globals)
        t->global_name =
            grow_array(r->c, t->global_name, t->n_globals, &r->cap_globals, sizeof *t->global_name);
    t->global_name[t->n_globals] = name;
    return t->n_globals++;
}

/* Sets how the scope gets the name's value, adding the symbol if needed. */
static struct sym *define_symbol(struct resolver *r, struct symtab *st, struct jval name,
                                 enum jload_kind kind) {
    struct sym *s = own_symbol(r, st, name);
    if (!s) {
        if (st->n == st->cap) st->v = grow_array(r->c, st->v, st->n, &st->cap, sizeof *st->v);
        s = &st->v[st->n++];
        *s = (struct sym){.name = name, .slot = slot_of(r, st, name)};
    }
    s->kind = kind;
    if (kind == JL_RESOLVE) s->src = global_of(r, name);
    return s;
}

/* Declares a name that is stored here. On entry it gets the value of the outer variable with that
 * name, if there is one. */
static void define_outer(struct resolver *r, struct symtab *st, struct jval name,
                         enum jload_kind otherwise) {
    int hops = 0;
    const struct sym *outer = NULL;
    if (st->parent) {
        outer = find(r, st->parent, name, &hops);
        for (const struct func *f = st->fn; f != st->parent->fn; f = f->outer) hops++;
    }
    struct jval n = name;
    int src = outer ? outer->slot : 0;
    struct sym *s = define_symbol(r, st, n, outer ? JL_ALIAS : otherwise);
    if (outer) {
        s->hops = hops;
        s->src = src;
    }
}

/* Declares that the scope reads a name. */
static void add_load(struct resolver *r, struct symtab *st, struct jval name) {
    int hops;
    if (!find(r, st, name, &hops)) define_symbol(r, st, name, JL_RESOLVE);
}

/* Declares that the scope sets a name. */
static void add_store(struct resolver *r, struct symtab *st, struct jval name) {
    if (!own_symbol(r, st, name)) define_outer(r, st, name, JL_UNDEF);
    own_symbol(r, st, name)->stored = true;
}

/* Defines a parameter, which counts as assigned. */
static void add_param(struct resolver *r, struct symtab *st, struct jval name) {
    define_symbol(r, st, name, JL_PARAM)->stored = true;
}

static struct symtab *symtab_copy(struct resolver *r, const struct symtab *st) {
    struct symtab *k = jx_alloc(r->c, 1, sizeof *k);
    *k = *st;
    k->cap = st->n;
    k->v = jx_alloc(r->c, (size_t)st->n + 1, sizeof *k->v);
    if (st->n) memcpy(k->v, st->v, (size_t)st->n * sizeof *k->v);
    return k;
}

/* Merges the names found by the branches of an if into st. */
static void merge_branches(struct resolver *r, struct symtab *st, struct symtab *const branch[2]) {
    int before = st->n;
    bool *was_stored = jx_alloc(r->c, (size_t)before + 1, 1);
    for (int i = 0; i < before; i++) was_stored[i] = st->v[i].stored;
    for (int b = 0; b < 2; b++) {
        for (int i = 0; i < branch[b]->n; i++) {
            const struct sym *s = &branch[b]->v[i];
            struct sym *mine = own_symbol(r, st, s->name);
            if (!mine) mine = define_symbol(r, st, s->name, JL_UNDEF);
            bool stored = mine->stored || s->stored;
            *mine = *s;
            mine->stored = stored;
        }
    }
    for (int i = 0; i < st->n; i++)
        if (st->v[i].stored && !(i < before && was_stored[i]))
            define_outer(r, st, st->v[i].name, JL_RESOLVE);
}

static void collect_list(struct resolver *r, struct symtab *st, const struct jnode *n, bool params);

/* Collects the names that a node uses in its own scope. With `params`, stored names are parameters.
 */
static void collect(struct resolver *r, struct symtab *st, const struct jnode *n, bool params) {
    if (!n) return;
    switch ((int)n->kind) {
    case JN_NAME:
        if (!n->flag) {
            add_load(r, st, n->val);
        } else if (params) {
            add_param(r, st, n->val);
        } else {
            add_store(r, st, n->val);
        }
        return;
    case JN_NSREF:
        add_load(r, st, n->val);
        return;
    case JN_IF: {
        collect(r, st, n->a, params);
        struct symtab *branch[2] = {symtab_copy(r, st), symtab_copy(r, st)};
        collect_list(r, branch[0], n->list, params);
        collect_list(r, branch[1], n->list2, params);
        merge_branches(r, st, branch);
        return;
    }
    case JN_FOR:
        collect(r, st, n->b, false);
        return;
    case JN_MACRO:
        add_store(r, st, n->val);
        return;
    case JN_SET:
        collect(r, st, n->b, false);
        collect(r, st, n->a, params);
        return;
    case JN_SETBLOCK:
        collect(r, st, n->a, params);
        return;
    case JN_CALLBLOCK:
        collect(r, st, n->a, false);
        return;
    case JN_FILTERBLOCK:
        collect(r, st, n->b, false);
        return;
    case JN_WITH:
        for (const struct jnode *k = n->list; k; k = k->next) collect(r, st, k->b, false);
        return;
    case JN_GENERATION:
    case JN_BLOCK:
    case JN_NOLOADER:
    case JN_TEXT:
        return;
    default:
        collect(r, st, n->a, params);
        collect(r, st, n->b, params);
        collect(r, st, n->c, params);
        collect_list(r, st, n->list, params);
        collect_list(r, st, n->list2, params);
        return;
    }
}

/* Collects the names in a list of nodes; params: they are parameters. */
static void collect_list(struct resolver *r, struct symtab *st, const struct jnode *n,
                         bool params) {
    for (; n; n = n->next) collect(r, st, n, params);
}

/* Returns the variables that entering the scope loads, and from where. */
static struct jscope *scope_of(struct resolver *r, const struct symtab *st) {
    struct jscope *s = jx_alloc(r->c, 1, sizeof *s);
    s->load = jx_alloc(r->c, (size_t)st->n + 1, sizeof *s->load);
    s->loop_slot = s->caller_slot = s->kwargs_slot = s->varargs_slot = -1;
    for (int i = 0; i < st->n; i++) {
        const struct sym *k = &st->v[i];
        if (k->kind == JL_PARAM) continue;
        s->load[s->n_load++] =
            (struct jload){.kind = k->kind, .slot = k->slot, .hops = k->hops, .src = k->src};
    }
    return s;
}

/* Returns 1 if a subtree first loads `name`, -1 if it first stores it, 0 if it does neither. */
static int uses(const struct jnode *n, struct jval name) {
    for (; n; n = n->next) {
        if (n->kind == JN_BLOCK) continue;
        if (n->kind == JN_NAME && jv_eqs(n->val, name)) return n->flag ? -1 : 1;
        const struct jnode *kids[] = {n->a, n->list, n->b, n->c, n->list2};
        if (n->kind == JN_MACRO) kids[0] = NULL;
        for (size_t i = 0; i < COUNT_OF(kids); i++) {
            if (!kids[i]) continue;
            int u;
            /* This is a single node, so its `next` is not followed. */
            if (i == 0 || i == 2 || i == 3) {
                struct jnode one = *kids[i];
                one.next = NULL;
                u = uses(&one, name);
            } else {
                u = uses(kids[i], name);
            }
            if (u) return u;
        }
    }
    return 0;
}

static void walk_list(struct resolver *r, struct symtab *st, struct jnode *n, bool soft);
static void walk_node(struct resolver *r, struct symtab *st, struct jnode *n, bool soft);

/* Sets where the name n is found: hops and slot; hops -1: it is a global. */
static void bind_name(struct resolver *r, const struct symtab *st, struct jnode *n) {
    const struct sym *s = find(r, st, n->val, &n->hops);
    if (s) {
        n->slot = s->slot;
    } else { /* Arguments of a set block's filter belong to the outer scope. */
        n->hops = -1;
        n->slot = global_of(r, n->val);
    }
}

/* Returns a copy of assignment targets; NULL for NULL. */
static struct jnode *copy_target(struct resolver *r, const struct jnode *n) {
    if (!n) return NULL;
    struct jnode *k = jx_alloc(r->c, 1, sizeof *k);
    *k = *n;
    k->list = copy_target(r, n->list);
    k->next = copy_target(r, n->next);
    return k;
}

/* Fails if a statement assigns to the variable `loop`. */
static void refuse_loop_store(struct resolver *r, const struct jnode *n) {
    for (; n; n = n->next) {
        if (n->kind == JN_NAME && n->flag && jv_is(n->val, "loop")) {
            r->c->pos = n->pos;
            jx_fail(r->c, "syntax", "Can't assign to special loop variable in for-loop");
        }
        if (n->kind == JN_SET || n->kind == JN_SETBLOCK || n->kind == JN_FOR) {
            struct jnode one = *n->a;
            one.next = NULL;
            refuse_loop_store(r, &one);
        }
        if (n->kind < JN_TEXT && n->kind != JN_TUPLE) continue;
        refuse_loop_store(r, n->list);
        refuse_loop_store(r, n->list2);
        if (n->kind == JN_MACRO || n->kind == JN_CALLBLOCK) refuse_loop_store(r, n->b);
    }
}

/* Resolves the names of a loop: in its iterable, its body and its else branch. */
static void walk_for(struct resolver *r, struct symtab *st, struct jnode *n, bool soft) {
    walk_node(r, st, n->b, soft);
    struct func *fn = n->flag ? func_new(r, st->fn) : st->fn;
    struct symtab *body = symtab_new(r, st, fn), *rest = symtab_new(r, st, fn),
                  *test = symtab_new(r, st, fn);
    struct jval loop = jv_str("loop");
    refuse_loop_store(r, n->list);
    add_param(r, body, loop);
    collect(r, body, n->a, true);
    collect_list(r, body, n->list, false);
    n->scope = scope_of(r, body);
    n->scope->loop_slot = own_symbol(r, body, loop)->slot;
    if (n->list2) {
        collect_list(r, rest, n->list2, false);
        n->scope2 = scope_of(r, rest);
        walk_list(r, rest, n->list2, false);
    }
    if (n->c) { /* The filter binds its own copy of the target. */
        struct jnode *pair = jx_alloc(r->c, 1, sizeof *pair);
        pair->kind = JN_KW;
        pair->a = copy_target(r, n->a);
        pair->b = n->c;
        n->c = pair;
        collect(r, test, pair->a, true);
        collect(r, test, pair->b, false);
        n->scope3 = scope_of(r, test);
        walk_node(r, test, pair->a, false);
        walk_node(r, test, pair->b, false);
    }
    walk_node(r, body, n->a, false);
    walk_list(r, body, n->list, false);
    if (n->flag) n->scope->n_slots = fn->n_slots;
}

/* Returns the slot of caller, kwargs or varargs in the macro n, or -1 if its body does not read
 * it. */
static int special_arg(struct resolver *r, struct symtab *st, struct jnode *n, const char *name) {
    struct jval v = jv_str(name);
    if (uses(n->b, v) != 1) return -1;
    for (const struct jnode *k = n->list; k; k = k->next) {
        if (!jv_eqs(k->val, v)) continue;
        if (jv_is(v, "caller") && !k->a) {
            r->c->pos = k->pos;
            jx_fail(r->c, "syntax",
                    "When defining macros or call blocks the special \"caller\" argument must be "
                    "omitted or be given a "
                    "default.");
        }
        return -1;
    }
    add_param(r, st, v);
    return own_symbol(r, st, v)->slot;
}

/* Resolves a macro, call block or generation block, each a function with its own record. */
static void walk_function(struct resolver *r, struct symtab *st, struct jnode *n) {
    struct func *fn = func_new(r, st->fn);
    struct symtab *in = symtab_new(r, st, fn);
    for (struct jnode *k = n->list; k; k = k->next) add_param(r, in, k->val);
    int caller = special_arg(r, in, n, "caller");
    int kwargs = special_arg(r, in, n, "kwargs");
    int varargs = special_arg(r, in, n, "varargs");
    for (struct jnode *k = n->list; k; k = k->next) collect(r, in, k->a, false);
    collect_list(r, in, n->b, false);
    n->scope = scope_of(r, in);
    n->scope->caller_slot = caller;
    n->scope->kwargs_slot = kwargs;
    n->scope->varargs_slot = varargs;
    n->scope->n_args = n->n;
    n->scope->arg_slot = jx_alloc(r->c, (size_t)n->n + 1, sizeof(int));
    int i = 0;
    for (struct jnode *k = n->list; k; k = k->next) {
        n->scope->arg_slot[i++] = own_symbol(r, in, k->val)->slot;
        walk_node(r, in, k->a, false);
    }
    walk_list(r, in, n->b, false);
    n->scope->n_slots = fn->n_slots;
}

/* Fails if n's filter or test is unknown; soft: fails only when it is used. */
static void check_known(struct resolver *r, const struct jnode *n, bool soft) {
    if (n->row || soft) return;
    r->c->pos = n->pos;
    jx_fail(r->c, "syntax", "No %s named '%s'.", n->kind == JN_FILTER ? "filter" : "test",
            jv_cstr(r->c, n->val));
}

/* Resolves a block that has its own scope in the same record. */
static struct symtab *inner(struct resolver *r, struct symtab *st, struct jnode *n,
                            const struct jnode *body) {
    struct symtab *in = symtab_new(r, st, st->fn);
    if (n->kind == JN_WITH)
        for (const struct jnode *k = n->list; k; k = k->next) collect(r, in, k->a, true);
    collect_list(r, in, body, false);
    if (n->kind == JN_FILTERBLOCK) collect(r, in, n->b, false);
    n->scope = scope_of(r, in);
    return in;
}

/* Resolves the names of a block, which has a function scope of its own. */
static void walk_block(struct resolver *r, struct jnode *n) {
    struct func *fn = func_new(r, r->root->fn);
    struct symtab *in = symtab_new(r, r->root, fn);
    collect_list(r, in, n->list, false);
    n->scope = scope_of(r, in);
    walk_list(r, in, n->list, false);
    n->scope->n_slots = fn->n_slots;
}

/* Resolves a statement whose body has a scope of its own. */
static void walk_inner(struct resolver *r, struct symtab *st, struct jnode *n, bool soft) {
    struct symtab *in;
    switch ((int)n->kind) {
    case JN_SETBLOCK:
        in = inner(r, st, n, n->list);
        walk_node(r, st, n->a, soft);
        walk_node(r, in, n->b, false);
        walk_list(r, in, n->list, false);
        return;
    case JN_FILTERBLOCK:
        in = inner(r, st, n, n->list);
        walk_node(r, in, n->b, false);
        walk_list(r, in, n->list, false);
        return;
    case JN_WITH:
        in = inner(r, st, n, n->list2);
        for (struct jnode *k = n->list; k; k = k->next) {
            walk_node(r, in, k->a, false);
            walk_node(r, st, k->b, soft);
        }
        walk_list(r, in, n->list2, false);
        return;
    default:
        walk_block(r, n);
        return;
    }
}

/* Resolves the names below n; soft: unknown filters and tests are allowed. */
static void walk_node(struct resolver *r, struct symtab *st, struct jnode *n, bool soft) {
    if (!n) return;
    switch ((int)n->kind) {
    case JN_NAME:
    case JN_NSREF:
        bind_name(r, st, n);
        return;
    case JN_FOR:
        walk_for(r, st, n, soft);
        return;
    case JN_MACRO:
        bind_name(r, st, n);
        walk_function(r, st, n);
        return;
    case JN_CALLBLOCK:
        walk_node(r, st, n->a, soft);
        walk_function(r, st, n);
        return;
    case JN_GENERATION:
        walk_function(r, st, n);
        return;
    case JN_SETBLOCK:
    case JN_FILTERBLOCK:
    case JN_WITH:
    case JN_BLOCK:
        walk_inner(r, st, n, soft);
        return;
    case JN_IF:
    case JN_COND:
        soft = true;
        break;
    case JN_FILTER:
    case JN_TEST:
        check_known(r, n, soft);
        break;
    default:
        break;
    }
    walk_node(r, st, n->a, soft);
    walk_node(r, st, n->b, soft);
    walk_node(r, st, n->c, soft);
    walk_list(r, st, n->list, soft);
    walk_list(r, st, n->list2, soft);
}

static void walk_list(struct resolver *r, struct symtab *st, struct jnode *n, bool soft) {
    for (; n; n = n->next) walk_node(r, st, n, soft);
}

void jscope_resolve(struct jctx *c, struct jinja *t) {
    struct resolver r = {.c = c, .t = t};
    r.root = symtab_new(&r, NULL, func_new(&r, NULL));
    collect_list(&r, r.root, t->body, false);
    t->root = scope_of(&r, r.root);
    walk_list(&r, r.root, t->body, false);
    t->root->n_slots = r.root->fn->n_slots;
}
