// SPDX-License-Identifier: MIT
/* tests/unit/test_gguf_edit.c - in-place replacement of a GGUF key: which bytes are written, which
 * are not, and the file's state if the process is killed at any single step. */
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "containers/gguf.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/out.h"
#include "base/mem.h"
#include "tests/check.h"

static struct err e;
static char dir[] = "/tmp/hone-edit-XXXXXX", path[100], journal[120];
static const char key[] = "tokenizer.chat_template";

static char *text_of(char c, size_t n) {
    char *s = xmalloc(n + 1);
    memset(s, c, n);
    s[n] = 0;
    return s;
}

/* Writes a file with one tensor of n_rows * 32 F32 values, keys before and after the edited one,
 * and `slack` bytes of padding. */
static void make(size_t n_text, size_t slack, uint32_t align) {
    struct gguf_w *w = gguf_w_new();
    char *t = text_of('a', n_text), *pad = text_of(' ', slack);
    int64_t ne[2] = {32, 500};
    static float data[32 * 500];
    for (size_t i = 0; i < 32 * 500; i++) data[i] = (float)i;
    gguf_w_str(w, "general.architecture", "test");
    if (align) gguf_w_u32(w, "general.alignment", align);
    gguf_w_str(w, key, t);
    if (slack) gguf_w_str(w, "hone.padding", pad);
    gguf_w_u32(w, "after", 7);
    CHECK_OK(gguf_w_tensor(w, "x", QT_F32, 2, ne, &e));
    CHECK_OK(gguf_w_begin(w, path, true, &e));
    CHECK_OK(gguf_w_data(w, data, sizeof data, &e));
    CHECK_OK(gguf_w_commit(w, &e));
    gguf_w_free(w);
    free(t);
    free(pad);
}

/* Checks that the file opens strictly and that everything except the key is unchanged. Returns the
 * key's first character, its length in *n. */
static char look(size_t *n) {
    struct gguf *g;
    const char *s;
    char c = 0;
    *n = 0;
    CHECK_OK(gguf_open(&g, path, 0, &e));
    if (!g) return 0;
    CHECK_EQ_I64((int64_t)gguf_u64_or(g, "after", 0), 7);
    CHECK_EQ_STR(gguf_str_or(g, "general.architecture", ""), "test");
    const struct gguf_tensor *x = gguf_find_tensor(g, "x");
    CHECK(x && x->n_bytes == sizeof(float) * 32 * 500);
    for (size_t i = 0; x && i < 32 * 500; i++) {
        float v;
        memcpy(&v, x->data + 4 * i, 4);
        if (v != (float)i) {
            CHECK_FAIL("weight %zu is %g", i, (double)v);
            break;
        }
    }
    CHECK_OK(gguf_get_str(g, key, &s, &e));
    *n = strlen(s);
    c = s[0];
    for (size_t i = 0; i < *n; i++) CHECK(s[i] == c);
    gguf_close(g);
    return c;
}

static void edit(size_t n_text, bool in_place) {
    struct gguf_edit how;
    char *t = text_of('b', n_text);
    struct stat before, after;
    size_t n;
    CHECK(stat(path, &before) == 0);
    CHECK_OK(gguf_edit_str(path, key, t, n_text, &how, &e));
    /* A file system that can insert blocks makes room; on others the file is rewritten. */
    CHECK_EQ_I64(how.in_place && !how.n_room, in_place);
    CHECK(stat(path, &after) == 0);
    CHECK_EQ_I64(before.st_ino == after.st_ino, how.in_place);
    if (how.in_place) CHECK_EQ_I64(before.st_size + (int64_t)how.n_room, after.st_size);
    CHECK_EQ_I64(look(&n), 'b');
    CHECK_EQ_I64((int64_t)n, (int64_t)n_text);
    CHECK(access(journal, F_OK) != 0);
    free(t);
}

static void test_sizes(void) {
    make(6000, 9000, 0);
    edit(6000, true);
    edit(10000, true);
    edit(14990, true); /* nearly all of the slack */
    edit(3, true);
    edit(15020, true); /* the padding's key record, too */
    edit(40000, false);
    edit(40000 + 16000, true); /* a rewritten file has room */
    make(6000, 0, 0);
    edit(2000, true); /* shorter: the rest becomes padding */
    edit(6000, true);
    make(100, 0, 65536);
    edit(60000, true); /* zeros up to the alignment also count as room */
    edit(70000, false);
}

/* Tests a file without the key, and the first file of a split set, whose other keys must not
 * change. */
static void test_absent(void) {
    struct gguf_edit how;
    struct gguf_w *w = gguf_w_new();
    struct gguf *g;
    char first[120];
    int64_t ne = 64;
    static const float zero[64];
    gguf_w_str(w, "general.architecture", "test");
    CHECK_OK(gguf_w_tensor(w, "x", QT_F32, 1, &ne, &e));
    CHECK_OK(gguf_w_tensor(w, "y", QT_F32, 1, &ne, &e));
    gguf_w_split(w, 256, false);
    CHECK_OK(gguf_w_begin(w, path, true, &e));
    CHECK_OK(gguf_w_data(w, zero, sizeof zero, &e));
    CHECK_OK(gguf_w_data(w, zero, sizeof zero, &e));
    CHECK_OK(gguf_w_commit(w, &e));
    gguf_w_free(w);
    snprintf(first, sizeof first, "%s/m-00001-of-00002.gguf", dir);
    CHECK_OK(gguf_edit_str(first, key, "hello", 5, &how, &e));
    CHECK(!how.in_place || how.n_room);
    CHECK_OK(gguf_edit_str(first, key, "hello again", 11, &how, &e));
    CHECK(how.in_place && !how.n_room);
    CHECK_OK(gguf_open(&g, first, 0, &e));
    if (g) CHECK_EQ_I64(gguf_n_tensors(g), 2);
    if (g) CHECK_EQ_STR(gguf_str_or(g, key, ""), "hello again");
    gguf_close(g);
    CHECK_ERR(gguf_edit_str("/nowhere/m.gguf", key, "x", 1, &how, &e), ERR_SYS, "nowhere");
}

/* Tests several keys that are replaced, added and removed in one write. */
static void test_several(void) {
    struct gguf_edit how;
    struct gguf *g;
    size_t n;
    static const uint8_t seven[4] = {8}, ints[8] = {1, 0, 0, 0, 2};
    char *t = text_of('b', 5000);
    const struct gguf_kv set[] = {
        {"after", GV_U32, GV_U32, 1, seven, 4},
        {key, GV_STR, GV_STR, 5000, (const uint8_t *)t, 5000},
        {"new", GV_ARR, GV_I32, 2, ints, 8},
    };
    const struct gguf_kv gone[] = {{.key = "new"}, {.key = "general.architecture"}};
    make(6000, 9000, 0);
    CHECK_OK(gguf_edit_keys(path, set, 1, NULL, NULL, &how, &e));
    CHECK(how.in_place && how.n_bytes == 1); /* of the same size: the padding stays in its place */
    make(6000, 9000, 0);
    CHECK_OK(gguf_edit_keys(path, set, 3, NULL, NULL, &how, &e));
    CHECK(how.in_place && !how.n_room);
    CHECK_OK(gguf_open(&g, path, 0, &e));
    if (g) {
        const struct gguf_kv *arr = gguf_find(g, "new");
        CHECK_EQ_I64((int64_t)gguf_u64_or(g, "after", 0), 8);
        CHECK_EQ_I64((int64_t)strlen(gguf_str_or(g, key, "")), 5000);
        CHECK(arr && arr->type == GV_ARR && arr->elem == GV_I32 && arr->count == 2);
        CHECK(arr && gguf_kv_i64(arr, 1) == 2);
        CHECK_EQ_I64(gguf_n_kv(g), 5);
    }
    gguf_close(g);
    CHECK_OK(gguf_edit_keys(path, gone, 2, NULL, NULL, &how, &e));
    CHECK(how.in_place);
    CHECK_OK(gguf_open(&g, path, 0, &e));
    if (g) CHECK(!gguf_find(g, "new") && !gguf_find(g, "general.architecture"));
    if (g) CHECK_EQ_I64(gguf_n_kv(g), 3);
    gguf_close(g);
    make(6000, 9000, 0);
    CHECK(look(&n) == 'a' && n == 6000);
    free(t);
}

static int refuse(struct gguf *edited, void *arg, struct err *err) {
    *(uint64_t *)arg = gguf_u64_or(edited, "after", 0);
    return err_set(err, ERR_DATA, "no");
}

/* Checks that a check function sees the file as it would be after the edit, and can stop the
 * edit. */
static void test_refused(void) {
    struct gguf_edit how;
    static const uint8_t value[4] = {9}, align[4] = {64};
    const struct gguf_kv set = {"after", GV_U32, GV_U32, 1, value, 4},
                         at64 = {"general.alignment", GV_U32, GV_U32, 1, align, 4};
    uint64_t seen = 0;
    make(6000, 0, 0);
    CHECK_ERR(gguf_edit_keys(path, &set, 1, refuse, &seen, &how, &e), ERR_USAGE, "unchanged: no");
    CHECK_EQ_I64((int64_t)seen, 9);
    size_t n;
    CHECK(look(&n) == 'a');
    /* One tensor, at offset 0: any alignment agrees with it, and the data move to it. */
    CHECK_OK(gguf_edit_keys(path, &at64, 1, NULL, NULL, &how, &e));
    CHECK(look(&n) == 'a');
}

/* Checks that the file is rewritten if another process has it open, so that its offsets stay
 * valid. */
static void test_open_elsewhere(void) {
    struct gguf_edit how;
    struct gguf *g;
    char *t = text_of('b', 40000);
    size_t n;
    make(9000, 0, 0);
    CHECK_OK(gguf_open(&g, path, 0, &e));
    CHECK_OK(gguf_edit_str(path, key, t, 40000, &how, &e));
    CHECK(!how.in_place && how.n_room == 0);
    const struct gguf_tensor *x = g ? gguf_find_tensor(g, "x") : NULL;
    float v = 0;
    if (x) memcpy(&v, x->data + 4 * 777, 4);
    CHECK(v == 777);
    CHECK(look(&n) == 'b' && n == 40000);
    gguf_close(g);
    free(t);
}

/* ---- killed --------------------------------------------------------------------------------- */

static int kill_at, n_steps;
static void count_or_die(int step) {
    (void)step;
    if (n_steps++ == kill_at) raise(SIGKILL);
}

/* Edits in a child process that is killed before its i-th step. Returns whether the edit
 * finished. */
static bool child_edit(int i, size_t n_text) {
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        struct gguf_edit how;
        char *t = text_of('b', n_text);
        kill_at = i;
        gguf_edit_hook = count_or_die;
        int rc = gguf_edit_str(path, key, t, n_text, &how, &e);
        free(t);
        _exit(rc ? 2 : 0);
    }
    int status = 0;
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    if (WIFSIGNALED(status)) {
        CHECK_EQ_I64(WTERMSIG(status), SIGKILL);
        return false;
    }
    CHECK_EQ_I64(WEXITSTATUS(status), 0);
    return true;
}

static void killed(size_t n_old, size_t slack, size_t n_new, bool in_place) {
    int n_old_left = 0, n_new_left = 0, i;
    for (i = 0; i < 100; i++) {
        size_t n;
        make(n_old, slack, 0);
        bool done = child_edit(i, n_new);
        char c = look(&n);
        CHECK((c == 'a' && n == n_old) || (c == 'b' && n == n_new));
        CHECK(access(journal, F_OK) != 0);
        n_old_left += c == 'a';
        n_new_left += c == 'b';
        if (done) {
            CHECK(c == 'b');
            break;
        }
        /* the next attempt succeeds */
        CHECK(child_edit(-1, n_new));
        CHECK(look(&n) == 'b' && n == n_new);
    }
    CHECK(i > (in_place ? 6 : 0) && i < 100);
    CHECK(n_old_left >= 1 && n_new_left >= 1);
}

static void test_killed(void) {
    killed(6000, 20000, 20000, true);
    killed(20000, 0, 9000, true);
    killed(3000, 0, 9000, false);
    killed(9000, 0, 40000, false); /* the file system makes room if it can */
}

/* Tests a crash while the file system moves extents, which leaves the hole further back, with only
 * the data after it moved. Recovery must remove the hole. */
static void test_half_moved(void) {
    struct gguf_edit how;
    struct stat st;
    size_t n, len;
    char *t = text_of('b', 40000), *text = NULL;
    make(9000, 0, 0);
    int fd = open(path, O_RDWR);
    bool can = fd >= 0 && fallocate(fd, FALLOC_FL_INSERT_RANGE, 0, 4096) == 0;
    close(fd);
    if (!can) {
        fprintf(stderr, "SKIP: the file system of /tmp cannot insert blocks\n");
        free(t);
        return;
    }
    make(9000, 0, 0);
    CHECK(!child_edit(1, 40000)); /* announced but not begun */
    CHECK(access(journal, F_OK) == 0);
    CHECK_OK(io_read_file(&text, &len, journal, 1 << 20, &e));
    uint64_t at, room;
    memcpy(&at, text + 16, 8);
    memcpy(&room, text + 24, 8);
    fd = open(path, O_RDWR);
    CHECK(fd >= 0 && fallocate(fd, FALLOC_FL_INSERT_RANGE, (off_t)at + 8192, (off_t)room) == 0);
    close(fd);
    CHECK(look(&n) == 'a' && n == 9000);
    CHECK(access(journal, F_OK) != 0);
    CHECK_OK(gguf_edit_str(path, key, t, 40000, &how, &e));
    CHECK(how.in_place && how.n_room == room);
    CHECK(stat(path, &st) == 0 && look(&n) == 'b' && n == 40000);
    /* a journal of a different file is refused */
    text[70] ^= 1;
    CHECK_OK(out_write_file(journal, text, len, true, &e));
    struct gguf *g;
    CHECK_ERR(gguf_open(&g, path, 0, &e), ERR_DATA, "does not belong");
    CHECK(unlink(journal) == 0);
    free(text);
    free(t);
}

/* Checks that a journal of a different file is not replayed, and that this is reported. */
static void test_foreign(void) {
    struct gguf *g;
    make(6000, 20000, 0);
    CHECK(!child_edit(4, 20000)); /* in the middle of the pages */
    CHECK(access(journal, F_OK) == 0);
    char *text;
    size_t len, n;
    CHECK_OK(io_read_file(&text, &len, journal, 1 << 20, &e));
    CHECK(look(&n) == 'a');
    make(6000, 20000, 0);
    int fd = open(path, O_RDWR);
    CHECK(fd >= 0 && pwrite(fd, "zz", 2, 5000) == 2);
    close(fd);
    CHECK_OK(out_write_file(journal, text, len, true, &e));
    CHECK_ERR(gguf_open(&g, path, 0, &e), ERR_DATA, "does not belong");
    text[60] ^= 1;
    CHECK_OK(out_write_file(journal, text, len, true, &e));
    CHECK_ERR(gguf_open(&g, path, 0, &e), ERR_DATA, "journal");
    for (size_t cut = 0; cut < 80; cut += 7) {
        CHECK_OK(out_write_file(journal, text, cut, true, &e));
        CHECK_ERR(gguf_open(&g, path, 0, &e), ERR_DATA, "journal");
    }
    CHECK(unlink(journal) == 0);
    free(text);
}

/* Checks on a sparse file of 4 GiB that only the header is accessed. */
static void test_large(void) {
    char big[100];
    size_t len;
    char *head, *t = text_of('b', 15000);
    struct gguf_edit how;
    struct timespec t0, t1;
    struct stat st;
    make(6000, 20000, 0);
    CHECK_OK(io_read_file(&head, &len, path, 1 << 20, &e));
    /* the same header, with a tensor of 2^30 F32 weights: the record's two dimensions */
    uint64_t ne[2] = {32, 500}, more[2] = {32, 1 << 25};
    char *at = memmem(head, len, ne, sizeof ne);
    CHECK(at != NULL);
    if (at) memcpy(at, more, sizeof more);
    snprintf(big, sizeof big, "%s/big.gguf", dir);
    size_t header = len - sizeof(float) * 32 * 500;
    int fd = open(big, O_RDWR | O_CREAT, 0600);
    CHECK(fd >= 0 && pwrite(fd, head, header, 0) == (ssize_t)header);
    CHECK(ftruncate(fd, (off_t)(header + (UINT64_C(4) << 30))) == 0);
    CHECK(pwrite(fd, "weights", 7, (off_t)(header + (UINT64_C(3) << 30))) == 7);
    CHECK(fsync(fd) == 0);
    clock_gettime(CLOCK_MONOTONIC, &t0);
    CHECK_OK(gguf_edit_str(big, key, t, 15000, &how, &e));
    clock_gettime(CLOCK_MONOTONIC, &t1);
    double s = (double)(t1.tv_sec - t0.tv_sec) + (double)(t1.tv_nsec - t0.tv_nsec) / 1e9;
    CHECK(how.in_place);
    CHECK(how.n_bytes < 40000);
    CHECK(fstat(fd, &st) == 0 && st.st_blocks < 1000); /* still sparse */
    char word[8] = "";
    CHECK(pread(fd, word, 7, (off_t)(header + (UINT64_C(3) << 30))) == 7);
    CHECK_EQ_STR(word, "weights");
    if (s > 0.1) fprintf(stderr, "editing 4 GiB took %.3f s\n", s); /* a busy machine may */
    CHECK(s < 2);
    close(fd);
    unlink(big);
    free(head);
    free(t);
}

int main(void) {
    if (!mkdtemp(dir)) return 77;
    snprintf(path, sizeof path, "%s/m.gguf", dir);
    snprintf(journal, sizeof journal, "%s.hone-journal", path);
    RUN(test_sizes);
    RUN(test_absent);
    RUN(test_several);
    RUN(test_refused);
    RUN(test_killed);
    RUN(test_open_elsewhere);
    RUN(test_half_moved);
    RUN(test_foreign);
    RUN(test_large);
    char cmd[200];
    snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
    if (system(cmd)) return 1;
    return check_done();
}
