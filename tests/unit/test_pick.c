// SPDX-License-Identifier: MIT
/* tests/unit/test_pick.c - the recommended file and its description; the numbers are made up. */
#include "report/pick.h"

#include <math.h>

#include "report/report_text.h"
#include "tests/check.h"

#define NO ((double)NAN)
static struct result_file a_file(const char *file, const char *recipe, int64_t size, double kld,
                                 double top1) {
    return (struct result_file){.file = file,
                                .recipe = recipe,
                                .sha256 = "",
                                .size_class = "",
                                .made = "",
                                .why = "",
                                .size_bytes = size,
                                .mean_kld = kld,
                                .mean_kld_stderr = kld / 100,
                                .preset_sure = NO,
                                .same_top1 = top1};
}

/* Files of a 35B model: the usual presets. */
static struct result_file ladder[6];
static struct result a_ladder(void) {
    ladder[0] = a_file("m-BF16.gguf", "BF16", 70000000000, NO, NO);
    ladder[0].is_base = 1;
    ladder[1] = a_file("m-Q8_0.gguf", "Q8_0", 37000000000, 0.0005, 0.993);
    ladder[2] = a_file("m-Q6_K.gguf", "Q6_K", 28900000000, 0.002, 0.98);
    ladder[3] = a_file("m-Q4_K_M.gguf", "Q4_K_M", 19800000000, 0.0103, 0.979);
    ladder[4] = a_file("m-IQ3_S.gguf", "IQ3_S", 14200000000, 0.06, 0.86);
    ladder[5] = a_file("m-Q2_K.gguf", "Q2_K", 12000000000, 0.3, 0.7);
    return (struct result){.file = ladder, .n_files = 6, .eval_tokens = 15300, .base_type = "BF16"};
}

static const char *text(struct buf *b, void (*fn)(const struct result *, struct buf *),
                        const struct result *r) {
    buf_reset(b);
    fn(r, b);
    return b->data ? b->data : "";
}

static const char *role(struct buf *b, const struct result *r, int i) {
    buf_reset(b);
    pick_role(r, i, b);
    return b->data;
}

static void test_bands(void) {
    static const struct {
        double kld;
        enum pick_band want;
    } t[] = {{0, PICK_NONE},          {-1e-9, PICK_NONE},  {0.005, PICK_NONE},
             {0.0051, PICK_SLIGHT},   {0.03, PICK_SLIGHT}, {0.031, PICK_NOTICEABLE},
             {0.15, PICK_NOTICEABLE}, {0.151, PICK_HEAVY}, {9, PICK_HEAVY},
             {NO, PICK_UNKNOWN}};
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        struct pick_grade g = pick_judge(t[i].kld, 0);
        if (g.band != t[i].want || g.best != g.band || g.worst != g.band)
            CHECK_FAIL("%g: %d", t[i].kld, (int)g.band);
    }
    for (int i = 0; i + 1 < PICK_BANDS; i++)
        CHECK(pick_bands[i].max_kld < pick_bands[i + 1].max_kld);
}

static void test_errors_cross(void) {
    struct buf b = {0};
    struct pick_grade g = pick_judge(0.029, 0.001); /* 0.029 + 1.96 * 0.001 > 0.03 */
    CHECK(g.band == PICK_SLIGHT && g.worst == PICK_NOTICEABLE && g.best == PICK_SLIGHT);
    pick_grade_text(&g, &b);
    CHECK_EQ_STR(b.data, "slight loss, perhaps noticeable");
    buf_reset(&b);
    g = pick_judge(0.0305, 0.001);
    pick_grade_text(&g, &b);
    CHECK_EQ_STR(b.data, "noticeable loss, perhaps slight");
    buf_release(&b);
}

static void test_recommends(void) {
    struct result r = a_ladder();
    struct buf b = {0};
    CHECK_EQ_I64(pick_file(&r), 2); /* the smallest without noticeable loss */
    CHECK_EQ_STR(text(&b, pick_head, &r), "Take Q6_K, 28.9 GB: no noticeable loss.");
    CHECK_EQ_STR(text(&b, pick_numbers, &r),
                 "The most likely token is that of the "
                 "original 98.0 % of the time; mean divergence 0.00200 ± 0.00002.");
    CHECK_EQ_STR(text(&b, pick_others, &r), "If that does not fit: Q4_K_M, 19.8 GB (slight "
                                            "loss).");
    ladder[3].preset_kld = 0.0103 * 3.2; /* the gain is reported for the file, with its preset */
    ladder[3].size_class = "Q4_K_M";
    buf_reset(&b);
    CHECK(pick_gain_text(&r, 3, &b) && !pick_gain_text(&r, 2, &b));
    CHECK_EQ_STR(b.data, "3.2x closer to the original than llama.cpp's Q4_K_M of the same size");
    ladder[3].preset_sure = 1.9; /* zero is inside the interval of the paired difference */
    CHECK(!pick_is_closer(&r, 3) && !pick_gain_text(&r, 3, &b));
    ladder[3].preset_kld = 0.0103 * 1.06; /* small, but certain on the same windows */
    ladder[3].preset_sure = 2;
    CHECK(pick_is_closer(&r, 3));
    ladder[3].preset_sure = NO; /* unknown: errors of 1 % each leave it open at 1.02 and 1.06 ... */
    ladder[3].mean_kld_stderr = 0.0103 / 50;
    CHECK(!pick_is_closer(&r, 3));
    ladder[3].preset_kld = 0.0103 * 1.2; /* ... but not at 1.2 */
    CHECK(pick_is_closer(&r, 3));
    ladder[2].preset_kld = 0.002 * 8.7; /* the gain comes first */
    ladder[2].size_class = "Q6_K";
    CHECK_EQ_STR(text(&b, pick_head, &r), "Take Q6_K, 28.9 GB: 8.7x closer to the original than "
                                          "llama.cpp's Q6_K of the same size, no noticeable loss.");
    static const char *const phrase[] = {"the unquantized conversion, for making other files",
                                         "closest to the original",
                                         "the smallest without noticeable loss",
                                         "when memory is short",
                                         "when memory is short",
                                         "last resort"};
    for (int i = 0; i < r.n_files; i++) CHECK_EQ_STR(role(&b, &r, i), phrase[i]);
    r.base_is_quantized = true;
    CHECK(strstr(text(&b, pick_numbers, &r), "that of its base 98.0 %") != NULL);
    buf_release(&b);
}

/* Checks that a certain file is preferred to an uncertain one, and that two files of one class are
 * ordered by name. */
static void test_sure_and_labels(void) {
    struct result r = a_ladder();
    struct buf b = {0};
    ladder[1].mean_kld = ladder[2].mean_kld = 0.009; /* all have some loss */
    ladder[4] = a_file("m-IQ3_S.gguf", "IQ3_S", 14200000000, 0.0295, 0.95);
    ladder[4].mean_kld_stderr = 0.001;
    CHECK_EQ_I64(pick_file(&r), 3);
    ladder[4].mean_kld_stderr = 0.0001;
    CHECK_EQ_I64(pick_file(&r), 3); /* certainly slight, but too close to noticeable */
    ladder[4].mean_kld = 0.0195;
    CHECK_EQ_I64(pick_file(&r), 4);
    ladder[4].mean_kld_stderr = 0.0003; /* 0.0195 + 1.96 * 0.0003 > 0.02 */
    CHECK_EQ_I64(pick_file(&r), 3);
    CHECK(pick_knows_errors(&r));
    ladder[4].mean_kld_stderr = NO; /* unknown: the mean alone decides, and nothing is certain */
    CHECK_EQ_I64(pick_file(&r), 4);
    CHECK(!pick_knows_errors(&r));
    ladder[4].preset_kld = 1;
    CHECK(!pick_is_closer(&r, 4));
    ladder[5] = a_file("m-Q4_K_M-plain.gguf", "Q4_K_M", 20000000000, 0.02, 0.95);
    CHECK_EQ_STR(pick_label(&r, 3), "m-Q4_K_M.gguf");
    ladder[3].size_class = "Q4_K_L";
    CHECK_EQ_STR(pick_label(&r, 3), "Q4_K_L");
    CHECK(!pick_on_front(&r, 5) && pick_on_front(&r, 3) && !pick_on_front(&r, 0));
    CHECK_EQ_STR(role(&b, &r, 5), "Q4_K_L is smaller and closer");
    ladder[5].mean_kld = ladder[3].mean_kld;
    CHECK_EQ_STR(role(&b, &r, 5), "Q4_K_L is smaller and as close");
    ladder[5].mean_kld = 0.02;
    ladder[5].size_bytes = ladder[3].size_bytes;
    CHECK_EQ_STR(role(&b, &r, 5), "Q4_K_L is as small and closer");
    buf_release(&b);
}

static void test_bad_ladders(void) {
    struct result r = a_ladder();
    struct buf b = {0};
    r.file = &ladder[4];
    r.n_files = 2; /* noticeable and heavy */
    CHECK_EQ_I64(pick_file(&r), 0);
    CHECK(strstr(text(&b, pick_head, &r),
                 "noticeable loss. No file here is closer to the original, but the loss is "
                 "still noticeable.") != NULL);
    r.file = ladder;
    r.n_files = 1; /* only the base */
    CHECK_EQ_I64(pick_file(&r), -1);
    CHECK_EQ_STR(text(&b, pick_head, &r), "");
    r.n_files = 0;
    CHECK_EQ_I64(pick_file(&r), -1);
    ladder[0] = a_file("", "", 0, (double)INFINITY, NO);
    r.n_files = 1;
    CHECK_EQ_I64(pick_file(&r), -1);
    buf_release(&b);
}

static void test_numbers(void) {
    static const struct {
        int64_t n;
        const char *size, *digits;
    } t[] = {{0, "0 B", "0"},
             {999, "999 B", "999"},
             {1000, "1.00 kB", "1,000"},
             {9999, "10.0 kB", "9,999"},
             {11063840, "11.1 MB", "11,063,840"},
             {999600000, "1.00 GB", "999,600,000"},
             {INT64_C(19800000000), "19.8 GB", "19,800,000,000"},
             {INT64_C(803000000000), "803 GB", "803,000,000,000"},
             {-1234, "-1234 B", "-1,234"}};
    char s[32];
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        if (t[i].n >= 0) {
            text_size(s, t[i].n);
            CHECK_EQ_STR(s, t[i].size);
        }
        text_thousands(s, t[i].n);
        CHECK_EQ_STR(s, t[i].digits);
    }
    text_thousands(s, INT64_MIN);
    text_size(s, INT64_MAX);
    static const struct {
        double v, err;
        const char *want;
    } k[] = {{0.0103, 0.00041, "0.0103 ± 0.0004"},
             {-2e-6, 1e-6, "0.000000 ± 0.000001"},
             {0.000119, 4.8e-6, "0.000119 ± 0.000005"},
             {1.5, NO, "1.500"},
             {NO, 1, "-"}};
    struct buf b = {0};
    for (size_t i = 0; i < COUNT_OF(k); i++) {
        buf_reset(&b);
        text_kld(&b, k[i].v, k[i].err);
        CHECK_EQ_STR(b.data, k[i].want);
    }
    buf_release(&b);
}

int main(void) {
    RUN(test_bands);
    RUN(test_errors_cross);
    RUN(test_recommends);
    RUN(test_sure_and_labels);
    RUN(test_bad_ladders);
    RUN(test_numbers);
    return check_done();
}
