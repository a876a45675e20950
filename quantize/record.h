// SPDX-License-Identifier: MIT
/* quantize/record.h - how a file was made, in its own metadata: the key hone.replay, one JSON
 * object. With the tensors' types, which the file shows, that is enough to make it again to the
 * byte. */
#ifndef HONE_QUANTIZE_RECORD_H
#define HONE_QUANTIZE_RECORD_H

#include "base/buf.h"
#include "containers/gguf.h"
#include "quantize/quantize.h"

#define RECORD_KEY "hone.replay"
#define RECORD_NONE "00000000000000000000000000000000" /* hash of an input that was not used */
/* Appends the text: version, source (name, hash of its headers, size), search, importance and
 * moments by content, and options that change bytes. No name of a recipe: a plan of the same types
 * gives the same file. */
int record_text(struct buf *out, const struct quantize_opts *o, const struct gguf *source,
                struct err *e);

struct record {
    char version[32], source[128], source_hash[33], imatrix[33], gram[33];
    uint64_t source_bytes, split_max;
    enum search search;
    unsigned without;
    double tau;
};
/* Reads the record. ERR_DATA when the file has none, or a damaged one. */
int record_read(struct record *r, const struct gguf *g, struct err *e);
/* Writes the XXH3-128 over the headers of all shards. */
void record_source_hash(const struct gguf *g, char hex[33]);
int record_file_hash(const char *path, char hex[33], struct err *e);

#endif
