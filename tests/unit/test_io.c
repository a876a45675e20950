// SPDX-License-Identifier: MIT
/* tests/unit/test_io.c - maps, reads, output files: disk failures, and files that must not remain
 * after them. The full disk is a 1 MiB tmpfs in a separate mount namespace if that is allowed
 * (otherwise skipped); everywhere, the file size limit simulates it. */
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/map.h"
#include "base/out.h"
#include "base/mem.h"
#include "tests/check.h"

static char dir[] = "/tmp/hone-io.XXXXXX";
static char path_buf[4][256];

static const char *in_dir(const char *name) { /* four results stay valid */
    static int turn;
    char *p = path_buf[turn++ % 4];
    snprintf(p, sizeof path_buf[0], "%s/%s", dir, name);
    return p;
}

static int n_entries(const char *d) {
    struct err e = {0};
    struct io_names all;
    CHECK_OK(io_list(&all, d, &e));
    int n = all.n;
    io_names_release(&all);
    return n;
}

static void check_content(const char *path, const char *want) {
    struct err e = {0};
    char *s = NULL;
    size_t len = 0;
    CHECK_OK(io_read_file(&s, &len, path, 1 << 20, &e));
    CHECK_EQ_STR(s, want);
    CHECK_EQ_I64(len, strlen(want));
    free(s);
}

static void test_whole_or_not_at_all(void) {
    struct err e = {0};
    struct out *o;
    const char *p = in_dir("a");
    CHECK_OK(out_open(&o, p, false, &e));
    CHECK_OK(out_write(o, "hello", 5, &e));
    CHECK_OK(out_pad(o, 0, &e));
    CHECK(!io_exists(p));
    CHECK_EQ_I64(n_entries(dir), 1); /* the temporary */
    out_close(o);
    CHECK_EQ_I64(n_entries(dir), 0);
    CHECK_OK(out_write_file(p, "one", 3, false, &e));
    check_content(p, "one");
    CHECK_ERR(out_open(&o, p, false, &e), ERR_USAGE, "use -f");
    CHECK(o == NULL);
    check_content(p, "one");
    chmod(p, 0640);
    CHECK_OK(out_write_file(p, "two", 3, true, &e));
    check_content(p, "two");
    struct stat st;
    CHECK(stat(p, &st) == 0 && (st.st_mode & 0777) == 0640); /* mode kept */
    CHECK_EQ_I64(n_entries(dir), 1);
    unlink(p);
    out_close(NULL);
}

static void test_appears_meanwhile(void) {
    struct err e = {0};
    struct out *o;
    const char *p = in_dir("race");
    CHECK_OK(out_open(&o, p, false, &e));
    CHECK_OK(out_write(o, "mine", 4, &e));
    CHECK_OK(out_write_file(p, "theirs", 6, false, &e));
    CHECK_ERR(out_commit(o, &e), ERR_USAGE, "created in the meantime");
    out_close(o);
    check_content(p, "theirs");
    unlink(p);
    CHECK_EQ_I64(n_entries(dir), 0);
}

static void test_large_and_random_writes(void) {
    struct err e = {0};
    struct out *o;
    const char *p = in_dir("big");
    size_t n = (3 << 20) + 17;
    uint8_t *want = xcalloc(n + 100, 1);
    for (size_t i = 0; i < n; i++) want[i] = (uint8_t)(i * 31 >> 3);
    CHECK_OK(out_open(&o, p, false, &e));
    size_t at = 0;
    for (size_t piece = 1; at < n; piece = piece * 3 + 1) { /* from 1 byte to more than the
                                                             * buffer */
        size_t k = n - at < piece ? n - at : piece;
        CHECK_OK(out_write(o, want + at, k, &e));
        at += k;
        if (at > 100) { /* overwrites bytes that are still buffered */
            memcpy(want + at - 50, "patched", 7);
            CHECK_OK(out_pwrite(o, "patched", 7, at - 50, &e));
        }
    }
    CHECK_OK(out_pad(o, 100, &e));
    CHECK_OK(out_commit(o, &e));
    out_close(o);
    struct map m;
    CHECK_OK(map_open(&m, p, &e));
    CHECK_EQ_I64(m.size, n + 100);
    map_drop(&m, 5000, 1 << 20);
    map_drop(&m, 0, UINT64_MAX);
    map_drop(&m, UINT64_MAX, 5);
    CHECK(m.size == n + 100 && memcmp(m.data, want, n + 100) == 0);
    map_close(&m);
    CHECK(m.data == NULL);
    unlink(p);
    free(want);
}

static void test_resize(void) {
    struct err e = {0};
    struct out *o;
    const char *p = in_dir("sized");
    CHECK_OK(out_open(&o, p, false, &e));
    CHECK_OK(out_resize(o, 10, &e));
    CHECK_OK(out_pwrite(o, "zz", 2, 8, &e));
    CHECK_OK(out_write(o, "aaaaaaaa", 8, &e));
    CHECK_ERR(out_resize(o, UINT64_MAX, &e), ERR_SYS, "too large");
    CHECK_ERR(out_resize(o, UINT64_C(1) << 60, &e), ERR_SYS, p);
    CHECK_OK(out_commit(o, &e));
    out_close(o);
    check_content(p, "aaaaaaaazz");
    unlink(p);
}

static void test_refused_targets(void) {
    struct err e = {0};
    struct out *o;
    CHECK_ERR(out_open(&o, dir, true, &e), ERR_USAGE, "folder");
    CHECK_ERR(out_open(&o, "", true, &e), ERR_USAGE, "names no file");
    CHECK_ERR(out_open(&o, "/tmp/x/", true, &e), ERR_USAGE, "names no file");
    CHECK_ERR(out_open(&o, "/dev/null", true, &e), ERR_USAGE, "not a regular file");
    CHECK_ERR(out_open(&o, in_dir("none/x"), true, &e), ERR_USAGE, "No such file");
    char *deep = xcalloc(6000, 1);
    memset(deep, 'd', 5999);
    CHECK_ERR(out_open(&o, deep, true, &e), ERR_USAGE, "too long");
    free(deep);
    const char *link = in_dir("link"), *file = in_dir("file");
    CHECK_OK(out_write_file(file, "old", 3, false, &e));
    CHECK(symlink(file, link) == 0);
    CHECK_ERR(out_open(&o, link, false, &e), ERR_USAGE, "use -f");
    CHECK_OK(out_write_file(link, "new", 3, true, &e)); /* the link's target is replaced */
    check_content(file, "new");
    struct stat st;
    CHECK(lstat(link, &st) == 0 && S_ISLNK(st.st_mode));
    unlink(file);
    CHECK_ERR(out_open(&o, link, true, &e), ERR_USAGE, "not a regular file"); /* dangling */
    unlink(link);
    CHECK_EQ_I64(n_entries(dir), 0);
}

static void test_unwritable_folder(void) {
    struct err e = {0};
    struct out *o;
    const char *d = in_dir("ro");
    CHECK(mkdir(d, 0555) == 0);
    if (geteuid() != 0)
        CHECK_ERR(out_open(&o, in_dir("ro/x"), false, &e), ERR_SYS, "Permission denied");
    CHECK_ERR(out_open(&o, "/proc/hone-test", false, &e), ERR_SYS, "cannot create /proc/hone-test");
    rmdir(d);
}

static void test_abort_all(void) {
    struct err e = {0};
    struct out *o[3];
    for (int i = 0; i < 3; i++) {
        char name[8];
        snprintf(name, sizeof name, "t%d", i);
        CHECK_OK(out_open(&o[i], in_dir(name), false, &e));
    }
    CHECK_OK(out_commit(o[1], &e));
    CHECK_EQ_I64(n_entries(dir), 3);
    out_abort_all();
    CHECK_EQ_I64(n_entries(dir), 1); /* the committed file stays */
    for (int i = 0; i < 3; i++) out_close(o[i]);
    unlink(in_dir("t1"));
    struct out *many[600];
    int n = 0, rc = 0;
    for (; n < 600 && !rc; n++) {
        char name[8];
        snprintf(name, sizeof name, "m%d", n);
        rc = out_open(&many[n], in_dir(name), false, &e);
    }
    CHECK_EQ_I64(rc, ERR_SYS);
    CHECK(strstr(e.msg, "output files are open") != NULL);
    while (n-- > 0) out_close(many[n]);
    CHECK_EQ_I64(n_entries(dir), 0);
}

/* Runs in a child process, since limits cannot be raised again. */
static void test_file_size_limit(void) {
    pid_t pid = fork();
    if (pid == 0) {
        struct err e = {0};
        struct out *o;
        struct rlimit lim = {100000, 100000};
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &lim);
        static char data[150000];
        CHECK_OK(out_open(&o, in_dir("limit"), false, &e));
        CHECK_OK(out_write(o, data, sizeof data, &e)); /* still in the buffer */
        CHECK_ERR(out_commit(o, &e), ERR_SYS, "free 50000 bytes or choose another folder");
        CHECK(!strstr(e.msg, "-o")); /* hone meta has no such option */
        out_close(o);
        CHECK_EQ_I64(n_entries(dir), 0);
        _exit(check_failed_here);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    CHECK_EQ_I64(status, 0);
}

static void test_full_disk(void) {
    pid_t pid = fork();
    if (pid == 0) {
        struct err e = {0};
        struct out *o;
        const char *d = in_dir("full");
        if (mkdir(d, 0755) != 0 || unshare(CLONE_NEWNS) != 0 ||
            mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
            mount("none", d, "tmpfs", 0, "size=1m") != 0)
            _exit(77);
        size_t n = 4 << 20;
        void *data = xcalloc(n, 1);
        CHECK_OK(out_open(&o, in_dir("full/x"), false, &e));
        CHECK_ERR(out_write(o, data, n, &e), ERR_SYS, "no space left on the device");
        CHECK(strstr(e.msg, "full/x") && strstr(e.msg, "choose another folder"));
        out_close(o);
        CHECK_OK(out_open(&o, in_dir("full/x"), false, &e));
        CHECK_ERR(out_resize(o, n, &e), ERR_SYS, "no space left"); /* detected before any work */
        out_close(o);
        CHECK_EQ_I64(n_entries(d), 0);
        CHECK_ERR(io_need_space(in_dir("full/new/y"), n, &e), ERR_SYS, "not enough space");
        CHECK(strstr(e.msg, "4194304 bytes needed, 1048576 free") != NULL);
        CHECK_OK(io_need_space(in_dir("full/y"), 1000, &e));
        free(data);
        umount(d);
        _exit(check_failed_here);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    rmdir(in_dir("full"));
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        fprintf(stderr, "note: no right to mount a small file system; full disk not tried\n");
    else
        CHECK_EQ_I64(status, 0);
}

static void test_inputs(void) {
    struct err e = {0};
    struct map m;
    char *s;
    size_t len;
    uint64_t size = 0;
    CHECK_ERR(map_open(&m, in_dir("none"), &e), ERR_USAGE, "No such file");
    CHECK_ERR(map_open(&m, dir, &e), ERR_USAGE, "is a folder");
    CHECK_ERR(map_open(&m, "/dev/null", &e), ERR_USAGE, "not a regular file");
    CHECK_ERR(io_read_file(&s, &len, dir, 10, &e), ERR_USAGE, "is a folder");
    const char *fifo = in_dir("fifo");
    CHECK(mkfifo(fifo, 0600) == 0);
    CHECK_ERR(map_open(&m, fifo, &e), ERR_USAGE, "not a regular file"); /* does not hang */
    unlink(fifo);
    map_close(&m);
    const char *p = in_dir("f");
    CHECK_OK(out_write_file(p, "", 0, false, &e));
    CHECK_OK(map_open(&m, p, &e));
    CHECK(m.data == NULL && m.size == 0);
    map_close(&m);
    check_content(p, "");
    CHECK_OK(out_write_file(p, "12345", 5, true, &e));
    check_content(p, "12345");
    CHECK_OK(io_file_size(p, &size, &e));
    CHECK_EQ_I64(size, 5);
    CHECK_OK(io_read_file(&s, &len, p, 5, &e));
    free(s);
    CHECK_ERR(io_read_file(&s, &len, p, 4, &e), ERR_DATA, "limit of 4 bytes");
    CHECK(s == NULL);
    CHECK_ERR(io_read_file(&s, &len, "/dev/zero", 100000, &e), ERR_DATA, "limit of 100000");
    CHECK_OK(io_read_file(&s, &len, "/proc/self/status", 1 << 20, &e)); /* reports size 0 */
    CHECK(len > 100);
    free(s);
    CHECK(io_exists(p) && !io_is_dir(p) && io_is_dir(dir) && !io_exists(in_dir("none")));
    CHECK_ERR(io_file_size(dir, &size, &e), ERR_USAGE, "not a regular");
    unlink(p);
}

static void test_there(void) {
    struct err e = {0};
    bool yes;
    const char *p = in_dir("f"), *loop = in_dir("loop"), *none = in_dir("none");
    CHECK_OK(out_write_file(p, "", 0, false, &e));
    CHECK(symlink("loop", loop) == 0);
    CHECK(io_there(&yes, p, &e) == 0 && yes && io_is_file(&yes, p, &e) == 0 && yes);
    CHECK(io_there(&yes, dir, &e) == 0 && yes && io_is_file(&yes, dir, &e) == 0 && !yes);
    CHECK(io_there(&yes, none, &e) == 0 && !yes && io_is_file(&yes, none, &e) == 0 && !yes);
    CHECK_ERR(io_there(&yes, loop, &e), ERR_SYS, "cannot examine");
    CHECK_ERR(io_is_file(&yes, loop, &e), ERR_SYS, "cannot examine");
    unlink(loop);
    unlink(p);
}

static void test_paths(void) {
    struct err e = {0};
    CHECK_OK(io_make_dir(in_dir("x/y//z"), &e));
    CHECK(io_is_dir(in_dir("x/y/z")));
    CHECK_OK(io_make_dir(in_dir("x/y/z/"), &e));
    CHECK_OK(out_write_file(in_dir("x/f"), "", 0, false, &e));
    CHECK_ERR(io_make_dir(in_dir("x/f"), &e), ERR_USAGE, "a file of that name");
    CHECK_ERR(io_make_dir(in_dir("x/f/g"), &e), ERR_USAGE, "a file of that name");
    unlink(in_dir("x/f"));
    rmdir(in_dir("x/y/z")), rmdir(in_dir("x/y")), rmdir(in_dir("x"));
    CHECK_ERR(io_need_space(in_dir("q"), UINT64_C(1) << 60, &e), ERR_SYS,
              "1152921504606846976 bytes needed");
    CHECK_OK(io_need_space("relative-name", 1, &e));
    CHECK_OK(io_need_space("/x", 1, &e));
    char *a = io_join("d", "f"), *b = io_join("d/", "f"), *c = io_join("", "f");
    CHECK_EQ_STR(a, "d/f");
    CHECK_EQ_STR(b, "d/f");
    CHECK_EQ_STR(c, "f");
    free(a), free(b), free(c);
    CHECK_EQ_STR(io_base("a/b/c.x"), "c.x");
    CHECK_EQ_STR(io_base("c.x"), "c.x");
    CHECK_EQ_STR(io_base("a/b\\c.x"), "b\\c.x"); /* a separator on Windows only */
}

static void test_short_names(void) {
    static const char *const path[] = {"a/x/t", "b/x/t", "a/x/t", "y/u", "z/u", "v", "w/only"},
                             *const want[] = {"1/x/t", "2/x/t", "1/x/t", "y/u", "z/u", "v", "only"};
    enum { N = COUNT_OF(path) };
    char *name[N];
    io_short_names(path, N, name);
    for (int i = 0; i < N; i++) {
        CHECK_EQ_STR(name[i], want[i]);
        free(name[i]);
    }
}

static void test_list(void) {
    static const char *const names[] = {"b", ".hidden", "a.gguf", "c", "a"};
    struct err e = {0};
    struct io_names all;
    for (size_t i = 0; i < COUNT_OF(names); i++)
        CHECK_OK(out_write_file(in_dir(names[i]), "x", 1, false, &e));
    CHECK_OK(io_list(&all, dir, &e));
    CHECK_EQ_I64(all.n, 5);
    static const char *const sorted[] = {".hidden", "a", "a.gguf", "b", "c"};
    for (int i = 0; i < all.n; i++) CHECK_EQ_STR(all.v[i], sorted[i]);
    io_names_release(&all);
    bool yes = false;
    CHECK_OK(io_is_file(&yes, in_dir("a"), &e));
    CHECK(yes);
    CHECK_OK(io_is_file(&yes, dir, &e));
    CHECK(!yes);
    CHECK(symlink("nothing", in_dir("dangling")) == 0);
    CHECK_OK(io_is_file(&yes, in_dir("dangling"), &e));
    CHECK(!yes);
    CHECK(unlink(in_dir("dangling")) == 0);
    CHECK(symlink("loop", in_dir("loop")) == 0);
    CHECK_ERR(io_is_file(&yes, in_dir("loop"), &e), ERR_SYS, "cannot examine");
    CHECK(unlink(in_dir("loop")) == 0);
    for (size_t i = 0; i < COUNT_OF(names); i++) CHECK(unlink(in_dir(names[i])) == 0);
    CHECK_ERR(io_list(&all, in_dir("none"), &e), ERR_USAGE, "cannot open");
}

int main(void) {
    if (!mkdtemp(dir)) return 1;
    RUN(test_whole_or_not_at_all);
    RUN(test_appears_meanwhile);
    RUN(test_large_and_random_writes);
    RUN(test_resize);
    RUN(test_refused_targets);
    RUN(test_unwritable_folder);
    RUN(test_abort_all);
    RUN(test_file_size_limit);
    RUN(test_full_disk);
    RUN(test_inputs);
    RUN(test_there);
    RUN(test_paths);
    RUN(test_short_names);
    RUN(test_list);
    rmdir(dir);
    return check_done();
}
