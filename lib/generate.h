// SPDX-License-Identifier: MIT
/* lib/generate.h - options and text output that single and batched generation share. */
#ifndef HONE_LIB_GENERATE_H
#define HONE_LIB_GENERATE_H

#include "base/buf.h"
#include "lib/handles.h"
#include "runtime/generate/gen.h"

/* Fills *out with the sampler's options of hone_generate_opts. Returns ERR_USAGE for a number out
 * of range. */
int generate_sample(const struct hone_generate_opts *o, struct sample_opts *out, struct err *e);
/* Returns the number of stop texts. */
int generate_n_stop(const struct hone_generate_opts *o);
/* Returns how many of schema, regex, grammar and choices are set. */
int generate_n_forms(const struct hone_generate_opts *o);

/* Sink for the text of an answer: passes it to the caller in whole UTF-8 characters. */
struct teller {
    const struct hone_generate_opts *o;
    int64_t which;
    struct buf part, whole; /* incomplete character; complete text */
    bool ended;             /* the caller's function has stopped the answer */
};
/* Passes n more bytes to the caller; s NULL: flushes the rest. Returns false if the caller stops
 * the answer. */
bool teller_tell(struct teller *t, const char *s, size_t n);
void teller_release(struct teller *t);

#endif
