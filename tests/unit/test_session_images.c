// SPDX-License-Identifier: MIT
/* Tests prompts with images. Logits are compared with those of transformers
 * (tests/oracle/session_images.py) in every batching and on every kernel set; sequences are forked,
 * trimmed and saved after an image; invalid images are refused. */
#include "tests/unit/scene.h"
#include "base/log.h"
#include "runtime/generate/pictures_prompt.h"

static void test_logits_equal_those_of_transformers(void) {
    for (size_t k = 0; k < COUNT_OF(scene_cases); k++) {
        struct scene c;
        double worst = 0;
        float *first = NULL;
        if (!scene_open(&c, &scene_cases[k])) continue;
        const int64_t v = c.m->hp.d[HD_VOCAB];
        CHECK_EQ_I64(c.g.n_logits, c.g.n_ids / 4 * (v / 8));
        for (int isa = KERN_REF; isa <= (int)kern_isa_best(); isa++)
            for (size_t b = 0; b < COUNT_OF(golden_batching); b++) {
                const int64_t n_ubatch = golden_batching[b].n_ubatch;
                const struct session_opts o = {.n_ctx = c.g.n_ids,
                                               .n_ubatch = n_ubatch && c.whole ? 24 : n_ubatch,
                                               .isa = (enum kern_isa)isa};
                float *l = run_all(&c, &o, golden_batching[b].pieces);
                worst = fmax(worst, distance(&c.g, l, v));
                if (b && memcmp(first, l, (size_t)(c.g.n_ids * v) * sizeof *l) != 0)
                    CHECK_FAIL("%s: %s gives other bits", scene_cases[k].name,
                               golden_batching[b].name);
                if (!b) {
                    free(first);
                    first = l;
                } else
                    free(l);
            }
        printf("%s: max |logit difference| %.3g\n", scene_cases[k].name, worst);
        if (!(worst <= scene_tol))
            CHECK_FAIL("%s: %g is more than %g", scene_cases[k].name, worst, scene_tol);
        free(first);
        scene_close(&c);
    }
}

/* Checks that a file whose rotary positions were changed is refused. */
static void check_damaged(struct session *s, struct seq *q) {
    static const struct {
        size_t at; /* after the header of 64 bytes: the number of images, a position, its shift */
        uint64_t v;
        const char *why;
    } bad[] = {
        {64, 0, "0 images: the file is damaged"},
        {64, UINT64_C(1) << 40, "images: the file is damaged"},
        {72, 0, "out of place"},
        {72, UINT64_C(1) << 40, "out of place"},
        {80, (uint64_t)-1000, "out of place"},
        {80, UINT64_C(1) << 62, "out of place"},
    };
    struct err e = {0};
    char *bytes = NULL;
    size_t n = 0;
    CHECK_OK(io_read_file(&bytes, &n, tmp_path("q.seq"), 1 << 24, &e));
    for (size_t i = 0; bytes && i < COUNT_OF(bad); i++) {
        const uint64_t was = load_u64(bytes + bad[i].at);
        const int64_t pos = seq_pos(q);
        store_u64(bytes + bad[i].at, bad[i].v);
        tmp_write("bad.seq", bytes, n);
        CHECK_ERR(session_load_seq(s, q, tmp_path("bad.seq"), &e), ERR_DATA, bad[i].why);
        CHECK_EQ_I64(seq_pos(q), pos);
        store_u64(bytes + bad[i].at, was);
    }
    free(bytes);
}

/* Checks that after an image, sequences that were forked, restored, trimmed or saved continue at
 * the same rotary positions. */
static void test_sequences_keep_positions_after_images(void) {
    static const int which[] = {0, 1, 3}; /* one is hybrid and cannot be trimmed */
    for (size_t k = 0; k < COUNT_OF(which); k++) {
        struct scene c;
        struct err e = {0};
        struct session *s = NULL;
        struct seq *q = NULL, *fork = NULL;
        if (!scene_open(&c, &scene_cases[which[k]])) continue;
        const int64_t v = c.m->hp.d[HD_VOCAB], n = c.g.n_ids, cut = 36; /* after the first image */
        const size_t bytes = (size_t)((n - cut) * v) * sizeof(float);
        float *l = xcalloc((size_t)(n * v), sizeof *l),
              *again = xcalloc((size_t)(n * v), sizeof *l);
        CHECK_OK(session_new(&s, c.m, &(struct session_opts){.n_ctx = n}, &e));
        CHECK_OK(session_new_seq(s, 0, &q, &e));
        CHECK_OK(feed(s, &c, q, 0, cut, l, &e));
        CHECK_OK(seq_fork(&fork, q, &e));
        CHECK_OK(session_save_seq(s, q, tmp_path("q.seq"), true, &e));
        CHECK_OK(feed(s, &c, q, cut, n, l + cut * v, &e));
        CHECK(distance(&c.g, l, v) <= scene_tol);
        CHECK_OK(feed(s, &c, fork, cut, n, again, &e));
        CHECK(memcmp(again, l + cut * v, bytes) == 0);
        if (session_info(s).can_trim) {
            CHECK_OK(seq_trim(q, cut, &e));
            CHECK_OK(feed(s, &c, q, cut, n, again, &e));
            CHECK(memcmp(again, l + cut * v, bytes) == 0);
        }
        check_damaged(s, q);
        CHECK_OK(session_load_seq(s, q, tmp_path("q.seq"), &e));
        CHECK_EQ_I64(seq_pos(q), cut);
        CHECK_OK(feed(s, &c, q, cut, n, again, &e));
        CHECK(memcmp(again, l + cut * v, bytes) == 0);
        /* A sequence without a past is like a new one. */
        seq_reset(q);
        CHECK_OK(feed(s, &c, q, 0, n, again, &e));
        CHECK(memcmp(again, l, (size_t)(n * v) * sizeof *l) == 0);
        seq_free(q);
        seq_free(fork);
        session_free(s);
        free(l);
        free(again);
        scene_close(&c);
    }
}

/* Checks that text is not affected by images of other sequences in the same pass. */
static void test_text_in_the_same_pass_keeps_its_bits(void) {
    struct scene c;
    struct err e = {0};
    struct session *s = NULL;
    struct seq *q = NULL;
    struct session_row row[60];
    if (!scene_open(&c, &scene_cases[1])) return;
    const int64_t v = c.m->hp.d[HD_VOCAB];
    float *alone = xcalloc((size_t)v, sizeof *alone), *l = xcalloc((size_t)(60 * v), sizeof *l);
    CHECK_OK(session_new(&s, c.m, &(struct session_opts){.n_ctx = 96}, &e));
    CHECK_OK(session_step(s, c.g.ids + 60, 30, alone, &e));
    session_reset(s);
    CHECK_OK(session_new_seq(s, 0, &q, &e));
    for (int i = 0; i < 60; i++) {
        row[i] = i % 2 ? (struct session_row){.id = c.g.ids[60 + i / 2]} : row_at(&c, i / 2, q);
        row[i].want = i % 2 ? WANT_LOGITS : 0;
    }
    CHECK_OK(session_pass(s, &(struct session_pass){.row = row, .n = 60, .logits = l}, &e));
    CHECK(memcmp(l + 29 * v, alone, (size_t)v * sizeof *l) == 0);
    seq_free(q);
    session_free(s);
    free(alone);
    free(l);
    scene_close(&c);
}

static void test_refuses_images_that_do_not_fit(void) {
    struct scene c;
    struct err e = {0};
    struct session *s = NULL;
    if (!scene_open(&c, &scene_cases[5])) return; /* Gemma 3 */
    float *l = xcalloc((size_t)(96 * c.m->hp.d[HD_VOCAB]), sizeof *l);
    CHECK_OK(session_new(&s, c.m, &(struct session_opts){.n_ctx = 96, .n_ubatch = 20}, &e));
    CHECK_ERR(feed(s, &c, NULL, 0, 10, l, &e), ERR_USAGE,
              "only 5 of the 21 tokens of an image were given");
    CHECK_ERR(feed(s, &c, NULL, 0, 30, l, &e), ERR_USAGE,
              "an image of 21 tokens does not fit a pass of 20");
    CHECK_EQ_I64(session_pos(s), 0);
    CHECK(session_info(s).whole_images);
    CHECK_OK(feed(s, &c, NULL, 0, 5, l, &e));
    struct session_row row = row_at(&c, 5, NULL);
    row.image_at = 21;
    CHECK_ERR(session_pass(s, &(struct session_pass){.row = &row, .n = 1}, &e), ERR_USAGE,
              "has no row 21");
    session_free(s);
    free(l);
    scene_close(&c);
    if (!scene_open(&c, &scene_cases[0])) return;
    CHECK_OK(session_new(&s, c.m, &(struct session_opts){.n_ctx = 96}, &e));
    CHECK(!session_info(s).whole_images);
    struct session_image odd = c.image[0];
    odd.w++;
    row = (struct session_row){.image = &odd};
    CHECK_ERR(session_pass(s, &(struct session_pass){.row = &row, .n = 1}, &e), ERR_USAGE,
              "is not a grid of 1 x 3 x 8");
    session_free(s);
    scene_close(&c);
}

/* A file is kept as it was first read. */
static void test_kept_files(void) {
    struct picture_files f = {0};
    CHECK(picture_files_keep(&f, "a", "12", 2));
    CHECK(picture_files_keep(&f, "b", "1", 1));
    CHECK(picture_files_keep(&f, "a", "12", 2));
    CHECK(!picture_files_keep(&f, "a", "13", 2));
    CHECK(!picture_files_keep(&f, "b", "12", 2));
    picture_files_release(&f);
    CHECK(picture_files_keep(&f, "a", "13", 2));
    picture_files_release(&f);
}

int main(void) {
    tmp_make();
    log_set_level(LOG_WARN);
    RUN(test_logits_equal_those_of_transformers);
    RUN(test_sequences_keep_positions_after_images);
    RUN(test_text_in_the_same_pass_keeps_its_bits);
    RUN(test_refuses_images_that_do_not_fit);
    RUN(test_kept_files);
    tmp_remove();
    return check_done();
}
