// SPDX-License-Identifier: MIT
/* quantize/exact.h - weights that a block type holds without loss.
 *
 * Checkpoints of quantization-aware or low-bit training store floats that are products of a block's
 * scale and a small integer (Gemma QAT, int4 of Kimi K2), or FP4 levels (gpt-oss). A search for the
 * least error may miss such scales, and larger types add error. A block is exact in a type if its
 * decoded values, rounded to the type of the source, equal the source. Rounding is used only if no
 * scale gives the stored values themselves: the products were rounded when they were stored. */
#ifndef HONE_QUANTIZE_EXACT_H
#define HONE_QUANTIZE_EXACT_H

#include "base/buf.h"
#include "base/pool.h"
#include "containers/gguf.h"

/* How the decoded values equal the source: as they are, or after rounding to its type. */
enum exact_how { EXACT_SAME, EXACT_BF16, EXACT_F16, EXACT_HOW_COUNT };
struct exact_tally { /* tensors */
    int64_t n[EXACT_HOW_COUNT][QT_COUNT];
};
/* Returns the name of the type to which values are rounded; NULL for EXACT_SAME. */
const char *exact_source(enum exact_how how);

/* Encodes a row of n weights, which were stored as `from`, with the least error. Returns false,
 * with dst undefined, if a block is not exact in `to`, a type with QF_EXACT. */
bool exact_row(enum qtype to, enum qtype from, const float *x, int64_t n, uint8_t *dst);
/* Returns whether the n decoded values y, rounded to the type `from` of the source, equal its
 * values x. */
bool exact_equal(enum qtype from, const float *x, const float *y, int64_t n);
/* Returns whether some rows of a float tensor are exact in `to`; ordinary weights fail within a
 * block. */
bool exact_seems(const struct gguf_tensor *t, enum qtype to);
/* Like exact_seems, but false if those rows are zero: they show nothing. */
bool exact_offers(const struct gguf_tensor *t, enum qtype to);
/* Counts by type the tensors of `file`, quantized from `base`, that hold base's weights without
 * loss: in the same blocks, or as exact_in. Reads such tensors whole, others for some rows. */
void exact_count(const struct gguf *base, const struct gguf *file, struct exact_tally *tally);
/* Appends "4 tensors in Q4_0, 1 in Q8_0 after rounding to BF16"; nothing if all numbers are 0. */
void exact_words(const struct exact_tally *tally, struct buf *out);
/* Returns whether all rows of a float tensor are exact in `to`. Reads the tensor as far as it
 * is. */
bool exact_in(const struct gguf_tensor *t, enum qtype to, struct pool *pool);
/* Returns the smallest type in which a float tensor is exact, and sets *how; QT_COUNT: none. */
enum qtype exact_type(const struct gguf_tensor *t, struct pool *pool, enum exact_how *how);

#endif
