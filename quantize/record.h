// SPDX-License-Identifier: MIT
/* quantize/record.h - the build record: a JSON object under the metadata key hone.replay. Together
 * with the tensor types in the file, it is enough to rebuild the file byte for byte. */
#ifndef HONE_QUANTIZE_RECORD_H
#define HONE_QUANTIZE_RECORD_H

#include "base/buf.h"
#include "containers/gguf.h"
#include "quantize/quantize.h"

#define RECORD_KEY "hone.replay"
#define RECORD_NONE                                                                                \
    "00000000000000000000000000000000" /* in place of the hash of an unused input                  \
                                        */
/* Appends the record: version, source (name, header hash, size), search, hashes of importance
 * and moments (RECORD_NONE in a dry run), and all options that affect the bytes. Omits the recipe's
 * name, because a plan with the same types gives the same file. */
int record_text(struct buf *out, const struct quantize_opts *o, const struct gguf *source,
                struct err *e);

struct record {
    char version[32], source_hash[33], imatrix[33], gram[33];
    char source[1024]; /* name of a file; bytes that are not UTF-8 take three */
    uint64_t source_bytes, split_max;
    enum search search;
    unsigned without;
    double tau;
};
/* Reads the record. Returns ERR_DATA if it is missing or damaged. */
int record_read(struct record *r, const struct gguf *g, struct err *e);
/* Writes the XXH3-128 of the headers of all shards as hex digits. */
void record_source_hash(const struct gguf *g, char hex[33]);
/* Writes the XXH128 hash of a file as 32 hexadecimal digits. */
int record_file_hash(const char *path, char hex[33], struct err *e);
/* Returns whether a file is a GGUF with a record, so that hone quantize wrote it. */
bool record_in(const char *path);

#endif
