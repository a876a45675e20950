// SPDX-License-Identifier: MIT
/* grammar/schema_int.h - what the files share that make nodes from JSON Schema. */
#ifndef HONE_GRAMMAR_SCHEMA_INT_H
#define HONE_GRAMMAR_SCHEMA_INT_H

#include "grammar/gram_int.h"

/* Schemas that must hold at once: a schema, what it refers to, its allOf. Alternatives in it are
 * multiplied out: a set per branch, with the choice marked as made. */
enum { SC_ANY_DONE = 1, SC_ONE_DONE = 2 };
struct sc_item {
    const struct json *s; /* an object */
    uint32_t done;
    bool open; /* what it refers to is being added */
};
struct sc_set {
    struct sc_item *v;
    uint32_t n;
    bool never; /* nothing satisfies it */
};
enum sc_type {
    SC_NULL = 1,
    SC_BOOL = 2,
    SC_INT = 4,
    SC_NUM = 8, /* numbers that are no integers */
    SC_STR = 16,
    SC_ARR = 32,
    SC_OBJ = 64,
    SC_ALL = 127
};
enum { SC_FREE_DEPTH = 32, SC_NOTES_MAX = 200 };
struct sc_rule { /* a set, and the rule made for it */
    struct sc_set set;
    uint32_t rule, chain;
};
struct sc_plain { /* values without conditions, as one way of writing has them */
    gnode open, close, colon, comma;
    bool bare_names, python;
    gnode string, number, integer, free_value[SC_FREE_DEPTH + 1];
};
struct sc {
    struct grammar *g;
    const struct json *root;
    struct gram_opts o;
    struct gform form;
    gnode open, close; /* of a string */
    struct sc_rule *rule;
    uint32_t n_rule, cap_rule, *bucket;
    gnode space, colon, comma;          /* the latter with the space behind them */
    gnode string, number, integer, any; /* values without conditions */
    gnode no_nul;     /* what names are written as: readers of C cannot hold a NUL in one */
    struct sc_id *id; /* schemas with an $id, schema_ref.c */
    uint32_t n_id, cap_id;
    bool ids_known;
    gnode free_value[SC_FREE_DEPTH + 1];    /* any value of at most so many levels; 0: not made */
    const struct json *noted[SC_NOTES_MAX]; /* clauses that were left out */
    uint32_t n_noted;
    uint64_t n_values; /* of the whole document; 0: not counted */
    uint32_t n_texts;  /* gn_schema_text: sets so far, and what is no string */
    struct gothers others;
    int rc;
    struct err *e;
};

/* ---- gram_schema.c ---- */
/* Notes an error in c->rc and c->e, with the path of `at`, a value within the schema. The first
 * error stays. Returns G_NONE. */
gnode sc_fail(struct sc *c, const struct json *at, const char *what);
/* Deals with a clause that cannot be expressed: fails when strict, else notes it in c->o.notes. */
void sc_relax(struct sc *c, const struct json *at, const char *what);
void sc_add(struct sc *c, struct sc_set *set, const struct json *schema);
void sc_release(struct sc_set *set);
/* Tells whether s is one of the schemas that are being added, further out. */
bool sc_is_open(const struct sc_set *set, const struct json *s);
/* Returns the rule of the set, or what stands for it. The set is taken over. */
gnode sc_node(struct sc *c, struct sc_set *set);
/* Returns the count that the keyword gives, GRAM_INF at most, or `otherwise` when the keyword is
 * absent. */
uint32_t sc_count(struct sc *c, const struct json *schema, const char *key, uint32_t otherwise);
gnode sc_free(struct sc *c, int levels);
/* Returns the language of one value, as it is, written in any way that white space allows. */
gnode sc_literal(struct sc *c, const struct json *v);
/* Sets (*v)[0..*n) to the values that enum and const leave of the set; the caller frees *v.
 * Returns false when they do not limit it, with *v NULL. */
bool sc_values(struct sc *c, const struct sc_set *set, const struct json ***v, size_t *n);

/* Returns the language of one character of a string, in the notation that is asked for; sc_text
 * returns that of the text s in it. */
gnode sc_char(struct sc *c);
gnode sc_text(struct sc *c, const char *s);
/* Returns the language of the member's name s in that notation, with the colon. */
gnode sc_name(struct sc *c, const char *s);

/* Returns the schema that a $ref of `schema` names: "#/a/b~1c", "#name", or by the $id of a schema
 * within the document. NULL: there is none. Defined in schema_ref.c, as the next four are. */
const struct json *sc_resolve(struct sc *c, const struct json *schema, const char *ref);
/* Adds what a $ref of `schema` names to the set. */
void sc_add_ref(struct sc *c, struct sc_set *set, const struct json *schema,
                const struct json *ref);
/* Tells whether a schema has a $dynamicRef that means the same as a $ref, since there is only one
 * schema resource. */
bool sc_static_ref(struct sc *c, const struct json *schema);
void sc_ids_free(struct sc *c);
/* Returns how many values there are at and below v. */
uint64_t sc_size(const struct json *v);
/* Tells whether `to` is the value `at` or within it. */
bool sc_holds(const struct json *at, const struct json *to);

/* Returns what stands between the quotation marks of strings that satisfy the set. Defined in
 * schema_text.c, as sc_string is, which adds the marks. */
gnode sc_content(struct sc *c, const struct sc_set *set);
gnode sc_string(struct sc *c, const struct sc_set *set);
/* Returns the numbers that satisfy the set; types has SC_INT, SC_NUM or both. Defined in
 * schema_num.c, as sc_plain_numbers is, which makes the values c->number and c->integer. */
gnode sc_number(struct sc *c, const struct sc_set *set, uint32_t types);
void sc_plain_numbers(struct sc *c);
/* Returns the arrays that satisfy the set. Defined in schema_list.c; sc_object returns the objects,
 * in schema_object.c. */
gnode sc_array(struct sc *c, const struct sc_set *set);
gnode sc_object(struct sc *c, const struct sc_set *set);
/* Sets the unlisted members of p: n languages of names, without quotes, each with its value. Each
 * name comes once in an object. */
void sc_once(struct sc *c, struct gpick *p, const gnode *key, const gnode *value, int n);

#endif
