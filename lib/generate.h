// SPDX-License-Identifier: MIT
/* lib/generate.h - what one answer and many have in common: options, and text that goes to the
 * caller in whole characters. */
#ifndef HONE_LIB_GENERATE_H
#define HONE_LIB_GENERATE_H

#include "base/buf.h"
#include "lib/handles.h"
#include "runtime/generate/gen.h"

/* Fills *out with the sampler's options of hone_generate_opts. Returns ERR_USAGE when a number is
 * out of its range. */
int generate_sample(const struct hone_generate_opts *o, struct sample_opts *out, struct err *e);
int generate_n_stop(const struct hone_generate_opts *o);
/* Returns how many of schema, regex, grammar and choices are given. */
int generate_n_forms(const struct hone_generate_opts *o);

/* Whither the text of an answer goes. */
struct teller {
    const struct hone_generate_opts *o;
    int64_t which;
    struct buf part, whole; /* the beginning of a character; what is complete */
    bool ended;             /* the caller wants no more */
};
/* Tells the caller of n more bytes; s NULL: of the rest. Returns false when it wants no more. */
bool teller_tell(struct teller *t, const char *s, size_t n);
void teller_release(struct teller *t);

#endif
