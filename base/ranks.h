// SPDX-License-Identifier: MIT
/* base/ranks.h - one job on several processes: `make MPI=1`, then `mpirun -n N hone ...`
 * (cli/main.c has the list of commands).
 *
 * Every rank walks through the same items in the same order; item i is computed by rank i mod n,
 * and its bytes go to rank 0, the only one that writes. So outputs are those of one process, and
 * what a rank holds does not grow with n. Only the context of the process (base/ctx.h) has several
 * ranks; without MPI, and for every other context, there is one. */
#ifndef HONE_BASE_RANKS_H
#define HONE_BASE_RANKS_H

#include <stdbool.h>
#include <stdint.h>

/* Begins; cli/main.c calls both once, around everything. With an error ranks_end ends all other
 * ranks too, by SIGTERM, and does not return. */
void ranks_begin(int *argc, char ***argv);
void ranks_end(int rc);

int ranks_n(void);
int ranks_me(void);
bool ranks_mine(int64_t item);
/* Sends n bytes at p from the item's rank to rank 0, whose p receives them. Every rank calls it
 * for every item, in order. It waits for the other side; a lost rank ends the job. */
void ranks_send(int64_t item, void *p, uint64_t n);
/* Sends n bytes (below 2 GiB) at p from rank 0 to all others. Every rank calls it. */
void ranks_bcast(void *p, int n);

#endif
