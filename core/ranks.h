// SPDX-License-Identifier: MIT
/* core/ranks.h - one job on several processes: `make MPI=1`, then `mpirun -n N hone ...`
 * (cli/main.c has the list of commands).
 *
 * Every rank walks through the same items in the same order; item i is computed by rank i mod n,
 * and its bytes go to rank 0, the only one that writes. So outputs are those of one process, and
 * what a rank holds does not grow with n. Only the context of the process (core/ctx.h) has several
 * ranks; without MPI, and for every other context, there is one. */
#ifndef HONE_CORE_RANKS_H
#define HONE_CORE_RANKS_H

#include <stdbool.h>
#include <stdint.h>

/* Once, by cli/main.c, around everything. end: with an error all other ranks are ended too, by
 * SIGTERM, and it does not return. */
void ranks_begin(int *argc, char ***argv);
void ranks_end(int rc);

int ranks_n(void);
int ranks_me(void);
bool ranks_mine(int64_t item);
/* Called by every rank for every item, in order: n bytes at p go from the item's rank to rank 0,
 * whose p receives them. Waits for the other side; a lost rank ends the job. */
void ranks_send(int64_t item, void *p, uint64_t n);
/* Called by every rank: n bytes (below 2 GiB) at p go from rank 0 to all others. */
void ranks_bcast(void *p, int n);

#endif
