// SPDX-License-Identifier: MIT
/* tests/unit/test_make_estimate.c - forecast times from round rates. Expected values:
 * tests/oracle/make_estimate.py. */
#include "make/machines.h"
#include "tests/check.h"

/* A dense matrix, 6144 columns in blocks of 2048, pooled experts, experts with their own moments,
 * and rows that fit only blocks of 32. */
static struct recipe_item items[] = {
    {.name = "a", .role = ROLE_FFN_GATE, .quant = true, .ne = {2048, 1024, 1, 1}},
    {.name = "b", .role = ROLE_FFN_DOWN, .quant = true, .ne = {6144, 100, 1, 1}},
    {.name = "c", .role = ROLE_EXP_GATE, .quant = true, .ne = {2048, 512, 256, 1}},
    {.name = "d", .role = ROLE_EXP_DOWN, .quant = true, .ne = {256, 64, 8, 1}},
    {.name = "e", .role = ROLE_ATTN_Q, .quant = true, .ne = {896, 896, 1, 1}},
    {.name = "f", .role = ROLE_ATTN_K, .quant = true, .ne = {896, 128, 1, 1}},
    {.name = "norm", .role = ROLE_OTHER, .ne = {896, 1, 1, 1}}};
static const struct shapes model = {
    .item = items, .n = COUNT_OF(items), .base_bytes = 6000000000, .active = 5e8};

/* Returns rates: every type takes 1 ns per weight, grid types 100; errors fall with the type's
 * bits. */
static struct rates rates(void) {
    struct rates r = {.window = 20,
                      .pass_token = .04,
                      .calib_token = .05,
                      .gram_token = .1,
                      .calib_tokens = 10240,
                      .eval_tokens = 20480,
                      .probe_tokens = 5120};
    for (int t = 0; t < QT_COUNT; t++) {
        if (!qtype_info(t)) continue;
        const bool grid = fed_kind((enum qtype)t) == FED_GRIDS;
        r.speeds.encode[t] = grid ? 100e-9 : 1e-9;
        r.speeds.error[t] = pow(4, -qtype_bpw((enum qtype)t));
    }
    r.speeds.bandwidth = 40e9;
    r.speeds.product = 2e11;
    /* At 512 and 2048 columns: choices and factors are quadratic or cubic, weights linear. */
    const struct fed_speed at[FED_KINDS][2] = {
        {{.choose = .01, .factors = .02, .factor = .005, .weight = 1e-6},
         {.choose = .16, .factors = 1.28, .factor = .32, .weight = 2.5e-6}},
        {{.choose = .02, .weight = 4e-6}, {.choose = .32, .weight = 5.5e-6}},
        {{.choose = .005, .weight = .8e-6}, {.choose = .08, .weight = 2.3e-6}}};
    memcpy(r.speeds.fed, at, sizeof at);
    return r;
}

static void test_interpolation(void) {
    const struct rates r = rates();
    const struct speeds *s = &r.speeds;
    CHECK_CLOSE(fed_weight(s, FED_CODES, 1024), 1.5e-6, 1e-15);
    CHECK_CLOSE(fed_weight(s, FED_NARROW, 896), 1.175e-6, 1e-15);
    CHECK_CLOSE(fed_weight(s, FED_CODES, 64), .5625e-6, 1e-15);
    CHECK_CLOSE(fed_choose(s, FED_GRIDS, 1024), .08, 1e-9); /* quadratic */
    CHECK_CLOSE(fed_factor(s, 1024), .04, 1e-9);            /* cubic */
    CHECK_CLOSE(fed_factors(s, 4096), 8 * 1.28, 1e-9);
}

static void test_parts(void) {
    const char *name[] = {"Q4_K_M"};
    const struct str_list one = {.v = name, .n = 1};
    struct estimate_opts o = {.files = {&one},
                              .calib_ctx = 512,
                              .eval_ctx = 512,
                              .eval_chunks = 100,
                              .pp = 512,
                              .tg = 64,
                              .reps = 3,
                              .tools_cases = 12,
                              .convert = true};
    struct plan_in in = {.n_classes = 8};
    const struct rates r = rates();
    estimate(&in, &r, &model, &o);
#include "tests/golden/make_estimate.inc"
    CHECK_EQ_I64(in.layers[ROLE_FFN_GATE], 1);
    CHECK_EQ_I64(in.probe_windows, 10);
    CHECK_EQ_I64(in.eval_windows, 40);
    const double plain = in.encode_sequential;
    in.gradients = true; /* 20 chunks of 512 tokens, five passes each */
    estimate(&in, &r, &model, &o);
    CHECK_CLOSE(in.encode_sequential - plain, 20 * 512 * 5 * r.pass_token, 1e-6);
    struct rates card = r; /* it runs the passes for importance, but not those of blocks */
    card.calib_token = 1e-4;
    card.gram_token = 0;
    card.pass_token = r.calib_token;
    estimate(&in, &card, &model, &o);
    CHECK_CLOSE(in.encode_sequential - plain, 20 * 512 * (5 - 3) * r.calib_token, 1e-6);
    estimate(&in, &r, &model, &o);
    name[0] = "Q2_K"; /* learns: five passes by block, five of the file, one of the base */
    estimate(&in, &r, &model, &o);
    CHECK(plan_learns("Q2_K") && plan_learns("Q3_K_M") && !plan_learns("IQ4_XS"));
    const double learned = in.encode_sequential;
    name[0] = "Q4_K_M";
    estimate(&in, &r, &model, &o);
    CHECK_CLOSE(learned - in.encode_sequential, 20 * 512 * 11 * r.pass_token, 1e-6);
    const double at_0 = in.speed; /* each depth repeats the tests after a prompt of its length */
    o.n_depths = 3;
    o.depth_tokens = 6000;
    estimate(&in, &r, &model, &o);
    CHECK_CLOSE(in.speed - 3 * at_0, 6000 * .6 * r.window / 512, 1e-9);
    o.n_depths = o.depth_tokens = 0;
    in.gradients = false;
    o.convert = false;
    o.tools_cases = 0;
    o.calib_chunks = 4;
    estimate(&in, &r, &model, &o);
    CHECK_CLOSE(in.convert, 0, 0);
    CHECK_CLOSE(in.tools, 0, 0);
    CHECK_CLOSE(in.imatrix, 5 * 512 * .05, 1e-9);
    o.questions = 3;
    o.tower_bytes = 4e8;
    estimate(&in, &r, &model, &o);
    const double texts = in.images;
    o.image_tokens = 5000; /* 2e8 weights, each multiplied with every patch */
    o.image_patches = 20000;
    estimate(&in, &r, &model, &o);
    CHECK_CLOSE(in.images - texts, 5000 * r.window / 512 + 2 * 2e8 * 20000 / r.speeds.product / 3,
                1e-6);
}

/* Tests guessed rates: 1.3 passes of 2 operations per active weight. */
static void test_guess(void) {
    struct rates r = rates();
    const struct estimate_opts o = {.calib_ctx = 512, .eval_ctx = 1024};
    r.disk = 1e9;
    rates_guess(&r, &model, &o);
    CHECK_CLOSE(r.calib_token, .0065, 1e-12);
    CHECK_CLOSE(r.pass_token, .0065, 1e-12);
    CHECK_CLOSE(r.window, 6.656, 1e-9);
    CHECK_CLOSE(r.reread, 0, 0); /* the memory is unknown */
    r.memory = 2e9;
    rates_guess(&r, &model, &o);
    CHECK_CLOSE(r.window, 6.656, 1e-9);
    CHECK_CLOSE(r.reread, 4, 1e-9);
    r.memory = 8e9;
    rates_guess(&r, &model, &o);
    CHECK_CLOSE(r.reread, 0, 0);
    struct shapes with_head = model; /* 1e8 of the 5e8 weights, for half of the rows */
    with_head.n_vocab = 100000;
    with_head.n_embd = 1000;
    rates_guess(&r, &with_head, &o);
    CHECK_CLOSE(r.window, 6.656 * .9, 1e-9);
    CHECK_CLOSE(r.pass_token, .0065, 1e-12);
}

/* Tests the time to read weights again: 4 s of the base, in windows of 20 s. */
static void test_reread(void) {
    const char *name[] = {"Q8_0"}; /* 2.8e8 weights at 8.5 bits: .3 GB */
    const struct str_list one = {.v = name, .n = 1};
    struct estimate_opts o = {
        .files = {&one}, .calib_ctx = 512, .eval_ctx = 1024, .eval_chunks = 100};
    struct plan_in in[2] = {{.n_classes = 1, .gradients = true},
                            {.n_classes = 1, .gradients = true}};
    struct shapes wide = model;
    struct rates r = rates();
    wide.n_embd = 2048;
    estimate(&in[0], &r, &wide, &o);
    r.memory = 8e9;
    r.disk = 1e9;
    r.reread = 4;
    estimate(&in[1], &r, &wide, &o);
    /* A chunk with moments is fed alone, and its gradients read the base twice; 20 chunks and the
     * survey. Without them, 8e9 / 16 bytes hold three copies of 39 chunks of 4 MiB. */
    const double chunks = 21;
    CHECK_CLOSE(in[1].imatrix - in[0].imatrix, chunks * 4 / 20, 1e-9);
    CHECK_CLOSE(in[1].imatrix + in[1].gram - in[0].imatrix - in[0].gram, chunks * 8, 1e-6);
    /* Seven sessions of probes hold five windows each, in two passes of the first eight. */
    CHECK_CLOSE(in[1].pass_window - in[0].pass_window, 4. / 5, 1e-9);
    CHECK_CLOSE(in[1].slope_window - in[0].slope_window, 8, 1e-9);
    CHECK_CLOSE(in[1].eval_window, in[0].eval_window, 1e-9); /* files fit */
    /* Three passes over each block, and 20 windows of gradients, read twice. */
    CHECK_CLOSE(in[1].encode_sequential - in[0].encode_sequential, 3 * 4 + 20 * 8, 1e-6);
    r.memory = 2e8; /* 12.5 MB hold no window: two in a pass of 2048 tokens */
    double n = 0;
    for (int64_t i = 0; i < wide.n; i++)
        n += (double)(items[i].ne[0] * items[i].ne[1] * items[i].ne[2]) * 8.5 / 8;
    estimate(&in[1], &r, &wide, &o);
    CHECK_CLOSE(in[1].eval_window - in[0].eval_window, (n - 2e8) / 1e9 / 2, 1e-9);
    r.disk = 1e6;
    r.window = 1800; /* only one window runs in an hour */
    estimate(&in[1], &r, &wide, &o);
    CHECK_CLOSE(in[1].eval_window - 1800, (n - 2e8) / 1e6, 1e-6);
}

/* Checks that a machine's recorded speeds are read as written, and only for the same instruction
 * set and threads. */
static void test_record(void) {
    const struct rates r = rates();
    struct speeds s, half;
    char *text = speeds_text(&r.speeds, "avx2", 2);
    CHECK(speeds_read(&s, text, "avx2", 2));
    CHECK(memcmp(&s, &r.speeds, sizeof s) == 0);
    CHECK(!speeds_read(&s, text, "avx512", 2) && !speeds_read(&s, text, "avx2", 16));
    text[strlen(text) - 1] = '9'; /* more text than expected */
    CHECK(!speeds_read(&s, text, "avx2", 2));
    text[strlen(text) / 2] = 0;
    CHECK(!speeds_read(&s, text, "avx2", 2) && !speeds_read(&s, "", "avx2", 2));
    free(text);
    half = speeds_scaled(&r.speeds, .5); /* a busy machine takes twice as long */
    CHECK_CLOSE(half.product, 1e11, 1);
    CHECK_CLOSE(half.fed[FED_CODES][1].weight, 5e-6, 1e-15);
    CHECK_CLOSE(fed_factors(&half, 2048), 2.56, 1e-9);
    CHECK_CLOSE(half.error[0], r.speeds.error[0], 0);
}

/* Checks that a card runs passes for the weights that it holds, and error feedback of one code per
 * weight if the model has no experts. */
static void test_machines(void) {
    const struct machine_row m = {"card", 16, 3e9, 2e12, .5e-9, 4e9, 2e9, 1e-8},
                             none = {"card", 16, 3e9, 2e12, .5e-9, 4e9, 2e9, 0};
    const struct estimate_opts o = {.calib_ctx = 512, .eval_ctx = 1024};
    const struct rates r = rates();
    struct rates out;
    struct shapes dense = model, experts = model;
    dense.model.experts = 0;
    experts.model.experts = 64;
    machine_rates(&none, &r, &r.speeds, 2, &dense, &o, &out);
    CHECK_CLOSE(fed_weight(&out.speeds, FED_CODES, 2048), 2.5e-6 / 8, 1e-15);
    machine_rates(&m, &r, &r.speeds, 2, &experts, &o, &out);
    CHECK_CLOSE(fed_weight(&out.speeds, FED_CODES, 2048), 2.5e-6 / 8, 1e-15);
    const double grids = fed_weight(&out.speeds, FED_GRIDS, 2048);
    machine_rates(&m, &r, &r.speeds, 2, &dense, &o, &out);
    CHECK_CLOSE(out.speeds.product, 1.6e12, 1);
    CHECK_CLOSE(fed_weight(&out.speeds, FED_CODES, 2048), 1e-8, 1e-15);
    CHECK_CLOSE(fed_weight(&out.speeds, FED_NARROW, 512), 1e-8, 1e-15);
    CHECK_CLOSE(fed_weight(&out.speeds, FED_GRIDS, 2048), grids, 1e-15);
    /* half of the base is on the card: 1.3e9 operations per token at 2e12; the other half takes
     * 1.3e9 / 1.6e12 on the processor, and 2 GB are read at 2 GB/s */
    CHECK_CLOSE(out.window, 1024 * .5 * .00065 + .5 * 1024 * .0008125, 1e-9);
    CHECK_CLOSE(out.calib_token, .5 * .00065 + .5 * .0008125, 1e-12);
    CHECK_CLOSE(out.pass_token, .0008125, 1e-12);
    CHECK_CLOSE(out.reread, 1, 1e-12);
    dense.gradients = true; /* then calibration stays on the processor */
    machine_rates(&m, &r, &r.speeds, 2, &dense, &o, &out);
    struct rates guess = out;
    rates_guess(&guess, &dense, &o);
    CHECK_CLOSE(out.gram_token - guess.gram_token, .5 * (.0008125 - .00065), 1e-12);
    dense.gradients = false;
    bool grid = false;
    for (int t = 0; t < QT_COUNT; t++) {
        if (!qtype_info(t)) continue;
        grid |= fed_kind((enum qtype)t) == FED_GRIDS;
        CHECK_CLOSE(out.speeds.encode[t], fed_kind((enum qtype)t) == FED_GRIDS ? .5e-9 : .125e-9,
                    1e-18);
    }
    CHECK(grid);
    CHECK_EQ_I64(out.calib_tokens, r.calib_tokens);
    CHECK(machine_at(0) && !machine_at(4));
    /* This machine's threads with the fastest card: 1.3e9 operations per token at 2.6e13. */
    struct rates here = r;
    here.disk = 2e9;
    here.memory = 8e9;
    machine_with_card(127e9, &here, 2, &dense, &o, &out);
    CHECK_CLOSE(out.calib_token, 5e-5, 1e-15);
    CHECK_CLOSE(out.pass_token, .0065, 1e-12);
    CHECK_CLOSE(fed_weight(&out.speeds, FED_GRIDS, 2048), 5.5e-6, 1e-15);
}

int main(void) {
    RUN(test_machines);
    RUN(test_record);
    RUN(test_interpolation);
    RUN(test_parts);
    RUN(test_guess);
    RUN(test_reread);
    return check_done();
}
