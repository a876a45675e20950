// SPDX-License-Identifier: MIT
/* tests/unit/test_pack_cache.c - runtime/engine/pack_cache.c and pack_file.c: cached rows give the
 * same results as rows packed in memory, whatever happened to the cache folder or the model in
 * between; several processes at once; a full disk; too little memory. */
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "base/ctx.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/io.h"
#include "base/out.h"
#include "runtime/engine/session.h"
#include "tests/unit/synthetic.h"
#include "tests/unit/with.h"

enum { N_IDS = 10, N_VOCAB = 256, D = 256, LAYERS = 2, NAME = 300 };
static char model_path[NAME], dir[NAME];

/* ---- what the program says ------------------------------------------------------------------- */

static char said[4096];
static void on_log(void *ud, enum log_level level, const char *text) {
    (void)ud, (void)level;
    strncat(said, text, sizeof said - strlen(said) - 2);
    strcat(said, "\n");
}

/* ---- numbers --------------------------------------------------------------------------------- */

struct logits {
    float v[N_IDS * N_VOCAB];
    uint64_t memory, mapped; /* bytes of packed rows, in memory and mapped */
    uint64_t session;        /* bytes of the session */
};
static struct logits compute(const struct model *m, const char *cache) {
    struct err e = {0};
    struct session *s = NULL;
    struct logits l = {.memory = 0};
    int32_t ids[N_IDS];
    float h[6 * D];
    const struct session_opts o = {.n_ctx = N_IDS,
                                   .n_ubatch = 8,
                                   .isa = kern_isa_best(),
                                   .act = ACT_Q8,
                                   .pack = true,
                                   .pack_cache = cache};
    for (int i = 0; i < N_IDS; i++) ids[i] = (i * 7919 + 13) % 250;
    said[0] = 0;
    CHECK_OK(session_new(&s, m, &o, &e));
    if (!s) return l;
    CHECK_OK(session_forward(s, ids, 6, h, &e));
    CHECK_OK(session_head(s, h, 6, l.v, &e));
    for (int i = 6; i < N_IDS; i++) CHECK_OK(session_step(s, ids + i, 1, l.v + i * N_VOCAB, &e));
    l.session = session_bytes(s);
    session_free(s);
    l.memory = model_packed_bytes(m, false);
    l.mapped = model_packed_bytes(m, true);
    return l;
}
/* Simulates a restart. */
static struct logits start(const char *path, const char *cache) {
    struct err e = {0};
    struct model *m = NULL;
    CHECK_OK(model_open(&m, path, &e));
    const struct logits l = compute(m, cache);
    model_close(m);
    return l;
}
static bool same(const struct logits *a, const struct logits *b) {
    return memcmp(a->v, b->v, sizeof a->v) == 0;
}

/* ---- the folder ------------------------------------------------------------------------------ */

/* Counts the names in the folder that end with `with`. path: NULL, or receives the path of the last
 * such file other than `except`. */
static int find(const char *with, const char *except, char *path) {
    struct io_names l = {0};
    struct err e;
    int n = 0;
    if (io_list(&l, dir, &e)) return -1;
    for (int i = 0; i < l.n; i++) {
        const size_t len = strlen(l.v[i]), end = strlen(with);
        if (len < end || strcmp(l.v[i] + len - end, with) != 0) continue;
        char *p = io_join(dir, l.v[i]);
        if (path && strcmp(p, except) != 0 && strlen(p) < NAME) memcpy(path, p, strlen(p) + 1);
        free(p);
        n++;
    }
    io_names_release(&l);
    return n;
}
static int count(const char *with, char *path) {
    return find(with, "", path);
}
static const char *rows_path(void) {
    static char path[NAME];
    CHECK_EQ_I64(count(".pack", path), 1);
    return path;
}
static const char *seal_path(void) {
    static char path[NAME];
    CHECK_EQ_I64(count(".seal", path), 1);
    return path;
}
static struct stat look(const char *path) {
    struct stat st = {0};
    CHECK(stat(path, &st) == 0);
    return st;
}
static bool same_file(const struct stat *a, const struct stat *b) {
    return a->st_ino == b->st_ino && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec;
}
static void poke(const char *path, int64_t at, const void *p, size_t n) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    CHECK(fd >= 0 && pwrite(fd, p, n, (off_t)at) == (ssize_t)n);
    close(fd);
}
/* Waits, because file times are coarse: a file compared right after it was written gets no seal. */
static void rest(void) {
    const struct timespec t = {.tv_nsec = 120 * 1000 * 1000};
    nanosleep(&t, NULL);
}
static void begin(void) {
    static int n;
    struct model *m = synthetic("Q4_K_M", D, D, LAYERS);
    snprintf(model_path, sizeof model_path, "%s", tmp_path("s.gguf"));
    snprintf(dir, sizeof dir, "%s/cache-%d/below", tmp_dir, n++);
    model_close(m);
    rest();
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void test_made_once(void) {
    begin();
    const struct logits want = start(model_path, NULL), first = start(model_path, dir);
    CHECK(strstr(said, "once"));
    CHECK(same(&want, &first) && want.memory > 0 && want.mapped == 0);
    CHECK(first.memory == 0 && first.mapped == want.memory);
    const struct stat made = look(rows_path());
    for (int i = 0; i < 2; i++) {
        const struct logits again = start(model_path, dir);
        CHECK(same(&want, &again) && again.memory == 0 && again.mapped == want.memory);
        CHECK_EQ_STR(said, ""); /* neither created nor compared */
    }
    unlink(seal_path()); /* forces a comparison */
    const struct logits compared = start(model_path, dir);
    CHECK(same(&want, &compared) && strstr(said, "comparing"));
    (void)start(model_path, dir);
    CHECK_EQ_STR(said, "");
    const struct stat now = look(rows_path());
    CHECK(same_file(&made, &now));
}

/* Checks that the model under a different name and time is compared once, and recorded along with
 * the first. */
static void test_copies(void) {
    begin();
    char copy[NAME], cmd[3 * NAME];
    (void)start(model_path, dir);
    snprintf(copy, sizeof copy, "%s/copy.gguf", tmp_dir);
    snprintf(cmd, sizeof cmd, "cp '%s' '%s'", model_path, copy);
    CHECK(system(cmd) == 0);
    rest();
    for (int i = 0; i < 3; i++) {
        const struct logits l = start(i < 2 ? copy : model_path, dir);
        CHECK(l.mapped > 0 && !strstr(said, "once"));
        CHECK(!i == (strstr(said, "comparing") != NULL));
    }
    unlink(copy);
}

/* Tests a seal with different contents: the rows are compared and found to be correct. */
static void test_seals(void) {
    static const char *const text[] = {"", "hone pack seal 1\n", "hone pack seal 1\nrows 1 2 3 4\n",
                                       "hone pack seal 1\nrows 1 2 3 4\nmodel x\ncheck y\n"};
    begin();
    const struct logits want = start(model_path, dir);
    char *whole = NULL;
    size_t n = 0;
    struct err e = {0};
    CHECK_OK(io_read_file(&whole, &n, seal_path(), 1 << 20, &e));
    for (int i = 0; i < 6 && whole; i++) {
        if (i == 4) whole[n / 2] = whole[n / 2] == '1' ? '2' : '1'; /* one digit */
        if (i < 4) CHECK_OK(out_write_file(seal_path(), text[i], strlen(text[i]), true, &e));
        if (i == 4) CHECK_OK(out_write_file(seal_path(), whole, n, true, &e));
        if (i == 5) CHECK(truncate(seal_path(), 1 << 16) == 0);
        const struct logits l = start(model_path, dir);
        CHECK(same(&want, &l) && l.mapped > 0 && strstr(said, "comparing"));
        (void)start(model_path, dir);
        CHECK_EQ_STR(said, "");
    }
    free(whole);
}

/* Checks that, whatever happened to the file of rows, results are right and the next start has a
 * good file.
 */
static void test_damaged(void) {
    begin();
    const struct logits want = start(model_path, dir);
    for (int i = 0; i < 9; i++) {
        const struct stat was = look(rows_path());
        const struct timespec then[2] = {was.st_atim, was.st_mtim};
        const char *path = rows_path();
        uint8_t byte = 0x5a;
        switch (i) {
        case 0:
            poke(path, was.st_size / 2, &byte, 1);
            break;
        case 1: /* modification time set back */
            poke(path, was.st_size / 3, &byte, 1);
            CHECK(utimensat(AT_FDCWD, path, then, 0) == 0);
            break;
        case 2:
            CHECK(truncate(path, was.st_size - 16384) == 0);
            break;
        case 3:
            CHECK(truncate(path, 100) == 0);
            break;
        case 4:
            CHECK(truncate(path, 0) == 0);
            break;
        case 5:
            poke(path, 0, "GGUF", 4);
            break;
        case 6:
            poke(path, 16, &byte, 1);
            break; /* bytes */
        case 7:
            poke(path, 40, &byte, 1);
            break; /* key */
        case 8:
            CHECK(truncate(path, was.st_size + 16384) == 0);
            break;
        default:
            break;
        }
        const struct logits l = start(model_path, dir);
        if (!same(&want, &l) || l.mapped != want.mapped || !strstr(said, "creating it again"))
            CHECK_FAIL("damage %d: %s", i, said);
        (void)start(model_path, dir);
        CHECK_EQ_STR(said, "");
    }
}

/* Checks that rows are not used if one byte of a weight changed outside the key's sample. */
static void test_changed_model(void) {
    begin();
    (void)start(model_path, dir);
    const struct stat was = look(model_path);
    const struct timespec then[2] = {was.st_atim, was.st_mtim};
    struct err e = {0};
    struct gguf *g = NULL;
    CHECK_OK(gguf_open(&g, model_path, 0, &e));
    const struct gguf_tensor *t = gguf_find_tensor(g, "blk.1.ffn_up_exps.weight");
    uint64_t n_head = 0;
    const uint8_t *head = gguf_shard_header(g, 0, &n_head);
    const int64_t at = (int64_t)(t->data - head) + 5;
    const uint8_t byte = (uint8_t)(t->data[5] ^ 0x11);
    CHECK(t->n_bytes > 16384);
    gguf_close(g);
    poke(model_path, at, &byte, 1);
    CHECK(utimensat(AT_FDCWD, model_path, then, 0) == 0); /* as if nothing had happened */
    rest();
    const struct logits want = start(model_path, NULL), l = start(model_path, dir);
    CHECK(strstr(said, "other weights") && strstr(said, "creating it again"));
    CHECK(same(&want, &l) && l.mapped > 0);
    CHECK_EQ_I64(count(".pack", NULL), 1);
}

/* Checks that a different model has its own file, and that one model's file under the other's name
 * is refused. */
static void test_other_model(void) {
    begin();
    const struct logits want = start(model_path, dir);
    char first[NAME], other[NAME];
    snprintf(first, sizeof first, "%s", rows_path());
    struct synth_report r;
    struct err e = {0};
    struct synth_opts o = {.recipe = "Q4_K_M",
                           .out = tmp_path("other.gguf"),
                           .shape = tmp_path("config.json"),
                           .seed = 2,
                           .overwrite = true};
    CHECK_OK(synth_run(&o, &r, &e));
    snprintf(other, sizeof other, "%s", o.out);
    const struct logits two = start(other, dir);
    CHECK(!same(&want, &two) && two.mapped == want.mapped);
    char second[NAME] = "";
    CHECK_EQ_I64(find(".pack", first, second), 2);
    CHECK(rename(second, first) == 0);
    const struct logits l = start(model_path, dir);
    CHECK(same(&want, &l) && strstr(said, "another model") && strstr(said, "creating it again"));
}

/* Checks that a folder that others can write is not trusted, and that links are not followed for
 * writing. */
static void test_strangers(void) {
    begin();
    const mode_t mask = umask(0); /* a file is created unwritable for others even with umask 0 */
    const struct logits want = start(model_path, dir);
    umask(mask);
    CHECK(!(look(rows_path()).st_mode & S_IWOTH));
    CHECK(chmod(rows_path(), 0666) == 0);
    struct logits l = start(model_path, dir);
    CHECK(same(&want, &l) && strstr(said, "writable by other users"));
    if (geteuid() == 0) {
        CHECK(chmod(rows_path(), 0644) == 0 && chown(rows_path(), 12345, (gid_t)-1) == 0);
        l = start(model_path, dir);
        CHECK(same(&want, &l) && strstr(said, "writable by other users"));
    }
    char *rows = xstrdup(rows_path());
    unlink(rows);
    CHECK(symlink(tmp_path("precious"), rows) == 0);
    tmp_write("precious", "do not touch", 12);
    l = start(model_path, dir);
    CHECK(same(&want, &l) && strstr(said, "is a symbolic link") && l.mapped == 0);
    char *text = NULL;
    size_t n = 0;
    struct err e = {0};
    CHECK_OK(io_read_file(&text, &n, tmp_path("precious"), 100, &e));
    CHECK_EQ_STR(text, "do not touch");
    free(text);
    unlink(rows);
    CHECK(mkdir(rows, 0700) == 0); /* a folder in place of the file is refused, too */
    l = start(model_path, dir);
    CHECK(same(&want, &l) && l.mapped == 0);
    free(rows);
    struct model *m = NULL;
    struct session *s = NULL;
    struct session_opts o = {
        .n_ctx = 8, .isa = kern_isa_best(), .act = ACT_Q8, .pack = true, .pack_cache = model_path};
    CHECK_OK(model_open(&m, model_path, &e));
    CHECK_ERR(session_new(&s, m, &o, &e), ERR_USAGE, "is not a folder");
    model_close(m);
}

/* Runs fn, which returns 0 on success, in a separate process. */
static pid_t apart(int (*fn)(const struct logits *want), const struct logits *want) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) _exit(fn(want));
    return pid;
}
static int ended(pid_t pid) {
    int status = -1;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
static int begin_at_once(const struct logits *want) {
    const struct logits l = start(model_path, dir);
    return same(want, &l) && l.mapped == want->memory && l.memory == 0 && !check_failed_here ? 0
                                                                                             : 1;
}
/* Tests several processes that start at the same time with an empty folder. */
static void test_processes(void) {
    enum { N = 4 };
    begin();
    const struct logits want = start(model_path, NULL);
    pid_t pid[N];
    for (int i = 0; i < N; i++) pid[i] = apart(begin_at_once, &want);
    for (int i = 0; i < N; i++) CHECK_EQ_I64(ended(pid[i]), 0);
    CHECK_EQ_I64(count(".pack", NULL), 1);
    CHECK_EQ_I64(count("", NULL), 3); /* rows, seal, lock; nothing temporary */
    const struct logits l = start(model_path, dir);
    CHECK(same(&want, &l));
    CHECK_EQ_STR(said, "");
}

static int begin_small(const struct logits *want) {
    const struct rlimit r = {1 << 20, 1 << 20}; /* simulates a disk with that much room */
    signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &r) != 0) return 2;
    const struct logits l = start(model_path, dir);
    return same(want, &l) && l.memory == want->memory && l.mapped == 0 &&
                   strstr(said, "packed in memory") && !check_failed_here
               ? 0
               : 1;
}
/* Checks that without room for the file work continues in memory and no partial file is left, and
 * that the next attempt removes a killed process's leftovers. */
static void test_no_room(void) {
    begin();
    const struct logits want = start(model_path, NULL);
    CHECK_EQ_I64(ended(apart(begin_small, &want)), 0);
    CHECK_EQ_I64(count(".pack", NULL), 0);
    CHECK_EQ_I64(count("", NULL), 1); /* the lock */
    (void)start(model_path, dir);
    char rest_of[2 * NAME];
    snprintf(rest_of, sizeof rest_of, "%s.tmp-1-2", rows_path());
    struct err e = {0};
    CHECK_OK(out_write_file(rest_of, "half", 4, true, &e));
    unlink(rows_path());
    (void)start(model_path, dir);
    CHECK(!io_exists(rest_of) && io_exists(rows_path()));
}

/* Checks that mapped rows need no memory: a limit below their size suffices and gives the same
 * bits. A candidate has its own rows in memory and all others from the file. */
static void test_little_memory(void) {
    begin();
    const struct logits want = start(model_path, NULL);
    struct err e = {0};
    struct ctx c;
    struct model *m = NULL;
    (void)start(model_path, dir);
    ctx_init(&c);
    struct ctx *mine = ctx_enter(&c);
    log_set_sink(on_log, NULL);
    CHECK_OK(model_open(&m, model_path, &e));
    mem_limit(want.session + (256 << 10)); /* less than the rows take */
    CHECK(want.memory > 1 << 20);
    const struct logits less = compute(m, NULL);
    CHECK(less.memory == 0 && strstr(said, "used unpacked"));
    const struct logits mapped = compute(m, dir);
    CHECK(same(&want, &mapped) && mapped.memory == 0 && mapped.mapped == want.memory);
    mem_limit(0);
    static const char up[] = "blk.1.ffn_up_exps.weight";
    const struct weight *w = model_find_weight(m, up);
    uint8_t *blocks = xmalloc((size_t)w->n_bytes);
    memcpy(blocks, w->data, (size_t)w->n_bytes);
    const uint64_t n = w->n_bytes;
    struct model *cand = with_weight(m, up, blocks, w->type, free);
    const struct logits l = compute(cand, dir);
    CHECK(same(&want, &l) && l.memory == n && l.mapped == want.memory - n);
    model_close(cand);
    model_close(m);
    ctx_enter(mine);
    ctx_release(&c);
}

int main(void) {
    if (kern_isa_best() == KERN_REF) return check_skip("no packed rows on this machine");
    tmp_make();
    log_set_sink(on_log, NULL);
    RUN(test_made_once);
    RUN(test_copies);
    RUN(test_seals);
    RUN(test_damaged);
    RUN(test_changed_model);
    RUN(test_other_model);
    RUN(test_strangers);
    RUN(test_processes);
    RUN(test_no_room);
    RUN(test_little_memory);
    tmp_remove();
    return check_done();
}
