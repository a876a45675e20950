// SPDX-License-Identifier: MIT
/* runtime/generate/constrain.h - constrained decoding: draws only tokens that a grammar
 * (grammar/gram.h) allows, and counts how often it overruled the model. */
#ifndef HONE_RUNTIME_GENERATE_CONSTRAIN_H
#define HONE_RUNTIME_GENERATE_CONSTRAIN_H

#include "base/buf.h"
#include "runtime/generate/sample.h"
#include "grammar/gram.h"
#include "tok/tok.h"

struct constrain_opts {
    struct grammar *g;     /* NULL: unconstrained; borrowed */
    struct grammar *other; /* alternative grammar for the whole text; NULL: none */
    const char *open;      /* marker that may start reasoning, which is unconstrained; NULL: none */
    const char *close;     /* marker that ends reasoning already in progress; NULL: none */
    int spaces;            /* whitespace tokens allowed before the text, regardless of g */
    bool may_end;          /* the answer may end within reasoning */
    bool draw_all;         /* also draws tokens that are forced, so that n_overruled counts them */
};
struct constrain_counts {
    int64_t n_drawn;     /* tokens drawn under the grammar */
    int64_t n_overruled; /* of those, tokens drawn in place of a different choice of the sampler */
    int64_t n_forced;    /* tokens not drawn because only one was allowed */
    int64_t n_ended;     /* tokens chosen to complete the text within the limit */
    int64_t n_shortened; /* of those, tokens of the text itself, not of the reasoning before it */
};
struct constrain; /* state of one answer */
/* Starts a constraint with the grammar in o, whose texts must remain valid. */
struct constrain *constrain_new(const struct constrain_opts *o, const struct tok *t);
void constrain_free(struct constrain *c);
/* Returns the counts so far; zeros if c is NULL. */
struct constrain_counts constrain_get_counts(const struct constrain *c);
/* Returns the byte offsets in the answer, without what constrain_aside() counts, *n of them,
 * ascending, at which the sampler was overruled: the first byte where the token differs from the
 * sampler's choice. Control tokens appear in the answer as text. c NULL: none. */
const size_t *constrain_overruled(const struct constrain *c, int64_t *n);

/* Returns whether the last token ended the answer. A token that usually ends answers may be part of
 * the text: it may close a call after which more must follow. */
bool constrain_ended(const struct constrain *c);
/* Returns how many bytes at the end of the last token are white space before the text, which is
 * not part of it. */
size_t constrain_aside(const struct constrain *c);
/* Returns whether the text is complete and nothing can follow. */
bool constrain_done(const struct constrain *c);
/* Limits the answer to `left` more tokens; -1: unlimited. If the text can be completed within the
 * limit, no token is drawn that would make this impossible. Otherwise the limit is ignored. */
void constrain_limit(struct constrain *c, int64_t left);
/* Draws with the sampler among the allowed tokens. The best ones are tested one by one; a mask over
 * all tokens is built only if they do not decide the draw. Within reasoning all tokens are allowed
 * except those that end the answer and those that continue past the end of reasoning with text that
 * the grammar forbids. ERR_DATA: no token is allowed, or a limit of the grammar was hit. */
int constrain_pick(struct constrain *c, struct sampler *s, const float *logits, const int32_t *last,
                   int64_t n_last, int32_t *id, struct err *e);
/* Advances past a drawn token. */
int constrain_accept(struct constrain *c, int32_t id, struct err *e);
/* Finds the tokens that must come now, if there are at least 2. The last token `id`, drawn and
 * accepted, is tokenized again together with the forced text, so that the result is what the
 * tokenizer would produce. out receives the tokens that replace `id`, already accepted; it is empty
 * if nothing is forced. Unless the text ends there, the last token is left to the model, since a
 * longer one may span the boundary. */
int constrain_forced(struct constrain *c, int32_t id, int64_t most, struct ids *out, struct err *e);

#endif
