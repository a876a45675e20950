// SPDX-License-Identifier: MIT
/* tok/sp_model.h - SentencePiece's tokenizer.model: its pieces and normalization rules. */
#ifndef HONE_TOK_SP_MODEL_H
#define HONE_TOK_SP_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct sp_piece {
    const char *text; /* borrowed from the file's bytes, not NUL-terminated */
    uint32_t len;
    float score;
    uint8_t type; /* enum tok_type, which has the same values */
};
enum sp_kind { SP_UNIGRAM = 1, SP_BPE = 2 };
struct sp_model {
    struct sp_piece *piece; /* [n] */
    int64_t n;
    enum sp_kind kind;
    int64_t unk, bos, eos, pad; /* -1: none */
    bool byte_fallback;
    bool space_behind; /* the added space is a suffix, not a prefix */
    bool add_space, squeeze_spaces, escape_spaces;
    const char *charsmap; /* borrowed; NULL: none */
    size_t charsmap_len;
};
/* Returns whether the data look like such a file; a tokenizer.model may have a different format. */
bool sp_model_like(const char *data, size_t len);
/* Parses data[0..len), which must outlive *out. ERR_DATA: not a SentencePiece model, or one that
 * splits words. */
int sp_model_read(struct sp_model *out, const char *data, size_t len, struct err *e);
void sp_model_release(struct sp_model *m);

#endif
