// SPDX-License-Identifier: MIT
/* tests/unit/golden.h - forward passes of a converted folder against recorded float32 logits, in
 * every batching, on every kernel set, and the same bits for 1, 2 and 3 threads.
 *
 * golden.safetensors holds ids, and logits of positions 1, 3, 5, ... (every second one). */
#ifndef HONE_TESTS_GOLDEN_H
#define HONE_TESTS_GOLDEN_H

#include <sys/stat.h>
#include <unistd.h>

#include "convert/convert.h"
#include "base/buf.h"
#include "containers/gguf.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"
#include "containers/safetensors.h"
#include "runtime/engine/session.h"
#include "tests/check.h"
#include "tests/unit/tmpdir.h"

/* Converts a folder to `out` as F32 and opens it; NULL on failure. */
static inline struct model *golden_open(const char *folder, const char *out) {
    struct err e = {0};
    struct convert_opts o = {.src = folder, .out = out, .type = "f32", .overwrite = true};
    struct convert_report r;
    struct model *m = NULL;
    CHECK_OK(convert_run(&o, &r, &e));
    CHECK_OK(model_open(&m, out, &e));
    return m;
}

/* Converts only the MTP block of a folder, to `out`; returns out. */
static inline const char *golden_mtp_file(const char *folder, const char *out, const char *type) {
    struct err e = {0};
    struct convert_report r;
    const struct convert_opts o = {
        .src = folder, .out = out, .type = type, .mtp_only = true, .overwrite = true};
    CHECK_OK(convert_run(&o, &r, &e));
    return out;
}

/* Copies a folder with changes to config.json: from/to pairs, NULL-terminated; each `from` must
 * occur. Other files are links, the tokenizer's to folder `tok`. The copy is "hf" in the scratch
 * folder; the next call replaces it. */
static inline const char *golden_edited(const char *folder, const char *tok,
                                        const char *const *edit) {
    static const char *const linked[] = {"model.safetensors", "tokenizer.json",
                                         "tokenizer_config.json", "generation_config.json"};
    struct err e = {0};
    char *cwd = getcwd(NULL, 0), *text = NULL, *path = xasprintf("%s/config.json", folder);
    size_t n = 0;
    mkdir(tmp_path("hf"), 0700);
    for (size_t i = 0; cwd && i < sizeof linked / sizeof *linked; i++) {
        char *to = xasprintf("%s/hf/%s", tmp_dir, linked[i]);
        char *from = xasprintf("%s/%s/%s", cwd, i ? tok : folder, linked[i]);
        unlink(to);
        if (symlink(from, to)) CHECK_FAIL("cannot link %s", to);
        free(to);
        free(from);
    }
    CHECK_OK(io_read_file(&text, &n, path, 1 << 20, &e));
    for (; text && edit && edit[0]; edit += 2) {
        char *at = strstr(text, edit[0]);
        if (!at) {
            CHECK_FAIL("config.json has no %s", edit[0]);
            continue;
        }
        struct buf b = {0};
        buf_add(&b, text, (size_t)(at - text));
        buf_str(&b, edit[1]);
        buf_str(&b, at + strlen(edit[0]));
        buf_chr(&b, 0);
        free(text);
        text = xasprintf("%s", (const char *)b.data);
        buf_release(&b);
    }
    if (text) tmp_write("hf/config.json", text, strlen(text));
    free(cwd);
    free(text);
    free(path);
    return tmp_path("hf");
}

/* *n: number of elements. */
static inline float *golden_floats(const struct st *s, const char *name, int64_t *n) {
    struct err e = {0};
    for (int64_t i = 0; i < st_n_tensors(s); i++) {
        const struct st_tensor *t = st_tensor_at(s, i);
        if (strcmp(t->name, name) != 0) continue;
        float *v = xcalloc((size_t)t->n_elems + 1, sizeof *v);
        CHECK_OK(st_to_f32(t, 0, t->n_elems, v, &e));
        *n = t->n_elems;
        return v;
    }
    CHECK_FAIL("%s: no tensor %s", st_path(s), name);
    *n = 0;
    return xcalloc(1, sizeof(float));
}

static inline double golden_diff(const float *a, const float *b, int64_t n) {
    double m = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]);
        if (!(d <= m)) m = d;
    }
    return m;
}

/* Feeds ids in pieces (0-terminated; the last repeats) and returns the logits of all positions.
 * hidden: NULL or [n][n_embd]. */
static inline float *golden_run(const struct model *m, const struct session_opts *o,
                                const int32_t *ids, int64_t n, const int *pieces, float *hidden,
                                session_show_fn see, void *ud) {
    struct err e = {0};
    struct session *s = NULL;
    int64_t d = m->hp.d[HD_EMBD], v = m->hp.d[HD_VOCAB];
    float *h = xcalloc((size_t)(n * d), sizeof *h), *l = xcalloc((size_t)(n * v), sizeof *l);
    CHECK_OK(session_new(&s, m, o, &e));
    session_observe(s, &(struct session_probe){.ud = ud, .residual = see});
    for (int64_t i = 0; s && i < n;) {
        int64_t k = min_i64(*pieces, n - i);
        CHECK_OK(session_forward(s, ids + i, k, h + i * d, &e));
        i += k;
        if (pieces[1]) pieces++;
    }
    if (s) CHECK_OK(session_head(s, h, n, l, &e));
    if (hidden) memcpy(hidden, h, (size_t)(n * d) * sizeof *h);
    free(h);
    session_free(s);
    return l;
}

static const int golden_all[] = {512, 0}, golden_uneven[] = {1, 7, 32, 3, 37, 0},
                 golden_one[] = {1, 0};
static const struct {
    const char *name;
    const int *pieces;
    int64_t n_ubatch;
} golden_batching[] = {{"one batch", golden_all, 0},
                       {"1,7,32,3,37", golden_uneven, 0},
                       {"token by token", golden_one, 0},
                       {"ubatch 20", golden_all, 20}};

struct golden {
    struct st *st;
    int32_t *ids;
    int64_t n_ids;
    float *logits;
    int64_t n_logits;
};
static inline bool golden_load(struct golden *g, const char *folder) {
    struct err e = {0};
    char *path = xasprintf("%s/golden.safetensors", folder);
    memset(g, 0, sizeof *g);
    CHECK_OK(st_open(&g->st, path, &e));
    free(path);
    if (!g->st) return false;
    float *f = golden_floats(g->st, "ids", &g->n_ids);
    g->ids = xcalloc((size_t)g->n_ids + 1, sizeof *g->ids);
    for (int64_t i = 0; i < g->n_ids; i++) g->ids[i] = (int32_t)f[i];
    free(f);
    g->logits = golden_floats(g->st, "logits", &g->n_logits);
    return g->n_ids > 0 && g->n_logits > 0;
}
static inline void golden_release(struct golden *g) {
    st_close(g->st);
    free(g->ids);
    free(g->logits);
}

/* Compares logits for every kernel set and every batching. */
static inline void golden_logits(const struct model *m, const struct golden *g, const char *name,
                                 double tol) {
    int64_t v = m->hp.d[HD_VOCAB], n = g->n_logits / v;
    CHECK_EQ_I64(n, g->n_ids / 2);
    if (n > g->n_ids / 2) return;
    for (int isa = KERN_REF; isa <= (int)kern_isa_best(); isa++)
        for (size_t b = 0; b < sizeof golden_batching / sizeof *golden_batching; b++) {
            struct session_opts o = {.n_ctx = g->n_ids + 16,
                                     .n_ubatch = golden_batching[b].n_ubatch,
                                     .isa = (enum kern_isa)isa};
            float *l =
                golden_run(m, &o, g->ids, g->n_ids, golden_batching[b].pieces, NULL, NULL, NULL);
            double diff = 0;
            for (int64_t i = 0; i < n; i++)
                diff = fmax(diff, golden_diff(l + (2 * i + 1) * v, g->logits + i * v, v));
            printf("%s, %s, %s: max |logit difference| %.3g\n", name,
                   kern_isa_name((enum kern_isa)isa), golden_batching[b].name, diff);
            if (!(diff <= tol)) CHECK_FAIL("%s: %g is more than %g", name, diff, tol);
            free(l);
        }
}

static inline void golden_threads(const struct model *m, const struct golden *g) {
    struct err e = {0};
    size_t bytes = (size_t)(g->n_ids * m->hp.d[HD_VOCAB]) * sizeof(float);
    for (int b = 0; b < 3; b++) {
        float *first = NULL;
        for (int threads = 1; threads <= 3; threads++) {
            struct pool *p = NULL;
            CHECK_OK(pool_new(&p, threads, &e));
            struct session_opts o = {.n_ctx = g->n_ids, .isa = kern_isa_best(), .pool = p};
            float *l =
                golden_run(m, &o, g->ids, g->n_ids, golden_batching[b].pieces, NULL, NULL, NULL);
            if (first) CHECK(memcmp(first, l, bytes) == 0);
            if (first)
                free(l);
            else
                first = l;
            pool_free(p);
        }
        free(first);
    }
}

#endif
