// SPDX-License-Identifier: MIT
/* tests/unit/test_sequential.c - block-by-block quantization that is interrupted resumes after the
 * finished blocks, with the same bytes. */
#include "base/ctx.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/progress.h"
#include "convert/convert.h"
#include "mix/sequential.h"
#include "tests/check.h"
#include "tests/unit/tmpdir.h"

enum { BYTES = 3000 }; /* of text */
static char *in, *text;

/* Converts a golden model of three blocks and writes a text. */
static void set_up(void) {
    struct err e = {0};
    struct convert_report r;
    in = xstrdup(tmp_path("m.gguf"));
    const struct convert_opts o = {.src = "tests/golden/models/mistral", .out = in, .type = "bf16"};
    char *all = NULL;
    size_t n = 0;
    CHECK_OK(convert_run(&o, &r, &e));
    CHECK_OK(io_read_file(&all, &n, "tests/golden/tiny-qwen35moe/self_calib.txt", 64 << 20, &e));
    CHECK(n > BYTES);
    text = xstrdup(tmp_write("text", all, BYTES));
    free(all);
}

static int kept; /* blocks that the last interrupted job says are kept */
struct stop {    /* when to interrupt, and after which block the job resumed */
    const char *stage;
    uint64_t tenths; /* of the stage; 0: never */
    int resumed;
};
static int see_progress(void *ud, const char *stage, uint64_t done, uint64_t total) {
    const struct stop *s = ud;
    return s->tenths && strcmp(stage, s->stage) == 0 && done * 10 >= total * s->tenths;
}
static void see_log(void *ud, enum log_level level, const char *line) {
    struct stop *s = ud;
    (void)level;
    const char *at = strstr(line, "resuming after ");
    if (at) s->resumed = atoi(at + strlen("resuming after "));
    at = strstr(line, " of 3 blocks are kept in ");
    if (at) kept = at[-1] - '0';
}

/* Makes a file; returns the result and, in *resumed, after how many blocks it resumed. */
static int make_until(const char *out, int learn, const char *stage, uint64_t tenths,
                      int *resumed) {
    struct err e;
    struct quantize_report r;
    struct work w = {.ctx = ctx_process(), .isa = kern_isa_best(), .threads = 1};
    struct stop s = {.stage = stage, .tenths = tenths};
    const struct quantize_opts q = {
        .in = in, .out = out, .recipe = "IQ3_S", .pure = true, .search = SEARCH_BEST};
    const char *texts[] = {text};
    const struct sequential_opts o = {
        .q = &q, .texts = {texts, 1}, .ctx = 64, .learn = learn, .inputs_only = true};
    progress_set_sink(see_progress, &s);
    log_set_sink(see_log, &s);
    const int rc = sequential_quantize(&w, &o, &r, &e);
    progress_set_sink(NULL, NULL);
    log_set_sink(NULL, NULL);
    progress_resume();
    arena_release(&w.mem);
    *resumed = s.resumed;
    return rc;
}
static int make(const char *out, int learn, uint64_t tenths, int *resumed) {
    return make_until(out, learn, "block by block", tenths, resumed);
}
/* Returns whether two files have the same bytes. */
static bool same(const char *a, const char *b) {
    char *x = NULL, *y = NULL;
    size_t n = 0, m = 0;
    struct err e;
    CHECK_OK(io_read_file(&x, &n, a, 64 << 20, &e));
    CHECK_OK(io_read_file(&y, &m, b, 64 << 20, &e));
    const bool is = n == m && memcmp(x, y, n) == 0;
    free(x);
    free(y);
    return is;
}

static void test_resume(void) {
    char *want = xstrdup(tmp_path("want.gguf")), *out = xstrdup(tmp_path("out.gguf")),
         *part = sequential_part(out), *none = sequential_part(want);
    struct err e;
    int after;
    CHECK_EQ_I64(make(want, 1, 0, &after), 0);
    CHECK(after == 0 && !io_exists(none));
    /* after a third and after two thirds of the blocks */
    CHECK_EQ_I64(make(out, 1, 5, &after), ERR_INTR);
    CHECK(after == 0 && kept == 1 && io_exists(part) && !io_exists(out));
    CHECK_EQ_I64(make(out, 1, 9, &after), ERR_INTR);
    CHECK(after == 1 && kept == 2);
    CHECK_EQ_I64(make(out, 1, 0, &after), 0);
    CHECK_EQ_I64(after, 2);
    CHECK(same(out, want) && !io_exists(part));
    /* in the last step, which changes the tensors of all blocks, after its first checks */
    unlink(out);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ_I64(make_until(out, 1, "learning scales", 8, &after), ERR_INTR);
        CHECK_EQ_I64(after, i * 3);
    }
    CHECK_EQ_I64(make(out, 1, 0, &after), 0);
    CHECK(after == 3 && same(out, want));
    /* other options start over */
    unlink(out);
    CHECK_EQ_I64(make(out, 1, 9, &after), ERR_INTR);
    CHECK_EQ_I64(make(out, 0, 0, &after), 0);
    CHECK(after == 0 && !same(out, want) && !io_exists(part));
    /* a file that is not a checkpoint is not touched */
    unlink(out);
    tmp_write("out.gguf.blocks.part", "mine", 4);
    CHECK_EQ_I64(make(out, 1, 5, &after), ERR_INTR);
    CHECK_EQ_I64(make(out, 1, 0, &after), 0);
    char *mine = NULL;
    size_t n = 0;
    CHECK_OK(io_read_file(&mine, &n, part, 64 << 20, &e));
    CHECK(after == 0 && same(out, want) && n == 4 && memcmp(mine, "mine", 4) == 0);
    free(mine);
    free(none);
    free(part);
    free(out);
    free(want);
}

int main(void) {
    tmp_make();
    set_up();
    RUN(test_resume);
    free(in);
    free(text);
    tmp_remove();
    return check_done();
}
