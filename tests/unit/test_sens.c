// SPDX-License-Identifier: MIT
/* tests/unit/test_sens.c - groups, errors, floors, losses, sensitivity files and the gate's plain
 * recipes, on a small file of known shapes. Expected bytes are computed manually from the block
 * sizes. */
#include "base/fp.h"
#include "base/io.h"
#include "base/out.h"
#include "base/mem.h"
#include "mix/accept.h"
#include "mix/mixer.h"
#include "mix/sens.h"
#include "tests/check.h"
#include "tests/unit/tmpdir.h"

static const char *model, *file; /* tmp_path's buffers: few other files are made */

static const struct {
    const char *name;
    int n_dims;
    int64_t ne[4];
} tensors[] = {{"token_embd.weight", 2, {256, 64, 1, 1}},
               {"blk.0.attn_norm.weight", 1, {256, 1, 1, 1}},
               {"blk.0.attn_q.weight", 2, {256, 64, 1, 1}},
               {"blk.0.ffn_gate_inp.weight", 2, {256, 4, 1, 1}},
               {"blk.0.ffn_gate_exps.weight", 3, {256, 32, 4, 1}},
               {"blk.0.ffn_up_exps.weight", 3, {256, 32, 4, 1}},
               {"blk.0.ffn_down_exps.weight", 3, {32, 256, 4, 1}},
               {"blk.0.ssm_alpha.weight", 2, {256, 8, 1, 1}},
               {"blk.0.ssm_beta.weight", 2, {256, 8, 1, 1}},
               {"blk.1.attn_q.weight", 2, {256, 64, 1, 1}},
               {"output.weight", 2, {256, 64, 1, 1}}};

/* Writes the model. tied: without the last tensor, output.weight. */
static void make_model(bool tied) {
    struct err e;
    struct gguf_w *w = gguf_w_new();
    gguf_w_str(w, "general.architecture", "unknown");
    gguf_w_u32(w, "unknown.block_count", 2);
    gguf_w_u32(w, "unknown.expert_count", 4);
    gguf_w_u32(w, "unknown.expert_used_count", 2);
    size_t n_tensors = COUNT_OF(tensors) - tied;
    for (size_t i = 0; i < n_tensors; i++)
        CHECK_OK(gguf_w_tensor(w, tensors[i].name, QT_F32, tensors[i].n_dims, tensors[i].ne, &e));
    CHECK_OK(gguf_w_begin(w, model, true, &e));
    uint64_t s = 7;
    for (size_t i = 0; i < n_tensors; i++) {
        int64_t n = tensors[i].ne[0] * tensors[i].ne[1] * tensors[i].ne[2];
        float *x = xcalloc((size_t)n, sizeof *x);
        for (int64_t k = 0; k < n; k++) {
            double sum = 0; /* close to a normal distribution */
            for (int j = 0; j < 4; j++) {
                s = s * 6364136223846793005u + 1442695040888963407u;
                sum += (double)(s >> 11) * 0x1p-53 - 0.5;
            }
            x[k] = (float)sum;
        }
        CHECK_OK(gguf_w_data(w, x, (uint64_t)n * sizeof *x, &e));
        free(x);
    }
    CHECK_OK(gguf_w_commit(w, &e));
    gguf_w_free(w);
}

static int find(const struct sens *s, const char *name) {
    for (int i = 0; i < s->n_groups; i++)
        if (strcmp(s->group[i].name, name) == 0) return i;
    CHECK_FAIL("no group %s", name);
    return 0;
}

/* Opens the model and computes its errors. */
static void open_measured(struct gguf **g, struct sens *s) {
    struct err e;
    CHECK_OK(gguf_open(g, model, 0, &e));
    CHECK_OK(sens_init(s, *g, &e));
    CHECK_OK(sens_errors(s, &(struct sens_source){.g = *g, .pool = NULL}, &e));
}

static void test_groups(void) {
    struct err e;
    struct gguf *g;
    struct sens s;
    CHECK_OK(gguf_open(&g, model, 0, &e));
    CHECK_OK(sens_init(&s, g, &e));
    CHECK_EQ_I64(s.n_groups, 7); /* embd, 2 q, gate+up, down, alpha+beta, output */
    const struct sens_group *gu = &s.group[find(&s, "blk.0.ffn_gate_exps.weight")];
    CHECK_EQ_I64(gu->n_items, 2);
    CHECK_EQ_I64(gu->n_weights, 2 * 256 * 32 * 4);
    CHECK_EQ_I64(gu->bytes[QT_Q4_K], 2 * 128 * 144);
    CHECK_EQ_I64(s.group[find(&s, "blk.0.ssm_alpha.weight")].n_items, 2);
    /* 8 rows of 110 bytes are 880, padded to 896, twice */
    CHECK_EQ_I64(s.group[find(&s, "blk.0.ssm_alpha.weight")].bytes[QT_Q3_K], 2 * 896);
    const struct sens_group *down = &s.group[find(&s, "blk.0.ffn_down_exps.weight")];
    CHECK(!down->can[QT_Q4_K] && down->can[QT_IQ4_NL] && down->can[QT_Q8_0]);
    CHECK_EQ_I64(s.kept_bytes, 256 * 4 + 256 * 4 * 4);
    CHECK_EQ_I64(sens_next(&s, find(&s, "output.weight"), QT_Q4_K, 1), QT_Q4_K); /* no errors yet */
    sens_release(&s);
    gguf_close(g);
}

/* Checks that gate and up with widths that have no type in common (256: only types with blocks of
 * 256; 50: only F16) form two groups instead of being refused. */
static void test_groups_of_odd_widths(void) {
    static const struct {
        const char *name;
        int64_t ne[4];
    } t[] = {{"blk.0.ffn_gate.weight", {256, 8, 1, 1}},
             {"blk.0.ffn_up.weight", {50, 8, 1, 1}},
             {"blk.0.ssm_x.weight", {256, 8, 1, 1}},
             {"blk.0.ssm_dt.weight", {6, 8, 1, 1}}};
    static const float zeros[256 * 8];
    struct err e;
    struct gguf *g;
    struct sens s;
    struct gguf_w *w = gguf_w_new();
    gguf_w_str(w, "general.architecture", "unknown");
    for (size_t i = 0; i < COUNT_OF(t); i++)
        CHECK_OK(gguf_w_tensor(w, t[i].name, QT_F32, 2, t[i].ne, &e));
    CHECK_OK(gguf_w_begin(w, file, true, &e));
    for (size_t i = 0; i < COUNT_OF(t); i++)
        CHECK_OK(gguf_w_data(w, zeros, (uint64_t)(t[i].ne[0] * t[i].ne[1]) * sizeof *zeros, &e));
    CHECK_OK(gguf_w_commit(w, &e));
    gguf_w_free(w);
    CHECK_OK(gguf_open(&g, file, 0, &e));
    CHECK_OK(sens_init(&s, g, &e));
    CHECK_EQ_I64(s.n_groups, 4);
    sens_release(&s);
    gguf_close(g);
    unlink(file);
}

static void test_errors(void) {
    struct err e;
    struct gguf *g;
    struct sens s, t;
    open_measured(&g, &s);
    const struct sens_group *q = &s.group[find(&s, "blk.0.attn_q.weight")];
    /* squares of published relative errors for normal weights; the tails here are slightly
     * lighter */
    CHECK(q->err[QT_Q2_K] > .03 && q->err[QT_Q2_K] < .07);
    CHECK(q->err[QT_Q4_K] > .002 && q->err[QT_Q4_K] < .005);
    CHECK(q->err[QT_Q6_K] > 1e-4 && q->err[QT_Q6_K] < 3e-4);
    CHECK_EQ_I64(sens_next(&s, find(&s, "output.weight"), QT_Q4_K, 1), QT_Q5_K);
    CHECK_EQ_I64(sens_next(&s, find(&s, "output.weight"), QT_Q8_0, 1), QT_Q8_0);
    /* without importance, quantization refuses these except for embedding and output */
    CHECK(!q->can[QT_IQ2_XXS] && !q->can[QT_IQ3_XXS] && q->can[QT_Q2_K]);
    CHECK(s.group[find(&s, "output.weight")].can[QT_IQ2_XXS]);
    /* one row of a completely encoded tensor: its error is in the same range */
    void *data = NULL;
    CHECK_OK(
        sens_encode(&(struct sens_source){.g = g}, q->item[0], QT_Q8_0, SEARCH_FAST, &data, &e));
    mem_free(data);

    CHECK_OK(sens_init(&t, g, &e));
    struct pool *pool;
    CHECK_OK(pool_new(&pool, 3, &e));
    CHECK_OK(sens_errors(&t, &(struct sens_source){.g = g, .pool = pool}, &e));
    for (int i = 0; i < s.n_groups; i++)
        CHECK(memcmp(s.group[i].err, t.group[i].err, sizeof s.group[i].err) == 0);
    /* below 2.6 bits, IQ1 is also offered, and nothing else changes */
    const int out = find(&s, "output.weight");
    CHECK(!s.group[out].can[QT_IQ1_S] && !s.group[out].can[QT_IQ1_M]);
    sens_release(&t);
    CHECK_OK(sens_init(&t, g, &e));
    sens_set_low(&t, 0);
    sens_set_low(&t, (uint64_t)(2.61 * (double)t.n_weights / 8));
    CHECK(!t.low);
    sens_set_low(&t, (uint64_t)(2.59 * (double)t.n_weights / 8));
    CHECK(t.low);
    CHECK_OK(sens_errors(&t, &(struct sens_source){.g = g, .pool = pool}, &e));
    CHECK(t.group[out].can[QT_IQ1_S] && !t.group[find(&t, "blk.0.attn_q.weight")].can[QT_IQ1_S]);
    /* errors for normal weights: at least 4^-bits per weight (rate-distortion bound), less than
     * with the best two levels (1 - 2/pi), in order of size */
    const double *x = t.group[out].err;
    CHECK(x[QT_IQ1_S] > .114 && x[QT_IQ1_M] > .088 && x[QT_IQ1_S] < .363);
    CHECK(x[QT_IQ1_S] > x[QT_IQ1_M] && x[QT_IQ1_M] > x[QT_IQ2_XXS]);
    for (int i = 0; i < s.n_groups; i++)
        for (int k = 0; k < QT_COUNT; k++)
            if (k != QT_IQ1_S && k != QT_IQ1_M) CHECK(s.group[i].err[k] == t.group[i].err[k]);
    pool_free(pool);
    sens_release(&t);
    sens_release(&s);
    gguf_close(g);
}

static int solve(const struct sens *s, uint64_t tensor_bytes, uint64_t budget, bool floors,
                 struct sens_mix *m, struct err *e) {
    const struct sens_ask ask = {.tensor_bytes = tensor_bytes, .budget = budget, .floors = floors};
    return sens_solve(s, &ask, m, e);
}

static void test_solve(void) {
    struct err e;
    struct gguf *g;
    struct sens s;
    struct sens_mix a, b;
    open_measured(&g, &s);
    int q0 = find(&s, "blk.0.attn_q.weight"), q1 = find(&s, "blk.1.attn_q.weight");
    uint64_t budget = (uint64_t)(s.n_weights * 5 / 8) + s.kept_bytes;
    CHECK_OK(solve(&s, budget, budget, true, &a, &e));
    CHECK(a.bytes <= budget && a.exact && a.gap >= 0 && a.gap <= a.loss);
    CHECK(qtype_bpw(a.type[find(&s, "output.weight")]) >= qtype_bpw(QT_Q6_K));
    CHECK_EQ_I64(a.type[find(&s, "blk.0.ssm_alpha.weight")], QT_Q8_0);
    CHECK(qtype_bpw(a.type[q0]) >= qtype_bpw(QT_Q5_K)); /* floor for attention */
    sens_mix_release(&a);

    /* probes: layer 1 matters a thousand times more than layer 0 */
    s.group[q0].probe[s.group[q0].n_probes++] =
        (struct sens_probe){.type = QT_Q4_K, .kld = 1e-5, .kld_stderr = 0};
    s.group[q1].probe[s.group[q1].n_probes++] =
        (struct sens_probe){.type = QT_Q4_K, .kld = 1e-2, .kld_stderr = 0};
    CHECK_CLOSE(sens_loss(&s, q0, QT_Q4_K), 1e-5, 1e-12);
    CHECK_CLOSE(sens_loss(&s, q1, QT_Q4_K), 1e-2, 1e-9);
    CHECK_OK(solve(&s, budget, budget, false, &b, &e));
    CHECK(s.group[q1].bytes[b.type[q1]] > s.group[q0].bytes[b.type[q0]]);
    sens_mix_release(&b);
    CHECK_ERR(solve(&s, s.kept_bytes + 10, budget, true, &b, &e), ERR_USAGE, "budget");
    const struct sens_ask card = {.tensor_bytes = UINT64_MAX, .device_bytes = s.kept_bytes + 10};
    CHECK_ERR(sens_solve(&s, &card, &b, &e), ERR_USAGE, "--vram leaves 10 bytes");

    /* a step that costs twice its prediction moves the factor from 1 towards 2 */
    double d = sens_loss(&s, q1, QT_Q3_K) - sens_loss(&s, q1, QT_Q4_K);
    CHECK_CLOSE(sens_factor(&s, q1, budget), 1, 1e-12);
    s.group[q1].step[s.group[q1].n_steps++] =
        (struct sens_step){budget, QT_Q4_K, QT_Q3_K, 2 * d, .01 * d};
    CHECK(sens_factor(&s, q1, budget) > 1.9 && sens_factor(&s, q1, budget) < 2);
    CHECK_CLOSE(sens_factor(&s, q1, 2 * budget), 1, 1e-12); /* for a different size */
    sens_release(&s);
    gguf_close(g);
}

/* Compares both limits and the weight of time with every combination of three types per group. */
static void test_solve_against_all(void) {
    static const enum qtype keep[] = {QT_Q4_K, QT_Q6_K, QT_Q8_0, QT_IQ4_NL, QT_Q5_0};
    struct err e;
    struct gguf *g;
    struct sens s;
    open_measured(&g, &s);
    int n_opts[16], pick[16], embd = find(&s, "token_embd.weight");
    enum qtype opt[16][QT_COUNT];
    CHECK(s.group[embd].host && !s.group[0 + (embd == 0)].host);
    /* 4 experts, 2 used: half of their bytes; embeddings are looked up */
    CHECK_CLOSE(s.group[find(&s, "blk.0.ffn_down_exps.weight")].read, .5, 0);
    CHECK_CLOSE(s.group[find(&s, "output.weight")].read, 1, 0);
    CHECK_CLOSE(s.group[embd].read, 0, 0);
    CHECK_CLOSE(s.kept_read, 256 * 4 + 256 * 4 * 4, 0);
    for (int i = 0; i < s.n_groups; i++) {
        bool any[QT_COUNT] = {false};
        for (size_t k = 0; k < COUNT_OF(keep); k++) any[keep[k]] = true;
        n_opts[i] = 0;
        for (int t = 0; t < QT_COUNT; t++) {
            s.group[i].can[t] = s.group[i].can[t] && any[t];
            if (s.group[i].can[t]) opt[i][n_opts[i]++] = (enum qtype)t;
        }
    }
    for (int round = 0; round < 12; round++) {
        uint64_t whole = s.kept_bytes + (uint64_t)(s.n_weights * (9 + round % 4) / 16);
        uint64_t device =
            round % 3 == 0 ? 0 : s.kept_bytes + (uint64_t)(s.n_weights * (9 + round % 4) / 16);
        struct sens_ask ask = {.tensor_bytes = round % 4 == 3 ? UINT64_MAX : whole,
                               .device_bytes = device,
                               .budget = whole};
        struct sens_mix m0, m;
        CHECK_OK(sens_solve(&s, &ask, &m0, &e));
        ask.speed = .5 * (round % 2 + 1);
        CHECK_OK(sens_solve(&s, &ask, &m, &e));
        double price = ask.speed * m0.loss / m0.decode_bytes, best[2] = {HUGE_VAL, HUGE_VAL};
        memset(pick, 0, sizeof pick);
        for (int at = 0; at < s.n_groups;) {
            uint64_t bytes = s.kept_bytes, dev = s.kept_bytes;
            double loss = 0, read = s.kept_read;
            for (int i = 0; i < s.n_groups; i++) {
                enum qtype t = opt[i][pick[i]];
                bytes += s.group[i].bytes[t];
                dev += i == embd ? 0 : s.group[i].bytes[t];
                read += s.group[i].read * (double)s.group[i].bytes[t];
                loss += sens_loss(&s, i, t);
            }
            if (bytes <= ask.tensor_bytes && (!device || dev <= device)) {
                best[0] = fmin(best[0], loss);
                best[1] = fmin(best[1], loss + price * read);
            }
            for (at = 0; at < s.n_groups && ++pick[at] == n_opts[at]; at++) pick[at] = 0;
        }
        CHECK_CLOSE(m0.loss, best[0], 1e-12 * best[0]);
        CHECK_CLOSE(m.loss + price * m.decode_bytes, best[1], 1e-12 * best[1]);
        CHECK(m0.exact && m.exact && m.decode_bytes <= m0.decode_bytes && m.loss >= m0.loss);
        CHECK(m.bytes <= ask.tensor_bytes && (!device || m.device_bytes <= device));
        sens_mix_release(&m0);
        sens_mix_release(&m);
    }
    /* a type to avoid is not used if there is an alternative */
    struct sens_ask ask = {
        .tensor_bytes = UINT64_MAX, .budget = 1 << 20, .avoid = {[QT_Q8_0] = true}};
    struct sens_mix m;
    CHECK_OK(sens_solve(&s, &ask, &m, &e));
    for (int i = 0; i < s.n_groups; i++)
        CHECK((m.type[i] == QT_Q8_0) == (n_opts[i] == 1 && opt[i][0] == QT_Q8_0));
    sens_mix_release(&m);
    sens_release(&s);
    gguf_close(g);
}

/* Tests two layers of a role, each predicted from the other; expected values were computed
 * manually. */
static void test_accuracy(void) {
    struct gguf *g;
    struct sens s;
    struct sens_accuracy a;
    open_measured(&g, &s);
    sens_accuracy(&s, &a);
    CHECK(a.n_probed == 0 && a.between >= 1 && a.mix > 0);
    int q[2] = {find(&s, "blk.0.attn_q.weight"), find(&s, "blk.1.attn_q.weight")};
    double ratio[2] = {2, 2 * exp(.5)};
    for (int i = 0; i < 2; i++) {
        double err = s.group[q[i]].err[QT_Q4_K];
        s.group[q[i]].probe[s.group[q[i]].n_probes++] = (struct sens_probe){
            .type = QT_Q4_K, .kld = ratio[i] * err, .kld_stderr = (i ? .3 : .1) * ratio[i] * err};
    }
    sens_accuracy(&s, &a);
    CHECK_EQ_I64(a.n_probed, 2);
    CHECK_CLOSE(a.between, .5, 1e-9);
    CHECK_CLOSE(a.probed, sqrt((.01 + .09) / 2), 1e-9);
    CHECK(a.complete < a.mix && a.mix < .5);
    CHECK_EQ_I64(s.group[q[0]].n_probes, 1);
    /* steps of one layer apply to the other; with two, values are interpolated */
    uint64_t budget = 1 << 20;
    double d = sens_loss(&s, q[0], QT_Q3_K) - sens_loss(&s, q[0], QT_Q4_K);
    CHECK_CLOSE(sens_factor(&s, q[1], budget), 1, 1e-12);
    s.group[q[0]].step[s.group[q[0]].n_steps++] =
        (struct sens_step){budget, QT_Q4_K, QT_Q3_K, 2 * d, .01 * d};
    CHECK_CLOSE(sens_factor(&s, q[1], budget), sens_factor(&s, q[0], budget), 1e-12);
    sens_release(&s);
    gguf_close(g);
}

/* Tests slopes, and the effect of other layers' probes on them; expected values were computed
 * manually. */
static void test_slopes(void) {
    struct gguf *g;
    struct sens s;
    open_measured(&g, &s);
    const int q[2] = {find(&s, "blk.0.attn_q.weight"), find(&s, "blk.1.attn_q.weight")};
    const int head = find(&s, "output.weight"), embd = find(&s, "token_embd.weight");
    const double err[2] = {s.group[q[0]].err[QT_Q4_K], s.group[q[1]].err[QT_Q4_K]};
    s.group[q[0]].slope = .5;
    s.group[head].slope = 4;
    CHECK_CLOSE(sens_loss(&s, q[0], QT_Q4_K), .5 * err[0], 1e-12);
    CHECK_CLOSE(sens_loss(&s, q[1], QT_Q4_K), .5 * err[1], 1e-12); /* the neighbouring layer */
    s.group[q[1]].slope = .2;
    CHECK_CLOSE(sens_loss(&s, q[1], QT_Q4_K), .2 * err[1], 1e-12);
    /* a probe gives four times the gradients' value: all groups without better data are scaled */
    s.group[q[0]].probe[s.group[q[0]].n_probes++] =
        (struct sens_probe){.type = QT_Q4_K, .kld = 2 * err[0], .kld_stderr = 0};
    CHECK_CLOSE(sens_loss(&s, q[0], QT_Q4_K), 2 * err[0], 1e-12);
    CHECK_CLOSE(sens_loss(&s, q[1], QT_Q4_K), .8 * err[1], 1e-12);
    CHECK_CLOSE(sens_loss(&s, head, QT_Q6_K), 16 * s.group[head].err[QT_Q6_K], 1e-12);
    /* a group without a slope follows the measurements, too */
    const double before = sens_loss(&s, embd, QT_Q4_K);
    s.group[q[0]].probe[0].kld *= 3;
    CHECK_CLOSE(sens_loss(&s, embd, QT_Q4_K), 3 * before, 1e-9 * before);
    s.group[q[0]].probe[0].kld /= 3;
    struct sens_accuracy a;
    s.group[q[1]].probe[s.group[q[1]].n_probes++] =
        (struct sens_probe){.type = QT_Q4_K, .kld = .2 * err[1], .kld_stderr = 0};
    sens_accuracy(&s, &a);
    CHECK_CLOSE(a.between, log(4), 1e-9); /* 4 and 1 times the slopes, each from the other */
    sens_release(&s);
    gguf_close(g);
}

static void write_text(const char *text, size_t n) {
    struct err e;
    CHECK_OK(out_write_file(file, text, n, true, &e));
}

/* Writes a tensor of 64 rows: products of integers of 8 bits and a scale, which bf16 rounds; f32:
 * with errors of 1e-4 of a step instead. */
static void write_products(struct gguf_w *w, bool f32) {
    struct err e;
    for (int i = 0; i < 64 * 256; i++) {
        const int q = i % 32 ? i * 37 % 255 - 127 : 127; /* which gives away the scale */
        const float v = .0123291015625f * (float)q;      /* the scale is a number of f16 */
        const uint16_t rounded = fp_f32_to_bf16(v);
        const float moved = v + .0123f * 1e-4f * (float)(i % 3 - 1);
        CHECK_OK(f32 ? gguf_w_data(w, &moved, sizeof moved, &e)
                     : gguf_w_data(w, &rounded, sizeof rounded, &e));
    }
}

/* Checks that only weights that a type holds bit by bit, up to the rounding of the source, have no
 * error, however small the others are. */
static void test_exact_weights(void) {
    const int64_t ne[4] = {256, 64, 1, 1};
    struct err e;
    struct gguf *g;
    struct sens s;
    struct gguf_w *w = gguf_w_new();
    gguf_w_str(w, "general.architecture", "unknown");
    CHECK_OK(gguf_w_tensor(w, "blk.0.attn_q.weight", QT_BF16, 2, ne, &e));
    CHECK_OK(gguf_w_tensor(w, "blk.1.attn_q.weight", QT_F32, 2, ne, &e));
    CHECK_OK(gguf_w_begin(w, file, true, &e));
    write_products(w, false);
    write_products(w, true);
    CHECK_OK(gguf_w_commit(w, &e));
    gguf_w_free(w);
    CHECK_OK(gguf_open(&g, file, 0, &e));
    CHECK_OK(sens_init(&s, g, &e));
    CHECK_OK(sens_errors(&s, &(struct sens_source){.g = g, .pool = NULL}, &e));
    const double *exact = s.group[find(&s, "blk.0.attn_q.weight")].err,
                 *near = s.group[find(&s, "blk.1.attn_q.weight")].err;
    printf("errors in Q8_0: %.3g, %.3g\n", exact[QT_Q8_0], near[QT_Q8_0]);
    CHECK(!(exact[QT_Q8_0] > 0));
    CHECK(near[QT_Q8_0] > 0 && near[QT_Q8_0] < 4e-6);
    sens_release(&s);
    gguf_close(g);
    unlink(file);
}

/* Writes a model of square tensors with weights of about one, except those in row 1, which is not
 * sampled. */
static void make_large(void) {
    static const struct {
        const char *name;
        int64_t n;
        float large;
    } t[] = {{"token_embd.weight", 256, 1},
             {"blk.0.ffn_gate.weight", 256, 1},
             {"blk.0.ffn_up.weight", 256, -1e6f},
             {"blk.0.attn_q.weight", 256, 1e30f},
             {"blk.0.attn_k.weight", 100, 70000}};
    struct err e;
    struct gguf_w *w = gguf_w_new();
    gguf_w_str(w, "general.architecture", "unknown");
    for (size_t i = 0; i < COUNT_OF(t); i++)
        CHECK_OK(gguf_w_tensor(w, t[i].name, QT_F32, 2, (int64_t[]){t[i].n, 256}, &e));
    CHECK_OK(gguf_w_begin(w, file, true, &e));
    for (size_t i = 0; i < COUNT_OF(t); i++)
        for (int64_t k = 0; k < t[i].n * 256; k++) {
            const float x = (float)(k * 37 % 101) / 50 - 1;
            CHECK_OK(gguf_w_data(w, k == t[i].n + 3 ? &t[i].large : &x, sizeof x, &e));
        }
    CHECK_OK(gguf_w_commit(w, &e));
    gguf_w_free(w);
}

/* Checks that the groups of s have only types that hold their large weights. */
static void check_large(const struct sens *s) {
    const struct sens_group *up = &s->group[find(s, "blk.0.ffn_gate.weight")];
    CHECK(!(up->can[QT_Q2_K] && up->err[QT_Q2_K] >= 0) && up->err[QT_Q4_K] >= 0);
    CHECK(s->group[find(s, "token_embd.weight")].err[QT_Q2_K] > 0);
    const char *const alone[] = {"blk.0.attn_q.weight", "blk.0.attn_k.weight"};
    for (size_t i = 0; i < COUNT_OF(alone); i++) {
        const struct sens_group *g = &s->group[find(s, alone[i])];
        for (int k = 0; k < QT_COUNT; k++)
            CHECK((g->can[k] && g->err[k] >= 0) == (k == (int)sens_spare()));
        CHECK_EQ_I64(g->bytes[sens_spare()], g->n_weights * 2);
    }
}

/* Checks that types which cannot hold a weight are left out, for the whole group and although no
 * sampled row shows it, so that every mix can be written. */
static void test_large_weights(void) {
    struct err e;
    struct mixer x;
    struct work w = {.tmp = tmp_path("")};
    struct sens back;
    const char *json = tmp_path("large.json"), *out = tmp_path("large.gguf"),
               *plan = tmp_path("large.gguf.plan.tsv");
    make_large();
    const struct quantize_opts q = {.in = file, .out = out};
    CHECK_OK(mixer_open(&x, &w, &q, NULL, 0, &e));
    check_large(&x.s);
    CHECK_OK(sens_write(&x.s, x.g, json, true, &e));
    CHECK_OK(sens_init(&back, x.g, &e));
    CHECK_OK(sens_read(&back, json, &e));
    check_large(&back);
    sens_release(&back);
    for (uint64_t budget = 260000; budget < 400000; budget += 40000) {
        struct mix_job job;
        struct quantize_report r;
        CHECK_OK(mix_solve_job(&x, &q, &(struct mix_ask){.budget = budget}, &job, &e));
        job.o.overwrite = true;
        CHECK_OK(quantize_run(&job.o, &r, &e));
        mix_job_release(&job);
        unlink(out);
        unlink(plan);
    }
    mixer_close(&x);
    unlink(file);
}

/* Checks that importance of another shape is ignored for embeddings, as quantization does, and an
 * error otherwise. */
static void test_importance_of_another_shape(void) {
    static const char *const names[] = {"token_embd.weight", "blk.0.attn_q.weight"};
    for (int i = 0; i < 2; i++) {
        struct err e;
        struct gguf *g;
        struct sens s;
        struct imat m;
        imat_init(&m);
        struct imat_entry *en = imat_add(&m, names[i], 128, 1);
        for (int k = 0; k < 128; k++) en->sum2[k] = 1;
        en->count[0] = 1;
        CHECK_OK(gguf_open(&g, model, 0, &e));
        CHECK_OK(sens_init(&s, g, &e));
        const int rc = sens_errors(&s, &(struct sens_source){.g = g, .imat = &m}, &e);
        CHECK_EQ_I64(rc, i ? ERR_DATA : 0);
        sens_release(&s);
        gguf_close(g);
        imat_release(&m);
    }
}

static void test_file(void) {
    struct err e;
    struct gguf *g;
    struct sens s, t;
    CHECK_OK(gguf_open(&g, model, 0, &e));
    CHECK_OK(sens_init(&s, g, &e));
    CHECK_OK(sens_init(&t, g, &e));
    CHECK_OK(sens_errors(&s, &(struct sens_source){.g = g, .pool = NULL}, &e));
    s.group[2].probe[s.group[2].n_probes++] =
        (struct sens_probe){.type = QT_Q8_0, .kld = .25, .kld_stderr = .125};
    s.group[2].step[s.group[2].n_steps++] = (struct sens_step){1000, QT_Q8_0, QT_Q8_0, -.5, .0625};
    s.group[1].slope = .375;
    /* a joint probe twice, then once */
    for (; s.n_joint < 2; s.n_joint++)
        s.joint[s.n_joint] = (struct sens_joint){.block = 1, .kld = .5, .n_windows = 8};
    CHECK_OK(sens_write(&s, g, file, true, &e));
    CHECK_ERR(sens_read(&t, file, &e), ERR_DATA, "entry 2 repeats");
    s.n_joint = 1;
    CHECK_OK(sens_write(&s, g, file, true, &e));
    CHECK_OK(sens_read(&t, file, &e));
    for (int i = 0; i < s.n_groups; i++)
        for (int k = 0; k < QT_COUNT; k++)
            CHECK_CLOSE(s.group[i].err[k], t.group[i].err[k], 1e-8 * fabs(s.group[i].err[k]));
    CHECK_CLOSE(t.group[1].slope, .375, 0);
    CHECK(t.group[2].slope <= 0);
    CHECK_EQ_I64(t.group[2].n_probes, 1);
    CHECK_CLOSE(t.group[2].probe[0].kld_stderr, .125, 0);
    CHECK_CLOSE(t.group[2].step[0].diff, -.5, 0);
    CHECK_EQ_I64(t.group[2].step[0].budget, 1000);
    CHECK(t.n_joint == 1 && t.joint[0].block == 1 && t.joint[0].n_windows == 8);

    /* truncated at every byte: refused or, at the very end, still complete; never a crash */
    char *text = NULL;
    size_t n = 0;
    CHECK_OK(io_read_file(&text, &n, file, 1 << 20, &e));
    for (size_t k = 0; k + 3 < n; k += 37) {
        write_text(text, k);
        CHECK(sens_read(&t, file, &e) == ERR_DATA);
    }
    char *hash = strstr(text, t.header_hash), *err = strstr(text, "\"Q4_K\": ");
    CHECK(hash && err);
    if (hash && err) {
        const char was[2] = {err[8], err[9]};
        err[8] = '-'; /* a negative error, still a valid JSON number */
        if (err[9] == '.') err[9] = '1';
        write_text(text, n);
        CHECK_ERR(sens_read(&t, file, &e), ERR_DATA, "error of Q4_K");
        memcpy(err + 8, was, 2);
        char *slope = strstr(text, "\"slope\": 0.375");
        CHECK(slope);
        if (slope) memcpy(slope + 9, "-1", 2);
        write_text(text, n);
        CHECK_ERR(sens_read(&t, file, &e), ERR_DATA, "slope");
        if (slope) memcpy(slope + 9, "0.", 2);
        *hash = *hash == '0' ? '1' : '0';
        write_text(text, n);
        CHECK_ERR(sens_read(&t, file, &e), ERR_DATA, "another model");
    }
    write_text("{\"format\": \"hone-sensitivity\", \"version\": 2}", 44);
    CHECK_ERR(sens_read(&t, file, &e), ERR_DATA, "version 1");
    free(text);
    sens_release(&s);
    sens_release(&t);
    gguf_close(g);
}

/* Tests embeddings that are also the head: on the device, read in full, and with the head's
 * floor. */
static void test_tied(void) {
    struct err e;
    struct gguf *g;
    struct sens s;
    make_model(true);
    CHECK_OK(gguf_open(&g, model, 0, &e));
    CHECK_OK(sens_init(&s, g, &e));
    int embd = find(&s, "token_embd.weight");
    CHECK(!s.group[embd].host && s.model.tied);
    CHECK_CLOSE(s.group[embd].read, 1, 0);
    uint64_t budget = (uint64_t)s.n_weights / 4; /* two bits: floors for low budgets */
    CHECK(!sens_allowed(&s, embd, QT_Q4_K, budget) && sens_allowed(&s, embd, QT_Q5_K, budget));
    sens_release(&s);
    gguf_close(g);
}

/* Returns the bytes that a recipe's file takes, or that its tensors take on a card. */
static uint64_t plain_size(const char *recipe, const struct mixer *card) {
    const struct quantize_opts o = {
        .in = model, .recipe = recipe, .dry_run = true, .want_rows = true};
    struct quantize_report r;
    struct err e;
    CHECK_OK(quantize_run(&o, &r, &e));
    const uint64_t bytes = card ? mixer_device_bytes(card, &r) : r.file_bytes;
    quantize_report_release(&r);
    return bytes;
}

/* Tests with which plain recipes a mix is compared: they need no importance, which is missing here,
 * and fit the budget and the card. */
static void test_rivals(void) {
    struct err e;
    struct mixer x = {0};
    struct work w = {0};
    CHECK_OK(gguf_open(&x.g, model, 0, &e));
    CHECK_OK(sens_init(&x.s, x.g, &e));
    struct gate small = {.w = &w, .base = model, .prefix = file}, large = small, card = small;
    const uint64_t budget = plain_size("IQ3_XXS", NULL);
    CHECK_OK(gate_find(&small, budget, &e));
    CHECK(small.n > 0);
    for (int i = 0; i < small.n; i++) {
        const struct quantize_opts o = {
            .in = model, .out = file, .recipe = small.plain[i].name, .overwrite = true};
        struct quantize_report r;
        CHECK_OK(quantize_run(&o, &r, &e));
        CHECK(r.file_bytes <= budget);
    }
    /* two q and the output; gate, up and down; alpha and beta; the rest; no embeddings */
    CHECK_EQ_I64(plain_size("Q8_0", &x), (3 * 64 + 3 * 128 + 2 * 8) * 272 + 5 * 256 * 4);
    card.mixer = &x;
    card.device_room = plain_size("Q4_K_M", &x);
    CHECK_OK(gate_find(&large, UINT64_MAX - 1, &e));
    CHECK_OK(gate_find(&card, UINT64_MAX - 1, &e));
    CHECK(large.n == GATE_PLAIN && plain_size(large.plain[0].name, &x) > card.device_room);
    CHECK(card.n == GATE_PLAIN);
    for (int i = 0; i < card.n; i++) CHECK(plain_size(card.plain[i].name, &x) <= card.device_room);
    gate_release(&small);
    gate_release(&large);
    gate_release(&card);
    mixer_close(&x);
}

int main(void) {
    tmp_make();
    model = tmp_path("m.gguf");
    file = tmp_path("s.json");
    make_model(false);
    RUN(test_groups);
    RUN(test_groups_of_odd_widths);
    RUN(test_errors);
    RUN(test_solve);
    RUN(test_solve_against_all);
    RUN(test_accuracy);
    RUN(test_slopes);
    RUN(test_exact_weights);
    RUN(test_large_weights);
    RUN(test_importance_of_another_shape);
    RUN(test_file);
    RUN(test_rivals);
    RUN(test_tied);
    tmp_remove();
    return check_done();
}
