// SPDX-License-Identifier: MIT
/* template/repair_int.h - internals shared by the files of the repair. */
#ifndef HONE_TEMPLATE_REPAIR_INT_H
#define HONE_TEMPLATE_REPAIR_INT_H

#include "template/chat_vars.h"
#include "template/repair.h"

enum repair_piece {
#define PIECE(name, id, kind, rule, mends, why) P_##name,
#include "template/repair_pieces.def"
#undef PIECE
    P_COUNT
};
enum { P_NONE = -1, REPAIR_SITES = 256 };

struct repair_plan { /* selection of repairs */
    uint64_t pieces;
    bool site[REPAIR_SITES]; /* edits: selected sites */
};
static inline bool plan_has(const struct repair_plan *p, enum repair_piece k) {
    return p->pieces >> k & 1;
}

/* ---- repair_conv.c: conversations ---- */
enum repair_form { /* unusual forms of a conversation */
                   FORM_NONE,
#define FORM(name, id, soft) FORM_##name,
#include "template/repair_forms.def"
#undef FORM
                   FORM_COUNT
};
extern const char *const repair_form_id[FORM_COUNT];
extern const bool repair_form_soft[FORM_COUNT];
/* Appends conversation `seed` as the JSON text of a scenario. With `odd`, it is in the given
 * unusual form if that applies; otherwise it is in the equivalent normal form. *features gets the
 * conversation's repair_feature bits. */
void repair_conv(struct buf *out, uint32_t seed, enum repair_form form, bool odd,
                 unsigned *features);
enum repair_feature {
#define FEATURE(name, probes) FEATURE_##name,
#include "template/repair_forms.def"
#undef FEATURE
    FEATURE_COUNT
};
extern const char *const repair_feature_probes[FEATURE_COUNT];

/* ---- repair_proof.c: what a repaired template has to show ---- */
struct proof;
/* Renders all conversations with the original template. */
int proof_new(struct proof **out, const struct jinja *original, struct err *e);
void proof_free(struct proof *p);
int proof_count(const struct proof *p);
const char *proof_id(const struct proof *p, int i);
/* Returns whether check i failed for the last accepted template (at first: the original). */
bool proof_failed(const struct proof *p, int i);
bool proof_failed_id(const struct proof *p, const char *id); /* false for unknown ids */
/* Returns whether a list of ids separated by spaces contains id. */
bool proof_listed(const char *list, const char *id);
/* Returns how many checks failed. */
int proof_n_failed(const struct proof *p);
/* Compares a template with the last accepted one. Returns whether no check got worse and, unless
 * `first` is NULL, one of its checks (ids separated by spaces) improved. accept: a passing template
 * becomes the last accepted one. */
bool proof_judge(struct proof *p, const struct jinja *t, const char *first, bool accept);
/* Returns whether check i got worse in the last proof_judge. */
bool proof_got_worse(const struct proof *p, int i);
/* Returns the first check that fails for t but passes for the last accepted template; -1: none. */
int proof_worse(const struct proof *p, const struct jinja *t);
/* Returns whether the original renders user texts at all. */
bool proof_shows_user(const struct proof *p);
/* Returns whether a template, with thinking on, renders the thinking of an open turn or closes the
 * thinking block by itself. */
bool proof_thinks(const struct proof *p, const struct jinja *t);
/* Fills in the members conv, before and after of a step, from check i. */
void proof_show(const struct proof *p, int i, const struct jinja *before, const struct jinja *after,
                struct repair_step *s);

/* ---- repair_prelude.c ------------------------------------------------------------------------ */

/* Returns whether the body reads a name as an attribute, a key or a variable. */
bool body_reads(const struct jinja *t, const char *name);
/* Appends the prelude for the selected pieces. t is the original template. */
void prelude_write(struct buf *out, const struct jinja *t, const struct repair_plan *p);
/* Return whether the template's family has rows for calls, or for tools, as text. */
bool prelude_knows_calls(const struct jinja *t);
/* Returns whether the template can show tools, so that calls can be normalized for it. */
bool prelude_knows_tools(const struct jinja *t);
/* Appends Jinja code that parses variable `a` as the JSON text of an object and sets `o` on success
 * (repair_reader.c). as_is: the body prints text unchanged, so text with \u escapes that cannot be
 * decoded stays text. */
void reader_write(struct buf *out, bool as_is);

/* ---- repair_mark.c: the first line of a repaired template ---- */
/* Increase this when pieces are added or changed, so that templates repaired by an earlier version
 * are repaired again. */
enum { REPAIR_VERSION = 3 };
enum repair_marked {
    MARK_NONE,   /* no mark, or one that does not match the text */
    MARK_OURS,   /* repaired by this version or a later one, and unchanged since */
    MARK_EARLIER /* repaired by an earlier version, or its body was changed since */
};
/* Appends the mark: the version, checksums of prelude and body, and the ids of the pieces. */
void mark_write(struct buf *out, const struct repair_plan *p, const struct buf *prelude,
                const char *body, size_t len);
/* Reads the mark of a normalized source. For MARK_EARLIER, *body is the offset of the body. */
enum repair_marked mark_read(const char *src, size_t len, size_t *body);

/* ---- repair_edit.c --------------------------------------------------------------------------- */

struct repair_site { /* a range of the body and its replacement */
    enum repair_piece piece;
    uint32_t start, end;
    char *text, *other; /* other: used instead of text if another site covers the same bytes */
};
/* Finds the sites of all edits and returns their number; the caller frees the texts. */
int edit_sites(const struct jinja *t, struct repair_site out[REPAIR_SITES]);
/* Appends the body with the selected sites replaced. Lines end with \n. */
void edit_apply(struct buf *out, const struct jinja *t, const struct repair_site *v, int n,
                const struct repair_plan *p);

#endif
