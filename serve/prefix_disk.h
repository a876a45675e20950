// SPDX-License-Identifier: MIT
/* serve/prefix_disk.h - on-disk prefix cache, which survives restarts of the server.
 *
 * Entries live in a folder for this model and the options it is computed with. Each one is two
 * files: NAME.ids holds the tokens (format in prefix_disk.c), NAME.seq the sequence
 * (runtime/engine/seq_file.c). NAME is a hash of key and tokens. Files are verified before use and
 * removed if damaged. They contain what clients sent, so only the owner can access the folder. */
#ifndef HONE_SERVE_PREFIX_DISK_H
#define HONE_SERVE_PREFIX_DISK_H

#include "serve/prefix_cache.h"

struct prefix_disk;
/* Opens the cache in `dir`, creates it if missing, and lists the entries for the session's model. s
 * is borrowed. max_bytes: limit for all entries; the oldest are removed first. ERR_SYS: the folder
 * is unusable, writable by others, or in use by another server. Free with prefix_disk_free(). */
int prefix_disk_open(struct prefix_disk **out, struct session *s, const char *dir,
                     uint64_t max_bytes, struct err *e);
void prefix_disk_free(struct prefix_disk *f);

/* The entry that saves the most, more than `more_than` tokens: the first `use` of its ids[0..n)
 * begin the prompt but do not cover all of it. If sequences cannot be trimmed, use is n. ids stay
 * valid until the next call other than prefix_disk_load(). n 0: no entry. */
struct prefix_disk_found {
    const int32_t *ids;
    int64_t n, use;
};
struct prefix_disk_found prefix_disk_match(const struct prefix_disk *f, const int32_t *ids,
                                           int64_t n, uint64_t key, int64_t more_than);
/* Loads the sequence of a match. ERR_DATA: it was damaged and has been removed. ERR_SYS: out of
 * memory. */
int prefix_disk_load(struct prefix_disk *f, const struct prefix_disk_found *at, uint64_t key,
                     struct seq **out, struct err *e);
/* Returns whether these tokens are worth a file and have none yet. */
bool prefix_disk_wants(const struct prefix_disk *f, const int32_t *ids, int64_t n, uint64_t key);
/* Writes a sequence that contains ids[0..n), removing older entries if needed. */
int prefix_disk_save(struct prefix_disk *f, const int32_t *ids, int64_t n, uint64_t key,
                     const struct seq *q, struct err *e);

struct prefix_disk_counts {
    int64_t n, n_loaded, n_saved, n_refused,
        n_dropped; /* n: entries now; the rest: totals since start */
    uint64_t n_bytes;
};
struct prefix_disk_counts prefix_disk_counts(const struct prefix_disk *f);

#endif
