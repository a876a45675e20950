// SPDX-License-Identifier: MIT
/* tests/unit/test_fit.c - placement of a model's layers and experts, from sizes alone: several
 * cards, unequal memory, files larger than memory. No device is queried. The sizes are those of a
 * made-up model, so each expected number is a sum that can be checked by eye. */
#include <string.h>

#include "runtime/engine/cuda/fit.h"
#include "tests/check.h"

enum { LAYERS = 10, MIB = 1 << 20 };

/* A model whose layers all have the same sizes. Every layer has experts. */
struct model {
    uint64_t dense, experts; /* MiB per layer */
    uint64_t head;           /* MiB, placed with the last layer */
    uint64_t per_token;      /* KiB of card memory per token of a pass */
    uint64_t copy;           /* MiB of card memory for copies of experts */
    uint8_t want[LAYERS];
    bool refuse;
    int n_cards, n_placed;
    uint64_t bandwidth[SPLIT_CARDS];
};

static uint64_t layer_bytes(const struct model *m, const struct fit_way *w, int i) {
    return (m->dense + (i < LAYERS - m->n_placed - w->n_left ? m->experts : 0)) * MIB;
}
static uint64_t fixed_bytes(const struct model *m, const struct fit_way *w) {
    return (uint64_t)w->n_ubatch * m->per_token * 1024 + (w->from ? m->copy * MIB : 0);
}
static int layers(void *ud, const struct fit_way *w, struct split *to, struct err *e) {
    const struct model *m = ud;
    if (m->refuse) return err_set(e, ERR_USAGE, "no such card");
    for (int i = 0; i < LAYERS; i++) {
        to->layer[i].want = m->want[i];
        for (int c = 0; c < m->n_cards; c++) to->layer[i].bytes[c] = layer_bytes(m, w, i);
    }
    for (int c = 0; c < m->n_cards; c++) {
        to->card[c].fixed = fixed_bytes(m, w);
        to->card[c].last = m->head * MIB;
        to->card[c].bandwidth = m->bandwidth[c];
    }
    return 0;
}
static int cards(void *ud, const struct fit_way *w, const uint8_t *card_of, struct fit_need *need,
                 struct err *e) {
    const struct model *m = ud;
    (void)e;
    for (int c = 0; c < m->n_cards; c++) need[c] = (struct fit_need){fixed_bytes(m, w), MIB};
    for (int i = 0; i < LAYERS; i++) need[card_of[i]].bytes += layer_bytes(m, w, i);
    need[card_of[LAYERS - 1]].bytes += m->head * MIB;
    return 0;
}

static struct model plain(int n_cards) {
    struct model m = {.dense = 10, .experts = 90, .n_cards = n_cards};
    memset(m.want, SPLIT_FREE, sizeof m.want);
    return m;
}
/* Returns a request for cards of `have` MiB each. */
static struct fit_ask ask(struct model *m, const uint64_t *have) {
    struct fit_ask a = {.sizes = {m, layers, cards},
                        .n_cards = m->n_cards,
                        .n_layers = LAYERS,
                        .n_placed = m->n_placed,
                        .n_movable = LAYERS - m->n_placed,
                        .stream_from = -1,
                        .usual_from = 128,
                        .least_from = 9,
                        .n_ctx = 4096,
                        .wanted_ubatch = 512};
    for (int c = 0; c < m->n_cards; c++)
        a.card[c] = (struct fit_limit){have[c] * MIB, (have[c] + 1) * MIB};
    return a;
}
static uint8_t of[LAYERS];
static struct fit decide(const struct fit_ask *a) {
    struct fit f = {.card_of = of};
    struct err e;
    CHECK_OK(fit_decide(a, &f, &e));
    return f;
}
static int count(int card) {
    int n = 0;
    for (int i = 0; i < LAYERS; i++) n += of[i] == card;
    return n;
}

/* Tests all layers on one card: ten of 100 MiB. */
static void test_one_card(void) {
    struct model m = plain(1);
    struct fit_ask a = ask(&m, (const uint64_t[]){1000});
    struct fit f = decide(&a);
    CHECK_EQ_I64(f.short_of, -1);
    CHECK_EQ_I64(f.way.n_left, 0);
    CHECK_EQ_I64(f.way.n_ubatch, 512);
    CHECK(f.need[0].bytes == 1000 * (uint64_t)MIB);
    a.card[0].room--; /* rounding of allocations takes 1 MiB more: one block's experts are moved
                       * out */
    f = decide(&a);
    CHECK_EQ_I64(f.way.n_left, 1);
    CHECK(f.need[0].bytes == 910 * (uint64_t)MIB);
}

/* Checks that cards of unequal memory get layers in proportion, and that the head counts with the
 * last layer. */
static void test_unequal_cards(void) {
    struct model m = plain(3);
    const struct fit_ask a = ask(&m, (const uint64_t[]){600, 200, 400});
    struct fit f = decide(&a);
    CHECK_EQ_I64(f.short_of, -1);
    CHECK_EQ_I64(f.way.n_left, 0);
    CHECK(count(0) == 5 && count(1) <= 2 && count(2) >= 3 && count(2) <= 4);
    for (int i = 1; i < LAYERS; i++) CHECK(of[i] >= of[i - 1]);
    m.head = 150; /* leaves two layers for the last card */
    f = decide(&a);
    CHECK_EQ_I64(f.short_of, -1);
    CHECK_EQ_I64(f.way.n_left, 0);
    CHECK_EQ_I64(count(2), 2);
    /* A card that is three times as fast is filled first; the others take the rest. */
    m.head = 0;
    m.bandwidth[0] = m.bandwidth[1] = 1000;
    m.bandwidth[2] = 3000;
    f = decide(&a);
    CHECK_EQ_I64(f.short_of, -1);
    CHECK_EQ_I64(count(2), 4);
}

/* Tests 1000 MiB of layers on a card of 600: experts of the last blocks are moved out, as few as
 * possible. */
static void test_larger_than_memory(void) {
    struct model m = plain(2);
    struct fit_ask a = ask(&m, (const uint64_t[]){300, 300});
    struct fit f = decide(&a);
    CHECK_EQ_I64(f.short_of, -1);
    CHECK_EQ_I64(f.way.n_left, 5); /* 3 layers; 2 and 5 without experts */
    CHECK_EQ_I64(count(0), 3);
    /* Experts that are in main memory anyway are not counted again. */
    m.n_placed = 3;
    a.n_placed = 3;
    a.n_movable = LAYERS - 3;
    f = decide(&a);
    CHECK_EQ_I64(f.way.n_left, 2);
    /* Even without experts the layers are too large for cards of 40; the error names one. */
    m.n_placed = 0;
    a = ask(&m, (const uint64_t[]){40, 40});
    f = decide(&a);
    CHECK(f.short_of == 0 || f.short_of == 1);
    CHECK_EQ_I64(f.way.n_left, LAYERS);
}

/* Tests the buffer for copies of experts, which may displace at most half as many blocks again, or
 * any number if copies were requested. */
static void test_copies(void) {
    struct model m = plain(1);
    m.copy = 100;
    struct fit_ask a = ask(&m, (const uint64_t[]){820});
    struct fit f = decide(&a);
    CHECK_EQ_I64(f.way.n_left, 2);
    CHECK_EQ_I64(f.way.from, 0);
    a.stream_from = 0; /* 2 + 1 blocks make room for 90 of 100 */
    f = decide(&a);
    CHECK_EQ_I64(f.way.n_left, 2);
    CHECK_EQ_I64(f.way.from, 0);
    CHECK(!f.cannot_copy);
    m.copy = 90;
    f = decide(&a);
    CHECK_EQ_I64(f.way.n_left, 3);
    CHECK_EQ_I64(f.way.from, 128);
    m.copy = 100;
    a.stream_from = 64;
    f = decide(&a);
    CHECK_EQ_I64(f.way.n_left, 4);
    CHECK_EQ_I64(f.way.from, 64);
    a.stream_from = 2; /* too short */
    CHECK_EQ_I64(decide(&a).way.from, 9);
    a.stream_from = 1024; /* longer than any pass */
    f = decide(&a);
    CHECK_EQ_I64(f.way.n_left, 2);
    CHECK_EQ_I64(f.way.from, 0);
    a.stream_from = 64;
    m.copy = 1000; /* larger than the card */
    f = decide(&a);
    CHECK(f.cannot_copy && f.short_of == -1);
    CHECK_EQ_I64(f.way.n_left, 2);
    CHECK_EQ_I64(f.way.from, 0);
}

/* Checks that passes become longer if that displaces nothing from the card. */
static void test_length_of_passes(void) {
    struct model m = plain(1);
    m.per_token = 100; /* 512 tokens: 50 MiB; 1024: 100; 2048: 200 */
    struct fit_ask a = ask(&m, (const uint64_t[]){1120});
    CHECK_EQ_I64(decide(&a).way.n_ubatch, 512);
    a.any_ubatch = true;
    CHECK_EQ_I64(decide(&a).way.n_ubatch, 1024);
    a = ask(&m, (const uint64_t[]){1210});
    a.any_ubatch = true;
    CHECK_EQ_I64(decide(&a).way.n_ubatch, 2048);
    a.n_ctx = 700; /* no longer than a context */
    CHECK_EQ_I64(decide(&a).way.n_ubatch, 700);
    /* 2048 tokens in contexts of 256 are requested: the result is the largest number of whole
     * contexts that fits. */
    a = ask(&m, (const uint64_t[]){1120});
    a.n_ctx = 256;
    a.wanted_ubatch = 2048;
    CHECK_EQ_I64(decide(&a).way.n_ubatch, 1024);
    /* Copies fit alongside passes of 1024 tokens but not of 2048: copies win. */
    m.copy = 500;
    a = ask(&m, (const uint64_t[]){700});
    a.any_ubatch = true;
    a.stream_from = 64;
    const struct fit f = decide(&a);
    CHECK_EQ_I64(f.way.n_ubatch, 1024);
    CHECK_EQ_I64(f.way.from, 64);
    CHECK(!f.cannot_copy);
}

static void test_wishes(void) {
    struct model m = plain(2);
    struct fit_ask a = ask(&m, (const uint64_t[]){600, 600});
    m.want[0] = 1;
    m.want[9] = 0;
    struct fit f = decide(&a);
    CHECK(of[0] == 1 && of[9] == 0);
    m.refuse = true;
    struct err e;
    CHECK_ERR(fit_decide(&a, &f, &e), ERR_USAGE, "no such card");
}

int main(void) {
    RUN(test_one_card);
    RUN(test_unequal_cards);
    RUN(test_larger_than_memory);
    RUN(test_copies);
    RUN(test_length_of_passes);
    RUN(test_wishes);
    return check_done();
}
