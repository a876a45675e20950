// SPDX-License-Identifier: MIT
/* tests/unit/test_kld_file_top.c - the compact base file: its contents, the fairness of the sample,
 * the estimate compared with numpy and with the full sum, and damaged files. */
#include "base/buf.h"
#include "base/bytes.h"
#include "base/io.h"
#include "base/out.h"
#include "runtime/measure/kld_file_top.h"
#include "base/mem.h"
#include "base/rng.h"
#include "runtime/measure/internal.h"
#include "tests/check.h"
#include "tests/unit/tmpdir.h"

static struct err e;
enum { N_VOCAB = 40, N_CTX = 2001, TOP = 6, TAIL = 4 };

static float logits[N_VOCAB];
static double prob[N_VOCAB];
static void make_logits(void) {
    struct rng r;
    rng_seed(&r, 11);
    double sum = 0;
    for (int i = 0; i < N_VOCAB; i++) logits[i] = 2 * rng_normal(&r);
    logits[7] = logits[3]; /* a tie */
    logits[9] = -INFINITY;
    for (int i = 0; i < N_VOCAB; i++) sum += exp((double)logits[i]);
    for (int i = 0; i < N_VOCAB; i++) prob[i] = exp((double)logits[i]) / sum;
}

static const char *write_file(int32_t n_top, int32_t n_tail) {
    struct kld_top_shape sh = {.n_ctx = N_CTX,
                               .n_vocab = N_VOCAB,
                               .n_chunk = 1,
                               .from = 0,
                               .n_top = n_top,
                               .n_tail = n_tail};
    struct kld_top_w *w = NULL;
    int32_t *ids = xcalloc(N_CTX, sizeof *ids);
    for (int i = 0; i < N_CTX; i++) ids[i] = i % N_VOCAB;
    const char *path = tmp_path("top.kld");
    CHECK_OK(kld_top_w_open(&w, path, true, &sh, ids, &e));
    CHECK_ERR(kld_top_w_commit(w, &e), ERR_SYS, "0 of 2000 rows");
    for (int i = 0; i + 1 < N_CTX; i++) CHECK_OK(kld_top_w_row(w, logits, ids[i + 1], &e));
    CHECK_ERR(kld_top_w_row(w, logits, 0, &e), ERR_SYS, "more than 2000 rows");
    CHECK_OK(kld_top_w_commit(w, &e));
    kld_top_w_close(w);
    free(ids);
    return path;
}

static void test_rows(void) {
    struct kld_top_r *r = NULL;
    struct kld_top_row row;
    CHECK(!kld_top_is(tmp_path("none")));
    CHECK_OK(kld_top_r_open(&r, write_file(TOP, TAIL), &e));
    CHECK(kld_top_is(tmp_path("top.kld")));
    CHECK_EQ_I64(kld_top_r_shape(r)->n_top, TOP);
    CHECK_EQ_I64(kld_top_r_tokens(r)[41], 1);
    CHECK_OK(kld_top_r_row(r, 100, &row, &e));
    CHECK_CLOSE((double)row.logp_true, log(prob[101 % N_VOCAB]), 1e-6);
    bool taken[N_VOCAB] = {false};
    double rest = 1;
    for (int k = 0; k < TOP; k++) { /* the largest of the rest, ties to the lower index */
        int best = -1;
        for (int v = 0; v < N_VOCAB; v++)
            if (!taken[v] && (best < 0 || logits[v] > logits[best])) best = v;
        taken[best] = true;
        rest -= prob[best];
        CHECK_EQ_I64(load_u32(row.top_id + 4 * k), best);
        CHECK_CLOSE((double)load_f32(row.top_logp + 4 * k), log(prob[best]), 1e-6);
    }
    CHECK_CLOSE(exp((double)row.log_rest), rest, 1e-7);
    /* frequencies in the sample: expected n * p, with a standard deviation of at most sqrt(n p) */
    int seen[N_VOCAB] = {0};
    for (int i = 0; i + 1 < N_CTX; i++) {
        CHECK_OK(kld_top_r_row(r, i, &row, &e));
        for (int j = 0; j < TAIL; j++) {
            uint32_t id = load_u32(row.tail_id + 4 * j);
            seen[id]++;
            CHECK_CLOSE((double)load_f32(row.tail_logp + 4 * j), log(prob[id]), 1e-6);
        }
    }
    for (int v = 0; v < N_VOCAB; v++) {
        double want = taken[v] ? 0 : (N_CTX - 1) * TAIL * prob[v] / rest;
        CHECK_CLOSE((double)seen[v], want, 4.5 * sqrt(want) + 1e-9);
    }
    CHECK_EQ_I64(seen[9], 0);
    CHECK_ERR(kld_top_r_row(r, 2000, &row, &e), ERR_DATA, "no row 2000");
    CHECK_ERR(kld_top_r_row(r, -1, &row, &e), ERR_DATA, "no row");
    kld_top_r_close(r);
}

/* Compares an estimate with numpy: p and q over six tokens, two kept, tokens 2 and 4 sampled. */
static void test_estimate_of_numpy(void) {
    static const double p[6] = {.5, .2, .1, .1, .06, .04};
    float q[6] = {1.0f, 0.5f, -0.5f, 0.3f, -1.2f, -0.1f};
    uint8_t id[16], lp[16];
    static const uint32_t which[4] = {0, 1, 2, 4};
    for (int i = 0; i < 4; i++) {
        store_u32(id + 4 * i, which[i]);
        store_f32(lp + 4 * i, (float)log(p[which[i]]));
    }
    struct kld_top_row row = {.logp_true = (float)log(.1),
                              .log_rest = (float)log(.3),
                              .top_id = id,
                              .top_logp = lp,
                              .tail_id = id + 8,
                              .tail_logp = lp + 8};
    struct kld_pos pos;
    CHECK_OK(kld_pos_init(&pos, 1, &e));
    kld_pos_top(&pos, 0, &row, 2, 2, q, 6, 3);
    CHECK_CLOSE(pos.kld[0], 0.09569617747669848, 1e-7);
    CHECK_CLOSE((double)pos.noise[0], 0.00018226308879234666, 1e-8);
    CHECK_CLOSE(pos.nll_p[0], log(10), 1e-6);
    CHECK(pos.same[0] && pos.top_q[0] == 0 && fabs((double)pos.prob_p[0] - .5) < 1e-6);
    CHECK(q[0] == 1.0f && q[1] == 0.5f);       /* returned unchanged */
    kld_pos_top(&pos, 0, &row, 2, 0, q, 6, 3); /* one bin: the lower bound */
    CHECK_CLOSE(pos.kld[0], 0.043764185605688316, 1e-7);
    kld_pos_release(&pos);
}

/* Checks that the mean over many samples equals the full sum within four standard errors, and that
 * keeping all tokens gives the full sum. */
static void test_unbiased(void) {
    struct kld_top_r *r = NULL;
    struct kld_top_row row;
    struct kld_pos pos;
    struct rng rng;
    float q[N_VOCAB], logp[N_VOCAB];
    rng_seed(&rng, 5);
    for (int i = 0; i < N_VOCAB; i++) {
        q[i] = (logits[i] == -INFINITY ? -8 : logits[i]) + 0.5f * rng_normal(&rng);
        logp[i] = (float)log(prob[i]);
    }
    CHECK_OK(kld_pos_init(&pos, 2, &e));
    kld_pos_row(&pos, 0, logp, q, N_VOCAB, 1);
    double full = pos.kld[0], mean = 0, sq = 0, claimed = 0;
    CHECK_OK(kld_top_r_open(&r, write_file(TOP, TAIL), &e));
    for (int i = 0; i < N_CTX - 1; i++) {
        CHECK_OK(kld_top_r_row(r, i, &row, &e));
        kld_pos_top(&pos, 1, &row, TOP, TAIL, q, N_VOCAB, 1);
        mean += pos.kld[1] / (N_CTX - 1);
        sq += pos.kld[1] * pos.kld[1] / (N_CTX - 1);
        claimed += (double)pos.noise[1] / (N_CTX - 1);
    }
    double var = sq - mean * mean;
    printf("full %.6f, mean of estimates %.6f +- %.6f; deviation of one: %.5f, claimed %.5f\n",
           full, mean, sqrt(var / (N_CTX - 1)), sqrt(var), sqrt(claimed));
    CHECK_CLOSE(mean, full, 4 * sqrt(var / (N_CTX - 1)));
    CHECK(claimed > 0.5 * var);
    CHECK_CLOSE(pos.nll_q[1], pos.nll_q[0], 1e-9);
    kld_top_r_close(r);
    CHECK_OK(kld_top_r_open(&r, write_file(N_VOCAB, 0), &e));
    CHECK_OK(kld_top_r_row(r, 0, &row, &e));
    kld_pos_top(&pos, 1, &row, N_VOCAB, 0, q, N_VOCAB, 1);
    CHECK_CLOSE(pos.kld[1], full, 1e-6);
    kld_top_r_close(r);
    kld_pos_release(&pos);
}

static int first_row(const char *path) {
    struct kld_top_r *r = NULL;
    struct kld_top_row row;
    int rc = kld_top_r_open(&r, path, &e);
    if (!rc) rc = kld_top_r_row(r, 0, &row, &e);
    kld_top_r_close(r);
    return rc;
}
static void damaged(size_t at, const void *bytes, size_t n, int64_t cut, const char *text) {
    char *raw = NULL;
    size_t len;
    struct out *o = NULL;
    CHECK_OK(io_read_file(&raw, &len, tmp_path("top.kld"), 1 << 24, &e));
    memcpy(raw + at, bytes, n);
    CHECK_OK(out_open(&o, tmp_path("bad.kld"), true, &e));
    CHECK_OK(out_write(o, raw, (uint64_t)((int64_t)len - cut), &e));
    CHECK_OK(out_commit(o, &e));
    out_close(o);
    free(raw);
    CHECK_ERR(first_row(tmp_path("bad.kld")), ERR_DATA, text);
}

static void test_damaged(void) {
    write_file(TOP, TAIL);
    const int32_t big = 1 << 30, minus = -1, two = 2;
    const float nan = NAN, one = 1;
    const size_t row = 40 + 4 * (size_t)N_CTX;
    damaged(0, "H", 1, 0, "does not begin with");
    damaged(0, "h", 1, 39, "truncated");
    damaged(0, "h", 1, 80000, "truncated");
    damaged(8, &two, 4, 0, "version 2");
    damaged(12, &big, 4, 0, "header describes");
    damaged(12, &minus, 4, 0, "not valid");
    damaged(24, &big, 4, 0, "not valid");
    damaged(28, &big, 4, 0, "not valid");
    damaged(32, &minus, 4, 0, "not valid");
    damaged(40, &minus, 4, 0, "token 0 has id -1");
    damaged(row, &nan, 4, 0, "not a distribution");
    damaged(row + 4, &one, 4, 0, "not a distribution");
    damaged(row + 8, &minus, 4, 0, "not a distribution");
    damaged(row + 8 + 4 * TOP, &nan, 4, 0, "not a distribution");
    damaged(row + 8 + 8 * TOP, &big, 4, 0, "not a distribution");
    struct kld_top_w *w = NULL;
    struct kld_top_shape sh = {.n_ctx = 4, .n_vocab = 3, .n_chunk = 1, .from = 0, .n_top = 3};
    const int32_t ids[4] = {0, 1, 2, 0}, bad[4] = {0, 1, 3, 0};
    CHECK_ERR(kld_top_w_open(&w, tmp_path("x"), true, &sh, bad, &e), ERR_DATA, "token 2 has id 3");
    CHECK_OK(kld_top_w_open(&w, tmp_path("x"), true, &sh, ids, &e));
    CHECK_ERR(kld_top_w_row(w, (const float[]){0, NAN, 0}, 0, &e), ERR_DATA, "logit 1 of row 0");
    CHECK_ERR(kld_top_w_row(w, (const float[]){-INFINITY, -INFINITY, -INFINITY}, 0, &e), ERR_DATA,
              "all logits");
    CHECK_OK(kld_top_w_row(w, (const float[]){0, -INFINITY, 1}, 0, &e));
    kld_top_w_close(w); /* incomplete: leaves no file */
    CHECK(!io_exists(tmp_path("x")));
}

int main(void) {
    tmp_make();
    make_logits();
    RUN(test_rows);
    RUN(test_estimate_of_numpy);
    RUN(test_unbiased);
    RUN(test_damaged);
    tmp_remove();
    return check_done();
}
