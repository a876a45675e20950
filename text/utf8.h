// SPDX-License-Identifier: MIT
/* text/utf8.h - strict UTF-8 (no surrogates, no overlong forms, at most U+10FFFF) and NFC. */
#ifndef HONE_TEXT_UTF8_H
#define HONE_TEXT_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* Returns the number of bytes of the character at s (1..4), and its code point in *cp; 0 when the
 * bytes are not valid UTF-8 or n is 0. */
size_t utf8_decode(const char *s, size_t n, uint32_t *cp);
/* Writes 1..4 bytes. cp must be a scalar value; anything else is written as U+FFFD. */
size_t utf8_encode(uint32_t cp, char out[4]);
/* Returns the length of the longest prefix that is valid UTF-8. */
size_t utf8_valid_prefix(const char *s, size_t n);
/* Tells whether a character is a decimal digit, a number of any kind, a part of words, white space.
 */
bool utf8_is_digit(uint32_t cp);
bool utf8_is_number(uint32_t cp);
bool utf8_is_word(uint32_t cp);
bool utf8_is_white(uint32_t cp); /* White_Space */
/* Returns the number of bytes of white space at the start, and at the end, of s. */
size_t utf8_white_span(const char *s, size_t n);
size_t utf8_white_before(const char *s, size_t n);
/* Appends a normal form of valid UTF-8. */
enum utf8_form { UTF8_AS_IS, UTF8_NFC, UTF8_NFD, UTF8_NFKC, UTF8_NFKD };
enum utf8_form utf8_form_of(const char *name); /* "NFC", ...; UTF8_AS_IS: another or NULL */
const char *utf8_form_name(enum utf8_form form);
void utf8_normalize(struct buf *out, const char *s, size_t n, enum utf8_form form);
void utf8_nfc(struct buf *out, const char *s, size_t n);

#endif
