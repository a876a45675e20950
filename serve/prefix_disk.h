// SPDX-License-Identifier: MIT
/* serve/prefix_disk.h - sequences in a folder, for a server that starts again: what was computed
 * for the beginnings of prompts.
 *
 * An entry is two files in a folder of the model and of how it is computed: NAME.ids says which
 * tokens (the format is in prefix_disk.c), NAME.seq is the sequence (runtime/engine/seq_file.c),
 * NAME a hash of key and tokens. Both are checked before they are used, and removed when they are
 * damaged. Files hold what clients sent; the folder is its owner's alone. */
#ifndef HONE_SERVE_PREFIX_DISK_H
#define HONE_SERVE_PREFIX_DISK_H

#include "serve/prefix_cache.h"

struct prefix_disk;
/* Reads which entries `dir` has for the session's model; makes the folder when it is missing. s is
 * borrowed. max_bytes is for all entries together; the oldest go first. Returns ERR_SYS when the
 * folder cannot be used, others may write to it, or another server uses it.
 * The caller frees it with prefix_disk_free. */
int prefix_disk_open(struct prefix_disk **out, struct session *s, const char *dir,
                     uint64_t max_bytes, struct err *e);
void prefix_disk_free(struct prefix_disk *f);

/* The entry that spares most of a prompt, more than `more_than` tokens: the first `use` of its own
 * ids[0..n) are the prompt's and not all of that. Where sequences cannot go back, use is n. ids:
 * borrowed until the next call but prefix_disk_load. n is 0: there is none. */
struct prefix_disk_found {
    const int32_t *ids;
    int64_t n, use;
};
struct prefix_disk_found prefix_disk_match(const struct prefix_disk *f, const int32_t *ids,
                                           int64_t n, uint64_t key, int64_t more_than);
/* Makes a sequence of what was found. Returns ERR_DATA when it was damaged and is gone, ERR_SYS
 * when there is no memory. */
int prefix_disk_load(struct prefix_disk *f, const struct prefix_disk_found *at, uint64_t key,
                     struct seq **out, struct err *e);
/* Tells whether these tokens are worth a file, and there is none yet. */
bool prefix_disk_wants(const struct prefix_disk *f, const int32_t *ids, int64_t n, uint64_t key);
/* Writes a sequence that has seen ids[0..n), at the cost of older entries. */
int prefix_disk_save(struct prefix_disk *f, const int32_t *ids, int64_t n, uint64_t key,
                     const struct seq *q, struct err *e);

struct prefix_disk_counts {
    int64_t n, n_loaded, n_saved, n_refused, n_dropped; /* entries now; since the start */
    uint64_t n_bytes;
};
struct prefix_disk_counts prefix_disk_counts(const struct prefix_disk *f);

#endif
