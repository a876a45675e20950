// SPDX-License-Identifier: MIT
/* template/jinja.c - public functions of the template engine: compilation, rendering, failures. */
#include "template/jinja_int.h"
#include "template/jinja_trace.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/ctx.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"

void jx_where(const char *src, size_t len, uint32_t pos, int *line, int *col) {
    int l = 1, k = 1;
    for (size_t i = 0; i < pos && i < len; i++) {
        if (src[i] == '\n') {
            l++;
            k = 1;
        } else if (((unsigned char)src[i] & 0xc0) != 0x80) {
            k++;
        }
    }
    *line = l;
    *col = k;
}

/* Returns the kind of failure for the name of an exception. */
static enum jinja_fail fail_kind(const char *kind) {
    static const struct {
        const char *name;
        enum jinja_fail kind;
    } kinds[] = {{"syntax", JF_SYNTAX},        {"raise", JF_RAISED},
                 {"limit", JF_LIMIT},          {"interrupted", JF_LIMIT},
                 {"RecursionError", JF_LIMIT}, {"OverflowError", JF_LIMIT}};
    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        if (strcmp(kind, kinds[i].name) == 0) return kinds[i].kind;
    return JF_RUNTIME;
}

void jx_fail(struct jctx *c, const char *kind, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(c->err->msg, sizeof c->err->msg, fmt, ap);
    va_end(ap);
    c->err->kind = fail_kind(kind);
    snprintf(c->err->type, sizeof c->err->type, "%s", kind);
    longjmp(c->fail, 1);
}

void jx_look(struct jctx *c) {
    enum { LOOK_EVERY = 1 << 16 };
    const struct ctx_cost *cost = ctx_cost();
    if (c->steps > c->max_steps) jx_fail(c, "limit", "the template ran too many steps");
    if (progress_cancelled() || (cost && cost->gone && atomic_load(cost->gone)))
        jx_fail(c, "interrupted", "interrupted");
    c->look_at = c->max_steps - c->steps < LOOK_EVERY ? c->max_steps : c->steps + LOOK_EVERY;
}

/* Writes Jinja's message for the use of an undefined value. */
static void undef_text(struct jctx *c, const struct jundef *u, char *out, size_t cap) {
    if (u->hint) {
        snprintf(out, cap, "%s", u->hint);
        return;
    }
    size_t m = jx_mark(c);
    jv_repr(c, u->name);
    const char *name = jv_cstr(c, jx_take(c, m));
    if (u->obj.tag == JT_MISSING) {
        snprintf(out, cap, "%s is undefined", name);
        return;
    }
    const char *type = jv_type(u->obj), *object = " object";
    if (u->obj.tag == JT_NONE) {
        type = "None";
        object = "";
    }
    if (u->name.tag == JT_STR) {
        snprintf(out, cap, "'%s%s' has no attribute %s", type, object, name);
    } else {
        snprintf(out, cap, "%s%s has no element %s", type, object, name);
    }
}

/* Fails with the message for the undefined value v; does not return. */
void jx_undef_fail(struct jctx *c, struct jval v) {
    char text[sizeof c->err->msg];
    undef_text(c, v.u.undef, text, sizeof text);
    jx_fail(c, v.u.undef->security ? "security" : "undefined", "%s", text);
}

void *jx_alloc(struct jctx *c, size_t n, size_t size) {
    enum { MAX_ARENA = 1 << 30 };
    if (n > MAX_ARENA / (size ? size : 1) || c->a->total_bytes > MAX_ARENA)
        jx_fail(c, "limit", "the template needs too much memory");
    jx_bytes(c, n * size);
    return arena_array(c->a, n, size);
}

void jx_add(struct jctx *c, const char *s, size_t n) {
    if (n > c->max_out || c->out.len > c->max_out - n)
        jx_fail(c, "limit", "the output is larger than %llu bytes", (unsigned long long)c->max_out);
    jx_bytes(c, n);
    if (c->span) jspan_write(c, s, n);
    buf_add(&c->out, s, n);
}

struct jval jx_take(struct jctx *c, size_t mark) {
    size_t n = c->out.len - mark;
    char *p = jx_str_alloc(c, n);
    if (c->span) {
        jspan_take(c, p, mark, n);
    } else if (n) {
        memcpy(p, c->out.data + mark, n);
    }
    c->out.len = mark;
    return jv_strn(p, n);
}

char *jx_str_alloc(struct jctx *c, size_t n) {
    return c->span ? jspan_alloc(c, n + 1) : jx_alloc(c, n + 1, 1);
}

void jx_str_copy(struct jctx *c, char *to, const char *s, size_t n) {
    if (c->span) {
        jspan_copy(c, to, s, n);
    } else if (n) {
        memcpy(to, s, n);
    }
}

/* Returns the source with all line ends as \n and one trailing newline removed. */
static char *normalise(struct arena *a, const char *src, size_t *len) {
    char *t = arena_alloc(a, *len + 1);
    size_t n = 0;
    for (size_t i = 0; i < *len; i++) {
        t[n++] = src[i] == '\r' ? '\n' : src[i];
        if (src[i] == '\r' && i + 1 < *len && src[i + 1] == '\n') i++;
    }
    if (n && t[n - 1] == '\n') n--;
    t[n] = 0;
    *len = n;
    return t;
}

/* Fills in line and column of the failure, and *e from *je. */
static void finish_error(const struct jinja *t, const struct jctx *c, struct jinja_err *je,
                         struct err *e) {
    jx_where(t->src, t->src_len, c->pos, &je->line, &je->col);
    if (strcmp(je->type, "interrupted") == 0)
        err_set(e, ERR_INTR, "interrupted");
    else
        err_set(e, ERR_DATA, "%s:%d:%d: %s", t->name, je->line, je->col, je->msg);
}

/* Runs body; the only place with a setjmp. No local variable changes between setjmp and a failure,
 * so all keep their values. Returns ERR_DATA if body fails, else 0. */
int jx_guard(struct jctx *c, void (*body)(struct jctx *c, void *arg), void *arg) {
    if (setjmp(c->fail)) return ERR_DATA;
    body(c, arg);
    return 0;
}

/* Compiles the template `arg`: tokens, tree, then the scopes of variables. */
static void compile_source(struct jctx *c, void *arg) {
    struct jinja *t = arg;
    size_t n_tok;
    struct jtok *tok = jlex(c, t->src, t->src_len, &n_tok);
    t->body = jparse(c, tok, n_tok);
    jscope_resolve(c, t);
}

enum { MAX_SOURCE = 16 << 20 };

int jinja_compile_mode(struct jinja **out, const char *src, size_t len, const char *name,
                       enum jinja_mode mode, struct jinja_err *je, struct err *e) {
    struct jinja_err own;
    if (!je) je = &own;
    memset(je, 0, sizeof *je);
    *out = NULL;
    uint64_t most = limit_of(LIM_TEMPLATE);
    if (len > most) {
        je->kind = JF_LIMIT;
        snprintf(je->msg, sizeof je->msg, "the template is larger than %llu bytes",
                 (unsigned long long)most);
        return err_set(e, ERR_DATA, "%s: %s", name, je->msg);
    }
    if (str_no_nul(src, len, name, e)) {
        je->kind = JF_SYNTAX;
        snprintf(je->type, sizeof je->type, "syntax");
        snprintf(je->msg, sizeof je->msg, "%.500s", e->msg);
        jx_where(src, len, (uint32_t)((const char *)memchr(src, 0, len) - src), &je->line,
                 &je->col);
        return (int)e->code;
    }
    struct jinja *t = xcalloc(1, sizeof *t);
    arena_init(&t->arena);
    t->name = xstrdup(name);
    t->lenient = mode == JINJA_LENIENT;
    t->src_len = len;
    t->src = normalise(&t->arena, src, &t->src_len);
    struct jctx c = {.a = &t->arena, .err = je, .t = t, .max_out = MAX_SOURCE};
    c.max_steps = limit_of(LIM_TEMPLATE_STEPS);
    int rc = jx_guard(&c, compile_source, t);
    buf_release(&c.out);
    if (rc) {
        finish_error(t, &c, je, e);
        jinja_free(t);
        return (int)e->code;
    }
    *out = t;
    return 0;
}

int jinja_compile(struct jinja **out, const char *src, size_t len, const char *name,
                  struct jinja_err *je, struct err *e) {
    return jinja_compile_mode(out, src, len, name, JINJA_HF, je, e);
}

void jinja_free(struct jinja *t) {
    if (!t) return;
    arena_release(&t->arena);
    free(t->name);
    free(t);
}

struct source { /* variables as text or from a function */
    const char *text;
    size_t len;
    jinja_vars_fn fn;
    void *ctx;
};

/* Evaluates the template with the variables of the source `arg`. */
static void render_body(struct jctx *c, void *arg) {
    const struct source *s = arg;
    struct jval vars = s->fn ? s->fn(c, s->ctx) : jjson_parse(c, s->text, s->len, "variables");
    if (vars.tag != JT_DICT) jx_fail(c, "TypeError", "the variables are not a JSON object");
    c->globals = jx_alloc(c, (size_t)c->t->n_globals + 1, sizeof *c->globals);
    for (int i = 0; i < c->t->n_globals; i++) {
        struct jval name = c->t->global_name[i], *v = jdict_find(vars.u.dict, name.u.s, name.len);
        if (v) {
            c->globals[i] = *v;
            continue;
        }
        const struct jrow *row = jlib_global(name);
        if (!row) continue;
        struct jval f = jv_tag(JT_FUNC);
        f.u.func = jx_alloc(c, 1, sizeof *f.u.func);
        f.u.func->row = row;
        c->globals[i] = f;
    }
    c->pos = 0;
    jeval_root(c);
}

/* Returns the number of steps that a rendering may take, at most `most`. */
static uint64_t steps_left(uint64_t most) {
    const struct ctx_cost *c = ctx_cost();
    const uint64_t left = !c || !c->most ? most : c->spent < c->most ? c->most - c->spent : 0;
    return left < most ? left : most;
}

/* Renders into out; lim, spans, trace and je may be NULL. */
static int render_source(const struct jinja *t, struct source *s, int64_t now_unix,
                         const struct jinja_limits *lim, struct buf *out, struct jinja_spans *spans,
                         struct jtrace *trace, struct jinja_err *je, struct err *e) {
    struct jinja_err own;
    struct jinja_limits zero = {0};
    struct arena arena;
    struct jspan span = {.trace = trace};
    if (!je) je = &own;
    if (!lim) lim = &zero;
    memset(je, 0, sizeof *je);
    arena_init(&arena);
    struct jctx c = {.a = &arena, .err = je, .t = t, .now = now_unix};
    if (spans || trace) c.span = &span;
    c.max_steps = lim->max_steps ? lim->max_steps : limit_of(LIM_TEMPLATE_STEPS);
    c.max_steps = steps_left(c.max_steps);
    c.max_out = lim->max_output ? lim->max_output : limit_of(LIM_TEMPLATE_OUTPUT);
    c.max_depth = lim->max_depth ? lim->max_depth : 200;
    c.max_range = lim->max_range ? lim->max_range : 100000;
    int rc = jx_guard(&c, render_body, s);
    if (ctx_cost()) ctx_cost()->spent += c.steps;
    if (rc) {
        finish_error(t, &c, je, e);
        rc = (int)e->code;
    } else {
        buf_add(out, c.out.data ? c.out.data : "", c.out.len);
        if (spans) jspan_result(&span, c.out.len, spans);
        if (trace) jtrace_result(trace, &span, c.out.len);
    }
    jspan_release(&span);
    buf_release(&c.out);
    arena_release(&arena);
    return rc;
}

int jinja_render_text(const struct jinja *t, const char *vars, size_t len, int64_t now_unix,
                      const struct jinja_limits *lim, struct buf *out, struct jinja_err *je,
                      struct err *e) {
    struct source s = {.text = vars, .len = len};
    return render_source(t, &s, now_unix, lim, out, NULL, NULL, je, e);
}

int jinja_render_fn(const struct jinja *t, jinja_vars_fn fn, void *ctx, int64_t now_unix,
                    const struct jinja_limits *lim, struct buf *out, struct jinja_err *je,
                    struct err *e) {
    struct source s = {.fn = fn, .ctx = ctx};
    return render_source(t, &s, now_unix, lim, out, NULL, NULL, je, e);
}

int jinja_render_spans(const struct jinja *t, jinja_vars_fn fn, void *ctx, int64_t now_unix,
                       const struct jinja_limits *lim, struct buf *out, struct jinja_spans *spans,
                       struct jinja_err *je, struct err *e) {
    struct source s = {.fn = fn, .ctx = ctx};
    memset(spans, 0, sizeof *spans);
    return render_source(t, &s, now_unix, lim, out, spans, NULL, je, e);
}

int jinja_render_trace(const struct jinja *t, jinja_vars_fn fn, void *ctx, int64_t now_unix,
                       struct buf *out, struct jtrace *trace, struct jinja_err *je, struct err *e) {
    struct source s = {.fn = fn, .ctx = ctx};
    return render_source(t, &s, now_unix, NULL, out, NULL, trace, je, e);
}
