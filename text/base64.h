// SPDX-License-Identifier: MIT
/* text/base64.h - padded base64, for tokenizer files and images. */
#ifndef HONE_TEXT_BASE64_H
#define HONE_TEXT_BASE64_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* Decodes s into at most cap bytes and returns their number; -1: not base64, or longer than cap. */
int64_t base64_decode(const char *s, char *out, size_t cap);
/* Appends n bytes in base64. */
void base64_encode(struct buf *out, const char *bytes, size_t n);

#endif
