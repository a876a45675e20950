// SPDX-License-Identifier: MIT
/* grammar/gram_int.h - internals shared by the files of grammar/.
 *
 * A language is a tree of hash-consed nodes (lang.c). A node that contains neither rules nor picks
 * is regular: it is a state of a lazy automaton, whose transitions are Brzozowski derivatives
 * (derivative.c). The other nodes need stacks: a position in the text is a set of items, each a
 * regular node and a stack of the nodes that follow it (gram_step.c). mask.c computes the tokens
 * that a position allows. */
#ifndef HONE_GRAMMAR_GRAM_INT_H
#define HONE_GRAMMAR_GRAM_INT_H

#include <pthread.h>
#include <string.h>

#include "base/ctx.h"
#include "grammar/gram.h"

/* ---- nodes ---- */

typedef uint32_t gnode; /* index; structurally equal languages have equal indices */
enum gkind {
    G_NONE, /* the empty language, always node 0 */
    G_EPS,  /* the empty text, always node 1 */
    G_SET,  /* a: one byte of set a */
    G_CAT,  /* a, then b; a is not a CAT */
    G_ALT,  /* one of list[a] .. list[a + b - 1] */
    G_AND,  /* all of list[a] .. list[a + b - 1]; regular */
    G_NOT,  /* all texts that a does not match; regular */
    G_REP,  /* a, lo to hi times */
    G_MOD,  /* digits that complete a multiple of a after digits with remainder b */
    G_RULE, /* the body of rule a */
    /* Rest of the object described by struct gpick number a. lo: members written. bits: rows used.
     * b: language of the unlisted names written so far. hi: 1 if another unlisted name was written
     * but not recorded. */
    G_PICK,
    /* Rest of an unlisted member after its name: `rest` of entry hi of `other` in gpick a, then the
     * rest of the object. lo, bits and b are those after the member, except that b lacks its
     * name. */
    G_NAMED
};
enum { GF_NULL = 1, GF_REGULAR = 2, GF_PLAIN = 4, GF_LIVE = 8, GF_KNOWN = 16, GF_FIT = 32 };
#define GRAM_INF UINT32_MAX
struct gnode_data {
    /* Flags GF_*, in order: matches the empty text; is regular; has some text unless it is G_NONE;
     * has some text, and whether that is known; `kinds` and `chars` are known. */
    uint8_t kind, flags;
    /* The node allows any text of up to `chars` characters of these kinds without ending before
     * that text does (mask.c). */
    uint8_t kinds, chars;
    uint32_t a, b, lo, hi;
    uint64_t bits;
    uint32_t chain; /* next in the hash bucket */
};
/* Bytes that never occur in UTF-8. AT_END, AT_START: anchors while regular expressions are
 * compiled. GRAM_TOKEN: a special token, followed by three bytes of its id, highest first. */
enum { GRAM_AT_END = 0xfd, GRAM_AT_START = 0xfe, GRAM_TOKEN = 0xff };

/* Members of an object or elements of a set: each row occurs at most once. */
enum { GRAM_PICK_BITS = 64 };
struct gpick_row {
    gnode body;
    bool required;
    uint64_t needs; /* rows required if this one is present */
};
struct gother { /* unlisted members: name between the quotes, rest after the closing quote */
    gnode key, rest;
};
struct gpick {
    struct gpick_row *row;
    int n;
    struct gother *other; /* alternatives of `extra`; each name occurs once (once.c) */
    int n_other;
    gnode open, shut; /* quotes around a name */
    uint32_t open_bytes, shut_bytes;
    bool ordered;    /* always true with more than GRAM_PICK_BITS rows */
    uint32_t lo, hi; /* number of members */
    /* Further members or elements, any number of them, after the rows if ordered; 0: none. */
    gnode extra;
    gnode first, sep, close;
    uint64_t required; /* rows, as bits */
    /* Set by grammar_seal(): */
    uint64_t usable;       /* rows that can be written together with all rows they need */
    struct gpick_far *far; /* [n + 1], if there are more than GRAM_PICK_BITS rows */
};
struct gpick_far {         /* counts for row i and the rows after it */
    uint32_t usable, must; /* rows that can be written, and rows required */
    uint32_t due;          /* first required row; n: none */
};
struct grule {
    gnode body;
    const char *name; /* in the grammar's text, borrowed until sealed; NULL: none */
    size_t name_len;
    bool null, live;
    uint8_t mark;   /* left-recursion check: 0: not visited, 1: in progress, 2: done */
    uint32_t least; /* length of its shortest text in bytes, min_len.c */
};

/* A stack of the nodes that follow, the nearest on top. Index 0 is the empty stack. */
struct gtail {
    gnode node;
    uint32_t parent, depth, chain;
    uint32_t item, n_item; /* items at the top of this stack: range in g->item */
    /* Index of the way that completes the stack (shortest.c), + 1; 0: not computed, GRAM_INF:
     * none. */
    uint32_t way;
    uint8_t state; /* 0: not expanded, 1: in progress, 2: done */
    bool can_end;
};
struct gitem {
    gnode head; /* regular, not EPS */
    uint32_t tail;
};
enum { GRAM_ITEMS_MAX = 4096, GRAM_DEPTH_MAX = 1024 };
enum { GRAM_NAME_MAX = 200, GRAM_NAME_LOST = -1, GRAM_NAME_UNKNOWN = -2 };
struct gname { /* member name written so far, and the comma, space and quote before it */
    int n;     /* bytes; GRAM_NAME_LOST: too long; GRAM_NAME_UNKNOWN: not recorded */
    char s[GRAM_NAME_MAX];
};
struct gconf {
    int n;
    bool can_end;
    bool fresh, named; /* an item begins a name here; an item is inside a name */
    struct gname name; /* valid if named */
    struct gitem it[GRAM_ITEMS_MAX];
};

struct gleast {     /* a node's shortest text */
    uint32_t bytes; /* length + 1; 0: not computed, GRAM_INF: none known */
    uint16_t first; /* its first byte + 1; 0: not computed */
};
struct gway {         /* a shortest completion: its own bytes, then those of another way */
    uint32_t at, n;   /* range of its own bytes in g->spelled, at least 1 */
    uint32_t next;    /* the way that follows; 0: none */
    uint32_t n_bytes; /* total length */
};
struct gspelled { /* a byte of a way, and the fewest tokens that spell the text starting with it */
    uint32_t tokens;
    int32_t id;   /* the first of these tokens */
    uint16_t len; /* its length in bytes */
    uint8_t byte;
};
struct gset {
    uint64_t w[4];
};
enum { GRAM_SLICES = 3, GRAM_SLICE_CHARS = 32, GRAM_KINDS = 7 };
struct gleaf; /* mask.c */
struct grammar {
    pthread_mutex_t lock; /* protects everything that grows after grammar_seal() */
    const struct gram_vocab *v;
    struct gnode_data *node;
    uint32_t n_node, cap_node, *bucket, n_bucket;
    gnode *list;
    uint32_t n_list, cap_list;
    struct gset *set;
    uint32_t n_set, cap_set;
    uint16_t *set_slot; /* hash table of the sets: index + 1 */
    struct grule *rule;
    uint32_t n_rule, cap_rule;
    struct gpick *pick;
    uint32_t n_pick, cap_pick;
    gnode root, any; /* any: all byte strings */
    gnode n_judged;  /* GF_LIVE is valid for nodes with a smaller index */
    bool sealed, has_mod, has_other;
    struct ctx_cost own, *cost; /* cost: the caller's while compiling, then `own` */
    char why[96];               /* storage for `full` if it contains a number */
    uint8_t cls[256], rep[256]; /* class of each byte; a byte of each class */
    uint16_t cls_size[256];
    int n_cls;
    struct gset kind_cls[GRAM_KINDS], *high_cls; /* sets of byte classes, token_class.c */
    /* gn_char_json() of the whole JSON alphabet, once created; 0: not yet. */
    gnode json_char;
    uint32_t **row; /* [node][class] derivative + 1; NULL, 0: not computed */
    uint32_t cap_row;
    struct gtail *tail;
    uint32_t n_tail, cap_tail, *tail_bucket, n_tail_bucket;
    struct gitem *item;
    uint32_t n_item, cap_item;
    size_t bytes;
    const char *full;    /* the limit reached; NULL: none */
    bool unsure;         /* the last step continued an object that contains an unknown name */
    int depth;           /* recursion depth */
    uint64_t n_searched; /* states visited when searching for a text */
    uint32_t *seen;      /* [node] last search that visited it */
    uint32_t cap_seen, search;
    struct gleast *least; /* [node] */
    uint32_t cap_least;
    bool least_known; /* the lengths of rules are also known */
    struct gway *way; /* [0]: the empty way */
    uint32_t n_way, cap_way;
    struct gspelled *spelled;
    uint32_t n_spelled, cap_spelled;
    struct gleaf **leaf;
    uint32_t n_leaf_bucket;
    size_t leaf_bytes;
    uint64_t leaf_clock;
    struct gconf *scratch; /* [longest token + 2] */
    /* Values without conditions, shared by all schemas of the grammar (schema_int.h). */
    struct sc_plain *plain;
    uint32_t n_plain;
};
/* Returns p with room for element n of `size` bytes, and counts the memory in g->bytes; *cap:
 * elements allocated. */
void *grammar_grow(struct grammar *g, void *p, uint32_t *cap, uint32_t n, size_t size);
/* Creates an empty grammar. grammar_seal() finishes it: computes the byte classes, and finds the
 * rules that match the empty text or nothing at all. It returns ERR_DATA if a rule is
 * left-recursive, the language is empty, or a limit is reached. */
struct grammar *grammar_new(const struct gram_vocab *v);
/* Finishes a grammar with this root. ERR_DATA: left recursion, or too large. */
int grammar_seal(struct grammar *g, gnode root, struct err *e);
#define GRAM_NO_TEXT "no text can satisfy it"
/* Returns ERR_DATA if a limit was reached, else 0. */
int grammar_full(const struct grammar *g, struct err *e);
/* Seals g and returns it in *out. Frees it if rc is an error or sealing fails. */
int grammar_done(struct grammar **out, struct grammar *g, gnode root, int rc, struct err *e);

/* Checks the step limit and cancellation; called by gram_spend() now and then. False: the work must
 * stop. */
bool gram_spend_more(struct grammar *g);
/* Counts n steps of work. Returns false, with g->full set, if the limit is reached or the caller
 * has cancelled. */
static inline bool gram_spend(struct grammar *g, uint64_t n) {
    g->cost->spent += n;
    return g->cost->spent < g->cost->next ? !g->full : gram_spend_more(g);
}

/* Begins a call on a state; g->lock is held. Resets the step count, unless the thread has a cost
 * (ctx_cost), which all its calls share. */
static inline void gram_call(struct grammar *g) {
    struct ctx_cost *c = ctx_cost();
    g->own.spent = g->own.next = 0;
    g->cost = c ? c : &g->own;
}
/* Ends a call; other threads must not see this thread's cost. */
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

/* Returns the language of one byte of the set. This and the functions below build languages from
 * other languages. They return G_NONE if a limit is reached (g->full). Defined in lang.c. */
gnode gn_set(struct grammar *g, const struct gset *s);
/* Returns the language of one byte in [from, to]. */
gnode gn_bytes(struct grammar *g, int from, int to);
/* Returns the language of exactly these n bytes. */
gnode gn_text(struct grammar *g, const char *s, size_t n);
/* Returns the node for the literal text. */
gnode gn_str(struct grammar *g, const char *s);
/* Returns the concatenation of a and b. */
gnode gn_cat(struct grammar *g, gnode a, gnode b);
/* Returns the node for a, b and c in sequence. */
gnode gn_cat3(struct grammar *g, gnode a, gnode b, gnode c);
gnode gn_alt(struct grammar *g, gnode a, gnode b);
/* Returns the union of n nodes; G_NONE if n is 0. */
gnode gn_alts(struct grammar *g, const gnode *v, size_t n);
gnode gn_and(struct grammar *g, gnode a, gnode b);
/* Returns the intersection of n nodes; any text if n is 0. */
gnode gn_ands(struct grammar *g, const gnode *v, size_t n);
/* Returns the complement: all texts that a does not match. */
gnode gn_not(struct grammar *g, gnode a);
/* Returns a node for a repeated lo to hi times; hi GRAM_INF: no upper limit. */
gnode gn_rep(struct grammar *g, gnode a, uint32_t lo, uint32_t hi);
/* Returns a node for a or the empty text. */
gnode gn_opt(struct grammar *g, gnode a);
/* Returns the concatenation of the n languages v. */
gnode gn_cats(struct grammar *g, const gnode *v, size_t n);
/* Returns the language of digits that complete a number divisible by `by`; rest: remainder so
 * far. */
gnode gn_mod(struct grammar *g, uint32_t by, uint32_t rest);
/* Returns the node that refers to the rule. */
gnode gn_rule(struct grammar *g, uint32_t rule);
/* Returns the language of the remaining members of `pick`; bits: members already used. */
gnode gn_pick(struct grammar *g, uint32_t pick, uint32_t count, uint64_t bits);
/* Creates a G_PICK or G_NAMED node; the fields of d are described at enum gkind. */
gnode gn_members(struct grammar *g, struct gnode_data d);
/* Creates a rule without a body and returns its index. */
uint32_t grammar_rule(struct grammar *g);
/* Returns the body as a separate rule, so that all its uses share masks. */
gnode gn_as_rule(struct grammar *g, gnode body);
/* Adds *p and returns its index. Takes ownership of p->row. */
uint32_t grammar_pick(struct grammar *g, const struct gpick *p);

/* Returns the derivative of n by a byte. May also be called before sealing. Defined in
 * derivative.c, like the next two. */
gnode gn_deriv(struct grammar *g, gnode n, uint8_t byte);
/* Returns the derivative of n by a byte of class cls, from a cache. Returns G_NONE if the
 * derivative has no text. */
gnode gn_step(struct grammar *g, gnode n, int cls);
/* Returns whether the regular node n has any text. */
bool gn_live(struct grammar *g, gnode n);

/* once.c: unique names. */

/* Sets the `other` fields of a pick. Takes ownership of v, which has n entries. */
void gram_once(struct grammar *g, struct gpick *p, struct gother *v, int n, gnode open, gnode shut);
/* Returns `key` without the names in `seen`; seen 0: no names were written. */
gnode gram_once_left(struct grammar *g, gnode key, gnode seen);
/* Returns the rest of the object after a member of that name; d is the G_NAMED node. */
gnode gram_once_next(struct grammar *g, const struct gnode_data *d, const struct gname *name);
/* Appends a byte to a name. */
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
/* Returns the stack that follows when `name` completes the G_NAMED on top of `tail`; GRAM_INF: a
 * limit is reached. */
uint32_t gconf_named(struct grammar *g, uint32_t tail, const struct gname *name);
static inline bool gtail_named(const struct grammar *g, uint32_t tail) {
    return tail && g->node[g->tail[tail].node].kind == G_NAMED;
}

/* Sets *c to the start of the grammar. Defined in gram_step.c, like the next two. */
void gconf_start(struct grammar *g, struct gconf *c);
/* Computes the configuration after a byte; it has no items if no text continues. */
void gconf_step(struct grammar *g, const struct gconf *in, uint8_t byte, struct gconf *out);
/* Sets *out to the position at which only the stack `tail` is left to match. name: the member name
 * being written; NULL: unknown. */
void gconf_pop(struct grammar *g, uint32_t tail, const struct gname *name, struct gconf *out);
/* Copies a configuration to another one with the same capacity. */
void gconf_copy(struct gconf *to, const struct gconf *from);
static inline bool gconf_dead(const struct gconf *c) {
    return c->n == 0 && !c->can_end;
}

/* min_len.c: lengths of shortest texts, in bytes. */

/* Returns a + b, where GRAM_INF is infinity. */
static inline uint32_t gn_sum(uint32_t a, uint32_t b) {
    return a >= GRAM_INF - b || b == GRAM_INF ? GRAM_INF : a + b;
}
/* Returns the cache entry of node n; valid until the next call. */
struct gleast *gn_kept(struct grammar *g, gnode n);
/* Returns the length of the shortest text of n; GRAM_INF: none known. */
uint32_t gn_least(struct grammar *g, gnode n);
/* Computes the shortest length of each rule; does nothing if they are known. */
void gram_know_rules(struct grammar *g);
/* Returns the length of the shortest completion of c. Sets *best to the item it begins with. If
 * several items qualify, prefers one that consumes a byte, because the others may lead back to
 * c. */
uint32_t gconf_least(struct grammar *g, const struct gconf *c, int *best);

struct gram_state {
    struct grammar *g;
    bool ended; /* an end token was accepted */
    struct gconf c;
};

/* ---- vocabulary (gram_vocab.c) ---- */

struct gtrie_node { /* in depth-first order */
    uint32_t skip;  /* index after the subtree */
    /* gtrie.id[first] is the first token of the subtree. Tokens that end at this node come first,
     * so they end at the next node's `first`. */
    uint32_t first;
    uint16_t depth; /* 1: first byte */
    uint8_t byte;
    /* Kinds of all characters in the subtree, from the character of this byte on: bits 1 << kind.
     * GRAM_ODD: a character without a kind, or invalid UTF-8. */
    uint8_t kinds;
};
enum { GRAM_ODD = 0x80, GRAM_CHARS_MAX = 0x7f };
struct gtrie {
    struct gtrie_node *v; /* [n + 1] */
    int32_t *id;          /* tokens, sorted by their bytes */
    /* [n] The largest number of characters in a token of the subtree, counted like `kinds`; bit
     * 0x80: a character ends at this node. */
    uint8_t *chars;
    uint32_t n;
};
/* Tokens that consist only of characters of some kinds, up to GRAM_SLICE_CHARS of them. */
struct gslice {
    uint32_t *bits[GRAM_SLICE_CHARS + 1]; /* [k]: those of at most k characters */
    struct gtrie rest;                    /* all other tokens */
};
struct gram_vocab {
    int64_t n;
    size_t n_words; /* words per mask */
    char *bytes;
    uint32_t
        *at; /* [n + 1] token i begins at byte at[i]; a special token's bytes are its trie edges */
    uint8_t *is_end;
    int32_t *end; /* end tokens as a list */
    int n_end;
    struct gtrie all;
    struct gslice slice[GRAM_SLICES];
    size_t longest;
    bool has_bytes; /* every byte that occurs in UTF-8 is a token */
    struct special {
        char *text;
        int32_t id;
    } * special; /* control tokens by text, longest first */
    int n_special;
    size_t n_bytes; /* memory used */
};
static inline const char *gram_token(const struct gram_vocab *v, int32_t id, size_t *len) {
    *len = v->at[id + 1] - v->at[id];
    return v->bytes + v->at[id];
}
/* Returns the kind, 0 to GRAM_KINDS - 1, of a character that needs no escape in a JSON string. Line
 * ends that '.' does not match have no kind. Returns -1 for characters without a kind. */
int gram_kind_of(uint32_t cp);
/* Returns the kinds of slice k, as bits. */
unsigned gram_slice_kinds(int k);

/* token_class.c: states that accept any text of certain kinds of characters. */

/* Maps each kind of character to the grammar's byte classes, which must be known. */
void gram_fit_classes(struct grammar *g);
/* Returns the largest slice whose characters state `head` accepts, whichever they are, and sets
 * *chars to how many of them it accepts in a row. Returns -1 if there is no such slice. */
int gram_slice_of(struct grammar *g, gnode head, int *chars);
/* Returns `head` without its conditions that exclude only finitely many texts; `head` itself
 * without such conditions. */
gnode gram_wider(struct grammar *g, gnode head);
/* Computes gnode_data.kinds and .chars of node n, unless they are known. */
void gram_fit(struct grammar *g, gnode n);

/* Frees the cached masks. Defined in mask.c. */
void gram_masks_free(struct grammar *g);

/* ---- sets of characters (chars.c) ---- */

struct gchars { /* sorted ranges; zero-initialized: empty; free(v) */
    struct grange {
        uint32_t lo, hi;
    } * v;
    size_t n, cap;
};
/* Adds the characters lo to hi, in any order; call gchars_sort() afterwards. */
void gchars_add(struct gchars *c, uint32_t lo, uint32_t hi);
/* Sorts ranges and joins those that overlap or touch. */
void gchars_sort(struct gchars *c);
/* Replaces the set by its complement in Unicode scalar values, sorted. */
void gchars_invert(struct gchars *c);
void gchars_release(struct gchars *c);
/* Returns the language of one character of the set c, in UTF-8. escaped: as in a JSON string, with
 * escapes only where required and \u00xx only if there is no shorter one. */
gnode gn_chars(struct grammar *g, const struct gchars *c, bool escaped);
/* Returns the language of any character; escaped: written as in a JSON string. */
gnode gn_char_any(struct grammar *g, bool escaped);
/* Returns the language of one character of a JSON string, in any spelling that JSON allows. */
gnode gn_char_json(struct grammar *g);
/* Returns the language of the text s of n bytes, in JSON's usual spelling without quotation
 * marks. */
gnode gn_escaped(struct grammar *g, const char *s, size_t n);

/* ---- parsers ---- */

struct gregex {   /* options for reading a regular expression */
    bool escaped; /* applies to text inside a JSON string */
    bool search;  /* may match anywhere */
    bool ecma;    /* JSON Schema semantics: '.' stops at all line ends */
    bool any_case, dot_all, verbose;
    const char *what; /* what the text is, for messages */
};
/* Compiles a regex into *out; o->search: it may match anywhere in the text. */
int gn_regex(struct grammar *g, const char *s, size_t n, const struct gregex *o, gnode *out,
             struct err *e);
/* Returns the language of the text s of n bytes. A control token's name in it matches that token
 * instead of its characters. */
gnode gn_marker(struct grammar *g, const char *s, size_t n);
/* A notation for values that is not JSON. */
struct gform {
    bool object;              /* the value must be an object, even if the schema allows others */
    bool no_text;             /* the value is not a string */
    const char *open, *close; /* around strings, which are not escaped; NULL: JSON's */
    bool bare_names;          /* member names are unquoted identifiers */
    bool python;              /* use only the escapes that Python also has */
};
/* Sets *out to the values that satisfy a schema. at: the schema; it is part of root, in which
 * references are resolved. o NULL: defaults; form NULL: JSON notation. */
int gn_schema(struct grammar *g, const struct json *root, const struct json *at,
              const struct gram_opts *o, const struct gform *form, gnode *out, struct err *e);
/* Types other than strings that a schema allows, as bits 1 << enum json_type; 0: the schema names
 * no types. */
struct gothers {
    uint32_t all, any; /* any: allowed with any value, not only through enum or const */
};
/* Sets *out to the strings that satisfy a schema, without quotation marks; the node is regular. o
 * NULL: defaults. */
int gn_schema_text(struct grammar *g, const struct json *root, const struct json *at,
                   const struct gram_opts *o, gnode *out, struct gothers *others, struct err *e);

#endif
