// SPDX-License-Identifier: MIT
/* template/jinja_lib.c - lookup of library rows by name; tests, global functions, methods of dicts
 * and lists.
 *
 * A signature that begins with '!' is available in lenient mode only. In other modes, methods that
 * modify a value raise a security error, and filters are unknown. */
#include "template/jinja_lib.h"

#include <string.h>
#include <time.h>

#include "base/os.h"

/* Returns the row of this name in a table; NULL: unknown. */
static const struct jrow *row_of(const struct jrow *t, struct jval name) {
    for (; t->name; t++)
        if (jv_is(name, t->name)) return t;
    return NULL;
}

const struct jrow *jlib_filter(struct jval name) {
    const struct jrow *r = row_of(jlib_filters_text, name);
    return r ? r : row_of(jlib_filters_seq, name);
}
const struct jrow *jlib_test(struct jval name) {
    return row_of(jlib_tests, name);
}
const struct jrow *jlib_global(struct jval name) {
    return row_of(jlib_globals, name);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static bool is_string(struct jval v) {
    return v.tag == JT_STR;
}
#define TEST(name, expr)                                                                           \
    static struct jval name(struct jctx *c, struct jval *v) {                                      \
        UNUSED(c);                                                                                 \
        return jv_bool(expr);                                                                      \
    }
TEST(t_defined, v[0].tag != JT_UNDEF)
TEST(t_undefined, v[0].tag == JT_UNDEF)
TEST(t_none, v[0].tag == JT_NONE)
TEST(t_boolean, v[0].tag == JT_BOOL)
TEST(t_true, v[0].tag == JT_BOOL && v[0].u.i)
TEST(t_false, v[0].tag == JT_BOOL && !v[0].u.i)
TEST(t_integer, v[0].tag == JT_INT || v[0].tag == JT_BIG)
TEST(t_float, v[0].tag == JT_FLOAT)
TEST(t_number, jv_is_num(v[0]))
TEST(t_string, is_string(v[0]))
TEST(t_mapping, v[0].tag == JT_DICT)
TEST(t_iterable, jv_length(c, v[0]) >= 0 || v[0].tag == JT_GEN || v[0].tag == JT_LOOP)
TEST(t_sequence, jv_length(c, v[0]) >= 0 && v[0].tag != JT_VIEW)
TEST(t_callable, v[0].tag == JT_FUNC || v[0].tag == JT_MACRO || v[0].tag == JT_UNDEF ||
                     v[0].tag == JT_LOOP || v[0].tag == JT_JOINER)
TEST(t_escaped, is_string(v[0]) && (v[0].flag & JF_MARKUP))
TEST(t_lower, jstr_is_case(jv_to_str(c, v[0]), false))
TEST(t_upper, jstr_is_case(jv_to_str(c, v[0]), true))
TEST(t_in, jop_in(c, v[0], v[1]))
TEST(t_eq, jv_equal(c, v[0], v[1]))
TEST(t_ne, !jv_equal(c, v[0], v[1]))
TEST(t_lt, jop_compare(c, JO_LT, v[0], v[1]))
TEST(t_le, jop_compare(c, JO_LE, v[0], v[1]))
TEST(t_gt, jop_compare(c, JO_GT, v[0], v[1]))
TEST(t_ge, jop_compare(c, JO_GE, v[0], v[1]))
TEST(t_even, jv_equal(c, jop_bin(c, JO_MOD, v[0], jv_int(2)), jv_int(0)))
TEST(t_odd, jv_equal(c, jop_bin(c, JO_MOD, v[0], jv_int(2)), jv_int(1)))
TEST(t_divisibleby, jv_equal(c, jop_bin(c, JO_MOD, v[0], v[1]), jv_int(0)))
/* Returns true; fails, without returning, if v cannot be a dict's key. */
static bool check_hashable(struct jctx *c, struct jval v) {
    struct jval d = jv_dict(c, 1);
    jdict_set(c, d.u.dict, v, v); /* fails for lists and dicts, as in Python */
    return true;
}
TEST(t_filter, check_hashable(c, v[0]) && is_string(v[0]) && jlib_filter(v[0]) &&
                   jlib_filter(v[0])->sig[0] != '!')
TEST(t_test, check_hashable(c, v[0]) && is_string(v[0]) && jlib_test(v[0]))

/* Implements the test sameas. */
static struct jval t_sameas(struct jctx *c, struct jval *v) {
    struct jval a = v[0], b = v[1];
    UNUSED(c);
    if (a.tag != b.tag) return jv_bool(false);
    if (a.tag == JT_NONE) return jv_bool(true);
    if (a.tag == JT_STR) return jv_bool(jv_eqs(a, b) && (a.u.s == b.u.s || a.len <= 1));
    return jv_bool(a.u.i == b.u.i);
}

const struct jrow jlib_tests[] = {
    {"defined", "", t_defined, NULL},
    {"undefined", "", t_undefined, NULL},
    {"none", "", t_none, NULL},
    {"string", "", t_string, NULL},
    {"mapping", "", t_mapping, NULL},
    {"iterable", "", t_iterable, NULL},
    {"sequence", "", t_sequence, NULL},
    {"true", "", t_true, NULL},
    {"false", "", t_false, NULL},
    {"boolean", "", t_boolean, NULL},
    {"integer", "", t_integer, NULL},
    {"float", "", t_float, NULL},
    {"number", "", t_number, NULL},
    {"callable", "", t_callable, NULL},
    {"escaped", "", t_escaped, NULL},
    {"lower", "", t_lower, NULL},
    {"upper", "", t_upper, NULL},
    {"in", "seq", t_in, NULL},
    {"eq", "b", t_eq, NULL},
    {"equalto", "b", t_eq, NULL},
    {"==", "b", t_eq, NULL},
    {"ne", "b", t_ne, NULL},
    {"!=", "b", t_ne, NULL},
    {"lt", "b", t_lt, NULL},
    {"lessthan", "b", t_lt, NULL},
    {"<", "b", t_lt, NULL},
    {"le", "b", t_le, NULL},
    {"<=", "b", t_le, NULL},
    {"gt", "b", t_gt, NULL},
    {"greaterthan", "b", t_gt, NULL},
    {">", "b", t_gt, NULL},
    {"ge", "b", t_ge, NULL},
    {">=", "b", t_ge, NULL},
    {"even", "", t_even, NULL},
    {"odd", "", t_odd, NULL},
    {"divisibleby", "num", t_divisibleby, NULL},
    {"sameas", "other", t_sameas, NULL},
    {"filter", "", t_filter, NULL},
    {"test", "", t_test, NULL},
    {NULL, NULL, NULL, NULL},
};

/* ---- global functions; v[0] is unused -------------------------------------------------------- */

/* Implements range(stop) and range(start, stop, step), up to c->max_range items. */
static struct jval g_range(struct jctx *c, struct jargs *a) {
    int64_t p[3] = {0, 0, 1};
    int n = a->n - 1;
    if (n < 1 || n > 3 || a->n_kw)
        jx_fail(c, "TypeError", "range expected 1 to 3 arguments, got %d", n);
    for (int i = 0; i < n; i++) p[n == 1 ? 1 : i] = jv_index(c, a->v[i + 1], "range");
    if (p[2] == 0) jx_fail(c, "ValueError", "range() arg 3 must not be zero");
    struct jval v = jv_tag(JT_RANGE);
    struct jrange *r = jx_alloc(c, 1, sizeof *r);
    *r = (struct jrange){p[0], p[1], p[2], 0};
    uint64_t step = p[2] > 0 ? (uint64_t)p[2] : 0 - (uint64_t)p[2];
    uint64_t span = p[2] > 0 ? (uint64_t)p[1] - (uint64_t)p[0] : (uint64_t)p[0] - (uint64_t)p[1];
    if (p[2] > 0 ? p[1] > p[0] : p[1] < p[0]) {
        uint64_t len = (span - 1) / step + 1;
        if (len > (uint64_t)c->max_range)
            jx_fail(c, "OverflowError",
                    "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%lld).",
                    (long long)c->max_range);
        r->n = (int64_t)len;
    }
    v.u.range = r;
    return v;
}

/* Sets members from a dict or pairs and from keyword arguments; what: name for errors. */
static void dict_update(struct jctx *c, struct jdict *d, struct jargs *a, const char *what) {
    if (a->n > 2) jx_fail(c, "TypeError", "%s expected at most 1 argument, got %d", what, a->n - 1);
    if (a->n == 2 && a->v[1].tag == JT_DICT) {
        for (uint32_t i = 0; i < a->v[1].u.dict->n; i++)
            jdict_set(c, d, a->v[1].u.dict->e[i].k, a->v[1].u.dict->e[i].v);
    } else if (a->n == 2) {
        struct jlist *l = jv_to_list(c, a->v[1]);
        for (uint32_t i = 0; i < l->n; i++) {
            struct jlist *pair = jv_to_list(c, l->v[i]);
            if (pair->n != 2)
                jx_fail(c, "ValueError",
                        "dictionary update sequence element has length %u; 2 is required",
                        (unsigned)pair->n);
            jdict_set(c, d, pair->v[0], pair->v[1]);
        }
    }
    for (int i = 0; i < a->n_kw; i++) jdict_set(c, d, a->kw[i].name, a->kw[i].v);
}
static struct jval g_dict(struct jctx *c, struct jargs *a) {
    struct jval d = jv_dict(c, 0);
    dict_update(c, d.u.dict, a, "dict");
    return d;
}
static struct jval g_namespace(struct jctx *c, struct jargs *a) {
    struct jval v = jv_tag(JT_NS);
    v.u.ns = jx_alloc(c, 1, sizeof *v.u.ns);
    dict_update(c, &v.u.ns->d, a, "namespace");
    return v;
}
/* Implements lipsum(n=5, html=true), always with the same text. */
static struct jval g_lipsum(struct jctx *c, struct jval *v) {
    static const char text[] = "Lorem ipsum dolor sit amet consectetuer adipiscing elit.";
    int64_t n = v[1].tag == JT_MISSING ? 5 : jv_index(c, v[1], "n");
    bool html = v[2].tag == JT_MISSING || jv_truth(c, v[2]);
    if (n > 1000) jx_fail(c, "limit", "lipsum is too long");
    size_t m = jx_mark(c);
    for (int64_t i = 0; i < n; i++) {
        if (i) jx_add(c, "\n\n", html ? 1 : 2);
        if (html) jx_add(c, "<p>", 3);
        jx_add(c, text, sizeof text - 1);
        if (html) jx_add(c, "</p>", 4);
    }
    struct jval r = jx_take(c, m);
    r.flag = html ? JF_MARKUP : 0;
    return r;
}
/* Implements cycler(items...). */
static struct jval g_cycler(struct jctx *c, struct jargs *a) {
    struct jval v = jv_tag(JT_CYCLER);
    if (a->n < 2 || a->n_kw) jx_fail(c, "RuntimeError", "at least one item has to be provided");
    v.u.cycle = jx_alloc(c, 1, sizeof *v.u.cycle);
    for (int i = 1; i < a->n; i++) jlist_add(c, &v.u.cycle->items, a->v[i]);
    return v;
}
/* Implements joiner(sep=", "). */
static struct jval g_joiner(struct jctx *c, struct jval *v) {
    struct jval r = jv_tag(JT_JOINER);
    r.u.cycle = jx_alloc(c, 1, sizeof *r.u.cycle);
    r.u.cycle->sep = v[1].tag == JT_MISSING ? jv_str(", ") : v[1];
    return r;
}
/* Implements raise_exception(message). */
static struct jval g_raise(struct jctx *c, struct jval *v) {
    jx_fail(c, "raise", "%s", jv_cstr(c, jv_to_str(c, v[1])));
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
/* Writes what one directive of strftime gives, and returns its length. The flags `-`, `_` and `0`
 * of numbers (no padding, spaces, zeros) are applied here, because Windows' C library has none. */
static size_t directive(char *text, size_t size, const char *fmt, const struct tm *tm) {
    const char plain[] = {'%', fmt[2], 0};
    if (!strchr("-_0", fmt[1]) || !fmt[2] || fmt[3] || !strchr("dejmyCgHIMSUVW", fmt[2]))
        return strftime(text, size, fmt, tm);
    size_t n = strftime(text, size, plain, tm), lead = 0;
    while (lead + 1 < n && (text[lead] == '0' || text[lead] == ' ')) lead++;
    if (fmt[1] == '-') {
        n -= lead;
        memmove(text, text + lead, n);
    } else {
        memset(text, fmt[1] == '0' ? '0' : ' ', lead);
    }
    return n;
}
#pragma GCC diagnostic pop

/* Formats the time of the rendering, which is read only once. A given time is interpreted as local
 * time. */
static struct jval g_strftime(struct jctx *c, struct jval *v) {
    time_t t = c->now >= 0 ? (time_t)c->now : time(NULL);
    struct tm tm;
    char text[1024];
    if (v[1].tag != JT_STR)
        jx_fail(c, "TypeError", "strftime() argument 1 must be str, not %s", jv_type(v[1]));
    if (c->now >= 0) {
        gmtime_r(&t, &tm);
    } else {
        localtime_r(&t, &tm);
        c->now = (int64_t)t + os_gmtoff(t);
    }
    size_t m = jx_mark(c);
    for (size_t i = 0; i < v[1].len;
         /* Directives are passed to strftime one at a time, since %f, %z and %Z are Python's own.
          */
         i++) {
        char ch = v[1].u.s[i], fmt[8] = "%";
        if (ch != '%' || i + 1 >= v[1].len) {
            jx_add(c, &ch, 1);
            continue;
        }
        size_t k = 1;
        do fmt[k++] = v[1].u.s[++i];
        while (k < sizeof fmt - 1 && i + 1 < v[1].len && strchr("-_0^#EO", fmt[k - 1]));
        fmt[k] = 0;
        if (strcmp(fmt, "%f") == 0) {
            jx_add(c, "000000", 6);
        } else if (strcmp(fmt, "%z") != 0 && strcmp(fmt, "%Z") != 0) {
            jx_add(c, text, directive(text, sizeof text, fmt, &tm));
        }
    }
    return jx_take(c, m);
}

const struct jrow jlib_globals[] = {
    {"range", "*", NULL, g_range},
    {"dict", "*", NULL, g_dict},
    {"namespace", "*", NULL, g_namespace},
    {"lipsum", "n? html? min? max?", g_lipsum, NULL},
    {"cycler", "*", NULL, g_cycler},
    {"joiner", "sep?", g_joiner, NULL},
    {"raise_exception", "message", g_raise, NULL},
    {"strftime_now", "format", g_strftime, NULL},
    {NULL, NULL, NULL, NULL},
};

/* ---- methods of other types ------------------------------------------------------------------ */

/* Implements dict.get(key, default=None). */
static struct jval d_get(struct jctx *c, struct jval *v) {
    struct jval *x = jdict_get(c, v[0].u.dict, v[1]);
    return x ? *x : v[2].tag == JT_MISSING ? jv_none() : v[2];
}
/* Returns a live view of a dict's items, keys or values. */
static struct jval dict_view(struct jctx *c, struct jval d, enum jview_kind kind) {
    struct jval v = jv_tag(JT_VIEW);
    v.u.view = jx_alloc(c, 1, sizeof *v.u.view);
    *v.u.view = (struct jview){kind, d.u.dict};
    return v;
}
static struct jval d_items(struct jctx *c, struct jval *v) {
    return dict_view(c, v[0], JVIEW_ITEMS);
}
static struct jval d_keys(struct jctx *c, struct jval *v) {
    return dict_view(c, v[0], JVIEW_KEYS);
}
static struct jval d_values(struct jctx *c, struct jval *v) {
    return dict_view(c, v[0], JVIEW_VALUES);
}
static struct jval d_copy(struct jctx *c, struct jval *v) {
    struct jval d = jv_dict(c, v[0].u.dict->n);
    for (uint32_t i = 0; i < v[0].u.dict->n; i++)
        jdict_set(c, d.u.dict, v[0].u.dict->e[i].k, v[0].u.dict->e[i].v);
    return d;
}
static struct jval d_update(struct jctx *c, struct jargs *a) {
    dict_update(c, a->v[0].u.dict, a, "update");
    return jv_none();
}
static const struct jrow dict_methods[] = {
    {"get", "key default?", d_get, NULL},
    {"items", "", d_items, NULL},
    {"keys", "", d_keys, NULL},
    {"values", "", d_values, NULL},
    {"copy", "", d_copy, NULL},
    {"update", "!*", NULL, d_update},
    {"pop", "", NULL, NULL},
    {"popitem", "", NULL, NULL},
    {"setdefault", "", NULL, NULL},
    {"clear", "", NULL, NULL},
    {NULL, NULL, NULL, NULL},
};

/* Implements list.index(value, start, stop). */
static struct jval l_index(struct jctx *c, struct jval *v) {
    struct jlist *l = jv_to_list(c, v[0]);
    int64_t from = v[2].tag == JT_MISSING ? 0 : jv_index(c, v[2], "start"),
            to = v[3].tag == JT_MISSING ? l->n : jv_index(c, v[3], "stop");
    if (from < 0) from = from + l->n < 0 ? 0 : from + l->n;
    if (to < 0) to += l->n;
    for (int64_t i = from; i < to && i < l->n; i++)
        if (jv_equal(c, l->v[i], v[1])) return jv_int(i);
    jx_fail(c, "ValueError", "the value is not in the list");
}
/* Implements list.count(value). */
static struct jval l_count(struct jctx *c, struct jval *v) {
    struct jlist *l = jv_to_list(c, v[0]);
    int64_t n = 0;
    for (uint32_t i = 0; i < l->n; i++) n += jv_equal(c, l->v[i], v[1]);
    return jv_int(n);
}
static struct jval l_copy(struct jctx *c, struct jval *v) {
    return jv_list_val(jv_to_list(c, v[0]));
}
static struct jval l_append(struct jctx *c, struct jval *v) {
    jlist_add(c, v[0].u.list, v[1]);
    return jv_none();
}
/* Implements list.pop(index=-1). */
static struct jval l_pop(struct jctx *c, struct jval *v) {
    struct jlist *l = v[0].u.list;
    int64_t i = v[1].tag == JT_MISSING ? -1 : jv_index(c, v[1], "pop");
    if (i < 0) i += l->n;
    if (i < 0 || i >= l->n) jx_fail(c, "IndexError", "pop index out of range");
    struct jval x = l->v[i];
    memmove(l->v + i, l->v + i + 1, (size_t)(l->n - i - 1) * sizeof *l->v);
    l->n--;
    return x;
}
static const struct jrow list_methods[] = {
    {"index", "value start? stop?", l_index, NULL},
    {"count", "value", l_count, NULL},
    {"copy", "", l_copy, NULL},
    {"append", "!value", l_append, NULL},
    {"pop", "!index?", l_pop, NULL},
    {"extend", "", NULL, NULL},
    {"insert", "", NULL, NULL},
    {"remove", "", NULL, NULL},
    {"reverse", "", NULL, NULL},
    {"sort", "", NULL, NULL},
    {"clear", "", NULL, NULL},
    {NULL, NULL, NULL, NULL},
};
static const struct jrow tuple_methods[] = {
    {"index", "value start? stop?", l_index, NULL},
    {"count", "value", l_count, NULL},
    {NULL, NULL, NULL, NULL},
};

static struct jval n_bit_length(struct jctx *c, struct jval *v) {
    int64_t n = 0;
    uint64_t u = v[0].u.i < 0 ? 0 - (uint64_t)v[0].u.i : (uint64_t)v[0].u.i;
    if (v[0].tag == JT_BIG)
        jx_fail(c, "OverflowError", "bit_length of an integer beyond 64 bits is not supported");
    for (; u; u >>= 1) n++;
    return jv_int(n);
}
/* Implements is_integer() of int and float. */
static struct jval n_is_integer(struct jctx *c, struct jval *v) {
    UNUSED(c);
    return jv_bool(v[0].tag != JT_FLOAT ||
                   (v[0].u.f - v[0].u.f == 0 && v[0].u.f == __builtin_floor(v[0].u.f)));
}
/* Implements conjugate() of numbers, which returns them unchanged. */
static struct jval n_conjugate(struct jctx *c, struct jval *v) {
    return jop_neg(c, v[0], false);
}
static const struct jrow int_methods[] = {
    {"bit_length", "", n_bit_length, NULL},
    {"conjugate", "", n_conjugate, NULL},
    {NULL, NULL, NULL, NULL},
};
static const struct jrow float_methods[] = {
    {"is_integer", "", n_is_integer, NULL},
    {"conjugate", "", n_conjugate, NULL},
    {NULL, NULL, NULL, NULL},
};

/* Implements bytes.decode(), always as UTF-8. */
static struct jval b_decode(struct jctx *c, struct jval *v) {
    return jv_copy(c, v[0].u.s, v[0].len);
}
static const struct jrow bytes_methods[] = {{"decode", "encoding? errors?", b_decode, NULL},
                                            {NULL, NULL, NULL, NULL}};

/* Implements cycler.next(): returns the current item and advances. */
static struct jval y_next(struct jctx *c, struct jval *v) {
    UNUSED(c);
    struct jcycle *y = v[0].u.cycle;
    struct jval r = y->items.v[y->pos];
    y->pos = (y->pos + 1) % y->items.n;
    return r;
}
static struct jval y_reset(struct jctx *c, struct jval *v) {
    UNUSED(c);
    v[0].u.cycle->pos = 0;
    return jv_none();
}
static const struct jrow cycler_methods[] = {
    {"next", "", y_next, NULL}, {"reset", "", y_reset, NULL}, {NULL, NULL, NULL, NULL}};

const struct jrow *jlib_method(enum jtag type, struct jval name) {
    static const struct jrow *const tables[JT_COUNT] = {
        [JT_STR] = jlib_str_methods, [JT_DICT] = dict_methods,   [JT_LIST] = list_methods,
        [JT_TUPLE] = tuple_methods,  [JT_RANGE] = tuple_methods, [JT_CYCLER] = cycler_methods,
        [JT_INT] = int_methods,      [JT_BIG] = int_methods,     [JT_BOOL] = int_methods,
        [JT_FLOAT] = float_methods,  [JT_BYTES] = bytes_methods,
    };
    return tables[type] ? row_of(tables[type], name) : NULL;
}
