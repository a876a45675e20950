// SPDX-License-Identifier: MIT
/* base/numa.h - NUMA nodes: placement of threads and memory on machines whose memory is divided
 * among groups of processors (sockets, dies). Remote memory is slower, and each node adds its own
 * bandwidth. Uses sysfs and mbind on Linux. With a single node, or if nodes are unknown, all
 * functions do nothing. */
#ifndef HONE_BASE_NUMA_H
#define HONE_BASE_NUMA_H

#include <pthread.h>
#include <stdint.h>

enum { NUMA_MAX = 64, NUMA_CPUS = 1024 };

struct numa {
    int n; /* number of nodes whose processors this process may use; 0: unknown */
    struct {
        int id, n_cpus;
        uint64_t cpus[NUMA_CPUS / 64]; /* bit i of word j: processor 64j + i */
    } node[NUMA_MAX];
};

/* Reads the nodes. `root` is "" for this machine, or a folder that holds its own sys/. */
void numa_read(const char *root, struct numa *out);

/* Returns the node of a worker; -1 with fewer than two nodes. For any n, the first n workers are
 * spread over the nodes in proportion to the number of processors of each node. */
int numa_node_of(const struct numa *m, int worker);

/* Pins a thread to the processors of a node; node -1: does nothing. */
void numa_stay(const struct numa *m, pthread_t thread, int node);

/* Requests that memory not yet touched be interleaved over all nodes, so that reading it with all
 * threads uses the bandwidth of all nodes. Affects whole pages only. If the kernel refuses, a page
 * comes from the node that first touches it. Returns 0, or the kernel's errno. */
int numa_spread(const struct numa *m, void *p, uint64_t n_bytes);

#endif
