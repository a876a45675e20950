// SPDX-License-Identifier: MIT
/* report/manifest.h - manifest.json of a published folder.
 *
 * It lists size and SHA-256 of every file and, for GGUF files, the XXH3-128 of the header and of
 * each tensor. With it, files can be compared without reading them, and a copy can be checked while
 * it is made. Format: docs/formats/manifest.md. */
#ifndef HONE_REPORT_MANIFEST_H
#define HONE_REPORT_MANIFEST_H

#include "containers/gguf.h"
#include "base/doc.h"
#include "base/progress.h"

#define MANIFEST_NAME "manifest.json"
enum { MANIFEST_PIECE = 8 << 20 }; /* bytes of tensor data resident at a time */

/* Calls fn with a tensor's data in chunks and releases each chunk from memory afterwards. Advances
 * p unless NULL. ERR_INTR: interrupted. */
typedef int (*manifest_piece_fn)(void *ud, const uint8_t *data, uint64_t n, struct err *e);
/* Calls fn for the tensor's data piece by piece and drops each piece from memory. p may be NULL. */
int manifest_walk(const struct gguf *g, const struct gguf_tensor *t, manifest_piece_fn fn, void *ud,
                  struct progress *p, struct err *e);

/* Computes the XXH3-128 of a tensor's data as 32 hexadecimal digits. p: see manifest_walk. */
int manifest_hash(const struct gguf *g, const struct gguf_tensor *t, char hex[33],
                  struct progress *p, struct err *e);

/* Adds the entry of one GGUF file (one shard) to the array `files`. Reads the file once and
 * advances p. */
int manifest_add_gguf(cJSON *files, const char *path, char sha256[65], struct progress *p,
                      struct err *e);
/* Adds the entry of any other file to the array `files` and fills sha256. `written`: SHA-256 of the
 * version that hone wrote (make/file_guard.h); NULL: hone did not write the file. */
int manifest_add_file(cJSON *files, const char *path, const char *written, char sha256[65],
                      struct err *e);

/* Adds the member "supersedes": the models in the manifest `old`, and those that it lists as
 * superseded, whose checksums are missing from `sums` (text of SHA256SUMS); each with the file that
 * now has its name. */
int manifest_add_superseded(cJSON *to, const char *old, const char *sums, struct err *e);

/* Per-tensor hashes from the manifest stored next to an open file. */
struct manifest;
/* Reads the manifest stored next to an open file and checks the sizes and headers of all shards
 * against it. *out is NULL, without an error, if the manifest is missing, unreadable, or describes
 * different files. */
void manifest_of(struct manifest **out, const struct gguf *g);
void manifest_free(struct manifest *m);
/* Returns the manifest's hash of a tensor as hexadecimal digits owned by m; NULL: none. */
const char *manifest_tensor(const struct manifest *m, const char *name);

#endif
