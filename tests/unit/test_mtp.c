// SPDX-License-Identifier: MIT
/* tests/unit/test_mtp.c - the MTP block: its logits are compared with an independent float64
 * implementation (tests/oracle/mtp.py) in every batching and with every kernel set, generation with
 * drafts is compared with plain generation, its calibration with direct sums, and the acceptance
 * rate with a count. */
#include "calib/imatrix.h"
#include "calib/moments.h"
#include "runtime/generate/draft.h"
#include "runtime/generate/drafter.h"
#include "runtime/measure/eval.h"
#include "runtime/measure/internal.h"
#include "tests/unit/golden.h"
#include "runtime/engine/logits.h"

/* f32 against f64: the trunk's rows differ by up to 1e-4 (test_session), one block and a head
 * follow with values and logits up to 37. The bound is the project's. */
static const double TOL = 5e-4;
#define MODELS "tests/golden/models/"
static const char *const name[] = {"qwen35", "qwen35moe"};

static struct model *open_model(const char *which) {
    char *folder = xasprintf(MODELS "%s", which);
    struct model *m = golden_open(folder, tmp_path("m.gguf"));
    free(folder);
    return m;
}

static int32_t *golden_ids(const char *which, int64_t *n) {
    struct golden g;
    char *folder = xasprintf(MODELS "%s", which);
    int32_t *ids = NULL;
    if (golden_load(&g, folder)) {
        ids = xcalloc((size_t)g.n_ids, sizeof *ids);
        memcpy(ids, g.ids, (size_t)g.n_ids * sizeof *ids);
        *n = g.n_ids;
    }
    golden_release(&g);
    free(folder);
    return ids;
}

/* Converts the block of a model to a file of its own; returns its path. */
static const char *block_file(const char *which, const char *type) {
    char *folder = xasprintf(MODELS "%s", which);
    const char *out = golden_mtp_file(folder, tmp_path("mtp.gguf"), type);
    free(folder);
    return out;
}

/* Returns the logits of the block (how: drafter_open) for rows 0 .. n - 2, fed in pieces. */
static float *drafted(const struct model *m, const char *how, struct session_opts *o,
                      const int32_t *ids, int64_t n, const int *pieces) {
    struct err e = {0};
    struct session *t = NULL;
    struct drafter *by = NULL;
    int64_t d = m->hp.d[HD_EMBD], v = m->hp.d[HD_VOCAB];
    float *y = xcalloc((size_t)(n * d), sizeof *y), *h = xcalloc((size_t)(n * d), sizeof *h);
    float *l = xcalloc((size_t)(n * v), sizeof *l);
    CHECK_OK(session_new(&t, m, o, &e));
    CHECK_OK(session_forward(t, ids, n, y, &e));
    CHECK_OK(drafter_open(&by, t, how, &e));
    if (!by) return l;
    struct session *s = by->s;
    for (int64_t i = 0, k; i < n - 1; i += k) {
        k = min_i64(*pieces, n - 1 - i);
        struct session_pass p = {.ids = ids + i + 1, .n = k, .hidden_in = y + i * d};
        p.hidden = h + i * d;
        p.logits = l + (i + k - 1) * v; /* the same through the head, below */
        CHECK_OK(session_pass(s, &p, &e));
        if (pieces[1]) pieces++;
    }
    CHECK_EQ_I64(session_pos(s), n - 1);
    float *again = xcalloc((size_t)v, sizeof *again);
    CHECK_OK(session_head(s, h + (n - 2) * d, 1, again, &e));
    CHECK(memcmp(again, l + (n - 2) * v, (size_t)v * sizeof *again) == 0);
    CHECK_OK(session_head(s, h, n - 1, l, &e));
    drafter_close(by);
    session_free(t);
    free(again);
    free(y);
    free(h);
    return l;
}

/* Compares the logits of the block, in every batching and with every kernel set. */
static void check_logits(const struct model *m, const char *which, const char *how,
                         const struct st *oracle) {
    int64_t n = 0, n_rows = 0, n_logits = 0;
    const int64_t v = m->hp.d[HD_VOCAB];
    int32_t *ids = golden_ids(which, &n);
    float *row = golden_floats(oracle, "rows", &n_rows);
    float *want = golden_floats(oracle, "logits", &n_logits);
    CHECK_EQ_I64(n_logits, n_rows * v);
    CHECK_EQ_I64(n_rows, 20);
    for (int isa = KERN_REF; isa <= (int)kern_isa_best(); isa++)
        for (size_t b = 0; b < COUNT_OF(golden_batching); b += isa == KERN_REF ? 2 : 1) {
            struct session_opts o = {
                .n_ctx = n, .n_ubatch = golden_batching[b].n_ubatch, .isa = (enum kern_isa)isa};
            float *l = drafted(m, how, &o, ids, n, golden_batching[b].pieces);
            double diff = 0;
            for (int64_t i = 0; i < n_rows; i++)
                diff = fmax(diff, golden_diff(l + (int64_t)row[i] * v, want + i * v, v));
            printf("%s, %s, %s, %s: max |logit difference| %.3g\n", which, io_base(how),
                   kern_isa_name((enum kern_isa)isa), golden_batching[b].name, diff);
            if (!(diff <= TOL)) CHECK_FAIL("%s: %g is more than %g", which, diff, TOL);
            free(l);
        }
    free(row);
    free(want);
    free(ids);
}

static void test_logits(void) {
    for (int k = 0; k < 2; k++) {
        struct err e = {0};
        struct st *st = NULL;
        char *path = xasprintf("tests/golden/mtp/%s.safetensors", name[k]);
        CHECK_OK(st_open(&st, path, &e));
        struct model *m = open_model(name[k]);
        if (!st || !m) return;
        check_logits(m, name[k], "mtp", st);
        check_logits(m, name[k], block_file(name[k], "f32"), st);
        free(path);
        st_close(st);
        model_close(m);
    }
}

/* Compares drafting with plain sessions: every token's logits must be those of the trunk alone,
 * whether the draft was right, wrong, or wrong many times in a row, and right drafts must be
 * counted. */
static void test_generation(void) {
    enum { N = 60 };
    for (int k = 0; k < 2; k++) {
        struct err e = {0};
        struct model *m = open_model(name[k]);
        struct session *trunk = NULL, *plain = NULL;
        struct drafter *by = NULL;
        struct draft *d = NULL;
        int64_t n;
        int32_t *ids = golden_ids(name[k], &n);
        struct session_opts o = {.n_ctx = N + 12, .isa = kern_isa_best()};
        if (!m || !ids) return;
        CHECK_OK(session_new(&trunk, m, &o, &e));
        CHECK_OK(draft_new(&d, trunk, "mtp", &e));
        CHECK_OK(session_new(&plain, m, &o, &e));
        CHECK_OK(drafter_open(&by, plain, "mtp", &e));
        if (!by) return;
        int64_t w = m->hp.d[HD_EMBD], v = m->hp.d[HD_VOCAB], right = 0;
        float *y = xcalloc((size_t)w, sizeof *y), *h = xcalloc((size_t)w, sizeof *h);
        float *l = xcalloc((size_t)(3 * v), sizeof *l);
        CHECK_OK(draft_feed(d, ids, 10, l, &e)); /* a prompt, then its pairs for the block */
        struct session_pass pairs = {.n = 1, .hidden_in = y, .logits = l + v};
        for (int64_t i = 0; i < 9; i++) {
            CHECK_OK(session_forward(plain, ids + i, 1, y, &e));
            pairs.ids = ids + i + 1;
            CHECK_OK(session_pass(by->s, &pairs, &e));
        }
        CHECK_OK(session_forward(plain, ids + 9, 1, y, &e));
        double diff = 0;
        int32_t guess = -1, id = ids[10];
        pairs.ids = &id;
        pairs.hidden = h;
        for (int64_t i = 0; i < N; i++) {
            CHECK_OK(draft_feed(d, &id, 1, l, &e));
            CHECK_OK(session_pass(by->s, &pairs, &e));
            guess = (int32_t)logits_argmax(l + v, v);
            CHECK_OK(session_forward(plain, &id, 1, y, &e));
            CHECK_OK(session_head(plain, y, 1, l + 2 * v, &e));
            diff = fmax(diff, golden_diff(l, l + 2 * v, v));
            bool follow = i % 7 < 4; /* the draft, or a different token */
            right += follow;
            id = follow ? guess : (guess + 1 + (int32_t)i) % (int32_t)v;
        }
        struct draft_stats st = draft_get_stats(d);
        printf("%s: %lld of %lld drafted tokens accepted, max |logit difference| %.3g\n", name[k],
               (long long)st.n_accepted, (long long)st.n_drafted, diff);
        CHECK(diff <= 1e-4);
        /* no draft directly after a right one, nor after two wrong ones in a row */
        CHECK(st.n_accepted >= N / 7 && st.n_accepted <= right);
        CHECK(st.n_drafted > st.n_accepted && st.n_drafted < N);
        /* a different prompt after a draft, and a restart */
        CHECK_OK(draft_feed(d, &id, 1, l, &e));
        CHECK_OK(session_step(plain, &id, 1, l + v, &e));
        CHECK(golden_diff(l, l + v, v) <= 1e-4);
        draft_reset(d);
        session_reset(plain);
        CHECK_OK(draft_feed(d, ids, 1, l, &e));
        CHECK_OK(draft_feed(d, ids + 1, 1, l, &e));
        CHECK_OK(draft_feed(d, ids + 2, 5, l, &e));
        CHECK_OK(session_step(plain, ids, 7, l + v, &e));
        CHECK(golden_diff(l, l + v, v) <= 1e-4);
        free(y);
        free(h);
        free(l);
        free(ids);
        draft_free(d);
        drafter_close(by);
        session_free(plain);
        session_free(trunk);
        model_close(m);
    }
}

/* Checks that returning to the mark gives the same bits as if nothing had been fed since. */
static void test_mark(void) {
    struct err e = {0};
    struct model *m = open_model("qwen35moe");
    int64_t n;
    int32_t *ids = golden_ids("qwen35moe", &n);
    struct session *s = NULL;
    struct session_opts o = {.n_ctx = 40, .isa = kern_isa_best()};
    if (!m || !ids) return;
    int64_t v = m->hp.d[HD_VOCAB];
    float *a = xcalloc((size_t)(2 * v), sizeof *a), *b = a + v;
    CHECK_OK(session_new(&s, m, &o, &e));
    CHECK_OK(session_step(s, ids, 10, a, &e));
    CHECK_OK(session_mark(s, &e));
    CHECK_OK(session_step(s, ids + 10, 3, a, &e));
    session_rewind(s);
    CHECK_EQ_I64(session_pos(s), 10);
    CHECK_OK(session_step(s, ids + 40, 7, b, &e));
    session_rewind(s);
    CHECK_OK(session_step(s, ids + 10, 3, b, &e));
    CHECK(memcmp(a, b, (size_t)v * sizeof *a) == 0);
    session_free(s);
    free(a);
    free(ids);
    model_close(m);
}

static void test_refusals(void) {
    struct err e = {0};
    struct model *m = golden_open(MODELS "qwen3", tmp_path("m.gguf")), *d = NULL;
    struct session *s = NULL;
    struct session_opts o = {.n_ctx = 8};
    float y[8] = {0};
    int32_t id = 1;
    if (!m) return;
    CHECK_ERR(model_open_draft(&d, m, &e), ERR_DATA, "no MTP block");
    CHECK_OK(session_new(&s, m, &o, &e));
    CHECK_ERR(session_pass(s, &(struct session_pass){.ids = &id, .n = 1, .hidden_in = y}, &e),
              ERR_USAGE, "hidden rows");
    session_free(s);
    model_close(m);
    m = open_model("qwen35");
    if (!m) return;
    CHECK_OK(model_open_draft(&d, m, &e));
    CHECK_OK(session_new(&s, d, &o, &e));
    CHECK_ERR(session_forward(s, &id, 1, NULL, &e), ERR_USAGE, "hidden rows");
    session_free(s);
    model_close(d);
    model_close(m);
}

/* Checks that importance is the same if second moments are collected too, whose gradients run the
 * trunk in a different way. */
static void same_with_moments(const struct model *m, struct imatrix_opts o, const struct imat *im) {
    struct err e;
    struct imat with;
    struct gram_col *col = NULL;
    struct pool *pool = NULL;
    imat_init(&with);
    CHECK_OK(pool_new(&pool, 1, &e));
    CHECK_OK(gram_col_new(&col, 0, kern_isa_best(), pool, &e));
    o.gram = col;
    o.pool = pool;
    CHECK_OK(imatrix_collect(m, &o, &with, &e));
    CHECK_EQ_I64(with.n_entries, im->n_entries);
    for (int64_t i = 0; i < im->n_entries; i++) {
        const struct imat_entry *x = &im->entry[i], *y = imat_find(&with, x->name);
        const size_t n = (size_t)(x->n_mat * x->ne0);
        if (!y || memcmp(x->sum2, y->sum2, n * sizeof *x->sum2) != 0) CHECK_FAIL("%s", x->name);
    }
    gram_col_free(col);
    pool_free(pool);
    imat_release(&with);
}

/* Tests calibration. The input of eh_proj is (embedding | hidden row), normalised, so its first
 * half needs no forward pass. Every matrix of the block is summed, with one row less per chunk than
 * the trunk's. */
static void test_calibration(void) {
    enum { CTX = 64, CHUNKS = 2 };
    static const char *const matrix[] = {"nextn.eh_proj", "attn_q",        "attn_output",
                                         "ffn_gate_exps", "ffn_down_exps", "ffn_down_shexp"};
    struct err e = {0};
    struct model *m = open_model("qwen35moe");
    struct imat im;
    struct ids ids = {0};
    const char *text[] = {"tests/golden/models/qwen35moe/tokenizer_config.json"};
    imat_init(&im);
    struct imatrix_opts o = {
        .texts = text, .n_texts = 1, .ctx = CTX, .max_chunks = CHUNKS, .isa = kern_isa_best()};
    if (!m) return;
    CHECK_OK(imatrix_collect(m, &o, &im, &e));
    CHECK_OK(corpus_load(m, text[0], false, &ids, &e));
    const struct gguf_tensor *te = gguf_find_tensor(m->gguf, "token_embd.weight");
    const struct gguf_tensor *tn = gguf_find_tensor(m->gguf, "blk.4.nextn.enorm.weight");
    const struct imat_entry *en = imat_find(&im, "blk.4.nextn.eh_proj.weight");
    CHECK(te && tn && en && ids.n >= CTX * CHUNKS);
    if (!te || !tn || !en) return;
    const float *embd = (const float *)(const void *)te->data,
                *norm = (const float *)(const void *)tn->data;
    int64_t d = m->hp.d[HD_EMBD];
    CHECK_EQ_I64(en->ne0, 2 * d);
    double *want = xcalloc((size_t)d, sizeof *want);
    for (int64_t t = 0; t < CTX * CHUNKS; t++) {
        const float *x = embd + ids.v[t] * d;
        double ss = 0;
        if (t % CTX == 0) continue; /* no hidden row before it */
        for (int64_t i = 0; i < d; i++) ss += (double)x[i] * (double)x[i];
        double scale = 1 / sqrt(ss / (double)d + m->hp.f[HF_RMS_EPS]);
        for (int64_t i = 0; i < d; i++) {
            double h = (double)x[i] * scale * (double)norm[i];
            want[i] += h * h;
        }
    }
    for (int64_t i = 0; i < d; i++) CHECK(fabs(en->sum2[i] - want[i]) <= 1e-5 * want[i]);
    for (int64_t i = d; i < 2 * d; i++) CHECK(en->sum2[i] > 0);
    for (size_t i = 0; i < COUNT_OF(matrix); i++) {
        char *full = xasprintf("blk.4.%s.weight", matrix[i]);
        const struct imat_entry *x = imat_find(&im, full);
        double count = 0;
        for (int64_t j = 0; x && j < x->n_mat; j++) count += x->count[j];
        int64_t each = x && x->n_mat > 1 ? m->hp.d[HD_EXPERTS_USED] : 1;
        if ((int64_t)count != each * (CTX - 1) * CHUNKS) CHECK_FAIL("%s: count %g", full, count);
        free(full);
    }
    free(want);
    ids_release(&ids);
    same_with_moments(m, o, &im);
    imat_release(&im);
    model_close(m);
}

/* Returns the acceptance rate of the drafts (how: drafter_open) over two windows of 40 ids. */
static struct eval_mtp acceptance(const struct model *m, const char *how, const struct ids *ids) {
    struct err e = {0};
    struct session *t = NULL;
    struct drafter *d = NULL;
    struct eval_mtp r = {0};
    struct session_opts o = {.n_ctx = 40, .isa = kern_isa_best()};
    CHECK_OK(session_new(&t, m, &o, &e));
    CHECK_OK(drafter_open(&d, t, how, &e));
    if (d) CHECK_OK(eval_mtp(t, d, ids, 40, 0, &r, NULL, &e));
    drafter_close(d);
    session_free(t);
    return r;
}

/* Checks that a block in a file of its own is accepted as often as in the model's file, and for a
 * model's file without it, and that files of other models are refused. */
static void test_block_file(void) {
    static const char *const other[] = {"qwen35", "qwen3"};
    for (int k = 0; k < 2; k++) {
        struct err e = {0};
        struct ids ids = {0};
        int64_t n = 0;
        char *folder = xasprintf(MODELS "%s", name[k]);
        struct convert_report r;
        struct convert_opts o = {
            .src = folder, .out = tmp_path("none.gguf"), .type = "f32", .no_mtp = true};
        struct model *m = open_model(name[k]), *none = NULL;
        int32_t *g = golden_ids(name[k], &n);
        o.overwrite = true;
        CHECK_OK(convert_run(&o, &r, &e));
        CHECK_OK(model_open(&none, o.out, &e));
        if (!m || !none || !g) return;
        for (int64_t i = 0; i < n; i++) ids_add(&ids, g[i]);
        const char *file = block_file(name[k], "f32");
        const struct eval_mtp want = acceptance(m, "mtp", &ids);
        CHECK(want.overlap > 0);
        const struct eval_mtp got[] = {acceptance(m, file, &ids), acceptance(none, file, &ids)};
        for (int i = 0; i < 2; i++) {
            CHECK_EQ_I64(got[i].n_tokens, want.n_tokens);
            CHECK_CLOSE(got[i].acceptance, want.acceptance, 0);
            CHECK_CLOSE(got[i].overlap, want.overlap, 0);
        }
        printf("%s: %.4f accepted\n", name[k], want.acceptance);
        struct model *d = NULL; /* for models of another size */
        none->hp.d[HD_LAYERS]++;
        CHECK_ERR(model_open_draft_file(&d, file, none, &e), ERR_DATA, "a layer count of 4");
        none->hp.d[HD_LAYERS]--;
        none->hp.d[HD_VOCAB]++;
        CHECK_ERR(model_open_draft_file(&d, file, none, &e), ERR_DATA, "a vocabulary of");
        model_close(none);
        model_close(m);
        free(folder);
        free(g);
        ids_release(&ids);
    }
    for (int k = 0; k < 2; k++) { /* the file of qwen35moe */
        struct err e = {0};
        struct model *m = open_model(other[k]), *d = NULL;
        if (!m) return;
        CHECK_ERR(model_open_draft_file(&d, tmp_path("mtp.gguf"), m, &e), ERR_DATA,
                  "its model is qwen35moe, but ");
        model_close(m);
    }
}

/* Compares the rate with a count over the logits that test_logits checks. */
static void test_acceptance(void) {
    enum { CTX = 40 };
    struct model *m = open_model("qwen35moe");
    struct ids ids = {0};
    int64_t n, hits = 0, trunk = 0, rows = 0;
    int32_t *g = golden_ids("qwen35moe", &n);
    struct session_opts o = {.n_ctx = CTX, .isa = kern_isa_best()};
    if (!m || !g) return;
    int64_t v = m->hp.d[HD_VOCAB];
    double overlap = 0;
    for (int64_t i = 0; i < n; i++) ids_add(&ids, g[i]);
    for (int64_t c = 0; c < 2; c++) {
        float *ld = drafted(m, "mtp", &o, g + c * CTX, CTX, golden_all);
        float *lt = golden_run(m, &o, g + c * CTX, CTX, golden_all, NULL, NULL, NULL);
        for (int64_t i = CTX / 2; i < CTX - 2; i++, rows++) {
            const float *a = lt + (i + 1) * v, *b = ld + i * v;
            double za = 0, zb = 0;
            hits += logits_argmax(a, v) == logits_argmax(b, v);
            trunk += logits_argmax(a, v) == g[c * CTX + i + 2];
            for (int64_t j = 0; j < v; j++) za += exp((double)a[j]), zb += exp((double)b[j]);
            for (int64_t j = 0; j < v; j++)
                overlap += fmin(exp((double)a[j]) / za, exp((double)b[j]) / zb);
        }
        free(lt);
        free(ld);
    }
    const struct eval_mtp r = acceptance(m, "mtp", &ids);
    CHECK_EQ_I64(r.n_tokens, rows);
    CHECK_EQ_I64(r.n_chunks, 2);
    CHECK_CLOSE(r.acceptance, (double)hits / (double)rows, 1e-12);
    CHECK_CLOSE(r.trunk_top1, (double)trunk / (double)rows, 1e-12);
    CHECK_CLOSE(r.overlap, overlap / (double)rows, 1e-5); /* f32 exponentials there */
    CHECK(r.overlap > 0 && r.overlap < 1);
    free(g);
    ids_release(&ids);
    model_close(m);
}

int main(void) {
    tmp_make();
    RUN(test_logits);
    RUN(test_generation);
    RUN(test_mark);
    RUN(test_refusals);
    RUN(test_calibration);
    RUN(test_acceptance);
    RUN(test_block_file);
    tmp_remove();
    return check_done();
}
