// SPDX-License-Identifier: MIT
/* base/machine.c - processors, cores and control-group limits. A group's limit also applies to all
 * groups below it, so every folder from the process's group up to the root counts. In a container,
 * the path in /proc/self/cgroup may not be visible; then only the root counts, which is the
 * container's own group. */
#include "base/machine.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/num.h"
#include "base/os.h"

enum { NAME_MAX_LEN = 2048 };

/* Reads the first n - 1 bytes of a small file, NUL-terminated. Returns false if it cannot be
 * read. */
static bool slurp(const char *dir, const char *file, char *text, size_t n) {
    char path[NAME_MAX_LEN + 64];
    snprintf(path, sizeof path, "%s/%s", dir, file);
    FILE *f = os_fopen(path, "r");
    if (!f) return false;
    const size_t len = fread(text, 1, n - 1, f);
    fclose(f);
    text[len] = 0;
    return true;
}
/* Reads the number in a file of the folder; false if unreadable or "max". */
static bool read_number(const char *dir, const char *file, int64_t *out) {
    char text[64], *end;
    if (!slurp(dir, file, text, sizeof text)) return false;
    /* "max" is not a number and means no limit. */
    const long long v = strtoll(text, &end, 10);
    *out = v;
    return end != text;
}

/* Lowers the number of processors to time / period, rounded up; both are in microseconds. */
static void lower_quota(struct machine *m, int64_t time, int64_t period) {
    if (time <= 0 || period <= 0) return;
    const int64_t n = min_i64(div_up(time, period), INT_MAX);
    if (!m->n_quota || n < m->n_quota) m->n_quota = (int)n;
}
/* Returns the size of the page cache in memory.stat, which the kernel reclaims when the group needs
 * memory. */
static int64_t file_pages(const char *dir, const char *prefix) {
    char text[8192], key[64];
    int64_t sum = 0;
    if (!slurp(dir, "memory.stat", text, sizeof text)) return 0;
    for (char *save, *line = strtok_r(text, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        long long v;
        if (sscanf(line, "%63s %lld", key, &v) != 2 || strncmp(key, prefix, strlen(prefix)) != 0)
            continue;
        const char *name = key + strlen(prefix);
        if (strcmp(name, "inactive_file") == 0 || strcmp(name, "active_file") == 0) sum += v;
    }
    return sum;
}
/* Lowers the free memory to the group's limit minus its usage, read from the files `limit` and
 * `used`. */
static void lower_memory_left(struct machine *m, const char *dir, const char *limit,
                              const char *used, const char *prefix) {
    int64_t most, now = 0;
    if (!read_number(dir, limit, &most) || most < 0 || most >= INT64_MAX / 2) return;
    (void)read_number(dir, used, &now);
    const int64_t left = max_i64(0, most - max_i64(0, now - file_pages(dir, prefix)));
    if ((uint64_t)left < m->mem_left) m->mem_left = (uint64_t)left;
}

/* Applies the limits of a cgroup v2 folder. */
static void read_group_v2(struct machine *m, const char *dir) {
    char text[64];
    long long time, period;
    if (slurp(dir, "cpu.max", text, sizeof text) && sscanf(text, "%lld %lld", &time, &period) == 2)
        lower_quota(m, time, period);
    lower_memory_left(m, dir, "memory.max", "memory.current", "");
}
/* Applies the processor quota of a cgroup v1 folder. */
static void read_group_v1_cpu(struct machine *m, const char *dir) {
    int64_t time, period;
    if (read_number(dir, "cpu.cfs_quota_us", &time) &&
        read_number(dir, "cpu.cfs_period_us", &period))
        lower_quota(m, time, period);
}
/* Applies the memory limit of a cgroup v1 folder. */
static void read_group_v1_memory(struct machine *m, const char *dir) {
    lower_memory_left(m, dir, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_");
}

/* Applies the limits in `top`/path and in each parent folder up to `top`. */
static void upwards(struct machine *m, const char *top, const char *path,
                    void (*visit)(struct machine *, const char *)) {
    char dir[NAME_MAX_LEN];
    const size_t n_top = strlen(top);
    if ((size_t)snprintf(dir, sizeof dir, "%s%s", top, path) >= sizeof dir) return;
    for (char *cut = dir + strlen(dir); cut; cut = strrchr(dir + n_top, '/')) {
        *cut = 0;
        visit(m, dir);
    }
}

/* Returns whether the comma-separated `list` contains `name`. */
static bool listed(const char *list, const char *name) {
    const size_t n = strlen(name);
    for (const char *p = list; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
        if (strncmp(p, name, n) == 0 && (p[n] == ',' || p[n] == 0)) return true;
    return false;
}

/* Applies the limits of one line of /proc/self/cgroup, "number:controllers:path". */
static void group_line(struct machine *m, const char *root, char *line) {
    char top[NAME_MAX_LEN];
    char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;
    if (!path) return;
    *path++ = 0;
    list++;
    if (*list == 0) {
        snprintf(top, sizeof top, "%s/sys/fs/cgroup", root);
        upwards(m, top, path, read_group_v2);
    }
    if (listed(list, "cpu")) {
        snprintf(top, sizeof top, "%s/sys/fs/cgroup/cpu", root);
        upwards(m, top, path, read_group_v1_cpu);
    }
    if (listed(list, "memory")) {
        snprintf(top, sizeof top, "%s/sys/fs/cgroup/memory", root);
        upwards(m, top, path, read_group_v1_memory);
    }
}

void machine_limits(const char *root, struct machine *m) {
    *m = (struct machine){.mem_left = UINT64_MAX};
    char dir[NAME_MAX_LEN], text[8192];
    snprintf(dir, sizeof dir, "%s/proc/self", root);
    if (!slurp(dir, "cgroup", text, sizeof text)) return;
    for (char *save, *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        group_line(m, root, line);
}

/* Counts processors, cores, and fast cores. A core's speed is its capacity (ARM: 1024 for the
 * fastest), or if unknown its maximum clock. */
static void processors(struct machine *m, const char *root) {
    static const char file[] = "topology/thread_siblings_list";
    bool seen[OS_CPUS] = {false};
    int64_t speed[OS_CPUS], most = 0;
    uint64_t cpus[OS_CPUS / 64];
    m->n_cpus = os_cpus(cpus);
    if (m->n_cpus < 1) { /* unknown, or more than OS_CPUS processors */
        const int cores = os_n_cores(), big = os_big_cores();
        m->n_cpus = (int)max_i64(1, os_n_cpus());
        m->n_cores = cores < 1 || cores > m->n_cpus ? m->n_cpus : cores;
        m->n_big = big < 1 || big > m->n_cores ? m->n_cores : big;
        return;
    }
    for (int i = 0; i < OS_CPUS; i++) {
        char dir[NAME_MAX_LEN];
        int64_t first; /* a core is counted at its lowest-numbered processor */
        if (!(cpus[i / 64] >> i % 64 & 1)) continue;
        snprintf(dir, sizeof dir, "%s/sys/devices/system/cpu/cpu%d", root, i);
        if (!read_number(dir, file, &first) || first < 0 || first >= OS_CPUS) first = i;
        if (seen[first]) continue;
        seen[first] = true;
        int64_t *to = &speed[m->n_cores++];
        if (!read_number(dir, "cpu_capacity", to) &&
            !read_number(dir, "cpufreq/cpuinfo_max_freq", to))
            *to = 0;
        *to = *to < 0 || *to > INT32_MAX ? 0 : *to;
        if (*to > most) most = *to;
    }
    for (int i = 0; i < m->n_cores; i++) m->n_big += 5 * speed[i] >= 4 * most;
}

void machine_read(const char *root, struct machine *out) {
    machine_limits(root, out);
    processors(out, root);
}

bool machine_has_nvidia(const char *root) {
    static const char *const file[] = {"/proc/driver/nvidia/version", "/dev/nvidia0",
                                       "/usr/lib/wsl/lib/libcuda.so.1"};
    bool found = false;
    for (size_t i = 0; i < COUNT_OF(file) && !found; i++) {
        char path[NAME_MAX_LEN + 64];
        snprintf(path, sizeof path, "%s%s", root, file[i]);
        found = os_exists(path);
    }
    return found;
}
