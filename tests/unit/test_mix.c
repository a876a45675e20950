// SPDX-License-Identifier: MIT
/* tests/unit/test_mix.c - the solver: small problems compared with all combinations, and large
 * ones, which must be solved exactly with a small gap. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "mix/mix.h"
#include "tests/check.h"

enum { MAX_G = 300, MAX_O = 12 };
static struct mix_opt opt[MAX_G][MAX_O];
static struct mix_group group[MAX_G];

static uint64_t state = 12345;
static double uni(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 11) * 0x1p-53;
}

static void brute(int g, int n, uint64_t bytes, double loss, uint64_t budget, double *best) {
    if (bytes > budget) return;
    if (g == n) {
        if (loss < *best) *best = loss;
        return;
    }
    for (int k = 0; k < group[g].n_opts; k++)
        brute(g + 1, n, bytes + opt[g][k].bytes, loss + opt[g][k].loss, budget, best);
}

static void test_brute(void) {
    int solved = 0;
    for (int t = 0; t < 200; t++) {
        int n = 1 + (int)(uni() * 7);
        uint64_t least = 0, most = 0;
        for (int g = 0; g < n; g++) {
            group[g] = (struct mix_group){opt[g], 1 + (int)(uni() * 5)};
            uint64_t lo = UINT64_MAX, hi = 0;
            for (int k = 0; k < group[g].n_opts; k++) {
                /* arbitrary on purpose: dominated options, equal sizes, zero losses */
                opt[g][k].bytes = 32 * (1 + (uint64_t)(uni() * (t % 3 ? 1000 : 5)));
                opt[g][k].loss = uni() < 0.1 ? 0 : uni();
                if (opt[g][k].bytes < lo) lo = opt[g][k].bytes;
                if (opt[g][k].bytes > hi) hi = opt[g][k].bytes;
            }
            least += lo;
            most += hi;
        }
        uint64_t budget = least + (uint64_t)(uni() * (double)(most - least + 1));
        double best = HUGE_VAL;
        struct mix_result r;
        struct err e;
        brute(0, n, 0, 0, budget, &best);
        CHECK(mix_solve(&r, group, n, budget, &e) == 0);
        uint64_t bytes = 0;
        double loss = 0;
        for (int g = 0; g < n; g++) {
            bytes += opt[g][r.pick[g]].bytes;
            loss += opt[g][r.pick[g]].loss;
        }
        CHECK(bytes == r.bytes && bytes <= budget);
        CHECK(fabs(loss - r.loss) <= 1e-12);
        CHECK(fabs(r.loss - best) <= 1e-9);
        CHECK(r.bound <= best + 1e-12 && r.gap >= 0 && r.exact);
        solved += fabs(r.loss - best) <= 1e-9;
        mix_release(&r);
        if (least > 0) {
            CHECK(mix_solve(&r, group, n, least - 1, &e) == ERR_USAGE);
            mix_release(&r);
        }
    }
    CHECK(solved == 200);
}

/* Tests sizes and losses like those of a model: bits per weight of 12 types, losses that fall by a
 * factor of 4 per bit with 20 % noise, sensitivities over three decades. */
static void test_large(void) {
    static const double bpw[MAX_O] = {2.0625, 2.5625, 2.625, 3.0625, 3.4375, 3.4375,
                                      4.25,   4.5,    5.5,   6.5625, 8.5,    16};
    uint64_t most = 0;
    for (int g = 0; g < MAX_G; g++) {
        double s = exp(7 * uni()), weights = 256 * floor(exp(4 + 8 * uni()));
        for (int k = 0; k < MAX_O; k++) {
            opt[g][k].bytes = ((uint64_t)(weights * bpw[k] / 8) + 31) / 32 * 32;
            opt[g][k].loss = s * exp2(-2 * bpw[k]) * (0.8 + 0.4 * uni());
        }
        group[g] = (struct mix_group){opt[g], MAX_O};
        most += opt[g][MAX_O - 1].bytes;
    }
    for (int i = 0; i < 4; i++) {
        struct mix_result r;
        struct err e;
        CHECK(mix_solve(&r, group, MAX_G, (uint64_t)((double)most * (0.2 + 0.1 * i)), &e) == 0);
        CHECK(r.gap >= 0 && r.gap <= 1e-3 * r.loss);
        CHECK(r.exact);
        mix_release(&r);
    }
}

int main(void) {
    RUN(test_brute);
    RUN(test_large);
    return check_done();
}
