// SPDX-License-Identifier: MIT
/* jobs/kv_text.h - values of GGUF metadata for people: one line, no byte raw to the terminal. */
#ifndef HONE_JOBS_KV_TEXT_H
#define HONE_JOBS_KV_TEXT_H

#include "core/buf.h"
#include "core/gguf.h"

/* Replaces b's text. `all`: nothing is cut; else long texts and arrays are. */
void kv_value(struct buf *b, const struct gguf_kv *kv, bool all);
/* "u32", "arr str" */
void kv_type(char out[32], const struct gguf_kv *kv);

#endif
