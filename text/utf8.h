// SPDX-License-Identifier: MIT
/* text/utf8.h - strict UTF-8 (no surrogates, no overlong forms, at most U+10FFFF), Unicode classes
 * and normal forms. */
#ifndef HONE_TEXT_UTF8_H
#define HONE_TEXT_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* Decodes the character at s into *cp and returns its length (1..4); 0: invalid UTF-8, or n is
 * 0. */
size_t utf8_decode(const char *s, size_t n, uint32_t *cp);
/* Writes 1..4 bytes and returns their number. cp must be a scalar value; anything else is written
 * as U+FFFD. */
size_t utf8_encode(uint32_t cp, char out[4]);
/* Returns the length of the longest valid prefix. */
size_t utf8_valid_prefix(const char *s, size_t n);
/* Return whether a character is a decimal digit, any kind of number, a word character, or white
 * space. */
bool utf8_is_digit(uint32_t cp);
/* Returns whether the character is a number (Unicode Nd, Nl or No). */
bool utf8_is_number(uint32_t cp);
/* Returns whether the character is a letter, mark, number or connector such as "_". */
bool utf8_is_word(uint32_t cp);
bool utf8_is_white(uint32_t cp); /* White_Space */
/* Return the number of bytes of white space at the start (span) and at the end (before) of s. */
size_t utf8_white_span(const char *s, size_t n);
/* Returns the number of bytes of white space at the end of the n bytes. */
size_t utf8_white_before(const char *s, size_t n);
/* Normal forms. utf8_normalize() and utf8_nfc() append s, which must be valid UTF-8, in that
 * form. */
enum utf8_form { UTF8_AS_IS, UTF8_NFC, UTF8_NFD, UTF8_NFKC, UTF8_NFKD };
enum utf8_form utf8_form_of(const char *name); /* "NFC", ...; UTF8_AS_IS for others and NULL */
/* Returns the form's name, e.g. "NFC". */
const char *utf8_form_name(enum utf8_form form);
void utf8_normalize(struct buf *out, const char *s, size_t n, enum utf8_form form);
/* Appends the text in normalization form NFC; the text may be invalid UTF-8. */
void utf8_nfc(struct buf *out, const char *s, size_t n);

#endif
