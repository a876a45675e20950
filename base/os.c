// SPDX-License-Identifier: MIT
/* base/os.c - operating-system differences: files, memory, processors. */
#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>
#if defined(__linux__)
#include <sched.h>
#include <signal.h>
#include <sys/vfs.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#elif defined(__APPLE__)
#include <mach/mach.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/param.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/sysctl.h>
#endif

/* ---- files ---- */

bool os_is_local(int fd) {
#if defined(__linux__)
    /* NFS, SMB, CIFS, SMB 2, FUSE, 9P, Ceph, Lustre, GPFS, AFS, OCFS 2, GFS 2 */
    static const uint32_t shared[] = {0x6969,     0x517b,     0xff534d42, 0xfe534d42,
                                      0x65735546, 0x01021997, 0x00c36400, 0x0bd00bd0,
                                      0x47504653, 0x5346414f, 0x7461636f, 0x01161970};
    struct statfs s;
    if (fstatfs(fd, &s) != 0) return false;
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++)
        if ((uint32_t)s.f_type == shared[i]) return false;
    return true;
#elif defined(__APPLE__)
    struct statfs s;
    return fstatfs(fd, &s) == 0 && s.f_flags & MNT_LOCAL;
#else
    (void)fd;
    return false;
#endif
}

#if defined(__linux__)
int os_insert_range(int fd, uint64_t at, uint64_t n) {
    return fallocate(fd, FALLOC_FL_INSERT_RANGE, (off_t)at, (off_t)n);
}
int os_remove_range(int fd, uint64_t at, uint64_t n) {
    return fallocate(fd, FALLOC_FL_COLLAPSE_RANGE, (off_t)at, (off_t)n);
}
int64_t os_next_hole(int fd, uint64_t at) {
    return lseek(fd, (off_t)at, SEEK_HOLE);
}
int64_t os_next_data(int fd, uint64_t at) {
    return lseek(fd, (off_t)at, SEEK_DATA);
}
bool os_lease(int fd) { /* SIGURG, which is ignored by default, instead of SIGIO */
    return fcntl(fd, F_SETSIG, SIGURG) == 0 && fcntl(fd, F_SETLEASE, F_WRLCK) == 0;
}
void os_end_lease(int fd) {
    (void)fcntl(fd, F_SETLEASE, F_UNLCK);
}
#endif

bool os_random(void *p, size_t n) {
    return getentropy(p, n) == 0;
}

/* ---- files ---- */

#if defined(__linux__)
#if !defined(RENAME_NOREPLACE) /* a C library without it, such as musl */
enum { RENAME_NOREPLACE = 1 };
static int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags) {
    return (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, flags);
}
#endif
int os_rename_new(const char *from, const char *to) {
    return renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE);
}
int os_reserve(int fd, uint64_t size) {
    return fallocate(fd, 0, 0, (off_t)size);
}
#elif defined(__APPLE__)
int os_rename_new(const char *from, const char *to) {
    if (renamex_np(from, to, RENAME_EXCL) == 0) return 0;
    if (errno == ENOTSUP) errno = ENOSYS;
    return -1;
}
int os_reserve(int fd, uint64_t size) {
    struct stat st;
    if (fstat(fd, &st) != 0) return -1;
    fstore_t f = {.fst_flags = F_ALLOCATEALL,
                  .fst_posmode = F_PEOFPOSMODE,
                  .fst_length = (off_t)size - st.st_size};
    if (fcntl(fd, F_PREALLOCATE, &f) != 0) {
        if (errno == ENOTSUP || errno == EINVAL) errno = ENOSYS;
        return -1;
    }
    return ftruncate(fd, (off_t)size);
}
#else
int os_rename_new(const char *from, const char *to) {
    if (link(from, to) == 0) return unlink(from);
    if (errno != EEXIST) errno = ENOSYS; /* the file system has no links */
    return -1;
}
int os_reserve(int fd, uint64_t size) {
    (void)fd, (void)size;
    errno = ENOSYS;
    return -1;
}
#endif

/* ---- processors ---- */

#if defined(__linux__)
_Static_assert(OS_CPUS == 8 * sizeof(cpu_set_t), "one bit per processor of a cpu_set_t");

int os_cpus(uint64_t cpus[OS_CPUS / 64]) {
    cpu_set_t set;
    int n = 0;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 0;
    for (int i = 0; i < OS_CPUS / 64; i++) cpus[i] = 0;
    for (int i = 0; i < OS_CPUS; i++)
        if (CPU_ISSET((size_t)i, &set)) cpus[i / 64] |= UINT64_C(1) << i % 64, n++;
    return n;
}
int os_n_cores(void) {
    return 0; /* os_cpus counts processors, /sys gives cores and speeds */
}
int os_big_cores(void) {
    return 0;
}
uint64_t os_free_memory(void) {
    FILE *f = os_fopen("/proc/meminfo", "r");
    if (!f) return 0;
    char line[256];
    unsigned long long kib = 0;
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %llu", &kib) == 1) break;
    fclose(f);
    return (uint64_t)kib * 1024;
}
void os_stay(pthread_t thread, const uint64_t cpus[OS_CPUS / 64]) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int i = 0; i < OS_CPUS; i++)
        if (cpus[i / 64] >> i % 64 & 1) CPU_SET((size_t)i, &set);
    (void)pthread_setaffinity_np(thread, sizeof set, &set);
}
int os_interleave(void *p, uint64_t n_bytes, const unsigned long *mask, unsigned long n) {
    enum { INTERLEAVE = 3 }; /* MPOL_INTERLEAVE of <linux/mempolicy.h> */
    return syscall(SYS_mbind, p, n_bytes, INTERLEAVE, mask, n + 1, 0u) ? errno : 0;
}
void os_give_up_rights(bool hide) {
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (hide) (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}
#elif defined(__APPLE__)
/* Returns the system's number of this name; 0: unknown. */
static int sysctl_int(const char *name) {
    int n = 0;
    size_t size = sizeof n;
    return sysctlbyname(name, &n, &size, NULL, 0) == 0 ? n : 0;
}
int os_n_cores(void) {
    return sysctl_int("hw.physicalcpu");
}
int os_big_cores(void) {
    return sysctl_int("hw.perflevel0.physicalcpu");
}
uint64_t os_free_memory(void) { /* free pages, and those that the system can reclaim */
    vm_statistics64_data_t v;
    mach_msg_type_number_t n = HOST_VM_INFO64_COUNT;
    if (host_statistics64(mach_host_self(), HOST_VM_INFO64, (host_info64_t)&v, &n) != KERN_SUCCESS)
        return 0;
    return ((uint64_t)v.free_count + v.inactive_count + v.purgeable_count) * os_page_bytes();
}
#else
int os_n_cores(void) {
    return 0;
}
int os_big_cores(void) {
    return 0;
}
uint64_t os_free_memory(void) {
    return 0;
}
#endif

int os_n_cpus(void) {
    const long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 0 : n > INT_MAX ? INT_MAX : (int)n;
}

#if defined(__x86_64__) && defined(__linux__)
bool os_use_tiles(void) { /* Linux grants their 8 KiB per thread only on request */
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, TILE_DATA = 18 };
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, TILE_DATA) == 0;
}
#else
bool os_use_tiles(void) {
    return false;
}
#endif
#if defined(__aarch64__) && defined(__linux__)
bool os_arm_dotprod(void) { /* bits as numbered by Linux */
    return getauxval(AT_HWCAP) & 1ul << 20;
}
bool os_arm_i8mm(void) {
    return getauxval(AT_HWCAP2) & 1ul << 13;
}
#elif defined(__aarch64__) && defined(__APPLE__)
bool os_arm_dotprod(void) {
    return sysctl_int("hw.optional.arm.FEAT_DotProd");
}
bool os_arm_i8mm(void) {
    return sysctl_int("hw.optional.arm.FEAT_I8MM");
}
#else
bool os_arm_dotprod(void) {
    return false;
}
bool os_arm_i8mm(void) {
    return false;
}
#endif
