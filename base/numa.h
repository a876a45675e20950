// SPDX-License-Identifier: MIT
/* base/numa.h - machines whose memory belongs to groups of processors (sockets, dies): reading far
 * memory is slower, and one node's memory gives only its own bandwidth. Linux: sysfs, mbind. With
 * one node, or where nothing is known, all of this does nothing. */
#ifndef HONE_BASE_NUMA_H
#define HONE_BASE_NUMA_H

#include <pthread.h>
#include <stdint.h>

enum { NUMA_MAX = 64, NUMA_CPUS = 1024 };

struct numa {
    int n; /* nodes with processors that this process may use; 0: unknown */
    struct {
        int id, n_cpus;
        uint64_t cpus[NUMA_CPUS / 64]; /* bit i of word j: processor 64j + i */
    } node[NUMA_MAX];
};

/* Reads the nodes. `root` is "" for this machine, or a folder that holds its own sys/. */
void numa_read(const char *root, struct numa *out);

/* Returns the node that worker i belongs to. Every first few workers are spread over the nodes
 * in proportion to their processors. -1 with fewer than two nodes. */
int numa_node_of(const struct numa *m, int worker);

/* Keeps a thread on the processors of a node; -1: as it is. */
void numa_stay(const struct numa *m, pthread_t thread, int node);

/* Asks, before its first use, that pages of this memory come from all nodes in turn, so that
 * reading it by all threads has the bandwidth of all nodes. Only whole pages do; where the
 * kernel refuses, memory comes from where it is first used. Returns 0, or the kernel's errno. */
int numa_spread(const struct numa *m, void *p, uint64_t n_bytes);

#endif
