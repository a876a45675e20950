// SPDX-License-Identifier: MIT
/* What hone plan prints for a device from a file's headers is what a session on that device runs:
 * the same steps for one row, few and many, with both kinds of activations and without fusions. */
#include "runtime/engine/outline.h"
#include "runtime/exec_cuda.h"
#include "tests/unit/micro.h"

#define MODELS "tests/golden/models/"

static const struct device cuda = {.kind = DEVICE_CUDA};

static void same_program(const struct program *a, const struct program *b) {
    CHECK_EQ_I64(a->n_steps, b->n_steps);
    for (int i = 0; i < a->n_steps && i < b->n_steps; i++)
        if (a->step[i].first != b->step[i].first || a->step[i].n_nodes != b->step[i].n_nodes ||
            a->step[i].fusion != b->step[i].fusion)
            CHECK_FAIL("step %d: %s of %d nodes, %s of %d nodes", i, fuse_name(a->step[i].fusion),
                       a->step[i].n_nodes, fuse_name(b->step[i].fusion), b->step[i].n_nodes);
}

static void check(struct model *m, enum act_mode act, unsigned mask) {
    static const int64_t rows[BATCH_COUNT] = {1, 5, 12};
    struct session_opts o = {.n_ctx = 64, .act = act, .device = cuda};
    struct outline l;
    struct session *s = NULL;
    struct err e;
    int32_t ids[12] = {3, 5, 3, 9, 4, 7, 8, 2, 6, 1, 5, 4};
    o.device.masked = true;
    o.device.mask = mask;
    CHECK_OK(session_new(&s, m, &o, &e));
    CHECK_OK(outline_open(&l, m->gguf, act, &e));
    l.mask = mask;
    for (int b = 0; s && b < BATCH_COUNT; b++) {
        struct program p = {0};
        const struct target t = outline_cuda(&l, (enum batch)b);
        CHECK_OK(session_step(s, ids, rows[b], NULL, &e));
        program_compile(&p, &l.g, 0, &t);
        same_program(&s->programs.of[b], &p);
        program_release(&p);
    }
    outline_close(&l);
    session_free(s);
}

static void test_outline(void) {
    static const char *const name[] = {MODELS "qwen35moe", MODELS "qwen3", MODELS "gemma4moe"};
    for (size_t i = 0; i < COUNT_OF(name); i++) {
        struct model *m = golden_open(name[i], tmp_path("m.gguf"));
        if (!m) continue;
        check(m, ACT_Q8, CUDA_DEFAULT);
        check(m, ACT_Q8, 0);
        check(m, ACT_F32, CUDA_DEFAULT);
        model_close(m);
    }
}

int main(void) {
    if (!cu_built() || cu_count() == 0) return check_skip("no CUDA device");
    tmp_make();
    RUN(test_outline);
    tmp_remove();
    return check_done();
}
