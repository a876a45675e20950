// SPDX-License-Identifier: MIT
/* work/kv_parse.h - GGUF metadata values from text: "general.name=Tiny", "x.rope.freq_base=1e6". */
#ifndef HONE_WORK_KV_PARSE_H
#define HONE_WORK_KV_PARSE_H

#include "base/buf.h"
#include "containers/gguf.h"

struct kv_new { /* owns key and value, to which kv points */
    struct gguf_kv kv;
    char *key;
    struct buf value;
};
/* Parses "KEY=VALUE", "KEY:TYPE=VALUE" or "KEY=@FILE" for the file g. Without TYPE, the type is the
 * key's in g, then the one that readers expect, then one guessed from the value: true and false are
 * bool, whole numbers u32 (i32 if negative, else u64 or i64), other numbers f32, JSON arrays
 * arrays, the rest str. A byte order mark at the beginning of FILE is dropped. TYPE is a name like
 * u32, or "arr" and the elements' type: "arr i32". ERR_USAGE: malformed, or a value that the type
 * cannot hold. Call kv_new_release, even after an error. */
int kv_parse(struct kv_new *out, const struct gguf *g, const char *text, struct err *e);
void kv_new_release(struct kv_new *n);

#endif
