// SPDX-License-Identifier: MIT
/* tok/sp_model.h - tokenizer.model: SentencePiece's file, of which the pieces and the rules of
 * normalization are read. */
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
    uint8_t type; /* enum tok_type: the numbers are the same */
};
enum sp_kind { SP_UNIGRAM = 1, SP_BPE = 2 };
struct sp_model {
    struct sp_piece *piece; /* [n] */
    int64_t n;
    enum sp_kind kind;
    int64_t unk, bos, eos, pad; /* -1: none */
    bool byte_fallback;
    bool space_behind; /* the space that is added goes behind the text, not in front */
    bool add_space, squeeze_spaces, escape_spaces;
    const char *charsmap; /* borrowed; NULL: none */
    size_t charsmap_len;
};
/* Tells whether the bytes begin as such a file does (others are called tokenizer.model too). */
bool sp_model_like(const char *data, size_t len);
/* Reads data[0..len), which must stay. ERR_DATA: not such a file, or of a kind that cuts words. */
int sp_model_read(struct sp_model *out, const char *data, size_t len, struct err *e);
void sp_model_release(struct sp_model *m);

#endif
