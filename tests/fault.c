// SPDX-License-Identifier: MIT
/* tests/fault.c - failing system and library calls, for tests/faults.sh.
 *
 * The linker's --wrap (FAULT_WRAP in the Makefile) redirects every such call in our code to a
 * function below; the program's sources are unchanged. The environment controls it:
 *
 *   HONE_FAULT="KIND N EFFECT"   N counts calls of the kind from 1. EFFECT: an errno name (that
 * call fails), the name and '+' (that call and all later ones fail, as on a full disk), "short"
 * (half of the request is read or written), "int", "term", "kill" (the signal arrives before the
 * call); "cut", "touch" (HONE_FAULT_FILE loses its second half, or gets a new time).
 *
 *   HONE_FAULT_LOG=FILE          appended at exit: the number of calls of each kind. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/attr.h"

enum kind { ALLOC, OPEN, STAT, READ, WRITE, SYNC, RENAME, MAP, THREAD, ANY, N_KINDS };
static const char *const kind_name[N_KINDS] = {"alloc", "open",   "stat", "read",   "write",
                                               "sync",  "rename", "map",  "thread", "any"};
static const struct {
    const char *name;
    int error;
} errors[] = {{"ENOMEM", ENOMEM}, {"ENOSPC", ENOSPC}, {"EIO", EIO},       {"EACCES", EACCES},
              {"EMFILE", EMFILE}, {"EINTR", EINTR},   {"EAGAIN", EAGAIN}, {"EDQUOT", EDQUOT}};

static atomic_long count[N_KINDS];
static bool armed; /* main has begun: what the CUDA runtime does before is not ours */
static struct {
    enum kind kind;
    long at;
    int error, signal;
    bool sticky, is_short, cut, touch, on;
} plan;

/* The first use is before main, so everything is read lazily and only once. */
static void __attribute__((constructor)) read_plan(void) {
    const char *s = getenv("HONE_FAULT");
    char kind[16], effect[16];
    if (!s || sscanf(s, "%15s %ld %15s", kind, &plan.at, effect) != 3) return;
    size_t n = strlen(effect);
    if (n && effect[n - 1] == '+') plan.sticky = true, effect[n - 1] = 0;
    plan.kind = N_KINDS;
    for (int i = 0; i < N_KINDS; i++)
        if (strcmp(kind, kind_name[i]) == 0) plan.kind = (enum kind)i;
    for (size_t i = 0; i < COUNT_OF(errors); i++)
        if (strcmp(effect, errors[i].name) == 0) plan.error = errors[i].error;
    plan.is_short = strcmp(effect, "short") == 0;
    plan.signal = strcmp(effect, "int") == 0    ? SIGINT
                  : strcmp(effect, "term") == 0 ? SIGTERM
                  : strcmp(effect, "kill") == 0 ? SIGKILL
                                                : 0;
    plan.cut = strcmp(effect, "cut") == 0;
    plan.touch = strcmp(effect, "touch") == 0;
    bool known = plan.error || plan.is_short || plan.signal || plan.cut || plan.touch;
    plan.on = plan.kind != N_KINDS && known;
    if (plan.on) return;
    fprintf(stderr, "HONE_FAULT: \"%s\" is no plan\n", s);
    _exit(99);
}

static void __attribute__((destructor)) write_log(void) {
    const char *path = getenv("HONE_FAULT_LOG");
    FILE *f = path ? fopen(path, "a") : NULL;
    if (!f) return;
    for (int i = 0; i < N_KINDS; i++) fprintf(f, "%s %ld\n", kind_name[i], (long)count[i]);
    fclose(f);
}

int __real_main(int argc, char **argv);
int __wrap_main(int argc, char **argv);
int __wrap_main(int argc, char **argv) {
    armed = true;
    return __real_main(argc, argv);
}

static bool hits(enum kind kind) {
    if (!armed) return false;
    long n = atomic_fetch_add(&count[kind], 1) + 1;
    return plan.on && plan.kind == kind && (n == plan.at || (plan.sticky && n > plan.at));
}

int __real_stat(const char *path, struct stat *st);
static void change_file(void) {
    const char *path = getenv("HONE_FAULT_FILE");
    struct stat st;
    static const struct timespec then[2] = {{1000000000, 0}, {1000000000, 0}};
    if (!path || __real_stat(path, &st) != 0) _exit(99);
    if (plan.cut && truncate(path, st.st_size / 2) != 0) _exit(99);
    if (plan.touch && utimensat(AT_FDCWD, path, then, 0) != 0) _exit(99);
}

/* True: the call is to fail, and errno is set. `n` may be halved. */
static bool fails(enum kind kind, size_t *n) {
    bool any = hits(ANY), hit = hits(kind) || any;
    if (!hit) return false;
    if (plan.signal) raise(plan.signal);
    if (plan.cut || plan.touch) change_file();
    if (plan.is_short && n && *n > 1) *n /= 2;
    if (!plan.error) return false;
    errno = plan.error;
    return true;
}

#define WRAP(ret, name, ...)                                                                       \
    ret __real_##name(__VA_ARGS__);                                                                \
    ret __wrap_##name(__VA_ARGS__);                                                                \
    ret __wrap_##name(__VA_ARGS__)

WRAP(void *, malloc, size_t n) {
    return fails(ALLOC, NULL) ? NULL : __real_malloc(n);
}
WRAP(void *, calloc, size_t n, size_t size) {
    return fails(ALLOC, NULL) ? NULL : __real_calloc(n, size);
}
WRAP(void *, realloc, void *p, size_t n) {
    return fails(ALLOC, NULL) ? NULL : __real_realloc(p, n);
}
WRAP(int, posix_memalign, void **p, size_t align, size_t n) {
    return fails(ALLOC, NULL) ? ENOMEM : __real_posix_memalign(p, align, n);
}
WRAP(int, open, const char *path, int flags, mode_t mode) {
    return fails(OPEN, NULL) ? -1 : __real_open(path, flags, mode);
}
WRAP(FILE *, fopen, const char *path, const char *mode) {
    return fails(OPEN, NULL) ? NULL : __real_fopen(path, mode);
}
WRAP(DIR *, opendir, const char *path) {
    return fails(OPEN, NULL) ? NULL : __real_opendir(path);
}
WRAP(int, mkdir, const char *path, mode_t mode) {
    return fails(OPEN, NULL) ? -1 : __real_mkdir(path, mode);
}
WRAP(int, stat, const char *path, struct stat *st) {
    return fails(STAT, NULL) ? -1 : __real_stat(path, st);
}
WRAP(int, lstat, const char *path, struct stat *st) {
    return fails(STAT, NULL) ? -1 : __real_lstat(path, st);
}
WRAP(int, fstat, int fd, struct stat *st) {
    return fails(STAT, NULL) ? -1 : __real_fstat(fd, st);
}
WRAP(int, statvfs, const char *path, struct statvfs *st) {
    return fails(STAT, NULL) ? -1 : __real_statvfs(path, st);
}
WRAP(char *, realpath, const char *path, char *out) {
    return fails(STAT, NULL) ? NULL : __real_realpath(path, out);
}
WRAP(ssize_t, read, int fd, void *p, size_t n) {
    return fails(READ, &n) ? -1 : __real_read(fd, p, n);
}
WRAP(ssize_t, pread, int fd, void *p, size_t n, off_t off) {
    return fails(READ, &n) ? -1 : __real_pread(fd, p, n, off);
}
WRAP(struct dirent *, readdir, DIR *d) {
    return fails(READ, NULL) ? NULL : __real_readdir(d);
}
WRAP(ssize_t, pwrite, int fd, const void *p, size_t n, off_t off) {
    return fails(WRITE, &n) ? -1 : __real_pwrite(fd, p, n, off);
}
WRAP(int, fallocate, int fd, int mode, off_t off, off_t n) {
    return fails(WRITE, NULL) ? -1 : __real_fallocate(fd, mode, off, n);
}
WRAP(int, ftruncate, int fd, off_t n) {
    return fails(WRITE, NULL) ? -1 : __real_ftruncate(fd, n);
}
WRAP(int, fflush, FILE *f) {
    return fails(WRITE, NULL) ? EOF : __real_fflush(f);
}
WRAP(int, close, int fd) {
    bool failed = fails(SYNC, NULL); /* the descriptor is gone all the same, as on Linux */
    int error = errno, rc = __real_close(fd);
    if (!failed) return rc;
    errno = error;
    return -1;
}
WRAP(int, fsync, int fd) {
    return fails(SYNC, NULL) ? -1 : __real_fsync(fd);
}
WRAP(int, rename, const char *from, const char *to) {
    return fails(RENAME, NULL) ? -1 : __real_rename(from, to);
}
WRAP(int, renameat2, int dir, const char *from, int dir2, const char *to, unsigned flags) {
    return fails(RENAME, NULL) ? -1 : __real_renameat2(dir, from, dir2, to, flags);
}
WRAP(int, unlink, const char *path) {
    return fails(RENAME, NULL) ? -1 : __real_unlink(path);
}
WRAP(void *, mmap, void *at, size_t n, int prot, int flags, int fd, off_t off) {
    return fails(MAP, NULL) ? MAP_FAILED : __real_mmap(at, n, prot, flags, fd, off);
}
WRAP(int, pthread_create, pthread_t *t, const pthread_attr_t *a, void *(*fn)(void *), void *ctx) {
    return fails(THREAD, NULL) ? errno : __real_pthread_create(t, a, fn, ctx);
}
