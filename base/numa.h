// SPDX-License-Identifier: MIT
/* base/numa.h - NUMA nodes: placement of threads and memory on machines where memory belongs to
 * groups of processors (sockets, dies), far memory is slower, and one node alone gives only its own
 * bandwidth. Linux: sysfs, mbind. With a single or unknown node, all functions do nothing. */
#ifndef HONE_BASE_NUMA_H
#define HONE_BASE_NUMA_H

#include <pthread.h>
#include <stdint.h>

enum { NUMA_MAX = 64, NUMA_CPUS = 1024 };

struct numa {
    int n; /* nodes with processors this process may use; 0: unknown */
    struct {
        int id, n_cpus;
        uint64_t cpus[NUMA_CPUS / 64]; /* bit i of word j: processor 64j + i */
    } node[NUMA_MAX];
};

/* Reads the nodes. `root` is "" for this machine, or a folder that holds its own sys/. */
void numa_read(const char *root, struct numa *out);

/* Returns the node of worker i; -1 with fewer than two nodes. For any n, the first n workers
 * are spread over the nodes in proportion to their processors. */
int numa_node_of(const struct numa *m, int worker);

/* Pins a thread to the processors of a node; -1: no change. */
void numa_stay(const struct numa *m, pthread_t thread, int node);

/* Requests interleaved pages from all nodes for memory not yet touched, so that reading it with all
 * threads gets the bandwidth of all nodes. Affects whole pages only; if the kernel refuses, pages
 * come from the node that first touches them. Returns 0, or the kernel's errno. */
int numa_spread(const struct numa *m, void *p, uint64_t n_bytes);

#endif
