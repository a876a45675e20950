// SPDX-License-Identifier: MIT
/* tests/unit/byte_vocab.h - vocabulary for grammar tests: a token for each byte, and an end token.
 */
#ifndef HONE_TESTS_BYTE_VOCAB_H
#define HONE_TESTS_BYTE_VOCAB_H

#include <string.h>

#include "grammar/gram.h"

/* Sets the texts of the first 257 tokens and their lengths: token i < 256 is byte i, token 256 the
 * end of an answer. */
static inline void byte_tokens(const char **text, size_t *len) {
    static char one[256];
    for (int i = 0; i < 256; i++) {
        one[i] = (char)(unsigned char)i;
        text[i] = &one[i];
        len[i] = 1;
    }
    text[256] = "";
    len[256] = 0;
}

enum { WORDS_FROM = 257, WORDS_MOST = 64 };
/* Creates *v with these tokens, and with n words starting at token WORDS_FROM. */
static inline int byte_word_vocab(struct gram_vocab **v, const char *const *word, size_t n,
                                  struct err *e) {
    const char *text[WORDS_FROM + WORDS_MOST];
    size_t len[WORDS_FROM + WORDS_MOST];
    byte_tokens(text, len);
    for (size_t i = 0; i < n && i < WORDS_MOST; i++) {
        text[WORDS_FROM + i] = word[i];
        len[WORDS_FROM + i] = strlen(word[i]);
    }
    return gram_vocab_of(v, text, len, WORDS_FROM + (int64_t)n, 256, e);
}

static inline int byte_vocab(struct gram_vocab **v, struct err *e) {
    return byte_word_vocab(v, NULL, 0, e);
}

#endif
