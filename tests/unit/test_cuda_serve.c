// SPDX-License-Identifier: MIT
/* tests/unit/test_cuda_serve.c - the server's scheduler on a device: the bytes downloaded per
 * token, with one answer and with eight; answers drawn from the best logits equal those drawn from
 * all; allocations; drafts; weights that are not finite. `make test`: the emulated device; `make
 * check-cuda`: the real one, without the byte counts. */
#include "base/io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "kernels/cuda/cuda.h"
#include "runtime/engine/exec.h"
#include "tests/cuda-emu/control.h"
#include "tests/unit/silent_api.h"

enum { CTX = 96, MOST = 8, N_OUT = 24 };

static struct session *open_session(const struct model *m) {
    const struct session_opts o = {.device = {.kind = DEVICE_CUDA},
                                   .act = ACT_Q8,
                                   .guests = true,
                                   .whole = true,
                                   .n_ctx = CTX,
                                   .n_ubatch = 32};
    struct session *s = NULL;
    struct err e = {0};
    CHECK_OK(session_new(&s, m, &o, &e));
    return s;
}

static struct sched *open_sched(struct session *s, struct sched_opts o) {
    struct sched *c = NULL;
    struct err e = {0};
    o.n_live = MOST;
    o.n_queue = MOST;
    o.n_bytes = (uint64_t)1 << 40;
    o.max_step_s = 1;
    CHECK_OK(sched_new(&c, s, &o, &e));
    return c;
}

/* ---- requests ---- */

struct request {
    struct ids answer; /* with its prompt */
    bool done, failed;
};
static void done(struct task *t) {
    struct request *r = t->ud;
    ids_release(&r->answer);
    for (int64_t i = 0; i < t->run[0].all.n; i++) ids_add(&r->answer, t->run[0].all.v[i]);
    r->done = true;
    r->failed = t->failed;
}
static void look_away(void *ud, const float *logits, int64_t n_vocab) {
    (void)ud, (void)n_vocab;
    CHECK(logits != NULL);
}

/* How an answer is drawn. The best logits suffice for the first N_FEW ways, not for the others. */
enum how { GREEDY, SAMPLED, GOES_ON, PENALIZED, N_FEW, PROBABLE = N_FEW, BIASED, FREE, N_HOW };

/* Submits a request. all: the logits are observed, so all of them are downloaded. */
static void submit(struct sched *c, struct request *r, enum how how, int n_prompt, uint64_t seed,
                   bool all) {
    static const struct sample_opts greedy = {.temp = 0, .top_p = 1},
                                    few = {.temp = 1, .top_p = 0.9F, .top_k = 8},
                                    less = {.temp = 1,
                                            .top_p = 1,
                                            .top_k = 8,
                                            .repeat_penalty = 1.2F,
                                            .repeat_last_n = 16},
                                    any = {.temp = 1, .top_p = 1};
    const struct sample_opts *with = how == GREEDY      ? &greedy
                                     : how == PENALIZED ? &less
                                     : how == FREE      ? &any
                                                        : &few;
    struct rng rng;
    struct ask a;
    struct ids prompt = {0};
    rng_seed(&rng, seed);
    for (int i = 0; i < n_prompt; i++) ids_add(&prompt, 3 + (int32_t)(rng_u64(&rng) % 60));
    ask_init(&a, with, (int64_t)seed, N_OUT);
    a.ignore_eos = how == GOES_ON;
    a.no_cache = true;
    if (how == PROBABLE) a.top = 2;
    if (how == BIASED) {
        a.bias = xcalloc(1, sizeof *a.bias);
        a.bias[0].id = 5;
        a.bias[0].by = 1;
        a.n_bias = 1;
    }
    struct task *t = task_new(NULL, &silent, &a, &prompt, 1);
    ids_release(&prompt);
    t->reply.seed = seed;
    t->ud = r;
    t->done = done;
    if (all) t->run[0].watch = look_away;
    r->done = r->failed = false;
    sched_add(c, t);
}
static void finish(struct sched *c, const struct request *r, int n) {
    for (int left = 2000, open = n; open && left; left--) {
        sched_step(c);
        open = 0;
        for (int i = 0; i < n; i++) open += !r[i].done;
        if (left == 1) CHECK_FAIL("%d requests do not end", open);
    }
}
static bool same(const struct ids *a, const struct ids *b) {
    return a->n == b->n && memcmp(a->v, b->v, (size_t)a->n * sizeof *a->v) == 0;
}
static void release(struct request *r, int n) {
    for (int i = 0; i < n; i++) ids_release(&r[i].answer);
}

/* ---- answers ---- */

/* Compares answers of all kinds, alone and together, with and without all logits. */
static void same_as_all(const char *name) {
    struct model *m = open_model(name, "q8_0");
    struct session *s = open_session(m);
    struct sched *c = open_sched(s, (struct sched_opts){0});
    struct request alone[2][N_HOW] = {0}, many[2][N_HOW] = {0};
    for (int all = 0; all < 2; all++) {
        for (int i = 0; i < N_HOW; i++) {
            submit(c, &alone[all][i], (enum how)i, 5 + i, 70 + (uint64_t)i, all);
            finish(c, &alone[all][i], 1);
        }
        for (int i = 0; i < N_HOW; i++)
            submit(c, &many[all][i], (enum how)i, 5 + i, 70 + (uint64_t)i, all);
        finish(c, many[all], N_HOW);
    }
    for (int i = 0; i < N_HOW; i++) {
        CHECK(!alone[0][i].failed && alone[0][i].answer.n > 5 + i);
        CHECK(same(&alone[0][i].answer, &alone[1][i].answer));
        CHECK(same(&many[0][i].answer, &many[1][i].answer));
    }
    CHECK_EQ_I64(alone[0][GOES_ON].answer.n, 5 + GOES_ON + N_OUT);
    for (int all = 0; all < 2; all++) {
        release(alone[all], N_HOW);
        release(many[all], N_HOW);
    }
    sched_free(c);
    session_free(s);
    model_close(m);
}
static void test_same(void) {
    same_as_all("tests/golden/models/qwen3moe");
    same_as_all("tests/golden/models/qwen35moe");
}

/* ---- what comes down ---- */

static struct emu_counts counted(struct sched *c, int n_steps) {
    struct emu_counts a, b;
    emu_count(&a);
    for (int i = 0; i < n_steps; i++) CHECK(sched_step(c));
    emu_count(&b);
    return (struct emu_counts){.up = b.up - a.up,
                               .down = b.down - a.down,
                               .pageable = b.pageable - a.pageable,
                               .waits = b.waits - a.waits,
                               .launches = b.launches - a.launches,
                               .graphs = b.graphs - a.graphs,
                               .up_bytes = b.up_bytes - a.up_bytes,
                               .down_bytes = b.down_bytes - a.down_bytes};
}

/* Counts copies and the engine's waits while n answers get a token per step, n_all of them from all
 * logits. */
static void count_steps(struct sched *c, int n, int n_all, int64_t n_vocab) {
    enum { STEPS = 4 };
    struct request r[MOST] = {0};
    for (int i = 0; i < n; i++) submit(c, &r[i], GOES_ON, 4, 30 + (uint64_t)i, i >= n - n_all);
    for (int i = 0; i < 4; i++) sched_step(c); /* prompts, and the first tokens */
    const int64_t n_before = sched_counts(c).n_rows;
    const struct emu_counts k = counted(c, STEPS);
    const int64_t best = (int64_t)sizeof(struct cu_best), all = n_vocab * (int64_t)sizeof(float);
    CHECK_EQ_I64(sched_counts(c).n_rows - n_before, STEPS * n);
    CHECK_EQ_I64(k.down_bytes, STEPS * ((n - n_all) * best + n_all * all));
    CHECK_EQ_I64(k.down, STEPS * ((n > n_all) + (n_all > 0)));
    CHECK_EQ_I64(k.pageable, 0);
    CHECK_EQ_I64(k.waits, STEPS); /* once each */
    CHECK_EQ_I64(k.up, STEPS);    /* the description of the rows */
    CHECK(n > 1 || (k.graphs == STEPS && k.launches == 2 * STEPS * (n_all == 0)));
    finish(c, r, n);
    release(r, n);
}
static void test_counts(void) {
    struct model *m = open_model("tests/golden/models/qwen3moe", "q8_0");
    struct session *s = open_session(m);
    struct sched *c = open_sched(s, (struct sched_opts){0});
    const int64_t v = m->hp.d[HD_VOCAB];
    count_steps(c, 1, 0, v);
    count_steps(c, 1, 1, v);
    count_steps(c, 8, 0, v);
    count_steps(c, 8, 8, v);
    count_steps(c, 8, 1, v);
    sched_free(c);
    session_free(s);
    model_close(m);
}

/* ---- memory ---- */

static struct cache_mem real;
static int n_allocs, n_frees;
static int count_alloc(void *of, int place, uint64_t n, const char *what, void **own, void **at,
                       struct err *e) {
    n_allocs++;
    return real.alloc(of, place, n, what, own, at, e);
}
static void count_free(void *of, void *own) {
    n_frees += own != NULL;
    real.free(of, own);
}

/* Checks that an answer of the same length as an earlier one allocates and frees nothing. */
static void test_memory(void) {
    struct model *m = open_model("tests/golden/models/qwen35moe", "q8_0");
    struct session *s = open_session(m);
    struct sched *c = open_sched(s, (struct sched_opts){0});
    real = s->cache.mem;
    s->cache.mem.alloc = count_alloc;
    s->cache.mem.free = count_free;
    for (int i = 0; i < 3; i++) {
        struct request r = {0};
        submit(c, &r, SAMPLED, 9, 5 + (uint64_t)i, false);
        finish(c, &r, 1);
        CHECK(r.done && !r.failed);
        CHECK_EQ_I64(n_allocs, 1); /* pages of all layers; the states were a spare */
        CHECK_EQ_I64(n_frees, 0);
        release(&r, 1);
    }
    sched_free(c);
    session_free(s);
    model_close(m);
}

/* ---- guesses ---- */

static const struct request *told; /* the answer that will be given */
static int guess(void *ud, const struct run *r, int32_t *out, int most) {
    int n = 0;
    (void)ud;
    for (int64_t i = r->all.n; i < told->answer.n && n < most; i++, n++)
        out[n] = told->answer.v[i] ^ (i % 5 == 0); /* sometimes wrong */
    return n;
}

/* Checks that drafts are used on a device if sequences can be trimmed after a wrong one, with
 * several tokens per pass, and not otherwise, because a fork ends the pass there. */
static void test_guesses(void) {
    static const char *const name[] = {"tests/golden/models/qwen3moe",
                                       "tests/golden/models/qwen35moe"};
    for (int i = 0; i < 2; i++) {
        struct model *m = open_model(name[i], "q8_0");
        struct session *s = open_session(m);
        struct request r[2] = {0};
        int64_t n_steps[2];
        CHECK(sched_can_draft(s) == (i == 0));
        for (int with = 0; with < 2; with++) {
            struct sched *c = open_sched(
                s, (struct sched_opts){.draft = with > 0, .always = true, .guess = guess});
            told = &r[0];
            submit(c, &r[with], GREEDY, 9, 5, false);
            finish(c, &r[with], 1);
            n_steps[with] = sched_counts(c).n_steps;
            CHECK((sched_counts(c).n_right > 8) == (with && i == 0));
            sched_free(c);
        }
        CHECK(same(&r[0].answer, &r[1].answer));
        CHECK(i == 0 ? n_steps[1] < n_steps[0] / 2 : n_steps[1] == n_steps[0]);
        release(r, 2);
        session_free(s);
        model_close(m);
    }
}

/* ---- weights that are not numbers ---- */

static void test_broken_weights(void) {
    struct model *m = open_model("tests/golden/models/qwen3moe", "q8_0");
    struct err e = {0};
    struct gguf *g = NULL;
    char *data = NULL;
    size_t len = 0;
    model_close(m);
    CHECK_OK(io_read_file(&data, &len, tmp_path("m.gguf"), 1 << 26, &e));
    CHECK_OK(gguf_open(&g, tmp_path("m.gguf"), 0, &e));
    const struct gguf_tensor *t = g ? gguf_find_tensor(g, "blk.1.attn_norm.weight") : NULL;
    char *at = t && data ? memmem(data, len, t->data, 64) : NULL;
    CHECK(at != NULL);
    if (!at) return;
    memset(at + 20, 0xff, 4);
    tmp_write("bad.gguf", data, len);
    CHECK_OK(model_open(&m, tmp_path("bad.gguf"), &e));
    struct session *s = open_session(m);
    struct sched *c = open_sched(s, (struct sched_opts){0});
    for (int all = 0; all < 2; all++) {
        struct request r = {0};
        last_fault[0] = 0;
        submit(c, &r, SAMPLED, 9, 5, all);
        finish(c, &r, 1);
        CHECK(r.failed && r.answer.n == 9);
        CHECK(strstr(last_fault, "blk.1.attn_norm.weight") != NULL);
        release(&r, 1);
    }
    sched_free(c);
    session_free(s);
    model_close(m);
    gguf_close(g);
    free(data);
}

/* ---- a device that fails for good ---- */

/* Checks that the current request and all later ones fail, without retries. Runs last, since it
 * affects the whole process. */
static void test_lost(void) {
    struct model *m = open_model("tests/golden/models/qwen3moe", "q8_0");
    struct session *s = open_session(m);
    struct sched *c = open_sched(s, (struct sched_opts){0});
    struct request r[3] = {0};
    struct err why = {0};
    for (int i = 0; i < 2; i++) submit(c, &r[i], SAMPLED, 9, 5 + (uint64_t)i, false);
    for (int i = 0; i < 3; i++) sched_step(c);
    CHECK(!sched_lost(c, &why) && !session_lost(s));
    emu_lose(1);
    CHECK(sched_step(c));
    CHECK(session_lost(s) && sched_lost(c, &why));
    CHECK_EQ_I64(why.code, ERR_SYS);
    CHECK(strstr(why.msg, "has lost the device. Run the same command again") != NULL);
    submit(c, &r[2], SAMPLED, 9, 9, false);
    CHECK(!sched_step(c));
    for (int i = 0; i < 3; i++) CHECK(r[i].done && r[i].failed);
    CHECK(strstr(last_fault, "the device has failed") != NULL);
    CHECK(!sched_step(c));
    release(r, 3);
    sched_free(c);
    session_free(s);
    model_close(m);
    emu_lose(0);
}

int main(void) {
    if (!cu_built() || cu_count() == 0) return check_skip("no CUDA device");
    tmp_make();
    RUN(test_same);
    if (emu_count) RUN(test_counts);
    RUN(test_memory);
    RUN(test_guesses);
    RUN(test_broken_weights);
    if (emu_lose) RUN(test_lost);
    tmp_remove();
    return check_done();
}
