// SPDX-License-Identifier: MIT
/* tests/unit/test_windows.c - windows fed block by block (session_opts.reread) give the same bits
 * as windows fed one by one: hidden rows, perplexity, divergence of candidates that start late, and
 * importance. Also how many windows are fed together. Random weights suffice, because the program
 * is compared only with itself. */
#include "base/mem.h"
#include "base/num.h"
#include "base/rng.h"
#include "calib/imatrix.h"
#include "convert/convert.h"
#include "runtime/generate/windows.h"
#include "runtime/measure/internal.h"
#include "tests/check.h"
#include "tests/unit/micro.h"
#include "tests/unit/with.h"

enum { CTX = 12, N = 7, LAYERS = 64 };
static int32_t ids[N * CTX];

static struct model *open_model(const char *name, bool micro) {
    struct err e = {0};
    struct model *m = NULL;
    struct convert_report r;
    char *src = xasprintf("tests/golden/%s/%s", micro ? "archs" : "models", name);
    struct convert_opts o = {.src = micro ? micro_folder(src, NULL) : src,
                             .out = tmp_path("m.gguf"),
                             .type = "f32",
                             .overwrite = true};
    CHECK_OK(convert_run(&o, &r, &e));
    CHECK_OK(model_open(&m, tmp_path("m.gguf"), &e));
    free(src);
    struct rng rng = {5};
    for (int i = 0; i < N * CTX; i++)
        ids[i] = (int32_t)(rng_u64(&rng) % (uint64_t)m->hp.d[HD_VOCAB]);
    return m;
}

/* Opens a session whose passes take n_rows rows. */
static struct session *open_rows(const struct model *m, int64_t n_rows, bool reread) {
    struct err e = {0};
    struct session *s = NULL;
    const struct session_opts o = {
        .n_ctx = CTX, .n_ubatch = n_rows, .isa = kern_isa_best(), .act = ACT_F32, .reread = reread};
    CHECK_OK(session_new(&s, m, &o, &e));
    return s;
}

/* Feeds all windows together, in passes of n_rows rows, and compares the hidden rows. */
static void feed_rows(const struct model *m, int64_t n_rows, const float *want) {
    struct err e = {0};
    struct windows w;
    struct session *s = open_rows(m, n_rows, true);
    const int64_t d = m->hp.d[HD_EMBD];
    float *got = xcalloc((size_t)(N * CTX * d), sizeof *got);
    const int32_t *window[N];
    for (int i = 0; i < N; i++) window[i] = ids + i * CTX;
    CHECK_OK(windows_open(&w, s, CTX, N, 1, false, &e));
    CHECK_EQ_I64(w.most, N);
    CHECK_EQ_I64(w.batch, max_i64(1, n_rows / CTX));
    CHECK_OK(windows_feed(&w, window, N, 0, NULL, got, &e));
    CHECK(memcmp(got, want, (size_t)(N * CTX * d) * sizeof *got) == 0);
    windows_close(&w);
    session_free(s);
    free(got);
}

static void hidden_of(const struct model *m) {
    struct err e = {0};
    struct session *s = open_rows(m, CTX, false);
    const int64_t d = m->hp.d[HD_EMBD];
    float *want = xcalloc((size_t)(N * CTX * d), sizeof *want);
    for (int i = 0; i < N; i++) {
        session_reset(s);
        CHECK_OK(session_forward(s, ids + i * CTX, CTX, want + i * CTX * d, &e));
    }
    session_free(s);
    const int64_t rows[] = {5, CTX, 3 * CTX}; /* less than a window; one; several */
    for (size_t k = 0; k < COUNT_OF(rows); k++) feed_rows(m, rows[k], want);
    free(want);
}

/* Compares models: delta rules with experts, windows of attention, Mamba with attention, latent
 * attention, and blocks that take more than the residual. */
static void test_hidden(void) {
    static const char *const micro[] = {"gptoss", "falcon-h1", "deepseek-v2", "granite4moe",
                                        "lfm2",   "cohere2",   "kimi-linear"};
    struct model *m = open_model("qwen35moe", false);
    hidden_of(m);
    model_close(m);
    for (size_t i = 0; i < COUNT_OF(micro); i++) {
        m = open_model(micro[i], true);
        hidden_of(m);
        model_close(m);
    }
}

/* Models whose blocks cannot run alone are fed as before. */
static void test_apart(void) {
    struct err e = {0};
    struct windows w;
    struct model *m = open_model("gemma3n", true);
    struct session *s = open_rows(m, 2 * CTX, true);
    CHECK(!session_can_begin(s, 1));
    CHECK_OK(windows_open(&w, s, CTX, N, 1, false, &e));
    CHECK_EQ_I64(w.most, 2);
    windows_close(&w);
    session_free(s);
    model_close(m);
}

/* Checks perplexity and divergences: candidates that start at block 1 and 2, at the head, and one
 * that changes the first block. */
static void test_measures(void) {
    static const char *const changed[] = {"blk.1.ffn_down_exps.weight", "blk.2.ffn_up_exps.weight",
                                          "output_norm.weight", "blk.0.ffn_down_exps.weight"};
    enum { CANDS = COUNT_OF(changed) };
    struct err e = {0};
    struct model *m = open_model("qwen35moe", false), *with[CANDS];
    struct eval_kld_run r[2];
    struct eval_ppl ppl[2];
    const struct ids all = {.v = ids, .n = N * CTX};
    const struct eval_domain domain = {.name = "", .ids = ids, .n_ids = N * CTX};
    for (int i = 0; i < CANDS; i++) with[i] = with_scaled(m, changed[i], 1.25F);
    for (int way = 0; way < 2; way++) {
        struct session *b = open_rows(m, way ? 2 * CTX : CTX, way), *c[CANDS];
        for (int i = 0; i < CANDS; i++) c[i] = open_rows(with[i], way ? 2 * CTX : CTX, way);
        const struct eval_kld_job job = {.base = b,
                                         .cand = c,
                                         .n_cand = CANDS,
                                         .domain = &domain,
                                         .n_domains = 1,
                                         .ctx = CTX,
                                         .from = CTX / 2,
                                         .same_graph = way};
        CHECK_OK(eval_kld_open(&job, &r[way], &e));
        CHECK_OK(eval_ppl(b, &all, CTX, 0, 0, NULL, &ppl[way], &e));
        for (int i = 0; i < CANDS; i++) session_free(c[i]);
        session_free(b);
    }
    CHECK(ppl[0].ppl > 1 && memcmp(&ppl[0].ppl, &ppl[1].ppl, sizeof ppl[0].ppl) == 0);
    for (int i = 0; i < CANDS; i++) {
        const struct kld_pos *x = &r[0].pos[i], *y = &r[1].pos[i];
        CHECK_EQ_I64(x->n, y->n);
        CHECK(x->n > 0 && x->kld[0] > 0);
        CHECK(memcmp(x->kld, y->kld, (size_t)x->n * sizeof *x->kld) == 0);
    }
    for (int way = 0; way < 2; way++) eval_kld_close(&r[way]);
    for (int i = 0; i < CANDS; i++) model_close(with[i]);
    model_close(m);
}

/* Collects importance from a text. */
static void collect(const struct model *m, bool reread, struct imat *out) {
    struct err e = {0};
    static const char words[] = "The windows of a text run block by block. ";
    enum { TIMES = 400, LENGTH = sizeof words - 1 };
    char *text = xcalloc(TIMES, LENGTH);
    for (int i = 0; i < TIMES; i++) memcpy(text + i * LENGTH, words, LENGTH);
    tmp_write("text", (const uint8_t *)text, (size_t)TIMES * LENGTH);
    free(text);
    char *path = xasprintf("%s", tmp_path("text"));
    const char *const texts[] = {path};
    const struct imatrix_opts o = {
        .texts = texts, .n_texts = 1, .ctx = 32, .isa = kern_isa_best(), .reread = reread};
    imat_init(out);
    CHECK_OK(imatrix_collect(m, &o, out, &e));
    free(path);
}

/* Checks that importance is the same, from more windows than a pass takes. */
static void test_importance(void) {
    struct model *m = open_model("qwen35moe", false);
    struct imat a, b;
    collect(m, false, &a);
    collect(m, true, &b);
    CHECK_EQ_I64(a.n_entries, b.n_entries);
    CHECK(a.n_chunks == b.n_chunks && a.n_chunks > 2 * WINDOWS_PIECE / 32);
    for (int64_t i = 0; i < a.n_entries; i++) {
        const struct imat_entry *x = &a.entry[i], *y = imat_find(&b, x->name);
        CHECK(y && memcmp(x->sum2, y->sum2, (size_t)(x->n_mat * x->ne0) * sizeof *x->sum2) == 0);
    }
    imat_release(&a);
    imat_release(&b);
    model_close(m);
}

/* Two sessions of 4,096 values in 512 tokens keep 48 MiB per window, in 1/16 of memory up to
 * 16 GiB. */
static void test_number(void) {
    CHECK_EQ_I64(windows_by_block(512, 4096, 2, 0x1p33), 10);
    CHECK_EQ_I64(windows_by_block(512, 4096, 2, 0x1p34), 21);
    CHECK_EQ_I64(windows_by_block(512, 4096, 2, 0x1p40), 21);
    CHECK_EQ_I64(windows_by_block(512, 4096, 2, 0), 1);
}

int main(void) {
    tmp_make();
    RUN(test_hidden);
    RUN(test_apart);
    RUN(test_measures);
    RUN(test_importance);
    RUN(test_number);
    tmp_remove();
    return check_done();
}
