// SPDX-License-Identifier: MIT
/* core/ranks.c - see ranks.h. MPI is called by the main thread only. Its default error handler ends
 * the job, which is what a lost rank should do. */
#include "core/ranks.h"

#ifdef HONE_MPI
#include <mpi.h>

#include "core/num.h"

enum { PIECE = 1 << 30 }; /* counts are int */
static int n_ranks = 1, my_rank;

void ranks_begin(int *argc, char ***argv) {
    int level;
    MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &my_rank);
}

void ranks_end(int rc) {
    if (rc && n_ranks > 1) MPI_Abort(MPI_COMM_WORLD, rc);
    MPI_Finalize();
}

void ranks_pass(int64_t item, void *p, uint64_t n) {
    int owner = (int)(item % n_ranks);
    uint8_t *at = p;
    if (owner == 0 || (my_rank != 0 && my_rank != owner)) return;
    for (uint64_t left = n; left;) {
        int k = (int)min_i64((int64_t)left, PIECE);
        if (my_rank == 0)
            MPI_Recv(at, k, MPI_BYTE, owner, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else
            MPI_Send(at, k, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
        at += k;
        left -= (uint64_t)k;
    }
}

void ranks_tell(void *p, int n) {
    MPI_Bcast(p, n, MPI_BYTE, 0, MPI_COMM_WORLD);
}

#else
enum { n_ranks = 1, my_rank = 0 };

void ranks_begin(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
}

void ranks_end(int rc) {
    (void)rc;
}

void ranks_pass(int64_t item, void *p, uint64_t n) {
    (void)item;
    (void)p;
    (void)n;
}

void ranks_tell(void *p, int n) {
    (void)p;
    (void)n;
}
#endif

int ranks_n(void) {
    return n_ranks;
}

int ranks_me(void) {
    return my_rank;
}

bool ranks_mine(int64_t item) {
    return item % n_ranks == my_rank;
}
