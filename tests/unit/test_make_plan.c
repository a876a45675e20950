// SPDX-License-Identifier: MIT
/* tests/unit/test_make_plan.c - the steps that hone make drops to meet its time limit, and their
 * order; the verdict on a candidate of a size class. */
#include "make/size_ladder.h"
#include "make/plan.h"
#include "quantize/quantize.h"
#include "tests/check.h"

/* Two roles of 40 layers and one global group; round numbers, so that sums can be checked: full =
 * 100 (importance) + 60 (moments) + 13 (errors) + 249 (encoding 3 + 6 / 81 models) + 8 * 34.8 * .5
 * (passes: 1.2 of 3 roles and everything, 0.75 of 40 blocks) + 16 * 4.5 * .5 (0.75 of 6 groups) =
 * 437.2 + 8 * (5 + 50) + 60 (gains) + (8 + 1) * 100 * .5 + 8 * 12 * .5 (losers of comparisons) =
 * 998, speed 9, report 9: 1613.2. */
static struct plan_in numbers(void) {
    return (struct plan_in){.mixes = true,
                            .feedback = true,
                            .n_classes = 8,
                            .n_sizes = 8,
                            .n_roles = 3,
                            .layers = {40, 40, 1},
                            .probe_windows = 16,
                            .eval_windows = 100,
                            .judge_passes = 1,
                            .imatrix = 100,
                            .gram = 60,
                            .errors = 13,
                            .probe_encode = 81,
                            .pass_window = .5,
                            .slope_window = .5,
                            .gains = 60,
                            .preset = 5,
                            .encode = 20,
                            .encode_feedback = 50,
                            .encode_alone = 50,
                            .eval_window = .5,
                            .speed = 1,
                            .report = 1};
}

static void test_sums(void) {
    struct plan_in in = numbers();
    struct make_plan p;
    plan_full(&in, &p);
    CHECK_EQ_I64(plan_probes(&in, &p), 50);
    CHECK_CLOSE(plan_seconds(&in, &p, PART_IMATRIX), 160, 1e-9);
    CHECK_CLOSE(plan_seconds(&in, &p, PART_PROBES), 437.2, 1e-9);
    CHECK_CLOSE(plan_seconds(&in, &p, PART_LADDER), 8 * 55 + 60, 1e-9);
    CHECK_CLOSE(plan_seconds(&in, &p, PART_JUDGE), 9 * 50 + 8 * 6, 1e-9);
    CHECK_CLOSE(plan_seconds(&in, &p, PART_EVAL), 0, 0); /* the comparison measured all files */
    CHECK_CLOSE(plan_total(&in, &p), 160 + 437.2 + 500 + 498 + 9 + 9, 1e-9);
    in.n_presets = 2; /* they are encoded, measured with the base, and timed */
    CHECK_CLOSE(plan_seconds(&in, &p, PART_PRESETS), 10, 1e-9);
    CHECK_CLOSE(plan_seconds(&in, &p, PART_EVAL), 150, 1e-9);
    in.probe_limit = 100; /* the errors of encoding, 13 s, are always measured */
    CHECK_CLOSE(plan_seconds(&in, &p, PART_PROBES), 100, 1e-9);
    in.probe_limit = 10;
    CHECK_CLOSE(plan_seconds(&in, &p, PART_PROBES), 13, 1e-9);
    in.probe_limit = 0;
    in.done[PART_PROBES] = true;
    in.spent = 1000;
    CHECK_CLOSE(plan_total(&in, &p), 1000 + 160 + 10 + 500 + 498 + 150 + 11 + 11, 1e-9);
}

/* Makes the plan for a time limit and, if `held`, checks that it stays within the limit. */
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
    CHECK(p.mixes && p.feedback && p.probes == PROBES_JOINT && p.probe_windows == 16);
    CHECK(plan_same(&p, &before));
    /* windows of the probes shrink first: 157.2 seconds instead of 175.2, then 78.6 */
    p = at(1600, true);
    CHECK(p.mixes && p.fed_files == 8 && p.eval_windows == 100 && p.probe_windows == 8);
    p = at(1550, true);
    CHECK(p.mixes && p.fed_files == 8 && p.eval_windows == 100 && p.probe_windows == 4);
    /* then windows of the comparison, to 32: 160 + 340.6 + 500 + 498 + 18 = 1516.6, with 50
     * windows 1291.6, with 32 1210.6 */
    p = at(1400, true);
    CHECK(p.feedback && p.fed_files == 8 && p.eval_windows == 50);
    p = at(1250, true);
    CHECK(p.feedback && p.fed_files == 8 && p.eval_windows == 32);
    /* then feedback for the large files: 40 + 4 * 20 + 60 + 4 * 50 instead of 500: 1090.6, then
     * 1030.6, 1000.6 */
    p = at(1110, true);
    CHECK(p.feedback && p.fed_files == 4);
    p = at(1050, true);
    CHECK(p.feedback && p.fed_files == 2);
    p = at(1020, true);
    CHECK(p.feedback && p.fed_files == 1);
    /* then all of it: 100 + 340.6 + 200 + 9 * 16 + 8 * 6 + 18 = 850.6 */
    p = at(900, true);
    CHECK(p.mixes && !p.feedback && !p.fed_files && p.eval_windows == 32);
    /* then more windows: 778.6 with 16, 726.6 with 8 */
    p = at(800, true);
    CHECK(p.mixes && p.eval_windows == 16);
    p = at(750, true);
    CHECK(p.mixes && p.eval_windows == 8);
    /* presets come last: 100 + 40 + 9 * 50 + 18 = 608, with 50 windows 383 */
    p = at(700, true);
    CHECK(!p.mixes && !p.feedback && p.eval_windows == 100);
    p = at(400, true);
    CHECK(!p.mixes && p.eval_windows == 50);
    p = at(1, false);
    CHECK(!p.mixes);
    CHECK_EQ_I64(p.eval_windows, 8);
}

/* Tests the plans that are offered, their descriptions, and the time that the shortest one
 * needs. */
static void test_points(void) {
    static const double seconds[] = {194, 608, 726.6, 1000.6, 1210.6, 1516.6, 1613.2};
    struct plan_in in = numbers();
    struct make_plan p[PLAN_POINTS];
    char s[512];
    CHECK_EQ_I64(plan_points(&in, p), COUNT_OF(seconds));
    for (size_t i = 0; i < COUNT_OF(seconds); i++)
        CHECK_CLOSE(plan_total(&in, &p[i]), seconds[i], 1e-9);
    plan_describe(&in, &p[0], s, sizeof s);
    CHECK_EQ_STR(s, "plain presets; measured on 8 of 100 windows");
    plan_describe(&in, &p[2], s, sizeof s);
    CHECK_EQ_STR(s,
                 "mixes of types from 50 probes, no error feedback; measured on 8 of 100 windows");
    plan_describe(&in, &p[3], s, sizeof s);
    CHECK(strstr(s, "error feedback for the smallest 1 of 8 sizes"));
    plan_describe(&in, &p[6], s, sizeof s);
    CHECK_EQ_STR(s, "everything: mixes of types from 50 probes, error feedback");
    plan_time_needed(&in, &p[0], s);
    CHECK_EQ_STR(s, "214s"); /* 194 and 10 % */
    /* with gradients, mixes without probes take less than presets measured on all windows */
    in.gradients = true;
    CHECK_EQ_I64(plan_points(&in, p), 6);
    CHECK_CLOSE(plan_total(&in, &p[1]), 407, 1e-9);
    plan_describe(&in, &p[3], s, sizeof s);
    CHECK(strstr(s, "from gradients alone, error feedback;"));
    in.spent = 7200;
    plan_time_needed(&in, &p[0], s);
    CHECK_EQ_STR(s, "136m");
    in.spent = 36000;
    plan_time_needed(&in, &p[0], s);
    CHECK_EQ_STR(s, "12h");
}

/* Checks that with gradients, whose windows have their own cost, probes can be left out. */
static void test_gradients(void) {
    struct plan_in in = numbers();
    struct make_plan p;
    in.gradients = true;
    plan_full(&in, &p);
    CHECK(p.probes == PROBES_JOINT && p.probe_windows == 16);
    CHECK_CLOSE(plan_seconds(&in, &p, PART_PROBES), 437.2 + 16 * .5, 1e-9);
    in.limit = 160 + 500 + 498 + 18 + 13 + 249 + 157.2 + 4;
    plan_fit(&in, &p);
    CHECK(p.probes == PROBES_JOINT && p.probe_windows == 8 && p.feedback);
    in.limit = 160 + 500 + 192 + 18 + 13 + 8; /* gradients of 16 windows, no probes */
    plan_fit(&in, &p);
    CHECK(p.probes == PROBES_SLOPES && plan_probes(&in, &p) == 0 && p.fed_files == 8);
    CHECK_CLOSE(plan_total(&in, &p), in.limit, 1e-9);
}

/* Checks that feedback which time drops is reported also without size classes. */
static void test_feedback_alone(void) {
    struct plan_in in = numbers();
    struct make_plan p;
    char s[512];
    in.mixes = false;
    in.n_classes = in.n_sizes = 0;
    in.n_presets = 2;
    plan_full(&in, &p);
    CHECK(p.feedback && !plan_left_out(&in, &p, 0, s, sizeof s));
    in.limit = plan_total(&in, &p) - 1;
    plan_fit(&in, &p);
    CHECK(!p.feedback);
    CHECK(plan_left_out(&in, &p, 0, s, sizeof s) && strncmp(s, "error feedback: it", 18) == 0);
}

/* Checks that block-by-block quantization is dropped first, and that this is reported. */
static void test_sequential(void) {
    struct plan_in in = numbers();
    struct make_plan p;
    char s[512];
    in.sequential = true;
    in.encode_sequential = 80; /* for each of 8 files, which are then compared with 8 more */
    plan_full(&in, &p);
    CHECK(p.sequential);
    CHECK_CLOSE(plan_seconds(&in, &p, PART_LADDER), 8 * 135 + 60, 1e-9);
    in.limit = 2500; /* 1613 without; 640 and 8 * 50 seconds more with */
    plan_fit(&in, &p);
    CHECK(!p.sequential && p.feedback && p.probe_windows == 16);
    CHECK(plan_left_out(&in, &p, 0, s, sizeof s));
    CHECK(strstr(s, "block-by-block encoding") && strstr(s, "17 minutes"));
    CHECK(!plan_left_out(&in, &p, 1, s, sizeof s));
    in.limit = 5200;
    plan_fit(&in, &p);
    CHECK(p.sequential);
    in.n_sizes = 5; /* the other three are those of --budget */
    CHECK_CLOSE(plan_seconds(&in, &p, PART_LADDER), 8 * 55 + 5 * 80 + 60, 1e-9);
    CHECK_CLOSE(plan_seconds(&in, &p, PART_JUDGE), (8 + 5 + 1) * 50 + 8 * 6, 1e-9);
    in.n_sizes = 0;
    plan_full(&in, &p);
    CHECK(p.mixes && !p.sequential);
    in.n_sizes = 8;
    in.mixes = false; /* presets are made in one pass over the source */
    plan_full(&in, &p);
    CHECK(!p.sequential);
}

/* Checks that files of --budget all get feedback, or none does, and that none is made without
 * mixes. */
static void test_budgets(void) {
    struct plan_in in = numbers();
    struct make_plan all[PLAN_STEPS], p;
    char s[512];
    in.n_classes = 4;
    in.n_sizes = 1;
    const int n = plan_steps(&in, all);
    for (int i = 0; i < n; i++) CHECK(all[i].fed_files != 1 && all[i].fed_files != 2);
    /* four files with feedback: 100 + 60 + 437.2 + 60 + 4 * 55 + 50 * 5 + 4 * 6 + 10; 4 probe
     * windows: 96.6 less; 32 windows: 34 * 5 less */
    CHECK_CLOSE(plan_total(&in, &all[0]), 1161.2, 1e-9);
    in.limit = 880; /* the class without it: 30 less */
    plan_fit(&in, &p);
    CHECK_EQ_I64(p.fed_files, 3);
    CHECK_CLOSE(plan_total(&in, &p), 864.6, 1e-9);
    plan_describe(&in, &p, s, sizeof s);
    CHECK(strstr(s, "error feedback for --budget only"));
    CHECK(plan_left_out(&in, &p, 1, s, sizeof s));
    CHECK(strstr(s, "for the 1 largest of 1 files"));
    in.n_classes = 11, in.n_sizes = 8;
    p.fed_files = 7;
    plan_describe(&in, &p, s, sizeof s);
    CHECK(strstr(s, "for the smallest 4 of 8 sizes and for --budget"));
    /* presets: the sizes alone are encoded, measured with the base, timed and hashed */
    in.limit = 1;
    plan_fit(&in, &p);
    CHECK_CLOSE(plan_total(&in, &p), 100 + 8 * 5 + 9 * 8 * .5 + 9 + 9, 1e-9);
    CHECK(plan_left_out(&in, &p, 0, s, sizeof s));
    CHECK(strstr(s, "are plain presets, no files of --budget are made; they would"));
    in.n_classes = 3, in.n_sizes = 0;
    CHECK(plan_left_out(&in, &p, 0, s, sizeof s) && strstr(s, "error feedback: no files of"));
}

/* Checks that the list of plans ends with the shortest one, however many windows there are. */
static void test_many_windows(void) {
    struct plan_in in = numbers();
    struct make_plan all[PLAN_STEPS];
    in.sequential = in.gradients = true;
    in.n_classes = in.n_sizes = INT32_MAX;
    in.eval_windows = INT64_MAX;
    const int n = plan_steps(&in, all);
    CHECK(n < PLAN_STEPS && !all[n - 1].mixes);
    CHECK_EQ_I64(all[n - 1].eval_windows, 8);
}

/* Checks that more time never leaves more out. */
static void test_monotone(void) {
    struct make_plan a = at(1, false);
    for (double limit = 10; limit < 5000; limit *= 1.02) {
        struct make_plan b = at(limit, limit > 250);
        CHECK(b.eval_windows >= a.eval_windows || b.mixes > a.mixes);
        CHECK(b.mixes >= a.mixes && b.feedback >= a.feedback && b.fed_files >= a.fed_files);
        a = b;
    }
    CHECK(a.mixes && a.feedback && a.probe_windows == 16);
}

static void test_words(void) {
    struct plan_in in = numbers();
    struct make_plan p;
    char s[512];
    plan_full(&in, &p);
    CHECK(!plan_left_out(&in, &p, 0, s, sizeof s));
    in.limit = 1600; /* 8 windows of single probes, 4.5 passes: 18 seconds less */
    plan_fit(&in, &p);
    CHECK(plan_left_out(&in, &p, 0, s, sizeof s));
    CHECK_EQ_STR(
        s, "8 of the 16 windows of 50 sensitivity probes: all of them would take 18 seconds more");
    CHECK(!plan_left_out(&in, &p, 1, s, sizeof s));
    in.limit = 1110; /* 4 of 8 files: 30 each */
    plan_fit(&in, &p);
    CHECK(plan_left_out(&in, &p, 1, s, sizeof s));
    CHECK_EQ_STR(s, "error feedback for the 4 largest of 8 files: it would take 2 minutes more");
    CHECK(plan_left_out(&in, &p, 2, s, sizeof s) && strstr(s, "68 of 100 evaluation windows"));
    in.limit = 1000;
    plan_fit(&in, &p);
    CHECK(plan_left_out(&in, &p, 1, s, sizeof s) && strstr(s, "error feedback: it would take"));
    in.gradients = true;
    plan_fit(&in, &p);
    CHECK(plan_left_out(&in, &p, 0, s, sizeof s));
    CHECK(strstr(s, "50 sensitivity probes (gradients alone choose the types): they would take"));
    in.gradients = false;
    in.limit = 400;
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

/* Checks that memory is considered before time, and that each message names a sufficient size. */
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
    /* if time would leave it out too, time is the reason */
    in.limit = 400;
    plan_fit(&in, &p);
    CHECK(!plan_no_memory(&in, 0, s, sizeof s));
    CHECK(plan_left_out(&in, &p, 0, s, sizeof s) && strstr(s, "they would take"));
}

/* Checks that a time limit that even presets exceed is reported. */
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
    v.n_windows = 16, v.of = 100;
    CHECK(!ladder_verdict(&v, why, sizeof why) && strstr(why, ", clear after 16 of 100 windows"));
    v.p999 = .01;
    v.diff = .00001;
    CHECK(!ladder_verdict(&v, why, sizeof why) && strstr(why, "not lower"));
    CHECK_EQ_STR(ladder_find("q4_k_m"), "Q4_K_M");
    CHECK(!ladder_find("Q4_0"));
    CHECK_EQ_STR(recipe_ladder(0), "Q8_0");
    CHECK(!recipe_ladder(8));
}

/* Returns the class that is made instead of a class, or its own name. */
static const char *made_as(const struct size_class *v, int n, const char *name) {
    for (int i = 0; i < n; i++)
        if (strcmp(v[i].name, name) == 0) return v[i].same ? v[i].same : name;
    return "";
}

static void test_classes(void) {
    /* Qwen2.5-Coder 0.5B, with rows of 896 weights: two presets of one size, and one larger than
     * the one above it */
    struct size_class coder[] = {{.name = "IQ4_XS", .bytes = 428021280},
                                 {.name = "Q3_K_M", .bytes = 432042528},
                                 {.name = "IQ3_S", .bytes = 415183392},
                                 {.name = "Q2_K", .bytes = 415183392}};
    ladder_order(coder, 4);
    CHECK_EQ_STR(coder[0].name, "Q3_K_M");
    CHECK_EQ_STR(coder[1].name, "IQ4_XS");
    CHECK_EQ_STR(made_as(coder, 4, "IQ3_S"), "Q2_K");
    CHECK(!coder[0].same && !coder[1].same && !coder[3].same);
    /* a model on a grid of four bits */
    struct size_class qat[] = {{.name = "Q8_0", .bytes = 2010},
                               {.name = "Q6_K", .bytes = 2009},
                               {.name = "Q5_K_M", .bytes = 2004},
                               {.name = "Q4_K_M", .bytes = 2000},
                               {.name = "Q3_K_M", .bytes = 1600}};
    ladder_order(qat, 5);
    for (int i = 0; i < 3; i++) CHECK_EQ_STR(qat[i].same, "Q4_K_M");
    CHECK(!qat[3].same && !qat[4].same);
    /* names in any order; a size that is near only a class that is not made */
    struct size_class any[] = {{.name = "Q2_K", .bytes = 500},
                               {.name = "Q5_K_M", .bytes = 992},
                               {.name = "Q4_K_M", .bytes = 1000},
                               {.name = "Q8_0", .bytes = 996}};
    ladder_order(any, 4);
    CHECK_EQ_STR(any[0].name, "Q4_K_M");
    CHECK_EQ_STR(any[3].name, "Q2_K");
    CHECK_EQ_STR(made_as(any, 4, "Q8_0"), "Q4_K_M");
    CHECK_EQ_STR(made_as(any, 4, "Q5_K_M"), "Q5_K_M");
}

int main(void) {
    RUN(test_sums);
    RUN(test_order);
    RUN(test_gradients);
    RUN(test_points);
    RUN(test_feedback_alone);
    RUN(test_sequential);
    RUN(test_budgets);
    RUN(test_many_windows);
    RUN(test_monotone);
    RUN(test_words);
    RUN(test_memory);
    RUN(test_too_long);
    RUN(test_verdict);
    RUN(test_classes);
    return check_done();
}
