// SPDX-License-Identifier: MIT
/* template/repair_int.h - what the files of the repair share. */
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

struct repair_plan { /* a choice of repairs */
    uint64_t pieces;
    bool site[REPAIR_SITES]; /* of edits: the places that are changed */
};
static inline bool plan_has(const struct repair_plan *p, enum repair_piece k) {
    return p->pieces >> k & 1;
}

/* ---- repair_conv.c: conversations -------------------------------------------------------------
 */
enum repair_form { /* ways in which a conversation may be odd */
                   FORM_NONE,
#define FORM(name, id, soft) FORM_##name,
#include "template/repair_forms.def"
#undef FORM
                   FORM_COUNT
};
extern const char *const repair_form_id[FORM_COUNT];
extern const bool repair_form_soft[FORM_COUNT];
/* Appends conversation number `seed` as the JSON text of a scenario. Where the form applies to it,
 * it is written in that form when `odd` is set, and else in the normal form that means the same.
 * *features: the bits of repair_feature that it holds. */
void repair_conv(struct buf *out, uint32_t seed, enum repair_form form, bool odd,
                 unsigned *features);
enum repair_feature {
#define FEATURE(name, probes) FEATURE_##name,
#include "template/repair_forms.def"
#undef FEATURE
    FEATURE_COUNT
};
extern const char *const repair_feature_probes[FEATURE_COUNT];

/* ---- repair_proof.c: what a repaired template has to show -------------------------------------
 */
struct proof;
/* Renders everything with the original template. */
int proof_new(struct proof **out, const struct jinja *original, struct err *e);
void proof_free(struct proof *p);
int proof_count(const struct proof *p);
const char *proof_id(const struct proof *p, int i);
/* Tells whether check i failed for the template that was accepted last (at first: the original). */
bool proof_failed(const struct proof *p, int i);
int proof_n_failed(const struct proof *p);
/* Judges a template against the one accepted last. `first` is a list of ids, separated by spaces:
 * the checks of which one has to be mended; NULL: none has to. True: nothing got worse. accept: it
 * becomes the one accepted last. */
bool proof_judge(struct proof *p, const struct jinja *t, const char *first, bool accept);
/* Tells whether check i was worse for the template that was judged last. */
bool proof_got_worse(const struct proof *p, int i);
/* Returns the first check that fails for t and passes for the template accepted last; -1: none. */
int proof_worse(const struct proof *p, const struct jinja *t);
/* Tells whether the original renders the texts of users at all. */
bool proof_shows_user(const struct proof *p);
/* Tells whether a template shows the thinking of an open turn when thinking is switched on, or
 * closes the block of thinking of its own accord. */
bool proof_thinks(const struct proof *p, const struct jinja *t);
/* Sets conv, before and after of a step, from its check. */
void proof_show(const struct proof *p, int i, const struct jinja *before, const struct jinja *after,
                struct repair_step *s);

/* ---- repair_prelude.c ------------------------------------------------------------------------ */
/* Tells whether the body reads a name as an attribute, a key or a variable. */
bool body_reads(const struct jinja *t, const char *name);
/* Appends the prelude that the pieces ask for. t is the original template. */
void prelude_write(struct buf *out, const struct jinja *t, const struct repair_plan *p);
/* Tell whether the family of the template has rows for calls, or tools, as text. */
bool prelude_knows_calls(const struct jinja *t);
bool prelude_knows_tools(const struct jinja *t);
/* Appends Jinja that makes an object of variable `a`, when it is the text of one, and sets o then
 * (repair_reader.c). */
void reader_write(struct buf *out);
bool prelude_is_there(const char *src, size_t len);

/* ---- repair_edit.c --------------------------------------------------------------------------- */
struct repair_site { /* a place in the body and its new text */
    enum repair_piece piece;
    uint32_t start, end;
    char *text, *other; /* other: in place of text where another site covers the same bytes */
};
/* Finds all places of all edits; the caller frees the texts. Returns the number. */
int edit_sites(const struct jinja *t, struct repair_site out[REPAIR_SITES]);
/* Appends the body with the chosen places changed. */
void edit_apply(struct buf *out, const struct jinja *t, const struct repair_site *v, int n,
                const struct repair_plan *p);

#endif
