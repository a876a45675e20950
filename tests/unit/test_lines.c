// SPDX-License-Identifier: MIT
/* Appended lines: another program's contents stay unchanged, and pipes never block. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/lines.h"
#include "base/log.h"
#include "base/progress.h"
#include "tests/check.h"
#include "tests/unit/tmpdir.h"

static struct err e;

static void test_foreign(void) {
    static const struct {
        const char *text;
        bool ours;
    } c[] = {{"", true},       {"{\"id\": 1}\n", true}, {"{\"torn", true},
             {"\n{}\n", true}, {"GGUF\3", false},       {"# notes\n", false}};
    for (size_t i = 0; i < COUNT_OF(c); i++) {
        struct lines *l = NULL;
        struct stat st;
        char *text = NULL, want[64];
        size_t n = 0;
        const char *path = tmp_write("lines", c[i].text, strlen(c[i].text));
        CHECK(chmod(path, 0644) == 0);
        if (c[i].ours) {
            CHECK_OK(lines_open(&l, path, "--record", true, &e));
            CHECK(l && lines_put(l, "{}"));
        } else {
            CHECK_ERR(lines_open(&l, path, "--record", true, &e), ERR_USAGE, "holds no JSON lines");
        }
        lines_close(l);
        const size_t k = strlen(c[i].text);
        snprintf(want, sizeof want, "%s%s%s", c[i].text, k && c[i].text[k - 1] != '\n' ? "\n" : "",
                 "{}\n");
        if (!c[i].ours) snprintf(want, sizeof want, "%s", c[i].text);
        CHECK_OK(io_read_file(&text, &n, path, 1000, &e));
        CHECK_EQ_STR(text, want);
        CHECK(stat(path, &st) == 0 && unlink(path) == 0 &&
              (st.st_mode & 0777) == (c[i].ours ? 0600 : 0644));
        free(text);
    }
}

/* Checks that a pipe whose reader has stopped reading loses lines, and that only the first loss
 * waits. */
static void test_pipe(void) {
    static char line[3001], got[1 << 20];
    struct lines *l = NULL;
    const char *path = tmp_path("pipe");
    int lost = 0;
    CHECK(mkfifo(path, 0600) == 0);
    CHECK_ERR(lines_open(&l, path, "--record", true, &e), ERR_SYS, "nothing reads this pipe");
    const int fd = open(path, O_RDONLY | O_NONBLOCK);
    CHECK(fd >= 0);
    CHECK_OK(lines_open(&l, path, "--record", true, &e));
    memset(line, 'x', sizeof line - 1);
    const double from = progress_now_s();
    for (int i = 0; l && i < 400; i++) lost += !lines_put(l, line);
    CHECK(lost > 0 && lost < 400);
    CHECK(progress_now_s() - from < 5);
    while (read(fd, got, sizeof got) > 0) continue;
    CHECK(l && lines_put(l, "{}")); /* reading resumes: the next line is separate */
    const ssize_t n = read(fd, got, sizeof got - 1);
    CHECK(n >= 3 && n <= 4 && memcmp(got + n - 3, "{}\n", 3) == 0);
    close(fd);
    lines_close(l);
}

int main(void) {
    log_set_level(LOG_ERROR);
    tmp_make();
    RUN(test_foreign);
    RUN(test_pipe);
    tmp_remove();
    return check_done();
}
