// SPDX-License-Identifier: MIT
/* tests/unit/test_cuda_eval.c - perplexity and divergence computed on a device, without downloading
 * logits, compared with the CPU's, which test_eval compares with numpy; calibration sums compared
 * with the rows that an observer receives. `make test`: the emulated device; `make check-cuda`: the
 * real one. */
#include "calib/imatrix.h"
#include "kernels/cuda/cuda.h"
#include "quantize/quantize.h"
#include "runtime/engine/placement.h"
#include "runtime/measure/eval.h"
#include "runtime/measure/kld_int.h"
#include "tests/cuda-emu/control.h"
#include "tests/unit/golden.h"
#include "tests/unit/with.h"

enum { CTX = 8 };
static struct model *base, *other;
static struct golden golden;

static struct session *open_for(const struct model *m, enum device_kind kind, int64_t n_ubatch) {
    struct err e = {0};
    struct session *s = NULL;
    const struct session_opts o = {.n_ctx = 32, .n_ubatch = n_ubatch, .device = {.kind = kind}};
    CHECK_OK(session_new(&s, m, &o, &e));
    return s;
}
static struct session *open_on(const struct model *m, enum device_kind kind) {
    return open_for(m, kind, 16);
}

static void test_ppl(void) {
    struct err e;
    struct eval_ppl r[2];
    const struct ids ids = {.v = golden.ids, .n = 2 * CTX};
    for (int i = 0; i < 2; i++) {
        struct session *s = open_on(other, i ? DEVICE_CUDA : DEVICE_CPU);
        CHECK(session_can_score(s, NULL) == (i == 1));
        CHECK_OK(eval_ppl(s, &ids, CTX, 0, 1, NULL, &r[i], &e));
        session_free(s);
    }
    CHECK_EQ_I64(r[0].n_tokens, r[1].n_tokens);
    CHECK_CLOSE(r[1].mean_nll, r[0].mean_nll, 1e-5);
}

/* Checks that candidates on the device, on the CPU, and on both give the same numbers for each
 * position. */
static void test_kld(void) {
    struct err e;
    struct eval_kld k[3][2];
    const struct ids ids = {.v = golden.ids, .n = 2 * CTX};
    static const enum device_kind on[3][3] = {{DEVICE_CPU, DEVICE_CPU, DEVICE_CPU},
                                              {DEVICE_CUDA, DEVICE_CUDA, DEVICE_CPU},
                                              {DEVICE_CUDA, DEVICE_CUDA, DEVICE_CUDA}};
    for (int i = 0; i < 3; i++) {
        struct session *b = open_on(base, on[i][0]);
        struct session *c[2] = {open_on(other, on[i][1]), open_on(base, on[i][2])};
        CHECK(session_can_score(c[0], b) == (i > 0));
        CHECK(session_can_score(c[1], b) == (i == 2));
        CHECK_OK(eval_kld(b, c, 2, &ids, CTX, 1, k[i], NULL, &e));
        session_free(b);
        for (int n = 0; n < 2; n++) session_free(c[n]);
    }
    CHECK(k[0][0].mean_kld > 1e-3); /* Q4_0 */
    for (int i = 1; i < 3; i++)
        for (int n = 0; n < 2; n++) {
            const struct eval_kld *a = &k[0][n], *b = &k[i][n];
            CHECK_EQ_I64(b->n_tokens, a->n_tokens);
            CHECK_CLOSE(b->mean_kld, a->mean_kld, 1e-5);
            CHECK_CLOSE(b->max_kld, a->max_kld, 1e-4);
            CHECK_CLOSE(b->ppl / a->ppl, 1, 1e-5);
            CHECK_CLOSE(b->ppl_base / a->ppl_base, 1, 1e-5);
            CHECK_CLOSE(b->same_top1, a->same_top1, 1e-12);
            CHECK_CLOSE(b->rms_dp, a->rms_dp, 1e-6);
        }
}

/* Checks that windows run together give bit-identical numbers to windows run one by one; the first
 * pass runs one window, to measure its time. */
static void test_windows(void) {
    struct err e;
    struct eval_ppl p[2];
    struct eval_kld k[2];
    const struct ids ids = {.v = golden.ids, .n = golden.n_ids};
    for (int i = 0; i < 2; i++) {
        const int64_t n_ubatch = i ? 3 * CTX : CTX;
        struct session *b = open_for(base, DEVICE_CUDA, n_ubatch),
                       *c = open_for(other, DEVICE_CUDA, n_ubatch);
        CHECK_OK(eval_ppl(c, &ids, CTX, 0, 4, NULL, &p[i], &e));
        CHECK_OK(eval_kld(b, &c, 1, &ids, CTX, 4, &k[i], NULL, &e));
        CHECK((seq_pos(session_own_seq(c)) > 0) == (i == 0)); /* exactly the expected sessions
                                                               * were fed */
        session_free(b);
        session_free(c);
    }
    CHECK(p[0].n_tokens > CTX);
    CHECK_EQ_I64(p[1].n_tokens, p[0].n_tokens);
    CHECK(memcmp(&p[0].mean_nll, &p[1].mean_nll, sizeof(double)) == 0);
    CHECK(memcmp(&k[0].mean_kld, &k[1].mean_kld, sizeof(double)) == 0);
    CHECK(memcmp(&k[0].max_kld, &k[1].max_kld, sizeof(double)) == 0);
}

/* Checks that rows are scored on the device: for four windows, only the results per row are
 * downloaded, with one wait per block of rows. */
static void test_rows_stay(void) {
    struct err e;
    struct eval_ppl p;
    struct eval_kld k;
    struct emu_counts n[3];
    const struct ids ids = {.v = golden.ids, .n = golden.n_ids};
    struct session *b = open_for(base, DEVICE_CUDA, 4 * CTX),
                   *c = open_for(other, DEVICE_CUDA, 4 * CTX);
    emu_count(&n[0]);
    CHECK_OK(eval_ppl(c, &ids, CTX, 0, 4, NULL, &p, &e));
    emu_count(&n[1]);
    CHECK_OK(eval_kld(b, &c, 1, &ids, CTX, 4, &k, NULL, &e));
    emu_count(&n[2]);
    CHECK(p.n_tokens > 8);
    CHECK_EQ_I64(k.n_tokens, p.n_tokens);
    for (int i = 0; i < 2; i++) {
        const int64_t row = (int64_t)sizeof(struct cu_score_row);
        CHECK_EQ_I64(n[i + 1].down_bytes - n[i].down_bytes, p.n_tokens * row);
        CHECK_EQ_I64(n[i + 1].down - n[i].down, 4);              /* a block for each window */
        CHECK(n[i + 1].waits - n[i].waits <= (i + 1) * (4 + 4)); /* and at most four passes */
    }
    session_free(b);
    session_free(c);
}

/* Checks that candidates that start after another's blocks get its residuals within the device,
 * without further downloads; with a candidate on the CPU, only residuals at its start are
 * downloaded. The numbers equal those of full passes. */
static void test_begin_late(void) {
    enum { ALL, HANDED, LONG, ELSEWHERE, WAYS };
    static const char *const changed[] = {"blk.1.ffn_down_exps.weight", "blk.2.attn_q.weight",
                                          "output_norm.weight"};
    struct err e;
    struct emu_counts n[2] = {{0}};
    struct model *m[3];
    float *values[3];
    for (int i = 0; i < 3; i++) {
        const struct weight *old = model_find_weight(base, changed[i]);
        const int64_t count = old->ne[0] * old->ne[1] * old->ne[2];
        values[i] = xcalloc((size_t)count, sizeof *values[i]);
        for (int64_t k = 0; k < count; k++) values[i][k] = (float)(k % 17 + i) * 0.01f - 0.08f;
        m[i] = with_weight(base, changed[i], values[i], QT_F32, NULL);
    }
    struct eval_kld_run r[WAYS];
    for (int way = 0; way < WAYS; way++) {
        const struct eval_domain all = {.name = "", .ids = golden.ids, .n_ids = golden.n_ids};
        const int64_t n_ubatch = way == LONG ? CTX : 4 * CTX, rows = 4 * (CTX - CTX / 2 - 1);
        struct session *b = open_for(base, DEVICE_CUDA, n_ubatch), *c[3];
        for (int i = 0; i < 3; i++) {
            const bool off = way == ELSEWHERE && i == 2;
            c[i] = open_for(base, off ? DEVICE_CPU : DEVICE_CUDA, n_ubatch);
            CHECK_OK(session_use(c[i], m[i], &e));
        }
        const struct eval_kld_job job = {.base = b,
                                         .cand = c,
                                         .n_cand = 3,
                                         .domain = &all,
                                         .n_domains = 1,
                                         .ctx = CTX,
                                         .max_chunks = 4,
                                         .from = CTX / 2,
                                         .same_graph = way != ALL};
        CHECK(session_can_hand(b, c[0]));
        CHECK(session_can_hand(b, c[2]) == (way != ELSEWHERE));
        if (emu_count) emu_count(&n[0]);
        CHECK_OK(eval_kld_open(&job, &r[way], &e));
        if (emu_count) emu_count(&n[1]);
        if (emu_count && way != ELSEWHERE)
            CHECK_EQ_I64(n[1].down_bytes - n[0].down_bytes,
                         3 * rows * (int64_t)sizeof(struct cu_score_row));
        const struct session_pass none = {.ids = golden.ids, .n = 2, .begin = 1};
        CHECK_ERR(session_pass(b, &none, &e), ERR_USAGE, "needs its residual rows");
        session_free(b);
        for (int i = 0; i < 3; i++) session_free(c[i]);
        for (int i = 0; i < 3; i++) {
            const struct kld_pos *x = &r[ALL].pos[i], *y = &r[way].pos[i];
            CHECK_EQ_I64(y->n, rows);
            const bool same = memcmp(x->kld, y->kld, (size_t)rows * sizeof *x->kld) == 0;
            CHECK(same || way == ELSEWHERE);
            for (int64_t k = 0; k < rows; k++) CHECK_CLOSE(x->kld[k], y->kld[k], 1e-5);
        }
    }
    for (int i = 0; i < 3; i++) CHECK(r[ALL].pos[i].kld[0] > 0);
    for (int way = 0; way < WAYS; way++) eval_kld_close(&r[way]);
    for (int i = 0; i < 3; i++) {
        model_close(m[i]);
        free(values[i]);
    }
}

static uint64_t n_free(void) {
    struct err e = {0};
    struct cu_ctx *c = NULL;
    struct cu_info i = {0};
    CHECK_OK(cu_open(&c, 0, &e));
    CHECK_OK(cu_get_info(c, &i, &e));
    cu_close(c);
    return i.mem_free;
}

/* Two candidates, one with a replaced matrix, next to the base whose weights they share, as in
 * probes: as many windows at once as --max-vram allows. most: the limit or 0; *took gets the device
 * memory used. Returns whether several windows ran together. */
static bool sharing(uint64_t most, uint64_t *took, struct eval_kld k[2]) {
    struct err e = {0};
    const struct ids ids = {.v = golden.ids, .n = golden.n_ids};
    struct session_opts o = {.n_ctx = CTX,
                             .n_ubatch = 3 * CTX,
                             .device = {.kind = DEVICE_CUDA, .max_bytes = most},
                             .n_followers = 2};
    struct session *s[3] = {NULL, NULL, NULL};
    const uint64_t before = n_free();
    const char *name = "blk.1.ffn_down_exps.weight";
    const struct weight *old = model_find_weight(base, name);
    const int64_t n = old->ne[0] * old->ne[1] * old->ne[2];
    float *values = xcalloc((size_t)n, sizeof *values);
    for (int64_t i = 0; i < n; i++) values[i] = (float)(i % 17) * 0.01f - 0.08f;
    struct model *changed = with_weight(base, name, values, QT_F32, NULL);
    for (int i = 0; i < 3; i++) {
        CHECK_OK(session_new(&s[i], base, &o, &e));
        o.n_followers = 0;
    }
    CHECK_OK(session_use(s[1], changed, &e));
    CHECK_OK(eval_kld(s[0], &s[1], 2, &ids, CTX, 4, k, NULL, &e));
    const bool together = seq_pos(session_own_seq(s[0])) == 0;
    for (int i = 1; i < 3; i++) CHECK((seq_pos(session_own_seq(s[i])) == 0) == together);
    *took = before - n_free();
    for (int i = 2; i >= 0; i--) session_free(s[i]);
    model_close(changed);
    free(values);
    CHECK_EQ_I64(n_free(), before);
    return together;
}
static void test_sharing(void) {
    struct eval_kld k[2][2];
    uint64_t all = 0, took = 0;
    CHECK(sharing(0, &all, k[0]));
    bool together = true;
    int n = 0;
    /* until there is no room for a second window */
    for (uint64_t most = 2 * all; together && most > all / 2; most -= all / 4, n++) {
        together = sharing(most, &took, k[1]);
        CHECK(took <= most);
        for (int i = 0; i < 2; i++)
            CHECK(memcmp(&k[0][i].mean_kld, &k[1][i].mean_kld, sizeof(double)) == 0 &&
                  memcmp(&k[0][i].max_kld, &k[1][i].max_kld, sizeof(double)) == 0);
        CHECK(k[0][0].mean_kld > 0 && !(k[0][1].mean_kld > 0));
    }
    CHECK(!together && n > 1);
}

/* ---- sums for calibration -------------------------------------------------------------------- */

enum { MOST = 200 };
struct sums { /* sums of every product: columns and rows, expert after expert */
    const char *name[MOST];
    double *sum[MOST], *count[MOST];
    int64_t n_mat[MOST];
    int n;
};
static int place_of(struct sums *t, const struct gr_weight *w, int64_t n_mat) {
    int i = 0;
    while (i < t->n && strcmp(t->name[i], w->name) != 0) i++;
    if (i < t->n) return i;
    t->name[t->n] = w->name;
    t->n_mat[t->n] = n_mat;
    t->sum[t->n] = xcalloc((size_t)(n_mat * w->ne[0]), sizeof(double));
    t->count[t->n] = xcalloc((size_t)n_mat, sizeof(double));
    return t->n++;
}
/* Computes the sums by definition, row by row. */
static void see(void *ud, const struct session_shown *s) {
    struct sums *t = ud;
    const int64_t mat = s->expert < 0 ? 0 : s->expert, k = s->w->ne[0];
    const int i = place_of(t, s->w, s->expert < 0 ? 1 : s->w->ne[2]);
    for (int64_t r = 0; r < s->n_rows; r++)
        for (int64_t c = 0; c < k; c++)
            t->sum[i][mat * k + c] += (double)s->x[r * s->ld + c] * (double)s->x[r * s->ld + c];
    t->count[i][mat] += (double)s->n_rows;
}
static void take(void *ud, const struct gr_weight *w, int64_t n_mat, const double *sum2,
                 const double *count) {
    struct sums *t = ud;
    const int i = place_of(t, w, n_mat);
    CHECK_EQ_I64(t->n_mat[i], n_mat);
    if (!sum2) return;
    memcpy(t->sum[i], sum2, (size_t)(n_mat * w->ne[0]) * sizeof *sum2);
    memcpy(t->count[i], count, (size_t)n_mat * sizeof *count);
}

static void release(struct sums *t) {
    for (int i = 0; i < t->n; i++) {
        free(t->sum[i]);
        free(t->count[i]);
    }
    t->n = 0;
}

/* Checks that the device's sums are bit-identical to sums of the rows shown to an observer. */
static void test_sums(void) {
    static const int64_t pass[3] = {6, 3, 5}; /* the last two are one chunk */
    struct err e;
    static struct sums seen, part, made;
    struct model *m = golden_open("tests/golden/models/qwen35moe", tmp_path("s.gguf"));
    struct session *a = open_on(m, DEVICE_CUDA), *b = open_on(m, DEVICE_CUDA);
    const struct session_sums *sums = session_sums(b);
    CHECK_OK(sums->begin(b, take, &made, &e));
    for (int i = 0, at = 0; i < 3; at += (int)pass[i++]) {
        session_observe(a, &(struct session_probe){.ud = i < 1 ? &seen : &part, .product = see});
        CHECK_OK(session_forward(a, golden.ids + at, pass[i], NULL, &e));
        CHECK_OK(session_forward(b, golden.ids + at, pass[i], NULL, &e));
        if (i != 1) CHECK_OK(sums->chunk(b, &e));
    }
    CHECK_OK(sums->end(b, take, &made, &e));
    CHECK(seen.n == made.n && seen.n > 20);
    for (int i = 0; i < made.n; i++) {
        const struct gr_weight *w = NULL;
        for (int k = 0; k < m->graph.n_weights; k++)
            if (strcmp(m->graph.weight[k].name, made.name[i]) == 0) w = &m->graph.weight[k];
        const int64_t n = made.n_mat[i] * w->ne[0];
        const int at = place_of(&seen, w, made.n_mat[i]), p = place_of(&part, w, made.n_mat[i]);
        CHECK_EQ_I64(at, i); /* the order of a pass */
        bool same = true;
        for (int64_t k = 0; k < n; k++)
            same = same && seen.sum[at][k] + part.sum[p][k] == made.sum[i][k];
        for (int64_t k = 0; k < made.n_mat[i]; k++)
            same = same && seen.count[at][k] + part.count[p][k] == made.count[i][k];
        if (!same) CHECK_FAIL("%s: other sums", made.name[i]);
    }
    CHECK_OK(session_forward(b, golden.ids, 2, NULL, &e)); /* the session continues without sums */
    struct sums *all[] = {&seen, &part, &made};
    for (int t = 0; t < 3; t++) release(all[t]);
    session_free(a);
    session_free(b);
    a = open_on(m, DEVICE_CPU);
    CHECK(!session_sums(a));
    session_free(a);
    /* room for the session, none for sums or sequences: the session continues without them */
    a = open_on(m, DEVICE_CUDA);
    const uint64_t most = session_bytes(a) + (32 << 10);
    session_free(a);
    const struct session_opts o = {
        .n_ctx = 32, .n_ubatch = 16, .device = {.kind = DEVICE_CUDA, .max_bytes = most}};
    CHECK_OK(session_new(&a, m, &o, &e));
    CHECK(session_sums(a) != NULL);
    CHECK_ERR(session_sums(a)->begin(a, take, &part, &e), ERR_SYS, "--max-vram");
    struct seq *q = NULL;
    struct eval_ppl one;
    const struct ids ids = {.v = golden.ids, .n = 2 * CTX};
    CHECK_ERR(session_new_seq(a, 32, &q, &e), ERR_SYS, "--max-vram");
    CHECK_OK(eval_ppl(a, &ids, CTX, 0, 1, NULL, &one, &e));
    CHECK(seq_pos(session_own_seq(a)) > 0);
    session_reset(a);
    CHECK_OK(session_forward(a, golden.ids, 2, NULL, &e));
    session_free(a);
    model_close(m);
}

/* Tests a pass of two sequences: observers receive each one separately, in the same calls as on the
 * CPU; the device adds up first one sequence, then the other. */
enum { CALLS = 2000 };
struct calls { /* of an observer */
    struct seq *q[2];
    struct sums of[2];
    const struct gr_weight *first;
    int64_t what[CALLS][4]; /* weight, expert, rows, sequence */
    int n;
};
static void see_both(void *ud, const struct session_shown *s) {
    struct calls *c = ud;
    const int q = s->seq == c->q[1];
    const int64_t what[4] = {s->w - c->first, s->expert, s->n_rows, q};
    CHECK(c->n < CALLS && s->seq == c->q[q]);
    memcpy(c->what[c->n++ % CALLS], what, sizeof what);
    see(&c->of[q], s);
}
static void run_both(struct session *s, struct seq *q[2]) {
    struct session_row row[11];
    struct err e;
    for (int i = 0; i < 2; i++) CHECK_OK(session_new_seq(s, 0, &q[i], &e));
    for (int i = 0; i < 11; i++) /* four rows of one and seven of the other, interleaved */
        row[i] = (struct session_row){.id = golden.ids[i], .seq = q[i % 3 != 0]};
    CHECK_OK(session_pass(s, &(struct session_pass){.row = row, .n = 11}, &e));
}
static void test_sums_of_two(void) {
    static struct calls on[2]; /* the CPU, the device */
    static struct sums made;
    struct err e;
    struct seq *q[2];
    for (int i = 0; i < 2; i++) {
        struct session *looking = open_on(base, i ? DEVICE_CUDA : DEVICE_CPU);
        session_observe(looking, &(struct session_probe){.ud = &on[i], .product = see_both});
        on[i].first = base->graph.weight;
        run_both(looking, on[i].q);
        for (int k = 0; k < 2; k++) seq_free(on[i].q[k]);
        session_free(looking);
    }
    CHECK(on[0].n > 100);
    CHECK_EQ_I64(on[1].n, on[0].n);
    CHECK(memcmp(on[0].what, on[1].what, sizeof on[0].what) == 0);
    struct session *s = open_on(base, DEVICE_CUDA);
    const struct session_sums *sums = session_sums(s);
    CHECK_OK(sums->begin(s, take, &made, &e));
    run_both(s, q);
    CHECK_OK(sums->chunk(s, &e));
    CHECK_OK(sums->end(s, take, &made, &e));
    for (int i = 0; i < made.n; i++) {
        int w = 0;
        while (strcmp(base->graph.weight[w].name, made.name[i]) != 0) w++;
        const struct gr_weight *g = &base->graph.weight[w];
        const int a = place_of(&on[1].of[0], g, made.n_mat[i]),
                  b = place_of(&on[1].of[1], g, made.n_mat[i]);
        bool same = true;
        for (int64_t k = 0; k < made.n_mat[i] * g->ne[0]; k++)
            same = same && on[1].of[0].sum[a][k] + on[1].of[1].sum[b][k] == made.sum[i][k];
        for (int64_t k = 0; k < made.n_mat[i]; k++)
            same = same && on[1].of[0].count[a][k] + on[1].of[1].count[b][k] == made.count[i][k];
        if (!same) CHECK_FAIL("%s: other sums", made.name[i]);
    }
    CHECK(made.n > 20);
    for (int k = 0; k < 2; k++) seq_free(q[k]);
    session_free(s);
    struct sums *all[] = {&on[0].of[0], &on[0].of[1], &on[1].of[0], &on[1].of[1], &made};
    for (size_t t = 0; t < COUNT_OF(all); t++) release(all[t]);
}

/* Tests layers on two devices, in device order and in a different order: the sums are the same, in
 * the order of a pass. */
static void test_sums_split(void) {
    static struct sums made[3];
    struct err e;
    for (int i = 0; i < 3; i++) {
        struct placement map = {.layer = {i == 2, i == 1, i == 1}}; /* 0 0 0, 0 1 1, 1 0 0 */
        struct session_opts o = {.n_ctx = 32, .n_ubatch = 16, .device = {.kind = DEVICE_CUDA}};
        struct session *s = NULL;
        struct seq *q[2];
        for (int b = 3; b < PLACE_BLOCKS; b++) map.layer[b] = map.layer[2];
        emu_devices(i ? 2 : 1, NULL);
        o.device.n_more = i > 0;
        o.device.more[0] = 1;
        o.device.place = i ? &map : NULL;
        CHECK_OK(session_new(&s, base, &o, &e));
        if (!s) return;
        const struct session_sums *sums = session_sums(s);
        CHECK_OK(sums->begin(s, take, &made[i], &e));
        run_both(s, q);
        CHECK_OK(sums->chunk(s, &e));
        CHECK_OK(sums->end(s, take, &made[i], &e));
        for (int k = 0; k < 2; k++) seq_free(q[k]);
        session_free(s);
    }
    emu_devices(1, NULL);
    CHECK(made[0].n > 20);
    for (int i = 1; i < 3; i++) {
        CHECK_EQ_I64(made[i].n, made[0].n);
        for (int k = 0; k < made[0].n; k++) {
            const struct gr_weight *w = NULL;
            for (int j = 0; j < base->graph.n_weights; j++)
                if (strcmp(base->graph.weight[j].name, made[0].name[k]) == 0)
                    w = &base->graph.weight[j];
            const size_t n = (size_t)made[0].n_mat[k], ne0 = (size_t)w->ne[0];
            CHECK_EQ_STR(made[i].name[k], made[0].name[k]);
            CHECK(memcmp(made[i].sum[k], made[0].sum[k], n * ne0 * sizeof(double)) == 0);
            CHECK(memcmp(made[i].count[k], made[0].count[k], n * sizeof(double)) == 0);
        }
    }
    for (int i = 0; i < 3; i++) release(&made[i]);
}

/* Compares the importance matrix of a text on both, with several chunks per pass. */
static void test_imatrix(void) {
    static const char text[] = "One two three four five six seven eight nine ten eleven twelve. ";
    struct imat m[2];
    struct err e;
    const char *path = tmp_write("text", text, sizeof text - 1);
    for (int i = 0; i < 2; i++) {
        const struct imatrix_opts o = {.texts = &path,
                                       .n_texts = 1,
                                       .ctx = 4,
                                       .max_chunks = 4,
                                       .isa = kern_isa_best(),
                                       .device = {.kind = i ? DEVICE_CUDA : DEVICE_CPU}};
        imat_init(&m[i]);
        CHECK_OK(imatrix_collect(base, &o, &m[i], &e));
        CHECK_EQ_I64(m[i].n_chunks, 4);
    }
    CHECK(m[0].n_entries > 20);
    CHECK_EQ_I64(m[1].n_entries, m[0].n_entries);
    for (int64_t i = 0; i < m[0].n_entries; i++) {
        const struct imat_entry *a = &m[0].entry[i], *b = imat_find(&m[1], a->name);
        double diff = 0, norm = 0;
        if (!b) {
            CHECK_FAIL("no %s", a->name);
            continue;
        }
        CHECK(memcmp(a->count, b->count, (size_t)a->n_mat * sizeof *a->count) == 0);
        for (int64_t k = 0; k < a->n_mat * a->ne0; k++) {
            diff += fabs(a->sum2[k] - b->sum2[k]);
            norm += a->sum2[k];
        }
        CHECK(diff <= 1e-4 * norm && norm > 0);
    }
    for (int i = 0; i < 2; i++) imat_release(&m[i]);
}

int main(void) {
    struct err e;
    if (!cu_built() || cu_count() == 0) return check_skip("no CUDA device");
    tmp_make();
    base = golden_open("tests/golden/models/qwen3moe", tmp_path("m.gguf"));
    struct quantize_report r;
    const struct quantize_opts o = {
        .in = tmp_path("m.gguf"), .out = tmp_path("q.gguf"), .recipe = "Q4_0"};
    if (!base || !golden_load(&golden, "tests/golden/models/qwen3moe")) return 1;
    CHECK_OK(quantize_run(&o, &r, &e));
    CHECK_OK(model_open(&other, tmp_path("q.gguf"), &e));
    RUN(test_ppl);
    RUN(test_kld);
    RUN(test_windows);
    if (emu_count) RUN(test_rows_stay);
    RUN(test_begin_late);
    RUN(test_sharing);
    RUN(test_sums);
    RUN(test_sums_of_two);
    if (emu_devices) RUN(test_sums_split);
    RUN(test_imatrix);
    model_close(base);
    model_close(other);
    golden_release(&golden);
    tmp_remove();
    return check_done();
}
