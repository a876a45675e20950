// SPDX-License-Identifier: MIT
/* base/os_file.c - files, folders and memory of POSIX systems. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "base/mem.h"
#include "base/num.h"
#include "base/os.h"

#if defined(__APPLE__) /* names that POSIX.1-2008 has and macOS lacks */
#define st_mtim st_mtimespec
#define st_ctim st_ctimespec
#endif

/* ---- state ---- */

/* Copies what hone uses of the system's struct. Returns 0. */
static int fill_stat(struct os_stat *out, const struct stat *st) {
    *out = (struct os_stat){
        .kind = S_ISREG(st->st_mode)    ? OS_FILE
                : S_ISDIR(st->st_mode)  ? OS_FOLDER
                : S_ISLNK(st->st_mode)  ? OS_LINK
                : S_ISFIFO(st->st_mode) ? OS_PIPE
                                        : OS_OTHER,
        .mode = (unsigned)st->st_mode & 07777,
        .uid = (unsigned)st->st_uid,
        .size = st->st_size > 0 ? (uint64_t)st->st_size : 0,
        .n_links = (uint64_t)st->st_nlink,
        .stored = (uint64_t)st->st_blocks * 512,
        .dev = (uint64_t)st->st_dev,
        .ino = (uint64_t)st->st_ino,
        .mtime_s = (int64_t)st->st_mtim.tv_sec,
        .ctime_s = (int64_t)st->st_ctim.tv_sec,
        .mtime_ns = (long)st->st_mtim.tv_nsec,
        .ctime_ns = (long)st->st_ctim.tv_nsec,
    };
    return 0;
}
int os_stat(const char *path, struct os_stat *st) {
    struct stat s;
    return stat(path, &s) == 0 ? fill_stat(st, &s) : -1;
}
int os_lstat(const char *path, struct os_stat *st) {
    struct stat s;
    return lstat(path, &s) == 0 ? fill_stat(st, &s) : -1;
}
int os_fstat(int fd, struct os_stat *st) {
    struct stat s;
    return fstat(fd, &s) == 0 ? fill_stat(st, &s) : -1;
}
bool os_exists(const char *path) {
    return access(path, F_OK) == 0;
}
unsigned os_uid(void) {
    return (unsigned)geteuid();
}

/* ---- contents ---- */

int os_open(const char *path, int how, unsigned mode) {
    static const struct {
        int how, flag;
    } list[] = {{OS_CREATE, O_CREAT},  {OS_NEW, O_CREAT | O_EXCL}, {OS_EMPTY, O_TRUNC},
                {OS_APPEND, O_APPEND}, {OS_NO_LINK, O_NOFOLLOW},   {OS_NO_WAIT, O_NONBLOCK},
                {OS_DIR, O_DIRECTORY}};
    int flags = !(how & OS_WRITE) ? O_RDONLY : how & OS_READ ? O_RDWR : O_WRONLY;
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (how & list[i].how) flags |= list[i].flag;
    return open(path, flags | O_CLOEXEC | O_NOCTTY, (mode_t)mode);
}
int os_close(int fd) {
    return close(fd);
}
FILE *os_fopen(const char *path, const char *mode) {
    char how[8]; /* with "e", where the C library knows it, no program can start in between */
    snprintf(how, sizeof how, "%se", mode);
    FILE *f = fopen(path, how);
    if (f) (void)fcntl(fileno(f), F_SETFD, FD_CLOEXEC);
    return f;
}
int64_t os_read(int fd, void *p, size_t n) {
    return read(fd, p, n);
}
int64_t os_write(int fd, const void *p, size_t n) {
    return write(fd, p, n);
}
int64_t os_pread(int fd, void *p, size_t n, uint64_t at) {
    return pread(fd, p, n, (off_t)at);
}
int64_t os_pwrite(int fd, const void *p, size_t n, uint64_t at) {
    return pwrite(fd, p, n, (off_t)at);
}
int os_truncate(int fd, uint64_t size) {
    return ftruncate(fd, (off_t)size);
}
int os_set_wait(int fd) {
    return fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
}
int os_dup(int fd) {
    return dup(fd);
}
#if defined(__APPLE__)
int os_sync(int fd) { /* fsync leaves the bytes in the disk's cache */
    return fcntl(fd, F_FULLFSYNC) == 0 ? 0 : fsync(fd);
}
int os_sync_data(int fd) {
    return os_sync(fd);
}
#else
int os_sync(int fd) {
    return fsync(fd);
}
int os_sync_data(int fd) {
    return fdatasync(fd);
}
#endif
int os_lock(int fd, bool wait) {
    return flock(fd, wait ? LOCK_EX : LOCK_EX | LOCK_NB);
}
bool os_uncache(int fd, uint64_t at, uint64_t n) {
#ifdef POSIX_FADV_DONTNEED
    return posix_fadvise(fd, (off_t)at, (off_t)n, POSIX_FADV_DONTNEED) == 0;
#else
    (void)fd, (void)at, (void)n;
    return false;
#endif
}

/* ---- names ---- */

int os_unlink(const char *path) {
    return unlink(path);
}
int os_rename(const char *from, const char *to) {
    return rename(from, to);
}
int os_link(const char *from, const char *to) {
    return link(from, to);
}
int os_symlink(const char *to, const char *path) {
    return symlink(to, path);
}
int os_mkdir(const char *path, unsigned mode) {
    return mkdir(path, (mode_t)mode);
}
int os_rmdir(const char *path) {
    return rmdir(path);
}
int os_chmod(const char *path, unsigned mode) {
    return chmod(path, (mode_t)mode);
}
int os_fchmod(int fd, unsigned mode) {
    return fchmod(fd, (mode_t)mode);
}
int os_touch(const char *path) {
    return utimensat(AT_FDCWD, path, NULL, 0);
}
char *os_mkdtemp(char *path) {
    return mkdtemp(path);
}
int os_mkstemp(char *path) {
    return mkstemp(path);
}
char *os_real(const char *path) {
    char real[PATH_MAX];
    return realpath(path, real) ? xstrdup(real) : NULL;
}

/* ---- folders and file systems ---- */

const char *os_temp_dir(void) {
    return "/tmp";
}
bool os_can_be_name(const char *path) {
    (void)path;
    return true;
}
bool os_is_absolute(const char *path) {
    return *path == '/';
}

struct os_dir {
    DIR *d;
};
struct os_dir *os_dir_open(const char *path) {
    DIR *d = opendir(path);
    if (!d) return NULL;
    struct os_dir *out = xmalloc(sizeof *out);
    out->d = d;
    return out;
}
const char *os_dir_next(struct os_dir *d) {
    for (;;) {
        errno = 0; /* NULL means the end or an error */
        const struct dirent *de = readdir(d->d);
        if (!de && errno == EINTR) continue;
        return de ? de->d_name : NULL;
    }
}
void os_dir_close(struct os_dir *d) {
    if (d) closedir(d->d);
    free(d);
}
int os_free_space(const char *path, uint64_t *n_bytes) {
    struct statvfs v;
    if (statvfs(path, &v) != 0) return -1;
    if (!mul_ok(v.f_bavail, v.f_frsize, n_bytes)) *n_bytes = UINT64_MAX;
    return 0;
}
int os_block_size(int fd, uint64_t *n_bytes) {
    struct statvfs v;
    if (fstatvfs(fd, &v) != 0) return -1;
    *n_bytes = (uint64_t)v.f_bsize;
    return 0;
}

/* ---- memory ---- */

void *os_map(int fd, uint64_t n) {
    void *p = mmap(NULL, (size_t)n, PROT_READ, MAP_SHARED, fd, 0);
    return p == MAP_FAILED ? NULL : p;
}
void os_unmap(void *p, uint64_t n) {
    munmap(p, (size_t)n);
}
void os_map_drop(void *p, uint64_t n) {
    (void)madvise(p, (size_t)n, MADV_DONTNEED);
}
void *os_pages_new(uint64_t n) {
    void *p = mmap(NULL, (size_t)n, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}
void os_pages_huge(void *p, uint64_t n) {
#ifdef MADV_HUGEPAGE
    (void)madvise(p, (size_t)n, MADV_HUGEPAGE);
#else
    (void)p, (void)n;
#endif
}
void os_pages_free(void *p, uint64_t n) {
    munmap(p, (size_t)n);
}
uint64_t os_page_bytes(void) {
    return (uint64_t)sysconf(_SC_PAGESIZE);
}
void *os_aligned(size_t align, size_t n) {
    void *p = NULL;
    return posix_memalign(&p, align, n) == 0 ? p : NULL;
}
void os_aligned_free(void *p) {
    free(p);
}

#ifdef __GLIBC__
void os_heap_give_back(void) { /* setting the threshold keeps it from growing dynamically */
    (void)mallopt(M_MMAP_THRESHOLD, 64 << 10);
    (void)mallopt(M_ARENA_MAX, 2);
}
void os_heap_trim(void) {
    (void)malloc_trim(0);
}
#else
void os_heap_give_back(void) {
}
void os_heap_trim(void) {
}
#endif
