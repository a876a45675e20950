// SPDX-License-Identifier: MIT
/* template/jinja_int.h - internals shared by the files of the template engine.
 *
 * Each rendering owns an arena for its values, frames and temporary strings, freed as a whole. A
 * failure during a rendering or a compilation (raised in about 200 places, nested as deep as the
 * template) unwinds with longjmp from jx_fail to jx_guard, both in jinja.c. Functions in between
 * must therefore not own malloc'ed memory; the output buffer belongs to the context. Callers of the
 * engine never see a longjmp: public functions return int and fill struct err. Scratch text is
 * appended to the output and then removed (jx_mark / jx_take).
 *
 * Names are resolved at compile time (jinja_scope.c) to a slot of an activation record (root, macro
 * or call-block body), which is `hops` records further out. */
#ifndef HONE_TEMPLATE_JINJA_INT_H
#define HONE_TEMPLATE_JINJA_INT_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/attr.h"
#include "base/buf.h"
#include "template/jinja.h"

/* ---- values ---------------------------------------------------------------------------------- */

enum jtag {
    JT_MISSING, /* absent argument, or a name without value; never visible to templates */
    JT_UNDEF,
    JT_NONE,
    JT_BOOL,
    JT_INT,
    JT_BIG, /* integer beyond 64 bits */
    JT_FLOAT,
    JT_STR,
    JT_BYTES,
    JT_LIST,
    JT_TUPLE,
    JT_DICT,
    JT_VIEW, /* dict.items(), .keys(), .values() */
    JT_RANGE,
    JT_GEN, /* one-shot sequence: map, select, items ... */
    JT_NS,
    JT_MACRO,
    JT_LOOP,
    JT_FUNC,
    JT_CYCLER,
    JT_JOINER,
    JT_SLICE,
    JT_COUNT
};
enum { JF_MARKUP = 1 /* JT_STR: made by |safe or |escape */ };

struct jlist;
struct jdict;
struct jval {
    uint8_t tag, flag;
    uint16_t aux; /* numbers and none: origin (jinja_span.c); tuple of groupby: 1 */
    uint32_t len; /* JT_STR, JT_BYTES: bytes */
    union {
        int64_t i; /* JT_BOOL, JT_INT */
        double f;
        const char *s;      /* not NUL-terminated; UTF-8, lone surrogates as three bytes */
        struct jlist *list; /* JT_LIST, JT_TUPLE */
        struct jdict *dict;
        const struct jbig *big;
        struct jundef *undef;
        struct jview *view;
        struct jrange *range;
        struct jgen *gen;
        struct jns *ns;
        struct jmacro *macro;
        struct jloop *loop;
        struct jfunc *func;
        struct jcycle *cycle;
        struct jslice *slice;
    } u;
};
struct jlist {
    struct jval *v;
    uint32_t n, cap;
};
struct jent {
    struct jval k, v;
    uint64_t hash;
};
struct jdict { /* insertion order; has an `index` once it is large */
    struct jent *e;
    uint32_t n, cap;
    uint32_t *index;
    uint32_t index_size;
};
struct jundef {
    const char *hint;      /* the whole message, or NULL */
    struct jval obj, name; /* obj JT_MISSING: plain name */
    bool security;         /* use raises a SecurityError */
};
enum jview_kind { JVIEW_ITEMS, JVIEW_KEYS, JVIEW_VALUES };
struct jview {
    enum jview_kind kind;
    struct jdict *d;
};
struct jrange {
    int64_t start, stop, step, n;
};
struct jns { /* namespace */
    struct jdict d;
};
struct jcycle { /* cycler and joiner */
    struct jlist items;
    uint32_t pos;
    bool used;
    struct jval sep;
};
struct jslice {
    struct jval start, stop, step;
};

/* ---- arguments and library rows -------------------------------------------------------------- */

struct jkw {
    struct jval name, v;
};
struct jargs {
    struct jval *v;
    int n;
    struct jkw *kw;
    int n_kw;
};
struct jctx;
enum { JMAX_PARAMS = 10 };
/* Function with bound arguments: v[0] is the filtered value or self, followed by the parameters of
 * `sig`; absent ones are JT_MISSING. */
typedef struct jval (*jfn)(struct jctx *c, struct jval *v);
/* Function with free-form arguments, passed as given; v[0] of args is the subject. */
typedef struct jval (*jfn_any)(struct jctx *c, struct jargs *a);
struct jrow {
    const char *name;
    const char *sig; /* "chars? count?": parameters after the subject; "*": free-form */
    jfn fn;
    jfn_any any;
};
struct jfunc { /* global function or bound method */
    const struct jrow *row;
    struct jval self; /* JT_MISSING for globals */
    bool fake;        /* method whose call is always refused */
};

/* ---- the tree -------------------------------------------------------------------------------- */

enum jkind {
    /* expressions */
    JN_CONST,
    JN_NAME,
    JN_TUPLE,
    JN_LIST,
    JN_DICT,
    JN_COND,
    JN_OR,
    JN_AND,
    JN_NOT,
    JN_COMPARE,
    JN_BIN,
    JN_CONCAT,
    JN_NEG,
    JN_POS,
    JN_ATTR,
    JN_ITEM,
    JN_SLICE,
    JN_CALL,
    JN_FILTER,
    JN_TEST,
    JN_KW,
    JN_STAR,
    JN_STARSTAR,
    JN_NSREF,
    /* statements */
    JN_TEXT,
    JN_PRINT,
    JN_IF,
    JN_FOR,
    JN_SET,
    JN_SETBLOCK,
    JN_MACRO,
    JN_CALLBLOCK,
    JN_FILTERBLOCK,
    JN_WITH,
    JN_BREAK,
    JN_CONTINUE,
    JN_GENERATION,
    JN_BLOCK,
    JN_NOLOADER,
    JN_AUTOESCAPE
};
enum jop {
    JO_NONE,
    JO_ADD,
    JO_SUB,
    JO_MUL,
    JO_DIV,
    JO_FLOORDIV,
    JO_MOD,
    JO_POW,
    JO_EQ,
    JO_NE,
    JO_LT,
    JO_LE,
    JO_GT,
    JO_GE,
    JO_IN,
    JO_NOTIN
};
struct jscope;
struct jnode {
    enum jkind kind;
    enum jop op;         /* JN_BIN; operands of JN_COMPARE */
    uint32_t pos;        /* byte offset in the normalised source */
    uint32_t start, end; /* expressions: their range of the source, without outer parentheses */
    struct jnode *next;  /* next node in its list */
    struct jnode *a, *b, *c;
    struct jnode *list;  /* items, arguments, body */
    struct jnode *list2; /* keyword arguments, else body, defaults */
    struct jval val;     /* constant; name as JT_STR */
    int hops, slot;      /* JN_NAME, JN_NSREF, names of JN_MACRO */
    int n;               /* length of list */
    /* JN_FOR: recursive; JN_CALL, JN_FILTER, JN_TEST: has * or keyword arguments; JN_TUPLE: of
     * assignment targets. */
    bool flag;
    const struct jrow *row; /* JN_FILTER, JN_TEST: NULL if unknown, an error once reached */
    const struct jrow *m_str, *m_dict, *m_list; /* JN_ATTR: methods with that name */
    struct jscope *scope;                       /* statements that open a scope */
    struct jscope *scope2;                      /* JN_FOR: scope of its else */
    struct jscope *scope3;                      /* JN_FOR: scope of its filter */
};

/* Initial value of a slot on entry to a scope. */
enum jload_kind { JL_PARAM, JL_RESOLVE, JL_ALIAS, JL_UNDEF };
struct jload {
    enum jload_kind kind;
    int slot;
    int hops, src; /* JL_ALIAS: slot of an outer scope; JL_RESOLVE: index of a global */
};
struct jscope {
    struct jload *load;
    int n_load;
    int loop_slot; /* loop bodies; -1: none */
    int n_slots;   /* function bodies: slots of the activation record */
    int caller_slot, kwargs_slot, varargs_slot; /* macro bodies; -1: none */
    int n_args;
    int *arg_slot; /* macro bodies: [n_args] slots of the arguments */
};
struct jact { /* activation record (frame) */
    struct jact *outer;
    struct jval *slot;
};
struct jmacro {
    const struct jnode *node;
    struct jact *outer;
    struct jval name; /* JT_NONE: call block */
};
struct jinja {
    struct arena arena;
    char *name;
    char *src; /* normalised, in the arena */
    size_t src_len;
    struct jnode *body;
    struct jscope *root;
    struct jval *global_name; /* globals read from the variables at the start of a rendering */
    int n_globals;
    bool lenient;
};

/* ---- iteration ------------------------------------------------------------------------------- */

struct jiter {
    struct jval of;
    uint32_t i;
};
typedef struct jval (*jgen_fill)(struct jctx *c, struct jargs *a);
struct jgen { /* filled on first use, then consumed starting at pos */
    jgen_fill fill;
    struct jargs args;
    struct jlist *items;
    uint32_t pos;
    const char *name;
};
struct jloop {
    struct jiter it;
    const struct jnode *node;
    struct jact *act;
    struct jval cur, prev, next;
    bool has_next; /* `next` holds a peeked item */
    bool at_end;   /* the source is exhausted */
    int64_t index0;
    int64_t length; /* -1: unknown */
    int depth0;
    struct jval last_changed; /* JT_MISSING before the first call */
};

/* ---- one compilation or render --------------------------------------------------------------- */

struct jspan_chunk { /* string memory; origin[i] belongs to base[i], 0: the template */
    char *base;
    uint16_t *origin;
    size_t size, used;
};
struct jtrace;
struct jspan {                 /* state of origin tracking (jinja_span.c) */
    struct jspan_chunk *chunk; /* sorted by address */
    int n_chunk, cap_chunk, current;
    uint16_t *out; /* origins of the output so far */
    size_t cap_out;
    uint16_t as;          /* origin of bytes outside all chunks */
    bool force;           /* applies `as` to all bytes */
    uint16_t node;        /* running statement: origin of bytes that have no other */
    struct jtrace *trace; /* NULL: statements are not traced (jinja_trace.h) */
    struct jinja_origin *origin;
    int n_origin, cap_origin;
};
struct jctx {
    struct arena *a;
    struct buf out;
    jmp_buf fail;
    struct jinja_err *err;
    const struct jinja *t;
    uint32_t pos; /* current position, for messages */
    uint64_t steps, max_steps, max_out;
    uint64_t look_at; /* steps at which jx_look is due */
    uint32_t odd;     /* bytes counted towards the next step */
    int depth, max_depth, nest;
    int64_t max_range, now;
    struct jval *globals;
    struct jact *act;
    bool autoescape;
    int brk;            /* pending: 1 break, 2 continue */
    struct jspan *span; /* NULL: origins are not tracked */
};

/* Calls body. Returns ERR_DATA, with c->err set, if jx_fail was called within it. */
int jx_guard(struct jctx *c, void (*body)(struct jctx *c, void *arg), void *arg);
/* Fails the compilation or render; kind is "syntax", "undefined", "TypeError", ... */
NORETURN void jx_fail(struct jctx *c, const char *kind, const char *fmt, ...) PRINTF_LIKE(3, 4);
NORETURN void jx_undef_fail(struct jctx *c, struct jval undef);
/* Enters one more level of nested values; leave it with c->nest--. */
static inline void jx_deeper(struct jctx *c) {
    if (++c->nest > 2000) jx_fail(c, "RecursionError", "maximum recursion depth exceeded");
}
/* Fails if the steps are used up or the client has disconnected; otherwise schedules the next
 * check. */
void jx_look(struct jctx *c);
static inline void jx_step(struct jctx *c) {
    if (++c->steps > c->look_at) jx_look(c);
}
/* Charges n bytes read or written; 64 bytes cost one step. */
static inline void jx_bytes(struct jctx *c, size_t n) {
    n += c->odd;
    c->odd = n % 64;
    c->steps += n / 64;
    if (c->steps > c->look_at) jx_look(c);
}
/* Charges a loop over n small items (names, digits, entries) that costs no steps of its own. */
static inline void jx_loop(struct jctx *c, size_t n) {
    jx_bytes(c, 8 * n);
}
static inline size_t jx_mark(const struct jctx *c) {
    return c->out.len;
}
struct jval jx_take(struct jctx *c, size_t mark); /* text written since the mark, as a string */
/* Appends to the output; fails, without returning, at the limit of its length. */
void jx_add(struct jctx *c, const char *s, size_t n);
/* Returns n * size zeroed bytes of the arena; fails, without returning, at the limit. */
void *jx_alloc(struct jctx *c, size_t n, size_t size);
char *jx_str_alloc(struct jctx *c, size_t n); /* memory for a string */
/* Copies n bytes of a string and, if spans are recorded, their origins. */
void jx_str_copy(struct jctx *c, char *to, const char *s, size_t n);

/* ---- jinja_span.c: only with c->span --------------------------------------------------------- */

/* Returns n bytes of string memory whose origins are traced. */
char *jspan_alloc(struct jctx *c, size_t n);
/* Copies n bytes of a string and their origins. */
void jspan_copy(struct jctx *c, char *to, const char *src, size_t n);
void jspan_write(struct jctx *c, const char *src, size_t n); /* call before the output grows */
/* Copies n bytes of the output, starting at `mark`, and their origins to a string. */
void jspan_take(struct jctx *c, char *to, size_t mark, size_t n);
/* Gives bytes that are written from now on the origin of src; NULL: restores their own origins. */
void jspan_as(struct jctx *c, const char *src);
/* Creates an origin for the input at `path` and returns its number; kind is borrowed. */
uint16_t jspan_origin(struct jctx *c, struct jval path, const char *kind);
/* Returns v with this origin; a string is copied. */
struct jval jspan_mark(struct jctx *c, struct jval v, uint16_t origin);
/* Moves the origins of the output's n bytes to *out, as spans with one origin each. */
void jspan_result(struct jspan *s, size_t n, struct jinja_spans *out);
void jspan_release(struct jspan *s);
/* Attributes the following output to the origin of the character at src; NULL: to no origin. */
static inline void jx_as(struct jctx *c, const char *src) {
    if (c->span) jspan_as(c, src);
}
/* Attributes the following output to the origin of v, which is a number or none. */
static inline void jx_as_value(struct jctx *c, struct jval v) {
    if (c->span) c->span->as = v.aux;
}

/* Builds the variables of a rendering in its arena (chat.c adds to a parsed conversation). */
typedef struct jval (*jinja_vars_fn)(struct jctx *c, void *ctx);
/* Renders with variables made by fn. now_unix: the time for strftime_now(). lim and je may be
 * NULL. */
int jinja_render_fn(const struct jinja *t, jinja_vars_fn fn, void *ctx, int64_t now_unix,
                    const struct jinja_limits *lim, struct buf *out, struct jinja_err *je,
                    struct err *e);
/* Renders as jinja_render_fn does and records the origins of the output's bytes: fn marks its
 * values with jspan_mark. *spans is set on success; release it with jinja_spans_free. */
int jinja_render_spans(const struct jinja *t, jinja_vars_fn fn, void *ctx, int64_t now_unix,
                       const struct jinja_limits *lim, struct buf *out, struct jinja_spans *spans,
                       struct jinja_err *je, struct err *e);

/* ---- jinja_value.c --------------------------------------------------------------------------- */

static inline struct jval jv_tag(enum jtag tag) {
    struct jval v = {.tag = (uint8_t)tag};
    return v;
}
static inline struct jval jv_none(void) {
    return jv_tag(JT_NONE);
}
static inline struct jval jv_missing(void) {
    return jv_tag(JT_MISSING);
}
static inline struct jval jv_bool(bool b) {
    struct jval v = {.tag = JT_BOOL, .u = {.i = b}};
    return v;
}
static inline struct jval jv_int(int64_t i) {
    struct jval v = {.tag = JT_INT, .u = {.i = i}};
    return v;
}
static inline struct jval jv_float(double f) {
    struct jval v = {.tag = JT_FLOAT, .u = {.f = f}};
    return v;
}
static inline struct jval jv_strn(const char *s, size_t n) {
    struct jval v = {.tag = JT_STR, .len = (uint32_t)n, .u = {.s = s}};
    return v;
}
struct jval jv_str(const char *s); /* borrowed, NUL-terminated */
/* Returns a copy of n bytes as a string value. */
struct jval jv_copy(struct jctx *c, const char *s, size_t n);
/* Returns an empty list with room for cap items. */
struct jval jv_list(struct jctx *c, uint32_t cap);
/* Returns a tuple of n values. */
struct jval jv_tuple(struct jctx *c, const struct jval *v, uint32_t n);
/* Returns an empty dict with room for cap entries. */
struct jval jv_dict(struct jctx *c, uint32_t cap);
/* Returns the undefined value of obj.name; obj JT_MISSING: of a variable. */
struct jval jv_undef(struct jctx *c, struct jval obj, struct jval name);
/* Returns an undefined value whose use fails with `hint`, which is not copied. */
struct jval jv_undef_hint(struct jctx *c, const char *hint, struct jval name, bool security);
/* Returns a generator whose items `fill` makes on first use. Copies the arguments. */
struct jval jv_gen(struct jctx *c, const char *name, jgen_fill fill, const struct jargs *a);
/* Appends v; fails, without returning, if the list is too long. */
void jlist_add(struct jctx *c, struct jlist *l, struct jval v);
/* Sets the value of key k; a new key goes last. */
void jdict_set(struct jctx *c, struct jdict *d, struct jval k, struct jval v);
struct jval *jdict_get(struct jctx *c, const struct jdict *d, struct jval k); /* NULL: absent */
/* Returns the value of a string key; NULL: not found. */
struct jval *jdict_find(const struct jdict *d, const char *k, size_t n);
/* Returns whether v is a string equal to s. Inline, so that the length of a literal is a constant.
 */
static inline bool jv_is(struct jval v, const char *s) {
    size_t n = __builtin_strlen(s);
    return v.tag == JT_STR && v.len == n && __builtin_memcmp(v.u.s, s, n) == 0;
}
static inline bool jv_eqs(struct jval a, struct jval b) {
    return a.len == b.len && (a.u.s == b.u.s || __builtin_memcmp(a.u.s, b.u.s, a.len) == 0);
}
/* Returns the truth value, as bool() does in Python; undefined is false. */
bool jv_truth(struct jctx *c, struct jval v);
/* Returns whether two values are equal, as == in Python. */
bool jv_equal(struct jctx *c, struct jval a, struct jval b);
/* Compares a and b: -1, 0 or 1; 2 if unordered (NaN). Fails for types without order; op is named in
 * the message. */
int jv_order(struct jctx *c, struct jval a, struct jval b, const char *op);
const char *jv_type(struct jval v);           /* Python's type name */
void jv_print(struct jctx *c, struct jval v); /* appends str(v) to the output */
/* Prints v as repr() does in Python. */
void jv_repr(struct jctx *c, struct jval v);
struct jval jv_to_str(struct jctx *c, struct jval v);   /* str(v), a plain string */
struct jval jv_soft_str(struct jctx *c, struct jval v); /* keeps strings, also Markup, unchanged */
/* Returns a string value with a terminating NUL; "?" for other types. */
const char *jv_cstr(struct jctx *c, struct jval v);
void jv_float_text(double f, char out[64]); /* repr */
bool jv_is_num(struct jval v);              /* bool, int, big, float */
/* Returns a number as a double; fails if an integer is too large. */
double jv_num(struct jctx *c, struct jval v);
int64_t jv_index(struct jctx *c, struct jval v, const char *what); /* integer argument */
int64_t jv_length(struct jctx *c, struct jval v);                  /* -1: has no len() */
/* Begins iterating over v; fails if it is not iterable. */
void jiter_init(struct jctx *c, struct jiter *it, struct jval v);
/* Sets *out to the next item. False: there are no more. */
bool jiter_next(struct jctx *c, struct jiter *it, struct jval *out);
/* Returns the items of an iterable as a new list; exhausts a generator. */
struct jlist *jv_to_list(struct jctx *c, struct jval v);
struct jval jv_list_val(struct jlist *l);

/* ---- text helpers (jinja_text.c) ------------------------------------------------------------- */

/* Returns whether Python's str.isspace() accepts the character. */
bool ju_is_space(uint32_t cp);
uint32_t ju_next(const char *s, size_t n, size_t *i); /* code point at *i; advances *i */
/* Prints a code point as UTF-8. */
void ju_put(struct jctx *c, uint32_t cp);
size_t ju_count(struct jval s);               /* code points */
size_t ju_offset(struct jval s, size_t i_cp); /* byte offset of a code point; s.len past the end */
struct jval ju_strip(struct jctx *c, struct jval s, struct jval chars,
                     int sides); /* 1 left, 2 right; chars missing: space */
enum ju_case { JU_UPPER, JU_LOWER, JU_TITLE, JU_CAPITAL, JU_SWAP };
/* Returns s converted by one of Python's str methods for case. */
struct jval ju_case(struct jctx *c, struct jval s, enum ju_case how);
/* Returns whether repr() prints cp unescaped in Python. */
bool ju_printable(uint32_t cp);
/* Returns whether cp is upper case or, if `upper` is false, lower case. */
bool ju_is_case(uint32_t cp, bool upper);
bool ju_is_title(uint32_t cp);
struct jval ju_escape(struct jctx *c, struct jval v);         /* & < > " ' ; Markup */
int64_t ju_find(struct jval s, struct jval sub, size_t from); /* byte offset or -1 */

/* ---- jinja_big.c ----------------------------------------------------------------------------- */

/* Returns the integer that n digits in the base spell; fails above 4300 digits. neg: negated. */
struct jval jbig_parse(struct jctx *c, const char *digits, size_t n, int base, bool neg);
struct jval jbig_bin(struct jctx *c, enum jop op, struct jval a, struct jval b); /* ints and bigs */
/* Compares two integers: -1, 0 or 1. */
int jbig_cmp(struct jctx *c, struct jval a, struct jval b);
/* Prints v in decimal; fails, as in Python, above 4300 digits. */
void jbig_print(struct jctx *c, struct jval v);
/* Returns an integer as a double; infinity if it is too large. */
double jbig_double(struct jval v);
double jbig_divide(struct jctx *c, struct jval x, struct jval y);
struct jval jbig_radix(struct jctx *c, struct jval v, int base, bool upper);
struct jval jbig_from_double(struct jctx *c, double d); /* integral, any size */

/* ---- jinja_ops.c ----------------------------------------------------------------------------- */

/* Returns a op b as Python computes it; fails for types that op does not accept. */
struct jval jop_bin(struct jctx *c, enum jop op, struct jval a, struct jval b);
/* Returns -v or, if neg is false, +v; fails unless v is a number. */
struct jval jop_neg(struct jctx *c, struct jval v, bool neg);
/* Implements `x in y` for strings, dicts and iterables. */
bool jop_in(struct jctx *c, struct jval x, struct jval in);
/* Returns obj.name or, without such an attribute, obj[name]; undefined if both are missing. */
struct jval jop_attr(struct jctx *c, struct jval obj, struct jval name, const struct jnode *n);
/* Returns obj[key] or, without such an item, obj.key; undefined if both are missing. */
struct jval jop_item(struct jctx *c, struct jval obj, struct jval key);
/* Returns obj[start:stop:step] of a string, list or tuple. */
struct jval jop_slice(struct jctx *c, struct jval obj, const struct jslice *s);
/* Returns whether a op b holds; fails if the types have no order. */
bool jop_compare(struct jctx *c, enum jop op, struct jval a, struct jval b);

/* ---- jinja_eval.c ---------------------------------------------------------------------------- */

/* Renders the whole template: runs its body in the root scope. */
void jeval_root(struct jctx *c);
/* Calls f: a macro, function, loop or joiner. Fails if f is not callable. */
struct jval jeval_call(struct jctx *c, struct jval f, struct jargs *a);
struct jval jeval_row(struct jctx *c, const struct jrow *row, const char *what, struct jargs *a);
/* Returns the attribute `name` of the variable `loop`; JT_MISSING: unknown. */
struct jval jeval_loop_attr(struct jctx *c, struct jloop *l, struct jval name);

/* ---- libraries ------------------------------------------------------------------------------- */

/* Returns the filter of this name; NULL: unknown. */
const struct jrow *jlib_filter(struct jval name);
/* Returns the test of this name; NULL: unknown. */
const struct jrow *jlib_test(struct jval name);
/* Returns the global function of this name; NULL: unknown. */
const struct jrow *jlib_global(struct jval name);
/* Returns the method `name` of a type; NULL: unknown. */
const struct jrow *jlib_method(enum jtag type, struct jval name);
extern const struct jrow jlib_filters_text[], jlib_filters_seq[], jlib_tests[], jlib_globals[];
extern const struct jrow jlib_str_methods[], jlib_str_methods2[];
/* Returns fmt % args, as in Python; args: a tuple, a dict or one value. */
struct jval jfmt_percent(struct jctx *c, struct jval fmt, struct jval args);
/* Returns fmt.format(...) with a's arguments after the first. */
struct jval jfmt_format(struct jctx *c, struct jval fmt, struct jargs *a);
/* Prints v like Python's json.dumps(); ascii: ensure_ascii, seps: separators, or JT_NONE. */
void jfmt_json(struct jctx *c, struct jval v, bool ascii, struct jval indent, struct jval seps,
               bool sort);
struct jval jlib_path(struct jctx *c, struct jval obj, struct jval path); /* getter for "a.b.0" */

/* ---- jinja_json.c ---------------------------------------------------------------------------- */

/* Parses JSON text into values; `what` names it in messages. Fails on invalid JSON. */
struct jval jjson_parse(struct jctx *c, const char *s, size_t n, const char *what);
/* Returns whether text is a JSON object; *out gets its value. */
bool jjson_object(struct jctx *c, struct jval text, struct jval *out);

/* JSON document parsed outside of any rendering. */
struct jdoc {
    struct arena arena;
    struct jval root;
};
/* Parses JSON into *d; release it with jdoc_release(). what: its name in errors. */
int jdoc_parse(struct jdoc *d, const char *s, size_t n, const char *what, struct err *e);
void jdoc_release(struct jdoc *d);
/* Returns a deep copy in the context's arena, for renderings that may modify their variables. */
struct jval jv_clone(struct jctx *c, struct jval v);

/* ---- jinja_lex.c, jinja_parse.c, jinja_scope.c ----------------------------------------------- */

enum jtok_kind {
    TK_EOF,
    TK_DATA,
    TK_VAR_BEGIN,
    TK_VAR_END,
    TK_BLOCK_BEGIN,
    TK_BLOCK_END,
    TK_NAME,
    TK_STR,
    TK_INT,
    TK_FLOAT,
    TK_ADD,
    TK_SUB,
    TK_MUL,
    TK_DIV,
    TK_FLOORDIV,
    TK_MOD,
    TK_POW,
    TK_TILDE,
    TK_LBRACKET,
    TK_RBRACKET,
    TK_LPAREN,
    TK_RPAREN,
    TK_LBRACE,
    TK_RBRACE,
    TK_EQ,
    TK_NE,
    TK_GT,
    TK_GE,
    TK_LT,
    TK_LE,
    TK_ASSIGN,
    TK_DOT,
    TK_COLON,
    TK_PIPE,
    TK_COMMA,
    TK_SEMICOLON,
    TK_KINDS
};
struct jtok {
    enum jtok_kind kind;
    uint32_t pos, end; /* range in bytes; end is set only within tags */
    struct jval val;   /* text, name, or number */
};
/* Returns a token kind's name, as in Jinja's messages. */
const char *jtok_name(enum jtok_kind k);
/* Splits a template into tokens, in the arena; the last one is TK_EOF. */
struct jtok *jlex(struct jctx *c, const char *src, size_t len, size_t *n_out);
/* Parses tokens into the template's list of statements. */
struct jnode *jparse(struct jctx *c, struct jtok *tok, size_t n_tok);
/* Resolves all names of a parsed template to variables or globals. */
void jscope_resolve(struct jctx *c, struct jinja *t);
/* Converts byte offset `pos` of src to line and column, both 1-based. */
void jx_where(const char *src, size_t len, uint32_t pos, int *line, int *col);

#endif
