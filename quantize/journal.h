// SPDX-License-Identifier: MIT
/* quantize/journal.h - the journal of an interrupted output: OUT.part.log, next to OUT.part.
 *
 * A text file. The first line holds the run's key (everything that determines the output's
 * bytes) and the number of files; each later line holds a complete tensor and the hash of its
 * bytes. Every line has its own checksum; the first bad line and all lines after it are ignored.
 * Resuming compares the hashes with the partial file, so the order of disk writes does not
 * matter. The open journal is locked against other processes. */
#ifndef HONE_QUANTIZE_JOURNAL_H
#define HONE_QUANTIZE_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct journal_line {
    char hash[33];
    double alpha; /* quantize_row.alpha of this tensor */
};
struct journal {
    char *path;
    int fd;
    int n_files; /* number of output files under the previous key; 0: none */
    int64_t n, cap;
    struct journal_line *line; /* [n] */
    uint64_t *end;             /* [n] offset of the end of each line */
    uint64_t head;             /* bytes in the first line */
};
enum journal_found { JOURNAL_NONE, JOURNAL_SAME, JOURNAL_OTHER };
/* Opens or creates the journal of `out` and locks it. Returns ERR_SYS if another process holds the
 * lock. A journal with a different key (j->n_files is then its number of output files) or without a
 * key is restarted. */
int journal_open(struct journal *j, const char *out, const char key[33], int n_files,
                 enum journal_found *found, struct err *e);
/* Returns whether a file named like a journal holds data that this program did not write. A killed
 * run or a power failure may leave one empty, or with zeros. */
bool journal_is_foreign(const char *path);
/* Drops all lines after the first n. */
int journal_cut(struct journal *j, int64_t n, struct err *e);
/* Appends a finished tensor with its hash and alpha. */
int journal_add(struct journal *j, const char hash[33], double alpha, struct err *e);
/* Closes the journal; `remove` also deletes its file. Accepts a zeroed struct. */
void journal_close(struct journal *j, bool remove);

#endif
