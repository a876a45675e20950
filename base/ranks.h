// SPDX-License-Identifier: MIT
/* base/ranks.h - one job in several processes, with MPI: `make MPI=1`, then `mpirun -n N hone ...`
 * (cli/main.c lists the commands).
 *
 * Every rank iterates over the same items in the same order. Rank i mod n computes item i and sends
 * its bytes to rank 0, the only one that writes. Outputs are therefore the same as with a single
 * process, and a rank's memory does not grow with n. Only the context of the process (base/ctx.h)
 * can have several ranks; other contexts, and builds without MPI, have one. */
#ifndef HONE_BASE_RANKS_H
#define HONE_BASE_RANKS_H

#include <stdbool.h>
#include <stdint.h>

/* Start and end MPI; cli/main.c calls each once. After an error, ranks_end terminates all other
 * ranks with SIGTERM and does not return. */
void ranks_begin(int *argc, char ***argv);
/* Ends MPI and, if rc is not 0, aborts the other ranks. Does nothing without MPI. */
void ranks_end(int rc);

/* Returns the number of ranks, 1 without MPI. */
int ranks_n(void);
/* Returns this rank's number from 0. */
int ranks_me(void);
/* Returns whether this rank computes the item: items go to the ranks in turn. */
bool ranks_mine(int64_t item);
/* Copies n bytes at p from the item's rank to p on rank 0. Every rank calls it for every item, in
 * order. Blocks until the other side calls it too; a lost rank ends the job. */
void ranks_send(int64_t item, void *p, uint64_t n);
/* Broadcasts n bytes (below 2 GiB) at p from rank 0. Every rank calls it. */
void ranks_bcast(void *p, int n);

#endif
