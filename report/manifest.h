// SPDX-License-Identifier: MIT
/* report/manifest.h - manifest.json of a published folder: for every file size and SHA-256, for
 * GGUF files the XXH3-128 of the header and of each tensor. Format: docs/formats/manifest.md.
 *
 * With it two files are compared without reading them, and a copy is checked while it is made. */
#ifndef HONE_REPORT_MANIFEST_H
#define HONE_REPORT_MANIFEST_H

#include "containers/gguf.h"
#include "base/doc.h"
#include "base/progress.h"

#define MANIFEST_NAME "manifest.json"
enum { MANIFEST_PIECE = 8 << 20 }; /* bytes of tensor data resident at a time */

/* Calls fn with a tensor's data in pieces, releasing each from memory after it. p may be NULL;
 * else its counter grows. ERR_INTR when interrupted. */
typedef int (*manifest_piece_fn)(void *ud, const uint8_t *data, uint64_t n, struct err *e);
int manifest_walk(const struct gguf *g, const struct gguf_tensor *t, manifest_piece_fn fn, void *ud,
                  struct progress *p, struct err *e);

/* Computes the XXH3-128 of a tensor's data, as 32 hexadecimal digits. p is as in manifest_walk. */
int manifest_hash(const struct gguf *g, const struct gguf_tensor *t, char hex[33],
                  struct progress *p, struct err *e);

/* Adds the entry of a GGUF file (one shard) to the array `files`. It is read once, p counts. */
int manifest_add_gguf(cJSON *files, const char *path, char sha256[65], struct progress *p,
                      struct err *e);
/* Adds the entry of any other file to the array `files`, and fills sha256. `written` is the
 * SHA-256 of what hone wrote there (make/file_guard.h); NULL: hone did not write it. */
int manifest_add_file(cJSON *files, const char *path, const char *written, char sha256[65],
                      struct err *e);

/* Adds the member "supersedes": the models of the manifest `old`, and those it superseded, that are
 * not in `sums` (text of SHA256SUMS), each with the file that has its name now. */
int manifest_add_superseded(cJSON *to, const char *old, const char *sums, struct err *e);

/* Hashes that the manifest beside an open file claims for it. */
struct manifest;
/* Reads the manifest beside an open file. Sizes and headers of every shard must be as it says. *out
 * is NULL, without an error, when there is no manifest, it cannot be read, or it describes other
 * files. */
void manifest_of(struct manifest **out, const struct gguf *g);
void manifest_free(struct manifest *m);
/* Returns the hash that the manifest claims for a tensor, as hexadecimal digits that m owns; NULL
 * when it claims none. */
const char *manifest_tensor(const struct manifest *m, const char *name);

#endif
