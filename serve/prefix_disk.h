// SPDX-License-Identifier: MIT
/* serve/prefix_disk.h - on-disk prefix cache, which survives restarts of the server.
 *
 * Each model, with the options it is computed with, has its own folder. An entry is two files:
 * NAME.ids holds the tokens (format in prefix_disk.c), NAME.seq the sequence
 * (runtime/engine/seq_file.c). NAME is a hash of key and tokens. Files are verified before use and
 * removed if damaged. Because they contain what clients sent, only the owner can access the
 * folder. */
#ifndef HONE_SERVE_PREFIX_DISK_H
#define HONE_SERVE_PREFIX_DISK_H

#include "serve/prefix_cache.h"

struct prefix_disk;
/* Opens the cache in `dir`, which is created if missing, and reads the list of entries for the
 * session's model. s is borrowed. max_bytes: limit on the size of all entries; the least recently
 * used are removed first. ERR_SYS: the folder is unusable, writable by others, or in use by another
 * server. Free with prefix_disk_free(). */
int prefix_disk_open(struct prefix_disk **out, struct session *s, const char *dir,
                     uint64_t max_bytes, struct err *e);
void prefix_disk_free(struct prefix_disk *f);

/* The best entry for a prompt. Its tokens are ids[0..n), and the first `use` of them are also the
 * first of the prompt. `use` is greater than more_than and less than the prompt's length; it is n
 * if sequences cannot be trimmed. ids stay valid until a function other than prefix_disk_load() is
 * called. n 0: no such entry. */
struct prefix_disk_found {
    const int32_t *ids;
    int64_t n, use;
};
/* Returns the entry that shares the most tokens, if more than more_than. use more_than: not
 * found. */
struct prefix_disk_found prefix_disk_match(const struct prefix_disk *f, const int32_t *ids,
                                           int64_t n, uint64_t key, int64_t more_than);
/* Loads the sequence of the entry `at`. ERR_DATA: it was damaged and has been removed. ERR_SYS: out
 * of memory. */
int prefix_disk_load(struct prefix_disk *f, const struct prefix_disk_found *at, uint64_t key,
                     struct seq **out, struct err *e);
/* Returns whether these tokens are worth saving and have no entry yet. */
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
