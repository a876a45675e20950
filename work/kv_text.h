// SPDX-License-Identifier: MIT
/* work/kv_text.h - GGUF metadata values as one line of text. */
#ifndef HONE_WORK_KV_TEXT_H
#define HONE_WORK_KV_TEXT_H

#include "base/buf.h"
#include "containers/gguf.h"

/* Replaces b's text with the value of a GGUF key. Long texts and arrays are cut, unless `all` is
 * set. */
void kv_value(struct buf *b, const struct gguf_kv *kv, bool all);
/* Replaces b's text with the whole value as JSON; NaN and infinity, which JSON lacks, are null. */
void kv_json(struct buf *b, const struct gguf_kv *kv);
/* Writes the type of a value: "u32", or "arr str" for an array of strings. */
void kv_type(char out[32], const struct gguf_kv *kv);

#endif
