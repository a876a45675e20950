// SPDX-License-Identifier: MIT
/* tests/unit/test_learn_block.c - learning of codes: blocks that find back to the weights that they
 * were made for, the gradient of one block of a model compared with differences, and a block that
 * comes closer to the original. */
#include <math.h>

#include "convert/convert.h"
#include "base/mem.h"
#include "base/rng.h"
#include "kernels/kern.h"
#include "mix/learn_block.h"
#include "mix/learn_set.h"
#include "quantize/enc/enc.h"
#include "quantize/enc/unpack.h"
#include "tests/check.h"
#include "tests/unit/micro.h"
#include "tests/unit/with.h"

enum { N = 20, BLOCKS = 6, STEPS = 600, CHUNKS = 24, PASSES = 8 };
static const enum qtype types[] = {QT_Q2_K,  QT_Q3_K,    QT_Q4_K,  QT_IQ2_XXS, QT_IQ2_XS,
                                   QT_IQ2_S, QT_IQ3_XXS, QT_IQ3_S, QT_Q5_K,    QT_IQ4_XS,
                                   QT_Q4_0,  QT_Q4_1,    QT_Q5_0,  QT_Q5_1,    QT_IQ4_NL};

/* Decodes blocks. */
static void decode(enum qtype type, const void *blk, float *to, int64_t n) {
    struct kern ref;
    kern_init(&ref, KERN_REF);
    ref.op[type].decode(blk, to, n);
}

/* Fills n bytes with random ones. */
static void fill(uint8_t *to, size_t n, struct rng *r) {
    for (size_t i = 0; i < n; i++) to[i] = (uint8_t)(rng_unit(r) * 256);
}

/* Tests that random blocks, unpacked, have the decoded weights, and packed again the same bytes. */
static void test_unpack(void) {
    struct rng r;
    rng_seed(&r, 1);
    for (size_t k = 0; k < COUNT_OF(types); k++) {
        const struct qtype_info *t = qtype_info(types[k]);
        for (int trial = 0; trial < 50; trial++) {
            uint8_t blk[256], again[256];
            float x[QK];
            struct enc_raw o;
            struct grid_block grid;
            fill(blk, (size_t)t->block_bytes, &r);
            for (int i = 0; i < t->scale.n; i++) /* finite scales */
                blk[t->scale.off[i] + 1] &= 0x3f;
            decode(types[k], blk, x, t->block_elems);
            if (enc_can_unpack_grid(types[k])) {
                enc_unpack_grid(types[k], blk, &grid);
                enc_pack_grid(types[k], &grid, again);
            } else {
                enc_unpack(types[k], blk, &o);
                for (int i = 0; i < o.n; i++)
                    if (enc_raw_value(&o, i) != x[i]) CHECK_FAIL("%s: weight %d", t->name, i);
                enc_blocks_find(types[k])->pack(&o, again);
            }
            if (memcmp(blk, again, (size_t)t->block_bytes) != 0) CHECK_FAIL("%s", t->name);
        }
    }
    CHECK(!enc_can_unpack(QT_IQ2_XS) && !enc_can_unpack_grid(QT_Q2_K));
    CHECK(!learn_can_codes(QT_IQ1_S) && !learn_can_codes(QT_F32));
}

/* Turns the signs of the two weights of an octet that have the lowest levels. */
static void turn_two(const struct grid_spec *s, struct grid_block *o, int octet) {
    int low[2] = {0, 1}, level[8];
    for (int i = 0; i < 8; i++)
        level[i] = grid_levels(s, o->index[(8 * octet + i) / s->per])[i % s->per];
    for (int i = 2; i < 8; i++) {
        const int k = level[low[0]] > level[low[1]] ? 0 : 1;
        if (level[i] < level[low[k]]) low[k] = i;
    }
    o->sign[octet] ^= (uint8_t)(1 << low[0] | 1 << low[1]);
}
/* Replaces the first entry of each octet by a close one, and turns two signs. */
static void damage_grid(enum qtype type, uint8_t *blk) {
    const int per = grid_spec_of(type)->per;
    struct grid_block o;
    enc_unpack_grid(type, blk, &o);
    for (int i = 0; i < QK / 8; i++) {
        uint16_t *entry = &o.index[i * 8 / per];
        for (int k = 0; k < 8; k++) { /* the list is in the order of entries, not of distance */
            const uint16_t other = enc_grid_around(type)->entry[*entry][k * 13];
            if (other == *entry) continue;
            *entry = other;
            break;
        }
        turn_two(grid_spec_of(type), &o, i);
    }
    enc_pack_grid(type, &o, blk);
}
/* Moves every third code by one level. */
static void damage_open(enum qtype type, uint8_t *blk) {
    struct enc_raw o;
    enc_unpack(type, blk, &o);
    for (int i = 0; i < o.n; i += 3) {
        if (enc_raw_step(&o, i / o.sub) == 0) continue;
        const int way = o.l[i] == o.lv.hi ? -1 : 1;
        o.l[i] = (int8_t)(o.lv.tab ? o.lv.tab[enc_level_index(o.l[i]) + way] : o.l[i] + way);
    }
    enc_blocks_find(type)->pack(&o, blk);
}
/* Changes codes of blocks. */
static void damage(enum qtype type, uint8_t *blk, int64_t n_blocks) {
    for (int64_t b = 0; b < n_blocks; b++, blk += qtype_info(type)->block_bytes)
        (enc_can_unpack(type) ? damage_open : damage_grid)(type, blk);
}

/* Tests that changed codes find back to the weights that blocks were made for, and that the result
 * does not depend on how blocks are divided. */
static void one_type(enum qtype type) {
    static float want[BLOCKS * QK], x[BLOCKS * QK], g[BLOCKS * QK];
    static uint8_t blk[BLOCKS * QK], was[BLOCKS * QK], parts[BLOCKS * QK];
    const struct qtype_info *t = qtype_info(type);
    const int n = BLOCKS * t->block_elems;
    const size_t n_bytes = (size_t)t->block_bytes * BLOCKS;
    struct learned *l = NULL, *of = NULL;
    struct err e;
    struct rng r;
    rng_seed(&r, 2);
    for (int i = 0; i < n; i++) x[i] = 0.05f * rng_normal(&r);
    enc_find(type)->row(x, NULL, n, was, SEARCH_FAST);
    decode(type, was, want, n);
    memcpy(blk, was, n_bytes);
    damage(type, blk, BLOCKS);
    CHECK(memcmp(blk, was, n_bytes) != 0);
    memcpy(parts, blk, n_bytes);
    CHECK_OK(learn_new(&l, type, blk, BLOCKS, &e));
    CHECK_OK(learn_new(&of, type, blk, BLOCKS, &e));
    CHECK_OK(learn_codes(l, &e));
    CHECK_OK(learn_codes(of, &e));
    learn_codes_begin(l, 0, BLOCKS, want, blk);
    learn_codes_begin(of, 0, BLOCKS, want, blk);
    for (int s = 0; s < STEPS; s++) {
        const struct learn_rate rate = {.code = 0.04 * (1 - (double)s / STEPS)};
        decode(type, blk, g, n);
        for (int i = 0; i < n; i++) g[i] -= want[i];
        learn_step(l, 0, BLOCKS, g, rate, s + 1, blk);
        learn_step(of, 3, BLOCKS, g + 3 * t->block_elems, rate, s + 1, parts);
        learn_step(of, 0, 3, g, rate, s + 1, parts);
    }
    CHECK(memcmp(blk, parts, n_bytes) == 0);
    int left = 0;
    for (size_t i = 0; i < n_bytes; i++) left += blk[i] != was[i];
    /* a grid entry that is not among those around the current one may stay out of reach */
    if (left > (enc_can_unpack(type) ? 0 : (int)n_bytes / 100))
        CHECK_FAIL("%s: %d of %d bytes did not find back", t->name, left, (int)n_bytes);
    memcpy(blk, was, n_bytes); /* gradients that are not finite change nothing */
    for (int i = 0; i < n; i++) g[i] = i % 2 ? INFINITY : NAN;
    learn_codes_begin(l, 0, BLOCKS, want, blk);
    learn_step(l, 0, BLOCKS, g, (struct learn_rate){.code = 0.1}, 1, blk);
    CHECK(memcmp(blk, was, n_bytes) == 0);
    learn_free(l);
    learn_free(of);
}

static void test_codes(void) {
    for (size_t k = 0; k < COUNT_OF(types); k++) one_type(types[k]);
}

/* ---- one block of a model -------------------------------------------------------------------- */

/* Converts a golden model to F32. */
static struct model *converted(const char *src) {
    struct err e = {0};
    struct model *m = NULL;
    struct convert_report r;
    const struct convert_opts o = {
        .src = src, .out = tmp_path("m.gguf"), .type = "f32", .overwrite = true};
    CHECK_OK(convert_run(&o, &r, &e));
    CHECK_OK(model_open(&m, tmp_path("m.gguf"), &e));
    return m;
}

struct rows { /* the residual after each block */
    float *v; /* [blocks + 1][N][width] */
    int64_t width;
};
static void see_rows(void *ud, const struct session_shown *r) {
    const struct rows *o = ud;
    memcpy(o->v + ((r->block + 1) * N + r->pos) * o->width, r->x,
           (size_t)(r->n_rows * o->width) * sizeof(float));
}
/* Returns the inputs of all blocks, and the output of the last one, for a text. */
static float *residuals(const struct model *m, const int32_t *ids) {
    struct err e;
    struct session *s = NULL;
    struct rows o = {NULL, m->hp.d[HD_EMBD]};
    float *hidden = xcalloc((size_t)(N * o.width), sizeof *hidden);
    o.v = xcalloc((size_t)((m->hp.d[HD_LAYERS] + 1) * N * o.width), sizeof *o.v);
    CHECK_OK(session_new(&s, m, &(struct session_opts){.n_ctx = N, .n_ubatch = N}, &e));
    session_observe(s, &(struct session_probe){.ud = &o, .residual = see_rows});
    CHECK_OK(session_forward(s, ids, N, hidden, &e));
    session_free(s);
    free(hidden);
    return o.v;
}

/* Returns the squared distance of a block's output from `target`, of the whole model's pass. */
static double distance(const struct model *m, int block, const int32_t *ids, const float *target) {
    const int64_t n = N * m->hp.d[HD_EMBD];
    float *v = residuals(m, ids);
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += ((double)v[(block + 1) * n + i] - (double)target[i]) *
               ((double)v[(block + 1) * n + i] - (double)target[i]);
    free(v);
    return sum;
}

/* Tests the gradient of one block's error with respect to a factor of one of its weights. */
static void one_gradient(const struct model *m, int block, const char *name) {
    struct err e;
    int32_t ids[N];
    for (int i = 0; i < N; i++) ids[i] = 7 * i % 200;
    struct model *now = with_scaled(m, name, 1.3f);
    const int64_t n = N * m->hp.d[HD_EMBD];
    float *v = residuals(m, ids);
    const float *target = v + (block + 1) * n;
    const struct weight *w = model_find_weight(now, name);
    struct with_factor f = {name, w->data, w->ne[1], w->ne[0], 0, 0};
    struct grad *g = NULL;
    double loss = 0, again = 0;
    CHECK_OK(grad_new(&g, now, N, kern_isa_best(), NULL, &e));
    grad_observe(g, with_factor_see, &f);
    CHECK_OK(grad_block(g, block, ids, v + block * n, target, N, false, &again, &e));
    CHECK(f.by == 0);
    CHECK_OK(grad_block(g, block, ids, v + block * n, target, N, true, &loss, &e));
    const double want = distance(now, block, ids, target);
    CHECK(loss == again && loss > 0 && f.other == 0);
    CHECK_CLOSE(loss, want, 1e-4 * want);
    double best = 1e300, slope = 0;
    for (float eps = 2e-2f; eps > 1e-3f; eps /= 3) {
        struct model *up = with_scaled(now, name, 1 + eps), *down = with_scaled(now, name, 1 - eps);
        const double by = (distance(up, block, ids, target) - distance(down, block, ids, target)) /
                          (4 * (double)eps);
        if (fabs(by - f.by) < best) slope = by;
        best = fmin(best, fabs(by - f.by));
        model_close(up);
        model_close(down);
    }
    CHECK_CLOSE(f.by, slope, 0.01 * fabs(slope));
    CHECK_ERR(grad_block(g, block, ids, v, target, N + 1, true, &loss, &e), ERR_USAGE, "fit");
    grad_free(g);
    free(v);
    model_close(now);
}

static void test_gradient(void) {
    struct model *m = converted("tests/golden/models/qwen3");
    one_gradient(m, 0, "blk.0.ffn_down.weight");
    one_gradient(m, 1, "blk.1.attn_v.weight");
    model_close(m);
}

/* Tests that a block that reads more than the residual is refused. */
static void test_shared(void) {
    struct model *m = converted(micro_folder("tests/golden/archs/gemma3n", NULL));
    struct err e;
    struct grad *g = NULL;
    int32_t ids[N] = {0};
    double loss;
    float *x = xcalloc((size_t)(N * 4096), sizeof *x);
    CHECK_OK(grad_new(&g, m, N, kern_isa_best(), NULL, &e));
    CHECK_ERR(grad_block(g, 1, ids, x, x, N, true, &loss, &e), ERR_USAGE, "block 1 shares");
    grad_free(g);
    free(x);
    model_close(m);
}

/* ---- learning -------------------------------------------------------------------------------- */

static const char matrix[] = "blk.1.ffn_down.weight";

struct trial { /* a model whose block 1 has one encoded matrix */
    const struct model *base;
    int32_t ids[CHUNKS * N];
    float *x, *y; /* [CHUNKS][N][width] input and output of block 1 of the base */
};
/* Fills the rows of block 1. */
static void trial_rows(struct trial *t) {
    const int64_t n = N * t->base->hp.d[HD_EMBD];
    t->x = xcalloc((size_t)(2 * CHUNKS * n), sizeof *t->x);
    t->y = t->x + CHUNKS * n;
    for (int i = 0; i < CHUNKS; i++) {
        float *v = residuals(t->base, t->ids + (ptrdiff_t)i * N);
        memcpy(t->x + i * n, v + n, (size_t)n * sizeof *v);
        memcpy(t->y + i * n, v + 2 * n, (size_t)n * sizeof *v);
        free(v);
    }
}
/* Learns the blocks blk of the matrix, in a pool of n_threads. */
static void learn(const struct trial *t, uint8_t *blk, enum qtype type, int n_threads,
                  struct learn_block_report *r) {
    struct err e;
    struct pool *pool = NULL;
    struct model *now = with_weight(t->base, matrix, blk, type, NULL);
    CHECK_OK(pool_new(&pool, n_threads, &e));
    struct work w = {.isa = kern_isa_best(), .pool = pool};
    const struct learn_tensor one = {matrix, blk};
    const struct learn_block_opts o = {.o = {.w = &w,
                                             .base = t->base,
                                             .now = now,
                                             .tensor = &one,
                                             .n_tensors = 1,
                                             .ids = t->ids,
                                             .ctx = N,
                                             .n_chunks = CHUNKS,
                                             .passes = PASSES},
                                       .block = 1,
                                       .x = t->x,
                                       .y = t->y};
    CHECK_OK(learn_block(&o, r, &e));
    model_close(now);
    pool_free(pool);
}
/* Returns the squared error of block 1's output on held-out chunks. */
static double held_out(const struct trial *t, uint8_t *blk, enum qtype type) {
    struct model *now = with_weight(t->base, matrix, blk, type, NULL);
    const int64_t n = N * t->base->hp.d[HD_EMBD];
    double sum = 0;
    for (int i = 0; i < CHUNKS; i++)
        if (learn_is_held(i)) sum += distance(now, 1, t->ids + (ptrdiff_t)i * N, t->y + i * n);
    model_close(now);
    return sum;
}

/* Tests that learning brings a block closer to the original on text that no step saw, by codes, and
 * that the bytes do not depend on the number of threads. */
static void test_block(void) {
    struct model *m = converted("tests/golden/models/mistral");
    const struct weight *like = model_find_weight(m, matrix);
    struct trial t = {.base = m};
    struct rng rng;
    rng_seed(&rng, 9);
    for (int i = 0; i < CHUNKS * N; i++) t.ids[i] = (int32_t)(rng_unit(&rng) * 1000);
    trial_rows(&t);
    for (size_t k = 0; k < COUNT_OF(types); k += 2) {
        const struct qtype_info *of = qtype_info(types[k]);
        const int64_t n = like->ne[0] * like->ne[1];
        const size_t n_bytes = (size_t)(n / of->block_elems) * (size_t)of->block_bytes;
        uint8_t *blk = xcalloc(3, n_bytes), *again = blk + n_bytes, *was = again + n_bytes;
        struct learn_block_report r, r2;
        enc_find(types[k])->row(like->data, NULL, n, was, SEARCH_FAST);
        damage(types[k], was, n / of->block_elems);
        memcpy(blk, was, n_bytes);
        memcpy(again, was, n_bytes);
        const double before = held_out(&t, blk, types[k]);
        learn(&t, blk, types[k], 1, &r);
        CHECK_CLOSE(r.before, before, 1e-3 * before);
        CHECK_CLOSE(r.after, held_out(&t, blk, types[k]), 1e-3 * before);
        if (!(r.after < (enc_can_unpack(types[k]) ? 0.5 : 1) * r.before))
            CHECK_FAIL("%s: %g of the error is left", qtype_name(types[k]), r.after / r.before);
        learn(&t, again, types[k], 2, &r2);
        CHECK(memcmp(blk, again, n_bytes) == 0 && r.after == r2.after && r.before == r2.before);
        free(blk);
    }
    free(t.x);
    model_close(m);
}

int main(void) {
    tmp_make();
    RUN(test_unpack);
    RUN(test_codes);
    RUN(test_gradient);
    RUN(test_shared);
    RUN(test_block);
    tmp_remove();
    return check_done();
}
