// SPDX-License-Identifier: MIT
/* base/numa.c - NUMA nodes from sysfs. Processor numbers need not be contiguous within a node, so
 * they are read from lists, never computed. */
#include "base/numa.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/os.h"

_Static_assert((int)NUMA_CPUS == (int)OS_CPUS, "the same bits");

/* Parses a list such as "0-3,8,10-11" and sets the bit of each number below n. */
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

/* Sets a bit for each number in the list in the sysfs file `name`. Returns false if the file cannot
 * be read. */
static bool read_bit_list(const char *root, const char *name, int n, uint64_t *bits) {
    char path[2048], text[8192];
    if ((size_t)snprintf(path, sizeof path, "%s/sys/devices/system/node/%s", root, name) >=
        sizeof path)
        return false;
    FILE *f = os_fopen(path, "r");
    if (!f) return false;
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    parse_list(text, n, bits);
    return true;
}

static bool has_bit(const uint64_t *bits, int i) {
    return bits[i / 64] >> i % 64 & 1;
}

void numa_read(const char *root, struct numa *out) {
    uint64_t online[NUMA_MAX / 64] = {0};
    uint64_t allowed[OS_CPUS / 64];
    *out = (struct numa){.n = 0};
    if (!os_cpus(allowed)) return;
    if (!read_bit_list(root, "online", NUMA_MAX, online)) return;
    for (int id = 0; id < NUMA_MAX; id++) {
        uint64_t cpus[NUMA_CPUS / 64] = {0};
        char name[32];
        int n_cpus = 0;
        snprintf(name, sizeof name, "node%d/cpulist", id);
        if (!has_bit(online, id) || !read_bit_list(root, name, NUMA_CPUS, cpus)) continue;
        for (int i = 0; i < NUMA_CPUS; i++) {
            const bool ours = has_bit(cpus, i) && has_bit(allowed, i);
            if (!ours) cpus[i / 64] &= ~(UINT64_C(1) << i % 64);
            n_cpus += ours;
        }
        if (!n_cpus) continue; /* a memory-only node, or none of our processors */
        out->node[out->n].id = id;
        out->node[out->n].n_cpus = n_cpus;
        memcpy(out->node[out->n++].cpus, cpus, sizeof cpus);
    }
}

int numa_node_of(const struct numa *m, int worker) {
    if (m->n < 2) return -1;
    int taken[NUMA_MAX] = {0}, at = 0;
    for (int i = 0; i <= worker; i++) { /* each worker goes to the least loaded node */
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
    if (node >= 0 && node < m->n) os_stay(thread, m->node[node].cpus);
}

int numa_spread(const struct numa *m, void *p, uint64_t n_bytes) {
    unsigned long mask[NUMA_MAX / (8 * sizeof(unsigned long))] = {0};
    const uint64_t page = os_page_bytes(), over = (uintptr_t)p % page;
    const uint64_t skip = over ? page - over : 0;
    if (!m->n || n_bytes < skip + page) return 0;
    for (int k = 0; k < m->n; k++)
        mask[(size_t)m->node[k].id / (8 * sizeof *mask)] |=
            1ul << (size_t)m->node[k].id % (8 * sizeof *mask);
    return os_interleave((uint8_t *)p + skip, (n_bytes - skip) / page * page, mask, NUMA_MAX);
}
