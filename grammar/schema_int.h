// SPDX-License-Identifier: MIT
/* grammar/schema_int.h - internals of the JSON Schema compiler. */
#ifndef HONE_GRAMMAR_SCHEMA_INT_H
#define HONE_GRAMMAR_SCHEMA_INT_H

#include "grammar/gram_int.h"

/* Schemas that apply together: a schema, the targets of its references, and its allOf. Alternatives
 * are multiplied out: there is one set per branch, in which the choice is marked as done. */
enum { SC_ANY_DONE = 1, SC_ONE_DONE = 2 };
struct sc_item {
    const struct json *s; /* an object */
    uint32_t done;
    bool open; /* its references are being added */
};
struct sc_set {
    struct sc_item *v;
    uint32_t n;
    bool never; /* unsatisfiable */
};
enum sc_type {
    SC_NULL = 1,
    SC_BOOL = 2,
    SC_INT = 4,
    SC_NUM = 8, /* numbers that are not integers */
    SC_STR = 16,
    SC_ARR = 32,
    SC_OBJ = 64,
    SC_ALL = 127
};
enum { SC_FREE_DEPTH = 32, SC_NOTES_MAX = 200 };
struct sc_rule { /* a set and the rule created for it */
    struct sc_set set;
    uint32_t rule, chain;
};
struct sc_plain { /* unconstrained values, in one notation */
    gnode open, close, colon, comma;
    bool bare_names, python;
    gnode string, number, integer, free_value[SC_FREE_DEPTH + 1];
};
struct sc {
    struct grammar *g;
    const struct json *root;
    struct gram_opts o;
    struct gform form;
    gnode open, close; /* around strings */
    struct sc_rule *rule;
    uint32_t n_rule, cap_rule, *bucket;
    gnode space, colon, comma;          /* colon, comma: with the space after them */
    gnode string, number, integer, any; /* unconstrained values */
    /* Excludes \u0000 in member names, which C strings cannot hold. */
    gnode no_nul;
    struct sc_id *id; /* schemas with an $id, schema_ref.c */
    uint32_t n_id, cap_id;
    bool ids_known;
    /* [levels] Any value with at most that many levels of nesting; 0: not created. */
    gnode free_value[SC_FREE_DEPTH + 1];
    const struct json *noted[SC_NOTES_MAX]; /* unsupported clauses already reported */
    uint32_t n_noted;
    uint64_t n_values; /* values in the whole document; 0: not counted */
    /* For gn_schema_text(): number of sets so far, and types other than strings. */
    uint32_t n_texts;
    struct gothers others;
    int rc;
    struct err *e;
};

/* ---- gram_schema.c ---- */

/* Records an error, with the path of `at`, in c->rc and c->e; the first error wins. Returns
 * G_NONE. */
gnode sc_fail(struct sc *c, const struct json *at, const char *what);
/* Handles an unsupported clause: fails if strict, else reports it in c->o.notes. */
void sc_relax(struct sc *c, const struct json *at, const char *what);
/* Adds a schema, and all that it refers to, to the set that a value must satisfy. */
void sc_add(struct sc *c, struct sc_set *set, const struct json *schema);
void sc_release(struct sc_set *set);
/* Returns whether s is a schema whose references are being added. */
bool sc_is_open(const struct sc_set *set, const struct json *s);
/* Returns the rule for the set, or an equivalent node. Takes ownership of the set. */
gnode sc_node(struct sc *c, struct sc_set *set);
/* Returns the value of a counting keyword (minItems, ...), at most GRAM_INF, or `otherwise` if it
 * is absent. */
uint32_t sc_count(struct sc *c, const struct json *schema, const char *key, uint32_t otherwise);
/* Returns whether a schema has no keywords except `one`, `two` and annotations. */
bool sc_only_says(const struct json *schema, const char *one, const char *two);

/* ---- schema_value.c ---- */

/* Returns the types that `type` and `nullable` allow, as bits of enum sc_type. Without `type`, all
 * are allowed. */
uint32_t sc_types_of(struct sc *c, const struct json *schema);
/* Returns the types that a `not` excludes; -1: it also has other conditions. */
int64_t sc_not_types(struct sc *c, const struct json *no);
/* Returns the type of a value. */
uint32_t sc_value_type(const struct json *v);
/* Returns the types that all schemas of the set allow. */
uint32_t sc_set_types(struct sc *c, const struct sc_set *set);
/* Returns the language of any of n values. */
gnode sc_values_node(struct sc *c, const struct json **v, size_t n);
/* Returns the language of any value with up to `levels` levels of nesting. */
gnode sc_free(struct sc *c, int levels);
/* Returns the language of the value v with any whitespace allowed. */
gnode sc_literal(struct sc *c, const struct json *v);
/* Sets (*v)[0..*n) to the values that the set's enum and const allow; the caller frees *v. Returns
 * false, with *v NULL, if the set has neither. */
bool sc_values(struct sc *c, const struct sc_set *set, const struct json ***v, size_t *n);

/* Returns the language of one string character in the current notation. sc_text() returns the
 * language of the text s. */
gnode sc_char(struct sc *c);
/* Returns the language of a text, escaped where strings are. */
gnode sc_text(struct sc *c, const char *s);
/* Returns the language of the member name s with its quotes and colon. */
gnode sc_name(struct sc *c, const char *s);

/* Returns the target of the $ref `ref` in `schema`: "#/a/b~1c", "#name", or the $id of a schema
 * within the document. NULL: not found. Defined in schema_ref.c, like the next four. */
const struct json *sc_resolve(struct sc *c, const struct json *schema, const char *ref);
/* Adds the target of the $ref `ref` in `schema` to the set. */
void sc_add_ref(struct sc *c, struct sc_set *set, const struct json *schema,
                const struct json *ref);
/* Returns whether a schema's $dynamicRef is equivalent to a $ref, since there is only one schema
 * resource. */
bool sc_static_ref(struct sc *c, const struct json *schema);
void sc_ids_free(struct sc *c);
/* Returns the number of values in v, including v. */
uint64_t sc_size(const struct json *v);
/* Returns whether `to` is the value `at` or within it. */
bool sc_holds(const struct json *at, const struct json *to);

/* Returns the strings that satisfy the set, without quotation marks; sc_string() includes the
 * marks. Defined in schema_text.c. */
gnode sc_content(struct sc *c, const struct sc_set *set);
/* Returns the language of strings that satisfy the set, quotes included. */
gnode sc_string(struct sc *c, const struct sc_set *set);
/* Returns the numbers that satisfy the set; types: SC_INT, SC_NUM or both. sc_plain_numbers()
 * creates c->number and c->integer. Defined in schema_num.c. */
gnode sc_number(struct sc *c, const struct sc_set *set, uint32_t types);
/* Makes the languages of integers and numbers without conditions. */
void sc_plain_numbers(struct sc *c);
/* Returns the arrays that satisfy the set (schema_list.c); sc_object() returns the objects
 * (schema_object.c). */
gnode sc_array(struct sc *c, const struct sc_set *set);
/* Returns the language of objects that satisfy the set. */
gnode sc_object(struct sc *c, const struct sc_set *set);
/* Sets the unlisted members of p: name matches key[i], without quotes, and value matches value[i],
 * for i < n. A name occurs at most once per object. */
void sc_once(struct sc *c, struct gpick *p, const gnode *key, const gnode *value, int n);

#endif
