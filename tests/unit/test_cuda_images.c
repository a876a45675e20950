// SPDX-License-Identifier: MIT
/* tests/unit/test_cuda_images.c - prompts with images on a device: logits compared with those of
 * transformers, in several batchings, for one and for three rotary positions per token and for
 * deepstack; a sequence that continues after an image; images that only the CPU computes. */
#include "tests/unit/scene.h"
#include "base/log.h"

static const struct device cuda = {.kind = DEVICE_CUDA};

static void test_logits_equal_those_of_transformers(void) {
    static const int which[] = {0, 1, 3, 6}; /* Qwen2.5-VL, Qwen3-VL, Qwen3.5, Mistral 3 */
    static const int pieces[][3] = {{96}, {7, 30, 13}};
    for (size_t k = 0; k < COUNT_OF(which); k++) {
        struct scene c;
        if (!scene_open(&c, &scene_cases[which[k]])) continue;
        for (size_t b = 0; b < COUNT_OF(pieces); b++) {
            const int of[] = {pieces[b][0], pieces[b][1], pieces[b][2], 0};
            const struct session_opts o = {.n_ctx = c.g.n_ids, .device = cuda};
            float *l = run_all(&c, &o, of);
            const double worst = distance(&c.g, l, c.m->hp.d[HD_VOCAB]);
            printf("%s: max |logit difference| %.3g\n", scene_cases[which[k]].name, worst);
            if (!(worst <= scene_tol))
                CHECK_FAIL("%s, pieces of %d: %g", scene_cases[which[k]].name, of[0], worst);
            free(l);
        }
        scene_close(&c);
    }
}

/* Steps that a device captures and replays follow an image at its rotary positions. */
static void test_steps_after_an_image(void) {
    struct scene c;
    struct err e = {0};
    struct session *s = NULL;
    if (!scene_open(&c, &scene_cases[1])) return;
    const int64_t v = c.m->hp.d[HD_VOCAB], n = c.g.n_ids;
    int64_t text = n;
    while (!row_at(&c, text - 1, NULL).image) text--; /* the last rows without images */
    float *l = xcalloc((size_t)(n * v), sizeof *l);
    CHECK_OK(session_new(&s, c.m, &(struct session_opts){.n_ctx = n, .device = cuda}, &e));
    CHECK_OK(feed(s, &c, NULL, 0, text, l, &e));
    for (int64_t i = text; i < n; i++) CHECK_OK(session_step(s, c.g.ids + i, 1, l + i * v, &e));
    CHECK(n - text > 3);
    CHECK(distance(&c.g, l, v) <= scene_tol);
    session_free(s);
    free(l);
    scene_close(&c);
}

static void test_refuses_images_seen_whole(void) {
    struct scene c;
    struct err e = {0};
    struct session *s = NULL;
    if (!scene_open(&c, &scene_cases[5])) return; /* Gemma 3 */
    float *l = xcalloc((size_t)(c.g.n_ids * c.m->hp.d[HD_VOCAB]), sizeof *l);
    const struct session_opts o = {.n_ctx = c.g.n_ids, .device = cuda};
    CHECK_OK(session_new(&s, c.m, &o, &e));
    CHECK(!session_info(s).takes_images);
    CHECK_ERR(feed(s, &c, NULL, 0, c.g.n_ids, l, &e), ERR_USAGE, "use --device cpu");
    session_free(s);
    free(l);
    scene_close(&c);
}

int main(void) {
    tmp_make();
    log_set_level(LOG_WARN);
    RUN(test_logits_equal_those_of_transformers);
    RUN(test_steps_after_an_image);
    RUN(test_refuses_images_seen_whole);
    tmp_remove();
    return check_done();
}
