// SPDX-License-Identifier: MIT
/* text/base64.h - decoder of padded base64, for tokenizer files. */
#ifndef HONE_TEXT_BASE64_H
#define HONE_TEXT_BASE64_H

#include <stddef.h>
#include <stdint.h>

/* Decodes s into at most cap bytes and returns their number; -1: not base64, or longer than cap. */
int64_t base64_decode(const char *s, char *out, size_t cap);

#endif
