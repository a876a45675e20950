// SPDX-License-Identifier: MIT
/* quantize/journal.h - what an interrupted output holds: OUT.part.log beside OUT.part.
 *
 * A text file: a line with the key of the run (all that decides the output's bytes) and the number
 * of files, then a line per complete tensor with the hash of its bytes. Every line has a check of
 * its own, and what follows the first bad line counts as not written. The journal is a claim only:
 * whoever goes on compares the hashes with what the part really holds, so neither order nor time of
 * writes to the disk matters. The open journal is locked against other processes. */
#ifndef HONE_QUANTIZE_JOURNAL_H
#define HONE_QUANTIZE_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct journal_line {
    char hash[33];
    double alpha; /* quantize_row.alpha of the tensor */
};
struct journal {
    char *path;
    int fd;
    int n_files; /* of the output of an older key, 0: none */
    int64_t n, cap;
    struct journal_line *line; /* [n] */
    uint64_t *end;             /* [n] bytes of the journal up to and with a line */
    uint64_t head;             /* bytes of the first line */
};
enum journal_found { JOURNAL_NONE, JOURNAL_SAME, JOURNAL_OTHER };
/* Opens or makes the journal of `out` and locks it; ERR_SYS when another process has it. One with
 * another key (then j->n_files says how many files its output had) or none starts anew. */
int journal_open(struct journal *j, const char *out, const char key[33], int n_files,
                 enum journal_found *found, struct err *e);
/* Forgets all lines but the first n. */
int journal_cut(struct journal *j, int64_t n, struct err *e);
int journal_add(struct journal *j, const char hash[33], double alpha, struct err *e);
/* Works on a zeroed struct. */
void journal_close(struct journal *j, bool remove);

#endif
