// SPDX-License-Identifier: MIT
/* tests/unit/test_make_plan.c - the steps that hone make drops to meet its time limit, and their
 * order; the verdict on a candidate of a size class. */
#include "make/size_ladder.h"
#include "make/plan.h"
#include "quantize/quantize.h"
#include "tests/check.h"

/* Two roles of 40 layers and one global group; round numbers, so that sums can be checked: full =
 * 100 (importance) + 60 (moments) + 81 * 3 * (1 + 16 * .5) + 13 (errors) = 2200 + 8 * (5 + 50) + 60
 * (gains) + (16 + 1) * 100 * .5 = 1350, speed 9, report 9. */
static struct plan_in numbers(void) {
    return (struct plan_in){.mixes = true,
                            .feedback = true,
                            .n_classes = 8,
                            .n_roles = 3,
                            .layers = {40, 40, 1},
                            .probe_windows = 16,
                            .eval_windows = 100,
                            .judge_passes = 1,
                            .imatrix = 100,
                            .gram = 60,
                            .errors = 13,
                            .probe_encode = 1,
                            .probe_window = .5,
                            .slope_window = .5,
                            .gains = 60,
                            .preset = 5,
                            .encode = 20,
                            .encode_feedback = 50,
                            .eval_window = .5,
                            .speed = 1,
                            .report = 1};
}

static void test_sums(void) {
    struct plan_in in = numbers();
    struct make_plan p;
    plan_full(&in, &p);
    CHECK_EQ_I64(plan_probes(&in, &p), 243);
    CHECK_CLOSE(plan_seconds(&in, &p, PART_IMATRIX), 160, 1e-9);
    CHECK_CLOSE(plan_seconds(&in, &p, PART_PROBES), 13 + 243 * 9, 1e-9);
    CHECK_CLOSE(plan_seconds(&in, &p, PART_LADDER), 8 * 55 + 60, 1e-9);
    CHECK_CLOSE(plan_seconds(&in, &p, PART_JUDGE), 17 * 50, 1e-9);
    CHECK_CLOSE(plan_seconds(&in, &p, PART_EVAL), 0, 0); /* the comparison measured all files */
    CHECK_CLOSE(plan_total(&in, &p), 160 + 2200 + 500 + 850 + 9 + 9, 1e-9);
    in.n_presets = 2; /* they are encoded, measured with the base, and timed */
    CHECK_CLOSE(plan_seconds(&in, &p, PART_PRESETS), 10, 1e-9);
    CHECK_CLOSE(plan_seconds(&in, &p, PART_EVAL), 150, 1e-9);
    in.done[PART_PROBES] = true;
    in.spent = 1000;
    CHECK_CLOSE(plan_total(&in, &p), 1000 + 160 + 10 + 500 + 850 + 150 + 11 + 11, 1e-9);
}

/* Makes the plan for a time limit, and checks that it stays within it if `held`. */
static struct make_plan at(double limit, bool held) {
    struct plan_in in = numbers();
    struct make_plan p;
    in.limit = limit;
    plan_fit(&in, &p);
    CHECK(!held || plan_total(&in, &p) <= limit);
    CHECK(p.made);
    return p;
}

static void test_order(void) {
    struct make_plan p = at(0, false), before = at(4000, true);
    CHECK(p.mixes && p.feedback && p.types == 3 && !p.bands && p.probe_windows == 16);
    CHECK(plan_same(&p, &before));
    /* probes shrink first */
    p = at(3700, true);
    CHECK(p.mixes && p.feedback && p.eval_windows == 100);
    CHECK_EQ_I64(p.types, 2);
    p = at(2300, true);
    CHECK(p.mixes && p.feedback && p.eval_windows == 100 && p.types == 1 && !p.bands);
    p = at(1700, true);
    CHECK(p.mixes && p.feedback && p.eval_windows == 100 && p.types == 1 && p.bands > 0);
    /* then feedback goes: the rest with it is 160 + 13 + 5 * 3 + 500 + 850 + 18 = 1556 */
    p = at(1550, true);
    CHECK(p.mixes && !p.feedback && p.eval_windows == 100);
    /* without: 100 + 28 + 200 + 850 + 18 = 1196; presets: 100 + 40 + 450 + 18 = 608 */
    p = at(1190, true);
    CHECK(!p.mixes && !p.feedback && p.eval_windows == 100);
    /* then windows: at least 8 */
    p = at(600, true);
    CHECK(!p.mixes && p.eval_windows == 50);
    p = at(1, false);
    CHECK(!p.mixes);
    CHECK_EQ_I64(p.eval_windows, 8);
}

/* With gradients, whose windows take their own time, layers go before windows. */
static void test_gradients(void) {
    struct plan_in in = numbers();
    struct make_plan p;
    in.gradients = true;
    plan_full(&in, &p);
    CHECK(p.types == 3 && !p.bands && p.probe_windows == 16);
    CHECK_CLOSE(plan_seconds(&in, &p, PART_PROBES), 13 + 243 * 9 + 16 * .5, 1e-9);
    in.limit = 160 + 500 + 850 + 18 + 13 + 8 + (8 + 8 + 1) * 9;
    plan_fit(&in, &p);
    CHECK(p.types == 1 && p.bands == 8 && p.probe_windows == 16 && p.feedback);
    in.limit = 160 + 500 + 850 + 18 + 13 + 2 + 5 * 3;
    plan_fit(&in, &p);
    CHECK(p.types == 1 && p.bands == 2 && p.probe_windows == 4 && p.feedback);
}

/* Making files block by block is dropped first, and that is reported. */
static void test_sequential(void) {
    struct plan_in in = numbers();
    struct make_plan p;
    char s[512];
    in.sequential = true;
    in.encode_sequential = 80; /* of each of 8 files, which are then compared with 8 more */
    plan_full(&in, &p);
    CHECK(p.sequential);
    CHECK_CLOSE(plan_seconds(&in, &p, PART_LADDER), 8 * 135 + 60, 1e-9);
    in.limit = 4000; /* 3728 without; 640 and 16 * 50 seconds more with */
    plan_fit(&in, &p);
    CHECK(!p.sequential && p.feedback && p.types == 3);
    CHECK(plan_left_out(&in, &p, 0, s, sizeof s));
    CHECK(strstr(s, "block by block") && strstr(s, "24 minutes"));
    CHECK(!plan_left_out(&in, &p, 1, s, sizeof s));
    in.limit = 5200;
    plan_fit(&in, &p);
    CHECK(p.sequential);
    in.mixes = false; /* presets are made from one reading */
    plan_full(&in, &p);
    CHECK(!p.sequential);
}

/* More time never leaves more out. */
static void test_monotone(void) {
    struct make_plan a = at(1, false);
    for (double limit = 10; limit < 5000; limit *= 1.02) {
        struct make_plan b = at(limit, limit > 250);
        CHECK(b.eval_windows >= a.eval_windows || b.mixes > a.mixes);
        CHECK(b.mixes >= a.mixes && b.feedback >= a.feedback);
        a = b;
    }
    CHECK(a.mixes && a.feedback && a.types == 3);
}

static void test_words(void) {
    struct plan_in in = numbers();
    struct make_plan p;
    char s[512];
    plan_full(&in, &p);
    CHECK(!plan_left_out(&in, &p, 0, s, sizeof s));
    in.limit = 3700; /* 162 of 243 probes: 81 * 9 = 729 seconds less */
    plan_fit(&in, &p);
    CHECK(plan_left_out(&in, &p, 0, s, sizeof s));
    CHECK(strstr(s, "81 of 243") && strstr(s, "12 minutes"));
    CHECK(!plan_left_out(&in, &p, 1, s, sizeof s));
    in.limit = 1550;
    plan_fit(&in, &p);
    CHECK(plan_left_out(&in, &p, 1, s, sizeof s) && strstr(s, "feedback"));
    in.limit = 500;
    plan_fit(&in, &p);
    CHECK(plan_left_out(&in, &p, 0, s, sizeof s) && strstr(s, "presets"));
    CHECK(plan_left_out(&in, &p, 1, s, sizeof s) && strstr(s, "windows"));
    char t[32];
    plan_time_text(40, t);
    CHECK_EQ_STR(t, "40 seconds");
    plan_time_text(840, t);
    CHECK_EQ_STR(t, "14 minutes");
    plan_time_text(11520, t);
    CHECK_EQ_STR(t, "3.2 hours");
}

/* Memory is checked before time; each sentence names the size that is enough. */
static void test_memory(void) {
    struct plan_in in = numbers(), all;
    struct make_plan p;
    char s[512];
    in.answers = in.sequential = true;
    in.need[NEED_PASSES] = 1e9;
    in.need[NEED_FEEDBACK] = 10e9;
    in.need[NEED_ANSWERS] = 22e9;
    in.need[NEED_BLOCKS] = 30e9;
    all = in;
    plan_memory(&in); /* unknown: no limit */
    CHECK(in.feedback && in.answers && in.sequential && !plan_no_memory(&in, 0, s, sizeof s));
    in = all;
    in.memory = 40e9;
    plan_memory(&in);
    plan_full(&in, &p);
    CHECK(p.feedback && p.answers && p.sequential);
    CHECK_CLOSE(plan_bytes(&in, &p), 30e9, 1);
    in = all;
    in.memory = 25e9;
    plan_memory(&in);
    plan_full(&in, &p);
    CHECK(p.feedback && p.answers && !p.sequential);
    CHECK_CLOSE(plan_bytes(&in, &p), 22e9, 1);
    CHECK(plan_no_memory(&in, 0, s, sizeof s));
    CHECK(strstr(s, "block by block") && strstr(s, "30.0 GB") && strstr(s, "25.0 GB are free"));
    CHECK(strstr(s, "more free memory") && strstr(s, "--max-memory 28GiB"));
    CHECK(!plan_no_memory(&in, 1, s, sizeof s));
    in = all;
    in.memory = 9e9;
    in.memory_given = true;
    plan_memory(&in);
    plan_full(&in, &p);
    CHECK(p.mixes && !p.feedback && !p.answers && !p.sequential);
    CHECK_CLOSE(plan_bytes(&in, &p), 1e9, 1);
    CHECK(plan_no_memory(&in, 0, s, sizeof s) && strstr(s, "error feedback: needs 10.0 GB"));
    CHECK(strstr(s, "--max-memory allows 9.0 GB; --max-memory 10GiB"));
    /* where time would leave it out too, time is the reason */
    in.limit = 1190;
    plan_fit(&in, &p);
    CHECK(!plan_no_memory(&in, 0, s, sizeof s));
    CHECK(plan_left_out(&in, &p, 0, s, sizeof s) && strstr(s, "they would take"));
}

/* A time that even presets exceed is reported. */
static void test_too_long(void) {
    struct plan_in in = numbers();
    struct make_plan p;
    in.limit = 600;
    plan_fit(&in, &p);
    CHECK(!plan_too_long(&in, &p));
    in.limit = 100;
    plan_fit(&in, &p);
    CHECK(plan_too_long(&in, &p) && !p.mixes);
    in.limit = 0;
    plan_fit(&in, &p);
    CHECK(!plan_too_long(&in, &p));
}

static void test_verdict(void) {
    char why[512];
    struct verdict_in v = {.what = "the mix",
                           .than = "Q4_K_M",
                           .kld = .0016,
                           .kld_plain = .0044,
                           .p999 = .036,
                           .p999_plain = .078,
                           .diff = -.0028,
                           .diff_stderr = .0001,
                           .n_tokens = 25600};
    CHECK(ladder_verdict(&v, why, sizeof why) && strstr(why, "0.001600"));
    CHECK(!strstr(why, "less than three"));
    v.diff_stderr = .002; /* lower, but within the error */
    CHECK(ladder_verdict(&v, why, sizeof why) && strstr(why, "less than three"));
    v.p999 = .09; /* of 25 positions: two standard errors are 28 % */
    CHECK(ladder_verdict(&v, why, sizeof why));
    v.p999 = .11;
    CHECK(!ladder_verdict(&v, why, sizeof why) && strstr(why, "99.9"));
    v.p999 = .01;
    v.diff = .00001;
    CHECK(!ladder_verdict(&v, why, sizeof why) && strstr(why, "not lower"));
    CHECK_EQ_STR(ladder_find("q4_k_m"), "Q4_K_M");
    CHECK(!ladder_find("Q4_0"));
    CHECK_EQ_STR(recipe_ladder(0), "Q8_0");
    CHECK(!recipe_ladder(8));
}

int main(void) {
    RUN(test_sums);
    RUN(test_order);
    RUN(test_gradients);
    RUN(test_sequential);
    RUN(test_monotone);
    RUN(test_words);
    RUN(test_memory);
    RUN(test_too_long);
    RUN(test_verdict);
    return check_done();
}
