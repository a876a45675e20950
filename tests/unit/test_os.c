// SPDX-License-Identifier: MIT
/* tests/unit/test_os.c - portable replacements of Linux-specific calls: base/os.c,
 * base/os_bare.c and serve/poller.c as other systems compile them, along with the Linux versions;
 * and the calls of base/os.h, compared with the system's own. */
#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "serve/poller.h"
#include "tests/check.h"
#include "tests/unit/tmpdir.h"

/* The same functions under different names, without Linux's calls. */
#define os_random other_random
#define os_rename_new other_rename_new
#define os_reserve other_reserve
#define os_cpus other_cpus
#define os_big_cores other_big_cores
#define os_n_cores other_n_cores
#define os_n_cpus other_n_cpus
#define os_free_memory other_free_memory
#define os_use_tiles other_use_tiles
#define os_arm_dotprod other_arm_dotprod
#define os_arm_i8mm other_arm_i8mm
#define os_stay other_stay
#define os_interleave other_interleave
#define os_give_up_rights other_give_up_rights
#define os_is_local other_is_local
#define os_insert_range other_insert_range
#define os_remove_range other_remove_range
#define os_next_hole other_next_hole
#define os_next_data other_next_data
#define os_lease other_lease
#define os_end_lease other_end_lease
#define poller_new other_waits_new
#define poller_free other_waits_free
#define poller_set other_waits_set
#define poller_end other_waits_end
#define poller_get other_waits_get
bool os_random(void *p, size_t n);
int os_rename_new(const char *from, const char *to);
int os_reserve(int fd, uint64_t size);
int os_cpus(uint64_t cpus[OS_CPUS / 64]);
int os_big_cores(void);
int os_n_cores(void);
int os_n_cpus(void);
uint64_t os_free_memory(void);
bool os_use_tiles(void);
bool os_arm_dotprod(void);
bool os_arm_i8mm(void);
void os_stay(pthread_t thread, const uint64_t cpus[OS_CPUS / 64]);
int os_interleave(void *p, uint64_t n_bytes, const unsigned long *mask, unsigned long n);
void os_give_up_rights(bool hide);
bool os_is_local(int fd);
int os_insert_range(int fd, uint64_t at, uint64_t n);
int os_remove_range(int fd, uint64_t at, uint64_t n);
int64_t os_next_hole(int fd, uint64_t at);
int64_t os_next_data(int fd, uint64_t at);
bool os_lease(int fd);
void os_end_lease(int fd);
struct poller *poller_new(void);
void poller_free(struct poller *w);
int poller_set(struct poller *w, int fd, unsigned events, void *what);
void poller_end(struct poller *w, int fd);
int poller_get(struct poller *w, struct wait_event *ev, int room, int ms);
#undef __linux__
#include "base/os.c"
#include "base/os_bare.c"
#include "serve/poller.c"
#undef os_rename_new
#undef os_reserve
#undef os_random
#undef os_cpus
#undef poller_new
#undef poller_free
#undef poller_set
#undef poller_end
#undef poller_get

static void test_descriptors(void) {
    int fd[2];
    char c;
    CHECK_EQ_I64(os_wake_new(fd), 0);
    for (int i = 0; i < 2; i++) {
        CHECK(fcntl(fd[i], F_GETFD) & FD_CLOEXEC);
        CHECK(fcntl(fd[i], F_GETFL) & O_NONBLOCK);
    }
    CHECK(read(fd[0], &c, 1) == -1 && errno == EAGAIN);
    for (int i = 0; i < 1 << 17; i++) os_wake(fd[1]); /* more than a pipe holds */
    CHECK(read(fd[0], &c, 1) == 1);
    os_wake_clear(fd[0]);
    CHECK(read(fd[0], &c, 1) == -1 && errno == EAGAIN);
    os_wake_free(fd);
    CHECK(fcntl(fd[0], F_GETFD) == -1 && fcntl(fd[1], F_GETFD) == -1);
    uint64_t a[4] = {0}, b[4] = {0};
    CHECK(os_random(a, sizeof a) && os_random(b, sizeof b));
    CHECK(memcmp(a, b, sizeof a) != 0);
}

static void test_rename(int (*rename_new)(const char *, const char *), bool may_refuse) {
    char from[128];
    snprintf(from, sizeof from, "%s", tmp_write("from", "new", 3));
    const char *to = tmp_write("to", "old", 3);
    struct stat st;
    CHECK(rename_new(from, to) == -1 && errno == EEXIST);
    CHECK(stat(from, &st) == 0 && stat(to, &st) == 0);
    unlink(to);
    const int rc = rename_new(from, to);
    CHECK(rc == 0 || (may_refuse && (errno == ENOSYS || errno == EINVAL)));
    if (rc == 0) CHECK(stat(from, &st) == -1 && stat(to, &st) == 0 && st.st_size == 3);
    CHECK(rename_new("/nowhere/a", "/nowhere/b") == -1);
}
static void test_renames(void) {
    test_rename(os_rename_new, true);
    test_rename(other_rename_new, false);
    CHECK(other_reserve(0, 1) == -1 && errno == ENOSYS); /* base/out.c ignores this */
    CHECK(other_insert_range(0, 0, 4096) == -1 && errno == ENOSYS);
    CHECK(other_remove_range(0, 0, 4096) == -1 && errno == ENOSYS);
    CHECK(other_next_hole(0, 0) == -1 && other_next_data(0, 0) == -1 && !other_lease(0));
    other_end_lease(0);
    uint64_t cpus[OS_CPUS / 64];
    CHECK(other_cpus(cpus) == 0 && os_cpus(cpus) > 0);
}

/* Compares the state of a path with what stat reports. */
static void test_state(const char *path, enum os_kind kind) {
    struct stat st;
    struct os_stat o;
    CHECK(lstat(path, &st) == 0 && os_lstat(path, &o) == 0 && o.kind == kind);
    CHECK(o.size == (uint64_t)st.st_size && o.ino == st.st_ino && o.dev == st.st_dev);
    CHECK(o.mode == (st.st_mode & 07777) && o.uid == st.st_uid && o.n_links == st.st_nlink);
    CHECK(o.mtime_s == st.st_mtim.tv_sec && o.mtime_ns == st.st_mtim.tv_nsec);
    CHECK(o.ctime_s == st.st_ctim.tv_sec && o.ctime_ns == st.st_ctim.tv_nsec);
    CHECK(o.stored == (uint64_t)st.st_blocks * 512);
}
static void test_files(void) {
    char path[128], link[160], fifo[160], c[4] = "";
    struct os_stat a, b;
    snprintf(path, sizeof path, "%s", tmp_write("door", "text", 4));
    snprintf(link, sizeof link, "%s.link", path);
    snprintf(fifo, sizeof fifo, "%s.fifo", path);
    CHECK(os_symlink(path, link) == 0 && mkfifo(fifo, 0600) == 0);
    test_state(path, OS_FILE);
    test_state(link, OS_LINK);
    test_state(fifo, OS_PIPE);
    test_state("/", OS_FOLDER);
    test_state("/dev/null", OS_OTHER);
    CHECK(os_stat(path, &a) == 0 && os_stat(link, &b) == 0 && os_same_file(&a, &b));
    CHECK(os_stat("/nowhere/a", &a) == -1 && errno == ENOENT && !os_exists("/nowhere/a"));
    CHECK(os_open(link, OS_READ | OS_NO_LINK, 0) == -1 && errno == ELOOP);
    CHECK(os_open(path, OS_WRITE | OS_NEW, 0600) == -1 && errno == EEXIST);
    CHECK(os_open(path, OS_READ | OS_DIR, 0) == -1 && errno == ENOTDIR);
    int fd = os_open(fifo, OS_WRITE | OS_NO_WAIT, 0); /* would wait for a reader */
    CHECK(fd == -1 && errno == ENXIO);
    fd = os_open(path, OS_READ | OS_WRITE | OS_CREATE, 0600);
    CHECK(fd >= 0 && (fcntl(fd, F_GETFD) & FD_CLOEXEC));
    CHECK(os_pwrite(fd, "xy", 2, 6) == 2 && os_pread(fd, c, 4, 4) == 4 && !memcmp(c, "\0\0xy", 4));
    CHECK(os_truncate(fd, 3) == 0 && os_sync(fd) == 0 && os_sync_data(fd) == 0);
    const int other = os_open(path, OS_READ | OS_WRITE, 0);
    CHECK(os_lock(fd, false) == 0 && os_lock(other, false) == -1 && errno == EWOULDBLOCK);
    CHECK(os_close(fd) == 0 && os_lock(other, true) == 0);
    const char *map = os_map(other, 3);
    CHECK(map && memcmp(map, "tex", 3) == 0);
    os_close(other);
    CHECK(os_fstat(other, &a) == -1 && errno == EBADF);
}

static volatile sig_atomic_t n_heard;
static void hear(int sig) {
    (void)sig;
    n_heard++;
}

/* Checks that a lost terminal, which sends SIGHUP more than once, interrupts once, and not under
 * nohup. */
static void test_hangup(void) {
    signal(SIGHUP, SIG_DFL);
    const os_handler old = os_on_interrupt(hear);
    raise(SIGHUP);
    raise(SIGHUP);
    CHECK_EQ_I64(n_heard, 1);
    raise(SIGTERM);
    CHECK_EQ_I64(n_heard, 2);
    signal(SIGHUP, SIG_IGN);
    (void)os_on_interrupt(hear);
    raise(SIGHUP);
    CHECK_EQ_I64(n_heard, 2);
    signal(SIGHUP, SIG_DFL);
    (void)os_on_interrupt(old);
    signal(SIGHUP, SIG_DFL);
}

struct way {
    struct poller *(*make)(void);
    void (*end)(struct poller *);
    int (*set)(struct poller *, int, unsigned, void *);
    void (*leave)(struct poller *, int);
    int (*get)(struct poller *, struct wait_event *, int, int);
};
static void test_way(const struct way *y) {
    enum { PAIRS = 20 };
    int fd[PAIRS][2];
    struct wait_event ev[2 * PAIRS];
    struct poller *w = y->make();
    char c;
    CHECK(w && y->get(w, ev, 1, 0) == 0);
    for (int i = 0; i < PAIRS; i++) {
        CHECK_EQ_I64(socketpair(AF_UNIX, SOCK_STREAM, 0, fd[i]), 0);
        CHECK_EQ_I64(y->set(w, fd[i][0], WAIT_IN, fd[i]), 0);
    }
    CHECK_EQ_I64(y->get(w, ev, 4, 0), 0);
    CHECK(write(fd[3][1], "x", 1) == 1 && write(fd[17][1], "x", 1) == 1);
    CHECK_EQ_I64(y->get(w, ev, 2 * PAIRS, 1000), 2);
    CHECK((ev[0].what == fd[3] && ev[1].what == fd[17]) ||
          (ev[1].what == fd[3] && ev[0].what == fd[17]));
    CHECK(ev[0].is == WAIT_IN && ev[1].is == WAIT_IN);
    void *first = NULL; /* room for one event: both descriptors take turns */
    for (int i = 0; i < 2; i++) {
        CHECK_EQ_I64(y->get(w, ev, 1, 0), 1);
        CHECK(i == 0 || ev[0].what != first);
        first = ev[0].what;
    }
    y->leave(w, fd[3][0]);
    CHECK(y->get(w, ev, 2 * PAIRS, 0) == 1 && ev[0].what == fd[17]);
    CHECK_EQ_I64(y->set(w, fd[17][0], WAIT_OUT, fd[17]), 0); /* replaces WAIT_IN */
    CHECK(y->get(w, ev, 2 * PAIRS, 0) == 1 && ev[0].is == WAIT_OUT);
    CHECK_EQ_I64(y->set(w, fd[17][0], 0, fd[17]), 0);
    CHECK_EQ_I64(y->get(w, ev, 2 * PAIRS, 0), 0);
    CHECK_EQ_I64(shutdown(fd[5][1], SHUT_WR), 0); /* a client closes its side */
    CHECK(y->get(w, ev, 2 * PAIRS, 0) == 1 && ev[0].what == fd[5] && (ev[0].is & WAIT_LEFT));
    CHECK(read(fd[5][0], &c, 1) == 0);
    close(fd[5][1]);
    CHECK(y->get(w, ev, 2 * PAIRS, 0) == 1 && (ev[0].is & WAIT_DEAD));
    for (int i = 0; i < PAIRS; i++) {
        y->leave(w, fd[i][0]);
        close(fd[i][0]);
        if (i != 5) close(fd[i][1]);
    }
    CHECK_EQ_I64(y->get(w, ev, 2 * PAIRS, 0), 0);
    y->end(w);
}
static void test_waits(void) {
    test_way(&(struct way){poller_new, poller_free, poller_set, poller_end, poller_get});
    test_way(&(struct way){other_waits_new, other_waits_free, other_waits_set, other_waits_end,
                           other_waits_get});
}

int main(void) {
    tmp_make();
    RUN(test_descriptors);
    RUN(test_renames);
    RUN(test_files);
    RUN(test_hangup);
    RUN(test_waits);
    tmp_remove();
    return check_done();
}
