// SPDX-License-Identifier: MIT
/* template/jinja_seq.c - filters on sequences and mappings. map, select, reject, selectattr and
 * rejectattr are lazy: an item is computed, and its error raised, only when it is consumed. */
#include "template/jinja_lib.h"

#include <string.h>

static bool is_given(struct jval v) {
    return v.tag != JT_MISSING;
}
/* Returns whether the optional argument was passed and is not none. */
static bool is_set(struct jval v) {
    return v.tag != JT_MISSING && v.tag != JT_NONE;
}

/* Returns the value at a path such as "a.b.0"; a number is an index. */
struct jval jlib_path(struct jctx *c, struct jval obj, struct jval path) {
    if (path.tag != JT_STR) return jop_item(c, obj, path);
    for (size_t i = 0;;) {
        size_t e = i;
        bool digits = true;
        int64_t n = 0;
        for (; e < path.len && path.u.s[e] != '.'; e++) {
            char ch = path.u.s[e];
            digits = digits && ch >= '0' && ch <= '9' && e - i < 9;
            n = digits ? n * 10 + (ch - '0') : 0;
        }
        obj = jop_item(c, obj, digits && e > i ? jv_int(n) : jv_strn(path.u.s + i, e - i));
        if (e >= path.len) return obj;
        i = e + 1;
    }
}

/* Returns strings in lower case and other values unchanged. */
static struct jval fold_case(struct jctx *c, struct jval v) {
    return v.tag == JT_STR ? ju_case(c, v, JU_LOWER) : v;
}

/* ---- sorting --------------------------------------------------------------------------------- */

struct keyed {
    struct jval key, v;
};

/* Sorts with merge sort, which is stable. A failing comparison longjmps, which must not cross
 * qsort. */
static void merge_sort(struct jctx *c, struct keyed *a, struct keyed *tmp, uint32_t n,
                       bool reverse) {
    if (n < 2) return;
    uint32_t h = n / 2, i = 0, j = h, k = 0;
    merge_sort(c, a, tmp, h, reverse);
    merge_sort(c, a + h, tmp, n - h, reverse);
    while (i < h && j < n) {
        jx_step(c);
        int d = jv_order(c, a[j].key, a[i].key, "<");
        bool right = reverse ? d == 1 : d == -1;
        tmp[k++] = right ? a[j++] : a[i++];
    }
    while (i < h) tmp[k++] = a[i++];
    while (j < n) tmp[k++] = a[j++];
    memcpy(a, tmp, n * sizeof *a);
}

/* Sorts n items by key, stably, and returns a. */
static struct keyed *sort_items(struct jctx *c, struct keyed *a, uint32_t n, bool reverse) {
    struct keyed *tmp = jx_alloc(c, (size_t)n + 1, sizeof *tmp);
    merge_sort(c, a, tmp, n, reverse);
    return a;
}

/* Returns the sort key of a value: the value itself, or for "a,b" the list of the values at those
 * paths. */
static struct jval sort_key(struct jctx *c, struct jval v, struct jval attr, bool cs) {
    if (!is_set(attr)) return cs ? v : fold_case(c, v);
    struct jval l = jv_list(c, 0);
    if (attr.tag != JT_STR) {
        struct jval x = jlib_path(c, v, attr);
        jlist_add(c, l.u.list, cs ? x : fold_case(c, x));
        return l;
    }
    for (size_t i = 0; i <= attr.len;) {
        size_t e = i;
        while (e < attr.len && attr.u.s[e] != ',') e++;
        struct jval x = jlib_path(c, v, jv_strn(attr.u.s + i, e - i));
        jlist_add(c, l.u.list, cs ? x : fold_case(c, x));
        i = e + 1;
    }
    return l;
}

/* Implements the filter sort(reverse=false, case_sensitive=false, attribute=None). */
static struct jval f_sort(struct jctx *c, struct jval *v) {
    bool reverse = is_given(v[1]) && jv_truth(c, v[1]), cs = is_given(v[2]) && jv_truth(c, v[2]);
    struct jlist *l = jv_to_list(c, v[0]);
    struct keyed *a = jx_alloc(c, (size_t)l->n + 1, sizeof *a);
    for (uint32_t i = 0; i < l->n; i++)
        a[i] = (struct keyed){sort_key(c, l->v[i], v[3], cs), l->v[i]};
    sort_items(c, a, l->n, reverse);
    for (uint32_t i = 0; i < l->n; i++) l->v[i] = a[i].v;
    return jv_list_val(l);
}

/* Implements the filter dictsort(case_sensitive=false, by="key", reverse=false). */
static struct jval f_dictsort(struct jctx *c, struct jval *v) {
    bool cs = is_given(v[1]) && jv_truth(c, v[1]), reverse = is_given(v[3]) && jv_truth(c, v[3]);
    bool by_value = is_given(v[2]) && jv_is(v[2], "value");
    if (is_given(v[2]) && !by_value && !jv_is(v[2], "key"))
        jx_fail(c, "runtime", "You can only sort by either \"key\" or \"value\"");
    if (v[0].tag == JT_UNDEF) jx_undef_fail(c, v[0]);
    if (v[0].tag != JT_DICT)
        jx_fail(c, "AttributeError", "'%s' object has no attribute 'items'", jv_type(v[0]));
    const struct jdict *d = v[0].u.dict;
    struct keyed *a = jx_alloc(c, (size_t)d->n + 1, sizeof *a);
    for (uint32_t i = 0; i < d->n; i++) {
        struct jval pair[2] = {d->e[i].k, d->e[i].v}, key = by_value ? pair[1] : pair[0];
        a[i] = (struct keyed){cs ? key : fold_case(c, key), jv_tuple(c, pair, 2)};
    }
    sort_items(c, a, d->n, reverse);
    struct jval l = jv_list(c, d->n);
    for (uint32_t i = 0; i < d->n; i++) jlist_add(c, l.u.list, a[i].v);
    return l;
}

/* Implements the filter groupby(attribute, default=None, case_sensitive=false). */
static struct jval f_groupby(struct jctx *c, struct jval *v) {
    bool cs = is_given(v[3]) && jv_truth(c, v[3]);
    struct jlist *l = jv_to_list(c, v[0]);
    struct keyed *a = jx_alloc(c, (size_t)l->n + 1, sizeof *a);
    for (uint32_t i = 0; i < l->n; i++) {
        struct jval k = jlib_path(c, l->v[i], v[1]);
        if (k.tag == JT_UNDEF && is_set(v[2])) k = v[2];
        a[i] = (struct keyed){cs ? k : fold_case(c, k), l->v[i]};
    }
    sort_items(c, a, l->n, false);
    struct jval out = jv_list(c, 0);
    for (uint32_t i = 0; i < l->n;) {
        struct jval first = jlib_path(c, a[i].v, v[1]), group = jv_list(c, 0), key = a[i].key;
        if (first.tag == JT_UNDEF && is_set(v[2])) first = v[2];
        for (; i < l->n && jv_equal(c, a[i].key, key); i++) jlist_add(c, group.u.list, a[i].v);
        struct jval pair[2] = {cs ? key : first, group}, t = jv_tuple(c, pair, 2);
        t.aux = 1; /* pair with .grouper and .list */
        jlist_add(c, out.u.list, t);
    }
    return out;
}

/* Returns the items for the filter unique(case_sensitive=false, attribute=None). */
static struct jval fill_unique(struct jctx *c, struct jargs *a) {
    bool cs = is_given(a->v[1]) && jv_truth(c, a->v[1]);
    struct jval seen = jv_dict(c, 0), out = jv_list(c, 0);
    struct jlist *l = jv_to_list(c, a->v[0]);
    for (uint32_t i = 0; i < l->n; i++) {
        struct jval k = is_set(a->v[2]) ? jlib_path(c, l->v[i], a->v[2]) : l->v[i];
        if (!cs) k = fold_case(c, k);
        if (jdict_get(c, seen.u.dict, k)) continue;
        jdict_set(c, seen.u.dict, k, jv_none());
        jlist_add(c, out.u.list, l->v[i]);
    }
    return out;
}
static struct jval f_unique(struct jctx *c, struct jval *v) {
    struct jargs a = {.v = v, .n = 3};
    return jv_gen(c, "do_unique", fill_unique, &a);
}

/* Returns the smallest (want -1) or largest (1) item; undefined if the list is empty. */
static struct jval min_or_max(struct jctx *c, struct jval *v, int want) {
    bool cs = is_given(v[1]) && jv_truth(c, v[1]);
    struct jlist *l = jv_to_list(c, v[0]);
    if (!l->n) return jv_undef_hint(c, "No aggregated item, sequence was empty.", jv_none(), false);
    struct jval best = l->v[0], best_key = jv_missing();
    for (uint32_t i = 0; i < l->n; i++) {
        struct jval k = is_set(v[2]) ? jlib_path(c, l->v[i], v[2]) : l->v[i];
        if (!cs) k = fold_case(c, k);
        if (best_key.tag != JT_MISSING && jv_order(c, k, best_key, want < 0 ? "<" : ">") != want)
            continue;
        best = l->v[i];
        best_key = k;
    }
    return best;
}
static struct jval f_min(struct jctx *c, struct jval *v) {
    return min_or_max(c, v, -1);
}
static struct jval f_max(struct jctx *c, struct jval *v) {
    return min_or_max(c, v, 1);
}

/* ---- map, select ----------------------------------------------------------------------------- */

/* Applies a filter or test to an item, which becomes a->v[0]. Argument `at` names the filter or
 * test; its arguments follow. */
static struct jval apply(struct jctx *c, struct jargs *a, int at, struct jval item, bool is_test) {
    const char *what = is_test ? "test" : "filter";
    struct jval name = a->v[at];
    const struct jrow *row =
        name.tag == JT_STR ? (is_test ? jlib_test(name) : jlib_filter(name)) : NULL;
    if (!row || (row->sig[0] == '!' && !c->t->lenient))
        jx_fail(c, "runtime", "No %s named '%s'.", what, jv_cstr(c, jv_to_str(c, name)));
    int n = a->n - at;
    struct jval *v = jx_alloc(c, (size_t)n + 1, sizeof *v);
    v[0] = item;
    for (int i = 1; i < n; i++) v[i] = a->v[at + i];
    struct jargs b = {.v = v, .n = n, .kw = a->kw, .n_kw = a->n_kw};
    return jeval_row(c, row, what, &b);
}

/* Returns the items for the filter map: attributes, or a filter's results. */
static struct jval fill_map(struct jctx *c, struct jargs *a) {
    struct jval attr = jv_missing(), otherwise = jv_missing(), out = jv_list(c, 0);
    if (!jv_truth(c, a->v[0])) return out;
    for (int i = 0; i < a->n_kw && a->n == 1; i++) {
        if (jv_is(a->kw[i].name, "attribute")) {
            attr = a->kw[i].v;
        } else if (jv_is(a->kw[i].name, "default")) {
            otherwise = a->kw[i].v;
        } else {
            jx_fail(c, "runtime", "Unexpected keyword argument '%s'", jv_cstr(c, a->kw[i].name));
        }
    }
    if (attr.tag == JT_MISSING && a->n < 2) jx_fail(c, "runtime", "map requires a filter argument");
    struct jlist *l = jv_to_list(c, a->v[0]);
    for (uint32_t i = 0; i < l->n; i++) {
        struct jval v =
            attr.tag == JT_MISSING ? apply(c, a, 1, l->v[i], false) : jlib_path(c, l->v[i], attr);
        if (attr.tag != JT_MISSING && v.tag == JT_UNDEF && is_set(otherwise)) v = otherwise;
        jlist_add(c, out.u.list, v);
    }
    return out;
}

/* Returns the items for which the test yields `want`; by_attr: tests an attribute of each item. */
static struct jval filter_items(struct jctx *c, struct jargs *a, bool want, bool by_attr) {
    struct jval out = jv_list(c, 0);
    int at = 1 + by_attr;
    if (!jv_truth(c, a->v[0])) return out;
    if (by_attr && a->n < 2) jx_fail(c, "runtime", "Missing parameter for attribute name");
    struct jlist *l = jv_to_list(c, a->v[0]);
    for (uint32_t i = 0; i < l->n; i++) {
        struct jval x = by_attr ? jlib_path(c, l->v[i], a->v[1]) : l->v[i];
        struct jval ok = a->n > at ? apply(c, a, at, x, true) : x;
        if (jv_truth(c, ok) == want) jlist_add(c, out.u.list, l->v[i]);
    }
    return out;
}
/* Returns the items for the filter select. */
static struct jval fill_select(struct jctx *c, struct jargs *a) {
    return filter_items(c, a, true, false);
}
/* Returns the items for the filter reject. */
static struct jval fill_reject(struct jctx *c, struct jargs *a) {
    return filter_items(c, a, false, false);
}
/* Returns the items for the filter selectattr. */
static struct jval fill_selectattr(struct jctx *c, struct jargs *a) {
    return filter_items(c, a, true, true);
}
/* Returns the items for the filter rejectattr. */
static struct jval fill_rejectattr(struct jctx *c, struct jargs *a) {
    return filter_items(c, a, false, true);
}
static struct jval f_map(struct jctx *c, struct jargs *a) {
    return jv_gen(c, "sync_do_map", fill_map, a);
}
static struct jval f_select(struct jctx *c, struct jargs *a) {
    return jv_gen(c, "select_or_reject", fill_select, a);
}
static struct jval f_reject(struct jctx *c, struct jargs *a) {
    return jv_gen(c, "select_or_reject", fill_reject, a);
}
static struct jval f_selectattr(struct jctx *c, struct jargs *a) {
    return jv_gen(c, "select_or_reject", fill_selectattr, a);
}
static struct jval f_rejectattr(struct jctx *c, struct jargs *a) {
    return jv_gen(c, "select_or_reject", fill_rejectattr, a);
}

/* ---- the rest -------------------------------------------------------------------------------- */

static struct jval f_length(struct jctx *c, struct jval *v) {
    int64_t n = v[0].tag == JT_LOOP ? jeval_loop_attr(c, v[0].u.loop, jv_str("length")).u.i
                                    : jv_length(c, v[0]);
    if (n < 0) jx_fail(c, "TypeError", "object of type '%s' has no len()", jv_type(v[0]));
    return jv_int(n);
}
/* Returns the items for the filter items. */
static struct jval fill_items(struct jctx *c, struct jargs *a) {
    struct jval d = a->v[0], out = jv_list(c, 0);
    if (d.tag == JT_UNDEF) return out;
    if (d.tag != JT_DICT) jx_fail(c, "TypeError", "Can only get item pairs from a mapping.");
    for (uint32_t i = 0; i < d.u.dict->n; i++) {
        struct jval pair[2] = {d.u.dict->e[i].k, d.u.dict->e[i].v};
        jlist_add(c, out.u.list, jv_tuple(c, pair, 2));
    }
    return out;
}
static struct jval f_items(struct jctx *c, struct jval *v) {
    struct jargs a = {.v = v, .n = 1};
    return jv_gen(c, "do_items", fill_items, &a);
}
static struct jval f_list(struct jctx *c, struct jval *v) {
    return jv_list_val(jv_to_list(c, v[0]));
}
/* Implements the filter join(d="", attribute=None). */
static struct jval f_join(struct jctx *c, struct jval *v) {
    struct jval sep = is_given(v[1]) ? jv_to_str(c, v[1]) : jv_str("");
    struct jlist *l = jv_to_list(c, v[0]);
    if (is_set(v[2]))
        for (uint32_t i = 0; i < l->n; i++) l->v[i] = jlib_path(c, l->v[i], v[2]);
    size_t m = jx_mark(c);
    for (uint32_t i = 0; i < l->n; i++) {
        if (i) jx_add(c, sep.u.s, sep.len);
        jv_print(c, l->v[i]);
    }
    return jx_take(c, m);
}
static struct jval f_first(struct jctx *c, struct jval *v) {
    struct jiter it;
    struct jval x;
    jiter_init(c, &it, v[0]);
    return jiter_next(c, &it, &x)
               ? x
               : jv_undef_hint(c, "No first item, sequence was empty.", jv_none(), false);
}
static struct jval f_last(struct jctx *c, struct jval *v) {
    if (v[0].tag == JT_GEN) jx_fail(c, "TypeError", "'generator' object is not reversible");
    struct jlist *l = jv_to_list(c, v[0]);
    return l->n ? l->v[l->n - 1]
                : jv_undef_hint(c, "No last item, sequence was empty.", jv_none(), false);
}
/* Implements the filter random. Always returns the first item, so that the same input gives the
 * same text. */
static struct jval f_random(struct jctx *c, struct jval *v) {
    return f_first(c, v); /* Not random, because the same input must give the same output. */
}
/* Returns the items for the filter reverse. */
static struct jval fill_reverse(struct jctx *c, struct jargs *a) {
    struct jlist *l = jv_to_list(c, a->v[0]);
    for (uint32_t i = 0; i < l->n / 2; i++) {
        struct jval t = l->v[i];
        l->v[i] = l->v[l->n - 1 - i];
        l->v[l->n - 1 - i] = t;
    }
    return jv_list_val(l);
}
static struct jval f_reverse(struct jctx *c, struct jval *v) {
    if (v[0].tag == JT_STR) {
        struct jslice s = {jv_none(), jv_none(), jv_int(-1)};
        return jop_slice(c, v[0], &s);
    }
    if (jv_length(c, v[0]) < 0 && v[0].tag != JT_GEN)
        jx_fail(c, "runtime", "argument must be iterable");
    struct jargs a = {.v = v, .n = 1};
    return v[0].tag == JT_GEN ? fill_reverse(c, &a) : jv_gen(c, "reversed", fill_reverse, &a);
}
/* Implements the filter sum(attribute=None, start=0). */
static struct jval f_sum(struct jctx *c, struct jval *v) {
    struct jval r = is_given(v[2]) ? v[2] : jv_int(0);
    struct jlist *l = jv_to_list(c, v[0]);
    if (r.tag == JT_STR)
        jx_fail(c, "TypeError", "sum() can't sum strings [use ''.join(seq) instead]");
    for (uint32_t i = 0; i < l->n; i++)
        r = jop_bin(c, JO_ADD, r, is_set(v[1]) ? jlib_path(c, l->v[i], v[1]) : l->v[i]);
    return r;
}
/* Returns the rows for the filter batch(linecount, fill_with=None). */
static struct jval fill_batch(struct jctx *c, struct jargs *a) {
    struct jlist *l = jv_to_list(c, a->v[0]);
    int64_t n = jv_index(c, a->v[1], "linecount");
    struct jval out = jv_list(c, 0), row = jv_missing();
    for (uint32_t i = 0; i < l->n; i++) {
        if (row.tag == JT_MISSING || (int64_t)row.u.list->n == n) {
            row = jv_list(c, 0);
            jlist_add(c, out.u.list, row);
        }
        jlist_add(c, row.u.list, l->v[i]);
    }
    if (n > 1000000) n = 0;
    if (row.tag == JT_LIST && is_set(a->v[2]))
        while ((int64_t)row.u.list->n < n) jlist_add(c, row.u.list, a->v[2]);
    return out;
}
static struct jval f_batch(struct jctx *c, struct jval *v) {
    struct jargs a = {.v = v, .n = 3};
    return jv_gen(c, "do_batch", fill_batch, &a);
}
/* Returns the columns for the filter slice(slices, fill_with=None). */
static struct jval fill_slice(struct jctx *c, struct jargs *a) {
    struct jlist *l = jv_to_list(c, a->v[0]);
    int64_t n = jv_index(c, a->v[1], "slices"), at = 0;
    struct jval out = jv_list(c, 0);
    if (n == 0) jx_fail(c, "ZeroDivisionError", "integer division or modulo by zero");
    if (n > c->max_range) jx_fail(c, "limit", "too many slices");
    int64_t per = n > 0 ? l->n / n : 0, extra = n > 0 ? l->n % n : 0;
    for (int64_t i = 0; i < n; i++) {
        struct jval row = jv_list(c, 0);
        for (int64_t k = 0; k < per + (i < extra); k++) jlist_add(c, row.u.list, l->v[at++]);
        if (is_set(a->v[2]) && i >= extra) jlist_add(c, row.u.list, a->v[2]);
        jlist_add(c, out.u.list, row);
    }
    return out;
}
static struct jval f_slice(struct jctx *c, struct jval *v) {
    struct jargs a = {.v = v, .n = 3};
    return jv_gen(c, "do_slice", fill_slice, &a);
}
/* Implements the filter attr(name), which does not look up items of dicts. */
static struct jval f_attr(struct jctx *c, struct jval *v) {
    if (v[0].tag == JT_UNDEF) jx_undef_fail(c, v[0]);
    struct jval name = jv_to_str(c, v[1]), probe = v[0];
    if (probe.tag == JT_DICT) { /* Only attributes are considered here, not items. */
        const struct jrow *row = jlib_method(JT_DICT, name);
        if (!row) return jv_undef(c, v[0], name);
    }
    return jop_attr(c, v[0], name, NULL);
}

const struct jrow jlib_filters_seq[] = {
    {"length", "", f_length, NULL},
    {"count", "", f_length, NULL},
    {"items", "", f_items, NULL},
    {"list", "", f_list, NULL},
    {"join", "d? attribute?", f_join, NULL},
    {"map", "*", NULL, f_map},
    {"select", "*", NULL, f_select},
    {"reject", "*", NULL, f_reject},
    {"selectattr", "*", NULL, f_selectattr},
    {"rejectattr", "*", NULL, f_rejectattr},
    {"first", "", f_first, NULL},
    {"last", "", f_last, NULL},
    {"random", "", f_random, NULL},
    {"reverse", "", f_reverse, NULL},
    {"sort", "reverse? case_sensitive? attribute?", f_sort, NULL},
    {"dictsort", "case_sensitive? by? reverse?", f_dictsort, NULL},
    {"groupby", "attribute default? case_sensitive?", f_groupby, NULL},
    {"unique", "case_sensitive? attribute?", f_unique, NULL},
    {"min", "case_sensitive? attribute?", f_min, NULL},
    {"max", "case_sensitive? attribute?", f_max, NULL},
    {"sum", "attribute? start?", f_sum, NULL},
    {"batch", "linecount fill_with?", f_batch, NULL},
    {"slice", "slices fill_with?", f_slice, NULL},
    {"attr", "name", f_attr, NULL},
    {NULL, NULL, NULL, NULL},
};
