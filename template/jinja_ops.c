// SPDX-License-Identifier: MIT
/* template/jinja_ops.c - operators, attributes, items and slices, with Python's rules and errors.
 *
 * `a.b` looks for a method first, then for an item; `a['b']` looks in the reverse order. A
 * missing attribute or item becomes Undefined; methods that would modify a value are refused on use
 * (sandbox). */
#include "template/jinja_lib.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *op_text(enum jop op) {
    static const char *const t[] = {
        [JO_NONE] = "?", [JO_ADD] = "+",       [JO_SUB] = "-", [JO_MUL] = "*",
        [JO_DIV] = "/",  [JO_FLOORDIV] = "//", [JO_MOD] = "%", [JO_POW] = "** or pow()",
        [JO_EQ] = "==",  [JO_NE] = "!=",       [JO_LT] = "<",  [JO_LE] = "<=",
        [JO_GT] = ">",   [JO_GE] = ">=",       [JO_IN] = "in", [JO_NOTIN] = "not in"};
    return t[op];
}

NORETURN static void bad_operands(struct jctx *c, enum jop op, struct jval a, struct jval b) {
    if (op == JO_ADD && (a.tag == JT_STR || a.tag == JT_LIST || a.tag == JT_TUPLE))
        jx_fail(c, "TypeError", "can only concatenate %s (not \"%s\") to %s", jv_type(a),
                jv_type(b), jv_type(a));
    jx_fail(c, "TypeError", "unsupported operand type(s) for %s: '%s' and '%s'", op_text(op),
            jv_type(a), jv_type(b));
}

/* Returns x op y for floats, with Python's rules for // and %. */
static struct jval float_bin(struct jctx *c, enum jop op, double x, double y) {
    switch ((int)op) {
    case JO_ADD:
        return jv_float(x + y);
    case JO_SUB:
        return jv_float(x - y);
    case JO_MUL:
        return jv_float(x * y);
    case JO_DIV:
        if (y == 0) jx_fail(c, "ZeroDivisionError", "float division by zero");
        return jv_float(x / y);
    case JO_POW:
        if (x == 0 && y < 0)
            jx_fail(c, "ZeroDivisionError", "0.0 cannot be raised to a negative power");
        if (x < 0 && y != floor(y) && !isinf(y))
            jx_fail(c, "TypeError", "complex numbers are not supported");
        {
            double r = pow(x, y);
            if (isinf(r) && !isinf(x) && !isinf(y))
                jx_fail(c, "OverflowError", "(34, 'Numerical result out of range')");
            return jv_float(r);
        }
    default:
        break;
    }
    if (y == 0)
        jx_fail(c, "ZeroDivisionError",
                op == JO_MOD ? "float modulo" : "float floor division by zero");
    double m = fmod(x, y), d = (x - m) / y;
    if (m != 0) {
        if ((y < 0) != (m < 0)) {
            m += y;
            d -= 1;
        }
    } else {
        m = copysign(0.0, y);
    }
    if (op == JO_MOD) return jv_float(m);
    double fl = d != 0 ? floor(d) : copysign(0.0, x / y);
    if (d - fl > 0.5) fl += 1;
    return jv_float(fl);
}

/* Returns a ** b, a float if b is negative. */
static struct jval int_pow(struct jctx *c, struct jval a, struct jval b) {
    if (b.tag == JT_BIG) jx_fail(c, "limit", "the power is too large");
    int64_t e = b.u.i;
    if (e < 0) {
        if (a.tag != JT_BIG && a.u.i == 0)
            jx_fail(c, "ZeroDivisionError", "0.0 cannot be raised to a negative power");
        return float_bin(c, JO_POW, jv_num(c, a), (double)e);
    }
    if (e > 20000 && !(a.tag != JT_BIG && a.u.i >= -1 && a.u.i <= 1))
        jx_fail(c, "limit", "the power is too large");
    if (a.tag != JT_BIG && a.u.i >= -1 && a.u.i <= 1)
        return jv_int(e == 0 ? 1 : a.u.i == 0 ? 0 : a.u.i == 1 ? 1 : e % 2 ? -1 : 1);
    struct jval r = jv_int(1), base = a;
    for (; e; e >>= 1) {
        if (e & 1) r = jop_bin(c, JO_MUL, r, base);
        if (e > 1) base = jop_bin(c, JO_MUL, base, base);
    }
    return r;
}

/* Returns a op b for integers of any size. */
static struct jval int_bin(struct jctx *c, enum jop op, struct jval a, struct jval b) {
    int64_t x = a.u.i, y = b.u.i, r;
    if (op == JO_POW) return int_pow(c, a, b);
    bool zero = b.tag != JT_BIG && y == 0;
    if (op == JO_DIV) {
        if (zero) jx_fail(c, "ZeroDivisionError", "division by zero");
        const int64_t exact = (int64_t)1 << 53;
        if (a.tag != JT_BIG && b.tag != JT_BIG && x <= exact && x >= -exact && y <= exact &&
            y >= -exact)
            return jv_float((double)x / (double)y);
        return jv_float(jbig_divide(c, a, b));
    }
    if ((op == JO_FLOORDIV || op == JO_MOD) && zero)
        jx_fail(c, "ZeroDivisionError", "integer division or modulo by zero");
    if (a.tag != JT_BIG && b.tag != JT_BIG) {
        if (op == JO_ADD && !__builtin_add_overflow(x, y, &r)) return jv_int(r);
        if (op == JO_SUB && !__builtin_sub_overflow(x, y, &r)) return jv_int(r);
        if (op == JO_MUL && !__builtin_mul_overflow(x, y, &r)) return jv_int(r);
        if ((op == JO_FLOORDIV || op == JO_MOD) && !(x == INT64_MIN && y == -1)) {
            int64_t q = x / y, m = x % y;
            if (m != 0 && (m < 0) != (y < 0)) {
                m += y;
                q -= 1;
            }
            return jv_int(op == JO_MOD ? m : q);
        }
    }
    return jbig_bin(c, op, a, b);
}

/* Returns the string, list or tuple v repeated `times` times; empty if that is negative. */
static struct jval repeat_value(struct jctx *c, struct jval v, struct jval times) {
    if (times.tag == JT_BIG)
        jx_fail(c, "OverflowError", "cannot fit 'int' into an index-sized integer");
    int64_t n = jv_index(c, times, "repeat count");
    if (n < 0) n = 0;
    if (v.tag == JT_STR) {
        if (v.len && (uint64_t)n > c->max_out / v.len)
            jx_fail(c, "limit", "a repeated string is too long");
        size_t m = jx_mark(c);
        for (int64_t i = 0; v.len && i < n; i++) jx_add(c, v.u.s, v.len);
        struct jval r = jx_take(c, m);
        r.flag = v.flag;
        return r;
    }
    const struct jlist *l = v.u.list;
    if (l->n && n > 10000000 / l->n) jx_fail(c, "limit", "a repeated list is too long");
    struct jval r = jv_list(c, (uint32_t)(l->n ? n * l->n : 0));
    r.tag = v.tag;
    for (int64_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < l->n; k++) jlist_add(c, r.u.list, l->v[k]);
    return r;
}

/* Returns a + b; if one is markup, the other is escaped first. */
static struct jval add_strings(struct jctx *c, struct jval a, struct jval b) {
    bool markup = (a.flag | b.flag) & JF_MARKUP;
    if (markup) { /* Markup escapes the other operand. */
        a = ju_escape(c, a);
        b = ju_escape(c, b);
    }
    if ((uint64_t)a.len + b.len > c->max_out) jx_fail(c, "limit", "a string grew too long");
    char *p = jx_str_alloc(c, (size_t)a.len + b.len);
    jx_str_copy(c, p, a.u.s, a.len);
    jx_str_copy(c, p + a.len, b.u.s, b.len);
    struct jval r = jv_strn(p, (size_t)a.len + b.len);
    r.flag = markup ? JF_MARKUP : 0;
    return r;
}

/* Returns a + b as a new list or tuple, whichever type a has. */
static struct jval add_lists(struct jctx *c, struct jval a, struct jval b) {
    struct jval r = jv_list(c, a.u.list->n + b.u.list->n);
    r.tag = a.tag;
    for (uint32_t i = 0; i < a.u.list->n; i++) jlist_add(c, r.u.list, a.u.list->v[i]);
    for (uint32_t i = 0; i < b.u.list->n; i++) jlist_add(c, r.u.list, b.u.list->v[i]);
    return r;
}

/* Returns whether v is a string, list or tuple. */
static bool is_seq(struct jval v) {
    return v.tag == JT_STR || v.tag == JT_LIST || v.tag == JT_TUPLE;
}

/* Returns whether v is an integer of any size or a truth value. */
static bool is_int(struct jval v) {
    return v.tag == JT_INT || v.tag == JT_BOOL || v.tag == JT_BIG;
}

struct jval jop_bin(struct jctx *c, enum jop op, struct jval a, struct jval b) {
    jx_step(c);
    if (a.tag == JT_INT && b.tag == JT_INT) return int_bin(c, op, a, b);
    if (op == JO_ADD && a.tag == b.tag && a.tag == JT_STR) return add_strings(c, a, b);
    if (op == JO_MOD && a.tag == JT_STR) return jfmt_percent(c, a, b);
    if (a.tag == JT_UNDEF) jx_undef_fail(c, a);
    if (b.tag == JT_UNDEF) jx_undef_fail(c, b);
    if (op == JO_ADD && a.tag == b.tag && (a.tag == JT_LIST || a.tag == JT_TUPLE))
        return add_lists(c, a, b);
    if (op == JO_MUL && is_seq(a) && is_int(b)) return repeat_value(c, a, b);
    if (op == JO_MUL && is_seq(b) && is_int(a)) return repeat_value(c, b, a);
    if (is_int(a) && is_int(b)) return int_bin(c, op, a, b);
    if (jv_is_num(a) && jv_is_num(b)) return float_bin(c, op, jv_num(c, a), jv_num(c, b));
    bad_operands(c, op, a, b);
}

struct jval jop_neg(struct jctx *c, struct jval v, bool neg) {
    if (v.tag == JT_UNDEF) jx_undef_fail(c, v);
    if (v.tag == JT_FLOAT) return jv_float(neg ? -v.u.f : v.u.f);
    if (!is_int(v))
        jx_fail(c, "TypeError", "bad operand type for unary %s: '%s'", neg ? "-" : "+", jv_type(v));
    if (!neg) return v.tag == JT_BOOL ? jv_int(v.u.i) : v;
    return jop_bin(c, JO_SUB, jv_int(0), v);
}

bool jop_in(struct jctx *c, struct jval x, struct jval in) {
    if (in.tag == JT_STR) {
        if (x.tag != JT_STR)
            jx_fail(c, "TypeError", "'in <string>' requires string as left operand, not %s",
                    jv_type(x));
        jx_bytes(c, in.len);
        return ju_find(in, x, 0) >= 0;
    }
    if (in.tag == JT_DICT) return jdict_get(c, in.u.dict, x) != NULL;
    if (in.tag == JT_VIEW && in.u.view->kind == JVIEW_KEYS)
        return jdict_get(c, in.u.view->d, x) != NULL;
    if (jv_length(c, in) < 0 && in.tag != JT_GEN)
        jx_fail(c, "TypeError", "argument of type '%s' is not iterable", jv_type(in));
    struct jiter it;
    struct jval v;
    jiter_init(c, &it, in);
    while (jiter_next(c, &it, &v)) {
        jx_step(c);
        if (jv_equal(c, v, x)) return true;
    }
    return false;
}

bool jop_compare(struct jctx *c, enum jop op, struct jval a, struct jval b) {
    if (op == JO_EQ) return jv_equal(c, a, b);
    if (op == JO_NE) return !jv_equal(c, a, b);
    if (op == JO_IN) return jop_in(c, a, b);
    if (op == JO_NOTIN) return !jop_in(c, a, b);
    int d = jv_order(c, a, b, op_text(op));
    if (d == 2) return false;
    return op == JO_LT ? d < 0 : op == JO_LE ? d <= 0 : op == JO_GT ? d > 0 : d >= 0;
}

/* ---- attributes ------------------------------------------------------------------------------ */

/* Returns an undefined value whose use fails because the sandbox forbids it. */
static struct jval unsafe(struct jctx *c, struct jval obj, struct jval name) {
    size_t m = jx_mark(c);
    const char *head = "access to attribute ", *of = " of '", *tail = "' object is unsafe.";
    jx_add(c, head, strlen(head));
    jv_repr(c, name);
    jx_add(c, of, strlen(of));
    jx_add(c, jv_type(obj), strlen(jv_type(obj)));
    jx_add(c, tail, strlen(tail));
    struct jval hint = jx_take(c, m);
    return jv_undef_hint(c, jv_cstr(c, hint), name, true);
}

/* Returns the method `row` bound to the value self. */
static struct jval bind_method(struct jctx *c, struct jval self, const struct jrow *row) {
    struct jval v = jv_tag(JT_FUNC);
    v.u.func = jx_alloc(c, 1, sizeof *v.u.func);
    v.u.func->row = row;
    v.u.func->self = self;
    return v;
}

/* Finds an attribute that is not a method of a string, dict or list; false: not found. */
static bool object_attr(struct jctx *c, struct jval obj, struct jval name, struct jval *out) {
    switch ((int)obj.tag) {
    case JT_NS: {
        struct jval *v = jdict_get(c, &obj.u.ns->d, name);
        if (v) *out = *v;
        return v != NULL;
    }
    case JT_LOOP:
        *out = jeval_loop_attr(c, obj.u.loop, name);
        return out->tag != JT_MISSING;
    case JT_MACRO:
        if (jv_is(name, "name")) {
            *out = obj.u.macro->name;
        } else if (jv_is(name, "arguments")) {
            struct jval t = jv_list(c, 0);
            t.tag = JT_TUPLE;
            for (const struct jnode *k = obj.u.macro->node->list; k; k = k->next)
                jlist_add(c, t.u.list, k->val);
            *out = t;
        } else if (jv_is(name, "caller") || jv_is(name, "catch_kwargs") ||
                   jv_is(name, "catch_varargs")) {
            const struct jscope *s = obj.u.macro->node->scope;
            *out = jv_bool((jv_is(name, "caller")         ? s->caller_slot
                            : jv_is(name, "catch_kwargs") ? s->kwargs_slot
                                                          : s->varargs_slot) >= 0);
        } else {
            return false;
        }
        return true;
    case JT_CYCLER:
        if (jv_is(name, "current")) {
            *out = obj.u.cycle->items.v[obj.u.cycle->pos];
            return true;
        }
        break;
    case JT_INT:
    case JT_BOOL:
    case JT_BIG:
        if (jv_is(name, "real") || jv_is(name, "numerator")) {
            *out = jop_neg(c, obj, false);
            return true;
        }
        if (jv_is(name, "imag") || jv_is(name, "denominator")) {
            *out = jv_int(jv_is(name, "imag") ? 0 : 1);
            return true;
        }
        break;
    case JT_FLOAT:
        if (jv_is(name, "real") || jv_is(name, "imag")) {
            *out = jv_is(name, "real") ? obj : jv_float(0);
            return true;
        }
        break;
    case JT_RANGE:
        if (jv_is(name, "start") || jv_is(name, "stop") || jv_is(name, "step")) {
            const struct jrange *r = obj.u.range;
            *out = jv_int(jv_is(name, "start")  ? r->start
                          : jv_is(name, "stop") ? r->stop
                                                : r->step);
            return true;
        }
        break;
    case JT_TUPLE: /* item of groupby */
        if (obj.aux && (jv_is(name, "grouper") || jv_is(name, "list"))) {
            *out = obj.u.list->v[jv_is(name, "list")];
            return true;
        }
        break;
    default:
        break;
    }
    const struct jrow *row = jlib_method((enum jtag)obj.tag, name);
    if (row) *out = bind_method(c, obj, row);
    return row != NULL;
}

/* Returns whether a name is an attribute of every Python object (__class__); the sandbox hides
 * those. */
static bool is_dunder(struct jval name) {
    static const char *const names[] = {"__class__",
                                        "__doc__",
                                        "__init__",
                                        "__eq__",
                                        "__ne__",
                                        "__hash__",
                                        "__str__",
                                        "__repr__",
                                        "__dir__",
                                        "__reduce__",
                                        "__getattribute__",
                                        "__setattr__",
                                        "__delattr__",
                                        "__format__",
                                        "__new__",
                                        "__sizeof__",
                                        "__subclasshook__",
                                        "__init_subclass__",
                                        "__reduce_ex__",
                                        "__lt__",
                                        "__le__",
                                        "__gt__",
                                        "__ge__"};
    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (jv_is(name, names[i])) return true;
    return false;
}

/* Sets *out to obj.name, an attribute or method. False: it has neither. n: the call site, or
 * NULL. */
static bool get_attr(struct jctx *c, struct jval obj, struct jval name, const struct jnode *n,
                     struct jval *out) {
    const struct jrow *row = NULL;
    if (name.len && name.u.s[0] == '_') {
        struct jval *v = obj.tag == JT_NS ? jdict_get(c, &obj.u.ns->d, name) : NULL;
        if (!v && !is_dunder(name)) return false;
        *out = unsafe(c, obj, name);
        return true;
    }
    if (n && obj.tag == JT_STR) {
        row = n->m_str;
    } else if (n && obj.tag == JT_DICT) {
        row = n->m_dict;
    } else if (n && obj.tag == JT_LIST) {
        row = n->m_list;
    } else {
        if (!object_attr(c, obj, name, out)) return false;
        if (out->tag != JT_FUNC || jrow_ok(c, out->u.func->row)) return true;
        *out = unsafe(c, obj, name);
        return true;
    }
    if (!row) return false;
    *out = jrow_ok(c, row) ? bind_method(c, obj, row) : unsafe(c, obj, name);
    return true;
}

/* Evaluates Python's obj[key]; false: TypeError or LookupError, which Jinja turns into Undefined.
 */
static bool get_item(struct jctx *c, struct jval obj, struct jval key, struct jval *out) {
    if (obj.tag == JT_DICT) {
        if (key.tag == JT_LIST || key.tag == JT_DICT) return false;
        struct jval *v = jdict_get(c, obj.u.dict, key);
        if (v) *out = *v;
        return v != NULL;
    }
    if (key.tag != JT_INT && key.tag != JT_BOOL) return false;
    int64_t i = key.u.i;
    if (obj.tag == JT_LIST || obj.tag == JT_TUPLE) {
        if (i < 0) i += obj.u.list->n;
        if (i < 0 || i >= obj.u.list->n) return false;
        *out = obj.u.list->v[i];
        return true;
    }
    if (obj.tag == JT_STR) {
        jx_bytes(c, obj.len);
        if (i < 0) i += (int64_t)ju_count(obj);
        size_t at = i < 0 ? obj.len : ju_offset(obj, (size_t)i), e = at;
        if (at >= obj.len) return false;
        ju_next(obj.u.s, obj.len, &e);
        *out = jv_strn(obj.u.s + at, e - at);
        out->flag = obj.flag;
        return true;
    }
    if (obj.tag == JT_RANGE) {
        if (i < 0) i += obj.u.range->n;
        if (i < 0 || i >= obj.u.range->n) return false;
        *out = jv_int(obj.u.range->start + i * obj.u.range->step);
        return true;
    }
    if (obj.tag == JT_BYTES) {
        if (i < 0) i += obj.len;
        if (i < 0 || i >= obj.len) return false;
        *out = jv_int((unsigned char)obj.u.s[i]);
        return true;
    }
    return false;
}

struct jval jop_attr(struct jctx *c, struct jval obj, struct jval name, const struct jnode *n) {
    struct jval v;
    if (obj.tag == JT_UNDEF) {
        if (is_dunder(name)) return unsafe(c, obj, name);
        jx_undef_fail(c, obj);
    }
    if (get_attr(c, obj, name, n, &v) || get_item(c, obj, name, &v)) return v;
    return jv_undef(c, obj, name);
}

struct jval jop_item(struct jctx *c, struct jval obj, struct jval key) {
    struct jval v;
    if (obj.tag == JT_UNDEF) jx_undef_fail(c, obj);
    if (key.tag == JT_SLICE) return jop_slice(c, obj, key.u.slice);
    if (get_item(c, obj, key, &v)) return v;
    if (key.tag == JT_STR && get_attr(c, obj, key, NULL, &v)) return v;
    return jv_undef(c, obj, key);
}

/* ---- slices ---------------------------------------------------------------------------------- */

/* Returns a slice bound clamped to [lo, hi]; negative ones count from n. None gives `otherwise`. */
static int64_t bound_of(struct jctx *c, struct jval v, int64_t n, int64_t lo, int64_t hi,
                        int64_t otherwise) {
    if (v.tag == JT_NONE || v.tag == JT_MISSING) return otherwise;
    if (v.tag == JT_UNDEF || (v.tag != JT_INT && v.tag != JT_BOOL && v.tag != JT_BIG))
        jx_fail(c, "TypeError",
                "slice indices must be integers or None or have an __index__ method");
    int64_t i = jv_index(c, v, "slice");
    if (i < 0) i = i < -n ? -1 : i + n;
    return i < lo ? lo : i > hi ? hi : i;
}

struct jval jop_slice(struct jctx *c, struct jval obj, const struct jslice *s) {
    if (obj.tag == JT_UNDEF) jx_undef_fail(c, obj);
    if (obj.tag == JT_DICT) jx_fail(c, "TypeError", "unhashable type: 'slice'");
    int64_t n =
        obj.tag == JT_STR || obj.tag == JT_LIST || obj.tag == JT_TUPLE || obj.tag == JT_RANGE
            ? jv_length(c, obj)
            : -1;
    if (n < 0) jx_fail(c, "TypeError", "'%s' object is not subscriptable", jv_type(obj));
    int64_t step = s->step.tag == JT_NONE ? 1 : bound_of(c, s->step, 0, INT64_MIN, INT64_MAX, 1);
    if (s->step.tag == JT_INT || s->step.tag == JT_BOOL) step = s->step.u.i;
    if (step == 0) jx_fail(c, "ValueError", "slice step cannot be zero");
    int64_t lo = step > 0 ? 0 : -1, hi = step > 0 ? n : n - 1;
    int64_t a = bound_of(c, s->start, n, lo, hi, step > 0 ? lo : hi);
    int64_t b = bound_of(c, s->stop, n, lo, hi, step > 0 ? hi : lo);
    if (obj.tag == JT_STR && step == 1) {
        jx_bytes(c, 3 * (size_t)obj.len);
        size_t x = ju_offset(obj, (size_t)a),
               y = b > a ? x + ju_offset(jv_strn(obj.u.s + x, obj.len - x), (size_t)(b - a)) : x;
        struct jval r = jv_strn(obj.u.s + x, y - x);
        r.flag = obj.flag;
        return r;
    }
    if (obj.tag == JT_RANGE) {
        const struct jrange *g = obj.u.range;
        struct jval v = jv_tag(JT_RANGE);
        struct jrange *r = jx_alloc(c, 1, sizeof *r);
        int64_t count = step > 0 ? (b > a ? (b - a - 1) / step + 1 : 0)
                                 : (a > b ? (a - b - 1) / -(step < -n ? -n : step) + 1 : 0);
        *r = (struct jrange){g->start + a * g->step, g->start + b * g->step,
                             g->step * (step > n    ? n + 1
                                        : step < -n ? -n - 1
                                                    : step),
                             count};
        v.u.range = r;
        return v;
    }
    struct jval r = jv_list(c, 0);
    struct jlist *chars = obj.tag == JT_STR ? jv_to_list(c, obj) : NULL;
    size_t m = jx_mark(c);
    for (int64_t i = a; step > 0 ? i < b : i > b;) {
        struct jval v;
        jx_step(c);
        if (chars) {
            jx_add(c, chars->v[i].u.s, chars->v[i].len);
        } else if (get_item(c, obj, jv_int(i), &v)) {
            jlist_add(c, r.u.list, v);
        }
        if (step > 0 ? i > INT64_MAX - step : i < INT64_MIN - step) break;
        i += step;
    }
    if (chars) {
        r = jx_take(c, m);
        r.flag = obj.flag;
    } else if (obj.tag == JT_TUPLE) {
        r.tag = JT_TUPLE;
    }
    return r;
}
