// SPDX-License-Identifier: MIT
/* tests/unit/test_kld_file.c - runtime/measure/kld_file.c against a file computed with numpy (2
 * chunks of 8 tokens, vocabulary of 5, 3 rows per chunk), and damaged files. */
#include "base/buf.h"
#include "base/io.h"
#include "runtime/measure/kld_file.h"
#include "tests/check.h"
#include "tests/unit/tmpdir.h"

static struct err e;
static const char py[] = "tests/golden/containers/py.kld";
enum { N_CTX = 8, N_VOCAB = 5, N_CHUNK = 2, N_ROWS = 6 };

static char *slurp(const char *path, size_t *n) {
    char *p = NULL;
    CHECK_OK(io_read_file(&p, n, path, 1 << 20, &e));
    return p;
}

static void test_write_equals_numpy(void) {
    struct kld_r *r;
    struct kld_w *w;
    size_t n, n2;
    float logits[N_ROWS * N_VOCAB];
    char *raw = slurp("tests/golden/containers/kld-logits.bin", &n);
    CHECK_EQ_I64(n, sizeof logits);
    memcpy(logits, raw, sizeof logits);
    free(raw);
    CHECK_OK(kld_r_open(&r, py, &e));
    CHECK_OK(
        kld_w_open(&w, tmp_path("o.kld"), false, N_CTX, N_VOCAB, N_CHUNK, kld_r_tokens(r), &e));
    CHECK_ERR(kld_w_commit(w, &e), ERR_SYS, "0 of 6 rows");
    for (int i = 0; i < N_ROWS; i++) CHECK_OK(kld_w_row(w, logits + (ptrdiff_t)i * N_VOCAB, &e));
    CHECK_ERR(kld_w_row(w, logits, &e), ERR_SYS, "more than 6 rows");
    CHECK_OK(kld_w_commit(w, &e));
    kld_w_close(w);
    kld_r_close(r);
    char *a = slurp(tmp_path("o.kld"), &n), *b = slurp(py, &n2);
    CHECK_EQ_I64(n, 8 + 12 + 64 + N_ROWS * (8 + 12));
    CHECK(n == n2 && memcmp(a, b, n) == 0);
    free(a);
    free(b);
}

static void test_read(void) {
    struct kld_r *r;
    size_t n;
    float lp[N_VOCAB];
    char *raw = slurp("tests/golden/containers/kld-logits.bin", &n);
    CHECK_OK(kld_r_open(&r, py, &e));
    CHECK(kld_r_ctx(r) == N_CTX && kld_r_vocab(r) == N_VOCAB && kld_r_chunks(r) == N_CHUNK);
    for (int i = 0; i < N_ROWS; i++) {
        float x[N_VOCAB];
        double sum = 0, max = -1e30;
        memcpy(x, raw + (size_t)i * sizeof x, sizeof x);
        for (int k = 0; k < N_VOCAB; k++) max = fmax(max, (double)x[k]);
        for (int k = 0; k < N_VOCAB; k++) sum += exp((double)x[k] - max);
        CHECK_OK(kld_r_check_row(r, i, &e));
        kld_r_row(r, i, lp);
        for (int k = 0; k < N_VOCAB; k++) {
            double want = fmax((double)x[k] - max, -16) - log(sum);
            CHECK_CLOSE(lp[k], want, 16.0 / 65535 / 2 + 4e-6); /* half a step, f32 rounding */
        }
    }
    CHECK_ERR(kld_r_check_row(r, N_ROWS, &e), ERR_DATA, "no row 6");
    CHECK_ERR(kld_r_check_row(r, -1, &e), ERR_DATA, "no row -1");
    kld_r_close(r);
    free(raw);
}

static void test_odd_logits(void) {
    struct kld_w *w;
    struct kld_r *r;
    int32_t tok[4] = {0, 1, 2, 1};
    float x[3] = {0, -INFINITY, 1}, lp[3];
    CHECK_OK(kld_w_open(&w, tmp_path("odd.kld"), true, 4, 3, 1, tok, &e));
    float bad[3] = {0, NAN, 1};
    CHECK_ERR(kld_w_row(w, bad, &e), ERR_DATA, "logit 1 of row 0");
    bad[1] = INFINITY;
    CHECK_ERR(kld_w_row(w, bad, &e), ERR_DATA, "inf");
    bad[0] = bad[1] = bad[2] = -INFINITY;
    CHECK_ERR(kld_w_row(w, bad, &e), ERR_DATA, "all logits");
    CHECK_OK(kld_w_row(w, x, &e)); /* -inf: floor of the range */
    CHECK_OK(kld_w_commit(w, &e));
    kld_w_close(w);
    CHECK_OK(kld_r_open(&r, tmp_path("odd.kld"), &e));
    kld_r_row(r, 0, lp);
    CHECK_CLOSE(lp[2], -log(1 + exp(-1)), 3e-4);
    CHECK_CLOSE(lp[1], -16 - log(1 + exp(-1)), 3e-4);
    kld_r_close(r);
    tok[3] = 3;
    CHECK_ERR(kld_w_open(&w, tmp_path("t.kld"), true, 4, 3, 1, tok, &e), ERR_DATA, "id 3");
    CHECK_ERR(kld_w_open(&w, tmp_path("t.kld"), true, 0, 3, 1, tok, &e), ERR_DATA, "are not valid");
    CHECK(w == NULL && !io_exists(tmp_path("t.kld")));
}

static int try_bytes(const void *p, size_t n) {
    struct kld_r *r;
    int rc = kld_r_open(&r, tmp_write("x.kld", p, n), &e);
    kld_r_close(r);
    return rc;
}
static void test_damaged(void) {
    size_t n;
    char *p = slurp(py, &n);
    for (size_t cut = 0; cut < n; cut++)
        if (try_bytes(p, cut) != ERR_DATA) CHECK_FAIL("cut at %zu", cut);
    CHECK_ERR(try_bytes(p, n - 1), ERR_DATA, "x.kld: 203 bytes, but its header describes 204");
    char *longer = calloc(1, n + 2);
    memcpy(longer, p, n);
    CHECK_ERR(try_bytes(longer, n + 2), ERR_DATA, "trailing data");
    free(longer);
    static const int32_t bad[] = {0, -1, 1, INT32_MAX, INT32_MIN};
    for (size_t f = 8; f < 20; f += 4) {
        char was[4];
        memcpy(was, p + f, 4);
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
            memcpy(p + f, &bad[i], 4);
            if (try_bytes(p, n) != ERR_DATA) CHECK_FAIL("field %zu = %d accepted", f, bad[i]);
        }
        memcpy(p + f, was, 4);
    }
    p[0] = 'x';
    CHECK_ERR(try_bytes(p, n), ERR_DATA, "not a base-logits file");
    p[0] = '_';
    p[20] = 5;
    CHECK_ERR(try_bytes(p, n), ERR_DATA, "token 0 has id 5");
    p[20] = 0;
    float inf = INFINITY;
    memcpy(p + 84, &inf, 4);
    struct kld_r *r;
    CHECK_OK(kld_r_open(&r, tmp_write("y.kld", p, n), &e));
    CHECK_ERR(kld_r_check_row(r, 0, &e), ERR_DATA, "damaged");
    CHECK_OK(kld_r_check_row(r, 1, &e));
    kld_r_close(r);
    free(p);
}

int main(void) {
    tmp_make();
    RUN(test_write_equals_numpy);
    RUN(test_read);
    RUN(test_odd_logits);
    RUN(test_damaged);
    tmp_remove();
    return check_done();
}
