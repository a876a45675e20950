// SPDX-License-Identifier: MIT
/* tests/unit/test_rows.c - several sequences through one session: random schedules of mixed
 * batches, forks, trims, snapshots and files over eight sequences. Every row must have, bit for
 * bit, the same hidden state as when the tokens of its sequence are fed alone in one pass. An
 * argument multiplies the number of schedules. Random weights suffice, because the program is
 * compared only with itself; test_session compares single sequences with independent numbers. Also
 * the memory of sequences, and how often it is allocated. */
#include "convert/convert.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/rng.h"
#include "base/io.h"
#include "models/sizes.h"
#include "runtime/engine/cache.h"
#include "runtime/engine/kv_type.h"
#include "runtime/engine/session.h"
#include "tests/check.h"
#include "tests/unit/micro.h"

enum { N_SEQS = 8, CTX = 600, MOST_ROWS = 48, N_STEPS = 24 };

/* tok: NULL, the model whose tokenizer to use, or MICRO for one of tests/golden/archs. */
static const char MICRO[] = "micro";
static struct model *open_model(const char *name, const char *tok, const char *type) {
    struct err e = {0};
    struct model *m = NULL;
    const bool micro = tok == MICRO;
    char *src = xasprintf("tests/golden/%s/%s", micro ? "archs" : "models", name);
    char *from = tok ? xasprintf("tests/golden/models/%s", tok) : NULL;
    struct convert_opts o = {.src = micro ? micro_folder(src, NULL)
                                    : tok ? golden_edited(src, from, NULL)
                                          : src,
                             .out = tmp_path("m.gguf"),
                             .type = type,
                             .overwrite = true};
    struct convert_report r;
    CHECK_OK(convert_run(&o, &r, &e));
    CHECK_OK(model_open(&m, tmp_path("m.gguf"), &e));
    free(from);
    free(src);
    return m;
}

struct sim { /* a sequence and its expected state */
    struct seq *q;
    int64_t n;
    int32_t id[CTX];
    float *hidden; /* [CTX][d] hidden rows as computed */
};
struct world {
    const struct model *m;
    struct session *s, *alone;
    int64_t d, n_vocab;
    struct rng rng;
    struct sim sim[N_SEQS], snap;
    int64_t n_rows, n_trims, n_forks;
};

static int64_t below(struct world *w, int64_t n) {
    return (int64_t)(rng_u64(&w->rng) % (uint64_t)n);
}

static void copy_sim(struct world *w, struct sim *to, const struct sim *from) {
    to->n = from->n;
    memcpy(to->id, from->id, sizeof to->id);
    memcpy(to->hidden, from->hidden, (size_t)(CTX * w->d) * sizeof *to->hidden);
}

/* Sequences that fork from another within a batch, into an existing sequence or a new one. */
struct forked {
    struct sim *to;
    const struct sim *from;
    int64_t n;
    struct seq *q; /* NULL: to->q */
};

static void begin_fork(struct world *w, struct forked *f, struct seq **fork) {
    struct err e = {0};
    if (below(w, 2)) CHECK_OK(session_new_fork(w->s, &f->q, &e));
    if (!f->q && below(w, 2)) seq_empty(f->to->q);
    *fork = f->q ? f->q : f->to->q;
}

static void end_fork(struct world *w, const struct forked *f) {
    copy_sim(w, f->to, f->from);
    f->to->n = f->n;
    if (!f->q) return;
    seq_take(f->to->q, f->q);
    seq_free(f->q);
}

/* Feeds rows of some sequences in random order, sometimes in a long piece; the last few sequences
 * may be forked from others within the pass. In every second batch only some rows' outputs are
 * requested: the others (all bits set) are checked only through their effect on the cache. */
static void step_batch(struct world *w) {
    struct session_row row[CTX];
    struct seq *fork[CTX] = {0};
    float *at[CTX];
    struct forked forked[N_SEQS] = {{0}};
    int n_forked = 0;
    const int64_t n_fed = below(w, 2) ? N_SEQS : 1 + below(w, N_SEQS - 1);
    int64_t n = 0, want = below(w, 12) ? 1 + below(w, MOST_ROWS) : 300, which = below(w, n_fed);
    const bool one = want > MOST_ROWS;
    const int64_t one_of = below(w, 2) ? 1 : 2 + below(w, 30);
    float *hidden = xcalloc((size_t)(CTX * w->d), sizeof *hidden);
    for (int64_t i = 0; i < want; i++) {
        struct sim *x = &w->sim[one ? which : below(w, n_fed)];
        if (x->n == CTX) continue;
        const int32_t id = (int32_t)below(w, w->n_vocab);
        row[n] =
            (struct session_row){.id = id, .seq = x->q, .want = below(w, one_of) ? 0 : WANT_HIDDEN};
        at[n++] = x->hidden + x->n * w->d;
        x->id[x->n++] = id;
        if (n_fed + n_forked == N_SEQS || below(w, want) > 3) continue;
        struct forked *f = &forked[n_forked];
        *f = (struct forked){.to = &w->sim[n_fed + n_forked++], .from = x, .n = x->n};
        begin_fork(w, f, &fork[n - 1]);
    }
    struct err e = {0};
    const struct session_pass p = {.row = row, .fork = fork, .n = n, .hidden = hidden};
    CHECK_OK(session_pass(w->s, &p, &e));
    for (int64_t i = 0, k = 0; i < n; i++) {
        memset(at[i], 0xff, (size_t)w->d * sizeof *hidden);
        if (row[i].want) memcpy(at[i], hidden + k++ * w->d, (size_t)w->d * sizeof *hidden);
    }
    for (int i = 0; i < n_forked; i++) end_fork(w, &forked[i]);
    w->n_forks += n_forked;
    for (int i = 0; i < N_SEQS; i++) CHECK_EQ_I64(seq_pos(w->sim[i].q), w->sim[i].n);
    w->n_rows += n;
    free(hidden);
}

static void step_fork(struct world *w) {
    struct sim *to = &w->sim[below(w, N_SEQS)], *from = &w->sim[below(w, N_SEQS)];
    struct seq *q = NULL;
    struct err e = {0};
    if (to == from) return;
    CHECK_OK(seq_fork(&q, from->q, &e));
    seq_free(to->q);
    to->q = q;
    copy_sim(w, to, from);
    w->n_forks++;
}

static void step_trim(struct world *w) {
    struct sim *x = &w->sim[below(w, N_SEQS)];
    struct err e = {0};
    const int64_t to = below(w, 2) ? below(w, x->n + 1) : max_i64(x->n - below(w, 20), 0);
    if (seq_trim(x->q, to, &e)) {
        CHECK_EQ_I64(e.code, ERR_USAGE);
        CHECK_EQ_I64(seq_pos(x->q), x->n); /* nothing has changed */
        return;
    }
    w->n_trims += to < x->n;
    x->n = to;
}

static void step_snapshot(struct world *w) {
    struct sim *x = &w->sim[below(w, N_SEQS)];
    struct err e = {0};
    if (w->snap.q && below(w, 3)) {
        seq_restore(x->q, w->snap.q);
        copy_sim(w, x, &w->snap);
        return;
    }
    seq_free(w->snap.q);
    w->snap.q = NULL;
    CHECK_OK(seq_fork(&w->snap.q, x->q, &e));
    copy_sim(w, &w->snap, x);
}

/* Saves a sequence to a file and loads it into the same or a different sequence. */
static void step_file(struct world *w) {
    struct sim *from = &w->sim[below(w, N_SEQS)], *to = &w->sim[below(w, N_SEQS)];
    const char *path = tmp_path("seq");
    struct err e = {0};
    CHECK_OK(session_save_seq(w->s, from->q, path, true, &e));
    CHECK_OK(session_load_seq(w->s, to->q, path, &e));
    if (to != from) copy_sim(w, to, from);
}

static void step_new(struct world *w) {
    struct sim *x = &w->sim[below(w, N_SEQS)];
    struct err e = {0};
    seq_free(x->q);
    x->q = NULL;
    CHECK_OK(session_new_seq(w->s, below(w, 2) ? CTX : 0, &x->q, &e));
    x->n = 0;
}

static void step(struct world *w) {
    const int64_t what = below(w, 16);
    if (what < 10)
        step_batch(w);
    else if (what < 12)
        step_fork(w);
    else if (what < 14)
        step_trim(w);
    else if (what < 15)
        step_snapshot(w);
    else if (below(w, 3))
        step_file(w);
    else
        step_new(w);
}

static int64_t n_compared;

static bool same_alone(struct world *w, const struct sim *x) {
    struct err e = {0};
    float *hidden = xcalloc((size_t)(CTX * w->d), sizeof *hidden);
    session_reset(w->alone);
    CHECK_OK(session_forward(w->alone, x->id, x->n, hidden, &e));
    bool same = true;
    for (int64_t i = 0; i < x->n && same; i++) {
        const float *got = x->hidden + i * w->d;
        uint32_t bits;
        memcpy(&bits, got, sizeof bits);
        if (bits == UINT32_MAX) continue; /* it was not asked for */
        n_compared++;
        same = memcmp(hidden + i * w->d, got, (size_t)w->d * sizeof *hidden) == 0;
        if (!same) fprintf(stderr, "row %lld of %lld differs\n", (long long)i, (long long)x->n);
    }
    free(hidden);
    return same;
}

static int n_schedules;

/* Runs a schedule. Skips cache types that need wider heads than the model's. */
static void schedule(const struct model *m, const struct session_opts *o, uint64_t seed,
                     int n_steps, const char *name) {
    struct world w = {.m = m, .d = m->hp.d[HD_EMBD], .n_vocab = m->hp.d[HD_VOCAB]};
    struct session_opts with = *o;
    struct err e = {0};
    rng_seed(&w.rng, seed);
    with.n_ctx = CTX;
    if (session_new(&w.alone, m, &with, &e)) {
        CHECK_EQ_I64(e.code, ERR_USAGE);
        return;
    }
    n_schedules++;
    with.n_ubatch = 1 + below(&w, 64);
    CHECK_OK(session_new(&w.s, m, &with, &e));
    const uint64_t empty = session_bytes(w.s);
    for (int i = 0; i < N_SEQS; i++) {
        w.sim[i].hidden = xcalloc((size_t)(CTX * w.d), sizeof(float));
        CHECK_OK(session_new_seq(w.s, i % 2 ? CTX : 0, &w.sim[i].q, &e));
    }
    w.snap.hidden = xcalloc((size_t)(CTX * w.d), sizeof(float));
    for (int i = 0; i < n_steps; i++) step(&w);
    for (int i = 0; i < N_SEQS; i++)
        if (!same_alone(&w, &w.sim[i])) CHECK_FAIL("%s, seed %d", name, (int)seed);
    for (int i = 0; i < N_SEQS; i++) {
        seq_free(w.sim[i].q);
        free(w.sim[i].hidden);
    }
    seq_free(w.snap.q);
    free(w.snap.hidden);
    CHECK_EQ_I64(session_bytes(w.s), empty); /* all memory of the sequences has been released */
    session_free(w.s);
    session_free(w.alone);
}

static const struct {
    const char *name, *tok;
} models[] = {{"qwen2", NULL},         {"qwen3", NULL},          {"qwen3moe", NULL},
              {"qwen35", NULL},        {"qwen35moe", NULL},      {"mistral", NULL},
              {"gemma4moe", NULL},     {"gemma4e", "gemma4moe"}, {"gemma4dense", "gemma4moe"},
              {"lfm2", MICRO},         {"granitehybrid", MICRO}, {"jamba", MICRO},
              {"glm4moe-lite", MICRO}, {"kimi-linear", MICRO},   {"gptoss_mxfp4", MICRO},
              {"llama4", MICRO},       {"ministral3", MICRO}};

static int times = 1; /* schedules of each kind; the first argument */

/* Tests f32 weights and activations: every cache type with the two models that have the most kinds
 * of layers, and two cache types with the others. */
static void test_f32(void) {
    for (size_t i = 0; i < COUNT_OF(models); i++) {
        struct model *m = open_model(models[i].name, models[i].tok, "f32");
        const bool all = i == 4 || i == 6;
        const struct kv_type *t;
        for (int k = 0; m && (t = kv_type_at(k)); k++) {
            if (!all && times == 1 && t->type != QT_F16 && t->type != QT_Q8_0) continue;
            struct session_opts o = {.isa = kern_isa_best(), .kv_k = t, .kv_v = t};
            for (int n = 0; n < times; n++)
                schedule(m, &o, 1000 * i + 64 * (uint64_t)n + (uint64_t)k, N_STEPS, models[i].name);
        }
        model_close(m);
    }
    CHECK(n_schedules >= 30 && n_compared > 10000);
}

/* Tests 8-bit weights and rounded activations, in file order with every instruction set, and
 * packed. */
static void test_q8(void) {
    for (size_t i = 0; i < COUNT_OF(models); i++) {
        struct model *m = open_model(models[i].name, models[i].tok, "q8_0");
        for (int isa = KERN_REF; m && isa <= (int)kern_isa_best(); isa++) {
            struct session_opts o = {.isa = (enum kern_isa)isa, .act = ACT_Q8, .kv_type = QT_F16};
            const int n_steps = isa == KERN_REF ? N_STEPS / 4 : N_STEPS / 2;
            if (isa == KERN_REF && i % 4 && times == 1) continue; /* slow */
            for (int n = 0; n < times; n++)
                schedule(m, &o, 1000 * i + 64 * (uint64_t)n + (uint64_t)isa, n_steps,
                         models[i].name);
        }
        struct session_opts o = {.isa = kern_isa_best(), .act = ACT_Q8, .pack = true};
        for (int n = 0; n < times && m; n++)
            schedule(m, &o, 31 * i + (uint64_t)n, N_STEPS, models[i].name);
        model_close(m);
    }
}

/* Checks that sequences take the memory that the plan computes, including windows and recurrent
 * states, and that one that does not fit is refused without changing anything. */
static void test_memory(void) {
    enum { N = 1500 };
    for (size_t i = 0; i < COUNT_OF(models); i++) {
        struct model *m = open_model(models[i].name, models[i].tok, "f32");
        struct session_opts o = {
            .n_ctx = N, .n_ubatch = 300, .isa = kern_isa_best(), .kv_type = QT_F16};
        const struct kv_type *t = kv_type_of(QT_F16);
        const struct kv_rows rows = kv_type_rows(t, t);
        struct session *s = NULL;
        struct seq *q[N_SEQS] = {0};
        struct sizes z;
        struct err e = {0};
        uint64_t one = 0, all = 0;
        if (!m) continue;
        CHECK_OK(sizes_init(&z, m->arch, &m->hp, &e));
        CHECK(sizes_kv_paged(&z, 1, o.n_ctx, o.n_ubatch, &rows, &one));
        CHECK(sizes_kv_paged(&z, 1 + N_SEQS, o.n_ctx, o.n_ubatch, &rows, &all));
        CHECK_OK(session_new(&s, m, &o, &e));
        const uint64_t before = session_bytes(s);
        for (int k = 0; k < N_SEQS; k++) CHECK_OK(session_new_seq(s, o.n_ctx, &q[k], &e));
        CHECK_EQ_I64(session_bytes(s) - before, all - one + N_SEQS * sizes_state(&z, 0));
        int32_t *ids = xcalloc(N, sizeof *ids);
        CHECK_OK(session_forward(s, ids, N, NULL, &e)); /* takes no additional memory */
        CHECK_EQ_I64(session_bytes(s) - before, all - one + N_SEQS * sizes_state(&z, 0));
        free(ids);
        for (int k = 0; k < N_SEQS; k++) seq_free(q[k]);
        CHECK_EQ_I64(session_bytes(s), before);
        session_free(s);
        model_close(m);
    }
}

/* ---- allocations ---- */

struct counted { /* memory that counts its allocations; at most `most` bytes */
    int n_allocs, n_frees;
    uint64_t n_bytes, most;
};
enum { OWN = 64 };

static int counted_alloc(void *of, int place, uint64_t n, const char *what, void **own, void **at,
                         struct err *e) {
    struct counted *m = of;
    CHECK_EQ_I64(place, 0);
    if (m->n_bytes + n > m->most) return err_set(e, ERR_SYS, "no room for %s", what);
    m->n_allocs++;
    m->n_bytes += n;
    *own = xcalloc(1, OWN + (size_t)n);
    *at = (uint8_t *)*own + OWN;
    memcpy(*own, &n, sizeof n);
    return 0;
}
static void counted_free(void *of, void *own) {
    struct counted *m = of;
    uint64_t n = 0;
    if (!own) return;
    memcpy(&n, own, sizeof n);
    m->n_frees++;
    m->n_bytes -= n;
    free(own);
}

/* Feeds a sequence n_pages pages, one page per pass. */
static int fill(struct seq *q, int n_pages, struct err *e) {
    for (int i = 0; i < n_pages; i++) {
        const int rc = seq_grow(q, KV_PAGE, e);
        if (rc) return rc;
        seq_advance(q, KV_PAGE);
    }
    return 0;
}

/* Checks that the pages of all layers are one allocation, that a cache with spare_tok keeps those
 * of one sequence for the next, and that it gives them back if memory is short. */
static void test_allocations(void) {
    enum { N_SLOTS = 8, N_PAGES = 4, STATE = 4096 };
    struct counted m = {.most = UINT64_MAX};
    struct kv kv = {
        .n_ctx = N_PAGES * KV_PAGE, .n_slots = N_SLOTS, .slot = xcalloc(N_SLOTS, sizeof *kv.slot)};
    const struct rec rec = {0};
    struct seq *q[3] = {NULL};
    struct cache c;
    struct err e = {0};
    for (int i = 0; i < N_SLOTS; i++)
        kv.slot[i] = (struct kv_slot){.n_heads = 1, .k_row = 2, .v_row = 2};
    cache_init(&c, &kv, &rec, KV_PAGE, KV_PAGE);
    c.mem.of = &m;
    c.mem.alloc = counted_alloc;
    c.mem.free = counted_free;
    c.table_bytes = STATE;
    c.spare_tok = kv.n_ctx;
    c.most_spare = 1;
    for (int i = 0; i < 3; i++) { /* one after another */
        CHECK_OK(seq_new(&q[0], &c, 0, &e));
        CHECK_OK(fill(q[0], N_PAGES, &e));
        seq_free(q[0]);
    }
    CHECK_EQ_I64(m.n_allocs, N_PAGES + 1);
    CHECK_EQ_I64(m.n_frees, 0);
    const uint64_t one = m.n_bytes;
    CHECK_EQ_I64(one, cache_seq_bytes(&c, 0, kv.n_ctx));
    CHECK_EQ_I64(cache_held_bytes(&c, 0), 0);
    for (int i = 0; i < 3; i++) { /* at a time: no more than for one is kept */
        CHECK_OK(seq_new(&q[i], &c, 0, &e));
        CHECK_OK(fill(q[i], N_PAGES, &e));
    }
    CHECK_EQ_I64(m.n_bytes, 3 * one);
    for (int i = 0; i < 3; i++) seq_free(q[i]);
    CHECK_EQ_I64(m.n_bytes, one);
    m.most = one; /* the second state has room only if unused pages give way */
    for (int i = 0; i < 2; i++) CHECK_OK(seq_new(&q[i], &c, 0, &e));
    CHECK_EQ_I64(m.n_bytes, 2 * STATE);
    CHECK_OK(fill(q[0], N_PAGES - 1, &e));
    CHECK_ERR(fill(q[0], 1, &e), ERR_SYS, "no room for keys and values");
    seq_free(q[1]); /* its state is kept, until the last page needs the room */
    CHECK_OK(fill(q[0], 1, &e));
    CHECK_EQ_I64(m.n_bytes, one);
    seq_free(q[0]);
    cache_release(&c);
    CHECK_EQ_I64(m.n_bytes, 0);
    CHECK_EQ_I64(m.n_allocs, m.n_frees);
}

static void test_arguments(void) {
    struct model *m = open_model("qwen3", NULL, "f32");
    struct session *s = NULL, *other = NULL;
    struct seq *q = NULL, *foreign = NULL;
    struct err e = {0};
    struct session_opts o = {.n_ctx = 32};
    if (!m) return;
    CHECK_OK(session_new(&s, m, &o, &e));
    CHECK_OK(session_new(&other, m, &o, &e));
    CHECK_OK(session_new_seq(s, 0, &q, &e));
    CHECK_OK(session_new_seq(other, 0, &foreign, &e));
    struct session_row row[33];
    for (int i = 0; i < 33; i++) row[i] = (struct session_row){.id = 1, .seq = q};
    struct session_pass p = {.row = row, .n = 33};
    CHECK_ERR(session_pass(s, &p, &e), ERR_USAGE, "context of 32");
    p.n = 3;
    row[2].seq = foreign;
    CHECK_ERR(session_pass(s, &p, &e), ERR_USAGE, "belongs to another session");
    row[2].seq = q;
    row[2].id = (int32_t)m->hp.d[HD_VOCAB];
    CHECK_ERR(session_pass(s, &p, &e), ERR_USAGE, "vocabulary");
    CHECK_EQ_I64(seq_pos(q), 0);
    struct seq *none = NULL;
    struct seq *const itself[33] = {q}, *const strange[33] = {NULL, foreign};
    row[2].id = 1;
    p.fork = itself;
    CHECK_ERR(session_pass(s, &p, &e), ERR_USAGE, "not a valid fork");
    p.fork = strange;
    CHECK_ERR(session_pass(s, &p, &e), ERR_USAGE, "not a valid fork");
    CHECK_EQ_I64(seq_pos(q), 0);
    CHECK_ERR(session_new_seq(s, 33, &none, &e), ERR_USAGE, "does not fit");
    CHECK_ERR(seq_trim(q, 1, &e), ERR_USAGE, "cannot go back");
    row[2].id = 1;
    CHECK_OK(session_pass(s, &(struct session_pass){.row = row, .n = 32}, &e));
    CHECK_EQ_I64(seq_pos(q), 32);
    CHECK_EQ_I64(session_pos(s), 0); /* the session's own was not fed */
    seq_free(q);
    seq_free(foreign);
    session_free(s);
    session_free(other);
    model_close(m);
}

/* Checks that changed bytes, truncated files, different models and cache types are refused and that
 * q is unchanged. */
static void test_bad_files(void) {
    struct model *m = open_model("qwen35moe", NULL, "f32"),
                 *other = open_model("qwen3", NULL, "f32");
    struct session *s[3] = {0};
    struct session_opts o = {.n_ctx = 64}, q8 = {.n_ctx = 64, .kv_type = QT_F16},
                        small = {.n_ctx = 8};
    char *path = xstrdup(tmp_path("own")), *bad = xstrdup(tmp_path("bad"));
    const int32_t ids[10] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    struct err e = {0};
    char *data = NULL;
    size_t n = 0;
    if (!m || !other) return;
    CHECK_OK(session_new(&s[0], m, &o, &e));
    CHECK_OK(session_forward(s[0], ids, 10, NULL, &e));
    CHECK_OK(session_save_seq(s[0], NULL, path, false, &e));
    CHECK_ERR(session_save_seq(s[0], NULL, path, false, &e), ERR_USAGE, "-f");
    CHECK_OK(io_read_file(&data, &n, path, 1 << 24, &e));
    struct rng r;
    rng_seed(&r, 3);
    session_reset(s[0]);
    for (int i = 0; i < 60; i++) {
        const size_t at = (size_t)(rng_u64(&r) % n);
        char *copy = xmalloc(n + 1);
        memcpy(copy, data, n);
        copy[at] = (char)(copy[at] ^ (1 << (i % 8)));
        tmp_write("bad", copy, i % 2 ? n : at);
        CHECK(session_load_seq(s[0], NULL, bad, &e) != 0);
        CHECK_EQ_I64(session_pos(s[0]), 0);
        free(copy);
    }
    CHECK_OK(session_load_seq(s[0], NULL, path, &e));
    CHECK_EQ_I64(session_pos(s[0]), 10);
    session_free(s[0]);
    CHECK_OK(session_new(&s[0], other, &o, &e));
    CHECK_OK(session_new(&s[1], m, &q8, &e));
    CHECK_OK(session_new(&s[2], m, &small, &e));
    CHECK_ERR(session_load_seq(s[0], NULL, path, &e), ERR_DATA, "a different model");
    CHECK_ERR(session_load_seq(s[1], NULL, path, &e), ERR_DATA, "a different cache type");
    CHECK_ERR(session_load_seq(s[2], NULL, path, &e), ERR_USAGE, "larger --ctx");
    for (int i = 0; i < 3; i++) session_free(s[i]);
    free(data);
    free(path);
    free(bad);
    model_close(m);
    model_close(other);
}

/* Checks that a file is refused where rotary angles differ, because of the context or of a key of
 * the model: its rows would be other ones. */
static void test_other_angles(void) {
    static const char dir[] = "tests/golden/archs/phi3long";
    static const char *const edit[] = {"10000.0", "20000.0", NULL};
    const int64_t ctx[] = {24, 32, 64, 32}; /* the divisors change at 32 */
    const int32_t ids[4] = {1, 2, 3, 4};
    struct buf rows[4] = {{0}};
    for (int i = 0; i < 4; i++) {
        struct model *m = NULL;
        struct session *s = NULL;
        struct err e = {0};
        struct convert_report r;
        const struct session_opts so = {.n_ctx = ctx[i]};
        const struct convert_opts o = {.src = micro_folder(dir, i == 3 ? edit : NULL),
                                       .out = tmp_path("m.gguf"),
                                       .type = "f32",
                                       .overwrite = true};
        CHECK_OK(convert_run(&o, &r, &e));
        CHECK_OK(model_open(&m, tmp_path("m.gguf"), &e));
        CHECK_OK(session_new(&s, m, &so, &e));
        session_rows(s, &rows[i]);
        CHECK((strcmp(rows[i].data, rows[0].data) == 0) == (i < 2));
        if (i == 0) {
            CHECK_OK(session_forward(s, ids, 4, NULL, &e));
            CHECK_OK(session_save_seq(s, NULL, tmp_path("angles"), true, &e));
        } else if (i == 1) {
            CHECK_OK(session_load_seq(s, NULL, tmp_path("angles"), &e));
        } else {
            CHECK_ERR(session_load_seq(s, NULL, tmp_path("angles"), &e), ERR_DATA, "rotary angles");
        }
        session_free(s);
        model_close(m);
    }
    for (int i = 0; i < 4; i++) buf_release(&rows[i]);
}

/* Checks that rows of quantized types in files of versions before rotation are refused, and that
 * other types still pass this check (the changed version breaks the checksum). */
static void test_older_files(void) {
    static const char *const type[] = {"q8_0", "f16"};
    struct model *m = open_model("qwen3", NULL, "f32");
    const int32_t ids[4] = {1, 2, 3, 4};
    for (int i = 0; i < 2 && m; i++) {
        const struct kv_type *t = kv_type_find(type[i]);
        struct session_opts o = {.n_ctx = 64, .kv_k = t, .kv_v = t};
        struct session *s = NULL;
        struct err e = {0};
        char *data = NULL;
        size_t n = 0;
        CHECK_OK(session_new(&s, m, &o, &e));
        CHECK_OK(session_forward(s, ids, 4, NULL, &e));
        CHECK_OK(session_save_seq(s, NULL, tmp_path("now"), true, &e));
        CHECK_OK(session_load_seq(s, NULL, tmp_path("now"), &e));
        CHECK_OK(io_read_file(&data, &n, tmp_path("now"), 1 << 24, &e));
        CHECK(data[8] == 3);
        data[8] = 1;
        tmp_write("old", data, n);
        CHECK_ERR(session_load_seq(s, NULL, tmp_path("old"), &e), ERR_DATA,
                  i ? "checksum" : "earlier version");
        data[8] = 5;
        tmp_write("old", data, n);
        CHECK_ERR(session_load_seq(s, NULL, tmp_path("old"), &e), ERR_DATA, "version 5");
        session_free(s);
        free(data);
    }
    model_close(m);
}

int main(int argc, char **argv) {
    if (argc > 1) times = atoi(argv[1]);
    tmp_make();
    RUN(test_f32);
    RUN(test_q8);
    RUN(test_memory);
    RUN(test_allocations);
    RUN(test_arguments);
    RUN(test_bad_files);
    RUN(test_other_angles);
    RUN(test_older_files);
    tmp_remove();
    return check_done();
}
