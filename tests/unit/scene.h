// SPDX-License-Identifier: MIT
/* tests/unit/scene.h - prompts with images whose logits are recorded from transformers
 * (tests/oracle/session_images.py). */
#ifndef HONE_TESTS_UNIT_SCENE_H
#define HONE_TESTS_UNIT_SCENE_H

#include "tests/unit/micro.h"
#include "runtime/engine/seq.h"

static const double scene_tol = 5e-4;
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
} scene_cases[] = {
    {"qwen25vl", "session_images", 0, false},  {"qwen3vl", "archs", 2, false},
    {"qwen3vlmoe", "archs", 2, false},         {"qwen35", "session_images", 0, false},
    {"qwen35moe", "session_images", 0, false}, {"gemma3", "session_images", 0, true},
    {"mistral3", "session_images", 0, false},  {"glm4v", "archs", 0, false},
    {"gemma4unified", "archs", 0, true},       {"gemma4e", "session_images", 0, false},
};

/* Makes rows as images.py does. */
static inline float *made_rows(const char *name, int64_t n) {
    struct rng rng = {0xcbf29ce484222325u};
    for (const char *c = name; *c; c++) rng.s = (rng.s ^ (uint8_t)*c) * 0x100000001b3u;
    float *v = xcalloc((size_t)n, sizeof *v);
    for (int64_t i = 0; i < n; i++)
        v[i] = (float)(0.75 * ((double)(rng_u64(&rng) >> 40) * 0x1p-23 - 1));
    return v;
}

static inline void add_image(struct scene *c, const float *grid, int n_deep) {
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

static inline bool scene_open(struct scene *c, const struct image_case *of) {
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
static inline void scene_close(struct scene *c) {
    for (int i = 0; i < c->n_images; i++) {
        free((void *)(uintptr_t)c->image[i].rows);
        free((void *)(uintptr_t)c->image[i].deep);
    }
    golden_release(&c->g);
    model_close(c->m);
}

/* Token i of the prompt as a row of sequence q. */
static inline struct session_row row_at(const struct scene *c, int64_t i, struct seq *q) {
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
static inline int feed(struct session *s, const struct scene *c, struct seq *q, int64_t from,
                       int64_t to, float *l, struct err *e) {
    struct session_row row[512];
    for (int64_t i = from; i < to; i++) row[i - from] = row_at(c, i, q);
    return session_pass(s, &(struct session_pass){.row = row, .n = to - from, .logits = l}, e);
}

/* The end of a piece of at most k tokens that starts at i; an image is not cut if that is not
 * possible. */
static inline int64_t piece_end(const struct scene *c, int64_t i, int64_t k) {
    int64_t end = min_i64(i + k, c->g.n_ids);
    for (int j = 0; j < c->n_images && c->whole; j++)
        if (end > c->first[j] && end < c->first[j] + c->image[j].n)
            end = c->first[j] + c->image[j].n;
    return end;
}

static inline float *run_all(const struct scene *c, const struct session_opts *o,
                             const int *pieces) {
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
static inline double distance(const struct golden *g, const float *l, int64_t v) {
    double diff = 0;
    for (int64_t p = 0; 4 * p + 3 < g->n_ids; p++)
        for (int64_t i = 0; i < v / 8; i++)
            diff = fmax(diff, fabs((double)l[(4 * p + 3) * v + 8 * i] -
                                   (double)g->logits[p * (v / 8) + i]));
    return diff;
}

#endif
