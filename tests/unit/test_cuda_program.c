// SPDX-License-Identifier: MIT
/* The program that hone plan derives for a device from a file's headers is the one that a session
 * on that device runs: the same steps for one row, few and many, with both kinds of activations,
 * without fusions, and with experts in main memory. Experts are there because a placement map puts
 * them there, or because the device cannot compute them; the CPU computes them, or long passes copy
 * them to the device. */
#include "runtime/engine/cuda/dry_program.h"
#include "runtime/engine/cuda/exec.h"
#include "tests/unit/micro.h"

#define MODELS "tests/golden/models/"

static const struct device cuda = {.kind = DEVICE_CUDA};

static void same_program(const struct program *a, const struct program *b) {
    CHECK_EQ_I64(a->n_steps, b->n_steps);
    for (int i = 0; i < a->n_steps && i < b->n_steps; i++)
        if (a->step[i].kind != b->step[i].kind || a->step[i].first != b->step[i].first ||
            a->step[i].n_nodes != b->step[i].n_nodes || a->step[i].fusion != b->step[i].fusion ||
            a->step[i].part != b->step[i].part || a->step[i].role != b->step[i].role)
            CHECK_FAIL("step %d: %s of %d nodes, %s of %d nodes", i, fuse_name(a->step[i].fusion),
                       a->step[i].n_nodes, fuse_name(b->step[i].fusion), b->step[i].n_nodes);
}

/* Compares the programs. from: number of rows from which passes copy experts; < 0: no pass does. */
static void check(struct model *m, enum act_mode act, unsigned mask, const struct placement *place,
                  int64_t from) {
    static const int64_t rows[BATCH_COUNT] = {1, 5, 12};
    struct session_opts o = {.n_ctx = 64, .act = act, .device = cuda};
    struct dry_program l;
    struct session *s = NULL;
    struct err e;
    int32_t ids[12] = {3, 5, 3, 9, 4, 7, 8, 2, 6, 1, 5, 4};
    o.device.masked = true;
    o.device.mask = mask;
    o.device.place = place;
    o.device.stream_from = from;
    CHECK_OK(session_new(&s, m, &o, &e));
    CHECK_OK(dry_program_open(&l, m->gguf, act, &e));
    l.mask = mask;
    l.place = place;
    l.brings = from >= 0;
    for (int b = 0; s && b < BATCH_COUNT; b++) {
        struct program p = {0};
        const struct target t = dry_program_cuda(&l, (enum batch)b);
        CHECK_OK(session_step(s, ids, rows[b], NULL, &e));
        program_compile(&p, &l.g, 0, &t);
        same_program(&s->programs.of[b], &p);
        program_release(&p);
    }
    dry_program_close(&l);
    session_free(s);
}

static void test_outline(void) {
    static const char *const name[] = {MODELS "qwen35moe", MODELS "qwen3", MODELS "gemma4moe"};
    for (size_t i = 0; i < COUNT_OF(name); i++) {
        struct model *m = golden_open(name[i], tmp_path("m.gguf"));
        if (!m) continue;
        struct placement p = {.experts = {[1] = PLACE_CPU, [2] = PLACE_CPU, [3] = PLACE_DEVICE}};
        check(m, ACT_Q8, CUDA_DEFAULT, NULL, -1);
        check(m, ACT_Q8, 0, NULL, -1);
        check(m, ACT_F32, CUDA_DEFAULT, NULL, -1);
        check(m, ACT_Q8, CUDA_DEFAULT, &p, -1);
        check(m, ACT_Q8, CUDA_DEFAULT, &p, 9);
        check(m, ACT_F32, CUDA_DEFAULT, &p, 12);
        model_close(m);
    }
}

/* Logits of a prompt of 4 tokens and of four tokens after it, run directly, recorded, and
 * replayed. */
enum { N_LOGITS = 5 };
static float *logits(struct model *m, struct session_opts o, int n_on_host, unsigned blocks) {
    static const int32_t ids[8] = {3, 5, 3, 9, 4, 7, 8, 2};
    const int64_t v = m->hp.d[HD_VOCAB];
    struct session *s = NULL;
    struct err e;
    float *l = xcalloc((size_t)(N_LOGITS * v), sizeof *l);
    CHECK_OK(session_new(&s, m, &o, &e));
    if (!s) return l;
    CHECK_OK(session_step(s, ids, 4, l, &e));
    for (int i = 1; i < N_LOGITS; i++) CHECK_OK(session_step(s, ids + 3 + i, 1, l + i * v, &e));
    const struct cuda_set *all = s->dev;
    if (all) {
        CHECK_EQ_I64(all->n_on_host, n_on_host);
        CHECK_EQ_I64(all->n_steps, n_on_host + 1); /* captured pieces */
        for (int i = 0; i < graph_count(s->g, OP_MOE); i++) {
            const struct gr_node *n = graph_nth(s->g, OP_MOE, i);
            CHECK(all->on_host[n - s->g->node] == ((blocks >> n->layer & 1) != 0));
        }
        CHECK_EQ_I64(session_info(s).offload_blocks, n_on_host);
    }
    session_free(s);
    return l;
}

/* Compares with the CPU, whose sums have a different order (test_cuda_session). */
static void as_on_cpu(struct model *m, const struct placement *p, int n_on_host, unsigned blocks) {
    const int64_t n = N_LOGITS * m->hp.d[HD_VOCAB];
    struct session_opts o = {.n_ctx = 16};
    float *want = logits(m, o, 0, 0);
    o.device = cuda;
    o.device.place = p;
    float *got = logits(m, o, n_on_host, blocks);
    CHECK(golden_diff(want, got, n) <= 5e-4);
    free(want);
    free(got);
}

static void test_place(void) {
    struct model *m = golden_open(MODELS "qwen35moe", tmp_path("m.gguf"));
    const struct placement some = {.experts = {[0] = PLACE_CPU, [2] = PLACE_CPU}},
                           none = {
                               .experts = {PLACE_DEVICE, PLACE_DEVICE, PLACE_DEVICE, PLACE_DEVICE}};
    if (!m) return;
    as_on_cpu(m, &some, 2, 5);
    as_on_cpu(m, &none, 0, 0);
    model_close(m);
}

/* Tests experts with biases and a clamped activation, which a device would not compute if they were
 * in one tensor. */
static void test_lacks(void) {
    struct model *m =
        golden_open(micro_folder("tests/golden/archs/gptoss", NULL), tmp_path("o.gguf"));
    if (!m) return;
    const int n = graph_count(&m->graph, OP_MOE);
    CHECK(n > 0);
    struct gr_node joined = *graph_nth(&m->graph, OP_MOE, 0);
    CHECK(exec_cuda_has(&joined));
    joined.moe.joined = true;
    CHECK(!exec_cuda_has(&joined));
    as_on_cpu(m, NULL, 0, 0);
    model_close(m);
}

int main(void) {
    if (!cu_built() || cu_count() == 0) return check_skip("no CUDA device");
    tmp_make();
    RUN(test_outline);
    RUN(test_place);
    RUN(test_lacks);
    tmp_remove();
    return check_done();
}
