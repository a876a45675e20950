// SPDX-License-Identifier: MIT
/* tests/unit/test_cuda_share.c - sessions of one file on one device: what is the same lies there
 * once, what is replaced is each session's own, and everyone computes what a session that shares
 * with nobody does. `make test`: the emulated device; `make check-cuda`: the real one. */
#include "tests/cuda-emu/control.h"
#include "tests/unit/synthetic.h"

enum { D = 64, F = 32, EXPERTS = 5, N_IDS = 3, LAYERS = 2 };
static const char up_name[] = "blk.1.ffn_up_exps.weight";
enum { UP_BYTES = EXPERTS * F * D * 4 };

static void lag(unsigned streams) {
    if (emu_defer) emu_defer(streams);
}

static struct session *open_on(struct model *m, enum act_mode act, struct session *share, int n,
                               uint64_t max_bytes) {
    struct err e = {0};
    struct session *s = NULL;
    const struct session_opts o = {.n_ctx = 16,
                                   .isa = kern_isa_best(),
                                   .act = act,
                                   .device = {.kind = DEVICE_CUDA, .max_bytes = max_bytes},
                                   .share = share,
                                   .n_sharing = n};
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

/* Other weights for up_name; in main memory of its own. */
static float *other_up(int turn) {
    float *x = xcalloc(UP_BYTES / 4, sizeof *x);
    for (int i = 0; i < UP_BYTES / 4; i++) x[i] = (float)((i * 7 + turn) % 23) * 0.02f - 0.2f;
    return x;
}
/* What a session alone computes with them; NULL: with those of the file. */
static struct rows alone(const struct model *of, enum act_mode act, const float *up) {
    struct err e = {0};
    struct model *m = NULL;
    CHECK_OK(model_open_again(&m, of, &e));
    CHECK_OK(model_set_weight(m, up_name, up, up ? QT_F32 : QT_Q8_0, &e));
    struct session *s = open_on(m, act, NULL, 0, 0);
    const struct rows r = rows_of(s);
    session_free(s);
    model_close(m);
    return r;
}

static void set_up(struct model *m, const float *x) {
    struct err e = {0};
    CHECK_OK(model_set_weight(m, up_name, x, x ? QT_F32 : QT_Q8_0, &e));
}

struct trio { /* the base and two that share with it */
    struct model *m[3];
    struct session *s[3];
};
static struct trio open_trio(const char *recipe, int d, enum act_mode act, uint64_t max_bytes) {
    struct err e = {0};
    struct trio t = {{NULL}, {NULL}};
    t.m[0] = synthetic(recipe, d, F, LAYERS);
    for (int i = 0; i < 3; i++) {
        if (i) CHECK_OK(model_open_again(&t.m[i], t.m[0], &e));
        t.s[i] = open_on(t.m[i], act, t.s[0], i ? 0 : 2, max_bytes);
    }
    return t;
}
static void close_trio(struct trio *t) {
    for (int i = 0; i < 3; i++) session_free(t->s[i]);
    for (int i = 2; i >= 0; i--) model_close(t->m[i]);
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

/* Sharers take their own activations and caches only, the numbers are those of a session alone. */
static void test_shared(void) {
    static const struct {
        int d;
        enum act_mode act;
    } as[] = {{D, ACT_F32}, {256, ACT_Q8}}; /* as in the file; packed where that is possible */
    for (int k = 0; k < 2; k++) {
        const uint64_t before = n_free();
        struct trio t = open_trio("Q8_0", as[k].d, as[k].act, 0);
        const uint64_t with_all = n_free();
        const struct rows want = alone(t.m[0], as[k].act, NULL);
        for (int i = 2; i >= 0; i--) {
            const struct rows r = rows_of(t.s[i]);
            CHECK(same(&r, &want));
        }
        CHECK(n_free() == with_all); /* passes take nothing */
        const uint64_t sharer = in_use(t.s[2]), base = in_use(t.s[0]) - 2 * sharer;
        CHECK(base >= sharer + tensor_bytes(t.m[0]));
        CHECK(base <= sharer + tensor_bytes(t.m[0]) * 3 / 2 + 65536);
        close_trio(&t);
        CHECK(n_free() == before);
    }
}

/* Replaced in one, in two by the same data, restored in one, by new data at the same place. */
static void test_replaced(void) {
    static const unsigned late[] = {0, 1, 6}; /* whichever stream lags behind */
    for (int k = 0; k < (emu_defer ? 3 : 1); k++) {
        lag(late[k]);
        struct trio t = open_trio("Q8_0", D, ACT_F32, 0);
        float *up = other_up(0), *newer = other_up(5);
        const struct rows file = alone(t.m[0], ACT_F32, NULL), first = alone(t.m[0], ACT_F32, up),
                          second = alone(t.m[0], ACT_F32, newer);
        CHECK(!same(&file, &first) && !same(&first, &second));
        const uint64_t n0 = n_free();
        set_up(t.m[1], up);
        struct rows r = rows_of(t.s[1]);
        CHECK(same(&r, &first));
        CHECK(n0 - n_free() >= UP_BYTES && n0 - n_free() < UP_BYTES + 4096);
        r = rows_of(t.s[0]);
        CHECK(same(&r, &file));
        set_up(t.m[2], up); /* is there already */
        r = rows_of(t.s[2]);
        CHECK(same(&r, &first));
        CHECK(n0 - n_free() < UP_BYTES + 4096);
        set_up(t.m[1], newer); /* of the same size: the other's copy stays */
        r = rows_of(t.s[1]);
        CHECK(same(&r, &second));
        r = rows_of(t.s[2]);
        CHECK(same(&r, &first));
        set_up(t.m[1], NULL);
        r = rows_of(t.s[1]);
        CHECK(same(&r, &file));
        /* new data at the same place: a copy of the old, which no pass has dropped yet, is not lent
         */
        memcpy(up, newer, UP_BYTES);
        set_up(t.m[2], up);
        set_up(t.m[1], up);
        r = rows_of(t.s[1]);
        CHECK(same(&r, &second));
        r = rows_of(t.s[2]);
        CHECK(same(&r, &second));
        set_up(t.m[2], NULL);
        r = rows_of(t.s[2]);
        CHECK(same(&r, &file));
        /* a lender's own copy is replaced, then it ends: others go on with theirs */
        set_up(t.m[0], newer);
        r = rows_of(t.s[0]);
        CHECK(same(&r, &second));
        session_free(t.s[0]);
        t.s[0] = NULL;
        r = rows_of(t.s[2]);
        CHECK(same(&r, &file));
        r = rows_of(t.s[1]);
        CHECK(same(&r, &second));
        close_trio(&t);
        free(up);
        free(newer);
    }
    lag(0);
}

/* Little memory: the base leaves room for the others, by computing experts on the CPU. */
static void test_little_memory(void) {
    struct err e = {0};
    struct model *m = synthetic("Q8_0", D, F, LAYERS);
    struct session *s = open_on(m, ACT_F32, NULL, 0, 0);
    const struct rows want = rows_of(s);
    const uint64_t own = in_use(s) - tensor_bytes(m); /* about: what a sharer takes */
    const uint64_t all = in_use(s) + 2 * own;
    int n_opened = 0, n_refused = 0;
    session_free(s);
    for (uint64_t most = all - 1; !n_refused && most > all / 8; most -= all / 16) {
        const struct session_opts o = {.n_ctx = 16,
                                       .isa = kern_isa_best(),
                                       .device = {.kind = DEVICE_CUDA, .max_bytes = most},
                                       .n_sharing = 2};
        if (session_new(&s, m, &o, &e)) {
            CHECK(e.code == ERR_SYS && strstr(e.msg, "of 2 more that share the weights"));
            n_refused++;
            continue;
        }
        n_opened++;
        CHECK(((struct cuda *)s->dev)->n_on_host > 0);
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
    RUN(test_little_memory);
    tmp_remove();
    return check_done();
}
