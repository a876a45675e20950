// SPDX-License-Identifier: MIT
/* runtime/generate/constrain.h - draws tokens that a grammar allows (grammar/gram.h), and counts
 * how often it overruled the model. */
#ifndef HONE_RUNTIME_GENERATE_CONSTRAIN_H
#define HONE_RUNTIME_GENERATE_CONSTRAIN_H

#include "base/buf.h"
#include "runtime/generate/sample.h"
#include "grammar/gram.h"
#include "tok/tok.h"

struct constrain_opts {
    struct grammar *g;     /* NULL: nothing is constrained; borrowed */
    struct grammar *other; /* the text may belong to this one instead; NULL */
    const char *open;      /* reasoning may begin with this text, and is free; NULL: it may not */
    const char *close;     /* reasoning under way ends behind this text; NULL: none is */
    int spaces;    /* tokens of white space that may come in front of the text, whatever g says */
    bool may_end;  /* the answer may end within reasoning */
    bool draw_all; /* what must come is drawn, too, so that n_overruled counts it */
};
struct constrain_counts {
    int64_t n_drawn;     /* tokens that the grammar had a say in */
    int64_t n_overruled; /* of those: the sampler alone would have drawn another one */
    int64_t n_forced;    /* tokens that were not drawn, since no others could come */
    int64_t n_ended;     /* tokens that were taken for the text to be complete at the limit */
};
struct constrain; /* one answer */
struct constrain *constrain_new(const struct constrain_opts *o, const struct tok *t);
void constrain_free(struct constrain *c);
struct constrain_counts constrain_get_counts(const struct constrain *c);
/* Returns at which bytes of the answer the sampler was overruled, *n of them, ascending: the first
 * byte at which the token that came differs from the one that would have. Control tokens are
 * spelled out in the answer. c NULL: none. */
const size_t *constrain_overruled(const struct constrain *c, int64_t *n);

/* Tells whether the token that came last ended the answer. A token that ends answers elsewhere may
 * be part of the text: it closes a call of which more must follow. */
bool constrain_ended(const struct constrain *c);
/* Tells whether the text is complete and nothing can be added. */
bool constrain_done(const struct constrain *c);
/* Says that at most `left` tokens come from now on, -1: any number. While that many can complete
 * the text, none is drawn behind which the rest of them cannot; so the answer is complete at the
 * limit. Where they never could, the limit is not looked at. */
void constrain_limit(struct constrain *c, int64_t left);
/* Draws with the sampler among the tokens that are allowed. The best are tested one by one; a
 * mask is made only when those do not decide. Within reasoning all are allowed but those that
 * end the answer, and those that bring behind the end of the reasoning what the grammar forbids.
 * ERR_DATA when none is allowed, or at a limit of the grammar. */
int constrain_pick(struct constrain *c, struct sampler *s, const float *logits, const int32_t *last,
                   int64_t n_last, int32_t *id, struct err *e);
/* Goes on behind a token that was drawn. */
int constrain_accept(struct constrain *c, int32_t id, struct err *e);
/* Finds the tokens that must come now, when there are at least 2. The token `id`, which was
 * drawn and accepted last, is cut anew together with the text that follows, so that the tokens
 * are those of the tokenizer. out gets those to use in place of `id`, already accepted; it is
 * empty when nothing is forced. The last one is left to the model unless the text ends there,
 * since a longer one may span its end. */
int constrain_forced(struct constrain *c, int32_t id, int64_t most, struct ids *out, struct err *e);

#endif
