// SPDX-License-Identifier: MIT
/* Tests prompts with images. Logits are compared with those of transformers
 * (tests/oracle/session_images.py) in every batching and on every kernel set; sequences are forked,
 * trimmed and saved after an image; invalid images are refused. */
#include "tests/unit/micro.h"
#include "base/log.h"
#include "runtime/engine/seq.h"

static const double tol = 5e-4;
enum { MAX_IMAGES = 4 };

struct scene {
    struct golden g;
    struct model *m;
    struct session_image image[MAX_IMAGES];
    int64_t first[MAX_IMAGES];
    int n_images;
    bool whole; /* the model takes all tokens of an image together */
};
static const struct image_case {
    const char *name, *dir; /* folder of config.json and tensors.txt */
    int n_deep;
    bool whole;
} cases[] = {
    {"qwen25vl", "session_images", 0, false},  {"qwen3vl", "archs", 2, false},
    {"qwen3vlmoe", "archs", 2, false},         {"qwen35", "session_images", 0, false},
    {"qwen35moe", "session_images", 0, false}, {"gemma3", "session_images", 0, true},
    {"mistral3", "session_images", 0, false},  {"glm4v", "archs", 0, false},
    {"gemma4unified", "archs", 0, true},       {"gemma4e", "session_images", 0, false},
};

/* Makes rows as images.py does. */
static float *made_rows(const char *name, int64_t n) {
    struct rng rng = {0xcbf29ce484222325u};
    for (const char *c = name; *c; c++) rng.s = (rng.s ^ (uint8_t)*c) * 0x100000001b3u;
    float *v = xcalloc((size_t)n, sizeof *v);
    for (int64_t i = 0; i < n; i++)
        v[i] = (float)(0.75 * ((double)(rng_u64(&rng) >> 40) * 0x1p-23 - 1));
    return v;
}

static void add_image(struct scene *c, const float *grid, int n_deep) {
    const int k = c->n_images++;
    struct session_image *im = &c->image[k];
    const int64_t d = c->m->hp.d[HD_EMBD];
    char name[40];
    c->first[k] = (int64_t)grid[0];
    *im =
        (struct session_image){.t = (int64_t)grid[1], .h = (int64_t)grid[2], .w = (int64_t)grid[3]};
    im->n = im->t * im->h * im->w;
    im->n_deep = n_deep;
    snprintf(name, sizeof name, "image.%d.rows", k);
    im->rows = made_rows(name, im->n * d);
    float *deep = n_deep ? xcalloc((size_t)(n_deep * im->n * d), sizeof *deep) : NULL;
    for (int i = 0; i < n_deep; i++) {
        snprintf(name, sizeof name, "image.%d.deep.%d", k, i);
        float *v = made_rows(name, im->n * d);
        memcpy(deep + i * im->n * d, v, (size_t)(im->n * d) * sizeof *v);
        free(v);
    }
    im->deep = deep;
}

static bool scene_open(struct scene *c, const struct image_case *of) {
    char *dir = xasprintf("tests/golden/%s/%s", of->dir, of->name),
         *golden = xasprintf("tests/golden/session_images/%s", of->name);
    int64_t n = 0;
    memset(c, 0, sizeof *c);
    c->whole = of->whole;
    c->m = golden_open(micro_folder(dir, NULL), tmp_path("m.gguf"));
    const bool ok = golden_load(&c->g, golden) && c->m;
    float *grids = ok ? golden_floats(c->g.st, "grids", &n) : NULL;
    for (int64_t i = 0; i < n / 4 && i < MAX_IMAGES; i++) add_image(c, grids + 4 * i, of->n_deep);
    free(grids);
    free(dir);
    free(golden);
    return ok && n;
}
static void scene_close(struct scene *c) {
    for (int i = 0; i < c->n_images; i++) {
        free((void *)(uintptr_t)c->image[i].rows);
        free((void *)(uintptr_t)c->image[i].deep);
    }
    golden_release(&c->g);
    model_close(c->m);
}

/* Token i of the prompt as a row of sequence q. */
static struct session_row row_at(const struct scene *c, int64_t i, struct seq *q) {
    struct session_row r = {.id = c->g.ids[i], .seq = q, .want = WANT_LOGITS};
    for (int k = 0; k < c->n_images; k++) {
        const int64_t at = i - c->first[k];
        if (at < 0 || at >= c->image[k].n) continue;
        r.id = -1; /* not used */
        r.image = &c->image[k];
        r.image_at = at;
    }
    return r;
}

/* Feeds tokens [from, to); logits [n_vocab] per token to l. */
static int feed(struct session *s, const struct scene *c, struct seq *q, int64_t from, int64_t to,
                float *l, struct err *e) {
    struct session_row row[512];
    for (int64_t i = from; i < to; i++) row[i - from] = row_at(c, i, q);
    return session_pass(s, &(struct session_pass){.row = row, .n = to - from, .logits = l}, e);
}

/* The end of a piece of at most k tokens that starts at i; an image is not cut if that is not
 * possible. */
static int64_t piece_end(const struct scene *c, int64_t i, int64_t k) {
    int64_t end = min_i64(i + k, c->g.n_ids);
    for (int j = 0; j < c->n_images && c->whole; j++)
        if (end > c->first[j] && end < c->first[j] + c->image[j].n)
            end = c->first[j] + c->image[j].n;
    return end;
}

static float *run_all(const struct scene *c, const struct session_opts *o, const int *pieces) {
    struct err e = {0};
    struct session *s = NULL;
    const int64_t v = c->m->hp.d[HD_VOCAB];
    float *l = xcalloc((size_t)(c->g.n_ids * v), sizeof *l);
    CHECK_OK(session_new(&s, c->m, o, &e));
    for (int64_t i = 0, end; s && i < c->g.n_ids; i = end) {
        end = piece_end(c, i, *pieces);
        CHECK_OK(feed(s, c, NULL, i, end, l + i * v, &e));
        if (pieces[1]) pieces++;
    }
    session_free(s);
    return l;
}

/* Largest distance of the recorded logits: positions 3, 7, ..., entries 0, 8, ... */
static double distance(const struct golden *g, const float *l, int64_t v) {
    double diff = 0;
    for (int64_t p = 0; 4 * p + 3 < g->n_ids; p++)
        for (int64_t i = 0; i < v / 8; i++)
            diff = fmax(diff, fabs((double)l[(4 * p + 3) * v + 8 * i] -
                                   (double)g->logits[p * (v / 8) + i]));
    return diff;
}

static void test_logits_equal_those_of_transformers(void) {
    for (size_t k = 0; k < COUNT_OF(cases); k++) {
        struct scene c;
        double worst = 0;
        float *first = NULL;
        if (!scene_open(&c, &cases[k])) continue;
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
                    CHECK_FAIL("%s: %s gives other bits", cases[k].name, golden_batching[b].name);
                if (!b) {
                    free(first);
                    first = l;
                } else
                    free(l);
            }
        printf("%s: max |logit difference| %.3g\n", cases[k].name, worst);
        if (!(worst <= tol)) CHECK_FAIL("%s: %g is more than %g", cases[k].name, worst, tol);
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
        if (!scene_open(&c, &cases[which[k]])) continue;
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
        CHECK(distance(&c.g, l, v) <= tol);
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
    if (!scene_open(&c, &cases[1])) return;
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
    if (!scene_open(&c, &cases[5])) return; /* Gemma 3 */
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
    if (!scene_open(&c, &cases[0])) return;
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

int main(void) {
    tmp_make();
    log_set_level(LOG_WARN);
    RUN(test_logits_equal_those_of_transformers);
    RUN(test_sequences_keep_positions_after_images);
    RUN(test_text_in_the_same_pass_keeps_its_bits);
    RUN(test_refuses_images_that_do_not_fit);
    tmp_remove();
    return check_done();
}
