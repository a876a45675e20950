// SPDX-License-Identifier: MIT
/* runtime/generate/gen.h - text generation loop: takes prompt tokens, draws tokens one by one and
 * emits bytes as soon as they are final. Used by `hone run` and benchmark suites.
 *
 * A gen remembers the tokens that its session has seen. A prompt that extends them costs only its
 * new tokens. A prompt that differs earlier returns to a mark or starts over, because a recurrent
 * state cannot be truncated. */
#ifndef HONE_RUNTIME_GENERATE_GEN_H
#define HONE_RUNTIME_GENERATE_GEN_H

#include "runtime/generate/draft.h"
#include "runtime/generate/constrain.h"
#include "runtime/generate/sample.h"
#include "runtime/engine/session.h"

struct gen;
/* Creates a generator over s and d, both borrowed. d: NULL, or a draft over s; s is then used only
 * through d. */
int gen_new(struct gen **out, struct session *s, struct draft *d, struct err *e);
void gen_free(struct gen *g);
/* Sets the images that negative ids of prompts name; borrowed. NULL: none. */
struct pictures;
/* Sets the images that prompts may refer to; NULL: none. */
void gen_set_pictures(struct gen *g, struct pictures *p);
/* Returns the context of the session in tokens. */
int64_t gen_n_ctx(const struct gen *g);
int64_t gen_n_fed(const struct gen *g); /* tokens in the session */

/* Brings the session to exactly ids[0..n). mark: -1, or a position below n to which later prompts
 * can return cheaply. *n_new: number of tokens computed. The gen stays usable after errors,
 * including interruption. ERR_USAGE: the context is too small. */
int gen_prompt(struct gen *g, const struct ids *ids, int64_t mark, int64_t *n_new, struct err *e);

enum gen_stop { GEN_END, GEN_LENGTH, GEN_CONTEXT, GEN_TEXT, GEN_INTERRUPTED };
const char *gen_stop_name(enum gen_stop s); /* "end", "length", "context", "stop", "interrupted" */

/* Receives final bytes, never the start of a possible stop text. They may end inside a
 * character. */
typedef void (*gen_sink)(void *ud, const char *s, size_t n);
struct gen_opts {
    struct sample_opts sample;
    int64_t n_max;           /* maximum number of tokens; < 0: until the context is full */
    bool special;            /* spell out control tokens */
    const char *const *stop; /* texts that end the answer and are not part of it */
    int n_stop;
    /* Returns whether the answer is complete, after each token that adds text; NULL: never. */
    bool (*done)(void *ud, const char *text, size_t n);
    void *done_ud;
    const char *end; /* text that counts as an end token (tok_end_text); NULL: none */
    struct constrain_opts constrain; /* zero: unconstrained */
    gen_sink sink;                   /* NULL: none */
    void *ud;
};
struct gen_answer {              /* zero-initialized: empty */
    struct ids ids;              /* tokens, excluding the end token */
    struct buf text;             /* text, excluding the stop text */
    size_t n_shown;              /* bytes passed to the sink */
    int64_t n_drawn;             /* tokens, including the end token */
    double seconds;              /* spent in gen_run */
    uint64_t seed;               /* set by the caller */
    struct sampler *sampler;     /* kept, so that the answer can be continued */
    struct constrain *constrain; /* grammar state; NULL: unconstrained */
    struct tok_stream *stream;   /* detokenizer state; NULL: none yet */
    enum gen_stop stop;
};
/* Generates from the current position of the session, whose tokens must end with a->ids: call
 * gen_prompt first. An answer that ended with GEN_LENGTH, GEN_CONTEXT or GEN_INTERRUPTED can be
 * continued: call gen_prompt with all tokens, then gen_run again. ERR_INTR: interrupted; a is as
 * complete as after any other way of ending. */
int gen_run(struct gen *g, const struct gen_opts *o, struct gen_answer *a, struct err *e);
void gen_answer_release(struct gen_answer *a);

#endif
