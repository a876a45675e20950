// SPDX-License-Identifier: MIT
/* tests/unit/test_select.c - selection of documents, compared with a plain greedy algorithm that
 * recomputes everything each time, with all subsets, and with numbers worked out manually. */
#include "calib/select.h"

#include <stdbool.h>

#include "tests/check.h"

enum { MAX_DOCS = 40, MAX_CELLS = 700 };
static uint32_t count[MAX_DOCS][MAX_CELLS];
static int64_t n_tokens[MAX_DOCS], n_docs, n_cells;

static uint64_t state = 7;
static double uni(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 11) * 0x1p-53;
}

static void draw(struct sel *s, int trial) {
    struct err e;
    n_docs = 1 + (int64_t)(uni() * (trial % 5 ? 12 : MAX_DOCS));
    n_cells = 1 + (int64_t)(uni() * (trial % 3 ? 20 : MAX_CELLS));
    const double density = uni(), most = trial % 4 ? 300 : 3e6; /* varints of several bytes */
    sel_init(s, n_cells);
    for (int64_t d = 0; d < n_docs; d++) {
        n_tokens[d] = 1 + (int64_t)(uni() * (trial % 2 ? 500 : 3)); /* ties in cost, too */
        for (int64_t c = 0; c < n_cells; c++)
            count[d][c] = uni() < density ? (uint32_t)(uni() * most) : 0;
        if (d > 0 && uni() < .2) { /* a copy of the previous one */
            n_tokens[d] = n_tokens[d - 1];
            memcpy(count[d], count[d - 1], sizeof count[d]);
        }
        CHECK_OK(sel_add(s, n_tokens[d], count[d], &e));
    }
}

/* Returns the worth as defined in the header, from the dense counts. */
static double worth(const double *have, const bool *in) {
    double sum = 0;
    for (int64_t c = 0; c < n_cells; c++) {
        double n = have[c];
        for (int64_t d = 0; d < n_docs; d++) n += in[d] ? count[d][c] : 0;
        sum += n / (n + 256);
    }
    return sum;
}

static double plain_gain(const double *have, bool *in, int64_t d) {
    const double was = worth(have, in);
    in[d] = true;
    const double is = worth(have, in);
    in[d] = false;
    return is - was;
}

static void check_order(const double *have, const struct sel_pick *pick, int64_t n_picks,
                        int64_t budget, int trial) {
    bool in[MAX_DOCS] = {false};
    int64_t left = budget;
    for (int64_t i = 0; i <= n_picks; i++) {
        double best = 0;
        for (int64_t d = 0; d < n_docs; d++) {
            if (in[d] || n_tokens[d] > left) continue;
            const double g = plain_gain(have, in, d) / (double)n_tokens[d];
            if (g > best) best = g;
        }
        if (i == n_picks) { /* no document that gains more than rounding error was left out */
            CHECK(best <= 1e-9);
            break;
        }
        const int64_t p = pick[i].doc;
        if (p < 0 || p >= n_docs || in[p] || n_tokens[p] > left) {
            CHECK_FAIL("trial %d: pick %d is document %d", trial, (int)i, (int)p);
            return;
        }
        const double gain = plain_gain(have, in, p);
        CHECK_CLOSE(pick[i].gain, gain, 1e-9);
        CHECK(gain / (double)n_tokens[p] >= best - 1e-9);
        for (int64_t d = 0; d < p; d++) /* of equal documents, the first */
            CHECK(in[d] || n_tokens[d] != n_tokens[p] ||
                  memcmp(count[d], count[p], (size_t)n_cells * sizeof **count) != 0);
        in[p] = true;
        left -= n_tokens[p];
    }
}

static void test_equals_plain_greedy(void) {
    int64_t longest = 0;
    for (int t = 0; t < 300; t++) {
        struct sel s;
        struct sel_pick *pick;
        double have[MAX_CELLS], tokens[MAX_CELLS];
        int64_t sum = 0;
        draw(&s, t);
        for (int64_t c = 0; c < n_cells; c++)
            tokens[c] = have[c] = uni() < .3 ? 0 : floor(uni() * 999);
        for (int64_t d = 0; d < n_docs; d++) sum += n_tokens[d];
        const int64_t budget = 1 + (int64_t)(uni() * 1.2 * (double)sum);
        const int64_t n = sel_greedy(&s, budget, tokens, &pick);
        if (n != 1) check_order(have, pick, n, budget, t); /* 1: may be the single best document */
        if (n > longest) longest = n;
        for (int64_t i = 0; i < n; i++)
            for (int64_t c = 0; c < n_cells; c++) have[c] += count[pick[i].doc][c];
        CHECK(memcmp(have, tokens, (size_t)n_cells * sizeof *have) == 0); /* whole numbers */
        free(pick);
        sel_release(&s);
    }
    CHECK(longest > 20);
}

/* Checks that the result is at least (1 - 1/e)/2 of the best subset: the bound of Leskovec et al.
 * for the better of cost-greedy and the best single document. In practice it is far above. */
static void test_near_all_subsets(void) {
    double least = 1;
    for (int t = 0; t < 60; t++) {
        struct sel s;
        struct sel_pick *pick;
        double have[MAX_CELLS] = {0}, tokens[MAX_CELLS] = {0}, best = 0;
        int64_t sum = 0;
        do {
            draw(&s, t);
            if (n_docs <= 9 && n_cells <= 40) break;
            sel_release(&s);
        } while (true);
        for (int64_t d = 0; d < n_docs; d++) sum += n_tokens[d];
        const int64_t budget = 1 + (int64_t)(uni() * (double)sum);
        for (unsigned set = 0; set < 1u << n_docs; set++) {
            bool in[MAX_DOCS] = {false};
            int64_t cost = 0;
            for (int64_t d = 0; d < n_docs; d++)
                if ((in[d] = set >> d & 1)) cost += n_tokens[d];
            const double w = cost <= budget ? worth(have, in) : 0;
            if (w > best) best = w;
        }
        sel_greedy(&s, budget, tokens, &pick);
        free(pick);
        const double got = sel_worth(tokens, n_cells);
        CHECK(got <= best * (1 + 1e-12));
        CHECK(got >= .5 * (1 - exp(-1)) * best);
        if (best > 0 && got / best < least) least = got / best;
        sel_release(&s);
    }
    CHECK(least > .5 && least <= 1 + 1e-12);
}

/* Tests one token worth 1/257 that keeps out a hundred worth 25600/25856: the single document must
 * win. */
static void test_single_document(void) {
    struct err e;
    struct sel s;
    struct sel_pick *pick;
    double tokens[2] = {0, 0};
    const uint32_t small[] = {4, 0}, large[] = {0, 256};
    sel_init(&s, 2);
    CHECK_OK(sel_add(&s, 1, small, &e));
    CHECK_OK(sel_add(&s, 100, large, &e));
    CHECK_EQ_I64(sel_greedy(&s, 100, tokens, &pick), 1);
    CHECK_EQ_I64(pick[0].doc, 1);
    CHECK(tokens[0] == 0 && tokens[1] == 256);
    CHECK_CLOSE(pick[0].gain, .5, 1e-15);
    free(pick);
    tokens[1] = 0;
    CHECK_EQ_I64(sel_greedy(&s, 101, tokens, &pick), 2);
    CHECK(pick[0].doc == 0 && pick[1].doc == 1);
    free(pick);
    tokens[0] = tokens[1] = 0;
    CHECK_EQ_I64(sel_greedy(&s, 0, tokens, &pick), 0);
    free(pick);
    sel_release(&s);
}

/* Tests the largest counts and gaps, an empty document, and more than a block of counts. */
static void test_extremes(void) {
    enum { CELLS = 30720, DOCS = 30 }; /* 512 experts, 60 layers */
    struct err e;
    struct sel s;
    uint32_t *c = calloc(CELLS, sizeof *c);
    double *tokens = calloc(CELLS, sizeof *tokens), *want = calloc(CELLS, sizeof *want);
    sel_init(&s, CELLS);
    for (int d = 0; d < DOCS; d++) {
        memset(c, 0, CELLS * sizeof *c);
        if (d % 3 == 1) c[0] = c[CELLS - 1] = UINT32_MAX;
        for (int i = 0; d % 3 == 2 && i < CELLS; i++) c[i] = (uint32_t)(uni() * 4e9);
        for (int i = 0; i < CELLS; i++) want[i] += c[i];
        CHECK_OK(sel_add(&s, 512, c, &e));
    }
    CHECK(s.n_blocks > 1);
    CHECK(s.n_blocks < DOCS); /* several documents share one */
    for (int d = 0; d < DOCS; d++) sel_count(&s, d, tokens);
    CHECK(memcmp(tokens, want, CELLS * sizeof *want) == 0);
    CHECK(sel_gain(&s, 0, tokens) == 0);
    memset(tokens, 0, CELLS * sizeof *tokens);
    memset(want, 0, CELLS * sizeof *want);
    sel_random(&s, 512 * 7, 3, tokens);
    sel_random(&s, 512 * 7, 3, want);
    CHECK(memcmp(tokens, want, CELLS * sizeof *want) == 0);
    free(c);
    free(tokens);
    free(want);
    sel_release(&s);
}

int main(void) {
    RUN(test_equals_plain_greedy);
    RUN(test_near_all_subsets);
    RUN(test_single_document);
    RUN(test_extremes);
    return check_done();
}
