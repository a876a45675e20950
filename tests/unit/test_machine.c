// SPDX-License-Identifier: MIT
/* tests/unit/test_machine.c - control groups of both versions, nested, in a made-up /proc and /sys;
 * cores that two processors share. */
#include "core/io.h"
#include "core/machine.h"
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
    put("sys/fs/cgroup/a/cpu.max", "250000 100000\n"); /* of the group above */
    CHECK_EQ_I64(look().n_quota, 3);
    put("sys/fs/cgroup/a/b/cpu.max", "150000 100000\n");
    CHECK_EQ_I64(look().n_quota, 2);
    put("sys/fs/cgroup/cpu.max", "50000 100000\n"); /* of a container: the top */
    CHECK_EQ_I64(look().n_quota, 1);
    put("sys/fs/cgroup/a/memory.max", "1000000\n");
    put("sys/fs/cgroup/a/memory.current", "700000\n");
    CHECK_EQ_I64((int64_t)look().mem_left, 300000);
    put("sys/fs/cgroup/a/memory.stat",
        "anon 100\ninactive_file 50000\nactive_file 7\nfile 99999\n");
    CHECK_EQ_I64((int64_t)look().mem_left, 350007);
    put("sys/fs/cgroup/a/b/memory.max", "200000\n");
    put("sys/fs/cgroup/a/b/memory.current", "300000\n"); /* over it: nothing left */
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
    for (int i = 0; i < 64; i++) { /* every two share a core */
        snprintf(name, sizeof name, "sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
                 i);
        char text[32];
        snprintf(text, sizeof text, i % 4 < 2 ? "%d-%d\n" : "%d,%d\n", i / 2 * 2, i / 2 * 2 + 1);
        put(name, text);
    }
    CHECK(look().n_cores >= (n + 1) / 2 && look().n_cores <= n);
    if (n == 2) CHECK_EQ_I64(look().n_cores, n / 2);
}

int main(void) {
    tmp_make();
    RUN(test_nothing);
    RUN(test_v2);
    RUN(test_v1);
    RUN(test_cores);
    tmp_remove();
    return check_done();
}
