// SPDX-License-Identifier: MIT
/* base/ranks.c - MPI ranks. Only the main thread calls MPI. MPI's default error handler ends the
 * job, which is correct if a rank is lost. */
#include "base/ranks.h"

#include "base/ctx.h"

#ifdef HONE_MPI
#include <mpi.h>

#include "base/num.h"

enum { PIECE = 1 << 30 }; /* MPI counts are int */

void ranks_begin(int *argc, char ***argv) {
    int level;
    MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_size(MPI_COMM_WORLD, &ctx_process()->ranks.n);
    MPI_Comm_rank(MPI_COMM_WORLD, &ctx_process()->ranks.me);
}

void ranks_end(int rc) {
    if (rc && ctx_process()->ranks.n > 1) MPI_Abort(MPI_COMM_WORLD, rc);
    MPI_Finalize();
}

void ranks_send(int64_t item, void *p, uint64_t n) {
    const int my_rank = ranks_me(), owner = (int)(item % ranks_n());
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

void ranks_bcast(void *p, int n) {
    if (ranks_n() > 1) MPI_Bcast(p, n, MPI_BYTE, 0, MPI_COMM_WORLD);
}

#else
void ranks_begin(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
}

void ranks_end(int rc) {
    (void)rc;
}

void ranks_send(int64_t item, void *p, uint64_t n) {
    (void)item;
    (void)p;
    (void)n;
}

void ranks_bcast(void *p, int n) {
    (void)p;
    (void)n;
}
#endif

int ranks_n(void) {
    return ctx_current()->ranks.n;
}

int ranks_me(void) {
    return ctx_current()->ranks.me;
}

bool ranks_mine(int64_t item) {
    return item % ranks_n() == ranks_me();
}
