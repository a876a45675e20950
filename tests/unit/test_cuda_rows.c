// SPDX-License-Identifier: MIT
/* tests/unit/test_cuda_rows.c - several sequences through one session of a device: random schedules
 * of mixed batches, forks, trims, snapshots and new sequences. Two properties must hold for every
 * row.
 *
 * It equals the CPU's result for its sequence computed in one go, up to the order of sums (weights
 * and activations in f32; test_session checks the CPU against independent numbers).
 *
 * It is, bit for bit, independent of the other sequences if its own pieces are the same and the
 * passes stay in their class: a sequence is fed again, alone except for rows of another one that
 * keep the number of rows in its class (docs/design/cuda.md). HONE_LONG=1: longer schedules, more
 * models, and every sequence is fed again. */
#include <dirent.h>

#include "convert/convert.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/rng.h"
#include "base/io.h"
#include "runtime/engine/cuda/exec.h"
#include "runtime/engine/logits.h"
#include "tests/cuda-emu/control.h"
#include "tests/unit/micro.h"

#define MODELS "tests/golden/models/"
#define LATENT "tests/golden/archs/deepseek-v3"

enum { N_SEQS = 4, CTX = 300, MOST_OPS = 400 };
static const double tol = 5e-4; /* as in test_cuda_session */
static const struct device cuda = {.kind = DEVICE_CUDA};

/* Returns whether to run everything. Under a sanitizer (CHECK_SANITIZED), which looks for other
 * errors and takes four times as long, less is done.
 */

static bool thorough(void) {
    return !emu_shuffle || getenv("HONE_LONG");
}

static struct model *open_model(const char *name, const char *type) {
    struct err e = {0};
    struct model *m = NULL;
    const bool micro = strstr(name, "/archs/") != NULL;
    struct convert_opts o = {.src = micro ? micro_folder(name, NULL) : name,
                             .out = tmp_path("m.gguf"),
                             .type = type,
                             .overwrite = true};
    struct convert_report r;
    CHECK_OK(convert_run(&o, &r, &e));
    CHECK_OK(model_open(&m, tmp_path("m.gguf"), &e));
    return m;
}

struct op { /* step of a sequence: rows of a pass, or a return to a position */
    int32_t n, n_pass, to;
};
struct sim { /* a sequence and its expected state */
    struct seq *q;
    int64_t n, n_fed;
    int n_ops;
    int32_t id[CTX], fed[4 * CTX];
    struct op op[MOST_OPS];
    float *hidden; /* [CTX][d] */
};
struct world {
    const struct model *m;
    struct session *s;
    int64_t d, n_vocab;
    struct rng rng;
    struct sim sim[N_SEQS], snap;
    int n_mixed, n_forks, n_trims;
    int64_t few; /* few_of() */
    bool is_short;
};

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}
static int64_t below(struct world *w, int64_t n) {
    return (int64_t)(rng_u64(&w->rng) % (uint64_t)n);
}
static void copy_sim(struct world *w, struct sim *to, const struct sim *from) {
    struct sim old = *to;
    *to = *from;
    to->q = old.q;
    to->hidden = old.hidden;
    memcpy(to->hidden, from->hidden, (size_t)(CTX * w->d) * sizeof *to->hidden);
}

/* Runs one pass with rows of some sequences, interleaved at random. */
static void step_batch(struct world *w, int64_t n_rows) {
    struct session_row row[CTX];
    float *at[CTX];
    int64_t n = 0;
    int32_t mine[N_SEQS] = {0}, n_in = 0;
    const int64_t some = 2 + below(w, N_SEQS - 1); /* of the sequences */
    for (int64_t i = 0; i < n_rows; i++) {
        const int64_t k = below(w, some);
        struct sim *x = &w->sim[k];
        if (x->n == CTX || x->n_fed == (int64_t)COUNT_OF(x->fed)) continue;
        const int32_t id = (int32_t)below(w, w->n_vocab);
        row[n] = (struct session_row){.id = id, .seq = x->q, .want = WANT_HIDDEN};
        at[n++] = x->hidden + x->n * w->d;
        x->id[x->n++] = x->fed[x->n_fed++] = id;
        n_in += !mine[k]++;
    }
    struct err e = {0};
    float *hidden = xcalloc((size_t)(CTX * w->d), sizeof *hidden);
    CHECK_OK(session_pass(w->s, &(struct session_pass){.row = row, .n = n, .hidden = hidden}, &e));
    for (int64_t i = 0; i < n; i++) memcpy(at[i], hidden + i * w->d, (size_t)w->d * sizeof *hidden);
    for (int i = 0; i < N_SEQS; i++) {
        struct sim *x = &w->sim[i];
        CHECK_EQ_I64(seq_pos(x->q), x->n);
        if (mine[i]) x->op[x->n_ops++] = (struct op){mine[i], (int32_t)n, 0};
    }
    w->n_mixed += n_in > 1;
    free(hidden);
}

static void step_fork(struct world *w) {
    const int64_t k = below(w, N_SEQS);
    struct sim *to = &w->sim[k], *from = &w->sim[(k + 1 + below(w, N_SEQS - 1)) % N_SEQS];
    struct seq *q = NULL;
    struct err e = {0};
    CHECK_OK(seq_fork(&q, from->q, &e));
    seq_free(to->q);
    to->q = q;
    copy_sim(w, to, from);
    w->n_forks++;
}

static void step_trim(struct world *w) {
    struct sim *x = &w->sim[below(w, N_SEQS)];
    struct err e = {0};
    const int64_t to = max_i64(x->n - below(w, 6), 0);
    if (seq_trim(x->q, to, &e)) {
        CHECK_EQ_I64(e.code, ERR_USAGE);
        return;
    }
    w->n_trims += to < x->n;
    x->op[x->n_ops++] = (struct op){.to = (int32_t)to};
    x->n = to;
}

static void step_snapshot(struct world *w) {
    struct sim *x = &w->sim[below(w, N_SEQS)];
    struct err e = {0};
    if (w->snap.q) {
        seq_restore(x->q, w->snap.q);
        copy_sim(w, x, &w->snap);
        return;
    }
    CHECK_OK(seq_fork(&w->snap.q, x->q, &e));
    copy_sim(w, &w->snap, x);
}

static void step(struct world *w, int i) {
    static const char long_plan[] = "mfmtmsmms", short_plan[] = "mmfmt"; /* then anything */
    const char *plan = w->is_short ? short_plan : long_plan;
    const int64_t what = below(w, 8);
    const char c = i < (int)strlen(plan) ? plan[i] : "mmmmftss"[what];
    if (c == 'm' && w->is_short) /* of both classes */
        step_batch(w, i % 2 ? 2 + below(w, w->few - 1) : CU_FEW + 1);
    else if (c == 'm')
        step_batch(w, i % 2 ? 1 + below(w, CU_FEW) : CU_FEW + 1 + below(w, CU_FEW));
    else if (c == 'f')
        step_fork(w);
    else if (c == 't')
        step_trim(w);
    else
        step_snapshot(w);
}

/* ---- what must be true ---- */

static void near_cpu(struct world *w, const struct session_opts *o, const struct sim *x,
                     const char *name) {
    struct session_opts with = *o;
    struct session *s = NULL;
    struct err e = {0};
    with.device = (struct device){0};
    with.isa = kern_isa_best();
    CHECK_OK(session_new(&s, w->m, &with, &e));
    float *hidden = xcalloc((size_t)(CTX * w->d), sizeof *hidden);
    CHECK_OK(session_forward(s, x->id, x->n, hidden, &e));
    const double diff = golden_diff(hidden, x->hidden, x->n * w->d);
    if (!(diff <= tol)) CHECK_FAIL("%s: %g from the CPU", name, diff);
    free(hidden);
    session_free(s);
}

/* Returns the largest number of rows in a pass of the lower class. */
static int64_t few_of(enum act_mode act) {
    return act == ACT_Q8 ? CU_FEW : 3;
}
/* Returns the smallest number of rows in a pass with the same order of sums as one of n rows. */
static int64_t least_of_class(enum act_mode act, int64_t n) {
    return n > few_of(act) ? few_of(act) + 1 : 1;
}

/* Returns the number of pieces whose batch class differs from the one they would have alone. */
static int n_moved(enum act_mode act, const struct sim *x) {
    int n = 0;
    for (int i = 0; i < x->n_ops; i++)
        n += x->op[i].n && least_of_class(act, x->op[i].n) != least_of_class(act, x->op[i].n_pass);
    return n;
}

/* Feeds the same pieces again, alongside rows of `other` only. */
static void same_again(struct world *w, const struct session_opts *o, const struct sim *x,
                       const char *name) {
    struct session *s = NULL;
    struct seq *other = NULL;
    struct err e = {0};
    float *hidden = xcalloc((size_t)(CTX * w->d), sizeof *hidden);
    const int32_t *id = x->fed;
    int64_t pos = 0;
    CHECK_OK(session_new(&s, w->m, o, &e));
    CHECK_OK(session_new_seq(s, 0, &other, &e));
    for (int i = 0; i < x->n_ops; i++) {
        const struct op *op = &x->op[i];
        struct session_row row[CTX];
        const int64_t n_more = max_i64(least_of_class(o->act, op->n_pass) - op->n, 0);
        if (!op->n) {
            CHECK_OK(seq_trim(session_own_seq(s), op->to, &e));
            pos = op->to;
            continue;
        }
        if (seq_pos(other) + n_more > CTX) seq_reset(other);
        for (int64_t k = 0; k < n_more; k++)
            row[k] = (struct session_row){.id = (int32_t)((7 * k + i) % w->n_vocab), .seq = other};
        for (int64_t k = 0; k < op->n; k++)
            row[n_more + k] = (struct session_row){.id = *id++, .want = WANT_HIDDEN};
        const struct session_pass p = {
            .row = row, .n = n_more + op->n, .hidden = hidden + pos * w->d};
        CHECK_OK(session_pass(s, &p, &e));
        pos += op->n;
    }
    CHECK_EQ_I64(pos, x->n);
    for (int64_t i = 0; i < x->n; i++)
        if (memcmp(hidden + i * w->d, x->hidden + i * w->d, (size_t)w->d * sizeof *hidden) != 0) {
            CHECK_FAIL("%s: row %d of %d has other bits in other company", name, (int)i, (int)x->n);
            break;
        }
    free(hidden);
    seq_free(other);
    session_free(s);
}

/* Returns the number of pieces whose batch class differs from the one they would have alone.
 * `name`: for messages. */
static int schedule_of(const struct model *m, const char *name, enum act_mode act, enum qtype kv,
                       int n_steps, uint64_t seed) {
    struct session_opts o = {
        .n_ctx = CTX, .n_ubatch = 64, .act = act, .kv_type = kv, .device = cuda};
    struct err e = {0};
    struct world *w = xcalloc(1, sizeof *w);
    w->m = m;
    w->is_short = n_steps < 5;
    w->few = few_of(act);
    w->d = m->hp.d[HD_EMBD];
    w->n_vocab = m->hp.d[HD_VOCAB];
    rng_seed(&w->rng, seed);
    CHECK_OK(session_new(&w->s, m, &o, &e));
    const uint64_t empty = session_bytes(w->s);
    for (int i = 0; i < N_SEQS; i++) {
        w->sim[i].hidden = xcalloc((size_t)(CTX * w->d), sizeof(float));
        CHECK_OK(session_new_seq(w->s, i % 2 ? CTX : 0, &w->sim[i].q, &e));
    }
    w->snap.hidden = xcalloc((size_t)(CTX * w->d), sizeof(float));
    for (int i = 0; i < n_steps; i++) step(w, i);
    CHECK(w->n_mixed > !w->is_short && w->n_forks);
    int most = 0;
    for (int i = 0; i < N_SEQS; i++) {
        if (act == ACT_F32) near_cpu(w, &o, &w->sim[i], name);
        if (thorough()) same_again(w, &o, &w->sim[i], name);
        if (n_moved(act, &w->sim[i]) > n_moved(act, &w->sim[most])) most = i;
    }
    const int moved = n_moved(act, &w->sim[most]);
    if (!thorough()) same_again(w, &o, &w->sim[most], name);
    for (int i = 0; i < N_SEQS; i++) {
        seq_free(w->sim[i].q);
        free(w->sim[i].hidden);
    }
    seq_free(w->snap.q);
    free(w->snap.hidden);
    CHECK_EQ_I64(session_bytes(w->s), empty); /* all memory of the sequences has been released */
    session_free(w->s);
    free(w);
    return moved;
}
static void schedule_as(const char *folder, const char *type, enum act_mode act, enum qtype kv,
                        int n_steps, uint64_t seed) {
    struct model *m = open_model(folder, type);
    if (m) CHECK(schedule_of(m, folder, act, kv, thorough() ? 60 : n_steps, seed) > 0);
    model_close(m);
}
static void schedule(const char *folder, enum act_mode act, enum qtype kv, int n_steps,
                     uint64_t seed) {
    schedule_as(folder, act == ACT_Q8 ? "q8_0" : "f32", act, kv, n_steps, seed);
}

static void test_f32(void) {
    schedule(MODELS "qwen35", ACT_F32, QT_F16, 8, 1);
    if (!CHECK_SANITIZED) schedule("tests/golden/archs/granitehybrid", ACT_F32, QT_F16, 8, 10);
    if (!thorough()) return;
    schedule("tests/golden/archs/lfm2", ACT_F32, QT_F16, 8, 11);
    schedule("tests/golden/archs/jamba", ACT_F32, QT_F16, 8, 12);
    schedule("tests/golden/archs/qwen3next", ACT_F32, QT_F16, 8, 13);
    schedule(MODELS "gemma4moe", ACT_F32, QT_F32, 8, 2);
    schedule(MODELS "qwen35moe", ACT_F32, QT_Q8_0, 8, 3);
    schedule(MODELS "qwen3moe", ACT_F32, QT_F32, 8, 4);
    schedule(MODELS "mistral", ACT_F32, QT_F32, 8, 5);
    /* An f32 cache: with f16 one text differs by 1.2e-3 from the CPU, since a key midway between
     * two f16 values may round to the other one. */
    schedule(MODELS "qwen2", ACT_F32, QT_F32, 8, 6);
}
static void test_q8(void) {
    schedule(MODELS "qwen35moe", ACT_Q8, QT_Q8_0, CHECK_SANITIZED ? 3 : 5, 7);
    /* products that stay exact: float matrices, routers that share no launch */
    schedule_as(MODELS "qwen3", "bf16", ACT_Q8, QT_F16, 4, 7);
    if (!CHECK_SANITIZED) schedule("tests/golden/archs/gptoss", ACT_Q8, QT_F16, 4, 7);
    if (!thorough()) return;
    schedule("tests/golden/archs/glm4moe", ACT_Q8, QT_F16, 5, 7);
    schedule_as("tests/golden/tiny-qwen35moe", "bf16", ACT_Q8, QT_F16, 5, 7);
    schedule("tests/golden/tiny-qwen35moe", ACT_Q8, QT_Q8_0, 5, 7);
    schedule(MODELS "gemma4moe", ACT_Q8, QT_F16, 8, 8);
    schedule(MODELS "qwen3", ACT_Q8, QT_F32, 8, 9);
}

/* ---- every architecture ---- */

/* Numbers architectures' variants below 256: marks those of a graph, and returns whether one is
 * new. */
static bool is_new(const struct graph *g, bool seen[256]) {
    bool now[256] = {false}, news = false;
    for (int op = 0; op < OP_COUNT; op++) now[op] = graph_count(g, (enum gr_op)op) > 0;
    for (int i = 0; i < graph_count(g, OP_ATTN); i++) {
        const struct gr_node *n = graph_nth(g, OP_ATTN, i);
        now[100 + (n->attn.softcap > 0)] = now[102 + (n->attn.sinks != GR_NONE)] = true;
        now[104 + (n->attn.window > 0)] = now[106 + (n->src[1] == GR_NONE)] = true;
    }
    for (int i = 0; i < graph_count(g, OP_ROPE); i++)
        now[110 + graph_nth(g, OP_ROPE, i)->rope.adjacent] = true;
    for (int i = 0; i < graph_count(g, OP_MOE); i++) {
        const struct gr_moe *m = &graph_nth(g, OP_MOE, i)->moe;
        now[120 + m->choice.score] = now[124 + m->choice.keep] = true;
        now[126 + (m->choice.groups > 0)] = now[128 + m->gelu] = now[130 + m->joined] = true;
        now[132 + (m->limit > 0)] = now[134 + (m->prefer != GR_NONE)] = true;
    }
    for (int i = 0; i < 256; i++) {
        news = news || (now[i] && !seen[i]);
        seen[i] = seen[i] || now[i];
    }
    return news;
}

/* Opens the folder's model; NULL: hone does not know its class. */
static struct model *open_micro(const char *name) {
    char *folder = xasprintf("tests/golden/archs/%s", name);
    struct convert_opts o = {.src = micro_folder(folder, NULL),
                             .out = tmp_path("m.gguf"),
                             .type = "f32",
                             .overwrite = true};
    struct convert_report r;
    struct model *m = NULL;
    struct err e = {0};
    if (convert_run(&o, &r, &e))
        CHECK_EQ_I64(e.code, ERR_DATA);
    else
        CHECK_OK(model_open(&m, o.out, &e));
    free(folder);
    return m;
}

/* Returns whether the device computes a token of m. Any failure but a refusal fails the test. */
static bool computes(const struct model *m) {
    const struct session_opts o = {.n_ctx = CTX, .device = cuda};
    const int32_t id = 1;
    struct session *s = NULL;
    struct err e = {0};
    const int rc = session_new(&s, m, &o, &e);
    const bool yes = !rc && !session_step(s, &id, 1, NULL, &e);
    const bool refused = e.code == ERR_USAGE && (strstr(e.msg, "--device cpu") ||
                                                 strstr(e.msg, "that this model supports"));
    if (!yes && !refused) CHECK_FAIL("%s: %s", m->arch->name, e.msg);
    session_free(s);
    return yes;
}

/* Runs a short schedule for each small model with a feature that earlier ones lack; for all with
 * HONE_LONG=1. Every architecture of the registry is included. */
static void test_archs(void) {
    static const char *const stored[] = {"qwen2",  "qwen3",     "qwen3moe", "mistral",
                                         "qwen35", "qwen35moe", "gemma4moe"};
    enum { N_STORED = COUNT_OF(stored) };
    DIR *dir = opendir("tests/golden/archs");
    char *name[128];
    bool seen[256] = {false}, met[256] = {false};
    const int most = CHECK_SANITIZED ? 4 : 1000;
    int n = 0, n_run = 0, n_moved_all = 0;
    struct dirent *at;
    while (dir && (at = readdir(dir)) && n < (int)COUNT_OF(name))
        if (at->d_name[0] != '.') name[n++] = xstrdup(at->d_name);
    if (dir) closedir(dir);
    qsort(name, (size_t)n, sizeof *name, by_name);
    for (int i = 0; i < n + N_STORED; i++) {
        const char *of = i < n ? name[i] : stored[i - n];
        char *folder = xasprintf(MODELS "%s", of);
        struct model *m = i < n ? open_micro(of) : open_model(folder, "f32");
        free(folder);
        for (int k = 0; m && arch_at(k); k++)
            met[k] = met[k] || arch_at(k)->decoder == m->arch->decoder; /* a graph with two names */
        if (m && n_run < most && (is_new(&m->graph, seen) || thorough()) && computes(m)) {
            const int n_steps = thorough() ? 12 : 4;
            n_run++;
            n_moved_all += schedule_of(m, of, ACT_F32, QT_F32, n_steps, 100 + (uint64_t)n_run);
        }
        model_close(m);
        if (i < n) free(name[i]);
    }
    for (int k = 0; arch_at(k); k++)
        if (!met[k] && arch_at(k)->decoder) CHECK_FAIL("no small model of %s", arch_at(k)->name);
    printf("%d of %d small models have been run\n", n_run, n + N_STORED);
    CHECK(n_run >= min_i64(most, 9) && (CHECK_SANITIZED || n_moved_all > 0));
}

/* Checks that a captured token serves every sequence, even one whose pages have changed. */
static void test_captured(void) {
    struct model *m = open_model(MODELS "qwen35", "f32");
    struct session_opts o = {.n_ctx = CTX, .kv_type = QT_F16, .device = cuda};
    struct session *s = NULL;
    struct seq *q[3] = {NULL, NULL, NULL};
    struct err e = {0};
    if (!m) return;
    const int64_t v = m->hp.d[HD_VOCAB];
    float *l = xcalloc((size_t)(6 * v), sizeof *l);
    CHECK_OK(session_new(&s, m, &o, &e));
    for (int i = 0; i < 2; i++) CHECK_OK(session_new_seq(s, 0, &q[i], &e));
    const struct cuda *d = exec_cuda_head(s);
    for (int i = 0; i < 6; i++) { /* q[0]: 0 1 2, q[1]: the same three, interleaved */
        const struct session_row row = {.id = i / 2, .seq = q[i % 2], .want = WANT_LOGITS};
        const int64_t before = cu_launches(d->q);
        const struct session_pass p = {.row = &row, .n = 1, .logits = l + i * v};
        CHECK_OK(session_pass(s, &p, &e));
        CHECK((cu_launches(d->q) == before) == (i >= 2));
    }
    for (int i = 0; i < 6; i += 2)
        CHECK(memcmp(l + i * v, l + (i + 1) * v, (size_t)v * sizeof *l) == 0);
    CHECK_OK(seq_fork(&q[2], q[0], &e));
    for (int i = 0; i < 3; i++) { /* the fork's page is copied when it is written */
        const struct session_row row = {.id = 5, .seq = q[i], .want = WANT_LOGITS};
        const struct session_pass p = {.row = &row, .n = 1, .logits = l + i * v};
        CHECK_OK(session_pass(s, &p, &e));
        CHECK(memcmp(l, l + i * v, (size_t)v * sizeof *l) == 0);
    }
    const struct session_row row = {.id = 6, .seq = q[0], .want = WANT_LOGITS};
    CHECK_OK(session_pass(s, &(struct session_pass){.row = &row, .n = 1, .logits = l}, &e));
    CHECK(memcmp(l, l + v, (size_t)v * sizeof *l) != 0);
    for (int i = 0; i < 3; i++) seq_free(q[i]);
    session_free(s);
    free(l);
    model_close(m);
}

/* Checks that a mark, and continuing after it, take no memory beyond the plan, since there may be
 * none. */
static void test_mark(void) {
    static const char *const name[] = {MODELS "qwen35", MODELS "gemma4moe"};
    for (int i = 0; i < 2; i++) {
        struct model *m = open_model(name[i], "f32");
        struct session_opts o = {.n_ctx = 600, .kv_type = QT_F16, .device = cuda};
        struct session *s = NULL;
        struct err e = {0};
        const int32_t ids[4] = {3, 5, 3, 9};
        float *h[2] = {xcalloc((size_t)m->hp.d[HD_VOCAB], 4),
                       xcalloc((size_t)m->hp.d[HD_VOCAB], 4)};
        CHECK_OK(session_new(&s, m, &o, &e));
        const uint64_t all = session_bytes(s);
        CHECK_OK(session_forward(s, ids, 2, NULL, &e));
        for (int k = 0; k < 2; k++) {
            CHECK_OK(session_mark(s, &e));
            CHECK_OK(session_step(s, ids + 2, 2, h[0], &e));
            session_rewind(s);
            CHECK_OK(session_step(s, ids + 2, 2, h[1], &e));
            CHECK(memcmp(h[0], h[1], (size_t)m->hp.d[HD_VOCAB] * sizeof *h[0]) == 0);
            CHECK_EQ_I64(session_bytes(s), all);
        }
        for (int k = 0; k < 2; k++) free(h[k]);
        session_free(s);
        model_close(m);
    }
}

/* ---- files ---- */

static bool same_files(const char *a, const char *b) {
    char *x = NULL, *y = NULL;
    size_t n = 0, k = 0;
    struct err e = {0};
    CHECK_OK(io_read_file(&x, &n, a, 1 << 26, &e));
    CHECK_OK(io_read_file(&y, &k, b, 1 << 26, &e));
    const bool same = n == k && n > 100 && memcmp(x, y, n) == 0;
    free(x);
    free(y);
    return same;
}

/* Moves a sequence of n tokens from the CPU to a device and back. The file must stay
 * byte-identical, so every code, scale and state is in its place. Both must continue with the same
 * results, and a second session on the device with the same bits as the first. */
static void files(const struct model *m, const char *name, enum qtype kv, int64_t n) {
    const struct kv_type *t = kv_type_norot(kv_type_of(kv)); /* as on CUDA */
    const struct session_opts cpu = {.n_ctx = CTX, .isa = kern_isa_best(), .kv_k = t, .kv_v = t},
                              there = {.n_ctx = CTX, .kv_type = kv, .device = cuda};
    struct session *s[3] = {NULL, NULL, NULL};
    struct err e = {0};
    char *path[3] = {NULL, NULL, NULL};
    int32_t ids[CTX];
    const int64_t d = m->hp.d[HD_EMBD];
    float *h = xcalloc((size_t)(3 * 2 * d), sizeof *h);
    for (int i = 0; i < CTX; i++) ids[i] = (int32_t)((i * 7919 + 13) % m->hp.d[HD_VOCAB]);
    for (int i = 0; i < 3; i++) {
        path[i] = xasprintf("%s/seq%d", tmp_dir, i);
        CHECK_OK(session_new(&s[i], m, i ? &there : &cpu, &e));
        if (!i) CHECK_OK(session_forward(s[0], ids, n, NULL, &e));
        if (i) CHECK_OK(session_load_seq(s[i], NULL, path[i - 1], &e));
        CHECK_EQ_I64(session_pos(s[i]), n);
        CHECK_OK(session_save_seq(s[i], NULL, path[i], true, &e));
        CHECK(same_files(path[0], path[i]));
        CHECK_OK(session_forward(s[i], ids + n, 2, h + i * 2 * d, &e));
    }
    CHECK(memcmp(h + 2 * d, h + 4 * d, (size_t)(2 * d) * sizeof *h) == 0);
    const double diff = golden_diff(h, h + 2 * d, 2 * d);
    if (!(diff <= tol)) CHECK_FAIL("%s, %s: %g from the CPU", name, qtype_name(kv), diff);
    /* the CPU reads the device's file */
    CHECK_OK(session_save_seq(s[1], NULL, path[1], true, &e));
    CHECK_OK(session_load_seq(s[0], NULL, path[1], &e));
    CHECK_OK(session_save_seq(s[0], NULL, path[2], true, &e));
    CHECK(same_files(path[1], path[2]));
    for (int i = 0; i < 3; i++) {
        session_free(s[i]);
        free(path[i]);
    }
    free(h);
}
static void test_files(void) {
    static const struct {
        const char *name;
        enum qtype kv[2]; /* cache type for a long sequence, for a short one */
    } c[] = {{MODELS "qwen35", {QT_Q8_0, QT_Q4_0}},
             {MODELS "gemma4moe", {QT_F16, QT_F32}},
             {LATENT, {QT_Q4_0, QT_Q8_0}}};
    for (size_t i = 0; i < COUNT_OF(c); i++) {
        struct model *m = open_model(c[i].name, "f32");
        if (!m) continue;
        files(m, c[i].name, c[i].kv[0], 270); /* windows have moved past the first page */
        files(m, c[i].name, c[i].kv[1], 2);   /* fewer tokens than a convolution covers */
        model_close(m);
    }
}

/* ---- what comes down ---- */

static struct emu_counts counted(void) {
    struct emu_counts n = {0};
    if (emu_count) emu_count(&n);
    return n;
}

/* Tests a pass in which some rows request logits, the best logits, or the hidden row. Logits must
 * be bit-identical to session_head of the hidden rows, and the best ones must be the best of those.
 * Contiguous hidden rows are copied at once, and so are logits; the head is computed once. */
enum { WANTS = 11 };
static void want_outputs(struct session *s, const unsigned *want, bool pinned) {
    const int64_t d = session_model(s)->hp.d[HD_EMBD], v = session_model(s)->hp.d[HD_VOCAB];
    struct session_row row[WANTS];
    struct session_best best[WANTS], here;
    struct session_host to;
    struct err e = {0};
    struct seq *q[WANTS];
    float *hidden[2], *all = xcalloc((size_t)(WANTS * v), sizeof *all);
    for (int i = 0; i < 2; i++) hidden[i] = xcalloc((size_t)(WANTS * d), sizeof **hidden);
    for (int i = 0; i < WANTS; i++) {
        CHECK_OK(session_new_seq(s, 0, &q[i], &e));
        row[i] = (struct session_row){.id = 7 + 3 * i, .seq = q[i], .want = WANT_HIDDEN};
    }
    CHECK_OK(
        session_pass(s, &(struct session_pass){.row = row, .n = WANTS, .hidden = hidden[0]}, &e));
    int64_t n_logits = 0, n_best = 0, n_hidden = 0, runs = 0, copies = 0, n_out = 0;
    for (int i = 0; i < WANTS; i++) /* rows that need logits, all at once */
        if (want[i] & (WANT_LOGITS | WANT_BEST))
            memcpy(hidden[1] + d * n_out++, hidden[0] + d * i, (size_t)d * sizeof(float));
    if (n_out) CHECK_OK(session_head(s, hidden[1], n_out, all, &e));
    for (int i = 0; i < WANTS; i++) {
        row[i].want = want[i];
        seq_reset(q[i]);
        const unsigned was = i ? want[i - 1] : 0, out = WANT_LOGITS | WANT_BEST;
        runs += (want[i] & WANT_HIDDEN) && !(was & WANT_HIDDEN);
        unsigned before = 0; /* requests of the previous row with outputs */
        for (int k = 0; k < i; k++) before = want[k] & out ? want[k] & out : before;
        copies += (want[i] & out) && (want[i] & out) != before;
        n_logits += (want[i] & WANT_LOGITS) != 0;
        n_best += (want[i] & WANT_BEST) != 0;
        n_hidden += (want[i] & WANT_HIDDEN) != 0;
    }
    CHECK_OK(session_host_new(s, &to, (uint64_t)(WANTS * v) * sizeof(float), "logits", &e));
    float *logits = pinned ? to.p : xcalloc((size_t)(WANTS * v), sizeof *logits);
    const struct emu_counts before = counted();
    CHECK_OK(session_pass(
        s,
        &(struct session_pass){
            .row = row, .n = WANTS, .hidden = hidden[1], .logits = logits, .best = best},
        &e));
    const struct emu_counts after = counted();
    const float *is = all;
    for (int64_t i = 0, l = 0, b = 0, h = 0; i < WANTS; i++) {
        if (want[i] & WANT_HIDDEN)
            CHECK(memcmp(hidden[1] + d * h++, hidden[0] + d * i, (size_t)d * sizeof(float)) == 0);
        if (want[i] & WANT_LOGITS)
            CHECK(memcmp(logits + v * l++, is, (size_t)v * sizeof(float)) == 0);
        if (want[i] & (WANT_LOGITS | WANT_BEST)) is += v;
        if (!(want[i] & WANT_BEST)) continue;
        here.n = logits_best(is - v, v, SESSION_BEST, here.id, here.logit);
        const struct session_best *got = &best[b++];
        CHECK(got->n == here.n && memcmp(got->id, here.id, (size_t)here.n * sizeof *here.id) == 0 &&
              memcmp(got->logit, here.logit, (size_t)here.n * sizeof *here.logit) == 0);
    }
    if (emu_count) {
        CHECK_EQ_I64(after.down - before.down, runs + copies);
        CHECK_EQ_I64(after.down_bytes - before.down_bytes,
                     (n_hidden * d + n_logits * v) * (int64_t)sizeof(float) +
                         n_best * (int64_t)sizeof(struct cu_best));
        CHECK_EQ_I64(after.waits - before.waits, runs + (copies > 0));
        CHECK_EQ_I64(after.up - before.up, 1 + WANTS); /* the rows, page tables */
        CHECK(to.pinned);
        if (pinned) CHECK_EQ_I64(after.pageable - before.pageable, runs);
    }
    if (!pinned) free(logits);
    session_host_free(s, &to);
    for (int i = 0; i < WANTS; i++) seq_free(q[i]);
    for (int i = 0; i < 2; i++) free(hidden[i]);
    free(all);
}
static void test_outputs(void) {
    enum { H = WANT_HIDDEN, L = WANT_LOGITS, B = WANT_BEST };
    static const unsigned want[][WANTS] = {{L, L, L, L, L, L, L, L, L, L, L},
                                           {B, B, B, B, B, B, B, B, B, B, B},
                                           {H, H, H, H, H, H, H, H, H, H, H},
                                           {L, 0, L, L, 0, 0, B, B, L, H, 0},
                                           {0, H, H | B, B, 0, H | L, H, 0, 0, B, L}};
    struct model *m = open_model(MODELS "qwen3moe", "q8_0");
    for (int q8 = 0; q8 < 2; q8++) {
        const struct session_opts o = {.n_ctx = 16,
                                       .n_ubatch = WANTS,
                                       .act = q8 ? ACT_Q8 : ACT_F32,
                                       .device = cuda,
                                       .guests = true};
        struct session *s = NULL;
        struct err e = {0};
        CHECK_OK(session_new(&s, m, &o, &e));
        for (size_t i = 0; i < COUNT_OF(want) && s; i++) want_outputs(s, want[i], i % 2 == 0);
        session_free(s);
    }
    const struct session_opts o = {.n_ctx = 16, .n_ubatch = WANTS};
    struct session *s = NULL;
    struct session_best best;
    struct err e = {0};
    CHECK_OK(session_new(&s, m, &o, &e));
    const struct session_row one = {.id = 1, .want = WANT_BEST};
    CHECK_ERR(session_pass(s, &(struct session_pass){.row = &one, .n = 1, .best = &best}, &e),
              ERR_USAGE, "on a device only");
    session_free(s);
    model_close(m);
}

int main(void) {
    if (!cu_built() || cu_count() == 0) return check_skip("no CUDA device");
    tmp_make();
    RUN(test_f32);
    RUN(test_q8);
    RUN(test_archs);
    RUN(test_outputs);
    RUN(test_captured);
    RUN(test_mark);
    RUN(test_files);
    tmp_remove();
    return check_done();
}
