// SPDX-License-Identifier: MIT
/* core/numa.c - see numa.h. Numbers of processors are not contiguous within a node, so lists are
 * read, never computed. mbind has no wrapper in the C library. */
#include "core/numa.h"

#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/num.h"

_Static_assert(NUMA_CPUS == 8 * sizeof(cpu_set_t), "one bit per processor of a cpu_set_t");

enum { INTERLEAVE = 3 /* The value of MPOL_INTERLEAVE in linux/mempolicy.h. */ };

/* Sets the bits of the numbers below n in a list such as 0-3,8,10-11. */
static void parse_list(const char *text, int n, uint64_t *bits) {
    for (const char *p = text; *p;) {
        char *end;
        long a = strtol(p, &end, 10), b = a;
        if (end == p) return;
        if (*end == '-') b = strtol(p = end + 1, &end, 10);
        if (end == p || a < 0) return;
        for (long i = a; i <= b && i < n; i++) bits[i / 64] |= UINT64_C(1) << i % 64;
        p = *end == ',' ? end + 1 : "";
    }
}

static bool read_list(const char *root, const char *name, int n, uint64_t *bits) {
    char path[2048], text[8192];
    if ((size_t)snprintf(path, sizeof path, "%s/sys/devices/system/node/%s", root, name) >=
        sizeof path)
        return false;
    FILE *f = fopen(path, "re");
    if (!f) return false;
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    parse_list(text, n, bits);
    return true;
}

static bool has(const uint64_t *bits, int i) {
    return bits[i / 64] >> i % 64 & 1;
}

void numa_read(const char *root, struct numa *out) {
    uint64_t online[NUMA_MAX / 64] = {0};
    cpu_set_t allowed;
    *out = (struct numa){.n = 0};
    CPU_ZERO(&allowed);
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
    if (!read_list(root, "online", NUMA_MAX, online)) return;
    for (int id = 0; id < NUMA_MAX; id++) {
        uint64_t cpus[NUMA_CPUS / 64] = {0};
        char name[32];
        int n_cpus = 0;
        snprintf(name, sizeof name, "node%d/cpulist", id);
        if (!has(online, id) || !read_list(root, name, NUMA_CPUS, cpus)) continue;
        for (int i = 0; i < NUMA_CPUS; i++) {
            const bool ours = has(cpus, i) && CPU_ISSET((size_t)i, &allowed);
            if (!ours) cpus[i / 64] &= ~(UINT64_C(1) << i % 64);
            n_cpus += ours;
        }
        if (!n_cpus) continue; /* The node is memory alone, or its processors are not ours. */
        out->node[out->n].id = id;
        out->node[out->n].n_cpus = n_cpus;
        memcpy(out->node[out->n++].cpus, cpus, sizeof cpus);
    }
}

int numa_node_of(const struct numa *m, int worker) {
    if (m->n < 2) return -1;
    int taken[NUMA_MAX] = {0}, at = 0;
    for (int i = 0; i <= worker; i++) { /* Each worker goes to the node that is least full then. */
        at = 0;
        for (int k = 1; k < m->n; k++)
            if ((int64_t)(taken[k] + 1) * m->node[at].n_cpus <
                (int64_t)(taken[at] + 1) * m->node[k].n_cpus)
                at = k;
        taken[at]++;
    }
    return at;
}

void numa_stay(const struct numa *m, pthread_t thread, int node) {
    cpu_set_t set;
    if (node < 0 || node >= m->n) return;
    CPU_ZERO(&set);
    for (int i = 0; i < NUMA_CPUS; i++)
        if (has(m->node[node].cpus, i)) CPU_SET((size_t)i, &set);
    (void)pthread_setaffinity_np(thread, sizeof set,
                                 /* When it is refused, the worker runs anywhere, as before. */
                                 &set);
}

int numa_spread(const struct numa *m, void *p, uint64_t n_bytes) {
    unsigned long mask[NUMA_MAX / (8 * sizeof(unsigned long))] = {0};
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), over = (uintptr_t)p % page;
    const uint64_t skip = over ? page - over : 0;
    if (!m->n || n_bytes < skip + page) return 0;
    for (int k = 0; k < m->n; k++)
        mask[(size_t)m->node[k].id / (8 * sizeof *mask)] |=
            1ul << (size_t)m->node[k].id % (8 * sizeof *mask);
    const long rc = syscall(SYS_mbind, (uint8_t *)p + skip, (n_bytes - skip) / page * page,
                            INTERLEAVE, mask, (unsigned long)NUMA_MAX + 1, 0u);
    return rc ? errno : 0;
}
