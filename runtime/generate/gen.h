// SPDX-License-Identifier: MIT
/* runtime/generate/gen.h - the loop that makes text: prompt tokens in, tokens drawn one by one,
 * bytes out as soon as they are certain. One loop for `hone run` and for suites.
 *
 * A gen remembers which tokens its session has seen. A prompt that goes on where they end costs its
 * new tokens only; one that changes something earlier goes back to a mark, or starts again, since a
 * recurrent state cannot forget. */
#ifndef HONE_RUNTIME_GENERATE_GEN_H
#define HONE_RUNTIME_GENERATE_GEN_H

#include "runtime/generate/draft.h"
#include "runtime/generate/constrain.h"
#include "runtime/generate/sample.h"
#include "runtime/engine/session.h"

struct gen;
/* Makes a generator over s and d, both borrowed. d is a draft over s, which is then used through
 * it only, or NULL. */
int gen_new(struct gen **out, struct session *s, struct draft *d, struct err *e);
void gen_free(struct gen *g);
int64_t gen_n_ctx(const struct gen *g);
int64_t gen_n_fed(const struct gen *g); /* tokens that the session has seen */

/* Makes the session see exactly ids[0..n). mark: -1, or a position below n to which later prompts
 * can go back cheaply. *n_new: tokens that had to be computed. After an error, an interruption too,
 * the gen can be used on. ERR_USAGE when the context is too small. */
int gen_prompt(struct gen *g, const struct ids *ids, int64_t mark, int64_t *n_new, struct err *e);

enum gen_stop { GEN_END, GEN_LENGTH, GEN_CONTEXT, GEN_TEXT, GEN_INTERRUPTED };
const char *gen_stop_name(enum gen_stop s); /* "end", "length", "context", "stop", "interrupted" */

/* Takes bytes that are certain: no piece of a stop text. They need not end at a character's end. */
typedef void (*gen_sink)(void *ud, const char *s, size_t n);
struct gen_opts {
    struct sample_opts sample;
    int64_t n_max;           /* tokens at most; < 0: until the context is full */
    bool special;            /* control tokens are spelled out */
    const char *const *stop; /* texts that end the answer and are no part of it */
    int n_stop;
    const char *end; /* text that counts as an end token (tok_end_text); NULL: none */
    struct constrain_opts constrain; /* zero: none */
    gen_sink sink;                   /* NULL: none */
    void *ud;
};
struct gen_answer {              /* zero-initialised is an empty one */
    struct ids ids;              /* without the token that ended it */
    struct buf text;             /* without a stop text */
    size_t n_shown;              /* bytes of it that the sink has */
    int64_t n_drawn;             /* tokens, the ending one included */
    double seconds;              /* spent in gen_run */
    uint64_t seed;               /* given by the caller */
    struct sampler *sampler;     /* the draws go on where they were */
    struct constrain *constrain; /* and the grammar; NULL without */
    struct tok_stream *stream;   /* decoder state between tokens; NULL: none yet */
    enum gen_stop stop;
};
/* Draws on behind what the session has seen, which must end with a->ids: gen_prompt comes first.
 * May be called again to go on with an answer that GEN_LENGTH, GEN_CONTEXT or GEN_INTERRUPTED
 * ended: gen_prompt with all tokens, then this. ERR_INTR when interrupted; a is then as complete as
 * with any other end. */
int gen_run(struct gen *g, const struct gen_opts *o, struct gen_answer *a, struct err *e);
void gen_answer_release(struct gen_answer *a);

#endif
