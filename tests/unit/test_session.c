// SPDX-License-Identifier: MIT
/* tests/unit/test_session.c - runtime/engine/session.c and the executor against transformers'
 * float32 logits and hidden states (tests/golden/models, tests/golden/tiny-qwen35moe), in every
 * batching, on the reference and the fast kernels, with 1 to 3 threads. */
#include <unistd.h>

#include "convert/convert.h"
#include "containers/gguf.h"
#include "base/mem.h"
#include "base/num.h"
#include "containers/safetensors.h"
#include "runtime/engine/session.h"
#include "tests/check.h"
#include "tests/unit/with.h"

enum { N_IDS = 80, N_POS = 40, N_VOCAB = 1024, N_HID = 10 };

/* Both sides compute in f32 from the same weights; what differs is the order of sums. Logits reach
 * 10; some 30 roundings of 2^-24 relative per element along 4 layers give about 1e-5, and 5e-4 is
 * the project's acceptance bound. */
static const double TOL = 5e-4;

static char dir[] = "/tmp/hone-test-session-XXXXXX";
static char *path_of(const char *name) {
    return xasprintf("%s/%s.gguf", dir, name);
}
static struct model *open_model(const char *name, const char *src) {
    struct err e = {0};
    char *path = path_of(name);
    if (access(path, R_OK) != 0) {
        struct convert_opts o = {.src = src, .out = path, .type = "f32", .overwrite = true};
        struct convert_report r;
        CHECK_OK(convert_run(&o, &r, &e));
    }
    struct model *m = NULL;
    CHECK_OK(model_open(&m, path, &e));
    free(path);
    return m;
}
static struct model *open_golden(const char *name) {
    char *src = xasprintf("tests/golden/models/%s", name);
    struct model *m = open_model(name, src);
    free(src);
    return m;
}

static float *floats(const struct st *s, const char *name, int64_t want) {
    struct err e = {0};
    for (int64_t i = 0; i < st_n_tensors(s); i++) {
        const struct st_tensor *t = st_tensor_at(s, i);
        if (strcmp(t->name, name) != 0) continue;
        if (want) CHECK_EQ_I64(t->n_elems, want);
        float *v = xcalloc((size_t)t->n_elems + 1, sizeof *v);
        CHECK_OK(st_to_f32(t, 0, t->n_elems, v, &e));
        return v;
    }
    CHECK_FAIL("%s: no tensor %s", st_path(s), name);
    return xcalloc((size_t)want + 1, sizeof(float));
}
static int32_t *ints(const struct st *s, const char *name, int64_t want) {
    float *f = floats(s, name, want);
    int32_t *v = xcalloc((size_t)want + 1, sizeof *v);
    for (int64_t i = 0; i < want; i++) v[i] = (int32_t)f[i];
    free(f);
    return v;
}
static double max_diff(const float *a, const float *b, int64_t n) {
    double m = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]);
        if (!(d <= m)) m = d;
    }
    return m;
}

/* Feeds ids in pieces (0-terminated list; the last one repeats) and returns all logits. */
static float *run(const struct model *m, const struct session_opts *o, const int32_t *ids,
                  int64_t n, const int *pieces, float *hidden) {
    struct err e = {0};
    struct session *s = NULL;
    CHECK_OK(session_new(&s, m, o, &e));
    int64_t d = m->hp.d[HD_EMBD], v = m->hp.d[HD_VOCAB];
    float *h = xcalloc((size_t)(n * d), sizeof *h),
          *logits = xcalloc((size_t)(n * v), sizeof *logits);
    for (int64_t i = 0; i < n;) {
        int64_t k = min_i64(*pieces, n - i);
        CHECK_OK(session_forward(s, ids + i, k, h + i * d, &e));
        i += k;
        if (pieces[1]) pieces++;
    }
    CHECK_EQ_I64(session_pos(s), n);
    CHECK(session_bytes(s) > 0);
    CHECK_OK(session_head(s, h, n, logits, &e));
    if (hidden) memcpy(hidden, h, (size_t)(n * d) * sizeof *h);
    free(h);
    session_free(s);
    return logits;
}

static const int ALL[] = {512, 0}, UNEVEN[] = {1, 7, 32, 3, 37, 0}, ONE[] = {1, 0};
static const struct {
    const char *name;
    const int *pieces;
    int64_t n_ubatch;
} batching[] = {{"one batch", ALL, 0},
                {"1,7,32,3,37", UNEVEN, 0},
                {"token by token", ONE, 0},
                {"ubatch 20", ALL, 20}};

static double check_logits(const float *logits, const float *want) {
    double diff = 0;
    for (int64_t i = 0; i < N_POS; i++) /* positions 1, 3, 5, ... of golden.json */
        diff = fmax(diff, max_diff(logits + (2 * i + 1) * N_VOCAB, want + i * N_VOCAB, N_VOCAB));
    return diff;
}

static void golden(const char *name) {
    struct err e = {0};
    char *gpath = xasprintf("tests/golden/models/%s/golden.safetensors", name);
    struct st *g = NULL;
    CHECK_OK(st_open(&g, gpath, &e));
    struct model *m = open_golden(name);
    if (!m || !g) return;
    int32_t *ids = ints(g, "ids", N_IDS);
    float *want = floats(g, "logits", N_POS * N_VOCAB);
    enum kern_isa best = kern_isa_best();
    for (int isa = KERN_REF; isa <= (int)best; isa++)
        for (size_t b = 0; b < sizeof batching / sizeof *batching; b++) {
            struct session_opts o = {
                .n_ctx = 96, .n_ubatch = batching[b].n_ubatch, .isa = (enum kern_isa)isa};
            float *l = run(m, &o, ids, N_IDS, batching[b].pieces, NULL);
            double diff = check_logits(l, want);
            printf("%s, %s, %s: max |logit difference| %.3g\n", name,
                   kern_isa_name((enum kern_isa)isa), batching[b].name, diff);
            CHECK(diff <= TOL);
            free(l);
        }
    free(ids);
    free(want);
    free(gpath);
    st_close(g);
    model_close(m);
}
static void test_golden_qwen35moe(void) {
    golden("qwen35moe");
}
static void test_golden_qwen35(void) {
    golden("qwen35");
}

struct hidden_check {
    float *want[5];
    int64_t d;
    double diff[5];
};
static void see_hidden(void *ud, const struct session_shown *s) {
    struct hidden_check *c = ud;
    const int block = s->block;
    const int64_t pos = s->pos;
    if (block + 1 > 3) return; /* the last one is compared after the final norm */
    for (int64_t t = 0; t < s->n_rows; t++)
        if ((pos + t) % 8 == 0 && (pos + t) / 8 < N_HID)
            c->diff[block + 1] =
                fmax(c->diff[block + 1],
                     max_diff(s->x + t * c->d, c->want[block + 1] + (pos + t) / 8 * c->d, c->d));
}
static void test_hidden_states(void) {
    static const char *const name[] = {"qwen35moe", "qwen35"};
    for (int k = 0; k < 2; k++) {
        struct err e = {0};
        char *gpath = xasprintf("tests/golden/models/%s/golden.safetensors", name[k]);
        struct st *g = NULL;
        CHECK_OK(st_open(&g, gpath, &e));
        struct model *m = open_golden(name[k]);
        if (!m || !g) return;
        int32_t *ids = ints(g, "ids", N_IDS);
        struct hidden_check c = {.d = m->hp.d[HD_EMBD]};
        for (int i = 0; i < 5; i++) {
            char key[16];
            snprintf(key, sizeof key, "hidden_%02d", i);
            c.want[i] = floats(g, key, N_HID * c.d);
        }
        struct session *s = NULL;
        struct session_opts o = {.n_ctx = 80, .isa = kern_isa_best()};
        CHECK_OK(session_new(&s, m, &o, &e));
        session_observe(s, &(struct session_probe){.ud = &c, .residual = see_hidden});
        float *h = xcalloc((size_t)(N_IDS * c.d), sizeof *h);
        CHECK_OK(session_forward(s, ids, 33, h, &e));
        CHECK_OK(session_forward(s, ids + 33, N_IDS - 33, h + 33 * c.d, &e));
        for (int i = 0; i < N_HID; i++)
            c.diff[4] = fmax(c.diff[4], max_diff(h + 8 * i * c.d, c.want[4] + i * c.d, c.d));
        printf("%s hidden states: %.3g %.3g %.3g %.3g, after the final norm %.3g\n", name[k],
               c.diff[0], c.diff[1], c.diff[2], c.diff[3], c.diff[4]);
        CHECK(c.diff[0] == 0); /* the embedding is a copy */
        for (int i = 1; i < 5; i++) CHECK(c.diff[i] > 0 && c.diff[i] <= 1e-4);
        for (int i = 0; i < 5; i++) free(c.want[i]);
        session_free(s);
        free(h);
        free(ids);
        free(gpath);
        st_close(g);
        model_close(m);
    }
}

static void some_ids(int32_t *ids, int64_t n, int64_t n_vocab) {
    for (int64_t i = 0; i < n; i++) ids[i] = (int32_t)((i * 7919 + 13) % n_vocab);
}

struct residuals { /* [n_blocks][N_IDS][d] */
    float *v;
    int64_t d;
};
static void keep_residual(void *ud, const struct session_shown *s) {
    const struct residuals *r = ud;
    if (s->block >= 0)
        memcpy(r->v + (s->block * N_IDS + s->pos) * r->d, s->x,
               (size_t)(s->n_rows * r->d) * sizeof *s->x);
}

/* Checks that a pass that begins at a block gives the bits of the full pass, in several internal
 * passes. */
static void test_begin_at_a_block(void) {
    static const char *const model[] = {"qwen35moe", "qwen35", "qwen3", "qwen3moe", "mistral"};
    for (size_t k = 0; k < COUNT_OF(model); k++) {
        struct err e = {0};
        struct model *m = open_golden(model[k]);
        struct session *a = NULL, *b = NULL;
        struct session_opts o = {.n_ctx = N_IDS, .n_ubatch = 32, .isa = kern_isa_best()};
        int32_t ids[N_IDS];
        if (!m) return;
        int n_blocks = (int)m->hp.d[HD_LAYERS];
        struct residuals r = {.d = m->hp.d[HD_EMBD]};
        r.v = xcalloc((size_t)(n_blocks * N_IDS * r.d), sizeof *r.v);
        float *whole = xcalloc((size_t)(N_IDS * r.d), sizeof *whole);
        float *part = xcalloc((size_t)(N_IDS * r.d), sizeof *part);
        some_ids(ids, N_IDS, m->hp.d[HD_VOCAB]);
        CHECK_OK(session_new(&a, m, &o, &e));
        CHECK_OK(session_new(&b, m, &o, &e));
        session_observe(a, &(struct session_probe){.ud = &r, .residual = keep_residual});
        CHECK_OK(session_forward(a, ids, N_IDS, whole, &e));
        CHECK(!session_can_begin(b, 0) && !session_can_begin(b, n_blocks + 1));
        for (int i = 1; i <= n_blocks; i++) {
            CHECK(session_can_begin(b, i)); /* blocks read only the residual */
            const float *in = r.v + (i - 1) * N_IDS * r.d;
            memset(part, 0, (size_t)(N_IDS * r.d) * sizeof *part);
            session_reset(b);
            const struct session_pass p = {
                .ids = ids, .n = N_IDS, .begin = i, .residual = in, .hidden = part};
            CHECK_OK(session_pass(b, &p, &e));
            CHECK(memcmp(whole, part, (size_t)(N_IDS * r.d) * sizeof *part) == 0);
        }
        session_reset(b); /* then a full pass again */
        CHECK_OK(session_forward(b, ids, N_IDS, part, &e));
        CHECK(memcmp(whole, part, (size_t)(N_IDS * r.d) * sizeof *part) == 0);
        session_free(a);
        session_free(b);
        model_close(m);
        free(r.v);
        free(whole);
        free(part);
    }
}

/* Encodes every row of a weight as Q8_0 (exact: the activation quantizer writes the same blocks).
 */
static void *as_q8_0(const struct weight *w) {
    struct kern *k = xcalloc(1, sizeof *k);
    kern_init(k, KERN_REF);
    uint64_t row = qtype_row_bytes(QT_Q8_0, w->ne[0]);
    int64_t rows = w->ne[1] * w->ne[2];
    uint8_t *out = xcalloc((size_t)rows, (size_t)row);
    for (int64_t r = 0; r < rows; r++)
        k->act_quant(QT_Q8_0, (const float *)w->data + r * w->ne[0], out + (uint64_t)r * row,
                     w->ne[0]);
    free(k);
    return out;
}

static void test_threads_do_not_change_bits(void) {
    static const char *const name[] = {"qwen35moe", "qwen35"};
    struct err e = {0};
    int32_t ids[70];
    some_ids(ids, 70, N_VOCAB);
    for (int k = 0; k < 2; k++) {
        struct model *m = open_golden(name[k]);
        if (!m) return;
        struct model *of[5] = {m};
        const char *wname[4] = {"blk.0.attn_qkv.weight", k ? "token_embd.weight" : "output.weight",
                                k ? "blk.1.ffn_up.weight" : "blk.1.ffn_up_exps.weight",
                                k ? "blk.2.ffn_down.weight" : "blk.2.ffn_down_exps.weight"};
        for (int i = 0; i < 4; i++, m = of[i])
            of[i + 1] =
                with_weight(m, wname[i], as_q8_0(model_find_weight(m, wname[i])), QT_Q8_0, free);
        for (int b = 0; b < 3; b++)
            for (int act = ACT_F32; act <= ACT_Q8; act++) {
                float *first = NULL;
                for (int threads = 1; threads <= 3; threads++) {
                    struct pool *p = NULL;
                    CHECK_OK(pool_new(&p, threads, &e));
                    struct session_opts o = {.n_ctx = 70,
                                             .isa = kern_isa_best(),
                                             .act = (enum act_mode)act,
                                             .pack = true,
                                             .pool = p};
                    float *l = run(m, &o, ids, 70, batching[b].pieces, NULL);
                    if (first) CHECK(memcmp(first, l, 70 * N_VOCAB * sizeof *l) == 0);
                    if (first)
                        free(l);
                    else
                        first = l;
                    pool_free(p);
                }
                free(first);
            }
        CHECK(model_packed_bytes(m, false) > 0 || kern_isa_best() == KERN_REF);
        for (int i = 4; i >= 0; i--) model_close(of[i]);
    }
}

static int cmp_double(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
/* Tests the same weights as 8-bit blocks, as their decoded values, and unchanged. */
static void replaced(const char *model, const char *name) {
    struct err e = {0};
    int32_t ids[40];
    some_ids(ids, 40, N_VOCAB);
    struct model *m = open_golden(model);
    if (!m) return;
    struct session_opts o = {.n_ctx = 40, .isa = kern_isa_best()};
    float *plain = run(m, &o, ids, 40, ALL, NULL);
    const struct weight *w = model_find_weight(m, name);
    CHECK(w != NULL && !model_find_weight(m, "blk.77.nothing"));
    struct weight given = {0};
    const struct weight *conv = model_find_weight(m, "blk.0.ssm_conv1d.weight");
    CHECK_ERR(weight_given(&given, conv, "conv", ids, QT_Q4_K, NULL, &e), ERR_DATA,
              "cannot be stored as Q4_K");
    struct model *none = NULL;
    struct model_change wrong = {"blk.77.nothing", w};
    CHECK_ERR(model_with(&none, m, &wrong, 1, &e), ERR_DATA, "blk.77.nothing");
    wrong.name = "blk.0.ssm_conv1d.weight";
    CHECK_ERR(model_with(&none, m, &wrong, 1, &e), ERR_DATA, "a different shape");
    uint8_t *q = as_q8_0(w);
    int64_t n = w->ne[0] * w->ne[1] * w->ne[2];
    struct kern *k = xcalloc(1, sizeof *k);
    kern_init(k, KERN_REF);
    float *dec = xcalloc((size_t)n, sizeof *dec);
    k->op[QT_Q8_0].decode(q, dec, n);
    struct model *as8 = with_weight(m, name, q, QT_Q8_0, free),
                 *as32 = with_weight(as8, name, dec, QT_F32, free);
    float *a = run(as8, &o, ids, 40, ALL, NULL);
    o.act = ACT_Q8;
    float *a8 = run(as8, &o, ids, 40, ONE, NULL);
    o.act = ACT_F32;
    float *b = run(as32, &o, ids, 40, ALL, NULL);
    float *c = run(m, &o, ids, 40, ALL, NULL);
    model_close(as32);
    model_close(as8);
    CHECK(memcmp(a, b, 40 * N_VOCAB * sizeof *a) == 0); /* decoding is exact, and so is the rest */
    CHECK(memcmp(plain, c, 40 * N_VOCAB * sizeof *a) == 0);
    CHECK(memcmp(plain, a, 40 * N_VOCAB * sizeof *a) != 0);
    double d8[40], top = 0;
    for (int i = 0; i < 40 * N_VOCAB; i++) top = fmax(top, fabs((double)plain[i]));
    for (int t = 0; t < 40; t++) d8[t] = max_diff(a + t * N_VOCAB, a8 + t * N_VOCAB, N_VOCAB);
    qsort(d8, 40, sizeof *d8, cmp_double);
    printf("%s, 8-bit activations in %s: logits differ by %.3g (median position), %.3g (worst) of "
           "%.3g\n",
           model, name, d8[20], d8[39], top);
    CHECK(d8[0] > 0 && d8[20] < 0.01 * top);
    float *all[] = {plain, a, a8, b, c};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    free(k);
    model_close(m);
}

/* Tests replaced weights. An 8-bit block is off by at most 1/254 of its largest value, a few
 * thousandths of the vector's length; one such product moves logits by less than 1 % of their
 * range. The bound holds for most positions: in a model with random routers, a rounding error makes
 * some token choose a different expert, which changes its logits by about 1. */
static void test_replaced(void) {
    replaced("qwen35moe", "blk.1.ffn_down_exps.weight");
    replaced("qwen35", "blk.1.ffn_down.weight");
}

/* Tests rounding of cached values: f16 2^-11 relative, q8_0 1/254 of the largest of 32. Logits are
 * about 1 here, and one of four layers has a cache. */
static void test_kv_types(void) {
    static const struct {
        enum qtype type;
        double tol;
    } kv[] = {{QT_F16, 0.01}, {QT_Q8_0, 0.1}};
    struct err e = {0};
    int32_t ids[70];
    some_ids(ids, 70, N_VOCAB);
    struct model *m = open_golden("qwen35");
    if (!m) return;
    struct session_opts o = {.n_ctx = 70, .isa = kern_isa_best()};
    float *want = run(m, &o, ids, 70, ALL, NULL);
    for (size_t i = 0; i < 2; i++)
        for (int b = 0; b < 3; b++) {
            o.kv_type = kv[i].type;
            float *l = run(m, &o, ids, 70, batching[b].pieces, NULL);
            double d = max_diff(l, want, 70 * N_VOCAB);
            printf("kv %s, %s: %.3g\n", qtype_name(o.kv_type), batching[b].name, d);
            CHECK(d > 0 && d < kv[i].tol);
            free(l);
        }
    o.kv_type = QT_Q4_K;
    struct session *s = NULL;
    CHECK_ERR(session_new(&s, m, &o, &e), ERR_USAGE, "Q4_K");
    free(want);
    model_close(m);
}

static void test_snapshot_reset_and_limits(void) {
    struct err e = {0};
    int32_t ids[64];
    some_ids(ids, 64, N_VOCAB);
    struct model *m = open_golden("qwen35moe");
    if (!m) return;
    struct session *s = NULL;
    struct seq *snap = NULL;
    struct session_opts o = {.n_ctx = 64, .isa = kern_isa_best()};
    static float a[N_VOCAB], b[N_VOCAB], c[N_VOCAB];
    CHECK_OK(session_new(&s, m, &o, &e));
    CHECK_OK(session_forward(s, ids, 40, NULL, &e));
    CHECK_OK(seq_fork(&snap, session_own_seq(s), &e));
    CHECK_OK(session_step(s, ids + 40, 20, a, &e));
    CHECK_ERR(session_step(s, ids, 5, b, &e), ERR_USAGE, "is full");
    CHECK_EQ_I64(session_pos(s), 60);
    seq_restore(session_own_seq(s), snap);
    CHECK_EQ_I64(session_pos(s), 40);
    CHECK_OK(session_step(s, ids + 40, 20, b, &e));
    CHECK(memcmp(a, b, sizeof a) == 0);
    session_reset(s);
    CHECK_OK(session_forward(s, ids, 40, NULL, &e));
    CHECK_OK(session_step(s, ids + 40, 20, c, &e));
    CHECK(memcmp(a, c, sizeof a) == 0);
    int32_t bad[2] = {3, N_VOCAB};
    session_reset(s);
    CHECK_ERR(session_step(s, bad, 2, b, &e), ERR_USAGE, "outside the vocabulary");
    bad[1] = -1;
    CHECK_ERR(session_step(s, bad, 2, b, &e), ERR_USAGE, "outside the vocabulary");
    CHECK_ERR(session_step(s, bad, 0, b, &e), ERR_USAGE, "no tokens");
    CHECK_EQ_I64(session_pos(s), 0);
    seq_free(snap);
    session_free(s);
    s = NULL;
    o.n_ctx = -4;
    CHECK_ERR(session_new(&s, m, &o, &e), ERR_USAGE, "is not possible");
    o.n_ctx = 0; /* the model's own, 4096 */
    CHECK_OK(session_new(&s, m, &o, &e));
    CHECK_EQ_I64(session_get_opts(s)->n_ctx, 4096);
    session_free(s);
    model_close(m);
}

struct seen {
    int64_t rows[512], expert_rows[512];
    double sum[512];
    const struct model *m;
};
static void see(void *ud, const struct session_shown *s) {
    struct seen *c = ud;
    int64_t i = s->w - c->m->graph.weight;
    (s->expert < 0 ? c->rows : c->expert_rows)[i] += s->n_rows;
    for (int64_t r = 0; r < s->n_rows; r++)
        for (int64_t k = 0; k < s->w->ne[0]; k++) c->sum[i] += (double)s->x[r * s->ld + k];
}
static void test_observe(void) {
    struct err e = {0};
    int32_t ids[50];
    some_ids(ids, 50, N_VOCAB);
    struct model *m = open_golden("qwen35moe");
    if (!m) return;
    struct seen *c = xcalloc(1, sizeof *c);
    c->m = m;
    struct session *s = NULL;
    struct session_opts o = {.n_ctx = 50, .n_ubatch = 30, .isa = kern_isa_best()};
    CHECK_OK(session_new(&s, m, &o, &e));
    session_observe(s, &(struct session_probe){.ud = c, .product = see});
    CHECK_OK(session_forward(s, ids, 50, NULL, &e));
    int matrices = 0, gate = -1, up = -1;
    for (int i = 0; i < m->graph.n_weights; i++) {
        const struct gr_weight *w = &m->graph.weight[i];
        if (w->ne[2] > 1) CHECK_EQ_I64(c->expert_rows[i], 50 * m->hp.d[HD_EXPERTS_USED]);
        if (c->rows[i]) CHECK_EQ_I64(c->rows[i], 50);
        matrices += c->rows[i] || c->expert_rows[i];
        if (strcmp(w->name, "blk.0.ffn_gate_exps.weight") == 0) gate = i;
        if (strcmp(w->name, "blk.0.ffn_up_exps.weight") == 0) up = i;
    }
    CHECK(gate >= 0 && up >= 0 && c->sum[gate] == c->sum[up] && c->sum[gate] != 0);
    /* per block: router, 3 expert, 3 shared, shared gate = 8; linear 5, full 4; 3 linear + 1 full
     */
    CHECK_EQ_I64(matrices, 4 * 8 + 3 * 5 + 4);
    session_free(s);
    free(c);
    model_close(m);
}

/* Tests the trained model, whose bf16 weights transformers ran in f32: logits up to 20, longer sums
 * and 500 positions. */
static void test_tiny_trained(void) {
    struct err e = {0};
    struct st *g = NULL;
    CHECK_OK(st_open(&g, "tests/golden/tiny-qwen35moe/golden.safetensors", &e));
    struct model *m = open_model("tiny", "tests/golden/tiny-qwen35moe");
    if (!m || !g) return;
    static const struct {
        const char *name;
        int64_t n, n_pos;
    } set[] = {{"chat", 461, 29}, {"text", 511, 32}};
    struct pool *p = NULL;
    CHECK_OK(pool_new(&p, 2, &e));
    for (int i = 0; i < 2; i++) {
        char key[32];
        snprintf(key, sizeof key, "%s_ids", set[i].name);
        int32_t *ids = ints(g, key, set[i].n);
        snprintf(key, sizeof key, "%s_positions", set[i].name);
        int32_t *pos = ints(g, key, set[i].n_pos);
        snprintf(key, sizeof key, "%s_logits", set[i].name);
        float *want = floats(g, key, set[i].n_pos * 4096);
        struct session_opts o = {.n_ctx = 512, .isa = kern_isa_best(), .pool = p};
        float *l = run(m, &o, ids, set[i].n, ALL, NULL);
        double diff = 0, top = 0;
        for (int64_t k = 0; k < set[i].n_pos; k++) {
            diff = fmax(diff, max_diff(l + pos[k] * 4096, want + k * 4096, 4096));
            for (int64_t v = 0; v < 4096; v++) top = fmax(top, fabs((double)want[k * 4096 + v]));
        }
        printf("tiny %s: max |logit difference| %.3g, logits up to %.3g\n", set[i].name, diff, top);
        CHECK(diff <= 2e-3);
        free(l);
        free(ids);
        free(pos);
        free(want);
    }
    pool_free(p);
    st_close(g);
    model_close(m);
}

/* Copies a model without tensor `drop` and with tensor `add` of shape ne; `type`: F32 or I32. */
static void copy_model(const char *from, const char *to, const char *drop, const char *add,
                       enum qtype type, int64_t add_ne) {
    struct err e = {0};
    struct gguf *g = NULL;
    struct gguf_w *w = gguf_w_new();
    CHECK_OK(gguf_open(&g, from, 0, &e));
    for (int64_t i = 0; i < gguf_n_kv(g); i++) gguf_w_copy_kv(w, gguf_kv_at(g, i));
    for (int64_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        if (strcmp(t->name, drop) != 0)
            CHECK(gguf_w_tensor(w, t->name, t->type, t->n_dims, t->ne, &e) >= 0);
    }
    if (add) CHECK(gguf_w_tensor(w, add, type, 1, &add_ne, &e) >= 0);
    CHECK_OK(gguf_w_begin(w, to, true, &e));
    for (int64_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        if (strcmp(t->name, drop) != 0) CHECK_OK(gguf_w_data(w, t->data, t->n_bytes, &e));
    }
    void *zero = xcalloc((size_t)add_ne + 1, 4);
    if (add) CHECK_OK(gguf_w_data(w, zero, (uint64_t)add_ne * 4, &e));
    CHECK_OK(gguf_w_commit(w, &e));
    free(zero);
    gguf_w_free(w);
    gguf_close(g);
}
static void test_wrong_files(void) {
    struct err e = {0};
    struct model *m = open_golden("qwen35moe");
    if (!m) return;
    int64_t d = m->hp.d[HD_EMBD];
    model_close(m);
    m = NULL;
    char *good = path_of("qwen35moe"), *bad = path_of("bad");
    copy_model(good, bad, "blk.2.ffn_up_exps.weight", NULL, QT_F32, 0);
    CHECK_ERR(model_open(&m, bad, &e), ERR_DATA, "blk.2.ffn_up_exps.weight is missing");
    copy_model(good, bad, "blk.2.ffn_up_exps.weight", "blk.2.ffn_up.0.weight", QT_F32, d);
    CHECK_ERR(model_open(&m, bad, &e), ERR_DATA, "one by one, as blk.2.ffn_up.0.weight and so on");
    copy_model(good, bad, "", "blk.0.surprise.weight", QT_F32, 4);
    CHECK_ERR(model_open(&m, bad, &e), ERR_DATA, "blk.0.surprise.weight");
    copy_model(good, bad, "", "blk.9.attn_norm.weight", QT_F32, d);
    CHECK_ERR(model_open(&m, bad, &e), ERR_DATA, "blk.9.attn_norm.weight");
    copy_model(good, bad, "output_norm.weight", "output_norm.weight", QT_F32, d + 1);
    CHECK_ERR(model_open(&m, bad, &e), ERR_DATA, "output_norm.weight has shape 129");
    copy_model(good, bad, "output_norm.weight", "output_norm.weight", QT_I32, d);
    CHECK_ERR(model_open(&m, bad, &e), ERR_DATA, "type I32");
    CHECK_ERR(model_open(&m, "/nonexistent.gguf", &e), ERR_USAGE, "/nonexistent.gguf");
    CHECK(m == NULL);
    free(good);
    free(bad);
}

int main(void) {
    if (!mkdtemp(dir)) return 1;
    RUN(test_golden_qwen35moe);
    RUN(test_golden_qwen35);
    RUN(test_hidden_states);
    RUN(test_begin_at_a_block);
    RUN(test_threads_do_not_change_bits);
    RUN(test_replaced);
    RUN(test_kv_types);
    RUN(test_snapshot_reset_and_limits);
    RUN(test_observe);
    RUN(test_tiny_trained);
    RUN(test_wrong_files);
    static const char *const file[] = {"qwen35moe", "qwen35", "tiny", "bad"};
    for (size_t i = 0; i < sizeof file / sizeof *file; i++) {
        char *p = path_of(file[i]);
        unlink(p);
        free(p);
    }
    rmdir(dir);
    return check_done();
}
