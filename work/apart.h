// SPDX-License-Identifier: MIT
/* work/apart.h - check that a command writes none of the files that it reads. */
#ifndef HONE_WORK_APART_H
#define HONE_WORK_APART_H

#include "work/work.h"

struct apart { /* the files of a job */
    struct work *w;
    struct str_list in, out; /* paths, borrowed or in w->mem */
};
/* Add a file that the job reads, with all shards of its set, or that it writes. NULL: none. */
void apart_in(struct apart *a, const char *path);
void apart_out(struct apart *a, const char *path);
/* Adds n files that the job reads. */
void apart_in_all(struct apart *a, const char *const *path, int n);
/* Returns whether two paths name the same file, also as hard links; it need not exist. */
bool apart_same(const char *a, const char *b);
/* Returns ERR_USAGE if an output is, under any name, an input or another output. */
int apart_check(const struct apart *a, struct err *e);

#endif
