// SPDX-License-Identifier: MIT
/* tests/unit/test_machine.c - nested control groups of both versions, in a simulated /proc and
 * /sys; cores shared by two processors; memory nodes. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/io.h"
#include "base/machine.h"
#include "base/mem.h"
#include "base/numa.h"
#include "base/os.h"
#include "tests/check.h"
#include "tests/unit/tmpdir.h"

static void put(const char *name, const char *text) {
    char dir[256];
    struct err e = {0};
    snprintf(dir, sizeof dir, "%s", tmp_path(name));
    *strrchr(dir, '/') = 0;
    CHECK_OK(io_make_dir(dir, &e));
    tmp_write(name, text, strlen(text));
}
static struct machine look(void) {
    struct machine m;
    machine_read(tmp_dir, &m);
    return m;
}
static void groups_are(const char *text) {
    put("proc/self/cgroup", text);
}

static void test_nothing(void) {
    struct machine m = look();
    CHECK(m.n_cpus >= 1 && m.n_cores == m.n_cpus && m.n_quota == 0);
    CHECK(m.mem_left == UINT64_MAX);
    machine_read("", &m);
    CHECK(m.n_cpus >= 1 && m.n_cores >= 1 && m.n_cores <= m.n_cpus);
    groups_are("garbage\n:\n0:\n7:cpu\n0::/no/such/group\n3:memory:/none\n");
    m = look();
    CHECK(m.n_quota == 0 && m.mem_left == UINT64_MAX);
}

static void test_v2(void) {
    groups_are("0::/a/b\n");
    put("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    put("sys/fs/cgroup/a/b/memory.max", "max\n");
    CHECK(look().n_quota == 0 && look().mem_left == UINT64_MAX);
    put("sys/fs/cgroup/a/cpu.max", "250000 100000\n"); /* limit of the parent group */
    CHECK_EQ_I64(look().n_quota, 3);
    put("sys/fs/cgroup/a/b/cpu.max", "150000 100000\n");
    CHECK_EQ_I64(look().n_quota, 2);
    put("sys/fs/cgroup/cpu.max", "50000 100000\n"); /* a container's limit: at the root */
    CHECK_EQ_I64(look().n_quota, 1);
    put("sys/fs/cgroup/a/memory.max", "1000000\n");
    put("sys/fs/cgroup/a/memory.current", "700000\n");
    CHECK_EQ_I64((int64_t)look().mem_left, 300000);
    put("sys/fs/cgroup/a/memory.stat",
        "anon 100\ninactive_file 50000\nactive_file 7\nfile 99999\n");
    CHECK_EQ_I64((int64_t)look().mem_left, 350007);
    put("sys/fs/cgroup/a/b/memory.max", "200000\n");
    put("sys/fs/cgroup/a/b/memory.current", "300000\n"); /* above the limit: nothing left */
    CHECK(look().mem_left == 0);
    groups_are("0::/elsewhere\n");
    CHECK_EQ_I64(look().n_quota, 1);
    CHECK(look().mem_left == UINT64_MAX);
}

static void test_v1(void) {
    groups_are("5:memory:/x\n4:cpuacct,cpu:/x/y\n2:cpuset:/x\n");
    put("sys/fs/cgroup/cpu/x/y/cpu.cfs_quota_us", "-1\n");
    put("sys/fs/cgroup/cpu/x/y/cpu.cfs_period_us", "100000\n");
    CHECK_EQ_I64(look().n_quota, 0);
    put("sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "400000\n");
    put("sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "100000\n");
    CHECK_EQ_I64(look().n_quota, 4);
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"); /* none */
    CHECK(look().mem_left == UINT64_MAX);
    put("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "5000\n");
    put("sys/fs/cgroup/memory/x/memory.usage_in_bytes", "4000\n");
    put("sys/fs/cgroup/memory/x/memory.stat", "inactive_file 1\ntotal_inactive_file 20\n");
    CHECK_EQ_I64((int64_t)look().mem_left, 1020);
}

static void test_cores(void) {
    const int n = look().n_cpus;
    char name[80];
    for (int i = 0; i < 64; i++) { /* each pair shares a core */
        snprintf(name, sizeof name, "sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
                 i);
        char text[32];
        snprintf(text, sizeof text, i % 4 < 2 ? "%d-%d\n" : "%d,%d\n", i / 2 * 2, i / 2 * 2 + 1);
        put(name, text);
    }
    CHECK(look().n_cores >= (n + 1) / 2 && look().n_cores <= n);
    if (n == 2) CHECK_EQ_I64(look().n_cores, n / 2);
}

/* Tests cores of two kinds, as reported by ARM kernels and by clock rates. */
static void test_big_cores(void) {
    char name[80];
    const struct machine all = look();
    CHECK_EQ_I64(all.n_big, all.n_cores); /* nothing is reported: all are alike */
    for (int by_clock = 1; by_clock >= 0; by_clock--) {
        for (int i = 0; i < OS_CPUS; i++) { /* cores 0 and 2 are fast, by test_cores */
            snprintf(name, sizeof name, "sys/devices/system/cpu/cpu%d/%s", i,
                     by_clock ? "cpufreq/cpuinfo_max_freq" : "cpu_capacity");
            const bool fast = i / 2 % 2 == 0;
            put(name, by_clock ? fast ? "4800000\n" : "3700000\n" : fast ? "1024\n" : "446\n");
        }
        uint64_t cpus[OS_CPUS / 64];
        int want = 0;
        bool seen[OS_CPUS] = {false};
        os_cpus(cpus);
        for (int i = 0; i < OS_CPUS; i++) {
            const int core = i < 64 ? i / 2 * 2 : i;
            if (!(cpus[i / 64] >> i % 64 & 1) || seen[core]) continue;
            seen[core] = true;
            want += core / 2 % 2 == 0;
        }
        CHECK_EQ_I64(look().n_big, want ? want : look().n_cores);
    }
}

/* Tests two nodes with interleaved processor numbers, one with only memory, and one that is
 * offline. */
static void test_nodes(void) {
    struct numa m;
    numa_read(tmp_dir, &m);
    CHECK_EQ_I64(m.n, 0);
    CHECK_EQ_I64(numa_node_of(&m, 3), -1);
    put("sys/devices/system/node/online", "0-1,4\n");
    put("sys/devices/system/node/node0/cpulist", "0,2-2,4,6-1023\n");
    put("sys/devices/system/node/node1/cpulist", "\n");
    put("sys/devices/system/node/node2/cpulist", "3\n");
    put("sys/devices/system/node/node4/cpulist", "1,3,5,junk\n");
    numa_read(tmp_dir, &m);
    cpu_set_t set;
    CHECK(sched_getaffinity(0, sizeof set, &set) == 0);
    /* on other machines, different processors of these nodes are available */
    if (CPU_COUNT(&set) != 2 || !CPU_ISSET(0, &set) || !CPU_ISSET(1, &set)) return;
    CHECK_EQ_I64(m.n, 2);
    CHECK(m.node[0].id == 0 && m.node[0].n_cpus == 1 && m.node[0].cpus[0] == 1);
    CHECK(m.node[1].id == 4 && m.node[1].n_cpus == 1 && m.node[1].cpus[0] == 2);
}

static void test_bad_nodes(void) {
    static const char *const text[] = {"", "-", "1-", "-5", "9-3", "x", "0-99999999999999999999"};
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        struct numa m;
        put("sys/devices/system/node/online", "0\n");
        put("sys/devices/system/node/node0/cpulist", text[i]);
        numa_read(tmp_dir, &m);
        CHECK((m.n > 0) == (i == 6));
        put("sys/devices/system/node/online", text[i]);
        numa_read(tmp_dir, &m);
        CHECK((m.n > 0) == (i == 6));
    }
}

/* Checks that any number of first workers is divided among the nodes in proportion to processors,
 * to within one. */
static void test_spread_workers(void) {
    struct numa m = {.n = 3};
    const int cpus[3] = {4, 8, 4};
    int count[3] = {0};
    for (int k = 0; k < 3; k++) m.node[k].n_cpus = cpus[k];
    for (int i = 0; i < 64; i++) {
        const int at = numa_node_of(&m, i);
        CHECK(at >= 0 && at < 3);
        if (at < 0 || at > 2) return;
        count[at]++;
        for (int k = 0; k < 3; k++) CHECK(abs(16 * count[k] - (i + 1) * cpus[k]) <= 16);
    }
}

/* Checks on this machine that a thread stays where it is pinned and memory gets the policy. */
static void test_kernel(void) {
    struct numa m;
    cpu_set_t before, now;
    void *p;
    numa_read("", &m);
    CHECK(m.n <= 1 || numa_node_of(&m, 1) >= 0);
    sched_getaffinity(0, sizeof before, &before);
    if (!m.n || CPU_COUNT(&before) < 2 || !m.node[0].cpus[0]) return;
    const int last = 63 - __builtin_clzll(m.node[0].cpus[0]);
    struct numa one = {.n = 1};
    one.node[0].cpus[0] = UINT64_C(1) << last;
    numa_stay(&one, pthread_self(), -1);
    sched_getaffinity(0, sizeof now, &now);
    CHECK(CPU_EQUAL(&before, &now));
    numa_stay(&one, pthread_self(), 0);
    sched_getaffinity(0, sizeof now, &now);
    CHECK(CPU_COUNT(&now) == 1 && CPU_ISSET((size_t)last, &now));
    sched_setaffinity(0, sizeof before, &before);
    struct err e = {0};
    CHECK_OK(mem_alloc(&p, 16 << 20, "test", &e));
    const int rc = numa_spread(&m, p, 16 << 20);
    if (rc == 0) {
        int policy = -1; /* policy of the address: flag 2 */
        CHECK(syscall(SYS_get_mempolicy, &policy, NULL, 0, (uint8_t *)p + (8 << 20), 2) == 0);
        CHECK_EQ_I64(policy, 3); /* interleaved */
    } else {
        CHECK(rc == ENOSYS || rc == EPERM); /* blocked by a container's system-call filter */
    }
    memset(p, 7, 16 << 20);
    mem_free(p);
}

int main(void) {
    tmp_make();
    RUN(test_nothing);
    RUN(test_v2);
    RUN(test_v1);
    RUN(test_cores);
    RUN(test_big_cores);
    RUN(test_nodes);
    RUN(test_bad_nodes);
    RUN(test_spread_workers);
    RUN(test_kernel);
    tmp_remove();
    return check_done();
}
