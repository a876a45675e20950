// SPDX-License-Identifier: MIT
/* tests/unit/test_cuda_share.c - sessions of one file on one device: equal weights are stored once,
 * replaced ones belong to each session, and each session gets the results of an unshared one. `make
 * test`: the emulated device; `make check-cuda`: the real one. */
#include "tests/cuda-emu/control.h"
#include "tests/unit/synthetic.h"
#include "tests/unit/with.h"

enum { D = 64, F = 32, EXPERTS = 5, N_IDS = 3, LAYERS = 2 };
static const char up_name[] = "blk.1.ffn_up_exps.weight";
enum { UP_BYTES = EXPERTS * F * D * 4 };

static void lag(unsigned streams) {
    if (emu_defer) emu_defer(streams);
}

static struct session *open_on(const struct model *m, enum act_mode act, int n_followers,
                               uint64_t max_bytes) {
    struct err e = {0};
    struct session *s = NULL;
    const struct session_opts o = {.n_ctx = 16,
                                   .isa = kern_isa_best(),
                                   .act = act,
                                   .device = {.kind = DEVICE_CUDA, .max_bytes = max_bytes},
                                   .n_followers = n_followers};
    CHECK_OK(session_new(&s, m, &o, &e));
    return s;
}

/* Hidden rows of a few tokens. */
struct rows {
    float v[N_IDS * 256];
};
static struct rows rows_of(struct session *s) {
    static const int32_t ids[N_IDS] = {13, 200, 77};
    struct err e = {0};
    struct rows r = {{0}};
    session_reset(s);
    CHECK_OK(session_forward(s, ids, N_IDS, r.v, &e));
    return r;
}
static bool same(const struct rows *a, const struct rows *b) {
    return memcmp(a, b, sizeof *a) == 0;
}

/* Returns different weights for up_name, in newly allocated main memory. */
static float *other_up(int turn) {
    float *x = xcalloc(UP_BYTES / 4, sizeof *x);
    for (int i = 0; i < UP_BYTES / 4; i++) x[i] = (float)((i * 7 + turn) % 23) * 0.02f - 0.2f;
    return x;
}
static struct model *with_up(const struct model *m, float *x) {
    return with_weight(m, up_name, x, QT_F32, NULL);
}
/* Computes the result of an unshared session, with its model opened again. up: NULL, or the
 * replaced weight. */
static struct rows alone(const struct model *of, enum act_mode act, float *up) {
    struct err e = {0};
    struct model *m = NULL, *cand = NULL;
    CHECK_OK(model_open(&m, gguf_path(of->gguf), &e));
    if (up) cand = with_up(m, up);
    struct session *s = open_on(cand ? cand : m, act, 0, 0);
    const struct rows r = rows_of(s);
    session_free(s);
    model_close(cand);
    model_close(m);
    return r;
}

/* Returns how much pinned memory the sessions of alone() allocate, in allocations. */
static int64_t pins_of_opening(const struct model *m) {
    struct emu_counts before, after;
    emu_count(&before);
    (void)alone(m, ACT_F32, NULL);
    emu_count(&after);
    return after.pins - before.pins;
}

struct trio { /* three sessions of a model */
    struct model *m;
    struct session *s[3];
};
static struct trio open_trio(const char *recipe, int d, enum act_mode act, uint64_t max_bytes) {
    struct trio t = {NULL, {NULL}};
    t.m = synthetic(recipe, d, F, LAYERS);
    for (int i = 0; i < 3; i++) t.s[i] = open_on(t.m, act, i ? 0 : 2, max_bytes);
    return t;
}
static void close_trio(struct trio *t) {
    for (int i = 0; i < 3; i++) session_free(t->s[i]);
    model_close(t->m);
}
static struct rows rows_with(struct session *s, const struct model *m) {
    struct err e = {0};
    CHECK_OK(session_use(s, m, &e));
    return rows_of(s);
}

static uint64_t tensor_bytes(const struct model *m) {
    uint64_t n = 0;
    for (int64_t i = 0; i < gguf_n_tensors(m->gguf); i++) n += gguf_tensor_at(m->gguf, i)->n_bytes;
    return n;
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

/* Checks that sharing sessions need only memory for activations and caches, and give the results of
 * a session alone. */
static void test_shared(void) {
    static const struct {
        int d;
        enum act_mode act;
    } as[] = {{D, ACT_F32}, {256, ACT_Q8}}; /* in file order; packed if possible */
    for (int k = 0; k < 2; k++) {
        const uint64_t before = n_free();
        struct trio t = open_trio("Q8_0", as[k].d, as[k].act, 0);
        const uint64_t with_all = n_free();
        const struct rows want = alone(t.m, as[k].act, NULL);
        for (int i = 2; i >= 0; i--) {
            const struct rows r = rows_of(t.s[i]);
            CHECK(same(&r, &want));
        }
        CHECK(!counts_bytes() || n_free() == with_all); /* passes allocate nothing */
        const uint64_t sharer = in_use(t.s[2]), base = in_use(t.s[0]) - 2 * sharer;
        CHECK(!counts_bytes() || base >= sharer + tensor_bytes(t.m));
        CHECK(!counts_bytes() || base <= sharer + tensor_bytes(t.m) * 3 / 2 + 65536);
        close_trio(&t);
        CHECK(!counts_bytes() || n_free() == before);
    }
}

/* Tests weights replaced in one session, in two by the same object, restored in one, and replaced
 * by different data. */
static void test_replaced(void) {
    static const unsigned late[] = {0, 1, 6}; /* whichever stream lags */
    for (int k = 0; k < (emu_defer ? 3 : 1); k++) {
        lag(late[k]);
        struct trio t = open_trio("Q8_0", D, ACT_F32, 0);
        float *up = other_up(0), *newer = other_up(5);
        const struct rows file = alone(t.m, ACT_F32, NULL), first = alone(t.m, ACT_F32, up),
                          second = alone(t.m, ACT_F32, newer);
        struct model *a = with_up(t.m, up), *b = with_up(t.m, newer);
        CHECK(!same(&file, &first) && !same(&first, &second));
        const uint64_t n0 = n_free();
        struct rows r = rows_with(t.s[1], a);
        CHECK(same(&r, &first));
        CHECK(!counts_bytes() || (n0 - n_free() >= UP_BYTES && n0 - n_free() < UP_BYTES + 4096));
        r = rows_of(t.s[0]);
        CHECK(same(&r, &file));
        r = rows_with(t.s[2], a); /* is there already */
        CHECK(same(&r, &first));
        CHECK(!counts_bytes() || n0 - n_free() < UP_BYTES + 4096);
        r = rows_with(t.s[1], b); /* same size: the other session's copy stays */
        CHECK(same(&r, &second));
        r = rows_of(t.s[2]);
        CHECK(same(&r, &first));
        r = rows_with(t.s[1], t.m);
        CHECK(same(&r, &file));
        CHECK(!counts_bytes() || n0 - n_free() < UP_BYTES + 4096);
        r = rows_with(t.s[2], b); /* the first candidate has no users now */
        CHECK(same(&r, &second));
        CHECK(!counts_bytes() || n0 - n_free() < UP_BYTES + 4096);
        model_close(a);
        struct err e = {0};
        CHECK_OK(session_use(t.s[2], t.m, &e)); /* freed at once, not at the next pass */
        if (counts_bytes()) CHECK_EQ_I64(n_free(), n0);
        r = rows_of(t.s[2]);
        CHECK(same(&r, &file));
        /* the session that uploaded the weights gets different ones and then ends; the others
         * continue */
        r = rows_with(t.s[0], b);
        CHECK(same(&r, &second));
        session_free(t.s[0]);
        t.s[0] = NULL;
        r = rows_of(t.s[2]);
        CHECK(same(&r, &file));
        r = rows_with(t.s[1], b);
        CHECK(same(&r, &second));
        for (int i = 0; i < 3; i++) session_free(t.s[i]);
        model_close(b);
        model_close(t.m);
        free(up);
        free(newer);
    }
    lag(0);
}

/* Checks that a session pins memory for replaced weights once, not once per weight. */
static void test_feed(void) {
    enum { WIDE = 256, N = EXPERTS * WIDE * WIDE }; /* 1.25 MiB of f32 */
    struct model *m = synthetic("F32", WIDE, WIDE, LAYERS);
    struct session *s = open_on(m, ACT_F32, 0, 0);
    struct emu_counts before, after;
    emu_count(&before);
    for (int turn = 0; turn < 3; turn++) {
        float *x = xcalloc(N, sizeof *x);
        for (int i = 0; i < N; i++) x[i] = (float)((i + turn) % 17) * .01f;
        struct model *cand = with_up(m, x);
        const struct rows want = alone(m, ACT_F32, x), r = rows_with(s, cand);
        CHECK(same(&r, &want));
        (void)rows_with(s, m);
        model_close(cand);
        free(x);
    }
    emu_count(&after);
    /* the sessions of alone() have pinned rows, and chunks while they open */
    const int64_t others = 3 * pins_of_opening(m);
    CHECK_EQ_I64(after.pins - before.pins - others, 2);
    session_free(s);
    model_close(m);
}

/* Checks that with little memory the base leaves room for the others by computing experts on the
 * CPU. */
static void test_little_memory(void) {
    struct err e = {0};
    struct model *m = synthetic("Q8_0", D, F, LAYERS);
    struct session *s = open_on(m, ACT_F32, 0, 0);
    const struct rows want = rows_of(s);
    const uint64_t own = in_use(s) - tensor_bytes(m); /* approximate memory of a sharing session */
    const uint64_t all = in_use(s) + 2 * own;
    int n_opened = 0, n_refused = 0;
    session_free(s);
    for (uint64_t most = all - 1; !n_refused && most > all / 8; most -= all / 16) {
        const struct session_opts o = {.n_ctx = 16,
                                       .isa = kern_isa_best(),
                                       .device = {.kind = DEVICE_CUDA, .max_bytes = most},
                                       .n_followers = 2};
        if (session_new(&s, m, &o, &e)) {
            CHECK(e.code == ERR_SYS && strstr(e.msg, "of 2 more that share the weights"));
            n_refused++;
            continue;
        }
        n_opened++;
        CHECK(exec_cuda_all(s)->n_on_host > 0);
        CHECK(in_use(s) + 2 * own <= most);
        const struct rows r = rows_of(s);
        CHECK(golden_diff(r.v, want.v, N_IDS * D) <= 5e-4);
        session_free(s);
    }
    CHECK(n_opened > 0 && n_refused == 1);
    model_close(m);
}

int main(void) {
    if (!cu_built() || cu_count() == 0) return check_skip("no CUDA device");
    tmp_make();
    RUN(test_shared);
    RUN(test_replaced);
    if (counts_bytes()) RUN(test_little_memory); /* its limits are exact */
    if (emu_count) RUN(test_feed);
    tmp_remove();
    return check_done();
}
