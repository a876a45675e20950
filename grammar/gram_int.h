// SPDX-License-Identifier: MIT
/* grammar/gram_int.h - what the files of grammar/ share.
 *
 * A language is a tree of nodes, equal ones made once (lang.c). Nodes without RULE and PICK in them
 * are regular: each is a state of a lazy automaton, and the node behind a byte is its derivative
 * (derivative.c). What is not regular lives on stacks: a place in the text is a set of items
 * (regular node, stack of nodes that follow), step.c. mask.c asks which tokens a place allows. */
#ifndef HONE_GRAMMAR_GRAM_INT_H
#define HONE_GRAMMAR_GRAM_INT_H

#include <pthread.h>
#include <string.h>

#include "base/ctx.h"
#include "grammar/gram.h"

/* ---- nodes ---- */

typedef uint32_t gnode; /* index; equal languages of equal build have equal indices */
enum gkind {
    G_NONE, /* nothing, not even the empty text: always node 0 */
    G_EPS,  /* the empty text: always node 1 */
    G_SET,  /* a: one byte of set a */
    G_CAT,  /* a, then b; a is no CAT */
    G_ALT,  /* one of list [a, a+b) */
    G_AND,  /* all of list [a, a+b); regular */
    G_NOT,  /* any bytes but a; regular */
    G_REP,  /* a, lo to hi times */
    G_MOD,  /* decimal digits; the number so far leaves b, 0 is wanted, modulo a */
    G_RULE, /* the body of rule a */
    /* members of struct gpick a: lo are written, bits are used up; b: language of the unlisted
     * names written so far; hi: 1 if one more was written whose name is unknown */
    G_PICK,
    /* the rest of an unlisted member after its name: entry hi of `other` in struct gpick a; lo,
     * bits and b are those after the member, without its name */
    G_NAMED
};
enum { GF_NULL = 1, GF_REGULAR = 2, GF_PLAIN = 4, GF_LIVE = 8, GF_KNOWN = 16, GF_FIT = 32 };
#define GRAM_INF UINT32_MAX
struct gnode_data {
    uint8_t kind, flags;  /* matches the empty text; regular; cannot be empty unless NONE; can be
                             completed, and whether that is known; whether the next two are */
    uint8_t kinds, chars; /* any text of at most `chars` characters of these kinds is allowed, and
                             the language does not end within it (mask.c) */
    uint32_t a, b, lo, hi;
    uint64_t bits;
    uint32_t chain; /* of the hash table */
};
/* Bytes that no UTF-8 has: edges of anchors while regular expressions are compiled, and of special
 * tokens: GRAM_TOKEN and three bytes of the id, highest first. */
enum { GRAM_AT_END = 0xfd, GRAM_AT_START = 0xfe, GRAM_TOKEN = 0xff };

/* Members of an object, or of a set: each row at most once. */
enum { GRAM_PICK_BITS = 64 };
struct gpick_row {
    gnode body;
    bool required;
    uint64_t needs; /* rows that must be there when this one is */
};
struct gother { /* unlisted members: name between the quotes, rest after the closing quote */
    gnode key, rest;
};
struct gpick {
    struct gpick_row *row;
    int n;
    struct gother *other; /* alternatives of `extra`; each name comes once (once.c) */
    int n_other;
    gnode open, shut; /* quotes around a name */
    uint32_t open_bytes, shut_bytes;
    bool ordered;    /* always, with more than GRAM_PICK_BITS rows */
    uint32_t lo, hi; /* members */
    gnode extra;     /* what may come any number of times, behind the rows when ordered; 0 */
    gnode first, sep, close;
    uint64_t required; /* rows, as bits */
    /* once the grammar is sealed: */
    uint64_t usable;       /* rows that can be written, with all that they need */
    struct gpick_far *far; /* [n + 1] of more than GRAM_PICK_BITS rows */
};
struct gpick_far {         /* from a row on */
    uint32_t usable, must; /* rows that can be written, that must be there */
    uint32_t due;          /* the first of the latter; n: none */
};
struct grule {
    gnode body;
    const char *name; /* in the text of a grammar, borrowed until it is sealed; NULL */
    size_t name_len;
    bool null, live;
    uint8_t mark;   /* of a search */
    uint32_t least; /* bytes of its shortest text, min_len.c */
};

/* A stack: what follows, nearest first. 0 is the empty one. */
struct gtail {
    gnode node;
    uint32_t parent, depth, chain;
    uint32_t item, n_item; /* items when the part before it is complete: in g->item */
    uint32_t way;          /* that completes what follows, and 1; 0, GRAM_INF: shortest.c */
    uint8_t state;         /* 0 not expanded, 1 under way, 2 done */
    bool can_end;
};
struct gitem {
    gnode head; /* regular, not EPS */
    uint32_t tail;
};
enum { GRAM_ITEMS_MAX = 4096, GRAM_DEPTH_MAX = 1024 };
enum { GRAM_NAME_MAX = 200, GRAM_NAME_LOST = -1, GRAM_NAME_UNKNOWN = -2 };
struct gname { /* member name written so far, with the space, comma and quote before it */
    int n;     /* bytes; GRAM_NAME_LOST: too long; GRAM_NAME_UNKNOWN: not kept here */
    char s[GRAM_NAME_MAX];
};
struct gconf {
    int n;
    bool can_end;
    bool fresh, named; /* an item begins a name here; an item is inside one */
    struct gname name; /* when named */
    struct gitem it[GRAM_ITEMS_MAX];
};

struct gleast {     /* of a node's shortest text */
    uint32_t bytes; /* how many, and 1; 0: not looked for, GRAM_INF: none is known */
    uint16_t first; /* the first of them, and 1; 0: not looked for */
};
struct gway {         /* a short text: a part of its own, then another way */
    uint32_t at, n;   /* the part: in g->spelled, at least 1 byte */
    uint32_t next;    /* the other way; 0: none */
    uint32_t n_bytes; /* in all */
};
struct gspelled { /* a byte of a way, and the fewest tokens that spell the text from it on */
    uint32_t tokens;
    int32_t id;   /* the first of them */
    uint16_t len; /* its bytes */
    uint8_t byte;
};
struct gset {
    uint64_t w[4];
};
enum { GRAM_SLICES = 3, GRAM_SLICE_CHARS = 32, GRAM_KINDS = 7 };
struct gleaf; /* mask.c */
struct grammar {
    pthread_mutex_t lock; /* of everything that grows after grammar_seal */
    const struct gram_vocab *v;
    struct gnode_data *node;
    uint32_t n_node, cap_node, *bucket, n_bucket;
    gnode *list;
    uint32_t n_list, cap_list;
    struct gset *set;
    uint32_t n_set, cap_set;
    uint16_t *set_slot; /* hash table of the sets: index and 1 */
    struct grule *rule;
    uint32_t n_rule, cap_rule;
    struct gpick *pick;
    uint32_t n_pick, cap_pick;
    gnode root, any; /* any: all byte strings */
    gnode n_judged;  /* nodes before it: GF_LIVE says whether they have any text */
    bool sealed, has_mod, has_other;
    struct ctx_cost own, *cost; /* cost: that of the caller while it is compiled, then own */
    char why[96];               /* of `full`, where it names a number */
    uint8_t cls[256], rep[256]; /* class of a byte, a byte of a class */
    uint16_t cls_size[256];
    int n_cls;
    struct gset kind_cls[GRAM_KINDS], *high_cls; /* sets of classes, token_class.c */
    gnode json_char; /* gn_char_json, once it was made: holds all of them; 0 */
    uint32_t **row;  /* [node][class] derivative + 1; NULL, 0: not computed */
    uint32_t cap_row;
    struct gtail *tail;
    uint32_t n_tail, cap_tail, *tail_bucket, n_tail_bucket;
    struct gitem *item;
    uint32_t n_item, cap_item;
    size_t bytes;
    const char *full;    /* NULL, or what there is too much of */
    bool unsure;         /* the walk continued in an object with an unknown name */
    int depth;           /* of recursion */
    uint64_t n_searched; /* states that were looked at for whether they have any text */
    uint32_t *seen;      /* [node] the search that came to it last */
    uint32_t cap_seen, search;
    struct gleast *least; /* [node] */
    uint32_t cap_least;
    bool least_known; /* of rules, too */
    struct gway *way; /* [0]: none of a byte */
    uint32_t n_way, cap_way;
    struct gspelled *spelled;
    uint32_t n_spelled, cap_spelled;
    struct gleaf **leaf;
    uint32_t n_leaf_bucket;
    size_t leaf_bytes;
    uint64_t leaf_clock;
    struct gconf *scratch;  /* [longest token + 2] */
    struct sc_plain *plain; /* made once for all schemas of the grammar: schema_int.h */
    uint32_t n_plain;
};
/* Returns p with room for element n, each of `size` bytes, which g->bytes counts; *cap is how many
 * there is room for. */
void *grammar_grow(struct grammar *g, void *p, uint32_t *cap, uint32_t n, size_t size);
/* Makes an empty grammar. grammar_seal ends building it: byte classes, which rules can be empty or
 * never end. That returns ERR_DATA for left recursion, for a language without any text and for one
 * that is too large. */
struct grammar *grammar_new(const struct gram_vocab *v);
int grammar_seal(struct grammar *g, gnode root, struct err *e);
#define GRAM_NO_TEXT "no text at all satisfies it"
/* Returns ERR_DATA when a limit was reached, and 0 otherwise. */
int grammar_full(const struct grammar *g, struct err *e);
/* Seals g and hands it out, or frees it when rc or sealing says so. */
int grammar_done(struct grammar **out, struct grammar *g, gnode root, int rc, struct err *e);

/* Looks at the limit, and at whether anyone still waits: gram_spend, when it is time. */
bool gram_spend_more(struct grammar *g);
/* Counts n steps of work. Returns false when that is too much, or no longer wanted; g->full says so
 * then. */
static inline bool gram_spend(struct grammar *g, uint64_t n) {
    g->cost->spent += n;
    return g->cost->spent < g->cost->next ? !g->full : gram_spend_more(g);
}

/* Begins a call on a state, with g->lock held. Resets the step count, unless the thread has a cost
 * (ctx_cost), which its calls share. */
static inline void gram_call(struct grammar *g) {
    struct ctx_cost *c = ctx_cost();
    g->own.spent = g->own.next = 0;
    g->cost = c ? c : &g->own;
}
/* Ends it: other threads must not see this thread's cost. */
static inline void gram_call_end(struct grammar *g) {
    g->cost = &g->own;
}

static inline const struct gnode_data *gn(const struct grammar *g, gnode n) {
    return &g->node[n];
}
static inline bool gn_null(const struct grammar *g, gnode n) {
    return g->node[n].flags & GF_NULL;
}
static inline bool gn_regular(const struct grammar *g, gnode n) {
    return g->node[n].flags & GF_REGULAR;
}

/* Returns the language of one byte of the set. This and the functions below make languages from
 * languages, and return 0 (nothing) when a limit was reached, which g->full then names. Defined in
 * lang.c. */
gnode gn_set(struct grammar *g, const struct gset *s);
/* Returns the language of one byte of [from, to]. */
gnode gn_bytes(struct grammar *g, int from, int to);
gnode gn_text(struct grammar *g, const char *s, size_t n);
gnode gn_str(struct grammar *g, const char *s);
gnode gn_cat(struct grammar *g, gnode a, gnode b);
gnode gn_cat3(struct grammar *g, gnode a, gnode b, gnode c);
gnode gn_alt(struct grammar *g, gnode a, gnode b);
gnode gn_alts(struct grammar *g, const gnode *v, size_t n);
gnode gn_and(struct grammar *g, gnode a, gnode b);
gnode gn_ands(struct grammar *g, const gnode *v, size_t n);
gnode gn_not(struct grammar *g, gnode a);
gnode gn_rep(struct grammar *g, gnode a, uint32_t lo, uint32_t hi);
gnode gn_opt(struct grammar *g, gnode a);
/* Returns the n languages v one after the other. */
gnode gn_cats(struct grammar *g, const gnode *v, size_t n);
gnode gn_mod(struct grammar *g, uint32_t by, uint32_t rest);
gnode gn_rule(struct grammar *g, uint32_t rule);
gnode gn_pick(struct grammar *g, uint32_t pick, uint32_t count, uint64_t bits);
/* Makes a G_PICK or G_NAMED node; the fields of d are described at enum gkind. */
gnode gn_members(struct grammar *g, struct gnode_data d);
/* Makes a rule and returns its number; its body is to be set. */
uint32_t grammar_rule(struct grammar *g);
/* Returns the body as a rule of its own, so that its masks are shared. */
gnode gn_as_rule(struct grammar *g, gnode body);
/* Adds what *p says of members and returns its number. Takes p->row over. */
uint32_t grammar_pick(struct grammar *g, const struct gpick *p);

/* Returns the derivative of n: what may follow in it behind the byte. May be called before sealing,
 * too. Defined in derivative.c, as the next two are. */
gnode gn_deriv(struct grammar *g, gnode n, uint8_t byte);
/* Returns the derivative of n by a byte of the class, and remembers it. G_NONE also stands for
 * languages without any text. */
gnode gn_step(struct grammar *g, gnode n, int cls);
/* Tells whether n, which is regular, has any text. */
bool gn_live(struct grammar *g, gnode n);

/* once.c: unique names. */

/* Sets the `other` fields of a pick. Takes ownership of v, which has n entries. */
void gram_once(struct grammar *g, struct gpick *p, struct gother *v, int n, gnode open, gnode shut);
/* Returns `key` without the names in `seen` (0: none were written). */
gnode gram_once_left(struct grammar *g, gnode key, gnode seen);
/* Returns the rest of the object after a member of that name; d is the G_NAMED node. */
gnode gram_once_next(struct grammar *g, const struct gnode_data *d, const struct gname *name);
/* Adds a byte to a name. */
static inline void gname_add(struct gname *name, uint8_t byte) {
    if (name->n >= 0 && name->n < GRAM_NAME_MAX)
        name->s[name->n++] = (char)byte;
    else if (name->n >= 0)
        name->n = GRAM_NAME_LOST;
}
static inline void gname_copy(struct gname *to, const struct gname *from) {
    to->n = from->n;
    if (from->n > 0) memcpy(to->s, from->s, (size_t)from->n);
}
/* Returns the stack without the G_NAMED on top, continued after a name; GRAM_INF: full. */
uint32_t gconf_named(struct grammar *g, uint32_t tail, const struct gname *name);
static inline bool gtail_named(const struct grammar *g, uint32_t tail) {
    return tail && g->node[g->tail[tail].node].kind == G_NAMED;
}

/* Sets *c to the places where a text of the grammar begins. Defined in step.c, as the next two
 * are. */
void gconf_start(struct grammar *g, struct gconf *c);
void gconf_step(struct grammar *g, const struct gconf *in, uint8_t byte, struct gconf *out);
/* Sets *out to what follows when everything before the stack `tail` is complete. name: that of the
 * member being written, if any; NULL: unknown. */
void gconf_pop(struct grammar *g, uint32_t tail, const struct gname *name, struct gconf *out);
void gconf_copy(struct gconf *to, const struct gconf *from);
static inline bool gconf_dead(const struct gconf *c) {
    return c->n == 0 && !c->can_end;
}

/* min_len.c: shortest texts, in bytes. */

/* Returns a + b, where GRAM_INF is more than any number. */
static inline uint32_t gn_sum(uint32_t a, uint32_t b) {
    return a >= GRAM_INF - b || b == GRAM_INF ? GRAM_INF : a + b;
}
/* Returns the place of what is remembered of node n; it holds until the next node's. */
struct gleast *gn_kept(struct grammar *g, gnode n);
/* Returns how few bytes a text of n has, GRAM_INF when none is known. */
uint32_t gn_least(struct grammar *g, gnode n);
/* Finds how few bytes each rule needs, once. */
void gram_know_rules(struct grammar *g);
/* Returns how few bytes complete a text behind c; *best gets the item that leads there: of several
 * one that begins with a byte, because the others may lead back to c. */
uint32_t gconf_least(struct grammar *g, const struct gconf *c, int *best);

struct gram_state {
    struct grammar *g;
    bool ended; /* an ending token came */
    struct gconf c;
};

/* ---- vocabulary (vocab.c) ---- */

struct gtrie_node { /* depth first */
    uint32_t skip;  /* behind the subtree */
    uint32_t first; /* gtrie.id[first] is the first token of the subtree; those that end here come
                       before all others, so they end with the `first` of the next node */
    uint16_t depth; /* 1: the first byte */
    uint8_t byte;
    uint8_t kinds; /* of all characters of the subtree, from the one that this byte belongs to on:
                      1 << kind; GRAM_ODD: some are of no kind, or it is no UTF-8 */
};
enum { GRAM_ODD = 0x80, GRAM_CHARS_MAX = 0x7f };
struct gtrie {
    struct gtrie_node *v; /* [n + 1] */
    int32_t *id;          /* tokens, sorted by their bytes */
    uint8_t *chars; /* [n] the most of those characters that a token has; 0x80: one ends here */
    uint32_t n;
};
/* Tokens that are nothing but characters of a kind, at most GRAM_SLICE_CHARS of them. */
struct gslice {
    uint32_t *bits[GRAM_SLICE_CHARS + 1]; /* [k]: those of at most k characters */
    struct gtrie rest;                    /* all other tokens */
};
struct gram_vocab {
    int64_t n;
    size_t n_words; /* of a mask */
    char *bytes;
    uint32_t *at; /* [n + 1] bytes of token i begin at at[i]; special ones: edges */
    uint8_t *is_end;
    int32_t *end; /* the same as a list */
    int n_end;
    struct gtrie all;
    struct gslice slice[GRAM_SLICES];
    size_t longest;
    bool has_bytes; /* every byte that UTF-8 has is a token */
    struct special {
        char *text;
        int32_t id;
    } * special; /* control tokens by text, longest first */
    int n_special;
    size_t n_bytes; /* memory */
};
static inline const char *gram_token(const struct gram_vocab *v, int32_t id, size_t *len) {
    *len = v->at[id + 1] - v->at[id];
    return v->bytes + v->at[id];
}
/* Returns the kind of a character that JSON writes as it is, 0 to GRAM_KINDS - 1. The ends of lines
 * that '.' leaves out are of none. Returns -1 for characters of no kind. */
int gram_kind_of(uint32_t cp);
/* Returns the kinds of slice k, as bits. */
unsigned gram_slice_kinds(int k);

/* token_class.c: which texts a state allows whatever they say. */

/* Notes which classes of bytes the kinds have. The classes must be known by then. */
void gram_fit_classes(struct grammar *g);
/* Returns the slice that the state `head` allows up to *chars characters of; returns -1 when there
 * is none. */
int gram_slice_of(struct grammar *g, gnode head, int *chars);
/* Returns `head` without the conditions that exclude only finitely many texts; `head` itself if it
 * has none. */
gnode gram_wider(struct grammar *g, gnode head);
/* Works out once what gnode_data.kinds and .chars say. */
void gram_fit(struct grammar *g, gnode n);

/* Frees the masks that the grammar remembers. Defined in mask.c. */
void gram_masks_free(struct grammar *g);

/* ---- sets of characters (chars.c) ---- */

struct gchars { /* sorted ranges; zero-initialised is empty; free(v) */
    struct grange {
        uint32_t lo, hi;
    } * v;
    size_t n, cap;
};
/* Adds the characters lo to hi. They may come in any order; gchars_sort is called afterwards. */
void gchars_add(struct gchars *c, uint32_t lo, uint32_t hi);
void gchars_sort(struct gchars *c);
/* Replaces the set by all other scalar values, sorted. */
void gchars_invert(struct gchars *c);
void gchars_release(struct gchars *c);
/* Returns the language of one character of the set c, in UTF-8. escaped tells that it is written as
 * between the quotation marks of JSON in its usual form: escaped only where it must be, \u00xx only
 * where there is nothing shorter. */
gnode gn_chars(struct grammar *g, const struct gchars *c, bool escaped);
gnode gn_char_any(struct grammar *g, bool escaped);
/* Returns the language of one character of a JSON string, written in any way that JSON allows. */
gnode gn_char_json(struct grammar *g);
/* Returns the language of one text, s of n bytes, in that usual form of JSON without the quotation
 * marks. */
gnode gn_escaped(struct grammar *g, const char *s, size_t n);

/* ---- readers ---- */

struct gregex {   /* how a regular expression is read */
    bool escaped; /* it speaks of the text of a JSON string */
    bool search;  /* it may match anywhere */
    bool ecma;    /* as JSON Schema means it: '.' stops at all ends of lines */
    bool any_case, dot_all, verbose;
    const char *what; /* names it in messages */
};
int gn_regex(struct grammar *g, const char *s, size_t n, const struct gregex *o, gnode *out,
             struct err *e);
/* Returns the language of one text, s of n bytes, in which the control tokens of the vocabulary
 * stand for themselves. */
gnode gn_marker(struct grammar *g, const char *s, size_t n);
/* How values are written when it is not as JSON. */
struct gform {
    bool object;              /* the value is an object whatever the schema says */
    bool no_text;             /* it is no string */
    const char *open, *close; /* around strings, which are written as they are; NULL: JSON's */
    bool bare_names;          /* names of members are identifiers without quotes */
    bool python;              /* only escapes that Python has too */
};
/* Sets *out to the language of values that satisfy a schema. at is the schema, within root, in
 * which references are resolved. o NULL means the usual options, form NULL means that values are
 * written as JSON. */
int gn_schema(struct grammar *g, const struct json *root, const struct json *at,
              const struct gram_opts *o, const struct gform *form, gnode *out, struct err *e);
/* Which values a schema allows besides strings, as bits 1 << enum json_type. None where it says
 * nothing. */
struct gothers {
    uint32_t all, any; /* any: any value of the type as far as a list of values goes */
};
/* Sets *out to the strings that satisfy a schema, as they are, without quotation marks. The node is
 * regular. o NULL means the usual options. */
int gn_schema_text(struct grammar *g, const struct json *root, const struct json *at,
                   const struct gram_opts *o, gnode *out, struct gothers *others, struct err *e);

#endif
